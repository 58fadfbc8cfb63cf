/* Rows: what extended headers add, beside all the rows that run with them too. */
#include <string.h>

#include "tests/conformance/rows.h"
#include "tests/conformance/wire.h"

enum { K = 1024 };
#define GIB4 (UINT64_C(1) << 32)

void ext_then_structured(struct test *t)
{
	struct conn *c = greet(t);

	negotiate(c, EXTENDED);
	expect_rep(c, option(c, OPT_STRUCTURED_REPLY, NULL, 0), ERR_EXT_HEADER_REQD);
	go(c);
	alive(c);
}

void structured_then_ext(struct test *t)
{
	struct conn *c = greet(t);

	expect_ack(c, option(c, OPT_STRUCTURED_REPLY, NULL, 0));
	negotiate(c, EXTENDED);
	go(c);
	alive(c);
}

void ext_export_name(struct test *t)
{
	const char *name = t->target->uri.name;
	struct conn *c = greet(t);

	negotiate(c, EXTENDED);
	option_send(c, OPT_EXPORT_NAME, name, strlen(name));
	expect_close(c, "EXPORT_NAME after EXTENDED_HEADERS");
}

void ext_write_unflagged(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);
	uint8_t *old = pattern(c, n, 110), *new = pattern(c, n, 111);
	struct request *rq;

	write_at(c, 0, n, old);
	/*
	 * WRITE must have the flag. Some clients (QEMU 10) forget it and send the data: it may be
	 * executed as if the flag were there, or refused, or be the end; but it is one of these.
	 */
	rq = submit_raw(c, CMD_WRITE, 0, 0, n, new, n);
	if (conn_readable(c, 1000 * t->target->timeout) && c->closed && c->in_at == c->in_end) {
		c = enter(t);
		expect_data(c, 0, n, old, "after a WRITE without PAYLOAD_LEN that ended it");
		return;
	}
	finish(c, rq);
	if (rq->error) {
		expect_error(c, rq, E_INVAL);
		c = enter(t); /* out of step, if it took the data for requests */
	}
	expect_data(c, 0, n, rq->error ? old : new, "after a WRITE without PAYLOAD_LEN");
}

void ext_payload_unexpected(struct test *t)
{
	static const struct { unsigned command; uint16_t flag; } all[] = {
		{ CMD_READ, TF_HAS_FLAGS }, { CMD_FLUSH, TF_FLUSH }, { CMD_CACHE, TF_CACHE },
		{ 99, TF_HAS_FLAGS }, { CMD_READ, TF_HAS_FLAGS },
	};
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!(c->flags & all[i].flag))
			continue;
		expect_error(c, finish(c, submit_raw(c, all[i].command, FLAG_PAYLOAD_LEN, 0, n,
						     pattern(c, n, 111), n)), E_INVAL);
		alive(c);
	}
}

void ext_payload_unexpected_write(struct test *t)
{
	static const struct { unsigned command; uint16_t flag; } all[] = {
		{ CMD_TRIM, TF_TRIM }, { CMD_WRITE_ZEROES, TF_WRITE_ZEROES },
	};
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);
	uint8_t *old = pattern(c, n, 112);

	write_at(c, 0, n, old);
	for (size_t i = 0; i < 2; i++) {
		if (c->flags & all[i].flag)
			expect_error(c, finish(c, submit_raw(c, all[i].command, FLAG_PAYLOAD_LEN, 0,
							     n, pattern(c, n, 113), n)), E_INVAL);
	}
	expect_data(c, 0, n, old, "after refused requests");
}

void ext_payload_huge(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = UINT64_C(1) << 40;

	submit_raw(c, CMD_WRITE, FLAG_PAYLOAD_LEN, 0, n, pattern(c, 4096, 114), 4096);
	if (!conn_drain(c))
		miss(t, "a payload of 1 TiB: expected the connection to be closed, it stays open");
	alive(enter(t));
}

