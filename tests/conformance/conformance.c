/*
 * conformance: does an NBD server do what the specification says?
 *
 * Runs the rows of table.c against the server of a URI, each on fresh connections, and prints a table. The content
 * of a writable export is destroyed.
 *
 * The specification lets a server close the connection of a client that breaks a rule. Where it can answer with an
 * error instead and go on, a row about transmission fails if it does not, and one about the handshake gives advice.
 */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/wire.h"

enum { ONLY_MOST = 64 };

static const char usage_text[] =
	"usage: conformance [options] URI\n"
	"       conformance --list\n"
	"\n"
	"Looks at an NBD server row by row. A writable export of at least 1 MiB is needed, whose content\n"
	"is destroyed; or a read-only one. URI is as in the NBD project's uri.md and as libnbd has it:\n"
	"\n"
	"  nbd://HOST:PORT/NAME   nbd+unix:///NAME?socket=PATH   nbd+vsock://CID:PORT/NAME\n"
	"  nbds://...             all rows through TLS; parameters: tls-certificates=DIR,\n"
	"                         tls-psk-file=FILE with USER@, tls-hostname=NAME, tls-verify-peer=0\n"
	"                         With nbd:// and these, only the rows about TLS use them.\n"
	"\n"
	"  --list            all rows, and the section of proto.md that each is about\n"
	"  --only ROW,...    only these (a pattern of the shell; may be repeated)\n"
	"  --read-only       write nothing, even if the export is writable\n"
	"  --strict          what a server SHOULD do, it must do\n"
	"  --json            one array of {row, section, result, text, detail}\n"
	"  --timeout SECONDS without any progress, after which a row fails (10)\n"
	"\n"
	"Exit status: 0 nothing failed, 1 a row failed or the server cannot be reached, 2 usage.\n";

struct options {
	bool json, strict, list;
	const char *only[ONLY_MOST];
	unsigned nonly;
};

static noreturn void usage(const char *problem, const char *value)
{
	fprintf(stderr, "conformance: %s%s\n", problem, value);
	fputs("conformance: --help says more\n", stderr);
	exit(2);
}

static bool is_chosen(const struct options *o, const struct row *row)
{
	for (unsigned i = 0; i < o->nonly; i++) {
		if (!fnmatch(o->only[i], row->name, 0))
			return true;
	}
	return !o->nonly;
}

/* Split "a,b" and remember what is asked for; each must choose something. */
static void add_only(struct options *o, char *words)
{
	for (char *word = strtok(words, ","); word; word = strtok(NULL, ",")) {
		struct options one = { .only = { word }, .nonly = 1 };
		size_t i = 0;

		while (i < nrows && !is_chosen(&one, &rows[i]))
			i++;
		if (i == nrows)
			usage("there is no row called ", word);
		if (o->nonly == ONLY_MOST)
			usage("too many rows, from this one on: ", word);
		o->only[o->nonly++] = word;
	}
}

static void list(void)
{
	static const char *const modes[] = { "simple", "structured", "extended" };

	for (size_t i = 0; i < nrows; i++)
		printf("%-30s %-6s %-10s %s: %s\n", rows[i].name,
		       rows[i].level == MUST ? "must" : "should", modes[rows[i].mode],
		       rows[i].section, rows[i].text);
}

static void put_json(const char *key, const char *s, const char *after)
{
	printf("\"%s\": \"", key);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		if ((unsigned char)*s >= ' ' && (unsigned char)*s < 0x7f)
			putchar(*s);
		else
			putchar('?');
	}
	printf("\"%s", after);
}

static const char *const result_names[RESULTS] = { "pass", "FAIL", "advice", "not offered" };

static void print_row(const struct options *o, const struct row *row, enum result result,
		      const char *detail, bool first)
{
	if (o->json) {
		printf("%s{", first ? "[\n" : ",\n");
		put_json("row", row->name, ", ");
		put_json("section", row->section, ", ");
		put_json("result", result == FAIL ? "fail" : result_names[result], ", ");
		put_json("text", row->text, ", ");
		put_json("detail", detail, "}");
	} else {
		printf("%-11s %-28s %-36s %s\n", result_names[result], row->name, row->section,
		       row->text);
		if (result == FAIL || result == ADVICE)
			printf("            %s\n", detail);
		else if (result == NOT_OFFERED)
			printf("            lacks: %s\n", detail);
	}
	fflush(stdout);
}

