/* A world for tests in virtual time: see world.h. */
#include "tests/unit/world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/chaos.h"

void world_make(struct world *w, const char *policy, const struct sim_model *model, unsigned depth,
		const struct party *parties, unsigned n)
{
	struct sim_setup setup = {
		.policy = policy, .depth = depth, .rotational = model->rotational,
	};

	*w = (struct world){ .sim = sim_new(1), .n = n };
	w->disk = sim_disk_new(w->sim, model);
	w->store = sim_store_new(w->disk, 512, 0);
	w->export = sim_export_new(w->store, &setup);
	for (unsigned i = 0; i < n; i++)
		w->client[i] = sim_client_new(w->export, i + 1, parties[i].weight,
					      parties[i].io_class);
}

void world_go(struct world *w, const struct party *parties)
{
	for (unsigned i = 0; i < w->n; i++)
		sim_load_start(w->client[i], &parties[i].load,
			       parties[i].conns ? parties[i].conns : 1);
	world_mark(w);
}

void world_run(struct world *w, uint64_t ns)
{
	const char *wrong;

	sim_run(w->sim, w->sim->now + ns);
	all_well(w->sim, w->export->e.policy->name, 1);
	wrong = elv_check(&w->export->e);
	ck_assert_msg(!wrong, "%s", wrong);
}

void world_mark(struct world *w)
{
	w->marked_at = w->sim->now;
	for (unsigned i = 0; i < w->n; i++) {
		w->mark[i].cost = w->client[i]->cost;
		w->mark[i].time = w->client[i]->time;
		w->mark[i].answered = w->client[i]->answered;
		w->mark[i].bytes = w->client[i]->bytes;
	}
}

double world_cost_share(const struct world *w, unsigned i)
{
	double all = 0;

	for (unsigned k = 0; k < w->n; k++)
		all += (double)(w->client[k]->cost - w->mark[k].cost);
	return (double)(w->client[i]->cost - w->mark[i].cost) / all;
}

double world_time_share(const struct world *w, unsigned i)
{
	double all = 0;

	for (unsigned k = 0; k < w->n; k++)
		all += (double)(w->client[k]->time - w->mark[k].time);
	return (double)(w->client[i]->time - w->mark[i].time) / all;
}

static double seconds(const struct world *w)
{
	return (double)(w->sim->now - w->marked_at) / 1e9;
}

double world_iops(const struct world *w, unsigned i)
{
	return (double)(w->client[i]->answered - w->mark[i].answered) / seconds(w);
}

double world_mb(const struct world *w, unsigned i)
{
	return (double)(w->client[i]->bytes - w->mark[i].bytes) / seconds(w) / 1e6;
}

uint64_t world_shown(const struct world *w, const char *name)
{
	char buf[1024] = "\n", want[64];
	struct elv_text text = { .buf = buf + 1, .size = sizeof(buf) - 1 };
	const char *at;

	w->export->e.policy->show(&w->export->e, &text);
	snprintf(want, sizeof(want), "\n%s ", name);
	at = strstr(buf, want);
	ck_assert_msg(at, "%s is not shown", name);
	return strtoull(at + strlen(want), NULL, 10);
}

void world_end(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++)
		sim_load_stop(w->client[i]);
	sim_drain(w->sim);
	all_well(w->sim, "draining", 1);
	sim_free(w->sim);
}
