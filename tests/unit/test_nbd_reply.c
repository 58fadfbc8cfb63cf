/*
 * The bytes of replies: each head as the specification draws it, in both modes, and which parts of
 * what was read are called holes.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sim/random.h"
#include "server/nbd/reply.h"
#include "server/nbd/text.h"
#include "tests/unit/nbd_peer.h"
#include "tests/unit/suite.h"

#define COOKIE	0x0102030405060708ULL
#define OFFSET	0x1112131415161718ULL
#define AT	0x2122232425262728ULL

/* How each mode's chunks begin; the rest of the header is put together from its fields. */
#define COOKIE_BYTES	"\1\2\3\4\5\6\7\10"
#define OFFSET_BYTES	"\x11\x12\x13\x14\x15\x16\x17\x18"
#define AT_BYTES	"\x21\x22\x23\x24\x25\x26\x27\x28"

static struct nbd_chunk chunk(enum nbd_mode mode, bool done)
{
	return (struct nbd_chunk){ .cookie = COOKIE, .offset = OFFSET, .mode = (uint8_t)mode,
				   .done = done };
}

/* Room of just the size that is promised, so that a byte too far is noticed. */
static uint8_t *room(void)
{
	uint8_t *p = malloc(NBD_REPLY_HEAD_MAX);

	ck_assert_ptr_nonnull(p);
	memset(p, 0xa5, NBD_REPLY_HEAD_MAX);
	return p;
}

/* p is these n bytes, and nothing was written behind them. */
static void expect_bytes(const uint8_t *p, size_t len, const char *want, size_t n)
{
	ck_assert_uint_eq(len, n);
	ck_assert_mem_eq(p, want, n);
	for (size_t i = n; i < NBD_REPLY_HEAD_MAX; i++)
		must(p[i] == 0xa5);
}

/* A literal with NULs in it, and its length. */
#define EXPECT(p, len, want) expect_bytes(p, len, want, sizeof(want) - 1)

START_TEST(none)
{
	struct nbd_chunk c = chunk(NBD_MODE_STRUCTURED, true);
	uint8_t *p = room();

	EXPECT(p, nbd_put_none(p, &c),
	       "\x66\x8e\x33\xef\0\1\0\0" COOKIE_BYTES "\0\0\0\0");
	c = chunk(NBD_MODE_EXTENDED, true);
	EXPECT(p, nbd_put_none(p, &c),
	       "\x6e\x8a\x27\x8c\0\1\0\0" COOKIE_BYTES OFFSET_BYTES "\0\0\0\0\0\0\0\0");
	free(p);
}
END_TEST

START_TEST(data)
{
	struct nbd_chunk c = chunk(NBD_MODE_STRUCTURED, false);
	uint8_t *p = room();

	EXPECT(p, nbd_put_data(p, &c, AT, 0x01020304),
	       "\x66\x8e\x33\xef\0\0\0\1" COOKIE_BYTES "\1\2\3\14" AT_BYTES);
	c.done = true;
	EXPECT(p, nbd_put_data(p, &c, AT, NBD_MAX_PAYLOAD),
	       "\x66\x8e\x33\xef\0\1\0\1" COOKIE_BYTES "\2\0\0\10" AT_BYTES);
	free(p);
	p = room();
	c = chunk(NBD_MODE_EXTENDED, false);
	/* The payload's length is 64 bits: no overflow at the end of 32. */
	EXPECT(p, nbd_put_data(p, &c, AT, UINT32_MAX),
	       "\x6e\x8a\x27\x8c\0\0\0\1" COOKIE_BYTES OFFSET_BYTES "\0\0\0\1\0\0\0\7" AT_BYTES);
	free(p);
}
END_TEST

