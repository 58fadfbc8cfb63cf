/*
 * The handshake, rule by rule. INFO and GO are in test_nbd_info.c, input that is cut or random in
 * test_nbd_fuzz.c.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/nbd_fixture.h"

/* ---- greeting and flags ---- */

START_TEST(greeting)
{
	struct nbd_handshake h;
	struct nbd_out out;

	nbd_out_init(&out);
	nbd_handshake_init(&h, &world_ops, &w);
	ck_assert_int_eq(nbd_handshake_greeting(&h, &out), 0);
	ck_assert_uint_eq(out.len, 18);
	ck_assert_mem_eq(out.data, "NBDMAGICIHAVEOPT\0\3", 18);
	nbd_handshake_free(&h);
	nbd_handshake_free(NULL);
	nbd_out_free(&out);
}
END_TEST

START_TEST(unknown_client_flag_closes)
{
	client_flags(&in, FIXED | 1U << _i);
	add_probe();
	if (_i < 2) {
		run(NBD_HANDSHAKE_NEED_MORE);
		expect_probe();
	} else {
		run(NBD_HANDSHAKE_CLOSE);
		ck_assert_str_eq(t.reason, "unknown client flags");
		ck_assert(!t.aborted);
	}
	ends();
}
END_TEST

START_TEST(nothing_yet)
{
	run(NBD_HANDSHAKE_NEED_MORE);
	ends();
	client_flags(&in, FIXED);
	run(NBD_HANDSHAKE_NEED_MORE);
	ends();
}
END_TEST

START_TEST(wrong_option_magic_closes)
{
	client_flags(&in, FIXED);
	add_probe();
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	in.data[in.len - 9] ^= 1;
	run(NBD_HANDSHAKE_CLOSE);
	expect_probe();
	ends();
	ck_assert_str_eq(t.reason, "wrong option magic");
}
END_TEST

/* Without fixed newstyle a client understands EXPORT_NAME alone, and no reply to anything else. */
START_TEST(plain_newstyle)
{
	static const uint32_t others[] = { 2, 3, 6, 7, 8, 99 };

	for (uint32_t flags = 0; flags <= 2; flags += 2) {
		client_flags(&in, flags);
		client_option(&in, NBD_OPT_EXPORT_NAME, "disk", 4);
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		ck_assert_uint_eq(t.out.len, flags ? 10 : 134);
		again();
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			client_flags(&in, flags);
			client_option(&in, others[i], NULL, 0);
			run(NBD_HANDSHAKE_CLOSE);
			ends();
			again();
		}
	}
}
END_TEST

/* ---- EXPORT_NAME ---- */

START_TEST(export_name)
{
	static const uint8_t zeroes[124];

	for (uint32_t flags = FIXED; flags <= FIXED_NO_ZEROES; flags += 2) {
		client_flags(&in, flags);
		client_option(&in, NBD_OPT_EXPORT_NAME, "ro", 2);
		client_request(&in, NBD_CMD_READ, 0, 512);
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		ck_assert_uint_eq(t.consumed, in.len - 28);
		ck_assert_uint_eq(nbd_get_be64(t.out.data), DISK_SIZE);
		ck_assert_uint_eq(nbd_get_be16(t.out.data + 8), 0x000f);
		if (flags == FIXED) {
			ck_assert_uint_eq(t.out.len, 134);
			ck_assert_mem_eq(t.out.data + 10, zeroes, 124);
		} else {
			ck_assert_uint_eq(t.out.len, 10);
		}
		ck_assert_uint_eq(t.export.limits.size, DISK_SIZE);
		ck_assert_uint_eq(t.export.limits.flags, 0x000f);
		again();
	}
}
END_TEST

START_TEST(export_name_default)
{
	client_flags(&in, FIXED_NO_ZEROES);
	client_option(&in, NBD_OPT_EXPORT_NAME, NULL, 0);
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	ck_assert_uint_eq(t.export.name_len, 4);	/* "disk" */
	ck_assert_uint_eq(t.export.limits.flags, 0x056d);
}
END_TEST

