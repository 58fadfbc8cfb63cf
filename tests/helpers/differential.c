/*
 * differential: the same random requests to two servers, and to a model of the disk.
 *
 *     differential SOCKET-A SOCKET-B SIZE SEED SECONDS
 *
 * Both serve an export "" of SIZE zero bytes on a Unix socket. A session is a connection to each:
 * A, the one that is tested, in simple, structured or extended mode, B in simple or structured
 * mode. Requests go in batches, several at one time, none of which changes what another one of its
 * batch is about, so that their order does not matter. Then must be equal: errors; every byte read,
 * to the other server's and to the model's, but for those that were trimmed last; what extents call
 * zeroes must be zeroes. The rest is up to a server.
 *
 * The same seed on new disks sends the same stream. A difference: a line that says what, and 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sched/sim/random.h"
#include "server/nbd/protocol.h"

enum mode { SIMPLE, STRUCTURED, EXTENDED };
enum { BATCH = 24, LONGEST = 300 << 10, MOST_BYTES = 1 << 20, SESSION = 25, PATIENCE_MS = 60000,
       NAME = 15 };

static const char *const mode_names[] = { "simple", "structured", "extended" };

/* What one server made of a request. */
struct answer {
	bool done;
	uint32_t error;
	uint8_t *data;     /* READ: what came, and which bytes of it */
	uint8_t *seen;
	uint64_t got;
	unsigned chunks;
	bool error_told;
	uint64_t extents;  /* BLOCK_STATUS: bytes that they cover */
	unsigned nextents;
};

struct op {
	uint16_t command, flags;
	uint64_t offset, length;
	uint8_t *payload;  /* WRITE */
	struct answer a[2];
};

struct server {
	const char *path;
	unsigned which;
	int fd;
	enum mode mode;
	uint16_t flags;
	bool context;
	uint32_t context_id;
	uint8_t *in;       /* what came and is not understood yet */
	size_t have, room;
};

static uint64_t size, seed;
static struct sim_random dice;
static uint8_t *model, *trimmed; /* bytes of the disk; those that may be anything */
static struct op ops[BATCH];
static unsigned nops, session;
static struct server servers[2];
static uint64_t requests, compared, refused, extents_seen;

/* ---- ends ---- */

static void differs(const struct server *s, const struct op *op, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "differential: seed %llu, session %u (%s, %s): ", (unsigned long long)seed,
		session, mode_names[servers[0].mode], mode_names[servers[1].mode]);
	if (s)
		fprintf(stderr, "server %c: ", 'A' + s->which);
	if (op)
		fprintf(stderr, "command %u flags %#x offset %llu length %llu: ", op->command,
			op->flags, (unsigned long long)op->offset, (unsigned long long)op->length);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(1);
}

static void *memory(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	if (!p) {
		perror("differential");
		exit(2);
	}
	return p;
}

static uint64_t below(uint64_t n)
{
	return sim_below(&dice, n);
}

/* ---- the handshake, one byte string after the other ---- */

static void read_all(struct server *s, void *buf, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = read(s->fd, (uint8_t *)buf + at, n - at);

		if (got <= 0)
			differs(s, NULL, "the connection ended in the handshake");
		at += (size_t)got;
	}
}

static void write_all(struct server *s, const void *buf, size_t n)
{
	if (write(s->fd, buf, n) != (ssize_t)n)
		differs(s, NULL, "cannot write in the handshake");
}

static void send_option(struct server *s, uint32_t option, const void *data, uint32_t n)
{
	uint8_t head[NBD_OPTION_HEADER_SIZE];

	nbd_put_be64(head, NBD_OPTION_MAGIC);
	nbd_put_be32(head + 8, option);
	nbd_put_be32(head + 12, n);
	write_all(s, head, sizeof(head));
	if (n)
		write_all(s, data, n);
}

/* The next reply; data (n bytes) gets what fits of it. Returns its type. */
static uint32_t get_reply(struct server *s, uint8_t *data, size_t n)
{
	uint8_t head[NBD_OPTION_REPLY_SIZE], *all;
	uint32_t len;

	read_all(s, head, sizeof(head));
	len = nbd_get_be32(head + 16);
	if (nbd_get_be64(head) != NBD_OPTION_REPLY_MAGIC || len > 65536)
		differs(s, NULL, "an option reply that is none");
	all = memory(len);
	read_all(s, all, len);
	memcpy(data, all, len < n ? len : n);
	free(all);
	return nbd_get_be32(head + 12);
}

