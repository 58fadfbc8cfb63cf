/*
 * Strings, the output buffer and byte order: what the rest of server/nbd stands on.
 */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/nbd/out.h"
#include "server/nbd/protocol.h"
#include "server/nbd/text.h"
#include "tests/unit/nbd_peer.h"
#include "tests/unit/suite.h"

/* ---- UTF-8 ---- */

/* Encode as if every number up to 2^21 were a character, in size bytes, fit or not. */
static void encode(uint8_t *p, uint32_t c, size_t size)
{
	static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = size - 1; i > 0; i--, c >>= 6)
		p[i] = (uint8_t)(0x80 | (c & 0x3f));
	p[0] = (uint8_t)(size == 1 ? c : lead[size] | c);
}

static bool valid(const uint8_t *p, size_t len)
{
	char *exact = malloc(len ? len : 1);	/* a sanitizer guards its end */
	bool ret;

	memcpy(exact, p, len);
	ret = nbd_text_valid(exact, len);
	free(exact);
	return ret;
}

/* Every number in every size that can hold it: valid once, in the shortest form. */
START_TEST(utf8_characters)
{
	static const uint32_t above[] = { 0, 0x80, 0x800, 0x10000, 0x200000 };
	uint8_t p[4];
	bool legal;

	for (size_t size = 1; size <= 4; size++) {
		for (uint32_t c = 0; c < above[size]; c += size == 4 ? 7 : 1) {
			encode(p, c, size);
			legal = c > 0 && c >= above[size - 1] && c <= 0x10ffff &&
				!(c >= 0xd800 && c <= 0xdfff);
			must(nbd_text_valid((char *)p, size) == legal);
		}
	}
	encode(p, 0x10ffff, 4);
	must(nbd_text_valid((char *)p, 4));
	encode(p, 0x110000, 4);
	must(!nbd_text_valid((char *)p, 4));
}
END_TEST

/* Two bytes: valid only as two ASCII characters or as one of two bytes. */
START_TEST(utf8_pairs)
{
	uint8_t p[2];
	bool legal;

	for (int a = 0; a < 256; a++) {
		for (int b = 0; b < 256; b++) {
			p[0] = (uint8_t)a;
			p[1] = (uint8_t)b;
			legal = (a > 0 && a < 0x80 && b > 0 && b < 0x80) ||
				(a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf);
			must(nbd_text_valid((char *)p, 2) == legal);
		}
	}
}
END_TEST

START_TEST(utf8_incomplete)
{
	static const char *const chars[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };

	for (size_t i = 0; i < 3; i++) {
		for (size_t len = 1; len < strlen(chars[i]); len++) {
			ck_assert(!valid((const uint8_t *)chars[i], len));
			ck_assert(!valid((const uint8_t *)chars[i] + len, strlen(chars[i]) - len));
		}
		ck_assert(valid((const uint8_t *)chars[i], strlen(chars[i])));
	}
	ck_assert(!nbd_text_valid("\xf8\x88\x80\x80\x80", 5));
	ck_assert(!nbd_text_valid("\xc3(", 2));
	ck_assert(!nbd_text_valid("\xf0\x9f\x98(", 4));
}
END_TEST

START_TEST(text_lengths)
{
	char text[4097];

	memset(text, 'x', sizeof(text));
	ck_assert(nbd_text_valid(NULL, 0));
	ck_assert(nbd_text_valid(text, 4096));
	ck_assert(!nbd_text_valid(text, 4097));
	text[4095] = '\0';
	ck_assert(!nbd_text_valid(text, 4096));
	ck_assert(nbd_text_valid(text, 4095));
}
END_TEST

START_TEST(text_cut)
{
	const char *s = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";	/* 1 2 3 4 1 bytes */
	static const size_t at[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11 };

	for (size_t max = 0; max < 13; max++)
		ck_assert_uint_eq(nbd_text_cut(s, 11, max), at[max]);
	ck_assert_uint_eq(nbd_text_cut(NULL, 0, 5), 0);
	/* No UTF-8 at all: cut anywhere, but terminate and do not exceed. */
	for (size_t max = 0; max < 8; max++)
		ck_assert_uint_le(nbd_text_cut("\x80\x80\x80\x80\x80\x80\x80\x80", 8, max), max);
}
END_TEST

