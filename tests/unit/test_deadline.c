/*
 * deadline: the vectors of the 4.19 rules, a naive list model of them run side by side, and what
 * the rules promise about waiting.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"
#include "tests/unit/world.h"

/* --- vectors: single sectors, no merges, one at a time --- */

struct fixture {
	struct sim *sim;
	struct sim_disk *disk;
	struct sim_export *export;
	struct sim_conn *conn;
};

static void make(struct fixture *f, bool merges)
{
	struct sim_model model = sim_model_constant(MS);
	struct sim_setup setup = { .policy = "deadline", .depth = 1, .no_merges = !merges };

	f->sim = sim_new(1);
	f->sim->check = true;
	f->disk = sim_disk_new(f->sim, &model);
	f->export = sim_export_new(sim_store_new(f->disk, 512, 0), &setup);
	f->conn = sim_conn_new(sim_client_new(f->export, 1, 0, ELV_CLASS_BE));
}

/* A second connection, for those that will be gone. */
static struct sim_conn *another(struct fixture *f)
{
	return sim_conn_new(f->conn->client);
}

static void end(struct fixture *f)
{
	sim_drain(f->sim);
	all_well(f->sim, "deadline", 0);
	sim_free(f->sim);
}

/* "R10 W5": requests at these sectors arrive. */
static void arrive(struct fixture *f, const char *what)
{
	while (*what) {
		char op = *what++, *after;

		sim_submit(f->conn, op == 'R' ? ELV_READ : ELV_WRITE,
			   strtoull(what, &after, 10) * 512, 512, 0);
		what = after + strspn(after, " ");
	}
}

/* The next ones go in this order. */
static void expect(struct fixture *f, const char *want)
{
	char got[512] = "";
	size_t n = 0;

	for (const char *w = want; *w; w += strcspn(w, " "), w += strspn(w, " ")) {
		struct sim_flight *flight;

		sim_dispatch(f->disk);
		flight = sim_flight(f->disk, 0);
		if (!flight)
			break;
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%c%llu", n ? " " : "",
				      flight->io->op == ELV_READ ? 'R' : 'W',
				      (unsigned long long)flight->io->offset / 512);
		f->sim->now += MS;
		sim_complete(flight);
	}
	ck_assert_str_eq(got, want);
}

static void set(struct fixture *f, const char *name, uint64_t value)
{
	sim_tune(f->export, "deadline", name, value);
}

START_TEST(test_vectors)
{
	struct fixture f;

	make(&f, false);
	set(&f, "fifo_batch", 2);
	arrive(&f, "R10 R50 R30 W5 W100");
	expect(&f, "R10 R30 R50 W5 W100");
	end(&f);

	make(&f, false);
	set(&f, "fifo_batch", 2);
	arrive(&f, "R50 R10 R30 W5 W100");
	expect(&f, "R50 R10 R30 W5 W100");
	end(&f);

	/* A late one before the sweep's next is not taken along. */
	make(&f, false);
	arrive(&f, "R100 R50 R70");
	expect(&f, "R100 R50");
	arrive(&f, "R51");
	expect(&f, "R70 R51");
	end(&f);
}
END_TEST

START_TEST(test_starved)
{
	struct fixture f;

	make(&f, false);
	set(&f, "fifo_batch", 1);
	arrive(&f, "R1 R2 R3 R4 R5 R6 R7 R8 W11 W12 W13 W14 W15");
	expect(&f, "R1 R2 W11 R3 R4 W12 R5 R6 W13 R7 R8 W14 W15");
	end(&f);

	make(&f, false);
	set(&f, "fifo_batch", 1);
	set(&f, "writes_starved", 4);
	arrive(&f, "R1 R2 R3 R4 R5 R6 W11 W12");
	expect(&f, "R1 R2 R3 R4 W11 R5 R6 W12");
	end(&f);

	make(&f, false);
	set(&f, "fifo_batch", 3);
	set(&f, "writes_starved", 1);
	arrive(&f, "R1 R2 R3 R4 R5 R6 W11 W12 W13 W14");
	expect(&f, "R1 R2 R3 W11 W12 W13 R4 R5 R6 W14");
	end(&f);
}
END_TEST

