/*
 * The oracle: what must hold whatever the policy does, in naive terms.
 *
 * It keeps its own list of pending requests, its own counts and its own notes on failed syncs, and
 * looks at each io, reply and counter from outside. With an image, requests are also followed block
 * by block: which have been dispatched and which are finished.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sim/internal.h"

static unsigned long long serial(const struct sim_request *r)
{
	return (unsigned long long)r->serial;
}

static struct sim_store *store_of(const struct sim_request *r)
{
	return r->conn->client->export->store;
}

static bool follows_blocks(const struct sim_store *s)
{
	return s->image != NULL;
}

void oracle_arrive(struct sim_request *r)
{
	struct sim_store *s = store_of(r);

	r->pending = true;
	r->guilty = 0;
	r->hurt = false;
	r->taken = 0;
	TAILQ_INSERT_TAIL(&s->pending, r, link);
	r->conn->pending++;
	r->conn->client->pending++;
	if (follows_blocks(s) && r->length) {
		size_t words = (size_t)(r->length / s->s.block + 2) / 64 + 1;

		r->out = sim_alloc(words * sizeof(uint64_t));
		r->done = sim_alloc(words * sizeof(uint64_t));
	}
}

/* --- order --- */

static bool conflict(const struct sim_request *older, const struct sim_request *younger)
{
	bool om = elv_modifies(older->op), ym = elv_modifies(younger->op);

	if (elv_is_unordered(older->op) || elv_is_unordered(younger->op))
		return false;
	if (om && ym)
		return true;
	return (om || ym) && older->conn->client->c.identity == younger->conn->client->c.identity;
}

/* Must the bytes of `p` wait for something of `older`? */
static bool in_the_way(const struct sim_store *s, const struct sim_request *older,
		       const struct sim_piece *p)
{
	uint64_t first = blocks_first(s, older->offset), b, end;

	if (older->serial >= p->r->serial || older->op == ELV_FLUSH || !conflict(older, p->r))
		return false;
	b = blocks_first(s, p->offset);
	end = blocks_end(s, p->offset, p->length);
	if (b < first)
		b = first;
	if (end > blocks_end(s, older->offset, older->length))
		end = blocks_end(s, older->offset, older->length);
	for (; b < end; b++) {
		bool out = bit(older->out, b - first), done = bit(older->done, b - first);
		bool given_up = !out && (older->rq.withdrawn || older->rq.error);

		if (!done && !given_up)
			return true;
	}
	return false;
}

static bool has_piece(const struct sim_flight *f, const struct sim_request *r)
{
	for (unsigned i = 0; i < f->npieces; i++)
		if (f->pieces[i].r == r)
			return true;
	return false;
}

/* Is the piece dispatched too early? Other parts of the same io are not in its way. */
static void check_order(const struct sim_flight *f, const struct sim_piece *p)
{
	struct sim_store *s = store_of(p->r);
	const struct sim_request *older;

	TAILQ_FOREACH(older, &s->pending, link) {
		if (older->serial >= p->r->serial)
			break;
		if (in_the_way(s, older, p) && !has_piece(f, older))
			sim_wrong(f->disk->sim, "request %llu overtook %llu", serial(p->r),
				  serial(older));
	}
}

/* --- ios --- */

static unsigned long long ull(uint64_t x)
{
	return (unsigned long long)x;
}

