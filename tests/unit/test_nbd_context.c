/*
 * What the handshake can agree on beside the export: structured replies, extended headers,
 * metadata contexts and TLS, rule by rule.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/nbd_fixture.h"

#define LIST	NBD_OPT_LIST_META_CONTEXT
#define SET	NBD_OPT_SET_META_CONTEXT
#define STRUCTURED	NBD_OPT_STRUCTURED_REPLY
#define EXTENDED	NBD_OPT_EXTENDED_HEADERS

#define DISK_FLAGS	0x056d
#define RO_FLAGS	0x000f
#define DF		0x0080
#define STAT_PAYLOAD	0x1000

/* LIST or SET; queries ends with NULL. */
static void add_context(uint32_t option, const char *name, const char *const *queries)
{
	struct bytes data = { 0 };
	uint32_t n = 0;

	while (queries[n])
		n++;
	bytes_be32(&data, (uint32_t)strlen(name));
	bytes_add(&data, name, strlen(name));
	bytes_be32(&data, n);
	for (uint32_t i = 0; i < n; i++) {
		bytes_be32(&data, (uint32_t)strlen(queries[i]));
		bytes_add(&data, queries[i], strlen(queries[i]));
	}
	client_option(&in, option, data.data, data.len);
	bytes_free(&data);
}

#define QUERIES(...) ((const char *const []){ __VA_ARGS__ __VA_OPT__(,) NULL })

static void begin(uint32_t mode)
{
	client_flags(&in, FIXED_NO_ZEROES);
	if (mode)
		client_option(&in, mode, NULL, 0);
}

static void expect_ack(uint32_t option)
{
	expect_reply(&t.out, &at, option, NBD_REP_ACK);
}

static void expect_begin(uint32_t mode)
{
	if (mode)
		expect_ack(mode);
}

static void expect_context(uint32_t option, uint32_t id)
{
	struct reply r = expect_reply(&t.out, &at, option, NBD_REP_META_CONTEXT);

	ck_assert_uint_eq(r.len, 4 + 15);
	ck_assert_uint_eq(nbd_get_be32(r.data), id);
	ck_assert_mem_eq(r.data + 4, "base:allocation", 15);
}

/* GO to an export, and what a BLOCK_STATUS to it comes to. */
static void add_go(const char *name)
{
	client_info(&in, NBD_OPT_GO, name, 0, NULL);
}

static void check_status(uint32_t mode, bool allowed)
{
	enum nbd_mode m = mode == EXTENDED ? NBD_MODE_EXTENDED : mode ? NBD_MODE_STRUCTURED
								      : NBD_MODE_SIMPLE;
	uint8_t header[NBD_EXTENDED_REQUEST_SIZE] = { 0 };
	struct nbd_request rq;

	ck_assert_uint_eq(t.export.limits.mode, m);
	ck_assert_uint_eq(t.export.limits.contexts, allowed ? NBD_CONTEXT_ALLOCATION : 0);
	nbd_put_be32(header, m == NBD_MODE_EXTENDED ? 0x21e41c71 : 0x25609513);
	nbd_put_be16(header + 6, NBD_CMD_BLOCK_STATUS);
	nbd_put_be32(header + (m == NBD_MODE_EXTENDED ? 28 : 24), 4096);
	ck_assert_int_eq(nbd_decode_request(header, &t.export.limits, &rq),
			 allowed ? NBD_REQUEST_OK : NBD_REQUEST_REPLY);
	ck_assert_uint_eq(rq.error, allowed ? 0 : NBD_EINVAL);
}

static void expect_go(uint16_t flags, uint32_t mode, bool allowed)
{
	expect_info_export(NBD_OPT_GO, flags);
	expect_ack(NBD_OPT_GO);
	ends();
	check_status(mode, allowed);
}

static const uint32_t modes[] = { STRUCTURED, EXTENDED };

/* ---- modes ---- */

