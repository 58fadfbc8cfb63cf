#include "server/nbd/request.h"

#include <errno.h>

/*
 * What the specification says about each command. A command without a row is unknown. A row more
 * is all that decoding a new one takes.
 */
struct command {
	const char *name;
	uint16_t needs;		/* transmission flag that advertises it; 0: always there */
	uint16_t flags;		/* command flags that are legal, beside FUA */
	bool modifies;		/* refused on a read-only export */
	bool payload;		/* `length` bytes of data follow the request */
	bool transfers;		/* moves `length` bytes, either way: limited by max_payload */
	bool needs_context;	/* of metadata */
	bool may_have_payload;	/* if BLOCK_STAT_PAYLOAD is advertised */
	uint32_t past_end;	/* error for a range that leaves the export; 0: has no range */
};

static const struct command commands[] = {
	[NBD_CMD_READ] = {
		.name = "READ",
		.flags = NBD_CMD_FLAG_DF,
		.transfers = true,
		.past_end = NBD_EINVAL,
	},
	[NBD_CMD_WRITE] = {
		.name = "WRITE",
		.modifies = true,
		.payload = true,
		.transfers = true,
		.past_end = NBD_ENOSPC,
	},
	[NBD_CMD_DISC] = {
		.name = "DISC",
	},
	[NBD_CMD_FLUSH] = {
		.name = "FLUSH",
		.needs = NBD_FLAG_SEND_FLUSH,
	},
	[NBD_CMD_TRIM] = {
		.name = "TRIM",
		.needs = NBD_FLAG_SEND_TRIM,
		.modifies = true,
		.past_end = NBD_EINVAL,
	},
	[NBD_CMD_CACHE] = {
		.name = "CACHE",
		.needs = NBD_FLAG_SEND_CACHE,
		.past_end = NBD_EINVAL,
	},
	[NBD_CMD_WRITE_ZEROES] = {
		.name = "WRITE_ZEROES",
		.needs = NBD_FLAG_SEND_WRITE_ZEROES,
		.flags = NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
		.modifies = true,
		.past_end = NBD_ENOSPC,
	},
	[NBD_CMD_BLOCK_STATUS] = {
		.name = "BLOCK_STATUS",
		.flags = NBD_CMD_FLAG_REQ_ONE,
		.needs_context = true,
		.may_have_payload = true,
		.past_end = NBD_EINVAL,
	},
};

static const struct command *find_command(uint16_t number)
{
	if (number >= sizeof(commands) / sizeof(commands[0]) || !commands[number].name)
		return NULL;
	return &commands[number];
}

const char *nbd_command_name(uint16_t command)
{
	const struct command *cmd = find_command(command);

	return cmd ? cmd->name : "unknown";
}

uint16_t nbd_transmission_flags(const struct nbd_capabilities *caps)
{
	uint16_t flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA;

	if (caps->rotational)
		flags |= NBD_FLAG_ROTATIONAL;
	if (caps->multi_conn)
		flags |= NBD_FLAG_CAN_MULTI_CONN;
	if (caps->cache)
		flags |= NBD_FLAG_SEND_CACHE;
	if (caps->read_only)
		return flags | NBD_FLAG_READ_ONLY;
	if (caps->trim)
		flags |= NBD_FLAG_SEND_TRIM;
	if (caps->write_zeroes)
		flags |= NBD_FLAG_SEND_WRITE_ZEROES;
	if (caps->write_zeroes && caps->fast_zero)
		flags |= NBD_FLAG_SEND_FAST_ZERO;
	return flags;
}

static enum nbd_verdict answer(struct nbd_request *rq, uint32_t error, const char *reason)
{
	rq->error = error;
	rq->reason = reason;
	return NBD_REQUEST_REPLY;
}

static uint16_t legal_flags(const struct command *cmd, const struct nbd_export_limits *limits)
{
	uint16_t flags = cmd->flags;

	if (limits->flags & NBD_FLAG_SEND_FUA)
		flags |= NBD_CMD_FLAG_FUA;
	if (!(limits->flags & NBD_FLAG_SEND_FAST_ZERO))
		flags &= (uint16_t)~NBD_CMD_FLAG_FAST_ZERO;
	if (!(limits->flags & NBD_FLAG_SEND_DF))
		flags &= (uint16_t)~NBD_CMD_FLAG_DF;
	if (limits->mode == NBD_MODE_EXTENDED &&
	    (cmd->payload || (cmd->may_have_payload && limits->flags & NBD_FLAG_BLOCK_STAT_PAYLOAD)))
		flags |= NBD_CMD_FLAG_PAYLOAD_LEN;
	return flags;
}

/* Offset and length of a command that has a range. */
static enum nbd_verdict check_range(const struct command *cmd, struct nbd_request *rq,
				    const struct nbd_export_limits *limits)
{
	uint32_t max = limits->max_payload ? limits->max_payload : NBD_MAX_PAYLOAD;
	uint32_t align = limits->min_block ? limits->min_block : 1;

	if (cmd->transfers && rq->length > max)
		return answer(rq, NBD_EINVAL, "longer than the largest payload");
	/* Not offset + length: the client may make that wrap. */
	if (rq->offset > limits->size || rq->length > limits->size - rq->offset)
		return answer(rq, cmd->past_end, "beyond the end of the export");
	if ((rq->offset | rq->length) & (align - 1))
		return answer(rq, NBD_EINVAL, "not aligned to the minimum block size");
	if (rq->length)
		return NBD_REQUEST_OK;
	if (cmd->needs_context)
		return answer(rq, NBD_EINVAL, "zero length");
	return answer(rq, NBD_SUCCESS, "zero length");
}

