/*
 * Decoding requests: tables of cases, then random requests against a second opinion.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/nbd/request.h"
#include "tests/unit/nbd_opinion.h"
#include "tests/unit/nbd_peer.h"
#include "tests/unit/suite.h"

#define MIB	(1ULL << 20)
#define SIZE	(64 * MIB)

/* Flag words by what they advertise. */
#define ALL	0x0d6f	/* all that liftd may ever advertise, but ROTATIONAL */
#define WRITABLE (ALL & ~NBD_FLAG_READ_ONLY)
#define BARE	(NBD_FLAG_HAS_FLAGS)
#define READ_ONLY (NBD_FLAG_HAS_FLAGS | NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH | \
		   NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_CACHE)

#define FUA	NBD_CMD_FLAG_FUA
#define NO_HOLE	NBD_CMD_FLAG_NO_HOLE
#define FAST	NBD_CMD_FLAG_FAST_ZERO
#define DF	NBD_CMD_FLAG_DF
#define REQ_ONE	NBD_CMD_FLAG_REQ_ONE
#define PAYLOAD	NBD_CMD_FLAG_PAYLOAD_LEN

#define READ	NBD_CMD_READ
#define WRITE	NBD_CMD_WRITE
#define FLUSH	NBD_CMD_FLUSH
#define TRIM	NBD_CMD_TRIM
#define CACHE	NBD_CMD_CACHE
#define ZEROES	NBD_CMD_WRITE_ZEROES
#define STATUS	NBD_CMD_BLOCK_STATUS

#define COOKIE	0x0123456789abcdefULL

/* What is expected: these, or the error of the reply. */
#define OK	OPINION_OK
#define CLOSES	OPINION_CLOSES

static void encode_as(uint8_t *p, enum nbd_mode mode, uint16_t flags, uint16_t command,
		      uint64_t offset, uint64_t length)
{
	nbd_put_be32(p, mode == NBD_MODE_EXTENDED ? 0x21e41c71 : 0x25609513);
	nbd_put_be16(p + 4, flags);
	nbd_put_be16(p + 6, command);
	nbd_put_be64(p + 8, COOKIE);
	nbd_put_be64(p + 16, offset);
	if (mode == NBD_MODE_EXTENDED)
		nbd_put_be64(p + 24, length);
	else
		nbd_put_be32(p + 24, (uint32_t)length);
}

static void encode(uint8_t *p, uint16_t flags, uint16_t command, uint64_t offset, uint32_t length)
{
	encode_as(p, NBD_MODE_SIMPLE, flags, command, offset, length);
}