START_TEST(hole)
{
	struct nbd_chunk c = chunk(NBD_MODE_STRUCTURED, true);
	uint8_t *p = room();

	EXPECT(p, nbd_put_hole(p, &c, AT, 0xfffffffe),
	       "\x66\x8e\x33\xef\0\1\0\2" COOKIE_BYTES "\0\0\0\14" AT_BYTES "\xff\xff\xff\xfe");
	free(p);
	p = room();
	c = chunk(NBD_MODE_EXTENDED, false);
	EXPECT(p, nbd_put_hole(p, &c, AT, 1),
	       "\x6e\x8a\x27\x8c\0\0\0\2" COOKIE_BYTES OFFSET_BYTES "\0\0\0\0\0\0\0\14" AT_BYTES
	       "\0\0\0\1");
	free(p);
}
END_TEST

START_TEST(error)
{
	struct nbd_chunk c = chunk(NBD_MODE_STRUCTURED, true);
	uint8_t *p = room();

	EXPECT(p, nbd_put_error(p, &c, NBD_ENOSPC, "full"),
	       "\x66\x8e\x33\xef\0\1\x80\1" COOKIE_BYTES "\0\0\0\12" "\0\0\0\34\0\4" "full");
	free(p);
	p = room();
	c = chunk(NBD_MODE_EXTENDED, true);
	EXPECT(p, nbd_put_error(p, &c, NBD_ESHUTDOWN, "gone"),
	       "\x6e\x8a\x27\x8c\0\1\x80\1" COOKIE_BYTES OFFSET_BYTES "\0\0\0\0\0\0\0\12"
	       "\0\0\0\154\0\4" "gone");
	free(p);
	/* No text and an empty one are the same. */
	for (int empty = 0; empty < 2; empty++) {
		p = room();
		c = chunk(NBD_MODE_STRUCTURED, false);
		EXPECT(p, nbd_put_error(p, &c, NBD_EIO, empty ? "" : NULL),
		       "\x66\x8e\x33\xef\0\0\x80\1" COOKIE_BYTES "\0\0\0\6" "\0\0\0\5\0\0");
		free(p);
	}
}
END_TEST

START_TEST(error_at)
{
	struct nbd_chunk c = chunk(NBD_MODE_STRUCTURED, false);
	uint8_t *p = room();

	EXPECT(p, nbd_put_error_at(p, &c, NBD_EIO, "bad sector", AT),
	       "\x66\x8e\x33\xef\0\0\x80\2" COOKIE_BYTES "\0\0\0\30" "\0\0\0\5\0\12" "bad sector"
	       AT_BYTES);
	free(p);
	p = room();
	c = chunk(NBD_MODE_EXTENDED, true);
	EXPECT(p, nbd_put_error_at(p, &c, NBD_ENOMEM, NULL, AT),
	       "\x6e\x8a\x27\x8c\0\1\x80\2" COOKIE_BYTES OFFSET_BYTES "\0\0\0\0\0\0\0\16"
	       "\0\0\0\14\0\0" AT_BYTES);
	free(p);
}
END_TEST

/* The number of bytes in an error chunk's text, by its head; checks the lengths around it. */
static size_t text_in(const uint8_t *p, size_t len, enum nbd_mode mode, size_t tail)
{
	size_t head = mode == NBD_MODE_EXTENDED ? 32 : 20, text = nbd_get_be16(p + head + 4);
	uint64_t payload = mode == NBD_MODE_EXTENDED ? nbd_get_be64(p + 24) : nbd_get_be32(p + 16);

	ck_assert_uint_eq(payload, 6 + text + tail);
	ck_assert_uint_eq(len, head + payload);
	ck_assert(nbd_text_valid((const char *)p + head + 6, text));
	return text;
}

