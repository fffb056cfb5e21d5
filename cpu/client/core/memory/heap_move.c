/*
 * heap_move.c: the heaps of malloc() in kernels on a move to another server (move.h). Kernels keep addresses in them,
 * so the new server makes each at the same address, before it loads modules. What is allocated and what is in it are
 * one state, which goes in parts; parts that are all zero do not. Where modules are loaded while the program goes on,
 * the heaps are made then, too.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/wire.h"

struct moving_heaps { uint64_t address[CONTEXTS_MOST], size[CONTEXTS_MOST]; };

static int heap_ask(core_context *c, uint64_t offset, heap_result *result)
{
    heap_args args = { c->wire, offset };
    memset(result, 0, sizeof *result);
    return wire_call(&core_session, FLYT_HEAP, (xdrproc_t)xdr_heap_args, &args, (xdrproc_t)xdr_heap_result, result);
}

/* CU_LIMIT_MALLOC_HEAP_SIZE: how large a heap will be, or is. */
enum { LIMIT_HEAP = 2 };

static int limit_prepare(struct move *move, core_context *c)
{
    ctx_get_limit_args ask = { c->wire, LIMIT_HEAP };
    ctx_get_limit_result here = { .pvalue = 0 }, there = { .pvalue = 0 };
    limit_result set = { 0 };
    move_go(move, MOVE_SOURCE);
    int code = wire_call(move_calls(move), FLYT_CTX_GET_LIMIT, (xdrproc_t)xdr_ctx_get_limit_args, &ask,
                         (xdrproc_t)xdr_ctx_get_limit_result, &here);
    move_go(move, MOVE_TARGET);
    if (!code)
        code = wire_call(move_calls(move), FLYT_CTX_GET_LIMIT, (xdrproc_t)xdr_ctx_get_limit_args, &ask,
                         (xdrproc_t)xdr_ctx_get_limit_result, &there);
    if (!code && here.pvalue != there.pvalue) {
        limit_args args = { .context = c->wire, .limit = LIMIT_HEAP, .value = here.pvalue };
        code = wire_call(move_calls(move), FLYT_LIMIT_SET, (xdrproc_t)xdr_limit_args, &args,
                         (xdrproc_t)xdr_limit_result, &set);
    }
    xdr_free((xdrproc_t)xdr_ctx_get_limit_result, &here);
    xdr_free((xdrproc_t)xdr_ctx_get_limit_result, &there);
    xdr_free((xdrproc_t)xdr_limit_result, &set);
    return code;
}

int kernel_heap_prepare(struct move *move)
{
    int code = CORE_OK;
    if (!(core_session.hello.capabilities & move->at[MOVE_TARGET].hello.capabilities & FLYT_CAP_PLACES))
        return code;
    for (size_t i = 0; i < move->ahead->count && !code; i++) {
        struct ahead_context *ahead = &move->ahead->contexts[i];
        heap_result result;
        code = limit_prepare(move, ahead->context);
        move_go(move, MOVE_SOURCE);
        if (!code)
            code = heap_ask(ahead->context, 0, &result);
        if (code)
            return move_refuse(move, code, "the heap of its kernels could not be prepared (error %d)", code);
        ahead->heap = result.size ? result.address : 0;
        ahead->heap_size = result.size;
        xdr_free((xdrproc_t)xdr_heap_result, &result);
        move_go(move, MOVE_TARGET);
        if (ahead->heap)
            code = move_place(move, ahead->context, FLYT_PLACE_HEAP, ahead->heap);
    }
    return code;
}

/* A program may give its heap another size, until a kernel has used it. */
static bool is_as_prepared(const struct move *move, core_context *c, const heap_result *now)
{
    const struct ahead_context *ahead = move_ahead_of(move->ahead, c);
    return !ahead || !ahead->heap || (ahead->heap == now->address && ahead->heap_size == now->size);
}

int kernel_heap_save(struct move *move)
{
    struct moving_heaps *heaps = move->of[KIND_KERNEL_HEAP] = calloc(1, sizeof *heaps);
    int code = heaps ? CORE_OK : CORE_OUT_OF_MEMORY;
    if (!(core_session.hello.capabilities & FLYT_CAP_PLACES))
        return code;
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c)) {
        heap_result result;
        code = heap_ask(c, 0, &result);
        if (code)
            move_refuse(move, code, "the old server does not say what kernels have allocated (error %d)", code);
        if (!code && !is_as_prepared(move, c, &result))
            code = move_refuse(move, CORE_NOT_READY, "the heap of its kernels has changed while the move was prepared");
        heaps->address[c->wire] = result.address;
        heaps->size[c->wire] = result.size;
        xdr_free((xdrproc_t)xdr_heap_result, &result);
    }
    return code;
}

int kernel_heap_restore(struct move *move)
{
    const struct moving_heaps *heaps = move->of[KIND_KERNEL_HEAP];
    int code = CORE_OK;
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c))
        if (heaps->size[c->wire])
            code = move_place(move, c, FLYT_PLACE_HEAP, heaps->address[c->wire]);
    return code;
}

static int part_give(struct move *move, core_context *c, uint64_t offset, char *bytes, u_int size)
{
    heap_set_args args = { c->wire, offset, { size, bytes } };
    if (!(move->steps & MOVE_IN))
        return move_store_put(move, &(struct move_part){ KIND_KERNEL_HEAP, c->wire, offset, size }, bytes);
    move_go(move, MOVE_TARGET);
    return size ? wire_send(&core_session, FLYT_HEAP_SET, (xdrproc_t)xdr_heap_set_args, &args) : CORE_OK;
}

static int part_copy(struct move *move, core_context *c, uint64_t offset, uint64_t size)
{
    heap_result part;
    move_go(move, MOVE_SOURCE);
    int code = heap_ask(c, offset, &part);
    if (!code && part.size != size)
        code = CORE_UNKNOWN;
    if (!code)
        code = part_give(move, c, offset, part.state.state_val, part.state.state_len);
    xdr_free((xdrproc_t)xdr_heap_result, &part);
    return code;
}

static int part_from_store(struct move *move, core_context *c, uint64_t offset, char *room)
{
    struct move_part part = { KIND_KERNEL_HEAP, c->wire, offset, FLYT_MAX_INLINE };
    struct journal_stored stored;
    if (rehearsal_here()) {
        heap_set_args args = { c->wire, offset, { 0, NULL } };
        move_store_name(&part, &stored);
        return wire_send(&core_session, FLYT_HEAP_SET, (xdrproc_t)xdr_heap_set_args, &args);
    }
    int code = move_store_get(move, &part, room);
    return code ? code : part_give(move, c, offset, room, (u_int)part.size);
}

static int heap_copy(struct move *move, core_context *c, uint64_t size)
{
    char *room = move->steps & MOVE_OUT ? NULL : malloc(FLYT_MAX_INLINE);
    int code = move->steps & MOVE_OUT || room ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (uint64_t at = 0; at < size && !code; at += FLYT_MAX_INLINE)
        code = room ? part_from_store(move, c, at, room) : part_copy(move, c, at, size);
    free(room);
    return code ? move_refuse(move, code, "what kernels have allocated could not be copied (error %d)", code) : CORE_OK;
}

int kernel_heap_contents(struct move *move)
{
    const struct moving_heaps *heaps = move->of[KIND_KERNEL_HEAP];
    int code = CORE_OK;
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c))
        if (heaps->size[c->wire])
            code = heap_copy(move, c, heaps->size[c->wire]);
    return code;
}

void kernel_heap_moved(struct move *move, bool moved)
{
    (void)moved;
    free(move->of[KIND_KERNEL_HEAP]);
}
