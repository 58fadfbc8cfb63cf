/* The balanced tree of tree.h: AVL, after Adelson-Velsky and Landis (1962), with heights stored. */
#include "sched/tree.h"

#include <assert.h>

static int height(const struct tree_node *n)
{
	return n ? n->height : 0;
}

/* Recompute what n keeps of its subtree; did any of it change? */
static bool refresh(struct tree *t, struct tree_node *n)
{
	int l = height(n->left), r = height(n->right), before = n->height;

	n->height = 1 + (l > r ? l : r);
	return (t->update && t->update(n)) || n->height != before;
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

static struct tree_node *rotate_left(struct tree *t, struct tree_node *n)
{
	struct tree_node *r = n->right;

	replace(t, n, r);
	n->right = r->left;
	if (n->right)
		n->right->parent = n;
	r->left = n;
	n->parent = r;
	refresh(t, n);
	refresh(t, r);
	return r;
}

static struct tree_node *rotate_right(struct tree *t, struct tree_node *n)
{
	struct tree_node *l = n->left;

	replace(t, n, l);
	n->left = l->right;
	if (n->left)
		n->left->parent = n;
	l->right = n;
	n->parent = l;
	refresh(t, n);
	refresh(t, l);
	return l;
}

/* Restore balance from n upwards, as far as anything changes; `changed`: n is known to have. */
static void rebalance(struct tree *t, struct tree_node *n, bool changed)
{
	for (; n; changed = false) {
		int lean;

		t->steps++;
		changed |= refresh(t, n);
		lean = height(n->left) - height(n->right);
		if (lean > 1) {
			if (height(n->left->left) < height(n->left->right))
				rotate_left(t, n->left);
			n = rotate_right(t, n);
		} else if (lean < -1) {
			if (height(n->right->right) < height(n->right->left))
				rotate_right(t, n->right);
			n = rotate_left(t, n);
		} else if (!changed) {
			return;
		}
		n = n->parent;
	}
}

void tree_init(struct tree *t, bool (*update)(struct tree_node *))
{
	*t = (struct tree){ .update = update };
}

void tree_insert(struct tree *t, struct tree_node *node, uint64_t key)
{
	struct tree_node *p = NULL, **link = &t->root;
	bool leftmost = true;

	assert(!tree_linked(node));
	while (*link) {
		p = *link;
		t->steps++;
		if (key < p->key) {
			link = &p->left;
		} else {
			link = &p->right;
			leftmost = false;
		}
	}
	*node = (struct tree_node){ .parent = p, .key = key, .height = 1 };
	*link = node;
	if (leftmost)
		t->first = node;
	if (t->update)
		t->update(node);
	rebalance(t, p, false);
}

void tree_remove(struct tree *t, struct tree_node *node)
{
	assert(tree_linked(node));
	if (t->first == node)
		t->first = tree_next(node);
	if (!node->left || !node->right) {
		replace(t, node, node->left ? node->left : node->right);
		rebalance(t, node->parent, false);
	} else {
		struct tree_node *next = node->right, *from;

		while (next->left) {
			next = next->left;
			t->steps++;
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
		next->height = node->height;
		if (from != node)
			rebalance(t, from, false);
		rebalance(t, next, true); /* it stands for other nodes now, whatever it says itself */
	}
	node->parent = node->left = node->right = NULL;
	node->height = 0;
}

void tree_touch(struct tree *t, struct tree_node *node)
{
	assert(t->update);
	for (; node; node = node->parent) {
		t->steps++;
		if (!t->update(node))
			return;
	}
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
		t->steps++;
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
	if (l < 0 || r < 0 || n->parent != parent || l - r > 1 || r - l > 1)
		return -1;
	if ((n->left && n->left->key > n->key) || (n->right && n->right->key < n->key))
		return -1;
	if (n->height != 1 + (l > r ? l : r))
		return -1;
	return n->height;
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
