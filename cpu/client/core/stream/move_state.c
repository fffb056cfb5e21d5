/* move_state.c: which server a move's calls go to, and its own streams there. See move.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/device.h"
#include "move.h"
#include "cpu/client/core/wire/wire.h"

int move_refuse(struct move *move, int code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!*move->why)
        vsnprintf(move->why, move->why_size, format, list);
    va_end(list);
    return code ? code : CORE_NOT_SUPPORTED;
}

int move_meet(struct move *move, enum core_meeting where)
{
    char why[512] = "";
    int code = move->group->meet(move->group, where, why, sizeof why);
    if (code == CORE_NOT_FOUND)
        return code;
    return code ? move_refuse(move, code, "%s", *why ? why : "another program of the group does not move") : CORE_OK;
}

void move_go(struct move *move, enum move_end end)
{
    if (move->now == end)
        return;
    move->now = end;
    if (move->prepares)
        return;
    core_session.client = move->at[end].client;
    core_session.hello.capabilities = move->at[end].hello.capabilities;
    session_name(move->at[end].hello.session, move->at[end].hello.nonce);
    device_rewire(move->at[end].devices);
}

struct client_session *move_calls(const struct move *move)
{
    return move->prepares && move->now == MOVE_TARGET ? move->ahead->there : &core_session;
}

int move_place(struct move *move, core_context *c, int kind, uint64_t number)
{
    return move_place_at(move, c, kind, &number, 1);
}

int move_place_at(struct move *move, core_context *c, int kind, const uint64_t *numbers, unsigned count)
{
    place_args args = { .context = c->wire, .kind = kind, .numbers = { count, (uint64_t *)(uintptr_t)numbers } };
    if (!(move->at[MOVE_TARGET].hello.capabilities & FLYT_CAP_PLACES))
        return move_refuse(move, 0, "the new server is of an earlier version");
    return wire_send(move_calls(move), FLYT_PLACE, (xdrproc_t)xdr_place_args, &args);
}

/* ---- the store ---- */

int move_store_put(struct move *move, const struct move_part *part, const void *bytes)
{
    int code = move_store_write(move->store, part, bytes);
    return code ? move_refuse(move, code, "%s", move_store_why(move->store)) : CORE_OK;
}

int move_store_put_swap(struct move *move, const struct move_part *part, uint8_t **bytes)
{
    int code = move_store_write_swap(move->store, part, bytes);
    return code ? move_refuse(move, code, "%s", move_store_why(move->store)) : CORE_OK;
}

int move_store_keep_at(struct move *move, const struct move_part *part)
{
    int code = move_store_keep(move->store, part);
    return code ? move_refuse(move, code, "%s", move_store_why(move->store)) : CORE_OK;
}

int move_store_look_at(struct move *move, const struct move_part *part, const struct move_hashes *hashes, uint64_t *at,
                       uint64_t *size)
{
    int code = move_store_look(move->store, part, hashes, at, size);
    return code ? move_refuse(move, code, "%s", move_store_why(move->store)) : CORE_OK;
}

int move_store_put_at(struct move *move, const struct move_part *part, struct move_hashes *hashes, uint64_t at,
                      uint64_t size, uint8_t **bytes)
{
    int code = move_store_write_at(move->store, part, hashes, at, size, bytes);
    return code ? move_refuse(move, code, "%s", move_store_why(move->store)) : CORE_OK;
}

int move_store_get(struct move *move, struct move_part *part, void *bytes)
{
    int code = move_store_read(move->store, part, bytes);
    return code ? move_refuse(move, code, "%s", move_store_why(move->store)) : CORE_OK;
}

void move_store_name(const struct move_part *part, struct journal_stored *stored)
{
    *stored = (struct journal_stored){ part->object, part->offset, part->size, part->kind, 0 };
    rehearsal_stored(stored);
}

/* ---- a stream ---- */

/* A preparation may have made the stream at the old server in a context that the program has ended since. The stream
   ended with it, and naming it would be an error of the program's. */
static void forget_ended(struct move *move)
{
    const struct ahead_context *ahead = move_ahead_of(move->ahead, move->streaming);
    if (ahead && !move_ahead_stays(ahead))
        move->stream_made[MOVE_SOURCE] = false;
}

int move_stream_end(struct move *move)
{
    stream_args args = { .stream = move->stream };
    enum move_end before = move->now;
    int code = move_bytes_end(move);
    forget_ended(move);
    for (enum move_end end = MOVE_SOURCE; end <= MOVE_TARGET; end++) {
        if (!move->stream_made[end])
            continue;
        move_go(move, end);
        int ended = wire_plain(&core_session, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &args);
        code = code ? code : ended;
        wire_send(&core_session, FLYT_STREAM_DESTROY, (xdrproc_t)xdr_stream_args, &args);
        context_args context = { .context = move->streaming->wire };
        wire_plain(&core_session, FLYT_CONTEXT_SYNC, (xdrproc_t)xdr_context_args, &context); /* now the id is free */
        move->stream_made[end] = false;
    }
    move->streaming = NULL;
    move_go(move, before);
    return code;
}

int move_stream(struct move *move, core_context *c, flyt_id *out)
{
    int code = move->streaming && move->streaming != c ? move_stream_end(move) : CORE_OK;
    if (code)
        return code;
    move->streaming = c;
    *out = move->stream;
    if (move->stream_made[move->now])
        return CORE_OK;
    stream_create_args args = { .stream = move->stream, .context = c->wire, .flags = STREAM_NON_BLOCKING };
    code = wire_send(move_calls(move), FLYT_STREAM_CREATE, (xdrproc_t)xdr_stream_create_args, &args);
    move->stream_made[move->now] = !code;
    return code;
}
