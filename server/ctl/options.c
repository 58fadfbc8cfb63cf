#include "server/ctl/options.h"

const struct cli_option liftctl_options[] = {
	{ CTL_SOCKET, "socket", "PATH",
	  "the control socket; default: control.sock in $RUNTIME_DIRECTORY, "
	  "$XDG_RUNTIME_DIR/liftd or /run/liftd",
	  "Of these places the first at which a server answers is taken." },
	{ CTL_JSON, "json", NULL, "print the server's result as it is", NULL },
	{ CTL_TIMEOUT, "timeout", "SECONDS", "how long to wait for the server (10)",
	  "From 1 to 86400." },
	{ CTL_INTERVAL, "interval", "SECONDS", "of top: how long a sample is (2)",
	  "From 0.1 to 60." },
	{ 'n', "count", "COUNT", "of top: how many samples there are",
	  "Without it top goes on until q or Ctrl-C; where the output is no terminal there is "
	  "one." },
	{ CTL_VERSION, "version", NULL, "print the version", NULL },
	{ 'h', "help", NULL, "print the commands and options", NULL },
	{ .name = NULL }
};

_Static_assert(CTL_DEFAULT_TIMEOUT == 10 && CTL_MAX_TIMEOUT == 86400, "--timeout says so");
_Static_assert(CTL_DEFAULT_INTERVAL == 2000, "--interval says so");
