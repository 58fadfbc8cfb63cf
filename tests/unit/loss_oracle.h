/*
 * The oracle of the loss tests: it hears of everything that is sent and answered, and knows what a
 * read may return and what must have survived a power cut.
 *
 * The image consists of units. Each modification has a number, by order of arrival, and a WRITE
 * fills each of its units with bytes that tell number and unit, so that whoever reads a unit knows
 * whose it is. Overlapping modifications take effect in arrival order, hence:
 *
 *      certain <─ the newest that must be seen: was answered (or, after a power cut, is durable)
 *    ────┬──────────────────> arrival
 *        └─ allowed: this one, or any younger one that may have been executed
 *
 * Durable: answered FUA, or answered before a FLUSH arrived that was answered well. When a sync
 * fails at the disk, what it should have saved is hurt: no later sync makes it durable, therefore
 * the account that wrote it must be told before one of its FLUSH or FUA succeeds again.
 *
 * The first thing found wrong is kept as a sentence.
 */
#ifndef TESTS_UNIT_LOSS_ORACLE_H
#define TESTS_UNIT_LOSS_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/request.h"

enum {
	LOSS_UNIT = 256, /* bytes: smaller than any block, so that a store's edges are tested too */
	LOSS_UNITS = 512,
	LOSS_SIZE = LOSS_UNIT * LOSS_UNITS,
	LOSS_MODS = 4096,
	LOSS_ACCOUNTS = 4,
};

/* One modification. */
struct loss_mod {
	enum elv_op op;
	unsigned account, identity;
	unsigned first, count;     /* units */
	uint64_t arrived;          /* stamp */
	uint64_t answered;         /* stamp; 0: not (yet) */
	int error;                 /* of the answer */
	bool never;                /* certainly never executed */
	bool seen;                 /* somebody read it */
	bool in_cache;             /* the disk has it, or a part, but could lose it */
	bool durable;
	uint64_t hurt;             /* stamp: a sync that should have saved it failed; 0: no */
	bool hurt_known;           /* the elevator has heard of that */
};

struct loss_oracle {
	struct loss_mod mod[LOSS_MODS]; /* number 1 is mod[0] */
	unsigned n;
	uint64_t clock;                 /* counts events */
	uint64_t told[LOSS_ACCOUNTS];   /* stamp: last FLUSH or FUA answered with an error not its own */
	bool torn;                      /* a unit may be a mixture of what is allowed */
	unsigned reads, images;         /* checked */
	char wrong[256];                /* "": nothing so far */
};

void oracle_init(struct loss_oracle *o);

/* Note what is wrong, if it is the first. */
void oracle_wrong(struct loss_oracle *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A modification arrives. Returns its number. offset and length in bytes, whole units. */
unsigned oracle_arrives(struct loss_oracle *o, unsigned account, unsigned identity, enum elv_op op,
			uint64_t offset, uint64_t length);

/* What WRITE number `id` writes at offset. */
void oracle_fill(unsigned id, uint64_t offset, uint64_t length, char *buf);

/* The number that a unit's first bytes tell; 0: zeroes; UINT32_MAX: neither. */
unsigned oracle_id_of(const char *unit);

/* The disk has done (a part of) it; stable: so that it cannot lose it any more. */
void oracle_executed(struct loss_oracle *o, unsigned id, bool stable);

/* The disk saved all that it had, or failed to. */
void oracle_disk_saved(struct loss_oracle *o);
void oracle_disk_failed_to_save(struct loss_oracle *o);

/* The elevator hears of the failed sync. Returns the stamp. */
uint64_t oracle_failure_known(struct loss_oracle *o);

/* Its reply; fua: it was FUA. */
void oracle_answered(struct loss_oracle *o, unsigned id, int error, bool fua);

/* Its connection is gone, there is no reply. executed: as a whole, in part, or who knows. */
void oracle_unanswered(struct loss_oracle *o, unsigned id, bool executed);

/*
 * A FLUSH (or FUA request) of this account that arrived at that stamp was answered. own: the error
 * is that of its own data, and tells nothing about a sync.
 */
void oracle_flush_answered(struct loss_oracle *o, unsigned account, uint64_t arrived, bool is_flush,
			   int error, bool own);

/* A read that arrived at this stamp has returned buf. */
void oracle_check_read(struct loss_oracle *o, unsigned identity, uint64_t arrived, uint64_t offset,
		       uint64_t length, const char *buf);

/* The whole image, with nothing in flight; crashed: after a power cut. */
void oracle_check_image(struct loss_oracle *o, const char *image, bool crashed);

#endif
