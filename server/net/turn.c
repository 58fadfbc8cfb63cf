/*
 * A turn of a loop: see loop.h.
 *
 *   ready connections ─> requests ─> [lock] insert, dispatch [unlock] ─> submit ─> reap ─┐
 *                                      ^                                                 │
 *                                      └────────── complete, dispatch more <─────────────┘
 *   finished ─> replies ─> one sendmsg a connection ─> budget given back, once
 */
#include <errno.h>

#include "server/net/conn.h"
#include "server/net/log.h"
#include "server/net/removal.h"
#include "server/net/service.h"

enum {
	MAX_ROUNDS = 16,    /* through the stores before others get their turn */
	MAX_FINISHED = 512, /* requests finished before replies are sent */
};

/* ---- the elevators ---- */

/* A request is back from the elevator; its connection may be another loop's. */
static void hand_back(struct loop *loop, struct elv_request *rq)
{
	struct conn *c = request_of(rq)->conn;
	struct loop *home = c ? c->loop : NULL;

	if (!home)
		removal_synced(request_of(rq));
	else if (home == loop)
		reply_add(request_of(rq));
	else
		TAILQ_INSERT_TAIL(&loop->outbox[home->index], rq, link);
}

/*
 * May this request, which changes data, still be queued? Not if its client went away after it was
 * read and before now, with the lock held: another one could already have written the same place
 * since, believing that nothing of the first is left to come. Asked once a visit, and only where
 * there is another connection.
 */
static bool came_too_late(struct loop *loop, struct conn *c)
{
	if (c->disconnected || c->says_disc ||
	    (c->export->connections < 2 && c->export->store->users < 2))
		return false;
	if (c->looked != loop->visits) {
		c->looked = loop->visits;
		c->gone = conn_peer_is_gone(c);
	}
	return c->gone;
}

/* What comes out of a visit: finished requests, requests that came too late, ios to submit. */
struct outcome {
	struct elv_requests done, late;
	struct elv_ios out;
};

/* Everything there is to do at one disk, in one go under its lock. */
static void visit_disk(struct loop *loop, struct loop_disk *ld, struct outcome *o)
{
	uint64_t now = disk_lock(ld->disk);
	struct elv_request *rq;
	struct conn *c;
	struct elv_io *io;

	loop->visits++;
	while ((rq = TAILQ_FIRST(&ld->inserts))) {
		TAILQ_REMOVE(&ld->inserts, rq, link);
		if (elv_modifies(rq->op) && came_too_late(loop, request_of(rq)->conn))
			TAILQ_INSERT_TAIL(&o->late, rq, link);
		else
			elv_insert(rq, now);
	}
	TAILQ_FOREACH(c, &ld->closing, closing_link) {
		elv_conn_close(&c->elv, c->heard, now, &o->done);
		c->export->connections--;
	}
	while ((io = TAILQ_FIRST(&ld->completed))) {
		TAILQ_REMOVE(&ld->completed, io, link);
		elv_complete(io, now, &o->done);
	}
	elv_disk_dispatch(&ld->disk->elv, now, &o->out, &ld->wake);
	disk_unlock(ld->disk);
}

/* They go with their connection; or in after all, if it said DISC before it went. */
static void treat_late(struct loop *loop, struct elv_requests *late)
{
	struct elv_request *rq;

	while ((rq = TAILQ_FIRST(late))) {
		struct conn *c = request_of(rq)->conn;

		TAILQ_REMOVE(late, rq, link);
		if (c->state != CONN_DEAD && !c->says_disc &&
		    (c->state != CONN_OPEN || !conn_last_words(c)))
			conn_kill(c, "the client is gone");
		if (c->state == CONN_DEAD) {
			reply_add(request_of(rq));
			continue;
		}
		TAILQ_INSERT_TAIL(&c->disk->inserts, rq, link);
		loop_disk_busy(loop, c->disk);
		conn_ready(c);
	}
}

/* Connections that were just closed in their elevator. */
static void closed(struct loop_disk *ld)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&ld->closing))) {
		TAILQ_REMOVE(&ld->closing, c, closing_link);
		c->attached = false;
		conn_settle(c);
	}
}

static void reap(struct loop *loop)
{
	struct elv_ios done = TAILQ_HEAD_INITIALIZER(done);
	struct elv_io *io;

	loop->lane_ready = false;
	if (!lane_reap(loop->lane, &done))
		return;
	while ((io = TAILQ_FIRST(&done))) {
		struct loop_disk *ld = loop->disks[disk_of(io->store)->index];

		TAILQ_REMOVE(&done, io, link);
		TAILQ_INSERT_TAIL(&ld->completed, io, link);
		loop_disk_busy(loop, ld);
	}
}