/* An expired one waits for the end of the batch, and then goes before the sweep. */
START_TEST(test_expiry)
{
	struct fixture f;

	make(&f, false);
	set(&f, "fifo_batch", 4);
	set(&f, "read_expire", 50 * MS);
	arrive(&f, "R100");
	f.sim->now += 10 * MS;
	arrive(&f, "R200 R210 R220 R230 R240 R250");
	expect(&f, "R100 R200");
	arrive(&f, "R20"); /* behind the sweep */
	f.sim->now += 60 * MS;
	expect(&f, "R210 R220"); /* expired, but the batch goes on */
	expect(&f, "R230");      /* the oldest one: expired as well */
	expect(&f, "R240 R250 R20");
	end(&f);

	make(&f, false);
	set(&f, "fifo_batch", 2);
	set(&f, "read_expire", 50 * MS);
	arrive(&f, "R300 R400 R500 R600 R700 R800 R10");
	f.sim->now += 20 * MS;
	expect(&f, "R300 R400 R500 R600"); /* nothing has expired: the sweep goes on */
	f.sim->now += 40 * MS;
	expect(&f, "R700 R800 R10");
	end(&f);

	/* Expiry 0 is first come, first served, a batch at a time. */
	make(&f, false);
	set(&f, "fifo_batch", 1);
	set(&f, "read_expire", 0);
	arrive(&f, "R9 R7 R8 R1");
	expect(&f, "R9 R7 R8 R1");
	end(&f);
}
END_TEST

/* What is merged keeps the older deadline; sweep, list and tree agree (checked at every step). */
START_TEST(test_merged)
{
	struct fixture f;

	make(&f, true);
	arrive(&f, "R100 R50 R101 R49 R51");
	expect(&f, "R100 R49");
	end(&f);

	make(&f, true);
	set(&f, "front_merges", 0);
	arrive(&f, "R100 R99 R101");
	expect(&f, "R100 R99");
	end(&f);

	make(&f, true); /* filling a hole makes one of three */
	arrive(&f, "W10 W12 W11");
	expect(&f, "W10");
	ck_assert_uint_eq(f.export->e.queued, 0);
	end(&f);

	make(&f, true); /* without front merges too: a back merge, and then two runs touch */
	set(&f, "front_merges", 0);
	arrive(&f, "W10 W12 W11");
	expect(&f, "W10");
	ck_assert_uint_eq(f.export->e.queued, 0);
	end(&f);
}
END_TEST

/* The sweep goes on behind a request that is gone. */
START_TEST(test_withdrawn)
{
	struct sim_conn *dying;
	struct fixture f;

	make(&f, false);
	dying = another(&f);
	arrive(&f, "R50 R10");
	sim_submit(dying, ELV_READ, 60 * 512, 512, 0);
	arrive(&f, "R70");
	expect(&f, "R50");
	sim_close(dying);
	expect(&f, "R70 R10");
	end(&f);
}
END_TEST

/* --- the naive model --- */

enum { MAX_RUNS = 256, SECTORS = 400 };

struct run {
	uint64_t start, end; /* sectors */
	uint64_t seq, due;   /* of its oldest part; the earliest deadline */
	bool write;
};

/*
 * All rules of 4.19 on one array: no tree, no list, no cached pointer but where the sweep goes on.
 */
struct model {
	struct run run[MAX_RUNS];
	int n;
	int64_t next;       /* start of the sweep's next run, -1: none */
	bool next_write;
	uint64_t batching, starved, seq;
	uint64_t read_expire, write_expire, starved_max, batch;
	bool front, merges;
};

static int oldest(const struct model *m, bool write)
{
	int best = -1;

	for (int i = 0; i < m->n; i++)
		if (m->run[i].write == write && (best < 0 || m->run[i].seq < m->run[best].seq))
			best = i;
	return best;
}

/* The run of this direction that starts first, at `from` or later. */
static int at_or_after(const struct model *m, bool write, uint64_t from)
{
	int best = -1;

	for (int i = 0; i < m->n; i++)
		if (m->run[i].write == write && m->run[i].start >= from &&
		    (best < 0 || m->run[i].start < m->run[best].start))
			best = i;
	return best;
}

static void model_drop(struct model *m, int i)
{
	m->run[i] = m->run[--m->n];
}

