/*
 * INFO and GO, rule by rule.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/nbd_fixture.h"

static void expect_info_text(uint32_t option, uint16_t item, const char *text)
{
	struct reply r = expect_reply(&t.out, &at, option, NBD_REP_INFO);

	ck_assert_uint_eq(r.len, 2 + strlen(text));
	ck_assert_uint_eq(nbd_get_be16(r.data), item);
	ck_assert_mem_eq(r.data + 2, text, strlen(text));
}

static void expect_info_blocks(uint32_t option, uint32_t min, uint32_t preferred, uint32_t max)
{
	struct reply r = expect_reply(&t.out, &at, option, NBD_REP_INFO);

	ck_assert_uint_eq(r.len, 14);
	ck_assert_uint_eq(nbd_get_be16(r.data), NBD_INFO_BLOCK_SIZE);
	ck_assert_uint_eq(nbd_get_be32(r.data + 2), min);
	ck_assert_uint_eq(nbd_get_be32(r.data + 6), preferred);
	ck_assert_uint_eq(nbd_get_be32(r.data + 10), max);
}

START_TEST(info_then_go)
{
	client_flags(&in, FIXED_NO_ZEROES);
	client_info(&in, NBD_OPT_INFO, "disk", 0, NULL);
	client_info(&in, NBD_OPT_GO, "disk", 0, NULL);
	client_request(&in, NBD_CMD_READ, 0, 512);
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_info_export(NBD_OPT_INFO, 0x056d);
	expect_reply(&t.out, &at, NBD_OPT_INFO, NBD_REP_ACK);
	expect_info_export(NBD_OPT_GO, 0x056d);
	expect_reply(&t.out, &at, NBD_OPT_GO, NBD_REP_ACK);
	ends();
	ck_assert_uint_eq(t.consumed, in.len - 28);
	ck_assert_uint_eq(t.export.limits.size, DISK_SIZE);
}
END_TEST

/* GO sends no zeroes, whatever was agreed on. */
START_TEST(go_without_no_zeroes)
{
	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_GO, "disk", 0, NULL);
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_info_export(NBD_OPT_GO, 0x056d);
	expect_reply(&t.out, &at, NBD_OPT_GO, NBD_REP_ACK);
	ends();
}
END_TEST

/* All items, some twice, and some that nobody knows. */
START_TEST(info_items)
{
	static const uint16_t items[] = { 3, 77, 2, 1, 0, 1, 0xffff, 3, 32, 31, 2 };

	for (uint32_t option = NBD_OPT_INFO; option <= NBD_OPT_GO; option++) {
		client_flags(&in, FIXED);
		client_info(&in, option, "", 11, items);	/* the default export */
		run(option == NBD_OPT_GO ? NBD_HANDSHAKE_ENTER_TRANSMISSION :
		    NBD_HANDSHAKE_NEED_MORE);
		expect_info_export(option, 0x056d);
		expect_info_text(option, NBD_INFO_NAME, "disk");
		expect_info_text(option, NBD_INFO_DESCRIPTION, "The root disk");
		expect_info_blocks(option, 1, 4096, 32 << 20);
		expect_reply(&t.out, &at, option, NBD_REP_ACK);
		ends();
		again();
	}
}
END_TEST

START_TEST(info_block_sizes)
{
	static const uint16_t items[] = { NBD_INFO_BLOCK_SIZE };

	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_GO, "blocks", 1, items);
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_info_export(NBD_OPT_GO, 0x056d);
	expect_info_blocks(NBD_OPT_GO, 4096, 65536, 1 << 20);
	expect_reply(&t.out, &at, NBD_OPT_GO, NBD_REP_ACK);
	ends();
	ck_assert_uint_eq(t.export.limits.min_block, 4096);
	ck_assert_uint_eq(t.export.limits.max_payload, 1 << 20);
}
END_TEST

/* An array may want more at once than a payload can have. */
START_TEST(info_preferred_too_large)
{
	static const uint16_t items[] = { NBD_INFO_BLOCK_SIZE };

	w.preferred = 64 << 20;
	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_INFO, "blocks", 1, items);
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_info_export(NBD_OPT_INFO, 0x056d);
	expect_info_blocks(NBD_OPT_INFO, 4096, 1 << 20, 1 << 20);
	expect_reply(&t.out, &at, NBD_OPT_INFO, NBD_REP_ACK);
	ends();
}
END_TEST

