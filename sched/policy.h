/*
 * Policies: the decision which request goes next, and nothing else.
 *
 * A policy is one const struct elv_policy, in one file, with one line in the table of
 * sched/policies.c; tests/unit/test_policies.c then runs over it by itself. It sees *runs*: the
 * head request stands for all requests merged with it (run_length, run_seq, run_arrival). It may
 * use the head's fifo_link, sort and area, and the client's area, until dispatch, remove or merged
 * takes the run away. It never calls back into the elevator, never allocates but in init_queue, and
 * gets the time as a parameter. Overlap order, slicing, budgets, ageing and errors are the core's
 * affair: a policy that picks a request which cannot go gets it back by requeue, or later by
 * insert.
 *
 * All functions are called under the disk's lock, through the core's wrappers, which count and
 * assert. Required: all that are not marked optional.
 */
#ifndef SCHED_POLICY_H
#define SCHED_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elevator;
struct elv_client;
struct elv_io;
struct elv_request;
struct tunable;

enum { ELV_MAX_POLICIES = 8 };

enum elv_verdict {
	ELV_DISPATCH,  /* *rq is to go; it is no longer in the policy */
	ELV_NOTHING,   /* nothing now; ask again after an insert or a completion */
	ELV_ASK_AT,    /* nothing now; ask again at *at, or after an insert or a completion */
};

/* A text that show fills: truncated, never overrun. */
struct elv_text {
	char *buf;
	size_t size, used;
};
void elv_printf(struct elv_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct elv_policy {
	const char *name;
	const char *help; /* one line */
	bool per_client;  /* it knows clients: only requests of one client merge */

	const struct tunable *rows; /* ended by a row without name; never NULL */
	size_t params_size;         /* of the struct that rows lay out */

	/*
	 * Allocate e->queue, read e's policy settings. 0 or -ENOMEM. e->rotational stays as it is
	 * while this queue lives.
	 */
	int (*init_queue)(struct elevator *e);
	void (*exit_queue)(struct elevator *e);

	/* Optional. The client's area is zeroed before, and is the policy's until exit_client. */
	void (*init_client)(struct elevator *e, struct elv_client *c);
	void (*exit_client)(struct elevator *e, struct elv_client *c);

	/* A run to queue, at its place by run_seq: not always the newest (switches, releases). */
	void (*insert)(struct elevator *e, struct elv_request *rq, uint64_t now);

	/* The next run; see elv_verdict. */
	enum elv_verdict (*dispatch)(struct elevator *e, uint64_t now, struct elv_request **rq,
				     uint64_t *at);

	/* Optional: a veto. May rq join the run of head? */
	bool (*may_merge)(struct elevator *e, const struct elv_request *head,
			  const struct elv_request *rq);

	/*
	 * head's run grew: start, length, run_seq or run_arrival may have changed. If absorbed is
	 * not NULL, that run was swallowed: take it out, head inherits its place if that is better.
	 */
	void (*merged)(struct elevator *e, struct elv_request *head, struct elv_request *absorbed);

	/*
	 * A run that dispatch gave comes back, or the rest of a sliced one: it is next of its kind.
	 */
	void (*requeue)(struct elevator *e, struct elv_request *rq, uint64_t now);

	/* Take a run out that was not dispatched: withdrawn, promoted or moved. */
	void (*remove)(struct elevator *e, struct elv_request *rq);

	/* Optional. An io was formed, by the policy's choice or past it: io->client, io->cost. */
	void (*dispatched)(struct elevator *e, struct elv_io *io, uint64_t now);

	/*
	 * Optional. It finished; io->dispatched tells since when. Not for ios of before a switch.
	 */
	void (*completed)(struct elevator *e, struct elv_io *io, uint64_t now);

	/* Optional. The disk worked ns for this client besides its ios: a sync. */
	void (*charge)(struct elevator *e, struct elv_client *c, uint64_t ns, uint64_t now);

	/* Optional. Its settings, a client's, or those of the elevator changed. */
	void (*param_changed)(struct elevator *e, uint64_t now);

	/* Optional. The first and last connection of a client came and went. */
	void (*client_changed)(struct elevator *e, struct elv_client *c);

	/* Its state for people, lines of "name value". */
	void (*show)(struct elevator *e, struct elv_text *out);

	/* NULL, or what is wrong with its structures. For tests. */
	const char *(*check)(struct elevator *e);
};

/* All policies, ended by NULL; the first is the fallback for nothing: callers choose by name. */
extern const struct elv_policy *const elv_policies[];

/* By whole name; NULL if there is none. */
const struct elv_policy *elv_policy_find(const char *name);

/* The position in elv_policies. */
unsigned elv_policy_index(const struct elv_policy *p);

#endif
