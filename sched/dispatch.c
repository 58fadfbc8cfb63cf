/*
 * Dispatch and completion: from a policy's choice to an io, and from its result to answers.
 *
 * A choice does not always go as it is. If an older conflicting request is in flight, it is set
 * aside; if one is queued, the oldest of that chain goes in its place, or just those slices of it
 * that are in the way. A large request gives one slice and goes back with its rest.
 */
#include "sched/core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "sched/cost.h"

/* Past-the-policy dispatches are at most one in this many. */
enum { PROMOTION_INTERVAL = 8 };

/* --- the disk --- */

void elv_disk_init(struct elv_disk *d)
{
	*d = (struct elv_disk){ .depth = 0 };
	TAILQ_INIT(&d->elevators);
	tree_init(&d->waiting, NULL);
	TAILQ_INIT(&d->ready);
}

void elv_disk_recount(struct elv_disk *d)
{
	struct elevator *e;

	d->depth = 0;
	TAILQ_FOREACH(e, &d->elevators, disk_link)
		if (e->depth > d->depth)
			d->depth = e->depth;
}

void elv_disk_attach(struct elevator *e)
{
	TAILQ_INSERT_TAIL(&e->disk->elevators, e, disk_link);
	elv_disk_recount(e->disk);
}

void elv_disk_detach(struct elevator *e)
{
	assert(!tree_linked(&e->disk_node));
	TAILQ_REMOVE(&e->disk->elevators, e, disk_link);
	elv_disk_recount(e->disk);
}

void elv_disk_update(struct elevator *e)
{
	struct elv_disk *d = e->disk;
	bool linked = tree_linked(&e->disk_node);

	if (e->in_policy && !linked) {
		if (e->tag < d->vtime)
			e->tag = d->vtime; /* idleness earns no credit */
		tree_insert(&d->waiting, &e->disk_node, e->tag);
	} else if (!e->in_policy && linked) {
		tree_remove(&d->waiting, &e->disk_node);
	}
}

/* --- slices --- */

struct range {
	uint64_t start, end;
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The bytes of rq that a span of its rest stands for: spans are rounded out to blocks. */
static struct range exact(const struct elv_request *rq, const struct elv_span *s)
{
	return (struct range){ max_u64(s->node.key, rq->offset),
			       min_u64(s->end, rq->offset + rq->length) };
}

static bool needs_slicing(const struct elevator *e, const struct elv_request *rq)
{
	return rq->sliced || (rq->nparts == 1 && rq->length > elv_max_io(e, rq->op));
}

/*
 * The slice of a piece that contains `at`: the piece is cut on a grid of max bytes from its start,
 * at block boundaries. Not needing a second rest (when no spare span is left): from its start.
 */
static struct range slice_at(const struct elevator *e, struct range piece, uint64_t at,
			     enum elv_op op)
{
	uint64_t block = e->store->block, max = elv_max_io(e, op) & ~(block - 1);
	uint64_t base = piece.start & ~(block - 1);
	uint64_t start = base + (at - base) / max * max;
	struct range r = { max_u64(start, piece.start), min_u64(start + max, piece.end) };

	if (TAILQ_EMPTY(&e->spare_spans) && r.start > piece.start) {
		r.start = piece.start;
		r.end = min_u64(base + max, piece.end);
	}
	return r;
}

/* What of rq would go now: all of it, or the slice that contains `at` (or comes first). */
static struct range next_range(const struct elevator *e, const struct elv_request *rq, uint64_t at)
{
	struct range whole = { rq->run_offset, rq->run_offset + rq->run_length };
	struct elv_span *s;

