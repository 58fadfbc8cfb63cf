/*
 * Metadata contexts in the handshake: LIST_META_CONTEXT and SET_META_CONTEXT.
 *
 * One context is known, base:allocation. What is selected belongs to one export, by its canonical
 * name, and holds if that one is used afterwards; each SET, even one that fails, takes the place of
 * the one before.
 */
#include <stdlib.h>
#include <string.h>

#include "server/nbd/option.h"
#include "server/nbd/text.h"

/* A namespace, a colon, a leaf: as it is asked for. */
static const struct {
	const char *name;
	uint8_t bit; /* enum nbd_context */
	uint32_t id;
} contexts[] = {
	{ "base:allocation", NBD_CONTEXT_ALLOCATION, NBD_ID_ALLOCATION },
};

enum { CONTEXTS = sizeof(contexts) / sizeof(contexts[0]) };

void nbd_context_forget(struct nbd_handshake *h)
{
	free(h->context_export);
	h->context_export = NULL;
	h->contexts = 0;
}

uint8_t nbd_context_selected(const struct nbd_handshake *h, const char *name, size_t len)
{
	bool same = h->context_export && h->context_export_len == len &&
		    !memcmp(h->context_export, name ? name : "", len);

	return same ? h->contexts : 0;
}

/* Is a context meant? A namespace with nothing behind its colon means all of it, for LIST. */
static bool matches(const char *name, const char *query, uint32_t len, bool list)
{
	size_t space = (size_t)(strchr(name, ':') - name) + 1;

	if (len == space)
		return list && !memcmp(name, query, len);
	return len == strlen(name) && !memcmp(name, query, len);
}

/* Of a LIST or SET. */
struct context_request {
	const uint8_t *name;
	uint32_t name_len;
	uint32_t queries; /* their number */
	uint8_t found;    /* bits of enum nbd_context */
};

/* Take a 32-bit length and that many bytes. False: they are not there. */
static bool take_string(const uint8_t **data, uint32_t *left, const uint8_t **s, uint32_t *len)
{
	if (*left < 4 || nbd_get_be32(*data) > *left - 4)
		return false;
	*len = nbd_get_be32(*data);
	*s = *data + 4;
	*data += 4 + *len;
	*left -= 4 + *len;
	return true;
}

/* Length of name, name, count, and for each query its length and text. NULL, or what is wrong. */
static const char *parse(const uint8_t *data, uint32_t len, bool list, struct context_request *rq)
{
	const uint8_t *query;
	uint32_t n;

	*rq = (struct context_request){ 0 };
	if (!take_string(&data, &len, &rq->name, &rq->name_len) || len < 4)
		return "data that end before the number of queries";
	if (!nbd_text_valid((const char *)rq->name, rq->name_len))
		return "an export name that is not UTF-8 without NUL, of at most 4096 bytes";
	rq->queries = nbd_get_be32(data);
	data += 4;
	len -= 4;
	for (uint32_t i = 0; i < rq->queries; i++) {
		if (!take_string(&data, &len, &query, &n))
			return "fewer queries than announced";
		if (!nbd_text_valid((const char *)query, n))
			return "a query that is not UTF-8 without NUL, of at most 4096 bytes";
		for (int k = 0; k < CONTEXTS; k++)
			if (matches(contexts[k].name, (const char *)query, n, list))
				rq->found |= contexts[k].bit;
	}
	if (len)
		return "data after the last query";
	if (list && !rq->queries)
		rq->found = UINT8_MAX;
	return NULL;
}

/* Remember what was selected, for the export of this name. */
static bool select_contexts(struct nbd_handshake *h, const struct nbd_export_info *info,
			    uint8_t found)
{
	h->context_export = malloc(info->name_len + 1);
	if (!h->context_export)
		return false;
	if (info->name_len)
		memcpy(h->context_export, info->name, info->name_len);
	h->context_export_len = info->name_len;
	h->contexts = found;
	return true;
}

/* META_CONTEXT for each: id, name. */
static bool put_contexts(struct nbd_handshake *h, struct nbd_out *out, uint8_t found, bool list)
{
	for (int k = 0; k < CONTEXTS; k++) {
		size_t len = strlen(contexts[k].name);
		uint8_t *p;

		if (!(found & contexts[k].bit))
			continue;
		p = nbd_option_put(h, out, NBD_REP_META_CONTEXT, (uint32_t)(4 + len));
		if (!p)
			return false;
		nbd_put_be32(p, list ? 0 : contexts[k].id);
		memcpy(p + 4, contexts[k].name, len);
	}
	return true;
}

enum step nbd_handle_context(struct nbd_handshake *h, const uint8_t *data, uint32_t len,
			     struct nbd_out *out)
{
	bool list = h->option == NBD_OPT_LIST_META_CONTEXT, selected;
	char err[NBD_HANDSHAKE_TEXT_MAX];
	struct nbd_export_info info;
	struct context_request rq;
	const char *wrong;
	int ret;

	if (!list)
		nbd_context_forget(h);
	if (!list && h->mode == NBD_MODE_SIMPLE)
		return nbd_option_error(h, out, NBD_REP_ERR_INVALID,
					"%s needs STRUCTURED_REPLY or EXTENDED_HEADERS before it",
					h->row->name);
	wrong = parse(data, len, list, &rq);
	if (wrong)
		return nbd_option_error(h, out, NBD_REP_ERR_INVALID, "%s has %s", h->row->name,
					wrong);
	ret = nbd_option_find_export(h, rq.name, rq.name_len, NBD_FIND_INFO, &info, err,
				     sizeof(err));
	if (ret)
		return nbd_option_errno(h, out, ret, err);
	selected = list || select_contexts(h, &info, rq.found);
	nbd_option_put_export(h, &info, NBD_FIND_INFO);
	if (!selected || !put_contexts(h, out, rq.found, list))
		return out_of_memory(h);
	return nbd_option_ack(h, out);
}
