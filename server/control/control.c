/*
 * The control protocol, from a line to a call and from its result to a line: see control.h.
 */
#include "server/control/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/control/call.h"

/*
 * Bounds on what a line may hold, far above any real call: a value costs the parser some hundred
 * bytes, so that a line of nothing but brackets would cost a hundred times its length.
 */
enum { MAX_DEPTH = 16, MAX_VALUES = 4096 };

/* ---- peers ---- */

int control_peer_get(int fd, struct control_peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred), bytes = 0;
	gid_t *groups;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	/* The first try only tells how many there are. */
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) || errno != ERANGE)
		bytes = 0;
	groups = malloc(sizeof(gid_t) + bytes);
	if (!groups)
		return -ENOMEM;
	if (bytes && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &bytes))
		bytes = 0;
	groups[0] = cred.gid;
	*peer = (struct control_peer){ cred.uid, groups, 1 + bytes / sizeof(gid_t) };
	return 0;
}

void control_peer_free(struct control_peer *peer)
{
	if (!peer)
		return;
	free(peer->groups);
	*peer = (struct control_peer){ 0 };
}

static bool may_change(const struct control *c, const struct control_peer *peer)
{
	return peer->uid == 0 || peer->uid == c->uid;
}

static bool may_read(const struct control *c, const struct control_peer *peer)
{
	for (unsigned i = 0; i < peer->ngroups; i++)
		if (peer->groups[i] == c->gid)
			return true;
	return may_change(c, peer);
}

/* ---- building blocks of answers ---- */

const char *call_shown(const char *text, char buf[CALL_SHOWN])
{
	size_t n = strlen(text), room = CALL_SHOWN - 4;
	bool cut = n > room;

	if (cut) {
		/* Not within a character: its further bytes are 10xxxxxx. */
		for (n = room; n && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
			;
	}
	memcpy(buf, text, n);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)buf[i] < ' ' || buf[i] == 0x7f)
			buf[i] = '?';
	memcpy(buf + n, cut ? "..." : "", cut ? 4 : 1);
	return buf;
}

json_t *call_string(const char *text)
{
	json_t *s = json_string(text);
	char *clean;

	if (s)
		return s;
	/* Not UTF-8, most likely a message that was cut within a character. */
	clean = strdup(text);
	if (!clean)
		return NULL;
	for (char *p = clean; *p; p++)
		if (*p & 0x80)
			*p = '?';
	s = json_string(clean);
	free(clean);
	return s;
}

json_t *call_number(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

void call_put(struct call *call, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value))
		call->no_memory = true;
}

void call_push(struct call *call, json_t *array, json_t *value)
{
	if (json_array_append_new(array, value))
		call->no_memory = true;
}

void call_fail(struct call *call, int code, const char *fmt, ...)
{
	va_list args;

	if (call->code)
		return;
	call->code = code;
	va_start(args, fmt);
	vsnprintf(call->message, sizeof(call->message), fmt, args);
	va_end(args);
}

void call_blame(struct call *call, const char *name, const json_t *value, const char *allowed)
{
	char shown[CALL_SHOWN];
	json_t *data = json_object(), *copy;

	if (json_is_string(value))
		copy = call_string(call_shown(json_string_value(value), shown));
	else if (json_is_object(value) || json_is_array(value))
		copy = json_string(json_is_object(value) ? "an object" : "an array");
	else
		copy = value ? json_incref((json_t *)value) : json_null();
	call_put(call, data, "name", call_string(name));
	call_put(call, data, "value", copy);
	call_put(call, data, "allowed", call_string(allowed));
	json_decref(call->data);
	call->data = data;
}

const char *call_text(const struct call *call, const char *name)
{
	return json_string_value(json_object_get(call->params, name));
}

/* ---- parameters ---- */

static const char *kind_name(enum command_kind kind)
{
	switch (kind) {
	case COMMAND_FLAG:
		return "true or false";
	case COMMAND_SETTINGS:
		return "an object of settings, as {\"NAME\": VALUE}";
	default:
		return "a string";
	}
}

static bool kind_fits(enum command_kind kind, const json_t *value)
{
	switch (kind) {
	case COMMAND_FLAG:
		return json_is_boolean(value);
	case COMMAND_SETTINGS:
		return json_is_object(value);
	default:
		return json_is_string(value);
	}
}

static void unknown_param(struct call *call, const char *name, const json_t *value)
{
	const struct command_param *params = call->command->params;
	const char *names[COMMAND_MAX_PARAMS], *near;
	char shown[CALL_SHOWN], all[128] = "";
	size_t n = 0, used = 0;

	for (; params[n].name; n++) {
		names[n] = params[n].name;
		used += snprintf(all + used, sizeof(all) - used, "%s%s", n ? ", " : "", names[n]);
	}
	near = command_nearest(name, names, n);
	call_fail(call, CONTROL_BAD_PARAMS, "unknown parameter '%s' of %s; %s%s%s",
		  call_shown(name, shown), call->command->method,
		  near ? "did you mean " : n ? "it takes " : "it takes none",
		  near ? near : all, near ? "?" : "");
	call_blame(call, shown, value, n ? all : "no parameters");
}

