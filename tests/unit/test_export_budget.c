/*
 * Budgets: who gets how much when, in single steps; and the promises as a whole, under random
 * clients.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/budget.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, MEMORY = 64 * MIB };

struct client {
	struct budget_identity identity;
	struct budget_account account;
};

struct waiter {
	struct budget_waiter w; /* first */
	unsigned order;         /* of its last grant; 0: none */
};

static struct budget budget;
static struct budget_export export;
static struct client client[8];
static struct waiter waiter[8];
static unsigned grants;

static void on_grant(struct budget_waiter *w)
{
	struct budget_identity *i = w->account->identity;

	((struct waiter *)w)->order = ++grants;
	/* Beyond `memory` only for one that held nothing. */
	if (w->need.bytes && i->requests > 1)
		ck_assert_uint_le(budget.held, budget.memory);
}

static void setup(void)
{
	budget_init(&budget, MEMORY);
	memset(&export, 0, sizeof(export));
	export.nr_requests = 128;
	grants = 0;
	for (unsigned i = 0; i < 8; i++) {
		budget_identity_init(&client[i].identity);
		budget_account_init(&client[i].account, &budget, &export, &client[i].identity);
		budget_waiter_init(&waiter[i].w, on_grant);
		waiter[i].order = 0;
	}
}

static void teardown(void)
{
	ck_assert_ptr_null(budget_check(&budget));
	budget_exit(&budget);
}

/* Client c asks for n requests of this size; returns how many it gets. */
static unsigned ask(unsigned c, enum elv_dir dir, uint64_t bytes, unsigned n)
{
	struct budget_need need[256];
	unsigned got;

	for (unsigned i = 0; i < n; i++)
		need[i] = (struct budget_need){ bytes, dir };
	got = budget_take(&client[c].account, need, n, &waiter[c].w);
	ck_assert_ptr_null(budget_check(&budget));
	return got;
}

static void finish(unsigned c, enum elv_dir dir, uint64_t bytes, unsigned n)
{
	budget_lock(&budget);
	for (unsigned i = 0; i < n; i++) {
		budget_slot(&client[c].account, dir);
		budget_end(&client[c].account, bytes, BUDGET_ANSWERED);
	}
	budget_unlock(&budget);
	ck_assert_ptr_null(budget_check(&budget));
}

static bool granted(unsigned c)
{
	bool yes = waiter[c].w.state == BUDGET_GRANTED;

	if (yes)
		ck_assert(budget_accept(&waiter[c].w));
	ck_assert(!budget_accept(&waiter[c].w));
	return yes;
}

/* ---- slots ---- */

START_TEST(a_client_gets_nr_requests_in_each_direction)
{
	ck_assert_uint_eq(ask(0, ELV_DIR_READ, 0, 130), 128);
	ck_assert_int_eq(waiter[0].w.state, BUDGET_WAIT_SLOT);
	budget_cancel(&waiter[0].w);
	ck_assert_uint_eq(ask(0, ELV_DIR_WRITE, 0, 128), 128);
	/* Others are not concerned. */
	ck_assert_uint_eq(ask(1, ELV_DIR_READ, 0, 128), 128);
	finish(0, ELV_DIR_READ, 0, 128);
	finish(0, ELV_DIR_WRITE, 0, 128);
	finish(1, ELV_DIR_READ, 0, 128);
}
END_TEST

START_TEST(who_waits_for_a_slot_gets_the_next_one)
{
	ask(0, ELV_DIR_WRITE, 4096, 129);
	ck_assert(!granted(0));
	finish(0, ELV_DIR_WRITE, 4096, 1);
	ck_assert(granted(0));
	ck_assert_uint_eq(budget.requests, 128);
	ck_assert_uint_eq(budget.held, 128 * 4096);
	finish(0, ELV_DIR_WRITE, 4096, 128);
	ck_assert_uint_eq(budget.held, 0);
	ck_assert_uint_eq(export.waits, 1);
	ck_assert_uint_eq(export.answered, 129);
}
END_TEST

