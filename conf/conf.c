/*
 * Configurations: the errors in order, and each setting against its row. The text is read in
 * read.c.
 */
#include "conf/conf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "conf/internal.h"

const struct tunable conf_rows[] = {
	{ .name = "include", .kind = TUNABLE_STRING, .repeatable = true, .min = 1, .max = 4095,
	  .scope = SCOPE_SERVER, .help = "read these files as well, as DIR/*.conf",
	  .paragraph = "The path may be a pattern and is relative to the folder of the file that "
		"includes. It also stands before the first section. What includes itself, or comes "
		"twice, is an error." },
	{ .name = NULL }
};

/* ---- life ---- */

void conf_init(struct conf *c)
{
	memset(c, 0, sizeof(*c));
	TAILQ_INIT(&c->sections);
	TAILQ_INIT(&c->errors);
	TAILQ_INIT(&c->files);
}

static void free_section(struct conf_section *s)
{
	struct conf_setting *t;

	while ((t = TAILQ_FIRST(&s->settings))) {
		TAILQ_REMOVE(&s->settings, t, link);
		free(t->name);
		free(t->value);
		free(t);
	}
	free(s->title);
	free(s);
}

void conf_free(struct conf *c)
{
	struct conf_section *s;
	struct conf_error *e;
	struct conf_file *f;

	if (!c || !c->sections.tqh_last)
		return;
	while ((s = TAILQ_FIRST(&c->sections))) {
		TAILQ_REMOVE(&c->sections, s, link);
		free_section(s);
	}
	while ((e = TAILQ_FIRST(&c->errors))) {
		TAILQ_REMOVE(&c->errors, e, link);
		free(e->text);
		free(e);
	}
	while ((f = TAILQ_FIRST(&c->files))) {
		TAILQ_REMOVE(&c->files, f, link);
		free(f->name);
		free(f);
	}
	conf_init(c);
}

