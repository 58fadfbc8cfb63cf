/*
 * The options of the handshake: their handlers, and the table of them at the end.
 *
 * A handler gets a whole payload and appends the option's replies, the final one last.
 */
#include "server/nbd/option.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/nbd/text.h"

uint8_t *nbd_option_put(struct nbd_handshake *h, struct nbd_out *out, uint32_t type, uint32_t len)
{
	uint8_t *p = nbd_out_reserve(out, NBD_OPTION_REPLY_SIZE + len);

	if (!p)
		return NULL;
	nbd_put_be64(p, NBD_OPTION_REPLY_MAGIC);
	nbd_put_be32(p + 8, h->option);
	nbd_put_be32(p + 12, type);
	nbd_put_be32(p + 16, len);
	return p + NBD_OPTION_REPLY_SIZE;
}

enum step nbd_option_ack(struct nbd_handshake *h, struct nbd_out *out)
{
	return nbd_option_put(h, out, NBD_REP_ACK, 0) ? STEP_NEXT : out_of_memory(h);
}

enum step nbd_option_error(struct nbd_handshake *h, struct nbd_out *out, uint32_t error,
			   const char *fmt, ...)
{
	char text[NBD_HANDSHAKE_TEXT_MAX + 2];	/* one byte more shows where a character is cut */
	size_t len;
	uint8_t *p;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	len = n < 0 ? 0 : nbd_text_cut(text, strlen(text), NBD_HANDSHAKE_TEXT_MAX);
	nbd_text_clean(text, len);
	p = nbd_option_put(h, out, error, (uint32_t)len);
	if (!p)
		return out_of_memory(h);
	memcpy(p, text, len);
	return STEP_NEXT;
}

enum step nbd_option_errno(struct nbd_handshake *h, struct nbd_out *out, int err,
			   const char *text)
{
	static const struct {
		int err;
		uint32_t error;
		const char *text;
	} errors[] = {
		{ -ENOENT, NBD_REP_ERR_UNKNOWN, "there is no export of this name" },
		{ -EACCES, NBD_REP_ERR_POLICY, "access is not permitted" },
		{ -EPERM, NBD_REP_ERR_POLICY, "access is not permitted" },
		{ -EBUSY, NBD_REP_ERR_POLICY, "the export is in use" },
		{ -ESHUTDOWN, NBD_REP_ERR_SHUTDOWN, "the server or the export is shutting down" },
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].err == err)
			return nbd_option_error(h, out, errors[i].error, "%s",
					   text[0] ? text : errors[i].text);
	}
	return nbd_option_error(h, out, NBD_REP_ERR_PLATFORM, "%s",
			   text[0] ? text : "the export cannot be used now");
}

void nbd_option_put_export(struct nbd_handshake *h, struct nbd_export_info *info,
			   enum nbd_find_purpose purpose)
{
	if (h->exports->put)
		h->exports->put(h->ctx, info->export, purpose);
	*info = (struct nbd_export_info){ 0 };
}

/* What was agreed on before makes requests possible that others may not send. */
static void apply_agreement(const struct nbd_handshake *h, struct nbd_export_info *info)
{
	struct nbd_export_limits *limits = &info->limits;

	limits->mode = h->mode;
	limits->contexts = nbd_context_selected(h, info->name, info->name_len);
	if (h->mode != NBD_MODE_SIMPLE)
		limits->flags |= NBD_FLAG_SEND_DF;
	if (h->mode == NBD_MODE_EXTENDED && limits->contexts)
		limits->flags |= NBD_FLAG_BLOCK_STAT_PAYLOAD;
}

int nbd_option_find_export(struct nbd_handshake *h, const uint8_t *name, uint32_t len,
			   enum nbd_find_purpose purpose, struct nbd_export_info *info, char *err,
			   size_t errlen)
{
	int ret;

	*info = (struct nbd_export_info){ 0 };
	err[0] = '\0';
	ret = h->exports->find(h->ctx, len ? (const char *)name : "", len, purpose, info, err,
			       errlen);
	err[errlen - 1] = '\0';
	assert(ret <= 0);
	if (ret)
		*info = (struct nbd_export_info){ 0 };
	else
		apply_agreement(h, info);
	return ret;
}

static enum step handle_export_name(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
				    struct nbd_out *out)
{
	size_t zeroes = h->client_flags & NBD_FLAG_C_NO_ZEROES ? 0 : NBD_EXPORT_REPLY_ZEROES;
	char err[NBD_HANDSHAKE_TEXT_MAX];
	uint8_t *p;

