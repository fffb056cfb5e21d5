/* writer.c: writes the file of checkpoint.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <zstd.h>

#include "cpu/checkpoint/frame.h"
#include "cpu/code/hash.h"

enum { ZSTD_LEVEL = 1 };

struct checkpoint_writer {
    int fd, failed;
    uint64_t bytes, parts, part_bytes;      /* of the file; of what it holds */
    hash *hash;                             /* NULL: none is wanted */
    ZSTD_CCtx *zstd;
    size_t room;
    uint8_t packed[];
};

struct checkpoint_writer *checkpoint_writer_new(int fd, bool hashed)
{
    size_t room = ZSTD_compressBound(CHECKPOINT_PART_MOST);
    struct checkpoint_writer *w = calloc(1, sizeof *w + room);
    if (!w)
        return NULL;
    w->fd = fd;
    w->room = room;
    w->zstd = ZSTD_createCCtx();
    w->hash = hashed ? hash_create() : NULL;
    if (!w->zstd || (hashed && !w->hash)) {
        checkpoint_writer_free(w);
        return NULL;
    }
    return w;
}

static int write_all(struct checkpoint_writer *w, const void *head, size_t head_size, const void *data, size_t size)
{
    struct iovec parts[2] = { { (void *)(uintptr_t)head, head_size }, { (void *)(uintptr_t)data, size } };
    unsigned at = 0;
    if (w->hash) {
        hash_add(w->hash, head, head_size);
        hash_add(w->hash, data, size);
    }
    while (at < 2) {
        ssize_t done = writev(w->fd, &parts[at], (int)(2 - at));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        w->bytes += (uint64_t)done;
        for (size_t left = (size_t)done; at < 2; at++) {
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

static int write_frame(struct checkpoint_writer *w, struct frame_head *head, const void *data)
{
    uint8_t encoded[CHECKPOINT_HEAD];
    frame_encode(head, encoded);
    head->check = frame_check(encoded, data, head->stored);
    frame_encode(head, encoded);
    return write_all(w, encoded, sizeof encoded, data, head->stored);
}

int checkpoint_write(struct checkpoint_writer *w, const struct checkpoint_frame *frame)
{
    struct frame_head head = { .type = frame->type, .stored = frame->size, .size = frame->size, .kind = frame->kind,
                               .object = frame->object, .offset = frame->offset };
    uint8_t digest[HASH_SIZE];
    const void *data = frame->data;
    if (w->failed)
        return w->failed;
    if (frame->size > (frame->type == CHECKPOINT_PART ? CHECKPOINT_PART_MOST : CHECKPOINT_TEXT_MOST))
        return w->failed = -EINVAL;
    if (!w->bytes)
        w->failed = write_all(w, CHECKPOINT_MAGIC, strlen(CHECKPOINT_MAGIC), NULL, 0);
    if (frame->type == CHECKPOINT_PART) {
        data = pack(w, frame, &head);
        w->parts++;
        w->part_bytes += frame->size;
    } else if (frame->type == CHECKPOINT_END) {
        head.object = w->parts;
        head.offset = w->part_bytes;
        head.stored = head.size = w->hash ? HASH_SIZE : 0;
        if (w->hash)
            hash_finish(w->hash, digest);
        w->hash = NULL;
        data = digest;
    }
    if (!w->failed)
        w->failed = write_frame(w, &head, data);
    return w->failed;
}

uint64_t checkpoint_written(const struct checkpoint_writer *w, uint64_t *file_bytes)
{
    *file_bytes = w->bytes;
    return w->part_bytes;
}

void checkpoint_writer_free(struct checkpoint_writer *w)
{
    uint8_t ignored[HASH_SIZE];
    if (!w)
        return;
    if (w->hash)
        hash_finish(w->hash, ignored);
    ZSTD_freeCCtx(w->zstd);
    free(w);
}
