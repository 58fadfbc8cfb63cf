/*
 * Loop devices, private mounts and other things that only root can have: for tests, which say that
 * they skip something and go on where it is not permitted.
 */
#ifndef TESTS_UNIT_TEST_LOOP_H
#define TESTS_UNIT_TEST_LOOP_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

/*
 * Attach a loop device to the file; its path in loop[64]. It lasts until the returned descriptor is
 * closed, or this process ends in whatever way. -1: none can be had.
 */
static inline int attach_loop(const char *file, const char *options, char *loop)
{
	char command[512];
	FILE *f;
	int fd;

	snprintf(command, sizeof(command), "losetup %s --find --show %s 2>/dev/null", options,
		 file);
	f = popen(command, "r");
	if (!f || !fgets(loop, 64, f) || pclose(f)) {
		puts("no loop device here: skipped");
		return -1;
	}
	loop[strcspn(loop, "\n")] = '\0';
	fd = open(loop, O_RDONLY | O_CLOEXEC);
	/* While it is open, detaching means: with the last close. */
	snprintf(command, sizeof(command), "losetup -d %s", loop);
	if (system(command))
		puts("a loop device was left behind");
	return fd;
}

/*
 * Mount a memory file system at `where` in a mount namespace of this process's own; end it with
 * umount2(where, MNT_DETACH).
 */
static inline bool private_mount(const char *type, const char *where, const char *options)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", where, type, 0, options)) {
		puts("no private mounts here: skipped");
		return false;
	}
	return true;
}

#endif
