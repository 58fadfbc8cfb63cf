/*
 * The world of the loss tests: time, clients, elevators and disk. See loss.h.
 */
#include "tests/unit/loss.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/loss_script.h"

#define US 1000ull

enum { EXPORTS = 2, MAX_IOS = 64, MAX_STEPS = 20000, MAX_OPENED = 128, DEPTH = 4 };

/* Whose account a connection has: client 0 is at export 0, client 1 at export 1, client 2 at both. */
static const struct {
	unsigned export, identity;
} accounts[LOSS_ACCOUNTS] = { { 0, 1 }, { 1, 2 }, { 0, 3 }, { 1, 3 } };
static const unsigned account_of[LOSS_CONNS] = { 0, 0, 1, 1, 2, 3 };

struct conn {
	struct elv_conn elv;
	unsigned account;
	int sticky;          /* a sync failed while it was open: what its FLUSH and FUA must say */
	bool both;           /* syncs failed with different errors */
};

struct request {
	struct elv_request rq;
	struct conn *conn;
	unsigned id;         /* of a modification; else 0 */
	uint64_t arrived;    /* stamp */
	bool own_error;      /* the disk failed some io of it */
	bool in_failure;     /* it was under way when a sync failed */
	bool pending;
	TAILQ_ENTRY(request) all;
};

/* An io that the disk has. */
struct busy {
	struct elv_io *io;
	uint64_t execute, complete;
	bool executed;
};

struct world {
	const struct loss_plan *plan;
	struct loss_outcome *out;
	struct loss_oracle o;
	struct loss_disk disk;
	struct elv_disk elv_disk;
	struct elevator e[EXPORTS];
	struct elv_client account[LOSS_ACCOUNTS];
	struct conn *conn[LOSS_CONNS];          /* the open ones */
	struct conn *opened[MAX_OPENED];
	unsigned nopened;
	TAILQ_HEAD(, request) all;
	struct busy busy[MAX_IOS];
	unsigned nbusy;
	struct loss_action script[LOSS_SCRIPT_MAX];
	size_t nscript, next;
	uint64_t now, wake, random, last_failure; /* stamp */
	unsigned pending, data_errors;
	unsigned since_fault;                   /* steps */
	bool owed_late[LOSS_ACCOUNTS];          /* for what was answered after a sync had failed */
	bool cut;                               /* the power */
};

/* ---- messages ---- */

const char *loss_describe(const struct loss_plan *p, char *buf, size_t len)
{
	static const char *const faults[] = {
		[LOSS_NO_FAULT] = "no fault", [LOSS_ERROR] = "error", [LOSS_ERRORS] = "errors from",
		[LOSS_SHORT] = "short", [LOSS_SYNC_ERROR] = "sync error", [LOSS_CRASH] = "crash",
	};
	static const char *const events[] = {
		[LOSS_NO_EVENT] = "no event", [LOSS_POWER_CUT] = "power cut", [LOSS_HANG_UP] = "hang-up",
		[LOSS_SWITCH] = "switch",
	};

	snprintf(buf, len, "%s, %s, script %llu, %s at %u (%s), %s at step %u, "
		 "cut after %u, crash %llu, defect %d",
		 p->store ? p->store : "memory", p->policy->name, (unsigned long long)p->script,
		 faults[p->fault], p->fault_at, p->error == -ENOSPC ? "ENOSPC" : "EIO", events[p->event],
		 p->event_at, p->cut_after, (unsigned long long)p->crash, p->defect);
	return buf;
}

static bool is_wrong(const struct world *w)
{
	return w->o.wrong[0];
}

/* ---- requests ---- */

static struct request *request_of(struct elv_request *rq)
{
	return (struct request *)((char *)rq - offsetof(struct request, rq));
}

static bool makes_durable(const struct request *r)
{
	return r->rq.op == ELV_FLUSH || (elv_modifies(r->rq.op) && (r->rq.flags & ELV_FUA));
}

/* Does the account have anything under way that a failed sync may have come across? */
static void note_late(struct world *w, unsigned account)
{
	struct request *r;

	w->owed_late[account] = false;
	TAILQ_FOREACH(r, &w->all, all)
		w->owed_late[account] |= r->in_failure && r->id && r->conn->account == account;
}

