/*
 * Requests, simple and extended, as a connection takes them from its stream. Input: what they are
 * checked against, then the stream.
 *
 * Each verdict is compared with a second opinion (tests/unit/nbd_opinion.h), and each answer that
 * it leads to is written.
 */
#include <stdlib.h>
#include <string.h>

#include "server/nbd/reply.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/nbd_opinion.h"
#include "tests/unit/nbd_peer.h"

static struct nbd_export_limits take_limits(struct fuzz_input *in)
{
	uint8_t how = fuzz_byte(in);
	struct nbd_export_limits l = {
		.mode = how % 3,
		.contexts = how % 3 && how & 0x40 ? NBD_CONTEXT_ALLOCATION : 0,
		.max_payload = how & 0x80 ? 65536 : 0,
	};

	how = fuzz_byte(in);
	l.min_block = how & 0x80 ? 1U << how % 13 : 0;
	l.flags = (uint16_t)fuzz_number(in, 2);
	/* Often one where offsets matter: a few bits of a number. */
	how = fuzz_byte(in);
	l.size = (fuzz_number(in, 2) << how % 48) & INT64_MAX;
	return l;
}

/* What of a range has to hold when it is executed. */
static void check_executed(const struct nbd_export_limits *l, const struct nbd_request *rq)
{
	uint32_t max = l->max_payload ? l->max_payload : NBD_MAX_PAYLOAD;

	must(!rq->error && !rq->reason);
	if (rq->command == NBD_CMD_FLUSH) {
		must(!rq->offset && !rq->length);
		return;
	}
	must(rq->length && rq->offset <= l->size && rq->length <= l->size - rq->offset);
	must(rq->length <= max || (rq->command != NBD_CMD_READ && rq->command != NBD_CMD_WRITE));
	must(!l->min_block || !((rq->offset | rq->length) % l->min_block));
}

/* The ids in the payload of a BLOCK_STATUS, as they should be taken. */
static void check_status(const struct nbd_export_limits *l, struct nbd_request *rq,
			 const uint8_t *payload)
{
	uint8_t contexts, *exact = malloc(rq->payload);
	uint64_t length = nbd_get_be64(payload);
	bool fine = rq->payload == 12 && nbd_get_be32(payload + 8) == NBD_ID_ALLOCATION;
	enum nbd_verdict verdict;

	memcpy(exact, payload, rq->payload);
	verdict = nbd_decode_status(exact, l, rq, &contexts);
	must(rq->length == length);
	if (verdict == NBD_REQUEST_OK) {
		must(fine && contexts == NBD_CONTEXT_ALLOCATION);
		check_executed(l, rq);
	} else {
		must(verdict == NBD_REQUEST_REPLY && rq->error == NBD_EINVAL && rq->reason);
		must(!fine || !length || (unsigned __int128)rq->offset + length > l->size ||
		     (l->min_block && (rq->offset | length) % l->min_block));
	}
	free(exact);
}

/* The heads of its answers, in memory of just the size that is promised. */
static void answer(const struct nbd_export_limits *l, const struct nbd_request *rq)
{
	struct nbd_chunk c = { .cookie = rq->cookie, .offset = rq->offset, .mode = l->mode,
			       .done = rq->flags & 1 };
	uint8_t *head = malloc(NBD_REPLY_HEAD_MAX);

	nbd_encode_simple_reply(head, rq->error, rq->cookie);
	must(nbd_get_be64(head + 8) == rq->cookie);
	if (l->mode != NBD_MODE_SIMPLE && rq->error) {
		must(nbd_put_error(head, &c, rq->error, rq->reason) <= NBD_REPLY_HEAD_MAX);
		must(nbd_put_error_at(head, &c, rq->error, rq->reason, rq->offset) <=
		     NBD_REPLY_HEAD_MAX);
		must(nbd_get_be64(head + 8) == rq->cookie);
	}
	free(head);
}

/*
 * The request at the start of in[0 .. left - 1], which has a whole header. Returns how many bytes
 * it took, 0: the connection ends.
 */
static size_t take_request(const struct nbd_export_limits *l, const uint8_t *in, size_t left)
{
	size_t size = nbd_request_size((enum nbd_mode)l->mode);
	uint8_t *header = malloc(size);
	enum nbd_verdict verdict;
	struct nbd_request rq;
	uint64_t length;
	uint32_t want;

	memcpy(header, in, size);
	verdict = nbd_decode_request(header, l, &rq);
	free(header);
	if (verdict == NBD_REQUEST_DISCONNECT)
		must(rq.command == NBD_CMD_DISC && !rq.payload);
	if (nbd_get_be32(in) != (l->mode == NBD_MODE_EXTENDED ? 0x21e41c71 : 0x25609513))
		must(verdict == NBD_REQUEST_CLOSE && !rq.payload && rq.reason);
	else if (nbd_get_be16(in + 6) == NBD_CMD_DISC)
		must(verdict == NBD_REQUEST_DISCONNECT);
	if (verdict == NBD_REQUEST_DISCONNECT || verdict == NBD_REQUEST_CLOSE)
		return 0;
	length = l->mode == NBD_MODE_EXTENDED ? nbd_get_be64(in + 24) : nbd_get_be32(in + 24);
	want = nbd_opinion(l, rq.command, rq.flags, rq.offset, length);
	must(verdict == nbd_verdict_of(want));
	must(rq.cookie == nbd_get_be64(in + 8) && rq.offset == nbd_get_be64(in + 16));
	must(rq.payload == (nbd_payload_opinion(l, rq.command, rq.flags) ? length : 0));
	must(rq.error == (verdict == NBD_REQUEST_OK ? 0 : want));
	if (rq.payload > left - size)
		return left;
	if (verdict == NBD_REQUEST_OK && rq.command == NBD_CMD_BLOCK_STATUS && rq.payload)
		check_status(l, &rq, in + size);
	else if (verdict == NBD_REQUEST_OK)
		check_executed(l, &rq);
	answer(l, &rq);
	return size + rq.payload;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, data + size };
	struct nbd_export_limits l = take_limits(&in);

	while (fuzz_left(&in) >= nbd_request_size((enum nbd_mode)l.mode)) {
		size_t n = take_request(&l, in.at, fuzz_left(&in));

		if (!n)
			break;
		in.at += n;
	}
	return 0;
}