START_TEST(connections_of_one_client_take_turns)
{
	struct budget_need need = { 0, ELV_DIR_READ };

	ask(0, ELV_DIR_READ, 0, 128);
	budget_take(&client[0].account, &need, 1, &waiter[1].w);
	budget_take(&client[0].account, &need, 1, &waiter[2].w);
	finish(0, ELV_DIR_READ, 0, 1);
	/* A slot that is free belongs to who waits, not to who asks now. */
	ck_assert_uint_eq(ask(0, ELV_DIR_READ, 0, 1), 0);
	ck_assert(granted(1));
	finish(0, ELV_DIR_READ, 0, 2);
	ck_assert(granted(2));
	ck_assert(granted(0));
	finish(0, ELV_DIR_READ, 0, 128);
}
END_TEST

START_TEST(a_higher_limit_wakes_who_waits)
{
	export.nr_requests = 4;
	ck_assert_uint_eq(ask(0, ELV_DIR_READ, 0, 6), 4);
	budget_lock(&budget);
	export.nr_requests = 5;
	budget_serve_slots(&client[0].account);
	budget_unlock(&budget);
	ck_assert(granted(0));
	export.nr_requests = 2;
	ck_assert_uint_eq(ask(0, ELV_DIR_READ, 0, 1), 0);
	finish(0, ELV_DIR_READ, 0, 3);
	ck_assert(!granted(0)); /* still as many as it may have */
	finish(0, ELV_DIR_READ, 0, 1);
	ck_assert(granted(0));
	finish(0, ELV_DIR_READ, 0, 2);
}
END_TEST

/* ---- bytes ---- */

START_TEST(one_client_alone_may_use_all_memory)
{
	ck_assert_uint_eq(ask(0, ELV_DIR_WRITE, MIB, 100), 64);
	ck_assert_uint_eq(budget.held, MEMORY);
	ck_assert_int_eq(waiter[0].w.state, BUDGET_WAIT_BYTES);
	budget_cancel(&waiter[0].w);
	finish(0, ELV_DIR_WRITE, MIB, 64);
}
END_TEST

START_TEST(a_client_that_holds_nothing_always_gets_one)
{
	ask(0, ELV_DIR_WRITE, MIB, 64);
	ck_assert_uint_eq(ask(1, ELV_DIR_READ, 32 * MIB, 2), 1);
	ck_assert_uint_eq(budget.held, MEMORY + 32 * MIB);
	ck_assert_uint_eq(ask(2, ELV_DIR_READ, 4096, 2), 1);
	/* And again, when that one is finished, before anything else is. */
	finish(1, ELV_DIR_READ, 32 * MIB, 1);
	ck_assert(granted(1));
	ck_assert_uint_eq(budget.held, MEMORY + 32 * MIB + 4096);
	budget_cancel(&waiter[2].w);
	finish(0, ELV_DIR_WRITE, MIB, 64);
	finish(1, ELV_DIR_READ, 32 * MIB, 1);
	finish(2, ELV_DIR_READ, 4096, 1);
}
END_TEST

START_TEST(requests_without_data_never_wait_for_memory)
{
	ask(0, ELV_DIR_WRITE, MIB, 65);
	ck_assert_uint_eq(ask(1, ELV_DIR_WRITE, 0, 5), 5);
	budget_cancel(&waiter[0].w);
	finish(0, ELV_DIR_WRITE, MIB, 64);
	finish(1, ELV_DIR_WRITE, 0, 5);
}
END_TEST

START_TEST(who_waits_first_is_served_first)
{
	ask(0, ELV_DIR_WRITE, MIB, 64);
	for (unsigned c = 1; c <= 3; c++)
		ck_assert_uint_eq(ask(c, ELV_DIR_WRITE, 4 * MIB, 2), 1);
	/* 76 MiB are held: nothing is free before 16 of them are back. */
	finish(0, ELV_DIR_WRITE, MIB, 15);
	ck_assert(!granted(1));
	/* A small one does not slip by the large one that waits. */
	ck_assert_uint_eq(ask(4, ELV_DIR_WRITE, 4096, 2), 1);
	finish(0, ELV_DIR_WRITE, MIB, 2);
	ck_assert(granted(1));
	ck_assert(!granted(2) && !granted(3) && !granted(4));
	finish(0, ELV_DIR_WRITE, MIB, 47);
	ck_assert_uint_lt(waiter[1].order, waiter[2].order);
	ck_assert_uint_lt(waiter[2].order, waiter[3].order);
	ck_assert_uint_lt(waiter[3].order, waiter[4].order);
	for (unsigned c = 2; c <= 4; c++)
		ck_assert(granted(c));
	for (unsigned c = 1; c <= 3; c++)
		finish(c, ELV_DIR_WRITE, 4 * MIB, 2);
	finish(4, ELV_DIR_WRITE, 4096, 2);
}
END_TEST

