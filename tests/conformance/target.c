/* The server that is looked at: its URI, credentials for it, and what it offers. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/conformance/wire.h"

/* ---- the URI ---- */

/* Undo %XX in n characters; NULL if they are wrong, or hold a NUL. */
static char *decode(const char *s, size_t n)
{
	char *out = malloc(n + 1), hex[3] = { 0 };
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '%') {
			if (n - i < 3 || !isxdigit((unsigned char)s[i + 1]) ||
			    !isxdigit((unsigned char)s[i + 2]))
				goto bad;
			memcpy(hex, s + i + 1, 2);
			out[k] = (char)strtol(hex, NULL, 16);
			if (!out[k])
				goto bad;
			i += 2;
			k++;
		} else {
			out[k++] = s[i];
		}
	}
	out[k] = '\0';
	return out;
bad:
	free(out);
	return NULL;
}

static const char *parse_query(struct uri *uri, const char *p)
{
	const struct {
		const char *key;
		char **value;
	} keys[] = {
		{ "socket=", &uri->socket }, { "tls-certificates=", &uri->certificates },
		{ "tls-psk-file=", &uri->psk_file }, { "tls-hostname=", &uri->hostname },
	};
	size_t n, i;

	for (; *p; p += n + (p[n] != '\0')) {
		n = strcspn(p, "&;");
		for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			size_t k = strlen(keys[i].key);

			if (n < k || strncmp(p, keys[i].key, k))
				continue;
			if (*keys[i].value)
				return "it names a parameter twice";
			*keys[i].value = decode(p + k, n - k);
			if (!*keys[i].value)
				return "a value has a wrong %XX";
			break;
		}
		if (i < sizeof(keys) / sizeof(keys[0]))
			continue;
		if (n == 17 && !strncmp(p, "tls-verify-peer=", 16) && (p[16] == '0' || p[16] == '1'))
			uri->verify = p[16] == '1';
		else if (n)
			return "known parameters are socket, tls-certificates, tls-psk-file, "
			       "tls-hostname and tls-verify-peer=0|1";
	}
	return NULL;
}

/* [USER@]HOST[:PORT], HOST perhaps in brackets. */
static const char *parse_authority(struct uri *uri, const char *p, size_t n)
{
	const char *at = memchr(p, '@', n), *colon;
	size_t host;

	if (at) {
		uri->user = decode(p, (size_t)(at - p));
		n -= (size_t)(at + 1 - p);
		p = at + 1;
	}
	if (n && *p == '[') {
		colon = memchr(p, ']', n);
		if (!colon)
			return "']' is missing";
		uri->host = decode(p + 1, (size_t)(colon - p - 1));
		host = (size_t)(colon + 1 - p);
	} else {
		colon = memchr(p, ':', n);
		host = colon ? (size_t)(colon - p) : n;
		if (host)
			uri->host = decode(p, host);
	}
	if (host < n && (p[host] != ':' || strspn(p + host + 1, "0123456789") != n - host - 1))
		return "the port is no number";
	uri->port = host + 1 < n ? strndup(p + host + 1, n - host - 1) : strdup("10809");
	return NULL;
}

