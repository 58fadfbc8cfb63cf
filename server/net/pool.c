#include "server/net/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A kept buffer holds the list itself. */
struct pool_buffer {
	struct pool_buffer *next;
};

/* From here on straight from the kernel: the heap would keep it, in pieces. And by huge pages. */
enum { MAP_FROM = 128 << 10, HUGE_FROM = 2 << 20 };

static unsigned class_of(size_t len)
{
	assert(len > 0 && len <= (size_t)POOL_ALIGN << (POOL_CLASSES - 1));
	if (len <= POOL_ALIGN)
		return 0;
	return (unsigned)(64 - __builtin_clzll((len - 1) / POOL_ALIGN));
}

static size_t class_size(unsigned class)
{
	return (size_t)POOL_ALIGN << class;
}

static void *allocate(size_t size)
{
	void *p;

	if (size < MAP_FROM)
		return aligned_alloc(POOL_ALIGN, size);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	/*
	 * The kernel provides its pages when they are first written to, by the loop, if it reads
	 * what is cached. Few large ones take a fraction of the time. No matter if there are none.
	 */
	if (size >= HUGE_FROM)
		madvise(p, size, MADV_HUGEPAGE);
	return p;
}

static void release(void *buffer, size_t size)
{
	if (size < MAP_FROM)
		free(buffer);
	else
		munmap(buffer, size);
}

void pool_init(struct pool *p)
{
	*p = (struct pool){ .kept_bytes = 0 };
}

void *pool_get(struct pool *p, size_t len)
{
	unsigned class = class_of(len);
	struct pool_buffer *b = p->kept[class];

	if (!b)
		return allocate(class_size(class));
	p->kept[class] = b->next;
	p->kept_bytes -= class_size(class);
	return b;
}

void pool_put(struct pool *p, void *buffer, size_t len)
{
	struct pool_buffer *b = buffer;
	unsigned class;

	if (!b)
		return;
	class = class_of(len);
	if (p->kept_bytes + class_size(class) > POOL_KEEP) {
		release(b, class_size(class));
		return;
	}
	b->next = p->kept[class];
	p->kept[class] = b;
	p->kept_bytes += class_size(class);
}

void pool_trim(struct pool *p, size_t keep)
{
	for (unsigned class = POOL_CLASSES; class-- > 0 && p->kept_bytes > keep;) {
		struct pool_buffer *b;

		while ((b = p->kept[class]) && p->kept_bytes > keep) {
			p->kept[class] = b->next;
			p->kept_bytes -= class_size(class);
			release(b, class_size(class));
		}
	}
}
