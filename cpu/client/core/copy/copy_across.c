/*
 * copy_across.c: copies and sets of memory that is at another server than the stream, or at two servers.
 *
 * The stream waits for a function of this process, as for a host function, which does the work through streams of the
 * core's own (stream_transfer) at the servers that have the memory. So the work has its place in the stream's order,
 * and waits for nothing else. A synchronous function waits for all that the contexts concerned have under way, and
 * does the work itself.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "copy_engine.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/state.h"

enum { BOUNCE = 4 << 20 };

struct across {
    core_context *context;            /* of the stream that waits */
    core_context *target, *source;    /* NULL: that side is the program's memory */
    struct copy_span span;
    uint32_t value;                   /* of a set */
    unsigned element;                 /* 0: it is a copy */
    char bytes[];                     /* of a pageable source */
};

core_context *copy_owner(const struct core_range *range)
{
    if (range->context)
        return range->context;
    core_context *c = context_of_wire((flyt_id)range->device);         /* the primary one */
    if (core_context_active(c))
        return c;
    for (c = context_next(NULL); c && c->device != range->device;)
        c = context_next(c);
    return c;
}

/* ---- the work ---- */

/* In pieces, through memory of this process. */
static int between(const struct across *a, core_stream to, core_stream from)
{
    struct copy_cut left = copy_cut_begin(&a->span);
    struct copy_span part;
    size_t most = left.bytes < BOUNCE ? left.bytes : BOUNCE;
    char *buffer = malloc(most);
    int code = buffer ? CORE_OK : CORE_OUT_OF_MEMORY;
    while (!code && copy_cut_next(&left, most, &part)) {
        const struct core_box here = { (uint64_t)(uintptr_t)buffer, part.extent.width, part.extent.height };
        code = core_copy_box(a->source, from, &here, &part.from, &part.extent, CORE_ANY_DIRECTION, true);
        if (!code)
            code = core_copy_box(a->target, to, &part.to, &here, &part.extent, CORE_ANY_DIRECTION, true);
    }
    free(buffer);
    return code;
}

/* In a stream of each context. */
static int work(const struct across *a, core_stream to, core_stream from)
{
    if (a->element)
        return core_set(a->target, to, &a->span.to, &a->span.extent, a->value, a->element, false);
    if (a->target && a->source)
        return between(a, to, from);
    return core_copy_box(a->target ? a->target : a->source, a->target ? to : from, &a->span.to, &a->span.from,
                         &a->span.extent, CORE_ANY_DIRECTION, true);
}

static int transfer_stream(core_context *c, struct client_stream **s, core_stream *token)
{
    int code = c ? context_enter(c) : CORE_OK;
    if (!c || code || (code = stream_transfer(c, s)))
        return code;
    *token = atomic_load(&(*s)->token);
    return CORE_OK;
}

/* In the thread of host functions. */
static void work_now(void *user, int status)
{
    struct across *a = user;
    struct client_stream *to = NULL, *from = NULL;
    core_stream target = 0, source = 0;
    int code = status ? CORE_OK : transfer_stream(a->target, &to, &target);
    if (!status && !code)
        code = transfer_stream(a->source, &from, &source);
    if (!status && !code && !(code = work(a, target, source)) && to)
        code = stream_wait_for(to);
    if (code)
        session_latch(a->context->session, code);
    free(a);
}

/* ---- giving it to a stream ---- */

static int put(struct client_stream *s, struct across *a, bool writes)
{
    int code = host_function_put(s, work_now, a, true, writes);
    if (code)
        free(a);
    return code;
}

static int settle(core_context *c) { return c ? context_settle(c) : CORE_OK; }

static int at_once(struct client_stream *s, const struct across *a)
{
    int code = stream_wait_for(s);
    if (!code)
        code = settle(a->source);
    if (!code)
        code = settle(a->target);
    if (!code)
        code = work(a, CORE_STREAM_LEGACY, CORE_STREAM_LEGACY);
    return code || !a->target ? code : stream_wait_for(&a->target->legacy);
}

int copy_across(struct client_stream *s, const struct copy_plan *plan)
{
    const struct across wanted = { s->context, plan->target, plan->source, plan->span, 0, 0 };
    bool pageable = !(plan->to_device && plan->from_device) && !plan->pinned;
    if (plan->blocking || (pageable && !plan->to_device))
        return at_once(s, &wanted);
    size_t taken = pageable ? copy_bytes(&plan->span) : 0;
    struct across *a = malloc(sizeof *a + taken);
    if (!a)
        return CORE_OUT_OF_MEMORY;
    *a = wanted;
    if (pageable) {
        const struct host_rows rows = rows_of(&plan->span.from, &plan->span.extent);
        rows_pack(a->bytes, &rows);
        a->span.from =
            (struct core_box){ (uint64_t)(uintptr_t)a->bytes, plan->span.extent.width, plan->span.extent.height };
    }
    return put(s, a, !plan->to_device);
}

int set_across(struct client_stream *s, core_context *owner, const struct core_box *to, const struct core_extent *e,
               uint32_t value, unsigned element)
{
    struct across *a = malloc(sizeof *a);
    if (!a)
        return CORE_OUT_OF_MEMORY;
    *a = (struct across){ s->context, owner, NULL, { .to = *to, .extent = *e }, value, element };
    return put(s, a, false);
}