const char *uri_parse(struct uri *uri, const char *text)
{
	static const struct {
		const char *scheme;
		int family;
		bool tls;
	} schemes[] = {
		{ "nbd://", TCP, false }, { "nbds://", TCP, true },
		{ "nbd+unix://", UNIX, false }, { "nbds+unix://", UNIX, true },
		{ "nbd+vsock://", VSOCK, false }, { "nbds+vsock://", VSOCK, true },
	};
	size_t i, n = 0, authority;
	const char *wrong;

	memset(uri, 0, sizeof(*uri));
	uri->verify = true;
	for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		n = strlen(schemes[i].scheme);
		if (!strncmp(text, schemes[i].scheme, n))
			break;
	}
	if (i == sizeof(schemes) / sizeof(schemes[0]))
		return "expected nbd://, nbds://, nbd+unix://, nbds+unix://, nbd+vsock:// or "
		       "nbds+vsock://";
	uri->family = schemes[i].family;
	uri->tls = schemes[i].tls;
	text += n;
	authority = strcspn(text, "/?");
	wrong = parse_authority(uri, text, authority);
	if (wrong)
		return wrong;
	text += authority;
	text += *text == '/';
	n = strcspn(text, "?");
	uri->name = decode(text, n);
	if (!uri->name)
		return "the export's name has a wrong %XX";
	wrong = text[n] ? parse_query(uri, text + n + 1) : NULL;
	if (wrong)
		return wrong;
	if ((uri->family == UNIX) != !!uri->socket)
		return "socket=PATH is for Unix sockets, and needed for them";
	if (uri->socket && strlen(uri->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return "the socket's path is too long";
	if (uri->family == TCP && !uri->host)
		uri->host = strdup("localhost");
	if (uri->family == VSOCK && !uri->host)
		uri->host = strdup("2");	/* the host of a virtual machine */
	if (uri->certificates && uri->psk_file)
		return "tls-certificates and tls-psk-file exclude each other";
	return NULL;
}

/* ---- credentials ---- */

/* The line USER:KEY of the file; KEY in *key. */
static bool find_key(const char *file, const char *user, char key[static 256])
{
	FILE *f = fopen(file, "r");
	char line[1024];
	size_t n = strlen(user);
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		found = !strncmp(line, user, n) && line[n] == ':' && strlen(line + n + 1) < 256;
		if (found)
			memcpy(key, line + n + 1, strlen(line + n + 1) + 1);
	}
	if (f)
		fclose(f);
	return found;
}

const char *target_credentials(struct target *target)
{
	struct uri *uri = &target->uri;
	char a[PATH_MAX], b[PATH_MAX], key[256];
	gnutls_datum_t datum = { .data = (unsigned char *)key };
	const char *user = uri->user ? uri->user : getenv("USER") ? getenv("USER") : "root";

	if (uri->psk_file) {
		if (!find_key(uri->psk_file, user, key))
			return "the file of tls-psk-file has no line for this user";
		datum.size = (unsigned)strlen(key);
		gnutls_psk_allocate_client_credentials(&target->psk);
		if (gnutls_psk_set_client_credentials(target->psk, user, &datum, GNUTLS_PSK_KEY_HEX))
			return "the key of tls-psk-file is not in hexadecimal";
		return NULL;
	}
	if (!uri->tls && !uri->certificates)
		return NULL;
	gnutls_certificate_allocate_credentials(&target->x509);
	if (!uri->certificates) {
		gnutls_certificate_set_x509_system_trust(target->x509);
		return NULL;
	}
	snprintf(a, sizeof(a), "%s/ca-cert.pem", uri->certificates);
	if (gnutls_certificate_set_x509_trust_file(target->x509, a, GNUTLS_X509_FMT_PEM) <= 0)
		return "there is no usable ca-cert.pem in the folder of tls-certificates";
	snprintf(a, sizeof(a), "%s/client-cert.pem", uri->certificates);
	snprintf(b, sizeof(b), "%s/client-key.pem", uri->certificates);
	if (!access(a, F_OK) &&
	    gnutls_certificate_set_x509_key_file(target->x509, a, b, GNUTLS_X509_FMT_PEM) < 0)
		return "client-cert.pem and client-key.pem do not fit together";
	return NULL;
}

void target_free(struct target *target)
{
	struct uri *u = &target->uri;
	char *all[] = { u->host, u->port, u->socket, u->name, u->user, u->certificates, u->psk_file,
			u->hostname };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	for (unsigned i = 0; i < target->nnames; i++)
		free(target->names[i]);
	for (unsigned i = 0; i < target->ncontexts; i++)
		free(target->contexts[i]);
	if (target->x509)
		gnutls_certificate_free_credentials(target->x509);
	if (target->psk)
		gnutls_psk_free_client_credentials(target->psk);
}

