/*
 * The methods of the control protocol on exports of null stores: results, changes, permissions.
 */
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/control/commands.h"
#include "tests/unit/control_calls.h"
#include "tests/unit/suite.h"

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static long long number(const json_t *object, const char *key)
{
	ck_assert_msg(json_is_integer(json_object_get(object, key)), "%s is no number", key);
	return json_integer_value(json_object_get(object, key));
}

static void has_keys(const json_t *object, const char *const *keys)
{
	size_t n = 0;

	for (; keys[n]; n++)
		ck_assert_msg(json_object_get(object, keys[n]), "no %s", keys[n]);
	ck_assert_uint_eq(json_object_size(object), n);
}

#define KEYS(...) ((const char *const []){ __VA_ARGS__, NULL })

/* ---- the methods ---- */

START_TEST(test_server_info)
{
	json_t *r = result_of("server.info", ""), *noop = json_string("noop");

	has_keys(r, KEYS("version", "pid", "uptime_s", "threads", "policies"));
	ck_assert_str_eq(text(r, "version"), LIFTD_VERSION);
	ck_assert_int_eq(number(r, "pid"), getpid());
	ck_assert(json_equal(json_array_get(json_object_get(r, "policies"), 0), noop));
	json_decref(noop);
	json_decref(r);
	json_decref(result_of("server.info", "{}"));
}
END_TEST

START_TEST(test_export_list)
{
	json_t *r = result_of("export.list", ""), *e = json_array_get(r, 0);

	ck_assert_uint_eq(json_array_size(r), 2);
	has_keys(e, KEYS("name", "size", "readonly", "scheduler", "schedulers", "clients",
			 "connections", "queued", "in_flight", "oldest_ms", "flush_errors"));
	ck_assert_str_eq(text(e, "name"), "disk");
	ck_assert_int_eq(number(e, "size"), 64 << 20);
	ck_assert(json_is_false(json_object_get(e, "readonly")));
	ck_assert_str_eq(text(e, "scheduler"), "deadline");
	ck_assert_uint_ge(json_array_size(json_object_get(e, "schedulers")), 3);
	e = json_array_get(r, 1);
	ck_assert_str_eq(text(e, "name"), "b\xc3\xa4r");
	json_decref(r);
}
END_TEST

START_TEST(test_export_get)
{
	json_t *r = result_of("export.get", "{'name':'disk'}"), *all, *t;

	has_keys(r, KEYS("scheduler", "tunables"));
	ck_assert_str_eq(text(r, "scheduler"), "deadline");
	all = json_object_get(r, "tunables");

	/* The policy's own by its bare name, others with theirs in front. */
	t = json_object_get(all, "read_expire");
	has_keys(t, KEYS("value", "default", "unit", "min", "max", "runtime"));
	ck_assert_int_eq(number(t, "value"), 500);
	ck_assert_int_eq(number(t, "default"), 500);
	ck_assert_str_eq(text(t, "unit"), "ms");
	ck_assert(json_is_true(json_object_get(t, "runtime")));
	ck_assert_ptr_null(json_object_get(all, "deadline.read_expire"));
	ck_assert_ptr_nonnull(json_object_get(all, "cfq.quantum"));
	ck_assert_ptr_null(json_object_get(all, "quantum"));

	/* auto is a number, its default is the word; choices are words without a range. */
	t = json_object_get(all, "queue_depth");
	ck_assert_int_gt(number(t, "value"), 0);
	ck_assert_str_eq(text(t, "default"), "auto");
	t = json_object_get(all, "rotational");
	ck_assert(json_is_integer(json_object_get(t, "value")));
	ck_assert_int_eq(number(t, "max"), 1);
	t = json_object_get(all, "cache");
	ck_assert_str_eq(text(t, "value"), "writeback");
	ck_assert(json_is_null(json_object_get(t, "min")));
	ck_assert(json_is_false(json_object_get(t, "runtime")));
	t = json_object_get(all, "max_sectors_kb");
	ck_assert_int_eq(number(t, "value"), 1280);
	json_decref(r);

	/* With help. */
	r = result_of("export.get", "{'name':'disk','help':true}");
	t = json_object_get(json_object_get(r, "tunables"), "read_expire");
	ck_assert_ptr_nonnull(json_object_get(t, "help"));
	ck_assert_ptr_nonnull(json_object_get(t, "allowed"));
	ck_assert_ptr_nonnull(json_object_get(r, "schedulers"));
	json_decref(r);
}
END_TEST

