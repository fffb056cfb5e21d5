/*
 * copy.c: copies of contiguous memory.
 *
 * To the device. The source is encoded into the calls, so it has been taken when the function returns. A
 * synchronous copy also waits, but only if something that may run long or fail precedes it: then native would
 * wait there, and report there. A source that queued work may still write (a pinned buffer that an earlier copy
 * from the device fills, or a host function) must not be taken early: a synchronous copy waits for its stream
 * first; an asynchronous one is done in its turn by a host function, through a stream of the core's own.
 *
 * From the device. Several calls are in flight, each writes its part of the destination as it arrives.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { CHUNKS_IN_FLIGHT = 8 };

/* ---- to the device ---- */

static int send_in(struct stream *s, uint64_t to, const void *from, size_t size)
{
    int code = CORE_OK;
    for (size_t at = 0; at < size && !code; at += FLYT_MAX_INLINE) {
        size_t part = size - at < FLYT_MAX_INLINE ? size - at : FLYT_MAX_INLINE;
        copy_in_args args = { .stream = s->wire, .to = to + at, .data = { .kind = FLYT_BULK_INLINE } };
        args.data.flyt_bulk_u.bytes.bytes_len = (u_int)part;
        args.data.flyt_bulk_u.bytes.bytes_val = (char *)(uintptr_t)from + at;
        host_function_throttle(s, part);
        code = stream_send(s, FLYT_COPY_IN, (xdrproc_t)xdr_copy_in_args, &args, STREAM_LIGHT, NULL);
    }
    return code;
}

struct late_in { int device; uint64_t to; const void *from; size_t size; };

static void late_copy_in(void *user, int status)
{
    struct late_in *late = user;
    struct stream *s;
    int code = status ? CORE_OK : stream_transfer(late->device, &s);
    if (!status && !code && !(code = send_in(s, late->to, late->from, late->size)))
        code = stream_wait_for(s);
    if (code)
        session_latch(code);
    free(late);
}

static int copy_in_late(struct stream *s, uint64_t to, const void *from, size_t size)
{
    struct late_in *late = malloc(sizeof *late);
    if (!late)
        return CORE_OUT_OF_MEMORY;
    *late = (struct late_in){ s->device, to, from, size };
    int code = host_function_put(s, late_copy_in, late, true, false);
    if (code)
        free(late);
    return code;
}

int core_copy_in(int device, core_stream stream, uint64_t to, const void *from, size_t size, bool blocking)
{
    struct stream *s;
    int code = stream_enter(device, stream, &s);
    if (code || !size)
        return code;
    if (!from || !address_on_device(to, size))
        return CORE_INVALID_VALUE;
    bool early = !outs_writers() || stream_known_idle(s);
    if (!early && !blocking && address_pinned(from, size))
        return copy_in_late(s, to, from, size);
    if (!early && blocking && (code = stream_wait_for(s)))
        return code;
    bool wait = blocking && !stream_known_light(s);
    code = send_in(s, to, from, size);
    return code || !wait ? code : stream_wait_for(s);
}

/* ---- from the device ---- */

struct part_out {
    struct wire_call        wire;
    copy_out_args           args;
    struct chunk_out_result result;
};

static int part_wait(struct part_out *part)
{
    int code = wire_wait(&part->wire);
    xdr_free((xdrproc_t)xdr_chunk_out_result, &part->result);
    return code;
}

static int receive_out(struct stream *s, uint8_t *to, uint64_t from, size_t size)
{
    struct part_out parts[CHUNKS_IN_FLIGHT];
    unsigned window = core_perf.no_pipeline ? 1 : CHUNKS_IN_FLIGHT, begun = 0, ended = 0;
    atomic_uint_fast64_t number = 0;
    int first = CORE_OK;
    struct point before = stream_point(s);
    outs_wait_place(&before, to, size);
    for (size_t at = 0; at < size || ended < begun;) {
        if (at < size && !first && begun - ended < window) {
            size_t bytes = size - at < FLYT_MAX_INLINE ? size - at : FLYT_MAX_INLINE;
            struct part_out *part = &parts[begun++ % CHUNKS_IN_FLIGHT];
            part->args = (copy_out_args){ .stream = s->wire, .from = from + at, .size = bytes };
            part->result = (struct chunk_out_result){ .to = { .address = to + at, .width = bytes, .rows = 1, .slices = 1 } };
            wire_prepare(&part->wire, FLYT_COPY_OUT, (xdrproc_t)xdr_copy_out_args, &part->args,
                         (xdrproc_t)xdr_chunk_out_result, &part->result);
            stream_submit(s, &part->wire, NULL, &number, NULL);
            at += bytes;
            continue;
        }
        if (ended == begun)
            break;                            /* a part failed: the rest is not asked for */
        int code = part_wait(&parts[ended++ % CHUNKS_IN_FLIGHT]);
        if (!first)
            first = code;
    }
    if (!first)
        stream_finished(s, atomic_load(&number));
    return first;
}

int core_copy_out(int device, core_stream stream, void *to, uint64_t from, size_t size, bool blocking)
{
    struct stream *s;
    int code = stream_enter(device, stream, &s);
    if (code || !size)
        return code;
    if (!to || !address_on_device(from, size))
        return CORE_INVALID_VALUE;
    if (!blocking && address_pinned(to, size))
        return outs_start(s, to, from, size);
    return receive_out(s, to, from, size);
}

/* ---- on the device, and in the program ---- */

int core_copy(int device, core_stream stream, uint64_t to, uint64_t from, size_t size, bool blocking)
{
    (void)blocking;                           /* native does not wait for these either */
    struct stream *s;
    int code = stream_enter(device, stream, &s);
    if (code || !size)
        return code;
    if (!address_on_device(to, size) || !address_on_device(from, size))
        return CORE_INVALID_VALUE;
    copy_args args = { .stream = s->wire, .to = to, .from = from, .size = size };
    return stream_send(s, FLYT_COPY, (xdrproc_t)xdr_copy_args, &args, STREAM_LIGHT, NULL);
}

struct late_host { void *to; const void *from; size_t size; };

static void late_copy_host(void *user, int status)
{
    struct late_host *late = user;
    if (!status)
        memmove(late->to, late->from, late->size);
    free(late);
}

int core_copy_host(int device, core_stream stream, void *to, const void *from, size_t size, bool blocking)
{
    struct stream *s;
    int code = stream_enter(device, stream, &s);
    if (code || !size)
        return code;
    if (!to || !from)
        return CORE_INVALID_VALUE;
    if (!stream_known_idle(s) && !blocking) {
        struct late_host *late = malloc(sizeof *late);
        if (!late)
            return CORE_OUT_OF_MEMORY;
        *late = (struct late_host){ to, from, size };
        code = host_function_put(s, late_copy_host, late, true, true);
        if (code)
            free(late);
        return code;
    }
    if ((code = stream_wait_for(s)))
        return code;
    memmove(to, from, size);
    return CORE_OK;
}
