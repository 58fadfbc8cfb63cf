/*
 * From finished requests back to the socket: simple replies, data by reference, as many at once as
 * fit.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "server/net/conn.h"

/* More is not offered to a socket at once: it would not take it. */
enum { MAX_SEND = 4 << 20 };

/* Nobody will read this answer. */
static void drop(struct conn *c, struct request *r)
{
	r->unanswered = true;
	TAILQ_INSERT_TAIL(&c->loop->spent, &r->elv, link);
	c->loop->again = true;
}

void reply_add(struct request *r)
{
	struct conn *c = r->conn;
	struct loop *loop = c->loop;

	if (!r->invalid && r->elv.error) {
		struct nbd_request rq = { .command = r->command, .flags = r->flags };

		r->answer = nbd_error_from_errno(r->elv.error, &rq);
	}
	if (r->elv.op != ELV_READ || r->answer != NBD_SUCCESS) {
		pool_put(&loop->pool, r->elv.data, r->length);
		r->elv.data = NULL;
		r->length = 0;
	}
	if (c->state == CONN_DEAD || c->mute) {
		drop(c, r);
		return;
	}
	TAILQ_INSERT_TAIL(&c->replies, &r->elv, link);
	c->nreplies++;
	if (!c->in_replying) {
		c->in_replying = true;
		TAILQ_INSERT_TAIL(&loop->replying, c, reply_link);
	}
}

static void unwatch(struct conn *c)
{
	if (!c->watches_write)
		return;
	event_del(&c->write_event);
	c->watches_write = false;
}

static void set_unread(struct conn *c, bool unread)
{
	struct loop *loop = c->loop;

	if (c->unread_since)
		TAILQ_REMOVE(&loop->unread, c, unread_link);
	c->unread_since = unread ? loop->now : 0;
	if (unread)
		TAILQ_INSERT_TAIL(&loop->unread, c, unread_link);
}

void reply_drop_all(struct conn *c)
{
	struct elv_request *rq;

	while ((rq = TAILQ_FIRST(&c->replies))) {
		TAILQ_REMOVE(&c->replies, rq, link);
		drop(c, request_of(rq));
	}
	c->nreplies = 0;
	c->sent = 0;
	set_unread(c, false);
}

/*
 * Add bytes to the loop's iov; what follows the last piece in memory, headers mostly, makes it
 * longer.
 */
static int add_piece(struct iovec *iov, int n, void *base, size_t len)
{
	if (n && (char *)iov[n - 1].iov_base + iov[n - 1].iov_len == base) {
		iov[n - 1].iov_len += len;
		return n;
	}
	iov[n].iov_base = base;
	iov[n].iov_len = len;
	return n + 1;
}

/* Point the loop's iov at what is unsent. Returns the number of pieces; *bytes: their sum. */
static int gather(struct conn *c, size_t *bytes)
{
	struct loop *loop = c->loop;
	struct elv_request *rq;
	size_t skip = c->sent;
	unsigned header = 0;
	int n = 0;

	*bytes = 0;
	TAILQ_FOREACH(rq, &c->replies, link) {
		struct request *r = request_of(rq);
		uint8_t *h = loop->headers[header];

		if (n + 2 > LOOP_IOV || ++header > LOOP_IOV || *bytes > MAX_SEND)
			break;
		if (skip < NBD_SIMPLE_REPLY_SIZE) {
			nbd_encode_simple_reply(h, r->answer, r->cookie);
			n = add_piece(loop->iov, n, h + skip, NBD_SIMPLE_REPLY_SIZE - skip);
			*bytes += NBD_SIMPLE_REPLY_SIZE - skip;
			skip = 0;
		} else {
			skip -= NBD_SIMPLE_REPLY_SIZE;
		}
		if (r->length) {
			n = add_piece(loop->iov, n, r->elv.data + skip, r->length - skip);
			*bytes += r->length - skip;
		}
		skip = 0;
	}
	return n;
}

/* n bytes have left: the replies that are whole are spent. */
static void advance(struct conn *c, size_t n)
{
	struct elv_request *rq;

	c->sent += n;
	while ((rq = TAILQ_FIRST(&c->replies))) {
		size_t size = NBD_SIMPLE_REPLY_SIZE + request_of(rq)->length;

		if (c->sent < size)
			return;
		c->sent -= size;
		TAILQ_REMOVE(&c->replies, rq, link);
		c->nreplies--;
		TAILQ_INSERT_TAIL(&c->loop->spent, rq, link);
		set_unread(c, false); /* the next one begins its own time */
	}
}

static void send_failed(struct conn *c, int error)
{
	c->broken = true;
	if (!c->disconnected && !c->says_disc && (c->state != CONN_OPEN || !conn_last_words(c))) {
		conn_kill(c, strerror(error));
		return;
	}
	/* It said DISC: all it had sent is carried out, even if it does not want to know. */
	c->mute = true;
	unwatch(c);
	reply_drop_all(c);
	conn_ready(c);
}

void reply_send(struct conn *c)
{
	struct msghdr msg = { .msg_iov = c->loop->iov };
	unsigned before = c->nreplies;
	size_t bytes;
	ssize_t n;

	if (c->watches_write)
		return;
	while (c->nreplies) {
		msg.msg_iovlen = (size_t)gather(c, &bytes);
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			send_failed(c, errno);
			return;
		}
		if (n > 0)
			advance(c, (size_t)n);
		if (n == (ssize_t)bytes)
			continue;
		if (!c->unread_since)
			set_unread(c, true);
		if (event_add(&c->write_event, NULL)) {
			conn_kill(c, "out of memory");
			return;
		}
		c->watches_write = true;
		break;
	}
	if (before >= CONN_MAX_UNSENT && c->nreplies < CONN_MAX_UNSENT)
		conn_ready(c);
}
