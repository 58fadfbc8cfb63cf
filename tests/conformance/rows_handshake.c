/* Rows: the greeting, options in general, ABORT, LIST, EXPORT_NAME. */
#include <string.h>

#include "tests/conformance/rows.h"
#include "tests/conformance/wire.h"

void greeting(struct test *t)
{
	uint16_t flags;

	greet_plain(t);
	flags = t->target->handshake_flags;
	if (!(flags & HS_FIXED))
		fail(t, "handshake flags %#x: expected FIXED_NEWSTYLE", flags);
	if (flags & ~(HS_FIXED | HS_NO_ZEROES))
		fail(t, "handshake flags %#x: expected none but FIXED_NEWSTYLE and NO_ZEROES", flags);
	if (!(flags & HS_NO_ZEROES))
		advise(t, "handshake flags %#x: expected NO_ZEROES", flags);
}

void client_flags_unknown(struct test *t)
{
	static const uint32_t bits[] = { 1 << 2, 1 << 15, 1 << 16, UINT32_C(1) << 31 };

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		struct conn *c = greet_with(t, HS_FIXED | HS_NO_ZEROES | bits[i]);

		option_send(c, OPT_ABORT, NULL, 0);
		expect_close(c, "an unknown client flag");
		conn_close(c);
	}
}

void client_flags_none(struct test *t)
{
	struct conn *c = greet_with(t, 0);

	export_name(c, true);
	alive(c);
}

void client_flags_apart(struct test *t)
{
	struct conn *c = greet_with(t, HS_FIXED);

	in_step(c);
	export_name(c, true);
	alive(c);
}

void export_name_short(struct test *t)
{
	struct conn *c = greet(t);

	if (!(t->target->handshake_flags & HS_NO_ZEROES))
		not_offered(t, "NO_ZEROES");
	export_name(c, false);
	alive(c);
}

void export_name_same(struct test *t)
{
	struct conn *a = enter_mode(t, SIMPLE), *b = greet(t);

	export_name(b, !(t->target->handshake_flags & HS_NO_ZEROES));
	if (a->size != b->size || a->flags != b->flags)
		fail(t, "GO says size %llu, flags %#x; EXPORT_NAME says %llu, %#x",
		     (unsigned long long)a->size, a->flags, (unsigned long long)b->size, b->flags);
}

void export_name_unknown(struct test *t)
{
	static const char name[] = "no export has this name";
	struct conn *c = greet(t);

	option_send(c, OPT_EXPORT_NAME, name, strlen(name));
	expect_close(c, "EXPORT_NAME with an unknown name");
}

void export_name_long(struct test *t)
{
	struct conn *c = greet(t);

	option_send(c, OPT_EXPORT_NAME, pattern(c, 5000, 1), 5000);
	expect_close(c, "EXPORT_NAME with a name of 5000 bytes");
}

void option_unknown(struct test *t)
{
	static const uint32_t numbers[] = { 0, 12, 99, 0x7fffffff, 0x80000001, 0xffffffff };
	static const size_t sizes[] = { 0, 1, 300, 0, 4096, 7 };
	struct conn *c = greet(t);

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		expect_rep(c, option(c, numbers[i], pattern(c, sizes[i], 2), sizes[i]), ERR_UNSUP);
	expect_ack(c, option(c, OPT_ABORT, NULL, 0));
}

void option_peek(struct test *t)
{
	struct conn *c = greet(t);

	expect_rep(c, option(c, OPT_PEEK_EXPORT, "x", 1), ERR_UNSUP);
	in_step(c);
}

void option_large(struct test *t)
{
	enum { N = 1 << 20 };
	struct conn *c = greet(t);
	struct outcome *o;

	option_send(c, 99, pattern(c, N, 3), N);
	if (!conn_readable(c, 1000 * t->target->timeout) || c->closed)
		miss(t, "an unknown option with 1 MiB of data: expected an error, came nothing");
	o = option_wait(c, 99);
	if (o->type != ERR_TOO_BIG)
		expect_rep(c, o, ERR_UNSUP);
	in_step(c);
}

