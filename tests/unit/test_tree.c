/*
 * The balanced tree against a sorted array: order, equal keys, neighbours, subtree values, balance.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sim/random.h"
#include "sched/tree.h"
#include "tests/unit/suite.h"

enum { MAX = 300 };

struct item {
	struct tree_node node;
	uint64_t value, sum; /* sum: over the subtree; kept by the hooks */
	uint64_t stamp;      /* order of insertion */
};

static struct item *item(struct tree_node *n)
{
	return n ? tree_entry(n, struct item, node) : NULL;
}

static bool compute(struct tree_node *n)
{
	struct item *i = item(n);
	uint64_t sum = i->value + (n->left ? item(n->left)->sum : 0) +
		       (n->right ? item(n->right)->sum : 0);
	bool changed = sum != i->sum;

	i->sum = sum;
	return changed;
}

static bool add(struct tree_node *n, const struct tree_node *leaf)
{
	item(n)->sum += item((struct tree_node *)leaf)->value;
	return true;
}

static bool depends(const struct tree_node *n, const struct tree_node *gone)
{
	(void)n;
	(void)gone;
	return true;
}

static const struct tree_sums sums = { .add = add, .depends = depends, .compute = compute };

/* The model: items by key, among equals by stamp. */
static struct item *model[MAX];
static int n_model;

static void model_insert(struct item *i)
{
	int at = n_model++;

	while (at > 0 && model[at - 1]->node.key > i->node.key) {
		model[at] = model[at - 1];
		at--;
	}
	model[at] = i;
}

static void model_remove(struct item *i)
{
	int at = 0;

	while (model[at] != i)
		at++;
	memmove(&model[at], &model[at + 1], (size_t)(--n_model - at) * sizeof(*model));
}

static uint64_t check_sums(struct tree_node *n)
{
	uint64_t sum;

	if (!n)
		return 0;
	sum = item(n)->value + check_sums(n->left) + check_sums(n->right);
	if (item(n)->sum != sum)
		ck_abort_msg("a subtree's sum is wrong");
	return sum;
}

static void compare(struct tree *t)
{
	struct tree_node *n = tree_first(t);

	ck_assert(tree_check(t));
	check_sums(t->root);
	for (int i = 0; i < n_model; i++, n = tree_next(n)) {
		if (item(n) != model[i] || item(tree_prev(n)) != (i ? model[i - 1] : NULL))
			ck_abort_msg("the order is wrong at %d", i);
	}
	ck_assert_ptr_null(n);
	ck_assert_ptr_eq(item(tree_last(t)), n_model ? model[n_model - 1] : NULL);
	ck_assert_int_eq(tree_empty(t), n_model == 0);
}

static void check_bounds(struct tree *t, uint64_t range)
{
	for (uint64_t key = 0; key <= range; key++) {
		int at = 0;

		while (at < n_model && model[at]->node.key < key)
			at++;
		ck_assert_ptr_eq(item(tree_lower_bound(t, key)), at < n_model ? model[at] : NULL);
	}
}

/* Key ranges from "nearly all equal" to "nearly all different". */
START_TEST(test_random)
{
	static const uint64_t ranges[] = { 1, 4, 64, 1 << 20 };
	static struct item items[MAX];
	struct sim_random r = { .state = (uint64_t)_i + 1 };
	uint64_t range = ranges[_i % 4];
	struct tree t;

	memset(items, 0, sizeof(items));
	n_model = 0;
	tree_init(&t, &sums);
	for (int step = 0; step < 4000; step++) {
		struct item *i = &items[sim_below(&r, MAX)];
		bool growing = step / 1000 % 2 == 0;

		if (!tree_linked(&i->node) && (growing || sim_chance(&r, 30))) {
			i->value = 1 + sim_below(&r, 1000);
			i->sum = 0;
			tree_insert(&t, &i->node, sim_below(&r, range));
			model_insert(i);
		} else if (tree_linked(&i->node) && (!growing || sim_chance(&r, 30))) {
			tree_remove(&t, &i->node);
			ck_assert(!tree_linked(&i->node));
			model_remove(i);
		}
		if (step % 10 == 0)
			compare(&t);
	}
	if (range <= 64)
		check_bounds(&t, range);
	while (n_model) {
		struct item *i = item(tree_first(&t));

		tree_remove(&t, &i->node);
		model_remove(i);
		compare(&t);
	}
}
END_TEST

/* Every order of inserting and then removing a few nodes. */
static void permute(int *order, int n, int at, void (*fn)(const int *, int))
{
	if (at == n)
		fn(order, n);
	for (int i = at; i < n; i++) {
		int x = order[at];

		order[at] = order[i];
		order[i] = x;
		permute(order, n, at + 1, fn);
		order[i] = order[at];
		order[at] = x;
	}
}

static struct tree small;
static struct item few[6];

static void remove_all(const int *order, int n)
{
	static const int insertion[][6] = { { 0, 1, 2, 3, 4, 5 }, { 5, 4, 3, 2, 1, 0 },
					    { 2, 0, 4, 1, 5, 3 }, { 3, 3, 1, 1, 2, 2 } };

	for (int k = 0; k < 4; k++) {
		n_model = 0;
		memset(few, 0, sizeof(few));
		tree_init(&small, &sums);
		for (int i = 0; i < n; i++) {
			few[i].value = (uint64_t)i + 1;
			tree_insert(&small, &few[i].node, (uint64_t)insertion[k][i]);
			model_insert(&few[i]);
		}
		for (int i = 0; i < n; i++) {
			compare(&small);
			tree_remove(&small, &few[order[i]].node);
			model_remove(&few[order[i]]);
		}
		compare(&small);
	}
}

START_TEST(test_every_order)
{
	int order[6] = { 0, 1, 2, 3, 4, 5 };

	permute(order, 6, 0, remove_all);
}
END_TEST

/* A tree of n nodes is walked in O(log n): AVL trees have at most 1.45 log2(n) levels. */
START_TEST(test_steps)
{
	enum { N = 65536 };
	struct item *items = calloc(N, sizeof(*items));
	struct tree t;

	tree_init(&t, NULL);
	for (uint64_t i = 0; i < N; i++)
		tree_insert(&t, &items[i].node, i);
	ck_assert(tree_check(&t));
	for (uint64_t i = 0; i < N; i += 97) {
		sched_steps = 0;
		ck_assert_ptr_eq(tree_lower_bound(&t, i), &items[i].node);
		ck_assert_uint_le(sched_steps, 24);
		ck_assert_ptr_eq(tree_last(&t), &items[N - 1].node);
	}
	free(items);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree");
	TCase *tc = tcase_create("tree");

	tcase_set_timeout(tc, 100);
	tcase_add_loop_test(tc, test_random, 0, 12);
	tcase_add_test(tc, test_every_order);
	tcase_add_test(tc, test_steps);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
