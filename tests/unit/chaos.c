/* Chaos: see chaos.h. */
#include "tests/unit/chaos.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_EXPORTS = 3, MAX_CLIENTS = 10, MAX_CONNS = 3, MAX_PENDING = 90, BLOCK = 512 };

#define MS 1000000ULL

struct world {
	struct sim *sim;
	struct sim_random dice;
	const uint8_t *bytes, *end; /* decide instead of the dice, until they are used up */
	unsigned kinds;
	bool serial;
	uint64_t size;     /* of each store */
	struct sim_disk *disk;
	struct sim_store *stores[2];
	struct sim_export *exports[MAX_EXPORTS];
	struct sim_client *clients[MAX_CLIENTS];
	struct sim_conn *conns[MAX_CLIENTS * MAX_CONNS];
	unsigned nstores, nexports, nclients, nconns;
	uint64_t last_end; /* of the last request: the next one often goes on there */
};

void all_well(const struct sim *sim, const char *what, unsigned long long seed)
{
	if (sim->wrong[0])
		ck_abort_msg("%s, seed %llu, at %llu: %s", what, seed,
			     (unsigned long long)sim->now, sim->wrong);
}

uint64_t chaos_only_seed(void)
{
	const char *seed = getenv("SEED");

	return seed ? strtoull(seed, NULL, 0) : 0;
}

/* One of 0..n-1, from as many bytes as n has; 0 where there are none left. */
static uint64_t from_bytes(struct world *w, uint64_t n)
{
	uint64_t v = 0;

	for (uint64_t rest = n - 1; rest && w->bytes < w->end; rest >>= 8)
		v = v << 8 | *w->bytes++;
	return v % n;
}

static uint64_t below(struct world *w, uint64_t n)
{
	return w->bytes ? from_bytes(w, n) : sim_below(&w->dice, n);
}

static bool chance(struct world *w, unsigned percent)
{
	return below(w, 100) < percent;
}

static const char *some_policy(struct world *w)
{
	unsigned n = 0;

	while (elv_policies[n])
		n++;
	return elv_policies[below(w, n)]->name;
}

/* --- the world --- */

static void make_export(struct world *w, const char *policy)
{
	struct sim_setup setup = {
		.policy = policy,
		.depth = (unsigned)(1 + below(w, chance(w, 50) ? 3 : 16)),
		.rotational = chance(w, 50),
		.no_merges = chance(w, 15),
		.serial = w->serial,
		.max_io = 1024 * (1 + below(w, 6)),
		.max_discard = 1024 * (1 + below(w, 8)),
		.max_age = w->kinds & CHAOS_AGE ? 20 * MS : 0,
	};

	w->exports[w->nexports++] = sim_export_new(w->stores[below(w, w->nstores)], &setup);
}

static enum elv_class some_class(struct world *w)
{
	return chance(w, 70) ? ELV_CLASS_BE : (enum elv_class)below(w, ELV_NUM_CLASSES);
}

/* w has what decides, and what may happen. policy: of the first export. */
static void make_world(struct world *w, const char *policy, uint64_t seed)
{
	struct sim_model model = sim_model_constant(1);
	unsigned kinds = w->kinds;

	w->sim = sim_new(seed);
	w->serial = seed % 5 == 4;
	w->sim->check = w->sim->early = true;
	if (kinds & CHAOS_SMALL && chance(w, 50))
		w->size = 4 * BLOCK;
	w->disk = sim_disk_new(w->sim, &model);
	w->nstores = kinds & CHAOS_EXPORTS ? 1 + (unsigned)below(w, 2) : 1;
	for (unsigned i = 0; i < w->nstores; i++)
		w->stores[i] = sim_store_new(w->disk, BLOCK, w->size);
	make_export(w, policy);
	while (kinds & CHAOS_EXPORTS && w->nexports < MAX_EXPORTS && chance(w, 70))
		make_export(w, some_policy(w));
	for (unsigned i = 0; i < w->nexports; i++)
		for (unsigned n = 2 + (unsigned)below(w, 2); n && w->nclients < MAX_CLIENTS; n--)
			w->clients[w->nclients++] =
				sim_client_new(w->exports[i], 1 + n, 1 + below(w, 1000),
					       some_class(w));
	for (unsigned i = 0; i < w->nclients; i++)
		for (unsigned n = 1 + (unsigned)below(w, MAX_CONNS); n; n--)
			w->conns[w->nconns++] = sim_conn_new(w->clients[i]);
}

