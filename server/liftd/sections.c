/* Sections of a configuration file: which there are, and what they come to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/liftd/config.h"

/* ---- kinds ---- */

/* The policy that the section names; NULL: none that there is. */
static const struct elv_policy *policy_of(const struct conf_section *s)
{
	const struct tunable *row = tunable_find(export_rows, "scheduler");
	const struct conf_setting *t = conf_get(s, "scheduler");

	return t ? elv_policy_find(t->value) : elv_policies[tunable_default(row)];
}

/* A bare tunable of a policy is one of the section's scheduler; of any, if that is wrong. */
static const struct tunable *find_export_row(const struct conf_section *s, const char *name,
					     char *err, size_t errlen)
{
	static struct export_settings nowhere; /* nobody looks at values here */
	const struct elv_policy *policy = policy_of(s);
	struct setting_place place;

	if (policy)
		return export_resolve(&nowhere, policy, name, &place, err, errlen) ? NULL :
										     place.row;
	for (unsigned i = 0; elv_policies[i]; i++)
		if (!export_resolve(&nowhere, elv_policies[i], name, &place, err, errlen))
			return place.row;
	return NULL;
}

enum { SERVER, EXPORT, CLIENT };

const struct conf_kind *config_kinds(void)
{
	static const struct tunable *server[] = { server_rows, NULL };
	static const struct tunable *client[] = { elv_client_rows, NULL };
	static const struct tunable *export[4 + ELV_MAX_POLICIES] = { export_rows, store_rows,
								      elv_rows };
	static const struct conf_kind kinds[] = {
		[SERVER] = { .word = "server", .includes = true, .tables = server },
		[EXPORT] = { .word = "export", .title = "NAME", .title_max = 4096,
			     .tables = export, .find = find_export_row },
		[CLIENT] = { .word = "client", .title = "MATCH", .title_max = CLIENT_ID_MAX,
			     .tables = client },
		{ .word = NULL }
	};

	for (unsigned i = 0; elv_policies[i]; i++)
		export[3 + i] = elv_policies[i]->rows;
	return kinds;
}

/* One of the same heading stands before it: an error that the reader has seen. */
static bool is_second(const struct config *c, const struct conf_section *s)
{
	const struct conf_section *other;

	TAILQ_FOREACH(other, &c->file.sections, link) {
		if (other == s)
			return false;
		if (other->kind == s->kind && !strcmp(other->title, s->title))
			return true;
	}
	return false;
}

/* ---- [server] ---- */

static int take_server(struct config *c, const struct conf_section *s)
{
	struct tunable_changes changes = { .when = WHEN_START };
	const struct conf_setting *t;
	char err[TUNABLE_ERR_MAX];
	int res = 0;

	TAILQ_FOREACH(t, &s->settings, link) {
		/* A value that is wrong is in the list of errors already. */
		if (t->row && tunable_changes_add(&changes, t->row, &c->server, t->value, err,
						  sizeof(err)) == -ENOMEM)
			res = -ENOMEM;
	}
	if (!res)
		tunable_changes_commit(&changes);
	tunable_changes_free(&changes);
	return res;
}

/* ---- [export NAME] ---- */

/* As above: only -ENOMEM is news. */
static int set_one(struct export_settings *st, const struct conf_setting *t)
{
	struct setting set = { t->name, t->value };
	struct setting_error err;

	if (!t->row)
		return 0;
	return export_settings_set(st, &set, 1, &err) == -ENOMEM ? -ENOMEM : 0;
}

/* The scheduler first: it says what the others mean. */
static int set_all(struct export_settings *st, const struct conf_section *s)
{
	const struct conf_setting *scheduler = conf_get(s, "scheduler"), *t;
	int res = scheduler ? set_one(st, scheduler) : 0;

	TAILQ_FOREACH(t, &s->settings, link)
		if (!res && strcmp(t->name, "scheduler"))
			res = set_one(st, t);
	if (!res && (!st->export.name || !*st->export.name)) {
		free(st->export.name);
		st->export.name = strdup(s->title);
		if (!st->export.name)
			res = -ENOMEM;
	}
	return res;
}

struct conf_place config_export_place(const struct config_export *e)
{
	const struct conf_setting *path = e->section ? conf_get(e->section, "path") : NULL;

	if (path)
		return path->place;
	return e->section ? e->section->place : (struct conf_place){ NULL, 0 };
}

/* Is there one of this name already? */
static void check_name(struct config *c, const struct config_export *e)
{
	const struct conf_setting *name = conf_get(e->section, "name");
	struct conf_place place = name ? name->place : e->section->place;

	for (size_t i = 0; i < c->nexports; i++) {
		const struct conf_section *other = c->exports[i].section;

		if (strcmp(c->exports[i].settings.export.name, e->settings.export.name))
			continue;
		if (is_second(c, e->section))
			return;
		conf_complain(&c->file, place, "name: the export of %s:%u is called '%s', too; "
			      "expected another name", other->place.file, other->place.line,
			      e->settings.export.name);
		return;
	}
}

static int take_export(struct config *c, const struct conf_section *s)
{
	struct config_export *e = &c->exports[c->nexports];
	int res = export_settings_init(&e->settings);

	if (res)
		return res;
	e->section = s;
	res = set_all(&e->settings, s);
	if (res) {
		export_settings_free(&e->settings);
		return res;
	}
	check_name(c, e);
	c->nexports++;
	return 0;
}

/* ---- [client MATCH] ---- */

static int take_client(struct config *c, const struct conf_section *s)
{
	struct rule *last = TAILQ_LAST(&c->rules, rules), *r;
	const struct conf_setting *t;
	struct setting_error err;
	int res = rules_get(&c->rules, s->title, NULL, &r, err.text, sizeof(err.text));

	if (res == -EINVAL)
		conf_complain(&c->file, s->place, "[client %s]: %s", s->title, err.text);
	else if (!res && (r == last || r != TAILQ_LAST(&c->rules, rules)) && !is_second(c, s))
		conf_complain(&c->file, s->place,
			      "[client %s]: there is a section for '%s' already; expected once",
			      s->title, r->match);
	if (res)
		return res == -ENOMEM ? res : 0;
	TAILQ_FOREACH(t, &s->settings, link) {
		struct setting set = { t->name, t->value };

		if (t->row && rules_add(&c->rules, s->title, NULL, &set, 1, &err) == -ENOMEM)
			return -ENOMEM;
	}
	return 0;
}

/* ---- all ---- */

int config_take_sections(struct config *c)
{
	const struct conf_kind *kinds = config_kinds();
	const struct conf_section *s;
	int res = 0;

	c->exports = calloc(c->file.nsections + 1, sizeof(*c->exports));
	if (!c->exports)
		return -ENOMEM;
	TAILQ_FOREACH(s, &c->file.sections, link) {
		if (s->kind == &kinds[SERVER])
			res = take_server(c, s);
		else if (s->kind == &kinds[EXPORT])
			res = take_export(c, s);
		else
			res = take_client(c, s);
		if (res)
			return res;
	}
	return 0;
}