	if (!needs_slicing(e, rq))
		return whole;
	if (!rq->sliced)
		return slice_at(e, whole, max_u64(at, whole.start), rq->op);
	TAILQ_FOREACH(s, &rq->rest, link) {
		struct range piece = exact(rq, s);

		if (s->end > at)
			return slice_at(e, piece, max_u64(at, piece.start), rq->op);
	}
	s = TAILQ_FIRST(&rq->rest);
	return slice_at(e, exact(rq, s), exact(rq, s).start, rq->op);
}

/* Cut r out of the rest of rq. r lies within one piece. */
static void cut(struct elevator *e, struct elv_request *rq, struct range r)
{
	struct elv_store *store = e->store;
	struct elv_span *s, *spare;
	struct range piece;

	if (!rq->sliced) {
		rq->sliced = true;
		TAILQ_INSERT_HEAD(&rq->rest, &rq->span, link);
	}
	TAILQ_FOREACH(s, &rq->rest, link) {
		piece = exact(rq, s);
		if (r.start >= piece.start && r.end <= piece.end)
			break;
	}
	assert(s);
	if (tree_linked(&s->node))
		elv_index_remove(store, s);
	if (r.end < piece.end) {
		struct elv_span *right = s;

		if (r.start > piece.start) {
			spare = TAILQ_FIRST(&e->spare_spans);
			assert(spare);
			TAILQ_REMOVE(&e->spare_spans, spare, link);
			TAILQ_INSERT_AFTER(&rq->rest, s, spare, link);
			spare->node.linked = false;
			right = spare;
		}
		elv_index_add(store, right, rq, r.end, piece.end - r.end, false);
	}
	if (r.start > piece.start)
		elv_index_add(store, s, rq, piece.start, r.start - piece.start, false);
	if (!tree_linked(&s->node)) {
		TAILQ_REMOVE(&rq->rest, s, link);
		if (s != &rq->span)
			TAILQ_INSERT_TAIL(&e->spare_spans, s, link);
	}
}

void elv_drop_rest(struct elv_request *rq)
{
	struct elevator *e = elv_of(rq);
	struct elv_span *s;

	while ((s = TAILQ_FIRST(&rq->rest))) {
		TAILQ_REMOVE(&rq->rest, s, link);
		elv_index_remove(e->store, s);
		if (s != &rq->span)
			TAILQ_INSERT_TAIL(&e->spare_spans, s, link);
	}
}

/* --- forming an io --- */

static bool has_data(enum elv_op op)
{
	return op == ELV_READ || op == ELV_WRITE;
}

/* Point the io at the bytes r of one request. */
static void aim_one(struct elv_io *io, const struct elv_request *rq, struct range r)
{
	io->offset = r.start;
	io->length = r.end - r.start;
	io->niov = 0;
	if (has_data(io->op)) {
		io->vec[0].iov_base = rq->data + (r.start - rq->offset);
		io->vec[0].iov_len = io->length;
		io->niov = 1;
	} else if (io->op == ELV_STATUS) {
		io->vec[0].iov_base = rq->data;
		io->vec[0].iov_len = sizeof(struct elv_status);
		io->niov = 1;
	}
}

static void aim_run(struct elv_io *io)
{
	struct elv_request *rq;

	io->offset = TAILQ_FIRST(&io->parts)->offset;
	io->length = 0;
	io->niov = 0;
	if (io->nparts == 1) {
		rq = TAILQ_FIRST(&io->parts);
		aim_one(io, rq, (struct range){ rq->offset, rq->offset + rq->length });
		return;
	}
	TAILQ_FOREACH(rq, &io->parts, part_link) {
		if (has_data(io->op)) {
			io->vec[io->niov].iov_base = rq->data;
			io->vec[io->niov++].iov_len = rq->length;
		}
		io->length += rq->length;
	}
}

/* All parts of a run leave the queue together. */
static void take_run(struct elv_io *io, struct elv_request *head, uint64_t now)
{
	struct elv_request *rq;

	io->nparts = head->nparts;
	TAILQ_CONCAT(&io->parts, &head->parts, part_link);
	TAILQ_FOREACH(rq, &io->parts, part_link) {
		elv_unqueue(rq);
		rq->state = ELV_DISPATCHED;
		rq->first_dispatch = now;
		rq->in_flight = 1;
		rq->span.in_flight = true;
	}
	aim_run(io);
}

/*
 * One slice leaves; what is left goes back to the policy, or to the queue for the discard slot, or
 * it waits until this slice is done: so does a CACHE, which is a hint and may be as large as the disk.
 */
static void take_slice(struct elv_io *io, struct elv_request *rq, struct range r, uint64_t now)
{
	struct elevator *e = io->elv;

	io->slice_of = rq;
	cut(e, rq, r);
	io->span.node.linked = false;
	elv_index_add(e->store, &io->span, rq, r.start, r.end - r.start, true);
	rq->in_flight++;
	if (!rq->first_dispatch)
		rq->first_dispatch = now;
	aim_one(io, rq, r);
	if (TAILQ_EMPTY(&rq->rest)) {
		elv_unqueue(rq);
		rq->state = ELV_DISPATCHED;
		return;
	}
	elv_run_init(rq);
	if (elv_is_discard(rq->op))
		elv_hold_discard(rq, true);
	else if (e->serial || rq->op == ELV_CACHE)
		elv_hold(rq, rq);
	else
		elv_policy_requeue(e, rq, now);
}

/* Make an io of the run or slice; the policy no longer has rq. */
static struct elv_io *form(struct elevator *e, struct elv_request *rq, struct range r,
			   bool promoted, uint64_t now)
{
	struct elv_io *io = TAILQ_FIRST(&e->free_ios);
	struct elv_client *c = elv_client_of(rq);

	assert(io);
	TAILQ_REMOVE(&e->free_ios, io, link);
	io->store = e->store;
	io->op = rq->op;
	io->flags = rq->flags;
	io->iov = io->vec;
	io->result = 0;
	io->sync_failed = false;
	io->elv = e;
	io->client = c;
	io->generation = e->generation;
	io->dispatched = now;
	io->promoted = promoted;
	io->slice_of = io->alone = NULL;
	io->nparts = 0;
	TAILQ_INIT(&io->parts);
	if (elv_is_discard(rq->op))
		e->store->discarding = true;
	if (needs_slicing(e, rq)) {
		io->flags &= ~(unsigned)ELV_FUA; /* one sync, after the last slice */
		take_slice(io, rq, r, now);
	} else {
		if (rq->op != ELV_WRITE)
			io->flags &= ~(unsigned)ELV_FUA;
		take_run(io, rq, now);
	}
	io->cost = elv_cost(io->op, io->length);
	c->stats.ios++;
	c->stats.promoted += io->promoted;
	e->in_flight++;
	e->disk->in_flight++;
	if (!io->promoted)
		e->since_promotion++;
	if (e->policy->dispatched)
		e->policy->dispatched(e, io, now);
	return io;
}

/* The discard slot is taken: the run waits for it, part by part. */
static void set_aside(struct elv_request *head)
{
	struct elv_requests parts;
	struct elv_request *rq;

	elv_run_split(head, &parts);
	while ((rq = TAILQ_FIRST(&parts))) {
		TAILQ_REMOVE(&parts, rq, part_link);
		elv_run_init(rq);
		elv_hold_discard(rq, false);
	}
}

/*
 * rq was chosen and is out of the policy. Form the io that goes: rq's own, or that of the oldest
 * request that it has to wait for. NULL: it was set aside, behind what is in flight or, if the
 * first of that chain is of its own client and so has the same right to pull it, behind that.
 */
static struct elv_io *start(struct elevator *e, struct elv_request *rq, bool promoted, uint64_t now)
{
	struct elv_request *goes = rq, *first = NULL;
	struct range r = next_range(e, rq, 0);

