/* The server's side of a TLS connection. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/net/tls_internal.h"

enum {
	MAX_RECORDS = 256, /* in one read: they may hold a byte each, and others wait */
	MAX_EMPTY = 32,    /* in a row that bring no data: more are an attack */
};

/* ---- the socket, as GnuTLS sees it ---- */

/* GnuTLS says that it wants more after some records, too: only here it is known what the socket had. */
static ssize_t pull(gnutls_transport_ptr_t ptr, void *to, size_t room)
{
	struct tls_session *s = ptr;
	ssize_t n = recv(s->fd, to, room, MSG_DONTWAIT);

	s->dry = n < 0 && errno == EAGAIN;
	return n;
}

static ssize_t send_now(struct tls_session *s, const struct iovec *iov, int n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	return sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What the socket did not take, behind what is there already; the first `done` bytes it did take. */
static int keep_unsent(struct tls_session *s, const giovec_t *iov, int n, size_t done)
{
	size_t len = s->unsent_len;
	char *unsent;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	len -= done;
	if (len == s->unsent_len)
		return 0;
	unsent = realloc(s->unsent, len);
	if (!unsent)
		return -ENOMEM;
	s->unsent = unsent;
	for (int i = 0; i < n; i++) {
		size_t skipped = done < iov[i].iov_len ? done : iov[i].iov_len;
		size_t part = iov[i].iov_len - skipped;

		done -= skipped;
		memcpy(s->unsent + s->unsent_len, (const char *)iov[i].iov_base + skipped, part);
		s->unsent_len += part;
	}
	return 0;
}

/*
 * In the handshake GnuTLS waits for the socket and goes on by itself. Later it must not see that it
 * is full: a record that it has not got rid of is lost to it when a change of keys comes between.
 */
static ssize_t push(gnutls_transport_ptr_t ptr, const giovec_t *iov, int n)
{
	struct tls_session *s = ptr;
	ssize_t sent = s->unsent_len ? 0 : send_now(s, iov, n);
	size_t len = 0;

	if (!s->shaken || (sent < 0 && errno != EAGAIN && errno != EINTR))
		return sent;
	if (keep_unsent(s, iov, n, sent < 0 ? 0 : (size_t)sent)) {
		errno = ENOMEM;
		return -1;
	}
	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return (ssize_t)len;
}

/* 0 when nothing is unsent any more, or a negative errno. */
static int flush(struct tls_session *s)
{
	while (s->unsent_len) {
		ssize_t n = send_now(s, &(struct iovec){ s->unsent, s->unsent_len }, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		s->unsent_len -= (size_t)n;
		memmove(s->unsent, s->unsent + n, s->unsent_len);
	}
	free(s->unsent);
	s->unsent = NULL;
	return 0;
}

/* ---- life ---- */

/* The credentials, and what clients have to show. A GnuTLS error. */
static int set_up(struct tls_session *s)
{
	struct tls_context *ctx = s->ctx;
	int res = gnutls_priority_set(s->tls, ctx->priority);

	if (!res && ctx->x509)
		res = gnutls_credentials_set(s->tls, GNUTLS_CRD_CERTIFICATE, ctx->x509);
	if (!res && ctx->psk)
		res = gnutls_credentials_set(s->tls, GNUTLS_CRD_PSK, ctx->psk);
	if (ctx->verify_peer) {
		s->purpose[0].type = GNUTLS_DT_KEY_PURPOSE_OID;
		s->purpose[0].data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT;
		gnutls_certificate_server_set_request(s->tls, GNUTLS_CERT_REQUIRE);
		gnutls_session_set_verify_cert2(s->tls, s->purpose, 1, 0);
	}
	gnutls_session_set_ptr(s->tls, s);
	gnutls_transport_set_ptr(s->tls, s);
	gnutls_transport_set_pull_function(s->tls, pull);
	gnutls_transport_set_vec_push_function(s->tls, push);
	return res;
}

struct tls_session *tls_session_new(struct tls_context *ctx, int fd)
{
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ctx = tls_context_get(ctx);
	s->fd = fd;
	if (gnutls_init(&s->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS) ||
	    set_up(s)) {
		tls_session_free(s);
		return NULL;
	}
	return s;
}

void tls_session_free(struct tls_session *s)
{
	if (!s)
		return;
	if (s->tls)
		gnutls_deinit(s->tls);
	tls_context_put(s->ctx);
	free(s->unsent);
	free(s);
}

/* ---- the handshake ---- */

/* Something that cannot be mended. */
static void set_failed(struct tls_session *s, int error)
{
	s->error = error;
	if (error == GNUTLS_E_FATAL_ALERT_RECEIVED)
		snprintf(s->why, sizeof(s->why), "TLS: the client says: %s",
			 gnutls_alert_get_name(gnutls_alert_get(s->tls)));
	else
		snprintf(s->why, sizeof(s->why), "TLS: %s", gnutls_strerror(error));
}

/* Why a client's certificate was refused, if that is so. */
static void explain_certificate(struct tls_session *s)
{
	gnutls_datum_t text = { NULL, 0 };

	if (s->error != GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR ||
	    gnutls_certificate_verification_status_print(
		    gnutls_session_get_verify_cert_status(s->tls), GNUTLS_CRT_X509, &text, 0))
		return;
	snprintf(s->why, sizeof(s->why), "TLS: the client's certificate: %.*s", (int)text.size,
		 (const char *)text.data);
	gnutls_free(text.data);
}

/*
 * GnuTLS writes a common name as part of a whole name: with a backslash before some characters, or
 * in hexadecimal behind a #, if it is no text or there is a NUL in it, which nobody can mean.
 */
static int take_common_name(struct tls_session *s, const char *text)
{
	size_t n = 0;

	if (*text == '#')
		return GNUTLS_E_ILLEGAL_PARAMETER;
	for (; *text; text++) {
		if (*text == '\\' && text[1])
			text++;
		if (n == TLS_NAME_MAX)
			return GNUTLS_E_ILLEGAL_PARAMETER;
		s->name[n++] = *text;
	}
	s->name[n] = '\0';
	return 0;
}

static int name_of(struct tls_session *s, gnutls_x509_crt_t crt)
{
	char text[2 * TLS_NAME_MAX + 1];
	size_t len = sizeof(text);
	int res = gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, text, &len);

	if (!res)
		return take_common_name(s, text);
	if (res != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
		return res;
	len = sizeof(s->name);
	res = gnutls_x509_crt_get_dn(crt, s->name, &len);
	/* What it does not end with does not count: a NUL within would make it another's name. */
	if (!res && (len >= sizeof(s->name) || strlen(s->name) != len))
		res = GNUTLS_E_ILLEGAL_PARAMETER;
	return res;
}

/* The common name, or the whole name, of the client's certificate. A GnuTLS error. */
static int name_of_certificate(struct tls_session *s)
{
	unsigned n;
	const gnutls_datum_t *der = gnutls_certificate_get_peers(s->tls, &n);
	gnutls_x509_crt_t crt;
	int res;

	if (!der || !n)
		return GNUTLS_E_NO_CERTIFICATE_FOUND;
	res = gnutls_x509_crt_init(&crt);
	if (res)
		return res;
	res = gnutls_x509_crt_import(crt, &der[0], GNUTLS_X509_FMT_DER);
	if (!res)
		res = name_of(s, crt);
	gnutls_x509_crt_deinit(crt);
	return res;
}

/* Names go into ids and logs. */
static bool is_printable(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			return false;
	return true;
}

static int find_out_name(struct tls_session *s)
{
	bool psk = gnutls_auth_get_type(s->tls) == GNUTLS_CRD_PSK;
	const char *user = psk ? gnutls_psk_server_get_username(s->tls) : NULL;
	int res = 0;

	if (psk)
		snprintf(s->name, sizeof(s->name), "%s", user ? user : "");
	else if (s->ctx->verify_peer)
		res = name_of_certificate(s);
	if (res || !is_printable(s->name)) {
		s->error = res ? res : GNUTLS_E_ILLEGAL_PARAMETER;
		snprintf(s->why, sizeof(s->why),
			 "TLS: the client's name cannot be used: expected at most %d printable bytes",
			 TLS_NAME_MAX);
		return -EPROTO;
	}
	snprintf(s->description, sizeof(s->description), "%s %s",
		 gnutls_protocol_get_name(gnutls_protocol_get_version(s->tls)),
		 psk ? "PSK" : "X.509");
	return 0;
}

int tls_shake(struct tls_session *s)
{
	int res;

	do
		res = gnutls_handshake(s->tls);
	while (res == GNUTLS_E_INTERRUPTED || res == GNUTLS_E_WARNING_ALERT_RECEIVED);
	if (res == GNUTLS_E_AGAIN)
		return -EAGAIN;
	if (res) {
		set_failed(s, res);
		explain_certificate(s);
		gnutls_alert_send_appropriate(s->tls, res); /* if the socket takes it */
		return -EPROTO;
	}
	s->shaken = true;
	return find_out_name(s);
}

bool tls_wants_write(const struct tls_session *s)
{
	return gnutls_record_get_direction(s->tls) == 1;
}

const char *tls_why(const struct tls_session *s)
{
	return s->why;
}

const char *tls_peer_name(const struct tls_session *s)
{
	return s->name;
}

const char *tls_description(const struct tls_session *s)
{
	return s->description;
}

/* ---- data ---- */

/* As read on one piece: how much came, 0 at the end, or an error of GnuTLS. */
static ssize_t receive(struct tls_session *s, void *to, size_t room)
{
	for (unsigned empty = 0; empty < MAX_EMPTY;) {
		ssize_t n;

		s->dry = false;
		n = gnutls_record_recv(s->tls, to, room);
		if (n == GNUTLS_E_INTERRUPTED)
			continue;
		/* Nothing but a new key, a warning or an empty record: there may be more behind it. */
		if (n != GNUTLS_E_WARNING_ALERT_RECEIVED && (n != GNUTLS_E_AGAIN || s->dry))
			return n;
		empty++;
	}
	return GNUTLS_E_TOO_MANY_EMPTY_PACKETS;
}

ssize_t tls_readv(struct tls_session *s, const struct iovec *iov, int n)
{
	size_t total = 0, at = 0;
	unsigned records = 0;
	ssize_t got = 0;

	s->more = false;
	for (int i = 0; i < n && !s->at_end && !s->error;) {
		if (at == iov[i].iov_len) {
			at = 0;
			i++;
			continue;
		}
		if (records++ == MAX_RECORDS) {
			s->more = true;
			break;
		}
		got = receive(s, (char *)iov[i].iov_base + at, iov[i].iov_len - at);
		if (got == GNUTLS_E_AGAIN)
			break;
		if (got > 0) {
			at += (size_t)got;
			total += (size_t)got;
			continue;
		}
		s->at_end = true;
		/* Many clients just close the socket: what they had sent was whole all the same. */
		if (got && got != GNUTLS_E_PREMATURE_TERMINATION)
			set_failed(s, (int)got);
	}
	if (total)
		return (ssize_t)total;
	if (s->error) {
		errno = ECONNRESET;
		return -1;
	}
	if (s->at_end)
		return 0;
	errno = EAGAIN;
	return -1;
}

bool tls_has_more(const struct tls_session *s)
{
	return s->more;
}

bool tls_at_end(const struct tls_session *s)
{
	return s->at_end;
}

/* Where the next bytes are. */
struct cursor {
	const struct iovec *iov;
	int n;
	size_t at; /* bytes of the first piece that are done */
};

static void skip(struct cursor *c, size_t bytes)
{
	while (c->n && bytes >= c->iov->iov_len - c->at) {
		bytes -= c->iov->iov_len - c->at;
		c->iov++;
		c->n--;
		c->at = 0;
	}
	c->at += bytes;
}

/* The next record's worth: in its place, if it lies together there, or copied to the stage. */
static const void *next_record(const struct cursor *from, char *stage, size_t *len)
{
	struct cursor c = *from;
	size_t n = 0;

	if (c.iov->iov_len - c.at >= TLS_STAGE) {
		*len = TLS_STAGE;
		return (const char *)c.iov->iov_base + c.at;
	}
	while (c.n && n < TLS_STAGE) {
		size_t part = c.iov->iov_len - c.at;

		if (part > TLS_STAGE - n)
			part = TLS_STAGE - n;
		memcpy(stage + n, (const char *)c.iov->iov_base + c.at, part);
		n += part;
		skip(&c, part);
	}
	*len = n;
	return stage;
}

/* The next record, whose bytes are pending until the socket has all of it. 0 or a negative errno. */
static int send_record(struct tls_session *s, const struct cursor *c, char *stage)
{
	size_t len;
	const void *data = next_record(c, stage, &len);
	ssize_t sent = gnutls_record_send(s->tls, data, len);

	if (sent <= 0)
		return -EPIPE;
	s->pending = (size_t)sent;
	return 0;
}

ssize_t tls_sendv(struct tls_session *s, const struct iovec *iov, int n, void *stage)
{
	struct cursor c = { iov, n, 0 };
	size_t total = 0;

	skip(&c, 0);
	while (c.n) {
		int res = s->send_failed ? -EPIPE : flush(s);

		if (!res && !s->pending)
			res = send_record(s, &c, stage);
		if (res && res != -EAGAIN) {
			s->send_failed = true;
			errno = EPIPE;
			return -1;
		}
		if (s->unsent_len)
			break;
		total += s->pending;
		skip(&c, s->pending);
		s->pending = 0;
	}
	if (!total && n) {
		errno = EAGAIN;
		return -1;
	}
	return (ssize_t)total;
}

void tls_bye(struct tls_session *s)
{
	if (s->shaken && !s->error && !s->send_failed && !s->unsent_len)
		gnutls_bye(s->tls, GNUTLS_SHUT_WR);
}
