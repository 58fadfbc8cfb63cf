#include "server/net/service.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "server/control/commands.h"
#include "server/net/activation.h"
#include "server/net/conn.h"
#include "server/net/control_socket.h"
#include "server/net/log.h"
#include "server/net/removal.h"

static const uint64_t second = 1000000000;

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * second + (uint64_t)ts.tv_nsec;
}

/* ---- for the loops ---- */

void service_thread_started(struct service *s, int result, const char *err)
{
	pthread_mutex_lock(&s->start_lock);
	s->start_done = true;
	s->start_result = result;
	if (result)
		snprintf(s->start_error, sizeof(s->start_error), "%s", err);
	pthread_cond_signal(&s->start_cond);
	pthread_mutex_unlock(&s->start_lock);
}

int service_wait_started(struct service *s, char *err, size_t errlen)
{
	int res;

	pthread_mutex_lock(&s->start_lock);
	while (!s->start_done)
		pthread_cond_wait(&s->start_cond, &s->start_lock);
	s->start_done = false;
	res = s->start_result;
	if (res)
		snprintf(err, errlen, "%s", s->start_error);
	pthread_mutex_unlock(&s->start_lock);
	return res;
}

void service_connection_closed(struct loop *loop)
{
	struct service *s = loop->service;

	atomic_fetch_sub_explicit(&loop->load, 1, memory_order_relaxed);
	atomic_fetch_sub(&s->server.connections, 1);
	if (atomic_exchange(&s->accept_paused, false))
		loop_give_orders(&s->loops[0], LOOP_ACCEPT);
}

void service_connection_gone(struct loop *loop)
{
	service_one_less(loop->service);
}

void service_one_less(struct service *s)
{
	static const uint64_t one = 1;

	if (atomic_fetch_sub(&s->living, 1) == 1 && atomic_load(&s->draining) &&
	    write(s->gone_fd, &one, sizeof(one)) < 0)
		log_error("cannot wake the main thread: %s", strerror(errno));
}

void service_stop_listening(struct service *s)
{
	listeners_close(&s->listeners);
	control_socket_close(s->control);
	s->control = NULL;
}

void service_accept_again(struct service *s)
{
	listeners_resume(s);
}

void service_kick(struct service *s)
{
	struct loop *loop = &s->loops[0];
	struct export *e;

	/* Not those of hidden exports, which may go again. */
	pthread_mutex_lock(&s->server.lock);
	TAILQ_FOREACH(e, &s->server.exports, link) {
		struct loop_disk *ld = e->hidden ? NULL : loop_disk(loop, e->disk);

		if (ld)
			loop_disk_busy(loop, ld);
	}
	pthread_mutex_unlock(&s->server.lock);
}

void service_set_tls(struct service *s, struct tls_context *tls)
{
	struct tls_context *old;

	if (tls && !s->has_workers)
		s->has_workers = !workers_get(); /* they shake hands: secure.c */
	if (!s->has_workers) {
		tls_context_put(tls);
		tls = NULL;
	}
	pthread_mutex_lock(&s->tls_lock);
	old = s->tls;
	s->tls = tls;
	pthread_mutex_unlock(&s->tls_lock);
	tls_context_put(old);
}

struct tls_context *service_tls(struct service *s)
{
	struct tls_context *tls;

	pthread_mutex_lock(&s->tls_lock);
	tls = tls_context_get(s->tls);
	pthread_mutex_unlock(&s->tls_lock);
	return tls;
}

/* ---- start ---- */

static void request_stop(void *ctx)
{
	(void)ctx;
	kill(getpid(), SIGTERM);
}

