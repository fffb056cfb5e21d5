/* writer.c: writes the file of checkpoint.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <zstd.h>

#include "cpu/checkpoint/seal.h"

enum { ZSTD_LEVEL = 1 };

struct checkpoint_writer {
    int fd, failed;
    uint64_t bytes, parts, part_bytes;      /* of the file; of what it holds */
    uint64_t frames;
    hash *hash;                             /* NULL: none is wanted */
    bool sealed;
    struct checkpoint_seal key;
    hash *begun;                            /* of a sealed file, up to SEAL; then there is `seal` */
    struct seal *seal;
    ZSTD_CCtx *zstd;
    size_t room;
    uint8_t packed[];
};

struct checkpoint_writer *checkpoint_writer_new(int fd, bool hashed, const struct checkpoint_seal *seal)
{
    size_t room = ZSTD_compressBound(CHECKPOINT_PART_MOST); /* and so for what cannot be packed, too */
    struct checkpoint_writer *w = calloc(1, sizeof *w + room);
    if (!w)
        return NULL;
    w->fd = fd;
    w->room = room;
    w->zstd = ZSTD_createCCtx();
    w->hash = hashed ? hash_create() : NULL;
    if (seal) {
        w->sealed = true;
        w->key = *seal;
        w->begun = hash_create();
    }
    if (!w->zstd || (hashed && !w->hash) || (seal && !w->begun)) {
        checkpoint_writer_free(w);
        return NULL;
    }
    return w;
}

/* A frame, or one of its pieces. */
static int write_all(struct checkpoint_writer *w, struct iovec *parts, unsigned count)
{
    unsigned at = 0;
    for (unsigned i = 0; i < count; i++) {
        if (w->hash)
            hash_add(w->hash, parts[i].iov_base, parts[i].iov_len);
        if (w->begun)
            hash_add(w->begun, parts[i].iov_base, parts[i].iov_len);
    }
    while (at < count) {
        ssize_t done = writev(w->fd, &parts[at], (int)(count - at));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        w->bytes += (uint64_t)done;
        for (size_t left = (size_t)done; at < count; at++) {
            if (left < parts[at].iov_len) {
                parts[at].iov_base = (uint8_t *)parts[at].iov_base + left;
                parts[at].iov_len -= left;
                break;
            }
            left -= parts[at].iov_len;
        }
    }
    return 0;
}

static bool all_zero(const uint8_t *data, size_t size)
{
    return size && !data[0] && memcmp(data, data + 1, size - 1) == 0;
}

/* What is stored in place of the data. */
static const void *pack(struct checkpoint_writer *w, const struct checkpoint_frame *frame, struct frame_head *head)
{
    if (all_zero(frame->data, frame->size)) {
        head->packing = PACKED_ZERO;
        head->stored = 0;
        return w->packed;
    }
    size_t packed = ZSTD_compressCCtx(w->zstd, w->packed, w->room, frame->data, frame->size, ZSTD_LEVEL);
    if (ZSTD_isError(packed) || packed >= frame->size)
        return frame->data;
    head->packing = PACKED_ZSTD;
    head->stored = (uint32_t)packed;
    return w->packed;
}

/* Where there is a key: *data are encrypted if they are secret, and the tag stands behind them. */
static bool close_frame(struct checkpoint_writer *w, struct frame_head *head, const uint8_t *encoded, const void **data,
                        uint8_t tag[CHECKPOINT_TAG])
{
    const bool secret = head->type == CHECKPOINT_PART;
    const uint32_t size = head->stored - CHECKPOINT_TAG;
    const struct seal_frame frame = { w->frames, encoded, secret ? NULL : *data, secret ? 0 : size };
    if (!seal_close(w->seal, &frame, secret ? *data : NULL, secret ? size : 0, w->packed, tag))
        return false;
    *data = secret ? w->packed : *data;
    return true;
}

