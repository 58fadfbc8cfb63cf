/*
 * What the tests of server/control share: a server with two exports of null stores (disk, under
 * deadline, and bär, under noop), and calls to it.
 *
 * In all lines and parameters a ' stands for a ".
 */
#ifndef TESTS_UNIT_CONTROL_CALLS_H
#define TESTS_UNIT_CONTROL_CALLS_H

#include <jansson.h>
#include <stddef.h>

#include "server/control/control.h"
#include "server/export/registry.h"

enum { SERVER_UID = 1000, SERVER_GID = 2000 };

extern struct server server;
extern struct control control;

/* Root, the server's user, somebody in its group, somebody else. */
extern const struct control_peer root, owner, member, stranger;

/* A checked fixture. */
void control_setup(void);
void control_teardown(void);

/*
 * One line; the whole answer, checked for its form, or NULL if there is none. As it is given to
 * control_handle the line has no byte behind it.
 */
json_t *ask_bytes(const struct control_peer *peer, const char *line, size_t len);
json_t *ask(const struct control_peer *peer, const char *line);

/* A method with these parameters ("": none), by root; its result, to be freed. */
json_t *result_of(const char *method, const char *params);

/* An error with this code whose message has this part; the whole answer, to be freed. */
json_t *refused(const struct control_peer *peer, const char *line, size_t len, int code,
		const char *part);

/* The same by root. */
void refuses(const char *line, int code, const char *part);

/* The number that a setting of an export has. */
long long value(const char *export, const char *name);

#endif
