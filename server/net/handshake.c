/* The socket's side of a handshake; the protocol is in server/nbd/handshake.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "server/net/conn.h"
#include "server/net/log.h"
#include "server/net/service.h"

enum {
	READ_SIZE = 64 << 10,
	MAX_FEEDS = 16, /* before others get their turn */
};

/* ---- what the protocol asks about exports ---- */

/* e's reference goes into info. */
static void describe(struct conn *c, struct export *e, const struct export_use *use,
		     struct nbd_export_info *info)
{
	const struct store_geometry *g = &e->store->geometry;
	char *description = c->hs->description;
	struct nbd_capabilities caps = {
		.read_only = use->readonly,
		.rotational = false, /* clients would sort, too; here is the elevator for that */
		.trim = store_can(e->store, STORE_CAN_TRIM),
		.write_zeroes = true,
		.fast_zero = store_can(e->store, STORE_CAN_FAST_ZERO),
		.cache = store_can(e->store, STORE_CAN_CACHE),
		.multi_conn = g->multi_conn && !use->alone,
	};

	info->limits = (struct nbd_export_limits){
		.size = g->size,
		.min_block = 1,
		.flags = nbd_transmission_flags(&caps),
	};
	info->preferred_block = g->preferred;
	info->name = e->name;
	info->name_len = strlen(e->name);
	export_description(e, description, sizeof(c->hs->description));
	info->description = description;
	info->description_len = strlen(description);
	info->export = e;
}

static int find_export(void *ctx, const char *name, size_t len, enum nbd_find_purpose purpose,
		       struct nbd_export_info *info, char *err, size_t errlen)
{
	struct conn *c = ctx;
	struct export *e = export_find(c->loop->server, name, len);
	struct export_use use;
	int res;

	if (!e) {
		if (export_leaves(c->loop->server, name, len)) {
			snprintf(err, errlen, "export '%.*s' is being removed",
				 (int)(len < 200 ? len : 200), name);
			return -ESHUTDOWN;
		}
		if (len)
			snprintf(err, errlen, "there is no export '%.*s'",
				 (int)(len < 200 ? len : 200), name);
		else
			snprintf(err, errlen, "there is no default export");
		return -ENOENT;
	}
	if (purpose == NBD_FIND_ATTACH) {
		c->seat = (struct seat){ .fd = c->fd, .half_closes = c->half_closes };
		res = export_attach(e, &c->hs->peer, &c->seat, err, errlen);
		use = c->seat.use;
	} else {
		res = export_permits(e, &c->hs->peer, &use, err, errlen);
	}
	if (res) {
		/* Who only asks, perhaps before it attaches, is less news. */
		log_write(purpose == NBD_FIND_ATTACH ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
			  "connection %llu: %s", (unsigned long long)c->serial, err);
		export_put(e);
		return res;
	}
	describe(c, e, &use, info);
	return 0;
}

static int next_export(void *ctx, uint64_t *cursor, struct nbd_export_info *info, char *err,
		       size_t errlen)
{
	struct conn *c = ctx;
	struct export_use use;
	struct export *e;

	while ((e = export_next(c->loop->server, cursor))) {
		if (!export_permits(e, &c->hs->peer, &use, err, errlen)) {
			describe(c, e, &use, info);
			return 1;
		}
		export_put(e);
	}
	return 0;
}

static void put_export(void *ctx, void *export, enum nbd_find_purpose purpose)
{
	struct conn *c = ctx;

	if (purpose == NBD_FIND_ATTACH)
		seat_free(&c->seat);
	export_put(export);
}

static const struct nbd_exports_ops exports_ops = {
	.find = find_export,
	.next = next_export,
	.put = put_export,
};

/* ---- setting up ---- */

int handshake_begin(struct conn *c, struct arrival *a)
{
	struct conn_handshake *hs = calloc(1, sizeof(*hs));

	if (!hs)
		return -ENOMEM;
	hs->peer = a->peer;
	a->peer.groups = NULL; /* they are ours now */
	a->peer.ngroups = 0;
	hs->result = NBD_HANDSHAKE_NEED_MORE;
	nbd_handshake_init(&hs->h, &exports_ops, c);
	nbd_handshake_set_tls(&hs->h, a->tls);
	nbd_out_init(&hs->out);
	c->hs = hs;
	return nbd_handshake_greeting(&hs->h, &hs->out);
}

