/* Rows: metadata contexts and BLOCK_STATUS. */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/rows.h"
#include "tests/conformance/wire.h"

enum { K = 1024 };

static const char *const none[] = { NULL };
static const char *const allocation[] = { "base:allocation", NULL };

static const char *export(const struct conn *c)
{
	return c->t->target->uri.name;
}

/* In the handshake, with the row's mode negotiated. */
static struct conn *haggle(struct test *t)
{
	struct conn *c = greet(t);

	negotiate(c, t->row->mode);
	return c;
}

/* No context may be selected: then BLOCK_STATUS is an error. */
static void expect_none(struct conn *c, const char *why)
{
	struct request *rq;

	c->any_context = true;
	go(c);
	rq = run(c, CMD_BLOCK_STATUS, 0, 0, block(c, 4096), NULL);
	if (!rq->error)
		fail(c->t, "%s: expected EINVAL for BLOCK_STATUS, came success", why);
	expect_error(c, rq, E_INVAL);
	alive(c);
}

static bool has(const struct outcome *o, const char *name)
{
	for (unsigned i = 0; i < o->n; i++) {
		if (!strcmp((const char *)o->items[i].data + 4, name))
			return true;
	}
	return false;
}

/* ---- the options ---- */

void meta_list_early(struct test *t)
{
	struct conn *c = greet(t);
	struct outcome *o = meta(c, OPT_LIST_META, export(c), none);

	if (o->type != REP_ACK && o->type != ERR_INVALID && o->type != ERR_EXT_HEADER_REQD)
		miss(t, "expected ACK or ERR_INVALID, came %s", reply_name(o->type));
	in_step(c);
}

void meta_set_early(struct test *t)
{
	struct conn *c = greet(t);
	struct outcome *o = meta(c, OPT_SET_META, export(c), allocation);

	if (o->type == REP_ACK && !o->n)
		return;
	if (o->type != ERR_EXT_HEADER_REQD)
		expect_rep(c, o, ERR_INVALID);
	in_step(c);
}

void meta_list_all(struct test *t)
{
	struct conn *c = haggle(t);
	struct outcome *o = meta(c, OPT_LIST_META, export(c), none);
	const char *name;

	expect_ack(c, o);
	for (unsigned i = 0; i < o->n; i++) {
		name = (const char *)o->items[i].data + 4;
		if (!strchr(name, ':') || name[0] == ':')
			fail(t, "a context called '%s': expected NAMESPACE:LEAF", name);
		if (get32(o->items[i].data))
			advise(t, "context '%s' is listed with the id %#x, expected 0", name,
			       get32(o->items[i].data));
	}
	if (t->target->allocation && !has(o, "base:allocation") && !has(o, "base:"))
		fail(t, "base:allocation can be selected, but is not listed");
	in_step(c);
}

void meta_list_wildcard(struct test *t)
{
	struct conn *c = haggle(t);
	struct outcome *o = meta(c, OPT_LIST_META, export(c), (const char *[]){ "base:", NULL });

	expect_ack(c, o);
	if (!has(o, "base:allocation"))
		fail(t, "the query 'base:': expected base:allocation among %u contexts", o->n);
	for (unsigned i = 0; i < o->n; i++) {
		if (strncmp((const char *)o->items[i].data + 4, "base:", 5))
			fail(t, "the query 'base:' is answered with '%s'", o->items[i].data + 4);
	}
}

void meta_list_one(struct test *t)
{
	struct conn *c = haggle(t);
	struct outcome *o = meta(c, OPT_LIST_META, export(c), allocation);

	expect_ack(c, o);
	if (o->n != 1 || !has(o, "base:allocation"))
		fail(t, "the query 'base:allocation': expected it alone, came %u contexts", o->n);
}

