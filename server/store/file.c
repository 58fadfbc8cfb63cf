/*
 * The file store: opening regular files and block devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/store/file.h"

/*
 * How long an image may be in use before it is refused. A server that was killed keeps its image,
 * lock included, until the kernel has taken its ring apart, which goes on after the process is gone
 * (up to 63 ms measured): who starts the next one at once must not fail.
 */
enum { PATIENCE_MS = 500, RETRY_MS = 5 };

/* What is known while a file is being opened, besides the store. */
struct opening {
	struct store *s;
	struct file *f;
	const char *path;
	bool readonly, created;
	unsigned waited_ms; /* of PATIENCE_MS */
	struct stat st;
	char *err;
	size_t errlen;
};

#define fail(o, error, ...) store_fail((o)->err, (o)->errlen, error, __VA_ARGS__)

/* Whether to try again what failed because of another user; errno stays if not. */
static bool patience(struct opening *o)
{
	struct timespec pause = { .tv_nsec = RETRY_MS * 1000000 };

	if (o->waited_ms >= PATIENCE_MS)
		return false;
	nanosleep(&pause, NULL);
	o->waited_ms += RETRY_MS;
	return true;
}

/* ---- what is at the path ---- */

static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR: return "a directory";
	case S_IFIFO: return "a FIFO";
	case S_IFCHR: return "a character device";
	case S_IFSOCK: return "a socket";
	default: return "something else";
	}
}

/* The type of what was found; before opening, because opening a FIFO or a tape has consequences. */
static int check_kind(struct opening *o)
{
	if (S_ISREG(o->st.st_mode) || S_ISBLK(o->st.st_mode))
		return 0;
	return fail(o, S_ISDIR(o->st.st_mode) ? -EISDIR : -EINVAL,
		    "%s is %s: an image is a regular file or a block device", o->path,
		    kind_of(o->st.st_mode));
}

static int open_flags(const struct opening *o)
{
	int flags = (o->readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;

	if (o->s->params.cache == STORE_CACHE_NONE)
		flags |= O_DIRECT;
	/* Of a device: the kernel's own lock, which mounts hold too. */
	if (S_ISBLK(o->st.st_mode) && !o->readonly && o->s->params.lock)
		flags |= O_EXCL;
	return flags;
}

static int explain_open(struct opening *o, int error)
{
	const char *how = o->readonly ? "reading" : "writing";
	char user[320];

	switch (error) {
	case EACCES:
	case EPERM:
		return fail(o, -error, "%s cannot be opened for %s by user %u: %s%s", o->path, how,
			    (unsigned)geteuid(), strerror(error),
			    o->readonly ? "" : " (readonly=1 needs less)");
	case EROFS:
		return fail(o, -error, "%s is on a read-only file system or device: use readonly=1",
			    o->path);
	case EBUSY:
		block_describe_user(o->st.st_rdev, user, sizeof(user));
		return fail(o, -error, "%s is in use: %s (readonly=1 or lock=0 opens it all the "
			    "same)", o->path, user);
	case EINVAL:
		if (o->s->params.cache == STORE_CACHE_NONE)
			return fail(o, -error, "%s: its file system has no direct I/O, which "
				    "cache=none needs: use cache=writeback", o->path);
		break;
	case ETXTBSY:
		return fail(o, -error, "%s is a program or swap file in use", o->path);
	}
	return fail(o, -error, "%s cannot be opened for %s: %s", o->path, how, strerror(error));
}

/* A file that was not there. */
static int create(struct opening *o)
{
	uint64_t size = o->s->params.size;
	int fd, r;

	if (!size || o->readonly)
		return fail(o, -ENOENT, "%s does not exist%s", o->path,
			    o->readonly ? "" : ": a size creates it, as size=10G");
	fd = open(o->path, open_flags(o) | O_CREAT | O_EXCL, 0666);
	if (fd < 0 && errno == EEXIST)
		return fail(o, -EEXIST, "%s is a symbolic link to nowhere, or just appeared",
			    o->path);
	if (fd < 0 && errno == EINVAL)
		unlink(o->path); /* it is created before O_DIRECT is refused */
	if (fd < 0)
		return explain_open(o, errno == ENOENT ? ENOENT : errno);
	o->created = true;
	atomic_store(&o->f->fd, fd);
	r = ftruncate(fd, size) ? -errno : 0;
	if (r)
		return fail(o, r, "%s cannot be made %llu bytes long: %s", o->path,
			    (unsigned long long)size, strerror(-r));
	return fstat(fd, &o->st) ? fail(o, -errno, "%s: %s", o->path, strerror(errno)) : 0;
}

static int open_path(struct opening *o)
{
	struct stat before;
	int fd, r;

	if (stat(o->path, &o->st)) {
		if (errno == ENOENT)
			return create(o);
		return explain_open(o, errno);
	}
	r = check_kind(o);
	if (r)
		return r;
	before = o->st;
	do {
		fd = open(o->path, open_flags(o));
	} while (fd < 0 && errno == EBUSY && patience(o));
	if (fd < 0)
		return explain_open(o, errno);
	atomic_store(&o->f->fd, fd);
	if (fstat(fd, &o->st))
		return fail(o, -errno, "%s: %s", o->path, strerror(errno));
	if (o->st.st_dev != before.st_dev || o->st.st_ino != before.st_ino)
		return fail(o, -EAGAIN, "%s was replaced while it was being opened", o->path);
	return 0;
}

/* ---- locks ---- */

static bool set_lock(int fd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_SETLK, &lock);
}

