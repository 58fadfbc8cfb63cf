/*
 * Private to the elevator core: what its files (elevator.c, index.c, merge.c, dispatch.c, sync.c,
 * switch.c) need of each other. Everything under the disk's lock.
 */
#ifndef SCHED_CORE_H
#define SCHED_CORE_H

#include "sched/elevator.h"

/* --- index.c: the overlap index --- */

void elv_index_init(struct elv_store *s);

/*
 * Put the part [offset, offset + length) of rq, rounded out to the store's block, into the index.
 */
void elv_index_add(struct elv_store *s, struct elv_span *span, struct elv_request *rq,
		   uint64_t offset, uint64_t length, bool in_flight);
void elv_index_remove(struct elv_store *s, struct elv_span *span);

/*
 * The span of the oldest unfinished request that arrived before rq and must run before it, as far
 * as [offset, offset + length) is concerned; NULL if there is none. Not spans of `except`'s run
 * (may be NULL). O(log n) plus the younger ones that overlap.
 */
struct elv_span *elv_index_blocker(struct elv_store *s, const struct elv_request *rq,
				   uint64_t offset, uint64_t length,
				   const struct elv_request *except);

/*
 * Some request that arrived before rq and must run before it; of several at one place, the last.
 * And such a one of rq's own client, both modifying; it is not looked for among too many others.
 */
struct elv_span *elv_index_last_blocker(struct elv_store *s, const struct elv_request *rq);
struct elv_span *elv_index_last_alike(struct elv_store *s, const struct elv_request *rq);

/* Neighbours of a span in the index by position, of any elevator. NULL at the end. */
struct elv_span *elv_index_next(const struct elv_span *span);
struct elv_span *elv_index_prev(const struct elv_span *span);

/* --- merge.c: runs --- */

/* Make rq a run of its own. */
void elv_run_init(struct elv_request *rq);

/*
 * Try to merge rq, which is in the index but not in the policy, into a queued run; may fuse two
 * runs. True: done, rq is a part now.
 */
bool elv_merge(struct elevator *e, struct elv_request *rq);

/* Take a run that the policy no longer has apart; each of parts needs elv_run_init once removed. */
void elv_run_split(struct elv_request *head, struct elv_requests *parts);

/* The largest io of this kind, in bytes. */
uint64_t elv_max_io(const struct elevator *e, enum elv_op op);

/* --- elevator.c: wrappers around the policy, and the state of requests --- */

void elv_policy_insert(struct elevator *e, struct elv_request *rq, uint64_t now);
void elv_policy_requeue(struct elevator *e, struct elv_request *rq, uint64_t now);
void elv_policy_remove(struct elevator *e, struct elv_request *head);
void elv_policy_merged(struct elevator *e, struct elv_request *head, struct elv_request *absorbed);
enum elv_verdict elv_policy_dispatch(struct elevator *e, uint64_t now, struct elv_request **rq,
				     uint64_t *at);

/* A queued request that the policy does not have: to the policy, into a run, or held back. */
void elv_admit(struct elevator *e, struct elv_request *rq, uint64_t now);

/*
 * Keep rq outside the policy until something of blocker finishes; that may be rq itself, of which
 * something is in flight.
 */
void elv_hold(struct elv_request *rq, struct elv_request *blocker);

/*
 * Keep rq (TRIM or ZERO) outside the policy until the discard slot is free: among those of its
 * client at its place by arrival or, the rest of one that was begun, in front of them.
 */
void elv_hold_discard(struct elv_request *rq, bool front);

/* Take a held request out of the list it waits in: it is IDLE then. */
void elv_unhold(struct elv_request *rq);

/* Whatever waits for rq may have a chance now. */
void elv_release_waiters(struct elv_request *rq, uint64_t now);

/* If the discard slot is free: let one of each client that waits for it try. */
void elv_offer_discards(struct elv_store *s, uint64_t now);

/* Nothing of rq is left to dispatch: out of the lists of waiting requests. */
void elv_unqueue(struct elv_request *rq);

/* rq has an error or all is done and synced: account for it and hand it back. */
void elv_finish(struct elv_request *rq, uint64_t now, struct elv_requests *done);

static inline struct elv_client *elv_client_of(const struct elv_request *rq)
{
	return rq->conn->client;
}

static inline struct elevator *elv_of(const struct elv_request *rq)
{
	return rq->conn->client->elv;
}

/* --- dispatch.c --- */

/* The elevator's policy has work, or has none any more: its place among the disk's elevators. */
void elv_disk_update(struct elevator *e);
void elv_disk_attach(struct elevator *e);
void elv_disk_detach(struct elevator *e);
/* Depths changed. */
void elv_disk_recount(struct elv_disk *d);

/* Forget the rest of a sliced request: its spans go back. */
void elv_drop_rest(struct elv_request *rq);

/* Its data is written (or it failed): sync it, if it must be, or finish it. */
void elv_data_done(struct elv_request *rq, uint64_t now, struct elv_requests *done);

/* --- sync.c --- */

void elv_sync_init(struct elv_store *s);
/* rq, a FLUSH or a FUA request, waits for the next sync. */
void elv_sync_request(struct elv_store *s, struct elv_request *rq);
/* The sync io is about to be submitted. */
void elv_sync_begin(struct elv_store *s, uint64_t now);
void elv_sync_complete(struct elv_store *s, uint64_t now, struct elv_requests *done);
/* A sync, or a write's own, failed with this error (negative errno): tell all whom it concerns. */
void elv_sync_failed(struct elv_store *s, int error, uint64_t now);
/*
 * A modification of this client, dispatched at `since`, completed, and no sync has covered it.
 * ELV_NEVER: it was not answered as done.
 */
void elv_sync_dirty(struct elv_store *s, struct elv_client *c, uint64_t since);
/* The client's account goes. */
void elv_sync_forget(struct elv_store *s, struct elv_client *c);
/* The error that a FLUSH or FUA of this connection must report; 0. Notes that it was told. */
int elv_sync_answer(struct elv_conn *conn);

#endif
