/*
 * Options of the programs' command lines, described by one row each: getopt, --help, the manuals
 * and the completion in shells take them from there.
 *
 * Constant or pure, any thread.
 */
#ifndef SERVER_CONTROL_CLI_H
#define SERVER_CONTROL_CLI_H

#include <getopt.h>
#include <stdio.h>

enum {
	CLI_LONG = 256,       /* keys from here on have no letter */
	CLI_OPTIONS_MAX = 31,
	CLI_SHORT_MAX = 2 * CLI_OPTIONS_MAX + 2,
};

struct cli_option {
	int key;          /* what getopt_long returns: -LETTER as well, below CLI_LONG */
	const char *name; /* without the hyphens; NULL ends the table */
	const char *arg;  /* what it takes, as FILE; NULL: nothing */
	const char *help; /* no full stop */
	const char *more; /* sentences for the manual; may be NULL */
};

/*
 * What getopt_long wants: longs ended by a row of zeroes, and in shorts the letters behind `prefix`
 * (at most one byte, such as ":").
 */
void cli_getopt(const struct cli_option *table, const char *prefix,
		struct option longs[CLI_OPTIONS_MAX + 1], char shorts[CLI_SHORT_MAX]);

/* The lines of --help. */
void cli_print(FILE *f, const struct cli_option *table);

#endif
