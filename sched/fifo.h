/*
 * What most policies share: a list of runs by arrival, and a tree of runs by position.
 */
#ifndef SCHED_FIFO_H
#define SCHED_FIFO_H

#include "sched/request.h"

/* Do two requests belong in one list? */
typedef bool fifo_together(const struct elv_request *a, const struct elv_request *b);

/*
 * The run of a list that rq goes before; there is one. Sought from both ends, and among all
 * requests from rq on to older ones, whichever leads there first: an old request comes back to the
 * middle of a list of thousands when what it had to wait for is done.
 */
static inline struct elv_request *fifo_successor(struct elv_requests *fifo,
						 struct elv_request *rq, fifo_together *together)
{
	struct elv_request *first = TAILQ_FIRST(fifo), *last = TAILQ_LAST(fifo, elv_requests);
	struct elv_request *older = TAILQ_PREV(rq, elv_requests, age_link), *before;

	for (;; sched_steps++) {
		if (first->run_seq > rq->run_seq)
			return first;
		first = TAILQ_NEXT(first, fifo_link);
		before = TAILQ_PREV(last, elv_requests, fifo_link);
		if (!before || before->run_seq < rq->run_seq)
			return last;
		last = before;
		if (!older)
			continue;
		if (older->state == ELV_QUEUED && older->head->run_seq < rq->run_seq &&
		    together(older->head, rq)) {
			first = TAILQ_NEXT(older->head, fifo_link);
			older = NULL;
		} else {
			older = TAILQ_PREV(older, elv_requests, age_link);
		}
	}
}

/* Put a run at its place by run_seq. Nearly all come in order, at the tail. */
static inline void fifo_insert(struct elv_requests *fifo, struct elv_request *rq,
			       fifo_together *together)
{
	struct elv_request *at = TAILQ_LAST(fifo, elv_requests);

	if (!at || at->run_seq < rq->run_seq) {
		TAILQ_INSERT_TAIL(fifo, rq, fifo_link);
		return;
	}
	at = fifo_successor(fifo, rq, together);
	TAILQ_INSERT_BEFORE(at, rq, fifo_link);
}

/* Take a run out. The next one has waited for long and is in nobody's cache any more. */
static inline void fifo_remove(struct elv_requests *fifo, struct elv_request *rq)
{
	struct elv_request *next = TAILQ_NEXT(rq, fifo_link);

	TAILQ_REMOVE(fifo, rq, fifo_link);
	if (next)
		elv_prefetch(next);
}

/*
 * head's run grew, by absorbing another run of the same list or, if absorbed is NULL, one request:
 * it takes the better of the two places.
 */
static inline void fifo_merged(struct elv_requests *fifo, struct elv_request *head,
			       struct elv_request *absorbed, fifo_together *together)
{
	struct elv_request *before = TAILQ_PREV(head, elv_requests, fifo_link);

	if (absorbed && absorbed->run_seq == head->run_seq) { /* head inherited it */
		TAILQ_REMOVE(fifo, head, fifo_link);
		TAILQ_INSERT_BEFORE(absorbed, head, fifo_link);
	} else if (!absorbed && before && before->run_seq > head->run_seq) {
		TAILQ_REMOVE(fifo, head, fifo_link);
		fifo_insert(fifo, head, together);
	}
	if (absorbed)
		TAILQ_REMOVE(fifo, absorbed, fifo_link);
}

/* Is the list ordered, and how long is it? -1 if not. For checks. */
static inline long fifo_check(const struct elv_requests *fifo)
{
	const struct elv_request *rq;
	uint64_t last = 0;
	long n = 0;

	TAILQ_FOREACH(rq, fifo, fifo_link) {
		if (n && rq->run_seq <= last)
			return -1;
		last = rq->run_seq;
		n++;
	}
	return n;
}

static inline struct elv_request *sort_entry(struct tree_node *n)
{
	return n ? tree_entry(n, struct elv_request, sort) : NULL;
}

/* head's run may start elsewhere now. */
static inline void sort_merged(struct tree *sort, struct elv_request *head,
			       struct elv_request *absorbed)
{
	if (absorbed)
		tree_remove(sort, &absorbed->sort);
	if (head->sort.key != head->run_offset) {
		tree_remove(sort, &head->sort);
		tree_insert(sort, &head->sort, head->run_offset);
	}
}

#endif
