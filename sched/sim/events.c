/* The harness: virtual time. A heap of events, by time and then in the order of arming. */
#include <stdlib.h>

#include "sched/sim/internal.h"

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void place(struct sim *sim, unsigned slot, struct sim_event *event)
{
	sim->heap[slot] = event;
	event->slot = slot;
}

/* Move the event at slot to where it belongs. */
static void sift(struct sim *sim, unsigned slot)
{
	struct sim_event *event = sim->heap[slot];

	while (slot > 1 && before(event, sim->heap[slot / 2])) {
		place(sim, slot, sim->heap[slot / 2]);
		slot /= 2;
	}
	for (;;) {
		unsigned child = 2 * slot;

		if (child < sim->nevents && before(sim->heap[child + 1], sim->heap[child]))
			child++;
		if (child > sim->nevents || !before(sim->heap[child], event))
			break;
		place(sim, slot, sim->heap[child]);
		slot = child;
	}
	place(sim, slot, event);
}

void sim_disarm(struct sim *sim, struct sim_event *event)
{
	unsigned slot = event->slot;
	struct sim_event *last;

	if (!slot)
		return;
	event->slot = 0;
	last = sim->heap[sim->nevents--];
	if (last == event)
		return;
	place(sim, slot, last);
	sift(sim, slot);
}

void sim_arm(struct sim *sim, struct sim_event *event, uint64_t at)
{
	sim_disarm(sim, event);
	if (at < sim->now)
		sim_wrong(sim, "an event in the past");
	event->at = at;
	event->order = sim->event_order++;
	if (sim->nevents + 2 > sim->room) {
		sim->room = 2 * sim->room + 64;
		sim->heap = realloc(sim->heap, sim->room * sizeof(*sim->heap));
		if (!sim->heap)
			abort();
	}
	place(sim, ++sim->nevents, event);
	sift(sim, sim->nevents);
}

/* Dispatch; submission arms the completions. */
static void turn(struct sim *sim, struct sim_disk *d)
{
	sim_dispatch(d);
	if (d->wake != ELV_NEVER)
		sim_arm(sim, &d->timer, d->wake);
	else
		sim_disarm(sim, &d->timer);
}

/* Everything of one instant happens before the disks are asked, as in one turn of a loop. */
void sim_run(struct sim *sim, uint64_t until)
{
	struct sim_disk *d;

	sim->timed = true;
	while (!sim->wrong[0]) {
		struct sim_event *next = sim->nevents ? sim->heap[1] : NULL;

		if (next && next->at == sim->now) {
			sim_disarm(sim, next);
			next->fire(sim, next);
			continue;
		}
		TAILQ_FOREACH(d, &sim->disks, link)
			if (d->touched)
				turn(sim, d);
		next = sim->nevents ? sim->heap[1] : NULL;
		if (!next || next->at > until)
			break;
		sim->now = next->at;
	}
	sim->timed = false;
	if (sim->now < until)
		sim->now = until;
}
