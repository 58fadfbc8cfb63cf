/*
 * The results of commands, for people.
 */
#ifndef SERVER_CTL_PRINT_H
#define SERVER_CTL_PRINT_H

#include <jansson.h>
#include <stddef.h>

#include "server/control/commands.h"

/*
 * Print the result of a call to stdout. 0, or -1 with a sentence in err: the result lacks what was
 * asked for. Results of an unexpected form (another version's) print as far as they go.
 */
int print_result(const struct command_call *call, const json_t *result, char *err, size_t errlen);

#endif
