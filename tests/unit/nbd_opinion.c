/* A second opinion on requests, written as differently as can be: see nbd_opinion.h. */
#include "tests/unit/nbd_opinion.h"

enum { READ, WRITE, DISC, FLUSH, TRIM, CACHE, ZEROES, STATUS };

/* May this bit of the command's flags be set? */
static bool bit_opinion(const struct nbd_export_limits *l, uint16_t command, int bit)
{
	switch (bit) {
	case 0:
		return l->flags & 0x8;
	case 1:
		return command == ZEROES;
	case 2:
		return command == READ && l->flags & 0x80;
	case 3:
		return command == STATUS;
	case 4:
		return command == ZEROES && l->flags & 0x800;
	case 5:
		return l->mode == 2 &&
		       (command == WRITE || (command == STATUS && l->flags & 0x1000));
	default:
		return false;
	}
}

static uint32_t range_opinion(const struct nbd_export_limits *l, uint16_t command,
			      uint64_t offset, uint64_t length)
{
	uint64_t max = l->max_payload ? l->max_payload : 32 << 20;
	uint32_t align = l->min_block ? l->min_block : 1;

	if (command == FLUSH)
		return !offset && !length ? OPINION_OK : NBD_EINVAL;
	if ((command == READ || command == WRITE) && length > max)
		return NBD_EINVAL;
	if ((unsigned __int128)offset + length > l->size)
		return command == WRITE || command == ZEROES ? NBD_ENOSPC : NBD_EINVAL;
	if (offset % align || length % align)
		return NBD_EINVAL;
	return length ? OPINION_OK : command == STATUS ? NBD_EINVAL : 0;
}

bool nbd_payload_opinion(const struct nbd_export_limits *l, uint16_t command, uint16_t flags)
{
	return command == WRITE || (l->mode == 2 && flags & 0x20);
}

uint32_t nbd_opinion(const struct nbd_export_limits *l, uint16_t command, uint16_t flags,
		     uint64_t offset, uint64_t length)
{
	static const uint16_t offered[] = { [FLUSH] = 0x4, [TRIM] = 0x20, [CACHE] = 0x400,
					    [ZEROES] = 0x40, [STATUS] = 0 };

	if (nbd_payload_opinion(l, command, flags) && length >> 32)
		return OPINION_CLOSES;
	if (command > STATUS)
		return NBD_EINVAL;
	if ((command == WRITE || command == TRIM || command == ZEROES) && l->flags & 0x2)
		return NBD_EPERM;
	if (offered[command] && !(l->flags & offered[command]))
		return NBD_EINVAL;
	if (command == STATUS && !l->contexts)
		return NBD_EINVAL;
	for (int bit = 0; bit < 16; bit++)
		if (flags >> bit & 1 && !bit_opinion(l, command, bit))
			return NBD_EINVAL;
	if (command == STATUS && flags & 0x20)
		return length % 4 == 0 && length > 8 && length <= 4096 ? OPINION_OK : NBD_EINVAL;
	return range_opinion(l, command, offset, length);
}
