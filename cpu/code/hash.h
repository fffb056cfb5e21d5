/*
 * hash.h: BLAKE2b-256 (RFC 7693). Without a key it names code images by their content. With a key that the other side
 * chose it proves that who sends it has the content: the name alone does not lead to it.
 */
#ifndef FLYT_CODE_HASH_H
#define FLYT_CODE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_SIZE = 32 };

/* In one piece. */
void hash_bytes(const void *data, size_t size, uint8_t out[HASH_SIZE]);

/* In pieces: create, add any number of times, finish (frees it). NULL: no memory. */
typedef struct hash hash;
hash *hash_create(void);
hash *hash_create_keyed(const uint8_t key[HASH_SIZE]);
void  hash_add(hash *, const void *data, size_t size);
void  hash_finish(hash *, uint8_t out[HASH_SIZE]);
void  hash_discard(hash *);                     /* NULL is allowed */

/* In a time that does not depend on where they differ. */
bool hash_equal(const uint8_t a[HASH_SIZE], const uint8_t b[HASH_SIZE]);

#endif
