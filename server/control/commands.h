/*
 * The commands of the control socket, in one table that liftd and liftctl are both built from.
 *
 * A row joins a method (JSON-RPC: control.h), the words that liftctl takes for it, its parameters,
 * whether it changes anything, and its help. The server checks calls against the row and finds the
 * handler by the method's name (handlers.c); liftctl parses its words by the row, makes the call,
 * and finds the printer by the row's first word. A method may have several rows, one for each form
 * on the command line: they share `params` and `writes`. A new command is one row, one handler and,
 * if its result is to be read by people, one printer.
 *
 * Everything here is constant or pure, any thread.
 */
#ifndef SERVER_CONTROL_COMMANDS_H
#define SERVER_CONTROL_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

enum {
	COMMAND_MAX_PARAMS = 3,
	COMMAND_LINE_MAX = 1024 * 1024, /* bytes in a line of the socket, without its newline */
};

enum command_kind {
	COMMAND_TEXT,     /* a string */
	COMMAND_FLAG,     /* true or false; not on the command line */
	COMMAND_SETTINGS, /* an object of NAME: value, at least one */
};

struct command_param {
	const char *name; /* in the call; NULL ends the list */
	enum command_kind kind;
	bool required;
	const char *word; /* in the patterns; NULL: not on the command line */
};

/*
 * A pattern is words in a row: `lower` stands for itself, UPPER for one argument, [UPPER] for one
 * that may be left out (the last one only), NAME=VALUE... for one or more settings (the last one
 * only). An UPPER word is the parameter with this word, or the value of the setting `setting`; if
 * it is neither, it is for liftctl alone (struct command_call, local).
 */
struct command {
	const char *method; /* NULL ends the table */
	const char *pattern;
	const struct command_param *params;
	bool writes;         /* root and the server's user only */
	const char *setting; /* the pattern's word VALUE or NAME sets this; NULL: see above */
	const char *help;    /* one line, no full stop */
	const char *more;    /* paragraphs for `help COMMAND` and manuals; may be NULL */
};

extern const struct command commands[];

/* A counter of stats.get. */
struct command_counter {
	const char *name; /* NULL ends the table */
	const char *help; /* one line, no full stop */
	bool gauge;       /* goes up and down; else it only grows */
	bool server;      /* of the server only, not of each export */
};

extern const struct command_counter command_counters[];

/* The first row of a method by its whole name, or NULL. */
const struct command *command_by_method(const char *method);

/* The parameter of this name, or NULL. */
const struct command_param *command_param(const struct command *c, const char *name);

/* A command line, taken apart. Points into the words given. */
struct command_call {
	const struct command *command;
	const char *text[COMMAND_MAX_PARAMS]; /* by index in params; NULL: not given */
	const char *setting;                  /* the value for command->setting; NULL: none */
	char *const *settings;                /* the NAME=VALUE words; each has a NAME and = */
	int nsettings;
	const char *local;
};

/*
 * Find the row for these words (without the program's name and its options). 0, or -EINVAL with one
 * or more lines in err that say what is wrong and how the command is written.
 */
int command_parse(int argc, char *const *argv, struct command_call *out, char *err, size_t errlen);

/* Does the pattern begin with this word? */
bool command_is(const struct command *c, const char *word);

/*
 * Which of the names (n strings, those that are NULL are passed over) was perhaps meant by a wrong
 * one: the nearest in edit distance, at most a third of the letters away, or NULL.
 */
const char *command_nearest(const char *wrong, const char *const *names, size_t n);

/*
 * Where the control socket is by default: the i-th place, as far as the environment has it:
 * control.sock in $RUNTIME_DIRECTORY (the first, if systemd gives several), $XDG_RUNTIME_DIR/liftd,
 * /run/liftd. The server takes the first; liftctl looks in all. 0, -ENOENT: there is no i-th place;
 * -ENAMETOOLONG: it does not fit.
 */
int command_socket_path(unsigned i, char *buf, size_t len);

#endif
