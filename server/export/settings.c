#include "server/export/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/access.h"
#include "server/export/endpoint.h"

/* ---- the rows ---- */

#define SERVER(field) .offset = offsetof(struct server_params, field), .scope = SCOPE_SERVER
#define RUNTIME(field) SERVER(field), .when = WHEN_RUNTIME

static const char *const tls_words[] = { "off", "allow", "require", NULL };
static const char *const log_levels[] = { "error", "warning", "info", "debug", NULL };

const struct tunable server_rows[] = {
	{ .name = "listen", .kind = TUNABLE_STRING, .repeatable = true, .min = 1, .max = 300,
	  .check = endpoint_check_listen, SERVER(listen),
	  .help = "address and port to listen on, as 10.0.0.1:10809 or [::]:10809",
	  .paragraph = "localhost is 127.0.0.1 and, where there is one, ::1; [::] is all "
		"addresses, those of IPv4 as well; vsock:PORT is for virtual machines and their "
		"host, vsock:CID:PORT for this CID alone. By default it is localhost:10809, or "
		"nothing where unix is set. After the address, with blanks between them: tls=off, "
		"tls=allow or tls=require, here instead of the server's; readonly: clients that "
		"come here may only read." },
	{ .name = "unix", .kind = TUNABLE_STRING, .repeatable = true, .min = 1, .max = 300,
	  .check = endpoint_check_unix, SERVER(unix_sockets),
	  .help = "path of a Unix socket to listen on",
	  .paragraph = "After the path the words of listen, and mode=0660 (by default as the umask "
		"says) and group=NAME for the socket's file. The path cannot have blanks." },
	{ .name = "control", .kind = TUNABLE_STRING, .max = 107, SERVER(control),
	  .help = "path of the control socket",
	  .paragraph = "By default control.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/liftd or "
		"/run/liftd. If it is set, the server does not start without it." },
	{ .name = "threads", .kind = TUNABLE_UINT, .min = 1, .max = 256, .dflt = TUNABLE_AUTO,
	  .can_be_auto = true, SERVER(threads),
	  .help = "threads that serve connections; auto: one per processor" },
	{ .name = "handshake_timeout", .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 100,
	  .max = 3600000, .dflt = 10000, RUNTIME(handshake_timeout),
	  .help = "longest that a client may take to choose an export" },
	{ .name = "stall_timeout", .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 100,
	  .max = 86400000, .dflt = 60000, RUNTIME(stall_timeout),
	  .help = "longest that a reply may wait to be read, or a payload to be complete",
	  .paragraph = "The connection is closed then: it holds memory that others may want." },
	{ .name = "drain_timeout", .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = 3600000,
	  .dflt = 10000, RUNTIME(drain_timeout),
	  .help = "longest that the server goes on with received requests when it is stopped" },
	{ .name = "keepalive", .kind = TUNABLE_TIME, .unit = UNIT_S, .max = 32767, .dflt = 60,
	  RUNTIME(keepalive),
	  .help = "time without a word from a client on TCP, after which it is asked; 0: never",
	  .paragraph = "One that does not answer for a minute then is gone. It holds for new "
		"connections." },
	{ .name = "user_timeout", .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = 86400000,
	  RUNTIME(user_timeout),
	  .help = "longest that data may stay unacknowledged on TCP; 0: as the kernel does",
	  .paragraph = "The connection is closed then. It holds for new connections." },
	{ .name = "max_connections", .kind = TUNABLE_UINT, .min = 1, .max = 1000000, .dflt = 16384,
	  RUNTIME(max_connections), .help = "most connections; more wait to be accepted" },
	{ .name = "memory", .kind = TUNABLE_SIZE, .unit = UNIT_BYTES, .min = 64ull << 20,
	  .max = 1ull << 50, .dflt = 256ull << 20, SERVER(memory),
	  .help = "most memory for the data of requests",
	  .paragraph = "When it is used up, sockets are read no further until some of it is free: "
		"first come, first served, and a client that holds nothing always gets one "
		"request." },
	{ .name = "tls", .kind = TUNABLE_ENUM, .choices = tls_words, RUNTIME(tls),
	  .help = "encryption: none, for clients that ask for it, or for all",
	  .paragraph = "allow leaves it to the client, so it keeps nobody out; require refuses those "
		"that do not ask." },
	{ .name = "tls_certificates", .kind = TUNABLE_STRING, .max = 4096,
	  RUNTIME(tls_certificates),
	  .help = "folder with server-cert.pem and server-key.pem, for TLS",
	  .paragraph = "With tls_verify_peer also ca-cert.pem, and if there is one ca-crl.pem, what "
		"these authorities have revoked. They are read at the start and by each reload; "
		"connections go on with what they have. The key must not be readable for "
		"everybody." },
	{ .name = "tls_psk", .kind = TUNABLE_STRING, .max = 4096, RUNTIME(tls_psk),
	  .help = "file of users and their keys, for TLS without certificates",
	  .paragraph = "A line for each: USER:HEXKEY, as psktool writes it. It is read when the "
		"certificates are, and must not be readable for everybody." },
	{ .name = "tls_verify_peer", .kind = TUNABLE_BOOL, RUNTIME(tls_verify_peer),
	  .help = "clients must have a certificate that ca-cert.pem has signed",
	  .paragraph = "Those with a pre-shared key have shown who they are without one." },
	{ .name = "default_export", .kind = TUNABLE_STRING, .max = 4096, RUNTIME(default_export),
	  .help = "export of clients that ask for none; by default the only one" },
	{ .name = "user", .kind = TUNABLE_STRING, .max = 255, SERVER(user),
	  .help = "user to become once images and sockets are open" },
	{ .name = "group", .kind = TUNABLE_STRING, .max = 255, SERVER(group),
	  .help = "group to become; by default the user's" },
	{ .name = "pid_file", .kind = TUNABLE_STRING, .max = 4095, SERVER(pid_file),
	  .help = "file to write the process id to" },
	{ .name = "log", .kind = TUNABLE_ENUM, .choices = log_levels, .dflt = 2, RUNTIME(log),
	  .help = "what is written to the error output" },
	{ .name = NULL }
};

