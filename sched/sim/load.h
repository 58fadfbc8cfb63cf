/*
 * What a simulated client does by itself while sim_run lets time pass.
 *
 * A closed loop keeps `depth` requests going: each answer is followed, after a think time, by the
 * next request. An open loop submits at its own pace, whatever the answers do. Requests take the
 * connections in turn.
 */
#ifndef SCHED_SIM_LOAD_H
#define SCHED_SIM_LOAD_H

#include "sched/sim/sim.h"

enum { SIM_LOAD_SIZES = 4 };

struct sim_load {
	unsigned depth;         /* closed loop: requests at one time */
	uint64_t think;         /* closed loop: ns from an answer to the next request ... */
	uint64_t think_spread;  /* ... and up to this much more, at random */
	uint64_t interval;      /* open loop: ns between requests; 0: closed loop */
	bool poisson;           /* interval is a mean */

	unsigned writes, trims, flushes; /* percent of the requests; the others are reads */
	unsigned fua;                    /* percent of the writes */
	struct {
		uint64_t bytes;
		unsigned percent;       /* the last one used gets the rest */
	} sizes[SIM_LOAD_SIZES];
	uint64_t start, span;            /* bytes: where on the disk */
	bool random;                     /* else sequential, starting over at the end */

	uint64_t begin, end;             /* ns from sim_load_start; end 0: for ever */
	uint64_t on, off;                /* works for `on`, pauses for `off`; on 0: no pauses */

	/* ---- private ---- */
	struct sim_client *client;
	uint64_t epoch, next;
	struct sim_conn *conn;
	struct sim_random dice;
	struct sim_event tick;
	struct sim_thought *thoughts;
};

/* One load for all its life; `conns` connections are opened. The load is copied. */
void sim_load_start(struct sim_client *c, const struct sim_load *load, unsigned conns);

/* Submit nothing more. */
void sim_load_stop(struct sim_client *c);

/* Exponentially distributed with this mean: the gaps of a Poisson process. */
uint64_t sim_exponential(struct sim_random *r, uint64_t mean);

#endif
