/* Rows: many requests at once, the end of a connection, several connections, bytes in odd pieces. */
#include <string.h>

#include "tests/conformance/rows.h"
#include "tests/conformance/wire.h"

enum { K = 1024, DEPTH = 64 };

static void disconnect(struct conn *c)
{
	send_header(c, c->mode == EXTENDED ? MAGIC_REQUEST_EXT : MAGIC_REQUEST, CMD_DISC, 0, 0, 0, 0);
}

void cookies(struct test *t)
{
	static const uint64_t odd[] = {
		0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(0x6744669825609513), UINT32_MAX,
	};
	struct conn *c = enter(t);

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		c->cookie = odd[i];
		submit(c, CMD_READ, 0, 0, block(c, 512), NULL);
	}
	while (c->pending)
		finish(c, c->pending);
	/* One that is no longer in use may be used again. */
	for (int i = 0; i < 4; i++) {
		c->cookie = 7;
		alive(c);
	}
}

void pipeline_reads(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096), count = 256 * K / n;
	const uint8_t *all = read_at(c, 0, 256 * K);
	struct request *rq[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++)
		rq[i] = submit(c, CMD_READ, 0, i % count * n, n, NULL);
	/* Whichever is asked for, all that comes must fit. */
	for (unsigned i = DEPTH; i-- > 0;) {
		finish(c, rq[i]);
		expect_ok(c, rq[i]);
		if (memcmp(rq[i]->data, all + i % count * n, n))
			fail(t, "%s: another block's data", rq[i]->words);
	}
}

/* Good and bad ones in a row: errors must not shift what follows. */
void pipeline_errors(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 512), end = end_of(c);
	struct request *good[DEPTH / 2], *bad[DEPTH / 2];

	for (unsigned i = 0; i < DEPTH / 2; i++) {
		good[i] = submit(c, CMD_READ, 0, 0, n, NULL);
		bad[i] = submit(c, i % 2 ? CMD_READ : 99, 0, end, n, NULL);
	}
	for (unsigned i = 0; i < DEPTH / 2; i++) {
		expect_ok(c, finish(c, good[i]));
		expect_error(c, finish(c, bad[i]), E_INVAL);
	}
}

void pipeline_writes(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096), count = 512 * K / n;
	struct request *rq[DEPTH];

	if (count > DEPTH)
		count = DEPTH;
	for (unsigned i = 0; i < count; i++)
		rq[i] = submit(c, CMD_WRITE, i % 3 ? 0 : c->flags & TF_FUA ? FLAG_FUA : 0, i * n, n,
			       pattern(c, n, 100 + i));
	for (unsigned i = 0; i < count; i++)
		expect_ok(c, finish(c, rq[i]));
	for (unsigned i = 0; i < count; i++)
		rq[i] = submit(c, CMD_READ, 0, i * n, n, NULL);
	for (unsigned i = 0; i < count; i++) {
		expect_ok(c, finish(c, rq[i]));
		if (memcmp(rq[i]->data, pattern(c, n, 100 + i), n))
			fail(t, "%s: not what was written there", rq[i]->words);
	}
}

/* One block is written again and again, each time after the answer. */
void write_again(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);

	for (unsigned i = 0; i < 32; i++) {
		write_at(c, n, n, pattern(c, n, i));
		expect_data(c, n, n, pattern(c, n, i), "a block that is written again");
	}
}

void disc_closes(struct test *t)
{
	struct conn *c = enter(t);

	alive(c);
	disconnect(c);
	expect_close(c, "DISC");
}

void disc_outstanding(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536);
	struct request *rq[16];

	for (unsigned i = 0; i < 16; i++)
		rq[i] = submit(c, CMD_READ, 0, i % 4 * n, n, NULL);
	disconnect(c);
	for (unsigned i = 0; i < 16; i++)
		expect_ok(c, finish(c, rq[i]));
	expect_close(c, "DISC after the last reply");
}

void disc_writes(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 16384);

	for (unsigned i = 0; i < 8; i++)
		submit(c, CMD_WRITE, 0, i * n, n, pattern(c, n, 200 + i));
	disconnect(c);
	if (!conn_drain(c))
		miss(t, "DISC: expected the connection to be closed, it stays open");
	c = enter(t);
	for (unsigned i = 0; i < 8; i++)
		expect_data(c, i * n, n, pattern(c, n, 200 + i), "written before DISC");
}

