/*
 * Loading the configuration again. The main thread does it, on SIGHUP or for a call of
 * server.reload on the control socket: such a call takes a ticket, sends the SIGHUP, and is
 * answered by the first report of at least that ticket, which comes back to loop 0's thread.
 */
#include <signal.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "server/net/control_socket.h"
#include "server/net/log.h"
#include "server/net/service.h"

/* ---- loop 0 ---- */

unsigned service_request_reload(struct service *s)
{
	unsigned ticket = atomic_fetch_add(&s->reloads.wanted, 1) + 1;

	kill(getpid(), SIGHUP);
	return ticket;
}

static struct reload_report *take_report(struct service *s)
{
	struct reload_report *r;

	pthread_mutex_lock(&s->reloads.lock);
	r = STAILQ_FIRST(&s->reloads.reports);
	if (r)
		STAILQ_REMOVE_HEAD(&s->reloads.reports, link);
	pthread_mutex_unlock(&s->reloads.lock);
	return r;
}

static void free_report(struct reload_report *r)
{
	control_report_free(&r->report);
	free(r);
}

void service_reloaded(struct service *s)
{
	struct reload_report *r;

	service_kick(s);
	if (atomic_exchange(&s->accept_paused, false))
		service_accept_again(s);
	while ((r = take_report(s))) {
		control_socket_reloaded(s->control, r->ticket, &r->report);
		free_report(r);
	}
}

/* ---- the main thread ---- */

static void log_lines(enum log_level level, const char *what, const struct control_lines *lines)
{
	const struct control_line *l;

	STAILQ_FOREACH(l, lines, link)
		log_write(level, "%s%s", what, l->text);
}

static void log_report(const struct control_report *r)
{
	log_lines(LOG_LEVEL_ERROR, "", &r->errors);
	log_lines(LOG_LEVEL_INFO, "changed: ", &r->changed);
	log_lines(LOG_LEVEL_WARNING, "needs a restart: ", &r->restart);
	if (!STAILQ_EMPTY(&r->errors))
		log_error("the configuration was not loaded, nothing is changed");
	else if (STAILQ_EMPTY(&r->changed) && STAILQ_EMPTY(&r->restart))
		log_info("the configuration was loaded again; nothing has changed");
}

/* To systemd, which wants to know since when. */
static void notify(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   (unsigned long long)ts.tv_sec * 1000000 + (unsigned long long)ts.tv_nsec / 1000);
}

void service_reload(struct service *s)
{
	struct reload_report *r;

	if (!s->reload) {
		log_warning("there is no configuration to load again");
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		log_error("the configuration was not loaded: out of memory");
		return;
	}
	notify();
	control_report_init(&r->report);
	r->ticket = atomic_load(&s->reloads.wanted);
	s->reload(s->reload_ctx, &r->report);
	log_report(&r->report);
	pthread_mutex_lock(&s->reloads.lock);
	STAILQ_INSERT_TAIL(&s->reloads.reports, r, link);
	pthread_mutex_unlock(&s->reloads.lock);
	for (unsigned i = 0; i < s->nloops; i++)
		loop_give_orders(&s->loops[i], LOOP_RELOADED);
	sd_notify(0, "READY=1");
}

void service_reloads_init(struct service *s)
{
	STAILQ_INIT(&s->reloads.reports);
	pthread_mutex_init(&s->reloads.lock, NULL);
}

void service_reloads_exit(struct service *s)
{
	struct reload_report *r;

	while ((r = take_report(s)))
		free_report(r);
	pthread_mutex_destroy(&s->reloads.lock);
}
