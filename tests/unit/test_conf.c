/*
 * Configuration files: what they may say, everything that they may not, and that what is written
 * reads back as the same.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/conf_kinds.h"
#include "tests/unit/suite.h"

static struct conf conf;

static void teardown(void)
{
	conf_free(&conf);
}

static int load(const char *text)
{
	conf_free(&conf);
	return conf_load_text(&conf, "a.conf", text, strlen(text), test_kinds);
}

/* All errors, one a line. */
static const char *errors(void)
{
	static char all[8192];
	const struct conf_error *e;
	size_t used = 0;

	*all = '\0';
	TAILQ_FOREACH(e, &conf.errors, link) {
		used += (size_t)conf_error_text(e, all + used, sizeof(all) - used);
		used += (size_t)snprintf(all + used, sizeof(all) - used, "\n");
		ck_assert_uint_lt(used, sizeof(all));
	}
	return all;
}

static const struct conf_section *section(const char *word, const char *title)
{
	const struct conf_section *s;

	TAILQ_FOREACH(s, &conf.sections, link)
		if (!strcmp(s->kind->word, word) && !strcmp(s->title, title))
			return s;
	ck_abort_msg("there is no section [%s %s]", word, title);
	return NULL;
}

static const char *value(const char *word, const char *title, const char *name)
{
	const struct conf_setting *t = conf_get(section(word, title), name);

	return t ? t->value : "(none)";
}

/* ---- what is right ---- */

START_TEST(sections_and_settings)
{
	ck_assert_int_eq(load("# comment\n"
			      "  ; another\n"
			      "\n"
			      "[server]\n"
			      "listen = 127.0.0.1:10809\n"
			      "listen=[::1]:10809\n"
			      "\tlog\t=\twarning \r\n"
			      "[ export   vm 1 ]\n"
			      "path = /srv/vm 1.img\n"
			      "[client ip:10.0.0.0/8]\n"
			      "weight = 300"), 0);
	ck_assert_str_eq(errors(), "");
	ck_assert_uint_eq(conf.nsections, 3);
	ck_assert_str_eq(value("server", "", "listen"), "127.0.0.1:10809");
	ck_assert_str_eq(value("server", "", "log"), "warning");
	ck_assert_str_eq(value("export", "vm 1", "path"), "/srv/vm 1.img");
	ck_assert_str_eq(value("client", "ip:10.0.0.0/8", "weight"), "300");
	ck_assert_uint_eq(conf_get(section("client", "ip:10.0.0.0/8"), "weight")->place.line, 11);
	ck_assert_ptr_eq(conf_get(section("server", ""), "log")->row,
			 tunable_find(test_server_rows, "log"));
	ck_assert_uint_eq(section("export", "vm 1")->place.line, 8);
}
END_TEST

/* What inih would cut off, continue, split elsewhere or take for something else. */
START_TEST(values_are_whole_lines)
{
	static const char *const values[] = {
		"a ; b", "; a", "a # b", "a = b", "a: b", "\"a\"", "[a]", "\\", "", "=", ";", "a;b",
	};
	char text[4200], longest[4001];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(text, sizeof(text), "[export a]\ndescription = %s\n   path = "
			"x\n", values[i]);
		ck_assert_msg(!load(text), "%s", errors());
		ck_assert_str_eq(value("export", "a", "description"), values[i]);
		ck_assert_str_eq(value("export", "a", "path"), "x");
	}
	for (size_t n = 150; n < sizeof(longest); n += n < 260 ? 1 : 123) {
		memset(longest, 'x', n);
		longest[n] = '\0';
		snprintf(text, sizeof(text), "[export a]\ndescription = %s\n", longest);
		ck_assert_msg(!load(text), "%s", errors());
		ck_assert_str_eq(value("export", "a", "description"), longest);
	}
}
END_TEST

START_TEST(titles_are_whole)
{
	char title[201], text[300];

	ck_assert_int_eq(load("[export a]b]\n[export c;d ; e]\n[export [f]]\n[export \"g\"]\n"), 0);
	section("export", "a]b");
	section("export", "c;d ; e");
	section("export", "[f]");
	section("export", "\"g\"");
	memset(title, 'x', 200);
	title[200] = '\0';
	snprintf(text, sizeof(text), "[export %s]\ndepth = 3\n", title);
	ck_assert_int_eq(load(text), 0);
	ck_assert_str_eq(value("export", title, "depth"), "3");
}
END_TEST