START_TEST(above_a_quarter_others_go_first)
{
	ask(0, ELV_DIR_WRITE, MIB, 60);
	ask(1, ELV_DIR_WRITE, 4 * MIB, 1);
	/* Both wait: 0, which was first, holds more than a quarter. */
	ck_assert_uint_eq(ask(0, ELV_DIR_WRITE, MIB, 1), 0);
	ck_assert_uint_eq(ask(1, ELV_DIR_WRITE, 4 * MIB, 1), 0);
	ck_assert_int_eq(client[0].identity.place, BUDGET_PASSED);
	finish(0, ELV_DIR_WRITE, MIB, 3);
	ck_assert(!granted(0) && !granted(1)); /* nor does it get what is too little for 1 */
	finish(0, ELV_DIR_WRITE, MIB, 1);
	ck_assert(granted(1) && !granted(0));
	/* Nobody else waits any more. */
	finish(0, ELV_DIR_WRITE, MIB, 1);
	ck_assert(granted(0));
	finish(0, ELV_DIR_WRITE, MIB, 56);
	finish(1, ELV_DIR_WRITE, 4 * MIB, 2);
}
END_TEST

START_TEST(many_connections_are_one_client)
{
	static struct waiter more[16];
	struct budget_need need = { MIB, ELV_DIR_WRITE };

	ask(2, ELV_DIR_WRITE, MIB, 62);
	ask(0, ELV_DIR_WRITE, MIB, 1);
	ask(1, ELV_DIR_WRITE, MIB, 1);
	/* Sixteen connections of client 0 wait, then one of client 1. */
	for (unsigned i = 0; i < 16; i++) {
		budget_waiter_init(&more[i].w, on_grant);
		ck_assert_uint_eq(budget_take(&client[0].account, &need, 1, &more[i].w), 0);
	}
	ask(1, ELV_DIR_WRITE, MIB, 1);
	finish(2, ELV_DIR_WRITE, MIB, 2);
	ck_assert_int_eq(more[0].w.state, BUDGET_GRANTED);
	ck_assert(granted(1));
	for (unsigned i = 0; i < 16; i++)
		budget_cancel(&more[i].w);
	finish(0, ELV_DIR_WRITE, MIB, 1);
	finish(1, ELV_DIR_WRITE, MIB, 2);
	finish(2, ELV_DIR_WRITE, MIB, 60);
	ck_assert_uint_eq(budget.requests, 0);
}
END_TEST

START_TEST(data_that_is_no_longer_needed_is_free_at_once)
{
	ask(0, ELV_DIR_WRITE, MIB, 64);
	ask(1, ELV_DIR_WRITE, MIB, 2);
	budget_lock(&budget);
	budget_slot(&client[0].account, ELV_DIR_WRITE);
	budget_shrink(&client[0].account, MIB);
	budget_slot(&client[0].account, ELV_DIR_WRITE);
	budget_shrink(&client[0].account, MIB);
	budget_unlock(&budget);
	ck_assert(granted(1));
	ck_assert_uint_eq(client[0].identity.requests, 64);
	budget_lock(&budget);
	budget_end(&client[0].account, 0, BUDGET_ANSWERED);
	budget_end(&client[0].account, 0, BUDGET_WITHDRAWN);
	budget_unlock(&budget);
	finish(0, ELV_DIR_WRITE, MIB, 62);
	finish(1, ELV_DIR_WRITE, MIB, 2);
	ck_assert_uint_eq(export.withdrawn, 1);
	ck_assert_uint_eq(export.answered, 65);
}
END_TEST

/* ---- giving up ---- */

START_TEST(cancelling_gives_everything_back)
{
	ask(0, ELV_DIR_WRITE, MIB, 65);
	budget_cancel(&waiter[0].w); /* waited for bytes */
	ck_assert_uint_eq(client[0].account.slots[ELV_DIR_WRITE], 64);
	ask(0, ELV_DIR_WRITE, MIB, 1);
	finish(0, ELV_DIR_WRITE, MIB, 1);
	ck_assert_int_eq(waiter[0].w.state, BUDGET_GRANTED);
	budget_cancel(&waiter[0].w); /* was granted, and did not look */
	ck_assert_uint_eq(budget.held, 63 * MIB);
	ck_assert_uint_eq(export.withdrawn, 0);
	budget_cancel(&waiter[0].w); /* idle */
	finish(0, ELV_DIR_WRITE, MIB, 63);
	ck_assert_uint_eq(budget.waiting, 0);
}
END_TEST

