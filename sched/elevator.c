/*
 * The elevator: life of its objects, the wrappers around its policy, and the states of a request
 * up to the moment it goes to a policy or leaves. Dispatch and completion are in dispatch.c.
 *
 *            insert                      dispatch                    complete
 *   IDLE ──┬────────> QUEUED (policy) ───────────> DISPATCHED ──┬──────────────> IDLE
 *          │            │  ^      ^                     │        │ FUA            ^
 *          │            v  │      └─── rest of a ───────┘        v                │
 *          ├────────> HELD ┘           sliced one           SYNC_WAITS ─> SYNCING ┤
 *          └─ FLUSH ───────────────────────────────────────────^                  │
 *             withdrawn: from QUEUED, HELD, SYNC_WAITS ───────────────────────────┘
 */
#include "sched/elevator.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/core.h"

/* --- wrappers: nobody else calls the policy's functions of a request's life --- */

static void count_run(struct elevator *e, const struct elv_request *head, int delta)
{
	assert(delta > 0 || e->in_policy > 0);
	e->in_policy += (unsigned)delta;
	if (elv_is_discard(head->op))
		elv_client_of(head)->discards_queued += (unsigned)delta;
	if (delta > 0)
		e->disk->news = true;
	elv_disk_update(e);
}

void elv_policy_insert(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	assert(rq->head == rq && rq->state != ELV_QUEUED);
	rq->state = ELV_QUEUED;
	e->policy->insert(e, rq, now);
	count_run(e, rq, 1);
}

void elv_policy_requeue(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	assert(rq->head == rq && rq->state == ELV_QUEUED);
	e->policy->requeue(e, rq, now);
	count_run(e, rq, 1);
}

void elv_policy_remove(struct elevator *e, struct elv_request *head)
{
	assert(head->head == head && head->state == ELV_QUEUED);
	if (e->last_merge == head)
		e->last_merge = NULL;
	e->policy->remove(e, head);
	count_run(e, head, -1);
}

void elv_policy_merged(struct elevator *e, struct elv_request *head, struct elv_request *absorbed)
{
	e->policy->merged(e, head, absorbed);
	if (absorbed) {
		if (e->last_merge == absorbed)
			e->last_merge = NULL;
		count_run(e, absorbed, -1);
	}
}

enum elv_verdict elv_policy_dispatch(struct elevator *e, uint64_t now, struct elv_request **rq,
				     uint64_t *at)
{
	enum elv_verdict v;

	if (!e->in_policy)
		return ELV_NOTHING;
	*rq = NULL;
	*at = ELV_NEVER;
	v = e->policy->dispatch(e, now, rq, at);
	switch (v) {
	case ELV_DISPATCH:
		assert(*rq && (*rq)->head == *rq && (*rq)->state == ELV_QUEUED);
		if (e->last_merge == *rq)
			e->last_merge = NULL;
		count_run(e, *rq, -1);
		break;
	case ELV_NOTHING:
		assert(e->in_flight); /* else nobody would ever ask again */
		break;
	case ELV_ASK_AT:
		assert(*at > now && *at != ELV_NEVER);
		break;
	}
	return v;
}

/* --- a request on its way to the policy --- */

void elv_hold(struct elv_request *rq, struct elv_request *blocker)
{
	assert((rq != blocker || rq->in_flight) && rq->nparts == 1);
	rq->state = ELV_HELD;
	rq->held_by = blocker;
	TAILQ_INSERT_TAIL(&blocker->waiters, rq, wait_link);
	elv_of(rq)->held++;
}

void elv_hold_discard(struct elv_request *rq, bool front)
{
	struct elv_client *c = elv_client_of(rq);
	struct elv_request *at = TAILQ_LAST(&c->discards, elv_requests);

	assert(rq->nparts == 1);
	rq->state = ELV_HELD;
	rq->held_by = NULL;
	if (!at)
		TAILQ_INSERT_TAIL(&c->elv->store->discard_clients, c, discard_link);
	if (front)
		at = NULL;
	while (at && at->seq > rq->seq)
		at = TAILQ_PREV(at, elv_requests, wait_link);
	if (at)
		TAILQ_INSERT_AFTER(&c->discards, at, rq, wait_link);
	else
		TAILQ_INSERT_HEAD(&c->discards, rq, wait_link);
	c->elv->held++;
}

