/*
 * stats.get: counters and histograms, of the server and of its exports.
 *
 * The counters are those of counters.h; totals and exports' shares of them are loops over tables
 * made of it. Histograms are given whole (every bucket that is not empty, so that a reader can
 * add and subtract them) and as percentiles.
 */
#include <stdlib.h>
#include <string.h>

#include "server/control/call.h"
#include "server/control/counters.h"
#include "server/export/export.h"

/* How to read one: a uint64_t or an unsigned, by its size. */
struct counter {
	const char *name;
	size_t offset, size;
};

#define EXPORT_ROW(name, field, gauge, help) \
	{ #name, offsetof(struct export_stats, field), sizeof(((struct export_stats *)0)->field) },
#define SERVER_ROW(name, field, gauge, help) \
	{ #name, offsetof(struct server_info, field), sizeof(((struct server_info *)0)->field) },

static const struct counter export_counters[] = {
	CONTROL_EXPORT_COUNTERS(EXPORT_ROW)
	{ .name = NULL }
};

static const struct counter server_counters[] = {
	CONTROL_SERVER_COUNTERS(SERVER_ROW)
	{ .name = NULL }
};

static uint64_t counter_read(const struct counter *c, const void *from)
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

static void put_counters(struct call *call, json_t *object, const struct counter *table,
			 const void *from)
{
	for (const struct counter *c = table; c->name; c++)
		call_put(call, object, c->name, call_number(counter_read(c, from)));
}

/* ---- histograms ---- */

static json_t *us(uint64_t ns)
{
	return call_number((ns + 500) / 1000);
}

json_t *call_histogram(struct call *call, const struct histogram *h)
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

	call_put(call, o, "queue", call_histogram(call, &s->queue));
	call_put(call, o, "service", call_histogram(call, &s->service));
	call_put(call, o, "read_total", call_histogram(call, &s->total[ELV_DIR_READ]));
	call_put(call, o, "write_total", call_histogram(call, &s->total[ELV_DIR_WRITE]));
	return o;
}

/* ---- totals ---- */

static void add(struct export_stats *sum, const struct export_stats *s)
{
	for (const struct counter *c = export_counters; c->name; c++) {
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
	put_counters(call, o, export_counters, s);
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
	put_counters(call, call->result, export_counters, sum);
	if (!one) {
		server_info(call->control->server, &info);
		put_counters(call, call->result, server_counters, &info);
	}
	call_put(call, call->result, "histograms", histograms_json(call, &sum->elv));
	call_put(call, call->result, "exports", exports);
out:
	free(sum);
	free(s);
}
