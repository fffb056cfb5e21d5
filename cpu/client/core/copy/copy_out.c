/*
 * copy_out.c: copies from the device that the caller waits for. Several parts are on their way at once; each writes
 * its bytes to their place as it comes.
 */
#include "copy_engine.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "copy_part.h"
#include "cpu/common/clock.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/perf.h"

enum { PARTS_IN_FLIGHT = 8, CHUNKS_IN_FLIGHT = 4, PIECE_LEAST = 64 * 1024 };

/* A copy under way. */
struct receiving {
    struct client_stream *stream;
    struct copy_cut left;
    size_t bytes;
    unsigned begun, ended;
    bool chunks, lanes; /* by chunks; over lanes, from some part on */
    struct submitted last;
    int code; /* of the first part that failed: the rest is not asked for */
    struct copy_part parts[PARTS_IN_FLIGHT];
};

/* False: nothing is left, or first a part has to come that is on its way. */
static bool begin_next(struct receiving *r)
{
    unsigned under_way = r->begun - r->ended;
    unsigned most = core_perf.no_pipeline ? 1 : r->chunks ? CHUNKS_IN_FLIGHT : PARTS_IN_FLIGHT;
    if (!r->left.bytes || r->code || under_way >= most)
        return false;
    size_t piece = copy_piece(r->bytes, PIECE_LEAST);
    struct chunk *chunk = r->chunks ? chunk_take(r->left.bytes < piece ? r->left.bytes : piece, under_way == 0) : NULL;
    if (r->chunks && !chunk && under_way)
        return false; /* a chunk of ours comes back with the next part */
    r->lanes = r->lanes || lanes_wanted(r->left.bytes, false);
    struct copy_span part;
    copy_cut_next(&r->left, chunk ? piece : CHUNK_SIZE, &part);
    const struct host_rows to = rows_of(&part.to, &part.extent);
    copy_part_begin(&r->parts[r->begun++ % PARTS_IN_FLIGHT], r->stream, &part, &to, r->bytes, chunk,
                    r->lanes ? COPY_LANE : COPY_NO_LANE, NULL, &r->last);
    return true;
}

static int receive(struct receiving *r, const struct copy_span *span)
{
    struct client_stream *s = r->stream;
    struct point before = stream_point_next(s);
    const struct host_rows place = rows_of(&span->to, &span->extent);
    pending_wait_memory(&before, &place);
    r->chunks = chunks_serve(r->bytes);
    r->lanes = lanes_wanted(r->bytes, false);
    bool all_on_lanes = r->lanes;
    uint64_t start = clock_now(), heard = 0;
    for (;;) {
        while (begin_next(r))
            ;
        if (r->ended == r->begun)
            break;
        struct copy_part *part = &r->parts[r->ended++ % PARTS_IN_FLIGHT];
        size_t bytes = rows_size(&part->to);
        int code = copy_part_wait(part);
        if (!r->code)
            r->code = code;
        uint64_t now = r->lanes ? 0 : clock_now();
        if (heard && now && bytes == CHUNK_SIZE) /* the first part may have waited for its stream */
            lanes_pace(bytes, now - heard);
        heard = now;
    }
    if (!r->code)
        stream_finished(s, atomic_load(&r->last.number));
    if (!r->code && all_on_lanes)
        lanes_copied_out(r->bytes, clock_now() - start);
    return r->code;
}

/* The parts are not on the stack, which may be small. */
int copy_receive(struct client_stream *s, const struct copy_span *span)
{
    struct receiving *r = calloc(1, sizeof *r);
    if (!r)
        return CORE_OUT_OF_MEMORY;
    r->stream = s;
    r->left = copy_cut_begin(span);
    r->bytes = copy_bytes(span);
    int code = receive(r, span);
    free(r);
    return code;
}
