/*
 * Stores: what holds an export's bytes, and the lanes through which a thread does I/O on them.
 *
 * A *store* is opened once per image and may serve several exports. A *lane* belongs to one
 * thread and carries the I/O of all stores that this thread uses: an io_uring where the kernel
 * allows one, completions of the process-wide worker threads, and one pollable descriptor that
 * tells about both. A lane is used by its own thread only; a store is used by all.
 *
 *   store_submit(ios) ──> ring (io_uring) ──────┐
 *                     ──> workers (threads) ────┼──> lane_fd readable ──> lane_reap
 *                     ──> done at once ─────────┘
 *
 * The ios come from an elevator (struct elv_io): the store reads op, flags, offset, length and
 * iov, and sets result and sync_failed. It never sees overlapping modifying ios at one time, with
 * ranges rounded out to geometry.block: the elevator keeps them apart (sched/index.h).
 */
#ifndef SERVER_STORE_STORE_H
#define SERVER_STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sched/elevator.h"
#include "sched/request.h"
#include "sched/tunable.h"

struct lane;
struct store;

enum store_cache { STORE_CACHE_NONE, STORE_CACHE_WRITEBACK, STORE_CACHE_WRITETHROUGH };
enum store_aio { STORE_AIO_AUTO, STORE_AIO_URING, STORE_AIO_THREADS };
enum store_model { STORE_MODEL_NONE, STORE_MODEL_HDD7200 };
enum store_fault_errno {
	STORE_FAULT_EIO, STORE_FAULT_ENOSPC, STORE_FAULT_EDQUOT, STORE_FAULT_ENOMEM,
	STORE_FAULT_ETIMEDOUT,
};

/*
 * How to open a store: the export's settings that concern it, with rows in store_rows. Times in ns,
 * sizes in bytes, as in sched/tunable.h.
 */
struct store_params {
	char *path;         /* a file, a block device, or "null:" */
	uint64_t size;      /* of a null store, or of a file to be created; 0: unset */
	uint64_t readonly;  /* open for reading only (two exports may differ: see store_open) */
	uint64_t cache;     /* enum store_cache */
	uint64_t aio;       /* enum store_aio */
	uint64_t lock;      /* 0: off */
	uint64_t model;     /* enum store_model */
	uint64_t rotational;  /* 0, 1, TUNABLE_AUTO */
	uint64_t dirty_bytes; /* buffered writes run inline below this estimate; runtime */
	/* fault_*: any of them (but fault_errno) set puts the fault store around it: fault.c. */
	uint64_t fault_error_every;  /* every n-th io fails with fault_errno; 0: off. runtime */
	uint64_t fault_error_at;     /* just the n-th io fails; 0: off. runtime */
	uint64_t fault_errno;        /* enum store_fault_errno */
	uint64_t fault_short_every;  /* every n-th READ or WRITE does a part; 0: off. runtime */
	uint64_t fault_flush_delay;  /* ns added to every flush. runtime */
	uint64_t fault_delay;        /* ns added to every io. runtime */
	uint64_t fault_sync_error_every; /* every n-th sync fails; 0: off. runtime */
	uint64_t fault_space;        /* bytes that may be written before ENOSPC; 0: no limit */
	uint64_t fault_volatile;     /* a volatile write cache: see store_crash */
	uint64_t fault_seed;         /* it saves some blocks early, chosen by this; 0: none */
	uint64_t fault_crash_at;     /* the n-th io and all after it fail (store_crash); 0: off */
};

/* The rows of struct store_params, ended by a row without a name. Scope export. */
extern const struct tunable store_rows[];

/*
 * What a store is like; constant while it is open, except size, and except readonly and can_* when
 * it is reopened for writing (store_open, main thread).
 */
