/*
 * Worker threads: see workers.h.
 */
#include "server/store/workers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#define NS_PER_S 1000000000ull

/* Stores keep little on the stack: 64 threads must not cost 512 MiB of address space. */
#define STACK_SIZE (256 * 1024)

STAILQ_HEAD(work_queue, work);

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;  /* idle workers: there is work, or an end to it */
	pthread_cond_t ended; /* workers_put: a worker has ended */
	struct work_queue queue;
	unsigned queued;      /* length of the queue */
	unsigned threads, idle;
	unsigned users;
	unsigned long long idle_ns;
} pool = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.wake = PTHREAD_COND_INITIALIZER,
	.ended = PTHREAD_COND_INITIALIZER,
	.queue = STAILQ_HEAD_INITIALIZER(pool.queue),
	.idle_ns = 10 * NS_PER_S,
};

/* The time until which an idle worker waits. */
static struct timespec idle_end(void)
{
	struct timespec t;
	unsigned long long ns;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ns = t.tv_nsec + pool.idle_ns;
	t.tv_sec += ns / NS_PER_S;
	t.tv_nsec = ns % NS_PER_S;
	return t;
}

/* Wait for work, with the lock held. False: this worker is to end. */
static bool wait_for_work(void)
{
	struct timespec end = idle_end();
	int r = 0;

	pool.idle++;
	while (STAILQ_EMPTY(&pool.queue) && pool.users && (r != ETIMEDOUT || pool.threads == 1)) {
		if (pool.threads == 1)
			r = pthread_cond_wait(&pool.wake, &pool.lock);
		else
			r = pthread_cond_clockwait(&pool.wake, &pool.lock, CLOCK_MONOTONIC, &end);
	}
	pool.idle--;
	return !STAILQ_EMPTY(&pool.queue);
}

static void *worker(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "lift-worker");
	pthread_mutex_lock(&pool.lock);
	while (wait_for_work()) {
		struct work *w = STAILQ_FIRST(&pool.queue);

		STAILQ_REMOVE_HEAD(&pool.queue, link);
		pool.queued--;
		pthread_mutex_unlock(&pool.lock);
		w->run(w);
		pthread_mutex_lock(&pool.lock);
	}
	pool.threads--;
	pthread_cond_broadcast(&pool.ended);
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

/* One more thread, with the lock held. 0 or a negative errno. */
static int add_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int r;

	/* Signals are for the threads that expect them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	r = pthread_create(&thread, &attr, worker, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r)
		pool.threads++;
	return -r;
}

int workers_get(void)
{
	int r = 0;

	pthread_mutex_lock(&pool.lock);
	pool.users++;
	if (!pool.threads)
		r = add_thread();
	if (r)
		pool.users--;
	pthread_mutex_unlock(&pool.lock);
	return r;
}

void workers_put(void)
{
	pthread_mutex_lock(&pool.lock);
	if (!--pool.users) {
		pthread_cond_broadcast(&pool.wake);
		while (pool.threads && !pool.users)
			pthread_cond_wait(&pool.ended, &pool.lock);
	}
	pthread_mutex_unlock(&pool.lock);
}

void workers_add(struct work *w)
{
	pthread_mutex_lock(&pool.lock);
	STAILQ_INSERT_TAIL(&pool.queue, w, link);
	pool.queued++;
	/* Those that were woken and have not taken their work yet still count as idle. */
	if (pool.queued > pool.idle && pool.threads < WORKERS_MAX)
		add_thread(); /* if that fails, the others get to it */
	pthread_cond_signal(&pool.wake);
	pthread_mutex_unlock(&pool.lock);
}

unsigned workers_count(void)
{
	unsigned n;

	pthread_mutex_lock(&pool.lock);
	n = pool.threads;
	pthread_mutex_unlock(&pool.lock);
	return n;
}

void workers_set_idle(unsigned long long ns)
{
	pthread_mutex_lock(&pool.lock);
	pool.idle_ns = ns;
	pthread_cond_broadcast(&pool.wake);
	pthread_mutex_unlock(&pool.lock);
}