/* The fields of a header. False: it is none. */
static bool read_header(const uint8_t *header, enum nbd_mode mode, struct nbd_request *rq)
{
	bool extended = mode == NBD_MODE_EXTENDED;

	if (nbd_get_be32(header) != (extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC))
		return false;
	*rq = (struct nbd_request){
		.flags = nbd_get_be16(header + 4),
		.command = nbd_get_be16(header + 6),
		.cookie = nbd_get_be64(header + 8),
		.offset = nbd_get_be64(header + 16),
		.length = extended ? nbd_get_be64(header + 24) : nbd_get_be32(header + 24),
	};
	return true;
}

/*
 * How many bytes follow the header. Of a command that has a payload sometimes, and has one now, the
 * length is in there.
 */
static uint64_t take_payload_length(const struct command *cmd, enum nbd_mode mode,
				    struct nbd_request *rq)
{
	bool announced = mode == NBD_MODE_EXTENDED && rq->flags & NBD_CMD_FLAG_PAYLOAD_LEN;
	uint64_t payload = announced || (cmd && cmd->payload) ? rq->length : 0;

	if (announced && cmd && cmd->may_have_payload)
		rq->length = 0;
	return payload;
}

static enum nbd_verdict close_on(struct nbd_request *rq, const char *reason)
{
	*rq = (struct nbd_request){ .reason = reason };
	return NBD_REQUEST_CLOSE;
}

/* Everything but the range. */
static enum nbd_verdict check_command(const struct command *cmd, struct nbd_request *rq,
				      const struct nbd_export_limits *limits)
{
	if (!cmd)
		return answer(rq, NBD_EINVAL, "unknown command");
	if (cmd->modifies && (limits->flags & NBD_FLAG_READ_ONLY))
		return answer(rq, NBD_EPERM, "the export is read-only");
	if ((limits->flags & cmd->needs) != cmd->needs)
		return answer(rq, NBD_EINVAL, "command not offered for this export");
	if (cmd->needs_context && !limits->contexts)
		return answer(rq, NBD_EINVAL, "no metadata context was selected");
	if (rq->flags & ~legal_flags(cmd, limits))
		return answer(rq, NBD_EINVAL, "flag not offered or not for this command");
	return NBD_REQUEST_OK;
}

enum nbd_verdict nbd_decode_request(const uint8_t *header, const struct nbd_export_limits *limits,
				    struct nbd_request *rq)
{
	enum nbd_mode mode = (enum nbd_mode)limits->mode;
	const struct command *cmd;
	enum nbd_verdict verdict;
	uint64_t payload;

	if (!read_header(header, mode, rq))
		return close_on(rq, "wrong request magic");
	if (rq->command == NBD_CMD_DISC) {
		rq->reason = "client disconnects";
		return NBD_REQUEST_DISCONNECT;
	}
	cmd = find_command(rq->command);
	payload = take_payload_length(cmd, mode, rq);
	if (payload > UINT32_MAX)
		return close_on(rq, "a payload of 4 GiB or more");
	rq->payload = (uint32_t)payload;
	verdict = check_command(cmd, rq, limits);
	if (verdict != NBD_REQUEST_OK)
		return verdict;
	if (cmd->may_have_payload && rq->flags & NBD_CMD_FLAG_PAYLOAD_LEN) {
		if (payload < NBD_STATUS_PAYLOAD_MIN || payload > NBD_STATUS_PAYLOAD_MAX ||
		    payload % 4)
			return answer(rq, NBD_EINVAL, "a payload that is no list of contexts");
		return NBD_REQUEST_OK;
	}
	if (cmd->past_end)
		return check_range(cmd, rq, limits);
	if (rq->offset || rq->length)
		return answer(rq, NBD_EINVAL, "offset and length must be 0");
	return NBD_REQUEST_OK;
}

enum nbd_verdict nbd_decode_status(const uint8_t *payload, const struct nbd_export_limits *limits,
				   struct nbd_request *rq, uint8_t *contexts)
{
	*contexts = 0;
	rq->length = nbd_get_be64(payload);
	for (uint32_t at = 8; at + 4 <= rq->payload; at += 4) {
		uint32_t id = nbd_get_be32(payload + at);
		uint8_t bit = id && id <= 8 ? (uint8_t)(1U << (id - 1)) : 0;

		if (!(bit & limits->contexts) || bit & *contexts)
			return answer(rq, NBD_EINVAL, "a context that was not selected, or twice");
		*contexts |= bit;
	}
	return check_range(find_command(rq->command), rq, limits);
}

uint32_t nbd_error_from_errno(int err, const struct nbd_request *rq)
{
	switch (err > 0 ? -err : err) {
	case 0:
		return NBD_SUCCESS;
	case -EPERM:
	case -EACCES:
	case -EROFS:
		return NBD_EPERM;
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return NBD_ENOSPC;
	case -ENOMEM:
		return NBD_ENOMEM;
	case -EINVAL:
		return NBD_EINVAL;
	case -ESHUTDOWN:
		return NBD_ESHUTDOWN;
	case -EOPNOTSUPP:	/* is ENOTSUP */
		if (rq && rq->command == NBD_CMD_WRITE_ZEROES &&
		    (rq->flags & NBD_CMD_FLAG_FAST_ZERO))
			return NBD_ENOTSUP;
		return NBD_EINVAL;
	case -EOVERFLOW:
		if (rq && rq->command == NBD_CMD_READ && (rq->flags & NBD_CMD_FLAG_DF))
			return NBD_EOVERFLOW;
		return NBD_EINVAL;
	default:
		return NBD_EIO;
	}
}
