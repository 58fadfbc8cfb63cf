/*
 * The configuration, loaded again while the server runs: what can change changes, without a
 * connection being dropped; the report says what did, and what needs a restart. If anything is
 * wrong with it, nothing changes.
 *
 * The file's values become true again, also where liftctl has set others.
 */
#ifndef SERVER_LIFTD_RELOAD_H
#define SERVER_LIFTD_RELOAD_H

#include "server/liftd/options.h"
#include "server/net/service.h"

struct reload {
	struct service *service;
	const struct options *options; /* those that it was started with */
};

/* For struct service; ctx is a struct reload. The main thread. */
void reload_config(void *ctx, struct control_report *report);

#endif
