/*
 * What the tests of stores share: opening them, and ios made by hand.
 */
#ifndef TESTS_UNIT_TEST_STORE_H
#define TESTS_UNIT_TEST_STORE_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/store.h"
#include "tests/unit/suite.h"

#define UNUSED __attribute__((unused))

static char err[TUNABLE_ERR_MAX] UNUSED;
static char test_dir[64] UNUSED;

/* A folder for the test's files, on a real file system; removed by the next two calls' pair. */
static UNUSED void make_test_dir(void)
{
	strcpy(test_dir, "/var/tmp/lift.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(test_dir));
}

static UNUSED void remove_test_dir(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", test_dir);
	ck_assert_int_eq(system(command), 0);
}

/* The path of a file in the test's folder; good until the fourth call after it. */
static UNUSED const char *in_dir(const char *name)
{
	static char paths[4][160];
	static unsigned n;
	char *path = paths[n++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", test_dir, name);
	return path;
}

/* A file of this size, filled with one byte. Returns its path. */
static UNUSED const char *make_file(const char *name, size_t size, int fill)
{
	const char *path = in_dir(name);
	char *data = malloc(size ? size : 1);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	memset(data, fill, size);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
	close(fd);
	free(data);
	return path;
}

/* Settings of a store: the defaults, and "name=value" as text up to a NULL. */
static UNUSED struct store_params params_of(const char *first, ...)
{
	struct store_params p;
	struct tunable_changes c = { .when = WHEN_START };
	va_list args;

	ck_assert_int_eq(tunable_defaults(store_rows, &p), 0);
	va_start(args, first);
	for (const char *s = first; s; s = va_arg(args, const char *)) {
		const char *eq = strchr(s, '=');
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)(eq - s), s);
		if (tunable_changes_set(&c, store_rows, &p, name, eq + 1, err, sizeof(err)))
			ck_abort_msg("%s", err);
	}
	va_end(args);
	tunable_changes_commit(&c);
	tunable_changes_free(&c);
	return p;
}

static UNUSED int try_open(struct store **s, const char *name, const char *path,
			   struct store_params p)
{
	int r;

	free(p.path);
	p.path = path ? strdup(path) : NULL;
	err[0] = '\0';
	*s = NULL;
	r = store_open(name, &p, s, err, sizeof(err));
	tunable_free(store_rows, &p);
	return r;
}

static UNUSED struct store *must_open(const char *path, struct store_params p)
{
	struct store *s;
	int r = try_open(&s, "test", path, p);

	ck_assert_msg(!r, "%d: %s", r, err);
	return s;
}

/* Opening fails with this error and a sentence that has this piece. */
static UNUSED void refuses(const char *path, struct store_params p, int error, const char *piece)
{
	struct store *s;
	int r = try_open(&s, "test", path, p);

	ck_assert_msg(r == error, "%d instead of %d: %s", r, error, err);
	ck_assert_msg(strstr(err, piece), "'%s' has no '%s'", err, piece);
	ck_assert_ptr_null(s);
}

#define P(...) params_of(__VA_ARGS__, NULL)

/* ---- ios ---- */

static UNUSED void set_io(struct elv_io *io, struct store *s, enum elv_op op, unsigned flags,
			  uint64_t offset, void *data, uint64_t length)
{
	io->store = &s->elv;
	io->op = op;
	io->flags = flags;
	io->offset = offset;
	io->length = length;
	io->vec[0].iov_base = data;
	io->vec[0].iov_len = length;
	io->iov = io->vec;
	io->niov = data ? 1 : 0;
	io->result = -12345;
	io->sync_failed = false;
}

static UNUSED void wait_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, 60000);
	while (r < 0 && errno == EINTR);
	ck_assert_msg(r == 1, "no wake-up in a minute");
}

/* Submit and wait for all of them, in whatever order they end. */
static UNUSED void do_ios(struct lane *lane, struct elv_io *ios, unsigned n)
{
	struct elv_ios list = TAILQ_HEAD_INITIALIZER(list), done = TAILQ_HEAD_INITIALIZER(done);
	unsigned got;

	for (unsigned i = 0; i < n; i++)
		TAILQ_INSERT_TAIL(&list, &ios[i], link);
	lane_submit(lane, &list);
	ck_assert(TAILQ_EMPTY(&list));
	got = lane_reap(lane, &done);
	while (got < n) {
		wait_readable(lane_fd(lane));
		got += lane_reap(lane, &done);
	}
	ck_assert_uint_eq(got, n);
	ck_assert_uint_eq(lane_in_flight(lane), 0);
}

/* One io, through the lane or, if that is NULL, by the calling thread. */
static UNUSED int64_t do_io(struct lane *lane, struct store *s, enum elv_op op, unsigned flags,
			    uint64_t offset, void *data, uint64_t length)
{
	struct elv_io *io = malloc(sizeof(*io));
	int64_t r;

	set_io(io, s, op, flags, offset, data, length);
	if (lane)
		do_ios(lane, io, 1);
	else
		store_run(s, io);
	r = io->result;
	free(io);
	return r;
}

static UNUSED struct lane *open_lane(bool ring)
{
	struct lane *lane;

	ck_assert_msg(!lane_open(&lane, ring, err, sizeof(err)), "%s", err);
	return lane;
}

#endif
