#include "server/nbd/out.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define OUT_MIN		256U

void nbd_out_init(struct nbd_out *out)
{
	*out = (struct nbd_out){ 0 };
}

void nbd_out_free(struct nbd_out *out)
{
	if (!out)
		return;
	free(out->data);
	nbd_out_init(out);
}

uint8_t *nbd_out_reserve(struct nbd_out *out, size_t n)
{
	size_t cap = out->cap ? out->cap : OUT_MIN;
	uint8_t *data;

	if (out->len > NBD_OUT_MAX || n > NBD_OUT_MAX - out->len)
		return NULL;
	while (cap < out->len + n)
		cap *= 2;
	if (cap > out->cap) {
		data = realloc(out->data, cap);
		if (!data)
			return NULL;
		out->data = data;
		out->cap = cap;
	}
	data = out->data + out->len;
	out->len += n;
	return data;
}

void nbd_out_consume(struct nbd_out *out, size_t n)
{
	assert(n <= out->len);
	out->len -= n;
	if (n && out->len)
		memmove(out->data, out->data + n, out->len);
}