const struct conf_setting *conf_get(const struct conf_section *s, const char *name)
{
	const struct conf_setting *t;

	TAILQ_FOREACH(t, &s->settings, link)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

/* ---- errors ---- */

bool conf_is_full(const struct conf *c)
{
	return c->no_memory || c->nerrors >= CONF_ERRORS_MAX;
}

/* The files in the order of reading; whatever is not among them comes first. */
static unsigned file_order(const struct conf *c, const char *name)
{
	const struct conf_file *f;
	unsigned n = 0;

	TAILQ_FOREACH(f, &c->files, link) {
		n++;
		if (f->name == name)
			return n;
	}
	return 0;
}

static bool is_before(const struct conf *c, const struct conf_place *a, const struct conf_place *b)
{
	if (a->file == b->file)
		return a->line < b->line;
	return file_order(c, a->file) < file_order(c, b->file);
}

/* Errors of one line stay in the order in which they were found. */
static void insert_sorted(struct conf *c, struct conf_error *e)
{
	struct conf_error *last;

	TAILQ_FOREACH_REVERSE(last, &c->errors, conf_errors, link)
		if (!is_before(c, &e->place, &last->place))
			break;
	if (last)
		TAILQ_INSERT_AFTER(&c->errors, last, e, link);
	else
		TAILQ_INSERT_HEAD(&c->errors, e, link);
	c->nerrors++;
}

void conf_complain(struct conf *c, struct conf_place place, const char *fmt, ...)
{
	struct conf_error *e = conf_is_full(c) ? NULL : calloc(1, sizeof(*e));
	va_list ap;

	if (!e) {
		c->no_memory |= c->nerrors < CONF_ERRORS_MAX;
		return;
	}
	e->place = place;
	va_start(ap, fmt);
	if (vasprintf(&e->text, fmt, ap) < 0)
		e->text = NULL;
	va_end(ap);
	if (!e->text) {
		free(e);
		c->no_memory = true;
		return;
	}
	for (char *p = e->text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	insert_sorted(c, e);
}

int conf_error_text(const struct conf_error *e, char *buf, size_t len)
{
	if (!e->place.file)
		return snprintf(buf, len, "%s", e->text);
	if (!e->place.line)
		return snprintf(buf, len, "%s: %s", e->place.file, e->text);
	return snprintf(buf, len, "%s:%u: %s", e->place.file, e->place.line, e->text);
}

/* ---- checking ---- */

static const struct tunable *find_in(const struct tunable *const *tables, const char *name)
{
	const struct tunable *row = NULL;

	for (; !row && *tables; tables++)
		row = tunable_find(*tables, name);
	return row;
}

/* The row of this name in sections of this kind. */
static const struct tunable *find_row(const struct conf_section *s, const char *name, char *err,
				      size_t errlen)
{
	const struct tunable *row;

	if (s->kind->find)
		return s->kind->find(s, name, err, errlen);
	row = find_in(s->kind->tables, name);
	if (!row)
		tunable_unknown(s->kind->tables, name, err, errlen);
	return row;
}

/* The kind whose sections have a setting of this name, or NULL. */
static const struct conf_kind *home_of(const struct conf_kind *kinds, const char *name)
{
	for (; kinds->word; kinds++)
		if (find_in(kinds->tables, name) ||
		    (kinds->includes && tunable_find(conf_rows, name)))
			return kinds;
	return NULL;
}

/* "unknown tunable 'x'; did you mean y?": the name stands before it already. */
static void complain_unknown(struct conf *c, const struct conf_setting *t, const char *text)
{
	static const char unknown[] = "unknown tunable '";
	const char *rest = NULL;

	if (!strncmp(text, unknown, strlen(unknown)))
		rest = strchr(text + strlen(unknown), '\'');
	conf_complain(c, t->place, "%s: %s%s", t->name, rest ? "unknown setting" : text,
		      rest ? rest + 1 : "");
}

static void blame_name(struct conf *c, const struct conf_kind *kinds, const struct conf_section *s,
		       const struct conf_setting *t, const char *text)
{
	const struct conf_kind *home = home_of(kinds, t->name);

	if (home && home != s->kind)
		conf_complain(c, t->place, "%s: stands in [%s%s%s], not in [%s%s%.40s]", t->name,
			      home->word, home->title ? " " : "", home->title ? home->title : "",
			      s->kind->word, s->kind->title ? " " : "", s->title);
	else
		complain_unknown(c, t, text);
}

/* "x: '5' is out of range; ...", but of POLICY.x under its whole name. */
static void blame_value(struct conf *c, const struct conf_setting *t, const struct tunable *row,
			const char *text)
{
	size_t n = strlen(row->name);

	if (!strncmp(text, row->name, n) && !strncmp(text + n, ": ", 2))
		text += n + 2;
	conf_complain(c, t->place, "%s: %s", t->name, text);
}

/* An earlier one in this section that sets the same, whatever its name there. */
static const struct conf_setting *earlier(const struct conf_section *s,
					  const struct conf_setting *t, const struct tunable *row)
{
	const struct conf_setting *other;

	TAILQ_FOREACH(other, &s->settings, link) {
		if (other == t)
			return NULL;
		if (other->row == row)
			return other;
	}
	return NULL;
}

static void check_setting(struct conf *c, const struct conf_kind *kinds,
			  const struct conf_section *s, struct conf_setting *t)
{
	char err[TUNABLE_ERR_MAX] = "";
	const struct tunable *row = find_row(s, t->name, err, sizeof(err));
	const struct conf_setting *first;
	struct tunable_value value;

	if (!row) {
		blame_name(c, kinds, s, t, err);
		return;
	}
	first = row->repeatable ? NULL : earlier(s, t, row);
	if (first)
		conf_complain(c, t->place, "%s: is set already, at %s:%u; expected once", t->name,
			      first->place.file, first->place.line);
	if (tunable_parse(row, t->value, &value, err, sizeof(err)))
		blame_value(c, t, row, err);
	tunable_value_free(&value);
	t->row = row;
}

static void check_all(struct conf *c, const struct conf_kind *kinds)
{
	struct conf_section *s;
	struct conf_setting *t;

	TAILQ_FOREACH(s, &c->sections, link) {
		TAILQ_FOREACH(t, &s->settings, link) {
			if (conf_is_full(c))
				return;
			check_setting(c, kinds, s, t);
		}
	}
}

/* ---- loading ---- */

static int finish(struct conf *c, int res, const struct conf_kind *kinds)
{
	if (!res)
		check_all(c, kinds);
	if (c->no_memory)
		return -ENOMEM;
	if (!res && c->nerrors)
		return -EINVAL;
	return res;
}

int conf_load(struct conf *c, const char *path, const struct conf_kind *kinds)
{
	conf_init(c);
	return finish(c, conf_read_file(c, path, kinds), kinds);
}

int conf_load_text(struct conf *c, const char *name, const char *text, size_t len,
		   const struct conf_kind *kinds)
{
	conf_init(c);
	return finish(c, conf_read_text(c, name, text, len, kinds), kinds);
}
