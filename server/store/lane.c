/*
 * Lanes: see store.h and lane.h.
 *
 * Wake-ups. The descriptor is an eventfd that ring and workers signal. lane_reap first reads it and
 * then looks; whoever completes something first makes it visible and then signals. So a completion
 * that a reap did not see has its signal still to come: none is lost. The price is a signal that
 * comes late, for something that was collected already: the descriptor is readable for nothing.
 *
 * With DEFER_TASKRUN the kernel queues completions until the thread asks for them. It says so by
 * IORING_SQ_TASKRUN in the ring's flags, before it signals; io_uring_peek_batch_cqe looks there and
 * enters the kernel. A signal is sent when the first is queued, so all must be taken each time.
 *
 * Reads served from the page cache complete within io_uring_submit. Then the signal is for nothing
 * new either, and is taken back by the same read: one system call a batch.
 */
#include "server/store/lane.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * Room in the ring. A submission queue that is full is submitted early. The completion queue bounds
 * the operations in flight (what does not fit goes to the workers), so it never overflows.
 */
enum { SQ_ENTRIES = 256, CQ_ENTRIES = 4096 };

/* What one batch may write or read in the calling thread: about 1 ms of copying. */
enum { INLINE_BYTES = 1 << 20 };

struct lane {
	struct io_uring ring;
	bool has_ring;
	bool fresh;             /* no reap since the last submission */
	int fd;                 /* the eventfd */
	unsigned in_flight;     /* ios submitted and not returned by lane_reap */
	unsigned ring_in_flight, ring_max; /* operations prepared or in the kernel */
	unsigned batch;
	uint64_t inline_left;   /* bytes */
	struct elv_ios done;
	unsigned ndone;

	/* Shared with the workers. */
	_Alignas(64) _Atomic(struct lane_io *) finished; /* a stack */
	atomic_uint posting;    /* workers within post() */
};

static struct lane_io *lane_io_of(struct elv_io *io)
{
	return (struct lane_io *)io->area;
}

static struct elv_io *io_of(struct lane_io *l)
{
	return (struct elv_io *)((char *)l - offsetof(struct elv_io, area));
}

static void wake(struct lane *lane)
{
	uint64_t one = 1;
	ssize_t r = write(lane->fd, &one, sizeof(one));

	assert(r == sizeof(one)); /* it can only fail with 2^64 signals unread */
	(void)r;
}

/* ---- the ring ---- */

/* What we make use of: in kernels since 5.6. */
static const uint8_t needed_ops[] = {
	IORING_OP_NOP, IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READV, IORING_OP_WRITEV,
	IORING_OP_FSYNC, IORING_OP_FALLOCATE,
};

static bool has_ops(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool all = probe;

	for (size_t i = 0; all && i < sizeof(needed_ops); i++)
		all = io_uring_opcode_supported(probe, needed_ops[i]);
	io_uring_free_probe(probe);
	return all;
}

/* Does an operation pass through it? (A filter may forbid one of the system calls only.) */
static int try_nop(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	int r;

	io_uring_prep_nop(sqe);
	r = io_uring_submit(ring);
	if (r < 0)
		return r;
	r = io_uring_wait_cqe(ring, &cqe);
	if (!r)
		io_uring_cqe_seen(ring, cqe);
	return r;
}

/*
 * A new ring may be mapped where another thread's was. liburing maps by system calls that
 * ThreadSanitizer does not see; this tells it that one comes after the other.
 */
static atomic_uint freed_rings;

static void free_ring(struct io_uring *ring)
{
	atomic_fetch_add_explicit(&freed_rings, 1, memory_order_release);
	io_uring_queue_exit(ring);
}

/* A ring with the best flags that the kernel knows. 0 or a negative errno. */
static int make_ring(struct io_uring *ring, const struct lane_config *config)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL, /* since 6.1 */
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
			IORING_SETUP_SUBMIT_ALL, /* since 5.19 */
		0,
	};
	const unsigned features = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE;
	struct io_uring_params p;
	int r = -EINVAL;

	for (size_t i = config->age; r == -EINVAL && i < sizeof(flags) / sizeof(flags[0]); i++) {
		memset(&p, 0, sizeof(p));
		p.flags = flags[i] | IORING_SETUP_CQSIZE;
		p.cq_entries = config->cq_entries;
		r = io_uring_queue_init_params(config->sq_entries, ring, &p);
	}
	if (r)
		return r;
	atomic_load_explicit(&freed_rings, memory_order_acquire);
	r = (p.features & features) == features && has_ops(ring) ? try_nop(ring) : -ENOSYS;
	if (r)
		free_ring(ring);
	return r;
}

