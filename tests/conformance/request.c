/* The transmission phase: requests, and what every reply must be. */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/wire.h"

enum { READ_MOST = 128 << 20 };

static const char *const command_names[] = {
	"READ", "WRITE", "DISC", "FLUSH", "TRIM", "CACHE", "WRITE_ZEROES", "BLOCK_STATUS", "RESIZE",
};

static const struct {
	uint32_t error;
	const char *name;
} error_names[] = {
	{ 0, "success" }, { E_PERM, "EPERM" }, { E_IO, "EIO" }, { E_NOMEM, "ENOMEM" },
	{ E_INVAL, "EINVAL" }, { E_NOSPC, "ENOSPC" }, { E_OVERFLOW, "EOVERFLOW" },
	{ E_NOTSUP, "ENOTSUP" }, { E_SHUTDOWN, "ESHUTDOWN" },
};

/* NULL: none of those that may be sent. */
static const char *known_error(uint32_t error)
{
	for (size_t i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++) {
		if (error_names[i].error == error)
			return error_names[i].name;
	}
	return NULL;
}

const char *error_name(uint32_t error)
{
	return known_error(error) ? known_error(error) : "an unknown error";
}

/* ---- sending ---- */

size_t header(struct conn *c, uint8_t *h, uint32_t magic, unsigned command, unsigned flags,
	      uint64_t cookie, uint64_t offset, uint64_t length)
{
	uint8_t *p = put16(put16(put32(h, magic), flags), command);

	p = put64(put64(p, cookie), offset);
	p = c->mode == EXTENDED ? put64(p, length) : put32(p, (uint32_t)length);
	return (size_t)(p - h);
}

void send_header(struct conn *c, uint32_t magic, unsigned command, unsigned flags,
		 uint64_t cookie, uint64_t offset, uint64_t length)
{
	uint8_t h[32];

	conn_send(c, h, header(c, h, magic, command, flags, cookie, offset, length));
}

struct request *announce(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
			 uint64_t length)
{
	struct request *rq = grab(c->t, sizeof(*rq));
	const char *name = command < sizeof(command_names) / sizeof(command_names[0]) ?
			   command_names[command] : NULL;
	char number[24];

	snprintf(number, sizeof(number), "command %u", command);
	snprintf(rq->words, sizeof(rq->words), "%s at %llu, length %llu, flags %#x",
		 name ? name : number, (unsigned long long)offset, (unsigned long long)length, flags);
	rq->command = (uint16_t)command;
	rq->flags = (uint16_t)flags;
	rq->cookie = c->cookie++;
	rq->offset = offset;
	rq->length = length;
	if (command == CMD_READ && length <= READ_MOST)
		rq->data = grab(c->t, (size_t)length);
	rq->next = c->pending;
	c->pending = rq;
	return rq;
}

struct request *submit_raw(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
			   uint64_t length, const void *payload, size_t n)
{
	struct request *rq = announce(c, command, flags, offset, length);

	send_header(c, c->mode == EXTENDED ? MAGIC_REQUEST_EXT : MAGIC_REQUEST, command, flags,
		    rq->cookie, offset, length);
	if (n)
		conn_send(c, payload, n);
	return rq;
}

struct request *submit(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
		       uint64_t length, const void *payload)
{
	if (c->mode == EXTENDED && command == CMD_WRITE)
		flags |= FLAG_PAYLOAD_LEN;
	return submit_raw(c, command, flags, offset, length, payload,
			  payload ? (size_t)length : 0);
}

/* ---- receiving ---- */

static struct request *find(struct conn *c, uint64_t cookie)
{
	struct request *rq;

	for (rq = c->pending; rq; rq = rq->next) {
		if (rq->cookie == cookie)
			return rq;
	}
	fail(c->t, "a reply with the cookie %#llx, which no unanswered request has",
	     (unsigned long long)cookie);
}

static void complete(struct conn *c, struct request *rq)
{
	struct request **p;

	for (p = &c->pending; *p != rq; p = &(*p)->next)
		;
	*p = rq->next;
	rq->done = true;
}

static void set_error(struct conn *c, struct request *rq, uint32_t error)
{
	if (!known_error(error))
		fail(c->t, "%s: error %u is none of those that may be sent", rq->words, error);
	if (error == E_OVERFLOW && !(rq->flags & FLAG_DF) && rq->length <= c->t->target->most)
		advise(c->t, "%s: EOVERFLOW", rq->words);
	if (error == E_NOTSUP && !(rq->command == CMD_WRITE_ZEROES && rq->flags & FLAG_FAST_ZERO))
		fail(c->t, "%s: ENOTSUP without FAST_ZERO", rq->words);
	if (!rq->error)
		rq->error = error;
}