/* One row: a request to an export of SIZE bytes with these transmission flags. */
static const struct row {
	uint16_t export_flags, command, flags;
	uint64_t offset;
	uint32_t length;
	uint32_t expect;
} rows[] = {
	/* Ranges that fit. */
	{ WRITABLE, READ, 0, 0, 1, OK },
	{ WRITABLE, READ, 0, 0, 32 * MIB, OK },
	{ WRITABLE, READ, 0, 12345, 678, OK },
	{ WRITABLE, READ, 0, SIZE - 1, 1, OK },
	{ WRITABLE, WRITE, 0, 0, 32 * MIB, OK },
	{ WRITABLE, WRITE, 0, SIZE - 512, 512, OK },
	{ WRITABLE, TRIM, 0, 0, SIZE, OK },
	{ WRITABLE, ZEROES, 0, 0, SIZE, OK },
	{ WRITABLE, CACHE, 0, 0, SIZE, OK },
	{ WRITABLE, FLUSH, 0, 0, 0, OK },

	/* Beyond the end: by one byte, from the end, far off, wrapping. */
	{ WRITABLE, READ, 0, SIZE - 1, 2, NBD_EINVAL },
	{ WRITABLE, READ, 0, SIZE, 1, NBD_EINVAL },
	{ WRITABLE, READ, 0, 1ULL << 63, 512, NBD_EINVAL },
	{ WRITABLE, READ, 0, UINT64_MAX, 1, NBD_EINVAL },
	{ WRITABLE, READ, 0, UINT64_MAX - 511, 512, NBD_EINVAL },
	{ WRITABLE, READ, 0, UINT64_MAX - 511, 1024, NBD_EINVAL },
	{ WRITABLE, WRITE, 0, SIZE - 511, 512, NBD_ENOSPC },
	{ WRITABLE, WRITE, 0, SIZE, 1, NBD_ENOSPC },
	{ WRITABLE, WRITE, 0, 1ULL << 63, 512, NBD_ENOSPC },
	{ WRITABLE, WRITE, 0, UINT64_MAX - 511, 1024, NBD_ENOSPC },
	{ WRITABLE, ZEROES, 0, 1, SIZE, NBD_ENOSPC },
	{ WRITABLE, ZEROES, 0, 0, UINT32_MAX, NBD_ENOSPC },
	{ WRITABLE, ZEROES, 0, UINT64_MAX, UINT32_MAX, NBD_ENOSPC },
	{ WRITABLE, TRIM, 0, 1, SIZE, NBD_EINVAL },
	{ WRITABLE, TRIM, 0, UINT64_MAX - 511, 1024, NBD_EINVAL },
	{ WRITABLE, CACHE, 0, 1, SIZE, NBD_EINVAL },
	{ WRITABLE, CACHE, 0, UINT64_MAX, UINT32_MAX, NBD_EINVAL },

	/* Larger than a payload may be, whether it fits the export or not. */
	{ WRITABLE, READ, 0, 0, 32 * MIB + 1, NBD_EINVAL },
	{ WRITABLE, READ, 0, 0, UINT32_MAX, NBD_EINVAL },
	{ WRITABLE, WRITE, 0, 0, 32 * MIB + 1, NBD_EINVAL },
	{ WRITABLE, WRITE, 0, 0, 33 * MIB, NBD_EINVAL },
	{ WRITABLE, WRITE, 0, SIZE, UINT32_MAX, NBD_EINVAL },

	/* Zero length is a no-op, but has to lie within the export. */
	{ WRITABLE, READ, 0, 0, 0, 0 },
	{ WRITABLE, WRITE, 0, SIZE, 0, 0 },
	{ WRITABLE, WRITE, FUA, 7, 0, 0 },
	{ WRITABLE, TRIM, 0, 4096, 0, 0 },
	{ WRITABLE, ZEROES, FUA | NO_HOLE | FAST, 4096, 0, 0 },
	{ WRITABLE, CACHE, 0, 4096, 0, 0 },
	{ WRITABLE, READ, 0, SIZE + 1, 0, NBD_EINVAL },
	{ WRITABLE, WRITE, 0, UINT64_MAX, 0, NBD_ENOSPC },

	/* Read-only. */
	{ READ_ONLY, READ, 0, 0, 512, OK },
	{ READ_ONLY, CACHE, 0, 0, 512, OK },
	{ READ_ONLY, FLUSH, 0, 0, 0, OK },
	{ READ_ONLY, WRITE, 0, 0, 512, NBD_EPERM },
	{ READ_ONLY, WRITE, 0, 0, 0, NBD_EPERM },
	{ READ_ONLY, WRITE, 0, SIZE, 512, NBD_EPERM },
	{ READ_ONLY, WRITE, 0, 0, UINT32_MAX, NBD_EPERM },
	{ READ_ONLY, TRIM, 0, 0, 512, NBD_EPERM },
	{ READ_ONLY, ZEROES, 0, 0, 512, NBD_EPERM },
	{ READ_ONLY, ZEROES, FAST, 0, 512, NBD_EPERM },
	{ WRITABLE | NBD_FLAG_READ_ONLY, TRIM, 0, 0, 512, NBD_EPERM },

	/* FUA on everything. */
	{ WRITABLE, READ, FUA, 0, 512, OK },
	{ WRITABLE, WRITE, FUA, 0, 512, OK },
	{ WRITABLE, FLUSH, FUA, 0, 0, OK },
	{ WRITABLE, TRIM, FUA, 0, 512, OK },
	{ WRITABLE, CACHE, FUA, 0, 512, OK },
	{ WRITABLE, ZEROES, FUA, 0, 512, OK },
	{ BARE, WRITE, FUA, 0, 512, NBD_EINVAL },	/* not advertised */

	/* NO_HOLE and FAST_ZERO on WRITE_ZEROES only. */
	{ WRITABLE, ZEROES, NO_HOLE, 0, 512, OK },
	{ WRITABLE, ZEROES, FAST, 0, 512, OK },
	{ WRITABLE, ZEROES, FAST | NO_HOLE | FUA, 0, 512, OK },
	{ WRITABLE & ~NBD_FLAG_SEND_FAST_ZERO, ZEROES, FAST, 0, 512, NBD_EINVAL },
	{ WRITABLE & ~NBD_FLAG_SEND_FAST_ZERO, ZEROES, NO_HOLE, 0, 512, OK },
	{ WRITABLE, READ, NO_HOLE, 0, 512, NBD_EINVAL },
	{ WRITABLE, WRITE, NO_HOLE, 0, 512, NBD_EINVAL },
	{ WRITABLE, WRITE, FAST, 0, 512, NBD_EINVAL },
	{ WRITABLE, TRIM, NO_HOLE, 0, 512, NBD_EINVAL },
	{ WRITABLE, TRIM, FAST, 0, 512, NBD_EINVAL },
	{ WRITABLE, CACHE, FAST, 0, 512, NBD_EINVAL },
	{ WRITABLE, FLUSH, NO_HOLE, 0, 0, NBD_EINVAL },

	/* Flags that need what is not negotiated, and unknown ones. */
	{ WRITABLE, READ, DF, 0, 512, NBD_EINVAL },
	{ WRITABLE, READ, REQ_ONE, 0, 512, NBD_EINVAL },
	{ WRITABLE, WRITE, PAYLOAD, 0, 512, NBD_EINVAL },
	{ WRITABLE, WRITE, 0x8000, 0, 512, NBD_EINVAL },
	{ WRITABLE, ZEROES, 0x0040 | FUA, 0, 512, NBD_EINVAL },

	/* FLUSH has no range. */
	{ WRITABLE, FLUSH, 0, 1, 0, NBD_EINVAL },
	{ WRITABLE, FLUSH, 0, 0, 1, NBD_EINVAL },
	{ WRITABLE, FLUSH, 0, UINT64_MAX, UINT32_MAX, NBD_EINVAL },

	/* Not advertised. READ and WRITE always are. */
	{ BARE, READ, 0, 0, 512, OK },
	{ BARE, WRITE, 0, 0, 512, OK },
	{ BARE, FLUSH, 0, 0, 0, NBD_EINVAL },
	{ BARE, TRIM, 0, 0, 512, NBD_EINVAL },
	{ BARE, CACHE, 0, 0, 512, NBD_EINVAL },
	{ BARE, ZEROES, 0, 0, 512, NBD_EINVAL },

	/* Not agreed on, or unknown. */
	{ WRITABLE, STATUS, 0, 0, 512, NBD_EINVAL },
	{ WRITABLE, NBD_CMD_RESIZE, 0, 0, 512, NBD_EINVAL },
	{ WRITABLE, 9, 0, 0, 512, NBD_EINVAL },
	{ WRITABLE, 0xffff, 0xffff, UINT64_MAX, UINT32_MAX, NBD_EINVAL },
	{ READ_ONLY, 42, 0, 0, UINT32_MAX, NBD_EINVAL },
};

