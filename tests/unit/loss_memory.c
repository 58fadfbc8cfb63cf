/*
 * The memory disk: a write cache that a power cut loses, and a medium. It is as simple as can be, so
 * that it can be trusted more than what it is compared with.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/loss.h"

enum { BLOCK = 512, GRAIN = LOSS_UNIT / 4, EVERY = 4 };

/* Of a grain: the cache and the medium agree, the cache is to be saved, or saving it has failed. */
enum state { SAVED, DIRTY, LOST };

struct memory {
	struct elv_store elv;
	char cache[LOSS_SIZE], medium[LOSS_SIZE], before[LOSS_SIZE];
	unsigned char state[LOSS_SIZE / GRAIN];
	bool repaired;
	bool owes_error;     /* a FUA failed: the next FLUSH has to say so as well */
	/* For defects: the last WRITE but one, and what they have been asked so far. */
	char *old;
	uint64_t old_offset, old_length;
	unsigned writes, reads;
};

static int memory_open(struct loss_disk *d, char *err, size_t errlen)
{
	struct memory *m = calloc(1, sizeof(*m));

	(void)err;
	(void)errlen;
	if (!m)
		return -ENOMEM;
	d->priv = m;
	d->elv = &m->elv;
	d->block = 1;
	return 0;
}

static void memory_close(struct loss_disk *d)
{
	struct memory *m = d->priv;

	free(m->old);
	free(m);
}

static void save(struct memory *m, uint64_t from, uint64_t to)
{
	for (uint64_t i = from / GRAIN; i < to / GRAIN; i++) {
		if (m->state[i] != DIRTY)
			continue;
		memcpy(m->medium + i * GRAIN, m->cache + i * GRAIN, GRAIN);
		m->state[i] = SAVED;
	}
}

static void soil(struct memory *m, uint64_t offset, uint64_t length)
{
	memset(m->state + offset / GRAIN, DIRTY, length / GRAIN);
}

static void fail_to_save(struct memory *m)
{
	for (unsigned i = 0; i < LOSS_SIZE / GRAIN; i++)
		if (m->state[i] == DIRTY)
			m->state[i] = LOST;
}

/* ---- defects ---- */

/* Keep this WRITE, and do the one before it again. */
static void replay(struct memory *m, const struct elv_io *io)
{
	uint64_t done = 0;

	if (m->old && m->writes % EVERY == 0) {
		memcpy(m->cache + m->old_offset, m->old, m->old_length);
		soil(m, m->old_offset, m->old_length);
	}
	free(m->old);
	m->old = malloc(io->length);
	m->old_offset = io->offset;
	m->old_length = io->length;
	for (unsigned i = 0; i < io->niov; i++) {
		memcpy(m->old + done, io->iov[i].iov_base, io->iov[i].iov_len);
		done += io->iov[i].iov_len;
	}
}

/* ---- operations ---- */

/* Copy between the iov and the cache, up to length. */
static void copy(struct memory *m, struct elv_io *io, uint64_t length, enum loss_defect defect)
{
	char *at = m->cache + io->offset, *from = at;

	if (io->op == ELV_WRITE && defect == LOSS_READS_STALE)
		memcpy(m->before, m->cache, sizeof(m->before));
	if (io->op == ELV_READ && defect == LOSS_READS_STALE && m->reads++ % EVERY == 0)
		from = m->before + io->offset;
	for (unsigned i = 0; i < io->niov && length; i++) {
		uint64_t n = io->iov[i].iov_len < length ? io->iov[i].iov_len : length;

		if (io->op == ELV_READ)
			memcpy(io->iov[i].iov_base, from, n);
		else
			memcpy(at, io->iov[i].iov_base, n);
		at += n;
		from += n;
		length -= n;
	}
}

static void transfer(struct loss_disk *d, struct elv_io *io, uint64_t length)
{
	struct memory *m = d->priv;
	enum loss_defect defect = d->plan->defect;

	io->result = (int64_t)length;
	if (io->op == ELV_WRITE && defect == LOSS_DROPS_WRITES && m->writes++ % EVERY == 0)
		return;
	copy(m, io, length, defect);
	if (io->op != ELV_WRITE)
		return;
	soil(m, io->offset, length);
	/* Of a part, nobody has promised that it is stable. */
	if ((io->flags & ELV_FUA) && length == io->length && !io->sync_failed && defect != LOSS_IGNORES_FUA)
		save(m, io->offset, io->offset + length);
	if (defect == LOSS_REPLAYS_WRITES) {
		m->writes++;
		replay(m, io);
	}
}

