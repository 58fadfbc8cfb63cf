#include "server/nbd/handshake.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/nbd/option.h"

/*
 * The machine:
 *
 *	FLAGS -> HEADER -> PAYLOAD -> (the option's handler) -> HEADER, AGAIN, ENTERED or CLOSED
 *	           |                                              AGAIN -> handler, as before
 *	           +-----> SKIP ----> (refusal, or the handler without its payload)
 *
 * SECURING: until nbd_handshake_secured(), then HEADER.
 *
 * PAYLOAD hands the handler the caller's bytes if the whole payload is in them, and collects it
 * otherwise. SKIP is for payloads that nobody wants to see.
 */
enum state {
	STATE_FLAGS,
	STATE_HEADER,
	STATE_PAYLOAD,
	STATE_SKIP,
	STATE_AGAIN,
	STATE_SECURING,
	STATE_ENTERED,
	STATE_CLOSED,
	STATE_ABORTED,
};

/* Move up to `want` bytes in all to h->head; true when they are there. */
static bool take_head(struct nbd_handshake *h, const uint8_t *in, size_t n, size_t *at, size_t want)
{
	size_t part = want - h->head_len;

	if (part > n - *at)
		part = n - *at;
	memcpy(h->head + h->head_len, in + *at, part);
	h->head_len += (uint8_t)part;
	*at += part;
	if (h->head_len < want)
		return false;
	h->head_len = 0;
	return true;
}

static enum step take_client_flags(struct nbd_handshake *h)
{
	uint32_t flags = nbd_get_be32(h->head);

	if (flags & ~(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES))
		return close_because(h, "unknown client flags");
	h->client_flags = (uint8_t)flags;
	return STEP_NEXT;
}

/* Set up the skipping of a payload, after which `refusal` is sent, or, if 0, the handler runs. */
static enum step begin_skip(struct nbd_handshake *h, uint32_t refusal)
{
	if (h->length > NBD_HANDSHAKE_SKIP_MAX - h->skipped)
		return close_because(h, "too many bytes of option data");
	h->skipped += h->length;
	h->refusal = refusal;
	h->state = STATE_SKIP;
	return STEP_NEXT;
}

/* A complete option header: decide what becomes of the payload. */
static enum step take_option_header(struct nbd_handshake *h)
{
	if (nbd_get_be64(h->head) != NBD_OPTION_MAGIC)
		return close_because(h, "wrong option magic");
	if (!h->options_left)
		return close_because(h, "too many options");
	h->options_left--;
	h->option = nbd_get_be32(h->head + 8);
	h->length = nbd_get_be32(h->head + 12);
	h->have = 0;
	h->row = nbd_option_find(h->option);
	/* Such a client understands no replies, so there is no way to refuse. */
	if (!(h->client_flags & NBD_FLAG_C_FIXED_NEWSTYLE) && !(h->row && h->row->newstyle))
		return close_because(h, "option that needs fixed newstyle, which the client "
				     "did not agree on");
	if (h->tls == NBD_TLS_REQUIRE && !h->secure && !(h->row && h->row->before_tls)) {
		if (h->option == NBD_OPT_EXPORT_NAME)
			return close_because(h, "EXPORT_NAME without TLS, which is required");
		return begin_skip(h, NBD_REP_ERR_TLS_REQD);
	}
	if (!h->row)
		return begin_skip(h, NBD_REP_ERR_UNSUP);
	if (h->length <= h->row->max_payload) {
		h->state = STATE_PAYLOAD;
		return STEP_NEXT;
	}
	switch (h->row->excess) {
	case EXCESS_TOO_BIG:
		return begin_skip(h, NBD_REP_ERR_TOO_BIG);
	case EXCESS_INVALID:
		return begin_skip(h, NBD_REP_ERR_INVALID);
	case EXCESS_IGNORED:
		return begin_skip(h, 0);
	case EXCESS_CLOSES:
		break;
	}
	return close_because(h, "option data that is too long");
}

static void free_payload(struct nbd_handshake *h)
{
	free(h->payload);
	h->payload = NULL;
	h->payload_cap = 0;
}

/*
 * Make room for `part` more bytes of payload. Grows with what has arrived, not with what the header
 * announces, so that an announcement costs the announcer as much as us.
 */
static bool grow_payload(struct nbd_handshake *h, size_t part)
{
	uint32_t cap = h->payload_cap ? h->payload_cap : 128;
	uint8_t *payload;

	while (cap < h->have + part)
		cap *= 2;
	if (cap > h->length)
		cap = h->length;
	if (cap <= h->payload_cap)
		return true;
	payload = realloc(h->payload, cap);
	if (!payload)
		return false;
	h->payload = payload;
	h->payload_cap = cap;
	return true;
}

/* Pick the state that follows a step. */
static void advance(struct nbd_handshake *h, enum step step)
{
	switch (step) {
	case STEP_NEXT:
		h->state = STATE_HEADER;
		break;
	case STEP_AGAIN:
		h->state = STATE_AGAIN;
		break;
	case STEP_SECURE:
		h->state = STATE_SECURING;
		break;
	case STEP_ENTER:
		h->state = STATE_ENTERED;
		h->found_held = true;
		break;
	case STEP_ABORT:
		h->state = STATE_ABORTED;
		break;
	case STEP_CLOSE:
		h->state = STATE_CLOSED;
		break;
	}
}

/* Consume payload; when it is complete, run the handler. False: more input is needed. */
static bool take_payload(struct nbd_handshake *h, const uint8_t *in, size_t n, size_t *at,
			 struct nbd_out *out)
{
	static const uint8_t nothing[1];
	size_t part = h->length - h->have;
	const uint8_t *data;

