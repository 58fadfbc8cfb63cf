/*
 * Gives sockets to the kernel's NBD client through netlink, for what nbd-client 3.24 cannot do: a
 * device that outlives its server. With a DEAD_TIMEOUT the kernel keeps requests while every
 * connection is dead, and `replace` hands it new ones.
 *
 *   nbd-netlink attach  INDEX ADDRESS PORT EXPORT CONNECTIONS BLOCK_SIZE TIMEOUT DEAD_TIMEOUT
 *   nbd-netlink replace INDEX ADDRESS PORT EXPORT CONNECTIONS
 *
 * INDEX is the 0 of /dev/nbd0, ADDRESS an IPv4 address; times are in seconds. TIMEOUT is the age at
 * which the kernel repeats a request whose connection died. The handshake is the short one,
 * NBD_OPT_EXPORT_NAME.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/nbd-netlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/nbd/protocol.h"

#define MAX_CONNECTIONS 16

struct export {
	uint64_t size;
	uint16_t flags;
};

/* One netlink message under construction; attributes are appended to it. */
struct message {
	struct nlmsghdr head;
	struct genlmsghdr generic;
	char attributes[1024];
};

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "nbd-netlink: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (*end || end == text)
		die("'%s' is not a number", text);
	return n;
}

/* ---- the server ------------------------------------------------------------------------------ */

static void read_all(int fd, void *data, size_t len)
{
	ssize_t n = recv(fd, data, len, MSG_WAITALL);

	if (n != (ssize_t)len)
		die("the server closed the connection in the handshake");
}

