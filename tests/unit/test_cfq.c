/*
 * cfq in virtual time: shares, bounds, idling, classes.
 *
 * The bound of start-time fair queueing (Goyal, Vin, Cheng 1996) with turns of up to Q requests: a
 * turn begins only when its client's tag, W/weight, is the smallest, and adds Q * c/weight at most,
 * where c is the cost of the client's largest io. So of two clients f and m that have requests
 * queued all the time
 *
 *     |W_f/w_f - W_m/w_m|  <=  Q * (c_f/w_f + c_m/w_m)
 *
 * for the cost that was dispatched, at every instant and for any number of ios in flight. Where
 * everybody's requests are sync and the disk does not rotate, a turn ends when somebody is behind,
 * and Q is 1.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/cost.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"
#include "tests/unit/world.h"

#define BE ELV_CLASS_BE

static void near(const char *what, double got, double want, double tolerance)
{
	ck_assert_msg(fabs(got / want - 1) <= tolerance, "%s: %.5f instead of %.5f", what, got,
		      want);
}

/* --- shares --- */

struct share_case {
	const char *name;
	unsigned n;
	struct party party[4];
	uint64_t seconds;
};

static const struct share_case share_cases[] = {
	{ "equal", 2,
	  { { 100, BE, 1, RANDOM(64, 0, 4096) }, { 100, BE, 1, RANDOM(64, 0, 4096) } }, 10 },
	{ "four", 4,
	  { { 100, BE, 1, RANDOM(64, 0, 4096) }, { 100, BE, 1, RANDOM(80, 0, 4096) },
	    { 100, BE, 1, RANDOM(100, 0, 4096) }, { 100, BE, 1, RANDOM(128, 0, 4096) } }, 10 },
	{ "100:300", 2,
	  { { 100, BE, 1, RANDOM(64, 0, 4096) }, { 300, BE, 1, RANDOM(64, 0, 4096) } }, 10 },
	{ "1:1000", 2,
	  { { 1, BE, 1, RANDOM(64, 0, 4096) }, { 1000, BE, 1, RANDOM(128, 0, 4096) } }, 100 },
	{ "1 and 8 connections", 2,
	  { { 100, BE, 1, RANDOM(64, 0, 4096) }, { 100, BE, 8, RANDOM(512, 0, 4096) } }, 10 },
	{ "4 KiB and 1 MiB", 2,
	  { { 100, BE, 1, RANDOM(64, 0, 4 * KIB) }, { 100, BE, 1, RANDOM(64, 0, MIB) } }, 10 },
	{ "mixed sizes", 2,
	  { { 100, BE, 1, { .depth = 64,
			    .sizes = { { 4 * KIB, 70 }, { 64 * KIB, 20 }, { 2 * MIB, 10 } },
			    .span = 100 * GIB, .random = true } },
	    { 100, BE, 1, RANDOM(64, 0, 16 * KIB) } }, 20 },
	{ "writers", 3,
	  { { 100, BE, 1, SEQUENTIAL(64, 0, MIB, 100, 10) },
	    { 200, BE, 1, SEQUENTIAL(64, 0, MIB, 100, 30) },
	    { 100, BE, 1, SEQUENTIAL(64, 0, 700 * KIB, 100, 50) } }, 20 },
};
enum { N_SHARES = sizeof(share_cases) / sizeof(*share_cases) };

/* Models in which the cost is the time, and one in which it is not. */
static struct sim_model share_model(int i, unsigned *depth)
{
	*depth = i % 2 ? 32 : 1;
	return i < 2 ? sim_model_linear() : sim_model_ssd(*depth, 80 * US, 30 * US);
}

static void check_shares(const struct share_case *c, const struct world *w, bool time)
{
	double all = 0;

	for (unsigned i = 0; i < c->n; i++)
		all += (double)c->party[i].weight;
	for (unsigned i = 0; i < c->n; i++)
		near(c->name, time ? world_time_share(w, i) : world_cost_share(w, i),
		     (double)c->party[i].weight / all, 0.01);
}

START_TEST(test_shares)
{
	const struct share_case *c = &share_cases[_i % N_SHARES];
	struct world w;
	unsigned depth;
	struct sim_model model = share_model(_i / N_SHARES, &depth);

	world_make(&w, "cfq", &model, depth, c->party, c->n);
	world_go(&w, c->party);
	world_run(&w, SEC / 10);
	world_mark(&w);
	world_run(&w, c->seconds * SEC / (_i / N_SHARES < 3 ? 5 : 25));
	check_shares(c, &w, false);
	world_end(&w);
}
END_TEST

/* On the rotating disk, shares are of its time. */
START_TEST(test_shares_of_time)
{
	const struct share_case *c = &share_cases[_i / 2];
	struct sim_model model = sim_model_hdd(200 * GIB);
	struct world w;

	if (!strcmp(c->name, "1:1000"))
		return; /* takes too long on such a disk */
	world_make(&w, "cfq", &model, _i % 2 ? 4 : 1, c->party, c->n);
	world_go(&w, c->party);
	world_run(&w, SEC);
	world_mark(&w);
	world_run(&w, 150 * SEC);
	check_shares(c, &w, true);
	world_end(&w);
}
END_TEST

