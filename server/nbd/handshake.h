/*
 * NBD handshake: the server's side of fixed newstyle negotiation, as a state machine over bytes.
 *
 * Bytes from the client go in, bytes for the client come out; there is no socket, lock or clock
 * here. The owner of the connection drives it:
 *
 *	nbd_handshake_init(&h, &ops, ctx);
 *	nbd_handshake_greeting(&h, &out);			send out
 *	for each read of the socket (in, n):
 *		res = nbd_handshake_feed(&h, in, n, &consumed, &out);
 *		send out (whatever res is); keep in[consumed .. n - 1]
 *		NEED_MORE		all was consumed: read on
 *		CONTINUE		once out is sent: feed the rest again, even if it is empty
 *		ENTER_TRANSMISSION	in[consumed .. n - 1] are requests; nbd_handshake_export()
 *		STARTTLS		nothing may be left in in; once out is sent, set up TLS, then
 *					nbd_handshake_secured(), and go on inside it
 *		CLOSE			close when out is sent; nbd_handshake_reason() for the log
 *	nbd_handshake_free(&h);
 *
 * Input may be cut anywhere, down to single bytes, and several options and the first requests may
 * come in one read; the output is the same. Memory: the struct itself, plus, only while an option's
 * payload is incomplete, the part of it that has arrived (at most NBD_HANDSHAKE_PAYLOAD_MAX).
 *
 * Rules: doc/proto.md of NetworkBlockDevice/nbd, "Fixed newstyle negotiation", "Option types".
 * Thread: one at a time, the connection's loop. The callbacks run in it, inside feed.
 */
#ifndef SERVER_NBD_HANDSHAKE_H
#define SERVER_NBD_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/nbd/out.h"
#include "server/nbd/protocol.h"
#include "server/nbd/request.h"

/*
 * Caps. There is no legal use near them; they keep a stranger from costing memory or time.
 * The time-out of a handshake is the connection owner's.
 */
#define NBD_HANDSHAKE_PAYLOAD_MAX	 (64U << 10)	/* larger options are skipped: TOO_BIG */
#define NBD_HANDSHAKE_SKIP_MAX		 (32U << 20)	/* bytes skipped in all, then close */
#define NBD_HANDSHAKE_OPTIONS_MAX	 64U		/* options in one handshake, then close */
#define NBD_HANDSHAKE_OPTIONS_PER_EXPORT 4U		/* more for each the first LIST showed */
#define NBD_HANDSHAKE_OUT_HIGH		 (16U << 10)	/* out as full as this: CONTINUE */
#define NBD_HANDSHAKE_TEXT_MAX		 512U		/* bytes of an error's text */

/*
 * One export as the handshake shows it. Filled in by the callbacks below; zero-initialised for
 * them. name and description need no NUL; both must stay valid until the export is put. They are
 * UTF-8 without NUL of at most NBD_STRING_MAX bytes (nbd_text_valid()); a name that is not is
 * not shown, a description is cut or not shown.
 */
struct nbd_export_info {
	/* What requests will be checked against. mode and contexts are the handshake's to fill in. */
	struct nbd_export_limits limits;
	uint32_t preferred_block;	/* power of two, >= 512 and >= min_block; 0: 4096. If it
					 * is above max_payload, that is shown */
	const char *name;		/* the canonical name, also if it was found as "" */
	size_t name_len;
	const char *description;	/* may be NULL */
	size_t description_len;
	void *export;			/* the caller's, with a reference held; not touched here */
};

/* Why an export is looked up. */
enum nbd_find_purpose {
	NBD_FIND_INFO,		/* to describe it: takes no seat, changes nothing */
	NBD_FIND_ATTACH,	/* to use it: what only so many clients may have is taken now */
};

/*
 * The exports, as the owner of the connection knows them. ctx is what nbd_handshake_init() was
 * given (the connection, so that access rules can depend on the peer). All run inside
 * nbd_handshake_feed(), in its thread; they may lock but should not block.
 */
struct nbd_exports_ops {
	/*
	 * Find the export called name (len <= NBD_STRING_MAX bytes of UTF-8 without NUL, no
	 * terminator; "" is the default export) and fill *info, with a reference in info->export.
	 * Returns 0 or a negative errno, then with a sentence about it in err, which the client is
	 * shown (empty: a general one is made up). -ENOENT: ERR_UNKNOWN. -EACCES, -EPERM, -EBUSY:
	 * ERR_POLICY. -ESHUTDOWN: ERR_SHUTDOWN. Others: ERR_PLATFORM. EXPORT_NAME closes on all.
	 */
	int (*find)(void *ctx, const char *name, size_t len, enum nbd_find_purpose purpose,
		    struct nbd_export_info *info, char *err, size_t errlen);

	/*
	 * The next export that LIST shows to this client. *cursor is 0 at first and then whatever
	 * the callback left there, for the next call, which may be much later: make it a serial
	 * number rather than an index, and exports that come and go in between neither repeat nor
	 * hide others. Returns 1 with *info filled as by find (only name and description are used),
	 * 0 at the end, or a negative errno and err as above.
	 */
	int (*next)(void *ctx, uint64_t *cursor, struct nbd_export_info *info, char *err,
		    size_t errlen);