static void write_all(int fd, const void *data, size_t len)
{
	if (send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		die("the server takes no handshake: %s", strerror(errno));
}

static int connect_export(const char *address, unsigned port, const char *name, struct export *e)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct {
		uint64_t magic, options;
		uint16_t flags;
	} __attribute__((packed)) hello;
	struct {
		uint32_t flags;
		uint64_t magic;
		uint32_t option, len;
	} __attribute__((packed)) choice = {
		.flags = htobe32(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES),
		.magic = htobe64(NBD_OPTION_MAGIC),
		.option = htobe32(NBD_OPT_EXPORT_NAME),
		.len = htobe32(strlen(name)),
	};
	struct {
		uint64_t size;
		uint16_t flags;
	} __attribute__((packed)) answer;
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
		die("'%s' is not an IPv4 address", address);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("cannot connect to %s:%u: %s", address, port, strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	read_all(fd, &hello, sizeof(hello));
	if (be64toh(hello.magic) != NBD_MAGIC || be64toh(hello.options) != NBD_OPTION_MAGIC)
		die("%s:%u is no NBD server", address, port);
	write_all(fd, &choice, sizeof(choice));
	write_all(fd, name, strlen(name));
	read_all(fd, &answer, sizeof(answer));
	e->size = be64toh(answer.size);
	e->flags = be16toh(answer.flags);
	return fd;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void *put(struct message *m, unsigned type, const void *data, size_t len)
{
	struct nlattr *a = (struct nlattr *)((char *)m + NLMSG_ALIGN(m->head.nlmsg_len));

	if ((char *)a + NLA_HDRLEN + len > (char *)m + sizeof(*m))
		die("message too long");
	a->nla_type = type;
	a->nla_len = NLA_HDRLEN + len;
	if (len)
		memcpy((char *)a + NLA_HDRLEN, data, len);
	m->head.nlmsg_len = NLMSG_ALIGN(m->head.nlmsg_len) + NLA_ALIGN(a->nla_len);
	return a;
}

static void put_u32(struct message *m, unsigned type, uint32_t value)
{
	put(m, type, &value, sizeof(value));
}

static void put_u64(struct message *m, unsigned type, uint64_t value)
{
	put(m, type, &value, sizeof(value));
}

/* A nest is closed by giving it the length of all that was put since. */
static struct nlattr *nest(struct message *m, unsigned type)
{
	return put(m, type | NLA_F_NESTED, NULL, 0);
}

static void end_nest(struct message *m, struct nlattr *a)
{
	a->nla_len = (char *)m + m->head.nlmsg_len - (char *)a;
}

static void begin(struct message *m, unsigned family, unsigned command, unsigned version)
{
	memset(m, 0, sizeof(*m));
	m->head.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	m->head.nlmsg_type = family;
	m->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	m->generic.cmd = command;
	m->generic.version = version;
}

/* Sends a message and reads up to its acknowledgement; other answers on the way go to @answer. */
static int ask(int netlink, struct message *m, struct message *answer)
{
	char buffer[8192];
	struct nlmsghdr *h;
	ssize_t n;

	if (send(netlink, m, m->head.nlmsg_len, 0) < 0)
		die("netlink: %s", strerror(errno));
	for (;;) {
		n = recv(netlink, buffer, sizeof(buffer), 0);
		if (n < 0)
			die("netlink: %s", strerror(errno));
		for (h = (struct nlmsghdr *)buffer; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (answer && h->nlmsg_len <= sizeof(*answer))
				memcpy(answer, h, h->nlmsg_len);
		}
	}
}

static unsigned nbd_family(int netlink)
{
	struct message m, answer = {0};
	char *at = answer.attributes, *end;
	struct nlattr *a;
	uint16_t id;
	int r;

	begin(&m, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	put(&m, CTRL_ATTR_FAMILY_NAME, NBD_GENL_FAMILY_NAME, sizeof(NBD_GENL_FAMILY_NAME));
	r = ask(netlink, &m, &answer);
	if (r)
		die("the kernel has no netlink family " NBD_GENL_FAMILY_NAME ": %s", strerror(-r));
	end = (char *)&answer + answer.head.nlmsg_len;
	for (; at + NLA_HDRLEN <= end; at += NLA_ALIGN(a->nla_len)) {
		a = (struct nlattr *)at;
		if (a->nla_type == CTRL_ATTR_FAMILY_ID) {
			memcpy(&id, at + NLA_HDRLEN, sizeof(id));
			return id;
		}
		if (a->nla_len < NLA_HDRLEN)
			break;
	}
	die("netlink: no id for " NBD_GENL_FAMILY_NAME);
	return 0;
}

static void put_sockets(struct message *m, const int *fds, unsigned n)
{
	struct nlattr *all = nest(m, NBD_ATTR_SOCKETS), *item;
	unsigned i;

	for (i = 0; i < n; i++) {
		item = nest(m, NBD_SOCK_ITEM);
		put_u32(m, NBD_SOCK_FD, fds[i]);
		end_nest(m, item);
	}
	end_nest(m, all);
}

int main(int argc, char **argv)
{
	int attach = argc == 10 && !strcmp(argv[1], "attach");
	int fds[MAX_CONNECTIONS], netlink, r;
	unsigned i, n;
	struct export e;
	struct message m;

	if (!attach && (argc != 7 || strcmp(argv[1], "replace")))
		die("usage: nbd-netlink attach|replace INDEX ADDRESS PORT EXPORT CONNECTIONS "
		    "[BLOCK_SIZE TIMEOUT DEAD_TIMEOUT]");
	n = number(argv[6]);
	if (n < 1 || n > MAX_CONNECTIONS)
		die("1 to %d connections", MAX_CONNECTIONS);
	for (i = 0; i < n; i++)
		fds[i] = connect_export(argv[3], number(argv[4]), argv[5], &e);
	netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	if (netlink < 0)
		die("netlink: %s", strerror(errno));
	begin(&m, nbd_family(netlink), attach ? NBD_CMD_CONNECT : NBD_CMD_RECONFIGURE, NBD_GENL_VERSION);
	put_u32(&m, NBD_ATTR_INDEX, number(argv[2]));
	if (attach) {
		put_u64(&m, NBD_ATTR_SIZE_BYTES, e.size);
		put_u64(&m, NBD_ATTR_SERVER_FLAGS, e.flags);
		put_u64(&m, NBD_ATTR_BLOCK_SIZE_BYTES, number(argv[7]));
		put_u64(&m, NBD_ATTR_TIMEOUT, number(argv[8]));
		put_u64(&m, NBD_ATTR_DEAD_CONN_TIMEOUT, number(argv[9]));
	}
	put_sockets(&m, fds, n);
	r = ask(netlink, &m, NULL);
	if (r)
		die("%s /dev/nbd%s: %s", argv[1], argv[2], strerror(-r));
	return 0;
}
