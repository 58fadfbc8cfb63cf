/*
 * The overlap index of a store: which requests must wait for which.
 *
 * Two interval trees, ordered by start and augmented with the largest end and the oldest arrival
 * below each node: one for READ, one for all that modifies. A read asks only the second, so a
 * thousand clients that read the same hot block do not see each other. All ranges are rounded out
 * to the store's block, because the store may have to read, change and write back a whole one.
 * A third tree keeps what is unordered (elv_is_unordered); nobody searches it.
 *
 *   conflict(older, younger) = both modify
 *                           or one reads, one modifies, and both are of one identity
 */
#include "sched/core.h"

#include <assert.h>
#include <limits.h>

static struct elv_span *span_of(const struct tree_node *n)
{
	return tree_entry(n, struct elv_span, node);
}

/*
 * What a node knows of its subtree: max_end, which is exact, and min_seq, which is a bound. That is
 * lowered at once, but raised only where a node is computed anyway: requests leave by age, so that
 * the true value would change up to the root each time.
 */
static uint64_t oldest_below(const struct tree_node *n)
{
	uint64_t seq = span_of(n)->seq;

	if (n->left && span_of(n->left)->min_seq < seq)
		seq = span_of(n->left)->min_seq;
	if (n->right && span_of(n->right)->min_seq < seq)
		seq = span_of(n->right)->min_seq;
	return seq;
}

static bool compute(struct tree_node *n)
{
	struct elv_span *s = span_of(n);
	uint64_t max_end = s->end;
	bool changed;

	if (n->left && span_of(n->left)->max_end > max_end)
		max_end = span_of(n->left)->max_end;
	if (n->right && span_of(n->right)->max_end > max_end)
		max_end = span_of(n->right)->max_end;
	changed = s->max_end != max_end;
	s->max_end = max_end;
	s->min_seq = oldest_below(n);
	return changed;
}

static bool add(struct tree_node *n, const struct tree_node *leaf)
{
	struct elv_span *s = span_of(n), *l = span_of(leaf);
	bool changed = l->end > s->max_end || l->seq < s->min_seq;

	if (l->end > s->max_end)
		s->max_end = l->end;
	if (l->seq < s->min_seq)
		s->min_seq = l->seq;
	return changed;
}

static bool depends(const struct tree_node *n, const struct tree_node *gone)
{
	return span_of(n)->max_end == span_of(gone)->end;
}

static const struct tree_sums sums = { .add = add, .depends = depends, .compute = compute };

static struct tree *tree_of(struct elv_store *s, const struct elv_request *rq)
{
	if (elv_is_unordered(rq->op))
		return &s->unordered;
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
	tree_init(&s->reads, &sums);
	tree_init(&s->writes, &sums);
	tree_init(&s->unordered, &sums);
}

void elv_index_add(struct elv_store *s, struct elv_span *span, struct elv_request *rq,
		   uint64_t offset, uint64_t length, bool in_flight)
{
	assert(length > 0);
	span->rq = rq;
	span->seq = rq->seq;
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
	uint64_t start, end;
	const struct elv_request *rq, *except;
	bool same_identity;     /* only spans of rq's own identity conflict */
	bool same_client;       /* not even these */
	struct elv_span *found; /* so far */
	uint64_t before;        /* only requests older than this interest us */
	unsigned tries;         /* spans to look at, at most */
};

enum { TRIES = 1024 };

/* Must rq wait for s, which overlaps, and is it as old as we want? */
static bool conflicts(const struct query *q, const struct elv_span *s)
{
	if (s->seq >= q->before || s->rq == q->rq)
		return false;
	if (q->except && !s->in_flight && s->rq->head == q->except)
		return false;
	if (q->same_client)
		return elv_client_of(s->rq) == elv_client_of(q->rq);
	return !q->same_identity ||
	       elv_client_of(s->rq)->identity == elv_client_of(q->rq)->identity;
}

/* The oldest. */
static void search(struct query *q, struct tree_node *n)
{
	struct elv_span *s = span_of(n);

	sched_steps++;
	if (s->max_end <= q->start || s->min_seq >= q->before)
		return;
	if (n->left)
		search(q, n->left);
	if (n->key >= q->end)
		return;
	if (s->end > q->start && conflicts(q, s)) {
		q->found = s;
		q->before = s->seq;
	}
	if (n->right)
		search(q, n->right);
	if (s->end > q->start) /* where many overlap, the bounds must be good */
		s->min_seq = oldest_below(n);
}

/* The first from the right: of equal ones, the last to come. True: look no further. */
static bool search_last(struct query *q, struct tree_node *n)
{
	struct elv_span *s = span_of(n);

	sched_steps++;
	if (s->max_end <= q->start || s->min_seq >= q->before)
		return false;
	if (n->key < q->end && n->right && search_last(q, n->right))
		return true;
	if (n->key < q->end && s->end > q->start) {
		if (conflicts(q, s)) {
			q->found = s;
			return true;
		}
		if (!q->tries--)
			return true;
	}
	return n->left && search_last(q, n->left);
}

static struct query query_for(struct elv_store *s, const struct elv_request *rq, uint64_t offset,
			      uint64_t length)
{
	return (struct query){
		.start = round_down(s, offset),
		.end = round_up(s, offset + length),
		.rq = rq,
		.before = rq->seq,
		.tries = UINT_MAX,
	};
}

struct elv_span *elv_index_last_blocker(struct elv_store *s, const struct elv_request *rq)
{
	struct query q = query_for(s, rq, rq->offset, rq->length);

	if (elv_is_unordered(rq->op))
		return NULL;
	q.same_identity = !elv_modifies(rq->op);
	if (s->writes.root && search_last(&q, s->writes.root))
		return q.found;
	q.same_identity = true;
	if (elv_modifies(rq->op) && s->reads.root)
		search_last(&q, s->reads.root);
	return q.found;
}

struct elv_span *elv_index_last_alike(struct elv_store *s, const struct elv_request *rq)
{
	struct query q = query_for(s, rq, rq->offset, rq->length);

	q.same_client = true;
	q.tries = TRIES;
	if (elv_modifies(rq->op) && s->writes.root)
		search_last(&q, s->writes.root);
	return q.found;
}

struct elv_span *elv_index_blocker(struct elv_store *s, const struct elv_request *rq,
				   uint64_t offset, uint64_t length,
				   const struct elv_request *except)
{
	struct query q = query_for(s, rq, offset, length);

	q.except = except;
	if (elv_is_unordered(rq->op))
		return NULL;
	q.same_identity = !elv_modifies(rq->op);
	if (s->writes.root)
		search(&q, s->writes.root);
	q.same_identity = true;
	if (elv_modifies(rq->op) && s->reads.root)
		search(&q, s->reads.root);
	return q.found;
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
