/* The handshake: greetings, options and their replies. */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/wire.h"

enum { ANSWERS_MOST = 20000, ANSWER_MOST = 1 << 20 };

static const struct {
	uint32_t type;
	const char *name;
} reply_names[] = {
	{ REP_ACK, "ACK" }, { REP_SERVER, "SERVER" }, { REP_INFO, "INFO" },
	{ REP_META, "META_CONTEXT" }, { ERR_UNSUP, "ERR_UNSUP" }, { ERR_POLICY, "ERR_POLICY" },
	{ ERR_INVALID, "ERR_INVALID" }, { ERR_PLATFORM, "ERR_PLATFORM" },
	{ ERR_TLS_REQD, "ERR_TLS_REQD" }, { ERR_UNKNOWN, "ERR_UNKNOWN" },
	{ ERR_SHUTDOWN, "ERR_SHUTDOWN" }, { ERR_BLOCK_SIZE_REQD, "ERR_BLOCK_SIZE_REQD" },
	{ ERR_TOO_BIG, "ERR_TOO_BIG" }, { ERR_EXT_HEADER_REQD, "ERR_EXT_HEADER_REQD" },
};

const char *reply_name(uint32_t type)
{
	static char other[32];

	for (size_t i = 0; i < sizeof(reply_names) / sizeof(reply_names[0]); i++) {
		if (reply_names[i].type == type)
			return reply_names[i].name;
	}
	snprintf(other, sizeof(other), "reply type %#x", type);
	return other;
}

/* ---- greetings ---- */

struct conn *greet_with(struct test *t, uint32_t client_flags)
{
	struct conn *c = conn_connect(t);
	uint8_t b[18], flags[4];

	conn_recv(c, b, sizeof(b), "the server's greeting");
	if (get64(b) != MAGIC_GREETING)
		fail(t, "expected NBDMAGIC, the first 8 bytes are %#llx",
		     (unsigned long long)get64(b));
	if (get64(b + 8) != MAGIC_OPTION)
		fail(t, "expected IHAVEOPT, the second 8 bytes are %#llx",
		     (unsigned long long)get64(b + 8));
	t->target->handshake_flags = get16(b + 16);
	put32(flags, client_flags);
	conn_send(c, flags, sizeof(flags));
	return c;
}

struct conn *greet_plain(struct test *t)
{
	return greet_with(t, HS_FIXED | HS_NO_ZEROES);
}

void start_tls(struct conn *c)
{
	int e;

	expect_ack(c, option(c, OPT_STARTTLS, NULL, 0));
	e = conn_handshake_tls(c, NULL);
	if (e)
		fail(c->t, "expected TLS, the handshake failed: %s", gnutls_strerror(e));
	c->mode = SIMPLE;
	c->ncontexts = 0;
}

struct conn *greet(struct test *t)
{
	struct conn *c = greet_plain(t);

	if (t->target->uri.tls)
		start_tls(c);
	return c;
}

/* ---- options ---- */

void option_send(struct conn *c, uint32_t number, const void *data, size_t n)
{
	uint8_t *b = grab(c->t, 16 + n), *p;

	p = put32(put32(put64(b, MAGIC_OPTION), number), (uint32_t)n);
	if (n && data)
		memcpy(p, data, n);
	conn_send(c, b, 16 + n);
}

void check_string(struct conn *c, const uint8_t *s, size_t n, const char *what)
{
	size_t i = 0, more;

	if (n > STRING_MOST)
		fail(c->t, "%s of %zu bytes, at most 4096 are allowed", what, n);
	if (n > 256)
		advise(c->t, "%s of %zu bytes, 256 are recommended", what, n);
	while (i < n) {
		if (!s[i])
			fail(c->t, "%s with a NUL", what);
		more = s[i] < 0x80 ? 0 : s[i] >= 0xf0 && s[i] < 0xf5 ? 3 : s[i] >= 0xe0 ? 2 :
		       s[i] >= 0xc2 ? 1 : n;
		if (s[i] >= 0xf5 || more > n - i - 1)
			fail(c->t, "%s that is no UTF-8", what);
		for (size_t k = 1; k <= more; k++) {
			if ((s[i + k] & 0xc0) != 0x80)
				fail(c->t, "%s that is no UTF-8", what);
		}
		i += 1 + more;
	}
}

