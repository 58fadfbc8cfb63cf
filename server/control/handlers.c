/*
 * What the methods do, except stats.get (stats.c). Results have the keys that the design's table of
 * methods gives. export.get with `help` adds for each tunable its help and what it allows.
 * client.list adds the sums since each client's start that rates are made of: requests answered,
 * bytes, service_ns (time that its operations spent in the store), and of `dispatched` requests
 * queue_sum_us and service_sum_us (until they were dispatched, and from there on); with
 * `histograms` also the histogram `total`, from arrival to completion, as in stats.get.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/policy.h"
#include "server/control/call.h"
#include "server/export/export.h"

#define NS_PER_US 1000u
#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u

/* ---- exports ---- */

void call_no_export(struct call *call, const char *name)
{
	const char *names[64], *near;
	struct export *e, *held[64];
	char shown[CALL_SHOWN], hint[2 * CALL_SHOWN];
	uint64_t cursor = 0;
	size_t n = 0;

	while (n < 64 && (e = export_next(call->control->server, &cursor))) {
		names[n] = export_name(e);
		held[n++] = e;
	}
	near = command_nearest(name, names, n);
	if (near)
		snprintf(hint, sizeof(hint), "; did you mean '%s'?", near);
	else if (n == 1)
		snprintf(hint, sizeof(hint), "; the only one is '%s'", names[0]);
	else
		snprintf(hint, sizeof(hint), "%s", n ? "; the list of exports names them" :
			 "; there are none");
	call_fail(call, CONTROL_NO_EXPORT, "no export is named '%s'%s", call_shown(name, shown),
		  hint);
	while (n)
		export_put(held[--n]);
}

struct export *call_export(struct call *call, const char *param)
{
	const char *name = call_text(call, param);
	struct export *e = export_find(call->control->server, name, strlen(name));

	if (!e && !*name)
		call_fail(call, CONTROL_NO_EXPORT, "there is no default export: name one");
	else if (!e)
		call_no_export(call, name);
	return e;
}

static json_t *policy_names(struct call *call)
{
	json_t *list = json_array();

	for (const struct elv_policy *const *p = elv_policies; *p; p++)
		call_push(call, list, json_string((*p)->name));
	return list;
}

static void export_list(struct call *call)
{
	struct export_summary s;
	uint64_t cursor = 0;
	struct export *e;
	json_t *row;

	call->result = json_array();
	while ((e = export_next(call->control->server, &cursor))) {
		export_summarize(e, &s);
		row = json_object();
		call_put(call, row, "name", call_string(s.name));
		call_put(call, row, "size", call_number(s.size));
		call_put(call, row, "readonly", json_boolean(s.readonly));
		call_put(call, row, "scheduler", json_string(s.policy->name));
		call_put(call, row, "schedulers", policy_names(call));
		call_put(call, row, "clients", call_number(s.clients));
		call_put(call, row, "connections", call_number(s.connections));
		call_put(call, row, "queued", call_number(s.queued));
		call_put(call, row, "in_flight", call_number(s.in_flight));
		call_put(call, row, "oldest_ms", call_number(s.oldest / NS_PER_MS));
		call_put(call, row, "flush_errors", call_number(s.flush_errors));
		call_push(call, call->result, row);
		export_put(e);
	}
}

/* ---- settings ---- */

/* What an export's `auto` comes to, or NULL where there is no number for it. */
static json_t *resolve_auto(const char *name, const struct export_summary *s)
{
	if (!strcmp(name, "queue_depth"))
		return call_number(s->depth);
	if (!strcmp(name, "rotational"))
		return call_number(s->rotational);
	return NULL;
}

/* A value in the row's unit: numbers and booleans as numbers, all else as text. */
static json_t *value_json(const struct tunable *row, const char *text)
{
	char *end;
	uint64_t n;

	if (!text)
		return json_null();
	if (row->kind == TUNABLE_STRING || row->kind == TUNABLE_ENUM)
		return call_string(text);
	n = strtoull(text, &end, 10);
	return end == text || *end ? call_string(text) : call_number(n);
}

/* The state of one walk over an export's tunables. */
struct walk {
	struct call *call;
	json_t *tunables;
	struct export_summary summary;
	bool help;
};

