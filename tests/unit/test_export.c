/*
 * Exports: settings by name, identities and their accounts, rules for clients, disks. On null
 * stores; no sockets.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/export/registry.h"
#include "tests/unit/suite.h"

static struct server server;
static char err[2 * TUNABLE_ERR_MAX];
static struct setting_error why;

static void setup(void)
{
	struct server_params params;

	ck_assert_int_eq(tunable_defaults(server_rows, &params), 0);
	ck_assert_int_eq(server_init(&server, &params), 0);
	tunable_free(server_rows, &params);
}

static void teardown(void)
{
	server_exit(&server);
}

#define SET(...) (const struct setting[]){ __VA_ARGS__ }, \
	sizeof((const struct setting[]){ __VA_ARGS__ }) / sizeof(struct setting)

/* Open an export of a null store with these settings; returns what export_open does. */
static int try_open(const char *name, const struct setting *set, size_t n, struct export **out)
{
	struct export_settings st;
	struct setting all[16] = { { "path", "null:" }, { "size", "1M" }, { "name", name } };
	int res;

	for (size_t i = 0; i < n; i++)
		all[3 + i] = set[i];
	ck_assert_int_eq(export_settings_init(&st), 0);
	res = export_settings_set(&st, all, n + 3, &why);
	ck_assert_msg(!res, "%s", why.text);
	*out = NULL;
	res = export_open(&server, &st, out, err, sizeof(err));
	export_settings_free(&st);
	return res;
}

static struct export *open_null(const char *name)
{
	struct export *e;
	int res = try_open(name, NULL, 0, &e);

	ck_assert_msg(!res, "%s", err);
	return e;
}

static const char *get(struct export *e, const char *name)
{
	static char buf[256];

	if (export_get(e, name, buf, sizeof(buf), err, sizeof(err)))
		return NULL;
	return buf;
}

/* ---- tables ---- */

START_TEST(tables_are_well_formed)
{
	const struct tunable *const tables[] = { server_rows, export_rows };

	for (unsigned i = 0; i < 2; i++)
		ck_assert_msg(!tunable_check_rows(tables[i], err, sizeof(err)), "%s", err);
	ck_assert_str_eq(elv_policies[tunable_find(export_rows, "scheduler")->dflt]->name, "cfq");
}
END_TEST

/* A name without a dot must mean one thing, whatever the scheduler. */
START_TEST(no_name_is_in_two_tables)
{
	const struct tunable *tables[3 + ELV_MAX_POLICIES] = { export_rows, store_rows, elv_rows };
	unsigned n = 3;

	for (unsigned i = 0; elv_policies[i]; i++)
		tables[n++] = elv_policies[i]->rows;
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < 3; k++)
			for (const struct tunable *t = tables[i]; i != k && t->name; t++)
				ck_assert_msg(!tunable_find(tables[k], t->name), "%s", t->name);
	for (unsigned i = 0; i < n; i++)
		for (const struct tunable *t = tables[i]; t->name; t++)
			ck_assert_msg(!tunable_find(server_rows, t->name), "%s", t->name);
}
END_TEST

/* ---- settings ---- */

START_TEST(set_takes_effect_and_get_shows_it)
{
	struct export *e = open_null("a");

	ck_assert_str_eq(get(e, "scheduler"), "cfq");
	ck_assert_int_eq(export_set(e, SET({ "nr_requests", "64" }, { "queue_depth", "8" },
					   { "max_queue_age", "2s" }), &why), 0);
	ck_assert_str_eq(get(e, "nr_requests"), "64");
	ck_assert_str_eq(get(e, "max_queue_age"), "2000");
	ck_assert_uint_eq(e->elv.depth, 8);
	ck_assert_uint_eq(e->budget.nr_requests, 64);
	ck_assert_int_eq(export_set(e, SET({ "queue_depth", "auto" }), &why), 0);
	ck_assert_uint_eq(e->elv.depth, e->store->geometry.depth);
}
END_TEST

START_TEST(all_or_none)
{
	struct export *e = open_null("a");

	ck_assert_int_eq(export_set(e, SET({ "nr_requests", "64" }, { "scheduler", "noop" },
					   { "queue_depth", "0" }), &why), -ERANGE);
	ck_assert_str_eq(why.name, "queue_depth");
	ck_assert_str_eq(why.value, "0");
	ck_assert_str_eq(why.allowed, "auto, 1..1024");
	ck_assert_str_eq(get(e, "nr_requests"), "128");
	ck_assert_str_eq(get(e, "scheduler"), "cfq");
}
END_TEST

