/*
 * stats.get: counters and histograms, of the server and of its exports.
 *
 * The counters come from the tables here; what is a total and what is an export's share of it is one
 * loop over them. Histograms are given whole (every bucket that is not empty, so that a reader can
 * add and subtract them) and as percentiles.
 */
#include "server/control/stats.h"

#include <stdlib.h>
#include <string.h>

#include "server/control/call.h"
#include "server/export/export.h"

#define EXPORT(field) \
	.offset = offsetof(struct export_stats, field), .size = sizeof(((struct export_stats *)0)->field)
#define SERVER(field) \
	.offset = offsetof(struct server_info, field), .size = sizeof(((struct server_info *)0)->field)

const struct control_counter control_export_counters[] = {
	{ "requests_received", "requests read from sockets, bad ones included", EXPORT(requests_received) },
	{ "requests_answered", "requests whose reply was handed to the kernel", EXPORT(requests_answered) },
	{ "requests_withdrawn", "requests that ended without a reply: their connection was gone",
	  EXPORT(requests_withdrawn) },
	{ "requests_held", "requests received and neither answered nor withdrawn", .gauge = true,
	  EXPORT(requests_held) },
	{ "requests_invalid", "requests refused with an error, unexecuted", EXPORT(requests_invalid) },
	{ "requests_failed", "requests executed that ended with an error", EXPORT(elv.errors) },
	{ "bytes_held", "memory reserved for the data of requests", .gauge = true, EXPORT(bytes_held) },
	{ "budget_waits", "times that reading a socket stopped for want of budget", EXPORT(budget_waits) },
	{ "connections", "connections that are open", .gauge = true, EXPORT(connections) },
	{ "connections_total", "connections since the start", EXPORT(connections_total) },
	{ "reads", "READ requests", EXPORT(elv.requests[ELV_READ]) },
	{ "writes", "WRITE requests", EXPORT(elv.requests[ELV_WRITE]) },
	{ "flushes", "FLUSH requests", EXPORT(flushes) },
	{ "trims", "TRIM requests", EXPORT(elv.requests[ELV_TRIM]) },
	{ "zeroes", "WRITE_ZEROES requests", EXPORT(elv.requests[ELV_ZERO]) },
	{ "caches", "CACHE requests", EXPORT(elv.requests[ELV_CACHE]) },
	{ "bytes_read", "data of READ requests", EXPORT(elv.bytes[ELV_DIR_READ]) },
	{ "bytes_written", "data of WRITE requests", EXPORT(elv.bytes[ELV_DIR_WRITE]) },
	{ "ios", "operations given to the store, after merging and slicing", EXPORT(elv.ios) },
	{ "back_merges", "requests appended to a queued one", EXPORT(elv.back_merges) },
	{ "front_merges", "requests put before a queued one", EXPORT(elv.front_merges) },
	{ "promoted", "operations sent past the scheduler because of their age", EXPORT(elv.promoted) },
	{ "service_ns", "time that operations spent in the store, added up", EXPORT(elv.service_ns) },
	{ "syncs", "syncs of the store, which exports of one image share", EXPORT(syncs) },
	{ "sync_errors", "of these, those that failed", EXPORT(sync_errors) },
	{ "switches", "changes of the scheduler", EXPORT(switches) },
	{ "evicted", "accounts of absent clients that had to make room", EXPORT(evicted) },
	{ .name = NULL }
};

const struct control_counter control_server_counters[] = {
	{ "connections", "connections that are open, in negotiation or attached", .gauge = true,
	  SERVER(connections) },
	{ "connections_waiting", "connections that wait for budget", .gauge = true, SERVER(waiting) },
	{ "bytes_held", "memory reserved for the data of requests", .gauge = true, SERVER(bytes_held) },
	{ "memory", "the most that may be reserved", .gauge = true, SERVER(memory) },
	{ .name = NULL }
};

static uint64_t counter_read(const struct control_counter *c, const void *from)
{
	const char *field = (const char *)from + c->offset;
	unsigned small;
	uint64_t n;

	if (c->size == sizeof(small)) {
		memcpy(&small, field, sizeof(small));
		return small;
	}
	memcpy(&n, field, sizeof(n));
	return n;
}

