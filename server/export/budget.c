#include "server/export/budget.h"

#include <assert.h>

enum { CROWD = 64 };

/* ---- waiting for bytes ---- */

static bool within_quarter(const struct budget *b, const struct budget_identity *i, uint64_t bytes)
{
	return i->bytes + bytes <= b->memory / 4;
}

static bool fits(const struct budget *b, uint64_t bytes)
{
	return b->held + bytes <= b->memory;
}

/* May this identity, which does not wait yet, take bytes now? */
static bool may_take(const struct budget *b, const struct budget_identity *i, uint64_t bytes)
{
	if (!bytes || !i->requests)
		return true;
	if (i->place != BUDGET_NOT_QUEUED || !fits(b, bytes) || !TAILQ_EMPTY(&b->queue))
		return false;
	return TAILQ_EMPTY(&b->passed) || within_quarter(b, i, bytes);
}

static void take(struct budget_account *a, uint64_t bytes)
{
	struct budget *b = a->budget;

	b->held += bytes;
	b->requests++;
	a->identity->bytes += bytes;
	a->identity->requests++;
	a->export->bytes += bytes;
	a->export->requests++;
	a->bytes += bytes;
	a->requests++;
}

static void put(struct budget_account *a, uint64_t bytes)
{
	struct budget *b = a->budget;

	assert(a->bytes >= bytes && a->requests);
	b->held -= bytes;
	b->requests--;
	a->identity->bytes -= bytes;
	a->identity->requests--;
	a->export->bytes -= bytes;
	a->export->requests--;
	a->bytes -= bytes;
	a->requests--;
}

static void unqueue(struct budget *b, struct budget_identity *i)
{
	if (i->place == BUDGET_IN_QUEUE)
		TAILQ_REMOVE(&b->queue, i, link);
	else if (i->place == BUDGET_PASSED)
		TAILQ_REMOVE(&b->passed, i, link);
	i->place = BUDGET_NOT_QUEUED;
}

/* Put it where it belongs for what its first waiter wants, at the place that its seq gives it. */
static void enqueue(struct budget *b, struct budget_identity *i)
{
	bool small = within_quarter(b, i, TAILQ_FIRST(&i->waiters)->need.bytes);
	struct budget_identities *list = small ? &b->queue : &b->passed;
	struct budget_identity *before;

	i->place = small ? BUDGET_IN_QUEUE : BUDGET_PASSED;
	TAILQ_FOREACH_REVERSE(before, list, budget_identities, link)
		if (before->seq < i->seq)
			break;
	if (before)
		TAILQ_INSERT_AFTER(list, before, i, link);
	else
		TAILQ_INSERT_HEAD(list, i, link);
}

static void requeue(struct budget *b, struct budget_identity *i)
{
	unqueue(b, i);
	if (!TAILQ_EMPTY(&i->waiters))
		enqueue(b, i);
}

static void granted(struct budget_waiter *w)
{
	struct budget_account *a = w->account;

	take(a, w->need.bytes);
	atomic_fetch_sub_explicit(&a->budget->waiting, 1, memory_order_relaxed);
	w->state = BUDGET_GRANTED;
	w->granted(w);
}

/* Its first waiter gets what it wants; the others wait from now on, behind everybody. */
static void grant_first(struct budget *b, struct budget_identity *i)
{
	struct budget_waiter *w = TAILQ_FIRST(&i->waiters);

	TAILQ_REMOVE(&i->waiters, w, link);
	granted(w);
	i->seq = ++b->seq;
	requeue(b, i);
}

/* Hand out what is free. */
static void serve(struct budget *b)
{
	struct budget_identity *i;

	for (;;) {
		i = TAILQ_FIRST(&b->queue);
		if (!i)
			i = TAILQ_FIRST(&b->passed);
		if (!i || !fits(b, TAILQ_FIRST(&i->waiters)->need.bytes))
			return;
		grant_first(b, i);
	}
}

/* ---- waiting for a slot ---- */