static void make_faults(struct world *w)
{
	for (unsigned i = 0; i < w->nstores; i++) {
		struct sim_faults *f = &w->stores[i]->faults;

		*f = (struct sim_faults){ 0 };
		if (w->kinds & CHAOS_FAULTS) {
			f->error = (unsigned)below(w, 8);
			f->short_transfer = (unsigned)below(w, 15);
			if (chance(w, 40)) {
				f->bad_start = below(w, w->size);
				f->bad_end = f->bad_start + 1 + below(w, 2 * BLOCK);
			}
		}
		if (w->kinds & CHAOS_SYNCS) {
			f->sync_error = (unsigned)below(w, 40);
			f->sync_errno = chance(w, 30) ? -28 : -5; /* ENOSPC, EIO */
		}
	}
}

/* --- what happens --- */

static enum elv_op some_op(struct world *w)
{
	static const enum elv_op ops[] = {
		ELV_READ, ELV_READ, ELV_READ, ELV_READ, ELV_WRITE, ELV_WRITE, ELV_WRITE, ELV_WRITE,
		ELV_WRITE, ELV_TRIM, ELV_ZERO, ELV_FLUSH, ELV_CACHE, ELV_STATUS
	};

	return ops[below(w, sizeof(ops) / sizeof(*ops))];
}

static uint64_t some_length(struct world *w, enum elv_op op)
{
	uint64_t max = elv_is_discard(op) || elv_is_unordered(op) ? w->size : 6 * 1024;

	if (max > w->size)
		max = w->size;
	switch (below(w, 4)) {
	case 0:
		return 1 + below(w, 2 * BLOCK);
	case 1:
		return 1 + below(w, max);
	default:
		return BLOCK * (1 + below(w, 4));
	}
}

static void submit(struct world *w)
{
	struct sim_conn *conn = w->conns[below(w, w->nconns)];
	enum elv_op op = some_op(w);
	uint64_t length = some_length(w, op), offset;
	unsigned flags = 0;

	if (!conn->c.open || conn->client->pending > MAX_PENDING / w->nclients)
		return;
	if (chance(w, 15))
		flags |= ELV_FUA;
	if (op == ELV_ZERO && chance(w, 30))
		flags |= ELV_NO_HOLE;
	if (op == ELV_FLUSH) {
		sim_submit(conn, op, 0, 0, flags);
		return;
	}
	if (length > w->size)
		length = w->size;
	offset = below(w, w->size - length + 1);
	if (chance(w, 50))
		offset -= offset % BLOCK;
	if (chance(w, 40) && w->last_end + length <= w->size)
		offset = w->last_end;
	else if (chance(w, 15) && w->last_end >= 2 * length)
		offset = w->last_end - 2 * length; /* before the last one */
	w->last_end = offset + length;
	sim_submit(conn, op, offset, length, flags);
}

static void complete(struct world *w)
{
	if (w->disk->nflights)
		sim_complete(sim_flight(w->disk, (unsigned)below(w, w->disk->nflights)));
}

static void disconnect(struct world *w)
{
	struct sim_conn *conn = w->conns[below(w, w->nconns)];

	if (conn->c.open && chance(w, 30))
		(chance(w, 50) ? sim_close : sim_break)(conn);
	else if (!conn->c.open && !conn->pending)
		sim_reopen(conn);
}

static void tune_policy(struct world *w, struct sim_export *x)
{
	const struct elv_policy *p = x->e.policy;
	unsigned n = 0;
	const struct tunable *row;
	uint64_t unit, max;

	while (p->rows[n].name)
		n++;
	if (!n)
		return;
	row = &p->rows[below(w, n)];
	unit = tunable_unit_factor(row->unit);
	max = row->max > 100 ? row->min + 100 : row->max;
	sim_tune(x, p->name, row->name,
		 chance(w, 50) ? tunable_default(row)
			       : unit * (row->min + below(w, max - row->min + 1)));
}

