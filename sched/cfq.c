/*
 * cfq: fair shares for clients, by start-time fair queueing.
 *
 * Each client has a tag: the virtual time up to which it has been served. The one with the smallest
 * tag goes next, and its tag grows by cost / weight (Goyal, Vin, Cheng: Start-time Fair Queueing,
 * 1996). Virtual time is the smallest tag of all that wait or are in flight (Min-SFQ(D) of Jin,
 * Chase, Kaur 2004); a client that comes back starts there at the earliest, so idleness earns
 * nothing. The cost is what the linear model says, or, where the disk rotates, the time it took.
 *
 * From CFQ (Linux 4.19 block/cfq-iosched.c) come the turns, the idling and the classes:
 *  - a turn is up to `quantum` requests of one client in a row. On a rotating disk, if its requests
 *    lie close together, it lasts slice_sync or slice_async instead, so that the disk does not seek
 *    all the time. Turns of writes end as soon as a reader that is behind wants the disk, and so do
 *    all turns where nothing rotates;
 *  - on a rotating disk, when a client's turn is not over but it has nothing queued, the disk waits
 *    for its next request, up to slice_idle: if the client is behind its share, because it would
 *    lose the share otherwise; else only if its requests lie close together, because a seek away
 *    and back would cost more. Not if it usually thinks for longer than that. The waiting is
 *    charged, but for a moment between requests that lie far apart;
 *  - within a client, sync requests (somebody waits for them) and async ones are two queues, which
 *    are served 5 : 2;
 *  - class rt goes first, but while class be wants the disk too it gets no more than 9 : 1, request
 *    by request, so 90 % of any second; class idle goes when nobody else wants to, and one request
 *    every 200 ms in any case.
 */
#include "sched/policy.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "sched/cfq.h"
#include "sched/cost.h"
#include "sched/elevator.h"
#include "sched/fifo.h"

#define MS 1000000ULL

enum {
	TAG_SCALE = 1 << 16,  /* tag units for a cost unit at weight 1 */
	ASYNC_SHARE = 2,      /* of async requests against ... */
	SYNC_SHARE = 5,       /* ... sync ones of a client; CFQ: slice_async 40, slice_sync 100 */
	BE_SHARE = 1,         /* of class be against ... */
	RT_SHARE = 9,         /* ... class rt, while both want the disk */
	EWMA = 8,
	MOMENT = 4,            /* this part of a request's time may pass until the next one */
	CLOSE_BYTES = 1 << 20, /* requests nearer than this to each other: no long seek */
};
static const uint64_t idle_interval = 200 * MS;

/*
 * Tags are set back when virtual time gets here, far from the end of 64 bits; it begins so close
 * that every longer test sees it happen.
 */
static const uint64_t vtime_limit = 1ULL << 62, vtime_start = (1ULL << 62) - (1ULL << 28);

enum kind { SYNC, ASYNC, NUM_KINDS };

/* One client's requests of one kind. */
struct cfq_kind {
	struct tree sort;
	struct elv_requests fifo;
	uint64_t tag; /* start-time fair queueing again, between the two kinds */
	uint64_t seek;     /* bytes between its requests, EWMA */
	uint64_t position; /* end of the last one */
};

struct cfq_client {
	struct tree_node node; /* in its class' tree, by tag, while it has requests */
	uint64_t tag;
	int64_t rest; /* of the last division by the weight: errors must not add up */
	enum elv_class io_class;
	struct cfq_kind kind[NUM_KINDS];
	uint64_t kind_vtime;
	unsigned queued;                   /* runs */
	unsigned in_flight, sync_in_flight; /* ios */

	/* What is known of its habits. */
	uint64_t last_sync_done; /* ns, 0: nothing to learn from */
	uint64_t think;          /* ns from a sync completion to the next sync request, EWMA */
	uint64_t mean_cost;      /* of its ios, measured, EWMA; 0: none yet */
};
_Static_assert(sizeof(struct cfq_client) <= sizeof(((struct elv_client *)0)->area),
	       "the client's area is too small for cfq");

struct cfq {
	const struct cfq_params *params;
	struct tree clients[ELV_NUM_CLASSES];
	bool sorted; /* requests are in trees by position, too: the disk rotates */
	struct elv_ios ios[ELV_NUM_CLASSES]; /* in flight, by the tag that their client had */
	uint64_t vtime[ELV_NUM_CLASSES];

