/*
 * The handshake over input that is cut, broken or random. talk() asserts what must hold for any
 * input: nothing is read beyond it (each read has memory of its exact size), output is bounded,
 * final states stay, no reference is lost, and it ends. Here: the outcome does not depend on the
 * cuts.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/nbd_peer.h"
#include "tests/unit/suite.h"

static uint64_t seed;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static size_t cut_random(void *arg, size_t left)
{
	size_t n = 1 + rnd() % *(size_t *)arg;

	return n < left ? n : left;
}

/* First *arg bytes, then the rest. */
static size_t cut_once(void *arg, size_t left)
{
	size_t n = *(size_t *)arg;

	*(size_t *)arg = 0;
	return n && n < left ? n : left;
}

static void check_same(const struct talk *a, const struct talk *b)
{
	must(a->secured == b->secured);
	must(a->result == b->result);
	must(a->consumed == b->consumed);
	must(a->out.len == b->out.len);
	if (a->out.len)
		must(!memcmp(a->out.data, b->out.data, a->out.len));
	must(a->reason == b->reason);
	must(a->export.limits.mode == b->export.limits.mode);
	must(a->export.limits.contexts == b->export.limits.contexts);
	must(a->export.limits.flags == b->export.limits.flags);
}

/* Run it cut in this way and compare with the outcome of one read. */
static void check_cut(const struct talk *whole, const struct world *world, const struct bytes *in,
		      size_t (*cut)(void *arg, size_t left), void *arg)
{
	struct world w = *world;
	struct talk t;

	talk(&t, &w, in, cut, arg);
	check_same(whole, &t);
	talk_free(&t);
}

/* ---- whole conversations ---- */