static void select_context(struct server *s)
{
	uint8_t data[12 + NAME] = { [7] = 1, [11] = NAME }, reply[4];
	uint32_t type;

	memcpy(data + 12, "base:allocation", NAME);
	send_option(s, NBD_OPT_SET_META_CONTEXT, data, sizeof(data));
	while ((type = get_reply(s, reply, sizeof(reply))) == NBD_REP_META_CONTEXT) {
		s->context = true;
		s->context_id = nbd_get_be32(reply);
	}
	if (type != NBD_REP_ACK || !s->context)
		differs(s, NULL, "SET_META_CONTEXT gives %#x", type);
}

static void go(struct server *s)
{
	static const uint8_t none[6];
	uint8_t info[12];
	uint32_t type;

	send_option(s, NBD_OPT_GO, none, sizeof(none));
	while ((type = get_reply(s, info, sizeof(info))) == NBD_REP_INFO) {
		if (nbd_get_be16(info) != NBD_INFO_EXPORT)
			continue;
		if (nbd_get_be64(info + 2) != size)
			differs(s, NULL, "the export has another size");
		s->flags = nbd_get_be16(info + 10);
	}
	if (type != NBD_REP_ACK)
		differs(s, NULL, "GO gives %#x", type);
}

static void attach(struct server *s, enum mode mode)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	uint8_t greeting[NBD_GREETING_SIZE], flags[4] = { 0, 0, 0, 3 };

	s->mode = mode;
	s->context = false;
	s->have = 0;
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", s->path);
	if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		differs(s, NULL, "cannot connect to %s: %s", s->path, strerror(errno));
	read_all(s, greeting, sizeof(greeting));
	write_all(s, flags, sizeof(flags));
	if (mode != SIMPLE) {
		send_option(s, mode == EXTENDED ? NBD_OPT_EXTENDED_HEADERS
						: NBD_OPT_STRUCTURED_REPLY, NULL, 0);
		if (get_reply(s, greeting, 0) != NBD_REP_ACK)
			differs(s, NULL, "refuses %s replies", mode_names[mode]);
		select_context(s);
	}
	go(s);
	fcntl(s->fd, F_SETFL, O_NONBLOCK);
}

static void detach(struct server *s)
{
	close(s->fd);
}

/* ---- replies ---- */

static struct op *op_of(struct server *s, uint64_t cookie)
{
	if (cookie >= nops || ops[cookie].a[s->which].done)
		differs(s, NULL, "a reply to %#llx, which was not asked or is answered already",
			(unsigned long long)cookie);
	return &ops[cookie];
}

/* Bytes at this offset were read: data, or NULL for zeroes. */
static void take_data(struct server *s, struct op *op, uint64_t at, uint64_t n, const uint8_t *data)
{
	struct answer *a = &op->a[s->which];

	if (op->command != NBD_CMD_READ)
		differs(s, op, "answered with data");
	if (!n || at < op->offset || at - op->offset > op->length ||
	    n > op->length - (at - op->offset))
		differs(s, op, "a chunk of %llu bytes at %llu", (unsigned long long)n,
			(unsigned long long)at);
	at -= op->offset;
	if (memchr(a->seen + at, 1, n))
		differs(s, op, "bytes that came before");
	memset(a->seen + at, 1, n);
	if (data)
		memcpy(a->data + at, data, n);
	else
		memset(a->data + at, 0, n);
	a->got += n;
	a->chunks++;
}

/* An extent: zeroes are zeroes. */
static void take_extent(struct server *s, struct op *op, uint64_t n, uint64_t state)
{
	struct answer *a = &op->a[s->which];
	uint64_t at = op->offset + a->extents;

	if (!n || n > size - at)
		differs(s, op, "an extent of %llu bytes at %llu", (unsigned long long)n,
			(unsigned long long)at);
	if (a->extents >= op->length)
		differs(s, op, "an extent behind the last one");
	for (uint64_t i = at; state & NBD_STATE_ZERO && i < at + n; i++)
		if (model[i] && !trimmed[i])
			differs(s, op, "byte %llu is no zero, but in an extent of them",
				(unsigned long long)i);
	a->extents += n;
	a->nextents++;
	extents_seen++;
	if (op->flags & NBD_CMD_FLAG_REQ_ONE && (a->nextents > 1 || a->extents > op->length))
		differs(s, op, "more than the one extent");
}