static void ignored(struct test *t, uint32_t number, const char *query)
{
	struct conn *c = haggle(t);
	struct outcome *o = meta(c, number, export(c), (const char *[]){ query, NULL });

	if (o->type != REP_ACK)
		miss(t, "the query '%s': expected ACK, came %s", query, reply_name(o->type));
	if (o->n)
		fail(t, "the query '%s': expected no context, came %u", query, o->n);
	/* Beside one that is known it must not matter either. */
	o = meta(c, number, export(c), (const char *[]){ query, "base:allocation", query, NULL });
	if (o->type != REP_ACK || o->n != 1)
		fail(t, "the queries '%s' and base:allocation: expected one context, came %u, %s",
		     query, o->n, reply_name(o->type));
	in_step(c);
}

void meta_unknown_namespace(struct test *t)
{
	ignored(t, OPT_LIST_META, "x-nobody-has-this:leaf");
	ignored(t, OPT_SET_META, "x-nobody-has-this:leaf");
	ignored(t, OPT_SET_META, "x-nobody-has-this:");
}

void meta_unknown_leaf(struct test *t)
{
	ignored(t, OPT_LIST_META, "base:nothing-of-this-name");
	ignored(t, OPT_SET_META, "base:nothing-of-this-name");
	ignored(t, OPT_SET_META, "base:alloc");
	ignored(t, OPT_SET_META, "base:allocations");
}

void meta_set_wildcard(struct test *t)
{
	ignored(t, OPT_SET_META, "base:");
}

/* No colon: ERR_INVALID or nothing, and the next option is understood. */
void meta_no_colon(struct test *t)
{
	static const char *const queries[] = { "base", "allocation", "", NULL };
	struct conn *c = haggle(t);

	for (int i = 0; queries[i]; i++) {
		const char *const one[] = { queries[i], NULL };
		struct outcome *o = meta(c, OPT_SET_META, export(c), one);

		if (o->n || (o->type != REP_ACK && o->type != ERR_INVALID))
			fail(t, "the query '%s': expected ERR_INVALID, or ACK and no context; came "
			     "%u, %s", queries[i], o->n, reply_name(o->type));
		in_step(c);
	}
}

void meta_set_all(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	struct request *rq;

	for (unsigned i = 0; i < c->ncontexts; i++) {
		for (unsigned k = 0; k < i; k++) {
			if (c->contexts[i].id == c->contexts[k].id)
				fail(t, "'%s' and '%s' have the same id", c->contexts[i].name,
				     c->contexts[k].name);
		}
	}
	rq = run(c, CMD_BLOCK_STATUS, 0, 0, 512 * K, NULL);
	expect_ok(c, rq);
}

void meta_set_twice(struct test *t)
{
	const char *const twice[] = { "base:allocation", "base:allocation", NULL };
	struct conn *c = haggle(t);
	struct outcome *o = meta(c, OPT_SET_META, export(c), twice);

	expect_ack(c, o);
	for (unsigned i = 1; i < c->ncontexts; i++) {
		if (c->contexts[i].id == c->contexts[0].id)
			fail(t, "two contexts with the same id");
	}
	if (o->n != 1)
		advise(t, "the same query twice: expected one context, came %u", o->n);
	go(c);
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, block(c, 4096), NULL));
}

void meta_set_none(struct test *t)
{
	struct conn *c = haggle(t);
	struct outcome *o = meta(c, OPT_SET_META, export(c), none);

	expect_ack(c, o);
	if (o->n)
		fail(t, "no query: expected no context, came %u", o->n);
	expect_none(c, "SET_META_CONTEXT without a query");
}

void meta_set_replaces(struct test *t)
{
	struct conn *c = haggle(t);

	expect_ack(c, meta(c, OPT_SET_META, export(c), allocation));
	expect_ack(c, meta(c, OPT_SET_META, export(c), none));
	expect_none(c, "SET_META_CONTEXT without a query after one with");
	/* And the other way round, with what LIST says between. */
	c = haggle(t);
	expect_ack(c, meta(c, OPT_SET_META, export(c), none));
	expect_ack(c, meta(c, OPT_SET_META, export(c), allocation));
	expect_ack(c, meta(c, OPT_LIST_META, export(c), none));
	go(c);
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, block(c, 4096), NULL));
}

