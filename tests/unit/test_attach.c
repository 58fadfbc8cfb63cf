/*
 * Attaching: who is permitted, seats and what they count, limits, one writer, peers that have gone.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/export/registry.h"
#include "tests/unit/suite.h"

static struct server server;
static struct export *export;
static char err[2 * TUNABLE_ERR_MAX];

static void setup(void)
{
	struct setting all[] = { { "path", "null:" }, { "size", "1M" }, { "name", "disk" } };
	struct server_params params;
	struct export_settings st;
	struct setting_error why;

	ck_assert_int_eq(tunable_defaults(server_rows, &params), 0);
	ck_assert_int_eq(server_init(&server, &params), 0);
	tunable_free(server_rows, &params);
	ck_assert_int_eq(export_settings_init(&st), 0);
	ck_assert_int_eq(export_settings_set(&st, all, 3, &why), 0);
	ck_assert_int_eq(export_open(&server, &st, &export, err, sizeof(err)), 0);
	export_settings_free(&st);
}

static void teardown(void)
{
	ck_assert_uint_eq(export->nseats, 0);
	ck_assert_uint_eq(export->nwriters, 0);
	server_exit(&server);
}

static int try_set(const char *name, const char *value)
{
	struct setting s = { name, value };
	struct setting_error why;
	int res = export_set(export, &s, 1, &why);

	snprintf(err, sizeof(err), "%s", why.text);
	return res;
}

static void set(const char *name, const char *value)
{
	ck_assert_msg(!try_set(name, value), "%s", err);
}

static struct client_peer peer(unsigned host)
{
	struct client_peer p = { .kind = PEER_TCP };

	snprintf(p.address, sizeof(p.address), "10.0.0.%u", host);
	return p;
}

static int try(const struct client_peer *p, struct seat *s)
{
	*s = (struct seat){ .fd = -1 };
	err[0] = '\0';
	return export_attach(export, p, s, err, sizeof(err));
}

static void attach(unsigned host, struct seat *s)
{
	struct client_peer p = peer(host);

	ck_assert_msg(!try(&p, s), "%s", err);
}

static void refused(unsigned host, int res, const char *text)
{
	struct client_peer p = peer(host);
	struct seat s;

	ck_assert_int_eq(try(&p, &s), res);
	ck_assert_str_eq(err, text);
	ck_assert_ptr_null(s.client);
}

static bool is_writer(const char *id)
{
	struct client_summary *list;
	bool writer = false;
	size_t n;

	ck_assert_int_eq(export_clients(export, true, &list, NULL, &n), 0);
	for (size_t i = 0; i < n; i++)
		writer |= !strcmp(list[i].id, id) && list[i].writer;
	free(list);
	return writer;
}

START_TEST(access_lists)
{
	struct client_peer p = peer(1);
	struct export_use use;
	struct seat s;

	attach(1, &s);
	ck_assert(!s.use.readonly && !s.use.alone);
	ck_assert(is_writer("ip:10.0.0.1"));
	set("access", "ip:10.0.0.1 ro, ip:10.0.0.2 no");
	ck_assert_uint_eq(export->nseats, 1); /* as it was */
	seat_free(&s);
	attach(1, &s);
	ck_assert(s.use.readonly);
	ck_assert(!is_writer("ip:10.0.0.1"));
	seat_free(&s);
	refused(2, -EACCES, "export 'disk': 10.0.0.2 is not permitted: its access list has "
			    "'ip:10.0.0.2 no'");
	refused(3, -EACCES,
		"export 'disk': 10.0.0.3 is not permitted: no entry of its access list matches");
	/* Who is refused has no account. */
	disk_lock(export->disk);
	ck_assert_ptr_null(client_find(export, "ip:10.0.0.3"));
	disk_unlock(export->disk);
	ck_assert_int_eq(try_set("access", "ip:10.0.0.300 rw"), -EINVAL);
	ck_assert_str_eq(err, "access: '10.0.0.300' is neither an address nor a network; expected "
			      "ip:ADDRESS or ip:ADDRESS/PREFIX, as ip:10.0.0.0/8 or ip:fd00::/64");
	refused(3, -EACCES,
		"export 'disk': 10.0.0.3 is not permitted: no entry of its access list matches");
	snprintf(p.name, sizeof(p.name), "alice");
	ck_assert_int_eq(export_permits(export, &p, &use, err, sizeof(err)), 0);
	ck_assert(use.readonly);
	set("access", "tls:alice rw, ip:10.0.0.1 no");
	ck_assert_int_eq(export_permits(export, &p, &use, err, sizeof(err)), -EACCES);
	ck_assert_ptr_nonnull(strstr(err, "'alice' at 10.0.0.1 is not permitted"));
	set("access", "tls:alice rw");
	ck_assert_int_eq(export_permits(export, &p, &use, err, sizeof(err)), 0);
	ck_assert(!use.readonly);
	p.readonly = true;
	ck_assert_int_eq(export_permits(export, &p, &use, err, sizeof(err)), 0);
	ck_assert(use.readonly);
	set("access", "");
	attach(3, &s);
	seat_free(&s);
	seat_free(&s); /* once more is fine */
}
END_TEST

