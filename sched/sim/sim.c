/* The harness: its objects and its steps. */
#include "sched/sim/sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sim/internal.h"

/* What requests without an image point to: as long as the longest of them, and never touched. */
static char nowhere[64 << 20];

void *sim_alloc(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

void sim_wrong(struct sim *sim, const char *fmt, ...)
{
	va_list ap;

	if (sim->wrong[0])
		return;
	va_start(ap, fmt);
	vsnprintf(sim->wrong, sizeof(sim->wrong), fmt, ap);
	va_end(ap);
}

void sim_trace(struct sim *sim, uint64_t a, uint64_t b)
{
	sim->trace = (sim->trace ^ a * 0x9e3779b97f4a7c15 ^ sim->now) * 0xbf58476d1ce4e5b9;
	sim->trace = (sim->trace ^ sim->trace >> 29 ^ b) * 0x94d049bb133111eb;
}

/* After whatever happened. */
static void step(struct sim *sim)
{
	if (sim->check)
		oracle_check(sim);
}

/* --- setting up --- */

struct sim *sim_new(uint64_t seed)
{
	struct sim *sim = sim_alloc(sizeof(*sim));

	sim->random.state = seed;
	sim->now = 1000000000; /* of nothing in particular: clocks do not begin at 0 */
	TAILQ_INIT(&sim->disks);
	TAILQ_INIT(&sim->stores);
	TAILQ_INIT(&sim->exports);
	TAILQ_INIT(&sim->clients);
	return sim;
}

static void free_client(struct sim_client *c)
{
	struct elv_requests done;
	struct sim_conn *conn;

	TAILQ_INIT(&done);
	while ((conn = TAILQ_FIRST(&c->conns))) {
		TAILQ_REMOVE(&c->conns, conn, link);
		if (conn->c.open)
			elv_conn_close(&conn->c, true, c->sim->now, &done);
		free(conn);
	}
	elv_client_exit(&c->c);
	load_free(c);
	free(c);
}

void sim_free(struct sim *sim)
{
	struct sim_client *c;
	struct sim_export *x;
	struct sim_store *s;
	struct sim_disk *d;

	if (!sim)
		return;
	while ((c = TAILQ_FIRST(&sim->clients))) {
		TAILQ_REMOVE(&sim->clients, c, link);
		free_client(c);
	}
	while ((x = TAILQ_FIRST(&sim->exports))) {
		TAILQ_REMOVE(&sim->exports, x, link);
		elevator_exit(&x->e);
		free(x);
	}
	while ((s = TAILQ_FIRST(&sim->stores))) {
		TAILQ_REMOVE(&sim->stores, s, link);
		elv_store_exit(&s->s);
		sim_image_free(s->image);
		free(s);
	}
	while ((d = TAILQ_FIRST(&sim->disks))) {
		TAILQ_REMOVE(&sim->disks, d, link);
		free(d);
	}
	free(sim->heap);
	free(sim);
}

static void on_timer(struct sim *sim, struct sim_event *event)
{
	(void)sim;
	tree_entry(event, struct sim_disk, timer)->touched = true;
}

struct sim_disk *sim_disk_new(struct sim *sim, const struct sim_model *model)
{
	struct sim_disk *d = sim_alloc(sizeof(*d));

	d->sim = sim;
	d->model = *model;
	d->wake = ELV_NEVER;
	d->timer.fire = on_timer;
	TAILQ_INIT(&d->flights);
	elv_disk_init(&d->d);
	TAILQ_INSERT_TAIL(&sim->disks, d, link);
	return d;
}

struct sim_store *sim_store_new(struct sim_disk *disk, uint32_t block, uint64_t size)
{
	struct sim_store *s = sim_alloc(sizeof(*s));

	s->disk = disk;
	s->image = size ? sim_image_new(size) : NULL;
	TAILQ_INIT(&s->pending);
	elv_store_init(&s->s, &disk->d, block);
	TAILQ_INSERT_TAIL(&disk->sim->stores, s, link);
	return s;
}

static const struct elv_policy *policy_called(const char *name)
{
	const struct elv_policy *p = elv_policy_find(name);

	if (!p)
		abort();
	return p;
}

static uint64_t whole_blocks(const struct sim_export *x, uint64_t bytes)
{
	return bytes > x->store->s.block ? bytes : x->store->s.block;
}

static void note_limits(struct sim_export *x)
{
	uint64_t io = whole_blocks(x, x->e.params.max_sectors_kb);
	uint64_t discard = whole_blocks(x, x->e.params.max_discard_kb);

	if (io > x->largest_io)
		x->largest_io = io;
	if (discard > x->largest_discard)
		x->largest_discard = discard;
}

struct sim_export *sim_export_new(struct sim_store *store, const struct sim_setup *setup)
{
	struct sim_export *x = sim_alloc(sizeof(*x));
	struct elv_config config = {
		.disk = &store->disk->d,
		.store = &store->s,
		.policy = policy_called(setup->policy),
		.default_depth = setup->depth ? setup->depth : 1,
		.rotational = setup->rotational,
		.serial = setup->serial,
	};

	x->sim = store->disk->sim;
	x->store = store;
	x->fallback_depth = config.default_depth;
	tunable_defaults(elv_rows, &config.params);
	config.params.nomerges = setup->no_merges ? 2 : 0;
	config.params.max_queue_age = setup->max_age;
	if (setup->max_io)
		config.params.max_sectors_kb = setup->max_io;
	if (setup->max_discard)
		config.params.max_discard_kb = setup->max_discard;
	if (elevator_init(&x->e, &config) < 0)
		abort();
	note_limits(x);
	TAILQ_INSERT_TAIL(&x->sim->exports, x, link);
	return x;
}

struct sim_client *sim_client_new(struct sim_export *export, uint64_t identity, uint64_t weight,
				  enum elv_class io_class)
{
	struct sim_client *c = sim_alloc(sizeof(*c));

	c->sim = export->sim;
	c->export = export;
	TAILQ_INIT(&c->conns);
	c->c.identity = identity;
	c->c.params = (struct elv_client_params){ weight ? weight : 100, io_class };
	elv_client_init(&c->c, &export->e);
	TAILQ_INSERT_TAIL(&export->sim->clients, c, link);
	return c;
}

struct sim_conn *sim_conn_new(struct sim_client *client)
{
	struct sim_conn *conn = sim_alloc(sizeof(*conn));

	conn->client = client;
	elv_conn_open(&conn->c, &client->c);
	TAILQ_INSERT_TAIL(&client->conns, conn, link);
	return conn;
}

void sim_tune(struct sim_export *export, const char *policy, const char *name, uint64_t value)
{
	const struct elv_policy *p = policy_called(policy);
	const struct tunable *row = tunable_find(p->rows, name);

	if (!row)
		abort();
	tunable_set_num(row, elv_policy_params(&export->e, p), value);
	elv_params_changed(&export->e, export->sim->now);
}

/* --- requests --- */

struct sim_request *sim_submit(struct sim_conn *conn, enum elv_op op, uint64_t offset,
			       uint64_t length, unsigned flags)
{
	struct sim_client *c = conn->client;
	struct sim *sim = c->sim;
	struct sim_store *store = c->export->store;
	struct sim_request *r = sim_alloc(sizeof(*r)); /* fresh: sanitizers see who looks back */

	memset(r, 0xa5, sizeof(*r)); /* the elevator must set what it uses */
	r->conn = conn;
	r->serial = ++sim->serials;
	r->offset = offset;
	r->length = length;
	r->op = op;
	r->flags = flags;
	r->arrival = sim->now;
	r->held_by = NULL;
	r->out = r->done = r->saw = r->floor = NULL;
	r->data = NULL;
	if (store->image)
		sim_image_arrive(store, r);
	r->rq.conn = &conn->c;
	r->rq.offset = offset;
	r->rq.length = length;
	r->rq.data = r->data ? r->data : nowhere;
	r->rq.op = op;
	r->rq.flags = flags;
	oracle_arrive(r);
	sim->inserted++;
	sim_trace(sim, 1, r->serial);
	elv_insert(&r->rq, sim->now);
	store->disk->touched = true;
	step(sim);
	return r;
}

static void reply(struct sim *sim, struct sim_request *r)
{
	struct sim_client *c = r->conn->client;
	uint64_t took = sim->now - r->arrival;

	oracle_reply(r);
	sim->replies++;
	sim_trace(sim, 2, r->serial << 8 ^ (uint64_t)r->rq.error);
	if (r->conn->c.open) {
		c->answered++;
		c->errors += r->rq.error != 0;
		c->bytes += r->length;
		histogram_add(&c->latency, took);
		if (took > c->longest)
			c->longest = took;
	}
	if (sim->replied)
		sim->replied(sim, r);
	free(r->data);
	free(r->out);
	free(r->done);
	free(r->saw);
	free(r->floor);
	memset(r, 0xdd, sizeof(*r));
	free(r);
	if (c->load)
		load_reply(c);
}

static void take_replies(struct sim *sim, struct elv_requests *done)
{
	struct elv_request *rq;

	while ((rq = TAILQ_FIRST(done))) {
		TAILQ_REMOVE(done, rq, link);
		reply(sim, tree_entry(rq, struct sim_request, rq));
	}
}

/* --- ios --- */

static void note_pieces(struct sim_flight *f)
{
	struct elv_io *io = f->io;
	struct elv_request *rq;

	f->pieces = sim_alloc((io->nparts + 1) * sizeof(*f->pieces));
	if (io->slice_of) {
		f->pieces[f->npieces++] = (struct sim_piece){
			tree_entry(io->slice_of, struct sim_request, rq), io->offset, io->length
		};
		return;
	}
	TAILQ_FOREACH(rq, &io->parts, part_link)
		f->pieces[f->npieces++] = (struct sim_piece){
			tree_entry(rq, struct sim_request, rq), rq->offset, rq->length
		};
}

static void on_done(struct sim *sim, struct sim_event *event)
{
	(void)sim;
	sim_complete(tree_entry(event, struct sim_flight, done));
}

static struct sim_flight *flight_of(struct sim_disk *d, struct elv_io *io)
{
	struct sim_flight *f;

	TAILQ_FOREACH(f, &d->flights, link)
		if (f->io == io)
			return f;
	return NULL;
}

/* Does it go wrong, and how? Sets the result. */
static void decide(struct sim_store *s, struct sim_flight *f)
{
	const struct sim_faults *bad = &s->faults;
	struct sim_random *random = &s->disk->sim->random;
	const struct elv_io *io = f->io;
	bool data = io->op == ELV_READ || io->op == ELV_WRITE;

	f->sync_failed = false;
	f->result = data ? (int64_t)io->length : 0;
	if (!f->export) {
		if (bad->sync_error && sim_chance(random, bad->sync_error))
			f->result = bad->sync_errno ? bad->sync_errno : -EIO;
		return;
	}
	if (io->offset < bad->bad_end && io->offset + io->length > bad->bad_start)
		f->result = -EIO;
	else if (bad->error && sim_chance(random, bad->error))
		f->result = sim_chance(random, 50) ? -EIO : -ENOSPC;
	else if (data && bad->short_transfer && sim_chance(random, bad->short_transfer))
		f->result = (int64_t)sim_below(random, io->length);
	else if ((io->flags & ELV_FUA) && bad->sync_error && sim_chance(random, bad->sync_error))
		f->sync_failed = true;
}

static void execute(struct sim_store *s, struct sim_flight *f)
{
	uint64_t n = f->io->length;

	f->executed = true;
	decide(s, f);
	if (!s->image)
		return;
	if (f->result < 0)
		n = sim_below(&s->disk->sim->random, n + 1); /* done before it failed */
	else if (f->io->op == ELV_READ || f->io->op == ELV_WRITE)
		n = (uint64_t)f->result;
	sim_image_execute(s, f, n);
}

static void submit(struct sim_disk *d, struct elv_io *io)
{
	struct sim *sim = d->sim;
	struct sim_store *s = tree_entry(io->store, struct sim_store, s);
	struct sim_flight *f = flight_of(d, io);

	if (f) {
		oracle_again(f);
	} else {
		f = sim_alloc(sizeof(*f));
		f->io = io;
		f->disk = d;
		f->begun = sim->now;
		f->done.fire = on_done;
		if (io->elv) {
			f->export = tree_entry(io->elv, struct sim_export, e);
			note_pieces(f);
			oracle_take(f);
		} else {
			oracle_sync_began(s);
		}
		TAILQ_INSERT_TAIL(&d->flights, f, link);
	}
	if (f->submitted)
		sim_wrong(sim, "an io is submitted twice");
	f->submitted = true;
	f->executed = false;
	f->submit_time = sim->now;
	f->offset = io->offset;
	f->length = io->length;
	d->nflights++;
	d->ios++;
	sim_trace(sim, 3, io->offset << 4 ^ io->op ^ io->length << 40);
	if (!f->export || (sim->early && sim_chance(&sim->random, 50)))
		execute(s, f);
	if (sim->timed)
		sim_arm(sim, &f->done, sim_model_finish(&d->model, io, sim->now));
	if (sim->dispatched)
		sim->dispatched(sim, f);
}

unsigned sim_dispatch(struct sim_disk *disk)
{
	struct elv_ios out;
	struct elv_io *io;
	unsigned n, counted = 0;

	TAILQ_INIT(&out);
	disk->touched = false;
	n = elv_disk_dispatch(&disk->d, disk->sim->now, &out, &disk->wake);
	while ((io = TAILQ_FIRST(&out))) {
		TAILQ_REMOVE(&out, io, link);
		submit(disk, io);
		counted++;
	}
	if (n != counted)
		sim_wrong(disk->sim, "%u ios dispatched, not %u", counted, n);
	if (disk->wake <= disk->sim->now)
		sim_wrong(disk->sim, "a wake-up in the past");
	oracle_dispatched(disk);
	step(disk->sim);
	return n;
}

static bool is_ready(const struct sim_disk *d, const struct elv_io *io)
{
	const struct elv_io *i;

	TAILQ_FOREACH(i, &d->d.ready, link)
		if (i == io)
			return true;
	return false;
}

/* Whose time was it? An io's from its submission, or from the completion before it. */
static void account(struct sim_flight *f)
{
	struct sim_client *c;

	if (!f->export)
		return;
	c = tree_entry(f->io->client, struct sim_client, c);
	c->finished_cost += f->io->cost;
	c->time += f->disk->sim->now - (f->submit_time > f->disk->last_done ? f->submit_time
									    : f->disk->last_done);
	f->disk->last_done = f->disk->sim->now;
}

/* After elv_complete: which of its pieces are through, and is it? */
static bool settle(struct sim_flight *f)
{
	struct elv_io *io = f->io;
	unsigned n = 0;

	if (is_ready(f->disk, io) && f->export) {
		while (io->alone && f->pieces[n].r != tree_entry(io->alone, struct sim_request, rq))
			n++;
		oracle_finished(f, n);
		return false;
	}
	if (f->export) {
		oracle_finished(f, f->npieces);
		f->export->in_flight--;
		if (elv_is_discard(io->op))
			f->export->store->discards--;
	}
	return true;
}

void sim_complete(struct sim_flight *f)
{
	struct sim_disk *d = f->disk;
	struct sim *sim = d->sim;
	struct elv_io *io = f->io;
	struct sim_store *s = tree_entry(io->store, struct sim_store, s);
	struct elv_requests done;

	sim_disarm(sim, &f->done);
	if (!f->executed)
		execute(s, f);
	io->result = f->result;
	io->sync_failed = f->sync_failed;
	if (s->image)
		sim_image_settle(s, f);
	oracle_ends(f);
	account(f);
	if (sim->completed)
		sim->completed(sim, f);
	sim_trace(sim, 4, (uint64_t)io->result);
	f->submitted = false;
	d->nflights--;
	TAILQ_INIT(&done);
	elv_complete(io, sim->now, &done);
	if (settle(f)) {
		TAILQ_REMOVE(&d->flights, f, link);
		free(f->pieces);
		free(f);
	}
	d->touched = true;
	take_replies(sim, &done);
	step(sim);
}

struct sim_flight *sim_flight(struct sim_disk *disk, unsigned n)
{
	struct sim_flight *f;

	TAILQ_FOREACH(f, &disk->flights, link)
		if (f->submitted && n-- == 0)
			return f;
	return NULL;
}

/* --- what else happens to an elevator --- */

static void end(struct sim_conn *conn, bool heard)
{
	struct sim *sim = conn->client->sim;
	struct elv_requests done;

	TAILQ_INIT(&done);
	elv_conn_close(&conn->c, heard, sim->now, &done);
	if (!heard && conn->told)
		conn->client->owed = conn->told;
	conn->sticky = conn->told = 0;
	conn->client->export->store->disk->touched = true;
	take_replies(sim, &done);
	step(sim);
}

void sim_close(struct sim_conn *conn)
{
	end(conn, true);
}

void sim_break(struct sim_conn *conn)
{
	end(conn, false);
}

void sim_reopen(struct sim_conn *conn)
{
	elv_conn_open(&conn->c, &conn->client->c);
}

void sim_switch(struct sim_export *export, const char *policy)
{
	if (elv_switch(&export->e, policy_called(policy), export->sim->now) < 0)
		abort();
	export->store->disk->touched = true;
	step(export->sim);
}

void sim_set_params(struct sim_export *export, const struct elv_params *params, bool rotational)
{
	if (elv_set_params(&export->e, params, (unsigned)export->fallback_depth, rotational,
			   export->sim->now) < 0)
		abort();
	note_limits(export);
	export->store->disk->touched = true;
	step(export->sim);
}

void sim_drain(struct sim *sim)
{
	struct sim_disk *d;
	struct sim_store *s;
	bool busy = true;

	while (busy && !sim->wrong[0]) {
		busy = false;
		TAILQ_FOREACH(d, &sim->disks, link) {
			struct sim_flight *f;

			sim_dispatch(d);
			f = sim_flight(d, 0);
			if (f) {
				sim->now += 1000;
				sim_complete(f);
			} else if (d->wake != ELV_NEVER) {
				sim->now = d->wake;
			} else {
				continue;
			}
			busy = true;
		}
	}
	TAILQ_FOREACH(s, &sim->stores, link) {
		if (!TAILQ_EMPTY(&s->pending))
			sim_wrong(sim, "request %llu is never finished",
				  (unsigned long long)TAILQ_FIRST(&s->pending)->serial);
		if (s->image)
			sim_image_check(sim, s);
	}
}
