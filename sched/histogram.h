/*
 * A latency histogram with logarithmic octaves and 16 linear steps in each: a recorded value is
 * reported within 3.2 % over the whole range from 1 us to over an hour, in constant space.
 *
 * Not thread-safe: owned by whoever owns the structure it sits in.
 */
#ifndef SCHED_HISTOGRAM_H
#define SCHED_HISTOGRAM_H

#include <stdint.h>

enum {
	HISTOGRAM_STEPS = 16,  /* linear steps in an octave */
	HISTOGRAM_SHIFT = 6,   /* values are counted in units of 2^6 ns */
	HISTOGRAM_OCTAVES = 33,
	HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * HISTOGRAM_OCTAVES,
};

struct histogram {
	uint64_t count, sum, max; /* sum and max in ns */
	uint32_t bucket[HISTOGRAM_BUCKETS];
};

/* Count one value in ns; values beyond the last bucket are counted in it. */
void histogram_add(struct histogram *h, uint64_t ns);

/* Add all of from to h. */
void histogram_merge(struct histogram *h, const struct histogram *from);

/* The value in ns below which `permille` of 1000 values lie (the bucket's middle); 0 if empty. */
uint64_t histogram_percentile(const struct histogram *h, unsigned permille);

/* The smallest value in ns that bucket i counts. */
uint64_t histogram_floor(unsigned i);

#endif
