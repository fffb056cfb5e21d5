/*
 * frame.c: the register file of a warp: one growing stack of frames.
 *
 * Groups of a warp that call and return at different times free their frames out of order: a frame is taken off
 * the stack when no live lane is in it and none lies above it. A chunk is kept when it empties, so that a loop
 * around a call at its edge does not allocate each time; all chunks outlive the block, for the next one.
 */
#include "softgpu/exec/exec.h"

#include <stdlib.h>
#include <string.h>

enum { FRAME_HEADER = (sizeof(struct exec_frame) + 63) / 64 * 64, CHUNK_MIN = 64 * 1024 };

void *exec_zeroed(size_t alignment, size_t size)
{
    void *memory = aligned_alloc(alignment, size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

static struct exec_chunk *chunk_new(struct exec_warp *w, size_t need, struct exec_chunk *previous)
{
    struct exec_chunk *spare = w->spare;
    if (previous && spare && need <= spare->size) {
        w->spare = NULL;
        *spare = (struct exec_chunk){ .previous = previous, .size = spare->size, .bytes = spare->bytes };
        return spare;
    }
    size_t size = need > CHUNK_MIN ? need : previous ? CHUNK_MIN : need;
    struct exec_chunk *c = malloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (struct exec_chunk){ .previous = previous, .size = size, .bytes = exec_zeroed(64, (size + 63) / 64 * 64) };
    if (!c->bytes) {
        free(c);
        return NULL;
    }
    return c;
}

static void chunk_drop(struct exec_warp *w)
{
    struct exec_chunk *c = w->chunk;
    w->chunk = c->previous;
    if (!w->spare && c->previous) { /* for the next block's calls */
        w->spare = c;
        return;
    }
    free(c->bytes);
    free(c);
}

static size_t frame_size(const struct exec_function *f)
{
    return FRAME_HEADER + ((size_t)f->rows_size + 63) / 64 * 64;
}

static void clear(struct exec_frame *frame)
{
    memset(frame->rows, 0, EXEC_CLEARED); /* the fixed predicates */
#ifdef EXEC_CLEAR_REGISTERS
    memset(frame->rows, 0, frame->function->rows_size);
#endif
}

struct exec_frame *exec_frame_push(struct exec_warp *w, const struct exec_function *f, struct exec_frame *parent,
                                   uint32_t lanes)
{
    size_t need = frame_size(f);
    struct exec_chunk *c = w->chunk;
    if (!c || c->size - c->used < need) {
        c = chunk_new(w, need, c);
        if (!c)
            return NULL;
        w->chunk = c;
    }
    struct exec_frame *frame = (struct exec_frame *)(void *)(c->bytes + c->used);
    *frame = (struct exec_frame){
        .parent = parent, .below = c->top, .function = f, .live = lanes, .depth = parent ? parent->depth + 1 : 0,
        .local_base = parent ? parent->local_top : 0, .chunk = c,
        .rows = c->bytes + c->used + FRAME_HEADER,
    };
    frame->local_top = frame->local_base + f->local_size;
    c->used += need;
    c->top = frame;
    clear(frame);
    return frame;
}

void exec_frame_leave(struct exec_warp *w, struct exec_frame *frame, uint32_t lanes)
{
    frame->live &= ~lanes;
    while (w->chunk) {
        struct exec_chunk *c = w->chunk;
        while (c->top && !c->top->live) {
            c->used = (size_t)((unsigned char *)c->top - c->bytes);
            c->top = c->top->below;
        }
        if (c->top || !c->previous)
            break;
        if (c->previous->top && c->previous->top->live)
            break;                    /* keep the empty one on top */
        chunk_drop(w);
    }
}

/* Blocks of a grid begin with the same frame each time: then only what changes in it is set. */
struct exec_frame *exec_frame_first(struct exec_warp *w, const struct exec_function *f, uint32_t lanes)
{
    while (w->chunk && w->chunk->previous)
        chunk_drop(w);
    struct exec_chunk *c = w->chunk;
    struct exec_frame *frame = c ? (struct exec_frame *)(void *)c->bytes : NULL;
    if (c) {
        c->used = 0;
        c->top = NULL;
    }
    if (!frame || frame->function != f)
        return exec_frame_push(w, f, NULL, lanes);
    frame->live = lanes;
    frame->local_top = f->local_size;
    frame->stack_used = 0;
    c->used = frame_size(f);
    c->top = frame;
    clear(frame);
    return frame;
}

void exec_frame_clear(struct exec_warp *w)
{
    const struct exec_frame *frame = (const struct exec_frame *)(const void *)w->chunk->bytes;
    memset(frame->rows, 0, frame->function->rows_size);
}

void exec_frames_free(struct exec_warp *w)
{
    while (w->chunk)
        chunk_drop(w);
    if (w->spare)
        free(w->spare->bytes);
    free(w->spare);
    w->spare = NULL;
}
