#include "server/export/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/vm_sockets.h>

#include "server/export/registry.h"

static const uint64_t second = 1000000000;

/* FNV-1a (Fowler, Noll, Vo). */
static unsigned bucket_of(const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return h % CLIENT_HASH;
}

/* ---- ids ---- */

void client_peer_init(struct client_peer *peer, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;
	const struct sockaddr_vm *vm = (const void *)addr;
	bool mapped = addr->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
	size_t len = sizeof(peer->address);

	memset(peer, 0, sizeof(*peer));
	peer->kind = PEER_UNIX;
	if (addr->sa_family == AF_INET) {
		peer->kind = PEER_TCP;
		peer->port = ntohs(in->sin_port);
		inet_ntop(AF_INET, &in->sin_addr, peer->address, len);
	} else if (addr->sa_family == AF_INET6) {
		peer->kind = PEER_TCP;
		peer->port = ntohs(in6->sin6_port);
		if (mapped)
			inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], peer->address, len);
		else
			inet_ntop(AF_INET6, &in6->sin6_addr, peer->address, len);
	} else if (addr->sa_family == AF_VSOCK) {
		peer->kind = PEER_VSOCK;
		peer->port = vm->svm_port;
		peer->cid = vm->svm_cid;
	}
}

void client_peer_free(struct client_peer *peer)
{
	free(peer->groups);
	peer->groups = NULL;
	peer->ngroups = 0;
}

static int place_text(const struct client_peer *peer, char *buf, size_t len)
{
	switch (peer->kind) {
	case PEER_TCP:
		return snprintf(buf, len, "%s", peer->address);
	case PEER_VSOCK:
		return snprintf(buf, len, "cid %u", peer->cid);
	case PEER_UNIX:
		break;
	}
	if (!peer->has_uid)
		return snprintf(buf, len, "a Unix socket");
	if (!peer->pid)
		return snprintf(buf, len, "uid %lu", (unsigned long)peer->uid);
	return snprintf(buf, len, "uid %lu (pid %ld)", (unsigned long)peer->uid, (long)peer->pid);
}

void client_peer_text(const struct client_peer *peer, char buf[CLIENT_PEER_TEXT])
{
	size_t len = 0;

	if (*peer->name)
		len = (size_t)snprintf(buf, CLIENT_PEER_TEXT, "'%s' at ", peer->name);
	place_text(peer, buf + len, CLIENT_PEER_TEXT - len);
}

static enum client_key effective_key(const struct client_peer *peer, enum client_key key)
{
	if (key == CLIENT_KEY_CONNECTION || key == CLIENT_KEY_EXPORT)
		return key;
	if (*peer->name && (key == CLIENT_KEY_TLS || key == CLIENT_KEY_AUTO))
		return CLIENT_KEY_TLS;
	if (peer->kind != PEER_UNIX)
		return CLIENT_KEY_ADDRESS;
	if (!peer->has_uid)
		return CLIENT_KEY_CONNECTION;
	if (key == CLIENT_KEY_UID || !peer->pid)
		return CLIENT_KEY_UID;
	return CLIENT_KEY_PROCESS;
}

void client_id(const struct client_peer *peer, enum client_key key, const char *export_name,
	       char id[CLIENT_ID_MAX + 1])
{
	size_t len = CLIENT_ID_MAX + 1;

	switch (effective_key(peer, key)) {
	case CLIENT_KEY_ADDRESS:
		if (peer->kind == PEER_VSOCK)
			snprintf(id, len, "cid:%u", peer->cid);
		else
			snprintf(id, len, "ip:%s", peer->address);
		break;
	case CLIENT_KEY_UID:
		snprintf(id, len, "uid:%lu", (unsigned long)peer->uid);
		break;
	case CLIENT_KEY_PROCESS:
		snprintf(id, len, "pid:%ld", (long)peer->pid);
		break;
	case CLIENT_KEY_TLS:
		snprintf(id, len, "tls:%s", peer->name);
		break;
	case CLIENT_KEY_EXPORT:
		snprintf(id, len, "export:%s", export_name);
		break;
	case CLIENT_KEY_AUTO:
	case CLIENT_KEY_CONNECTION:
		snprintf(id, len, "conn:%llu", (unsigned long long)peer->serial);
		break;
	}
}

