/* Unix sockets that listen: the control socket, and those for clients. */
#ifndef SERVER_CONTROL_UNIX_SOCKET_H
#define SERVER_CONTROL_UNIX_SOCKET_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Make one at path, with this mode, non-blocking. A stale socket is replaced; one that a running
 * server listens on is -EADDRINUSE. Returns the descriptor, or a negative errno and a sentence in
 * err.
 */
int unix_socket(const char *path, mode_t mode, char *err, size_t errlen);

#endif
