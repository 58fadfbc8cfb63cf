/* The server's side of a TLS connection. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/net/tls_internal.h"

/* ---- life ---- */

/* The credentials, and what clients have to show. A GnuTLS error. */
static int set_up(struct tls_session *s, int fd)
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
	gnutls_transport_set_int(s->tls, fd);
	return res;
}

struct tls_session *tls_session_new(struct tls_context *ctx, int fd)
{
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ctx = tls_context_get(ctx);
	if (gnutls_init(&s->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL |
			GNUTLS_NO_TICKETS) || set_up(s, fd)) {
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

/* The common name, or the whole name, of the client's certificate. A GnuTLS error. */
static int name_of_certificate(struct tls_session *s)
{
	unsigned n;
	const gnutls_datum_t *der = gnutls_certificate_get_peers(s->tls, &n);
	gnutls_x509_crt_t crt;
	size_t len = sizeof(s->name);
	int res;

	if (!der || !n)
		return GNUTLS_E_NO_CERTIFICATE_FOUND;
	res = gnutls_x509_crt_init(&crt);
	if (res)
		return res;
	res = gnutls_x509_crt_import(crt, &der[0], GNUTLS_X509_FMT_DER);
	if (!res)
		res = gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0,
						    s->name, &len);
	if (res == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) {
		len = sizeof(s->name);
		res = gnutls_x509_crt_get_dn(crt, s->name, &len);
	}
	gnutls_x509_crt_deinit(crt);
	/* What it does not end with does not count: a NUL within would make it another's name. */
	if (!res && (len >= sizeof(s->name) || strlen(s->name) != len))
		res = GNUTLS_E_ILLEGAL_PARAMETER;
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
	ssize_t n;

	do
		n = gnutls_record_recv(s->tls, to, room);
	while (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_WARNING_ALERT_RECEIVED);
	return n;
}

ssize_t tls_readv(struct tls_session *s, const struct iovec *iov, int n)
{
	size_t total = 0, at = 0;
	ssize_t got = 0;

	for (int i = 0; i < n && !s->at_end && !s->error;) {
		if (at == iov[i].iov_len) {
			at = 0;
			i++;
			continue;
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

ssize_t tls_sendv(struct tls_session *s, const struct iovec *iov, int n, void *stage)
{
	struct cursor c = { iov, n, 0 };
	size_t total = 0;

	skip(&c, 0);
	while (c.n || s->pending) {
		const void *data = NULL;
		size_t len = 0;
		ssize_t sent;

		if (!s->pending)
			data = next_record(&c, stage, &len);
		sent = s->send_failed ? GNUTLS_E_PUSH_ERROR
				      : gnutls_record_send(s->tls, data, len);
		if (sent == GNUTLS_E_INTERRUPTED || sent == GNUTLS_E_AGAIN) {
			s->pending += len;
			if (sent == GNUTLS_E_INTERRUPTED)
				continue;
			break;
		}
		if (sent < 0) {
			s->send_failed = true;
			errno = EPIPE;
			return -1;
		}
		s->pending = 0;
		total += (size_t)sent;
		skip(&c, (size_t)sent);
	}
	if (!total && n) {
		errno = EAGAIN;
		return -1;
	}
	return (ssize_t)total;
}

void tls_bye(struct tls_session *s)
{
	if (s->shaken && !s->error && !s->send_failed && !s->pending)
		gnutls_bye(s->tls, GNUTLS_SHUT_WR);
}