	struct cfq_client *active; /* whose turn it is, with requests or without */
	uint64_t turn;             /* requests it has had in this turn */
	uint64_t turn_began;       /* ns */
	enum kind turn_kind;       /* of the last of them */
	bool fifo_checked;         /* in this turn */
	uint64_t waits_since;      /* ns: the disk waits for the active client; 0: it does not */

	uint64_t position;        /* bytes: where the last io ended */
	uint64_t last_completion; /* ns */
	unsigned in_flight[ELV_NUM_CLASSES];
	uint64_t rt_tag, be_tag;  /* start-time fair queueing once more, between the two classes */
	uint64_t class_vtime;
	uint64_t idle_served;     /* ns: when class idle last had a turn */
	uint64_t others_seen;     /* ns: when another class last had a request */
	uint64_t waits, hits;     /* idle windows opened; those in which the request came */
};

static struct cfq_client *client(struct elv_client *c)
{
	return (struct cfq_client *)c->area;
}

static struct elv_client *owner(struct cfq_client *cc)
{
	return tree_entry((uint64_t *)(void *)cc, struct elv_client, area);
}

static struct cfq_client *of(const struct elv_request *rq)
{
	return client(rq->conn->client);
}

static struct cfq_client *first_client(const struct cfq *q, enum elv_class io_class)
{
	struct tree_node *n = tree_first(&q->clients[io_class]);

	return n ? tree_entry(n, struct cfq_client, node) : NULL;
}

/* The kind of a run is fixed when it is inserted, in its head's area. */
static enum kind kind_of(const struct elv_request *rq)
{
	return (enum kind)rq->area[0];
}

static bool together(const struct elv_request *a, const struct elv_request *b)
{
	return a->conn->client == b->conn->client && kind_of(a) == kind_of(b);
}

/*
 * Does somebody wait for it? Reads and FUA, and a write of a client that has nothing else under
 * way: one at a time, each after the answer to the last, is how a database or O_SYNC writes.
 */
static enum kind classify(const struct elv_request *rq)
{
	const struct elv_client *c = rq->conn->client;

	if (elv_dir(rq->op) == ELV_DIR_READ)
		return SYNC;
	if (rq->op == ELV_WRITE && ((rq->flags & ELV_FUA) || c->queued + c->in_flight <= 1))
		return SYNC;
	return ASYNC;
}

/* Does the disk rotate, so that waiting pays and time is measured? */
static bool measured(const struct elevator *e)
{
	return e->rotational;
}

static int cfq_init_queue(struct elevator *e)
{
	extern const struct elv_policy elv_cfq;
	struct cfq *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->params = elv_policy_params(e, &elv_cfq);
	q->sorted = e->rotational;
	for (int i = 0; i < ELV_NUM_CLASSES; i++) {
		tree_init(&q->clients[i], NULL);
		TAILQ_INIT(&q->ios[i]);
		q->vtime[i] = vtime_start;
	}
	e->queue = q;
	return 0;
}

static void cfq_exit_queue(struct elevator *e)
{
	free(e->queue);
}

static void cfq_init_client(struct elevator *e, struct elv_client *c)
{
	struct cfq *q = e->queue;
	struct cfq_client *cc = client(c);

	cc->io_class = (enum elv_class)c->params.io_class;
	cc->tag = q->vtime[cc->io_class];
	for (int k = 0; k < NUM_KINDS; k++) {
		tree_init(&cc->kind[k].sort, NULL);
		TAILQ_INIT(&cc->kind[k].fifo);
	}
}

static void end_turn(struct cfq *q)
{
	q->active = NULL;
	q->waits_since = 0;
}

static void cfq_exit_client(struct elevator *e, struct elv_client *c)
{
	struct cfq *q = e->queue;

	if (q->active == client(c))
		end_turn(q);
}

/* --- tags --- */

static void raise_to(uint64_t *tag, uint64_t at_least)
{
	if (*tag < at_least)
		*tag = at_least;
}

static void advance(uint64_t *tag, int64_t delta)
{
	*tag = delta < 0 && (uint64_t)-delta > *tag ? 0 : *tag + (uint64_t)delta;
}

static uint64_t *class_tag(struct cfq *q, enum elv_class io_class)
{
	return io_class == ELV_CLASS_RT ? &q->rt_tag : &q->be_tag;
}

