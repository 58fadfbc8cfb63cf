/*
 * Tunables: settings described by one row each.
 *
 * A table of rows says everything about a module's settings: name, kind, unit, range, default,
 * help. The configuration file, the command line, the control socket, the tools and the manuals all
 * read and write settings through the rows, so that there is one parser, one printer and one
 * description.
 *
 *     static const struct tunable my_rows[] = {
 *             { .name = "read_expire", .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = INT32_MAX,
 *               .dflt = 500, .offset = offsetof(struct my_params, read_expire),
 *               .scope = SCOPE_POLICY, .when = WHEN_RUNTIME,
 *               .help = "deadline of a read, from its arrival" },
 *             { .name = NULL }
 *     };
 *
 * Rows speak in their own unit (min, max and dflt above are milliseconds); settings are stored in
 * base units: each number is a uint64_t, times in ns, sizes in bytes, a choice as its index. A
 * value is always a whole multiple of the row's unit, so that printing it as a bare number loses
 * nothing.
 *
 * Everything here is pure and touches only what it is given. Settings that several threads use are
 * guarded by their owner's lock: a change set (below) is built and checked without it and committed
 * with it held.
 */
#ifndef SCHED_TUNABLE_H
#define SCHED_TUNABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The stored number that means "auto", in rows that accept the word. */
#define TUNABLE_AUTO UINT64_MAX

/* Longest name of a tunable, without the final NUL. */
#define TUNABLE_NAME_MAX 63

/* Room for any sentence that the functions below write to `err`; a shorter buffer cuts it off. */
#define TUNABLE_ERR_MAX 512

enum tunable_kind {
	TUNABLE_BOOL,   /* 0 1 yes no */
	TUNABLE_UINT,   /* a decimal number */
	TUNABLE_TIME,   /* a number with ns us ms s, or bare */
	TUNABLE_SIZE,   /* a number with K M G (powers of 1024) or s (512-byte sectors), or bare */
	TUNABLE_ENUM,   /* one of the words in choices */
	TUNABLE_STRING, /* any text without control characters */
};

/* What a bare number means. BOOL, UINT, ENUM and STRING have UNIT_NONE. */
enum tunable_unit {
	UNIT_NONE,
	UNIT_NS, UNIT_US, UNIT_MS, UNIT_S,
	UNIT_BYTES, UNIT_SECTORS, UNIT_KIB, UNIT_MIB,
};

enum tunable_scope { SCOPE_SERVER, SCOPE_EXPORT, SCOPE_POLICY, SCOPE_CLIENT };

/* WHEN_START: only while the settings are being put together. WHEN_RUNTIME: also later. */
enum tunable_when { WHEN_START, WHEN_RUNTIME };

struct tunable {
	const char *name;           /* lower case, digits, underscores; NULL ends the table */
	enum tunable_kind kind;
	enum tunable_unit unit;
	/*
	 * UINT, TIME, SIZE: the range, in the row's unit, both ends included.
	 * STRING: the length in bytes; max 0 means no limit.
	 */
	uint64_t min, max;
	uint64_t dflt;              /* in the row's unit; ENUM: index; or TUNABLE_AUTO */
	const char *dflt_str;       /* STRING; NULL: unset */
	const char *const *choices; /* ENUM: words, NULL-terminated */
	bool can_be_auto;           /* accepts "auto", stored as TUNABLE_AUTO; not for STRING */
	/*
	 * STRING: is the text what it should be? 0; -EINVAL and in err what is wrong with it and
	 * what was expected, without the row's name; -ENOMEM. NULL: any text is.
	 */
	int (*check)(const char *text, char *err, size_t errlen);
	bool repeatable;            /* STRING: the setting is a NULL-terminated list of strings */
	size_t offset;              /* of the uint64_t, char * (STRING) or char ** (repeatable) */
	enum tunable_scope scope;
	enum tunable_when when;
	const char *help;           /* one line, no full stop */
	const char *paragraph;      /* for manuals; may be NULL */
};

/* The row of this whole name (no abbreviations), or NULL. */
const struct tunable *tunable_find(const struct tunable *rows, const char *name);

/*
 * Says that no row in any of `tables` (NULL-terminated) has this name, and which name was perhaps
 * meant: "unknown tunable 'read_expir'; did you mean read_expire?". Returns -ENOENT.
 */
int tunable_unknown(const struct tunable *const *tables, const char *name,
		    char *err, size_t errlen);

/*
 * Whether a table is well-formed: names, ranges, defaults, units that fit the kinds, no two rows
 * alike. For unit tests of the tables. 0, or -EINVAL with a sentence in err.
 */
