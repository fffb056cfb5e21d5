/*
 * move.c: whether a session may leave this server for another one, and what a session that comes from another one
 * brings with it (docs/moving.md). The client does the moving; the table of kinds says what cannot go with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/server/code/code.h"
#include "cpu/server/memory/object.h"
#include "cpu/server/memory/share.h"
#include "cpu/server/session.h"

static uint64_t objects_of(const struct session *session, int kind)
{
    const struct kind_row *row = &server_kinds[kind];
    return row->count ? row->count(session) : session->ids[kind] ? id_map_count(session->ids[kind]) : 0;
}

/* So that an administrator knows which programs have to end first. */
static void add_partners(struct session *session, char *text, size_t size)
{
    char partners[144];                       /* the rest is cut off */
    const size_t length = strlen(text);
    share_partners(session, partners, sizeof partners);
    if (*partners)
        snprintf(text + length, size - length, ": the others are %s", partners);
    else
        snprintf(text + length, size - length, " (no other program has any of it yet)");
}

void serve_movable(struct session *session, struct call *call)
{
    char refusal[FLYT_MAX_SHORT] = "";
    const unsigned able = call->args.movable.able;
    for (int kind = 0; kind < KINDS && !*refusal; kind++) {
        const struct kind_row *row = &server_kinds[kind];
        bool checkpoint = row->moves == MOVE_CHECKPOINT, stays = row->moves == MOVE_REFUSED && !(row->able & able);
        uint64_t count = stays || checkpoint ? objects_of(session, kind) : 0;
        if (count)
            snprintf(refusal, sizeof refusal, "it has %llu of kind %s, which %s", (unsigned long long)count, row->name,
                     checkpoint ? "only a checkpoint of the driver could move" : "cannot be made again elsewhere");
        if (count && kind == KIND_SHARE)
            add_partners(session, refusal, sizeof refusal);
    }
    movable_result result;
    memset(&result, 0, sizeof result);
    result.refusal = refusal;
    session_reply(session, call->xid, (xdrproc_t)xdr_movable_result, &result, CUDA_SUCCESS, false);
}

enum { MODULE_NUMBERS = sizeof(struct softgpu_module_place) / sizeof(uint64_t) };

/* Drivers other than the software GPU choose by themselves; the client compares. */
static CUresult place_value(struct session *session, struct context *context, enum kind kind, uint64_t handle)
{
    CUresult r = context_use(session, context);
    if (r == CUDA_SUCCESS && session->gpu->place_object)
        r = session->gpu->place_object(handle);
    if (r == CUDA_SUCCESS)
        object_name_next(session, kind, handle);
    return r;
}

static CUresult place_module(struct session *session, struct context *context, const uint64_t *numbers)
{
    struct softgpu_module_place place;
    CUresult r = session->gpu->place_module ? context_use(session, context) : CUDA_ERROR_NOT_SUPPORTED;
    memcpy(&place, numbers, sizeof place);
    return r == CUDA_SUCCESS ? session->gpu->place_module(&place) : r;
}

static CUresult place(struct session *session, struct context *context, const place_args *args)
{
    const uint64_t *numbers = args->numbers.numbers_val;
    const u_int count = args->numbers.numbers_len;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (count != (args->kind == FLYT_PLACE_MODULE ? MODULE_NUMBERS : 1))
        return CUDA_ERROR_INVALID_VALUE;
    switch (args->kind) {
    case FLYT_PLACE_ARRAY:
    case FLYT_PLACE_MIPMAP:
        object_name_next(session, args->kind == FLYT_PLACE_ARRAY ? KIND_ARRAY : KIND_MIPMAP, numbers[0]);
        return CUDA_SUCCESS;
    case FLYT_PLACE_TEXTURE: return place_value(session, context, KIND_TEXTURE, numbers[0]);
    case FLYT_PLACE_SURFACE: return place_value(session, context, KIND_SURFACE, numbers[0]);
    case FLYT_PLACE_NONE:
        if (session->gpu->retire_object)
            session->gpu->retire_object(numbers[0]);
        return CUDA_SUCCESS;
    case FLYT_PLACE_HEAP: {
        CUresult r = session->gpu->place_heap ? context_use(session, context) : CUDA_ERROR_NOT_SUPPORTED;
        return r == CUDA_SUCCESS ? session->gpu->place_heap(numbers[0]) : r;
    }
    case FLYT_PLACE_MODULE: return place_module(session, context, numbers);
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

void serve_place(struct session *session, struct call *call)
{
    const place_args *args = &call->args.place;
    CUresult r = place(session, context_find(session, args->context), args);
    if (r != CUDA_SUCCESS)
        call_fail(session, call, r);
}

void serve_module_place(struct session *session, struct call *call)
{
    const struct module *module = id_map_find(session->ids[KIND_MODULE], call->args.module_place.module);
    struct softgpu_module_place place;
    uint64_t numbers[MODULE_NUMBERS];
    module_place_result result = { .numbers = { MODULE_NUMBERS, numbers } };
    CUresult r = !module || module->state != CODE_READY ? CUDA_ERROR_INVALID_HANDLE
                 : session->gpu->module_place           ? session->gpu->module_place(module->handle, &place)
                                                        : CUDA_ERROR_NOT_SUPPORTED;
    if (r != CUDA_SUCCESS) {
        call_fail(session, call, r);
        return;
    }
    memcpy(numbers, &place, sizeof numbers);
    session_reply(session, call->xid, (xdrproc_t)xdr_module_place_result, &result, r, false);
}

/* ---- the heap of kernels ---- */

static bool all_zero(const char *bytes, size_t size)
{
    return !size || (!bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
}

/* The part of the state from there on. *state: to be freed. */
static CUresult heap_read(struct session *session, uint64_t offset, heap_result *result)
{
    const struct gpu *gpu = session->gpu;
    uint64_t address, size;
    CUresult r = gpu->heap(&address, &size);
    if (r != CUDA_SUCCESS || !size)
        return r;
    if (offset > size)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t part = size - offset < FLYT_MAX_INLINE ? size - offset : FLYT_MAX_INLINE;
    result->address = address;
    result->size = size;
    result->state.state_val = malloc(part + 1);
    r = result->state.state_val ? gpu->heap_state(offset, result->state.state_val, part, false)
                                : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && !all_zero(result->state.state_val, part))
        result->state.state_len = (u_int)part;
    return r;
}

void serve_heap(struct session *session, struct call *call)
{
    const heap_args *args = &call->args.heap;
    struct context *context = context_find(session, args->context);
    heap_result result;
    memset(&result, 0, sizeof result);
    CUresult r = context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && session->gpu->heap) {
        r = context_use(session, context);
        r = r == CUDA_SUCCESS ? heap_read(session, args->offset, &result) : r;
    }
    session_reply(session, call->xid, (xdrproc_t)xdr_heap_result, &result, r, false);
    free(result.state.state_val);
}

void serve_heap_set(struct session *session, struct call *call)
{
    const heap_set_args *args = &call->args.heap_set;
    struct context *context = context_find(session, args->context);
    CUresult r = !context                    ? CUDA_ERROR_INVALID_CONTEXT
                 : session->gpu->heap_state ? context_use(session, context)
                                            : CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        r = session->gpu->heap_state(args->offset, args->state.state_val, args->state.state_len, true);
    if (r != CUDA_SUCCESS)
        call_fail(session, call, r);
}