START_TEST(test_export_set)
{
	json_t *r = result_of("export.set",
			      "{'name':'disk','set':{'read_expire':'1s','fifo_batch':8,"
			      "'front_merges':false,'cfq.quantum':5}}"), *t;

	/* The result is export.get's. */
	has_keys(r, KEYS("scheduler", "tunables"));
	t = json_object_get(json_object_get(r, "tunables"), "read_expire");
	ck_assert_int_eq(number(t, "value"), 1000);
	json_decref(r);
	ck_assert_int_eq(value("disk", "read_expire"), 1000);
	ck_assert_int_eq(value("disk", "fifo_batch"), 8);
	ck_assert_int_eq(value("disk", "front_merges"), 0);
	ck_assert_int_eq(value("disk", "cfq.quantum"), 5);

	/* The other export has its own. */
	ck_assert_int_eq(value("b\xc3\xa4r", "deadline.read_expire"), 500);

	/* A bare name is the new scheduler's, wherever that stands. Values survive switches. */
	json_decref(result_of("export.set", "{'name':'disk','set':{'quantum':6,"
			      "'scheduler':'cfq'}}"));
	ck_assert_int_eq(value("disk", "quantum"), 6);
	ck_assert_int_eq(value("disk", "deadline.read_expire"), 1000);

	json_decref(result_of("export.set", "{'name':'disk','set':{'queue_depth':5}}"));
	ck_assert_int_eq(value("disk", "queue_depth"), 5);
	json_decref(result_of("export.set", "{'name':'disk','set':{'queue_depth':'auto'}}"));
	ck_assert_int_ne(value("disk", "queue_depth"), 5);
}
END_TEST

/* One bad setting: nothing changes, and the error says which, what it was and what is allowed. */
static void refuses_set(const char *set, const char *name, const char *shown, const char *allowed)
{
	json_t *before = result_of("export.get", "{'name':'disk'}"), *after, *answer, *data;
	char line[512], *got;

	snprintf(line, sizeof(line), "{'jsonrpc':'2.0','id':1,'method':'export.set',"
		 "'params':{'name':'disk','set':%s}}", set);
	answer = refused(&root, line, strlen(line), -32602, name);
	data = json_object_get(json_object_get(answer, "error"), "data");
	has_keys(data, KEYS("name", "value", "allowed"));
	ck_assert_str_eq(text(data, "name"), name);
	got = json_dumps(json_object_get(data, "value"), JSON_ENCODE_ANY | JSON_COMPACT);
	ck_assert_str_eq(got, shown);
	free(got);
	ck_assert_msg(strstr(text(data, "allowed"), allowed), "%s: %s", set,
		      text(data, "allowed"));
	after = result_of("export.get", "{'name':'disk'}");
	ck_assert(json_equal(before, after));
	json_decref(before);
	json_decref(after);
	json_decref(answer);
}

