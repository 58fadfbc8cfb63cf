/*
 * Exports: the names that clients attach, with a store below and an elevator in between; and the
 * server's list of them. This header is what the sockets, the control code and the plugin use.
 *
 *   server ── export ── elevator ──┐
 *     │         │                  ├── store ── disk (the lock, the depth)
 *     │       clients (accounts)   │
 *     └────── export ── elevator ──┘
 *
 * Every function here may be called from any thread, without a lock held, and blocks on mutexes
 * only (each is held for a bounded piece of work in memory). Lock order: server, disk, budget, a
 * loop's inbox. A `struct export *` that a function returns carries a reference: give it back with
 * export_put. Errors are negative errno values, and for whatever a user may see a sentence.
 */
#ifndef SERVER_EXPORT_EXPORT_H
#define SERVER_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/elevator.h"
#include "sched/tunable.h"

struct export;
struct server;

/* --- settings ------------------------------------------------------------------------------- */

/* Whose queue and share a connection gets: server/export/client.h. */
enum client_key {
	CLIENT_KEY_AUTO, CLIENT_KEY_ADDRESS, CLIENT_KEY_UID, CLIENT_KEY_PROCESS,
	CLIENT_KEY_CONNECTION, CLIENT_KEY_TLS, CLIENT_KEY_EXPORT,
};

/* How many may write at a time: server/export/attach.h. */
enum writers { WRITERS_MANY, WRITERS_ONE, WRITERS_IDENTITY };

/* The settings of an export that concern neither its store nor its elevator nor a policy. */
struct export_params {
	char *name;          /* what clients ask for; overrides the section's or the file's */
	char *description;   /* shown to clients; may be NULL; runtime */
	char *device_group;  /* exports of one group share one disk's depth; may be NULL */
	uint64_t scheduler;  /* index in elv_policies; runtime */
	uint64_t client_key; /* enum client_key */
	char *access;        /* server/export/access.h; runtime, like all that follow */
	uint64_t writers;    /* enum writers */
	uint64_t export_connections, client_connections; /* the most; 0: no limit */
};

/* Their rows, ended by a row without a name. */
extern const struct tunable export_rows[];

/* One setting as text: "read_expire" = "500", "deadline.read_expire" = "1s", "weight" = "300". */
struct setting {
	const char *name, *value;
};

/*
 * What was wrong with which setting. text is a whole sentence; the others are for machines, empty
 * where they do not apply (allowed: of an unknown name).
 */
struct setting_error {
	char name[2 * TUNABLE_NAME_MAX + 2];
	char value[128];   /* cut if it was longer */
	char allowed[256];
	char text[TUNABLE_ERR_MAX];
};

/* Room for the name of an export's tunable: "POLICY.NAME". */
enum { EXPORT_TUNABLE_NAME = 2 * TUNABLE_NAME_MAX + 2 };

/*
 * Names of an export's tunables. Those of export_rows, store_rows and elv_rows stand for
 * themselves. A policy's is addressed as "POLICY.NAME" (deadline.read_expire), whichever policy is
 * in use, and that of the one in use by its bare name as well (read_expire).
 */

/*
 * Call fn for each tunable of e: first export, store and elevator, then the current policy's by
 * their bare names, then those of the other policies as POLICY.NAME. value and dflt are texts as
 * tunable_print makes them. fn runs without a lock and may not fail. -ENOMEM: fn was not called.
 */
struct export_tunable {
	char name[EXPORT_TUNABLE_NAME];
	const struct tunable *row;
	const struct elv_policy *policy; /* whose it is; NULL: no policy's */
	char *value, *dflt;
};
int export_each_tunable(struct export *e, void (*fn)(void *ctx, const struct export_tunable *t),
			void *ctx);

/*
 * The value of one tunable as text, in buf (cut to fit, always terminated). -ENOENT: there is none
 * of this name; err says so, and perhaps what was meant.
 */
int export_get(struct export *e, const char *name, char *buf, size_t len, char *err, size_t errlen);

/*
 * Change n settings of a running export, all or none: everything is checked first, then committed
 * under the disk's lock, a new scheduler before all else, wherever it stands in the list (so that a
 * bare policy tunable means the new one's). They take effect at once, under load. 0, or with *err
 * filled: -ENOENT unknown name, -EINVAL bad value, -ERANGE out of range, -EPERM can only be set at
 * start, -EEXIST given twice, -ENOMEM.
 */
int export_set(struct export *e, const struct setting *set, size_t n, struct setting_error *err);

/* Would export_set do it? The same answers, but for -ENOMEM, and nothing is changed. */
int export_try(struct export *e, const struct setting *set, size_t n, struct setting_error *err);

/* --- looking up ----------------------------------------------------------------------------- */

/*
 * The export of this whole name (not terminated), or NULL. "" is the default export: the one that
 * default_export names, or the only one there is.
 */
struct export *export_find(struct server *s, const char *name, size_t len);

/*
 * The exports one by one, in order of creation: *cursor is 0 at first and belongs to this function.
 * NULL at the end. Exports that come or go meanwhile neither repeat nor hide others.
 */
struct export *export_next(struct server *s, uint64_t *cursor);

/* Is there one of this whole name that is being removed? export_find does not find it. */
bool export_leaves(struct server *s, const char *name, size_t len);

/* Give a reference back. NULL is fine. */
void export_put(struct export *e);

/* Constant while a reference is held. */
const char *export_name(const struct export *e);

/* Its description, which may change, cut to fit. */
void export_description(struct export *e, char *buf, size_t len);

/* --- looking inside ------------------------------------------------------------------------- */

