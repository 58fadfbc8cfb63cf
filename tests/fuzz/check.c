/* What the unit tests' code asserts with, for programs that are no test suites: say it, abort. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void _mark_point(const char *file, int line)
{
	(void)file;
	(void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: %s", file, line, expr);
	if (msg) {
		fprintf(stderr, ": ");
		va_start(args, msg);
		vfprintf(stderr, msg, args);
		va_end(args);
	}
	fprintf(stderr, "\n");
	abort();
}
