/*
 * arithmetic.c: what arithmetic becomes: the same operations as in straight.c, of 32 lanes at once. Nothing is fast
 * math: results are those of the interpreter, bit for bit.
 */
#include "softgpu/jit/arithmetic.h"

#include <string.h>

/* ---- f32 ---- */

LLVMValueRef splat_32(struct compiler *c, uint32_t value) { return splat(c, constant_32(c, value)); }
LLVMValueRef splat_64(struct compiler *c, uint64_t value) { return splat(c, constant_64(c, value)); }

LLVMValueRef call_intrinsic(struct compiler *c, const char *name, LLVMTypeRef type, LLVMValueRef *s, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, id, &type, 1);
    LLVMTypeRef types[3];
    for (unsigned k = 0; k < n; k++)
        types[k] = LLVMTypeOf(s[k]);
    return LLVMBuildCall2(c->builder, LLVMFunctionType(type, types, n, false), f, s, n, "");
}

/* Subnormals become zeros of their sign. */
static LLVMValueRef flush(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef exponent = LLVMBuildAnd(b, bits, splat_32(c, 0x7f800000), "");
    LLVMValueRef stays = LLVMBuildICmp(b, LLVMIntNE, exponent, splat_32(c, 0), "");
    return LLVMBuildSelect(b, stays, bits, LLVMBuildAnd(b, bits, splat_32(c, 0x80000000), ""), "");
}

static LLVMValueRef to_float(struct compiler *c, LLVMValueRef bits, bool ftz)
{
    return LLVMBuildBitCast(c->builder, ftz ? flush(c, bits) : bits, c->floats, "");
}

static LLVMValueRef is_nan(struct compiler *c, LLVMValueRef bits)
{
    LLVMValueRef x = LLVMBuildBitCast(c->builder, bits, c->floats, "");
    return LLVMBuildFCmp(c->builder, LLVMRealUNO, x, x, "");
}

/* Any NaN is 0x7fffffff; in a run, where something needs it. */
static LLVMValueRef from_float(struct compiler *c, LLVMValueRef x, bool ftz)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef bits = LLVMBuildBitCast(b, x, c->row32, "");
    if (ftz)
        bits = flush(c, bits);
    c->raw = c->width < SG_LANES;
    return c->raw ? bits : canonical(c, bits);
}

static LLVMValueRef float_operation(struct compiler *c, uint8_t operation, LLVMValueRef *s, bool ftz)
{
    LLVMValueRef x[3];
    for (unsigned k = 0; k < 3; k++)
        x[k] = s[k] ? to_float(c, s[k], ftz) : NULL;
    LLVMValueRef result = operation == EXEC_STRAIGHT_ADD_F32   ? LLVMBuildFAdd(c->builder, x[0], x[1], "")
                          : operation == EXEC_STRAIGHT_SUB_F32 ? LLVMBuildFSub(c->builder, x[0], x[1], "")
                          : operation == EXEC_STRAIGHT_MUL_F32 ? LLVMBuildFMul(c->builder, x[0], x[1], "")
                                                               : call_intrinsic(c, "llvm.fma", c->floats, x, 3);
    return from_float(c, result, ftz);
}

static LLVMValueRef square_root(struct compiler *c, LLVMValueRef x)
{
    return call_intrinsic(c, "llvm.sqrt", c->floats, &x, 1);
}

/* A quotient that is the least normal number may have been rounded up to it: then the function knows better. */
static LLVMValueRef flushed_quotient(struct compiler *c, const struct exec_insn *i, LLVMValueRef quotient)
{
    LLVMValueRef size = LLVMBuildAnd(c->builder, quotient, splat_32(c, 0x7fffffff), "");
    return function_where(c, i, LLVMBuildICmp(c->builder, LLVMIntEQ, size, splat_32(c, 0x00800000), ""), quotient);
}

/* Divisions and roots, rounded to nearest also where PTX allows less: so does softgpu/alu. */
static LLVMValueRef quotient(struct compiler *c, uint8_t operation, LLVMValueRef *s, bool ftz)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef x = to_float(c, s[0], ftz), one = LLVMBuildBitCast(b, splat_32(c, 0x3f800000), c->floats, "");
    switch (operation) {
    case EXEC_STRAIGHT_DIV_F32:  x = LLVMBuildFDiv(b, x, to_float(c, s[1], ftz), ""); break;
    case EXEC_STRAIGHT_RCP_F32:  x = LLVMBuildFDiv(b, one, x, ""); break;
    case EXEC_STRAIGHT_SQRT_F32: x = square_root(c, x); break;
    default:                     x = LLVMBuildFDiv(b, one, square_root(c, x), "");
    }
    return from_float(c, x, ftz);
}

