/*
 * The estimate of dirty bytes: see dirty.h.
 */
#include "server/store/dirty.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#define MS 1000000ull

/* An inline write that takes this long has waited for the device (or the processor)... */
#define SLOW (1 * MS)
/* ...and for so many times as long nothing is tried inline: a loop loses a tenth of its time. */
#define PENALTY 10
/* After one to two periods the kernel has written what was dirtied. */
#define PERIOD (30000 * MS)
/* Recounting takes at most about 2 % of a processor, and is done five times a second at most. */
#define RECOUNT (200 * MS)
#define RECOUNT_SHARE 50

struct dirty_disk {
	uint64_t device;
	unsigned users;           /* main thread */
	pthread_mutex_t lock;     /* for all counts; held for a few instructions */
	struct dirty_count count; /* the sum over its stores */
	uint64_t bytes;           /* of count, for those without the lock; atomic */
	uint64_t slow_until;      /* ns; atomic */
	LIST_ENTRY(dirty_disk) link;
};

/* Main thread. */
static LIST_HEAD(dirty_disks, dirty_disk) disks = LIST_HEAD_INITIALIZER(disks);

#define load(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define store(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

int dirty_open(struct dirty *d, uint64_t device, uint64_t size)
{
	struct dirty_disk *disk;

	*d = (struct dirty) { .size = size };
	LIST_FOREACH(disk, &disks, link)
		if (device && disk->device == device)
			break;
	if (!disk) {
		disk = calloc(1, sizeof(*disk));
		if (!disk)
			return -ENOMEM;
		disk->device = device;
		pthread_mutex_init(&disk->lock, NULL);
		LIST_INSERT_HEAD(&disks, disk, link);
	}
	disk->users++;
	d->disk = disk;
	return 0;
}

/* ---- counts; with the disk's lock held ---- */

static void turn(struct dirty_count *c, uint64_t now)
{
	uint64_t period = now / PERIOD;

	if (period == c->period)
		return;
	c->old = period == c->period + 1 ? c->young : 0;
	c->young = 0;
	c->period = period;
}

/* Take away, the oldest first, but never more than there is. */
static void take(struct dirty_count *c, uint64_t bytes)
{
	uint64_t n = bytes < c->old ? bytes : c->old;

	c->old -= n;
	bytes -= n;
	c->young -= bytes < c->young ? bytes : c->young;
}

static void change(struct dirty *d, uint64_t add, uint64_t less, uint64_t now)
{
	struct dirty_count *counts[] = { &d->count, &d->disk->count };
	uint64_t dirty, room;

	for (unsigned i = 0; i < 2; i++) {
		turn(counts[i], now);
		take(counts[i], less);
	}
	/* No more of an image can be dirty than there is. */
	dirty = d->count.young + d->count.old;
	room = d->size > dirty ? d->size - dirty : 0;
	for (unsigned i = 0; i < 2; i++)
		counts[i]->young += add < room ? add : room;
	store(d->disk->bytes, d->disk->count.young + d->disk->count.old);
}

/* ---- the interface ---- */

void dirty_close(struct dirty *d)
{
	struct dirty_disk *disk = d->disk;

	if (!disk)
		return;
	/* What is left stays in the disk's count until it is too old: so it is for the kernel. */
	if (!--disk->users) {
		LIST_REMOVE(disk, link);
		pthread_mutex_destroy(&disk->lock);
		free(disk);
	}
	d->disk = NULL;
}

bool dirty_may_inline(const struct dirty *d, uint64_t limit, uint64_t now)
{
	return load(d->disk->bytes) < limit && now >= load(d->disk->slow_until);
}

void dirty_wrote(struct dirty *d, uint64_t bytes, uint64_t now, uint64_t took)
{
	pthread_mutex_lock(&d->disk->lock);
	change(d, bytes, 0, now);
	pthread_mutex_unlock(&d->disk->lock);
	if (took >= SLOW)
		store(d->disk->slow_until, now + PENALTY * took);
}

uint64_t dirty_mark(struct dirty *d, uint64_t now)
{
	uint64_t bytes;

	pthread_mutex_lock(&d->disk->lock);
	change(d, 0, 0, now);
	bytes = d->count.young + d->count.old;
	pthread_mutex_unlock(&d->disk->lock);
	return bytes;
}

void dirty_synced(struct dirty *d, uint64_t mark, uint64_t now)
{
	pthread_mutex_lock(&d->disk->lock);
	change(d, 0, mark, now);
	pthread_mutex_unlock(&d->disk->lock);
}

bool dirty_want_recount(struct dirty *d, uint64_t limit, uint64_t now)
{
	/* With a limit of 0 there is nothing to find out. */
	return limit && load(d->disk->bytes) >= limit && now >= load(d->next_recount) &&
		!__atomic_exchange_n(&d->recounting, true, __ATOMIC_ACQUIRE);
}

void dirty_recounted(struct dirty *d, uint64_t bytes, uint64_t began, uint64_t now)
{
	uint64_t pause = (now - began) * RECOUNT_SHARE;

	pthread_mutex_lock(&d->disk->lock);
	change(d, 0, 0, now);
	/* What was written while it counted is in or not: either way it was dirtied just now. */
	change(d, bytes, d->count.young + d->count.old, now);
	pthread_mutex_unlock(&d->disk->lock);
	store(d->next_recount, now + (pause > RECOUNT ? pause : RECOUNT));
	__atomic_store_n(&d->recounting, false, __ATOMIC_RELEASE);
}

uint64_t dirty_estimate(const struct dirty *d)
{
	return load(d->disk->bytes);
}