START_TEST(text_clean)
{
	char text[] = "ok\n\t\x1b \x7f \xc3\xa9 \xff\xc3( \xe2\x82\xac\xe2\x82";
	uint64_t x = 1;
	char random[64];

	nbd_text_clean(text, sizeof(text) - 1);
	ck_assert_str_eq(text, "ok??? ? \xc3\xa9 ?" "?( \xe2\x82\xac??");
	/* What has been cleaned is always legal. */
	for (int i = 0; i < 20000; i++) {
		for (size_t k = 0; k < sizeof(random); k++) {
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
			random[k] = (char)(x >> 56);
			if (k && x >> 40 & 1)
				random[k] = (char)(0x80 | (random[k] & 0x3f));
		}
		nbd_text_clean(random, sizeof(random));
		must(nbd_text_valid(random, sizeof(random)));
	}
}
END_TEST

/* ---- output buffer ---- */

START_TEST(out_grows_to_its_bound)
{
	struct nbd_out out;
	uint8_t *p;

	nbd_out_init(&out);
	must(!out.data);
	for (size_t len = 0; len < NBD_OUT_MAX; len += 64) {
		p = nbd_out_reserve(&out, 64);
		must(p);
		must(p == out.data + len);
		memset(p, (int)(len / 64 & 0xff), 64);
		must(out.cap <= NBD_OUT_MAX);
	}
	must(!nbd_out_reserve(&out, 1));
	must(!nbd_out_reserve(&out, SIZE_MAX));
	must(out.len == NBD_OUT_MAX);
	for (size_t i = 0; i < out.len; i++)
		must(out.data[i] == (i / 64 & 0xff));
	nbd_out_free(&out);
	must(!out.data);
	must(out.cap == 0);
	nbd_out_free(&out);
	nbd_out_free(NULL);
}
END_TEST

START_TEST(out_consume)
{
	struct nbd_out out;

	nbd_out_init(&out);
	nbd_out_consume(&out, 0);
	memcpy(nbd_out_reserve(&out, 10), "0123456789", 10);
	nbd_out_consume(&out, 3);
	ck_assert_uint_eq(out.len, 7);
	ck_assert_mem_eq(out.data, "3456789", 7);
	memcpy(nbd_out_reserve(&out, 2), "ab", 2);
	ck_assert_mem_eq(out.data, "3456789ab", 9);
	nbd_out_consume(&out, 9);
	ck_assert_uint_eq(out.len, 0);
	ck_assert_uint_gt(out.cap, 0);
	nbd_out_free(&out);
}
END_TEST

START_TEST(byte_order)
{
	static const uint8_t bytes[] = { 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0 };
	uint8_t p[9];

	memset(p, 0, sizeof(p));
	ck_assert_uint_eq(nbd_get_be16(bytes), 0xfffe);
	ck_assert_uint_eq(nbd_get_be32(bytes), 0xfffefdfc);
	ck_assert_uint_eq(nbd_get_be64(bytes), 0xfffefdfcfbfaf9f8ULL);
	nbd_put_be16(p + 1, 0xfffe);
	ck_assert_mem_eq(p + 1, bytes, 2);
	nbd_put_be32(p + 1, 0xfffefdfc);
	ck_assert_mem_eq(p + 1, bytes, 4);
	nbd_put_be64(p + 1, 0xfffefdfcfbfaf9f8ULL);
	ck_assert_mem_eq(p + 1, bytes, 8);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("nbd_text");
	TCase *tc = tcase_create("text");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, utf8_characters);
	tcase_add_test(tc, utf8_pairs);
	tcase_add_test(tc, utf8_incomplete);
	tcase_add_test(tc, text_lengths);
	tcase_add_test(tc, text_cut);
	tcase_add_test(tc, text_clean);
	tcase_add_test(tc, out_grows_to_its_bound);
	tcase_add_test(tc, out_consume);
	tcase_add_test(tc, byte_order);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
