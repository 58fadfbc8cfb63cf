/*
 * The fault store: every way in which it fails, and what its volatile cache keeps and loses.
 */
#include <pthread.h>

#include "server/store/internal.h"
#include "server/store/volatile.h"
#include "tests/unit/test_store.h"

enum { KIB = 1024, MIB = 1024 * 1024, B = VOLATILE_BLOCK };

/* _i of most tests: through a lane (1), or by the calling thread (0). */
static struct lane *lane_if(int i)
{
	return i ? open_lane(true) : NULL;
}

static int64_t write_one(struct lane *lane, struct store *s, unsigned flags, uint64_t offset,
			 uint64_t length, int fill)
{
	char *buf = malloc(length);
	int64_t r;

	memset(buf, fill, length);
	r = do_io(lane, s, ELV_WRITE, flags, offset, buf, length);
	free(buf);
	return r;
}

static void must_write(struct lane *lane, struct store *s, unsigned flags, uint64_t offset,
		       uint64_t length, int fill)
{
	ck_assert_int_eq(write_one(lane, s, flags, offset, length, fill), length);
}

static int64_t flush(struct lane *lane, struct store *s)
{
	return do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0);
}

/* Whether the store reads as this byte throughout. */
static bool reads_as(struct lane *lane, struct store *s, uint64_t offset, uint64_t length, int fill)
{
	char *buf = malloc(length);
	bool same = true;

	memset(buf, ~fill, length);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, offset, buf, length), length);
	for (uint64_t i = 0; i < length; i++)
		same = same && buf[i] == (char)fill;
	free(buf);
	return same;
}

/* The same of the image file itself. */
static bool file_has(const char *path, uint64_t offset, uint64_t length, int fill)
{
	char *buf = malloc(length);
	int fd = open(path, O_RDONLY);
	bool same = true;

	ck_assert_int_eq(pread(fd, buf, length, offset), length);
	for (uint64_t i = 0; i < length; i++)
		same = same && buf[i] == (char)fill;
	close(fd);
	free(buf);
	return same;
}

/* ---- errors ---- */

START_TEST(every_third_fails)
{
	struct store *s = must_open("null:", P("size=1M", "fault_error_every=3",
					       "fault_errno=ENOSPC"));
	struct lane *lane = lane_if(_i);
	struct store_params p;

	for (unsigned n = 1; n <= 9; n++)
		ck_assert_int_eq(do_io(lane, s, n & 1 ? ELV_TRIM : ELV_CACHE, 0, 0, NULL, B),
				 n % 3 ? B : -ENOSPC);
	/* Runtime. */
	p = P("fault_error_every=0", "fault_error_at=11");
	ck_assert_int_eq(store_check_params(s, &p, err, sizeof(err)), 0);
	store_set_params(s, &p);
	tunable_free(store_rows, &p);
	ck_assert_int_eq(flush(lane, s), 0);
	ck_assert_int_eq(flush(lane, s), -ENOSPC);
	for (unsigned n = 12; n < 20; n++)
		ck_assert_int_eq(flush(lane, s), 0);
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(an_error_does_nothing)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_error_at=1"));
	struct lane *lane = lane_if(_i);

	ck_assert_int_eq(write_one(lane, s, ELV_FUA, 0, B, 2), -EIO);
	ck_assert(reads_as(lane, s, 0, B, 1));
	must_write(lane, s, 0, 0, B, 2);
	ck_assert(reads_as(lane, s, 0, B, 2));
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(short_transfers)
{
	static const unsigned lengths[][2] = {
		{ 1, 1 }, { 2, 1 }, { 511, 255 }, { 1024, 512 }, { 4096, 2048 }, { 5000, 2048 },
		{ 65536, 32768 },
	};
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_short_every=2"));
	struct lane *lane = lane_if(_i);
	char buf[65536];

	for (unsigned i = 0; i < 7; i++) {
		uint64_t at = i * 100000, n = lengths[i][0], half = lengths[i][1];

		must_write(lane, s, 0, at, n, 2);
		ck_assert_int_eq(write_one(lane, s, 0, at, n, 3), half);
		ck_assert(file_has(path, at, half, 3));
		ck_assert(n == half || file_has(path, at + half, n - half, 2));
		ck_assert(reads_as(lane, s, at, half, 3));
		ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, at, buf, n), half);
	}
	lane_close(lane);
	store_close(s);
}
END_TEST

