/*
 * Settings in the words of a command line: what liftd's options and the parameters of the nbdkit
 * plugin have in common, and the help that describes them.
 */
#ifndef SERVER_EXPORT_WORDS_H
#define SERVER_EXPORT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "server/export/settings.h"

/* One setting of a rule. The strings are those of the text it was made of. */
struct client_option {
	const char *match;
	struct setting set;
};

/* Is this one for clients? */
bool client_option_is(const char *text);

/*
 * Takes "client:MATCH.NAME=VALUE" apart, at the last =, then at the last dot; text is cut into
 * pieces. 0, or -EINVAL with a sentence in err, and text is as it was.
 */
int client_option_split(char *text, struct client_option *out, char *err, size_t errlen);

/* The name of an image's export where none is given: the file's base name; of "null:" null. */
char *image_name(const char *image);

/*
 * One table for people, each row with what is allowed, its default and its help. defaults: the
 * struct that the rows lay out, where a default is another than the row's; NULL: nowhere.
 */
void help_rows(FILE *f, const char *title, const char *prefix, const struct tunable *rows,
	       const void *defaults);

/* All that an export and its clients can be told. defaults as above. */
void help_exports(FILE *f, const struct export_settings *defaults);

#endif
