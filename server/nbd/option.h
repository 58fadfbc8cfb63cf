/*
 * Private to handshake.c, the machine that takes options apart, and option.c, which answers them.
 */
#ifndef SERVER_NBD_OPTION_H
#define SERVER_NBD_OPTION_H

#include "server/nbd/handshake.h"

/* How a handler, or any other step of the machine, ends. */
enum step {
	STEP_NEXT,	/* the final reply is in out: the next option, please */
	STEP_AGAIN,	/* more to say: call again, without payload, when out has been sent */
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