	while (goes->maybe_blocked) {
		struct elv_span *s = elv_index_blocker(e->store, goes, r.start, r.end - r.start,
						       goes->nparts > 1 ? goes->head : NULL);
		struct elevator *other;

		if (!s) {
			if (!needs_slicing(elv_of(goes), goes))
				goes->maybe_blocked = false;
			break;
		}
		other = elv_of(s->rq);
		if (s->in_flight || (other != e && (other->in_flight >= other->depth ||
						    TAILQ_EMPTY(&other->free_ios)))) {
			bool own = first && elv_client_of(first) == elv_client_of(rq);

			elv_hold(rq, own ? first : s->rq);
			return NULL;
		}
		if (!first)
			first = s->rq;
		goes = s->rq->head;
		r = next_range(other, goes, max_u64(r.start, s->node.key));
	}
	if (goes->state != ELV_QUEUED) { /* it waits for the discard slot, or will be tried soon */
		elv_hold(rq, goes);
		return NULL;
	}
	if (elv_is_discard(goes->op) && e->store->discarding) {
		if (goes == rq)
			set_aside(rq);
		else
			elv_hold(rq, goes);
		return NULL;
	}
	if (goes != rq) {
		elv_policy_requeue(e, rq, now);
		elv_policy_remove(elv_of(goes), goes);
	}
	return form(elv_of(goes), goes, r, promoted && elv_of(goes) == e, now);
}

static struct elv_io *start_or_offer(struct elevator *e, struct elv_request *rq, bool promoted,
				     uint64_t now)
{
	struct elv_io *io = start(e, rq, promoted, now);

	if (!io && elv_is_discard(rq->op))
		elv_offer_discards(e->store, now); /* it may have been the only candidate */
	return io;
}

/* The oldest request, if it is over age and its turn has come; taken out of the policy. */
static struct elv_request *take_aged(struct elevator *e, uint64_t now)
{
	struct elv_request *rq;
	int tries = PROMOTION_INTERVAL;

