/*
 * The file store: regular files and block devices. What its three files share:
 *
 *   file.c      opening: checks, locks, geometry
 *   file_io.c   an io through a lane: inline, ring or worker
 *   file_run.c  an io executed by the calling thread: complete, and what the workers do
 *   bounce.c    direct I/O that is not aligned
 */
#ifndef SERVER_STORE_FILE_H
#define SERVER_STORE_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/store/block.h"
#include "server/store/dirty.h"
#include "server/store/lane.h"

/*
 * Aligned memory for direct I/O whose own is not, or whose ends are not: a fixed reserve per store.
 * Who finds none free waits for one; that is a worker or a thread of its own, never a loop.
 */
enum { BOUNCE_BUFFERS = 8, BOUNCE_SIZE = 256 * 1024 };

struct bounce {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	char *memory;            /* of all buffers; untouched pages cost nothing */
	char *free[BOUNCE_BUFFERS];
	unsigned nfree;
};

struct file {
	struct store *store;
	atomic_int fd;
	int old_fd;              /* what fd was before make_writable, or -1: may be in use yet */
	atomic_bool writable;
	bool is_block, direct, durable; /* durable: writethrough */
	uint32_t align, mem_align;      /* direct: of offsets and lengths, of memory; else 1 */
	struct block_info info;

	/* What the file system or device turned out to be unable to do. */
	atomic_bool no_punch, no_zero_range, no_nowait;
	bool use_ring;           /* where a lane has one */
	atomic_uint inline_misses; /* file_io.c */

	struct bounce bounce;    /* direct */
	struct dirty dirty;      /* buffered, or of no use */
	struct work recount;     /* owned by who holds dirty.recounting */
};

/* An io's area. */
struct file_io {
	struct lane_io lane;
	struct file *file;
	uint64_t done;           /* bytes of a READ or WRITE that are done */
	uint64_t mark;           /* FLUSH: see dirty_mark */
	int error;               /* of a durable write: what the ring said */
};
LANE_IO_CHECK(struct file_io);

static inline struct file_io *file_io(struct elv_io *io)
{
	return (struct file_io *)io->area;
}

static inline int file_fd(struct file *f)
{
	return atomic_load_explicit(&f->fd, memory_order_relaxed);
}

/* Must this io be durable when it is done? */
static inline bool file_durable(const struct file *f, const struct elv_io *io)
{
	return elv_modifies(io->op) &&
		(f->durable || (io->op == ELV_WRITE && (io->flags & ELV_FUA)));
}

/* file_io.c */
void file_submit(struct store *s, struct lane *lane, struct elv_io *io);

/* Count the dirty pages again, on a worker, if that is due. */
void file_maybe_recount(struct file *f, uint64_t now);

/* file_run.c: any thread; blocking. */
void file_run(struct store *s, struct elv_io *io);

/*
 * READ and WRITE from done bytes on, or with error != 0 what follows after a durable write has
 * failed with it there.
 */
void file_run_data(struct file *f, struct elv_io *io, uint64_t done, int error);

/* bounce.c. align: a power of two up to 4096 that divides BOUNCE_SIZE. 0 or -ENOMEM. */
int bounce_open(struct bounce *b);
void bounce_close(struct bounce *b);

/* Can the kernel take this io as it is? */
bool bounce_aligned(const struct file *f, const struct elv_io *io);

/* Read into or write from the io's memory, from done bytes on; as pread and pwrite, -errno. */
int64_t bounce_read(struct file *f, struct elv_io *io, uint64_t done);
int64_t bounce_write(struct file *f, struct elv_io *io, uint64_t done, int rwf);

/* Write zeroes over an unaligned piece of less than BOUNCE_SIZE. 0 or -errno. */
int bounce_zero(struct file *f, uint64_t offset, uint64_t length);

#endif
