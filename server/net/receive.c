/*
 * From the socket to requests. One read takes what the socket holds, as far as the scratch buffer
 * goes, and all complete requests in it are decoded, given their budget together, and queued for
 * the turn.
 *
 * The data of a large write is read straight to its place, together with what follows it, as soon
 * as its header has been seen. An incomplete header waits in the connection; what cannot be decoded
 * for want of budget is moved out of the scratch buffer, into `rest`. A long READ becomes several
 * requests, if its reply may come in chunks; of one that got only some of them the header is kept.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "server/net/conn.h"
#include "server/net/log.h"

static const char export_goes[] = "the export is being removed";

/* What the elevator calls it. Only for commands that nbd_decode_request lets pass. */
static enum elv_op op_of(uint16_t command)
{
	switch (command) {
	case NBD_CMD_READ:
		return ELV_READ;
	case NBD_CMD_WRITE:
		return ELV_WRITE;
	case NBD_CMD_FLUSH:
		return ELV_FLUSH;
	case NBD_CMD_TRIM:
		return ELV_TRIM;
	case NBD_CMD_WRITE_ZEROES:
		return ELV_ZERO;
	case NBD_CMD_BLOCK_STATUS:
		return ELV_STATUS;
	default:
		assert(command == NBD_CMD_CACHE);
		return ELV_CACHE;
	}
}

static unsigned flags_of(uint16_t flags)
{
	return (flags & NBD_CMD_FLAG_FUA ? ELV_FUA : 0) |
	       (flags & NBD_CMD_FLAG_NO_HOLE ? ELV_NO_HOLE : 0) |
	       (flags & NBD_CMD_FLAG_FAST_ZERO ? ELV_FAST_ZERO : 0);
}

/* Bytes of memory for the answer to a BLOCK_STATUS; its payload is there before. */
enum { STATUS_ROOM = 16 << 10, STATUS_ROOM_ONE = POOL_ALIGN };

/* Bytes of memory that a request of this length needs, or part of one. */
static uint32_t memory_for(const struct nbd_request *rq, uint64_t length)
{
	switch (rq->command) {
	case NBD_CMD_READ:
	case NBD_CMD_WRITE:
		return (uint32_t)length;
	case NBD_CMD_BLOCK_STATUS:
		return rq->flags & NBD_CMD_FLAG_REQ_ONE ? STATUS_ROOM_ONE : STATUS_ROOM;
	default:
		return 0;
	}
}

_Static_assert(STATUS_ROOM_ONE >= NBD_STATUS_PAYLOAD_MAX, "a payload has no room");

/* A decoded request that has no budget yet, or a piece of one. */
struct item {
	struct nbd_request rq;
	enum nbd_verdict verdict;
	size_t at;      /* of its header, in the bytes that are decoded */
	uint64_t from;  /* of a piece: its place in the request */
	uint64_t length;
};

bool split_drop(struct split *s)
{
	if (--s->holders)
		return false;
	free(s);
	return true;
}

/* ---- requests that are whole ---- */

static void queue(struct conn *c, struct request *r)
{
	TAILQ_INSERT_TAIL(&c->disk->inserts, &r->elv, link);
	loop_disk_busy(c->loop, c->disk);
}

/* Make room for the answer of a BLOCK_STATUS, where its payload was. */
static void begin_status(struct conn *c, struct request *r)
{
	struct elv_status *status = (struct elv_status *)r->elv.data;
	struct nbd_request rq = { .offset = r->offset, .payload = r->payload,
				  .command = r->command, .flags = r->flags };
	uint8_t contexts;

	if (r->payload && nbd_decode_status((const uint8_t *)r->elv.data, &c->limits, &rq,
					    &contexts) != NBD_REQUEST_OK) {
		r->invalid = true;
		r->answer = rq.error;
		r->reason = rq.reason;
		return;
	}
	if (r->payload)
		r->elv.length = rq.length;
	status->n = 0;
	status->max = r->flags & NBD_CMD_FLAG_REQ_ONE ? 1 :
		(STATUS_ROOM - sizeof(*status)) / sizeof(status->extent[0]);
}

