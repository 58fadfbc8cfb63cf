/* A server, calls to it, and what the tests of server/control expect: see control_calls.h. */
#include "tests/unit/control_calls.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/registry.h"

struct server server;
static struct server_params params;
static unsigned idle_refs;
struct control control = { .server = &server, .uid = SERVER_UID, .gid = SERVER_GID };

static gid_t some_groups[] = { 100, 101 }, server_groups[] = { 100, SERVER_GID };
const struct control_peer root = { 0, some_groups, 2 };
const struct control_peer owner = { SERVER_UID, some_groups, 2 };
const struct control_peer member = { 1001, server_groups, 2 };
const struct control_peer stranger = { 1001, some_groups, 2 };

static void add_export(const char *name, const char *scheduler)
{
	const struct setting set[] = {
		{ "name", name }, { "path", "null:" }, { "size", "64M" },
		{ "scheduler", scheduler },
	};
	struct export_settings st;
	struct setting_error bad;
	struct export *e;
	char err[512];

	ck_assert_int_eq(export_settings_init(&st), 0);
	ck_assert_msg(!export_settings_set(&st, set, 4, &bad), "%s", bad.text);
	ck_assert_msg(!export_open(&server, &st, &e, err, sizeof(err)), "%s", err);
	export_settings_free(&st);
}

void control_setup(void)
{
	ck_assert_int_eq(tunable_defaults(server_rows, &params), 0);
	ck_assert_int_eq(server_init(&server, &params), 0);
	add_export("disk", "deadline");
	add_export("b\xc3\xa4r", "noop");
	idle_refs = TAILQ_FIRST(&server.exports)->refs;
}

void control_teardown(void)
{
	struct export *e;

	/* Whatever the calls were, no reference is left. */
	TAILQ_FOREACH(e, &server.exports, link)
		ck_assert_uint_eq(e->refs, idle_refs);
	server_exit(&server);
	tunable_free(server_rows, &params);
}

/* ---- calls ---- */

/* For what runs often: ck_assert() logs every pass, this only a failure. */
#define must(cond) \
	do { \
		if (!(cond)) \
			ck_abort_msg("%s: %.300s", #cond, line); \
	} while (0)

json_t *ask_bytes(const struct control_peer *peer, const char *line, size_t len)
{
	char *exact = malloc(len ? len : 1);
	struct control_reply reply;
	json_t *answer, *error;

	for (size_t i = 0; i < len; i++)
		exact[i] = line[i] == '\'' ? '"' : line[i];
	control_handle(&control, peer, exact, len, &reply);
	free(exact);
	if (!reply.text) {
		must(!reply.len);
		return NULL;
	}
	must(memchr(reply.text, '\n', reply.len) == reply.text + reply.len - 1);
	answer = json_loadb(reply.text, reply.len, JSON_REJECT_DUPLICATES, NULL);
	free(reply.text);
	must(answer);
	must(!strcmp(json_string_value(json_object_get(answer, "jsonrpc")), "2.0"));
	must(json_object_get(answer, "id"));
	error = json_object_get(answer, "error");
	must(!error == !!json_object_get(answer, "result"));
	must(json_object_size(answer) == 3);
	must(!error || json_integer_value(json_object_get(error, "code")) < 0);
	must(!error || *json_string_value(json_object_get(error, "message")));
	return answer;
}

json_t *ask(const struct control_peer *peer, const char *line)
{
	return ask_bytes(peer, line, strlen(line));
}

json_t *result_of(const char *method, const char *members)
{
	json_t *answer, *result;
	char line[1024];

	snprintf(line, sizeof(line), "{'jsonrpc':'2.0','id':7,'method':'%s'%s%s}", method,
		 *members ? ",'params':" : "", members);
	answer = ask(&root, line);
	result = json_object_get(answer, "result");
	ck_assert_msg(result, "%s: %s", line, json_string_value(
		      json_object_get(json_object_get(answer, "error"), "message")));
	ck_assert_int_eq(json_integer_value(json_object_get(answer, "id")), 7);
	json_incref(result);
	json_decref(answer);
	return result;
}

json_t *refused(const struct control_peer *peer, const char *line, size_t len, int code,
		       const char *part)
{
	json_t *answer = ask_bytes(peer, line, len), *error = json_object_get(answer, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	long long got = json_integer_value(json_object_get(error, "code"));

	ck_assert_msg(error, "answered: %.200s", line);
	ck_assert_msg(got == code && strstr(message, part), "%.200s: %lld '%s', expected %d '%s'",
		      line, got, message, code, part);
	return answer;
}

void refuses(const char *line, int code, const char *part)
{
	json_decref(refused(&root, line, strlen(line), code, part));
}

/* A setting of an export, as export.get has it, to be freed. */
static json_t *tunable(const char *export, const char *name)
{
	char members[128];
	json_t *result, *row;

	snprintf(members, sizeof(members), "{'name':'%s'}", export);
	result = result_of("export.get", members);
	row = json_incref(json_object_get(json_object_get(result, "tunables"), name));
	ck_assert_msg(row, "%s has no %s", export, name);
	json_decref(result);
	return row;
}

long long value(const char *export, const char *name)
{
	json_t *row = tunable(export, name), *v = json_object_get(row, "value");
	long long n = json_integer_value(v);

	ck_assert(json_is_integer(v));
	json_decref(row);
	return n;
}