START_TEST(odd_files)
{
	static const char nul[] = "[server]\nlog = in\0fo\n[export a\0b]\n\0";

	ck_assert_int_eq(load(""), 0);
	ck_assert_uint_eq(conf.nsections, 0);
	ck_assert_int_eq(load("\n\r\n \t\n#"), 0);
	ck_assert_int_eq(load("\xef\xbb\xbf[server]\r\nlog = info\r\n"), 0);
	ck_assert_str_eq(value("server", "", "log"), "info");
	conf_free(&conf);
	ck_assert_int_eq(conf_load_text(&conf, "a.conf", nul, sizeof(nul) - 1, test_kinds),
			 -EINVAL);
	ck_assert_str_eq(errors(), "a.conf:2: a NUL byte is in the line; expected text\n"
				   "a.conf:3: a NUL byte is in the line; expected text\n"
				   "a.conf:4: a NUL byte is in the line; expected text\n");
}
END_TEST

/* ---- what is wrong ---- */

static const struct {
	const char *text, *errors;
} bad[] = {
	/* lines */
	{ "[server]\nlog\n", "a.conf:2: log: expected NAME = VALUE, [SECTION] or # COMMENT\n" },
	{ "[server]\nlog: info\n", "a.conf:2: log: info: expected NAME = VALUE, [SECTION] or # "
	  "COMMENT\n" },
	{ "[server]\nlog: a = info\n",
	  "a.conf:2: log: a = info: expected NAME = VALUE, [SECTION] or # COMMENT\n" },
	{ "[server]\n= info\n", "a.conf:2: = info: expected NAME = VALUE, [SECTION] or # "
	  "COMMENT\n" },
	{ "[server]\nlog level = info\n",
	  "a.conf:2: log level = info: expected NAME = VALUE, [SECTION] or # COMMENT\n" },
	{ "[server]\nlog = info\n  more\n",
	  "a.conf:3: more: expected NAME = VALUE, [SECTION] or # COMMENT\n" },
	{ "[server]\nlog = in\x01""fo\n", "a.conf:2: a control character (0x01) is in the line; "
	  "expected text\n" },
	{ "[server]\nlog = info\x1b[0m\n", "a.conf:2: a control character (0x1b) is in the line; "
	  "expected text\n" },
	/* sections */
	{ "log = info\n[server]\n", "a.conf:1: log: stands before the first section\n" },
	{ "[sever]\nlog = info\n", "a.conf:1: [sever]: unknown section; expected [server], "
	  "[export NAME] or [client MATCH]\n" },
	{ "[Server]\n", "a.conf:1: [Server]: unknown section; expected [server], [export NAME] or "
	  "[client MATCH]\n" },
	{ "[]\n", "a.conf:1: []: unknown section; expected [server], [export NAME] or [client "
	  "MATCH]\n" },
	{ "[server\n", "a.conf:1: [server: expected a ] at the end of a heading, and nothing "
	  "behind it\n" },
	{ "[server] # x\n", "a.conf:1: [server] # x: expected a ] at the end of a heading, and "
	  "nothing behind it\n" },
	{ "[server a]\n", "a.conf:1: [server a]: expected [server]\n" },
	{ "[export]\n", "a.conf:1: [export]: expected [export NAME]\n" },
	{ "[export a]\n\n[export a]\n", "a.conf:3: [export a]: is there already, at a.conf:1; "
	  "expected once\n" },
	{ "[server]\n[server]\nlog = x\n", "a.conf:2: [server]: is there already, at a.conf:1; "
	  "expected once\na.conf:3: log: 'x' is not a choice; expected error, warning, info\n" },
	/* names */
	{ "[server]\nthread = 3\n", "a.conf:2: thread: unknown setting; did you mean threads?\n" },
	{ "[server]\nLOG = info\n", "a.conf:2: LOG: unknown setting\n" },
	{ "[server]\ndepth = 3\n", "a.conf:2: depth: stands in [export NAME], not in [server]\n" },
	{ "[export a]\nlog = info\n", "a.conf:2: log: stands in [server], not in [export a]\n" },
	{ "[export a]\ninclude = x\n", "a.conf:2: include: stands in [server], not in [export "
	  "a]\n" },
	{ "[export a]\nbatch = 3\n", "a.conf:2: batch: unknown setting\n" },
	{ "[server]\nlog = info\nlog = info\n", "a.conf:3: log: is set already, at a.conf:2; "
	  "expected once\n" },
	{ "[export a]\npolicy=sweep\nbatch = 3\nsweep.batch = 4\n", "a.conf:4: sweep.batch: is set "
	  "already, at a.conf:3; expected once\n" },
	/* values */
	{ "[server]\nthreads = 0\n", "a.conf:2: threads: '0' is out of range; expected auto, "
	  "1..256\n" },
	{ "[server]\nthreads = 3x\n", "a.conf:2: threads: '3x' is not a whole number; expected "
	  "auto, 1..256\n" },
	{ "[server]\nthreads =\n", "a.conf:2: threads: '' is not a whole number; expected auto, "
	  "1..256\n" },
	{ "[server]\ntimeout = 5K\n", "a.conf:2: timeout: '5K' is not a time; expected "
	  "100..3600000 ms, as 500, 500ms or 2s\n" },
	{ "[server]\nmemory = 1M\n", "a.conf:2: memory: '1M' is out of range; expected "
	  "67108864..1099511627776 bytes\n" },
	{ "[server]\nlog = info ; not too much\n", "a.conf:2: log: 'info ; not too much' is not "
	  "a choice; expected error, warning, info\n" },
	{ "[server]\nlisten =\n", "a.conf:2: listen: '' is too short; expected text of 1..300 "
	  "bytes\n" },
	{ "[export a]\nsweep.batch = 101\n", "a.conf:2: sweep.batch: '101' is out of range; "
	  "expected 1..100\n" },
};