struct store_geometry {
	uint64_t size;            /* bytes */
	uint32_t block;           /* no two modifications of one such block may run at a time */
	uint32_t preferred;       /* best I/O size: a power of two, 512..64 MiB */
	uint64_t device;          /* of the disk below (a partition's whole disk); 0: of its own */
	char device_name[64];     /* for people, as "sda" or "null" */
	bool rotational;
	bool multi_conn;          /* all connections see completed writes and feel flushes */
	unsigned depth;           /* the default queue_depth: 1, 4 or 32 */
	bool buffered;            /* through the page cache: the kernel orders the writes */
	const char *aio;          /* what is really used: "io_uring", "threads", "inline" */
};

/* What a store can do by itself. ZERO works everywhere, but need not be fast. */
enum store_ability {
	STORE_CAN_WRITE = 1,
	STORE_CAN_TRIM = 2,
	STORE_CAN_FAST_ZERO = 4,
	STORE_CAN_CACHE = 8,
};

/* Ios by the way they went: done at once by the thread that submitted, the ring, the workers. */
enum store_way { STORE_INLINE, STORE_RING, STORE_WORKER, STORE_NUM_WAYS };

/* Counters of a store, since it was opened. An io that takes two ways counts in both. */
struct store_stats {
	uint64_t reads[STORE_NUM_WAYS], writes[STORE_NUM_WAYS], others[STORE_NUM_WAYS];
	uint64_t bounced;     /* direct I/O whose memory or range was not aligned */
	uint64_t dirty_bytes; /* not a counter: the estimate for the whole device (dirty.h) */
};

/* One kind of store. All functions but run, submit and extents are called from the main thread. */
struct store_ops {
	const char *name;

	/* Open as s->params say; fill s->geometry, s->abilities and s->priv. 0 or negative errno with err. */
	int (*open)(struct store *s, char *err, size_t errlen);
	void (*close)(struct store *s);

	/*
	 * Reopen a read-only store for writing, while it serves reads; sets abilities. 0 or
	 * negative errno with err, and nothing changed.
	 */
	int (*make_writable)(struct store *s, char *err, size_t errlen);

	/*
	 * Start one io on a lane, from the lane's thread (lane.h has the means); never blocks
	 * except for an inline write (dirty.h). Sees to it that the io's result is set and that
	 * it is handed to lane_done once, at once or when its ring operation or worker is
	 * through.
	 */
	void (*submit)(struct store *s, struct lane *lane, struct elv_io *io);

	/*
	 * Execute one io on the calling thread, blocking; any thread, many at a time. io->area is
	 * not for it: a store around it, which calls it, may have something there.
	 */
	void (*run)(struct store *s, struct elv_io *io);

	/*
	 * The allocation at offset: sets *length (1..max bytes with this state) and *hole.
	 * Blocking; never from a loop thread. NULL: everything counts as allocated.
	 */
	int (*extents)(struct store *s, uint64_t offset, uint64_t max, uint64_t *length,
		       bool *hole);
};

struct store {
	const struct store_ops *ops;
	struct store_params params;
	struct store_geometry geometry; /* constant */
	atomic_uint abilities;  /* of enum store_ability: more, once it is reopened for writing */
	dev_t dev;              /* identity of the image: two exports of it share the store. */
	ino_t ino;              /* A device: st_rdev and 0. Both 0: shared with nobody */
	char *name;             /* of the export that opened it, for messages */
	char notice[256];       /* after open: a sentence for the log, or "" */
	struct store_stats stats; /* private: store_get_stats */
	struct elv_store elv;   /* the elevators' side of it; under its disk's lock */
	unsigned users;         /* exports; main thread only */
	struct store *below;    /* of a store around another one */
	void *priv;
	TAILQ_ENTRY(store) link;
};

static inline bool store_can(const struct store *s, enum store_ability ability)
{
	return atomic_load(&s->abilities) & ability;
}

/* The store that an io is for. */
static inline struct store *store_of(const struct elv_io *io)
{
	return (struct store *)((char *)io->store - offsetof(struct store, elv));
}

