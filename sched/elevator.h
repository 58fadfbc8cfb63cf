/*
 * The elevator: queue and policy of one export, between all its clients and a store.
 *
 *   elv_insert ──> [overlap index] ──> [merging] ──> policy ──> elv_disk_dispatch ──> store
 *                        │                                            ^       │
 *                        └── held: blocker in flight, discard slot ───┘       v
 *   reply <── done list <──────────────────────────────────────────── elv_complete
 *
 * Three objects share the work. A struct elevator queues for one export. A struct elv_store is
 * what all exports of one image share: the order of overlapping requests, the one sync and the one
 * discard that may run at a time. A struct elv_disk is what all stores of one device share: the
 * depth budget, which elevators take by start-time fair queueing (Goyal, Vin, Cheng 1996; with
 * depth: Jin, Chase, Kaur 2004).
 *
 * Nothing here locks, sleeps, reads a clock or does I/O. Every call on any object of one disk must
 * be made under that disk's one lock; `now` is a monotonic time in ns that never goes back from
 * call to call. Memory is allocated by elevator_init, elv_switch and elv_set_params only.
 *
 * What it promises, whatever the policy (design: the elevator library):
 *  - two modifying requests that overlap run in arrival order, whoever sent them; a read and a
 *    modifying request that overlap keep arrival order within one identity;
 *  - an error reaches only the request it belongs to: a failed or short merged io is retried
 *    part by part;
 *  - a FLUSH is answered after a sync that began after it arrived; a failed sync is told to
 *    every connection that was open and every client it concerned;
 *  - a request older than max_queue_age goes past the policy, one in eight dispatches at most.
 */
#ifndef SCHED_ELEVATOR_H
#define SCHED_ELEVATOR_H

#include "sched/policy.h"
#include "sched/request.h"
#include "sched/tunable.h"

#define ELV_NEVER UINT64_MAX /* as a time: no wake-up is needed */

/* Settings of an elevator: rows in elv_rows. Bytes and ns. */
struct elv_params {
	uint64_t queue_depth;     /* TUNABLE_AUTO: the store's default */
	uint64_t nr_requests;     /* per client and direction; enforced by who reads the sockets */
	uint64_t max_sectors_kb;  /* bytes: largest io with data */
	uint64_t max_discard_kb;  /* bytes: largest TRIM and ZERO io */
	uint64_t nomerges;        /* 0 all, 1 only with the last request, 2 none */
	uint64_t max_queue_age;   /* ns; 0: off */
};

extern const struct tunable elv_rows[];        /* of struct elv_params */
extern const struct tunable elv_client_rows[]; /* of struct elv_client_params */

TAILQ_HEAD(elv_conns, elv_conn);

/* What all exports of one image share. Embedded in the store. */
struct elv_store {
	uint32_t block; /* the overlap index rounds out to this: a power of two */
	uint64_t syncs, sync_errors; /* finished and failed ones; readable under the lock */
	/* ---- private to sched/ ---- */
	struct elv_disk *disk;
	struct tree reads, writes; /* the overlap index: READ, and all that modifies, ... */
	struct tree unordered;     /* ... and what is in nobody's way */
	uint64_t seq;
	bool discarding;            /* the discard slot is taken */
	struct elv_clients discard_clients;
	bool syncing;
	uint64_t sync_began;
	struct elv_io sync_io;
	struct elv_requests sync_waiting, sync_running;
	unsigned parity;            /* dirty[parity]: written since the last sync began */
	struct elv_clients dirty[2];
	int failed_error;           /* of the last sync that failed; 0: none did */
	uint64_t failed_at;
	struct elv_conns conns;
};

/* The device under one or more stores. Embedded in the server's disk, which has the lock. */
struct elv_chunk;

struct elv_disk {
	unsigned depth;     /* the largest of its elevators' depths */
	unsigned in_flight; /* ios that hold a slot */
	/* ---- private to sched/ ---- */
	TAILQ_HEAD(, elevator) elevators;
	struct tree waiting;  /* elevators whose policy has something, by start tag */
	uint64_t vtime;       /* start tag of the last dispatched io */
	bool news;            /* something went to a policy since all were asked */
	struct elv_ios ready; /* to be submitted, whatever the policies say: retries, syncs */
};

struct elevator {
	struct elv_disk *disk;
	struct elv_store *store;
	const struct elv_policy *policy;
	void *queue;                            /* the policy's data */
	void *policy_params[ELV_MAX_POLICIES];  /* of all policies; they survive a switch */
	struct elv_params params;
	unsigned depth;                         /* queue_depth, resolved */
	bool rotational;
	bool serial;                            /* see struct elv_config */
	struct elv_clients clients;

	/* Readable under the lock. */
	unsigned queued;    /* requests not wholly dispatched */
	unsigned held;      /* of these: outside the policy */
	unsigned in_flight; /* ios that hold a slot */
	uint64_t switches;
	struct elv_stats departed; /* of clients that are gone */

