/*
 * The file store: ios through a lane.
 *
 *   READ    buffered: a few at once by preadv2(RWF_NOWAIT), many through the ring, which serves
 *           what is in the page cache within the one system call (measured: the single call is
 *           cheaper for one io, 1.1 against 1.5 us, and dearer from four on; without a ring it
 *           saves the thread)
 *   WRITE   buffered: inline as dirty.h says, else the ring
 *   direct  the ring; unaligned: a worker
 *   FLUSH   the ring
 *   TRIM, ZERO   files: the ring, if one fallocate does it; else a worker
 *   the rest, and everything without a ring: a worker
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/store/file.h"

/* The largest write that is done inline: 0.1 ms of copying. */
enum { INLINE_WRITE_MAX = 256 * 1024 };

/* Up to so many ios in a batch, reads are tried inline although there is a ring. */
enum { INLINE_READ_BATCH = 3 };

/* After a read that was not in the page cache, so many are not tried inline. */
enum { INLINE_READ_PAUSE = 16 };

static void count(struct file *f, const struct elv_io *io, enum store_way way)
{
	struct store_stats *stats = &f->store->stats;

	store_count(io->op == ELV_READ ? &stats->reads[way] :
		    io->op == ELV_WRITE ? &stats->writes[way] : &stats->others[way], 1);
}

/* ---- workers ---- */

static void job_run(struct elv_io *io)
{
	file_run(file_io(io)->file->store, io);
}

/* The rest of a READ or WRITE. */
static void job_rest(struct elv_io *io)
{
	struct file_io *fio = file_io(io);

	file_run_data(fio->file, io, fio->done, fio->error);
}

static void to_worker(struct file *f, struct lane *lane, struct elv_io *io, lane_job *job)
{
	count(f, io, STORE_WORKER);
	lane_work(lane, io, job);
}

/* ---- what is in the page cache ---- */

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* The kernel's struct cachestat_range and cachestat (linux/mman.h, since 6.5). */
struct cache_range {
	uint64_t offset, length; /* 0: to the end */
};
struct cache_stat {
	uint64_t cached, dirty, writeback, evicted, recently_evicted; /* pages */
};

static int cache_stat(int fd, uint64_t offset, uint64_t length, struct cache_stat *out)
{
	struct cache_range range = { offset, length };

	return syscall(SYS_cachestat, fd, &range, out, 0) ? -errno : 0;
}

/* Is the page at this offset in the page cache? Old kernels: ask by a mapping of it. */
static bool page_resident(struct file *f, uint64_t offset, uint64_t page)
{
	static atomic_bool no_cachestat;
	struct cache_stat stat;
	unsigned char in = 0;
	void *map;

	if (!atomic_load_explicit(&no_cachestat, memory_order_relaxed)) {
		if (!cache_stat(file_fd(f), offset, page, &stat))
			return stat.cached;
		atomic_store_explicit(&no_cachestat, true, memory_order_relaxed);
	}
	map = mmap(NULL, page, PROT_READ, MAP_SHARED, file_fd(f), offset);
	if (map == MAP_FAILED)
		return false;
	if (mincore(map, page, &in))
		in = 0;
	munmap(map, page);
	return in & 1;
}

/* Need no page be read for a write to this range? */
static bool pages_known(struct file *f, uint64_t offset, uint64_t length)
{
	uint64_t page = sysconf(_SC_PAGESIZE), mask = page - 1, end = offset + length;
	bool head = offset & mask, tail = end & mask;

	if (head && tail && (offset & ~mask) == (end & ~mask))
		tail = false; /* the same page */
	return (!head || page_resident(f, offset & ~mask, page)) &&
		(!tail || page_resident(f, end & ~mask, page));
}

static void recount(struct work *w)
{
	struct file *f = (struct file *)((char *)w - offsetof(struct file, recount));
	uint64_t page = sysconf(_SC_PAGESIZE), began = store_now(), bytes;
	struct cache_stat stat;

	if (cache_stat(file_fd(f), 0, 0, &stat)) {
		/* It cannot: the estimate stays, and in a minute there may be another try. */
		bytes = dirty_mark(&f->dirty, began);
		dirty_recounted(&f->dirty, bytes, began, began + STORE_NS_PER_S);
	} else {
		bytes = (stat.dirty + stat.writeback) * page;
		dirty_recounted(&f->dirty, bytes, began, store_now());
	}
}

