/*
 * Block devices: what sysfs and the mount table say (from made-up trees), and loop devices.
 */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "server/store/block.h"
#include "tests/unit/test_loop.h"
#include "tests/unit/test_store.h"

enum { MIB = 1024 * 1024 };

/* ---- a made-up /sys ---- */

static void put(const char *name, const char *text)
{
	char command[512];
	FILE *f;

	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", in_dir(name));
	ck_assert_int_eq(system(command), 0);
	f = fopen(in_dir(name), "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void put_link(const char *to, const char *name)
{
	char command[512];

	snprintf(command, sizeof(command), "mkdir -p $(dirname %s) && ln -s %s %s", in_dir(name),
		 to, in_dir(name));
	ck_assert_int_eq(system(command), 0);
}

static void put_disk(const char *name, const char *dev, const char *rotational)
{
	char path[128], link[128], to[128];

	snprintf(path, sizeof(path), "sys/devices/%s/dev", name);
	put(path, dev);
	snprintf(path, sizeof(path), "sys/devices/%s/queue/rotational", name);
	put(path, rotational);
	snprintf(path, sizeof(path), "sys/devices/%s/queue/logical_block_size", name);
	put(path, "512\n");
	snprintf(path, sizeof(path), "sys/devices/%s/queue/physical_block_size", name);
	put(path, "4096\n");
	snprintf(path, sizeof(path), "sys/devices/%s/queue/optimal_io_size", name);
	put(path, "0\n");
	snprintf(link, sizeof(link), "sys/dev/block/%.*s", (int)strcspn(dev, "\n"), dev);
	snprintf(to, sizeof(to), "../../devices/%s", name);
	put_link(to, link);
}

/* sda with sda1; sdb; dm-0 over sda1; dm-1 over dm-0; dm-2 over sda1 and sdb; md0 over sdb. */
static void make_sys(void)
{
	put_disk("sda", "8:0\n", "1\n");
	put("sys/devices/sda/queue/write_zeroes_max_bytes", "1048576\n");
	put("sys/devices/sda/sda1/dev", "8:1\n");
	put("sys/devices/sda/sda1/partition", "1\n");
	put_link("../../../dm-0", "sys/devices/sda/sda1/holders/dm-0");
	put_link("../../devices/sda/sda1", "sys/dev/block/8:1");
	put_disk("sdb", "8:16\n", "0\n");
	put_disk("dm-0", "253:0\n", "1\n");
	put("sys/devices/dm-0/dm/name", "vg-home\n");
	put_link("../../sda/sda1", "sys/devices/dm-0/slaves/sda1");
	put_disk("dm-1", "253:1\n", "1\n");
	put("sys/devices/dm-1/dm/name", "crypt\n");
	put_link("../../dm-0", "sys/devices/dm-1/slaves/dm-0");
	put_disk("dm-2", "253:2\n", "1\n");
	put("sys/devices/dm-2/dm/name", "striped\n");
	put_link("../../sda/sda1", "sys/devices/dm-2/slaves/sda1");
	put_link("../../sdb", "sys/devices/dm-2/slaves/sdb");
	put_disk("md0", "9:0\n", "0\n");
	put_link("../../sdb", "sys/devices/md0/slaves/sdb");
	/* vda, on a virtual machine; dm-3 over it; sdc, of QEMU. */
	put_disk("pci0/virtio2/block/vda", "254:0\n", "1\n");
	put_disk("dm-3", "253:3\n", "1\n");
	put("sys/devices/dm-3/dm/name", "root\n");
	put_link("../../pci0/virtio2/block/vda", "sys/devices/dm-3/slaves/vda");
	put_disk("sdc", "8:32\n", "1\n");
	put("sys/devices/sdc/device/vendor", "QEMU    \n");
	put("mounts",
	    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
	    "not a line of a mount table\n"
	    "27 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n"
	    "28 1 253:2 / /a\\040b rw - xfs /dev/mapper/striped rw\n"
	    "29 1 0:45 /sub /btrfs rw - btrfs /no/such/device rw\n");
}

static struct block_info describe(unsigned maj, unsigned min, bool known)
{
	const char *sys = in_dir("sys"), *mounts = in_dir("mounts");
	struct block_info info;

	ck_assert_int_eq(block_describe_in(sys, mounts, makedev(maj, min), &info), known);
	return info;
}

START_TEST(devices_in_sysfs)
{
	static const struct {
		unsigned maj, min;
		const char *name;
		unsigned disk_maj, disk_min;
		bool rotational;
	} rows[] = {
		{ 8, 0, "sda", 8, 0, true }, { 8, 1, "sda", 8, 0, true },
		{ 8, 16, "sdb", 8, 16, false },
		{ 253, 0, "sda", 8, 0, true }, { 253, 1, "sda", 8, 0, true },
		{ 253, 2, "dm-2", 253, 2, true }, { 9, 0, "md0", 9, 0, false },
		{ 254, 0, "vda", 254, 0, false }, { 253, 3, "vda", 254, 0, false },
		{ 8, 32, "sdc", 8, 32, false },
	};

	make_sys();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct block_info info = describe(rows[i].maj, rows[i].min, true);

		ck_assert_str_eq(info.name, rows[i].name);
		ck_assert_uint_eq(info.disk, makedev(rows[i].disk_maj, rows[i].disk_min));
		ck_assert_int_eq(info.rotational, rows[i].rotational);
		ck_assert_uint_eq(info.logical, 512);
		ck_assert_uint_eq(info.physical, 4096);
	}
	ck_assert(describe(8, 1, true).fast_zeroes);
	ck_assert(!describe(8, 16, true).fast_zeroes);
}
END_TEST

START_TEST(devices_that_sysfs_has_not)
{
	struct block_info info;

	make_sys();
	info = describe(0, 45, false);
	ck_assert_str_eq(info.name, "btrfs");
	ck_assert_uint_eq(info.disk, makedev(0, 45));
	info = describe(7, 7, false);
	ck_assert_str_eq(info.name, "7:7");
	ck_assert_uint_eq(info.logical, 0);
	ck_assert(!info.rotational);
}
END_TEST

static void user_is(unsigned maj, unsigned min, const char *want)
{
	const char *sys = in_dir("sys"), *mounts = in_dir("mounts");
	char buf[256];

	block_describe_user_in(sys, mounts, makedev(maj, min), buf, sizeof(buf));
	ck_assert_str_eq(buf, want);
}

START_TEST(users_of_devices)
{
	make_sys();
	user_is(8, 1, "it is mounted on /");
	user_is(253, 2, "it is mounted on /a b");
	user_is(8, 0, "its partition sda1 is mounted on /");
	user_is(8, 16, "another program, a mapping or swap uses it");
	put("mounts", "");
	user_is(8, 1, "it is used by dm-0");
	user_is(8, 77, "another program, a mapping or swap uses it");
}
END_TEST

/* ---- loop devices ---- */

START_TEST(geometry_of_a_device)
{
	struct store *a, *b;
	char loop[64];
	struct stat st;
	int fd = attach_loop(make_file("image", 2 * MIB, 0), "", loop);

	if (fd < 0)
		return;
	ck_assert_int_eq(stat(loop, &st), 0);
	a = must_open(loop, P("cache=none"));
	ck_assert_uint_eq(a->geometry.size, 2 * MIB);
	ck_assert_uint_eq(a->dev, st.st_rdev);
	ck_assert_uint_eq(a->ino, 0);
	ck_assert_uint_eq(a->geometry.device, st.st_rdev);
	ck_assert_str_eq(a->geometry.device_name, strrchr(loop, '/') + 1);
	ck_assert_uint_eq(a->geometry.block, 512);
	/* By another name it is the same store. */
	ck_assert_int_eq(mknod(in_dir("node"), S_IFBLK | 0600, st.st_rdev), 0);
	b = must_open(in_dir("node"), P("cache=none", "readonly=1"));
	ck_assert_ptr_eq(a, b);
	store_close(a);
	store_close(b);
	refuses(loop, P("size=1M"), -EINVAL, "2097152 bytes");
	close(fd);
}
END_TEST

START_TEST(a_device_in_use)
{
	struct store *s;
	char loop[64];
	int fd = attach_loop(make_file("image", 2 * MIB, 0), "", loop), other;

	if (fd < 0)
		return;
	other = open(loop, O_RDWR | O_EXCL);
	ck_assert_int_ge(other, 0);
	refuses(loop, P("readonly=0"), -EBUSY, "in use: another program");
	s = must_open(loop, P("readonly=1"));
	ck_assert_int_eq(try_open(&s, "writer", loop, P("readonly=0")), -EBUSY);
	close(other);
	s = must_open(loop, P("readonly=0")); /* the reader's store, now writable */
	ck_assert_uint_eq(s->users, 2);
	ck_assert_int_eq(open(loop, O_RDWR | O_EXCL), -1);
	store_close(s);
	store_close(s);
	s = must_open(loop, P("lock=0"));
	other = open(loop, O_RDWR | O_EXCL);
	ck_assert_int_ge(other, 0);
	close(other);
	store_close(s);
	close(fd);
}
END_TEST

START_TEST(a_mounted_device)
{
	char loop[64], command[256];
	int fd = attach_loop(make_file("image", 2 * MIB, 0), "", loop);

	if (fd < 0)
		return;
	snprintf(command, sizeof(command), "mkfs.ext2 -q %s", loop);
	ck_assert_int_eq(mkdir(in_dir("mnt"), 0700), 0);
	if (system(command) || !private_mount("tmpfs", in_dir("mnt"), NULL) ||
	    mount(loop, in_dir("mnt"), "ext2", 0, NULL)) {
		puts("no ext2 here: skipped");
		return;
	}
	refuses(loop, P("readonly=0"), -EBUSY, "mounted on");
	ck_assert_msg(strstr(err, in_dir("mnt")), "%s", err);
	store_close(must_open(loop, P("readonly=1")));
	ck_assert_int_eq(umount2(in_dir("mnt"), MNT_DETACH), 0);
	ck_assert_int_eq(umount2(in_dir("mnt"), MNT_DETACH), 0);
	close(fd);
}
END_TEST

/* A partition belongs to its whole disk. The table: one entry, 2048 sectors from 2048 on. */
START_TEST(a_partition)
{
	static const unsigned char entry[16] = { [4] = 0x83, [8] = 0, 8, 0, 0, 0, 8, 0, 0 };
	const char *image = make_file("image", 4 * MIB, 0);
	char loop[64], part[80];
	int fd = open(image, O_WRONLY);
	struct store *s;
	struct stat st;

	ck_assert_int_eq(pwrite(fd, entry, sizeof(entry), 446), sizeof(entry));
	ck_assert_int_eq(pwrite(fd, "\x55\xaa", 2, 510), 2);
	close(fd);
	fd = attach_loop(image, "--partscan", loop);
	if (fd < 0)
		return;
	snprintf(part, sizeof(part), "%sp1", loop);
	if (stat(part, &st)) {
		puts("no partitions on loop devices here: skipped");
		close(fd);
		return;
	}
	s = must_open(part, P("cache=none"));
	ck_assert_uint_eq(s->geometry.size, MIB);
	ck_assert_str_eq(s->geometry.device_name, strrchr(loop, '/') + 1);
	ck_assert_int_eq(stat(loop, &st), 0);
	ck_assert_uint_eq(s->geometry.device, st.st_rdev);
	/* The whole disk is taken with it. */
	refuses(loop, P("readonly=0"), -EBUSY, "in use");
	store_close(s);
	close(fd);
}
END_TEST

START_TEST(discards_and_zeroes)
{
	static const char *const caches[] = {
		"cache=none", "cache=writeback", "cache=writethrough",
	};
	const char *image = make_file("image", 4 * MIB, 7);
	char loop[64], *buf = malloc(4 * MIB);
	int fd = attach_loop(image, "", loop);
	struct lane *lane;
	struct store *s;
	struct stat st;

	if (fd < 0)
		return;
	lane = open_lane(true);
	s = must_open(loop, P(caches[_i]));
	ck_assert(store_can(s, STORE_CAN_TRIM) && store_can(s, STORE_CAN_FAST_ZERO));
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 100, NULL, 2 * MIB), 2 * MIB);
	ck_assert_int_eq(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	ck_assert_int_eq(stat(image, &st), 0);
	ck_assert_int_le(st.st_blocks, 2 * MIB / 512 + 64);
	ck_assert_int_eq(do_io(lane, s, ELV_TRIM, 0, 100, NULL, 100), 100); /* less than a sector */
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_NO_HOLE, 0, NULL, MIB + 1), MIB + 1);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, ELV_FAST_ZERO, 3 * MIB - 1, NULL, MIB / 2),
			 MIB / 2);
	ck_assert_int_eq(do_io(lane, s, ELV_ZERO, 0, 3 * MIB + MIB / 2 + 3, NULL, 5), 5);
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 0, buf, 4 * MIB), 4 * MIB);
	ck_assert_int_eq(stat(image, &st), 0);
	for (unsigned i = 0; i < 4 * MIB; i++) {
		unsigned at = 3 * MIB + MIB / 2;
		bool zero = i < 2 * MIB || (i >= 3 * MIB - 1 && i < at - 1) ||
			(i >= at + 3 && i < at + 8);

		if (buf[i] != (zero ? 0 : 7) && i / 512 != (2 * MIB + 100) / 512)
			ck_abort_msg("byte %u is %d", i, buf[i]);
	}
	store_close(s);
	lane_close(lane);
	free(buf);
	close(fd);
}
END_TEST

