/*
 * The counters of stats.get, each described once: the method, help and manuals read this table.
 */
#ifndef SERVER_CONTROL_STATS_H
#define SERVER_CONTROL_STATS_H

#include <stdbool.h>
#include <stddef.h>

struct control_counter {
	const char *name; /* NULL ends the table */
	const char *help; /* one line, no full stop */
	bool gauge;       /* goes up and down; else it only grows */
	size_t offset;    /* in the struct that the table is of: a uint64_t, or (size 4) an unsigned */
	size_t size;
};

/* Of one export: struct export_stats. The server's are their sums. */
extern const struct control_counter control_export_counters[];

/* Of the server alone: struct server_info. They stand in the place of sums of the same name. */
extern const struct control_counter control_server_counters[];

#endif