START_TEST(test_set_is_all_or_none)
{
	refuses_set("{'read_expire':7,'fifo_batch':-1}", "fifo_batch", "-1", "0..");
	refuses_set("{'scheduler':'noop','nr_requests':'many'}", "nr_requests", "\"many\"", "..");
	refuses_set("{'read_expire':7,'scheduler':'bfqq'}", "scheduler", "\"bfqq\"", "deadline");
	refuses_set("{'read_expire':7,'scheduler':2}", "scheduler", "2", "noop");
	refuses_set("{'fifo_batch':7,'read_expire':'500 ms'}", "read_expire", "\"500 ms\"", "ms");
	refuses_set("{'fifo_batch':7,'read_expire':'5K'}", "read_expire", "\"5K\"", "ms");
	refuses_set("{'fifo_batch':7,'read_expire':9999999999}", "read_expire", "9999999999", "ms");
	refuses_set("{'fifo_batch':7,'cache':'none'}", "cache", "\"none\"", "none");
	/* Types: a number has no fraction, a yes is no number. */
	refuses_set("{'fifo_batch':7,'read_expire':500.0}", "read_expire", "500.0", "whole");
	refuses_set("{'fifo_batch':7,'read_expire':true}", "read_expire", "true", "ms");
	refuses_set("{'fifo_batch':7,'read_expire':null}", "read_expire", "null", "whole");
	refuses_set("{'fifo_batch':7,'read_expire':[1]}", "read_expire", "\"an array\"", "whole");
	refuses_set("{'fifo_batch':7,'read_expire':{}}", "read_expire", "\"an object\"", "whole");
	/* Names: unknown, another scheduler's, of no scheduler. */
	refuses_set("{'fifo_batch':7,'read_expir':1}", "read_expir", "1", "");
	refuses_set("{'fifo_batch':7,'quantum':1}", "quantum", "1", "");
	refuses_set("{'fifo_batch':7,'bfq.quantum':1}", "bfq.quantum", "1", "");
	refuses_set("{'fifo_batch':7,'':1}", "", "1", "");
}
END_TEST

START_TEST(test_clients)
{
	json_t *r = result_of("client.list", ""), *c;
	struct client *client[2];
	struct export *e = export_find(&server, "disk", 4);
	struct elv_conn conn = { 0 };
	struct elv_requests done;
	uint64_t now;

	ck_assert_uint_eq(json_array_size(r), 0);
	json_decref(r);
	refuses("{'jsonrpc':'2.0','id':1,'method':'client.set','params':{'id':'ip:10.0.0.7',"
		"'set':{'weight':5}}}", -32002, "ip:10.0.0.7");

	ck_assert_int_eq(client_get(e, "ip:10.0.0.7", &client[0]), 0);
	ck_assert_int_eq(client_get(e, "pid:4711", &client[1]), 0);
	disk_lock(e->disk);
	elv_conn_open(&conn, &client[0]->elv);
	disk_unlock(e->disk);

	r = result_of("client.list", "{'export':'disk'}");
	ck_assert_uint_eq(json_array_size(r), 2);
	c = json_array_get(r, 0);
	has_keys(c, KEYS("id", "export", "connections", "writer", "weight", "class", "queued", "in_flight",
			 "iops", "bytes_per_s", "p50_us", "p99_us", "requests", "bytes",
			 "service_ns", "dispatched", "queue_sum_us", "service_sum_us"));
	ck_assert_str_eq(text(c, "export"), "disk");
	ck_assert_str_eq(text(c, "class"), "be");
	ck_assert_int_eq(number(c, "weight"), 100);
	json_decref(r);
	r = result_of("client.list", "{'export':'b\xc3\xa4r'}");
	ck_assert_uint_eq(json_array_size(r), 0);
	json_decref(r);

	/* Setting answers with that client's rows alone. */
	r = result_of("client.set", "{'id':'ip:10.0.0.7','set':{'weight':300,'class':'rt'}}");
	ck_assert_uint_eq(json_array_size(r), 1);
	c = json_array_get(r, 0);
	ck_assert_str_eq(text(c, "id"), "ip:10.0.0.7");
	ck_assert_int_eq(number(c, "connections"), 1);
	ck_assert_int_eq(number(c, "weight"), 300);
	ck_assert_str_eq(text(c, "class"), "rt");
	json_decref(r);

	/* All or none. */
	refuses("{'jsonrpc':'2.0','id':1,'method':'client.set','params':{'id':'ip:10.0.0.7',"
		"'set':{'weight':5,'class':'best'}}}", -32602, "class");
	refuses("{'jsonrpc':'2.0','id':1,'method':'client.set','params':{'id':'ip:10.0.0.7',"
		"'set':{'weight':5,'wieght':7}}}", -32602, "wieght");
	r = result_of("client.list", "");
	for (size_t i = 0; i < 2; i++)
		if (!strcmp(text(json_array_get(r, i), "id"), "ip:10.0.0.7"))
			ck_assert_int_eq(number(json_array_get(r, i), "weight"), 300);
	json_decref(r);
	refuses("{'jsonrpc':'2.0','id':1,'method':'client.set','params':{'id':'ip:10.0.0.7',"
		"'export':'b\xc3\xa4r','set':{'weight':5}}}", -32002, "at this export");

	TAILQ_INIT(&done);
	now = disk_lock(e->disk);
	elv_conn_close(&conn, true, now, &done);
	disk_unlock(e->disk);
	client_put(client[0]);
	client_put(client[1]);
	export_put(e);

	/* Gone, but not forgotten: no more in the list, and settings still reach the account. */
	r = result_of("client.list", "");
	ck_assert_uint_eq(json_array_size(r), 0);
	json_decref(r);
	r = result_of("client.set", "{'id':'pid:4711','export':'disk','set':{'weight':9}}");
	ck_assert_uint_eq(json_array_size(r), 1);
	ck_assert_int_eq(number(json_array_get(r, 0), "weight"), 9);
	json_decref(r);
}
END_TEST