/*
 * A device that has no room for what it promised: a loop device over a file with holes in a full
 * file system. Buffered writes succeed, and the sync fails; direct ones fail themselves.
 */
struct full {
	int fd;
	char loop[64];
};

static bool make_full(struct full *full)
{
	char image[160], page[4096] = { 1 };
	int fd;

	snprintf(image, sizeof(image), "%s", in_dir("tmp/image"));
	ck_assert_int_eq(mkdir(in_dir("tmp"), 0700), 0);
	if (!private_mount("tmpfs", in_dir("tmp"), "size=2m"))
		return false;
	make_file("tmp/image", 0, 0);
	ck_assert_int_eq(truncate(image, 8 * MIB), 0);
	full->fd = attach_loop(image, "", full->loop);
	if (full->fd < 0)
		return false;
	/* To the last page: the loop driver takes a short write for a whole one. */
	fd = open(in_dir("tmp/rest"), O_WRONLY | O_CREAT, 0600);
	while (write(fd, page, sizeof(page)) > 0)
		;
	ck_assert_int_eq(errno, ENOSPC);
	close(fd);
	return true;
}

static void end_full(struct full *full)
{
	close(full->fd);
	ck_assert_int_eq(umount2(in_dir("tmp"), MNT_DETACH), 0);
}

