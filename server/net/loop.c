#include "server/net/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "server/net/conn.h"
#include "server/net/log.h"
#include "server/net/removal.h"
#include "server/net/service.h"

static const uint64_t second = 1000000000;
static const uint64_t idle_time = 2000000000; /* ns without work, after which caches are freed */

/* The loop whose thread this is. */
static __thread struct loop *current;

/* ---- the inbox ---- */

/* The lock is held: the loop is to look into its inbox. */
static void signal_inbox(struct loop *loop)
{
	static const uint64_t one = 1;

	if (loop->signalled)
		return;
	loop->signalled = true;
	/* Cannot block or fail: the counter is far from full. */
	if (write(loop->inbox_fd, &one, sizeof(one)) < 0)
		log_error("cannot wake a thread: %s", strerror(errno));
}

void loop_give_orders(struct loop *loop, unsigned orders)
{
	pthread_mutex_lock(&loop->inbox_lock);
	loop->in_orders |= orders;
	signal_inbox(loop);
	pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_give_arrival(struct loop *loop, struct arrival *a)
{
	pthread_mutex_lock(&loop->inbox_lock);
	TAILQ_INSERT_TAIL(&loop->in_arrivals, a, link);
	signal_inbox(loop);
	pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_give_dismissal(struct loop *loop, struct dismissal *d)
{
	pthread_mutex_lock(&loop->inbox_lock);
	STAILQ_INSERT_TAIL(&loop->in_dismissals, d, link);
	signal_inbox(loop);
	pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_give_departure(struct loop *loop, struct departure *d)
{
	pthread_mutex_lock(&loop->inbox_lock);
	STAILQ_INSERT_TAIL(&loop->in_departures, d, inbox);
	signal_inbox(loop);
	pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_give_requests(struct loop *loop, struct elv_requests *done)
{
	pthread_mutex_lock(&loop->inbox_lock);
	TAILQ_CONCAT(&loop->in_requests, done, link);
	signal_inbox(loop);
	pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_give_granted(struct loop *loop, struct conn *c)
{
	if (loop == current) {
		conn_ready(c);
		loop->again = true;
		return;
	}
	pthread_mutex_lock(&loop->inbox_lock);
	/* Still there from last time, if it found its grant before the inbox was opened. */
	if (!c->in_granted)
		TAILQ_INSERT_TAIL(&loop->in_granted, c, granted_link);
	c->in_granted = true;
	signal_inbox(loop);
	pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_give_shaken(struct loop *loop, struct conn *c)
{
	pthread_mutex_lock(&loop->inbox_lock);
	TAILQ_INSERT_TAIL(&loop->in_shaken, c, shaken_link);
	signal_inbox(loop);
	pthread_mutex_unlock(&loop->inbox_lock);
}

void loop_forget_granted(struct loop *loop, struct conn *c)
{
	pthread_mutex_lock(&loop->inbox_lock);
	if (c->in_granted)
		TAILQ_REMOVE(&loop->in_granted, c, granted_link);
	c->in_granted = false;
	pthread_mutex_unlock(&loop->inbox_lock);
}

static void obey(struct loop *loop, unsigned orders)
{
	struct conn *c, *next;

	if (orders & LOOP_DRAIN && !loop->draining) {
		loop->draining = true;
		if (!loop->index)
			service_stop_listening(loop->service);
		for (c = TAILQ_FIRST(&loop->conns); c; c = next) {
			next = TAILQ_NEXT(c, link);
			conn_drain(c);
		}
	}
	if (orders & LOOP_ACCEPT)
		service_accept_again(loop->service);
	if (orders & LOOP_RELOADED && !loop->index)
		service_reloaded(loop->service);
	if (orders & LOOP_REMOVED && !loop->index)
		removals_answer(loop->service);
	if (orders & LOOP_QUIT)
		loop->quit = true;
}

static void dismiss(struct loop *loop, const struct dismissal *d)
{
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&loop->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->client && (!d->export || d->export == c->export->serial) &&
		    !strcmp(d->id, c->client->identity->id))
			conn_dismiss(c, d->how);
	}
}

void loop_open_inbox(struct loop *loop)
{
	struct dismissals dismissals = STAILQ_HEAD_INITIALIZER(dismissals);
	STAILQ_HEAD(, departure) departures = STAILQ_HEAD_INITIALIZER(departures);
	struct elv_requests requests = TAILQ_HEAD_INITIALIZER(requests);
	struct arrivals arrivals = TAILQ_HEAD_INITIALIZER(arrivals);
	struct conn_list shaken = TAILQ_HEAD_INITIALIZER(shaken);
	struct departure *going;
	struct elv_request *rq;
	struct dismissal *d;
	struct arrival *a;
	unsigned orders;
	uint64_t count;
	struct conn *c;

	loop->inbox_ready = false;
	if (read(loop->inbox_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_error("cannot read the inbox: %s", strerror(errno));
	pthread_mutex_lock(&loop->inbox_lock);
	loop->signalled = false;
	TAILQ_CONCAT(&requests, &loop->in_requests, link);
	TAILQ_CONCAT(&arrivals, &loop->in_arrivals, link);
	TAILQ_CONCAT(&shaken, &loop->in_shaken, shaken_link);
	STAILQ_CONCAT(&dismissals, &loop->in_dismissals);
	STAILQ_CONCAT(&departures, &loop->in_departures);
	orders = loop->in_orders;
	loop->in_orders = 0;
	while ((c = TAILQ_FIRST(&loop->in_granted))) {
		TAILQ_REMOVE(&loop->in_granted, c, granted_link);
		c->in_granted = false;
		conn_ready(c);
	}
	pthread_mutex_unlock(&loop->inbox_lock);

	while ((rq = TAILQ_FIRST(&requests))) {
		TAILQ_REMOVE(&requests, rq, link);
		reply_add(request_of(rq));
	}
	while ((c = TAILQ_FIRST(&shaken))) {
		TAILQ_REMOVE(&shaken, c, shaken_link);
		conn_shaken(c);
	}
	while ((a = TAILQ_FIRST(&arrivals))) {
		TAILQ_REMOVE(&arrivals, a, link);
		conn_new(loop, a);
	}
	while ((d = STAILQ_FIRST(&dismissals))) {
		STAILQ_REMOVE_HEAD(&dismissals, link);
		dismiss(loop, d);
		free(d);
	}
	while ((going = STAILQ_FIRST(&departures))) {
		STAILQ_REMOVE_HEAD(&departures, inbox);
		removal_begin(loop, going);
	}
	if (orders)
		obey(loop, orders);
}

/* ---- the timer ---- */

/*
 * A descriptor of our own rather than libevent's timers: those cost a system call in every turn if
 * they are to be precise, this one only when something becomes due earlier than it is armed for.
 */
static void arm(struct loop *loop, uint64_t when)
{
	struct itimerspec at = { .it_value = { 0, 0 } };

	if (when >= loop->armed)
		return;
	loop->armed = when;
	if (!when)
		when = 1;
	at.it_value.tv_sec = (time_t)(when / second);
	at.it_value.tv_nsec = (long)(when % second);
	timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof(count)) < 0)
		return;
	loop->armed = ELV_NEVER;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Whatever is due is done; the timer is armed for what comes next. */
static void look_at_clock(struct loop *loop)
{
	uint64_t next = earlier(conn_timeouts(loop), removal_timeouts(loop));

	for (unsigned i = 0; i < loop->ndisks; i++) {
		struct loop_disk *ld = loop->disks[i];

		if (!ld || ld->wake == ELV_NEVER)
			continue;
		if (ld->wake <= loop->now) {
			ld->wake = ELV_NEVER;
			loop_disk_busy(loop, ld);
			loop->again = true;
		} else {
			next = earlier(next, ld->wake);
		}
	}
	if (loop->next_tick <= loop->now)
		loop->next_tick = server_tick(loop->server) ? loop->now + second : ELV_NEVER;
	next = earlier(next, loop->next_tick);
	if (loop->pool.kept_bytes || loop->nfree) {
		if (loop->last_work + idle_time <= loop->now) {
			pool_trim(&loop->pool, 0);
			request_trim(loop);
		} else {
			next = earlier(next, loop->last_work + idle_time);
		}
	}
	arm(loop, next);
}

/* ---- the thread ---- */

static void on_lane(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	loop->lane_ready = true;
}

static void on_inbox(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	loop->inbox_ready = true;
}

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * second + (uint64_t)ts.tv_nsec;
}

static void run(struct loop *loop)
{
	char name[16];

	snprintf(name, sizeof(name), "liftd-%u", loop->index);
	pthread_setname_np(pthread_self(), name);
	current = loop;
	while (!loop->quit || !TAILQ_EMPTY(&loop->conns)) {
		int flags = EVLOOP_ONCE | (loop->again ? EVLOOP_NONBLOCK : 0);

		loop->again = false;
		if (event_base_loop(loop->base, flags) < 0) {
			log_error("the event loop failed");
			break;
		}
		loop->now = monotonic();
		loop_turn(loop);
		look_at_clock(loop);
	}
}

/* The lane belongs to the thread that opens it: some rings want that. */
static void *open_lane_and_run(void *arg)
{
	struct loop *loop = arg;
	char err[TUNABLE_ERR_MAX];
	int res = lane_open(&loop->lane, loop->service->want_ring, err, sizeof(err));

	if (!res && (event_assign(&loop->lane_event, loop->base, lane_fd(loop->lane),
				  EV_READ | EV_PERSIST, on_lane, loop) ||
		     event_add(&loop->lane_event, NULL))) {
		snprintf(err, sizeof(err), "cannot watch the lane");
		res = -ENOMEM;
	}
	service_thread_started(loop->service, res, err);
	if (!res) {
		run(loop);
		event_del(&loop->lane_event);
	}
	if (loop->lane && !lane_in_flight(loop->lane)) {
		lane_close(loop->lane);
		loop->lane = NULL;
	}
	return NULL;
}

int loop_start(struct loop *loop, char *err, size_t errlen)
{
	int res = -pthread_create(&loop->thread, NULL, open_lane_and_run, loop);

	if (res) {
		snprintf(err, errlen, "cannot start a thread: %s", strerror(-res));
		return res;
	}
	return service_wait_started(loop->service, err, errlen);
}

void loop_join(struct loop *loop)
{
	pthread_join(loop->thread, NULL);
}

/* ---- setting up ---- */

struct loop_disk *loop_disk(struct loop *loop, struct disk *d)
{
	struct loop_disk *ld;

	if (d->index >= loop->ndisks) {
		unsigned n = d->index + 8;
		struct loop_disk **disks = realloc(loop->disks, n * sizeof(*disks));

		if (!disks)
			return NULL;
		memset(disks + loop->ndisks, 0, (n - loop->ndisks) * sizeof(*disks));
		loop->disks = disks;
		loop->ndisks = n;
	}
	ld = loop->disks[d->index];
	if (ld)
		return ld;
	ld = calloc(1, sizeof(*ld));
	if (!ld)
		return NULL;
	ld->disk = d;
	ld->wake = ELV_NEVER;
	TAILQ_INIT(&ld->inserts);
	TAILQ_INIT(&ld->completed);
	TAILQ_INIT(&ld->closing);
	loop->disks[d->index] = ld;
	return ld;
}

void loop_disk_busy(struct loop *loop, struct loop_disk *ld)
{
	if (ld->busy)
		return;
	ld->busy = true;
	TAILQ_INSERT_TAIL(&loop->busy, ld, link);
}

static int init_events(struct loop *loop)
{
	struct event_config *config = event_config_new();

	if (!config)
		return -ENOMEM;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	loop->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!loop->base)
		return -ENOMEM;
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	loop->inbox_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->timer_fd < 0 || loop->inbox_fd < 0)
		return -errno;
	if (event_assign(&loop->timer_event, loop->base, loop->timer_fd, EV_READ | EV_PERSIST,
			 on_timer, loop) ||
	    event_assign(&loop->inbox_event, loop->base, loop->inbox_fd, EV_READ | EV_PERSIST,
			 on_inbox, loop) ||
	    event_add(&loop->timer_event, NULL) || event_add(&loop->inbox_event, NULL))
		return -ENOMEM;
	return 0;
}

static void init_lists(struct loop *loop)
{
	TAILQ_INIT(&loop->busy);
	TAILQ_INIT(&loop->conns);
	TAILQ_INIT(&loop->ready);
	TAILQ_INIT(&loop->replying);
	TAILQ_INIT(&loop->handshakes);
	TAILQ_INIT(&loop->payloads);
	TAILQ_INIT(&loop->unread);
	TAILQ_INIT(&loop->free_requests);
	TAILQ_INIT(&loop->spent);
	TAILQ_INIT(&loop->in_requests);
	TAILQ_INIT(&loop->in_granted);
	TAILQ_INIT(&loop->in_shaken);
	TAILQ_INIT(&loop->in_arrivals);
	STAILQ_INIT(&loop->in_dismissals);
	TAILQ_INIT(&loop->departures);
	STAILQ_INIT(&loop->in_departures);
}

int loop_init(struct loop *loop, struct service *service, unsigned index, char *err, size_t errlen)
{
	int res;

	memset(loop, 0, sizeof(*loop));
	loop->service = service;
	loop->server = &service->server;
	loop->index = index;
	loop->timer_fd = loop->inbox_fd = -1;
	loop->armed = ELV_NEVER;
	loop->next_tick = ELV_NEVER;
	pthread_mutex_init(&loop->inbox_lock, NULL);
	init_lists(loop);
	pool_init(&loop->pool);
	loop->scratch = malloc(LOOP_SCRATCH);
	loop->iov = calloc(LOOP_IOV, sizeof(*loop->iov));
	loop->heads = malloc(LOOP_HEADS);
	loop->stage = malloc(TLS_STAGE);
	loop->outbox = calloc(service->nloops, sizeof(*loop->outbox));
	for (unsigned i = 0; loop->outbox && i < service->nloops; i++)
		TAILQ_INIT(&loop->outbox[i]);
	res = -ENOMEM;
	if (loop->scratch && loop->iov && loop->heads && loop->stage && loop->outbox)
		res = init_events(loop);
	if (res)
		snprintf(err, errlen, "cannot set up a thread: %s", strerror(-res));
	return res;
}

void loop_exit(struct loop *loop)
{
	struct dismissal *d;
	struct arrival *a;

	while ((d = STAILQ_FIRST(&loop->in_dismissals))) {
		STAILQ_REMOVE_HEAD(&loop->in_dismissals, link);
		free(d);
	}
	while ((a = TAILQ_FIRST(&loop->in_arrivals))) {
		TAILQ_REMOVE(&loop->in_arrivals, a, link);
		close(a->fd);
		client_peer_free(&a->peer);
		free(a);
	}
	if (loop->base)
		event_base_free(loop->base);
	if (loop->timer_fd >= 0)
		close(loop->timer_fd);
	if (loop->inbox_fd >= 0)
		close(loop->inbox_fd);
	pool_trim(&loop->pool, 0);
	request_trim(loop);
	for (unsigned i = 0; i < loop->ndisks; i++)
		free(loop->disks[i]);
	free(loop->disks);
	free(loop->scratch);
	free(loop->iov);
	free(loop->heads);
	free(loop->stage);
	free(loop->outbox);
	pthread_mutex_destroy(&loop->inbox_lock);
}
