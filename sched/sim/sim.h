/*
 * The virtual-time harness: the elevators of production among simulated clients and disks.
 *
 *   sim_client ── sim_conn ── sim_request ──> sim_export (elevator) ──> sim_store ──> sim_disk
 *        ^                                                                 image       model
 *        └─────────────────────────── replies ───────────────────────────────────────┘
 *
 * There are two ways to use it. By steps: the caller says what happens next (sim_submit,
 * sim_dispatch, sim_complete, sim_close, ...) and moves sim->now itself; so tests explore orders
 * that no real disk would produce. By events: clients have loads (sim_client_load), disks have
 * models, and sim_run lets virtual time pass. Both use the same objects and the same checks.
 *
 * Everything an elevator does is checked on the way (sched/sim/oracle.c) against naive rules that
 * know nothing of its structures; the first violation is described in sim->wrong and is there to
 * stay. The same seed and calls give the same run, bit for bit: sim->trace is a hash of all that
 * happened.
 *
 * One thread. Memory is allocated as needed; running out of it aborts. Times are ns of virtual
 * time, sizes and positions bytes.
 */
#ifndef SCHED_SIM_SIM_H
#define SCHED_SIM_SIM_H

#include "sched/elevator.h"
#include "sched/sim/model.h"
#include "sched/sim/random.h"

struct sim;
struct sim_client;
struct sim_image;
struct sim_load;

/* ---- events ---- */

/* Something that will happen. Embedded in what it happens to; zeroed: not armed. */
struct sim_event {
	uint64_t at, order;
	unsigned slot; /* in the heap, from 1; 0: not armed */
	void (*fire)(struct sim *sim, struct sim_event *event);
};

/* Arm an event for a time (not before sim->now), or move it. */
void sim_arm(struct sim *sim, struct sim_event *event, uint64_t at);
void sim_disarm(struct sim *sim, struct sim_event *event);

/* ---- the objects ---- */

/* A request and what the oracle knows of it. */
struct sim_request {
	struct elv_request rq;
	struct sim_conn *conn;
	uint64_t serial;     /* arrival order in the whole simulation, from 1 */
	uint64_t offset, length;
	enum elv_op op;
	unsigned flags;
	uint64_t arrival;
	bool pending;        /* inserted and not handed back */
	int guilty;          /* an io about it alone failed with this */
	bool hurt;           /* some io that carried a part of it failed or was cut short */
	uint64_t taken;      /* bytes that ios took */
	struct elv_request *held_by; /* when that was last seen to be right */
	uint64_t *out, *done;  /* bitmaps of its blocks: dispatched, and finished */
	uint64_t *saw;       /* READ with an image: who had written each byte */
	uint64_t *floor;     /* READ: what it must at least see; FLUSH: what must be stable */
	char *data;
	TAILQ_ENTRY(sim_request) link; /* of the store's pending ones */
};
TAILQ_HEAD(sim_requests, sim_request);

/* One piece of a request in an io. */
struct sim_piece {
	struct sim_request *r;
	uint64_t offset, length;
};

/* An io that holds a slot of the disk, or the sync of a store. */
struct sim_flight {
	struct elv_io *io;
	struct sim_disk *disk;
	struct sim_export *export; /* NULL: a sync */
	struct sim_piece *pieces;
	unsigned npieces, finished;
	bool submitted;            /* the store has it; else it waits to be submitted again */
	bool executed;             /* the image has been changed or read already */
	int64_t result;
	bool sync_failed;
	uint64_t begun, submit_time; /* first, and last */
	uint64_t offset, length;   /* of this submission */
	struct sim_event done;
	TAILQ_ENTRY(sim_flight) link;
};
TAILQ_HEAD(sim_flights, sim_flight);

struct sim_disk {
	struct sim *sim;
	struct elv_disk d;
	struct sim_model model;
	struct sim_flights flights; /* by submission */
	unsigned nflights;          /* of them, submitted */
	bool touched;               /* its elevators may have something to dispatch */
	uint64_t wake;              /* when to ask again */
	struct sim_event timer;
	uint64_t last_done; /* the last completion */
	uint64_t ios;
	TAILQ_ENTRY(sim_disk) link;
};

/* How likely an io goes wrong, in percent, and where it always does. For oracles with an image. */
struct sim_faults {
	unsigned error, short_transfer, sync_error; /* percent */
	uint64_t bad_start, bad_end;                /* bytes that always fail with -EIO */
	int sync_errno;                             /* 0: -EIO */
};

struct sim_store {
	struct elv_store s;
	struct sim_disk *disk;
	struct sim_image *image;      /* NULL: nothing is stored, data is not checked */
	struct sim_faults faults;
	struct sim_requests pending;  /* by arrival */
	unsigned discards;            /* in flight */
	bool syncing;
	int failed_error;             /* of the last sync that failed, when it came back */
	uint64_t failed_at;
	TAILQ_ENTRY(sim_store) link;
};

struct sim_export {
	struct elevator e;
	struct sim *sim;
	struct sim_store *store;
	unsigned in_flight;       /* ios, counted here */
	unsigned since_promotion;
	uint64_t dispatched, promoted;
	uint64_t largest_io, largest_discard; /* the limits' maxima so far */
	uint64_t fallback_depth;  /* for queue_depth = auto */
	TAILQ_ENTRY(sim_export) link;
};

