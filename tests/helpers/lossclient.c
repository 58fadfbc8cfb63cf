/*
 * lossclient: writes, remembers what it was promised, and checks it after the server was gone.
 *
 *     lossclient SOCKET SEED [CLEAN]
 *
 * One process with several connections to one export. Each sector of the export tells who wrote it last
 * (a number); the process keeps what each block may hold, sector by sector:
 *
 *   a comes before b   if a was answered, or its connection closed, before b was sent, or both were
 *                      sent on one connection in this order
 *   certain            answered well, for what is read; durable, after the server was killed
 *   allowed            what has nothing certain after it
 *
 * Durable is what was answered well as FUA, or before a FLUSH was sent that was answered well. Once a
 * FLUSH or FUA fails, what was not durable by then will never be, unless it is written again.
 *
 * When the connections die it waits for the server to come back, checks all blocks, says "checked" on its
 * output, and goes on. Is there a file called CLEAN then, the server was stopped, not killed, and all that
 * was answered is durable. SIGTERM: it checks once more and ends; 0: all is well.
 */
#include <errno.h>
#include <libnbd.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

enum { SECTOR = 512, SECTORS = 8, BLOCK = SECTOR * SECTORS, BLOCKS = 256, CONNS = 3, DEPTH = 8, MOST = 24, PATIENCE = 60 };
enum { LATE_DEBTS = 2 };           /* of one connection, before another one is closed */

enum kind { WRITE, ZERO, TRIM, READ, FLUSH };

/* A modification of one block. */
struct record {
	uint32_t ids[SECTORS];     /* what each sector tells then */
	enum kind kind;
	unsigned conn;             /* serial */
	uint64_t sent, answered;   /* stamps; answered 0: not yet. Or: when its connection was closed */
	bool good, durable;
	bool doubtful;             /* a failed FLUSH may have lost it */
	TAILQ_ENTRY(record) link;  /* of its block, by time sent */
};
TAILQ_HEAD(records, record);

struct conn {
	struct nbd_handle *nbd;
	unsigned serial, outstanding;
	bool flushed;              /* a FLUSH has succeeded on it, since a connection was closed */
	unsigned late_debts;       /* FLUSHes that failed since then, where the next one did not */
};

struct op {
	enum kind kind;
	bool fua;
	struct conn *conn;
	unsigned serial, first, count;
	uint32_t id;
	uint64_t sent;
	int error;
	bool *done;                /* somebody waits for it */
	char *buf;
	TAILQ_ENTRY(op) link;      /* of all that are under way, by time sent */
};

