/*
 * The options of liftctl, constant.
 */
#ifndef SERVER_CTL_OPTIONS_H
#define SERVER_CTL_OPTIONS_H

#include "server/control/cli.h"

enum { CTL_SOCKET = CLI_LONG, CTL_JSON, CTL_TIMEOUT, CTL_INTERVAL, CTL_VERSION };
enum { CTL_DEFAULT_TIMEOUT = 10, CTL_MAX_TIMEOUT = 86400 }; /* s */
enum { CTL_DEFAULT_INTERVAL = 2000 };                       /* ms */

extern const struct cli_option liftctl_options[];

#endif