/* The io's memory is that of its pieces, in order. */
static void check_iov(struct sim_flight *f)
{
	const struct elv_io *io = f->io;
	uint64_t at = io->offset, end = io->offset + io->length;
	unsigned i = 0;
	uint64_t in = 0; /* into iov[i] */

	if (io->op == ELV_STATUS) { /* whole, alone, with the memory of its request */
		const struct sim_request *r = f->pieces[0].r;

		if (f->npieces != 1 || f->pieces[0].length != r->length || io->niov != 1 ||
		    io->iov[0].iov_base != (void *)r->rq.data)
			sim_wrong(f->disk->sim, "a STATUS io is not its request");
		return;
	}
	if (io->op != ELV_READ && io->op != ELV_WRITE) {
		if (io->niov)
			sim_wrong(f->disk->sim, "an io without data has memory");
		return;
	}
	for (unsigned p = 0; p < f->npieces; p++) {
		const struct sim_piece *piece = &f->pieces[p];

		while (at < end && at >= piece->offset && at < piece->offset + piece->length) {
			uint64_t left = piece->offset + piece->length - at;
			char *want = piece->r->rq.data + (at - piece->r->offset);

			if (i >= io->niov || (char *)io->iov[i].iov_base + in != want) {
				sim_wrong(f->disk->sim, "io at %llu: wrong memory for byte %llu",
					  ull(io->offset), ull(at));
				return;
			}
			if (left > io->iov[i].iov_len - in)
				left = io->iov[i].iov_len - in;
			if (left > end - at)
				left = end - at;
			at += left;
			in += left;
			if (in == io->iov[i].iov_len) {
				i++;
				in = 0;
			}
		}
	}
	if (at != end || i != io->niov || in)
		sim_wrong(f->disk->sim, "io at %llu: memory for something else", ull(io->offset));
}

/* The pieces touch, are of one kind, and the io is exactly their union. */
static void check_union(struct sim_flight *f)
{
	const struct elv_io *io = f->io;
	struct sim *sim = f->disk->sim;
	uint64_t at = io->offset;

	for (unsigned i = 0; i < f->npieces; i++) {
		const struct sim_piece *p = &f->pieces[i];
		const struct sim_request *r = p->r;

		if (!r->pending || r->op != io->op || r->conn->client->export != f->export)
			sim_wrong(sim, "request %llu is in an io that is not for it", serial(r));
		if (elv_modifies(r->op) && (r->flags & ~ELV_FUA) != (io->flags & ~ELV_FUA))
			sim_wrong(sim, "request %llu is in an io with other flags", serial(r));
		if (p->offset != at || p->offset < r->offset ||
		    p->offset + p->length > r->offset + r->length)
			sim_wrong(sim, "the pieces of an io at %llu do not touch", ull(io->offset));
		if (f->export->e.policy->per_client &&
		    r->conn->client != f->pieces[0].r->conn->client)
			sim_wrong(sim, "an io of two clients under a policy that knows clients");
		at += p->length;
	}
	if (!f->npieces || at != io->offset + io->length)
		sim_wrong(sim, "an io at %llu is not the union of its pieces", ull(io->offset));
	if (f->npieces > ELV_MAX_SEGMENTS || io->niov > ELV_MAX_SEGMENTS)
		sim_wrong(sim, "an io of too many pieces");
	if (io->op != ELV_STATUS &&
	    io->length > (elv_is_discard(io->op) ? f->export->largest_discard
						 : f->export->largest_io))
		sim_wrong(sim, "an io of %llu bytes", ull(io->length));
	if ((io->flags & ELV_FUA) && io->op != ELV_WRITE)
		sim_wrong(sim, "an io with FUA that is no write");
}

static void take_piece(struct sim_flight *f, const struct sim_piece *p)
{
	struct sim_store *s = store_of(p->r);
	struct sim_request *r = p->r;

	r->taken += p->length;
	if (r->taken > r->length)
		sim_wrong(f->disk->sim, "more was dispatched than request %llu has", serial(r));
	if (!follows_blocks(s))
		return;
	check_order(f, p);
	for (uint64_t b = blocks_first(s, p->offset);
	     b < blocks_end(s, p->offset, p->length); b++) {
		uint64_t i = b - blocks_first(s, r->offset);

		if (bit(r->out, i))
			sim_wrong(f->disk->sim, "request %llu was dispatched twice", serial(r));
		set_bit(r->out, i);
	}
}

static void check_budgets(struct sim_flight *f)
{
	struct sim_export *x = f->export;
	struct sim *sim = f->disk->sim;
	unsigned in_flight = 0;

	TAILQ_FOREACH(x, &sim->exports, link)
		if (x->store->disk == f->disk)
			in_flight += x->in_flight;
	x = f->export;
	if (x->in_flight > x->e.depth)
		sim_wrong(sim, "%u ios in flight, depth %u", x->in_flight, x->e.depth);
	if (in_flight > f->disk->d.depth)
		sim_wrong(sim, "%u ios at the disk, depth %u", in_flight, f->disk->d.depth);
	if (x->store->discards > 1)
		sim_wrong(sim, "two discards at one store");
}