static int take_lock(struct opening *o, int fd)
{
	short type = o->readonly ? F_RDLCK : F_WRLCK;
	struct flock other;
	char who[64] = "another program";

	if (!S_ISREG(o->st.st_mode) || !o->s->params.lock)
		return 0;
	do {
		if (set_lock(fd, type))
			return 0;
		if (errno != EAGAIN && errno != EACCES)
			return fail(o, -errno, "%s cannot be locked: %s (lock=0 does without)",
				    o->path, strerror(errno));
		other = (struct flock){ .l_type = type, .l_whence = SEEK_SET };
		/* Only locks of the old kind belong to a process, and end with it. */
		if (!fcntl(fd, F_OFD_GETLK, &other) && other.l_type != F_UNLCK && other.l_pid > 0) {
			snprintf(who, sizeof(who), "process %ld", (long)other.l_pid);
			break;
		}
	} while (patience(o));
	return fail(o, -EBUSY, "%s is locked by %s (lock=0 opens it all the same)", o->path, who);
}

/* ---- geometry ---- */

static int find_size(struct opening *o)
{
	struct store_geometry *g = &o->s->geometry;
	uint64_t wanted = o->s->params.size;
	int fd = file_fd(o->f);

	if (!o->f->is_block)
		g->size = o->st.st_size;
	else if (ioctl(fd, BLKGETSIZE64, &g->size))
		return fail(o, -errno, "%s: its size is unknown: %s", o->path, strerror(errno));
	if (!g->size)
		return fail(o, -EINVAL, o->f->is_block ? "%s has no medium, or none with a size" :
			    "%s is empty: an image must have a size", o->path);
	if (wanted && wanted != g->size)
		return fail(o, -EINVAL, "%s exists and has %llu bytes, not size=%llu", o->path,
			    (unsigned long long)g->size, (unsigned long long)wanted);
	return 0;
}

/*
 * The alignment that direct I/O needs, if nobody says: the smallest with which a read works. Some
 * file systems do not check where the file has a hole, so not less than the device's block.
 */
static uint32_t probe_align(const struct opening *o)
{
	uint32_t least = o->f->info.logical > 512 ? o->f->info.logical : 512, align;
	void *buf = NULL;

	if (posix_memalign(&buf, 4096, 4096))
		return 4096;
	for (align = least; align < 4096; align *= 2)
		if (pread(file_fd(o->f), buf, align, 0) >= 0)
			break;
	free(buf);
	return align;
}

