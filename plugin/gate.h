/*
 * The gate: where nbdkit's threads wait until the elevator lets their request go.
 *
 *   thread ── insert ──> elevator ── dispatch ──> grant ──> the same thread: store_run
 *     ^                     ^                                     │
 *     └── done: return      └──── complete, dispatch more <───────┘
 *
 * Each request has the thread that brought it, blocked until it is answered. The thread that
 * inserts or completes asks the elevator what may go next and wakes those whose turn it is; they do
 * their I/O themselves, one io at a time (of a sliced request one slice after the other: the
 * elevator must be set up with `serial`). What stands for several requests (a sync, a merged io) is
 * done by the thread of one of them. If the elevator wants to be asked again at some time, one of
 * the threads that wait anyway wakes up then.
 *
 * Everything is under the lock of the export's disk. Any thread.
 */
#ifndef PLUGIN_GATE_H
#define PLUGIN_GATE_H

#include <sys/queue.h>

#include "sched/elevator.h"
#include "server/export/attach.h"
#include "server/export/registry.h"

struct gate_conn;
struct gate_request;
TAILQ_HEAD(gate_conns, gate_conn);
TAILQ_HEAD(gate_requests, gate_request);

struct gate {
	struct export *export;
	struct gate_conns conns;      /* open ones */
	struct gate_requests asleep;  /* whose threads wait for a grant or their end */
	struct gate_request *keeper;  /* the one of them that wakes up at `wake` */
	uint64_t wake;                /* when to ask the elevator again; ELV_NEVER */
};

/* A connection, from nbdkit's open to its close. */
struct gate_conn {
	struct elv_conn elv;
	struct gate *gate;
	struct seat seat;
	struct client *client; /* the seat's */
	TAILQ_ENTRY(gate_conn) link;
};

/* No other gate serves this export, and it is the only one of its disk. */
void gate_init(struct gate *g, struct export *e);

/*
 * The connection of this peer, whose serial is set here; c->seat.use says what it may do. 0, or as
 * export_attach with a sentence in err.
 */
int gate_open(struct gate *g, struct client_peer *peer, struct gate_conn *c, char *err,
	      size_t errlen);

/* All its requests have returned. */
void gate_close(struct gate_conn *c);

/*
 * Have one request executed, blocking; its range must lie within the export. Takes the client's
 * budget first (nr_requests). Returns 0 or a negative errno.
 */
int gate_execute(struct gate_conn *c, enum elv_op op, unsigned flags, char *data, uint64_t offset,
		 uint64_t length);

/* Settings were changed: the elevator may want to dispatch. */
void gate_kick(struct gate *g);

#endif
