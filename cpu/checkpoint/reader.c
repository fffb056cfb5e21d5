/* reader.c: reads the file of checkpoint.h, which may be anything. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "cpu/checkpoint/frame.h"
#include "cpu/code/hash.h"

struct checkpoint_reader {
    int fd;
    bool begun, facts, ended;
    uint64_t at, parts, part_bytes;
    hash *hash;
    bool known[CHECKPOINT_KINDS_MOST];      /* kinds that have a name */
    ZSTD_DCtx *zstd;
    uint8_t stored[CHECKPOINT_PART_MOST];
    uint8_t data[CHECKPOINT_PART_MOST];
};

struct checkpoint_reader *checkpoint_reader_new(int fd)
{
    struct checkpoint_reader *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->fd = fd;
    r->zstd = ZSTD_createDCtx();
    r->hash = hash_create();
    if (!r->zstd || !r->hash) {
        checkpoint_reader_free(r);
        return NULL;
    }
    return r;
}

void checkpoint_reader_free(struct checkpoint_reader *r)
{
    uint8_t ignored[HASH_SIZE];
    if (!r)
        return;
    if (r->hash)
        hash_finish(r->hash, ignored);
    ZSTD_freeDCtx(r->zstd);
    free(r);
}

static int bad(const struct checkpoint_reader *r, char *why, const char *what)
{
    snprintf(why, CHECKPOINT_WHY_SIZE, "%s, at byte %llu", what, (unsigned long long)r->at);
    return -EPROTO;
}

static int read_all(struct checkpoint_reader *r, void *to, size_t size, char *why)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = read(r->fd, (uint8_t *)to + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int error = errno;
            snprintf(why, CHECKPOINT_WHY_SIZE, "it cannot be read: %s", strerror(error));
            return -error;
        }
        if (!got)
            return bad(r, why, "the file is cut off");
        done += (size_t)got;
    }
    return 0;
}

static int read_magic(struct checkpoint_reader *r, char *why)
{
    char magic[sizeof CHECKPOINT_MAGIC - 1];
    int error = read_all(r, magic, sizeof magic, why);
    if (error == -EPROTO || (!error && memcmp(magic, CHECKPOINT_MAGIC, sizeof magic) != 0)) {
        bool other = !error && memcmp(magic, CHECKPOINT_MAGIC, sizeof magic - 1) == 0;
        snprintf(why, CHECKPOINT_WHY_SIZE,
                 other ? "it is of another release's format" : "it is not a checkpoint of Flyt");
        return -EPROTO;
    }
    hash_add(r->hash, magic, sizeof magic);
    r->at += sizeof magic;
    r->begun = true;
    return error;
}

static const char *head_fault(const struct checkpoint_reader *r, const struct frame_head *head)
{
    bool part = head->type == CHECKPOINT_PART;
    if (head->type < CHECKPOINT_FACTS || head->type > CHECKPOINT_END)
        return "there is a frame of an unknown type";
    if (!r->facts != (head->type == CHECKPOINT_FACTS))
        return r->facts ? "the facts come twice" : "the facts are missing";
    if (head->size > (part ? CHECKPOINT_PART_MOST : CHECKPOINT_TEXT_MOST) || head->stored > head->size ||
        head->zero || head->packing > PACKED_ZERO || (!part && head->packing != PACKED_NOT))
        return "a frame has an impossible size";
    if ((head->packing == PACKED_NOT && head->stored != head->size) ||
        (head->packing == PACKED_ZERO && (head->stored || !head->size)))
        return "a frame has an impossible size";
    if (head->type != CHECKPOINT_END && head->kind >= CHECKPOINT_KINDS_MOST)
        return "a frame has an impossible kind";
    if (part && !r->known[head->kind])
        return "a part belongs to a kind without a name";
    return NULL;
}

static int unpack(struct checkpoint_reader *r, const struct frame_head *head, struct checkpoint_frame *frame, char *why)
{
    frame->data = r->stored;
    if (head->packing == PACKED_ZERO) {
        memset(r->data, 0, head->size);
        frame->data = r->data;
    } else if (head->packing == PACKED_ZSTD) {
        size_t size = ZSTD_decompressDCtx(r->zstd, r->data, head->size, r->stored, head->stored);
        if (ZSTD_isError(size) || size != head->size)
            return bad(r, why, "a part cannot be unpacked");
        frame->data = r->data;
    }
    return 0;
}

/* Before the frame is counted: END says what came before it. */
static int check_end(struct checkpoint_reader *r, const struct frame_head *head, const uint8_t *digest, char *why)
{
    uint8_t own[HASH_SIZE];
    if (head->object != r->parts || head->offset != r->part_bytes)
        return bad(r, why, "parts are missing");
    if (head->stored && head->stored != HASH_SIZE)
        return bad(r, why, "the checksum of the whole file has an impossible size");
    hash_finish(r->hash, own);
    r->hash = NULL;
    return head->stored && memcmp(own, digest, HASH_SIZE) != 0 ? bad(r, why, "the checksum of the whole file is wrong")
                                                               : 0;
}

static int take(struct checkpoint_reader *r, const struct frame_head *head, const uint8_t *encoded,
                struct checkpoint_frame *frame, char *why)
{
    if (head->type == CHECKPOINT_END) {
        r->ended = true;
        return check_end(r, head, r->stored, why);
    }
    hash_add(r->hash, encoded, CHECKPOINT_HEAD);
    hash_add(r->hash, r->stored, head->stored);
    switch (head->type) {
    case CHECKPOINT_FACTS:
        r->facts = true;
        break;
    case CHECKPOINT_KIND:
        r->known[head->kind] = true;
        break;
    default:
        r->parts++;
        r->part_bytes += head->size;
        return unpack(r, head, frame, why);
    }
    return 0;
}

int checkpoint_read(struct checkpoint_reader *r, struct checkpoint_frame *frame, char *why)
{
    uint8_t encoded[CHECKPOINT_HEAD];
    int error = r->begun ? 0 : read_magic(r, why);
    if (!error && r->ended)
        error = bad(r, why, "the file has ended");
    if (!error)
        error = read_all(r, encoded, sizeof encoded, why);
    if (error)
        return error;
    const struct frame_head head = frame_decode(encoded);
    const char *fault = head_fault(r, &head);
    if (fault)
        return bad(r, why, fault);
    if ((error = read_all(r, r->stored, head.stored, why)))
        return error;
    if (frame_check(encoded, r->stored, head.stored) != head.check)
        return bad(r, why, "the checksum of a frame is wrong");
    *frame = (struct checkpoint_frame){ .type = (enum checkpoint_type)head.type, .kind = head.kind, .size = head.size,
                                        .object = head.object, .offset = head.offset, .data = r->stored };
    if ((error = take(r, &head, encoded, frame, why)))
        return error;
    r->at += CHECKPOINT_HEAD + head.stored;
    return 1;
}

bool checkpoint_fact(const struct checkpoint_frame *facts, const char *name, char *value, size_t size)
{
    const char *at = facts->data, *end = at + facts->size;
    const size_t length = strlen(name);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t line = (size_t)((line_end ? line_end : end) - at);
        if (line > length && memcmp(at, name, length) == 0 && at[length] == '=') {
            snprintf(value, size, "%.*s", (int)(line - length - 1), at + length + 1);
            return true;
        }
        at += line + 1;
    }
    return false;
}
