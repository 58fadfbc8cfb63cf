/* Settings of exports and clients while the server runs. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/access.h"
#include "server/export/registry.h"

/* ---- reading ---- */

/* The text of a setting, allocated. */
static char *value_text(const struct setting_place *p)
{
	int len = tunable_get(p->row, p->base, NULL, 0);
	char *text = malloc((size_t)len + 1);

	if (text)
		tunable_get(p->row, p->base, text, (size_t)len + 1);
	return text;
}

static char *default_text(const struct tunable *row)
{
	char buf[128];

	if (row->kind == TUNABLE_STRING)
		return strdup(row->dflt_str ? row->dflt_str : "");
	tunable_print(row, tunable_default(row), buf, sizeof(buf));
	return strdup(buf);
}

struct listing {
	struct export_tunable *t;
	size_t n, room;
};

static int list_rows(struct listing *l, const struct tunable *rows, void *base,
		     const struct elv_policy *policy, const char *prefix)
{
	for (; rows->name; rows++) {
		struct setting_place place = { rows, base, policy };
		struct export_tunable *t = &l->t[l->n];

		snprintf(t->name, sizeof(t->name), "%s%s%s", prefix, *prefix ? "." : "",
			 rows->name);
		t->row = rows;
		t->policy = policy;
		t->value = value_text(&place);
		t->dflt = default_text(rows);
		l->n++;
		if (!t->value || !t->dflt)
			return -ENOMEM;
	}
	return 0;
}

static size_t count_rows(const struct tunable *rows)
{
	size_t n = 0;

	while (rows[n].name)
		n++;
	return n;
}

/* The lock of e's disk is held. */
static int list_all(struct export *e, struct listing *l)
{
	struct export_settings *st = &e->settings;
	unsigned now = elv_policy_index(e->elv.policy);
	int res = list_rows(l, export_rows, &st->export, NULL, "");

	if (!res)
		res = list_rows(l, store_rows, &st->store, NULL, "");
	if (!res)
		res = list_rows(l, elv_rows, &st->elv, NULL, "");
	if (!res)
		res = list_rows(l, e->elv.policy->rows, st->policy[now], e->elv.policy, "");
	for (unsigned i = 0; !res && elv_policies[i]; i++)
		if (i != now)
			res = list_rows(l, elv_policies[i]->rows, st->policy[i], elv_policies[i],
					elv_policies[i]->name);
	return res;
}

int export_each_tunable(struct export *e, void (*fn)(void *ctx, const struct export_tunable *t),
			void *ctx)
{
	size_t room = count_rows(export_rows) + count_rows(store_rows) + count_rows(elv_rows);
	struct listing l = { NULL, 0, 0 };
	int res;

	for (unsigned i = 0; elv_policies[i]; i++)
		room += count_rows(elv_policies[i]->rows);
	l.t = calloc(room, sizeof(*l.t));
	if (!l.t)
		return -ENOMEM;
	disk_lock(e->disk);
	res = list_all(e, &l);
	disk_unlock(e->disk);
	for (size_t i = 0; i < l.n; i++) {
		if (!res)
			fn(ctx, &l.t[i]);
		free(l.t[i].value);
		free(l.t[i].dflt);
	}
	free(l.t);
	return res;
}

int export_get(struct export *e, const char *name, char *buf, size_t len, char *err, size_t errlen)
{
	struct setting_place place;
	int res;

	disk_lock(e->disk);
	res = export_resolve(&e->settings, e->elv.policy, name, &place, err, errlen);
	if (!res)
		tunable_get(place.row, place.base, buf, len);
	disk_unlock(e->disk);
	return res;
}

/* ---- changing an export ---- */

/* The new settings of one table: the old ones with what the changes bring. */
static void preview(const struct tunable_changes *changes, const void *base, void *copy)
{
	for (size_t i = 0; i < changes->n; i++) {
		const struct tunable_change *c = &changes->change[i];

		if (c->settings == base && c->row->kind != TUNABLE_STRING)
			tunable_set_num(c->row, copy, c->value.num);
	}
}

