/*
 * liftctl: the control tool. Words to a call by the command table, the answer to text.
 *
 * Exit status: 0 done; 1 the server refused or cannot be reached, with a sentence on stderr; 2 the
 * command line is wrong.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/control/commands.h"
#include "server/ctl/conn.h"
#include "server/ctl/options.h"
#include "server/ctl/print.h"
#include "server/ctl/table.h"
#include "server/ctl/top.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2 };

struct options {
	const char *socket; /* NULL: the default places */
	bool json;
	int timeout; /* s */
	unsigned count, interval; /* of top: samples, ms; 0: not given */
};

static const char synopsis[] = "usage: liftctl [--socket PATH] [--json] COMMAND\n";

/* ---- help ---- */

static void help(void)
{
	size_t width = 0;

	for (const struct command *c = commands; c->method; c++)
		if (strlen(c->pattern) > width)
			width = strlen(c->pattern);
	printf("%sControls a running liftd.\n\n"
	       "commands (*: for root and the user that liftd runs as only):\n", synopsis);
	for (const struct command *c = commands; c->method; c++)
		printf("  %-*s %c %s\n", (int)width, c->pattern, c->writes ? '*' : ' ', c->help);
	printf("  %-*s   %s\n", (int)width, "help [COMMAND]", "this text, or more about a command");
	printf("\nEXPORT \"\" is the default export.\n\n"
	       "options:\n");
	cli_print(stdout, liftctl_options);
	puts("\nexit status: 0 done, 1 refused or no server, 2 the command line is wrong");
}