void file_maybe_recount(struct file *f, uint64_t now)
{
	if (!dirty_want_recount(&f->dirty, store_setting(f->store, dirty_bytes), now))
		return;
	f->recount.run = recount;
	workers_add(&f->recount);
}

/* ---- inline ---- */

/* A buffered read of what is in the page cache. False: it has not happened, or not all of it. */
static bool read_inline(struct file *f, struct elv_io *io)
{
	ssize_t n;

	if (atomic_load_explicit(&f->no_nowait, memory_order_relaxed))
		return false;
	n = preadv2(file_fd(f), io->iov, io->niov, io->offset, RWF_NOWAIT);
	if (n == (ssize_t)io->length) {
		io->result = n;
		return true;
	}
	if (n < 0 && (errno == EOPNOTSUPP || errno == EINVAL))
		atomic_store_explicit(&f->no_nowait, true, memory_order_relaxed);
	if (n > 0)
		file_io(io)->done = n;
	return false;
}

static bool try_read_inline(struct file *f, struct lane *lane, struct elv_io *io)
{
	unsigned misses = atomic_load_explicit(&f->inline_misses, memory_order_relaxed);

	if (f->use_ring && lane_has_ring(lane)) {
		if (lane_batch(lane) > INLINE_READ_BATCH)
			return false;
		if (misses) {
			atomic_store_explicit(&f->inline_misses, misses - 1, memory_order_relaxed);
			return false;
		}
	}
	if (!lane_take_inline(lane, io->length))
		return false;
	if (read_inline(f, io))
		return true;
	atomic_store_explicit(&f->inline_misses, INLINE_READ_PAUSE, memory_order_relaxed);
	return false;
}

/* A buffered write, if it will not have to wait. False: it has not happened, or not all of it. */
static bool try_write_inline(struct file *f, struct lane *lane, struct elv_io *io)
{
	uint64_t began = store_now(), now;
	ssize_t n;

	if (!dirty_may_inline(&f->dirty, store_setting(f->store, dirty_bytes), began)) {
		file_maybe_recount(f, began);
		return false;
	}
	if (io->length > INLINE_WRITE_MAX || !pages_known(f, io->offset, io->length) ||
	    !lane_take_inline(lane, io->length))
		return false;
	n = pwritev2(file_fd(f), io->iov, io->niov, io->offset, 0);
	if (n < 0) {
		io->result = -errno;
		return errno != EINTR;
	}
	now = store_now();
	dirty_wrote(&f->dirty, n, now, now - began);
	file_io(io)->done = n;
	io->result = n;
	return n == (ssize_t)io->length;
}

/* ---- the ring ---- */

static void step_data(struct lane *lane, struct elv_io *io, int res);

/* What is left of a READ or WRITE: all, or what is left of the iovec that it stopped in. */
static bool ring_data(struct file *f, struct lane *lane, struct elv_io *io)
{
	struct file_io *fio = file_io(io);
	struct io_uring_sqe *sqe = lane_get_sqe(lane);
	uint64_t at = io->offset + fio->done, skip = fio->done;
	const struct iovec *v = io->iov;
	unsigned n = io->niov;
	int fd = file_fd(f);

	if (!sqe)
		return false;
	while (skip >= v->iov_len) {
		skip -= v->iov_len;
		v++;
		n--;
	}
	if (n > 1 && !skip) {
		if (io->op == ELV_READ)
			io_uring_prep_readv(sqe, fd, v, n, at);
		else
			io_uring_prep_writev(sqe, fd, v, n, at);
	} else if (io->op == ELV_READ) {
		io_uring_prep_read(sqe, fd, (char *)v->iov_base + skip, v->iov_len - skip, at);
	} else {
		io_uring_prep_write(sqe, fd, (char *)v->iov_base + skip, v->iov_len - skip, at);
	}
	if (file_durable(f, io))
		sqe->rw_flags = RWF_DSYNC;
	lane_start_sqe(lane, sqe, io, step_data);
	return true;
}

static void start_data(struct file *f, struct lane *lane, struct elv_io *io)
{
	struct file_io *fio = file_io(io);

	/* A direct transfer that stopped within a block is for bounce.c. */
	if (f->use_ring && !(fio->done & (f->align - 1)) && ring_data(f, lane, io))
		count(f, io, STORE_RING);
	else
		to_worker(f, lane, io, job_rest);
}

