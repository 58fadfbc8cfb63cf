/*
 * What `liftctl top` makes of two results of client.list.
 */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/ctl/usage.h"
#include "tests/unit/suite.h"

/* One row, in which a ' stands for a "; the rest is what differs. */
#define ROW(id, export, rest) "{'id':'" id "','export':'" export "','class':'be'" rest "}"

static json_t *parse(const char *text)
{
	char *line = strdup(text);
	json_t *v;

	for (char *p = line; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	v = json_loads(line, 0, NULL);
	ck_assert_msg(v, "%s", line);
	free(line);
	return v;
}

static json_t *before, *now;
static struct usage *u;
static size_t n;

static void make(const char *first, const char *second, double seconds)
{
	before = parse(first);
	now = parse(second);
	ck_assert_int_eq(usage_make(before, now, seconds, &u, &n), 0);
}

static void done(void)
{
	free(u);
	json_decref(before);
	json_decref(now);
}

static void near(double got, double wanted)
{
	ck_assert_double_eq_tol(got, wanted, 1e-9);
}

START_TEST(test_shares)
{
	/* At x: a with weight 300 and b with 100 work, c (weight 600) does nothing. At y: d. */
	make("[" ROW("a", "x", ",'weight':300,'service_ns':1000,'requests':10,'bytes':0") ","
	     ROW("d", "y", ",'weight':100,'service_ns':0,'requests':0") ","
	     ROW("c", "x", ",'weight':600,'service_ns':7,'requests':7") ","
	     ROW("b", "x", ",'weight':100,'service_ns':50,'requests':5") "]",
	     "[" ROW("c", "x", ",'weight':600,'service_ns':7,'requests':7") ","
	     ROW("b", "x", ",'weight':100,'service_ns':250,'requests':45") ","
	     ROW("d", "y", ",'weight':100,'service_ns':300,'requests':1") ","
	     ROW("a", "x", ",'weight':300,'service_ns':1600,'requests':30,'bytes':8192") "]", 2);
	ck_assert_uint_eq(n, 4);
	/* The busiest first. */
	ck_assert_str_eq(u[0].id, "a");
	ck_assert_str_eq(u[1].id, "d");
	ck_assert_str_eq(u[2].id, "b");
	ck_assert_str_eq(u[3].id, "c");
	near(u[0].share, 0.75);
	near(u[0].entitled, 0.75);
	near(u[0].iops, 10);
	near(u[0].bytes_per_s, 4096);
	near(u[1].share, 1);
	near(u[1].entitled, 1);
	near(u[2].share, 0.25);
	near(u[2].entitled, 0.25);
	near(u[2].iops, 20);
	ck_assert(!u[3].active);
	near(u[3].share, 0);
	near(u[3].entitled, 0);
	done();

	/* Who waits and gets nothing is entitled all the same. */
	make("[" ROW("a", "x", ",'weight':100") "," ROW("b", "x", ",'weight':100") "]",
	     "[" ROW("a", "x", ",'weight':100,'queued':1") ","
	     ROW("b", "x", ",'weight':100,'service_ns':5") "]", 1);
	ck_assert_str_eq(u[1].id, "a");
	ck_assert(u[1].active);
	near(u[1].share, 0);
	near(u[1].entitled, 0.5);
	done();
}
END_TEST

START_TEST(test_times)
{
	/* 100 of 10 us before; since then 90 of about 1000 us and 10 of 50,000. */
	make("[" ROW("a", "x", ",'dispatched':100,'queue_sum_us':500,'service_sum_us':500,"
		     "'total':{'count':100,'buckets':[[10,100]]}") "]",
	     "[" ROW("a", "x", ",'dispatched':200,'queue_sum_us':10500,'service_sum_us':900,"
		     "'total':{'count':200,'buckets':[[10,100],[1000,40],[1000,50],[50000,10]]}")
	     "]", 1);
	ck_assert_uint_eq(u[0].queue_ns, 100000);
	ck_assert_uint_eq(u[0].service_ns, 4000);
	ck_assert_uint_eq(u[0].p50_ns, 1031250);
	ck_assert_uint_eq(u[0].p99_ns, 51562500);
	done();

	/* Nothing came: no latencies, rather than old ones. */
	make("[" ROW("a", "x", ",'total':{'count':1,'buckets':[[10,1]]}") "]",
	     "[" ROW("a", "x", ",'total':{'count':1,'buckets':[[10,1]]}") "]", 1);
	ck_assert_uint_eq(u[0].p50_ns, 0);
	ck_assert_uint_eq(u[0].p99_ns, 0);
	done();
}
END_TEST

START_TEST(test_come_and_gone)
{
	/* Remembered from long ago: its history is not of this interval. b is another's now. */
	make("[" ROW("b", "x", ",'requests':1000,'service_ns':1000,"
		     "'total':{'count':1000,'buckets':[[5,1000]]}") ","
	     ROW("gone", "x", ",'requests':1") "]",
	     "[" ROW("a", "x", ",'requests':5000,'service_ns':5000") ","
	     ROW("b", "x", ",'requests':30,'service_ns':40,"
		     "'total':{'count':30,'buckets':[[5,30]]}") "]", 1);
	ck_assert_uint_eq(n, 2);
	ck_assert_str_eq(u[0].id, "b");
	near(u[0].iops, 30);
	ck_assert_uint_eq(u[0].device_ns, 40);
	ck_assert_uint_eq(u[0].p50_ns, 5156);
	ck_assert_str_eq(u[1].id, "a");
	ck_assert(!u[1].active);
	near(u[1].iops, 0);
	done();
}
END_TEST

/* Results of another version, or of something else altogether. */
START_TEST(test_strange)
{
	static const char *const results[] = {
		"[]", "{}", "[null, 3, [], {}]", "[" ROW("a", "x", ",'total':3") "]",
		"[" ROW("a", "x", ",'requests':'7','weight':-1,'total':{'count':9,'buckets':"
			"[3,[],[5],['a','b'],[7,-7],[1,9],null]}") "]",
		"[" ROW("a", "x", "") "," ROW("a", "x", ",'requests':1") "]",
	};

	for (unsigned i = 0; i < 6; i++) {
		for (unsigned j = 0; j < 6; j++) {
			make(results[i], results[j], j ? 1 : 0);
			ck_assert_uint_eq(n, json_array_size(now));
			for (size_t k = 0; k < n; k++)
				ck_assert(u[k].share >= 0 && u[k].share <= 1 && u[k].id &&
					  u[k].export && u[k].io_class);
			done();
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("usage");
	TCase *tc = tcase_create("usage");

	tcase_add_test(tc, test_shares);
	tcase_add_test(tc, test_times);
	tcase_add_test(tc, test_come_and_gone);
	tcase_add_test(tc, test_strange);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
