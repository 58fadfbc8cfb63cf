/*
 * Buffers of a loop: what they are like, and how many are kept.
 */
#include <check.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/net/pool.h"
#include "tests/unit/suite.h"

static struct pool pool;

static void setup(void)
{
	pool_init(&pool);
}

static void teardown(void)
{
	pool_trim(&pool, 0);
	ck_assert_uint_eq(pool.kept_bytes, 0);
}

static void *get(size_t len)
{
	char *p = pool_get(&pool, len);

	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq((uintptr_t)p % POOL_ALIGN, 0);
	p[0] = p[len - 1] = 1;
	return p;
}

/* What was given back comes again, for all lengths of its class. */
START_TEST(reuse)
{
	static const size_t rows[][2] = {
		{ 1, 4096 }, { 4097, 8192 }, { 65537, 131072 }, { 131073, 262144 },
		{ (1 << 20) + 1, 2 << 20 }, { (8 << 20) + 1, 16 << 20 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *p = get(rows[i][0]);

		pool_put(&pool, p, rows[i][0]);
		ck_assert_uint_eq(pool.kept_bytes, rows[i][1]);
		ck_assert_ptr_eq(get(rows[i][1]), p);
		ck_assert_uint_eq(pool.kept_bytes, 0);
		pool_put(&pool, p, rows[i][1]);
		pool_trim(&pool, 0);
	}
}
END_TEST

START_TEST(bounded)
{
	enum { N = 40 };
	void *p[N];

	for (unsigned i = 0; i < N; i++)
		p[i] = get(1 << 20);
	for (unsigned i = 0; i < N; i++)
		pool_put(&pool, p[i], 1 << 20);
	ck_assert_uint_eq(pool.kept_bytes, POOL_KEEP);
	pool_trim(&pool, 5 << 20);
	ck_assert_uint_eq(pool.kept_bytes, 5 << 20);
}
END_TEST

/* Does the kernel know that this memory is to be of huge pages? */
static bool wants_huge(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[1024];
	bool here = false, huge = false;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		uint64_t from, to;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2)
			here = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (here && !strncmp(line, "VmFlags:", 8))
			huge = strstr(line, " hg");
	}
	fclose(f);
	return huge;
}

/*
 * Those that are large enough. With small pages the kernel has to provide 8192 of them for the
 * largest, while the loop waits.
 */
START_TEST(huge_pages)
{
	void *small, *large;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		return; /* this kernel has none */
	small = get(1 << 20);
	ck_assert(!wants_huge(small));
	pool_put(&pool, small, 1 << 20);
	for (size_t len = 2 << 20; len <= 32 << 20; len *= 2) {
		large = get(len);
		ck_assert(wants_huge(large));
		pool_put(&pool, large, len);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pool");
	TCase *tc = tcase_create("pool");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, reuse);
	tcase_add_test(tc, bounded);
	tcase_add_test(tc, huge_pages);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