/* A reply to FLUSH or FUA: who was open when a sync failed must hear of it, nobody else. */
static void check_flush(struct world *w, struct request *r)
{
	const struct conn *c = r->conn;
	int error = r->rq.error;

	if (!r->own_error && c->sticky && !error)
		oracle_wrong(&w->o, "a sync failed while a connection of account %u was open, but its %s "
			     "succeeds", c->account, r->rq.op == ELV_FLUSH ? "FLUSH" : "FUA request");
	if (!r->own_error && c->sticky && !c->both && error && error != c->sticky)
		oracle_wrong(&w->o, "FLUSH or FUA failed with %s instead of %s", strerror(-error),
			     strerror(-c->sticky));
	if (!r->own_error && error && !c->sticky && w->o.told[c->account] >= w->last_failure &&
	    !w->owed_late[c->account])
		oracle_wrong(&w->o, "FLUSH or FUA of account %u failed, without a cause that it has not been "
			     "told", c->account);
	if (error && !r->own_error)
		note_late(w, c->account);
	w->out->flush_errors += error != 0;
	oracle_flush_answered(&w->o, c->account, r->arrived, r->rq.op == ELV_FLUSH, error, r->own_error);
}

static void answered(struct world *w, struct request *r)
{
	struct elv_request *rq = &r->rq;

	w->out->errors += rq->error != 0;
	if (rq->error && rq->op != ELV_FLUSH && r->own_error)
		w->data_errors++;
	if (rq->error && !r->own_error && !makes_durable(r))
		oracle_wrong(&w->o, "a request failed with %s, but no io of it did", strerror(-rq->error));
	if (r->id)
		oracle_answered(&w->o, r->id, rq->error, makes_durable(r) || w->disk.durable);
	if (makes_durable(r))
		check_flush(w, r);
	if (rq->op == ELV_READ && !rq->error) {
		w->out->reads++;
		oracle_check_read(&w->o, accounts[r->conn->account].identity, r->arrived, rq->offset, rq->length,
				  rq->data);
	}
}

static void finished(struct world *w, struct elv_requests *done)
{
	struct elv_request *rq;

	while ((rq = TAILQ_FIRST(done))) {
		struct request *r = request_of(rq);

		TAILQ_REMOVE(done, rq, link);
		if (!r->pending)
			oracle_wrong(&w->o, "a request came back twice");
		r->pending = false;
		w->pending--;
		if (r->conn->elv.open) {
			if (rq->withdrawn)
				oracle_wrong(&w->o, "a request of an open connection was withdrawn");
			answered(w, r);
		} else {
			w->out->withdrawn++;
			if (r->id)
				oracle_unanswered(&w->o, r->id, rq->first_dispatch != 0);
		}
		TAILQ_REMOVE(&w->all, r, all);
		free(rq->data);
		free(r);
	}
}

static void send(struct world *w, struct conn *c, const struct loss_action *a)
{
	struct request *r = calloc(1, sizeof(*r));
	struct elv_request *rq = &r->rq;

	r->conn = c;
	r->pending = true;
	w->pending++;
	TAILQ_INSERT_TAIL(&w->all, r, all);
	rq->conn = &c->elv;
	rq->op = a->op;
	rq->flags = a->flags;
	rq->offset = a->offset;
	rq->length = a->length;
	if (a->op == ELV_READ || a->op == ELV_WRITE)
		rq->data = malloc(a->length);
	if (elv_modifies(a->op))
		r->id = oracle_arrives(&w->o, c->account, accounts[c->account].identity, a->op, a->offset,
				       a->length);
	if (a->op == ELV_WRITE)
		oracle_fill(r->id, a->offset, a->length, rq->data);
	r->arrived = w->o.clock++;
	elv_insert(rq, w->now);
}

/* ---- connections ---- */

static void open_conn(struct world *w, unsigned i)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (w->nopened == MAX_OPENED || w->conn[i]) {
		oracle_wrong(&w->o, "the script opens too much");
		free(c);
		return;
	}
	c->account = account_of[i];
	w->opened[w->nopened++] = w->conn[i] = c;
	elv_conn_open(&c->elv, &w->account[c->account]);
}

