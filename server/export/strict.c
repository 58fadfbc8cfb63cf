#include "server/export/strict.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int strict_wrong(const char *text, const char *what, const char *expected, char *err,
		 size_t errlen)
{
	snprintf(err, errlen, "'%.120s%s' %s; expected %s", text, strlen(text) > 120 ? "..." : "",
		 what, expected);
	return -EINVAL;
}

bool strict_number(const char *text, uint64_t max, uint64_t *out)
{
	size_t len = strspn(text, "0123456789");

	*out = 0;
	for (size_t i = 0; i < len && *out <= max; i++)
		*out = 10 * *out + (uint64_t)(text[i] - '0');
	return len && !text[len] && *out <= max;
}
