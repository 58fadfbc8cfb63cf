/*
 * Tunables: every kind, strictness, ranges, round trips, settings and change sets.
 */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/tunable.h"
#include "tests/unit/suite.h"

struct settings {
	uint64_t on, count, any, expire, idle_ns, grace_s, wait_us, bytes, sectors, kb, mb, policy,
		rotational;
	uint64_t depth, delay;
	char *path, *label, *unset, *pairs;
	char **listen, **none;
};

static const char *const policies[] = { "noop", "deadline", "cfq", NULL };

/* A check of a text. */
static int even(const char *text, char *wrong, size_t len)
{
	if (strlen(text) % 2 == 0)
		return 0;
	snprintf(wrong, len, "'%s' is odd; expected an even number of bytes", text);
	return -EINVAL;
}

#define FIELD(field) .name = #field, .offset = offsetof(struct settings, field), .help = "a row"
#define ROW(field) FIELD(field), .when = WHEN_RUNTIME

static const struct tunable rows[] = {
	{ ROW(on), .kind = TUNABLE_BOOL, .dflt = 1 },
	{ ROW(count), .kind = TUNABLE_UINT, .min = 1, .max = 65535, .dflt = 128 },
	{ ROW(any), .kind = TUNABLE_UINT, .max = UINT64_MAX, .dflt = 7 },
	{ ROW(expire), .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = INT32_MAX, .dflt = 500 },
	{ ROW(idle_ns), .kind = TUNABLE_TIME, .unit = UNIT_NS, .max = UINT64_MAX, .dflt = 8000 },
	{ ROW(grace_s), .kind = TUNABLE_TIME, .unit = UNIT_S, .min = 1, .max = 3600, .dflt = 10 },
	{ ROW(wait_us), .kind = TUNABLE_TIME, .unit = UNIT_US, .max = 1000000, .dflt = 100 },
	{ ROW(bytes), .kind = TUNABLE_SIZE, .unit = UNIT_BYTES, .max = INT64_MAX, .dflt = 4096 },
	{ ROW(sectors), .kind = TUNABLE_SIZE, .unit = UNIT_SECTORS, .min = 8, .max = 65536,
	  .dflt = 16 },
	{ ROW(kb), .kind = TUNABLE_SIZE, .unit = UNIT_KIB, .min = 4, .max = 32768, .dflt = 1280 },
	{ ROW(mb), .kind = TUNABLE_SIZE, .unit = UNIT_MIB, .min = 64, .max = 1 << 20, .dflt = 256 },
	{ ROW(policy), .kind = TUNABLE_ENUM, .choices = policies, .dflt = 2 },
	{ ROW(rotational), .kind = TUNABLE_BOOL, .can_be_auto = true, .dflt = TUNABLE_AUTO },
	{ ROW(depth), .kind = TUNABLE_UINT, .min = 1, .max = 1024, .can_be_auto = true,
	  .dflt = TUNABLE_AUTO },
	{ ROW(delay), .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = 100, .can_be_auto = true,
	  .dflt = 3 },
	{ FIELD(path), .when = WHEN_START, .kind = TUNABLE_STRING, .min = 1, .max = 16,
	  .dflt_str = "disk.img" },
	{ ROW(label), .kind = TUNABLE_STRING, .dflt_str = "" },
	{ ROW(unset), .kind = TUNABLE_STRING },
	{ ROW(pairs), .kind = TUNABLE_STRING, .check = even, .max = 8 },
	{ ROW(listen), .kind = TUNABLE_STRING, .repeatable = true, .min = 1,
	  .dflt_str = "127.0.0.1:10809" },
	{ ROW(none), .kind = TUNABLE_STRING, .repeatable = true },
	{ .name = NULL }
};

static char err[TUNABLE_ERR_MAX];

static const struct tunable *row(const char *name)
{
	const struct tunable *t = tunable_find(rows, name);

	ck_assert_ptr_nonnull(t);
	return t;
}

