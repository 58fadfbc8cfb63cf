/*
 * What the tests of server/nbd share: a table of exports behind struct nbd_exports_ops, a client
 * that writes handshakes, and a reader of the answers.
 */
#ifndef TESTS_UNIT_NBD_PEER_H
#define TESTS_UNIT_NBD_PEER_H

#include <check.h>

#include "server/nbd/handshake.h"

/* For loops that run often: ck_assert() logs every pass, this only a failure. */
#define must(cond) \
	do { \
		if (!(cond)) \
			ck_abort_msg("line %d: %s", __LINE__, #cond); \
	} while (0)

/* ---- bytes that grow ---- */

struct bytes {
	uint8_t *data;
	size_t len, cap;
};

void bytes_free(struct bytes *b);
void bytes_add(struct bytes *b, const void *data, size_t len);
void bytes_be16(struct bytes *b, uint16_t v);
void bytes_be32(struct bytes *b, uint32_t v);
void bytes_be64(struct bytes *b, uint64_t v);
void bytes_fill(struct bytes *b, uint8_t c, size_t len);

/* What a client writes. */
void client_flags(struct bytes *b, uint32_t flags);
void client_option(struct bytes *b, uint32_t option, const void *data, size_t len);
/* INFO or GO; items: n information ids. */
void client_info(struct bytes *b, uint32_t option, const char *name, size_t n,
		 const uint16_t *items);
/* LIST_META_CONTEXT or SET_META_CONTEXT with one query. */
void client_context(struct bytes *b, uint32_t option, const char *name, const char *query);
void client_request(struct bytes *b, uint16_t command, uint64_t offset, uint32_t length);

/* ---- exports ---- */

#define DISK_SIZE	(1ULL << 30)

/*
 * The exports: "disk" (also ""), "ro", "blocks" and those named by errors: "forbidden" (EACCES),
 * "busy", "down" (ESHUTDOWN), "broken" (EIO). All else is unknown. Each reference is memory of its
 * own that put frees, so that a sanitizer sees every use after it.
 */
struct world {
	unsigned listed;	/* exports that LIST shows; all but three are made up */
	unsigned list_error_at;	/* next fails with list_error for this one */
	int list_error;
	bool list_invalid;	/* the second one has a name that may not be sent */
	const char *text;	/* for err, instead of a sentence about the name */
	const char *description; /* of "disk", instead of its own */
	size_t description_len;
	uint32_t preferred;	/* block size of "blocks", instead of its own */
	enum nbd_tls tls;
	unsigned refs;		/* not yet put */
	unsigned seats;		/* of them: found for NBD_FIND_ATTACH */
	unsigned finds, attaches; /* calls of find, and those of them to attach */
};

extern const struct nbd_exports_ops world_ops;

/* ---- a conversation ---- */

struct talk {
	struct bytes out;	/* all that the server said after its greeting */
	size_t consumed;
	enum nbd_handshake_result result;
	const char *reason;
	bool aborted, secured;	/* the latter: after STARTTLS, which changes no bytes here */
	struct nbd_export_info export;	/* of ENTER_TRANSMISSION; names are no longer valid */
	unsigned continues;	/* how often out was full */
	size_t out_max;		/* most bytes in out at once */
};

/*
 * Run a handshake over in[0 .. len - 1]. cut(arg, left) says how many of the left bytes the next
 * read delivers (NULL: all). Each read is in memory of its exact size. Asserts what must hold for
 * any input, among it that no reference stays behind.
 */
void talk(struct talk *t, struct world *w, const struct bytes *in,
	  size_t (*cut)(void *arg, size_t left), void *arg);
void talk_free(struct talk *t);

/* Cut for talk(): single bytes. */
size_t cut_bytes(void *arg, size_t left);

/* ---- reading the answers ---- */

struct reply {
	uint32_t option, type, len;
	const uint8_t *data;
};

/* The option reply at out + *at; moves *at past it. Asserts that there is a whole one. */
struct reply read_reply(const struct bytes *out, size_t *at);

/* The same; asserts what it is, and for an error that it has a legal text. */
struct reply expect_reply(const struct bytes *out, size_t *at, uint32_t option, uint32_t type);

#endif
