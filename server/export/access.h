/*
 * Who may attach an export: the list in its tunable `access`, as "ip:10.0.0.0/8 rw, tls:backup* ro".
 *
 * A list is made once, when the tunable is set, and is constant then. Any thread.
 */
#ifndef SERVER_EXPORT_ACCESS_H
#define SERVER_EXPORT_ACCESS_H

#include <stddef.h>

#include "server/export/client.h"

enum access { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE };

struct access_list;

/*
 * Entries "MATCH rw|ro|no", with commas between them; of an empty text *out is NULL. MATCH is
 * ip:ADDRESS[/PREFIX], tls:NAME (an asterisk at its end stands for any rest), uid:N, gid:N, cid:N,
 * unix (any Unix socket) or * (anybody). 0; -EINVAL with a sentence in err: what is wrong, and what
 * was expected; -ENOMEM. Strict: no empty entry, no MATCH twice.
 */
int access_parse(const char *text, struct access_list **out, char *err, size_t errlen);

/* The same, without making it: the row's check. */
int access_check(const char *text, char *err, size_t errlen);

/* NULL is fine. */
void access_free(struct access_list *l);

/*
 * What this peer may do. Of the entries of each kind that match it, the most specific ones count:
 * the longest prefix, a whole name before one with an asterisk, of those the longest; all groups of
 * the peer are equal. If one of them says no, that is it; else the most that one of them permits.
 * unix counts where none of these matches, * where unix does not either; else it is ACCESS_NONE. A
 * list that is NULL permits everything. *why (may be NULL): the entry that says it, as it was
 * written; NULL: none matches. It is the list's.
 */
enum access access_of(const struct access_list *l, const struct client_peer *peer,
		      const char **why);

#endif