/* --- the bound --- */

struct bound {
	unsigned n;
	double weight[8], work[8], most[8]; /* most: the largest io */
	double q;
	double worst; /* of what is allowed */
	unsigned long checks;
};

static void check_bound(struct sim *sim, struct sim_flight *f)
{
	struct bound *b = sim->arg;
	unsigned k = (unsigned)f->io->client->identity - 1;

	b->work[k] += (double)f->io->cost;
	if ((double)f->io->cost > b->most[k])
		b->most[k] = (double)f->io->cost;
	for (unsigned i = 0; i < b->n; i++) {
		double apart = b->work[i] / b->weight[i] - b->work[k] / b->weight[k];
		double allowed = b->q * (b->most[i] / b->weight[i] + b->most[k] / b->weight[k]);

		if (i == k)
			continue;
		b->checks++;
		if (fabs(apart) > b->worst * allowed)
			b->worst = fabs(apart) / allowed;
		if (fabs(apart) > allowed * 1.0001) /* tags are whole numbers */
			sim_wrong(sim, "clients %u and %u are %.2f apart, %.2f are allowed", i, k,
				  apart, allowed);
	}
}

/* Random weights, sizes and depths; every client has requests queued all the time. */
START_TEST(test_bound)
{
	struct sim_random r = { .state = (uint64_t)_i + 1 };
	struct party party[8] = { 0 };
	bool reads = _i % 2;
	unsigned depth = (unsigned[]){ 1, 4, 32 }[_i % 3];
	uint64_t quantum = 1 + sim_below(&r, 16);
	struct bound b = { .n = 2 + (unsigned)sim_below(&r, 6), .q = reads ? 1 : (double)quantum };
	struct sim_model model = _i % 4 < 2 ? sim_model_linear()
					    : sim_model_ssd(depth, 80 * US, 30 * US);
	struct world w;

	for (unsigned i = 0; i < b.n; i++) {
		/* Light ones make virtual time run: tags are set back in mid-run. */
		party[i] = (struct party){ 1 + sim_below(&r, _i % 4 ? 1000 : 8), BE, 1,
					   RANDOM(0, 0, 4096) };
		party[i].load.depth = depth + 40;
		party[i].load.start = i * 10 * GIB; /* no overlaps: they take others with them */
		party[i].load.span = 10 * GIB;
		party[i].load.writes = reads ? 0 : 100;
		party[i].load.sizes[0].bytes = 4096 << sim_below(&r, 8);
		b.weight[i] = (double)party[i].weight;
		b.most[i] = (double)elv_cost(ELV_READ, party[i].load.sizes[0].bytes);
	}
	world_make(&w, "cfq", &model, depth, party, b.n);
	sim_tune(w.export, "cfq", "quantum", quantum);
	w.sim->arg = &b;
	w.sim->dispatched = check_bound;
	world_go(&w, party);
	world_run(&w, SEC / 4);
	w.sim->dispatched = NULL;
	ck_assert_uint_gt(b.checks, 1000);
	ck_assert_double_gt(b.worst, 0.2); /* it is a bound, not a wide margin */
	world_end(&w);
}
END_TEST

/* --- no credit --- */

/* One pauses again and again: when it is back it does not get more than half, nor less. */
START_TEST(test_no_credit)
{
	static const struct party party[] = {
		{ 100, BE, 1, RANDOM(64, 0, 4096) },
		{ 100, BE, 1, { .depth = 64, .sizes = { { 4096, 0 } }, .span = 100 * GIB,
				.random = true, .on = SEC, .off = SEC } },
	};
	unsigned depth = _i ? 32 : 1;
	struct sim_model model = sim_model_linear();
	uint64_t most = (64 + depth) * 40 * US; /* under way when it paused and came back */
	struct world w;

	world_make(&w, "cfq", &model, depth, party, 2);
	world_go(&w, party);
	for (int i = 0; i < 5; i++) {
		world_mark(&w);
		for (int ms = 0; ms < 1000; ms += 10) {
			uint64_t a, b;

			world_run(&w, 10 * MS);
			a = w.client[0]->time - w.mark[0].time;
			b = w.client[1]->time - w.mark[1].time;
			ck_assert_uint_le(a > b ? a - b : b - a, most);
		}
		world_run(&w, SEC);
	}
	world_end(&w);
}
END_TEST

struct restless {
	struct sim_event event;
	struct world *w;
	unsigned next;
};

/* Close a connection with all that it has queued, open it again. */
static void reconnect(struct sim *sim, struct sim_event *event)
{
	struct restless *r = tree_entry(event, struct restless, event);
	struct sim_conn *conn = TAILQ_FIRST(&r->w->client[1]->conns);

	for (unsigned i = r->next++ % 4; i; i--)
		conn = TAILQ_NEXT(conn, link);
	if (conn->c.open)
		sim_close(conn);
	else if (!conn->pending)
		sim_reopen(conn);
	sim_arm(sim, event, sim->now + 3 * MS);
}

