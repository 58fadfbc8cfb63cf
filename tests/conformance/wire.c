/* Connections: bytes in and out, with and without TLS. */
#include "tests/conformance/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- connecting ---- */

static int connect_unix(const struct uri *uri)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path, uri->socket, strlen(uri->socket));	/* uri_parse has looked */
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int connect_vsock(const struct uri *uri)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = (unsigned)strtoul(uri->host, NULL, 10),
		.svm_port = (unsigned)strtoul(uri->port, NULL, 10),
	};
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int connect_tcp(const struct uri *uri)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *a;
	int fd = -1, one = 1;

	if (getaddrinfo(uri->host, uri->port, &hints, &list)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	for (a = list; a; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
		if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen))
			break;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* A server that the row before has brought down may be started again by somebody. */
struct conn *conn_connect(struct test *t)
{
	const struct uri *uri = &t->target->uri;
	uint64_t end = now_ms() + 1000 * (uint64_t)t->target->timeout;
	struct conn *c;
	int fd;

	for (;;) {
		fd = uri->family == UNIX ? connect_unix(uri) :
		     uri->family == VSOCK ? connect_vsock(uri) : connect_tcp(uri);
		if (fd >= 0)
			break;
		if ((errno != ECONNREFUSED && errno != ENOENT && errno != EAGAIN) || now_ms() >= end)
			fail(t, "cannot connect: %s", strerror(errno));
		poll(NULL, 0, 20);
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	c = grab(t, sizeof(*c));
	c->t = t;
	c->fd = fd;
	c->cookie = UINT64_C(0xc0ffee0000000001);
	c->min = t->target->min ? t->target->min : 1;
	c->next = t->conns;
	t->conns = c;
	return c;
}

void conn_close(struct conn *c)
{
	struct conn **p;

	for (p = &c->t->conns; *p != c; p = &(*p)->next)
		;
	*p = c->next;
	if (c->tls)
		gnutls_deinit(c->tls);
	close(c->fd);
	free(c->in);
	c->in = NULL;
}

/* ---- bytes ---- */

/* False: nothing happened for too long. */
static bool wait_io(struct conn *c, short events, uint64_t ms)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	uint64_t end = now_ms() + ms, now;
	int n;