/* Signs and magnitudes of floats as integers in their order, -0 below +0. */
static LLVMValueRef order_of(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef sign = LLVMBuildAShr(b, bits, splat_32(c, 31), "");
    return LLVMBuildXor(b, bits, LLVMBuildAnd(b, sign, splat_32(c, 0x7fffffff), ""), "");
}

/* A NaN loses to a number. */
static LLVMValueRef float_extremum(struct compiler *c, bool least, LLVMValueRef *s, bool ftz)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef x = ftz ? flush(c, s[0]) : s[0], y = ftz ? flush(c, s[1]) : s[1], no_x = is_nan(c, x),
                 no_y = is_nan(c, y);
    LLVMValueRef first = LLVMBuildICmp(b, least ? LLVMIntSLT : LLVMIntSGT, order_of(c, x), order_of(c, y), "");
    LLVMValueRef one = LLVMBuildSelect(b, no_y, x, LLVMBuildSelect(b, first, x, y, ""), "");
    return LLVMBuildSelect(b, LLVMBuildAnd(b, no_x, no_y, ""), splat_32(c, 0x7fffffff),
                           LLVMBuildSelect(b, no_x, y, one, ""), "");
}

/* Between 0 and 1; NaN is 0. */
static LLVMValueRef saturated(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef one = splat_32(c, 0x3f800000), zero = splat_32(c, 0);
    LLVMValueRef none = LLVMBuildOr(b, is_nan(c, bits), LLVMBuildICmp(b, LLVMIntSLT, bits, zero, ""), "");
    LLVMValueRef most = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, bits, one, ""), one, bits, "");
    return LLVMBuildSelect(b, none, zero, most, "");
}

/* ---- integers ---- */

/* Of n operands: the table has 2^n bits, its upper half where the first operand's bit is 1. */
static LLVMValueRef by_table(struct compiler *c, uint32_t table, LLVMValueRef *s, unsigned n)
{
    LLVMBuilderRef b = c->builder;
    const uint32_t half = 1u << n >> 1, low = table & ((1u << half) - 1);
    if (!n)
        return splat_32(c, table & 1 ? UINT32_MAX : 0);
    LLVMValueRef where_0 = by_table(c, low, s + 1, n - 1), where_1 = by_table(c, table >> half, s + 1, n - 1);
    return LLVMBuildOr(b, LLVMBuildAnd(b, s[0], where_1, ""),
                       LLVMBuildAnd(b, LLVMBuildNot(b, s[0], ""), where_0, ""), "");
}

/* count: of 32 bits; at `bits` and more, nothing is left (of a value with a sign: the sign). */
static LLVMValueRef shift(struct compiler *c, LLVMOpcode opcode, LLVMValueRef a, LLVMValueRef count, uint32_t bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef far = LLVMBuildICmp(b, LLVMIntUGE, count, splat_32(c, bits), "");
    LLVMValueRef near = LLVMBuildAnd(b, count, splat_32(c, bits - 1), "");
    if (opcode == LLVMAShr)
        near = LLVMBuildSelect(b, far, splat_32(c, bits - 1), near, "");
    if (bits == 64)
        near = LLVMBuildZExt(b, near, c->row64, "");
    LLVMValueRef result = LLVMBuildBinOp(b, opcode, a, near, "");
    return opcode == LLVMAShr ? result : LLVMBuildSelect(b, far, LLVMConstNull(LLVMTypeOf(a)), result, "");
}

static LLVMValueRef extremum(struct compiler *c, LLVMIntPredicate first_wins, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(c->builder, LLVMBuildICmp(c->builder, first_wins, a, b, ""), a, b, "");
}

static LLVMValueRef wide_product(struct compiler *c, bool sign, LLVMValueRef a, LLVMValueRef b)
{
    LLVMOpcode extend = sign ? LLVMSExt : LLVMZExt;
    return LLVMBuildMul(c->builder, LLVMBuildCast(c->builder, extend, a, c->row64, ""),
                        LLVMBuildCast(c->builder, extend, b, c->row64, ""), "");
}

static LLVMValueRef upper_half(struct compiler *c, LLVMValueRef product)
{
    LLVMValueRef high = LLVMBuildLShr(c->builder, product, splat(c, constant_64(c, 32)), "");
    return LLVMBuildTrunc(c->builder, high, c->row32, "");
}

