/*
 * functions.c: arithmetic that has no code of its own here: the compiled code calls the function of softgpu/alu that
 * the interpreter would call. So its results are the interpreter's, whatever the instruction is.
 *
 * The function reads rows of the frame, where those that the code keeps in registers are stored before, and writes one
 * of its own, from which the lanes that take part get their results.
 */
#include "softgpu/jit/arithmetic.h"

static unsigned writes_of(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_ALU ? i->kind : i->known == EXEC_STRAIGHT_COMPARE ? EXEC_ALU_P : EXEC_ALU_ROW;
}

static bool is_function(const struct exec_insn *i)
{
    return (i->known >= EXEC_STRAIGHT_ROWS_1 && i->known <= EXEC_STRAIGHT_COMPARE) || i->known == EXEC_STRAIGHT_ALU;
}

/* What the function writes to. */
enum { CALL_P, CALL_Q, CALL_CARRY };

void functions_begin(struct compiler *c)
{
    LLVMTypeRef rows = LLVMArrayType(c->i64, (sizeof(struct sg_rows) + 7) / 8), cells = LLVMArrayType(c->i32, 3);
    c->call_rows = variable_new(c, rows, "rows");
    c->call_result = variable_new(c, c->row64, "result");
    c->call_predicates = variable_new(c, cells, "predicates");
    LLVMSetAlignment(c->call_rows, _Alignof(struct sg_rows));
    LLVMSetAlignment(c->call_result, 64);
}

static LLVMValueRef address(struct compiler *c, LLVMValueRef variable, uint64_t offset)
{
    return address_of(c, LLVMBuildPtrToInt(c->builder, variable, c->i64, ""), offset);
}

static LLVMValueRef predicate(struct compiler *c, unsigned which)
{
    return address(c, c->call_predicates, which * sizeof(uint32_t));
}

static void set(struct compiler *c, size_t member, LLVMValueRef value)
{
    store_to(c, value, address(c, c->call_rows, member), LLVMTypeOf(value) == c->i64 ? 8 : 4);
}

static void set_operands(struct compiler *c, const struct exec_insn *i, unsigned writes)
{
    LLVMValueRef none = constant_64(c, 0);
    set(c, offsetof(struct sg_rows, d), writes & EXEC_ALU_ROW ? address(c, c->call_result, 0) : none);
    for (unsigned k = 0; k < i->source_count; k++)
        set(c, offsetof(struct sg_rows, s) + k * sizeof(void *), row_in_frame(c, i->s[k]));
    set(c, offsetof(struct sg_rows, p), predicate(c, CALL_P));
    set(c, offsetof(struct sg_rows, q), writes & EXEC_ALU_Q ? predicate(c, CALL_Q) : none);
    set(c, offsetof(struct sg_rows, carry), predicate(c, CALL_CARRY));
    set(c, offsetof(struct sg_rows, in), predicate_read(c, i->in, i->in_flip));
    set(c, offsetof(struct sg_rows, immediate), constant_64(c, (uint64_t)i->offset));
    if (writes & EXEC_ALU_CARRY)
        store_to(c, predicate_read(c, EXEC_PRED_CARRY, 0), predicate(c, CALL_CARRY), 4);
}

static void call(struct compiler *c, const struct exec_insn *i, unsigned writes)
{
    set_operands(c, i, writes);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->context), &c->i64, 1, false);
    LLVMValueRef rows = address(c, c->call_rows, 0);
    call_machine(c, type, MACHINE(i->alu), &rows);
}

static LLVMValueRef result(struct compiler *c, LLVMTypeRef type)
{
    return load_from(c, type, address(c, c->call_result, 0), 64);
}

LLVMValueRef function_row(struct compiler *c, const struct exec_insn *i, enum row_bits bits)
{
    call(c, i, EXEC_ALU_ROW);
    return result(c, bits == ROW_64 ? c->row64 : c->row32);
}

LLVMValueRef function_where(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMValueRef value)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef mask = LLVMBuildBitCast(b, lanes, c->i32, "");
    if (c->places)
        mask = LLVMBuildAnd(b, mask, active_lanes(c), "");
    LLVMBasicBlockRef usual = LLVMGetInsertBlock(b), rare = block_new(c, "rare"), behind = block_new(c, "behind");
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, mask, constant_32(c, 0), ""), behind, rare);
    LLVMPositionBuilderAtEnd(b, rare);
    call(c, i, EXEC_ALU_ROW);
    LLVMValueRef other = result(c, LLVMTypeOf(value));
    LLVMBuildBr(b, behind);
    LLVMPositionBuilderAtEnd(b, behind);
    LLVMValueRef phi = LLVMBuildPhi(b, LLVMTypeOf(value), "");
    LLVMAddIncoming(phi, &value, &usual, 1);
    LLVMAddIncoming(phi, &other, &rare, 1);
    return phi;
}

LLVMValueRef float_least(struct compiler *c, const struct exec_insn *i, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef size = LLVMBuildAnd(b, bits, splat(c, constant_32(c, 0x7fffffff)), ""),
                 least = splat(c, constant_32(c, 0x00800000));
    return function_where(c, i, LLVMBuildICmp(b, LLVMIntEQ, size, least, ""), bits);
}

bool emit_function(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    const enum row_bits bits = i->cell == SG_CELL_32 ? ROW_32 : i->cell == SG_CELL_64 ? ROW_64 : 0;
    if (!is_function(i))
        return false;
    const unsigned writes = writes_of(i), two = EXEC_ALU_P | EXEC_ALU_Q;
    const bool guarded = i->straight == EXEC_STRAIGHT_GUARDED;
    /* under a guard, the first of two predicates that are written may be the guard */
    if ((writes & EXEC_ALU_ROW && !bits) || (guarded && (writes & two) == two))
        return false;
    LLVMBasicBlockRef some = guarded ? block_new(c, "some") : NULL, behind = guarded ? block_new(c, "called") : NULL;
    if (guarded) {
        LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, lanes_that_act(c, i), constant_32(c, 0), ""), behind, some);
        LLVMPositionBuilderAtEnd(b, some);
    }
    call(c, i, writes);
    if (writes & EXEC_ALU_CARRY)
        row_put(c, i, EXEC_PRED_CARRY, ROW_PREDICATE, load_from(c, c->i32, predicate(c, CALL_CARRY), 4));
    if (writes & EXEC_ALU_ROW)
        row_put(c, i, i->d, bits, result(c, bits == ROW_64 ? c->row64 : c->row32));
    if (writes & EXEC_ALU_Q)
        row_put(c, i, i->q, ROW_PREDICATE, load_from(c, c->i32, predicate(c, CALL_Q), 4));
    if (writes & EXEC_ALU_P)
        row_put(c, i, i->p, ROW_PREDICATE, load_from(c, c->i32, predicate(c, CALL_P), 4));
    if (guarded) {
        LLVMBuildBr(b, behind);
        LLVMPositionBuilderAtEnd(b, behind);
    }
    return true;
}
