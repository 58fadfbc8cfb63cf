/*
 * Random numbers for simulations: small, fast, and the same on every machine for the same seed
 * (the SplitMix64 generator of Steele, Lea and Flood, 2014).
 */
#ifndef SCHED_SIM_RANDOM_H
#define SCHED_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
	uint64_t state; /* the seed, to begin with */
};

static inline uint64_t sim_random(struct sim_random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* One of 0..n-1; n > 0. */
static inline uint64_t sim_below(struct sim_random *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)sim_random(r) * n) >> 64);
}

/* True `percent` times of 100. */
static inline bool sim_chance(struct sim_random *r, unsigned percent)
{
	return sim_below(r, 100) < percent;
}

#endif
