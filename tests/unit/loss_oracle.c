#include "tests/unit/loss_oracle.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const op_names[] = {
	[ELV_READ] = "READ", [ELV_WRITE] = "WRITE", [ELV_FLUSH] = "FLUSH",
	[ELV_TRIM] = "TRIM", [ELV_ZERO] = "ZERO", [ELV_CACHE] = "CACHE",
};

void oracle_init(struct loss_oracle *o)
{
	memset(o, 0, sizeof(*o));
	o->clock = 1;
}

void oracle_wrong(struct loss_oracle *o, const char *format, ...)
{
	va_list args;

	if (o->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(o->wrong, sizeof(o->wrong), format, args);
	va_end(args);
}

/* ---- contents ---- */

/* A unit: number, position, then bytes made of both. */
static void fill_unit(unsigned id, unsigned unit, char *buf)
{
	uint64_t x = ((uint64_t)id << 32 | unit) * 0x9e3779b97f4a7c15ull + 1;
	uint32_t head[2] = { id, unit };

	memcpy(buf, head, sizeof(head));
	for (unsigned i = sizeof(head); i < LOSS_UNIT; i += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(buf + i, &x, sizeof(x));
	}
}

void oracle_fill(unsigned id, uint64_t offset, uint64_t length, char *buf)
{
	for (uint64_t i = 0; i < length; i += LOSS_UNIT)
		fill_unit(id, (unsigned)((offset + i) / LOSS_UNIT), buf + i);
}

unsigned oracle_id_of(const char *unit)
{
	static const char zero[LOSS_UNIT];
	uint32_t head[2];
	char whole[LOSS_UNIT];

	memcpy(head, unit, sizeof(head));
	if (!head[0])
		return memcmp(unit, zero, LOSS_UNIT) ? UINT32_MAX : 0;
	fill_unit(head[0], head[1], whole);
	return memcmp(unit, whole, LOSS_UNIT) ? UINT32_MAX : head[0];
}

/* What mod number id leaves in a unit; 0: the beginning. */
static void content(const struct loss_oracle *o, unsigned id, unsigned unit, char *buf)
{
	if (id && o->mod[id - 1].op == ELV_WRITE)
		fill_unit(id, unit, buf);
	else
		memset(buf, 0, LOSS_UNIT);
}

/* ---- what happens ---- */

unsigned oracle_arrives(struct loss_oracle *o, unsigned account, unsigned identity, enum elv_op op,
			uint64_t offset, uint64_t length)
{
	if (o->n == LOSS_MODS) {
		oracle_wrong(o, "the test has too many modifications");
		return LOSS_MODS;
	}
	o->mod[o->n] = (struct loss_mod){
		.op = op,
		.account = account,
		.identity = identity,
		.first = (unsigned)(offset / LOSS_UNIT),
		.count = (unsigned)(length / LOSS_UNIT),
		.arrived = ++o->clock,
	};
	return ++o->n;
}

void oracle_executed(struct loss_oracle *o, unsigned id, bool stable)
{
	struct loss_mod *m = &o->mod[id - 1];

	o->clock++;
	if (m->never)
		oracle_wrong(o, "%s %u was executed after it had been withdrawn", op_names[m->op], id);
	if (!stable)
		m->in_cache = true;
}

void oracle_disk_saved(struct loss_oracle *o)
{
	o->clock++;
	for (unsigned i = 0; i < o->n; i++)
		o->mod[i].in_cache = false;
}

void oracle_disk_failed_to_save(struct loss_oracle *o)
{
	o->clock++;
	for (unsigned i = 0; i < o->n; i++) {
		if (o->mod[i].in_cache)
			o->mod[i].hurt = o->clock;
		o->mod[i].in_cache = false;
	}
}

uint64_t oracle_failure_known(struct loss_oracle *o)
{
	for (unsigned i = 0; i < o->n; i++)
		o->mod[i].hurt_known |= o->mod[i].hurt != 0;
	return ++o->clock;
}

void oracle_answered(struct loss_oracle *o, unsigned id, int error, bool fua)
{
	struct loss_mod *m = &o->mod[id - 1];

	m->answered = ++o->clock;
	m->error = error;
	if (fua && !error)
		m->durable = true;
}

void oracle_unanswered(struct loss_oracle *o, unsigned id, bool executed)
{
	struct loss_mod *m = &o->mod[id - 1];

	o->clock++;
	m->never = !executed;
	if (m->never && m->seen)
		oracle_wrong(o, "%s %u was read, but is said never to have been executed",
			     op_names[m->op], id);
}

void oracle_flush_answered(struct loss_oracle *o, unsigned account, uint64_t arrived, bool is_flush,
			   int error, bool own)
{
	o->clock++;
	if (error) {
		if (!own)
			o->told[account] = o->clock;
		return;
	}
	for (unsigned i = 0; i < o->n && is_flush; i++) {
		struct loss_mod *m = &o->mod[i];

		if (!m->answered || m->answered > arrived || m->error)
			continue;
		if (m->account == account && m->hurt_known && m->hurt > o->told[account])
			oracle_wrong(o, "account %u was never told that the sync of its %s %u failed, and "
				     "a later one succeeds", account, op_names[m->op], i + 1);
		if (!m->hurt)
			m->durable = true;
	}
}

/* ---- what is read ---- */

/* Who looks at a unit. */
struct look {
	bool crashed;
	bool is_read;
	unsigned identity;
	uint64_t arrived; /* of the read */
};

static bool may_be_seen(const struct loss_mod *m, const struct look *l)
{
	if (m->never)
		return false;
	return !l->is_read || m->identity != l->identity || m->arrived < l->arrived;
}

/* Everything older is gone, whatever else is allowed. */
static bool is_certain(const struct loss_mod *m, const struct look *l)
{
	if (l->crashed)
		return m->durable;
	if (!m->answered || m->error)
		return false;
	return !l->is_read || m->answered < l->arrived ||
	       (m->identity == l->identity && m->arrived < l->arrived);
}

static const char *describe(const struct loss_oracle *o, unsigned id, char *buf, size_t len)
{
	const struct loss_mod *m;

	if (!id || id > o->n) {
		snprintf(buf, len, "%s", id ? "garbage" : "zeroes");
		return buf;
	}
	m = &o->mod[id - 1];
	snprintf(buf, len, "%s %u of account %u (%s%s%s)", op_names[m->op], id, m->account,
		 m->never ? "withdrawn" : !m->answered ? "unanswered" : m->error ? "failed" : "answered",
		 m->durable ? ", durable" : "", m->hurt ? ", hurt" : "");
	return buf;
}

/* Bytes of p that are as id left them are crossed out. Returns how many that are. */
static unsigned cross_out(const struct loss_oracle *o, unsigned id, unsigned unit, const char *p, bool *out)
{
	char buf[LOSS_UNIT];
	unsigned n = 0;

	content(o, id, unit, buf);
	for (unsigned i = 0; i < LOSS_UNIT; i++) {
		if (!out[i] && p[i] == buf[i]) {
			out[i] = true;
			n++;
		}
	}
	return n;
}

static void check_unit(struct loss_oracle *o, unsigned unit, const char *p, const struct look *l)
{
	unsigned id, found = oracle_id_of(p), left = LOSS_UNIT;
	bool out[LOSS_UNIT] = { false };
	char is[80], least[80];
	uint32_t head[2];

	memcpy(head, p, sizeof(head));
	if (found && found != UINT32_MAX && head[1] != unit)
		found = UINT32_MAX; /* of another place */
	for (id = o->n;; id--) {
		struct loss_mod *m = id ? &o->mod[id - 1] : NULL;

		if (m && (unit < m->first || unit >= m->first + m->count || !may_be_seen(m, l)))
			continue;
		if (found == (m && m->op == ELV_WRITE ? id : 0)) {
			if (found)
				m->seen = true;
			return;
		}
		if (o->torn && found == UINT32_MAX)
			left -= cross_out(o, id, unit, p, out);
		if (!left)
			return;
		if (!m || (is_certain(m, l) && m->op != ELV_TRIM)) /* TRIM may also do nothing */
			break;
	}
	oracle_wrong(o, "unit %u %s %s, where the oldest allowed is %s", unit,
		     l->is_read ? "was read as" : l->crashed ? "is after the power cut" : "is in the end",
		     describe(o, found, is, sizeof(is)), describe(o, id, least, sizeof(least)));
}

void oracle_check_read(struct loss_oracle *o, unsigned identity, uint64_t arrived, uint64_t offset,
		       uint64_t length, const char *buf)
{
	struct look l = { .is_read = true, .identity = identity, .arrived = arrived };

	o->reads++;
	for (uint64_t i = 0; i < length; i += LOSS_UNIT)
		check_unit(o, (unsigned)((offset + i) / LOSS_UNIT), buf + i, &l);
}

void oracle_check_image(struct loss_oracle *o, const char *image, bool crashed)
{
	struct look l = { .crashed = crashed };

	o->images++;
	for (unsigned u = 0; u < LOSS_UNITS; u++)
		check_unit(o, u, image + u * LOSS_UNIT, &l);
}