/* ---- what it offers ---- */

static void probe_names(struct test *t, struct conn *c)
{
	struct target *target = t->target;
	struct outcome *o = option(c, OPT_LIST, NULL, 0);
	const uint8_t *p;

	target->list = o->type == REP_ACK;
	for (unsigned i = 0; i < o->n && target->nnames < NAMES_MOST; i++) {
		p = o->items[i].data;
		target->names[target->nnames++] = strndup((const char *)p + 4, get32(p));
	}
	o = info_name(c, OPT_INFO, "no export has this name");
	target->any_name = o->type == REP_ACK;
}

static void probe_contexts(struct test *t, struct conn *c)
{
	static const char *const none[] = { NULL }, *const one[] = { "base:allocation", NULL };
	struct target *target = t->target;
	struct outcome *o = meta(c, OPT_SET_META, target->uri.name, one);
	const char *name;

	target->allocation = o->type == REP_ACK && o->n == 1;
	o = meta(c, OPT_LIST_META, target->uri.name, none);
	if (o->type != REP_ACK)
		o->n = 0;
	for (unsigned i = 0; i < o->n && target->ncontexts < CONTEXTS_MOST; i++) {
		name = (const char *)o->items[i].data + 4;
		if (strchr(name, ':') && strchr(name, ':')[1])
			target->contexts[target->ncontexts++] = strdup(name);
	}
	if (!target->ncontexts && target->allocation)
		target->contexts[target->ncontexts++] = strdup("base:allocation");
}

static void probe_mode(struct test *t, enum mode mode)
{
	struct target *target = t->target;
	uint32_t number = mode == STRUCTURED ? OPT_STRUCTURED_REPLY : OPT_EXTENDED_HEADERS;
	struct conn *c = greet(t);

	if (mode != SIMPLE && option(c, number, NULL, 0)->type != REP_ACK)
		return;
	target->mode[mode] = true;
	c->mode = mode;
	if (mode == STRUCTURED || (mode == EXTENDED && !target->mode[STRUCTURED]))
		probe_contexts(t, c);
	/* BLOCK_STATUS with payload is offered to those that have contexts. */
	if (mode == EXTENDED && target->allocation)
		meta(c, OPT_SET_META, target->uri.name, (const char *[]){ "base:allocation", NULL });
	go(c);
	target->flags[mode] = c->flags;
	target->size = c->size;
	send_header(c, mode == EXTENDED ? MAGIC_REQUEST_EXT : MAGIC_REQUEST, CMD_DISC, 0, 0, 0, 0);
}

void target_probe(struct test *t)
{
	static const int sizes[] = { INFO_BLOCK_SIZE, -1 };
	struct target *target = t->target;
	struct conn *c = greet_plain(t);
	const struct answer *a;
	struct outcome *o = info(c, OPT_INFO, NULL);

	target->tls_forced = o->type == ERR_TLS_REQD &&
			     option(c, OPT_LIST, NULL, 0)->type == ERR_TLS_REQD;
	target->starttls = option(c, OPT_STARTTLS, NULL, 0)->type == REP_ACK;
	conn_close(c);
	target->min = 1;
	target->preferred = 4096;
	target->most = 32 << 20;
	if (target->tls_forced && !target->uri.tls)
		return;
	c = greet(t);
	o = info(c, OPT_INFO, sizes);
	if (o->type & REP_ERROR && o->type != ERR_UNSUP)
		fail(t, "INFO of the export '%s': %s '%s'", target->uri.name, reply_name(o->type),
		     o->text);
	target->go = o->type == REP_ACK;
	a = target->go ? info_find(c, o, INFO_BLOCK_SIZE, 12) : NULL;
	if (a) {
		target->sizes = true;
		target->min = get32(a->data + 2);
		target->preferred = get32(a->data + 6);
		target->most = get32(a->data + 10);
		if (!target->min || target->min > 65536)
			fail(t, "a minimum block size of %u", target->min);
	}
	probe_names(t, c);
	conn_close(c);
	for (enum mode mode = SIMPLE; mode < MODES; mode++)
		probe_mode(t, mode);
	if (target->size < 1 << 20)
		fail(t, "an export of %llu bytes; at least 1 MiB is needed",
		     (unsigned long long)target->size);
}