static const char *socket_path, *clean_path;
static struct records block[BLOCKS];
static struct conn conns[CONNS];
static TAILQ_HEAD(, op) under_way = TAILQ_HEAD_INITIALIZER(under_way);
static unsigned next_serial, rounds;
static uint32_t next_id = 1;
static uint64_t now = 1, state, flushes, flush_errors, late_debts, errors, ops;
static bool down;
static volatile sig_atomic_t stop;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *format, ...)
{
	va_list args;

	fputs("lossclient: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static unsigned below(unsigned n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (unsigned)((state * 0x2545f4914f6cdd1dull >> 33) % n);
}

/* ---- what blocks look like ---- */

static void fill_sector(char *buf, uint32_t id, unsigned number, unsigned sector)
{
	uint32_t head[4] = { id, number, sector, ~id };

	memset(buf, id ? (int)(id * 37 + number) : 0, SECTOR);
	if (id)
		memcpy(buf, head, sizeof(head));
}

/* Whose sector is it? 0: zeroes. UINT32_MAX: nobody's, or several. */
static uint32_t id_of(const char *buf, unsigned number, unsigned sector)
{
	char want[SECTOR];
	uint32_t id;

	memcpy(&id, buf, sizeof(id));
	fill_sector(want, id, number, sector);
	return memcmp(buf, want, SECTOR) ? UINT32_MAX : id;
}

/* ---- what they may hold ---- */

static bool comes_before(const struct record *a, const struct record *b)
{
	return (a->answered && a->answered < b->sent) || (a->conn == b->conn && a->sent < b->sent);
}

/* Is a certain for a read that was sent at that stamp on that connection? conn 0: all that is durable is. */
static bool is_certain(const struct record *a, uint64_t sent, unsigned conn)
{
	if (a->kind == TRIM) /* may have done nothing */
		return false;
	if (!conn)
		return a->durable;
	return a->good && (a->answered < sent || (a->conn == conn && a->sent < sent));
}

static struct record *newest_certain(unsigned number, const struct record *after, uint64_t sent, unsigned conn)
{
	struct record *r;

	TAILQ_FOREACH(r, &block[number], link)
		if (is_certain(r, sent, conn) && (!after || comes_before(after, r)))
			return r;
	return NULL;
}

/* One sector: is there a record, not sent after `until`, that it may be of? */
static bool is_allowed(unsigned number, unsigned sector, uint32_t found, uint64_t sent, unsigned conn, uint64_t until)
{
	struct record *r;

	if (!found && !newest_certain(number, NULL, sent, conn))
		return true; /* zeroes, as in the beginning */
	TAILQ_FOREACH(r, &block[number], link)
		if (r->sent <= until && !(r->conn == conn && r->sent > sent) && r->ids[sector] == found &&
		    !newest_certain(number, r, sent, conn))
			return true;
	return false;
}

/* Something of this block was seen. until: no record that was sent later counts. */
static void check_block(const char *what, unsigned number, const char *buf, uint64_t sent, unsigned conn, uint64_t until)
{
	static const char *const names[] = { [WRITE] = "write", [ZERO] = "zero", [TRIM] = "trim" };
	struct record *r;

	for (unsigned s = 0; s < SECTORS; s++) {
		uint32_t found = id_of(buf + s * SECTOR, number, s);

		if (is_allowed(number, s, found, sent, conn, until))
			continue;
		TAILQ_FOREACH(r, &block[number], link)
			fprintf(stderr, "  %s %u: connection %u, sent %llu, answered %llu%s%s%s\n", names[r->kind],
				r->ids[s], r->conn, (unsigned long long)r->sent, (unsigned long long)r->answered,
				r->good ? ", good" : "", r->durable ? ", durable" : "", r->doubtful ? ", doubtful" : "");
		if (found == UINT32_MAX)
			die("%s: sector %u of block %u holds garbage", what, s, number);
		die("%s: sector %u of block %u holds %s %u, which is older than these, or was never sent", what, s, number,
		    found ? "write" : "zeroes,", found);
	}
}

/* What a durable record has replaced cannot be seen any more, not even by a read that is under way. */
static void forget_old(unsigned number)
{
	struct record *r, *next, *floor = NULL;
	uint64_t oldest = TAILQ_EMPTY(&under_way) ? UINT64_MAX : TAILQ_FIRST(&under_way)->sent;

	TAILQ_FOREACH(r, &block[number], link)
		if (r->durable && r->kind != TRIM && r->answered < oldest)
			floor = r;
	for (r = TAILQ_FIRST(&block[number]); r && floor; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r != floor && r->answered && comes_before(r, floor)) {
			TAILQ_REMOVE(&block[number], r, link);
			free(r);
		}
	}
}

static void add_record(unsigned number, const struct op *op)
{
	struct record *r = calloc(1, sizeof(*r));

	*r = (struct record){ .kind = op->kind, .conn = op->serial, .sent = op->sent };
	for (unsigned s = 0; s < SECTORS; s++)
		r->ids[s] = op->id;
	TAILQ_INSERT_TAIL(&block[number], r, link);
	forget_old(number);
}

static struct record *find_record(unsigned number, const struct op *op)
{
	struct record *r;

	TAILQ_FOREACH(r, &block[number], link)
		if (r->sent == op->sent)
			return r;
	die("block %u: a record is lost", number);
}

/* ---- operations ---- */

