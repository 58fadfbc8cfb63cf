/*
 * TLS handshakes of connections, which workers do: against a client of GnuTLS, with a loop whose
 * turns this thread makes, so that anything can come between two of them.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/net/conn.h"
#include "server/net/service.h"
#include "tests/unit/suite.h"
#include "tests/unit/tls_key.h"

enum { HELLO = 4, OPTION = 16, GREETING = 18, REPLY = 20, LIST = 3, STARTTLS = 5 };

static struct service service;
static struct loop *loop;
static struct conn *conn;         /* gone when the loop has none */
static int fd;                    /* the client's; the other one is the connection's */
static gnutls_session_t client;
static gnutls_psk_client_credentials_t secret;

/* ---- the server ---- */

static const char key[] = "00112233445566778899aabbccddeeff";
static const char other_key[] = "ffeeddccbbaa99887766554433221100";

static void look(int flags)
{
	struct timespec ts;

	ck_assert_int_ge(event_base_loop(loop->base, EVLOOP_ONCE | flags), 0);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	loop->now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	loop->again = false;
	loop_turn(loop);
}

static void turn(void)
{
	look(EVLOOP_NONBLOCK);
}

/* Waits for a worker, or for the client. */
static void wait_turn(void)
{
	look(loop->again ? EVLOOP_NONBLOCK : 0);
}

/* What the client says goes to its socket, or here, to be sent as we like. It may be deaf. */
static char heap[64 << 10];
static size_t heaped;
static bool to_heap, deaf;

static ssize_t push(gnutls_transport_ptr_t ptr, const void *data, size_t len)
{
	(void)ptr;
	if (!to_heap)
		return send(fd, data, len, MSG_NOSIGNAL);
	ck_assert_uint_le(heaped + len, sizeof(heap));
	memcpy(heap + heaped, data, len);
	heaped += len;
	return (ssize_t)len;
}

static ssize_t pull(gnutls_transport_ptr_t ptr, void *to, size_t room)
{
	(void)ptr;
	if (!deaf)
		return recv(fd, to, room, 0);
	errno = EAGAIN;
	return -1;
}

static void connect_client(const char *with)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNIX };
	struct arrival *a = calloc(1, sizeof(*a));
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	fd = pair[1];
	a->fd = pair[0];
	a->tls = NBD_TLS_REQUIRE;
	client_peer_init(&a->peer, (struct sockaddr *)&addr);
	atomic_fetch_add(&service.living, 1);
	atomic_fetch_add(&service.server.connections, 1);
	atomic_fetch_add(&loop->load, 1);
	conn_new(loop, a);
	conn = TAILQ_FIRST(&loop->conns);
	ck_assert_ptr_nonnull(conn);
	secret = client_of_key(with);
	gnutls_init(&client, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
	gnutls_priority_set_direct(client, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+ECDHE-PSK", NULL);
	gnutls_credentials_set(client, GNUTLS_CRD_PSK, secret);
	gnutls_transport_set_push_function(client, push);
	gnutls_transport_set_pull_function(client, pull);
	to_heap = deaf = false;
	heaped = 0;
}

static void setup(void)
{
	struct server_params params;
	char err[512];

	ck_assert_int_eq(tunable_defaults(server_rows, &params), 0);
	ck_assert_int_eq(service_init(&service, &params), 0);
	tunable_free(server_rows, &params);
	service.loops = loop = calloc(1, sizeof(*loop));
	service.nloops = 1;
	ck_assert_msg(!loop_init(loop, &service, 0, err, sizeof(err)), "%s", err);
	service_set_tls(&service, server_of_key(key));
	connect_client(key);
}

static void disconnect_client(void)
{
	gnutls_deinit(client);
	gnutls_psk_free_client_credentials(secret);
	if (fd >= 0)
		close(fd);
}

/* Nothing is left of the connection, whatever became of it. */
static void is_gone(void)
{
	while (!TAILQ_EMPTY(&loop->conns))
		wait_turn();
	ck_assert_uint_eq(atomic_load(&service.living), 0);
	ck_assert_uint_eq(atomic_load(&service.server.connections), 0);
	ck_assert_uint_eq(atomic_load(&loop->load), 0);
	ck_assert(TAILQ_EMPTY(&loop->handshakes));
}

static void teardown(void)
{
	if (!TAILQ_EMPTY(&loop->conns) && conn->state != CONN_DEAD)
		conn_kill(conn, NULL);
	is_gone();
	disconnect_client();
	service_exit(&service);
}

/* ---- the client ---- */

static void say(const void *bytes, size_t len)
{
	ssize_t n;

	/* A socket holds few words that are sent one by one. */
	while ((n = write(fd, bytes, len)) < 0 && errno == EAGAIN)
		wait_turn();
	ck_assert_int_eq(n, (ssize_t)len);
}

static void put_option(char to[OPTION], uint8_t number)
{
	memcpy(to, "IHAVEOPT", 8);
	memset(to + 8, 0, OPTION - 8);
	to[11] = (char)number;
}

/* So many bytes outside TLS. */
static void hear(size_t len)
{
	char bytes[100];

	while (len) {
		ssize_t n = read(fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes));

		ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
		if (n > 0)
			len -= (size_t)n;
		else
			wait_turn();
	}
}

