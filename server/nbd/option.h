/*
 * Private to handshake.c, the machine that takes options apart, and option.c and context.c, which
 * answer them.
 */
#ifndef SERVER_NBD_OPTION_H
#define SERVER_NBD_OPTION_H

#include "server/nbd/handshake.h"

/* How a handler, or any other step of the machine, ends. */
enum step {
	STEP_NEXT,	/* the final reply is in out: the next option, please */
	STEP_AGAIN,	/* more to say: call again, without payload, when out has been sent */
	STEP_SECURE,	/* the final reply is in out: then TLS */
	STEP_ENTER,	/* h->found holds the export with a reference: transmission */
	STEP_ABORT,	/* the client wants to end it */
	STEP_CLOSE,	/* h->reason is set */
};

/* What to do with a payload larger than the option's max_payload. */
enum excess {
	EXCESS_TOO_BIG,		/* skip it, ERR_TOO_BIG */
	EXCESS_INVALID,		/* skip it, ERR_INVALID */
	EXCESS_IGNORED,		/* skip it, handle the option as if it had none */
	EXCESS_CLOSES,		/* no error can be reported */
};

/* One option that the server understands: a row of option.c's table. */
struct nbd_option {
	uint32_t number;
	const char *name;
	uint32_t max_payload;	/* bytes */
	enum excess excess;
	bool newstyle;		/* legal for a client without fixed newstyle */
	bool before_tls;	/* legal without TLS where that is required */
	/*
	 * data has len bytes, the whole payload, valid during the call and not NULL; except when
	 * called again after STEP_AGAIN: then it is NULL.
	 */
	enum step (*handle)(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
			    struct nbd_out *out);
};

/* The row of an option, or NULL. */
const struct nbd_option *nbd_option_find(uint32_t number);

/* Append the error reply h->refusal for an option whose payload has been skipped. */
enum step nbd_option_refuse(struct nbd_handshake *h, struct nbd_out *out);

/* Give the reference in *info back and clear it. */
void nbd_option_put_export(struct nbd_handshake *h, struct nbd_export_info *info,
			   enum nbd_find_purpose purpose);

/* ---- option.c: what handlers answer with ---- */

/* Append a reply's header; returns where its len bytes of data go, or NULL. */
uint8_t *nbd_option_put(struct nbd_handshake *h, struct nbd_out *out, uint32_t type, uint32_t len);

enum step nbd_option_ack(struct nbd_handshake *h, struct nbd_out *out);

/*
 * An error reply with a text for a human. Whatever went into the text, what leaves is legal UTF-8
 * of bounded length without control characters (a client may print it to a terminal).
 */
enum step nbd_option_error(struct nbd_handshake *h, struct nbd_out *out, uint32_t error,
			   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Answer a failure of the callbacks. text is its own explanation, possibly empty. */
enum step nbd_option_errno(struct nbd_handshake *h, struct nbd_out *out, int err,
			   const char *text);

/*
 * find, with the err buffer always terminated and *info zeroed on failure. What was agreed on in
 * this handshake goes into info->limits.
 */
int nbd_option_find_export(struct nbd_handshake *h, const uint8_t *name, uint32_t len,
			   enum nbd_find_purpose purpose, struct nbd_export_info *info, char *err,
			   size_t errlen);

/* ---- context.c: metadata contexts ---- */

/* LIST_META_CONTEXT and SET_META_CONTEXT. */
enum step nbd_handle_context(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
			     struct nbd_out *out);

/* No contexts are selected any more. */
void nbd_context_forget(struct nbd_handshake *h);

/* Bits of enum nbd_context that are selected for the export of this canonical name. */
uint8_t nbd_context_selected(const struct nbd_handshake *h, const char *name, size_t len);

static inline enum step close_because(struct nbd_handshake *h, const char *reason)
{
	h->reason = reason;
	return STEP_CLOSE;
}

static inline enum step out_of_memory(struct nbd_handshake *h)
{
	return close_because(h, "out of memory");
}

#endif
