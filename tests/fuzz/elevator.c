/*
 * Sequences of elevator operations in virtual time. Input: what happens, byte by byte, as chaos()
 * throws dice for it (tests/unit/chaos.h): exports, clients, requests, completions, faults,
 * disconnects, switches and settings, with the oracle and elv_check after every step.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/chaos.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	chaos_by_bytes(data, size);
	return 0;
}