/* One order a loop, made beforehand: all of them get it, or none. */
static int end_client(void *ctx, const struct export *e, const char *id, enum client_end how)
{
	struct dismissals orders = STAILQ_HEAD_INITIALIZER(orders);
	struct service *s = ctx;
	struct dismissal *d;
	unsigned n;

	for (n = 0; n < s->nloops; n++) {
		d = calloc(1, sizeof(*d));
		if (!d)
			break;
		d->how = how;
		d->export = e ? e->serial : 0;
		snprintf(d->id, sizeof(d->id), "%s", id);
		STAILQ_INSERT_TAIL(&orders, d, link);
	}
	for (unsigned i = 0; (d = STAILQ_FIRST(&orders)); i++) {
		STAILQ_REMOVE_HEAD(&orders, link);
		if (n == s->nloops)
			loop_give_dismissal(&s->loops[i], d);
		else
			free(d);
	}
	if (n < s->nloops)
		return -ENOMEM;
	log_info("client %s: %s on request", id, how == CLIENT_DRAIN ? "drained" : "disconnected");
	return 0;
}

static int remove_export(void *ctx, struct export *e)
{
	return removal_order(ctx, e, 0);
}

static void export_unused(void *ctx)
{
	static const uint64_t one = 1;
	struct service *s = ctx;

	if (write(s->removals.fd, &one, sizeof(one)) < 0)
		log_error("cannot wake the main thread: %s", strerror(errno));
}

int service_init(struct service *s, const struct server_params *params)
{
	sigset_t set;
	int res;

	memset(s, 0, sizeof(*s));
	s->signal_fd = s->gone_fd = s->removals.fd = -1;
	listeners_init(&s->listeners);
	service_reloads_init(s);
	pthread_mutex_init(&s->tls_lock, NULL);
	removals_init(s);
	pthread_mutex_init(&s->start_lock, NULL);
	pthread_cond_init(&s->start_cond, NULL);
	res = server_init(&s->server, params);
	if (res)
		return res;
	s->server.stop = request_stop;
	s->server.end_client = end_client;
	s->server.remove = remove_export;
	s->server.unused = export_unused;
	s->server.stop_ctx = s;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s->gone_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->removals.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return s->signal_fd < 0 || s->gone_fd < 0 || s->removals.fd < 0 ? -errno : 0;
}

/* As many descriptors as may be had: one a connection, and some. */
static void raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == r.rlim_max)
		return;
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r))
		log_debug("cannot raise the limit of open files: %s", strerror(errno));
}

static enum service_status open_sockets(struct service *s, const struct activation *passed,
					char *err, size_t errlen)
{
	const struct server_params *p = &s->server.params;
	char **tcp = passed->listen ? NULL : p->listen;
	char **paths = passed->unix_sockets ? NULL : p->unix_sockets;
	bool any = passed->listen || passed->unix_sockets || tcp || paths;
	int res = 0;

	for (; tcp && *tcp && !res; tcp++)
		res = listen_at(s, *tcp, err, errlen);
	for (; paths && *paths && !res; paths++)
		res = listen_unix(s, *paths, err, errlen);
	if (!any)
		res = listen_at(s, "localhost:10809", err, errlen);
	if (!res)
		return SERVICE_STOPPED;
	return res == -EINVAL ? SERVICE_MISUSED : SERVICE_BROKEN;
}

/* The folder of the default control socket, if it is not there. Its parent must be. */
static void make_folder_of(const char *path)
{
	char folder[256];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return;
	*slash = '\0';
	if (mkdir(folder, 0755) && errno != EEXIST)
		log_debug("cannot make %s: %s", folder, strerror(errno));
}

static enum service_status open_control(struct service *s, char *err, size_t errlen)
{
	const char *path = s->server.params.control;
	bool explicit = path && *path;
	char buf[256];
	int res;

	if (!explicit) {
		res = command_socket_path(0, buf, sizeof(buf));
		path = buf;
		if (!res)
			make_folder_of(path);
		else
			snprintf(err, errlen, "there is no place for it");
	} else {
		res = 0;
	}
	if (!res)
		res = control_socket_open(s, path, &s->control, err, errlen);
	if (!res)
		return SERVICE_STOPPED;
	if (explicit) {
		char why[TUNABLE_ERR_MAX];

		snprintf(why, sizeof(why), "%s", err);
		snprintf(err, errlen, "control socket: %.400s", why);
		return res == -EINVAL || res == -ENAMETOOLONG ? SERVICE_MISUSED : SERVICE_BROKEN;
	}
	log_warning("no control socket: %s (--control PATH puts it elsewhere)", err);
	return SERVICE_STOPPED;
}

