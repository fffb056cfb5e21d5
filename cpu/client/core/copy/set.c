/* set.c: memset. */
#include <stdlib.h>
#include <string.h>

#include "copy_calls.h"
#include "cpu/common/cancel.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/stream/op.h"

/* Pinned memory that the device does not reach. */
static void set_here(const struct op_set *set)
{
    uint8_t bytes[4];
    /* both sides are little-endian, as every machine with a GPU is */
    memcpy(bytes, &set->value, sizeof bytes);
    for (size_t z = 0; z < set->extent.depth; z++)
        for (size_t y = 0; y < set->extent.height; y++) {
            uint8_t *row = (uint8_t *)(uintptr_t)(set->to.address + (z * set->to.height + y) * set->to.pitch);
            for (size_t x = 0; x < set->extent.width; x++)
                memcpy(row + x * set->element, bytes, set->element);
        }
}

static void set_deferred(void *user, int status)
{
    if (!status)
        set_here(user);
    free(user);
}

static int set_pinned(struct client_stream *s, const struct op_set *set)
{
    int code;
    if (set->blocking) {
        if (!(code = stream_wait_for(s)) && !(code = mirror_synchronised()))
            set_here(set);
        return code;
    }
    struct op_set *deferred = malloc(sizeof *deferred);
    if (!deferred)
        return CORE_OUT_OF_MEMORY;
    *deferred = *set;
    if ((code = host_function_put(s, set_deferred, deferred, true, true)))
        free(deferred);
    return code;
}

int set_op(struct client_stream *s, const struct op *op)
{
    const struct op_set *set = &op->set;
    if (!set->reach)
        return set_pinned(s, set);
    set_args args = { .stream = s->wire, .to = wire_box(&set->to), .extent = wire_extent(&set->extent),
                      .value = set->value, .element = set->element };
    args.to.address = set->reach;
    bool whole = set->managed == set->extent.width * set->element * set->extent.height * set->extent.depth;
    managed_write_comes(set->managed);
    int code = set->managed ? managed_before_access(set->to.address, set->managed, true, whole) : CORE_OK;
    if (!code)
        code = stream_send(s, &(struct stream_call){ FLYT_SET, (xdrproc_t)xdr_set_args, .args = &args }, NULL);
    managed_work_sent(set->managed);
    /* asynchronous to the host only on device memory that the host does not see */
    return code || !(set->pinned || set->managed) || !set->blocking ? code : stream_wait_for(s);
}

int core_set(core_context *c, core_stream stream, const struct core_box *at, const struct core_extent *e,
             uint32_t value, unsigned element, bool blocking)
{
    CANCEL_DEFERRED;
    const struct core_box place = { mirror_host(at->address), at->pitch, at->height }, *to = &place;
    struct client_stream *s;
    struct copy_side side;
    struct core_extent in_bytes = *e;
    int code = client_stream_enter(c, stream, &s);
    if (code || !e->width || !e->height || !e->depth)
        return code;
    if ((element != 1 && element != 2 && element != 4) || to->address % element ||
        __builtin_mul_overflow(e->width, element, &in_bytes.width) || copy_side(s, to, &in_bytes, &side) ||
        (!side.reach && !side.pinned))
        return CORE_INVALID_VALUE;
    if (side.owner && side.owner->session != s->context->session)
        return set_across(s, side.owner, to, e, value, element);
    code = op_submit(s, &(struct op){ .kind = OP_SET, .set = { *to, *e, side.reach, value, element, side.pinned,
                                                               blocking, side.managed ? side.bytes : 0 } });
    if (!code && blocking && atomic_load_explicit(&address_any_synchronous, memory_order_relaxed) &&
        address_is_synchronous(to->address))
        code = stream_wait_for(s);
    return code;
}
