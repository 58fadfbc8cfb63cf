/*
 * Taking an export away while the server runs.
 *
 *   removal_order            nobody finds it any more; every loop is told (struct departure)
 *   each loop                what its connections ask for from now on is refused with ESHUTDOWN,
 *                            what they had asked for is executed
 *   the last loop to finish  one sync of the store, through the elevator, so that an error of it
 *                            is known to all exports of the store
 *   each loop, after that    the connections are closed once their answers are sent
 *   main thread              when the export has no reference left: the store is closed, who waits
 *                            for it is answered
 *
 * Connections that are still there after drain_timeout are closed, whatever they wait for.
 *
 * A departure has a reference to its export, until its loop has forgotten it.
 */
#ifndef SERVER_NET_REMOVAL_H
#define SERVER_NET_REMOVAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/net/conn.h"
#include "server/net/loop.h"

struct control_report;
struct removal;
struct service;

/* The connections of one loop to an export that goes; that loop's thread. */
struct departure {
	struct removal *removal;         /* constant */
	struct conn_list conns;          /* by departure_link */
	bool quiet;                      /* all that they had asked for is executed */
	bool closing;                    /* they were told to end */
	uint64_t until;                  /* ns: they end now; ELV_NEVER: they were told so */
	TAILQ_ENTRY(departure) link;     /* of the loop */
	STAILQ_ENTRY(departure) inbox;   /* inbox_lock */
};

struct removal {
	struct service *service;         /* constant, like all up to reload */
	struct export *export;
	uint64_t serial;                 /* of the export */
	unsigned reload;                 /* what ordered it: reloads.number; 0: a call */
	atomic_uint unquiet;             /* loops */
	atomic_bool synced;              /* the sync is done, or was not needed */
	/* Of the sync: the disk's lock, like all requests; error: written before `synced`. */
	struct elv_client client;
	struct elv_conn conn;
	struct request sync;             /* without a conn: by that it is known */
	int error;
	char *wrong;                     /* at the end: a sentence, or NULL */
	STAILQ_ENTRY(removal) link;      /* removals.lock */
	struct departure at[];           /* by loop */
};

/*
 * Have it removed. reload: the number of the load that says so; 0: none. Any thread, with a
 * reference. 0, also if it is going already; -ESHUTDOWN: the server stops; -ENOMEM.
 */
int removal_order(struct service *s, struct export *e, unsigned reload);

/* --- a loop's thread --- */

/* From the inbox: the connections of this loop. */
void removal_begin(struct loop *loop, struct departure *d);

/* At the end of a turn: has anything come to its end? */
void removal_look(struct loop *loop);

/* Close the connections that took too long. Returns when the next do, or ELV_NEVER. */
uint64_t removal_timeouts(struct loop *loop);

/* The sync, a request without a connection, is finished. */
void removal_synced(struct request *r);

/* Loop 0: answer those who wait for exports that have gone. */
void removals_answer(struct service *s);

/* --- the main thread --- */

void removals_init(struct service *s);
void removals_exit(struct service *s);

/*
 * Close what has no reference left. report (may be NULL): that of the last load, which gets a line
 * about each that was ordered by it.
 */
void removals_finish(struct service *s, struct control_report *report);

/* Is any export going? reload: because that load said so; 0: for any reason. */
bool removals_any(struct service *s, unsigned reload);

/* A line for each that the last load ordered and that has not gone yet. */
void removals_pending(struct service *s, struct control_report *report);

#endif
