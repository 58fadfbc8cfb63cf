/*
 * The file store: what may be opened and how it is refused, locks, geometry, failures of every
 * kind, and which way an io goes. Devices are in test_store_block.c.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/store/lane.h"
#include "tests/unit/test_loop.h"
#include "tests/unit/test_store.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static off_t blocks_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_blocks;
}

static char *aligned(size_t size, int fill)
{
	char *p;

	ck_assert_int_eq(posix_memalign((void **)&p, 4096, size), 0);
	memset(p, fill, size);
	return p;
}

/* ---- refusals ---- */

START_TEST(only_files_and_devices)
{
	refuses(test_dir, P("readonly=1"), -EISDIR, "a directory");
	refuses(test_dir, P("size=1M"), -EISDIR, "a directory");
	ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
	refuses(in_dir("fifo"), P("readonly=0"), -EINVAL, "a FIFO");
	refuses("/dev/null", P("readonly=0"), -EINVAL, "a character device");
	refuses(in_dir("no/such"), P("size=1M"), -ENOENT, "no/such");
	refuses(in_dir("none"), P("readonly=0"), -ENOENT, "size=");
	refuses(in_dir("none"), P("readonly=1", "size=1M"), -ENOENT, "does not exist");
	refuses(make_file("empty", 0, 0), P("readonly=0"), -EINVAL, "empty");
	refuses(make_file("file", 10000, 0), P("size=20000"), -EINVAL,
		"10000 bytes, not size=20000");
	ck_assert_int_eq(symlink("nowhere", in_dir("link")), 0);
	refuses(in_dir("link"), P("size=1M"), -EEXIST, "link");
}
END_TEST

START_TEST(a_missing_file_is_created)
{
	struct store *s;
	struct stat st;

	umask(027);
	s = must_open(in_dir("new"), P("size=3M"));
	ck_assert_uint_eq(s->geometry.size, 3 * MIB);
	ck_assert_int_eq(stat(in_dir("new"), &st), 0);
	ck_assert_int_eq(st.st_size, 3 * MIB);
	ck_assert_int_eq(st.st_mode & 0777, 0640);
	ck_assert_int_eq(st.st_blocks, 0);
	store_close(s);
	s = must_open(in_dir("new"), P("size=3M")); /* now it exists: the size is right */
	store_close(s);
}
END_TEST

START_TEST(a_failed_creation_leaves_nothing)
{
	refuses(in_dir("new"), P("size=1000", "cache=none"), -EINVAL, "no multiple");
	ck_assert_int_eq(access(in_dir("new"), F_OK), -1);
	refuses(in_dir("new"), P("size=9007199254740992"), -EFBIG, "9007199254740992");
	ck_assert_int_eq(access(in_dir("new"), F_OK), -1);
}
END_TEST

START_TEST(permissions)
{
	const char *path = make_file("file", MIB, 0);

	ck_assert_int_eq(chmod(path, 0444), 0);
	ck_assert_int_eq(chmod(test_dir, 0555), 0);
	if (geteuid() == 0 && seteuid(65534))
		return;
	refuses(path, P("readonly=0"), -EACCES, "Permission denied (readonly=1");
	store_close(must_open(path, P("readonly=1")));
	refuses(in_dir("new"), P("size=1M"), -EACCES, "Permission denied");
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(chmod(test_dir, 0755), 0);
}
END_TEST

START_TEST(no_direct_io)
{
	ck_assert_int_eq(mkdir(in_dir("ram"), 0700), 0);
	if (!private_mount("ramfs", in_dir("ram"), NULL))
		return;
	make_file("ram/file", MIB, 0);
	refuses(in_dir("ram/file"), P("cache=none"), -EINVAL, "use cache=writeback");
	refuses(in_dir("ram/new"), P("cache=none", "size=1M"), -EINVAL, "use cache=writeback");
	ck_assert_int_eq(access(in_dir("ram/new"), F_OK), -1);
	store_close(must_open(in_dir("ram/file"), P("cache=writeback")));
	ck_assert_int_eq(umount2(in_dir("ram"), MNT_DETACH), 0);
}
END_TEST