/* lane: ring, threads, none. */
static struct lane *lane_of(int i)
{
	return i == 2 ? NULL : open_lane(i == 0);
}

static struct elv_io *write_io(struct store *s, unsigned flags, uint64_t offset, void *buf,
			       uint64_t length)
{
	struct elv_io *io = malloc(sizeof(*io));

	set_io(io, s, ELV_WRITE, flags, offset, buf, length);
	return io;
}

static void go(struct lane *lane, struct store *s, struct elv_io *io)
{
	if (lane)
		do_ios(lane, io, 1);
	else
		store_run(s, io);
}

START_TEST(a_sync_that_fails)
{
	struct full full;
	struct lane *lane;
	struct elv_io *io;
	struct store *s;
	char *buf = calloc(1, MIB);

	if (!make_full(&full))
		return;
	lane = lane_of(_i % 3);
	s = must_open(full.loop, P(_i / 3 ? "cache=writethrough" : "cache=writeback"));
	if (_i / 3 == 0)
		ck_assert_int_eq(do_io(lane, s, ELV_WRITE, 0, 0, buf, MIB), MIB);
	io = write_io(s, ELV_FUA, 4 * MIB, buf, MIB);
	go(lane, s, io);
	ck_assert_msg(io->result < 0, "%lld", (long long)io->result);
	ck_assert(io->sync_failed);
	/* The data is there, in the page cache. */
	ck_assert_int_eq(do_io(lane, s, ELV_READ, 0, 4 * MIB, buf, MIB), MIB);
	free(io);
	store_close(s);
	lane_close(lane);
	free(buf);
	end_full(&full);
}
END_TEST