/* Its payload is complete, or it has none. */
static void arrived(struct conn *c, struct request *r)
{
	if (!r->invalid && r->elv.op == ELV_STATUS)
		begin_status(c, r);
	if (r->invalid)
		reply_add(r);
	else
		queue(c, r);
}

/* The request is a piece: which takes part in the answer. False: no memory. */
static bool join_split(struct conn *c, struct request *r, const struct item *item)
{
	if (!c->split) {
		c->split = malloc(sizeof(*c->split));
		if (!c->split)
			return false;
		c->split->holders = 1; /* the connection's */
	}
	r->split = c->split;
	if (item->from + item->length == item->rq.length)
		c->split = NULL; /* goes to the last piece */
	else
		r->split->holders++;
	return true;
}

/* What is to be executed, with its memory. */
static void fill(struct conn *c, struct request *r, const struct item *item)
{
	uint32_t memory = memory_for(&item->rq, item->length);

	r->elv.op = op_of(item->rq.command);
	r->elv.flags = flags_of(item->rq.flags);
	r->elv.offset = item->rq.offset + item->from;
	r->elv.length = item->length;
	if (!memory)
		return;
	r->elv.data = pool_get(&c->loop->pool, memory);
	r->length = r->elv.data ? memory : 0;
	if (!r->elv.data) {
		/* Answered with an error; a write's payload is skipped. */
		r->invalid = true;
		r->answer = NBD_ENOMEM;
		r->reason = "the server has no memory for it";
	}
}

static struct request *make(struct conn *c, const struct item *item, const struct budget_need *need)
{
	const struct nbd_request *rq = &item->rq;
	struct request *r = request_new(c);

	if (!r)
		return NULL;
	r->cookie = rq->cookie;
	r->offset = rq->offset;
	r->command = rq->command;
	r->flags = rq->flags;
	r->payload = rq->payload;
	r->elv.offset = rq->offset;
	r->reserved = (uint32_t)need->bytes;
	r->has_slot = true;
	if (item->verdict == NBD_REQUEST_REPLY) {
		r->invalid = true;
		r->answer = rq->error;
		r->reason = rq->error ? rq->reason : NULL;
		r->elv.op = ELV_FLUSH; /* counts as a write, carries no data */
		return r;
	}
	if (item->length < rq->length && !join_split(c, r, item)) {
		request_free(r);
		return NULL;
	}
	fill(c, r, item);
	return r;
}

/* ---- payloads ---- */

/* The payload of r follows and is not here yet. */
static void expect_payload(struct conn *c, struct request *r, uint64_t left)
{
	c->payload = r;
	c->payload_left = left;
	c->payload_since = c->loop->now;
	c->large = left >= CONN_LARGE;
	TAILQ_INSERT_TAIL(&c->loop->payloads, c, since_link);
}

/* n more bytes of the payload are in their place, or skipped. */
static void payload_came(struct conn *c, uint64_t n)
{
	struct request *r = c->payload;

	c->payload_left -= n;
	if (c->payload_left)
		return;
	c->payload = NULL;
	TAILQ_REMOVE(&c->loop->payloads, c, since_link);
	arrived(c, r);
}

void conn_drop_payload(struct conn *c)
{
	struct request *r = c->payload;

	c->head_len = 0;
	if (!r)
		return;
	c->payload = NULL;
	c->payload_left = 0;
	TAILQ_REMOVE(&c->loop->payloads, c, since_link);
	r->unanswered = true;
	TAILQ_INSERT_TAIL(&c->loop->spent, &r->elv, link);
	c->loop->again = true; /* the turn gives back what it held */
}

/* Where the missing bytes belong. */
static char *payload_place(const struct conn *c)
{
	return c->payload->elv.data + (c->payload->payload - c->payload_left);
}

/* Take what there is of an expected payload from in; returns how much. */
static size_t take_payload(struct conn *c, const uint8_t *in, size_t len)
{
	size_t n = len < c->payload_left ? len : (size_t)c->payload_left;

	if (!c->payload->invalid)
		memcpy(payload_place(c), in, n);
	payload_came(c, n);
	return n;
}