START_TEST(the_scheduler_is_settled_first)
{
	struct export *e = open_null("a");

	/* The bare name is deadline's, although it stands before the scheduler. */
	ck_assert_int_eq(export_set(e, SET({ "read_expire", "100" }, { "scheduler", "deadline" }),
				    &why), 0);
	ck_assert_str_eq(get(e, "read_expire"), "100");
	ck_assert_str_eq(get(e, "deadline.read_expire"), "100");
	ck_assert_str_eq(e->elv.policy->name, "deadline");
	/* It survives a switch, and is there under its full name. */
	ck_assert_int_eq(export_set(e, SET({ "scheduler", "noop" }), &why), 0);
	ck_assert_ptr_null(get(e, "read_expire"));
	ck_assert_ptr_nonnull(strstr(err, "deadline.read_expire"));
	ck_assert_str_eq(get(e, "deadline.read_expire"), "100");
	ck_assert_int_eq(export_set(e, SET({ "deadline.read_expire", "200ms" }), &why), 0);
	ck_assert_int_eq(export_set(e, SET({ "scheduler", "deadline" }), &why), 0);
	ck_assert_str_eq(get(e, "read_expire"), "200");
	ck_assert_uint_eq(e->elv.switches, 3);
}
END_TEST

START_TEST(wrong_settings_are_named)
{
	struct export *e = open_null("a");

	ck_assert_int_eq(export_set(e, SET({ "nr_request", "5" }), &why), -ENOENT);
	ck_assert_ptr_nonnull(strstr(why.text, "nr_requests"));
	ck_assert_str_eq(why.name, "nr_request");
	ck_assert_int_eq(export_set(e, SET({ "scheduler", "bogus" }), &why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why.allowed, "noop"));
	ck_assert_int_eq(export_set(e, SET({ "bogus.read_expire", "5" }), &why), -ENOENT);
	ck_assert_int_eq(export_set(e, SET({ "deadline.bogus", "5" }), &why), -ENOENT);
	ck_assert_int_eq(export_set(e, SET({ "path", "x" }), &why), -EPERM);
	ck_assert_int_eq(export_set(e, SET({ "nr_requests", "5" }, { "nr_requests", "6" }), &why),
			 -EEXIST);
	ck_assert_int_eq(export_set(e, SET({ "nr_requests", "5x" }), &why), -EINVAL);
	ck_assert_int_eq(export_set(e, SET({ "max_queue_age", "5K" }), &why), -EINVAL);
	/* Twice the same, by two names. */
	ck_assert_int_eq(export_set(e, SET({ "scheduler", "deadline" }, { "fifo_batch", "4" },
					   { "deadline.fifo_batch", "5" }), &why), -EEXIST);
	/* A fault store cannot be put around a store that runs. */
	ck_assert_int_lt(export_set(e, SET({ "fault_error_every", "5" }), &why), 0);
	ck_assert_str_eq(why.name, "fault_error_every");
	ck_assert_str_eq(get(e, "fault_error_every"), "0");
}
END_TEST

START_TEST(settings_at_the_start)
{
	struct export *e;

	ck_assert_int_eq(try_open("a", SET({ "fifo_batch", "7" }, { "scheduler", "deadline" },
					   { "nr_requests", "9" }, { "description", "mine" }),
				  &e), 0);
	ck_assert_str_eq(get(e, "fifo_batch"), "7");
	ck_assert_uint_eq(e->budget.nr_requests, 9);
	ck_assert_str_eq(get(e, "description"), "mine");
	ck_assert_int_eq(try_open("a", NULL, 0, &e), -EEXIST);
	ck_assert_ptr_nonnull(strstr(err, "'a'"));
}
END_TEST

static void count_tunable(void *ctx, const struct export_tunable *t)
{
	unsigned *n = ctx;

	n[0]++;
	n[1] += !strcmp(t->name, "fifo_batch");
	n[2] += !strcmp(t->name, "deadline.fifo_batch");
	ck_assert_ptr_nonnull(t->value);
	ck_assert_ptr_nonnull(t->dflt);
	if (!strcmp(t->name, "nr_requests")) {
		ck_assert_str_eq(t->value, "77");
		ck_assert_str_eq(t->dflt, "128");
	}
}

