#include "tests/unit/loss_script.h"

#include "tests/unit/loss.h"

#define US 1000ull

enum { REQUESTS = 110, HOT_UNITS = 96 };

struct writer {
	struct loss_action *actions;
	size_t n;
	uint64_t at, random;
	bool open[LOSS_CONNS];
};

static unsigned below(struct writer *w, unsigned n)
{
	return (unsigned)(loss_random(&w->random) % n);
}

static struct loss_action *add(struct writer *w, enum loss_what what)
{
	struct loss_action *a = &w->actions[w->n++];

	*a = (struct loss_action){ .at = w->at, .what = what };
	return a;
}

static void request(struct writer *w, unsigned conn, enum elv_op op, unsigned flags, unsigned unit,
		    unsigned count)
{
	struct loss_action *a = add(w, LOSS_DO_REQUEST);

	a->conn = conn;
	a->op = op;
	a->flags = flags;
	a->offset = op == ELV_FLUSH ? 0 : (uint64_t)unit * LOSS_UNIT;
	a->length = op == ELV_FLUSH ? 0 : (uint64_t)count * LOSS_UNIT;
}

/* Somewhere, often where others are too; mostly small, now and then so large that it is sliced. */
static void somewhere(struct writer *w, unsigned *unit, unsigned *count)
{
	unsigned size = below(w, 10);

	*count = size == 0 ? 64 + below(w, 160) : size < 4 ? 1 + below(w, 64) : 1 + below(w, 8);
	if (below(w, 2))
		*unit = below(w, HOT_UNITS);
	else
		*unit = below(w, LOSS_UNITS);
	if (*unit + *count > LOSS_UNITS)
		*unit = LOSS_UNITS - *count;
}

/* Neighbours, in one turn, so that they merge: forwards, backwards, or around a hole. */
static void stream(struct writer *w, unsigned conn, enum elv_op op, unsigned flags)
{
	unsigned n = 3 + below(w, 5), each = 1 + below(w, 6), order = below(w, 3);
	unsigned first = below(w, LOSS_UNITS - n * each);

	for (unsigned i = 0; i < n; i++) {
		unsigned k = order == 0 ? i : order == 1 ? n - 1 - i : (i * 2) % n + (i * 2 >= n && n % 2 == 0);

		request(w, conn, op, flags, first + k * each, each);
	}
}

static void one(struct writer *w, unsigned conn)
{
	static const struct {
		enum elv_op op;
		unsigned flags, share;
	} kinds[] = {
		{ ELV_WRITE, 0, 34 }, { ELV_WRITE, ELV_FUA, 9 }, { ELV_READ, 0, 18 }, { ELV_FLUSH, 0, 11 },
		{ ELV_TRIM, 0, 4 }, { ELV_TRIM, ELV_FUA, 2 }, { ELV_ZERO, 0, 4 }, { ELV_ZERO, ELV_NO_HOLE, 2 },
		{ ELV_ZERO, ELV_FUA, 2 }, { ELV_CACHE, 0, 2 },
	};
	unsigned i = 0, x = below(w, 88), unit, count;

	while (x >= kinds[i].share)
		x -= kinds[i++].share;
	if (below(w, 12) == 0 && kinds[i].op == ELV_WRITE) {
		stream(w, conn, ELV_WRITE, kinds[i].flags);
		return;
	}
	somewhere(w, &unit, &count);
	request(w, conn, kinds[i].op, kinds[i].flags, unit, count);
}

size_t loss_script(uint64_t seed, struct loss_action *actions)
{
	struct writer w = { .actions = actions, .random = seed * 0x9e3779b97f4a7c15ull + 1 };

	for (unsigned c = 0; c < LOSS_CONNS; c++) {
		w.open[c] = true;
		add(&w, LOSS_DO_OPEN)->conn = c;
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		unsigned conn = below(&w, LOSS_CONNS);

		if (below(&w, 5) < 3)
			w.at += below(&w, 700) * US;
		if (i == REQUESTS / 3 || i == REQUESTS * 2 / 3)
			add(&w, LOSS_DO_SWITCH)->choice = 1;
		if (i % (REQUESTS / 5) == REQUESTS / 10)
			add(&w, LOSS_DO_SET)->choice = below(&w, 4);
		if (!w.open[conn] && below(&w, 2)) {
			w.open[conn] = true;
			add(&w, LOSS_DO_OPEN)->conn = conn;
		}
		if (!w.open[conn])
			continue;
		if (i > REQUESTS / 6 && below(&w, 14) == 0) {
			w.open[conn] = false;
			add(&w, LOSS_DO_CLOSE)->conn = conn;
			continue;
		}
		one(&w, conn);
	}
	return w.n;
}