START_TEST(request_table)
{
	const struct row *row = &rows[_i];
	struct nbd_export_limits limits = { .size = SIZE, .flags = row->export_flags };
	uint8_t *header = malloc(NBD_REQUEST_SIZE);	/* a sanitizer guards its end */
	enum nbd_verdict verdict;
	struct nbd_request rq;

	encode(header, row->flags, row->command, row->offset, row->length);
	memset(&rq, 0xa5, sizeof(rq));
	verdict = nbd_decode_request(header, &limits, &rq);
	ck_assert_uint_eq(rq.cookie, COOKIE);
	ck_assert_uint_eq(rq.command, row->command);
	ck_assert_uint_eq(rq.flags, row->flags);
	ck_assert_uint_eq(rq.offset, row->offset);
	ck_assert_uint_eq(rq.length, row->length);
	ck_assert_uint_eq(rq.payload, row->command == WRITE ? row->length : 0);
	if (row->expect == OK) {
		ck_assert_int_eq(verdict, NBD_REQUEST_OK);
		ck_assert_uint_eq(rq.error, 0);
		ck_assert_ptr_null(rq.reason);
	} else {
		ck_assert_int_eq(verdict, NBD_REQUEST_REPLY);
		ck_assert_uint_eq(rq.error, row->expect);
		ck_assert_ptr_nonnull(rq.reason);
	}
	free(header);
}
END_TEST

/* Any 32-bit length of what has no payload, on an export that is large enough. */
START_TEST(long_ranges)
{
	static const uint16_t commands[] = { TRIM, ZEROES, CACHE };
	static const uint32_t lengths[] = { 32 * MIB, 32 * MIB + 1, 1U << 31, UINT32_MAX };
	struct nbd_export_limits limits = { .size = 1ULL << 40, .flags = WRITABLE };
	uint8_t header[NBD_REQUEST_SIZE];
	struct nbd_request rq;

	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < 4; k++) {
			encode(header, 0, commands[i], 4096, lengths[k]);
			ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), NBD_REQUEST_OK);
			ck_assert_uint_eq(rq.payload, 0);
		}
	}
}
END_TEST