static void enqueue_client(struct cfq *q, struct cfq_client *cc)
{
	struct tree *t = &q->clients[cc->io_class];

	if (tree_empty(t) && cc->io_class != ELV_CLASS_IDLE)
		raise_to(class_tag(q, cc->io_class), q->class_vtime);
	raise_to(&cc->tag, q->vtime[cc->io_class]);
	tree_insert(t, &cc->node, cc->tag);
}

/* The client was served, or is refunded, this many cost units. */
static void charge(struct cfq *q, struct cfq_client *cc, int64_t cost)
{
	int64_t weight = (int64_t)owner(cc)->params.weight, sum = cost * TAG_SCALE + cc->rest;

	advance(&cc->tag, sum / weight);
	cc->rest = sum % weight;
	if (cc->io_class == ELV_CLASS_RT)
		advance(&q->rt_tag, cost * BE_SHARE);
	else if (cc->io_class == ELV_CLASS_BE)
		advance(&q->be_tag, cost * RT_SHARE);
	if (tree_linked(&cc->node)) {
		tree_remove(&q->clients[cc->io_class], &cc->node);
		tree_insert(&q->clients[cc->io_class], &cc->node, cc->tag);
	}
}

static enum kind kind_of_io(const struct elv_io *io)
{
	return (enum kind)(io->kind & 1);
}

/* Its client's when it was dispatched. */
static enum elv_class class_of(const struct elv_io *io)
{
	return (enum elv_class)(io->kind >> 1);
}

/*
 * Virtual time: the smallest tag of all that wait or are in flight. With the waiting alone, a
 * reader that asks for one block after the other would lose to those who fill the disk's queue what
 * it had coming, each time it comes back.
 */
static void tick(struct cfq *q, enum elv_class io_class)
{
	const struct cfq_client *first = first_client(q, io_class);
	const struct elv_io *io = TAILQ_FIRST(&q->ios[io_class]);
	uint64_t least = first ? first->tag : UINT64_MAX;

	if (io && io->tag < least)
		least = io->tag;
	if (least != UINT64_MAX)
		raise_to(&q->vtime[io_class], least);
}

/* Keep them in order; tags grow, so the place is near the end. */
static void note_in_flight(struct cfq *q, struct elv_io *io, enum elv_class io_class)
{
	struct elv_io *at = TAILQ_LAST(&q->ios[io_class], elv_ios);

	for (; at && at->tag > io->tag; at = TAILQ_PREV(at, elv_ios, order))
		sched_steps++;
	if (at)
		TAILQ_INSERT_AFTER(&q->ios[io_class], at, io, order);
	else
		TAILQ_INSERT_HEAD(&q->ios[io_class], io, order);
	tick(q, io_class);
}

/*
 * Set back all tags of a class by its virtual time; their order stays. O(clients), once in weeks.
 */
static void set_back(struct elevator *e, enum elv_class io_class)
{
	struct cfq *q = e->queue;
	struct elv_client *c;
	struct elv_io *io;

	TAILQ_FOREACH(c, &e->clients, link) {
		struct cfq_client *cc = client(c);

		if (cc->io_class != io_class)
			continue;
		advance(&cc->tag, -(int64_t)q->vtime[io_class]);
		cc->node.key = cc->tag;
	}
	TAILQ_FOREACH(io, &q->ios[io_class], order)
		advance(&io->tag, -(int64_t)q->vtime[io_class]);
	q->vtime[io_class] = 0;
}

static void cfq_charge(struct elevator *e, struct elv_client *c, uint64_t ns, uint64_t now)
{
	(void)now;
	charge(e->queue, client(c), (int64_t)elv_cost_of_time(ns));
}

/* --- habits --- */

static uint64_t ewma(uint64_t mean, uint64_t sample)
{
	return mean - mean / EWMA + sample / EWMA;
}

/*
 * A request of cc came: how far did it move? If somebody waits for it: how long did they think? The
 * rest of one is nothing new.
 */
