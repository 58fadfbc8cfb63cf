/*
 * One call on its way through server/control: what control.c hands to a handler, and what a handler
 * answers. Private to this folder.
 */
#ifndef SERVER_CONTROL_CALL_H
#define SERVER_CONTROL_CALL_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/control/commands.h"
#include "server/control/control.h"

struct export;
struct histogram;

struct call {
	const struct control *control;
	const struct command *command;
	json_t *params;   /* an object that fits command->params */
	json_t *result;   /* set by the handler, unless it fails */
	int code;         /* 0, or the error: call_fail */
	char message[1024];
	json_t *data;     /* of the error; may be NULL */
	bool no_memory;   /* something of the result could not be made */
	bool stop;        /* the server is to stop after the answer */
	bool later;       /* the answer is control_reloaded's, or, with */
	uint64_t removing; /* the serial of an export, control_removed's */
};

/* Methods by name. A row of the command table without a handler here is an unknown method. */
struct call_handler {
	const char *method;
	void (*handle)(struct call *call);
};
extern const struct call_handler call_handlers[]; /* ended by a row without a method */

/* The call fails with this code and sentence. Only the first failure counts. */
void call_fail(struct call *call, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The data of a -32602. value is borrowed, long strings are cut; NULL: null. */
void call_blame(struct call *call, const char *name, const json_t *value, const char *allowed);

/* Foreign text for a sentence: control characters replaced, cut to what fits. Returns buf. */
enum { CALL_SHOWN = 80 };
const char *call_shown(const char *text, char buf[CALL_SHOWN]);

/* The text of a parameter, or NULL if it was not given. */
const char *call_text(const struct call *call, const char *name);

/* The export that a parameter names, with a reference; NULL after call_fail. */
struct export *call_export(struct call *call, const char *param);

/* The call fails: no export has this name. */
void call_no_export(struct call *call, const char *name);

/* Values; a failure is noted in call->no_memory. The container takes the reference of value. */
void call_put(struct call *call, json_t *object, const char *key, json_t *value);
void call_push(struct call *call, json_t *array, json_t *value);
json_t *call_number(uint64_t n);      /* beyond 2^63 - 1: that */
json_t *call_string(const char *text); /* bytes that are no UTF-8 are replaced */

/* Builds the line, or leaves *out without text for lack of memory. id NULL: null. */
void call_answer(struct call *call, json_t *id, struct control_reply *out);

/* A call with this id (NULL: none, it is not answered) waits (report.c). NULL: no memory. */
struct control_later *control_later_new(json_t *id);

/* stats.get (stats.c), and a histogram as it stands there. */
void call_stats_get(struct call *call);
json_t *call_histogram(struct call *call, const struct histogram *h);

#endif