/* A whole number, for --user 1000. */
static bool is_number(const char *text, unsigned long *n)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoul(text, &end, 10);
	return !*end && !errno && *n < UINT32_MAX;
}

/* Whom to become. */
struct identity_wanted {
	const char *name; /* for the groups; NULL: a number that has no name */
	uid_t uid;
	gid_t gid;
	bool change;
};

static int find_user(const char *user, struct identity_wanted *w, char *err, size_t errlen)
{
	struct passwd *pw = getpwnam(user);
	unsigned long n;

	if (!pw && is_number(user, &n))
		pw = getpwuid((uid_t)n);
	if (!pw && !is_number(user, &n)) {
		snprintf(err, errlen, "there is no user '%s'", user);
		return -EINVAL;
	}
	w->uid = pw ? pw->pw_uid : (uid_t)n;
	w->gid = pw ? pw->pw_gid : (gid_t)n;
	w->name = pw ? pw->pw_name : NULL;
	w->change = true;
	return 0;
}

static int find_group(const char *group, struct identity_wanted *w, char *err, size_t errlen)
{
	struct group *gr = getgrnam(group);
	unsigned long n;

	if (!gr && !is_number(group, &n)) {
		snprintf(err, errlen, "there is no group '%s'", group);
		return -EINVAL;
	}
	w->gid = gr ? gr->gr_gid : (gid_t)n;
	w->change = true;
	return 0;
}

int service_check_user(const char *user, char *err, size_t errlen)
{
	struct identity_wanted w;

	return user && *user ? find_user(user, &w, err, errlen) : 0;
}

int service_check_group(const char *group, char *err, size_t errlen)
{
	struct identity_wanted w;

	return group && *group ? find_group(group, &w, err, errlen) : 0;
}

static enum service_status find_identity(struct service *s, struct identity_wanted *w, char *err,
					 size_t errlen)
{
	const char *user = s->server.params.user, *group = s->server.params.group;
	int res = 0;

	*w = (struct identity_wanted){ .uid = getuid(), .gid = getgid() };
	if (user && *user)
		res = find_user(user, w, err, errlen);
	if (!res && group && *group)
		res = find_group(group, w, err, errlen);
	return res ? SERVICE_MISUSED : SERVICE_STOPPED;
}

/* Images and sockets are open: the rest needs no privileges. */
static enum service_status become(struct service *s, char *err, size_t errlen)
{
	struct identity_wanted w;
	enum service_status status = find_identity(s, &w, err, errlen);
	int res = 0;

	if (status)
		return status;
	if (!w.change)
		return SERVICE_STOPPED;
	if (s->control)
		res = control_socket_chown(s->control, w.uid, w.gid);
	if (!res && getuid() == 0)
		res = (w.name ? initgroups(w.name, w.gid) : setgroups(1, &w.gid)) ? -errno : 0;
	if (!res)
		res = setresgid(w.gid, w.gid, w.gid) || setresuid(w.uid, w.uid, w.uid) ? -errno : 0;
	if (!res)
		return SERVICE_STOPPED;
	snprintf(err, errlen, "cannot become user %u, group %u: %s", (unsigned)w.uid,
		 (unsigned)w.gid, strerror(-res));
	return SERVICE_BROKEN;
}

static enum service_status write_pid(struct service *s, char *err, size_t errlen)
{
	const char *path = s->server.params.pid_file;
	FILE *f;
	bool ok;

	if (!path || !*path)
		return SERVICE_STOPPED;
	f = fopen(path, "we");
	ok = f && fprintf(f, "%d\n", getpid()) > 0;
	if (f && fclose(f))
		ok = false;
	if (ok)
		return SERVICE_STOPPED;
	snprintf(err, errlen, "cannot write %s: %s", path, strerror(errno));
	return SERVICE_BROKEN;
}

