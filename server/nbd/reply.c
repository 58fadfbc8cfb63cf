#include "server/nbd/reply.h"

#include <assert.h>
#include <string.h>

#include "server/nbd/text.h"

void nbd_encode_simple_reply(uint8_t reply[NBD_SIMPLE_REPLY_SIZE], uint32_t error,
			     uint64_t cookie)
{
	nbd_put_be32(reply, NBD_SIMPLE_REPLY_MAGIC);
	nbd_put_be32(reply + 4, error);
	nbd_put_be64(reply + 8, cookie);
}

/* The header of a chunk with so many bytes of payload. Returns its size. */
static size_t put_header(uint8_t *p, const struct nbd_chunk *c, uint16_t type, uint64_t payload)
{
	bool extended = c->mode == NBD_MODE_EXTENDED;

	assert(c->mode != NBD_MODE_SIMPLE);
	nbd_put_be32(p, extended ? NBD_EXTENDED_REPLY_MAGIC : NBD_STRUCTURED_REPLY_MAGIC);
	nbd_put_be16(p + 4, c->done ? NBD_REPLY_FLAG_DONE : 0);
	nbd_put_be16(p + 6, type);
	nbd_put_be64(p + 8, c->cookie);
	if (!extended) {
		nbd_put_be32(p + 16, (uint32_t)payload);
		return NBD_CHUNK_SIZE;
	}
	nbd_put_be64(p + 16, c->offset);
	nbd_put_be64(p + 24, payload);
	return NBD_EXTENDED_CHUNK_SIZE;
}

size_t nbd_put_none(uint8_t *p, const struct nbd_chunk *c)
{
	return put_header(p, c, NBD_REPLY_TYPE_NONE, 0);
}

size_t nbd_put_data(uint8_t *p, const struct nbd_chunk *c, uint64_t at, uint32_t length)
{
	size_t n = put_header(p, c, NBD_REPLY_TYPE_OFFSET_DATA, 8 + (uint64_t)length);

	nbd_put_be64(p + n, at);
	return n + 8;
}

size_t nbd_put_hole(uint8_t *p, const struct nbd_chunk *c, uint64_t at, uint32_t length)
{
	size_t n = put_header(p, c, NBD_REPLY_TYPE_OFFSET_HOLE, 12);

	assert(length);
	nbd_put_be64(p + n, at);
	nbd_put_be32(p + n + 8, length);
	return n + 12;
}

/* Error, length of the text, text; returns where they end. tail: bytes that come after them. */
static size_t put_error(uint8_t *p, const struct nbd_chunk *c, uint16_t type, uint32_t error,
			const char *text, size_t tail)
{
	size_t len = text ? nbd_text_cut(text, strlen(text), NBD_ERROR_TEXT_MAX) : 0, n;

	assert(error != NBD_SUCCESS);
	n = put_header(p, c, type, 6 + len + tail);
	nbd_put_be32(p + n, error);
	nbd_put_be16(p + n + 4, (uint16_t)len);
	if (len)
		memcpy(p + n + 6, text, len);
	return n + 6 + len;
}

size_t nbd_put_error(uint8_t *p, const struct nbd_chunk *c, uint32_t error, const char *text)
{
	return put_error(p, c, NBD_REPLY_TYPE_ERROR, error, text, 0);
}

size_t nbd_put_error_at(uint8_t *p, const struct nbd_chunk *c, uint32_t error, const char *text,
			uint64_t at)
{
	size_t n = put_error(p, c, NBD_REPLY_TYPE_ERROR_OFFSET, error, text, 8);

	nbd_put_be64(p + n, at);
	return n + 8;
}

size_t nbd_put_status(uint8_t *p, const struct nbd_chunk *c, uint32_t id, uint32_t n)
{
	bool extended = c->mode == NBD_MODE_EXTENDED;
	size_t fields = extended ? 8 : 4;
	size_t at = put_header(p, c, extended ? NBD_REPLY_TYPE_BLOCK_STATUS_EXT
					      : NBD_REPLY_TYPE_BLOCK_STATUS,
			       fields + n * nbd_extent_size((enum nbd_mode)c->mode));

	nbd_put_be32(p + at, id);
	if (extended)
		nbd_put_be32(p + at + 4, n);
	return at + fields;
}

void nbd_put_extent(uint8_t *p, enum nbd_mode mode, uint64_t length, uint32_t state)
{
	if (mode == NBD_MODE_EXTENDED) {
		nbd_put_be64(p, length);
		nbd_put_be64(p + 8, state);
		return;
	}
	assert(length <= UINT32_MAX);
	nbd_put_be32(p, (uint32_t)length);
	nbd_put_be32(p + 4, state);
}

/* ---- holes ---- */

enum { LOOK = 4096 };

static bool is_zero(const char *p, size_t n)
{
	enum { FIRST = 16 };
	static const char zero[FIRST];

	if (n <= FIRST)
		return !memcmp(p, zero, n);
	return !memcmp(p, zero, FIRST) && !memcmp(p, p + FIRST, n - FIRST);
}

/* The first bytes of data up to a multiple of LOOK, or all. */
static uint32_t piece(uint64_t at, uint32_t length)
{
	uint32_t n = LOOK - (uint32_t)(at % LOOK);

	return n < length ? n : length;
}

/* Add a stretch; like neighbours become one. */
static unsigned add_span(struct nbd_span *span, unsigned n, uint32_t length, bool hole)
{
	if (n && span[n - 1].hole == hole) {
		span[n - 1].length += length;
		return n;
	}
	span[n] = (struct nbd_span){ length, hole };
	return n + 1;
}

unsigned nbd_find_holes(const char *data, uint64_t at, uint32_t length,
			struct nbd_span span[NBD_SPANS_MAX])
{
	uint32_t done = 0, zeroes = 0;
	unsigned n = 0;

	while (done < length) {
		uint32_t part = piece(at + done, length - done);
		bool zero = n < NBD_SPANS_MAX - 2 && is_zero(data + done, part);

		done += part;
		if (zero) {
			zeroes += part;
			if (done < length)
				continue;
		}
		if (zeroes)
			n = add_span(span, n, zeroes, zeroes >= NBD_HOLE_MIN || zeroes == length);
		zeroes = 0;
		if (!zero)
			n = add_span(span, n, part, false);
	}
	return n;
}
