/*
 * The handshake. Input: a byte for the cuts and the list, then what a client sends.
 *
 * talk() asserts what must hold for any of it; here: cuts make no difference, answers are replies,
 * and what was agreed on is consistent.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/nbd_peer.h"

static size_t cut_to(void *arg, size_t left)
{
	size_t n = *(size_t *)arg;

	return n < left ? n : left;
}

static bool is_reply(const struct bytes *out, size_t at)
{
	return out->len - at >= 20 && nbd_get_be64(out->data + at) == 0x3e889045565a9ULL;
}

/* All that was said is option replies, but for the end of an EXPORT_NAME. */
static void check_answers(const struct talk *t)
{
	size_t at = 0;
	struct reply r = { 0 };

	while (at < t->out.len && is_reply(&t->out, at)) {
		r = read_reply(&t->out, &at);
		must(r.type >> 31 || (r.type >= NBD_REP_ACK && r.type <= NBD_REP_META_CONTEXT));
		must(!(r.type >> 31) || r.len <= NBD_HANDSHAKE_TEXT_MAX);
	}
	if (t->result == NBD_HANDSHAKE_ENTER_TRANSMISSION && at == t->out.len)
		must(r.option == NBD_OPT_GO && r.type == NBD_REP_ACK);
	else if (t->result == NBD_HANDSHAKE_ENTER_TRANSMISSION)
		must(t->out.len - at == 10 || t->out.len - at == 134);
	else
		must(at == t->out.len);
	must(!t->aborted || (r.option == NBD_OPT_ABORT && r.type == NBD_REP_ACK));
}

static void check_agreement(const struct talk *t)
{
	const struct nbd_export_limits *l = &t->export.limits;
	bool chunks = l->mode != NBD_MODE_SIMPLE;

	if (t->result != NBD_HANDSHAKE_ENTER_TRANSMISSION)
		return;
	must(l->mode <= NBD_MODE_EXTENDED);
	must(chunks || !l->contexts);
	must(!(l->contexts & ~NBD_CONTEXT_ALLOCATION));
	must(chunks == !!(l->flags & NBD_FLAG_SEND_DF));
	must((l->mode == NBD_MODE_EXTENDED && l->contexts) ==
	     !!(l->flags & NBD_FLAG_BLOCK_STAT_PAYLOAD));
}

static void check_same(const struct talk *a, const struct talk *b)
{
	must(a->result == b->result);
	must(a->consumed == b->consumed);
	must(a->out.len == b->out.len);
	must(!a->out.len || !memcmp(a->out.data, b->out.data, a->out.len));
	must(a->reason == b->reason && a->secured == b->secured);
	must(!memcmp(&a->export.limits, &b->export.limits, sizeof(a->export.limits)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, data + size };
	uint8_t how = fuzz_byte(&in);
	struct world start = { .listed = how % 5 == 4 ? 300 : how % 5, .tls = how / 5 % 3 }, w = start;
	struct bytes sent = { 0 };
	struct talk whole, parts;
	size_t cut = 1 + how / 15;

	bytes_add(&sent, in.at, fuzz_left(&in));
	talk(&whole, &w, &sent, NULL, NULL);
	check_answers(&whole);
	check_agreement(&whole);
	w = start;
	talk(&parts, &w, &sent, cut_to, &cut);
	check_same(&whole, &parts);
	talk_free(&whole);
	talk_free(&parts);
	bytes_free(&sent);
	return 0;
}
