/* set.c: memset. */
#include <stdlib.h>
#include <string.h>

#include "copy_calls.h"
#include "copy_engine.h"
#include "cpu/common/cancel.h"
#include "host_function.h"

/* Pinned memory that the device does not reach. */
struct set {
    struct core_box to;
    struct core_extent extent;
    uint32_t value;
    unsigned element;
};

static void set_here(const struct set *set)
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

static int set_pinned(struct stream *s, const struct set *set, bool blocking)
{
    int code;
    if (blocking) {
        if (!(code = stream_wait_for(s)))
            set_here(set);
        return code;
    }
    struct set *late = malloc(sizeof *late);
    if (!late)
        return CORE_OUT_OF_MEMORY;
    *late = *set;
    if ((code = host_function_put(s, set_deferred, late, true, true)))
        free(late);
    return code;
}

int core_set(core_context *c, core_stream stream, const struct core_box *to, const struct core_extent *e,
             uint32_t value, unsigned element, bool blocking)
{
    CANCEL_DEFERRED;
    struct stream *s;
    struct copy_side side;
    struct core_extent in_bytes = *e;
    int code = stream_enter(c, stream, &s);
    if (code || !e->width || !e->height || !e->depth)
        return code;
    if ((element != 1 && element != 2 && element != 4) || to->address % element ||
        __builtin_mul_overflow(e->width, element, &in_bytes.width) || copy_side(s, to, &in_bytes, &side))
        return CORE_INVALID_VALUE;
    if (!side.reach)
        return side.pinned ? set_pinned(s, &(struct set){ *to, *e, value, element }, blocking) : CORE_INVALID_VALUE;
    set_args args = {
        .stream = s->wire, .to = wire_box(to), .extent = wire_extent(e), .value = value, .element = element
    };
    args.to.address = side.reach;
    code = stream_send(s, &(struct stream_call){ FLYT_SET, (xdrproc_t)xdr_set_args, .args = &args }, NULL);
    /* asynchronous to the host only on device memory */
    return code || !side.pinned || !blocking ? code : stream_wait_for(s);
}
