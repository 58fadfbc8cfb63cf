/* Loads: closed and open loops. */
#include "sched/sim/load.h"

#include <math.h>
#include <stdlib.h>

#include "sched/sim/internal.h"

/* One of the `depth` places of a closed loop, while it thinks. */
struct sim_thought {
	struct sim_event wake;
	struct sim_load *load;
};

uint64_t sim_exponential(struct sim_random *r, uint64_t mean)
{
	double u = ((double)(sim_random(r) >> 11) + 0.5) / 9007199254740992.0; /* in (0, 1) */

	return (uint64_t)(-log(u) * (double)mean);
}

/* --- what comes next --- */

static uint64_t choose_size(struct sim_load *l)
{
	uint64_t dice = sim_below(&l->dice, 100);
	unsigned i;

	for (i = 0; i + 1 < SIM_LOAD_SIZES && l->sizes[i + 1].bytes; i++) {
		if (dice < l->sizes[i].percent)
			break;
		dice -= l->sizes[i].percent;
	}
	return l->sizes[i].bytes;
}

static enum elv_op choose_op(struct sim_load *l)
{
	uint64_t dice = sim_below(&l->dice, 100);

	if (dice < l->writes)
		return ELV_WRITE;
	if (dice < l->writes + l->trims)
		return ELV_TRIM;
	return dice < l->writes + l->trims + l->flushes ? ELV_FLUSH : ELV_READ;
}

static uint64_t choose_offset(struct sim_load *l, uint64_t size)
{
	uint64_t at;

	if (l->random)
		return l->start + sim_below(&l->dice, l->span / size) * size;
	if (l->next + size > l->span)
		l->next = 0;
	at = l->start + l->next;
	l->next += size;
	return at;
}

/* The next open connection; there must be one. */
static void next_conn(struct sim_load *l)
{
	do {
		l->conn = l->conn ? TAILQ_NEXT(l->conn, link) : NULL;
		if (!l->conn)
			l->conn = TAILQ_FIRST(&l->client->conns);
	} while (!l->conn->c.open);
}

static void submit_one(struct sim_load *l)
{
	enum elv_op op = choose_op(l);
	uint64_t size = choose_size(l);
	unsigned flags = elv_modifies(op) && sim_chance(&l->dice, l->fua) ? ELV_FUA : 0;

	next_conn(l);
	if (op == ELV_FLUSH)
		sim_submit(l->conn, op, 0, 0, 0);
	else
		sim_submit(l->conn, op, choose_offset(l, size), size, flags);
}

/* The time from `at` on at which the load works; ELV_NEVER: it is over. */
static uint64_t working_time(const struct sim_load *l, uint64_t at)
{
	uint64_t since;

	if (at < l->epoch + l->begin)
		at = l->epoch + l->begin;
	if (l->on) {
		since = (at - l->epoch - l->begin) % (l->on + l->off);
		if (since >= l->on)
			at += l->on + l->off - since;
	}
	return l->end && at >= l->epoch + l->end ? ELV_NEVER : at;
}

/* --- closed loop --- */

static void on_wake(struct sim *sim, struct sim_event *event)
{
	struct sim_load *l = tree_entry(event, struct sim_thought, wake)->load;

	(void)sim;
	submit_one(l);
}

static void think(struct sim_load *l, uint64_t ns)
{
	struct sim *sim = l->client->sim;
	struct sim_thought *t = NULL;
	uint64_t at = working_time(l, sim->now + ns);

	if (at == ELV_NEVER)
		return;
	for (unsigned i = 0; i < l->depth && !t; i++)
		if (!l->thoughts[i].wake.slot)
			t = &l->thoughts[i];
	sim_arm(sim, &t->wake, at);
}

void load_reply(struct sim_client *c)
{
	struct sim_load *l = c->load;

	if (l->depth)
		think(l, l->think + (l->think_spread ? sim_below(&l->dice, l->think_spread) : 0));
}

/* --- open loop --- */

static void on_tick(struct sim *sim, struct sim_event *event)
{
	struct sim_load *l = tree_entry(event, struct sim_load, tick);
	uint64_t gap = l->poisson ? sim_exponential(&l->dice, l->interval) : l->interval;
	uint64_t at = working_time(l, sim->now + gap);

	submit_one(l);
	if (at != ELV_NEVER)
		sim_arm(sim, &l->tick, at);
}

void sim_load_start(struct sim_client *c, const struct sim_load *load, unsigned conns)
{
	struct sim_load *l = sim_alloc(sizeof(*l));
	struct sim *sim = c->sim;

	*l = *load;
	l->client = c;
	l->epoch = sim->now;
	l->dice.state = sim_random(&sim->random);
	l->tick.fire = on_tick;
	c->load = l;
	for (unsigned i = 0; i < conns; i++)
		sim_conn_new(c);
	if (l->interval) {
		l->depth = 0;
		sim_arm(sim, &l->tick, working_time(l, sim->now));
		return;
	}
	l->thoughts = sim_alloc(l->depth * sizeof(*l->thoughts));
	for (unsigned i = 0; i < l->depth; i++) {
		l->thoughts[i].load = l;
		l->thoughts[i].wake.fire = on_wake;
	}
	for (unsigned i = 0; i < l->depth; i++)
		think(l, 0);
}

void sim_load_stop(struct sim_client *c)
{
	struct sim_load *l = c->load;

	if (!l)
		return;
	sim_disarm(c->sim, &l->tick);
	for (unsigned i = 0; i < l->depth; i++)
		sim_disarm(c->sim, &l->thoughts[i].wake);
	l->end = 1;
	l->begin = 0;
	l->epoch = 0;
}

void load_free(struct sim_client *c)
{
	if (!c->load)
		return;
	sim_load_stop(c);
	free(c->load->thoughts);
	free(c->load);
}
