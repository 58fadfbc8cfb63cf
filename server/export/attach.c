#include "server/export/attach.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "server/export/access.h"
#include "server/export/registry.h"

enum { SWEEP = 256 }; /* sockets looked at, with the lock held, before somebody is refused */

bool socket_is_gone(int fd, bool half_closes)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	short gone = POLLHUP | POLLERR | POLLNVAL | (half_closes ? 0 : POLLRDHUP);

	return poll(&p, 1, 0) == 1 && p.revents & gone;
}

/* ---- under the disk's lock ---- */

static void sit(struct seat *s)
{
	struct export *e = s->client->export;

	s->taken = true;
	TAILQ_INSERT_TAIL(&e->seats, s, link);
	e->nseats++;
	s->client->seats++;
	if (!s->use.readonly) {
		e->nwriters++;
		s->client->writers++;
	}
}

static void leave(struct seat *s)
{
	struct export *e = s->client->export;

	assert(s->taken);
	s->taken = false;
	TAILQ_REMOVE(&e->seats, s, link);
	e->nseats--;
	s->client->seats--;
	if (!s->use.readonly) {
		e->nwriters--;
		s->client->writers--;
	}
}

/*
 * Free the seats of those who have gone: of c alone (NULL: of all), of writers alone. Each one
 * looked at goes to the end of the list, so that the next time others get their turn.
 */
static void sweep(struct export *e, const struct client *c, bool writers)
{
	unsigned looked = 0;

	for (unsigned n = e->nseats; n && looked < SWEEP; n--) {
		struct seat *s = TAILQ_FIRST(&e->seats);

		TAILQ_REMOVE(&e->seats, s, link);
		TAILQ_INSERT_TAIL(&e->seats, s, link);
		if ((c && s->client != c) || (writers && s->use.readonly) || s->fd < 0)
			continue;
		looked++;
		if (socket_is_gone(s->fd, s->half_closes))
			leave(s);
	}
}

/* Do others than c (NULL: any) write, where only one connection, or one client, may? */
static bool others_write(const struct export *e, const struct client *c)
{
	unsigned own = c && e->settings.export.writers == WRITERS_IDENTITY ? c->writers : 0;

	return e->settings.export.writers != WRITERS_MANY && e->nwriters > own;
}

/* One of them. */
static const struct client *other_writer(const struct export *e, const struct client *c)
{
	const struct seat *s;

	TAILQ_FOREACH(s, &e->seats, link)
		if (!s->use.readonly &&
		    (e->settings.export.writers == WRITERS_ONE || s->client != c))
			return s->client;
	return NULL;
}

/* The beginning of each refusal. */
static int refuse(const struct export *e, const struct client_peer *peer, const char *why, int res,
		  char *err, size_t errlen)
{
	char who[CLIENT_PEER_TEXT];

	client_peer_text(peer, who);
	snprintf(err, errlen, "export '%.100s': %s %s: %s", e->name, who,
		 res == -EACCES ? "is not permitted" : "cannot attach", why);
	return res;
}

static int permit(struct export *e, const struct client_peer *peer, struct export_use *use,
		  char *err, size_t errlen)
{
	const char *entry;
	enum access access = access_of(e->access, peer, &entry);
	char why[200] = "no entry of its access list matches";

	if (access == ACCESS_NONE) {
		if (entry)
			snprintf(why, sizeof(why), "its access list has '%.120s'", entry);
		return refuse(e, peer, why, -EACCES, err, errlen);
	}
	use->readonly = access == ACCESS_READ || peer->readonly || e->settings.store.readonly ||
			!store_can(e->store, STORE_CAN_WRITE);
	use->alone = !use->readonly && e->settings.export.writers == WRITERS_ONE;
	return 0;
}

/* c: the peer's account; NULL: it has none yet. */
static int admit(struct export *e, const struct client_peer *peer, const struct client *c,
		 struct export_use *use, char *err, size_t errlen)
{
	const struct export_params *p = &e->settings.export;
	char why[CLIENT_ID_MAX + 150];
	int res = permit(e, peer, use, err, errlen);

	if (res)
		return res;
	if (p->export_connections && e->nseats >= p->export_connections)
		sweep(e, NULL, false);
	if (p->export_connections && e->nseats >= p->export_connections) {
		snprintf(why, sizeof(why), "it has %u connections, and export_connections is %llu",
			 e->nseats, (unsigned long long)p->export_connections);
		return refuse(e, peer, why, -EBUSY, err, errlen);
	}
	if (c && p->client_connections && c->seats >= p->client_connections)
		sweep(e, c, false);
	if (c && p->client_connections && c->seats >= p->client_connections) {
		snprintf(why, sizeof(why), "%s has %u connections, and client_connections is %llu",
			 c->identity->id, c->seats, (unsigned long long)p->client_connections);
		return refuse(e, peer, why, -EBUSY, err, errlen);
	}
	if (use->readonly)
		return 0;
	if (others_write(e, c))
		sweep(e, NULL, true);
	if (others_write(e, c)) {
		snprintf(why, sizeof(why), "%s writes to it, and writers is %s",
			 other_writer(e, c)->identity->id,
			 p->writers == WRITERS_ONE ? "one" : "identity");
		return refuse(e, peer, why, -EBUSY, err, errlen);
	}
	return 0;
}

/* ---- without it ---- */

int export_permits(struct export *e, const struct client_peer *peer, struct export_use *use,
		   char *err, size_t errlen)
{
	int res;

	disk_lock(e->disk);
	res = permit(e, peer, use, err, errlen);
	disk_unlock(e->disk);
	return res;
}

int export_attach(struct export *e, const struct client_peer *peer, struct seat *seat, char *err,
		  size_t errlen)
{
	char id[CLIENT_ID_MAX + 1];
	struct client *c;
	int res;

	client_id(peer, (enum client_key)e->settings.export.client_key, e->name, id);
	/* First without an account: those who are refused do not get one. */
	disk_lock(e->disk);
	res = admit(e, peer, client_find(e, id), &seat->use, err, errlen);
	disk_unlock(e->disk);
	if (res)
		return res;
	res = client_get(e, id, &c);
	if (res) {
		snprintf(err, errlen, "out of memory");
		return res;
	}
	disk_lock(e->disk);
	res = admit(e, peer, c, &seat->use, err, errlen);
	if (!res) {
		seat->client = c;
		sit(seat);
	}
	disk_unlock(e->disk);
	if (res)
		client_put(c);
	return res;
}

void seat_vacate(struct seat *seat)
{
	struct disk *d;

	if (!seat->client)
		return;
	d = seat->client->export->disk;
	disk_lock(d);
	if (seat->taken)
		leave(seat);
	disk_unlock(d);
}

void seat_free(struct seat *seat)
{
	if (!seat->client)
		return;
	seat_vacate(seat);
	client_put(seat->client);
	seat->client = NULL;
}