/* Lengths that are legal only if somebody forgets their upper half, or lets a sum wrap around. */
static void too_long(struct conn *c, unsigned command, uint32_t error)
{
	uint64_t n = block(c, 4096), high = c->size < GIB4 ? GIB4 : UINT64_C(1) << 62;

	expect_error(c, run(c, command, 0, 0, high + n, NULL), error);
	expect_error(c, run(c, command, 0, n, high, NULL), error);
	expect_error(c, run(c, command, 0, n, 0 - n, NULL), error);
	expect_error(c, run(c, command, 0, 2 * n, 0 - n, NULL), error);
	expect_error(c, run(c, command, 0, 0, UINT64_C(1) << 63, NULL), error);
	alive(c);
}

void ext_read_long(struct test *t)
{
	too_long(enter(t), CMD_READ, E_INVAL);
}

void ext_cache_long(struct test *t)
{
	too_long(enter(t), CMD_CACHE, E_INVAL);
}

static void too_long_write(struct test *t, unsigned command, uint32_t error)
{
	struct conn *c = enter(t);
	uint64_t n = 3 * block(c, 4096);
	uint8_t *data = pattern(c, n, 115);

	write_at(c, 0, n, data);
	too_long(c, command, error);
	expect_data(c, 0, n, data, "after requests that are too long");
}

void ext_trim_long(struct test *t)
{
	too_long_write(t, CMD_TRIM, E_INVAL);
}

void ext_zeroes_long(struct test *t)
{
	too_long_write(t, CMD_WRITE_ZEROES, E_NOSPC);
}

void ext_status_long(struct test *t)
{
	too_long(enter_meta(t, true), CMD_BLOCK_STATUS, E_INVAL);
}

/* ---- exports above 4 GiB ---- */

void big_edges(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536), at = GIB4 - n;
	uint8_t *low = pattern(c, 2 * n, 116), *high = pattern(c, 2 * n, 117);

	write_at(c, 0, 2 * n, low);
	write_at(c, at, 2 * n, high);
	expect_data(c, 0, 2 * n, low, "low, after a write across 4 GiB");
	expect_data(c, at, 2 * n, high, "across 4 GiB");
	expect_data(c, GIB4, n, high + n, "above 4 GiB");
}

void big_zeroes(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536), end = end_of(c), length = GIB4 + n;
	const uint64_t inside[] = { n, 2 * n, GIB4 / 2, GIB4 - n, GIB4 };
	uint8_t *data = pattern(c, n, 118);
	struct request *rq;

	write_at(c, 0, n, data);
	for (size_t i = 0; i < 5; i++)
		write_at(c, inside[i], n, data);
	write_at(c, length + n, n, data);
	rq = run(c, CMD_WRITE_ZEROES, 0, n, length, NULL);
	if (rq->error) {
		expect_error(c, rq, E_INVAL);
		advise(t, "%s: %s", rq->words, error_name(rq->error));
		return;
	}
	expect_data(c, 0, n, data, "before 4 GiB of zeroes");
	for (size_t i = 0; i < 5; i++)
		expect_data(c, inside[i], n, NULL, "inside 4 GiB of zeroes");
	expect_data(c, length + n, n, data, "after 4 GiB of zeroes");
	expect_ok(c, run(c, CMD_WRITE_ZEROES, 0, 0, end, NULL));
	expect_data(c, length + n, n, NULL, "the whole export zeroed");
}

void big_trim(struct test *t)
{
	struct conn *c = enter(t);

	survives(c, CMD_TRIM, 0, 0, end_of(c));
	expect_ok(c, run(c, CMD_TRIM, 0, block(c, 65536), GIB4, NULL));
}

void big_cache(struct test *t)
{
	struct conn *c = enter(t);

	survives(c, CMD_CACHE, 0, 0, end_of(c));
}