	/*
	 * Drop the reference in info->export, and, if it was found for NBD_FIND_ATTACH, the seat.
	 * Called once for each successful find and next, except the find whose export is handed to
	 * the caller by ENTER_TRANSMISSION. May be NULL.
	 */
	void (*put)(void *ctx, void *export, enum nbd_find_purpose purpose);
};

enum nbd_handshake_result {
	NBD_HANDSHAKE_NEED_MORE,
	NBD_HANDSHAKE_CONTINUE,
	NBD_HANDSHAKE_ENTER_TRANSMISSION,
	NBD_HANDSHAKE_STARTTLS,
	NBD_HANDSHAKE_CLOSE,
};

/* Whether a client may, or must, have TLS (proto.md: NOTLS, SELECTIVETLS, FORCEDTLS). */
enum nbd_tls { NBD_TLS_OFF, NBD_TLS_ALLOW, NBD_TLS_REQUIRE };

/* All members are private to handshake.c. */
struct nbd_handshake {
	const struct nbd_exports_ops *exports;
	void *ctx;
	const struct nbd_option *row;		/* the option being received; NULL: unknown one */
	char *context_export;			/* whose contexts were selected; NULL: none are */
	const char *reason;			/* of CLOSE */
	uint8_t *payload;			/* its payload so far, if it comes in parts */
	uint64_t cursor;			/* of LIST */
	size_t context_export_len;
	uint32_t payload_cap;
	uint32_t option;			/* its number */
	uint32_t length;			/* of its payload, as announced */
	uint32_t have;				/* of its payload, received */
	uint32_t skipped;			/* payload bytes skipped so far, all options */
	uint32_t options_left;
	uint32_t refusal;			/* NBD_REP_ERR_* to answer after a skip; 0: none */
	uint8_t state;
	uint8_t mode;				/* enum nbd_mode, as agreed on so far */
	uint8_t contexts;			/* bits of enum nbd_context, of context_export */
	uint8_t client_flags;
	uint8_t head_len;
	uint8_t tls;				/* enum nbd_tls */
	bool secure;				/* it speaks TLS */
	bool listed;				/* the first LIST has been answered */
	bool found_held;			/* found has a reference that is ours */
	uint8_t head[NBD_OPTION_HEADER_SIZE];	/* client flags or option header so far */
	struct nbd_export_info found;		/* of ENTER_TRANSMISSION */
};

/*
 * Prepare *h. exports and ctx must outlive it; find and next must be set. Allocates nothing.
 */
void nbd_handshake_init(struct nbd_handshake *h, const struct nbd_exports_ops *exports,
			void *ctx);

/* What about TLS; NBD_TLS_OFF, if it is not said. Before the first feed. */
void nbd_handshake_set_tls(struct nbd_handshake *h, enum nbd_tls tls);

/*
 * After STARTTLS: the bytes are inside TLS from here on. What was agreed on before is forgotten;
 * the greeting is not repeated (proto.md, "NBD_OPT_STARTTLS").
 */
void nbd_handshake_secured(struct nbd_handshake *h);

/*
 * Free what *h holds, including the reference of an export that was found but not taken over by
 * nbd_handshake_export(). Needed in every state. Accepts NULL.
 */
void nbd_handshake_free(struct nbd_handshake *h);

/*
 * Append the server's greeting (NBD_GREETING_SIZE bytes) to out; once, before the first feed.
 * Returns 0 or -ENOMEM.
 */
int nbd_handshake_greeting(const struct nbd_handshake *h, struct nbd_out *out);

/*
 * Take n bytes from the client; in may be NULL if n is 0. Sets *consumed <= n and appends answers
 * to out, which the caller sends whatever the result is. What was not consumed is to be fed again
 * first, before newer bytes. Never reads beyond in + n, keeps no pointer into it.
 *
 * NEED_MORE: *consumed == n. CONTINUE: out has NBD_HANDSHAKE_OUT_HIGH bytes or more and there is
 * more to say or to read; calling again before some have been sent changes nothing. out never
 * exceeds NBD_OUT_MAX. CLOSE and ENTER_TRANSMISSION are final: feeding again consumes nothing and
 * says the same; so does STARTTLS, until nbd_handshake_secured(). Memory that cannot be had is a CLOSE.
 */
enum nbd_handshake_result nbd_handshake_feed(struct nbd_handshake *h, const uint8_t *in, size_t n,
					     size_t *consumed, struct nbd_out *out);

/*
 * After ENTER_TRANSMISSION: the chosen export. Copies it to *info, whose reference the caller now
 * owns and drops by its own means (NBD_FIND_ATTACH's put). Once.
 */
void nbd_handshake_export(struct nbd_handshake *h, struct nbd_export_info *info);

/* Between the two, when the answers may still be on their way: its `export`; or NULL. */
const void *nbd_handshake_found(const struct nbd_handshake *h);

/*
 * After CLOSE: why, as a constant sentence without a full stop, e.g. for a log. An orderly end
 * (ABORT) has one too; nbd_handshake_aborted() tells it apart. NULL before.
 */
const char *nbd_handshake_reason(const struct nbd_handshake *h);
bool nbd_handshake_aborted(const struct nbd_handshake *h);

#endif
