/* What the server proves itself with: reading and checking keys and certificates. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/net/tls_internal.h"

/* More than the longest that GnuTLS takes for either. */
enum { PATH_ROOM = 4200, KEY_MAX = 512 };

__attribute__((format(printf, 4, 5)))
static int fail(char *err, size_t errlen, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return error;
}

/* ---- files ---- */

/* A secret that everybody can read is none. */
static int check_secret(const char *path, char *err, size_t errlen)
{
	struct stat st;

	if (stat(path, &st))
		return fail(err, errlen, -errno, "cannot read %s: %s", path, strerror(errno));
	if (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
		return fail(err, errlen, -EINVAL,
			    "%s is a secret, but its mode %04o lets others at it; expected 0640 "
			    "or less", path, (unsigned)(st.st_mode & 07777));
	return 0;
}

static int load(const char *path, gnutls_datum_t *out, char *err, size_t errlen)
{
	int res;

	errno = 0;
	res = gnutls_load_file(path, out);
	if (!res)
		return 0;
	return fail(err, errlen, errno ? -errno : -EIO, "cannot read %s: %s", path,
		    errno ? strerror(errno) : gnutls_strerror(res));
}

/* ---- X.509 ---- */

/* Is today within the certificate's time? */
static int check_time(const char *path, gnutls_x509_crt_t crt, char *err, size_t errlen)
{
	time_t now = time(NULL), from, until;
	char day[32];
	struct tm tm;

	from = gnutls_x509_crt_get_activation_time(crt);
	until = gnutls_x509_crt_get_expiration_time(crt);
	if (now >= from && now <= until)
		return 0;
	strftime(day, sizeof(day), "%Y-%m-%d", gmtime_r(now < from ? &from : &until, &tm));
	return fail(err, errlen, -EINVAL, "the certificate %s %s %s", path,
		    now < from ? "is not valid before" : "has expired on", day);
}

/* The server's own. */
static int check_own(const char *path, const gnutls_datum_t *pem, char *err, size_t errlen)
{
	gnutls_x509_crt_t crt;
	int res = gnutls_x509_crt_init(&crt);

	if (res)
		return fail(err, errlen, -ENOMEM, "%s: %s", path, gnutls_strerror(res));
	res = gnutls_x509_crt_import(crt, pem, GNUTLS_X509_FMT_PEM);
	if (res)
		res = fail(err, errlen, -EINVAL, "%s is no certificate in PEM: %s", path,
			   gnutls_strerror(res));
	else
		res = check_time(path, crt, err, errlen);
	gnutls_x509_crt_deinit(crt);
	return res;
}

/* Of several authorities some may be old; but whom all of them have signed would be refused. */
static int check_authorities(gnutls_x509_trust_list_t all, const char *path, char *err,
			     size_t errlen)
{
	gnutls_x509_trust_list_iter_t at = NULL;
	gnutls_x509_crt_t ca;
	int res = -EINVAL;

	while (res && !gnutls_x509_trust_list_iter_get_ca(all, &at, &ca)) {
		res = check_time(path, ca, err, errlen);
		gnutls_x509_crt_deinit(ca);
	}
	gnutls_x509_trust_list_iter_deinit(at);
	return res;
}

/* Has one of these authorities signed the list? Its age is no matter, whom it names stays revoked. */
static bool is_signed(gnutls_x509_crl_t crl, gnutls_x509_trust_list_t by)
{
	gnutls_x509_trust_list_iter_t at = NULL;
	gnutls_x509_crt_t ca;
	bool found = false;

	while (!found && !gnutls_x509_trust_list_iter_get_ca(by, &at, &ca)) {
		unsigned wrong;

		found = !gnutls_x509_crl_verify(crl, &ca, 1, GNUTLS_VERIFY_DISABLE_CA_SIGN,
						&wrong) &&
			!(wrong & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNATURE_FAILURE));
		gnutls_x509_crt_deinit(ca);
	}
	gnutls_x509_trust_list_iter_deinit(at);
	return found;
}

/* GnuTLS takes any list, and one of an authority that it does not know revokes nothing. */
static int add_revoked(gnutls_x509_trust_list_t trusted, gnutls_x509_crl_t *crls, unsigned n,
		       const char *path, char *err, size_t errlen)
{
	int res = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!res && !is_signed(crls[i], trusted))
			res = fail(err, errlen, -EINVAL, "cannot use %s: its list %u is not signed by "
				   "an authority in ca-cert.pem", path, i + 1);
		if (!res && gnutls_x509_trust_list_add_crls(trusted, &crls[i], 1, 0, 0) == 1)
			continue; /* it is theirs now */
		if (!res)
			res = fail(err, errlen, -ENOMEM, "out of memory");
		gnutls_x509_crl_deinit(crls[i]);
	}
	return res;
}

