/*
 * A small world for tests in virtual time: one export on one disk, and some clients with loads.
 */
#ifndef TESTS_UNIT_WORLD_H
#define TESTS_UNIT_WORLD_H

#include "sched/sim/load.h"
#include "sched/sim/sim.h"

#define US 1000ULL
#define MS 1000000ULL
#define SEC 1000000000ULL
#define KIB 1024ULL
#define MIB (KIB << 10)
#define GIB (KIB << 20)

enum { WORLD_MAX = 16 };

struct party {
	uint64_t weight;          /* 0: the default */
	enum elv_class io_class;  /* set it: be is 1 */
	unsigned conns;           /* 0: 1 */
	struct sim_load load;
};

/* Closed loops. q requests at one time, after a think time. */
#define RANDOM(q, ns, size) { .depth = (q), .think = (ns), .sizes = { { (size), 0 } }, \
			      .span = 100 * GIB, .random = true }
#define SEQUENTIAL(q, ns, size, write_percent, gib) \
	{ .depth = (q), .think = (ns), .sizes = { { (size), 0 } }, .writes = (write_percent), \
	  .start = (gib) * GIB, .span = 8 * GIB }

struct world {
	struct sim *sim;
	struct sim_disk *disk;
	struct sim_store *store;
	struct sim_export *export;
	struct sim_client *client[WORLD_MAX];
	unsigned n;
	uint64_t marked_at;
	struct { uint64_t cost, time, answered, bytes; } mark[WORLD_MAX];
};

/* Everything but the loads, so that tunables can be set; then the loads. */
void world_make(struct world *w, const char *policy, const struct sim_model *model, unsigned depth,
		const struct party *parties, unsigned n);
void world_go(struct world *w, const struct party *parties);

/* Let time pass. Fails the test if anything is wrong. */
void world_run(struct world *w, uint64_t ns);

/* From here on the results below count. */
void world_mark(struct world *w);

/* Since the mark: shares of all clients' cost or disk time; per second. */
double world_cost_share(const struct world *w, unsigned i);
double world_time_share(const struct world *w, unsigned i);
double world_iops(const struct world *w, unsigned i);
double world_mb(const struct world *w, unsigned i);

/* A value that the policy shows, by name. */
uint64_t world_shown(const struct world *w, const char *name);

/* Stop the loads, drain, check, free. */
void world_end(struct world *w);

#endif
