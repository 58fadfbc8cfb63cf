/*
 * Rules: settings for clients by their ids, before they come: [client MATCH] of the configuration.
 *
 * A match is a whole id (ip:10.0.0.7, uid:1000, tls:alice, export:disk1), a network (ip:10.0.0.0/8,
 * ip:fd00::/64) or the beginning of ids followed by an asterisk (ip:10.*, uid:*, *). Each setting
 * of a client comes from the most specific rule that has it: a whole id before any network, the
 * longer prefix before the shorter one, any network before an asterisk, the longer text before the
 * shorter one; of equal ones the one of this export alone, then the one that was made later.
 *
 * Guarded by server.lock.
 */
#ifndef SERVER_EXPORT_RULES_H
#define SERVER_EXPORT_RULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sched/elevator.h"
#include "server/export/export.h"
#include "server/export/network.h"

enum { RULE_SETTINGS = 8 }; /* at least as many as elv_client_rows has */

struct rule {
	char match[CLIENT_ID_MAX + 1];
	const struct export *export;   /* at this one only; NULL: at all */
	enum { RULE_PREFIX, RULE_NETWORK, RULE_ID } kind;
	unsigned length;               /* of the prefix: bytes of text, or bits */
	struct network network;        /* RULE_NETWORK */
	bool has[RULE_SETTINGS];       /* by position in elv_client_rows */
	struct elv_client_params params;
	TAILQ_ENTRY(rule) link;
};
TAILQ_HEAD(rules, rule);

/*
 * The rule of this match and export, made if there is none. -EINVAL: no match, with a sentence in
 * err; -ENOMEM.
 */
int rules_get(struct rules *rules, const char *match, const struct export *e, struct rule **out,
	      char *err, size_t errlen);

/* Settings from another struct of this kind, those whose `has` is set, now are the rule's too. */
void rule_merge(struct rule *r, const struct elv_client_params *params, const bool *has);

/*
 * Check settings (elv_client_rows) and make them the rule's of this match and export (NULL: all).
 * 0, or a negative errno with *err filled as by export_set.
 */
int rules_add(struct rules *rules, const char *match, const struct export *e,
	      const struct setting *set, size_t n, struct setting_error *err);

/* Rules of this whole id for single exports lose the settings that `has` has. */
void rules_forget(struct rules *rules, const char *id, const bool *has);

/* Those for this export alone go. */
void rules_drop_export(struct rules *rules, const struct export *e);

/* What a client gets. */
void rules_params(const struct rules *rules, const char *id, const struct export *e,
		  struct elv_client_params *params);

void rules_free(struct rules *rules);

#endif