static void check_promotion(struct sim_flight *f)
{
	struct sim_export *x = f->export;

	x->dispatched++;
	if (!f->io->promoted) {
		x->since_promotion++;
		return;
	}
	x->promoted++;
	if (x->since_promotion < 7)
		sim_wrong(f->disk->sim, "promoted after %u dispatches", x->since_promotion);
	x->since_promotion = 0;
	if (!x->e.params.max_queue_age)
		sim_wrong(f->disk->sim, "promoted though it is off");
}

/* Its owner, or one of them, pays. */
static void charge(struct sim_flight *f)
{
	struct sim_client *c = tree_entry(f->io->client, struct sim_client, c);

	c->cost += f->io->cost;
	for (unsigned i = 0; i < f->npieces; i++)
		if (f->pieces[i].r->conn->client == c)
			return;
	sim_wrong(f->disk->sim, "an io is charged to somebody else");
}

void oracle_take(struct sim_flight *f)
{
	struct sim_export *x = f->export;

	x->in_flight++;
	if (elv_is_discard(f->io->op))
		x->store->discards++;
	check_union(f);
	check_iov(f);
	check_budgets(f);
	check_promotion(f);
	for (unsigned i = 0; i < f->npieces; i++)
		take_piece(f, &f->pieces[i]);
	charge(f);
}

void oracle_again(struct sim_flight *f)
{
	uint64_t start = f->pieces[0].offset;
	const struct sim_piece *last = &f->pieces[f->npieces - 1];

	if (f->io->offset < start || f->io->offset + f->io->length > last->offset + last->length ||
	    !f->io->length)
		sim_wrong(f->disk->sim, "an io comes again for other bytes");
	check_iov(f);
}

/*
 * Held back for a reason? One that waits for what is in the way of its own blocker goes on doing so
 * for a moment if that blocker is withdrawn, or dispatched by the slice.
 */
static void check_held(struct sim *sim, struct sim_request *r)
{
	struct sim_store *s = store_of(r);
	struct sim_piece rest = { r, r->offset, r->length };
	const struct sim_request *older;

	if (r->rq.held_by == &r->rq) {
		if ((!r->conn->client->export->e.serial && r->op != ELV_CACHE) || !r->rq.in_flight)
			sim_wrong(sim, "request %llu waits for itself", serial(r));
		return;
	}
	TAILQ_FOREACH(older, &s->pending, link) {
		if (older->serial >= r->serial)
			break;
		if (in_the_way(s, older, &rest)) {
			r->held_by = r->rq.held_by;
			return;
		}
	}
	if (elv_is_discard(r->op) && s->discards)
		return;
	if (r->rq.held_by && r->rq.held_by == r->held_by)
		return;
	TAILQ_FOREACH(older, &s->pending, link)
		if (elv_is_discard(r->op) && elv_is_discard(older->op) && older != r &&
		    older->conn->client == r->conn->client && older->rq.state == ELV_QUEUED)
			return;
	sim_wrong(sim, "request %llu is held back for nothing", serial(r));
}

/* The policies that may leave the disk idle while they have requests: cfq, where it waits. */
static bool may_wait(const struct sim_export *x)
{
	const struct sim_request *r;

	if (strcmp(x->e.policy->name, "cfq"))
		return false;
	if (x->e.rotational)
		return true;
	TAILQ_FOREACH(r, &x->store->pending, link)
		if (r->conn->client->export == x && r->rq.state == ELV_QUEUED &&
		    r->conn->client->c.params.io_class != ELV_CLASS_IDLE)
			return false;
	return true;
}