static void work(struct loss_disk *d, struct elv_io *io)
{
	struct memory *m = d->priv;

	switch (io->op) {
	case ELV_READ:
	case ELV_WRITE:
		transfer(d, io, io->length);
		return;
	case ELV_FLUSH:
		if (d->plan->defect != LOSS_IGNORES_FLUSH)
			save(m, 0, LOSS_SIZE);
		break;
	case ELV_TRIM:
	case ELV_ZERO:
		memset(m->cache + io->offset, 0, io->length);
		soil(m, io->offset, io->length);
		break;
	case ELV_CACHE:
	case ELV_STATUS:
	case ELV_NUM_OPS:
		break;
	}
	io->result = (int64_t)io->length;
}

/*
 * The sync that this io is, or that belongs to it, fails. That of a FUA has taken the rest of the
 * cache with it, and a FLUSH that runs beside it, or next, must not hide that.
 */
static void fail_sync(struct loss_disk *d, struct elv_io *io, int error)
{
	struct memory *m = d->priv;

	io->sync_failed = io->op != ELV_FLUSH;
	if (io->op == ELV_WRITE)
		transfer(d, io, io->length);
	fail_to_save(m);
	m->owes_error = io->op != ELV_FLUSH;
	io->result = d->plan->defect == LOSS_HIDES_SYNC_ERRORS ? (int64_t)io->length : error;
	if (d->plan->defect == LOSS_HIDES_SYNC_ERRORS)
		io->sync_failed = false;
}

static bool fails_now(struct loss_disk *d, const struct elv_io *io)
{
	const struct memory *m = d->priv;
	const struct loss_plan *p = d->plan;

	if (io->op == ELV_FLUSH && m->owes_error)
		return true;
	if (m->repaired)
		return false;
	switch (p->fault) {
	case LOSS_ERROR:
		return d->ios == p->fault_at;
	case LOSS_ERRORS:
	case LOSS_CRASH:
		return d->ios >= p->fault_at;
	case LOSS_SHORT:
		return d->ios == p->fault_at && (io->op == ELV_READ || io->op == ELV_WRITE);
	case LOSS_SYNC_ERROR:
		return loss_is_sync(d, io) && d->syncs == p->fault_at;
	case LOSS_NO_FAULT:
		break;
	}
	return false;
}

static void memory_run(struct loss_disk *d, struct elv_io *io)
{
	int error = d->plan->error ? d->plan->error : -EIO;

	d->ios++;
	d->syncs += loss_is_sync(d, io);
	io->result = 0;
	io->sync_failed = false;
	if (d->plan->fault == LOSS_SHORT && d->ios == d->plan->fault_at)
		d->fault_came = true;
	if (!fails_now(d, io)) {
		work(d, io);
		return;
	}
	d->fault_came = true;
	if (d->plan->fault == LOSS_SHORT && io->op != ELV_FLUSH)
		transfer(d, io, io->length * (d->ios % 4) / 4); /* also none at all */
	else if (d->plan->fault == LOSS_SYNC_ERROR || io->op == ELV_FLUSH)
		fail_sync(d, io, error);
	else
		io->result = error;
}

static void memory_repair(struct loss_disk *d)
{
	struct memory *m = d->priv;

	m->repaired = true;
	m->owes_error = false; /* nothing is in flight: all have heard of it */
}

static void memory_crash(struct loss_disk *d, uint64_t seed)
{
	struct memory *m = d->priv;

	for (unsigned b = 0; b < LOSS_SIZE && seed; b += BLOCK)
		if (loss_random(&seed) & 1)
			save(m, b, b + BLOCK);
	memcpy(m->cache, m->medium, LOSS_SIZE);
	memset(m->state, SAVED, sizeof(m->state));
}

static void memory_read(struct loss_disk *d, char *buf)
{
	const struct memory *m = d->priv;

	memcpy(buf, m->cache, LOSS_SIZE);
}

const struct loss_disk_ops loss_memory = {
	.open = memory_open,
	.close = memory_close,
	.run = memory_run,
	.repair = memory_repair,
	.crash = memory_crash,
	.read = memory_read,
};
