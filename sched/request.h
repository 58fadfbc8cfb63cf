/*
 * Requests, ios, connections and clients: what the elevator handles.
 *
 *   client ── conn ── request ──┐ merged, sliced   ┌── io ──> store
 *                      request ─┴──> elevator ─────┘
 *
 * A *request* is one command of one connection and gets one reply. An *io* is what the store
 * executes: a run of merged requests, or one slice of one request. All of this is plain memory
 * under the lock of the disk (struct elv_disk) that the elevator belongs to; fields before the
 * marked line belong to the caller, those after it to sched/.
 *
 * Positions and lengths are bytes, times are nanoseconds of one monotonic clock, errors are
 * negative errno values.
 */
#ifndef SCHED_REQUEST_H
#define SCHED_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "sched/histogram.h"
#include "sched/tree.h"

struct elevator;
struct elv_client;
struct elv_request;
struct elv_store;

enum elv_op {
	ELV_READ, ELV_WRITE, ELV_FLUSH, ELV_TRIM, ELV_ZERO, ELV_CACHE,
	ELV_STATUS, /* what is allocated: see struct elv_status */
	ELV_NUM_OPS
};

enum elv_flags {
	ELV_FUA = 1,       /* on WRITE, TRIM, ZERO: stable before the answer. Elsewhere ignored */
	ELV_NO_HOLE = 2,   /* on ZERO: leave the range allocated */
	ELV_FAST_ZERO = 4, /* on ZERO: fail with -ENOTSUP where it is no faster than writing */
};

/*
 * The two directions of queue limits, deadlines and statistics: everything but READ and STATUS is a
 * write.
 */
enum elv_dir { ELV_DIR_READ, ELV_DIR_WRITE, ELV_NUM_DIRS };

static inline enum elv_dir elv_dir(enum elv_op op)
{
	return op == ELV_READ || op == ELV_STATUS ? ELV_DIR_READ : ELV_DIR_WRITE;
}

/*
 * Neither waits for what overlaps it nor has that wait: CACHE is a hint, and STATUS says how things
 * are at some moment while it runs.
 */
static inline bool elv_is_unordered(enum elv_op op)
{
	return op == ELV_CACHE || op == ELV_STATUS;
}

/* Does it change what the store holds? */
static inline bool elv_modifies(enum elv_op op)
{
	return op == ELV_WRITE || op == ELV_TRIM || op == ELV_ZERO;
}

static inline bool elv_is_discard(enum elv_op op)
{
	return op == ELV_TRIM || op == ELV_ZERO;
}

/*
 * The data of a STATUS request: room for the answer, which the store fills in. It describes the
 * range from its start on, in extents of unlike neighbours, as far as max goes; it may stop early,
 * but not before the first. STATUS is never cut or merged.
 */
struct elv_extent {
	uint64_t length; /* bytes, > 0 */
	uint64_t hole;   /* 0: allocated; 1: not, it reads as zeroes */
};

struct elv_status {
	uint32_t max; /* extents that there is room for, > 0 */
	uint32_t n;   /* extents found */
	struct elv_extent extent[];
};

/* A byte range in the overlap index of a store (sched/index.c), rounded out to its blocks. */
struct elv_span {
	struct tree_node node; /* key: start */
	uint64_t end;          /* exclusive */
	uint64_t max_end;      /* the largest end in the subtree */
	uint64_t min_seq;      /* no request in the subtree is older than this */
	/* -- 64 bytes -- */
	uint64_t seq;          /* rq's */
	struct elv_request *rq;
	bool in_flight;
	TAILQ_ENTRY(elv_span) link; /* the rest spans of a sliced request, or the spare pool */
};
TAILQ_HEAD(elv_spans, elv_span);

enum elv_state {
	ELV_IDLE,       /* not in an elevator */
	ELV_QUEUED,     /* the policy has it, as the head of a run or as one of its parts */
	ELV_HELD,       /* waits outside the policy for a blocker or for the discard slot */
	ELV_DISPATCHED, /* nothing of it is left to dispatch; ios are in flight */
	ELV_SYNC_WAITS, /* a FLUSH, or a FUA request whose data is written: for the next sync */
	ELV_SYNCING,    /* for the sync that runs */
};

TAILQ_HEAD(elv_requests, elv_request);

