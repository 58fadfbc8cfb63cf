/*
 * Histograms: every value is reported within the promised error, merging, percentiles.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sched/histogram.h"
#include "sched/sim/random.h"
#include "tests/unit/suite.h"

static struct histogram h, other;

static void reset(void)
{
	memset(&h, 0, sizeof(h));
	memset(&other, 0, sizeof(other));
}

/* A value alone in a histogram that knows a larger maximum. */
static uint64_t reported(uint64_t ns)
{
	reset();
	histogram_add(&h, ns);
	h.max = UINT64_MAX;
	return histogram_percentile(&h, 500);
}

START_TEST(test_error)
{
	struct sim_random r = { .state = 7 };
	double worst = 0;

	for (int i = 0; i < 100000; i++) {
		uint64_t ns = 1000 + (sim_random(&r) >> (22 + sim_below(&r, 34)));
		double error = (double)reported(ns) / (double)ns - 1;

		if (ns > 3600 * 1000000000ULL)
			continue;
		if (error < 0)
			error = -error;
		if (error > worst)
			worst = error;
		if (error > 0.032)
			ck_abort_msg("%llu ns is reported as %llu", (unsigned long long)ns,
				     (unsigned long long)reported(ns));
	}
	ck_assert_double_gt(worst, 0.02); /* the test reaches the edges */
	ck_assert_uint_le(reported(0), 64);
}
END_TEST

START_TEST(test_buckets)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		reset();
		histogram_add(&h, histogram_floor(i));
		ck_assert_uint_eq(h.bucket[i], 1);
		if (i) {
			ck_assert_uint_lt(histogram_floor(i - 1), histogram_floor(i));
			histogram_add(&h, histogram_floor(i) - 1);
			ck_assert_uint_eq(h.bucket[i - 1], 1);
		}
	}
	ck_assert_uint_gt(histogram_floor(HISTOGRAM_BUCKETS - 1), 3600 * 1000000000ULL);
	reset();
	histogram_add(&h, UINT64_MAX);
	ck_assert_uint_eq(h.bucket[HISTOGRAM_BUCKETS - 1], 1);
	ck_assert_uint_eq(h.max, UINT64_MAX);
}
END_TEST

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

START_TEST(test_percentiles)
{
	static const unsigned permille[] = { 0, 1, 10, 500, 900, 990, 999, 1000 };
	static uint64_t values[1000];
	struct sim_random r = { .state = 11 };

	reset();
	ck_assert_uint_eq(histogram_percentile(&h, 500), 0);
	for (int i = 0; i < 1000; i++) {
		values[i] = 1000 + sim_below(&r, 100000000);
		histogram_add(i % 2 ? &h : &other, values[i]);
	}
	histogram_merge(&h, &other);
	ck_assert_uint_eq(h.count, 1000);
	qsort(values, 1000, sizeof(*values), by_value);
	ck_assert_uint_eq(h.max, values[999]);
	for (unsigned i = 0; i < sizeof(permille) / sizeof(*permille); i++) {
		uint64_t got = histogram_percentile(&h, permille[i]);
		double want = (double)values[permille[i] ? permille[i] - 1 : 0];

		ck_assert_double_le((double)got, want * 1.033);
		ck_assert_double_ge((double)got, want * 0.967);
		ck_assert_uint_le(got, h.max);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("histogram");
	TCase *tc = tcase_create("histogram");

	tcase_set_timeout(tc, 100);
	tcase_add_test(tc, test_error);
	tcase_add_test(tc, test_buckets);
	tcase_add_test(tc, test_percentiles);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
