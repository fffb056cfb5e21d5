/*
 * atomics.c: atomic operations, lane by lane. Those on shared memory of the block need no atomic instruction of the
 * processor: one host thread at a time runs all that can reach that memory. Those on global memory are atomic
 * instructions, or loops around a compare-and-swap, as in op_atomic.c. A generic address is taken for one of global
 * memory. What the interpreter does with addresses elsewhere, with floats other than sums of f32 (and of f64 in global
 * memory), and with fences, it does here, too.
 */
#include "softgpu/exec/atomic.h"
#include "softgpu/jit/compile.h"

static LLVMTypeRef type_of(const struct compiler *c, const struct exec_insn *i)
{
    return i->size == 8 ? c->i64 : c->i32;
}

static bool is_global(const struct exec_insn *i) { return i->space != PTX_SPACE_SHARED; }

/* Of f32: a zero of its sign in place of a subnormal. */
static LLVMValueRef flushed(struct compiler *c, LLVMValueRef x)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef exponent = LLVMBuildAnd(b, x, constant_32(c, 0x7f800000), ""),
                 none = LLVMBuildICmp(b, LLVMIntEQ, exponent, constant_32(c, 0), "");
    return LLVMBuildSelect(b, none, LLVMBuildAnd(b, x, constant_32(c, 0x80000000), ""), x, "");
}

static LLVMValueRef is_nan(struct compiler *c, LLVMValueRef x)
{
    return LLVMBuildFCmp(c->builder, LLVMRealUNO, x, x, "");
}

/* Any NaN is 0x7fffffff. Global memory flushes subnormals, shared memory does not. */
static LLVMValueRef float_sum(struct compiler *c, const struct exec_insn *i, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef type = LLVMFloatTypeInContext(c->context);
    if (is_global(i)) {
        x = flushed(c, x);
        y = flushed(c, y);
    }
    LLVMValueRef sum = LLVMBuildFAdd(b, LLVMBuildBitCast(b, x, type, ""), LLVMBuildBitCast(b, y, type, ""), ""),
                 bits = LLVMBuildBitCast(b, sum, c->i32, "");
    return LLVMBuildSelect(b, is_nan(c, sum), constant_32(c, 0x7fffffff), is_global(i) ? flushed(c, bits) : bits, "");
}

/* In global memory, which passes a NaN on as it is, the operand's first. */
static LLVMValueRef double_sum(struct compiler *c, LLVMValueRef old, LLVMValueRef operand)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef type = LLVMDoubleTypeInContext(c->context);
    LLVMValueRef x = LLVMBuildBitCast(b, old, type, ""), y = LLVMBuildBitCast(b, operand, type, ""),
                 sum = LLVMBuildBitCast(b, LLVMBuildFAdd(b, x, y, ""), c->i64, "");
    return LLVMBuildSelect(b, is_nan(c, y), operand, LLVMBuildSelect(b, is_nan(c, x), old, sum, ""), "");
}

static LLVMValueRef lesser(struct compiler *c, const struct exec_insn *i, LLVMValueRef old, LLVMValueRef x)
{
    const bool sign = i->type >= PTX_S8 && i->type <= PTX_S64;
    return LLVMBuildICmp(c->builder, sign ? LLVMIntSLT : LLVMIntULT, old, x, "");
}

/* What memory holds afterwards. */
static LLVMValueRef combined(struct compiler *c, const struct exec_insn *i, LLVMValueRef old, LLVMValueRef x,
                             LLVMValueRef y)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef zero = LLVMConstInt(type_of(c, i), 0, false), one = LLVMConstInt(type_of(c, i), 1, false);
    switch (i->kind) {
    case EXEC_ATOMIC_ADD:
        return i->type == PTX_F32   ? float_sum(c, i, old, x)
               : i->type == PTX_F64 ? double_sum(c, old, x)
                                    : LLVMBuildAdd(b, old, x, "");
    case EXEC_ATOMIC_AND:  return LLVMBuildAnd(b, old, x, "");
    case EXEC_ATOMIC_OR:   return LLVMBuildOr(b, old, x, "");
    case EXEC_ATOMIC_XOR:  return LLVMBuildXor(b, old, x, "");
    case EXEC_ATOMIC_EXCH: return x;
    case EXEC_ATOMIC_CAS:  return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntEQ, old, x, ""), y, old, "");
    case EXEC_ATOMIC_INC:
        return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGE, old, x, ""), zero, LLVMBuildAdd(b, old, one, ""), "");
    case EXEC_ATOMIC_DEC: {
        LLVMValueRef round = LLVMBuildOr(b, LLVMBuildICmp(b, LLVMIntEQ, old, zero, ""),
                                         LLVMBuildICmp(b, LLVMIntUGT, old, x, ""), "");
        return LLVMBuildSelect(b, round, x, LLVMBuildSub(b, old, one, ""), "");
    }
    case EXEC_ATOMIC_MIN: return LLVMBuildSelect(b, lesser(c, i, old, x), old, x, "");
    default:              return LLVMBuildSelect(b, lesser(c, i, old, x), x, old, "");
    }
}

/* The cells of lane_cells are the operands, those of lane_vectors what is to be stored if they are equal (cas), and
   what was there before. */
enum { OTHERS = 0, RESULTS = SG_LANES * 8 };

static LLVMValueRef cell(struct compiler *c, const struct exec_insn *i, LLVMValueRef lane, uint64_t part)
{
    return address_of(c, lanes_cell(c, c->lane_vectors, lane, i->size), part);
}

static LLVMValueRef act_shared(struct compiler *c, const struct exec_insn *i, LLVMValueRef at, LLVMValueRef x,
                               LLVMValueRef y)
{
    LLVMValueRef old = load_from(c, type_of(c, i), at, i->size);
    LLVMSetVolatile(old, true);
    LLVMSetVolatile(store_to(c, combined(c, i, old, x, y), at, i->size), true);
    return old;
}

