/*
 * A volatile write cache in front of a store, for tests of what a power failure leaves.
 *
 * What is written stays in memory, in blocks of 4096 bytes, until a flush saves it to the store
 * below (or a write that must be durable saves its own blocks). Reads see the cache. A flush
 * saves what was complete when it began and nothing that came later: of a block that is written
 * again while the flush runs, the version from before it is saved, and the new one stays
 * volatile.
 *
 * A flush that is made to fail loses what it should have saved, as the kernel's page cache does:
 * the blocks read as written, but no later flush saves them, unless they are written again.
 *
 * Any thread, several at a time; all calls block.
 */
#ifndef SERVER_STORE_VOLATILE_H
#define SERVER_STORE_VOLATILE_H

#include "server/store/internal.h"

enum { VOLATILE_BLOCK = 4096 };

struct vcache;

/*
 * seed != 0: of what is written, about half the blocks are saved at once, at random: a disk writes
 * back when it likes. 0 or -ENOMEM.
 */
int vcache_open(struct vcache **out, struct store *below, uint64_t seed);

/* What is not saved is lost. NULL is fine. */
void vcache_close(struct vcache *c);

/* Execute a READ, WRITE, TRIM, ZERO or CACHE; sets io->result. durable: save it, too. */
void vcache_run(struct vcache *c, struct elv_io *io, bool durable);

/* What was just written here is lost at the next crash, though the cache has it. length > 0. */
void vcache_lose(struct vcache *c, uint64_t offset, uint64_t length);

/*
 * A flush, in two steps, so that something may happen between them. At the end the blocks are
 * saved, or, if `fails`, lost. One at a time: the first step waits for the last flush to end. 0 or
 * the error from below.
 */
void vcache_flush_begin(struct vcache *c);
int vcache_flush_end(struct vcache *c, bool fails);

/* The power fails: forget everything, or save about half of the blocks first, as seed != 0 says. */
int vcache_crash(struct vcache *c, uint64_t seed);

/* How many blocks it holds. */
uint64_t vcache_blocks(struct vcache *c);

#endif
