/*
 * Disk models for virtual time: how long an io takes.
 *
 * A model serves what it is given in the order of submission, in one or more lanes, so that the end
 * of an io is known when it is submitted. What it does not model: a drive that reorders by itself.
 */
#ifndef SCHED_SIM_MODEL_H
#define SCHED_SIM_MODEL_H

#include <stdint.h>

#include "sched/request.h"
#include "sched/sim/hdd.h"

enum { SIM_MAX_LANES = 64 };

struct sim_model {
	const char *name;
	bool rotational;
	unsigned lanes;                /* ios served at one time; others wait */
	uint64_t fixed, per_sector;    /* ns for each io and for each of its 512-byte sectors */
	uint64_t write_fixed;          /* instead of fixed, for all but reads */
	uint64_t sync_time;            /* ns of a sync; it waits for nobody */

	struct hdd hdd;                /* the rotating disk */
	uint64_t busy_until[SIM_MAX_LANES];
};

/* Every io takes `ns`; one at a time. */
struct sim_model sim_model_constant(uint64_t ns);

/*
 * One at a time, in time proportional to the cost model of sched/cost.h: a unit is a microsecond.
 */
struct sim_model sim_model_linear(void);

/* Reads take read_ns, all else write_ns, and 2 us a page more; `lanes` of them at one time. */
struct sim_model sim_model_ssd(unsigned lanes, uint64_t read_ns, uint64_t write_ns);

/*
 * The 7200 rpm disk of sched/sim/hdd.h with this capacity. TRIM and ZERO cost it the overhead only.
 */
struct sim_model sim_model_hdd(uint64_t size);

/* The io is submitted now: when is it done? (An io of a store's sync: elv is NULL.) */
uint64_t sim_model_finish(struct sim_model *m, const struct elv_io *io, uint64_t now);

#endif
