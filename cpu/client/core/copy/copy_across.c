/*
 * copy_across.c: copies and sets of memory that is at another server than the stream, or at two servers.
 *
 * The stream waits for a function of this process, as for a host function, which does the work through streams of the
 * core's own (stream_transfer, stream_sends) at the servers that have the memory. So the work has its place in the
 * stream's order, and waits for nothing else: the servers are given none of it before its turn, because synchronising
 * with the other server's GPU would wait for it, too. If it fails, the session of the stream has failed. A synchronous
 * function waits for all that the contexts concerned have under way, and does the work itself.
 *
 * Bytes between two servers go over a link of the two, where there is one (link_copy.c); the function's thread begins
 * that, and serves other streams meanwhile. Else, and where the link fails, they pass through memory of this process.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "copy_engine.h"
#include "link_copy.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/stream/op.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/state.h"

enum { BOUNCE = 4 << 20 };

/* Whose the memory is was looked up at the call: a free that comes later waits for the work, but forgets the memory
   before it waits. */
struct across {
    core_context *context;            /* of the stream that waits */
    core_context *target, *source;    /* NULL: that side is the program's memory */
    bool pinned;                      /* and that memory is pinned */
    struct copy_span span;
    uint32_t value;                   /* of a set */
    unsigned element;                 /* 0: it is a copy */
    flyt_id id;                       /* of the function for which the stream waits */
    bool linked;                      /* the bytes have gone over a link, or have tried to */
    int linked_code;                  /* how that has ended */
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

/* Between the memory of a stream's context and that of the program. */
static int move(struct client_stream *s, const struct copy_span *span, bool in, bool pinned)
{
    struct op op = { .kind = OP_COPY, .copy = { .span = *span, .route = in ? COPY_IN : COPY_OUT, .to_device = in,
                                                .from_device = !in, .pinned = pinned, .blocking = true } };
    return op_send(s, &op);
}

/* At one server, which is not the stream's. */
static int inside(const struct across *a, struct client_stream *to)
{
    struct op op = { .kind = OP_COPY, .copy = { .span = a->span, .route = COPY_REACH, .to_device = true,
                                                .from_device = true } };
    return op_send(to, &op);
}

/* In pieces, through memory of this process. */
static int bounce(const struct across *a, struct client_stream *to, struct client_stream *from)
{
    struct copy_cut left = copy_cut_begin(&a->span);
    struct copy_span part;
    size_t most = left.bytes < BOUNCE ? left.bytes : BOUNCE;
    char *buffer = malloc(most);
    int code = buffer ? CORE_OK : CORE_OUT_OF_MEMORY;
    while (!code && copy_cut_next(&left, most, &part)) {
        const struct core_box here = { (uint64_t)(uintptr_t)buffer, part.extent.width, part.extent.height };
        code = move(from, &(struct copy_span){ here, part.from, part.extent }, false, false);
        if (!code)
            code = move(to, &(struct copy_span){ part.to, here, part.extent }, true, false);
    }
    free(buffer);
    return code;
}

static int set(const struct across *a, struct client_stream *to)
{
    struct op op = { .kind = OP_SET, .set = { a->span.to, a->span.extent, a->span.to.address, a->value, a->element } };
    return op_send(to, &op);
}

static bool of_two_servers(const struct across *a)
{
    return a->target && a->source && a->target->session != a->source->session;
}

/* In a stream of each context. */
static int work(const struct across *a, struct client_stream *to, struct client_stream *from)
{
    if (a->element)
        return set(a, to);
    if (of_two_servers(a))
        return bounce(a, to, from);
    return a->target && a->source ? inside(a, to) : move(to ? to : from, &a->span, to != NULL, a->pinned);
}

static int transfer_stream(core_context *c, struct client_stream **s)
{
    int code = c ? context_enter(c) : CORE_OK;
    return c && !code ? stream_transfer(c, s) : code;
}

static int work_in_turn(const struct across *a)
{
    struct client_stream *to = NULL, *from = NULL;
    int code = transfer_stream(a->target, &to);
    if (!code)
        code = transfer_stream(a->source, &from);
    if (!code)
        code = work(a, to, from);
    return code || !to ? code : stream_wait_for(to);
}

static void link_done(void *user, int code)
{
    struct across *a = user;
    a->linked_code = code;
    host_function_again(a->id);
}

static int sends_stream(core_context *c, struct client_stream **s)
{
    int code = context_enter(c);
    return code ? code : stream_sends(c, s);
}

/* True: the bytes are on their way over a link, and work_now runs once more when that has ended. */
static bool work_over_link(struct across *a)
{
    struct client_stream *to, *from;
    if (a->linked || a->element || !of_two_servers(a) || context_enter(a->target) || context_enter(a->source) ||
        !link_copy_can(a->target, a->source) || transfer_stream(a->target, &to) || sends_stream(a->source, &from))
        return false;
    a->linked = true;
    host_function_stay(a->id, true);
    int code = link_copy_begin(to, from, &a->span, link_done, a);
    if (code) {
        a->linked_code = code;
        host_function_stay(a->id, false);
    }
    return !code;
}

static int work_without_link(struct across *a)
{
    if (a->linked && !a->linked_code)
        return CORE_OK;
    if (a->linked)
        link_copy_end(a->target, a->source, a->linked_code);
    return work_in_turn(a);
}

/* In the thread for work between servers. After a failure of the stream nobody sees what the work would do, and no free
   waits for it any more. */
static void work_now(void *user, int status)
{
    struct across *a = user;
    bool failed = status || atomic_load(&a->context->session->sticky);
    if (!failed && work_over_link(a))
        return;
    int code = failed ? CORE_OK : work_without_link(a);
    if (code)
        session_fail(a->context->session, a->element ? "a memset at another GPU server" : "a copy between GPU servers",
                     code);
    free(a);
}

/* ---- giving it to a stream ---- */

static int put(struct client_stream *s, struct across *a, bool writes)
{
    int code = host_function_put_across(s, work_now, a, writes, &a->id);
    if (code)
        free(a);
    return code;
}

static int enter(core_context *c) { return c ? context_enter(c) : CORE_OK; }
static int settle(core_context *c) { return c ? context_settle(c) : CORE_OK; }

static int at_once(struct client_stream *s, const struct across *a)
{
    int code = stream_wait_for(s);
    if (!code)
        code = settle(a->source);
    if (!code)
        code = settle(a->target);
    if (code)
        return code;
    struct client_stream *to = a->target ? &a->target->legacy : NULL, *from = a->source ? &a->source->legacy : NULL;
    if (of_two_servers(a) && link_copy_can(a->target, a->source)) {
        if (!(code = link_copy_wait(to, from, &a->span)))
            return CORE_OK;
        link_copy_end(a->target, a->source, code);
    }
    code = work(a, to, from);
    return code || !a->target ? code : stream_wait_for(&a->target->legacy);
}

int copy_across(struct client_stream *s, const struct copy_plan *plan)
{
    const struct across wanted = {
        .context = s->context, .target = plan->target, .source = plan->source, .pinned = plan->pinned,
        .span = plan->span
    };
    int code = enter(plan->target);
    if (code || (code = enter(plan->source)))
        return code;
    if ((plan->to_device && !plan->target) || (plan->from_device && !plan->source))
        return CORE_INVALID_VALUE;            /* the context that had the memory has ended */
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
    int code = enter(owner);
    struct across *a = code ? NULL : malloc(sizeof *a);
    if (!a)
        return code ? code : CORE_OUT_OF_MEMORY;
    *a = (struct across){
        .context = s->context, .target = owner, .span = { .to = *to, .extent = *e }, .value = value, .element = element
    };
    return put(s, a, false);
}
