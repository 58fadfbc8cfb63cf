#include "server/export/disk.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/export/registry.h"

uint64_t disk_lock(struct disk *d)
{
	pthread_mutex_lock(&d->lock);
	return disk_now();
}

uint64_t disk_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void disk_unlock(struct disk *d)
{
	pthread_mutex_unlock(&d->lock);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* "auto", "0" or "1" */
static const char *rotational_text(uint64_t value)
{
	return value == TUNABLE_AUTO ? "auto" : value ? "1" : "0";
}

static const char *model_text(uint64_t value)
{
	const struct tunable *t = tunable_find(store_rows, "disk_model");

	return t && t->choices ? t->choices[value] : "?";
}

bool disk_rotational(const struct export *e)
{
	uint64_t set = e->settings.store.rotational;

	return set == TUNABLE_AUTO ? e->store->geometry.rotational : set;
}

/*
 * Exports of one disk must have one opinion of it. What one leaves to be detected is compared as
 * detected, if the other one is explicit.
 */
static int check_agreement(const struct export *e, const struct export *other, char *err,
			   size_t errlen)
{
	const struct store_params *a = &other->settings.store, *b = &e->settings.store;

	if (a->model != b->model) {
		snprintf(err, errlen,
			 "exports '%s' and '%s' are on one disk, but have different settings: "
			 "disk_model=%s and disk_model=%s",
			 other->name, e->name, model_text(a->model), model_text(b->model));
		return -EINVAL;
	}
	if (disk_rotational(other) != disk_rotational(e) &&
	    (a->rotational != TUNABLE_AUTO || b->rotational != TUNABLE_AUTO)) {
		snprintf(err, errlen,
			 "exports '%s' and '%s' are on one disk, but have different settings: "
			 "rotational=%s and rotational=%s",
			 other->name, e->name, rotational_text(a->rotational),
			 rotational_text(b->rotational));
		return -EINVAL;
	}
	return 0;
}

/* One that has no export any more, or another. */
static struct disk *disk_unused(struct server *s)
{
	struct disk *d;

	TAILQ_FOREACH(d, &s->disks, link)
		if (!d->exports)
			return d;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	pthread_mutex_init(&d->lock, NULL);
	d->index = s->ndisks++;
	TAILQ_INSERT_TAIL(&s->disks, d, link);
	return d;
}

static struct disk *disk_new(struct server *s, uint64_t device, const char *group)
{
	char *copy = group ? strdup(group) : NULL;
	struct disk *d = !group || copy ? disk_unused(s) : NULL;

	if (!d) {
		free(copy);
		return NULL;
	}
	/* Loops that have visited it before may do so now. */
	disk_lock(d);
	elv_disk_init(&d->elv);
	disk_unlock(d);
	d->device = device;
	d->group = copy;
	return d;
}

/* The disk that the settings and the device lead to, or NULL. */
static struct disk *disk_find(struct server *s, uint64_t device, const char *group)
{
	struct disk *d;

	TAILQ_FOREACH(d, &s->disks, link) {
		if (!d->exports)
			continue;
		if (group ? same_text(d->group, group) : !d->group && device && d->device == device)
			return d;
	}
	return NULL;
}

int disk_attach(struct server *s, struct export *e, char *err, size_t errlen)
{
	const char *group = e->settings.export.device_group;
	struct store *store = e->store;
	struct export *other;
	struct disk *d = NULL;
	int res;

	if (group && !*group)
		group = NULL;
	TAILQ_FOREACH(other, &s->exports, link) {
		if (other->store != store)
			continue;
		if (!same_text(other->disk->group, group)) {
			snprintf(err, errlen,
				 "exports '%s' and '%s' are the same image, but have different "
				 "settings: device_group=%s and device_group=%s",
				 other->name, e->name, other->disk->group ? other->disk->group : "",
				 group ? group : "");
			return -EINVAL;
		}
		d = other->disk;
		break;
	}
	if (!d)
		d = disk_find(s, store->geometry.device, group);
	TAILQ_FOREACH(other, &s->exports, link) {
		if (!d || other->disk != d)
			continue;
		res = check_agreement(e, other, err, errlen);
		if (res)
			return res;
	}
	if (!d)
		d = disk_new(s, store->geometry.device, group);
	if (!d) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	if (store->users == 1) {
		disk_lock(d);
		elv_store_init(&store->elv, &d->elv, store->geometry.block);
		disk_unlock(d);
	}
	d->exports++;
	e->disk = d;
	return 0;
}

void disk_detach(struct export *e)
{
	struct disk *d = e->disk;

	if (!d)
		return;
	if (e->store->users == 1) {
		disk_lock(d);
		elv_store_exit(&e->store->elv);
		disk_unlock(d);
	}
	e->disk = NULL;
	if (--d->exports)
		return;
	free(d->group);
	d->group = NULL;
	d->device = 0;
}

void disks_free(struct server *s)
{
	struct disk *d;

	while ((d = TAILQ_FIRST(&s->disks))) {
		assert(!d->exports);
		TAILQ_REMOVE(&s->disks, d, link);
		pthread_mutex_destroy(&d->lock);
		free(d);
	}
}
