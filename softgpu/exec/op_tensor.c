/*
 * op_tensor.c: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: boxes of tensors, from and to shared memory.
 *
 * The tensor map (softgpu/tensor.h) says how the tensor lies in global memory. A box is copied line by line along the
 * first dimension. What lies beyond the tensor's edges is read as zero, or as NaN, and not written. The copy is done at
 * once, as other bulk copies are (op_copy.c); all bytes of the box count at the mbarrier.
 *
 * Swizzling exchanges pieces of 16 bytes within a span of 32, 64 or 128 bytes, by the bits of the address above
 * bit 7. Where the box is narrower than the span, its lines are as far apart as spans.
 *
 * Follows: PTX ISA, "Tensors" and "cp.async.bulk.tensor"; CUDA driver API, "Tensor Map Object Management".
 */
#include "softgpu/check.h"
#include "softgpu/exec/access.h"
#include "softgpu/exec/check.h"
#include "softgpu/exec/decode.h"

#include <cuda.h>
#include <string.h>

#include "softgpu/memory.h"
#include "softgpu/tensor.h"

enum { PIECE = 16, ALIGN = 128, LINE_MOST = 256 * 8 };

struct tensor_copy {
    exec_source map, at[SG_TENSOR_RANK];
    unsigned rank;
    struct exec_insn shared, announce;    /* the addresses in shared memory */
    exec_source ranks;                    /* .multicast::cluster; 0: none */
    struct exec_insn reduce;
    bool to_shared, reduces;
};

/* One line of the box, as it goes from or to shared memory. */
struct line { uint64_t global, shared; uint32_t first, end; bool outside; };

static bool fault(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t at, int error,
                  const char *what)
{
    exec_fault_address(w, i, error, what, lane, at);
    return false;
}

