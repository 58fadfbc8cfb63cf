#include "server/liftd/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/endpoint.h"
#include "server/liftd/config.h"
#include "server/net/log.h"
#include "server/net/removal.h"

/* What is to be done to one export. */
struct plan {
	const struct config_export *want;
	struct export *export;  /* if it is not new: a reference */
	bool is_new;
	struct setting *set;    /* what differs and can change; names and values are allocated */
	size_t n, room;
};

struct reloading {
	struct service *service;
	struct control_report *report;
	struct config config;
	struct plan *plans;     /* one for each export of the configuration */
	struct export **gone;   /* ngone references: those that it does not have any longer */
	size_t ngone;
};

static void say_error(void *ctx, const char *text)
{
	struct control_report *report = ctx;

	control_report_add(report, &report->errors, "%s", text);
}

/* An error of an export, with its place in the file. */
static void blame(struct reloading *r, const struct config_export *want, const char *text)
{
	struct conf_place place = config_export_place(want);

	control_report_add(r->report, &r->report->errors, "%s:%u: %s",
			   place.file ? place.file : "?", place.line, text);
}

/* A value, or that there is none. */
static const char *shown(const char *value)
{
	return *value ? value : "(not set)";
}

static void report_change(struct reloading *r, bool runtime, const char *what, const char *name,
			  const char *from, const char *to)
{
	struct control_report *report = r->report;

	control_report_add(report, runtime ? &report->changed : &report->restart,
			   "%s%s%s: %s -> %s", what, *what ? ": " : "", name, shown(from),
			   shown(to));
}

/* The text of a setting, allocated. NULL: no memory. */
static char *text_of(const struct tunable *row, const void *settings)
{
	int n = tunable_get(row, settings, NULL, 0);
	char *text = malloc((size_t)n + 1);

	if (text)
		tunable_get(row, settings, text, (size_t)n + 1);
	return text;
}

/* ---- exports: what differs ---- */

struct comparison {
	struct reloading *r;
	struct plan *plan;
	char what[128];
};

/* It is to be set. */
static int add_setting(struct plan *plan, const char *name, const char *value)
{
	struct setting *set;

	if (plan->n == plan->room) {
		set = reallocarray(plan->set, plan->room + 16, sizeof(*set));
		if (!set)
			return -ENOMEM;
		plan->set = set;
		plan->room += 16;
	}
	set = &plan->set[plan->n++];
	set->name = strdup(name);
	set->value = strdup(value);
	return set->name && set->value ? 0 : -ENOMEM;
}

/* A tunable of the export as it is, and as it is to be. */
static void compare_tunable(void *ctx, const struct export_tunable *t)
{
	struct comparison *c = ctx;
	struct export_settings *want = (struct export_settings *)&c->plan->want->settings;
	bool runtime = t->row->when == WHEN_RUNTIME;
	char err[TUNABLE_ERR_MAX], name[EXPORT_TUNABLE_NAME], *value = NULL;
	struct setting_place place;

	/* The bare name of a policy's would be one of the scheduler that is coming. */
	snprintf(name, sizeof(name), "%s%s%s", t->policy ? t->policy->name : "",
		 t->policy ? "." : "", t->row->name);
	if (!export_resolve(want, export_settings_policy(want), name, &place, err, sizeof(err)))
		value = text_of(place.row, place.base);
	if (!value) {
		c->r->report->no_memory = true;
		return;
	}
	if (strcmp(t->value, value)) {
		report_change(c->r, runtime, c->what, name, t->value, value);
		if (runtime && add_setting(c->plan, name, value))
			c->r->report->no_memory = true;
	}
	free(value);
}

