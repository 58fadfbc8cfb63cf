#include "server/net/removal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/net/control_socket.h"
#include "server/net/log.h"
#include "server/net/service.h"

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- the order ---- */

static struct removal *removal_new(struct service *s, struct export *e, unsigned reload)
{
	struct removal *rm = calloc(1, sizeof(*rm) + s->nloops * sizeof(rm->at[0]));
	uint64_t until = monotonic() + server_param(&s->server.params.drain_timeout);

	if (!rm)
		return NULL;
	rm->service = s;
	rm->export = e;
	rm->serial = e->serial;
	rm->reload = reload;
	atomic_init(&rm->unquiet, s->nloops);
	atomic_init(&rm->synced, false);
	for (unsigned i = 0; i < s->nloops; i++) {
		rm->at[i].removal = rm;
		rm->at[i].until = until;
		TAILQ_INIT(&rm->at[i].conns);
	}
	return rm;
}

int removal_order(struct service *s, struct export *e, unsigned reload)
{
	struct removal *rm = removal_new(s, e, reload);
	int res = 0;

	if (!rm)
		return -ENOMEM;
	/* A stop waits for the sync as it does for connections: it sees this one, or is seen. */
	atomic_fetch_add(&s->living, 1);
	if (atomic_load(&s->draining))
		res = -ESHUTDOWN;
	if (res || !export_let_go(e, s->nloops)) {
		service_one_less(s);
		free(rm);
		return res;
	}
	log_info("export '%s': is being removed", e->name);
	pthread_mutex_lock(&s->removals.lock);
	STAILQ_INSERT_TAIL(&s->removals.going, rm, link);
	pthread_mutex_unlock(&s->removals.lock);
	for (unsigned i = 0; i < s->nloops; i++)
		loop_give_departure(&s->loops[i], &rm->at[i]);
	return 0;
}

/* ---- the loops ---- */

void removal_begin(struct loop *loop, struct departure *d)
{
	struct export *e = d->removal->export;
	struct conn *c, *next;

	TAILQ_INSERT_TAIL(&loop->departures, d, link);
	for (c = TAILQ_FIRST(&loop->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->state == CONN_HANDSHAKE) {
			if (handshake_found(c) == e)
				conn_kill(c, "the export is being removed");
		} else if (c->export == e) {
			c->departure = d;
			TAILQ_INSERT_TAIL(&d->conns, c, departure_link);
			conn_refuse(c);
		}
	}
}

/* Is all executed that it had asked for? What it asks for since is answered at once. */
static bool is_quiet(const struct conn *c)
{
	return c->state != CONN_DEAD && !c->rest && !c->waiting &&
	       c->outstanding == c->nreplies + (c->payload ? 1 : 0);
}

static bool all_quiet(const struct departure *d)
{
	const struct conn *c;

	TAILQ_FOREACH(c, &d->conns, departure_link)
		if (!is_quiet(c))
			return false;
	return true;
}

/* The store has all that was answered; connections can be closed. */
static void synced(struct removal *rm)
{
	struct service *s = rm->service;

	atomic_store(&rm->synced, true);
	for (unsigned i = 0; i < s->nloops; i++)
		loop_give_orders(&s->loops[i], LOOP_LOOK);
	service_one_less(s);
}

/* A FLUSH of nobody's. It goes out with the next visit, whichever loop makes it. */
static void begin_sync(struct loop *loop, struct removal *rm)
{
	struct export *e = rm->export;
	uint64_t now;

	if (!store_can(e->store, STORE_CAN_WRITE)) {
		synced(rm);
		return;
	}
	tunable_defaults(elv_client_rows, &rm->client.params);
	rm->sync.elv.conn = &rm->conn;
	rm->sync.elv.op = ELV_FLUSH;
	now = disk_lock(e->disk);
	elv_client_init(&rm->client, &e->elv);
	elv_conn_open(&rm->conn, &rm->client);
	elv_insert(&rm->sync.elv, now);
	disk_unlock(e->disk);
	loop_disk_busy(loop, loop_disk(loop, e->disk));
	loop->again = true;
}

void removal_synced(struct request *r)
{
	struct removal *rm = (struct removal *)((char *)r - offsetof(struct removal, sync));
	struct elv_requests none = TAILQ_HEAD_INITIALIZER(none);
	struct disk *d = rm->export->disk;
	uint64_t now = disk_lock(d);

	elv_conn_close(&rm->conn, true, now, &none);
	elv_client_exit(&rm->client);
	disk_unlock(d);
	rm->error = r->elv.error;
	synced(rm);
}

static void close_all(struct departure *d)
{
	struct conn *c, *next;

	d->closing = true;
	for (c = TAILQ_FIRST(&d->conns); c; c = next) {
		next = TAILQ_NEXT(c, departure_link);
		conn_drain(c);
	}
}

void removal_look(struct loop *loop)
{
	struct departure *d, *next;

	for (d = TAILQ_FIRST(&loop->departures); d; d = next) {
		struct removal *rm = d->removal;

		next = TAILQ_NEXT(d, link);
		if (!d->quiet && all_quiet(d)) {
			/* Whoever is last will need its place there. */
			d->quiet = loop_disk(loop, rm->export->disk);
			if (!d->quiet)
				loop->again = true;
			else if (atomic_fetch_sub(&rm->unquiet, 1) == 1)
				begin_sync(loop, rm);
		}
		if (!d->closing && atomic_load(&rm->synced))
			close_all(d);
		if (d->closing && TAILQ_EMPTY(&d->conns)) {
			TAILQ_REMOVE(&loop->departures, d, link);
			export_put(rm->export); /* with the last one, all of this may be gone */
		}
	}
}