static bool read_map(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t at, struct sg_tensor *t)
{
    const struct tensor_copy *c = i->extra;
    const void *p = at & 63 ? NULL : exec_address_lane(w, lane, at, sizeof *t, SG_READ);
    if (!p)
        return fault(w, i, lane, at, at & 63 ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                     "tensor map");
    exec_copy_bytes(t, p, sizeof *t);
    if (t->magic != SG_TENSOR_MAGIC || t->rank != c->rank || !sg_tensor_size(t->type))
        return fault(w, i, lane, at, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a tensor map of another kind or dimension");
    return true;
}

static uint64_t swizzled(const struct sg_tensor *t, uint64_t at)
{
    return at ^ (at >> 7 & ((1u << t->swizzle) - 1)) << 4;
}

/* Copies between a line's bytes and shared memory, piece by piece. */
static bool line_shared(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                        uint64_t shared, unsigned char *bytes, unsigned size, bool store)
{
    for (unsigned at = 0; at < size; at += PIECE) {
        void *p = exec_address_lane(w, lane, swizzled(t, shared + at), PIECE, store ? SG_WRITE : SG_READ);
        if (!p)
            return fault(w, i, lane, shared + at, CUDA_ERROR_ILLEGAL_ADDRESS, "shared memory of a tensor copy");
        if (store) {
            exec_store128(p, *(const exec_16_bytes *)(const void *)(bytes + at));
            if (sg_check)
                check_written(w, swizzled(t, shared + at), PIECE);
        } else
            *(exec_16_bytes *)(void *)(bytes + at) = exec_load128(p);
    }
    return true;
}

static void fill_line(const struct sg_tensor *t, unsigned char *bytes, unsigned size)
{
    memset(bytes, 0, size);
    unsigned each = sg_tensor_size(t->type);
    const uint64_t nan = t->type == SG_TENSOR_F64 ? UINT64_C(0x7ff8000000000000) : t->type == SG_TENSOR_F16 ? 0x7e00
                       : t->type == SG_TENSOR_BF16 ? 0x7fc0 : 0x7fc00000;
    for (unsigned at = 0; t->fill_nan && at < size; at += each)
        memcpy(bytes + at, &nan, each);
}

static void flush_line(const struct sg_tensor *t, unsigned char *bytes, unsigned size)
{
    if (t->type != SG_TENSOR_F32_FTZ && t->type != SG_TENSOR_TF32_FTZ)
        return;
    for (unsigned at = 0; at < size; at += 4) {
        uint32_t v;
        memcpy(&v, bytes + at, 4);
        v = v & 0x7f800000 ? v : v & 0x80000000;
        memcpy(bytes + at, &v, 4);
    }
}

static const uint8_t reduced_as[SG_TENSOR_TYPES] = {
    [SG_TENSOR_U32] = PTX_U32, [SG_TENSOR_S32] = PTX_S32, [SG_TENSOR_U64] = PTX_U64, [SG_TENSOR_S64] = PTX_S64,
    [SG_TENSOR_F16] = PTX_F16, [SG_TENSOR_F32] = PTX_F32, [SG_TENSOR_F64] = PTX_F64, [SG_TENSOR_BF16] = PTX_BF16,
    [SG_TENSOR_F32_FTZ] = PTX_F32
};

/* The line's elements [first, end) lie in the tensor; step: elements of the tensor between two of the line. */
static bool line_global(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                        const struct line *l, unsigned char *bytes)
{
    const struct tensor_copy *c = i->extra;
    unsigned each = sg_tensor_size(t->type), n = (l->end - l->first) * each;
    uint64_t at = l->global + (uint64_t)l->first * each;
    if (l->outside || l->first >= l->end)
        return true;
    unsigned rights = c->to_shared ? SG_READ : c->reduces ? SG_READ | SG_WRITE : SG_WRITE;
    unsigned char *p = at & EXEC_WINDOW_BIT ? NULL : exec_address_lane(w, lane, at, n, rights);
    unsigned char *mine = bytes + l->first * each;
    if (!p)
        return fault(w, i, lane, at, CUDA_ERROR_ILLEGAL_ADDRESS, "global memory of a tensor copy");
    if (c->reduces) {
        struct exec_insn reduce = c->reduce;
        reduce.type = reduced_as[t->type];
        reduce.size = (uint8_t)each;
        if (!exec_reduces(&reduce))
            return fault(w, i, lane, at, CUDA_ERROR_ILLEGAL_INSTRUCTION, "no such reduction of the tensor's type");
        exec_reduce(w, &reduce, p, mine, n);
    } else if (c->to_shared)
        exec_copy_bytes(mine, p, n);
    else {
        exec_copy_bytes(p, mine, n);
        if (sg_check)
            check_written(w, at, n);
    }
    return true;
}

static void line_find(const struct sg_tensor *t, const int32_t from[], const uint32_t index[], struct line *l)
{
    unsigned each = sg_tensor_size(t->type);
    l->outside = false;
    l->global = t->address + (uint64_t)((int64_t)from[0] * each);
    for (unsigned k = 1; k < t->rank; k++) {
        int64_t at = (int64_t)from[k] + (int64_t)index[k] * t->steps[k];
        l->outside |= at < 0 || at > (int64_t)t->last[k];
        l->global += (uint64_t)at * t->strides[k - 1];
    }
    int64_t first = from[0] < 0 ? -(int64_t)from[0] : 0, end = (int64_t)t->last[0] + 1 - from[0];
    l->first = first > t->box[0] ? t->box[0] : (uint32_t)first;
    l->end = end < 0 ? 0 : end > t->box[0] ? t->box[0] : (uint32_t)end;
}

/* Counts index up along dimensions 1 and higher; false: that was the last line. */
static bool line_next(const struct sg_tensor *t, uint32_t index[])
{
    for (unsigned k = 1; k < t->rank; k++) {
        if (++index[k] < t->box[k])
            return true;
        index[k] = 0;
    }
    return false;
}

/* The box at `from`, to or from `shared`. *bytes: how many it has. */
static bool copy_box(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                     const int32_t from[], uint64_t shared, uint64_t *bytes)
{
    const struct tensor_copy *c = i->extra;
    _Alignas(16) unsigned char line[LINE_MOST];
    unsigned size = t->box[0] * sg_tensor_size(t->type), pitch = t->swizzle ? (unsigned)PIECE << t->swizzle : size;
    uint32_t index[SG_TENSOR_RANK] = { 0 };
    struct line l;
    *bytes = 0;
    do {
        line_find(t, from, index, &l);
        if (c->to_shared) {
            fill_line(t, line, size);
            if (!line_global(w, i, lane, t, &l, line))
                return false;
            flush_line(t, line, size);
        }
        if (!line_shared(w, i, lane, t, shared, line, size, c->to_shared) ||
            (!c->to_shared && !line_global(w, i, lane, t, &l, line)))
            return false;
        shared += pitch;
        *bytes += size;
    } while (line_next(t, index));
    return true;
}

static bool copy_lane(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const struct tensor_copy *c = i->extra;
    struct sg_tensor t;
    int32_t from[SG_TENSOR_RANK];
    uint64_t shared = exec_generic_address(w, &c->shared, lane), bytes,
             announce = c->to_shared ? exec_generic_address(w, &c->announce, lane) : 0;
    if (!read_map(w, i, lane, ((const uint64_t *)exec_row(w, c->map))[lane], &t))
        return false;
    if (shared & (ALIGN - 1))
        return fault(w, i, lane, shared, CUDA_ERROR_MISALIGNED_ADDRESS, "shared memory of a tensor copy");
    for (unsigned k = 0; k < c->rank; k++)
        from[k] = (int32_t)((const uint32_t *)exec_row(w, c->at[k]))[lane];
    uint32_t ranks = c->ranks ? ((const uint32_t *)exec_row(w, c->ranks))[lane] & 0xffff : 1;
    for (; ranks; ranks &= ranks - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(ranks);
        if (!copy_box(w, i, lane, &t, from, c->ranks ? exec_shared_of_rank(shared, rank) : shared, &bytes))
            return false;
        if (c->to_shared && !exec_bytes_complete(w, &c->announce, lane,
                                                 c->ranks ? exec_shared_of_rank(announce, rank) : announce, bytes))
            return false;
    }
    return true;
}

static void run_tensor(struct exec_warp *w, const struct exec_insn *i)
{
    for (uint32_t m = w->mask; m; m &= m - 1)
        if (!copy_lane(w, i, (unsigned)__builtin_ctz(m)))
            return;
}

/* --- decoding --- */

/* [map, {coordinates}] */
static int decode_box(struct exec_decoder *d, const struct ptx_operand *o, struct tensor_copy *c)
{
    const struct ptx_operand *elements[SG_TENSOR_RANK];
    struct ptx_operand scratch[SG_TENSOR_RANK];
    if (o->kind != PTX_OP_LIST || !o->bracketed || o->element_count != 2 ||
        decode_elements(d, &o->elements[1], elements, scratch, SG_TENSOR_RANK) != c->rank)
        return decode_error(d, "a tensor map and %u coordinates are wanted", c->rank);
    if (decode_source(d, &o->elements[0], PTX_B64, &c->map))
        return -1;
    for (unsigned k = 0; k < c->rank; k++)
        if (decode_source(d, elements[k], PTX_B32, &c->at[k]))
            return -1;
    return 0;
}

int decode_tensor_copy(struct exec_decoder *d)
{
    static const char *const ranks[] = { "1d", "2d", "3d", "4d", "5d" };
    const struct ptx_instruction *in = d->in;
    struct tensor_copy *c = exec_kernel_own(d->kernel, sizeof *c);
    struct exec_insn n = { .run = run_tensor, .extra = c };
    if (!c)
        return decode_error(d, "no host memory");
    for (uint32_t k = 0; k < in->modifier_count; k++)
        if (!strncmp(in->modifiers[k], "im2col", 6) || !strncmp(in->modifiers[k], "tile::", 6))
            return decode_error(d, "only whole tiles are known");
    for (unsigned k = 0; k < SG_TENSOR_RANK; k++)
        if (decode_has(d, ranks[k]))
            c->rank = k + 1;
    c->to_shared = !decode_has(d, "bulk_group");
    c->reduces = !strcmp(in->modifiers[0], "reduce");
    c->shared.line = c->announce.line = in->line;
    if (!c->rank || in->operand_count < (c->to_shared ? 3 : 2))
        return decode_error(d, "operands");
    if (c->reduces && decode_reduction_kind(d, &c->reduce))
        return -1;
    if (decode_box(d, &in->operands[c->to_shared], c) ||
        decode_memory(d, &in->operands[!c->to_shared], PTX_SPACE_SHARED, &c->shared))
        return -1;
    if (c->to_shared && decode_memory(d, &in->operands[2], PTX_SPACE_SHARED, &c->announce))
        return -1;
    if (decode_has(d, "multicast::cluster") &&
        (in->operand_count < 4 || decode_source(d, &in->operands[3], PTX_B16, &c->ranks)))
        return decode_error(d, "no mask of blocks");
    return decode_put_guarded(d, n);
}