#define EXPORT(field) .offset = offsetof(struct export_params, field), .scope = SCOPE_EXPORT

enum { DEFAULT_POLICY = 2 }; /* cfq; tests/unit/test_export.c looks whether it still is */

static const char *scheduler_names[ELV_MAX_POLICIES + 1];

static const char *const writers_words[] = {
	[WRITERS_MANY] = "many", [WRITERS_ONE] = "one", [WRITERS_IDENTITY] = "identity", NULL
};

static const char *const client_keys[] = {
	[CLIENT_KEY_AUTO] = "auto",
	[CLIENT_KEY_ADDRESS] = "address",
	[CLIENT_KEY_UID] = "uid",
	[CLIENT_KEY_PROCESS] = "process",
	[CLIENT_KEY_CONNECTION] = "connection",
	[CLIENT_KEY_TLS] = "tls",
	[CLIENT_KEY_EXPORT] = "export",
	NULL
};

const struct tunable export_rows[] = {
	{ .name = "name", .kind = TUNABLE_STRING, .max = 4096, EXPORT(name), .when = WHEN_START,
	  .help = "what clients ask for" },
	{ .name = "description", .kind = TUNABLE_STRING, .max = 4096, EXPORT(description),
	  .when = WHEN_RUNTIME, .help = "text for people who look for an export" },
	{ .name = "scheduler", .kind = TUNABLE_ENUM, .choices = scheduler_names,
	  .dflt = DEFAULT_POLICY, EXPORT(scheduler), .when = WHEN_RUNTIME,
	  .help = "policy that chooses which request goes next" },
	{ .name = "client_key", .kind = TUNABLE_ENUM, .choices = client_keys, EXPORT(client_key),
	  .when = WHEN_START, .help = "which connections are one client and have one share",
	  .paragraph = "auto: those with one TLS name (common name of a certificate, user of a "
		"PSK); without one, on a Unix socket those of one process, on TCP those from one "
		"address, on vsock those of one machine. What a connection does not have (a process on TCP) counts as auto." },
	{ .name = "device_group", .kind = TUNABLE_STRING, .max = 255, EXPORT(device_group),
	  .when = WHEN_START, .help = "exports of one group share the depth of one disk",
	  .paragraph = "By default exports share if their images are on one device." },
	{ .name = "access", .kind = TUNABLE_STRING, .max = 4096, .check = access_check,
	  EXPORT(access), .when = WHEN_RUNTIME,
	  .help = "who may attach, as ip:10.0.0.0/8 rw, tls:backup* ro; empty: everybody",
	  .paragraph = "Entries MATCH rw, ro or no, with commas between them. MATCH is "
		"ip:ADDRESS, ip:ADDRESS/PREFIX, tls:NAME (an asterisk at its end stands for any "
		"rest), uid:N or gid:N (of a process on a Unix socket), cid:N (of a machine on "
		"vsock), unix (any Unix socket) or * (anybody). Of each kind the most specific "
		"entry that matches counts; if one of them is no, that is it, else the one that "
		"permits most. unix counts where none of these matches, and * where unix does not "
		"either. Whom nothing matches is refused, and does not see the export in a list. "
		"When it is changed, connections that are there stay as they are." },
	{ .name = "writers", .kind = TUNABLE_ENUM, .choices = writers_words, EXPORT(writers),
	  .when = WHEN_RUNTIME,
	  .help = "who may write at a time: all, one connection, or the connections of one client",
	  .paragraph = "Others are refused, but for those that may only read, for as long as the "
		"writer is there. When it is changed, connections that are there stay." },
	{ .name = "export_connections", .kind = TUNABLE_UINT, .max = 1000000,
	  EXPORT(export_connections), .when = WHEN_RUNTIME,
	  .help = "most connections of the export; 0: no limit" },
	{ .name = "client_connections", .kind = TUNABLE_UINT, .max = 1000000,
	  EXPORT(client_connections), .when = WHEN_RUNTIME,
	  .help = "most connections that one client has at the export; 0: no limit" },
	{ .name = NULL }
};

