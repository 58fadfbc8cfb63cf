/*
 * An intrusive balanced tree (AVL with parent links) ordered by a 64-bit key.
 *
 * The node lives in the object it sorts, so inserting cannot fail and nothing is allocated.
 * Equal keys go to the right: among equals the tree keeps the order of insertion. The owner may
 * keep a value of each subtree with it (the interval index keeps the largest end).
 *
 * In a large tree nearly every node that is touched comes from memory, so the functions touch few:
 * nodes know how they lean, not how high they are, and a change goes up only as far as it matters.
 *
 * Not thread-safe: whoever owns the tree holds its lock.
 */
#ifndef SCHED_TREE_H
#define SCHED_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_node {
	struct tree_node *left, *right, *parent;
	uint64_t key;
	int8_t lean; /* height of the right subtree less that of the left: -1, 0, 1 */
	bool linked; /* it is in a tree */
};

/* How the owner keeps a value of each subtree. */
struct tree_sums {
	/* leaf, which has no children, came somewhere below n: did n's value change? */
	bool (*add)(struct tree_node *n, const struct tree_node *leaf);
	/* gone left the subtree of n: can n's value have depended on it? */
	bool (*depends)(const struct tree_node *n, const struct tree_node *gone);
	/* Compute n's value from n itself and its children: did it change? */
	bool (*compute)(struct tree_node *n);
};

struct tree {
	struct tree_node *root;
	struct tree_node *first; /* the smallest key, cached */
	const struct tree_sums *sums;
};

/* Nodes of trees and lists that this thread has visited: for the complexity tests. */
extern _Thread_local uint64_t sched_steps __attribute__((tls_model("initial-exec")));

#define tree_entry(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))

/* An empty tree; sums may be NULL. */
void tree_init(struct tree *t, const struct tree_sums *sums);

/* Insert node under its key, right of all equal keys. It must not be in a tree. O(log n). */
void tree_insert(struct tree *t, struct tree_node *node, uint64_t key);

/* Take node out; afterwards tree_linked() is false. It must be in this tree. O(log n). */
void tree_remove(struct tree *t, struct tree_node *node);

/* In-order neighbours, or NULL at the end. O(1) amortised. */
struct tree_node *tree_next(const struct tree_node *node);
struct tree_node *tree_prev(const struct tree_node *node);

/* The first node whose key is >= key, or NULL. O(log n). */
struct tree_node *tree_lower_bound(struct tree *t, uint64_t key);

/* The largest key, or NULL. O(log n). */
struct tree_node *tree_last(const struct tree *t);

/* The tree is balanced, ordered and its links and cached first agree. For tests; O(n). */
bool tree_check(const struct tree *t);

static inline struct tree_node *tree_first(const struct tree *t)
{
	return t->first;
}

static inline bool tree_empty(const struct tree *t)
{
	return !t->root;
}

static inline bool tree_linked(const struct tree_node *node)
{
	return node->linked;
}

#endif
