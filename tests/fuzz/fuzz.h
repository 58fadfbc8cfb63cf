/*
 * Fuzz targets: each is one file with LLVMFuzzerTestOneInput, which clang's libFuzzer calls with
 * what it made up (make fuzz), and replay.c with the inputs that were worth keeping (make check).
 *
 * They share code with the unit tests, whose ck_assert ends the program here (check.c), as must()
 * does. An input must not leave anything behind that the next one notices.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Before the first input; returns 0. Only where a target has it. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* An input as a row of numbers: 0 where it has ended. */
struct fuzz_input {
	const uint8_t *at, *end;
};

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

/* n bytes as a number, the first one the highest. */
static inline uint64_t fuzz_number(struct fuzz_input *in, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | fuzz_byte(in);
	return v;
}

static inline size_t fuzz_left(const struct fuzz_input *in)
{
	return (size_t)(in->end - in->at);
}

#endif