void handshake_free(struct conn *c)
{
	if (!c->hs)
		return;
	nbd_handshake_free(&c->hs->h);
	nbd_out_free(&c->hs->out);
	client_peer_free(&c->hs->peer);
	free(c->hs);
	c->hs = NULL;
}

const struct export *handshake_found(const struct conn *c)
{
	return nbd_handshake_found(&c->hs->h);
}

/* ---- at work ---- */

/* 0 when all is sent; -EAGAIN: later, when the socket says so; or another error. */
static int send_out(struct conn *c)
{
	struct conn_handshake *hs = c->hs;

	while (hs->sent < hs->out.len) {
		struct iovec iov = { hs->out.data + hs->sent, hs->out.len - hs->sent };
		ssize_t n = conn_sendv(c, &iov, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (event_add(&c->write_event, NULL))
				return -ENOMEM;
			c->watches_write = true;
			return -EAGAIN;
		}
		if (n < 0)
			return -errno;
		hs->sent += (size_t)n;
	}
	hs->out.len = hs->sent = 0;
	return 0;
}

/* Keep n bytes, at most READ_SIZE of them, that were received and not taken. */
static int keep(struct conn *c, const uint8_t *bytes, size_t n)
{
	uint8_t *rest = NULL;

	if (n) {
		rest = malloc(n);
		if (!rest)
			return -ENOMEM;
		memcpy(rest, bytes, n);
	}
	free(c->rest);
	c->rest = rest;
	c->rest_len = n;
	c->rest_pos = 0;
	return 0;
}

/* Feed what is kept, or what the socket has. 0, -EAGAIN: there is nothing, or an error. */
static int feed(struct conn *c)
{
	struct conn_handshake *hs = c->hs;
	const uint8_t *in = c->rest;
	size_t n = c->rest_len, taken;

	if (!in && hs->result == NBD_HANDSHAKE_NEED_MORE) {
		struct iovec iov = { c->loop->scratch, READ_SIZE };
		ssize_t got = conn_readv(c, &iov, 1);

		if (got < 0 && errno == EINTR)
			return 0;
		if (got < 0 && errno == EAGAIN)
			c->readable = false;
		if (got <= 0)
			return got < 0 ? -errno : -ECONNRESET;
		in = c->loop->scratch;
		n = (size_t)got;
	}
	hs->result = nbd_handshake_feed(&hs->h, in, in ? n : 0, &taken, &hs->out);
	return keep(c, in ? in + taken : NULL, in ? n - taken : 0);
}

/* STARTTLS is answered. What came before that, outside of TLS, is from who knows whom. */
static void start_tls(struct conn *c)
{
	const char *why = "data between STARTTLS and the answer to it";

	if (c->rest || !secure_begin(c, &why))
		conn_kill(c, why);
}

void handshake_work(struct conn *c)
{
	struct nbd_export_info info;
	int res;

	if (c->tls && c->hs->result == NBD_HANDSHAKE_STARTTLS) {
		secure_continue(c);
		return;
	}
	for (unsigned feeds = 0;; feeds++) {
		res = c->watches_write ? -EAGAIN : send_out(c);
		if (res)
			break;
		if (c->hs->result == NBD_HANDSHAKE_CLOSE) {
			conn_kill(c, nbd_handshake_reason(&c->hs->h));
			return;
		}
		if (c->hs->result == NBD_HANDSHAKE_STARTTLS) {
			start_tls(c);
			return;
		}
		if (c->hs->result == NBD_HANDSHAKE_ENTER_TRANSMISSION) {
			nbd_handshake_export(&c->hs->h, &info);
			if (conn_start(c, &info))
				conn_ready(c);
			return;
		}
		if (feeds == MAX_FEEDS) {
			conn_ready(c);
			return;
		}
		res = feed(c);
		if (res)
			break;
	}
	if (res != -EAGAIN)
		conn_kill(c, "the client is gone before the end of the handshake");
}
