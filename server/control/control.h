/*
 * The control protocol: JSON-RPC 2.0 with named parameters, one object a line, as pure code: a line
 * in, a line out. The sockets are server/net's; the methods are those of server/control/commands.h.
 *
 * Whoever may connect is not trusted: lines may hold anything and are bounded in length by the
 * caller (COMMAND_LINE_MAX), in depth and number of values here.
 *
 *   no JSON (cut off, not UTF-8, a NUL, too deep, a key twice)     -32700, id null
 *   no request (batch, no method, unknown members, wrong types)    -32600
 *   no such method, or it is not possible here                     -32601
 *   a parameter or setting: unknown, missing, wrong               -32602, data {name,value,allowed}
 *   out of memory                                                  -32603
 *   no such export, no such client, not permitted                  -32001, -32002, -32003
 *   the configuration cannot be loaded                             -32004, data {errors}
 *   an export is removed, but its last flush failed                -32005
 *   the server stops                                               -32006
 *
 * A request without an id (a notification) is executed and never answered, unless it is no request.
 */
#ifndef SERVER_CONTROL_CONTROL_H
#define SERVER_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct server;

/* What whoever has the socket allows: so many connections, so long without a line. */
enum { CONTROL_CONNECTIONS = 64, CONTROL_IDLE_S = 300 };

enum control_error {
	CONTROL_NO_JSON = -32700,
	CONTROL_NO_REQUEST = -32600,
	CONTROL_NO_METHOD = -32601,
	CONTROL_BAD_PARAMS = -32602,
	CONTROL_INTERNAL = -32603,
	CONTROL_NO_EXPORT = -32001,
	CONTROL_NO_CLIENT = -32002,
	CONTROL_NOT_PERMITTED = -32003,
	CONTROL_NO_CONFIG = -32004,
	CONTROL_NOT_FLUSHED = -32005,
	CONTROL_STOPPING = -32006,
};

/* Constant while the server runs. */
struct control {
	struct server *server;
	uid_t uid; /* the server's own, after it gave up root: may change things, as root may */
	gid_t gid; /* its group: may read */
	bool can_reload; /* there is a configuration to load again */
};

/* Who is at the other end. groups: the primary one first, then the others; owned by it. */
struct control_peer {
	uid_t uid;
	gid_t *groups;
	unsigned ngroups;
};

/*
 * Ask the kernel who connected to this Unix socket. 0, or a negative errno and nothing to free. A
 * peer whose supplementary groups the kernel does not tell has its primary one alone.
 */
int control_peer_get(int fd, struct control_peer *peer);
void control_peer_free(struct control_peer *peer);

/* A call that is answered later. */
struct control_later;

/* What to do now: send text (len bytes, ends with a newline; NULL: nothing), free it, then stop. */
struct control_reply {
	char *text;
	size_t len;
	bool stop; /* once text is sent, or cannot be: server_request_stop */
	struct control_later *later; /* no text: have the configuration loaded, control_reloaded; */
	uint64_t removing; /* or, if not 0, wait until this export has gone, control_removed */
};

/*
 * Execute one line (without its newline; it need not be terminated) for this peer. Always fills
 * *out; if memory for a reply cannot be had, with no text although one is due. Any thread, no lock
 * held; takes the locks of server/export/export.h for bounded pieces of work.
 */
void control_handle(const struct control *c, const struct control_peer *peer, const char *line,
		    size_t len, struct control_reply *out);

/* ---- loading the configuration again ---- */

struct control_line {
	char *text;
	STAILQ_ENTRY(control_line) link;
};
STAILQ_HEAD(control_lines, control_line);

/* What it came to, in lines for people. With errors, nothing was changed. */
struct control_report {
	struct control_lines changed, restart, errors;
	bool no_memory; /* lines are missing */
};

void control_report_init(struct control_report *r);
void control_report_free(struct control_report *r);

/* Add a line to one of the report's lists. */
void control_report_add(struct control_report *r, struct control_lines *to, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Nothing was changed after all: only the errors are left. */
void control_report_drop(struct control_report *r);

/* The answer to a call that waited for this; *later is freed. As control_handle. */
void control_reloaded(struct control_later *later, const struct control_report *r,
		      struct control_reply *out);

/*
 * The answer to a call that waited for an export to go; *later is freed. wrong: a sentence about
 * what went wrong with that, or NULL.
 */
void control_removed(struct control_later *later, const char *wrong, struct control_reply *out);

/* Nobody waits any longer. NULL is fine. */
void control_later_free(struct control_later *later);

/*
 * The answer to a line that is longer than COMMAND_LINE_MAX: send it, then close, or go on after
 * the line's end.
 */
void control_too_long(struct control_reply *out);

#endif
