/* elv_check: the whole structure against itself, for the tests. Slow on purpose. */
#include "sched/core.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A request that waits in the policy: its run must be what its parts say. */
static const char *check_run(struct elevator *e, struct elv_request *head)
{
	struct elv_request *rq;
	uint64_t at = head->run_offset, seq = UINT64_MAX;
	unsigned n = 0;

	if (head->sliced)
		return TAILQ_EMPTY(&head->rest) ? "a request is queued with nothing left" : NULL;
	TAILQ_FOREACH(rq, &head->parts, part_link) {
		if (rq->head != head || rq->state != ELV_QUEUED)
			return "a part does not know its run";
		if (rq->op != head->op)
			return "a run of different ops";
		if (rq->offset != at)
			return "a run with a gap or an overlap";
		if (e->policy->per_client && elv_client_of(rq) != elv_client_of(head))
			return "a run of several clients under a policy that knows clients";
		if (!tree_linked(&rq->span.node) || rq->span.in_flight)
			return "a queued part is not in the index as queued";
		at += rq->length;
		seq = min_u64(seq, rq->seq);
		n++;
	}
	if (n != head->nparts || at != head->run_offset + head->run_length || seq != head->run_seq)
		return "a run is miscounted";
	return NULL;
}

static const char *check_queue(struct elevator *e)
{
	unsigned queued = 0, held = 0, runs = 0;
	uint64_t age = 0;
	struct elv_request *rq;

	TAILQ_FOREACH(rq, &e->by_age, age_link) {
		const char *wrong;

		queued++;
		if (rq->age_from < age)
			return "by_age is out of order";
		age = rq->age_from;
		if (rq->state == ELV_HELD) {
			held++;
		} else if (rq->state != ELV_QUEUED) {
			return "a request that is not waiting is in by_age";
		} else if (rq->head == rq) {
			runs++;
			wrong = check_run(e, rq);
			if (wrong)
				return wrong;
		}
	}
	if (queued != e->queued || held != e->held || runs != e->in_policy)
		return "the queue is miscounted";
	if (tree_linked(&e->disk_node) != (e->in_policy > 0))
		return "the disk does not know whether the elevator has work";
	return NULL;
}

static const char *check_clients(struct elevator *e)
{
	unsigned queued = 0;
	struct elv_client *c;

	TAILQ_FOREACH(c, &e->clients, link) {
		if (c->elv != e)
			return "a client of another elevator";
		queued += c->queued;
	}
	return queued != e->queued ? "the clients' requests are not the queue" : NULL;
}

/* Every node's largest end, recomputed, and its bound of the oldest arrival. */
static const char *check_index(struct tree_node *n, uint64_t *max_end, uint64_t *min_seq)
{
	struct elv_span *s;
	uint64_t end = 0, seq = UINT64_MAX;

	for (int i = 0; n && i < 2; i++) {
		uint64_t e = 0, q = UINT64_MAX;
		const char *wrong = check_index(i ? n->right : n->left, &e, &q);

		if (wrong)
			return wrong;
		end = end > e ? end : e;
		seq = min_u64(seq, q);
	}
	if (!n)
		return NULL;
	s = tree_entry(n, struct elv_span, node);
	end = end > s->end ? end : s->end;
	seq = min_u64(seq, s->seq);
	if (s->max_end != end || s->min_seq > seq || s->seq != s->rq->seq)
		return "the index has wrong subtree values";
	*max_end = end;
	*min_seq = seq;
	return NULL;
}

const char *elv_check(struct elevator *e)
{
	const char *wrong = check_queue(e);
	struct tree *trees[] = { &e->store->reads, &e->store->writes,
				 &e->store->unordered };

	if (!wrong)
		wrong = check_clients(e);
	for (int i = 0; i < 3 && !wrong; i++) {
		uint64_t end = 0, seq = UINT64_MAX;

		wrong = tree_check(trees[i]) ? check_index(trees[i]->root, &end, &seq)
					     : "the index is out of order";
	}
	if (!wrong && e->in_flight > e->disk->in_flight)
		wrong = "more in flight than the disk has";
	return wrong ? wrong : e->policy->check(e);
}