	/* ---- private to sched/ ---- */
	uint64_t generation;
	uint64_t tag;               /* start tag at the disk */
	struct tree_node disk_node;
	unsigned in_policy;         /* runs that the policy has */
	unsigned since_promotion;   /* dispatches */
	struct elv_requests by_age; /* all requests not wholly dispatched, by age_from */
	struct elv_request *last_merge; /* head that last grew or came, while queued */
	TAILQ_ENTRY(elevator) disk_link;
	struct elv_chunk *chunks;   /* memory of ios and spare spans, for `allocated` depth */
	unsigned allocated;
	struct elv_ios free_ios;
	struct elv_spans spare_spans;
};

enum { ELV_MAX_DEPTH = 1024 };

/* How elevator_init sets one up. */
struct elv_config {
	struct elv_disk *disk;
	struct elv_store *store;
	const struct elv_policy *policy;
	struct elv_params params;
	unsigned default_depth; /* for queue_depth = auto */
	bool rotational;
	/*
	 * A sliced request has one slice in flight at a time: for those who execute a request's ios
	 * one after the other, and would only keep others from the slots.
	 */
	bool serial;
};

void elv_disk_init(struct elv_disk *d);

/* block: a power of two. The store's ios (sync_io included) carry a pointer to s. */
void elv_store_init(struct elv_store *s, struct elv_disk *d, uint32_t block);

/* Nothing may be unfinished. */
void elv_store_exit(struct elv_store *s);

/* 0 or -ENOMEM, with nothing left behind. All policy settings get their defaults. */
int elevator_init(struct elevator *e, const struct elv_config *config);

/* Nothing may be queued or in flight and no client left. */
void elevator_exit(struct elevator *e);

/*
 * Set the policy while running: the queued requests move over with their arrival times, those in
 * flight finish by themselves. O(queued). 0, or -ENOMEM and the old one goes on untouched.
 */
int elv_switch(struct elevator *e, const struct elv_policy *policy, uint64_t now);

/* Settings of one policy, as laid out by its rows; after a change call elv_params_changed. */
void *elv_policy_params(struct elevator *e, const struct elv_policy *policy);

/*
 * Take new settings (params copied); new depths and limits hold from the next dispatch on. 0, or
 * -ENOMEM (only for a greater depth or another kind of disk) and nothing has changed.
 */
int elv_set_params(struct elevator *e, const struct elv_params *params, unsigned default_depth,
		   bool rotational, uint64_t now);

/* The current policy's settings changed: tell it. */
void elv_params_changed(struct elevator *e, uint64_t now);

/* --- clients and connections --- */

/* A new account; c->identity and c->params are set. */
void elv_client_init(struct elv_client *c, struct elevator *e);

/* No connection may be open and nothing unfinished. Its statistics go to e->departed. */
void elv_client_exit(struct elv_client *c);

/* Copies params. */
void elv_client_set_params(struct elv_client *c, const struct elv_client_params *params,
			   uint64_t now);

void elv_conn_open(struct elv_conn *conn, struct elv_client *c);

/*
 * The connection died or ended: queued reads and unmerged queued writes are withdrawn at once and
 * appended to done; merged and dispatched ones finish later, marked as to be answered to nobody
 * (they come back through elv_complete with conn->open false). No insert may follow. heard: the
 * other end has read all replies, as far as anybody can tell; if not, it may not know of a failed
 * sync that it was told of, and is told again when it comes back.
 */
void elv_conn_close(struct elv_conn *conn, bool heard, uint64_t now, struct elv_requests *done);

/* --- the path of a request --- */

/* Queue it. Its fields are checked only by assertion: validate before. */
void elv_insert(struct elv_request *rq, uint64_t now);

/*
 * Take what may go to the stores now, over all elevators of the disk, onto out (appended; an io's
 * store is in it). Returns how many. *wake: when to call again even if nothing completes, or
 * ELV_NEVER. Must be called after every batch of inserts and completions, and at *wake.
 */
unsigned elv_disk_dispatch(struct elv_disk *d, uint64_t now, struct elv_ios *out, uint64_t *wake);

/*
 * One of the requests that wait for this io, which has been dispatched: for those who have requests
 * execute their ios themselves. NULL: of a sync, if all it was for were withdrawn.
 */
struct elv_request *elv_io_request(const struct elv_io *io);

/* The store finished io (result is set). Requests that are finished by it are appended to done. */
void elv_complete(struct elv_io *io, uint64_t now, struct elv_requests *done);

/* --- looking inside --- */

/* The age in ns of the oldest request not wholly dispatched, or 0. */
uint64_t elv_oldest(const struct elevator *e, uint64_t now);

/* Sum of all clients and those that are gone. out is large: not on a small stack. */
void elv_stats_sum(const struct elevator *e, struct elv_stats *out);

/*
 * Check the whole structure: counters against recounts, trees, hashes, the index, runs and the
 * policy's own check. NULL, or what is wrong. O(n); for tests.
 */
const char *elv_check(struct elevator *e);

#endif
