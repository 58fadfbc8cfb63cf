/*
 * The emulated disk: the model (sched/sim/hdd.h) against arithmetic, and the store that waits for
 * it.
 */
#include <inttypes.h>
#include <math.h>

#include "sched/sim/hdd.h"
#include "server/store/internal.h"
#include "tests/unit/test_store.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MS 1000000.0

static uint64_t state = 1;

static uint64_t rnd(uint64_t n)
{
	/* xorshift64* (Vigna 2016) */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 2685821657736338717ull >> 16) % n;
}

/* Mean time of random accesses in ms, one after the other with random pauses. */
static double mean_random(struct hdd *d, uint64_t capacity, uint64_t length, bool write)
{
	enum { N = 20000 };
	uint64_t now = 0, busy = 0;

	for (unsigned i = 0; i < N; i++) {
		uint64_t offset = rnd(capacity / length) * length;
		uint64_t end = hdd_access(d, now, offset, length, write);

		busy += end - now;
		now = end + rnd(10000000);
	}
	return busy / MS / N;
}

/* The mean of the seek curve over all pairs of cylinders, in ms, from the model's own numbers. */
static double mean_seek(void)
{
	const struct hdd_params *p = &hdd7200;
	double n = p->curve_cylinders, sum = 0;

	for (double x = 1; x < n; x++) {
		double t = x < p->far ? p->a + p->b * sqrt(x) : p->c + p->e * x;

		sum += 2 * (n - x) / (n * n) * t;
	}
	return sum / MS;
}

START_TEST(random_accesses)
{
	static const uint64_t sizes[] = { 256 * MIB, GIB, 64 * GIB, 4096 * GIB };
	double seek = mean_seek(), turn = 60000.0 / 7200, transfer = turn * 8 / 1664, want, got;
	struct hdd d;

	/* The table of seeks that it was fitted to (error: 0.25 ms) has a mean of 9.19 ms. */
	ck_assert_double_eq_tol(seek, 9.19, 0.25);
	hdd_init(&d, &hdd7200, sizes[_i]);
	want = hdd7200.overhead / MS + seek + turn / 2 + transfer;
	got = mean_random(&d, sizes[_i], 4096, false);
	ck_assert_msg(fabs(got - want) < 0.05 * want, "%.2f ms instead of %.2f", got, want);
	ck_assert_msg(got > 12.8 && got < 14, "%.2f ms", got);
	want += hdd7200.settle / MS;
	got = mean_random(&d, sizes[_i], 4096, true);
	ck_assert_msg(fabs(got - want) < 0.05 * want, "write: %.2f ms instead of %.2f", got, want);
}
END_TEST

START_TEST(the_seek_curve)
{
	struct hdd d;

	hdd_init(&d, &hdd7200, 1000 * GIB);
	ck_assert_uint_eq(hdd_seek(&d, 0), 0);
	ck_assert_uint_eq(hdd_seek(&d, 1), hdd7200.single);
	for (uint64_t x = 2; x < d.cylinders; x += 1 + x / 100)
		ck_assert_uint_ge(hdd_seek(&d, x), hdd_seek(&d, x / 2 ? x - 1 : 0));
	/* One third and full stroke of the measured disk: 9.54 and 16.7 ms. */
	ck_assert_double_eq_tol(hdd_seek(&d, d.cylinders / 3) / MS, 9.54, 0.3);
	ck_assert_double_eq_tol(hdd_seek(&d, d.cylinders - 1) / MS, 16.7, 0.5);
	ck_assert_uint_eq(hdd_cylinder(&d, 0), 0);
	ck_assert_uint_eq(hdd_cylinder(&d, 1000 * GIB - 1), d.cylinders - 1);
}
END_TEST

/* MB/s of reading or writing everything from offset on in steps. */
static double rate(struct hdd *d, uint64_t offset, uint64_t total, uint64_t step, bool write,
		   uint64_t pause)
{
	uint64_t now = 0, start = hdd_access(d, now, offset, step, write);

	now = start;
	for (uint64_t at = offset + step; at < offset + total; at += step)
		now = hdd_access(d, now + pause, at, step, write);
	return (total - step) * 1000.0 / (now - start);
}

