/*
 * Reading: files to lines, lines to headings and settings.
 *
 * inih takes NAME = VALUE apart. How it does that was fixed when it was compiled; Debian's takes
 * lines of less than 200 bytes, continues values on indented lines, cuts values at " ;", takes :
 * for =, and says which section a setting is in by a name that is cut at 49 bytes. So it never sees
 * anything where this matters. Its reader, next_line below, counts the lines and judges each of
 * them; comments and headings are dealt with here, settings get no indentation, and a value that
 * would not survive is replaced by a stand-in (a byte that no line may have) and comes from here
 * again when inih gives it to the handler.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/internal.h"

static const char stand_in[] = "\x01";

struct reader {
	struct conf *conf;
	const struct conf_kind *kinds;
	struct conf_file *file;
	const char *at, *end;          /* what has not been read */
	unsigned line;
	bool any_heading;
	struct conf_section *section; /* where settings go; NULL: none so far, or a wrong heading */
	char *buf;                     /* room for a line */
	char *text;                    /* the line, without blanks around it */
	char *name, *value;            /* within it: what inih was given; NULL: nothing */
};

static int read_named(struct conf *c, const char *path, const struct conf_kind *kinds,
		      struct conf_file *parent, struct conf_place from);

static struct conf_place here(const struct reader *r)
{
	return (struct conf_place){ r->file->name, r->line };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Without blanks at either end, in place. */
static char *trim(char *text)
{
	size_t n;

	while (is_blank(*text))
		text++;
	for (n = strlen(text); n && is_blank(text[n - 1]); n--)
		;
	text[n] = '\0';
	return text;
}

/* The beginning of a text, for a message. */
enum { SHOWN = 40 };
#define SHOW(text) SHOWN, (text), strlen(text) > SHOWN ? "..." : ""

/* ---- headings ---- */

static const struct conf_section *find_section(const struct conf *c, const struct conf_kind *kind,
					       const char *title)
{
	const struct conf_section *s;

	TAILQ_FOREACH(s, &c->sections, link)
		if (s->kind == kind && !strcmp(s->title, title))
			return s;
	return NULL;
}

/* A new section becomes the current one, if there can be one. */
static void add_section(struct reader *r, const struct conf_kind *kind, const char *title)
{
	struct conf *c = r->conf;
	struct conf_section *s;

	if (c->nsections == CONF_SECTIONS_MAX) {
		conf_complain(c, here(r), "more than %d sections", CONF_SECTIONS_MAX);
		r->at = r->end;
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s || !(s->title = strdup(title))) {
		free(s);
		c->no_memory = true;
		return;
	}
	s->kind = kind;
	s->place = here(r);
	TAILQ_INIT(&s->settings);
	TAILQ_INSERT_TAIL(&c->sections, s, link);
	c->nsections++;
	r->section = s;
}

/* "[server], [export NAME] or [client MATCH]" */
static void list_kinds(const struct conf_kind *kinds, char *buf, size_t len)
{
	size_t used = 0;

	*buf = '\0';
	for (const struct conf_kind *k = kinds; k->word && used < len; k++)
		used += (size_t)snprintf(buf + used, len - used, "%s[%s%s%s]",
					 k == kinds ? "" : k[1].word ? ", " : " or ", k->word,
					 k->title ? " " : "", k->title ? k->title : "");
}

static void take_title(struct reader *r, const struct conf_kind *kind, const char *title)
{
	const struct conf_section *first;
	struct conf *c = r->conf;

	if (!kind->title && *title) {
		conf_complain(c, here(r), "[%s %.*s%s]: expected [%s]", kind->word, SHOW(title),
			      kind->word);
	} else if (kind->title && !*title) {
		conf_complain(c, here(r), "[%s]: expected [%s %s]", kind->word, kind->word,
			      kind->title);
	} else if (kind->title && strlen(title) > kind->title_max) {
		conf_complain(c, here(r), "[%s %.*s%s]: %s has %zu bytes; expected at most %zu",
			      kind->word, SHOW(title), kind->title, strlen(title), kind->title_max);
	} else {
		first = find_section(c, kind, title);
		if (first)
			conf_complain(c, here(r),
				      "[%s%s%.*s%s]: is there already, at %s:%u; expected once",
				      kind->word, *title ? " " : "", SHOW(title), first->place.file,
				      first->place.line);
		add_section(r, kind, title);
	}
}

/* r->text begins with a bracket. */
static void take_heading(struct reader *r)
{
	char *word = r->text + 1, *end = strrchr(r->text, ']'), *title, all[256];
	size_t n;

	r->any_heading = true;
	r->section = NULL;
	if (!end || end[1]) {
		conf_complain(r->conf, here(r),
			      "%.*s%s: expected a ] at the end of a heading, and nothing "
			      "behind it",
			      SHOW(r->text));
		return;
	}
	*end = '\0';
	word = trim(word);
	n = strcspn(word, " \t");
	title = word + n;
	if (*title)
		*title++ = '\0';
	title = trim(title);
	for (const struct conf_kind *k = r->kinds; k->word; k++) {
		if (!strcmp(k->word, word)) {
			take_title(r, k, title);
			return;
		}
	}
	list_kinds(r->kinds, all, sizeof(all));
	conf_complain(r->conf, here(r), "[%.*s%s]: unknown section; expected %s", SHOW(word), all);
}

/* ---- settings ---- */

static void add_setting(struct reader *r, const char *name, const char *value)
{
	struct conf_setting *t = calloc(1, sizeof(*t));

	if (t) {
		t->name = strdup(name);
		t->value = strdup(value);
		t->place = here(r);
	}
	if (!t || !t->name || !t->value) {
		if (t) {
			free(t->name);
			free(t->value);
		}
		free(t);
		r->conf->no_memory = true;
		return;
	}
	TAILQ_INSERT_TAIL(&r->section->settings, t, link);
}

/* What was wrong with the folder of a pattern, from within glob(). */
static int folder_error;

static int note_error(const char *path, int error)
{
	(void)path;
	folder_error = error;
	return 1;
}

/* The pattern as seen from where the server runs; allocated. */
static char *resolve(const char *file, const char *pattern)
{
	const char *slash = strrchr(file, '/');
	char *path;

	if (*pattern == '/' || !slash)
		return strdup(pattern);
	return asprintf(&path, "%.*s/%s", (int)(slash - file), file, pattern) < 0 ? NULL : path;
}

static void include(struct reader *r, const char *value)
{
	char err[TUNABLE_ERR_MAX], *pattern;
	struct tunable_value parsed;
	glob_t found = { 0 };
	int res;

	if (tunable_parse(conf_rows, value, &parsed, err, sizeof(err))) {
		conf_complain(r->conf, here(r), "%s", err);
		return;
	}
	tunable_value_free(&parsed);
	pattern = resolve(r->file->name, value);
	if (!pattern) {
		r->conf->no_memory = true;
		return;
	}
	folder_error = 0;
	res = glob(pattern, GLOB_ERR, note_error, &found);
	if (res == GLOB_NOSPACE) {
		r->conf->no_memory = true;
	} else if (res == GLOB_ABORTED || (res == GLOB_NOMATCH && folder_error)) {
		conf_complain(r->conf, here(r), "include: cannot look for %s: %s; expected files",
			      pattern, strerror(folder_error));
	} else if (res == GLOB_NOMATCH && !strpbrk(pattern, "*?[")) {
		conf_complain(r->conf, here(r),
			      "include: there is no %s; expected a file, or a pattern such "
			      "as DIR/*.conf",
			      pattern);
	}
	for (size_t i = 0; !res && i < found.gl_pathc && !conf_is_full(r->conf); i++)
		read_named(r->conf, found.gl_pathv[i], r->kinds, r->file, here(r));
	globfree(&found);
	free(pattern);
}

static bool may_include(const struct reader *r)
{
	return r->section ? r->section->kind->includes : !r->any_heading;
}

/* From inih. A nonzero value says that all is well. */
static int take_setting(void *arg, const char *section, const char *name, const char *value)
{
	struct reader *r = arg;

	(void)section;
	if (!r->name || strcmp(name, r->name))
		return 1; /* next_line will see that it was not taken */
	if (!strcmp(value, stand_in))
		value = r->value;
	r->name = NULL;
	if (!strcmp(name, "include") && may_include(r))
		include(r, value);
	else if (r->section)
		add_setting(r, name, value);
	else if (!r->any_heading)
		conf_complain(r->conf, here(r), "%s: stands before the first section", name);
	return 1;
}

/* ---- lines ---- */

/* The next line to r->text, if there is nothing in it that cannot be. */
static bool read_line(struct reader *r)
{
	const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
	const char *line = r->at, *end = newline ? newline : r->end;
	size_t n = (size_t)(end - line);

	r->at = newline ? newline + 1 : r->end;
	r->line++;
	if (n > CONF_LINE_MAX) {
		conf_complain(r->conf, here(r), "the line has %zu bytes; expected at most %d", n,
			      CONF_LINE_MAX);
		return false;
	}
	if (memchr(line, '\0', n)) {
		conf_complain(r->conf, here(r), "a NUL byte is in the line; expected text");
		return false;
	}
	if (r->line == 1 && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) {
		line += 3; /* the mark of UTF-8 */
		n -= 3;
	}
	memcpy(r->buf, line, n);
	r->buf[n] = '\0';
	r->text = trim(r->buf);
	for (const char *p = r->text; *p; p++) {
		if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f) {
			conf_complain(r->conf, here(r),
				      "a control character (0x%02x) is in the line; "
				      "expected text",
				      (unsigned char)*p);
			return false;
		}
	}
	return true;
}