/* It has its slot: the bytes. */
static void want_bytes(struct budget_waiter *w)
{
	struct budget_account *a = w->account;
	struct budget_identity *i = a->identity;

	if (may_take(a->budget, i, w->need.bytes)) {
		granted(w);
		return;
	}
	w->state = BUDGET_WAIT_BYTES;
	TAILQ_INSERT_TAIL(&i->waiters, w, link);
	if (i->place == BUDGET_NOT_QUEUED) {
		i->seq = ++a->budget->seq;
		enqueue(a->budget, i);
	}
}

static bool slot_free(const struct budget_account *a, enum elv_dir dir)
{
	return a->slots[dir] < a->export->nr_requests;
}

static void serve_slots(struct budget_account *a, enum elv_dir dir)
{
	struct budget_waiter *w;

	while (slot_free(a, dir) && (w = TAILQ_FIRST(&a->slot_waiters[dir]))) {
		TAILQ_REMOVE(&a->slot_waiters[dir], w, link);
		a->slots[dir]++;
		want_bytes(w);
	}
}

/* ---- taking ---- */

unsigned budget_take(struct budget_account *a, const struct budget_need *need, unsigned n,
		     struct budget_waiter *w)
{
	unsigned i;

	assert(w->state == BUDGET_IDLE);
	pthread_mutex_lock(&a->budget->lock);
	for (i = 0; i < n; i++) {
		enum elv_dir dir = need[i].dir;

		if (!slot_free(a, dir) || !TAILQ_EMPTY(&a->slot_waiters[dir]) ||
		    !may_take(a->budget, a->identity, need[i].bytes))
			break;
		a->slots[dir]++;
		take(a, need[i].bytes);
	}
	if (i < n) {
		enum elv_dir dir = need[i].dir;

		w->account = a;
		w->need = need[i];
		w->state = BUDGET_WAIT_SLOT;
		atomic_fetch_add_explicit(&a->budget->waiting, 1, memory_order_relaxed);
		a->export->waits++;
		TAILQ_INSERT_TAIL(&a->slot_waiters[dir], w, link);
		serve_slots(a, dir);
	}
	pthread_mutex_unlock(&a->budget->lock);
	return i;
}

bool budget_accept(struct budget_waiter *w)
{
	struct budget *b;
	bool ok;

	if (!w->account)
		return false;
	b = w->account->budget;
	pthread_mutex_lock(&b->lock);
	ok = w->state == BUDGET_GRANTED;
	if (ok)
		w->state = BUDGET_IDLE;
	pthread_mutex_unlock(&b->lock);
	return ok;
}

void budget_cancel(struct budget_waiter *w)
{
	struct budget_account *a = w->account;
	struct budget *b;

	if (!a)
		return;
	b = a->budget;
	budget_lock(b);
	switch (w->state) {
	case BUDGET_IDLE:
		break;
	case BUDGET_WAIT_SLOT:
		TAILQ_REMOVE(&a->slot_waiters[w->need.dir], w, link);
		atomic_fetch_sub_explicit(&b->waiting, 1, memory_order_relaxed);
		break;
	case BUDGET_WAIT_BYTES:
		TAILQ_REMOVE(&a->identity->waiters, w, link);
		requeue(b, a->identity);
		atomic_fetch_sub_explicit(&b->waiting, 1, memory_order_relaxed);
		w->state = BUDGET_IDLE;
		budget_slot(a, w->need.dir);
		break;
	case BUDGET_GRANTED:
		/* As if it had never been: neither answered nor withdrawn. */
		w->state = BUDGET_IDLE;
		budget_slot(a, w->need.dir);
		budget_end(a, w->need.bytes, BUDGET_WITHDRAWN);
		a->export->withdrawn--;
		break;
	}
	w->state = BUDGET_IDLE;
	w->account = NULL;
	budget_unlock(b);
}

/* ---- giving back ---- */

void budget_lock(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
}

void budget_unlock(struct budget *b)
{
	serve(b);
	pthread_mutex_unlock(&b->lock);
}

