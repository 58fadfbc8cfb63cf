/* Under sanitizers: everything is several times slower, and memory is allocated otherwise. */
#ifndef TESTS_UNIT_SLOWNESS_H
#define TESTS_UNIT_SLOWNESS_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

/* How many times less a test does then. */
#if SANITIZED
enum { SLOWNESS = 4 };
#else
enum { SLOWNESS = 1 };
#endif

#endif
