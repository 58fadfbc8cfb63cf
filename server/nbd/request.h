/*
 * NBD transmission phase: decode and check a request. Replies: reply.h.
 *
 * Pure functions over bytes, without state: callable from any thread, under any lock. What a
 * connection has to do with a request is in the verdict, so that the rules of the specification
 * (doc/proto.md, "Transmission phase", "Error values"; extended headers: branch
 * extension-ext-header) are in one place, request.c.
 */
#ifndef SERVER_NBD_REQUEST_H
#define SERVER_NBD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/nbd/protocol.h"

/*
 * What an export, or its store, can do. Plain input of nbd_transmission_flags(). FLUSH and FUA
 * are not here: liftd always honours both.
 */
struct nbd_capabilities {
	bool read_only;
	bool rotational;
	bool trim;
	bool write_zeroes;
	bool fast_zero;		/* can tell at once that zeroing would not beat writing */
	bool cache;
	bool multi_conn;	/* all connections see one another's answered writes and flushes */
};

/*
 * The flags word to advertise for an export with these capabilities. Always has HAS_FLAGS,
 * SEND_FLUSH and SEND_FUA (a flush of a read-only export is legal and does nothing harmful).
 * Read-only: neither TRIM nor WRITE_ZEROES nor FAST_ZERO, which could only fail; some clients
 * would set up discard on a device that refuses it. FAST_ZERO goes only with WRITE_ZEROES.
 */
uint16_t nbd_transmission_flags(const struct nbd_capabilities *caps);

/* How requests and replies are laid out: the handshake's outcome. */
enum nbd_mode {
	NBD_MODE_SIMPLE,	/* simple replies */
	NBD_MODE_STRUCTURED,	/* STRUCTURED_REPLY: replies in chunks */
	NBD_MODE_EXTENDED,	/* EXTENDED_HEADERS: chunks, and 64-bit lengths both ways */
};

/* Metadata contexts, as bits; the id of one on the wire is its number of the bit, from 1. */
enum nbd_context {
	NBD_CONTEXT_ALLOCATION = 1,	/* base:allocation */
};

#define NBD_ID_ALLOCATION	1U	/* the only one there is */

/*
 * What requests of one connection are checked against: a plain copy that the connection keeps,
 * taken from struct nbd_export_info when the handshake ends. mode and contexts are the
 * handshake's.
 */
struct nbd_export_limits {
	uint64_t size;		/* bytes, < 2^63 */
	uint32_t max_payload;	/* most bytes of one READ or WRITE; 0 means NBD_MAX_PAYLOAD */
	uint32_t min_block;	/* offset and length align to it, a power of two; 0 or 1: none */
	uint16_t flags;		/* as advertised: nbd_transmission_flags() and what mode adds */
	uint8_t mode;		/* enum nbd_mode */
	uint8_t contexts;	/* bits of enum nbd_context: selected by the client */
};

/* The payload of a BLOCK_STATUS (extended headers): effective length 8, context ids 4 each. */
#define NBD_STATUS_PAYLOAD_MIN	12U
#define NBD_STATUS_PAYLOAD_MAX	4096U	/* larger ones are refused */

enum nbd_verdict {
	/*
	 * Execute it: command is READ, WRITE, FLUSH, TRIM, WRITE_ZEROES, CACHE or BLOCK_STATUS,
	 * all flags are legal, the range lies within the export, length > 0 (FLUSH: offset and
	 * length are 0). `payload` bytes of data follow the header: WRITE: length; BLOCK_STATUS:
	 * maybe, and then nbd_decode_status() says more when they are here; else 0.
	 */
	NBD_REQUEST_OK,
	/*
	 * Answer it without executing: discard `payload` bytes that follow the header (any 32-bit
	 * number, so discard while reading, never buffer), then send a reply with `error`. error
	 * may be NBD_SUCCESS: a request of zero length is a no-op.
	 */
	NBD_REQUEST_REPLY,
	/* DISC: finish and answer what was received before, send no reply to this, close. */
	NBD_REQUEST_DISCONNECT,
	/*
	 * Not a request (bad magic), or one with a payload that nobody can skip: the stream is
	 * out of step, close at once.
	 */
	NBD_REQUEST_CLOSE,
};