static LLVMValueRef swap(struct compiler *c, LLVMValueRef at, LLVMValueRef expected, LLVMValueRef desired)
{
    return LLVMBuildAtomicCmpXchg(c->builder, at, expected, desired, LLVMAtomicOrderingAcquireRelease,
                                  LLVMAtomicOrderingAcquire, false);
}

/* Until nobody else has changed it meanwhile. */
static LLVMValueRef act_in_loop(struct compiler *c, const struct exec_insn *i, LLVMValueRef address, LLVMValueRef at,
                                LLVMValueRef x)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef first = load_from(c, type_of(c, i), address, i->size);
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = block_new(c, "again"), done = block_new(c, "done");
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef old = LLVMBuildPhi(b, type_of(c, i), ""), result = swap(c, at, old, combined(c, i, old, x, NULL)),
                 seen = LLVMBuildExtractValue(b, result, 0, "");
    LLVMAddIncoming(old, &first, &from, 1);
    LLVMAddIncoming(old, &seen, &loop, 1);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, result, 1, ""), done, loop);
    LLVMPositionBuilderAtEnd(b, done);
    return old;
}

static LLVMValueRef act_global(struct compiler *c, const struct exec_insn *i, LLVMValueRef address, LLVMValueRef x,
                               LLVMValueRef y)
{
    static const LLVMAtomicRMWBinOp operations[] = {
        [EXEC_ATOMIC_ADD] = LLVMAtomicRMWBinOpAdd, [EXEC_ATOMIC_AND] = LLVMAtomicRMWBinOpAnd,
        [EXEC_ATOMIC_OR] = LLVMAtomicRMWBinOpOr, [EXEC_ATOMIC_XOR] = LLVMAtomicRMWBinOpXor,
        [EXEC_ATOMIC_EXCH] = LLVMAtomicRMWBinOpXchg
    };
    LLVMValueRef at = LLVMBuildIntToPtr(c->builder, address, LLVMPointerType(type_of(c, i), 0), "");
    const bool real = i->type >= PTX_F16 && i->type <= PTX_F64;
    if (i->kind == EXEC_ATOMIC_CAS)
        return LLVMBuildExtractValue(c->builder, swap(c, at, x, y), 0, "");
    if (real || i->kind > EXEC_ATOMIC_EXCH)
        return act_in_loop(c, i, address, at, x);
    return LLVMBuildAtomicRMW(c->builder, operations[i->kind], at, x, LLVMAtomicOrderingAcquireRelease, false);
}

static void act(struct compiler *c, const struct exec_insn *i, LLVMValueRef lane)
{
    LLVMTypeRef type = type_of(c, i);
    LLVMValueRef at = load_from(c, c->i64, lanes_cell(c, c->lane_places, lane, 8), 8),
                 x = load_from(c, type, lanes_cell(c, c->lane_cells, lane, i->size), i->size),
                 y = i->kind == EXEC_ATOMIC_CAS ? load_from(c, type, cell(c, i, lane, OTHERS), i->size) : NULL,
                 old = (is_global(i) ? act_global : act_shared)(c, i, at, x, y);
    if (i->d != UINT32_MAX)
        store_to(c, old, cell(c, i, lane, RESULTS), i->size);
}

/* As op_atomic.c has it. */
static void take_budget(struct compiler *c, const struct exec_insn *i)
{
    const bool poll = i->kind == EXEC_ATOMIC_CAS || i->kind == EXEC_ATOMIC_EXCH;
    LLVMValueRef at = address_of(c, c->warp, offsetof(struct exec_warp, budget)), left = load_from(c, c->i32, at, 4),
                 cost = constant_32(c, poll ? EXEC_ATOMIC_POLL_COST : EXEC_ATOMIC_COST);
    store_to(c, LLVMBuildSub(c->builder, left, cost, ""), at, 4);
    if (poll)
        store_to(c, LLVMConstInt(c->i8, true, false), address_of(c, c->warp, offsetof(struct exec_warp, polled)), 1);
}

bool emit_atomic(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    if (!atomic_is_known(i))
        return false;
    const enum row_bits bits = i->size == 8 ? ROW_64 : ROW_32;
    LLVMTypeRef row = i->size == 8 ? c->row64 : c->row32;
    LLVMBasicBlockRef step = block_new(c, "step"), some = block_new(c, "some"), behind = block_new(c, "behind");
    LLVMValueRef lanes = lanes_that_act(c, i), vectors = lanes_variable(c, c->lane_vectors);
    if (!lanes)
        lanes = constant_32(c, UINT32_MAX);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, lanes, constant_32(c, 0), ""), behind, some);
    LLVMPositionBuilderAtEnd(b, some);
    if (is_global(i))
        lanes_find_global(c, i, lanes, SG_READ | SG_WRITE, step);
    else
        lanes_find_shared(c, i, lanes, step);
    store_to(c, row_read(c, i->s[1], bits), lanes_variable(c, c->lane_cells), 64);
    if (i->kind == EXEC_ATOMIC_CAS)
        store_to(c, row_read(c, i->s[2], bits), address_of(c, vectors, OTHERS), 64);
    if (i->d != UINT32_MAX) /* lanes that take no part keep what they have */
        store_to(c, row_read(c, i->d | EXEC_BASE_FRAME, bits), address_of(c, vectors, RESULTS), 64);
    lanes_each(c, lanes, act, i);
    if (i->d != UINT32_MAX)
        row_write(c, i->d, bits, load_from(c, row, address_of(c, vectors, RESULTS), 64));
    take_budget(c, i);
    rows_step_apart(c, i, step, behind);
    return true;
}