/* The order that a call gave. */
static struct {
	unsigned orders;
	const struct export *export;
	char id[64];
	enum client_end how;
	int result;
} ended;

static int end_a_client(void *ctx, const struct export *e, const char *id, enum client_end how)
{
	ck_assert_ptr_eq(ctx, &ended);
	ended.orders++;
	ended.export = e;
	ended.how = how;
	snprintf(ended.id, sizeof(ended.id), "%s", id);
	return ended.result;
}

#define END(method, params) \
	"{'jsonrpc':'2.0','id':1,'method':'client." method "','params':" params "}"

START_TEST(test_end_client)
{
	struct export *e = export_find(&server, "disk", 4);
	struct client *client;
	json_t *r;

	ck_assert_int_eq(client_get(e, "uid:5", &client), 0);
	/* Inside another program: its connections are not the server's. */
	refuses(END("drain", "{'id':'uid:5'}"), -32601, "client.drain is not possible here");
	server.end_client = end_a_client;
	server.stop_ctx = &ended;

	r = result_of("client.disconnect", "{'id':'uid:5'}");
	ck_assert_uint_eq(json_array_size(r), 1);
	ck_assert_str_eq(text(json_array_get(r, 0), "id"), "uid:5");
	ck_assert_str_eq(text(json_array_get(r, 0), "export"), "disk");
	json_decref(r);
	ck_assert_uint_eq(ended.orders, 1);
	ck_assert_str_eq(ended.id, "uid:5");
	ck_assert_int_eq(ended.how, CLIENT_DISCONNECT);
	ck_assert_ptr_null(ended.export);
	json_decref(result_of("client.drain", "{'id':'uid:5','export':'disk'}"));
	ck_assert_uint_eq(ended.orders, 2);
	ck_assert_int_eq(ended.how, CLIENT_DRAIN);
	ck_assert_ptr_eq(ended.export, e);

	refuses(END("drain", "{'id':'uid:6'}"), -32002, "no client is known as 'uid:6'; the list");
	refuses(END("drain", "{'id':'uid:5','export':'b\xc3\xa4r'}"), -32002, "at this export");
	refuses(END("disconnect", "{'id':'uid:5','export':'dsk'}"), -32001, "mean 'disk'");
	refuses(END("disconnect", "{}"), -32602, "'id' of client.disconnect is missing");
	json_decref(refused(&member, END("drain", "{'id':'uid:5'}"),
			    strlen(END("drain", "{'id':'uid:5'}")), -32003, "permission denied"));
	ck_assert_uint_eq(ended.orders, 2);
	ended.result = -ENOMEM;
	refuses(END("disconnect", "{'id':'uid:5'}"), -32603, "out of memory");
	client_put(client);
	export_put(e);
}
END_TEST

