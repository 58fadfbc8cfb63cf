/*
 * Rows: READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES, DISC, errors and edges. Most run three times: with
 * simple replies, structured replies, extended headers.
 */
#include <string.h>

#include "tests/conformance/rows.h"
#include "tests/conformance/wire.h"

enum { K = 1024, M = K * K };

/* Ranges that leave the export, for a command that has no payload. */
static void outside(struct conn *c, unsigned command, uint32_t error)
{
	uint64_t n = block(c, 512), end = end_of(c), far = 0 - block(c, 65536);

	expect_error(c, run(c, command, 0, end, n, NULL), error);
	expect_error(c, run(c, command, 0, end - n, 2 * n, NULL), error);
	expect_error(c, run(c, command, 0, block(c, c->size + 65536), n, NULL), error);
	expect_error(c, run(c, command, 0, UINT64_C(1) << 63, n, NULL), error);
	expect_error(c, run(c, command, 0, far, n, NULL), error);
	expect_error(c, run(c, command, 0, far, block(c, 65536), NULL), error);
	expect_error(c, run(c, command, 0, far, 2 * block(c, 65536), NULL), error);
	alive(c);
}

/* ---- READ ---- */

void read_basic(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t end = end_of(c), n = block(c, 512);
	const uint8_t *a, *b;

	a = read_at(c, 0, block(c, 4096));
	b = read_at(c, 0, block(c, 4096));
	if (memcmp(a, b, block(c, 4096)))
		fail(t, "two reads of the same bytes differ");
	read_at(c, end - n, n);
	a = read_at(c, 0, 256 * K);
	for (uint64_t at = 0; at < 256 * K; at += 64 * K) {
		b = read_at(c, at, 64 * K);
		if (memcmp(a + at, b, 64 * K))
			fail(t, "a read at %llu and a larger one differ", (unsigned long long)at);
	}
}

void read_odd(struct test *t)
{
	struct conn *c = enter(t);
	const uint8_t *all = read_at(c, 0, 64 * K);
	static const struct { uint64_t at, n; } odd[] = {
		{ 0, 1 }, { 1, 1 }, { 511, 2 }, { 4095, 4098 }, { 513, 1000 }, { 12345, 54321 - 12345 },
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (memcmp(all + odd[i].at, read_at(c, odd[i].at, odd[i].n), odd[i].n))
			fail(t, "a read of %llu bytes at %llu and a larger one differ",
			     (unsigned long long)odd[i].n, (unsigned long long)odd[i].at);
	}
	read_at(c, c->size - 1, 1);
}

void read_outside(struct test *t)
{
	outside(enter(t), CMD_READ, E_INVAL);
}

void read_large(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = t->target->most < 32 * M ? t->target->most : 32 * M;
	const uint8_t *data;

	n = n < c->size ? n : c->size;
	n = n / c->min * c->min;
	data = read_at(c, 0, n);
	if (memcmp(data + n - 64 * K, read_at(c, n - 64 * K, 64 * K), 64 * K))
		fail(t, "a read of %llu bytes and a smaller one differ", (unsigned long long)n);
}

/* Refused, answered in full, or the end: all are legal, but not half of it. */
void read_too_large(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = (UINT64_C(65) * M + t->target->min);
	struct request *rq;

	if (t->target->most > n)
		not_offered(t, "a limit below 65 MiB");
	rq = submit(c, CMD_READ, 0, 0, n, NULL);
	if (conn_readable(c, 1000 * t->target->timeout) && c->closed && c->in_at == c->in_end)
		miss(t, "%s: the server closed the connection", rq->words);
	finish(c, rq);
	if (!rq->error && n > c->size)
		fail(t, "%s: success beyond the end", rq->words);
	alive(c);
}

void unaligned(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t half = c->min / 2, min = c->min;

	expect_error(c, run(c, CMD_READ, 0, half, min, NULL), E_INVAL);
	expect_error(c, run(c, CMD_READ, 0, 0, half, NULL), E_INVAL);
	if (c->flags & TF_CACHE)
		expect_error(c, run(c, CMD_CACHE, 0, half, min, NULL), E_INVAL);
	alive(c);
}

