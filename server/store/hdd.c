/*
 * The emulated disk: a store that is as slow as the model in sched/sim/hdd.h says.
 *
 * The data is done at once on the store below; then a worker sleeps until the modelled disk would
 * be through. There is one arm: each access starts where and when the one before it ends, in the
 * order of submission. The disk has no write cache, so a flush takes it no time (the store below
 * flushes, though), and it knows no TRIM.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sim/hdd.h"
#include "server/store/lane.h"

struct hdd_store {
	pthread_mutex_t lock;
	struct hdd disk;         /* under the lock */
	uint64_t free_at;        /* ns: the end of the last access; under the lock */
};

/* An io's area. */
struct hdd_io {
	struct lane_io lane;
	struct store *store;
	uint64_t until;
};
LANE_IO_CHECK(struct hdd_io);

/* Place the io on the disk's calendar: when it will be complete. */
static uint64_t schedule(struct hdd_store *h, const struct elv_io *io)
{
	uint64_t now = store_now(), until = now + h->disk.params.overhead;

	if (io->op != ELV_READ && io->op != ELV_WRITE && io->op != ELV_ZERO)
		return until;
	pthread_mutex_lock(&h->lock);
	if (now < h->free_at)
		now = h->free_at;
	until = hdd_access(&h->disk, now, io->offset, io->length, io->op != ELV_READ);
	h->free_at = until;
	pthread_mutex_unlock(&h->lock);
	return until;
}

/* Is it done without the disk? */
static bool refuse(struct elv_io *io)
{
	if (io->op == ELV_ZERO && (io->flags & ELV_FAST_ZERO)) {
		io->result = -ENOTSUP;
		return true;
	}
	if (io->op == ELV_TRIM || io->op == ELV_CACHE) {
		io->result = io->length;
		return true;
	}
	return false;
}

static void execute(struct store *s, struct elv_io *io, uint64_t until)
{
	s->below->ops->run(s->below, io);
	store_sleep_until(until);
}

static void hdd_run(struct store *s, struct elv_io *io)
{
	if (!refuse(io))
		execute(s, io, schedule(s->priv, io));
}

static void job_execute(struct elv_io *io)
{
	struct hdd_io *h = (struct hdd_io *)io->area;

	execute(h->store, io, h->until);
}

static void hdd_submit(struct store *s, struct lane *lane, struct elv_io *io)
{
	struct hdd_io *h = (struct hdd_io *)io->area;

	if (refuse(io)) {
		lane_done(lane, io);
		return;
	}
	h->store = s;
	h->until = schedule(s->priv, io);
	lane_work(lane, io, job_execute);
}

static void set_abilities(struct store *s)
{
	s->abilities = s->below->abilities & STORE_CAN_WRITE;
}

static void set_geometry(struct store *s)
{
	struct store_geometry *g = &s->geometry;

	store_take_geometry(s);
	g->device = 0;
	strcpy(g->device_name, "hdd7200");
	g->rotational = s->params.rotational != 0;
	g->depth = 1;
	set_abilities(s);
}

static int hdd_open(struct store *s, char *err, size_t errlen)
{
	struct hdd_store *h = calloc(1, sizeof(*h));

	if (!h)
		return store_fail(err, errlen, -ENOMEM, "out of memory");
	pthread_mutex_init(&h->lock, NULL);
	s->priv = h;
	set_geometry(s);
	hdd_init(&h->disk, &hdd7200, s->geometry.size);
	return 0;
}

static void hdd_close(struct store *s)
{
	struct hdd_store *h = s->priv;

	pthread_mutex_destroy(&h->lock);
	free(h);
}

static int hdd_make_writable(struct store *s, char *err, size_t errlen)
{
	int r = s->below->ops->make_writable(s->below, err, errlen);

	if (!r)
		set_abilities(s);
	return r;
}

static int hdd_extents(struct store *s, uint64_t offset, uint64_t max, uint64_t *length, bool *hole)
{
	return store_extents(s->below, offset, max, length, hole);
}

const struct store_ops hdd_ops = {
	.name = "hdd",
	.open = hdd_open,
	.close = hdd_close,
	.make_writable = hdd_make_writable,
	.submit = hdd_submit,
	.run = hdd_run,
	.extents = hdd_extents,
};