static void take_simple(struct conn *c)
{
	struct request *rq;
	uint8_t h[12];

	conn_recv(c, h, sizeof(h), "the rest of a simple reply");
	rq = find(c, get64(h + 4));
	if (c->mode == EXTENDED)
		fail(c->t, "%s: a simple reply despite extended headers", rq->words);
	if (c->mode == STRUCTURED && rq->command == CMD_READ)
		fail(c->t, "%s: a simple reply despite structured replies", rq->words);
	if (rq->chunks)
		fail(c->t, "%s: a simple reply after %u chunks", rq->words, rq->chunks);
	if (get32(h))
		set_error(c, rq, get32(h));
	else if (rq->command == CMD_BLOCK_STATUS)
		fail(c->t, "%s: success without a status", rq->words);
	else if (rq->command == CMD_READ && rq->length > READ_MOST)
		fail(c->t, "%s: success", rq->words);
	else if (rq->command == CMD_READ)
		conn_recv(c, rq->data, (size_t)rq->length, "the data of a READ");
	complete(c, rq);
}

/* Content of a READ must lie inside it, and nothing may come twice. */
static void add_content(struct conn *c, struct request *rq, uint64_t at, uint64_t n)
{
	struct span *content;

	if (rq->command != CMD_READ)
		fail(c->t, "%s: a chunk with content", rq->words);
	if (!n)
		fail(c->t, "%s: a chunk that describes no byte", rq->words);
	if (at < rq->offset || n > rq->length || at - rq->offset > rq->length - n)
		fail(c->t, "%s: content at %llu, length %llu, is not inside the request", rq->words,
		     (unsigned long long)at, (unsigned long long)n);
	for (size_t i = 0; i < rq->ncontent; i++) {
		if (at < rq->content[i].end && at + n > rq->content[i].at)
			fail(c->t, "%s: content at %llu, length %llu, overlaps earlier content",
			     rq->words, (unsigned long long)at, (unsigned long long)n);
	}
	if (rq->flags & FLAG_DF && rq->ncontent)
		fail(c->t, "%s: a second content chunk despite DF", rq->words);
	if (!(rq->ncontent & (rq->ncontent - 1))) {
		content = grab(c->t, (rq->ncontent * 2 + 1) * sizeof(*content));
		if (rq->ncontent)
			memcpy(content, rq->content, rq->ncontent * sizeof(*content));
		rq->content = content;
	}
	rq->content[rq->ncontent++] = (struct span){ at, at + n };
}

static void take_error(struct conn *c, struct request *rq, unsigned type, const uint8_t *p,
		       uint64_t n)
{
	unsigned tail = type == CHUNK_ERROR_OFFSET ? 8 : 0, len;
	uint64_t at;
	char *text;

	if (n < 6 + tail)
		fail(c->t, "%s: an error chunk of %llu bytes", rq->words, (unsigned long long)n);
	len = get16(p + 4);
	if (len > n - 6 - tail)
		fail(c->t, "%s: an error text of %u bytes in a chunk of %llu", rq->words, len,
		     (unsigned long long)n);
	check_string(c, p + 6, len, "an error text");
	if (type != CHUNK_ERROR && type != CHUNK_ERROR_OFFSET)
		fail(c->t, "%s: an error chunk of the unknown type %#x", rq->words, type);
	if (tail) {
		at = get64(p + 6 + len);
		if (at < rq->offset || at - rq->offset >= rq->length)
			fail(c->t, "%s: an error at %llu, outside the request", rq->words,
			     (unsigned long long)at);
	}
	if (!get32(p))
		fail(c->t, "%s: an error chunk with error 0", rq->words);
	text = grab(c->t, len);
	memcpy(text, p + 6, len);
	rq->text = text;
	set_error(c, rq, get32(p));
}

static bool is_wanted(const struct conn *c, const struct request *rq, uint32_t id)
{
	if (c->any_context)
		return true;
	for (unsigned i = 0; rq->ids && i < rq->nids; i++) {
		if (rq->ids[i] == id)
			return true;
	}
	for (unsigned i = 0; !rq->ids && i < c->ncontexts; i++) {
		if (c->contexts[i].id == id)
			return true;
	}
	return false;
}

