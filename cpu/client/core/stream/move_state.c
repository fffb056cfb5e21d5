/* move_state.c: which server a move's calls go to, and the bytes that it takes along. See move.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/device.h"
#include "move.h"
#include "cpu/client/core/wire/wire.h"

/* Between two waits: the new server need not keep more. */
#define MOVE_UNCONFIRMED (UINT64_C(32) << 20)

int move_refuse(struct move *move, int code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!*move->why)
        vsnprintf(move->why, move->why_size, format, list);
    va_end(list);
    return code ? code : CORE_NOT_SUPPORTED;
}

void move_go(struct move *move, enum move_end end)
{
    if (move->now == end)
        return;
    move->now = end;
    core_session.client = move->at[end].client;
    core_session.hello.capabilities = move->at[end].hello.capabilities;
    core_session.hello.session = move->at[end].hello.session;
    memcpy(core_session.hello.nonce, move->at[end].hello.nonce, sizeof core_session.hello.nonce);
    device_rewire(move->at[end].devices);
}

/* ---- a stream ---- */

int move_stream_end(struct move *move)
{
    stream_args args = { .stream = move->stream };
    enum move_end before = move->now;
    int code = CORE_OK;
    for (enum move_end end = MOVE_SOURCE; end <= MOVE_TARGET; end++) {
        if (!move->stream_made[end])
            continue;
        move_go(move, end);
        int ended = wire_plain(FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &args);
        code = code ? code : ended;
        wire_send(FLYT_STREAM_DESTROY, (xdrproc_t)xdr_stream_args, &args);
        context_args context = { .context = move->streaming->wire };
        wire_plain(FLYT_CONTEXT_SYNC, (xdrproc_t)xdr_context_args, &context);      /* now the id may be used again */
        move->stream_made[end] = false;
    }
    move->unconfirmed = 0;
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
    code = wire_send(FLYT_STREAM_CREATE, (xdrproc_t)xdr_stream_create_args, &args);
    move->stream_made[move->now] = !code;
    return code;
}

/* ---- bytes ---- */

static int bytes_from(struct move *move, core_context *c, uint64_t address, uint64_t size, copy_out_result *out)
{
    copy_out_args args = { .from = address, .size = size };
    move_go(move, MOVE_SOURCE);
    int code = move_stream(move, c, &args.stream);
    if (!code)
        code = wire_call(FLYT_COPY_OUT, (xdrproc_t)xdr_copy_out_args, &args, (xdrproc_t)xdr_copy_out_result, out);
    if (!code && (out->data.kind != FLYT_BULK_INLINE || out->data.flyt_bulk_u.bytes.bytes_len != size))
        code = CORE_UNKNOWN;
    return code;
}

static int bytes_to(struct move *move, core_context *c, uint64_t address, const copy_out_result *from)
{
    copy_in_args args = { .to = address, .data = from->data };
    move_go(move, MOVE_TARGET);
    int code = move_stream(move, c, &args.stream);
    if (!code)
        code = wire_send(FLYT_COPY_IN, (xdrproc_t)xdr_copy_in_args, &args);
    move->unconfirmed += from->data.flyt_bulk_u.bytes.bytes_len;
    move->copied += from->data.flyt_bulk_u.bytes.bytes_len;
    if (code || move->unconfirmed < MOVE_UNCONFIRMED)
        return code;
    stream_args sync = { .stream = args.stream };
    move->unconfirmed = 0;
    return wire_plain(FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &sync);
}

int move_bytes(struct move *move, core_context *c, uint64_t address, uint64_t size)
{
    int code = CORE_OK;
    for (uint64_t at = 0; at < size && !code; at += FLYT_MAX_INLINE) {
        uint64_t part = size - at < FLYT_MAX_INLINE ? size - at : FLYT_MAX_INLINE;
        copy_out_result bytes;
        memset(&bytes, 0, sizeof bytes);
        code = bytes_from(move, c, address + at, part, &bytes);
        if (code)
            move_refuse(move, code, "%llu bytes at 0x%llx could not be read (error %d)", (unsigned long long)part,
                        (unsigned long long)(address + at), code);
        if (!code && (code = bytes_to(move, c, address + at, &bytes)))
            move_refuse(move, code, "%llu bytes at 0x%llx could not be written at the new server (error %d)",
                        (unsigned long long)part, (unsigned long long)(address + at), code);
        xdr_free((xdrproc_t)xdr_copy_out_result, &bytes);
    }
    return code;
}