START_TEST(every_tunable_is_listed_once)
{
	struct export *e = open_null("a");
	unsigned n[3] = { 0 }, m[3] = { 0 };

	ck_assert_int_eq(export_set(e, SET({ "nr_requests", "77" }), &why), 0);
	ck_assert_int_eq(export_each_tunable(e, count_tunable, n), 0);
	ck_assert(n[1] == 0 && n[2] == 1);
	ck_assert_int_eq(export_set(e, SET({ "scheduler", "deadline" }), &why), 0);
	ck_assert_int_eq(export_each_tunable(e, count_tunable, m), 0);
	ck_assert(m[1] == 1 && m[2] == 0);
	ck_assert_uint_eq(n[0], m[0]);
}
END_TEST

/* ---- looking up ---- */

START_TEST(one_export_is_the_default)
{
	struct export *a = open_null("a"), *b, *e;
	uint64_t cursor = 0;

	e = export_find(&server, "", 0);
	ck_assert_ptr_eq(e, a);
	export_put(e);
	b = open_null("b");
	ck_assert_ptr_null(export_find(&server, "", 0));
	ck_assert_ptr_null(export_find(&server, "bb", 2));
	e = export_find(&server, "bb", 1);
	ck_assert_ptr_eq(e, b);
	export_put(e);
	free(server.params.default_export);
	server.params.default_export = strdup("b");
	e = export_find(&server, "", 0);
	ck_assert_ptr_eq(e, b);
	export_put(e);
	ck_assert_ptr_eq(export_next(&server, &cursor), a);
	ck_assert_ptr_eq(export_next(&server, &cursor), b);
	ck_assert_ptr_null(export_next(&server, &cursor));
	export_put(a);
	export_put(b);
}
END_TEST

/* ---- disks ---- */

START_TEST(disks_are_shared_by_group)
{
	struct export *a, *b, *c, *d;

	ck_assert_int_eq(try_open("a", SET({ "device_group", "g" }), &a), 0);
	ck_assert_int_eq(try_open("b", SET({ "device_group", "g" }, { "queue_depth", "3" }), &b),
			 0);
	ck_assert_int_eq(try_open("c", SET({ "device_group", "h" }), &c), 0);
	d = open_null("d");
	ck_assert_ptr_eq(a->disk, b->disk);
	ck_assert_ptr_ne(a->disk, c->disk);
	ck_assert_ptr_ne(c->disk, d->disk);
	ck_assert_uint_ne(a->disk->index, c->disk->index);
	ck_assert_uint_eq(a->disk->elv.depth, a->elv.depth);
	ck_assert_uint_eq(b->elv.depth, 3);
}
END_TEST

START_TEST(exports_of_a_disk_must_agree)
{
	struct export *e;

	ck_assert_int_eq(try_open("a", SET({ "device_group", "g" }, { "rotational", "1" }), &e), 0);
	ck_assert_int_eq(try_open("b", SET({ "device_group", "g" }, { "rotational", "0" }), &e),
			 -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "'a'"));
	ck_assert_ptr_nonnull(strstr(err, "'b'"));
	ck_assert_ptr_nonnull(strstr(err, "rotational"));
	ck_assert_int_eq(try_open("b", SET({ "device_group", "h" }, { "rotational", "0" }), &e), 0);
}
END_TEST

START_TEST(one_image_is_one_store)
{
	char path[] = "/tmp/lift-export-XXXXXX";
	struct export_settings st;
	struct export *a, *b;
	int fd = mkstemp(path);

	ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
	close(fd);
	ck_assert_int_eq(export_settings_init(&st), 0);
	ck_assert_int_eq(export_settings_set(&st, SET({ "path", path }, { "name", "a" }), &why), 0);
	ck_assert_msg(!export_open(&server, &st, &a, err, sizeof(err)), "%s", err);
	free(st.export.name);
	st.export.name = strdup("b");
	ck_assert_msg(!export_open(&server, &st, &b, err, sizeof(err)), "%s", err);
	ck_assert_ptr_eq(a->store, b->store);
	ck_assert_ptr_eq(a->disk, b->disk);
	/* The third wants to be somewhere else with the same image. */
	free(st.export.name);
	st.export.name = strdup("c");
	st.export.device_group = strdup("g");
	ck_assert_int_eq(export_open(&server, &st, &b, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "device_group"));
	export_settings_free(&st);
	unlink(path);
}
END_TEST