/* The largest export there can be: nothing wraps at its end. */
START_TEST(largest_export)
{
	struct nbd_export_limits limits = { .size = INT64_MAX, .flags = WRITABLE };
	uint8_t header[NBD_REQUEST_SIZE];
	struct nbd_request rq;

	encode(header, 0, TRIM, INT64_MAX - (uint64_t)UINT32_MAX, UINT32_MAX);
	ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), NBD_REQUEST_OK);
	encode(header, 0, TRIM, INT64_MAX - (uint64_t)UINT32_MAX + 1, UINT32_MAX);
	ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), NBD_REQUEST_REPLY);
	ck_assert_uint_eq(rq.error, NBD_EINVAL);
	limits.size = UINT64_MAX;	/* not legal, but no reason to wrap either */
	encode(header, 0, WRITE, UINT64_MAX - 10, 4096);
	ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), NBD_REQUEST_REPLY);
	ck_assert_uint_eq(rq.error, NBD_ENOSPC);
}
END_TEST

START_TEST(own_limits)
{
	struct nbd_export_limits limits = {
		.size = SIZE, .flags = WRITABLE, .min_block = 4096, .max_payload = MIB,
	};
	static const struct {
		uint16_t command;
		uint64_t offset;
		uint32_t length;
		uint32_t expect;
	} cases[] = {
		{ READ, 4096, 4096, OK }, { READ, 512, 4096, NBD_EINVAL },
		{ READ, 4096, 512, NBD_EINVAL }, { WRITE, 1, 4096, NBD_EINVAL },
		{ WRITE, 0, 8192, OK }, { TRIM, 0, 4097, NBD_EINVAL },
		{ ZEROES, 2048, 2048, NBD_EINVAL }, { CACHE, 0, 1, NBD_EINVAL },
		{ READ, 0, MIB, OK }, { READ, 0, MIB + 4096, NBD_EINVAL },
		{ WRITE, 0, MIB + 4096, NBD_EINVAL }, { TRIM, 0, 2 * MIB, OK },
		{ READ, 4096, 0, 0 }, { READ, 1, 0, NBD_EINVAL },
		{ WRITE, SIZE - 1, 4096, NBD_ENOSPC },
	};
	uint8_t header[NBD_REQUEST_SIZE];
	struct nbd_request rq;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		encode(header, 0, cases[i].command, cases[i].offset, cases[i].length);
		ck_assert_int_eq(nbd_decode_request(header, &limits, &rq),
				 cases[i].expect == OK ? NBD_REQUEST_OK : NBD_REQUEST_REPLY);
		ck_assert_uint_eq(rq.error, cases[i].expect == OK ? 0 : cases[i].expect);
	}
}
END_TEST

/* ---- what structured replies and extended headers add ---- */

#define S	NBD_MODE_STRUCTURED
#define X	NBD_MODE_EXTENDED
#define WITH_DF	(WRITABLE | NBD_FLAG_SEND_DF)
#define WITH_STAT (WITH_DF | NBD_FLAG_BLOCK_STAT_PAYLOAD)
#define GIB4	(1ULL << 32)