/* Takes r->text apart into name and value; false: it is no setting. */
static bool split_line(struct reader *r)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t n = strspn(r->text, letters);
	char *equals = r->text + n + strspn(r->text + n, " \t");

	if (n && *equals == '=') {
		r->text[n] = '\0';
		r->name = r->text;
		r->value = trim(equals + 1);
		return true;
	}
	conf_complain(r->conf, here(r), "%.*s%s: expected NAME = VALUE, [SECTION] or # COMMENT",
		      SHOW(r->text));
	return false;
}

/* For inih, like fgets: the next setting, in a form that it cannot spoil. NULL: the end. */
static char *next_line(char *out, int room, void *arg)
{
	struct reader *r = arg;

	if (r->name) /* inih did not hand it back */
		conf_complain(r->conf, here(r), "%s: cannot be read; expected NAME = VALUE",
			      r->name);
	r->name = NULL;
	while (r->at < r->end && !conf_is_full(r->conf)) {
		if (!read_line(r) || !*r->text || *r->text == '#' || *r->text == ';')
			continue;
		if (*r->text == '[') {
			take_heading(r);
			continue;
		}
		if (!split_line(r))
			continue;
		if (strlen(r->name) + sizeof(stand_in) + 1 > (size_t)room) {
			conf_complain(r->conf, here(r), "%.*s%s: unknown setting", SHOW(r->name));
			r->name = NULL;
			continue;
		}
		if (snprintf(out, (size_t)room, "%s=%s", r->name, r->value) >= room ||
		    strchr(r->value, ';'))
			snprintf(out, (size_t)room, "%s=%s", r->name, stand_in);
		return out;
	}
	return NULL;
}

