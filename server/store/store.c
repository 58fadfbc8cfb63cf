/*
 * Stores: the list of those that are open, who may share one, and the calls into them.
 */
#include "server/store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "server/store/dirty.h"
#include "server/store/internal.h"

/* The open stores; the main thread's. */
static TAILQ_HEAD(stores, store) stores = TAILQ_HEAD_INITIALIZER(stores);

int store_fail(char *err, size_t errlen, int error, const char *format, ...)
{
	va_list args;

	if (err && errlen) {
		va_start(args, format);
		vsnprintf(err, errlen, format, args);
		va_end(args);
	}
	return error;
}

void store_sleep_until(uint64_t when)
{
	struct timespec t = { .tv_sec = when / STORE_NS_PER_S, .tv_nsec = when % STORE_NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* ---- one store ---- */

/* Free one of a chain, which must be closed. */
static void free_store(struct store *s)
{
	tunable_free(store_rows, &s->params);
	free(s->name);
	free(s);
}

static void close_chain(struct store *s)
{
	while (s) {
		struct store *below = s->below;

		s->ops->close(s);
		free_store(s);
		s = below;
	}
}

/* Put one store on top of *top. 0, or a negative errno and *top is as before. */
static int add_store(struct store **top, const struct store_ops *ops, const char *name,
		     const struct store_params *params, char *err, size_t errlen)
{
	struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return store_fail(err, errlen, -ENOMEM, "out of memory");
	s->ops = ops;
	s->below = *top;
	s->name = strdup(name);
	if (!s->name || tunable_copy(store_rows, &s->params, params)) {
		free(s->name);
		free(s);
		return store_fail(err, errlen, -ENOMEM, "out of memory");
	}
	if (s->below) {
		s->dev = s->below->dev;
		s->ino = s->below->ino;
		memcpy(s->notice, s->below->notice, sizeof(s->notice));
	}
	r = ops->open(s, err, errlen);
	if (r) {
		free_store(s);
		return r;
	}
	*top = s;
	return 0;
}

void store_take_geometry(struct store *s)
{
	s->geometry = s->below->geometry;
	s->geometry.aio = "threads";
}

static bool is_fault_row(const struct tunable *row)
{
	return !strncmp(row->name, "fault_", 6);
}

/* fault_errno alone does nothing. */
static bool wants_fault(const struct store_params *params)
{
	for (const struct tunable *row = store_rows; row->name; row++)
		if (is_fault_row(row) && strcmp(row->name, "fault_errno") &&
		    tunable_num(row, params))
			return true;
	return false;
}

/* ---- sharing ---- */

static struct store *find(dev_t dev, ino_t ino)
{
	struct store *s;

	TAILQ_FOREACH(s, &stores, link)
		if ((s->dev || s->ino) && s->dev == dev && s->ino == ino)
			return s;
	return NULL;
}

/* The settings that all exports of one image must have alike. */
static bool must_match(const struct tunable *row)
{
	static const char *const names[] = { "cache", "aio", "lock", "disk_model" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(row->name, names[i]))
			return true;
	return is_fault_row(row);
}

int store_check_shared(const char *name, const struct store_params *params, const char *other,
		       const struct store_params *theirs, char *err, size_t errlen)
{
	for (const struct tunable *row = store_rows; row->name; row++) {
		char a[64], b[64];

		if (!must_match(row) || tunable_num(row, params) == tunable_num(row, theirs))
			continue;
		tunable_print(row, tunable_num(row, params), a, sizeof(a));
		tunable_print(row, tunable_num(row, theirs), b, sizeof(b));
		return store_fail(err, errlen, -EINVAL, "exports '%s' and '%s' are of the same "
				  "image, %s, so %s must be the same: it is %s and %s", name,
				  other, params->path, row->name, a, b);
	}
	return 0;
}

static int check_match(const struct store *s, const char *name, const struct store_params *params,
		       char *err, size_t errlen)
{
	int r = store_check_shared(name, params, s->name, &s->params, err, errlen);

	if (r)
		return r;
	if (params->size && params->size != s->geometry.size)
		return store_fail(err, errlen, -EINVAL, "%s has %llu bytes, not size=%llu",
				  params->path, (unsigned long long)s->geometry.size,
				  (unsigned long long)params->size);
	if (params->rotational != TUNABLE_AUTO && params->rotational != s->geometry.rotational)
		return store_fail(err, errlen, -EINVAL, "exports '%s' and '%s' are of the same "
				  "image, %s, so rotational must be the same: it is %d and %d",
				  name, s->name, params->path, !s->geometry.rotational,
				  s->geometry.rotational);
	return 0;
}

/* Export `name` becomes another user of an open store. */
static int join(struct store *s, const char *name, const struct store_params *params,
		char *err, size_t errlen)
{
	int r = check_match(s, name, params, err, errlen);

	if (!r && !store_can(s, STORE_CAN_WRITE) && !params->readonly)
		r = s->ops->make_writable(s, err, errlen);
	if (!r)
		s->users++;
	return r;
}

/* ---- opening and closing ---- */

int store_open(const char *name, const struct store_params *params, struct store **out,
	       char *err, size_t errlen)
{
	bool is_null = params->path && !strcmp(params->path, "null:");
	struct store *s = NULL;
	struct stat st;
	int r;

	if (!params->path || !*params->path)
		return store_fail(err, errlen, -EINVAL, "export '%s' has no path: a file, a block "
				  "device or null:", name);
	if (!is_null && !stat(params->path, &st)) {
		s = S_ISBLK(st.st_mode) ? find(st.st_rdev, 0) : find(st.st_dev, st.st_ino);
		if (s) {
			r = join(s, name, params, err, errlen);
			*out = r ? NULL : s;
			return r;
		}
	}
	r = add_store(&s, is_null ? &null_ops : &file_ops, name, params, err, errlen);
	if (!r && params->model == STORE_MODEL_HDD7200)
		r = add_store(&s, &hdd_ops, name, params, err, errlen);
	if (!r && wants_fault(params))
		r = add_store(&s, &fault_ops, name, params, err, errlen);
	if (r) {
		close_chain(s);
		return r;
	}
	s->users = 1;
	TAILQ_INSERT_TAIL(&stores, s, link);
	*out = s;
	return 0;
}

void store_rename(struct store *s, const char *name)
{
	for (; s; s = s->below) {
		char *copy = strdup(name);

		if (!copy) /* the old name still says which image it is about */
			return;
		free(s->name);
		s->name = copy;
	}
}

void store_close(struct store *s)
{
	if (!s || --s->users)
		return;
	TAILQ_REMOVE(&stores, s, link);
	close_chain(s);
}

/* ---- settings, counters ---- */

int store_check_params(const struct store *s, const struct store_params *params, char *err,
		       size_t errlen)
{
	if (s->ops == &fault_ops || !wants_fault(params))
		return 0;
	return store_fail(err, errlen, -EINVAL, "fault_ settings can be changed only where one of "
			  "them was set at the start");
}

void store_set_params(struct store *s, const struct store_params *params)
{
	for (; s; s = s->below) {
		for (const struct tunable *row = store_rows; row->name; row++) {
			uint64_t *to = (uint64_t *)((char *)&s->params + row->offset);

			if (row->when == WHEN_RUNTIME)
				__atomic_store_n(to, tunable_num(row, params), __ATOMIC_RELAXED);
		}
	}
}

void store_get_stats(const struct store *s, struct store_stats *out)
{
	const uint64_t *from;
	uint64_t *to = (uint64_t *)out;

	/* Where the data is, there is the counting done. */
	while (s->below)
		s = s->below;
	from = (const uint64_t *)&s->stats;
	for (size_t i = 0; i < sizeof(*out) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	out->dirty_bytes = s->ops == &file_ops ? file_dirty_bytes(s) : 0;
}

/* ---- the rest ---- */

void store_run(struct store *s, struct elv_io *io)
{
	store_check_io(s, io);
	io->result = 0;
	io->sync_failed = false;
	s->ops->run(s, io);
}

int store_extents(struct store *s, uint64_t offset, uint64_t max, uint64_t *length, bool *hole)
{
	assert(max && offset + max <= s->geometry.size);
	*length = max;
	*hole = false;
	return s->ops->extents ? s->ops->extents(s, offset, max, length, hole) : 0;
}

int store_status(struct store *s, const struct elv_io *io)
{
	struct elv_status *status = io->iov[0].iov_base;
	uint64_t at = io->offset, end = io->offset + io->length, length;
	struct elv_extent *last = NULL;
	bool hole;
	int r;

	status->n = 0;
	for (; at < end; at += length) {
		r = store_extents(s, at, end - at, &length, &hole);
		if (r)
			return last ? 0 : r; /* whoever asks again for the rest gets the error */
		if (last && last->hole == hole) {
			last->length += length;
			continue;
		}
		if (status->n == status->max)
			return 0;
		last = &status->extent[status->n++];
		*last = (struct elv_extent){ .length = length, .hole = hole };
	}
	return 0;
}

int store_crash(struct store *s, uint64_t seed)
{
	return s->ops == &fault_ops ? fault_crash(s, seed) : -ENOTSUP;
}
