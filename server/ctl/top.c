/*
 * On a terminal a sample takes the place of the last one, cut to the window; what was shown last
 * stays when it ends. Elsewhere samples are printed below each other, whole and without codes.
 */
#include "server/ctl/top.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "server/ctl/table.h"
#include "server/ctl/usage.h"

/* The first interval on a terminal, which shows nothing before it is over. */
enum { FIRST_MS = 500 };

/* ---- the terminal ---- */

static const char hide_cursor[] = "\033[?25l\033[H\033[2J";
static const char show_cursor[] = "\033[999;1H\033[?25h\n";

/* For the handlers of signals as well. */
static struct {
	bool keys; /* stdin is one, in a mode in which it gives every key at once */
	struct termios saved, quiet;
	volatile sig_atomic_t resized;
} terminal;

static void put(const char *s, size_t len)
{
	/* Nothing can be done about a failure, in a signal handler least of all. */
	if (write(STDOUT_FILENO, s, len) < 0)
		return;
}

static void enter(void)
{
	if (terminal.keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.quiet);
	put(hide_cursor, sizeof(hide_cursor) - 1);
}

static void leave(void)
{
	put(show_cursor, sizeof(show_cursor) - 1);
	if (terminal.keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.saved);
}

static void on_end(int signal_number)
{
	leave();
	if (signal_number == SIGINT)
		_exit(0);
	raise(signal_number); /* the handler was for once: now it ends the process */
}

static void on_stop(int signal_number)
{
	int error = errno;

	(void)signal_number;
	leave();
	raise(SIGSTOP);
	enter();
	terminal.resized = 1;
	errno = error;
}

static void on_resize(int signal_number)
{
	(void)signal_number;
	terminal.resized = 1;
}

/* SIGWINCH is blocked but while it waits: mask is the one for that. */
static void open_terminal(sigset_t *mask)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction end = { .sa_handler = on_end, .sa_flags = SA_RESETHAND };
	struct sigaction stop = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	struct sigaction resize = { .sa_handler = on_resize, .sa_flags = SA_RESTART };
	sigset_t winch;

	terminal.keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &terminal.saved);
	terminal.quiet = terminal.saved;
	terminal.quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	terminal.quiet.c_cc[VMIN] = 1;
	terminal.quiet.c_cc[VTIME] = 0;
	sigemptyset(&winch);
	sigaddset(&winch, SIGWINCH);
	sigprocmask(SIG_BLOCK, &winch, mask);
	sigdelset(mask, SIGWINCH);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &end, NULL);
	sigaction(SIGTSTP, &stop, NULL);
	sigaction(SIGWINCH, &resize, NULL);
	enter();
}

/* It has one, and that understands the codes. */
static bool is_screen(void)
{
	const char *kind = getenv("TERM");

	return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb");
}

/* ---- time ---- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* False: q was pressed. True: it is time, or (resized) the window has another size. */
static bool wait_until(uint64_t when, const sigset_t *mask)
{
	uint64_t now;
	char key;

	while ((now = now_ns()) < when && !terminal.resized) {
		struct timespec left = { (time_t)((when - now) / 1000000000),
					 (long)((when - now) % 1000000000) };
		struct pollfd p = { .fd = terminal.keys ? STDIN_FILENO : -1, .events = POLLIN };

		if (ppoll(&p, 1, &left, mask) <= 0 || !p.revents)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1)
			terminal.keys = false; /* it is gone; so is its mode */
		else if (key == 'q' || key == 'Q')
			return false;
	}
	return true;
}

/* ---- a sample ---- */

static void put_row(struct table *t, const struct usage *u)
{
	char buf[HUMAN_MAX];

	table_cell(t, "%s", u->id);
	table_cell(t, "%s", u->export);
	if (u->active) {
		table_cell(t, "%.1f%%", 100 * u->share);
		table_cell(t, "%.1f%%", 100 * u->entitled);
	} else {
		table_cell(t, "-");
		table_cell(t, "-");
	}
	table_cell(t, "%.0f", u->iops);
	table_cell(t, "%s", human_bytes((uint64_t)u->bytes_per_s, buf));
	table_cell(t, "%s", human_ns(u->queue_ns, buf));
	table_cell(t, "%s", human_ns(u->service_ns, buf));
	table_cell(t, "%s", human_ns(u->p50_ns, buf));
	table_cell(t, "%s", human_ns(u->p99_ns, buf));
	table_cell(t, "%" PRIu64, u->connections);
	table_cell(t, "%" PRIu64, u->weight);
	table_cell(t, "%s", u->io_class);
}

