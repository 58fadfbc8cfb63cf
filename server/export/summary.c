/* What exports and clients look like from outside. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/export/registry.h"

void export_summarize(struct export *e, struct export_summary *out)
{
	const struct store_geometry *g = &e->store->geometry;
	struct client *c;
	uint64_t now;

	*out = (struct export_summary){
		.name = e->name,
		.path = e->settings.store.path,
		.device = g->device_name,
		.aio = g->aio,
		.readonly = e->settings.store.readonly,
		.buffered = g->buffered,
	};
	now = disk_lock(e->disk);
	out->size = g->size;
	out->rotational = e->elv.rotational;
	out->policy = e->elv.policy;
	out->depth = e->elv.depth;
	TAILQ_FOREACH(c, &e->clients.busy, link)
		out->clients += c->elv.conns > 0;
	out->connections = (unsigned)e->connections;
	out->queued = e->elv.queued;
	out->in_flight = e->elv.in_flight;
	out->oldest = elv_oldest(&e->elv, now);
	out->flush_errors = e->store->elv.sync_errors;
	disk_unlock(e->disk);
}

void export_stats(struct export *e, struct export_stats *out)
{
	struct budget *b = &e->server->budget;

	memset(out, 0, sizeof(*out));
	disk_lock(e->disk);
	elv_stats_sum(&e->elv, &out->elv);
	out->connections = e->connections;
	out->connections_total = e->connections_total;
	out->flushes = out->elv.requests[ELV_FLUSH];
	out->syncs = e->store->elv.syncs;
	out->sync_errors = e->store->elv.sync_errors;
	out->switches = e->elv.switches;
	out->evicted = e->clients.evicted;
	budget_lock(b);
	out->requests_answered = e->budget.answered;
	out->requests_withdrawn = e->budget.withdrawn;
	out->requests_held = e->budget.requests;
	out->requests_received = out->requests_answered + out->requests_withdrawn +
				 out->requests_held;
	out->requests_invalid = e->budget.invalid;
	out->bytes_held = e->budget.bytes;
	out->budget_waits = e->budget.waits;
	budget_unlock(b);
	disk_unlock(e->disk);
}

void export_show(struct export *e, char *buf, size_t len)
{
	struct elv_text text = { buf, len, 0 };

	if (len)
		buf[0] = '\0';
	disk_lock(e->disk);
	e->elv.policy->show(&e->elv, &text);
	disk_unlock(e->disk);
}

/* both: what it took, reads and writes. */
static void summarize_client(struct client *c, uint64_t now, struct client_summary *out,
			     struct histogram *both)
{
	const struct elv_stats *s = &c->elv.stats;

	*both = s->total[ELV_DIR_READ];
	histogram_merge(both, &s->total[ELV_DIR_WRITE]);
	snprintf(out->id, sizeof(out->id), "%s", c->identity->id);
	out->export_name = c->export->name;
	out->connections = c->elv.conns;
	out->writer = c->writers;
	out->queued = c->elv.queued;
	out->in_flight = c->elv.in_flight;
	out->params = c->elv.params;
	client_rates(c, now, &out->iops, &out->bytes_per_s);
	out->p50 = histogram_percentile(both, 500);
	out->p99 = histogram_percentile(both, 990);
	client_done(c, &out->requests, &out->bytes);
	out->times = s->queue.count;
	out->queue_time = s->queue.sum;
	out->service_time = s->service.sum;
	out->device_time = s->service_ns;
	/* Lock order: the budget's after the disk's. */
	budget_lock(c->budget.budget);
	out->requests_held = c->budget.requests;
	out->bytes_held = c->budget.bytes;
	budget_unlock(c->budget.budget);
}

int export_clients(struct export *e, bool all, struct client_summary **out,
		   struct histogram **total, size_t *n)
{
	const struct clients *lists[] = { &e->clients.busy, &e->clients.idle };
	struct client_summary *list;
	struct histogram *both, one;
	struct client *c;
	uint64_t now;
	size_t room;

	/*
	 * Allocated without the lock: as many as there are now, and some that may come meanwhile.
	 */
	disk_lock(e->disk);
	room = e->clients.n + 16;
	disk_unlock(e->disk);
	list = calloc(room, sizeof(*list));
	both = total ? calloc(room, sizeof(*both)) : NULL;
	if (!list || (total && !both)) {
		free(list);
		free(both);
		return -ENOMEM;
	}
	*n = 0;
	now = disk_lock(e->disk);
	for (unsigned i = 0; i < (all ? 2 : 1); i++) {
		TAILQ_FOREACH(c, lists[i], link) {
			if (*n == room)
				break;
			summarize_client(c, now, &list[*n], total ? &both[*n] : &one);
			(*n)++;
		}
	}
	disk_unlock(e->disk);
	*out = list;
	if (total)
		*total = both;
	return 0;
}
