/*
 * The settings of cfq. Private to cfq.c, which uses them, and cfq_rows.c, which describes them.
 */
#ifndef SCHED_CFQ_H
#define SCHED_CFQ_H

#include <stdint.h>

#include "sched/tunable.h"

struct cfq_params {
	uint64_t quantum;
	uint64_t slice_sync, slice_async, slice_idle; /* ns */
	uint64_t fifo_expire_sync, fifo_expire_async; /* ns */
	uint64_t back_seek_max;                       /* bytes */
	uint64_t back_seek_penalty;
};

extern const struct tunable cfq_rows[];

#endif
