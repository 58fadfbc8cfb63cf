/*
 * A model of a rotating disk: see hdd.h.
 */
#include "sched/sim/hdd.h"

#include <assert.h>

#define US 1000ull
#define MS (1000 * US)

const struct hdd_params hdd7200 = {
	.rpm = 7200,
	.surfaces = 2,
	.outer_sectors = 2048,
	.inner_sectors = 1280,
	.curve_cylinders = 5172,
	.far = 1200,
	.a = 2014 * US,
	.b = 194400,
	.c = 5975 * US,
	.e = 2146,
	.single = 1 * MS,
	.head_switch = 800 * US,
	.settle = 400 * US,
	.overhead = 100 * US,
	.bus_ns_per_kib = 3400, /* 300 MB/s */
	.read_ahead = 2 << 20,
};

/* Fractions of a cylinder, in the scaled distance. */
enum { FRACTION = 256 };

/* floor(sqrt(n)), by Newton's iteration from above. */
static uint64_t square_root(uint64_t n)
{
	uint64_t x = n, y;

	if (n < 2)
		return n;
	for (y = n / 2; y < x; y = (x + n / x) / 2)
		x = y;
	return x;
}

/* ---- geometry ---- */

/* A place on the disk: a track and a sector in it. */
struct place {
	const struct hdd_zone *zone;
	uint64_t cylinder;
	uint32_t head, sector;
};

static struct place place_of(const struct hdd *d, uint64_t sector)
{
	unsigned z = d->nzones - 1;
	struct place p;
	uint64_t track;

	while (sector < d->zone[z].sector)
		z--;
	p.zone = &d->zone[z];
	track = (sector - p.zone->sector) / p.zone->sectors;
	p.sector = (sector - p.zone->sector) % p.zone->sectors;
	p.cylinder = p.zone->cylinder + track / d->params.surfaces;
	p.head = track % d->params.surfaces;
	return p;
}

/* Time within a revolution, from the start of a track. */
static uint64_t in_track(const struct hdd *d, const struct place *p, uint32_t sector)
{
	return d->revolution * sector / p->zone->sectors;
}

/* When in each revolution the place comes by. */
static uint64_t angle_of(const struct hdd *d, const struct place *p)
{
	uint64_t skew = p->cylinder * (d->cylinder_skew + (d->params.surfaces - 1) * d->head_skew) +
		p->head * d->head_skew;

	return (skew + in_track(d, p, p->sector)) % d->revolution;
}

void hdd_init(struct hdd *d, const struct hdd_params *params, uint64_t capacity)
{
	uint64_t in_all = 0, per_zone, sector = 0;

	assert(capacity && params->surfaces && params->inner_sectors);
	assert(params->inner_sectors <= params->outer_sectors);
	*d = (struct hdd) { .params = *params };
	d->sectors = (capacity + HDD_SECTOR - 1) / HDD_SECTOR;
	d->revolution = 60000 * MS / params->rpm;
	/* The next track must not come by before the head is there; a write has to settle, too. */
	d->head_skew = params->head_switch + params->settle;
	d->cylinder_skew = params->single + params->settle;
	for (unsigned z = 0; z < HDD_ZONES; z++) {
		d->zone[z].sectors = params->outer_sectors -
			(params->outer_sectors - params->inner_sectors) * z / (HDD_ZONES - 1);
		in_all += d->zone[z].sectors * params->surfaces;
	}
	per_zone = (d->sectors + in_all - 1) / in_all;
	for (d->nzones = 0; d->nzones < HDD_ZONES && sector < d->sectors; d->nzones++) {
		struct hdd_zone *z = &d->zone[d->nzones];

		z->sector = sector;
		z->cylinder = d->nzones * per_zone;
		sector += per_zone * params->surfaces * z->sectors;
	}
	d->on_track = true;
	d->cylinders = place_of(d, d->sectors - 1).cylinder + 1;
}

uint64_t hdd_seek(const struct hdd *d, uint64_t cylinders)
{
	const struct hdd_params *p = &d->params;
	uint64_t scaled = cylinders * p->curve_cylinders * FRACTION / d->cylinders;

	if (!cylinders)
		return 0;
	if (cylinders == 1)
		return p->single;
	if (scaled < (uint64_t)p->far * FRACTION)
		return p->a + square_root(p->b * p->b * scaled / FRACTION);
	return p->c + p->e * scaled / FRACTION;
}

uint64_t hdd_cylinder(const struct hdd *d, uint64_t offset)
{
	return place_of(d, offset / HDD_SECTOR).cylinder;
}

/* ---- moving ---- */

