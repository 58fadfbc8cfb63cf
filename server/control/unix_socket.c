#include "server/control/unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

/* Is there something at path that may be replaced? 0 if so, or if there is nothing. */
static int clear_stale(const char *path, const struct sockaddr_un *addr, char *err, size_t errlen)
{
	struct stat st;
	int fd, res;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(err, errlen, "cannot listen on %s: it exists and is no socket", path);
		return -EEXIST;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	res = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ? -errno : 0;
	close(fd);
	if (res != -ECONNREFUSED) {
		snprintf(err, errlen, "cannot listen on %s: %s", path,
			 !res || res == -EAGAIN ? "a running server does" : strerror(-res));
		return !res || res == -EAGAIN ? -EADDRINUSE : res;
	}
	return unlink(path) && errno != ENOENT ? -errno : 0;
}

int unix_socket(const char *path, mode_t mode, char *err, size_t errlen)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	mode_t old;
	int fd, res;

	*err = '\0';
	if (!*path || strlen(path) >= sizeof(addr.sun_path)) {
		snprintf(err, errlen, "cannot listen on '%s': the path must have 1 to %zu bytes",
			 path, sizeof(addr.sun_path) - 1);
		return -EINVAL;
	}
	strcpy(addr.sun_path, path);
	res = clear_stale(path, &addr, err, errlen);
	if (res) {
		if (!*err)
			snprintf(err, errlen, "cannot listen on %s: %s", path, strerror(-res));
		return res;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		res = -errno;
	} else {
		/* With the right mode from the first moment on. */
		old = umask(~mode & 0777);
		res = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
		umask(old);
		if (!res && listen(fd, BACKLOG)) {
			res = -errno;
			unlink(path);
		}
	}
	if (!res)
		return fd;
	snprintf(err, errlen, "cannot listen on %s: %s", path, strerror(-res));
	if (fd >= 0)
		close(fd);
	return res;
}
