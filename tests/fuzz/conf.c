/*
 * Configuration files, with the server's own sections and all checks of liftd --check. Input: the
 * text of one. What is sound is written as liftd --dump-config does it, and must load to the same.
 *
 * It lies in a folder of its own, where an include finds other files; what would leave the folder
 * is not tried, since there would be no end to it.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/liftd/config.h"
#include "tests/fuzz/fuzz.h"

static char folder[200];

static const struct {
	const char *name, *text;
} others[] = {
	{ "more.conf", "[export more]\npath = null:\nsize = 1M\n" },
	{ "bad.conf", "[export\npath = x\n" },
	{ "clients", "[client ip:10.0.0.0/8]\nweight = 5\n" },
};

enum { OTHERS = sizeof(others) / sizeof(others[0]), PATH = sizeof(folder) + 32 };

static const char *path_of(const char *name, char path[PATH])
{
	snprintf(path, PATH, "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const void *text, size_t n)
{
	char path[PATH];
	int fd = open(path_of(name, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
	close(fd);
}

static void clean_up(void)
{
	char path[PATH];

	for (int i = 0; i < OTHERS; i++)
		unlink(path_of(others[i].name, path));
	unlink(path_of("input", path));
	unlink(path_of("dumped", path));
	if (rmdir(folder))
		perror(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR");

	(void)argc;
	(void)argv;
	snprintf(folder, sizeof(folder), "%s/fuzz-conf.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	for (int i = 0; i < OTHERS; i++)
		write_file(others[i].name, others[i].text, strlen(others[i].text));
	atexit(clean_up);
	return 0;
}

static void see_error(void *ctx, const char *text)
{
	ck_assert(*text);
	++*(unsigned *)ctx;
}

/* What the server would be told; returns the exit status that liftd --check has. */
static int load(struct config *c, const char *name)
{
	static struct options o;
	unsigned errors = 0;
	char path[PATH];
	int status;

	o.config = path_of(name, path);
	status = config_load(c, &o);
	config_each_error(c, see_error, &errors);
	ck_assert_int_eq(status != 0, errors != 0);
	return status;
}

/* As one file. False: there is a value that cannot be written. */
static bool dump(const struct config *c, char **text, size_t *n)
{
	FILE *f = open_memstream(text, n);
	char err[512];
	int res;

	ck_assert_ptr_nonnull(f);
	res = config_dump(c, f, err, sizeof(err));
	ck_assert(!res || (res == -EINVAL && *err));
	ck_assert_int_eq(fclose(f), 0);
	return !res;
}

/* What was dumped loads, and is dumped the same. */
static void check_dump(const char *text, size_t n)
{
	struct config c;
	size_t again_n;
	char *again;

	write_file("dumped", text, n);
	ck_assert_int_eq(load(&c, "dumped"), 0);
	ck_assert(dump(&c, &again, &again_n));
	ck_assert_uint_eq(n, again_n);
	ck_assert_mem_eq(text, again, n);
	free(again);
	config_free(&c);
}

/* Is there an include that leaves the folder? */
static bool leaves(const char *text, size_t n)
{
	const char *end = text + n;

	while ((text = memmem(text, (size_t)(end - text), "include", 7))) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		if (memchr(text, '/', (size_t)((stop ? stop : end) - text)))
			return true;
		text += 7;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c;
	char *text;
	size_t n;
	int status;

	if (leaves((const char *)data, size))
		return 0;
	write_file("input", data, size);
	status = load(&c, "input");
	if (!status && dump(&c, &text, &n)) {
		check_dump(text, n);
		free(text);
	} else if (!status) {
		free(text);
	}
	config_free(&c);
	return 0;
}