static void close_conn(struct world *w, unsigned i)
{
	struct conn *c = w->conn[i];
	struct elv_requests done;

	if (!c)
		return;
	w->conn[i] = NULL;
	TAILQ_INIT(&done);
	elv_conn_close(&c->elv, true, w->now, &done);
	finished(w, &done);
}

static void close_all(struct world *w)
{
	for (unsigned i = 0; i < LOSS_CONNS; i++)
		close_conn(w, i);
}

/* ---- the elevators ---- */

static void switch_policies(struct world *w, unsigned by)
{
	unsigned n = 0;

	while (elv_policies[n])
		n++;
	for (unsigned i = 0; i < EXPORTS; i++) {
		unsigned to = (elv_policy_index(w->e[i].policy) + by + i) % n;

		if (elv_switch(&w->e[i], elv_policies[to], w->now))
			oracle_wrong(&w->o, "no memory for a switch");
	}
}

static struct elv_params params(unsigned choice)
{
	struct elv_params p;

	tunable_defaults(elv_rows, &p);
	p.queue_depth = choice == 1 ? 1 : DEPTH;
	p.max_sectors_kb = 16384;
	p.max_discard_kb = choice == 2 ? 16384 : 32768;
	p.nomerges = choice == 3 ? 2 : 0;
	p.max_queue_age = choice == 2 ? 300 * US : 3000 * US;
	return p;
}

static void set_params(struct world *w, unsigned choice)
{
	struct elv_params p = params(choice);

	for (unsigned i = 0; i < EXPORTS; i++)
		if (elv_set_params(&w->e[i], &p, DEPTH, i == 0, w->now))
			oracle_wrong(&w->o, "no memory for settings");
}

static uint64_t between(struct world *w, uint64_t from, uint64_t to)
{
	return from + loss_random(&w->random) % (to - from);
}

static void dispatch(struct world *w)
{
	struct elv_ios ios;
	struct elv_io *io;

	TAILQ_INIT(&ios);
	elv_disk_dispatch(&w->elv_disk, w->now, &ios, &w->wake);
	while ((io = TAILQ_FIRST(&ios))) {
		struct busy *b = &w->busy[w->nbusy];

		TAILQ_REMOVE(&ios, io, link);
		if (w->nbusy++ == MAX_IOS) {
			oracle_wrong(&w->o, "too many ios are in flight");
			return;
		}
		b->io = io;
		b->executed = false;
		b->execute = w->now + (io->op == ELV_FLUSH ? between(w, 1, 1500 * US) : between(w, 1, 600 * US));
		b->complete = b->execute + (io->op == ELV_FLUSH ? between(w, 1, 1500 * US)
								 : between(w, 1, 300 * US));
	}
}

/* With a real store, which is slow enough, not after every step. */
static void check(struct world *w)
{
	if (w->plan->store && w->out->steps % 16)
		return;
	for (unsigned i = 0; i < EXPORTS; i++) {
		const char *wrong = elv_check(&w->e[i]);

		if (wrong)
			oracle_wrong(&w->o, "elevator %u: %s", i, wrong);
		if (w->e[i].in_flight > ELV_MAX_DEPTH)
			oracle_wrong(&w->o, "elevator %u: %u in flight", i, w->e[i].in_flight);
	}
}

/* ---- the disk ---- */

/* Call f for every request that the io is about. */
static void for_parts(struct world *w, struct elv_io *io,
		      void (*f)(struct world *w, struct elv_io *io, struct request *r))
{
	struct elv_request *rq;

	if (!io->elv)
		return;
	if (io->slice_of || io->alone) {
		f(w, io, request_of(io->slice_of ? io->slice_of : io->alone));
		return;
	}
	TAILQ_FOREACH(rq, &io->parts, part_link)
		f(w, io, request_of(rq));
}

static void part_executed(struct world *w, struct elv_io *io, struct request *r)
{
	bool whole = io->result >= 0 && (uint64_t)io->result == io->length;

	if (r->id && (io->result > 0 || io->sync_failed))
		oracle_executed(&w->o, r->id, whole && loss_is_durable(&w->disk, io) && !io->sync_failed);
	if (whole && !io->slice_of && !io->alone && io->nparts > 1)
		w->out->merges++;
	w->out->sliced += io->slice_of != NULL;
}

