/*
 * Calls that wait for the main thread: server.reload until it has loaded the configuration, which
 * is answered with the report, and export.remove until the export has gone.
 */
#include <stdio.h>
#include <stdlib.h>

#include "server/control/call.h"

/* ---- reports ---- */

void control_report_init(struct control_report *r)
{
	STAILQ_INIT(&r->changed);
	STAILQ_INIT(&r->restart);
	STAILQ_INIT(&r->errors);
	r->no_memory = false;
}

static void free_lines(struct control_lines *lines)
{
	struct control_line *l;

	while ((l = STAILQ_FIRST(lines))) {
		STAILQ_REMOVE_HEAD(lines, link);
		free(l->text);
		free(l);
	}
}

void control_report_drop(struct control_report *r)
{
	free_lines(&r->changed);
	free_lines(&r->restart);
}

void control_report_free(struct control_report *r)
{
	if (!r)
		return;
	control_report_drop(r);
	free_lines(&r->errors);
}

void control_report_add(struct control_report *r, struct control_lines *to, const char *fmt, ...)
{
	struct control_line *l = calloc(1, sizeof(*l));
	va_list args;
	int n = -1;

	if (l) {
		va_start(args, fmt);
		n = vasprintf(&l->text, fmt, args);
		va_end(args);
	}
	if (n < 0) {
		free(l);
		r->no_memory = true;
		return;
	}
	STAILQ_INSERT_TAIL(to, l, link);
}

/* ---- calls that wait ---- */

struct control_later {
	json_t *id; /* NULL: a notification */
};

struct control_later *control_later_new(json_t *id)
{
	struct control_later *later = malloc(sizeof(*later));

	if (later)
		later->id = id ? json_incref(id) : NULL;
	return later;
}

void control_later_free(struct control_later *later)
{
	if (!later)
		return;
	json_decref(later->id);
	free(later);
}

static json_t *lines_json(struct call *call, const struct control_lines *lines)
{
	const struct control_line *l;
	json_t *list = json_array();

	STAILQ_FOREACH(l, lines, link)
		call_push(call, list, call_string(l->text));
	return list;
}

void control_removed(struct control_later *later, const char *wrong, struct control_reply *out)
{
	struct call call = { .result = json_object() };

	*out = (struct control_reply){ .text = NULL };
	if (wrong)
		call_fail(&call, CONTROL_NOT_FLUSHED, "%s", wrong);
	if (later->id)
		call_answer(&call, later->id, out);
	json_decref(call.result);
	control_later_free(later);
}

void control_reloaded(struct control_later *later, const struct control_report *r,
		      struct control_reply *out)
{
	struct call call = { .no_memory = r->no_memory };
	const struct control_line *l;
	unsigned n = 0;

	*out = (struct control_reply){ .text = NULL };
	STAILQ_FOREACH(l, &r->errors, link)
		n++;
	if (n) {
		call_fail(&call, CONTROL_NO_CONFIG, "the configuration was not loaded, nothing is "
			  "changed: %u error%s", n, n > 1 ? "s" : "");
		call.data = json_object();
		call_put(&call, call.data, "errors", lines_json(&call, &r->errors));
	} else {
		call.result = json_object();
		call_put(&call, call.result, "changed", lines_json(&call, &r->changed));
		call_put(&call, call.result, "restart", lines_json(&call, &r->restart));
		if (call.no_memory)
			call_fail(&call, CONTROL_INTERNAL, "out of memory");
	}
	if (later->id)
		call_answer(&call, later->id, out);
	json_decref(call.result);
	json_decref(call.data);
	control_later_free(later);
}
