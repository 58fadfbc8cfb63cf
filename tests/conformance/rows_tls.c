/* Rows: STARTTLS. All other rows go through TLS too when the URI says nbds. */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/rows.h"
#include "tests/conformance/wire.h"

static const char *const none[] = { NULL };
static const char *const allocation[] = { "base:allocation", NULL };

static const uint32_t options[] = {
	OPT_LIST, OPT_INFO, OPT_GO, OPT_STRUCTURED_REPLY, OPT_LIST_META, OPT_SET_META,
	OPT_EXTENDED_HEADERS, OPT_PEEK_EXPORT, 99,
};

/* The option, with data that it understands. */
static struct outcome *any(struct conn *c, uint32_t number)
{
	if (number == OPT_INFO || number == OPT_GO)
		return info(c, number, NULL);
	if (number == OPT_LIST_META || number == OPT_SET_META)
		return meta(c, number, c->t->target->uri.name, none);
	return option(c, number, NULL, 0);
}

static struct conn *greet_tls(struct test *t)
{
	struct conn *c = greet_plain(t);

	start_tls(c);
	return c;
}

void tls_absent(struct test *t)
{
	struct conn *c = greet_plain(t);
	struct outcome *o = option(c, OPT_STARTTLS, NULL, 0);

	if (o->type != ERR_UNSUP && o->type != ERR_POLICY && o->type != ERR_PLATFORM)
		miss(t, "STARTTLS: expected ERR_UNSUP, ERR_POLICY or ERR_PLATFORM, came %s",
		     reply_name(o->type));
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i] != OPT_GO && any(c, options[i])->type == ERR_TLS_REQD)
			fail(t, "option %u: ERR_TLS_REQD from a server without TLS", options[i]);
	}
	c->mode = t->target->mode[EXTENDED] ? EXTENDED :
		  t->target->mode[STRUCTURED] ? STRUCTURED : SIMPLE;
	go(c);
	alive(c);
}

void tls_data(struct test *t)
{
	struct conn *c = greet_plain(t);

	c->excused = true;
	expect_rep(c, option(c, OPT_STARTTLS, "data", 4), ERR_INVALID);
	in_step(c);
	expect_ack(c, option(c, OPT_STARTTLS, NULL, 0));
}

void tls_required(struct test *t)
{
	struct conn *c = greet_plain(t);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct outcome *o = any(c, options[i]);

		if (o->type != ERR_TLS_REQD)
			fail(t, "option %u before TLS: expected ERR_TLS_REQD, came %s", options[i],
			     reply_name(o->type));
		if (o->n)
			fail(t, "option %u before TLS: %u replies before the error", options[i], o->n);
	}
	expect_ack(c, option(c, OPT_ABORT, NULL, 0));
}

void tls_required_export_name(struct test *t)
{
	const char *name = t->target->uri.name;
	struct conn *c = greet_plain(t);

	option_send(c, OPT_EXPORT_NAME, name, strlen(name));
	expect_close(c, "EXPORT_NAME before TLS");
}

void tls_works(struct test *t)
{
	struct conn *c = greet_tls(t);
	gnutls_protocol_t version = gnutls_protocol_get_version(c->tls);

	if (version < GNUTLS_TLS1_2)
		fail(t, "%s was agreed on", gnutls_protocol_get_name(version));
	go(c);
	for (int i = 0; i < 8; i++)
		alive(c);
	read_at(c, 0, 512 * 1024);
}

void tls_optional(struct test *t)
{
	struct conn *c = greet_plain(t);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i] == OPT_INFO || options[i] == OPT_GO)
			continue;
		if (any(c, options[i])->type == ERR_TLS_REQD)
			fail(t, "option %u: ERR_TLS_REQD, but INFO goes without TLS", options[i]);
	}
	in_step(c);
}

static int try_version(struct test *t, const char *version)
{
	char priority[128];
	struct conn *c = greet_plain(t);
	int e;

	snprintf(priority, sizeof(priority), "NORMAL:-VERS-ALL:+VERS-%s%s", version,
		 t->target->psk ? ":+ECDHE-PSK:+DHE-PSK:+PSK" : "");
	expect_ack(c, option(c, OPT_STARTTLS, NULL, 0));
	e = conn_handshake_tls(c, priority);
	if (!e)
		in_step(c);
	conn_close(c);
	return e;
}