static void step_data(struct lane *lane, struct elv_io *io, int res)
{
	struct file_io *fio = file_io(io);
	struct file *f = fio->file;

	if (res > 0) {
		fio->done += res;
		if (fio->done < io->length) {
			start_data(f, lane, io);
			return;
		}
	} else if (res == -EINTR || res == -EAGAIN) {
		to_worker(f, lane, io, job_rest);
		return;
	} else if (file_durable(f, io)) {
		fio->error = res ? res : -EIO;
		to_worker(f, lane, io, job_rest);
		return;
	}
	/* Nothing more: at the end of a file that someone made shorter. */
	io->result = fio->done ? (int64_t)fio->done : res ? res : -EIO;
	if (io->op == ELV_WRITE && !f->direct && !file_durable(f, io))
		dirty_wrote(&f->dirty, fio->done, store_now(), 0);
	lane_done(lane, io);
}

/* A sync ended: a FLUSH, or the second half of a TRIM or ZERO that must be durable. */
static void step_sync(struct lane *lane, struct elv_io *io, int res)
{
	struct file_io *fio = file_io(io);
	struct file *f = fio->file;

	if (res == -EINTR || res == -EAGAIN) {
		to_worker(f, lane, io, job_run);
		return;
	}
	if (res)
		io->sync_failed = io->op != ELV_FLUSH;
	else
		dirty_synced(&f->dirty, fio->mark, store_now());
	io->result = res ? res : (int64_t)io->length;
	lane_done(lane, io);
}

static bool ring_sync(struct file *f, struct lane *lane, struct elv_io *io)
{
	struct io_uring_sqe *sqe = f->use_ring ? lane_get_sqe(lane) : NULL;

	if (!sqe)
		return false;
	file_io(io)->mark = dirty_mark(&f->dirty, store_now());
	io_uring_prep_fsync(sqe, file_fd(f), IORING_FSYNC_DATASYNC);
	lane_start_sqe(lane, sqe, io, step_sync);
	return true;
}

static void step_allocate(struct lane *lane, struct elv_io *io, int res)
{
	struct file *f = file_io(io)->file;

	/* Whatever it was: a worker does it from the beginning, with all its alternatives. */
	if (res || (file_durable(f, io) && !ring_sync(f, lane, io))) {
		to_worker(f, lane, io, job_run);
	} else if (!file_durable(f, io)) {
		io->result = io->length;
		lane_done(lane, io);
	}
}

/* TRIM and ZERO of a file that one fallocate can do. */
static bool ring_allocate(struct file *f, struct lane *lane, struct elv_io *io)
{
	bool hole = io->op == ELV_TRIM || !(io->flags & ELV_NO_HOLE);
	int mode = FALLOC_FL_KEEP_SIZE | (hole ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE);
	struct io_uring_sqe *sqe;

	if (f->is_block || !f->use_ring ||
	    atomic_load_explicit(hole ? &f->no_punch : &f->no_zero_range, memory_order_relaxed))
		return false;
	sqe = lane_get_sqe(lane);
	if (!sqe)
		return false;
	io_uring_prep_fallocate(sqe, file_fd(f), mode, io->offset, io->length);
	lane_start_sqe(lane, sqe, io, step_allocate);
	return true;
}

/* ---- the start ---- */

void file_submit(struct store *s, struct lane *lane, struct elv_io *io)
{
	struct file *f = s->priv;
	struct file_io *fio = file_io(io);
	bool done = false, started = false;

	fio->file = f;
	fio->done = 0;
	fio->error = 0;
	switch (io->op) {
	case ELV_READ:
	case ELV_WRITE:
		if (!bounce_aligned(f, io)) {
			store_count(&s->stats.bounced, 1);
			break;
		}
		if (!f->direct && !file_durable(f, io))
			done = io->op == ELV_READ ? try_read_inline(f, lane, io) :
				try_write_inline(f, lane, io);
		if (!done) {
			start_data(f, lane, io);
			return;
		}
		break;
	case ELV_FLUSH:
		done = !atomic_load(&f->writable);
		started = !done && ring_sync(f, lane, io);
		break;
	case ELV_TRIM:
	case ELV_ZERO:
		started = ring_allocate(f, lane, io);
		break;
	case ELV_CACHE:
		done = f->direct;
		io->result = io->length;
		break;
	case ELV_STATUS: /* by a worker: to seek a hole can take the kernel long */
		break;
	case ELV_NUM_OPS:
		assert(false);
	}
	if (done) {
		count(f, io, STORE_INLINE);
		lane_done(lane, io);
	} else if (started) {
		count(f, io, STORE_RING);
	} else {
		to_worker(f, lane, io, job_run);
	}
}
