/*
 * The command table: see commands.h.
 */
#include "server/control/commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/control/counters.h"

/* ---- the tables ---- */

static const struct command_param no_params[] = { { .name = NULL } };

static const struct command_param export_get[] = {
	{ .name = "name", .kind = COMMAND_TEXT, .required = true, .word = "EXPORT" },
	{ .name = "help", .kind = COMMAND_FLAG },
	{ .name = NULL }
};

static const struct command_param export_set[] = {
	{ .name = "name", .kind = COMMAND_TEXT, .required = true, .word = "EXPORT" },
	{ .name = "set", .kind = COMMAND_SETTINGS, .required = true, .word = "NAME=VALUE..." },
	{ .name = NULL }
};

static const struct command_param export_remove[] = {
	{ .name = "name", .kind = COMMAND_TEXT, .required = true, .word = "EXPORT" },
	{ .name = NULL }
};

static const struct command_param maybe_export[] = {
	{ .name = "export", .kind = COMMAND_TEXT, .word = "EXPORT" },
	{ .name = NULL }
};

static const struct command_param client_list[] = {
	{ .name = "export", .kind = COMMAND_TEXT, .word = "EXPORT" },
	{ .name = "histograms", .kind = COMMAND_FLAG },
	{ .name = NULL }
};

static const struct command_param client_set[] = {
	{ .name = "id", .kind = COMMAND_TEXT, .required = true, .word = "ID" },
	{ .name = "export", .kind = COMMAND_TEXT },
	{ .name = "set", .kind = COMMAND_SETTINGS, .required = true, .word = "NAME=VALUE..." },
	{ .name = NULL }
};

static const struct command_param client_end[] = {
	{ .name = "id", .kind = COMMAND_TEXT, .required = true, .word = "ID" },
	{ .name = "export", .kind = COMMAND_TEXT },
	{ .name = NULL }
};

const struct command commands[] = {
	{ .method = "server.info", .pattern = "info", .params = no_params,
	  .help = "which server answers: its version, process, age, threads and schedulers" },

	{ .method = "export.list", .pattern = "list", .params = no_params,
	  .help = "the exports, their schedulers and what is going on in them",
	  .more = "OLDEST is the age of the oldest request that has not gone to the disk yet.\n"
		  "FLUSH ERRORS counts syncs that failed: what was written before may be lost." },

	{ .method = "export.get", .pattern = "show EXPORT", .params = export_get,
	  .help = "all settings of an export with their defaults, ranges and meaning",
	  .more = "A setting of the export's scheduler stands under its plain name, one of\n"
		  "another scheduler as SCHEDULER.NAME; both can be set. What is `auto` shows the\n"
		  "number that it has come to." },

	{ .method = "export.get", .pattern = "get EXPORT NAME", .params = export_get,
	  .help = "the value of one setting, alone",
	  .more = "It is a bare number in the setting's unit, as `set` takes it." },

	{ .method = "export.set", .pattern = "set EXPORT NAME=VALUE...", .params = export_set,
	  .writes = true,
	  .help = "change settings of an export: all of them, or none if one is wrong",
	  .more = "A bare number has the setting's unit; times also take ns, us, ms and s, sizes\n"
		  "K, M, G and s (sectors of 512 bytes). `scheduler=NAME` may stand among them\n"
		  "and is settled first." },

	{ .method = "export.get", .pattern = "scheduler EXPORT", .params = export_get,
	  .help = "the schedulers, with that of the export in brackets" },

	{ .method = "export.set", .pattern = "scheduler EXPORT NAME", .params = export_set,
	  .writes = true, .setting = "scheduler",
	  .help = "switch to another scheduler, under load if need be",
	  .more = "Nothing is lost or stopped: what is queued moves over with its age. The\n"
		  "settings of each scheduler are kept while another one is in use." },

	{ .method = "export.remove", .pattern = "remove EXPORT", .params = export_remove,
	  .writes = true,
	  .help = "take an export away; what it has received is finished first",
	  .more = "New clients do not find it, and what its clients ask for from now on is refused\n"
		  "(ESHUTDOWN). What they had asked for is executed, answered and flushed, then\n"
		  "their connections are closed and the image is: at most for drain_timeout, but for\n"
		  "operations that the disk has. The command waits for that, no longer than\n"
		  "--timeout. It fails if the last flush did: the export is gone, and writes may be\n"
		  "lost. If the configuration still names the export, loading it again brings it\n"
		  "back, with settings that else need a restart as they are there now." },

	{ .method = "client.list", .pattern = "clients [EXPORT]", .params = client_list,
	  .help = "the clients, of one export or of all",
	  .more = "A client is an identity that gets one share, however many connections it has.\n"
		  "Rates are those of the last one or two seconds; P50 and P99 are times from the\n"
		  "arrival of a request to its completion, since the client came." },

	{ .method = "client.list", .pattern = "top [EXPORT]", .params = client_list,
	  .help = "what each client gets, again and again, the busiest first",
	  .more = "SHARE is the client's part of the time that the disk worked for the export,\n"
		  "ENTITLED what its weight makes of it among those that were active. QUEUE and\n"
		  "SERVICE are the average times of a request before and after it was dispatched.\n"
		  "All figures are of the last interval: --interval SECONDS (2). It ends after\n"
		  "-n COUNT samples, or with q or Ctrl-C; where the output is no terminal COUNT\n"
		  "is 1 if it is not given." },

	{ .method = "client.set", .pattern = "client ID set NAME=VALUE...", .params = client_set,
	  .writes = true,
	  .help = "change the weight (1-1000) or class (rt, be, idle) of a client on all exports",
	  .more = "ID is as `clients` prints it: ip:10.0.0.7, uid:1000, pid:4711. The settings\n"
		  "hold until the server ends or its configuration is loaded again, also when\n"
		  "the client comes back." },

	{ .method = "client.drain", .pattern = "client ID drain", .params = client_end,
	  .writes = true,
	  .help = "finish and answer what a client has asked for, then close its connections",
	  .more = "Nothing more is read from them. The command does not wait: `clients` shows what\n"
		  "is left. Answers that the client does not read end with stall_timeout, or with\n"
		  "`disconnect`. The client may come back at once." },

	{ .method = "client.disconnect", .pattern = "client ID disconnect", .params = client_end,
	  .writes = true,
	  .help = "close the connections of a client at once",
	  .more = "As if it had died: what has not gone to the disk is dropped, nothing more is\n"
		  "answered. Others are not touched. The client may come back at once." },

	{ .method = "stats.get", .pattern = "stats [EXPORT]", .params = maybe_export,
	  .help = "counters and latencies since the start, of one export or of the server" },

	{ .method = "server.reload", .pattern = "reload", .params = no_params, .writes = true,
	  .help = "load the configuration again; prints what changed and what needs a restart",
	  .more = "All that can change does: schedulers and their settings, weights and classes\n"
		  "of clients, time-outs, the log level; exports that are new are added, those\n"
		  "that it has no longer are removed as by `remove`. What was set by hand meanwhile\n"
		  "is what the configuration says again. If anything is wrong with it, nothing\n"
		  "changes. SIGHUP does the same." },

	{ .method = "server.shutdown", .pattern = "shutdown", .params = no_params, .writes = true,
	  .help = "stop the server",
	  .more = "It finishes and answers what it has received, at most for drain_timeout." },

	{ .method = NULL }
};

