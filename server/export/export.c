#include "server/export/export.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/export/access.h"
#include "server/export/registry.h"

/* ---- opening and closing ---- */

static struct export *by_name(struct server *s, const char *name, size_t len)
{
	struct export *e;

	TAILQ_FOREACH(e, &s->exports, link)
		if (strlen(e->name) == len && !memcmp(e->name, name, len))
			return e;
	return NULL;
}

static bool is_shown(const struct export *e)
{
	return !e->hidden && !export_is_going(e);
}

/* The first one that is shown, after e or of all. */
static struct export *next_shown(struct server *s, struct export *e)
{
	e = e ? TAILQ_NEXT(e, link) : TAILQ_FIRST(&s->exports);
	while (e && !is_shown(e))
		e = TAILQ_NEXT(e, link);
	return e;
}

static int no_memory(char *err, size_t errlen)
{
	snprintf(err, errlen, "out of memory");
	return -ENOMEM;
}

/* The elevator with the settings of e; from then on those of policies are the elevator's own. */
static int start_elevator(struct export *e)
{
	struct elv_config config = {
		.disk = &e->disk->elv,
		.store = &e->store->elv,
		.policy = export_settings_policy(&e->settings),
		.params = e->settings.elv,
		.default_depth = e->store->geometry.depth,
		.rotational = disk_rotational(e),
		.serial = e->server->serial_slices,
	};
	uint64_t now = disk_lock(e->disk);
	int res = elevator_init(&e->elv, &config);

	for (unsigned i = 0; !res && elv_policies[i]; i++) {
		const struct elv_policy *p = elv_policies[i];
		void *own = elv_policy_params(&e->elv, p);

		res = tunable_copy(p->rows, own, e->settings.policy[i]);
		tunable_free(p->rows, e->settings.policy[i]);
		free(e->settings.policy[i]);
		e->settings.policy[i] = own;
	}
	if (!res)
		elv_params_changed(&e->elv, now);
	disk_unlock(e->disk);
	return res;
}

static void export_close(struct export *e)
{
	if (!e)
		return;
	client_table_exit(&e->clients);
	if (e->elv.disk) {
		disk_lock(e->disk);
		elevator_exit(&e->elv);
		disk_unlock(e->disk);
		memset(e->settings.policy, 0, sizeof(e->settings.policy));
	}
	disk_detach(e);
	if (e->store)
		store_close(e->store);
	export_settings_free(&e->settings);
	access_free(e->access);
	free(e->name);
	free(e);
}

/* Everything but the place in the list. */
static int open_parts(struct export *e, char *err, size_t errlen)
{
	const char *access = e->settings.export.access;
	int res = access_parse(access ? access : "", &e->access, err, errlen);

	if (res == -ENOMEM)
		return no_memory(err, errlen);
	if (!res)
		res = store_open(e->name, &e->settings.store, &e->store, err, errlen);
	if (res)
		return res;
	res = disk_attach(e->server, e, err, errlen);
	if (res)
		return res;
	if (client_table_init(&e->clients) || start_elevator(e))
		return no_memory(err, errlen);
	return 0;
}

int export_open_hidden(struct server *s, const struct export_settings *st, struct export **out,
		       char *err, size_t errlen)
{
	const char *name = st->export.name ? st->export.name : "";
	struct export *e = calloc(1, sizeof(*e)), *other;
	int res;

	if (!e)
		return no_memory(err, errlen);
	e->server = s;
	TAILQ_INIT(&e->seats);
	e->budget.nr_requests = st->elv.nr_requests;
	e->name = strdup(name);
	if (!e->name || export_settings_copy(&e->settings, st)) {
		free(e->name);
		free(e);
		return no_memory(err, errlen);
	}
	/* The main thread alone changes the list. */
	other = by_name(s, name, strlen(name));
	if (other && export_is_going(other)) {
		snprintf(err, errlen, "export '%s': one of this name is still being removed: try "
			 "again when it has gone", name);
		res = -EBUSY;
	} else if (other) {
		snprintf(err, errlen, "two exports are called '%s': give one of them another name",
			 name);
		res = -EEXIST;
	} else {
		res = open_parts(e, err, errlen);
	}
	if (res) {
		export_close(e);
		return res;
	}
	pthread_mutex_lock(&s->lock);
	e->hidden = true;
	e->serial = ++s->next_export;
	TAILQ_INSERT_TAIL(&s->exports, e, link);
	pthread_mutex_unlock(&s->lock);
	*out = e;
	return 0;
}

void export_publish(struct export *e)
{
	pthread_mutex_lock(&e->server->lock);
	e->hidden = false;
	pthread_mutex_unlock(&e->server->lock);
}

void export_discard(struct export *e)
{
	pthread_mutex_lock(&e->server->lock);
	assert(e->hidden && !e->refs);
	TAILQ_REMOVE(&e->server->exports, e, link);
	pthread_mutex_unlock(&e->server->lock);
	export_close(e);
}

bool export_let_go(struct export *e, unsigned n)
{
	bool first;

	pthread_mutex_lock(&e->server->lock);
	first = !export_is_going(e);
	if (first) {
		assert(!e->hidden);
		atomic_store(&e->going, true);
		e->refs += n;
	}
	pthread_mutex_unlock(&e->server->lock);
	return first;
}

bool export_is_unused(struct export *e)
{
	bool unused;

	pthread_mutex_lock(&e->server->lock);
	unused = export_is_going(e) && !e->refs;
	pthread_mutex_unlock(&e->server->lock);
	return unused;
}