/* Take a held request out of the list it waits in. */
void elv_unhold(struct elv_request *rq)
{
	struct elv_client *c = elv_client_of(rq);

	assert(rq->state == ELV_HELD);
	if (rq->held_by) {
		TAILQ_REMOVE(&rq->held_by->waiters, rq, wait_link);
		rq->held_by = NULL;
	} else {
		TAILQ_REMOVE(&c->discards, rq, wait_link);
		if (TAILQ_EMPTY(&c->discards))
			TAILQ_REMOVE(&c->elv->store->discard_clients, c, discard_link);
	}
	c->elv->held--;
	rq->state = ELV_IDLE;
}

/* The client has the same right to run either, and cannot run the second before the first. */
static bool are_alike(const struct elv_request *a, const struct elv_request *b)
{
	return elv_modifies(a->op) && elv_modifies(b->op) && elv_client_of(a) == elv_client_of(b);
}

/* What must end or move before rq can. */
static struct elv_request *root_of(struct elv_request *rq)
{
	while (rq->state == ELV_HELD && rq->held_by && rq->held_by != rq)
		rq = rq->held_by;
	return rq;
}

/*
 * What rq has to wait for and cannot pull forward: something in flight, or one that waits itself,
 * for the discard slot. Or, for many of its own client's cannot go before the first, the last of
 * them. NULL: nothing, or it goes in rq's place when the policy picks rq.
 */
static struct elv_request *waits_for(struct elv_request *rq)
{
	struct elv_store *store = elv_of(rq)->store;
	struct elv_span *s = elv_index_last_blocker(store, rq);
	enum elv_state root;

	rq->maybe_blocked = s != NULL;
	if (!s || (!s->in_flight && s->rq->state != ELV_HELD))
		return NULL;
	if (s->in_flight || elv_client_of(s->rq) == elv_client_of(rq))
		return s->rq;
	s = elv_index_blocker(store, rq, rq->offset, rq->length, NULL);
	root = s->in_flight ? ELV_DISPATCHED : root_of(s->rq)->state;
	return root == ELV_HELD || root == ELV_DISPATCHED ? s->rq : NULL;
}

/*
 * One that has to wait goes to the policy all the same, if what it waits for is there: when the
 * policy picks it, the other one goes in its place. But behind one of its own client's it stays
 * outside: it could not change the choice, and of thousands that write to one block, as many as
 * there are clients are enough to look at each time one of them is done.
 */
static bool admit_one(struct elv_request *rq, uint64_t now)
{
	struct elevator *e = elv_of(rq);

	if (rq->maybe_blocked && !rq->sliced) {
		struct elv_request *blocker = waits_for(rq);

		if (blocker) {
			elv_hold(rq, blocker);
			return false;
		}
	}
	if (elv_is_discard(rq->op) && e->store->discarding) {
		elv_hold_discard(rq, false);
		return false;
	}
	if (elv_merge(e, rq))
		return true;
	if (rq->maybe_blocked && !rq->leads && !rq->sliced) {
		struct elv_span *s = elv_index_last_alike(e->store, rq);

		if (s) {
			elv_hold(rq, s->rq);
			return false;
		}
		rq->leads = true; /* older ones do not come any more */
	}
	elv_policy_insert(e, rq, now);
	e->last_merge = rq;
	return true;
}

/*
 * Have the waiters of rq tried again. If rq is not done, nor a part of it, but only offered to the
 * policy: not those that are alike; and if rq has to wait for others itself, one of its own
 * client's is enough to pull it forward.
 */
static void take_waiters(struct elv_request *rq, bool done, struct elv_requests *out)
{
	struct elv_request *w, *next;
	bool enough = false;

	for (w = TAILQ_FIRST(&rq->waiters); w; w = next) {
		bool own = elv_client_of(w) == elv_client_of(rq);

		next = TAILQ_NEXT(w, wait_link);
		if (!done && own && (are_alike(rq, w) || enough))
			continue;
		enough |= own && rq->maybe_blocked;
		elv_unhold(w);
		TAILQ_INSERT_TAIL(out, w, wait_link);
	}
}

/*
 * Those that wait for one that goes to its policy may be offered too: then it goes in their place.
 */
