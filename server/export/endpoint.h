/*
 * Endpoints: where to listen and for whom, from the text of the tunables `listen` and `unix`: an
 * address, then words, with blanks between them.
 */
#ifndef SERVER_EXPORT_ENDPOINT_H
#define SERVER_EXPORT_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct server_params;

struct endpoint {
	enum { ENDPOINT_TCP, ENDPOINT_VSOCK, ENDPOINT_UNIX } kind;
	char host[256];      /* TCP; empty: all addresses */
	char port[8];        /* TCP: a number */
	bool any_cid;        /* vsock: any of this machine's */
	uint32_t cid, vport; /* vsock */
	char path[108];      /* Unix */
	bool own_tls;        /* instead of the server's setting: */
	uint64_t tls;        /* as server_params.tls */
	bool readonly;       /* its clients may only read */
	bool has_mode, has_group; /* Unix */
	mode_t mode;
	gid_t group;
};

/*
 * HOST:PORT, [ADDRESS]:PORT, vsock:PORT, vsock:CID:PORT; then tls=off, tls=allow or tls=require,
 * and readonly. 0; -EINVAL with a sentence in err: what is wrong and what was expected. Main thread.
 */
int endpoint_parse_listen(const char *text, struct endpoint *out, char *err, size_t errlen);

/* A path; then as above, mode=OCTAL and group=NAME. Likewise. */
int endpoint_parse_unix(const char *text, struct endpoint *out, char *err, size_t errlen);

/* The checks of the rows. */
int endpoint_check_listen(const char *text, char *err, size_t errlen);
int endpoint_check_unix(const char *text, char *err, size_t errlen);

/* Does the server, or one of its endpoints, offer TLS? */
bool endpoints_want_tls(const struct server_params *p);

#endif
