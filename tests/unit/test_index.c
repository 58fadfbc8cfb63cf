/*
 * The overlap index against a list: who must wait for whom.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sched/core.h"
#include "sched/sim/random.h"
#include "tests/unit/suite.h"

enum { MAX = 120, CLIENTS = 4, BLOCK = 512 };

static struct elv_disk disk;
static struct elv_store store;
static struct elevator elevator;
static struct elv_client client[CLIENTS];
static struct elv_conn conn[CLIENTS];
static struct elv_request rq[MAX];
static struct sim_random dice;

static bool overlap(const struct elv_request *a, const struct elv_request *b)
{
	return a->offset / BLOCK <= (b->offset + b->length - 1) / BLOCK &&
	       b->offset / BLOCK <= (a->offset + a->length - 1) / BLOCK;
}

static bool must_wait(const struct elv_request *younger, const struct elv_request *older)
{
	bool modify = elv_modifies(younger->op), modified = elv_modifies(older->op);

	if (elv_is_unordered(younger->op) || elv_is_unordered(older->op) ||
	    older->seq >= younger->seq || !overlap(younger, older))
		return false;
	if (modify && modified)
		return true;
	return (modify || modified) &&
	       younger->conn->client->identity == older->conn->client->identity;
}

static void check_one(struct elv_request *r)
{
	struct elv_span *first = elv_index_blocker(&store, r, r->offset, r->length, NULL);
	struct elv_span *last = elv_index_last_blocker(&store, r), *alike;
	struct elv_request *oldest = NULL;
	bool some_alike = false;

	for (int i = 0; i < MAX; i++) {
		struct elv_request *o = &rq[i];

		if (o == r || !tree_linked(&o->span.node) || !must_wait(r, o))
			continue;
		if (!oldest || o->seq < oldest->seq)
			oldest = o;
		some_alike |= elv_modifies(r->op) && elv_modifies(o->op) &&
			      o->conn->client == r->conn->client;
	}
	ck_assert_ptr_eq(first ? first->rq : NULL, oldest);
	ck_assert_int_eq(last != NULL, oldest != NULL);
	if (last)
		ck_assert(must_wait(r, last->rq));
	alike = elv_index_last_alike(&store, r);
	ck_assert_int_eq(alike != NULL, some_alike);
	if (alike) {
		ck_assert(must_wait(r, alike->rq));
		ck_assert_ptr_eq(alike->rq->conn->client, r->conn->client);
	}
}

static void fill(struct elv_request *r)
{
	static const enum elv_op ops[] = {
		ELV_READ, ELV_WRITE, ELV_TRIM, ELV_ZERO, ELV_CACHE, ELV_STATUS
	};

	memset(r, 0, sizeof(*r));
	r->op = ops[sim_below(&dice, 6)];
	r->conn = &conn[sim_below(&dice, CLIENTS)];
	r->head = r;
	r->offset = sim_below(&dice, 64 * BLOCK);
	r->length = 1 + sim_below(&dice, sim_chance(&dice, 10) ? 40 * BLOCK : 3 * BLOCK);
	r->seq = store.seq++;
}

START_TEST(test_random)
{
	struct elv_config config = { .disk = &disk, .store = &store, .default_depth = 1 };

	dice.state = (uint64_t)_i + 1;
	config.policy = elv_policy_find("noop");
	elv_disk_init(&disk);
	elv_store_init(&store, &disk, BLOCK);
	tunable_defaults(elv_rows, &config.params);
	ck_assert_int_eq(elevator_init(&elevator, &config), 0);
	for (int i = 0; i < CLIENTS; i++) { /* two are one identity */
		client[i] = (struct elv_client){ .identity = (uint64_t)i / 2 * 2 + (i == 3) };
		elv_client_init(&client[i], &elevator);
		conn[i].client = &client[i];
	}
	memset(rq, 0, sizeof(rq));
	for (int step = 0; step < 6000; step++) {
		struct elv_request *r = &rq[sim_below(&dice, MAX)];

		if (!tree_linked(&r->span.node)) {
			fill(r);
			check_one(r); /* before it is there, as for one that arrives */
			elv_index_add(&store, &r->span, r, r->offset, r->length, false);
		} else if (sim_chance(&dice, 60)) {
			check_one(r);
		} else {
			elv_index_remove(&store, &r->span);
		}
		if (step % 50 == 0)
			ck_assert_msg(!elv_check(&elevator), "%s", elv_check(&elevator));
	}
	for (int i = 0; i < MAX; i++)
		if (tree_linked(&rq[i].span.node))
			elv_index_remove(&store, &rq[i].span);
	for (int i = 0; i < CLIENTS; i++)
		elv_client_exit(&client[i]);
	elevator_exit(&elevator);
	elv_store_exit(&store);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("index");
	TCase *tc = tcase_create("index");

	tcase_set_timeout(tc, 100);
	tcase_add_loop_test(tc, test_random, 0, 8);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