START_TEST(bad_input)
{
	ck_assert_int_eq(load(bad[_i].text), -EINVAL);
	ck_assert_str_eq(errors(), bad[_i].errors);
}
END_TEST

/* In the order of the lines, whatever was found first. */
START_TEST(all_errors_at_once)
{
	ck_assert_int_eq(load("[server]\n"
			      "log = loud\n"
			      "no equals sign\n"
			      "memory = 1K\n"
			      "[exprot a]\n"
			      "dept = 4\n"
			      "nothing\n"
			      "[client x]\n"
			      "weight = 0\n"
			      "wait = 1\n"
			      "weight = 1\n"), -EINVAL);
	ck_assert_str_eq(errors(),
		"a.conf:2: log: 'loud' is not a choice; expected error, warning, info\n"
		"a.conf:3: no equals sign: expected NAME = VALUE, [SECTION] or # COMMENT\n"
		"a.conf:4: memory: '1K' is out of range; expected 67108864..1099511627776 bytes\n"
		"a.conf:5: [exprot]: unknown section; expected [server], [export NAME] or "
		"[client MATCH]\n"
		"a.conf:7: nothing: expected NAME = VALUE, [SECTION] or # COMMENT\n"
		"a.conf:9: weight: '0' is out of range; expected 1..1000\n"
		"a.conf:10: wait: unknown setting\n"
		"a.conf:11: weight: is set already, at a.conf:9; expected once\n");
}
END_TEST