/* ---- files ---- */

static int parse(struct conf *c, struct conf_file *f, const char *text, size_t len,
		 const struct conf_kind *kinds)
{
	struct reader r = { .conf = c, .kinds = kinds, .file = f, .at = text, .end = text + len };
	int res;

	r.buf = malloc(CONF_LINE_MAX + 1);
	if (!r.buf) {
		c->no_memory = true;
		return -ENOMEM;
	}
	f->reading = true;
	res = ini_parse_stream(next_line, &r, take_setting, &r);
	f->reading = false;
	if (res && !c->nerrors)
		conf_complain(c, (struct conf_place){ f->name, 0 }, "cannot be parsed");
	free(r.buf);
	return 0;
}

static struct conf_file *add_file(struct conf *c, const char *name, struct conf_file *parent,
				  struct conf_place from)
{
	struct conf_file *f = calloc(1, sizeof(*f));

	if (!f || !(f->name = strdup(name))) {
		free(f);
		c->no_memory = true;
		return NULL;
	}
	f->parent = parent;
	f->depth = parent ? parent->depth + 1 : 1;
	f->includer = from;
	TAILQ_INSERT_TAIL(&c->files, f, link);
	return f;
}

/* Was it read before, or is it being read? Then that is an error. */
static bool is_known(struct conf *c, const struct stat *st, const char *path,
		     struct conf_place from)
{
	const struct conf_file *f;

