/*
 * Direct I/O through aligned memory.
 *
 * An io is handled in pieces that fit into a buffer, each rounded out to the alignment. Blocks
 * that a write covers in part are read first; that nobody else writes to them meanwhile is the
 * elevator's promise (geometry.block).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/store/file.h"

int bounce_open(struct bounce *b)
{
	b->memory = mmap(NULL, BOUNCE_BUFFERS * BOUNCE_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->memory == MAP_FAILED) {
		b->memory = NULL;
		return -ENOMEM;
	}
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->freed, NULL);
	for (b->nfree = 0; b->nfree < BOUNCE_BUFFERS; b->nfree++)
		b->free[b->nfree] = b->memory + b->nfree * BOUNCE_SIZE;
	return 0;
}

void bounce_close(struct bounce *b)
{
	if (!b->memory)
		return;
	assert(b->nfree == BOUNCE_BUFFERS);
	munmap(b->memory, BOUNCE_BUFFERS * BOUNCE_SIZE);
	pthread_cond_destroy(&b->freed);
	pthread_mutex_destroy(&b->lock);
	b->memory = NULL;
}

static char *get(struct bounce *b)
{
	char *buf;

	pthread_mutex_lock(&b->lock);
	while (!b->nfree)
		pthread_cond_wait(&b->freed, &b->lock);
	buf = b->free[--b->nfree];
	pthread_mutex_unlock(&b->lock);
	return buf;
}

static void put(struct bounce *b, char *buf)
{
	pthread_mutex_lock(&b->lock);
	b->free[b->nfree++] = buf;
	pthread_cond_signal(&b->freed);
	pthread_mutex_unlock(&b->lock);
}

bool bounce_aligned(const struct file *f, const struct elv_io *io)
{
	uint64_t bits;

	if (!f->direct)
		return true;
	bits = (io->offset | io->length) & (f->align - 1);
	for (unsigned i = 0; i < io->niov; i++) {
		bits |= (uintptr_t)io->iov[i].iov_base & (f->mem_align - 1);
		bits |= io->iov[i].iov_len & (f->align - 1);
	}
	return !bits;
}

/* Copy between a buffer and the io's memory at `at` bytes from its start. */
static void copy(struct elv_io *io, uint64_t at, char *buf, uint64_t length, bool to_io)
{
	for (unsigned i = 0; length; i++) {
		const struct iovec *v = &io->iov[i];
		uint64_t n;

		assert(i < io->niov);
		if (at >= v->iov_len) {
			at -= v->iov_len;
			continue;
		}
		n = v->iov_len - at < length ? v->iov_len - at : length;
		if (to_io)
			memcpy((char *)v->iov_base + at, buf, n);
		else
			memcpy(buf, (char *)v->iov_base + at, n);
		buf += n;
		length -= n;
		at = 0;
	}
}

/* The whole of an aligned range. 0 or -errno; -EIO at the end of the file. */
static int read_all(int fd, char *buf, uint64_t length, uint64_t offset)
{
	while (length) {
		ssize_t n = pread(fd, buf, length, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		buf += n;
		offset += n;
		length -= n;
	}
	return 0;
}

static int write_all(int fd, char *buf, uint64_t length, uint64_t offset, int rwf)
{
	while (length) {
		struct iovec iov = { buf, length };
		ssize_t n = pwritev2(fd, &iov, 1, offset, rwf);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		buf += n;
		offset += n;
		length -= n;
	}
	return 0;
}

/* A piece of an io and the aligned range around it. */
struct piece {
	uint64_t from, to;   /* bytes of the image */
	uint64_t start, end; /* rounded out */
};

static struct piece piece_at(const struct file *f, uint64_t from, uint64_t to)
{
	uint64_t mask = f->align - 1;
	struct piece p = { .from = from, .start = from & ~mask };

	p.end = (to + mask) & ~mask;
	if (p.end > p.start + BOUNCE_SIZE)
		p.end = p.start + BOUNCE_SIZE;
	p.to = to < p.end ? to : p.end;
	return p;
}

/* Read what is around the piece in its first and last block. */
static int read_edges(struct file *f, const struct piece *p, char *buf)
{
	uint64_t last = p->end - f->align;
	int r = 0;

	if (p->from != p->start)
		r = read_all(file_fd(f), buf, f->align, p->start);
	if (!r && p->to != p->end && (last != p->start || p->from == p->start))
		r = read_all(file_fd(f), buf + (last - p->start), f->align, last);
	return r;
}

int64_t bounce_read(struct file *f, struct elv_io *io, uint64_t done)
{
	char *buf = get(&f->bounce);
	uint64_t began = done;
	int r = 0;

	while (!r && done < io->length) {
		struct piece p = piece_at(f, io->offset + done, io->offset + io->length);

		r = read_all(file_fd(f), buf, p.end - p.start, p.start);
		if (r)
			break;
		copy(io, done, buf + (p.from - p.start), p.to - p.from, true);
		done += p.to - p.from;
	}
	put(&f->bounce, buf);
	return done > began ? (int64_t)(done - began) : r;
}

int64_t bounce_write(struct file *f, struct elv_io *io, uint64_t done, int rwf)
{
	char *buf = get(&f->bounce);
	uint64_t began = done;
	int r = 0;

	while (done < io->length) {
		struct piece p = piece_at(f, io->offset + done, io->offset + io->length);

		r = read_edges(f, &p, buf);
		if (r)
			break;
		copy(io, done, buf + (p.from - p.start), p.to - p.from, false);
		r = write_all(file_fd(f), buf, p.end - p.start, p.start, rwf);
		if (r)
			break;
		done += p.to - p.from;
	}
	put(&f->bounce, buf);
	return done > began ? (int64_t)(done - began) : r;
}

int bounce_zero(struct file *f, uint64_t offset, uint64_t length)
{
	struct piece p = piece_at(f, offset, offset + length);
	char *buf = get(&f->bounce);
	int r;

	assert(p.to == offset + length);
	r = read_edges(f, &p, buf);
	if (!r) {
		memset(buf + (p.from - p.start), 0, length);
		r = write_all(file_fd(f), buf, p.end - p.start, p.start, 0);
	}
	put(&f->bounce, buf);
	return r;
}
