/*
 * Results for people: one function per command, found by its first word.
 */
#include "server/ctl/print.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ctl/table.h"

/* ---- reading results: what is missing or of another type counts as empty ---- */

static const char *text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "";
}

static uint64_t number(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
}

/* A setting's value: numbers bare, text as it is. */
static const char *value_text(const json_t *v, char buf[HUMAN_MAX])
{
	if (json_is_string(v))
		return json_string_value(v);
	if (json_is_boolean(v))
		return json_is_true(v) ? "1" : "0";
	if (!json_is_integer(v))
		return "";
	snprintf(buf, HUMAN_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	return buf;
}

static int short_of_memory(char *err, size_t errlen)
{
	snprintf(err, errlen, "out of memory");
	return -1;
}

static int finish(struct table *t, char *err, size_t errlen)
{
	return table_print(t) ? short_of_memory(err, errlen) : 0;
}

/* ---- server ---- */

static int print_info(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	char up[HUMAN_MAX];
	const json_t *name;
	size_t i;

	(void)call; (void)err; (void)errlen;
	printf("liftd %s, process %" PRIu64 ", up %s, threads: %" PRIu64 "\nschedulers:",
	       text(r, "version"), number(r, "pid"),
	       human_ns(number(r, "uptime_s") * 1000000000, up), number(r, "threads"));
	json_array_foreach(json_object_get(r, "policies"), i, name)
		printf(" %s", json_string_value(name) ? json_string_value(name) : "?");
	putchar('\n');
	return 0;
}

static int print_nothing(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	(void)call; (void)r; (void)err; (void)errlen;
	return 0;
}

static void put_lines(const char *title, const json_t *lines)
{
	const json_t *l;
	size_t i;

	json_array_foreach(lines, i, l)
		printf("%s: %s\n", title, json_string_value(l) ? json_string_value(l) : "?");
}

static int print_reload(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	const json_t *changed = json_object_get(r, "changed");
	const json_t *restart = json_object_get(r, "restart");

	(void)call; (void)err; (void)errlen;
	put_lines("changed", changed);
	put_lines("needs a restart", restart);
	if (!json_array_size(changed) && !json_array_size(restart))
		printf("nothing has changed\n");
	return 0;
}

/* ---- exports ---- */

static int print_list(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	static const char *const headings[] = {
		"NAME", ">SIZE", "MODE", "SCHEDULER", ">CLIENTS", ">CONNECTIONS", ">QUEUED",
		">IN FLIGHT", ">OLDEST", ">FLUSH ERRORS", NULL
	};
	struct table *t = table_new(headings);
	char buf[HUMAN_MAX];
	const json_t *e;
	size_t i;

	(void)call;
	json_array_foreach(r, i, e) {
		table_cell(t, "%s", text(e, "name"));
		table_cell(t, "%s", human_bytes(number(e, "size"), buf));
		table_cell(t, "%s", json_is_true(json_object_get(e, "readonly")) ? "ro" : "rw");
		table_cell(t, "%s", text(e, "scheduler"));
		table_cell(t, "%" PRIu64, number(e, "clients"));
		table_cell(t, "%" PRIu64, number(e, "connections"));
		table_cell(t, "%" PRIu64, number(e, "queued"));
		table_cell(t, "%" PRIu64, number(e, "in_flight"));
		table_cell(t, "%s", human_ns(number(e, "oldest_ms") * 1000000, buf));
		table_cell(t, "%" PRIu64, number(e, "flush_errors"));
	}
	return finish(t, err, errlen);
}

static int print_get(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	const json_t *tunables = json_object_get(r, "tunables"), *o, *v;
	const char *name, **names, *near;
	char buf[HUMAN_MAX];
	size_t n = 0;

	v = json_object_get(json_object_get(tunables, call->local), "value");
	if (!v && !strcmp(call->local, "scheduler"))
		v = json_object_get(r, "scheduler");
	if (v) {
		printf("%s\n", value_text(v, buf));
		return 0;
	}
	names = calloc(json_object_size(tunables) + 1, sizeof(*names));
	if (!names)
		return short_of_memory(err, errlen);
	json_object_foreach((json_t *)tunables, name, o)
		names[n++] = name;
	near = command_nearest(call->local, names, n);
	snprintf(err, errlen, "unknown tunable '%s'%s%s%s", call->local, near ? "; did you mean " :
		 "; `liftctl show` lists them", near ? near : "", near ? "?" : "");
	free(names);
	return -1;
}

static int print_scheduler(const struct command_call *call, const json_t *r, char *err,
			   size_t errlen)
{
	const json_t *names = json_object_get(r, "schedulers"), *v;
	const char *current = text(r, "scheduler"), *name;
	size_t i;

	(void)err; (void)errlen;
	if (call->setting)
		return 0;
	if (!json_array_size(names))
		printf("[%s]", current);
	json_array_foreach(names, i, v) {
		name = json_string_value(v) ? json_string_value(v) : "?";
		printf(strcmp(name, current) ? "%s%s" : "%s[%s]", i ? " " : "", name);
	}
	putchar('\n');
	return 0;
}

/* Which part of the list of settings one belongs to. */
enum part { PART_RUNTIME, PART_OTHERS, PART_START, PARTS };

static enum part part_of(const char *name, const json_t *o)
{
	if (strchr(name, '.'))
		return PART_OTHERS;
	return json_is_true(json_object_get(o, "runtime")) ? PART_RUNTIME : PART_START;
}

/* What a setting allows, without its unit, which has a column, and without a limit that is none. */
static void put_allowed(struct table *t, const json_t *o)
{
	const char *allowed = text(o, "allowed"), *unit = text(o, "unit"), *dots;
	size_t n = strlen(allowed), u = strlen(unit);

	dots = strstr(allowed, "..");
	if (dots && number(o, "max") > UINT64_C(1) << 60) {
		table_cell(t, "%.*s or more", (int)(dots - allowed), allowed);
		return;
	}
	if (u && n > u && !strcmp(allowed + n - u, unit) && allowed[n - u - 1] == ' ')
		n -= u + 1;
	table_cell(t, "%.*s", (int)n, allowed);
}

static int print_show(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	static const char *const headings[] = {
		"NAME", ">VALUE", ">DEFAULT", "UNIT", "ALLOWED", "MEANING", NULL
	};
	static const char *const titles[PARTS] = {
		[PART_OTHERS] = "\nof other schedulers (they count once switched to):",
		[PART_START] = "\nfixed while the server runs:",
	};
	const json_t *tunables = json_object_get(r, "tunables"), *o;
	struct table *t = table_new(headings);
	const char *name;
	char buf[HUMAN_MAX];

	(void)call;
	printf("%s on %s, scheduler %s, I/O by %s\n", text(r, "path"), text(r, "device"),
	       text(r, "scheduler"), text(r, "aio"));
	if (json_is_true(json_object_get(r, "buffered")))
		printf("This export is buffered: the kernel decides when and in which order data\n"
		       "goes to the disk. cache=none gives the scheduler control over writes.\n");
	putchar('\n');
	for (enum part part = 0; part < PARTS; part++) {
		bool any = false;

		json_object_foreach((json_t *)tunables, name, o) {
			if (part_of(name, o) != part)
				continue;
			if (!any && titles[part])
				table_line(t, titles[part]);
			any = true;
			table_cell(t, "%s", name);
			table_cell(t, "%s", value_text(json_object_get(o, "value"), buf));
			table_cell(t, "%s", value_text(json_object_get(o, "default"), buf));
			table_cell(t, "%s", text(o, "unit"));
			put_allowed(t, o);
			table_cell(t, "%s", text(o, "help"));
		}
	}
	return finish(t, err, errlen);
}

/* ---- clients ---- */

static int print_clients(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	static const char *const headings[] = {
		"CLIENT", "EXPORT", ">CONNECTIONS", ">WEIGHT", "CLASS", ">QUEUED", ">IN FLIGHT",
		">IOPS", ">BYTES/S", ">P50", ">P99", "WRITER", NULL
	};
	struct table *t = table_new(headings);
	char buf[HUMAN_MAX];
	const json_t *c;
	size_t i;

	(void)call;
	json_array_foreach(r, i, c) {
		table_cell(t, "%s", text(c, "id"));
		table_cell(t, "%s", text(c, "export"));
		table_cell(t, "%" PRIu64, number(c, "connections"));
		table_cell(t, "%" PRIu64, number(c, "weight"));
		table_cell(t, "%s", text(c, "class"));
		table_cell(t, "%" PRIu64, number(c, "queued"));
		table_cell(t, "%" PRIu64, number(c, "in_flight"));
		table_cell(t, "%" PRIu64, number(c, "iops"));
		table_cell(t, "%s", human_bytes(number(c, "bytes_per_s"), buf));
		table_cell(t, "%s", human_ns(number(c, "p50_us") * 1000, buf));
		table_cell(t, "%s", human_ns(number(c, "p99_us") * 1000, buf));
		table_cell(t, "%s", json_is_true(json_object_get(c, "writer")) ? "yes" : "no");
	}
	return finish(t, err, errlen);
}

/* ---- statistics ---- */

static const char *counter_text(const char *name, const json_t *v, char buf[HUMAN_MAX])
{
	uint64_t n = json_integer_value(v) > 0 ? json_integer_value(v) : 0;
	size_t len = strlen(name);

	if (!strncmp(name, "bytes_", 6) || !strcmp(name, "memory"))
		return human_bytes(n, buf);
	if (len > 3 && !strcmp(name + len - 3, "_ns"))
		return human_ns(n, buf);
	snprintf(buf, HUMAN_MAX, "%" PRIu64, n);
	return buf;
}

static const char *counter_help(const char *name)
{
	for (const struct command_counter *c = command_counters; c->name; c++)
		if (!strcmp(c->name, name))
			return c->help;
	return "";
}

static void put_latencies(struct table *t, const char *whose, const json_t *histograms)
{
	static const char *const marks[] = { "p50_us", "p90_us", "p99_us", "p999_us", "max_us" };
	const json_t *h;
	const char *name;
	char buf[HUMAN_MAX];

	json_object_foreach((json_t *)histograms, name, h) {
		table_cell(t, "%s", whose);
		table_cell(t, "%s", name);
		table_cell(t, "%" PRIu64, number(h, "count"));
		for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
			table_cell(t, "%s", human_ns(number(h, marks[i]) * 1000, buf));
	}
}

static int print_stats(const struct command_call *call, const json_t *r, char *err, size_t errlen)
{
	static const char *const counters[] = { "COUNTER", ">VALUE", "MEANING", NULL };
	static const char *const latencies[] = {
		"EXPORT", "TIME", ">COUNT", ">P50", ">P90", ">P99", ">P99.9", ">MAX", NULL
	};
	const json_t *exports = json_object_get(r, "exports"), *v;
	struct table *t = table_new(counters);
	char buf[HUMAN_MAX];
	const char *name;

	(void)call;
	json_object_foreach((json_t *)r, name, v) {
		if (!json_is_integer(v))
			continue;
		table_cell(t, "%s", name);
		table_cell(t, "%s", counter_text(name, v, buf));
		table_cell(t, "%s", counter_help(name));
	}
	if (finish(t, err, errlen))
		return -1;
	putchar('\n');
	t = table_new(latencies);
	if (json_object_size(exports) > 1)
		put_latencies(t, "(all)", json_object_get(r, "histograms"));
	json_object_foreach((json_t *)exports, name, v)
		put_latencies(t, name, json_object_get(v, "histograms"));
	return finish(t, err, errlen);
}

/* ---- by command ---- */

int print_result(const struct command_call *call, const json_t *result, char *err, size_t errlen)
{
	static const struct {
		const char *word;
		int (*print)(const struct command_call *call, const json_t *r, char *err,
			     size_t errlen);
	} printers[] = {
		{ "info", print_info },
		{ "list", print_list },
		{ "show", print_show },
		{ "get", print_get },
		{ "set", print_nothing },
		{ "scheduler", print_scheduler },
		{ "clients", print_clients },
		{ "client", print_nothing },
		{ "stats", print_stats },
		{ "reload", print_reload },
		{ "remove", print_nothing },
		{ "shutdown", print_nothing },
	};

	for (size_t i = 0; i < sizeof(printers) / sizeof(printers[0]); i++)
		if (command_is(call->command, printers[i].word))
			return printers[i].print(call, result, err, errlen);
	/* A command without a form for people. */
	json_dumpf(result, stdout, JSON_INDENT(2));
	putchar('\n');
	return 0;
}