static void tune(struct world *w)
{
	struct sim_export *x = w->exports[below(w, w->nexports)];
	struct sim_client *c = w->clients[below(w, w->nclients)];
	struct elv_client_params cp = { 1 + below(w, 1000), some_class(w) };
	struct elv_params p = x->e.params;

	switch (below(w, 3)) {
	case 0:
		p.queue_depth = 1 + below(w, 40);
		p.max_sectors_kb = 512 * (1 + below(w, 10));
		p.max_discard_kb = 512 * (1 + below(w, 20));
		p.nomerges = chance(w, 70) ? 0 : below(w, 3);
		if (w->kinds & CHAOS_AGE)
			p.max_queue_age = below(w, 3) * 20 * MS;
		sim_set_params(x, &p, chance(w, 50));
		break;
	case 1:
		tune_policy(w, x);
		break;
	case 2:
		elv_client_set_params(&c->c, &cp, w->sim->now);
		break;
	}
}

static void let_time_pass(struct world *w)
{
	struct sim *sim = w->sim;

	if (w->disk->wake != ELV_NEVER && w->disk->wake > sim->now && chance(w, 20))
		sim->now = w->disk->wake;
	else
		sim->now += chance(w, 70) ? below(w, 100000) : below(w, 4 * MS);
}

static void one_step(struct world *w)
{
	let_time_pass(w);
	switch (below(w, 20)) {
	case 0 ... 8:
		for (uint64_t n = 1 + below(w, 6); n; n--)
			submit(w);
		break;
	case 9 ... 16:
		complete(w);
		break;
	case 17:
		if (w->kinds & CHAOS_CLOSE)
			disconnect(w);
		break;
	case 18:
		if (w->kinds & CHAOS_SWITCH && chance(w, 50))
			sim_switch(w->exports[below(w, w->nexports)], some_policy(w));
		break;
	case 19:
		if (w->kinds & CHAOS_TUNE)
			tune(w);
		break;
	}
	if (chance(w, 70))
		sim_dispatch(w->disk);
}

/* Nothing goes wrong any more, and all ends. Returns the hash of the run. */
static uint64_t end_world(struct world *w, const char *what, uint64_t seed)
{
	uint64_t hash;

	for (unsigned i = 0; i < w->nstores; i++)
		w->stores[i]->faults = (struct sim_faults){ 0 };
	sim_drain(w->sim);
	all_well(w->sim, what, seed);
	ck_assert_uint_eq(w->sim->inserted, w->sim->replies);
	hash = w->sim->trace;
	sim_free(w->sim);
	return hash;
}

uint64_t chaos(const char *policy, unsigned kinds, uint64_t seed, unsigned steps)
{
	struct world w = { .dice = { seed * 77 + 1 }, .kinds = kinds, .size = 32 << 10 };
	char what[160];

	make_world(&w, policy, seed);
	for (unsigned i = 0; i < steps; i++) {
		if (i % 200 == 0)
			make_faults(&w);
		one_step(&w);
		if (w.sim->wrong[0]) {
			snprintf(what, sizeof(what), "chaos %s kinds %u step %u (now %s)", policy,
				 kinds, i, w.exports[0]->e.policy->name);
			all_well(w.sim, what, seed);
		}
	}
	snprintf(what, sizeof(what), "chaos %s kinds %u, draining", policy, kinds);
	return end_world(&w, what, seed);
}

uint64_t chaos_by_bytes(const uint8_t *bytes, size_t n)
{
	/* Small, so that many of them can be tried. */
	struct world w = { .bytes = bytes, .end = bytes + n, .size = 8 << 10 };
	uint64_t seed;

	w.kinds = (unsigned)below(&w, CHAOS_ALL + 1);
	seed = below(&w, 256);
	make_world(&w, some_policy(&w), seed);
	while (w.bytes < w.end) {
		if (!below(&w, 64))
			make_faults(&w);
		one_step(&w);
		all_well(w.sim, "chaos by bytes", seed);
	}
	return end_world(&w, "chaos by bytes, draining", seed);
}
