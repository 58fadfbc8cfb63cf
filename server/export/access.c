#include "server/export/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/network.h"
#include "server/export/strict.h"

enum kind { KIND_IP, KIND_TLS, KIND_UID, KIND_GID, KIND_CID, KIND_UNIX, KIND_ANY, KINDS };

struct entry {
	enum kind kind;
	enum access access;
	struct network network; /* KIND_IP */
	uint32_t number;        /* KIND_UID, _GID, _CID */
	char *text;             /* the whole entry */
	char *match;            /* memory of name */
	const char *name;       /* KIND_TLS, without an asterisk */
	bool prefix;            /* KIND_TLS: it had one */
};

struct access_list {
	size_t n;
	struct entry *entry;
};

/* ---- parsing ---- */

static const char *const words[] = {
	[ACCESS_NONE] = "no", [ACCESS_READ] = "ro", [ACCESS_WRITE] = "rw",
};
static const char *const prefixes[] = {
	[KIND_IP] = "ip:", [KIND_TLS] = "tls:", [KIND_UID] = "uid:", [KIND_GID] = "gid:",
	[KIND_CID] = "cid:",
};

static const char matches_text[] =
	"ip:ADDRESS, ip:ADDRESS/PREFIX, tls:NAME, uid:N, gid:N, cid:N, unix or *";

static int parse_ip(const char *text, struct network *out, char *err, size_t errlen)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	int res = strchr(text, '/') ? network_parse(text, out) : network_address(text, out);

	if (res == -ERANGE)
		return strict_wrong(text, "has bits beyond its prefix", "zeroes there", err, errlen);
	if (res)
		return strict_wrong(text, "is neither an address nor a network",
			     "ip:ADDRESS or ip:ADDRESS/PREFIX, as ip:10.0.0.0/8 or ip:fd00::/64",
			     err, errlen);
	if (out->family == AF_INET6 && out->bits >= 96 && !memcmp(out->address, mapped, 12))
		return strict_wrong(text, "is an IPv4 address written as IPv6", "it as IPv4, as 10.0.0.7",
			     err, errlen);
	return 0;
}

static int parse_number(const char *text, uint32_t *out, char *err, size_t errlen)
{
	uint64_t n;

	if (!strict_number(text, UINT32_MAX - 1, &n))
		return strict_wrong(text, "is not a number of a user, a group or a machine",
			     "0..4294967294", err, errlen);
	*out = (uint32_t)n;
	return 0;
}

static int parse_name(char *text, struct entry *e, char *err, size_t errlen)
{
	char *star = strchr(text, '*');

	if (!*text || strlen(text) > CLIENT_NAME_MAX || (star && star[1]))
		return strict_wrong(text, "is no name that a client can have",
			     "tls:NAME of 1 to 200 bytes, with an asterisk at most at its end",
			     err, errlen);
	e->prefix = star;
	if (star)
		*star = '\0';
	e->name = text;
	return 0;
}

/* Sets all but text, match and access; e->match is cut for a name. */
static int parse_match(struct entry *e, char *err, size_t errlen)
{
	char *value;

	if (!strcmp(e->match, "unix") || !strcmp(e->match, "*")) {
		e->kind = *e->match == '*' ? KIND_ANY : KIND_UNIX;
		return 0;
	}
	for (e->kind = KIND_IP; e->kind < KIND_UNIX; e->kind++)
		if (!strncmp(e->match, prefixes[e->kind], strlen(prefixes[e->kind])))
			break;
	if (e->kind == KIND_UNIX)
		return strict_wrong(e->match, "matches nobody", matches_text, err, errlen);
	value = e->match + strlen(prefixes[e->kind]);
	if (e->kind == KIND_IP)
		return parse_ip(value, &e->network, err, errlen);
	if (e->kind == KIND_TLS)
		return parse_name(value, e, err, errlen);
	return parse_number(value, &e->number, err, errlen);
}

static bool same_match(const struct entry *a, const struct entry *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case KIND_IP:
		return a->network.bits == b->network.bits && network_has(&a->network, &b->network);
	case KIND_TLS:
		return a->prefix == b->prefix && !strcmp(a->name, b->name);
	default:
		return a->number == b->number;
	}
}