void option_huge(struct test *t)
{
	struct conn *c = greet(t);
	uint8_t h[16 + 4096] = { 0 };

	/* Only said, never sent: what has been promised must not be waited for without limit. */
	put32(put32(put64(h, MAGIC_OPTION), 99), 0xfffffff0);
	conn_send(c, h, sizeof(h));
	if (!conn_readable(c, 1000 * t->target->timeout))
		miss(t, "an option with 4 GiB of data: expected the end, nothing happens");
}

void option_magic(struct test *t)
{
	struct conn *c = greet(t);
	uint8_t h[16];

	put32(put32(put64(h, MAGIC_OPTION ^ 1), OPT_LIST), 0);
	conn_send(c, h, sizeof(h));
	expect_close(c, "an option with a wrong magic");
}

void option_pieces(struct test *t)
{
	const char *name = t->target->uri.name;
	struct conn *c = greet(t);
	size_t n;
	uint8_t *data = info_data(t, name, strlen(name), NULL, &n), *b = grab(t, 16 + n);

	put32(put32(put64(b, MAGIC_OPTION), OPT_INFO), (uint32_t)n);
	memcpy(b + 16, data, n);
	for (size_t i = 0; i < 16 + n; i++)
		conn_send(c, b + i, 1);
	expect_ack(c, option_wait(c, OPT_INFO));
	in_step(c);
}

void abort_ack(struct test *t)
{
	struct conn *c = greet(t);

	expect_ack(c, option(c, OPT_ABORT, NULL, 0));
}

void abort_data(struct test *t)
{
	struct conn *c = greet(t);

	expect_rep(c, option(c, OPT_ABORT, "bye", 3), REP_ACK);
}

void abort_gone(struct test *t)
{
	struct conn *c;

	for (int i = 0; i < 8; i++) {
		c = greet(t);
		option_send(c, OPT_ABORT, NULL, 0);
		conn_close(c);
	}
	in_step(greet(t));
}

void gone_early(struct test *t)
{
	static const uint8_t part[] = "IHAVEOPT\0\0\0\7\0\0\0\50half of it";
	struct conn *c;

	for (size_t n = 0; n < sizeof(part); n += 3) {
		c = conn_connect(t);
		if (n)
			conn_send(c, "\0\0\0\3", 4);
		conn_send(c, part, n);
		conn_close(c);
	}
	in_step(greet(t));
}

void list_names(struct test *t)
{
	struct conn *c = greet(t);

	/* What each SERVER must be is checked where it is read. */
	expect_ack(c, option(c, OPT_LIST, NULL, 0));
	in_step(c);
}

void list_data(struct test *t)
{
	struct conn *c = greet(t);

	c->excused = true;
	expect_rep(c, option(c, OPT_LIST, "data", 4), ERR_INVALID);
	in_step(c);
	expect_ack(c, option(c, OPT_LIST, NULL, 0));
}

void list_twice(struct test *t)
{
	struct conn *c = greet(t);
	struct outcome *a = option(c, OPT_LIST, NULL, 0), *b = option(c, OPT_LIST, NULL, 0);

	expect_ack(c, a);
	if (b->type != REP_ACK || a->n != b->n)
		miss(t, "the second LIST: expected ACK after %u names, came %s after %u", a->n,
		     reply_name(b->type), b->n);
}

void list_usable(struct test *t)
{
	struct conn *c = greet(t);
	struct outcome *o;

	for (unsigned i = 0; i < t->target->nnames; i++) {
		o = info_name(c, OPT_INFO, t->target->names[i]);
		if (o->type == ERR_UNKNOWN || o->type == ERR_INVALID)
			fail(t, "INFO of '%s', which LIST shows: %s", t->target->names[i],
			     reply_name(o->type));
	}
	in_step(c);
}

/* ---- INFO and GO ---- */

void info_export(struct test *t)
{
	struct conn *c = greet(t);

	for (int i = 0; i < 2; i++) {
		struct outcome *o = info(c, OPT_INFO, NULL);
		const struct answer *a = info_find(c, o, INFO_EXPORT, 10);

		expect_ack(c, o);
		if (!a)
			fail(t, "INFO is acknowledged without INFO_EXPORT");
		if (get64(a->data + 2) != t->target->size)
			fail(t, "INFO says size %llu, GO says %llu",
			     (unsigned long long)get64(a->data + 2),
			     (unsigned long long)t->target->size);
	}
	expect_ack(c, option(c, OPT_ABORT, NULL, 0));
}

