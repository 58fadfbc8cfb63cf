/*
 * liftd: the command line. Options are collected first and checked together, so that their order
 * does not matter; then the images are opened, the sockets, and the server runs
 * (server/net/service.h).
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "server/net/log.h"
#include "server/net/service.h"

enum { MAX_SETTINGS = 256, MAX_BINDS = 64 };

/* A list of settings, in words of the command line or in strings of its own. */
struct list {
	struct setting set[MAX_SETTINGS];
	size_t n;
};

/* A rule's setting: -o client:MATCH.NAME=VALUE. */
struct client_option {
	const char *match;
	struct setting set;
};

struct command_line {
	struct list server, export;
	struct client_option client[MAX_SETTINGS];
	size_t nclient;
	const char *bind[MAX_BINDS];
	size_t nbind;
	const char *port;
	bool has_unix, has_name;
	char *const *images;
	int nimages;
};

/* ---- failing ---- */

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

static int no_memory(void)
{
	log_error("out of memory");
	return SERVICE_BROKEN;
}

/* ---- help ---- */

static const char usage_text[] =
	"usage: liftd [OPTION]... IMAGE...\n"
	"\n"
	"Serves files and block devices as network block devices (NBD), each with an I/O\n"
	"scheduler.\n"
	"An IMAGE is a file, a block device, or null: (which needs -o size=SIZE).\n"
	"\n"
	"  -U, --unix PATH            listen on a Unix socket\n"
	"  -p, --port N               TCP port (10809)\n"
	"  -b, --bind ADDRESS         listen on TCP at this address; without it on 127.0.0.1\n"
	"                             and ::1, or not at all with a Unix socket and no port\n"
	"  -x, --export-name NAME     name of the only image's export (the file's base name)\n"
	"  -r, --read-only            refuse writes\n"
	"  -s, --scheduler NAME       choose the I/O scheduler\n"
	"  -o, --option NAME=VALUE    any tunable of the server, the exports, the scheduler\n"
	"                             (another one's: SCHEDULER.NAME=VALUE), or of clients:\n"
	"                             client:MATCH.NAME=VALUE\n"
	"      --control PATH         control socket, for liftctl\n"
	"      --threads N            threads that serve connections\n"
	"      --pid-file FILE        write the process id there\n"
	"      --user USER, --group GROUP   become them once everything is open\n"
	"      --log LEVEL            error, warning, info or debug\n"
	"      --version, --help\n"
	"\n"
	"Tunables (with what is allowed, and the default). A bare number has the unit shown.\n";

static void print_rows(const char *title, const char *prefix, const struct tunable *rows)
{
	char allowed[256], dflt[64];

	if (rows->name)
		printf("\n%s:\n", title);
	for (; rows->name; rows++) {
		tunable_allowed(rows, allowed, sizeof(allowed));
		if (rows->kind == TUNABLE_STRING)
			snprintf(dflt, sizeof(dflt), "%s", rows->dflt_str ? rows->dflt_str : "");
		else
			tunable_print(rows, tunable_default(rows), dflt, sizeof(dflt));
		printf("  %s%s (%s)%s%s\n      %s\n", prefix, rows->name, allowed,
		       *dflt ? ", default " : "", dflt, rows->help);
	}
}

static int print_help(void)
{
	char title[128];

	fputs(usage_text, stdout);
	print_rows("Server", "", server_rows);
	print_rows("Exports", "", export_rows);
	print_rows("Exports: the image", "", store_rows);
	print_rows("Exports: the queue", "", elv_rows);
	for (unsigned i = 0; elv_policies[i]; i++) {
		snprintf(title, sizeof(title), "Scheduler %s: %s", elv_policies[i]->name,
			 elv_policies[i]->help);
		if (elv_policies[i]->rows->name)
			print_rows(title, "", elv_policies[i]->rows);
		else
			printf("\n%s\n", title);
	}
	print_rows("Clients", "client:MATCH.", elv_client_rows);
	return fflush(stdout) || ferror(stdout) ? SERVICE_BROKEN : SERVICE_STOPPED;
}

/* ---- collecting ---- */

static int add_setting(struct list *l, const char *name, const char *value)
{
	if (l->n == MAX_SETTINGS)
		return complain("more than %d options", MAX_SETTINGS);
	l->set[l->n++] = (struct setting){ name, value };
	return 0;
}

/* client:MATCH.NAME=VALUE, split at the last =, then at the last dot. text may be written to. */
static int add_client(struct command_line *c, char *text)
{
	char *equals = strrchr(text, '='), *dot;

	if (equals)
		*equals = '\0';
	dot = strrchr(text, '.');
	if (!equals || !dot || dot == text + strlen("client:")) {
		if (equals)
			*equals = '=';
		return complain("option '%s': expected client:MATCH.NAME=VALUE", text);
	}
	*dot = '\0';
	if (c->nclient == MAX_SETTINGS)
		return complain("more than %d options for clients", MAX_SETTINGS);
	c->client[c->nclient++] = (struct client_option){
		.match = text + strlen("client:"),
		.set = { dot + 1, equals + 1 },
	};
	return 0;
}