void unaligned_write(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t half = c->min / 2, min = c->min;
	uint8_t *old = pattern(c, 2 * min, 4), *new = pattern(c, min, 5);

	write_at(c, 0, 2 * min, old);
	expect_error(c, run(c, CMD_WRITE, 0, half, min, new), E_INVAL);
	expect_error(c, run(c, CMD_WRITE, 0, 0, half, new), E_INVAL);
	if (c->flags & TF_WRITE_ZEROES)
		expect_error(c, run(c, CMD_WRITE_ZEROES, 0, half, min, NULL), E_INVAL);
	if (c->flags & TF_TRIM)
		expect_error(c, run(c, CMD_TRIM, 0, half, half, NULL), E_INVAL);
	expect_data(c, 0, 2 * min, old, "after refused requests");
}

/* ---- commands and flags that are not there ---- */

void command_unknown(struct test *t)
{
	static const unsigned commands[] = { CMD_RESIZE, 9, 100, 0x7fff, 0xffff };
	struct conn *c = enter(t);

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		expect_error(c, run(c, commands[i], 0, 0, block(c, 512), NULL), E_INVAL);
	alive(c);
}

static void refused_flag(struct conn *c, unsigned command, unsigned flag)
{
	bool range = command != CMD_FLUSH;

	expect_error(c, run(c, command, flag, 0, range ? block(c, 512) : 0, NULL), E_INVAL);
}

void flags_unknown(struct test *t)
{
	struct conn *c = enter(t);

	for (unsigned bit = 6; bit < 16; bit++)
		refused_flag(c, CMD_READ, 1U << bit);
	if (c->flags & TF_FLUSH)
		refused_flag(c, CMD_FLUSH, 1 << 15);
	if (c->flags & TF_CACHE)
		refused_flag(c, CMD_CACHE, 1 << 15);
	alive(c);
}

void flags_misplaced(struct test *t)
{
	struct conn *c = enter(t);

	refused_flag(c, CMD_READ, FLAG_NO_HOLE);
	refused_flag(c, CMD_READ, FLAG_REQ_ONE);
	refused_flag(c, CMD_READ, FLAG_FAST_ZERO);
	if (c->mode != EXTENDED)
		refused_flag(c, CMD_READ, FLAG_PAYLOAD_LEN);
	if (c->flags & TF_FLUSH)
		refused_flag(c, CMD_FLUSH, FLAG_NO_HOLE);
	if (c->flags & TF_CACHE)
		refused_flag(c, CMD_CACHE, FLAG_DF);
	alive(c);
}

void df_not_offered(struct test *t)
{
	struct conn *c = enter(t);

	refused_flag(c, CMD_READ, FLAG_DF);
	alive(c);
}

void fua_not_offered(struct test *t)
{
	struct conn *c = enter(t);

	refused_flag(c, CMD_READ, FLAG_FUA);
	alive(c);
}

void flags_write(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);
	uint8_t *old = pattern(c, n, 6), *new = pattern(c, n, 7);

	write_at(c, 0, n, old);
	expect_error(c, run(c, CMD_WRITE, 1 << 15, 0, n, new), E_INVAL);
	expect_error(c, run(c, CMD_WRITE, FLAG_NO_HOLE, 0, n, new), E_INVAL);
	expect_error(c, run(c, CMD_WRITE, FLAG_DF, 0, n, new), E_INVAL);
	if (c->flags & TF_TRIM)
		refused_flag(c, CMD_TRIM, FLAG_NO_HOLE);
	if (c->flags & TF_WRITE_ZEROES) {
		refused_flag(c, CMD_WRITE_ZEROES, FLAG_DF);
		refused_flag(c, CMD_WRITE_ZEROES, FLAG_REQ_ONE);
	}
	expect_data(c, 0, n, old, "after refused requests");
}

void not_advertised(struct test *t)
{
	static const struct { unsigned command; uint16_t flag; } optional[] = {
		{ CMD_FLUSH, TF_FLUSH }, { CMD_TRIM, TF_TRIM }, { CMD_CACHE, TF_CACHE },
		{ CMD_WRITE_ZEROES, TF_WRITE_ZEROES },
	};
	struct conn *c = enter(t);
	unsigned lacking = 0;

	for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
		if (c->flags & optional[i].flag)
			continue;
		lacking++;
		survives(c, optional[i].command, 0, 0,
			 optional[i].command == CMD_FLUSH ? 0 : block(c, 512));
	}
	if (!lacking)
		not_offered(t, "all commands are offered");
}