const char *target_lacks(const struct target *target, const struct row *row)
{
	uint16_t f = target->flags[row->mode];
	bool writable = !(f & TF_READ_ONLY) && !target->read_only;
	const struct {
		unsigned need;
		bool there;
		const char *name;
	} needs[] = {
		{ PLAIN, !target->uri.tls && !target->tls_forced, "a connection without TLS" },
		{ GO, target->go, "INFO and GO" },
		{ LIST, target->list, "LIST" },
		{ NAMES, !target->any_name, "refuses unknown names" },
		{ SIZES, target->sizes, "INFO_BLOCK_SIZE" },
		{ WRITABLE, writable, "a writable export" },
		{ READ_ONLY, f & TF_READ_ONLY, "a read-only export" },
		{ FLUSH, f & TF_FLUSH, "SEND_FLUSH" },
		{ FUA, f & TF_FUA, "SEND_FUA" },
		{ NO_FUA, !(f & TF_FUA), "SEND_FUA is offered" },
		{ TRIM, f & TF_TRIM, "SEND_TRIM" },
		{ ZEROES, f & TF_WRITE_ZEROES, "SEND_WRITE_ZEROES" },
		{ CACHE, f & TF_CACHE, "SEND_CACHE" },
		{ FAST_ZERO, f & TF_FAST_ZERO, "SEND_FAST_ZERO" },
		{ NO_FAST_ZERO, !(f & TF_FAST_ZERO), "SEND_FAST_ZERO is offered" },
		{ MULTI_CONN, f & TF_MULTI_CONN, "CAN_MULTI_CONN" },
		{ DF, f & TF_DF, "SEND_DF" },
		{ NO_DF, !(f & TF_DF), "SEND_DF is offered" },
		{ META, target->ncontexts, "metadata contexts" },
		{ ALLOCATION, target->allocation, "base:allocation" },
		{ STATUS_PAYLOAD, f & TF_STATUS_PAYLOAD, "BLOCK_STAT_PAYLOAD" },
		{ NO_STATUS_PAYLOAD, !(f & TF_STATUS_PAYLOAD), "BLOCK_STAT_PAYLOAD is offered" },
		{ BIG, target->size > (UINT64_C(4) << 30) + (4 << 20), "an export above 4 GiB" },
		{ COARSE, target->min > 1, "a minimum block size above 1" },
		{ FINE, target->min == 1, "a minimum block size of 1" },
		{ TLS, target->starttls, "STARTTLS" },
		{ TLS_CREDENTIALS, target->psk || target->x509, "credentials in the URI" },
		{ TLS_FORCED, target->tls_forced, "insists on TLS" },
		{ NO_TLS, !target->starttls, "has STARTTLS" },
		{ TLS_ALLOWED, target->starttls && !target->tls_forced, "TLS as a choice" },
	};

	if (target->tls_forced && !target->uri.tls && !(row->needs & (TLS | TLS_FORCED)))
		return "a connection without TLS";
	if (row->mode == STRUCTURED && !target->mode[STRUCTURED])
		return "STRUCTURED_REPLY";
	if (row->mode == EXTENDED && !target->mode[EXTENDED])
		return "EXTENDED_HEADERS";
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		if (row->needs & needs[i].need && !needs[i].there)
			return needs[i].name;
	}
	return NULL;
}
