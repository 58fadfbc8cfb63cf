/*
 * Loops: the threads that serve connections. Each has an event base, a lane to the stores, and an
 * inbox for what other threads have to say; a connection stays on one loop for life.
 *
 * One round of a loop is a *turn* (turn.c): libevent waits and notes which connections have
 * something; then all of them are read, all that they asked for goes to the elevators and the
 * stores in one go, what the stores finish at once goes round again, and at last each connection's
 * replies leave in one system call. Nothing is handed to another thread on the way, unless it
 * belongs to a connection of another loop.
 *
 * Who owns what: all members belong to the loop's own thread, but for the inbox, which has a lock,
 * the last one to be taken. The event base is used by the own thread only.
 */
#ifndef SERVER_NET_LOOP_H
#define SERVER_NET_LOOP_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "sched/elevator.h"
#include "server/export/registry.h"
#include "server/nbd/handshake.h"
#include "server/net/pool.h"
#include "server/store/store.h"

struct conn;
struct request;
struct service;

TAILQ_HEAD(conn_list, conn);

enum {
	LOOP_SCRATCH = 256 << 10, /* bytes read from a socket at once */
	LOOP_IOV = 1024,          /* pieces of one sendmsg: IOV_MAX */
	LOOP_HEADS = 32 << 10,    /* bytes of replies' heads in one sendmsg */
	LOOP_FREE_REQUESTS = 4096,
};

/* A disk as one loop sees it. */
struct loop_disk {
	struct disk *disk;
	struct elv_requests inserts; /* to be queued */
	struct elv_ios completed;    /* came back from the lane */
	struct conn_list closing;    /* to be closed in the elevator */
	uint64_t wake;               /* ns: when the elevators want to be asked; or ELV_NEVER */
	bool busy;                   /* in the loop's list */
	TAILQ_ENTRY(loop_disk) link;
};
TAILQ_HEAD(loop_disks, loop_disk);

/* A connection that a listener accepted, on its way to its loop. */
struct arrival {
	int fd;
	struct client_peer peer;
	enum nbd_tls tls;
	TAILQ_ENTRY(arrival) link;
};
TAILQ_HEAD(arrivals, arrival);

/* The connections of a client that are to go: client_end. */
struct dismissal {
	enum client_end how;
	uint64_t export; /* its serial; 0: all */
	STAILQ_ENTRY(dismissal) link;
	char id[CLIENT_ID_MAX + 1];
};
STAILQ_HEAD(dismissals, dismissal);

struct departure; /* server/net/removal.h */

enum loop_order {
	LOOP_DRAIN = 1,  /* read no more, finish what was received, close */
	LOOP_QUIT = 2,   /* leave the event loop */
	LOOP_ACCEPT = 4, /* loop 0: there is room for connections again */
	LOOP_RELOADED = 8, /* settings may have changed; loop 0: service_reloaded */
	LOOP_LOOK = 16,    /* something may have become due: a turn is enough */
	LOOP_REMOVED = 32, /* loop 0: removals_answer */
};

struct loop {
	struct service *service; /* constant, like all up to inbox_fd */
	struct server *server;
	unsigned index;
	pthread_t thread;
	struct event_base *base;
	struct lane *lane;
	int timer_fd, inbox_fd;
	struct event lane_event, timer_event, inbox_event;

	uint64_t now;            /* ns, CLOCK_MONOTONIC: read once a turn */
	uint64_t armed;          /* when timer_fd fires; ELV_NEVER: it does not */
	uint64_t next_tick;      /* loop 0: of server_tick; ELV_NEVER: none */
	bool again;              /* something is left to do: the next turn does not wait */
	bool lane_ready;         /* its descriptor was readable; likewise the inbox: */
	bool inbox_ready;
	bool draining, quit;
	uint64_t last_work;      /* when there was something to do */

	uint64_t visits;         /* to disks */
	struct loop_disk **disks; /* by disk.index; NULL where not used so far */
	unsigned ndisks;
	struct loop_disks busy;

	struct conn_list conns;      /* all, until they are freed */
	struct conn_list ready;      /* have something to read or to parse */
	struct conn_list replying;   /* have replies that were not tried to send */
	struct conn_list handshakes; /* oldest first; likewise these: */
	struct conn_list payloads;   /* a payload is incomplete */
	struct conn_list unread;     /* a reply waits for room in the socket */
	TAILQ_HEAD(, departure) departures; /* of exports that are being removed */
	atomic_uint load;            /* connections, those on their way included; any thread */

	struct elv_requests free_requests;
	unsigned nfree;
	struct elv_requests spent;    /* answered or withdrawn in this turn */
	struct elv_requests *outbox;  /* by loop: finished requests of its connections */

	struct pool pool;
	uint8_t *scratch;             /* LOOP_SCRATCH bytes */
	struct iovec *iov;            /* LOOP_IOV */
	uint8_t *heads;               /* of replies: LOOP_HEADS bytes */
	uint8_t *stage;               /* of tls_sendv: TLS_STAGE bytes */

	/* ---- the inbox: any thread, under its lock ---- */
	pthread_mutex_t inbox_lock;
	bool signalled;               /* inbox_fd is, or will be, readable */
	struct elv_requests in_requests;
	struct conn_list in_granted;
	struct conn_list in_shaken;   /* a worker has done with them: secure.c */
	struct arrivals in_arrivals;
	struct dismissals in_dismissals;
	STAILQ_HEAD(, departure) in_departures;
	unsigned in_orders;           /* enum loop_order */
};

/*
 * Set up. 0, or a negative errno and a sentence in err; loop_exit is due in any case. Main thread.
 */
int loop_init(struct loop *loop, struct service *service, unsigned index, char *err, size_t errlen);

/* Start its thread, which opens its lane; returns when that is done. Main thread. */
int loop_start(struct loop *loop, char *err, size_t errlen);

/* Wait for its thread, which was told LOOP_QUIT. */
void loop_join(struct loop *loop);

/* Free everything; the thread has ended or was never started. */
void loop_exit(struct loop *loop);

/* The disk as this loop sees it; NULL for lack of memory. Own thread. */
struct loop_disk *loop_disk(struct loop *loop, struct disk *d);

/* There is something to do at this disk in this turn. Own thread. */
void loop_disk_busy(struct loop *loop, struct loop_disk *ld);

/* --- from any thread --- */

void loop_give_orders(struct loop *loop, unsigned orders);

/* Hand over an accepted connection; owned by the loop from now on. */
void loop_give_arrival(struct loop *loop, struct arrival *a);

/* Likewise; it is for the connections of this loop. */
void loop_give_dismissal(struct loop *loop, struct dismissal *d);

/* Likewise; it stays the giver's. */
void loop_give_departure(struct loop *loop, struct departure *d);

/* Finished requests of this loop's connections; the list is empty afterwards. */
void loop_give_requests(struct loop *loop, struct elv_requests *done);

/* A worker has gone on with the TLS handshake of a connection of this loop. */
void loop_give_shaken(struct loop *loop, struct conn *c);

/* The budget that a connection of this loop waits for was granted. */
void loop_give_granted(struct loop *loop, struct conn *c);

/* Own thread: a connection no longer cares about that. */
void loop_forget_granted(struct loop *loop, struct conn *c);

/* --- turn.c --- */

/* What was noted since the last turn: read, insert, dispatch, submit, complete, reply. */
void loop_turn(struct loop *loop);

/* Take what is in the inbox. */
void loop_open_inbox(struct loop *loop);

#endif
