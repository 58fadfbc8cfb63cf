/*
 * Tunables: see tunable.h.
 */
#include "sched/tunable.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512

/* Per unit: its factor, its name in ranges, and how a value may be written. */
static const struct {
	uint64_t factor;
	const char *name, *examples;
} units[] = {
	[UNIT_NONE]    = { 1, "", "" },
	[UNIT_NS]      = { 1, "ns", "500, 500ns or 2us" },
	[UNIT_US]      = { 1000, "us", "500, 500us or 2ms" },
	[UNIT_MS]      = { 1000000, "ms", "500, 500ms or 2s" },
	[UNIT_S]       = { 1000000000, "s", "30, 30s or 5000ms" },
	[UNIT_BYTES]   = { 1, "bytes", "65536, 64K or 128s" },
	[UNIT_SECTORS] = { SECTOR, "sectors", "128, 128s or 64K" },
	[UNIT_KIB]     = { 1024, "KiB", "128, 128K or 1M" },
	[UNIT_MIB]     = { 1024 * 1024, "MiB", "64, 64M or 1G" },
};

struct suffix {
	const char *text;
	uint64_t factor;
};

static const struct suffix time_suffixes[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { NULL, 0 },
};

static const struct suffix size_suffixes[] = {
	{ "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 }, { "s", SECTOR }, { NULL, 0 },
};

uint64_t tunable_unit_factor(enum tunable_unit unit)
{
	return units[unit].factor;
}

const char *tunable_unit_name(enum tunable_unit unit)
{
	return units[unit].name;
}

static uint64_t factor(const struct tunable *t)
{
	return units[t->unit].factor;
}

static bool is_text(const struct tunable *t)
{
	return t->kind == TUNABLE_STRING;
}

/* ---- names ---- */

const struct tunable *tunable_find(const struct tunable *rows, const char *name)
{
	for (; rows->name; rows++)
		if (!strcmp(rows->name, name))
			return rows;
	return NULL;
}

/* Foreign text for a message: shortened, and plain ASCII whatever it holds. */
#define SHOWN_MAX 48
static const char *shown(const char *text, char buf[SHOWN_MAX + 4])
{
	size_t i;

	for (i = 0; text[i] && i < SHOWN_MAX; i++)
		buf[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	memcpy(buf + i, text[i] ? "..." : "", text[i] ? 4 : 1);
	return buf;
}

/*
 * Edit distance where a swap of neighbours counts as one edit ("optimal string alignment"). Three
 * rows of the table suffice: row i needs the one above and, for swaps, the one above that.
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned table[3][TUNABLE_NAME_MAX + 1];
	size_t la = strlen(a), lb = strlen(b), i, j;

	if (la > TUNABLE_NAME_MAX || lb > TUNABLE_NAME_MAX)
		return UINT32_MAX;
	for (j = 0; j <= lb; j++)
		table[0][j] = j;
	for (i = 1; i <= la; i++) {
		unsigned *row = table[i % 3], *up = table[(i + 2) % 3], *up2 = table[(i + 1) % 3];

		row[0] = i;
		for (j = 1; j <= lb; j++) {
			unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    up2[j - 2] + 1 < best)
				best = up2[j - 2] + 1;
			row[j] = best;
		}
	}
	return table[la % 3][lb];
}

int tunable_unknown(const struct tunable *const *tables, const char *name,
		    char *err, size_t errlen)
{
	const char *near = NULL;
	/* Up to a third of the name is taken for a slip; beyond, it is another word. */
	unsigned least = strlen(name) / 3 + 1;
	char buf[SHOWN_MAX + 4];

	for (; *tables; tables++) {
		for (const struct tunable *t = *tables; t->name; t++) {
			unsigned d = distance(name, t->name);

			if (d < least) {
				least = d;
				near = t->name;
			}
		}
	}
	if (near)
		snprintf(err, errlen, "unknown tunable '%s'; did you mean %s?",
			 shown(name, buf), near);
	else
		snprintf(err, errlen, "unknown tunable '%s'", shown(name, buf));
	return -ENOENT;
}

/* ---- checking a table ---- */

static const char *check_name(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > TUNABLE_NAME_MAX)
		return "its name is empty or too long";
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != n)
		return "its name has something other than lower case, digits and underscores";
	return NULL;
}

static size_t count_choices(const struct tunable *t)
{
	size_t n = 0;

	while (t->choices[n])
		n++;
	return n;
}