static int compare_export(struct reloading *r, struct plan *plan)
{
	struct comparison c = { .r = r, .plan = plan };
	struct setting_error err;
	int res;

	snprintf(c.what, sizeof(c.what), "export '%.100s'", export_name(plan->export));
	res = export_each_tunable(plan->export, compare_tunable, &c);
	if (res || r->report->no_memory)
		return -ENOMEM;
	if (plan->n && export_try(plan->export, plan->set, plan->n, &err))
		blame(r, plan->want, err.text);
	return 0;
}

/* Opened already, but for clients. */
static int open_export(struct reloading *r, struct plan *plan)
{
	char err[2 * TUNABLE_ERR_MAX];
	int res = export_open_hidden(&r->service->server, &plan->want->settings, &plan->export,
				     err, sizeof(err));

	if (res) {
		blame(r, plan->want, err);
		return res == -ENOMEM ? res : 0;
	}
	plan->is_new = true;
	control_report_add(r->report, &r->report->changed, "export '%.100s': added",
			   plan->export->name);
	return 0;
}

/* Exports that the configuration does not have any longer. */
static int find_removed(struct reloading *r)
{
	struct export *e, **gone;
	uint64_t cursor = 0;

	while ((e = export_next(&r->service->server, &cursor))) {
		bool wanted = false;

		for (size_t i = 0; i < r->config.nexports; i++)
			wanted |= r->plans[i].export == e;
		gone = wanted ? NULL : reallocarray(r->gone, r->ngone + 1, sizeof(*gone));
		if (gone) {
			r->gone = gone;
			r->gone[r->ngone++] = e;
			continue;
		}
		export_put(e);
		if (!wanted)
			return -ENOMEM;
	}
	return 0;
}

static int plan_exports(struct reloading *r)
{
	const struct config *c = &r->config;
	int res = 0;

	r->plans = calloc(c->nexports, sizeof(*r->plans));
	if (!r->plans)
		return -ENOMEM;
	/* Those that exist first: the names of new ones cannot be taken for theirs. */
	for (size_t i = 0; i < c->nexports; i++) {
		const char *name = c->exports[i].settings.export.name;

		r->plans[i].want = &c->exports[i];
		r->plans[i].export = export_find(&r->service->server, name, strlen(name));
	}
	for (size_t i = 0; i < c->nexports && !res; i++) {
		struct plan *plan = &r->plans[i];

		res = plan->export ? compare_export(r, plan) : open_export(r, plan);
	}
	return res ? res : find_removed(r);
}

/* ---- the server ---- */

static int compare_server(struct reloading *r)
{
	for (const struct tunable *row = server_rows; row->name; row++) {
		/* Of what can change, this thread alone changes it. */
		char *from = text_of(row, &r->service->server.params);
		char *to = text_of(row, &r->config.server);

		if (from && to && strcmp(from, to))
			report_change(r, row->when == WHEN_RUNTIME, "", row->name, from, to);
		if (!from || !to)
			r->report->no_memory = true;
		free(from);
		free(to);
	}
	return r->report->no_memory ? -ENOMEM : 0;
}

/* ---- rules ---- */

static const struct rule *find_rule(const struct rules *rules, const struct rule *like)
{
	const struct rule *r;

	TAILQ_FOREACH(r, rules, link)
		if (r->export == like->export && !strcmp(r->match, like->match))
			return r;
	return NULL;
}

static void rule_value(const struct rule *r, unsigned i, char *buf, size_t len)
{
	buf[0] = '\0';
	if (r && r->has[i])
		tunable_get(&elv_client_rows[i], &r->params, buf, len);
}

/* What became of a rule; NULL: there was, or is, none. */
static void compare_rule(struct reloading *r, const struct rule *from, const struct rule *to)
{
	const struct rule *any = from ? from : to;
	char what[CLIENT_ID_MAX + 128], a[64], b[64];

	snprintf(what, sizeof(what), "client %s%s%.80s%s", any->match,
		 any->export ? " of export '" : "", any->export ? any->export->name : "",
		 any->export ? "'" : "");
	for (unsigned i = 0; elv_client_rows[i].name; i++) {
		rule_value(from, i, a, sizeof(a));
		rule_value(to, i, b, sizeof(b));
		if (strcmp(a, b))
			report_change(r, true, what, elv_client_rows[i].name, a, b);
	}
}