START_TEST(one_writer)
{
	struct seat a, b, c;

	set("writers", "one");
	attach(1, &a);
	ck_assert(a.use.alone);
	refused(1, -EBUSY, "export 'disk': 10.0.0.1 cannot attach: ip:10.0.0.1 writes to it, and "
			   "writers is one");
	refused(2, -EBUSY, "export 'disk': 10.0.0.2 cannot attach: ip:10.0.0.1 writes to it, and "
			   "writers is one");
	/* Who may only read always can. */
	set("access", "ip:10.0.0.2 ro, * rw");
	attach(2, &b);
	ck_assert(b.use.readonly && !b.use.alone);
	attach(2, &c);
	seat_free(&c);
	seat_vacate(&a); /* free, though the account is still in use */
	attach(3, &c);
	ck_assert(is_writer("ip:10.0.0.3") && !is_writer("ip:10.0.0.1"));
	seat_free(&a);
	refused(1, -EBUSY, "export 'disk': 10.0.0.1 cannot attach: ip:10.0.0.3 writes to it, and "
			   "writers is one");
	seat_free(&b);
	seat_free(&c);
}
END_TEST

START_TEST(one_client_writes)
{
	struct seat a, b, c;

	set("writers", "identity");
	attach(1, &a);
	attach(1, &b);
	ck_assert(!a.use.alone && !b.use.alone);
	refused(2, -EBUSY, "export 'disk': 10.0.0.2 cannot attach: ip:10.0.0.1 writes to it, and "
			   "writers is identity");
	seat_free(&a);
	refused(2, -EBUSY, "export 'disk': 10.0.0.2 cannot attach: ip:10.0.0.1 writes to it, and "
			   "writers is identity");
	seat_free(&b);
	attach(2, &c);
	/* Changed while others are there: they stay. */
	set("writers", "many");
	attach(1, &a);
	set("writers", "identity");
	refused(2, -EBUSY, "export 'disk': 10.0.0.2 cannot attach: ip:10.0.0.1 writes to it, and "
			   "writers is identity");
	seat_free(&a);
	attach(2, &a);
	seat_free(&a);
	seat_free(&c);
}
END_TEST

START_TEST(limits)
{
	struct seat s[4];

	set("export_connections", "3");
	set("client_connections", "2");
	attach(1, &s[0]);
	attach(1, &s[1]);
	refused(1, -EBUSY, "export 'disk': 10.0.0.1 cannot attach: ip:10.0.0.1 has 2 connections, "
			   "and client_connections is 2");
	attach(2, &s[2]);
	refused(3, -EBUSY, "export 'disk': 10.0.0.3 cannot attach: it has 3 connections, and "
			   "export_connections is 3");
	seat_free(&s[0]);
	attach(3, &s[3]);
	set("export_connections", "0");
	set("client_connections", "0");
	attach(1, &s[0]);
	for (unsigned i = 0; i < 4; i++)
		seat_free(&s[i]);
}
END_TEST

/* A seat with a socket, whose other end is returned. */
static int attach_socket(unsigned host, bool half_closes, struct seat *s)
{
	struct client_peer p = peer(host);
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	*s = (struct seat){ .fd = fd[0], .half_closes = half_closes };
	ck_assert_msg(!export_attach(export, &p, s, err, sizeof(err)), "%s", err);
	return fd[1];
}

