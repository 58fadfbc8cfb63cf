#include "plugin/gate.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

struct gate_request {
	struct elv_request elv;
	struct gate *gate;
	pthread_cond_t cond;     /* with the disk's lock */
	struct elv_ios granted;  /* to be executed by this thread */
	bool done;
	bool asleep;
	uint64_t until;          /* if it is the keeper: when it wakes up by itself */
	TAILQ_ENTRY(gate_request) link;
};

static struct gate_request *request_of(struct elv_request *rq)
{
	return (struct gate_request *)((char *)rq - offsetof(struct gate_request, elv));
}

void gate_init(struct gate *g, struct export *e)
{
	*g = (struct gate){ .export = e, .wake = ELV_NEVER };
	TAILQ_INIT(&g->conns);
	TAILQ_INIT(&g->asleep);
}

/* ---- under the disk's lock ---- */

static void rouse(struct gate_request *r)
{
	if (r->asleep)
		pthread_cond_signal(&r->cond);
}

/*
 * Somebody has to wake up at g->wake. The last one who came will be here longest. Without anybody
 * asleep it is the next one who goes to sleep.
 */
static void appoint_keeper(struct gate *g)
{
	if (g->keeper ? g->keeper->until <= g->wake : g->wake == ELV_NEVER)
		return;
	if (!g->keeper)
		g->keeper = TAILQ_LAST(&g->asleep, gate_requests);
	if (g->keeper)
		rouse(g->keeper);
}

/* Ask the elevator what may go now, and hand it out. */
static void dispatch(struct gate *g, uint64_t now)
{
	struct elv_ios out = TAILQ_HEAD_INITIALIZER(out);
	struct elv_io *io;

	elv_disk_dispatch(&g->export->disk->elv, now, &out, &g->wake);
	while ((io = TAILQ_FIRST(&out))) {
		struct gate_request *r;
		struct elv_request *rq = elv_io_request(io);

		assert(rq); /* nothing is withdrawn: a connection ends after its requests */
		r = request_of(rq);
		TAILQ_REMOVE(&out, io, link);
		TAILQ_INSERT_TAIL(&r->granted, io, link);
		rouse(r);
	}
	appoint_keeper(g);
}

/* Wait for a grant, the end, or the time to ask again. Who is the keeper stays it until then. */
static void doze(struct gate *g, struct gate_request *r)
{
	pthread_mutex_t *lock = &g->export->disk->lock;
	uint64_t now;

	r->asleep = true;
	TAILQ_INSERT_TAIL(&g->asleep, r, link);
	if (!g->keeper)
		g->keeper = r;
	r->until = g->keeper == r ? g->wake : ELV_NEVER;
	if (r->until != ELV_NEVER) {
		struct timespec until = { .tv_sec = (time_t)(r->until / 1000000000),
					  .tv_nsec = (long)(r->until % 1000000000) };

		pthread_cond_timedwait(&r->cond, lock, &until);
	} else {
		pthread_cond_wait(&r->cond, lock);
	}
	TAILQ_REMOVE(&g->asleep, r, link);
	r->asleep = false;
	now = disk_now();
	if (g->wake <= now)
		dispatch(g, now);
	if (g->keeper == r && (r->done || !TAILQ_EMPTY(&r->granted))) {
		g->keeper = NULL;
		appoint_keeper(g);
	}
}

/* Execute what was granted, with the lock released meanwhile. */
static void work(struct gate *g, struct gate_request *r)
{
	struct elv_requests done = TAILQ_HEAD_INITIALIZER(done);
	struct elv_io *io = TAILQ_FIRST(&r->granted);
	struct elv_request *rq;
	uint64_t now;

	TAILQ_REMOVE(&r->granted, io, link);
	disk_unlock(g->export->disk);
	store_run(store_of(io), io);
	now = disk_lock(g->export->disk);
	elv_complete(io, now, &done);
	while ((rq = TAILQ_FIRST(&done))) {
		TAILQ_REMOVE(&done, rq, link);
		request_of(rq)->done = true;
		rouse(request_of(rq));
	}
	dispatch(g, now);
}