void export_close_unused(struct export *e)
{
	struct server *s = e->server;
	struct export *other;

	pthread_mutex_lock(&s->lock);
	assert(export_is_going(e) && !e->refs);
	TAILQ_REMOVE(&s->exports, e, link);
	rules_drop_export(&s->rules, e);
	pthread_mutex_unlock(&s->lock);
	TAILQ_FOREACH(other, &s->exports, link)
		if (other->store == e->store)
			break;
	if (other)
		store_rename(e->store, other->name);
	export_close(e);
}

int export_remove(struct server *s, const char *name, uint64_t *serial)
{
	struct export *e;
	int res = 0;

	if (!s->remove)
		return -ENOTSUP;
	pthread_mutex_lock(&s->lock);
	e = by_name(s, name, strlen(name));
	if (e && e->hidden)
		e = NULL;
	if (e)
		e->refs++;
	pthread_mutex_unlock(&s->lock);
	if (!e)
		return -ENOENT;
	*serial = e->serial;
	if (!export_is_going(e))
		res = s->remove(s->stop_ctx, e);
	export_put(e);
	return res;
}

int export_open(struct server *s, const struct export_settings *st, struct export **out, char *err,
		size_t errlen)
{
	int res = export_open_hidden(s, st, out, err, errlen);

	if (!res)
		export_publish(*out);
	return res;
}

int export_flush(struct export *e)
{
	struct elv_io io = { .store = &e->store->elv, .op = ELV_FLUSH };

	if (!store_can(e->store, STORE_CAN_WRITE))
		return 0;
	store_run(e->store, &io);
	return io.result < 0 ? (int)io.result : 0;
}

/* ---- the server ---- */

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int server_init(struct server *s, const struct server_params *params)
{
	memset(s, 0, sizeof(*s));
	if (tunable_copy(server_rows, &s->params, params))
		return -ENOMEM;
	s->identities = calloc(CLIENT_HASH, sizeof(*s->identities));
	if (!s->identities) {
		tunable_free(server_rows, &s->params);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < CLIENT_HASH; i++)
		TAILQ_INIT(&s->identities[i]);
	pthread_mutex_init(&s->lock, NULL);
	TAILQ_INIT(&s->exports);
	TAILQ_INIT(&s->disks);
	TAILQ_INIT(&s->rules);
	budget_init(&s->budget, s->params.memory);
	s->started = monotonic();
	return 0;
}

void server_exit(struct server *s)
{
	struct export *e;

	while ((e = TAILQ_FIRST(&s->exports))) {
		TAILQ_REMOVE(&s->exports, e, link);
		export_close(e);
	}
	disks_free(s);
	rules_free(&s->rules);
	budget_exit(&s->budget);
	pthread_mutex_destroy(&s->lock);
	free(s->identities);
	tunable_free(server_rows, &s->params);
}

bool server_tick(struct server *s)
{
	struct export *e;
	uint64_t cursor = 0;
	unsigned accounts = 0;

	while ((e = export_next(s, &cursor))) {
		accounts += client_table_tick(e);
		export_put(e);
	}
	return accounts > 0;
}

void server_request_stop(struct server *s)
{
	if (s->stop)
		s->stop(s->stop_ctx);
}

void server_info(struct server *s, struct server_info *out)
{
	struct export *e;

	memset(out, 0, sizeof(*out));
	out->pid = getpid();
	out->uptime = monotonic() - s->started;
	out->threads = s->threads;
	out->connections = atomic_load(&s->connections);
	pthread_mutex_lock(&s->lock);
	for (e = next_shown(s, NULL); e; e = next_shown(s, e))
		out->exports++;
	pthread_mutex_unlock(&s->lock);
	budget_lock(&s->budget);
	out->memory = s->budget.memory;
	out->bytes_held = s->budget.held;
	out->requests_held = s->budget.requests;
	out->waiting = s->budget.waiting;
	budget_unlock(&s->budget);
}

/* ---- looking up ---- */

struct export *export_find(struct server *s, const char *name, size_t len)
{
	struct export *e;

	pthread_mutex_lock(&s->lock);
	if (!len && s->params.default_export && *s->params.default_export) {
		name = s->params.default_export;
		len = strlen(name);
	}
	e = by_name(s, name, len);
	if (e && !is_shown(e))
		e = NULL;
	if (!e && !len) {
		e = next_shown(s, NULL);
		if (e && next_shown(s, e))
			e = NULL;
	}
	if (e)
		e->refs++;
	pthread_mutex_unlock(&s->lock);
	return e;
}

struct export *export_next(struct server *s, uint64_t *cursor)
{
	struct export *e;

	pthread_mutex_lock(&s->lock);
	for (e = next_shown(s, NULL); e; e = next_shown(s, e))
		if (e->serial > *cursor)
			break;
	if (e) {
		*cursor = e->serial;
		e->refs++;
	}
	pthread_mutex_unlock(&s->lock);
	return e;
}

void export_put(struct export *e)
{
	struct server *s;
	bool unused;

	if (!e)
		return;
	s = e->server;
	pthread_mutex_lock(&s->lock);
	assert(e->refs);
	unused = !--e->refs && export_is_going(e);
	pthread_mutex_unlock(&s->lock);
	/* From here on it may be gone. */
	if (unused && s->unused)
		s->unused(s->stop_ctx);
}

bool export_leaves(struct server *s, const char *name, size_t len)
{
	struct export *e;
	bool yes;

	pthread_mutex_lock(&s->lock);
	e = by_name(s, name, len);
	yes = e && export_is_going(e);
	pthread_mutex_unlock(&s->lock);
	return yes;
}

const char *export_name(const struct export *e)
{
	return e->name;
}

void export_description(struct export *e, char *buf, size_t len)
{
	const char *text;

	disk_lock(e->disk);
	text = e->settings.export.description;
	snprintf(buf, len, "%s", text ? text : "");
	disk_unlock(e->disk);
}
