/*
 * The server as it runs: exports, loops, listeners, the control socket, signals, and the order in
 * which all of them start and stop.
 *
 * Only one at a time. All functions are the main thread's, unless said otherwise.
 */
#ifndef SERVER_NET_SERVICE_H
#define SERVER_NET_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "server/control/control.h"
#include "server/export/registry.h"
#include "server/net/listener.h"
#include "server/net/loop.h"
#include "server/net/tls.h"

struct control_socket;
struct removal;

/* What loading the configuration came to, on its way to the calls that wait for it. */
struct reload_report {
	unsigned ticket;                       /* all calls up to this one */
	struct control_report report;
	STAILQ_ENTRY(reload_report) link;
};

/* Exit statuses, as documented. */
enum service_status {
	SERVICE_STOPPED = 0,   /* as it was asked to */
	SERVICE_BROKEN = 1,    /* something in the environment: image, port, socket, permission, disk */
	SERVICE_MISUSED = 2,   /* the fix is in the command line or the configuration */
};

struct service {
	struct server server;
	struct loop *loops;
	unsigned nloops;
	bool want_ring;

	struct listeners listeners;            /* loop 0's thread, once it runs */
	struct control_socket *control;        /* loop 0's thread, once it runs; NULL: none */

	/*
	 * Loads the configuration again; the main thread's. Set before service_start; NULL: there
	 * is none.
	 */
	void (*reload)(void *ctx, struct control_report *report);
	void *reload_ctx;
	struct {
		atomic_uint wanted;            /* calls so far */
		pthread_mutex_t lock;          /* of the reports, for loop 0 */
		STAILQ_HEAD(, reload_report) reports;
		/* The main thread's: */
		unsigned number;               /* of the last load, from 1 */
		bool due;                      /* it is to be loaded */
		struct reload_report *open;    /* it was, and exports that it removed are going */
		uint64_t until;                /* ns: that long any of these waits for exports */
	} reloads;
	struct {
		pthread_mutex_t lock;
		STAILQ_HEAD(, removal) going;  /* until they are closed */
		STAILQ_HEAD(, removal) gone;   /* for loop 0, to answer who waits */
		int fd;                        /* readable: one of those going may be closed */
	} removals;

	bool has_workers;                      /* main thread: it holds the pool */
	pthread_mutex_t tls_lock;
	struct tls_context *tls;               /* tls_lock; NULL: none */

	int signal_fd;
	int gone_fd;                           /* readable: while stopping, something has ended */
	atomic_uint living;                    /* connections not freed, exports not synced that go */
	atomic_bool draining;
	atomic_bool flushed, lost;  /* when stopping; lost: what was answered may not be on disk */
	atomic_bool accept_paused;
	unsigned next_loop;                    /* loop 0: where the next connection goes */

	pthread_mutex_t start_lock;            /* of the following: a thread reports its start */
	pthread_cond_t start_cond;
	bool start_done;
	int start_result;
	char start_error[TUNABLE_ERR_MAX];
};

/* Are there this user and this group (NULL: none is asked for)? 0, or -EINVAL and a sentence. */
int service_check_user(const char *user, char *err, size_t errlen);
int service_check_group(const char *group, char *err, size_t errlen);

/*
 * Everything empty; signals that matter are blocked from here on. If the params name no socket, it
 * will be localhost:10809. 0, or -ENOMEM and the like.
 */
int service_init(struct service *s, const struct server_params *params);

/*
 * The exports and rules are there: open sockets, give up privileges, start the threads. 0, or an
 * exit status with a sentence in err.
 */
enum service_status service_start(struct service *s, char *err, size_t errlen);

/*
 * Serve until asked to stop, then stop in an orderly way. Returns the exit status: BROKEN if the
 * last flush of an export failed, or an earlier one whose client has not heard of it: what was
 * answered may be lost.
 */
enum service_status service_run(struct service *s);

/* Free everything. After a failed start as well. */
void service_exit(struct service *s);

/*
 * New handshakes use this; a reference is taken over. NULL: there is no TLS. Nor is there any if no
 * thread can be had for it: then clients that ask are refused.
 */
void service_set_tls(struct service *s, struct tls_context *tls);

/* --- for the loops --- */

/* What connections have to prove themselves with, with a reference; NULL: nothing. Any thread. */
struct tls_context *service_tls(struct service *s);

/* A thread: its start came out like this. */
void service_thread_started(struct service *s, int result, const char *err);
int service_wait_started(struct service *s, char *err, size_t errlen);

/* Any loop: the socket of one of its connections was closed; and: the connection was freed. */
void service_connection_closed(struct loop *loop);
void service_connection_gone(struct loop *loop);

/* Any thread: `living` is one less. */
void service_one_less(struct service *s);

/* Loop 0: no more connections; and: there is room for them again. */
void service_stop_listening(struct service *s);
void service_accept_again(struct service *s);

/* Loop 0: have the configuration loaded again. The number of the call, for its answer. */
unsigned service_request_reload(struct service *s);

/* Loop 0: it was loaded again; answers those who wait. */
void service_reloaded(struct service *s);

/* Loop 0: settings were changed, so that elevators may want to dispatch. */
void service_kick(struct service *s);

/* --- reload.c, for service.c --- */

void service_reloads_init(struct service *s);
void service_reloads_exit(struct service *s);

/* Have the configuration loaded again, with all that belongs to it: service_go_on does it. */
void service_reload(struct service *s);

/*
 * While the server runs, after each thing that the main thread was woken for: close exports that
 * have been removed, load the configuration. Returns when to call it again at the latest, or
 * ELV_NEVER.
 */
uint64_t service_go_on(struct service *s);

#endif