static void learn(const struct cfq *q, struct cfq_client *cc, const struct elv_request *rq)
{
	uint64_t most = 2 * q->params->slice_idle, gap, far;
	struct cfq_kind *k = &cc->kind[kind_of(rq)];

	if (rq->sliced)
		return;
	far = rq->offset > k->position ? rq->offset - k->position : k->position - rq->offset;
	if (far > 64 * CLOSE_BYTES)
		far = 64 * CLOSE_BYTES; /* one jump must not spoil the mean for long */
	k->seek = ewma(k->seek, far);
	k->position = rq->offset + rq->length;
	if (kind_of(rq) != SYNC || !cc->last_sync_done)
		return;
	gap = rq->arrival > cc->last_sync_done ? rq->arrival - cc->last_sync_done : 0;
	cc->think = ewma(cc->think, gap < most ? gap : most);
	cc->last_sync_done = 0;
}

/* Do the requests of the active client's turn lie so far apart that a long turn saves nothing? */
static bool is_seeky(const struct cfq *q)
{
	return q->active->kind[q->turn_kind].seek > CLOSE_BYTES;
}

/*
 * Has the disk waited for the active client, in vain or not? The time is the client's. But where
 * each request takes its seek, the moment until the next one is not, if that came: of two readers
 * with unequal weights only the heavier one is waited for, and would get too little.
 */
static void stop_waiting(struct cfq *q, uint64_t now, bool came)
{
	uint64_t cost, moment;

	if (!q->active || !q->waits_since)
		return;
	cost = elv_cost_of_time(now - q->waits_since);
	moment = came && is_seeky(q) ? q->active->mean_cost / MOMENT : 0;
	if (cost > moment)
		charge(q, q->active, (int64_t)(cost - moment));
	q->waits_since = 0;
}

/* --- the queue --- */

static void add(struct elevator *e, struct elv_request *rq)
{
	struct cfq *q = e->queue;
	struct cfq_client *cc = of(rq);
	struct cfq_kind *k = &cc->kind[kind_of(rq)];

	if (TAILQ_EMPTY(&k->fifo) && k->tag < cc->kind_vtime)
		k->tag = cc->kind_vtime;
	if (q->sorted)
		tree_insert(&k->sort, &rq->sort, rq->run_offset);
	fifo_insert(&k->fifo, rq, together);
	if (cc->queued++ == 0)
		enqueue_client(q, cc);
}

static void take(struct cfq *q, struct elv_request *rq)
{
	struct cfq_client *cc = of(rq);
	struct cfq_kind *k = &cc->kind[kind_of(rq)];

	if (q->sorted)
		tree_remove(&k->sort, &rq->sort);
	fifo_remove(&k->fifo, rq);
	if (--cc->queued == 0)
		tree_remove(&q->clients[cc->io_class], &cc->node);
}

static void cfq_insert(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	struct cfq *q = e->queue;
	struct cfq_client *cc = of(rq);

	rq->area[0] = classify(rq);
	learn(q, cc, rq);
	if (q->active == cc) {
		q->hits += q->waits_since != 0;
		stop_waiting(q, now, true);
	}
	if (cc->io_class != ELV_CLASS_IDLE)
		q->others_seen = now;
	add(e, rq);
}

static void cfq_requeue(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	(void)now;
	add(e, rq);
}

static void cfq_remove(struct elevator *e, struct elv_request *rq)
{
	take(e->queue, rq);
}

static void cfq_merged(struct elevator *e, struct elv_request *head, struct elv_request *absorbed)
{
	struct cfq *q = e->queue;
	struct cfq_kind *k = &of(head)->kind[kind_of(head)];

	if (absorbed && kind_of(absorbed) != kind_of(head)) {
		take(q, absorbed);
		absorbed = NULL;
	}
	fifo_merged(&k->fifo, head, absorbed, together);
	if (q->sorted)
		sort_merged(&k->sort, head, absorbed);
	if (absorbed)
		of(head)->queued--; /* head is still there, so this is not the last */
}

/* --- the choice --- */

/* Bytes that the head would move, backwards counting more; UINT64_MAX: too far back. */
static uint64_t distance(const struct cfq *q, const struct elv_request *rq)
{
	uint64_t back;

	if (rq->run_offset >= q->position)
		return rq->run_offset - q->position;
	back = q->position - rq->run_offset;
	return back <= q->params->back_seek_max ? back * q->params->back_seek_penalty : UINT64_MAX;
}

/* The nearest request: ahead, or a little behind; else the lowest (one-way sweep). */
static struct elv_request *nearest(const struct cfq *q, struct cfq_kind *k)
{
	struct tree_node *ahead = tree_lower_bound(&k->sort, q->position);
	struct tree_node *behind = ahead ? tree_prev(ahead) : NULL;

