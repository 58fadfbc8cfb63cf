/*
 * cfq on the rotating disk: whom it waits for, and what readers keep beside streaming writers. And
 * its classes.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"
#include "tests/unit/world.h"

#define BE ELV_CLASS_BE
#define RT ELV_CLASS_RT
#define IDLE ELV_CLASS_IDLE

/* --- waiting --- */

/* A reader that thinks beside a deep writer. */
static void run_thinker(struct world *w, const struct sim_model *model, uint64_t think,
			uint64_t slice_idle)
{
	const struct party party[] = {
		{ 100, BE, 1, SEQUENTIAL(1, think, 4096, 0, 10) },
		{ 100, BE, 1, SEQUENTIAL(16, 0, MIB, 100, 110) },
	};

	world_make(w, "cfq", model, 1, party, 2);
	sim_tune(w->export, "cfq", "slice_idle", slice_idle);
	world_go(w, party);
	world_run(w, SEC);
	world_mark(w);
	world_run(w, 30 * SEC);
}

/*
 * Up to slice_idle of thinking, the disk waits, and reader and writer have half of it each, waiting
 * included. Beyond, a few windows are lost to learning it, and then no more.
 */
START_TEST(test_thinking)
{
	struct sim_model model = sim_model_hdd(200 * GIB);
	struct world w;

	printf("think ms  reads/s  writer MB/s  writer's time  windows  hits\n");
	for (uint64_t think = 0; think <= 20; think++) {
		uint64_t waits, hits;
		double writers;

		run_thinker(&w, &model, think * MS + 50 * US, 8 * MS);
		waits = world_shown(&w, "waits");
		hits = world_shown(&w, "hits");
		writers = (double)(w.client[1]->time - w.mark[1].time) / (30.0 * SEC);
		printf("%8d %8.1f %12.1f %14.3f %8d %5d\n", (int)think, world_iops(&w, 0),
		       world_mb(&w, 1), writers, (int)waits, (int)hits);
		if (think < 8) {
			ck_assert_double_le(fabs(writers - 0.5), 0.02);
			ck_assert_uint_ge(hits + 1, waits);
		} else if (think > 8) {
			ck_assert_uint_le(waits, 40);
			ck_assert_double_gt(writers, 0.6);
		}
		world_end(&w);
	}
}
END_TEST

START_TEST(test_no_waiting)
{
	struct sim_model hdd = sim_model_hdd(200 * GIB), ssd = sim_model_ssd(8, 80 * US, 30 * US);
	struct world w;

	run_thinker(&w, &hdd, MS, 0);
	ck_assert_uint_eq(world_shown(&w, "waits"), 0);
	world_end(&w);
	run_thinker(&w, &ssd, MS, 8 * MS);
	ck_assert_uint_eq(world_shown(&w, "waits"), 0);
	world_end(&w);
}
END_TEST

/* Writes, one at a time, each after the answer to the last, are waited for like reads. */
START_TEST(test_sync_writer)
{
	static const struct party party[] = {
		{ 100, BE, 1, SEQUENTIAL(1, MS, 4096, 100, 10) },
		{ 100, BE, 1, SEQUENTIAL(16, 0, MIB, 100, 110) },
	};
	struct sim_model model = sim_model_hdd(200 * GIB);
	double busy;
	struct world w;

	world_make(&w, "cfq", &model, 1, party, 2);
	world_go(&w, party);
	world_run(&w, 30 * SEC);
	busy = (double)(w.client[1]->time - w.mark[1].time) / (30.0 * SEC);
	ck_assert_double_le(fabs(busy - 0.5), 0.02);
	ck_assert_uint_gt(world_shown(&w, "hits"), 100);
	world_end(&w);
}
END_TEST

/*
 * Readers that ask for one block after the other have their shares of what is read, also if it takes
 * a while from an answer to the next request: only the heavier one is waited for. Beyond a quarter
 * of a request's time it begins to pay for that.
 */
