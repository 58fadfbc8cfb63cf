/*
 * Clients that come and go: cycles KIND N SOCKET PORT CA
 *
 * N times in turn over the Unix socket and TCP on 127.0.0.1, by KIND:
 *   plain  handshake, attach to the default export, now and then a read; leave properly, by
 *          closing, or by a reset
 *   tls    the same inside TLS; CA is the authority's certificate, the server is "localhost"
 *   drop   leave somewhere in the middle of a handshake, of TLS's, or of a request; some go the
 *          whole way, so that there are never more than some dozens that the server has to see yet
 * A server that does not answer within 60 s, or not as expected, ends it with a sentence and exit
 * status 1.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "server/nbd/protocol.h"

enum { PATIENCE = 60, BLOCK = 4096 };

struct peer {
	int fd;
	gnutls_session_t tls; /* NULL: plain */
};

static gnutls_certificate_credentials_t credentials;
static unsigned cycle;

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "cycles: in cycle %u: ", cycle);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static void check_tls(int result, const char *what)
{
	if (result < 0)
		die("%s: %s", what, gnutls_strerror(result));
}

/* ---- bytes ---- */

static void send_all(struct peer *p, const void *data, size_t n)
{
	const char *at = data;

	while (n) {
		ssize_t r = p->tls ? gnutls_record_send(p->tls, at, n)
				   : send(p->fd, at, n, MSG_NOSIGNAL);

		if (r == GNUTLS_E_INTERRUPTED || (!p->tls && r < 0 && errno == EINTR))
			continue;
		if (r <= 0)
			die("cannot send");
		at += r;
		n -= (size_t)r;
	}
}

static void recv_all(struct peer *p, void *data, size_t n)
{
	char *at = data;

	while (n) {
		ssize_t r = p->tls ? gnutls_record_recv(p->tls, at, n) : recv(p->fd, at, n, 0);

		if (r == GNUTLS_E_INTERRUPTED || (!p->tls && r < 0 && errno == EINTR))
			continue;
		if (r <= 0)
			die("%zu bytes of an answer are missing", n);
		at += r;
		n -= (size_t)r;
	}
}