static void put_tunable(void *ctx, const struct export_tunable *t)
{
	struct walk *w = ctx;
	const struct tunable *row = t->row;
	bool ranged = row->kind != TUNABLE_STRING && row->kind != TUNABLE_ENUM;
	bool is_bool = row->kind == TUNABLE_BOOL;
	json_t *o = json_object(), *value = NULL;
	char allowed[256];

	if (row->can_be_auto && t->value && !strcmp(t->value, "auto"))
		value = resolve_auto(t->name, &w->summary);
	if (!value)
		value = value_json(row, t->value);
	call_put(w->call, o, "value", value);
	call_put(w->call, o, "default", value_json(row, t->dflt));
	call_put(w->call, o, "unit", json_string(tunable_unit_name(row->unit)));
	call_put(w->call, o, "min", ranged ? call_number(is_bool ? 0 : row->min) : json_null());
	call_put(w->call, o, "max", ranged ? call_number(is_bool ? 1 : row->max) : json_null());
	call_put(w->call, o, "runtime", json_boolean(row->when == WHEN_RUNTIME));
	if (w->help) {
		tunable_allowed(row, allowed, sizeof(allowed));
		call_put(w->call, o, "allowed", call_string(allowed));
		call_put(w->call, o, "help", call_string(row->help));
	}
	call_put(w->call, w->tunables, t->name, o);
}

static void put_settings(struct call *call, struct export *e, bool help)
{
	struct walk w = { .call = call, .tunables = json_object(), .help = help };

	export_summarize(e, &w.summary);
	call->result = json_object();
	call_put(call, call->result, "scheduler", json_string(w.summary.policy->name));
	if (export_each_tunable(e, put_tunable, &w))
		call->no_memory = true;
	call_put(call, call->result, "tunables", w.tunables);
	if (!help)
		return;
	call_put(call, call->result, "schedulers", policy_names(call));
	call_put(call, call->result, "path", call_string(w.summary.path));
	call_put(call, call->result, "device", call_string(w.summary.device));
	call_put(call, call->result, "aio", call_string(w.summary.aio));
	call_put(call, call->result, "buffered", json_boolean(w.summary.buffered));
}

static void export_get_call(struct call *call)
{
	struct export *e = call_export(call, "name");

	if (!e)
		return;
	put_settings(call, e, json_is_true(json_object_get(call->params, "help")));
	export_put(e);
}

/*
 * A JSON value as the rows' parser takes it: strings as they are, whole numbers in the row's unit,
 * booleans as words, so that only rows that are booleans take them. buf is for numbers.
 */
static const char *setting_text(const json_t *value, char *buf, size_t len)
{
	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_boolean(value))
		return json_is_true(value) ? "yes" : "no";
	if (json_is_integer(value)) {
		snprintf(buf, len, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return buf;
	}
	return NULL;
}

/* The settings of a call, for export_set and client_set. */
struct settings {
	struct setting *set;
	char (*number)[24];
	size_t n;
};

static void settings_free(struct settings *s)
{
	free(s->set);
	free(s->number);
}

/* False: the call has failed. Free it in any case. */
static bool settings_read(struct call *call, struct settings *s)
{
	static const char allowed[] = "a string, a whole number, true or false";
	const json_t *object = json_object_get(call->params, "set"), *value;
	size_t n = json_object_size(object);
	char shown[CALL_SHOWN];
	const char *name;

	s->n = 0;
	s->set = calloc(n, sizeof(*s->set));
	s->number = calloc(n, sizeof(*s->number));
	if (!s->set || !s->number) {
		call_fail(call, CONTROL_INTERNAL, "out of memory");
		return false;
	}
	json_object_foreach((json_t *)object, name, value) {
		const char *text = setting_text(value, s->number[s->n], sizeof(*s->number));

		if (!text) {
			call_shown(name, shown);
			call_fail(call, CONTROL_BAD_PARAMS, "%s: the value must be %s", shown,
				  allowed);
			call_blame(call, shown, value, allowed);
			return false;
		}
		s->set[s->n++] = (struct setting){ name, text };
	}
	return true;
}