/*
 * The flags that each mode adds, in each reply that shows them, and for requests. A payload of
 * BLOCK_STATUS names contexts, so there have to be some.
 */
START_TEST(modes_add_flags)
{
	static const struct {
		uint32_t mode;
		bool context;
		uint16_t more, with_context;
	} rows[] = {
		{ 0, false, 0, 0 },
		{ STRUCTURED, false, DF, DF },
		{ STRUCTURED, true, DF, DF },
		{ EXTENDED, false, DF, DF },
		{ EXTENDED, true, DF, DF | STAT_PAYLOAD },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(rows[i].mode);
		if (rows[i].context)
			add_context(SET, "disk", QUERIES("base:allocation"));
		client_info(&in, NBD_OPT_INFO, "", 0, NULL);
		client_info(&in, NBD_OPT_INFO, "ro", 0, NULL);
		add_go("disk");
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		expect_begin(rows[i].mode);
		if (rows[i].context) {
			expect_context(SET, 1);
			expect_ack(SET);
		}
		expect_info_export(NBD_OPT_INFO, DISK_FLAGS | rows[i].with_context);
		expect_ack(NBD_OPT_INFO);
		expect_info_export(NBD_OPT_INFO, RO_FLAGS | rows[i].more);
		expect_ack(NBD_OPT_INFO);
		expect_go(DISK_FLAGS | rows[i].with_context, rows[i].mode, rows[i].context);
		ck_assert_uint_eq(t.export.limits.flags, DISK_FLAGS | rows[i].with_context);
		again();
	}
}
END_TEST

START_TEST(export_name_adds_flags)
{
	begin(STRUCTURED);
	add_context(SET, "disk", QUERIES("base:allocation"));
	client_option(&in, NBD_OPT_EXPORT_NAME, "disk", 4);
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_begin(STRUCTURED);
	expect_context(SET, 1);
	expect_ack(SET);
	ck_assert_uint_eq(t.out.len - at, 10);
	ck_assert_uint_eq(nbd_get_be64(t.out.data + at), DISK_SIZE);
	ck_assert_uint_eq(nbd_get_be16(t.out.data + at + 8), DISK_FLAGS | DF);
	ck_assert_uint_eq(t.export.limits.flags, DISK_FLAGS | DF);
	check_status(STRUCTURED, true);
}
END_TEST

START_TEST(export_name_with_extended_headers_closes)
{
	for (int structured = 0; structured < 2; structured++) {
		begin(structured ? STRUCTURED : EXTENDED);
		if (structured)
			client_option(&in, EXTENDED, NULL, 0);
		client_option(&in, NBD_OPT_EXPORT_NAME, "disk", 4);
		add_probe();
		run(NBD_HANDSHAKE_CLOSE);
		expect_begin(structured ? STRUCTURED : EXTENDED);
		if (structured)
			expect_ack(EXTENDED);
		ends();
		ck_assert_uint_eq(w.finds, 0);
		ck_assert_ptr_nonnull(strstr(t.reason, "EXPORT_NAME"));
		again();
	}
}
END_TEST

/* Each once; extended headers after structured replies, but not before. */
START_TEST(modes_twice)
{
	begin(STRUCTURED);
	client_option(&in, STRUCTURED, NULL, 0);
	client_option(&in, EXTENDED, NULL, 0);
	client_option(&in, EXTENDED, NULL, 0);
	client_option(&in, STRUCTURED, NULL, 0);
	add_go("disk");
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_ack(STRUCTURED);
	expect_error(STRUCTURED, NBD_REP_ERR_INVALID, "STRUCTURED_REPLY is agreed on already");
	expect_ack(EXTENDED);
	expect_error(EXTENDED, NBD_REP_ERR_INVALID, "EXTENDED_HEADERS is agreed on already");
	expect_error(STRUCTURED, NBD_REP_ERR_EXT_HEADER_REQD, "extended headers are agreed on");
	expect_go(DISK_FLAGS | DF, EXTENDED, false);
}
END_TEST

