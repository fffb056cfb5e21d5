/* fixed.c: loads of shared memory at an address that the instruction names: all lanes get one element. */
#include "softgpu/jit/access.h"

/* Elements as wide as their registers. Others are rare. */
static bool is_known(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_LOAD && i->space == PTX_SPACE_SHARED && i->flags & EXEC_ADDRESS_UNIFORM &&
           !(i->flags & (EXEC_ADDRESS_FRAME | EXEC_POLL)) && i->order == EXEC_RELAXED && i->vector == 1 &&
           (i->size == 4 || i->size == 8) && i->kind == i->size && i->offset >= 0 &&
           i->offset < (int64_t)EXEC_SHARED_OFFSET && i->offset % i->size == 0;
}

bool emit_fixed(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    if (!is_known(i))
        return false;
    LLVMBasicBlockRef step = block_new(c, "step"), behind = block_new(c, "loaded"), right = block_new(c, "right");
    lanes_or_behind(c, i, behind);
    LLVMValueRef offset = constant_64(c, (uint64_t)i->offset);
    branch_mostly(c, fits_shared(c, offset, i->size), right, step);
    LLVMPositionBuilderAtEnd(b, right);
    LLVMValueRef base = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared)), 8),
                 value = load_from(c, i->size == 8 ? c->i64 : c->i32, LLVMBuildAdd(b, base, offset, ""), i->size);
    LLVMSetVolatile(value, true);
    row_put(c, i, i->d, i->size == 8 ? ROW_64 : ROW_32, splat(c, value));
    note_read(c, i);
    rows_step_apart(c, i, step, behind);
    return true;
}
