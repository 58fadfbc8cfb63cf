/*
 * liftctl's connection to the control socket: one line out, one line in, with a time limit.
 */
#ifndef SERVER_CTL_CONN_H
#define SERVER_CTL_CONN_H

#include <stddef.h>

struct ctl_conn {
	int fd;
	int timeout; /* seconds for each step: connecting, sending, the answer */
	char path[108];
};

/*
 * Connect to path, or with path NULL to the first of the default places where a server listens. 0,
 * or -1 with a sentence in err that names the path and says what to do.
 */
int ctl_connect(struct ctl_conn *c, const char *path, int timeout, char *err, size_t errlen);

/*
 * Send a line (len bytes with its newline), wait for the answer. *answer: its line, without the
 * newline but terminated, for the caller to free. 0, or -1 with a sentence in err.
 */
int ctl_call(struct ctl_conn *c, const char *line, size_t len, char **answer, size_t *answer_len,
	     char *err, size_t errlen);

void ctl_close(struct ctl_conn *c);

#endif
