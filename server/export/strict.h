/*
 * What parsers of settings that are more than a number or a word have in common.
 */
#ifndef SERVER_EXPORT_STRICT_H
#define SERVER_EXPORT_STRICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills err with "'TEXT' WHAT; expected EXPECTED", a long text cut. Returns -EINVAL. */
int strict_wrong(const char *text, const char *what, const char *expected, char *err,
		 size_t errlen);

/* A whole number in digits alone, 0..max; max < 2^60. False: it is none, *out is undefined. */
bool strict_number(const char *text, uint64_t max, uint64_t *out);

#endif