/*
 * With thousands queued, each 64 bytes that are touched come from memory: what is used together is
 * kept together, and the memory of requests should be aligned to ELV_REQUEST_ALIGN.
 */
enum { ELV_REQUEST_ALIGN = 64 };

struct elv_request {
	/* Set by the caller before elv_insert, untouched by sched/. */
	struct elv_conn *conn;
	uint64_t offset, length; /* length > 0, except for FLUSH; within the export */
	char *data;              /* READ and WRITE: length bytes, stable until completion;
				  * STATUS: a struct elv_status */
	enum elv_op op;
	unsigned flags; /* enum elv_flags */

	/* Set by sched/ when the request is handed back. */
	int error;       /* 0, or a negative errno */
	bool withdrawn;  /* its connection died before it was executed whole */

	/* ---- private to sched/, but for the next and the last line ---- */
	bool maybe_blocked : 1; /* an older conflicting request was there when it arrived */
	bool leads : 1;     /* none of these is of its own client, both modifying */
	bool sliced;        /* cut: its rest is in `rest`, it neither merges nor is merged */
	bool synced;        /* a sync that covers it was done for it */
	uint64_t arrival, first_dispatch; /* ns; may be read when the request is handed back */
	/* -- 64 bytes -- */

	enum elv_state state;
	unsigned in_flight;        /* ios that carry a part of it */
	struct elv_request *head;  /* of the run this is in; itself if alone */
	TAILQ_ENTRY(elv_request) part_link;
	TAILQ_ENTRY(elv_request) age_link;  /* all requests not wholly dispatched, oldest first */
	TAILQ_ENTRY(elv_request) conn_link; /* all unfinished requests of the connection */
	/* -- 128 bytes -- */

	struct elv_span span;  /* in the overlap index, while not sliced or as one of the rests */
	uint64_t seq;          /* arrival order within the store */
	uint64_t age_from;     /* ns: arrival, or the end of its last finished slice */
	struct elv_request *held_by; /* whose waiters list it is in; NULL: the discard slot's */
	/* -- 256 bytes -- */

	/* A run of merged requests, kept in its head, the part that the policy knows. */
	TAILQ_ENTRY(elv_request) fifo_link; /* the policy's, while it has the request */
	uint64_t run_seq;     /* the oldest part's: the run's place in a FIFO */
	uint64_t run_arrival; /* ns, the oldest part's */
	uint64_t run_offset, run_length; /* bytes */
	uint64_t area[2];     /* the policy's */
	/* -- 320 bytes -- */

	struct elv_requests parts; /* of a head: all parts by offset */
	unsigned nparts;
	struct tree_node sort;     /* the policy's; key: run_offset */
	/* -- 384 bytes -- */

	struct elv_spans rest; /* of a sliced request, by position; empty: all dispatched */
	struct elv_requests waiters; /* requests held until something of this finishes */
	TAILQ_ENTRY(elv_request) wait_link; /* in a waiters list, a discard queue or a sync list */
	TAILQ_ENTRY(elv_request) link; /* the caller's until insert, and again once handed back */
};
_Static_assert(offsetof(struct elv_request, span) == 128 &&
	       offsetof(struct elv_request, fifo_link) == 256 &&
	       offsetof(struct elv_request, parts) == 320, "a request's fields have moved");

/* It will be needed soon: have it loaded, all at once. */
static inline void elv_prefetch(const struct elv_request *rq)
{
	for (size_t at = 0; at < sizeof(*rq); at += ELV_REQUEST_ALIGN)
		__builtin_prefetch((const char *)rq + at);
}

enum {
	ELV_MAX_SEGMENTS = 128, /* requests in an io; Linux: BLK_MAX_SEGMENTS */
	ELV_IO_AREA = 128,      /* bytes for the store's own state of an io */
};

TAILQ_HEAD(elv_ios, elv_io);

/* What a store executes. The elevator owns it; the store has it from submit to completion. */
struct elv_io {
	/* Set by the elevator, read by the store. */
	struct elv_store *store;
	enum elv_op op;          /* FLUSH: make everything that was completed durable */
	unsigned flags;          /* ELV_FUA only on a WRITE that the store makes durable itself */
	uint64_t offset, length; /* bytes */
	struct iovec *iov;       /* READ, WRITE: niov pieces that add up to length;
				  * STATUS: one, its base is the struct elv_status */
	unsigned niov;