START_TEST(sequential_reads)
{
	/* A cylinder: two revolutions, one head switch and one short seek, with their skews. */
	double media = 2048 * 512 * 1000.0 / 8333333, sustained, got;
	struct hdd d;

	hdd_init(&d, &hdd7200, 1000 * GIB);
	sustained = media * 2 * d.revolution / (2 * d.revolution + d.head_skew + d.cylinder_skew);
	ck_assert_double_gt(sustained, 100);
	got = rate(&d, 0, 256 * MIB, 128 * KIB, false, 0);
	ck_assert_double_eq_tol(got, sustained, 0.02 * sustained);
	/* Reading ahead hides the pauses of a reader that asks for one thing at a time. */
	got = rate(&d, 0, 256 * MIB, 128 * KIB, false, 500000);
	ck_assert_double_eq_tol(got, sustained, 0.02 * sustained);
	/* One large access is as fast. */
	got = 64 * MIB * 1000.0 / hdd_service(&d, 0, 0, 64 * MIB, false);
	ck_assert_msg(got > 0.95 * sustained && got < 1.02 * sustained, "%.1f MB/s", got);
	/* Inside it is slower by the length of the tracks. */
	got = rate(&d, 999 * GIB, 256 * MIB, 128 * KIB, false, 0);
	ck_assert_msg(fabs(got - sustained * 1280 / 2048) < 0.03 * sustained, "%.1f MB/s", got);
}
END_TEST

START_TEST(without_reading_ahead_it_misses)
{
	struct hdd_params p = hdd7200;
	struct hdd d;
	double got;

	p.read_ahead = 0;
	hdd_init(&d, &p, 1000 * GIB);
	/* 64 KiB, then nearly a whole turn until the next: 7.9 MB/s. */
	got = rate(&d, 0, 64 * MIB, 64 * KIB, false, 0);
	ck_assert_msg(got > 6.5 && got < 8.5, "%.1f MB/s", got);
}
END_TEST

START_TEST(sequential_writes)
{
	double got, want;
	struct hdd d;

	/* Without a write cache each one waits until the platter is back. */
	hdd_init(&d, &hdd7200, 1000 * GIB);
	got = rate(&d, 0, 64 * MIB, 64 * KIB, true, 0);
	ck_assert_msg(got > 6.5 && got < 8.5, "%.1f MB/s", got);
	/* Large ones pay that once: 64 MiB at the sustained rate. */
	want = 64.0 * 2 * d.revolution / (2 * d.revolution + d.head_skew + d.cylinder_skew);
	got = 64 * MIB / (hdd_service(&d, 0, 0, 64 * MIB, true) / 1e9) / MIB;
	ck_assert_double_gt(got, 0.95 * want);
}
END_TEST

START_TEST(rotation)
{
	uint64_t now = 12345678, end, shortest = UINT64_MAX, longest = 0;
	struct hdd d;

	hdd_init(&d, &hdd7200, GIB);
	/* The same sector again: exactly whole turns later. */
	end = hdd_access(&d, now, 0, 512, true);
	for (unsigned i = 0; i < 10; i++) {
		uint64_t next = hdd_access(&d, end, 0, 512, true);

		ck_assert_uint_eq(next - end, d.revolution);
		end = next;
	}
	/* It depends on the time alone, with the period of a turn. */
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t t = end + i * d.revolution / 1000;
		uint64_t s = hdd_service(&d, t, 4 * MIB, 4096, true);

		ck_assert_uint_eq(s, hdd_service(&d, t + 7 * d.revolution, 4 * MIB, 4096, true));
		shortest = s < shortest ? s : shortest;
		longest = s > longest ? s : longest;
	}
	ck_assert_double_eq_tol((longest - shortest) / MS, d.revolution / MS, 0.02);
}
END_TEST

START_TEST(the_same_track)
{
	uint64_t end, ahead;
	struct hdd d;

	hdd_init(&d, &hdd7200, GIB);
	end = hdd_access(&d, 0, 0, 512, true);
	/* A few sectors ahead of the head: overhead, the way there, no seek. */
	ahead = hdd_service(&d, end, 512 * 512, 512, true);
	ck_assert_double_eq_tol(ahead / MS, 8.333333 / 4 + 8.333333 / 2048, 0.01);
}
END_TEST

START_TEST(rereading_is_quick)
{
	uint64_t end, again;
	struct hdd d;

	hdd_init(&d, &hdd7200, GIB);
	end = hdd_access(&d, 0, 100 * MIB, 64 * KIB, false);
	again = hdd_service(&d, end, 100 * MIB, 4096, false);
	ck_assert_uint_eq(again, hdd7200.overhead + 4 * hdd7200.bus_ns_per_kib);
	/* After a while all of the read-ahead is there... */
	end += 1000000000;
	ck_assert_uint_eq(hdd_service(&d, end, 102 * MIB, 4096, false), again);
	/* ...and a write forgets it. */
	hdd_access(&d, end, 500 * MIB, 4096, true);
	ck_assert_uint_gt(hdd_service(&d, end + 1000000000, 102 * MIB, 4096, false), 1000000);
}
END_TEST