void big_status(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	uint64_t n = block(c, 65536);

	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, end_of(c), NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, FLAG_REQ_ONE, 0, end_of(c), NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, GIB4 - n, 2 * n, NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, GIB4, n, NULL));
}

/* ---- BLOCK_STATUS with payload ---- */

static struct request *subset(struct conn *c, unsigned flags, uint64_t offset, uint64_t length,
			      const uint32_t *ids, unsigned nids)
{
	uint8_t *b = grab(c->t, 8 + 4 * nids), *p = put64(b, length);
	struct request *rq = announce(c, CMD_BLOCK_STATUS, flags | FLAG_PAYLOAD_LEN, offset, length);

	for (unsigned i = 0; i < nids; i++)
		p = put32(p, ids[i]);
	rq->ids = ids;
	rq->nids = nids;
	send_header(c, MAGIC_REQUEST_EXT, CMD_BLOCK_STATUS, flags | FLAG_PAYLOAD_LEN, rq->cookie,
		    offset, 8 + 4 * nids);
	conn_send(c, b, 8 + 4 * nids);
	return finish(c, rq);
}

void payload_subsets(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	uint32_t *ids = grab(t, c->ncontexts * sizeof(*ids));
	unsigned n = c->ncontexts;

	for (unsigned i = 0; i < n; i++)
		ids[i] = c->contexts[n - 1 - i].id;
	expect_ok(c, subset(c, 0, 0, 512 * K, ids, n));
	for (unsigned i = 0; i < n; i++) {
		expect_ok(c, subset(c, 0, 0, 512 * K, ids + i, 1));
		expect_ok(c, subset(c, FLAG_REQ_ONE, block(c, 4096), block(c, 4096), ids + i, 1));
	}
	/* Without payload it is all of them, as before. */
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, 512 * K, NULL));
}

void payload_wrong(struct test *t)
{
	struct conn *c = enter_meta(t, false);
	uint32_t id = c->contexts[0].id;
	const uint32_t twice[] = { id, id }, unknown[] = { id, id ^ 0x5a5a5a5a };
	static const size_t sizes[] = { 1, 4, 7, 9, 13, 15 };

	expect_error(c, subset(c, 0, 0, 64 * K, twice, 2), E_INVAL);
	expect_error(c, subset(c, 0, 0, 64 * K, unknown, 2), E_INVAL);
	expect_error(c, subset(c, 0, 0, 64 * K, unknown + 1, 1), E_INVAL);
	expect_error(c, subset(c, 0, end_of(c), 64 * K, &id, 1), E_INVAL);
	expect_error(c, subset(c, 0, 0, UINT64_C(1) << 63, &id, 1), E_INVAL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		expect_error(c, finish(c, submit_raw(c, CMD_BLOCK_STATUS, FLAG_PAYLOAD_LEN, 0,
						     sizes[i], pattern(c, sizes[i], 119),
						     sizes[i])), E_INVAL);
	expect_ok(c, subset(c, 0, 0, 64 * K, &id, 1));
	alive(c);
}

void payload_many(struct test *t)
{
	enum { N = 20000 };
	struct conn *c = enter_meta(t, false);
	uint32_t *ids = grab(t, N * sizeof(*ids));

	for (unsigned i = 0; i < N; i++)
		ids[i] = c->contexts[0].id;
	expect_error(c, subset(c, 0, 0, 64 * K, ids, N), E_INVAL);
	alive(c);
}

void payload_not_offered(struct test *t)
{
	struct conn *c = enter_meta(t, false);
	uint32_t id = c->contexts[0].id;

	expect_error(c, subset(c, 0, 0, 64 * K, &id, 1), E_INVAL);
	alive(c);
}

void payload_flag(struct test *t)
{
	struct conn *c = enter(t);

	if (c->flags & TF_STATUS_PAYLOAD)
		miss(t, "flags %#x: BLOCK_STAT_PAYLOAD without a metadata context", c->flags);
}