void fua_everywhere(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);
	uint8_t *data = pattern(c, n, 8);
	bool writable = !(c->flags & TF_READ_ONLY) && !t->target->read_only;

	expect_ok(c, run(c, CMD_READ, FLAG_FUA, 0, n, NULL));
	if (c->flags & TF_FLUSH)
		expect_ok(c, run(c, CMD_FLUSH, FLAG_FUA, 0, 0, NULL));
	if (c->flags & TF_CACHE && !run(c, CMD_CACHE, 0, 0, n, NULL)->error)
		expect_ok(c, run(c, CMD_CACHE, FLAG_FUA, 0, n, NULL));
	if (!writable)
		return;
	expect_ok(c, run(c, CMD_WRITE, FLAG_FUA, 0, n, data));
	expect_data(c, 0, n, data, "after a FUA write");
	if (c->flags & TF_WRITE_ZEROES) {
		expect_ok(c, run(c, CMD_WRITE_ZEROES, FLAG_FUA, 0, n, NULL));
		expect_data(c, 0, n, NULL, "after FUA zeroes");
	}
	if (c->flags & TF_TRIM)
		expect_ok(c, run(c, CMD_TRIM, FLAG_FUA, 0, n, NULL));
}

/* ---- WRITE ---- */

void write_basic(struct test *t)
{
	struct conn *c = enter(t);
	static const uint32_t sizes[] = { 512, 4096, 16384, 65536, 131072 };
	uint64_t unit = block(c, 4096), end = end_of(c);
	uint8_t *around = pattern(c, 512 * K, 9), *data;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t n = block(c, sizes[i]);

		write_at(c, 0, 512 * K, around);
		data = pattern(c, n, 10 + i);
		write_at(c, 2 * unit, n, data);
		expect_data(c, 2 * unit, n, data, "what was written");
		expect_data(c, 0, 2 * unit, around, "before what was written");
		expect_data(c, 2 * unit + n, 64 * K, around + 2 * unit + n, "after what was written");
	}
	data = pattern(c, unit, 20);
	write_at(c, end - unit, unit, data);
	expect_data(c, end - unit, unit, data, "the end of the export");
	/* What one connection has had confirmed, another reads later. */
	conn_close(c);
	c = enter(t);
	expect_data(c, end - unit, unit, data, "after a new connection");
}

void write_odd(struct test *t)
{
	static const struct { unsigned at, n; } odd[] = {
		{ 1, 1 }, { 511, 2 }, { 4095, 2 }, { 4096, 1 }, { 5000, 777 }, { 12289, 8190 },
		{ 65535, 1 }, { 30000, 12345 },
	};
	struct conn *c = enter(t);
	uint8_t *want = pattern(c, 64 * K, 21), *data;

	write_at(c, 0, 64 * K, want);
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		data = pattern(c, odd[i].n, 30 + i);
		write_at(c, odd[i].at, odd[i].n, data);
		memcpy(want + odd[i].at, data, odd[i].n);
		expect_data(c, 0, 64 * K, want, "after a write of odd bytes");
	}
}

void write_large(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = t->target->most < 32 * M ? t->target->most : 32 * M;
	uint8_t *data;

	n = n < c->size ? n : c->size;
	n = n / c->min * c->min;
	data = pattern(c, n, 40);
	write_at(c, 0, n, data);
	expect_data(c, 0, n, data, "after a large write");
}

void write_too_large(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = UINT64_C(65) * M + t->target->min;
	uint8_t *data = pattern(c, n, 41);
	struct request *rq;

	if (t->target->most > n)
		not_offered(t, "a limit below 65 MiB");
	rq = submit(c, CMD_WRITE, 0, 0, n, data);
	if (!conn_readable(c, 1000 * t->target->timeout))
		fail(t, "%s: neither an answer nor the end for %u s", rq->words, t->target->timeout);
	if (c->closed && c->in_at == c->in_end) {
		alive(enter(t));	/* the end is legal */
		return;
	}
	finish(c, rq);
	if (!rq->error && n > c->size)
		fail(t, "%s: success beyond the end", rq->words);
	/* The end may come after the answer as well. */
	rq = submit(c, CMD_READ, 0, 0, block(c, 512), NULL);
	if (conn_readable(c, 1000 * t->target->timeout) && c->closed && c->in_at == c->in_end)
		alive(enter(t));
	else
		finish(c, rq);
}