static unsigned count_threads(const struct server_params *p)
{
	cpu_set_t set;

	if (p->threads != TUNABLE_AUTO)
		return (unsigned)p->threads;
	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

static bool any_wants_ring(struct service *s)
{
	struct export *e;

	TAILQ_FOREACH(e, &s->server.exports, link)
		if (e->settings.store.aio != STORE_AIO_THREADS)
			return true;
	return false;
}

static int start_loops(struct service *s, char *err, size_t errlen)
{
	unsigned n = count_threads(&s->server.params), started;
	int res = 0;

	/* Exports may come later. */
	s->want_ring = s->reload || any_wants_ring(s);
	s->loops = calloc(n, sizeof(*s->loops));
	if (!s->loops) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	s->nloops = n;
	for (unsigned i = 0; i < n; i++) {
		res = loop_init(&s->loops[i], s, i, err, errlen);
		if (res) {
			s->nloops = i + 1; /* to be freed */
			return res;
		}
	}
	if (!res && (listeners_start(s) ||
		     (s->control && control_socket_start(s->control, geteuid(), getegid())))) {
		snprintf(err, errlen, "cannot watch the sockets");
		res = -ENOMEM;
	}
	s->server.threads = n; /* before a loop can read it */
	for (started = 0; started < n && !res; started++)
		res = loop_start(&s->loops[started], err, errlen);
	if (!res)
		return 0;
	for (unsigned i = 0; i + 1 < started; i++) {
		loop_give_orders(&s->loops[i], LOOP_QUIT);
		loop_join(&s->loops[i]);
	}
	return res;
}

enum service_status service_start(struct service *s, char *err, size_t errlen)
{
	enum service_status status;
	struct activation passed;
	int res;

	raise_limits();
	res = activation_take(s, &passed, err, errlen);
	if (res)
		return res == -EINVAL ? SERVICE_MISUSED : SERVICE_BROKEN;
	status = open_sockets(s, &passed, err, errlen);
	if (!status && !passed.control)
		status = open_control(s, err, errlen);
	if (!status)
		status = write_pid(s, err, errlen);
	if (!status)
		status = become(s, err, errlen);
	if (!status && start_loops(s, err, errlen))
		status = SERVICE_BROKEN;
	return status;
}

/* ---- running and stopping ---- */

/*
 * Until the time `until` (ELV_NEVER: without end): SIGTERM, SIGINT: true. False: fd, the time, or
 * SIGHUP.
 */
static bool wait_for_stop(struct service *s, int fd, uint64_t until)
{
	struct signalfd_siginfo info;

	for (;;) {
		struct pollfd p[2] = { { .fd = s->signal_fd, .events = POLLIN },
				       { .fd = fd, .events = POLLIN } };
		uint64_t now = monotonic();
		int ms = -1;

		if (until != ELV_NEVER)
			ms = until <= now ? 0 : (int)((until - now) / 1000000 + 1);
		if (poll(p, 2, ms) == 0 || p[1].revents)
			return false;
		if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
			continue;
		if (info.ssi_signo != SIGHUP)
			return true;
		if (!atomic_load(&s->draining)) {
			service_reload(s);
			return false;
		}
		log_info("stopping: the configuration is not loaded again");
	}
}

static void forget_gone(struct service *s)
{
	uint64_t count;

	if (read(s->gone_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_error("cannot read an eventfd: %s", strerror(errno));
}

/*
 * Everything received is to be finished; true if it was in time. *until is now if told not to wait.
 */
static bool drain(struct service *s, uint64_t *until)
{
	atomic_store(&s->draining, true);
	for (unsigned i = 0; i < s->nloops; i++)
		loop_give_orders(&s->loops[i], LOOP_DRAIN);
	while (atomic_load(&s->living)) {
		if (wait_for_stop(s, s->gone_fd, *until)) {
			log_warning("told to stop again: not waiting any longer");
			*until = monotonic();
			return false;
		}
		if (monotonic() >= *until)
			break;
		forget_gone(s); /* one more may have been accepted since */
	}
	if (!atomic_load(&s->living))
		return true;
	log_warning("%u connections or exports were not finished within drain_timeout",
		    atomic_load(&s->living));
	return false;
}

static void *flush_all(void *arg)
{
	static const uint64_t one = 1;
	struct service *s = arg;
	struct export *e;

	TAILQ_FOREACH(e, &s->server.exports, link) {
		int error = export_flush(e);

		if (error) {
			log_error("export '%s': the last flush failed, writes may be lost: %s",
				  e->name, strerror(-error));
			atomic_store(&s->lost, true);
		}
	}
	atomic_store(&s->flushed, true);
	if (write(s->gone_fd, &one, sizeof(one)) < 0)
		log_error("cannot wake the main thread: %s", strerror(errno));
	return NULL;
}

/* In a thread of its own, which can be left behind. True if it was in time. */
static bool flush(struct service *s, uint64_t until)
{
	uint64_t at_least = monotonic() + second / 10;
	pthread_t thread;

	forget_gone(s);
	if (pthread_create(&thread, NULL, flush_all, s)) {
		flush_all(s);
		return true;
	}
	if (wait_for_stop(s, s->gone_fd, until > at_least ? until : at_least)) {
		log_warning("told to stop again: not waiting for the flush");
	} else if (!atomic_load(&s->flushed)) {
		log_warning("flushing was not finished within drain_timeout");
	} else {
		pthread_join(thread, NULL);
		return true;
	}
	pthread_detach(thread);
	return false;
}

static void remove_files(struct service *s)
{
	const char *pid_file = s->server.params.pid_file;

	service_stop_listening(s);
	if (pid_file && *pid_file && unlink(pid_file) && errno != ENOENT)
		log_debug("cannot remove %s: %s", pid_file, strerror(errno));
}

static void never_told(void *arg, const struct client *c)
{
	struct service *s = arg;

	log_error("export '%s': a flush failed (%s), and %s has not heard of it", c->export->name,
		  strerror(-c->elv.owed_error), c->identity->id);
	atomic_store(&s->lost, true);
}

enum service_status service_run(struct service *s)
{
	struct export *e;
	uint64_t until;
	bool in_time;

	sd_notify(0, "READY=1");
	fprintf(stderr, "liftd: ready\n");
	while (!wait_for_stop(s, s->removals.fd, service_go_on(s)))
		;
	sd_notify(0, "STOPPING=1");
	log_info("stopping");
	until = monotonic() + server_param(&s->server.params.drain_timeout);
	in_time = drain(s, &until);
	if (in_time) {
		for (unsigned i = 0; i < s->nloops; i++)
			loop_give_orders(&s->loops[i], LOOP_QUIT);
		for (unsigned i = 0; i < s->nloops; i++)
			loop_join(&s->loops[i]);
	}
	if (!flush(s, until))
		in_time = false;
	TAILQ_FOREACH(e, &s->server.exports, link)
		client_table_owed(e, never_told, s);
	if (!in_time) {
		/* Threads are at work that nobody can stop: leave, with what they use in place. */
		const char *pid_file = s->server.params.pid_file;

		if (pid_file && *pid_file)
			unlink(pid_file);
		fflush(NULL);
		_exit(atomic_load(&s->lost) ? SERVICE_BROKEN : SERVICE_STOPPED);
	}
	return atomic_load(&s->lost) ? SERVICE_BROKEN : SERVICE_STOPPED;
}

void service_exit(struct service *s)
{
	remove_files(s);
	for (unsigned i = 0; i < s->nloops; i++)
		loop_exit(&s->loops[i]);
	free(s->loops);
	server_exit(&s->server);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->gone_fd >= 0)
		close(s->gone_fd);
	if (s->removals.fd >= 0)
		close(s->removals.fd);
	service_reloads_exit(s);
	service_set_tls(s, NULL);
	if (s->has_workers)
		workers_put();
	pthread_mutex_destroy(&s->tls_lock);
	removals_exit(s);
	pthread_mutex_destroy(&s->start_lock);
	pthread_cond_destroy(&s->start_cond);
}