struct nbd_request {
	uint64_t cookie;	/* the client's, echoed in the reply; never interpreted */
	uint64_t offset;	/* bytes */
	uint64_t length;	/* bytes; FLUSH, and a BLOCK_STATUS with payload: 0 */
	uint32_t payload;	/* bytes on the wire after the header, see the verdicts */
	uint32_t error;		/* NBD_E*, for NBD_REQUEST_REPLY, else 0 */
	uint16_t command;	/* NBD_CMD_* */
	uint16_t flags;		/* NBD_CMD_FLAG_*; a REPLY's are as received, possibly unknown */
	const char *reason;	/* why it is not OK, for people; a constant string; OK: NULL */
};

/* Bytes of a request's header. */
static inline size_t nbd_request_size(enum nbd_mode mode)
{
	return mode == NBD_MODE_EXTENDED ? NBD_EXTENDED_REQUEST_SIZE : NBD_REQUEST_SIZE;
}

/*
 * Decode the nbd_request_size(limits->mode) bytes at `header` and check the request against
 * `limits`. All of *rq is written, whatever the verdict (CLOSE: zeroes, but for reason).
 *
 * The first rule that a request breaks decides:
 *  1. wrong magic: CLOSE. DISC: DISCONNECT, whatever its other fields say.
 *  2. a command that is unknown: EINVAL. The connection stays; no payload is assumed, since only
 *     WRITE has one, unless PAYLOAD_LEN says so. (RESIZE is unknown: nobody can negotiate it.)
 *  3. a modifying command (WRITE, TRIM, WRITE_ZEROES) on a read-only export: EPERM.
 *  4. a command that is not advertised: EINVAL. BLOCK_STATUS without a context: EINVAL.
 *  5. flags: FUA goes with every command if advertised; NO_HOLE and FAST_ZERO (if advertised) only
 *     with WRITE_ZEROES; DF (if advertised) only with READ; REQ_ONE only with BLOCK_STATUS;
 *     PAYLOAD_LEN only with extended headers, and WRITE and BLOCK_STATUS; all else is EINVAL.
 *  6. FLUSH with an offset or a length: EINVAL.
 *  7. READ or WRITE longer than max_payload: EINVAL. The others may have any length.
 *  8. a range not within the export, computed without overflow: ENOSPC for WRITE and
 *     WRITE_ZEROES, EINVAL for the others.
 *  9. offset or length not aligned to min_block: EINVAL.
 * 10. zero length: success, without being executed; but EINVAL for BLOCK_STATUS, whose answer
 *     could not be given. (FLUSH has none.)
 * A request that is refused has payload all the same: it must be consumed to stay in step. One of
 * 4 GiB or more is a CLOSE. A WRITE with extended headers should have PAYLOAD_LEN; without it its
 * data is expected too, as QEMU does.
 */
enum nbd_verdict nbd_decode_request(const uint8_t *header, const struct nbd_export_limits *limits,
				    struct nbd_request *rq);

/*
 * The payload of a BLOCK_STATUS, rq->payload bytes: takes the length from it, and which contexts
 * are wanted (bits of enum nbd_context; some of those selected). Verdict OK or REPLY, by the
 * rules 7 to 10; ids that were not selected or come twice, and none at all: EINVAL.
 */
enum nbd_verdict nbd_decode_status(const uint8_t *payload, const struct nbd_export_limits *limits,
				   struct nbd_request *rq, uint8_t *contexts);

/*
 * Reduce an errno, of either sign, to what may stand in a reply to `rq` (its command and flags
 * matter, nothing else). 0 gives NBD_SUCCESS.
 * EPERM, EROFS, EACCES: EPERM. ENOSPC, EDQUOT, EFBIG: ENOSPC. ENOMEM, EINVAL, ESHUTDOWN:
 * themselves. ENOTSUP: itself for WRITE_ZEROES with FAST_ZERO, the only place where a client
 * expects it, else EINVAL. EOVERFLOW: itself for READ with DF, else EINVAL. Everything else: EIO.
 * rq may be NULL: then neither of the two.
 */
uint32_t nbd_error_from_errno(int err, const struct nbd_request *rq);

/* "READ", "WRITE", ...; "unknown" for others. A constant string. */
const char *nbd_command_name(uint16_t command);

#endif