START_TEST(an_odd_size)
{
	const char *path = make_file("odd", 10001, 9);
	struct lane *lane = open_lane(_i);
	struct store *s;
	char buf[600];

	refuses(path, P("cache=none"), -EINVAL, "10240");
	ck_assert_msg(strstr(err, "cache=writeback"), "%s", err);
	s = must_open(path, P("cache=writeback"));
	ck_assert_uint_eq(s->geometry.size, 10001);
	ck_assert_msg(strstr(s->notice, "10001"), "%s", s->notice);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 10000, buf, 1), 1);
	ck_assert_int_eq(buf[0], 9);
	memset(buf, 3, sizeof(buf));
	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, ELV_FUA, 9500, buf, 501), 501);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, 0, 10000, NULL, 1), 1);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 9999, buf, 2), 2);
	ck_assert_int_eq(buf[0], 3);
	ck_assert_int_eq(buf[1], 0);
	store_close(s);
	lane_close(lane);
	s = must_open(make_file("even", 10240, 9), P("cache=none"));
	ck_assert_str_eq(s->notice, "");
	store_close(s);
}
END_TEST

/* ---- locks ---- */

static void lock_file(int fd, int cmd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	ck_assert_int_eq(fcntl(fd, cmd, &lock), 0);
}

struct holder {
	int fd;             /* has the lock */
	pid_t opener;       /* a thread */
	atomic_bool opened; /* or refused */
};

/* Is this thread in clock_nanosleep? */
static bool is_asleep(pid_t tid)
{
	char path[64];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%ld", &number) != 1)
		number = -1; /* running */
	if (f)
		fclose(f);
	return number == SYS_clock_nanosleep || number == SYS_nanosleep;
}

/* Lets go of the lock when the opener waits for it. */
static void *let_go(void *arg)
{
	struct holder *h = arg;

	while (!atomic_load(&h->opened) && !is_asleep(h->opener))
		sched_yield();
	close(h->fd);
	return NULL;
}

/* The lock of a server that was killed stays a moment longer than its process. */
START_TEST(a_lock_that_goes)
{
	const char *path = make_file("file", MIB, 0);
	struct holder h = { .fd = open(path, O_RDWR), .opener = (pid_t)syscall(SYS_gettid) };
	pthread_t thread;
	struct store *s;

	if (access("/proc/self/syscall", R_OK)) {
		puts("nobody can see here what a thread does: skipped");
		close(h.fd);
		return;
	}
	lock_file(h.fd, F_OFD_SETLK, F_WRLCK);
	ck_assert_int_eq(pthread_create(&thread, NULL, let_go, &h), 0);
	s = must_open(path, P("readonly=0"));
	atomic_store(&h.opened, true);
	pthread_join(thread, NULL);
	store_close(s);
}
END_TEST

START_TEST(locked_by_another_program)
{
	struct flock exclusive = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const char *path = make_file("file", MIB, 0);
	int fd = open(path, O_RDWR), p[2];
	struct store *s, *t;
	char pid[32], c;
	pid_t child;

	/* An open file description lock says nothing about its holder. */
	lock_file(fd, F_OFD_SETLK, F_WRLCK);
	refuses(path, P("readonly=0"), -EBUSY, "another program");
	refuses(path, P("readonly=1"), -EBUSY, "lock=0");
	s = must_open(path, P("lock=0"));
	store_close(s);
	lock_file(fd, F_OFD_SETLK, F_RDLCK);
	refuses(path, P("readonly=0"), -EBUSY, "lock=0");
	s = must_open(path, P("readonly=1"));
	ck_assert_int_eq(try_open(&t, "writer", path, P("readonly=0")), -EBUSY);
	/* The reader goes on as before, lock included. */
	ck_assert(!store_can(s, STORE_CAN_WRITE));
	lock_file(fd, F_OFD_SETLK, F_UNLCK);
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &exclusive), -1);
	ck_assert_int_eq(do_io(NULL, s, ELV_READ, 0, 0, &c, 1), 1);
	store_close(s);
	close(fd);

	/* A process's lock does. */
	ck_assert_int_eq(pipe(p), 0);
	child = fork();
	if (!child) {
		fd = open(path, O_RDWR);
		lock_file(fd, F_SETLK, F_WRLCK);
		_exit(write(p[1], "x", 1) != 1 || pause());
	}
	ck_assert_int_eq(read(p[0], &c, 1), 1);
	snprintf(pid, sizeof(pid), "process %d ", child);
	refuses(path, P("readonly=0"), -EBUSY, pid);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	store_close(must_open(path, P("readonly=0")));
}
END_TEST