static int touching(const struct model *m, const struct run *r, bool before)
{
	for (int i = 0; i < m->n; i++)
		if (m->run[i].write == r->write &&
		    (before ? m->run[i].end == r->start : m->run[i].start == r->end))
			return i;
	return -1;
}

static void join(struct model *m, int i, const struct run *r)
{
	bool is_next = m->next == (int64_t)m->run[i].start && m->next_write == r->write;

	if (r->start < m->run[i].start)
		m->run[i].start = r->start;
	if (r->end > m->run[i].end)
		m->run[i].end = r->end;
	if (r->seq < m->run[i].seq)
		m->run[i].seq = r->seq;
	if (is_next)
		m->next = (int64_t)m->run[i].start;
}

static void model_arrive(struct model *m, uint64_t now, uint64_t sector, bool write)
{
	struct run r = { sector, sector + 1, m->seq++, now, write };
	int before = -1, after = -1;

	r.due += write ? m->write_expire : m->read_expire;
	if (m->merges) {
		before = touching(m, &r, true);
		after = touching(m, &r, false);
	}
	if (before >= 0) {
		join(m, before, &r);
		if (after >= 0) {
			struct run rest = m->run[after];

			if (m->next == (int64_t)rest.start && m->next_write == write)
				m->next = (int64_t)m->run[before].start;
			join(m, before, &rest);
			if (rest.due < m->run[before].due)
				m->run[before].due = rest.due;
			model_drop(m, after);
		}
	} else if (after >= 0 && m->front) {
		join(m, after, &r);
	} else {
		m->run[m->n++] = r;
	}
}

static struct run model_dispatch(struct model *m, uint64_t now)
{
	bool reads = oldest(m, false) >= 0, writes = oldest(m, true) >= 0;
	struct run r;
	int i = -1;

	if (m->next >= 0)
		i = at_or_after(m, m->next_write, (uint64_t)m->next);
	if (i < 0 || m->batching >= m->batch) {
		bool write = writes && (!reads || m->starved >= m->starved_max);

		if (reads && writes && !write)
			m->starved++;
		if (write)
			m->starved = 0;
		if (i < 0 || m->next_write != write || now >= m->run[oldest(m, write)].due)
			i = oldest(m, write);
		m->batching = 0;
	}
	r = m->run[i];
	model_drop(m, i);
	m->batching++;
	i = at_or_after(m, r.write, r.start);
	m->next = i < 0 ? -1 : (int64_t)m->run[i].start;
	m->next_write = r.write;
	return r;
}

static void tune_both(struct fixture *f, struct model *m, struct sim_random *r)
{
	m->read_expire = sim_below(r, 60) * MS;
	m->write_expire = sim_below(r, 200) * MS;
	m->starved_max = 1 + sim_below(r, 4);
	m->batch = sim_below(r, 10);
	m->front = sim_chance(r, 70);
	set(f, "read_expire", m->read_expire);
	set(f, "write_expire", m->write_expire);
	set(f, "writes_starved", m->starved_max);
	set(f, "fifo_batch", m->batch);
	set(f, "front_merges", m->front);
}

START_TEST(test_differential)
{
	struct sim_random r = { .state = (uint64_t)_i + 1 };
	struct model m = { .merges = _i % 2, .next = -1 };
	bool there[2][SECTORS] = { 0 };
	uint64_t sectors = _i % 4 < 2 ? SECTORS : 30; /* few: merges fill holes before the sweep */
	struct fixture f;

	make(&f, m.merges);
	f.sim->check = _i < 2; /* the whole structure at each step: slow */
	tune_both(&f, &m, &r);
	for (int step = 0; step < 25000 / SLOWNESS; step++) {
		bool write = sim_chance(&r, 50);
		bool arriving = sim_chance(&r, step / 500 % 2 ? 40 : 60);
		uint64_t sector = sim_below(&r, sectors);

		f.sim->now += sim_below(&r, 3 * MS);
		if (sim_chance(&r, 1))
			tune_both(&f, &m, &r);
		if (arriving && m.n < MAX_RUNS && !there[0][sector] && !there[1][sector]) {
			there[write][sector] = true;
			arrive(&f, "");
			sim_submit(f.conn, write ? ELV_WRITE : ELV_READ, sector * 512, 512, 0);
			model_arrive(&m, f.sim->now, sector, write);
		} else if (!arriving && m.n) {
			struct run want = model_dispatch(&m, f.sim->now);
			struct sim_flight *got;

			sim_dispatch(f.disk);
			got = sim_flight(f.disk, 0);
			ck_assert_ptr_nonnull(got);
			if (got->io->offset != want.start * 512 ||
			    got->io->length != (want.end - want.start) * 512 ||
			    (got->io->op == ELV_WRITE) != want.write)
				ck_abort_msg("seed %d step %d: %llu+%llu instead of %llu+%llu",
					     _i + 1, step,
					     (unsigned long long)got->io->offset / 512,
					     (unsigned long long)got->io->length / 512,
					     (unsigned long long)want.start,
					     (unsigned long long)(want.end - want.start));
			memset(&there[want.write][want.start], 0, want.end - want.start);
			sim_complete(got);
		}
	}
	end(&f);
}
END_TEST