void write_outside(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096), end = end_of(c), far = 0 - block(c, 65536);
	uint8_t *old = pattern(c, n, 42), *new = pattern(c, 2 * block(c, 65536), 43);

	write_at(c, end - n, n, old);
	write_at(c, 0, n, old);
	expect_error(c, run(c, CMD_WRITE, 0, end, n, new), E_NOSPC);
	expect_error(c, run(c, CMD_WRITE, 0, end - n, 2 * n, new), E_NOSPC);
	expect_error(c, run(c, CMD_WRITE, 0, UINT64_C(1) << 63, n, new), E_NOSPC);
	expect_error(c, run(c, CMD_WRITE, 0, far, block(c, 65536), new), E_NOSPC);
	expect_error(c, run(c, CMD_WRITE, 0, far, 2 * block(c, 65536), new), E_NOSPC);
	expect_data(c, end - n, n, old, "after a refused write at the end");
	expect_data(c, 0, n, old, "after a refused write that wraps around");
}

void write_read_only(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);
	uint8_t *old = grab(t, n), *new = pattern(c, n, 44);

	memcpy(old, read_at(c, 0, n), n);
	expect_error(c, run(c, CMD_WRITE, 0, 0, n, new), E_PERM);
	expect_error(c, run(c, CMD_WRITE, FLAG_FUA, 0, n, new), E_PERM);
	expect_error(c, run(c, CMD_TRIM, 0, 0, n, NULL), E_PERM);
	expect_error(c, run(c, CMD_WRITE_ZEROES, 0, 0, n, NULL), E_PERM);
	expect_data(c, 0, n, old, "after refused writes");
}

/* ---- FLUSH, TRIM, CACHE, WRITE_ZEROES ---- */

void flush_basic(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096);

	expect_ok(c, run(c, CMD_FLUSH, 0, 0, 0, NULL));
	if (!(c->flags & TF_READ_ONLY) && !t->target->read_only) {
		write_at(c, 0, n, pattern(c, n, 45));
		expect_ok(c, run(c, CMD_FLUSH, 0, 0, 0, NULL));
		expect_data(c, 0, n, pattern(c, n, 45), "after a flush");
	}
	for (int i = 0; i < 16; i++)
		submit(c, CMD_FLUSH, 0, 0, 0, NULL);
	while (c->pending)
		finish(c, c->pending);
	alive(c);
}

void flush_range(struct test *t)
{
	struct conn *c = enter(t);

	/* The client must not; both answers are legal, but nothing may follow the header. */
	survives(c, CMD_FLUSH, 0, 512, 0);
	survives(c, CMD_FLUSH, 0, 0, block(c, 512));
}

void trim_basic(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = 2 * block(c, 4096);
	uint8_t *data = pattern(c, 3 * n, 46);

	write_at(c, 0, 3 * n, data);
	expect_ok(c, run(c, CMD_TRIM, 0, n, n, NULL));
	expect_data(c, 0, n, data, "before what was trimmed");
	expect_data(c, 2 * n, n, data + 2 * n, "after what was trimmed");
	write_at(c, n, n, data);
	expect_data(c, n, n, data, "written after it was trimmed");
	/* Two reads of what is undefined need not agree, but must work. */
	expect_ok(c, run(c, CMD_TRIM, 0, 0, 3 * n, NULL));
	read_at(c, 0, 3 * n);
}

void trim_outside(struct test *t)
{
	outside(enter(t), CMD_TRIM, E_INVAL);
}

void trim_large(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = end_of(c) < UINT32_MAX ? end_of(c) : block(c, UINT32_MAX - 131072);

	survives(c, CMD_TRIM, 0, 0, n);
}

void cache_basic(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536);
	struct request *rq = run(c, CMD_CACHE, 0, 0, n, NULL);

	if (rq->error && rq->error != E_INVAL)
		fail(t, "%s: expected success or EINVAL, came %s", rq->words, error_name(rq->error));
	survives(c, CMD_CACHE, 0, 0, end_of(c) < UINT32_MAX ? end_of(c) : block(c, 1U << 30));
}

void cache_outside(struct test *t)
{
	outside(enter(t), CMD_CACHE, E_INVAL);
}