void meta_set_fails(struct test *t)
{
	struct conn *c = haggle(t);

	expect_ack(c, meta(c, OPT_SET_META, export(c), allocation));
	expect_rep(c, option(c, OPT_SET_META, "\0\0", 2), ERR_INVALID);
	expect_none(c, "SET_META_CONTEXT that failed after one that did not");
}

void meta_set_lasts(struct test *t)
{
	struct conn *c = haggle(t);

	expect_ack(c, meta(c, OPT_SET_META, export(c), allocation));
	in_step(c);
	expect_ack(c, info(c, OPT_INFO, NULL));
	go(c);
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, block(c, 4096), NULL));
}

void meta_other_export(struct test *t)
{
	struct conn *c = haggle(t);
	const char *other = NULL;

	for (unsigned i = 0; i < t->target->nnames; i++) {
		if (strcmp(t->target->names[i], export(c)) && export(c)[0])
			other = t->target->names[i];
	}
	if (!other && t->target->any_name)
		other = "another export";
	if (!other)
		not_offered(t, "a second export");
	expect_ack(c, meta(c, OPT_SET_META, other, allocation));
	expect_none(c, "SET_META_CONTEXT with another export's name");
}

void meta_unknown_export(struct test *t)
{
	struct conn *c = haggle(t);

	expect_ack(c, meta(c, OPT_SET_META, export(c), allocation));
	expect_rep(c, meta(c, OPT_LIST_META, "no export has this name", none), ERR_UNKNOWN);
	expect_rep(c, meta(c, OPT_SET_META, "no export has this name", allocation), ERR_UNKNOWN);
	in_step(c);
	expect_none(c, "SET_META_CONTEXT with an unknown export");
}

/* Each of these lies about a length. */
void meta_malformed(struct test *t)
{
	static const uint32_t options[] = { OPT_LIST_META, OPT_SET_META };
	struct conn *c = haggle(t);
	const char *name = export(c);
	size_t len = strlen(name), n = 8 + len + 4 + 15;
	uint8_t *b, *count, *query;

	for (int i = 0; i < 2; i++) {
		t->about = "less than two lengths";
		for (size_t k = 0; k < 8; k += 3)
			expect_rep(c, option(c, options[i], "\0\0\0\0\0\0\0", k), ERR_INVALID);
		b = grab(t, n + 8);
		put32(b, (uint32_t)len);
		memcpy(b + 4, name, len);
		count = b + 4 + len;
		put32(count, 1);
		query = count + 4;
		put32(query, 15);
		memcpy(query + 4, "base:allocation", 15);
		t->about = "a query without its last byte";
		expect_rep(c, option(c, options[i], b, n - 1), ERR_INVALID);
		t->about = "a byte after the last query";
		if (option(c, options[i], b, n + 1)->type == REP_ACK)
			advise(t, "option %u: expected ERR_INVALID, came ACK", options[i]);
		t->about = "half the length of a query";
		expect_rep(c, option(c, options[i], b, n - 17), ERR_INVALID);
		t->about = "two queries announced, one there";
		put32(count, 2);
		expect_rep(c, option(c, options[i], b, n), ERR_INVALID);
		t->about = "2^32 - 1 queries announced, one there";
		put32(count, 0xffffffff);
		expect_rep(c, option(c, options[i], b, n), ERR_INVALID);
		put32(count, 1);
		t->about = "a query a byte longer than the data";
		put32(query, 16);
		expect_rep(c, option(c, options[i], b, n), ERR_INVALID);
		t->about = "a query of nearly 4 GiB";
		put32(query, 0xfffffff0);
		expect_rep(c, option(c, options[i], b, n), ERR_INVALID);
		put32(query, 15);
		t->about = "a name of nearly 4 GiB";
		put32(b, 0xfffffff0);
		expect_rep(c, option(c, options[i], b, n), ERR_INVALID);
		t->about = NULL;
		in_step(c);
	}
	go(c);
	alive(c);
}