/* The export is large; contexts: selected. payload: what follows the header. */
static const struct mode_row {
	enum nbd_mode mode;
	bool contexts;
	uint16_t export_flags, command, flags;
	uint64_t length;
	uint32_t expect, payload;
} mode_rows[] = {
	/* DF with READ, if it is offered. */
	{ S, false, WITH_DF, READ, DF, 512, OK, 0 },
	{ X, false, WITH_DF, READ, DF | FUA, 512, OK, 0 },
	{ S, false, WRITABLE, READ, DF, 512, NBD_EINVAL, 0 },
	{ S, true, WITH_DF, STATUS, DF, 512, NBD_EINVAL, 0 },
	{ S, false, WITH_DF, WRITE, DF, 512, NBD_EINVAL, 512 },
	{ X, false, WITH_DF, READ, DF, 0, 0, 0 },

	/* BLOCK_STATUS: a context, REQ_ONE, a length. */
	{ S, true, WITH_DF, STATUS, 0, 512, OK, 0 },
	{ S, true, WITH_DF, STATUS, REQ_ONE, UINT32_MAX, OK, 0 },
	{ S, true, WITH_DF, STATUS, FUA | REQ_ONE, 1, OK, 0 },
	{ X, true, WITH_STAT, STATUS, REQ_ONE, 1ULL << 40, OK, 0 },
	{ S, true, READ_ONLY, STATUS, REQ_ONE, 512, OK, 0 },
	{ S, false, WITH_DF, STATUS, 0, 512, NBD_EINVAL, 0 },
	{ X, false, WITH_STAT, STATUS, 0, 512, NBD_EINVAL, 0 },
	{ S, true, WITH_DF, STATUS, 0, 0, NBD_EINVAL, 0 },
	{ X, true, WITH_STAT, STATUS, REQ_ONE, 0, NBD_EINVAL, 0 },
	{ X, true, WITH_STAT, STATUS, 0, (1ULL << 41) + 1, NBD_EINVAL, 0 },
	{ S, true, WITH_DF, STATUS, NO_HOLE, 512, NBD_EINVAL, 0 },
	{ S, true, WITH_DF, READ, REQ_ONE, 512, NBD_EINVAL, 0 },

	/* A WRITE with extended headers: its data comes with PAYLOAD_LEN and without. */
	{ X, false, WITH_DF, WRITE, PAYLOAD, 512, OK, 512 },
	{ X, false, WITH_DF, WRITE, PAYLOAD | FUA, 32 * MIB, OK, 32 * MIB },
	{ X, false, WITH_DF, WRITE, 0, 512, OK, 512 },
	{ X, false, WITH_DF, WRITE, PAYLOAD, 0, 0, 0 },
	{ X, false, WITH_DF, WRITE, PAYLOAD, 32 * MIB + 1, NBD_EINVAL, 32 * MIB + 1 },
	{ X, false, READ_ONLY, WRITE, PAYLOAD, 512, NBD_EPERM, 512 },
	{ S, false, WITH_DF, WRITE, PAYLOAD, 512, NBD_EINVAL, 512 },

	/* Others have none; announced all the same, it has to be skipped. */
	{ X, false, WITH_DF, READ, PAYLOAD, 512, NBD_EINVAL, 512 },
	{ X, false, WITH_DF, TRIM, PAYLOAD, UINT32_MAX, NBD_EINVAL, UINT32_MAX },
	{ X, false, WITH_DF, ZEROES, PAYLOAD, 4096, NBD_EINVAL, 4096 },
	{ X, false, WITH_DF, CACHE, PAYLOAD, 1, NBD_EINVAL, 1 },
	{ X, false, WITH_DF, FLUSH, PAYLOAD, 0, NBD_EINVAL, 0 },
	{ X, false, WITH_DF, FLUSH, PAYLOAD, 9, NBD_EINVAL, 9 },
	{ X, false, WITH_DF, 77, PAYLOAD, 9, NBD_EINVAL, 9 },
	{ X, false, WITH_DF, 77, 0, GIB4, NBD_EINVAL, 0 },
	{ S, false, WITH_DF, TRIM, PAYLOAD, 512, NBD_EINVAL, 0 },
	{ S, false, WITH_DF, 77, PAYLOAD, 512, NBD_EINVAL, 0 },

	/* A payload of 4 GiB or more, of whatever it is, is not skipped. */
	{ X, false, WITH_DF, WRITE, PAYLOAD, UINT32_MAX, NBD_EINVAL, UINT32_MAX },
	{ X, false, WITH_DF, WRITE, PAYLOAD, GIB4, CLOSES, 0 },
	{ X, false, WITH_DF, WRITE, 0, GIB4 + 512, CLOSES, 0 },
	{ X, false, READ_ONLY, WRITE, 0, UINT64_MAX, CLOSES, 0 },
	{ X, false, WITH_DF, READ, PAYLOAD, GIB4, CLOSES, 0 },
	{ X, true, WITH_STAT, STATUS, PAYLOAD, GIB4 + 12, CLOSES, 0 },
	{ X, false, WITH_DF, 77, PAYLOAD, UINT64_MAX, CLOSES, 0 },

	/* 64-bit lengths where nothing follows. */
	{ X, false, WITH_DF, TRIM, 0, GIB4, OK, 0 },
	{ X, false, WITH_DF, ZEROES, FAST, 1ULL << 41, OK, 0 },
	{ X, false, WITH_DF, CACHE, 0, GIB4 + 1, OK, 0 },
	{ X, false, WITH_DF, READ, 0, GIB4 + 512, NBD_EINVAL, 0 },
	{ X, false, WITH_DF, TRIM, 0, (1ULL << 41) + 1, NBD_EINVAL, 0 },
	{ X, false, WITH_DF, ZEROES, 0, UINT64_MAX, NBD_ENOSPC, 0 },
	{ X, false, WITH_DF, FLUSH, 0, GIB4, NBD_EINVAL, 0 },

	/* A BLOCK_STATUS with payload: its size is checked here, its length is in it. */
	{ X, true, WITH_STAT, STATUS, PAYLOAD, 12, OK, 12 },
	{ X, true, WITH_STAT, STATUS, PAYLOAD | REQ_ONE | FUA, 4096, OK, 4096 },
	{ X, true, WITH_STAT, STATUS, PAYLOAD, 8, NBD_EINVAL, 8 },
	{ X, true, WITH_STAT, STATUS, PAYLOAD, 0, NBD_EINVAL, 0 },
	{ X, true, WITH_STAT, STATUS, PAYLOAD, 13, NBD_EINVAL, 13 },
	{ X, true, WITH_STAT, STATUS, PAYLOAD, 4100, NBD_EINVAL, 4100 },
	{ X, true, WITH_STAT, STATUS, PAYLOAD, UINT32_MAX, NBD_EINVAL, UINT32_MAX },
	{ X, true, WITH_DF, STATUS, PAYLOAD, 12, NBD_EINVAL, 12 },
	{ X, false, WITH_STAT, STATUS, PAYLOAD, 12, NBD_EINVAL, 12 },
	{ S, true, WITH_STAT, STATUS, PAYLOAD, 12, NBD_EINVAL, 0 },
};