/*
 * Everything that can fail, in an order in which each step can be taken back; then the commit,
 * which cannot. The disk's lock is held.
 */
static int commit(struct export *e, struct tunable_changes *changes,
		  const struct elv_policy *policy, uint64_t now)
{
	struct export_settings *st = &e->settings;
	struct elv_params elv = st->elv;
	unsigned depth = e->store->geometry.depth;
	int res;

	preview(changes, &st->elv, &elv);
	res = elv_set_params(&e->elv, &elv, depth, e->elv.rotational, now);
	if (res)
		return res;
	if (policy != e->elv.policy) {
		res = elv_switch(&e->elv, policy, now);
		if (res) {
			elv_set_params(&e->elv, &st->elv, depth, e->elv.rotational, now);
			return res;
		}
	}
	tunable_changes_commit(changes);
	elv_params_changed(&e->elv, now);
	store_set_params(e->store, &st->store);
	return 0;
}

/* Another limit of requests: who waits for a slot may go on. The disk's lock is held. */
static void new_limit(struct export *e)
{
	struct client *c;

	budget_lock(&e->server->budget);
	if (e->budget.nr_requests != e->settings.elv.nr_requests) {
		e->budget.nr_requests = e->settings.elv.nr_requests;
		TAILQ_FOREACH(c, &e->clients.busy, link)
			budget_serve_slots(&c->budget);
	}
	budget_unlock(&e->server->budget);
}

/* Can the store do what its new settings ask for? The disk's lock is held. */
static int check_store(struct export *e, const struct tunable_changes *changes,
		       const struct setting *set, size_t n, struct setting_error *err)
{
	struct store_params params = e->settings.store;
	char text[TUNABLE_ERR_MAX];
	int res;

	preview(changes, &e->settings.store, &params);
	res = store_check_params(e->store, &params, text, sizeof(text));
	for (size_t i = 0; res && i < n; i++)
		if (tunable_find(store_rows, set[i].name)) {
			setting_blame(err, &set[i], NULL, text);
			break;
		}
	return res;
}

/*
 * The access list that the changes bring, made: *out, if *changed. The text has been checked. The
 * disk's lock is held.
 */
static int make_access(struct export *e, const struct tunable_changes *changes,
		       struct access_list **out, bool *changed)
{
	const struct tunable *row = tunable_find(export_rows, "access");
	const struct tunable_change *c = tunable_changes_find(changes, row, &e->settings.export);
	char err[TUNABLE_ERR_MAX];

	*changed = c;
	return c ? access_parse(c->value.str, out, err, sizeof(err)) : 0;
}

/* really: not only checked. */
static int change(struct export *e, const struct setting *list, size_t n, bool really,
		  struct setting_error *err)
{
	struct tunable_changes changes = { .when = WHEN_RUNTIME };
	const struct elv_policy *policy;
	uint64_t now = disk_lock(e->disk);
	int res = export_check(&e->settings, list, n, &changes, &policy, err);
	struct access_list *access = NULL, *old;
	bool new_access;

	if (!res)
		res = check_store(e, &changes, list, n, err);
	if (!res && really) {
		res = make_access(e, &changes, &access, &new_access);
		if (!res)
			res = commit(e, &changes, policy, now);
		if (res) {
			snprintf(err->text, sizeof(err->text), "out of memory");
		} else {
			new_limit(e);
			if (new_access) {
				old = e->access;
				e->access = access;
				access = old;
			}
		}
	}
	disk_unlock(e->disk);
	access_free(access);
	tunable_changes_free(&changes);
	return res;
}

int export_set(struct export *e, const struct setting *list, size_t n, struct setting_error *err)
{
	return change(e, list, n, true, err);
}

int export_try(struct export *e, const struct setting *list, size_t n, struct setting_error *err)
{
	return change(e, list, n, false, err);
}

/* ---- changing clients ---- */