	if (h->mode == NBD_MODE_EXTENDED)
		return close_because(h, "EXPORT_NAME, which extended headers forbid");
	if (!nbd_text_valid((const char *)data, len))
		return close_because(h, "EXPORT_NAME with a name that is no UTF-8");
	if (nbd_option_find_export(h, data, len, NBD_FIND_ATTACH, &h->found, err, sizeof(err)))
		return close_because(h, "EXPORT_NAME with an unknown or refused export");
	p = nbd_out_reserve(out, NBD_EXPORT_REPLY_SIZE + zeroes);
	if (!p) {
		nbd_option_put_export(h, &h->found, NBD_FIND_ATTACH);
		return out_of_memory(h);
	}
	nbd_put_be64(p, h->found.limits.size);
	nbd_put_be16(p + 8, h->found.limits.flags);
	memset(p + NBD_EXPORT_REPLY_SIZE, 0, zeroes);
	return STEP_ENTER;
}

static enum step handle_abort(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
			      struct nbd_out *out)
{
	(void)data;
	(void)len;
	nbd_option_ack(h, out);	/* without memory for it: closing is what matters */
	h->reason = "client aborted the negotiation";
	return STEP_ABORT;
}

/* How much of a description can be shown, in bytes. */
static size_t description_size(const struct nbd_export_info *info)
{
	size_t len = info->description ? info->description_len : 0;

	len = nbd_text_cut(info->description, len, NBD_STRING_MAX);
	return nbd_text_valid(info->description, len) ? len : 0;
}

/* SERVER: length of name, name, description. */
static enum step list_one(struct nbd_handshake *h, const struct nbd_export_info *info,
			  struct nbd_out *out)
{
	size_t text = description_size(info);
	uint8_t *p;

	if (!nbd_text_valid(info->name, info->name_len))
		return STEP_NEXT;
	p = nbd_option_put(h, out, NBD_REP_SERVER, (uint32_t)(4 + info->name_len + text));
	if (!p)
		return out_of_memory(h);
	nbd_put_be32(p, (uint32_t)info->name_len);
	if (info->name_len)
		memcpy(p + 4, info->name, info->name_len);
	if (text)
		memcpy(p + 4 + info->name_len, info->description, text);
	return STEP_NEXT;
}

static enum step handle_list(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
			     struct nbd_out *out)
{
	char err[NBD_HANDSHAKE_TEXT_MAX];
	struct nbd_export_info info;
	enum step step;
	int ret;

	(void)len;
	if (data)
		h->cursor = 0;
	while (out->len < NBD_HANDSHAKE_OUT_HIGH) {
		info = (struct nbd_export_info){ 0 };
		err[0] = '\0';
		ret = h->exports->next(h->ctx, &h->cursor, &info, err, sizeof(err));
		err[sizeof(err) - 1] = '\0';
		if (ret <= 0) {
			h->listed = true;
			return ret ? nbd_option_errno(h, out, ret, err) : nbd_option_ack(h, out);
		}
		/* Some clients ask about each export they are shown, all in one handshake. */
		if (!h->listed && h->options_left < UINT32_MAX - NBD_HANDSHAKE_OPTIONS_PER_EXPORT)
			h->options_left += NBD_HANDSHAKE_OPTIONS_PER_EXPORT;
		step = list_one(h, &info, out);
		nbd_option_put_export(h, &info, NBD_FIND_INFO);
		if (step != STEP_NEXT)
			return step;
	}
	return STEP_AGAIN;
}

/* An INFO or GO as sent by the client. */
struct info_request {
	const uint8_t *name;	/* inside the payload */
	uint32_t name_len;
	uint32_t wanted;	/* bit n: information item n was asked for */
};

/*
 * Length of name, name, count, count items. On anything else the reason goes to out, *step is how
 * the option ends, and false is returned.
 */
static bool parse_info(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
		       struct info_request *rq, struct nbd_out *out, enum step *step)
{
	const char *opt = h->row->name;
	uint32_t count;
	uint16_t item;

