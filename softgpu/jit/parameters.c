/*
 * parameters.c: loads from parameters of the kernel at an address in a register, as of arrays in them. Nobody writes
 * parameters, and all lanes mostly want the same: it is loaded once. Where lanes want different ones, or something
 * else, the interpreter does it.
 */
#include "softgpu/exec/fused.h"
#include "softgpu/jit/access.h"

/* Where the parameters are, and how many bytes of them there are. */
struct parameters { LLVMValueRef begin, size; };

static struct parameters parameters_of(struct compiler *c)
{
    LLVMValueRef grid = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, grid)), 8);
    return (struct parameters){ load_from(c, c->i64, address_of(c, grid, offsetof(struct sg_grid, params)), 8),
                                load_from(c, c->i64, address_of(c, grid, offsetof(struct sg_grid, params_size)), 8) };
}

/* The address that all these lanes have. Goes on in `rare` if they have several. lanes: there are some; NULL: all. */
static LLVMValueRef address_of_all(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes,
                                   LLVMBasicBlockRef rare)
{
    LLVMBuilderRef b = c->builder;
    const struct row_shape shape = shape_of(c, i->s[0], ROW_64);
    if (shape.kind == SHAPE_STEPS && !shape.step)
        return row_first_lane(c, i->s[0], ROW_64);
    LLVMValueRef row = row_read(c, i->s[0], ROW_64), lane = lanes ? lanes_first(c, lanes) : constant_32(c, 0),
                 one = LLVMBuildExtractElement(b, row, lane, ""),
                 others = LLVMBuildICmp(b, LLVMIntNE, row, splat(c, one), "");
    others = LLVMBuildBitCast(b, others, c->i32, "");
    if (lanes)
        others = LLVMBuildAnd(b, others, lanes, "");
    LLVMBasicBlockRef same = block_new(c, "same");
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, others, constant_32(c, 0), ""), same, rare);
    LLVMPositionBuilderAtEnd(b, same);
    return one;
}

/* Where it is in this process. Goes on in `rare` if it is no parameter, or not aligned. */
static LLVMValueRef find_parameter(struct compiler *c, LLVMValueRef address, unsigned bytes, LLVMBasicBlockRef rare)
{
    LLVMBuilderRef b = c->builder;
    const struct parameters p = parameters_of(c);
    LLVMValueRef offset = LLVMBuildSub(b, address, constant_64(c, EXEC_WINDOW_BASE(EXEC_WINDOW_PARAM)), ""),
                 begins = LLVMBuildICmp(b, LLVMIntULT, offset, p.size, ""),
                 left = LLVMBuildSub(b, p.size, offset, ""),
                 fits = LLVMBuildICmp(b, LLVMIntUGE, left, constant_64(c, bytes), "");
    LLVMBasicBlockRef found = block_new(c, "parameter");
    branch_mostly(c, both(c, is_aligned(c, address, bytes), both(c, begins, fits)), found, rare);
    LLVMPositionBuilderAtEnd(b, found);
    return LLVMBuildAdd(b, p.begin, offset, "");
}

static void put_element(struct compiler *c, const struct exec_insn *i, uint32_t d, LLVMValueRef at)
{
    LLVMValueRef value = widened(c, i, load_from(c, LLVMIntTypeInContext(c->context, 8u * i->size), at, 1));
    row_put(c, i, d, i->size == 8 ? ROW_64 : ROW_32, splat(c, value));
}

bool emit_parameter(struct compiler *c, const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    const bool vector = exec_is_global_vector(i);
    if (!(i->flags & EXEC_PARAMETERS) || access_is_store(i) || (!access_bits(i) && !vector))
        return false;
    LLVMBasicBlockRef step = block_new(c, "step"), behind = block_new(c, "loaded");
    LLVMValueRef lanes = lanes_or_behind(c, i, behind);
    LLVMValueRef address = address_of(c, address_of_all(c, i, lanes, step), (uint64_t)i->offset),
                 at = find_parameter(c, address, i->size * i->vector, step);
    for (unsigned k = 0; k < i->vector; k++)
        if (!vector || !v->sink[k])
            put_element(c, i, vector ? v->to[k] : i->d, address_of(c, at, k * i->size));
    rows_step_apart(c, i, step, behind);
    return true;
}
