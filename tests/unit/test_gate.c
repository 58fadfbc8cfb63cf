/*
 * The gate of the nbdkit plugin, with threads that do what nbdkit's do: data, grants and their
 * order, timers, errors, budgets, and changes of settings while they run. The plugin's thread with
 * the control socket runs beside them.
 */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "plugin/gate.h"
#include "plugin/host.h"
#include "server/control/commands.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_store.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SLOWNESS = 5 };
#else
enum { SLOWNESS = 1 };
#endif

enum { SIZE = 1 << 20, BLOCK = 4096, THREADS = 12, REGION = SIZE / THREADS / BLOCK * BLOCK };

static struct server server;
static struct export *export;
static struct gate gate;
static struct host *host;

static void add(struct setting *set, size_t *n, const char *name, const char *value)
{
	set[(*n)++] = (struct setting){ name, value };
}

/* An export of a new file with these settings, "name", "value", ... NULL. */
static void open_gate(const char *first, ...)
{
	struct setting set[16];
	struct setting_error why;
	struct server_params params;
	struct export_settings st;
	size_t n = 0;
	va_list args;

	make_test_dir();
	ck_assert_int_eq(tunable_defaults(server_rows, &params), 0);
	ck_assert_int_eq(server_init(&server, &params), 0);
	tunable_free(server_rows, &params);
	server.serial_slices = true;
	ck_assert_int_eq(export_settings_init(&st), 0);
	add(set, &n, "path", make_file("disk.img", SIZE, 0));
	add(set, &n, "name", "disk");
	va_start(args, first);
	for (const char *name = first; name; name = va_arg(args, const char *))
		add(set, &n, name, va_arg(args, const char *));
	va_end(args);
	ck_assert_msg(!export_settings_set(&st, set, n, &why), "%s", why.text);
	ck_assert_msg(!export_open(&server, &st, &export, err, sizeof(err)), "%s", err);
	export_settings_free(&st);
	gate_init(&gate, export);
	ck_assert_msg(!host_open(&gate, in_dir("control"), &host, err, sizeof(err)), "%s", err);
	ck_assert_int_eq(host_start(host), 0);
}

/* All is given back, and the elevator in order. */
static void close_gate(void)
{
	static struct export_stats stats;
	const char *wrong;

	disk_lock(export->disk);
	wrong = elv_check(&export->elv);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert(TAILQ_EMPTY(&gate.asleep) && !gate.keeper);
	disk_unlock(export->disk);
	export_stats(export, &stats);
	ck_assert_uint_eq(stats.requests_held, 0);
	ck_assert_uint_eq(stats.bytes_held, 0);
	ck_assert_uint_eq(stats.connections, 0);
	host_close(host);
	ck_assert_int_eq(access(in_dir("control"), F_OK), -1);
	server_exit(&server);
	remove_test_dir();
}

static void set(const char *name, const char *value)
{
	struct setting s = { name, value };
	struct setting_error why;

	ck_assert_msg(!export_set(export, &s, 1, &why), "%s", why.text);
	gate_kick(&gate);
}

/* A connection of the process with this number. */
static void connect_as(struct gate_conn *c, pid_t pid)
{
	struct client_peer peer = { .kind = PEER_UNIX, .has_uid = true, .pid = pid };


	ck_assert_msg(!gate_open(&gate, &peer, c, err, sizeof(err)), "%s", err);
}

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	struct gate_conn *conn;
	unsigned number, rounds;
	enum elv_op op;          /* of simple ones: one request */
	uint64_t offset, length;
	char *data;
	int result;
	int wrong;               /* checks that failed; ck_assert is for the main thread */
};

static void start(struct worker *w, void *(*run)(void *))
{
	ck_assert_int_eq(pthread_create(&w->thread, NULL, run, w), 0);
}

static void *run_one(void *arg)
{
	struct worker *w = arg;

	w->result = gate_execute(w->conn, w->op, 0, w->data, w->offset, w->length);
	return NULL;
}