/* ---- decoding ---- */

/* May it be answered in pieces, and is it long enough? */
static bool is_split(const struct conn *c, const struct item *item)
{
	return item->rq.command == NBD_CMD_READ && item->rq.length > CONN_PIECE &&
		c->limits.mode != NBD_MODE_SIMPLE && !(item->rq.flags & NBD_CMD_FLAG_DF) &&
		item->verdict == NBD_REQUEST_OK;
}

/* What an item takes of the budget. */
static struct budget_need need_of(const struct item *item)
{
	uint64_t memory;

	if (item->verdict != NBD_REQUEST_OK)
		return (struct budget_need){ 0, ELV_DIR_WRITE };
	memory = memory_for(&item->rq, item->length);
	return (struct budget_need){ (memory + POOL_ALIGN - 1) & ~(uint64_t)(POOL_ALIGN - 1),
				     elv_dir(op_of(item->rq.command)) };
}

/*
 * The next item of the request whose header was decoded into *item; from: what has become items
 * before. Returns where it ends. Pieces meet where blocks do: so do chunks, then, and at odd bounds
 * only the first and the last piece need more to be read than was asked for.
 */
static uint64_t take_piece(const struct conn *c, struct item *item, uint64_t from)
{
	uint64_t left = item->rq.length - from;

	item->from = from;
	item->length = left;
	if (is_split(c, item) && left > CONN_PIECE)
		item->length = CONN_PIECE - (item->rq.offset + from) % POOL_ALIGN;
	return from + item->length;
}

/*
 * Decode headers from in[0 .. len - 1], up to n items or up to one whose payload is not here, or
 * that ends the conversation. Returns how many; *end: where the next header would be; *from: how
 * much of its request has become items, at the start and at the end.
 */
static unsigned decode(struct conn *c, const uint8_t *in, size_t len, struct item *item,
		       struct budget_need *need, unsigned n, size_t *end, uint64_t *from)
{
	size_t at = 0, size = nbd_request_size((enum nbd_mode)c->limits.mode);
	unsigned i;

	for (i = 0; i < n && len - at >= size; i++) {
		struct nbd_request *rq = &item[i].rq;

		item[i].at = at;
		item[i].verdict = nbd_decode_request(in + at, &c->limits, rq);
		if (c->refusing && item[i].verdict == NBD_REQUEST_OK) {
			item[i].verdict = NBD_REQUEST_REPLY;
			rq->error = NBD_ESHUTDOWN;
			rq->reason = export_goes;
		}
		if (item[i].verdict == NBD_REQUEST_CLOSE ||
		    item[i].verdict == NBD_REQUEST_DISCONNECT)
			break;
		*from = take_piece(c, &item[i], *from);
		need[i] = need_of(&item[i]);
		if (*from < rq->length)
			continue; /* the same again */
		*from = 0;
		at += size;
		if (rq->payload > len - at) {
			at = len;
			i++;
			break;
		}
		at += rq->payload;
	}
	*end = at;
	return i;
}

/* Budget for n requests; returns how many got it. If not all, the connection waits. */
static unsigned reserve(struct conn *c, const struct budget_need *need, unsigned n)
{
	unsigned has = c->reserved && n ? 1 : 0;

	if (has) {
		assert(need[0].bytes == c->waiter.need.bytes && need[0].dir == c->waiter.need.dir);
		c->reserved = false;
	}
	if (n > has)
		has += budget_take(&c->client->budget, need + has, n - has, &c->waiter);
	c->waiting = has < n;
	return has;
}

/* Give back what was reserved for requests that cannot be made. */
static void unreserve(struct conn *c, const struct budget_need *need, unsigned n)
{
	struct budget_account *a = &c->client->budget;

	budget_lock(a->budget);
	for (unsigned i = 0; i < n; i++) {
		budget_slot(a, need[i].dir);
		budget_end(a, need[i].bytes, BUDGET_WITHDRAWN);
	}
	budget_unlock(a->budget);
}

