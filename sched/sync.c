/*
 * Syncs: group commit of FLUSH and FUA requests, and who is told when one fails.
 *
 * One sync runs on a store at a time, outside the depth budget. All that wait when it begins are
 * answered by it; those that come while it runs wait for the next, because it may have passed
 * their writes already (Linux block/blk-flush.c has the same rule).
 *
 *     waiting ── sync begins ──> running ── sync ends ──> finished
 *     dirty[p] ────────────────> dirty[!p] ────────────> clean, or owed an error
 *
 * A kernel reports a writeback error once and then forgets the pages, so the error must be kept
 * here: every connection that was open when a sync failed gets it on each FLUSH and FUA until it
 * closes; a client whose writes were covered, and none of whose connections has been told, gets it
 * once when it comes back. A connection that breaks with the answer unread has not been told.
 */
#include "sched/core.h"

#include <assert.h>
#include <errno.h>

void elv_sync_init(struct elv_store *s)
{
	TAILQ_INIT(&s->sync_waiting);
	TAILQ_INIT(&s->sync_running);
	TAILQ_INIT(&s->dirty[0]);
	TAILQ_INIT(&s->dirty[1]);
	s->sync_io.store = s;
	s->sync_io.op = ELV_FLUSH;
}

/* Have the sync io submitted, if there is somebody who waits. */
static void kick(struct elv_store *s)
{
	if (s->syncing || TAILQ_EMPTY(&s->sync_waiting))
		return;
	s->syncing = true;
	TAILQ_INSERT_TAIL(&s->disk->ready, &s->sync_io, link);
}

void elv_sync_request(struct elv_store *s, struct elv_request *rq)
{
	rq->state = ELV_SYNC_WAITS;
	TAILQ_INSERT_TAIL(&s->sync_waiting, rq, wait_link);
	kick(s);
}

void elv_sync_begin(struct elv_store *s, uint64_t now)
{
	struct elv_request *rq;

	assert(TAILQ_EMPTY(&s->sync_running) && TAILQ_EMPTY(&s->dirty[!s->parity]));
	TAILQ_CONCAT(&s->sync_running, &s->sync_waiting, wait_link);
	TAILQ_FOREACH(rq, &s->sync_running, wait_link) {
		rq->state = ELV_SYNCING;
		if (!rq->first_dispatch)
			rq->first_dispatch = now;
	}
	s->parity = !s->parity;
	s->sync_began = now;
	s->sync_io.result = 0;
	s->sync_io.sync_failed = false;
}

/*
 * What was in flight when a sync failed may have been executed before it, and be lost with the
 * rest, although it comes back only now.
 */
void elv_sync_dirty(struct elv_store *s, struct elv_client *c, uint64_t since)
{
	if (s->failed_error && since <= s->failed_at)
		c->owed_error = s->failed_error;
	if (c->dirty[s->parity])
		return;
	c->dirty[s->parity] = true;
	TAILQ_INSERT_TAIL(&s->dirty[s->parity], c, dirty_link[s->parity]);
}

void elv_sync_forget(struct elv_store *s, struct elv_client *c)
{
	for (int p = 0; p < 2; p++) {
		if (c->dirty[p])
			TAILQ_REMOVE(&s->dirty[p], c, dirty_link[p]);
		c->dirty[p] = false;
	}
}

/*
 * Clients whose writes came while the sync ran are owed the error too: it may have passed those
 * writes, and the kernel tells an error only once.
 */
void elv_sync_failed(struct elv_store *s, int error, uint64_t now)
{
	struct elv_conn *conn;
	struct elv_client *c;

	error = error == -ENOSPC || error == -EDQUOT ? -ENOSPC : -EIO;
	s->sync_errors++;
	s->failed_error = error;
	s->failed_at = now;
	TAILQ_FOREACH(conn, &s->conns, store_link)
		conn->sync_error = error;
	for (int p = 0; p < 2; p++)
		TAILQ_FOREACH(c, &s->dirty[p], dirty_link[p])
			c->owed_error = error;
}

int elv_sync_answer(struct elv_conn *conn)
{
	struct elv_client *c = conn->client;
	int error = conn->sync_error ? conn->sync_error : c->owed_error;

	c->owed_error = 0;
	if (error)
		conn->told_error = error;
	return error;
}

/* The sync's time, shared by those whose writes it covered. */
static void charge(struct elv_store *s, uint64_t ns)
{
	struct elv_client *c;
	uint64_t n = 0;

	TAILQ_FOREACH(c, &s->dirty[!s->parity], dirty_link[!s->parity])
		n++;
	TAILQ_FOREACH(c, &s->dirty[!s->parity], dirty_link[!s->parity]) {
		const struct elv_policy *p = c->elv->policy;

		c->stats.service_ns += ns / n;
		if (p->charge)
			p->charge(c->elv, c, ns / n, s->sync_began + ns);
	}
}

void elv_sync_complete(struct elv_store *s, uint64_t now, struct elv_requests *done)
{
	int error = s->sync_io.result < 0 ? (int)s->sync_io.result : 0;
	struct elv_requests finished;
	struct elv_request *rq;
	struct elv_client *c;

	assert(s->syncing);
	s->syncing = false;
	s->syncs++;
	charge(s, now - s->sync_began);
	if (error)
		elv_sync_failed(s, error, now);
	while ((c = TAILQ_FIRST(&s->dirty[!s->parity]))) {
		TAILQ_REMOVE(&s->dirty[!s->parity], c, dirty_link[!s->parity]);
		c->dirty[!s->parity] = false;
	}
	TAILQ_INIT(&finished);
	TAILQ_CONCAT(&finished, &s->sync_running, wait_link);
	while ((rq = TAILQ_FIRST(&finished))) {
		TAILQ_REMOVE(&finished, rq, wait_link);
		rq->synced = true;
		elv_finish(rq, now, done); /* which asks elv_sync_answer */
	}
	kick(s);
}
