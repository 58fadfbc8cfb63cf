#include "server/export/endpoint.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/settings.h"
#include "server/export/strict.h"

/* ---- addresses ---- */

/* "vsock:10809", "vsock:3:10809". */
static int parse_vsock(const char *text, struct endpoint *out, char *err, size_t errlen)
{
	static const char expected[] = "vsock:PORT or vsock:CID:PORT, each 0..4294967294";
	const char *port = strrchr(text, ':') + 1;
	char cid[16];
	uint64_t n;

	out->kind = ENDPOINT_VSOCK;
	out->any_cid = true;
	if (port != text + strlen("vsock:")) {
		size_t len = (size_t)(port - 1 - text) - strlen("vsock:");

		if (len >= sizeof(cid))
			return strict_wrong(text, "is no address of vsock", expected, err, errlen);
		memcpy(cid, text + strlen("vsock:"), len);
		cid[len] = '\0';
		if (!strict_number(cid, UINT32_MAX - 1, &n))
			return strict_wrong(text, "is no address of vsock", expected, err, errlen);
		out->any_cid = false;
		out->cid = (uint32_t)n;
	}
	if (!strict_number(port, UINT32_MAX - 1, &n))
		return strict_wrong(text, "is no address of vsock", expected, err, errlen);
	out->vport = (uint32_t)n;
	return 0;
}

/* "[::1]:10809", "localhost:10809", ":10809". */
static int parse_tcp(const char *text, struct endpoint *out, char *err, size_t errlen)
{
	static const char expected[] =
		"HOST:PORT or [ADDRESS]:PORT, as 10.0.0.1:10809 or [::1]:10809, or vsock:PORT";
	const char *colon = strrchr(text, ':'), *host = text;
	size_t len = colon ? (size_t)(colon - text) : 0;
	bool brackets = len && *host == '[';
	uint64_t port;

	out->kind = ENDPOINT_TCP;
	if (brackets && len >= 2 && host[len - 1] == ']') {
		host++;
		len -= 2;
	} else if (!colon || brackets || memchr(host, ':', len)) {
		return strict_wrong(text, "is no address to listen on", expected, err, errlen);
	}
	if (len >= sizeof(out->host) || !strict_number(colon + 1, 65535, &port))
		return strict_wrong(text, "is no address to listen on", expected, err, errlen);
	memcpy(out->host, host, len);
	out->host[len] = '\0';
	snprintf(out->port, sizeof(out->port), "%u", (unsigned)port);
	return 0;
}

static int parse_path(const char *text, struct endpoint *out, char *err, size_t errlen)
{
	out->kind = ENDPOINT_UNIX;
	if (strlen(text) >= sizeof(out->path))
		return strict_wrong(text, "is too long", "a path of 1..107 bytes", err, errlen);
	strcpy(out->path, text);
	return 0;
}

/* ---- words ---- */

static int take_tls(struct endpoint *e, const char *value)
{
	const struct tunable *row = tunable_find(server_rows, "tls");

	for (e->tls = 0; row->choices[e->tls]; e->tls++)
		if (!strcmp(row->choices[e->tls], value))
			break;
	e->own_tls = true;
	return row->choices[e->tls] ? 0 : -EINVAL;
}

static int take_readonly(struct endpoint *e, const char *value)
{
	(void)value;
	e->readonly = true;
	return 0;
}

static int take_mode(struct endpoint *e, const char *value)
{
	unsigned long mode = strtoul(value, NULL, 8);

	if (!*value || strlen(value) > 4 || value[strspn(value, "01234567")] || mode > 0777)
		return -EINVAL;
	e->has_mode = true;
	e->mode = (mode_t)mode;
	return 0;
}

static int take_group(struct endpoint *e, const char *value)
{
	struct group *gr = getgrnam(value);
	uint64_t n;

	if (!gr && !strict_number(value, UINT32_MAX - 1, &n))
		return -EINVAL;
	e->has_group = true;
	e->group = gr ? gr->gr_gid : (gid_t)n;
	return 0;
}

static const struct {
	const char *word;     /* with a = if it has a value */
	bool unix_only;
	int (*take)(struct endpoint *e, const char *value);
	const char *what, *expected; /* of a wrong value */
} words[] = {
	{ "tls=", false, take_tls, "is not a choice", "tls=off, tls=allow or tls=require" },
	{ "readonly", false, take_readonly, NULL, NULL },
	{ "mode=", true, take_mode, "is not a mode", "an octal number, as mode=0660" },
	{ "group=", true, take_group, "is no group of this machine", "group=NAME or group=GID" },
};
enum { NWORDS = sizeof(words) / sizeof(words[0]) };

/* seen: a bit for each word that stood before. */
static int take_word(struct endpoint *e, const char *word, unsigned *seen, char *err,
		     size_t errlen)
{
	for (unsigned i = 0; i < NWORDS; i++) {
		size_t len = strlen(words[i].word);
		bool value = words[i].word[len - 1] == '=';

		if (strncmp(word, words[i].word, len) || (!value && word[len]) ||
		    (words[i].unix_only && e->kind != ENDPOINT_UNIX))
			continue;
		if (*seen & 1u << i)
			return strict_wrong(word, "is the second of its kind", "each once", err, errlen);
		*seen |= 1u << i;
		return words[i].take(e, word + len) ?
			strict_wrong(word, words[i].what, words[i].expected, err, errlen) : 0;
	}
	return strict_wrong(word, "is no word for a socket", e->kind == ENDPOINT_UNIX ?
		     "tls=, readonly, mode= or group=" : "tls= or readonly", err, errlen);
}

/* ---- all of it ---- */

static int parse(const char *text, bool unix_socket, struct endpoint *out, char *err,
		 size_t errlen)
{
	char *copy = strdup(text), *rest = copy, *address = NULL, *word;
	unsigned seen = 0;
	int res;

	memset(out, 0, sizeof(*out));
	if (!copy)
		return -ENOMEM;
	while (!address && rest)
		if (!*(address = strsep(&rest, " ")))
			address = NULL;
	if (!address)
		res = strict_wrong(text, "is empty", "an address or a path", err, errlen);
	else if (unix_socket)
		res = parse_path(address, out, err, errlen);
	else if (!strncmp(address, "vsock:", 6))
		res = parse_vsock(address, out, err, errlen);
	else
		res = parse_tcp(address, out, err, errlen);
	while (!res && rest)
		if (*(word = strsep(&rest, " ")))
			res = take_word(out, word, &seen, err, errlen);
	free(copy);
	return res;
}

int endpoint_parse_listen(const char *text, struct endpoint *out, char *err, size_t errlen)
{
	return parse(text, false, out, err, errlen);
}

int endpoint_parse_unix(const char *text, struct endpoint *out, char *err, size_t errlen)
{
	return parse(text, true, out, err, errlen);
}

int endpoint_check_listen(const char *text, char *err, size_t errlen)
{
	struct endpoint e;

	return parse(text, false, &e, err, errlen);
}

int endpoint_check_unix(const char *text, char *err, size_t errlen)
{
	struct endpoint e;

	return parse(text, true, &e, err, errlen);
}

static bool one_wants_tls(char *const *texts, bool unix_socket)
{
	char err[TUNABLE_ERR_MAX];
	struct endpoint e;

	for (; texts && *texts; texts++)
		if (!parse(*texts, unix_socket, &e, err, sizeof(err)) && e.own_tls && e.tls)
			return true;
	return false;
}

bool endpoints_want_tls(const struct server_params *p)
{
	return p->tls || one_wants_tls(p->listen, false) || one_wants_tls(p->unix_sockets, true);
}