static void take_status(struct server *s, struct op *op, const uint8_t *p, uint64_t n)
{
	size_t head = s->mode == EXTENDED ? 8 : 4, one = s->mode == EXTENDED ? 16 : 8;

	if (op->command != NBD_CMD_BLOCK_STATUS || n < head + one || (n - head) % one ||
	    nbd_get_be32(p) != s->context_id ||
	    (s->mode == EXTENDED && nbd_get_be32(p + 4) != (n - head) / one))
		differs(s, op, "extents that are none");
	for (uint64_t at = head; at < n; at += one)
		take_extent(s, op, one == 16 ? nbd_get_be64(p + at) : nbd_get_be32(p + at),
			    one == 16 ? nbd_get_be64(p + at + 8) : nbd_get_be32(p + at + 4));
}

static void take_error(struct server *s, struct op *op, const uint8_t *p, uint64_t n, size_t tail)
{
	struct answer *a = &op->a[s->which];

	if (n < 6 + tail || nbd_get_be16(p + 4) != n - 6 - tail || !nbd_get_be32(p))
		differs(s, op, "an error chunk that is none");
	if (!a->error_told)
		a->error = nbd_get_be32(p);
	a->error_told = true;
}

static void finish(struct server *s, struct op *op)
{
	struct answer *a = &op->a[s->which];

	a->done = true;
	if (a->error)
		return;
	if (op->command == NBD_CMD_READ && a->got != op->length)
		differs(s, op, "%llu bytes came", (unsigned long long)a->got);
	if (op->flags & NBD_CMD_FLAG_DF && a->chunks != 1)
		differs(s, op, "%u chunks, though DF", a->chunks);
	if (op->command == NBD_CMD_BLOCK_STATUS && !a->nextents)
		differs(s, op, "no extents");
}

/* A chunk with its payload p of n bytes. */
static void take_chunk(struct server *s, struct op *op, uint16_t type, bool done, const uint8_t *p,
		       uint64_t n)
{
	switch (type) {
	case NBD_REPLY_TYPE_NONE:
		if (n || !done)
			differs(s, op, "a NONE chunk that is not the last, or has data");
		break;
	case NBD_REPLY_TYPE_OFFSET_DATA:
		if (n < 9)
			differs(s, op, "a data chunk without data");
		take_data(s, op, nbd_get_be64(p), n - 8, p + 8);
		break;
	case NBD_REPLY_TYPE_OFFSET_HOLE:
		if (n != 12)
			differs(s, op, "a hole of %llu bytes", (unsigned long long)n);
		take_data(s, op, nbd_get_be64(p), nbd_get_be32(p + 8), NULL);
		break;
	case NBD_REPLY_TYPE_BLOCK_STATUS:
	case NBD_REPLY_TYPE_BLOCK_STATUS_EXT:
		if ((type == NBD_REPLY_TYPE_BLOCK_STATUS_EXT) != (s->mode == EXTENDED))
			differs(s, op, "extents in the other mode's chunk");
		take_status(s, op, p, n);
		break;
	case NBD_REPLY_TYPE_ERROR:
		take_error(s, op, p, n, 0);
		break;
	case NBD_REPLY_TYPE_ERROR_OFFSET:
		take_error(s, op, p, n, 8);
		break;
	default:
		differs(s, op, "a chunk of type %u", type);
	}
	if (done)
		finish(s, op);
}

/* A simple reply at p[0 .. n - 1]. Returns its size; 0: not all of it is here. */
static size_t take_simple(struct server *s, const uint8_t *p, size_t n)
{
	size_t whole = NBD_SIMPLE_REPLY_SIZE;
	struct op *op;

	if (n < whole)
		return 0;
	op = op_of(s, nbd_get_be64(p + 8));
	if (s->mode == EXTENDED || (s->mode == STRUCTURED && op->command == NBD_CMD_READ))
		differs(s, op, "a simple reply");
	op->a[s->which].error = nbd_get_be32(p + 4);
	if (op->command == NBD_CMD_READ && !nbd_get_be32(p + 4)) {
		whole += op->length;
		if (n < whole)
			return 0;
		take_data(s, op, op->offset, op->length, p + NBD_SIMPLE_REPLY_SIZE);
	}
	finish(s, op);
	return whole;
}

