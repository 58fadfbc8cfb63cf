#include "server/export/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int network_address(const char *text, struct network *out)
{
	memset(out, 0, sizeof(*out));
	out->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	out->bits = out->family == AF_INET ? 32 : 128;
	return inet_pton(out->family, text, out->address) == 1 ? 0 : -EINVAL;
}

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole))
		return false;
	return !rest || !((a[whole] ^ b[whole]) >> (8 - rest));
}

/* Is anything but zero in the address after its prefix? */
static bool has_rest(const struct network *n)
{
	for (unsigned i = n->bits / 8; i < sizeof(n->address); i++)
		if (n->address[i] & (i > n->bits / 8 ? 0xff : 0xff >> n->bits % 8))
			return true;
	return false;
}

int network_parse(const char *text, struct network *out)
{
	const char *slash = strchr(text, '/');
	char address[INET6_ADDRSTRLEN], *end;
	unsigned long bits;
	size_t len;

	if (!slash)
		return -EINVAL;
	len = (size_t)(slash - text);
	if (len >= sizeof(address) || slash[1] < '0' || slash[1] > '9')
		return -EINVAL;
	memcpy(address, text, len);
	address[len] = '\0';
	bits = strtoul(slash + 1, &end, 10);
	if (*end || end - slash > 4 || network_address(address, out) || bits > out->bits)
		return -EINVAL;
	out->bits = (unsigned)bits;
	return has_rest(out) ? -ERANGE : 0;
}

bool network_has(const struct network *n, const struct network *address)
{
	return n->family == address->family && address->bits >= n->bits &&
	       prefix_equal(n->address, address->address, n->bits);
}