int tunable_check_rows(const struct tunable *rows, char *err, size_t errlen);

/* How many base units (ns, bytes, 1) one of the row's unit is; and its name ("ms", "KiB", ""). */
uint64_t tunable_unit_factor(enum tunable_unit unit);
const char *tunable_unit_name(enum tunable_unit unit);

/* ---- values ---- */

/* One checked value. The strings are owned by it: tunable_value_free. */
struct tunable_value {
	uint64_t num; /* base units */
	char *str;    /* STRING */
	char **list;  /* repeatable STRING; NULL-terminated, NULL when empty */
};

/*
 * Parses the whole of `text`. Strict: decimal digits and a unit that fits the kind, nothing before,
 * between or after; words are case-sensitive. A repeatable row yields a list of this one string.
 * 0, or with *v cleared: -EINVAL (no value of this kind, or no multiple of the row's unit),
 * -ERANGE, -ENOMEM. The sentence in err names the key, the value and what is allowed.
 */
int tunable_parse(const struct tunable *t, const char *text, struct tunable_value *v,
		  char *err, size_t errlen);
void tunable_value_free(struct tunable_value *v);

/*
 * The text of a number in base units, as tunable_parse takes it: bare, in the row's unit; 0 or 1; a
 * word; "auto". Not for STRING. Returns the length like snprintf.
 */
int tunable_print(const struct tunable *t, uint64_t num, char *buf, size_t len);

/*
 * What is allowed: "0..2147483647 ms", "auto, 0..100", "noop, deadline, cfq", "0, 1, yes, no, on,
 * off". Returns the length like snprintf.
 */
int tunable_allowed(const struct tunable *t, char *buf, size_t len);

/* ---- settings ---- */

/* The default in base units. Not for STRING. */
uint64_t tunable_default(const struct tunable *t);

/* Reads and writes one setting, in base units. Not for STRING; the value is not checked. */
uint64_t tunable_num(const struct tunable *t, const void *settings);
void tunable_set_num(const struct tunable *t, void *settings, uint64_t num);

/*
 * The text of one setting: as tunable_print; strings as they are (unset: empty), lists joined by a
 * comma and a space. Returns the length like snprintf.
 */
int tunable_get(const struct tunable *t, const void *settings, char *buf, size_t len);

/*
 * Sets every row's field to its default; what the fields held before is not freed.
 * 0, or -ENOMEM: all strings are NULL then.
 */
int tunable_defaults(const struct tunable *rows, void *settings);

/*
 * Copies every row's field with strings of its own; what dst held before is not freed.
 * 0, or -ENOMEM: all strings in dst are NULL then.
 */
int tunable_copy(const struct tunable *rows, void *dst, const void *src);

/* Frees the strings and clears their fields. */
void tunable_free(const struct tunable *rows, void *settings);

/* ---- change sets: all or nothing ---- */

/* One checked change of one setting in one settings struct. */
struct tunable_change {
	const struct tunable *row;
	void *settings;
	struct tunable_value value; /* after the commit: what the setting held before, if strings */
};

/*
 * Changes to be made together, in one settings struct or several. Zeroed except for `when`: an
 * empty set. Everything that can fail happens in tunable_changes_add; the commit only swaps
 * words, so it may run under a lock, and what it replaces is freed by tunable_changes_free.
 */
struct tunable_changes {
	enum tunable_when when; /* WHEN_RUNTIME refuses rows that can be set at start only */
	struct tunable_change *change;
	size_t n, room;
};

/*
 * Parses and adds a change of `settings` (not touched yet). A repeatable row may be added several
 * times: its new list is all of them. Any other row only once.
 * 0, or -EINVAL, -ERANGE, -ENOMEM as tunable_parse, -EPERM (start only), -EEXIST (given twice),
 * with a sentence in err; the set is then as it was.
 */
int tunable_changes_add(struct tunable_changes *c, const struct tunable *row, void *settings,
			const char *text, char *err, size_t errlen);

/* The same by name; -ENOENT if the table has no such row. */
int tunable_changes_set(struct tunable_changes *c, const struct tunable *rows, void *settings,
			const char *name, const char *text, char *err, size_t errlen);

/* The change of this row of these settings, or NULL. For checks that involve several values. */
const struct tunable_change *tunable_changes_find(const struct tunable_changes *c,
						  const struct tunable *row, const void *settings);

/* Makes all changes. Once per set; the caller holds whatever lock guards the settings. */
void tunable_changes_commit(struct tunable_changes *c);

/* Frees the set: values never committed, and strings that the commit replaced. */
void tunable_changes_free(struct tunable_changes *c);

#endif