static int add_option(struct command_line *c, char *text)
{
	char *equals = strchr(text, '=');

	if (!strncmp(text, "client:", 7))
		return add_client(c, text);
	if (!equals || equals == text)
		return complain("option '%s': expected NAME=VALUE", text);
	*equals = '\0';
	if (!strcmp(text, "unix"))
		c->has_unix = true;
	if (!strcmp(text, "name"))
		c->has_name = true;
	return add_setting(tunable_find(server_rows, text) ? &c->server : &c->export, text,
			   equals + 1);
}

enum {
	OPT_CONTROL = 256, OPT_THREADS, OPT_PID_FILE, OPT_USER, OPT_GROUP, OPT_LOG, OPT_VERSION,
	OPT_HELP
};

static const struct option long_options[] = {
	{ "unix", required_argument, NULL, 'U' },
	{ "port", required_argument, NULL, 'p' },
	{ "bind", required_argument, NULL, 'b' },
	{ "export-name", required_argument, NULL, 'x' },
	{ "read-only", no_argument, NULL, 'r' },
	{ "scheduler", required_argument, NULL, 's' },
	{ "option", required_argument, NULL, 'o' },
	{ "control", required_argument, NULL, OPT_CONTROL },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "pid-file", required_argument, NULL, OPT_PID_FILE },
	{ "user", required_argument, NULL, OPT_USER },
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "log", required_argument, NULL, OPT_LOG },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 }
};

/* One option. 0, or an exit status. */
static int take_option(struct command_line *c, int option, char *arg)
{
	switch (option) {
	case 'U':
		c->has_unix = true;
		return add_setting(&c->server, "unix", arg);
	case 'p':
		if (c->port)
			return complain("--port is given twice");
		c->port = arg;
		return 0;
	case 'b':
		if (c->nbind == MAX_BINDS)
			return complain("more than %d addresses", MAX_BINDS);
		c->bind[c->nbind++] = arg;
		return 0;
	case 'x':
		c->has_name = true;
		return add_setting(&c->export, "name", arg);
	case 'r':
		return add_setting(&c->export, "readonly", "1");
	case 's':
		return add_setting(&c->export, "scheduler", arg);
	case 'o':
		return add_option(c, arg);
	case OPT_CONTROL:
		return add_setting(&c->server, "control", arg);
	case OPT_THREADS:
		return add_setting(&c->server, "threads", arg);
	case OPT_PID_FILE:
		return add_setting(&c->server, "pid_file", arg);
	case OPT_USER:
		return add_setting(&c->server, "user", arg);
	case OPT_GROUP:
		return add_setting(&c->server, "group", arg);
	case OPT_LOG:
		return add_setting(&c->server, "log", arg);
	}
	fprintf(stderr, "liftd: see liftd --help\n");
	return SERVICE_MISUSED;
}

/* ---- checking ---- */

static bool is_port(const char *text)
{
	return *text && strlen(text) <= 5 && strspn(text, "0123456789") == strlen(text) &&
	       strtoul(text, NULL, 10) <= 65535;
}

/* What --bind and --port say, as `listen` settings. The strings live as long as the program. */
static int add_addresses(struct command_line *c)
{
	static char text[MAX_BINDS][300];
	int res = 0;

	if (c->port && !is_port(c->port))
		return complain("--port '%s': expected a number, 0..65535", c->port);
	for (size_t i = 0; i < c->nbind && !res; i++) {
		const char *a = c->bind[i];

		if (strlen(a) > 255)
			return complain("--bind '%.40s...': too long", a);
		snprintf(text[i], sizeof(text[i]),
			 strchr(a, ':') && *a != '[' ? "[%s]:%s" : "%s:%s", a,
			 c->port ? c->port : "10809");
		res = add_setting(&c->server, "listen", text[i]);
	}
	return res;
}

static int check_server(const struct command_line *c, struct server_params *params)
{
	struct tunable_changes changes = { .when = WHEN_START };
	char err[TUNABLE_ERR_MAX];
	int res = 0;

	if (tunable_defaults(server_rows, params))
		return no_memory();
	for (size_t i = 0; i < c->server.n && !res; i++) {
		res = tunable_changes_set(&changes, server_rows, params, c->server.set[i].name,
					  c->server.set[i].value, err, sizeof(err));
		if (res)
			complain("%s", err);
	}
	if (!res)
		tunable_changes_commit(&changes);
	tunable_changes_free(&changes);
	if (res)
		return res == -ENOMEM ? SERVICE_BROKEN : SERVICE_MISUSED;
	log_set_level((enum log_level)params->log);
	return 0;
}

/* The file's base name; of "null:" null. */
static char *name_of(const char *image)
{
	const char *slash = strrchr(image, '/');
	const char *base = slash && slash[1] ? slash + 1 : image;

	return strdup(!strcmp(image, "null:") ? "null" : base);
}