static void accepts(const char *name, const char *text, uint64_t want)
{
	struct tunable_value v;
	int r;

	memset(&v, 0xa5, sizeof(v));
	r = tunable_parse(row(name), text, &v, err, sizeof(err));
	ck_assert_msg(!r, "%s=%s: %s", name, text, err);
	ck_assert_msg(v.num == want, "%s=%s: %" PRIu64 " instead of %" PRIu64, name, text, v.num,
		      want);
	ck_assert_ptr_null(v.str);
	ck_assert_ptr_null(v.list);
}

static void refuses(const char *name, const char *text, int want, const char *sentence)
{
	struct tunable_value v;
	int r;

	memset(&v, 0xa5, sizeof(v));
	strcpy(err, "untouched");
	r = tunable_parse(row(name), text, &v, err, sizeof(err));
	ck_assert_msg(r == want, "%s='%s': %d instead of %d", name, text, r, want);
	ck_assert_uint_eq(v.num, 0);
	ck_assert_ptr_null(v.str);
	ck_assert_ptr_null(v.list);
	if (sentence)
		ck_assert_str_eq(err, sentence);
	else
		ck_assert_msg(!strncmp(err, name, strlen(name)) && strstr(err, "expected"), "%s",
			      err);
}

START_TEST(table_is_well_formed)
{
	int r = tunable_check_rows(rows, err, sizeof(err));

	ck_assert_msg(!r, "%s", err);
}
END_TEST