/* All accounts get what the rules say now. server.lock held. Returns how many have this id. */
static unsigned apply_rules(struct server *s, const struct export *only, const char *id)
{
	struct elv_client_params params;
	struct export *e;
	struct client *c;
	unsigned n = 0;

	TAILQ_FOREACH(e, &s->exports, link) {
		uint64_t now = disk_lock(e->disk);

		for (unsigned i = 0; i < 2; i++) {
			TAILQ_FOREACH(c, i ? &e->clients.idle : &e->clients.busy, link) {
				if (id && strcmp(c->identity->id, id))
					continue;
				n += !only || only == e;
				rules_params(&s->rules, c->identity->id, e, &params);
				if (memcmp(&params, &c->elv.params, sizeof(params)))
					elv_client_set_params(&c->elv, &params, now);
			}
		}
		disk_unlock(e->disk);
	}
	return n;
}

static bool client_exists(struct server *s, const struct export *only, const char *id)
{
	struct export *e;
	struct client *c;
	bool yes = false;

	TAILQ_FOREACH(e, &s->exports, link) {
		if (only && e != only)
			continue;
		disk_lock(e->disk);
		for (unsigned i = 0; i < 2 && !yes; i++)
			TAILQ_FOREACH(c, i ? &e->clients.idle : &e->clients.busy, link)
				yes |= !strcmp(c->identity->id, id);
		disk_unlock(e->disk);
	}
	return yes;
}

int client_set(struct server *s, struct export *e, const char *id, const struct setting *set,
	       size_t n, unsigned *accounts, struct setting_error *err)
{
	unsigned count = 0;
	int res;

	pthread_mutex_lock(&s->lock);
	if (client_exists(s, e, id)) {
		res = rules_add(&s->rules, id, e, set, n, err);
		if (!res)
			count = apply_rules(s, e, id);
	} else {
		memset(err, 0, sizeof(*err));
		snprintf(err->text, sizeof(err->text), "there is no client '%.80s'%s%.80s%s", id,
			 e ? " of export '" : "", e ? e->name : "", e ? "'" : "");
		res = -ESRCH;
	}
	pthread_mutex_unlock(&s->lock);
	if (accounts)
		*accounts = count;
	return res;
}

int client_end(struct server *s, const struct export *e, const char *id, enum client_end how)
{
	return s->end_client ? s->end_client(s->stop_ctx, e, id, how) : -ENOTSUP;
}

int server_add_rule(struct server *s, const char *match, const struct setting *set, size_t n,
		    struct setting_error *err)
{
	int res;

	pthread_mutex_lock(&s->lock);
	res = rules_add(&s->rules, match, NULL, set, n, err);
	if (!res)
		apply_rules(s, NULL, NULL);
	pthread_mutex_unlock(&s->lock);
	return res;
}

void server_swap_rules(struct server *s, struct rules *rules)
{
	struct rules old = TAILQ_HEAD_INITIALIZER(old);

	pthread_mutex_lock(&s->lock);
	TAILQ_CONCAT(&old, &s->rules, link);
	TAILQ_CONCAT(&s->rules, rules, link);
	apply_rules(s, NULL, NULL);
	pthread_mutex_unlock(&s->lock);
	TAILQ_CONCAT(rules, &old, link);
}

/* ---- changing the server ---- */

void server_set_params(struct server *s, struct server_params *params)
{
	for (const struct tunable *row = server_rows; row->name; row++) {
		void *to = (char *)&s->params + row->offset;
		void *from = (char *)params + row->offset;

		if (row->when != WHEN_RUNTIME)
			continue;
		if (row->kind == TUNABLE_STRING) {
			char *text = *(char **)from;

			assert(!row->repeatable);
			pthread_mutex_lock(&s->lock);
			*(char **)from = *(char **)to;
			*(char **)to = text;
			pthread_mutex_unlock(&s->lock);
		} else {
			__atomic_store_n((uint64_t *)to, *(uint64_t *)from, __ATOMIC_RELAXED);
		}
	}
}
