/*
 * Chaos: random requests, completions, faults, disconnects, switches and settings on a small world,
 * in orders that no real disk would produce, with all checks of the harness after every step.
 */
#ifndef TESTS_UNIT_CHAOS_H
#define TESTS_UNIT_CHAOS_H

#include "sched/sim/sim.h"
#include "tests/unit/slowness.h"

enum chaos_kind {
	CHAOS_SWITCH = 1,   /* the policy changes */
	CHAOS_CLOSE = 2,    /* connections die and come back */
	CHAOS_FAULTS = 4,   /* errors, short transfers */
	CHAOS_SYNCS = 8,    /* syncs fail */
	CHAOS_TUNE = 16,    /* settings of elevators, policies and clients change */
	CHAOS_EXPORTS = 32, /* several exports, of one store and of several, on one disk */
	CHAOS_AGE = 64,     /* requests grow too old for the policy */
	CHAOS_SMALL = 128,  /* everything happens on a few blocks */
	CHAOS_ALL = 255,
};

/*
 * Runs `steps` steps and drains. Returns the hash of the run; fails the test with seed and step
 * when anything is wrong.
 */
uint64_t chaos(const char *policy, unsigned kinds, uint64_t seed, unsigned steps);

/*
 * The same, but everything is decided by these bytes, the kinds and the policy as well, and it ends
 * with them.
 */
uint64_t chaos_by_bytes(const uint8_t *bytes, size_t n);

/* Fails the test if the harness has seen a violation. */
void all_well(const struct sim *sim, const char *what, unsigned long long seed);

/* Environment SEED: one seed instead of the usual ones; 0 if unset. */
uint64_t chaos_only_seed(void);

#endif