/* The pieces of an io's memory are cut where the transfer ends. */
START_TEST(short_in_pieces)
{
	struct store *s = must_open(make_file("image", MIB, 1), P("fault_short_every=1"));
	struct elv_io *io = malloc(sizeof(*io));
	struct lane *lane = lane_if(_i);
	char buf[4][3000];

	memset(buf, 0, sizeof(buf));
	set_io(io, s, ELV_READ, 0, 0, buf[0], sizeof(buf));
	for (unsigned i = 0; i < 4; i++)
		io->vec[i] = (struct iovec) { buf[i], 3000 };
	io->niov = 4;
	if (lane)
		do_ios(lane, io, 1);
	else
		store_run(s, io);
	ck_assert_int_eq(io->result, 5632);
	ck_assert_uint_eq(io->length, 12000);
	ck_assert_uint_eq(io->niov, 4);
	ck_assert_ptr_eq(io->iov, io->vec);
	ck_assert_uint_eq(io->vec[1].iov_len, 3000);
	ck_assert_int_eq(buf[1][2631], 1);
	ck_assert_int_eq(buf[1][2632], 0);
	free(io);
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(no_space_left)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_space=10000"));
	struct lane *lane = lane_if(_i);

	must_write(lane, s, 0, 0, 8000, 2);
	ck_assert_int_eq(write_one(lane, s, 0, 100000, 4096, 2), 2000);
	ck_assert(file_has(path, 100000, 2000, 2));
	ck_assert(file_has(path, 102000, 2000, 1));
	ck_assert_int_eq(write_one(lane, s, 0, 0, 1, 2), -ENOSPC);
	ck_assert_int_eq(flush(lane, s), 0);
	ck_assert(reads_as(lane, s, 0, 8000, 2));
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(failing_syncs)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_sync_error_every=2"));
	struct elv_io *io = malloc(sizeof(*io));
	struct lane *lane = lane_if(_i);
	char buf[B];

	memset(buf, 2, B);
	ck_assert_int_eq(flush(lane, s), 0);
	set_io(io, s, ELV_WRITE, ELV_FUA, 0, buf, B);
	if (lane)
		do_ios(lane, io, 1);
	else
		store_run(s, io);
	ck_assert_int_eq(io->result, -EIO);
	ck_assert(io->sync_failed);
	ck_assert(file_has(path, 0, B, 2));
	must_write(lane, s, ELV_FUA, 0, B, 3);
	ck_assert_int_eq(flush(lane, s), -EIO);
	ck_assert_int_eq(flush(lane, s), 0);
	must_write(lane, s, 0, 0, B, 4); /* not a sync */
	ck_assert_int_eq(flush(lane, s), -EIO);
	free(io);
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(delays)
{
	struct store *s = must_open("null:", P("size=1M", "fault_delay=2ms",
					       "fault_flush_delay=30ms"));
	struct lane *lane = lane_if(_i);
	uint64_t began = store_now();

	must_write(lane, s, 0, 0, B, 1);
	ck_assert_uint_ge(store_now() - began, 2000000);
	began = store_now();
	ck_assert_int_eq(flush(lane, s), 0);
	ck_assert_uint_ge(store_now() - began, 32000000);
	lane_close(lane);
	store_close(s);
}
END_TEST

/* Many delays run at the same time, and the thread of the lane waits for none of them. */
START_TEST(delays_do_not_block)
{
	enum { N = 20 };
	struct store *s = must_open("null:", P("size=1M", "fault_delay=1s"));
	struct elv_ios list = TAILQ_HEAD_INITIALIZER(list), done = TAILQ_HEAD_INITIALIZER(done);
	struct elv_io *ios = calloc(N, sizeof(*ios));
	struct lane *lane = open_lane(true);
	uint64_t began = store_now();
	unsigned n = 0;

	for (unsigned i = 0; i < N; i++) {
		set_io(&ios[i], s, ELV_TRIM, 0, i * B, NULL, B);
		TAILQ_INSERT_TAIL(&list, &ios[i], link);
	}
	lane_submit(lane, &list);
	ck_assert_uint_eq(lane_reap(lane, &done), 0);
	ck_assert_uint_eq(lane_in_flight(lane), N);
	while ((n += lane_reap(lane, &done)) < N)
		wait_readable(lane_fd(lane));
	ck_assert_uint_ge(store_now() - began, 1000000000);
	ck_assert_uint_lt(store_now() - began, (uint64_t)N * 1000000000);
	free(ios);
	lane_close(lane);
	store_close(s);
}
END_TEST

/* ---- the volatile cache ---- */

START_TEST(a_crash_loses_what_was_not_flushed)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_volatile=1"));
	struct lane *lane = lane_if(_i);

	ck_assert_uint_ge(s->geometry.block, B);
	must_write(lane, s, 0, 0, 4 * B, 2);
	ck_assert_int_eq(flush(lane, s), 0);
	must_write(lane, s, 0, B, B, 3);
	must_write(lane, s, ELV_FUA, 2 * B, B, 4);
	must_write(lane, s, 0, 10 * B + 100, 300, 5);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, 0, 20 * B, NULL, 2 * B), 2 * B);
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 30 * B, NULL, 2 * B), 2 * B);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, 0, 40 * B + 1, NULL, 2 * B), 2 * B);
	/* All of it is seen... */
	ck_assert(reads_as(lane, s, B, B, 3) && reads_as(lane, s, 2 * B, B, 4));
	ck_assert(reads_as(lane, s, 10 * B, 100, 1) && reads_as(lane, s, 10 * B + 100, 300, 5));
	ck_assert(reads_as(lane, s, 10 * B + 400, B - 400, 1));
	ck_assert(reads_as(lane, s, 20 * B, 2 * B, 0) && reads_as(lane, s, 22 * B, B, 1));
	ck_assert(reads_as(lane, s, 30 * B, 2 * B, 0));
	ck_assert(reads_as(lane, s, 40 * B, 1, 1) && reads_as(lane, s, 40 * B + 1, 2 * B, 0));
	ck_assert(reads_as(lane, s, 42 * B + 1, B - 1, 1));
	ck_assert(file_has(path, 20 * B, 2 * B, 1));
	/* ...and gone, but for what was flushed or FUA. */
	ck_assert_int_eq(store_crash(s, 0), 0);
	ck_assert(reads_as(lane, s, 0, 2 * B, 2));
	ck_assert(reads_as(lane, s, 2 * B, B, 4));
	ck_assert(reads_as(lane, s, 3 * B, B, 2));
	ck_assert(reads_as(lane, s, 4 * B, MIB - 4 * B, 1));
	lane_close(lane);
	store_close(s);
	ck_assert(file_has(path, 0, 2 * B, 2));
}
END_TEST