	if (!ahead) {
		behind = tree_last(&k->sort);
		if (behind && distance(q, sort_entry(behind)) == UINT64_MAX)
			behind = tree_first(&k->sort);
		return sort_entry(behind);
	}
	if (behind && distance(q, sort_entry(behind)) < distance(q, sort_entry(ahead)))
		return sort_entry(behind);
	return sort_entry(ahead);
}

static struct elv_request *pick_request(struct elevator *e, struct cfq_client *cc, uint64_t now)
{
	struct cfq *q = e->queue;
	struct cfq_kind *s = &cc->kind[SYNC], *a = &cc->kind[ASYNC], *k;
	struct elv_request *oldest;
	uint64_t expire;

	if (TAILQ_EMPTY(&s->fifo) || (!TAILQ_EMPTY(&a->fifo) && a->tag < s->tag))
		k = a;
	else
		k = s;
	cc->kind_vtime = k->tag;
	q->turn_kind = k == s ? SYNC : ASYNC;
	oldest = TAILQ_FIRST(&k->fifo);
	if (!q->sorted)
		return oldest;
	expire = k == s ? q->params->fifo_expire_sync : q->params->fifo_expire_async;
	if (!q->fifo_checked && now - oldest->run_arrival >= expire) {
		q->fifo_checked = true; /* once a turn, or all of a full queue would go by age */
		return oldest;
	}
	return nearest(q, k);
}

/* Has the active client had its turn? */
static bool turn_is_over(const struct elevator *e, const struct cfq *q, uint64_t now)
{
	if (!measured(e) || is_seeky(q))
		return q->turn >= q->params->quantum;
	return now - q->turn_began >= (q->turn_kind == SYNC ? q->params->slice_sync
							    : q->params->slice_async);
}

/* Would cc be chosen now, if it had a request? */
static bool is_behind(const struct cfq *q, const struct cfq_client *cc)
{
	struct cfq_client *first = first_client(q, cc->io_class);

	return !first || first == cc || cc->tag <= first->tag;
}

/* Has the active client nothing queued, and is it worth waiting for its next request? */
static bool worth_waiting(const struct elevator *e, const struct cfq *q, struct cfq_client *cc,
			  uint64_t now)
{
	if (cc->queued || !measured(e) || !q->params->slice_idle ||
	    cc->io_class == ELV_CLASS_IDLE || !owner(cc)->conns || q->turn_kind != SYNC ||
	    cc->think > q->params->slice_idle)
		return false;
	if (!is_behind(q, cc) && (is_seeky(q) || turn_is_over(e, q, now)))
		return false;
	return cc->sync_in_flight || now < cc->last_sync_done + q->params->slice_idle;
}

/* Is another client behind, and its want more pressing than the rest of this turn? */
static bool is_preempted(const struct elevator *e, const struct cfq *q, const struct cfq_client *cc)
{
	struct cfq_client *first = first_client(q, cc->io_class);

	return first && first != cc && first->tag < cc->tag &&
	       !TAILQ_EMPTY(&first->kind[SYNC].fifo) &&
	       (q->turn_kind == ASYNC || !e->rotational);
}

/* Does somebody of this class want the disk: with requests, or because it is waited for? */
static bool is_wanted(const struct elevator *e, const struct cfq *q, enum elv_class io_class,
		      uint64_t now)
{
	struct cfq_client *cc = q->active;

	return !tree_empty(&q->clients[io_class]) ||
	       (cc && cc->io_class == io_class && worth_waiting(e, q, cc, now));
}

/* Have the other classes left the disk to class idle for a while? */
static bool is_alone(const struct cfq *q, uint64_t now)
{
	return now >= q->others_seen + idle_interval;
}

/*
 * Which class goes now; ELV_NUM_CLASSES: none, before *at. Class idle has one request in flight
 * while the others are only silent for a moment, and the whole disk when they are gone.
 */
