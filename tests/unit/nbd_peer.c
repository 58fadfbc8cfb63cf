#include "tests/unit/nbd_peer.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/nbd/text.h"

/* ---- bytes ---- */

void bytes_free(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){ 0 };
}

static uint8_t *bytes_room(struct bytes *b, size_t len)
{
	if (b->cap - b->len < len) {
		b->cap = 2 * (b->len + len);
		b->data = realloc(b->data, b->cap);
		must(b->data);
	}
	b->len += len;
	return b->data + b->len - len;
}

void bytes_add(struct bytes *b, const void *data, size_t len)
{
	if (len)
		memcpy(bytes_room(b, len), data, len);
}

void bytes_be16(struct bytes *b, uint16_t v)
{
	nbd_put_be16(bytes_room(b, 2), v);
}

void bytes_be32(struct bytes *b, uint32_t v)
{
	nbd_put_be32(bytes_room(b, 4), v);
}

void bytes_be64(struct bytes *b, uint64_t v)
{
	nbd_put_be64(bytes_room(b, 8), v);
}

void bytes_fill(struct bytes *b, uint8_t c, size_t len)
{
	if (len)
		memset(bytes_room(b, len), c, len);
}

void client_flags(struct bytes *b, uint32_t flags)
{
	bytes_be32(b, flags);
}

void client_option(struct bytes *b, uint32_t option, const void *data, size_t len)
{
	bytes_add(b, "IHAVEOPT", 8);
	bytes_be32(b, option);
	bytes_be32(b, (uint32_t)len);
	bytes_add(b, data, len);
}

void client_info(struct bytes *b, uint32_t option, const char *name, size_t n,
		 const uint16_t *items)
{
	struct bytes data = { 0 };

	bytes_be32(&data, (uint32_t)strlen(name));
	bytes_add(&data, name, strlen(name));
	bytes_be16(&data, (uint16_t)n);
	for (size_t i = 0; i < n; i++)
		bytes_be16(&data, items[i]);
	client_option(b, option, data.data, data.len);
	bytes_free(&data);
}

void client_context(struct bytes *b, uint32_t option, const char *name, const char *query)
{
	struct bytes data = { 0 };

	bytes_be32(&data, (uint32_t)strlen(name));
	bytes_add(&data, name, strlen(name));
	bytes_be32(&data, 1);
	bytes_be32(&data, (uint32_t)strlen(query));
	bytes_add(&data, query, strlen(query));
	client_option(b, option, data.data, data.len);
	bytes_free(&data);
}

void client_request(struct bytes *b, uint16_t command, uint64_t offset, uint32_t length)
{
	bytes_be32(b, 0x25609513);
	bytes_be16(b, 0);
	bytes_be16(b, command);
	bytes_be64(b, 0x636f6f6b6965);
	bytes_be64(b, offset);
	bytes_be32(b, length);
}

/* ---- exports ---- */

struct ref {
	char *name, *description;
};

static char *copy(const char *s, size_t len)
{
	char *p = malloc(len ? len : 1);	/* no terminator: nobody may count on one */

	must(p);
	memcpy(p, s, len);
	return p;
}

static void grant(struct world *w, const char *name, size_t len, const char *description,
		  size_t description_len, struct nbd_export_info *info)
{
	struct ref *ref = malloc(sizeof(*ref));

	must(ref);
	ref->name = copy(name, len);
	ref->description = description ? copy(description, description_len) : NULL;
	info->name = ref->name;
	info->name_len = len;
	info->description = ref->description;
	info->description_len = description_len;
	info->export = ref;
	w->refs++;
}

static void grant_known(struct world *w, unsigned i, struct nbd_export_info *info)
{
	static const char *const names[] = { "disk", "ro", "blocks" };
	const char *description = i == 0 ? "The root disk" : NULL;
	size_t len = description ? strlen(description) : 0;

	if (i == 0 && w->description) {
		description = w->description;
		len = w->description_len;
	}
	grant(w, names[i], strlen(names[i]), description, len, info);
	info->limits.size = DISK_SIZE;
	info->limits.flags = i == 1 ? 0x000f : 0x056d;
	if (i == 2) {
		info->limits.min_block = 4096;
		info->limits.max_payload = 1 << 20;
		info->preferred_block = w->preferred ? w->preferred : 65536;
	}
}

