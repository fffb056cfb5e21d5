/* copy_part.c: one part of a copy from the device on its way. */
#include "copy_part.h"

void copy_part_begin(struct copy_part *p, struct client_stream *s, const struct copy_span *span,
                     const struct host_rows *to, size_t whole, struct chunk *chunk, enum copy_lane lane,
                     void (*arrived)(struct wire_call *), struct submitted *at)
{
    p->chunk = chunk;
    p->to = *to;
    p->whole = whole;
    p->lane.via.lane = 0;
    if (chunk) {
        const struct core_extent *e = &span->extent;
        copy_call_waited(&p->call.waited, s,
                         &(struct copy_span){ { chunk->address, e->width, e->height }, span->from, *e }, arrived, at);
        return;
    }
    flyt_via via = { 0 };
    if (lane != COPY_NO_LANE)
        via = lane_out_begin(&p->lane, to, lane == COPY_LANE_PENDING);
    copy_call_out(&p->call.answered, s, span, to, via, arrived, at);
}

bool copy_part_answered(struct copy_part *p)
{
    int code = p->call.wire.result;
    if (p->chunk) {
        xdr_free((xdrproc_t)xdr_plain_result, &p->call.waited.result);
        if (!code)
            rows_unpack(&p->to, (const void *)(uintptr_t)p->chunk->address, p->whole);
        chunk_give(p->chunk);
        return false;
    }
    bool on_lane = !code && p->call.answered.result.on_lane;
    copy_answer_free(&p->call.answered);
    if (!on_lane)
        lane_out_cancel(&p->lane);
    return on_lane;
}

int copy_part_wait(struct copy_part *p)
{
    int code = wire_wait(&p->call.wire);
    return copy_part_answered(p) ? lane_out_wait(&p->lane) : code;
}
