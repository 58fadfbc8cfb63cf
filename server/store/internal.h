/*
 * What the files of server/store share among themselves.
 */
#ifndef SERVER_STORE_INTERNAL_H
#define SERVER_STORE_INTERNAL_H

#include <assert.h>
#include <time.h>

#include "server/store/store.h"

/* The kinds of stores, from the bottom up. */
extern const struct store_ops null_ops;  /* null.c */
extern const struct store_ops file_ops;  /* file.c */
extern const struct store_ops hdd_ops;   /* hdd.c */
extern const struct store_ops fault_ops; /* fault.c */

/* Writes the sentence to err (which may be NULL) and returns `error`, a negative errno. */
int store_fail(char *err, size_t errlen, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* What callers have to keep to. */
static inline void store_check_io(const struct store *s, const struct elv_io *io)
{
	assert(io->op == ELV_FLUSH || (io->length && io->offset + io->length <= s->geometry.size));
	(void)s;
	(void)io;
}

/* A runtime setting: other threads may be changing it. */
#define store_setting(s, field) __atomic_load_n(&(s)->params.field, __ATOMIC_RELAXED)

/* Statistics and estimates: exact in the end, never a means of ordering. */
static inline void store_count(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

#define STORE_NS_PER_S 1000000000ull

/* The monotonic clock, in ns. */
static inline uint64_t store_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * STORE_NS_PER_S + t.tv_nsec;
}

/* Sleep until the monotonic clock shows `when`. For worker threads and store_run. */
void store_sleep_until(uint64_t when);

/* A store around another one takes over its geometry, but for its own aio. */
void store_take_geometry(struct store *s);

/* fault.c; see store_crash. */
int fault_crash(struct store *s, uint64_t seed);

#endif