START_TEST(test_reconnecting)
{
	static const struct party party[] = {
		{ 100, BE, 1, RANDOM(64, 0, 4096) }, { 100, BE, 5, RANDOM(64, 0, 4096) }
	};
	struct sim_model model = sim_model_linear();
	struct world w;
	struct restless r = { .event.fire = reconnect, .w = &w };

	world_make(&w, "cfq", &model, 4, party, 2);
	world_go(&w, party);
	sim_arm(w.sim, &r.event, w.sim->now + MS);
	world_run(&w, 5 * SEC);
	near("one that reconnects", world_cost_share(&w, 1), 0.5, 0.01);
	sim_disarm(w.sim, &r.event);
	world_end(&w);
}
END_TEST

/* --- weights --- */

struct log {
	uint64_t hash;
	double share;
};

static void note(struct sim *sim, struct sim_flight *f)
{
	uint64_t *hash = sim->arg;

	*hash = (*hash ^ f->io->offset) * 0x9e3779b97f4a7c15;
}

/* Sequential loads in regions of their own: offsets tell the clients. */
static struct log run_weights(const uint64_t *weights, const unsigned *order)
{
	struct sim_model model = sim_model_linear();
	struct party party[3];
	struct world w;
	struct log log = { 0 };

	for (unsigned i = 0; i < 3; i++) {
		unsigned k = order[i];

		party[i] = (struct party){ weights[k], BE, 1,
					   SEQUENTIAL(20, 0, 4096, 0, 10 * (k + 1)) };
	}
	world_make(&w, "cfq", &model, 4, party, 3);
	w.sim->arg = &log.hash;
	w.sim->dispatched = note;
	for (unsigned k = 0; k < 3; k++) /* who comes first does not depend on the numbering */
		for (unsigned i = 0; i < 3; i++)
			if (order[i] == k)
				sim_load_start(w.client[i], &party[i].load, 1);
	world_mark(&w);
	world_run(&w, SEC);
	for (unsigned i = 0; i < 3; i++)
		if (order[i] == 0)
			log.share = world_cost_share(&w, i);
	world_end(&w);
	return log;
}

START_TEST(test_weights)
{
	static const unsigned same[] = { 0, 1, 2 }, other[] = { 2, 0, 1 };
	static const uint64_t small[] = { 1, 2, 8 }, large[] = { 64, 128, 512 };
	struct log a = run_weights(small, same);
	double last = 0;

	ck_assert_msg(run_weights(large, same).hash == a.hash, "weights count in proportion only");
	ck_assert_msg(run_weights(small, other).hash == a.hash, "clients' numbers count");
	for (uint64_t weight = 1; weight <= 1000; weight += weight < 10 ? 1 : weight / 3) {
		const uint64_t weights[] = { weight, 100, 100 };
		double share = run_weights(weights, same).share;

		ck_assert_msg(share >= last, "more weight, less service: %.4f after %.4f", share,
			      last);
		last = share;
	}
}
END_TEST

/* --- sync and async of one client --- */

static void refill(struct sim *sim, struct sim_request *r)
{
	const bool *stop = sim->arg;

	if (!*stop)
		sim_submit(r->conn, r->op, (r->offset + 64 * MIB) % (64 * GIB), r->length, 0);
}

static uint64_t sync_cost, async_cost;

static void count_kinds(struct sim *sim, struct sim_flight *f)
{
	(void)sim;
	*(f->io->op == ELV_READ ? &sync_cost : &async_cost) += f->io->cost;
}

START_TEST(test_sync_and_async)
{
	static const struct party party[] = { { 100, BE, 1, RANDOM(0, 0, 4096) } };
	struct sim_model model = sim_model_linear();
	struct world w;
	struct sim_conn *conn;
	bool stop = false;

	world_make(&w, "cfq", &model, 1, party, 1);
	conn = sim_conn_new(w.client[0]);
	w.sim->replied = refill;
	w.sim->dispatched = count_kinds;
	w.sim->arg = &stop;
	sync_cost = async_cost = 0;
	for (uint64_t i = 0; i < 30; i++) {
		sim_submit(conn, ELV_READ, i * MIB, 4096, 0);
		sim_submit(conn, ELV_WRITE, i * MIB + 512 * KIB, 16384, 0);
	}
	world_run(&w, 10 * SEC);
	stop = true;
	near("sync to async", (double)sync_cost / (double)async_cost, 2.5, 0.01);
	world_end(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cfq");
	TCase *tc = tcase_create("cfq");

	tcase_set_timeout(tc, 300);
	tcase_add_loop_test(tc, test_shares, 0, 4 * N_SHARES);
	tcase_add_loop_test(tc, test_shares_of_time, 0, 2 * N_SHARES);
	tcase_add_loop_test(tc, test_bound, 0, 24 / SLOWNESS);
	tcase_add_loop_test(tc, test_no_credit, 0, 2);
	tcase_add_test(tc, test_reconnecting);
	tcase_add_test(tc, test_weights);
	tcase_add_test(tc, test_sync_and_async);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