/* What every reply of this type must be. */
static void check_answer(struct conn *c, uint32_t number, const struct answer *a)
{
	uint32_t n;

	if (a->type & REP_ERROR) {
		check_string(c, a->data, a->len, "an error text");
	} else if (a->type == REP_ACK) {
		if (a->len)
			fail(c->t, "ACK with %u bytes of data", a->len);
	} else if (a->type == REP_SERVER && number == OPT_LIST) {
		n = a->len >= 4 ? get32(a->data) : 0;
		if (a->len < 4 || n > a->len - 4)
			fail(c->t, "SERVER with a name of %u bytes in %u bytes of data", n, a->len);
		check_string(c, a->data + 4, n, "an export's name");
		check_string(c, a->data + 4 + n, a->len - 4 - n, "an export's description");
	} else if (a->type == REP_INFO && (number == OPT_INFO || number == OPT_GO)) {
		if (a->len < 2)
			fail(c->t, "INFO with %u bytes of data", a->len);
		n = get16(a->data);
		if ((n == INFO_EXPORT && a->len != 12) || (n == INFO_BLOCK_SIZE && a->len != 14))
			fail(c->t, "INFO item %u with %u bytes of data", n, a->len);
		if (n == INFO_NAME || n == INFO_DESCRIPTION)
			check_string(c, a->data + 2, a->len - 2, "a name or description");
	} else if (a->type == REP_META && (number == OPT_LIST_META || number == OPT_SET_META)) {
		if (a->len < 4)
			fail(c->t, "META_CONTEXT with %u bytes of data", a->len);
		check_string(c, a->data + 4, a->len - 4, "a metadata context's name");
	} else {
		fail(c->t, "option %u is answered with %s", number, reply_name(a->type));
	}
}

struct outcome *option_wait(struct conn *c, uint32_t number)
{
	struct outcome *o = grab(c->t, sizeof(*o));
	struct answer a, *items;
	unsigned room = 0;
	char what[64];
	uint8_t h[20];

	snprintf(what, sizeof(what), "a reply to option %u", number);
	o->option = number;
	for (;;) {
		conn_recv(c, h, sizeof(h), what);
		if (get64(h) != MAGIC_OPTION_REPLY)
			fail(c->t, "expected %s, it begins with %#llx", what,
			     (unsigned long long)get64(h));
		if (get32(h + 8) != number)
			fail(c->t, "expected %s, one to option %u came (%s)", what, get32(h + 8),
			     reply_name(get32(h + 12)));
		a.type = get32(h + 12);
		a.len = get32(h + 16);
		if (a.len > ANSWER_MOST)
			fail(c->t, "%s with %u bytes of data", reply_name(a.type), a.len);
		a.data = grab(c->t, a.len);
		conn_recv(c, a.data, a.len, "the data of an option's reply");
		check_answer(c, number, &a);
		if (a.type == REP_ACK || a.type & REP_ERROR)
			break;
		if (o->n == room) {
			room = room * 2 + 8;
			items = grab(c->t, room * sizeof(*items));
			if (o->n)
				memcpy(items, o->items, o->n * sizeof(*items));
			o->items = items;
		}
		o->items[o->n++] = a;
		if (o->n > ANSWERS_MOST)
			fail(c->t, "more than %d replies to option %u", ANSWERS_MOST, number);
	}
	o->type = a.type;
	o->text = (char *)a.data;	/* grab() has put a NUL after it */
	return o;
}

struct outcome *option(struct conn *c, uint32_t number, const void *data, size_t n)
{
	option_send(c, number, data, n);
	return option_wait(c, number);
}

void expect_ack(struct conn *c, const struct outcome *o)
{
	if (o->type != REP_ACK)
		fail(c->t, "option %u: expected ACK, came %s '%s'", o->option, reply_name(o->type),
		     o->text);
}

void expect_rep(struct conn *c, const struct outcome *o, uint32_t error)
{
	if (o->type == error)
		return;
	if (o->type == REP_ACK)
		miss(c->t, "option %u: expected %s, came ACK", o->option, reply_name(error));
	advise(c->t, "option %u: expected %s, came %s '%s'", o->option, reply_name(error),
	       reply_name(o->type), o->text);
}

void in_step(struct conn *c)
{
	struct outcome *o = option(c, 0x73796e63, "in step?", 8);

	if (o->type == REP_ACK)
		fail(c->t, "an unknown option was acknowledged");
	c->excused = false;
}

/* ---- exports ---- */

uint8_t *info_data(struct test *t, const char *name, size_t name_len, const int *items, size_t *n)
{
	unsigned nitems = 0;
	uint8_t *b, *p;

	while (items && items[nitems] >= 0)
		nitems++;
	*n = 4 + name_len + 2 + 2 * nitems;
	b = grab(t, *n);
	p = put32(b, (uint32_t)name_len);
	memcpy(p, name, name_len);
	p = put16(p + name_len, nitems);
	for (unsigned i = 0; i < nitems; i++)
		p = put16(p, (unsigned)items[i]);
	return b;
}

