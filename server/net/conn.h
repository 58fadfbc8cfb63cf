/*
 * Connections and their requests. Everything belongs to the connection's loop and its thread, but
 * for struct elv_conn, elv_request (the disk's lock) and the budget's waiter.
 *
 *                  handshake.c     receive.c                 turn.c         reply.c
 *   socket ──> HANDSHAKE ──> scratch ──> requests ──> elevator, store ──> replies ──> socket
 *
 * A request is on one list at a time, linked by elv.link: the loop's free ones; in the elevator
 * and on the ways to it and from it; its connection's replies; the loop's spent ones.
 */
#ifndef SERVER_NET_CONN_H
#define SERVER_NET_CONN_H

#include "server/export/attach.h"
#include "server/nbd/handshake.h"
#include "server/nbd/reply.h"
#include "server/nbd/request.h"
#include "server/net/loop.h"
#include "server/net/tls.h"
#include "server/store/workers.h"

enum conn_state {
	CONN_HANDSHAKE,
	CONN_OPEN,
	CONN_ENDING, /* is not read any more: what was received is finished, then it is closed */
	CONN_DEAD,   /* the socket is closed; it waits for its last request to come back */
};

enum {
	CONN_MAX_UNSENT = 256,      /* replies that the socket does not take; then reading stops */
	CONN_LARGE = 32 << 10,      /* from here on payloads are worth reading to their place */
	CONN_SMALL_READ = 4 << 10,  /* bytes read behind such a payload, or in a crowd */
	CONN_BATCH = 128,           /* requests decoded before the budget is asked */
	CONN_PIECE = 1 << 20,       /* a longer READ is read and answered in pieces, if it may be */
};

/*
 * A READ in pieces, where replies come in chunks: each is a request of its own, with its own
 * budget, and answered as soon as it is there. Held by the pieces that are not answered, and by
 * the connection while there are more to come; the last one's reply is the last chunk.
 */
struct split {
	unsigned holders;
};

/* What a connection has only during the handshake. */
struct conn_handshake {
	struct nbd_handshake h;
	struct nbd_out out;
	size_t sent;                /* of out */
	enum nbd_handshake_result result;
	struct client_peer peer;
	char description[NBD_STRING_MAX + 1]; /* of the export that was asked for last */
};

struct conn {
	struct elv_conn elv;        /* the disk's lock, once attached */
	struct budget_waiter waiter; /* the budget's lock, while it waits */

	struct loop *loop;          /* constant */
	int fd;                     /* -1: closed */
	struct tls_session *tls;    /* NULL: plain. A worker's, while it is shaking */
	bool shaking;               /* a worker goes on with the TLS handshake, ... */
	int shaken;                 /* ... with this result, as tls_shake */
	struct work shake;
	uint64_t serial;            /* constant; for the log */
	struct conn_handshake *hs;  /* CONN_HANDSHAKE */
	struct export *export;      /* a reference; NULL during the handshake, like these: */
	struct seat seat;           /* taken at the end of the handshake */
	struct client *client;      /* the seat's */
	struct loop_disk *disk;
	struct departure *departure; /* the export is being removed, and the loop knows it */
	struct nbd_export_limits limits;

	enum conn_state state;
	bool readable;              /* the socket may have something: no read has said otherwise */
	bool noticed;               /* libevent has said so, and nobody has looked since */
	bool hung_up;               /* the other end sends no more: read until it says so */
	bool waiting;               /* for budget */
	bool reserved;              /* the first request of `rest` has its budget */
	bool large;                 /* the last payload was: see CONN_LARGE */
	bool disconnected;          /* DISC came: even if nobody reads replies, all is executed */
	bool says_disc;             /* it is in `rest`, and the other end has gone */
	bool half_closes;           /* constant: Unix, where half-closed is not gone */
	bool refusing;              /* its export goes: what it asks for is answered ESHUTDOWN */
	bool mute;                  /* nobody does: the socket is closed, the rest goes on */
	bool attached;              /* elv_conn_open was done, elv_conn_close was not */
	bool broken;                /* a read or write of the socket failed */
	bool heard;                 /* dead: all its replies were read, as far as the kernel knows */
	bool in_ready, in_replying, in_granted; /* the last: inbox_lock */
	bool watches_write;

