/*
 * Random operations of all kinds through a lane, against a model in memory: every cache mode, way
 * of I/O and kind of image; ranges, memory and segments of any alignment; several at a time.
 */
#include "tests/unit/test_store.h"
#include "tests/unit/test_loop.h"

enum { MIB = 1024 * 1024, SIZE = 3 * MIB, BATCH = 12, LONGEST = 400 * 1024 };

static uint64_t seed;

static uint64_t rnd(uint64_t n)
{
	/* xorshift64* (Vigna 2016) */
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (seed * 2685821657736338717ull >> 16) % n;
}

struct op {
	struct elv_io io;
	char *memory;     /* LONGEST and some */
};

struct world {
	struct store *s;
	struct lane *lane; /* NULL: store_run */
	const char *path;
	char *model;
	uint64_t size;
	struct op *ops;
	uint64_t zeroed, refused;
};

/* Cut the io's memory into a few pieces at odd places, or at even ones. */
static void cut(struct elv_io *io, char *memory)
{
	uint64_t left = io->length, unit = rnd(2) ? 1 : 512;

	io->iov = io->vec;
	for (io->niov = 0; left; io->niov++) {
		uint64_t n = io->niov == 5 ? left : (1 + rnd(left)) / unit * unit;

		if (!n || n > left || rnd(3) == 0)
			n = left;
		io->vec[io->niov].iov_base = memory;
		io->vec[io->niov].iov_len = n;
		memory += n;
		left -= n;
	}
}

/* Where the elevator would let it go: no modification meets anything else within a block. */
static bool conflicts(struct world *w, unsigned n)
{
	uint64_t mask = w->s->geometry.block - 1;
	struct elv_io *a = &w->ops[n].io;

	for (unsigned i = 0; i < n; i++) {
		struct elv_io *b = &w->ops[i].io;
		uint64_t a0 = a->offset & ~mask, a1 = (a->offset + a->length + mask) & ~mask;
		uint64_t b0 = b->offset & ~mask, b1 = (b->offset + b->length + mask) & ~mask;

		if ((elv_modifies(a->op) || elv_modifies(b->op)) && a0 < b1 && b0 < a1)
			return true;
	}
	return false;
}

static void choose(struct world *w, unsigned n)
{
	static const enum elv_op ops[] = {
		ELV_READ, ELV_READ, ELV_READ, ELV_WRITE, ELV_WRITE, ELV_WRITE, ELV_FLUSH, ELV_TRIM,
		ELV_ZERO, ELV_CACHE,
	};
	struct elv_io *io = &w->ops[n].io;
	char *memory = w->ops[n].memory + (rnd(2) ? rnd(100) : 0);

	do {
		uint64_t unit = rnd(2) ? 1 : rnd(2) ? 512 : 4096;

		set_io(io, w->s, ops[rnd(10)], rnd(8), rnd(w->size) / unit * unit, NULL, 0);
		io->length = (1 + rnd(rnd(4) ? 9000 : LONGEST)) / unit * unit;
		if (!io->length)
			io->length = unit;
		if (io->length > w->size - io->offset)
			io->length = w->size - io->offset;
	} while (conflicts(w, n));
	if (io->op == ELV_FLUSH)
		io->offset = io->length = 0;
	if (io->op != ELV_READ && io->op != ELV_WRITE)
		return;
	cut(io, memory);
	for (uint64_t i = 0; i < io->length; i++)
		memory[i] = io->op == ELV_READ ? 0x55 : (char)rnd(256);
}

/* What a TRIM leaves: each byte as it was, or zero. */
static void look_at(struct world *w, struct elv_io *io)
{
	char *now = malloc(io->length);

	ck_assert_int_eq(do_io(NULL, w->s, ELV_READ, 0, io->offset, now, io->length), io->length);
	/* (Each ck_assert is a system call: not one a byte.) */
	for (uint64_t i = 0; i < io->length; i++)
		if (now[i] && now[i] != w->model[io->offset + i])
			ck_abort_msg("byte %llu after a TRIM",
				     (unsigned long long)(io->offset + i));
	memcpy(w->model + io->offset, now, io->length);
	free(now);
}

static void check(struct world *w, struct elv_io *io)
{
	char *at = w->model + io->offset;

	if (io->op == ELV_ZERO && (io->flags & ELV_FAST_ZERO) && io->result == -ENOTSUP) {
		w->refused++;
		return;
	}
	ck_assert_msg(io->result == (int64_t)io->length, "op %d flags %u %llu+%llu: %lld", io->op,
		      io->flags, (unsigned long long)io->offset, (unsigned long long)io->length,
		      (long long)io->result);
	ck_assert(!io->sync_failed);
	if (io->op == ELV_READ && memcmp(io->iov[0].iov_base, at, io->length))
		ck_abort_msg("wrong data at %llu+%llu", (unsigned long long)io->offset,
			     (unsigned long long)io->length);
	if (io->op == ELV_WRITE)
		memcpy(at, io->iov[0].iov_base, io->length);
	else if (io->op == ELV_ZERO)
		memset(at, 0, io->length);
	else if (io->op == ELV_TRIM)
		look_at(w, io);
	w->zeroed += io->op == ELV_ZERO;
}

