/*
 * The fault store: goes wrong on purpose. It is put around an export's store as soon as one fault_
 * setting is there, and so works alike in unit tests (store_run, any clock) and in a server.
 *
 * Ios are numbered from 1 in the order in which they are submitted (or run), whatever they are;
 * likewise READs and WRITEs among themselves, and syncs: FLUSHes, and whatever must be durable by
 * itself (FUA writes; with cache=writethrough all modifications). To the n-th io happens, in this
 * order:
 *
 *   crash_at          n >= crash_at: nothing, but EIO. The power is off, until store_crash
 *   delay             it starts so much later; a FLUSH flush_delay later still
 *   error_every, error_at   it fails with fault_errno, and has done nothing
 *   space             a WRITE that goes beyond does what fits, and then fails with ENOSPC. What was
 *                     written counts for ever, overwritten or trimmed
 *   short_every       a READ or WRITE does the first half
 *   sync_error_every  a FLUSH fails with fault_errno; what must be durable by itself is carried
 *                     out, and then fails (sync_failed)
 *
 * `volatile` puts a volatile write cache in front of the image (volatile.h): what was not
 * flushed, nor written with FUA, is lost when the power fails. That is store_crash in a test; for
 * a server it is its end, in whatever way, kill -9 included, because the cache is in its memory
 * only. With `fault_seed` about half the blocks are saved when they are written, which ones
 * depends on the seed: then a crash leaves a mixture of old and new blocks. store_crash takes
 * such a seed, too. The unit of loss is a block of 4096 bytes. A sync that is made to fail loses
 * for good what it should have saved, as the kernel's page cache does: later flushes succeed
 * without it.
 *
 * Everything runs on worker threads, or the caller's.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/lane.h"
#include "server/store/volatile.h"

struct fault {
	struct vcache *cache;        /* NULL: not volatile */
	uint64_t ios, transfers, syncs; /* counted so far; atomic */
	uint64_t written;            /* bytes, against fault_space; atomic */
	bool restarted;              /* after store_crash, crash_at is over; atomic */
};

/* An io's area. */
struct fault_io {
	struct lane_io lane;
	struct store *store;
	uint64_t number;
};
LANE_IO_CHECK(struct fault_io);

static int error_of(const struct store *s)
{
	static const int errors[] = {
		[STORE_FAULT_EIO] = -EIO,
		[STORE_FAULT_ENOSPC] = -ENOSPC,
		[STORE_FAULT_EDQUOT] = -EDQUOT,
		[STORE_FAULT_ENOMEM] = -ENOMEM,
		[STORE_FAULT_ETIMEDOUT] = -ETIMEDOUT,
	};

	return errors[s->params.fault_errno];
}