/* ---- identities ---- */

START_TEST(ids)
{
	static const struct client_peer tcp = { .kind = PEER_TCP, .address = "10.0.0.7",
						.serial = 12 };
	static const struct client_peer local = { .kind = PEER_UNIX, .has_uid = true, .uid = 1000,
						  .pid = 4711, .serial = 13 };
	static const struct client_peer far = { .kind = PEER_UNIX, .has_uid = true, .uid = 1000 };
	static const struct {
		const struct client_peer *peer;
		enum client_key key;
		const char *id;
	} rows[] = {
		{ &tcp, CLIENT_KEY_AUTO, "ip:10.0.0.7" },
		{ &tcp, CLIENT_KEY_ADDRESS, "ip:10.0.0.7" },
		{ &tcp, CLIENT_KEY_PROCESS, "ip:10.0.0.7" },
		{ &tcp, CLIENT_KEY_UID, "ip:10.0.0.7" },
		{ &tcp, CLIENT_KEY_CONNECTION, "conn:12" },
		{ &tcp, CLIENT_KEY_EXPORT, "export:x" },
		{ &local, CLIENT_KEY_AUTO, "pid:4711" },
		{ &local, CLIENT_KEY_PROCESS, "pid:4711" },
		{ &local, CLIENT_KEY_UID, "uid:1000" },
		{ &local, CLIENT_KEY_ADDRESS, "pid:4711" },
		{ &local, CLIENT_KEY_CONNECTION, "conn:13" },
		{ &local, CLIENT_KEY_EXPORT, "export:x" },
		{ &far, CLIENT_KEY_AUTO, "uid:1000" },
		{ &far, CLIENT_KEY_PROCESS, "uid:1000" },
	};
	char id[CLIENT_ID_MAX + 1], longest[4097];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		client_id(rows[i].peer, rows[i].key, "x", id);
		ck_assert_str_eq(id, rows[i].id);
	}
	memset(longest, 'n', 4096);
	longest[4096] = '\0';
	client_id(&tcp, CLIENT_KEY_EXPORT, longest, id);
	ck_assert_uint_eq(strlen(id), CLIENT_ID_MAX);
}
END_TEST

static struct client *client(struct export *e, const char *id)
{
	struct client *c;

	ck_assert_int_eq(client_get(e, id, &c), 0);
	return c;
}

START_TEST(an_account_outlives_its_connections)
{
	struct export *a = open_null("a"), *b = open_null("b");
	struct client *one = client(a, "ip:10.0.0.1"), *two = client(a, "ip:10.0.0.2"), *other;

	ck_assert_ptr_ne(one, two);
	ck_assert_ptr_eq(client(a, "ip:10.0.0.1"), one);
	/* At another export it is another account of the same identity. */
	other = client(b, "ip:10.0.0.1");
	ck_assert_ptr_ne(other, one);
	ck_assert_ptr_eq(other->identity, one->identity);
	ck_assert_uint_ne(one->elv.identity, two->elv.identity);
	one->elv.stats.answered = 42;
	client_put(one);
	client_put(one);
	client_put(two);
	client_put(other);
	ck_assert_ptr_eq(client(a, "ip:10.0.0.1"), one);
	ck_assert_uint_eq(one->elv.stats.answered, 42);
	client_put(one);
}
END_TEST

