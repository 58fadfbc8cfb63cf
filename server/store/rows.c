/*
 * The settings of stores, as rows.
 */
#include <stddef.h>

#include "server/store/internal.h"

#define FIELD(field) .offset = offsetof(struct store_params, field), .scope = SCOPE_EXPORT
#define START(field) FIELD(field), .when = WHEN_START
#define RUNTIME(field) FIELD(field), .when = WHEN_RUNTIME

static const char *const caches[] = {
	[STORE_CACHE_NONE] = "none",
	[STORE_CACHE_WRITEBACK] = "writeback",
	[STORE_CACHE_WRITETHROUGH] = "writethrough",
	NULL
};

static const char *const aios[] = {
	[STORE_AIO_AUTO] = "auto",
	[STORE_AIO_URING] = "io_uring",
	[STORE_AIO_THREADS] = "threads",
	NULL
};

static const char *const models[] = {
	[STORE_MODEL_NONE] = "none",
	[STORE_MODEL_HDD7200] = "hdd7200",
	NULL
};

static const char *const errors[] = {
	[STORE_FAULT_EIO] = "EIO",
	[STORE_FAULT_ENOSPC] = "ENOSPC",
	[STORE_FAULT_EDQUOT] = "EDQUOT",
	[STORE_FAULT_ENOMEM] = "ENOMEM",
	[STORE_FAULT_ETIMEDOUT] = "ETIMEDOUT",
	NULL
};

/* Counts and bytes of the fault store: no real limit. */
#define MANY ((uint64_t)INT64_MAX)

const struct tunable store_rows[] = {
	{ .name = "path", .kind = TUNABLE_STRING, .max = 4095, START(path),
	  .help = "image: a file, a block device, or null: for the null store",
	  .paragraph = "The null store reads as zeroes and forgets what is written. It needs a "
		"size." },
	{ .name = "size", .kind = TUNABLE_SIZE, .unit = UNIT_BYTES, .max = MANY, START(size),
	  .help = "size of a null store, or of an image file to be created",
	  .paragraph = "A missing file is created, sparse, if a size is given. Of an image that "
		"exists it must be the real size." },
	{ .name = "readonly", .kind = TUNABLE_BOOL, START(readonly),
	  .help = "refuse writes, and open the image for reading only" },
	{ .name = "cache", .kind = TUNABLE_ENUM, .choices = caches, .dflt = STORE_CACHE_WRITEBACK,
	  START(cache), .help = "how the kernel's page cache is used",
	  .paragraph = "writeback goes through the page cache: the kernel orders the writes to the "
		"device. writethrough also makes every write durable before it is answered. none "
		"goes around the page cache (O_DIRECT): the scheduler then controls what the "
		"device does, and where the file system cannot do it, it is an error." },
	{ .name = "aio", .kind = TUNABLE_ENUM, .choices = aios, .dflt = STORE_AIO_AUTO, START(aio),
	  .help = "how I/O is handed to the kernel",
	  .paragraph = "auto is io_uring, or threads where the kernel (or a container) does not "
		"allow io_uring." },
	{ .name = "lock", .kind = TUNABLE_BOOL, .dflt = 1, START(lock),
	  .help = "lock the image against other programs",
	  .paragraph = "Files take an open file description lock, a shared one if read-only; "
		"writable block devices are opened exclusively, which refuses mounted ones." },
	{ .name = "disk_model", .kind = TUNABLE_ENUM, .choices = models, .dflt = STORE_MODEL_NONE,
	  START(model), .help = "make the image as slow as this disk",
	  .paragraph = "hdd7200 is a disk of 7200 revolutions a minute without a write cache, as "
		"large as the image: seeks, rotation and transfer take their time." },
	{ .name = "rotational", .kind = TUNABLE_BOOL, .can_be_auto = true, .dflt = TUNABLE_AUTO,
	  START(rotational), .help = "whether the disk below rotates",
	  .paragraph = "auto asks the kernel, but takes the disks of virtual machines for "
		"non-rotating: they say that they rotate unless told otherwise." },
	{ .name = "dirty_bytes", .kind = TUNABLE_SIZE, .unit = UNIT_BYTES, .max = MANY,
	  .dflt = 64 << 20, RUNTIME(dirty_bytes),
	  .help = "buffered writes run in the loop's thread below this much unwritten data",
	  .paragraph = "An estimate for the whole device. Above it, writes are handed to the "
		"kernel or to threads, since they may have to wait for the device. 0: always." },

	{ .name = "fault_error_every", .kind = TUNABLE_UINT, .max = MANY,
	  RUNTIME(fault_error_every), .help = "every n-th operation fails; 0: none",
	  .paragraph = "The fault_ settings are for tests. Any of them set at the start puts a "
		"store around the image that can fail in these ways." },
	{ .name = "fault_error_at", .kind = TUNABLE_UINT, .max = MANY, RUNTIME(fault_error_at),
	  .help = "the n-th operation fails; 0: none" },
	{ .name = "fault_errno", .kind = TUNABLE_ENUM, .choices = errors, .dflt = STORE_FAULT_EIO,
	  START(fault_errno), .help = "the error of operations that fail on purpose" },
	{ .name = "fault_short_every", .kind = TUNABLE_UINT, .max = MANY,
	  RUNTIME(fault_short_every),
	  .help = "every n-th read or write does only a part; 0: none" },
	{ .name = "fault_flush_delay", .kind = TUNABLE_TIME, .unit = UNIT_US, .max = 3600000000,
	  RUNTIME(fault_flush_delay), .help = "time added to every flush" },
	{ .name = "fault_delay", .kind = TUNABLE_TIME, .unit = UNIT_US, .max = 3600000000,
	  RUNTIME(fault_delay), .help = "time added to every operation" },
	{ .name = "fault_sync_error_every", .kind = TUNABLE_UINT, .max = MANY,
	  RUNTIME(fault_sync_error_every), .help = "every n-th sync fails; 0: none",
	  .paragraph = "A sync is a flush, or a write that must be durable. With fault_volatile "
		"the data that it should have saved is lost at the next crash, even if a later "
		"sync succeeds: as the kernel does it." },
	{ .name = "fault_space", .kind = TUNABLE_SIZE, .unit = UNIT_BYTES, .max = MANY,
	  START(fault_space), .help = "bytes that can be written before ENOSPC; 0: no limit" },
	{ .name = "fault_volatile", .kind = TUNABLE_BOOL, START(fault_volatile),
	  .help = "a volatile write cache: a crash loses what was not flushed",
	  .paragraph = "Writes stay in the server's memory until a flush or FUA. The end of the "
		"server, in whatever way, is then what a power failure is to a disk." },
	{ .name = "fault_seed", .kind = TUNABLE_UINT, .max = MANY, START(fault_seed),
	  .help = "with fault_volatile: this number chooses blocks that are saved early; 0: none" },
	{ .name = "fault_crash_at", .kind = TUNABLE_UINT, .max = MANY, START(fault_crash_at),
	  .help = "the n-th operation and all after it are lost; 0: none" },
	{ .name = NULL }
};