/* A setting was refused: name, value as the caller gave it, and what is allowed. */
static void bad_setting(struct call *call, int error, const struct setting_error *err)
{
	json_t *set = json_object_get(call->params, "set"), *text = NULL;
	json_t *given = json_object_get(set, err->name);

	if (error == -ENOMEM) {
		call_fail(call, CONTROL_INTERNAL, "%s", *err->text ? err->text : "out of memory");
		return;
	}
	call_fail(call, CONTROL_BAD_PARAMS, "%s", err->text);
	if (!given)
		text = call_string(err->value);
	call_blame(call, err->name, given ? given : text, err->allowed);
	json_decref(text);
}

static void export_set_call(struct call *call)
{
	struct export *e = call_export(call, "name");
	struct setting_error err = { .name = "" };
	struct settings s = { 0 };
	int r;

	if (!e)
		return;
	if (settings_read(call, &s)) {
		r = export_set(e, s.set, s.n, &err);
		if (r)
			bad_setting(call, r, &err);
		else
			put_settings(call, e, false);
	}
	settings_free(&s);
	export_put(e);
}

/* The name must be whole: "" is nobody's. */
static void export_remove_call(struct call *call)
{
	const char *name = call_text(call, "name");

	switch (export_remove(call->control->server, name, &call->removing)) {
	case 0:
		call->later = true;
		break;
	case -ENOENT:
		call_no_export(call, name);
		break;
	case -ENOTSUP:
		call_fail(call, CONTROL_NO_METHOD, "%s is not possible here: the export belongs to "
			  "the program that this server is part of", call->command->method);
		break;
	case -ESHUTDOWN:
		call_fail(call, CONTROL_STOPPING, "the server is stopping");
		break;
	default:
		call_fail(call, CONTROL_INTERNAL, "out of memory");
	}
}

/* ---- clients ---- */

/* total: its latencies, or NULL. */
static json_t *client_json(struct call *call, const struct client_summary *c,
			   const struct histogram *total)
{
	const struct tunable *io_class = tunable_find(elv_client_rows, "class");
	json_t *row = json_object();
	char word[32];

	tunable_print(io_class, c->params.io_class, word, sizeof(word));
	call_put(call, row, "id", call_string(c->id));
	call_put(call, row, "export", call_string(c->export_name));
	call_put(call, row, "connections", call_number(c->connections));
	call_put(call, row, "writer", json_boolean(c->writer));
	call_put(call, row, "weight", call_number(c->params.weight));
	call_put(call, row, "class", json_string(word));
	call_put(call, row, "queued", call_number(c->queued));
	call_put(call, row, "in_flight", call_number(c->in_flight));
	call_put(call, row, "iops", call_number(c->iops));
	call_put(call, row, "bytes_per_s", call_number(c->bytes_per_s));
	call_put(call, row, "p50_us", call_number((c->p50 + NS_PER_US / 2) / NS_PER_US));
	call_put(call, row, "p99_us", call_number((c->p99 + NS_PER_US / 2) / NS_PER_US));
	call_put(call, row, "requests", call_number(c->requests));
	call_put(call, row, "bytes", call_number(c->bytes));
	call_put(call, row, "service_ns", call_number(c->device_time));
	call_put(call, row, "dispatched", call_number(c->times));
	call_put(call, row, "queue_sum_us", call_number(c->queue_time / NS_PER_US));
	call_put(call, row, "service_sum_us", call_number(c->service_time / NS_PER_US));
	if (total)
		call_put(call, row, "total", call_histogram(call, total));
	return row;
}

