/* All settings, as one configuration file. */
#include <errno.h>
#include <string.h>

#include "server/liftd/config.h"

static int dump_server(const struct config *c, FILE *f, char *err, size_t errlen)
{
	conf_write_heading(f, "server", NULL, true);
	return conf_write_rows(f, NULL, server_rows, &c->server, 0, err, errlen);
}

/* Policies' tunables under their whole names: they mean the same under every scheduler. */
static int dump_export(const struct config_export *e, FILE *f, char *err, size_t errlen)
{
	const struct export_settings *st = &e->settings;
	const char *name = st->export.name;
	size_t n = strlen(name);
	int res;

	if (!e->section && (name[0] == ' ' || name[n - 1] == ' ')) {
		snprintf(err, errlen, "name: '%.80s' begins or ends with a blank, which a "
			 "configuration cannot express", name);
		return -EINVAL;
	}
	conf_write_heading(f, "export", e->section ? e->section->title : name, false);
	res = conf_write_rows(f, NULL, export_rows, &st->export, 0, err, errlen);
	if (!res)
		res = conf_write_rows(f, NULL, store_rows, &st->store, 0, err, errlen);
	if (!res)
		res = conf_write_rows(f, NULL, elv_rows, &st->elv, 0, err, errlen);
	for (unsigned i = 0; !res && elv_policies[i]; i++)
		res = conf_write_rows(f, elv_policies[i]->name, elv_policies[i]->rows,
				      st->policy[i], 0, err, errlen);
	return res;
}

/* Only what is set: the rest comes from rules that are less specific. */
static void dump_rule(const struct rule *r, FILE *f)
{
	char value[64];

	conf_write_heading(f, "client", r->match, false);
	for (unsigned i = 0; elv_client_rows[i].name; i++) {
		if (!r->has[i])
			continue;
		tunable_get(&elv_client_rows[i], &r->params, value, sizeof(value));
		fprintf(f, "%s = %s\n", elv_client_rows[i].name, value);
	}
}

int config_dump(const struct config *c, FILE *f, char *err, size_t errlen)
{
	int res = dump_server(c, f, err, errlen);
	const struct rule *r;

	for (size_t i = 0; !res && i < c->nexports; i++)
		res = dump_export(&c->exports[i], f, err, errlen);
	if (res)
		return res;
	TAILQ_FOREACH(r, &c->rules, link)
		dump_rule(r, f);
	if (!fflush(f) && !ferror(f))
		return 0;
	snprintf(err, errlen, "cannot write the configuration: %s", strerror(errno));
	return -EIO;
}
