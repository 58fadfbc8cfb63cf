/*
 * The control protocol. Input: lines; each with a letter in front that says who sends it. In them a
 * ' stands for a ", as in the unit tests.
 *
 * ask_bytes() asserts the form of every answer; here: strangers get nothing, readers change
 * nothing, and no reference stays behind.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/control_calls.h"

static const struct control_peer *who(char c)
{
	switch (c) {
	case 'o':
		return &owner;
	case 'm':
		return &member;
	case 's':
		return &stranger;
	default:
		return &root;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;

	control_setup();
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		const struct control_peer *peer = who(*at);

		if (at < stop)
			at++;
		json_decref(ask_bytes(peer, at, (size_t)(stop - at)));
		at = newline ? newline + 1 : end;
	}
	control_teardown();
	return 0;
}