START_TEST(a_flush_saves_everything)
{
	const char *path = make_file("image", MIB - 1000, 1);
	struct store *s = must_open(path, P("fault_volatile=1"));
	struct lane *lane = lane_if(_i);
	uint64_t size = MIB - 1000;

	must_write(lane, s, 0, 100, 300 * KIB, 2);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, 0, 400 * KIB, NULL, 64 * KIB), 64 * KIB);
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 500 * KIB, NULL, 64 * KIB), 64 * KIB);
	must_write(lane, s, 0, size - 10, 10, 3);
	ck_assert_int_eq(flush(lane, s), 0);
	ck_assert_int_eq(store_crash(s, 0), 0);
	ck_assert(reads_as(lane, s, 0, 100, 1) && reads_as(lane, s, 100, 300 * KIB, 2));
	ck_assert(reads_as(lane, s, 400 * KIB, 64 * KIB, 0));
	ck_assert(reads_as(lane, s, 500 * KIB, 64 * KIB, 0));
	ck_assert(reads_as(lane, s, size - 20, 10, 1) && reads_as(lane, s, size - 10, 10, 3));
	lane_close(lane);
	store_close(s);
	ck_assert(file_has(path, 100, 300 * KIB, 2) && file_has(path, 500 * KIB, 64 * KIB, 0));
}
END_TEST

/* Closing, like the end of a server, is a power failure. */
START_TEST(closing_loses_it_too)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_volatile=1"));

	must_write(NULL, s, 0, 0, B, 2);
	store_close(s);
	ck_assert(file_has(path, 0, B, 1));
}
END_TEST

/* Count blocks of the file that have the new byte; each must have either. */
static unsigned new_blocks(const char *path, unsigned n, int old, int new)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++) {
		bool is_new = file_has(path, i * B, B, new);

		ck_assert(is_new || file_has(path, i * B, B, old));
		count += is_new;
	}
	return count;
}