static bool unit_fits(const struct tunable *t)
{
	switch (t->kind) {
	case TUNABLE_TIME:
		return t->unit >= UNIT_NS && t->unit <= UNIT_S;
	case TUNABLE_SIZE:
		return t->unit >= UNIT_BYTES && t->unit <= UNIT_MIB;
	default:
		return t->unit == UNIT_NONE;
	}
}

/* What is wrong with the range and the default of a row, or NULL. */
static const char *check_range(const struct tunable *t)
{
	bool is_auto = t->can_be_auto && t->dflt == TUNABLE_AUTO;
	uint64_t max = t->max, top;

	switch (t->kind) {
	case TUNABLE_BOOL:
		return is_auto || t->dflt <= 1 ? NULL : "its default is neither 0 nor 1";
	case TUNABLE_ENUM:
		if (!t->choices || !t->choices[0])
			return "it has no choices";
		return is_auto || t->dflt < count_choices(t) ? NULL : "its default is no choice";
	case TUNABLE_STRING:
		if (t->can_be_auto)
			return "a string cannot be auto";
		if (t->max && t->min > t->max)
			return "its range is empty";
		return NULL;
	default:
		if (t->min > max)
			return "its range is empty";
		if (__builtin_mul_overflow(max, factor(t), &top) ||
		    (t->can_be_auto && top == TUNABLE_AUTO))
			return "its maximum does not fit into 64 bits";
		return is_auto || (t->dflt >= t->min && t->dflt <= max) ? NULL :
			"its default is out of its range";
	}
}

int tunable_check_rows(const struct tunable *rows, char *err, size_t errlen)
{
	for (const struct tunable *t = rows; t->name; t++) {
		const char *wrong = check_name(t->name);

		if (!wrong && tunable_find(rows, t->name) != t)
			wrong = "two rows have this name";
		if (!wrong && !unit_fits(t))
			wrong = "its unit does not fit its kind";
		if (!wrong)
			wrong = check_range(t);
		if (!wrong && t->repeatable && !is_text(t))
			wrong = "only strings are repeatable";
		if (!wrong && t->check && !is_text(t))
			wrong = "only strings have a check of their own";
		if (!wrong && (!t->help || !*t->help || strchr(t->help, '\n')))
			wrong = "its help is not one line";
		if (wrong) {
			snprintf(err, errlen, "row '%s': %s", t->name, wrong);
			return -EINVAL;
		}
	}
	return 0;
}

/* ---- printing ---- */

/* Text that is put together piece by piece; length counts on when the buffer is full. */
struct out {
	char *buf;
	size_t len, used;
};

static void put(struct out *o, const char *text)
{
	size_t left = o->used < o->len ? o->len - o->used : 0;

	snprintf(left ? o->buf + o->used : NULL, left, "%s", text);
	o->used += strlen(text);
}

static void put_item(struct out *o, const char *text)
{
	if (o->used)
		put(o, ", ");
	put(o, text);
}

int tunable_print(const struct tunable *t, uint64_t num, char *buf, size_t len)
{
	assert(!is_text(t));
	if (t->can_be_auto && num == TUNABLE_AUTO)
		return snprintf(buf, len, "auto");
	if (t->kind == TUNABLE_ENUM) {
		assert(num < count_choices(t));
		return snprintf(buf, len, "%s", t->choices[num]);
	}
	return snprintf(buf, len, "%llu", (unsigned long long)(num / factor(t)));
}

int tunable_allowed(const struct tunable *t, char *buf, size_t len)
{
	struct out o = { buf, len, 0 };
	char range[80];

	if (len)
		*buf = '\0';
	if (t->can_be_auto)
		put_item(&o, "auto");
	switch (t->kind) {
	case TUNABLE_BOOL:
		put_item(&o, "0, 1, yes, no, on, off");
		break;
	case TUNABLE_ENUM:
		for (const char *const *c = t->choices; *c; c++)
			put_item(&o, *c);
		break;
	case TUNABLE_STRING:
		if (t->max)
			snprintf(range, sizeof(range), "text of %llu..%llu bytes",
				 (unsigned long long)t->min, (unsigned long long)t->max);
		else
			snprintf(range, sizeof(range), "%s", t->min ? "text" : "text or nothing");
		put_item(&o, range);
		break;
	default:
		snprintf(range, sizeof(range), "%llu..%llu%s%s", (unsigned long long)t->min,
			 (unsigned long long)t->max, *units[t->unit].name ? " " : "",
			 units[t->unit].name);
		put_item(&o, range);
	}
	return o.used;
}

