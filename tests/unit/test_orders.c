/*
 * All there is of a small world: a few requests of two clients on two blocks, in every order of
 * arrival and completion, with a connection that dies at every point, under every policy. The
 * harness checks each step: order, data, conservation.
 *
 * FULL=1 takes all sets of four requests instead of some of them.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "sched/sim/sim.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

enum { BLOCK = 512, MAX_CHOICES = 40, KINDS = 3 * 3 * 2 };

/* What a request is, as a number below KINDS: op, blocks, client. */
static const enum elv_op ops[] = { ELV_READ, ELV_WRITE, ELV_TRIM };
static const uint64_t starts[] = { 0, 1, 0 }, ends[] = { 1, 2, 2 };

/* The choices that were made at each step, and how many there were. */
struct path {
	unsigned choice[MAX_CHOICES], options[MAX_CHOICES], length;
};

struct small {
	struct sim *sim;
	struct sim_disk *disk;
	struct sim_conn *conn[2];
	const unsigned *kinds;
	unsigned n, arrived;
	bool may_close;
};

static void make(struct small *s, const char *policy, unsigned depth, const unsigned *kinds,
		 unsigned n, bool may_close)
{
	struct sim_model model = sim_model_constant(1);
	struct sim_setup setup = { .policy = policy, .depth = depth };
	struct sim_export *x;

	*s = (struct small){ .sim = sim_new(1), .kinds = kinds, .n = n, .may_close = may_close };
	s->sim->check = true;
	s->disk = sim_disk_new(s->sim, &model);
	x = sim_export_new(sim_store_new(s->disk, BLOCK, 2 * BLOCK), &setup);
	for (unsigned i = 0; i < 2; i++)
		s->conn[i] = sim_conn_new(sim_client_new(x, i + 1, 0, ELV_CLASS_BE));
}

/* Is there another one to arrive? Those whose connection is gone are left out. */
static bool can_arrive(struct small *s)
{
	while (s->arrived < s->n && !s->conn[s->kinds[s->arrived] % 2]->c.open)
		s->arrived++;
	return s->arrived < s->n;
}

static void arrive(struct small *s)
{
	unsigned kind = s->kinds[s->arrived++];
	unsigned at = kind / 2 % 3;

	sim_submit(s->conn[kind % 2], ops[kind / 6], starts[at] * BLOCK,
		   (ends[at] - starts[at]) * BLOCK, 0);
}

/* Next step: 0..: that io completes; then: the next arrives; then: a connection dies. */
static void step(struct small *s, struct path *p, unsigned at)
{
	unsigned options = s->disk->nflights + can_arrive(s) + (s->may_close && s->conn[0]->c.open);
	unsigned choice;

	if (at == p->length) {
		p->choice[at] = 0;
		p->length++;
	}
	p->options[at] = options;
	choice = p->choice[at];
	s->sim->now += 1000;
	if (choice < s->disk->nflights)
		sim_complete(sim_flight(s->disk, choice));
	else if (choice == s->disk->nflights && s->arrived < s->n)
		arrive(s);
	else
		sim_close(s->conn[0]);
	sim_dispatch(s->disk);
}

static bool over(struct small *s)
{
	return !s->disk->nflights && !can_arrive(s) && s->disk->wake == ELV_NEVER;
}

/* The next path in order; false: that was the last one. */
static bool advance(struct path *p)
{
	while (p->length && p->choice[p->length - 1] + 1 >= p->options[p->length - 1])
		p->length--;
	if (!p->length)
		return false;
	p->choice[p->length - 1]++;
	return true;
}

/* All orders of these requests. Returns how many. */
static unsigned long explore(const char *policy, unsigned depth, const unsigned *kinds, unsigned n,
			     bool may_close)
{
	struct path p = { .length = 0 };
	unsigned long runs = 0;

	do {
		struct small s;
		unsigned at = 0;

		make(&s, policy, depth, kinds, n, may_close);
		while (!over(&s) && at < MAX_CHOICES - 1 && !s.sim->wrong[0]) {
			if (!s.disk->nflights && !can_arrive(&s)) {
				s.sim->now = s.disk->wake; /* only time can go on */
				sim_dispatch(s.disk);
				continue;
			}
			step(&s, &p, at++);
		}
		sim_drain(s.sim);
		if (s.sim->wrong[0])
			ck_abort_msg("%s, depth %u, requests %u %u %u %u, run %lu: %s", policy,
				     depth, kinds[0], kinds[1], kinds[2], n > 3 ? kinds[3] : 0,
				     runs, s.sim->wrong);
		sim_free(s.sim);
		runs++;
	} while (advance(&p));
	return runs;
}

static void kinds_of(unsigned number, unsigned *kinds, unsigned n)
{
	for (unsigned i = 0; i < n; i++, number /= KINDS)
		kinds[i] = number % KINDS;
}

START_TEST(test_three)
{
	const char *policy = elv_policies[_i / 2]->name;
	bool may_close = _i % 2;
	unsigned stride = (may_close ? 5 : 1) * SLOWNESS, kinds[3];
	unsigned long runs = 0;

	for (unsigned number = 0; number < KINDS * KINDS * KINDS; number += stride) {
		kinds_of(number, kinds, 3);
		runs += explore(policy, 2, kinds, 3, may_close);
	}
	printf("%s: %lu runs of three requests%s\n", policy, runs,
	       may_close ? " and a connection that dies" : "");
}
END_TEST

START_TEST(test_four)
{
	const char *policy = elv_policies[_i]->name;
	const unsigned all = KINDS * KINDS * KINDS * KINDS;
	unsigned stride = getenv("FULL") && *getenv("FULL") ? 1 : 229 * SLOWNESS, kinds[4];
	unsigned long runs = 0;

	for (unsigned number = 0; number < all; number += stride) {
		kinds_of(number, kinds, 4);
		runs += explore(policy, 3, kinds, 4, false);
	}
	printf("%s: %lu runs of four requests\n", policy, runs);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("orders");
	TCase *tc = tcase_create("orders");
	int n = 0;

	while (elv_policies[n])
		n++;
	tcase_set_timeout(tc, 3600);
	tcase_add_loop_test(tc, test_three, 0, 2 * n);
	tcase_add_loop_test(tc, test_four, 0, n);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