static uint64_t next(uint64_t *counter)
{
	return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

static bool is_nth(uint64_t n, uint64_t every)
{
	return every && n % every == 0;
}

static bool powered_off(const struct store *s, uint64_t n)
{
	const struct fault *f = s->priv;

	return s->params.fault_crash_at && n >= s->params.fault_crash_at &&
		!__atomic_load_n(&f->restarted, __ATOMIC_RELAXED);
}

static bool is_durable(const struct store *s, const struct elv_io *io)
{
	return elv_modifies(io->op) && (s->params.cache == STORE_CACHE_WRITETHROUGH ||
					(io->op == ELV_WRITE && (io->flags & ELV_FUA)));
}

/* How much of a WRITE fits; takes the room. */
static uint64_t take_space(struct store *s, uint64_t length)
{
	struct fault *f = s->priv;
	uint64_t used = __atomic_load_n(&f->written, __ATOMIC_RELAXED);
	uint64_t limit = s->params.fault_space, n;

	if (!limit)
		return length;
	do {
		n = used < limit ? limit - used : 0;
		if (n > length)
			n = length;
	} while (!__atomic_compare_exchange_n(&f->written, &used, used + n, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return n;
}

/* Half of an io, in whole sectors if it has several. */
static uint64_t half(uint64_t length)
{
	uint64_t n = length / 2;

	if (n > 512)
		n &= ~511ull;
	return n ? n : length;
}

/* Execute the io without more ado, with its data made durable or not. */
static void pass(struct store *s, struct elv_io *io, bool durable)
{
	struct fault *f = s->priv;
	unsigned flags = io->flags;

	if (f->cache && io->op == ELV_STATUS) {
		io->result = store_status(s, io);
		io->result = io->result ? io->result : (int64_t)io->length;
		return;
	}
	if (f->cache) {
		vcache_run(f->cache, io, durable);
		return;
	}
	if (!durable)
		io->flags &= ~(unsigned)ELV_FUA;
	s->below->ops->run(s->below, io);
	io->flags = flags;
}

/* Only its first bytes. */
static void pass_part(struct store *s, struct elv_io *io, uint64_t length, bool durable)
{
	struct iovec vec[ELV_MAX_SEGMENTS], *iov = io->iov;
	uint64_t whole = io->length, left = length;
	unsigned n = 0, niov = io->niov;

	if (length == whole) {
		pass(s, io, durable);
		return;
	}
	for (; left; n++) {
		vec[n] = iov[n];
		if (vec[n].iov_len > left)
			vec[n].iov_len = left;
		left -= vec[n].iov_len;
	}
	io->iov = vec;
	io->niov = n;
	io->length = length;
	pass(s, io, durable);
	io->iov = iov;
	io->niov = niov;
	io->length = whole;
}

static void flush(struct store *s, struct elv_io *io, bool fails)
{
	struct fault *f = s->priv;
	uint64_t delay = store_setting(s, fault_flush_delay);

	if (f->cache)
		vcache_flush_begin(f->cache);
	if (delay)
		store_sleep_until(store_now() + delay);
	if (f->cache)
		io->result = vcache_flush_end(f->cache, fails);
	else if (!fails)
		s->below->ops->run(s->below, io);
	if (fails)
		io->result = error_of(s);
}

/* How much of a READ or WRITE is to be done; of the others all. 0: there is no space for it. */
static uint64_t length_of(struct store *s, const struct elv_io *io)
{
	struct fault *f = s->priv;
	uint64_t length = io->length;

	if (io->op != ELV_READ && io->op != ELV_WRITE)
		return length;
	if (is_nth(next(&f->transfers), store_setting(s, fault_short_every)))
		length = half(length);
	return io->op == ELV_WRITE ? take_space(s, length) : length;
}

/* Everything but FLUSH. */
static void carry_out(struct store *s, struct elv_io *io)
{
	struct fault *f = s->priv;
	bool durable = is_durable(s, io), fails;
	uint64_t length = length_of(s, io);

	if (!length) {
		io->result = -ENOSPC;
		return;
	}
	fails = durable && is_nth(next(&f->syncs), store_setting(s, fault_sync_error_every));
	pass_part(s, io, length, durable && !fails);
	if (!fails || io->result < 0)
		return;
	if (f->cache)
		vcache_lose(f->cache, io->offset, length);
	io->result = error_of(s);
	io->sync_failed = true;
}

static void execute(struct store *s, struct elv_io *io, uint64_t n)
{
	struct fault *f = s->priv;
	uint64_t delay = store_setting(s, fault_delay);

	if (powered_off(s, n)) {
		io->result = -EIO;
		return;
	}
	if (delay)
		store_sleep_until(store_now() + delay);
	if (is_nth(n, store_setting(s, fault_error_every)) ||
	    n == store_setting(s, fault_error_at)) {
		io->result = error_of(s);
		return;
	}
	if (io->op == ELV_FLUSH)
		flush(s, io, is_nth(next(&f->syncs), store_setting(s, fault_sync_error_every)));
	else
		carry_out(s, io);
}

static void fault_run(struct store *s, struct elv_io *io)
{
	struct fault *f = s->priv;

	execute(s, io, next(&f->ios));
}

static void job_execute(struct elv_io *io)
{
	struct fault_io *fio = (struct fault_io *)io->area;

	execute(fio->store, io, fio->number);
}

static void fault_submit(struct store *s, struct lane *lane, struct elv_io *io)
{
	struct fault_io *fio = (struct fault_io *)io->area;
	struct fault *f = s->priv;

	fio->store = s;
	fio->number = next(&f->ios);
	lane_work(lane, io, job_execute);
}

int fault_crash(struct store *s, uint64_t seed)
{
	struct fault *f = s->priv;
	int r = f->cache ? vcache_crash(f->cache, seed) : 0;

	__atomic_store_n(&f->restarted, true, __ATOMIC_RELAXED);
	return r;
}

/* What is only in the cache is allocated as well: where there is one, nothing is called a hole. */
static int fault_extents(struct store *s, uint64_t offset, uint64_t max, uint64_t *length,
			 bool *hole)
{
	struct fault *f = s->priv;

	if (!f->cache)
		return store_extents(s->below, offset, max, length, hole);
	*length = max;
	*hole = false;
	return 0;
}

static void set_geometry(struct store *s)
{
	struct fault *f = s->priv;

	store_take_geometry(s);
	s->abilities = s->below->abilities;
	if (f->cache && s->geometry.block < VOLATILE_BLOCK)
		s->geometry.block = VOLATILE_BLOCK;
}

static int fault_make_writable(struct store *s, char *err, size_t errlen)
{
	int r = s->below->ops->make_writable(s->below, err, errlen);

	if (!r)
		s->abilities = s->below->abilities;
	return r;
}

static int fault_open(struct store *s, char *err, size_t errlen)
{
	const struct store_params *p = &s->params;
	struct fault *f = calloc(1, sizeof(*f));

	if (!f || (p->fault_volatile && vcache_open(&f->cache, s->below, p->fault_seed))) {
		free(f);
		return store_fail(err, errlen, -ENOMEM, "out of memory");
	}
	s->priv = f;
	set_geometry(s);
	return 0;
}

static void fault_close(struct store *s)
{
	struct fault *f = s->priv;

	vcache_close(f->cache);
	free(f);
}

const struct store_ops fault_ops = {
	.name = "fault",
	.open = fault_open,
	.close = fault_close,
	.make_writable = fault_make_writable,
	.submit = fault_submit,
	.run = fault_run,
	.extents = fault_extents,
};
