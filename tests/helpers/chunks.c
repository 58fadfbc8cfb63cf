/*
 * What a server makes of structured replies, through libnbd: chunks URI FILE
 *
 * FILE has what the export has, holes in the same places. Reads it with and without DF, asks for
 * its extents in several ways, and compares; then prints how many chunks of data and of holes came.
 * Exit status 1 and a sentence if something is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <libnbd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct nbd_handle *nbd;
static const char *file;   /* what the export has */
static int file_fd;
static uint64_t size;
static char *buffer;       /* of the largest read */
static unsigned data_chunks, holes;

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "chunks: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static void check(int result, const char *what)
{
	if (result < 0)
		die("%s: %s", what, nbd_get_error());
}

/* ---- reads ---- */

struct reading {
	uint64_t offset, length, covered;
	unsigned chunks, data, holes;
};

static int on_chunk(void *arg, const void *bytes, size_t n, uint64_t offset, unsigned status,
		    int *error)
{
	struct reading *r = arg;

	(void)error;
	if (offset < r->offset || offset + n > r->offset + r->length)
		die("a chunk at %llu is not within the read", (unsigned long long)offset);
	r->covered += n;
	r->chunks++;
	if (status == LIBNBD_READ_HOLE)
		r->holes++;
	else if (status == LIBNBD_READ_DATA)
		r->data++;
	else
		die("an error chunk");
	if (memcmp(bytes, file + offset, n))
		die("a chunk at %llu is not what the file has", (unsigned long long)offset);
	return 0;
}

static void read_one(uint64_t offset, uint64_t length, bool df)
{
	struct reading r = { .offset = offset, .length = length };
	nbd_chunk_callback callback = { .callback = on_chunk, .user_data = &r };

	check(nbd_pread_structured(nbd, buffer, length, offset, callback,
				   df ? LIBNBD_CMD_FLAG_DF : 0), "read");
	if (r.covered != length)
		die("%llu bytes came of a read of %llu", (unsigned long long)r.covered,
		    (unsigned long long)length);
	if (df && (r.data != 1 || r.holes))
		die("a read that must not be cut came in %u chunks", r.chunks);
	data_chunks += r.data;
	holes += r.holes;
}

static void reads(void)
{
	static const uint32_t lengths[] = { 1, 511, 4096, 65536, 100001, MIB, MIB + 1, 7 * MIB,
					    32 * MIB };
	uint32_t seed = 12345;

	for (unsigned i = 0; i < 200; i++) {
		uint64_t length = lengths[i % (sizeof(lengths) / sizeof(*lengths))], offset;

		if (length > size)
			length = size;
		seed = seed * 1103515245 + 12345;
		offset = (uint64_t)seed * 4099 % (size - length + 1);
		read_one(i % 3 ? offset : offset & ~4095ull, length, i % 2);
	}
}

/* ---- extents ---- */

struct status {
	uint64_t at, end;
	unsigned n;
	bool exact; /* extents may not be longer than what was asked for */
};

/* Does the file have something here? *end: how far that goes. */
static bool is_data(uint64_t at, uint64_t *end)
{
	off_t data = lseek(file_fd, (off_t)at, SEEK_DATA), hole;

	if (data < 0 || (uint64_t)data > at) {
		*end = data < 0 ? size : (uint64_t)data;
		return false;
	}
	hole = lseek(file_fd, (off_t)at, SEEK_HOLE);
	*end = (uint64_t)hole;
	return true;
}

/* entries: length and flags of each, in turn. */
static int on_extents(void *arg, const char *context, uint64_t offset, uint32_t *entries, size_t n,
		      int *error)
{
	struct status *s = arg;

	(void)error;
	if (strcmp(context, LIBNBD_CONTEXT_BASE_ALLOCATION) || offset != s->at)
		die("extents of something else");
	for (size_t i = 0; i < n; i += 2) {
		uint64_t end = s->at + entries[i], at = s->at, next;
		bool hole = entries[i + 1] == (LIBNBD_STATE_HOLE | LIBNBD_STATE_ZERO);

		if (!entries[i] || (entries[i + 1] && !hole))
			die("an extent of %u bytes with flags %u", entries[i], entries[i + 1]);
		if (s->exact && end > s->end)
			die("an extent goes beyond what was asked for");
		for (; at < end && at < s->end; at = next)
			if (is_data(at, &next) == hole)
				die("wrong state at %llu", (unsigned long long)at);
		s->at = end;
	}
	s->n += (unsigned)n / 2;
	return 0;
}

static unsigned extents_once(uint64_t offset, uint64_t length, bool one, uint64_t *end)
{
	struct status s = { .at = offset, .end = offset + length, .exact = one };
	nbd_extent_callback callback = { .callback = on_extents, .user_data = &s };

	check(nbd_block_status(nbd, length, offset, callback, one ? LIBNBD_CMD_FLAG_REQ_ONE : 0),
	      "block status");
	if (!s.n || (one && s.n != 1))
		die("%u extents where %s was asked for", s.n, one ? "one" : "some");
	*end = s.at;
	return s.n;
}

static void extents(void)
{
	uint64_t at, end, total = 0;

	for (at = 0; at < size; at = end)
		extents_once(at, size - at, true, &end);
	for (at = 0; at < size; at = end)
		total += extents_once(at, size - at, false, &end);
	for (at = 3; at + 777777 < size; at += 1234567)
		extents_once(at, 777777, at % 2, &end);
	printf("%llu extents\n", (unsigned long long)total);
}

int main(int argc, char **argv)
{
	struct stat st;

	if (argc != 3)
		die("usage: chunks URI FILE");
	file_fd = open(argv[2], O_RDONLY);
	if (file_fd < 0 || fstat(file_fd, &st))
		die("%s: %s", argv[2], strerror(errno));
	size = (uint64_t)st.st_size;
	file = mmap(NULL, size, PROT_READ, MAP_SHARED, file_fd, 0);
	buffer = malloc(32 * MIB);
	nbd = nbd_create();
	if (file == MAP_FAILED || !buffer || !nbd)
		die("out of memory");
	check(nbd_add_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION), "context");
	check(nbd_set_uri_allow_local_file(nbd, true), "keys and certificates");
	check(nbd_connect_uri(nbd, argv[1]), argv[1]);
	if (nbd_can_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) != 1 ||
	    nbd_can_df(nbd) != 1)
		die("no base:allocation, or no DF");
	if (nbd_get_size(nbd) != (int64_t)size)
		die("the export has another size than %s", argv[2]);
	reads();
	extents();
	printf("%u chunks of data, %u holes\n", data_chunks, holes);
	check(nbd_shutdown(nbd, 0), "shutdown");
	nbd_close(nbd);
	free(buffer);
	return 0;
}