static int world_find(void *ctx, const char *name, size_t len, enum nbd_find_purpose purpose,
		      struct nbd_export_info *info, char *err, size_t errlen)
{
	static const struct {
		const char *name;
		int ret;
	} rows[] = {
		{ "", 0 }, { "disk", 0 }, { "ro", 1 }, { "blocks", 2 }, { "forbidden", -EACCES },
		{ "busy", -EBUSY }, { "down", -ESHUTDOWN }, { "broken", -EIO }, { "root", -EPERM },
	};
	struct world *w = ctx;
	int ret = -ENOENT;

	w->finds++;
	w->attaches += purpose == NBD_FIND_ATTACH;
	must(len <= NBD_STRING_MAX);
	must(nbd_text_valid(name, len));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strlen(rows[i].name) == len && !memcmp(rows[i].name, name, len))
			ret = rows[i].ret;
	}
	if (ret < 0) {
		if (w->text)
			snprintf(err, errlen, "%s", w->text);
		else
			snprintf(err, errlen, "export '%.*s': no", (int)len, name);
		return ret;
	}
	grant_known(w, (unsigned)ret, info);
	w->seats += purpose == NBD_FIND_ATTACH;
	return 0;
}

static int world_next(void *ctx, uint64_t *cursor, struct nbd_export_info *info, char *err,
		      size_t errlen)
{
	struct world *w = ctx;
	unsigned i = (unsigned)*cursor;
	char name[32];

	if (w->list_error && i == w->list_error_at) {
		snprintf(err, errlen, "%s", w->text ? w->text : "no list for you");
		return w->list_error;
	}
	if (i >= w->listed)
		return 0;
	++*cursor;
	if (w->list_invalid && i == 1) {
		grant(w, "bad\xff", 4, NULL, 0, info);
	} else if (i < 3) {
		grant_known(w, i, info);
	} else {
		snprintf(name, sizeof(name), "export-%05u", i);
		grant(w, name, strlen(name), "text", 4, info);
	}
	return 1;
}

static void world_put(void *ctx, void *export, enum nbd_find_purpose purpose)
{
	struct world *w = ctx;
	struct ref *ref = export;

	must(w->refs > 0);
	w->refs--;
	if (purpose == NBD_FIND_ATTACH) {
		must(w->seats > 0);
		w->seats--;
	}
	free(ref->name);
	free(ref->description);
	free(ref);
}

/* ---- a conversation ---- */

/* One feed of n bytes in memory of their own; returns how many were consumed. */
static size_t feed(struct talk *t, struct nbd_handshake *h, const uint8_t *in, size_t n,
		   struct nbd_out *out)
{
	uint8_t *exact = n ? malloc(n) : NULL;
	size_t consumed = SIZE_MAX;

	if (n)
		memcpy(exact, in, n);
	t->result = nbd_handshake_feed(h, exact, n, &consumed, out);
	free(exact);
	must(consumed <= n);
	must(out->len <= NBD_OUT_MAX);
	must(out->len <= NBD_HANDSHAKE_OUT_HIGH + 3 * NBD_STRING_MAX);
	if (out->len > t->out_max)
		t->out_max = out->len;
	if (t->result == NBD_HANDSHAKE_CONTINUE) {
		must(out->len >= NBD_HANDSHAKE_OUT_HIGH);
		t->continues++;
	}
	bytes_add(&t->out, out->data, out->len);
	nbd_out_consume(out, out->len);
	t->consumed += consumed;
	if (t->result == NBD_HANDSHAKE_STARTTLS) {
		must(!t->secured);
		t->secured = true;
		nbd_handshake_secured(h);
		/* Nobody has looked at what was left. */
		t->result = consumed < n ? NBD_HANDSHAKE_CONTINUE : NBD_HANDSHAKE_NEED_MORE;
	}
	return consumed;
}

