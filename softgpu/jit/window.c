/* window.c: the window of global memory (softgpu/memory.h) where a warp was last: what it holds, and where it moves. */
#include "softgpu/jit/access.h"

LLVMValueRef both(struct compiler *c, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildAnd(c->builder, a, b, "");
}

LLVMValueRef is_aligned(struct compiler *c, LLVMValueRef address, unsigned size)
{
    LLVMTypeRef type = LLVMTypeOf(address);
    LLVMValueRef odd = LLVMBuildAnd(c->builder, address, LLVMConstInt(type, size - 1, false), "");
    return LLVMBuildICmp(c->builder, LLVMIntEQ, odd, LLVMConstInt(type, 0, false), "");
}

LLVMValueRef in_window(struct compiler *c, struct window_place *p, unsigned bytes)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef window = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, near)), 8);
    LLVMValueRef base = load_from(c, c->i64, address_of(c, window, offsetof(struct sg_window, base)), 8);
    LLVMValueRef size = load_from(c, c->i64, address_of(c, window, offsetof(struct sg_window, size)), 8);
    p->rights = load_from(c, c->i64, address_of(c, window, offsetof(struct sg_window, rights)), 8);
    p->offset = LLVMBuildSub(b, p->low, base, "");
    LLVMValueRef begins = LLVMBuildICmp(b, LLVMIntULT, p->offset, size, "");
    LLVMValueRef left = LLVMBuildSub(b, size, p->offset, "");
    return both(c, begins, LLVMBuildICmp(b, LLVMIntUGE, left, constant_64(c, bytes), ""));
}

LLVMValueRef may_touch(struct compiler *c, const struct window_place *p, unsigned bytes, unsigned rights)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef shift = constant_64(c, SG_GRANULE_SHIFT);
    LLVMValueRef first = LLVMBuildLShr(b, p->offset, shift, "");
    LLVMValueRef last = LLVMBuildLShr(b, address_of(c, p->offset, bytes - 1), shift, "");
    LLVMValueRef has = LLVMBuildAnd(b, load_from(c, c->i8, LLVMBuildAdd(b, p->rights, first, ""), 1),
                                    load_from(c, c->i8, LLVMBuildAdd(b, p->rights, last, ""), 1), "");
    LLVMValueRef device = load_from(c, c->i32, address_of(c, c->warp, offsetof(struct exec_warp, granule_device)), 4);
    LLVMValueRef at = LLVMBuildShl(b, device, constant_32(c, 1), "");
    LLVMValueRef moved = LLVMBuildLShr(b, LLVMBuildZExt(b, has, c->i32, ""), at, "");
    LLVMValueRef wanted = constant_32(c, rights);
    return LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, moved, wanted, ""), wanted, "");
}

/* The machine moves the window to this place. */
static void move_window(struct compiler *c, LLVMValueRef place)
{
    LLVMTypeRef types[2] = { c->i64, c->i64 },
                type = LLVMFunctionType(LLVMVoidTypeInContext(c->context), types, 2, false);
    LLVMValueRef arguments[2] = { c->warp, place };
    call_machine(c, type, MACHINE(c->wish->near), arguments);
}

void go_on_inside(struct compiler *c, LLVMValueRef usual, struct window_place *p, unsigned count, unsigned bytes,
                  LLVMBasicBlockRef rare)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef from[2] = { LLVMGetInsertBlock(b), block_new(c, "outside") }, look = block_new(c, "look"),
                      found = block_new(c, "found"), missed = block_new(c, "missed");
    LLVMBuildBr(b, look);
    LLVMPositionBuilderAtEnd(b, look);
    LLVMValueRef first = LLVMBuildPhi(b, c->i1, ""), inside = in_window(c, &p[0], bytes);
    LLVMValueRef times[2] = { LLVMConstInt(c->i1, true, false), LLVMConstInt(c->i1, false, false) };
    LLVMAddIncoming(first, times, from, 2);
    if (count > 1)
        inside = both(c, inside, in_window(c, &p[1], bytes));
    branch_mostly(c, both(c, usual, inside), found, missed);
    LLVMPositionBuilderAtEnd(b, missed);
    LLVMBuildCondBr(b, both(c, usual, first), from[1], rare);
    LLVMPositionBuilderAtEnd(b, from[1]);
    move_window(c, p[0].low);
    LLVMBuildBr(b, look);
    LLVMPositionBuilderAtEnd(b, found);
}
