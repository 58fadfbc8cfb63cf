#include "server/net/conn.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "server/net/log.h"
#include "server/net/removal.h"
#include "server/net/service.h"

/* ---- requests ---- */

struct request *request_new(struct conn *c)
{
	struct loop *loop = c->loop;
	struct elv_request *rq = TAILQ_FIRST(&loop->free_requests);
	struct request *r;

	if (rq) {
		TAILQ_REMOVE(&loop->free_requests, rq, link);
		loop->nfree--;
		r = request_of(rq);
	} else {
		size_t size = (sizeof(*r) + ELV_REQUEST_ALIGN - 1) / ELV_REQUEST_ALIGN;

		r = aligned_alloc(ELV_REQUEST_ALIGN, size * ELV_REQUEST_ALIGN);
		if (!r)
			return NULL;
	}
	r->elv.conn = &c->elv;
	r->elv.data = NULL;
	r->conn = c;
	r->length = r->payload = r->reserved = 0;
	r->answer = NBD_SUCCESS;
	r->reason = NULL;
	r->split = NULL;
	r->spans = NULL;
	r->invalid = r->unanswered = false;
	c->outstanding++;
	return r;
}

void request_free(struct request *r)
{
	struct loop *loop = r->conn->loop;

	pool_put(&loop->pool, r->elv.data, r->length);
	free(r->spans);
	assert(r->conn->outstanding);
	r->conn->outstanding--;
	if (loop->nfree >= LOOP_FREE_REQUESTS) {
		free(r);
		return;
	}
	TAILQ_INSERT_HEAD(&loop->free_requests, &r->elv, link);
	loop->nfree++;
}

void request_trim(struct loop *loop)
{
	struct elv_request *rq;

	while ((rq = TAILQ_FIRST(&loop->free_requests))) {
		TAILQ_REMOVE(&loop->free_requests, rq, link);
		free(request_of(rq));
	}
	loop->nfree = 0;
}

/* ---- what libevent tells ---- */

/*
 * Edge-triggered: an event says that something new has come; `readable` remembers it until a read
 * has found the socket empty. So pausing and going on cost no system call, and a connection that
 * is not read is still told when the other end goes away.
 */
static void on_read(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	c->readable = c->noticed = true;
	if (what & EV_CLOSED)
		c->hung_up = true;
	conn_ready(c);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	c->watches_write = false;
	if (c->state == CONN_HANDSHAKE) {
		conn_ready(c);
	} else if (!c->in_replying) {
		c->in_replying = true;
		TAILQ_INSERT_TAIL(&c->loop->replying, c, reply_link);
	}
}

ssize_t conn_readv(struct conn *c, struct iovec *iov, int n)
{
	ssize_t got;

	if (!c->tls)
		return readv(c->fd, iov, n);
	got = tls_readv(c->tls, iov, n);
	if (tls_at_end(c->tls))
		c->hung_up = true; /* the next read says so, and no event will */
	return got;
}

ssize_t conn_sendv(struct conn *c, struct iovec *iov, int n)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)n };

	if (c->tls)
		return tls_sendv(c->tls, iov, n, c->loop->stage);
	return sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool conn_peer_is_gone(const struct conn *c)
{
	return c->fd < 0 || socket_is_gone(c->fd, c->half_closes);
}

/* ---- from the first byte to the export ---- */

static void on_granted(struct budget_waiter *w)
{
	struct conn *c = (struct conn *)((char *)w - offsetof(struct conn, waiter));

	loop_give_granted(c->loop, c);
}

static struct conn *conn_alloc(struct loop *loop, struct arrival *a)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->loop = loop;
	c->fd = a->fd;
	c->serial = a->peer.serial;
	c->half_closes = a->peer.kind == PEER_UNIX;
	c->state = CONN_HANDSHAKE;
	c->payload_since = loop->now;
	TAILQ_INIT(&c->replies);
	budget_waiter_init(&c->waiter, on_granted);
	if (handshake_begin(c, a) ||
	    event_assign(&c->read_event, loop->base, c->fd,
			 EV_READ | EV_CLOSED | EV_ET | EV_PERSIST, on_read, c) ||
	    event_assign(&c->write_event, loop->base, c->fd, EV_WRITE | EV_ET, on_write, c) ||
	    event_add(&c->read_event, NULL)) {
		handshake_free(c);
		free(c);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&loop->conns, c, link);
	TAILQ_INSERT_TAIL(&loop->handshakes, c, since_link);
	return c;
}

