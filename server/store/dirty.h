/*
 * When a buffered write may run in the loop's own thread.
 *
 * A write to the page cache is a copy, and cheapest made at once; but the kernel makes the writer
 * wait for the device when too much is dirty, and then the whole loop would wait. So the server
 * keeps an estimate, per device, of what it dirtied and the kernel has not written yet:
 *
 *   + every buffered write, up to the size of the image
 *   - a sync of the image that succeeded: all that was dirty when it began
 *   - after 30 to 60 s: the kernel writes by itself what is that old (dirty_expire_centisecs)
 *   = where the kernel has cachestat(2) (since 6.5), and the estimate has reached the limit:
 *     recounted by a worker, which tells overwrites from writes and sees what the kernel has
 *     written
 *
 * Below the limit the next may go inline, unless one took 1 ms or more: then none does for ten
 * times as long. Other programs' writes are not seen: there the time that a write took is the
 * only sign.
 *
 * All functions may be called from any thread, except opening and closing (main thread).
 */
#ifndef SERVER_STORE_DIRTY_H
#define SERVER_STORE_DIRTY_H

#include <stdbool.h>
#include <stdint.h>

struct dirty_disk;
struct store;

/* Bytes dirtied in the running period and in the one before it. */
struct dirty_count {
	uint64_t period, young, old;
};

/* One store's part of the estimate; private to dirty.c. */
struct dirty {
	struct dirty_disk *disk;
	uint64_t size;            /* bytes */
	struct dirty_count count; /* under the disk's lock */
	uint64_t next_recount;    /* ns: not before */
	bool recounting;
};

/* device: as geometry.device; 0: shared with nobody. size: of the image. 0 or -ENOMEM. */
int dirty_open(struct dirty *d, uint64_t device, uint64_t size);
void dirty_close(struct dirty *d);

/* Whether the next write may go inline. limit: dirty_bytes. */
bool dirty_may_inline(const struct dirty *d, uint64_t limit, uint64_t now);

/* A buffered write of so many bytes ended at `now`. took: ns, if it was inline; else 0. */
void dirty_wrote(struct dirty *d, uint64_t bytes, uint64_t now, uint64_t took);

/* Around a sync: what to remember when it begins, and to give back when it succeeded. */
uint64_t dirty_mark(struct dirty *d, uint64_t now);
void dirty_synced(struct dirty *d, uint64_t mark, uint64_t now);

/* Whether to recount now; if so, the caller sees to it that dirty_recounted follows. */
bool dirty_want_recount(struct dirty *d, uint64_t limit, uint64_t now);

/* bytes: how much of the image is dirty; counting began at `began`. */
void dirty_recounted(struct dirty *d, uint64_t bytes, uint64_t began, uint64_t now);

/* The estimate for the device. */
uint64_t dirty_estimate(const struct dirty *d);

/* file.c: of a file store's device. */
uint64_t file_dirty_bytes(const struct store *s);

#endif
