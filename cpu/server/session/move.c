/*
 * move.c: whether a session may leave this server for another one (docs/moving.md). The client does the moving; the
 * table of kinds says what cannot go with it.
 */
#include <stdio.h>
#include <string.h>

#include "cpu/server/session.h"

static uint64_t objects_count(const struct session *session, int kind)
{
    const struct kind_row *row = &server_kinds[kind];
    return row->count ? row->count(session) : session->ids[kind] ? id_map_count(session->ids[kind]) : 0;
}

void serve_movable(struct session *session, struct call *call)
{
    char refusal[FLYT_MAX_SHORT] = "";
    for (int kind = 0; kind < KINDS && !*refusal; kind++) {
        const struct kind_row *row = &server_kinds[kind];
        bool checkpoint = row->moves == MOVE_CHECKPOINT;
        uint64_t count = row->moves == MOVE_REFUSED || checkpoint ? objects_count(session, kind) : 0;
        if (count)
            snprintf(refusal, sizeof refusal, "it has %llu of kind %s, which %s", (unsigned long long)count, row->name,
                     checkpoint ? "only a checkpoint of the driver could move" : "cannot be made again elsewhere");
    }
    movable_result result;
    memset(&result, 0, sizeof result);
    result.refusal = refusal;
    session_reply(session, call->xid, (xdrproc_t)xdr_movable_result, &result, CUDA_SUCCESS, false);
}
