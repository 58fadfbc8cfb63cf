/*
 * noop: first come, first served, with merges. Everybody waits their turn and nobody starves.
 *
 * The right choice where something below reorders anyway, and the yardstick for all others.
 */
#include "sched/policy.h"

#include <errno.h>
#include <stdlib.h>

#include "sched/elevator.h"
#include "sched/fifo.h"

struct noop {
	struct elv_requests fifo;
};

static bool together(const struct elv_request *a, const struct elv_request *b)
{
	(void)a;
	(void)b;
	return true;
}

static int noop_init_queue(struct elevator *e)
{
	struct noop *n = malloc(sizeof(*n));

	if (!n)
		return -ENOMEM;
	TAILQ_INIT(&n->fifo);
	e->queue = n;
	return 0;
}

static void noop_exit_queue(struct elevator *e)
{
	free(e->queue);
}

static void noop_insert(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	struct noop *n = e->queue;

	(void)now;
	fifo_insert(&n->fifo, rq, together);
}

static enum elv_verdict noop_dispatch(struct elevator *e, uint64_t now, struct elv_request **rq,
				      uint64_t *at)
{
	struct noop *n = e->queue;

	(void)now;
	(void)at;
	*rq = TAILQ_FIRST(&n->fifo);
	if (!*rq)
		return ELV_NOTHING;
	fifo_remove(&n->fifo, *rq);
	return ELV_DISPATCH;
}

static void noop_merged(struct elevator *e, struct elv_request *head, struct elv_request *absorbed)
{
	struct noop *n = e->queue;

	fifo_merged(&n->fifo, head, absorbed, together);
}

static void noop_remove(struct elevator *e, struct elv_request *rq)
{
	struct noop *n = e->queue;

	TAILQ_REMOVE(&n->fifo, rq, fifo_link);
}

static void noop_show(struct elevator *e, struct elv_text *out)
{
	struct noop *n = e->queue;
	struct elv_request *rq = TAILQ_FIRST(&n->fifo);

	if (rq)
		elv_printf(out, "next_offset %llu\n", (unsigned long long)rq->run_offset);
}

static const char *noop_check(struct elevator *e)
{
	struct noop *n = e->queue;

	return fifo_check(&n->fifo) == (long)e->in_policy ? NULL : "noop: not the queue";
}

static const struct tunable noop_rows[] = { { .name = NULL } };

const struct elv_policy elv_noop = {
	.name = "noop",
	.help = "first come, first served, with merging",
	.rows = noop_rows,
	.params_size = sizeof(uint64_t),
	.init_queue = noop_init_queue,
	.exit_queue = noop_exit_queue,
	.insert = noop_insert,
	.dispatch = noop_dispatch,
	.merged = noop_merged,
	.requeue = noop_insert, /* its place by arrival is the front */
	.remove = noop_remove,
	.show = noop_show,
	.check = noop_check,
};