/* Neither has data; one that has is refused, and nothing is agreed on. */
START_TEST(modes_with_payload)
{
	static const char junk[70000];

	for (size_t i = 0; i < 2; i++) {
		begin(0);
		client_option(&in, modes[i], "x", 1);
		client_option(&in, modes[i], junk, sizeof(junk));
		add_go("disk");
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		expect_error(modes[i], NBD_REP_ERR_INVALID, "has 1 bytes of data, at most 0");
		expect_error(modes[i], NBD_REP_ERR_INVALID, "has 70000 bytes");
		expect_go(DISK_FLAGS, 0, false);
		again();
	}
}
END_TEST

/* ---- LIST ---- */

/* With or without structured replies: what is there, without ids. */
START_TEST(list)
{
	static const struct {
		const char *queries[5];
		bool found;
	} rows[] = {
		{ { NULL }, true },
		{ { "base:" }, true },
		{ { "base:allocation" }, true },
		{ { "base:allocation", "base:", "base:allocation" }, true },
		{ { "qemu:", "base:" }, true },
		{ { "base" }, false },
		{ { "" }, false },
		{ { ":" }, false },
		{ { "base:alloc" }, false },
		{ { "base:allocation " }, false },
		{ { "base:allocations" }, false },
		{ { "Base:allocation" }, false },
		{ { "qemu:allocation-depth", "qemu:dirty-bitmap:", "x-", "x:" }, false },
		{ { "qemu:" }, false },
		{ { "b\xc3\xa4se:" }, false },
	};
	static const uint32_t all[] = { 0, STRUCTURED, EXTENDED };
	enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

	for (size_t m = 0; m < 3; m++) {
		begin(all[m]);
		for (size_t i = 0; i < ROWS; i++)
			add_context(LIST, i % 2 ? "" : "ro", rows[i].queries);
		add_go("disk");
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		expect_begin(all[m]);
		for (size_t i = 0; i < ROWS; i++) {
			if (rows[i].found)
				expect_context(LIST, 0);
			expect_ack(LIST);
		}
		/* It selects nothing. */
		expect_go(DISK_FLAGS | (m ? DF : 0), all[m], false);
		again();
	}
}
END_TEST

/* ---- SET ---- */

START_TEST(set_needs_structured_replies)
{
	begin(0);
	add_context(SET, "disk", QUERIES("base:allocation"));
	client_option(&in, SET, "junk", 4);	/* the order is wrong, whatever the data */
	client_option(&in, STRUCTURED, NULL, 0);
	add_go("disk");
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_error(SET, NBD_REP_ERR_INVALID, "SET_META_CONTEXT needs STRUCTURED_REPLY");
	expect_error(SET, NBD_REP_ERR_INVALID, "SET_META_CONTEXT needs STRUCTURED_REPLY");
	expect_ack(STRUCTURED);
	expect_go(DISK_FLAGS | DF, STRUCTURED, false);
}
END_TEST

/* A SET, in either mode, and whether it selects the one that there is. No wildcards here. */
START_TEST(set)
{
	static const struct {
		const char *queries[5];
		bool found;
	} rows[] = {
		{ { "base:allocation" }, true },
		{ { "base:allocation", "base:allocation" }, true },
		{ { "qemu:allocation-depth", "base:allocation", "x:y" }, true },
		{ { "base:", "base:allocation" }, true },
		{ { NULL }, false },
		{ { "base:" }, false },
		{ { "base" }, false },
		{ { "" }, false },
		{ { "qemu:allocation-depth" }, false },
		{ { "base:allocation2" }, false },
	};

	for (size_t m = 0; m < 2; m++) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			begin(modes[m]);
			add_context(SET, "disk", rows[i].queries);
			add_go("disk");
			run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
			expect_begin(modes[m]);
			if (rows[i].found)
				expect_context(SET, NBD_ID_ALLOCATION);
			expect_ack(SET);
			expect_go(DISK_FLAGS | DF | (m && rows[i].found ? STAT_PAYLOAD : 0),
				  modes[m], rows[i].found);
			again();
		}
	}
}
END_TEST

