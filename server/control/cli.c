#include "server/control/cli.h"

#include <assert.h>
#include <string.h>

enum { COLUMN = 29, WIDTH = 80 };

void cli_getopt(const struct cli_option *table, const char *prefix,
		struct option longs[CLI_OPTIONS_MAX + 1], char shorts[CLI_SHORT_MAX])
{
	char *s = shorts + snprintf(shorts, 2, "%s", prefix);
	size_t n = 0;

	for (const struct cli_option *o = table; o->name; o++) {
		assert(n < CLI_OPTIONS_MAX);
		longs[n++] = (struct option){
			.name = o->name,
			.has_arg = o->arg ? required_argument : no_argument,
			.val = o->key,
		};
		if (o->key >= CLI_LONG)
			continue;
		*s++ = (char)o->key;
		if (o->arg)
			*s++ = ':';
	}
	longs[n] = (struct option){ .name = NULL };
	*s = '\0';
}

static void print_one(FILE *f, const struct cli_option *o)
{
	int column = o->key < CLI_LONG ? fprintf(f, "  -%c, --%s", o->key, o->name) :
					 fprintf(f, "      --%s", o->name);
	const char *text = o->help;

	if (o->arg)
		column += fprintf(f, " %s", o->arg);
	/* Two blanks at least before the text. */
	if (column > COLUMN - 2)
		column = fprintf(f, "\n") - 1;
	column += fprintf(f, "%*s", COLUMN - 1 - column, "");
	while (*text) {
		int n = (int)strcspn(text, " ");

		if (column > COLUMN - 1 && column + 1 + n >= WIDTH)
			column = fprintf(f, "\n%*s", COLUMN - 1, "") - 1;
		column += fprintf(f, " %.*s", n, text);
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', f);
}

void cli_print(FILE *f, const struct cli_option *table)
{
	for (; table->name; table++)
		print_one(f, table);
}