/* ---- identities: under server.lock ---- */

static struct identity *identity_get(struct server *s, const char *id)
{
	struct identities *bucket = &s->identities[bucket_of(id)];
	struct identity *i;

	TAILQ_FOREACH(i, bucket, link)
		if (!strcmp(i->id, id))
			break;
	if (!i) {
		i = calloc(1, sizeof(*i));
		if (!i)
			return NULL;
		snprintf(i->id, sizeof(i->id), "%s", id);
		i->number = ++s->next_identity;
		budget_identity_init(&i->budget);
		TAILQ_INSERT_HEAD(bucket, i, link);
	}
	i->accounts++;
	return i;
}

static void identity_put(struct server *s, struct identity *i)
{
	if (--i->accounts)
		return;
	TAILQ_REMOVE(&s->identities[bucket_of(i->id)], i, link);
	free(i);
}

/* ---- accounts ---- */

int client_table_init(struct client_table *t)
{
	*t = (struct client_table){ .bucket = calloc(CLIENT_HASH, sizeof(*t->bucket)) };
	if (!t->bucket)
		return -ENOMEM;
	for (unsigned i = 0; i < CLIENT_HASH; i++)
		TAILQ_INIT(&t->bucket[i]);
	TAILQ_INIT(&t->busy);
	TAILQ_INIT(&t->idle);
	return 0;
}

struct client *client_find(const struct export *e, const char *id)
{
	struct client *c;

	TAILQ_FOREACH(c, &e->clients.bucket[bucket_of(id)], hash)
		if (!strcmp(c->identity->id, id))
			return c;
	return NULL;
}

static void unlink_idle(struct client *c)
{
	struct client_table *t = &c->export->clients;

	assert(!c->refs);
	elv_client_exit(&c->elv);
	TAILQ_REMOVE(&t->idle, c, link);
	TAILQ_REMOVE(&t->bucket[bucket_of(c->identity->id)], c, hash);
	t->n--;
}

/* What unlink_idle took out; server.lock held, the disk's need not be. */
static void client_free(struct client *c)
{
	identity_put(c->export->server, c->identity);
	free(c);
}

/* The account to go when there are too many: the oldest, of those that are owed nothing if any. */
static struct client *victim(const struct client_table *t)
{
	struct client *c;

	TAILQ_FOREACH(c, &t->idle, link)
		if (!c->elv.owed_error)
			return c;
	return TAILQ_FIRST(&t->idle);
}

static void add_ref(struct client *c)
{
	struct client_table *t = &c->export->clients;

	if (c->refs++)
		return;
	TAILQ_REMOVE(&t->idle, c, link);
	TAILQ_INSERT_TAIL(&t->busy, c, link);
}

static struct client *client_new(struct export *e, const char *id)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->export = e;
	c->identity = identity_get(e->server, id);
	if (!c->identity) {
		free(c);
		return NULL;
	}
	c->elv.identity = c->identity->number;
	rules_params(&e->server->rules, id, e, &c->elv.params);
	budget_account_init(&c->budget, &e->server->budget, &e->budget, &c->identity->budget);
	return c;
}

int client_get(struct export *e, const char *id, struct client **out)
{
	struct client_table *t = &e->clients;
	struct client *c, *old = NULL;
	uint64_t now;

	now = disk_lock(e->disk);
	c = client_find(e, id);
	if (c)
		add_ref(c);
	disk_unlock(e->disk);
	*out = c;
	if (c)
		return 0;

	/* Not there. Allocate, and look again: another loop may have been faster. */
	pthread_mutex_lock(&e->server->lock);
	c = client_new(e, id);
	if (!c) {
		pthread_mutex_unlock(&e->server->lock);
		return -ENOMEM;
	}
	now = disk_lock(e->disk);
	*out = client_find(e, id);
	if (*out) {
		old = c;
		add_ref(*out);
	} else {
		if (t->n >= CLIENT_MAX && (old = victim(t))) {
			unlink_idle(old);
			t->evicted++;
		}
		elv_client_init(&c->elv, &e->elv);
		c->refs = 1;
		c->sample[0].at = c->sample[1].at = now;
		TAILQ_INSERT_HEAD(&t->bucket[bucket_of(id)], c, hash);
		TAILQ_INSERT_TAIL(&t->busy, c, link);
		t->n++;
		*out = c;
	}
	disk_unlock(e->disk);
	if (old)
		client_free(old);
	pthread_mutex_unlock(&e->server->lock);
	return 0;
}

