/*
 * image_cache.h: the tenant's code images, shared by its workers: files in a directory that the listener made for
 * this run, private to the user, named by hash. A client gets one only if it proves that it has the same bytes; the
 * proof also shows that the file is as it was written. The worker that writes keeps the bound. The listener removes the
 * directory when it stops. If it was killed, the next listener of the same user does: the listener holds a lock on the
 * directory while it lives.
 */
#ifndef FLYT_SERVER_IMAGE_CACHE_H
#define FLYT_SERVER_IMAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_cache;

/* For the listener: makes the directory; its path is image_cache_path. NULL: none can be had, serve without. */
struct image_cache *image_cache_create(void);
const char *image_cache_path(const struct image_cache *);
void image_cache_remove(struct image_cache *);             /* the directory, too */
/* For a worker. */
struct image_cache *image_cache_open(const char *path);

/* True: bytes holds the image of that hash, and proof is its hash keyed with nonce (HASH_SIZE bytes each). */
bool image_cache_get(struct image_cache *, const uint8_t *key, const uint8_t *nonce, const uint8_t *proof,
                     uint8_t *bytes, size_t size);
void image_cache_put(struct image_cache *, const uint8_t *key, const uint8_t *bytes, size_t size);

#endif