/*
 * Open the store that params describe, or take another user of one that is open already. The
 * same image opened twice shares one store; cache, aio, lock, model and fault_* must then be equal
 * (names: for the message, of the export that asks). If the first was read-only and the second
 * is not, the store is reopened for writing. params are copied. Main thread only; it may wait half a
 * second for an image that another program has. 0 and *out, or a negative errno and a sentence in
 * err.
 */
int store_open(const char *name, const struct store_params *params, struct store **out,
	       char *err, size_t errlen);

/*
 * Whether exports of one image, name and other, may have these settings. 0, or -EINVAL with a
 * sentence in err.
 */
int store_check_shared(const char *name, const struct store_params *params, const char *other,
		       const struct store_params *theirs, char *err, size_t errlen);

/*
 * Whether these runtime settings can be had: fault_* need a store that was opened with one of
 * them set. 0, or -EINVAL with a sentence in err. Any thread.
 */
int store_check_params(const struct store *s, const struct store_params *params, char *err,
		       size_t errlen);

/*
 * In messages the store is called by the export that opened it, which has given it up: from now on
 * by this one. Main thread only.
 */
void store_rename(struct store *s, const char *name);

/* Give up one use; the last one closes it. No io may be in flight by then. Main thread only. */
void store_close(struct store *s);

/* Runtime settings (dirty_bytes, fault_*) took new values. Any thread. */
void store_set_params(struct store *s, const struct store_params *params);

/* Blocking execution of one io, for threads without a lane. Sets result and sync_failed. */
void store_run(struct store *s, struct elv_io *io);

/* A copy of the counters. Any thread. */
void store_get_stats(const struct store *s, struct store_stats *out);

/* See store_ops.extents; where the store has none: all allocated. */
int store_extents(struct store *s, uint64_t offset, uint64_t max, uint64_t *length, bool *hole);

/*
 * Carry out a STATUS io by store_extents: for the stores themselves. Fills the struct elv_status
 * that the io points to with at least one extent; the io's result is up to the caller. Blocking.
 * 0 or a negative errno.
 */
int store_status(struct store *s, const struct elv_io *io);

/*
 * The fault store loses power, and gets it back: with fault_volatile, what was neither flushed nor
 * written with FUA is gone, all of it (seed 0) or about half of the blocks, as seed decides. Ios
 * succeed again after fault_crash_at. Only while no io is in flight. 0, or a negative errno:
 * -ENOTSUP for other stores.
 */
int store_crash(struct store *s, uint64_t seed);

/* --- lanes --- */

/*
 * A lane for the calling thread, which is the one to submit and reap. want_ring false: never an
 * io_uring. Where the kernel refuses one, the lane works without (lane_has_ring tells). 0 or
 * negative errno.
 */
int lane_open(struct lane **out, bool want_ring, char *err, size_t errlen);

/* Nothing may be in flight on it. NULL is fine. */
void lane_close(struct lane *lane);

bool lane_has_ring(const struct lane *lane);

/*
 * Readable when something ended since the last lane_reap, which makes it unreadable again; now and
 * then also when there is nothing. Poll it by level or by edge. Owned by the lane.
 */
int lane_fd(const struct lane *lane);

/*
 * Start all ios of the list, of any stores, with one system call for the ring; the list is empty
 * then. Follow it by lane_reap: what is done at once does not make the descriptor readable. The
 * lane's thread.
 */
void lane_submit(struct lane *lane, struct elv_ios *ios);

/*
 * Collect completed ios onto done (appended), without blocking; also goes on with what a store does
 * in steps. Returns how many. The lane's thread. Right after lane_submit it makes no system call if
 * there is nothing to collect from ring and workers; otherwise it reads the descriptor.
 */
unsigned lane_reap(struct lane *lane, struct elv_ios *done);

/* How many ios are in flight on this lane. */
unsigned lane_in_flight(const struct lane *lane);

/* Can this process use io_uring? Probed once; err gets the reason when not. */
bool lane_ring_possible(char *err, size_t errlen);

#endif