/* Characters of one to four bytes, over the limit by every amount: cut at most three bytes early. */
START_TEST(error_text_is_cut)
{
	static const char *const letters[] = { "x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\xa7" };
	enum nbd_mode mode = (enum nbd_mode)_i;
	struct nbd_chunk c = chunk(mode, true);

	for (size_t k = 0; k < 4; k++) {
		size_t size = strlen(letters[k]), used;
		char text[2 * NBD_ERROR_TEXT_MAX + 8];

		for (size_t before = 0; before < 4; before++) {
			uint8_t *p = room();

			memset(text, '-', before);
			for (used = before; used < 2 * NBD_ERROR_TEXT_MAX; used += size)
				memcpy(text + used, letters[k], size + 1);
			used = text_in(p, nbd_put_error(p, &c, NBD_EIO, text), mode, 0);
			ck_assert_uint_le(used, NBD_ERROR_TEXT_MAX);
			ck_assert_uint_gt(used + size, NBD_ERROR_TEXT_MAX);
			ck_assert_mem_eq(p + (mode == NBD_MODE_EXTENDED ? 38 : 26), text, used);
			free(p);
		}
	}
}
END_TEST

/* The largest head there is, exactly, and texts of every length up to it. */
START_TEST(largest_head)
{
	enum nbd_mode mode = (enum nbd_mode)_i;
	struct nbd_chunk c = chunk(mode, true);
	char text[NBD_ERROR_TEXT_MAX + 3];
	size_t len, largest = 0;

	for (size_t n = 0; n < sizeof(text); n++) {
		uint8_t *p = room();

		memset(text, 'e', n);
		text[n] = '\0';
		len = nbd_put_error_at(p, &c, NBD_EIO, text, AT);
		ck_assert_uint_eq(text_in(p, len, mode, 8),
				  n < NBD_ERROR_TEXT_MAX ? n : NBD_ERROR_TEXT_MAX);
		ck_assert_mem_eq(p + len - 8, AT_BYTES, 8);
		largest = len > largest ? len : largest;
		free(p);
	}
	if (mode == NBD_MODE_EXTENDED)
		ck_assert_uint_eq(largest, NBD_REPLY_HEAD_MAX);
	else
		ck_assert_uint_eq(largest, NBD_REPLY_HEAD_MAX - 12);
}
END_TEST

START_TEST(status)
{
	struct nbd_chunk c = chunk(NBD_MODE_STRUCTURED, true);
	uint8_t *p = room();

	EXPECT(p, nbd_put_status(p, &c, NBD_ID_ALLOCATION, 3),
	       "\x66\x8e\x33\xef\0\1\0\5" COOKIE_BYTES "\0\0\0\34" "\0\0\0\1");
	free(p);
	p = room();
	c = chunk(NBD_MODE_EXTENDED, false);
	EXPECT(p, nbd_put_status(p, &c, 7, 0x102),
	       "\x6e\x8a\x27\x8c\0\0\0\6" COOKIE_BYTES OFFSET_BYTES "\0\0\0\0\0\0\x10\x28"
	       "\0\0\0\7\0\0\1\2");
	free(p);
}
END_TEST

START_TEST(extent)
{
	uint8_t *p = malloc(8);

	ck_assert_uint_eq(nbd_extent_size(NBD_MODE_STRUCTURED), 8);
	nbd_put_extent(p, NBD_MODE_STRUCTURED, UINT32_MAX, NBD_STATE_HOLE | NBD_STATE_ZERO);
	ck_assert_mem_eq(p, "\xff\xff\xff\xff\0\0\0\3", 8);
	nbd_put_extent(p, NBD_MODE_STRUCTURED, 0x10203, 0);
	ck_assert_mem_eq(p, "\0\1\2\3\0\0\0\0", 8);
	free(p);
	p = malloc(16);
	ck_assert_uint_eq(nbd_extent_size(NBD_MODE_EXTENDED), 16);
	nbd_put_extent(p, NBD_MODE_EXTENDED, OFFSET, NBD_STATE_ZERO);
	ck_assert_mem_eq(p, OFFSET_BYTES "\0\0\0\0\0\0\0\2", 16);
	free(p);
}
END_TEST

START_TEST(simple)
{
	uint8_t *reply = malloc(NBD_SIMPLE_REPLY_SIZE);

	nbd_encode_simple_reply(reply, NBD_ENOSPC, COOKIE);
	ck_assert_mem_eq(reply, "\x67\x44\x66\x98\0\0\0\x1c" COOKIE_BYTES, 16);
	nbd_encode_simple_reply(reply, NBD_SUCCESS, UINT64_MAX);
	ck_assert_mem_eq(reply, "\x67\x44\x66\x98\0\0\0\0\377\377\377\377\377\377\377\377", 16);
	free(reply);
}
END_TEST