/* ---- at random ---- */

/* A request that is held. */
struct held {
	unsigned account;
	struct budget_need need;
};

enum { IDENTITIES = 6, ACCOUNTS = 12, WAITERS = 48, MAX_HELD = 20000 };

static struct budget_identity identities[IDENTITIES];
static struct budget_account accounts[ACCOUNTS]; /* two exports for each identity */
static struct budget_export exports[2];
static struct waiter waiters[WAITERS];           /* four for each account */
static struct held held[MAX_HELD];
static unsigned nheld;

static struct budget_need random_need(void)
{
	static const uint64_t sizes[] = { 0, 4096, 4096, 65536, MIB, 8 * MIB, 32 * MIB };

	return (struct budget_need){ sizes[(unsigned)random() % 7], (unsigned)random() % 2 };
}

static void keep(unsigned account, struct budget_need need)
{
	ck_assert_uint_lt(nheld, MAX_HELD);
	held[nheld++] = (struct held){ account, need };
}

/* Waiters that were granted take what they got. */
static void collect(void)
{
	for (unsigned i = 0; i < WAITERS; i++) {
		struct budget_need need = waiters[i].w.need;

		if (budget_accept(&waiters[i].w))
			keep(i / 4, need);
	}
}

static void random_take(void)
{
	unsigned i = (unsigned)random() % WAITERS, n = 1 + (unsigned)random() % 40, got;
	struct budget_need need[40];

	if (waiters[i].w.state != BUDGET_IDLE)
		return;
	for (unsigned k = 0; k < n; k++)
		need[k] = random_need();
	got = budget_take(&accounts[i / 4], need, n, &waiters[i].w);
	for (unsigned k = 0; k < got; k++)
		keep(i / 4, need[k]);
	ck_assert(got == n || waiters[i].w.state != BUDGET_IDLE);
}

static void random_finish(unsigned n)
{
	budget_lock(&budget);
	for (; n && nheld; n--) {
		unsigned i = (unsigned)random() % nheld;
		struct held h = held[i];

		held[i] = held[--nheld];
		budget_slot(&accounts[h.account], h.need.dir);
		if (h.need.bytes && random() % 4 == 0) {
			budget_shrink(&accounts[h.account], h.need.bytes);
			h.need.bytes = 0;
		}
		budget_end(&accounts[h.account], h.need.bytes, BUDGET_ANSWERED);
	}
	budget_unlock(&budget);
}

/* The sums, and the bound: memory, and for each identity one request. */
static void check_sums(void)
{
	uint64_t bytes = 0, requests = nheld, most[IDENTITIES] = { 0 }, bound = MEMORY;
	const char *wrong = budget_check(&budget);

	ck_assert_msg(!wrong, "%s", wrong);
	for (unsigned i = 0; i < nheld; i++) {
		uint64_t *m = &most[held[i].account / 2];

		bytes += held[i].need.bytes;
		if (held[i].need.bytes > *m)
			*m = held[i].need.bytes;
	}
	for (unsigned i = 0; i < WAITERS; i++)
		if (waiters[i].w.state == BUDGET_GRANTED) {
			bytes += waiters[i].w.need.bytes;
			requests++;
			if (waiters[i].w.need.bytes > most[i / 8])
				most[i / 8] = waiters[i].w.need.bytes;
		}
	for (unsigned i = 0; i < IDENTITIES; i++)
		bound += most[i];
	ck_assert_uint_eq(budget.held, bytes);
	ck_assert_uint_eq(budget.requests, requests);
	ck_assert_uint_le(budget.held, bound);
	ck_assert_uint_eq(exports[0].bytes + exports[1].bytes, bytes);
	for (unsigned i = 0; i < ACCOUNTS; i++)
		for (unsigned dir = 0; dir < ELV_NUM_DIRS; dir++)
			ck_assert_uint_le(accounts[i].slots[dir], exports[i % 2].nr_requests);
}