static int help_command(const char *word)
{
	const char *names[64], *near;
	char first[64][32];
	bool any = false;
	size_t n = 0;

	for (const struct command *c = commands; c->method && n < 64; c++, n++) {
		snprintf(first[n], sizeof(first[n]), "%.*s", (int)strcspn(c->pattern, " "),
			 c->pattern);
		names[n] = first[n];
		if (!command_is(c, word))
			continue;
		printf("%sliftctl %s\n    %s%s\n", any ? "\n" : "", c->pattern, c->help,
		       c->writes ? " (root and the user that liftd runs as only)" : "");
		for (const char *p = c->more; p && *p; p += strcspn(p, "\n"), p += *p == '\n')
			printf("    %.*s\n", (int)strcspn(p, "\n"), p);
		any = true;
	}
	if (any)
		return 0;
	near = command_nearest(word, names, n);
	fprintf(stderr, "liftctl: unknown command '%s'%s%s%s\n", word,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return EXIT_USAGE;
}

/* ---- the call ---- */

/* NAME=VALUE words as an object; NULL: text that is not UTF-8. */
static json_t *settings_json(const struct command_call *call)
{
	json_t *set = json_object();
	int failed = 0;

	if (call->setting)
		failed |= json_object_set_new(set, call->command->setting,
					      json_string(call->setting));
	for (int i = 0; i < call->nsettings; i++) {
		char *name = strdup(call->settings[i]), *value = name ? strchr(name, '=') : NULL;

		if (value) {
			*value++ = '\0';
			failed |= json_object_set_new(set, name, json_string(value));
		} else {
			failed = -1;
		}
		free(name);
	}
	if (!failed)
		return set;
	json_decref(set);
	return NULL;
}

/*
 * The request's line with its newline, for the caller to free, with this flag (NULL: none) set if
 * the method has it. NULL: text that is not UTF-8.
 */
static char *request_line(const struct command_call *call, const char *flag)
{
	const struct command_param *p = call->command->params;
	json_t *root, *params = json_object();
	int failed = 0;
	char *text, *line;

	for (unsigned i = 0; p[i].name; i++) {
		if (call->text[i])
			failed |= json_object_set_new(params, p[i].name,
						      json_string(call->text[i]));
		else if (p[i].kind == COMMAND_SETTINGS)
			failed |= json_object_set_new(params, p[i].name, settings_json(call));
		else if (p[i].kind == COMMAND_FLAG && flag && !strcmp(p[i].name, flag))
			failed |= json_object_set_new(params, p[i].name, json_true());
	}
	if (failed) {
		json_decref(params);
		return NULL;
	}
	root = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method",
			 call->command->method, "params", params);
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	if (!text || asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	free(text);
	return line;
}

/* The end of the JSON value that begins at p. The text is known to be valid JSON. */
static const char *value_end(const char *p)
{
	int depth = 0;

	do {
		if (*p == '"') {
			for (p++; *p != '"'; p++)
				p += *p == '\\';
		} else if (*p == '{' || *p == '[') {
			depth++;
		} else if (*p == '}' || *p == ']') {
			depth--;
		} else if (!depth) {
			/* A number or a word. */
			while (p[1] && !strchr(",]} \t\r\n", p[1]))
				p++;
		}
		p++;
	} while (depth);
	return p;
}

/* The bytes of the member `result` of an answer that is known to be a valid JSON object with it. */
static const char *result_bytes(const char *p, size_t *len)
{
	static const char space[] = " \t\r\n";
	const char *key, *value, *end;

	p += strspn(p, space) + 1;
	for (;;) {
		key = p + strspn(p, " \t\r\n,");
		if (*key != '"')
			return NULL;
		end = value_end(key);
		value = end + strspn(end, space) + 1;
		value += strspn(value, space);
		p = value_end(value);
		if (end - key == 8 && !memcmp(key, "\"result\"", 8)) {
			*len = p - value;
			return value;
		}
		p += strspn(p, space);
	}
}

static void show_error(const json_t *error, char *message)
{
	const json_t *list = json_object_get(json_object_get(error, "data"), "errors"), *line;
	char text[1024];
	size_t i;

	fprintf(stderr, "liftctl: %s\n", text_clean(message));
	json_array_foreach(list, i, line) {
		snprintf(text, sizeof(text), "%s",
			 json_string_value(line) ? json_string_value(line) : "?");
		fprintf(stderr, "%s\n", text_clean(text));
	}
}

/* What the server said: printed; the exit status. */
static int show_answer(const struct options *opt, const struct command_call *call,
		       const char *answer, size_t len)
{
	json_t *root = json_loadb(answer, len, JSON_REJECT_DUPLICATES, NULL), *result, *error;
	const char *message, *bytes = NULL;
	int status = EXIT_REFUSED;
	char err[1024];

	error = json_object_get(root, "error");
	result = json_object_get(root, "result");
	message = json_string_value(json_object_get(error, "message"));
	snprintf(err, sizeof(err), "%s", message ? message : "the server refused without a reason");
	if (error)
		show_error(error, err);
	else if (!result)
		fprintf(stderr, "liftctl: the answer is not one of a liftd control socket\n");
	else if (opt->json && !(bytes = result_bytes(answer, &len)))
		fprintf(stderr, "liftctl: the answer is not one of a liftd control socket\n");
	else if (opt->json)
		status = fwrite(bytes, 1, len, stdout) == len && putchar('\n') != EOF ? 0 : 1;
	else if (print_result(call, result, err, sizeof(err)))
		fprintf(stderr, "liftctl: %s\n", err);
	else
		status = 0;
	json_decref(root);
	return status;
}

static int run(const struct options *opt, const struct command_call *call)
{
	char *line = request_line(call, opt->json ? NULL : "help"), *answer, err[1024];
	struct ctl_conn conn;
	int status = EXIT_REFUSED;
	size_t len;

	if (!line) {
		fprintf(stderr, "liftctl: an argument is not UTF-8\n");
		return EXIT_USAGE;
	}
	if (ctl_connect(&conn, opt->socket, opt->timeout, err, sizeof(err)) ||
	    ctl_call(&conn, line, strlen(line), &answer, &len, err, sizeof(err))) {
		fprintf(stderr, "liftctl: %s\n", err);
	} else {
		status = show_answer(opt, call, answer, len);
		free(answer);
	}
	ctl_close(&conn);
	free(line);
	return status;
}

/* ---- top ---- */

struct top_call {
	struct ctl_conn conn;
	char *line;
};

static json_t *ask_for_top(void *ctx, char *err, size_t errlen)
{
	struct top_call *c = ctx;
	json_t *root, *result;
	const char *message;
	char *answer;
	size_t len;

	if (ctl_call(&c->conn, c->line, strlen(c->line), &answer, &len, err, errlen))
		return NULL;
	root = json_loadb(answer, len, JSON_REJECT_DUPLICATES, NULL);
	free(answer);
	result = json_incref(json_object_get(root, "result"));
	message = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
	if (!result)
		snprintf(err, errlen, "%s", message ? message : "the answer is not one of a liftd "
			 "control socket");
	json_decref(root);
	return result;
}

static int run_top(const struct options *opt, const struct command_call *call)
{
	struct top_call c = { .line = request_line(call, "histograms") };
	struct top top = {
		.ask = ask_for_top,
		.ctx = &c,
		.count = opt->count,
		.interval = opt->interval ? opt->interval : CTL_DEFAULT_INTERVAL,
	};
	char err[1024];
	int status = 0;

	if (!c.line) {
		fprintf(stderr, "liftctl: an argument is not UTF-8\n");
		return EXIT_USAGE;
	}
	if (ctl_connect(&c.conn, opt->socket, opt->timeout, err, sizeof(err)) ||
	    top_run(&top, err, sizeof(err))) {
		fprintf(stderr, "liftctl: %s\n", text_clean(err));
		status = EXIT_REFUSED;
	}
	ctl_close(&c.conn);
	free(c.line);
	return status;
}

/* ---- the command line ---- */

static int usage(const char *fmt, const char *what)
{
	fputs("liftctl: ", stderr);
	fprintf(stderr, fmt, what);
	fprintf(stderr, "\n%s", synopsis);
	return EXIT_USAGE;
}

static int read_timeout(struct options *opt)
{
	char *end;
	long n = strtol(optarg, &end, 10);

	if (end == optarg || *end || n < 1 || n > CTL_MAX_TIMEOUT)
		return usage("--timeout: '%s' is no number of seconds in 1..86400", optarg);
	opt->timeout = n;
	return 0;
}

static int read_count(struct options *opt)
{
	char *end;
	long n = strtol(optarg, &end, 10);

	if (end == optarg || *end || n < 1 || n > 1000000)
		return usage("-n: '%s' is no number of samples in 1..1000000", optarg);
	opt->count = n;
	return 0;
}

/* The server lets go of whom it does not hear for longer than a few minutes. */
static int read_interval(struct options *opt)
{
	char *end;
	double s = strtod(optarg, &end);

	if (end == optarg || *end || !(s >= 0.1 && s <= 60))
		return usage("--interval: '%s' is no number of seconds in 0.1..60", optarg);
	opt->interval = (unsigned)(s * 1000 + 0.5);
	return 0;
}

/* 0 and the words left from optind on, or an exit status with *done set. */
static int read_options(int argc, char **argv, struct options *opt, bool *done)
{
	struct option longs[CLI_OPTIONS_MAX + 1];
	char shorts[CLI_SHORT_MAX];
	int c, status = 0;

	*done = true;
	opterr = 0;
	cli_getopt(liftctl_options, ":", longs, shorts);
	while (!status && (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		switch (c) {
		case CTL_SOCKET:
			if (!*optarg)
				return usage("%s needs the path of a socket", "--socket");
			opt->socket = optarg;
			break;
		case CTL_JSON:
			opt->json = true;
			break;
		case CTL_TIMEOUT:
			status = read_timeout(opt);
			break;
		case CTL_INTERVAL:
			status = read_interval(opt);
			break;
		case 'n':
			status = read_count(opt);
			break;
		case CTL_VERSION:
			printf("liftctl %s\n", LIFTD_VERSION);
			return 0;
		case 'h':
			help();
			return 0;
		case ':':
			return usage("%s needs a value", argv[optind - 1]);
		default:
			return usage("unknown option '%s'; see liftctl --help", argv[optind - 1]);
		}
	}
	*done = status;
	return status;
}

static int command(int argc, char **argv)
{
	struct options opt = { .timeout = CTL_DEFAULT_TIMEOUT };
	struct command_call call;
	bool done, top;
	int status = read_options(argc, argv, &opt, &done);
	char err[1024];

	if (done)
		return status;
	argc -= optind;
	argv += optind;
	if (argc && !strcmp(argv[0], "help")) {
		if (argc > 1)
			return help_command(argv[1]);
		help();
		return 0;
	}
	if (command_parse(argc, argv, &call, err, sizeof(err))) {
		fprintf(stderr, "liftctl: %s\n", err);
		return EXIT_USAGE;
	}
	top = command_is(call.command, "top");
	if ((opt.count || opt.interval) && (!top || opt.json))
		return usage("-n and --interval are for %s", "top, without --json");
	return top && !opt.json ? run_top(&opt, &call) : run(&opt, &call);
}

int main(int argc, char **argv)
{
	int status = command(argc, argv);

	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "liftctl: cannot write the output: %s\n", strerror(errno));
		return status ? status : EXIT_REFUSED;
	}
	return status;
}