START_TEST(every_size_and_place)
{
	static const uint64_t sizes[] = {
		1, 512, 513, 4096, MIB, 3 * MIB + 1, 27 * MIB, 20480 * GIB,
	};
	struct hdd d, e;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t size = sizes[i], now = 0, last = 0;

		hdd_init(&d, &hdd7200, size);
		ck_assert_uint_ge(d.sectors * 512, size);
		for (unsigned k = 0; k <= 1000; k++) {
			uint64_t offset = (size - 1) / 1000 * k, c = hdd_cylinder(&d, offset);

			ck_assert_uint_ge(c, last);
			last = c;
		}
		ck_assert_uint_lt(last, d.cylinders);
		for (unsigned k = 0; k < 1000; k++) {
			uint64_t offset = rnd(size), length = 1 + rnd(size - offset), service;

			if (length > 4 * MIB)
				length = 4 * MIB;
			e = d;
			service = hdd_service(&d, now, offset, length, k & 1);
			ck_assert_mem_eq(&d, &e, sizeof(d)); /* a look changes nothing */
			ck_assert_uint_eq(hdd_access(&d, now, offset, length, k & 1),
					  now + service);
			ck_assert_uint_gt(service, 0);
			ck_assert_uint_lt(service, 200000000);
			now += service + rnd(3) * 1000000;
		}
	}
}
END_TEST

/* ---- the store ---- */

START_TEST(the_store_takes_its_time)
{
	struct store *s = must_open(make_file("image", 64 * MIB, 5), P("disk_model=hdd7200"));
	struct lane *lane = open_lane(true);
	uint64_t began = store_now(), took;
	char buf[4096];

	ck_assert(s->geometry.rotational);
	ck_assert_uint_eq(s->geometry.depth, 1);
	ck_assert_uint_eq(s->geometry.device, 0);
	ck_assert_str_eq(s->geometry.device_name, "hdd7200");
	ck_assert(!store_can(s, STORE_CAN_TRIM) && !store_can(s, STORE_CAN_FAST_ZERO));
	/* Ten writes to one place: nine whole turns between them. */
	for (unsigned i = 0; i < 10; i++) {
		memset(buf, i, sizeof(buf));
		ck_assert_int_eq(do_io(i & 1 ? lane : NULL, s, ELV_WRITE, 0, 32 * MIB, buf, 4096),
				 4096);
	}
	took = store_now() - began;
	ck_assert_uint_ge(took, 9 * 8333333ull);
	memset(buf, 0, sizeof(buf));
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 32 * MIB, buf, 4096), 4096);
	ck_assert_int_eq(buf[0], 9);
	ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 0, NULL, MIB), MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, 4096), 4096);
	ck_assert_int_eq(buf[0], 5);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_FAST_ZERO, 0, NULL, MIB), -ENOTSUP);
	began = store_now();
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, 0, 0, NULL, 4 * MIB), 4 * MIB);
	ck_assert_uint_ge(store_now() - began, 4 * 8333333ull); /* at least four tracks */
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, 4096), 4096);
	ck_assert_int_eq(buf[0], 0);
	ck_assert_int_eq(do_io(lane, s, ELV_CACHE, 0, 0, NULL, MIB), MIB);
	lane_close(lane);
	store_close(s);
}
END_TEST

/* One arm: what is submitted together takes as long as one after the other. */
START_TEST(one_arm)
{
	enum { N = 8 };
	struct store *s = must_open(in_dir("image"), P("disk_model=hdd7200", "size=1G"));
	struct elv_io *ios = calloc(N, sizeof(*ios));
	struct lane *lane = open_lane(true);
	uint64_t began = store_now();
	char *buf = calloc(N, 4096);

	for (unsigned k = 0; k < N; k++)
		set_io(&ios[k], s, ELV_WRITE, 0, (k * 613 % N) * 100 * MIB, buf + k * 4096, 4096);
	do_ios(lane, ios, N);
	/* Seven seeks of a tenth of the disk at least, 4.5 ms each. */
	ck_assert_uint_ge(store_now() - began, 7 * 4500000ull);
	free(buf);
	free(ios);
	lane_close(lane);
	store_close(s);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("emulated disk");
	TCase *t = tcase_create("model");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, random_accesses, 0, 4);
	tcase_add_test(t, the_seek_curve);
	tcase_add_test(t, sequential_reads);
	tcase_add_test(t, without_reading_ahead_it_misses);
	tcase_add_test(t, sequential_writes);
	tcase_add_test(t, rotation);
	tcase_add_test(t, the_same_track);
	tcase_add_test(t, rereading_is_quick);
	tcase_add_test(t, every_size_and_place);
	suite_add_tcase(suite, t);

	t = tcase_create("store");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_test(t, the_store_takes_its_time);
	tcase_add_test(t, one_arm);
	suite_add_tcase(suite, t);
	return run_suite(suite);
}
