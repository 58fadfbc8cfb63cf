/*
 * The connection of liftctl: see conn.h.
 */
#include "server/ctl/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "server/control/commands.h"

/* No answer is near this: a guard against something else that listens there. */
#define ANSWER_MAX (256u * 1024 * 1024)

/* ---- connecting ---- */

/* Why a connection failed, for people. */
static void explain(const char *path, int error, char *err, size_t errlen)
{
	struct stat st;

	if (error == ECONNREFUSED && !stat(path, &st) && !S_ISSOCK(st.st_mode))
		snprintf(err, errlen, "%s is not a socket; --socket PATH names liftd's control "
			 "socket", path);
	else if (error == ECONNREFUSED)
		snprintf(err, errlen, "nobody listens on %s: liftd is not running (any more); "
			 "start it, or name its control socket with --socket PATH", path);
	else if (error == ENOENT || error == ENOTDIR)
		snprintf(err, errlen, "no control socket at %s: start liftd, or name its control "
			 "socket with --socket PATH", path);
	else if (error == EACCES || error == EPERM)
		snprintf(err, errlen, "permission denied on %s: be root, the user that liftd runs "
			 "as, or a member of its group", path);
	else if (error == EAGAIN)
		snprintf(err, errlen, "%s is there, but liftd does not take connections", path);
	else if (error == EPROTOTYPE)
		snprintf(err, errlen, "%s is a socket of another kind, not liftd's control socket",
			 path);
	else if (error == ENAMETOOLONG)
		snprintf(err, errlen, "the path %s is too long for a socket: at most 107 bytes",
			 path);
	else
		snprintf(err, errlen, "cannot connect to %s: %s", path, strerror(error));
}

/* 0 or an errno. */
static int try_path(struct ctl_conn *c, const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = c->timeout };
	int error;

	if (!*path)
		return ENOENT;
	if (strlen(path) >= sizeof(addr.sun_path))
		return ENAMETOOLONG;
	memcpy(addr.sun_path, path, strlen(path) + 1);
	memcpy(c->path, addr.sun_path, sizeof(addr.sun_path));
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return errno;
	/* For a Unix socket this bounds connect as well: it waits while the backlog is full. */
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return 0;
	error = errno;
	ctl_close(c);
	return error;
}

int ctl_connect(struct ctl_conn *c, const char *path, int timeout, char *err, size_t errlen)
{
	char place[sizeof(c->path)], tried[4 * sizeof(place)] = "";
	int error, worst = ENOENT, r;
	size_t used = 0;

	*c = (struct ctl_conn){ .fd = -1, .timeout = timeout };
	if (path) {
		error = try_path(c, path);
		if (error)
			explain(path, error, err, errlen);
		return error ? -1 : 0;
	}
	for (unsigned i = 0; (r = command_socket_path(i, place, sizeof(place))) != -ENOENT; i++) {
		error = r ? -r : try_path(c, place);
		if (!error)
			return 0;
		used += snprintf(tried + used, sizeof(tried) - used, "%s%s", used ? ", " : "",
				 place);
		/* The first place where there is something says more than those with nothing. */
		if (error != ENOENT && worst == ENOENT) {
			worst = error;
			explain(place, error, err, errlen);
		}
	}
	if (worst == ENOENT)
		snprintf(err, errlen, "no control socket at %s: start liftd, or name its control "
			 "socket with --socket PATH", tried);
	return -1;
}

void ctl_close(struct ctl_conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* ---- a call ---- */

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Waits until the socket is ready. 0, or -1 with errno, ETIME if it is not by then. */
static int wait_until(const struct ctl_conn *c, short events, long long deadline)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	long long left;
	int r;

	do {
		left = deadline - now_ms();
		r = poll(&p, 1, left > 0 ? (int)left : 0);
	} while (r < 0 && errno == EINTR);
	if (!r)
		errno = ETIME;
	return r > 0 ? 0 : -1;
}

/* The server may answer and close before it has read all of a line too long: no error then. */
static int send_line(const struct ctl_conn *c, const char *line, size_t len)
{
	long long deadline = now_ms() + c->timeout * 1000LL;
	ssize_t n;

	while (len) {
		if (wait_until(c, POLLOUT, deadline))
			return -1;
		n = send(c->fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (n > 0) {
			line += n;
			len -= n;
		}
	}
	return 0;
}

/* The answer's line into *buf, grown as needed. Returns its length, or -1 with errno; 0: closed. */
static ssize_t receive_line(const struct ctl_conn *c, char **buf)
{
	long long deadline = now_ms() + c->timeout * 1000LL;
	size_t used = 0, room = 0;
	char *newline, *more;
	ssize_t n;

	for (;;) {
		if (used + 1 >= room) {
			room = room ? 2 * room : 65536;
			more = room <= ANSWER_MAX ? realloc(*buf, room) : NULL;
			if (!more) {
				errno = ENOMEM;
				return -1;
			}
			*buf = more;
		}
		if (wait_until(c, POLLIN, deadline))
			return -1;
		n = recv(c->fd, *buf + used, room - 1 - used, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return n < 0 && errno != ECONNRESET ? -1 : 0;
		newline = memchr(*buf + used, '\n', n);
		used += n;
		if (newline) {
			*newline = '\0';
			return newline - *buf;
		}
	}
}

int ctl_call(struct ctl_conn *c, const char *line, size_t len, char **answer, size_t *answer_len,
	     char *err, size_t errlen)
{
	ssize_t n = -1;

	*answer = NULL;
	if (!send_line(c, line, len))
		n = receive_line(c, answer);
	if (n > 0) {
		*answer_len = n;
		return 0;
	}
	if (n < 0 && errno == ETIME)
		snprintf(err, errlen, "liftd did not answer on %s within %d s", c->path,
			 c->timeout);
	else if (n < 0)
		snprintf(err, errlen, "talking to liftd on %s failed: %s", c->path,
			 strerror(errno));
	else
		snprintf(err, errlen, "liftd closed %s without an answer: it is stopping, or "
			 "something else listens there", c->path);
	free(*answer);
	*answer = NULL;
	return -1;
}