/*
 * A request with its budget; in[0 .. len - 1] is what is here behind its header. False: there is no
 * memory for it.
 */
static bool begin(struct conn *c, const struct item *item, const struct budget_need *need,
		  const uint8_t *in, size_t len)
{
	struct request *r = make(c, item, need);
	uint32_t payload = item->rq.payload;

	if (!r)
		return false;
	/* Here a read that is in memory could be answered, past the elevator. */
	if (payload <= len) {
		if (payload && !r->invalid)
			memcpy(r->elv.data, in, payload);
		arrived(c, r);
		return true;
	}
	expect_payload(c, r, payload);
	take_payload(c, in, len);
	return true;
}

/* What comes after the last request of a batch that is none. True: stop here. */
static bool ends(struct conn *c, const struct item *item)
{
	if (item->verdict == NBD_REQUEST_DISCONNECT) {
		c->disconnected = true;
		if (c->state == CONN_OPEN)
			conn_end(c);
		return true;
	}
	if (item->verdict == NBD_REQUEST_CLOSE) {
		conn_kill(c, item->rq.reason);
		return true;
	}
	return false;
}

/*
 * Decode from in. Returns how many bytes were used; all that are whole requests, unless it waits.
 */
static size_t parse(struct conn *c, const uint8_t *in, size_t len)
{
	size_t used = 0, size = nbd_request_size((enum nbd_mode)c->limits.mode);
	struct item item[CONN_BATCH];
	struct budget_need need[CONN_BATCH];

	if (c->payload)
		used = take_payload(c, in, len);
	while (len - used >= size) {
		const uint8_t *at = in + used;
		uint64_t from = c->split_at;
		size_t end;
		unsigned n = decode(c, at, len - used, item, need, CONN_BATCH, &end, &from), got;

		got = n ? reserve(c, need, n) : 0;
		for (unsigned i = 0; i < got; i++) {
			const uint8_t *body = at + item[i].at + size;

			if (begin(c, &item[i], &need[i], body, (size_t)(in + len - body)))
				continue;
			unreserve(c, need + i, got - i);
			conn_kill(c, "out of memory");
			return len;
		}
		c->split_at = got < n ? item[got].from : from;
		if (got < n)
			return used + item[got].at;
		used += end;
		if (n < CONN_BATCH && len - used >= size && ends(c, &item[n]))
			return len;
	}
	return used;
}

/* Nothing waits any more; in[0 .. len - 1], less than a header, is all that is left. */
static void keep_head(struct conn *c, const uint8_t *in, size_t len)
{
	if (c->state == CONN_OPEN) {
		assert(len < nbd_request_size((enum nbd_mode)c->limits.mode));
		memcpy(c->head, in, len);
		c->head_len = (uint8_t)len;
	} else {
		conn_drop_payload(c); /* the rest of it will never come */
	}
}

/* Decode from the scratch buffer; what has to wait moves out of it. */
static void parse_scratch(struct conn *c, const uint8_t *in, size_t len)
{
	size_t used = parse(c, in, len);

	if (c->state == CONN_DEAD)
		return;
	in += used;
	len -= used;
	if (!c->waiting) {
		keep_head(c, in, len);
		return;
	}
	c->rest = malloc(len);
	if (!c->rest) {
		conn_kill(c, "out of memory");
		return;
	}
	memcpy(c->rest, in, len);
	c->rest_len = len;
	c->rest_pos = 0;
}

void conn_parse_rest(struct conn *c)
{
	size_t used = parse(c, c->rest + c->rest_pos, c->rest_len - c->rest_pos);

	if (c->state == CONN_DEAD) /* the rest is gone with it */
		return;
	c->rest_pos += used;
	if (c->waiting)
		return;
	keep_head(c, c->rest + c->rest_pos, c->rest_len - c->rest_pos);
	free(c->rest);
	c->rest = NULL;
	if (c->departure)
		conn_refuse(c);
}