void zeroes_basic(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = 2 * block(c, 4096);
	uint8_t *data = pattern(c, 3 * n, 47);

	for (unsigned flags = 0; flags <= FLAG_NO_HOLE; flags += FLAG_NO_HOLE) {
		write_at(c, 0, 3 * n, data);
		expect_ok(c, run(c, CMD_WRITE_ZEROES, flags, n, n, NULL));
		expect_data(c, n, n, NULL, "what was zeroed");
		expect_data(c, 0, n, data, "before what was zeroed");
		expect_data(c, 2 * n, n, data + 2 * n, "after what was zeroed");
		/* And where there are zeroes already. */
		expect_ok(c, run(c, CMD_WRITE_ZEROES, flags, n, n, NULL));
		expect_data(c, n, n, NULL, "zeroed again");
	}
}

void zeroes_odd(struct test *t)
{
	static const struct { unsigned at, n; } odd[] = {
		{ 1, 1 }, { 4095, 2 }, { 5000, 777 }, { 12289, 40000 },
	};
	struct conn *c = enter(t);
	uint8_t *want = pattern(c, 64 * K, 48);

	write_at(c, 0, 64 * K, want);
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		expect_ok(c, run(c, CMD_WRITE_ZEROES, 0, odd[i].at, odd[i].n, NULL));
		memset(want + odd[i].at, 0, odd[i].n);
		expect_data(c, 0, 64 * K, want, "after odd zeroes");
	}
}

void zeroes_outside(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096), end = end_of(c);
	uint8_t *data = pattern(c, n, 49);

	write_at(c, end - n, n, data);
	write_at(c, 0, n, data);
	outside(c, CMD_WRITE_ZEROES, E_NOSPC);
	expect_data(c, 0, n, data, "after refused zeroes that wrap around");
	if (run(c, CMD_WRITE_ZEROES, 0, end - n, 2 * n, NULL)->error)
		expect_data(c, end - n, n, data, "after refused zeroes at the end");
}

/* More than a payload may have. What is answered with success is zero in every part. */
void zeroes_large(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 4096), most = 256 * M, end = end_of(c);
	uint64_t length = end < most ? end : most, step = 1 * M;
	uint8_t *data = pattern(c, n, 50);
	struct request *rq;

	for (uint64_t at = 0; at + n <= length; at += step)
		write_at(c, at, n, data);
	write_at(c, length - n, n, data);
	rq = run(c, CMD_WRITE_ZEROES, 0, 0, length, NULL);
	if (rq->error) {
		if (rq->error != E_INVAL && rq->error != E_OVERFLOW)
			fail(t, "%s: expected success, EINVAL or EOVERFLOW, came %s", rq->words,
			     error_name(rq->error));
		advise(t, "%s: %s", rq->words, error_name(rq->error));
		return;
	}
	for (uint64_t at = 0; at + n <= length; at += step)
		expect_data(c, at, n, NULL, "after large zeroes");
	expect_data(c, length - n, n, NULL, "the end after large zeroes");
}

void zeroes_fast(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536);
	uint8_t *data = pattern(c, n, 51);
	struct request *rq;

	for (unsigned flags = 0; flags <= FLAG_NO_HOLE; flags += FLAG_NO_HOLE) {
		write_at(c, 0, n, data);
		rq = run(c, CMD_WRITE_ZEROES, FLAG_FAST_ZERO | flags, 0, n, NULL);
		if (rq->error && rq->error != E_NOTSUP)
			fail(t, "%s: expected success or ENOTSUP, came %s", rq->words,
			     error_name(rq->error));
		if (!rq->error)
			expect_data(c, 0, n, NULL, "after fast zeroes");
		else if (memcmp(read_at(c, 0, n), data, n))
			advise(t, "refused fast zeroes changed the export");
	}
}

void zeroes_fast_not_offered(struct test *t)
{
	struct conn *c = enter(t);

	refused_flag(c, CMD_WRITE_ZEROES, FLAG_FAST_ZERO);
	alive(c);
}

void zero_length(struct test *t)
{
	struct conn *c = enter(t);
	bool writable = !(c->flags & TF_READ_ONLY) && !t->target->read_only;

	survives(c, CMD_READ, 0, 0, 0);
	survives(c, CMD_READ, 0, end_of(c), 0);
	if (writable)
		survives(c, CMD_WRITE, 0, 0, 0);
	if (writable && c->flags & TF_TRIM)
		survives(c, CMD_TRIM, 0, 0, 0);
	if (writable && c->flags & TF_WRITE_ZEROES)
		survives(c, CMD_WRITE_ZEROES, 0, 0, 0);
	if (c->flags & TF_CACHE)
		survives(c, CMD_CACHE, 0, 0, 0);
}