/* Once around: all busy disks, the stores. Returns how many requests were finished. */
static unsigned run_disks(struct loop *loop)
{
	struct outcome o = { TAILQ_HEAD_INITIALIZER(o.done), TAILQ_HEAD_INITIALIZER(o.late),
			     TAILQ_HEAD_INITIALIZER(o.out) };
	struct loop_disk *ld;
	struct elv_request *rq;
	unsigned n = 0;

	while ((ld = TAILQ_FIRST(&loop->busy))) {
		TAILQ_REMOVE(&loop->busy, ld, link);
		ld->busy = false;
		visit_disk(loop, ld, &o);
		closed(ld);
	}
	treat_late(loop, &o.late);
	while ((rq = TAILQ_FIRST(&o.done))) {
		TAILQ_REMOVE(&o.done, rq, link);
		hand_back(loop, rq);
		n++;
	}
	if (!TAILQ_EMPTY(&o.out)) {
		lane_submit(loop->lane, &o.out);
		reap(loop);
	}
	return n;
}

/* ---- replies and budgets ---- */

static void post_outboxes(struct loop *loop)
{
	for (unsigned i = 0; i < loop->service->nloops; i++)
		if (!TAILQ_EMPTY(&loop->outbox[i]))
			loop_give_requests(&loop->service->loops[i], &loop->outbox[i]);
}

/* Executed, but the socket did not take the reply: the slot is free, and the data of a write. */
static void release_unsent(struct conn *c)
{
	struct elv_request *rq;

	TAILQ_FOREACH_REVERSE(rq, &c->replies, elv_requests, link) {
		struct request *r = request_of(rq);

		if (!r->has_slot)
			break;
		r->has_slot = false;
		budget_slot(&c->client->budget, elv_dir(rq->op));
		if (elv_dir(rq->op) == ELV_DIR_WRITE && r->reserved) {
			budget_shrink(&c->client->budget, r->reserved);
			r->reserved = 0;
		}
	}
}

/* Give back what this turn's requests held, with the lock taken once. */
static void settle_budgets(struct loop *loop, struct conn_list *sent)
{
	struct budget *b = &loop->server->budget;
	struct elv_request *rq;
	struct conn *c;

	if (TAILQ_EMPTY(&loop->spent) && TAILQ_EMPTY(sent))
		return;
	budget_lock(b);
	TAILQ_FOREACH(rq, &loop->spent, link) {
		struct request *r = request_of(rq);
		struct budget_account *a = &r->conn->client->budget;

		if (r->has_slot)
			budget_slot(a, elv_dir(rq->op));
		if (r->invalid)
			budget_invalid(a);
		budget_end(a, r->reserved, r->unanswered ? BUDGET_WITHDRAWN : BUDGET_ANSWERED);
	}
	TAILQ_FOREACH(c, sent, reply_link)
		release_unsent(c);
	budget_unlock(b);
	while ((rq = TAILQ_FIRST(&loop->spent))) {
		c = request_of(rq)->conn;
		TAILQ_REMOVE(&loop->spent, rq, link);
		request_free(request_of(rq));
		conn_settle(c);
	}
}

static void send_replies(struct loop *loop)
{
	struct conn_list sent = TAILQ_HEAD_INITIALIZER(sent);
	struct conn *c;

	while ((c = TAILQ_FIRST(&loop->replying))) {
		TAILQ_REMOVE(&loop->replying, c, reply_link);
		c->in_replying = false;
		reply_send(c);
		if (c->state != CONN_DEAD && c->nreplies) {
			c->in_replying = true;
			TAILQ_INSERT_TAIL(&sent, c, reply_link);
		}
	}
	settle_budgets(loop, &sent);
	while ((c = TAILQ_FIRST(&sent))) {
		TAILQ_REMOVE(&sent, c, reply_link);
		c->in_replying = false;
	}
}

/* ---- the turn ---- */

static void work_on_ready(struct loop *loop)
{
	struct conn_list ready = TAILQ_HEAD_INITIALIZER(ready);
	struct conn *c;

	/* Those that are ready again afterwards wait for the next turn. */
	TAILQ_CONCAT(&ready, &loop->ready, ready_link);
	while ((c = TAILQ_FIRST(&ready))) {
		TAILQ_REMOVE(&ready, c, ready_link);
		c->in_ready = false;
		conn_work(c);
	}
}

void loop_turn(struct loop *loop)
{
	unsigned finished = 0;

	if (loop->inbox_ready)
		loop_open_inbox(loop);
	if (loop->lane_ready)
		reap(loop);
	if (!TAILQ_EMPTY(&loop->ready) || !TAILQ_EMPTY(&loop->busy) ||
	    !TAILQ_EMPTY(&loop->replying))
		loop->last_work = loop->now;
	work_on_ready(loop);
	for (unsigned i = 0; i < MAX_ROUNDS && finished < MAX_FINISHED; i++) {
		if (TAILQ_EMPTY(&loop->busy))
			break;
		finished += run_disks(loop);
	}
	post_outboxes(loop);
	send_replies(loop);
	if (!TAILQ_EMPTY(&loop->departures))
		removal_look(loop);
	if (!TAILQ_EMPTY(&loop->busy) || !TAILQ_EMPTY(&loop->ready))
		loop->again = true;
}
