/*
 * What a request costs the elevator: steps through trees and lists grow like the logarithm of the
 * queue, and nothing is allocated, under every policy.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/elevator.h"
#include "sched/sim/random.h"
#include "tests/unit/slowness.h"
#include "tests/unit/suite.h"

/* --- counting allocations; sanitizers have an allocator of their own --- */

static unsigned long allocations;

#if !SANITIZED
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	allocations++;
	return __libc_realloc(p, size);
}
#endif

/* --- a queue that is kept at n requests --- */

enum { CLIENTS = 64, DEPTH = 32 };

static struct elv_disk disk;
static struct elv_store store;
static struct elevator elevator;
static struct elv_client client[CLIENTS];
static struct elv_conn conn[CLIENTS];
static struct elv_request *requests;
static struct sim_random dice;
static char data[4096];
static uint64_t now;
static struct elv_ios out;
static uint64_t wake;

static void insert(struct elv_request *rq, unsigned clients, uint64_t blocks)
{
	rq->conn = &conn[sim_below(&dice, clients)];
	rq->op = sim_chance(&dice, 70) ? ELV_READ : ELV_WRITE;
	rq->offset = sim_below(&dice, blocks) * 4096;
	rq->length = 4096;
	rq->data = data;
	rq->flags = 0;
	elv_insert(rq, now);
}

static void dispatch(void)
{
	elv_disk_dispatch(&disk, now, &out, &wake);
}

static void make(const struct elv_policy *policy, bool rotational, unsigned n, unsigned clients,
		 uint64_t blocks)
{
	struct elv_config config = {
		.disk = &disk, .store = &store, .policy = policy, .default_depth = DEPTH,
		.rotational = rotational,
	};

	dice.state = 1;
	now = 1000000000;
	TAILQ_INIT(&out);
	elv_disk_init(&disk);
	elv_store_init(&store, &disk, 4096);
	tunable_defaults(elv_rows, &config.params);
	ck_assert_int_eq(elevator_init(&elevator, &config), 0);
	for (unsigned i = 0; i < clients; i++) {
		client[i] = (struct elv_client){ .identity = i, .params = { 100, ELV_CLASS_BE } };
		elv_client_init(&client[i], &elevator);
		elv_conn_open(&conn[i], &client[i]);
	}
	requests = aligned_alloc(ELV_REQUEST_ALIGN, (n + 1) * sizeof(*requests));
	for (unsigned i = 0; i < n; i++) {
		now += 1000;
		insert(&requests[i], clients, blocks);
	}
	dispatch();
}

/* One io completes; its requests come again, elsewhere, or not. Returns how many came back. */
static unsigned turn(unsigned clients, uint64_t blocks, bool refill)
{
	struct elv_requests done;
	struct elv_request *rq;
	struct elv_io *io = TAILQ_FIRST(&out);
	unsigned n = 0;

	if (!io) {
		now = wake;
		dispatch();
		return 0;
	}
	TAILQ_REMOVE(&out, io, link);
	TAILQ_INIT(&done);
	now += 20000;
	io->result = (int64_t)io->length;
	elv_complete(io, now, &done);
	while ((rq = TAILQ_FIRST(&done))) {
		TAILQ_REMOVE(&done, rq, link);
		n++;
		if (refill)
			insert(rq, clients, blocks);
	}
	dispatch();
	return n;
}

static void end(unsigned n, unsigned clients)
{
	unsigned finished = 0;

	while (finished < n)
		finished += turn(clients, 1, false);
	for (unsigned i = 0; i < clients; i++) {
		struct elv_requests none;

		TAILQ_INIT(&none);
		elv_conn_close(&conn[i], true, now, &none);
		elv_client_exit(&client[i]);
	}
	elevator_exit(&elevator);
	elv_store_exit(&store);
	free(requests);
}

