/*
 * TLS sessions, against a client of GnuTLS in the same thread: data both ways, a socket that is
 * full, and all the ways in which the other end may go.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/tls.h"
#include "tests/unit/suite.h"
#include "tests/unit/tls_key.h"

enum { LARGE = 3 << 20 };

static const char key[] = "00112233445566778899aabbccddeeff";
static struct tls_context *ctx;
static struct tls_session *server;
static gnutls_session_t client;
static gnutls_psk_client_credentials_t secret;
static int fd[2]; /* the server's, the client's */
static char stage[TLS_STAGE];
static char *large, *got;

static void shake(void)
{
	int a = -EAGAIN, b = GNUTLS_E_AGAIN;

	while (a || b) {
		if (b)
			b = gnutls_handshake(client);
		ck_assert(!b || b == GNUTLS_E_AGAIN);
		if (a)
			a = tls_shake(server);
		ck_assert_msg(!a || a == -EAGAIN, "%s", tls_why(server));
	}
}

static void setup(void)
{
	ctx = server_of_key(key);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	server = tls_session_new(ctx, fd[0]);
	ck_assert_ptr_nonnull(server);
	secret = client_of_key(key);
	gnutls_init(&client, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
	gnutls_priority_set_direct(client, "NORMAL:+ECDHE-PSK:+DHE-PSK:+PSK", NULL);
	gnutls_credentials_set(client, GNUTLS_CRD_PSK, secret);
	gnutls_transport_set_int(client, fd[1]);
	large = malloc(LARGE);
	got = malloc(LARGE);
	for (int i = 0; i < LARGE; i++)
		large[i] = (char)(i * 7 + i / 4096);
	shake();
}

static void teardown(void)
{
	gnutls_deinit(client);
	gnutls_psk_free_client_credentials(secret);
	tls_session_free(server);
	tls_context_put(ctx);
	close(fd[0]);
	if (fd[1] >= 0)
		close(fd[1]);
	free(large);
	free(got);
}

static ssize_t receive(void *to, size_t room)
{
	return tls_readv(server, &(struct iovec){ to, room }, 1);
}

static void client_says(const char *text)
{
	ck_assert_int_eq(gnutls_record_send(client, text, strlen(text)), (ssize_t)strlen(text));
}

/* What there is, behind the server's new key if there is one. */
static ssize_t client_hears(void *to, size_t room)
{
	ssize_t n = gnutls_record_recv(client, to, room);

	return n == GNUTLS_E_AGAIN ? gnutls_record_recv(client, to, room) : n;
}

static void client_goes(void)
{
	close(fd[1]);
	fd[1] = -1;
}

START_TEST(who_it_is)
{
	ck_assert_str_eq(tls_peer_name(server), "alice");
	ck_assert(strstr(tls_description(server), "PSK"));
}
END_TEST

/* Into several pieces, of several records; less than there is room for: nothing more is there. */
START_TEST(reads)
{
	char a[4], b[100];
	struct iovec iov[] = { { a, sizeof(a) }, { b, sizeof(b) } };

	ck_assert_int_eq(receive(b, sizeof(b)), -1);
	ck_assert_int_eq(errno, EAGAIN);
	client_says("abc");
	client_says("defgh");
	ck_assert_int_eq(tls_readv(server, iov, 2), 8);
	ck_assert_mem_eq(a, "abcd", 4);
	ck_assert_mem_eq(b, "efgh", 4);
	ck_assert(!tls_at_end(server));
}
END_TEST

/* Pieces as those of replies; the socket is full again and again, what is left is offered anew. */
START_TEST(a_full_socket)
{
	size_t sent = 0, came = 0;
	bool was_full = false;

	while (came < LARGE) {
		struct iovec iov[64];
		size_t at = sent;
		ssize_t n;
		int pieces = 0;

		for (; pieces < 64 && at < LARGE; pieces++) {
			size_t len = pieces % 3 == 2 ? 70000 : pieces % 3 ? 1 : 28;

			if (len > LARGE - at)
				len = LARGE - at;
			iov[pieces] = (struct iovec){ large + at, len };
			at += len;
		}
		n = pieces ? tls_sendv(server, iov, pieces, stage) : 0;
		ck_assert(n >= 0 || errno == EAGAIN);
		was_full |= n < (ssize_t)(at - sent);
		sent += n > 0 ? (size_t)n : 0;
		while ((n = gnutls_record_recv(client, got + came, LARGE - came)) > 0)
			came += (size_t)n;
		ck_assert(came == LARGE || n == GNUTLS_E_AGAIN);
	}
	ck_assert(was_full);
	ck_assert_uint_eq(sent, LARGE);
	ck_assert_mem_eq(got, large, LARGE);
}
END_TEST

/* The other end has gone: to send fails, but what it had said is there, as with a plain socket. */
START_TEST(gone_after_speaking)
{
	char text[100];
	ssize_t n;

	client_says("last words");
	client_goes();
	for (int i = 0; i < 2; i++) {
		n = tls_sendv(server, &(struct iovec){ large, 100 }, 1, stage);
		ck_assert_int_eq(n, -1);
		ck_assert_int_eq(errno, EPIPE);
	}
	ck_assert_int_eq(receive(text, sizeof(text)), 10);
	ck_assert_mem_eq(text, "last words", 10);
	ck_assert(tls_at_end(server));
	tls_bye(server);
}
END_TEST

/* In order, or by closing the socket: both are an end, after what was said. */
START_TEST(the_end)
{
	char text[100];

	client_says("bye");
	if (_i)
		gnutls_bye(client, GNUTLS_SHUT_WR);
	else
		client_goes();
	ck_assert_int_eq(receive(text, sizeof(text)), 3);
	ck_assert(tls_at_end(server));
	ck_assert_int_eq(receive(text, sizeof(text)), 0);
}
END_TEST

/* A new key, and what the client says with it, in one go: nothing tells of the latter a second time. */
START_TEST(a_new_key)
{
	char text[100];

	client_says("before ");
	ck_assert_int_eq(gnutls_session_key_update(client, _i ? GNUTLS_KU_PEER : 0), 0);
	client_says("after");
	ck_assert_int_eq(receive(text, sizeof(text)), 12);
	ck_assert_mem_eq(text, "before after", 12);
	ck_assert_int_eq(tls_sendv(server, &(struct iovec){ large, 100 }, 1, stage), 100);
	ck_assert_int_eq(client_hears(got, LARGE), 100);
}
END_TEST

/* The client wants a new key of the server, whose socket is full: then and always, nothing is lost. */
START_TEST(a_new_key_while_full)
{
	size_t sent = 0, came = 0;
	unsigned keys = 0;

	while (came < LARGE) {
		struct iovec iov = { large + sent, LARGE - sent };
		char text[10];
		ssize_t n;

		while (iov.iov_len && (n = tls_sendv(server, &iov, 1, stage)) > 0) {
			sent += (size_t)n;
			iov = (struct iovec){ large + sent, LARGE - sent };
		}
		ck_assert(!iov.iov_len || errno == EAGAIN);
		if (keys < 5) {
			ck_assert_int_eq(gnutls_session_key_update(client, GNUTLS_KU_PEER), 0);
			keys++;
		}
		ck_assert_int_eq(receive(text, sizeof(text)), -1);
		ck_assert_int_eq(errno, EAGAIN);
		while ((n = client_hears(got + came, LARGE - came)) > 0)
			came += (size_t)n;
		ck_assert(came == LARGE || n == GNUTLS_E_AGAIN);
	}
	ck_assert_uint_eq(keys, 5);
	ck_assert_mem_eq(got, large, LARGE);
}
END_TEST

/* Records that bring nothing: a few are passed over, but nobody keeps the server at reading them. */
START_TEST(empty_records)
{
	char text[100];

	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(gnutls_record_send2(client, "", 0, 1, 0), 0);
	client_says("after");
	ck_assert_int_eq(receive(text, sizeof(text)), 5);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(gnutls_record_send2(client, "", 0, 1, 0), 0);
	client_says("too late");
	ck_assert_int_eq(receive(text, sizeof(text)), -1);
	ck_assert_int_eq(errno, ECONNRESET);
}
END_TEST

/* In place of the client's socket, which does not hold many records that are sent one by one. */
static char heap[64 << 10];
static size_t heaped;

static ssize_t to_heap(gnutls_transport_ptr_t ptr, const void *data, size_t len)
{
	(void)ptr;
	ck_assert_uint_le(heaped + len, sizeof(heap));
	memcpy(heap + heaped, data, len);
	heaped += len;
	return (ssize_t)len;
}

/* The smaller they are the more work they make: of a byte each not too many are read at once. */
START_TEST(small_records)
{
	char text[1000];
	ssize_t n, came = 0;

	gnutls_transport_set_push_function(client, to_heap);
	for (size_t i = 0; i < sizeof(text); i++)
		ck_assert_int_eq(gnutls_record_send(client, large + i, 1), 1);
	ck_assert_int_eq(write(fd[1], heap, heaped), (ssize_t)heaped);
	n = receive(text, sizeof(text));
	ck_assert_int_lt(n, 500);
	ck_assert(tls_has_more(server));
	for (came = n; tls_has_more(server); came += n) {
		n = receive(text + came, sizeof(text) - (size_t)came);
		ck_assert_int_gt(n, 0);
	}
	ck_assert_int_eq(came, sizeof(text));
	ck_assert_mem_eq(text, large, sizeof(text));
	ck_assert_int_eq(receive(text, 1), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert(!tls_has_more(server));
}
END_TEST

START_TEST(no_tls_at_all)
{
	char text[100];

	ck_assert_int_eq(write(fd[1], "GET / HTTP/1.0\r\n\r\n", 18), 18);
	ck_assert_int_eq(receive(text, sizeof(text)), -1);
	ck_assert_int_eq(errno, ECONNRESET);
	ck_assert(*tls_why(server));
}
END_TEST

START_TEST(says_bye)
{
	char text[100];

	tls_bye(server);
	ck_assert_int_eq(gnutls_record_recv(client, text, sizeof(text)), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tls");
	TCase *tc = tcase_create("sessions");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, who_it_is);
	tcase_add_test(tc, reads);
	tcase_add_test(tc, a_full_socket);
	tcase_add_test(tc, gone_after_speaking);
	tcase_add_loop_test(tc, the_end, 0, 2);
	tcase_add_loop_test(tc, a_new_key, 0, 2);
	tcase_add_test(tc, a_new_key_while_full);
	tcase_add_test(tc, empty_records);
	tcase_add_test(tc, small_records);
	tcase_add_test(tc, no_tls_at_all);
	tcase_add_test(tc, says_bye);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
