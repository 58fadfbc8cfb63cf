/*
 * Configurations that nobody would write: random pieces, and a sound one with random damage, from a
 * fixed seed. Nothing crashes, leaks or hangs; whatever is accepted has only settings that their
 * rows take; whatever is refused says where.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/sim/random.h"
#include "tests/unit/conf_kinds.h"
#include "tests/unit/suite.h"

enum { ROUNDS = 20000, ROOM = 4096 };

static const char sound[] =
	"# a sound one\n[server]\nlisten = 127.0.0.1:10809\nlisten = [::1]:10809\nthreads = 4\n"
	"log = warning\nmemory = 256M\ntimeout = 10s\n\n[export vm1]\npath = /srv/vm1.img ; not "
	"a comment\n"
	"policy = sweep\nbatch = 4\nsweep.expire = 100ms\nreadonly = yes\n[export vm2]\npath = "
	"/dev/sdb\n"
	"depth = 8\n\n[client ip:10.0.0.0/8]\nweight = 300\n[client pid:*]\nweight = 50\n";

static const char *const pieces[] = {
	"[", "]", "=", ":", ";", "#", "\n", "\r\n", " "
	"", "\t", "\x01", "\x7f", "\xff", "\xef\xbb\xbf", "\"", "\\",
	"[server]\n", "[export ", "[client ", "]\n", "include = "
	"", "/dev/null", "*", "?", "..", "\n\n", " ; ",
	"listen", "threads", "policy = "
	"sweep\n", "batch", "sweep.batch", "sweep.", ".", "weight", "log",
	"18446744073709551616", "-1", "0x10", "1e3", "auto", "yes", "10s", "5K", "info",
};

static void check_result(int res, const char *text, size_t len, struct conf *c)
{
	const struct conf_section *s;
	const struct conf_setting *t;
	const struct conf_error *e;
	struct tunable_value v;
	char line[300];

	ck_assert_msg(res == 0 || res == -EINVAL, "%d: %.*s", res, (int)len, text);
	ck_assert_int_eq(res == 0, c->nerrors == 0);
	TAILQ_FOREACH(e, &c->errors, link) {
		conf_error_text(e, line, sizeof(line));
		ck_assert_ptr_eq(strstr(line, "fuzz:"), line);
		ck_assert_uint_ge(e->place.line, 1);
	}
	TAILQ_FOREACH(s, &c->sections, link)
		TAILQ_FOREACH(t, &s->settings, link)
			if (!res) {
				ck_assert_ptr_nonnull(t->row);
				ck_assert_int_eq(tunable_parse(t->row, t->value, &v, NULL, 0), 0);
				tunable_value_free(&v);
			}
}

static void try(const char *text, size_t len)
{
	/* Of just this size, so that a byte too far is noticed. */
	char *copy = malloc(len ? len : 1);
	struct conf c;

	memcpy(copy, text, len);
	check_result(conf_load_text(&c, "fuzz", copy, len, test_kinds), text, len, &c);
	conf_free(&c);
	free(copy);
}

START_TEST(random_pieces)
{
	struct sim_random random = { 20240611 };
	char text[ROOM];

	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t len = 0, n = sim_below(&random, 60);

		for (size_t k = 0; k < n; k++) {
			const char *p =
				pieces[sim_below(&random, sizeof(pieces) / sizeof(*pieces))];

			memcpy(text + len, p, strlen(p));
			len += strlen(p);
		}
		try(text, len);
	}
}
END_TEST

START_TEST(random_damage)
{
	struct sim_random random = { 7 };
	char text[ROOM];

	try(sound, strlen(sound));
	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t len = strlen(sound), n = 1 + sim_below(&random, 8);

		memcpy(text, sound, len);
		while (n--) {
			size_t at = sim_below(&random, len), gone = sim_below(&random, 20);

			switch (sim_below(&random, 4)) {
			case 0:
				text[at] = (char)sim_below(&random, 256);
				break;
			case 1:
				text[at] ^= (char)(1 << sim_below(&random, 8));
				break;
			case 2: /* cut out */
				if (gone > len - at)
					gone = len - at;
				memmove(text + at, text + at + gone, len - at - gone);
				len -= gone;
				break;
			case 3: /* twice */
				if (gone > len - at)
					gone = len - at;
				if (len + gone > ROOM)
					break;
				memmove(text + at + gone, text + at, len - at);
				len += gone;
				break;
			}
			if (!len)
				break;
		}
		try(text, len);
	}
}
END_TEST

/* Every prefix of a sound one, with and without a newline at its end. */
START_TEST(truncations)
{
	char text[ROOM];

	for (size_t len = 0; len <= strlen(sound); len++) {
		memcpy(text, sound, len);
		try(text, len);
		text[len] = '\n';
		try(text, len + 1);
	}
}
END_TEST

/* Where an include finds nothing. */
static char folder[] = "/tmp/test_conf_fuzz.XXXXXX";

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
}

static void teardown(void)
{
	ck_assert_int_eq(chdir("/") || rmdir(folder), 0);
}

int main(void)
{
	Suite *suite = suite_create("conf fuzz");
	TCase *tc = tcase_create("fuzz");

	suite_add_tcase(suite, tc);
	tcase_add_unchecked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, random_pieces);
	tcase_add_test(tc, random_damage);
	tcase_add_test(tc, truncations);
	return run_suite(suite);
}
