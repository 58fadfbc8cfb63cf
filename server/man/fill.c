/*
 * A program for the build: copies a manual page or a shell completion, and puts tables in the place
 * of lines that ask for them: @TABLE@ or @TABLE ARGUMENT@, with nothing else on the line.
 *
 *   for pages, in scdoc
 *     @options PROGRAM@     the options of liftd or liftctl
 *     @rows ROWS@           settings: configuration, server, export, image, fault, queue, client,
 *                           or a scheduler's
 *     @policies@            the schedulers
 *     @commands@            the commands of liftctl
 *     @method NAME@         a method's call, and who may make it
 *     @counters@            what stats.get counts
 *   for completions, one item a line
 *     @words options PROGRAM@    NAME, or NAME ARGUMENT
 *     @words rows ROWS@          NAME VALUE..., if it has a list of values
 *     @words dotted@             the same for all schedulers, as SCHEDULER.NAME
 *     @words policies@
 *     @words patterns@           of commands; =NAME stands for a value of the setting NAME
 *   for both
 *     @file PATH@                another file as it is
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "sched/elevator.h"
#include "sched/policy.h"
#include "server/control/commands.h"
#include "server/ctl/options.h"
#include "server/export/settings.h"
#include "server/liftd/options.h"

/* ---- scdoc ---- */

static void put_text(const char *text)
{
	for (; *text; text++) {
		if (strchr("\\*_`", *text))
			putchar('\\');
		putchar(*text == '\n' ? ' ' : *text);
	}
}

/* A sentence from a help line: it has no full stop, and begins small. `as_is`: words of a value. */
static void put_sentence(const char *help, bool as_is)
{
	char first[2] = { as_is ? *help : (char)toupper((unsigned char)*help) };

	put_text(first);
	put_text(help + 1);
	putchar('.');
}

static void put_option(const struct cli_option *o)
{
	if (o->key < CLI_LONG)
		printf("*-%c*%s%s%s, ", o->key, o->arg ? " _" : "", o->arg ? o->arg : "",
		       o->arg ? "_" : "");
	printf("*--%s*%s%s%s\n\t", o->name, o->arg ? " _" : "", o->arg ? o->arg : "",
	       o->arg ? "_" : "");
	put_sentence(o->help, false);
	if (o->more) {
		putchar(' ');
		put_text(o->more);
	}
	puts("\n");
}

/* Does the help begin with one of the setting's words? */
static bool begins_with_value(const struct tunable *row)
{
	size_t n = strcspn(row->help, " ,;:");

	for (unsigned i = 0; row->kind == TUNABLE_ENUM && row->choices[i]; i++)
		if (strlen(row->choices[i]) == n && !strncmp(row->choices[i], row->help, n))
			return true;
	return false;
}

static void put_row(const struct tunable *row)
{
	char allowed[256], dflt[256] = "";

	tunable_allowed(row, allowed, sizeof(allowed));
	if (row->kind == TUNABLE_STRING)
		snprintf(dflt, sizeof(dflt), "%s", row->dflt_str ? row->dflt_str : "");
	else
		tunable_print(row, tunable_default(row), dflt, sizeof(dflt));
	printf("*%s*\n\t", row->name);
	put_sentence(row->help, begins_with_value(row));
	if (row->paragraph) {
		putchar(' ');
		put_text(row->paragraph);
	}
	fputs("++\nAllowed: ", stdout);
	put_text(allowed);
	if (*dflt) {
		fputs("; default ", stdout);
		put_text(dflt);
	}
	fputs(row->repeatable ? "; may be repeated" : "", stdout);
	puts(row->when == WHEN_RUNTIME ? "; at run time.\n" : ".\n");
}

static void put_policies(void)
{
	for (unsigned i = 0; elv_policies[i]; i++) {
		printf("*%s*\n\t", elv_policies[i]->name);
		put_sentence(elv_policies[i]->help, false);
		puts("\n");
	}
}

/* A pattern in bold and italics: words and arguments. */
static void put_pattern(const char *p)
{
	while (*p) {
		size_t n = strcspn(p, " []=.");
		bool word = islower((unsigned char)*p);

		if (n) {
			putchar(word ? '*' : '_');
			printf("%.*s", (int)n, p);
			putchar(word ? '*' : '_');
		}
		p += n;
		n = strspn(p, " []=.");
		printf("%.*s", (int)n, p);
		p += n;
	}
}

static void put_command(const struct command *c)
{
	put_pattern(c->pattern);
	fputs("\n\t", stdout);
	put_sentence(c->help, false);
	if (c->more) {
		putchar(' ');
		put_text(c->more);
	}
	puts(c->writes ? " For root and the server's user only.\n" : "\n");
}

static int put_method(const char *name)
{
	const struct command *c = command_by_method(name);
	bool first = true;

	if (!c)
		return -1;
	printf("*%s* {", c->method);
	for (const struct command_param *p = c->params; p->name; p++, first = false)
		printf("%s_%s_%s%s", first ? "" : ", ", p->name, p->required ? "" : "?",
		       p->kind == COMMAND_FLAG ? ": true or false" :
		       p->kind == COMMAND_SETTINGS ? ": {NAME: value, ...}" : "");
	printf("}%s\n", c->writes ? ", for root and the server's user only" : "");
	return 0;
}