static void admit_all(struct elv_requests *todo, uint64_t now)
{
	struct elv_request *rq;

	while ((rq = TAILQ_FIRST(todo))) {
		TAILQ_REMOVE(todo, rq, wait_link);
		if (admit_one(rq, now))
			take_waiters(rq, false, todo);
	}
}

void elv_admit(struct elevator *e, struct elv_request *rq, uint64_t now)
{
	struct elv_requests todo;

	assert(elv_of(rq) == e);
	(void)e;
	TAILQ_INIT(&todo);
	TAILQ_INSERT_TAIL(&todo, rq, wait_link);
	admit_all(&todo, now);
}

void elv_release_waiters(struct elv_request *rq, uint64_t now)
{
	struct elv_requests todo;

	TAILQ_INIT(&todo);
	take_waiters(rq, true, &todo);
	admit_all(&todo, now);
}

static bool goes_on(const struct elv_request *last, const struct elv_request *rq)
{
	return last && rq->op == last->op && rq->offset == last->offset + last->length;
}

/*
 * One request of each client, and what merges with it, goes back to its policy, which then chooses;
 * those that it does not choose come back here. To release all of them would be work without bound.
 * If a client's cannot go, because others are in its way, it is the turn of the client's next one.
 */
void elv_offer_discards(struct elv_store *s, uint64_t now)
{
	struct elv_client *c, *next;

	if (s->discarding)
		return;
	for (c = TAILQ_FIRST(&s->discard_clients); c; c = next) {
		struct elv_request *rq, *last = NULL;

		next = TAILQ_NEXT(c, discard_link);
		while ((rq = TAILQ_FIRST(&c->discards)) &&
		       (!c->discards_queued || goes_on(last, rq))) {
			elv_unhold(rq);
			elv_admit(c->elv, rq, now);
			last = rq;
		}
	}
}

void elv_insert(struct elv_request *rq, uint64_t now)
{
	struct elv_conn *conn = rq->conn;
	struct elv_client *c = conn->client;
	struct elevator *e = c->elv;

	assert(conn->open);
	assert(rq->op == ELV_FLUSH || rq->length > 0);
	rq->error = 0;
	rq->withdrawn = rq->maybe_blocked = rq->leads = rq->sliced = rq->synced = false;
	rq->arrival = rq->age_from = now;
	rq->first_dispatch = 0;
	rq->seq = e->store->seq++;
	rq->in_flight = 0;
	rq->state = ELV_IDLE;
	rq->span.node.linked = rq->sort.linked = false;
	rq->held_by = NULL;
	TAILQ_INIT(&rq->rest);
	TAILQ_INIT(&rq->waiters);
	elv_run_init(rq);
	TAILQ_INSERT_TAIL(&conn->requests, rq, conn_link);
	conn->unfinished++;
	c->stats.requests[rq->op]++;
	if (rq->op == ELV_FLUSH) {
		c->in_flight++;
		elv_sync_request(e->store, rq);
		return;
	}
	if (rq->op == ELV_READ || rq->op == ELV_WRITE)
		c->stats.bytes[elv_dir(rq->op)] += rq->length;
	c->queued++;
	e->queued++;
	TAILQ_INSERT_TAIL(&e->by_age, rq, age_link);
	rq->maybe_blocked = elv_index_last_blocker(e->store, rq) != NULL;
	elv_index_add(e->store, &rq->span, rq, rq->offset, rq->length, false);
	elv_admit(e, rq, now);
}

/* --- a request on its way out --- */

void elv_unqueue(struct elv_request *rq)
{
	struct elv_client *c = elv_client_of(rq);

	TAILQ_REMOVE(&c->elv->by_age, rq, age_link);
	c->elv->queued--;
	c->queued--;
	c->in_flight++;
}

void elv_finish(struct elv_request *rq, uint64_t now, struct elv_requests *done)
{
	struct elv_conn *conn = rq->conn;
	struct elv_client *c = conn->client;
	struct elv_stats *st = &c->stats;
	bool makes_durable = rq->op == ELV_FLUSH || (elv_modifies(rq->op) && (rq->flags & ELV_FUA));

	assert(!rq->in_flight && !tree_linked(&rq->span.node) && TAILQ_EMPTY(&rq->rest));
	if (makes_durable && conn->open && !rq->error)
		rq->error = elv_sync_answer(conn);
	rq->state = ELV_IDLE;
	c->in_flight--;
	conn->unfinished--;
	TAILQ_REMOVE(&conn->requests, rq, conn_link);
	if (!conn->open) {
		st->withdrawn++; /* nobody is answered, whether it was executed or not */
	} else {
		st->answered++;
		st->errors += rq->error != 0;
		if (rq->first_dispatch) {
			histogram_add(&st->queue, rq->first_dispatch - rq->arrival);
			histogram_add(&st->service, now - rq->first_dispatch);
		}
		histogram_add(&st->total[elv_dir(rq->op)], now - rq->arrival);
	}
	elv_release_waiters(rq, now);
	TAILQ_INSERT_TAIL(done, rq, link);
}