/* Do the parameters fit the command? Otherwise the call has failed. */
static bool check_params(struct call *call)
{
	const struct command_param *p;
	const json_t *value;
	const char *name;

	json_object_foreach(call->params, name, value) {
		p = command_param(call->command, name);
		if (!p) {
			unknown_param(call, name, value);
			return false;
		}
		if (!kind_fits(p->kind, value)) {
			call_fail(call, CONTROL_BAD_PARAMS, "parameter '%s' of %s must be %s", name,
				  call->command->method, kind_name(p->kind));
			call_blame(call, name, value, kind_name(p->kind));
			return false;
		}
		if (p->kind == COMMAND_SETTINGS && !json_object_size(value)) {
			call_fail(call, CONTROL_BAD_PARAMS, "parameter '%s' of %s is empty; "
				  "expected %s", name, call->command->method, kind_name(p->kind));
			call_blame(call, name, value, kind_name(p->kind));
			return false;
		}
	}
	for (p = call->command->params; p->name; p++) {
		if (p->required && !json_object_get(call->params, p->name)) {
			call_fail(call, CONTROL_BAD_PARAMS, "parameter '%s' of %s is missing; "
				  "expected %s", p->name, call->command->method,
				  kind_name(p->kind));
			call_blame(call, p->name, NULL, kind_name(p->kind));
			return false;
		}
	}
	return true;
}

/* ---- execution ---- */

static const struct call_handler *find_handler(const char *method)
{
	for (const struct call_handler *h = call_handlers; h->method; h++)
		if (!strcmp(h->method, method))
			return h;
	return NULL;
}

