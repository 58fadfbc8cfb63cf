/*
 * The insides of a server and its exports, for server/export itself and for server/net, which
 * sets them up and runs them. Everybody else: server/export/export.h.
 */
#ifndef SERVER_EXPORT_REGISTRY_H
#define SERVER_EXPORT_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/export/attach.h"
#include "server/export/budget.h"
#include "server/export/client.h"
#include "server/export/disk.h"
#include "server/export/export.h"
#include "server/export/rules.h"
#include "server/export/settings.h"
#include "server/store/store.h"

struct access_list;

struct export {
	struct server *server;            /* constant, like all up to settings */
	uint64_t serial;                  /* order of creation, from 1 */
	struct store *store;
	struct disk *disk;
	char *name;
	struct budget_export budget;      /* budget.lock */

	struct export_settings settings;  /* disk.lock; those for the start only: constant */
	struct elevator elv;              /* disk.lock */
	struct client_table clients;      /* disk.lock */
	struct access_list *access;       /* disk.lock: settings.export.access; NULL: everybody */
	struct seats seats;               /* disk.lock; nseats of them, nwriters may write */
	unsigned nseats, nwriters;        /* disk.lock */
	uint64_t connections;             /* disk.lock: open ones */
	uint64_t connections_total;       /* disk.lock */

	unsigned refs;                    /* server.lock */
	bool hidden;                      /* server.lock: nobody finds it */
	atomic_bool going;                /* being removed; set under server.lock */
	TAILQ_ENTRY(export) link;         /* server.lock */
};
TAILQ_HEAD(exports, export);

struct server {
	struct server_params params; /* constant once the loops run: but see server_set_params */
	uint64_t started;                 /* ns, CLOCK_MONOTONIC */
	unsigned threads;                 /* loops */
	bool serial_slices;               /* of its elevators: see struct elv_config, serial */
	struct budget budget;             /* its own lock */
	atomic_uint connections;          /* sockets of clients that are open */
	atomic_ullong serial;             /* of connections, from 1 */

	struct disks disks;               /* main thread, like the next */
	unsigned ndisks;

	pthread_mutex_t lock;             /* all below */
	struct exports exports;
	struct identities *identities;    /* CLIENT_HASH buckets */
	uint64_t next_identity, next_export;
	struct rules rules;

	/* Set once by server/net, before the loops run; to be called from any thread. */
	void (*stop)(void *ctx);
	int (*end_client)(void *ctx, const struct export *e, const char *id, enum client_end how);
	int (*remove)(void *ctx, struct export *e); /* export_remove; the caller has a reference */
	void (*unused)(void *ctx);        /* the last reference to one that is going has gone */
	void *stop_ctx;                   /* of all of them */
};

/* Everything empty; params are copied. 0 or -ENOMEM. */
int server_init(struct server *s, const struct server_params *params);

/* All exports go; no connection may be left, nothing in flight. */
void server_exit(struct server *s);

/*
 * Open the store that the settings describe and serve it. Settings are copied. 0 and *out (without
 * a reference), or a negative errno and a sentence in err: -EINVAL and -EEXIST if the settings are
 * wrong or contradict those of another export, else something is wrong around it. Main thread.
 */
int export_open(struct server *s, const struct export_settings *st, struct export **out, char *err,
		size_t errlen);

/*
 * The same in two steps: after the first nobody finds the export yet, and it can be discarded
 * again. Main thread, also while the loops run.
 */
int export_open_hidden(struct server *s, const struct export_settings *st, struct export **out,
		       char *err, size_t errlen);
void export_publish(struct export *e);
void export_discard(struct export *e);

/*
 * The flush at a stop, when nothing is in flight any more: whatever was written is durable then.
 * Blocking; under no lock. 0, also if the store cannot be written to, or a negative errno.
 */
int export_flush(struct export *e);

/*
 * Taking one away, while the loops run. First nobody is to find it any more, and the caller gets n
 * references: for as long as somebody may still work on it. False, and none: that was done already.
 */
bool export_let_go(struct export *e, unsigned n);

/* Then, when it has no reference any more (main thread; server.unused told of it): */
bool export_is_unused(struct export *e);

/* It goes, and with it its accounts and the rules for it alone; its store, if nobody shares it. */
void export_close_unused(struct export *e);

/* Is it being removed? Any thread, with a reference. */
static inline bool export_is_going(const struct export *e)
{
	return atomic_load(&e->going);
}

/*
 * The settings of clients by a rule; `match` as in server/export/rules.h. 0, or a negative errno
 * with *err filled. Accounts that exist change too. No lock held.
 */
int server_add_rule(struct server *s, const char *match, const struct setting *set, size_t n,
		    struct setting_error *err);

/*
 * Once a second, from one of the loops, as long as it says so: rates, accounts that have been kept
 * for long enough. Is there any account left?
 */
bool server_tick(struct server *s);

/*
 * These become all the rules there are: those that were there, client_set's among them, are in
 * `rules` then. Accounts that exist change too. No lock held.
 */
void server_swap_rules(struct server *s, struct rules *rules);

/*
 * The runtime settings of params become the server's, while it runs; of strings, params has the old
 * ones then. Numbers among them are read with server_param, default_export under server.lock.
 */
void server_set_params(struct server *s, struct server_params *params);

static inline uint64_t server_param(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

#endif