/* Writes, reads, zeroes and flushes in a region of its own, of all sizes, and looks. */
static void *run_mixed(void *arg)
{
	struct worker *w = arg;
	uint64_t at = (uint64_t)w->number * REGION;
	char *have = malloc(REGION), *got = malloc(REGION);
	unsigned dice = w->number * 7919 + 1;

	memset(have, 0, REGION);
	for (unsigned i = 0; i < w->rounds; i++) {
		uint64_t from, length;

		dice = dice * 1103515245 + 12345;
		from = (dice >> 8) % REGION;
		length = 1 + (dice >> 4) % (i % 4 ? BLOCK : REGION);
		if (from + length > REGION)
			length = REGION - from;
		if (i % 3 == 0) {
			memset(have + from, (int)i, length);
			w->wrong += gate_execute(w->conn, ELV_WRITE, i % 2 ? ELV_FUA : 0,
						 have + from, at + from, length) != 0;
		} else if (i % 7 == 0) {
			memset(have + from, 0, length);
			w->wrong += gate_execute(w->conn, ELV_ZERO, i % 2 ? ELV_NO_HOLE : 0, NULL,
						 at + from, length) != 0;
		} else if (i % 11 == 0) {
			w->wrong += gate_execute(w->conn, ELV_FLUSH, 0, NULL, 0, 0) != 0;
			w->wrong += gate_execute(w->conn, ELV_CACHE, 0, NULL, at, REGION) != 0;
		} else {
			w->wrong += gate_execute(w->conn, ELV_READ, 0, got, at + from,
						 length) != 0;
			w->wrong += memcmp(got, have + from, length) != 0;
		}
	}
	free(have);
	free(got);
	return NULL;
}

/* Three identities with two connections each, twelve threads; `meanwhile` runs beside them. */
static void run_crowd(unsigned rounds, void (*meanwhile)(void))
{
	struct worker w[THREADS];
	struct gate_conn conn[6];

	for (unsigned i = 0; i < 6; i++)
		connect_as(&conn[i], (pid_t)(100 + i / 2));
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .conn = &conn[i % 6], .number = i,
					.rounds = rounds / SLOWNESS };
		start(&w[i], run_mixed);
	}
	if (meanwhile)
		meanwhile();
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		ck_assert_int_eq(w[i].wrong, 0);
	}
	for (unsigned i = 0; i < 6; i++)
		gate_close(&conn[i]);
}

/* ---- data ---- */

START_TEST(test_crowd)
{
	const char *policy = elv_policies[_i]->name;

	open_gate("scheduler", policy, "max_sectors_kb", "8", "max_discard_kb", "16",
		  "queue_depth", "3", "nomerges", "2", NULL);
	run_crowd(600, NULL);
	close_gate();
	/* An io of several requests is one thread's. */
	open_gate("scheduler", policy, "max_sectors_kb", "64", "queue_depth", "2", NULL);
	run_crowd(600, NULL);
	close_gate();
	/* Where transfers are short, and few may be in flight or wait. */
	open_gate("scheduler", policy, "max_sectors_kb", "8", "queue_depth", "1",
		  "fault_short_every", "3", "nr_requests", "4", NULL);
	run_crowd(400, NULL);
	close_gate();
}
END_TEST

static void change_things(void)
{
	for (unsigned i = 0; i < 120; i++) {
		set("scheduler", elv_policies[i % 2 + 1]->name);
		set("queue_depth", i % 2 ? "1" : "8");
		set("max_sectors_kb", i % 5 ? "4" : "1024");
		set("nr_requests", i % 2 ? "4" : "128");
		set("nomerges", i % 4 ? "2" : "0");
	}
}

START_TEST(test_changes)
{
	open_gate("scheduler", "cfq", NULL);
	run_crowd(1000, change_things);
	close_gate();
}
END_TEST

/* ---- grants ---- */

static unsigned in_flight(void)
{
	unsigned n;

	disk_lock(export->disk);
	n = export->elv.in_flight;
	disk_unlock(export->disk);
	return n;
}

static unsigned queued(void)
{
	unsigned n;

	disk_lock(export->disk);
	n = export->elv.queued;
	disk_unlock(export->disk);
	return n;
}

static void until(unsigned (*count)(void), unsigned wanted)
{
	static const struct timespec moment = { 0, 200000 };

	while (count() != wanted)
		nanosleep(&moment, NULL);
}

