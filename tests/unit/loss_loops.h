/*
 * The loops of the loss tests, for test_loss.c and test_loss_store.c. Each defines its series[] of
 * disks before it includes this.
 */
#ifndef TESTS_UNIT_LOSS_LOOPS_H
#define TESTS_UNIT_LOSS_LOOPS_H

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/loss.h"
#include "tests/unit/slowness.h"

static unsigned policies(void)
{
	unsigned n = 0;

	while (elv_policies[n])
		n++;
	return n;
}

/* How many runs of each loop there are: one for each policy and script of each disk. */
static int all_series(void)
{
	int n = 0;

	for (unsigned i = 0; series[i].scripts; i++)
		n += (int)(series[i].scripts * policies());
	return n;
}

static struct loss_plan plan_of(int number, unsigned *stride)
{
	unsigned n = (unsigned)number / policies(), i = 0;

	while (n >= series[i].scripts)
		n -= series[i++].scripts;
	*stride = series[i].stride * SLOWNESS;
	return (struct loss_plan){
		.policy = elv_policies[(unsigned)number % policies()],
		.script = 1 + n,
		.store = series[i].store,
	};
}

static void must_be_right(const struct loss_plan *plan, struct loss_outcome *out)
{
	loss_run(plan, out);
	ck_assert_msg(!out->wrong[0], "%s", out->wrong);
}

/*
 * The same run with the fault at operation 1, 2, 3, ... until it comes no more. Returns how many
 * there were.
 */
static unsigned every_fault(struct loss_plan plan, unsigned stride)
{
	struct loss_outcome out;

	for (plan.fault_at = 1;; plan.fault_at += stride) {
		must_be_right(&plan, &out);
		if (!out.fault_came)
			return plan.fault_at - 1;
	}
}

static unsigned every_step(struct loss_plan plan, unsigned stride)
{
	struct loss_outcome out;

	for (plan.event_at = 1;; plan.event_at += stride) {
		must_be_right(&plan, &out);
		if (!out.event_came)
			return plan.event_at - 1;
	}
}

START_TEST(one_error)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.fault = LOSS_ERROR;
	ck_assert_uint_gt(every_fault(plan, stride), 80);
	plan.error = -ENOSPC;
	every_fault(plan, stride);
}
END_TEST

START_TEST(errors_from_there_on)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.fault = LOSS_ERRORS;
	ck_assert_uint_gt(every_fault(plan, stride), 80);
	plan.error = -ENOSPC;
	every_fault(plan, stride);
}
END_TEST

START_TEST(short_transfers)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.fault = LOSS_SHORT;
	ck_assert_uint_gt(every_fault(plan, stride), 80);
}
END_TEST

START_TEST(sync_errors)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.fault = LOSS_SYNC_ERROR;
	ck_assert_uint_gt(every_fault(plan, stride), 10);
	plan.error = -ENOSPC;
	plan.crash = 3;
	every_fault(plan, stride);
}
END_TEST

START_TEST(crashes)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.fault = LOSS_CRASH;
	for (plan.crash = 0; plan.crash < 4; plan.crash++)
		ck_assert_uint_gt(every_fault(plan, stride), 80);
}
END_TEST

/* The power goes soon after something else went wrong. */
START_TEST(faults_and_power_cuts)
{
	static const enum loss_fault faults[] = { LOSS_ERROR, LOSS_SHORT, LOSS_SYNC_ERROR };
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	for (unsigned i = 0; i < 3; i++) {
		plan.fault = faults[i];
		for (plan.cut_after = 2; plan.cut_after < 40; plan.cut_after = plan.cut_after * 5 / 2)
			every_fault(plan, stride);
	}
}
END_TEST

START_TEST(power_cuts)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.event = LOSS_POWER_CUT;
	for (plan.crash = 0; plan.crash < 3; plan.crash++)
		ck_assert_uint_gt(every_step(plan, stride), 300);
}
END_TEST

START_TEST(hang_ups)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.event = LOSS_HANG_UP;
	ck_assert_uint_gt(every_step(plan, stride), 300);
	plan.fault = LOSS_SYNC_ERROR;
	plan.fault_at = 3;
	every_step(plan, stride);
}
END_TEST

START_TEST(switches)
{
	unsigned stride;
	struct loss_plan plan = plan_of(_i, &stride);

	plan.event = LOSS_SWITCH;
	plan.crash = 5;
	ck_assert_uint_gt(every_step(plan, stride), 300);
}
END_TEST

static inline TCase *loss_loops(void)
{
	const TTest *const tests[] = {
		one_error, errors_from_there_on, short_transfers, sync_errors, crashes, faults_and_power_cuts,
		power_cuts, hang_ups, switches,
	};
	TCase *tc = tcase_create("loops");

	tcase_set_timeout(tc, 240);
	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_loop_test(tc, tests[i], 0, all_series());
	return tc;
}

#endif