static bool alone(const struct elv_io *io)
{
	return io->slice_of || io->alone || io->nparts == 1;
}

static void part_failed(struct world *w, struct elv_io *io, struct request *r)
{
	(void)w;
	(void)io;
	r->own_error = true;
}

static void execute(struct world *w, struct busy *b)
{
	struct elv_io *io = b->io;

	b->executed = true;
	w->disk.ops->run(&w->disk, io);
	for_parts(w, io, part_executed);
	if (io->sync_failed || (io->op == ELV_FLUSH && io->result < 0))
		oracle_disk_failed_to_save(&w->o);
	else if (io->op == ELV_FLUSH)
		oracle_disk_saved(&w->o);
	/*
	 * An io of several is tried again, part by part. No progress at all is an error, too. A FUA whose
	 * own sync failed tells of its own data; that others are lost is still to be told.
	 */
	if (alone(io) && io->op != ELV_FLUSH &&
	    (io->result < 0 || (io->result == 0 && (io->op == ELV_READ || io->op == ELV_WRITE))))
		for_parts(w, io, part_failed);
}

/* The elevator hears of a failed sync; from now on these connections are to be told. */
static void note_failure(struct world *w, const struct elv_io *io)
{
	int error = io->result == -ENOSPC || io->result == -EDQUOT ? -ENOSPC : -EIO;
	struct request *r;

	w->last_failure = oracle_failure_known(&w->o);
	TAILQ_FOREACH(r, &w->all, all)
		r->in_failure = true;
	for (unsigned i = 0; i < LOSS_ACCOUNTS; i++)
		note_late(w, i);
	for (unsigned i = 0; i < LOSS_CONNS; i++) {
		struct conn *c = w->conn[i];

		if (!c)
			continue;
		c->both = c->both || (c->sticky && c->sticky != error);
		c->sticky = error;
	}
}

static void complete(struct world *w, struct busy *b)
{
	struct elv_io *io = b->io;
	struct elv_requests done;

	*b = w->busy[--w->nbusy];
	if (io->sync_failed || (io->op == ELV_FLUSH && io->result < 0))
		note_failure(w, io);
	TAILQ_INIT(&done);
	elv_complete(io, w->now, &done);
	finished(w, &done);
}

/* ---- time ---- */

static void act(struct world *w, const struct loss_action *a)
{
	switch (a->what) {
	case LOSS_DO_REQUEST:
		if (w->conn[a->conn])
			send(w, w->conn[a->conn], a);
		break;
	case LOSS_DO_OPEN:
		if (!w->conn[a->conn])
			open_conn(w, a->conn);
		break;
	case LOSS_DO_CLOSE:
		close_conn(w, a->conn);
		break;
	case LOSS_DO_SWITCH:
		switch_policies(w, a->choice);
		break;
	case LOSS_DO_SET:
		set_params(w, a->choice);
		break;
	}
}

/* The io with the next thing to happen, or NULL; and when. */
static struct busy *next_busy(struct world *w, uint64_t *at)
{
	struct busy *first = NULL;

	*at = ELV_NEVER;
	for (unsigned i = 0; i < w->nbusy; i++) {
		struct busy *b = &w->busy[i];
		uint64_t t = b->executed ? b->complete : b->execute;

		if (t < *at) {
			*at = t;
			first = b;
		}
	}
	return first;
}

/* Whatever comes next. False: nothing does. */
static bool step(struct world *w)
{
	uint64_t disk_at, script_at = w->next < w->nscript ? w->script[w->next].at : ELV_NEVER;
	struct busy *b = next_busy(w, &disk_at);

	if (script_at != ELV_NEVER && script_at <= disk_at && script_at <= w->wake) {
		uint64_t at = script_at;

		if (at > w->now)
			w->now = at;
		/* What comes at one time is inserted together, as from one read of a socket. */
		while (w->next < w->nscript && w->script[w->next].at == at)
			act(w, &w->script[w->next++]);
		dispatch(w);
	} else if (b && disk_at <= w->wake) {
		w->now = disk_at;
		if (!b->executed) {
			execute(w, b);
		} else {
			complete(w, b);
			dispatch(w);
		}
	} else if (w->wake != ELV_NEVER) {
		w->now = w->wake;
		dispatch(w);
	} else {
		return false;
	}
	check(w);
	return true;
}

