#include "server/liftd/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/net/log.h"
#include "server/net/service.h"

static const char default_config[] = "/etc/liftd/liftd.conf";

static int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_error("%s", text);
	return SERVICE_MISUSED;
}

/* ---- help ---- */

enum {
	OPT_CONTROL = CLI_LONG, OPT_THREADS, OPT_PID_FILE, OPT_USER, OPT_GROUP, OPT_LOG, OPT_CHECK,
	OPT_DUMP, OPT_VERSION, OPT_HELP
};

const struct cli_option liftd_options[] = {
	{ 'c', "config", "FILE",
	  "configuration; options take the place of what it says",
	  "By default, without an IMAGE, it is /etc/liftd/liftd.conf. SIGHUP and liftctl reload "
	  "load it again." },
	{ OPT_CHECK, "check", NULL,
	  "only say what is wrong with configuration and options",
	  "All that is wrong is named at once, as FILE:LINE: NAME: what was expected. No image and "
	  "no socket is opened." },
	{ OPT_DUMP, "dump-config", NULL, "only print all settings, as a configuration", NULL },
	{ 'U', "unix", "PATH", "listen on a Unix socket", "May be repeated." },
	{ 'p', "port", "N", "TCP port (10809)",
	  "With 0 the kernel chooses one for each address; the log says which." },
	{ 'b', "bind", "ADDRESS",
	  "listen on TCP at this address; without it on 127.0.0.1 and ::1, or not at all with a "
	  "Unix socket and no port",
	  "May be repeated." },
	{ 'x', "export-name", "NAME", "name of the only image's export (the file's base name)",
	  NULL },
	{ 'r', "read-only", NULL, "refuse writes", NULL },
	{ 's', "scheduler", "NAME", "choose the I/O scheduler", NULL },
	{ 'o', "option", "NAME=VALUE",
	  "any setting of the server, the exports, the scheduler (another one's: "
	  "SCHEDULER.NAME=VALUE), or of clients: client:MATCH.NAME=VALUE",
	  "May be repeated. The names are those of liftd.conf(5). The option is split at the "
	  "first =, for clients at the last =, and then at the last dot." },
	{ OPT_CONTROL, "control", "PATH", "control socket, for liftctl",
	  "By default control.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/liftd or /run/liftd; "
	  "if it cannot be made there, liftd warns and goes on without. If PATH is given and "
	  "cannot be made, liftd does not start." },
	{ OPT_THREADS, "threads", "N", "threads that serve connections (one per processor)", NULL },
	{ OPT_PID_FILE, "pid-file", "FILE", "write the process id there", NULL },
	{ OPT_USER, "user", "USER", "become this user once everything is open", NULL },
	{ OPT_GROUP, "group", "GROUP", "become this group (the user's)", NULL },
	{ OPT_LOG, "log", "LEVEL", "how much to log: error, warning, info or debug", NULL },
	{ OPT_VERSION, "version", NULL, "print the version", NULL },
	{ OPT_HELP, "help", NULL, "print the options and settings", NULL },
	{ .name = NULL }
};

static const char usage_text[] =
	"usage: liftd [OPTION]... IMAGE...\n"
	"       liftd [OPTION]... [-c FILE]\n"
	"\n"
	"Serves files and block devices as network block devices (NBD), each with an I/O\n"
	"scheduler: the images that are named, or what the configuration says\n"
	"(/etc/liftd/liftd.conf). An IMAGE is a file, a block device, or null: (which\n"
	"needs -o size=SIZE).\n"
	"\n";

static const char tunables_text[] =
	"\n"
	"A configuration has the sections [server], [export NAME] and [client MATCH], with a\n"
	"line NAME = VALUE for each setting.\n"
	"\n"
	"Settings (with what is allowed, and the default). A bare number has the unit shown.\n";

static int print_help(void)
{
	fputs(usage_text, stdout);
	cli_print(stdout, liftd_options);
	fputs(tunables_text, stdout);
	help_rows(stdout, "Server", "", server_rows, NULL);
	help_exports(stdout, NULL);
	return fflush(stdout) || ferror(stdout) ? SERVICE_BROKEN : SERVICE_STOPPED;
}

/* ---- collecting ---- */

static int add_setting(struct option_list *l, const char *name, const char *value)
{
	if (l->n == OPTIONS_MAX)
		return complain("more than %d options", OPTIONS_MAX);
	l->set[l->n++] = (struct setting){ name, value };
	return 0;
}

static int add_client(struct options *o, char *text)
{
	char err[TUNABLE_ERR_MAX];

	if (o->nclient == OPTIONS_MAX)
		return complain("more than %d options for clients", OPTIONS_MAX);
	if (client_option_split(text, &o->client[o->nclient], err, sizeof(err)))
		return complain("%s", err);
	o->nclient++;
	return 0;
}

