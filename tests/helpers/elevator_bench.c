/*
 * CPU time of the elevator alone: insert, dispatch and complete of 4 KiB requests at random, with a
 * queue that is kept at a length. Nothing is read or written.
 *
 *   elevator_bench [POLICY [QUEUED [CLIENTS]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/elevator.h"
#include "sched/sim/random.h"

enum { MAX_CLIENTS = 512, DEPTH = 32, REQUESTS = 1000000 };

static struct elv_disk disk;
static struct elv_store store;
static struct elevator elevator;
static struct elv_client *clients;
static struct elv_conn conns[MAX_CLIENTS];
static struct sim_random dice = { .state = 1 };
static char data[4096];
static uint64_t now = 1000000000;

static void insert(struct elv_request *rq, unsigned n)
{
	rq->conn = &conns[sim_below(&dice, n)];
	rq->op = sim_chance(&dice, 70) ? ELV_READ : ELV_WRITE;
	rq->offset = sim_below(&dice, 1 << 28) * 4096;
	rq->length = 4096;
	rq->data = data;
	rq->flags = 0;
	elv_insert(rq, now);
}

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Complete all that is in flight, put its requests back, dispatch: `turns` times or until empty. */
static unsigned long work(unsigned long wanted, unsigned n, bool refill)
{
	unsigned long finished = 0;

	while (finished < wanted) {
		struct elv_ios out;
		struct elv_requests done;
		struct elv_request *rq;
		struct elv_io *io;
		uint64_t wake;

		TAILQ_INIT(&out);
		TAILQ_INIT(&done);
		elv_disk_dispatch(&disk, now, &out, &wake);
		if (TAILQ_EMPTY(&out))
			now = wake;
		while ((io = TAILQ_FIRST(&out))) {
			TAILQ_REMOVE(&out, io, link);
			now += 10000;
			io->result = (int64_t)io->length;
			elv_complete(io, now, &done);
		}
		while ((rq = TAILQ_FIRST(&done))) {
			TAILQ_REMOVE(&done, rq, link);
			finished++;
			if (refill)
				insert(rq, n);
		}
	}
	return finished;
}

static void run(const struct elv_policy *policy, unsigned queued, unsigned n)
{
	struct elv_config config = {
		.disk = &disk, .store = &store, .policy = policy, .default_depth = DEPTH,
	};
	struct elv_request *requests = aligned_alloc(ELV_REQUEST_ALIGN, queued * sizeof(*requests));
	unsigned long finished;
	double began, ns;

	elv_disk_init(&disk);
	elv_store_init(&store, &disk, 4096);
	tunable_defaults(elv_rows, &config.params);
	config.params.max_queue_age = 0;
	if (!requests || elevator_init(&elevator, &config) < 0)
		exit(1);
	for (unsigned i = 0; i < n; i++) {
		clients[i] = (struct elv_client){ .identity = i, .params = { 100, ELV_CLASS_BE } };
		elv_client_init(&clients[i], &elevator);
		elv_conn_open(&conns[i], &clients[i]);
	}
	for (unsigned i = 0; i < queued; i++)
		insert(&requests[i], n);
	work(queued, n, true);
	began = cpu_ns();
	sched_steps = 0;
	finished = work(REQUESTS, n, true);
	ns = (cpu_ns() - began) / (double)finished;
	printf("%-9s %6u queued %4u clients %8.0f ns a request, %5.1f steps\n", policy->name,
	       queued, n, ns, (double)sched_steps / (double)finished);
	work(queued, n, false);
	for (unsigned i = 0; i < n; i++) {
		struct elv_requests none;

		TAILQ_INIT(&none);
		elv_conn_close(&conns[i], true, now, &none);
		elv_client_exit(&clients[i]);
	}
	elevator_exit(&elevator);
	elv_store_exit(&store);
	free(requests);
}

int main(int argc, char **argv)
{
	static const unsigned queues[] = { 128, 4096, 65536 }, groups[] = { 1, 512 };

	clients = calloc(MAX_CLIENTS, sizeof(*clients));
	for (unsigned i = 0; elv_policies[i]; i++)
		for (unsigned q = 0; q < 3; q++)
			for (unsigned g = 0; g < 2; g++) {
				if ((argc > 1 && strcmp(argv[1], elv_policies[i]->name)) ||
				    (argc > 2 && queues[q] != strtoul(argv[2], NULL, 10)) ||
				    (argc > 3 && groups[g] != strtoul(argv[3], NULL, 10)))
					continue;
				run(elv_policies[i], queues[q], groups[g]);
			}
	free(clients);
	return 0;
}
