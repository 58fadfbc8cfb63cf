/*
 * The overlap index of a store: which requests must wait for which.
 *
 * Two interval trees, ordered by start and augmented with the largest end and the oldest arrival
 * below each node: one for READ and CACHE, one for all that modifies. A read asks only the second, so a
 * thousand clients that read the same hot block do not see each other. All ranges are rounded out
 * to the store's block, because the store may have to read, change and write back a whole one.
 *
 *   conflict(older, younger) = both modify
 *                           or one reads, one modifies, and both are of one identity
 */
#include "sched/core.h"

#include <assert.h>

static struct elv_span *span_of(const struct tree_node *n)
{
	return tree_entry(n, struct elv_span, node);
}

/* Recompute max_end and min_seq of a node from its children. */
static bool update(struct tree_node *n)
{
	struct elv_span *s = span_of(n);
	uint64_t max_end = s->end, min_seq = s->rq->seq;
	bool changed;

	for (int i = 0; i < 2; i++) {
		const struct tree_node *child = i ? n->right : n->left;

		if (!child)
			continue;
		if (span_of(child)->max_end > max_end)
			max_end = span_of(child)->max_end;
		if (span_of(child)->min_seq < min_seq)
			min_seq = span_of(child)->min_seq;
	}
	changed = s->max_end != max_end || s->min_seq != min_seq;
	s->max_end = max_end;
	s->min_seq = min_seq;
	return changed;
}

static struct tree *tree_of(struct elv_store *s, const struct elv_request *rq)
{
	return elv_modifies(rq->op) ? &s->writes : &s->reads;
}

static uint64_t round_down(const struct elv_store *s, uint64_t x)
{
	return x & ~(uint64_t)(s->block - 1);
}

static uint64_t round_up(const struct elv_store *s, uint64_t x)
{
	return round_down(s, x + s->block - 1);
}

void elv_index_init(struct elv_store *s)
{
	tree_init(&s->reads, update);
	tree_init(&s->writes, update);
}

void elv_index_add(struct elv_store *s, struct elv_span *span, struct elv_request *rq,
		   uint64_t offset, uint64_t length, bool in_flight)
{
	assert(length > 0);
	span->rq = rq;
	span->in_flight = in_flight;
	span->end = round_up(s, offset + length);
	tree_insert(tree_of(s, rq), &span->node, round_down(s, offset));
}

void elv_index_remove(struct elv_store *s, struct elv_span *span)
{
	tree_remove(tree_of(s, span->rq), &span->node);
}

/* What a search is for. */
struct query {
	struct tree *tree;
	uint64_t start, end;
	const struct elv_request *rq, *except;
	bool same_identity;      /* only spans of rq's own identity conflict */
	struct elv_span *oldest; /* so far */
	uint64_t before;         /* only requests older than this interest us */
};

static void search(struct query *q, const struct tree_node *n)
{
	for (; n; n = n->right) {
		struct elv_span *s = span_of(n);

		q->tree->steps++;
		if (s->max_end <= q->start || s->min_seq >= q->before)
			return;
		search(q, n->left);
		if (n->key >= q->end)
			return;
		if (s->end > q->start && s->rq->seq < q->before && s->rq != q->rq &&
		    (!q->except || s->in_flight || s->rq->head != q->except) &&
		    (!q->same_identity ||
		     elv_client_of(s->rq)->identity == elv_client_of(q->rq)->identity)) {
			q->oldest = s;
			q->before = s->rq->seq;
		}
	}
}

struct elv_span *elv_index_blocker(struct elv_store *s, const struct elv_request *rq,
				   uint64_t offset, uint64_t length,
				   const struct elv_request *except)
{
	struct query q = {
		.start = round_down(s, offset),
		.end = round_up(s, offset + length),
		.rq = rq,
		.except = except,
		.before = rq->seq,
	};

	if (rq->op == ELV_CACHE) /* a hint, which waits for nobody */
		return NULL;
	q.tree = &s->writes;
	q.same_identity = !elv_modifies(rq->op);
	search(&q, q.tree->root);
	if (elv_modifies(rq->op)) {
		q.tree = &s->reads;
		q.same_identity = true;
		search(&q, q.tree->root);
	}
	return q.oldest;
}

struct elv_span *elv_index_next(const struct elv_span *span)
{
	struct tree_node *n = tree_next(&span->node);

	return n ? span_of(n) : NULL;
}

struct elv_span *elv_index_prev(const struct elv_span *span)
{
	struct tree_node *n = tree_prev(&span->node);

	return n ? span_of(n) : NULL;
}
