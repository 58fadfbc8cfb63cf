/*
 * Socket activation: sockets that systemd has opened, and passes by name. A name takes the place of
 * the setting of this name: what is passed as `listen` or `unix` (either serves clients, on
 * whatever kind of socket) is used instead of what the settings listen and unix say, `control`
 * instead of the control socket.
 */
#ifndef SERVER_NET_ACTIVATION_H
#define SERVER_NET_ACTIVATION_H

#include <stdbool.h>
#include <stddef.h>

struct service;

/* What was passed. */
struct activation {
	bool listen, unix_sockets, control;
};

/*
 * Takes all sockets that were passed into use. 0, also if there are none; -EINVAL with a sentence
 * in err: a name or a socket that is of no use, or what is passed takes the place of a setting with
 * words that keep clients out; another negative errno. Main thread, once.
 */
int activation_take(struct service *s, struct activation *a, char *err, size_t errlen);

#endif