/* --- waiting --- */

struct waiting {
	uint64_t read_most, write_most;
};

static void note_wait(struct sim *sim, struct sim_request *r)
{
	struct waiting *w = sim->arg;
	uint64_t waited = r->rq.first_dispatch - r->rq.arrival;
	uint64_t *most = r->op == ELV_READ ? &w->read_most : &w->write_most;

	if (waited > *most)
		*most = waited;
}

/*
 * A request that expires with k expired ones of its direction before it waits for the rest of the
 * batch that runs, then for k + 1 batches of its own direction, and the others' in between: one for
 * each writes_starved of reads. Depth 1, every io takes s:
 *
 *     read   read_expire  + s * B * (1 + (k + 1) + ceil((k + 1) / w))
 *     write  write_expire + s * B * (1 + (k + 1) * (w + 1))
 */
START_TEST(test_bounds)
{
	enum { QUEUE = 64 };
	static const uint64_t batches[] = { 1, 4, 16 }, starved[] = { 1, 2, 5 };
	const uint64_t b = batches[_i % 3], w = starved[_i / 3], s = 2 * MS, k = QUEUE - 1;
	const struct party party[] = {
		{ 100, ELV_CLASS_BE, 1, RANDOM(QUEUE, 0, 4096) },
		{ 100, ELV_CLASS_BE, 1, RANDOM(QUEUE, 0, 4096) },
	};
	uint64_t read_most = 100 * MS + s * b * (1 + k + 1 + (k + w) / w);
	uint64_t write_most = 300 * MS + s * b * (1 + (k + 1) * (w + 1));
	struct party writer = party[1];
	struct sim_model model = sim_model_constant(s);
	struct waiting waiting = { 0 };
	struct world world;

	writer.load.writes = 100;
	writer.load.start = 200 * GIB;
	world_make(&world, "deadline", &model, 1, party, 2);
	sim_tune(world.export, "deadline", "read_expire", 100 * MS);
	sim_tune(world.export, "deadline", "write_expire", 300 * MS);
	sim_tune(world.export, "deadline", "fifo_batch", b);
	sim_tune(world.export, "deadline", "writes_starved", w);
	world.sim->arg = &waiting;
	world.sim->replied = note_wait;
	sim_load_start(world.client[0], &party[0].load, 1);
	sim_load_start(world.client[1], &writer.load, 1);
	world_run(&world, 60 * SEC);
	printf("fifo_batch %d, writes_starved %d: reads waited %d of %d ms, writes %d of %d\n",
	       (int)b, (int)w, (int)(waiting.read_most / MS), (int)(read_most / MS),
	       (int)(waiting.write_most / MS), (int)(write_most / MS));
	ck_assert_uint_le(waiting.read_most, read_most);
	ck_assert_uint_le(waiting.write_most, write_most);
	ck_assert_uint_gt(waiting.read_most, 0);
	world_end(&world);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("deadline");
	TCase *tc = tcase_create("deadline");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_vectors);
	tcase_add_test(tc, test_starved);
	tcase_add_test(tc, test_expiry);
	tcase_add_test(tc, test_merged);
	tcase_add_test(tc, test_withdrawn);
	tcase_add_loop_test(tc, test_differential, 0, 12);
	tcase_add_loop_test(tc, test_bounds, 0, 9);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
