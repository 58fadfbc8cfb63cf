/*
 * The control protocol under abuse: everything that is no request, lines that cost much, and lines
 * that a fuzzer made of good ones.
 */
#include <check.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/control_calls.h"
#include "tests/unit/suite.h"

#define RPC "'jsonrpc':'2.0','id':1,"

static const struct {
	const char *line;
	int code;
	const char *part;
} abuse[] = {
	/* no JSON */
	{ "", -32700, "JSON" },
	{ " ", -32700, "JSON" },
	{ "GET / HTTP/1.0", -32700, "JSON" },
	{ "{'jsonrpc':'2.0','id':1,'method':'export.li", -32700, "JSON" },
	{ "{" RPC "'method':'export.list'}}", -32700, "JSON" },
	{ "{" RPC "'method':'export.list'} {}", -32700, "JSON" },
	{ "{" RPC "'method':'export.list',}", -32700, "JSON" },
	{ "{" RPC "'method':'export.list','method':'server.shutdown'}", -32700, "duplicate" },
	{ "{" RPC "'method':'export.get','params':{'name':'a','name':'b'}}", -32700,
	  "duplicate" },
	{ "{jsonrpc:'2.0'}", -32700, "JSON" },
	{ "{" RPC "'method':'export.list\xff'}", -32700, "UTF-8" },
	{ "{" RPC "'method':'\xed\xa0\x80'}", -32700, "UTF-8" },
	{ "{" RPC "'method':'\xc0\xaf'}", -32700, "UTF-8" },
	{ "{" RPC "'method':'\\ud800'}", -32700, "JSON" },
	{ "{" RPC "'method':'export\\u0000list'}", -32700, "u0000" },
	{ "{'jsonrpc':'2.0','id':99999999999999999999999,'method':'export.list'}", -32700,
	  "too big" },
	{ "{'jsonrpc':'2.0','id':1e999,'method':'export.list'}", -32700, "JSON" },
	{ "{" RPC "'method':'export.list','params':{'a':[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]}}",
	  -32700, "deep" },
	/* no request */
	{ "[]", -32600, "batch" },
	{ "[{" RPC "'method':'export.list'}]", -32600, "batch" },
	{ "1", -32600, "object" },
	{ "null", -32600, "object" },
	{ "'export.list'", -32600, "object" },
	{ "{}", -32600, "jsonrpc" },
	{ "{'id':1,'method':'export.list'}", -32600, "jsonrpc" },
	{ "{'jsonrpc':2.0,'id':1,'method':'export.list'}", -32600, "jsonrpc" },
	{ "{'jsonrpc':'1.0','id':1,'method':'export.list'}", -32600, "jsonrpc" },
	{ "{'jsonrpc':'2.0','id':1}", -32600, "method is missing" },
	{ "{" RPC "'method':null}", -32600, "method must be" },
	{ "{" RPC "'method':7}", -32600, "method must be" },
	{ "{" RPC "'method':['export.list']}", -32600, "method must be" },
	{ "{'jsonrpc':'2.0','id':[],'method':'export.list'}", -32600, "id must be" },
	{ "{'jsonrpc':'2.0','id':{},'method':'export.list'}", -32600, "id must be" },
	{ "{'jsonrpc':'2.0','id':true,'method':'export.list'}", -32600, "id must be" },
	{ "{" RPC "'method':'export.list','parms':{}}", -32600, "unknown member 'parms'" },
	/* no such method */
	{ "{" RPC "'method':''}", -32601, "unknown method ''" },
	{ "{" RPC "'method':'export.lst'}", -32601, "did you mean export.list?" },
	{ "{" RPC "'method':'rpc.discover'}", -32601, "unknown method" },
	{ "{" RPC "'method':'list'}", -32601, "unknown method" },
	{ "{" RPC "'method':'Export.List'}", -32601, "unknown method" },
	{ "{" RPC "'method':'export.list '}", -32601, "unknown method" },
	{ "{" RPC "'method':'a\\nb\\u001b[31m'}", -32601, "a?b?[31m" },
	/* parameters */
	{ "{" RPC "'method':'export.list','params':[]}", -32602, "by name" },
	{ "{" RPC "'method':'export.list','params':null}", -32602, "by name" },
	{ "{" RPC "'method':'export.get','params':['disk']}", -32602, "by name" },
	{ "{" RPC "'method':'export.get','params':'disk'}", -32602, "by name" },
	{ "{" RPC "'method':'export.list','params':{'a':1}}", -32602, "it takes none" },
	{ "{" RPC "'method':'export.get'}", -32602, "'name' of export.get is missing" },
	{ "{" RPC "'method':'export.get','params':{'name':1}}", -32602, "must be a string" },
	{ "{" RPC "'method':'export.get','params':{'name':null}}", -32602, "must be a string" },
	{ "{" RPC "'method':'export.get','params':{'nmae':'disk'}}", -32602,
	  "did you mean name?" },
	{ "{" RPC "'method':'export.get','params':{'name':'disk','help':1}}", -32602,
	  "true or false" },
	{ "{" RPC "'method':'export.set','params':{'name':'disk'}}", -32602, "'set'" },
	{ "{" RPC "'method':'export.set','params':{'name':'disk','set':{}}}", -32602, "empty" },
	{ "{" RPC "'method':'export.set','params':{'name':'disk','set':[]}}", -32602,
	  "must be an object" },
	{ "{" RPC "'method':'export.set','params':{'name':'disk','set':'a=1'}}", -32602,
	  "must be an object" },
	{ "{" RPC "'method':'stats.get','params':{'export':false}}", -32602, "must be a string" },
	{ "{" RPC "'method':'stats.get','params':{'name':'disk'}}", -32602, "it takes export" },
	/* exports and clients */
	{ "{" RPC "'method':'export.get','params':{'name':'dusk'}}", -32001,
	  "did you mean 'disk'?" },
	{ "{" RPC "'method':'export.get','params':{'name':'disk '}}", -32001, "named 'disk '" },
	{ "{" RPC "'method':'export.get','params':{'name':''}}", -32001, "no default" },
	{ "{" RPC "'method':'export.set','params':{'name':'x','set':{'a':1}}}", -32001, "'x'" },
	{ "{" RPC "'method':'client.list','params':{'export':'x'}}", -32001, "'x'" },
	{ "{" RPC "'method':'stats.get','params':{'export':'x'}}", -32001, "'x'" },
	{ "{" RPC "'method':'client.set','params':{'id':'','set':{'weight':1}}}", -32002, "''" },
};