START_TEST(locks_against_others)
{
	const char *path = make_file("file", MIB, 0);
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR);
	struct store *s = must_open(path, P("readonly=1")), *t;

	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	lock.l_type = F_WRLCK;
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), -1);
	lock.l_type = F_UNLCK;
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	t = must_open(path, P("readonly=0"));
	ck_assert_ptr_eq(s, t);
	lock.l_type = F_RDLCK;
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), -1);
	store_close(s);
	store_close(t);
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	close(fd);
}
END_TEST

/* ---- geometry ---- */

START_TEST(geometry_of_a_file)
{
	struct store *a = must_open(make_file("a", MIB, 0), P("cache=writeback"));
	struct store *b = must_open(make_file("b", MIB, 0), P("cache=none", "rotational=1"));
	struct stat st;

	ck_assert_int_eq(stat(in_dir("a"), &st), 0);
	ck_assert_uint_eq(a->dev, st.st_dev);
	ck_assert_uint_eq(a->ino, st.st_ino);
	ck_assert_uint_eq(a->geometry.block, 1);
	ck_assert(a->geometry.buffered && !b->geometry.buffered);
	ck_assert_uint_ge(b->geometry.block, 512);
	ck_assert_uint_eq(b->geometry.block & (b->geometry.block - 1), 0);
	ck_assert_uint_ge(a->geometry.preferred, 512);
	ck_assert(a->geometry.device != 0);
	ck_assert_uint_eq(a->geometry.device, b->geometry.device);
	ck_assert_str_eq(a->geometry.device_name, b->geometry.device_name);
	ck_assert_uint_gt(strlen(a->geometry.device_name), 0);
	ck_assert(b->geometry.rotational);
	ck_assert_uint_eq(b->geometry.depth, 4);
	ck_assert_uint_eq(a->geometry.depth, a->geometry.rotational ? 4 : 32);
	ck_assert(a->geometry.multi_conn);
	ck_assert(store_can(a, STORE_CAN_CACHE) && !store_can(b, STORE_CAN_CACHE));
	store_close(a);
	store_close(b);
}
END_TEST

/* ---- TRIM, ZERO, extents ---- */

static void check_extents(struct store *s, uint64_t at, uint64_t want, bool want_hole)
{
	uint64_t length;
	bool hole;

	ck_assert_int_eq(store_extents(s, at, s->geometry.size - at, &length, &hole), 0);
	ck_assert_uint_eq(length, want);
	ck_assert_int_eq(hole, want_hole);
}

