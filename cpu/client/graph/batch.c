/* batch.c: many copies with one call. */
#include "cpu/client/graph/batch.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/client/graph/capture.h"

/* One copy of a batch that has passed its checks. */
struct one {
    struct core_box to, from;
    struct core_extent extent;
    int order;
};

/* CUmemLocation: nowhere in particular, a device, the host or one of its NUMA nodes. */
static bool place_fits(const int hint[2])
{
    enum { DEVICE = 1, LAST = 4 };
    int count = 0;
    return hint[0] >= 0 && hint[0] <= LAST &&
           (hint[0] != DEVICE || (!core_device_count(&count) && hint[1] >= 0 && hint[1] < count));
}

static bool order_fits(int order, unsigned flags)
{
    return order >= BATCH_STREAM_ORDER && order <= BATCH_ANY_ORDER && flags <= 1; /* 1: prefer overlap, a hint */
}

/* What every call of a batch begins with. */
static int begin(core_stream stream, size_t count, const void *list, size_t *failed)
{
    if (failed)
        *failed = SIZE_MAX;
    return stream && stream != CORE_STREAM_LEGACY && count && list ? CORE_OK : CORE_INVALID_VALUE;
}

static int fail(int code, size_t at, size_t *failed)
{
    if (code && failed)
        *failed = at;
    return code;
}

/* ---- issuing ---- */

static int issue_line(core_context *context, core_stream stream, const struct one *one)
{
    return issue_copy(context, stream, (void *)(uintptr_t)one->to.address, (const void *)(uintptr_t)one->from.address,
                      one->extent.width, CORE_ANY_DIRECTION, false);
}

static int issue_one(core_context *context, core_stream stream, const struct one *one)
{
    if (one->extent.height == 1 && one->extent.depth == 1)
        return issue_line(context, stream, one);
    return issue_copy_box(context, stream, &one->to, &one->from, &one->extent, CORE_ANY_DIRECTION, false);
}

/* Bytes from the first of a side's to its last. */
static size_t reach(const struct core_box *box, const struct core_extent *extent)
{
    return ((extent->depth - 1) * box->height + extent->height - 1) * box->pitch + extent->width;
}

/* The call must have read the source when it returns. Pageable memory it always has; page-locked memory is copied
   first, so that the stream need not be waited for. *wait: the source is the device's, and it must. */
static int issue_during_call(core_context *context, core_stream stream, const struct one *one, bool *wait)
{
    struct core_range range = { .kind = CORE_UNKNOWN_MEMORY };
    core_array array;
    size_t at[3];
    bool in_array = core_array_at(one->from.address, &array, at);
    if (!in_array && !core_address_lookup(one->from.address, &range))
        return issue_one(context, stream, one);
    if (in_array || range.kind == CORE_DEVICE_MEMORY) {
        *wait = true;
        return issue_one(context, stream, one);
    }
    size_t size = reach(&one->from, &one->extent);
    void *copy = malloc(size);
    if (!copy)
        return CORE_OUT_OF_MEMORY;
    memcpy(copy, (const void *)(uintptr_t)one->from.address, size);
    struct one from_copy = *one;
    from_copy.from.address = (uint64_t)(uintptr_t)copy;
    int code = issue_one(context, stream, &from_copy);
    free(copy);
    return code;
}

/* A node of a graph reads its source when the graph is launched, whatever the order says. */
static int issue_all(core_context *context, core_stream stream, const struct one *list, size_t count, size_t *failed)
{
    bool wait = false;
    for (size_t i = 0; i < count; i++) {
        int code = list[i].order == BATCH_DURING_CALL && !issue_is_captured(context, stream)
                       ? issue_during_call(context, stream, &list[i], &wait)
                       : issue_one(context, stream, &list[i]);
        if (code)
            return fail(code, i, failed);
    }
    return wait ? core_stream_synchronize(context, stream) : CORE_OK;
}

/* ---- lines ---- */

static int check_attributes(const struct batch *b)
{
    if (!b->attributes || !b->firsts || !b->attribute_count || b->attribute_count > b->count || b->firsts[0])
        return CORE_INVALID_VALUE;
    for (size_t k = 0; k < b->attribute_count; k++)
        if (!order_fits(b->attributes[k].order, b->attributes[k].flags) || !place_fits(b->attributes[k].from_hint) ||
            !place_fits(b->attributes[k].to_hint) || b->firsts[k] >= b->count ||
            (k && b->firsts[k] <= b->firsts[k - 1]))
            return CORE_INVALID_VALUE;
    return CORE_OK;
}

