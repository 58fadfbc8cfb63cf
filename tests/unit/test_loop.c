/* The inbox of a loop. */
#include <check.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/net/conn.h"
#include "server/net/loop.h"
#include "tests/unit/suite.h"

/* One that has found its grant by itself, and is granted again, is still there from the first time. */
START_TEST(granted_twice)
{
	static struct loop loop;
	static struct conn first, other;
	struct conn *c;
	unsigned n = 0;

	pthread_mutex_init(&loop.inbox_lock, NULL);
	TAILQ_INIT(&loop.in_granted);
	loop.inbox_fd = eventfd(0, EFD_NONBLOCK);
	loop_give_granted(&loop, &first);
	loop_give_granted(&loop, &other);
	loop_give_granted(&loop, &first);
	TAILQ_FOREACH(c, &loop.in_granted, granted_link)
		ck_assert_uint_le(++n, 2);
	ck_assert_uint_eq(n, 2);
	loop_forget_granted(&loop, &first);
	ck_assert_ptr_eq(TAILQ_FIRST(&loop.in_granted), &other);
	ck_assert_ptr_null(TAILQ_NEXT(&other, granted_link));
	loop_give_granted(&loop, &first);
	ck_assert_ptr_eq(TAILQ_NEXT(&other, granted_link), &first);
	close(loop.inbox_fd);
	pthread_mutex_destroy(&loop.inbox_lock);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("loop");
	TCase *tc = tcase_create("inbox");

	tcase_add_test(tc, granted_twice);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
