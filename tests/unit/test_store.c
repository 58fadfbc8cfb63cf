/*
 * Stores in general: their rows, who shares one, the null store, lanes and workers.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "server/store/lane.h"
#include "tests/unit/test_store.h"

#define MIB (1024 * 1024)

/* ---- rows ---- */

START_TEST(rows_are_well_formed)
{
	ck_assert_msg(!tunable_check_rows(store_rows, err, sizeof(err)), "%s", err);
	for (const struct tunable *t = store_rows; t->name; t++)
		ck_assert_int_eq(t->scope, SCOPE_EXPORT);
}
END_TEST

START_TEST(rows_have_the_documented_defaults)
{
	struct store_params p = params_of(NULL);

	ck_assert_ptr_null(p.path);
	ck_assert_uint_eq(p.cache, STORE_CACHE_WRITEBACK);
	ck_assert_uint_eq(p.aio, STORE_AIO_AUTO);
	ck_assert_uint_eq(p.lock, 1);
	ck_assert_uint_eq(p.model, STORE_MODEL_NONE);
	ck_assert(p.rotational == TUNABLE_AUTO);
	ck_assert_uint_eq(p.dirty_bytes, 64 * MIB);
	ck_assert_uint_eq(p.readonly, 0);
	ck_assert_uint_eq(p.size, 0);
}
END_TEST

/* ---- the null store ---- */

START_TEST(null_reads_zeroes_and_forgets)
{
	struct store *s = must_open("null:", P("size=1M"));
	struct lane *lane = open_lane(true);
	char buf[4096], zero[4096] = { 0 };

	ck_assert_uint_eq(s->geometry.size, MIB);
	ck_assert_uint_eq(s->geometry.device, 0);
	memset(buf, 1, sizeof(buf));
	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, ELV_FUA, 0, buf, sizeof(buf)), sizeof(buf));
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, sizeof(buf)), sizeof(buf));
	ck_assert_mem_eq(buf, zero, sizeof(buf));
	ck_assert_int_eq(do_io(NULL, s, ELV_READ, 0, MIB - 1, buf, 1), 1);
	ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 0, NULL, MIB), MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_FAST_ZERO, 0, NULL, MIB), MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_CACHE, 0, 0, NULL, MIB), MIB);
	ck_assert_int_eq(store_crash(s, 0), -ENOTSUP);
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(null_needs_a_size)
{
	refuses("null:", params_of(NULL), -EINVAL, "size");
	refuses(NULL, params_of(NULL), -EINVAL, "no path");
	refuses("", params_of(NULL), -EINVAL, "no path");
}
END_TEST

START_TEST(null_stores_are_not_shared)
{
	struct store *a = must_open("null:", P("size=1M")), *b = must_open("null:", P("size=2M"));

	ck_assert_ptr_ne(a, b);
	store_close(a);
	store_close(b);
	store_close(NULL);
}
END_TEST

/* ---- sharing ---- */

START_TEST(one_image_one_store)
{
	const char *path = make_file("image", MIB, 7);
	struct store *a = must_open(path, P("readonly=0")), *b;

	ck_assert_int_eq(link(path, in_dir("other name")), 0);
	b = must_open(in_dir("other name"), P("readonly=1"));
	ck_assert_ptr_eq(a, b);
	ck_assert_uint_eq(a->users, 2);
	store_close(a);
	ck_assert_int_eq(do_io(NULL, b, ELV_FLUSH, 0, 0, NULL, 0), 0);
	store_close(b);
	a = must_open(path, P("cache=none")); /* it was closed: other settings are fine now */
	store_close(a);
}
END_TEST

