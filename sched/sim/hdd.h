/*
 * A model of a rotating disk: how long an access takes, given when it starts and where the arm is.
 *
 *   service = overhead + seek or head switch (+ settle, for a write) + rotational wait + transfer
 *
 * The seek time depends on the distance (Ruemmler and Wilkes, "An introduction to disk drive
 * modeling", IEEE Computer 1994: a + b*sqrt(d) for short seeks, c + e*d for long ones). The
 * platter's angle is a function of absolute time, so that sequential access, missed revolutions
 * and the skew between tracks come out as on a real disk. Tracks are longer outside (zones).
 * There is no write cache; a read leaves the disk reading ahead into one buffer segment until the
 * next access that is not to be found there.
 *
 * Pure: times are ns of any monotonic clock, positions bytes. Nothing here waits. One access at a
 * time: a disk that is asked for the next one before the last is complete must be given that
 * completion as the start.
 */
#ifndef SCHED_SIM_HDD_H
#define SCHED_SIM_HDD_H

#include <stdbool.h>
#include <stdint.h>

enum { HDD_SECTOR = 512, HDD_ZONES = 16 };

/* A kind of disk, whatever its capacity. Times in ns. */
struct hdd_params {
	uint32_t rpm;
	uint32_t surfaces;
	uint32_t outer_sectors, inner_sectors; /* in a track of the first and of the last zone */
	/*
	 * The seek curve, measured on a disk with so many cylinders; for another number the
	 * distance is scaled. Distances are in cylinders: below `far` a + b*sqrt(d), from there c
	 * + e*d. One cylinder is `single`, whatever the scale.
	 */
	uint32_t curve_cylinders, far;
	uint64_t a, b, c, e, single;
	uint64_t head_switch;
	uint64_t settle;         /* of a write, after the arm or head changed */
	uint64_t overhead;       /* of each command */
	uint64_t bus_ns_per_kib; /* data that is in the buffer already */
	uint64_t read_ahead;     /* bytes; 0: none */
};

/*
 * 7200 rpm: the arm of a Seagate Barracuda ST32171W (curve fitted to its measured seek table; mean
 * 9.2 ms), with the tracks of a disk of the 2010s: 126 MB/s outside, 79 inside.
 */
extern const struct hdd_params hdd7200;

struct hdd_zone {
	uint64_t sector;   /* the first one */
	uint64_t cylinder; /* the first one */
	uint32_t sectors;  /* in each track */
};

/* A disk and its state. Copy it to try something out. */
struct hdd {
	struct hdd_params params;
	uint64_t sectors;    /* capacity */
	uint64_t revolution; /* ns */
	uint64_t cylinders;  /* in use: up to that of the last sector */
	uint64_t head_skew, cylinder_skew; /* ns of rotation that the next track starts later */
	unsigned nzones;
	struct hdd_zone zone[HDD_ZONES];

	/*
	 * The head: it is, or will be, over the start of sector `at` at time `when`; reading
	 * ahead it goes on to `stop` (idle: at == stop). The buffer has what was read from
	 * `buffered` on up to `at`; empty: buffered == at.
	 */
	uint64_t at, when, stop, buffered;
	bool on_track; /* of `at`; else `at` starts a track, and the head is on the one before */
};

/* capacity in bytes, > 0, rounded up to a sector. The arm is at the outer edge. */
void hdd_init(struct hdd *d, const struct hdd_params *params, uint64_t capacity);

/*
 * Start an access at `now`, at or after the completion of the last one: when it will be complete.
 * length > 0, within the capacity.
 */
uint64_t hdd_access(struct hdd *d, uint64_t now, uint64_t offset, uint64_t length, bool write);

/* How long that would take, without doing it. */
uint64_t hdd_service(const struct hdd *d, uint64_t now, uint64_t offset, uint64_t length,
		     bool write);

/* The time for moving the arm by so many cylinders. */
uint64_t hdd_seek(const struct hdd *d, uint64_t cylinders);

/* The cylinder that this byte is on: for schedulers that measure distances. */
uint64_t hdd_cylinder(const struct hdd *d, uint64_t offset);

#endif
