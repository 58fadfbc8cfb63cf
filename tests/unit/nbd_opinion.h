/*
 * What should come of a request, for tests that try many: a second opinion beside
 * nbd_decode_request, with the numbers of the specification instead of their names.
 */
#ifndef TESTS_UNIT_NBD_OPINION_H
#define TESTS_UNIT_NBD_OPINION_H

#include "server/nbd/request.h"

/* OK, CLOSE; or REPLY with this error, of which 0 is a no-op. DISC is not for here. */
enum { OPINION_OK = 0xffff, OPINION_CLOSES = 0xfffe };

uint32_t nbd_opinion(const struct nbd_export_limits *l, uint16_t command, uint16_t flags,
		     uint64_t offset, uint64_t length);

/* Do `length` bytes follow the header? Unless the connection closes. */
bool nbd_payload_opinion(const struct nbd_export_limits *l, uint16_t command, uint16_t flags);

static inline enum nbd_verdict nbd_verdict_of(uint32_t opinion)
{
	return opinion == OPINION_OK ? NBD_REQUEST_OK :
	       opinion == OPINION_CLOSES ? NBD_REQUEST_CLOSE : NBD_REQUEST_REPLY;
}

#endif
