/*
 * A volatile write cache: see volatile.h.
 *
 *            write                   flush begins             written again        flush ends
 *   block:   now = A    ──────>   now = A, in_flush   ──>   now = B, before = A  ──>  A is saved,
 *                                                                                     now = B stays
 */
#include "server/store/volatile.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sched/tree.h"

/* The content of a block. EMPTY: there is none. */
enum kind { EMPTY, DATA, ZEROES, TRIMMED };

struct version {
	enum kind kind;
	char *data; /* of DATA */
};

struct block {
	struct tree_node node;  /* key: the offset in bytes */
	struct version now;     /* what reads see */
	struct version before;  /* what the running flush is to save, if it was written since */
	bool in_flush;          /* the running flush is to save `now` */
	bool lost;              /* `now` is not to be saved by a flush */
};

struct vcache {
	struct store *below;
	uint64_t seed, writes;
	pthread_mutex_t lock;   /* for everything; held during I/O below */
	pthread_mutex_t flush;  /* held by a running flush; taken before `lock` */
	struct tree blocks;
	uint64_t nblocks;
};

/* Decides about a block by numbers alone (splitmix64, Steele et al. 2014). */
static bool coin(uint64_t seed, uint64_t a, uint64_t b)
{
	uint64_t z = seed + (a + 1) * 0x9e3779b97f4a7c15 + (b + 1) * 0xd1342543de82ef95;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) & 1;
}

/* ---- I/O below ---- */

static int below_io(struct vcache *c, enum elv_op op, uint64_t offset, uint64_t length,
		    struct iovec *iov, unsigned niov)
{
	struct elv_io io;

	io.store = &c->below->elv;
	io.op = op;
	io.flags = op == ELV_ZERO ? ELV_NO_HOLE : 0;
	io.offset = offset;
	io.length = length;
	io.iov = iov;
	io.niov = niov;
	store_run(c->below, &io);
	return io.result < 0 ? (int)io.result : io.result < (int64_t)length ? -EIO : 0;
}

static uint64_t block_start(uint64_t offset)
{
	return offset - offset % VOLATILE_BLOCK;
}

/* The bytes of the block at this offset: fewer at the end of the image. */
static uint64_t block_length(const struct vcache *c, uint64_t offset)
{
	uint64_t left = c->below->geometry.size - offset;

	return left < VOLATILE_BLOCK ? left : VOLATILE_BLOCK;
}

/* ---- blocks ---- */

static struct block *first_from(struct vcache *c, uint64_t offset)
{
	struct tree_node *n = tree_lower_bound(&c->blocks, offset);

	return n ? tree_entry(n, struct block, node) : NULL;
}

static struct block *next_block(struct block *b)
{
	struct tree_node *n = tree_next(&b->node);

	return n ? tree_entry(n, struct block, node) : NULL;
}

static void clear(struct version *v)
{
	free(v->data);
	*v = (struct version) { .kind = EMPTY };
}

static void forget(struct vcache *c, struct block *b)
{
	tree_remove(&c->blocks, &b->node);
	c->nblocks--;
	clear(&b->now);
	clear(&b->before);
	free(b);
}

/* The block at this offset, new ones without content. NULL: out of memory. */
static struct block *get_block(struct vcache *c, uint64_t offset)
{
	struct block *b = first_from(c, offset);

	if (b && b->node.key == offset)
		return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	tree_insert(&c->blocks, &b->node, offset);
	c->nblocks++;
	return b;
}

/* Before a block is written: what the running flush is to save must stay. */
static void set_aside(struct block *b)
{
	if (b->in_flush) {
		b->before = b->now;
		b->now = (struct version) { .kind = EMPTY };
		b->in_flush = false;
	}
}

/* Give a block memory with its content, for writing a part of it. */
static int materialize(struct vcache *c, struct block *b)
{
	struct version old = b->in_flush ? b->now : (struct version) { .kind = EMPTY };
	uint64_t length = block_length(c, b->node.key);
	char *data = b->now.kind == DATA && !b->in_flush ? b->now.data : calloc(1, VOLATILE_BLOCK);
	struct iovec iov = { data, length };
	int r = 0;

	if (!data)
		return -ENOMEM;
	if (b->now.kind == EMPTY)
		r = below_io(c, ELV_READ, b->node.key, length, &iov, 1);
	if (r) {
		free(data);
		return r;
	}
	if (old.kind == DATA)
		memcpy(data, old.data, length);
	set_aside(b);
	b->now.kind = DATA;
	b->now.data = data;
	return 0;
}

