#include "server/net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/control/unix_socket.h"
#include "server/net/log.h"
#include "server/net/service.h"

enum { BACKLOG = 1024, ACCEPT_BATCH = 64 };

/* ---- accepting ---- */

static void pause_all(struct service *s)
{
	struct listener *l;

	TAILQ_FOREACH(l, &s->listeners.list, link) {
		if (l->accepting)
			event_del(&l->event);
		l->accepting = false;
	}
}

static void resume_all(struct service *s)
{
	struct listener *l;

	TAILQ_FOREACH(l, &s->listeners.list, link)
		if (!l->accepting)
			l->accepting = !event_add(&l->event, NULL);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct service *s = arg;

	(void)fd;
	(void)what;
	s->listeners.retrying = false;
	resume_all(s);
}

/* Descriptors or memory ran out: others may give some back. Try again in a moment. */
static void back_off(struct service *s, int error)
{
	static const struct timeval moment = { 0, 200000 };

	if (s->listeners.retrying)
		return;
	log_warning("cannot accept connections for now: %s", strerror(error));
	pause_all(s);
	s->listeners.retrying = !event_add(&s->listeners.retry, &moment);
}

void listeners_resume(struct service *s)
{
	if (!s->listeners.retrying)
		resume_all(s);
}

/* All of them: one that is not known could be one that an access list refuses. */
static int find_groups(int fd, struct client_peer *peer)
{
	socklen_t len = 0;

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len))
		return 0;
	if (errno != ERANGE)
		return errno == ENODATA || errno == ENOPROTOOPT ? 0 : -errno;
	peer->groups = malloc(len);
	if (!peer->groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer->groups, &len))
		return -errno;
	peer->ngroups = (unsigned)(len / sizeof(*peer->groups));
	return 0;
}

