/*
 * values.c: stream memory operations: a stream waits for a value in memory, or writes one. The memory is the device's,
 * or pinned memory that it reaches; CUDA does not allow managed memory.
 */
#include <stdlib.h>

#include "copy_calls.h"
#include "cpu/common/cancel.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/op.h"

enum { WAIT_CONDITIONS = 0x3, WRITE_FLAGS = 0x1, BARRIER_FLAGS = 0x1 };
#define WAIT_FLUSH (1u << 30)

/* Mirrored pinned memory goes to the server first. */
static int mirrored_prepare(struct client_stream *s, const struct core_value *list, unsigned count)
{
    bool any = false;
    for (unsigned i = 0; i < count; i++) {
        bool here = mirror_holds(list[i].address);
        if (here && !mirror_reach(s->context->session, list[i].address))
            return CORE_OUT_OF_MEMORY;
        any |= here;
    }
    return any ? mirror_room->before_work(s) : CORE_OK;
}

int values_op(struct client_stream *s, const struct op *op)
{
    const struct core_value *list = op->values.list;
    bool mirrored = mirror_heeded();
    int code = mirrored ? mirrored_prepare(s, list, op->values.count) : CORE_OK;
    flyt_value *sent = code ? NULL : malloc(op->values.count * sizeof *sent);
    if (!sent)
        return code ? code : CORE_OUT_OF_MEMORY;
    for (unsigned i = 0; i < op->values.count; i++)
        sent[i] = (flyt_value){ (int)list[i].kind, list[i].address, list[i].value, list[i].flags };
    values_args args = { .stream = s->wire, .operations = { op->values.count, sent } };
    const struct stream_call call = { FLYT_VALUES, (xdrproc_t)xdr_values_args, &args, .weighty = true };
    code = stream_send(s, &call, NULL);
    free(sent);
    if (mirrored)
        mirror_work_sent();
    return code;
}

static int check(const struct client_stream *s, const struct core_value *v)
{
    bool wait = v->kind == CORE_WAIT_VALUE_32 || v->kind == CORE_WAIT_VALUE_64;
    bool write = v->kind == CORE_WRITE_VALUE_32 || v->kind == CORE_WRITE_VALUE_64;
    size_t size = v->kind == CORE_WAIT_VALUE_64 || v->kind == CORE_WRITE_VALUE_64 ? 8 : 4;
    if (v->kind == CORE_FLUSH_REMOTE_WRITES || (wait && v->flags & WAIT_FLUSH))
        return CORE_NOT_SUPPORTED; /* no device does it: CAN_FLUSH_REMOTE_WRITES is 0 */
    if (v->kind == CORE_MEMORY_BARRIER)
        return v->flags & ~(unsigned)BARRIER_FLAGS ? CORE_INVALID_VALUE : CORE_OK;
    if ((!wait && !write) || v->flags & ~(wait ? (unsigned)WAIT_CONDITIONS : (unsigned)WRITE_FLAGS) ||
        v->address % size)
        return CORE_INVALID_VALUE;
    struct copy_side side;
    const struct core_box box = { v->address, size, 1 };
    bool good = !copy_side(s, &box, &(struct core_extent){ size, 1, 1 }, &side) && !side.managed &&
                (!side.owner || side.owner->session == s->context->session) &&
                (side.reach || mirror_holds(v->address));
    return good ? CORE_OK : CORE_INVALID_VALUE;
}

static int check_all(core_context *c, core_stream stream, const struct core_value *list, unsigned count,
                     struct client_stream **s)
{
    int code = client_stream_enter(c, stream, s);
    if (!code && (!count || count >= FLYT_MAX_VALUES))
        code = CORE_INVALID_VALUE;
    for (unsigned i = 0; i < count && !code; i++)
        code = check(*s, &list[i]);
    return code;
}

int core_values_check(core_context *c, const struct core_value *list, unsigned count)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    return check_all(c, CORE_STREAM_LEGACY, list, count, &s);
}

int core_values(core_context *c, core_stream stream, const struct core_value *list, unsigned count)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = check_all(c, stream, list, count, &s);
    return code ? code : op_submit(s, &(struct op){ .kind = OP_VALUES, .values = { list, count } });
}