/* ---- holes ---- */

enum { LOOK = 4096, LARGEST = 5 << 20 };

/* Spans alternate and add up; where one is a hole, every byte is zero. */
static void check_spans(const char *buf, uint32_t length, const struct nbd_span *span, unsigned n)
{
	static const char zero[LOOK];
	uint64_t end = 0;

	must(n >= 1 && n <= NBD_SPANS_MAX);
	for (unsigned i = 0; i < n; i++) {
		must(span[i].length > 0);
		must(!i || span[i].hole != span[i - 1].hole);
		must(end + span[i].length <= length);
		for (uint32_t k = 0; span[i].hole && k < span[i].length; k += LOOK) {
			uint32_t part = span[i].length - k < LOOK ? span[i].length - k : LOOK;

			must(!memcmp(buf + end + k, zero, part));
		}
		must(!span[i].hole || n == 1 || span[i].length >= NBD_HOLE_MIN);
		end += span[i].length;
	}
	must(end == length);
}

/*
 * A second opinion, byte by byte: what is a hole, with no bound on how many. Marks each byte in
 * is_hole and returns how many spans there would be.
 */
static unsigned naive(const char *buf, uint64_t at, uint32_t length, bool *is_hole)
{
	unsigned spans = 0;
	uint32_t begin, end;

	/* A piece between multiples of LOOK counts only whole. */
	for (uint32_t i = 0; i < length; i = end) {
		bool zero = true;

		for (end = i; end < length && (end == i || (at + end) % LOOK); end++)
			zero = zero && !buf[end];
		memset(is_hole + i, zero, end - i);
	}
	for (begin = 0; begin < length; begin = end) {
		for (end = begin; end < length && is_hole[end] == is_hole[begin]; end++)
			;
		if (is_hole[begin] && end - begin < NBD_HOLE_MIN && end - begin < length)
			memset(is_hole + begin, false, end - begin);
	}
	for (uint32_t i = 0; i < length; i++)
		spans += !i || is_hole[i] != is_hole[i - 1];
	return spans;
}

static bool *marks;

/* Returns how many spans there are. The data is in memory of just its size. */
static unsigned check_holes(const char *buf, uint64_t at, uint32_t length)
{
	struct nbd_span span[NBD_SPANS_MAX];
	char *exact = malloc(length);
	uint32_t i = 0;
	unsigned n, want;

	memcpy(exact, buf, length);
	n = nbd_find_holes(exact, at, length, span);
	check_spans(exact, length, span, n);
	want = naive(exact, at, length, marks);
	/* With more of them than fit it gives up in the end, and calls the rest data. */
	must(n == want || (want > NBD_SPANS_MAX - 2 && n >= NBD_SPANS_MAX - 2));
	for (unsigned k = 0; k < n; k++)
		for (uint32_t left = span[k].length; left; left--, i++)
			must(span[k].hole == marks[i] || (n < want && k == n - 1));
	free(exact);
	return n;
}

static void setup(void)
{
	marks = malloc(LARGEST);
	ck_assert_ptr_nonnull(marks);
}

static void teardown(void)
{
	free(marks);
}

