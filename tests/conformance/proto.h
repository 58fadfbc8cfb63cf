/*
 * The numbers of the NBD protocol that the conformance program needs, from the specification
 * (NetworkBlockDevice, doc/proto.md, and its branch extension-ext-header).
 *
 * Not server/nbd/protocol.h: the judge and the judged have no mistake in common.
 */
#ifndef TESTS_CONFORMANCE_PROTO_H
#define TESTS_CONFORMANCE_PROTO_H

#include <stddef.h>
#include <stdint.h>

#define MAGIC_GREETING     UINT64_C(0x4e42444d41474943)
#define MAGIC_OPTION       UINT64_C(0x49484156454f5054)
#define MAGIC_OPTION_REPLY UINT64_C(0x0003e889045565a9)
#define MAGIC_REQUEST      UINT32_C(0x25609513)
#define MAGIC_REQUEST_EXT  UINT32_C(0x21e41c71)
#define MAGIC_SIMPLE       UINT32_C(0x67446698)
#define MAGIC_STRUCTURED   UINT32_C(0x668e33ef)
#define MAGIC_EXTENDED     UINT32_C(0x6e8a278c)

enum { STRING_MOST = 4096 };

enum { HS_FIXED = 1, HS_NO_ZEROES = 2 };	/* handshake flags, client flags */

enum {
	OPT_EXPORT_NAME = 1, OPT_ABORT, OPT_LIST, OPT_PEEK_EXPORT, OPT_STARTTLS, OPT_INFO, OPT_GO,
	OPT_STRUCTURED_REPLY, OPT_LIST_META, OPT_SET_META, OPT_EXTENDED_HEADERS,
};

#define REP_ERROR UINT32_C(0x80000000)
#define REP_ACK             UINT32_C(1)
#define REP_SERVER          UINT32_C(2)
#define REP_INFO            UINT32_C(3)
#define REP_META            UINT32_C(4)
#define ERR_UNSUP           (REP_ERROR | 1)
#define ERR_POLICY          (REP_ERROR | 2)
#define ERR_INVALID         (REP_ERROR | 3)
#define ERR_PLATFORM        (REP_ERROR | 4)
#define ERR_TLS_REQD        (REP_ERROR | 5)
#define ERR_UNKNOWN         (REP_ERROR | 6)
#define ERR_SHUTDOWN        (REP_ERROR | 7)
#define ERR_BLOCK_SIZE_REQD (REP_ERROR | 8)
#define ERR_TOO_BIG         (REP_ERROR | 9)
#define ERR_EXT_HEADER_REQD (REP_ERROR | 10)

enum { INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE };

enum {				/* transmission flags */
	TF_HAS_FLAGS = 1 << 0, TF_READ_ONLY = 1 << 1, TF_FLUSH = 1 << 2, TF_FUA = 1 << 3,
	TF_ROTATIONAL = 1 << 4, TF_TRIM = 1 << 5, TF_WRITE_ZEROES = 1 << 6, TF_DF = 1 << 7,
	TF_MULTI_CONN = 1 << 8, TF_RESIZE = 1 << 9, TF_CACHE = 1 << 10, TF_FAST_ZERO = 1 << 11,
	TF_STATUS_PAYLOAD = 1 << 12,
};

enum {
	CMD_READ, CMD_WRITE, CMD_DISC, CMD_FLUSH, CMD_TRIM, CMD_CACHE, CMD_WRITE_ZEROES,
	CMD_BLOCK_STATUS, CMD_RESIZE,
};

enum {				/* command flags */
	FLAG_FUA = 1 << 0, FLAG_NO_HOLE = 1 << 1, FLAG_DF = 1 << 2, FLAG_REQ_ONE = 1 << 3,
	FLAG_FAST_ZERO = 1 << 4, FLAG_PAYLOAD_LEN = 1 << 5,
};

enum { CHUNK_DONE = 1 };	/* reply flag */
enum {
	CHUNK_NONE = 0, CHUNK_DATA = 1, CHUNK_HOLE = 2, CHUNK_STATUS = 5, CHUNK_STATUS_EXT = 6,
	CHUNK_ERROR = 0x8001, CHUNK_ERROR_OFFSET = 0x8002,
};

enum { STATE_HOLE = 1, STATE_ZERO = 2 };	/* base:allocation */

enum {
	E_PERM = 1, E_IO = 5, E_NOMEM = 12, E_INVAL = 22, E_NOSPC = 28, E_OVERFLOW = 75,
	E_NOTSUP = 95, E_SHUTDOWN = 108,
};

static inline uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

/* Each returns the byte after what it has written. */
static inline uint8_t *put16(uint8_t *p, unsigned v)
{
	*p++ = (uint8_t)(v >> 8);
	*p++ = (uint8_t)v;
	return p;
}

static inline uint8_t *put32(uint8_t *p, uint32_t v)
{
	return put16(put16(p, v >> 16), v & 0xffff);
}

static inline uint8_t *put64(uint8_t *p, uint64_t v)
{
	return put32(put32(p, (uint32_t)(v >> 32)), (uint32_t)v);
}

#endif