/* The configuration's rules instead of those there were. */
static void swap_rules(struct reloading *r)
{
	struct server *s = &r->service->server;
	const struct rules *old = &r->config.rules;
	const struct rule *rule;

	server_swap_rules(s, &r->config.rules);
	/* Others may make rules from now on. */
	pthread_mutex_lock(&s->lock);
	TAILQ_FOREACH(rule, &s->rules, link)
		compare_rule(r, find_rule(old, rule), rule);
	TAILQ_FOREACH(rule, old, link)
		if (!find_rule(&s->rules, rule))
			compare_rule(r, rule, NULL);
	pthread_mutex_unlock(&s->lock);
}

/* ---- doing it ---- */

static void commit_exports(struct reloading *r)
{
	struct setting_error err;

	for (size_t i = 0; i < r->config.nexports; i++) {
		struct plan *plan = &r->plans[i];

		/* What could be wrong was looked at before. */
		if (plan->is_new)
			export_publish(plan->export);
		else if (plan->n && export_set(plan->export, plan->set, plan->n, &err))
			control_report_add(r->report, &r->report->restart,
					   "export '%.100s': not changed: %s",
					   export_name(plan->export), err.text);
	}
}

/* What comes of it is in the report when they have gone. */
static void remove_exports(struct reloading *r)
{
	for (size_t i = 0; i < r->ngone; i++) {
		int res = removal_order(r->service, r->gone[i], r->service->reloads.number);

		if (res)
			control_report_add(r->report, &r->report->restart,
					   "export '%.100s': not removed: %s",
					   export_name(r->gone[i]), strerror(-res));
	}
}

/*
 * Keys are there before anybody needs them. Sockets stay as they are until a restart: one that has
 * TLS of its own goes on with the keys that there were, if the file has no use for any.
 */
static void swap_server(struct reloading *r)
{
	struct service *s = r->service;
	bool tls = r->config.tls;

	if (tls)
		service_set_tls(s, r->config.tls);
	r->config.tls = NULL;
	server_set_params(&s->server, &r->config.server);
	if (!tls && !endpoints_want_tls(&s->server.params))
		service_set_tls(s, NULL);
}

static void commit(struct reloading *r)
{
	commit_exports(r);
	remove_exports(r);
	swap_rules(r);
	swap_server(r);
	log_set_level((enum log_level)r->service->server.params.log);
}

/* Give back what the plans hold; `failed`: exports that nobody has seen yet go again. */
static void free_plans(struct reloading *r, bool failed)
{
	for (size_t i = 0; r->plans && i < r->config.nexports; i++) {
		struct plan *plan = &r->plans[i];

		if (plan->is_new && failed)
			export_discard(plan->export);
		else if (!plan->is_new)
			export_put(plan->export);
		for (size_t n = 0; n < plan->n; n++) {
			free((char *)plan->set[n].name);
			free((char *)plan->set[n].value);
		}
		free(plan->set);
	}
	free(r->plans);
	while (r->ngone)
		export_put(r->gone[--r->ngone]);
	free(r->gone);
}

void reload_config(void *ctx, struct control_report *report)
{
	const struct reload *reload = ctx;
	struct reloading r = { .service = reload->service, .report = report };
	int res = config_load(&r.config, reload->options);
	bool failed;

	if (res)
		config_each_error(&r.config, say_error, report);
	else if (plan_exports(&r) || compare_server(&r))
		control_report_add(report, &report->errors, "out of memory");
	failed = !STAILQ_EMPTY(&report->errors);
	if (failed)
		control_report_drop(report);
	else
		commit(&r);
	free_plans(&r, failed);
	config_free(&r.config);
}