	if (!e->params.max_queue_age || e->since_promotion < PROMOTION_INTERVAL - 1)
		return NULL;
	TAILQ_FOREACH(rq, &e->by_age, age_link) {
		if (now - rq->age_from <= e->params.max_queue_age || !tries--)
			break;
		if (rq->state == ELV_QUEUED) {
			rq = rq->head;
			elv_policy_remove(e, rq);
			e->since_promotion = 0;
			return rq;
		}
	}
	return NULL;
}

static struct elv_io *dispatch_one(struct elevator *e, uint64_t now, uint64_t *wake)
{
	struct elv_io *io = NULL;
	struct elv_request *rq;

	if (e->in_flight >= e->depth)
		return NULL;
	rq = take_aged(e, now);
	if (rq)
		io = start_or_offer(e, rq, true, now);
	while (!io) {
		uint64_t at;

		switch (elv_policy_dispatch(e, now, &rq, &at)) {
		case ELV_DISPATCH:
			io = start_or_offer(e, rq, false, now);
			break;
		case ELV_ASK_AT:
			if (at < *wake)
				*wake = at;
			return NULL;
		case ELV_NOTHING:
			return NULL;
		}
	}
	return io;
}

/* From the elevator with the smallest tag that has one to give. */
static struct elv_io *ask_all(struct elv_disk *d, uint64_t now, uint64_t *wake)
{
	struct tree_node *n, *next;

	d->news = false;
	for (n = tree_first(&d->waiting); n; n = next) {
		struct elevator *e = tree_entry(n, struct elevator, disk_node);
		struct elv_io *io;

		next = tree_next(n);
		io = dispatch_one(e, now, wake);
		if (!io)
			continue;
		e = io->elv; /* another export's, if that one was in the way */
		if (e->tag > d->vtime)
			d->vtime = e->tag;
		e->tag += io->cost;
		if (tree_linked(&e->disk_node)) {
			tree_remove(&d->waiting, &e->disk_node);
			tree_insert(&d->waiting, &e->disk_node, e->tag);
		}
		return io;
	}
	return NULL;
}

/*
 * The next io of the disk. When a choice is set aside, a discard and those that wait for it may go
 * to policies that have been asked before.
 */
static struct elv_io *dispatch_next(struct elv_disk *d, uint64_t now, uint64_t *wake)
{
	struct elv_io *io;

	do {
		io = ask_all(d, now, wake);
	} while (!io && d->news);
	return io;
}

unsigned elv_disk_dispatch(struct elv_disk *d, uint64_t now, struct elv_ios *out, uint64_t *wake)
{
	struct elv_io *io;
	unsigned n = 0;

	*wake = ELV_NEVER;
	while ((io = TAILQ_FIRST(&d->ready))) {
		TAILQ_REMOVE(&d->ready, io, link);
		if (!io->elv)
			elv_sync_begin(io->store, now);
		TAILQ_INSERT_TAIL(out, io, link);
		n++;
	}
	while (d->in_flight < d->depth && (io = dispatch_next(d, now, wake))) {
		TAILQ_INSERT_TAIL(out, io, link);
		n++;
	}
	return n;
}

/* --- completion --- */

void elv_data_done(struct elv_request *rq, uint64_t now, struct elv_requests *done)
{
	if (elv_modifies(rq->op) && (rq->flags & ELV_FUA) && !rq->synced && !rq->error &&
	    !rq->withdrawn && rq->conn->open)
		elv_sync_request(elv_of(rq)->store, rq);
	else
		elv_finish(rq, now, done);
}

/* A part of rq came back from the store. */
static void part_done(struct elv_request *rq, struct elv_io *io, int error, uint64_t now,
		      struct elv_requests *done)
{
	struct elevator *e = elv_of(rq);

