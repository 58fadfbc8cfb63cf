/*
 * Lanes as the stores see them (store.h has the callers' side).
 *
 * A store starts an io in one of three ways, each of which ends in lane_done:
 *
 *   lane_done(lane, io)                  it is done already
 *   lane_sqe(lane, io, step) -> sqe      a ring operation; step() gets its result in lane_reap
 *   lane_work(lane, io, work)            work() runs on a worker; lane_done follows by itself
 *
 * A step may use them again, so an io may consist of several operations, one after the other.
 */
#ifndef SERVER_STORE_LANE_H
#define SERVER_STORE_LANE_H

#include <assert.h>
#include <liburing.h>

#include "server/store/internal.h"
#include "server/store/workers.h"

/* A ring operation of io ended with res, as io_uring reports it. The lane's thread. */
typedef void lane_step(struct lane *lane, struct elv_io *io, int res);

/* Execute io, blocking; set its result. A worker thread. */
typedef void lane_job(struct elv_io *io);

/*
 * The lane's part of an io, at the start of its area. A store's own state goes behind it: a struct
 * that starts with this one. Nothing of it may be used after lane_sqe's or lane_work's io was
 * started, except in the step or job.
 */
struct lane_io {
	union {
		lane_step *step;
		lane_job *job;
	};
	struct lane_io *next;     /* in the lane's list of finished work */
	struct work work;
};

#define LANE_IO_CHECK(type) \
	static_assert(sizeof(type) <= ELV_IO_AREA && offsetof(type, lane) == 0, "the area of an io")

/* The io is done: result (and sync_failed) are set. The lane's thread, once. */
void lane_done(struct lane *lane, struct elv_io *io);

/*
 * A zeroed entry for a ring operation of io, to be filled by an io_uring_prep_* function (user_data
 * is set by lane_start_sqe). NULL if the lane has no ring or no room: use lane_work then.
 */
struct io_uring_sqe *lane_get_sqe(struct lane *lane);

/* The entry that lane_get_sqe gave is filled: submit it with the batch. */
void lane_start_sqe(struct lane *lane, struct io_uring_sqe *sqe, struct elv_io *io,
		    lane_step *step);

/* Have a worker execute io. Never fails. */
void lane_work(struct lane *lane, struct elv_io *io, lane_job *job);

/* How many ios the batch has that is being submitted; 0 in steps. */
unsigned lane_batch(const struct lane *lane);

/*
 * Inline work holds up the loop: take `bytes` from what this batch may still do inline. False: do
 * it another way.
 */
bool lane_take_inline(struct lane *lane, uint64_t bytes);

/* What a ring is made like. age: 0 for what the newest kernels have, 1 and 2 for older ones. */
struct lane_config {
	unsigned sq_entries, cq_entries, age;
};

/* As lane_open, with a ring of a certain kind; for tests. */
int lane_open_config(struct lane **out, bool want_ring, const struct lane_config *config, char *err,
		     size_t errlen);

#endif