static int describe_peer(int fd, const struct sockaddr_storage *addr, struct client_peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	client_peer_init(peer, (const struct sockaddr *)addr);
	if (addr->ss_family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return 0;
	peer->has_uid = true;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	peer->pid = cred.pid;
	return find_groups(fd, peer);
}

/*
 * Requests are answered as they are finished, so nothing is gained by waiting for more; and a
 * client whose machine vanished is to be noticed some day.
 */
static void tune(int fd, int family)
{
	int on = 1, idle = 60, interval = 15, count = 4, size = 1 << 20;

	if (family == AF_UNIX) {
		/* Room for the replies of one turn, as far as the system allows. */
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

/*
 * The loop with the fewest connections; of equal ones the next in turn. Counts may be a little old.
 */
static struct loop *choose_loop(struct service *s)
{
	struct loop *best = NULL;

	for (unsigned i = 0; i < s->nloops; i++) {
		struct loop *l = &s->loops[(s->next_loop + i) % s->nloops];

		if (!best || atomic_load_explicit(&l->load, memory_order_relaxed) <
				     atomic_load_explicit(&best->load, memory_order_relaxed))
			best = l;
	}
	s->next_loop = best->index + 1;
	return best;
}

static bool is_full(struct service *s)
{
	return atomic_load(&s->server.connections) >=
	       server_param(&s->server.params.max_connections);
}

/* True: go on accepting. */
static bool accept_one(struct listener *l)
{
	struct service *s = l->service;
	struct sockaddr_storage addr = { .ss_family = AF_UNIX };
	socklen_t len = sizeof(addr);
	struct arrival *a;
	struct loop *loop;
	int fd, res;

	fd = accept4(l->fd, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			back_off(s, errno);
		else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			log_debug("cannot accept a connection: %s", strerror(errno));
		return false;
	}
	a = malloc(sizeof(*a));
	if (!a) {
		close(fd);
		return false;
	}
	a->fd = fd;
	a->tls = (enum nbd_tls)server_param(&s->server.params.tls);
	res = describe_peer(fd, &addr, &a->peer);
	if (res) {
		log_warning("cannot tell who connects: %s", strerror(-res));
		client_peer_free(&a->peer);
		free(a);
		close(fd);
		return true;
	}
	a->peer.serial = atomic_fetch_add(&s->server.serial, 1) + 1;
	tune(fd, addr.ss_family);
	loop = choose_loop(s);
	atomic_fetch_add(&s->living, 1);
	atomic_fetch_add(&s->server.connections, 1);
	atomic_fetch_add_explicit(&loop->load, 1, memory_order_relaxed);
	loop_give_arrival(loop, a);
	if (s->loops[0].next_tick == ELV_NEVER)
		s->loops[0].next_tick = 0;
	return true;
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;
	struct service *s = l->service;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
		if (is_full(s)) {
			atomic_store(&s->accept_paused, true);
			/* One may have gone just now, and nobody would tell. */
			if (is_full(s)) {
				pause_all(s);
				return;
			}
			atomic_store(&s->accept_paused, false);
		}
		if (!accept_one(l))
			return;
	}
}

/* ---- opening ---- */

void listeners_init(struct listeners *ls)
{
	TAILQ_INIT(&ls->list);
	ls->retrying = false;
}

static int add(struct service *s, int fd, const char *path, char *err, size_t errlen)
{
	struct listener *l = calloc(1, sizeof(*l));
	struct stat st;

	if (l && path)
		l->path = strdup(path);
	if (!l || (path && !l->path)) {
		free(l);
		close(fd);
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	l->fd = fd;
	l->service = s;
	if (path && !lstat(path, &st)) {
		l->dev = st.st_dev;
		l->ino = st.st_ino;
	}
	TAILQ_INSERT_TAIL(&s->listeners.list, l, link);
	return 0;
}

/* "[::1]:10809", "localhost:10809", ":10809" into host (empty: all addresses) and port. */
static int split(const char *where, char *host, size_t hostlen, char *port, size_t portlen)
{
	const char *colon = strrchr(where, ':');
	size_t len;

	if (!colon)
		return -EINVAL;
	len = (size_t)(colon - where);
	if (len && where[0] == '[') {
		if (len < 2 || where[len - 1] != ']')
			return -EINVAL;
		where++;
		len -= 2;
	} else if (memchr(where, ':', len)) {
		return -EINVAL;
	}
	if (len >= hostlen || strlen(colon + 1) >= portlen || !colon[1] ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    strtoul(colon + 1, NULL, 10) > 65535)
		return -EINVAL;
	memcpy(host, where, len);
	host[len] = '\0';
	strcpy(port, colon + 1);
	return 0;
}

static int bind_tcp(const struct addrinfo *ai)
{
	int on = 1, res;
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (!bind(fd, ai->ai_addr, ai->ai_addrlen) && !listen(fd, BACKLOG))
		return fd;
	res = -errno;
	close(fd);
	return res;
}

static void announce(int fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char host[64], port[8];

	if (!getsockname(fd, (struct sockaddr *)&addr, &len) &&
	    !getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
			 NI_NUMERICHOST | NI_NUMERICSERV))
		log_info(addr.ss_family == AF_INET6 ? "listening on [%s]:%s" : "listening on %s:%s",
			 host, port);
}

static int parse(const char *where, char *host, size_t hostlen, char *port, size_t portlen,
		 char *err, size_t errlen)
{
	int res = split(where, host, hostlen, port, portlen);

	if (res)
		snprintf(err, errlen,
			 "cannot listen on '%s': expected HOST:PORT or [ADDRESS]:PORT, as "
			 "10.0.0.1:10809 or [::1]:10809", where);
	return res;
}

int listen_check(const char *where, char *err, size_t errlen)
{
	char host[256], port[8];

	return parse(where, host, sizeof(host), port, sizeof(port), err, errlen);
}

/* optional: an address that this machine does not have is passed over. */
static int listen_host(struct service *s, const char *host, const char *port, bool optional,
		       char *err, size_t errlen)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *all, *ai;
	const char *form = strchr(host, ':') ? "[%s]:%s" : "%s:%s";
	char where[300];
	int res = getaddrinfo(*host ? host : NULL, port, &hints, &all);

	snprintf(where, sizeof(where), form, host, port);
	if (res) {
		snprintf(err, errlen, "cannot listen on %s: %s", where, gai_strerror(res));
		return res == EAI_MEMORY ? -ENOMEM : -EADDRNOTAVAIL;
	}
	for (ai = all; ai && !res; ai = ai->ai_next) {
		int fd = bind_tcp(ai);

		if (fd >= 0) {
			announce(fd);
			res = add(s, fd, NULL, err, errlen);
		} else if (!optional || (fd != -EADDRNOTAVAIL && fd != -EAFNOSUPPORT)) {
			snprintf(err, errlen, "cannot listen on %s: %s", where, strerror(-fd));
			res = fd;
		}
	}
	freeaddrinfo(all);
	return res;
}

int listen_tcp(struct service *s, const char *where, char *err, size_t errlen)
{
	char host[256], port[8];
	int res = parse(where, host, sizeof(host), port, sizeof(port), err, errlen);

	if (res)
		return res;
	if (strcmp(host, "localhost"))
		return listen_host(s, host, port, false, err, errlen);
	res = listen_host(s, "127.0.0.1", port, false, err, errlen);
	return res ? res : listen_host(s, "::1", port, true, err, errlen);
}

int listen_unix(struct service *s, const char *path, char *err, size_t errlen)
{
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	fd = unix_socket(path, 0777 & ~mask, err, errlen);
	if (fd < 0)
		return fd;
	log_info("listening on %s", path);
	return add(s, fd, path, err, errlen);
}

int listen_passed(struct service *s, int fd, char *err, size_t errlen)
{
	struct sockaddr_un addr = { .sun_family = AF_UNSPEC };
	socklen_t len = sizeof(addr);

	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK)) {
		snprintf(err, errlen, "cannot use the socket that systemd passes: %s",
			 strerror(errno));
		return -errno;
	}
	if (!getsockname(fd, (struct sockaddr *)&addr, &len) && addr.sun_family == AF_UNIX)
		log_info("listening on %.*s", (int)sizeof(addr.sun_path), addr.sun_path);
	else
		announce(fd);
	return add(s, fd, NULL, err, errlen);
}

int listeners_start(struct service *s)
{
	struct listener *l;

	if (event_assign(&s->listeners.retry, s->loops[0].base, -1, 0, on_retry, s))
		return -ENOMEM;
	TAILQ_FOREACH(l, &s->listeners.list, link) {
		if (event_assign(&l->event, s->loops[0].base, l->fd, EV_READ | EV_PERSIST,
				 on_accept, l) ||
		    event_add(&l->event, NULL))
			return -ENOMEM;
		l->accepting = true;
	}
	return 0;
}

void listeners_close(struct listeners *ls)
{
	struct listener *l;
	struct stat st;

	while ((l = TAILQ_FIRST(&ls->list))) {
		TAILQ_REMOVE(&ls->list, l, link);
		if (l->accepting)
			event_del(&l->event);
		close(l->fd);
		if (l->path && !lstat(l->path, &st) && st.st_dev == l->dev && st.st_ino == l->ino)
			unlink(l->path);
		free(l->path);
		free(l);
	}
	if (ls->retrying)
		event_del(&ls->retry);
	ls->retrying = false;
}
