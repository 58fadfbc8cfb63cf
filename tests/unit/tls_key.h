/* A pre-shared key of the user alice, as both sides of a TLS connection take it. */
#ifndef TESTS_UNIT_TLS_KEY_H
#define TESTS_UNIT_TLS_KEY_H

#include <check.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/net/tls.h"

/* The server's side; with a reference. key: hexadecimal digits. */
static inline struct tls_context *server_of_key(const char *key)
{
	char path[] = "/tmp/tls-key.XXXXXX", err[512];
	struct tls_files files = { .psk = path };
	int file = mkstemp(path);
	struct tls_context *ctx;

	ck_assert_int_ge(dprintf(file, "alice:%s\n", key), 0);
	close(file);
	ck_assert_msg(!tls_context_new(&files, &ctx, err, sizeof(err)), "%s", err);
	unlink(path);
	return ctx;
}

/* The client's, to be freed. */
static inline gnutls_psk_client_credentials_t client_of_key(const char *key)
{
	gnutls_datum_t hex = { (unsigned char *)key, (unsigned)strlen(key) };
	gnutls_psk_client_credentials_t secret;

	ck_assert_int_eq(gnutls_psk_allocate_client_credentials(&secret), 0);
	ck_assert_int_eq(gnutls_psk_set_client_credentials(secret, "alice", &hex,
							   GNUTLS_PSK_KEY_HEX), 0);
	return secret;
}

#endif
