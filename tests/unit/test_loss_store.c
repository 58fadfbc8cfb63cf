/*
 * The loss tests on the fault store, in its ways: a cache that is lost whole, one that is saved in
 * part, one behind every write, direct I/O below. See test_loss.c, and loss.h.
 */
#include "tests/unit/loss.h"

static const struct loss_series series[] = {
	{ "fault_volatile=1", 1, 1 },
	{ "fault_volatile=1 fault_seed=3", 2, 13 },
	{ "fault_volatile=1 cache=writethrough", 2, 13 },
	{ "fault_volatile=1 cache=none", 1, 61 },
	{ NULL, 0, 0 }
};

#include "tests/unit/loss_loops.h"
#include "tests/unit/suite.h"

int main(void)
{
	Suite *s = suite_create("loss_store");

	suite_add_tcase(s, loss_loops());
	return run_suite(s);
}
