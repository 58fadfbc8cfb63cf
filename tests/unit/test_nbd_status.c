/*
 * The payload of a BLOCK_STATUS, which extended headers make possible.
 */
#include <check.h>
#include <stdlib.h>

#include "server/nbd/request.h"
#include "tests/unit/suite.h"

#define SIZE	(64ULL << 20)
#define OK	0xffffU		/* verdict OK; else the error of the reply */

/* What is in the payload of a BLOCK_STATUS: a length, and ids of contexts. */
START_TEST(status_payload)
{
	enum { END = 0xff };
	static const struct {
		uint64_t offset, length;
		uint8_t ids[6];
		uint32_t expect;
		uint32_t min_block;
	} rows[] = {
		{ 0, 512, { 1, END }, OK, 0 },
		{ 0, SIZE, { 1, END }, OK, 0 },
		{ SIZE - 1, 1, { 1, END }, OK, 0 },
		{ 4096, 8192, { 1, END }, OK, 4096 },
		{ 0, 512, { 0, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 2, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 8, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 9, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 33, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 1, 1, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 1, 2, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 2, 1, END }, NBD_EINVAL, 0 },
		{ 0, 0, { 1, END }, NBD_EINVAL, 0 },
		{ 0, SIZE + 1, { 1, END }, NBD_EINVAL, 0 },
		{ 512, SIZE, { 1, END }, NBD_EINVAL, 0 },
		{ 512, UINT64_MAX, { 1, END }, NBD_EINVAL, 0 },
		{ 512, -512ULL, { 1, END }, NBD_EINVAL, 0 },
		{ SIZE + 1, 1, { 1, END }, NBD_EINVAL, 0 },
		{ 0, 512, { 1, END }, NBD_EINVAL, 4096 },
		{ 512, 4096, { 1, END }, NBD_EINVAL, 4096 },
	};
	struct nbd_export_limits limits = { .size = SIZE, .mode = NBD_MODE_EXTENDED,
					    .contexts = NBD_CONTEXT_ALLOCATION };
	struct nbd_request rq;
	uint8_t *payload, contexts;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t n = 0;

		while (rows[i].ids[n] != END)
			n++;
		limits.min_block = rows[i].min_block;
		rq = (struct nbd_request){ .command = NBD_CMD_BLOCK_STATUS,
					   .offset = rows[i].offset, .payload = 8 + 4 * n };
		payload = malloc(rq.payload);
		nbd_put_be64(payload, rows[i].length);
		for (uint32_t k = 0; k < n; k++)
			nbd_put_be32(payload + 8 + 4 * k, rows[i].ids[k]);
		contexts = 0xee;
		ck_assert_int_eq(nbd_decode_status(payload, &limits, &rq, &contexts),
				 rows[i].expect == OK ? NBD_REQUEST_OK : NBD_REQUEST_REPLY);
		ck_assert_uint_eq(rq.error, rows[i].expect == OK ? 0 : rows[i].expect);
		ck_assert_int_eq(rq.reason == NULL, rows[i].expect == OK);
		if (rows[i].expect == OK) {
			ck_assert_uint_eq(contexts, NBD_CONTEXT_ALLOCATION);
			ck_assert_uint_eq(rq.length, rows[i].length);
			ck_assert_uint_eq(rq.offset, rows[i].offset);
		}
		free(payload);
	}
}
END_TEST

/* The largest payload there may be is nothing but the same id, or ids that nobody knows. */
START_TEST(status_payload_is_long)
{
	struct nbd_export_limits limits = { .size = SIZE, .mode = NBD_MODE_EXTENDED,
					    .contexts = 0xff };
	struct nbd_request rq = { .command = NBD_CMD_BLOCK_STATUS,
				  .payload = NBD_STATUS_PAYLOAD_MAX };
	uint8_t *payload = malloc(NBD_STATUS_PAYLOAD_MAX), contexts;

	nbd_put_be64(payload, SIZE);
	for (uint32_t at = 8; at < NBD_STATUS_PAYLOAD_MAX; at += 4)
		nbd_put_be32(payload + at, at / 4);
	/* 2 to 8 are selected, 9 is no context. */
	ck_assert_int_eq(nbd_decode_status(payload, &limits, &rq, &contexts), NBD_REQUEST_REPLY);
	ck_assert_uint_eq(rq.error, NBD_EINVAL);
	rq = (struct nbd_request){ .command = NBD_CMD_BLOCK_STATUS, .payload = 8 + 4 * 7 };
	ck_assert_int_eq(nbd_decode_status(payload, &limits, &rq, &contexts), NBD_REQUEST_OK);
	ck_assert_uint_eq(contexts, 0xfe);
	free(payload);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("nbd_status");
	TCase *tc = tcase_create("payload");

	tcase_add_test(tc, status_payload);
	tcase_add_test(tc, status_payload_is_long);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
