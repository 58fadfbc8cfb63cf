/*
 * Scripts: what the clients of a loss test do, and when, all from a seed.
 */
#ifndef TESTS_UNIT_LOSS_SCRIPT_H
#define TESTS_UNIT_LOSS_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include "sched/request.h"

enum { LOSS_CONNS = 6, LOSS_SCRIPT_MAX = 512 };

enum loss_what { LOSS_DO_REQUEST, LOSS_DO_CLOSE, LOSS_DO_OPEN, LOSS_DO_SWITCH, LOSS_DO_SET };

struct loss_action {
	uint64_t at;           /* ns; never less than that of the action before */
	enum loss_what what;
	unsigned conn;         /* REQUEST, CLOSE, OPEN */
	enum elv_op op;        /* REQUEST */
	unsigned flags;
	uint64_t offset, length;
	unsigned choice;       /* SWITCH: how many policies further. SET: which settings */
};

/* Fills actions; returns how many. Connections are open at the beginning. */
size_t loss_script(uint64_t seed, struct loss_action *actions);

#endif