static int load_revoked(gnutls_x509_trust_list_t trusted, const char *path, char *err,
			size_t errlen)
{
	gnutls_datum_t pem = { NULL, 0 };
	gnutls_x509_crl_t *crls = NULL;
	unsigned n = 0;
	int res = load(path, &pem, err, errlen), r;

	if (res)
		return res;
	r = gnutls_x509_crl_list_import2(&crls, &n, &pem, GNUTLS_X509_FMT_PEM, 0);
	gnutls_free(pem.data);
	if (r < 0)
		return fail(err, errlen, -EINVAL, "cannot use %s: %s", path, gnutls_strerror(r));
	res = add_revoked(trusted, crls, n, path, err, errlen);
	gnutls_free(crls);
	return res;
}

/* The certificates that clients' must be signed by, and those that are revoked. */
static int load_authority(struct tls_context *ctx, const char *folder, char *err, size_t errlen)
{
	gnutls_x509_trust_list_t trusted;
	char path[PATH_ROOM];
	struct stat st;
	int res;

	snprintf(path, sizeof(path), "%s/ca-cert.pem", folder);
	res = gnutls_certificate_set_x509_trust_file(ctx->x509, path, GNUTLS_X509_FMT_PEM);
	if (res <= 0)
		return fail(err, errlen, stat(path, &st) ? -errno : -EINVAL,
			    "tls_verify_peer: cannot use %s: %s", path,
			    res ? gnutls_strerror(res) : "there is no certificate in it");
	gnutls_certificate_get_trust_list(ctx->x509, &trusted);
	res = check_authorities(trusted, path, err, errlen);
	if (res)
		return res;
	snprintf(path, sizeof(path), "%s/ca-crl.pem", folder);
	if (stat(path, &st) && errno == ENOENT)
		return 0;
	return load_revoked(trusted, path, err, errlen);
}

static int load_certificates(struct tls_context *ctx, const struct tls_files *files, char *err,
			     size_t errlen)
{
	gnutls_datum_t cert = { NULL, 0 }, key = { NULL, 0 };
	char cert_path[PATH_ROOM], key_path[PATH_ROOM];
	int res;

	snprintf(cert_path, sizeof(cert_path), "%s/server-cert.pem", files->certificates);
	snprintf(key_path, sizeof(key_path), "%s/server-key.pem", files->certificates);
	if (gnutls_certificate_allocate_credentials(&ctx->x509))
		return fail(err, errlen, -ENOMEM, "out of memory");
	res = load(cert_path, &cert, err, errlen);
	if (!res)
		res = check_own(cert_path, &cert, err, errlen);
	if (!res)
		res = check_secret(key_path, err, errlen);
	if (!res)
		res = load(key_path, &key, err, errlen);
	if (!res) {
		int r = gnutls_certificate_set_x509_key_mem(ctx->x509, &cert, &key,
							    GNUTLS_X509_FMT_PEM);

		if (r < 0)
			res = fail(err, errlen, -EINVAL, "%s and %s are no pair: %s", cert_path,
				   key_path, gnutls_strerror(r));
	}
	gnutls_free(cert.data);
	if (key.data)
		gnutls_memset(key.data, 0, key.size);
	gnutls_free(key.data);
	if (!res && files->verify_peer)
		res = load_authority(ctx, files->certificates, err, errlen);
	gnutls_certificate_set_known_dh_params(ctx->x509, GNUTLS_SEC_PARAM_MEDIUM);
	return res;
}

/* ---- pre-shared keys ---- */

static struct tls_psk *find_psk(const struct tls_context *ctx, const char *user, size_t len)
{
	struct tls_psk *p;

	STAILQ_FOREACH(p, &ctx->psks, link)
		if (strlen(p->user) == len && !memcmp(p->user, user, len))
			return p;
	return NULL;
}

/* GnuTLS asks for a user's key, which it frees. */
static int give_psk(gnutls_session_t session, const gnutls_datum_t *user, gnutls_datum_t *key)
{
	const struct tls_session *s = gnutls_session_get_ptr(session);
	const struct tls_psk *p = find_psk(s->ctx, (const char *)user->data, user->size);

	if (!p)
		return -1;
	key->data = gnutls_malloc(p->key.size);
	if (!key->data)
		return -1;
	memcpy(key->data, p->key.data, p->key.size);
	key->size = p->key.size;
	return 0;
}