static enum elv_class choose_class(const struct elevator *e, struct cfq *q, uint64_t now,
				   uint64_t *at)
{
	bool rt = is_wanted(e, q, ELV_CLASS_RT, now), be = is_wanted(e, q, ELV_CLASS_BE, now);
	bool idle = !tree_empty(&q->clients[ELV_CLASS_IDLE]);

	if (idle && now >= q->idle_served + idle_interval)
		return ELV_CLASS_IDLE;
	if (rt && (!be || q->rt_tag <= q->be_tag))
		return ELV_CLASS_RT;
	if (be)
		return ELV_CLASS_BE;
	if (!q->in_flight[ELV_CLASS_RT] && !q->in_flight[ELV_CLASS_BE] &&
	    (!q->in_flight[ELV_CLASS_IDLE] || is_alone(q, now)))
		return ELV_CLASS_IDLE;
	*at = q->idle_served + idle_interval;
	if (!is_alone(q, now) && q->others_seen + idle_interval < *at)
		*at = q->others_seen + idle_interval;
	return ELV_NUM_CLASSES;
}

static void begin_turn(struct cfq *q, struct cfq_client *cc, uint64_t now)
{
	q->active = cc;
	q->turn = 0;
	q->turn_began = now;
	q->fifo_checked = false;
}

/*
 * The client whose turn it is. NULL: the disk waits for it, until *at or a completion (ELV_NEVER).
 */
static struct cfq_client *choose_client(struct elevator *e, enum elv_class io_class, uint64_t now,
					uint64_t *at)
{
	struct cfq *q = e->queue;
	struct cfq_client *cc = q->active;

	if (cc && cc->io_class == io_class) {
		if (cc->queued && !turn_is_over(e, q, now) && !is_preempted(e, q, cc))
			return cc;
		if (worth_waiting(e, q, cc, now)) {
			if (!q->waits_since && !cc->sync_in_flight) {
				q->waits_since = now;
				q->waits++;
			}
			*at = cc->sync_in_flight ? ELV_NEVER
						 : cc->last_sync_done + q->params->slice_idle;
			return NULL;
		}
	}
	stop_waiting(q, now, false);
	cc = first_client(q, io_class);
	begin_turn(q, cc, now);
	return cc;
}

static enum elv_verdict cfq_dispatch(struct elevator *e, uint64_t now, struct elv_request **rq,
				     uint64_t *at)
{
	struct cfq *q = e->queue;
	enum elv_class io_class = choose_class(e, q, now, at);
	struct cfq_client *cc;

	if (io_class == ELV_NUM_CLASSES)
		return ELV_ASK_AT;
	cc = choose_client(e, io_class, now, at);
	if (!cc)
		return *at == ELV_NEVER ? ELV_NOTHING : ELV_ASK_AT;
	*rq = pick_request(e, cc, now);
	if (io_class != ELV_CLASS_IDLE)
		raise_to(&q->class_vtime, *class_tag(q, io_class));
	q->turn++;
	if (io_class == ELV_CLASS_IDLE) {
		q->idle_served = now;
		if (!is_alone(q, now))
			end_turn(q); /* of one request */
	}
	take(q, *rq);
	return ELV_DISPATCH;
}

static void cfq_dispatched(struct elevator *e, struct elv_io *io, uint64_t now)
{
	struct cfq *q = e->queue;
	struct cfq_client *cc = client(io->client);
	struct elv_request *rq = io->slice_of ? io->slice_of : TAILQ_FIRST(&io->parts);
	enum kind kind = kind_of(rq->head);

	(void)now;
	q->in_flight[cc->io_class]++;
	cc->in_flight++;
	if (kind == SYNC)
		cc->sync_in_flight++;
	io->kind = (unsigned)kind | (unsigned)cc->io_class << 1;
	q->position = io->offset + io->length;
	io->tag = cc->tag;
	note_in_flight(q, io, cc->io_class);
	io->charged = measured(e) && cc->mean_cost ? cc->mean_cost : io->cost;
	charge(q, cc, (int64_t)io->charged);
	cc->kind[kind].tag += io->charged * (kind == SYNC ? ASYNC_SHARE : SYNC_SHARE);
}

