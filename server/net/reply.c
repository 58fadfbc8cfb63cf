/*
 * From finished requests back to the socket: replies, data by reference, as many at once as fit.
 *
 * A reply is one chunk, a head and maybe a body, or several. They are laid out each time that the
 * socket takes some, so that nothing of them is kept but what was read.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
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

/* ---- what a reply looks like ---- */

/* What was read is not all data: keep where there are holes. */
static void look_for_holes(struct request *r)
{
	struct nbd_span span[NBD_SPANS_MAX];
	unsigned n;

	if (r->flags & NBD_CMD_FLAG_DF)
		return;
	n = nbd_find_holes(r->elv.data, r->elv.offset, r->length, span);
	if (n == 1 && !span[0].hole)
		return;
	r->spans = malloc(n * sizeof(span[0]));
	if (!r->spans)
		return; /* then they are sent as data */
	memcpy(r->spans, span, n * sizeof(span[0]));
	r->nspans = n;
}

/* The extents that the store has found, as they are sent. Returns their size. */
static uint32_t pack_extents(struct request *r, enum nbd_mode mode)
{
	struct elv_status *status = (struct elv_status *)r->elv.data;
	uint8_t *to = (uint8_t *)status->extent;
	size_t size = nbd_extent_size(mode);

	/* In place: what is written never reaches what is still to be read. */
	for (uint32_t i = 0; i < status->n; i++) {
		struct elv_extent e = status->extent[i];

		nbd_put_extent(to + i * size, mode, e.length,
			       e.hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0);
	}
	return (uint32_t)(status->n * size);
}

/*
 * One chunk of a reply, number i; at: the offset of what it is about. Writes its head, returns the
 * head's length. *length: of what it is about; *body: of this, what follows the head.
 */
static size_t put_chunk(const struct request *r, unsigned i, uint64_t at, uint8_t *head,
			uint32_t *length, uint32_t *body)
{
	struct nbd_chunk c = {
		.cookie = r->cookie,
		.offset = r->offset,
		.mode = r->conn->limits.mode,
		.done = r->done && (!r->spans || i == r->nspans - 1),
	};

	*length = *body = r->body;
	switch ((enum reply_kind)r->kind) {
	case REPLY_SIMPLE:
		nbd_encode_simple_reply(head, r->answer, r->cookie);
		return NBD_SIMPLE_REPLY_SIZE;
	case REPLY_NONE:
		return nbd_put_none(head, &c);
	case REPLY_ERROR:
		return r->split ? nbd_put_error_at(head, &c, r->answer, r->reason, at)
				: nbd_put_error(head, &c, r->answer, r->reason);
	case REPLY_STATUS:
		return nbd_put_status(head, &c, NBD_ID_ALLOCATION,
				      ((const struct elv_status *)r->elv.data)->n);
	case REPLY_DATA:
		break;
	}
	if (r->spans)
		*length = r->spans[i].length;
	if (!r->spans || !r->spans[i].hole) {
		*body = *length;
		return nbd_put_data(head, &c, at, *length);
	}
	*body = 0;
	return nbd_put_hole(head, &c, at, *length);
}

/* Where the body of a reply with one chunk lies, or of all chunks: what was read. */
static char *body_of(const struct request *r)
{
	return r->elv.data + (r->kind == REPLY_STATUS ? sizeof(struct elv_status) : 0);
}

static unsigned chunks_of(const struct request *r)
{
	return r->spans ? r->nspans : 1;
}

static uint64_t wire_size(const struct request *r)
{
	uint8_t head[NBD_REPLY_HEAD_MAX];
	uint64_t size = 0, at = r->elv.offset;
	uint32_t length, body;

	if (r->kind == REPLY_SIMPLE)
		return NBD_SIMPLE_REPLY_SIZE + r->body;
	for (unsigned i = 0; i < chunks_of(r); i++) {
		size += put_chunk(r, i, at, head, &length, &body) + body;
		at += length;
	}
	return size;
}

static bool is_success(const struct request *r, uint16_t command)
{
	return r->answer == NBD_SUCCESS && r->command == command && r->elv.data;
}

