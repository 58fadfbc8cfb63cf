/*
 * Budgets: how many requests, and how many bytes of data, a server takes in before it stops
 * reading.
 *
 * Two limits, both taken before a request's payload is read and never asked about again:
 *
 *  - nr_requests: per account (an identity at one export) and direction. Who finds it used up waits
 *    in the account's own queue; nobody else is affected.
 *  - memory: bytes of data, server-wide. An identity that holds nothing is always granted one
 *    request, even beyond `memory`: it can make progress whatever the others do. Everybody else
 *    gets bytes that are free; if there are not enough, identities wait, first come first served,
 *    and one that would exceed a quarter of `memory` is passed over for as long as another one,
 *    that would not, waits. An identity gets one grant for each time it comes first in that queue,
 *    whatever the number of its connections.
 *
 *   account.slot_waiters ──slot free──> identity.waiters ──bytes free──> granted(waiter)
 *
 * So held <= memory + one request of each identity. A waiter has its slot before it waits for
 * bytes, so that both can be given back in any order without a search.
 *
 * One mutex guards everything here. It is a leaf but for the inboxes: `granted` is called with it
 * held. It is taken once for all requests of one read of a socket (budget_take), and once for all
 * that are finished together (budget_lock ... budget_unlock).
 */
#ifndef SERVER_EXPORT_BUDGET_H
#define SERVER_EXPORT_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sched/request.h"

TAILQ_HEAD(budget_waiters, budget_waiter);
TAILQ_HEAD(budget_identities, budget_identity);

/* Server-wide. All members are guarded by lock. */
struct budget {
	pthread_mutex_t lock;
	uint64_t memory;                 /* bytes */
	uint64_t held;                   /* bytes */
	uint64_t requests;               /* granted and not yet finished */
	atomic_uint waiting;             /* waiters of any kind; to be read without the lock, too */
	struct budget_identities queue;  /* wait for bytes, would stay within a quarter */
	struct budget_identities passed; /* wait for bytes, would exceed it */
	uint64_t seq;                    /* order of arrival in both */
};

/* What an identity holds at all exports. Embedded in struct identity; guarded by budget.lock. */
struct budget_identity {
	uint64_t bytes;
	uint64_t requests;             /* granted and not yet finished */
	struct budget_waiters waiters; /* have their slot, wait for bytes */
	enum { BUDGET_NOT_QUEUED, BUDGET_IN_QUEUE, BUDGET_PASSED } place;
	uint64_t seq;
	TAILQ_ENTRY(budget_identity) link;
};

/* The limit and the counters of an export. Embedded in struct export; guarded by budget.lock. */
struct budget_export {
	uint64_t nr_requests;
	uint64_t requests, bytes; /* held */
	uint64_t answered, withdrawn, invalid;
	uint64_t waits;
};

/*
 * An identity at an export. Embedded in struct client; guarded by budget.lock, but for the
 * pointers.
 */
struct budget_account {
	struct budget *budget;
	struct budget_export *export;
	struct budget_identity *identity;
	uint64_t requests, bytes;                          /* held */
	uint64_t slots[ELV_NUM_DIRS];                      /* taken */
	struct budget_waiters slot_waiters[ELV_NUM_DIRS];
};

/* What one request takes. */
struct budget_need {
	uint64_t bytes; /* of data, READ and WRITE; 0 for all else */
	enum elv_dir dir;
};

enum budget_state {
	BUDGET_IDLE,       /* waits for nothing */
	BUDGET_WAIT_SLOT,
	BUDGET_WAIT_BYTES,
	BUDGET_GRANTED,    /* `need` is reserved for it: budget_accept or budget_cancel */
};

/* A connection that stopped reading. Guarded by budget.lock while it is not idle. */
struct budget_waiter {
	/*
	 * Its need was granted. Called from whatever thread gave budget back, with budget.lock
	 * held: tell the owner's thread and return.
	 */
	void (*granted)(struct budget_waiter *w);
	enum budget_state state;
	struct budget_account *account;
	struct budget_need need;
	TAILQ_ENTRY(budget_waiter) link;
};

/* How a request ended. */
enum budget_end {
	BUDGET_ANSWERED,
	BUDGET_WITHDRAWN, /* without a reply: its connection is gone */
};

/* memory in bytes. */
void budget_init(struct budget *b, uint64_t memory);

/* Nothing may be held. */
void budget_exit(struct budget *b);

void budget_identity_init(struct budget_identity *i);
void budget_account_init(struct budget_account *a, struct budget *b, struct budget_export *e,
			 struct budget_identity *i);
void budget_waiter_init(struct budget_waiter *w, void (*granted)(struct budget_waiter *w));

/*
 * Reserve for requests need[0 .. n - 1] in this order; returns for how many. If that is less than n
 * the waiter, which must be idle, now waits for the first that was not granted; it is the owner's
 * affair to ask for the others after that. Takes the lock.
 */
unsigned budget_take(struct budget_account *a, const struct budget_need *need, unsigned n,
		     struct budget_waiter *w);

/*
 * Was the waiter's need granted? If so the reservation is now the caller's and the waiter idle.
 * Takes the lock.
 */
bool budget_accept(struct budget_waiter *w);

/* Wait no longer; give back what was granted and not accepted. `granted` is not called any more. */
void budget_cancel(struct budget_waiter *w);

/*
 * Giving back. Between lock and unlock, for each request: budget_slot when it is executed,
 * budget_end when its reply has left or will never leave (its bytes: what was reserved). Unlock
 * hands what became free to those who wait.
 */
void budget_lock(struct budget *b);
void budget_slot(struct budget_account *a, enum elv_dir dir);
void budget_end(struct budget_account *a, uint64_t bytes, enum budget_end end);
void budget_unlock(struct budget *b);

/* Give a part of a request's bytes back early: data that is no longer needed. Lock held. */
void budget_shrink(struct budget_account *a, uint64_t bytes);

/*
 * Do so many wait that it matters what each of them has read and cannot go on with? Then read
 * little at a time. Any thread, without the lock.
 */
bool budget_is_crowded(struct budget *b);

/* Count a request that is answered unexecuted. Lock held. */
void budget_invalid(struct budget_account *a);

/*
 * nr_requests of a's export was raised: let those go on who waited for a slot. Lock held; to be
 * called for all of its accounts.
 */
void budget_serve_slots(struct budget_account *a);

/* For tests: the sums agree, and nobody waits who could go. NULL, or what is wrong. */
const char *budget_check(struct budget *b);

#endif