	if (len < 6) {
		*step = nbd_option_error(h, out, NBD_REP_ERR_INVALID,
				    "%s has %u bytes of data, at least 6 are needed", opt, len);
		return false;
	}
	rq->name = data + 4;
	rq->name_len = nbd_get_be32(data);
	if (rq->name_len > len - 6) {
		*step = nbd_option_error(h, out, NBD_REP_ERR_INVALID,
				    "%s has a name of %u bytes in %u bytes of data", opt,
				    rq->name_len, len);
		return false;
	}
	data += 4 + rq->name_len;
	len -= 6 + rq->name_len;
	count = nbd_get_be16(data);
	if (len != 2 * count) {
		*step = nbd_option_error(h, out, NBD_REP_ERR_INVALID,
				    "%s asks for %u information items in %u bytes, expected %u",
				    opt, count, len, 2 * count);
		return false;
	}
	if (!nbd_text_valid((const char *)rq->name, rq->name_len)) {
		*step = nbd_option_error(h, out, NBD_REP_ERR_INVALID,
				    "%s has an export name that is not UTF-8 without NUL, of at "
				    "most %u bytes", opt, NBD_STRING_MAX);
		return false;
	}
	rq->wanted = 0;
	for (uint32_t i = 0; i < count; i++) {
		item = nbd_get_be16(data + 2 + 2 * i);
		if (item < 32)
			rq->wanted |= 1U << item;
	}
	return true;
}

/* Append an INFO reply with a string. */
static bool put_info_text(struct nbd_handshake *h, struct nbd_out *out, uint16_t item,
			  const char *text, size_t len)
{
	uint8_t *p = nbd_option_put(h, out, NBD_REP_INFO, (uint32_t)(2 + len));

	if (!p)
		return false;
	nbd_put_be16(p, item);
	if (len)
		memcpy(p + 2, text, len);
	return true;
}

static bool put_info_block_size(struct nbd_handshake *h, struct nbd_out *out,
				const struct nbd_export_info *info)
{
	uint32_t min = info->limits.min_block ? info->limits.min_block : 1;
	uint32_t preferred = info->preferred_block ? info->preferred_block : 4096;
	uint32_t max = info->limits.max_payload ? info->limits.max_payload : NBD_MAX_PAYLOAD;
	uint8_t *p = nbd_option_put(h, out, NBD_REP_INFO, 14);

	if (!p)
		return false;
	if (preferred < 512)
		preferred = 512;
	if (preferred < min)
		preferred = min;
	while (preferred > max) /* a payload must be able to have that */
		preferred /= 2;
	nbd_put_be16(p, NBD_INFO_BLOCK_SIZE);
	nbd_put_be32(p + 2, min);
	nbd_put_be32(p + 6, preferred);
	nbd_put_be32(p + 10, max);
	return true;
}

/* All INFO replies and the ACK. */
static bool put_info(struct nbd_handshake *h, struct nbd_out *out, uint32_t wanted,
		     const struct nbd_export_info *info)
{
	uint8_t *p = nbd_option_put(h, out, NBD_REP_INFO, 12);
	size_t text = description_size(info);

	if (!p)
		return false;
	nbd_put_be16(p, NBD_INFO_EXPORT);
	nbd_put_be64(p + 2, info->limits.size);
	nbd_put_be16(p + 10, info->limits.flags);
	if ((wanted & 1U << NBD_INFO_NAME) && nbd_text_valid(info->name, info->name_len) &&
	    !put_info_text(h, out, NBD_INFO_NAME, info->name, info->name_len))
		return false;
	if ((wanted & 1U << NBD_INFO_DESCRIPTION) && text &&
	    !put_info_text(h, out, NBD_INFO_DESCRIPTION, info->description, text))
		return false;
	if ((wanted & 1U << NBD_INFO_BLOCK_SIZE) && !put_info_block_size(h, out, info))
		return false;
	return nbd_option_put(h, out, NBD_REP_ACK, 0) != NULL;
}

/* INFO and GO: the same but for what comes after. */
static enum step handle_info(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
			     struct nbd_out *out)
{
	bool go = h->option == NBD_OPT_GO;
	enum nbd_find_purpose purpose = go ? NBD_FIND_ATTACH : NBD_FIND_INFO;
	char err[NBD_HANDSHAKE_TEXT_MAX];
	struct nbd_export_info info;
	struct info_request rq;
	enum step step;
	int ret;

	if (!parse_info(h, data, len, &rq, out, &step))
		return step;
	ret = nbd_option_find_export(h, rq.name, rq.name_len, purpose, &info, err, sizeof(err));
	if (ret)
		return nbd_option_errno(h, out, ret, err);
	step = put_info(h, out, rq.wanted, &info) ? STEP_NEXT : out_of_memory(h);
	if (go && step == STEP_NEXT) {
		h->found = info;
		return STEP_ENTER;
	}
	nbd_option_put_export(h, &info, purpose);
	return step;
}