	if (part > n - *at)
		part = n - *at;
	if (part == h->length) {
		data = part ? in + *at : nothing;
	} else if (!part) {
		return false;
	} else {
		if (!grow_payload(h, part)) {
			advance(h, out_of_memory(h));
			return true;
		}
		memcpy(h->payload + h->have, in + *at, part);
		data = h->payload;
	}
	h->have += (uint32_t)part;
	*at += part;
	if (h->have < h->length)
		return false;
	advance(h, h->row->handle(h, data, h->length, out));
	free_payload(h);
	return true;
}

static bool take_skip(struct nbd_handshake *h, size_t n, size_t *at, struct nbd_out *out)
{
	static const uint8_t nothing[1];
	size_t part = h->length - h->have;

	if (part > n - *at)
		part = n - *at;
	h->have += (uint32_t)part;
	*at += part;
	if (h->have < h->length)
		return false;
	advance(h, h->refusal ? nbd_option_refuse(h, out) : h->row->handle(h, nothing, 0, out));
	return true;
}

/* Do the next thing that the bytes at in + *at allow. False: more input is needed. */
static bool turn(struct nbd_handshake *h, const uint8_t *in, size_t n, size_t *at,
		 struct nbd_out *out)
{
	enum step step;

	switch ((enum state)h->state) {
	case STATE_FLAGS:
		if (!take_head(h, in, n, at, NBD_CLIENT_FLAGS_SIZE))
			return false;
		advance(h, take_client_flags(h));
		return true;
	case STATE_HEADER:
		if (!take_head(h, in, n, at, NBD_OPTION_HEADER_SIZE))
			return false;
		step = take_option_header(h);	/* has set the state if all is well */
		if (step != STEP_NEXT)
			advance(h, step);
		return true;
	case STATE_PAYLOAD:
		return take_payload(h, in, n, at, out);
	case STATE_SKIP:
		return take_skip(h, n, at, out);
	case STATE_AGAIN:
		advance(h, h->row->handle(h, NULL, 0, out));
		return true;
	case STATE_SECURING:
	case STATE_ENTERED:
	case STATE_CLOSED:
	case STATE_ABORTED:
		break;
	}
	return false;
}

enum nbd_handshake_result nbd_handshake_feed(struct nbd_handshake *h, const uint8_t *in, size_t n,
					     size_t *consumed, struct nbd_out *out)
{
	static const uint8_t nothing[1];
	enum nbd_handshake_result result;
	size_t at = 0;

	if (!n)
		in = nothing;
	for (;;) {
		if (h->state == STATE_ENTERED) {
			result = NBD_HANDSHAKE_ENTER_TRANSMISSION;
			break;
		}
		if (h->state == STATE_SECURING) {
			result = NBD_HANDSHAKE_STARTTLS;
			break;
		}
		if (h->state == STATE_CLOSED || h->state == STATE_ABORTED) {
			result = NBD_HANDSHAKE_CLOSE;
			break;
		}
		if (out->len >= NBD_HANDSHAKE_OUT_HIGH && (at < n || h->state == STATE_AGAIN)) {
			result = NBD_HANDSHAKE_CONTINUE;
			break;
		}
		if (!turn(h, in, n, &at, out)) {
			result = NBD_HANDSHAKE_NEED_MORE;
			break;
		}
	}
	*consumed = at;
	return result;
}

void nbd_handshake_init(struct nbd_handshake *h, const struct nbd_exports_ops *exports,
			void *ctx)
{
	assert(exports->find && exports->next);
	*h = (struct nbd_handshake){
		.exports = exports,
		.ctx = ctx,
		.options_left = NBD_HANDSHAKE_OPTIONS_MAX,
		.state = STATE_FLAGS,
	};
}

void nbd_handshake_set_tls(struct nbd_handshake *h, enum nbd_tls tls)
{
	h->tls = (uint8_t)tls;
}

void nbd_handshake_secured(struct nbd_handshake *h)
{
	assert(h->state == STATE_SECURING);
	nbd_context_forget(h);
	h->mode = NBD_MODE_SIMPLE;
	h->cursor = 0;
	h->secure = true;
	h->state = STATE_HEADER;
}

void nbd_handshake_free(struct nbd_handshake *h)
{
	if (!h)
		return;
	free_payload(h);
	nbd_context_forget(h);
	if (h->found_held)
		nbd_option_put_export(h, &h->found, NBD_FIND_ATTACH);
	h->found_held = false;
}

int nbd_handshake_greeting(const struct nbd_handshake *h, struct nbd_out *out)
{
	uint8_t *p = nbd_out_reserve(out, NBD_GREETING_SIZE);

	(void)h;
	if (!p)
		return -ENOMEM;
	nbd_put_be64(p, NBD_MAGIC);
	nbd_put_be64(p + 8, NBD_OPTION_MAGIC);
	nbd_put_be16(p + 16, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	return 0;
}

const void *nbd_handshake_found(const struct nbd_handshake *h)
{
	return h->found_held ? h->found.export : NULL;
}

void nbd_handshake_export(struct nbd_handshake *h, struct nbd_export_info *info)
{
	assert(h->state == STATE_ENTERED && h->found_held);
	*info = h->found;
	h->found_held = false;
}

const char *nbd_handshake_reason(const struct nbd_handshake *h)
{
	return h->reason;
}

bool nbd_handshake_aborted(const struct nbd_handshake *h)
{
	return h->state == STATE_ABORTED;
}