/* A request that waits shows in the list of exports, with its age. */
START_TEST(test_queued)
{
	struct export *e = export_find(&server, "disk", 4);
	struct elv_request rq = { .op = ELV_READ, .length = 4096 };
	struct elv_conn conn = { 0 };
	struct elv_requests done;
	struct client *client;
	long long age;
	json_t *r;
	char data[4096];

	TAILQ_INIT(&done);
	ck_assert_int_eq(client_get(e, "uid:5", &client), 0);
	rq.conn = &conn;
	rq.data = data;
	disk_lock(e->disk);
	elv_conn_open(&conn, &client->elv);
	disk_unlock(e->disk);
	elv_insert(&rq, disk_lock(e->disk));
	disk_unlock(e->disk);
	do {
		r = result_of("export.list", "");
		ck_assert_int_eq(number(json_array_get(r, 0), "queued"), 1);
		age = number(json_array_get(r, 0), "oldest_ms");
		json_decref(r);
	} while (!age);
	ck_assert_int_lt(age, 10000);
	elv_conn_close(&conn, true, disk_lock(e->disk), &done);
	disk_unlock(e->disk);
	ck_assert_ptr_eq(TAILQ_FIRST(&done), &rq);
	client_put(client);
	export_put(e);
}
END_TEST

START_TEST(test_stats)
{
	json_t *r = result_of("stats.get", ""), *one, *h;

	for (const struct command_counter *c = command_counters; c->name; c++)
		ck_assert_msg(json_is_integer(json_object_get(r, c->name)), "no %s", c->name);
	ck_assert_int_eq(number(r, "requests_held"), 0);
	ck_assert_int_eq(number(r, "memory"), 256 << 20);
	ck_assert_uint_eq(json_object_size(json_object_get(r, "exports")), 2);
	one = json_object_get(json_object_get(r, "exports"), "b\xc3\xa4r");
	h = json_object_get(one, "histograms");
	has_keys(h, KEYS("queue", "service", "read_total", "write_total"));
	has_keys(json_object_get(h, "queue"), KEYS("count", "p50_us", "p90_us", "p99_us", "p999_us",
						   "max_us", "sum_us", "buckets"));
	json_decref(r);

	r = result_of("stats.get", "{'export':'disk'}");
	ck_assert_uint_eq(json_object_size(json_object_get(r, "exports")), 1);
	for (const struct command_counter *c = command_counters; c->name; c++)
		ck_assert(c->server || json_is_integer(json_object_get(r, c->name)));
	ck_assert_ptr_null(json_object_get(r, "memory"));
	json_decref(r);
}
END_TEST

