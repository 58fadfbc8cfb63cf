/*
 * Attaching: may this peer use this export, and how; and the seats that connections have there.
 *
 * A *seat* is a connection's place at an export, from the option that asks for it until the
 * connection is gone. Seats are what export_connections, client_connections and writers count, all
 * under the disk's lock, so that two who come at once do not both get the last one. Whoever would
 * have to be refused is only after a look at the sockets of those who sit: a seat whose other end
 * has gone is free at once, even if its loop has not noticed yet.
 */
#ifndef SERVER_EXPORT_ATTACH_H
#define SERVER_EXPORT_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "server/export/client.h"

/* Whether a connection may write, and whether it is then the only one. */
struct export_use {
	bool readonly;
	bool alone;          /* it may write, and no other: writers = one */
};

struct seat {
	struct client *client;   /* a reference; NULL: it is at no export */
	struct export_use use;
	int fd;                  /* disk's lock: of its socket, to look at; -1: not known */
	bool half_closes;        /* there the end of what it sends is not its end */
	bool taken;              /* disk's lock: it counts, and is in the export's list */
	TAILQ_ENTRY(seat) link;  /* disk's lock */
};
TAILQ_HEAD(seats, seat);

/*
 * May this peer use e, and how? It takes no seat, so limits and other writers do not matter. 0; or
 * -EACCES and a sentence in err. Any thread, no lock held.
 */
int export_permits(struct export *e, const struct client_peer *peer, struct export_use *use,
		   char *err, size_t errlen);

/*
 * Take a seat at e, with the account of the peer's id; seat->fd and ->half_closes are set, the rest
 * is filled in. 0; -EACCES: not permitted; -EBUSY: a limit, or another one writes; -ENOMEM. Then
 * with a sentence in err, and without a seat. Any thread, no lock held.
 */
int export_attach(struct export *e, const struct client_peer *peer, struct seat *seat, char *err,
		  size_t errlen);

/*
 * The connection is gone: its seat is free, before its socket is closed; the account stays for
 * what is unfinished. No lock held. A seat that is free already is fine.
 */
void seat_vacate(struct seat *seat);

/* Vacate it and give the account back; nothing of the connection is unfinished. No lock held. */
void seat_free(struct seat *seat);

/*
 * Is the other end of a socket gone? Asks the kernel. half_closes: if not, the end of what it sends
 * counts as that.
 */
bool socket_is_gone(int fd, bool half_closes);

#endif