/* A megabyte of data, one of nothing, two of data. */
static void check_status(struct lane *lane, struct store *s)
{
	struct elv_status *status = calloc(1, sizeof(*status) + 3 * sizeof(struct elv_extent));

	for (status->max = 1; status->max <= 3; status->max++) {
		ck_assert_int_eq(do_io(lane, s, ELV_STATUS, 0, 512, status, 4 * MIB - 1024),
				 4 * MIB - 1024);
		ck_assert_uint_eq(status->n, status->max);
		ck_assert_uint_eq(status->extent[0].length, MIB - 512);
		ck_assert_uint_eq(status->extent[0].hole, 0);
		if (status->n > 1) {
			ck_assert_uint_eq(status->extent[1].length, MIB);
			ck_assert_uint_eq(status->extent[1].hole, 1);
		}
		if (status->n > 2) {
			ck_assert_uint_eq(status->extent[2].length, 2 * MIB - 512);
			ck_assert_uint_eq(status->extent[2].hole, 0);
		}
	}
	ck_assert_int_eq(do_io(lane, s, ELV_STATUS, 0, MIB + 5, status, 10), 10);
	ck_assert_uint_eq(status->n, 1);
	ck_assert_uint_eq(status->extent[0].length, 10);
	ck_assert_uint_eq(status->extent[0].hole, 1);
	free(status);
}

START_TEST(holes)
{
	const char *path = make_file("file", 4 * MIB, 5);
	struct lane *lane = _i ? open_lane(_i & 1) : NULL;
	struct store *s = must_open(path, P(_i & 4 ? "cache=none" : "cache=writethrough"));
	char *buf = aligned(MIB, 1);

	ck_assert(store_can(s, STORE_CAN_TRIM) && store_can(s, STORE_CAN_FAST_ZERO));
	check_extents(s, 0, 4 * MIB, false);
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, MIB, NULL, MIB), MIB);
	ck_assert_int_le(blocks_of(path), 3 * MIB / 512 + 64);
	check_extents(s, 0, MIB, false);
	check_extents(s, MIB, MIB, true);
	check_extents(s, MIB + 512, MIB - 512, true);
	check_status(lane, s);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_NO_HOLE, 0, NULL, MIB), MIB);
	ck_assert_int_ge(blocks_of(path), 3 * MIB / 512);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_FAST_ZERO, 3 * MIB, NULL, MIB), MIB);
	ck_assert_int_le(blocks_of(path), 2 * MIB / 512 + 64);
	check_extents(s, 3 * MIB, MIB, true);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, i * MIB, buf, MIB), MIB);
		ck_assert_int_eq(buf[0], i == 2 ? 5 : 0);
		ck_assert_int_eq(buf[MIB - 1], i == 2 ? 5 : 0);
	}
	free(buf);
	store_close(s);
	lane_close(lane);
}
END_TEST

/* A file system that can nothing of this. */
START_TEST(no_holes)
{
	struct lane *lane;
	struct store *s;
	char *buf = aligned(3 * MIB, 1);

	ck_assert_int_eq(mkdir(in_dir("ram"), 0700), 0);
	if (!private_mount("ramfs", in_dir("ram"), NULL))
		return;
	lane = open_lane(_i);
	s = must_open(make_file("ram/file", 3 * MIB, 7), P("cache=writeback"));
	ck_assert(!store_can(s, STORE_CAN_TRIM) && !store_can(s, STORE_CAN_FAST_ZERO));
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 0, NULL, MIB), MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_FAST_ZERO, 0, NULL, MIB), -ENOTSUP);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_FAST_ZERO | ELV_NO_HOLE, 0, NULL, MIB),
			 -ENOTSUP);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_NO_HOLE, 1000, NULL, 2 * MIB), 2 * MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, 3 * MIB), 3 * MIB);
	for (unsigned i = 0; i < 3 * MIB; i++)
		if (buf[i] != (i < 1000 || i >= 1000 + 2 * MIB ? 7 : 0))
			ck_abort_msg("byte %u", i);
	free(buf);
	store_close(s);
	lane_close(lane);
	ck_assert_int_eq(umount2(in_dir("ram"), MNT_DETACH), 0);
}
END_TEST

/* ---- failures ---- */