/* A line without its end. NULL, or what was expected. */
static const char *take_psk(struct tls_context *ctx, char *line)
{
	char *colon = strchr(line, ':');
	gnutls_datum_t hex;
	struct tls_psk *p;

	if (!colon || colon == line)
		return "expected USER:HEXKEY";
	*colon = '\0';
	if (strlen(line) > TLS_NAME_MAX)
		return "a user of more than 200 bytes";
	for (const char *c = line; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return "a user with a space or a control character in it";
	if (find_psk(ctx, line, strlen(line)))
		return "this user has a key already";
	p = calloc(1, sizeof(*p));
	if (!p)
		return "out of memory";
	STAILQ_INSERT_TAIL(&ctx->psks, p, link);
	p->user = strdup(line);
	hex = (gnutls_datum_t){ (unsigned char *)colon + 1, (unsigned)strlen(colon + 1) };
	if (!p->user)
		return "out of memory";
	if (gnutls_hex_decode2(&hex, &p->key) || p->key.size < 16 || p->key.size > KEY_MAX)
		return "expected a key of 32 to 1024 hexadecimal digits";
	return NULL;
}

static int load_psks(struct tls_context *ctx, const char *path, char *err, size_t errlen)
{
	gnutls_datum_t file = { NULL, 0 };
	char *line, *next;
	unsigned n = 0;
	int res = check_secret(path, err, errlen);

	if (!res)
		res = load(path, &file, err, errlen);
	if (!res && memchr(file.data, 0, file.size))
		res = fail(err, errlen, -EINVAL, "%s: there is a NUL byte in it", path);
	for (line = (char *)file.data; !res && line && *line; line = next) {
		const char *wrong;
		char *end = strchr(line, '\n');

		next = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		if (end && end > line && end[-1] == '\r')
			end[-1] = '\0';
		n++;
		if (!*line || *line == '#')
			continue;
		wrong = take_psk(ctx, line);
		if (wrong)
			res = fail(err, errlen, -EINVAL, "%s:%u: %s", path, n, wrong);
	}
	if (file.data)
		gnutls_memset(file.data, 0, file.size);
	gnutls_free(file.data);
	if (!res && STAILQ_EMPTY(&ctx->psks))
		res = fail(err, errlen, -EINVAL, "%s: there is no key in it; expected USER:HEXKEY",
			   path);
	if (res)
		return res;
	if (gnutls_psk_allocate_server_credentials(&ctx->psk))
		return fail(err, errlen, -ENOMEM, "out of memory");
	gnutls_psk_set_server_credentials_function2(ctx->psk, give_psk);
	gnutls_psk_set_server_known_dh_params(ctx->psk, GNUTLS_SEC_PARAM_MEDIUM);
	return 0;
}

/* ---- contexts ---- */

int tls_context_new(const struct tls_files *files, struct tls_context **out, char *err,
		    size_t errlen)
{
	bool x509 = files->certificates && *files->certificates;
	bool psk = files->psk && *files->psk;
	struct tls_context *ctx = calloc(1, sizeof(*ctx));
	int res = 0;

	*out = NULL;
	if (!ctx)
		return fail(err, errlen, -ENOMEM, "out of memory");
	ctx->refs = 1;
	STAILQ_INIT(&ctx->psks);
	ctx->verify_peer = files->verify_peer;
	if (!x509 && !psk)
		res = fail(err, errlen, -EINVAL, "TLS needs tls_certificates or tls_psk");
	else if (files->verify_peer && !x509)
		res = fail(err, errlen, -EINVAL, "tls_verify_peer needs tls_certificates");
	if (!res && x509)
		res = load_certificates(ctx, files, err, errlen);
	if (!res && psk)
		res = load_psks(ctx, files->psk, err, errlen);
	if (!res && gnutls_priority_init(&ctx->priority,
					 psk ? "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:"
					       "+ECDHE-PSK:+DHE-PSK:+PSK"
					     : "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL))
		res = fail(err, errlen, -ENOMEM, "cannot set up TLS");
	if (res)
		tls_context_put(ctx);
	else
		*out = ctx;
	return res;
}

struct tls_context *tls_context_get(struct tls_context *ctx)
{
	if (ctx)
		atomic_fetch_add(&ctx->refs, 1);
	return ctx;
}

void tls_context_put(struct tls_context *ctx)
{
	struct tls_psk *p;

	if (!ctx || atomic_fetch_sub(&ctx->refs, 1) != 1)
		return;
	while ((p = STAILQ_FIRST(&ctx->psks))) {
		STAILQ_REMOVE_HEAD(&ctx->psks, link);
		if (p->key.data)
			gnutls_memset(p->key.data, 0, p->key.size);
		gnutls_free(p->key.data);
		free(p->user);
		free(p);
	}
	if (ctx->x509)
		gnutls_certificate_free_credentials(ctx->x509);
	if (ctx->psk)
		gnutls_psk_free_server_credentials(ctx->psk);
	if (ctx->priority)
		gnutls_priority_deinit(ctx->priority);
	free(ctx);
}