static int add_option(struct options *o, char *text)
{
	char *equals = strchr(text, '=');

	if (client_option_is(text))
		return add_client(o, text);
	if (!equals || equals == text)
		return complain("option '%s': expected NAME=VALUE", text);
	*equals = '\0';
	if (!strcmp(text, "name"))
		o->has_name = true;
	return add_setting(tunable_find(server_rows, text) ? &o->server : &o->export, text,
			   equals + 1);
}

static int take_once(const char **to, const char *option, const char *arg)
{
	if (*to)
		return complain("%s is given twice", option);
	*to = arg;
	return 0;
}

/* One option. 0, or an exit status. */
static int take_option(struct options *o, int option, char *arg)
{
	switch (option) {
	case 'c':
		return take_once(&o->config, "--config", arg);
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_DUMP:
		o->dump = true;
		return 0;
	case 'U':
		return add_setting(&o->server, "unix", arg);
	case 'p':
		return take_once(&o->port, "--port", arg);
	case 'b':
		if (o->nbind == OPTIONS_MAX_BINDS)
			return complain("more than %d addresses", OPTIONS_MAX_BINDS);
		o->bind[o->nbind++] = arg;
		return 0;
	case 'x':
		o->has_name = true;
		return add_setting(&o->export, "name", arg);
	case 'r':
		return add_setting(&o->export, "readonly", "1");
	case 's':
		return add_setting(&o->export, "scheduler", arg);
	case 'o':
		return add_option(o, arg);
	case OPT_CONTROL:
		return add_setting(&o->server, "control", arg);
	case OPT_THREADS:
		return add_setting(&o->server, "threads", arg);
	case OPT_PID_FILE:
		return add_setting(&o->server, "pid_file", arg);
	case OPT_USER:
		return add_setting(&o->server, "user", arg);
	case OPT_GROUP:
		return add_setting(&o->server, "group", arg);
	case OPT_LOG:
		return add_setting(&o->server, "log", arg);
	}
	fprintf(stderr, "liftd: see liftd --help\n");
	return SERVICE_MISUSED;
}

/* ---- what can be said without the configuration ---- */

static bool is_port(const char *text)
{
	return *text && strlen(text) <= 5 && strspn(text, "0123456789") == strlen(text) &&
	       strtoul(text, NULL, 10) <= 65535;
}

/* What --bind and --port say, as `listen` settings. */
static int add_addresses(struct options *o)
{
	int res = 0;

	if (o->port && !is_port(o->port))
		return complain("--port '%s': expected a number, 0..65535", o->port);
	if (o->port && !o->nbind)
		o->bind[o->nbind++] = "localhost";
	for (size_t i = 0; i < o->nbind && !res; i++) {
		const char *a = o->bind[i];

		if (strlen(a) > 255)
			return complain("--bind '%.40s...': too long", a);
		snprintf(o->listen[i], sizeof(o->listen[i]),
			 strchr(a, ':') && *a != '[' ? "[%s]:%s" : "%s:%s", a,
			 o->port ? o->port : "10809");
		res = add_setting(&o->server, "listen", o->listen[i]);
	}
	return res;
}

/* Images or a configuration, and what goes with only one of them. */
static int check_source(struct options *o)
{
	if (o->check && o->dump)
		return complain("--check and --dump-config: expected one of them");
	if (o->config && o->nimages)
		return complain("a configuration (%s) and an image (%s) are given: expected one "
				"or the other", o->config, o->images[0]);
	if (o->has_name && o->nimages > 1)
		return complain("an export name is given, and %zu images: it would go with one "
				"only", o->nimages);
	if (o->nimages)
		return 0;
	if (!o->config && access(default_config, F_OK))
		return complain("no image is given, and there is no %s: liftd [OPTION]... IMAGE...,"
				" or liftd -c FILE; see liftd --help", default_config);
	if (!o->config)
		o->config = default_config;
	for (size_t i = 0; i < o->export.n; i++)
		if (!strcmp(o->export.set[i].name, "name") ||
		    !strcmp(o->export.set[i].name, "path"))
			return complain("the %s of an export is given (%s), and a configuration: "
					"expected there", o->export.set[i].name,
					o->export.set[i].value);
	return 0;
}

int options_collect(struct options *o, int argc, char **argv)
{
	struct option longs[CLI_OPTIONS_MAX + 1];
	char shorts[CLI_SHORT_MAX];
	int option, res;

	cli_getopt(liftd_options, "", longs, shorts);
	while ((option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (option == OPT_HELP)
			exit(print_help());
		if (option == OPT_VERSION) {
			printf("liftd %s\n", LIFTD_VERSION);
			exit(SERVICE_STOPPED);
		}
		res = take_option(o, option, optarg);
		if (res)
			return res;
	}
	o->images = argv + optind;
	o->nimages = (size_t)(argc - optind);
	res = check_source(o);
	return res ? res : add_addresses(o);
}
