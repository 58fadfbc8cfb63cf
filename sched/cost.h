/*
 * The linear cost model: what an io costs the disk, before it is measured.
 *
 * The unit is one sector's transfer; a fixed cost stands for what each io costs however small it
 * is. On a device of some 500 MB/s a unit is about a microsecond, so measured times are charged
 * in microseconds. The idea of the linear model of Linux block/blk-iocost.c, reduced to two terms.
 */
#ifndef SCHED_COST_H
#define SCHED_COST_H

#include <stdint.h>

#include "sched/request.h"

enum {
	ELV_COST_FIXED = 32,        /* units for each io */
	ELV_COST_DISCARD_SHIFT = 6, /* TRIM and ZERO: a unit is so many sectors, as a shift */
};

/* Units for an io of `bytes`. Never 0. */
static inline uint64_t elv_cost(enum elv_op op, uint64_t bytes)
{
	uint64_t sectors = (bytes + 511) / 512;

	if (op == ELV_TRIM || op == ELV_ZERO)
		sectors >>= ELV_COST_DISCARD_SHIFT;
	if (op == ELV_STATUS)
		sectors = 0;
	return ELV_COST_FIXED + sectors;
}

/* Units for `ns` of measured disk time. Never 0. */
static inline uint64_t elv_cost_of_time(uint64_t ns)
{
	return ns < 1000 ? 1 : ns / 1000;
}

#endif
