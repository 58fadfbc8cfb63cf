/*
 * What each client got between two results of client.list: pure arithmetic, for `liftctl top`.
 */
#ifndef SERVER_CTL_USAGE_H
#define SERVER_CTL_USAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct usage {
	const char *id, *export, *io_class; /* of the later result */
	uint64_t connections, weight;
	bool active;                   /* something was done for it, or waited */
	uint64_t device_ns;            /* that its operations were with the store */
	double share, entitled;        /* 0..1, of its export; without activity 0 */
	double iops, bytes_per_s;
	uint64_t queue_ns, service_ns; /* average of a request */
	uint64_t p50_ns, p99_ns;       /* arrival to completion; 0: nothing was completed */
};

/*
 * *out: n of them for the clients of `now`, which must stay, the busiest first; for the caller to
 * free. One that `before` does not have has no figures yet. 0, or -1 without memory.
 */
int usage_make(const json_t *before, const json_t *now, double seconds, struct usage **out,
	       size_t *n);

#endif