/* One spoilt row each: the check of a table must find it. */
START_TEST(bad_tables_are_found)
{
	static const char *const empty[] = { NULL };
	/* In each row one thing is wrong. */
#define BAD(name_, ...) { .name = name_, .help = "h", __VA_ARGS__ }
	static const struct tunable bad[] = {
		{ .name = "", .help = "h" },
		{ .name = "Upper", .help = "h" },
		{ .name = "with-hyphen", .help = "h" },
		{ .name = "no_help" },
		{ .name = "two_lines", .help = "a\nb" },
		BAD("bool", .dflt = 2),
		BAD("bool_unit", .unit = UNIT_MS),
		BAD("uint_range", .kind = TUNABLE_UINT, .min = 2, .max = 1, .dflt = 1),
		BAD("uint_dflt", .kind = TUNABLE_UINT, .min = 2, .max = 3, .dflt = 1),
		BAD("uint_auto", .kind = TUNABLE_UINT, .max = UINT64_MAX, .can_be_auto = true),
		BAD("time_unit", .kind = TUNABLE_TIME, .unit = UNIT_KIB, .max = 1),
		BAD("time_none", .kind = TUNABLE_TIME, .max = 1),
		BAD("time_big", .kind = TUNABLE_TIME, .unit = UNIT_S, .max = UINT64_MAX),
		BAD("size_unit", .kind = TUNABLE_SIZE, .unit = UNIT_S, .max = 1),
		BAD("enum_none", .kind = TUNABLE_ENUM),
		BAD("enum_empty", .kind = TUNABLE_ENUM, .choices = empty),
		BAD("enum_dflt", .kind = TUNABLE_ENUM, .choices = policies, .dflt = 3),
		BAD("not_auto", .kind = TUNABLE_ENUM, .choices = policies, .dflt = TUNABLE_AUTO),
		BAD("str_auto", .kind = TUNABLE_STRING, .can_be_auto = true),
		BAD("str_range", .kind = TUNABLE_STRING, .min = 2, .max = 1),
		BAD("uint_check", .kind = TUNABLE_UINT, .max = 1, .check = even),
		BAD("repeated", .kind = TUNABLE_UINT, .max = 1, .repeatable = true),
	};
	struct tunable table[3] = { { .name = NULL } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		table[0] = bad[i];
		ck_assert_msg(tunable_check_rows(table, err, sizeof(err)) == -EINVAL, "%s",
			      bad[i].name);
		ck_assert_ptr_nonnull(strstr(err, bad[i].name));
	}
	table[0] = table[1] = rows[0];
	ck_assert_int_eq(tunable_check_rows(table, err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "row 'on': two rows have this name");
}
END_TEST

START_TEST(rows_are_found_by_whole_name)
{
	ck_assert_ptr_eq(tunable_find(rows, "expire"), &rows[3]);
	ck_assert_ptr_null(tunable_find(rows, "expir"));
	ck_assert_ptr_null(tunable_find(rows, "expire_"));
	ck_assert_ptr_null(tunable_find(rows, "Expire"));
	ck_assert_ptr_null(tunable_find(rows, ""));
}
END_TEST

START_TEST(unknown_names_get_a_hint)
{
	static const struct tunable more[] = {
		{ .name = "read_expire" }, { .name = "write_expire" }, { .name = NULL },
	};
	const struct tunable *const tables[] = { rows, more, NULL };
	static const char *const cases[][2] = {
		{ "read_expir", "unknown tunable 'read_expir'; did you mean read_expire?" },
		{ "raed_expire", "unknown tunable 'raed_expire'; did you mean read_expire?" },
		{ "wirte_expires", "unknown tunable 'wirte_expires'; did you mean write_expire?" },
		{ "polcy", "unknown tunable 'polcy'; did you mean policy?" },
		{ "ptah", "unknown tunable 'ptah'; did you mean path?" }, /* a swap is one edit */
		{ "Policy", "unknown tunable 'Policy'; did you mean policy?" },
		{ "zzz", "unknown tunable 'zzz'" },
		{ "no", "unknown tunable 'no'" },
		{ "", "unknown tunable ''" },
		{ "a\nb\x80", "unknown tunable 'a?b?'" },
	};
	char longname[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		ck_assert_int_eq(tunable_unknown(tables, cases[i][0], err, sizeof(err)), -ENOENT);
		ck_assert_str_eq(err, cases[i][1]);
	}
	memset(longname, 'x', sizeof(longname) - 1);
	longname[sizeof(longname) - 1] = '\0';
	tunable_unknown(tables, longname, err, sizeof(err));
	ck_assert_str_eq(err,
			 "unknown tunable 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'");
}
END_TEST

START_TEST(units_are_accepted_by_kind)
{
	accepts("expire", "500", 500000000);
	accepts("expire", "500ms", 500000000);
	accepts("expire", "2s", 2000000000);
	accepts("expire", "3000us", 3000000);
	accepts("expire", "4000000ns", 4000000);
	accepts("expire", "0", 0);
	accepts("expire", "0s", 0);
	accepts("expire", "0001", 1000000);
	accepts("idle_ns", "8", 8);
	accepts("idle_ns", "8us", 8000);
	accepts("grace_s", "8", UINT64_C(8000000000));
	accepts("grace_s", "8000ms", UINT64_C(8000000000));
	accepts("wait_us", "8", 8000);
	accepts("bytes", "512", 512);
	accepts("bytes", "3s", 1536);
	accepts("bytes", "3K", 3072);
	accepts("bytes", "3M", 3 << 20);
	accepts("bytes", "3G", UINT64_C(3) << 30);
	accepts("sectors", "8", 4096);
	accepts("sectors", "8s", 4096);
	accepts("sectors", "4K", 4096);
	accepts("kb", "512", 512 << 10);
	accepts("kb", "512K", 512 << 10);
	accepts("kb", "8s", 4096);
	accepts("kb", "1M", 1 << 20);
	accepts("mb", "64", 64 << 20);
	accepts("mb", "1G", 1 << 30);
	accepts("count", "65535", 65535);
	accepts("on", "0", 0);
	accepts("on", "1", 1);
	accepts("on", "no", 0);
	accepts("on", "yes", 1);
	accepts("on", "off", 0);
	accepts("on", "on", 1);
	accepts("policy", "noop", 0);
	accepts("policy", "cfq", 2);
}
END_TEST

START_TEST(auto_is_accepted_where_the_row_says_so)
{
	accepts("rotational", "auto", TUNABLE_AUTO);
	accepts("rotational", "yes", 1);
	accepts("depth", "auto", TUNABLE_AUTO);
	accepts("depth", "1024", 1024);
	accepts("delay", "auto", TUNABLE_AUTO);
	refuses("depth", "Auto", -EINVAL,
		"depth: 'Auto' is not a whole number; expected auto, 1..1024");
	refuses("depth", "18446744073709551615", -ERANGE, NULL);
	refuses("count", "auto", -EINVAL, NULL);
	refuses("on", "auto", -EINVAL, NULL);
	refuses("policy", "auto", -EINVAL, NULL);
}
END_TEST

/* The same junk in front of every kind of value. */
START_TEST(junk_is_refused)
{
	static const char *const names[] = { "on", "count", "any", "expire", "bytes", "kb",
					     "policy", "rotational", "depth" };
	static const char *const junk[] = {
		"", " ", "-", "+", "-1", "+1", " 1", "1 ", "1\n", "\t1", "0x10", "1e3", "1.5",
		"1,000", "1_000", "x", "5x", "ms", "K", "1 K", "1 ms", "1kk", "1KiB", "1k",
		"1MS", "1m", "1min", "1sec", "1S", "1Ks", "1msx", "yEs", "Yes", "true", "On",
		"oFF", "NOOP", "noop ", "no op", "noo", "cfqq", "--", "0-1", "\xd9\xa1",
		"1\x80",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (size_t j = 0; j < sizeof(junk) / sizeof(*junk); j++)
			refuses(names[i], junk[j], -EINVAL, NULL);
	refuses("expire", "1K", -EINVAL, NULL);
	refuses("bytes", "1ms", -EINVAL, NULL);
	refuses("count", "1s", -EINVAL, NULL);
	refuses("count", "1K", -EINVAL, NULL);
	refuses("any", "1ns", -EINVAL, NULL);
}
END_TEST

START_TEST(ranges_and_overflow)
{
	accepts("any", "18446744073709551615", UINT64_MAX);
	refuses("any", "18446744073709551616", -ERANGE, NULL);
	refuses("any", "99999999999999999999999999999999999999", -ERANGE, NULL);
	/* Wraps around to 1 if the digits are not watched. */
	refuses("any", "18446744073709551617", -ERANGE, NULL);
	accepts("idle_ns", "18446744073709551615ns", UINT64_MAX);
	refuses("idle_ns", "18446744074s", -ERANGE, NULL);
	refuses("bytes", "17179869184G", -ERANGE, NULL);
	refuses("bytes", "17179869185G", -ERANGE, NULL);
	accepts("bytes", "9223372036854775807", INT64_MAX);
	refuses("bytes", "9223372036854775808", -ERANGE, NULL);
	refuses("count", "0", -ERANGE, NULL);
	refuses("count", "65536", -ERANGE, NULL);
	accepts("expire", "2147483647", UINT64_C(2147483647000000));
	refuses("expire", "2147483648", -ERANGE, NULL);
	refuses("expire", "2147483647001us", -ERANGE, NULL);
	refuses("grace_s", "0", -ERANGE, NULL);
	refuses("grace_s", "999ms", -ERANGE, NULL);
	refuses("grace_s", "3601", -ERANGE, NULL);
	refuses("sectors", "7", -ERANGE, NULL);
	refuses("kb", "7s", -ERANGE, NULL);
	refuses("kb", "33M", -ERANGE, NULL);
	accepts("kb", "32M", 32 << 20);
}
END_TEST

START_TEST(values_are_whole_multiples_of_the_unit)
{
	refuses("expire", "1500us", -EINVAL,
		"expire: '1500us' is not a whole number of ms; expected 0..2147483647 ms, as 500, "
		"500ms or 2s");
	refuses("kb", "9s", -EINVAL, NULL);
	refuses("mb", "65K", -ERANGE, NULL);
	refuses("mb", "65537K", -EINVAL, NULL);
	refuses("grace_s", "1500ms", -EINVAL, NULL);
	refuses("wait_us", "1ns", -EINVAL, NULL);
	accepts("expire", "1000us", 1000000);
}
END_TEST

START_TEST(sentences)
{
	refuses("expire", "5x", -EINVAL,
		"expire: '5x' is not a time; expected 0..2147483647 ms, as 500, 500ms or 2s");
	refuses("kb", "5x", -EINVAL,
		"kb: '5x' is not a size; expected 4..32768 KiB, as 128, 128K or 1M");
	refuses("count", "70000", -ERANGE, "count: '70000' is out of range; expected 1..65535");
	refuses("kb", "1G", -ERANGE, "kb: '1G' is out of range; expected 4..32768 KiB");
	refuses("on", "maybe", -EINVAL,
		"on: 'maybe' is neither yes nor no; expected 0, 1, yes, no, on, off");
	refuses("policy", "bfq", -EINVAL,
		"policy: 'bfq' is not a choice; expected noop, deadline, cfq");
	refuses("pairs", "abc", -EINVAL,
		"pairs: 'abc' is odd; expected an even number of bytes");
	refuses("pairs", "abcdefghi", -ERANGE, NULL);
	refuses("path", "", -ERANGE, "path: '' is too short; expected text of 1..16 bytes");
	refuses("count", "a\r\n\x1b[0m\xff", -EINVAL,
		"count: 'a???[0m?' is not a whole number; expected 1..65535");
}
END_TEST

/* No sentence may overrun a buffer, of whatever size, nor leave it without an end. */
START_TEST(short_buffers)
{
	struct tunable_value v;
	char buf[64];

	for (size_t n = 0; n < sizeof(buf); n++) {
		memset(buf, '#', sizeof(buf));
		ck_assert_int_eq(tunable_parse(row("expire"), "5x", &v, buf, n), -EINVAL);
		ck_assert(n == 0 || memchr(buf, '\0', n));
		ck_assert_int_eq(buf[n], '#');

		memset(buf, '#', sizeof(buf));
		ck_assert_int_eq(tunable_allowed(row("policy"), buf, n),
				 strlen("noop, deadline, cfq"));
		ck_assert(n == 0 || memchr(buf, '\0', n));
		ck_assert_int_eq(buf[n], '#');
		if (n > 0)
			ck_assert(!strncmp(buf, "noop, deadline, cfq", n - 1));
	}
	ck_assert_int_eq(tunable_print(row("count"), 12345, NULL, 0), 5);
	ck_assert_int_eq(tunable_allowed(row("policy"), NULL, 0), strlen("noop, deadline, cfq"));
}
END_TEST

START_TEST(strings)
{
	struct tunable_value v;

	ck_assert_int_eq(tunable_parse(row("path"), "a b=c", &v, err, sizeof(err)), 0);
	ck_assert_str_eq(v.str, "a b=c");
	ck_assert_ptr_null(v.list);
	tunable_value_free(&v);
	ck_assert_ptr_null(v.str);
	ck_assert_int_eq(tunable_parse(row("path"), "0123456789abcdef", &v, err, sizeof(err)), 0);
	tunable_value_free(&v);
	refuses("path", "0123456789abcdefg", -ERANGE, NULL);
	refuses("label", "a\nb", -EINVAL, NULL);
	refuses("label", "\x7f", -EINVAL, NULL);
	ck_assert_int_eq(tunable_parse(row("label"), "K\xc3\xbc", &v, err, sizeof(err)), 0);
	ck_assert_str_eq(v.str, "K\xc3\xbc");
	tunable_value_free(&v);
	ck_assert_int_eq(tunable_parse(row("label"), "", &v, err, sizeof(err)), 0);
	ck_assert_str_eq(v.str, "");
	tunable_value_free(&v);
	ck_assert_int_eq(tunable_parse(row("listen"), "[::1]:1", &v, err, sizeof(err)), 0);
	ck_assert_ptr_null(v.str);
	ck_assert_str_eq(v.list[0], "[::1]:1");
	ck_assert_ptr_null(v.list[1]);
	tunable_value_free(&v);
	tunable_value_free(&v);
	tunable_value_free(NULL);
}
END_TEST

static void allowed_is(const char *name, const char *want)
{
	char buf[128];

	ck_assert_int_eq(tunable_allowed(row(name), buf, sizeof(buf)), strlen(want));
	ck_assert_str_eq(buf, want);
}

START_TEST(allowed_ranges)
{
	allowed_is("expire", "0..2147483647 ms");
	allowed_is("count", "1..65535");
	allowed_is("kb", "4..32768 KiB");
	allowed_is("sectors", "8..65536 sectors");
	allowed_is("bytes", "0..9223372036854775807 bytes");
	allowed_is("policy", "noop, deadline, cfq");
	allowed_is("on", "0, 1, yes, no, on, off");
	allowed_is("rotational", "auto, 0, 1, yes, no, on, off");
	allowed_is("delay", "auto, 0..100 ms");
	allowed_is("path", "text of 1..16 bytes");
	allowed_is("listen", "text");
	allowed_is("label", "text or nothing");
}
END_TEST

static void prints(const char *name, uint64_t num, const char *want)
{
	char buf[64];

	ck_assert_int_eq(tunable_print(row(name), num, buf, sizeof(buf)), strlen(want));
	ck_assert_str_eq(buf, want);
}

START_TEST(numbers_print_bare_in_the_unit_of_the_row)
{
	prints("expire", 500000000, "500");
	prints("kb", 1280 << 10, "1280");
	prints("sectors", 4096, "8");
	prints("mb", 1 << 30, "1024");
	prints("on", 1, "1");
	prints("on", 0, "0");
	prints("policy", 1, "deadline");
	prints("rotational", TUNABLE_AUTO, "auto");
	prints("rotational", 0, "0");
	prints("any", UINT64_MAX, "18446744073709551615");
	ck_assert_str_eq(tunable_unit_name(UNIT_KIB), "KiB");
	ck_assert_uint_eq(tunable_unit_factor(UNIT_KIB), 1024);
	ck_assert_uint_eq(tunable_unit_factor(UNIT_SECTORS), 512);
	ck_assert_uint_eq(tunable_unit_factor(UNIT_S), 1000000000);
	ck_assert_str_eq(tunable_unit_name(UNIT_NONE), "");
}
END_TEST

static uint64_t random_value(const struct tunable *t, uint64_t *seed)
{
	uint64_t span = t->max - t->min, n;

	/* xorshift64 (Marsaglia 2003); the shift makes small numbers as likely as large ones. */
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	n = *seed >> (*seed & 63);
	if (t->can_be_auto && n % 7 == 0)
		return TUNABLE_AUTO;
	switch (t->kind) {
	case TUNABLE_BOOL:
		return n % 2;
	case TUNABLE_ENUM:
		return n % 3;
	default:
		return (t->min + (span == UINT64_MAX ? n : n % (span + 1))) *
		       tunable_unit_factor(t->unit);
	}
}

START_TEST(printed_values_parse_to_themselves)
{
	uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
	struct tunable_value v;
	char buf[64];

	for (const struct tunable *t = rows; t->name; t++) {
		for (int i = 0; t->kind != TUNABLE_STRING && i < 5000; i++) {
			uint64_t num = random_value(t, &seed);

			tunable_print(t, num, buf, sizeof(buf));
			ck_assert_msg(!tunable_parse(t, buf, &v, err, sizeof(err)), "%s", err);
			ck_assert_msg(v.num == num, "%s: %" PRIu64 " came back as %" PRIu64,
				      t->name, num, v.num);
		}
	}
}
END_TEST

static void get_is(const char *name, const struct settings *s, const char *want)
{
	char buf[128];

	ck_assert_int_eq(tunable_get(row(name), s, buf, sizeof(buf)), strlen(want));
	ck_assert_str_eq(buf, want);
}

START_TEST(defaults_are_stored_in_base_units)
{
	struct settings s;

	memset(&s, 0xa5, sizeof(s));
	ck_assert_int_eq(tunable_defaults(rows, &s), 0);
	ck_assert_uint_eq(s.on, 1);
	ck_assert_uint_eq(s.count, 128);
	ck_assert_uint_eq(s.expire, 500000000);
	ck_assert_uint_eq(s.idle_ns, 8000);
	ck_assert_uint_eq(s.grace_s, UINT64_C(10000000000));
	ck_assert_uint_eq(s.sectors, 8192);
	ck_assert_uint_eq(s.kb, 1280 << 10);
	ck_assert_uint_eq(s.mb, 256 << 20);
	ck_assert_uint_eq(s.policy, 2);
	ck_assert_uint_eq(s.rotational, TUNABLE_AUTO);
	ck_assert_uint_eq(s.delay, 3000000);
	ck_assert_str_eq(s.path, "disk.img");
	ck_assert_str_eq(s.label, "");
	ck_assert_ptr_null(s.unset);
	ck_assert_str_eq(s.listen[0], "127.0.0.1:10809");
	ck_assert_ptr_null(s.listen[1]);
	ck_assert_ptr_null(s.none);
	get_is("expire", &s, "500");
	get_is("path", &s, "disk.img");
	get_is("unset", &s, "");
	get_is("listen", &s, "127.0.0.1:10809");
	get_is("none", &s, "");
	get_is("policy", &s, "cfq");
	tunable_free(rows, &s);
	ck_assert_ptr_null(s.path);
	ck_assert_ptr_null(s.listen);
	tunable_free(rows, &s);
}
END_TEST

START_TEST(copies_share_nothing)
{
	struct settings a, b;

	ck_assert_int_eq(tunable_defaults(rows, &a), 0);
	tunable_set_num(row("expire"), &a, 7000000);
	memset(&b, 0xa5, sizeof(b));
	ck_assert_int_eq(tunable_copy(rows, &b, &a), 0);
	ck_assert_uint_eq(b.expire, 7000000);
	ck_assert_uint_eq(tunable_num(row("expire"), &b), 7000000);
	ck_assert_ptr_ne(a.path, b.path);
	ck_assert_ptr_ne(a.listen, b.listen);
	ck_assert_ptr_ne(a.listen[0], b.listen[0]);
	tunable_free(rows, &a);
	ck_assert_str_eq(b.path, "disk.img");
	ck_assert_str_eq(b.listen[0], "127.0.0.1:10809");
	ck_assert_ptr_null(b.unset);
	ck_assert_ptr_null(b.none);
	tunable_free(rows, &b);
}
END_TEST

static int change(struct tunable_changes *c, struct settings *s, const char *name, const char *text)
{
	return tunable_changes_set(c, rows, s, name, text, err, sizeof(err));
}

START_TEST(change_sets_touch_nothing_before_the_commit)
{
	struct tunable_changes c = { .when = WHEN_START };
	struct settings s;

	ck_assert_int_eq(tunable_defaults(rows, &s), 0);
	ck_assert_int_eq(change(&c, &s, "expire", "9s"), 0);
	ck_assert_int_eq(change(&c, &s, "path", "other"), 0);
	ck_assert_int_eq(change(&c, &s, "listen", "a:1"), 0);
	ck_assert_int_eq(change(&c, &s, "listen", "b:2"), 0);
	ck_assert_int_eq(change(&c, &s, "rotational", "1"), 0);
	ck_assert_uint_eq(s.expire, 500000000);
	ck_assert_str_eq(s.path, "disk.img");
	get_is("listen", &s, "127.0.0.1:10809");
	ck_assert_uint_eq(tunable_changes_find(&c, row("expire"), &s)->value.num,
			  UINT64_C(9000000000));
	ck_assert_ptr_null(tunable_changes_find(&c, row("expire"), &c));
	ck_assert_ptr_null(tunable_changes_find(&c, row("count"), &s));

	tunable_changes_commit(&c);
	ck_assert_uint_eq(s.expire, UINT64_C(9000000000));
	ck_assert_uint_eq(s.rotational, 1);
	ck_assert_uint_eq(s.count, 128);
	ck_assert_str_eq(s.path, "other");
	get_is("listen", &s, "a:1, b:2");
	tunable_changes_free(&c);
	ck_assert_str_eq(s.path, "other");
	get_is("listen", &s, "a:1, b:2");
	ck_assert_ptr_null(s.listen[2]);
	tunable_free(rows, &s);
}
END_TEST

START_TEST(a_failed_change_leaves_the_set_and_the_settings)
{
	struct tunable_changes c = { .when = WHEN_RUNTIME };
	struct settings s;

	ck_assert_int_eq(tunable_defaults(rows, &s), 0);
	ck_assert_int_eq(change(&c, &s, "count", "9"), 0);
	ck_assert_int_eq(change(&c, &s, "kb", "9s"), -EINVAL);
	ck_assert_int_eq(change(&c, &s, "kb", "1G"), -ERANGE);
	ck_assert_int_eq(change(&c, &s, "expir", "1"), -ENOENT);
	ck_assert_str_eq(err, "unknown tunable 'expir'; did you mean expire?");
	ck_assert_int_eq(change(&c, &s, "path", "x"), -EPERM);
	ck_assert_str_eq(err, "path: can be set at start only");
	ck_assert_int_eq(change(&c, &s, "count", "10"), -EEXIST);
	ck_assert_str_eq(err, "count: is given twice");
	ck_assert_int_eq(change(&c, &s, "listen", ""), -ERANGE);
	ck_assert_uint_eq(c.n, 1);
	tunable_changes_free(&c);
	ck_assert_uint_eq(s.count, 128);
	tunable_free(rows, &s);
}
END_TEST

START_TEST(one_set_changes_several_settings)
{
	struct tunable_changes c = { .when = WHEN_RUNTIME };
	struct settings s[20];
	char text[16];

	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(tunable_defaults(rows, &s[i]), 0);
		snprintf(text, sizeof(text), "%d", i + 1);
		ck_assert_int_eq(change(&c, &s[i], "count", text), 0);
		ck_assert_int_eq(change(&c, &s[i], "label", text), 0);
	}
	tunable_changes_commit(&c);
	tunable_changes_free(&c);
	tunable_changes_free(&c);
	tunable_changes_free(NULL);
	for (int i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "%d", i + 1);
		ck_assert_uint_eq(s[i].count, i + 1);
		ck_assert_str_eq(s[i].label, text);
		tunable_free(rows, &s[i]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tunable");
	TCase *tc = tcase_create("tunable");

	suite_add_tcase(suite, tc);
	tcase_add_test(tc, table_is_well_formed);
	tcase_add_test(tc, bad_tables_are_found);
	tcase_add_test(tc, rows_are_found_by_whole_name);
	tcase_add_test(tc, unknown_names_get_a_hint);
	tcase_add_test(tc, units_are_accepted_by_kind);
	tcase_add_test(tc, auto_is_accepted_where_the_row_says_so);
	tcase_add_test(tc, junk_is_refused);
	tcase_add_test(tc, ranges_and_overflow);
	tcase_add_test(tc, values_are_whole_multiples_of_the_unit);
	tcase_add_test(tc, sentences);
	tcase_add_test(tc, short_buffers);
	tcase_add_test(tc, strings);
	tcase_add_test(tc, allowed_ranges);
	tcase_add_test(tc, numbers_print_bare_in_the_unit_of_the_row);
	tcase_add_test(tc, printed_values_parse_to_themselves);
	tcase_add_test(tc, defaults_are_stored_in_base_units);
	tcase_add_test(tc, copies_share_nothing);
	tcase_add_test(tc, change_sets_touch_nothing_before_the_commit);
	tcase_add_test(tc, a_failed_change_leaves_the_set_and_the_settings);
	tcase_add_test(tc, one_set_changes_several_settings);
	return run_suite(suite);
}