START_TEST(a_flush_that_fails)
{
	struct full full;
	struct lane *lane;
	struct store *s;
	char *buf = calloc(1, MIB);

	if (!make_full(&full))
		return;
	lane = lane_of(_i);
	s = must_open(full.loop, P("cache=writeback"));
	ck_assert_int_eq(do_io(lane, s, ELV_WRITE, 0, 0, buf, MIB), MIB);
	ck_assert_int_lt(do_io(lane, s, ELV_FLUSH, 0, 0, NULL, 0), 0);
	store_close(s);
	lane_close(lane);
	free(buf);
	end_full(&full);
}
END_TEST

/* TRIM and ZERO with writethrough: they are synced, and it shows when that fails. */
START_TEST(a_synced_discard_that_fails)
{
	enum elv_op op = _i / 3 ? ELV_TRIM : ELV_ZERO;
	struct full full;
	struct lane *lane;
	struct elv_io *io;
	struct store *s;
	char *buf = calloc(1, MIB);
	int fd;

	if (!make_full(&full))
		return;
	lane = lane_of(_i % 3);
	s = must_open(full.loop, P("cache=writethrough"));
	fd = open(full.loop, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, buf, MIB, 0), MIB);
	io = write_io(s, 0, 4 * MIB, NULL, MIB);
	io->op = op;
	go(lane, s, io);
	ck_assert_msg(io->result < 0, "%lld", (long long)io->result);
	ck_assert(io->sync_failed);
	/* The error was told. */
	io->op = op;
	go(lane, s, io);
	ck_assert_int_eq(io->result, MIB);
	ck_assert(!io->sync_failed);
	close(fd);
	free(io);
	store_close(s);
	lane_close(lane);
	free(buf);
	end_full(&full);
}
END_TEST