	rq->in_flight--;
	if (error && !rq->error)
		rq->error = error;
	if (io->slice_of) {
		elv_index_remove(e->store, &io->span);
		rq->age_from = now;
		if (!TAILQ_EMPTY(&rq->rest)) {
			TAILQ_REMOVE(&e->by_age, rq, age_link);
			TAILQ_INSERT_TAIL(&e->by_age, rq, age_link);
		}
	} else if (tree_linked(&rq->span.node)) {
		elv_index_remove(e->store, &rq->span);
	}
	if (elv_modifies(rq->op)) {
		bool durable = rq->op == ELV_WRITE && (io->flags & ELV_FUA) && !error;

		if (durable)
			rq->synced = true;
		else
			elv_sync_dirty(e->store, elv_client_of(rq),
				       rq->error || !rq->conn->open ? ELV_NEVER : io->dispatched);
	}
	if (TAILQ_EMPTY(&rq->rest) && !rq->in_flight)
		elv_data_done(rq, now, done); /* releases the waiters, unless it must sync first */
	if (rq->state != ELV_IDLE)
		elv_release_waiters(rq, now);
}

/* After an error: no more slices of a request that has failed. */
static void give_up_rest(struct elv_request *rq, uint64_t now)
{
	if (TAILQ_EMPTY(&rq->rest))
		return;
	if (rq->state == ELV_QUEUED)
		elv_policy_remove(elv_of(rq), rq);
	else
		elv_unhold(rq);
	elv_unqueue(rq);
	elv_drop_rest(rq);
	rq->state = ELV_DISPATCHED;
	elv_offer_discards(elv_of(rq)->store, now);
}

/* Submit the io again, for what is left of one part or slice. Its slot stays taken. */
static void again(struct elv_io *io, const struct elv_request *rq, struct range r)
{
	aim_one(io, rq, r);
	io->result = 0;
	io->sync_failed = false;
	TAILQ_INSERT_TAIL(&io->elv->disk->ready, io, link);
}

/*
 * What io is about now, if it is about one request only: a slice, a part that is tried alone, ...
 */
static struct elv_request *sole(const struct elv_io *io)
{
	if (io->slice_of)
		return io->slice_of;
	if (io->alone)
		return io->alone;
	return io->nparts == 1 ? TAILQ_FIRST(&io->parts) : NULL;
}

struct elv_request *elv_io_request(const struct elv_io *io)
{
	struct elv_request *rq;

	if (!io->elv)
		return TAILQ_FIRST(&io->store->sync_running);
	rq = sole(io);
	return rq ? rq : TAILQ_FIRST(&io->parts);
}

/* The io as it was submitted is done with; the slot is free. */
static void retire(struct elv_io *io, uint64_t now)
{
	struct elevator *e = io->elv;
	uint64_t ns = now - io->dispatched;

	e->in_flight--;
	e->disk->in_flight--;
	io->client->stats.service_ns += ns;
	if (elv_is_discard(io->op))
		e->store->discarding = false;
	if (io->generation == e->generation && e->policy->completed)
		e->policy->completed(e, io, now);
	TAILQ_INSERT_HEAD(&e->free_ios, io, link);
	if (elv_is_discard(io->op))
		elv_offer_discards(e->store, now);
}

/* An error or short result of an io about several requests: try each of them alone. */
static void retry_alone(struct elv_io *io)
{
	io->alone = TAILQ_FIRST(&io->parts);
	again(io, io->alone,
	      (struct range){ io->alone->offset, io->alone->offset + io->alone->length });
}

void elv_complete(struct elv_io *io, uint64_t now, struct elv_requests *done)
{
	struct elv_request *rq = sole(io), *next = NULL;
	bool partial = has_data(io->op) && io->result >= 0 && (uint64_t)io->result < io->length;
	int error = io->result < 0 ? (int)io->result : 0;

	if (!io->elv) {
		elv_sync_complete(io->store, now, done);
		return;
	}
	if (io->sync_failed)
		elv_sync_failed(io->store, error, now);
	if (!rq && (error || partial)) {
		retry_alone(io);
		return;
	}
	if (partial && io->result > 0) { /* the rest of it; a result of 0 would go on for ever */
		io->flags &= ~(unsigned)ELV_FUA; /* is what it did stable? nobody knows */
		again(io, rq, (struct range){ io->offset + (uint64_t)io->result,
					      io->offset + io->length });
		return;
	}
	if (partial)
		error = -EIO;
	if (io->alone) {
		next = TAILQ_NEXT(rq, part_link);
		TAILQ_REMOVE(&io->parts, rq, part_link);
		part_done(rq, io, error, now, done);
		if (next) {
			io->alone = next;
			io->client = elv_client_of(next); /* the other's may go now */
			again(io, next,
			      (struct range){ next->offset, next->offset + next->length });
			return;
		}
		retire(io, now);
		return;
	}
	retire(io, now);
	if (io->slice_of) {
		if (error)
			give_up_rest(rq, now);
		part_done(rq, io, error, now, done);
		return;
	}
	while ((rq = TAILQ_FIRST(&io->parts))) {
		TAILQ_REMOVE(&io->parts, rq, part_link);
		part_done(rq, io, error, now, done);
	}
}