START_TEST(a_file_that_became_shorter)
{
	static const char *const caches[] = {
		"cache=writeback", "cache=none", "cache=writethrough",
	};
	const char *path = make_file("file", MIB, 5);
	struct lane *lane = _i % 3 ? open_lane(_i % 3 == 1) : NULL;
	struct store *s = must_open(path, P(caches[_i / 3]));
	char *buf = aligned(64 * KIB, 0);

	ck_assert_int_eq(truncate(path, 512 * KIB), 0);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 512 * KIB, buf, 4096), -EIO);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 768 * KIB, buf + 1, 4095), -EIO);
	/* What there is, then the end. */
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 508 * KIB, buf, 8192), 4096);
	ck_assert_int_eq(buf[4095], 5);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, 64 * KIB), 64 * KIB);
	free(buf);
	store_close(s);
	lane_close(lane);
}
END_TEST

START_TEST(no_space)
{
	struct lane *lane = NULL;
	struct store *s;
	char *buf = aligned(2 * MIB, 1);
	int64_t r;

	ck_assert_int_eq(mkdir(in_dir("tmp"), 0700), 0);
	if (!private_mount("tmpfs", in_dir("tmp"), "size=1m"))
		return;
	lane = _i % 3 ? open_lane(_i % 3 == 1) : NULL;
	s = must_open(in_dir("tmp/file"),
		      P("size=4M", _i / 3 ? "dirty_bytes=0" : "dirty_bytes=64M"));
	r = do_io(lane, s, ELV_WRITE, 0, 0, buf, 2 * MIB);
	ck_assert_msg(r == -ENOSPC || (r > 0 && r <= MIB), "%lld", (long long)r);
	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, 0, 2 * MIB, buf, 64 * KIB), -ENOSPC);
	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, ELV_FUA, 2 * MIB, buf, 64 * KIB), -ENOSPC);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_NO_HOLE, 2 * MIB, NULL, MIB), -ENOSPC);
	/* TRIM gives it back. */
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 0, NULL, 4 * MIB), 4 * MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, 0, 2 * MIB, buf, 64 * KIB), 64 * KIB);
	free(buf);
	store_close(s);
	lane_close(lane);
	ck_assert_int_eq(umount2(in_dir("tmp"), MNT_DETACH), 0);
}
END_TEST

/* ---- which way ---- */

static struct store_stats stats_of(struct store *s)
{
	struct store_stats stats;

	store_get_stats(s, &stats);
	return stats;
}

/* One write, and the way it went. */
static enum store_way write_way(struct lane *lane, struct store *s, unsigned flags, uint64_t offset,
				uint64_t length)
{
	struct store_stats before = stats_of(s), after;
	char *buf = aligned(length + 1, 1);
	int way = -1;

	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, flags, offset, buf, length), length);
	after = stats_of(s);
	for (int i = 0; i < STORE_NUM_WAYS; i++) {
		if (after.writes[i] == before.writes[i])
			continue;
		ck_assert_uint_eq(after.writes[i], before.writes[i] + 1);
		ck_assert_int_eq(way, -1);
		way = i;
	}
	free(buf);
	return way;
}

/* One that is expected to go inline: where one before it was slow, only after a while. */
static void goes_inline(struct lane *lane, struct store *s, uint64_t offset, uint64_t length)
{
	while (write_way(lane, s, 0, offset, length) != STORE_INLINE) {
		ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
		usleep(1000);
	}
}

/* How many pages of the file are in the page cache. */
static size_t cached_pages(const char *path)
{
	int fd = open(path, O_RDONLY);
	unsigned char in[1024];
	struct stat st;
	size_t pages, n = 0;
	void *map;

	ck_assert_int_eq(fstat(fd, &st), 0);
	pages = (st.st_size + 4095) / 4096;
	ck_assert_uint_le(pages, sizeof(in));
	map = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_int_eq(mincore(map, st.st_size, in), 0);
	munmap(map, st.st_size);
	close(fd);
	for (size_t i = 0; i < pages; i++)
		n += in[i] & 1;
	return n;
}