/* ---- saving ---- */

/*
 * A run of neighbouring blocks with content of one kind, to be saved by one operation. Saving may
 * fail: then what was to be saved stays as it is, and the first error is kept.
 */
struct run {
	struct vcache *c;
	enum kind kind;
	uint64_t offset, length;
	struct iovec iov[ELV_MAX_SEGMENTS];
	unsigned n;
	int error;
};

static void save_run(struct run *r)
{
	static const enum elv_op ops[] = {
		[DATA] = ELV_WRITE, [ZEROES] = ELV_ZERO, [TRIMMED] = ELV_TRIM,
	};
	int error;

	if (!r->length)
		return;
	error = below_io(r->c, ops[r->kind], r->offset, r->length, r->iov, r->n);
	if (error && !r->error)
		r->error = error;
	r->length = 0;
	r->n = 0;
}

/* The version must stay until the run is saved. */
static void add_to_run(struct run *r, uint64_t offset, const struct version *v)
{
	uint64_t length = block_length(r->c, offset);

	if (v->kind != r->kind || offset != r->offset + r->length || r->n == ELV_MAX_SEGMENTS)
		save_run(r);
	if (!r->length) {
		r->kind = v->kind;
		r->offset = offset;
	}
	if (v->kind == DATA) {
		r->iov[r->n].iov_base = v->data;
		r->iov[r->n].iov_len = length;
		r->n++;
	}
	r->length += length;
}

/* Save the blocks in [start, end) for which `which` holds, and forget them. */
static int save(struct vcache *c, uint64_t start, uint64_t end,
		bool (*which)(const struct block *b, uint64_t seed), uint64_t seed)
{
	struct run r = { .c = c };
	struct block *b, *next;

	for (b = first_from(c, start); b && b->node.key < end; b = next_block(b))
		if (which(b, seed))
			add_to_run(&r, b->node.key, &b->now);
	save_run(&r);
	if (r.error)
		return r.error;
	for (b = first_from(c, start); b && b->node.key < end; b = next) {
		next = next_block(b);
		/* An older version that a flush has yet to save must not come after this one. */
		if (which(b, seed))
			forget(c, b);
	}
	return 0;
}

static bool all(const struct block *b, uint64_t seed)
{
	(void)b;
	(void)seed;
	return true;
}

static bool by_chance(const struct block *b, uint64_t seed)
{
	return !b->lost && coin(seed, b->node.key, 0);
}

/* ---- ios ---- */