/* The same of a chunk. */
static size_t take_structured(struct server *s, const uint8_t *p, size_t n)
{
	bool extended = s->mode == EXTENDED;
	size_t head = extended ? NBD_EXTENDED_CHUNK_SIZE : NBD_CHUNK_SIZE;
	uint64_t payload;
	struct op *op;

	if (n < head)
		return 0;
	op = op_of(s, nbd_get_be64(p + 8));
	payload = extended ? nbd_get_be64(p + 24) : nbd_get_be32(p + 16);
	if (payload > LONGEST + 65536)
		differs(s, op, "a chunk of %llu bytes", (unsigned long long)payload);
	if (extended && nbd_get_be64(p + 16) != op->offset)
		differs(s, op, "a chunk with another offset");
	if (n < head + payload)
		return 0;
	take_chunk(s, op, nbd_get_be16(p + 6), nbd_get_be16(p + 4) & NBD_REPLY_FLAG_DONE, p + head,
		   payload);
	return head + payload;
}

static size_t take_reply(struct server *s, const uint8_t *p, size_t n)
{
	uint32_t magic;

	if (n < 4)
		return 0;
	magic = nbd_get_be32(p);
	if (magic == NBD_SIMPLE_REPLY_MAGIC)
		return take_simple(s, p, n);
	if (s->mode == SIMPLE ||
	    magic != (s->mode == EXTENDED ? NBD_EXTENDED_REPLY_MAGIC : NBD_STRUCTURED_REPLY_MAGIC))
		differs(s, NULL, "a reply with magic %#x", magic);
	return take_structured(s, p, n);
}

/* ---- a batch to one server ---- */

static size_t encode(const struct server *s, const struct op *op, uint64_t cookie, uint8_t *p)
{
	bool extended = s->mode == EXTENDED;
	uint16_t flags = op->flags;
	size_t n = extended ? NBD_EXTENDED_REQUEST_SIZE : NBD_REQUEST_SIZE;

	if (extended && op->command == NBD_CMD_WRITE)
		flags |= NBD_CMD_FLAG_PAYLOAD_LEN;
	nbd_put_be32(p, extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC);
	nbd_put_be16(p + 4, flags);
	nbd_put_be16(p + 6, op->command);
	nbd_put_be64(p + 8, cookie);
	nbd_put_be64(p + 16, op->offset);
	if (extended)
		nbd_put_be64(p + 24, op->length);
	else
		nbd_put_be32(p + 24, (uint32_t)op->length);
	if (op->payload)
		memcpy(p + n, op->payload, op->length);
	return n + (op->payload ? op->length : 0);
}

static bool all_done(const struct server *s)
{
	for (unsigned i = 0; i < nops; i++)
		if (!ops[i].a[s->which].done)
			return false;
	return true;
}

static void receive(struct server *s)
{
	size_t at = 0, n;
	ssize_t got;

	if (s->room - s->have < 65536) {
		s->room = 2 * s->room + 131072;
		s->in = realloc(s->in, s->room);
		if (!s->in)
			exit(2);
	}
	got = read(s->fd, s->in + s->have, s->room - s->have);
	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0)
		differs(s, NULL, "the connection ended");
	s->have += (size_t)got;
	while ((n = take_reply(s, s->in + at, s->have - at)))
		at += n;
	s->have -= at;
	memmove(s->in, s->in + at, s->have);
}

