/*
 * op_tensormap.c: tensormap.replace, which changes a field of a tensor map (softgpu/tensor.h) in memory, and
 * tensormap.cp_fenceproxy, which copies a map from shared to global memory. Kernels make the maps of grouped products
 * so, from one that the driver has written.
 *
 * Follows: PTX ISA, "tensormap.replace" (with its tables of values) and "tensormap.cp_fenceproxy".
 */
#include "softgpu/check.h"
#include "softgpu/exec/access.h"
#include "softgpu/exec/check.h"
#include "softgpu/exec/decode.h"

#include <cuda.h>
#include <stddef.h>
#include <string.h>

#include "softgpu/memory.h"
#include "softgpu/tensor.h"

enum { MAP = 128 };
enum field {
    GLOBAL_ADDRESS, RANK, BOX_DIM, GLOBAL_DIM, GLOBAL_STRIDE, ELEMENT_STRIDE, ELEMTYPE, INTERLEAVE_LAYOUT, SWIZZLE_MODE,
    SWIZZLE_ATOMICITY, FILL_MODE, FIELDS
};
static const struct { const char *name; bool ordered, constant; } fields[FIELDS] = {
    { "global_address", false, false },
    { "rank", false, false },
    { "box_dim", true, false },
    { "global_dim", true, false },
    { "global_stride", true, false },
    { "element_stride", true, false },
    { "elemtype", false, true },
    { "interleave_layout", false, true },
    { "swizzle_mode", false, true },
    { "swizzle_atomicity", false, true },
    { "fill_mode", false, true },
};
/* Values of elemtype. */
static const uint8_t types[] = { SG_TENSOR_U8, SG_TENSOR_U16, SG_TENSOR_U32, SG_TENSOR_S32, SG_TENSOR_U64,
                                 SG_TENSOR_S64, SG_TENSOR_F16, SG_TENSOR_F32, SG_TENSOR_F32_FTZ, SG_TENSOR_F64,
                                 SG_TENSOR_BF16, SG_TENSOR_TF32, SG_TENSOR_TF32_FTZ, SG_TENSOR_U4, SG_TENSOR_U4_WIDE,
                                 SG_TENSOR_U6_WIDE };

struct replace {
    enum field field;
    unsigned ordinal;
    bool pieces;                      /* a stride counts pieces of 16 bytes */
    exec_source value;                /* of 64 bits, or of 32 */
};

/* The 128 bytes of a lane's map; NULL: it has failed. */
static void *map_of(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t at, unsigned rights)
{
    void *p = at & (MAP - 1) ? NULL : exec_address_lane(w, lane, at, MAP, rights);
    if (!p)
        exec_fault_address(w, i, at & (MAP - 1) ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                           "tensor map", lane, at);
    return p;
}

/* Larger pieces exist only in spans of 128 bytes. The order in which a kernel replaces both fields is its own. */
static void set_swizzle(struct sg_tensor *t, const struct replace *x, uint64_t value)
{
    static const uint8_t by_pieces[] = { SG_TENSOR_SWIZZLE_128, SG_TENSOR_SWIZZLE_PIECES_32,
                                         SG_TENSOR_SWIZZLE_PIECES_32_FLIP, SG_TENSOR_SWIZZLE_PIECES_64 };
    if (x->field == SWIZZLE_MODE)
        t->swizzle_mode = (uint8_t)value;
    else
        t->swizzle_pieces = (uint8_t)value;
    t->swizzle = t->swizzle_mode == SG_TENSOR_SWIZZLE_128 ? by_pieces[t->swizzle_pieces & 3] : t->swizzle_mode;
}

static void set_field(struct sg_tensor *t, const struct replace *x, uint64_t value)
{
    switch (x->field) {
    case GLOBAL_ADDRESS: t->address = value; break;
    case RANK:           t->rank = (uint8_t)(value + 1); break;
    case BOX_DIM:        t->box[x->ordinal] = (uint16_t)value; break;
    case GLOBAL_DIM:     t->last[x->ordinal] = (uint32_t)value - 1; break;
    case GLOBAL_STRIDE:  t->strides[x->ordinal] = x->pieces ? value << 4 : value; break;
    case ELEMENT_STRIDE: t->steps[x->ordinal] = x->ordinal ? (uint8_t)value : 1; break;
    case ELEMTYPE:       t->type = types[value]; break;
    case SWIZZLE_MODE:
    case SWIZZLE_ATOMICITY: set_swizzle(t, x, value); break;
    case FILL_MODE:      t->fill_nan = value != 0; break;
    default:             break;       /* interleave_layout: only 0 is decoded */
    }
}

/* Bytes that are all zero are a map, too: kernels make one from nothing by clearing 128 bytes and replacing each field
   (Triton does). What other bytes that no driver wrote would be is not defined; here they are an error. */
