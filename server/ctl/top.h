/*
 * `liftctl top`: what each client gets, on a terminal again and again until it is told to end.
 */
#ifndef SERVER_CTL_TOP_H
#define SERVER_CTL_TOP_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct top {
	/* A result of client.list with histograms, or NULL with a sentence in err. */
	json_t *(*ask)(void *ctx, char *err, size_t errlen);
	void *ctx;
	unsigned count;    /* samples; 0: on a terminal without end, else one */
	unsigned interval; /* ms */
};

/*
 * Returns when all samples are shown, or on q. 0, or -1 with a sentence in err. A signal that ends
 * the process puts the terminal back first; SIGINT ends it with status 0.
 */
int top_run(const struct top *t, char *err, size_t errlen);

#endif
