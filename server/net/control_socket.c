#include "server/net/control_socket.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/control/commands.h"
#include "server/control/control.h"
#include "server/control/unix_socket.h"
#include "server/net/log.h"
#include "server/net/service.h"

struct control_conn {
	struct control_socket *socket;
	struct control_peer peer;
	struct bufferevent *bev;
	size_t searched;   /* bytes of the input that hold no newline */
	bool closing;      /* once all is sent */
	bool stop;         /* and then the server is to stop */
	struct control_later *later; /* a call waits: */
	uint64_t removing; /* until the export with this serial has gone; or, if 0, */
	unsigned ticket;   /* for the configuration to be loaded: of that call */
	TAILQ_ENTRY(control_conn) link;
};

struct control_socket {
	struct service *service;
	struct control control;
	char *path;
	dev_t dev;
	ino_t ino;
	int fd;
	struct event event;
	bool accepting;
	unsigned nconns;
	TAILQ_HEAD(, control_conn) conns;
};

/* ---- one connection ---- */

static void set_accepting(struct control_socket *cs)
{
	bool yes = cs->fd >= 0 && cs->nconns < CONTROL_CONNECTIONS;

	if (yes && !cs->accepting)
		cs->accepting = !event_add(&cs->event, NULL);
	if (!yes && cs->accepting) {
		event_del(&cs->event);
		cs->accepting = false;
	}
}

static void drop(struct control_conn *c)
{
	struct control_socket *cs = c->socket;
	bool stop = c->stop;

	TAILQ_REMOVE(&cs->conns, c, link);
	cs->nconns--;
	bufferevent_free(c->bev);
	control_peer_free(&c->peer);
	control_later_free(c->later);
	free(c);
	set_accepting(cs);
	if (stop)
		server_request_stop(&cs->service->server);
}

/* Send a reply, which is freed. */
static void answer(struct control_conn *c, struct control_reply *reply)
{
	if (reply->text && bufferevent_write(c->bev, reply->text, reply->len))
		c->closing = true;
	free(reply->text);
	if (reply->later) {
		c->later = reply->later;
		c->removing = reply->removing;
		if (!c->removing)
			c->ticket = service_request_reload(c->socket->service);
	}
	if (reply->stop)
		c->stop = c->closing = true;
}

/* Nothing is read until the answers are; then either on with the next line, or away. */
static void wait_for_output(struct control_conn *c)
{
	bufferevent_disable(c->bev, EV_READ);
	bufferevent_enable(c->bev, EV_WRITE);
}

/* Executes the first line of the input, if it is whole. */
static bool next_line(struct control_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	size_t have = evbuffer_get_length(in), len;
	struct control_reply reply = { .text = NULL };
	struct evbuffer_ptr from, end;
	char *line;

	evbuffer_ptr_set(in, &from, c->searched, EVBUFFER_PTR_SET);
	end = evbuffer_search_eol(in, &from, NULL, EVBUFFER_EOL_LF);
	c->searched = have;
	if (end.pos > COMMAND_LINE_MAX || (end.pos < 0 && have > COMMAND_LINE_MAX)) {
		control_too_long(&reply);
		c->closing = true;
	} else if (end.pos < 0) {
		return false;
	} else {
		len = (size_t)end.pos;
		line = (char *)evbuffer_pullup(in, (ev_ssize_t)len + 1);
		if (!line) {
			c->closing = true;
			return true;
		}
		control_handle(&c->socket->control, &c->peer, line, len, &reply);
		evbuffer_drain(in, len + 1);
		c->searched = 0;
		service_kick(c->socket->service);
	}
	answer(c, &reply);
	return true;
}

static void work(struct control_conn *c)
{
	while (!c->closing && !c->later && !evbuffer_get_length(bufferevent_get_output(c->bev)))
		if (!next_line(c))
			break;
	if (evbuffer_get_length(bufferevent_get_output(c->bev)))
		wait_for_output(c);
	else if (c->closing)
		drop(c);
	else if (c->later)
		bufferevent_disable(c->bev, EV_READ);
	else
		bufferevent_enable(c->bev, EV_READ);
}

static void on_input(struct bufferevent *bev, void *arg)
{
	(void)bev;
	work(arg);
}

static void on_sent(struct bufferevent *bev, void *arg)
{
	(void)bev;
	work(arg);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct control_conn *c = arg;

	(void)what;
	/* End of file behind a line that waits for its turn: it is still to be executed. */
	if (what & BEV_EVENT_EOF && evbuffer_get_length(bufferevent_get_output(bev)))
		c->closing = true;
	else
		drop(c);
}