static bool is_map(struct sg_tensor *t, const void *bytes)
{
    static const uint8_t zeros[MAP];
    if (t->magic == SG_TENSOR_MAGIC)
        return true;
    if (memcmp(bytes, zeros, MAP))
        return false;
    *t = (struct sg_tensor){
        .magic = SG_TENSOR_MAGIC, .rank = 1, .box = { 1, 1, 1, 1, 1 }, .steps = { 1, 1, 1, 1, 1 }
    };
    return true;
}

static void run_replace(struct exec_warp *w, const struct exec_insn *i)
{
    const struct replace *x = i->extra;
    const void *values = exec_row(w, x->value);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        uint64_t at = exec_generic_address(w, i, lane);
        union { struct sg_tensor map; uint8_t bytes[MAP]; } read;
        struct sg_tensor t;
        void *p = map_of(w, i, lane, at, SG_READ | SG_WRITE);
        if (!p)
            return;
        exec_copy_bytes(&read, p, MAP);
        t = read.map;
        if (!is_map(&t, read.bytes)) {
            exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_INSTRUCTION, "not a tensor map", lane, at);
            return;
        }
        set_field(&t, x, exec_lane(values, i->cell, lane));
        exec_copy_bytes(p, &t, sizeof t);
    }
}

/* All lanes name the same addresses. */
static void run_copy(struct exec_warp *w, const struct exec_insn *i)
{
    unsigned lane = (unsigned)__builtin_ctz(w->mask);
    uint64_t at = exec_generic_address(w, i, lane);
    const void *from = map_of(w, i, lane, exec_generic_address(w, i->extra, lane), SG_READ);
    void *to = from ? map_of(w, i, lane, at, SG_WRITE) : NULL;
    if (!to)
        return;
    exec_copy_bytes(to, from, MAP);
    if (sg_check)
        check_written(w, at, MAP);
}

/* --- decoding --- */

static int decode_copy_map(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct exec_insn n = { .run = run_copy }, *from = exec_kernel_own(d->kernel, sizeof *from);
    if (!from)
        return decode_error(d, "no host memory");
    n.extra = from;
    from->line = in->line;
    if (in->operand_count != 3 || in->operands[2].kind != PTX_OP_INTEGER || in->operands[2].integer != MAP)
        return decode_error(d, "128 bytes are copied");
    return decode_memory(d, &in->operands[0], PTX_SPACE_GLOBAL, &n) ||
                   decode_memory(d, &in->operands[1], PTX_SPACE_SHARED, from) || decode_converge(d) ||
                   decode_put_guarded(d, n)
               ? -1
               : 0;
}

/* The value of elemtype and its kin, a constant. */
static bool is_known(enum field field, int64_t value)
{
    return value >= 0 && value < (field == ELEMTYPE            ? (int64_t)sizeof types
                                  : field == INTERLEAVE_LAYOUT ? 1
                                  : field == FILL_MODE         ? 2
                                                               : 4);
}

static int decode_replace(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct replace *x = exec_kernel_own(d->kernel, sizeof *x);
    if (!x)
        return decode_error(d, "no host memory");
    struct exec_insn n = { .run = run_replace, .extra = x };
    for (x->field = 0; x->field < FIELDS && !decode_has(d, fields[x->field].name); x->field++)
        ;
    if (x->field == FIELDS || in->operand_count != (fields[x->field].ordered ? 3u : 2u))
        return decode_error(d, "unknown field, or operands");
    const struct ptx_operand *value = &in->operands[in->operand_count - 1];
    if (fields[x->field].ordered) {
        const struct ptx_operand *o = &in->operands[1];
        int64_t most = x->field == GLOBAL_STRIDE ? SG_TENSOR_RANK - 1 : SG_TENSOR_RANK;
        if (o->kind != PTX_OP_INTEGER || o->integer < 0 || o->integer >= most)
            return decode_error(d, "a dimension is wanted");
        x->ordinal = (unsigned)o->integer;
    }
    if (fields[x->field].constant && (value->kind != PTX_OP_INTEGER || !is_known(x->field, value->integer)))
        return decode_error(d, "this value is not implemented");
    bool wide = decode_has(d, "b64");
    n.cell = wide ? SG_CELL_64 : SG_CELL_32;
    /* the unit of strides changed with PTX 8.5 */
    x->pieces = d->module->version_major < 8 || (d->module->version_major == 8 && d->module->version_minor < 5);
    return decode_memory(d, &in->operands[0], decode_space(d, NULL), &n) ||
                   decode_source(d, value, wide ? PTX_B64 : PTX_B32, &x->value) || decode_put_guarded(d, n)
               ? -1
               : 0;
}

static int decode_tensormap(struct exec_decoder *d)
{
    return decode_has(d, "replace")          ? decode_replace(d)
           : decode_has(d, "cp_fenceproxy") ? decode_copy_map(d)
                                            : decode_error(d, "unknown operation");
}

const struct decode_entry decode_tensormap_table[] = { { "tensormap", decode_tensormap }, { NULL, NULL } };