static bool final(enum nbd_handshake_result result)
{
	return result == NBD_HANDSHAKE_CLOSE || result == NBD_HANDSHAKE_ENTER_TRANSMISSION;
}

static void check_end(struct talk *t, struct world *w, struct nbd_handshake *h,
		      const struct bytes *in, struct nbd_out *out)
{
	enum nbd_handshake_result result = t->result;

	if (result == NBD_HANDSHAKE_NEED_MORE)
		must(t->consumed == in->len);
	t->reason = nbd_handshake_reason(h);
	t->aborted = nbd_handshake_aborted(h);
	must((t->reason != NULL) == (result == NBD_HANDSHAKE_CLOSE));
	if (final(result)) {
		/* Final states stay, and say nothing more. */
		must(feed(t, h, (const uint8_t *)"IHAVEOPT", 8, out) == 0);
		must(t->result == result);
	}
	must(w->refs == (result == NBD_HANDSHAKE_ENTER_TRANSMISSION));
	must(w->seats == w->refs);
}

void talk(struct talk *t, struct world *w, const struct bytes *in,
	  size_t (*cut)(void *arg, size_t left), void *arg)
{
	struct nbd_handshake h;
	struct nbd_out out;
	size_t have = 0, n;

	*t = (struct talk){ .result = NBD_HANDSHAKE_NEED_MORE };
	nbd_out_init(&out);
	nbd_handshake_init(&h, &world_ops, w);
	nbd_handshake_set_tls(&h, w->tls);
	/* have: bytes "received" so far; what was not consumed of them is fed again. */
	while (!final(t->result) && (have < in->len || t->result == NBD_HANDSHAKE_CONTINUE)) {
		if (t->result != NBD_HANDSHAKE_CONTINUE || (have < in->len && cut)) {
			n = cut ? cut(arg, in->len - have) : in->len - have;
			must(n > 0 && n <= in->len - have);
			have += n;
		}
		feed(t, &h, in->data + t->consumed, have - t->consumed, &out);
	}
	check_end(t, w, &h, in, &out);
	if (t->result == NBD_HANDSHAKE_ENTER_TRANSMISSION) {
		nbd_handshake_export(&h, &t->export);
		nbd_handshake_free(&h);
		must(w->seats == 1);
		world_put(w, t->export.export, NBD_FIND_ATTACH);
	} else {
		nbd_handshake_free(&h);
	}
	must(w->refs == 0);
	nbd_out_free(&out);
}

void talk_free(struct talk *t)
{
	bytes_free(&t->out);
}

size_t cut_bytes(void *arg, size_t left)
{
	(void)arg;
	(void)left;
	return 1;
}

/* ---- reading the answers ---- */

struct reply read_reply(const struct bytes *out, size_t *at)
{
	const uint8_t *p = out->data + *at;
	struct reply r;

	must(out->len - *at >= 20);
	must(nbd_get_be64(p) == 0x3e889045565a9ULL);
	r.option = nbd_get_be32(p + 8);
	r.type = nbd_get_be32(p + 12);
	r.len = nbd_get_be32(p + 16);
	r.data = p + 20;
	must(out->len - *at - 20 >= r.len);
	*at += 20 + r.len;
	return r;
}

struct reply expect_reply(const struct bytes *out, size_t *at, uint32_t option, uint32_t type)
{
	struct reply r = read_reply(out, at);

	must(r.option == option);
	must(r.type == type);
	if (r.type >> 31) {
		must(r.len > 0);
		must(r.len <= NBD_HANDSHAKE_TEXT_MAX);
		must(nbd_text_valid((const char *)r.data, r.len));
		for (uint32_t i = 0; i < r.len; i++)
			must(r.data[i] >= 0x20 && r.data[i] != 0x7f);
	} else if (r.type == NBD_REP_ACK) {
		must(r.len == 0);
	}
	return r;
}

const struct nbd_exports_ops world_ops = {
	.find = world_find,
	.next = world_next,
	.put = world_put,
};
