/*
 * Kinds of sections for the tests of conf/, shaped like the server's: rows of every kind, and
 * exports whose rows depend on another setting.
 */
#ifndef TESTS_UNIT_CONF_KINDS_H
#define TESTS_UNIT_CONF_KINDS_H

#include <string.h>

#include "conf/conf.h"

struct test_server {
	char **listen, *user;
	uint64_t threads, log, memory, timeout;
};

struct test_export {
	char *path, *description;
	uint64_t policy, depth, readonly, age;
};

struct test_policy {
	uint64_t expire, batch;
};

#define FIELD(type, field) \
	.name = #field, .offset = offsetof(struct type, field), .help = "a " #field

static const char *const test_levels[] = { "error", "warning", "info", NULL };
static const char *const test_policies[] = { "fifo", "sweep", NULL };

static const struct tunable test_server_rows[] = {
	{ FIELD(test_server, listen), .kind = TUNABLE_STRING, .repeatable = true, .min = 1,
	  .max = 300 },
	{ FIELD(test_server, user), .kind = TUNABLE_STRING, .max = 255 },
	{ FIELD(test_server, threads), .kind = TUNABLE_UINT, .min = 1, .max = 256,
	  .can_be_auto = true, .dflt = TUNABLE_AUTO },
	{ FIELD(test_server, log), .kind = TUNABLE_ENUM, .choices = test_levels, .dflt = 2,
	  .when = WHEN_RUNTIME },
	{ FIELD(test_server, memory), .kind = TUNABLE_SIZE, .unit = UNIT_BYTES, .min = 64 << 20,
	  .max = 1ull << 40, .dflt = 256 << 20 },
	{ FIELD(test_server, timeout), .kind = TUNABLE_TIME, .unit = UNIT_MS, .min = 100,
	  .max = 3600000, .dflt = 10000,
	  .paragraph = "A paragraph that is long enough to be broken into several lines "
		       "when it becomes a comment, since it has more than ninety-six letters, and "
		       "then some." },
	{ .name = NULL }
};

static const struct tunable test_export_rows[] = {
	{ FIELD(test_export, path), .kind = TUNABLE_STRING, .max = 4095 },
	{ FIELD(test_export, description), .kind = TUNABLE_STRING, .max = 4096 },
	{ FIELD(test_export, policy), .kind = TUNABLE_ENUM, .choices = test_policies, .dflt = 0 },
	{ FIELD(test_export, depth), .kind = TUNABLE_UINT, .min = 1, .max = 1024, .dflt = 32 },
	{ FIELD(test_export, readonly), .kind = TUNABLE_BOOL },
	{ FIELD(test_export, age), .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = 3600000,
	  .dflt = 10000 },
	{ .name = NULL }
};

static const struct tunable test_policy_rows[] = {
	{ FIELD(test_policy, expire), .kind = TUNABLE_TIME, .unit = UNIT_MS, .max = 100000,
	  .dflt = 500 },
	{ FIELD(test_policy, batch), .kind = TUNABLE_UINT, .min = 1, .max = 100, .dflt = 16 },
	{ .name = NULL }
};

static const struct tunable test_client_rows[] = {
	{ .name = "weight", .kind = TUNABLE_UINT, .min = 1, .max = 1000, .dflt = 100, .help = "a "
	  "share" },
	{ .name = NULL }
};

/* sweep.NAME always; NAME alone where the policy is sweep. */
static inline const struct tunable *test_find_export(const struct conf_section *s, const char *name,
						     char *err, size_t errlen)
{
	static const struct tunable *const tables[] = { test_export_rows, NULL };
	const struct conf_setting *policy = conf_get(s, "policy");
	const struct tunable *row = tunable_find(test_export_rows, name);

	if (!row && !strncmp(name, "sweep.", 6))
		row = tunable_find(test_policy_rows, name + 6);
	if (!row && policy && !strcmp(policy->value, "sweep"))
		row = tunable_find(test_policy_rows, name);
	if (!row)
		tunable_unknown(tables, name, err, errlen);
	return row;
}

static const struct tunable *const test_server_tables[] = { test_server_rows, NULL };
static const struct tunable *const test_export_tables[] = { test_export_rows, test_policy_rows,
							    NULL };
static const struct tunable *const test_client_tables[] = { test_client_rows, NULL };

static const struct conf_kind test_kinds[] = {
	{ .word = "server", .includes = true, .tables = test_server_tables },
	{ .word = "export", .title = "NAME", .title_max = 200, .tables = test_export_tables,
	  .find = test_find_export },
	{ .word = "client", .title = "MATCH", .title_max = 255, .tables = test_client_tables },
	{ .word = NULL }
};

#endif
