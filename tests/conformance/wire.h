/*
 * Connections: bytes in and out with a limit on how long nothing may happen, TLS, the options of the
 * handshake, requests and their replies.
 *
 * What the specification demands of every message is checked wherever one is read, in whatever row.
 */
#ifndef TESTS_CONFORMANCE_WIRE_H
#define TESTS_CONFORMANCE_WIRE_H

#include "tests/conformance/proto.h"
#include "tests/conformance/test.h"

/* ---- bytes (wire.c) ---- */

struct context {
	uint32_t id;
	const char *name;
};

struct conn {
	struct test *t;
	struct conn *next;	/* of the test */
	int fd;
	gnutls_session_t tls;
	bool closed;		/* by the server */
	bool notified;		/* and TLS was shut down properly */
	const char *how;	/* it was closed, in words */
	bool excused;		/* the client has broken a rule of the handshake: the end is legal, though an
				 * error were better; until the next option is answered */
	uint8_t *in;		/* received, not yet taken */
	size_t in_at, in_end, in_cap;

	/* What has been negotiated. */
	enum mode mode;
	uint16_t flags;
	uint64_t size;
	uint32_t min;
	struct context contexts[CONTEXTS_MOST];
	unsigned ncontexts;
	bool any_context;	/* a status of any context is read, to be judged by the row */

	struct request *pending;
	uint64_t cookie;	/* of the next request */
};

/* Connect; no byte is read or sent. */
struct conn *conn_connect(struct test *t);
void conn_close(struct conn *c);
void conn_send(struct conn *c, const void *data, size_t n);
/* Exactly n bytes; what they are, for the text of the failure. */
void conn_recv(struct conn *c, void *data, size_t n, const char *what);
/* The server must close (miss), at once: without sending a byte before. */
void expect_close(struct conn *c, const char *when);
/* Wait for the end; drops what comes. False: it stays open. */
bool conn_drain(struct conn *c);
/* Is there a byte, or the end, or does one come within ms? */
bool conn_readable(struct conn *c, unsigned ms);
/* Client's part of a TLS handshake. Returns 0 or GnuTLS's error. priority NULL: the usual one. */
int conn_handshake_tls(struct conn *c, const char *priority);

/* ---- options (option.c) ---- */

struct answer {
	uint32_t type, len;
	uint8_t *data;
};

/* How an option was answered. */
struct outcome {
	uint32_t option;
	uint32_t type;		/* of the last reply: REP_ACK or an error */
	const char *text;	/* of an error */
	struct answer *items;	/* the replies before */
	unsigned n;
};

const char *reply_name(uint32_t type);

/* A string of the server: UTF-8 without NUL, of at most 4096 bytes. */
void check_string(struct conn *c, const uint8_t *s, size_t n, const char *what);

/* A connection that has exchanged greetings; no TLS. */
struct conn *greet_plain(struct test *t);
/* The same, through TLS if the URI says so. */
struct conn *greet(struct test *t);
/* With these client flags. */
struct conn *greet_with(struct test *t, uint32_t client_flags);
/* STARTTLS and the TLS handshake must succeed. */
void start_tls(struct conn *c);

void option_send(struct conn *c, uint32_t option, const void *data, size_t n);
struct outcome *option_wait(struct conn *c, uint32_t option);
struct outcome *option(struct conn *c, uint32_t option, const void *data, size_t n);

/* Data of INFO and GO. items ends with -1; NULL: none. */
uint8_t *info_data(struct test *t, const char *name, size_t name_len, const int *items, size_t *n);
/* INFO or GO with the export of the URI. */
struct outcome *info(struct conn *c, uint32_t option, const int *items);
/* INFO or GO with another. */
struct outcome *info_name(struct conn *c, uint32_t option, const char *name);
/* The item of this type, with at least len bytes of data, or NULL. */
const struct answer *info_find(struct conn *c, const struct outcome *o, unsigned type, uint32_t len);

