/*
 * A connection to a running server, with all that server/net does, plain or inside TLS. Input: a
 * byte for mode, export and TLS, one for the cuts, then requests, of which the cookies are made up
 * here.
 *
 * Each whole request has to be answered once, in the right shape, and the connection to end, when
 * the input does. There are a null store that forgets what is written, and an image that cannot be
 * written: no input sees anything of another one.
 */
#include <check.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/net/log.h"
#include "server/net/service.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/nbd_peer.h"
#include "tests/unit/tls_key.h"

enum { SIZE = 3 << 20, MOST_INPUT = 1024, MOST_REQUESTS = MOST_INPUT / NBD_REQUEST_SIZE + 1,
       PATIENCE_MS = 60000 };

static struct service service;
static struct server_params params;
static char folder[80]; /* the path of a socket is short */
static const char key[] = "00112233445566778899aabbccddeeff";
static gnutls_psk_client_credentials_t secret;

/* ---- the server ---- */

static const char *path_of(const char *name)
{
	static char path[sizeof(folder) + 8];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void set_param(const char *name, const char *value)
{
	struct tunable_changes changes = { .when = WHEN_START };
	char err[TUNABLE_ERR_MAX];

	ck_assert_msg(!tunable_changes_set(&changes, server_rows, &params, name, value, err,
					   sizeof(err)), "%s", err);
	tunable_changes_commit(&changes);
	tunable_changes_free(&changes);
}

static void add_export(const struct setting *set, size_t n)
{
	struct export_settings st;
	struct setting_error bad;
	char err[512];
	struct export *e;

	ck_assert_int_eq(export_settings_init(&st), 0);
	ck_assert_msg(!export_settings_set(&st, set, n, &bad), "%s", bad.text);
	ck_assert_msg(!export_open(&service.server, &st, &e, err, sizeof(err)), "%s", err);
	export_settings_free(&st);
}

/* Zeroes, with some data at places that are not all at the same distance. */
static void make_image(void)
{
	FILE *f = fopen(path_of("img"), "w");

	ck_assert_ptr_nonnull(f);
	for (long at = 4096; at < SIZE; at = 2 * at + 40000) {
		ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
		fprintf(f, "data at %ld", at);
	}
	ck_assert_int_eq(fclose(f) || truncate(path_of("img"), SIZE), 0);
}

/* The server ends as it does with SIGTERM, so that nothing is lost track of. */
static void stop(void)
{
	kill(getpid(), SIGTERM);
	service_run(&service);
	service_exit(&service);
	tunable_free(server_rows, &params);
	gnutls_psk_free_client_credentials(secret);
	unlink(path_of("img"));
	rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR");
	char err[512];

	(void)argc;
	(void)argv;
	snprintf(folder, sizeof(folder), "%s/fuzz-conn.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	make_image();
	log_set_level(LOG_LEVEL_ERROR);
	ck_assert_int_eq(tunable_defaults(server_rows, &params), 0);
	set_param("unix", path_of("s"));
	set_param("control", path_of("c"));
	set_param("threads", "1");
	set_param("tls", "allow");
	set_param("memory", "64M");
	ck_assert_int_eq(service_init(&service, &params), 0);
	service_set_tls(&service, server_of_key(key));
	secret = client_of_key(key);
	add_export((const struct setting[]){ { "name", "null" }, { "path", "null:" },
					     { "size", "3M" }, { "max_sectors_kb", "64" } }, 4);
	add_export((const struct setting[]){ { "name", "img" }, { "path", path_of("img") },
					     { "readonly", "1" } }, 3);
	ck_assert_msg(!service_start(&service, err, sizeof(err)), "%s", err);
	atexit(stop);
	return 0;
}

/* ---- what is sent ---- */

struct asked {
	struct nbd_request rq;
	bool executed;  /* verdict OK */
	unsigned answers;
	uint64_t got;   /* bytes of a READ */
	uint32_t error;
};

struct talk_to {
	int fd;
	gnutls_session_t tls; /* NULL: plain */
	struct nbd_export_limits limits;
	struct bytes out, in;
	size_t handshake;  /* bytes of out */
	struct asked asked[MOST_REQUESTS];
	unsigned n;
	bool closes;       /* in mid-stream: not everything need be answered */
};

static void begin(struct talk_to *t, uint8_t how)
{
	const char *name = how & 0x40 ? "img" : "null";

	t->limits = (struct nbd_export_limits){ .size = SIZE, .mode = how % 3 };
	if (!t->tls)
		client_flags(&t->out, NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES);
	if (t->limits.mode != NBD_MODE_SIMPLE)
		client_option(&t->out, t->limits.mode == NBD_MODE_EXTENDED ?
			      NBD_OPT_EXTENDED_HEADERS : NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	if (t->limits.mode != NBD_MODE_SIMPLE && !(how & 0x80)) {
		client_context(&t->out, NBD_OPT_SET_META_CONTEXT, name, "base:allocation");
		t->limits.contexts = NBD_CONTEXT_ALLOCATION;
	}
	client_info(&t->out, NBD_OPT_GO, name, 0, NULL);
	t->handshake = t->out.len;
}

/* The server takes all of it at once: it is less than a socket holds. */
static void send_all(struct talk_to *t, const uint8_t *p, size_t n, size_t piece)
{
	while (n) {
		size_t part = n < piece ? n : piece;
		ssize_t sent = t->tls ? gnutls_record_send(t->tls, p, part)
				      : send(t->fd, p, part, MSG_NOSIGNAL);

		if (sent < 0 && (t->tls ? sent == GNUTLS_E_INTERRUPTED : errno == EINTR))
			continue;
		if (sent < 0)
			return; /* it had enough */
		p += sent;
		n -= (size_t)sent;
	}
}

/* Nothing more comes from here. */
static void end_sending(struct talk_to *t)
{
	if (t->tls)
		gnutls_bye(t->tls, GNUTLS_SHUT_WR);
	shutdown(t->fd, SHUT_WR);
}

/* ---- what comes back ---- */

static void join(struct talk_to *t)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path_of("s"));
	must(t->fd >= 0 && !connect(t->fd, (struct sockaddr *)&addr, sizeof(addr)));
}

/* libFuzzer has a timer, whose signal interrupts this now and then. */
static void wait_for_input(const struct talk_to *t)
{
	struct pollfd p = { t->fd, POLLIN, 0 };
	int n;

	do
		n = poll(&p, 1, PATIENCE_MS);
	while (n < 0 && errno == EINTR);
	must(n == 1);
}

/* Some bytes, or 0 at the end. */
static ssize_t receive_some(struct talk_to *t, uint8_t *buf, size_t len)
{
	ssize_t n;

	do {
		if (!t->tls || !gnutls_record_check_pending(t->tls))
			wait_for_input(t);
		n = t->tls ? gnutls_record_recv(t->tls, buf, len) : read(t->fd, buf, len);
	} while (t->tls ? n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED
			: n < 0 && errno == EINTR);
	/* Inside TLS the end has to be said. Plain, it is a reset if something behind DISC was unread. */
	must(n >= 0 || !t->tls || t->closes);
	return n > 0 ? n : 0;
}

/* Add what comes to t->in. False: it is the end. */
static bool receive(struct talk_to *t)
{
	static uint8_t buf[256 << 10];
	ssize_t n = receive_some(t, buf, sizeof(buf));

	bytes_add(&t->in, buf, (size_t)n);
	return n > 0;
}

/* STARTTLS. Of what was said outside, t->in gets the greeting. */
static void go_inside(struct talk_to *t)
{
	enum { OUTSIDE = NBD_GREETING_SIZE + NBD_OPTION_REPLY_SIZE };
	int n;

	client_flags(&t->out, NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES);
	client_option(&t->out, NBD_OPT_STARTTLS, NULL, 0);
	send_all(t, t->out.data, t->out.len, SIZE_MAX);
	while (t->in.len < OUTSIDE)
		must(receive(t));
	must(t->in.len == OUTSIDE);
	must(nbd_get_be32(t->in.data + NBD_GREETING_SIZE + 12) == NBD_REP_ACK);
	t->in.len = NBD_GREETING_SIZE;
	t->out.len = 0;
	must(!gnutls_init(&t->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL));
	must(!gnutls_priority_set_direct(t->tls, "NORMAL:+ECDHE-PSK:+PSK", NULL));
	must(!gnutls_credentials_set(t->tls, GNUTLS_CRD_PSK, secret));
	gnutls_transport_set_int(t->tls, t->fd);
	gnutls_handshake_set_timeout(t->tls, PATIENCE_MS);
	do
		n = gnutls_handshake(t->tls);
	while (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_AGAIN);
	must(!n);
}

/* The end of the handshake in t->in, or 0; the export's flags from it. */
static size_t find_start(struct talk_to *t)
{
	size_t at = NBD_GREETING_SIZE;

	while (t->in.len >= at + NBD_OPTION_REPLY_SIZE) {
		const uint8_t *p = t->in.data + at;
		uint32_t type = nbd_get_be32(p + 12);

		must(nbd_get_be64(p) == NBD_OPTION_REPLY_MAGIC && !(type >> 31));
		at += NBD_OPTION_REPLY_SIZE + nbd_get_be32(p + 16);
		if (at > t->in.len)
			return 0;
		if (type == NBD_REP_INFO && nbd_get_be16(p + 20) == NBD_INFO_EXPORT)
			t->limits.flags = nbd_get_be16(p + 30);
		if (type == NBD_REP_ACK && nbd_get_be32(p + 8) == NBD_OPT_GO)
			return at;
	}
	return 0;
}

/* The requests in what is to be sent; their cookies become their numbers. */
static void note_requests(struct talk_to *t)
{
	size_t at = t->handshake, size = nbd_request_size((enum nbd_mode)t->limits.mode);

	while (t->out.len - at >= size) {
		uint8_t *p = t->out.data + at;
		struct asked *a = &t->asked[t->n];
		uint8_t contexts;
		enum nbd_verdict verdict;

		nbd_put_be64(p + 8, t->n);
		verdict = nbd_decode_request(p, &t->limits, &a->rq);
		t->closes = verdict == NBD_REQUEST_CLOSE;
		at += size;
		if (verdict == NBD_REQUEST_CLOSE || verdict == NBD_REQUEST_DISCONNECT ||
		    a->rq.payload > t->out.len - at)
			return;
		if (verdict == NBD_REQUEST_OK && a->rq.command == NBD_CMD_BLOCK_STATUS &&
		    a->rq.payload)
			verdict = nbd_decode_status(t->out.data + at, &t->limits, &a->rq, &contexts);
		a->executed = verdict == NBD_REQUEST_OK;
		at += a->rq.payload;
		t->n++;
	}
}

static struct asked *asked_by(struct talk_to *t, uint64_t cookie)
{
	must(cookie < t->n);
	must(!t->asked[cookie].answers);
	return &t->asked[cookie];
}

static void check_answer(struct asked *a)
{
	a->answers++;
	if (!a->executed)
		must(a->error == a->rq.error);
	else if (a->rq.command == NBD_CMD_READ)
		must(!a->error && a->got == a->rq.length);
	else
		must(!a->error || a->rq.command == NBD_CMD_WRITE_ZEROES);
}

/* Returns how long it is; what it says is noted. */
static size_t take_simple(struct talk_to *t, const uint8_t *p, size_t left)
{
	struct asked *a;

	must(left >= NBD_SIMPLE_REPLY_SIZE && t->limits.mode != NBD_MODE_EXTENDED);
	a = asked_by(t, nbd_get_be64(p + 8));
	a->error = nbd_get_be32(p + 4);
	if (a->rq.command == NBD_CMD_READ && !a->error) {
		must(t->limits.mode == NBD_MODE_SIMPLE || !a->executed);
		a->got = a->executed ? a->rq.length : 0;
		must(left - NBD_SIMPLE_REPLY_SIZE >= a->got);
	}
	check_answer(a);
	return NBD_SIMPLE_REPLY_SIZE + a->got;
}

static size_t take_chunk(struct talk_to *t, const uint8_t *p, size_t left)
{
	bool extended = t->limits.mode == NBD_MODE_EXTENDED;
	size_t head = extended ? NBD_EXTENDED_CHUNK_SIZE : NBD_CHUNK_SIZE;
	uint16_t type = nbd_get_be16(p + 6);
	struct asked *a;
	uint64_t n;

	must(left >= head && t->limits.mode != NBD_MODE_SIMPLE);
	must(nbd_get_be32(p) == (extended ? 0x6e8a278c : 0x668e33ef));
	a = asked_by(t, nbd_get_be64(p + 8));
	must(!extended || nbd_get_be64(p + 16) == a->rq.offset);
	n = extended ? nbd_get_be64(p + 24) : nbd_get_be32(p + 16);
	must(left - head >= n);
	if (type == NBD_REPLY_TYPE_OFFSET_DATA)
		a->got += n - 8;
	else if (type == NBD_REPLY_TYPE_OFFSET_HOLE)
		a->got += nbd_get_be32(p + head + 8);
	else if (type == NBD_REPLY_TYPE_ERROR || type == NBD_REPLY_TYPE_ERROR_OFFSET)
		a->error = nbd_get_be32(p + head);
	else if (type != NBD_REPLY_TYPE_NONE)
		must(a->rq.command == NBD_CMD_BLOCK_STATUS);
	must(!(a->rq.flags & NBD_CMD_FLAG_DF) || !a->got || a->got == a->rq.length);
	if (nbd_get_be16(p + 4) & NBD_REPLY_FLAG_DONE)
		check_answer(a);
	return head + n;
}

/* All that came from there on is replies. */
static void check_replies(struct talk_to *t, size_t at)
{
	while (at < t->in.len) {
		const uint8_t *p = t->in.data + at;
		size_t left = t->in.len - at;

		must(left >= NBD_SIMPLE_REPLY_SIZE);
		at += nbd_get_be32(p) == NBD_SIMPLE_REPLY_MAGIC ? take_simple(t, p, left)
								: take_chunk(t, p, left);
	}
	for (unsigned i = 0; i < t->n && !t->closes; i++)
		must(t->asked[i].answers == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, data + (size < MOST_INPUT ? size : MOST_INPUT) };
	static struct talk_to t;
	uint8_t how = fuzz_byte(&in), cuts = fuzz_byte(&in);
	size_t start;

	t = (struct talk_to){ 0 };
	join(&t);
	if (how & 0x20)
		go_inside(&t);
	begin(&t, how);
	bytes_add(&t.out, in.at, fuzz_left(&in));
	send_all(&t, t.out.data, t.handshake, SIZE_MAX);
	while (!(start = find_start(&t)))
		must(receive(&t));
	note_requests(&t);
	send_all(&t, t.out.data + t.handshake, t.out.len - t.handshake, cuts ? cuts : SIZE_MAX);
	end_sending(&t);
	while (receive(&t))
		;
	if (t.tls)
		gnutls_deinit(t.tls);
	close(t.fd);
	if (!t.closes)
		check_replies(&t, start);
	bytes_free(&t.out);
	bytes_free(&t.in);
	return 0;
}