static void print_server(const struct target *t)
{
	printf("size %llu, block sizes %u/%u/%u%s, flags %#x", (unsigned long long)t->size, t->min,
	       t->preferred, t->most, t->sizes ? "" : " (not told)", t->flags[SIMPLE]);
	for (enum mode m = STRUCTURED; m < MODES; m++) {
		if (t->mode[m])
			printf(", %s %#x", m == STRUCTURED ? "structured" : "extended", t->flags[m]);
	}
	for (unsigned i = 0; i < t->ncontexts; i++)
		printf(", %s", t->contexts[i]);
	printf("%s\n\n", t->tls_forced ? ", TLS required" : t->starttls ? ", TLS" : "");
}

static void greet_once(struct test *t)
{
	greet_plain(t);
}

/*
 * After a failure: does the server live? One that has died may have been started again by somebody, or be about to end:
 * hence twice.
 */
static bool is_there(struct target *target)
{
	static const struct row row = { .name = "is there", .run = greet_once };
	struct test t;

	test_run(&t, &row, target);
	if (t.result == FAIL)
		test_run(&t, &row, target);
	return t.result != FAIL;
}

static int run_rows(const struct options *o, struct target *target)
{
	static const struct row probe = { .name = "probe", .run = target_probe };
	unsigned count[RESULTS] = { 0 };
	enum result result;
	const char *lacks;
	struct test t;
	bool first = true;

	test_run(&t, &probe, target);
	if (t.result == FAIL) {
		fprintf(stderr, "conformance: looking at what the server offers: %s\n", t.detail);
		return 1;
	}
	if (!o->json)
		print_server(target);
	for (size_t i = 0; i < nrows; i++) {
		if (!is_chosen(o, &rows[i]))
			continue;
		lacks = target_lacks(target, &rows[i]);
		if (!lacks)
			test_run(&t, &rows[i], target);
		result = lacks ? NOT_OFFERED : t.result;
		if (o->strict && result == ADVICE)
			result = FAIL;
		count[result]++;
		print_row(o, &rows[i], result, lacks ? lacks : t.detail, first);
		first = false;
		if (result == FAIL && !is_there(target)) {
			fputs("conformance: the server is gone; no more rows are run\n", stderr);
			break;
		}
	}
	if (o->json)
		printf("%s]\n", first ? "[" : "\n");
	else
		printf("\n%u pass, %u fail, %u advice, %u not offered\n", count[PASS], count[FAIL],
		       count[ADVICE], count[NOT_OFFERED]);
	return count[FAIL] ? 1 : 0;
}

static void parse(int argc, char **argv, struct options *o, struct target *target)
{
	static const struct option longs[] = {
		{ "list", no_argument, NULL, 'l' }, { "only", required_argument, NULL, 'o' },
		{ "read-only", no_argument, NULL, 'r' }, { "strict", no_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' }, { "timeout", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	const char *wrong;
	char *end;
	int c;

	target->timeout = 10;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		switch (c) {
		case 'l':
			o->list = true;
			break;
		case 'o':
			add_only(o, optarg);
			break;
		case 'r':
			target->read_only = true;
			break;
		case 's':
			o->strict = true;
			break;
		case 'j':
			o->json = true;
			break;
		case 't':
			target->timeout = (unsigned)strtoul(optarg, &end, 10);
			if (!*optarg || *end || !target->timeout || target->timeout > 3600)
				usage("--timeout takes 1 to 3600 seconds, not ", optarg);
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(0);
		default:
			exit(2);
		}
	}
	if (o->list)
		return;
	if (optind + 1 != argc)
		usage("one URI is expected", "");
	wrong = uri_parse(&target->uri, argv[optind]);
	if (!wrong)
		wrong = target_credentials(target);
	if (wrong) {
		fprintf(stderr, "conformance: %s: %s\n", argv[optind], wrong);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static struct options o;
	static struct target target;
	int status = 0;

	signal(SIGPIPE, SIG_IGN);	/* GnuTLS writes without MSG_NOSIGNAL */
	parse(argc, argv, &o, &target);
	if (o.list)
		list();
	else
		status = run_rows(&o, &target);
	target_free(&target);
	return status;
}
