/* The histogram of histogram.h. */
#include "sched/histogram.h"

/* Bucket of a value: the first 16 are linear, then each octave has 16 steps. */
static unsigned bucket_of(uint64_t ns)
{
	uint64_t v = ns >> HISTOGRAM_SHIFT;
	unsigned octave, i;

	if (v < HISTOGRAM_STEPS)
		return (unsigned)v;
	octave = 63 - (unsigned)__builtin_clzll(v) - 4; /* 2^4 = HISTOGRAM_STEPS */
	i = (octave + 1) * HISTOGRAM_STEPS + (unsigned)((v >> octave) - HISTOGRAM_STEPS);
	return i < HISTOGRAM_BUCKETS ? i : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_floor(unsigned i)
{
	unsigned octave = i / HISTOGRAM_STEPS;
	uint64_t step = i % HISTOGRAM_STEPS;

	if (octave == 0)
		return step << HISTOGRAM_SHIFT;
	return ((step + HISTOGRAM_STEPS) << (octave - 1)) << HISTOGRAM_SHIFT;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->bucket[bucket_of(ns)]++;
	h->count++;
	h->sum += ns;
	if (ns > h->max)
		h->max = ns;
}

void histogram_merge(struct histogram *h, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		h->bucket[i] += from->bucket[i];
	h->count += from->count;
	h->sum += from->sum;
	if (from->max > h->max)
		h->max = from->max;
}

uint64_t histogram_percentile(const struct histogram *h, unsigned permille)
{
	uint64_t want = (h->count * permille + 999) / 1000, seen = 0;

	if (!h->count)
		return 0;
	if (want == 0)
		want = 1;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= want) {
			uint64_t lo = histogram_floor(i);
			uint64_t hi = i + 1 < HISTOGRAM_BUCKETS ? histogram_floor(i + 1) : h->max;
			uint64_t mid = lo + (hi - lo) / 2;

			return mid < h->max ? mid : h->max;
		}
	}
	return h->max;
}