static int write_frame(struct checkpoint_writer *w, struct frame_head *head, const void *data)
{
    uint8_t encoded[CHECKPOINT_HEAD], tag[CHECKPOINT_TAG];
    const uint32_t size = head->stored;
    head->stored += w->seal ? CHECKPOINT_TAG : 0;
    frame_encode(head, encoded);
    if (w->seal && !close_frame(w, head, encoded, &data, tag))
        return -EIO;
    head->check = frame_check_two(encoded, data, size, tag, head->stored - size);
    frame_encode(head, encoded);
    struct iovec parts[] = { { encoded, sizeof encoded }, { (void *)(uintptr_t)data, size }, { tag, CHECKPOINT_TAG } };
    w->frames++;
    return write_all(w, parts, w->seal ? 3 : 2);
}

/* Behind FACTS. From here on everything has a tag. */
static int write_seal(struct checkpoint_writer *w)
{
    struct frame_head head = { .type = CHECKPOINT_SEAL, .stored = CHECKPOINT_WRAPPED, .size = CHECKPOINT_WRAPPED };
    uint8_t begun[HASH_SIZE];
    int error = write_frame(w, &head, w->key.wrapped);
    hash_finish(w->begun, begun);
    w->begun = NULL;
    if (!error && !(w->seal = seal_new(w->key.key, begun)))
        error = -ENOMEM;
    checkpoint_key_wipe(w->key.key, sizeof w->key.key);
    return error;
}

static const void *prepare(struct checkpoint_writer *w, const struct checkpoint_frame *frame, struct frame_head *head,
                           uint8_t digest[HASH_SIZE])
{
    switch (frame->type) {
    case CHECKPOINT_PART:
        w->parts++;
        w->part_bytes += frame->size;
        return pack(w, frame, head);
    case CHECKPOINT_KEPT:
        w->parts++;
        w->part_bytes += frame->size;
        head->packing = PACKED_KEPT;
        head->stored = 0;
        return digest;
    case CHECKPOINT_END:
        head->object = w->parts;
        head->offset = w->part_bytes;
        head->stored = head->size = w->hash ? HASH_SIZE : 0;
        if (w->hash)
            hash_finish(w->hash, digest);
        w->hash = NULL;
        return digest;
    default:
        return frame->data;
    }
}

int checkpoint_write(struct checkpoint_writer *w, const struct checkpoint_frame *frame)
{
    struct frame_head head = { .type = frame->type, .stored = frame->size, .size = frame->size, .kind = frame->kind,
                               .object = frame->object, .offset = frame->offset };
    const bool part = frame->type == CHECKPOINT_PART || frame->type == CHECKPOINT_KEPT;
    uint8_t digest[HASH_SIZE];
    if (w->failed)
        return w->failed;
    if (frame->size > (part ? CHECKPOINT_PART_MOST : CHECKPOINT_TEXT_MOST) || frame->type == CHECKPOINT_SEAL)
        return w->failed = -EINVAL;
    if (!w->bytes)
        w->failed = write_all(w, &(struct iovec){ (void *)(uintptr_t)CHECKPOINT_MAGIC, strlen(CHECKPOINT_MAGIC) }, 1);
    const void *data = prepare(w, frame, &head, digest);
    if (!w->failed)
        w->failed = write_frame(w, &head, data);
    if (!w->failed && w->sealed && frame->type == CHECKPOINT_FACTS)
        w->failed = write_seal(w);
    return w->failed;
}

uint64_t checkpoint_written(const struct checkpoint_writer *w, uint64_t *file_bytes)
{
    *file_bytes = w->bytes;
    return w->part_bytes;
}

void checkpoint_writer_free(struct checkpoint_writer *w)
{
    if (!w)
        return;
    hash_discard(w->hash);
    hash_discard(w->begun);
    seal_free(w->seal);
    ZSTD_freeCCtx(w->zstd);
    checkpoint_key_wipe(w, sizeof *w);
    free(w);
}