void oracle_dispatched(struct sim_disk *d)
{
	struct sim *sim = d->sim;
	struct sim_export *x;
	unsigned in_flight = 0;
	bool unfinished = false;

	TAILQ_FOREACH(x, &sim->exports, link) {
		if (x->store->disk != d)
			continue;
		in_flight += x->in_flight;
		unfinished |= !TAILQ_EMPTY(&x->store->pending);
	}
	if (unfinished && !d->nflights && d->wake == ELV_NEVER)
		sim_wrong(sim, "requests wait and nobody will ask again");
	if (in_flight != d->d.in_flight)
		sim_wrong(sim, "%u ios at the disk, which counts %u", in_flight, d->d.in_flight);
	if (in_flight >= d->d.depth)
		return;
	TAILQ_FOREACH(x, &sim->exports, link)
		if (x->store->disk == d && x->in_flight < x->e.depth && x->e.in_policy &&
		    !may_wait(x))
			sim_wrong(sim, "%s leaves the disk idle with %u runs queued",
				  x->e.policy->name, x->e.in_policy);
}

/* --- ends --- */

static int sync_errno(int result)
{
	return result == -ENOSPC || result == -EDQUOT ? -ENOSPC : -EIO;
}

/* Everybody with an open connection, and all whose writes may be lost, must be told. */
static void sync_failed(struct sim_store *s, int error)
{
	struct sim *sim = s->disk->sim;
	struct sim_client *c;
	struct sim_conn *conn;

	error = sync_errno(error);
	s->failed_error = error;
	s->failed_at = sim->now;
	TAILQ_FOREACH(c, &sim->clients, link) {
		if (c->export->store != s)
			continue;
		TAILQ_FOREACH(conn, &c->conns, link)
			if (conn->c.open)
				conn->sticky = error;
		if (c->dirty_before || c->dirty_since)
			c->owed = error;
	}
}

void oracle_sync_began(struct sim_store *s)
{
	struct sim_client *c;

	if (s->syncing)
		sim_wrong(s->disk->sim, "two syncs at one store");
	s->syncing = true;
	TAILQ_FOREACH(c, &s->disk->sim->clients, link) {
		if (c->export->store != s)
			continue;
		c->dirty_before = c->dirty_since;
		c->dirty_since = false;
	}
}

static void sync_ends(struct sim_store *s, struct sim_flight *f)
{
	struct sim_client *c;

	s->syncing = false;
	if (f->result < 0)
		sync_failed(s, (int)f->result);
	TAILQ_FOREACH(c, &s->disk->sim->clients, link)
		if (c->export->store == s)
			c->dirty_before = false;
}

void oracle_ends(struct sim_flight *f)
{
	struct elv_io *io = f->io;
	bool sole = f->npieces == 1 || io->alone;
	struct sim_request *r;
	bool failed;

	if (!f->export) {
		sync_ends(tree_entry(io->store, struct sim_store, s), f);
		return;
	}
	if (f->sync_failed)
		sync_failed(f->export->store, f->result < 0 ? (int)f->result : 0);
	failed = f->result < 0 || ((io->op == ELV_READ || io->op == ELV_WRITE) &&
				   f->result < (int64_t)io->length);
	if (!failed)
		return;
	for (unsigned i = f->finished; i < f->npieces; i++)
		f->pieces[i].r->hurt = true;
	if (!sole || f->result > 0)
		return;
	r = io->alone ? tree_entry(io->alone, struct sim_request, rq) : f->pieces[0].r;
	if (!r->guilty)
		r->guilty = f->result < 0 ? (int)f->result : -EIO;
}

/* r was written. Was it under way when a sync failed? Then it may be lost all the same. */
static void now_dirty(const struct sim_flight *f, struct sim_request *r)
{
	const struct sim_store *s = store_of(r);
	struct sim_client *c = r->conn->client;

	c->dirty_since = true;
	if (s->failed_error && f->begun <= s->failed_at && r->conn->c.open && !r->guilty)
		c->owed = s->failed_error;
}

void oracle_finished(struct sim_flight *f, unsigned n)
{
	/* A result of 0 is an error, too: nothing was written. */
	bool durable = f->io->op == ELV_WRITE && (f->io->flags & ELV_FUA) && f->result > 0;

	for (; f->finished < n; f->finished++) {
		const struct sim_piece *p = &f->pieces[f->finished];
		struct sim_store *s = store_of(p->r);
		uint64_t zero = blocks_first(s, p->r->offset);

		if (elv_modifies(p->r->op) && !durable)
			now_dirty(f, p->r);
		for (uint64_t b = blocks_first(s, p->offset);
		     follows_blocks(s) && b < blocks_end(s, p->offset, p->length); b++)
			set_bit(p->r->done, b - zero);
	}
}

