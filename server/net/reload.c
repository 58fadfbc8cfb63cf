/*
 * Loading the configuration again. The main thread does it, on SIGHUP or for a call of
 * server.reload on the control socket: such a call takes a ticket, sends the SIGHUP, and is
 * answered by the first report of at least that ticket, which comes back to loop 0's thread.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "server/net/control_socket.h"
#include "server/net/log.h"
#include "server/net/removal.h"
#include "server/net/service.h"

/* ns that a load waits for exports that are being removed: less than liftctl waits for it. */
static const uint64_t patience = 5000000000;

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

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* To systemd, which wants to know since when. */
static void notify(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   (unsigned long long)(monotonic() / 1000));
}

void service_reload(struct service *s)
{
	if (!s->reload) {
		log_warning("there is no configuration to load again");
		return;
	}
	if (!s->reloads.due && !s->reloads.open)
		s->reloads.until = monotonic() + patience;
	s->reloads.due = true;
}

static void load(struct service *s)
{
	struct reload_report *r;

	r = calloc(1, sizeof(*r));
	if (!r) {
		log_error("the configuration was not loaded: out of memory");
		return;
	}
	notify();
	control_report_init(&r->report);
	r->ticket = atomic_load(&s->reloads.wanted);
	s->reloads.number++;
	s->reload(s->reload_ctx, &r->report);
	s->reloads.open = r;
	s->reloads.until = monotonic() + patience;
	for (unsigned i = 0; i < s->nloops; i++)
		loop_give_orders(&s->loops[i], LOOP_RELOADED);
}

/* To the log, and to the calls that wait. */
static void publish(struct service *s)
{
	struct reload_report *r = s->reloads.open;

	s->reloads.open = NULL;
	removals_pending(s, &r->report);
	log_report(&r->report);
	pthread_mutex_lock(&s->reloads.lock);
	STAILQ_INSERT_TAIL(&s->reloads.reports, r, link);
	pthread_mutex_unlock(&s->reloads.lock);
	loop_give_orders(&s->loops[0], LOOP_RELOADED);
	sd_notify(0, "READY=1");
}

/*
 * The name and the image of an export that is going may be wanted again: so each load waits for
 * those before it begins, and its report for those that it removes; but not for ever.
 */
uint64_t service_go_on(struct service *s)
{
	struct reload_report *open = s->reloads.open;
	uint64_t count;

	if (read(s->removals.fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_error("cannot read an eventfd: %s", strerror(errno));
	removals_finish(s, open ? &open->report : NULL);
	while (s->reloads.open || s->reloads.due) {
		if (removals_any(s, s->reloads.open ? s->reloads.number : 0) &&
		    monotonic() < s->reloads.until)
			return s->reloads.until;
		if (s->reloads.open) {
			publish(s);
		} else {
			s->reloads.due = false;
			load(s);
		}
	}
	return ELV_NEVER;
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
	if (s->reloads.open)
		free_report(s->reloads.open);
	pthread_mutex_destroy(&s->reloads.lock);
}