/* A FLUSH or FUA failed: what was not durable by then is in doubt for good. */
static void doubt(void)
{
	struct record *r;

	for (unsigned b = 0; b < BLOCKS; b++)
		TAILQ_FOREACH(r, &block[b], link)
			r->doubtful |= !r->durable;
}

static void flushed(const struct op *op)
{
	struct record *r;

	flushes++;
	if (op->error) {
		flush_errors++;
		doubt();
		return;
	}
	op->conn->flushed = true;
	for (unsigned b = 0; b < BLOCKS; b++)
		TAILQ_FOREACH(r, &block[b], link)
			if (r->good && r->answered < op->sent && !r->doubtful)
				r->durable = true;
}

/* error: ENOTCONN if there was no answer. */
static void finished(struct op *op)
{
	now++;
	if (op->error == ENOTCONN)
		return; /* close_conn sees to it */
	if (op->error)
		errors++;
	if (op->kind == FLUSH)
		flushed(op);
	if (op->kind == READ && !op->error)
		for (unsigned i = 0; i < op->count; i++)
			check_block("read", op->first + i, op->buf + i * BLOCK, op->sent, op->serial, now);
	if (op->kind == READ || op->kind == FLUSH)
		return;
	if (op->fua && op->error)
		doubt();
	for (unsigned i = 0; i < op->count; i++) {
		struct record *r = find_record(op->first + i, op);

		r->answered = now;
		r->good = !op->error;
		r->durable = op->fua && r->good;
	}
}

static int completed(void *user_data, int *error)
{
	struct op *op = user_data;

	op->error = *error;
	op->conn->outstanding--;
	TAILQ_REMOVE(&under_way, op, link);
	finished(op);
	if (op->done)
		*op->done = true;
	free(op->buf);
	free(op);
	return 1;
}

static void start(struct conn *c, struct op *op)
{
	nbd_completion_callback cb = { .callback = completed, .user_data = op };
	uint64_t offset = (uint64_t)op->first * BLOCK, length = (uint64_t)op->count * BLOCK;
	uint32_t flags = op->fua ? LIBNBD_CMD_FLAG_FUA : 0;
	int64_t cookie = -1;

	op->conn = c;
	op->serial = c->serial;
	op->sent = ++now;
	op->id = op->kind == WRITE ? next_id++ : 0;
	c->outstanding++;
	TAILQ_INSERT_TAIL(&under_way, op, link);
	ops++;
	if (op->kind == WRITE || op->kind == READ)
		op->buf = malloc(length);
	for (unsigned i = 0; i < op->count && op->kind != READ; i++) {
		for (unsigned s = 0; s < SECTORS && op->kind == WRITE; s++)
			fill_sector(op->buf + i * BLOCK + s * SECTOR, op->id, op->first + i, s);
		add_record(op->first + i, op);
	}
	switch (op->kind) {
	case WRITE:
		cookie = nbd_aio_pwrite(c->nbd, op->buf, length, offset, cb, flags);
		break;
	case ZERO:
		cookie = nbd_aio_zero(c->nbd, length, offset, cb, flags);
		break;
	case TRIM:
		cookie = nbd_aio_trim(c->nbd, length, offset, cb, flags);
		break;
	case READ:
		cookie = nbd_aio_pread(c->nbd, op->buf, length, offset, cb, 0);
		break;
	case FLUSH:
		cookie = nbd_aio_flush(c->nbd, cb, 0);
		break;
	}
	if (cookie < 0) { /* not sent: the connection is dead. libnbd does not call back then */
		c->outstanding--;
		TAILQ_REMOVE(&under_way, op, link);
		if (op->done)
			*op->done = true;
		free(op->buf);
		free(op);
		down = true;
	}
}

/* ---- connections ---- */

static void open_conn(struct conn *c)
{
	c->nbd = nbd_create();
	c->serial = ++next_serial;
	c->outstanding = 0;
	c->flushed = false;
	c->late_debts = 0;
	if (!c->nbd || nbd_set_export_name(c->nbd, "disk") || nbd_connect_unix(c->nbd, socket_path)) {
		nbd_close(c->nbd);
		c->nbd = NULL;
		down = true;
	}
}