/* The flags, STARTTLS and `more`, all in one, up to the answer. */
static void start_tls(const char *more)
{
	char bytes[HELLO + OPTION + 100] = { 0, 0, 0, 3 };
	size_t len = strlen(more);

	put_option(bytes + HELLO, STARTTLS);
	memcpy(bytes + HELLO + OPTION, more, len);
	say(bytes, HELLO + OPTION + len);
	hear(GREETING + REPLY);
}

/* Its first words alone. */
static void say_hello(void)
{
	deaf = true;
	ck_assert_int_eq(gnutls_handshake(client), GNUTLS_E_AGAIN);
	deaf = false;
}

static void shake(void)
{
	int res;

	while ((res = gnutls_handshake(client)) == GNUTLS_E_AGAIN)
		wait_turn();
	ck_assert_msg(!res, "%s", gnutls_strerror(res));
}

/* The socket is closed, after what it still holds. */
static void hears_the_end(void)
{
	char bytes[1000];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) && !(n < 0 && errno == ECONNRESET))
		if (n < 0 && errno == EAGAIN)
			wait_turn();
		else
			ck_assert_int_gt(n, 0);
}

/* LIST is answered inside TLS: ACK, as there is nothing to list. */
static void is_answered(void)
{
	char reply[REPLY];
	ssize_t n;

	while ((n = gnutls_record_recv(client, reply, sizeof(reply))) == GNUTLS_E_AGAIN)
		wait_turn();
	ck_assert_int_eq(n, REPLY);
	ck_assert_mem_eq(reply + 8, "\0\0\0\3\0\0\0\1\0\0\0\0", 12);
}

static void asks(void)
{
	char option[OPTION];

	put_option(option, LIST);
	ck_assert_int_eq(gnutls_record_send(client, option, OPTION), OPTION);
}

/* ---- what goes well ---- */

START_TEST(inside)
{
	start_tls("");
	ck_assert(conn->shaking);
	shake();
	asks();
	is_answered();
	ck_assert(!conn->shaking && conn->hs->peer.secure);
	ck_assert_str_eq(conn->hs->peer.name, "alice");
	close(fd);
	fd = -1;
	is_gone();
}
END_TEST

/* The client's words come byte by byte, while workers are at those before. */
START_TEST(byte_by_byte)
{
	int res;

	start_tls("");
	to_heap = true;
	do {
		res = gnutls_handshake(client);
		ck_assert(!res || res == GNUTLS_E_AGAIN);
		for (size_t i = 0; i < heaped; i++) {
			say(heap + i, 1);
			turn();
		}
		if (res && !heaped)
			wait_turn();
		heaped = 0;
	} while (res);
	asks();
	for (size_t i = 0; i < heaped; i++) {
		say(heap + i, 1);
		turn();
	}
	is_answered();
}
END_TEST