/* It holds for one export, whatever that is called: "" is disk. INFO and LIST change nothing. */
START_TEST(set_is_for_one_export)
{
	static const struct {
		const char *set, *go;
		uint16_t flags;
		bool allowed;
	} rows[] = {
		{ "disk", "disk", DISK_FLAGS, true }, { "", "disk", DISK_FLAGS, true },
		{ "disk", "", DISK_FLAGS, true }, { "", "", DISK_FLAGS, true },
		{ "ro", "ro", RO_FLAGS, true }, { "disk", "ro", RO_FLAGS, false },
		{ "ro", "disk", DISK_FLAGS, false }, { "ro", "", DISK_FLAGS, false },
		{ "blocks", "disk", DISK_FLAGS, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(STRUCTURED);
		add_context(SET, rows[i].set, QUERIES("base:allocation"));
		add_context(LIST, "ro", QUERIES("qemu:"));
		add_probe();
		client_info(&in, NBD_OPT_GO, "nothing", 0, NULL);
		add_go(rows[i].go);
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		expect_begin(STRUCTURED);
		expect_context(SET, 1);
		expect_ack(SET);
		expect_ack(LIST);
		expect_info_export(NBD_OPT_INFO, RO_FLAGS | DF);
		expect_ack(NBD_OPT_INFO);
		expect_error(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, "nothing");
		expect_go(rows[i].flags | DF, STRUCTURED, rows[i].allowed);
		again();
	}
}
END_TEST

/* Agreed on after it, extended headers leave the selection as it is. */
START_TEST(set_before_extended_headers)
{
	begin(STRUCTURED);
	add_context(SET, "", QUERIES("base:allocation"));
	client_option(&in, EXTENDED, NULL, 0);
	add_go("disk");
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_begin(STRUCTURED);
	expect_context(SET, 1);
	expect_ack(SET);
	expect_ack(EXTENDED);
	expect_go(DISK_FLAGS | DF | STAT_PAYLOAD, EXTENDED, true);
}
END_TEST

/* ---- SET again ---- */

/* Each of these takes the place of a selection, though the last ones fail. */
START_TEST(set_replaces)
{
	static const char junk[NBD_HANDSHAKE_PAYLOAD_MAX + 1];
	struct reply r;

	for (int how = 0; how < 8; how++) {
		begin(STRUCTURED);
		add_context(SET, "disk", QUERIES("base:allocation"));
		switch (how) {
		case 0:
			add_context(SET, "disk", QUERIES());
			break;
		case 1:
			add_context(SET, "", QUERIES("base:"));
			break;
		case 2:
			add_context(SET, "ro", QUERIES("base:allocation"));
			break;
		case 3:
			add_context(SET, "nothing", QUERIES("base:allocation"));
			break;
		case 4:
			add_context(SET, "forbidden", QUERIES("base:allocation"));
			break;
		case 5:
			client_option(&in, SET, "\0\0\0\4disk\0\0\0\1", 12);
			break;
		case 6:
			client_option(&in, SET, NULL, 0);
			break;
		case 7:	/* is not even looked at */
			client_option(&in, SET, junk, sizeof(junk));
			break;
		}
		add_go("disk");
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		expect_begin(STRUCTURED);
		expect_context(SET, 1);
		expect_ack(SET);
		if (how == 2)
			expect_context(SET, 1);
		r = read_reply(&t.out, &at);
		ck_assert_uint_eq(r.option, SET);
		ck_assert_uint_eq(r.type, how < 3 ? NBD_REP_ACK : how == 3 ? NBD_REP_ERR_UNKNOWN :
				  how == 4 ? NBD_REP_ERR_POLICY : how == 7 ? NBD_REP_ERR_TOO_BIG :
				  NBD_REP_ERR_INVALID);
		expect_go(DISK_FLAGS | DF, STRUCTURED, false);
		again();
	}
	/* And back again. */
	begin(STRUCTURED);
	add_context(SET, "nothing", QUERIES("base:allocation"));
	add_context(SET, "ro", QUERIES());
	add_context(SET, "", QUERIES("base:allocation"));
	add_go("disk");
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	expect_begin(STRUCTURED);
	expect_error(SET, NBD_REP_ERR_UNKNOWN, "nothing");
	expect_ack(SET);
	expect_context(SET, 1);
	expect_ack(SET);
	expect_go(DISK_FLAGS | DF, STRUCTURED, true);
}
END_TEST

/* ---- data that are wrong ---- */

static const struct {
	const char *data;
	size_t len;
	const char *reason;
} malformed[] = {
	{ "", 0, "end before the number of queries" },
	{ "\0\0\0", 3, "end before the number of queries" },
	{ "\0\0\0\0", 4, "end before the number of queries" },
	{ "\0\0\0\0\0\0\0", 7, "end before the number of queries" },
	{ "\0\0\0\4disk", 8, "end before the number of queries" },
	{ "\0\0\0\4disk\0\0\0", 11, "end before the number of queries" },
	{ "\0\0\0\5disk", 8, "end before the number of queries" },
	{ "\377\377\377\377disk\0\0\0\0", 12, "end before the number of queries" },
	{ "\377\377\377\374disk\0\0\0\0", 12, "end before the number of queries" },
	{ "\200\0\0\4disk\0\0\0\0", 12, "end before the number of queries" },
	{ "\0\0\0\4disk\0\0\0\0x", 13, "data after the last query" },
	{ "\0\0\0\4disk\0\0\0\0\0\0\0\5base:", 21, "data after the last query" },
	{ "\0\0\0\4disk\0\0\0\1", 12, "fewer queries than announced" },
	{ "\0\0\0\4disk\377\377\377\377", 12, "fewer queries than announced" },
	{ "\0\0\0\4disk\0\0\0\1\0\0\0", 15, "fewer queries than announced" },
	{ "\0\0\0\4disk\0\0\0\1\0\0\0\1", 16, "fewer queries than announced" },
	{ "\0\0\0\4disk\0\0\0\1\0\0\0\6base:", 21, "fewer queries than announced" },
	{ "\0\0\0\4disk\0\0\0\2\0\0\0\5base:", 21, "fewer queries than announced" },
	{ "\0\0\0\4disk\0\0\0\1\377\377\377\377base:", 21, "fewer queries than announced" },
	{ "\0\0\0\4disk\0\0\0\1\377\377\377\373base:", 21, "fewer queries than announced" },
	{ "\0\0\0\4disk\0\0\0\1\0\0\0\4base:", 21, "data after the last query" },
	{ "\0\0\0\4di\0k\0\0\0\0", 12, "an export name that is not UTF-8" },
	{ "\0\0\0\2\303(\0\0\0\0", 10, "an export name that is not UTF-8" },
	{ "\0\0\0\4disk\0\0\0\1\0\0\0\5ba\0e:", 21, "a query that is not UTF-8" },
	{ "\0\0\0\4disk\0\0\0\1\0\0\0\5bas\377:", 21, "a query that is not UTF-8" },
	{ "\0\0\0\4disk\0\0\0\2\0\0\0\5base:\0\0\0\1\300", 26, "a query that is not UTF-8" },
};

START_TEST(wrong_data)
{
	enum { ROWS = sizeof(malformed) / sizeof(malformed[0]) };
	uint32_t option = _i ? SET : LIST;

	begin(STRUCTURED);
	for (size_t i = 0; i < ROWS; i++) {
		client_option(&in, option, malformed[i].data, malformed[i].len);
		add_probe();
	}
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_begin(STRUCTURED);
	for (size_t i = 0; i < ROWS; i++) {
		expect_error(option, NBD_REP_ERR_INVALID, malformed[i].reason);
		expect_info_export(NBD_OPT_INFO, RO_FLAGS | DF);
		expect_ack(NBD_OPT_INFO);
	}
	ends();
	ck_assert_uint_eq(w.finds, ROWS);	/* the probes */
}
END_TEST

/* Names and queries up to 4096 bytes, as many as fit in 64 KiB; one byte more of each is refused. */
START_TEST(limits)
{
	static char name[4098];
	struct bytes data = { 0 };
	uint32_t option = _i ? SET : LIST;

	memset(name, 'n', 4097);
	begin(EXTENDED);
	add_context(option, name, QUERIES());			/* 4097 */
	add_context(option, name + 1, QUERIES());		/* legal, but there is none */
	add_context(option, "disk", QUERIES(name));
	add_context(option, "disk", QUERIES(name + 1));
	bytes_be32(&data, 0);
	bytes_be32(&data, (NBD_HANDSHAKE_PAYLOAD_MAX - 8) / 4);
	bytes_fill(&data, 0, NBD_HANDSHAKE_PAYLOAD_MAX - 8);	/* empty queries */
	client_option(&in, option, data.data, data.len);
	bytes_fill(&data, 0, 1);
	client_option(&in, option, data.data, data.len);
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_begin(EXTENDED);
	expect_error(option, NBD_REP_ERR_INVALID, "an export name");
	expect_error(option, NBD_REP_ERR_UNKNOWN, "nnnn");
	expect_error(option, NBD_REP_ERR_INVALID, "a query");
	expect_ack(option);
	expect_ack(option);
	expect_error(option, NBD_REP_ERR_TOO_BIG, "65537 bytes");
	ends();
	bytes_free(&data);
}
END_TEST

START_TEST(refused_exports)
{
	static const struct {
		const char *name;
		uint32_t reply;
	} rows[] = {
		{ "nothing", NBD_REP_ERR_UNKNOWN }, { "forbidden", NBD_REP_ERR_POLICY },
		{ "busy", NBD_REP_ERR_POLICY }, { "down", NBD_REP_ERR_SHUTDOWN },
		{ "broken", NBD_REP_ERR_PLATFORM },
	};

	for (size_t i = 0; i < 5; i++) {
		uint32_t option = i % 2 ? SET : LIST;

		begin(STRUCTURED);
		add_context(option, rows[i].name, QUERIES("base:allocation"));
		run(NBD_HANDSHAKE_NEED_MORE);
		expect_begin(STRUCTURED);
		expect_error(option, rows[i].reply, rows[i].name);
		ends();
		ck_assert_uint_eq(w.attaches, 0);	/* it takes no seat */
		again();
	}
}
END_TEST

/* ---- TLS ---- */

/* What comes after it begins anew: modes and selections are gone, and may be agreed on again. */
START_TEST(starttls_forgets)
{
	for (int again_too = 0; again_too < 2; again_too++) {
		w.tls = NBD_TLS_ALLOW;
		begin(STRUCTURED);
		client_option(&in, EXTENDED, NULL, 0);
		add_context(SET, "disk", QUERIES("base:allocation"));
		client_option(&in, NBD_OPT_STARTTLS, NULL, 0);
		if (again_too) {
			client_option(&in, STRUCTURED, NULL, 0);
			add_context(SET, "", QUERIES("base:allocation"));
		}
		client_option(&in, NBD_OPT_STARTTLS, NULL, 0);
		add_go("disk");
		run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
		ck_assert(t.secured);
		expect_begin(STRUCTURED);
		expect_ack(EXTENDED);
		expect_context(SET, 1);
		expect_ack(SET);
		expect_ack(NBD_OPT_STARTTLS);
		if (again_too) {
			expect_ack(STRUCTURED);
			expect_context(SET, 1);
			expect_ack(SET);
		}
		expect_error(NBD_OPT_STARTTLS, NBD_REP_ERR_INVALID, "TLS is in use already");
		expect_go(again_too ? DISK_FLAGS | DF : DISK_FLAGS, again_too ? STRUCTURED : 0,
			  again_too);
		again();
	}
}
END_TEST

START_TEST(starttls_refused)
{
	begin(0);
	client_option(&in, NBD_OPT_STARTTLS, NULL, 0);
	add_probe();
	run(NBD_HANDSHAKE_NEED_MORE);
	expect_error(NBD_OPT_STARTTLS, NBD_REP_ERR_POLICY, "TLS is not set up");
	expect_probe();
	ends();
	again();
	w.tls = NBD_TLS_ALLOW;
	begin(0);
	client_option(&in, NBD_OPT_STARTTLS, "x", 1);
	add_probe();
	run(NBD_HANDSHAKE_NEED_MORE);
	ck_assert(!t.secured);
	expect_error(NBD_OPT_STARTTLS, NBD_REP_ERR_INVALID, "STARTTLS has 1 bytes");
	expect_probe();
	ends();
}
END_TEST

/* Where TLS is required, nothing else comes before it but ABORT. */
START_TEST(tls_required)
{
	static const uint32_t refused[] = { 0, 3, 4, 6, 7, 8, 9, 10, 11, 77 };
	enum { N = sizeof(refused) / sizeof(refused[0]) };

	w.tls = NBD_TLS_REQUIRE;
	begin(0);
	for (int i = 0; i < N; i++)
		client_option(&in, refused[i], "\0\0\0\0\0\0", 6);
	client_option(&in, NBD_OPT_STARTTLS, NULL, 0);
	add_go("disk");
	run(NBD_HANDSHAKE_ENTER_TRANSMISSION);
	for (int i = 0; i < N; i++)
		expect_error(refused[i], NBD_REP_ERR_TLS_REQD, "STARTTLS must come before");
	ck_assert_uint_eq(w.finds, 1);
	expect_ack(NBD_OPT_STARTTLS);
	expect_go(DISK_FLAGS, 0, false);
	again();
	w.tls = NBD_TLS_REQUIRE;
	begin(0);
	client_option(&in, NBD_OPT_EXPORT_NAME, "disk", 4);
	run(NBD_HANDSHAKE_CLOSE);
	ends();
	ck_assert_uint_eq(w.finds, 0);
	again();
	w.tls = NBD_TLS_REQUIRE;
	begin(0);
	client_option(&in, NBD_OPT_ABORT, NULL, 0);
	run(NBD_HANDSHAKE_CLOSE);
	expect_ack(NBD_OPT_ABORT);
	ends();
	ck_assert(t.aborted);
}
END_TEST

/* Who did not agree on fixed newstyle understands no refusal. */
START_TEST(tls_required_of_plain_newstyle)
{
	for (uint32_t option = 0; option < 12; option++) {
		w.tls = NBD_TLS_REQUIRE;
		client_flags(&in, NBD_FLAG_C_NO_ZEROES);
		client_option(&in, option, NULL, 0);
		run(NBD_HANDSHAKE_CLOSE);
		ends();
		again();
	}
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("rules");

	tcase_add_test(tc, modes_add_flags);
	tcase_add_test(tc, export_name_adds_flags);
	tcase_add_test(tc, export_name_with_extended_headers_closes);
	tcase_add_test(tc, modes_twice);
	tcase_add_test(tc, modes_with_payload);
	tcase_add_test(tc, list);
	tcase_add_test(tc, set_needs_structured_replies);
	tcase_add_test(tc, set);
	tcase_add_test(tc, set_is_for_one_export);
	tcase_add_test(tc, set_before_extended_headers);
	tcase_add_test(tc, set_replaces);
	tcase_add_loop_test(tc, wrong_data, 0, 2);
	tcase_add_loop_test(tc, limits, 0, 2);
	tcase_add_test(tc, refused_exports);
	tcase_add_test(tc, starttls_forgets);
	tcase_add_test(tc, starttls_refused);
	tcase_add_test(tc, tls_required);
	tcase_add_test(tc, tls_required_of_plain_newstyle);
	return run_case("nbd_context", tc);
}