#define EXPORT_ROW(name, field, gauge, help) { #name, help, gauge, false },
#define SERVER_ROW(name, field, gauge, help) { #name, help, gauge, true },

const struct command_counter command_counters[] = {
	CONTROL_EXPORT_COUNTERS(EXPORT_ROW)
	CONTROL_SERVER_COUNTERS(SERVER_ROW)
	{ .name = NULL }
};

/* ---- rows ---- */

const struct command *command_by_method(const char *method)
{
	for (const struct command *c = commands; c->method; c++)
		if (!strcmp(c->method, method))
			return c;
	return NULL;
}

const struct command_param *command_param(const struct command *c, const char *name)
{
	for (const struct command_param *p = c->params; p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}

bool command_is(const struct command *c, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(c->pattern, word, n) && (c->pattern[n] == '\0' || c->pattern[n] == ' ');
}

/* ---- the command line ---- */

enum word_kind { WORD_LITERAL, WORD_ARGUMENT, WORD_OPTIONAL, WORD_SETTINGS };

/* One word of a pattern. */
struct word {
	char text[32]; /* without brackets */
	enum word_kind kind;
};

/* Reads the next word of a pattern; false at its end. */
static bool next_word(const char **pattern, struct word *w)
{
	const char *p = *pattern + strspn(*pattern, " ");
	size_t n = strcspn(p, " ");

	if (!n)
		return false;
	*pattern = p + n;
	w->kind = islower((unsigned char)*p) ? WORD_LITERAL : WORD_ARGUMENT;
	if (*p == '[') {
		w->kind = WORD_OPTIONAL;
		p++;
		n -= 2;
	}
	snprintf(w->text, sizeof(w->text), "%.*s", (int)n, p);
	if (!strcmp(w->text, "NAME=VALUE..."))
		w->kind = WORD_SETTINGS;
	return true;
}

/* Puts an argument where its pattern word says. */
static void take(struct command_call *call, const struct word *w, const char *arg)
{
	const struct command_param *params = call->command->params;

	for (unsigned i = 0; params[i].name; i++) {
		if (params[i].word && !strcmp(params[i].word, w->text)) {
			call->text[i] = arg;
			return;
		}
	}
	if (call->command->setting)
		call->setting = arg;
	else
		call->local = arg;
}

/* How well words fit a row: 0 not at all, 1 the first one, 2 all as far as they go, 3 entirely. */
static int match(const struct command *c, int argc, char *const *argv, struct command_call *call)
{
	const char *pattern = c->pattern;
	struct word w;
	int i = 0;

	*call = (struct command_call){ .command = c };
	while (next_word(&pattern, &w)) {
		if (w.kind == WORD_LITERAL) {
			if (i >= argc)
				return i ? 2 : 0;
			if (strcmp(w.text, argv[i]))
				return i ? 1 : 0;
		} else if (i >= argc) {
			return w.kind == WORD_OPTIONAL ? 3 : 2;
		} else if (w.kind == WORD_SETTINGS) {
			call->settings = argv + i;
			call->nsettings = argc - i;
			return 3;
		} else {
			take(call, &w, argv[i]);
		}
		i++;
	}
	return i == argc ? 3 : 2;
}

static int check_settings(const struct command_call *call, char *err, size_t errlen)
{
	for (int i = 0; i < call->nsettings; i++) {
		const char *word = call->settings[i], *equals = strchr(word, '=');

		if (!equals || equals == word) {
			snprintf(err, errlen, "'%s' is not NAME=VALUE\nusage: liftctl %s", word,
				 call->command->pattern);
			return -EINVAL;
		}
		for (int j = 0; j < i; j++) {
			if (!strncmp(word, call->settings[j], equals - word + 1)) {
				snprintf(err, errlen, "%.*s is given twice", (int)(equals - word),
					 word);
				return -EINVAL;
			}
		}
	}
	return 0;
}

static int unknown_command(const char *word, char *err, size_t errlen)
{
	const char *names[64], *near;
	char first[64][32];
	size_t n = 0;
	struct word w;

	for (const struct command *c = commands; c->method && n < 64; c++) {
		const char *pattern = c->pattern;

		if (!next_word(&pattern, &w))
			continue;
		memcpy(first[n], w.text, sizeof(first[n]));
		names[n] = first[n];
		n++;
	}
	near = command_nearest(word, names, n);
	snprintf(err, errlen, "unknown command '%s'; %s%s%s", word, near ? "did you mean " : "",
		 near ? near : "liftctl --help lists them", near ? "?" : "");
	return -EINVAL;
}

int command_parse(int argc, char *const *argv, struct command_call *out, char *err, size_t errlen)
{
	int best = 0, fit;
	size_t used;

	if (argc < 1) {
		snprintf(err, errlen, "no command given; liftctl --help lists them");
		return -EINVAL;
	}
	for (const struct command *c = commands; c->method; c++) {
		fit = match(c, argc, argv, out);
		if (fit == 3)
			return check_settings(out, err, errlen);
		if (fit > best)
			best = fit;
	}
	if (!best)
		return unknown_command(argv[0], err, errlen);

	/* The right command in a wrong form: all its forms. */
	used = snprintf(err, errlen, "%s: wrong arguments", argv[0]);
	for (const struct command *c = commands; c->method && used < errlen; c++)
		if (command_is(c, argv[0]))
			used += snprintf(err + used, errlen - used, "\nusage: liftctl %s",
					 c->pattern);
	return -EINVAL;
}

/* ---- near misses ---- */

#define NEAR_MAX 63

/* Levenshtein's distance, in one row of the table; UINT32_MAX for long names. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NEAR_MAX + 1], left_up, up;
	size_t la = strlen(a), lb = strlen(b);

	if (la > NEAR_MAX || lb > NEAR_MAX)
		return UINT32_MAX;
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		left_up = row[0];
		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = left_up + (a[i - 1] != b[j - 1]);

			up = row[j];
			if (up + 1 < best)
				best = up + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
			left_up = up;
		}
	}
	return row[lb];
}

const char *command_nearest(const char *wrong, const char *const *names, size_t n)
{
	unsigned least = strlen(wrong) / 3 + 1;
	const char *near = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned d = names[i] ? distance(wrong, names[i]) : UINT32_MAX;

		if (d < least || (d == least && !near && d < strlen(wrong) && d <= 2)) {
			least = d;
			near = names[i];
		}
	}
	return near;
}

/* ---- the socket ---- */

int command_socket_path(unsigned i, char *buf, size_t len)
{
	const char *runtime = getenv("RUNTIME_DIRECTORY"), *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	if (runtime && *runtime && !i--)
		n = snprintf(buf, len, "%.*s/control.sock", (int)strcspn(runtime, ":"), runtime);
	else if (xdg && *xdg && !i--)
		n = snprintf(buf, len, "%s/liftd/control.sock", xdg);
	else if (!i)
		n = snprintf(buf, len, "/run/liftd/control.sock");
	else
		return -ENOENT;
	return (size_t)n < len ? 0 : -ENAMETOOLONG;
}
