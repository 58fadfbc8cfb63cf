/*
 * The in-memory image: bytes, who wrote them, and which of that would survive a power cut.
 *
 * Each write fills its bytes with a pattern of its own, and beside each byte the image keeps the
 * writer: the serial of the request in arrival order, shifted by one, with bit 0 set if the byte is
 * zero (trimmed, zeroed, or never written). Whatever the elevator does, on each byte
 *  - writers must follow each other in arrival order: an old write never lands after a newer one;
 *  - a read must see no less than what had been answered when it arrived, nothing that its own
 *    client wrote later, and the bytes that belong to the writer it saw;
 *  - after a FLUSH, everything that had been answered when it arrived is durable; after a FUA
 *    request, that request is.
 * Durable is what a sync found in the image when it began, and what a FUA io wrote.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/sim/internal.h"

struct sim_image {
	uint64_t size;
	char *data;
	uint64_t *writer;   /* of each byte */
	uint64_t *answered; /* the youngest answered writer of each byte */
	uint64_t *stable;   /* the youngest writer that is durable */
	uint64_t *syncing;  /* writer, when the sync that runs began */
};

static uint64_t writer_of(const struct sim_request *r)
{
	return r->serial << 1 | (r->op != ELV_WRITE);
}

char sim_pattern(uint64_t serial, uint64_t offset)
{
	uint64_t z = (serial * 0x9e3779b97f4a7c15 ^ offset) * 0xbf58476d1ce4e5b9;

	return (char)(z >> 56);
}

static char expected(uint64_t writer, uint64_t offset)
{
	return writer & 1 ? 0 : sim_pattern(writer >> 1, offset);
}

struct sim_image *sim_image_new(uint64_t size)
{
	struct sim_image *img = sim_alloc(sizeof(*img));

	img->size = size;
	img->data = sim_alloc(size);
	img->writer = sim_alloc(size * sizeof(uint64_t));
	img->answered = sim_alloc(size * sizeof(uint64_t));
	img->stable = sim_alloc(size * sizeof(uint64_t));
	img->syncing = sim_alloc(size * sizeof(uint64_t));
	for (uint64_t i = 0; i < size; i++)
		img->writer[i] = 1;
	return img;
}

void sim_image_free(struct sim_image *img)
{
	if (!img)
		return;
	free(img->data);
	free(img->writer);
	free(img->answered);
	free(img->stable);
	free(img->syncing);
	free(img);
}

/* --- what ios do --- */

/* Move n bytes between the image and the io's pieces of memory. */
static void transfer(struct sim_image *img, const struct elv_io *io, uint64_t n)
{
	uint64_t at = io->offset;

	for (unsigned i = 0; i < io->niov && n; i++) {
		uint64_t len = io->iov[i].iov_len < n ? io->iov[i].iov_len : n;

		if (io->op == ELV_READ)
			memcpy(io->iov[i].iov_base, img->data + at, len);
		else
			memcpy(img->data + at, io->iov[i].iov_base, len);
		at += len;
		n -= len;
	}
}

static void execute_piece(struct sim_store *s, const struct sim_flight *f,
			  const struct sim_piece *p, uint64_t end)
{
	struct sim_image *img = s->image;
	struct sim_request *r = p->r;
	uint64_t from = p->offset > f->io->offset ? p->offset : f->io->offset;
	uint64_t to = p->offset + p->length < end ? p->offset + p->length : end;

	for (uint64_t i = from; i < to; i++) {
		if (elv_modifies(r->op)) {
			if (img->writer[i] >> 1 > r->serial)
				sim_wrong(f->disk->sim, "request %llu is written over %llu at %llu",
					  (unsigned long long)r->serial,
					  (unsigned long long)(img->writer[i] >> 1),
					  (unsigned long long)i);
			img->writer[i] = writer_of(r);
		} else if (r->op == ELV_READ) {
			r->saw[i - r->offset] = img->writer[i];
		}
	}
}

void sim_image_execute(struct sim_store *s, struct sim_flight *f, uint64_t n)
{
	struct sim_image *img = s->image;
	const struct elv_io *io = f->io;

	if (!f->export) {
		memcpy(img->syncing, img->writer, img->size * sizeof(uint64_t));
		return;
	}
	if (io->op == ELV_TRIM || io->op == ELV_ZERO)
		memset(img->data + io->offset, 0, n);
	else if (!elv_is_unordered(io->op))
		transfer(img, io, n);
	for (unsigned i = 0; i < f->npieces; i++)
		execute_piece(s, f, &f->pieces[i], io->offset + n);
}

