/* The settings of cfq: what each is and does. How it does it: cfq.c. */
#include "sched/cfq.h"

#include <stddef.h>

#define FIELD(field) \
	.offset = offsetof(struct cfq_params, field), .scope = SCOPE_POLICY, .when = WHEN_RUNTIME

const struct tunable cfq_rows[] = {
	{ .name = "quantum", .kind = TUNABLE_UINT, .min = 1, .max = 1024, .dflt = 8,
	  FIELD(quantum), .help = "requests of a client in a row",
	  .paragraph = "The turn of a client where the disk does not rotate, or its requests lie "
		"far apart. Small, everybody is served soon; large, requests that belong together "
		"stay together. The shares are the same: longer turns come less often." },
	{ .name = "slice_sync", .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 1, .max = 10000,
	  .dflt = 100, FIELD(slice_sync),
	  .help = "turn of a client that reads in sequence from a rotating disk",
	  .paragraph = "Each turn costs a seek, so longer turns give throughput; all others wait "
		"meanwhile." },
	{ .name = "slice_async", .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 1, .max = 10000,
	  .dflt = 40, FIELD(slice_async),
	  .help = "turn of a client that writes in sequence to a rotating disk",
	  .paragraph = "It ends sooner if a client wants to read that has had less than its share." },
	{ .name = "slice_idle", .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = 1000, .dflt = 8,
	  FIELD(slice_idle),
	  .help = "how long a rotating disk waits for a client's next read; 0: never",
	  .paragraph = "The disk stands still for a client that reads one block after the other "
		"and would lose its share, or whose blocks lie together. It does not for one that "
		"usually thinks for longer than this. The time is charged to the client. 0 is right "
		"for arrays that seek in parallel; on other disks that do not rotate it is never "
		"used." },
	{ .name = "fifo_expire_sync", .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 1,
	  .max = INT32_MAX, .dflt = 125, FIELD(fifo_expire_sync),
	  .help = "age at which a client's oldest read goes before its nearest, once a turn",
	  .paragraph = "On a rotating disk a client's requests go in order of position; this "
		"bounds how long one of them can be passed over." },
	{ .name = "fifo_expire_async", .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 1,
	  .max = INT32_MAX, .dflt = 250, FIELD(fifo_expire_async),
	  .help = "age at which a client's oldest write goes before its nearest, once a turn",
	  .paragraph = "As fifo_expire_sync." },
	{ .name = "back_seek_max", .kind = TUNABLE_SIZE, .unit = UNIT_KIB, .max = 1 << 30,
	  .dflt = 16384, FIELD(back_seek_max),
	  .help = "how far back the head may go for a nearer request",
	  .paragraph = "What lies farther back waits for the next sweep. Rotating disks only." },
	{ .name = "back_seek_penalty", .kind = TUNABLE_UINT, .min = 1, .max = 1024, .dflt = 2,
	  FIELD(back_seek_penalty), .help = "how many times farther a way back counts",
	  .paragraph = "With 2, a request 100 KiB behind the head is as far as one 200 KiB ahead "
		"of it. Rotating disks only." },
	{ .name = NULL }
};
