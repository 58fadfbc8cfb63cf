/*
 * The null store: reads zeroes, forgets writes, is done at once. The smallest store there is.
 */
#include <errno.h>
#include <string.h>

#include "server/store/lane.h"

static int null_open(struct store *s, char *err, size_t errlen)
{
	struct store_geometry *g = &s->geometry;

	if (!s->params.size)
		return store_fail(err, errlen, -EINVAL, "the null store needs a size");
	g->size = s->params.size;
	g->block = 1;
	g->preferred = 4096;
	strcpy(g->device_name, "null");
	g->rotational = s->params.rotational == 1;
	if (!s->params.readonly)
		s->abilities = STORE_CAN_WRITE | STORE_CAN_TRIM | STORE_CAN_FAST_ZERO | STORE_CAN_CACHE;
	g->multi_conn = true;
	g->depth = 32;
	g->aio = "inline";
	return 0;
}

static void null_close(struct store *s)
{
	(void)s;
}

static int null_make_writable(struct store *s, char *err, size_t errlen)
{
	(void)s;
	return store_fail(err, errlen, -ENOTSUP, "a null store is never shared");
}

static void null_run(struct store *s, struct elv_io *io)
{
	if (io->op == ELV_READ)
		for (unsigned i = 0; i < io->niov; i++)
			memset(io->iov[i].iov_base, 0, io->iov[i].iov_len);
	io->result = io->length;
	if (io->op == ELV_STATUS)
		store_status(s, io);
}

static void null_submit(struct store *s, struct lane *lane, struct elv_io *io)
{
	null_run(s, io);
	lane_done(lane, io);
}

const struct store_ops null_ops = {
	.name = "null",
	.open = null_open,
	.close = null_close,
	.make_writable = null_make_writable,
	.submit = null_submit,
	.run = null_run,
};
