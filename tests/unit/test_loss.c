/*
 * What may be lost and what may not: an error, a short transfer, a failed sync, a crash at every
 * operation of a scripted mix; a power cut, a hang-up, a switch at every step of it. See loss.h.
 */
#include "sched/policy.h"
#include "tests/unit/loss.h"

static const struct loss_series series[] = {
	{ NULL, 2, 1 },
	{ NULL, 0, 0 }
};

#include "tests/unit/loss_loops.h"
#include "tests/unit/suite.h"

/* ---- the script as such ---- */

START_TEST(scripts_do_all_there_is)
{
	struct loss_plan plan = { .policy = elv_policies[_i] };
	struct loss_outcome sum = { .steps = 0 }, out;

	for (plan.script = 1; plan.script <= 40; plan.script++) {
		must_be_right(&plan, &out);
		ck_assert_uint_eq(out.errors, 0);
		sum.ios += out.ios;
		sum.syncs += out.syncs;
		sum.merges += out.merges;
		sum.sliced += out.sliced;
		sum.reads += out.reads;
		sum.withdrawn += out.withdrawn;
	}
	ck_assert_uint_gt(sum.merges, 40);
	ck_assert_uint_gt(sum.sliced, 400);
	ck_assert_uint_gt(sum.reads, 400);
	ck_assert_uint_gt(sum.withdrawn, 100);
	ck_assert_uint_gt(sum.syncs, 400);
}
END_TEST

/* ---- what was wrong once ---- */

/*
 * A write that was in flight when a sync failed, executed before it but completed after: the sync
 * may have lost it, and its client must be told.
 */
static const struct {
	const char *policy;
	struct loss_plan plan;
} once_wrong[] = {
	{ "noop", { .script = 14, .fault = LOSS_ERROR, .fault_at = 72 } },
	{ "deadline", { .script = 7, .fault = LOSS_SYNC_ERROR, .fault_at = 8, .error = -ENOSPC,
			.event = LOSS_HANG_UP, .event_at = 83 } },
};

START_TEST(once_wrong_is_right)
{
	struct loss_plan plan = once_wrong[_i].plan;
	struct loss_outcome out;

	plan.policy = elv_policy_find(once_wrong[_i].policy);
	must_be_right(&plan, &out);
	ck_assert(out.fault_came);
}
END_TEST

/* ---- does the oracle notice? ---- */

/* Over some scripts, with power cuts here and there: a defect must be found. */
static bool is_found(enum loss_defect defect)
{
	struct loss_outcome out;

	for (unsigned script = 1; script < 60; script++) {
		struct loss_plan plan = {
			.policy = elv_policies[0], .script = script, .defect = defect,
			.event = defect == LOSS_HIDES_SYNC_ERRORS ? LOSS_NO_EVENT : LOSS_POWER_CUT,
			.event_at = 100 + script * 7,
			.fault = defect == LOSS_HIDES_SYNC_ERRORS ? LOSS_SYNC_ERROR : LOSS_NO_FAULT,
			.fault_at = 1 + script % 10,
		};

		loss_run(&plan, &out);
		if (out.wrong[0])
			return true;
	}
	return false;
}

START_TEST(defects_are_found)
{
	if (_i != LOSS_SOUND)
		ck_assert_msg(is_found((enum loss_defect)_i), "defect %d is not noticed", _i);
	else
		ck_assert(!is_found(LOSS_SOUND));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("loss");
	TCase *self = tcase_create("self");

	tcase_set_timeout(self, 120);
	tcase_add_loop_test(self, scripts_do_all_there_is, 0, (int)policies());
	tcase_add_loop_test(self, once_wrong_is_right, 0,
			    (int)(sizeof(once_wrong) / sizeof(once_wrong[0])));
	tcase_add_loop_test(self, defects_are_found, 0, LOSS_NUM_DEFECTS);
	suite_add_tcase(s, self);
	suite_add_tcase(s, loss_loops());
	return run_suite(s);
}