static void cfq_completed(struct elevator *e, struct elv_io *io, uint64_t now)
{
	struct cfq *q = e->queue;
	struct cfq_client *cc = client(io->client);

	if (cc->io_class != ELV_CLASS_IDLE)
		q->others_seen = now;
	q->in_flight[cc->io_class]--;
	cc->in_flight--;
	tick(q, class_of(io));
	TAILQ_REMOVE(&q->ios[class_of(io)], io, order);
	if (q->vtime[class_of(io)] >= vtime_limit)
		set_back(e, class_of(io));
	if (kind_of_io(io) == SYNC) {
		cc->sync_in_flight--;
		cc->last_sync_done = now;
	}
	if (measured(e)) {
		/*
		 * With several in flight the disk's time is cut at each completion, not counted
		 * twice.
		 */
		uint64_t from = io->dispatched > q->last_completion ? io->dispatched
								     : q->last_completion;
		uint64_t cost = elv_cost_of_time(now - from);

		charge(q, cc, (int64_t)cost - (int64_t)io->charged);
		cc->mean_cost = cc->mean_cost ? ewma(cc->mean_cost, cost) : cost;
	}
	q->last_completion = now;
}

static void cfq_param_changed(struct elevator *e, uint64_t now)
{
	struct cfq *q = e->queue;
	struct elv_client *c;

	(void)now;
	TAILQ_FOREACH(c, &e->clients, link) {
		struct cfq_client *cc = client(c);
		enum elv_class to = (enum elv_class)c->params.io_class;

		if (cc->io_class == to)
			continue;
		if (q->active == cc)
			end_turn(q);
		if (cc->queued)
			tree_remove(&q->clients[cc->io_class], &cc->node);
		q->in_flight[cc->io_class] -= cc->in_flight;
		q->in_flight[to] += cc->in_flight;
		cc->io_class = to;
		cc->tag = q->vtime[to]; /* another class, another virtual time */
		if (cc->queued)
			enqueue_client(q, cc);
	}
}

static void cfq_show(struct elevator *e, struct elv_text *out)
{
	struct cfq *q = e->queue;

	elv_printf(out, "active %llu\nturn %llu\nwaits %llu\nhits %llu\n",
		   q->active ? (unsigned long long)owner(q->active)->identity : 0ULL,
		   (unsigned long long)q->turn, (unsigned long long)q->waits,
		   (unsigned long long)q->hits);
}

static const char *check_client(struct cfq *q, struct elv_client *c, long *total)
{
	struct cfq_client *cc = client(c);
	long n = 0;

	for (int i = 0; i < NUM_KINDS; i++) {
		struct cfq_kind *k = &cc->kind[i];
		long len = fifo_check(&k->fifo), sorted = 0;

		if (len < 0 || !tree_check(&k->sort))
			return "cfq: a list or tree is out of order";
		for (struct tree_node *t = tree_first(&k->sort); t; t = tree_next(t), sorted++) {
			struct elv_request *rq = sort_entry(t);

			if (t->key != rq->run_offset || of(rq) != cc || kind_of(rq) != (enum kind)i)
				return "cfq: a run is where it does not belong";
		}
		if (sorted != (q->sorted ? len : 0))
			return "cfq: list and tree differ";
		n += len;
	}
	if (n != (long)cc->queued || tree_linked(&cc->node) != (n > 0))
		return "cfq: a client is miscounted";
	if (tree_linked(&cc->node) && cc->node.key != cc->tag)
		return "cfq: a client stands at a wrong tag";
	*total += n;
	return NULL;
}

static const char *cfq_check(struct elevator *e)
{
	struct cfq *q = e->queue;
	struct elv_client *c;
	long n = 0;

	for (int i = 0; i < ELV_NUM_CLASSES; i++)
		if (!tree_check(&q->clients[i]))
			return "cfq: the clients are out of order";
	TAILQ_FOREACH(c, &e->clients, link) {
		const char *wrong = check_client(q, c, &n);

		if (wrong)
			return wrong;
	}
	return n != (long)e->in_policy ? "cfq: the clients' runs are not the queue" : NULL;
}

const struct elv_policy elv_cfq = {
	.name = "cfq",
	.help = "equal or weighted shares for clients, however greedy",
	.per_client = true,
	.rows = cfq_rows,
	.params_size = sizeof(struct cfq_params),
	.init_queue = cfq_init_queue,
	.exit_queue = cfq_exit_queue,
	.init_client = cfq_init_client,
	.exit_client = cfq_exit_client,
	.insert = cfq_insert,
	.dispatch = cfq_dispatch,
	.merged = cfq_merged,
	.requeue = cfq_requeue,
	.remove = cfq_remove,
	.dispatched = cfq_dispatched,
	.completed = cfq_completed,
	.charge = cfq_charge,
	.param_changed = cfq_param_changed,
	.show = cfq_show,
	.check = cfq_check,
};