void conn_refuse(struct conn *c)
{
	if (c->rest) /* it has been read: later */
		return;
	c->refusing = true;
	if (c->payload && !c->payload->invalid) {
		c->payload->invalid = true;
		c->payload->answer = NBD_ESHUTDOWN;
		c->payload->reason = export_goes;
	}
}

/* ---- the socket ---- */

/* The other end sends no more. */
static void at_end_of_file(struct conn *c)
{
	if (c->says_disc || (c->half_closes && !conn_peer_is_gone(c)))
		conn_end(c);
	else
		conn_kill(c, "the client is gone");
}

/* Is there a DISC in these bytes, where a request is expected? */
static bool has_disc(const struct conn *c, const uint8_t *in, size_t len)
{
	size_t size = nbd_request_size((enum nbd_mode)c->limits.mode);
	uint64_t at = c->payload_left;

	while (at + size <= len) {
		struct nbd_request rq;

		switch (nbd_decode_request(in + at, &c->limits, &rq)) {
		case NBD_REQUEST_DISCONNECT:
			return true;
		case NBD_REQUEST_CLOSE:
			return false;
		default:
			at += size + (uint64_t)rq.payload;
		}
	}
	return false;
}

bool conn_last_words(struct conn *c)
{
	const uint8_t *before = c->rest ? c->rest + c->rest_pos : c->head;
	size_t len = c->rest ? c->rest_len - c->rest_pos : c->head_len, room = 0;
	uint8_t *words = NULL, *more;
	ssize_t n;

	do {
		if (len + 1 > room) {
			room = 2 * room + LOOP_SCRATCH + len;
			more = realloc(words, room);
			if (!more)
				break;
			if (!words && len)
				memcpy(more, before, len);
			words = more;
		}
		n = conn_readv(c, &(struct iovec){ words + len, room - len }, 1);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (!words || !has_disc(c, words, len)) {
		free(words);
		return false;
	}
	free(c->rest);
	c->rest = words;
	c->rest_len = len;
	c->rest_pos = 0;
	c->head_len = 0;
	c->readable = false;
	c->says_disc = true;
	return true;
}

static void read_failed(struct conn *c, int error)
{
	if (error == EAGAIN) {
		c->readable = false;
		return;
	}
	if (error == EINTR) {
		conn_ready(c);
		return;
	}
	c->broken = true;
	conn_kill(c, strerror(error));
}

/*
 * A stream that gave less than was asked for is empty, and what comes later is a new event. But the
 * event that was for these bytes may have been for the end behind them, too. If they are whole
 * requests their replies will find out; else nothing would.
 */
static void look_again(struct conn *c, bool drained)
{
	if (drained && !c->hung_up && !c->payload && !c->head_len)
		c->readable = false;
	else
		conn_ready(c);
}

void conn_receive(struct conn *c)
{
	uint8_t *scratch = c->loop->scratch;
	size_t room = LOOP_SCRATCH, direct = 0, want;
	struct iovec iov[2];
	int niov = 0;
	bool drained;
	ssize_t n;

	if (c->payload && !c->payload->invalid) {
		direct = (size_t)c->payload_left;
		iov[niov++] = (struct iovec){ payload_place(c), direct };
	} else if (c->head_len) {
		memcpy(scratch, c->head, c->head_len);
	}
	if (c->large || budget_is_crowded(&c->loop->server->budget))
		room = CONN_SMALL_READ;
	iov[niov++] = (struct iovec){ scratch + c->head_len, room - c->head_len };
	want = direct + room - c->head_len;
	n = conn_readv(c, iov, niov);
	if (n < 0) {
		read_failed(c, errno);
		return;
	}
	if (!n) {
		at_end_of_file(c);
		return;
	}
	drained = (size_t)n < want && !(c->tls && tls_has_more(c->tls));
	if (direct) {
		size_t got = (size_t)n < direct ? (size_t)n : direct;

		payload_came(c, got);
		n -= (ssize_t)got;
	}
	if (n) {
		c->large = false;
		n += c->head_len;
		c->head_len = 0;
		parse_scratch(c, scratch, (size_t)n);
	}
	if (c->state != CONN_DEAD)
		look_again(c, drained);
}