/* The words of `scheduler` come from the table of policies; before other constructors use them. */
__attribute__((constructor(101))) static void name_schedulers(void)
{
	for (unsigned i = 0; elv_policies[i]; i++)
		scheduler_names[i] = elv_policies[i]->name;
}

/* ---- the settings of an export as a whole ---- */

/* Calls do_it for each table and the struct that it lays out; stops at the first failure. */
static int each_table(struct export_settings *a, struct export_settings *b,
		      int (*do_it)(const struct tunable *rows, void *a, void *b))
{
	int res = do_it(export_rows, &a->export, b ? &b->export : NULL);

	if (!res)
		res = do_it(store_rows, &a->store, b ? &b->store : NULL);
	if (!res)
		res = do_it(elv_rows, &a->elv, b ? &b->elv : NULL);
	for (unsigned i = 0; !res && elv_policies[i]; i++)
		if (a->policy[i])
			res = do_it(elv_policies[i]->rows, a->policy[i], b ? b->policy[i] : NULL);
	return res;
}

static int do_defaults(const struct tunable *rows, void *a, void *unused)
{
	(void)unused;
	return tunable_defaults(rows, a);
}

static int do_copy(const struct tunable *rows, void *a, void *b)
{
	return tunable_copy(rows, a, b);
}

static int do_free(const struct tunable *rows, void *a, void *unused)
{
	(void)unused;
	tunable_free(rows, a);
	return 0;
}

static int alloc_policies(struct export_settings *st)
{
	memset(st, 0, sizeof(*st));
	for (unsigned i = 0; elv_policies[i]; i++) {
		st->policy[i] = calloc(1, elv_policies[i]->params_size + 1);
		if (!st->policy[i])
			return -ENOMEM;
	}
	return 0;
}

void export_settings_free(struct export_settings *st)
{
	if (!st)
		return;
	each_table(st, NULL, do_free);
	for (unsigned i = 0; elv_policies[i]; i++) {
		free(st->policy[i]);
		st->policy[i] = NULL;
	}
}

int export_settings_init(struct export_settings *st)
{
	int res = alloc_policies(st);

	if (!res)
		res = each_table(st, NULL, do_defaults);
	if (res)
		export_settings_free(st);
	return res;
}

int export_settings_copy(struct export_settings *dst, const struct export_settings *src)
{
	int res = alloc_policies(dst);

	if (!res)
		res = each_table(dst, (struct export_settings *)src, do_copy);
	if (res)
		export_settings_free(dst);
	return res;
}

const struct elv_policy *export_settings_policy(const struct export_settings *st)
{
	return elv_policies[st->export.scheduler];
}

/* ---- names ---- */

static const struct elv_policy *other_with(const char *name, const struct elv_policy *policy)
{
	for (unsigned i = 0; elv_policies[i]; i++)
		if (elv_policies[i] != policy && tunable_find(elv_policies[i]->rows, name))
			return elv_policies[i];
	return NULL;
}

