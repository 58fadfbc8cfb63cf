/*
 * Tables for people: see table.h.
 */
#include "server/ctl/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct row {
	STAILQ_ENTRY(row) link;
	bool across; /* a line of its own, in cell[0] */
	unsigned n;
	char *cell[TABLE_COLUMNS];
};

struct table {
	const char *const *headings;
	unsigned columns;
	bool incomplete;
	STAILQ_HEAD(, row) rows;
	struct row *current;
};

struct table *table_new(const char *const *headings)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->headings = headings;
	while (headings[t->columns] && t->columns < TABLE_COLUMNS)
		t->columns++;
	STAILQ_INIT(&t->rows);
	return t;
}

static struct row *add_row(struct table *t)
{
	struct row *r = calloc(1, sizeof(*r));

	if (r)
		STAILQ_INSERT_TAIL(&t->rows, r, link);
	else
		t->incomplete = true;
	return r;
}

static void put(struct table *t, struct row *r, const char *text)
{
	r->cell[r->n] = strdup(text);
	if (!r->cell[r->n])
		t->incomplete = true;
	r->n++;
}

char *text_clean(char *s)
{
	for (unsigned char *p = (unsigned char *)s; *p; p++) {
		if (*p < ' ' || *p == 0x7f)
			*p = '?';
		else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) /* U+0080 to U+009F */
			p[0] = p[1] = '?';
	}
	return s;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char text[TABLE_CELL];
	va_list args;

	if (!t)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	text_clean(text);
	if (!t->current)
		t->current = add_row(t);
	if (!t->current)
		return;
	put(t, t->current, text);
	if (t->current->n == t->columns)
		t->current = NULL;
}

void table_line(struct table *t, const char *text)
{
	struct row *r = t ? add_row(t) : NULL;

	if (!r)
		return;
	r->across = true;
	put(t, r, text);
	t->current = NULL;
}

/* How many characters UTF-8 text has. */
static int width(const char *s)
{
	int n = 0;

	for (; s && *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void print_row(const struct table *t, FILE *f, char *const *cell, unsigned n,
		      const int *widths)
{
	for (unsigned i = 0; i < n; i++) {
		const char *text = cell[i] ? cell[i] : "?";
		int pad = widths[i] - width(text);
		bool right = t->headings[i][0] == '>';

		/* Nothing after the last cell that has text. */
		fprintf(f, "%s%*s%s%*s", i ? "  " : "", right ? pad : 0, "", text,
			right || i + 1 == n ? 0 : pad, "");
	}
	putc('\n', f);
}

void table_free(struct table *t)
{
	struct row *row;

	if (!t)
		return;
	while ((row = STAILQ_FIRST(&t->rows))) {
		STAILQ_REMOVE_HEAD(&t->rows, link);
		for (unsigned i = 0; i < row->n; i++)
			free(row->cell[i]);
		free(row);
	}
	free(t);
}

int table_write(struct table *t, FILE *f)
{
	int widths[TABLE_COLUMNS] = { 0 }, r;
	char *headings[TABLE_COLUMNS];
	struct row *row;

	if (!t)
		return -1;
	for (unsigned i = 0; i < t->columns; i++) {
		headings[i] = (char *)t->headings[i] + (t->headings[i][0] == '>');
		widths[i] = width(headings[i]);
	}
	STAILQ_FOREACH(row, &t->rows, link)
		for (unsigned i = 0; i < row->n && !row->across; i++)
			if (width(row->cell[i]) > widths[i])
				widths[i] = width(row->cell[i]);
	print_row(t, f, headings, t->columns, widths);
	STAILQ_FOREACH(row, &t->rows, link) {
		if (row->across)
			fprintf(f, "%s\n", row->cell[0] ? row->cell[0] : "?");
		else
			print_row(t, f, row->cell, row->n, widths);
	}
	r = t->incomplete ? -1 : 0;
	table_free(t);
	return r;
}

int table_print(struct table *t)
{
	return table_write(t, stdout);
}

/* ---- numbers ---- */

/* Three digits and a unit; no zeros at the end. */
static const char *human(double n, const char *unit, char *buf)
{
	int digits = n < 9.995 ? 2 : n < 99.95 ? 1 : 0;
	size_t len = snprintf(buf, HUMAN_MAX, "%.*f", digits, n);

	while (digits && (buf[len - 1] == '0' || buf[len - 1] == '.'))
		if (buf[--len] == '.')
			break;
	snprintf(buf + len, HUMAN_MAX - len, " %s", unit);
	return buf;
}

const char *human_bytes(uint64_t n, char buf[HUMAN_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned unit = 0;
	double d = n;

	if (!n)
		return memcpy(buf, "0", 2);
	for (; d >= 1023.5 && unit < 6; unit++)
		d /= 1024;
	return human(d, units[unit], buf);
}

const char *human_ns(uint64_t ns, char buf[HUMAN_MAX])
{
	if (!ns)
		return memcpy(buf, "0", 2);
	if (ns < 1000)
		return human(ns, "ns", buf);
	if (ns < 999500)
		return human(ns / 1e3, "us", buf);
	if (ns < 999500000)
		return human(ns / 1e6, "ms", buf);
	if (ns < 100 * 1000000000ull)
		return human(ns / 1e9, "s", buf);
	if (ns < 100 * 60 * 1000000000ull)
		return human(ns / 60e9, "min", buf);
	return human(ns / 3600e9, "h", buf);
}
