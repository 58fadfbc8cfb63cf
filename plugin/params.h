/*
 * The parameters of `nbdkit lift`: collected one by one, checked together, so that their order does
 * not matter. All names and rules are those of liftd's -o (server/export/settings.h).
 *
 * The main thread's, before nbdkit serves anybody.
 */
#ifndef PLUGIN_PARAMS_H
#define PLUGIN_PARAMS_H

#include <stdio.h>

#include "server/export/settings.h"
#include "server/export/words.h"

enum { PARAMS_MAX = 256 };

struct params {
	struct setting export[PARAMS_MAX]; /* strings of its own, like all here */
	size_t nexport;
	struct client_option client[PARAMS_MAX];
	char *client_text[PARAMS_MAX];     /* that client[] points into */
	size_t nclient;
	char *control;                     /* the control socket's path; NULL: none */
};

/*
 * Take one: a name and its value; value is copied. An image's path (path) may also be
 * client:MATCH.NAME=VALUE, as nbdkit takes only plain words for names. 0, or a negative errno and a
 * sentence in err.
 */
int params_add(struct params *p, const char *name, const char *value, char *err, size_t errlen);

/*
 * All are there: the export's settings, to be freed with export_settings_free. 0, or a negative
 * errno and a sentence in err.
 */
int params_check(const struct params *p, struct export_settings *st, char *err, size_t errlen);

/* Defaults, where they are not the rows': merging is off. 0 or -ENOMEM. */
int params_defaults(struct export_settings *st);

void params_free(struct params *p);

/* For --help: an allocated text, or NULL. */
char *params_help(void);

/* For --dump-plugin: lines NAME=VALUE. */
void params_dump(FILE *f);

#endif
