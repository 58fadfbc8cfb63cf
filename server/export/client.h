/*
 * Clients: identities and their accounts.
 *
 * An *identity* is whoever gets one share: all connections with the same id text, at whatever
 * export. It has a number, unique in the life of the server, and its part of the memory budget. An
 * *account* (struct client) is an identity at one export: the elevator's client with its virtual
 * time, weight and statistics. An account outlives its connections, so that reconnecting earns
 * nothing: for CLIENT_KEEP, or until CLIENT_MAX accounts of the export are needed by others; then
 * the one that has been without a connection for the longest time goes first. Accounts with
 * unfinished requests stay; one that is owed an error (sched/request.h: owed_error) goes only
 * where there is no other.
 */
#ifndef SERVER_EXPORT_CLIENT_H
#define SERVER_EXPORT_CLIENT_H

#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "sched/elevator.h"
#include "server/export/budget.h"
#include "server/export/export.h"

enum {
	CLIENT_MAX = 4096,       /* accounts of an export, if connections do not need more */
	CLIENT_KEEP_S = 600,     /* seconds that an account outlives its last connection */
	CLIENT_HASH = 1024,      /* buckets */
	CLIENT_NAME_MAX = 200,   /* bytes of a TLS name */
};

/* What is known about the other end of a socket. Set once, by whoever accepted it. */
struct client_peer {
	enum { PEER_TCP, PEER_UNIX, PEER_VSOCK } kind;
	char address[64];    /* TCP: the address, IPv4 also where it came mapped into IPv6 */
	uint32_t port;       /* TCP, vsock */
	uint32_t cid;        /* vsock: of the machine */
	bool has_uid;        /* Unix: SO_PEERCRED */
	uid_t uid;
	gid_t gid;
	pid_t pid;           /* Unix; 0: not known (another pid namespace) */
	gid_t *groups;       /* Unix: the others that it is in, of whoever has the struct */
	unsigned ngroups;
	bool readonly;       /* it came by a socket whose clients may only read */
	bool secure;         /* it speaks TLS, and so may have */
	char name[CLIENT_NAME_MAX + 1]; /* a name that it has proved; "": none */
	uint64_t serial;     /* of the connection */
};

struct sockaddr;

/* Room for client_peer_text. */
enum { CLIENT_PEER_TEXT = CLIENT_NAME_MAX + 100 };

/*
 * Of a socket whose other end has this address: nothing else is known yet. A family without
 * addresses for people counts as Unix.
 */
void client_peer_init(struct client_peer *peer, const struct sockaddr *addr);

/* What it owns. */
void client_peer_free(struct client_peer *peer);

/* For people: "10.0.0.7", "uid 1000 (pid 77)", "cid 3"; with a name "'alice' at 10.0.0.7". */
void client_peer_text(const struct client_peer *peer, char buf[CLIENT_PEER_TEXT]);

/* server.lock. */
struct identity {
	char id[CLIENT_ID_MAX + 1];
	uint64_t number;               /* elv_client.identity */
	unsigned accounts;
	struct budget_identity budget; /* budget.lock */
	TAILQ_ENTRY(identity) link;    /* of its hash bucket */
};
TAILQ_HEAD(identities, identity);

/* The disk's lock, unless said otherwise. */
struct client {
	struct elv_client elv;
	struct budget_account budget;  /* budget.lock */
	struct export *export;         /* constant */
	struct identity *identity;     /* constant; a reference */
	unsigned refs;                 /* connections, also those that wait for a last request */
	unsigned seats, writers;       /* server/export/attach.h; and those that may write */
	uint64_t idle_since;           /* ns; while refs is 0 */
	struct {                       /* requests and bytes of the last full second, for people */
		uint64_t at, requests, bytes;
	} sample[2];
	TAILQ_ENTRY(client) hash;      /* of its export's bucket */
	TAILQ_ENTRY(client) link;      /* of the export's busy or idle list */
};
TAILQ_HEAD(clients, client);

/* The accounts of an export. Embedded in it; the disk's lock. */
struct client_table {
	struct clients *bucket;        /* CLIENT_HASH of them */
	struct clients busy, idle;     /* refs > 0; refs == 0, oldest first */
	unsigned n;
	uint64_t evicted;
};

/*
 * The id that a connection to an export gets by its client_key. `auto`: the TLS name if it has one;
 * on a Unix socket the process (the uid, if the process is not known), on TCP the address, on vsock
 * the machine. A key that the connection has not (an address on a Unix socket, a process on TCP)
 * falls back to that.
 */
void client_id(const struct client_peer *peer, enum client_key key, const char *export_name,
	       char id[CLIENT_ID_MAX + 1]);

int client_table_init(struct client_table *t);

/* No account may be in use. Accounts are freed with their identities. Main thread. */
void client_table_exit(struct client_table *t);

/*
 * The account of this id at e, with a reference: found, or made with the settings that the rules
 * (server/export/rules.h) give it. -ENOMEM. Any thread, no lock held.
 */
int client_get(struct export *e, const char *id, struct client **out);

/* The account of this id at e, if there is one. The disk's lock. */
struct client *client_find(const struct export *e, const char *id);

/*
 * Give a reference back; nothing of the connection is unfinished. No lock held; now as disk_lock.
 */
void client_put(struct client *c);

/*
 * Once a second: rates, and accounts that have been kept for long enough. No lock held. Returns how
 * many accounts there are.
 */
unsigned client_table_tick(struct export *e);

/*
 * Who does not know that a sync failed (sched/request.h: owed_error): tell(arg, account) for each.
 * No lock held; tell is called with the disk's lock.
 */
void client_table_owed(struct export *e, void (*tell)(void *arg, const struct client *c),
		       void *arg);

/* Rates over the last one to two seconds. The disk's lock. */
void client_rates(const struct client *c, uint64_t now, uint64_t *iops, uint64_t *bytes_per_s);

/* Requests and bytes (READ and WRITE) that a client has had completed. The disk's lock. */
void client_done(const struct client *c, uint64_t *requests, uint64_t *bytes);

#endif