/* --- replies --- */

static bool makes_durable(const struct sim_request *r)
{
	return r->op == ELV_FLUSH || (elv_modifies(r->op) && (r->flags & ELV_FUA));
}

/* What FLUSH and FUA must say about syncs, beyond errors of their own. */
static int sync_answer(struct sim_request *r)
{
	struct sim_client *c = r->conn->client;
	int error = r->conn->sticky ? r->conn->sticky : c->owed;

	if (!r->guilty) {
		c->owed = 0;
		if (error)
			r->conn->told = error;
	}
	return error;
}

static void check_answer(struct sim *sim, struct sim_request *r)
{
	int want = r->guilty, told;

	if (makes_durable(r)) {
		told = sync_answer(r);
		if (!want)
			want = told;
	}
	if (r->rq.error != want)
		sim_wrong(sim, "request %llu (op %d): error %d instead of %d", serial(r), r->op,
			  r->rq.error, want);
	if (r->rq.withdrawn)
		sim_wrong(sim, "request %llu was withdrawn from an open connection", serial(r));
	if (!r->rq.error && r->taken != r->length)
		sim_wrong(sim, "request %llu was answered after %llu of %llu bytes", serial(r),
			  ull(r->taken), ull(r->length));
}

void oracle_reply(struct sim_request *r)
{
	struct sim *sim = r->conn->client->sim;
	const struct elv_request *rq = &r->rq;

	if (!r->pending)
		sim_wrong(sim, "request %llu came back twice", serial(r));
	if (rq->conn != &r->conn->c || rq->offset != r->offset || rq->length != r->length ||
	    rq->op != r->op || rq->flags != r->flags || rq->arrival != r->arrival)
		sim_wrong(sim, "request %llu came back changed", serial(r));
	if (r->conn->c.open)
		check_answer(sim, r);
	else if (!rq->withdrawn && !r->guilty && r->taken != r->length)
		sim_wrong(sim, "request %llu came back half done", serial(r));
	if (store_of(r)->image)
		sim_image_reply(store_of(r), r);
	r->pending = false;
	TAILQ_REMOVE(&store_of(r)->pending, r, link);
	r->conn->pending--;
	r->conn->client->pending--;
}

/* --- structures and counters --- */

static void check_export(struct sim *sim, struct sim_export *x)
{
	const char *wrong = elv_check(&x->e);

	if (wrong)
		sim_wrong(sim, "%s: %s", x->e.policy->name, wrong);
	if (x->e.in_flight != x->in_flight)
		sim_wrong(sim, "%u ios in flight, the elevator counts %u", x->in_flight,
			  x->e.in_flight);
	if (x->store->s.discarding != (x->store->discards > 0))
		sim_wrong(sim, "the discard slot is miscounted");
}

static void check_clients(struct sim *sim)
{
	struct sim_client *c;
	struct sim_conn *conn;

	TAILQ_FOREACH(c, &sim->clients, link) {
		unsigned open = 0;

		TAILQ_FOREACH(conn, &c->conns, link) {
			open += conn->c.open;
			if (conn->c.unfinished != conn->pending)
				sim_wrong(sim, "%u unfinished requests, a connection counts %u",
					  conn->pending, conn->c.unfinished);
		}
		if (c->c.queued + c->c.in_flight != c->pending || c->c.conns != open)
			sim_wrong(sim, "%u unfinished requests, a client counts %u and %u",
				  c->pending, c->c.queued, c->c.in_flight);
		if (c->c.owed_error != c->owed)
			sim_wrong(sim, "a client is owed error %d, not %d", c->owed,
				  c->c.owed_error);
	}
}

void oracle_check(struct sim *sim)
{
	struct sim_export *x;
	struct sim_store *s;
	struct sim_request *r;

	TAILQ_FOREACH(x, &sim->exports, link)
		check_export(sim, x);
	check_clients(sim);
	TAILQ_FOREACH(s, &sim->stores, link) {
		if (!follows_blocks(s))
			continue;
		TAILQ_FOREACH(r, &s->pending, link)
			if (r->rq.state == ELV_HELD)
				check_held(sim, r);
	}
}