/* Sums and lengths of the extents of one context. */
static void check_status(struct conn *c, const struct request *rq, const struct status *s)
{
	uint64_t sum = 0, room = c->size - rq->offset;

	for (size_t i = 0; i < s->n; i++) {
		if (!s->extents[i].length)
			fail(c->t, "%s: an extent of length 0", rq->words);
		if (s->extents[i].length > room - sum)
			fail(c->t, "%s: extents go beyond the end of the export", rq->words);
		if (i && sum >= rq->length)
			fail(c->t, "%s: %zu extents, but the first %zu cover the request", rq->words,
			     s->n, i);
		sum += s->extents[i].length;
		if (sum % c->min && sum != room)
			fail(c->t, "%s: an extent of %llu bytes, with a minimum block size of %u",
			     rq->words, (unsigned long long)s->extents[i].length, c->min);
		if (i && s->extents[i].status == s->extents[i - 1].status && s->n > 1 << 10)
			advise(c->t, "%s: neighbouring extents with the same status", rq->words);
	}
	if (rq->flags & FLAG_REQ_ONE && (s->n != 1 || sum > rq->length))
		fail(c->t, "%s: %zu extents of %llu bytes in all despite REQ_ONE", rq->words, s->n,
		     (unsigned long long)sum);
	if (s->n > 1 << 20)
		advise(c->t, "%s: %zu extents", rq->words, s->n);
}

static void take_status(struct conn *c, struct request *rq, unsigned type, const uint8_t *p,
			uint64_t n)
{
	unsigned head = type == CHUNK_STATUS_EXT ? 8 : 4, size = type == CHUNK_STATUS_EXT ? 16 : 8;
	struct status *s = &rq->status[rq->nstatus];

	if (rq->command != CMD_BLOCK_STATUS)
		fail(c->t, "%s: a chunk with a status", rq->words);
	if (type == CHUNK_STATUS_EXT && c->mode != EXTENDED)
		fail(c->t, "%s: BLOCK_STATUS_EXT without extended headers", rq->words);
	if (n < head + size || (n - head) % size)
		fail(c->t, "%s: a status chunk of %llu bytes", rq->words, (unsigned long long)n);
	*s = (struct status){ .id = get32(p), .n = (size_t)(n - head) / size };
	if (!is_wanted(c, rq, s->id))
		fail(c->t, "%s: a status of the context %#x, which was not asked for", rq->words,
		     s->id);
	for (unsigned i = 0; i < rq->nstatus; i++) {
		if (rq->status[i].id == s->id)
			fail(c->t, "%s: two statuses of the context %#x", rq->words, s->id);
	}
	if (head == 8 && get32(p + 4) && get32(p + 4) != s->n)
		fail(c->t, "%s: a descriptor count of %u with %zu descriptors", rq->words,
		     get32(p + 4), s->n);
	s->extents = grab(c->t, s->n * sizeof(*s->extents));
	p += head;
	for (size_t i = 0; i < s->n; i++, p += size) {
		if (head == 8 && get32(p + 8))
			fail(c->t, "%s: padding of a descriptor that is not 0", rq->words);
		s->extents[i].length = head == 8 ? get64(p) : get32(p);
		s->extents[i].status = get32(p + size - 4);
	}
	rq->nstatus++;
	check_status(c, rq, s);
}

/* After the last chunk of a success nothing may be missing. */
static void check_complete(struct conn *c, const struct request *rq)
{
	uint64_t sum = 0;
	unsigned wanted = rq->ids ? rq->nids : c->ncontexts;

	if (rq->error)
		return;
	for (size_t i = 0; i < rq->ncontent; i++)
		sum += rq->content[i].end - rq->content[i].at;
	if (rq->command == CMD_READ && sum != rq->length)
		fail(c->t, "%s: success, but the chunks cover %llu bytes", rq->words,
		     (unsigned long long)sum);
	if (rq->command == CMD_BLOCK_STATUS && !c->any_context && rq->nstatus != wanted)
		fail(c->t, "%s: success with a status of %u contexts, expected %u", rq->words,
		     rq->nstatus, wanted);
}

static void take_chunk(struct conn *c, bool extended)
{
	unsigned flags, type;
	struct request *rq;
	uint64_t n, most, at;
	uint8_t h[28], *p;

	conn_recv(c, h, extended ? 28 : 16, "the rest of a chunk's header");
	flags = get16(h);
	type = get16(h + 2);
	rq = find(c, get64(h + 4));
	n = extended ? get64(h + 20) : get32(h + 12);
	if (extended ? c->mode != EXTENDED : c->mode != STRUCTURED)
		fail(c->t, "%s: a chunk with %s header, which was not negotiated", rq->words,
		     extended ? "an extended" : "a structured");
	if (extended && get64(h + 12) != rq->offset)
		fail(c->t, "%s: the reply says offset %llu", rq->words,
		     (unsigned long long)get64(h + 12));
	if (flags & ~CHUNK_DONE)
		advise(c->t, "%s: unknown reply flags %#x", rq->words, flags);
	most = type == CHUNK_DATA ? 8 + rq->length : 16 + (UINT64_C(16) << 20);
	if (n > most || n > READ_MOST + 8)
		fail(c->t, "%s: a chunk of type %#x with %llu bytes", rq->words, type,
		     (unsigned long long)n);
	p = grab(c->t, (size_t)n);
	conn_recv(c, p, (size_t)n, "the payload of a chunk");
	rq->chunks++;
	if (type & 0x8000) {
		take_error(c, rq, type, p, n);
	} else if (type == CHUNK_NONE) {
		if (n || !(flags & CHUNK_DONE))
			fail(c->t, "%s: a NONE chunk with %llu bytes and flags %#x", rq->words,
			     (unsigned long long)n, flags);
	} else if (type == CHUNK_DATA) {
		if (n < 9)
			fail(c->t, "%s: OFFSET_DATA of %llu bytes", rq->words, (unsigned long long)n);
		at = get64(p);
		add_content(c, rq, at, n - 8);
		memcpy(rq->data + (at - rq->offset), p + 8, (size_t)n - 8);
	} else if (type == CHUNK_HOLE) {
		if (n != 12)
			fail(c->t, "%s: OFFSET_HOLE of %llu bytes", rq->words, (unsigned long long)n);
		add_content(c, rq, get64(p), get32(p + 8));
		rq->holes++;
	} else if (type == CHUNK_STATUS || type == CHUNK_STATUS_EXT) {
		take_status(c, rq, type, p, n);
	} else {
		fail(c->t, "%s: a chunk of the unknown type %u", rq->words, type);
	}
	if (flags & CHUNK_DONE) {
		check_complete(c, rq);
		complete(c, rq);
	}
}