	TAILQ_FOREACH(f, &c->files, link) {
		if (f->dev != st->st_dev || f->ino != st->st_ino)
			continue;
		if (f->reading)
			conf_complain(c, from, "include: %s would include itself", path);
		else
			conf_complain(c, from, "include: %s is included already, at %s:%u", path,
				      f->includer.file, f->includer.line);
		return true;
	}
	return false;
}

/* All that an open file has; allocated. 0 or a negative errno; -EFBIG: more than may be. */
static int read_all(int fd, size_t most, char **text, size_t *len)
{
	size_t room = 4096;
	char *grown;
	ssize_t n;

	*text = malloc(room);
	*len = 0;
	while (*text) {
		n = read(fd, *text + *len, room - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : 0;
		*len += (size_t)n;
		if (*len > most)
			return -EFBIG;
		if (*len < room)
			continue;
		grown = realloc(*text, room *= 2);
		if (!grown)
			return -ENOMEM;
		*text = grown;
	}
	return -ENOMEM;
}

static int read_open(struct conf *c, int fd, const char *path, const struct conf_kind *kinds,
		     struct conf_file *parent, struct conf_place from)
{
	char *text = NULL;
	struct conf_file *f;
	struct stat st;
	size_t len = 0;
	int res;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (is_known(c, &st, path, from))
		return 0;
	res = read_all(fd, CONF_TOTAL_MAX - c->bytes, &text, &len);
	if (!res) {
		c->bytes += len;
		f = add_file(c, path, parent, from);
		if (f) {
			f->dev = st.st_dev;
			f->ino = st.st_ino;
			parse(c, f, text, len, kinds);
		}
	}
	free(text);
	return res;
}

static int read_named(struct conf *c, const char *path, const struct conf_kind *kinds,
		      struct conf_file *parent, struct conf_place from)
{
	struct conf_file *f;
	int fd, res;

	if (parent && parent->depth == CONF_DEPTH_MAX) {
		conf_complain(c, from, "include: %s: more than %d files include each other", path,
			      CONF_DEPTH_MAX);
		return 0;
	}
	/* Without waiting: the path may be a pipe's. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	res = fd < 0 ? -errno : 0;
	if (!res) {
		fcntl(fd, F_SETFL, 0);
		res = read_open(c, fd, path, kinds, parent, from);
		close(fd);
	}
	if (res && !parent && (f = add_file(c, path, NULL, from)))
		from.file = f->name; /* it lives longer */
	if (res == -ENOMEM)
		c->no_memory = true;
	else if (res == -EFBIG)
		conf_complain(c, from, "%s%s: the configuration has more than %d bytes",
			      parent ? "include: " : "", path, CONF_TOTAL_MAX);
	else if (res && parent)
		conf_complain(c, from, "include: cannot read %s: %s", path, strerror(-res));
	else if (res)
		conf_complain(c, from, "cannot be read: %s", strerror(-res));
	return res;
}

int conf_read_file(struct conf *c, const char *path, const struct conf_kind *kinds)
{
	return read_named(c, path, kinds, NULL, (struct conf_place){ path, 0 });
}

int conf_read_text(struct conf *c, const char *name, const char *text, size_t len,
		   const struct conf_kind *kinds)
{
	struct conf_file *f = add_file(c, name, NULL, (struct conf_place){ name, 0 });

	return f ? parse(c, f, text, len, kinds) : -ENOMEM;
}
