/* To come. */
#include <errno.h>

#include "server/store/internal.h"

static int hdd_open(struct store *s, char *err, size_t errlen)
{
	(void)s;
	return store_fail(err, errlen, -ENOTSUP, "not built yet");
}

const struct store_ops hdd_ops = {
	.name = "hdd",
	.open = hdd_open,
};