/* The settings of one image's export. */
static int check_export(const struct command_line *c, const char *image, struct export_settings *st)
{
	struct setting_error err;
	struct list all = c->export;
	int res;

	if (add_setting(&all, "path", image))
		return SERVICE_MISUSED;
	if (export_settings_init(st))
		return no_memory();
	res = export_settings_set(st, all.set, all.n, &err);
	if (res) {
		complain("%s", err.text);
	} else if (!st->export.name || !*st->export.name) {
		free(st->export.name);
		st->export.name = name_of(image);
		if (!st->export.name)
			res = -ENOMEM;
	}
	if (!res)
		return 0;
	export_settings_free(st);
	return res == -ENOMEM ? no_memory() : SERVICE_MISUSED;
}

static int check_exports(const struct command_line *c, struct export_settings *st)
{
	int res = 0, n;

	for (n = 0; n < c->nimages && !res; n++) {
		res = check_export(c, c->images[n], &st[n]);
		for (int i = 0; !res && i < n; i++)
			if (!strcmp(st[i].export.name, st[n].export.name))
				res = complain("images %s and %s: two exports would be called '%s'",
					       c->images[i], c->images[n], st[n].export.name);
		if (res && st[n].export.name)
			export_settings_free(&st[n]);
	}
	for (n -= 2; res && n >= 0; n--)
		export_settings_free(&st[n]);
	return res;
}

/* ---- opening ---- */

/*
 * Is the fault the image's, rather than that of a setting? Stores say -EINVAL for both; what
 * cannot be an image whatever the settings are is told apart here.
 */
static bool is_no_image(const char *path)
{
	struct stat st;

	if (!*path || !strcmp(path, "null:"))
		return false;
	if (stat(path, &st))
		return true;
	return S_ISREG(st.st_mode) ? st.st_size == 0 : !S_ISBLK(st.st_mode);
}

static int open_exports(struct service *s, struct export_settings *st, int n)
{
	char err[2 * TUNABLE_ERR_MAX];
	struct export *e;

	for (int i = 0; i < n; i++) {
		int res = export_open(&s->server, &st[i], &e, err, sizeof(err));

		if (res) {
			log_error("%s", err);
			if (res != -EINVAL && res != -EEXIST)
				return SERVICE_BROKEN;
			return is_no_image(st[i].store.path) ? SERVICE_BROKEN : SERVICE_MISUSED;
		}
		if (e->store->notice[0])
			log_info("export '%s': %s", e->name, e->store->notice);
	}
	return 0;
}

static int add_rules(struct service *s, const struct command_line *c)
{
	struct setting_error err;

	for (size_t i = 0; i < c->nclient; i++)
		if (server_add_rule(&s->server, c->client[i].match, &c->client[i].set, 1, &err))
			return complain("%s", err.text);
	return 0;
}

static int serve(const struct command_line *c, const struct server_params *params,
		 struct export_settings *st)
{
	static struct service service; /* reachable, if threads have to be left behind */
	char err[2 * TUNABLE_ERR_MAX] = "";
	int status;

	if (service_init(&service, params, c->nbind ? NULL : c->port)) {
		log_error("cannot set up: %s", strerror(errno));
		return SERVICE_BROKEN;
	}
	status = add_rules(&service, c);
	if (!status)
		status = open_exports(&service, st, c->nimages);
	if (!status) {
		status = service_start(&service, err, sizeof(err));
		if (status)
			log_error("%s", err);
	}
	if (!status)
		status = service_run(&service);
	service_exit(&service);
	return status;
}

/* ---- main ---- */

static int collect(struct command_line *c, int argc, char **argv)
{
	int option, res;

	while ((option = getopt_long(argc, argv, "U:p:b:x:rs:o:", long_options, NULL)) != -1) {
		if (option == OPT_HELP)
			exit(print_help());
		if (option == OPT_VERSION) {
			printf("liftd %s\n", LIFTD_VERSION);
			exit(SERVICE_STOPPED);
		}
		res = take_option(c, option, optarg);
		if (res)
			return res;
	}
	c->images = argv + optind;
	c->nimages = argc - optind;
	if (!c->nimages) {
		complain("no image is given: liftd [OPTION]... IMAGE...; see liftd --help");
		return SERVICE_MISUSED;
	}
	if (c->has_name && c->nimages > 1)
		return complain("an export name is given, and %d images: it would go with one only",
				c->nimages);
	return add_addresses(c);
}

int main(int argc, char **argv)
{
	static struct command_line c;
	struct server_params params;
	struct export_settings *st;
	int status = collect(&c, argc, argv);

	if (status)
		return status;
	status = check_server(&c, &params);
	if (status)
		return status;
	st = calloc((size_t)c.nimages, sizeof(*st));
	status = st ? check_exports(&c, st) : no_memory();
	if (!status) {
		status = serve(&c, &params, st);
		for (int i = 0; i < c.nimages; i++)
			export_settings_free(&st[i]);
	}
	free(st);
	tunable_free(server_rows, &params);
	return status;
}