START_TEST(export_name_cannot_be_refused)
{
	static const struct {
		const char *name;
		size_t len;
	} bad[] = {
		{ "nothing", 7 }, { "forbidden", 9 }, { "busy", 4 }, { "down", 4 }, { "broken", 6 },
		{ "di\0sk", 5 }, { "disk\0", 5 }, { "\xff", 1 }, { "\xc0\x80", 2 },
		{ "\xed\xa0\x80", 3 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		client_flags(&in, FIXED);
		client_option(&in, NBD_OPT_EXPORT_NAME, bad[i].name, bad[i].len);
		client_request(&in, NBD_CMD_READ, 0, 512);
		run(NBD_HANDSHAKE_CLOSE);
		ends();
		again();
	}
}
END_TEST

START_TEST(export_name_length)
{
	struct bytes name = { 0 };

	bytes_fill(&name, 'x', 4096);
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_EXPORT_NAME, name.data, name.len);
	run(NBD_HANDSHAKE_CLOSE);
	ck_assert_uint_eq(w.finds, 1);	/* legal, but there is none of this name */
	again();
	/* One byte more: closed at the header, nothing of the name is waited for. */
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_EXPORT_NAME, NULL, 0);
	nbd_put_be32(in.data + in.len - 4, 4097);
	run(NBD_HANDSHAKE_CLOSE);
	ck_assert_uint_eq(w.finds, 0);
	ends();
	bytes_free(&name);
}
END_TEST

/* ---- ABORT ---- */

START_TEST(abort_is_acknowledged)
{
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_ABORT, NULL, 0);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	run(NBD_HANDSHAKE_CLOSE);
	expect_reply(&t.out, &at, NBD_OPT_ABORT, NBD_REP_ACK);
	ends();
	ck_assert(t.aborted);
	ck_assert_uint_eq(t.consumed, in.len - 16);
}
END_TEST

START_TEST(abort_payload_is_ignored)
{
	struct bytes junk = { 0 };

	bytes_fill(&junk, 0xee, 100000);
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_ABORT, junk.data, junk.len);
	run(NBD_HANDSHAKE_CLOSE);
	expect_reply(&t.out, &at, NBD_OPT_ABORT, NBD_REP_ACK);
	ends();
	ck_assert(t.aborted);
	ck_assert_uint_eq(t.consumed, in.len);
	bytes_free(&junk);
}
END_TEST

/* ---- LIST ---- */

static void expect_server(const char *name, const char *description)
{
	struct reply r = expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_SERVER);
	size_t len = strlen(name);

	ck_assert_uint_eq(r.len, 4 + len + strlen(description));
	ck_assert_uint_eq(nbd_get_be32(r.data), len);
	ck_assert_mem_eq(r.data + 4, name, len);
	ck_assert_mem_eq(r.data + 4 + len, description, strlen(description));
}

START_TEST(list)
{
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	add_probe();
	run(NBD_HANDSHAKE_NEED_MORE);
	for (int i = 0; i < 2; i++) {
		expect_server("disk", "The root disk");
		expect_server("ro", "");
		expect_server("blocks", "");
		expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_ACK);
	}
	expect_probe();
	ends();
}
END_TEST

START_TEST(list_empty)
{
	w.listed = 0;
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_ACK);
	ends();
}
END_TEST

START_TEST(list_with_payload)
{
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_LIST, "x", 1);
	add_probe();
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_error(NBD_OPT_LIST, NBD_REP_ERR_INVALID, "LIST has 1 bytes");
	expect_probe();
	ends();
}
END_TEST

START_TEST(list_refused)
{
	static const struct {
		int err;
		uint32_t reply;
	} rows[] = {
		{ -EACCES, NBD_REP_ERR_POLICY },
		{ -ESHUTDOWN, NBD_REP_ERR_SHUTDOWN },
		{ -EIO, NBD_REP_ERR_PLATFORM },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		w.list_error = rows[i].err;
		w.list_error_at = (unsigned)i;
		client_flags(&in, FIXED);
		client_option(&in, NBD_OPT_LIST, NULL, 0);
		add_probe();
		run(NBD_HANDSHAKE_NEED_MORE);
		if (i > 0)
			expect_server("disk", "The root disk");
		if (i > 1)
			expect_server("ro", "");
		expect_error(NBD_OPT_LIST, rows[i].reply, "no list for you");
		expect_probe();
		ends();
		again();
	}
}
END_TEST

