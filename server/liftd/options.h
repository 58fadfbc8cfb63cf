/*
 * The command line of liftd, as words: what they mean is looked at in server/liftd/config.h, with
 * the configuration, so that the order of options does not matter.
 */
#ifndef SERVER_LIFTD_OPTIONS_H
#define SERVER_LIFTD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/control/cli.h"
#include "server/export/export.h"
#include "server/export/words.h"

enum { OPTIONS_MAX = 256, OPTIONS_MAX_BINDS = 64 };

/* Settings, in words of the command line or in strings of struct options. */
struct option_list {
	struct setting set[OPTIONS_MAX];
	size_t n;
};

/* Some 30 KiB. The words are those of argv. */
struct options {
	const char *config;           /* file; NULL: there are images */
	bool check, dump;             /* only look at the settings; print them */
	struct option_list server, export;
	struct client_option client[OPTIONS_MAX];
	size_t nclient;
	const char *port;
	const char *bind[OPTIONS_MAX_BINDS];
	size_t nbind;
	char listen[OPTIONS_MAX_BINDS][300]; /* what bind and port come to */
	bool has_name;
	char *const *images;
	size_t nimages;
};

extern const struct cli_option liftd_options[];

/*
 * Take the words; o is zeroed. 0, or an exit status, and what was wrong is in the log. --help and
 * --version end the program here.
 */
int options_collect(struct options *o, int argc, char **argv);

#endif