static void wrong_magic(struct test *t, uint32_t magic)
{
	struct conn *c = enter(t);

	alive(c);
	send_header(c, magic, CMD_READ, 0, 5, 0, block(c, 512));
	/* Some answer with an error before they close; none may do as if it were a request. */
	if (conn_readable(c, 1000 * t->target->timeout) && c->in_end - c->in_at >= 16 &&
	    get32(c->in + c->in_at) == MAGIC_SIMPLE && !get32(c->in + c->in_at + 4))
		fail(t, "request magic %#x: expected the end, came success", magic);
	if (!conn_drain(c))
		miss(t, "request magic %#x: expected the connection to be closed, it stays open",
		     magic);
}

void magic_wrong(struct test *t)
{
	wrong_magic(t, MAGIC_REQUEST ^ 1);
	wrong_magic(t, 0);
	wrong_magic(t, MAGIC_SIMPLE);
	wrong_magic(t, t->row->mode == EXTENDED ? MAGIC_REQUEST : MAGIC_REQUEST_EXT);
}

void pieces_header(struct test *t)
{
	struct conn *c = enter(t);
	uint32_t magic = c->mode == EXTENDED ? MAGIC_REQUEST_EXT : MAGIC_REQUEST;
	uint8_t h[64];
	size_t n;

	for (int i = 0; i < 3; i++) {
		struct request *rq = announce(c, CMD_READ, 0, 0, block(c, 512));

		n = header(c, h, magic, CMD_READ, 0, rq->cookie, 0, block(c, 512));
		for (size_t k = 0; k < n; k++)
			conn_send(c, h + k, 1);
		expect_ok(c, finish(c, rq));
	}
}

void pieces_payload(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536);
	uint8_t *data = pattern(c, n, 60);
	struct request *rq;
	size_t part;

	rq = submit(c, CMD_WRITE, 0, 0, n, NULL);
	for (size_t at = 0, size = 1; at < n; at += part, size = size * 3 % 8191 + 1) {
		part = n - at < size ? (size_t)(n - at) : size;
		conn_send(c, data + at, part);
	}
	expect_ok(c, finish(c, rq));
	expect_data(c, 0, n, data, "written in small pieces");
}

/* The end in the middle of a payload: nobody else may notice. */
void gone_in_payload(struct test *t)
{
	struct conn *other = enter(t), *c;
	uint64_t n = block(other, 65536);

	write_at(other, 2 * n, n, pattern(other, n, 61));
	for (size_t part = 0; part < n; part += (size_t)n / 4) {
		c = enter(t);
		submit(c, CMD_WRITE, 0, 0, n, NULL);
		if (part)
			conn_send(c, pattern(c, part, 62), part);
		conn_close(c);
		expect_data(other, 2 * n, n, pattern(other, n, 61), "another connection");
	}
	alive(enter(t));
}

/* ---- several connections ---- */

void multi_visible(struct test *t)
{
	struct conn *c[4];
	uint64_t n = block(c[0] = enter(t), 4096);

	for (int i = 1; i < 4; i++)
		c[i] = enter(t);
	for (unsigned i = 0; i < 16; i++) {
		write_at(c[i % 4], i % 8 * n, n, pattern(c[0], n, 300 + i));
		for (int k = 0; k < 4; k++)
			expect_data(c[k], i % 8 * n, n, pattern(c[0], n, 300 + i),
				    "written on another connection");
	}
}

void multi_flush(struct test *t)
{
	struct conn *a = enter(t), *b = enter(t);
	uint64_t n = block(a, 4096);

	for (unsigned i = 0; i < 8; i++) {
		write_at(a, i * n, n, pattern(a, n, 400 + i));
		if (a->flags & TF_FLUSH)
			expect_ok(b, run(b, CMD_FLUSH, 0, 0, 0, NULL));
		if (a->flags & TF_FUA)
			expect_ok(b, run(b, CMD_WRITE, FLAG_FUA, end_of(b) - n, n,
					 pattern(b, n, 500 + i)));
		expect_data(a, i * n, n, pattern(a, n, 400 + i), "after a flush elsewhere");
	}
}

void multi_same(struct test *t)
{
	struct conn *a = enter(t), *b = enter(t);

	if (a->size != b->size || a->flags != b->flags)
		fail(t, "two connections: size %llu and %llu, flags %#x and %#x",
		     (unsigned long long)a->size, (unsigned long long)b->size, a->flags, b->flags);
	if (memcmp(read_at(a, 0, 64 * K), read_at(b, 0, 64 * K), 64 * K))
		fail(t, "two connections read different bytes");
}