START_TEST(long_things)
{
	size_t n = 1 << 20;
	char *text = malloc(n + 100), want[400];

	/* A line of 1 MB is one error, and the lines after it count on. */
	memset(text, 'x', n);
	strcpy(text + n, "\nlog = info\n");
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_str_eq(errors(), "a.conf:1: the line has 1048576 bytes; expected at most 65536\n"
				   "a.conf:2: log: stands before the first section\n");
	memcpy(text, "[export a]\npath = ", 18);
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_str_eq(errors(), "a.conf:2: the line has 1048565 bytes; expected at most 65536\n"
				   "a.conf:3: log: stands in [server], not in [export a]\n");
	/* The longest line that is read: a value that is too long; a name; a title. */
	strcpy(text + 11 + CONF_LINE_MAX, "\n");
	ck_assert_int_eq(load(text), -EINVAL);
	snprintf(want, sizeof(want), "a.conf:2: path: '%.48s...' is too long; expected text of "
		"0..4095 bytes\n", text + 18);
	ck_assert_str_eq(errors(), want);
	memset(text, 'x', 1000);
	memcpy(text, "[server]\n", 9);
	strcpy(text + 1000, " = 3\n");
	ck_assert_int_eq(load(text), -EINVAL);
	snprintf(want, sizeof(want), "a.conf:2: %.40s...: unknown setting\n", text + 9);
	ck_assert_str_eq(errors(), want);
	memcpy(text, "[export ", 8);
	memset(text + 8, 'x', 201);
	strcpy(text + 209, "]\ndepth = 0\nx\n");
	ck_assert_int_eq(load(text), -EINVAL);
	snprintf(want, sizeof(want), "a.conf:1: [export %.40s...]: NAME has 201 bytes; expected "
		"at most 200\n"
		 "a.conf:3: x: expected NAME = VALUE, [SECTION] or # COMMENT\n", text + 8);
	ck_assert_str_eq(errors(), want);
	free(text);
}
END_TEST

/* Floods end: at CONF_ERRORS_MAX errors, CONF_SECTIONS_MAX sections, CONF_TOTAL_MAX bytes. */
START_TEST(floods)
{
	size_t n = 400000;
	char *text = malloc(n + 1), *p = text;
	unsigned count = 0;

	memset(text, '\n', n);
	text[n] = '\0';
	for (size_t i = 0; i < n; i += 2)
		text[i] = 'x';
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_uint_eq(conf.nerrors, CONF_ERRORS_MAX);
	while (p < text + n - 20) {
		p += sprintf(p, "[export %u]\n", count++);
	}
	*p = '\0';
	ck_assert_int_eq(load(text), -EINVAL);
	ck_assert_str_eq(errors(), "a.conf:10001: more than 10000 sections\n");
	free(text);
}
END_TEST

/* ---- files ---- */

static char folder[] = "/tmp/test_conf.XXXXXX";

