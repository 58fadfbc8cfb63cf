/*
 * One conversation, for the tests that take the handshake rule by rule: what the client says (in),
 * what exports there are (w), what came of it (t), and how much of the answer has been read (at).
 * Included by test programs only, each of which has its own.
 */
#ifndef TESTS_UNIT_NBD_FIXTURE_H
#define TESTS_UNIT_NBD_FIXTURE_H

#include <check.h>
#include <string.h>

#include "tests/unit/nbd_peer.h"
#include "tests/unit/suite.h"

#define FIXED		1U
#define FIXED_NO_ZEROES	3U

static struct bytes in;
static struct world w;
static struct talk t;
static size_t at;

static inline void setup(void)
{
	w = (struct world){ .listed = 3 };
	at = 0;
}

static inline void teardown(void)
{
	talk_free(&t);
	bytes_free(&in);
}

static inline void run(enum nbd_handshake_result result)
{
	talk(&t, &w, &in, NULL, NULL);
	ck_assert_int_eq(t.result, result);
}

/* Start over within a test. */
static inline void again(void)
{
	teardown();
	setup();
}

static inline void ends(void)
{
	ck_assert_uint_eq(at, t.out.len);
}

static inline void expect_info_export(uint32_t option, uint16_t flags)
{
	struct reply r = expect_reply(&t.out, &at, option, NBD_REP_INFO);

	ck_assert_uint_eq(r.len, 12);
	ck_assert_uint_eq(nbd_get_be16(r.data), NBD_INFO_EXPORT);
	ck_assert_uint_eq(nbd_get_be64(r.data + 2), DISK_SIZE);
	ck_assert_uint_eq(nbd_get_be16(r.data + 10), flags);
}

/* An error whose text contains part. */
static inline void expect_error(uint32_t option, uint32_t type, const char *part)
{
	struct reply r = expect_reply(&t.out, &at, option, type);

	ck_assert_msg(memmem(r.data, r.len, part, strlen(part)), "no '%s' in '%.*s'", part,
		      (int)r.len, (const char *)r.data);
}

/* Proof of being in step: INFO works. */
static inline void add_probe(void)
{
	client_info(&in, NBD_OPT_INFO, "ro", 0, NULL);
}

static inline void expect_probe(void)
{
	expect_info_export(NBD_OPT_INFO, 0x000f);
	expect_reply(&t.out, &at, NBD_OPT_INFO, NBD_REP_ACK);
}

static inline int run_case(const char *name, TCase *tc)
{
	Suite *s = suite_create(name);

	tcase_add_checked_fixture(tc, setup, teardown);
	suite_add_tcase(s, tc);
	return run_suite(s);
}

#endif
