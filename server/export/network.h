/* Addresses and networks of IPv4 and IPv6, from text. */
#ifndef SERVER_EXPORT_NETWORK_H
#define SERVER_EXPORT_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

/* The addresses that begin with these bits; a single one has all of its bits. */
struct network {
	int family;          /* AF_INET or AF_INET6 */
	unsigned bits;
	uint8_t address[16]; /* the rest is zero */
};

/* "10.0.0.7", "fd00::1". 0 or -EINVAL. */
int network_address(const char *text, struct network *out);

/* "10.0.0.0/8", "fd00::/64". 0; -EINVAL: it is none; -ERANGE: it has bits beyond the prefix. */
int network_parse(const char *text, struct network *out);

/* Is this address in n? */
bool network_has(const struct network *n, const struct network *address);

#endif