	uint8_t head[NBD_EXTENDED_REQUEST_SIZE]; /* an incomplete header */
	uint8_t head_len;
	struct split *split;        /* of the next request: some pieces of it have been made, ... */
	uint64_t split_at;          /* ... that many bytes */
	uint8_t *rest;              /* received and not decoded, while parsing must stop */
	size_t rest_len, rest_pos;
	struct request *payload;    /* its payload is being received */
	uint64_t payload_left;      /* bytes; of a refused request they are skipped */
	uint64_t payload_since;     /* ns: when its header, or the connection, came */

	struct elv_requests replies; /* unsent, the first maybe in part */
	unsigned nreplies;
	size_t sent;                /* bytes of the first one */
	uint64_t unread_since;      /* ns: when the first one came first */

	unsigned outstanding;       /* requests that exist */
	uint64_t looked;            /* the visit (struct loop) in which it was looked at */
	bool gone;                  /* and what was found */
	struct event read_event, write_event;
	TAILQ_ENTRY(conn) link;           /* the loop's conns */
	TAILQ_ENTRY(conn) ready_link;
	TAILQ_ENTRY(conn) reply_link;     /* replying */
	TAILQ_ENTRY(conn) since_link;     /* handshakes or payloads */
	TAILQ_ENTRY(conn) unread_link;
	TAILQ_ENTRY(conn) granted_link;   /* in_granted: inbox_lock; likewise this: */
	TAILQ_ENTRY(conn) shaken_link;
	TAILQ_ENTRY(conn) closing_link;   /* of the loop_disk */
	TAILQ_ENTRY(conn) departure_link;
};

/* What goes to the client: reply.c. */
enum reply_kind { REPLY_SIMPLE, REPLY_NONE, REPLY_DATA, REPLY_STATUS, REPLY_ERROR };

struct request {
	struct elv_request elv;     /* first: a finished elv_request is cast to this */
	struct conn *conn;
	uint64_t cookie;
	uint64_t offset;            /* as received */
	uint32_t length;            /* bytes at elv.data: READ, WRITE and BLOCK_STATUS */
	uint32_t payload;           /* bytes that follow the header */
	uint32_t reserved;          /* bytes of budget */
	uint32_t answer;            /* NBD_E*, once finished */
	const char *reason;         /* of that, if it is an error: a constant sentence, or NULL */
	struct split *split;        /* it is a piece; NULL: it is whole */
	struct nbd_span *spans;     /* of a reply with holes in it; NULL: one chunk */
	uint64_t wire;              /* bytes of the reply */
	uint32_t body;              /* of these: bytes at elv.data, without spans */
	unsigned nspans;
	uint8_t kind;               /* enum reply_kind */
	bool done;                  /* its chunk, or the last one, is the last of the reply */
	uint16_t command, flags;    /* NBD_CMD_* */
	bool has_slot;              /* nr_requests: until it is executed */
	bool invalid;               /* refused: it never sees an elevator */
	bool unanswered;            /* spent without a reply */
};

static inline struct request *request_of(struct elv_request *rq)
{
	return (struct request *)rq;
}

/* --- conn.c --- */

/* Take over an accepted socket; a is freed. On failure the socket is closed. */
void conn_new(struct loop *loop, struct arrival *a);

/*
 * The handshake is over: join the export with this info, whose reference is taken, and where
 * c->seat is. In `rest` are
 * the first requests. False: the connection is dead.
 */
bool conn_start(struct conn *c, const struct nbd_export_info *info);