static void leave(struct seat *s)
{
	seat_vacate(s);
	close(s->fd);
	seat_free(s);
}

START_TEST(who_has_gone_has_no_seat)
{
	struct seat a, b, c, many[8];
	int other, ends[8];

	set("writers", "one");
	other = attach_socket(1, true, &a);
	refused(2, -EBUSY, "export 'disk': 10.0.0.2 cannot attach: ip:10.0.0.1 writes to it, and "
			   "writers is one");
	/* Half-closed: on a Unix socket it is still there. */
	shutdown(other, SHUT_WR);
	refused(2, -EBUSY, "export 'disk': 10.0.0.2 cannot attach: ip:10.0.0.1 writes to it, and "
			   "writers is one");
	close(other);
	attach(2, &b);
	seat_free(&b);
	/* Elsewhere it is not. */
	other = attach_socket(3, false, &b);
	shutdown(other, SHUT_WR);
	attach(4, &c);
	ck_assert(!b.taken && a.client && b.client);
	leave(&a);
	leave(&b);
	seat_free(&c);
	close(other);
	set("writers", "many");
	set("export_connections", "8");
	set("client_connections", "4");
	for (unsigned i = 0; i < 8; i++)
		ends[i] = attach_socket(i % 2, true, &many[i]);
	close(ends[0]); /* of client 0 */
	refused(1, -EBUSY, "export 'disk': 10.0.0.1 cannot attach: ip:10.0.0.1 has 4 connections, "
			   "and client_connections is 4");
	attach(0, &a);
	refused(2, -EBUSY, "export 'disk': 10.0.0.2 cannot attach: it has 8 connections, and "
			   "export_connections is 8");
	close(ends[1]);
	attach(2, &b);
	for (unsigned i = 0; i < 8; i++) {
		if (i > 1)
			close(ends[i]);
		leave(&many[i]);
	}
	seat_free(&a);
	seat_free(&b);
}
END_TEST

/* ---- at once ---- */

enum { THREADS = 8, ROUNDS = 200 };

static struct {
	pthread_barrier_t barrier;
	struct seat seat[THREADS];
	int res[THREADS];
} crowd;

static void *come(void *arg)
{
	unsigned i = (unsigned)(size_t)arg;
	struct client_peer p = peer(i % 4);
	char text[TUNABLE_ERR_MAX];

	for (unsigned round = 0; round < ROUNDS; round++) {
		crowd.seat[i] = (struct seat){ .fd = -1 };
		pthread_barrier_wait(&crowd.barrier);
		crowd.res[i] = export_attach(export, &p, &crowd.seat[i], text, sizeof(text));
		pthread_barrier_wait(&crowd.barrier);
		/* The main thread counts. */
		pthread_barrier_wait(&crowd.barrier);
		seat_free(&crowd.seat[i]);
	}
	return NULL;
}

static void together(const char *name, const char *value, unsigned want)
{
	pthread_t thread[THREADS];

	set(name, value);
	pthread_barrier_init(&crowd.barrier, NULL, THREADS + 1);
	for (size_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, come, (void *)i), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned got = 0;

		pthread_barrier_wait(&crowd.barrier);
		pthread_barrier_wait(&crowd.barrier);
		for (unsigned i = 0; i < THREADS; i++) {
			ck_assert(!crowd.res[i] || crowd.res[i] == -EBUSY);
			got += !crowd.res[i];
		}
		ck_assert_uint_eq(got, want);
		ck_assert_uint_eq(export->nseats, want);
		pthread_barrier_wait(&crowd.barrier);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&crowd.barrier);
	set(name, !strcmp(name, "writers") ? "many" : "0");
}

START_TEST(never_one_too_many)
{
	together("export_connections", "3", 3);
	together("client_connections", "1", 4);
	together("writers", "one", 1);
	together("writers", "identity", 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("attach");
	TCase *tc = tcase_create("attach");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, access_lists);
	tcase_add_test(tc, one_writer);
	tcase_add_test(tc, one_client_writes);
	tcase_add_test(tc, limits);
	tcase_add_test(tc, who_has_gone_has_no_seat);
	tcase_add_test(tc, never_one_too_many);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
