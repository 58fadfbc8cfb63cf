/* Rows: what structured replies (and extended headers) add to READ and to errors. */
#include <string.h>

#include "tests/conformance/rows.h"
#include "tests/conformance/wire.h"

enum { K = 1024 };

static uint32_t number(const struct test *t)
{
	return t->row->mode == EXTENDED ? OPT_EXTENDED_HEADERS : OPT_STRUCTURED_REPLY;
}

void option_no_data(struct test *t)
{
	struct conn *c = greet(t);

	c->excused = true;
	expect_rep(c, option(c, number(t), "data", 4), ERR_INVALID);
	in_step(c);
	negotiate(c, t->row->mode);
	go(c);
	alive(c);
}

/* ACK or an error, but what was agreed on stays. */
void option_again(struct test *t)
{
	struct conn *c = greet(t);
	struct outcome *o;

	negotiate(c, t->row->mode);
	o = option(c, number(t), NULL, 0);
	if (o->type != REP_ACK && o->type != ERR_INVALID && o->type != ERR_EXT_HEADER_REQD)
		advise(t, "the option once more: %s", reply_name(o->type));
	in_step(c);
	go(c);
	alive(c);
}

void option_refused_forgets_nothing(struct test *t)
{
	struct conn *c = greet(t);

	negotiate(c, t->row->mode);
	option(c, number(t), "data", 4);
	option(c, 99, NULL, 0);
	option(c, OPT_LIST, "data", 4);
	go(c);
	alive(c);
}

void sr_export_name(struct test *t)
{
	struct conn *c = greet(t);

	negotiate(c, STRUCTURED);
	export_name(c, !(t->target->handshake_flags & HS_NO_ZEROES));
	if (c->flags != t->target->flags[STRUCTURED])
		fail(t, "EXPORT_NAME says flags %#x, GO says %#x", c->flags,
		     t->target->flags[STRUCTURED]);
	alive(c);
}

/* Holes and data in turn, and reads that begin and end in either. */
void read_mixed(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536), size = 8 * n < 512 * K ? 8 * n : 512 * K;
	uint8_t *want = grab(t, size);
	uint64_t step = block(c, 16384);

	for (uint64_t at = 0; at < size; at += n) {
		if (at / n % 2) {
			fill(want + at, n, (unsigned)(at / n));
			write_at(c, at, n, want + at);
		} else if (c->flags & TF_WRITE_ZEROES) {
			expect_ok(c, run(c, CMD_WRITE_ZEROES, 0, at, n, NULL));
		} else {
			write_at(c, at, n, want + at);
		}
	}
	for (uint64_t at = 0; at < size; at += step) {
		expect_data(c, at, size - at, want + at, "holes and data");
		expect_data(c, at, step, want + at, "holes and data");
		expect_data(c, 0, size - at, want, "holes and data");
	}
}

void read_mixed_odd(struct test *t)
{
	struct conn *c = enter(t);
	uint8_t *want = pattern(c, 256 * K, 70);

	write_at(c, 0, 256 * K, want);
	if (c->flags & TF_WRITE_ZEROES) {
		expect_ok(c, run(c, CMD_WRITE_ZEROES, 0, 64 * K, 64 * K, NULL));
		memset(want + 64 * K, 0, 64 * K);
	}
	for (uint64_t at = 60001; at < 140000; at += 7919) {
		expect_data(c, at, 256 * K - at - 3, want + at, "holes and data, odd bounds");
		expect_data(c, at, 1, want + at, "one byte");
		expect_data(c, at, 5001, want + at, "holes and data, odd bounds");
	}
}

void read_trimmed(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536);

	write_at(c, 0, 3 * n, pattern(c, 3 * n, 71));
	expect_ok(c, run(c, CMD_TRIM, 0, n, n, NULL));
	read_at(c, 0, 3 * n);
	expect_data(c, 0, n, pattern(c, n, 71), "before what was trimmed");
}

/* Chunks in multiples of 512, but for the first and the last. */
static void look_at_chunk_sizes(struct conn *c, uint64_t start, uint64_t end)
{
	struct request *rq = run(c, CMD_READ, 0, start, end - start, NULL);

	expect_ok(c, rq);
	for (size_t i = 0; i < rq->ncontent; i++) {
		uint64_t from = rq->content[i].at, to = rq->content[i].end;

		if ((from != start && from % 512) || (to != end && to % 512))
			miss(c->t, "%s: a chunk from %llu to %llu", rq->words,
			     (unsigned long long)from, (unsigned long long)to);
	}
}