struct outcome *info(struct conn *c, uint32_t number, const int *items)
{
	const char *name = c->t->target->uri.name;
	size_t n;
	uint8_t *data = info_data(c->t, name, strlen(name), items, &n);

	return option(c, number, data, n);
}

struct outcome *info_name(struct conn *c, uint32_t number, const char *name)
{
	size_t n;
	uint8_t *data = info_data(c->t, name, strlen(name), NULL, &n);

	return option(c, number, data, n);
}

const struct answer *info_find(struct conn *c, const struct outcome *o, unsigned type, uint32_t len)
{
	for (unsigned i = 0; i < o->n; i++) {
		if (get16(o->items[i].data) != type)
			continue;
		if (o->items[i].len < 2 + len)
			fail(c->t, "INFO item %u with %u bytes of data", type, o->items[i].len);
		return &o->items[i];
	}
	return NULL;
}

struct outcome *meta(struct conn *c, uint32_t number, const char *export, const char *const *queries)
{
	size_t n = 8 + strlen(export), len;
	const char *const *q;
	struct outcome *o;
	uint32_t count = 0;
	uint8_t *b, *p;

	for (q = queries; *q; q++, count++)
		n += 4 + strlen(*q);
	b = grab(c->t, n);
	p = put32(b, (uint32_t)strlen(export));
	memcpy(p, export, strlen(export));
	p = put32(p + strlen(export), count);
	for (q = queries; *q; q++) {
		len = strlen(*q);
		p = put32(p, (uint32_t)len);
		memcpy(p, *q, len);
		p += len;
	}
	o = option(c, number, b, n);
	if (number == OPT_LIST_META)
		return o;
	c->ncontexts = 0;
	for (unsigned i = 0; o->type == REP_ACK && i < o->n; i++) {
		if (c->ncontexts == CONTEXTS_MOST)
			fail(c->t, "more than %d metadata contexts", CONTEXTS_MOST);
		c->contexts[c->ncontexts++] = (struct context){
			.id = get32(o->items[i].data), .name = (char *)o->items[i].data + 4,
		};
	}
	return o;
}

/* ---- into transmission ---- */

void negotiate(struct conn *c, enum mode mode)
{
	if (mode == STRUCTURED)
		expect_ack(c, option(c, OPT_STRUCTURED_REPLY, NULL, 0));
	if (mode == EXTENDED)
		expect_ack(c, option(c, OPT_EXTENDED_HEADERS, NULL, 0));
	c->mode = mode;
}

static void check_size(struct conn *c)
{
	if (!(c->flags & TF_HAS_FLAGS))
		fail(c->t, "transmission flags %#x without HAS_FLAGS", c->flags);
}

void export_name(struct conn *c, bool zeroes)
{
	const char *name = c->t->target->uri.name;
	uint8_t b[134];

	option_send(c, OPT_EXPORT_NAME, name, strlen(name));
	conn_recv(c, b, zeroes ? 134 : 10, "size and flags");
	c->size = get64(b);
	c->flags = get16(b + 8);
	if (zeroes && !all_zero(b + 10, 124))
		fail(c->t, "expected 124 zeroes after size and flags, came something else");
	check_size(c);
}

void go(struct conn *c)
{
	static const int items[] = { INFO_BLOCK_SIZE, -1 };
	const struct answer *a;
	struct outcome *o;

	if (!c->t->target->go) {
		export_name(c, false);
		return;
	}
	o = info(c, OPT_GO, items);
	expect_ack(c, o);
	a = info_find(c, o, INFO_EXPORT, 10);
	if (!a)
		fail(c->t, "GO is acknowledged without INFO_EXPORT");
	c->size = get64(a->data + 2);
	c->flags = get16(a->data + 10);
	check_size(c);
}

struct conn *enter_mode(struct test *t, enum mode mode)
{
	struct conn *c = greet(t);

	negotiate(c, mode);
	go(c);
	return c;
}

struct conn *enter(struct test *t)
{
	return enter_mode(t, t->row->mode);
}

struct conn *enter_meta(struct test *t, bool all)
{
	static const char *const allocation[] = { "base:allocation", NULL };
	const char **queries = grab(t, (CONTEXTS_MOST + 1) * sizeof(*queries));
	struct conn *c = greet(t);

	negotiate(c, t->row->mode);
	for (unsigned i = 0; i < t->target->ncontexts; i++)
		queries[i] = t->target->contexts[i];
	expect_ack(c, meta(c, OPT_SET_META, t->target->uri.name,
			   all ? (const char *const *)queries : allocation));
	if (!c->ncontexts)
		fail(t, "expected a metadata context, none was selected");
	go(c);
	return c;
}
