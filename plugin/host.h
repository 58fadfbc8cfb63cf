/*
 * The plugin's one thread of its own: it serves the control socket, and once a second it does what
 * a server has to do then (server_tick).
 *
 * Whoever connects is limited as in liftd: CONTROL_CONNECTIONS of them, lines of COMMAND_LINE_MAX
 * bytes, one line at a time, CONTROL_IDLE_S seconds without a line, and who does not read its
 * answers is not read from.
 */
#ifndef PLUGIN_HOST_H
#define PLUGIN_HOST_H

#include <stddef.h>

#include "plugin/gate.h"

struct host;

/*
 * Open the control socket at this path (absolute, because the thread may run elsewhere; NULL:
 * none). 0, or a negative errno and a sentence in err. Before nbdkit forks.
 */
int host_open(struct gate *gate, const char *path, struct host **out, char *err, size_t errlen);

/* Start the thread. 0 or a negative errno. After nbdkit has forked. */
int host_start(struct host *h);

/* End the thread, if there is one, drop all connections, remove the socket. NULL is fine. */
void host_close(struct host *h);

#endif
