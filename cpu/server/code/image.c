/*
 * image.c: code images on their way in, and kept.
 *
 * Memory for an image is taken as its bytes arrive (a large allocation is not touched before). Images that no module
 * uses are kept while all of them together stay under IMAGES_KEEP, or what the tenant may have if that is less; the
 * least recently used go first.
 */
#include "cpu/server/code/code.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"
#include "cpu/code/hash.h"
#include "cpu/common/env.h"
#include "cpu/server/code/image_cache.h"

#define IMAGES_KEEP ((size_t)256 << 20)
#define IMAGES_LIMIT ((size_t)4 << 30)        /* with those in use or half received */
#define IMAGES_ARRIVING ((size_t)512 << 20)   /* half received; one alone may be larger */
enum { IMAGES_MAX_PARTS = 65536, IMAGES_MAX_COUNT = 65536 };

struct image *image_find(struct session *session, const void *key)
{
    for (struct image *image = session->images.first; image; image = image->next)
        if (memcmp(image->hash, key, FLYT_HASH_SIZE) == 0) {
            image->used = session->order;
            return image;
        }
    return NULL;
}

static void image_remove(struct session *session, struct image *image)
{
    for (struct image **at = &session->images.first; *at; at = &(*at)->next)
        if (*at == image) {
            *at = image->next;
            break;
        }
    session->images.bytes -= image->size;
    session->images.count--;
    free(image->bytes);
    free(image);
}

/* What a tenant's programs may have of the host's memory, as the node manager says. */
static size_t images_limit(void)
{
    const char *given = env_get("FLYT_TENANT_HOST_MEMORY");
    unsigned long long half = given ? strtoull(given, NULL, 10) / 2 : 0;
    return half && half < IMAGES_LIMIT ? (size_t)half : IMAGES_LIMIT;
}

/* How much may be kept while another one of that size comes. */
static size_t images_beside(size_t size)
{
    size_t limit = images_limit(), keep = limit < IMAGES_KEEP ? limit : IMAGES_KEEP;
    return size < keep ? keep - size : 0;
}

/* Whether another one of that size may begin to arrive. */
static bool images_fit(const struct session *session, size_t size)
{
    size_t arriving = 0;
    for (const struct image *image = session->images.first; image; image = image->next)
        arriving += image->complete ? 0 : image->size;
    return (!arriving || (size <= IMAGES_ARRIVING && arriving <= IMAGES_ARRIVING - size)) &&
           session->images.bytes + size <= images_limit() && session->images.count < IMAGES_MAX_COUNT;
}

/* Makes room: the least recently used that nobody needs go until `limit` is kept. */
static void images_trim(struct session *session, size_t limit)
{
    while (session->images.bytes > limit) {
        struct image *oldest = NULL;
        for (struct image *image = session->images.first; image; image = image->next)
            if (image->complete && !image->references && (!oldest || image->used < oldest->used))
                oldest = image;
        if (!oldest)
            return;
        image_remove(session, oldest);
    }
}

void images_free(struct session *session)
{
    while (session->images.first)
        image_remove(session, session->images.first);
}