START_TEST(test_abuse)
{
	refuses(abuse[_i].line, abuse[_i].code, abuse[_i].part);
	json_decref(result_of("export.list", ""));
}
END_TEST

START_TEST(test_nul_byte)
{
	static const char line[] = "{" RPC "'method':'export.list'}\0";

	json_decref(refused(&root, line, sizeof(line) - 1, -32700, "NUL"));
	json_decref(refused(&root, "\0\0\0", 3, -32700, "NUL"));
}
END_TEST

/* Lines that cost much: answered with an error, at once, or (a long name) as any other. */
START_TEST(test_long_lines)
{
	static const struct {
		const char *begin, *middle, *end;
		int code;
		const char *part;
	} lines[] = {
		{ "", "x", "", -32700, "JSON" },
		{ "", "[", "", -32700, "deep" },
		{ "", "{'a':", "", -32700, "deep" },
		{ "", "'", "", -32700, "" },
		{ "", "\\", "", -32700, "JSON" },
		{ "'", "x", "", -32700, "JSON" },
		{ "[", "[],", "1]", -32700, "too many values" },
		{ "[", "1,", "1]", -32700, "too many values" },
		{ "{" RPC "'method':'", "\xc3\xa4", "'}", -32601, "\xc3\xa4..." },
		{ "{" RPC "'method':'x", "\xc3\xa4", "'}", -32601, "\xc3\xa4..." },
		{ "{" RPC "'method':'export.get','params':{'name':'", "x", "'}}", -32001, "xx..." },
		{ "{" RPC "'method':'export.get','params':{'", "y", "':1}}", -32602, "yyy..." },
		{ "{" RPC "'method':'export.set','params':{'name':'disk','set':{'",
		  "\xc3\xa4", "':1}}}", -32602, "unknown tunable" },
		{ "{" RPC "'method':'export.set','params':{'name':'disk','set':{'nr_requests':'",
		  "9", "'}}}", -32602, "nr_requests" },
		{ "{" RPC "'method':'client.set','params':{'set':{'weight':1},'id':'", "\xc3\xa4",
		  "'}}", -32002, "no client" },
	};
	/* Those that the parser has to read are shorter, but still beyond what the socket takes. */
	size_t size = lines[_i].code == -32700 ? 10 << 20 : 2 << 20;
	size_t begin = strlen(lines[_i].begin), middle = strlen(lines[_i].middle);
	char *line = malloc(size + 64);
	size_t used;

	memcpy(line, lines[_i].begin, begin);
	for (used = begin; used < size; used += middle)
		memcpy(line + used, lines[_i].middle, middle);
	strcpy(line + used, lines[_i].end);
	used += strlen(lines[_i].end);
	json_decref(refused(&root, line, used, lines[_i].code, lines[_i].part));
	free(line);
}
END_TEST

enum { LONG_LINES = 15 };

