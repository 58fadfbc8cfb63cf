/*
 * The log: lines on the error output, for people and for journald.
 *
 * Each is "liftd: TEXT", or "liftd: LEVEL: TEXT" for errors and warnings; where the error output is
 * the journal (JOURNAL_STREAM), "<N>TEXT" with the priority that journald reads. One write a line,
 * so that lines of several threads never mix. Any thread.
 */
#ifndef SERVER_NET_LOG_H
#define SERVER_NET_LOG_H

#include <stdbool.h>

/* In the order of the words of the tunable `log`. */
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);

/* Would a line of this level be written? To save the trouble of making it. */
bool log_enabled(enum log_level level);

/* Texts have no final full stop and no newline. Control characters in them are replaced. */
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