static void event(struct world *w)
{
	w->out->event_came = true;
	switch (w->plan->event) {
	case LOSS_POWER_CUT:
		w->cut = true;
		return;
	case LOSS_HANG_UP:
		close_all(w);
		break;
	case LOSS_SWITCH:
		switch_policies(w, 1);
		break;
	case LOSS_NO_EVENT:
		break;
	}
	dispatch(w);
	check(w);
}

/* Until nothing is left to happen, or the power is cut. */
static void go(struct world *w)
{
	while (!is_wrong(w) && !w->cut) {
		if (w->plan->event && w->out->steps + 1 == w->plan->event_at)
			event(w);
		if (w->plan->cut_after && w->disk.fault_came && ++w->since_fault == w->plan->cut_after)
			w->cut = true;
		if (w->cut || !step(w))
			break;
		if (w->out->steps++ == MAX_STEPS)
			oracle_wrong(&w->o, "it never ends");
	}
}

/* ---- the end ---- */

/* Nothing is in flight: nothing may be left. */
static void check_rest(struct world *w)
{
	const struct elv_stats *st;

	if (w->pending)
		oracle_wrong(&w->o, "%u requests never came back", w->pending);
	for (unsigned i = 0; i < EXPORTS; i++)
		if (w->e[i].queued || w->e[i].held || w->e[i].in_flight)
			oracle_wrong(&w->o, "elevator %u: %u queued, %u held, %u in flight in the end", i,
				     w->e[i].queued, w->e[i].held, w->e[i].in_flight);
	if (w->elv_disk.in_flight)
		oracle_wrong(&w->o, "the disk has %u in flight in the end", w->elv_disk.in_flight);
	for (unsigned i = 0; i < LOSS_ACCOUNTS; i++) {
		uint64_t came = 0;

		st = &w->account[i].stats;
		for (unsigned op = 0; op < ELV_NUM_OPS; op++)
			came += st->requests[op];
		if (came != st->answered + st->withdrawn || w->account[i].queued || w->account[i].in_flight)
			oracle_wrong(&w->o, "account %u: %llu came, %llu answered, %llu withdrawn", i,
				     (unsigned long long)came, (unsigned long long)st->answered,
				     (unsigned long long)st->withdrawn);
	}
}

static void check_image(struct world *w, bool crashed)
{
	static char image[LOSS_SIZE];

	if (is_wrong(w))
		return;
	w->disk.ops->read(&w->disk, image);
	oracle_check_image(&w->o, image, crashed);
}

/* One more request of connection i, to its end. */
static void one_more(struct world *w, unsigned i, enum elv_op op, unsigned flags, unsigned unit)
{
	struct loss_action a = {
		.what = LOSS_DO_REQUEST, .conn = i, .op = op, .flags = flags,
		.offset = (uint64_t)unit * LOSS_UNIT, .length = op == ELV_FLUSH ? 0 : 4 * LOSS_UNIT,
	};

	w->script[0] = a;
	w->script[0].at = w->now + 1;
	w->next = 0;
	w->nscript = 1;
	go(w);
}

/* The disk works again. Everybody comes back, is told what is owed, and works as ever. */
static void come_back(struct world *w)
{
	unsigned errors = w->out->errors;

	w->disk.ops->repair(&w->disk);
	close_all(w);
	for (unsigned i = 0; i < LOSS_CONNS; i++)
		open_conn(w, i);
	for (unsigned i = 0; i < LOSS_CONNS && !w->cut; i++)
		one_more(w, i, ELV_FLUSH, 0, 0);
	if (w->out->errors > errors + LOSS_ACCOUNTS)
		oracle_wrong(&w->o, "%u flushes failed after the repair", w->out->errors - errors);
	errors = w->out->errors;
	for (unsigned i = 0; i < LOSS_CONNS && !w->cut; i++) {
		one_more(w, i, ELV_WRITE, i % 2 ? ELV_FUA : 0, 40 * i);
		one_more(w, i, ELV_READ, 0, 40 * i + 2);
		one_more(w, i, ELV_FLUSH, 0, 0);
	}
	if (w->out->errors != errors)
		oracle_wrong(&w->o, "requests fail after the repair");
}