struct request *finish(struct conn *c, struct request *rq)
{
	char what[128];
	uint8_t h[4];

	snprintf(what, sizeof(what), "a reply to %s", rq->words);
	while (!rq->done) {
		conn_recv(c, h, sizeof(h), what);
		switch (get32(h)) {
		case MAGIC_SIMPLE:
			take_simple(c);
			break;
		case MAGIC_STRUCTURED:
			take_chunk(c, false);
			break;
		case MAGIC_EXTENDED:
			take_chunk(c, true);
			break;
		default:
			fail(c->t, "expected %s, it begins with %#x", what, get32(h));
		}
	}
	return rq;
}

struct request *run(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
		    uint64_t length, const void *payload)
{
	return finish(c, submit(c, command, flags, offset, length, payload));
}

/* ---- what rows expect ---- */

void expect_ok(struct conn *c, const struct request *rq)
{
	if (rq->error)
		miss(c->t, "%s: expected success, came %s '%s'", rq->words, error_name(rq->error),
		     rq->text ? rq->text : "");
}

void expect_error(struct conn *c, const struct request *rq, uint32_t error)
{
	if (!rq->error)
		miss(c->t, "%s: expected %s, came success", rq->words, error_name(error));
	if (rq->error != error)
		advise(c->t, "%s: expected %s, came %s", rq->words, error_name(error),
		       error_name(rq->error));
}

void survives(struct conn *c, unsigned command, unsigned flags, uint64_t offset, uint64_t length)
{
	struct request *rq = submit(c, command, flags, offset, length, NULL);

	if (conn_readable(c, 1000 * c->t->target->timeout) && c->closed && c->in_at == c->in_end)
		miss(c->t, "%s: the server closed the connection", rq->words);
	finish(c, rq);
	alive(c);
}

uint64_t block(const struct conn *c, uint64_t n)
{
	return (n + c->min - 1) / c->min * c->min;
}

uint64_t end_of(const struct conn *c)
{
	return c->size / c->min * c->min;
}

uint8_t *pattern(struct conn *c, uint64_t n, unsigned seed)
{
	uint8_t *p = grab(c->t, (size_t)n);

	fill(p, (size_t)n, seed);
	return p;
}

bool all_zero(const uint8_t *p, size_t n)
{
	return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

const uint8_t *read_at(struct conn *c, uint64_t offset, uint64_t length)
{
	struct request *rq = run(c, CMD_READ, 0, offset, length, NULL);

	if (rq->error)
		fail(c->t, "%s: expected success, came %s '%s'", rq->words, error_name(rq->error),
		     rq->text ? rq->text : "");
	return rq->data;
}

void write_at(struct conn *c, uint64_t offset, uint64_t length, const uint8_t *data)
{
	struct request *rq = run(c, CMD_WRITE, 0, offset, length, data);

	if (rq->error)
		fail(c->t, "%s: expected success, came %s '%s'", rq->words, error_name(rq->error),
		     rq->text ? rq->text : "");
}

void expect_data(struct conn *c, uint64_t offset, uint64_t length, const uint8_t *data,
		 const char *when)
{
	const uint8_t *came = read_at(c, offset, length);

	for (uint64_t i = 0; i < length; i++) {
		if (came[i] != (data ? data[i] : 0))
			fail(c->t, "%s: expected %#x at %llu, came %#x", when, data ? data[i] : 0,
			     (unsigned long long)(offset + i), came[i]);
	}
}

void alive(struct conn *c)
{
	read_at(c, 0, block(c, 512));
}
