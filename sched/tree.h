/*
 * An intrusive balanced tree (AVL with parent links) ordered by a 64-bit key.
 *
 * The node lives in the object it sorts, so inserting cannot fail and nothing is allocated.
 * Equal keys go to the right: among equals the tree keeps the order of insertion. An optional
 * update hook lets the owner keep a value of each subtree (the interval index keeps the largest
 * end); it is called for a node whenever its children changed and says whether the value did.
 *
 * Not thread-safe: whoever owns the tree holds its lock.
 */
#ifndef SCHED_TREE_H
#define SCHED_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_node {
	struct tree_node *parent, *left, *right;
	uint64_t key;
	int height; /* 0: not in a tree; a leaf has 1 */
};

struct tree {
	struct tree_node *root;
	struct tree_node *first;                /* the smallest key, cached */
	bool (*update)(struct tree_node *node); /* may be NULL */
	uint64_t steps;                         /* nodes visited, for the complexity tests */
};

#define tree_entry(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))

/* An empty tree; update may be NULL. */
void tree_init(struct tree *t, bool (*update)(struct tree_node *));

/* Insert node under its key, right of all equal keys. It must not be in a tree. O(log n). */
void tree_insert(struct tree *t, struct tree_node *node, uint64_t key);

/* Take node out; afterwards tree_linked() is false. It must be in this tree. O(log n). */
void tree_remove(struct tree *t, struct tree_node *node);

/* Tell the tree that a value the update hook reads from node has changed. O(log n). */
void tree_touch(struct tree *t, struct tree_node *node);

/* In-order neighbours, or NULL at the end. O(1) amortised. */
struct tree_node *tree_next(const struct tree_node *node);
struct tree_node *tree_prev(const struct tree_node *node);

/* The first node whose key is >= key, or NULL. O(log n). */
struct tree_node *tree_lower_bound(struct tree *t, uint64_t key);

/* The tree is balanced, ordered and its links and cached first agree. For tests; O(n). */
bool tree_check(const struct tree *t);

static inline struct tree_node *tree_first(const struct tree *t)
{
	return t->first;
}

/* The largest key, or NULL. O(log n). */
struct tree_node *tree_last(const struct tree *t);

static inline bool tree_empty(const struct tree *t)
{
	return !t->root;
}

static inline bool tree_linked(const struct tree_node *node)
{
	return node->height != 0;
}

#endif
