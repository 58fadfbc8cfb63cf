/*
 * The control socket: a Unix socket of mode 0660 that carries the lines of
 * server/control/control.h.
 *
 * It runs in loop 0's thread. Whoever connects is limited: CONTROL_CONNECTIONS of them, lines of
 * COMMAND_LINE_MAX bytes, one line at a time, CONTROL_IDLE_S seconds without a line, and who does
 * not read its answers is not read from.
 */
#ifndef SERVER_NET_CONTROL_SOCKET_H
#define SERVER_NET_CONTROL_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct control_report;
struct control_socket;
struct service;

/*
 * Open it, and make it the given user's and group's (-1: as it is). Missing parents of the default
 * path are made. 0, or a negative errno and a sentence in err. Main thread.
 */
int control_socket_open(struct service *s, const char *path, struct control_socket **out, char *err,
			size_t errlen);

/* The same with a Unix socket that listens already. It is owned, its file is not. */
int control_socket_passed(struct service *s, int fd, struct control_socket **out, char *err,
			  size_t errlen);

/*
 * Who the server is once it has given up its privileges; the socket's file goes to them. Main
 * thread.
 */
int control_socket_chown(struct control_socket *cs, uid_t uid, gid_t gid);

/* Begin to accept, on loop 0's base. Main thread, before that thread runs. */
int control_socket_start(struct control_socket *cs, uid_t uid, gid_t gid);

/* The configuration was loaded: answers the calls up to this ticket. Loop 0's thread. NULL is fine.
 */
void control_socket_reloaded(struct control_socket *cs, unsigned ticket,
			     const struct control_report *report);

/*
 * The export with this serial number has gone: answers the calls that wait for it. wrong: a
 * sentence about what went wrong, or NULL. Loop 0's thread. NULL is fine.
 */
void control_socket_removed(struct control_socket *cs, uint64_t serial, const char *wrong);

/* Accept no more, drop all connections, remove the file. Loop 0's thread, or none. NULL is fine. */
void control_socket_close(struct control_socket *cs);

#endif
