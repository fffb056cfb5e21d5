/* copy_in.c: copies to the device whose bytes pass through this process: over lanes, in chunks, inside the calls. */
#include "copy_engine.h"

#include <stdlib.h>

#include "copy_part.h"
#include "cpu/common/clock.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/wire/state.h"

enum { PIECES = 4, PIECE_LEAST = 32 * 1024 };

size_t copy_piece(size_t bytes, size_t least)
{
    size_t piece = (bytes / PIECES + 4095) & ~(size_t)4095;
    return piece < least ? least : piece < CHUNK_SIZE ? piece : CHUNK_SIZE;
}

/* Takes the part, which fits, to the chunk, piece by piece. The last call carries the mark, for all of them. */
static int send_in_chunk(struct client_stream *s, const struct copy_span *part, size_t most, struct chunk *chunk)
{
    struct copy_cut left = copy_cut_begin(part);
    struct copy_span piece;
    uint64_t at = chunk->address;
    int code = CORE_OK;
    chunk_send(chunk, s->context);
    while (!code && copy_cut_next(&left, most, &piece)) {
        const struct host_rows rows = rows_of(&piece.from, &piece.extent);
        rows_pack((void *)(uintptr_t)at, &rows);
        piece.from = (struct core_box){ at, piece.extent.width, piece.extent.height };
        code = copy_call_reach(s, &piece, left.bytes ? 0 : (uint64_t)(uintptr_t)chunk->mark);
        at += rows_size(&rows);
    }
    return code;
}

static int send_inside(struct client_stream *s, const struct copy_span *part)
{
    size_t bytes = copy_bytes(part);
    uint64_t begun = bytes == CHUNK_SIZE ? clock_now() : 0;
    throttle_enter(s, bytes);
    int code = copy_call_in(s, part, NULL);
    if (begun)
        lanes_pace(bytes, clock_now() - begun);
    return code;
}

int copy_send(struct client_stream *s, struct copy_cut *left, enum lanes_wait wait)
{
    size_t piece = copy_piece(left->bytes, PIECE_LEAST);
    bool tried = false;
    int code = CORE_OK;
    while (left->bytes && !code) {
        if (!tried && lanes_wanted(left->bytes, !stream_known_light(s))) {
            tried = true; /* what has no credit goes with the calls */
            code = lanes_send(s, left, wait);
            continue;
        }
        if (wait == LANES_WAIT_NEVER)
            break;
        struct chunk *chunk = chunks_serve(left->bytes) ? chunk_take(left->bytes, true) : NULL;
        struct copy_span part;
        copy_cut_next(left, CHUNK_SIZE, &part);
        if (chunk)
            throttle_enter(s, 0);
        code = chunk ? send_in_chunk(s, &part, piece, chunk) : send_inside(s, &part);
    }
    return code;
}

/* ---- deferred ---- */

struct deferred_copy {
    core_context *context;
    struct copy_cut left;
};

/* In the thread of host functions. The stream itself waits for this function: the bytes go through another one. */
static void send_now(void *user, int status)
{
    struct deferred_copy *d = user;
    struct client_stream *s;
    int code = status ? CORE_OK : stream_transfer(d->context, &s);
    if (!status && !code && !(code = copy_send(s, &d->left, LANES_WAIT)))
        code = stream_wait_for(s);
    if (code)
        session_latch(d->context->session, code);
    free(d);
}

int copy_send_deferred(struct client_stream *s, const struct copy_cut *left)
{
    struct deferred_copy *d = malloc(sizeof *d);
    if (!d)
        return CORE_OUT_OF_MEMORY;
    *d = (struct deferred_copy){ s->context, *left };
    int code = host_function_put(s, send_now, d, true, false);
    if (code)
        free(d);
    return code;
}
