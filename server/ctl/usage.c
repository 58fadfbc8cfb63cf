/*
 * Differences of counters: see usage.h. What is missing in a result, or of another type, counts as
 * nothing: it may be another version's.
 */
#include "server/ctl/usage.h"

#include <stdlib.h>
#include <string.h>

static const char *text(const json_t *row, const char *key)
{
	const char *s = json_string_value(json_object_get(row, key));

	return s ? s : "";
}

static uint64_t whole(const json_t *v)
{
	return json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
}

static uint64_t number(const json_t *row, const char *key)
{
	return whole(json_object_get(row, key));
}

/* By how much a counter grew. A smaller one began anew: the client had been forgotten. */
static uint64_t grown(const json_t *before, const json_t *now, const char *key)
{
	uint64_t a = number(before, key), b = number(now, key);

	return b >= a ? b - a : b;
}

/* ---- percentiles ---- */

/* Adds up the pairs [us, count] from the i-th on that have the same first number. */
static uint64_t take_step(const json_t *buckets, size_t *i, uint64_t us)
{
	uint64_t n = 0;
	const json_t *pair;

	while ((pair = json_array_get(buckets, *i)) && whole(json_array_get(pair, 0)) <= us) {
		if (whole(json_array_get(pair, 0)) == us)
			n += whole(json_array_get(pair, 1));
		(*i)++;
	}
	return n;
}

/*
 * The time in ns below which permille of the total that came between lie. A bucket is known by its
 * lower end; it is up to a sixteenth wide, its middle is meant.
 */
static uint64_t percentile(const json_t *before, const json_t *now, uint64_t total,
			   unsigned permille)
{
	uint64_t wanted = (total * permille + 999) / 1000, seen = 0, us = 0, had, has;
	size_t i = 0, j = 0;
	const json_t *pair;

	while (total && seen < wanted && (pair = json_array_get(now, i))) {
		us = whole(json_array_get(pair, 0));
		has = take_step(now, &i, us);
		had = take_step(before, &j, us);
		seen += has > had ? has - had : 0;
	}
	return us * 1000 + us * 1000 / 32;
}

static void put_percentiles(struct usage *u, const json_t *before, const json_t *now)
{
	const json_t *a = json_object_get(before, "total"), *b = json_object_get(now, "total");
	const json_t *from = json_object_get(a, "buckets"), *to = json_object_get(b, "buckets");
	uint64_t total = grown(a, b, "count");

	if (number(b, "count") < number(a, "count"))
		from = NULL;
	u->p50_ns = percentile(from, to, total, 500);
	u->p99_ns = percentile(from, to, total, 990);
}

/* ---- one client ---- */

static void fill(struct usage *u, const json_t *before, const json_t *now, double seconds)
{
	uint64_t requests, dispatched;

	*u = (struct usage){
		.id = text(now, "id"),
		.export = text(now, "export"),
		.io_class = text(now, "class"),
		.connections = number(now, "connections"),
		.weight = number(now, "weight"),
		.active = number(now, "queued") || number(now, "in_flight"),
	};
	if (!before)
		return;
	requests = grown(before, now, "requests");
	dispatched = grown(before, now, "dispatched");
	u->device_ns = grown(before, now, "service_ns");
	u->active |= requests || u->device_ns;
	if (seconds > 0) {
		u->iops = (double)requests / seconds;
		u->bytes_per_s = (double)grown(before, now, "bytes") / seconds;
	}
	if (dispatched) {
		u->queue_ns = grown(before, now, "queue_sum_us") * 1000 / dispatched;
		u->service_ns = grown(before, now, "service_sum_us") * 1000 / dispatched;
	}
	put_percentiles(u, before, now);
}

/* ---- all of them ---- */

static int by_name(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int order = strcmp(text(x, "export"), text(y, "export"));

	return order ? order : strcmp(text(x, "id"), text(y, "id"));
}

/* The rows of a result in the order of their names. */
static json_t **sorted(const json_t *result)
{
	size_t n = json_array_size(result);
	json_t **rows = calloc(n + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < n; i++)
		rows[i] = json_array_get(result, i);
	if (rows)
		qsort(rows, n, sizeof(*rows), by_name);
	return rows;
}

/* u[0 .. n - 1] are those of one export. */
static void put_shares(struct usage *u, size_t n)
{
	uint64_t weights = 0, ns = 0;

	for (size_t i = 0; i < n; i++) {
		weights += u[i].active ? u[i].weight : 0;
		ns += u[i].device_ns;
	}
	for (size_t i = 0; i < n; i++) {
		if (u[i].active && weights)
			u[i].entitled = (double)u[i].weight / (double)weights;
		if (ns)
			u[i].share = (double)u[i].device_ns / (double)ns;
	}
}

static int by_use(const void *a, const void *b)
{
	const struct usage *x = a, *y = b;
	int order;

	if (x->device_ns != y->device_ns)
		return x->device_ns < y->device_ns ? 1 : -1;
	if (x->iops != y->iops)
		return x->iops < y->iops ? 1 : -1;
	order = strcmp(x->export, y->export);
	return order ? order : strcmp(x->id, y->id);
}

int usage_make(const json_t *before, const json_t *now, double seconds, struct usage **out,
	       size_t *n)
{
	json_t **old = sorted(before), **rows = sorted(now), **found;
	struct usage *u = calloc(json_array_size(now) + 1, sizeof(*u));
	size_t nold = json_array_size(before), first = 0;
	int res = -1;

	*n = json_array_size(now);
	*out = u;
	if (!old || !rows || !u)
		goto out;
	for (size_t i = 0; i < *n; i++) {
		found = bsearch(&rows[i], old, nold, sizeof(*old), by_name);
		fill(&u[i], found ? *found : NULL, rows[i], seconds);
	}
	for (size_t i = 1; i <= *n; i++) {
		if (i < *n && !strcmp(u[i].export, u[first].export))
			continue;
		put_shares(u + first, i - first);
		first = i;
	}
	qsort(u, *n, sizeof(*u), by_use);
	res = 0;
out:
	if (res) {
		free(u);
		*out = NULL;
	}
	free(old);
	free(rows);
	return res;
}