/* Send what there is to send, in pieces of at most `piece`, and take what comes meanwhile. */
static void exchange(struct server *s, const uint8_t *out, size_t n, size_t piece)
{
	size_t sent = 0;

	while (sent < n || !all_done(s)) {
		struct pollfd p = { s->fd, sent < n ? POLLIN | POLLOUT : POLLIN, 0 };

		if (poll(&p, 1, PATIENCE_MS) < 1)
			differs(s, NULL, "no answer for %d ms", PATIENCE_MS);
		if (p.revents & POLLOUT) {
			ssize_t part = send(s->fd, out + sent, n - sent < piece ? n - sent : piece,
					    MSG_NOSIGNAL);

			if (part < 0 && errno != EAGAIN)
				differs(s, NULL, "cannot send: %s", strerror(errno));
			sent += part > 0 ? (size_t)part : 0;
		}
		if (p.revents & (POLLIN | POLLHUP | POLLERR))
			receive(s);
	}
	if (s->have)
		differs(s, NULL, "%zu bytes after the last reply", s->have);
}

static void run_batch(struct server *s, size_t piece)
{
	uint8_t *out = memory(BATCH * NBD_EXTENDED_REQUEST_SIZE + 2 * MOST_BYTES);
	size_t n = 0;

	for (unsigned i = 0; i < nops; i++)
		n += encode(s, &ops[i], i, out + n);
	exchange(s, out, n, piece);
	free(out);
}

/* ---- what is asked ---- */

static bool both(uint16_t flag)
{
	return servers[0].flags & servers[1].flags & flag;
}

static uint16_t some_command(void)
{
	switch (below(16)) {
	case 0 ... 4:
		return NBD_CMD_WRITE;
	case 5:
		return both(NBD_FLAG_SEND_TRIM) ? NBD_CMD_TRIM : NBD_CMD_READ;
	case 6 ... 7:
		return both(NBD_FLAG_SEND_WRITE_ZEROES) ? NBD_CMD_WRITE_ZEROES : NBD_CMD_READ;
	case 8:
		return both(NBD_FLAG_SEND_CACHE) ? NBD_CMD_CACHE : NBD_CMD_READ;
	case 9:
		return NBD_CMD_FLUSH;
	case 10 ... 11:
		return servers[0].context && servers[1].context ? NBD_CMD_BLOCK_STATUS
								: NBD_CMD_READ;
	default:
		return NBD_CMD_READ;
	}
}

static uint16_t some_flags(uint16_t command)
{
	uint16_t flags = 0;

	if (both(NBD_FLAG_SEND_FUA) && command != NBD_CMD_READ && command != NBD_CMD_FLUSH &&
	    command != NBD_CMD_BLOCK_STATUS && command != NBD_CMD_CACHE && !below(6))
		flags |= NBD_CMD_FLAG_FUA;
	if (command == NBD_CMD_WRITE_ZEROES && !below(3))
		flags |= NBD_CMD_FLAG_NO_HOLE;
	if (command == NBD_CMD_READ && both(NBD_FLAG_SEND_DF) && !below(4))
		flags |= NBD_CMD_FLAG_DF;
	if (command == NBD_CMD_BLOCK_STATUS && !below(3))
		flags |= NBD_CMD_FLAG_REQ_ONE;
	return flags;
}

static bool modifies(const struct op *op)
{
	return op->command == NBD_CMD_WRITE || op->command == NBD_CMD_TRIM ||
	       op->command == NBD_CMD_WRITE_ZEROES;
}

/* Would their order matter? */
static bool conflict(const struct op *a, const struct op *b)
{
	return (modifies(a) || modifies(b)) && a->offset < b->offset + b->length &&
	       b->offset < a->offset + a->length;
}

static uint64_t some_length(uint16_t command)
{
	bool moves = command == NBD_CMD_READ || command == NBD_CMD_WRITE;
	uint64_t n;

	switch (below(6)) {
	case 0:
		n = 1 + below(2000);
		break;
	case 1:
		n = 1 + below(moves ? LONGEST : size);
		break;
	default:
		n = 512ULL << below(9);
		break;
	}
	return n < size ? n : size;
}

/* Beyond the end of the export, by little or by much: refused alike. */
static void make_wrong(struct op *op)
{
	op->offset = below(2) ? size - below(op->length) : size + below(1ULL << (1 + below(61)));
	op->flags = 0;
}

