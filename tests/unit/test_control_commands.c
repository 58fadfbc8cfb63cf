/*
 * The command table and its parser: rows that agree, words that are taken apart, hints.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/control/commands.h"
#include "tests/unit/suite.h"

static char err[1024];

/* Splits "a b c" at spaces; '' stands for an empty word. */
static int parse(const char *words, struct command_call *call)
{
	static char buf[256], *argv[16];
	int argc = 0;

	ck_assert_uint_lt(strlen(words), sizeof(buf));
	strcpy(buf, words);
	for (char *w = strtok(buf, " "); w; w = strtok(NULL, " "))
		argv[argc++] = strcmp(w, "''") ? w : w + 2;
	return command_parse(argc, argv, call, err, sizeof(err));
}

static void parses(const char *words, const char *method, struct command_call *call)
{
	ck_assert_msg(!parse(words, call), "%s: %s", words, err);
	ck_assert_str_eq(call->command->method, method);
}

static void refuses(const char *words, const char *part)
{
	struct command_call call;

	ck_assert_msg(parse(words, &call) == -EINVAL, "%s: taken as %s", words,
		      call.command ? call.command->pattern : "?");
	ck_assert_msg(strstr(err, part), "%s: '%s' does not say '%s'", words, err, part);
}

/* What commands.h promises about the table. */
START_TEST(test_table)
{
	unsigned n = 0;

	for (const struct command *c = commands; c->method; c++, n++) {
		const struct command *first = command_by_method(c->method);
		unsigned params = 0;

		ck_assert_ptr_eq(c->params, first->params);
		ck_assert_int_eq(c->writes, first->writes);
		ck_assert_ptr_nonnull(c->help);
		ck_assert_ptr_null(strchr(c->help, '\n'));
		ck_assert_uint_le(strlen(c->help), 80);
		for (const struct command_param *p = c->params; p->name; p++) {
			params++;
			/* What must be given can be given on the command line. */
			ck_assert(!p->required || p->word);
			ck_assert(!p->word || p->kind != COMMAND_SETTINGS ||
				  !strcmp(p->word, "NAME=VALUE..."));
		}
		ck_assert_uint_le(params, COMMAND_MAX_PARAMS);
		for (const struct command *d = commands; d < c; d++)
			ck_assert_str_ne(c->pattern, d->pattern);
	}
	ck_assert_uint_gt(n, 5);
	for (const struct command_counter *c = command_counters; c->name; c++)
		ck_assert(c->help && *c->help);
}
END_TEST

START_TEST(test_words)
{
	struct command_call call;

	parses("list", "export.list", &call);
	parses("show disk", "export.get", &call);
	ck_assert_str_eq(call.text[0], "disk");
	ck_assert_ptr_null(call.local);

	parses("get disk read_expire", "export.get", &call);
	ck_assert_str_eq(call.text[0], "disk");
	ck_assert_str_eq(call.local, "read_expire");

	/* The default export. */
	parses("get '' scheduler", "export.get", &call);
	ck_assert_str_eq(call.text[0], "");
	parses("clients ''", "client.list", &call);
	ck_assert_str_eq(call.text[0], "");
	parses("clients", "client.list", &call);
	ck_assert_ptr_null(call.text[0]);

	parses("set disk a=1 b= c=x=y", "export.set", &call);
	ck_assert_int_eq(call.nsettings, 3);
	ck_assert_str_eq(call.settings[2], "c=x=y");
	ck_assert_ptr_null(call.setting);

	parses("scheduler disk", "export.get", &call);
	ck_assert_ptr_null(call.setting);
	parses("scheduler disk noop", "export.set", &call);
	ck_assert_str_eq(call.setting, "noop");
	ck_assert_str_eq(call.command->setting, "scheduler");

	parses("client ip:10.0.0.7 set weight=300 class=be", "client.set", &call);
	ck_assert_str_eq(call.text[0], "ip:10.0.0.7");
	ck_assert_ptr_null(call.text[1]);
	ck_assert_int_eq(call.nsettings, 2);

	/* Words of the table are names like any other where a name is due. */
	parses("show set", "export.get", &call);
	parses("client ip:10.0.0.7 drain", "client.drain", &call);
	ck_assert_str_eq(call.text[0], "ip:10.0.0.7");
	parses("client drain disconnect", "client.disconnect", &call);
	ck_assert_str_eq(call.text[0], "drain");
	parses("client set set weight=1", "client.set", &call);
	ck_assert_str_eq(call.text[0], "set");
}
END_TEST

