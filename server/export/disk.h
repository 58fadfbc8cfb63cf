/*
 * Disks: the device below one or more stores, with the one lock around everything of sched/.
 *
 * An export's disk is found by its store's geometry.device, or by the device_group that it names;
 * an export of a store that is in use already shares that store's disk. A store without a device
 * (geometry.device 0) and without a group has a disk of its own.
 *
 * A disk lives as long as the server: loops have pointers to those that they have visited, and may
 * visit one again for nothing. One that has lost its last export is used for the next new disk.
 */
#ifndef SERVER_EXPORT_DISK_H
#define SERVER_EXPORT_DISK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sched/elevator.h"

struct export;
struct server;

struct disk {
	pthread_mutex_t lock;
	struct elv_disk elv;  /* lock; and every elevator, client and store that belongs to it */

	/* Constant while there is an export; the index for ever. */
	uint64_t device;      /* 0: none */
	char *group;          /* device_group; NULL: none */
	unsigned index;       /* of its loops' tables: small, unique */

	/* Main thread. */
	unsigned exports;     /* 0: nothing is done with it until another export gets it */
	TAILQ_ENTRY(disk) link;
};
TAILQ_HEAD(disks, disk);

/* The disk of a store that an elevator uses. */
static inline struct disk *disk_of(const struct elv_store *s)
{
	return (struct disk *)((char *)s->disk - offsetof(struct disk, elv));
}

/*
 * Take the disk's lock, and the time: CLOCK_MONOTONIC in ns, read with the lock held, so that it
 * never goes back from one caller to the next.
 */
uint64_t disk_lock(struct disk *d);

/* The time again, with the lock held: after having waited for a condition. */
uint64_t disk_now(void);

void disk_unlock(struct disk *d);

/*
 * The disk for e, whose store is open, and one more export on it; a new one if need be. If the
 * store has no elevator yet, elv_store_init is done. 0, or -ENOMEM; -EINVAL with a sentence in
 * err: e and another export disagree about the device (rotational, disk_model, device_group). Main
 * thread.
 */
int disk_attach(struct server *s, struct export *e, char *err, size_t errlen);

/* Does it rotate, by e's setting or, with auto, by what its open store found? */
bool disk_rotational(const struct export *e);

/* e leaves its disk. Its elevator is gone already. Main thread. */
void disk_detach(struct export *e);

/* Free all of them: no export is left, and no loop. */
void disks_free(struct server *s);

#endif