START_TEST(a_seed_loses_some)
{
	enum { N = 200 };
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_volatile=1"));
	struct lane *lane = lane_if(_i);
	unsigned first, second;

	must_write(lane, s, 0, 0, N * B, 2);
	ck_assert_uint_eq(new_blocks(path, N, 1, 2), 0);
	ck_assert_int_eq(store_crash(s, 1), 0);
	first = new_blocks(path, N, 1, 2);
	ck_assert(first > N / 4 && first < N - N / 4);
	/* The same seed decides in the same way. */
	must_write(lane, s, ELV_FUA, 0, N * B, 1);
	must_write(lane, s, 0, 0, N * B, 2);
	ck_assert_int_eq(store_crash(s, 1), 0);
	ck_assert_uint_eq(new_blocks(path, N, 1, 2), first);
	must_write(lane, s, ELV_FUA, 0, N * B, 1);
	must_write(lane, s, 0, 0, N * B, 2);
	ck_assert_int_eq(store_crash(s, 7), 0);
	second = new_blocks(path, N, 1, 2);
	ck_assert(second > N / 4 && second < N - N / 4);
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(early_saving)
{
	enum { N = 200 };
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_volatile=1", "fault_seed=5"));
	struct lane *lane = lane_if(_i);
	unsigned n;

	must_write(lane, s, 0, 0, N * B, 2);
	ck_assert(reads_as(lane, s, 0, N * B, 2));
	n = new_blocks(path, N, 1, 2);
	ck_assert(n > N / 4 && n < N - N / 4);
	/* Newer data on top, and a flush: nothing older comes after it. */
	must_write(lane, s, 0, 0, N * B, 3);
	ck_assert(reads_as(lane, s, 0, N * B, 3));
	ck_assert_int_eq(flush(lane, s), 0);
	ck_assert_uint_eq(new_blocks(path, N, 0, 3), N);
	lane_close(lane);
	store_close(s);
}
END_TEST

START_TEST(crash_at_the_nth)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_volatile=1", "fault_crash_at=4"));
	struct lane *lane = lane_if(_i);
	char buf[B];

	must_write(lane, s, 0, 0, B, 2);
	ck_assert_int_eq(flush(lane, s), 0);
	must_write(lane, s, 0, B, B, 3);
	ck_assert_int_eq(flush(lane, s), -EIO);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, B), -EIO);
	ck_assert_int_eq(write_one(lane, s, ELV_FUA, 2 * B, B, 4), -EIO);
	ck_assert_int_eq(store_crash(s, 0), 0);
	ck_assert(reads_as(lane, s, 0, B, 2));
	ck_assert(reads_as(lane, s, B, 2 * B, 1));
	must_write(lane, s, ELV_FUA, 2 * B, B, 4);
	lane_close(lane);
	store_close(s);
}
END_TEST

/* What a failed sync should have saved is lost, though the next sync succeeds. */
START_TEST(a_failed_sync_loses_for_good)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("fault_volatile=1", "fault_sync_error_every=2"));
	struct lane *lane = lane_if(_i);

	ck_assert_int_eq(flush(lane, s), 0);
	must_write(lane, s, 0, 0, 2 * B, 2);
	ck_assert_int_eq(flush(lane, s), -EIO);
	must_write(lane, s, 0, B, B, 3);
	ck_assert_int_eq(flush(lane, s), 0);
	ck_assert(reads_as(lane, s, 0, B, 2));
	/* A FUA write whose sync fails. */
	ck_assert_int_eq(write_one(lane, s, ELV_FUA, 5 * B, B, 4), -EIO);
	ck_assert_int_eq(flush(lane, s), 0);
	ck_assert(reads_as(lane, s, 5 * B, B, 4));
	ck_assert_int_eq(store_crash(s, 0), 0);
	ck_assert(reads_as(lane, s, 0, B, 1));
	ck_assert(reads_as(lane, s, B, B, 3));
	ck_assert(reads_as(lane, s, 5 * B, B, 1));
	lane_close(lane);
	store_close(s);
}
END_TEST

/* A flush saves what was complete when it began, and nothing that came while it ran. */
START_TEST(writes_during_a_flush)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s = must_open(path, P("cache=writeback"));
	struct vcache *c;
	struct elv_io *io = malloc(sizeof(*io));
	char buf[3 * B];

	ck_assert_int_eq(vcache_open(&c, s, 0), 0);
