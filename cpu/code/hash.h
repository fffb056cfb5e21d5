/* hash.h: BLAKE2b-256 (RFC 7693), which names code images by their content. */
#ifndef FLYT_CODE_HASH_H
#define FLYT_CODE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_SIZE = 32 };

/* In one piece. */
void hash_bytes(const void *data, size_t size, uint8_t out[HASH_SIZE]);

/* In pieces: create, add any number of times, finish (frees it). NULL: no memory. */
typedef struct hash hash;
hash *hash_create(void);
void  hash_add(hash *, const void *data, size_t size);
void  hash_finish(hash *, uint8_t out[HASH_SIZE]);
void  hash_discard(hash *);                     /* NULL is allowed */

#endif
