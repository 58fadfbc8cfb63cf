/*
 * TLS handshakes of connections. Their computing takes milliseconds, so it is done by the workers
 * (server/store/workers.h), one step at a time: as far as the bytes that are there allow.
 *
 *   loop: STARTTLS ──> worker: tls_shake ──> inbox ──> loop: done, or wait for the socket, and again
 *
 * While a worker has it, the session and the socket are the worker's, and the connection counts a
 * request more, so that it stays.
 */
#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "server/net/conn.h"
#include "server/net/log.h"
#include "server/net/service.h"

static struct conn *conn_of(struct work *w)
{
	return (struct conn *)((char *)w - offsetof(struct conn, shake));
}

/* A worker. */
static void shake(struct work *w)
{
	struct conn *c = conn_of(w);

	c->shaken = tls_shake(c->tls);
	loop_give_shaken(c->loop, c);
}

static void to_worker(struct conn *c)
{
	c->shaking = true;
	c->readable = false;
	c->outstanding++;
	c->shake.run = shake;
	workers_add(&c->shake);
}

bool secure_begin(struct conn *c, const char **why)
{
	struct tls_context *ctx = service_tls(c->loop->service);

	if (!ctx) {
		*why = "there is no TLS any more";
		return false;
	}
	c->tls = tls_session_new(ctx, c->fd);
	tls_context_put(ctx);
	if (!c->tls) {
		*why = "out of memory";
		return false;
	}
	to_worker(c);
	return true;
}

void secure_continue(struct conn *c)
{
	if (c->shaking)
		return;
	if (c->watches_write || (!c->readable && !tls_wants_write(c->tls)))
		return;
	to_worker(c);
}

/* It is done: what follows is inside. */
static void secured(struct conn *c)
{
	struct conn_handshake *hs = c->hs;

	hs->peer.secure = true;
	snprintf(hs->peer.name, sizeof(hs->peer.name), "%s", tls_peer_name(c->tls));
	log_debug("connection %llu: %s, client '%s'", (unsigned long long)c->serial,
		  tls_description(c->tls), hs->peer.name);
	nbd_handshake_secured(&hs->h);
	hs->result = NBD_HANDSHAKE_NEED_MORE;
	c->readable = true; /* it may hold bytes that came with the last of the handshake */
	conn_ready(c);
}

static void failed(struct conn *c)
{
	char peer[CLIENT_PEER_TEXT];

	client_peer_text(&c->hs->peer, peer);
	log_info("connection %llu from %s: %s", (unsigned long long)c->serial, peer,
		 tls_why(c->tls));
	conn_kill(c, tls_why(c->tls));
}

void conn_shaken(struct conn *c)
{
	assert(c->shaking && c->outstanding);
	c->shaking = false;
	c->outstanding--;
	if (c->state == CONN_DEAD) {
		conn_close_socket(c);
		conn_settle(c);
		return;
	}
	if (!c->shaken) {
		secured(c);
	} else if (c->shaken != -EAGAIN) {
		failed(c);
	} else if (c->readable) {
		to_worker(c); /* something came while it was at work, which it may not have seen */
	} else if (tls_wants_write(c->tls)) {
		if (event_add(&c->write_event, NULL))
			conn_kill(c, "out of memory");
		else
			c->watches_write = true;
	}
}

void secure_end(struct conn *c)
{
	tls_bye(c->tls);
}

void secure_free(struct conn *c)
{
	tls_session_free(c->tls);
	c->tls = NULL;
}