static int find_alignment(struct opening *o)
{
	struct file *f = o->f;
	uint64_t size = o->s->geometry.size;

	f->align = f->mem_align = 1;
	if (!f->direct)
		return 0;
#ifdef STATX_DIOALIGN
	struct statx x;

	if (!statx(file_fd(f), "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) &&
	    (x.stx_mask & STATX_DIOALIGN)) {
		if (!x.stx_dio_offset_align)
			return fail(o, -EINVAL, "%s: there is no direct I/O to this file, which "
				    "cache=none needs: use cache=writeback", o->path);
		f->align = x.stx_dio_offset_align;
		f->mem_align = x.stx_dio_mem_align;
	}
#endif
	if (f->align == 1)
		f->align = f->mem_align = f->is_block ? f->info.logical : probe_align(o);
	if (f->align < 512)
		f->align = 512;
	if (f->align > 4096)
		return fail(o, -EINVAL, "%s needs direct I/O in units of %u bytes, which is not "
			    "supported: use cache=writeback", o->path, f->align);
	if (f->mem_align < 4)
		f->mem_align = 4;
	if (size % f->align)
		return fail(o, -EINVAL, "%s has %llu bytes, no multiple of the %u that direct I/O "
			    "works in: use cache=writeback, or make it %llu bytes long", o->path,
			    (unsigned long long)size, f->align,
			    (unsigned long long)((size / f->align + 1) * f->align));
	return 0;
}

static uint32_t round_to_power(uint32_t n, uint32_t least, uint32_t most)
{
	uint32_t p = least;

	while (p < n && p < most)
		p *= 2;
	return p;
}

/* What can be done natively; only a descriptor for writing can tell. */
static void find_abilities(struct file *f, bool readonly)
{
	uint64_t end = (f->store->geometry.size + 4095) & ~4095ull;
	unsigned can = 0;
	int r = 0;

	/* Behind the end there is nothing to punch: it changes nothing, and says if it could. */
	if (!f->is_block && !readonly)
		r = fallocate(file_fd(f), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, end, 4096);
	if (r && (errno == EOPNOTSUPP || errno == ENOSYS))
		atomic_store(&f->no_punch, true);
	if (!f->direct)
		can |= STORE_CAN_CACHE;
	if (!readonly) {
		bool punch = !f->is_block && !atomic_load(&f->no_punch);

		can |= STORE_CAN_WRITE;
		if (punch || (f->is_block && f->info.can_discard))
			can |= STORE_CAN_TRIM;
		if (punch || (f->is_block && f->info.fast_zeroes))
			can |= STORE_CAN_FAST_ZERO;
	}
	atomic_store(&f->store->abilities, can);
}

static int find_geometry(struct opening *o)
{
	struct store_geometry *g = &o->s->geometry;
	struct file *f = o->f;
	int r, logical;

	block_describe(f->is_block ? o->st.st_rdev : o->st.st_dev, &f->info);
	if (f->is_block && !ioctl(file_fd(f), BLKSSZGET, &logical) && logical > 0)
		f->info.logical = logical;
	if (!f->info.logical)
		f->info.logical = f->is_block ? 512 : 0;
	r = find_size(o);
	if (!r)
		r = find_alignment(o);
	if (r)
		return r;
	g->block = f->direct ? f->align : f->is_block ? f->info.logical : 1;
	g->preferred = round_to_power(f->info.optimal > f->info.physical ? f->info.optimal :
				      f->info.physical, 4096, 64 << 20);
	g->device = f->info.disk;
	snprintf(g->device_name, sizeof(g->device_name), "%s", f->info.name);
	g->rotational = o->s->params.rotational == TUNABLE_AUTO ? f->info.rotational :
		o->s->params.rotational;
	g->multi_conn = true;
	g->depth = g->rotational ? 4 : 32;
	g->buffered = !f->direct;
	g->aio = f->use_ring ? "io_uring" : "threads";
	find_abilities(f, o->readonly);
	if (g->size % 512)
		snprintf(o->s->notice, sizeof(o->s->notice), "%.160s has %llu bytes, no multiple "
			 "of 512: served to the last byte", o->path, (unsigned long long)g->size);
	return 0;
}

/* ---- the store ---- */

static int check_ring(struct opening *o)
{
	char why[192];
	bool possible = lane_ring_possible(why, sizeof(why));

	if (!possible && o->s->params.aio == STORE_AIO_URING)
		return fail(o, -ENOTSUP, "aio=io_uring: %s: use aio=auto", why);
	o->f->use_ring = possible && o->s->params.aio != STORE_AIO_THREADS;
	return 0;
}

static void destroy(struct file *f)
{
	if (file_fd(f) >= 0)
		close(file_fd(f));
	if (f->old_fd >= 0)
		close(f->old_fd);
	bounce_close(&f->bounce);
	dirty_close(&f->dirty);
	free(f);
}

static int open_all(struct opening *o)
{
	struct store_geometry *g = &o->s->geometry;
	struct file *f = o->f;
	int r = check_ring(o);

	if (!r)
		r = open_path(o);
	if (r)
		return r;
	f->is_block = S_ISBLK(o->st.st_mode);
	r = take_lock(o, file_fd(f));
	if (!r)
		r = find_geometry(o);
	if (r)
		return r;
	if ((f->direct && bounce_open(&f->bounce)) || dirty_open(&f->dirty, g->device, g->size))
		return fail(o, -ENOMEM, "out of memory");
	return 0;
}

static int file_open(struct store *s, char *err, size_t errlen)
{
	struct opening o = {
		.s = s, .f = calloc(1, sizeof(struct file)), .path = s->params.path,
		.readonly = s->params.readonly, .err = err, .errlen = errlen,
	};
	int r;

	if (!o.f)
		return fail(&o, -ENOMEM, "out of memory");
	o.f->store = s;
	o.f->old_fd = -1;
	o.f->direct = s->params.cache == STORE_CACHE_NONE;
	o.f->durable = s->params.cache == STORE_CACHE_WRITETHROUGH;
	atomic_init(&o.f->fd, -1);
	atomic_init(&o.f->writable, !o.readonly);
	r = open_all(&o);
	if (r) {
		if (o.created)
			unlink(o.path);
		destroy(o.f);
		return r;
	}
	s->priv = o.f;
	s->dev = o.f->is_block ? o.st.st_rdev : o.st.st_dev;
	s->ino = o.f->is_block ? 0 : o.st.st_ino;
	return 0;
}

static void file_close(struct store *s)
{
	struct file *f = s->priv;

	/* A worker may be counting dirty pages. */
	while (__atomic_load_n(&f->dirty.recounting, __ATOMIC_ACQUIRE))
		store_sleep_until(store_now() + STORE_NS_PER_S / 1000);
	destroy(f);
}

/*
 * The descriptor is exchanged; what runs on the old one is only reading, and ends by itself. A lock
 * belongs to its descriptor: the shared one must go before the exclusive one can be had.
 */
static int file_make_writable(struct store *s, char *err, size_t errlen)
{
	struct file *f = s->priv;
	struct opening o = { .s = s, .f = f, .path = s->params.path, .err = err, .errlen = errlen };
	int old = file_fd(f), fd, r;

	if (fstat(old, &o.st))
		return fail(&o, -errno, "%s: %s", o.path, strerror(errno));
	fd = open(o.path, open_flags(&o));
	if (fd < 0)
		return explain_open(&o, errno);
	if (fstat(fd, &o.st)) {
		r = fail(&o, -errno, "%s: %s", o.path, strerror(errno));
		goto close_fd;
	}
	if (f->is_block ? o.st.st_rdev != s->dev : o.st.st_dev != s->dev || o.st.st_ino != s->ino) {
		r = fail(&o, -EBUSY, "%s is not the file any more that export '%s' has opened",
			 o.path, s->name);
		goto close_fd;
	}
	if (!f->is_block && s->params.lock)
		set_lock(old, F_UNLCK);
	r = take_lock(&o, fd);
	if (r) {
		if (s->params.lock)
			set_lock(old, F_RDLCK);
		goto close_fd;
	}
	f->old_fd = old;
	atomic_store(&f->fd, fd);
	atomic_store(&f->writable, true);
	find_abilities(f, false);
	return 0;

close_fd:
	close(fd);
	return r;
}

uint64_t file_dirty_bytes(const struct store *s)
{
	return dirty_estimate(&((struct file *)s->priv)->dirty);
}

/* SEEK_DATA and SEEK_HOLE; the position of the descriptor is of no use to anybody else. */
static int file_extents(struct store *s, uint64_t offset, uint64_t max, uint64_t *length,
			bool *hole)
{
	struct file *f = s->priv;
	uint64_t end = offset + max;
	off_t data = lseek(file_fd(f), offset, SEEK_DATA), next;

	*length = max;
	*hole = false;
	if (data < 0 && errno == ENXIO) {
		*hole = true; /* up to the end */
		return 0;
	}
	if (data < 0)
		return errno == EINVAL ? 0 : -errno; /* devices: it is all there */
	if ((uint64_t)data > offset) {
		*hole = true;
		*length = (uint64_t)data < end ? data - offset : max;
		return 0;
	}
	next = lseek(file_fd(f), offset, SEEK_HOLE);
	if (next < 0)
		return errno == ENXIO ? -EIO : -errno;
	if ((uint64_t)next < end && (uint64_t)next > offset)
		*length = next - offset;
	return 0;
}

const struct store_ops file_ops = {
	.name = "file",
	.open = file_open,
	.close = file_close,
	.make_writable = file_make_writable,
	.submit = file_submit,
	.run = file_run,
	.extents = file_extents,
};