/* No more in flight than queue_depth; of a large request one slice. */
START_TEST(test_depth)
{
	struct worker w[5];
	struct gate_conn conn;
	static char data[5][64 << 10];

	open_gate("scheduler", "noop", "queue_depth", "2", "max_sectors_kb", "4", "fault_delay",
		  "2s", NULL);
	connect_as(&conn, 1);
	for (unsigned i = 0; i < 5; i++) {
		w[i] = (struct worker){ .conn = &conn, .op = ELV_READ, .data = data[i],
					.offset = i * (128 << 10),
					.length = i ? 4096 : 64 << 10 };
		start(&w[i], run_one);
		if (!i)
			until(in_flight, 1);
	}
	/* The large one has one of the two, and the rest of it waits with three others. */
	until(queued, 4);
	ck_assert_uint_eq(in_flight(), 2);
	set("fault_delay", "0");
	for (unsigned i = 0; i < 5; i++) {
		pthread_join(w[i].thread, NULL);
		ck_assert_int_eq(w[i].result, 0);
	}
	gate_close(&conn);
	close_gate();
}
END_TEST

/*
 * cfq keeps a disk that rotates for a reader that was quick so far. When it does not come back,
 * nothing is in flight, and one of those who wait has to ask again.
 */
START_TEST(test_timer)
{
	struct gate_conn conn[2];
	struct worker other;
	char data[4096], text[4096];
	static char others[4096];

	open_gate("scheduler", "cfq", "rotational", "1", "queue_depth", "1", "slice_idle", "50",
		  NULL);
	connect_as(&conn[0], 1);
	connect_as(&conn[1], 2);
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < 16 + round; i++)
			ck_assert_int_eq(gate_execute(&conn[0], ELV_READ, 0, data, i * 4096, 4096),
					 0);
		other = (struct worker){ .conn = &conn[1], .op = ELV_READ, .data = others,
					 .offset = SIZE / 2, .length = 4096 };
		start(&other, run_one);
		pthread_join(other.thread, NULL);
		ck_assert_int_eq(other.result, 0);
	}
	export_show(export, text, sizeof(text));
	ck_assert_msg(strstr(text, "waits ") && !strstr(text, "waits 0\n"), "%s", text);
	gate_close(&conn[0]);
	gate_close(&conn[1]);
	close_gate();
}
END_TEST

/* nr_requests: who has too many waits outside the elevator, others do not. */
START_TEST(test_budget)
{
	struct worker w[8], other;
	struct gate_conn conn[2];
	static struct export_stats stats;
	static char data[9][4096];

	open_gate("scheduler", "noop", "queue_depth", "1", "nr_requests", "4", "fault_delay", "1s",
		  NULL);
	connect_as(&conn[0], 1);
	connect_as(&conn[1], 2);
	for (unsigned i = 0; i < 8; i++) {
		w[i] = (struct worker){ .conn = &conn[0], .op = ELV_READ, .data = data[i],
					.offset = i * 8192, .length = 4096 };
		start(&w[i], run_one);
	}
	until(queued, 3);
	other = (struct worker){ .conn = &conn[1], .op = ELV_READ, .data = data[8],
				 .length = 4096 };
	start(&other, run_one);
	until(queued, 4);
	export_stats(export, &stats);
	ck_assert_uint_eq(stats.requests_held, 5);
	set("fault_delay", "0");
	for (unsigned i = 0; i < 8; i++)
		pthread_join(w[i].thread, NULL);
	pthread_join(other.thread, NULL);
	export_stats(export, &stats);
	ck_assert_uint_eq(stats.requests_answered, 9);
	gate_close(&conn[0]);
	gate_close(&conn[1]);
	close_gate();
}
END_TEST

/* ---- errors ---- */

