#include "server/export/words.h"

#include <errno.h>
#include <string.h>

static const char client_prefix[] = "client:";

bool client_option_is(const char *text)
{
	return !strncmp(text, client_prefix, strlen(client_prefix));
}

int client_option_split(char *text, struct client_option *out, char *err, size_t errlen)
{
	char *match = text + strlen(client_prefix), *equals = strrchr(text, '='), *dot;

	if (equals)
		*equals = '\0';
	dot = strrchr(text, '.');
	if (!equals || !dot || dot == match) {
		if (equals)
			*equals = '=';
		snprintf(err, errlen, "option '%s': expected client:MATCH.NAME=VALUE", text);
		return -EINVAL;
	}
	*dot = '\0';
	*out = (struct client_option){ match, { dot + 1, equals + 1 } };
	return 0;
}

char *image_name(const char *image)
{
	const char *slash = strrchr(image, '/');
	const char *base = slash && slash[1] ? slash + 1 : image;

	return strdup(!strcmp(image, "null:") ? "null" : base);
}

void help_rows(FILE *f, const char *title, const char *prefix, const struct tunable *rows,
	       const void *defaults)
{
	char allowed[256], dflt[64];

	if (rows->name)
		fprintf(f, "\n%s:\n", title);
	for (; rows->name; rows++) {
		tunable_allowed(rows, allowed, sizeof(allowed));
		if (rows->kind == TUNABLE_STRING)
			snprintf(dflt, sizeof(dflt), "%s", rows->dflt_str ? rows->dflt_str : "");
		else
			tunable_print(rows, defaults ? tunable_num(rows, defaults) :
					    tunable_default(rows), dflt, sizeof(dflt));
		fprintf(f, "  %s%s (%s)%s%s\n      %s\n", prefix, rows->name, allowed,
			*dflt ? ", default " : "", dflt, rows->help);
	}
}

void help_exports(FILE *f, const struct export_settings *defaults)
{
	char title[128];

	help_rows(f, "Exports", "", export_rows, defaults ? &defaults->export : NULL);
	help_rows(f, "Exports: the image", "", store_rows, defaults ? &defaults->store : NULL);
	help_rows(f, "Exports: the queue", "", elv_rows, defaults ? &defaults->elv : NULL);
	for (unsigned i = 0; elv_policies[i]; i++) {
		const struct elv_policy *p = elv_policies[i];

		snprintf(title, sizeof(title), "Scheduler %s: %s", p->name, p->help);
		if (p->rows->name)
			help_rows(f, title, "", p->rows, defaults ? defaults->policy[i] : NULL);
		else
			fprintf(f, "\n%s\n", title);
	}
	help_rows(f, "Clients", "client:MATCH.", elv_client_rows, NULL);
}
