/*
 * Buffers for the data of requests: aligned to 4096 bytes, so that they serve for direct I/O as
 * they are, in sizes of powers of two, kept for reuse up to a limit.
 *
 * Owned by one loop; only its thread uses it. Memory that is kept is not part of any budget, but
 * bounded (POOL_KEEP), and given back when the loop has had nothing to do for a while.
 */
#ifndef SERVER_NET_POOL_H
#define SERVER_NET_POOL_H

#include <stddef.h>

enum {
	POOL_ALIGN = 4096,
	POOL_CLASSES = 14,      /* 4 KiB .. 32 MiB */
	POOL_KEEP = 16 << 20,   /* bytes kept at most */
};

struct pool_buffer;

struct pool {
	struct pool_buffer *kept[POOL_CLASSES];
	size_t kept_bytes;
};

void pool_init(struct pool *p);

/* A buffer of at least len bytes, 1 <= len <= 32 MiB; NULL if there is no memory. */
void *pool_get(struct pool *p, size_t len);

/* Give it back, with the len it was got with. NULL is fine. */
void pool_put(struct pool *p, void *buffer, size_t len);

/* Free what is kept, except for `keep` bytes. */
void pool_trim(struct pool *p, size_t keep);

#endif