START_TEST(the_table_is_bounded)
{
	struct export *e = open_null("a");
	struct client *held = client(e, "uid:0"), *owed = client(e, "uid:1"), *c;
	uint64_t number = held->elv.identity;
	char id[32];

	owed->elv.owed_error = -EIO;
	client_put(owed);
	for (unsigned i = 2; i < 2 * CLIENT_MAX; i++) {
		snprintf(id, sizeof(id), "uid:%u", i);
		client_put(client(e, id));
	}
	ck_assert_uint_eq(e->clients.n, CLIENT_MAX);
	ck_assert_uint_eq(e->clients.evicted, CLIENT_MAX);
	/* The one that is here stays, and so does the one that is owed an error. */
	c = client(e, "uid:0");
	ck_assert_ptr_eq(c, held);
	ck_assert_uint_eq(c->elv.identity, number);
	c = client(e, "uid:1");
	ck_assert_ptr_eq(c, owed);
	ck_assert_int_eq(c->elv.owed_error, -EIO);
	client_put(c);
	client_put(held);
	client_put(held);
	/* Connections are served even if no account can go. */
	for (unsigned i = 0; i < CLIENT_MAX + 10; i++) {
		snprintf(id, sizeof(id), "conn:%u", i);
		client(e, id);
	}
	ck_assert_uint_eq(e->clients.n, CLIENT_MAX + 10);
	for (unsigned i = 0; i < CLIENT_MAX + 10; i++) {
		snprintf(id, sizeof(id), "conn:%u", i);
		c = client(e, id);
		client_put(c);
		client_put(c);
	}
}
END_TEST

START_TEST(rates_are_of_the_last_seconds)
{
	struct export *e = open_null("a");
	struct client *c = client(e, "uid:1");
	uint64_t iops, bytes, now = c->sample[1].at + 2000000000;

	c->elv.stats.answered = 1000;
	c->elv.stats.bytes[ELV_DIR_WRITE] = 4096000;
	client_rates(c, now, &iops, &bytes);
	ck_assert_uint_eq(iops, 500);
	ck_assert_uint_eq(bytes, 2048000);
	client_put(c);
	client_rates(c, now, &iops, &bytes);
	ck_assert_uint_eq(iops, 0);
}
END_TEST

/* ---- rules ---- */

static void rule(const char *match, const char *name, const char *value)
{
	int res = server_add_rule(&server, match, SET({ name, value }), &why);

	ck_assert_msg(!res, "%s: %s", match, why.text);
}

static uint64_t weight(const char *id)
{
	struct elv_client_params p;

	rules_params(&server.rules, id, NULL, &p);
	return p.weight;
}

START_TEST(the_longest_match_wins)
{
	rule("*", "weight", "1");
	rule("ip:*", "weight", "2");
	rule("ip:10.*", "weight", "3");
	rule("ip:10.0.0.0/8", "weight", "4");
	rule("ip:10.1.0.0/16", "weight", "5");
	rule("ip:10.1.2.3", "weight", "6");
	rule("ip:fd00::/64", "weight", "7");
	rule("ip:FD00:0:0:0::7", "weight", "8");
	rule("uid:100", "weight", "9");
	rule("ip:10.1.0.0/16", "class", "idle");
	ck_assert_uint_eq(weight("pid:5"), 1);
	ck_assert_uint_eq(weight("ip:192.168.0.1"), 2);
	ck_assert_uint_eq(weight("ip:10.200.0.1"), 4);
	ck_assert_uint_eq(weight("ip:10.1.0.1"), 5);
	ck_assert_uint_eq(weight("ip:10.1.2.3"), 6);
	ck_assert_uint_eq(weight("ip:fd00::1"), 7);
	ck_assert_uint_eq(weight("ip:fd00::7"), 8);
	ck_assert_uint_eq(weight("ip:fd01::1"), 2);
	ck_assert_uint_eq(weight("uid:100"), 9);
	ck_assert_uint_eq(weight("uid:1000"), 1);
	/* The later one of two that are the same. */
	rule("ip:10.1.2.3", "weight", "60");
	ck_assert_uint_eq(weight("ip:10.1.2.3"), 60);
}
END_TEST

START_TEST(each_setting_has_its_own_best_rule)
{
	struct elv_client_params p;

	rule("ip:10.0.0.0/8", "class", "rt");
	rule("ip:10.0.0.7", "weight", "300");
	rules_params(&server.rules, "ip:10.0.0.7", NULL, &p);
	ck_assert_uint_eq(p.weight, 300);
	ck_assert_uint_eq(p.io_class, ELV_CLASS_RT);
	rules_params(&server.rules, "ip:11.0.0.7", NULL, &p);
	ck_assert_uint_eq(p.weight, 100);
	ck_assert_uint_eq(p.io_class, ELV_CLASS_BE);
}
END_TEST