/* Forget what is in the page cache. False: this file system keeps everything there. */
static bool drop_cache(const char *path)
{
	int fd = open(path, O_RDWR);

	ck_assert_int_eq(fdatasync(fd), 0);
	ck_assert_int_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	close(fd);
	if (cached_pages(path)) {
		puts("the page cache cannot be emptied here: skipped");
		return false;
	}
	return true;
}

START_TEST(ways_of_a_buffered_write)
{
	const char *path = make_file("file", 4 * MIB, 0);
	struct store *s = must_open(path, P("dirty_bytes=1M"));
	struct lane *lane = open_lane(_i);
	enum store_way other = lane_has_ring(lane) ? STORE_RING : STORE_WORKER;
	struct store_params p;

	goes_inline(lane, s, 4096, 8192);
	goes_inline(lane, s, 4096, 256 * KIB);
	ck_assert_int_eq(write_way(lane, s, 0, 4096, 260 * KIB), other);
	ck_assert_int_eq(write_way(lane, s, ELV_FUA, 4096, 4096), other);
	ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	ck_assert_uint_lt(stats_of(s).dirty_bytes, MIB);
	/* Parts of pages: if they are there. */
	if (drop_cache(path)) {
		goes_inline(lane, s, MIB, 4096);
		ck_assert_int_eq(write_way(lane, s, 0, 2 * MIB + 1, 4095), other);
		goes_inline(lane, s, 2 * MIB + 7, 512);
	}
	if (drop_cache(path)) {
		goes_inline(lane, s, MIB, 4096);
		ck_assert_int_eq(write_way(lane, s, 0, 3 * MIB, 4097), other);
		goes_inline(lane, s, 3 * MIB, 4097);
	}
	/* Setting it to 0 turns it off. */
	p = P("dirty_bytes=0");
	store_set_params(s, &p);
	tunable_free(store_rows, &p);
	ck_assert_int_eq(write_way(lane, s, 0, 4096, 4096), other);
	store_close(s);
	lane_close(lane);
}
END_TEST

/* Above dirty_bytes no more inline; overwriting the same pages is found not to be more dirt. */
START_TEST(dirty_bytes_limit)
{
	struct store *s = must_open(make_file("file", 4 * MIB, 0), P("dirty_bytes=1M"));
	struct lane *lane = open_lane(true);

	ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	ck_assert_uint_eq(stats_of(s).dirty_bytes, 0);
	for (unsigned i = 0; i < 4; i++)
		write_way(lane, s, 0, i * 256 * KIB, 256 * KIB);
	ck_assert_uint_eq(stats_of(s).dirty_bytes, MIB);
	ck_assert_int_ne(write_way(lane, s, 0, MIB, 4096), STORE_INLINE);
	ck_assert_uint_ge(stats_of(s).dirty_bytes, MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	ck_assert_uint_lt(stats_of(s).dirty_bytes, MIB);
	goes_inline(lane, s, MIB, 4096);
	store_close(s);
	lane_close(lane);
}
END_TEST

START_TEST(overwrites_are_recounted)
{
	struct store *s = must_open(make_file("file", 4 * MIB, 0), P("dirty_bytes=1M"));
	struct lane *lane = open_lane(true);
	uint64_t range[2] = { 0, 4096 }, stat[5];
	bool counted = false;

	if (syscall(451, open(in_dir("file"), O_RDWR), range, stat, 0)) {
		puts("no cachestat here: skipped");
		return;
	}
	if (!drop_cache(in_dir("file")))
		return;
	/* 64 KiB again and again: far more than a megabyte, but never more than 64 KiB dirty. */
	while (!counted) {
		uint64_t before = stats_of(s).dirty_bytes;

		write_way(lane, s, 0, 0, 64 * KIB);
		counted = stats_of(s).dirty_bytes < before;
	}
	ck_assert_uint_le(stats_of(s).dirty_bytes, 192 * KIB);
	store_close(s);
	lane_close(lane);
}
END_TEST

START_TEST(ways_of_a_read)
{
	const char *path = make_file("file", MIB, 0);
	struct store *s = must_open(path, P("cache=writeback"));
	struct lane *lane = open_lane(_i);
	enum store_way other = lane_has_ring(lane) ? STORE_RING : STORE_WORKER;
	struct elv_io *ios = calloc(8, sizeof(*ios));
	struct store_stats stats;
	char *buf = aligned(8 * 4096, 1);

	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, 4096), 4096);
	ck_assert_uint_eq(stats_of(s).reads[STORE_INLINE], 1);
	for (unsigned i = 0; i < 8; i++)
		set_io(&ios[i], s, ELV_READ, 0, i * 4096, buf + i * 4096, 4096);
	do_ios(lane, ios, 8);
	stats = stats_of(s);
	if (lane_has_ring(lane))
		ck_assert_uint_eq(stats.reads[STORE_RING], 8);
	else
		ck_assert_uint_eq(stats.reads[STORE_INLINE], 1 + 8);
	/* The disk may be so fast that the page is there before anybody has to wait for it. */
	for (bool waited = false; !waited && drop_cache(path);) {
		stats = stats_of(s);
		ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 512 * KIB, buf, 4096), 4096);
		waited = stats_of(s).reads[other] == stats.reads[other] + 1;
		ck_assert(waited || stats_of(s).reads[STORE_INLINE] == stats.reads[STORE_INLINE] + 1);
	}
	free(ios);
	free(buf);
	store_close(s);
	lane_close(lane);
}
END_TEST

