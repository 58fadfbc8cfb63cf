/*
 * bare: the least that an NBD server can do, as a yardstick for scripts/bench.
 *
 *     bare [-s] SOCKET IMAGE
 *
 * -s: it has simple replies only.
 *
 * One thread, no elevator, no checks beyond the protocol's. A turn: one large read of a socket, a
 * pread or pwrite for each request that it brought, one writev of all their replies: simple ones, or
 * structured ones if the client asks for them. What a real server does on top of this is what it costs.
 *
 * The handshake blocks, with a time limit; it is not meant to face strangers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/nbd/reply.h"

#define MAX_CONNECTIONS 256
#define READ_SIZE (256u << 10)     /* least room for a read of a socket */
#define IN_SIZE (NBD_MAX_PAYLOAD + NBD_REQUEST_SIZE + READ_SIZE)
#define OUT_SIZE NBD_MAX_PAYLOAD   /* data of the replies of one turn; more: an extra writev */
#define MAX_REPLIES (IOV_MAX / 2)
#define FLAGS (NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_TRIM | \
	       NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_CAN_MULTI_CONN)

struct connection {
	int fd;
	uint8_t *in; /* IN_SIZE bytes of address space; only what is touched takes memory */
	size_t have;
	enum nbd_mode mode;
};

struct request {
	uint16_t flags, type;
	uint64_t cookie, offset;
	uint32_t length;
};

static bool simple_only;
static int image;
static uint64_t image_size;
static struct connection connections[MAX_CONNECTIONS];
static struct pollfd polls[MAX_CONNECTIONS + 1]; /* [0] is the listener, [i + 1] connection i */
static int n_connections;

/* The replies of one turn. */
static uint8_t headers[MAX_REPLIES * NBD_REPLY_HEAD_MAX];
static size_t headers_used;
static uint8_t *data;
static size_t data_used;
static struct iovec iov[2 * MAX_REPLIES];
static int n_iov, n_replies;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- handshake ---- */

static bool read_all(int fd, void *buf, size_t n)
{
	return n == 0 || recv(fd, buf, n, MSG_WAITALL) == (ssize_t)n;
}