#define WRITE(at, n, fill) do { \
		memset(buf, fill, n); \
		set_io(io, s, ELV_WRITE, 0, at, buf, n); \
		vcache_run(c, io, false); \
		ck_assert_int_eq(io->result, n); \
	} while (0)
	WRITE(0, 2 * B, 2);
	WRITE(4 * B, B, 2);
	set_io(io, s, ELV_ZERO, 0, 6 * B, NULL, B);
	vcache_run(c, io, false);
	vcache_flush_begin(c);
	WRITE(B, B, 3);
	WRITE(2 * B, B, 3);
	WRITE(4 * B + 10, 20, 3);
	WRITE(6 * B + 10, 20, 3);
	ck_assert_int_eq(vcache_flush_end(c, false), 0);
	/* Below there is the state of its beginning. */
	ck_assert(file_has(path, 0, 2 * B, 2) && file_has(path, 2 * B, B, 1));
	ck_assert(file_has(path, 4 * B, B, 2) && file_has(path, 6 * B, B, 0));
	ck_assert_uint_eq(vcache_blocks(c), 4);
	set_io(io, s, ELV_READ, 0, 4 * B, buf, 3 * B);
	vcache_run(c, io, false);
	ck_assert_int_eq(buf[9], 2);
	ck_assert_int_eq(buf[10], 3);
	ck_assert_int_eq(buf[30], 2);
	ck_assert_int_eq(buf[2 * B + 9], 0);
	ck_assert_int_eq(buf[2 * B + 29], 3);
	/* The next one saves the rest. */
	vcache_flush_begin(c);
	ck_assert_int_eq(vcache_flush_end(c, false), 0);
	ck_assert_uint_eq(vcache_blocks(c), 0);
	ck_assert(file_has(path, B, 2 * B, 3) && file_has(path, 4 * B + 10, 20, 3));
	/* Saved while a flush runs (FUA): the flush does not bring the older version after it. */
	WRITE(0, B, 4);
	vcache_flush_begin(c);
	memset(buf, 5, B);
	set_io(io, s, ELV_WRITE, ELV_FUA, 0, buf, B);
	vcache_run(c, io, true);
	ck_assert_int_eq(vcache_flush_end(c, false), 0);
	ck_assert(file_has(path, 0, B, 5));
	vcache_close(c);
	free(io);
	store_close(s);
}
END_TEST

/* Random ios on the cache against a model that knows for each block which states may be below. */
START_TEST(random_crashes)
{
	enum { N = 64 };
	const char *path = make_file("image", N * B, 0);
	struct store *s = must_open(path, P("fault_volatile=1",
					    _i & 2 ? "fault_seed=9" : "fault_seed=0"));
	struct lane *lane = lane_if(_i & 1);
	unsigned char now[N] = { 0 }, stable[N] = { 0 };
	bool written[N][256] = { { false } };
	unsigned value = 0;

	srandom(_i);
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned k = random() % 20; k; k--) {
			unsigned b = random() % N, what = random() % 12;

			if (what == 0) {
				ck_assert_int_eq(flush(lane, s), 0);
				memcpy(stable, now, N);
				memset(written, 0, sizeof(written));
				continue;
			}
			value = value % 255 + 1;
			must_write(lane, s, what < 3 ? ELV_FUA : 0, b * B, B, value);
			now[b] = value;
			written[b][value] = true;
			if (what < 3) {
				stable[b] = value;
				memset(written[b], 0, sizeof(written[b]));
			}
		}
		for (unsigned b = 0; b < N; b++)
			ck_assert(reads_as(lane, s, b * B, B, now[b]));
		ck_assert_int_eq(store_crash(s, round % 3), 0);
		for (unsigned b = 0; b < N; b++) {
			char buf[B];

			ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, b * B, buf, B), B);
			now[b] = buf[0];
			ck_assert(now[b] == stable[b] || written[b][now[b]]);
			ck_assert(reads_as(lane, s, b * B, B, now[b]));
		}
		/* What survived may be overwritten only by what is newer: it is stable now. */
		memcpy(stable, now, N);
		memset(written, 0, sizeof(written));
	}
	lane_close(lane);
	store_close(s);
}
END_TEST

/* Several lanes, each with blocks of its own, and everybody's flushes in between. */
struct user {
	pthread_t thread;
	struct store *s;
	unsigned index;
};