void go_enters(struct test *t)
{
	struct conn *c = greet_with(t, HS_FIXED);	/* zeroes belong to EXPORT_NAME alone */

	if (t->target->uri.tls)
		start_tls(c);
	go(c);
	alive(c);
}

void info_then_go(struct test *t)
{
	static const int items[] = { INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE, -1 };
	struct conn *c = greet(t);
	struct outcome *a = info(c, OPT_INFO, items), *b = info(c, OPT_GO, items);
	const struct answer *x, *y;

	expect_ack(c, a);
	expect_ack(c, b);
	for (unsigned type = 0; type < 4; type++) {
		x = info_find(c, a, type, 0);
		y = info_find(c, b, type, 0);
		if (!x != !y || (x && (x->len != y->len || memcmp(x->data, y->data, x->len))))
			fail(t, "INFO and GO with the same data answer item %u differently", type);
	}
	alive(c);
}

static void malformed(struct test *t, uint32_t number)
{
	const char *name = t->target->uri.name;
	size_t len = strlen(name), n;
	struct conn *c = greet(t);
	uint8_t *data;

	c->excused = true;
	t->about = "less than a length and a count";
	for (n = 0; n < 6; n++)
		expect_rep(c, option(c, number, "\0\0\0\0\0\0", n), ERR_INVALID);
	t->about = "a name longer than the data";
	data = info_data(t, name, len, NULL, &n);
	put32(data, (uint32_t)len + 1);
	expect_rep(c, option(c, number, data, n), ERR_INVALID);
	put32(data, (uint32_t)len + 3);
	expect_rep(c, option(c, number, data, n), ERR_INVALID);
	put32(data, 0xfffffffe);
	expect_rep(c, option(c, number, data, n), ERR_INVALID);
	t->about = "bytes after the last item";
	data = info_data(t, name, len, (const int[]){ INFO_NAME, INFO_DESCRIPTION, -1 }, &n);
	put16(data + 4 + len, 1);
	expect_rep(c, option(c, number, data, n), ERR_INVALID);
	t->about = "fewer items than announced";
	put16(data + 4 + len, 3);
	expect_rep(c, option(c, number, data, n), ERR_INVALID);
	put16(data + 4 + len, 2);
	expect_rep(c, option(c, number, data, n - 1), ERR_INVALID);
	t->about = NULL;
	in_step(c);
	go(c);
	alive(c);
}

void info_malformed(struct test *t)
{
	malformed(t, OPT_INFO);
}

void go_malformed(struct test *t)
{
	malformed(t, OPT_GO);
}

void info_unknown_items(struct test *t)
{
	int items[101];
	struct conn *c = greet(t);

	for (int i = 0; i < 100; i++)
		items[i] = i < 50 ? 1000 + i : 65535 - i;
	items[100] = -1;
	expect_ack(c, info(c, OPT_INFO, items));
	items[1] = -1;
	expect_ack(c, info(c, OPT_GO, items));
	alive(c);
}

void info_unknown_name(struct test *t)
{
	static const uint32_t options[] = { OPT_INFO, OPT_GO, OPT_INFO, OPT_GO, OPT_GO };
	struct conn *c = greet(t);
	struct outcome *o;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		o = info_name(c, options[i], "no export has this name");
		expect_rep(c, o, ERR_UNKNOWN);
		if (o->n)
			advise(t, "%u INFO replies before the error", o->n);
	}
	go(c);
	alive(c);
}

static void odd_name(struct test *t, const char *name, size_t len, bool must_refuse)
{
	size_t n;
	struct conn *c = greet(t);
	uint8_t *data = info_data(t, name, len, NULL, &n);
	struct outcome *o;

	c->excused = must_refuse;
	o = option(c, OPT_INFO, data, n);
	if (must_refuse && o->type == REP_ACK)
		miss(t, "INFO with such a name: expected an error, came ACK");
	in_step(c);
	c->excused = must_refuse;
	o = option(c, OPT_GO, data, n);
	if (o->type != REP_ACK) {
		in_step(c);
		go(c);
	} else if (must_refuse) {
		miss(t, "GO with such a name: expected an error, came ACK");
	}
}

