/* The balanced tree of tree.h: AVL, after Adelson-Velsky and Landis (1962), with leans stored. */
#include "sched/tree.h"

#include <assert.h>

_Thread_local uint64_t sched_steps;

static void compute(struct tree *t, struct tree_node *n)
{
	if (t->sums)
		t->sums->compute(n);
}

/* Put b where a hangs now. */
static void replace(struct tree *t, struct tree_node *a, struct tree_node *b)
{
	struct tree_node *p = a->parent;

	if (!p)
		t->root = b;
	else if (p->left == a)
		p->left = b;
	else
		p->right = b;
	if (b)
		b->parent = p;
}

/* The right child of n takes its place. Leans are the caller's affair. */
static void turn_left(struct tree *t, struct tree_node *n)
{
	struct tree_node *r = n->right;

	replace(t, n, r);
	n->right = r->left;
	if (n->right)
		n->right->parent = n;
	r->left = n;
	n->parent = r;
	compute(t, n);
	compute(t, r);
}

static void turn_right(struct tree *t, struct tree_node *n)
{
	struct tree_node *l = n->left;

	replace(t, n, l);
	n->left = l->right;
	if (n->left)
		n->left->parent = n;
	l->right = n;
	n->parent = l;
	compute(t, n);
	compute(t, l);
}

/* n leans by 2. Returns the root of the balanced subtree. */
static struct tree_node *balance(struct tree *t, struct tree_node *n)
{
	bool right = n->lean > 0;
	int8_t to = right ? 1 : -1; /* where it leans */
	struct tree_node *child = right ? n->right : n->left, *inner;

	if (child->lean != -to) {
		n->lean = child->lean ? 0 : to;
		child->lean = child->lean ? 0 : (int8_t)-to;
		if (right)
			turn_left(t, n);
		else
			turn_right(t, n);
		return child;
	}
	inner = right ? child->left : child->right;
	n->lean = inner->lean == to ? (int8_t)-to : 0;
	child->lean = inner->lean == -to ? to : 0;
	inner->lean = 0;
	if (right) {
		turn_right(t, child);
		turn_left(t, n);
	} else {
		turn_left(t, child);
		turn_right(t, n);
	}
	return inner;
}

/* A subtree of p, the left or the right, has become higher. */
static void grown(struct tree *t, struct tree_node *p, bool left)
{
	while (p) {
		sched_steps++;
		p->lean = (int8_t)(p->lean + (left ? -1 : 1));
		if (p->lean == 2 || p->lean == -2) {
			balance(t, p);
			return; /* as high as before */
		}
		if (p->lean == 0)
			return;
		left = p->parent && p->parent->left == p;
		p = p->parent;
	}
}

/* A subtree of p, the left or the right, has become lower. */
static void shrunk(struct tree *t, struct tree_node *p, bool left)
{
	while (p) {
		sched_steps++;
		p->lean = (int8_t)(p->lean + (left ? 1 : -1));
		if (p->lean == 2 || p->lean == -2)
			p = balance(t, p);
		if (p->lean != 0)
			return; /* as high as before */
		left = p->parent && p->parent->left == p;
		p = p->parent;
	}
}

/* gone has left the subtrees of n, its parent and so on, up to but not including `end`. */
static void forget(struct tree *t, struct tree_node *n, const struct tree_node *end,
		   const struct tree_node *gone)
{
	if (!t->sums)
		return;
	for (; n != end && t->sums->depends(n, gone); n = n->parent) {
		sched_steps++;
		if (!t->sums->compute(n))
			return;
	}
}

void tree_init(struct tree *t, const struct tree_sums *sums)
{
	*t = (struct tree){ .sums = sums };
}

void tree_insert(struct tree *t, struct tree_node *node, uint64_t key)
{
	struct tree_node *p = NULL, *n = t->root;
	bool left = false, leftmost = true;

	assert(!tree_linked(node));
	while (n) {
		p = n;
		sched_steps++;
		left = key < p->key;
		n = left ? p->left : p->right;
		leftmost &= left;
	}
	*node = (struct tree_node){ .parent = p, .key = key, .linked = true };
	if (!p)
		t->root = node;
	else if (left)
		p->left = node;
	else
		p->right = node;
	if (leftmost)
		t->first = node;
	if (t->sums) {
		t->sums->compute(node);
		for (n = p; n && t->sums->add(n, node); n = n->parent)
			sched_steps++;
	}
	grown(t, p, left);
}

/* Take out a node that has both children: its successor takes its place. */
static void remove_inner(struct tree *t, struct tree_node *node)
{
	struct tree_node *next = node->right, *from;

	while (next->left) {
		next = next->left;
		sched_steps++;
	}
	from = next->parent;
	if (from != node) {
		replace(t, next, next->right);
		next->right = node->right;
		next->right->parent = next;
	}
	replace(t, node, next);
	next->left = node->left;
	next->left->parent = next;
	next->lean = node->lean;
	if (from != node)
		forget(t, from, next, next);
	compute(t, next);
	forget(t, next->parent, NULL, node);
	if (from != node)
		shrunk(t, from, true);
	else
		shrunk(t, next, false);
}

void tree_remove(struct tree *t, struct tree_node *node)
{
	assert(tree_linked(node));
	if (t->first == node)
		t->first = tree_next(node);
	if (node->left && node->right) {
		remove_inner(t, node);
	} else {
		struct tree_node *p = node->parent;
		bool left = p && p->left == node;

		replace(t, node, node->left ? node->left : node->right);
		forget(t, p, NULL, node);
		shrunk(t, p, left);
	}
	node->linked = false;
}

struct tree_node *tree_next(const struct tree_node *node)
{
	if (node->right) {
		struct tree_node *n = node->right;

		while (n->left)
			n = n->left;
		return n;
	}
	while (node->parent && node->parent->right == node)
		node = node->parent;
	return node->parent;
}

struct tree_node *tree_prev(const struct tree_node *node)
{
	if (node->left) {
		struct tree_node *n = node->left;

		while (n->right)
			n = n->right;
		return n;
	}
	while (node->parent && node->parent->left == node)
		node = node->parent;
	return node->parent;
}

struct tree_node *tree_last(const struct tree *t)
{
	struct tree_node *n = t->root;

	while (n && n->right)
		n = n->right;
	return n;
}

struct tree_node *tree_lower_bound(struct tree *t, uint64_t key)
{
	struct tree_node *n = t->root, *found = NULL;

	while (n) {
		sched_steps++;
		if (n->key >= key) {
			found = n;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return found;
}

/* The height of a sound subtree, or -1. */
static int check(const struct tree_node *n, const struct tree_node *parent)
{
	int l, r;

	if (!n)
		return 0;
	l = check(n->left, n);
	r = check(n->right, n);
	if (l < 0 || r < 0 || n->parent != parent || !n->linked)
		return -1;
	if (r - l != n->lean || n->lean < -1 || n->lean > 1)
		return -1;
	if ((n->left && n->left->key > n->key) || (n->right && n->right->key < n->key))
		return -1;
	return 1 + (l > r ? l : r);
}

bool tree_check(const struct tree *t)
{
	const struct tree_node *n = t->root;

	if (check(t->root, NULL) < 0)
		return false;
	while (n && n->left)
		n = n->left;
	return n == t->first;
}