/* ---- parsing ---- */

static int refuse(const struct tunable *t, const char *text, int error, const char *wrong,
		  char *err, size_t errlen)
{
	char allowed[256], value[SHOWN_MAX + 4];
	const char *examples = error == -EINVAL ? units[t->unit].examples : "";

	tunable_allowed(t, allowed, sizeof(allowed));
	snprintf(err, errlen, "%s: '%s' %s; expected %s%s%s", t->name, shown(text, value), wrong,
		 allowed, *examples ? ", as " : "", examples);
	return error;
}

static const char *not_a_value(const struct tunable *t)
{
	switch (t->kind) {
	case TUNABLE_TIME:
		return "is not a time";
	case TUNABLE_SIZE:
		return "is not a size";
	case TUNABLE_BOOL:
		return "is neither yes nor no";
	case TUNABLE_ENUM:
		return "is not a choice";
	default:
		return "is not a whole number";
	}
}

/*
 * Digits, then nothing or a suffix. 0 with the value in base units, -EINVAL, or -ERANGE if it does
 * not fit into 64 bits.
 */
static int parse_number(const struct tunable *t, const char *text, uint64_t *num)
{
	const struct suffix *s = t->kind == TUNABLE_TIME ? time_suffixes :
				 t->kind == TUNABLE_SIZE ? size_suffixes : NULL;
	uint64_t n = 0, by = factor(t);
	bool over = false;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		over |= __builtin_mul_overflow(n, 10, &n) ||
			__builtin_add_overflow(n, (uint64_t)(*p - '0'), &n);
	if (p == text)
		return -EINVAL;
	if (*p) {
		while (s && s->text && strcmp(s->text, p))
			s++;
		if (!s || !s->text)
			return -EINVAL;
		by = s->factor;
	}
	over |= __builtin_mul_overflow(n, by, num);
	return over ? -ERANGE : 0;
}

static int parse_in_range(const struct tunable *t, const char *text, uint64_t *num,
			  char *err, size_t errlen)
{
	char wrong[64];
	int r = parse_number(t, text, num);

	if (r == -EINVAL)
		return refuse(t, text, r, not_a_value(t), err, errlen);
	/* Compared in the row's unit, where nothing overflows; a rest above max is out of range. */
	if (r || *num / factor(t) > t->max ||
	    (*num / factor(t) == t->max && *num % factor(t)) || *num / factor(t) < t->min)
		return refuse(t, text, -ERANGE, "is out of range", err, errlen);
	if (*num % factor(t)) {
		snprintf(wrong, sizeof(wrong), "is not a whole number of %s", units[t->unit].name);
		return refuse(t, text, -EINVAL, wrong, err, errlen);
	}
	return 0;
}

static int parse_word(const struct tunable *t, const char *text, uint64_t *num,
		      char *err, size_t errlen)
{
	static const char *const bools[] = { "0", "1", "no", "yes", "off", "on", NULL };
	const char *const *words = t->kind == TUNABLE_BOOL ? bools : t->choices;

	for (uint64_t i = 0; words[i]; i++) {
		if (!strcmp(words[i], text)) {
			*num = words == bools ? i % 2 : i;
			return 0;
		}
	}
	return refuse(t, text, -EINVAL, not_a_value(t), err, errlen);
}

static int no_memory(const struct tunable *t, char *err, size_t errlen)
{
	snprintf(err, errlen, "%s: out of memory", t->name);
	return -ENOMEM;
}

static void free_list(char **list)
{
	for (char **s = list; s && *s; s++)
		free(*s);
	free(list);
}

static int check_text(const struct tunable *t, const char *text, char *err, size_t errlen)
{
	char wrong[TUNABLE_ERR_MAX - TUNABLE_NAME_MAX - 2] = "";
	int r = t->check ? t->check(text, wrong, sizeof(wrong)) : 0;

	if (r == -ENOMEM)
		return no_memory(t, err, errlen);
	if (r)
		snprintf(err, errlen, "%s: %s", t->name, wrong);
	return r;
}

static int parse_text(const struct tunable *t, const char *text, struct tunable_value *v,
		      char *err, size_t errlen)
{
	size_t n = strlen(text);
	int r;

	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return refuse(t, text, -EINVAL, "has a control character", err, errlen);
	if (n < t->min || (t->max && n > t->max))
		return refuse(t, text, -ERANGE, n < t->min ? "is too short" : "is too long",
			      err, errlen);
	r = check_text(t, text, err, errlen);
	if (r)
		return r;
	v->str = strdup(text);
	if (!v->str)
		return no_memory(t, err, errlen);
	if (!t->repeatable)
		return 0;
	v->list = calloc(2, sizeof(*v->list));
	if (!v->list) {
		tunable_value_free(v);
		return no_memory(t, err, errlen);
	}
	v->list[0] = v->str;
	v->str = NULL;
	return 0;
}