START_TEST(wrong_matches_are_refused)
{
	static const char *const bad[] = {
		"", "ip:", "ip:10.0.0", "ip:10.0.0.0.1", "ip:10.0.0.0/33", "ip:10.0.0.0/",
		"ip:10.0.0.0/8x", "ip:10.0.0.1/8", "ip:fd00::/129", "ip:fd00::1/64", "ip:/8",
		"10.0.0.1", "user:x", "uid:", "ip:10.0.0.0/-1", "ip:10.0.0.0/ 8",
		"ip:10.0.0.0/0008",
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(server_add_rule(&server, bad[i], SET({ "weight", "5" }), &why) ==
			      -EINVAL, "'%s' is taken", bad[i]);
		ck_assert_ptr_nonnull(strstr(why.text, bad[i]));
	}
	ck_assert_int_eq(server_add_rule(&server, "uid:5", SET({ "weight", "0" }), &why), -ERANGE);
	ck_assert_int_eq(server_add_rule(&server, "uid:5", SET({ "wait", "5" }), &why), -ENOENT);
	ck_assert_int_eq(server_add_rule(&server, "uid:5", SET({ "class", "best" }), &why),
			 -EINVAL);
	ck_assert_int_eq(server_add_rule(&server, "ip:0.0.0.0/0", SET({ "weight", "5" }), &why), 0);
	ck_assert_uint_eq(weight("ip:1.2.3.4"), 5);
	ck_assert_uint_eq(weight("ip:::1"), 100);
}
END_TEST

/* All rules at once: those of before are gone, also what was set for single clients. */
START_TEST(rules_are_replaced)
{
	struct rules rules = TAILQ_HEAD_INITIALIZER(rules);
	struct export *a = open_null("a");
	struct client *c;
	unsigned n;

	rule("uid:*", "weight", "200");
	c = client(a, "uid:7");
	ck_assert_int_eq(client_set(&server, a, "uid:7", SET({ "weight", "500" }), &n, &why), 0);
	ck_assert_uint_eq(c->elv.params.weight, 500);
	ck_assert_int_eq(rules_add(&rules, "uid:7", NULL, SET({ "class", "idle" }), &why), 0);
	server_swap_rules(&server, &rules);
	ck_assert_uint_eq(c->elv.params.weight, 100);
	ck_assert_uint_eq(c->elv.params.io_class, ELV_CLASS_IDLE);
	server_swap_rules(&server, &rules);
	ck_assert_uint_eq(c->elv.params.weight, 500);
	ck_assert_uint_eq(c->elv.params.io_class, ELV_CLASS_BE);
	rules_free(&rules);
	client_put(c);
}
END_TEST

/* Opened while the server runs: nobody sees it before it is published. */
START_TEST(hidden_exports)
{
	struct export *a = open_null("a"), *hidden, *e;
	struct export_settings st;
	uint64_t cursor = 0;

	ck_assert_int_eq(export_settings_init(&st), 0);
	ck_assert_int_eq(export_settings_set(&st, (struct setting[]){ { "name", "b" },
			 { "path", "null:" }, { "size", "1M" } }, 3, &why), 0);
	ck_assert_int_eq(export_open_hidden(&server, &st, &hidden, err, sizeof(err)), 0);
	ck_assert_ptr_null(export_find(&server, "b", 1));
	e = export_find(&server, "", 0);
	ck_assert_ptr_eq(e, a);
	export_put(e);
	export_discard(hidden);
	ck_assert_int_eq(export_open_hidden(&server, &st, &hidden, err, sizeof(err)), 0);
	ck_assert_int_eq(export_open_hidden(&server, &st, &e, err, sizeof(err)), -EEXIST);
	while ((e = export_next(&server, &cursor))) {
		ck_assert_ptr_eq(e, a);
		export_put(e);
	}
	export_publish(hidden);
	e = export_find(&server, "b", 1);
	ck_assert_ptr_eq(e, hidden);
	export_put(e);
	ck_assert_ptr_null(export_find(&server, "", 0));
	export_settings_free(&st);
}
END_TEST

/* Trying says what setting would, and sets nothing. */
static unsigned unused;

static void count_unused(void *ctx)
{
	ck_assert_ptr_eq(ctx, &server);
	unused++;
}

static struct export *ordered;

static int take_order(void *ctx, struct export *e)
{
	ck_assert_ptr_eq(ctx, &server);
	ordered = e;
	return export_let_go(e, 1) ? 0 : -EALREADY;
}