static void put_counters(struct call *call, json_t *object, const struct control_counter *table,
			 const void *from)
{
	for (const struct control_counter *c = table; c->name; c++)
		call_put(call, object, c->name, call_number(counter_read(c, from)));
}

/* ---- histograms ---- */

static json_t *us(uint64_t ns)
{
	return call_number((ns + 500) / 1000);
}

static json_t *histogram_json(struct call *call, const struct histogram *h)
{
	static const struct { const char *name; unsigned permille; } marks[] = {
		{ "p50_us", 500 }, { "p90_us", 900 }, { "p99_us", 990 }, { "p999_us", 999 },
	};
	json_t *o = json_object(), *buckets = json_array(), *pair;

	call_put(call, o, "count", call_number(h->count));
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		call_put(call, o, marks[i].name, us(histogram_percentile(h, marks[i].permille)));
	call_put(call, o, "max_us", us(h->max));
	call_put(call, o, "sum_us", us(h->sum));
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		pair = json_array();
		call_push(call, pair, us(histogram_floor(i)));
		call_push(call, pair, call_number(h->bucket[i]));
		call_push(call, buckets, pair);
	}
	call_put(call, o, "buckets", buckets);
	return o;
}

static json_t *histograms_json(struct call *call, const struct elv_stats *s)
{
	json_t *o = json_object();

	call_put(call, o, "queue", histogram_json(call, &s->queue));
	call_put(call, o, "service", histogram_json(call, &s->service));
	call_put(call, o, "read_total", histogram_json(call, &s->total[ELV_DIR_READ]));
	call_put(call, o, "write_total", histogram_json(call, &s->total[ELV_DIR_WRITE]));
	return o;
}

/* ---- totals ---- */

static void add(struct export_stats *sum, const struct export_stats *s)
{
	for (const struct control_counter *c = control_export_counters; c->name; c++) {
		uint64_t n = counter_read(c, sum) + counter_read(c, s);

		memcpy((char *)sum + c->offset, &n, sizeof(n));
	}
	histogram_merge(&sum->elv.queue, &s->elv.queue);
	histogram_merge(&sum->elv.service, &s->elv.service);
	for (unsigned d = 0; d < ELV_NUM_DIRS; d++)
		histogram_merge(&sum->elv.total[d], &s->elv.total[d]);
}

/* One export: into the totals, and as an object under its name. s is scratch. */
static void put_export(struct call *call, json_t *exports, struct export *e, struct export_stats *s,
		       struct export_stats *sum)
{
	json_t *o = json_object();

	export_stats(e, s);
	add(sum, s);
	put_counters(call, o, control_export_counters, s);
	call_put(call, o, "histograms", histograms_json(call, &s->elv));
	call_put(call, exports, export_name(e), o);
}

void call_stats_get(struct call *call)
{
	/* Some 10 KiB each: not on the stack. */
	struct export_stats *s = malloc(sizeof(*s)), *sum = calloc(1, sizeof(*sum));
	bool one = call_text(call, "export");
	struct server_info info;
	struct export *e = NULL;
	uint64_t cursor = 0;
	json_t *exports;

	if (!s || !sum) {
		call_fail(call, CONTROL_INTERNAL, "out of memory");
		goto out;
	}
	if (one) {
		e = call_export(call, "export");
		if (!e)
			goto out;
	}
	exports = json_object();
	if (one) {
		put_export(call, exports, e, s, sum);
		export_put(e);
	} else {
		while ((e = export_next(call->control->server, &cursor))) {
			put_export(call, exports, e, s, sum);
			export_put(e);
		}
	}
	call->result = json_object();
	put_counters(call, call->result, control_export_counters, sum);
	if (!one) {
		server_info(call->control->server, &info);
		put_counters(call, call->result, control_server_counters, &info);
	}
	call_put(call, call->result, "histograms", histograms_json(call, &sum->elv));
	call_put(call, call->result, "exports", exports);
out:
	free(sum);
	free(s);
}
