/*
 * Endpoints: what `listen` and `unix` say.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/endpoint.h"
#include "server/export/settings.h"
#include "tests/unit/suite.h"

static char err[TUNABLE_ERR_MAX];
static struct endpoint e;

static void takes(const char *text)
{
	ck_assert_msg(!endpoint_parse_listen(text, &e, err, sizeof(err)), "%s: %s", text, err);
}

static void takes_path(const char *text)
{
	ck_assert_msg(!endpoint_parse_unix(text, &e, err, sizeof(err)), "%s: %s", text, err);
}

START_TEST(addresses)
{
	takes("10.0.0.1:10809");
	ck_assert_int_eq(e.kind, ENDPOINT_TCP);
	ck_assert_str_eq(e.host, "10.0.0.1");
	ck_assert_str_eq(e.port, "10809");
	ck_assert(!e.own_tls && !e.readonly && !e.has_mode && !e.has_group);
	takes("[fd00::1]:0");
	ck_assert_str_eq(e.host, "fd00::1");
	ck_assert_str_eq(e.port, "0");
	takes(":65535");
	ck_assert_str_eq(e.host, "");
	takes("vsock:0");
	ck_assert_int_eq(e.kind, ENDPOINT_VSOCK);
	ck_assert(e.any_cid && e.vport == 0);
	takes("vsock:3:4294967294");
	ck_assert(!e.any_cid && e.cid == 3 && e.vport == 4294967294u);
	takes_path("vsock:3");
	ck_assert_int_eq(e.kind, ENDPOINT_UNIX);
	ck_assert_str_eq(e.path, "vsock:3");
}
END_TEST

START_TEST(words)
{
	takes("  localhost:1   readonly  tls=require ");
	ck_assert_str_eq(e.host, "localhost");
	ck_assert(e.readonly && e.own_tls && e.tls == 2);
	takes("vsock:1 tls=off");
	ck_assert(e.own_tls && e.tls == 0);
	takes_path("/run/l.sock mode=660 tls=allow group=0 readonly");
	ck_assert(e.own_tls && e.tls == 1 && e.readonly);
	ck_assert(e.has_mode && e.mode == 0660 && e.has_group && e.group == 0);
	takes_path("/run/l.sock group=root mode=0");
	ck_assert(e.has_mode && e.mode == 0 && e.has_group && e.group == 0);
}
END_TEST

START_TEST(errors)
{
	static const struct {
		bool path;
		const char *text, *why;
	} bad[] = {
		{ false, "", "'' is empty; expected an address or a path" },
		{ false, "10.0.0.1", "'10.0.0.1' is no address to listen on; expected HOST:PORT" },
		{ false, "::1:10809", "'::1:10809' is no address" },
		{ false, "[::1:10809", "'[::1:10809' is no address" },
		{ false, "[]:65536", "'[]:65536' is no address" },
		{ false, "a:", "'a:' is no address" },
		{ false, "a:-1", "'a:-1' is no address" },
		{ false, "vsock:", "'vsock:' is no address of vsock; expected vsock:PORT or " },
		{ false, "vsock:x", "'vsock:x' is no address of vsock" },
		{ false, "vsock:4294967295", "is no address of vsock" },
		{ false, "vsock::1", "is no address of vsock" },
		{ false, "vsock:1:", "is no address of vsock" },
		{ false, "vsock:1:2:3", "is no address of vsock" },
		{ false, "vsock:12345678901234567:2", "is no address of vsock" },
		{ false, "a:1 tls", "'tls' is no word for a socket; expected tls= or readonly" },
		{ false, "a:1 tls=yes", "'tls=yes' is not a choice; expected tls=off, tls=allow or" },
		{ false, "a:1 tls=", "'tls=' is not a choice" },
		{ false, "a:1 tls=off tls=off", "'tls=off' is the second of its kind; expected each" },
		{ false, "a:1 readonly readonly", "'readonly' is the second of its kind" },
		{ false, "a:1 readonly=1", "'readonly=1' is no word" },
		{ false, "a:1 mode=0600", "'mode=0600' is no word" },
		{ false, "a:1,b:1", "'a:1,b:1' is no address" },
		{ true, "/a b", "'b' is no word for a socket; expected tls=, readonly, mode= or" },
		{ true, "/a mode=888", "'mode=888' is not a mode; expected an octal number" },
		{ true, "/a mode=1777", "'mode=1777' is not a mode" },
		{ true, "/a mode=00660", "'mode=00660' is not a mode" },
		{ true, "/a mode=", "'mode=' is not a mode" },
		{ true, "/a group=", "'group=' is no group of this machine; expected group=NAME" },
		{ true, "/a group=no-such-group", "'group=no-such-group' is no group" },
		{ true, " ", "' ' is empty" },
	};
	char path[300];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int (*check)(const char *text, char *why, size_t len) =
			bad[i].path ? endpoint_check_unix : endpoint_check_listen;

		ck_assert_msg(check(bad[i].text, err, sizeof(err)), "'%s'", bad[i].text);
		ck_assert_msg(strstr(err, bad[i].why), "'%s': %s", bad[i].text, err);
	}
	memset(path, 'a', sizeof(path));
	path[107] = '\0';
	takes_path(path);
	path[107] = 'a';
	path[108] = '\0';
	ck_assert(endpoint_check_unix(path, err, sizeof(err)));
	ck_assert_msg(strstr(err, "is too long; expected a path of 1..107 bytes"), "%s", err);
	snprintf(path + 256, 4, ":1");
	memset(path, 'a', 256);
	ck_assert(endpoint_check_listen(path, err, sizeof(err)));
	takes(path + 1);
}
END_TEST

START_TEST(tls_for_one_of_them)
{
	char *listen[] = { (char *)"a:1", (char *)"b:1 tls=off", NULL };
	char *paths[] = { (char *)"/a readonly", (char *)"/b tls=allow", NULL };
	struct server_params p = { .listen = listen };

	ck_assert(!endpoints_want_tls(&p));
	p.unix_sockets = paths;
	ck_assert(endpoints_want_tls(&p));
	paths[1] = NULL;
	ck_assert(!endpoints_want_tls(&p));
	p.tls = 1;
	ck_assert(endpoints_want_tls(&p));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("endpoint");
	TCase *tc = tcase_create("endpoint");

	tcase_add_test(tc, addresses);
	tcase_add_test(tc, words);
	tcase_add_test(tc, errors);
	tcase_add_test(tc, tls_for_one_of_them);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
