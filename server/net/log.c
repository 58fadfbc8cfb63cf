#include "server/net/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic enum log_level level_now = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	level_now = level;
}

bool log_enabled(enum log_level level)
{
	return level <= level_now;
}

/* Is the error output the stream that $JOURNAL_STREAM names (DEVICE:INODE)? See systemd.exec(5). */
static bool to_journal(void)
{
	static int known = -1;
	const char *env = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (known < 0)
		known = env && sscanf(env, "%llu:%llu", &dev, &ino) == 2 &&
			!fstat(STDERR_FILENO, &st) && st.st_dev == dev && st.st_ino == ino;
	return known;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	static const char *const prefix[] = {
		"liftd: error: ", "liftd: warning: ", "liftd: ", "liftd: "
	};
	static const char *const priority[] = { "<3>", "<4>", "<6>", "<7>" };
	char line[2048];
	va_list ap;
	int n, start;

	if (!log_enabled(level))
		return;
	start = snprintf(line, sizeof(line), "%s", to_journal() ? priority[level] : prefix[level]);
	va_start(ap, fmt);
	n = vsnprintf(line + start, sizeof(line) - (size_t)start, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n += start;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	for (int i = start; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody listens */
}