void tls_1_2(struct test *t)
{
	int e = try_version(t, "TLS1.2");

	if (e)
		miss(t, "TLS 1.2: %s", gnutls_strerror(e));
}

void tls_1_3(struct test *t)
{
	int e = try_version(t, "TLS1.3");

	if (e)
		miss(t, "TLS 1.3: %s", gnutls_strerror(e));
}

void tls_old(struct test *t)
{
	if (!try_version(t, "TLS1.1"))
		miss(t, "TLS 1.1: expected a refusal, the handshake succeeded");
	if (!try_version(t, "TLS1.0"))
		miss(t, "TLS 1.0: expected a refusal, the handshake succeeded");
	in_step(greet_tls(t));
}

void tls_again(struct test *t)
{
	struct conn *c = greet_tls(t);
	struct outcome *o = option(c, OPT_STARTTLS, NULL, 0);

	if (o->type != ERR_INVALID)
		fail(t, "STARTTLS within TLS: expected ERR_INVALID, came %s", reply_name(o->type));
	in_step(c);
	go(c);
	alive(c);
}

void tls_never_required(struct test *t)
{
	struct conn *c = greet_tls(t);

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i] != OPT_GO && any(c, options[i])->type == ERR_TLS_REQD)
			fail(t, "option %u: ERR_TLS_REQD within TLS", options[i]);
	}
}

static void forgets(struct test *t, enum mode mode)
{
	struct conn *c = greet_plain(t);

	if (!t->target->mode[mode])
		not_offered(t, "what could be forgotten");
	negotiate(c, mode);
	start_tls(c);
	go(c);
	if (c->flags & (TF_DF | TF_STATUS_PAYLOAD))
		fail(t, "flags %#x as if nothing were forgotten", c->flags);
	alive(c);	/* take_chunk() says no to chunks in this mode */
}

void tls_forgets_structured(struct test *t)
{
	forgets(t, STRUCTURED);
}

void tls_forgets_extended(struct test *t)
{
	forgets(t, EXTENDED);
}

void tls_forgets_contexts(struct test *t)
{
	struct conn *c = greet_plain(t);
	struct request *rq;

	if (!t->target->mode[STRUCTURED] || !t->target->allocation)
		not_offered(t, "base:allocation");
	negotiate(c, STRUCTURED);
	expect_ack(c, meta(c, OPT_SET_META, t->target->uri.name, allocation));
	start_tls(c);
	negotiate(c, STRUCTURED);
	go(c);
	rq = run(c, CMD_BLOCK_STATUS, 0, 0, block(c, 4096), NULL);
	if (!rq->error)
		fail(t, "BLOCK_STATUS succeeds with a context from before TLS");
	alive(c);
}

/* Bytes sent in the clear behind STARTTLS must never count as if they had come through TLS. */
void tls_injected(struct test *t)
{
	struct conn *c = greet_plain(t);
	uint8_t b[32];

	put32(put32(put64(b, MAGIC_OPTION), OPT_STARTTLS), 0);
	put32(put32(put64(b + 16, MAGIC_OPTION), OPT_LIST), 0);
	conn_send(c, b, sizeof(b));
	expect_ack(c, option_wait(c, OPT_STARTTLS));
	if (conn_handshake_tls(c, NULL))
		return;
	if (option(c, 99, NULL, 0)->type == REP_ACK)
		fail(t, "an unknown option was acknowledged");
}

void tls_garbage(struct test *t)
{
	/* A complete record with a complete message, Finished, which cannot be the first. */
	static const uint8_t record[] = { 22, 3, 1, 0, 16, 20, 0, 0, 12, 'n', 'o', ' ', 'h', 'e', 'l',
					  'l', 'o', ' ', 'y', 'e', 't' };
	struct conn *c = greet_plain(t);

	expect_ack(c, option(c, OPT_STARTTLS, NULL, 0));
	conn_send(c, record, sizeof(record));
	if (!conn_drain(c))
		miss(t, "a TLS handshake that begins with its end: expected the connection to be "
			"closed, it stays open");
	in_step(greet_tls(t));
}

void tls_bye(struct test *t)
{
	struct conn *c = greet_tls(t);

	go(c);
	alive(c);
	send_header(c, MAGIC_REQUEST, CMD_DISC, 0, 0, 0, 0);
	if (!conn_drain(c))
		miss(t, "DISC: expected the connection to be closed, it stays open");
	if (!c->notified)
		miss(t, "DISC: expected TLS to be shut down, came '%s'", c->how);
}