/* Without a word. What it had under way may have been executed or not, but not later than now. */
static void close_conn(struct conn *c)
{
	struct record *r;

	nbd_close(c->nbd); /* completes all with ENOTCONN */
	c->nbd = NULL;
	now++;
	/* The server may think that an error that was told on it was not heard, and tell it again. */
	for (unsigned i = 0; i < CONNS; i++) {
		conns[i].flushed = false;
		conns[i].late_debts = 0;
	}
	for (unsigned b = 0; b < BLOCKS; b++)
		TAILQ_FOREACH(r, &block[b], link)
			if (r->conn == c->serial && !r->answered)
				r->answered = now;
}

/* Let the connections go on. Wait up to so many ms. */
static void turn(int ms)
{
	struct pollfd p[CONNS];

	for (unsigned i = 0; i < CONNS; i++) {
		unsigned dir = conns[i].nbd ? nbd_aio_get_direction(conns[i].nbd) : 0;

		p[i].fd = conns[i].nbd ? nbd_aio_get_fd(conns[i].nbd) : -1;
		p[i].events = (short)((dir & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
				      (dir & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0));
	}
	if (poll(p, CONNS, ms) < 0 && errno != EINTR)
		die("poll: %s", strerror(errno));
	for (unsigned i = 0; i < CONNS; i++) {
		struct nbd_handle *nbd = conns[i].nbd;

		if (!nbd)
			continue;
		if (p[i].revents & (POLLIN | POLLHUP | POLLERR))
			nbd_aio_notify_read(nbd);
		else if (p[i].revents & POLLOUT)
			nbd_aio_notify_write(nbd);
		if (nbd_aio_is_dead(nbd) || nbd_aio_is_closed(nbd))
			down = true;
	}
}

static void wait_for_op(struct conn *c, struct op *op)
{
	bool done = false;

	op->done = &done;
	start(c, op);
	while (!done && !down)
		turn(1000);
	if (!done)
		op->done = NULL; /* still there: completed by close_conn */
}

/* ---- rounds ---- */

static void some_op(void)
{
	struct conn *c = &conns[below(CONNS)];
	struct op *op = calloc(1, sizeof(*op));
	unsigned x = below(100);

	op->kind = x < 50 ? WRITE : x < 56 ? ZERO : x < 60 ? TRIM : x < 85 ? READ : FLUSH;
	op->fua = op->kind < READ && below(8) == 0;
	if (op->kind == FLUSH) {
		uint64_t before = flush_errors;
		bool had = c->flushed;

		wait_for_op(c, op);
		if (down || flush_errors == before)
			return;
		/*
		 * Not just a debt from before: then none will succeed before this connection ends.
		 * The server may make a debt a moment after the last success: when it sees the end
		 * of another connection, or an older write comes back. Not again and again.
		 */
		op = calloc(1, sizeof(*op));
		op->kind = FLUSH;
		before = flush_errors;
		wait_for_op(c, op);
		if (!down && flush_errors == before && had) {
			late_debts++;
			if (++c->late_debts > LATE_DEBTS)
				die("%u times a FLUSH failed, and the next one on the same connection succeeded",
				    c->late_debts);
			return;
		}
		close_conn(c);
		open_conn(c);
		return;
	}
	op->count = 1 + below(below(4) ? 4 : MOST);
	op->first = below(2) ? below(16) : below(BLOCKS - MOST);
	if (op->fua)
		wait_for_op(c, op);
	else if (c->outstanding < DEPTH)
		start(c, op);
	else
		free(op);
}

static void open_all(void)
{
	struct timespec pause = { .tv_nsec = 10000000 };

	for (unsigned tries = 0; tries < PATIENCE * 100; tries++) {
		down = false;
		for (unsigned i = 0; i < CONNS && !down; i++)
			if (!conns[i].nbd)
				open_conn(&conns[i]);
		if (!down)
			return;
		nanosleep(&pause, NULL);
	}
	die("the server does not come back: %s", nbd_get_error());
}

/* All blocks, one by one, each again if the disk fails. 0, or -1 if the connection did. */
static int read_all(char *buf)
{
	for (unsigned b = 0, tries = 0; b < BLOCKS; tries++) {
		if (!nbd_pread(conns[0].nbd, buf + b * BLOCK, BLOCK, (uint64_t)b * BLOCK, 0)) {
			b++;
			tries = 0;
		} else if (nbd_aio_is_dead(conns[0].nbd) || nbd_aio_is_closed(conns[0].nbd) || tries == 10) {
			return -1;
		}
	}
	return 0;
}

/* The server was gone. What it has now is all that will ever be left of what was. */
static void check_all(void)
{
	static char buf[BLOCKS * BLOCK];
	struct record *r;
	unsigned durable = 0;

	if (read_all(buf)) {
		down = true;
		return;
	}
	for (unsigned b = 0; b < BLOCKS; b++) {
		TAILQ_FOREACH(r, &block[b], link)
			durable += r->durable;
		check_block("after the power cut", b, buf + b * BLOCK, 0, 0, UINT64_MAX);
		while ((r = TAILQ_FIRST(&block[b]))) {
			TAILQ_REMOVE(&block[b], r, link);
			free(r);
		}
		r = calloc(1, sizeof(*r));
		for (unsigned s = 0; s < SECTORS; s++)
			r->ids[s] = id_of(buf + b * BLOCK + s * SECTOR, b, s);
		r->kind = WRITE;
		r->conn = UINT32_MAX;
		r->sent = r->answered = ++now;
		r->good = r->durable = true;
		TAILQ_INSERT_TAIL(&block[b], r, link);
	}
	rounds++;
	printf("checked %u: %u durable records, %llu operations, %llu of %llu flushes and %llu operations failed, "
	       "%llu late debts\n", rounds, durable, (unsigned long long)ops, (unsigned long long)flush_errors,
	       (unsigned long long)flushes, (unsigned long long)errors, (unsigned long long)late_debts);
	fflush(stdout);
}

/* It was stopped in good order: all that was answered well is there. */
static void all_is_durable(void)
{
	struct record *r;

	for (unsigned b = 0; b < BLOCKS; b++)
		TAILQ_FOREACH(r, &block[b], link)
			r->durable |= r->good && !r->doubtful;
}

static void come_back(void)
{
	do {
		for (unsigned i = 0; i < CONNS; i++)
			if (conns[i].nbd)
				close_conn(&conns[i]);
		open_all();
		if (clean_path && !access(clean_path, F_OK))
			all_is_durable();
		check_all();
	} while (down);
}

/* All is answered: what was answered well must be there, without a power cut. */
static void check_end(void)
{
	static char buf[BLOCKS * BLOCK];

	for (unsigned i = 0; i < CONNS; i++)
		while (conns[i].outstanding && !down)
			turn(1000);
	if (down || read_all(buf))
		die("at the end: %s", nbd_get_error());
	now++;
	for (unsigned b = 0; b < BLOCKS; b++)
		check_block("at the end", b, buf + b * BLOCK, now, UINT32_MAX, UINT64_MAX);
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

int main(int argc, char **argv)
{
	struct sigaction term = { .sa_handler = on_term };

	if (argc < 3)
		die("usage: lossclient SOCKET SEED [CLEAN]");
	socket_path = argv[1];
	state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull + 1;
	clean_path = argc > 3 ? argv[3] : NULL;
	sigaction(SIGTERM, &term, NULL);
	for (unsigned b = 0; b < BLOCKS; b++)
		TAILQ_INIT(&block[b]);
	open_all();
	check_all(); /* what is there is the beginning */
	while (!stop) {
		if (below(200) == 0) {
			struct conn *c = &conns[below(CONNS)];

			close_conn(c);
			open_conn(c);
		}
		if (!down)
			some_op();
		turn(0);
		if (down && !stop)
			come_back();
	}
	check_end();
	for (unsigned i = 0; i < CONNS; i++)
		close_conn(&conns[i]);
	return 0;
}