static pthread_once_t probe_once = PTHREAD_ONCE_INIT;
static int probe_error;

static void probe(void)
{
	static const struct lane_config small = { 4, 8, 0 };
	struct io_uring ring;

	probe_error = make_ring(&ring, &small);
	if (!probe_error)
		free_ring(&ring);
}

bool lane_ring_possible(char *err, size_t errlen)
{
	pthread_once(&probe_once, probe);
	switch (probe_error) {
	case 0:
		return true;
	case -ENOSYS:
		store_fail(err, errlen, 0, "this kernel has no io_uring, or one that is too old");
		break;
	case -EPERM:
	case -EACCES:
		store_fail(err, errlen, 0, "io_uring is not permitted here "
			   "(kernel.io_uring_disabled, or a container's system call filter)");
		break;
	default:
		store_fail(err, errlen, 0, "io_uring does not work here: %s",
			   strerror(-probe_error));
	}
	return false;
}

/* ---- opening and closing ---- */

int lane_open_config(struct lane **out, bool want_ring, const struct lane_config *config, char *err,
		     size_t errlen)
{
	struct lane *lane = aligned_alloc(64, sizeof(*lane));
	int r;

	if (!lane)
		return store_fail(err, errlen, -ENOMEM, "out of memory");
	memset(lane, 0, sizeof(*lane));
	TAILQ_INIT(&lane->done);
	atomic_init(&lane->finished, NULL);
	atomic_init(&lane->posting, 0);
	lane->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lane->fd < 0) {
		r = store_fail(err, errlen, -errno, "no eventfd: %s", strerror(errno));
		goto free_lane;
	}
	r = workers_get();
	if (r) {
		store_fail(err, errlen, r, "no worker thread: %s", strerror(-r));
		goto close_fd;
	}
	if (want_ring && lane_ring_possible(NULL, 0) && !make_ring(&lane->ring, config)) {
		/* From now on the descriptor tells about it: the probe above must not. */
		if (io_uring_register_eventfd(&lane->ring, lane->fd) == 0) {
			io_uring_register_ring_fd(&lane->ring); /* saves a look-up; may fail */
			lane->has_ring = true;
			lane->ring_max = *lane->ring.cq.kring_entries;
		} else {
			free_ring(&lane->ring);
		}
	}
	*out = lane;
	return 0;

close_fd:
	close(lane->fd);
free_lane:
	free(lane);
	return r;
}

int lane_open(struct lane **out, bool want_ring, char *err, size_t errlen)
{
	static const struct lane_config config = { SQ_ENTRIES, CQ_ENTRIES, 0 };

	return lane_open_config(out, want_ring, &config, err, errlen);
}

void lane_close(struct lane *lane)
{
	if (!lane)
		return;
	assert(!lane->in_flight && !lane->ring_in_flight);
	/* A worker whose io is collected already may still be about to signal. */
	while (atomic_load(&lane->posting))
		sched_yield();
	if (lane->has_ring)
		free_ring(&lane->ring);
	close(lane->fd);
	free(lane);
	workers_put();
}

bool lane_has_ring(const struct lane *lane)
{
	return lane->has_ring;
}

int lane_fd(const struct lane *lane)
{
	return lane->fd;
}

unsigned lane_in_flight(const struct lane *lane)
{
	return lane->in_flight;
}

unsigned lane_batch(const struct lane *lane)
{
	return lane->batch;
}

bool lane_take_inline(struct lane *lane, uint64_t bytes)
{
	if (bytes > lane->inline_left)
		return false;
	lane->inline_left -= bytes;
	return true;
}

/* ---- starting ---- */

void lane_done(struct lane *lane, struct elv_io *io)
{
	TAILQ_INSERT_TAIL(&lane->done, io, link);
	lane->ndone++;
}

/*
 * Hand the prepared operations to the kernel. If it refuses (out of memory), they stay prepared,
 * and the descriptor is signalled so that the next reap tries again.
 */
static void kick(struct lane *lane)
{
	while (io_uring_sq_ready(&lane->ring)) {
		int r = io_uring_submit(&lane->ring);

		assert(r != -EEXIST); /* another thread than the lane's */
		if (r <= 0 && r != -EINTR) {
			wake(lane);
			return;
		}
	}
}

struct io_uring_sqe *lane_get_sqe(struct lane *lane)
{
	struct io_uring_sqe *sqe;