START_TEST(the_promises_hold_under_random_clients)
{
	unsigned waiting;

	srandom((unsigned)_i + 1);
	nheld = 0;
	memset(exports, 0, sizeof(exports));
	exports[0].nr_requests = 4;
	exports[1].nr_requests = 128;
	for (unsigned i = 0; i < IDENTITIES; i++)
		budget_identity_init(&identities[i]);
	for (unsigned i = 0; i < ACCOUNTS; i++)
		budget_account_init(&accounts[i], &budget, &exports[i % 2], &identities[i / 2]);
	for (unsigned i = 0; i < WAITERS; i++)
		budget_waiter_init(&waiters[i].w, on_grant);
	for (unsigned step = 0; step < 2000; step++) {
		switch (random() % 8) {
		case 0: case 1: case 2: case 3:
			random_take();
			break;
		case 4: case 5: case 6:
			random_finish(1 + (unsigned)random() % 12);
			break;
		case 7:
			if (random() % 4 == 0)
				budget_cancel(&waiters[(unsigned)random() % WAITERS].w);
			else
				collect();
			break;
		}
		check_sums();
	}
	/* Whatever is held is finished some day, and then nobody may still wait. */
	for (unsigned rounds = 0; budget.requests; rounds++) {
		ck_assert_uint_lt(rounds, MAX_HELD);
		collect();
		random_finish(1);
		check_sums();
	}
	for (unsigned i = waiting = 0; i < WAITERS; i++)
		waiting += waiters[i].w.state != BUDGET_IDLE;
	ck_assert_uint_eq(waiting, 0);
	ck_assert_uint_eq(budget.waiting, 0);
	ck_assert_uint_eq(budget.held, 0);
	for (unsigned i = 0; i < IDENTITIES; i++)
		ck_assert(!identities[i].bytes && !identities[i].requests);
}
END_TEST

/*
 * Three greedy clients and a modest one, which asks for a little again and again: it must never
 * have to wait for more than what was ahead of it, one request of each, and what is in its way to
 * be finished.
 */
START_TEST(nobody_starves)
{
	unsigned served = 0, waited = 0;

	srandom(7);
	nheld = 0;
	export.nr_requests = 65536;
	for (unsigned i = 0; i < 4; i++)
		accounts[i] = client[i].account;
	for (unsigned i = 0; i < 4; i++) {
		TAILQ_INIT(&accounts[i].slot_waiters[0]);
		TAILQ_INIT(&accounts[i].slot_waiters[1]);
	}
	for (unsigned step = 0; step < 20000; step++) {
		for (unsigned i = 0; i < 4; i++) {
			struct budget_need need = { i ? 8 * MIB : 4096, ELV_DIR_WRITE };
			struct waiter *w = &waiter[i];

			if (budget_accept(&w->w))
				keep(i, w->w.need);
			while (w->w.state == BUDGET_IDLE && nheld < 1000 &&
			       budget_take(&accounts[i], &need, 1, &w->w))
				keep(i, need);
		}
		waited = waiter[0].w.state == BUDGET_WAIT_BYTES ? waited + 1 : 0;
		ck_assert_uint_lt(waited, 64);
		served += !waited;
		random_finish(1);
	}
	ck_assert_uint_gt(served, 100);
	for (unsigned i = 0; i < 4; i++) {
		if (budget_accept(&waiter[i].w))
			keep(i, waiter[i].w.need);
		budget_cancel(&waiter[i].w);
	}
	while (nheld)
		random_finish(1);
	ck_assert_uint_eq(budget.held, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("export_budget");
	TCase *tc = tcase_create("budget");

	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_client_gets_nr_requests_in_each_direction);
	tcase_add_test(tc, who_waits_for_a_slot_gets_the_next_one);
	tcase_add_test(tc, connections_of_one_client_take_turns);
	tcase_add_test(tc, a_higher_limit_wakes_who_waits);
	tcase_add_test(tc, one_client_alone_may_use_all_memory);
	tcase_add_test(tc, a_client_that_holds_nothing_always_gets_one);
	tcase_add_test(tc, requests_without_data_never_wait_for_memory);
	tcase_add_test(tc, who_waits_first_is_served_first);
	tcase_add_test(tc, above_a_quarter_others_go_first);
	tcase_add_test(tc, many_connections_are_one_client);
	tcase_add_test(tc, data_that_is_no_longer_needed_is_free_at_once);
	tcase_add_test(tc, cancelling_gives_everything_back);
	tcase_add_loop_test(tc, the_promises_hold_under_random_clients, 0, 10);
	tcase_add_test(tc, nobody_starves);
	return run_suite(suite);
}