static void raise_to(uint64_t *to, uint64_t value)
{
	if (value > *to)
		*to = value;
}

/*
 * After a sync that failed nobody will write those bytes again: they count as durable, because
 * whoever relied on them must be told (oracle.c), not because they are.
 */
void sim_image_settle(struct sim_store *s, struct sim_flight *f)
{
	struct sim_image *img = s->image;

	if (!f->export || f->sync_failed) {
		const uint64_t *from = f->export ? img->writer : img->syncing;

		for (uint64_t i = 0; i < img->size; i++)
			raise_to(&img->stable[i], from[i]);
	} else if (f->io->op == ELV_WRITE && (f->io->flags & ELV_FUA) &&
		   f->result == (int64_t)f->io->length) {
		for (uint64_t i = f->io->offset; i < f->io->offset + f->io->length; i++)
			raise_to(&img->stable[i], img->writer[i]);
	}
}

/* --- what requests see --- */

void sim_image_arrive(struct sim_store *s, struct sim_request *r)
{
	struct sim_image *img = s->image;

	r->data = sim_alloc(r->length + 1);
	if (r->op == ELV_WRITE) {
		for (uint64_t i = 0; i < r->length; i++)
			r->data[i] = sim_pattern(r->serial, r->offset + i);
	} else if (r->op == ELV_READ) {
		r->saw = sim_alloc(r->length * sizeof(uint64_t));
		r->floor = sim_alloc(r->length * sizeof(uint64_t));
		memcpy(r->floor, img->answered + r->offset, r->length * sizeof(uint64_t));
	} else if (r->op == ELV_FLUSH) {
		r->floor = sim_alloc(img->size * sizeof(uint64_t));
		memcpy(r->floor, img->answered, img->size * sizeof(uint64_t));
	}
}

static void check_read(struct sim *sim, const struct sim_request *r)
{
	for (uint64_t i = 0; i < r->length; i++) {
		uint64_t at = r->offset + i;

		if (r->data[i] != expected(r->saw[i], at))
			sim_wrong(sim, "read %llu got a wrong byte at %llu",
				  (unsigned long long)r->serial, (unsigned long long)at);
		if (r->saw[i] < r->floor[i])
			sim_wrong(sim, "read %llu saw %llu at %llu, but %llu had been answered",
				  (unsigned long long)r->serial, (unsigned long long)r->saw[i] >> 1,
				  (unsigned long long)at, (unsigned long long)r->floor[i] >> 1);
	}
}

static void check_modified(struct sim *sim, struct sim_image *img, const struct sim_request *r)
{
	for (uint64_t i = r->offset; i < r->offset + r->length; i++) {
		if (img->writer[i] >> 1 < r->serial)
			sim_wrong(sim, "write %llu was answered, but not written at %llu",
				  (unsigned long long)r->serial, (unsigned long long)i);
		if ((r->flags & ELV_FUA) && img->stable[i] >> 1 < r->serial)
			sim_wrong(sim, "FUA request %llu was answered, but is not durable at %llu",
				  (unsigned long long)r->serial, (unsigned long long)i);
		raise_to(&img->answered[i], writer_of(r));
	}
}

static void check_flush(struct sim *sim, struct sim_image *img, const struct sim_request *r)
{
	for (uint64_t i = 0; i < img->size; i++)
		if (img->stable[i] < r->floor[i])
			sim_wrong(sim, "flush %llu was answered, but %llu is not durable at %llu",
				  (unsigned long long)r->serial,
				  (unsigned long long)r->floor[i] >> 1, (unsigned long long)i);
}

void sim_image_reply(struct sim_store *s, struct sim_request *r)
{
	struct sim_image *img = s->image;
	struct sim *sim = s->disk->sim;

	if (r->rq.error || !r->conn->c.open)
		return;
	if (r->op == ELV_READ)
		check_read(sim, r);
	else if (elv_modifies(r->op))
		check_modified(sim, img, r);
	else if (r->op == ELV_FLUSH)
		check_flush(sim, img, r);
}

void sim_image_check(struct sim *sim, struct sim_store *s)
{
	struct sim_image *img = s->image;

	for (uint64_t i = 0; i < img->size; i++)
		if (img->data[i] != expected(img->writer[i], i))
			sim_wrong(sim, "the image has a wrong byte at %llu", (unsigned long long)i);
}