START_TEST(test_too_long)
{
	struct control_reply reply;

	control_too_long(&reply);
	ck_assert_ptr_nonnull(memmem(reply.text, reply.len, "-32700", 6));
	ck_assert_ptr_nonnull(memmem(reply.text, reply.len, "1048576", 7));
	ck_assert(!reply.stop);
	free(reply.text);
}
END_TEST

/* ids come back as they were; without one there is no answer, but for what is no request. */
START_TEST(test_ids)
{
	static const char *const ids[] = { "1", "-7", "0", "\"\"", "\"a\\u00e4\\n\"", "null", "1.5",
					   "9223372036854775807" };
	char line[256];
	json_t *answer, *want;

	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		want = json_loads(ids[i], JSON_DECODE_ANY, NULL);
		snprintf(line, sizeof(line), "{'jsonrpc':'2.0','id':%s,'method':'server.info'}",
			 ids[i]);
		answer = ask(&root, line);
		ck_assert(json_equal(json_object_get(answer, "id"), want));
		ck_assert_ptr_nonnull(json_object_get(answer, "result"));
		json_decref(answer);
		snprintf(line, sizeof(line), "{'jsonrpc':'2.0','id':%s,'method':'x'}", ids[i]);
		answer = ask(&root, line);
		ck_assert(json_equal(json_object_get(answer, "id"), want));
		json_decref(answer);
		json_decref(want);
	}
	answer = ask(&root, "{'jsonrpc':'2.0','id':[1],'method':'x'}");
	ck_assert(json_is_null(json_object_get(answer, "id")));
	json_decref(answer);

	/* Notifications. */
	ck_assert_ptr_null(ask(&root, "{'jsonrpc':'2.0','method':'export.list'}"));
	ck_assert_ptr_null(ask(&root, "{'jsonrpc':'2.0','method':'nonsense'}"));
	ck_assert_ptr_null(ask(&root, "{'jsonrpc':'2.0','method':'export.get','params':[]}"));
	ck_assert_ptr_null(ask(&root, "{'jsonrpc':'2.0','method':'export.set','params':{"
			       "'name':'disk','set':{'nr_requests':77}}}"));
	ck_assert_int_eq(value("disk", "nr_requests"), 77);
	ck_assert_ptr_null(ask(&stranger, "{'jsonrpc':'2.0','method':'export.set','params':{"
			       "'name':'disk','set':{'nr_requests':78}}}"));
	ck_assert_int_eq(value("disk", "nr_requests"), 77);
	answer = ask(&root, "{'jsonrpc':'2.0','method':1}");
	ck_assert(json_is_null(json_object_get(answer, "id")));
	json_decref(answer);

	/* White space around is no part of the request. */
	answer = ask(&root, " {'jsonrpc' : '2.0', 'id' : 3 ,\t'method': 'server.info' }\r");
	ck_assert_ptr_nonnull(json_object_get(answer, "result"));
	json_decref(answer);
}
END_TEST

/* ---- fuzzing ---- */

static uint64_t seed;

