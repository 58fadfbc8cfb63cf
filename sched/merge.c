/*
 * Merging: runs of requests that touch, so that one io serves several.
 *
 * Linux finds candidates by a hash of ends and a tree of starts (block/elevator.c, blk-merge.c).
 * Here the overlap index has every queued request in order of position anyway, so the candidates
 * are the new request's neighbours in it and cost nothing more to find.
 *
 * A run is kept in its head, the part that the policy knows; `parts` are ordered by offset.
 */
#include "sched/core.h"

enum { NEIGHBOURS = 4 }; /* how far to look past other clients' requests at the same place */

void elv_run_init(struct elv_request *rq)
{
	rq->head = rq;
	rq->nparts = 1;
	rq->run_offset = rq->offset;
	rq->run_length = rq->length;
	if (rq->sliced) { /* of the rest, the first and the length are what counts */
		struct elv_span *s = TAILQ_FIRST(&rq->rest);

		if (s->node.key > rq->offset)
			rq->run_offset = s->node.key;
		rq->run_length = rq->offset + rq->length - rq->run_offset;
	}
	rq->run_seq = rq->seq;
	rq->run_arrival = rq->arrival;
	TAILQ_INIT(&rq->parts);
	TAILQ_INSERT_HEAD(&rq->parts, rq, part_link);
}

void elv_run_split(struct elv_request *head, struct elv_requests *parts)
{
	struct elv_request *rq;

	TAILQ_INIT(parts);
	TAILQ_CONCAT(parts, &head->parts, part_link);
	TAILQ_FOREACH(rq, parts, part_link)
		rq->maybe_blocked = true; /* a blocker may have been in the same run */
}

uint64_t elv_max_io(const struct elevator *e, enum elv_op op)
{
	uint64_t max = elv_is_discard(op) ? e->params.max_discard_kb : e->params.max_sectors_kb;

	if (op == ELV_STATUS) /* never cut: it may stop early by itself */
		return UINT64_MAX;
	return max > e->store->block ? max : e->store->block;
}

/* Is it in e's policy, whole? */
static bool is_queued(const struct elevator *e, const struct elv_request *head)
{
	return head->state == ELV_QUEUED && elv_of(head) == e && !head->sliced;
}

/* May rq, alone or with its run, join the run of head? Position is the caller's affair. */
static bool compatible(struct elevator *e, const struct elv_request *head,
		       const struct elv_request *rq)
{
	if (head == rq || !is_queued(e, head))
		return false;
	if (head->op != rq->op || (elv_modifies(rq->op) && head->flags != rq->flags))
		return false;
	if (head->run_length + rq->run_length > elv_max_io(e, rq->op) ||
	    head->nparts + rq->nparts > ELV_MAX_SEGMENTS)
		return false;
	if (e->policy->per_client && elv_client_of(head) != elv_client_of(rq))
		return false;
	return !e->policy->may_merge || e->policy->may_merge(e, head, rq);
}

/*
 * A blocked request merges only into a run that is not blocked and has all its blockers: then it
 * goes when they go.
 */
static bool order_allows(struct elevator *e, struct elv_request *head, struct elv_request *rq)
{
	if (head->maybe_blocked && head->nparts == 1) {
		if (elv_index_blocker(e->store, head, head->offset, head->length, NULL))
			return false;
		head->maybe_blocked = false;
	}
	return !rq->maybe_blocked ||
	       !elv_index_blocker(e->store, rq, rq->offset, rq->length, head);
}

static bool mergeable(struct elevator *e, struct elv_request *head, struct elv_request *rq)
{
	return compatible(e, head, rq) && order_allows(e, head, rq);
}

static uint64_t run_end(const struct elv_request *head)
{
	return head->run_offset + head->run_length;
}

/* The head of the span's run; NULL if it is in flight: the head may be done and gone then. */
static struct elv_request *head_of(const struct elv_span *s)
{
	return s->in_flight ? NULL : s->rq->head;
}