void name_4096(struct test *t)
{
	char name[4096];

	memset(name, 'n', sizeof(name));
	odd_name(t, name, sizeof(name), false);
}

void name_long(struct test *t)
{
	char name[20000];

	memset(name, 'n', sizeof(name));
	odd_name(t, name, 4097, true);
	odd_name(t, name, sizeof(name), true);
}

void name_nul(struct test *t)
{
	odd_name(t, "a\0b", 3, true);
}

void name_utf8(struct test *t)
{
	odd_name(t, "\xc3\x28", 2, true);
	odd_name(t, "\xff", 1, true);
}

void info_names(struct test *t)
{
	static const int items[] = { INFO_NAME, INFO_DESCRIPTION, -1 };
	struct conn *c = greet(t);
	struct outcome *o = info(c, OPT_INFO, items);
	const struct answer *a, *export;
	size_t n;
	uint8_t *data;

	expect_ack(c, o);
	a = info_find(c, o, INFO_NAME, 0);
	if (!a)
		not_offered(t, "INFO_NAME");
	data = info_data(t, (char *)a->data + 2, a->len - 2, NULL, &n);
	o = option(c, OPT_INFO, data, n);
	if (o->type != REP_ACK)
		fail(t, "INFO of the canonical name: expected ACK, came %s '%s'",
		     reply_name(o->type), o->text);
	export = info_find(c, o, INFO_EXPORT, 10);
	if (!export || get64(export->data + 2) != t->target->size)
		fail(t, "the export has another size by its canonical name");
}

void info_sizes(struct test *t)
{
	const struct target *target = t->target;
	uint64_t least = target->preferred < target->size ? target->preferred : target->size;
	uint32_t min = target->min, preferred = target->preferred, most = target->most;

	if (!min || min & (min - 1) || min > 65536)
		fail(t, "minimum block size %u: expected a power of 2, at most 65536", min);
	if (preferred & (preferred - 1) || preferred < 512 || preferred < min)
		fail(t, "preferred block size %u: expected a power of 2, at least 512 and the minimum",
		     preferred);
	if (most != UINT32_MAX && most % min)
		fail(t, "maximum payload %u: expected a multiple of the minimum block size", most);
	if (most < least)
		fail(t, "maximum payload %u: expected at least %llu", most, (unsigned long long)least);
	if (most < 1 << 20)
		advise(t, "maximum payload %u: expected at least 1 MiB", most);
	if (target->size % min)
		advise(t, "size %llu: expected a multiple of the minimum block size",
		       (unsigned long long)target->size);
}

void info_once(struct test *t)
{
	static const int items[] = { INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE, -1 };
	struct conn *c = greet(t);
	struct outcome *o = info(c, OPT_INFO, items);

	for (unsigned i = 0; i < o->n; i++) {
		for (unsigned k = 0; k < i; k++) {
			if (get16(o->items[i].data) == get16(o->items[k].data))
				miss(t, "item %u came twice", get16(o->items[i].data));
		}
	}
}

void go_without_sizes(struct test *t)
{
	struct conn *c = greet(t);
	struct outcome *o = info(c, OPT_GO, NULL);

	if (o->type != REP_ACK)
		miss(t, "GO that does not ask for block sizes: expected ACK, came %s",
		     reply_name(o->type));
	alive(c);
}

void flags_sane(struct test *t)
{
	const uint16_t *f = t->target->flags;

	if (f[SIMPLE] & TF_DF)
		fail(t, "SEND_DF without structured replies");
	for (enum mode m = SIMPLE; m < MODES; m++) {
		if (!t->target->mode[m])
			continue;
		if (f[m] & TF_FAST_ZERO && !(f[m] & TF_WRITE_ZEROES))
			fail(t, "flags %#x: SEND_FAST_ZERO without SEND_WRITE_ZEROES", f[m]);
		if (f[m] & TF_STATUS_PAYLOAD && m != EXTENDED)
			fail(t, "flags %#x: BLOCK_STAT_PAYLOAD without extended headers", f[m]);
		if (f[m] & ~(TF_STATUS_PAYLOAD * 2 - 1))
			advise(t, "flags %#x: unknown ones", f[m]);
	}
}