/* Nobody finds it, but who has it keeps it; then its name and all that was its alone are free. */
START_TEST(an_export_goes)
{
	struct export *a = open_null("a"), *b = open_null("b"), *e;
	uint64_t cursor = 0, serial = 0;
	struct disk *disk = a->disk;
	struct client *c;

	ck_assert_int_eq(export_remove(&server, "a", &serial), -ENOTSUP);
	server.remove = take_order;
	server.unused = count_unused;
	server.stop_ctx = &server;
	ck_assert_int_eq(export_remove(&server, "", &serial), -ENOENT);
	c = client(a, "uid:7");
	ck_assert_int_eq(client_set(&server, a, "uid:7", SET({ "weight", "5" }), NULL, &why), 0);
	e = export_find(&server, "a", 1);
	ck_assert_int_eq(export_remove(&server, "a", &serial), 0);
	ck_assert_ptr_eq(ordered, a);
	ck_assert_uint_eq(serial, a->serial);

	ck_assert_ptr_null(export_find(&server, "a", 1));
	ck_assert(export_leaves(&server, "a", 1));
	ck_assert(!export_leaves(&server, "b", 1));
	ck_assert_int_eq(export_remove(&server, "a", &serial), 0); /* is under way */
	ck_assert(!export_let_go(a, 1));
	ck_assert_ptr_eq(export_next(&server, &cursor), b);
	export_put(b);
	ck_assert_ptr_null(export_next(&server, &cursor));
	ck_assert_ptr_eq(export_find(&server, "", 0), b); /* the only one now */
	export_put(b);
	ck_assert_int_eq(try_open("a", NULL, 0, &e), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err, "still being removed"));

	client_put(c);
	export_put(a);
	ck_assert(!export_is_unused(a));
	ck_assert_uint_eq(unused, 0);
	export_put(a);
	ck_assert_uint_eq(unused, 1);
	ck_assert(export_is_unused(a));
	export_close_unused(a);
	ck_assert(!export_leaves(&server, "a", 1));
	ck_assert_int_eq(export_remove(&server, "a", &serial), -ENOENT);

	a = open_null("a");
	ck_assert_ptr_eq(a->disk, disk); /* the same place for the loops */
	ck_assert_uint_eq(disk->exports, 1);
	c = client(a, "uid:7");
	ck_assert_uint_eq(c->elv.params.weight, 100);
	client_put(c);
	ck_assert_uint_eq(unused, 1);
}
END_TEST

/* Of two exports of an image the one that opened it goes. */
START_TEST(an_image_stays_for_the_other)
{
	char path[] = "/tmp/lift-export-XXXXXX";
	struct export_settings st;
	struct export *a, *b, *c;
	struct store *store;
	int fd = mkstemp(path);

	ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
	close(fd);
	ck_assert_int_eq(export_settings_init(&st), 0);
	ck_assert_int_eq(export_settings_set(&st, SET({ "path", path }, { "name", "a" }), &why), 0);
	ck_assert_int_eq(export_open(&server, &st, &a, err, sizeof(err)), 0);
	ck_assert_int_eq(export_settings_set(&st, SET({ "name", "b" }), &why), 0);
	ck_assert_int_eq(export_open(&server, &st, &b, err, sizeof(err)), 0);
	store = a->store;
	ck_assert_ptr_eq(b->store, store);
	ck_assert(export_let_go(a, 0));
	export_close_unused(a);
	ck_assert_uint_eq(store->users, 1);
	ck_assert_uint_eq(b->disk->exports, 1);
	ck_assert_int_eq(export_settings_set(&st, SET({ "name", "c" }, { "lock", "off" }), &why), 0);
	ck_assert_int_eq(export_open(&server, &st, &c, err, sizeof(err)), -EINVAL);
	ck_assert_msg(strstr(err, "'c' and 'b'"), "%s", err);
	ck_assert(export_let_go(b, 0));
	export_close_unused(b);
	/* Nobody has it: it may be opened in another way. */
	ck_assert_msg(!export_open(&server, &st, &c, err, sizeof(err)), "%s", err);
	export_settings_free(&st);
	unlink(path);
}
END_TEST