static void *use_store(void *arg)
{
	enum { N = 16 };
	struct user *u = arg;
	struct lane *lane = open_lane(u->index & 1);
	unsigned char now[N] = { 0 };
	unsigned random_state = u->index;

	for (unsigned k = 0; k < 400; k++) {
		unsigned b = rand_r(&random_state) % N;
		uint64_t at = (u->index * N + b) * B;

		if (k % 7 == 0)
			ck_assert_int_eq(flush(lane, u->s), 0);
		ck_assert(reads_as(lane, u->s, at, B, now[b]));
		now[b] = k + 1;
		must_write(lane, u->s, k % 5 ? 0 : ELV_FUA, at, B, now[b]);
	}
	for (unsigned b = 0; b < N; b++)
		ck_assert(reads_as(lane, u->s, (u->index * N + b) * B, B, now[b]));
	lane_close(lane);
	return NULL;
}

START_TEST(several_lanes)
{
	struct store *s = must_open(make_file("image", MIB, 0),
				    P("fault_volatile=1", "fault_seed=3"));
	struct user users[4];

	for (unsigned i = 0; i < 4; i++) {
		users[i].s = s;
		users[i].index = i;
		ck_assert_int_eq(pthread_create(&users[i].thread, NULL, use_store, &users[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(users[i].thread, NULL);
	store_close(s);
}
END_TEST

START_TEST(around_other_stores)
{
	struct store *s = must_open(make_file("image", 64 * MIB, 1),
				    P("disk_model=hdd7200", "fault_delay=1ms", "cache=none"));
	uint64_t length;
	bool hole;
	char buf[B];

	ck_assert_str_eq(s->ops->name, "fault");
	ck_assert_str_eq(s->below->ops->name, "hdd");
	ck_assert_str_eq(s->below->below->ops->name, "file");
	ck_assert_uint_eq(s->geometry.depth, 1);
	ck_assert_str_eq(s->geometry.aio, "threads");
	ck_assert_int_eq(do_io(NULL, s, ELV_READ, 0, 100, buf, B), B);
	ck_assert_int_eq(store_extents(s, 0, MIB, &length, &hole), 0);
	ck_assert(length == MIB && !hole);
	store_close(s);
	/* fault_errno alone is no reason for one. */
	s = must_open("null:", P("size=1M", "fault_errno=ENOSPC"));
	ck_assert_str_eq(s->ops->name, "null");
	ck_assert_int_eq(store_crash(s, 0), -ENOTSUP);
	store_close(s);
}
END_TEST

START_TEST(becoming_writable)
{
	const char *path = make_file("image", MIB, 1);
	struct store *s, *t;

	s = must_open(path, P("readonly=1", "fault_volatile=1", "disk_model=hdd7200"));
	ck_assert(!store_can(s, STORE_CAN_WRITE));
	t = must_open(path, P("fault_volatile=1", "disk_model=hdd7200"));
	ck_assert_ptr_eq(s, t);
	ck_assert(store_can(s, STORE_CAN_WRITE));
	ck_assert_uint_ge(s->geometry.block, B);
	must_write(NULL, s, ELV_FUA, 0, B, 2);
	ck_assert(file_has(path, 0, B, 2));
	store_close(s);
	store_close(t);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault store");
	TCase *t = tcase_create("errors");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_loop_test(t, every_third_fails, 0, 2);
	tcase_add_loop_test(t, an_error_does_nothing, 0, 2);
	tcase_add_loop_test(t, short_transfers, 0, 2);
	tcase_add_loop_test(t, short_in_pieces, 0, 2);
	tcase_add_loop_test(t, no_space_left, 0, 2);
	tcase_add_loop_test(t, failing_syncs, 0, 2);
	tcase_add_loop_test(t, delays, 0, 2);
	tcase_add_test(t, delays_do_not_block);
	tcase_add_test(t, around_other_stores);
	tcase_add_test(t, becoming_writable);
	suite_add_tcase(suite, t);

	t = tcase_create("volatile");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_loop_test(t, a_crash_loses_what_was_not_flushed, 0, 2);
	tcase_add_loop_test(t, a_flush_saves_everything, 0, 2);
	tcase_add_test(t, closing_loses_it_too);
	tcase_add_loop_test(t, a_seed_loses_some, 0, 2);
	tcase_add_loop_test(t, early_saving, 0, 2);
	tcase_add_loop_test(t, crash_at_the_nth, 0, 2);
	tcase_add_loop_test(t, a_failed_sync_loses_for_good, 0, 2);
	tcase_add_test(t, writes_during_a_flush);
	tcase_add_loop_test(t, random_crashes, 0, 4);
	tcase_add_test(t, several_lanes);
	suite_add_tcase(suite, t);
	return run_suite(suite);
}
