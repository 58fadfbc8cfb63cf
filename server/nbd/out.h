/*
 * A growable, bounded buffer of bytes on their way to a client.
 *
 * Plain memory, no lock: owned by whoever embeds it and used by one thread at a time. The handshake
 * keeps no pointer into it between calls, so a loop may lend one scratch buffer to all of its
 * connections, as long as it contains one connection's bytes at a time.
 */
#ifndef SERVER_NBD_OUT_H
#define SERVER_NBD_OUT_H

#include <stddef.h>
#include <stdint.h>

/* Never grows beyond this many bytes. */
#define NBD_OUT_MAX	(64U << 10)

struct nbd_out {
	uint8_t *data;		/* what is to be sent: data[0 .. len - 1]; NULL while cap is 0 */
	size_t len;
	size_t cap;
};

/* Make it empty; allocates nothing. */
void nbd_out_init(struct nbd_out *out);

/* Free the memory and make it empty again. Accepts NULL. */
void nbd_out_free(struct nbd_out *out);

/*
 * Append n bytes and return where to write them, or NULL, with the buffer unchanged, if it would
 * exceed NBD_OUT_MAX or memory is short. The pointer is valid until the next call on out.
 */
uint8_t *nbd_out_reserve(struct nbd_out *out, size_t n);

/* Drop the first n bytes, n <= len: they have been sent. Keeps the memory. */
void nbd_out_consume(struct nbd_out *out, size_t n);

#endif