static void unknown_method(struct call *call, const char *method)
{
	const char *names[64], *near;
	char shown[CALL_SHOWN];
	size_t n = 0;

	for (const struct call_handler *h = call_handlers; h->method && n < 64; h++)
		names[n++] = h->method;
	near = command_nearest(method, names, n);
	call_fail(call, CONTROL_NO_METHOD, "unknown method '%s'%s%s%s", call_shown(method, shown),
		  near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static void execute(struct call *call, const struct control_peer *peer, const char *method)
{
	const struct call_handler *h = find_handler(method);

	call->command = h ? command_by_method(method) : NULL;
	if (!call->command) {
		unknown_method(call, method);
		return;
	}
	if (!(call->command->writes ? may_change : may_read)(call->control, peer)) {
		call_fail(call, CONTROL_NOT_PERMITTED, "permission denied: %s is for root and the "
			  "user (uid %u)%s that liftd runs as; you are uid %u", method,
			  (unsigned)call->control->uid, call->command->writes ? "" : " and group",
			  (unsigned)peer->uid);
		return;
	}
	if (check_params(call))
		h->handle(call);
	if (!call->code && (call->no_memory || (!call->result && !call->later)))
		call_fail(call, CONTROL_INTERNAL, "out of memory");
}

/* ---- requests ---- */

/* What a request says, once it is known to be one; borrowed from its JSON. */
struct request {
	const char *method;
	json_t *params; /* NULL: none */
	json_t *id;     /* NULL: a notification, or one whose id is of no use */
};

static bool no_request(struct call *call, const char *wrong)
{
	call_fail(call, CONTROL_NO_REQUEST, "%s", wrong);
	return false;
}

/* A member that requests do not have: a slip that would otherwise be ignored. */
static const char *unknown_member(json_t *root)
{
	const char *name;
	json_t *value;

	json_object_foreach(root, name, value)
		if (strcmp(name, "jsonrpc") && strcmp(name, "method") && strcmp(name, "params") &&
		    strcmp(name, "id"))
			return name;
	return NULL;
}

/* Takes a request apart; if it is none, the call has failed and is to be answered in any case. */
static bool read_request(struct call *call, json_t *root, struct request *rq)
{
	const json_t *version, *method, *id;
	char shown[CALL_SHOWN];
	const char *unknown;

	if (json_is_array(root))
		return no_request(call, "batches are not supported: send one request a line");
	if (!json_is_object(root))
		return no_request(call, "a request is an object, as {\"jsonrpc\": \"2.0\", "
				  "\"id\": 1, \"method\": \"export.list\"}");
	id = json_object_get(root, "id");
	if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
		return no_request(call, "id must be a string, a number or null");
	rq->id = (json_t *)id;
	version = json_object_get(root, "jsonrpc");
	if (!json_is_string(version) || strcmp(json_string_value(version), "2.0"))
		return no_request(call, version ? "jsonrpc must be \"2.0\"" :
				  "jsonrpc is missing; expected \"jsonrpc\": \"2.0\"");
	method = json_object_get(root, "method");
	if (!json_is_string(method))
		return no_request(call, method ? "method must be a string" : "method is missing");
	unknown = unknown_member(root);
	if (unknown) {
		call_fail(call, CONTROL_NO_REQUEST, "unknown member '%s' of the request; it may "
			  "have jsonrpc, id, method and params", call_shown(unknown, shown));
		return false;
	}
	rq->method = json_string_value(method);
	rq->params = json_object_get(root, "params");
	return true;
}

/* Cheap bounds before anything is allocated: the reason to refuse the line, or NULL. */
static const char *refuse_line(const char *line, size_t len)
{
	unsigned depth = 0, values = 0;
	bool quoted = false;

	if (memchr(line, '\0', len))
		return "the line has a NUL byte";
	for (size_t i = 0; i < len; i++) {
		if (quoted) {
			if (line[i] == '\\')
				i++;
			else if (line[i] == '"')
				quoted = false;
			continue;
		}
		switch (line[i]) {
		case '"':
			quoted = true;
			break;
		case '{': case '[':
			if (++depth > MAX_DEPTH)
				return "nested too deep";
			/* fall through */
		case ',':
			if (++values > MAX_VALUES)
				return "too many values";
			break;
		case '}': case ']':
			depth -= depth > 0;
			break;
		}
	}
	return NULL;
}

static json_t *parse_line(struct call *call, const char *line, size_t len)
{
	const char *refused = refuse_line(line, len);
	json_error_t error;
	json_t *root;

	if (refused) {
		call_fail(call, CONTROL_NO_JSON, "not a request: %s", refused);
		return NULL;
	}
	root = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (!root && json_error_code(&error) == json_error_invalid_utf8)
		call_fail(call, CONTROL_NO_JSON, "not JSON: not UTF-8 at byte %d of the line",
			  error.position);
	else if (!root && json_error_code(&error) == json_error_out_of_memory)
		call_fail(call, CONTROL_INTERNAL, "out of memory");
	else if (!root)
		call_fail(call, CONTROL_NO_JSON, "not JSON: %s (byte %d of the line)", error.text,
			  error.position);
	return root;
}

/* ---- answers ---- */

/* Builds the line. Without memory for it there is none. */
void call_answer(struct call *call, json_t *id, struct control_reply *out)
{
	json_t *root = json_object(), *error;
	char *text = NULL;
	size_t len;

	call->no_memory = false;
	call_put(call, root, "jsonrpc", json_string("2.0"));
	call_put(call, root, "id", id ? json_incref(id) : json_null());
	if (call->code) {
		error = json_object();
		call_put(call, error, "code", json_integer(call->code));
		call_put(call, error, "message", call_string(call->message));
		if (call->data)
			call_put(call, error, "data", json_incref(call->data));
		call_put(call, root, "error", error);
	} else {
		call_put(call, root, "result", json_incref(call->result));
	}
	/* One byte for the newline: measured first, then written into a buffer of our own. */
	len = call->no_memory ? 0 : json_dumpb(root, NULL, 0, JSON_COMPACT);
	if (len)
		text = malloc(len + 1);
	if (text && json_dumpb(root, text, len, JSON_COMPACT) == len) {
		text[len] = '\n';
		out->text = text;
		out->len = len + 1;
	} else {
		free(text);
	}
	json_decref(root);
}

void control_handle(const struct control *c, const struct control_peer *peer, const char *line,
		    size_t len, struct control_reply *out)
{
	struct call call = { .control = c };
	struct request rq = { NULL, NULL, NULL };
	bool silent = false;
	json_t *root;

	*out = (struct control_reply){ .text = NULL };
	root = parse_line(&call, line, len);
	if (root && read_request(&call, root, &rq)) {
		silent = !rq.id;
		call.params = rq.params ? json_incref(rq.params) : json_object();
		if (call.params && !json_is_object(call.params)) {
			call_fail(&call, CONTROL_BAD_PARAMS, "params must be an object, by name");
			call_blame(&call, "params", call.params, "an object");
		} else if (!call.params) {
			call_fail(&call, CONTROL_INTERNAL, "out of memory");
		} else {
			execute(&call, peer, rq.method);
		}
	}
	if (call.later && !call.code)
		out->later = control_later_new(rq.id);
	out->removing = call.removing;
	if (call.later && !call.code && !out->later)
		call_fail(&call, CONTROL_INTERNAL, "out of memory");
	if (!silent && !out->later)
		call_answer(&call, rq.id, out);
	out->stop = call.stop;
	json_decref(call.params);
	json_decref(call.result);
	json_decref(call.data);
	json_decref(root);
}

void control_too_long(struct control_reply *out)
{
	struct call call = { .control = NULL };

	*out = (struct control_reply){ .text = NULL };
	call_fail(&call, CONTROL_NO_JSON, "the line is too long: at most %d bytes",
		  COMMAND_LINE_MAX);
	call_answer(&call, NULL, out);
}
