/*
 * writer.c: writes the file of checkpoint.h. Which frame comes next and what stands in its head is decided here; pipe.c
 * packs it and writes it, with threads of its own from the first part on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/checkpoint/pipe.h"

struct checkpoint_writer {
    struct frame_out out;
    struct frame_pipe *pipe;
    int failed;
    uint64_t parts, part_bytes;             /* what the file holds */
    uint64_t frames;
    bool sealed, runs;                      /* the pipe has its threads */
    struct checkpoint_seal key;
    uint8_t begun[HASH_SIZE];               /* of a sealed file, up to SEAL */
};

struct checkpoint_writer *checkpoint_writer_new(int fd, bool hashed, const struct checkpoint_seal *seal)
{
    struct checkpoint_writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->out.fd = fd;
    w->out.kept = hashed;
    w->out.whole = hashed ? hash_create() : NULL;
    if (seal) {
        w->sealed = true;
        w->key = *seal;
        w->out.begun = hash_create();
    }
    w->pipe = frame_pipe_new(&w->out);
    if (w->pipe && (!hashed || w->out.whole) && (!seal || w->out.begun))
        return w;
    checkpoint_writer_free(w);
    return NULL;
}

/* buffer: has the data, and is exchanged; NULL: they are copied. packs: they are to be packed. */
static int write_frame(struct checkpoint_writer *w, const struct frame_head *head, const void *data, uint8_t **buffer,
                       bool packs)
{
    struct frame_job *job = frame_pipe_take(w->pipe);
    job->head = *head;
    job->packs = packs;
    job->number = w->frames++;
    if (buffer) {
        uint8_t *const free_now = job->data;
        job->data = *buffer;
        *buffer = free_now;
    } else if (head->stored) {
        memcpy(job->data, data, head->stored);
    }
    return frame_pipe_give(w->pipe);
}

/* Behind FACTS. From here on everything has a tag. */
static int write_seal(struct checkpoint_writer *w)
{
    const struct frame_head head = { .type = CHECKPOINT_SEAL, .stored = CHECKPOINT_WRAPPED,
                                     .size = CHECKPOINT_WRAPPED };
    int error = write_frame(w, &head, w->key.wrapped, NULL, false);
    hash_finish(w->out.begun, w->begun);
    w->out.begun = NULL;
    return error ? error : frame_pipe_seal(w->pipe, w->key.key, w->begun) ? 0 : -ENOMEM;
}

/* Small files need no threads. */
static void run(struct checkpoint_writer *w)
{
    if (!w->runs)
        frame_pipe_run(w->pipe, w->sealed ? w->key.key : NULL, w->begun);
    w->runs = true;
}

/* The last frame: all before it is in the file. */
static void end_prepare(struct checkpoint_writer *w, struct frame_head *head, uint8_t digest[HASH_SIZE])
{
    w->failed = frame_pipe_end(w->pipe);
    head->object = w->parts;
    head->offset = w->part_bytes;
    head->stored = head->size = w->out.whole ? HASH_SIZE : 0;
    if (w->out.whole)
        hash_finish(w->out.whole, digest);
    w->out.whole = NULL;
}

static int write_magic(struct checkpoint_writer *w)
{
    struct iovec magic = { (void *)(uintptr_t)CHECKPOINT_MAGIC, strlen(CHECKPOINT_MAGIC) };
    return frame_out_write(&w->out, &magic, 1);
}

/* buffer, packed: NULL: it is neither. */
static int write_next(struct checkpoint_writer *w, const struct checkpoint_frame *frame, uint8_t **buffer,
                      const struct checkpoint_packed *packed)
{
    struct frame_head head = { .type = frame->type, .stored = frame->size, .size = frame->size, .kind = frame->kind,
                               .object = frame->object, .offset = frame->offset };
    const bool part = frame->type == CHECKPOINT_PART || frame->type == CHECKPOINT_KEPT;
    const void *data = frame->data;
    uint8_t digest[HASH_SIZE];
    if (w->failed)
        return w->failed;
    if (frame->size > (part ? CHECKPOINT_PART_MOST : CHECKPOINT_TEXT_MOST) || frame->type == CHECKPOINT_SEAL)
        return w->failed = -EINVAL;
    if (!w->frames)
        w->failed = write_magic(w);
    if (part) {
        w->parts++;
        w->part_bytes += frame->size;
        run(w);
    }
    if (frame->type == CHECKPOINT_KEPT) {
        head.packing = PACKED_KEPT;
        head.stored = 0;
    }
    if (packed) {
        head.packing = packed->packing;
        head.stored = packed->stored;
        data = packed->data;
    }
    if (frame->type == CHECKPOINT_END) {
        end_prepare(w, &head, digest);
        data = digest;
    }
    if (!w->failed)
        w->failed = write_frame(w, &head, data, buffer, frame->type == CHECKPOINT_PART && !packed);
    if (!w->failed && w->sealed && frame->type == CHECKPOINT_FACTS)
        w->failed = write_seal(w);
    return w->failed;
}

int checkpoint_write(struct checkpoint_writer *w, const struct checkpoint_frame *frame)
{
    return write_next(w, frame, NULL, NULL);
}

int checkpoint_write_swap(struct checkpoint_writer *w, const struct checkpoint_frame *frame, uint8_t **buffer)
{
    return frame->type == CHECKPOINT_PART ? write_next(w, frame, buffer, NULL) : (w->failed = -EINVAL);
}

int checkpoint_write_packed(struct checkpoint_writer *w, const struct checkpoint_frame *frame,
                            const struct checkpoint_packed *packed)
{
    const bool good = frame->type == CHECKPOINT_PART && packed->stored <= frame->size;
    return good ? write_next(w, frame, NULL, packed) : (w->failed = -EINVAL);
}

uint64_t checkpoint_written(const struct checkpoint_writer *w, uint64_t *file_bytes)
{
    *file_bytes = atomic_load(&w->out.bytes);
    return w->part_bytes;
}

void checkpoint_writer_free(struct checkpoint_writer *w)
{
    if (!w)
        return;
    frame_pipe_free(w->pipe);               /* ends its threads, which write to w->out */
    hash_discard(w->out.whole);
    hash_discard(w->out.begun);
    checkpoint_key_wipe(w, sizeof *w);
    free(w);
}