void meta_many_queries(struct test *t)
{
	enum { N = 500 };
	const char **queries = grab(t, (N + 1) * sizeof(*queries));
	struct conn *c = haggle(t);
	struct outcome *o;
	char *q;

	for (int i = 0; i < N; i++) {
		q = grab(t, 32);
		snprintf(q, 32, i == N / 2 ? "base:allocation" : "x-query-%d:leaf", i);
		queries[i] = q;
	}
	o = meta(c, OPT_SET_META, export(c), queries);
	if (o->type != ERR_TOO_BIG && (o->type != REP_ACK || o->n != 1))
		fail(t, "%d queries: expected ERR_TOO_BIG, or ACK and one context; came %u, %s", N,
		     o->n, reply_name(o->type));
	in_step(c);
}

void meta_long_query(struct test *t)
{
	static const size_t sizes[] = { 4096, 4097, 9000 };
	struct conn *c = haggle(t);

	for (size_t i = 0; i < 3; i++) {
		char *q = grab(t, sizes[i]);
		struct outcome *o;

		memset(q, 'q', sizes[i]);
		q[3] = ':';
		o = meta(c, OPT_SET_META, export(c), (const char *[]){ q, NULL });
		if (o->n)
			fail(t, "a query of %zu bytes is answered with a context", sizes[i]);
		in_step(c);
	}
}

/* ---- BLOCK_STATUS ---- */

void status_without(struct test *t)
{
	struct conn *c = enter(t);
	struct request *rq = run(c, CMD_BLOCK_STATUS, 0, 0, block(c, 4096), NULL);

	if (!rq->error)
		fail(t, "%s: success without a context", rq->words);
	expect_error(c, rq, E_INVAL);
	alive(c);
}

void status_basic(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	uint64_t n = block(c, 512), end = end_of(c);
	uint64_t whole = end < UINT32_MAX ? end : block(c, 1U << 31);

	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, n, NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, whole, NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, end - n, n, NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 3 * n, 5 * n, NULL));
	alive(c);
}

void status_odd(struct test *t)
{
	struct conn *c = enter_meta(t, true);

	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 0, 1, NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, 0, 12345, 67891, NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, FLAG_REQ_ONE, 511, 1, NULL));
	expect_ok(c, run(c, CMD_BLOCK_STATUS, FLAG_REQ_ONE, c->size - 1, 1, NULL));
}

/* From one end to the other, by what each answer covers. */
static void walk(struct conn *c, unsigned flags, uint64_t step)
{
	uint64_t at = 0, end = end_of(c), n, covered;
	struct request *rq;

	for (int i = 0; at < end && i < 4000; i++) {
		n = end - at < step ? end - at : step;
		rq = run(c, CMD_BLOCK_STATUS, flags, at, n, NULL);
		expect_ok(c, rq);
		covered = UINT64_MAX;
		for (unsigned k = 0; k < rq->nstatus; k++) {
			uint64_t sum = 0;

			for (size_t x = 0; x < rq->status[k].n; x++)
				sum += rq->status[k].extents[x].length;
			if (sum < covered)
				covered = sum;
		}
		at += covered < c->min ? c->min : covered / c->min * c->min;
	}
}

void status_walk(struct test *t)
{
	struct conn *c = enter_meta(t, true);

	walk(c, 0, block(c, 1 << 30));
	walk(c, 0, block(c, 65536));
}

void status_req_one(struct test *t)
{
	struct conn *c = enter_meta(t, true);

	walk(c, FLAG_REQ_ONE, block(c, 1 << 30));
	walk(c, FLAG_REQ_ONE, block(c, 65536));
}

/* What is said to be zero must read as zero, wherever it is. */
static void check_zeroes(struct conn *c, uint64_t offset, uint64_t length)
{
	struct request *rq = run(c, CMD_BLOCK_STATUS, 0, offset, length, NULL);
	const struct extent *e;
	uint64_t at = offset, n;

	expect_ok(c, rq);
	for (size_t i = 0; i < rq->status[0].n; i++, at += e->length) {
		e = &rq->status[0].extents[i];
		if (e->status & ~(STATE_HOLE | STATE_ZERO))
			advise(c->t, "%s: base:allocation with status %#x", rq->words, e->status);
		if (!(e->status & STATE_ZERO))
			continue;
		for (uint64_t x = 0; x < e->length; x += n) {
			n = e->length - x < 1024 * K ? e->length - x : 1024 * K;
			if (!all_zero(read_at(c, at + x, n), n))
				fail(c->t, "%s: %llu bytes at %llu are said to be zero, and are not",
				     rq->words, (unsigned long long)n, (unsigned long long)(at + x));
			if (x > 64 * 1024 * K)
				return;	/* enough of a large hole */
		}
	}
}

