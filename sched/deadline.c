/*
 * deadline: sorted sweeps with expiry, after Linux 4.19 block/deadline-iosched.c.
 *
 * Each direction keeps its requests twice: sorted by position and in order of arrival. A batch is a
 * one-way sweep of up to fifo_batch requests of one direction. Only between batches is a direction
 * chosen (reads, unless writes have waited for writes_starved batches of reads) and are deadlines
 * looked at: an expired request starts the next batch of its direction. So deadlines are soft: they
 * say when the sweep gives way, not when a request is done.
 *
 *     batch goes on? ── yes ──> next in position
 *          │ no
 *     direction ──> oldest expired, or the sweep is at its end? ── yes ──> oldest
 *                                     │ no
 *                                     └──> next in position
 */
#include "sched/policy.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "sched/elevator.h"
#include "sched/fifo.h"

struct deadline_params {
	uint64_t read_expire, write_expire; /* ns */
	uint64_t writes_starved;            /* batches */
	uint64_t fifo_batch;                /* requests */
	uint64_t front_merges;
};

struct deadline {
	const struct deadline_params *params;
	struct tree sort[ELV_NUM_DIRS];
	struct elv_requests fifo[ELV_NUM_DIRS];
	struct elv_request *next[ELV_NUM_DIRS]; /* where the sweep goes on; one at most is set */
	uint64_t batching; /* requests of this batch */
	uint64_t starved;  /* read batches since the last write batch, while writes waited */
	uint64_t expired;  /* batches that began with an expired request */
};

/* The run's deadline, and the arrival that it counts from, in its area. */
static uint64_t *deadline_of(struct elv_request *rq)
{
	return &rq->area[0];
}

static uint64_t *counts_from(struct elv_request *rq)
{
	return &rq->area[1];
}

static void set_deadline(const struct deadline *d, struct elv_request *rq)
{
	*counts_from(rq) = rq->run_arrival;
	*deadline_of(rq) = rq->run_arrival + (elv_dir(rq->op) == ELV_DIR_READ
						      ? d->params->read_expire
						      : d->params->write_expire);
}

static int deadline_init_queue(struct elevator *e)
{
	extern const struct elv_policy elv_deadline;
	struct deadline *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->params = elv_policy_params(e, &elv_deadline);
	for (int dir = 0; dir < ELV_NUM_DIRS; dir++) {
		tree_init(&d->sort[dir], NULL);
		TAILQ_INIT(&d->fifo[dir]);
	}
	e->queue = d;
	return 0;
}

static void deadline_exit_queue(struct elevator *e)
{
	free(e->queue);
}

static bool together(const struct elv_request *a, const struct elv_request *b)
{
	return elv_dir(a->op) == elv_dir(b->op);
}

static void add(struct deadline *d, struct elv_request *rq)
{
	enum elv_dir dir = elv_dir(rq->op);

	tree_insert(&d->sort[dir], &rq->sort, rq->run_offset);
	fifo_insert(&d->fifo[dir], rq, together);
}

/* Take rq out; a sweep that was to go on with it goes on behind it. */
static void take(struct deadline *d, struct elv_request *rq)
{
	enum elv_dir dir = elv_dir(rq->op);

	if (d->next[dir] == rq)
		d->next[dir] = sort_entry(tree_next(&rq->sort));
	tree_remove(&d->sort[dir], &rq->sort);
	TAILQ_REMOVE(&d->fifo[dir], rq, fifo_link);
}

static void deadline_insert(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	struct deadline *d = e->queue;

	(void)now;
	set_deadline(d, rq);
	add(d, rq);
}

/* The rest of a large request: the sweep is just there. */
static void deadline_requeue(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	struct deadline *d = e->queue;

	(void)now;
	add(d, rq);
	d->next[ELV_DIR_READ] = d->next[ELV_DIR_WRITE] = NULL;
	d->next[elv_dir(rq->op)] = rq;
}

static bool deadline_may_merge(struct elevator *e, const struct elv_request *head,
			       const struct elv_request *rq)
{
	struct deadline *d = e->queue;

	return d->params->front_merges || rq->run_offset > head->run_offset;
}

/* The earlier deadline counts; one that is set stays, also if the tunable has changed since. */
static void deadline_merged(struct elevator *e, struct elv_request *head,
			    struct elv_request *absorbed)
{
	struct deadline *d = e->queue;
	enum elv_dir dir = elv_dir(head->op);

	if (absorbed && *deadline_of(absorbed) < *deadline_of(head)) {
		*deadline_of(head) = *deadline_of(absorbed);
		*counts_from(head) = head->run_arrival;
	} else if (head->run_arrival < *counts_from(head)) {
		set_deadline(d, head); /* an older one, which had been held back, joined it */
	}
	if (absorbed && d->next[dir] == absorbed)
		d->next[dir] = head;
	fifo_merged(&d->fifo[dir], head, absorbed, together);
	sort_merged(&d->sort[dir], head, absorbed);
}

static enum elv_dir choose_direction(struct deadline *d)
{
	bool reads = !TAILQ_EMPTY(&d->fifo[ELV_DIR_READ]);
	bool writes = !TAILQ_EMPTY(&d->fifo[ELV_DIR_WRITE]);

	if (reads && !(writes && d->starved++ >= d->params->writes_starved))
		return ELV_DIR_READ;
	d->starved = 0;
	return ELV_DIR_WRITE;
}

