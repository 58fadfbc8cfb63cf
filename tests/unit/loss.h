/*
 * The loss tests: three clients with two connections each work on two exports of one image, through
 * the elevator and a disk with a volatile write cache that fails where the plan says. All in virtual
 * time and all from seeds, so that a run can be repeated with the fault one operation later, until it
 * comes no more.
 *
 *      script ──> elevator 0 ──┐                ┌── memory, with defects on purpose
 *                 elevator 1 ──┴── one store ───┴── the fault store around a file
 *           └──────── oracle: what was sent, done, answered, read ────────┘
 *
 * An io is executed at some time after its dispatch and completes some time after that, so that
 * syncs begin, are executed and end among other completions, in every order.
 */
#ifndef TESTS_UNIT_LOSS_H
#define TESTS_UNIT_LOSS_H

#include "sched/elevator.h"
#include "tests/unit/loss_oracle.h"

/* What goes wrong at the disk, at its n-th operation (or sync). */
enum loss_fault {
	LOSS_NO_FAULT,
	LOSS_ERROR,      /* one operation fails */
	LOSS_ERRORS,     /* it and all after it, until the script is over */
	LOSS_SHORT,      /* one READ or WRITE does only a part */
	LOSS_SYNC_ERROR, /* one sync, be it a FLUSH or FUA, fails; the data is written */
	LOSS_CRASH,      /* it and all after it are lost, and the power fails in the end */
};

/* What happens at the n-th step of the run. */
enum loss_event {
	LOSS_NO_EVENT,
	LOSS_POWER_CUT,
	LOSS_HANG_UP,    /* all connections close */
	LOSS_SWITCH,     /* both elevators switch to the next policy */
};

/* What the memory disk does wrong, to show that the oracle notices. */
enum loss_defect {
	LOSS_SOUND,
	LOSS_IGNORES_FUA,
	LOSS_IGNORES_FLUSH,
	LOSS_HIDES_SYNC_ERRORS,
	LOSS_REPLAYS_WRITES,   /* now and then, an older WRITE once more */
	LOSS_DROPS_WRITES,     /* now and then, answered well */
	LOSS_READS_STALE,      /* now and then, what was before the last WRITE */
	LOSS_NUM_DEFECTS,
};

struct loss_plan {
	const char *store;  /* "name=value ..." of a fault store around a file; NULL: the memory disk */
	const struct elv_policy *policy;
	uint64_t script;    /* seed */
	enum loss_fault fault;
	unsigned fault_at;  /* from 1 */
	int error;          /* -EIO or -ENOSPC; -EIO if 0 */
	enum loss_event event;
	unsigned event_at;  /* from 1 */
	unsigned cut_after; /* so many steps after the fault the power is cut; 0: it is not */
	uint64_t crash;     /* 0: the power cut takes all of the cache; else a seed: some blocks of it */
	enum loss_defect defect;
};

struct loss_outcome {
	bool fault_came, event_came;
	unsigned steps, ios, syncs, merges, sliced, reads, errors, flush_errors, withdrawn;
	char wrong[320]; /* "" or what was found, with the plan */
};

void loss_run(const struct loss_plan *plan, struct loss_outcome *out);

/* The plan as text, for messages. */
const char *loss_describe(const struct loss_plan *plan, char *buf, size_t len);

/* A disk, how many scripts run on it, and whether at every n or at every so many. */
struct loss_series {
	const char *store;
	unsigned scripts, stride;
};

/* ---- the disk ---- */

struct loss_disk;

struct loss_disk_ops {
	/* 0, or a negative errno with a sentence in err. */
	int (*open)(struct loss_disk *d, char *err, size_t errlen);
	void (*close)(struct loss_disk *d);
	void (*run)(struct loss_disk *d, struct elv_io *io);
	/* No more faults from here on. */
	void (*repair)(struct loss_disk *d);
	/* The power fails. */
	void (*crash)(struct loss_disk *d, uint64_t seed);
	/* All of the image, as a reader finds it. */
	void (*read)(struct loss_disk *d, char *buf);
};

struct loss_disk {
	const struct loss_disk_ops *ops;
	const struct loss_plan *plan;
	struct elv_store *elv;  /* what elevators call the store */
	uint32_t block;
	bool durable;           /* it makes everything durable by itself: writethrough */
	unsigned ios, syncs;    /* executed */
	bool fault_came;
	void *priv;
};

extern const struct loss_disk_ops loss_memory, loss_store;

/* A generator of numbers that look random; state is never 0. */
static inline uint64_t loss_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dull >> 16;
}

/* Must the disk make the io itself durable? */
static inline bool loss_is_durable(const struct loss_disk *d, const struct elv_io *io)
{
	return elv_modifies(io->op) && (d->durable || (io->op == ELV_WRITE && (io->flags & ELV_FUA)));
}

static inline bool loss_is_sync(const struct loss_disk *d, const struct elv_io *io)
{
	return io->op == ELV_FLUSH || loss_is_durable(d, io);
}

#endif