/* --- connections --- */

void elv_conn_open(struct elv_conn *conn, struct elv_client *c)
{
	*conn = (struct elv_conn){ .client = c, .open = true };
	TAILQ_INIT(&conn->requests);
	TAILQ_INSERT_TAIL(&c->elv->store->conns, conn, store_link);
	if (c->conns++ == 0 && c->elv->policy->client_changed)
		c->elv->policy->client_changed(c->elv, c);
}

/* Nothing of rq will be dispatched any more; what is in flight still comes back. */
static void withdraw(struct elv_request *rq, uint64_t now, struct elv_requests *done)
{
	struct elevator *e = elv_of(rq);

	rq->withdrawn = true;
	elv_unqueue(rq);
	if (rq->sliced)
		elv_drop_rest(rq);
	else if (tree_linked(&rq->span.node))
		elv_index_remove(e->store, &rq->span);
	rq->state = ELV_DISPATCHED;
	if (rq->in_flight)
		elv_release_waiters(rq, now); /* some waited for the rest */
	else
		elv_finish(rq, now, done);
}

/* Of a queued run: withdraw the parts of dead connections, queue the others again. */
static void withdraw_run(struct elv_request *head, uint64_t now, struct elv_requests *done)
{
	struct elevator *e = elv_of(head);
	struct elv_requests parts;
	struct elv_request *rq;

	elv_policy_remove(e, head);
	elv_run_split(head, &parts);
	TAILQ_FOREACH(rq, &parts, part_link)
		rq->state = ELV_IDLE; /* so that nothing merges into what is being taken apart */
	while ((rq = TAILQ_FIRST(&parts))) {
		TAILQ_REMOVE(&parts, rq, part_link);
		elv_run_init(rq);
		if (rq->conn->open)
			elv_admit(e, rq, now);
		else
			withdraw(rq, now, done);
	}
}

void elv_conn_close(struct elv_conn *conn, bool heard, uint64_t now, struct elv_requests *done)
{
	struct elv_client *c = conn->client;
	struct elv_requests stay;
	struct elv_request *rq;

	assert(conn->open);
	conn->open = false;
	if (!heard && conn->told_error)
		c->owed_error = conn->told_error;
	TAILQ_REMOVE(&c->elv->store->conns, conn, store_link);
	TAILQ_INIT(&stay);
	while ((rq = TAILQ_FIRST(&conn->requests))) {
		if (rq->state == ELV_HELD) {
			elv_unhold(rq);
			withdraw(rq, now, done);
		} else if (rq->state == ELV_QUEUED &&
			   (!elv_modifies(rq->op) || rq->head->nparts == 1)) {
			withdraw_run(rq->head, now, done);
		} else if (rq->state == ELV_SYNC_WAITS) {
			TAILQ_REMOVE(&c->elv->store->sync_waiting, rq, wait_link);
			rq->withdrawn = true;
			elv_finish(rq, now, done);
		} else {
			TAILQ_REMOVE(&conn->requests, rq, conn_link);
			TAILQ_INSERT_TAIL(&stay, rq, conn_link);
		}
	}
	TAILQ_CONCAT(&conn->requests, &stay, conn_link);
	elv_offer_discards(c->elv->store, now);
	if (--c->conns == 0 && c->elv->policy->client_changed)
		c->elv->policy->client_changed(c->elv, c);
}

/* --- clients --- */

static void init_policy_client(struct elevator *e, struct elv_client *c)
{
	memset(c->area, 0, sizeof(c->area));
	if (e->policy->init_client)
		e->policy->init_client(e, c);
}