/* What may not be sent is left out: a name that is no UTF-8; a description is cut. */
START_TEST(list_sends_legal_strings)
{
	char text[5000];
	struct reply r;

	memset(text, 'd', sizeof(text));
	memcpy(text + 4094, "\xe2\x82\xac", 3);	/* a character across the limit */
	w.description = text;
	w.description_len = sizeof(text);
	w.list_invalid = true;
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	run(NBD_HANDSHAKE_NEED_MORE);
	r = expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_SERVER);
	ck_assert_uint_eq(r.len, 4 + 4 + 4094);
	expect_server("blocks", "");
	expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_ACK);
	ends();
}
END_TEST

/* A long list comes in portions; the output never grows with it. */
START_TEST(list_is_bounded)
{
	struct reply r;

	w.listed = 5000;
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	add_probe();
	run(NBD_HANDSHAKE_NEED_MORE);
	ck_assert_uint_gt(t.continues, 5);
	ck_assert_uint_lt(t.out_max, NBD_HANDSHAKE_OUT_HIGH + 100);
	for (unsigned i = 0; i < 5000; i++) {
		r = expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_SERVER);
		if (i == 4999)
			ck_assert_mem_eq(r.data + 4, "export-04999text", 16);
	}
	expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_ACK);
	expect_probe();
	ends();
}
END_TEST

/* A client that does not read its answers is not given more of them. */
START_TEST(full_output_stops)
{
	struct nbd_handshake h;
	struct nbd_out out;
	size_t consumed, len, total = 0;

	w.listed = 5000;
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	client_option(&in, NBD_OPT_ABORT, NULL, 0);
	nbd_out_init(&out);
	nbd_handshake_init(&h, &world_ops, &w);
	ck_assert_int_eq(nbd_handshake_feed(&h, in.data, in.len, &consumed, &out),
			 NBD_HANDSHAKE_CONTINUE);
	ck_assert_uint_eq(consumed, 20);
	total = consumed;
	for (len = out.len; total < in.len; len = out.len) {
		ck_assert_int_eq(nbd_handshake_feed(&h, in.data + total, in.len - total, &consumed,
						    &out), NBD_HANDSHAKE_CONTINUE);
		ck_assert_uint_eq(consumed, 0);
		ck_assert_uint_eq(out.len, len);
		nbd_out_consume(&out, 4000);	/* some of it has been sent */
		nbd_handshake_feed(&h, in.data + total, in.len - total, &consumed, &out);
		total += consumed;
	}
	ck_assert(nbd_handshake_aborted(&h));
	nbd_handshake_free(&h);
	nbd_out_free(&out);
}
END_TEST

/* Full output, but nothing left to say or to read: there is nothing to call again for. */
START_TEST(full_output_at_the_end)
{
	static const uint16_t items[] = { NBD_INFO_DESCRIPTION };
	char text[4096];

	memset(text, 'd', sizeof(text));
	w.description = text;
	w.description_len = sizeof(text);
	client_flags(&in, FIXED);
	for (int i = 0; i < 4; i++)
		client_info(&in, NBD_OPT_INFO, "disk", 1, items);
	run(NBD_HANDSHAKE_NEED_MORE);
	ck_assert_uint_ge(t.out_max, NBD_HANDSHAKE_OUT_HIGH);
	ck_assert_uint_eq(t.continues, 0);
}
END_TEST

/* ---- unknown options, caps ---- */

START_TEST(unsupported_options)
{
	static const uint32_t numbers[] = { 0, 4, 12, 77, 0x7fffffff, 0xffffffff };
	static const size_t sizes[] = { 0, 1, 4096, 70000 };
	struct bytes junk = { 0 };
	uint32_t number;

	bytes_fill(&junk, 'I', 70000);
	for (size_t s = 0; s < 4; s++) {
		client_flags(&in, FIXED);
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			client_option(&in, numbers[i], junk.data, sizes[s]);
		add_probe();
		run(NBD_HANDSHAKE_NEED_MORE);
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
			number = numbers[i];
			expect_error(number, NBD_REP_ERR_UNSUP, number == 77 ? "option 77" :
				     "is not supported");
		}
		expect_probe();
		ends();
		again();
	}
	bytes_free(&junk);
}
END_TEST