static void setup_files(void)
{
	strcpy(folder, "/tmp/test_conf.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
}

static void teardown_files(void)
{
	char command[64];

	conf_free(&conf);
	ck_assert_int_eq(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

static int load_file(const char *name)
{
	conf_free(&conf);
	return conf_load(&conf, name, test_kinds);
}

START_TEST(includes)
{
	const struct conf_section *s;
	char order[64] = "", path[64];

	ck_assert_int_eq(mkdir("d", 0700) || mkdir("d/e", 0700) || mkdir("empty", 0700), 0);
	put("a.conf", "include = d/first\n[export a]\n[server]\nlog = info\ninclude = d/*.conf\n"
		      "include = empty/*\nthreads = 3\n[export z]\n");
	put("d/first", "[export f]\n");
	put("d/2.conf", "[export 2]\n");
	put("d/10.conf", "[export 10]\n");
	put("d/3.conf", "include = e/x\ninclude = e/y\n[export 3]\n");
	put("d/e/x", "");
	put("d/e/y", "[export y]\ndepth = 4\n");
	put("d/not.this", "junk\n");
	ck_assert_msg(!load_file("a.conf"), "%s", errors());
	TAILQ_FOREACH(s, &conf.sections, link) {
		strcat(order, s->title);
		strcat(order, " ");
	}
	ck_assert_str_eq(order, "f a  10 2 y 3 z ");
	ck_assert_str_eq(value("server", "", "threads"), "3");
	ck_assert_str_eq(value("export", "y", "depth"), "4");
	ck_assert_str_eq(section("export", "y")->place.file, "d/e/y");
	/* By an absolute path the same. */
	snprintf(path, sizeof(path), "%s/a.conf", folder);
	ck_assert_int_eq(load_file(path), 0);
	ck_assert_uint_eq(conf.nsections, 8);
}
END_TEST

START_TEST(bad_includes)
{
	char deep[32];

	ck_assert_int_eq(mkdir("d", 0700) || symlink("nowhere", "d/dangling"), 0);
	put("a.conf", "[server]\ninclude = none.conf\ninclude = none/*.conf\ninclude =\ninclude "
		"= d\n"
		      "include = d/*\ninclude = b.conf\ninclude = b.conf\nlog = x\n[server]\n");
	put("b.conf", "junk\n[server]\nlog = y\n");
	ck_assert_int_eq(load_file("a.conf"), -EINVAL);
	ck_assert_str_eq(errors(),
		"a.conf:2: include: there is no none.conf; expected a file, or a pattern such as "
		"DIR/*.conf\n"
		"a.conf:3: include: cannot look for none/*.conf: No such file or directory; "
		"expected files\n"
		"a.conf:4: include: '' is too short; expected text of 1..4095 bytes\n"
		"a.conf:5: include: cannot read d: Is a directory\n"
		"a.conf:6: include: cannot read d/dangling: No such file or directory\n"
		"a.conf:8: include: b.conf is included already, at a.conf:7\n"
		"a.conf:9: log: 'x' is not a choice; expected error, warning, info\n"
		"a.conf:10: [server]: is there already, at a.conf:1; expected once\n"
		"b.conf:1: junk: expected NAME = VALUE, [SECTION] or # COMMENT\n"
		"b.conf:2: [server]: is there already, at a.conf:1; expected once\n"
		"b.conf:3: log: 'y' is not a choice; expected error, warning, info\n");
	/* Loops, short and long, also by another name. */
	put("a.conf", "include = a.conf\n");
	ck_assert_int_eq(load_file("a.conf"), -EINVAL);
	ck_assert_str_eq(errors(), "a.conf:1: include: a.conf would include itself\n");
	put("a.conf", "include = d/*.conf\n");
	put("d/b.conf", "\ninclude = c\n");
	ck_assert_int_eq(symlink("../a.conf", "d/c"), 0);
	ck_assert_int_eq(load_file("a.conf"), -EINVAL);
	ck_assert_str_eq(errors(), "d/b.conf:2: include: d/c would include itself\n");
	for (int i = 0; i <= CONF_DEPTH_MAX; i++) {
		char name[32];

		snprintf(name, sizeof(name), "deep%d", i);
		snprintf(deep, sizeof(deep), "include = deep%d\n", i + 1);
		put(name, deep);
	}
	ck_assert_int_eq(load_file("deep0"), -EINVAL);
	ck_assert_str_eq(errors(), "deep15:1: include: deep16: more than 16 files include each "
		"other\n");
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
	ck_assert_int_eq(load_file("none"), -ENOENT);
	ck_assert_str_eq(errors(), "none: cannot be read: No such file or directory\n");
	ck_assert_int_eq(load_file("."), -EISDIR);
	ck_assert_str_eq(errors(), ".: cannot be read: Is a directory\n");
	ck_assert_int_eq(load_file("/dev/zero"), -EFBIG);
	ck_assert_str_eq(errors(), "/dev/zero: /dev/zero: the configuration has more than "
		"16777216 bytes\n");
	ck_assert_int_eq(load_file("/dev/null"), 0);
}
END_TEST

/* ---- writing ---- */

/* What conf_write_rows makes of it, to be freed. */
static char *written(const char *prefix, const struct tunable *rows, const void *settings,
		     unsigned how)
{
	char *text = NULL, err[TUNABLE_ERR_MAX] = "";
	size_t len;
	FILE *f = open_memstream(&text, &len);

	ck_assert_int_eq(conf_write_rows(f, prefix, rows, settings, how, err, sizeof(err)), 0);
	ck_assert_str_eq(err, "");
	fclose(f);
	return text;
}

START_TEST(what_is_written_reads_back)
{
	char *listen[] = { "127.0.0.1:1", "[::1]:1 ; x", NULL };
	struct test_server a = { .listen = listen, .user = "a # "
		"b", .threads = TUNABLE_AUTO, .log = 1,
				 .memory = 64 << 20, .timeout = 1500000000 }, b;
	struct tunable_changes changes = { .when = WHEN_START };
	char *text = written(NULL, test_server_rows, &a, 0), *again, *whole, err[TUNABLE_ERR_MAX];
	const struct conf_setting *t;

	ck_assert_str_eq(text, "listen = 127.0.0.1:1\nlisten = [::1]:1 ; x\nuser = a # "
		"b\nthreads = auto\n"
			       "log = warning\nmemory = 67108864\ntimeout = 1500\n");
	ck_assert_int_gt(asprintf(&whole, "[server]\n%s", text), 0);
	ck_assert_msg(!load(whole), "%s", errors());
	ck_assert_int_eq(tunable_defaults(test_server_rows, &b), 0);
	TAILQ_FOREACH(t, &section("server", "")->settings, link)
		ck_assert_int_eq(
			tunable_changes_add(&changes, t->row, &b, t->value, err, sizeof(err)), 0);
	tunable_changes_commit(&changes);
	tunable_changes_free(&changes);
	again = written(NULL, test_server_rows, &b, 0);
	ck_assert_str_eq(text, again);
	tunable_free(test_server_rows, &b);
	free(text);
	free(again);
	free(whole);
}
END_TEST

START_TEST(defaults_and_comments)
{
	char *text = written("sweep", test_policy_rows, NULL, 0);

	ck_assert_str_eq(text, "sweep.expire = 500\nsweep.batch = 16\n");
	free(text);
	text = written(NULL, test_export_rows, NULL, 0);
	ck_assert_ptr_eq(strstr(text, "#path =\n"), text);
	free(text);
	text = written(NULL, test_server_rows + 5, NULL, CONF_COMMENTED | CONF_HELP);
	ck_assert_str_eq(text,
		"\n# a timeout (100..3600000 ms; default 10000)\n"
		"# A paragraph that is long enough to be broken into several lines when it "
		"becomes a comment,\n"
		"# since it has more than ninety-six letters, and then some.\n"
		"#timeout = 10000\n");
	free(text);
}
END_TEST

START_TEST(blanks_at_the_ends_cannot_be_written)
{
	struct test_export e = { .path = "x", .description = " y" };
	char *text = NULL, err[TUNABLE_ERR_MAX] = "";
	size_t len;
	FILE *f = open_memstream(&text, &len);

	ck_assert_int_eq(conf_write_rows(f, NULL, test_export_rows, &e, 0, err, sizeof(err)),
			 -EINVAL);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(err, "description"));
	ck_assert_ptr_nonnull(strstr(text, "#description =  y\n"));
	free(text);
}
END_TEST

/* Complaints of the caller: those of no file come first, as they are. */
START_TEST(complaints)
{
	static const struct conf_place none = { NULL, 0 };
	const struct conf_error *e;
	char line[64];

	conf_init(&conf);
	conf_complain(&conf, none, "a\nb");
	ck_assert_uint_eq(conf.nerrors, 1);
	conf_error_text(TAILQ_FIRST(&conf.errors), line, sizeof(line));
	ck_assert_str_eq(line, "a?b");
	conf_free(&conf);

	ck_assert_int_eq(conf_load_text(&conf, "text", "x\n", 2, test_kinds), -EINVAL);
	conf_complain(&conf, none, "an option");
	e = TAILQ_FIRST(&conf.errors);
	conf_error_text(e, line, sizeof(line));
	ck_assert_str_eq(line, "an option");
	conf_error_text(TAILQ_NEXT(e, link), line, sizeof(line));
	ck_assert_str_eq(line, "text:1: x: expected NAME = VALUE, [SECTION] or # COMMENT");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("conf");
	TCase *tc = tcase_create("text"), *files = tcase_create("files");

	suite_add_tcase(suite, tc);
	suite_add_tcase(suite, files);
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_checked_fixture(files, setup_files, teardown_files);
	tcase_set_timeout(tc, 60);
	tcase_set_timeout(files, 60);
	tcase_add_test(tc, sections_and_settings);
	tcase_add_test(tc, values_are_whole_lines);
	tcase_add_test(tc, titles_are_whole);
	tcase_add_test(tc, odd_files);
	tcase_add_loop_test(tc, bad_input, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, all_errors_at_once);
	tcase_add_test(tc, long_things);
	tcase_add_test(tc, complaints);
	tcase_add_test(tc, floods);
	tcase_add_test(tc, what_is_written_reads_back);
	tcase_add_test(tc, defaults_and_comments);
	tcase_add_test(tc, blanks_at_the_ends_cannot_be_written);
	tcase_add_test(files, includes);
	tcase_add_test(files, bad_includes);
	tcase_add_test(files, files_that_cannot_be_read);
	return run_suite(suite);
}