/* No description: no item. Asked for nothing: nothing but EXPORT. */
START_TEST(info_omits)
{
	static const uint16_t items[] = { NBD_INFO_DESCRIPTION, NBD_INFO_NAME };

	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_INFO, "ro", 2, items);
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_info_export(NBD_OPT_INFO, 0x000f);
	expect_info_text(NBD_OPT_INFO, NBD_INFO_NAME, "ro");
	expect_reply(&t.out, &at, NBD_OPT_INFO, NBD_REP_ACK);
	ends();
}
END_TEST

/* An INFO or GO payload that is wrong: INVALID with a reason, and the next option is understood. */
START_TEST(info_malformed)
{
	static const struct {
		const char *data;
		size_t len;
		const char *reason;
	} rows[] = {
		{ "", 0, "has 0 bytes" },
		{ "\0", 1, "has 1 bytes" },
		{ "\0\0\0\0\0", 5, "at least 6" },
		{ "\0\0\0\4disk", 8, "a name of 4 bytes in 8 bytes" },		/* no count */
		{ "\0\0\0\4disk\0", 9, "a name of 4 bytes" },			/* half of it */
		{ "\0\0\0\5disk\0\0", 10, "a name of 5 bytes" },
		{ "\377\377\377\377disk\0\0", 10, "a name of 4294967295 bytes" },
		{ "\377\377\377\372disk\0\0", 10, "a name of 4294967290 bytes" },
		{ "\200\0\0\4disk\0\0", 10, "a name of 2147483652 bytes" },
		{ "\0\0\0\4disk\0\0x", 11, "asks for 0 information items in 1 bytes" },
		{ "\0\0\0\4disk\0\1", 10, "asks for 1 information items in 0 bytes" },
		{ "\0\0\0\4disk\0\1\0", 11, "expected 2" },
		{ "\0\0\0\4disk\0\1\0\3\0", 13, "expected 2" },
		{ "\0\0\0\4disk\0\1\0\3\0\2", 14, "expected 2" },
		{ "\0\0\0\4disk\377\377\0\3", 12, "asks for 65535 information items" },
		{ "\0\0\0\4di\0k\0\0", 10, "UTF-8" },
		{ "\0\0\0\1\377\0\0", 7, "UTF-8" },
		{ "\0\0\0\2\303(\0\0", 8, "UTF-8" },
	};

	for (uint32_t option = NBD_OPT_INFO; option <= NBD_OPT_GO; option++) {
		client_flags(&in, FIXED);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			client_option(&in, option, rows[i].data, rows[i].len);
			add_probe();
		}
		run(NBD_HANDSHAKE_NEED_MORE);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			expect_error(option, NBD_REP_ERR_INVALID, rows[i].reason);
			expect_probe();
		}
		ends();
		ck_assert_uint_eq(w.finds, sizeof(rows) / sizeof(rows[0]));
		again();
	}
}
END_TEST

START_TEST(info_name_length)
{
	char name[4098];

	memset(name, 'n', sizeof(name));
	name[4097] = '\0';
	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_GO, name, 0, NULL);		/* 4097 */
	client_info(&in, NBD_OPT_GO, name + 1, 0, NULL);	/* 4096 */
	add_probe();
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_error(NBD_OPT_GO, NBD_REP_ERR_INVALID, "at most 4096 bytes");
	expect_error(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, "export 'nnnn");
	expect_probe();
	ends();
}
END_TEST