int tunable_parse(const struct tunable *t, const char *text, struct tunable_value *v,
		  char *err, size_t errlen)
{
	int r;

	*v = (struct tunable_value){ 0 };
	if (is_text(t))
		return parse_text(t, text, v, err, errlen);
	if (t->can_be_auto && !strcmp(text, "auto")) {
		v->num = TUNABLE_AUTO;
		return 0;
	}
	if (t->kind == TUNABLE_BOOL || t->kind == TUNABLE_ENUM)
		r = parse_word(t, text, &v->num, err, errlen);
	else
		r = parse_in_range(t, text, &v->num, err, errlen);
	if (r)
		v->num = 0;
	return r;
}

void tunable_value_free(struct tunable_value *v)
{
	if (!v)
		return;
	free(v->str);
	free_list(v->list);
	*v = (struct tunable_value){ 0 };
}

/* ---- settings ---- */

/* The field of a row, by the three types that it may have. */
static uint64_t *num_field(const struct tunable *t, void *settings)
{
	return (uint64_t *)((char *)settings + t->offset);
}

static char **str_field(const struct tunable *t, void *settings)
{
	return (char **)((char *)settings + t->offset);
}

static char ***list_field(const struct tunable *t, void *settings)
{
	return (char ***)((char *)settings + t->offset);
}

uint64_t tunable_default(const struct tunable *t)
{
	assert(!is_text(t));
	return t->can_be_auto && t->dflt == TUNABLE_AUTO ? TUNABLE_AUTO : t->dflt * factor(t);
}

uint64_t tunable_num(const struct tunable *t, const void *settings)
{
	assert(!is_text(t));
	return *num_field(t, (void *)settings);
}

void tunable_set_num(const struct tunable *t, void *settings, uint64_t num)
{
	assert(!is_text(t));
	*num_field(t, settings) = num;
}

int tunable_get(const struct tunable *t, const void *settings, char *buf, size_t len)
{
	struct out o = { buf, len, 0 };
	const char *s;

	if (!is_text(t))
		return tunable_print(t, tunable_num(t, settings), buf, len);
	if (len)
		*buf = '\0';
	if (t->repeatable) {
		for (char **p = *list_field(t, (void *)settings); p && *p; p++)
			put_item(&o, *p);
	} else {
		s = *str_field(t, (void *)settings);
		put(&o, s ? s : "");
	}
	return o.used;
}

static void clear_text(const struct tunable *t, void *settings)
{
	if (t->repeatable)
		*list_field(t, settings) = NULL;
	else
		*str_field(t, settings) = NULL;
}

/* A list of copies of the first n strings of `from`, or NULL for lack of memory. */
static char **copy_list(char *const *from, size_t n)
{
	char **list = calloc(n + 1, sizeof(*list));

	for (size_t i = 0; list && i < n; i++) {
		list[i] = strdup(from[i]);
		if (!list[i]) {
			free_list(list);
			return NULL;
		}
	}
	return list;
}

static int copy_text(const struct tunable *t, void *dst, const void *src)
{
	char **list, *str;
	size_t n = 0;

	if (t->repeatable) {
		list = *list_field(t, (void *)src);
		if (!list)
			return 0;
		while (list[n])
			n++;
		*list_field(t, dst) = copy_list(list, n);
		return *list_field(t, dst) ? 0 : -ENOMEM;
	}
	str = *str_field(t, (void *)src);
	if (!str)
		return 0;
	*str_field(t, dst) = strdup(str);
	return *str_field(t, dst) ? 0 : -ENOMEM;
}

static int default_text(const struct tunable *t, void *settings)
{
	char *dflt = (char *)t->dflt_str;

	if (!dflt)
		return 0;
	if (t->repeatable) {
		*list_field(t, settings) = copy_list(&dflt, 1);
		return *list_field(t, settings) ? 0 : -ENOMEM;
	}
	*str_field(t, settings) = strdup(dflt);
	return *str_field(t, settings) ? 0 : -ENOMEM;
}