void elv_client_init(struct elv_client *c, struct elevator *e)
{
	uint64_t identity = c->identity;
	struct elv_client_params params = c->params;

	memset(c, 0, sizeof(*c));
	c->identity = identity;
	c->params = params;
	c->elv = e;
	TAILQ_INIT(&c->discards);
	TAILQ_INSERT_TAIL(&e->clients, c, link);
	init_policy_client(e, c);
}

static void stats_add(struct elv_stats *to, const struct elv_stats *from)
{
	for (int i = 0; i < ELV_NUM_OPS; i++)
		to->requests[i] += from->requests[i];
	for (int i = 0; i < ELV_NUM_DIRS; i++) {
		to->bytes[i] += from->bytes[i];
		histogram_merge(&to->total[i], &from->total[i]);
	}
	to->answered += from->answered;
	to->withdrawn += from->withdrawn;
	to->errors += from->errors;
	to->back_merges += from->back_merges;
	to->front_merges += from->front_merges;
	to->ios += from->ios;
	to->promoted += from->promoted;
	to->service_ns += from->service_ns;
	histogram_merge(&to->queue, &from->queue);
	histogram_merge(&to->service, &from->service);
}

void elv_client_exit(struct elv_client *c)
{
	struct elevator *e = c->elv;

	assert(!c->conns && !c->queued && !c->in_flight && TAILQ_EMPTY(&c->discards));
	if (e->policy->exit_client)
		e->policy->exit_client(e, c);
	elv_sync_forget(e->store, c);
	stats_add(&e->departed, &c->stats);
	TAILQ_REMOVE(&e->clients, c, link);
}

void elv_client_set_params(struct elv_client *c, const struct elv_client_params *params,
			   uint64_t now)
{
	c->params = *params;
	elv_params_changed(c->elv, now);
}

void elv_stats_sum(const struct elevator *e, struct elv_stats *out)
{
	const struct elv_client *c;

	*out = e->departed;
	TAILQ_FOREACH(c, &e->clients, link)
		stats_add(out, &c->stats);
}

uint64_t elv_oldest(const struct elevator *e, uint64_t now)
{
	const struct elv_request *rq = TAILQ_FIRST(&e->by_age);

	return rq && now > rq->age_from ? now - rq->age_from : 0;
}

/* --- the elevator and its store --- */

void elv_store_init(struct elv_store *s, struct elv_disk *d, uint32_t block)
{
	assert(block && !(block & (block - 1)));
	memset(s, 0, sizeof(*s));
	s->disk = d;
	s->block = block;
	elv_index_init(s);
	TAILQ_INIT(&s->discard_clients);
	TAILQ_INIT(&s->conns);
	elv_sync_init(s);
}

void elv_store_exit(struct elv_store *s)
{
	assert(tree_empty(&s->reads) && tree_empty(&s->writes) && tree_empty(&s->unordered));
	assert(!s->discarding && !s->syncing && TAILQ_EMPTY(&s->sync_waiting));
	assert(TAILQ_EMPTY(&s->conns));
	(void)s;
}

/* Ios and spare spans, allocated together; a greater depth adds another chunk. */
struct elv_chunk {
	struct elv_chunk *next;
	struct elv_io *ios;
	struct elv_span *spans;
};

static void free_memory(struct elevator *e)
{
	struct elv_chunk *c;

	for (unsigned i = 0; i < ELV_MAX_POLICIES; i++)
		free(e->policy_params[i]);
	while ((c = e->chunks)) {
		e->chunks = c->next;
		free(c->ios);
		free(c->spans);
		free(c);
	}
}

/* Have ios for this depth; more than that is never given back. 0 or -ENOMEM. */
static int grow(struct elevator *e, unsigned depth)
{
	unsigned n = depth - e->allocated;
	struct elv_chunk *c;

	if (depth <= e->allocated)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->ios = calloc(n, sizeof(*c->ios));
	c->spans = calloc(n, sizeof(*c->spans));
	if (!c->ios || !c->spans) {
		free(c->ios);
		free(c->spans);
		free(c);
		return -ENOMEM;
	}
	c->next = e->chunks;
	e->chunks = c;
	e->allocated = depth;
	for (unsigned i = 0; i < n; i++) {
		TAILQ_INSERT_TAIL(&e->free_ios, &c->ios[i], link);
		TAILQ_INSERT_TAIL(&e->spare_spans, &c->spans[i], link);
	}
	return 0;
}