/* Steps a request, in the steady state. */
static double steps(const struct elv_policy *policy, bool rotational, unsigned n, unsigned clients,
		    uint64_t blocks)
{
	unsigned long before;
	unsigned finished = 0;
	double per_request;

	make(policy, rotational, n, clients, blocks);
	for (int i = 0; i < 2000; i++)
		turn(clients, blocks, true);
	before = allocations;
	sched_steps = 0;
	while (finished < 5000)
		finished += turn(clients, blocks, true);
	per_request = (double)sched_steps / finished;
	ck_assert_msg(allocations == before, "%s allocated %lu times", policy->name,
		      allocations - before);
	end(n, clients);
	return per_request;
}

START_TEST(test_steps)
{
	const struct elv_policy *policy = elv_policies[_i / 4];
	bool rotational = _i % 2;
	unsigned clients = _i % 4 < 2 ? 1 : CLIENTS;
	double few = steps(policy, rotational, 128, clients, 1 << 28);
	double many = steps(policy, rotational, 65536, clients, 1 << 28);

	printf("%-9s %s %2u clients: %6.1f steps a request with 128 queued, %6.1f with 65536\n",
	       policy->name, rotational ? "rotating" : "flash   ", clients, few, many);
	ck_assert_msg(many <= 2.5 * few, "%s: %.1f steps with 128 queued, %.1f with 65536",
		      policy->name, few, many);
}
END_TEST

/*
 * Everybody on the same few blocks, or on one: what a request costs depends on how many clients
 * there are, not on how much they have queued.
 */
START_TEST(test_blocks)
{
	static const uint64_t blocks[] = { 4096, 1 };
	const struct elv_policy *policy = elv_policies[_i / 4];
	uint64_t on = blocks[_i % 2];
	unsigned clients = _i % 4 < 2 ? 1 : CLIENTS;
	double few = steps(policy, false, 128, clients, on);
	double many = steps(policy, false, 8192, clients, on);

	printf("%-9s %2u clients on %4u blocks: %6.1f steps with 128 queued, %6.1f with 8192\n",
	       policy->name, clients, (unsigned)on, few, many);
	ck_assert_msg(many <= 8 * few, "%s: %.1f steps with 128 queued, %.1f with 8192",
		      policy->name, few, many);
}
END_TEST

/* A switch costs O(queued), whatever had been merged: here 128 streams that go on in turns. */
START_TEST(test_switch)
{
	enum { STREAMS = 128, EACH = 128 };
	struct elv_params p;

	make(elv_policy_find("noop"), false, 0, 1, 1);
	free(requests);
	requests = calloc(STREAMS * EACH, sizeof(*requests));
	for (unsigned i = 0; i < STREAMS * EACH; i++) {
		struct elv_request *rq = &requests[i];

		*rq = (struct elv_request){ .conn = &conn[0], .length = 4096, .data = data };
		rq->offset = (uint64_t)(i % STREAMS) << 30 | (uint64_t)(i / STREAMS) * 4096;
		elv_insert(rq, ++now);
	}
	ck_assert_uint_le(elevator.in_policy, STREAMS * 2);
	p = elevator.params;
	p.nomerges = 2;
	elv_set_params(&elevator, &p, DEPTH, false, now);
	for (unsigned i = 0; elv_policies[i]; i++) {
		sched_steps = 0;
		elv_switch(&elevator, elv_policies[i], now);
		ck_assert_uint_eq(elevator.in_policy, STREAMS * EACH);
		ck_assert_uint_le(sched_steps, STREAMS * EACH * 120ULL);
	}
	end(STREAMS * EACH, 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cost");
	TCase *tc = tcase_create("cost");
	int n = 0;

	while (elv_policies[n])
		n++;
	tcase_set_timeout(tc, 300);
	tcase_add_loop_test(tc, test_steps, 0, 4 * n);
	tcase_add_loop_test(tc, test_blocks, 0, 4 * n);
	tcase_add_test(tc, test_switch);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