static enum elv_verdict deadline_dispatch(struct elevator *e, uint64_t now,
					  struct elv_request **out, uint64_t *at)
{
	struct deadline *d = e->queue;
	struct elv_request *rq = d->next[ELV_DIR_WRITE];
	enum elv_dir dir;

	(void)at;
	if (!rq)
		rq = d->next[ELV_DIR_READ];
	if (!rq || d->batching >= d->params->fifo_batch) {
		dir = choose_direction(d);
		rq = TAILQ_FIRST(&d->fifo[dir]);
		if (!rq)
			return ELV_NOTHING;
		if (now >= *deadline_of(rq))
			d->expired++;
		else if (d->next[dir])
			rq = d->next[dir];
		d->batching = 0;
	}
	dir = elv_dir(rq->op);
	d->batching++;
	d->next[ELV_DIR_READ] = d->next[ELV_DIR_WRITE] = NULL;
	d->next[dir] = sort_entry(tree_next(&rq->sort));
	if (d->next[dir])
		elv_prefetch(d->next[dir]);
	take(d, rq);
	*out = rq;
	return ELV_DISPATCH;
}

static void deadline_remove(struct elevator *e, struct elv_request *rq)
{
	take(e->queue, rq);
}

static void deadline_show(struct elevator *e, struct elv_text *out)
{
	struct deadline *d = e->queue;

	elv_printf(out, "batching %llu\nstarved %llu\nexpired %llu\n",
		   (unsigned long long)d->batching, (unsigned long long)d->starved,
		   (unsigned long long)d->expired);
}

static const char *deadline_check(struct elevator *e)
{
	struct deadline *d = e->queue;
	long n = 0;

	if (d->next[ELV_DIR_READ] && d->next[ELV_DIR_WRITE])
		return "deadline: a sweep in both directions";
	for (int dir = 0; dir < ELV_NUM_DIRS; dir++) {
		long len = fifo_check(&d->fifo[dir]), sorted = 0;
		bool found = !d->next[dir];

		if (len < 0 || !tree_check(&d->sort[dir]))
			return "deadline: a list or tree is out of order";
		for (struct tree_node *t = tree_first(&d->sort[dir]); t; t = tree_next(t)) {
			struct elv_request *rq = sort_entry(t);

			sorted++;
			found |= rq == d->next[dir];
			if (t->key != rq->run_offset)
				return "deadline: a run is sorted at a place where it is not";
		}
		if (sorted != len || !found)
			return "deadline: list, tree and sweep differ";
		n += len;
	}
	return n != (long)e->in_policy ? "deadline: the lists are not the queue" : NULL;
}

static const struct tunable deadline_rows[] = {
	{ .name = "read_expire", .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = INT32_MAX,
	  .dflt = 500, .offset = offsetof(struct deadline_params, read_expire),
	  .scope = SCOPE_POLICY, .when = WHEN_RUNTIME,
	  .help = "age at which a read is served at the next end of a batch",
	  .paragraph = "A soft deadline: it says when the sweep gives way, not when the read is "
		       "done." },
	{ .name = "write_expire", .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = INT32_MAX,
	  .dflt = 5000, .offset = offsetof(struct deadline_params, write_expire),
	  .scope = SCOPE_POLICY, .when = WHEN_RUNTIME,
	  .help = "age at which a write is served at the next end of a batch",
	  .paragraph = "Of writes only: reads go before them, see writes_starved." },
	{ .name = "writes_starved", .kind = TUNABLE_UINT, .min = 1, .max = INT32_MAX, .dflt = 2,
	  .offset = offsetof(struct deadline_params, writes_starved),
	  .scope = SCOPE_POLICY, .when = WHEN_RUNTIME,
	  .help = "batches of reads that may go before a batch of writes while writes wait",
	  .paragraph = "With 2, writers get a third of the batches however many reads there are." },
	{ .name = "fifo_batch", .kind = TUNABLE_UINT, .min = 0, .max = INT32_MAX, .dflt = 16,
	  .offset = offsetof(struct deadline_params, fifo_batch),
	  .scope = SCOPE_POLICY, .when = WHEN_RUNTIME,
	  .help = "requests in a batch: large for throughput, small for latency",
	  .paragraph = "On a rotating disk this is the knob that matters: a reader beside a "
		       "streaming writer waits about this many writes for each read." },
	{ .name = "front_merges", .kind = TUNABLE_BOOL, .max = 1, .dflt = 1,
	  .offset = offsetof(struct deadline_params, front_merges),
	  .scope = SCOPE_POLICY, .when = WHEN_RUNTIME,
	  .help = "merge a request that ends where a queued one begins",
	  .paragraph = "Rare; 0 saves the search. Requests are always merged behind queued ones, "
		       "unless nomerges says otherwise." },
	{ .name = NULL }
};

const struct elv_policy elv_deadline = {
	.name = "deadline",
	.help = "sorted sweeps, reads before writes, and nobody waits for ever",
	.rows = deadline_rows,
	.params_size = sizeof(struct deadline_params),
	.init_queue = deadline_init_queue,
	.exit_queue = deadline_exit_queue,
	.insert = deadline_insert,
	.dispatch = deadline_dispatch,
	.may_merge = deadline_may_merge,
	.merged = deadline_merged,
	.requeue = deadline_requeue,
	.remove = deadline_remove,
	.show = deadline_show,
	.check = deadline_check,
};