/* Histograms and totals, with numbers put into the accounts of clients. */
START_TEST(test_stats_add_up)
{
	struct client *client[2];
	struct export *e[2];
	json_t *r, *h, *c, *pair;
	long long sum = 0;
	size_t i;

	e[0] = export_find(&server, "disk", 4);
	e[1] = export_find(&server, "b\xc3\xa4r", 4);
	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(client_get(e[i], "uid:5", &client[i]), 0);
		disk_lock(e[i]->disk);
		client[i]->elv.stats.requests[ELV_READ] = 3 + i;
		for (unsigned ms = 1; ms <= 100; ms++)
			histogram_add(&client[i]->elv.stats.queue, ms * 1000000ull);
		histogram_add(&client[i]->elv.stats.service, 7000);
		histogram_add(&client[i]->elv.stats.total[ELV_DIR_READ], 1000000);
		histogram_add(&client[i]->elv.stats.total[ELV_DIR_WRITE], 2000000);
		client[i]->elv.stats.answered = 5;
		client[i]->elv.stats.bytes[ELV_DIR_READ] = 4096;
		client[i]->elv.stats.bytes[ELV_DIR_WRITE] = 512;
		client[i]->elv.stats.service_ns = 99;
		disk_unlock(e[i]->disk);
	}
	r = result_of("stats.get", "");
	ck_assert_int_eq(number(r, "reads"), 7);
	h = json_object_get(json_object_get(r, "histograms"), "queue");
	ck_assert_int_eq(number(h, "count"), 200);
	ck_assert_int_ge(number(h, "p50_us"), 48000);
	ck_assert_int_le(number(h, "p50_us"), 52000);
	ck_assert_int_eq(number(h, "max_us"), 100000);
	/* The first is that of 1 ms, reported within 3.2 %. */
	pair = json_array_get(json_object_get(h, "buckets"), 0);
	ck_assert_int_ge(json_integer_value(json_array_get(pair, 0)), 968);
	ck_assert_int_le(json_integer_value(json_array_get(pair, 0)), 1000);
	json_array_foreach(json_object_get(h, "buckets"), i, pair) {
		ck_assert_uint_eq(json_array_size(pair), 2);
		ck_assert_int_gt(json_integer_value(json_array_get(pair, 1)), 0);
		sum += json_integer_value(json_array_get(pair, 1));
	}
	ck_assert_int_eq(sum, 200);
	json_decref(r);

	r = result_of("client.list", "{'export':'disk','histograms':true}");
	ck_assert_uint_eq(json_array_size(r), 1);
	c = json_array_get(r, 0);
	ck_assert_int_eq(number(c, "requests"), 5);
	ck_assert_int_eq(number(c, "bytes"), 4608);
	ck_assert_int_eq(number(c, "service_ns"), 99);
	ck_assert_int_eq(number(c, "dispatched"), 100);
	ck_assert_int_eq(number(c, "queue_sum_us"), 5050000);
	ck_assert_int_eq(number(c, "service_sum_us"), 7);
	h = json_object_get(c, "total");
	ck_assert_int_eq(number(h, "count"), 2);
	ck_assert_int_eq(number(h, "sum_us"), 3000);
	ck_assert_uint_eq(json_array_size(json_object_get(h, "buckets")), 2);
	json_decref(r);
	for (i = 0; i < 2; i++) {
		client_put(client[i]);
		export_put(e[i]);
	}
}
END_TEST

START_TEST(test_shutdown)
{
	static const char result[] = "\"result\":{}";
	static const char line[] = "{\"jsonrpc\":\"2.0\",\"method\":\"server.shutdown\",\"id\":1}";
	static const char quiet[] = "{\"jsonrpc\":\"2.0\",\"method\":\"server.shutdown\"}";
	struct control_reply reply;

	control_handle(&control, &owner, line, strlen(line), &reply);
	ck_assert(reply.stop);
	ck_assert_ptr_nonnull(memmem(reply.text, reply.len, result, strlen(result)));
	free(reply.text);
	control_handle(&control, &owner, quiet, strlen(quiet), &reply);
	ck_assert(reply.stop);
	ck_assert_ptr_null(reply.text);
	control_handle(&control, &member, line, strlen(line), &reply);
	ck_assert(!reply.stop);
	free(reply.text);
}
END_TEST

static struct {
	int result;
	char name[64];
} removed;

static int remove_an_export(void *ctx, struct export *e)
{
	(void)ctx;
	snprintf(removed.name, sizeof(removed.name), "%s", export_name(e));
	return removed.result;
}

#define REMOVE(params) "{'jsonrpc':'2.0','id':1,'method':'export.remove','params':" params "}"

