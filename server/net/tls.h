/*
 * TLS by GnuTLS: what the server proves itself with (a context), and its side of a connection (a
 * session). TLS 1.2 and 1.3; X.509 certificates, pre-shared keys (PSK), or both.
 *
 * A context is constant once it is made and may be shared by all threads; sessions keep it alive. A
 * session is used by one thread at a time. Neither knows of connections or loops.
 */
#ifndef SERVER_NET_TLS_H
#define SERVER_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct tls_context;
struct tls_session;

enum {
	TLS_STAGE = 16 << 10, /* bytes of a record */
	TLS_NAME_MAX = 200,   /* bytes of a client's name */
};

/* Where keys are. */
struct tls_files {
	/*
	 * A folder with server-cert.pem and server-key.pem, and where clients are verified
	 * ca-cert.pem; ca-crl.pem is used where it is there. NULL or "": no X.509.
	 */
	const char *certificates;
	const char *psk;    /* a file of lines USER:HEXKEY, as psktool writes it. NULL or "": none */
	bool verify_peer;   /* clients must have a certificate that ca-cert.pem has signed */
};

/*
 * Read and check all of it: that files are there, that others may not read keys, that key and
 * certificate fit together and that today is within its time. 0 and *out with one reference, or a
 * negative errno and a sentence in err which names the file. May block.
 */
int tls_context_new(const struct tls_files *files, struct tls_context **out, char *err,
		    size_t errlen);

/* Any thread. NULL is fine. */
struct tls_context *tls_context_get(struct tls_context *ctx);
void tls_context_put(struct tls_context *ctx);

/* The server's side on a non-blocking socket, which stays the caller's. NULL: no memory. */
struct tls_session *tls_session_new(struct tls_context *ctx, int fd);

/* NULL is fine. Sends nothing. */
void tls_session_free(struct tls_session *s);

/*
 * Go on with the handshake. 0: it is done; -EAGAIN: when the socket is readable (or writable:
 * tls_wants_write); else it has failed: tls_why. Costs milliseconds of computing.
 */
int tls_shake(struct tls_session *s);
bool tls_wants_write(const struct tls_session *s);

/* Why something failed: a sentence. */
const char *tls_why(const struct tls_session *s);

/*
 * After the handshake: who the client is. The user of a PSK; the common name of a verified
 * certificate, or if it has none the whole name. "": nobody knows.
 */
const char *tls_peer_name(const struct tls_session *s);

/* For people: version, cipher and so on, as "TLS1.3 X.509". */
const char *tls_description(const struct tls_session *s);

/*
 * As readv: fills the pieces as far as there is something. The bytes read; 0: the other end closed
 * TLS in order; -1 with errno: EAGAIN, or what ended it. Less than there is room for: the socket is
 * empty, or at its end: tls_at_end; or so small are the records that others should have their turn
 * first: tls_has_more.
 */
ssize_t tls_readv(struct tls_session *s, const struct iovec *iov, int n);
bool tls_at_end(const struct tls_session *s);
bool tls_has_more(const struct tls_session *s);

/*
 * As sendmsg: the bytes of iov that went out, from the first on, or -1 with errno. If not all went,
 * what remains must be offered again, with the same bytes first. A failure does not keep from reading
 * what has come. stage: TLS_STAGE bytes that are of use to nobody else during the call.
 */
ssize_t tls_sendv(struct tls_session *s, const struct iovec *iov, int n, void *stage);

/* Tell the other end that nothing more comes, if the socket takes it. */
void tls_bye(struct tls_session *s);

#endif
