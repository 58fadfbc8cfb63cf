/*
 * A fuzz target without a fuzzer: runs it over the files that are named, and those in the folders
 * that are named. Says how many there were; a finding ends it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

/* A target that has nothing to prepare. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

static void give_up(const char *path, const char *why)
{
	fprintf(stderr, "replay: %s: %s\n", path, why);
	exit(1);
}

/* The bytes are in memory of just their number, so that one too far is noticed. */
static void run_file(FILE *f, const char *path)
{
	uint8_t *data = NULL, *exact;
	size_t size = 0;
	FILE *m = open_memstream((char **)&data, &size);
	int c;

	if (!m)
		give_up(path, "out of memory");
	while ((c = getc(f)) != EOF)
		putc(c, m);
	if (ferror(f) || fclose(m))
		give_up(path, strerror(errno));
	exact = malloc(size ? size : 1);
	if (!exact)
		give_up(path, "out of memory");
	memcpy(exact, data, size);
	free(data);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

/* Its name comes first, so that a finding says where it was. */
static void run_path(const char *path)
{
	FILE *f = fopen(path, "r");

	if (!f)
		give_up(path, strerror(errno));
	fprintf(stderr, "%s\n", path);
	run_file(f, path);
	fclose(f);
}

static int is_visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static unsigned run_folder(const char *path)
{
	struct dirent **list;
	char name[4096];
	int n = scandir(path, &list, is_visible, alphasort);

	if (n < 0)
		give_up(path, strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, list[i]->d_name);
		run_path(name);
		free(list[i]);
	}
	free(list);
	return (unsigned)n;
}

int main(int argc, char **argv)
{
	unsigned n = 0;
	struct stat st;

	LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++) {
		if (stat(argv[i], &st))
			give_up(argv[i], strerror(errno));
		if (S_ISDIR(st.st_mode)) {
			n += run_folder(argv[i]);
		} else {
			run_path(argv[i]);
			n++;
		}
	}
	printf("%u inputs\n", n);
	return n ? 0 : 1;
}