int tunable_defaults(const struct tunable *rows, void *settings)
{
	const struct tunable *t;

	for (t = rows; t->name; t++) {
		if (is_text(t))
			clear_text(t, settings);
		else
			tunable_set_num(t, settings, tunable_default(t));
	}
	for (t = rows; t->name; t++) {
		if (is_text(t) && default_text(t, settings)) {
			tunable_free(rows, settings);
			return -ENOMEM;
		}
	}
	return 0;
}

int tunable_copy(const struct tunable *rows, void *dst, const void *src)
{
	const struct tunable *t;

	for (t = rows; t->name; t++) {
		if (is_text(t))
			clear_text(t, dst);
		else
			tunable_set_num(t, dst, tunable_num(t, src));
	}
	for (t = rows; t->name; t++) {
		if (is_text(t) && copy_text(t, dst, src)) {
			tunable_free(rows, dst);
			return -ENOMEM;
		}
	}
	return 0;
}

void tunable_free(const struct tunable *rows, void *settings)
{
	for (const struct tunable *t = rows; t->name; t++) {
		if (!is_text(t))
			continue;
		if (t->repeatable)
			free_list(*list_field(t, settings));
		else
			free(*str_field(t, settings));
		clear_text(t, settings);
	}
}

/* ---- change sets ---- */

static struct tunable_change *find_change(const struct tunable_changes *c,
					  const struct tunable *row, const void *settings)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->change[i].row == row && c->change[i].settings == settings)
			return &c->change[i];
	return NULL;
}

const struct tunable_change *tunable_changes_find(const struct tunable_changes *c,
						  const struct tunable *row, const void *settings)
{
	return find_change(c, row, settings);
}

/* Moves the one string of `more` to the end of the list of `to`. */
static int append(struct tunable_value *to, struct tunable_value *more)
{
	size_t n = 0;
	char **list;

	while (to->list[n])
		n++;
	list = realloc(to->list, (n + 2) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	list[n] = more->list[0];
	list[n + 1] = NULL;
	to->list = list;
	more->list[0] = NULL;
	return 0;
}

static struct tunable_change *new_change(struct tunable_changes *c)
{
	if (c->n == c->room) {
		size_t room = c->room ? 2 * c->room : 8;
		struct tunable_change *change = realloc(c->change, room * sizeof(*change));

		if (!change)
			return NULL;
		c->change = change;
		c->room = room;
	}
	return &c->change[c->n++];
}

int tunable_changes_add(struct tunable_changes *c, const struct tunable *row, void *settings,
			const char *text, char *err, size_t errlen)
{
	struct tunable_change *change = find_change(c, row, settings);
	struct tunable_value value;
	int r;

	if (c->when == WHEN_RUNTIME && row->when == WHEN_START) {
		snprintf(err, errlen, "%s: can be set at start only", row->name);
		return -EPERM;
	}
	if (change && !row->repeatable) {
		snprintf(err, errlen, "%s: is given twice", row->name);
		return -EEXIST;
	}
	r = tunable_parse(row, text, &value, err, errlen);
	if (r)
		return r;
	if (change) {
		r = append(&change->value, &value);
		tunable_value_free(&value);
		return r ? no_memory(row, err, errlen) : 0;
	}
	change = new_change(c);
	if (!change) {
		tunable_value_free(&value);
		return no_memory(row, err, errlen);
	}
	*change = (struct tunable_change){ .row = row, .settings = settings, .value = value };
	return 0;
}

int tunable_changes_set(struct tunable_changes *c, const struct tunable *rows, void *settings,
			const char *name, const char *text, char *err, size_t errlen)
{
	const struct tunable *const tables[] = { rows, NULL };
	const struct tunable *row = tunable_find(rows, name);

	if (!row)
		return tunable_unknown(tables, name, err, errlen);
	return tunable_changes_add(c, row, settings, text, err, errlen);
}

void tunable_changes_commit(struct tunable_changes *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct tunable_change *change = &c->change[i];
		const struct tunable *t = change->row;

		if (!is_text(t)) {
			tunable_set_num(t, change->settings, change->value.num);
		} else if (t->repeatable) {
			char **old = *list_field(t, change->settings);

			*list_field(t, change->settings) = change->value.list;
			change->value.list = old;
		} else {
			char *old = *str_field(t, change->settings);

			*str_field(t, change->settings) = change->value.str;
			change->value.str = old;
		}
	}
}

void tunable_changes_free(struct tunable_changes *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		tunable_value_free(&c->change[i].value);
	free(c->change);
	c->change = NULL;
	c->n = c->room = 0;
}
