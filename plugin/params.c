#include "plugin/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(char *err, size_t errlen)
{
	snprintf(err, errlen, "out of memory");
	return -ENOMEM;
}

/* ---- collecting ---- */

static int add_client(struct params *p, const char *text, char *err, size_t errlen)
{
	char *copy;
	int res;

	if (p->nclient == PARAMS_MAX) {
		snprintf(err, errlen, "more than %d parameters for clients", PARAMS_MAX);
		return -E2BIG;
	}
	copy = strdup(text);
	if (!copy)
		return no_memory(err, errlen);
	res = client_option_split(copy, &p->client[p->nclient], err, errlen);
	if (res)
		free(copy);
	else
		p->client_text[p->nclient++] = copy;
	return res;
}

static int add_control(struct params *p, const char *value, char *err, size_t errlen)
{
	struct tunable_changes changes = { .when = WHEN_START };
	struct server_params unused = { .control = NULL };
	int res = tunable_changes_set(&changes, server_rows, &unused, "control", value, err,
				      errlen);

	tunable_changes_free(&changes);
	if (res)
		return res;
	if (p->control) {
		snprintf(err, errlen, "control: given twice");
		return -EEXIST;
	}
	p->control = strdup(value);
	return p->control ? 0 : no_memory(err, errlen);
}

int params_add(struct params *p, const char *name, const char *value, char *err, size_t errlen)
{
	struct setting s;

	if (!strcmp(name, "path") && client_option_is(value))
		return add_client(p, value, err, errlen);
	if (!strcmp(name, "control"))
		return add_control(p, value, err, errlen);
	if (p->nexport == PARAMS_MAX) {
		snprintf(err, errlen, "more than %d parameters", PARAMS_MAX);
		return -E2BIG;
	}
	s = (struct setting){ strdup(name), strdup(value) };
	if (!s.name || !s.value) {
		free((char *)s.name);
		free((char *)s.value);
		return no_memory(err, errlen);
	}
	p->export[p->nexport++] = s;
	return 0;
}

void params_free(struct params *p)
{
	for (size_t i = 0; i < p->nexport; i++) {
		free((char *)p->export[i].name);
		free((char *)p->export[i].value);
	}
	for (size_t i = 0; i < p->nclient; i++)
		free(p->client_text[i]);
	free(p->control);
	memset(p, 0, sizeof(*p));
}

/* ---- checking ---- */

int params_defaults(struct export_settings *st)
{
	if (export_settings_init(st))
		return -ENOMEM;
	st->elv.nomerges = 2;
	return 0;
}

int params_check(const struct params *p, struct export_settings *st, char *err, size_t errlen)
{
	struct setting_error wrong;
	int res = params_defaults(st);

	if (res)
		return no_memory(err, errlen);
	res = export_settings_set(st, p->export, p->nexport, &wrong);
	if (res) {
		snprintf(err, errlen, "%s", wrong.text);
	} else if (!st->store.path) {
		snprintf(err, errlen, "no image is given: nbdkit lift IMAGE [NAME=VALUE]...; see "
			 "nbdkit lift --help");
		res = -EINVAL;
	} else if (!st->export.name || !*st->export.name) {
		free(st->export.name);
		st->export.name = image_name(st->store.path);
		if (!st->export.name)
			res = no_memory(err, errlen);
	}
	if (res)
		export_settings_free(st);
	return res;
}

/* ---- telling ---- */

char *params_help(void)
{
	struct export_settings st;
	char *text = NULL;
	size_t len;
	FILE *f;

	if (params_defaults(&st))
		return NULL;
	f = open_memstream(&text, &len);
	if (f) {
		fputs("[path=]IMAGE          a file, a block device, or null: (with size=SIZE)\n"
		      "control=PATH          control socket, for liftctl\n"
		      "client:MATCH.NAME=VALUE   a setting of clients, by their id\n"
		      "NAME=VALUE            any of the following. A bare number has the unit shown.\n"
		      "                      Of another scheduler: SCHEDULER.NAME=VALUE\n", f);
		help_exports(f, &st);
		if (fclose(f)) {
			free(text);
			text = NULL;
		}
	}
	export_settings_free(&st);
	return text;
}

static void dump_rows(FILE *f, const char *prefix, const struct tunable *rows)
{
	char allowed[256];

	for (; rows->name; rows++) {
		tunable_allowed(rows, allowed, sizeof(allowed));
		fprintf(f, "lift_%s%s=%s\n", prefix, rows->name, allowed);
	}
}

void params_dump(FILE *f)
{
	char prefix[TUNABLE_NAME_MAX + 2];

	fprintf(f, "lift_control=path\n");
	dump_rows(f, "", export_rows);
	dump_rows(f, "", store_rows);
	dump_rows(f, "", elv_rows);
	for (unsigned i = 0; elv_policies[i]; i++) {
		snprintf(prefix, sizeof(prefix), "%s.", elv_policies[i]->name);
		dump_rows(f, prefix, elv_policies[i]->rows);
	}
	dump_rows(f, "client.", elv_client_rows);
}
