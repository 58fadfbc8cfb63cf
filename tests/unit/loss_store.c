/*
 * The disk of a loss test as a real store: the fault store around a file, executed by store_run. The
 * plan's faults are its settings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/store/store.h"
#include "tests/unit/loss.h"

struct real {
	struct store *store;
	struct store_params params;
	char path[64];
	int fd;         /* of the file, which has no name any more */
	bool crashed, repaired;
};

/* Where syncs cost nothing, unless direct I/O is asked for, which not every tmpfs has. */
static void make_path(const struct loss_plan *p, char *path, size_t len)
{
	int fd;

	snprintf(path, len, "/dev/shm/lift-loss.%ld", (long)getpid());
	fd = open(path, O_RDWR | O_CREAT | (strstr(p->store, "cache=none") ? O_DIRECT : 0), 0600);
	if (fd < 0)
		snprintf(path, len, "/var/tmp/lift-loss.%ld", (long)getpid());
	else
		close(fd);
	unlink(path);
}

/* "name=value name=value", and what the plan needs. */
static int read_params(struct loss_disk *d, struct store_params *p, char *err, size_t errlen)
{
	struct tunable_changes c = { .when = WHEN_START };
	char text[256], *save, *word;
	int r = tunable_defaults(store_rows, p);

	snprintf(text, sizeof(text), "%s size=%d fault_errno=%s", d->plan->store, LOSS_SIZE,
		 d->plan->error == -ENOSPC ? "ENOSPC" : "EIO");
	for (word = strtok_r(text, " ", &save); word && !r; word = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(word, '=');

		*eq = '\0';
		r = tunable_changes_set(&c, store_rows, p, word, eq + 1, err, errlen);
	}
	if (!r)
		tunable_changes_commit(&c);
	tunable_changes_free(&c);
	if (d->plan->fault == LOSS_CRASH)
		p->fault_crash_at = d->plan->fault_at;
	if (d->plan->fault == LOSS_ERROR)
		p->fault_error_at = d->plan->fault_at;
	return r;
}

static int real_open(struct loss_disk *d, char *err, size_t errlen)
{
	struct real *real = calloc(1, sizeof(*real));
	int r;

	d->priv = real;
	make_path(d->plan, real->path, sizeof(real->path));
	r = read_params(d, &real->params, err, errlen);
	if (!r) {
		real->params.path = strdup(real->path);
		/* Any of them makes it a fault store, to be set as the run goes. */
		real->params.fault_delay = 1;
		r = store_open("loss", &real->params, &real->store, err, errlen);
		real->params.fault_delay = 0;
	}
	if (r) {
		tunable_free(store_rows, &real->params);
		free(real);
		return r;
	}
	real->fd = open(real->path, O_RDONLY);
	unlink(real->path);
	store_set_params(real->store, &real->params);
	d->elv = &real->store->elv;
	d->block = real->store->geometry.block;
	d->durable = real->params.cache == STORE_CACHE_WRITETHROUGH;
	return 0;
}

static void real_close(struct loss_disk *d)
{
	struct real *real = d->priv;

	store_close(real->store);
	close(real->fd);
	tunable_free(store_rows, &real->params);
	free(real);
}

/* The settings for the next io. Those that count by themselves are left to it. */
static void set_faults(struct loss_disk *d, const struct elv_io *io)
{
	struct real *real = d->priv;
	const struct loss_plan *p = d->plan;
	struct store_params *params = &real->params;
	bool now = d->ios == p->fault_at, later = d->ios > p->fault_at;

	params->fault_error_every = p->fault == LOSS_ERRORS && (now || later) && !real->repaired;
	params->fault_short_every = p->fault == LOSS_SHORT && now;
	params->fault_sync_error_every = p->fault == LOSS_SYNC_ERROR && loss_is_sync(d, io) &&
		d->syncs == p->fault_at && !real->repaired;
	store_set_params(real->store, params);
	if (p->fault == LOSS_SYNC_ERROR ? params->fault_sync_error_every : p->fault && (now || later))
		d->fault_came = true;
}

static void real_run(struct loss_disk *d, struct elv_io *io)
{
	struct real *real = d->priv;

	d->ios++;
	d->syncs += loss_is_sync(d, io);
	set_faults(d, io);
	store_run(real->store, io);
}

static void real_repair(struct loss_disk *d)
{
	struct real *real = d->priv;

	real->repaired = true;
	real->params.fault_error_at = 0;
	real->params.fault_error_every = 0;
	store_set_params(real->store, &real->params);
}

static void real_crash(struct loss_disk *d, uint64_t seed)
{
	struct real *real = d->priv;

	real->crashed = true;
	if (store_crash(real->store, seed))
		fprintf(stderr, "store_crash failed\n");
}

/* Through the store, without faults; after a crash the file must be the same. */
static void real_read(struct loss_disk *d, char *buf)
{
	static char file[LOSS_SIZE];
	struct real *real = d->priv;

	real->params.fault_error_at = 0;
	real->params.fault_error_every = real->params.fault_short_every = 0;
	store_set_params(real->store, &real->params);
	for (unsigned at = 0; at < LOSS_SIZE; at += 4096) {
		struct iovec iov = { buf + at, 4096 };
		struct elv_io io = { .store = d->elv, .op = ELV_READ, .offset = at, .length = 4096, .iov = &iov,
				     .niov = 1 };

		store_run(real->store, &io);
		if (io.result != 4096)
			memset(buf + at, 0xee, 4096);
	}
	if (real->crashed && (pread(real->fd, file, LOSS_SIZE, 0) != LOSS_SIZE || memcmp(file, buf, LOSS_SIZE)))
		memset(buf, 0xee, LOSS_SIZE);
}

const struct loss_disk_ops loss_store = {
	.open = real_open,
	.close = real_close,
	.run = real_run,
	.repair = real_repair,
	.crash = real_crash,
	.read = real_read,
};
