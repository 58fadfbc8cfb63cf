/* Disk models: constant, linear, flash, rotating. */
#include "sched/sim/model.h"

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
	struct sim_model m = { .name = "hdd", .rotational = true, .lanes = 1, .sync_time = 8 * MS };

	hdd_init(&m.hdd, &hdd7200, size);
	return m;
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
		took = elv_is_discard(io->op) ? m->hdd.params.overhead
					      : hdd_access(&m->hdd, start, io->offset, io->length,
							   io->op == ELV_WRITE) - start;
	} else {
		uint64_t sectors = (io->length + 511) / 512;

		if (elv_is_discard(io->op))
			sectors >>= ELV_COST_DISCARD_SHIFT;
		took = (io->op == ELV_READ ? m->fixed : m->write_fixed) + sectors * m->per_sector;
	}
	m->busy_until[lane] = start + took;
	return start + took;
}