void conn_new(struct loop *loop, struct arrival *a)
{
	struct conn *c = loop->draining ? NULL : conn_alloc(loop, a);

	if (!c) {
		if (!loop->draining)
			log_warning("connection %llu: out of memory",
				    (unsigned long long)a->peer.serial);
		close(a->fd);
		service_connection_closed(loop);
		service_connection_gone(loop);
	} else {
		conn_ready(c);
	}
	client_peer_free(&a->peer);
	free(a);
}

bool conn_start(struct conn *c, const struct nbd_export_info *info)
{
	struct export *e = info->export;

	c->export = e;
	c->limits = info->limits;
	c->client = c->seat.client;
	TAILQ_REMOVE(&c->loop->handshakes, c, since_link);
	c->state = CONN_OPEN;
	if (export_is_going(e)) {
		/* Its departure is on its way to this loop. */
		conn_kill(c, "the export is being removed");
		return false;
	}
	c->disk = loop_disk(c->loop, e->disk);
	if (!c->disk) {
		conn_kill(c, "out of memory");
		return false;
	}
	disk_lock(e->disk);
	elv_conn_open(&c->elv, &c->client->elv);
	e->connections++;
	e->connections_total++;
	disk_unlock(e->disk);
	c->attached = true;
	log_debug("connection %llu: %s uses export '%s'", (unsigned long long)c->serial,
		  c->client->identity->id, e->name);
	handshake_free(c);
	return true;
}

/* ---- going on ---- */

void conn_ready(struct conn *c)
{
	if (c->in_ready || c->state == CONN_DEAD)
		return;
	c->in_ready = true;
	TAILQ_INSERT_TAIL(&c->loop->ready, c, ready_link);
}

bool conn_may_read(const struct conn *c)
{
	return c->state == CONN_OPEN && !c->rest && !c->waiting && c->nreplies < CONN_MAX_UNSENT;
}

/*
 * Something happened at the socket. If the other end has gone, what it had sent and nobody has
 * read yet was never received: that of a client which was killed could come after what the next
 * one writes. Unless it ends with DISC: then it is to be carried out.
 */
static bool look_for_peer(struct conn *c)
{
	c->noticed = false;
	if (c->disconnected || c->says_disc || (conn_may_read(c) && !c->hung_up) ||
	    !conn_peer_is_gone(c))
		return true;
	if (c->state == CONN_OPEN && conn_last_words(c))
		return true;
	conn_kill(c, "the client is gone");
	return false;
}

void conn_work(struct conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	if (c->state == CONN_HANDSHAKE) {
		handshake_work(c);
		return;
	}
	if (c->noticed && !look_for_peer(c))
		return;
	if (c->waiting && budget_accept(&c->waiter)) {
		c->waiting = false;
		c->reserved = true;
	}
	if (c->rest && !c->waiting && c->nreplies < CONN_MAX_UNSENT)
		conn_parse_rest(c);
	if (conn_may_read(c) && c->readable)
		conn_receive(c);
	if (c->state != CONN_DEAD)
		conn_settle(c);
}

/* ---- the end ---- */

void conn_end(struct conn *c)
{
	assert(c->state == CONN_OPEN);
	c->state = CONN_ENDING;
	conn_drop_payload(c);
}

static void conn_free(struct conn *c)
{
	struct loop *loop = c->loop;

	TAILQ_REMOVE(&loop->conns, c, link);
	if (c->departure)
		TAILQ_REMOVE(&c->departure->conns, c, departure_link);
	seat_free(&c->seat);
	export_put(c->export);
	secure_free(c);
	service_connection_gone(loop);
	free(c);
}

/*
 * A TCP socket that is closed with something unread resets its connection, and answers that are
 * still under way are lost. What nobody is going to read is thrown away before, as far as it goes.
 */
static void discard_unread(const struct conn *c)
{
	enum { READS = 64 };

	if (c->half_closes || c->fd < 0 || c->broken)
		return;
	for (unsigned i = 0; i < READS; i++)
		if (recv(c->fd, c->loop->scratch, LOOP_SCRATCH, MSG_DONTWAIT | MSG_TRUNC) <= 0)
			break;
}

void conn_settle(struct conn *c)
{
	if (c->outstanding)
		return;
	if (c->state == CONN_ENDING && !c->rest && !c->waiting) {
		discard_unread(c);
		conn_kill(c, NULL);
	} else if (c->state == CONN_DEAD && !c->attached) {
		conn_free(c);
	}
}