START_TEST(ways_of_direct_io)
{
	struct store *s = must_open(make_file("file", MIB, 0), P("cache=none"));
	struct lane *lane = open_lane(_i);
	enum store_way other = lane_has_ring(lane) ? STORE_RING : STORE_WORKER;
	char *buf = aligned(8192, 1);

	ck_assert_int_eq(write_way(lane, s, 0, 4096, 8192), other);
	ck_assert_int_eq(write_way(lane, s, ELV_FUA, 4096, 8192), other);
	ck_assert_uint_eq(stats_of(s).bounced, 0);
	ck_assert_int_eq(write_way(lane, s, 0, 1, 8192), STORE_WORKER);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf + 1, 4096), 4096);
	ck_assert_uint_eq(stats_of(s).bounced, 2);
	ck_assert_int_eq(do_io(lane, s, ELV_CACHE, 0, 0, NULL, MIB), MIB);
	free(buf);
	store_close(s);
	lane_close(lane);
}
END_TEST

/* CACHE brings it into the page cache. */
START_TEST(prefetching)
{
	const char *path = make_file("file", 2 * MIB, 0);
	struct store *s = must_open(path, P("cache=writeback"));
	struct lane *lane = open_lane(_i);
	struct store_stats stats;
	char *buf = aligned(MIB, 1);

	drop_cache(path);
	ck_assert_int_eq(do_io(lane, s, ELV_CACHE, 0, 512 * KIB, NULL, MIB), MIB);
	/* It is read in the background: a plain read waits for it... */
	ck_assert_int_eq(do_io(NULL, s, ELV_READ, 0, 512 * KIB, buf, MIB), MIB);
	stats = stats_of(s);
	/* ...and this one finds it there. */
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 512 * KIB, buf, MIB), MIB);
	ck_assert_uint_eq(stats_of(s).reads[STORE_INLINE], stats.reads[STORE_INLINE] + 1);
	free(buf);
	store_close(s);
	lane_close(lane);
}
END_TEST