/* One line of export.list. */
struct export_summary {
	const char *name;                /* valid while the export is referenced */
	const char *path, *device, *aio; /* of the store: geometry.device_name, geometry.aio */
	uint64_t size;                   /* bytes */
	bool readonly, rotational;
	bool buffered;                   /* through the page cache: the kernel orders the writes */
	const struct elv_policy *policy;
	unsigned depth;                  /* the queue_depth in effect */
	unsigned clients;                /* identities with a connection */
	unsigned connections;
	unsigned queued;                 /* requests that wait for dispatch */
	unsigned in_flight;              /* ios that the store has */
	uint64_t oldest;                 /* age in ns of the oldest queued request; 0: none */
	uint64_t flush_errors;           /* syncs that failed */
};
void export_summarize(struct export *e, struct export_summary *out);

/* Counters since the start. received = answered + withdrawn + held. */
struct export_stats {
	uint64_t requests_received;  /* whole requests read from sockets, bad ones included */
	uint64_t requests_answered;  /* replies handed to the kernel, whole */
	uint64_t requests_withdrawn; /* ended without a reply: their connection was gone */
	uint64_t requests_held;      /* received, and not yet answered or withdrawn */
	uint64_t requests_invalid;   /* of those received: answered with an error unexecuted */
	uint64_t bytes_held;         /* memory reserved for the data of those held */
	uint64_t budget_waits;       /* how often reading a socket stopped for want of budget */
	uint64_t connections;        /* open now */
	uint64_t connections_total;
	uint64_t flushes;            /* FLUSH requests */
	uint64_t syncs, sync_errors; /* of the store, which other exports may share */
	uint64_t switches;           /* of the scheduler */
	uint64_t evicted;            /* accounts that had to make room */
	struct elv_stats elv;        /* all clients, gone ones included */
};

/* out is some 10 KiB: not on a small stack. */
void export_stats(struct export *e, struct export_stats *out);

/* The policy's own state for people, "name value" lines; cut to len, always terminated. */
void export_show(struct export *e, char *buf, size_t len);

/* --- clients -------------------------------------------------------------------------------- */

/*
 * Longest id text, without the final NUL. Ids: ip:10.0.0.7 uid:1000 pid:4711 cid:3
 * tls:alice conn:12 export:disk1
 */
enum { CLIENT_ID_MAX = 255 };

/* One line of client.list: an identity's account at one export. */
struct client_summary {
	char id[CLIENT_ID_MAX + 1];
	const char *export_name; /* valid while the export is referenced */
	unsigned connections;
	bool writer;                      /* one of them may write */
	unsigned queued, in_flight;       /* requests */
	struct elv_client_params params;  /* weight, io_class: print them through elv_client_rows */
	uint64_t iops, bytes_per_s;       /* over the last one to two seconds */
	uint64_t p50, p99;                /* ns, arrival to completion, since its start */
	uint64_t requests_held, bytes_held;
	/* Since its start; `times` of them were dispatched, all but some flushes and the like. */
	uint64_t requests, bytes;         /* answered; of READ and WRITE */
	uint64_t times, queue_time, service_time; /* ns: to the first dispatch, from there on */
	uint64_t device_time;             /* ns that its ios were with the store */
};

/*
 * The accounts at e: those with a connection or unfinished requests, with `all` also those that are
 * remembered for a while. *out is an array of *n for the caller to free, and so is *total, unless
 * total is NULL: the histograms from arrival to completion. 0 or -ENOMEM.
 */
int export_clients(struct export *e, bool all, struct client_summary **out,
		   struct histogram **total, size_t *n);

/*
 * Change settings (elv_client_rows) of the client with this whole id, all or none: of its account
 * at `e`, or, with e NULL, at every export. They hold until the configuration is loaded again, also
 * for accounts that it gets later. *accounts (may be NULL): how many there were. 0, or with *err
 * filled as by export_set; -ESRCH: no such client.
 */
int client_set(struct server *s, struct export *e, const char *id, const struct setting *set,
	       size_t n, unsigned *accounts, struct setting_error *err);

/* How connections go that an administrator wants to go. */
enum client_end {
	CLIENT_DISCONNECT, /* at once, as if the other end had died */
	CLIENT_DRAIN,      /* nothing more is read; what was received is finished and answered */
};

/*
 * Close the connections that the client with this whole id has at `e`, or, with e NULL, at every
 * export; it may come back. Returns at once, while they are still there. 0, or with nothing done:
 * -ENOMEM, or -ENOTSUP if they are not the server's to close.
 */
int client_end(struct server *s, const struct export *e, const char *id, enum client_end how);

/* --- taking one away ------------------------------------------------------------------------ */

/*
 * Have the export of this whole name removed: nobody finds it any more, what its connections ask
 * for from now on is refused (ESHUTDOWN); what they had asked for is executed and answered, at most
 * for drain_timeout; then its store is synced, the connections are closed, and the store is. Returns
 * at once, with the export's serial number. 0, also if it is going already, or with nothing done:
 * -ENOENT; -ENOTSUP if exports are not the server's to remove; -ESHUTDOWN: it stops; -ENOMEM.
 */
int export_remove(struct server *s, const char *name, uint64_t *serial);

/* --- the server ----------------------------------------------------------------------------- */

struct server_info {
	int pid;
	uint64_t uptime;     /* ns */
	unsigned threads;    /* loops */
	unsigned exports;
	unsigned connections;
	uint64_t memory, bytes_held; /* the budget for request data, and what is reserved of it */
	uint64_t requests_held;
	unsigned waiting;    /* connections that wait for budget */
};
void server_info(struct server *s, struct server_info *out);

/* Ask the server to stop in an orderly way, as SIGTERM does. Returns at once. */
void server_request_stop(struct server *s);

#endif
