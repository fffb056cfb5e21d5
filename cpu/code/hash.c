#include "cpu/code/hash.h"

#include <blake2.h>
#include <stdlib.h>

struct hash { blake2b_state state; };

/* The calls of libb2 below fail only for lengths out of range, and these are constants in range. */

void hash_bytes(const void *data, size_t size, uint8_t out[HASH_SIZE])
{
    (void)blake2b(out, data, NULL, HASH_SIZE, size, 0);
}

hash *hash_create(void)
{
    hash *h = aligned_alloc(_Alignof(hash), sizeof *h);     /* the state is aligned to a cache line */
    if (h)
        (void)blake2b_init(&h->state, HASH_SIZE);
    return h;
}

hash *hash_create_keyed(const uint8_t key[HASH_SIZE])
{
    hash *h = aligned_alloc(_Alignof(hash), sizeof *h);
    if (h)
        (void)blake2b_init_key(&h->state, HASH_SIZE, key, HASH_SIZE);
    return h;
}

void hash_add(hash *h, const void *data, size_t size)
{
    (void)blake2b_update(&h->state, data, size);
}

void hash_finish(hash *h, uint8_t out[HASH_SIZE])
{
    (void)blake2b_final(&h->state, out, HASH_SIZE);
    free(h);
}

void hash_discard(hash *h)
{
    free(h);
}

bool hash_equal(const uint8_t a[HASH_SIZE], const uint8_t b[HASH_SIZE])
{
    volatile uint8_t different = 0;               /* volatile: the compiler must not end the loop early */
    for (int i = 0; i < HASH_SIZE; i++)
        different |= a[i] ^ b[i];
    return !different;
}
