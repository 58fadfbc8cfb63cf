/*
 * Writing: settings as the reader takes them, with or without what there is to say about them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

enum { WIDTH = 96 };

void conf_write_heading(FILE *f, const char *word, const char *title, bool first)
{
	fprintf(f, "%s[%s%s%s]\n", first ? "" : "\n", word, title && *title ? " " : "",
		title ? title : "");
}

/* Words in comment lines. */
static void write_comment(FILE *f, const char *text)
{
	size_t used = 0, n;

	for (; *text; text += n) {
		text += strspn(text, " ");
		n = strcspn(text, " ");
		if (used && used + 1 + n > WIDTH) {
			fputc('\n', f);
			used = 0;
		}
		used += (size_t)fprintf(f, "%s%.*s", used ? " " : "# ", (int)n, text);
	}
	if (used)
		fputc('\n', f);
}

static void default_text(const struct tunable *row, char *buf, size_t len)
{
	if (row->kind == TUNABLE_STRING)
		snprintf(buf, len, "%s", row->dflt_str ? row->dflt_str : "");
	else
		tunable_print(row, tunable_default(row), buf, len);
}

static void write_help(FILE *f, const struct tunable *row)
{
	char allowed[256], dflt[256], text[1024];

	tunable_allowed(row, allowed, sizeof(allowed));
	default_text(row, dflt, sizeof(dflt));
	snprintf(text, sizeof(text), "%s (%s%s%s%s%s)", row->help, allowed,
		 *dflt ? "; default " : "", dflt, row->repeatable ? "; may be repeated" : "",
		 row->when == WHEN_RUNTIME ? "; runtime" : "");
	fputc('\n', f);
	write_comment(f, text);
	if (row->paragraph)
		write_comment(f, row->paragraph);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* One line; a text that the reader would change is -EINVAL, and stands behind a #. */
static int write_line(FILE *f, const char *prefix, const struct tunable *row, const char *value,
		      bool commented)
{
	size_t n = value ? strlen(value) : 0;
	bool lost = n && (is_blank(value[0]) || is_blank(value[n - 1]));

	fprintf(f, "%s%s%s%s =%s%s\n", commented || lost || !value ? "#" : "", prefix ? prefix : "",
		prefix ? "." : "", row->name, n ? " " : "", n ? value : "");
	return lost ? -EINVAL : 0;
}

static int write_list(FILE *f, const char *prefix, const struct tunable *row, char *const *list,
		      bool commented)
{
	int res = 0;

	if (!list)
		return write_line(f, prefix, row, NULL, commented);
	for (; *list && !res; list++)
		res = write_line(f, prefix, row, *list, commented);
	return res;
}

static int write_row(FILE *f, const char *prefix, const struct tunable *row, const void *settings,
		     bool commented)
{
	const void *field = settings ? (const char *)settings + row->offset : NULL;
	char buf[64];

	if (row->kind != TUNABLE_STRING) {
		tunable_print(row, field ? tunable_num(row, settings) : tunable_default(row), buf,
			      sizeof(buf));
		return write_line(f, prefix, row, buf, commented);
	}
	if (row->repeatable && field)
		return write_list(f, prefix, row, *(char *const *const *)field, commented);
	return write_line(f, prefix, row, field ? *(const char *const *)field : row->dflt_str,
			  commented);
}

int conf_write_rows(FILE *f, const char *prefix, const struct tunable *rows, const void *settings,
		    unsigned how, char *err, size_t errlen)
{
	int res = 0;

	for (; rows->name; rows++) {
		if (how & CONF_HELP)
			write_help(f, rows);
		if (write_row(f, prefix, rows, settings, how & CONF_COMMENTED)) {
			snprintf(err, errlen, "%s: its value begins or ends with a blank, which a "
				 "configuration cannot express", rows->name);
			res = -EINVAL;
		}
	}
	return res;
}
