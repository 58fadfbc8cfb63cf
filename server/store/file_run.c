/*
 * The file store: ios executed by the calling thread, from beginning to end. The workers do what is
 * here, and so do threads without a lane.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "server/store/file.h"

/* What is written where the kernel cannot zero a range itself; a megabyte at a time. */
enum { ZEROES = 64 * 1024, ZERO_PIECES = 16 };
static char zeroes[ZEROES] __attribute__((aligned(4096)));

/* fadvise reads no more than the device's read-ahead in one call, which is at least this much. */
enum { ADVICE = 128 * 1024 };

static bool unsupported(int error)
{
	return error == -EOPNOTSUPP || error == -ENOSYS || error == -ENOTTY;
}

/* ---- READ and WRITE ---- */

/* One system call's worth, from done bytes on. The bytes done, 0 at the end of the file, -errno. */
static int64_t transfer(struct file *f, struct elv_io *io, uint64_t done, int rwf)
{
	struct iovec vec[ELV_MAX_SEGMENTS];
	const struct iovec *iov = io->iov;
	unsigned n = io->niov;
	uint64_t skip = done;
	ssize_t r;

	if (!bounce_aligned(f, io) || (done & (f->align - 1)))
		return io->op == ELV_READ ? bounce_read(f, io, done) :
			bounce_write(f, io, done, rwf);
	if (done) {
		while (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			iov++;
			n--;
		}
		memcpy(vec, iov, n * sizeof(*iov));
		vec[0].iov_base = (char *)vec[0].iov_base + skip;
		vec[0].iov_len -= skip;
		iov = vec;
	}
	do {
		if (io->op == ELV_READ)
			r = preadv2(file_fd(f), iov, n, io->offset + done, 0);
		else
			r = pwritev2(file_fd(f), iov, n, io->offset + done, rwf);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

/* As much as there is from *done on. 0, or what ended it; -EIO at the end of the file. */
static int transfer_all(struct file *f, struct elv_io *io, uint64_t *done, int rwf)
{
	while (*done < io->length) {
		int64_t n = transfer(f, io, *done, rwf);

		if (n <= 0)
			return n ? n : -EIO;
		*done += n;
	}
	return 0;
}

void file_run_data(struct file *f, struct elv_io *io, uint64_t done, int error)
{
	bool durable = file_durable(f, io);

	if (!error)
		error = transfer_all(f, io, &done, durable ? RWF_DSYNC : 0);
	if (error && durable) {
		uint64_t again = done;

		/*
		 * Was it the data or the sync? If the data can be written, it was the sync. That
		 * error must not be hidden by success later on: the kernel reports it only once,
		 * and then takes the pages for clean.
		 */
		if (!transfer_all(f, io, &again, 0)) {
			io->sync_failed = true;
			io->result = error;
			return;
		}
	}
	io->result = error && !done ? error : (int64_t)done;
	if (io->op == ELV_WRITE && !f->direct && !durable)
		dirty_wrote(&f->dirty, done, store_now(), 0);
}

/* ---- TRIM and ZERO ---- */

static int allocate(struct file *f, int mode, uint64_t offset, uint64_t length)
{
	int r;

	do
		r = fallocate(file_fd(f), mode | FALLOC_FL_KEEP_SIZE, offset, length);
	while (r && errno == EINTR);
	return r ? -errno : 0;
}

/* Punch a hole; of a device: zero and unmap it if the device can do that by itself. */
static int punch(struct file *f, uint64_t offset, uint64_t length)
{
	int r;

	if (atomic_load_explicit(&f->no_punch, memory_order_relaxed))
		return -EOPNOTSUPP;
	r = allocate(f, FALLOC_FL_PUNCH_HOLE, offset, length);
	if (unsupported(r))
		atomic_store_explicit(&f->no_punch, true, memory_order_relaxed);
	return r;
}

static int device_ioctl(struct file *f, unsigned long request, uint64_t offset, uint64_t length)
{
	uint64_t range[2] = { offset, length };
	int r;

	do
		r = ioctl(file_fd(f), request, range);
	while (r && errno == EINTR);
	return r ? -errno : 0;
}

/* Have the kernel zero a range other than by a hole. */
static int zero_range(struct file *f, uint64_t offset, uint64_t length, bool fast)
{
	int r;

	/* BLKZEROOUT writes zeroes where the device has no command for it. */
	if (f->is_block)
		return fast && !f->info.fast_zeroes ? -EOPNOTSUPP :
			device_ioctl(f, BLKZEROOUT, offset, length);
	if (atomic_load_explicit(&f->no_zero_range, memory_order_relaxed))
		return -EOPNOTSUPP;
	r = allocate(f, FALLOC_FL_ZERO_RANGE, offset, length);
	if (unsupported(r))
		atomic_store_explicit(&f->no_zero_range, true, memory_order_relaxed);
	return r;
}

/* Write zeroes, whatever the alignment. */
static int write_zeroes(struct file *f, uint64_t offset, uint64_t length)
{
	struct iovec vec[ZERO_PIECES];
	uint64_t mask = f->align - 1;

	while (length) {
		uint64_t head = offset & mask, whole = length & ~mask, left;
		unsigned n = 0;
		ssize_t r;

		if (head || !whole) {
			/* What is covered of this block. */
			left = f->align - head < length ? f->align - head : length;
			r = bounce_zero(f, offset, left);
			if (r)
				return r;
			offset += left;
			length -= left;
			continue;
		}
		for (left = whole; left && n < ZERO_PIECES; n++) {
			vec[n].iov_base = zeroes;
			vec[n].iov_len = left < ZEROES ? left : ZEROES;
			left -= vec[n].iov_len;
		}
		r = pwritev2(file_fd(f), vec, n, offset, 0);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r ? -errno : -EIO;
		if (!f->direct)
			dirty_wrote(&f->dirty, r, store_now(), 0);
		offset += r;
		length -= r;
	}
	return 0;
}

/* The part of a range that a device can handle: whole logical blocks. May be empty (0). */
static uint64_t whole_blocks(const struct file *f, uint64_t *offset, uint64_t length)
{
	uint64_t mask = f->is_block ? f->info.logical - 1 : 0;
	uint64_t start = (*offset + mask) & ~mask, end = (*offset + length) & ~mask;

	*offset = start;
	return end > start ? end - start : 0;
}

static int trim(struct file *f, const struct elv_io *io)
{
	uint64_t offset = io->offset, length = whole_blocks(f, &offset, io->length);
	int r = 0;

	if (length)
		r = f->is_block ? device_ioctl(f, BLKDISCARD, offset, length) :
			punch(f, offset, length);
	/* A hint: who cannot follow it, ignores it. */
	return unsupported(r) ? 0 : r;
}

static int zero(struct file *f, const struct elv_io *io)
{
	uint64_t end = io->offset + io->length, start = io->offset;
	uint64_t length = whole_blocks(f, &start, io->length);
	bool fast = io->flags & ELV_FAST_ZERO;
	int r = -EOPNOTSUPP;

	if (length && !(io->flags & ELV_NO_HOLE))
		r = punch(f, start, length);
	if (length && unsupported(r))
		r = zero_range(f, start, length, fast);
	if (unsupported(r))
		return fast ? -ENOTSUP : write_zeroes(f, io->offset, io->length);
	if (!r && start > io->offset)
		r = write_zeroes(f, io->offset, start - io->offset);
	if (!r && start + length < end)
		r = write_zeroes(f, start + length, end - start - length);
	return r;
}

/* ---- FLUSH and CACHE ---- */

static int sync_data(struct file *f)
{
	uint64_t mark = dirty_mark(&f->dirty, store_now());
	int r;

	do
		r = fdatasync(file_fd(f));
	while (r && errno == EINTR);
	if (r)
		return -errno;
	dirty_synced(&f->dirty, mark, store_now());
	return 0;
}

/* Not the holes: the kernel would fill its page cache with zeroes, and much of it. */
static void prefetch(struct file *f, const struct elv_io *io)
{
	uint64_t end = io->offset + io->length, n;
	bool hole;

	for (uint64_t at = io->offset; at < end && !f->direct; at += n) {
		if (store_extents(f->store, at, end - at, &n, &hole))
			return;
		if (hole)
			continue;
		n = n < ADVICE ? n : ADVICE;
		posix_fadvise(file_fd(f), at, n, POSIX_FADV_WILLNEED);
	}
}

void file_run(struct store *s, struct elv_io *io)
{
	struct file *f = s->priv;
	int r = 0;

	switch (io->op) {
	case ELV_READ:
	case ELV_WRITE:
		file_run_data(f, io, 0, 0);
		return;
	case ELV_TRIM:
		r = trim(f, io);
		break;
	case ELV_ZERO:
		r = zero(f, io);
		break;
	case ELV_FLUSH:
		r = atomic_load(&f->writable) ? sync_data(f) : 0;
		break;
	case ELV_CACHE:
		prefetch(f, io);
		break;
	case ELV_STATUS:
		r = store_status(s, io);
		break;
	case ELV_NUM_OPS:
		assert(false);
	}
	if (!r && file_durable(f, io)) {
		r = sync_data(f);
		io->sync_failed = r;
	}
	io->result = r ? r : (int64_t)io->length;
}