/* Holes are not brought there: that would be zeroes in place of what others have in it. */
START_TEST(prefetching_holes)
{
	const char *path = in_dir("file");
	struct store *s;
	struct lane *lane = open_lane(_i);
	char *buf = aligned(64 * KIB, 1);
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	ck_assert_int_eq(ftruncate(fd, 4 * MIB), 0);
	ck_assert_int_eq(pwrite(fd, buf, 64 * KIB, 2 * MIB), 64 * KIB);
	close(fd);
	s = must_open(path, P("cache=writeback"));
	if (drop_cache(path) && blocks_of(path) * 512 < MIB) {
		ck_assert_int_eq(do_io(lane, s, ELV_CACHE, 0, 0, NULL, 4 * MIB), 4 * MIB);
		ck_assert_uint_lt(cached_pages(path), 256);
	}
	free(buf);
	store_close(s);
	lane_close(lane);
}
END_TEST

/* ---- without io_uring ---- */

static bool refuse_io_uring(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
		!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

START_TEST(a_container_without_io_uring)
{
	const char *path = make_file("file", MIB, 3);
	struct lane *lane;
	struct store *s;
	char *buf = aligned(4096, 1);

	if (!refuse_io_uring(_i ? ENOSYS : EPERM)) {
		puts("no system call filters here: skipped");
		return;
	}
	ck_assert(!lane_ring_possible(err, sizeof(err)));
	ck_assert_msg(strstr(err, _i ? "has no io_uring" : "not permitted"), "%s", err);
	lane = open_lane(true);
	ck_assert(!lane_has_ring(lane));
	refuses(path, P("aio=io_uring"), -ENOTSUP, "aio=auto");
	s = must_open(path, P("cache=none"));
	ck_assert_str_eq(s->geometry.aio, "threads");
	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, ELV_FUA, 0, buf, 4096), 4096);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, 4096), 4096);
	ck_assert_int_eq(buf[0], 1);
	ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	ck_assert_uint_eq(stats_of(s).others[STORE_WORKER], 1);
	free(buf);
	store_close(s);
	lane_close(lane);
}
END_TEST

START_TEST(io_uring_if_asked_for)
{
	struct store *s;

	if (!lane_ring_possible(err, sizeof(err))) {
		puts("no io_uring here: skipped");
		return;
	}
	s = must_open(make_file("file", MIB, 3), P("aio=io_uring"));
	ck_assert_str_eq(s->geometry.aio, "io_uring");
	store_close(s);
	s = must_open(in_dir("file"), P("aio=threads"));
	ck_assert_str_eq(s->geometry.aio, "threads");
	store_close(s);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file store");
	TCase *t = tcase_create("opening");

	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_test(t, only_files_and_devices);
	tcase_add_test(t, a_missing_file_is_created);
	tcase_add_test(t, a_failed_creation_leaves_nothing);
	tcase_add_test(t, permissions);
	tcase_add_test(t, no_direct_io);
	tcase_add_loop_test(t, an_odd_size, 0, 2);
	tcase_add_test(t, a_lock_that_goes);
	tcase_add_test(t, locked_by_another_program);
	tcase_add_test(t, locks_against_others);
	tcase_add_test(t, geometry_of_a_file);
	suite_add_tcase(suite, t);

	t = tcase_create("operations");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_loop_test(t, holes, 0, 8);
	tcase_add_loop_test(t, no_holes, 0, 2);
	tcase_add_loop_test(t, a_file_that_became_shorter, 0, 9);
	tcase_add_loop_test(t, no_space, 0, 6);
	suite_add_tcase(suite, t);

	t = tcase_create("ways");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_loop_test(t, ways_of_a_buffered_write, 0, 2);
	tcase_add_test(t, dirty_bytes_limit);
	tcase_add_test(t, overwrites_are_recounted);
	tcase_add_loop_test(t, ways_of_a_read, 0, 2);
	tcase_add_loop_test(t, ways_of_direct_io, 0, 2);
	tcase_add_loop_test(t, prefetching, 0, 2);
	tcase_add_loop_test(t, prefetching_holes, 0, 2);
	tcase_add_loop_test(t, a_container_without_io_uring, 0, 2);
	tcase_add_test(t, io_uring_if_asked_for);
	suite_add_tcase(suite, t);
	return run_suite(suite);
}