/* Decide what is sent for a request that is finished. */
static void shape(struct request *r)
{
	enum nbd_mode mode = (enum nbd_mode)r->conn->limits.mode;

	r->body = 0;
	if (is_success(r, NBD_CMD_READ)) {
		r->kind = mode == NBD_MODE_SIMPLE ? REPLY_SIMPLE : REPLY_DATA;
		r->body = r->length;
		if (mode != NBD_MODE_SIMPLE)
			look_for_holes(r);
	} else if (is_success(r, NBD_CMD_BLOCK_STATUS)) {
		r->kind = REPLY_STATUS;
		r->body = pack_extents(r, mode);
	} else if (mode == NBD_MODE_SIMPLE) {
		r->kind = REPLY_SIMPLE;
	} else if (r->answer != NBD_SUCCESS) {
		r->kind = REPLY_ERROR;
	} else {
		/* What has nothing to say may be simple, but not of a READ, or with long headers. */
		r->kind = mode == NBD_MODE_EXTENDED || r->command == NBD_CMD_READ ? REPLY_NONE
										  : REPLY_SIMPLE;
	}
	r->wire = wire_size(r);
}

/* Nobody needs what is at elv.data. */
static bool is_useless(const struct request *r)
{
	if (elv_dir(r->elv.op) != ELV_DIR_READ || r->answer != NBD_SUCCESS)
		return true;
	return r->spans && r->nspans == 1; /* all zeroes */
}

static void drop_data(struct loop *loop, struct request *r)
{
	pool_put(&loop->pool, r->elv.data, r->length);
	r->elv.data = NULL;
	r->length = 0;
}

void reply_add(struct request *r)
{
	struct conn *c = r->conn;
	struct loop *loop = c->loop;

	if (!r->invalid && r->elv.error) {
		struct nbd_request rq = { .command = r->command, .flags = r->flags };

		r->answer = nbd_error_from_errno(r->elv.error, &rq);
		r->reason = strerrordesc_np(-r->elv.error);
	}
	r->done = !r->split || split_drop(r->split);
	if (c->state == CONN_DEAD || c->mute) {
		drop_data(loop, r);
		drop(c, r);
		return;
	}
	shape(r);
	if (is_useless(r))
		drop_data(loop, r);
	TAILQ_INSERT_TAIL(&c->replies, &r->elv, link);
	c->nreplies++;
	if (!c->in_replying) {
		c->in_replying = true;
		TAILQ_INSERT_TAIL(&loop->replying, c, reply_link);
	}
}

/* ---- sending ---- */

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

/* What of a reply, from `skip` bytes on, and of the loop's memory for it, is laid out. */
struct layout {
	int n;        /* pieces of the loop's iov */
	size_t heads; /* bytes of the loop's heads */
	size_t bytes; /* in all */
};

/* Add a reply but for its first `skip` bytes. False: there is no room for all of it. */
static bool lay_out(struct loop *loop, const struct request *r, size_t skip, struct layout *l)
{
	uint64_t done = 0;
	uint32_t length, body;

	for (unsigned i = 0; i < chunks_of(r); i++, done += length) {
		uint8_t *head = loop->heads + l->heads;
		size_t size, part;

		if (l->n + 2 > LOOP_IOV || l->heads + NBD_REPLY_HEAD_MAX > LOOP_HEADS)
			return false;
		size = put_chunk(r, i, r->elv.offset + done, head, &length, &body);
		part = skip < size ? skip : size;
		if (part < size) {
			l->n = add_piece(loop->iov, l->n, head + part, size - part);
			l->heads += size;
			l->bytes += size - part;
		}
		skip -= part;
		part = skip < body ? skip : body;
		if (part < body) {
			l->n = add_piece(loop->iov, l->n, body_of(r) + done + part,
					 body - part);
			l->bytes += body - part;
		}
		skip -= part;
	}
	return true;
}

/* Point the loop's iov at what is unsent. */
static struct layout gather(struct conn *c)
{
	struct loop *loop = c->loop;
	struct layout l = { 0 };
	struct elv_request *rq;
	size_t skip = c->sent;

	TAILQ_FOREACH(rq, &c->replies, link) {
		if (l.bytes > MAX_SEND || !lay_out(loop, request_of(rq), skip, &l))
			break;
		skip = 0;
	}
	return l;
}

/* n bytes have left: the replies that are whole are spent. */
static void advance(struct conn *c, size_t n)
{
	struct elv_request *rq;

	c->sent += n;
	while ((rq = TAILQ_FIRST(&c->replies))) {
		uint64_t size = request_of(rq)->wire;

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
	unsigned before = c->nreplies;
	struct layout l;
	ssize_t n;

	if (c->watches_write)
		return;
	while (c->nreplies) {
		l = gather(c);
		n = conn_sendv(c, c->loop->iov, l.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			send_failed(c, errno);
			return;
		}
		if (n > 0)
			advance(c, (size_t)n);
		if (n == (ssize_t)l.bytes)
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