START_TEST(holes_plain)
{
	char *buf = calloc(1, 1 << 20);
	struct nbd_span span[NBD_SPANS_MAX];

	/* All of it, however short. */
	for (uint32_t length = 1; length <= 1 << 20; length += 1 + length / 3) {
		ck_assert_uint_eq(nbd_find_holes(buf, length * 77, length, span), 1);
		ck_assert(span[0].hole);
		ck_assert_uint_eq(span[0].length, length);
	}
	/* One byte of data, wherever it is, makes a short one data. */
	for (uint32_t i = 0; i < 8192; i++) {
		buf[i] = 1;
		ck_assert_uint_eq(nbd_find_holes(buf, 0, 8192, span), 1);
		ck_assert(!span[0].hole);
		buf[i] = 0;
	}
	/* Just long enough, and a byte of data too much. */
	memset(buf, 'd', 1 << 20);
	memset(buf + 4096, 0, NBD_HOLE_MIN);
	ck_assert_uint_eq(nbd_find_holes(buf, 0, 1 << 20, span), 3);
	ck_assert_uint_eq(span[0].length, 4096);
	ck_assert_uint_eq(span[1].length, NBD_HOLE_MIN);
	ck_assert(!span[0].hole && span[1].hole && !span[2].hole);
	ck_assert_uint_eq(nbd_find_holes(buf, 1, 1 << 20, span), 1);	/* not at multiples of 4 KiB */
	buf[4096 + NBD_HOLE_MIN - 1] = 1;
	ck_assert_uint_eq(nbd_find_holes(buf, 0, 1 << 20, span), 1);
	free(buf);
}
END_TEST

/* Stretches of zeroes and data of random lengths at random places. */
START_TEST(holes_random)
{
	struct sim_random random = { 11 + (uint64_t)_i };
	char *buf = malloc(512 << 10);
	unsigned several = 0;

	for (int round = 0; round < 80; round++) {
		uint32_t length = 1 + (uint32_t)sim_below(&random, 512 << 10), i = 0, part;
		uint64_t at = sim_below(&random, 3) ? sim_below(&random, 1 << 20) * LOOK
						    : sim_below(&random, UINT64_MAX >> 1);

		for (; i < length; i += part) {
			part = (uint32_t)sim_below(&random, 80 << 10);
			if (sim_chance(&random, 50))
				part = part / LOOK * LOOK;
			part = part < 1 ? 1 : part > length - i ? length - i : part;
			memset(buf + i, 0, part);
			if (sim_chance(&random, 40))
				buf[i + sim_below(&random, part)] = 'd'; /* a single byte */
			else if (sim_chance(&random, 50))
				memset(buf + i, 'd', part);
		}
		several += check_holes(buf, at, length) > 2;
	}
	ck_assert_uint_gt(several, 25);
	free(buf);
}
END_TEST

/* More holes than fit, at all distances to the bound: the last span takes what is left. */
START_TEST(holes_without_end)
{
	enum { PERIOD = 2 * NBD_HOLE_MIN };
	char *buf = calloc(1, LARGEST);
	unsigned n, most = 0;

	for (uint32_t i = 0; i < LARGEST; i += PERIOD)
		buf[i] = 'd';
	for (uint32_t periods = 26; periods < LARGEST / PERIOD; periods += periods < 36 ? 1 : 7) {
		for (uint32_t skip = 0; skip < 3; skip++) {
			uint32_t from = skip * LOOK;

			n = check_holes(buf + from, from, periods * PERIOD - from);
			most = n > most ? n : most;
		}
	}
	ck_assert_uint_ge(most, NBD_SPANS_MAX - 2);
	free(buf);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("nbd_reply");
	TCase *tc = tcase_create("heads"), *holes = tcase_create("holes");

	tcase_add_test(tc, simple);
	tcase_add_test(tc, none);
	tcase_add_test(tc, data);
	tcase_add_test(tc, hole);
	tcase_add_test(tc, error);
	tcase_add_test(tc, error_at);
	tcase_add_loop_test(tc, error_text_is_cut, NBD_MODE_STRUCTURED, NBD_MODE_EXTENDED + 1);
	tcase_add_loop_test(tc, largest_head, NBD_MODE_STRUCTURED, NBD_MODE_EXTENDED + 1);
	tcase_add_test(tc, status);
	tcase_add_test(tc, extent);
	tcase_add_checked_fixture(holes, setup, teardown);
	tcase_add_test(holes, holes_plain);
	tcase_add_loop_test(holes, holes_random, 0, 4);
	tcase_add_test(holes, holes_without_end);
	suite_add_tcase(s, tc);
	suite_add_tcase(s, holes);
	return run_suite(s);
}
