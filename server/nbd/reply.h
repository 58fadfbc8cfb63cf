/*
 * NBD transmission phase: the bytes of replies.
 *
 * A simple reply is a header, with a successful READ's data behind it. Structured and extended
 * replies are chunks, each with a header and its own fields; the last of a request carries DONE.
 * What is written here are the heads: all but bulk data, which the caller sends behind them from
 * where it lies. Pure functions over bytes, without state. doc/proto.md, "Structured reply types".
 */
#ifndef SERVER_NBD_REPLY_H
#define SERVER_NBD_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/nbd/protocol.h"
#include "server/nbd/request.h"

/* Bytes of a text in an error chunk, and of the largest head. */
#define NBD_ERROR_TEXT_MAX	200U
#define NBD_REPLY_HEAD_MAX	(NBD_EXTENDED_CHUNK_SIZE + 14 + NBD_ERROR_TEXT_MAX)

/*
 * Encode the header of a simple reply. error: NBD_SUCCESS or NBD_E*; a successful READ's data
 * follows the header, nothing follows an error.
 */
void nbd_encode_simple_reply(uint8_t reply[NBD_SIMPLE_REPLY_SIZE], uint32_t error,
			     uint64_t cookie);

/* To which request a chunk belongs, and whether it is the last. mode: not simple. */
struct nbd_chunk {
	uint64_t cookie;
	uint64_t offset;	/* the request's: extended replies echo it */
	uint8_t mode;		/* enum nbd_mode */
	bool done;
};

/*
 * Each writes one chunk's head to p, which has room for NBD_REPLY_HEAD_MAX bytes, and returns its
 * length. at, length: bytes of the export.
 */

/* Success without content. */
size_t nbd_put_none(uint8_t *p, const struct nbd_chunk *c);

/* length bytes of data follow. */
size_t nbd_put_data(uint8_t *p, const struct nbd_chunk *c, uint64_t at, uint32_t length);

/* These bytes read as zeroes; length > 0. Nothing follows. */
size_t nbd_put_hole(uint8_t *p, const struct nbd_chunk *c, uint64_t at, uint32_t length);

/*
 * error: NBD_E*, not NBD_SUCCESS. text: a sentence in UTF-8 for people, cut to
 * NBD_ERROR_TEXT_MAX bytes; NULL: none. _at: what is wrong is at this offset.
 */
size_t nbd_put_error(uint8_t *p, const struct nbd_chunk *c, uint32_t error, const char *text);
size_t nbd_put_error_at(uint8_t *p, const struct nbd_chunk *c, uint32_t error, const char *text,
			uint64_t at);

/* n extents of the context with this id follow: nbd_put_extent(). */
size_t nbd_put_status(uint8_t *p, const struct nbd_chunk *c, uint32_t id, uint32_t n);

static inline size_t nbd_extent_size(enum nbd_mode mode)
{
	return mode == NBD_MODE_EXTENDED ? 16 : 8;
}

/*
 * One of them: nbd_extent_size() bytes at p. state: NBD_STATE_*. length > 0, and < 2^32 in a
 * structured reply, as those within a request's range are.
 */
void nbd_put_extent(uint8_t *p, enum nbd_mode mode, uint64_t length, uint32_t state);

/* A stretch of data that was read: zeroes, or something else. */
struct nbd_span {
	uint32_t length;
	bool hole;
};

enum {
	NBD_SPANS_MAX = 65,		/* of one call */
	NBD_HOLE_MIN = 32 << 10,	/* bytes of zeroes that are worth a chunk of their own */
};

/*
 * Which parts of data are zeroes: all of it, or stretches of at least NBD_HOLE_MIN bytes, found by
 * looking at the bytes, at multiples of 4 KiB of `at`, its offset. Fills span[] with alternating
 * ones that add up to length > 0 and returns how many, at least 1. Where there is data, only the
 * first bytes of each 4 KiB are looked at.
 */
unsigned nbd_find_holes(const char *data, uint64_t at, uint32_t length,
			struct nbd_span span[NBD_SPANS_MAX]);

#endif
