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

#include <linux/vm_sockets.h>

#include "server/control/unix_socket.h"
#include "server/export/endpoint.h"
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
static void tune_tcp(int fd, const struct server_params *p)
{
	int idle = (int)(server_param(&p->keepalive) / 1000000000);
	int user_timeout = (int)(server_param(&p->user_timeout) / 1000000);
	int on = 1, interval = 15, count = 4;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (idle) {
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	}
	if (user_timeout)
		setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout,
			   sizeof(user_timeout));
}

static void tune(int fd, int family, const struct server_params *p)
{
	int size = 1 << 20;

	/* Of a Unix socket: room for the replies of one turn, as far as the system allows. */
	if (family == AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	else if (family != AF_VSOCK)
		tune_tcp(fd, p);
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
	a->tls = (enum nbd_tls)(l->own_tls ? l->tls : server_param(&s->server.params.tls));
	res = describe_peer(fd, &addr, &a->peer);
	if (res) {
		log_warning("cannot tell who connects: %s", strerror(-res));
		client_peer_free(&a->peer);
		free(a);
		close(fd);
		return true;
	}
	a->peer.readonly = l->readonly;
	a->peer.serial = atomic_fetch_add(&s->server.serial, 1) + 1;
	tune(fd, addr.ss_family, &s->server.params);
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

/* at: NULL: of a socket that was passed. */
static int add(struct service *s, int fd, const struct endpoint *at, char *err, size_t errlen)
{
	const char *path = at && at->kind == ENDPOINT_UNIX ? at->path : NULL;
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
	if (at) {
		l->own_tls = at->own_tls;
		l->tls = at->tls;
		l->readonly = at->readonly;
	}
	if (path && !lstat(path, &st)) {
		l->dev = st.st_dev;
		l->ino = st.st_ino;
	}
	TAILQ_INSERT_TAIL(&s->listeners.list, l, link);
	return 0;
}

/* dual: an IPv6 socket that takes IPv4 as well. Returns the socket, or a negative errno. */
static int bind_to(const struct sockaddr *addr, socklen_t len, bool dual)
{
	int on = 1, v6only = !dual, res;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (addr->sa_family != AF_VSOCK)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (addr->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
	if (!bind(fd, addr, len) && !listen(fd, BACKLOG))
		return fd;
	res = -errno;
	close(fd);
	return res;
}

/* Is 0.0.0.0 with this port another one of the endpoints? */
static bool has_all_ipv4(const struct service *s, const char *port)
{
	char **text = s->server.params.listen, err[TUNABLE_ERR_MAX];
	struct endpoint e;

	for (; text && *text; text++)
		if (!endpoint_parse_listen(*text, &e, err, sizeof(err)) &&
		    e.kind == ENDPOINT_TCP && !strcmp(e.host, "0.0.0.0") && !strcmp(e.port, port))
			return true;
	return false;
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

/* optional: an address that this machine does not have is passed over. */
static int listen_host(struct service *s, const struct endpoint *at, const char *host,
		       bool optional, char *err, size_t errlen)
{
	bool dual = !strcmp(host, "::") && !has_all_ipv4(s, at->port);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *all, *ai;
	const char *form = strchr(host, ':') ? "[%s]:%s" : "%s:%s";
	char where[300];
	int res = getaddrinfo(*host ? host : NULL, at->port, &hints, &all);

	snprintf(where, sizeof(where), form, host, at->port);
	if (res) {
		snprintf(err, errlen, "cannot listen on %s: %s", where, gai_strerror(res));
		return res == EAI_MEMORY ? -ENOMEM : -EADDRNOTAVAIL;
	}
	for (ai = all; ai && !res; ai = ai->ai_next) {
		int fd = bind_to(ai->ai_addr, ai->ai_addrlen, dual);

		if (fd >= 0) {
			announce(fd);
			res = add(s, fd, at, err, errlen);
		} else if (!optional || (fd != -EADDRNOTAVAIL && fd != -EAFNOSUPPORT)) {
			snprintf(err, errlen, "cannot listen on %s: %s", where, strerror(-fd));
			res = fd;
		}
	}
	freeaddrinfo(all);
	return res;
}

static int listen_vsock(struct service *s, const struct endpoint *at, const char *text, char *err,
			size_t errlen)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = at->any_cid ? VMADDR_CID_ANY : at->cid,
		.svm_port = at->vport,
	};
	int fd = bind_to((const struct sockaddr *)&addr, sizeof(addr), false);

	if (fd < 0) {
		snprintf(err, errlen, "cannot listen on %s: %s", text,
			 fd == -EAFNOSUPPORT || fd == -ENODEV ? "this machine has no vsock" :
			 fd == -EADDRNOTAVAIL && !at->any_cid ?
				"this machine does not have that CID" : strerror(-fd));
		return fd;
	}
	log_info("listening on %s", text);
	return add(s, fd, at, err, errlen);
}

int listen_at(struct service *s, const char *text, char *err, size_t errlen)
{
	struct endpoint at;
	int res = endpoint_parse_listen(text, &at, err, errlen);

	if (res)
		return res;
	if (at.kind == ENDPOINT_VSOCK)
		return listen_vsock(s, &at, text, err, errlen);
	if (strcmp(at.host, "localhost"))
		return listen_host(s, &at, at.host, false, err, errlen);
	res = listen_host(s, &at, "127.0.0.1", false, err, errlen);
	return res ? res : listen_host(s, &at, "::1", true, err, errlen);
}

/* A group of its own: nobody else gets in before the file is that group's. */
static int give_to_group(const struct endpoint *at, mode_t mode, char *err, size_t errlen)
{
	int res = lchown(at->path, (uid_t)-1, at->group) || chmod(at->path, mode) ? -errno : 0;

	if (res) {
		snprintf(err, errlen, "cannot give %s to group %u: %s", at->path,
			 (unsigned)at->group, strerror(-res));
		unlink(at->path);
	}
	return res;
}

int listen_unix(struct service *s, const char *text, char *err, size_t errlen)
{
	mode_t mask = umask(0), mode;
	struct endpoint at;
	int fd, res = endpoint_parse_unix(text, &at, err, errlen);

	umask(mask);
	if (res)
		return res;
	mode = at.has_mode ? at.mode : 0777 & ~mask;
	fd = unix_socket(at.path, at.has_group ? mode & 0700 : mode, err, errlen);
	if (fd < 0)
		return fd;
	if (at.has_group) {
		res = give_to_group(&at, mode, err, errlen);
		if (res) {
			close(fd);
			return res;
		}
	}
	log_info("listening on %s", at.path);
	return add(s, fd, &at, err, errlen);
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
