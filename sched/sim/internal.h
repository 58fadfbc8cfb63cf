/* Private to the harness: what its files need of each other. */
#ifndef SCHED_SIM_INTERNAL_H
#define SCHED_SIM_INTERNAL_H

#include "sched/sim/sim.h"

void *sim_alloc(size_t size); /* zeroed; aborts */

/* --- image.c: what a disk holds, byte by byte, and who wrote it --- */

struct sim_image *sim_image_new(uint64_t size);
void sim_image_free(struct sim_image *img);

/* The byte at `offset` of what this request writes. */
char sim_pattern(uint64_t serial, uint64_t offset);

/* The first n bytes of the io happen (a sync: it begins). */
void sim_image_execute(struct sim_store *s, struct sim_flight *f, uint64_t n);

/* The io, or sync, ended: what it made durable is. */
void sim_image_settle(struct sim_store *s, struct sim_flight *f);

/* Before and after the life of a request: what it must see, what it saw, what is durable. */
void sim_image_arrive(struct sim_store *s, struct sim_request *r);
void sim_image_reply(struct sim_store *s, struct sim_request *r);

/* Every byte is what the request that wrote it last wanted. */
void sim_image_check(struct sim *sim, struct sim_store *s);

/* --- oracle.c: naive rules --- */

void oracle_arrive(struct sim_request *r);
/* A new io was dispatched; or an old one comes again, for the rest of it. */
void oracle_take(struct sim_flight *f);
void oracle_again(struct sim_flight *f);
/* sim_dispatch is through. */
void oracle_dispatched(struct sim_disk *d);
/* Before elv_complete. */
void oracle_ends(struct sim_flight *f);
/* After it: the first n pieces will not come again. */
void oracle_finished(struct sim_flight *f, unsigned n);
void oracle_reply(struct sim_request *r);
void oracle_sync_began(struct sim_store *s);
/* Structures and counters. */
void oracle_check(struct sim *sim);

/* --- load.c --- */

/* One of its requests came back. */
void load_reply(struct sim_client *c);
void load_free(struct sim_client *c);

/* --- events.c --- */

void sim_trace(struct sim *sim, uint64_t a, uint64_t b);

static inline uint64_t blocks_first(const struct sim_store *s, uint64_t offset)
{
	return offset / s->s.block;
}

/* One past the last block. */
static inline uint64_t blocks_end(const struct sim_store *s, uint64_t offset, uint64_t length)
{
	return (offset + length + s->s.block - 1) / s->s.block;
}

static inline bool bit(const uint64_t *map, uint64_t i)
{
	return map[i / 64] >> i % 64 & 1;
}

static inline void set_bit(uint64_t *map, uint64_t i)
{
	map[i / 64] |= 1ULL << i % 64;
}

#endif
