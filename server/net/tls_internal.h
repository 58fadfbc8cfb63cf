/* Private to tls.c and tls_context.c. */
#ifndef SERVER_NET_TLS_INTERNAL_H
#define SERVER_NET_TLS_INTERNAL_H

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/net/tls.h"

struct tls_psk {
	char *user;
	gnutls_datum_t key;
	STAILQ_ENTRY(tls_psk) link;
};

struct tls_context {
	atomic_uint refs;
	bool verify_peer;
	gnutls_certificate_credentials_t x509;   /* NULL: none */
	gnutls_psk_server_credentials_t psk;     /* NULL: none */
	gnutls_priority_t priority;
	STAILQ_HEAD(, tls_psk) psks;
};

struct tls_session {
	struct tls_context *ctx; /* a reference */
	gnutls_session_t tls;
	gnutls_typed_vdata_st purpose[1]; /* of clients' certificates */
	int fd;                  /* not ours */
	bool more;               /* the last read did not come to the end of what is there */
	bool dry;                /* the last read of the socket found nothing */
	char *unsent;            /* encrypted, and not taken by the socket so far; NULL: nothing is */
	size_t unsent_len;
	size_t pending;          /* bytes of the caller's that are in it */
	int error;               /* of GnuTLS: nothing is received after it; 0: none */
	bool send_failed;        /* nothing more is sent; what the other end had sent can be read */
	bool shaken;             /* the handshake is done */
	bool at_end;             /* the other end has closed TLS, or its socket */
	char why[200];
	char name[TLS_NAME_MAX + 1];
	char description[64];
};

#endif