/* Of one operand: conversions and signs. NULL: none of these. */
static LLVMValueRef conversion(struct compiler *c, uint8_t operation, LLVMValueRef a)
{
    LLVMBuilderRef b = c->builder;
    switch (operation) {
    case EXEC_STRAIGHT_NEG_F32: /* of a NaN: the canonical one */
        return LLVMBuildSelect(b, is_nan(c, a), splat_32(c, 0x7fffffff),
                               LLVMBuildXor(b, a, splat_32(c, 0x80000000), ""), "");
    case EXEC_STRAIGHT_ABS_F32:
        return LLVMBuildSelect(b, is_nan(c, a), splat_32(c, 0x7fffffff),
                               LLVMBuildAnd(b, a, splat_32(c, 0x7fffffff), ""), "");
    case EXEC_STRAIGHT_NEG_32: return LLVMBuildNeg(b, a, "");
    case EXEC_STRAIGHT_CVT_F32_S32: return LLVMBuildBitCast(b, LLVMBuildSIToFP(b, a, c->floats, ""), c->row32, "");
    case EXEC_STRAIGHT_CVT_F32_U32: return LLVMBuildBitCast(b, LLVMBuildUIToFP(b, a, c->floats, ""), c->row32, "");
    case EXEC_STRAIGHT_EXTEND_U32: return LLVMBuildZExt(b, a, c->row64, "");
    case EXEC_STRAIGHT_EXTEND_S32: return LLVMBuildSExt(b, a, c->row64, "");
    case EXEC_STRAIGHT_CUT_64: return LLVMBuildTrunc(b, a, c->row32, "");
    case EXEC_STRAIGHT_NOT_32: return LLVMBuildNot(b, a, "");
    case EXEC_STRAIGHT_CUT_16: return LLVMBuildAnd(b, a, splat_32(c, 0xffff), "");
    case EXEC_STRAIGHT_SAT_F32: return saturated(c, a);
    case EXEC_STRAIGHT_COPY_32: case EXEC_STRAIGHT_COPY_64: return a;
    default: return NULL;
    }
}

static LLVMValueRef integer_operation(struct compiler *c, uint8_t operation, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    switch (operation) {
    case EXEC_STRAIGHT_ADD_32: case EXEC_STRAIGHT_ADD_64: return LLVMBuildAdd(b, s[0], s[1], "");
    case EXEC_STRAIGHT_SUB_32: case EXEC_STRAIGHT_SUB_64: return LLVMBuildSub(b, s[0], s[1], "");
    case EXEC_STRAIGHT_MUL_LO_32: case EXEC_STRAIGHT_MUL_LO_64: case EXEC_STRAIGHT_MUL_WIDE_U16:
        return LLVMBuildMul(b, s[0], s[1], "");
    case EXEC_STRAIGHT_MAD_LO_32: return LLVMBuildAdd(b, LLVMBuildMul(b, s[0], s[1], ""), s[2], "");
    case EXEC_STRAIGHT_AND_32: case EXEC_STRAIGHT_AND_64: return LLVMBuildAnd(b, s[0], s[1], "");
    case EXEC_STRAIGHT_OR_32: case EXEC_STRAIGHT_OR_64: return LLVMBuildOr(b, s[0], s[1], "");
    case EXEC_STRAIGHT_XOR_32: case EXEC_STRAIGHT_XOR_64: return LLVMBuildXor(b, s[0], s[1], "");
    case EXEC_STRAIGHT_SHL_32: return shift(c, LLVMShl, s[0], s[1], 32);
    case EXEC_STRAIGHT_SHL_64: return shift(c, LLVMShl, s[0], s[1], 64);
    case EXEC_STRAIGHT_SHR_U32: return shift(c, LLVMLShr, s[0], s[1], 32);
    case EXEC_STRAIGHT_SHR_S32: return shift(c, LLVMAShr, s[0], s[1], 32);
    case EXEC_STRAIGHT_MIN_S32: return extremum(c, LLVMIntSLT, s[0], s[1]);
    case EXEC_STRAIGHT_MAX_S32: return extremum(c, LLVMIntSGT, s[0], s[1]);
    case EXEC_STRAIGHT_MIN_U32: return extremum(c, LLVMIntULT, s[0], s[1]);
    case EXEC_STRAIGHT_MAX_U32: return extremum(c, LLVMIntUGT, s[0], s[1]);
    case EXEC_STRAIGHT_MUL_WIDE_U32: return wide_product(c, false, s[0], s[1]);
    case EXEC_STRAIGHT_MUL_WIDE_S32: return wide_product(c, true, s[0], s[1]);
    case EXEC_STRAIGHT_SHR_U64: return shift(c, LLVMLShr, s[0], s[1], 64);
    case EXEC_STRAIGHT_SHR_S64: return shift(c, LLVMAShr, s[0], s[1], 64);
    case EXEC_STRAIGHT_MUL_HI_U32: return upper_half(c, wide_product(c, false, s[0], s[1]));
    case EXEC_STRAIGHT_MUL_HI_S32: return upper_half(c, wide_product(c, true, s[0], s[1]));
    case EXEC_STRAIGHT_MAD_WIDE_U32: return LLVMBuildAdd(b, wide_product(c, false, s[0], s[1]), s[2], "");
    case EXEC_STRAIGHT_MAD_WIDE_S32: return LLVMBuildAdd(b, wide_product(c, true, s[0], s[1]), s[2], "");
    default: return conversion(c, operation, s[0]);
    }
}

