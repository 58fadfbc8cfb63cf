/*
 * Worker threads: the process-wide pool for everything that blocks and has no place in a ring.
 *
 * The pool grows with what is waiting, up to WORKERS_MAX threads; one that has had nothing to do
 * for a while ends, down to one. There are threads only while somebody holds the pool.
 */
#ifndef SERVER_STORE_WORKERS_H
#define SERVER_STORE_WORKERS_H

#include <stddef.h>
#include <sys/queue.h>

enum { WORKERS_MAX = 64 };

/* A piece of work; embedded in what it is about. It belongs to the pool until run is called. */
struct work {
	void (*run)(struct work *w); /* on a worker; may free what w is in */
	STAILQ_ENTRY(work) link;
};

/*
 * Hold the pool; the first one starts a thread. 0 or a negative errno (no thread can be made).
 * Any thread.
 */
int workers_get(void);

/* Let go of it; the last one waits until all work is done and the threads have ended. */
void workers_put(void);

/* Have w run, in order of arrival. Never fails, never blocks. The pool must be held. Any thread. */
void workers_add(struct work *w);

/* How many threads there are; for tests. */
unsigned workers_count(void);

/* How long an idle thread waits for work, in ns (default 10 s); for tests. */
void workers_set_idle(unsigned long long ns);

#endif
