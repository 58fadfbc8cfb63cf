/*
 * Strings of the NBD protocol: UTF-8, not NUL-terminated, without NUL, of bounded length.
 *
 * Pure functions, any thread. Names that come from a client or a configuration are checked, texts
 * that go to a client are repaired, so that nothing else has to care.
 */
#ifndef SERVER_NBD_TEXT_H
#define SERVER_NBD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Is s[0 .. len - 1] a legal string: at most NBD_STRING_MAX bytes of well-formed UTF-8 (RFC 3629:
 * no overlong forms, no surrogates, nothing above U+10FFFF), without NUL? s may be NULL if len is
 * 0.
 */
bool nbd_text_valid(const char *s, size_t len);

/* The largest length <= len and <= max at which cutting s does not split a character. */
size_t nbd_text_cut(const char *s, size_t len, size_t max);

/* Replace each control character and each byte that is not part of UTF-8 by '?'. */
void nbd_text_clean(char *s, size_t len);

#endif