/* The last of the handshake, a new key and an option come as one: nothing tells of the option again. */
START_TEST(all_at_once)
{
	start_tls("");
	say_hello();
	to_heap = true;
	shake();
	ck_assert_int_eq(gnutls_session_key_update(client, 0), 0);
	asks();
	say(heap, heaped);
	is_answered();
}
END_TEST

/* The server's own words wait for room. */
START_TEST(a_full_socket)
{
	char junk[1000] = "";
	size_t len = 0;
	ssize_t n;

	start_tls("");
	while ((n = write(conn->fd, junk, sizeof(junk))) > 0)
		len += (size_t)n;
	ck_assert_int_eq(errno, EAGAIN);
	say_hello();
	while (!conn->watches_write)
		wait_turn();
	ck_assert(!conn->shaking);
	hear(len);
	shake();
	asks();
	is_answered();
}
END_TEST

/* New keys are for those who come after them. */
START_TEST(other_keys)
{
	start_tls("");
	service_set_tls(&service, _i ? server_of_key(other_key) : NULL);
	shake();
	asks();
	is_answered();
	conn_kill(conn, NULL);
	is_gone();
	disconnect_client();
	connect_client(other_key);
	start_tls("");
	if (_i) {
		shake();
		asks();
		is_answered();
	} else {
		hears_the_end();
		is_gone();
	}
}
END_TEST

/* ---- what does not ---- */

/* The connection goes while a worker has it: at the beginning, or with the client's words to read. */
START_TEST(killed_at_work)
{
	start_tls("");
	if (_i & 1)
		say_hello();
	if (_i & 2) {
		/* With the next of its words. */
		while (conn->shaking)
			wait_turn();
		gnutls_handshake(client);
		while (!conn->shaking)
			wait_turn();
	}
	ck_assert(conn->shaking);
	if (_i & 4) {
		loop->now += server_param(&service.server.params.handshake_timeout);
		conn_timeouts(loop);
	} else {
		conn_kill(conn, "a test");
	}
	/* The worker uses the socket, so its number cannot be another's. */
	ck_assert_ptr_eq(TAILQ_FIRST(&loop->conns), conn);
	ck_assert_int_eq(conn->state, CONN_DEAD);
	ck_assert_int_ge(fcntl(conn->fd, F_GETFD), 0);
	ck_assert_uint_eq(atomic_load(&service.server.connections), 1);
	is_gone();
	hears_the_end();
}
END_TEST

/* Who wrote this, outside TLS? */
START_TEST(more_than_starttls)
{
	start_tls(_i ? "IHAVEOPT" : "x");
	is_gone();
	hears_the_end();
}
END_TEST

START_TEST(a_wrong_key)
{
	int res;

	disconnect_client();
	is_gone();
	connect_client(other_key);
	start_tls("");
	while ((res = gnutls_handshake(client)) == GNUTLS_E_AGAIN)
		wait_turn();
	is_gone();
	if (!res) {
		/* In TLS 1.3 the client is done first. */
		char text[100];

		res = (int)gnutls_record_recv(client, text, sizeof(text));
	}
	ck_assert_int_eq(res, GNUTLS_E_FATAL_ALERT_RECEIVED);
}
END_TEST

START_TEST(the_client_goes)
{
	start_tls("");
	if (_i)
		say_hello();
	close(fd);
	fd = -1;
	is_gone();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("secure");
	TCase *tc = tcase_create("handshakes");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, inside);
	tcase_add_test(tc, byte_by_byte);
	tcase_add_test(tc, all_at_once);
	tcase_add_test(tc, a_full_socket);
	tcase_add_loop_test(tc, other_keys, 0, 2);
	tcase_add_loop_test(tc, killed_at_work, 0, 8);
	tcase_add_loop_test(tc, more_than_starttls, 0, 2);
	tcase_add_test(tc, a_wrong_key);
	tcase_add_loop_test(tc, the_client_goes, 0, 2);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