START_TEST(trying_settings)
{
	struct export *a = open_null("a");
	char text[32];

	ck_assert_int_eq(export_try(a, SET({ "nr_requests", "0" }), &why), -ERANGE);
	ck_assert_int_eq(export_try(a, SET({ "cache", "none" }), &why), -EPERM);
	ck_assert_int_eq(export_try(a, SET({ "scheduler", "noop" }), &why), 0);
	ck_assert_int_eq(export_get(a, "scheduler", text, sizeof(text), NULL, 0), 0);
	ck_assert_str_eq(text, "cfq");
}
END_TEST

/* While it runs: numbers and strings whose rows say so, and no others. */
START_TEST(server_settings_at_run_time)
{
	struct server_params p;

	ck_assert_int_eq(tunable_defaults(server_rows, &p), 0);
	p.threads = 7;
	p.stall_timeout = 5000000000;
	p.default_export = strdup("b");
	server_set_params(&server, &p);
	ck_assert_uint_eq(server_param(&server.params.stall_timeout), 5000000000);
	ck_assert_uint_ne(server.params.threads, 7);
	ck_assert_str_eq(server.params.default_export, "b");
	ck_assert_ptr_null(p.default_export);
	tunable_free(server_rows, &p);
}
END_TEST

START_TEST(accounts_follow_the_rules)
{
	struct export *a = open_null("a"), *b = open_null("b");
	struct client *at_a, *at_b;
	unsigned n;

	rule("uid:*", "weight", "200");
	at_a = client(a, "uid:7");
	ck_assert_uint_eq(at_a->elv.params.weight, 200);
	rule("uid:7", "weight", "300");
	ck_assert_uint_eq(at_a->elv.params.weight, 300);
	at_b = client(b, "uid:7");
	ck_assert_uint_eq(at_b->elv.params.weight, 300);

	/* At one export only; then everywhere, which the earlier change does not outlive. */
	ck_assert_int_eq(client_set(&server, b, "uid:7", SET({ "weight", "5" }), &n, &why), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(at_a->elv.params.weight, 300);
	ck_assert_uint_eq(at_b->elv.params.weight, 5);
	ck_assert_int_eq(client_set(&server, NULL, "uid:7", SET({ "weight", "6" }), &n, &why), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(at_a->elv.params.weight, 6);
	ck_assert_uint_eq(at_b->elv.params.weight, 6);

	ck_assert_int_eq(client_set(&server, NULL, "uid:8", SET({ "weight", "6" }), &n, &why),
			 -ESRCH);
	ck_assert_int_eq(client_set(&server, NULL, "uid:7",
				    SET({ "weight", "6" }, { "class", "no" }), &n, &why), -EINVAL);
	ck_assert_int_eq(client_set(&server, NULL, "uid:7",
				    SET({ "weight", "9" }, { "weight", "8" }), &n, &why), -EEXIST);
	ck_assert_uint_eq(at_a->elv.params.weight, 6);
	client_put(at_a);
	client_put(at_b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("export");
	TCase *tc = tcase_create("export");

	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, tables_are_well_formed);
	tcase_add_test(tc, no_name_is_in_two_tables);
	tcase_add_test(tc, set_takes_effect_and_get_shows_it);
	tcase_add_test(tc, all_or_none);
	tcase_add_test(tc, the_scheduler_is_settled_first);
	tcase_add_test(tc, wrong_settings_are_named);
	tcase_add_test(tc, settings_at_the_start);
	tcase_add_test(tc, every_tunable_is_listed_once);
	tcase_add_test(tc, one_export_is_the_default);
	tcase_add_test(tc, disks_are_shared_by_group);
	tcase_add_test(tc, exports_of_a_disk_must_agree);
	tcase_add_test(tc, one_image_is_one_store);
	tcase_add_test(tc, ids);
	tcase_add_test(tc, an_account_outlives_its_connections);
	tcase_add_test(tc, the_table_is_bounded);
	tcase_add_test(tc, rates_are_of_the_last_seconds);
	tcase_add_test(tc, the_longest_match_wins);
	tcase_add_test(tc, each_setting_has_its_own_best_rule);
	tcase_add_test(tc, wrong_matches_are_refused);
	tcase_add_test(tc, rules_are_replaced);
	tcase_add_test(tc, hidden_exports);
	tcase_add_test(tc, an_export_goes);
	tcase_add_test(tc, an_image_stays_for_the_other);
	tcase_add_test(tc, trying_settings);
	tcase_add_test(tc, server_settings_at_run_time);
	tcase_add_test(tc, accounts_follow_the_rules);
	return run_suite(suite);
}
