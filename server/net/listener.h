/*
 * Listeners: TCP, vsock and Unix sockets on which connections come in. They are opened by the main thread
 * before it gives up its privileges, and accept in loop 0's.
 */
#ifndef SERVER_NET_LISTENER_H
#define SERVER_NET_LISTENER_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

struct loop;
struct service;

struct listener {
	int fd;
	char *path;          /* Unix: to be removed, if it is still ours (dev, ino) */
	dev_t dev;
	ino_t ino;
	bool own_tls;        /* `tls` instead of the server's setting */
	uint64_t tls;
	bool readonly;       /* its clients may only read */
	struct service *service;
	struct event event;
	bool accepting;
	TAILQ_ENTRY(listener) link;
};

struct listeners {
	TAILQ_HEAD(, listener) list;
	struct event retry;  /* after descriptors ran out */
	bool retrying;
};

void listeners_init(struct listeners *ls);

/*
 * Listen where a `listen` says (server/export/endpoint.h): on every address that HOST has;
 * localhost is 127.0.0.1 and, if this machine has it, ::1; [::] takes IPv4 as well, unless 0.0.0.0
 * is another one. 0; -EINVAL: that is not one; else why it cannot be.
 */
int listen_at(struct service *s, const char *text, char *err, size_t errlen);

/* Likewise where a `unix` says. A stale socket is replaced, a live one is -EADDRINUSE. */
int listen_unix(struct service *s, const char *text, char *err, size_t errlen);

/* Serve clients of a socket that listens already. It is owned, its file is not. */
int listen_passed(struct service *s, int fd, char *err, size_t errlen);

/* Begin to accept. Loop 0's base must exist; its thread need not. */
int listeners_start(struct service *s);

/* Close them all, remove the sockets' files. Loop 0's thread, or none. */
void listeners_close(struct listeners *ls);

/* Loop 0: go on accepting after a pause. */
void listeners_resume(struct service *s);

#endif