/* ---- the whole way of a request ---- */

struct ticket {
	struct budget_waiter waiter;
	sem_t granted;
};

static void grant(struct budget_waiter *w)
{
	sem_post(&((struct ticket *)((char *)w - offsetof(struct ticket, waiter)))->granted);
}

/* The client's place in the queue; waits for it. */
static void reserve(struct budget_account *a, const struct budget_need *need)
{
	struct ticket t;

	sem_init(&t.granted, 0, 0);
	budget_waiter_init(&t.waiter, grant);
	if (!budget_take(a, need, 1, &t.waiter))
		do {
			while (sem_wait(&t.granted))
				;
		} while (!budget_accept(&t.waiter));
	sem_destroy(&t.granted);
}

static void give_back(struct budget_account *a, const struct budget_need *need)
{
	budget_lock(a->budget);
	budget_slot(a, need->dir);
	budget_end(a, need->bytes, BUDGET_ANSWERED);
	budget_unlock(a->budget);
}

static void init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int gate_execute(struct gate_conn *c, enum elv_op op, unsigned flags, char *data, uint64_t offset,
		 uint64_t length)
{
	struct budget_need need = { op == ELV_READ || op == ELV_WRITE ? length : 0, elv_dir(op) };
	struct gate *g = c->gate;
	struct disk *d = g->export->disk;
	_Alignas(ELV_REQUEST_ALIGN) struct gate_request r = {
		.elv = { .conn = &c->elv, .op = op, .flags = flags, .data = data,
			 .offset = offset, .length = length },
		.gate = g,
	};
	uint64_t now;

	init_cond(&r.cond);
	TAILQ_INIT(&r.granted);
	reserve(&c->client->budget, &need);
	now = disk_lock(d);
	elv_insert(&r.elv, now);
	dispatch(g, now);
	while (!r.done) {
		if (!TAILQ_EMPTY(&r.granted))
			work(g, &r);
		else
			doze(g, &r);
	}
	disk_unlock(d);
	give_back(&c->client->budget, &need);
	pthread_cond_destroy(&r.cond);
	return r.elv.error;
}

void gate_kick(struct gate *g)
{
	uint64_t now = disk_lock(g->export->disk);

	dispatch(g, now);
	disk_unlock(g->export->disk);
}

/* ---- connections ---- */

int gate_open(struct gate *g, struct client_peer *peer, struct gate_conn *c, char *err,
	      size_t errlen)
{
	struct export *e = g->export;
	int res;

	peer->serial = atomic_fetch_add(&e->server->serial, 1) + 1;
	c->seat = (struct seat){ .fd = -1 }; /* the socket is nbdkit's */
	res = export_attach(e, peer, &c->seat, err, errlen);
	if (res)
		return res;
	c->client = c->seat.client;
	c->gate = g;
	atomic_fetch_add(&e->server->connections, 1);
	disk_lock(e->disk);
	elv_conn_open(&c->elv, &c->client->elv);
	TAILQ_INSERT_TAIL(&g->conns, c, link);
	e->connections++;
	e->connections_total++;
	disk_unlock(e->disk);
	return 0;
}

/*
 * Whether the client got its last answers nobody tells, so it counts as not having heard of a
 * failed sync: better to be told again than never.
 */
void gate_close(struct gate_conn *c)
{
	struct elv_requests done = TAILQ_HEAD_INITIALIZER(done);
	struct export *e = c->gate->export;
	uint64_t now = disk_lock(e->disk);

	elv_conn_close(&c->elv, false, now, &done);
	assert(TAILQ_EMPTY(&done));
	TAILQ_REMOVE(&c->gate->conns, c, link);
	e->connections--;
	dispatch(c->gate, now);
	disk_unlock(e->disk);
	atomic_fetch_sub(&e->server->connections, 1);
	seat_free(&c->seat);
}