void client_put(struct client *c)
{
	struct disk *d = c->export->disk;
	uint64_t now = disk_lock(d);
	struct client_table *t = &c->export->clients;

	if (!--c->refs) {
		c->idle_since = now;
		TAILQ_REMOVE(&t->busy, c, link);
		TAILQ_INSERT_TAIL(&t->idle, c, link);
	}
	disk_unlock(d);
}

/* Take out the idle accounts that went idle before `before`; those that are owed an error stay. */
static void expire(struct export *e, uint64_t before, bool all, struct clients *gone)
{
	struct client *c, *next;

	for (c = TAILQ_FIRST(&e->clients.idle); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (!all && c->idle_since > before)
			break;
		if (!all && c->elv.owed_error)
			continue;
		unlink_idle(c);
		TAILQ_INSERT_TAIL(gone, c, link);
	}
}

static void free_all(struct clients *gone)
{
	struct client *c;

	while ((c = TAILQ_FIRST(gone))) {
		TAILQ_REMOVE(gone, c, link);
		client_free(c);
	}
}

unsigned client_table_tick(struct export *e)
{
	static const uint64_t keep = CLIENT_KEEP_S * second;
	struct clients gone = TAILQ_HEAD_INITIALIZER(gone);
	struct client *c;
	uint64_t now;
	unsigned n;

	pthread_mutex_lock(&e->server->lock);
	now = disk_lock(e->disk);
	TAILQ_FOREACH(c, &e->clients.busy, link) {
		if (now - c->sample[0].at < second)
			continue;
		c->sample[1] = c->sample[0];
		c->sample[0].at = now;
		client_done(c, &c->sample[0].requests, &c->sample[0].bytes);
	}
	if (now > keep)
		expire(e, now - keep, false, &gone);
	n = e->clients.n;
	disk_unlock(e->disk);
	free_all(&gone);
	pthread_mutex_unlock(&e->server->lock);
	return n;
}

void client_table_owed(struct export *e, void (*tell)(void *arg, const struct client *c), void *arg)
{
	const struct clients *lists[] = { &e->clients.busy, &e->clients.idle };
	struct client *c;

	disk_lock(e->disk);
	for (unsigned i = 0; i < 2; i++)
		TAILQ_FOREACH(c, lists[i], link)
			if (c->elv.owed_error)
				tell(arg, c);
	disk_unlock(e->disk);
}

void client_table_exit(struct client_table *t)
{
	struct clients gone = TAILQ_HEAD_INITIALIZER(gone);
	struct export *e = (struct export *)((char *)t - offsetof(struct export, clients));

	if (!t->bucket)
		return;
	assert(TAILQ_EMPTY(&t->busy));
	pthread_mutex_lock(&e->server->lock);
	if (e->disk) {
		disk_lock(e->disk);
		expire(e, 0, true, &gone);
		disk_unlock(e->disk);
	}
	free_all(&gone);
	pthread_mutex_unlock(&e->server->lock);
	free(t->bucket);
	t->bucket = NULL;
}

/* ---- figures ---- */

void client_done(const struct client *c, uint64_t *requests, uint64_t *bytes)
{
	*requests = c->elv.stats.answered;
	*bytes = c->elv.stats.bytes[ELV_DIR_READ] + c->elv.stats.bytes[ELV_DIR_WRITE];
}

void client_rates(const struct client *c, uint64_t now, uint64_t *iops, uint64_t *bytes_per_s)
{
	uint64_t requests, bytes, ns = now - c->sample[1].at;

	*iops = *bytes_per_s = 0;
	if (!c->refs)
		return;
	if (ns < second) /* of a young account a few requests would look like many */
		ns = second;
	client_done(c, &requests, &bytes);
	*iops = (uint64_t)((double)(requests - c->sample[1].requests) * 1e9 / (double)ns);
	*bytes_per_s = (uint64_t)((double)(bytes - c->sample[1].bytes) * 1e9 / (double)ns);
}