	/*
	 * Set by the store. result: the bytes done, from the start (all of length for ops without
	 * data), or a negative errno. sync_failed: the data was written, but making it durable
	 * failed, and with it, maybe, that of other writes.
	 */
	int64_t result;
	bool sync_failed;
	TAILQ_ENTRY(elv_io) link; /* the store's while it has the io, the caller's otherwise */
	void *lane;               /* the store's: where it was submitted */
	_Alignas(16) char area[ELV_IO_AREA];

	/* ---- private to sched/ from here on ---- */
	struct elevator *elv;      /* NULL: a store's sync */
	struct elv_client *client; /* to whom it is charged */
	uint64_t generation;       /* of the elevator's policy when it was dispatched */
	uint64_t dispatched;       /* ns */
	uint64_t cost;             /* in cost units, sched/cost.h */
	uint64_t charged;          /* the policy's: what it took for this io so far, ... */
	uint64_t tag;              /* ... when it was to go, in the policy's time, ... */
	unsigned kind;             /* ... of what kind it is, ... */
	TAILQ_ENTRY(elv_io) order; /* ... and its place among others in flight */
	bool promoted;                 /* past the policy, for its age */
	struct elv_request *slice_of;  /* a slice of this request; else NULL, and see parts */
	struct elv_span span;          /* of a slice: in the overlap index */
	struct elv_requests parts;     /* by offset */
	unsigned nparts;
	struct elv_request *alone;     /* the part that is tried alone, after the whole failed */
	struct iovec vec[ELV_MAX_SEGMENTS];
};

/* One socket. It must stay where it is until elv_conn_close and its last request came back. */
struct elv_conn {
	struct elv_client *client;
	/* ---- private to sched/ ---- */
	struct elv_requests requests; /* all unfinished ones */
	unsigned unfinished;
	bool open;
	int sync_error; /* a sync failed while this was open: the answer to FLUSH and FUA since */
	int told_error; /* the last such answer; whether it was heard tells elv_conn_close */
	TAILQ_ENTRY(elv_conn) store_link;
};

enum elv_class { ELV_CLASS_RT, ELV_CLASS_BE, ELV_CLASS_IDLE, ELV_NUM_CLASSES };

/* Settings of a client; rows in sched/elevator.c (elv_client_rows). */
struct elv_client_params {
	uint64_t weight;   /* 1..1000 */
	uint64_t io_class; /* enum elv_class */
};

/* Counters of a client; the export's are their sum plus those of clients that are gone. */
struct elv_stats {
	uint64_t requests[ELV_NUM_OPS];
	uint64_t bytes[ELV_NUM_DIRS]; /* of READ and WRITE */
	uint64_t answered, withdrawn; /* withdrawn: finished, but the connection was gone */
	uint64_t errors;              /* answered with one */
	uint64_t back_merges, front_merges;
	uint64_t ios, promoted;
	uint64_t service_ns;            /* device time of its ios, and its part of syncs */
	struct histogram queue;         /* arrival to first dispatch */
	struct histogram service;       /* first dispatch to completion */
	struct histogram total[ELV_NUM_DIRS]; /* arrival to completion */
};

/* An identity's account at one elevator: one share, however many connections. */
struct elv_client {
	/* Set by the caller before elv_client_init. */
	uint64_t identity; /* equal for equal identities at all exports of a server, only */
	struct elv_client_params params; /* change them through elv_client_set_params */

	/* Readable under the disk's lock. */
	struct elevator *elv;
	unsigned conns;            /* open connections */
	unsigned queued;           /* requests not wholly dispatched */
	unsigned in_flight;        /* requests dispatched, and those that wait for a sync */
	struct elv_stats stats;
	int owed_error;            /* a sync that covered its writes failed and nobody was told */

	/* ---- private to sched/ ---- */
	TAILQ_ENTRY(elv_client) link;       /* of the elevator */
	TAILQ_ENTRY(elv_client) dirty_link[2]; /* has writes that the next / running sync covers */
	bool dirty[2];
	struct elv_requests discards;       /* held until the discard slot is free */
	unsigned discards_queued;           /* runs of TRIM and ZERO that the policy has */
	TAILQ_ENTRY(elv_client) discard_link;
	uint64_t area[80];                  /* the policy's */
};
TAILQ_HEAD(elv_clients, elv_client);

#endif