/* From one track to another: when the head is ready there. */
static uint64_t move(const struct hdd *d, uint64_t now, const struct place *from,
		     const struct place *to, bool write)
{
	if (from->cylinder != to->cylinder)
		now += hdd_seek(d, from->cylinder > to->cylinder ? from->cylinder - to->cylinder :
				to->cylinder - from->cylinder);
	else if (from->head != to->head)
		now += d->params.head_switch;
	else
		return now;
	return write ? now + d->params.settle : now;
}

/* When the place comes by next. */
static uint64_t wait_for(const struct hdd *d, uint64_t now, const struct place *p)
{
	return now + (angle_of(d, p) + d->revolution - now % d->revolution) % d->revolution;
}

/* The track that the head is on: after the last sector of one, it is still there. */
static struct place head_place(const struct hdd *d)
{
	return place_of(d, d->on_track ? d->at : d->at - 1);
}

/*
 * Transfer from d->at up to `end`, but no further than the end of the track. False: that is not
 * through by `until`; then it goes as far as it comes by then.
 */
static bool pass_track(struct hdd *d, uint64_t end, uint64_t until, bool write)
{
	struct place p = place_of(d, d->at), from = head_place(d);
	uint64_t begin = in_track(d, &p, p.sector), left = p.zone->sectors - p.sector;
	uint64_t n = end - d->at < left ? end - d->at : left, through;

	if (!d->on_track)
		d->when = wait_for(d, move(d, d->when, &from, &p, write), &p);
	d->on_track = true;
	through = d->when + in_track(d, &p, p.sector + n) - begin;
	if (through > until) {
		n = until > d->when ? (until - d->when) * p.zone->sectors / d->revolution : 0;
		d->at += n;
		d->when += in_track(d, &p, p.sector + n) - begin;
		return false;
	}
	d->at += n;
	d->when = through;
	d->on_track = n < left;
	return true;
}

/* Transfer up to `end`; d->when is when that is done. */
static void transfer(struct hdd *d, uint64_t end, bool write)
{
	while (d->at < end)
		pass_track(d, end, UINT64_MAX, write);
}

/* Read ahead until `now`. */
static void read_ahead(struct hdd *d, uint64_t now)
{
	while (d->at < d->stop && pass_track(d, d->stop, now, false))
		;
}

/* ---- accesses ---- */

static uint64_t up_to(const struct hdd *d, uint64_t sector)
{
	return sector < d->sectors ? sector : d->sectors;
}

/* After a read up to `end`: how far the disk goes on, and what the buffer keeps from `first` on. */
static void set_ahead(struct hdd *d, uint64_t first, uint64_t end)
{
	uint64_t n = d->params.read_ahead / HDD_SECTOR;

	d->stop = up_to(d, end + n);
	if (d->stop < d->at)
		d->stop = d->at;
	d->buffered = first + n < d->at ? d->at - n : first;
}

/* A read that starts in the buffer, or where the disk is reading on. */
static uint64_t read_buffered(struct hdd *d, uint64_t now, uint64_t start, uint64_t end)
{
	uint64_t sent = now + d->params.overhead +
		(end - start) * HDD_SECTOR * d->params.bus_ns_per_kib / 1024;

	if (d->at == d->stop && d->when < now) {
		/* It had stopped, and the next sector has gone by since. */
		struct place p = head_place(d);

		d->when = d->on_track ? wait_for(d, now, &p) : now;
	}
	if (end > d->at) {
		transfer(d, end, false);
		if (d->when > sent)
			sent = d->when;
	}
	set_ahead(d, d->buffered, end);
	return sent;
}

uint64_t hdd_access(struct hdd *d, uint64_t now, uint64_t offset, uint64_t length, bool write)
{
	uint64_t start = offset / HDD_SECTOR, end = (offset + length + HDD_SECTOR - 1) / HDD_SECTOR;
	struct place from, to = place_of(d, start);

	assert(length && end <= d->sectors);
	read_ahead(d, now);
	if (!write && start >= d->buffered && start <= d->at && d->buffered < d->stop)
		return read_buffered(d, now, start, end);
	from = head_place(d);
	d->at = start;
	d->on_track = true;
	d->when = wait_for(d, move(d, now + d->params.overhead, &from, &to, write), &to);
	transfer(d, end, write);
	if (write)
		d->stop = d->buffered = d->at;
	else
		set_ahead(d, start, end);
	return d->when;
}

uint64_t hdd_service(const struct hdd *d, uint64_t now, uint64_t offset, uint64_t length,
		     bool write)
{
	struct hdd copy = *d;

	return hdd_access(&copy, now, offset, length, write) - now;
}