static int add(struct access_list *l, const struct entry *e, char *err, size_t errlen)
{
	struct entry *all;

	for (size_t i = 0; i < l->n; i++) {
		if (!same_match(&l->entry[i], e))
			continue;
		snprintf(err, errlen, "'%.80s' is for the same as '%.80s'; expected each once",
			 e->text, l->entry[i].text);
		return -EINVAL;
	}
	all = reallocarray(l->entry, l->n + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	l->entry = all;
	all[l->n++] = *e;
	return 0;
}

/* "MATCH rw" in e->text and e->match. */
static int parse_entry(struct entry *e, char *err, size_t errlen)
{
	char *blank = strrchr(e->match, ' ');

	for (e->access = ACCESS_NONE; blank && e->access <= ACCESS_WRITE; e->access++)
		if (!strcmp(blank + 1, words[e->access]))
			break;
	if (!blank || e->access > ACCESS_WRITE)
		return strict_wrong(e->text, "does not say what is permitted",
			     "MATCH and rw, ro or no, as ip:10.0.0.0/8 rw", err, errlen);
	while (blank > e->match && blank[-1] == ' ')
		blank--;
	*blank = '\0';
	return parse_match(e, err, errlen);
}

/* One entry, without blanks around it. */
static int take_entry(struct access_list *l, const char *text, size_t len, char *err,
		      size_t errlen)
{
	struct entry e = { .text = strndup(text, len), .match = strndup(text, len) };
	int res = e.text && e.match ? parse_entry(&e, err, errlen) : -ENOMEM;

	if (!res)
		res = add(l, &e, err, errlen);
	if (res) {
		free(e.text);
		free(e.match);
	}
	return res;
}

int access_parse(const char *text, struct access_list **out, char *err, size_t errlen)
{
	struct access_list *l;
	int res = 0;

	*out = NULL;
	if (!*text)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	for (const char *at = text, *end; !res && at; at = *end ? end + 1 : NULL) {
		size_t len;

		at += strspn(at, " ");
		end = at + strcspn(at, ",");
		for (len = (size_t)(end - at); len && at[len - 1] == ' ';)
			len--;
		res = take_entry(l, at, len, err, errlen);
	}
	if (res)
		access_free(l);
	else
		*out = l;
	return res;
}

int access_check(const char *text, char *err, size_t errlen)
{
	struct access_list *l;
	int res = access_parse(text, &l, err, errlen);

	access_free(l);
	return res;
}

void access_free(struct access_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++) {
		free(l->entry[i].text);
		free(l->entry[i].match);
	}
	free(l->entry);
	free(l);
}

/* ---- deciding ---- */

static bool in_group(const struct client_peer *peer, gid_t gid)
{
	for (unsigned i = 0; i < peer->ngroups; i++)
		if (peer->groups[i] == gid)
			return true;
	return peer->gid == gid;
}

/* How specific the entry is for this peer, from 1; 0: it does not match. */
static unsigned match(const struct entry *e, const struct client_peer *peer,
		      const struct network *address)
{
	size_t len;

	switch (e->kind) {
	case KIND_IP:
		return address && network_has(&e->network, address) ? e->network.bits + 1 : 0;
	case KIND_TLS:
		len = strlen(e->name);
		if (!*peer->name)
			return 0;
		if (e->prefix)
			return strncmp(e->name, peer->name, len) ? 0 : (unsigned)len + 1;
		return strcmp(e->name, peer->name) ? 0 : CLIENT_NAME_MAX + 2;
	case KIND_UID:
		return peer->kind == PEER_UNIX && peer->has_uid && peer->uid == e->number;
	case KIND_GID:
		return peer->kind == PEER_UNIX && peer->has_uid && in_group(peer, e->number);
	case KIND_CID:
		return peer->kind == PEER_VSOCK && peer->cid == e->number;
	case KIND_UNIX:
		return peer->kind == PEER_UNIX;
	case KIND_ANY:
		return 1;
	case KINDS:
		break;
	}
	return 0;
}

/* What counts of one kind: the most specific entries so far. */
struct best {
	unsigned specific;
	const struct entry *denies, *permits;
};

static void consider(struct best *best, const struct entry *e, unsigned specific)
{
	if (specific < best->specific)
		return;
	if (specific > best->specific)
		*best = (struct best){ .specific = specific };
	if (e->access == ACCESS_NONE)
		best->denies = e;
	else if (!best->permits || e->access > best->permits->access)
		best->permits = e;
}

static const struct entry *decide(const struct best best[KINDS])
{
	const struct entry *permits = NULL;

	for (unsigned k = 0; k < KIND_UNIX; k++) {
		if (best[k].denies)
			return best[k].denies;
		if (best[k].permits && (!permits || best[k].permits->access > permits->access))
			permits = best[k].permits;
	}
	for (unsigned k = KIND_UNIX; k < KINDS && !permits; k++)
		permits = best[k].denies ? best[k].denies : best[k].permits;
	return permits;
}

enum access access_of(const struct access_list *l, const struct client_peer *peer,
		      const char **why)
{
	struct best best[KINDS] = { { .specific = 0 } };
	const struct entry *chosen = NULL;
	struct network address;
	bool has_address = peer->kind == PEER_TCP && !network_address(peer->address, &address);

	for (size_t i = 0; l && i < l->n; i++) {
		const struct entry *e = &l->entry[i];
		unsigned specific = match(e, peer, has_address ? &address : NULL);

		if (specific)
			consider(&best[e->kind], e, specific);
	}
	chosen = decide(best);
	if (why)
		*why = chosen ? chosen->text : NULL;
	if (chosen)
		return chosen->access;
	return l ? ACCESS_NONE : ACCESS_WRITE;
}