START_TEST(option_too_big)
{
	struct bytes junk = { 0 };

	bytes_fill(&junk, 0, NBD_HANDSHAKE_PAYLOAD_MAX + 1);
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_GO, junk.data, junk.len);
	client_option(&in, NBD_OPT_INFO, junk.data, junk.len);
	client_option(&in, NBD_OPT_GO, junk.data, junk.len - 1);	/* read, and found wrong */
	add_probe();
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_error(NBD_OPT_GO, NBD_REP_ERR_TOO_BIG, "GO has 65537 bytes of data, at most 65536");
	expect_error(NBD_OPT_INFO, NBD_REP_ERR_TOO_BIG, "INFO has 65537 bytes");
	expect_error(NBD_OPT_GO, NBD_REP_ERR_INVALID, "information items in 65530 bytes");
	expect_probe();
	ends();
	bytes_free(&junk);
}
END_TEST

/* Skipped bytes add up; what exceeds the cap closes at the header, before a byte of it is read. */
START_TEST(skipped_bytes_are_capped)
{
	static const uint32_t numbers[] = { NBD_OPT_ABORT, NBD_OPT_LIST, NBD_OPT_GO, 77 };
	struct bytes junk = { 0 };

	for (size_t i = 0; i < 4; i++) {
		for (uint64_t len = 33554433; len <= 0xffffffff; len += 1431655765) {
			client_flags(&in, FIXED);
			client_option(&in, numbers[i], NULL, 0);
			nbd_put_be32(in.data + in.len - 4, (uint32_t)len);
			run(NBD_HANDSHAKE_CLOSE);
			ck_assert_str_eq(t.reason, "too many bytes of option data");
			ends();
			again();
		}
	}
	bytes_fill(&junk, 'j', 1 << 20);
	client_flags(&in, FIXED);
	for (int i = 0; i < 32; i++)
		client_option(&in, 77, junk.data, junk.len);
	client_option(&in, 78, NULL, 0);
	client_option(&in, 79, "x", 1);
	run(NBD_HANDSHAKE_CLOSE);
	for (int i = 0; i < 32; i++)
		expect_error(77, NBD_REP_ERR_UNSUP, "77");
	expect_error(78, NBD_REP_ERR_UNSUP, "78");
	ends();
	bytes_free(&junk);
}
END_TEST

START_TEST(options_are_capped)
{
	client_flags(&in, FIXED);
	for (int i = 0; i < 65; i++)
		client_option(&in, NBD_OPT_PEEK_EXPORT, NULL, 0);
	run(NBD_HANDSHAKE_CLOSE);
	ck_assert_str_eq(t.reason, "too many options");
	for (int i = 0; i < 64; i++)
		expect_error(NBD_OPT_PEEK_EXPORT, NBD_REP_ERR_UNSUP, "4");
	ends();
}
END_TEST

/* Who has been shown 100 exports may ask about each, but a second LIST buys nothing. */
START_TEST(options_cap_knows_list)
{
	w.listed = 100;
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	client_option(&in, NBD_OPT_LIST, NULL, 0);
	for (int i = 0; i < 64 - 2 + 4 * 100; i++)
		add_probe();
	add_probe();
	run(NBD_HANDSHAKE_CLOSE);
	ck_assert_str_eq(t.reason, "too many options");
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 100; k++)
			expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_SERVER);
		expect_reply(&t.out, &at, NBD_OPT_LIST, NBD_REP_ACK);
	}
	for (int i = 0; i < 462; i++)
		expect_probe();
	ends();
}
END_TEST

