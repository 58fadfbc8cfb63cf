#include "server/export/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/settings.h"

/* ---- matching ---- */

static int parse_network(struct rule *r, const char *text, char *err, size_t errlen)
{
	int res = network_parse(text, &r->network);

	if (res == -ERANGE)
		snprintf(err, errlen, "client match 'ip:%s': the address has bits beyond /%u",
			 text, r->network.bits);
	else if (res)
		snprintf(err, errlen,
			 "client match 'ip:%s': expected ip:ADDRESS/PREFIX, as ip:10.0.0.0/8 or "
			 "ip:fd00::/64", text);
	r->length = r->network.bits;
	return res ? -EINVAL : 0;
}

static bool known_kind(const char *match)
{
	static const char *const kinds[] = { "ip:", "uid:", "pid:", "cid:", "tls:", "conn:",
					     "export:", NULL };

	for (unsigned i = 0; kinds[i]; i++)
		if (!strncmp(match, kinds[i], strlen(kinds[i])) && match[strlen(kinds[i])])
			return true;
	return false;
}

static int parse_match(struct rule *r, const char *match, char *err, size_t errlen)
{
	size_t len = strlen(match);
	struct network address;

	if (!len || len > CLIENT_ID_MAX) {
		snprintf(err, errlen, "client match '%.80s%s': expected 1 to %d bytes", match,
			 len > 80 ? "..." : "", CLIENT_ID_MAX);
		return -EINVAL;
	}
	strcpy(r->match, match);
	if (match[len - 1] == '*') {
		r->kind = RULE_PREFIX;
		r->length = (unsigned)len - 1;
		return 0;
	}
	if (!known_kind(match)) {
		snprintf(err, errlen,
			 "client match '%s': expected ip:ADDRESS, ip:ADDRESS/PREFIX, uid:N, pid:N, "
			 "cid:N, tls:NAME, conn:N, export:NAME, or the beginning of one of these "
			 "and *", match);
		return -EINVAL;
	}
	if (!strncmp(match, "ip:", 3) && strchr(match, '/')) {
		r->kind = RULE_NETWORK;
		return parse_network(r, match + 3, err, errlen);
	}
	r->kind = RULE_ID;
	r->length = (unsigned)len;
	if (strncmp(match, "ip:", 3))
		return 0;
	if (network_address(match + 3, &address)) {
		snprintf(err, errlen, "client match '%s': '%s' is no address", match, match + 3);
		return -EINVAL;
	}
	/* As the kernel would write it: that is how ids come. */
	inet_ntop(address.family, address.address, r->match + 3, sizeof(r->match) - 3);
	r->length = (unsigned)strlen(r->match);
	return 0;
}

static bool matches(const struct rule *r, const char *id, const struct export *e)
{
	struct network address;

	if (r->export && r->export != e)
		return false;
	switch (r->kind) {
	case RULE_ID:
		return !strcmp(r->match, id);
	case RULE_PREFIX:
		return !strncmp(r->match, id, r->length);
	case RULE_NETWORK:
		return !strncmp(id, "ip:", 3) && !network_address(id + 3, &address) &&
		       network_has(&r->network, &address);
	}
	return false;
}

/* Is a at least as specific as b, which was made before it? */
static bool beats(const struct rule *a, const struct rule *b)
{
	if (a->kind != b->kind)
		return a->kind > b->kind;
	if (a->length != b->length)
		return a->length > b->length;
	return a->export || !b->export;
}

void rules_params(const struct rules *rules, const char *id, const struct export *e,
		  struct elv_client_params *params)
{
	const struct rule *best[RULE_SETTINGS] = { NULL }, *r;

	TAILQ_FOREACH(r, rules, link) {
		if (!matches(r, id, e))
			continue;
		for (unsigned i = 0; elv_client_rows[i].name; i++)
			if (r->has[i] && (!best[i] || beats(r, best[i])))
				best[i] = r;
	}
	for (unsigned i = 0; elv_client_rows[i].name; i++) {
		const struct tunable *t = &elv_client_rows[i];

		tunable_set_num(t, params,
				best[i] ? tunable_num(t, &best[i]->params) : tunable_default(t));
	}
}

/* ---- making them ---- */

int rules_get(struct rules *rules, const char *match, const struct export *e, struct rule **out,
	      char *err, size_t errlen)
{
	struct rule *r = calloc(1, sizeof(*r)), *old;
	int res;

	if (!r) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	r->export = e;
	res = parse_match(r, match, err, errlen);
	if (res) {
		free(r);
		return res;
	}
	TAILQ_FOREACH(old, rules, link) {
		if (old->export == e && !strcmp(old->match, r->match)) {
			free(r);
			*out = old;
			return 0;
		}
	}
	TAILQ_INSERT_TAIL(rules, r, link);
	*out = r;
	return 0;
}

void rule_merge(struct rule *r, const struct elv_client_params *params, const bool *has)
{
	for (unsigned i = 0; elv_client_rows[i].name; i++) {
		const struct tunable *t = &elv_client_rows[i];

		if (!has[i])
			continue;
		r->has[i] = true;
		tunable_set_num(t, &r->params, tunable_num(t, params));
	}
}

/* Parse settings of a client; has[i]: the i-th row was set. */
static int parse_settings(const struct setting *set, size_t n, struct elv_client_params *params,
			  bool has[RULE_SETTINGS], struct setting_error *err)
{
	struct tunable_changes changes = { .when = WHEN_RUNTIME };
	int res = 0;

	memset(err, 0, sizeof(*err));
	tunable_defaults(elv_client_rows, params);
	for (size_t i = 0; i < n && !res; i++) {
		const struct tunable *row = tunable_find(elv_client_rows, set[i].name);
		char text[TUNABLE_ERR_MAX];

		res = tunable_changes_set(&changes, elv_client_rows, params, set[i].name,
					  set[i].value, text, sizeof(text));
		if (res)
			setting_blame(err, &set[i], row, text);
		else
			has[row - elv_client_rows] = true;
	}
	if (!res)
		tunable_changes_commit(&changes);
	tunable_changes_free(&changes);
	return res;
}

int rules_add(struct rules *rules, const char *match, const struct export *e,
	      const struct setting *set, size_t n, struct setting_error *err)
{
	bool has[RULE_SETTINGS] = { false };
	struct elv_client_params params;
	struct rule *r;
	int res = parse_settings(set, n, &params, has, err);

	if (!res)
		res = rules_get(rules, match, e, &r, err->text, sizeof(err->text));
	if (res)
		return res;
	rule_merge(r, &params, has);
	if (!e)
		rules_forget(rules, r->match, has);
	return 0;
}

void rules_forget(struct rules *rules, const char *id, const bool *has)
{
	struct rule *r;

	TAILQ_FOREACH(r, rules, link) {
		if (!r->export || r->kind != RULE_ID || strcmp(r->match, id))
			continue;
		for (unsigned i = 0; elv_client_rows[i].name; i++)
			if (has[i])
				r->has[i] = false;
	}
}

void rules_drop_export(struct rules *rules, const struct export *e)
{
	struct rule *r, *next;

	for (r = TAILQ_FIRST(rules); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->export != e)
			continue;
		TAILQ_REMOVE(rules, r, link);
		free(r);
	}
}

void rules_free(struct rules *rules)
{
	struct rule *r;

	while ((r = TAILQ_FIRST(rules))) {
		TAILQ_REMOVE(rules, r, link);
		free(r);
	}
}
