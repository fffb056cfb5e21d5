/* build.c: what all of the compiler builds instructions of LLVM with. See compile.h. */
#include "softgpu/jit/compile.h"

#include <string.h>

void set_width(struct compiler *c, unsigned width)
{
    c->width = width;
    c->row32 = LLVMVectorType(c->i32, width);
    c->row64 = LLVMVectorType(c->i64, width);
    c->floats = LLVMVectorType(LLVMFloatTypeInContext(c->context), width);
}

LLVMValueRef variable_new(struct compiler *c, LLVMTypeRef type, const char *name)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(c->builder), entry = LLVMGetEntryBasicBlock(c->function);
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first)
        LLVMPositionBuilderBefore(c->builder, first);
    else
        LLVMPositionBuilderAtEnd(c->builder, entry);
    LLVMValueRef variable = LLVMBuildAlloca(c->builder, type, name);
    LLVMPositionBuilderAtEnd(c->builder, here);
    return variable;
}

LLVMBasicBlockRef block_new(struct compiler *c, const char *name)
{
    return LLVMAppendBasicBlockInContext(c->context, c->function, name);
}

LLVMValueRef constant_32(const struct compiler *c, uint64_t value) { return LLVMConstInt(c->i32, value, false); }
LLVMValueRef constant_64(const struct compiler *c, uint64_t value) { return LLVMConstInt(c->i64, value, false); }

LLVMValueRef address_of(struct compiler *c, LLVMValueRef base, uint64_t offset)
{
    return LLVMBuildAdd(c->builder, base, constant_64(c, offset), "");
}

LLVMValueRef insn_address(struct compiler *c, uint32_t k)
{
    const int64_t apart = (int64_t)k - (int64_t)c->wish->head;
    return address_of(c, c->head, (uint64_t)apart * sizeof(struct exec_insn));
}

LLVMValueRef call_machine(struct compiler *c, LLVMTypeRef type, uintptr_t function, LLVMValueRef *arguments)
{
    LLVMValueRef apart = constant_64(c, function - (uintptr_t)c->wish->step),
                 at = LLVMConstIntToPtr(LLVMConstAdd(c->machine, apart), LLVMPointerType(type, 0));
    return LLVMBuildCall2(c->builder, type, at, arguments, LLVMCountParamTypes(type), "");
}

static LLVMValueRef pointer(struct compiler *c, LLVMTypeRef type, LLVMValueRef address)
{
    return LLVMBuildIntToPtr(c->builder, address, LLVMPointerType(type, 0), "");
}

LLVMValueRef load_from(struct compiler *c, LLVMTypeRef type, LLVMValueRef address, unsigned align)
{
    LLVMValueRef value = LLVMBuildLoad2(c->builder, type, pointer(c, type, address), "");
    LLVMSetAlignment(value, align);
    return value;
}

LLVMValueRef store_to(struct compiler *c, LLVMValueRef value, LLVMValueRef address, unsigned align)
{
    LLVMValueRef store = LLVMBuildStore(c->builder, value, pointer(c, LLVMTypeOf(value), address));
    LLVMSetAlignment(store, align);
    return store;
}

LLVMValueRef splat(struct compiler *c, LLVMValueRef value)
{
    LLVMTypeRef row = LLVMTypeOf(value) == c->i64 ? c->row64 : c->row32;
    if (LLVMIsConstant(value)) {
        LLVMValueRef values[SG_LANES];
        for (unsigned l = 0; l < c->width; l++)
            values[l] = value;
        return LLVMConstVector(values, c->width);
    }
    LLVMValueRef one = LLVMBuildInsertElement(c->builder, LLVMGetUndef(row), value, constant_32(c, 0), "");
    return LLVMBuildShuffleVector(c->builder, one, LLVMGetUndef(row), LLVMConstNull(c->row32), "");
}

void branch_mostly(struct compiler *c, LLVMValueRef condition, LLVMBasicBlockRef usual, LLVMBasicBlockRef rare)
{
    LLVMValueRef branch = LLVMBuildCondBr(c->builder, condition, usual, rare);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(c->context, "prof", strlen("prof")), c->rare);
}

void build_begin(struct compiler *c)
{
    c->machine = LLVMConstPtrToInt(LLVMAddGlobal(c->module, c->i8, MACHINE_SYMBOL), c->i64);
    LLVMValueRef weights[3] = { LLVMMDStringInContext(c->context, "branch_weights", strlen("branch_weights")),
                                constant_32(c, 2000), constant_32(c, 1) };
    c->rare = LLVMMDNodeInContext(c->context, weights, 3);
}