void read_chunk_sizes(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t large = end_of(c) < 3 << 20 ? end_of(c) : 3 << 20;

	look_at_chunk_sizes(c, 0, 512 * K);
	if (c->min == 1)
		look_at_chunk_sizes(c, 1, large - 1);
}

/* Even an early error of a READ is a chunk: take_simple() says no to any other. */
void error_chunks(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 512);

	expect_error(c, run(c, CMD_READ, 0, end_of(c), n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_READ, 1 << 15, 0, n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_READ, FLAG_REQ_ONE, 0, n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_READ, 0, UINT64_MAX - 511, 512, NULL), E_INVAL);
	expect_error(c, run(c, 99, 0, 0, 0, NULL), E_INVAL);
	alive(c);
}

void error_text(struct test *t)
{
	struct conn *c = enter(t);
	struct request *rq = run(c, CMD_READ, 0, end_of(c), block(c, 512), NULL);

	expect_error(c, rq, E_INVAL);
	if (!rq->text || !rq->text[0])
		miss(t, "%s: expected a text with the error, came none", rq->words);
}

void df_basic(struct test *t)
{
	struct conn *c = enter(t);
	struct request *rq;

	for (uint64_t n = block(c, 512); n <= 64 * K; n *= 2) {
		rq = run(c, CMD_READ, FLAG_DF, 0, n, NULL);
		expect_ok(c, rq);
		if (rq->ncontent != 1)
			fail(t, "%s: %zu content chunks", rq->words, rq->ncontent);
	}
}

void df_mixed(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 16384);
	uint8_t *want = pattern(c, 64 * K, 72);
	struct request *rq;

	write_at(c, 0, 64 * K, want);
	if (n < 64 * K) {
		expect_ok(c, run(c, CMD_WRITE_ZEROES, 0, n, n, NULL));
		memset(want + n, 0, n);
	}
	rq = run(c, CMD_READ, FLAG_DF, 0, 64 * K, NULL);
	expect_ok(c, rq);
	if (rq->holes)
		fail(t, "%s: a hole for data and holes", rq->words);
	if (memcmp(rq->data, want, 64 * K))
		fail(t, "%s: wrong data", rq->words);
}

void df_large(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t most = t->target->most < 32768 * K ? t->target->most : 32768 * K;
	struct request *rq;

	for (uint64_t n = 128 * K; n <= end_of(c) && n <= most; n *= 2) {
		rq = run(c, CMD_READ, FLAG_DF, 0, n, NULL);
		if (rq->error != E_OVERFLOW)
			expect_ok(c, rq);
		else if (rq->ncontent)
			fail(t, "%s: EOVERFLOW, and content", rq->words);
	}
	alive(c);
}

void df_errors(struct test *t)
{
	struct conn *c = enter(t);

	expect_error(c, run(c, CMD_READ, FLAG_DF, end_of(c), block(c, 512), NULL), E_INVAL);
	if (c->flags & TF_FLUSH)
		expect_error(c, run(c, CMD_FLUSH, FLAG_DF, 0, 0, NULL), E_INVAL);
	if (c->flags & TF_CACHE)
		expect_error(c, run(c, CMD_CACHE, FLAG_DF, 0, block(c, 512), NULL), E_INVAL);
	alive(c);
}

/* Replies of several chunks each, many at a time. */
void pipeline_mixed(struct test *t)
{
	struct conn *c = enter(t);
	uint64_t n = block(c, 65536);
	struct request *rq[24];
	uint8_t *want = pattern(c, 4 * n, 73);

	write_at(c, 0, 4 * n, want);
	if (c->flags & TF_WRITE_ZEROES) {
		expect_ok(c, run(c, CMD_WRITE_ZEROES, 0, n, n, NULL));
		memset(want + n, 0, n);
	}
	for (unsigned i = 0; i < 24; i++)
		rq[i] = submit(c, i % 5 == 4 ? 99 : CMD_READ, 0, 0, (i % 4 + 1) * n, NULL);
	for (unsigned i = 0; i < 24; i++) {
		finish(c, rq[i]);
		if (i % 5 == 4) {
			expect_error(c, rq[i], E_INVAL);
			continue;
		}
		expect_ok(c, rq[i]);
		if (memcmp(rq[i]->data, want, (i % 4 + 1) * n))
			fail(t, "%s: wrong data", rq[i]->words);
	}
}