static void put32(unsigned char *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

/* ---- what clients say ---- */

static void open_peer(struct peer *p, const char *path, uint16_t port)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval patience = { .tv_sec = PATIENCE };
	bool tcp = cycle % 2;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	p->tls = NULL;
	p->fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
	if (p->fd < 0 || setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		die("socket: %s", strerror(errno));
	if (tcp ? connect(p->fd, (struct sockaddr *)&in, sizeof(in))
		: connect(p->fd, (struct sockaddr *)&un, sizeof(un)))
		die("connect: %s", strerror(errno));
}

static void greet(struct peer *p)
{
	static const unsigned char flags[4] = { 0, 0, 0, 3 };
	char greeting[18];

	recv_all(p, greeting, sizeof(greeting));
	if (memcmp(greeting, "NBDMAGICIHAVEOPT", 16))
		die("no greeting of NBD's");
	send_all(p, flags, sizeof(flags));
}

static void ask(struct peer *p, uint32_t option, const void *data, uint32_t n)
{
	unsigned char message[64] = "IHAVEOPT";

	put32(message + 8, option);
	put32(message + 12, n);
	if (n)
		memcpy(message + 16, data, n);
	send_all(p, message, 16 + n);
}

/* Waits for the option's ACK, and drops what comes before it. */
static void acknowledged(struct peer *p)
{
	unsigned char head[20], info[4096];

	do {
		recv_all(p, head, sizeof(head));
		if (get32(head + 12) & 0x80000000u || get32(head + 16) > sizeof(info))
			die("option %u is answered by %#x", get32(head + 8), get32(head + 12));
		recv_all(p, info, get32(head + 16));
	} while (get32(head + 12) != NBD_REP_ACK);
}

static void attach(struct peer *p)
{
	static const unsigned char nothing[6];

	ask(p, NBD_OPT_GO, nothing, sizeof(nothing));
	acknowledged(p);
}

static size_t request(unsigned char *out, uint16_t command, uint32_t length)
{
	memset(out, 0, NBD_REQUEST_SIZE);
	put32(out, NBD_REQUEST_MAGIC);
	out[7] = (unsigned char)command;
	put32(out + 24, length);
	return NBD_REQUEST_SIZE;
}

static void read_block(struct peer *p)
{
	unsigned char message[NBD_REQUEST_SIZE], data[16 + BLOCK];

	send_all(p, message, request(message, NBD_CMD_READ, BLOCK));
	recv_all(p, data, sizeof(data));
	if (get32(data) != NBD_SIMPLE_REPLY_MAGIC || get32(data + 4))
		die("a read failed");
}

static void start_tls(struct peer *p)
{
	int r;

	ask(p, NBD_OPT_STARTTLS, NULL, 0);
	acknowledged(p);
	check_tls(gnutls_init(&p->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), "gnutls_init");
	check_tls(gnutls_set_default_priority(p->tls), "priority");
	check_tls(gnutls_credentials_set(p->tls, GNUTLS_CRD_CERTIFICATE, credentials), "credentials");
	gnutls_session_set_verify_cert(p->tls, "localhost", 0);
	gnutls_transport_set_int(p->tls, p->fd);
	do
		r = gnutls_handshake(p->tls);
	while (r == GNUTLS_E_INTERRUPTED);
	check_tls(r, "handshake");
}

static void leave(struct peer *p, bool reset)
{
	struct linger linger = { .l_onoff = 1 };

	if (reset)
		setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	if (p->tls)
		gnutls_deinit(p->tls);
	close(p->fd);
}

/* ---- the cycles ---- */

static void come_and_go(struct peer *p, bool tls)
{
	unsigned char message[NBD_REQUEST_SIZE];

	greet(p);
	if (tls)
		start_tls(p);
	if (cycle % 7 == 0) {
		ask(p, NBD_OPT_ABORT, NULL, 0);
		acknowledged(p);
		leave(p, false);
		return;
	}
	attach(p);
	if (cycle % 3 == 0)
		read_block(p);
	if (cycle % 5 < 3) {
		send_all(p, message, request(message, NBD_CMD_DISC, 0));
		if (tls)
			gnutls_bye(p->tls, GNUTLS_SHUT_WR);
	}
	leave(p, cycle % 5 == 4);
}

/* 2 ways to go from each of 8 places; and by the Unix socket and TCP, as cycles are numbered. */
static void drop(struct peer *p)
{
	static const unsigned char hello[64] = { 22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3 };
	unsigned char message[NBD_REQUEST_SIZE];
	unsigned place = cycle / 4 % 8;

	if (place >= 1)
		greet(p);
	if (place == 2)
		send_all(p, "IHAVEOPT\0\0", 10);
	if (place == 3)
		send_all(p, "IHAVEOPT\0\0\0\7\0\0\0\40abcd", 20);
	if (place == 4 || place == 5) {
		ask(p, NBD_OPT_STARTTLS, NULL, 0);
		acknowledged(p);
	}
	if (place == 5)
		send_all(p, hello, sizeof(hello));
	if (place >= 6)
		attach(p);
	if (place == 6)
		send_all(p, message, request(message, NBD_CMD_WRITE, 1 << 20) - cycle % 3);
	if (place == 7)
		for (unsigned i = 0; i < 5; i++) /* their answers find nobody */
			send_all(p, message, request(message, NBD_CMD_READ, 65536));
	leave(p, cycle / 2 % 2);
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	unsigned n;
	struct peer p;
	char kind;

	if (argc != 6 || !strchr("ptd", argv[1][0]))
		die("usage: cycles plain|tls|drop N SOCKET PORT CA");
	kind = argv[1][0];
	n = (unsigned)atoi(argv[2]);
	check_tls(gnutls_certificate_allocate_credentials(&credentials), "credentials");
	check_tls(gnutls_certificate_set_x509_trust_file(credentials, argv[5], GNUTLS_X509_FMT_PEM),
		  argv[5]);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (cycle = 0; cycle < n; cycle++) {
		open_peer(&p, argv[3], (uint16_t)atoi(argv[4]));
		if (kind == 'd' && cycle % 64 >= 2)
			drop(&p);
		else
			come_and_go(&p, kind == 't');
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%u cycles, %s: %.1f s\n", n, argv[1], (double)(end.tv_sec - begin.tv_sec) +
	       (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
	gnutls_certificate_free_credentials(credentials);
	return 0;
}