START_TEST(mode_table)
{
	const struct mode_row *row = &mode_rows[_i];
	struct nbd_export_limits limits = { .size = 1ULL << 41, .flags = row->export_flags,
					    .mode = (uint8_t)row->mode,
					    .contexts = row->contexts ? NBD_CONTEXT_ALLOCATION : 0 };
	uint8_t *header = malloc(nbd_request_size(row->mode));
	struct nbd_request rq;

	encode_as(header, row->mode, row->flags, row->command, 0, row->length);
	memset(&rq, 0xa5, sizeof(rq));
	ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), nbd_verdict_of(row->expect));
	ck_assert_uint_eq(rq.payload, row->payload);
	ck_assert_uint_eq(rq.error, row->expect < CLOSES ? row->expect : 0);
	ck_assert_int_eq(rq.reason == NULL, row->expect == OK);
	if (row->expect != CLOSES) {
		ck_assert_uint_eq(rq.cookie, COOKIE);
		ck_assert_uint_eq(rq.command, row->command);
		ck_assert_uint_eq(rq.flags, row->flags);
		ck_assert_uint_eq(rq.length, row->command == STATUS && row->flags & PAYLOAD &&
				  row->mode == X ? 0 : row->length);
	}
	free(header);
}
END_TEST

/* Each mode has its own magic; the other's is none. */
START_TEST(magic_of_the_mode)
{
	struct nbd_export_limits limits = { .size = SIZE, .flags = WRITABLE };
	uint8_t header[NBD_EXTENDED_REQUEST_SIZE];
	struct nbd_request rq;

	ck_assert_uint_eq(nbd_request_size(NBD_MODE_SIMPLE), 28);
	ck_assert_uint_eq(nbd_request_size(NBD_MODE_STRUCTURED), 28);
	ck_assert_uint_eq(nbd_request_size(NBD_MODE_EXTENDED), 32);
	for (int is = 0; is <= NBD_MODE_EXTENDED; is++) {
		for (int sent = 0; sent <= NBD_MODE_EXTENDED; sent++) {
			bool fits = (is == X) == (sent == X);

			limits.mode = (uint8_t)is;
			encode_as(header, (enum nbd_mode)sent, 0, READ, 0, 512);
			ck_assert_int_eq(nbd_decode_request(header, &limits, &rq),
					 fits ? NBD_REQUEST_OK : NBD_REQUEST_CLOSE);
		}
	}
}
END_TEST

START_TEST(disconnect)
{
	struct nbd_export_limits limits = { .size = SIZE, .flags = READ_ONLY };
	uint8_t header[NBD_REQUEST_SIZE];
	struct nbd_request rq;

	encode(header, 0, NBD_CMD_DISC, 0, 0);
	ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), NBD_REQUEST_DISCONNECT);
	ck_assert_uint_eq(rq.payload, 0);
	encode(header, 0xffff, NBD_CMD_DISC, UINT64_MAX, UINT32_MAX);
	ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), NBD_REQUEST_DISCONNECT);
	ck_assert_uint_eq(rq.payload, 0);
}
END_TEST

/* Every single-bit change of the magic, and the reserved ones. */
START_TEST(wrong_magic)
{
	static const uint32_t others[] = { 0x12560953, 0x25609514, 0x67446698, 0x21e41c71, 0,
					   0x13956025 };
	struct nbd_export_limits limits = { .size = SIZE, .flags = WRITABLE };
	uint8_t header[NBD_REQUEST_SIZE];
	struct nbd_request rq;

	encode(header, 0, WRITE, 0, 512);
	for (int bit = 0; bit < 38; bit++) {
		nbd_put_be32(header, bit < 32 ? 0x25609513 ^ 1U << bit : others[bit - 32]);
		ck_assert_int_eq(nbd_decode_request(header, &limits, &rq), NBD_REQUEST_CLOSE);
		ck_assert_uint_eq(rq.payload, 0);
		ck_assert_uint_eq(rq.length, 0);
		ck_assert_ptr_nonnull(rq.reason);
	}
}
END_TEST