/* An announced payload that does not come costs nothing; one that comes, what has come. */
START_TEST(payload_memory)
{
	static const uint8_t zeroes[NBD_HANDSHAKE_PAYLOAD_MAX - 20];
	struct nbd_handshake h;
	struct nbd_out out;
	size_t consumed;

	nbd_out_init(&out);
	nbd_handshake_init(&h, &world_ops, &w);
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_GO, NULL, 0);
	nbd_put_be32(in.data + in.len - 4, NBD_HANDSHAKE_PAYLOAD_MAX);
	ck_assert_int_eq(nbd_handshake_feed(&h, in.data, in.len, &consumed, &out),
			 NBD_HANDSHAKE_NEED_MORE);
	ck_assert_ptr_null(h.payload);
	ck_assert_int_eq(nbd_handshake_feed(&h, in.data, 20, &consumed, &out),
			 NBD_HANDSHAKE_NEED_MORE);
	ck_assert_uint_le(h.payload_cap, 128);
	ck_assert_uint_eq(out.cap, 0);
	/* It is given back with the answer. */
	ck_assert_int_eq(nbd_handshake_feed(&h, zeroes, sizeof(zeroes), &consumed, &out),
			 NBD_HANDSHAKE_NEED_MORE);
	ck_assert_uint_gt(out.len, 20);
	ck_assert_ptr_null(h.payload);
	/* The next one stays half there. */
	ck_assert_int_eq(nbd_handshake_feed(&h, in.data + 4, 16, &consumed, &out),
			 NBD_HANDSHAKE_NEED_MORE);
	ck_assert_int_eq(nbd_handshake_feed(&h, zeroes, 20, &consumed, &out),
			 NBD_HANDSHAKE_NEED_MORE);
	ck_assert_ptr_nonnull(h.payload);
	nbd_handshake_free(&h);		/* frees what is half there */
	nbd_out_free(&out);
	ck_assert_uint_le(sizeof(h), 256);
}
END_TEST

/* An export that was found, but that nobody came for, is put. */
START_TEST(found_but_not_taken)
{
	struct nbd_handshake h;
	struct nbd_out out;
	size_t consumed;

	nbd_out_init(&out);
	nbd_handshake_init(&h, &world_ops, &w);
	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_GO, "disk", 0, NULL);
	ck_assert_int_eq(nbd_handshake_feed(&h, in.data, in.len, &consumed, &out),
			 NBD_HANDSHAKE_ENTER_TRANSMISSION);
	ck_assert_uint_eq(w.seats, 1);
	nbd_handshake_free(&h);
	ck_assert_uint_eq(w.seats, 0);
	ck_assert_uint_eq(w.refs, 0);
	nbd_out_free(&out);
}
END_TEST

/* put is optional. */
START_TEST(without_put)
{
	struct nbd_exports_ops ops = world_ops;
	struct nbd_handshake h;
	struct nbd_out out;
	size_t consumed;
	void *export;

	ops.put = NULL;
	nbd_out_init(&out);
	nbd_handshake_init(&h, &ops, &w);
	client_flags(&in, FIXED);
	client_option(&in, NBD_OPT_EXPORT_NAME, "disk", 4);
	ck_assert_int_eq(nbd_handshake_feed(&h, in.data, in.len, &consumed, &out),
			 NBD_HANDSHAKE_ENTER_TRANSMISSION);
	export = h.found.export;
	nbd_handshake_free(&h);
	ck_assert_uint_eq(w.refs, 1);
	world_ops.put(&w, export, NBD_FIND_ATTACH);
	nbd_out_free(&out);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("rules");

	tcase_add_test(tc, greeting);
	tcase_add_loop_test(tc, unknown_client_flag_closes, 0, 32);
	tcase_add_test(tc, nothing_yet);
	tcase_add_test(tc, wrong_option_magic_closes);
	tcase_add_test(tc, plain_newstyle);
	tcase_add_test(tc, export_name);
	tcase_add_test(tc, export_name_default);
	tcase_add_test(tc, export_name_cannot_be_refused);
	tcase_add_test(tc, export_name_length);
	tcase_add_test(tc, abort_is_acknowledged);
	tcase_add_test(tc, abort_payload_is_ignored);
	tcase_add_test(tc, list);
	tcase_add_test(tc, list_empty);
	tcase_add_test(tc, list_with_payload);
	tcase_add_test(tc, list_refused);
	tcase_add_test(tc, list_sends_legal_strings);
	tcase_add_test(tc, list_is_bounded);
	tcase_add_test(tc, full_output_stops);
	tcase_add_test(tc, full_output_at_the_end);
	tcase_add_test(tc, unsupported_options);
	tcase_add_test(tc, option_too_big);
	tcase_add_test(tc, skipped_bytes_are_capped);
	tcase_add_test(tc, options_are_capped);
	tcase_add_test(tc, options_cap_knows_list);
	tcase_add_test(tc, payload_memory);
	tcase_add_test(tc, found_but_not_taken);
	tcase_add_test(tc, without_put);
	return run_case("nbd_handshake", tc);
}