START_TEST(a_write_that_fails)
{
	struct full full;
	struct lane *lane;
	struct elv_io *io;
	struct store *s;
	char *buf;

	ck_assert_int_eq(posix_memalign((void **)&buf, 4096, MIB), 0);
	memset(buf, 1, MIB);
	if (!make_full(&full))
		return;
	lane = lane_of(_i % 3);
	s = must_open(full.loop, P("cache=none"));
	io = write_io(s, _i / 3 ? ELV_FUA : 0, 4 * MIB, buf, MIB);
	go(lane, s, io);
	ck_assert_msg(io->result < MIB, "%lld", (long long)io->result);
	ck_assert(!io->sync_failed);
	free(io);
	store_close(s);
	lane_close(lane);
	free(buf);
	end_full(&full);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("block devices");
	TCase *t = tcase_create("sysfs");

	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_test(t, devices_in_sysfs);
	tcase_add_test(t, devices_that_sysfs_has_not);
	tcase_add_test(t, users_of_devices);
	suite_add_tcase(suite, t);

	t = tcase_create("loop devices");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, make_test_dir, remove_test_dir);
	tcase_add_test(t, geometry_of_a_device);
	tcase_add_test(t, a_device_in_use);
	tcase_add_test(t, a_mounted_device);
	tcase_add_test(t, a_partition);
	tcase_add_loop_test(t, discards_and_zeroes, 0, 3);
	tcase_add_loop_test(t, a_sync_that_fails, 0, 6);
	tcase_add_loop_test(t, a_flush_that_fails, 0, 3);
	tcase_add_loop_test(t, a_synced_discard_that_fails, 0, 6);
	tcase_add_loop_test(t, a_write_that_fails, 0, 6);
	suite_add_tcase(suite, t);
	return run_suite(suite);
}