void note_read(struct compiler *c, const struct exec_insn *i)
{
    if (i->flags & EXEC_READS_SHARED)
        store_to(c, LLVMConstInt(c->i8, true, false), address_of(c, c->block, offsetof(struct exec_block, read)), 1);
}

void begin_some(struct compiler *c, LLVMValueRef lanes, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef some = block_new(c, "some"), all = block_new(c, "all");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, lanes, constant_32(c, 0), ""), behind, some);
    LLVMPositionBuilderAtEnd(b, some);
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, lanes, constant_32(c, UINT32_MAX), ""), all, rare);
    LLVMPositionBuilderAtEnd(b, all);
}

LLVMValueRef vectors_join(struct compiler *c, LLVMValueRef *parts, unsigned count)
{
    LLVMValueRef which[SG_LANES];
    for (; count > 1; count /= 2) {
        const unsigned each = LLVMGetVectorSize(LLVMTypeOf(parts[0]));
        for (unsigned k = 0; k < 2 * each; k++)
            which[k] = constant_32(c, k);
        for (unsigned k = 0; k < count / 2; k++)
            parts[k] = LLVMBuildShuffleVector(c->builder, parts[2 * k], parts[2 * k + 1],
                                              LLVMConstVector(which, 2 * each), "");
    }
    return parts[0];
}

LLVMValueRef vector_part(struct compiler *c, LLVMValueRef vector, unsigned first, unsigned count)
{
    LLVMValueRef which[SG_LANES];
    for (unsigned k = 0; k < count; k++)
        which[k] = constant_32(c, first + k);
    return LLVMBuildShuffleVector(c->builder, vector, LLVMGetUndef(LLVMTypeOf(vector)), LLVMConstVector(which, count),
                                  "");
}

enum { HALF = SG_LANES / 2 };

LLVMValueRef halves_of(struct compiler *c, LLVMValueRef low, LLVMValueRef high)
{
    LLVMValueRef which[SG_LANES];
    LLVMValueRef undefined = LLVMGetUndef(LLVMTypeOf(low) == c->i64 ? c->row64 : c->row32);
    LLVMValueRef two = LLVMBuildInsertElement(c->builder, undefined, low, constant_32(c, 0), "");
    two = LLVMBuildInsertElement(c->builder, two, high, constant_32(c, 1), "");
    for (unsigned l = 0; l < SG_LANES; l++)
        which[l] = constant_32(c, l >= HALF);
    return LLVMBuildShuffleVector(c->builder, two, undefined, LLVMConstVector(which, SG_LANES), "");
}

LLVMValueRef half_ramp(struct compiler *c, LLVMValueRef first, unsigned step)
{
    LLVMValueRef steps[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        steps[l] = LLVMConstInt(LLVMTypeOf(first) == c->row64 ? c->i64 : c->i32, l % HALF * step, false);
    return LLVMBuildAdd(c->builder, first, LLVMConstVector(steps, SG_LANES), "");
}

LLVMValueRef half_ramps(struct compiler *c, LLVMValueRef low, LLVMValueRef high, unsigned step)
{
    return half_ramp(c, halves_of(c, low, high), step);
}

LLVMValueRef halves_join(struct compiler *c, const LLVMValueRef *half)
{
    LLVMValueRef which[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        which[l] = constant_32(c, l);
    return LLVMBuildShuffleVector(c->builder, half[0], half[1], LLVMConstVector(which, SG_LANES), "");
}

LLVMValueRef masked(struct compiler *c, const char *name, LLVMTypeRef row, LLVMTypeRef result, LLVMValueRef *s)
{
    LLVMTypeRef overloaded[2] = { row, LLVMPointerType(row, 0) }, types[4];
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), overloaded, 2);
    for (unsigned k = 0; k < 4; k++)
        types[k] = LLVMTypeOf(s[k]);
    return LLVMBuildCall2(c->builder, LLVMFunctionType(result, types, 4, false), f, s, 4, "");
}

LLVMValueRef canonical(struct compiler *c, LLVMValueRef bits)
{
    LLVMValueRef x = LLVMBuildBitCast(c->builder, bits, c->floats, "");
    return LLVMBuildSelect(c->builder, LLVMBuildFCmp(c->builder, LLVMRealUNO, x, x, ""),
                           splat(c, constant_32(c, 0x7fffffff)), bits, "");
}