/* The run that ends where rq begins, for rq to join. */
static struct elv_request *find_before(struct elevator *e, struct elv_request *rq)
{
	struct elv_span *s = elv_index_prev(&rq->span);

	for (int i = 0; i < NEIGHBOURS && s && s->end >= rq->span.node.key;
	     i++, s = elv_index_prev(s)) {
		struct elv_request *head = head_of(s);

		if (head && run_end(head) == rq->offset && mergeable(e, head, rq))
			return head;
	}
	return NULL;
}

/* The run that begins where rq ends: for rq to join or, if rq has joined a run, to join that. */
static struct elv_request *find_after(struct elevator *e, struct elv_request *rq)
{
	struct elv_span *s = elv_index_next(&rq->span);
	struct elv_request *joined = rq->state == ELV_QUEUED ? rq->head : NULL;

	for (int i = 0; i < NEIGHBOURS && s && s->node.key <= rq->span.end;
	     i++, s = elv_index_next(s)) {
		struct elv_request *head = head_of(s);

		if (head && head->run_offset == rq->offset + rq->length &&
		    (joined ? is_queued(e, head) && mergeable(e, joined, head)
			    : mergeable(e, head, rq)))
			return head;
	}
	return NULL;
}

/* All of a run's bookkeeping but the parts: head takes over what `from` had. */
static void absorb(struct elv_request *head, const struct elv_request *from)
{
	head->run_length += from->run_length;
	head->nparts += from->nparts;
	if (from->run_offset < head->run_offset)
		head->run_offset = from->run_offset;
	if (from->run_seq < head->run_seq) {
		head->run_seq = from->run_seq;
		head->run_arrival = from->run_arrival;
	}
}

static void join(struct elevator *e, struct elv_request *head, struct elv_request *rq, bool back)
{
	struct elv_stats *st = &elv_client_of(rq)->stats;

	TAILQ_REMOVE(&rq->parts, rq, part_link);
	absorb(head, rq);
	rq->head = head;
	rq->maybe_blocked = false;
	rq->state = ELV_QUEUED;
	if (back) {
		TAILQ_INSERT_TAIL(&head->parts, rq, part_link);
		st->back_merges++;
	} else {
		TAILQ_INSERT_HEAD(&head->parts, rq, part_link);
		st->front_merges++;
	}
	elv_policy_merged(e, head, NULL);
}

/* The run of `next` begins where head's ends: make them one. */
static void fuse(struct elevator *e, struct elv_request *head, struct elv_request *next)
{
	struct elv_request *rq;

	TAILQ_FOREACH(rq, &next->parts, part_link)
		rq->head = head;
	absorb(head, next);
	TAILQ_CONCAT(&head->parts, &next->parts, part_link);
	elv_client_of(head)->stats.back_merges++;
	elv_policy_merged(e, head, next);
}

bool elv_merge(struct elevator *e, struct elv_request *rq)
{
	struct elv_request *before = NULL, *after = NULL, *last = e->last_merge;
	bool only_last = e->params.nomerges == 1;

	if (e->params.nomerges >= 2 || rq->op == ELV_STATUS || rq->sliced || !rq->conn->open ||
	    !tree_linked(&rq->span.node) || rq->length >= elv_max_io(e, rq->op))
		return false;
	if (only_last) {
		if (!last || !mergeable(e, last, rq))
			return false;
		if (run_end(last) == rq->offset)
			before = last;
		else if (last->run_offset == rq->offset + rq->length)
			after = last;
	} else {
		before = find_before(e, rq);
		if (!before)
			after = find_after(e, rq);
	}
	if (before) {
		join(e, before, rq, true);
		after = only_last ? NULL : find_after(e, rq);
		if (after)
			fuse(e, before, after);
	} else if (after) {
		join(e, after, rq, false);
	} else {
		return false;
	}
	e->last_merge = rq->head;
	return true;
}