START_TEST(test_errors)
{
	struct gate_conn conn, again;
	char data[4096] = { 1 };

	open_gate("fault_error_at", "1", "fault_sync_error_every", "2", NULL);
	connect_as(&conn, 1);
	ck_assert_int_eq(gate_execute(&conn, ELV_WRITE, 0, data, 0, 4096), -EIO);
	ck_assert_int_eq(gate_execute(&conn, ELV_WRITE, 0, data, 0, 4096), 0);
	ck_assert_int_eq(gate_execute(&conn, ELV_FLUSH, 0, NULL, 0, 0), 0);
	ck_assert_int_eq(gate_execute(&conn, ELV_WRITE, 0, data, 0, 4096), 0);
	ck_assert_int_eq(gate_execute(&conn, ELV_FLUSH, 0, NULL, 0, 0), -EIO);
	/* The connection has it on each flush, until it closes; and the next one hears of it. */
	ck_assert_int_eq(gate_execute(&conn, ELV_FLUSH, 0, NULL, 0, 0), -EIO);
	ck_assert_int_eq(gate_execute(&conn, ELV_READ, 0, data, 0, 4096), 0);
	gate_close(&conn);
	set("fault_sync_error_every", "0");
	connect_as(&again, 1);
	ck_assert_int_eq(gate_execute(&again, ELV_FLUSH, 0, NULL, 0, 0), -EIO);
	ck_assert_int_eq(gate_execute(&again, ELV_FLUSH, 0, NULL, 0, 0), 0);
	gate_close(&again);
	close_gate();
}
END_TEST

/* ---- the control socket ---- */

static int call(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", in_dir("control"));
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* The next line from fd; "" at its end. */
static const char *hear(int fd)
{
	static char line[64 << 10];
	size_t n = 0;

	while (n < sizeof(line) - 1 && recv(fd, line + n, 1, 0) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	return line;
}

static void say(int fd, const char *text)
{
	/* The kernel may take a part of a long text. */
	for (size_t left = strlen(text); left; ) {
		ssize_t n = send(fd, text, left, MSG_NOSIGNAL);

		ck_assert_int_gt(n, 0);
		text += n;
		left -= (size_t)n;
	}
}

START_TEST(test_control)
{
	static char *large;
	int fd, many[3];

	open_gate("scheduler", "noop", NULL);
	fd = call();
	/* Two lines at once, in pieces; the end of what it says comes before the answers. */
	say(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.in");
	say(fd, "fo\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"export.set\",\"params\":"
		"{\"name\":\"disk\",\"set\":{\"scheduler\":\"deadline\"}}}\n");
	shutdown(fd, SHUT_WR);
	ck_assert_ptr_nonnull(strstr(hear(fd), "\"policies\""));
	ck_assert_ptr_nonnull(strstr(hear(fd), "\"deadline\""));
	ck_assert_str_eq(hear(fd), "");
	close(fd);
	disk_lock(export->disk);
	ck_assert_str_eq(export->elv.policy->name, "deadline");
	disk_unlock(export->disk);

	/* Too long a line ends the connection, after it was told so. */
	fd = call();
	large = malloc(COMMAND_LINE_MAX + 2);
	memset(large, ' ', COMMAND_LINE_MAX + 1);
	large[COMMAND_LINE_MAX + 1] = '\0';
	say(fd, large);
	free(large);
	ck_assert_ptr_nonnull(strstr(hear(fd), "error"));
	ck_assert_str_eq(hear(fd), "");
	close(fd);

	/* There is no configuration; a connection that goes, and some that stay, do no harm. */
	for (unsigned i = 0; i < 3; i++)
		many[i] = call();
	close(many[1]);
	say(many[0], "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.reload\"}\n");
	ck_assert_ptr_nonnull(strstr(hear(many[0]), "-32004"));
	say(many[2], "{\"jsonrpc\":");
	close_gate();
	ck_assert_str_eq(hear(many[2]), "");
	close(many[0]);
	close(many[2]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gate");
	TCase *tc = tcase_create("gate");
	int policies = 0;

	while (elv_policies[policies])
		policies++;
	tcase_add_loop_test(tc, test_crowd, 0, policies);
	tcase_add_test(tc, test_changes);
	tcase_add_test(tc, test_depth);
	tcase_add_test(tc, test_timer);
	tcase_add_test(tc, test_budget);
	tcase_add_test(tc, test_errors);
	tcase_add_test(tc, test_control);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