START_TEST(one_image_one_way)
{
	static const char *const other[] = {
		"cache=none", "aio=threads", "lock=0", "disk_model=hdd7200", "fault_volatile=1",
		"fault_error_every=3", "fault_errno=ENOSPC",
	};
	const char *path = make_file("image", MIB, 7);
	struct store *a, *b;

	ck_assert_int_eq(try_open(&a, "first", path, P("cache=writeback")), 0);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		ck_assert_int_eq(try_open(&b, "second", path, P(other[i])), -EINVAL);
		ck_assert_msg(strstr(err, "'first'") && strstr(err, "'second'"), "%s", err);
		ck_assert_msg(strstr(err, "fault_") || strncmp(other[i], "fault", 5), "%s", err);
	}
	ck_assert_int_eq(try_open(&b, "second", path, P("size=2M")), -EINVAL);
	ck_assert_int_eq(try_open(&b, "second", path, P("dirty_bytes=1M", "size=1M")), 0);
	store_close(b);
	store_close(a);
}
END_TEST

START_TEST(a_writer_joins_readers)
{
	const char *path = make_file("image", MIB, 7);
	struct store *a = must_open(path, P("readonly=1")), *b, *c;
	char buf[512];

	ck_assert(!store_can(a, STORE_CAN_WRITE));
	ck_assert(!store_can(a, STORE_CAN_TRIM));
	b = must_open(path, P("readonly=0"));
	ck_assert_ptr_eq(a, b);
	ck_assert(store_can(a, STORE_CAN_WRITE));
	ck_assert_int_eq(do_io(NULL, b, ELV_WRITE, ELV_FUA, 0, buf, sizeof(buf)), sizeof(buf));
	/* The lock is exclusive now. */
	ck_assert_int_eq(access(path, W_OK), 0);
	c = must_open(path, P("readonly=1"));
	ck_assert_ptr_eq(c, a);
	store_close(a);
	store_close(b);
	store_close(c);
}
END_TEST

/* ---- settings ---- */

START_TEST(runtime_settings)
{
	struct store *s = must_open(make_file("image", MIB, 7), P("dirty_bytes=1M"));
	struct store_params p = params_of("dirty_bytes=2M", NULL);

	ck_assert_int_eq(store_check_params(s, &p, err, sizeof(err)), 0);
	store_set_params(s, &p);
	ck_assert_uint_eq(s->params.dirty_bytes, 2 * MIB);
	p.fault_error_every = 3;
	ck_assert_int_eq(store_check_params(s, &p, err, sizeof(err)), -EINVAL);
	ck_assert_msg(strstr(err, "fault_"), "%s", err);
	tunable_free(store_rows, &p);
	store_close(s);
}
END_TEST

/* ---- workers ---- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned inside, most, done;
	bool open;
};

struct job {
	struct work work;
	struct gate *gate;
};

static void pass(struct work *w)
{
	struct job *j = (struct job *)w;
	struct gate *g = j->gate;

	pthread_mutex_lock(&g->lock);
	g->inside++;
	g->most = g->inside > g->most ? g->inside : g->most;
	pthread_cond_broadcast(&g->changed);
	while (!g->open)
		pthread_cond_wait(&g->changed, &g->lock);
	g->inside--;
	g->done++;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

START_TEST(workers_grow_to_need_and_shrink)
{
	enum { JOBS = WORKERS_MAX + 10 };
	struct gate g = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, false };
	struct job jobs[JOBS];

	workers_set_idle(1000000);
	ck_assert_int_eq(workers_get(), 0);
	ck_assert_uint_eq(workers_count(), 1);
	for (unsigned i = 0; i < JOBS; i++) {
		jobs[i] = (struct job) { .work.run = pass, .gate = &g };
		workers_add(&jobs[i].work);
	}
	pthread_mutex_lock(&g.lock);
	while (g.inside < WORKERS_MAX)
		pthread_cond_wait(&g.changed, &g.lock);
	ck_assert_uint_eq(workers_count(), WORKERS_MAX);
	g.open = true;
	pthread_cond_broadcast(&g.changed);
	while (g.done < JOBS)
		pthread_cond_wait(&g.changed, &g.lock);
	pthread_mutex_unlock(&g.lock);
	ck_assert_uint_eq(g.most, WORKERS_MAX);
	/* Idle ones end, but for one. */
	while (workers_count() > 1)
		usleep(1000);
	workers_put();
	ck_assert_uint_eq(workers_count(), 0);
}
END_TEST