static bool write_all(int fd, const void *buf, size_t n)
{
	return send(fd, buf, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static bool option_reply(int fd, uint32_t option, uint32_t type, const void *payload, uint32_t n)
{
	uint8_t head[NBD_OPTION_REPLY_SIZE];

	nbd_put_be64(head, NBD_OPTION_REPLY_MAGIC);
	nbd_put_be32(head + 8, option);
	nbd_put_be32(head + 12, type);
	nbd_put_be32(head + 16, n);
	return write_all(fd, head, sizeof(head)) && write_all(fd, payload, n);
}

static bool send_info(int fd, uint32_t option)
{
	uint8_t info[12];

	nbd_put_be16(info, NBD_INFO_EXPORT);
	nbd_put_be64(info + 2, image_size);
	nbd_put_be16(info + 10, FLAGS);
	return option_reply(fd, option, NBD_REP_INFO, info, sizeof(info)) &&
	       option_reply(fd, option, NBD_REP_ACK, "", 0);
}

static bool send_export(int fd, bool zeroes)
{
	uint8_t reply[NBD_EXPORT_REPLY_SIZE + NBD_EXPORT_REPLY_ZEROES] = { 0 };

	nbd_put_be64(reply, image_size);
	nbd_put_be16(reply + 8, FLAGS);
	return write_all(fd, reply, zeroes ? sizeof(reply) : NBD_EXPORT_REPLY_SIZE);
}

/* Answers options until the client attaches. False: it did not; close the connection. */
static bool handshake(int fd, enum nbd_mode *mode)
{
	uint8_t greeting[NBD_GREETING_SIZE], flags[NBD_CLIENT_FLAGS_SIZE];
	uint8_t head[NBD_OPTION_HEADER_SIZE], payload[2 * NBD_STRING_MAX];

	nbd_put_be64(greeting, NBD_MAGIC);
	nbd_put_be64(greeting + 8, NBD_OPTION_MAGIC);
	nbd_put_be16(greeting + 16, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	if (!write_all(fd, greeting, sizeof(greeting)) || !read_all(fd, flags, sizeof(flags)))
		return false;
	for (;;) {
		uint32_t option, n;

		if (!read_all(fd, head, sizeof(head)) || nbd_get_be64(head) != NBD_OPTION_MAGIC)
			return false;
		option = nbd_get_be32(head + 8);
		n = nbd_get_be32(head + 12);
		if (n > sizeof(payload) || !read_all(fd, payload, n))
			return false;
		switch (option) {
		case NBD_OPT_EXPORT_NAME:
			return send_export(fd, !(nbd_get_be32(flags) & NBD_FLAG_C_NO_ZEROES));
		case NBD_OPT_GO:
			return send_info(fd, option);
		case NBD_OPT_INFO:
			if (!send_info(fd, option))
				return false;
			break;
		case NBD_OPT_LIST:
			if (!option_reply(fd, option, NBD_REP_SERVER, "\0\0\0\1x", 5) ||
			    !option_reply(fd, option, NBD_REP_ACK, "", 0))
				return false;
			break;
		case NBD_OPT_STRUCTURED_REPLY:
			if (!simple_only)
				*mode = NBD_MODE_STRUCTURED;
			if (!option_reply(fd, option, simple_only ? NBD_REP_ERR_UNSUP : NBD_REP_ACK, "", 0))
				return false;
			break;
		case NBD_OPT_ABORT:
			option_reply(fd, option, NBD_REP_ACK, "", 0);
			return false;
		default:
			if (!option_reply(fd, option, NBD_REP_ERR_UNSUP, "", 0))
				return false;
		}
	}
}

/* ---- requests ---- */

static uint32_t wire_error(int error)
{
	switch (error) {
	case 0:
	case EPERM:
	case ENOMEM:
	case EINVAL:
	case ENOSPC:
		return error;
	default:
		return NBD_EIO;
	}
}

/* The whole range, or an errno; past the end of a file that shrank is EIO. */
static int transfer(bool write, uint8_t *buf, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t done = write ? pwrite(image, buf, n, offset) : pread(image, buf, n, offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? errno : EIO;
		buf += done;
		n -= done;
		offset += done;
	}
	return 0;
}

static int execute(const struct request *r, uint8_t *payload)
{
	int error = 0;

	switch (r->type) {
	case NBD_CMD_READ:
		return transfer(false, data + data_used, r->length, r->offset);
	case NBD_CMD_WRITE:
		error = transfer(true, payload, r->length, r->offset);
		break;
	case NBD_CMD_TRIM:
		/* A hint: a file system that cannot punch holes ignores it. */
		fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->offset, r->length);
		break;
	case NBD_CMD_WRITE_ZEROES:
		if (fallocate(image, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
			      r->offset, r->length))
			error = errno;
		break;
	case NBD_CMD_FLUSH:
		break;
	default:
		return EINVAL;
	}
	if (!error && (r->type == NBD_CMD_FLUSH || r->flags & NBD_CMD_FLAG_FUA) && fdatasync(image))
		error = errno;
	return error;
}

static bool send_replies(int fd)
{
	struct iovec *v = iov;

	while (n_iov > 0) {
		ssize_t done = writev(fd, v, n_iov);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return false;
		for (; n_iov > 0 && (size_t)done >= v->iov_len; v++, n_iov--)
			done -= v->iov_len;
		if (n_iov > 0) {
			v->iov_base = (uint8_t *)v->iov_base + done;
			v->iov_len -= done;
		}
	}
	n_replies = 0;
	headers_used = data_used = 0;
	return true;
}

/* Returns its size. */
static size_t put_head(uint8_t *head, enum nbd_mode mode, const struct request *r, uint32_t error)
{
	const struct nbd_chunk chunk = { .cookie = r->cookie, .mode = mode, .done = true };

	if (mode == NBD_MODE_STRUCTURED && r->type == NBD_CMD_READ)
		return error ? nbd_put_error(head, &chunk, error, NULL)
			     : nbd_put_data(head, &chunk, r->offset, r->length);
	if (mode == NBD_MODE_STRUCTURED && error)
		return nbd_put_error(head, &chunk, error, NULL);
	nbd_encode_simple_reply(head, error, r->cookie);
	return NBD_SIMPLE_REPLY_SIZE;
}

static bool answer(const struct connection *c, const struct request *r, uint8_t *payload)
{
	size_t room = r->type == NBD_CMD_READ ? r->length : 0, n;
	uint8_t *head;
	int error;

	if (n_replies == MAX_REPLIES || data_used + room > OUT_SIZE)
		if (!send_replies(c->fd))
			return false;
	if (r->offset > image_size || r->length > image_size - r->offset)
		error = EINVAL;
	else
		error = execute(r, payload);

	head = headers + headers_used;
	n = put_head(head, c->mode, r, wire_error(error));
	headers_used += n;
	n_replies++;
	/* Headers lie side by side: those of replies without data go out as one piece. */
	if (n_iov && (uint8_t *)iov[n_iov - 1].iov_base + iov[n_iov - 1].iov_len == head)
		iov[n_iov - 1].iov_len += n;
	else
		iov[n_iov++] = (struct iovec){ head, n };
	if (room && !error) {
		iov[n_iov++] = (struct iovec){ data + data_used, room };
		data_used += room;
	}
	return true;
}

/* Answers all whole requests in the buffer. False: the connection is over. */
static bool serve(struct connection *c)
{
	uint8_t *p = c->in, *end = c->in + c->have;
	bool goes_on = true;

	while (goes_on && end - p >= NBD_REQUEST_SIZE) {
		struct request r = {
			.flags = nbd_get_be16(p + 4), .type = nbd_get_be16(p + 6),
			.cookie = nbd_get_be64(p + 8), .offset = nbd_get_be64(p + 16),
			.length = nbd_get_be32(p + 24),
		};
		uint32_t payload = r.type == NBD_CMD_WRITE ? r.length : 0;
		bool data_moves = r.type == NBD_CMD_WRITE || r.type == NBD_CMD_READ;

		if (nbd_get_be32(p) != NBD_REQUEST_MAGIC || r.type == NBD_CMD_DISC ||
		    (data_moves && r.length > NBD_MAX_PAYLOAD)) {
			goes_on = false;
		} else if ((size_t)(end - p) < NBD_REQUEST_SIZE + (size_t)payload) {
			break;
		} else {
			goes_on = answer(c, &r, p + NBD_REQUEST_SIZE);
			p += NBD_REQUEST_SIZE + payload;
		}
	}
	c->have = end - p;
	if (p != c->in)
		memmove(c->in, p, c->have);
	return send_replies(c->fd) && goes_on;
}

static bool turn(struct connection *c)
{
	ssize_t n = read(c->fd, c->in + c->have, IN_SIZE - c->have);

	if (n <= 0)
		return n < 0 && errno == EINTR;
	c->have += n;
	return serve(c);
}

/* ---- connections ---- */

static void accept_one(int listener)
{
	struct timeval limit = { .tv_sec = 5 }, none = { 0 };
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct connection *c = &connections[n_connections];
	enum nbd_mode mode = NBD_MODE_SIMPLE;

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (n_connections == MAX_CONNECTIONS || !handshake(fd, &mode)) {
		close(fd);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	c->fd = fd;
	c->have = 0;
	c->mode = mode;
	c->in = malloc(IN_SIZE);
	if (!c->in)
		die("malloc");
	polls[++n_connections] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

static void drop(int i)
{
	/* Replies that could not be sent any more. */
	n_iov = n_replies = 0;
	headers_used = data_used = 0;
	close(connections[i].fd);
	free(connections[i].in);
	connections[i] = connections[--n_connections];
	polls[i + 1] = polls[n_connections + 1];
}

static int listen_on(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(addr.sun_path)) {
		fprintf(stderr, "bare: the socket's path is too long: %s\n", path);
		exit(2);
	}
	strcpy(addr.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 64))
		die(path);
	return fd;
}

static void open_image(const char *path)
{
	struct stat st;

	image = open(path, O_RDWR | O_CLOEXEC);
	if (image < 0 || fstat(image, &st))
		die(path);
	image_size = st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(image, BLKGETSIZE64, &image_size))
		die(path);
}

int main(int argc, char **argv)
{
	simple_only = argc == 4 && !strcmp(argv[1], "-s");
	argv += simple_only;
	if (argc != 3 + simple_only) {
		fprintf(stderr, "usage: bare [-s] SOCKET IMAGE\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	open_image(argv[2]);
	data = aligned_alloc(4096, OUT_SIZE);
	if (!data)
		die("aligned_alloc");
	polls[0] = (struct pollfd){ .fd = listen_on(argv[1]), .events = POLLIN };
	for (;;) {
		if (poll(polls, n_connections + 1, -1) < 0 && errno != EINTR)
			die("poll");
		/* Downwards: drop() fills the gap with the last one, which has had its turn. */
		for (int i = n_connections - 1; i >= 0; i--)
			if (polls[i + 1].revents && !turn(&connections[i]))
				drop(i);
		if (polls[0].revents)
			accept_one(polls[0].fd);
	}
}