/* Writes the table of what came between to out. 0, or -1 without memory. */
static int write_table(FILE *out, const json_t *before, const json_t *now, double seconds)
{
	static const char *const headings[] = {
		"CLIENT", "EXPORT", ">SHARE", ">ENTITLED", ">IOPS", ">BYTES/S", ">QUEUE",
		">SERVICE", ">P50", ">P99", ">CONNECTIONS", ">WEIGHT", "CLASS", NULL
	};
	struct table *t = table_new(headings);
	struct usage *u;
	size_t n;

	if (usage_make(before, now, seconds, &u, &n)) {
		table_free(t);
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		put_row(t, &u[i]);
	free(u);
	return table_write(t, out);
}

/* How many bytes of the line have at most this many characters, of UTF-8. */
static size_t cut(const char *line, size_t len, unsigned columns)
{
	unsigned used = 0;

	for (size_t i = 0; i < len; i++)
		if (((unsigned char)line[i] & 0xc0) != 0x80 && ++used > columns)
			return i;
	return len;
}

/* As many lines of text as the window has, each as wide as the window at most. */
static int put_screen(const char *lines)
{
	struct winsize window = { 0 };
	unsigned rows, columns, i;
	size_t len = 0;
	char *text = NULL;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -1;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window))
		window.ws_row = window.ws_col = 0;
	rows = window.ws_row ? window.ws_row : 24;
	columns = window.ws_col ? window.ws_col : 80;
	fputs("\033[H", f);
	for (i = 0; i < rows && *lines; i++) {
		size_t n = strcspn(lines, "\n");

		/* Cleared first: behind a line as wide as the window, its last column would go. */
		fprintf(f, "%s\033[K%.*s", i ? "\n" : "", (int)cut(lines, n, columns), lines);
		lines += n + (lines[n] == '\n');
	}
	if (i < rows)
		fputs("\n\033[J", f);
	if (fclose(f)) {
		free(text);
		return -1;
	}
	put(text, len);
	free(text);
	return 0;
}

static int show(const struct top *t, bool screen, const json_t *before, const json_t *now,
		double seconds)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f;
	int res;

	if (!screen)
		return write_table(stdout, before, now, seconds) || fflush(stdout) ? -1 : 0;
	if (!now) /* of another size before the first one */
		return 0;
	f = open_memstream(&text, &len);
	if (!f)
		return -1;
	fprintf(f, "every %g s; q ends\n\n", t->interval / 1000.0);
	res = write_table(f, before, now, seconds);
	if (fclose(f))
		res = -1;
	if (!res)
		res = put_screen(text);
	free(text);
	return res;
}

/* ---- the command ---- */

/* Samples until they are enough: 0 and, if q was pressed, less. -1 with a sentence in err. */
static int samples(const struct top *t, bool screen, const sigset_t *mask, char *err, size_t errlen)
{
	unsigned left = t->count ? t->count : screen ? 0 : 1, ms = t->interval;
	json_t *before = t->ask(t->ctx, err, errlen), *now = NULL, *next;
	uint64_t since = now_ns(), due, at;
	bool enough = false;
	double seconds = 0;
	int res = before ? 0 : -1;

	if (screen && ms > FIRST_MS)
		ms = FIRST_MS;
	due = since + ms * UINT64_C(1000000);
	while (!res && wait_until(due, mask)) {
		if (terminal.resized) {
			terminal.resized = 0;
		} else {
			next = t->ask(t->ctx, err, errlen);
			if (!next) {
				res = -1;
				break;
			}
			if (!screen && now)
				putchar('\n');
			at = now_ns();
			seconds = (double)(at - since) / 1e9;
			since = at;
			due = at + t->interval * UINT64_C(1000000);
			if (now) {
				json_decref(before);
				before = now;
			}
			now = next;
			enough = left && !--left;
		}
		res = show(t, screen, before, now, seconds);
		if (res)
			snprintf(err, errlen, "out of memory, or the output cannot be written");
		if (enough)
			break;
	}
	json_decref(before);
	json_decref(now);
	return res;
}

int top_run(const struct top *t, char *err, size_t errlen)
{
	bool screen = is_screen();
	sigset_t mask;
	int res;

	if (screen)
		open_terminal(&mask);
	else
		sigprocmask(SIG_BLOCK, NULL, &mask);
	res = samples(t, screen, &mask, err, errlen);
	if (screen)
		leave();
	return res;
}
