/*
 * NBD wire constants and byte order.
 *
 * Numbers as in the NBD protocol specification (NetworkBlockDevice, doc/proto.md). Everything on
 * the wire is big-endian and unaligned: it is read and written with the helpers at the end of
 * this file, never through a struct laid over the bytes. Only what liftd speaks is listed, and
 * beside it what it must recognise in order to refuse it properly.
 */
#ifndef SERVER_NBD_PROTOCOL_H
#define SERVER_NBD_PROTOCOL_H

#include <stdint.h>

/* Magic numbers. */
#define NBD_MAGIC		0x4e42444d41474943ULL	/* "NBDMAGIC", first 8 bytes of a server */
#define NBD_OPTION_MAGIC	0x49484156454f5054ULL	/* "IHAVEOPT", greeting and each option */
#define NBD_OPTION_REPLY_MAGIC	0x0003e889045565a9ULL
#define NBD_REQUEST_MAGIC	0x25609513U
#define NBD_EXTENDED_REQUEST_MAGIC	0x21e41c71U	/* after EXTENDED_HEADERS */
#define NBD_SIMPLE_REPLY_MAGIC	0x67446698U
#define NBD_STRUCTURED_REPLY_MAGIC	0x668e33efU	/* a chunk, after STRUCTURED_REPLY */
#define NBD_EXTENDED_REPLY_MAGIC	0x6e8a278cU	/* a chunk, after EXTENDED_HEADERS */

/* Sizes of fixed parts, in bytes. */
#define NBD_GREETING_SIZE	18	/* NBDMAGIC, IHAVEOPT, handshake flags */
#define NBD_CLIENT_FLAGS_SIZE	4
#define NBD_OPTION_HEADER_SIZE	16	/* magic 8, option 4, length 4 */
#define NBD_OPTION_REPLY_SIZE	20	/* magic 8, option 4, reply type 4, length 4 */
#define NBD_EXPORT_REPLY_SIZE	10	/* answer to EXPORT_NAME: size 8, flags 2 ... */
#define NBD_EXPORT_REPLY_ZEROES	124	/* ... and these zeroes, unless NO_ZEROES was agreed on */
#define NBD_REQUEST_SIZE	28	/* magic 4, flags 2, type 2, cookie 8, offset 8, length 4 */
#define NBD_EXTENDED_REQUEST_SIZE 32	/* the same, but length 8 */
#define NBD_SIMPLE_REPLY_SIZE	16	/* magic 4, error 4, cookie 8 */
#define NBD_CHUNK_SIZE		20	/* magic 4, flags 2, type 2, cookie 8, length 4 */
#define NBD_EXTENDED_CHUNK_SIZE	32	/* magic 4, flags 2, type 2, cookie 8, offset 8, length 8 */

/* Limits of the specification. */
#define NBD_STRING_MAX		4096	/* bytes of a name, a description or an error text */
#define NBD_MAX_PAYLOAD		(32U << 20)	/* most data of one READ or WRITE, in bytes */

/* Handshake flags (server, 16 bits) and client flags (32 bits). */
#define NBD_FLAG_FIXED_NEWSTYLE		(1U << 0)
#define NBD_FLAG_NO_ZEROES		(1U << 1)
#define NBD_FLAG_C_FIXED_NEWSTYLE	(1U << 0)
#define NBD_FLAG_C_NO_ZEROES		(1U << 1)

/* Transmission flags (16 bits): what an export can do. */
#define NBD_FLAG_HAS_FLAGS		(1U << 0)
#define NBD_FLAG_READ_ONLY		(1U << 1)
#define NBD_FLAG_SEND_FLUSH		(1U << 2)
#define NBD_FLAG_SEND_FUA		(1U << 3)
#define NBD_FLAG_ROTATIONAL		(1U << 4)
#define NBD_FLAG_SEND_TRIM		(1U << 5)
#define NBD_FLAG_SEND_WRITE_ZEROES	(1U << 6)
#define NBD_FLAG_SEND_DF		(1U << 7)	/* only with structured replies */
#define NBD_FLAG_CAN_MULTI_CONN		(1U << 8)
#define NBD_FLAG_SEND_CACHE		(1U << 10)
#define NBD_FLAG_SEND_FAST_ZERO		(1U << 11)
#define NBD_FLAG_BLOCK_STAT_PAYLOAD	(1U << 12)	/* only with extended headers */

/* Options. */
#define NBD_OPT_EXPORT_NAME		1U
#define NBD_OPT_ABORT			2U
#define NBD_OPT_LIST			3U
#define NBD_OPT_PEEK_EXPORT		4U	/* withdrawn */
#define NBD_OPT_STARTTLS		5U
#define NBD_OPT_INFO			6U
#define NBD_OPT_GO			7U
#define NBD_OPT_STRUCTURED_REPLY	8U
#define NBD_OPT_LIST_META_CONTEXT	9U
#define NBD_OPT_SET_META_CONTEXT	10U
#define NBD_OPT_EXTENDED_HEADERS	11U