/* ---- random requests ---- */

static uint64_t seed;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint64_t around(uint64_t size)
{
	switch (rnd() % 8) {
	case 0: return 0;
	case 1: return size;
	case 2: return size - rnd() % 5000;
	case 3: return size + rnd() % 3;
	case 4: return rnd();
	case 5: return -(rnd() % 5000);
	case 6: return (rnd() % 64) * 4096;
	default: return rnd() % (size + 1);
	}
}

static uint64_t some_length(const struct nbd_export_limits *l)
{
	switch (rnd() % 16) {
	case 0:
		return around(32 * MIB);
	case 1:
		return l->mode == X ? around(GIB4) : around(32 * MIB);
	case 2:
		return l->mode == X ? around(l->size) : 0;
	case 3 ... 5:
		return rnd() % 1030 * 4;	/* of a list of contexts, or nearly */
	default:
		return rnd() % 16 * 4096;
	}
}

/* One request in the mode; 1: executed, 0: refused, -1: the connection ends. */
static int random_request(enum nbd_mode mode)
{
	struct nbd_export_limits limits = {
		.size = rnd() % 3 ? SIZE : 1 + rnd() % INT64_MAX,
		.flags = rnd() % 4 ? WITH_STAT : (uint16_t)rnd(),
		.min_block = rnd() % 3 ? 0 : 1U << rnd() % 13,
		.max_payload = rnd() % 3 ? 0 : 65536,
		.mode = (uint8_t)mode,
		.contexts = mode && rnd() % 4 ? NBD_CONTEXT_ALLOCATION : 0,
	};
	uint16_t command = rnd() % 16 ? (uint16_t)(rnd() % 8) : (uint16_t)rnd();
	uint16_t flags = rnd() % 2 ? 0 : rnd() % 4 ? 1U << rnd() % 6 : (uint16_t)rnd();
	uint64_t offset = around(limits.size), length = some_length(&limits);
	uint8_t header[NBD_EXTENDED_REQUEST_SIZE];
	enum nbd_verdict verdict;
	struct nbd_request rq;
	uint32_t expect;

	if (command == FLUSH && rnd() % 2)
		offset = length = 0;
	length = mode == X ? length : (uint32_t)length;
	encode_as(header, mode, flags, command, offset, length);
	memset(&rq, 0xa5, sizeof(rq));
	verdict = nbd_decode_request(header, &limits, &rq);
	if (command == NBD_CMD_DISC) {
		must(verdict == NBD_REQUEST_DISCONNECT && !rq.payload);
		return -1;
	}
	expect = nbd_opinion(&limits, command, flags, offset, length);
	must(verdict == nbd_verdict_of(expect));
	must(rq.error == (expect < CLOSES ? expect : 0));
	must(!rq.reason == (expect == OK));
	if (expect == CLOSES) {
		must(!rq.payload && !rq.length);
		return -1;
	}
	must(rq.payload == (nbd_payload_opinion(&limits, command, flags) ? length : 0));
	must(rq.length == (command == STATUS && rq.payload ? 0 : length) ||
	     (command == STATUS && mode == X && flags & PAYLOAD && !rq.length));
	return expect == OK;
}

START_TEST(random_requests)
{
	unsigned executed = 0, refused = 0;

	seed = 42;
	for (int i = 0; i < 120000; i++) {
		switch (random_request((enum nbd_mode)_i)) {
		case 1:
			executed++;
			break;
		case 0:
			refused++;
			break;
		}
	}
	/* The mix is one that can fail on both sides. */
	ck_assert_uint_gt(executed, 12000);
	ck_assert_uint_gt(refused, 12000);
}
END_TEST

/* ---- errors, flags ---- */