/* A call of export.remove waits until the export has gone. */
START_TEST(test_remove)
{
	static const char line[] = "{\"jsonrpc\":\"2.0\",\"method\":\"export.remove\",\"id\":7,"
				   "\"params\":{\"name\":\"disk\"}}";
	struct export *e = export_find(&server, "disk", 4);
	struct control_reply reply, answer;

	/* Inside another program it is that one's. */
	refuses(REMOVE("{'name':'disk'}"), -32601, "export.remove is not possible here");
	server.remove = remove_an_export;
	refuses(REMOVE("{'name':'dsk'}"), -32001, "did you mean 'disk'");
	refuses(REMOVE("{'name':''}"), -32001, "no export is named ''");
	refuses(REMOVE("{}"), -32602, "'name' of export.remove is missing");
	json_decref(refused(&member, REMOVE("{'name':'disk'}"), strlen(REMOVE("{'name':'disk'}")),
			    -32003, "permission denied"));
	ck_assert_str_eq(removed.name, "");
	removed.result = -ESHUTDOWN;
	refuses(REMOVE("{'name':'disk'}"), -32006, "the server is stopping");
	removed.result = -ENOMEM;
	refuses(REMOVE("{'name':'disk'}"), -32603, "out of memory");
	removed.result = 0;

	control_handle(&control, &owner, line, strlen(line), &reply);
	ck_assert_str_eq(removed.name, "disk");
	ck_assert_ptr_null(reply.text);
	ck_assert_uint_eq(reply.removing, e->serial);
	control_removed(reply.later, NULL, &answer);
	ck_assert_int_eq(strncmp(answer.text, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n",
				 answer.len), 0);
	free(answer.text);
	control_handle(&control, &owner, line, strlen(line), &reply);
	control_removed(reply.later, "the flush failed", &answer);
	ck_assert_int_eq(strncmp(answer.text, "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32005,"
				 "\"message\":\"the flush failed\"}}\n", answer.len), 0);
	free(answer.text);
	export_put(e);
}
END_TEST

/* A call of server.reload waits, and is answered with the report. */
START_TEST(test_reload)
{
	static const char line[] = "{\"jsonrpc\":\"2.0\",\"method\":\"server.reload\",\"id\":"
				   "\"x\"}";
	static const char quiet[] = "{\"jsonrpc\":\"2.0\",\"method\":\"server.reload\"}";
	struct control_reply reply, answer;
	struct control_report report;

	refuses("{'jsonrpc':'2.0','id':1,'method':'server.reload'}", -32004, "started with images");
	control.can_reload = true;
	refuses("{'jsonrpc':'2.0','id':1,'method':'server.reload','params':{'a':1}}", -32602,
		"none");
	control_handle(&control, &member, line, strlen(line), &reply);
	ck_assert_ptr_null(reply.later);
	ck_assert_ptr_nonnull(memmem(reply.text, reply.len, "-32003", 6));
	free(reply.text);

	control_report_init(&report);
	control_report_add(&report, &report.changed, "log: %s", "info -> debug");
	control_report_add(&report, &report.restart, "b\xe4r");
	control_handle(&control, &owner, line, strlen(line), &reply);
	ck_assert_ptr_nonnull(reply.later);
	ck_assert_ptr_null(reply.text);
	control_reloaded(reply.later, &report, &answer);
	ck_assert_int_eq(strncmp(answer.text, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":"
				 "{\"changed\":[\"log: info -> debug\"],\"restart\":[\"b?r\"]}}\n",
				 answer.len), 0);
	free(answer.text);

	/* With errors there is nothing else; who gave no id gets no answer; who left is forgotten.
	 */
	control_report_add(&report, &report.errors, "a.conf:1: wrong");
	control_report_drop(&report);
	control_handle(&control, &root, line, strlen(line), &reply);
	control_reloaded(reply.later, &report, &answer);
	ck_assert_int_eq(strncmp(answer.text, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":"
				 "{\"code\":-32004,\"message\":\"the configuration was not loaded, "
				 "nothing is changed: 1 error\",\"data\":{\"errors\":"
				 "[\"a.conf:1: wrong\"]}}}\n", answer.len), 0);
	free(answer.text);
	control_handle(&control, &root, quiet, strlen(quiet), &reply);
	control_reloaded(reply.later, &report, &answer);
	ck_assert_ptr_null(answer.text);
	control_handle(&control, &root, quiet, strlen(quiet), &reply);
	control_later_free(reply.later);
	control_report_free(&report);
	control.can_reload = false;
}
END_TEST

