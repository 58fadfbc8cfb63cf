/* How a row runs and ends, and what is released then. */
#include "tests/conformance/test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/conformance/wire.h"

/* No row takes longer than so many times the limit on waiting. */
enum { PATIENCE = 6 };

struct memory {
	struct memory *next;
	max_align_t data[];
};

void *grab(struct test *t, size_t n)
{
	struct memory *m = calloc(1, sizeof(*m) + n + 1);

	if (!m) {
		fprintf(stderr, "conformance: no memory for %zu bytes\n", n);
		exit(1);
	}
	m->next = t->memory;
	t->memory = m;
	return m->data;
}

void fill(uint8_t *buf, size_t n, unsigned seed)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (size_t i = 0; i < n; i++) {
		x ^= x >> 12;
		x ^= x << 25;
		x ^= x >> 27;
		buf[i] = (uint8_t)(1 + (x * UINT64_C(0x2545f4914f6cdd1d) >> 33) % 255);
	}
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* One line: whatever a server has sent, and not without end. */
static void add_detail(struct test *t, const char *format, va_list args)
{
	size_t n = strlen(t->detail);

	if (n && n + 2 < sizeof(t->detail)) {
		memcpy(t->detail + n, "; ", 3);
		n += 2;
	}
	if (t->about)
		n += (size_t)snprintf(t->detail + n, sizeof(t->detail) - n, "%s: ", t->about);
	if (n < sizeof(t->detail))
		vsnprintf(t->detail + n, sizeof(t->detail) - n, format, args);
	for (char *p = t->detail; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	}
}

#define ADD_DETAIL(t, format)				\
	do {						\
		va_list args;				\
							\
		va_start(args, format);			\
		add_detail(t, format, args);		\
		va_end(args);				\
	} while (0)

void fail(struct test *t, const char *format, ...)
{
	ADD_DETAIL(t, format);
	t->result = FAIL;
	longjmp(t->out, 1);
}

void miss(struct test *t, const char *format, ...)
{
	ADD_DETAIL(t, format);
	t->result = t->row && t->row->level == SHOULD ? ADVICE : FAIL;
	longjmp(t->out, 1);
}

void advise(struct test *t, const char *format, ...)
{
	ADD_DETAIL(t, format);
	t->result = ADVICE;
}

void not_offered(struct test *t, const char *format, ...)
{
	t->detail[0] = '\0';
	ADD_DETAIL(t, format);
	t->result = NOT_OFFERED;
	longjmp(t->out, 1);
}

void test_run(struct test *t, const struct row *row, struct target *target)
{
	struct memory *m;

	memset(t, 0, sizeof(*t));
	t->row = row;
	t->target = target;
	t->deadline = now_ms() + PATIENCE * 1000 * (uint64_t)target->timeout;
	if (!setjmp(t->out))
		row->run(t);
	while (t->conns)
		conn_close(t->conns);
	while ((m = t->memory)) {
		t->memory = m->next;
		free(m);
	}
}