START_TEST(workers_finish_before_they_end)
{
	struct gate g = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, true };
	struct job jobs[100];

	for (unsigned round = 0; round < 20; round++) {
		g.done = 0;
		ck_assert_int_eq(workers_get(), 0);
		for (unsigned i = 0; i < 100; i++) {
			jobs[i] = (struct job) { .work.run = pass, .gate = &g };
			workers_add(&jobs[i].work);
		}
		workers_put();
		ck_assert_uint_eq(g.done, 100);
	}
}
END_TEST

/* ---- lanes ---- */

START_TEST(lanes_without_work)
{
	struct elv_ios done = TAILQ_HEAD_INITIALIZER(done);

	for (int ring = 0; ring < 2; ring++) {
		struct lane *lane = open_lane(ring);

		ck_assert_uint_eq(lane_reap(lane, &done), 0);
		ck_assert_int_ge(lane_fd(lane), 0);
		ck_assert(ring || !lane_has_ring(lane));
		ck_assert(!ring || lane_has_ring(lane) == lane_ring_possible(err, sizeof(err)));
		lane_close(lane);
	}
	lane_close(NULL);
}
END_TEST

/*
 * No wake-up may be lost: many rounds of one or few direct ios (which end whenever the device
 * likes), each waited for by the descriptor alone, with and without an empty reap in between.
 */
static void wait_often(struct lane *lane, struct store *s, unsigned rounds)
{
	enum { N = 4 };
	struct elv_io *ios = calloc(N, sizeof(*ios));
	char *buf;

	ck_assert_int_eq(posix_memalign((void **)&buf, 4096, N * 4096), 0);
	for (unsigned r = 0; r < rounds; r++) {
		unsigned n = 1 + r % N;

		for (unsigned i = 0; i < n; i++)
			set_io(&ios[i], s, r % 16 ? ELV_READ : ELV_WRITE, 0,
			       (r * 37 + i * 11) % 256 * 4096, buf + i * 4096, 4096);
		do_ios(lane, ios, n);
		for (unsigned i = 0; i < n; i++)
			ck_assert_int_eq(ios[i].result, 4096);
	}
	free(buf);
	free(ios);
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Without a ring, and with rings as three generations of kernels make them. */
START_TEST(no_wake_up_is_lost)
{
	const struct lane_config config = { 64, 128, _i % 4 % 3 };
	struct store *s = must_open(make_file("image", MIB, 7),
				    P(_i < 4 ? "cache=none" : "cache=writeback", "dirty_bytes=0"));
	struct elv_ios done = TAILQ_HEAD_INITIALIZER(done);
	struct lane *lane;

	ck_assert_int_eq(lane_open_config(&lane, _i % 4 < 3, &config, err, sizeof(err)), 0);
	wait_often(lane, s, 3000);
	/* And none is for nothing for ever. */
	for (unsigned i = 0; is_readable(lane_fd(lane)); i++) {
		ck_assert_uint_lt(i, 100);
		ck_assert_uint_eq(lane_reap(lane, &done), 0);
	}
	lane_close(lane);
	store_close(s);
}
END_TEST

static const char *const caches[] = { "cache=writeback", "cache=none" };

/* More ios than the ring has room for, in flight and prepared. */
START_TEST(a_full_ring_is_no_error)
{
	enum { N = 200 };
	const struct lane_config config = { 4, 8, 0 };
	struct store *s = must_open(make_file("image", MIB, 7), P(caches[_i]));
	struct elv_io *ios = calloc(N, sizeof(*ios));
	struct store_stats stats;
	struct lane *lane;
	char *buf;

	ck_assert_int_eq(posix_memalign((void **)&buf, 4096, N * 4096), 0);
	ck_assert_int_eq(lane_open_config(&lane, true, &config, err, sizeof(err)), 0);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < N; i++)
			set_io(&ios[i], s, ELV_READ, 0, i * 4096, buf + i * 4096, 4096);
		do_ios(lane, ios, N);
		for (unsigned i = 0; i < N; i++) {
			ck_assert_int_eq(ios[i].result, 4096);
			ck_assert_int_eq(buf[i * 4096 + 4095], 7);
		}
	}
	store_get_stats(s, &stats);
	ck_assert_uint_eq(stats.reads[STORE_RING] + stats.reads[STORE_WORKER], 10 * N);
	if (lane_has_ring(lane)) {
		ck_assert_uint_gt(stats.reads[STORE_RING], 0);
		ck_assert(!_i || stats.reads[STORE_WORKER] > 0);
	}
	lane_close(lane);
	store_close(s);
	free(buf);
	free(ios);
}
END_TEST

