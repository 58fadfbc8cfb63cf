/* Disk models: constant, linear, flash, rotating. */
#include "sched/sim/model.h"

#include <math.h>

#include "sched/cost.h"

#define US 1000ULL
#define MS 1000000ULL

struct sim_model sim_model_constant(uint64_t ns)
{
	return (struct sim_model){
		.name = "constant", .lanes = 1, .fixed = ns, .write_fixed = ns, .sync_time = ns,
	};
}

struct sim_model sim_model_linear(void)
{
	return (struct sim_model){
		.name = "linear", .lanes = 1, .fixed = ELV_COST_FIXED * US,
		.write_fixed = ELV_COST_FIXED * US, .per_sector = US, .sync_time = MS,
	};
}

struct sim_model sim_model_ssd(unsigned lanes, uint64_t read_ns, uint64_t write_ns)
{
	return (struct sim_model){
		.name = "ssd", .lanes = lanes < SIM_MAX_LANES ? lanes : SIM_MAX_LANES,
		.fixed = read_ns, .write_fixed = write_ns, .per_sector = 2 * US / 8,
		.sync_time = write_ns,
	};
}

struct sim_model sim_model_hdd(uint64_t size)
{
	return (struct sim_model){
		.name = "hdd", .rotational = true, .lanes = 1, .size = size, .sync_time = 8 * MS,
	};
}

/* --- the rotating disk --- */

enum {
	CYLINDERS = 60000,
	TRACK_BYTES = 1250000, /* 150 MB/s at 120 turns a second */
};
static const uint64_t turn = 8333333; /* ns */

/* A seek over this share of the disk, in ns: 0.8 ms to the next track, 8.5 ms on average, 16 ms across. */
static uint64_t seek_time(const struct sim_model *m, uint64_t from, uint64_t to)
{
	uint64_t bytes = from > to ? from - to : to - from;
	double d = (double)bytes / (double)m->size * CYLINDERS;

	if (d < 1)
		return 0;
	return (uint64_t)(d < 20000 ? 0.8e6 + 4.5e4 * sqrt(d) : 5.16e6 + 100.0 * d);
}

/* ns until the platter has turned to this byte. */
static uint64_t rotation_time(uint64_t offset, uint64_t now)
{
	uint64_t there = offset % TRACK_BYTES * turn / TRACK_BYTES, angle = now % turn;

	return there >= angle ? there - angle : there + turn - angle;
}

static uint64_t hdd_time(struct sim_model *m, const struct elv_io *io, uint64_t now)
{
	uint64_t t = now + 100 * US;
	uint64_t transfer = io->length * turn / TRACK_BYTES;

	if (elv_is_discard(io->op))
		transfer = 0;
	t += seek_time(m, m->position, io->offset);
	t += rotation_time(io->offset, t);
	m->position = io->offset + io->length;
	return t + transfer - now;
}

uint64_t sim_model_finish(struct sim_model *m, const struct elv_io *io, uint64_t now)
{
	uint64_t start, took;
	unsigned lane = 0;

	if (!io->elv)
		return now + m->sync_time;
	for (unsigned i = 1; i < m->lanes; i++)
		if (m->busy_until[i] < m->busy_until[lane])
			lane = i;
	start = m->busy_until[lane] > now ? m->busy_until[lane] : now;
	if (m->rotational) {
		took = hdd_time(m, io, start);
	} else {
		uint64_t sectors = (io->length + 511) / 512;

		if (elv_is_discard(io->op))
			sectors >>= ELV_COST_DISCARD_SHIFT;
		took = (io->op == ELV_READ ? m->fixed : m->write_fixed) + sectors * m->per_sector;
	}
	m->busy_until[lane] = start + took;
	return start + took;
}