static bool found(struct setting_place *out, const struct tunable *rows, void *base,
		  const struct elv_policy *policy, const char *name)
{
	out->row = tunable_find(rows, name);
	out->base = base;
	out->policy = policy;
	return out->row;
}

/* POLICY.NAME, cut at dot. */
static int resolve_dotted(struct export_settings *st, const char *name, const char *dot,
			  struct setting_place *out, char *err, size_t errlen)
{
	char word[TUNABLE_NAME_MAX + 1];
	const struct elv_policy *p;
	size_t len = (size_t)(dot - name);

	if (len < sizeof(word)) {
		memcpy(word, name, len);
		word[len] = '\0';
		p = elv_policy_find(word);
		if (p) {
			const struct tunable *tables[] = { p->rows, NULL };

			if (found(out, p->rows, st->policy[elv_policy_index(p)], p, dot + 1))
				return 0;
			return tunable_unknown(tables, dot + 1, err, errlen);
		}
	}
	snprintf(err, errlen, "unknown tunable '%.*s': '%.*s' is no scheduler", 130, name,
		 (int)(len < 64 ? len : 64), name);
	return -ENOENT;
}

int export_resolve(struct export_settings *st, const struct elv_policy *policy, const char *name,
		   struct setting_place *out, char *err, size_t errlen)
{
	const struct tunable *tables[] = { export_rows, store_rows, elv_rows, policy->rows, NULL };
	const char *dot = strchr(name, '.');
	const struct elv_policy *other;

	if (dot)
		return resolve_dotted(st, name, dot, out, err, errlen);
	if (found(out, export_rows, &st->export, NULL, name) ||
	    found(out, store_rows, &st->store, NULL, name) ||
	    found(out, elv_rows, &st->elv, NULL, name) ||
	    found(out, policy->rows, st->policy[elv_policy_index(policy)], policy, name))
		return 0;
	other = other_with(name, policy);
	if (!other)
		return tunable_unknown(tables, name, err, errlen);
	snprintf(err, errlen,
		 "unknown tunable '%s': scheduler %s has none of this name; did you mean %s.%s?",
		 name, policy->name, other->name, name);
	return -ENOENT;
}

/* ---- checking ---- */

void setting_blame(struct setting_error *err, const struct setting *s, const struct tunable *row,
		   const char *text)
{
	snprintf(err->name, sizeof(err->name), "%s", s->name);
	snprintf(err->value, sizeof(err->value), "%s", s->value);
	err->allowed[0] = '\0';
	if (row)
		tunable_allowed(row, err->allowed, sizeof(err->allowed));
	snprintf(err->text, sizeof(err->text), "%s", text);
}

static int check_one(struct export_settings *st, const struct elv_policy *policy,
		     const struct setting *s, struct tunable_changes *changes,
		     struct setting_error *err)
{
	char text[TUNABLE_ERR_MAX] = "";
	struct setting_place place = { NULL, NULL, NULL };
	int res;

	res = export_resolve(st, policy, s->name, &place, text, sizeof(text));
	if (!res)
		res = tunable_changes_add(changes, place.row, place.base, s->value, text,
					  sizeof(text));
	if (res)
		setting_blame(err, s, place.row, text);
	return res;
}

int export_check(struct export_settings *st, const struct setting *set, size_t n,
		 struct tunable_changes *changes, const struct elv_policy **policy,
		 struct setting_error *err)
{
	const struct tunable *row = tunable_find(export_rows, "scheduler");
	const struct tunable_change *change;
	size_t i;
	int res;

	memset(err, 0, sizeof(*err));
	*policy = export_settings_policy(st);
	for (i = 0; i < n; i++) {
		if (strcmp(set[i].name, "scheduler"))
			continue;
		res = check_one(st, *policy, &set[i], changes, err);
		if (res)
			return res;
	}
	change = tunable_changes_find(changes, row, &st->export);
	if (change)
		*policy = elv_policies[change->value.num];
	for (i = 0; i < n; i++) {
		if (!strcmp(set[i].name, "scheduler"))
			continue;
		res = check_one(st, *policy, &set[i], changes, err);
		if (res)
			return res;
	}
	return 0;
}

int export_settings_set(struct export_settings *st, const struct setting *set, size_t n,
			struct setting_error *err)
{
	struct tunable_changes changes = { .when = WHEN_START };
	const struct elv_policy *policy;
	int res = export_check(st, set, n, &changes, &policy, err);

	if (!res)
		tunable_changes_commit(&changes);
	tunable_changes_free(&changes);
	return res;
}
