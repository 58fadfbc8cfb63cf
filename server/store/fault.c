/* To come. */
#include <errno.h>

#include "server/store/internal.h"

static int fault_open(struct store *s, char *err, size_t errlen)
{
	(void)s;
	return store_fail(err, errlen, -ENOTSUP, "not built yet");
}

const struct store_ops fault_ops = {
	.name = "fault",
	.open = fault_open,
};

int fault_crash(struct store *s, uint64_t seed)
{
	(void)s;
	(void)seed;
	return -ENOTSUP;
}