START_TEST(test_moments)
{
	static const struct party party[] = {
		{ 100, BE, 1, RANDOM(1, 0, 4096) }, { 300, BE, 1, RANDOM(1, 0, 4096) },
	};
	struct sim_model model = sim_model_hdd(200 * GIB);
	double share;
	struct world w;

	for (uint64_t think = 100 * US; think < 8 * MS; think *= 2) {
		struct party thinking[2];

		memcpy(thinking, party, sizeof(party));
		thinking[0].load.think = thinking[1].load.think = think;
		world_make(&w, "cfq", &model, 1, thinking, 2);
		world_go(&w, thinking);
		world_run(&w, SEC);
		world_mark(&w);
		world_run(&w, 100 * SEC);
		share = world_iops(&w, 0) / (world_iops(&w, 0) + world_iops(&w, 1));
		printf("%.1f ms from an answer to the next request: %.3f of them for a quarter\n",
		       (double)think / 1e6, share);
		if (think <= 2 * MS)
			ck_assert_double_le(fabs(share - 0.25), 0.0125);
		else
			ck_assert_double_ge(share, 0.2375);
		world_end(&w);
	}
}
END_TEST

/* A client that went away is not waited for. */
START_TEST(test_gone)
{
	static const struct party party[] = {
		{ 100, BE, 1, SEQUENTIAL(0, 0, 4096, 0, 10) },
		{ 100, BE, 1, SEQUENTIAL(16, 0, MIB, 100, 110) },
	};
	struct sim_model model = sim_model_hdd(200 * GIB);
	uint64_t end;
	struct world w;

	world_make(&w, "cfq", &model, 1, party, 2);
	sim_load_start(w.client[1], &party[1].load, 1);
	for (int i = 0; i < 5; i++) { /* each is waited for once it is answered */
		struct sim_conn *conn = sim_conn_new(w.client[0]);

		sim_submit(conn, ELV_READ, (uint64_t)i * 4096, 4096, 0);
		while (conn->pending)
			world_run(&w, MS / 10);
		end = w.sim->now;
		sim_close(conn);
		while (!w.disk->nflights)
			world_run(&w, MS / 10);
		ck_assert_uint_le(w.sim->now - end, MS);
	}
	world_end(&w);
}
END_TEST

/* --- readers beside writers --- */

struct result {
	double reads, writes, p99;
};

static struct result run_reader(const char *policy, unsigned depth, unsigned queue)
{
	const struct party party[] = {
		{ 100, BE, 1, RANDOM(1, 100 * US, 4096) },
		{ 100, BE, 1, SEQUENTIAL(queue, 0, MIB, 100, 110) },
		{ 100, BE, 1, SEQUENTIAL(queue, 0, MIB, 100, 150) },
	};
	struct sim_model model = sim_model_hdd(200 * GIB);
	struct result r;
	struct world w;

	world_make(&w, policy, &model, depth, party, queue ? 3 : 1);
	world_go(&w, party);
	world_run(&w, SEC);
	world_mark(&w);
	world_run(&w, 60 * SEC);
	r.reads = world_iops(&w, 0);
	r.p99 = (double)histogram_percentile(&w.client[0]->latency, 990) / 1e6;
	r.writes = queue ? world_mb(&w, 1) + world_mb(&w, 2) : 0;
	world_end(&w);
	return r;
}

START_TEST(test_reader_beside_writers)
{
	double alone = run_reader("noop", 1, 0).reads;

	printf("a random 4 KiB reader, alone %.1f reads/s, beside two writers of 1 MiB\n"
	       "policy    depth  queue  reads/s  p99 ms  writers MB/s\n", alone);
	for (unsigned depth = 1; depth <= 4; depth += 3) {
		for (unsigned queue = 4; queue <= 64; queue *= 4) {
			double noop = 0;

			for (int i = 0; elv_policies[i]; i++) {
				const char *name = elv_policies[i]->name;
				struct result r = run_reader(name, depth, queue);

				printf("%-9s %5u %6u %8.2f %7.0f %13.1f\n", name, depth, queue,
				       r.reads, r.p99, r.writes);
				if (!strcmp(name, "noop"))
					noop = r.reads;
				if (strcmp(name, "cfq"))
					continue;
				ck_assert_double_ge(r.reads, 0.75 * alone / 3);
				if (queue >= 16)
					ck_assert_double_ge(r.reads, 8 * noop);
			}
		}
	}
}
END_TEST