/* The script is over: see what is left. The disk works again, and they come back. */
static void second_half(struct world *w)
{
	check_rest(w);
	if (w->plan->fault == LOSS_CRASH)
		return; /* it knows no repair */
	if ((w->plan->fault == LOSS_ERROR || w->plan->fault == LOSS_SHORT) && w->data_errors > 1)
		oracle_wrong(&w->o, "one failure of the disk reached %u requests", w->data_errors);
	check_image(w, false);
	come_back(w);
	if (w->cut)
		return;
	check_rest(w);
	check_image(w, false);
}

static int set_up(struct world *w)
{
	char err[256] = "";
	int r;

	w->random = w->plan->script * 77 + 5;
	w->wake = ELV_NEVER;
	w->now = 1000;
	TAILQ_INIT(&w->all);
	oracle_init(&w->o);
	w->o.torn = w->plan->fault == LOSS_SHORT;
	w->nscript = loss_script(w->plan->script, w->script);
	w->disk.plan = w->plan;
	w->disk.ops = w->plan->store ? &loss_store : &loss_memory;
	r = w->disk.ops->open(&w->disk, err, sizeof(err));
	if (r) {
		oracle_wrong(&w->o, "opening the disk: %s: %s", strerror(-r), err);
		return r;
	}
	elv_disk_init(&w->elv_disk);
	elv_store_init(w->disk.elv, &w->elv_disk, w->disk.block);
	for (unsigned i = 0; i < EXPORTS; i++) {
		struct elv_config config = {
			.disk = &w->elv_disk, .store = w->disk.elv, .policy = w->plan->policy,
			.params = params(0), .default_depth = DEPTH, .rotational = i == 0,
		};

		if (elevator_init(&w->e[i], &config))
			oracle_wrong(&w->o, "no memory");
	}
	for (unsigned i = 0; i < LOSS_ACCOUNTS; i++) {
		w->account[i].identity = accounts[i].identity;
		w->account[i].params.weight = 100 * (i + 1);
		w->account[i].params.io_class = ELV_CLASS_BE;
		elv_client_init(&w->account[i], &w->e[accounts[i].export]);
	}
	return 0;
}

/* Let everything in flight end without looking at it, so that the elevators can be taken down. */
static void drain(struct world *w)
{
	close_all(w);
	w->nscript = 0;
	while (w->nbusy || w->wake != ELV_NEVER) {
		if (w->nbusy) {
			struct elv_io *io = w->busy[--w->nbusy].io;
			struct elv_requests done;

			if (!w->busy[w->nbusy].executed) {
				io->result = -EIO;
				io->sync_failed = false;
			}
			TAILQ_INIT(&done);
			elv_complete(io, w->now, &done);
			finished(w, &done);
		} else {
			w->now = w->wake;
		}
		dispatch(w);
	}
}

static void take_down(struct world *w)
{
	for (unsigned i = 0; i < LOSS_ACCOUNTS; i++)
		elv_client_exit(&w->account[i]);
	for (unsigned i = 0; i < EXPORTS; i++)
		elevator_exit(&w->e[i]);
	elv_store_exit(w->disk.elv);
	for (unsigned i = 0; i < w->nopened; i++)
		free(w->opened[i]);
	w->disk.ops->close(&w->disk);
}

void loss_run(const struct loss_plan *plan, struct loss_outcome *out)
{
	struct world *w = calloc(1, sizeof(*w));

	memset(out, 0, sizeof(*out));
	w->plan = plan;
	w->out = out;
	if (!set_up(w)) {
		go(w);
		if (!w->cut)
			second_half(w);
		w->disk.ops->crash(&w->disk, plan->crash);
		check_image(w, true);
		out->fault_came = w->disk.fault_came;
		out->ios = w->disk.ios;
		out->syncs = w->disk.syncs;
		if (is_wrong(w)) {
			char what[160];

			snprintf(out->wrong, sizeof(out->wrong), "%s: %s", loss_describe(plan, what, sizeof(what)),
				 w->o.wrong);
		}
		if (is_wrong(w) && !plan->defect)
			return; /* in whatever state it is: the test has failed */
		drain(w);
		take_down(w);
	} else {
		snprintf(out->wrong, sizeof(out->wrong), "%s", w->o.wrong);
	}
	free(w);
}
