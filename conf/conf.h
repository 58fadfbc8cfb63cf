/*
 * Configuration files: from text to settings that know their place, each checked through its row.
 *
 *     # a comment; also with ;
 *     [server]
 *     listen = 10.0.0.1:10809
 *     include = exports/vm?.conf
 *     [export vm1]
 *     path = /srv/vm1.img
 *
 * One setting a line, NAME = VALUE; blanks around both are not part of them. A value is everything
 * up to the end of its line: no quotes, no continued lines, no comments behind it. `include` stands
 * in sections whose kind says so and before the first section; its pattern is relative to the
 * folder of the file that has it, the files come in the order of their names, and where a pattern
 * with * ? or [ matches nothing, there is nothing to include. What includes itself, or comes twice,
 * is an error.
 *
 * Everything that is wrong is found and reported at once: "FILE:LINE: NAME: what was expected".
 *
 * Which sections there are, and which rows their settings have, is a parameter: this folder knows
 * nothing about the server. The caller can add complaints of its own. No function here is for more
 * than one thread at a time.
 */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/queue.h>

#include "sched/tunable.h"

enum {
	CONF_LINE_MAX = 64 << 10,   /* bytes in a line, without its newline */
	CONF_TOTAL_MAX = 16 << 20,  /* bytes in all files together */
	CONF_DEPTH_MAX = 16,        /* files that include each other */
	CONF_SECTIONS_MAX = 10000,
	CONF_ERRORS_MAX = 1000,     /* the rest is not looked at */
};

/* Where something stands: file is the struct conf's; line counts from 1, 0 is the whole file. */
struct conf_place {
	const char *file; /* NULL: in no file */
	unsigned line;
};

struct conf_setting {
	char *name, *value;
	struct conf_place place;
	const struct tunable *row; /* NULL: it is not right */
	TAILQ_ENTRY(conf_setting) link;
};

struct conf_section {
	const struct conf_kind *kind;
	char *title;               /* vm1 of [export vm1]; "" of kinds without */
	struct conf_place place;   /* of the heading */
	TAILQ_HEAD(, conf_setting) settings;
	TAILQ_ENTRY(conf_section) link;
};

/* One kind of section. */
struct conf_kind {
	const char *word;          /* of its heading; NULL ends a table of kinds */
	const char *title;         /* what stands behind the word, as "NAME"; NULL: nothing */
	size_t title_max;          /* bytes */
	bool includes;             /* it may have `include` */
	const struct tunable *const *tables; /* rows that its settings may have; NULL-terminated */
	/*
	 * The row that a name stands for in this section, which is complete; NULL with a sentence
	 * in err. May be NULL itself: the row of this name in the tables.
	 */
	const struct tunable *(*find)(const struct conf_section *s, const char *name, char *err,
				      size_t errlen);
};

struct conf_error {
	struct conf_place place;
	char *text;                /* without its place */
	TAILQ_ENTRY(conf_error) link;
};

struct conf_file;

/* Read-only for others. */
struct conf {
	TAILQ_HEAD(, conf_section) sections; /* in the order of the text */
	TAILQ_HEAD(conf_errors, conf_error) errors;     /* sorted by file and line */
	unsigned nsections, nerrors;
	bool no_memory;
	size_t bytes;                        /* read */
	TAILQ_HEAD(, conf_file) files;       /* in the order of reading */
};

/* The row of `include`, for manuals and samples. */
extern const struct tunable conf_rows[];

/* Empty: only for complaints. */
void conf_init(struct conf *c);

/*
 * Read the file and all that it includes, and check every setting. kinds must outlive the result.
 * conf_free is due in any case. 0; -EINVAL: there are errors; -ENOMEM; another errno: the file
 * itself cannot be read, which is an error in the list as well.
 */
int conf_load(struct conf *c, const char *path, const struct conf_kind *kinds);

/* The same for a text in memory; `name` stands for the file's. */
int conf_load_text(struct conf *c, const char *name, const char *text, size_t len,
		   const struct conf_kind *kinds);

void conf_free(struct conf *c);

/* The (first) setting of a section by the name that it was given, or NULL. */
const struct conf_setting *conf_get(const struct conf_section *s, const char *name);

/* Add an error. Control characters in it become question marks. */
void conf_complain(struct conf *c, struct conf_place place, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * An error as it is to be shown: "FILE:LINE: text", as much of it as is known; cut to fit. The
 * length like snprintf.
 */
int conf_error_text(const struct conf_error *e, char *buf, size_t len);

/* ---- writing ---- */

enum conf_write {
	CONF_COMMENTED = 1, /* no setting counts: each stands behind a # */
	CONF_HELP = 2,      /* what it means and what is allowed, in comments above it */
};

/* "[word]" or "[word title]", after an empty line unless it is the first. */
void conf_write_heading(FILE *f, const char *word, const char *title, bool first);

/*
 * One line for each row of settings (NULL: the defaults), as conf_load reads it: NAME = VALUE, or
 * PREFIX.NAME = VALUE if prefix is not NULL. Strings that are not set stand behind a #. 0; -EINVAL
 * with a sentence in err: a value begins or ends with a blank, and so cannot be written; -ENOMEM.
 */
int conf_write_rows(FILE *f, const char *prefix, const struct tunable *rows, const void *settings,
		    unsigned how, char *err, size_t errlen);

#endif