static unsigned resolve_depth(const struct elv_params *params, unsigned default_depth)
{
	uint64_t depth = params->queue_depth;

	if (depth == TUNABLE_AUTO)
		depth = default_depth;
	assert(depth >= 1 && depth <= ELV_MAX_DEPTH);
	return (unsigned)depth;
}

int elevator_init(struct elevator *e, const struct elv_config *config)
{
	memset(e, 0, sizeof(*e));
	e->disk = config->disk;
	e->store = config->store;
	e->policy = config->policy;
	e->params = config->params;
	e->rotational = config->rotational;
	e->serial = config->serial;
	e->depth = resolve_depth(&e->params, config->default_depth);
	TAILQ_INIT(&e->clients);
	TAILQ_INIT(&e->by_age);
	TAILQ_INIT(&e->free_ios);
	TAILQ_INIT(&e->spare_spans);
	for (unsigned i = 0; elv_policies[i]; i++) {
		e->policy_params[i] = calloc(1, elv_policies[i]->params_size);
		if (!e->policy_params[i] ||
		    tunable_defaults(elv_policies[i]->rows, e->policy_params[i]) < 0)
			goto fail;
	}
	if (grow(e, e->depth) < 0 || e->policy->init_queue(e) < 0)
		goto fail;
	elv_disk_attach(e);
	return 0;
fail:
	free_memory(e);
	return -ENOMEM;
}

void elevator_exit(struct elevator *e)
{
	assert(!e->queued && !e->in_flight && !e->in_policy && TAILQ_EMPTY(&e->clients));
	elv_disk_detach(e);
	e->policy->exit_queue(e);
	free_memory(e);
}

void *elv_policy_params(struct elevator *e, const struct elv_policy *policy)
{
	return e->policy_params[elv_policy_index(policy)];
}

int elv_set_params(struct elevator *e, const struct elv_params *params, unsigned default_depth,
		   bool rotational, uint64_t now)
{
	unsigned depth = resolve_depth(params, default_depth);
	bool was_rotational = e->rotational;

	if (grow(e, depth) < 0)
		return -ENOMEM;
	if (rotational != was_rotational) { /* policies build on it: start anew */
		e->rotational = rotational;
		if (elv_switch(e, e->policy, now) < 0) {
			e->rotational = was_rotational;
			return -ENOMEM;
		}
	}
	e->params = *params;
	e->depth = depth;
	elv_disk_recount(e->disk);
	elv_params_changed(e, now);
	return 0;
}

void elv_params_changed(struct elevator *e, uint64_t now)
{
	if (e->policy->param_changed)
		e->policy->param_changed(e, now);
}

/*
 * The new policy is set up before the old one is touched, so that failing costs nothing; then all
 * that is queued moves over. O(queued).
 */
int elv_switch(struct elevator *e, const struct elv_policy *policy, uint64_t now)
{
	const struct elv_policy *old = e->policy;
	void *old_queue = e->queue, *new_queue;
	struct elv_request *rq;
	struct elv_client *c;

	if (policy->init_queue(e) < 0) {
		e->queue = old_queue;
		return -ENOMEM;
	}
	new_queue = e->queue;
	e->queue = old_queue;

	TAILQ_FOREACH(rq, &e->by_age, age_link)
		if (rq->state == ELV_QUEUED && rq->head == rq)
			elv_policy_remove(e, rq);
	assert(!e->in_policy);
	TAILQ_FOREACH(c, &e->clients, link)
		if (old->exit_client)
			old->exit_client(e, c);
	old->exit_queue(e);

	e->policy = policy;
	e->queue = new_queue;
	e->generation++;
	e->switches += policy != old;
	e->last_merge = NULL;
	TAILQ_FOREACH(c, &e->clients, link)
		init_policy_client(e, c);
	TAILQ_FOREACH(rq, &e->by_age, age_link) {
		if (rq->state != ELV_QUEUED)
			continue;
		rq->state = ELV_IDLE; /* alone again */
		rq->maybe_blocked = true; /* a blocker may have been in the same run */
		elv_run_init(rq);
	}
	TAILQ_FOREACH(rq, &e->by_age, age_link)
		if (rq->state == ELV_IDLE)
			elv_admit(e, rq, now); /* by age: most go to the end of their lists */
	elv_offer_discards(e->store, now);
	return 0;
}