static enum step handle_starttls(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
				 struct nbd_out *out)
{
	(void)data;
	(void)len;
	if (h->secure)
		return nbd_option_error(h, out, NBD_REP_ERR_INVALID, "TLS is in use already");
	if (h->tls == NBD_TLS_OFF)
		return nbd_option_error(h, out, NBD_REP_ERR_POLICY,
					"TLS is not set up on this server");
	return nbd_option_ack(h, out) == STEP_NEXT ? STEP_SECURE : STEP_CLOSE;
}

/* STRUCTURED_REPLY and EXTENDED_HEADERS: each once, and the second takes the first's place. */
static enum step handle_mode(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
			     struct nbd_out *out)
{
	uint8_t mode = h->option == NBD_OPT_EXTENDED_HEADERS ? NBD_MODE_EXTENDED
							     : NBD_MODE_STRUCTURED;

	(void)data;
	(void)len;
	if (mode < h->mode)
		return nbd_option_error(h, out, NBD_REP_ERR_EXT_HEADER_REQD,
					"extended headers are agreed on already");
	if (mode == h->mode)
		return nbd_option_error(h, out, NBD_REP_ERR_INVALID, "%s is agreed on already",
					h->row->name);
	h->mode = mode;
	return nbd_option_ack(h, out);
}

enum step nbd_option_refuse(struct nbd_handshake *h, struct nbd_out *out)
{
	if (h->option == NBD_OPT_SET_META_CONTEXT)
		nbd_context_forget(h); /* each does, whatever is wrong with it */
	if (h->refusal == NBD_REP_ERR_UNSUP)
		return nbd_option_error(h, out, h->refusal, "option %u is not supported", h->option);
	if (h->refusal == NBD_REP_ERR_TLS_REQD)
		return nbd_option_error(h, out, h->refusal,
					"this server wants TLS: STARTTLS must come before %s",
					h->row ? h->row->name : "this option");
	return nbd_option_error(h, out, h->refusal, "%s has %u bytes of data, at most %u are allowed",
			   h->row->name, h->length, h->row->max_payload);
}

static const struct nbd_option options[] = {
	{
		.number = NBD_OPT_EXPORT_NAME,
		.name = "EXPORT_NAME",
		.max_payload = NBD_STRING_MAX,
		.excess = EXCESS_CLOSES,
		.newstyle = true,
		.handle = handle_export_name,
	},
	{
		.number = NBD_OPT_ABORT,
		.name = "ABORT",
		.before_tls = true,
		.excess = EXCESS_IGNORED,
		.handle = handle_abort,
	},
	{
		.number = NBD_OPT_LIST,
		.name = "LIST",
		.excess = EXCESS_INVALID,
		.handle = handle_list,
	},
	{
		.number = NBD_OPT_STARTTLS,
		.name = "STARTTLS",
		.excess = EXCESS_INVALID,
		.before_tls = true,
		.handle = handle_starttls,
	},
	{
		.number = NBD_OPT_INFO,
		.name = "INFO",
		.max_payload = NBD_HANDSHAKE_PAYLOAD_MAX,
		.excess = EXCESS_TOO_BIG,
		.handle = handle_info,
	},
	{
		.number = NBD_OPT_GO,
		.name = "GO",
		.max_payload = NBD_HANDSHAKE_PAYLOAD_MAX,
		.excess = EXCESS_TOO_BIG,
		.handle = handle_info,
	},
	{
		.number = NBD_OPT_STRUCTURED_REPLY,
		.name = "STRUCTURED_REPLY",
		.excess = EXCESS_INVALID,
		.handle = handle_mode,
	},
	{
		.number = NBD_OPT_LIST_META_CONTEXT,
		.name = "LIST_META_CONTEXT",
		.max_payload = NBD_HANDSHAKE_PAYLOAD_MAX,
		.excess = EXCESS_TOO_BIG,
		.handle = nbd_handle_context,
	},
	{
		.number = NBD_OPT_SET_META_CONTEXT,
		.name = "SET_META_CONTEXT",
		.max_payload = NBD_HANDSHAKE_PAYLOAD_MAX,
		.excess = EXCESS_TOO_BIG,
		.handle = nbd_handle_context,
	},
	{
		.number = NBD_OPT_EXTENDED_HEADERS,
		.name = "EXTENDED_HEADERS",
		.excess = EXCESS_INVALID,
		.handle = handle_mode,
	},
};

const struct nbd_option *nbd_option_find(uint32_t number)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i].number == number)
			return &options[i];
	}
	return NULL;
}