uint64_t removal_timeouts(struct loop *loop)
{
	uint64_t next = ELV_NEVER;
	struct departure *d;

	TAILQ_FOREACH(d, &loop->departures, link) {
		struct conn *c, *after;

		if (d->until > loop->now) {
			next = d->until < next ? d->until : next;
			continue;
		}
		d->until = ELV_NEVER;
		for (c = TAILQ_FIRST(&d->conns); c; c = after) {
			after = TAILQ_NEXT(c, departure_link);
			if (c->state != CONN_DEAD)
				conn_kill(c, "drain_timeout: its export is being removed");
		}
		loop->again = true; /* to look again */
	}
	return next;
}

/* ---- the end: main thread, then loop 0 ---- */

struct unheard {
	const struct export *export;
	unsigned n;
	int error;
};

static void never_told(void *arg, const struct client *c)
{
	struct unheard *u = arg;

	log_error("export '%s': a flush failed (%s), and %s has not heard of it", u->export->name,
		  strerror(-c->elv.owed_error), c->identity->id);
	u->error = c->elv.owed_error;
	u->n++;
}

/* No loop has anything of it. */
static void finish(struct removal *rm, struct control_report *report)
{
	struct export *e = rm->export;
	struct unheard u = { .export = e };
	int res = 0;

	client_table_owed(e, never_told, &u);
	if (rm->error)
		res = asprintf(&rm->wrong, "export '%s': removed, but its last flush failed, "
			       "writes may be lost: %s", e->name, strerror(-rm->error));
	else if (u.n)
		res = asprintf(&rm->wrong, "export '%s': removed, but a flush had failed of which "
			       "%u clients have not heard, writes may be lost: %s", e->name, u.n,
			       strerror(-u.error));
	if (res < 0)
		rm->wrong = NULL;
	if (rm->error || u.n)
		log_error("%s", rm->wrong ? rm->wrong : "an export was removed, its flush failed");
	else
		log_info("export '%s': removed", e->name);
	if (report && rm->wrong)
		control_report_add(report, &report->changed, "%s", rm->wrong);
	else if (report)
		control_report_add(report, &report->changed, "export '%s': removed", e->name);
	export_close_unused(e);
	rm->export = NULL;
}

/* One that can be closed now, taken out of the list. */
static struct removal *take_unused(struct service *s)
{
	struct removal *rm;

	pthread_mutex_lock(&s->removals.lock);
	STAILQ_FOREACH(rm, &s->removals.going, link)
		if (export_is_unused(rm->export))
			break;
	if (rm)
		STAILQ_REMOVE(&s->removals.going, rm, removal, link);
	pthread_mutex_unlock(&s->removals.lock);
	return rm;
}

void removals_finish(struct service *s, struct control_report *report)
{
	struct removal *rm;

	while ((rm = take_unused(s))) {
		finish(rm, rm->reload == s->reloads.number ? report : NULL);
		pthread_mutex_lock(&s->removals.lock);
		STAILQ_INSERT_TAIL(&s->removals.gone, rm, link);
		pthread_mutex_unlock(&s->removals.lock);
		loop_give_orders(&s->loops[0], LOOP_REMOVED);
	}
}

bool removals_any(struct service *s, unsigned reload)
{
	struct removal *rm;

	pthread_mutex_lock(&s->removals.lock);
	STAILQ_FOREACH(rm, &s->removals.going, link)
		if (!reload || rm->reload == reload)
			break;
	pthread_mutex_unlock(&s->removals.lock);
	return rm;
}

void removals_pending(struct service *s, struct control_report *report)
{
	struct removal *rm;

	pthread_mutex_lock(&s->removals.lock);
	STAILQ_FOREACH(rm, &s->removals.going, link)
		if (rm->reload == s->reloads.number)
			control_report_add(report, &report->changed, "export '%s': still going: "
					   "what it has received is being finished",
					   rm->export->name);
	pthread_mutex_unlock(&s->removals.lock);
}

static struct removal *take_gone(struct service *s)
{
	struct removal *rm;

	pthread_mutex_lock(&s->removals.lock);
	rm = STAILQ_FIRST(&s->removals.gone);
	if (rm)
		STAILQ_REMOVE_HEAD(&s->removals.gone, link);
	pthread_mutex_unlock(&s->removals.lock);
	return rm;
}

static void removal_free(struct removal *rm)
{
	free(rm->wrong);
	free(rm);
}

void removals_answer(struct service *s)
{
	struct removal *rm;

	while ((rm = take_gone(s))) {
		control_socket_removed(s->control, rm->serial, rm->wrong);
		removal_free(rm);
	}
}

void removals_init(struct service *s)
{
	STAILQ_INIT(&s->removals.going);
	STAILQ_INIT(&s->removals.gone);
	pthread_mutex_init(&s->removals.lock, NULL);
}

void removals_exit(struct service *s)
{
	struct removal *rm;

	while ((rm = take_gone(s)))
		removal_free(rm);
	while ((rm = STAILQ_FIRST(&s->removals.going))) {
		STAILQ_REMOVE_HEAD(&s->removals.going, link);
		removal_free(rm);
	}
	pthread_mutex_destroy(&s->removals.lock);
}