/* Each option but the last ones, and each way to refuse one. */
static void add_options(struct bytes *in)
{
	static const uint16_t items[] = { 1, 2, 3, 9 };

	client_option(in, NBD_OPT_SET_META_CONTEXT, "\0\0\0\0\0\0\0\0", 8);	/* too early */
	client_option(in, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	client_option(in, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	client_option(in, NBD_OPT_LIST_META_CONTEXT, "\0\0\0\4disk\0\0\0\0", 12);
	client_context(in, NBD_OPT_SET_META_CONTEXT, "", "base:allocation");
	client_context(in, NBD_OPT_SET_META_CONTEXT, "nothing", "base:allocation");
	client_context(in, NBD_OPT_SET_META_CONTEXT, "disk", "base:allocation");
	client_option(in, NBD_OPT_STARTTLS, "junk", 4);
	client_option(in, NBD_OPT_LIST, NULL, 0);
	client_option(in, NBD_OPT_LIST, "junk", 4);
	client_info(in, NBD_OPT_INFO, "", 4, items);
	client_info(in, NBD_OPT_INFO, "ro", 0, NULL);
	client_info(in, NBD_OPT_GO, "nothing", 4, items);
	client_option(in, NBD_OPT_GO, "\0\0\1\0disk", 8);
	client_option(in, NBD_OPT_GO, "\0\0\0\3d\377k\0\0", 9);
	client_option(in, 12345, "some payload to be skipped", 26);
}

/* The conversations; false when there is no such one. */
static bool add_script(struct bytes *in, struct world *w, int which)
{
	static const uint8_t zeroes[70000];

	*w = (struct world){ .listed = 3 };
	switch (which) {
	case 0:
		client_flags(in, 3);
		add_options(in);
		client_info(in, NBD_OPT_GO, "disk", 0, NULL);
		break;
	case 1:
		client_flags(in, 3);
		add_options(in);
		client_option(in, NBD_OPT_ABORT, "bye", 3);
		break;
	case 2:
		client_flags(in, 3);
		add_options(in);
		client_option(in, NBD_OPT_EXPORT_NAME, "ro", 2);
		break;
	case 3:
		client_flags(in, 0);
		client_option(in, NBD_OPT_EXPORT_NAME, NULL, 0);
		break;
	case 4:
		client_flags(in, 1);
		client_option(in, NBD_OPT_EXPORT_NAME, "nothing", 7);
		break;
	case 5:
		client_flags(in, 5);
		break;
	case 6:
		client_flags(in, 1);
		bytes_add(in, "IHAVEOPX", 8);
		break;
	case 7:
		client_flags(in, 3);
		client_option(in, NBD_OPT_EXTENDED_HEADERS, NULL, 0);
		add_options(in);
		client_info(in, NBD_OPT_GO, "", 0, NULL);
		break;
	case 8:
		client_flags(in, 1);
		add_options(in);
		client_option(in, NBD_OPT_EXTENDED_HEADERS, NULL, 0);
		client_option(in, NBD_OPT_EXPORT_NAME, "disk", 4);
		break;
	case 9:
		/* Long answers: the output fills up while more options wait. */
		w->listed = 1500;
		client_flags(in, 1);
		client_option(in, NBD_OPT_LIST, NULL, 0);
		add_options(in);
		client_info(in, NBD_OPT_GO, "blocks", 0, NULL);
		break;
	case 10:
		/* Payloads that are skipped and that are collected, both longer than a read. */
		client_flags(in, 1);
		client_option(in, NBD_OPT_GO, zeroes, 70000);
		client_option(in, NBD_OPT_GO, zeroes, 65536);
		client_info(in, NBD_OPT_GO, "disk", 0, NULL);
		break;
	default:
		return false;
	}
	client_request(in, NBD_CMD_READ, 0, 4096);
	client_request(in, NBD_CMD_DISC, 0, 0);
	return true;
}

START_TEST(bytes_one_by_one)
{
	struct bytes in = { 0 };
	struct world w, start;
	struct talk whole;
	size_t part = 1000;

	must(add_script(&in, &start, _i));
	w = start;
	talk(&whole, &w, &in, NULL, NULL);
	must(whole.result != NBD_HANDSHAKE_CONTINUE);
	must(whole.result != NBD_HANDSHAKE_NEED_MORE);
	if (whole.result == NBD_HANDSHAKE_ENTER_TRANSMISSION)
		must(whole.consumed == in.len - 2 * 28);
	check_cut(&whole, &start, &in, cut_bytes, NULL);
	seed = 7;
	for (int i = 0; i < 20; i++)
		check_cut(&whole, &start, &in, cut_random, &part);
	talk_free(&whole);
	bytes_free(&in);
}
END_TEST

START_TEST(every_split)
{
	struct bytes in = { 0 };
	struct world w, start;
	struct talk whole;
	size_t split;

	must(add_script(&in, &start, _i));
	w = start;
	talk(&whole, &w, &in, NULL, NULL);
	for (size_t at = 1; at < in.len; at++) {
		split = at;
		check_cut(&whole, &start, &in, cut_once, &split);
	}
	talk_free(&whole);
	bytes_free(&in);
}
END_TEST

/* Cut short anywhere, it waits for more, and gives back all that it holds. */
START_TEST(every_truncation)
{
	struct bytes in = { 0 };
	struct world w, start;
	struct talk whole, t;
	size_t len, end;

	must(add_script(&in, &start, _i));
	w = start;
	talk(&whole, &w, &in, NULL, NULL);
	end = whole.consumed;
	for (len = 0; len <= end; len++) {
		in.len = len;
		w = start;
		talk(&t, &w, &in, NULL, NULL);
		must(t.consumed == len);
		must(t.result == (len < end ? NBD_HANDSHAKE_NEED_MORE : whole.result));
		must(t.out.len <= whole.out.len);
		if (t.out.len)
			must(!memcmp(t.out.data, whole.out.data, t.out.len));
		talk_free(&t);
	}
	talk_free(&whole);
	bytes_free(&in);
}
END_TEST

/* ---- random input ---- */

static void add_random(struct bytes *in, size_t n)
{
	while (n--)
		bytes_fill(in, (uint8_t)rnd(), 1);
}

static void add_random_info(struct bytes *in, uint32_t option)
{
	static const char *const names[] = { "", "disk", "ro", "blocks", "nothing", "forbidden",
					     "down", "\xc3\xa9", "\xff", "a\tb" };
	uint16_t items[8];

	for (size_t i = 0; i < 8; i++)
		items[i] = rnd() % 8 ? (uint16_t)(rnd() % 5) : (uint16_t)rnd();
	client_info(in, option, names[rnd() % 10], rnd() % 9, items);
}

/* LIST or SET, sometimes with counts and lengths that are not true. */
static void add_random_context(struct bytes *in)
{
	static const char *const names[] = { "", "disk", "ro", "blocks", "nothing", "\xff" };
	static const char *const queries[] = { "base:", "base:allocation", "", "qemu:x", "b\xc3" };
	struct bytes data = { 0 };
	const char *text = names[rnd() % 6];
	uint32_t n = rnd() % 4;

	bytes_be32(&data, (uint32_t)(strlen(text) + (rnd() % 16 ? 0 : rnd() % 5)));
	bytes_add(&data, text, strlen(text));
	bytes_be32(&data, rnd() % 16 ? n : (uint32_t)rnd());
	while (n--) {
		text = queries[rnd() % 5];
		bytes_be32(&data, (uint32_t)(strlen(text) - (rnd() % 16 ? 0 : rnd() % 3)));
		bytes_add(&data, text, strlen(text));
	}
	client_option(in, rnd() % 2 ? NBD_OPT_LIST_META_CONTEXT : NBD_OPT_SET_META_CONTEXT,
		      data.data, data.len);
	bytes_free(&data);
}

static void add_random_option(struct bytes *in)
{
	uint8_t payload[300];
	size_t len = rnd() % 3 ? 0 : rnd() % sizeof(payload);

	switch (rnd() % 11) {
	case 0:
	case 1:
		add_random_info(in, NBD_OPT_INFO);
		break;
	case 2:
		add_random_info(in, NBD_OPT_GO);
		break;
	case 3:
		client_option(in, NBD_OPT_LIST, payload, 0);
		break;
	case 4:
	case 5:
		add_random_context(in);
		break;
	case 6:
		client_option(in, rnd() % 2 ? NBD_OPT_STRUCTURED_REPLY : NBD_OPT_EXTENDED_HEADERS,
			      payload, 0);
		break;
	default:
		for (size_t i = 0; i < len; i++)
			payload[i] = rnd() % 2 ? (uint8_t)rnd() : 0;
		client_option(in, (uint32_t)(rnd() % 8 ? rnd() % 13 : rnd()), payload, len);
		break;
	}
}

static void mutate(struct bytes *in)
{
	size_t at;

	for (uint64_t n = rnd() % 4; n && in->len; n--) {
		at = rnd() % in->len;
		switch (rnd() % 4) {
		case 0:
			in->data[at] ^= (uint8_t)(1U << rnd() % 8);
			break;
		case 1:
			in->data[at] = (uint8_t)rnd();
			break;
		case 2:
			in->len--;
			memmove(in->data + at, in->data + at + 1, in->len - at);
			break;
		default:
			in->len = at;
			break;
		}
	}
}

static void add_random_input(struct bytes *in)
{
	uint64_t kind = rnd() % 8;

	if (kind == 0) {
		add_random(in, rnd() % 200);
		return;
	}
	client_flags(in, rnd() % 16 ? 1 + 2 * (rnd() % 2) : (uint32_t)(rnd() % 6));
	if (kind == 1) {
		add_random(in, rnd() % 200);
		return;
	}
	if (rnd() % 4 == 0) {
		client_option(in, rnd() % 2 ? NBD_OPT_STRUCTURED_REPLY : NBD_OPT_EXTENDED_HEADERS,
			      NULL, 0);
		client_context(in, NBD_OPT_SET_META_CONTEXT, "disk", "base:allocation");
	}
	for (uint64_t n = 1 + rnd() % 6; n; n--)
		add_random_option(in);
	if (kind > 3)
		mutate(in);
}

#define ROUNDS	50000	/* each of four */

START_TEST(random_input)
{
	unsigned ends[NBD_HANDSHAKE_CLOSE + 1] = { 0 }, with_contexts = 0;
	struct world w, start;
	struct bytes in = { 0 };
	struct talk whole;
	size_t part;

	seed = 0x9e3779b97f4a7c15ULL + (uint64_t)_i;
	for (int i = 0; i < ROUNDS; i++) {
		in.len = 0;
		add_random_input(&in);
		start = (struct world){ .listed = (unsigned)(rnd() % 5),
					.tls = rnd() % 4 ? NBD_TLS_OFF : 1 + rnd() % 2 };
		w = start;
		talk(&whole, &w, &in, NULL, NULL);
		ends[whole.result]++;
		with_contexts += whole.export.limits.contexts != 0;
		part = 1 + rnd() % 40;
		check_cut(&whole, &start, &in, cut_random, &part);
		talk_free(&whole);
	}
	bytes_free(&in);
	/* All ends are reached, or the generator is no good. */
	must(ends[NBD_HANDSHAKE_NEED_MORE] > ROUNDS / 20);
	must(ends[NBD_HANDSHAKE_ENTER_TRANSMISSION] > ROUNDS / 20);
	must(ends[NBD_HANDSHAKE_CLOSE] > ROUNDS / 20);
	must(with_contexts > ROUNDS / 1000);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("nbd_fuzz");
	TCase *tc = tcase_create("cut and random");

	tcase_set_timeout(tc, 240);
	tcase_add_loop_test(tc, bytes_one_by_one, 0, 11);
	tcase_add_loop_test(tc, every_split, 0, 9);
	tcase_add_loop_test(tc, every_truncation, 0, 9);
	tcase_add_loop_test(tc, random_input, 0, 4);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