static void run_round(struct world *w)
{
	struct elv_ios list = TAILQ_HEAD_INITIALIZER(list), done = TAILQ_HEAD_INITIALIZER(done);
	unsigned n = 1 + rnd(BATCH), got = 0;

	for (unsigned i = 0; i < n; i++) {
		choose(w, i);
		TAILQ_INSERT_TAIL(&list, &w->ops[i].io, link);
	}
	if (w->lane) {
		lane_submit(w->lane, &list);
		while ((got += lane_reap(w->lane, &done)) < n)
			wait_readable(lane_fd(w->lane));
	} else {
		for (unsigned i = 0; i < n; i++)
			store_run(w->s, &w->ops[i].io);
	}
	/* Reads first: what a TRIM left is looked at when all is done. */
	for (unsigned i = 0; i < n; i++)
		check(w, &w->ops[i].io);
}

static void compare(struct world *w, const char *what)
{
	int fd = open(w->path, O_RDONLY);
	char *now = malloc(w->size);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, now, w->size, 0), w->size);
	for (uint64_t i = 0; i < w->size; i++)
		if (now[i] != w->model[i])
			ck_abort_msg("%s: byte %llu differs", what, (unsigned long long)i);
	free(now);
	close(fd);
}

static void run_world(const char *path, uint64_t size, int way, struct store_params p,
		      const char *what)
{
	unsigned rounds = getenv("FULL") && *getenv("FULL") ? 400 : 60;
	struct world w = { .path = path, .size = size };
	int fd;

	seed = 88172645463325252ull + way;
	w.model = malloc(size);
	for (uint64_t i = 0; i < size; i++)
		w.model[i] = rnd(256);
	fd = open(path, O_WRONLY);
	ck_assert_int_eq(write(fd, w.model, size), size);
	ck_assert_int_eq(fsync(fd), 0);
	close(fd);
	w.ops = calloc(BATCH, sizeof(*w.ops));
	for (unsigned i = 0; i < BATCH; i++)
		ck_assert_int_eq(posix_memalign((void **)&w.ops[i].memory, 4096, LONGEST + 4096),
				 0);
	w.s = must_open(path, p);
	w.lane = way == 2 ? NULL : open_lane(way == 0);
	for (unsigned r = 0; r < rounds; r++)
		run_round(&w);
	ck_assert_uint_gt(w.zeroed, 0);
	if (w.lane)
		ck_assert_uint_eq(lane_in_flight(w.lane), 0);
	ck_assert_int_eq(do_io(NULL, w.s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	compare(&w, what);
	lane_close(w.lane);
	store_close(w.s);
	compare(&w, what);
	for (unsigned i = 0; i < BATCH; i++)
		free(w.ops[i].memory);
	free(w.ops);
	free(w.model);
}

/* _i: cache mode, aio, lane with ring, lane without, no lane. */
static struct store_params settings(int i, char *what, size_t len)
{
	static const char *const caches[] = {
		"cache=none", "cache=writeback", "cache=writethrough",
	};
	static const char *const aios[] = { "aio=auto", "aio=threads" };

	snprintf(what, len, "%s %s way %d", caches[i % 3], aios[i / 3 % 2], i / 6);
	return P(caches[i % 3], aios[i / 3 % 2], "dirty_bytes=256K");
}

START_TEST(file_oracle)
{
	char what[64];
	struct store_params p = settings(_i, what, sizeof(what));
	/* Buffered: not a whole sector at the end. */
	uint64_t size = _i % 3 ? SIZE + 177 : SIZE;

	run_world(make_file("image", size, 0), size, _i / 6, p, what);
}
END_TEST

START_TEST(device_oracle)
{
	char what[64], loop[64];
	struct store_params p = settings(_i, what, sizeof(what));

	int fd = attach_loop(make_file("image", SIZE, 0), "", loop);

	if (fd < 0)
		return;
	run_world(loop, SIZE, _i / 6, p, what);
	close(fd);
}
END_TEST

/* A device with sectors of 4096 bytes: direct I/O must keep to them. */
START_TEST(device_4k_oracle)
{
	char what[64], loop[64];
	struct store_params p = settings(_i, what, sizeof(what));

	int fd = attach_loop(make_file("image", SIZE, 0), "--sector-size 4096", loop);

	if (fd < 0)
		return;
	run_world(loop, SIZE, _i / 6, p, what);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store oracle");
	TCase *t = tcase_create("oracle");

	tcase_set_timeout(t, 250);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_loop_test(t, file_oracle, 0, 18);
	tcase_add_loop_test(t, device_oracle, 0, 18);
	tcase_add_loop_test(t, device_4k_oracle, 0, 6);
	suite_add_tcase(suite, t);
	return run_suite(suite);
}
