/*
 * What a row of the conformance program is, how it ends, and what is known of the server.
 *
 * A row ends by returning (pass), or by one of fail, miss and not_offered, which do not return to it. What
 * it has allocated or connected is released for it. One thread.
 */
#ifndef TESTS_CONFORMANCE_TEST_H
#define TESTS_CONFORMANCE_TEST_H

#include <gnutls/gnutls.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

struct conn;
struct test;

enum result { PASS, FAIL, ADVICE, NOT_OFFERED, RESULTS };
enum level { MUST, SHOULD };

/* How requests and replies look: what the client has negotiated. */
enum mode { SIMPLE, STRUCTURED, EXTENDED, MODES };

/* What a row needs; see target_lacks(). The rest comes with the mode. */
enum need {
	GO = 1 << 0,		/* INFO and GO */
	LIST = 1 << 1,
	NAMES = 1 << 2,		/* refuses unknown export names */
	SIZES = 1 << 3,		/* says what its block sizes are */
	PLAIN = 1 << 4,		/* the row runs without TLS */
	WRITABLE = 1 << 5,
	READ_ONLY = 1 << 6,
	FLUSH = 1 << 7,
	FUA = 1 << 8,
	NO_FUA = 1 << 9,
	TRIM = 1 << 10,
	ZEROES = 1 << 11,
	CACHE = 1 << 12,
	FAST_ZERO = 1 << 13,
	NO_FAST_ZERO = 1 << 14,
	MULTI_CONN = 1 << 15,
	DF = 1 << 16,
	NO_DF = 1 << 17,
	META = 1 << 18,		/* metadata contexts, at least one */
	ALLOCATION = 1 << 19,	/* base:allocation */
	STATUS_PAYLOAD = 1 << 20,
	NO_STATUS_PAYLOAD = 1 << 21,
	BIG = 1 << 22,		/* an export of more than 4 GiB */
	COARSE = 1 << 23,	/* a minimum block size above 1 */
	FINE = 1 << 24,		/* a minimum block size of 1 */
	TLS = 1 << 25,		/* answers STARTTLS with ACK */
	TLS_CREDENTIALS = 1 << 26,
	TLS_FORCED = 1 << 27,
	NO_TLS = 1 << 28,
	TLS_ALLOWED = 1 << 29,	/* TLS, and serves without it too */
};

struct row {
	const char *name;
	void (*run)(struct test *t);
	enum mode mode;
	unsigned needs;		/* of enum need */
	enum level level;	/* what miss() means */
	const char *section;	/* heading in proto.md */
	const char *text;	/* what is expected */
};

/* All rows, in the order in which they run. */
extern const struct row rows[];
extern const size_t nrows;

struct uri {
	enum { TCP, UNIX, VSOCK } family;
	bool tls;		/* the scheme says so: every row goes through TLS, but for those about TLS */
	char *host, *port, *socket, *name, *user;
	char *certificates, *psk_file, *hostname;
	bool verify;
};

enum { CONTEXTS_MOST = 32, NAMES_MOST = 16 };

/* The server that is looked at. */
struct target {
	struct uri uri;
	bool read_only;		/* told by the user: write nothing even if the export is writable */
	unsigned timeout;	/* seconds without any progress */
	gnutls_certificate_credentials_t x509;
	gnutls_psk_client_credentials_t psk;

	/* What was found by target_probe(). */
	uint16_t handshake_flags;
	bool mode[MODES];
	uint16_t flags[MODES];	/* transmission flags */
	uint64_t size;
	bool go, list, any_name, sizes, starttls, tls_forced;
	uint32_t min, preferred, most;	/* block sizes, or what the specification says where none are */
	char *names[NAMES_MOST];	/* some of those listed */
	unsigned nnames;
	char *contexts[CONTEXTS_MOST];
	unsigned ncontexts;
	bool allocation;
};

struct test {
	const struct row *row;
	struct target *target;
	enum result result;
	char detail[1024];
	const char *about;	/* what the row is trying now, for the texts; or NULL */
	jmp_buf out;
	uint64_t deadline;	/* ms on the monotonic clock */
	struct memory *memory;
	struct conn *conns;
};

/* Run a row, or anything that may fail like one; t->result and t->detail say how it went. */
void test_run(struct test *t, const struct row *row, struct target *target);

/* The server is wrong. Texts: what was expected, what came. */
noreturn void fail(struct test *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, but only advice where the row is about a SHOULD. */
noreturn void miss(struct test *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The server does not do what it SHOULD; the row goes on. */
void advise(struct test *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
noreturn void not_offered(struct test *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Zeroed memory until the row ends. */
void *grab(struct test *t, size_t n);

/* Bytes that are nowhere zero and differ with seed and place. */
void fill(uint8_t *buf, size_t n, unsigned seed);

uint64_t now_ms(void);

/* Parse argv's URI; returns NULL or what is wrong with it. */
const char *uri_parse(struct uri *uri, const char *text);
/* Load the files that the URI names; returns NULL or what is wrong with them. */
const char *target_credentials(struct target *target);
/* Find out what the server offers; a function for test_run(). */
void target_probe(struct test *t);
/* What of a row's needs the server lacks, in words, or NULL. */
const char *target_lacks(const struct target *target, const struct row *row);
void target_free(struct target *target);

#endif
