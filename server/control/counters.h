/*
 * The counters of stats.get, each described once. commands.c makes names and help of them (struct
 * command_counter, for both programs), stats.c reads the fields.
 *
 *   C(name, field, gauge, help)    gauge: goes up and down; else it only grows
 *
 * Private to server/control.
 */
#ifndef SERVER_CONTROL_COUNTERS_H
#define SERVER_CONTROL_COUNTERS_H

/*
 * Of one export: uint64_t fields of struct export_stats. The server's are their sums, over the
 * exports that are there.
 */
#define CONTROL_EXPORT_COUNTERS(C) \
	C(requests_received, requests_received, false, \
	  "requests read from sockets, bad ones included") \
	C(requests_answered, requests_answered, false, \
	  "requests whose reply was handed to the kernel") \
	C(requests_withdrawn, requests_withdrawn, false, \
	  "requests that ended without a reply: their connection was gone") \
	C(requests_held, requests_held, true, "requests received, not yet answered or withdrawn") \
	C(requests_invalid, requests_invalid, false, "requests refused with an error, unexecuted") \
	C(requests_failed, elv.errors, false, "requests executed that ended with an error") \
	C(bytes_held, bytes_held, true, "memory reserved for the data of requests") \
	C(budget_waits, budget_waits, false, "times that reading a socket waited for budget") \
	C(connections, connections, true, "connections that are open") \
	C(connections_total, connections_total, false, "connections since the start") \
	C(reads, elv.requests[ELV_READ], false, \
	  "READ requests; of a long one each piece that is answered by itself") \
	C(writes, elv.requests[ELV_WRITE], false, "WRITE requests") \
	C(flushes, flushes, false, "FLUSH requests") \
	C(trims, elv.requests[ELV_TRIM], false, "TRIM requests") \
	C(zeroes, elv.requests[ELV_ZERO], false, "WRITE_ZEROES requests") \
	C(caches, elv.requests[ELV_CACHE], false, "CACHE requests") \
	C(statuses, elv.requests[ELV_STATUS], false, "BLOCK_STATUS requests") \
	C(bytes_read, elv.bytes[ELV_DIR_READ], false, "data of READ requests") \
	C(bytes_written, elv.bytes[ELV_DIR_WRITE], false, "data of WRITE requests") \
	C(ios, elv.ios, false, "operations given to the store, after merging and slicing") \
	C(back_merges, elv.back_merges, false, "requests appended to a queued one") \
	C(front_merges, elv.front_merges, false, "requests put before a queued one") \
	C(promoted, elv.promoted, false, "operations sent past the scheduler, being too old") \
	C(service_ns, elv.service_ns, false, "time that operations spent in the store, added up") \
	C(syncs, syncs, false, "syncs of the store, which exports of one image share") \
	C(sync_errors, sync_errors, false, "syncs that failed") \
	C(switches, switches, false, "changes of the scheduler") \
	C(evicted, evicted, false, "accounts of absent clients that had to make room")

/* Of the server alone: fields of struct server_info, in the place of sums of the same name. */
#define CONTROL_SERVER_COUNTERS(C) \
	C(connections, connections, true, "connections that are open, in negotiation or attached") \
	C(connections_waiting, waiting, true, "connections that wait for budget") \
	C(bytes_held, bytes_held, true, "memory reserved for the data of requests") \
	C(memory, memory, true, "the most that may be reserved for the data of requests")

#endif