void budget_slot(struct budget_account *a, enum elv_dir dir)
{
	assert(a->slots[dir]);
	a->slots[dir]--;
	serve_slots(a, dir);
}

/* An identity holds less: it may be within its quarter again, or hold nothing. */
static void holds_less(struct budget *b, struct budget_identity *i)
{
	if (i->place == BUDGET_NOT_QUEUED)
		return;
	if (!i->requests)
		grant_first(b, i);
	else if (i->place == BUDGET_PASSED &&
		 within_quarter(b, i, TAILQ_FIRST(&i->waiters)->need.bytes))
		requeue(b, i);
}

void budget_end(struct budget_account *a, uint64_t bytes, enum budget_end end)
{
	put(a, bytes);
	if (end == BUDGET_ANSWERED)
		a->export->answered++;
	else
		a->export->withdrawn++;
	holds_less(a->budget, a->identity);
}

void budget_shrink(struct budget_account *a, uint64_t bytes)
{
	put(a, bytes);
	take(a, 0);
	holds_less(a->budget, a->identity);
}

bool budget_is_crowded(struct budget *b)
{
	return atomic_load_explicit(&b->waiting, memory_order_relaxed) > CROWD;
}

void budget_invalid(struct budget_account *a)
{
	a->export->invalid++;
}

/* ---- setting up ---- */

void budget_init(struct budget *b, uint64_t memory)
{
	*b = (struct budget){ .memory = memory };
	pthread_mutex_init(&b->lock, NULL);
	TAILQ_INIT(&b->queue);
	TAILQ_INIT(&b->passed);
}

void budget_exit(struct budget *b)
{
	pthread_mutex_destroy(&b->lock);
}

void budget_identity_init(struct budget_identity *i)
{
	*i = (struct budget_identity){ .place = BUDGET_NOT_QUEUED };
	TAILQ_INIT(&i->waiters);
}

void budget_account_init(struct budget_account *a, struct budget *b, struct budget_export *e,
			 struct budget_identity *i)
{
	*a = (struct budget_account){ .budget = b, .export = e, .identity = i };
	TAILQ_INIT(&a->slot_waiters[ELV_DIR_READ]);
	TAILQ_INIT(&a->slot_waiters[ELV_DIR_WRITE]);
}

void budget_waiter_init(struct budget_waiter *w, void (*on_grant)(struct budget_waiter *w))
{
	*w = (struct budget_waiter){ .granted = on_grant };
}

void budget_serve_slots(struct budget_account *a)
{
	serve_slots(a, ELV_DIR_READ);
	serve_slots(a, ELV_DIR_WRITE);
}

/* ---- checking ---- */

static const char *check_list(const struct budget *b, const struct budget_identities *list,
			      bool small)
{
	const struct budget_identity *i;
	uint64_t seq = 0;

	TAILQ_FOREACH(i, list, link) {
		if (i->place != (small ? BUDGET_IN_QUEUE : BUDGET_PASSED))
			return "an identity is in the wrong queue";
		if (TAILQ_EMPTY(&i->waiters))
			return "an identity is queued and does not wait";
		if (!i->requests)
			return "an identity that holds nothing waits";
		if (within_quarter(b, i, TAILQ_FIRST(&i->waiters)->need.bytes) != small)
			return "an identity is on the wrong side of the quarter";
		if (i->seq <= seq)
			return "a queue is not in order of arrival";
		seq = i->seq;
	}
	return NULL;
}

const char *budget_check(struct budget *b)
{
	const struct budget_identity *first;
	const char *wrong;

	pthread_mutex_lock(&b->lock);
	wrong = check_list(b, &b->queue, true);
	if (!wrong)
		wrong = check_list(b, &b->passed, false);
	first = TAILQ_FIRST(&b->queue);
	if (!first)
		first = TAILQ_FIRST(&b->passed);
	if (!wrong && first && fits(b, TAILQ_FIRST(&first->waiters)->need.bytes))
		wrong = "there is memory for the first that waits";
	pthread_mutex_unlock(&b->lock);
	return wrong;
}