void serve_image(struct session *session, struct call *call)
{
    const image_args *args = &call->args.image;
    image_result result;
    CUresult r = CUDA_SUCCESS;
    memset(&result, 0, sizeof result);
    struct image *image = image_find(session, args->hash);
    if (image && (image->size != args->size || image->kind != args->kind)) {
        /* A hash that is known with another size or kind: one of the two announcements was wrong. */
        r = CUDA_ERROR_INVALID_VALUE;
    } else if (image) {
        result.present = image->complete;
        if (!image->complete)
            image->received = 0;                          /* it is sent anew, from the start */
    } else if (!args->size || args->size > FLYT_MAX_IMAGE || (unsigned)args->kind > FLYT_IMAGE_INPUT) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        images_trim(session, images_beside(args->size));
        image = images_fit(session, args->size) ? calloc(1, sizeof *image) : NULL;
        /* One byte more: PTX is looked at as a string. */
        if (image && !(image->bytes = malloc(args->size + 1))) {
            free(image);
            image = NULL;
        }
        if (image) {
            memcpy(image->hash, args->hash, sizeof image->hash);
            image->kind = args->kind;
            image->size = args->size;
            image->used = session->order;
            image->next = session->images.first;
            session->images.first = image;
            session->images.bytes += image->size;
            session->images.count++;
            image->complete = session->cache &&
                              image_cache_get(session->cache, image->hash, session->nonce,
                                              (const uint8_t *)args->proof, image->bytes, image->size);
            result.present = image->complete;
            image->bytes[image->size] = 0;
        } else {
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    session_reply(session, call->xid, (xdrproc_t)xdr_image_result, &result, r, false);
}

void serve_image_data(struct session *session, struct call *call)
{
    const image_data_args *args = &call->args.image_data;
    struct image *image = image_find(session, args->hash);
    uint8_t found[HASH_SIZE];
    if (!image || image->complete)
        return; /* sent before the client knew that the image was refused, or is here */
    if (args->offset != image->received || args->bytes.bytes_len > image->size - image->received) {
        call_fail(session, call, CUDA_ERROR_INVALID_VALUE);
        return;
    }
    if (args->bytes.bytes_len == 0)
        return;
    memcpy(image->bytes + image->received, args->bytes.bytes_val, args->bytes.bytes_len);
    image->received += args->bytes.bytes_len;
    if (image->received < image->size)
        return;
    hash_bytes(image->bytes, image->size, found);
    if (memcmp(found, image->hash, sizeof found) != 0) {
        image_remove(session, image);
        call_fail(session, call, CUDA_ERROR_INVALID_IMAGE);
        return;
    }
    image->complete = true;
    if (session->cache)
        image_cache_put(session->cache, image->hash, image->bytes, image->size);
}

CUresult image_add_linked(struct session *session, uint8_t *bytes, size_t size, uint8_t *key)
{
    hash_bytes(bytes, size, key);
    struct image *image = image_find(session, key);
    if (image) { /* the same link was made before */
        free(bytes);
        image->linked = true;
        return image->complete ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    images_trim(session, images_beside(size));
    if (!images_fit(session, size) || !(image = calloc(1, sizeof *image))) {
        free(bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *image = (struct image){ .next = session->images.first,
                             .size = size,
                             .bytes = bytes,
                             .complete = true,
                             .linked = true,
                             .kind = size >= 4 && memcmp(bytes, "\177ELF", 4) == 0 ? FLYT_IMAGE_CUBIN : FLYT_IMAGE_PTX,
                             .used = session->order };
    memcpy(image->hash, key, sizeof image->hash);
    bytes[size] = 0;
    session->images.first = image;
    session->images.bytes += size;
    session->images.count++;
    return CUDA_SUCCESS;
}

/* ---- what the driver is given ---- */

/* Containers one behind the other, each padded to 8. */
static CUresult fatbin_loadable(const struct image *image, const void **data, void **wrapper)
{
    size_t count = 0;
    for (size_t at = 0; at < image->size; count++) {
        size_t size = fatbin_container_size(image->bytes + at, image->size - at);
        if (!size || count == IMAGES_MAX_PARTS)
            return CUDA_ERROR_INVALID_IMAGE;
        at += (size + 7) & ~(size_t)7;
    }
    *data = image->bytes;
    if (count == 1)
        return CUDA_SUCCESS;
    struct { struct fatbin_wrapper wrapper; const void *prelinked[]; } *built =
        calloc(1, sizeof(struct fatbin_wrapper) + count * sizeof(void *));
    if (!built)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t n = 0;
    for (size_t at = 0; at < image->size; n++) {
        if (n)
            built->prelinked[n - 1] = image->bytes + at;
        at += (fatbin_container_size(image->bytes + at, image->size - at) + 7) & ~(size_t)7;
    }
    built->wrapper = (struct fatbin_wrapper){ .magic = FATBIN_WRAPPER_MAGIC, .version = 2, .container = image->bytes,
                                              .extra = built->prelinked };
    *data = *wrapper = built;
    return CUDA_SUCCESS;
}

CUresult image_loadable(const struct image *image, const void **data, void **wrapper)
{
    *wrapper = NULL;
    *data = image->bytes;
    switch (image->kind) {
    case FLYT_IMAGE_FATBIN:
        return fatbin_loadable(image, data, wrapper);
    case FLYT_IMAGE_PTX:
        return memchr(image->bytes, 0, image->size) && image->size >= 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
    case FLYT_IMAGE_CUBIN:
        return fatbin_elf_size(image->bytes, image->size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
    default:
        return CUDA_ERROR_INVALID_IMAGE;
    }
}
