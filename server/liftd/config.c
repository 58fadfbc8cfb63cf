#include "server/liftd/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/endpoint.h"
#include "server/net/service.h"

/* Of options and images. */
static const struct conf_place no_place = { NULL, 0 };

/* ---- from images ---- */

/* One export for each image, with defaults. 0 or -ENOMEM. */
static int take_images(struct config *c, const struct options *o)
{
	c->exports = calloc(o->nimages, sizeof(*c->exports));
	if (!c->exports)
		return -ENOMEM;
	for (; c->nexports < o->nimages; c->nexports++)
		if (export_settings_init(&c->exports[c->nexports].settings))
			return -ENOMEM;
	return 0;
}

/* ---- options ---- */

static int set_server(struct config *c, const struct options *o)
{
	struct tunable_changes changes = { .when = WHEN_START };
	char err[TUNABLE_ERR_MAX];
	int res = 0;

	for (size_t i = 0; i < o->server.n && res != -ENOMEM; i++) {
		const struct setting *s = &o->server.set[i];

		res = tunable_changes_set(&changes, server_rows, &c->server, s->name, s->value, err,
					  sizeof(err));
		if (res)
			conf_complain(&c->file, no_place, "%s", err);
	}
	if (res != -ENOMEM)
		tunable_changes_commit(&changes);
	tunable_changes_free(&changes);
	return res == -ENOMEM ? res : 0;
}

/* The settings of one export. 0; -EINVAL: there are complaints; -ENOMEM. */
static int set_export(struct config *c, const struct options *o, struct config_export *e,
		      const char *image)
{
	struct option_list all = o->export;
	struct setting_error err;
	int res;

	if (image && all.n == OPTIONS_MAX) {
		conf_complain(&c->file, no_place, "more than %d options", OPTIONS_MAX);
		return -EINVAL;
	}
	if (image)
		all.set[all.n++] = (struct setting){ "path", image };
	res = export_settings_set(&e->settings, all.set, all.n, &err);
	if (res) {
		if (e->section)
			conf_complain(&c->file, no_place, "export '%.80s': %s",
				      e->settings.export.name, err.text);
		else
			conf_complain(&c->file, no_place, "%s", err.text);
		return res == -ENOMEM ? res : -EINVAL;
	}
	if (!e->settings.export.name || !*e->settings.export.name) {
		free(e->settings.export.name);
		e->settings.export.name = image_name(image);
		if (!e->settings.export.name)
			return -ENOMEM;
	}
	return 0;
}

/* What is wrong for one export is wrong for all, so it is said once. */
static int set_exports(struct config *c, const struct options *o)
{
	for (size_t i = 0; i < c->nexports; i++) {
		int res = set_export(c, o, &c->exports[i], o->nimages ? o->images[i] : NULL);

		if (res)
			return res;
	}
	return 0;
}

static int set_clients(struct config *c, const struct options *o)
{
	struct setting_error err;

	for (size_t i = 0; i < o->nclient; i++) {
		int res = rules_add(&c->rules, o->client[i].match, NULL, &o->client[i].set, 1,
				    &err);

		if (res == -ENOMEM)
			return res;
		if (res)
			conf_complain(&c->file, no_place, "%s", err.text);
	}
	return 0;
}

/* ---- what several settings must agree about ---- */

static void check_names(struct config *c, const struct options *o)
{
	for (size_t n = 0; n < o->nimages; n++)
		for (size_t i = 0; i < n; i++)
			if (!strcmp(c->exports[i].settings.export.name,
				    c->exports[n].settings.export.name))
				conf_complain(&c->file, no_place,
					      "images %s and %s: two exports would be called '%s'",
					      o->images[i], o->images[n],
					      c->exports[n].settings.export.name);
}

static void check_image(struct config *c, const struct config_export *e)
{
	const struct store_params *p = &e->settings.store;
	struct conf_place place = config_export_place(e);

	if (!p->path || !*p->path)
		conf_complain(&c->file, place, "path: export '%s' has no path: expected a file, a "
			      "block device or null:", e->settings.export.name);
	else if (!strcmp(p->path, "null:") && !p->size)
		conf_complain(&c->file, place,
			      "size: export '%s': the null store needs a size, as 10G",
			      e->settings.export.name);
}

/* One image in two exports; the same one by another path is found when it is opened. */
static void check_shared(struct config *c, const struct config_export *e)
{
	const struct store_params *p = &e->settings.store;
	char err[2 * TUNABLE_ERR_MAX];

	if (!p->path || !strcmp(p->path, "null:"))
		return;
	for (const struct config_export *other = c->exports; other < e; other++) {
		const struct store_params *theirs = &other->settings.store;

		if (!theirs->path || strcmp(p->path, theirs->path) ||
		    !store_check_shared(e->settings.export.name, p, other->settings.export.name,
					theirs, err, sizeof(err)))
			continue;
		conf_complain(&c->file, config_export_place(e), "path: %s", err);
		return;
	}
}