struct sim_conn {
	struct elv_conn c;
	struct sim_client *client;
	unsigned pending;
	int sticky;  /* the error that FLUSH and FUA must report until it closes */
	int told;    /* the last such error that was reported */
	TAILQ_ENTRY(sim_conn) link;
};

struct sim_client {
	struct elv_client c;
	struct sim *sim;
	struct sim_export *export;
	TAILQ_HEAD(, sim_conn) conns;
	unsigned pending;
	bool dirty_before, dirty_since; /* has unsynced writes from before / since the last sync */
	int owed;                       /* an error that one of its next FLUSH or FUA must report */

	/* What it got. */
	uint64_t answered, bytes, errors;
	uint64_t cost;          /* of the ios dispatched for it, in cost units */
	uint64_t finished_cost; /* of those that are completed */
	uint64_t time;          /* ns that the disk worked for it, alone or cut at completions */
	uint64_t longest;       /* latency */
	struct histogram latency;

	struct sim_load *load;  /* NULL: the caller submits for it */
	TAILQ_ENTRY(sim_client) link;
};

struct sim {
	uint64_t now;
	struct sim_random random;
	char wrong[256];    /* the first violation; empty: all is well */
	uint64_t trace;     /* hash of everything that happened */
	bool check;         /* run elv_check after every step (slow); set it as you like */
	bool timed;         /* sim_run is at work */
	bool early;         /* execute ios sometimes at submission, sometimes at completion */

	/* Hooks for tests; may be NULL. */
	void (*dispatched)(struct sim *sim, struct sim_flight *f);
	void (*completed)(struct sim *sim, struct sim_flight *f); /* before the elevator knows */
	void (*replied)(struct sim *sim, struct sim_request *r);  /* before it is freed */
	void *arg;

	TAILQ_HEAD(, sim_disk) disks;
	TAILQ_HEAD(, sim_store) stores;
	TAILQ_HEAD(, sim_export) exports;
	TAILQ_HEAD(, sim_client) clients;
	uint64_t serials;
	uint64_t inserted, replies;

	struct sim_event **heap;
	unsigned nevents, room;
	uint64_t event_order;
};

/* ---- setting up; everything is freed by sim_free ---- */

struct sim *sim_new(uint64_t seed);

/*
 * Ends connections and clients, which must have nothing unfinished (see sim_drain). NULL is fine.
 */
void sim_free(struct sim *sim);

/* model is copied; it is used by sim_run only. */
struct sim_disk *sim_disk_new(struct sim *sim, const struct sim_model *model);

/* size: of the in-memory image, or 0 for none. */
struct sim_store *sim_store_new(struct sim_disk *disk, uint32_t block, uint64_t size);

struct sim_setup {
	const char *policy;
	unsigned depth;           /* 0: 1 */
	bool rotational;
	bool no_merges;
	bool serial;
	uint64_t max_io;          /* bytes; 0: the default */
	uint64_t max_discard;     /* bytes; 0: the default */
	uint64_t max_age;         /* ns; 0: off (not the default: tests say when they want it) */
};

struct sim_export *sim_export_new(struct sim_store *store, const struct sim_setup *setup);

/* identity: equal numbers are the same client at several exports. weight 0: the default. */
struct sim_client *sim_client_new(struct sim_export *export, uint64_t identity, uint64_t weight,
				  enum elv_class io_class);
struct sim_conn *sim_conn_new(struct sim_client *client);

/* Set a policy tunable of the export by name, in base units, and tell the policy. */
void sim_tune(struct sim_export *export, const char *policy, const char *name, uint64_t value);

/* ---- by steps ---- */

/* A request arrives now. length 0 only for FLUSH. */
struct sim_request *sim_submit(struct sim_conn *conn, enum elv_op op, uint64_t offset,
			       uint64_t length, unsigned flags);

/* Take what the disk may have now; all of it is in disk->flights then. Returns how many. */
unsigned sim_dispatch(struct sim_disk *disk);

/* This io (submitted) is done, well or according to the store's faults; replies are counted. */
void sim_complete(struct sim_flight *f);

/* The oldest submitted io of the disk, or the n-th; NULL if there is none. */
struct sim_flight *sim_flight(struct sim_disk *disk, unsigned n);

void sim_close(struct sim_conn *conn);
/* The same, but nobody knows whether the other end has read its replies. */
void sim_break(struct sim_conn *conn);

/* A closed connection with nothing unfinished opens again. */
void sim_reopen(struct sim_conn *conn);

void sim_switch(struct sim_export *export, const char *policy);
void sim_set_params(struct sim_export *export, const struct elv_params *params, bool rotational);

/* Dispatch and complete until nothing is unfinished; whatever cannot finish is a violation. */
void sim_drain(struct sim *sim);

/* ---- by events ---- */

/* Let time pass until `until`: loads submit, models complete. */
void sim_run(struct sim *sim, uint64_t until);

/* ---- checks; called by the above ---- */

/* Note a violation; the first is kept. */
void sim_wrong(struct sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