/* Lanes of several threads on one store. */
struct user {
	pthread_t thread;
	struct store *s;
	bool ring;
};

static void *use_lane(void *arg)
{
	struct user *u = arg;
	struct lane *lane = open_lane(u->ring);

	wait_often(lane, u->s, 300);
	lane_close(lane);
	return NULL;
}

START_TEST(lanes_of_several_threads)
{
	struct store *s = must_open(make_file("image", MIB, 7), P(caches[_i]));
	struct user users[6];

	for (unsigned i = 0; i < 6; i++) {
		users[i].s = s;
		users[i].ring = i & 1;
		ck_assert_int_eq(pthread_create(&users[i].thread, NULL, use_lane, &users[i]), 0);
	}
	for (unsigned i = 0; i < 6; i++)
		pthread_join(users[i].thread, NULL);
	store_close(s);
}
END_TEST

/* Ios of several stores in one batch. */
START_TEST(one_batch_many_stores)
{
	struct store *s[3] = {
		must_open("null:", P("size=1M")),
		must_open(make_file("a", MIB, 1), P("cache=none")),
		must_open(make_file("b", MIB, 2), P("cache=writeback", "aio=threads")),
	};
	struct elv_io *ios = calloc(30, sizeof(*ios));
	struct lane *lane = open_lane(true);
	char *buf;

	ck_assert_int_eq(posix_memalign((void **)&buf, 4096, 30 * 4096), 0);
	for (unsigned i = 0; i < 30; i++)
		set_io(&ios[i], s[i % 3], ELV_READ, 0, i * 4096, buf + i * 4096, 4096);
	do_ios(lane, ios, 30);
	for (unsigned i = 0; i < 30; i++) {
		ck_assert_int_eq(ios[i].result, 4096);
		ck_assert_int_eq(buf[i * 4096 + 100], i % 3);
	}
	lane_close(lane);
	for (unsigned i = 0; i < 3; i++)
		store_close(s[i]);
	free(buf);
	free(ios);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store");
	TCase *t = tcase_create("rows");

	tcase_add_test(t, rows_are_well_formed);
	tcase_add_test(t, rows_have_the_documented_defaults);
	suite_add_tcase(suite, t);

	t = tcase_create("null");
	tcase_add_test(t, null_reads_zeroes_and_forgets);
	tcase_add_test(t, null_needs_a_size);
	tcase_add_test(t, null_stores_are_not_shared);
	suite_add_tcase(suite, t);

	t = tcase_create("sharing");
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_test(t, one_image_one_store);
	tcase_add_test(t, one_image_one_way);
	tcase_add_test(t, a_writer_joins_readers);
	tcase_add_test(t, runtime_settings);
	suite_add_tcase(suite, t);

	t = tcase_create("workers");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, workers_grow_to_need_and_shrink);
	tcase_add_test(t, workers_finish_before_they_end);
	suite_add_tcase(suite, t);

	t = tcase_create("lanes");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_test(t, lanes_without_work);
	tcase_add_loop_test(t, no_wake_up_is_lost, 0, 8);
	tcase_add_loop_test(t, a_full_ring_is_no_error, 0, 2);
	tcase_add_loop_test(t, lanes_of_several_threads, 0, 2);
	tcase_add_test(t, one_batch_many_stores);
	suite_add_tcase(suite, t);
	return run_suite(suite);
}