int issue_batch(core_context *context, core_stream stream, const struct batch *b, size_t *failed)
{
    int code = begin(stream, b->count, b->to, failed);
    if (!code)
        code = b->from && b->sizes ? check_attributes(b) : CORE_INVALID_VALUE;
    if (code)
        return code;
    struct one *list = calloc(b->count, sizeof *list);
    if (!list)
        return CORE_OUT_OF_MEMORY;
    for (size_t i = 0, k = 0; i < b->count && !code; i++) {
        while (k + 1 < b->attribute_count && b->firsts[k + 1] <= i)
            k++;
        list[i] = (struct one){ .to = { b->to[i], b->sizes[i], 1 },
                                .from = { b->from[i], b->sizes[i], 1 },
                                .extent = { b->sizes[i], 1, 1 },
                                .order = b->attributes[k].order };
        code = fail(b->to[i] && b->from[i] && b->sizes[i] ? CORE_OK : CORE_INVALID_VALUE, i, failed);
    }
    if (!code)
        code = issue_all(context, stream, list, b->count, failed);
    free(list);
    return code;
}

/* ---- boxes ---- */

enum { OPERAND_MEMORY = 1, OPERAND_ARRAY = 2 };

/* Bytes of an element of the operand; 0: it is memory. */
static int element_of(const struct batch_operand *operand, unsigned *size)
{
    struct core_array_shape shape;
    *size = 0;
    if (operand->type == OPERAND_MEMORY)
        return operand->memory.address ? CORE_OK : CORE_INVALID_VALUE;
    if (operand->type != OPERAND_ARRAY)
        return CORE_INVALID_VALUE;
    int code = core_array_shape(operand->array.array, &shape);
    *size = shape.texel;
    return code;
}

static int box_of(const struct batch_operand *operand, unsigned element, const size_t extent[3],
                  const struct core_extent *bytes, struct core_box *box)
{
    if (operand->type == OPERAND_ARRAY) {
        size_t at[3] = { 0, operand->array.at[1], operand->array.at[2] };
        if (__builtin_mul_overflow(operand->array.at[0], element, &at[0]))
            return CORE_INVALID_VALUE;
        return core_array_box(operand->array.array, at, bytes, box);
    }
    size_t row = operand->memory.row ? operand->memory.row : extent[0],
           rows = operand->memory.rows ? operand->memory.rows : extent[1], pitch, slice, all;
    if (row < extent[0] || rows < extent[1] || __builtin_mul_overflow(row, element, &pitch) ||
        __builtin_mul_overflow(pitch, rows, &slice) || __builtin_mul_overflow(slice, extent[2], &all) ||
        __builtin_add_overflow(all, operand->memory.address, &all))
        return CORE_INVALID_VALUE;
    *box = (struct core_box){ operand->memory.address, pitch, rows };
    return CORE_OK;
}

static int check_box(const struct batch_box *op, struct one *one)
{
    unsigned from, to;
    if (!order_fits(op->order, op->flags) || !op->extent[0] || !op->extent[1] || !op->extent[2])
        return CORE_INVALID_VALUE;
    int code = element_of(&op->from, &from);
    if (!code)
        code = element_of(&op->to, &to);
    if (code)
        return code;
    unsigned element = from ? from : to ? to : 1;
    size_t width;
    if ((from && to && from != to) || __builtin_mul_overflow(op->extent[0], element, &width))
        return CORE_INVALID_VALUE;
    one->extent = (struct core_extent){ width, op->extent[1], op->extent[2] };
    one->order = op->order;
    code = box_of(&op->to, element, op->extent, &one->extent, &one->to);
    return code ? code : box_of(&op->from, element, op->extent, &one->extent, &one->from);
}

int issue_batch_boxes(core_context *context, core_stream stream, const struct batch_box *ops, size_t count,
                      size_t *failed)
{
    int code = begin(stream, count, ops, failed);
    if (code)
        return code;
    struct one *list = calloc(count, sizeof *list);
    if (!list)
        return CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !code; i++)
        code = fail(check_box(&ops[i], &list[i]), i, failed);
    if (!code)
        code = issue_all(context, stream, list, count, failed);
    free(list);
    return code;
}