void control_socket_reloaded(struct control_socket *cs, unsigned ticket,
			     const struct control_report *report)
{
	struct control_reply reply;
	struct control_conn *c, *next;

	for (c = cs ? TAILQ_FIRST(&cs->conns) : NULL; c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (!c->later || c->removing || (int)(ticket - c->ticket) < 0)
			continue;
		control_reloaded(c->later, report, &reply);
		c->later = NULL;
		answer(c, &reply);
		work(c);
	}
}

void control_socket_removed(struct control_socket *cs, uint64_t serial, const char *wrong)
{
	struct control_reply reply;
	struct control_conn *c, *next;

	for (c = cs ? TAILQ_FIRST(&cs->conns) : NULL; c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (!c->later || c->removing != serial)
			continue;
		control_removed(c->later, wrong, &reply);
		c->later = NULL;
		answer(c, &reply);
		work(c);
	}
}

/* ---- accepting ---- */

static void accept_one(struct control_socket *cs, int fd)
{
	static const struct timeval idle = { CONTROL_IDLE_S, 0 };
	struct control_conn *c = calloc(1, sizeof(*c));

	if (!c || control_peer_get(fd, &c->peer)) {
		free(c);
		close(fd);
		return;
	}
	c->socket = cs;
	c->bev = bufferevent_socket_new(cs->service->loops[0].base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->bev) {
		control_peer_free(&c->peer);
		free(c);
		close(fd);
		return;
	}
	TAILQ_INSERT_TAIL(&cs->conns, c, link);
	cs->nconns++;
	bufferevent_setcb(c->bev, on_input, on_sent, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, COMMAND_LINE_MAX + 2);
	bufferevent_set_timeouts(c->bev, &idle, &idle);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	set_accepting(cs);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct control_socket *cs = arg;
	int conn;

	(void)what;
	while (cs->accepting) {
		conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (conn < 0)
			return;
		accept_one(cs, conn);
	}
}

/* ---- opening and closing ---- */

/* path NULL: its file is not ours. fd is closed on failure. */
static int make(struct service *s, int fd, const char *path, struct control_socket **out, char *err,
		size_t errlen)
{
	struct control_socket *cs = calloc(1, sizeof(*cs));
	struct stat st;

	if (!cs || (path && !(cs->path = strdup(path)))) {
		free(cs);
		close(fd);
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	cs->service = s;
	cs->fd = fd;
	TAILQ_INIT(&cs->conns);
	if (path && !lstat(path, &st)) {
		cs->dev = st.st_dev;
		cs->ino = st.st_ino;
	}
	*out = cs;
	return 0;
}

int control_socket_open(struct service *s, const char *path, struct control_socket **out, char *err,
			size_t errlen)
{
	int fd = unix_socket(path, 0660, err, errlen);

	return fd < 0 ? fd : make(s, fd, path, out, err, errlen);
}

int control_socket_passed(struct service *s, int fd, struct control_socket **out, char *err,
			  size_t errlen)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK)) {
		snprintf(err, errlen, "cannot use the socket that systemd passes: %s",
			 strerror(errno));
		return -errno;
	}
	return make(s, fd, NULL, out, err, errlen);
}

int control_socket_chown(struct control_socket *cs, uid_t uid, gid_t gid)
{
	return cs->path && chown(cs->path, uid, gid) ? -errno : 0;
}

int control_socket_start(struct control_socket *cs, uid_t uid, gid_t gid)
{
	cs->control = (struct control){
		.server = &cs->service->server,
		.uid = uid,
		.gid = gid,
		.can_reload = cs->service->reload,
	};
	if (event_assign(&cs->event, cs->service->loops[0].base, cs->fd, EV_READ | EV_PERSIST,
			 on_accept, cs))
		return -ENOMEM;
	set_accepting(cs);
	return cs->accepting ? 0 : -ENOMEM;
}

void control_socket_close(struct control_socket *cs)
{
	struct control_conn *c;
	struct stat st;

	if (!cs)
		return;
	if (cs->accepting)
		event_del(&cs->event);
	close(cs->fd);
	cs->fd = -1;
	cs->accepting = false;
	while ((c = TAILQ_FIRST(&cs->conns))) {
		c->stop = false;
		drop(c);
	}
	if (cs->path && !lstat(cs->path, &st) && st.st_dev == cs->dev && st.st_ino == cs->ino)
		unlink(cs->path);
	free(cs->path);
	free(cs);
}