static void put_counters(void)
{
	const struct command_counter *c = command_counters, *other;

	for (; c->name; c++) {
		/* The server has some of the exports' counters in another way. */
		for (other = command_counters; strcmp(other->name, c->name); other++)
			;
		printf("*%s*%s\n\t", c->name,
		       !c->server ? "" : other == c ? ", of the server only" : ", of the server");
		put_sentence(c->help, false);
		puts(c->gauge ? " Goes up and down.\n" : "\n");
	}
}

/* ---- completions ---- */

static void put_option_word(const struct cli_option *o)
{
	const char *space = o->arg ? " " : "", *arg = o->arg ? o->arg : "";

	if (o->key < CLI_LONG)
		printf("-%c%s%s\n", o->key, space, arg);
	printf("--%s%s%s\n", o->name, space, arg);
}

static void put_row_words(const struct tunable *row)
{
	fputs(row->name, stdout);
	if (row->can_be_auto)
		fputs(" auto", stdout);
	if (row->kind == TUNABLE_BOOL)
		fputs(" 0 1", stdout);
	for (unsigned i = 0; row->kind == TUNABLE_ENUM && row->choices[i]; i++)
		printf(" %s", row->choices[i]);
	putchar('\n');
}

static void put_dotted_words(void)
{
	for (unsigned i = 0; elv_policies[i]; i++) {
		for (const struct tunable *row = elv_policies[i]->rows; row->name; row++) {
			printf("%s.", elv_policies[i]->name);
			put_row_words(row);
		}
	}
}

static void put_pattern_words(const struct command *c)
{
	const char *end = strrchr(c->pattern, ' ');

	if (c->setting && end)
		printf("%.*s =%s\n", (int)(end - c->pattern), c->pattern, c->setting);
	else
		puts(c->pattern);
}

/* ---- what is asked for ---- */

static int each_option(const char *program, void (*put)(const struct cli_option *o))
{
	const struct cli_option *o = !strcmp(program, "liftd") ? liftd_options :
				     !strcmp(program, "liftctl") ? liftctl_options : NULL;

	if (!o)
		return -1;
	for (; o->name; o++)
		put(o);
	return 0;
}

static bool is_fault(const struct tunable *row)
{
	return !strncmp(row->name, "fault_", 6);
}

static int each_row(const char *name, void (*put)(const struct tunable *row))
{
	const struct elv_policy *p = elv_policy_find(name);
	const struct tunable *rows = p ? p->rows :
				     !strcmp(name, "configuration") ? conf_rows :
				     !strcmp(name, "server") ? server_rows :
				     !strcmp(name, "export") ? export_rows :
				     !strcmp(name, "image") || !strcmp(name, "fault") ? store_rows :
				     !strcmp(name, "queue") ? elv_rows :
				     !strcmp(name, "client") ? elv_client_rows : NULL;

	if (!rows)
		return -1;
	for (; rows->name; rows++)
		if (is_fault(rows) == !strcmp(name, "fault"))
			put(rows);
	return 0;
}

static int put_words(const char *what, const char *of)
{
	if (!strcmp(what, "options"))
		return each_option(of, put_option_word);
	if (!strcmp(what, "rows"))
		return each_row(of, put_row_words);
	if (!strcmp(what, "dotted")) {
		put_dotted_words();
		return 0;
	}
	if (!strcmp(what, "policies")) {
		for (unsigned i = 0; elv_policies[i]; i++)
			puts(elv_policies[i]->name);
		return 0;
	}
	if (strcmp(what, "patterns"))
		return -1;
	for (const struct command *c = commands; c->method; c++)
		put_pattern_words(c);
	return 0;
}

static int put_file(const char *path)
{
	FILE *f = fopen(path, "r");
	int c;

	if (!f)
		return -1;
	while ((c = getc(f)) != EOF)
		putchar(c);
	return fclose(f);
}

static int put_table(const char *what, const char *of, const char *third)
{
	if (!strcmp(what, "file"))
		return put_file(of);
	if (!strcmp(what, "words"))
		return put_words(of, third);
	if (!strcmp(what, "options"))
		return each_option(of, put_option);
	if (!strcmp(what, "rows"))
		return each_row(of, put_row);
	if (!strcmp(what, "method"))
		return put_method(of);
	if (!strcmp(what, "policies"))
		put_policies();
	else if (!strcmp(what, "commands"))
		for (const struct command *c = commands; c->method; c++)
			put_command(c);
	else if (!strcmp(what, "counters"))
		put_counters();
	else
		return -1;
	return 0;
}

/* A line of the file, or what it asks for. */
static int put_line(char *line)
{
	char what[32] = "", of[256] = "", third[64] = "";
	size_t n = strcspn(line, "\n");

	if (n < 3 || line[0] != '@' || line[n - 1] != '@') {
		fputs(line, stdout);
		return 0;
	}
	line[n - 1] = '\0';
	sscanf(line + 1, "%31s %255s %63s", what, of, third);
	return put_table(what, of, third);
}

int main(int argc, char **argv)
{
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
	unsigned number = 0;
	char line[4096];

	if (!f) {
		fprintf(stderr, argc == 2 ? "fill: %s: %s\n" : "usage: fill FILE\n", argv[1],
			strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		number++;
		if (put_line(line)) {
			fprintf(stderr, "fill: %s:%u: there is no table '%s'\n", argv[1], number,
				line + 1);
			return 1;
		}
	}
	if (ferror(f) || fclose(f) || fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "fill: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return 0;
}
