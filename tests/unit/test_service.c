/* The main thread at a stop, with nothing but itself: no loops, no sockets. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/net/service.h"
#include "tests/unit/suite.h"

enum { CAME_TO_THE_END = 42 };

static struct service service;

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/*
 * The last connection has ended, and the main thread is told; but before it looks there is one more,
 * which was accepted in between. That one ends when the main thread has taken notice of the first.
 */
static void *end_the_second(void *arg)
{
	(void)arg;
	while (is_readable(service.gone_fd))
		sched_yield();
	service_one_less(&service);
	return NULL;
}

/* A stop that is cut short ends the process, with status 0. */
START_TEST(one_accepted_at_the_end_is_waited_for)
{
	static const uint64_t one = 1;
	struct server_params params;
	pthread_t thread;

	ck_assert_int_eq(tunable_defaults(server_rows, &params), 0);
	params.drain_timeout = 600ull * 1000000000;
	ck_assert_int_eq(service_init(&service, &params), 0);
	tunable_free(server_rows, &params);
	atomic_store(&service.living, 1);
	ck_assert_int_eq(write(service.gone_fd, &one, sizeof(one)), sizeof(one));
	/* As the second's end is told only to a main thread that drains. */
	atomic_store(&service.draining, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_the_second, NULL), 0);
	ck_assert_int_eq(kill(getpid(), SIGTERM), 0); /* for the main thread: it is blocked */
	ck_assert_int_eq(service_run(&service), SERVICE_STOPPED);
	ck_assert_uint_eq(atomic_load(&service.living), 0);
	pthread_join(thread, NULL);
	service_exit(&service);
	exit(CAME_TO_THE_END);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("service");
	TCase *tc = tcase_create("stop");

	tcase_add_exit_test(tc, one_accepted_at_the_end_is_waited_for, CAME_TO_THE_END);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
