#include "plugin/host.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/control/commands.h"
#include "server/control/control.h"
#include "server/control/unix_socket.h"

enum { TICK_MS = 1000, FIRST_ROOM = 4096, MOST_ROOM = COMMAND_LINE_MAX + 2 };

struct host_conn {
	int fd;
	struct control_peer peer;
	char *in;              /* `have` bytes of `room`; the first `searched` hold no newline */
	size_t have, room, searched;
	char *out;             /* the answer that is being sent; NULL: none */
	size_t len, sent;
	bool ended;            /* the other end sends no more */
	bool closing;          /* once all is sent */
	bool stop;             /* and then the server is to stop */
	uint64_t active;       /* ms: something was read or sent */
	TAILQ_ENTRY(host_conn) link;
};

struct host {
	struct gate *gate;
	struct control control;
	char *path;
	dev_t dev;
	ino_t ino;
	int fd;                /* listens; -1: no control socket */
	int quit_fd;           /* readable: the thread is to end */
	bool resting;          /* nobody can be accepted now: until the next tick */
	bool started;
	pthread_t thread;
	unsigned nconns;
	TAILQ_HEAD(, host_conn) conns;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- one connection ---- */

static void drop(struct host *h, struct host_conn *c)
{
	bool stop = c->stop;

	TAILQ_REMOVE(&h->conns, c, link);
	h->nconns--;
	close(c->fd);
	control_peer_free(&c->peer);
	free(c->in);
	free(c->out);
	free(c);
	if (stop)
		server_request_stop(h->control.server);
}

/* Send what there is. False: the connection is at its end. */
static bool flush(struct host_conn *c)
{
	while (c->out) {
		ssize_t n = send(c->fd, c->out + c->sent, c->len - c->sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		c->active = now_ms();
		c->sent += (size_t)n;
		if (c->sent < c->len)
			continue;
		free(c->out);
		c->out = NULL;
	}
	return !c->closing;
}

static void answer(struct host_conn *c, struct control_reply *reply)
{
	c->out = reply->text;
	c->len = reply->len;
	c->sent = 0;
	control_later_free(reply->later); /* never: there is no configuration to load again */
	if (reply->stop)
		c->stop = c->closing = true;
}

/* Execute the first line that has come, if it is whole. */
static bool next_line(struct host *h, struct host_conn *c)
{
	struct control_reply reply = { .text = NULL };
	char *end = c->have ? memchr(c->in + c->searched, '\n', c->have - c->searched) : NULL;
	size_t len = end ? (size_t)(end - c->in) : c->have;

	c->searched = c->have;
	if (len > COMMAND_LINE_MAX) {
		control_too_long(&reply);
		c->closing = true;
	} else if (!end) {
		return false;
	} else {
		control_handle(&h->control, &c->peer, c->in, len, &reply);
		c->have -= len + 1;
		memmove(c->in, end + 1, c->have);
		c->searched = 0;
		gate_kick(h->gate);
	}
	answer(c, &reply);
	return true;
}

/* Read once. False: out of memory, or an error. */
static bool receive(struct host_conn *c)
{
	ssize_t n;

	if (c->have == c->room) {
		size_t room = c->room ? 2 * c->room : FIRST_ROOM;
		char *in;

		if (room > MOST_ROOM)
			room = MOST_ROOM;
		in = realloc(c->in, room);
		if (!in)
			return false;
		c->in = in;
		c->room = room;
	}
	n = recv(c->fd, c->in + c->have, c->room - c->have, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->ended = n == 0;
	c->have += (size_t)n;
	c->active = now_ms();
	return true;
}

/* Something happened. Lines that have come are executed, also if no more will. */
static void serve(struct host *h, struct host_conn *c, short events)
{
	bool lives = true;

	if (events & POLLIN && !c->out)
		lives = receive(c);
	else if (events & (POLLERR | POLLNVAL) || (events & POLLHUP && !c->out))
		lives = false;
	while (lives) {
		lives = flush(c);
		if (!lives || c->out || !next_line(h, c))
			break;
	}
	if (!lives || (c->ended && !c->out) ||
	    now_ms() - c->active > CONTROL_IDLE_S * 1000ull)
		drop(h, c);
}

static void accept_one(struct host *h)
{
	int fd = accept4(h->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct host_conn *c;

	if (fd < 0) {
		h->resting = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c || control_peer_get(fd, &c->peer)) {
		free(c);
		close(fd);
		return;
	}
	c->fd = fd;
	c->active = now_ms();
	TAILQ_INSERT_TAIL(&h->conns, c, link);
	h->nconns++;
}

/* ---- the thread ---- */

/* What to wait for: the end, clients, then the connections in their order. */
static nfds_t fill(const struct host *h, struct pollfd *p)
{
	const struct host_conn *c;
	nfds_t n = 0;

	p[n++] = (struct pollfd){ .fd = h->quit_fd, .events = POLLIN };
	p[n++] = (struct pollfd){
		.fd = h->resting || h->nconns >= CONTROL_CONNECTIONS ? -1 : h->fd,
		.events = POLLIN,
	};
	TAILQ_FOREACH(c, &h->conns, link)
		p[n++] = (struct pollfd){ .fd = c->fd, .events = c->out ? POLLOUT : POLLIN };
	return n;
}

static void *run(void *arg)
{
	struct pollfd p[2 + CONTROL_CONNECTIONS];
	struct host_conn *c, *next;
	struct host *h = arg;
	uint64_t tick = now_ms() + TICK_MS, now;

	for (;;) {
		nfds_t n = fill(h, p), i = 2;

		now = now_ms();
		if (poll(p, n, now < tick ? (int)(tick - now) : 0) < 0 && errno != EINTR)
			return NULL;
		if (p[0].revents)
			return NULL;
		for (c = TAILQ_FIRST(&h->conns); c; c = next) {
			next = TAILQ_NEXT(c, link);
			serve(h, c, p[i++].revents);
		}
		if (p[1].revents)
			accept_one(h);
		if (now_ms() >= tick) {
			h->resting = false;
			server_tick(h->control.server);
			tick = now_ms() + TICK_MS;
		}
	}
}

/* ---- opening and closing ---- */

int host_open(struct gate *gate, const char *path, struct host **out, char *err, size_t errlen)
{
	struct host *h = calloc(1, sizeof(*h));
	struct stat st;
	int res = -ENOMEM;

	snprintf(err, errlen, "out of memory");
	if (!h)
		return res;
	TAILQ_INIT(&h->conns);
	h->gate = gate;
	h->fd = -1;
	h->control.server = gate->export->server;
	h->quit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->quit_fd < 0) {
		res = -errno;
		snprintf(err, errlen, "no eventfd: %s", strerror(errno));
		goto fail;
	}
	if (path) {
		h->fd = unix_socket(path, 0660, err, errlen);
		if (h->fd < 0) {
			res = h->fd;
			goto fail;
		}
		if (!lstat(path, &st)) {
			h->dev = st.st_dev;
			h->ino = st.st_ino;
		}
		h->path = strdup(path);
		if (!h->path)
			goto fail;
	}
	*out = h;
	return 0;
fail:
	host_close(h);
	return res;
}

int host_start(struct host *h)
{
	sigset_t all, old;
	int res;

	h->control.uid = geteuid();
	h->control.gid = getegid();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	res = pthread_create(&h->thread, NULL, run, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	h->started = !res;
	return -res;
}

void host_close(struct host *h)
{
	static const uint64_t one = 1;
	struct host_conn *c;
	struct stat st;

	if (!h)
		return;
	if (h->started && write(h->quit_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(h->thread, NULL);
	while ((c = TAILQ_FIRST(&h->conns))) {
		c->stop = false;
		drop(h, c);
	}
	if (h->fd >= 0)
		close(h->fd);
	if (h->quit_fd >= 0)
		close(h->quit_fd);
	if (h->path && !lstat(h->path, &st) && st.st_dev == h->dev && st.st_ino == h->ino)
		unlink(h->path);
	free(h->path);
	free(h);
}