START_TEST(errors)
{
	static const struct {
		int err;
		uint32_t error;
	} map[] = {
		{ EPERM, 1 }, { EACCES, 1 }, { EROFS, 1 }, { EIO, 5 }, { ENOMEM, 12 },
		{ EINVAL, 22 }, { ENOSPC, 28 }, { EDQUOT, 28 }, { EFBIG, 28 }, { ESHUTDOWN, 108 },
		{ ENXIO, 5 },
		{ EAGAIN, 5 }, { ETIMEDOUT, 5 }, { EREMOTEIO, 5 }, { EBADF, 5 }, { 0, 0 },
		{ EOPNOTSUPP, 22 }, { EOVERFLOW, 22 }, { 99999, 5 },
	};
	struct nbd_request rq = { .command = ZEROES };

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
		ck_assert_uint_eq(nbd_error_from_errno(map[i].err, &rq), map[i].error);
		ck_assert_uint_eq(nbd_error_from_errno(-map[i].err, &rq), map[i].error);
		ck_assert_uint_eq(nbd_error_from_errno(-map[i].err, NULL), map[i].error);
	}
	ck_assert_uint_eq(nbd_error_from_errno(INT32_MIN, &rq), NBD_EIO);
	ck_assert_uint_eq(nbd_error_from_errno(INT32_MAX, &rq), NBD_EIO);

	/* The two that are legal in one place each. */
	rq.flags = FAST | FUA;
	ck_assert_uint_eq(nbd_error_from_errno(-ENOTSUP, &rq), NBD_ENOTSUP);
	ck_assert_uint_eq(nbd_error_from_errno(-EOVERFLOW, &rq), NBD_EINVAL);
	rq.command = WRITE;
	ck_assert_uint_eq(nbd_error_from_errno(-ENOTSUP, &rq), NBD_EINVAL);
	rq = (struct nbd_request){ .command = READ, .flags = NBD_CMD_FLAG_DF };
	ck_assert_uint_eq(nbd_error_from_errno(-EOVERFLOW, &rq), NBD_EOVERFLOW);
	ck_assert_uint_eq(nbd_error_from_errno(-ENOTSUP, &rq), NBD_EINVAL);
}
END_TEST

/* No errno at all leaves the set. */
START_TEST(errors_are_in_the_set)
{
	struct nbd_request rq = { .command = ZEROES };

	for (int err = 1; err < 4096; err++) {
		switch (nbd_error_from_errno(err, &rq)) {
		case 1: case 5: case 12: case 22: case 28: case 108:
			break;
		default:
			ck_abort_msg("errno %d gives %u", err, nbd_error_from_errno(err, &rq));
		}
	}
}
END_TEST

START_TEST(transmission_flags)
{
	struct nbd_capabilities caps;
	uint16_t flags, expect;

	for (unsigned i = 0; i < 128; i++) {
		caps = (struct nbd_capabilities){
			.read_only = i & 1, .rotational = i & 2, .trim = i & 4,
			.write_zeroes = i & 8, .fast_zero = i & 16, .cache = i & 32,
			.multi_conn = i & 64,
		};
		flags = nbd_transmission_flags(&caps);
		expect = 0x000d;
		expect |= (i & 1 ? 0x002 : 0) | (i & 2 ? 0x010 : 0) | (i & 32 ? 0x400 : 0) |
			  (i & 64 ? 0x100 : 0);
		if (!(i & 1))
			expect |= (i & 4 ? 0x020 : 0) | (i & 8 ? 0x040 : 0) |
				  ((i & 24) == 24 ? 0x800 : 0);
		ck_assert_uint_eq(flags, expect);
	}
}
END_TEST

START_TEST(command_names)
{
	ck_assert_str_eq(nbd_command_name(NBD_CMD_READ), "READ");
	ck_assert_str_eq(nbd_command_name(NBD_CMD_WRITE_ZEROES), "WRITE_ZEROES");
	ck_assert_str_eq(nbd_command_name(NBD_CMD_DISC), "DISC");
	ck_assert_str_eq(nbd_command_name(NBD_CMD_BLOCK_STATUS), "BLOCK_STATUS");
	ck_assert_str_eq(nbd_command_name(NBD_CMD_RESIZE), "unknown");
	ck_assert_str_eq(nbd_command_name(0xffff), "unknown");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("nbd_request");
	TCase *tc = tcase_create("request");

	tcase_add_loop_test(tc, request_table, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(tc, long_ranges);
	tcase_add_test(tc, largest_export);
	tcase_add_test(tc, own_limits);
	tcase_add_test(tc, disconnect);
	tcase_add_test(tc, wrong_magic);
	tcase_add_loop_test(tc, mode_table, 0, sizeof(mode_rows) / sizeof(mode_rows[0]));
	tcase_add_test(tc, magic_of_the_mode);
	tcase_add_loop_test(tc, random_requests, 0, NBD_MODE_EXTENDED + 1);
	tcase_add_test(tc, errors);
	tcase_add_test(tc, errors_are_in_the_set);
	tcase_add_test(tc, transmission_flags);
	tcase_add_test(tc, command_names);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