/* Each refusal has its code and a text, and the client may try another export. */
START_TEST(go_refused_then_retried)
{
	static const struct {
		const char *name;
		uint32_t reply;
		const char *text;	/* if the callback gives none */
	} rows[] = {
		{ "nothing", NBD_REP_ERR_UNKNOWN, "no export of this name" },
		{ "forbidden", NBD_REP_ERR_POLICY, "not permitted" },
		{ "root", NBD_REP_ERR_POLICY, "not permitted" },
		{ "busy", NBD_REP_ERR_POLICY, "in use" },
		{ "down", NBD_REP_ERR_SHUTDOWN, "shutting down" },
		{ "broken", NBD_REP_ERR_PLATFORM, "cannot be used" },
	};
	const size_t n = sizeof(rows) / sizeof(rows[0]);
	const char *part;

	for (int own = 0; own < 2; own++) {
		w.text = own ? NULL : "";
		client_flags(&in, FIXED);
		for (size_t i = 0; i < n; i++) {
			client_info(&in, NBD_OPT_INFO, rows[i].name, 0, NULL);
			client_info(&in, NBD_OPT_GO, rows[i].name, 0, NULL);
		}
		client_info(&in, NBD_OPT_GO, "ro", 0, NULL);
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		for (size_t i = 0; i < n; i++) {
			part = own ? rows[i].name : rows[i].text;
			expect_error(NBD_OPT_INFO, rows[i].reply, part);
			expect_error(NBD_OPT_GO, rows[i].reply, part);
		}
		expect_info_export(NBD_OPT_GO, 0x000f);
		expect_reply(&t.out, &at, NBD_OPT_GO, NBD_REP_ACK);
		ends();
		again();
	}
}
END_TEST

/* A text is bounded and legal, whatever the callback wrote: expect_reply checks that. */
START_TEST(error_texts_are_legal)
{
	char text[2000];

	memset(text, 'x', sizeof(text));
	text[1999] = '\0';
	memcpy(text, "a\tb\n\x1b[31m\x7f\xff\xc3", 12);
	w.text = text;
	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_GO, "nothing", 0, NULL);
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_error(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, "a?b??[31m???xxxx");
	ends();
	again();
	for (size_t i = 0; i + 4 < sizeof(text); i += 3)
		memcpy(text + i, "\xe2\x82\xac", 3);
	for (size_t shift = 0; shift < 3; shift++) {
		w.text = text + 3 - shift;	/* 1 and 2: begins in mid-character as well */
		client_flags(&in, FIXED);
		client_info(&in, NBD_OPT_GO, "nothing", 0, NULL);
		run(NBD_HANDSHAKE_NEED_MORE);
		expect_error(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, "\xe2\x82\xac");
		ends();
		again();
	}
}
END_TEST

/* INFO only looks; GO takes the seat. */
START_TEST(info_takes_no_seat)
{
	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_INFO, "disk", 0, NULL);
	client_info(&in, NBD_OPT_INFO, "", 0, NULL);
	client_info(&in, NBD_OPT_GO, "nothing", 0, NULL);
	run(NBD_HANDSHAKE_NEED_MORE);
	ck_assert_uint_eq(w.finds, 3);
	ck_assert_uint_eq(w.attaches, 1);
}
END_TEST

/* The largest request for items that fits is served. */
START_TEST(info_many_items)
{
	uint16_t *items = malloc(32765 * sizeof(*items));

	for (size_t i = 0; i < 32765; i++)
		items[i] = (uint16_t)(i + 3);
	client_flags(&in, FIXED);
	client_info(&in, NBD_OPT_INFO, "", 32765, items);	/* 65536 bytes */
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_info_export(NBD_OPT_INFO, 0x056d);
	expect_info_blocks(NBD_OPT_INFO, 1, 4096, 32 << 20);
	expect_reply(&t.out, &at, NBD_OPT_INFO, NBD_REP_ACK);
	ends();
	free(items);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("rules");

	tcase_add_test(tc, info_then_go);
	tcase_add_test(tc, go_without_no_zeroes);
	tcase_add_test(tc, info_items);
	tcase_add_test(tc, info_block_sizes);
	tcase_add_test(tc, info_preferred_too_large);
	tcase_add_test(tc, info_omits);
	tcase_add_test(tc, info_malformed);
	tcase_add_test(tc, info_name_length);
	tcase_add_test(tc, go_refused_then_retried);
	tcase_add_test(tc, error_texts_are_legal);
	tcase_add_test(tc, info_takes_no_seat);
	tcase_add_test(tc, info_many_items);
	return run_case("nbd_info", tc);
}