/* Two readers in sequence have long turns: together most of what one of them has alone. */
START_TEST(test_two_streams)
{
	static const struct party party[] = {
		{ 100, BE, 1, SEQUENTIAL(1, 200 * US, 64 * KIB, 0, 10) },
		{ 100, BE, 1, SEQUENTIAL(1, 200 * US, 64 * KIB, 0, 40) },
	};
	struct sim_model model = sim_model_hdd(200 * GIB);
	double alone, together;
	struct world w;

	world_make(&w, "cfq", &model, 4, party, 1);
	world_go(&w, party);
	world_run(&w, 20 * SEC);
	alone = world_mb(&w, 0);
	world_end(&w);
	world_make(&w, "cfq", &model, 4, party, 2);
	world_go(&w, party);
	world_run(&w, 20 * SEC);
	together = world_mb(&w, 0) + world_mb(&w, 1);
	printf("one reader in sequence %.1f MB/s, two %.1f + %.1f\n", alone, world_mb(&w, 0),
	       world_mb(&w, 1));
	ck_assert_double_ge(together, 0.7 * alone);
	ck_assert_double_le(fabs(world_mb(&w, 0) / world_mb(&w, 1) - 1), 0.1);
	world_end(&w);
}
END_TEST

/* --- classes --- */

enum { SLICES = 4096 };

/* Who had the disk when; with depth 1 on the linear model. */
struct past {
	struct { uint64_t from, to; bool rt; } at[SLICES];
	unsigned n;
	uint64_t most; /* rt in any second, ns */
};

static void note_past(struct sim *sim, struct sim_flight *f)
{
	struct past *p = sim->arg;
	unsigned k = p->n++ % SLICES;
	uint64_t rt = 0;

	p->at[k].from = f->submit_time;
	p->at[k].to = sim->now;
	p->at[k].rt = f->io->client->params.io_class == RT;
	if (p->n < SLICES)
		return;
	for (unsigned i = 0; i < SLICES; i++) {
		uint64_t from = p->at[i].from, since = sim->now - SEC;

		if (p->at[i].rt && p->at[i].to > since)
			rt += p->at[i].to - (from > since ? from : since);
	}
	if (rt > p->most)
		p->most = rt;
}

START_TEST(test_rt_share)
{
	static const struct party party[] = {
		{ 100, RT, 1, RANDOM(64, 0, 256 * KIB) },
		{ 100, BE, 1, RANDOM(64, 0, 256 * KIB) },
		{ 100, IDLE, 1, RANDOM(64, 0, 256 * KIB) },
	};
	struct sim_model model = sim_model_linear();
	struct past past = { .n = 0 };
	struct world w;

	world_make(&w, "cfq", &model, 1, party, 2);
	world_go(&w, party);
	w.sim->arg = &past;
	w.sim->completed = note_past;
	world_run(&w, 6 * SEC);
	ck_assert_uint_ge(past.n, 2 * SLICES);
	ck_assert_uint_le(past.most, 901 * MS);
	ck_assert_double_ge(world_time_share(&w, 0), 0.899);
	world_end(&w);

	/* Beside class idle alone there is nobody to leave a tenth to. */
	world_make(&w, "cfq", &model, 1, party, 3);
	sim_load_start(w.client[0], &party[0].load, 1);
	sim_load_start(w.client[2], &party[2].load, 1);
	world_mark(&w);
	world_run(&w, 4 * SEC);
	ck_assert_double_ge(world_time_share(&w, 0), 0.99);
	world_end(&w);
}
END_TEST

/* A class that comes back has no credit for its absence. */
START_TEST(test_class_returns)
{
	static const struct party party[] = {
		{ 100, RT, 1, RANDOM(64, 0, 64 * KIB) }, { 100, BE, 1, RANDOM(64, 0, 64 * KIB) },
	};
	struct sim_model model = sim_model_linear();
	struct world w;

	for (unsigned first = 0; first < 2; first++) {
		world_make(&w, "cfq", &model, 1, party, 2);
		sim_load_start(w.client[first], &party[first].load, 1);
		world_run(&w, 3 * SEC);
		sim_load_start(w.client[!first], &party[!first].load, 1);
		for (int i = 0; i < 10; i++) {
			world_mark(&w);
			world_run(&w, 100 * MS);
			ck_assert_double_le(fabs(world_time_share(&w, 0) - 0.9), 0.02);
		}
		world_end(&w);
	}
}
END_TEST

/* One that wants less than that gets it at once: behind the request that is being served. */
START_TEST(test_rt_latency)
{
	static const struct party party[] = {
		{ 100, RT, 1, { .interval = 2 * MS, .sizes = { { 4096, 0 } }, .span = GIB,
				.random = true } },
		{ 100, BE, 1, SEQUENTIAL(64, 0, MIB, 100, 10) },
		{ 100, BE, 1, RANDOM(64, 0, 4096) },
	};
	struct sim_model model = sim_model_linear();
	struct world w;

	world_make(&w, "cfq", &model, 1, party, 3);
	world_go(&w, party);
	world_run(&w, 5 * SEC);
	ck_assert_uint_le(w.client[0]->longest, (2048 + 32 + 40) * US);
	ck_assert_double_le(fabs(world_iops(&w, 0) - 500), 1);
	world_end(&w);
}
END_TEST

