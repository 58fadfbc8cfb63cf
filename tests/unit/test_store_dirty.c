/*
 * The estimate of dirty bytes, in made-up time.
 */
#include "server/store/dirty.h"
#include "tests/unit/test_store.h"

#define MS 1000000ull
#define S (1000 * MS)
enum { MIB = 1024 * 1024 };

START_TEST(writes_and_syncs)
{
	struct dirty d;
	uint64_t mark;

	ck_assert_int_eq(dirty_open(&d, 0, 100 * MIB), 0);
	ck_assert(dirty_may_inline(&d, MIB, 0));
	ck_assert(!dirty_may_inline(&d, 0, 0));
	dirty_wrote(&d, MIB, 1 * S, 0);
	ck_assert(!dirty_may_inline(&d, MIB, 1 * S));
	ck_assert(dirty_may_inline(&d, MIB + 1, 1 * S));
	mark = dirty_mark(&d, 2 * S);
	ck_assert_uint_eq(mark, MIB);
	dirty_wrote(&d, MIB / 2, 3 * S, 0); /* while the sync runs */
	ck_assert_uint_eq(dirty_estimate(&d), MIB + MIB / 2);
	dirty_synced(&d, mark, 4 * S);
	ck_assert_uint_eq(dirty_estimate(&d), MIB / 2);
	/* More than there is cannot be taken away. */
	dirty_synced(&d, MIB, 5 * S);
	ck_assert_uint_eq(dirty_estimate(&d), 0);
	dirty_close(&d);
}
END_TEST

START_TEST(no_more_than_the_image)
{
	struct dirty d;

	ck_assert_int_eq(dirty_open(&d, 0, MIB), 0);
	for (unsigned i = 0; i < 10; i++)
		dirty_wrote(&d, 300000, i * S, 0);
	ck_assert_uint_eq(dirty_estimate(&d), MIB);
	dirty_wrote(&d, 300000, 40 * S, 0); /* the next period */
	ck_assert_uint_eq(dirty_estimate(&d), MIB);
	dirty_close(&d);
}
END_TEST

START_TEST(it_grows_old)
{
	struct dirty d;

	ck_assert_int_eq(dirty_open(&d, 0, 100 * MIB), 0);
	dirty_wrote(&d, MIB, 29 * S, 0);
	dirty_wrote(&d, 2 * MIB, 31 * S, 0);
	ck_assert_uint_eq(dirty_estimate(&d), 3 * MIB);
	ck_assert_uint_eq(dirty_mark(&d, 59 * S), 3 * MIB);
	ck_assert_uint_eq(dirty_mark(&d, 61 * S), 2 * MIB);
	ck_assert_uint_eq(dirty_mark(&d, 200 * S), 0);
	ck_assert_uint_eq(dirty_estimate(&d), 0);
	dirty_close(&d);
}
END_TEST

/* Two images on one device: one estimate; a sync cleans its own image. */
START_TEST(one_device)
{
	struct dirty a, b, other;
	uint64_t mark;

	ck_assert_int_eq(dirty_open(&a, 5, 100 * MIB), 0);
	ck_assert_int_eq(dirty_open(&b, 5, 100 * MIB), 0);
	ck_assert_int_eq(dirty_open(&other, 6, 100 * MIB), 0);
	dirty_wrote(&a, MIB, S, 0);
	dirty_wrote(&b, 2 * MIB, S, 0);
	ck_assert_uint_eq(dirty_estimate(&a), 3 * MIB);
	ck_assert_uint_eq(dirty_estimate(&b), 3 * MIB);
	ck_assert_uint_eq(dirty_estimate(&other), 0);
	mark = dirty_mark(&b, S);
	ck_assert_uint_eq(mark, 2 * MIB);
	dirty_synced(&b, mark, S);
	ck_assert_uint_eq(dirty_estimate(&a), MIB);
	dirty_close(&a);
	ck_assert_uint_eq(dirty_estimate(&b), MIB); /* the kernel has it still */
	dirty_close(&b);
	dirty_close(&other);
	/* Devices of nobody's are not shared. */
	ck_assert_int_eq(dirty_open(&a, 0, MIB), 0);
	ck_assert_int_eq(dirty_open(&b, 0, MIB), 0);
	dirty_wrote(&a, MIB, S, 0);
	ck_assert_uint_eq(dirty_estimate(&b), 0);
	dirty_close(&a);
	dirty_close(&b);
}
END_TEST

START_TEST(a_slow_write)
{
	struct dirty d;

	ck_assert_int_eq(dirty_open(&d, 0, 100 * MIB), 0);
	dirty_wrote(&d, 1, 10 * S, 999999);
	ck_assert(dirty_may_inline(&d, MIB, 10 * S));
	dirty_wrote(&d, 1, 10 * S, 2 * MS);
	ck_assert(!dirty_may_inline(&d, MIB, 10 * S + 20 * MS - 1));
	ck_assert(dirty_may_inline(&d, MIB, 10 * S + 20 * MS));
	dirty_close(&d);
}
END_TEST

START_TEST(recounting)
{
	struct dirty d;

	ck_assert_int_eq(dirty_open(&d, 0, 100 * MIB), 0);
	dirty_wrote(&d, MIB, S, 0);
	ck_assert(!dirty_want_recount(&d, 2 * MIB, S));
	ck_assert(!dirty_want_recount(&d, 0, S));
	ck_assert(dirty_want_recount(&d, MIB, S));
	ck_assert(!dirty_want_recount(&d, MIB, S)); /* it is on its way */
	dirty_recounted(&d, 5000, S, S + MS);
	ck_assert_uint_eq(dirty_estimate(&d), 5000);
	dirty_wrote(&d, MIB, S + 2 * MS, 0);
	ck_assert(!dirty_want_recount(&d, MIB, S + 200 * MS));
	ck_assert(dirty_want_recount(&d, MIB, S + 201 * MS));
	/* A count that takes long is done seldom. */
	dirty_recounted(&d, MIB, 2 * S, 3 * S);
	ck_assert(!dirty_want_recount(&d, MIB, 52 * S));
	dirty_wrote(&d, MIB, 53 * S, 0);
	ck_assert(dirty_want_recount(&d, MIB, 53 * S));
	dirty_recounted(&d, 0, 53 * S, 53 * S);
	dirty_close(&d);
	dirty_close(&d);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dirty bytes");
	TCase *t = tcase_create("estimate");

	tcase_add_test(t, writes_and_syncs);
	tcase_add_test(t, no_more_than_the_image);
	tcase_add_test(t, it_grows_old);
	tcase_add_test(t, one_device);
	tcase_add_test(t, a_slow_write);
	tcase_add_test(t, recounting);
	suite_add_tcase(suite, t);
	return run_suite(suite);
}