void status_true(struct test *t)
{
	struct conn *c = enter_meta(t, false);

	check_zeroes(c, 0, end_of(c) < UINT32_MAX ? end_of(c) : block(c, 1 << 30));
}

void status_written(struct test *t)
{
	struct conn *c = enter_meta(t, false);
	uint64_t n = block(c, 65536);

	if (c->flags & TF_WRITE_ZEROES)
		expect_ok(c, run(c, CMD_WRITE_ZEROES, 0, 0, 4 * n, NULL));
	if (c->flags & TF_TRIM)
		expect_ok(c, run(c, CMD_TRIM, 0, 0, 4 * n, NULL));
	check_zeroes(c, 0, 4 * n);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t at = i * n + block(c, 512 * i) % n, len = block(c, 512);

		write_at(c, at, len, pattern(c, len, 80 + i));
		check_zeroes(c, 0, 4 * n);
		check_zeroes(c, at, len);
	}
	write_at(c, 0, 4 * n, pattern(c, 4 * n, 90));
	check_zeroes(c, 0, 4 * n);
}

void status_outside(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	uint64_t n = block(c, 4096), end = end_of(c);

	expect_error(c, run(c, CMD_BLOCK_STATUS, 0, end, n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_BLOCK_STATUS, 0, end - n, 2 * n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_BLOCK_STATUS, 0, 0 - n, n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_BLOCK_STATUS, 0, 0 - n, 2 * n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_BLOCK_STATUS, 0, UINT64_C(1) << 63, n, NULL), E_INVAL);
	expect_error(c, run(c, CMD_BLOCK_STATUS, FLAG_REQ_ONE, end, n, NULL), E_INVAL);
	alive(c);
}

void status_zero_length(struct test *t)
{
	struct conn *c = enter_meta(t, true);

	survives(c, CMD_BLOCK_STATUS, 0, 0, 0);
	survives(c, CMD_BLOCK_STATUS, FLAG_REQ_ONE, 0, 0);
}

void status_flags(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	static const unsigned flags[] = { FLAG_NO_HOLE, FLAG_DF, FLAG_FAST_ZERO, 1 << 6, 1 << 15 };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		expect_error(c, run(c, CMD_BLOCK_STATUS, flags[i], 0, block(c, 4096), NULL), E_INVAL);
	if (c->flags & TF_FUA)
		expect_ok(c, run(c, CMD_BLOCK_STATUS, FLAG_FUA, 0, block(c, 4096), NULL));
	alive(c);
}

void status_pipeline(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	uint64_t n = block(c, 16384);
	struct request *rq[48];

	for (unsigned i = 0; i < 48; i++)
		rq[i] = submit(c, i % 3 ? CMD_BLOCK_STATUS : CMD_READ, i % 3 == 2 ? FLAG_REQ_ONE : 0,
			       i % 8 * n, n, NULL);
	for (unsigned i = 0; i < 48; i++)
		expect_ok(c, finish(c, rq[i]));
}

void status_disc(struct test *t)
{
	struct conn *c = enter_meta(t, true);
	struct request *rq[8];

	for (unsigned i = 0; i < 8; i++)
		rq[i] = submit(c, CMD_BLOCK_STATUS, 0, 0, 512 * K, NULL);
	send_header(c, c->mode == EXTENDED ? MAGIC_REQUEST_EXT : MAGIC_REQUEST, CMD_DISC, 0, 0, 0, 0);
	for (unsigned i = 0; i < 8; i++)
		expect_ok(c, finish(c, rq[i]));
	expect_close(c, "DISC after the last reply");
}
