/* The rows of elevators and clients. */
#include <stddef.h>

#include "sched/elevator.h"

static const char *const class_names[] = { "rt", "be", "idle", NULL };

const struct tunable elv_rows[] = {
	{ .name = "queue_depth", .kind = TUNABLE_UINT, .min = 1, .max = ELV_MAX_DEPTH,
	  .dflt = TUNABLE_AUTO, .can_be_auto = true,
	  .offset = offsetof(struct elv_params, queue_depth),
	  .scope = SCOPE_EXPORT, .when = WHEN_RUNTIME,
	  .help = "most ios that this export has in flight at its disk",
	  .paragraph = "What the disk has accepted can no longer be reordered, so a small depth "
		       "keeps control and a large one keeps the disk busy. By default 1 on the "
		       "emulated disk, 4 on a rotating one and 32 elsewhere. Exports of one disk "
		       "share the largest of their depths." },
	{ .name = "nr_requests", .kind = TUNABLE_UINT, .min = 4, .max = 65536, .dflt = 128,
	  .offset = offsetof(struct elv_params, nr_requests),
	  .scope = SCOPE_EXPORT, .when = WHEN_RUNTIME,
	  .help = "most queued requests of a client in each direction",
	  .paragraph = "A client that reaches it is not read from until some are finished; others "
		       "are not affected. Everything but reads and block status counts as a write." },
	{ .name = "max_sectors_kb", .kind = TUNABLE_SIZE, .unit = UNIT_KIB, .min = 4, .max = 32768,
	  .dflt = 1280, .offset = offsetof(struct elv_params, max_sectors_kb),
	  .scope = SCOPE_EXPORT, .when = WHEN_RUNTIME,
	  .help = "largest read or write that is given to the disk at once",
	  .paragraph = "Larger requests are cut into slices between which others get their turn; "
		       "merging stops at this size." },
	{ .name = "max_discard_kb", .kind = TUNABLE_SIZE, .unit = UNIT_KIB, .min = 4,
	  .max = 4194304, .dflt = 65536, .offset = offsetof(struct elv_params, max_discard_kb),
	  .scope = SCOPE_EXPORT, .when = WHEN_RUNTIME,
	  .help = "largest trim or write-zeroes that is given to the disk at once",
	  .paragraph = "One of these is in flight at a store at most." },
	{ .name = "nomerges", .kind = TUNABLE_UINT, .min = 0, .max = 2, .dflt = 0,
	  .offset = offsetof(struct elv_params, nomerges),
	  .scope = SCOPE_EXPORT, .when = WHEN_RUNTIME,
	  .help = "0 merges neighbours, 1 only with the last request, 2 not at all" },
	{ .name = "max_queue_age", .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 0, .max = 3600000,
	  .dflt = 10000, .offset = offsetof(struct elv_params, max_queue_age),
	  .scope = SCOPE_EXPORT, .when = WHEN_RUNTIME,
	  .help = "age at which a request goes past the scheduler; 0: never",
	  .paragraph = "A safety net under every policy: the kernel's client sends a request again "
		       "after 30 seconds. At most one dispatch in eight is such a one." },
	{ .name = NULL }
};

const struct tunable elv_client_rows[] = {
	{ .name = "weight", .kind = TUNABLE_UINT, .min = 1, .max = 1000, .dflt = 100,
	  .offset = offsetof(struct elv_client_params, weight),
	  .scope = SCOPE_CLIENT, .when = WHEN_RUNTIME,
	  .help = "share of the disk, in proportion to the others of its class" },
	{ .name = "class", .kind = TUNABLE_ENUM, .dflt = ELV_CLASS_BE, .choices = class_names,
	  .offset = offsetof(struct elv_client_params, io_class),
	  .scope = SCOPE_CLIENT, .when = WHEN_RUNTIME,
	  .help = "rt goes first, up to 90 % of the time; idle goes when nobody else wants to" },
	{ .name = NULL }
};