START_TEST(test_wrong_words)
{
	refuses("", "no command");
	refuses("lists", "did you mean list");
	refuses("frobnicate", "--help");
	refuses("List", "unknown command");
	refuses("show", "usage: liftctl show EXPORT");
	refuses("show a b", "usage: liftctl show EXPORT");
	refuses("list all", "usage: liftctl list");
	refuses("get disk", "usage: liftctl get EXPORT NAME");
	refuses("set disk", "usage: liftctl set EXPORT NAME=VALUE...");
	refuses("set disk a", "'a' is not NAME=VALUE");
	refuses("set disk =1", "'=1' is not NAME=VALUE");
	refuses("set disk a=1 a=1", "a is given twice");
	refuses("scheduler", "usage: liftctl scheduler EXPORT\n");
	refuses("scheduler", "usage: liftctl scheduler EXPORT NAME");
	refuses("scheduler a b c", "usage: liftctl scheduler EXPORT NAME");
	refuses("client", "usage: liftctl client ID set");
	refuses("client x", "usage: liftctl client ID set");
	refuses("client x set", "usage: liftctl client ID set");
	refuses("client x sett a=1", "usage: liftctl client ID set");
	refuses("shutdown now", "usage: liftctl shutdown");
	/* Not commands before they work. */
	refuses("top a b", "usage: liftctl top [EXPORT]");
	refuses("client x drain y", "usage: liftctl client ID drain");
	refuses("client x disconnect y=1", "usage: liftctl client ID disconnect");
}
END_TEST

START_TEST(test_nearest)
{
	static const char *const names[] = { "export.get", NULL, "export.set", "client.list" };

	ck_assert_str_eq(command_nearest("export.gte", names, 4), "export.get");
	ck_assert_str_eq(command_nearest("clientlist", names, 4), "client.list");
	ck_assert_ptr_null(command_nearest("server.reload", names, 4));
	ck_assert_ptr_null(command_nearest("", names, 4));
	ck_assert_ptr_null(command_nearest("x", names, 0));
}
END_TEST

START_TEST(test_socket_path)
{
	char path[64];

	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("XDG_RUNTIME_DIR");
	ck_assert_int_eq(command_socket_path(0, path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/liftd/control.sock");
	ck_assert_int_eq(command_socket_path(1, path, sizeof(path)), -ENOENT);

	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	ck_assert_int_eq(command_socket_path(0, path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/user/7/liftd/control.sock");

	setenv("RUNTIME_DIRECTORY", "/run/a:/run/b", 1);
	ck_assert_int_eq(command_socket_path(0, path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/a/control.sock");
	ck_assert_int_eq(command_socket_path(1, path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/user/7/liftd/control.sock");
	ck_assert_int_eq(command_socket_path(2, path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/liftd/control.sock");
	ck_assert_int_eq(command_socket_path(3, path, sizeof(path)), -ENOENT);
	ck_assert_int_eq(command_socket_path(2, path, 10), -ENAMETOOLONG);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control commands");
	TCase *tc = tcase_create("all");

	tcase_add_test(tc, test_table);
	tcase_add_test(tc, test_words);
	tcase_add_test(tc, test_wrong_words);
	tcase_add_test(tc, test_nearest);
	tcase_add_test(tc, test_socket_path);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