	if (end > c->t->deadline)
		end = c->t->deadline;
	do {
		now = now_ms();
		n = poll(&p, 1, now < end ? (int)(end - now) : 0);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

static uint64_t limit(const struct conn *c)
{
	return 1000 * (uint64_t)c->t->target->timeout;
}

static void closed(struct conn *c, const char *how)
{
	c->closed = true;
	if (!c->how)
		c->how = how;
}

/* Take in what has come. False: nothing has, neither bytes nor the end. */
static bool pull(struct conn *c)
{
	ssize_t n;

	if (c->closed)
		return true;
	if (c->in_at == c->in_end)
		c->in_at = c->in_end = 0;
	if (c->in_cap - c->in_end < 65536) {
		c->in_cap += c->in_cap / 2 + 131072;
		c->in = realloc(c->in, c->in_cap);
		if (!c->in) {
			fputs("conformance: no memory\n", stderr);
			exit(1);
		}
	}
	if (c->tls) {
		n = gnutls_record_recv(c->tls, c->in + c->in_end, c->in_cap - c->in_end);
		if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ||
		    n == GNUTLS_E_REHANDSHAKE)
			return false;
		c->notified = n == 0;
		if (n < 0)
			closed(c, gnutls_strerror((int)n));
	} else {
		n = recv(c->fd, c->in + c->in_end, c->in_cap - c->in_end, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (n < 0)
			closed(c, strerror(errno));
	}
	if (n == 0)
		closed(c, "end of file");
	if (n > 0)
		c->in_end += (size_t)n;
	return true;
}

void conn_send(struct conn *c, const void *data, size_t n)
{
	const uint8_t *p = data;
	ssize_t sent;

	while (n && !c->closed) {
		if (c->tls) {
			sent = gnutls_record_send(c->tls, p, n);
			if (sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED) {
				sent = 0;
			} else if (sent < 0) {
				closed(c, gnutls_strerror((int)sent));
				return;
			}
		} else {
			sent = send(c->fd, p, n, MSG_NOSIGNAL);
			if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
				sent = 0;
			} else if (sent < 0) {
				/* What the server has said before is read all the same. */
				while (!c->closed && wait_io(c, POLLIN, limit(c)) && pull(c))
					;
				closed(c, strerror(errno));
				return;
			}
		}
		p += sent;
		n -= (size_t)sent;
		/* A server may well wait for us to read. TLS cannot have another call between. */
		if (!sent && !wait_io(c, c->tls ? POLLOUT : POLLIN | POLLOUT, limit(c)))
			fail(c->t, "the server has not read for %u s, %zu bytes are left to send",
			     c->t->target->timeout, n);
		if (!sent && !c->tls)
			pull(c);
	}
}

static size_t buffered(const struct conn *c)
{
	return c->in_end - c->in_at;
}

void conn_recv(struct conn *c, void *data, size_t n, const char *what)
{
	size_t part;
	uint8_t *p = data;

	while (n) {
		part = buffered(c) < n ? buffered(c) : n;
		if (part) {
			memcpy(p, c->in + c->in_at, part);
			c->in_at += part;
			p += part;
			n -= part;
		} else if (c->closed && c->excused) {
			advise(c->t, "expected %s, the server closed the connection", what);
			longjmp(c->t->out, 1);
		} else if (c->closed) {
			fail(c->t, "expected %s, the server closed the connection (%s)", what,
			     c->how);
		} else if (!pull(c) && !wait_io(c, POLLIN, limit(c))) {
			fail(c->t, "expected %s, nothing came for %u s", what,
			     c->t->target->timeout);
		}
	}
}

bool conn_readable(struct conn *c, unsigned ms)
{
	while (!buffered(c) && !c->closed) {
		if (!pull(c) && !wait_io(c, POLLIN, ms))
			return false;
	}
	return true;
}

bool conn_drain(struct conn *c)
{
	while (!c->closed) {
		c->in_at = c->in_end = 0;
		if (!pull(c) && !wait_io(c, POLLIN, limit(c)))
			return false;
	}
	return true;
}

void expect_close(struct conn *c, const char *when)
{
	size_t n;

	while (!buffered(c) && !c->closed) {
		if (!pull(c) && !wait_io(c, POLLIN, limit(c)))
			miss(c->t, "%s: expected the connection to be closed, it stays open", when);
	}
	n = buffered(c);
	if (n)
		miss(c->t, "%s: expected the connection to be closed, %zu bytes came", when, n);
}

/* ---- TLS ---- */

int conn_handshake_tls(struct conn *c, const char *priority)
{
	const struct target *target = c->t->target;
	const char *host = target->uri.hostname ? target->uri.hostname : target->uri.host;
	gnutls_session_t tls;
	int e;

	if (buffered(c))
		fail(c->t, "expected a TLS handshake, %zu bytes came before it", buffered(c));
	if (!priority)
		priority = target->psk ? "NORMAL:+ECDHE-PSK:+DHE-PSK:+PSK" : "NORMAL";
	gnutls_init(&tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
	c->tls = tls;		/* ended with the connection */
	e = gnutls_priority_set_direct(tls, priority, NULL);
	if (e < 0)
		not_offered(c->t, "this GnuTLS cannot do '%s'", priority);
	if (target->psk)
		gnutls_credentials_set(tls, GNUTLS_CRD_PSK, target->psk);
	else
		gnutls_credentials_set(tls, GNUTLS_CRD_CERTIFICATE, target->x509);
	if (!target->psk && host)
		gnutls_server_name_set(tls, GNUTLS_NAME_DNS, host, strlen(host));
	if (!target->psk && target->uri.verify)
		gnutls_session_set_verify_cert(tls, host, 0);
	gnutls_transport_set_int(tls, c->fd);
	for (;;) {
		e = gnutls_handshake(tls);
		if (e == GNUTLS_E_AGAIN || e == GNUTLS_E_INTERRUPTED) {
			if (!wait_io(c, gnutls_record_get_direction(tls) ? POLLOUT : POLLIN,
				     limit(c)))
				fail(c->t, "the TLS handshake does not go on for %u s",
				     target->timeout);
		} else if (e >= 0 || gnutls_error_is_fatal(e)) {
			return e < 0 ? e : 0;
		}
	}
}