/* Where the server's setting got this value; it may have been an option. */
static struct conf_place server_place(const struct config *c, const char *name, const char *value)
{
	const struct conf_section *s;

	TAILQ_FOREACH(s, &c->file.sections, link) {
		const struct conf_setting *t = conf_get(s, name);

		if (t && t->row && !strcmp(t->value, value))
			return t->place;
	}
	return no_place;
}

static void check_default(struct config *c)
{
	const char *name = c->server.default_export;

	if (!name || !*name)
		return;
	for (size_t i = 0; i < c->nexports; i++)
		if (!strcmp(c->exports[i].settings.export.name, name))
			return;
	conf_complain(&c->file, server_place(c, "default_export", name),
		      "default_export: there is no export '%s'; expected the name of one", name);
}

static void check_identity(struct config *c)
{
	const struct server_params *p = &c->server;
	char err[TUNABLE_ERR_MAX];

	if (service_check_user(p->user, err, sizeof(err)))
		conf_complain(&c->file, server_place(c, "user", p->user), "user: %s", err);
	if (service_check_group(p->group, err, sizeof(err)))
		conf_complain(&c->file, server_place(c, "group", p->group), "group: %s", err);
}

/* Read keys and certificates: only so can be told whether they are any good. */
static void check_tls(struct config *c)
{
	const struct server_params *p = &c->server;
	struct tls_files files = { p->tls_certificates, p->tls_psk, p->tls_verify_peer };
	bool x509 = p->tls_certificates && *p->tls_certificates;
	const char *name = x509 ? "tls_certificates" : "tls_psk";
	char err[2 * TUNABLE_ERR_MAX];

	if (endpoints_want_tls(p) && tls_context_new(&files, &c->tls, err, sizeof(err)))
		conf_complain(&c->file, server_place(c, name, x509 ? p->tls_certificates :
						     p->tls_psk ? p->tls_psk : ""), "%s", err);
}

static void check_all(struct config *c, const struct options *o)
{
	const struct config_export *e;

	check_names(c, o);
	for (e = c->exports; e < c->exports + c->nexports; e++)
		check_image(c, e);
	for (e = c->exports; e < c->exports + c->nexports; e++)
		check_shared(c, e);
	check_default(c);
	check_identity(c);
	check_tls(c);
	if (!c->nexports && !c->file.nerrors)
		conf_complain(&c->file, (struct conf_place){ o->config, 0 },
			      "there is nothing to serve; expected [export NAME]");
}

/* ---- loading ---- */

/* The file alone. 0, -ENOMEM, or why it cannot be read. */
static int read_file(struct config *c, const char *path)
{
	int res = conf_load(&c->file, path, config_kinds());

	return !res || res == -EINVAL ? config_take_sections(c) : res;
}

static int put_together(struct config *c, const struct options *o)
{
	int res = o->config ? read_file(c, o->config) : take_images(c, o);

	if (!res)
		res = set_server(c, o);
	if (!res)
		res = set_exports(c, o);
	if (res && res != -EINVAL)
		return res;
	if (!res || o->config)
		check_all(c, o);
	return set_clients(c, o);
}

int config_load(struct config *c, const struct options *o)
{
	int res;

	memset(c, 0, sizeof(*c));
	conf_init(&c->file);
	TAILQ_INIT(&c->rules);
	res = tunable_defaults(server_rows, &c->server);
	if (!res)
		res = put_together(c, o);
	c->file.no_memory |= res == -ENOMEM;
	if (c->file.no_memory || res == -EACCES || res == -EPERM || res == -EIO)
		return SERVICE_BROKEN;
	return res || c->file.nerrors ? SERVICE_MISUSED : 0;
}

void config_free(struct config *c)
{
	for (size_t i = 0; i < c->nexports; i++)
		export_settings_free(&c->exports[i].settings);
	free(c->exports);
	rules_free(&c->rules);
	tls_context_put(c->tls);
	tunable_free(server_rows, &c->server);
	conf_free(&c->file);
}

void config_each_error(const struct config *c, void (*fn)(void *ctx, const char *text), void *ctx)
{
	const struct conf_error *e;
	char text[8192];

	TAILQ_FOREACH(e, &c->file.errors, link) {
		conf_error_text(e, text, sizeof(text));
		fn(ctx, text);
	}
	if (c->file.no_memory)
		fn(ctx, "out of memory");
}