struct idles {
	uint64_t last, shortest, longest;
	unsigned n;
};

static void note_idle(struct sim *sim, struct sim_flight *f)
{
	struct idles *i = sim->arg;
	uint64_t gap = sim->now - i->last;

	if (f->io->client->params.io_class != IDLE)
		return;
	if (i->n++) {
		i->shortest = gap < i->shortest ? gap : i->shortest;
		i->longest = gap > i->longest ? gap : i->longest;
	}
	i->last = sim->now;
}

/* Under load, one request every 200 ms, as exactly as the others' requests are short. */
START_TEST(test_idle_class)
{
	static const struct party party[] = {
		{ 100, RT, 1, RANDOM(64, 0, 4096) },
		{ 100, BE, 1, RANDOM(64, 0, 4096) },
		{ 100, IDLE, 1, RANDOM(64, 0, 4096) },
		{ 300, IDLE, 1, RANDOM(64, 0, 4096) },
	};
	struct sim_model model = sim_model_linear();
	struct idles idles = { .shortest = UINT64_MAX };
	struct world w;

	world_make(&w, "cfq", &model, 1, party, 4);
	world_go(&w, party);
	w.sim->arg = &idles;
	w.sim->dispatched = note_idle;
	world_run(&w, 20 * SEC);
	ck_assert_uint_ge(idles.shortest, 200 * MS);
	ck_assert_uint_le(idles.longest, 200 * MS + 50 * US);
	ck_assert_uint_ge(idles.n, 99);
	ck_assert_double_le(fabs((double)w.client[3]->cost / (double)w.client[2]->cost - 3), 0.3);
	world_end(&w);
}
END_TEST

static double idle_iops(const char *policy, const struct sim_model *model, unsigned depth)
{
	static const struct party party[] = { { 100, IDLE, 1, RANDOM(64, 0, 4096) } };
	double iops;
	struct world w;

	world_make(&w, policy, model, depth, party, 1);
	world_go(&w, party);
	world_run(&w, SEC);
	world_mark(&w);
	world_run(&w, SEC);
	iops = world_iops(&w, 0);
	world_end(&w);
	return iops;
}

START_TEST(test_idle_class_alone)
{
	struct sim_model linear = sim_model_linear(), ssd = sim_model_ssd(32, 80 * US, 30 * US);

	ck_assert_double_ge(idle_iops("cfq", &linear, 1), 0.999 * idle_iops("noop", &linear, 1));
	ck_assert_double_ge(idle_iops("cfq", &ssd, 32), 0.999 * idle_iops("noop", &ssd, 32));
}
END_TEST

/* The gaps of a reader are not for class idle, where the disk waits for the reader. */
START_TEST(test_idle_class_in_gaps)
{
	static const struct party party[] = {
		{ 100, BE, 1, RANDOM(1, 500 * US, 4096) },
		{ 100, IDLE, 1, RANDOM(64, 0, 4096) },
	};
	struct sim_model model = sim_model_hdd(200 * GIB);
	double alone, beside;
	struct world w;

	world_make(&w, "cfq", &model, 4, party, 1);
	world_go(&w, party);
	world_run(&w, 20 * SEC);
	alone = world_iops(&w, 0);
	world_end(&w);
	world_make(&w, "cfq", &model, 4, party, 2);
	world_go(&w, party);
	world_run(&w, 20 * SEC);
	beside = world_iops(&w, 0);
	ck_assert_double_ge(beside, 0.9 * alone);
	ck_assert_double_ge(world_iops(&w, 1), 4.5);
	world_end(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cfq_disk");
	TCase *tc = tcase_create("cfq_disk");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_thinking);
	tcase_add_test(tc, test_no_waiting);
	tcase_add_test(tc, test_sync_writer);
	tcase_add_test(tc, test_moments);
	tcase_add_test(tc, test_gone);
	tcase_add_test(tc, test_reader_beside_writers);
	tcase_add_test(tc, test_two_streams);
	tcase_add_test(tc, test_rt_share);
	tcase_add_test(tc, test_class_returns);
	tcase_add_test(tc, test_rt_latency);
	tcase_add_test(tc, test_idle_class);
	tcase_add_test(tc, test_idle_class_alone);
	tcase_add_test(tc, test_idle_class_in_gaps);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