/* Adds the clients of one export to the result; id NULL: those that are there, else the one. */
static void put_clients(struct call *call, struct export *e, const char *id)
{
	bool histograms = json_is_true(json_object_get(call->params, "histograms"));
	struct client_summary *list = NULL;
	struct histogram *total = NULL;
	size_t n = 0;

	if (export_clients(e, id, &list, histograms ? &total : NULL, &n)) {
		call->no_memory = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (!id || !strcmp(list[i].id, id))
			call_push(call, call->result,
				  client_json(call, &list[i], total ? &total[i] : NULL));
	free(list);
	free(total);
}

/* The result: clients of one export (of all: NULL), or one client there. */
static void list_clients(struct call *call, struct export *only, const char *id)
{
	uint64_t cursor = 0;
	struct export *e;

	call->result = json_array();
	if (only) {
		put_clients(call, only, id);
		return;
	}
	while ((e = export_next(call->control->server, &cursor))) {
		put_clients(call, e, id);
		export_put(e);
	}
}

static void client_list(struct call *call)
{
	struct export *e = NULL;

	if (call_text(call, "export")) {
		e = call_export(call, "export");
		if (!e)
			return;
	}
	list_clients(call, e, NULL);
	export_put(e);
}

static void no_client(struct call *call, const char *id, const struct export *e)
{
	char shown[CALL_SHOWN];

	call_fail(call, CONTROL_NO_CLIENT, "no client is known as '%s'%s; the list of clients "
		  "names them", call_shown(id, shown), e ? " at this export" : "");
}

static void client_set_call(struct call *call)
{
	const char *id = call_text(call, "id");
	struct setting_error err = { .name = "" };
	struct settings s = { 0 };
	struct export *e = NULL;
	int r;

	if (call_text(call, "export")) {
		e = call_export(call, "export");
		if (!e)
			return;
	}
	if (settings_read(call, &s)) {
		r = client_set(call->control->server, e, id, s.set, s.n, NULL, &err);
		if (r == -ESRCH)
			no_client(call, id, e);
		else if (r)
			bad_setting(call, r, &err);
		else
			list_clients(call, e, id);
	}
	settings_free(&s);
	export_put(e);
}

/*
 * client.disconnect and client.drain do not wait: a drain may take as long as the client likes to
 * leave answers unread. The result is what the order found.
 */
static void end_client(struct call *call, enum client_end how)
{
	const char *id = call_text(call, "id");
	struct export *e = NULL;
	int r;

	if (call_text(call, "export")) {
		e = call_export(call, "export");
		if (!e)
			return;
	}
	list_clients(call, e, id);
	if (call->no_memory)
		r = -ENOMEM;
	else if (!json_array_size(call->result))
		r = -ESRCH;
	else
		r = client_end(call->control->server, e, id, how);
	if (r == -ESRCH)
		no_client(call, id, e);
	else if (r == -ENOTSUP)
		call_fail(call, CONTROL_NO_METHOD, "%s is not possible here: the connections "
			  "belong to the program that this server is part of",
			  call->command->method);
	else if (r)
		call_fail(call, CONTROL_INTERNAL, "out of memory");
	export_put(e);
}

static void client_disconnect(struct call *call)
{
	end_client(call, CLIENT_DISCONNECT);
}

static void client_drain(struct call *call)
{
	end_client(call, CLIENT_DRAIN);
}

/* ---- the server ---- */

static void server_info_call(struct call *call)
{
	struct server_info info;

	server_info(call->control->server, &info);
	call->result = json_object();
	call_put(call, call->result, "version", json_string(LIFTD_VERSION));
	call_put(call, call->result, "pid", json_integer(info.pid));
	call_put(call, call->result, "uptime_s", call_number(info.uptime / NS_PER_S));
	call_put(call, call->result, "threads", call_number(info.threads));
	call_put(call, call->result, "policies", policy_names(call));
}

static void server_shutdown(struct call *call)
{
	call->result = json_object();
	call->stop = true;
}

static void server_reload(struct call *call)
{
	if (!call->control->can_reload)
		call_fail(call, CONTROL_NO_CONFIG,
			  "there is no configuration to load again: the server was "
			  "started with images");
	call->later = true;
}

const struct call_handler call_handlers[] = {
	{ "server.info", server_info_call },
	{ "server.reload", server_reload },
	{ "server.shutdown", server_shutdown },
	{ "export.list", export_list },
	{ "export.get", export_get_call },
	{ "export.set", export_set_call },
	{ "export.remove", export_remove_call },
	{ "client.list", client_list },
	{ "client.set", client_set_call },
	{ "client.disconnect", client_disconnect },
	{ "client.drain", client_drain },
	{ "stats.get", call_stats_get },
	{ NULL, NULL }
};