/* Copy between [from, to) of the block at `at` and the io's memory. */
static void copy(const struct elv_io *io, char *data, uint64_t at, uint64_t from, uint64_t to,
		 bool to_io)
{
	uint64_t skip = from - io->offset;

	for (unsigned i = 0; from < to; i++) {
		const struct iovec *v = &io->iov[i];
		uint64_t n;

		if (skip >= v->iov_len) {
			skip -= v->iov_len;
			continue;
		}
		n = v->iov_len - skip < to - from ? v->iov_len - skip : to - from;
		if (!to_io)
			memcpy(data + (from - at), (char *)v->iov_base + skip, n);
		else if (data)
			memcpy((char *)v->iov_base + skip, data + (from - at), n);
		else
			memset((char *)v->iov_base + skip, 0, n);
		from += n;
		skip = 0;
	}
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int read_blocks(struct vcache *c, struct elv_io *io)
{
	uint64_t end = io->offset + io->length, at;
	struct block *b = first_from(c, block_start(io->offset));
	int r = below_io(c, ELV_READ, io->offset, io->length, io->iov, io->niov);

	for (; !r && b && b->node.key < end; b = next_block(b)) {
		at = b->node.key;
		copy(io, b->now.data, at, larger(io->offset, at),
		     smaller(end, at + block_length(c, at)), true);
	}
	return r;
}

/* Write, zero or trim [from, to) of the block at `at`. */
static int change_block(struct vcache *c, struct elv_io *io, uint64_t at, uint64_t from,
			uint64_t to)
{
	bool whole = from == at && to == at + block_length(c, at);
	struct block *b;
	int r;

	if (io->op == ELV_TRIM && !whole)
		return 0; /* a hint */
	b = get_block(c, at);
	if (!b)
		return -ENOMEM;
	if (io->op == ELV_WRITE || !whole) {
		r = materialize(c, b);
		if (r) {
			if (b->now.kind == EMPTY)
				forget(c, b);
			return r;
		}
		if (io->op == ELV_WRITE)
			copy(io, b->now.data, at, from, to, false);
		else
			memset(b->now.data + (from - at), 0, to - from);
	} else {
		set_aside(b);
		clear(&b->now);
		b->now.kind = io->op == ELV_ZERO ? ZEROES : TRIMMED;
	}
	b->lost = false;
	return 0;
}

static int change_blocks(struct vcache *c, struct elv_io *io, bool durable)
{
	uint64_t end = io->offset + io->length, start = block_start(io->offset);
	int r = 0;

	c->writes++;
	for (uint64_t at = start; !r && at < end; at += VOLATILE_BLOCK)
		r = change_block(c, io, at, larger(at, io->offset),
				 smaller(end, at + block_length(c, at)));
	if (!r && durable)
		r = save(c, start, end, all, 0);
	else if (!r && c->seed)
		r = save(c, start, end, by_chance, c->seed + c->writes);
	return r ? r : durable ? below_io(c, ELV_FLUSH, 0, 0, NULL, 0) : 0;
}

void vcache_run(struct vcache *c, struct elv_io *io, bool durable)
{
	int r;

	pthread_mutex_lock(&c->lock);
	if (io->op == ELV_READ)
		r = read_blocks(c, io);
	else if (io->op == ELV_CACHE)
		r = 0;
	else
		r = change_blocks(c, io, durable);
	pthread_mutex_unlock(&c->lock);
	io->result = r ? r : (int64_t)io->length;
}

void vcache_lose(struct vcache *c, uint64_t offset, uint64_t length)
{
	struct block *b;

	pthread_mutex_lock(&c->lock);
	for (b = first_from(c, block_start(offset)); b && b->node.key < offset + length;
	     b = next_block(b))
		b->lost = true;
	pthread_mutex_unlock(&c->lock);
}

/* ---- flush and crash ---- */

void vcache_flush_begin(struct vcache *c)
{
	pthread_mutex_lock(&c->flush);
	pthread_mutex_lock(&c->lock);
	for (struct block *b = first_from(c, 0); b; b = next_block(b))
		b->in_flush = !b->lost;
	pthread_mutex_unlock(&c->lock);
}

/* What the flush was to save is saved, or lost: it has nothing more to do with these blocks. */
static void settle(struct vcache *c, bool fails)
{
	struct block *b, *next;

	for (b = first_from(c, 0); b; b = next) {
		next = next_block(b);
		clear(&b->before);
		if (b->in_flush && !fails) {
			forget(c, b);
			continue;
		}
		b->lost |= b->in_flush;
		b->in_flush = false;
	}
}

int vcache_flush_end(struct vcache *c, bool fails)
{
	struct run r = { .c = c };

	pthread_mutex_lock(&c->lock);
	for (struct block *b = first_from(c, 0); b && !fails; b = next_block(b)) {
		if (b->before.kind != EMPTY)
			add_to_run(&r, b->node.key, &b->before);
		else if (b->in_flush)
			add_to_run(&r, b->node.key, &b->now);
	}
	save_run(&r);
	if (!r.error && !fails)
		r.error = below_io(c, ELV_FLUSH, 0, 0, NULL, 0);
	settle(c, fails || r.error);
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_unlock(&c->flush);
	return r.error;
}

int vcache_crash(struct vcache *c, uint64_t seed)
{
	struct block *b;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	if (seed)
		r = save(c, 0, UINT64_MAX, by_chance, seed);
	while ((b = first_from(c, 0)))
		forget(c, b);
	pthread_mutex_unlock(&c->lock);
	return r;
}

uint64_t vcache_blocks(struct vcache *c)
{
	uint64_t n;

	pthread_mutex_lock(&c->lock);
	n = c->nblocks;
	pthread_mutex_unlock(&c->lock);
	return n;
}

int vcache_open(struct vcache **out, struct store *below, uint64_t seed)
{
	struct vcache *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->below = below;
	c->seed = seed;
	tree_init(&c->blocks, NULL);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->flush, NULL);
	*out = c;
	return 0;
}

void vcache_close(struct vcache *c)
{
	struct block *b;

	if (!c)
		return;
	while ((b = first_from(c, 0)))
		forget(c, b);
	pthread_mutex_destroy(&c->flush);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
