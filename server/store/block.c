/*
 * Block devices: see block.h. sysfs is laid out as Documentation/ABI/stable/sysfs-block of the
 * kernel says, the mount table as proc(5) does.
 */
#include "server/store/block.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define SYS "/sys"
#define MOUNTS "/proc/self/mountinfo"

/* ---- sysfs ---- */

/* The first line of DIR/NAME, without its end. */
static bool read_line(const char *dir, const char *name, char *buf, size_t len)
{
	char path[PATH_MAX + 64];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	ok = fgets(buf, len, f);
	fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

static uint64_t read_number(const char *dir, const char *name)
{
	char buf[32];

	return read_line(dir, name, buf, sizeof(buf)) ? strtoull(buf, NULL, 10) : 0;
}

static bool exists(const char *dir, const char *name)
{
	char path[PATH_MAX + 64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !stat(path, &st);
}

/* The folder of a device, links resolved. */
static bool device_dir(const char *sys, dev_t dev, char dir[PATH_MAX])
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/dev/block/%u:%u", sys, major(dev), minor(dev));
	return realpath(path, dir);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* From a partition's folder to that of its disk, which it is in. */
static void to_whole_disk(char dir[PATH_MAX])
{
	if (exists(dir, "partition"))
		*strrchr(dir, '/') = '\0';
}

/* From a mapping over exactly one device to that device; false if it is none. */
static bool to_only_slave(char dir[PATH_MAX])
{
	char path[PATH_MAX + 512], slave[256] = "";
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/slaves", dir);
	d = exists(dir, "dm") ? opendir(path) : NULL;
	if (!d)
		return false;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(slave, sizeof(slave), "%s", e->d_name);
		n++;
	}
	closedir(d);
	if (n != 1)
		return false;
	snprintf(path, sizeof(path), "%s/slaves/%s", dir, slave);
	return realpath(path, dir);
}

static bool parse_dev(const char *text, dev_t *dev)
{
	unsigned maj, min;

	if (sscanf(text, "%u:%u", &maj, &min) != 2)
		return false;
	*dev = makedev(maj, min);
	return true;
}

/*
 * Is it the disk of a virtual machine? Those say "rotating" unless the administrator of the host
 * thought of it, and lie on an array or a flash disk more often than on a spindle of their own.
 */
static bool is_virtual_disk(const char *dir)
{
	static const char *const vendors[] = { "QEMU", "VMware", "Msft", "VBOX" };
	char vendor[32] = "";

	if (strstr(dir, "/virtio") || strstr(dir, "/vbd-"))
		return true;
	read_line(dir, "device/vendor", vendor, sizeof(vendor));
	for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
		if (!strncmp(vendor, vendors[i], strlen(vendors[i])))
			return true;
	return false;
}

static bool describe_device(const char *sys, dev_t dev, struct block_info *out)
{
	char dir[PATH_MAX], text[32];

	if (!device_dir(sys, dev, dir))
		return false;
	to_whole_disk(dir);
	/* Mappings pass on what the devices below are like. */
	out->rotational = read_number(dir, "queue/rotational");
	out->logical = read_number(dir, "queue/logical_block_size");
	out->physical = read_number(dir, "queue/physical_block_size");
	out->optimal = read_number(dir, "queue/optimal_io_size");
	out->fast_zeroes = read_number(dir, "queue/write_zeroes_max_bytes");
	out->can_discard = read_number(dir, "queue/discard_max_bytes");
	for (unsigned depth = 0; depth < 8 && to_only_slave(dir); depth++)
		to_whole_disk(dir);
	if (is_virtual_disk(dir))
		out->rotational = false;
	snprintf(out->name, sizeof(out->name), "%.63s", base_name(dir));
	return read_line(dir, "dev", text, sizeof(text)) && parse_dev(text, &out->disk);
}

/* ---- the mount table ---- */

struct mount {
	dev_t dev;
	char point[256], type[64], source[256];
};

/* Undo the octal escapes of blanks and backslashes. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		unsigned c;

		if (*s == '\\' && sscanf(s + 1, "%3o", &c) == 1 && strlen(s) >= 4) {
			*to++ = c;
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /point options optional... - type source options" */
static bool parse_mount(const char *line, struct mount *m)
{
	const char *dash = strstr(line, " - ");
	unsigned maj, min;

	if (!dash || sscanf(line, "%*u %*u %u:%u %*s %255s", &maj, &min, m->point) != 3 ||
	    sscanf(dash, " - %63s %255s", m->type, m->source) != 2)
		return false;
	m->dev = makedev(maj, min);
	unescape(m->point);
	unescape(m->source);
	return true;
}

/* The first mount for which test(m, ctx) holds, in *m. */
static bool find_mount(const char *mounts, struct mount *m,
		       bool (*test)(const struct mount *m, const void *ctx), const void *ctx)
{
	FILE *f = fopen(mounts, "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	if (!f)
		return false;
	while (!found && getline(&line, &room, f) > 0)
		found = parse_mount(line, m) && test(m, ctx);
	free(line);
	fclose(f);
	return found;
}

static bool has_dev(const struct mount *m, const void *dev)
{
	return m->dev == *(const dev_t *)dev;
}

bool block_describe_in(const char *sys, const char *mounts, dev_t dev, struct block_info *out)
{
	struct mount m;
	struct stat st;

	memset(out, 0, sizeof(*out));
	out->disk = dev;
	if (describe_device(sys, dev, out))
		return true;
	/* File systems with device numbers of their own (btrfs): the mount names the device. */
	memset(out, 0, sizeof(*out));
	out->disk = dev;
	snprintf(out->name, sizeof(out->name), "%u:%u", major(dev), minor(dev));
	if (!find_mount(mounts, &m, has_dev, &dev))
		return false;
	if (m.source[0] == '/' && !stat(m.source, &st) && S_ISBLK(st.st_mode) &&
	    describe_device(sys, st.st_rdev, out))
		return true;
	snprintf(out->name, sizeof(out->name), "%s", m.type);
	return false;
}

bool block_describe(dev_t dev, struct block_info *out)
{
	return block_describe_in(SYS, MOUNTS, dev, out);
}

/* ---- who uses it ---- */

struct same_disk {
	const char *sys;
	char dir[PATH_MAX]; /* of the disk */
};

/* Is the mount's device this disk or a part of it? */
static bool on_disk(const struct mount *m, const void *ctx)
{
	const struct same_disk *want = ctx;
	char dir[PATH_MAX];

	if (!device_dir(want->sys, m->dev, dir))
		return false;
	to_whole_disk(dir);
	return !strcmp(dir, want->dir);
}

/* The first entry of the folder DIR/holders. */
static bool first_holder(const char *dir, char *name, size_t len)
{
	char path[PATH_MAX + 16];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/holders", dir);
	d = opendir(path);
	if (!d)
		return false;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			break;
	if (e)
		snprintf(name, len, "%s", e->d_name);
	closedir(d);
	return e;
}

void block_describe_user_in(const char *sys, const char *mounts, dev_t dev, char *buf, size_t len)
{
	struct same_disk disk = { .sys = sys };
	char dir[PATH_MAX], name[256];
	struct mount m;
	bool known = device_dir(sys, dev, dir);

	if (find_mount(mounts, &m, has_dev, &dev)) {
		snprintf(buf, len, "it is mounted on %s", m.point);
		return;
	}
	if (known && first_holder(dir, name, sizeof(name))) {
		snprintf(buf, len, "it is used by %s", name);
		return;
	}
	if (known) {
		snprintf(disk.dir, sizeof(disk.dir), "%s", dir);
		to_whole_disk(disk.dir);
		/* A partition is not in the way of its neighbours; a whole disk is, of all. */
		if (!strcmp(disk.dir, dir) && find_mount(mounts, &m, on_disk, &disk)) {
			device_dir(sys, m.dev, dir);
			snprintf(buf, len, "its partition %s is mounted on %s", base_name(dir),
				 m.point);
			return;
		}
	}
	snprintf(buf, len, "another program, a mapping or swap uses it");
}

void block_describe_user(dev_t dev, char *buf, size_t len)
{
	block_describe_user_in(SYS, MOUNTS, dev, buf, len);
}