	if (!lane->has_ring || lane->ring_in_flight >= lane->ring_max)
		return NULL;
	sqe = io_uring_get_sqe(&lane->ring);
	if (!sqe) {
		kick(lane);
		sqe = io_uring_get_sqe(&lane->ring);
	}
	if (sqe)
		lane->ring_in_flight++;
	return sqe;
}

void lane_start_sqe(struct lane *lane, struct io_uring_sqe *sqe, struct elv_io *io, lane_step *step)
{
	(void)lane;
	lane_io_of(io)->step = step;
	io_uring_sqe_set_data(sqe, io);
}

/* A worker finished io: hand it to the lane. */
static void post(struct lane *lane, struct lane_io *l)
{
	struct lane_io *first;

	atomic_fetch_add(&lane->posting, 1);
	first = atomic_load_explicit(&lane->finished, memory_order_relaxed);
	do
		l->next = first;
	while (!atomic_compare_exchange_weak(&lane->finished, &first, l));
	/* The io is the lane's from here on. Whoever put the first one there signals for all. */
	if (!first)
		wake(lane);
	atomic_fetch_sub(&lane->posting, 1);
}

static void run_job(struct work *w)
{
	struct lane_io *l = (struct lane_io *)((char *)w - offsetof(struct lane_io, work));
	struct elv_io *io = io_of(l);

	l->job(io);
	post(io->lane, l);
}

void lane_work(struct lane *lane, struct elv_io *io, lane_job *job)
{
	struct lane_io *l = lane_io_of(io);

	assert(io->lane == lane);
	l->job = job;
	l->work.run = run_job;
	workers_add(&l->work);
}

void lane_submit(struct lane *lane, struct elv_ios *ios)
{
	struct elv_io *io;

	TAILQ_FOREACH(io, ios, link)
		lane->batch++;
	lane->in_flight += lane->batch;
	lane->inline_left = INLINE_BYTES;
	while ((io = TAILQ_FIRST(ios))) {
		struct store *s = store_of(io);

		TAILQ_REMOVE(ios, io, link);
		io->lane = lane;
		io->result = 0;
		io->sync_failed = false;
		store_check_io(s, io);
		s->ops->submit(s, lane, io);
	}
	lane->batch = 0;
	if (lane->has_ring)
		kick(lane);
	lane->fresh = true;
}

/* ---- collecting ---- */

static void reap_workers(struct lane *lane)
{
	struct lane_io *l = atomic_exchange(&lane->finished, NULL), *next, *oldest = NULL;

	/* The stack has the last one on top. */
	for (; l; l = next) {
		next = l->next;
		l->next = oldest;
		oldest = l;
	}
	for (l = oldest; l; l = next) {
		next = l->next;
		lane_done(lane, io_of(l));
	}
}

/* Take what the ring has; false if that was nothing. */
static bool reap_ring(struct lane *lane)
{
	struct io_uring_cqe *cqe[64];
	struct {
		struct elv_io *io;
		int res;
	} ended[64];
	unsigned n;

	if (!lane->ring_in_flight)
		return false;
	n = io_uring_peek_batch_cqe(&lane->ring, cqe, 64);
	/* Steps may use the ring: give its entries back first. */
	for (unsigned i = 0; i < n; i++) {
		ended[i].io = io_uring_cqe_get_data(cqe[i]);
		ended[i].res = cqe[i]->res;
	}
	io_uring_cq_advance(&lane->ring, n);
	assert(n <= lane->ring_in_flight);
	lane->ring_in_flight -= n;
	for (unsigned i = 0; i < n; i++)
		lane_io_of(ended[i].io)->step(lane, ended[i].io, ended[i].res);
	return n;
}

/* May something have been signalled that this reap will collect? */
static bool maybe_signalled(struct lane *lane)
{
	return !lane->fresh || atomic_load_explicit(&lane->finished, memory_order_relaxed) ||
		(lane->ring_in_flight && io_uring_cq_ready(&lane->ring));
}

unsigned lane_reap(struct lane *lane, struct elv_ios *done)
{
	uint64_t count;
	unsigned n;

	if (maybe_signalled(lane)) {
		ssize_t r = read(lane->fd, &count, sizeof(count));

		(void)r; /* EAGAIN: nothing was */
	}
	lane->fresh = false;
	reap_workers(lane);
	if (lane->has_ring) {
		kick(lane);
		while (reap_ring(lane))
			kick(lane);
	}
	n = lane->ndone;
	lane->ndone = 0;
	lane->in_flight -= n;
	TAILQ_CONCAT(done, &lane->done, link);
	return n;
}