/* Option replies; bit 31 marks an error. */
#define NBD_REP_ERR(n)			((1U << 31) | (n))
#define NBD_REP_ACK			1U
#define NBD_REP_SERVER			2U
#define NBD_REP_INFO			3U
#define NBD_REP_META_CONTEXT		4U
#define NBD_REP_ERR_UNSUP		NBD_REP_ERR(1U)
#define NBD_REP_ERR_POLICY		NBD_REP_ERR(2U)
#define NBD_REP_ERR_INVALID		NBD_REP_ERR(3U)
#define NBD_REP_ERR_PLATFORM		NBD_REP_ERR(4U)
#define NBD_REP_ERR_TLS_REQD		NBD_REP_ERR(5U)
#define NBD_REP_ERR_UNKNOWN		NBD_REP_ERR(6U)
#define NBD_REP_ERR_SHUTDOWN		NBD_REP_ERR(7U)
#define NBD_REP_ERR_BLOCK_SIZE_REQD	NBD_REP_ERR(8U)
#define NBD_REP_ERR_TOO_BIG		NBD_REP_ERR(9U)
#define NBD_REP_ERR_EXT_HEADER_REQD	NBD_REP_ERR(10U)

/* Information items of INFO and GO. */
#define NBD_INFO_EXPORT			0U
#define NBD_INFO_NAME			1U
#define NBD_INFO_DESCRIPTION		2U
#define NBD_INFO_BLOCK_SIZE		3U

/* Commands. */
#define NBD_CMD_READ			0U
#define NBD_CMD_WRITE			1U
#define NBD_CMD_DISC			2U
#define NBD_CMD_FLUSH			3U
#define NBD_CMD_TRIM			4U
#define NBD_CMD_CACHE			5U
#define NBD_CMD_WRITE_ZEROES		6U
#define NBD_CMD_BLOCK_STATUS		7U
#define NBD_CMD_RESIZE			8U

/* Command flags (16 bits). */
#define NBD_CMD_FLAG_FUA		(1U << 0)
#define NBD_CMD_FLAG_NO_HOLE		(1U << 1)
#define NBD_CMD_FLAG_DF			(1U << 2)
#define NBD_CMD_FLAG_REQ_ONE		(1U << 3)
#define NBD_CMD_FLAG_FAST_ZERO		(1U << 4)
#define NBD_CMD_FLAG_PAYLOAD_LEN	(1U << 5)

/* Chunks of structured and extended replies: flags (16 bits) and types; bit 15 marks an error. */
#define NBD_REPLY_FLAG_DONE		(1U << 0)
#define NBD_REPLY_TYPE_NONE		0U
#define NBD_REPLY_TYPE_OFFSET_DATA	1U
#define NBD_REPLY_TYPE_OFFSET_HOLE	2U
#define NBD_REPLY_TYPE_BLOCK_STATUS	5U
#define NBD_REPLY_TYPE_BLOCK_STATUS_EXT	6U
#define NBD_REPLY_TYPE_ERROR		0x8001U
#define NBD_REPLY_TYPE_ERROR_OFFSET	0x8002U

/* Flags of an extent in the metadata context base:allocation. */
#define NBD_STATE_HOLE			(1U << 0)
#define NBD_STATE_ZERO			(1U << 1)

/* Error numbers of replies. They equal Linux's, but only these may appear. */
#define NBD_SUCCESS			0U
#define NBD_EPERM			1U
#define NBD_EIO				5U
#define NBD_ENOMEM			12U
#define NBD_EINVAL			22U
#define NBD_ENOSPC			28U
#define NBD_EOVERFLOW			75U
#define NBD_ENOTSUP			95U
#define NBD_ESHUTDOWN			108U

/* Big-endian access to unaligned bytes. p must have 2, 4 or 8 bytes. Any thread. */
static inline uint16_t nbd_get_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t nbd_get_be32(const uint8_t *p)
{
	return (uint32_t)nbd_get_be16(p) << 16 | nbd_get_be16(p + 2);
}

static inline uint64_t nbd_get_be64(const uint8_t *p)
{
	return (uint64_t)nbd_get_be32(p) << 32 | nbd_get_be32(p + 4);
}

static inline void nbd_put_be16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void nbd_put_be32(uint8_t *p, uint32_t v)
{
	nbd_put_be16(p, (uint16_t)(v >> 16));
	nbd_put_be16(p + 2, (uint16_t)v);
}

static inline void nbd_put_be64(uint8_t *p, uint64_t v)
{
	nbd_put_be32(p, (uint32_t)(v >> 32));
	nbd_put_be32(p + 4, (uint32_t)v);
}

#endif