/* Every row of the table is a method that works, and the other way round. */
START_TEST(test_every_command)
{
	for (const struct command *c = commands; c->method; c++) {
		char line[128];
		json_t *answer, *code;

		snprintf(line, sizeof(line), "{'jsonrpc':'2.0','id':1,'method':'%s'}", c->method);
		answer = ask(&root, line);
		code = json_object_get(json_object_get(answer, "error"), "code");
		ck_assert_int_ne(json_integer_value(code), -32601);
		json_decref(answer);
	}
}
END_TEST

/* ---- who may what ---- */

START_TEST(test_permissions)
{
	static const char *const reads[] = {
		"server.info", "export.list", "stats.get", "client.list"
	};
	static const char set[] = "{'jsonrpc':'2.0','id':1,'method':'export.set','params':"
				  "{'name':'disk','set':{'nr_requests':99}}}";
	static const char get[] = "{'jsonrpc':'2.0','id':1,'method':'export.get','params':"
				  "{'name':'disk'}}";
	char line[128];
	json_t *answer;

	for (unsigned i = 0; i < 4; i++) {
		snprintf(line, sizeof(line), "{'jsonrpc':'2.0','id':1,'method':'%s'}", reads[i]);
		answer = ask(&member, line);
		ck_assert_ptr_nonnull(json_object_get(answer, "result"));
		json_decref(answer);
		json_decref(refused(&stranger, line, strlen(line), -32003, "permission denied"));
	}
	json_decref(refused(&stranger, get, strlen(get), -32003, "uid 1001"));
	json_decref(refused(&stranger, set, strlen(set), -32003, "permission denied"));
	json_decref(refused(&member, set, strlen(set), -32003, "permission denied: export.set"));
	ck_assert_int_eq(value("disk", "nr_requests"), 128);
	answer = ask(&owner, set);
	ck_assert_ptr_nonnull(json_object_get(answer, "result"));
	json_decref(answer);
	ck_assert_int_eq(value("disk", "nr_requests"), 99);
}
END_TEST

START_TEST(test_peer)
{
	struct control_peer peer;
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	ck_assert_int_eq(control_peer_get(fd[0], &peer), 0);
	ck_assert_uint_eq(peer.uid, getuid());
	ck_assert_uint_ge(peer.ngroups, 1);
	ck_assert_uint_eq(peer.groups[0], getgid());
	control_peer_free(&peer);
	control_peer_free(NULL);
	close(fd[0]);
	close(fd[1]);
	ck_assert_int_lt(control_peer_get(fd[0], &peer), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, control_setup, control_teardown);
	tcase_add_test(tc, test_server_info);
	tcase_add_test(tc, test_export_list);
	tcase_add_test(tc, test_export_get);
	tcase_add_test(tc, test_export_set);
	tcase_add_test(tc, test_set_is_all_or_none);
	tcase_add_test(tc, test_clients);
	tcase_add_test(tc, test_end_client);
	tcase_add_test(tc, test_queued);
	tcase_add_test(tc, test_stats);
	tcase_add_test(tc, test_stats_add_up);
	tcase_add_test(tc, test_shutdown);
	tcase_add_test(tc, test_remove);
	tcase_add_test(tc, test_reload);
	tcase_add_test(tc, test_every_command);
	tcase_add_test(tc, test_permissions);
	tcase_add_test(tc, test_peer);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