/* The socket is to be looked at, or `rest` to be parsed, in this turn. */
void conn_ready(struct conn *c);

/* Do what conn_ready promised. */
void conn_work(struct conn *c);

/* Nothing more is read: finish, answer, close. */
void conn_end(struct conn *c);

/*
 * The connection is gone: close the socket, withdraw what can be withdrawn. It is freed once its
 * last request is back: at once, if there is none. why (a sentence, may be NULL) is for the log.
 */
void conn_kill(struct conn *c, const char *why);

/*
 * After its replies have been sent or requests were freed: is an ending one at its end, a dead one
 * free?
 */
void conn_settle(struct conn *c);

/* Close the socket: at once, or after a worker that uses it. */
void conn_close_socket(struct conn *c);

/* May its socket be read? */
bool conn_may_read(const struct conn *c);

/*
 * Is the connection broken, or the other end closed? Asks the kernel. On TCP the end of what it
 * sends counts as that: a client that was killed looks no different.
 */
bool conn_peer_is_gone(const struct conn *c);

/* Nothing more is read, if that is not so already: LOOP_DRAIN and the like. */
void conn_drain(struct conn *c);

/* It is attached, and somebody wants it to go: client_end. */
void conn_dismiss(struct conn *c, enum client_end how);

/* Close those that took too long. Returns when the next one does, or ELV_NEVER. */
uint64_t conn_timeouts(struct loop *loop);

/* Requests; NULL for lack of memory. */
struct request *request_new(struct conn *c);
void request_free(struct request *r);

/* Free the requests that a loop keeps for reuse. */
void request_trim(struct loop *loop);

/* Read and send, inside TLS or not; as readv and sendmsg do, which never block here. */
ssize_t conn_readv(struct conn *c, struct iovec *iov, int n);
ssize_t conn_sendv(struct conn *c, struct iovec *iov, int n);

/* --- secure.c --- */

/*
 * STARTTLS was agreed on: have a worker begin the TLS handshake. False: it cannot; c is to be
 * killed with *why.
 */
bool secure_begin(struct conn *c, const char **why);

/* The socket has something, or room: have the worker go on, unless it is at it. */
void secure_continue(struct conn *c);

/* The inbox: a worker is done for now. */
void conn_shaken(struct conn *c);

/* End TLS in order, as far as the socket takes it; and: free it. */
void secure_end(struct conn *c);
void secure_free(struct conn *c);

/* --- handshake.c --- */

/* a gives away what its peer owns. On failure handshake_free is due. */
int handshake_begin(struct conn *c, struct arrival *a);
void handshake_free(struct conn *c);

/* The export that it has been granted and has not joined yet, or NULL. */
const struct export *handshake_found(const struct conn *c);

/* Go on, with what is in the socket. */
void handshake_work(struct conn *c);

/* --- receive.c --- */

/* Read the socket once and decode what came. */
void conn_receive(struct conn *c);

/*
 * The other end is gone: move what it had sent, and nobody has read, to `rest`, if it ends with
 * DISC. False: it does not.
 */
bool conn_last_words(struct conn *c);

/* Decode what is in `rest`. */
void conn_parse_rest(struct conn *c);

/* One holder less. Returns whether it was the last; then s is freed. */
bool split_drop(struct split *s);

/*
 * Its export is being removed: what has been read is still executed, all later requests are
 * answered ESHUTDOWN; a write whose payload is incomplete is one of these.
 */
void conn_refuse(struct conn *c);

/* Forget a request whose payload is incomplete. */
void conn_drop_payload(struct conn *c);

/* --- reply.c --- */

/* A request is finished: its answer is set. To the connection's replies, or away with it. */
void reply_add(struct request *r);

/* Send as much as the socket takes. */
void reply_send(struct conn *c);

/* The connection is gone: nobody gets an answer. */
void reply_drop_all(struct conn *c);

#endif
