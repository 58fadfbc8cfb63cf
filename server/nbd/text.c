#include "server/nbd/text.h"

#include <stdint.h>

#include "server/nbd/protocol.h"

static bool continuation(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

/*
 * Bytes of the character at s, of which left > 0 bytes exist; 0 if it is not well-formed. The
 * bounds of the second byte are those of RFC 3629, section 4.
 */
static size_t char_size(const uint8_t *s, size_t left)
{
	uint8_t c = s[0], low = 0x80, high = 0xbf;
	size_t size;

	if (c < 0x80)
		return 1;
	if (c < 0xc2 || c > 0xf4)
		return 0;
	size = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	if (left < size)
		return 0;
	if (c == 0xe0)
		low = 0xa0;
	else if (c == 0xed)
		high = 0x9f;
	else if (c == 0xf0)
		low = 0x90;
	else if (c == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < size; i++) {
		if (!continuation(s[i]))
			return 0;
	}
	return size;
}

bool nbd_text_valid(const char *s, size_t len)
{
	const uint8_t *p = (const uint8_t *)s;

	if (len > NBD_STRING_MAX)
		return false;
	for (size_t i = 0, size; i < len; i += size) {
		size = p[i] ? char_size(p + i, len - i) : 0;
		if (!size)
			return false;
	}
	return true;
}

size_t nbd_text_cut(const char *s, size_t len, size_t max)
{
	const uint8_t *p = (const uint8_t *)s;

	if (len <= max)
		return len;
	/* A character has at most three continuation bytes; more of them is no UTF-8 anyway. */
	for (size_t cut = max, n = 0; n < 4; cut--, n++) {
		if (!continuation(p[cut]))
			return cut;
		if (!cut)
			break;
	}
	return max;
}

void nbd_text_clean(char *s, size_t len)
{
	uint8_t *p = (uint8_t *)s;

	for (size_t i = 0, size; i < len; i += size) {
		size = char_size(p + i, len - i);
		if (!size || p[i] < 0x20 || p[i] == 0x7f) {
			p[i] = '?';
			size = 1;
		}
	}
}