static LLVMIntPredicate comparison_of(uint8_t operation)
{
    static const LLVMIntPredicate predicates[] = { LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT, LLVMIntSLE, LLVMIntSGT,
                                                   LLVMIntSGE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE };
    return predicates[operation - EXEC_STRAIGHT_EQ_32];
}

LLVMRealPredicate float_predicate(unsigned number)
{
    static const LLVMRealPredicate predicates[] = { LLVMRealOEQ, LLVMRealONE, LLVMRealOLT, LLVMRealOLE,
                                                    LLVMRealOGT, LLVMRealOGE, LLVMRealUEQ, LLVMRealUNE,
                                                    LLVMRealULT, LLVMRealULE, LLVMRealUGT, LLVMRealUGE };
    return predicates[number];
}

static LLVMValueRef float_comparison(struct compiler *c, uint8_t operation, LLVMValueRef *s)
{
    return LLVMBuildFCmp(c->builder, float_predicate(operation - EXEC_STRAIGHT_EQ_F32), to_float(c, s[0], false),
                         to_float(c, s[1], false), "");
}

static LLVMValueRef value_of(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    uint8_t k = i->known;
    if (k >= EXEC_STRAIGHT_ADD_F32 && k <= EXEC_STRAIGHT_FMA_F32)
        return float_operation(c, k, s, false);
    if (k >= EXEC_STRAIGHT_ADD_FTZ_F32 && k <= EXEC_STRAIGHT_FMA_FTZ_F32)
        return float_operation(c, (uint8_t)(k - EXEC_STRAIGHT_ADD_FTZ_F32 + EXEC_STRAIGHT_ADD_F32), s, true);
    if (k >= EXEC_STRAIGHT_EQ_32 && k <= EXEC_STRAIGHT_GE_U32)
        return LLVMBuildBitCast(b, LLVMBuildICmp(b, comparison_of(k), s[0], s[1], ""), c->i32, "");
    if (k >= EXEC_STRAIGHT_EQ_F32 && k <= EXEC_STRAIGHT_GEU_F32)
        return LLVMBuildBitCast(b, float_comparison(c, k, s), c->i32, "");
    if (k >= EXEC_STRAIGHT_DIV_F32 && k <= EXEC_STRAIGHT_MAX_FTZ_F32) {
        const bool ftz = k >= EXEC_STRAIGHT_DIV_FTZ_F32;
        const uint8_t plain = (uint8_t)(ftz ? k - EXEC_STRAIGHT_DIV_FTZ_F32 + EXEC_STRAIGHT_DIV_F32 : k);
        if (plain >= EXEC_STRAIGHT_MIN_F32)
            return float_extremum(c, plain == EXEC_STRAIGHT_MIN_F32, s, ftz);
        LLVMValueRef result = quotient(c, plain, s, ftz);
        return k == EXEC_STRAIGHT_DIV_FTZ_F32 ? flushed_quotient(c, i, result) : result;
    }
    if (k >= EXEC_STRAIGHT_ADD_F64 && k <= EXEC_STRAIGHT_CVT_F64_U32)
        return double_operation(c, i, s);
    if (k == EXEC_STRAIGHT_LOP3_32)
        return by_table(c, (uint32_t)i->offset & 0xff, s, 3);
    if (k == EXEC_STRAIGHT_SELP_32 || k == EXEC_STRAIGHT_SELP_64)
        return LLVMBuildSelect(b, lanes_of(c, predicate_read(c, i->in, i->in_flip)), s[0], s[1], "");
    return integer_operation(c, k, s);
}

/* Do the bits of a NaN among the operands make no difference? */
static bool takes_raw(uint8_t k)
{
    return (k >= EXEC_STRAIGHT_ADD_F32 && k <= EXEC_STRAIGHT_FMA_FTZ_F32) ||
           (k >= EXEC_STRAIGHT_EQ_F32 && k <= EXEC_STRAIGHT_MAX_FTZ_F32) || k == EXEC_STRAIGHT_NEG_F32 ||
           k == EXEC_STRAIGHT_ABS_F32 || k == EXEC_STRAIGHT_SAT_F32;
}

bool emit_arithmetic(struct compiler *c, const struct exec_insn *i)
{
    const struct arithmetic_form *form = arithmetic_form_of(i);
    LLVMValueRef s[3] = { NULL };
    if (!form)
        return false;
    c->takes_raw = takes_raw(i->known);
    for (unsigned k = 0; k < 3; k++)
        if (form->s[k])
            s[k] = row_read(c, i->s[k], form->s[k]);
    c->takes_raw = false;
    row_put(c, i, form->d == ROW_PREDICATE ? i->p : i->d, form->d, value_of(c, i, s));
    return true;
}