/* LIST_META or SET_META. queries ends with NULL. A successful SET_META becomes c->contexts. */
struct outcome *meta(struct conn *c, uint32_t option, const char *export, const char *const *queries);

void expect_ack(struct conn *c, const struct outcome *o);
/* It must be an error; advice if it is another one. */
void expect_rep(struct conn *c, const struct outcome *o, uint32_t error);
/* The next option is answered as an unknown one is. */
void in_step(struct conn *c);

/* Negotiate a mode; then enter transmission with GO, or else with EXPORT_NAME. */
void negotiate(struct conn *c, enum mode mode);
void go(struct conn *c);
/* All of it, in the row's mode, or in this one. */
struct conn *enter(struct test *t);
struct conn *enter_mode(struct test *t, enum mode mode);
/* All of it, with all metadata contexts, or base:allocation alone. */
struct conn *enter_meta(struct test *t, bool all);
/* Only the ends of the handshake: EXPORT_NAME; take its answer. */
void export_name(struct conn *c, bool zeroes);

/* ---- requests (request.c) ---- */

struct extent {
	uint64_t length;
	uint32_t status;
};

struct status {			/* of one metadata context */
	uint32_t id;
	struct extent *extents;
	size_t n;
};

struct span {
	uint64_t at, end;
};

struct request {
	struct request *next;
	uint16_t command, flags;
	uint64_t cookie, offset, length;
	const uint32_t *ids;	/* BLOCK_STATUS with payload: the contexts asked for */
	unsigned nids;
	char words[96];

	bool done;
	uint32_t error;		/* 0: success */
	const char *text;	/* that came with it */
	unsigned chunks, holes;
	uint8_t *data;		/* of a READ */
	struct span *content;	/* what has come of it */
	size_t ncontent;
	struct status status[CONTEXTS_MOST];
	unsigned nstatus;
};

const char *error_name(uint32_t error);

/* One whose bytes the caller sends: expect its reply. */
struct request *announce(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
			 uint64_t length);
/* Send one; payload: `length` bytes, of a WRITE. */
struct request *submit(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
		       uint64_t length, const void *payload);
/* The header just as told; payload, if any, of n bytes after it. */
struct request *submit_raw(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
			   uint64_t length, const void *payload, size_t n);
/* A header with this magic, not to be answered. */
void send_header(struct conn *c, uint32_t magic, unsigned command, unsigned flags,
		 uint64_t cookie, uint64_t offset, uint64_t length);
/* The header of a request as bytes; returns its size. */
size_t header(struct conn *c, uint8_t *h, uint32_t magic, unsigned command, unsigned flags,
	      uint64_t cookie, uint64_t offset, uint64_t length);
/* Until it is answered. */
struct request *finish(struct conn *c, struct request *rq);
/* Both. */
struct request *run(struct conn *c, unsigned command, unsigned flags, uint64_t offset,
		    uint64_t length, const void *payload);

void expect_ok(struct conn *c, const struct request *rq);
/* Must fail; advice if it is another error. */
void expect_error(struct conn *c, const struct request *rq, uint32_t error);
/* Run; no matter how it ends, the connection must go on. Where it SHOULD: advice. */
void survives(struct conn *c, unsigned command, unsigned flags, uint64_t offset, uint64_t length);

/* The first block can be read. */
void alive(struct conn *c);
const uint8_t *read_at(struct conn *c, uint64_t offset, uint64_t length);
void write_at(struct conn *c, uint64_t offset, uint64_t length, const uint8_t *data);
/* The export has these bytes there; NULL: zeroes. */
void expect_data(struct conn *c, uint64_t offset, uint64_t length, const uint8_t *data,
		 const char *when);
bool all_zero(const uint8_t *p, size_t n);

/* n rounded up to the minimum block size. */
uint64_t block(const struct conn *c, uint64_t n);
/* Random bytes, of that many. */
uint8_t *pattern(struct conn *c, uint64_t n, unsigned seed);
/* The end of the export, as far as the minimum block size lets it be reached. */
uint64_t end_of(const struct conn *c);

#endif