/* One more request, if it goes with the others. False: it does not. */
static bool add_op(uint64_t *bytes)
{
	struct op *op = &ops[nops];
	bool wrong = !below(40), moves;

	*op = (struct op){ .command = some_command() };
	op->flags = some_flags(op->command);
	if (op->command != NBD_CMD_FLUSH) {
		op->length = some_length(op->command);
		op->offset = below(size - op->length + 1);
		if (below(3))
			op->offset -= op->offset % 4096;
		if (wrong)
			make_wrong(op);
	}
	for (unsigned i = 0; i < nops; i++)
		if (op->length && ops[i].length && conflict(op, &ops[i]))
			return false;
	moves = op->command == NBD_CMD_READ || op->command == NBD_CMD_WRITE;
	if (moves && *bytes + op->length > MOST_BYTES)
		return false;
	*bytes += moves ? op->length : 0;
	if (op->command == NBD_CMD_WRITE) {
		bool plain = !below(4), zero = plain && below(2);

		op->payload = memory(op->length);
		for (uint64_t i = 0; i < op->length && !zero; i++)
			op->payload[i] = plain ? 'x' : (uint8_t)(sim_random(&dice) >> 8);
	}
	for (int k = 0; op->command == NBD_CMD_READ && k < 2; k++) {
		op->a[k].data = memory(op->length);
		op->a[k].seen = memory(op->length);
	}
	nops++;
	return true;
}

/* ---- what came of it ---- */

static void compare_bytes(const struct op *op)
{
	for (uint64_t i = 0; i < op->length; i++) {
		uint64_t at = op->offset + i;

		if (trimmed[at])
			continue;
		for (int k = 0; k < 2; k++)
			if (op->a[k].data[i] != model[at])
				differs(&servers[k], op, "byte %llu is %#x, expected %#x",
					(unsigned long long)at, op->a[k].data[i], model[at]);
		compared++;
	}
}

static void apply(const struct op *op)
{
	switch (op->command) {
	case NBD_CMD_WRITE:
		memcpy(model + op->offset, op->payload, op->length);
		break;
	case NBD_CMD_WRITE_ZEROES:
		memset(model + op->offset, 0, op->length);
		break;
	}
	if (modifies(op))
		memset(trimmed + op->offset, op->command == NBD_CMD_TRIM, op->length);
}

static void judge(struct op *op)
{
	bool inside = op->offset <= size && op->length <= size - op->offset;

	if (op->a[0].error != op->a[1].error)
		differs(NULL, op, "A says %u, B says %u", op->a[0].error, op->a[1].error);
	if (!op->a[0].error != inside)
		differs(NULL, op, "both say %u", op->a[0].error);
	refused += !inside;
	requests++;
	if (inside && op->command == NBD_CMD_READ)
		compare_bytes(op);
	if (inside)
		apply(op);
	free(op->payload);
	for (int k = 0; k < 2; k++) {
		free(op->a[k].data);
		free(op->a[k].seen);
	}
}

static void run_session(void)
{
	session++;
	attach(&servers[0], (enum mode)below(3));
	attach(&servers[1], (enum mode)below(2));
	for (unsigned i = 0; i < SESSION; i++) {
		uint64_t bytes = 0, want = 1 + below(BATCH);
		size_t piece = below(4) ? SIZE_MAX : 1 + below(5000);

		nops = 0;
		while (nops < want && add_op(&bytes))
			;
		for (int k = 0; nops && k < 2; k++)
			run_batch(&servers[k], piece);
		for (unsigned k = 0; k < nops; k++)
			judge(&ops[k]);
	}
	detach(&servers[0]);
	detach(&servers[1]);
}

static uint64_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

int main(int argc, char **argv)
{
	uint64_t end;

	if (argc != 6) {
		fprintf(stderr, "usage: differential SOCKET-A SOCKET-B SIZE SEED SECONDS\n");
		return 2;
	}
	for (unsigned k = 0; k < 2; k++)
		servers[k] = (struct server){ .path = argv[1 + k], .which = k };
	size = strtoull(argv[3], NULL, 10);
	seed = strtoull(argv[4], NULL, 10);
	dice.state = seed;
	model = memory(size);
	trimmed = memory(size);
	/* At least some sessions, however slow it is. */
	for (end = seconds() + strtoull(argv[5], NULL, 10); session < 8 || seconds() < end;)
		run_session();
	printf("%llu requests (%llu of them refused) in %u sessions, %llu bytes compared, "
	       "%llu extents\n", (unsigned long long)requests, (unsigned long long)refused, session,
	       (unsigned long long)compared, (unsigned long long)extents_seen);
	return 0;
}