/*
 * Has the other end read all that was sent to it? A socket that is closed with something unread
 * tells its peer so, by an error; what is under way yet nobody has read.
 */
static bool was_heard(const struct conn *c)
{
	socklen_t len = sizeof(int);
	int error = 0, unread = 0;

	if (c->broken || c->outstanding || c->fd < 0)
		return false;
	return !getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) && !error &&
		!ioctl(c->fd, SIOCOUTQ, &unread) && !unread;
}

void conn_close_socket(struct conn *c)
{
	if (c->fd < 0)
		return;
	event_del(&c->read_event);
	event_del(&c->write_event);
	if (c->shaking) {
		/* A worker uses it: it will find the end, and then the socket is closed. */
		shutdown(c->fd, SHUT_RDWR);
		return;
	}
	if (c->tls && !c->broken)
		secure_end(c);
	close(c->fd);
	c->fd = -1;
	service_connection_closed(c->loop);
}

/* The first request of `rest`, which will not be looked at. */
static void give_back_reserved(struct conn *c)
{
	struct budget_account *a = &c->client->budget;

	budget_lock(a->budget);
	budget_slot(a, c->waiter.need.dir);
	budget_end(a, c->waiter.need.bytes, BUDGET_WITHDRAWN);
	budget_unlock(a->budget);
	c->reserved = false;
}

void conn_kill(struct conn *c, const char *why)
{
	struct loop *loop = c->loop;

	assert(c->state != CONN_DEAD);
	if (why)
		log_debug("connection %llu: closed: %s", (unsigned long long)c->serial, why);
	conn_drop_payload(c);
	if (c->state == CONN_HANDSHAKE)
		TAILQ_REMOVE(&loop->handshakes, c, since_link);
	handshake_free(c);
	c->state = CONN_DEAD;
	c->heard = was_heard(c);
	seat_vacate(&c->seat);
	conn_close_socket(c);
	if (c->reserved)
		give_back_reserved(c);
	budget_cancel(&c->waiter);
	loop_forget_granted(loop, c);
	c->waiting = false;
	free(c->rest);
	c->rest = NULL;
	if (c->split)
		split_drop(c->split);
	c->split = NULL;
	reply_drop_all(c);
	if (c->in_ready)
		TAILQ_REMOVE(&loop->ready, c, ready_link);
	if (c->in_replying)
		TAILQ_REMOVE(&loop->replying, c, reply_link);
	c->in_ready = c->in_replying = false;
	if (c->attached) {
		/* Not at once: requests of it may be on their way into the elevator. */
		TAILQ_INSERT_TAIL(&c->disk->closing, c, closing_link);
		loop_disk_busy(loop, c->disk);
		loop->again = true;
	} else if (!c->outstanding) {
		conn_free(c);
	}
}

void conn_drain(struct conn *c)
{
	switch (c->state) {
	case CONN_HANDSHAKE:
		conn_kill(c, "the server stops");
		break;
	case CONN_OPEN:
		conn_end(c);
		conn_settle(c);
		break;
	case CONN_ENDING:
	case CONN_DEAD:
		break;
	}
}

void conn_dismiss(struct conn *c, enum client_end how)
{
	if (how == CLIENT_DRAIN)
		conn_drain(c);
	else if (c->state != CONN_DEAD)
		conn_kill(c, "disconnected on request");
}

/* ---- time-outs ---- */

/* Close the connections of a list, oldest first, that have been there for too long. */
static uint64_t expire(struct loop *loop, struct conn_list *list, uint64_t timeout, bool unread,
		       const char *why)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(list))) {
		uint64_t due = (unread ? c->unread_since : c->payload_since) + timeout;

		if (due > loop->now)
			return due;
		conn_kill(c, why);
	}
	return ELV_NEVER;
}

uint64_t conn_timeouts(struct loop *loop)
{
	const struct server_params *p = &loop->server->params;
	uint64_t stall = server_param(&p->stall_timeout), next, when;

	next = expire(loop, &loop->handshakes, server_param(&p->handshake_timeout), false,
		      "handshake_timeout");
	when = expire(loop, &loop->payloads, stall, false,
		      "stall_timeout: a payload is not complete");
	next = when < next ? when : next;
	when = expire(loop, &loop->unread, stall, true,
		      "stall_timeout: replies are not read");
	return when < next ? when : next;
}