static uint32_t roll(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static const char *const good[] = {
	"{'jsonrpc':'2.0','id':1,'method':'server.info'}",
	"{'jsonrpc':'2.0','id':'x','method':'export.list','params':{}}",
	"{'jsonrpc':'2.0','id':2,'method':'export.get','params':{'name':'disk','help':true}}",
	"{'jsonrpc':'2.0','id':3,'method':'export.set','params':{'name':'disk','set':"
	"{'scheduler':'cfq','quantum':'7','deadline.read_expire':'2s','nr_requests':64}}}",
	"{'jsonrpc':'2.0','id':3,'method':'export.set','params':{'name':'b\xc3\xa4r','set':"
	"{'scheduler':'deadline','front_merges':false,'max_sectors_kb':'1M'}}}",
	"{'jsonrpc':'2.0','id':null,'method':'client.list','params':{'export':'disk'}}",
	"{'jsonrpc':'2.0','id':4,'method':'client.set','params':{'id':'uid:5','set':"
	"{'weight':300,'class':'idle'}}}",
	"{'jsonrpc':'2.0','id':5,'method':'stats.get'}",
	"{'jsonrpc':'2.0','method':'server.shutdown'}",
};

static const char *const pieces[] = {
	"{", "}", "[", "]", ",", ":", "'", "\\", "\\u0000", "\\ud83d", "null", "true", "-1", "1e9",
	"18446744073709551616", "'id':1,", "'params':{}", "'set':{}", "auto", "cfq", "deadline.",
	"\n", "\xff", "\xf0\x9f\x92\xa9", "'name':''", "'help':false", " ",
	"'scheduler':'noop'", "0", "K",
};

enum { FUZZ_ROOM = 1024, FUZZ_LINES = 10000 };

static size_t insert(char *line, size_t len, const char *what, size_t n)
{
	size_t at = roll((uint32_t)len + 1);

	if (len + n > FUZZ_ROOM)
		return len;
	memmove(line + at + n, line + at, len - at);
	memcpy(line + at, what, n);
	return len + n;
}

static size_t mutate(char *line, size_t len)
{
	const char *piece;
	char copy[64];
	size_t at, n;

	switch (len ? roll(6) : 5) {
	case 0:
		line[roll((uint32_t)len)] = (char)roll(256);
		return len;
	case 1:
		line[roll((uint32_t)len)] ^= (char)(1 << roll(8));
		return len;
	case 2: /* cut a piece out */
		at = roll((uint32_t)len);
		n = 1 + roll(16);
		if (n > len - at)
			n = len - at;
		memmove(line + at, line + at + n, len - at - n);
		return len - n;
	case 3: /* cut the end off */
		return roll((uint32_t)len);
	case 4: /* double a piece */
		at = roll((uint32_t)len);
		n = 1 + roll(sizeof(copy));
		if (n > len - at)
			n = len - at;
		memcpy(copy, line + at, n);
		return insert(line, len, copy, n);
	default:
		piece = pieces[roll(sizeof(pieces) / sizeof(pieces[0]))];
		return insert(line, len, piece, strlen(piece));
	}
}

START_TEST(test_fuzz)
{
	struct export *e = export_find(&server, "disk", 4);
	unsigned answers = 0, errors = 0;
	struct client *client;
	char line[FUZZ_ROOM];

	seed = 20240607 + _i;
	ck_assert_int_eq(client_get(e, "uid:5", &client), 0);
	for (unsigned i = 0; i < FUZZ_LINES; i++) {
		const char *from = good[roll(sizeof(good) / sizeof(good[0]))];
		size_t len = strlen(from);
		json_t *answer;

		memcpy(line, from, len);
		for (unsigned k = roll(4); k; k--)
			len = mutate(line, len);
		answer = ask_bytes(&root, line, len);
		answers += answer != NULL;
		errors += json_object_get(answer, "error") != NULL;
		json_decref(answer);
	}
	/* The mutations are neither all harmless nor all deadly. */
	ck_assert_uint_gt(errors, FUZZ_LINES / 10);
	ck_assert_uint_gt(answers - errors, FUZZ_LINES / 10);
	client_put(client);
	export_put(e);
	json_decref(result_of("export.get", "{'name':'disk'}"));
}
END_TEST

/* ---- no memory ---- */

static unsigned allocations, fail_at;

static void *failing_malloc(size_t size)
{
	return ++allocations == fail_at ? NULL : malloc(size);
}

/*
 * An allocation of the JSON library fails, each in turn and later some: there is a whole answer, an
 * error or none, and the next call works. Not those of its parser, which dies of it (jansson 2.14).
 */
START_TEST(test_no_memory)
{
	unsigned calls = 0, answers = 0, errors = 0, n, parser;
	size_t len = strlen(good[_i]);
	char line[256];

	strcpy(line, good[_i]);
	for (char *p = line; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	fail_at = 0;
	json_set_alloc_funcs(failing_malloc, free);
	json_decref(json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL));
	n = parser = allocations;
	do {
		struct control_reply reply;

		calls++;
		allocations = 0;
		fail_at = n += 1 + (n - parser) / 32;
		control_handle(&control, &root, line, len, &reply);
		fail_at = 0;
		if (reply.text) {
			json_t *answer = json_loadb(reply.text, reply.len, 0, NULL);
			json_t *error = json_object_get(answer, "error");

			ck_assert_uint_eq(json_object_size(answer), 3);
			ck_assert(!error == !!json_object_get(answer, "result"));
			answers++;
			errors += error != NULL;
			json_decref(answer);
		}
		free(reply.text);
	} while (allocations >= n);
	json_set_alloc_funcs(malloc, free);
	/* All but the last call lacked something; some of them could still say so. */
	if (strstr(good[_i], "'id'")) {
		ck_assert_uint_gt(errors, 0);
		ck_assert_uint_gt(calls, answers);
	}
	json_decref(result_of("export.list", ""));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control abuse");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, control_setup, control_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, test_abuse, 0, sizeof(abuse) / sizeof(abuse[0]));
	tcase_add_test(tc, test_nul_byte);
	tcase_add_loop_test(tc, test_long_lines, 0, LONG_LINES);
	tcase_add_test(tc, test_too_long);
	tcase_add_test(tc, test_ids);
	tcase_add_loop_test(tc, test_fuzz, 0, 2);
	tcase_add_loop_test(tc, test_no_memory, 0, sizeof(good) / sizeof(good[0]));
	suite_add_tcase(s, tc);
	return run_suite(s);
}
