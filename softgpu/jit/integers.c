/* integers.c: arithmetic of integers and bits. See arithmetic.c. */
#include "softgpu/jit/arithmetic.h"

#include <string.h>

#define IS(name) EXEC_STRAIGHT_##name

/* ---- parts of these ---- */

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
    LLVMValueRef high = LLVMBuildLShr(c->builder, product, splat_64(c, 32), "");
    return LLVMBuildTrunc(c->builder, high, c->row32, "");
}

/* The low bits, with the highest of them as their sign. */
static LLVMValueRef with_sign(struct compiler *c, LLVMValueRef a, unsigned bits)
{
    LLVMValueRef by = splat_32(c, 32 - bits);
    return LLVMBuildAShr(c->builder, LLVMBuildShl(c->builder, a, by, ""), by, "");
}

static LLVMValueRef low(struct compiler *c, LLVMValueRef a, unsigned bits)
{
    return LLVMBuildAnd(c->builder, a, splat_32(c, (1u << bits) - 1), "");
}

static LLVMValueRef magnitude(struct compiler *c, LLVMValueRef a)
{
    LLVMValueRef negative = LLVMBuildICmp(c->builder, LLVMIntSLT, a, LLVMConstNull(LLVMTypeOf(a)), "");
    return LLVMBuildSelect(c->builder, negative, LLVMBuildNeg(c->builder, a, ""), a, "");
}

/* ---- bits ---- */

/* popc, clz and brev, whose results have 32 bits but for that of brev.b64. */
static LLVMValueRef counted(struct compiler *c, const char *name, LLVMValueRef a)
{
    LLVMValueRef s[2] = { a, LLVMConstInt(c->i1, false, false) };
    LLVMValueRef n = call_intrinsic(c, name, LLVMTypeOf(a), s, strcmp(name, "llvm.ctlz") ? 1 : 2);
    return LLVMTypeOf(a) == c->row64 ? LLVMBuildTrunc(c->builder, n, c->row32, "") : n;
}

/* So many low bits; all from 32 on. */
static LLVMValueRef ones(struct compiler *c, LLVMValueRef n)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef all = LLVMBuildICmp(b, LLVMIntUGE, n, splat_32(c, 32), "");
    LLVMValueRef bit = LLVMBuildShl(b, splat_32(c, 1), low(c, n, 5), "");
    return LLVMBuildSelect(b, all, splat_32(c, UINT32_MAX), LLVMBuildSub(b, bit, splat_32(c, 1), ""), "");
}

/* Positions and lengths are the low eight bits of their operands. */
static LLVMValueRef field(struct compiler *c, LLVMValueRef a, LLVMValueRef position, LLVMValueRef length)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef beyond = LLVMBuildICmp(b, LLVMIntUGE, position, splat_32(c, 32), "");
    LLVMValueRef moved = LLVMBuildLShr(b, a, low(c, position, 5), "");
    return LLVMBuildSelect(b, beyond, splat_32(c, 0), LLVMBuildAnd(b, moved, ones(c, length), ""), "");
}

/* Filled with its top bit, which is the register's where the field reaches beyond it; an empty one is 0. */
static LLVMValueRef signed_field(struct compiler *c, LLVMValueRef a, LLVMValueRef position, LLVMValueRef length)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef top = LLVMBuildSub(b, LLVMBuildAdd(b, position, length, ""), splat_32(c, 1), ""),
                 last = splat_32(c, 31), width = splat_32(c, 32);
    top = extremum(c, LLVMIntULT, top, last);
    LLVMValueRef bit = low(c, LLVMBuildLShr(b, a, top, ""), 1), sign = LLVMBuildNeg(b, bit, "");
    LLVMValueRef have = extremum(c, LLVMIntULT, length, LLVMBuildSub(b, width, extremum(c, LLVMIntULT, position, width),
                                                                     ""));
    LLVMValueRef rest = LLVMBuildAnd(b, sign, LLVMBuildNot(b, ones(c, have), ""), "");
    LLVMValueRef filled = LLVMBuildOr(b, field(c, a, position, length), rest, "");
    LLVMValueRef empty = LLVMBuildICmp(b, LLVMIntEQ, length, splat_32(c, 0), "");
    return LLVMBuildSelect(b, empty, splat_32(c, 0), filled, "");
}

static LLVMValueRef with_field(struct compiler *c, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef position = low(c, s[2], 8), by = low(c, position, 5),
                 beyond = LLVMBuildICmp(b, LLVMIntUGE, position, splat_32(c, 32), "");
    LLVMValueRef mask = LLVMBuildSelect(b, beyond, splat_32(c, 0), LLVMBuildShl(b, ones(c, low(c, s[3], 8)), by, ""),
                                        "");
    return LLVMBuildOr(b, LLVMBuildAnd(b, s[1], LLVMBuildNot(b, mask, ""), ""),
                       LLVMBuildAnd(b, LLVMBuildShl(b, s[0], by, ""), mask, ""), "");
}

/* Of 64 bits. Positions and lengths from 64 on are all the same. */
static LLVMValueRef with_field_64(struct compiler *c, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef zero = LLVMConstNull(c->row64), full = splat_32(c, 64), all = LLVMConstAllOnes(c->row64),
                 one = splat(c, constant_64(c, 1));
    LLVMValueRef by = LLVMBuildZExt(b, low(c, s[2], 6), c->row64, ""),
                 bits = LLVMBuildZExt(b, low(c, s[3], 6), c->row64, "");
    LLVMValueRef field = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGE, s[3], full, ""), all,
                                         LLVMBuildSub(b, LLVMBuildShl(b, one, bits, ""), one, ""), ""),
                 mask = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGE, s[2], full, ""), zero,
                                        LLVMBuildShl(b, field, by, ""), "");
    return LLVMBuildOr(b, LLVMBuildAnd(b, s[1], LLVMBuildNot(b, mask, ""), ""),
                       LLVMBuildAnd(b, LLVMBuildShl(b, s[0], by, ""), mask, ""), "");
}

/* The pair of s[1] above s[0] shifted, and of it the upper half (left) or the lower one. */
static LLVMValueRef funnel(struct compiler *c, bool left, bool clamp, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef operands[3] = { s[1], s[0], s[2] };
    LLVMValueRef moved = call_intrinsic(c, left ? "llvm.fshl" : "llvm.fshr", c->row32, operands, 3);
    if (!clamp)
        return moved;
    LLVMValueRef far = LLVMBuildICmp(b, LLVMIntUGE, s[2], splat_32(c, 32), "");
    return LLVMBuildSelect(b, far, s[left ? 0 : 1], moved, "");
}

/* ---- bytes ---- */

/* A row that is one constant in all lanes. */
static bool is_constant(exec_source at, uint32_t *value)
{
    const uint32_t *cells = (const void *)at;
    if ((at & 3) != EXEC_BASE_ABSOLUTE)
        return false;
    *value = cells[0];
    for (unsigned l = 1; l < SG_LANES; l++)
        if (cells[l] != *value)
            return false;
    return true;
}

/* Each byte of the result is one of the eight of two rows. */
static LLVMValueRef picked_bytes(struct compiler *c, uint32_t selectors, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    const unsigned bytes = 4 * c->width;
    LLVMTypeRef type = LLVMVectorType(c->i8, bytes);
    LLVMValueRef which[4 * SG_LANES];
    for (unsigned k = 0; k < bytes; k++) {
        const unsigned byte = selectors >> 4 * (k % 4) & 7;
        which[k] = constant_32(c, byte < 4 ? k / 4 * 4 + byte : bytes + k / 4 * 4 + byte - 4);
    }
    LLVMValueRef x = LLVMBuildBitCast(b, s[0], type, ""), y = LLVMBuildBitCast(b, s[1], type, "");
    return LLVMBuildBitCast(b, LLVMBuildShuffleVector(b, x, y, LLVMConstVector(which, bytes), ""), c->row32, "");
}

/* NULL: selectors that are not known, or ask for copies of signs. */
static LLVMValueRef permuted(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    uint32_t selectors;
    return is_constant(i->s[2], &selectors) && !(selectors & 0x8888) ? picked_bytes(c, selectors, s) : NULL;
}

/* Bytes 0 and 2, or 1 and 3, as numbers of 16 bits. */
static LLVMValueRef two_bytes(struct compiler *c, LLVMValueRef words, bool odd, bool sign)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef by = LLVMConstInt(LLVMInt16TypeInContext(c->context), 8, false), bys[2 * SG_LANES];
    for (unsigned k = 0; k < 2 * c->width; k++)
        bys[k] = by;
    LLVMValueRef eight = LLVMConstVector(bys, 2 * c->width);
    if (!odd)
        words = LLVMBuildShl(b, words, eight, "");
    return sign ? LLVMBuildAShr(b, words, eight, "") : LLVMBuildLShr(b, words, eight, "");
}

/* Sums of products of neighbours of 16 bits, as the processor has them: of 8 or 16 sums. */
static LLVMValueRef sum_of_products(struct compiler *c, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = c->builder;
    const unsigned each = c->wish->avx512 && c->width % 16 == 0 ? 16 : 8, parts = c->width / each;
    const char *name = each == 16 ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
    LLVMTypeRef from = LLVMVectorType(LLVMInt16TypeInContext(c->context), 2 * each), types[2] = { from, from };
    LLVMTypeRef type = LLVMFunctionType(LLVMVectorType(c->i32, each), types, 2, false);
    LLVMValueRef sums[SG_LANES / 8], which[2 * SG_LANES];
    for (unsigned p = 0; p < parts; p++) {
        for (unsigned k = 0; k < 2 * each; k++)
            which[k] = constant_32(c, 2 * each * p + k);
        LLVMValueRef mask = LLVMConstVector(which, 2 * each), none = LLVMGetUndef(LLVMTypeOf(x));
        LLVMValueRef arguments[2] = { LLVMBuildShuffleVector(b, x, none, mask, ""),
                                      LLVMBuildShuffleVector(b, y, none, mask, "") };
        sums[p] = LLVMBuildCall2(b, type, f, arguments, 2, "");
    }
    return vectors_join(c, sums, parts);
}

static LLVMValueRef dot_product(struct compiler *c, bool sign_a, bool sign_b, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef words = LLVMVectorType(LLVMInt16TypeInContext(c->context), 2 * c->width);
    LLVMValueRef x = LLVMBuildBitCast(b, s[0], words, ""), y = LLVMBuildBitCast(b, s[1], words, ""), sum = s[2];
    for (unsigned odd = 0; odd < 2; odd++)
        sum = LLVMBuildAdd(b, sum, sum_of_products(c, two_bytes(c, x, odd, sign_a), two_bytes(c, y, odd, sign_b)), "");
    return sum;
}

/* ---- which is which ---- */

static LLVMValueRef of_bits(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    switch (i->known) {
    case IS(AND_32): case IS(AND_64): return LLVMBuildAnd(b, s[0], s[1], "");
    case IS(OR_32): case IS(OR_64): return LLVMBuildOr(b, s[0], s[1], "");
    case IS(XOR_32): case IS(XOR_64): return LLVMBuildXor(b, s[0], s[1], "");
    case IS(NOT_32): case IS(NOT_64): return LLVMBuildNot(b, s[0], "");
    case IS(NOT_16): return LLVMBuildXor(b, s[0], splat_32(c, 0xffff), "");
    case IS(LOP3_32): return by_table(c, (uint32_t)i->offset & 0xff, s, 3);
    case IS(SHL_32): return shift(c, LLVMShl, s[0], s[1], 32);
    case IS(SHL_64): return shift(c, LLVMShl, s[0], s[1], 64);
    case IS(SHL_16): return low(c, shift(c, LLVMShl, s[0], s[1], 32), 16);
    case IS(SHR_U32): return shift(c, LLVMLShr, s[0], s[1], 32);
    case IS(SHR_S32): return shift(c, LLVMAShr, s[0], s[1], 32);
    case IS(SHR_S16): return low(c, shift(c, LLVMAShr, with_sign(c, s[0], 16), s[1], 32), 16);
    case IS(SHR_U64): return shift(c, LLVMLShr, s[0], s[1], 64);
    case IS(SHR_S64): return shift(c, LLVMAShr, s[0], s[1], 64);
    case IS(POPC_32): case IS(POPC_64): return counted(c, "llvm.ctpop", s[0]);
    case IS(CLZ_32): case IS(CLZ_64): return counted(c, "llvm.ctlz", s[0]);
    case IS(BREV_32): return counted(c, "llvm.bitreverse", s[0]);
    case IS(BFE_U32): return field(c, s[0], low(c, s[1], 8), low(c, s[2], 8));
    case IS(BFE_S32): return signed_field(c, s[0], low(c, s[1], 8), low(c, s[2], 8));
    case IS(BFI_32): return with_field(c, s);
    case IS(BFI_64): return with_field_64(c, s);
    case IS(SHF_L_WRAP): return funnel(c, true, false, s);
    case IS(SHF_L_CLAMP): return funnel(c, true, true, s);
    case IS(SHF_R_WRAP): return funnel(c, false, false, s);
    case IS(SHF_R_CLAMP): return funnel(c, false, true, s);
    case IS(PRMT): return permuted(c, i, s);
    case IS(DP4A_UU): return dot_product(c, false, false, s);
    case IS(DP4A_US): return dot_product(c, false, true, s);
    case IS(DP4A_SU): return dot_product(c, true, false, s);
    case IS(DP4A_SS): return dot_product(c, true, true, s);
    default: return NULL;
    }
}

/* Between widths. */
static LLVMValueRef resized(struct compiler *c, uint8_t operation, LLVMValueRef a)
{
    LLVMBuilderRef b = c->builder;
    switch (operation) {
    case IS(EXTEND_U32): return LLVMBuildZExt(b, a, c->row64, "");
    case IS(EXTEND_S32): return LLVMBuildSExt(b, a, c->row64, "");
    case IS(CUT_64): return LLVMBuildTrunc(b, a, c->row32, "");
    case IS(CUT_64_16): return low(c, LLVMBuildTrunc(b, a, c->row32, ""), 16);
    case IS(CUT_16): return low(c, a, 16);
    case IS(CUT_8): return low(c, a, 8);
    case IS(SIGN_8): return with_sign(c, a, 8);
    case IS(SIGN_16): return with_sign(c, a, 16);
    case IS(SIGN_8_16): return low(c, with_sign(c, a, 8), 16);
    case IS(COPY_32): case IS(COPY_64): return a;
    default: return NULL;
    }
}

static LLVMValueRef of_numbers(struct compiler *c, uint8_t operation, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    switch (operation) {
    case IS(ADD_32): case IS(ADD_64): return LLVMBuildAdd(b, s[0], s[1], "");
    case IS(SUB_32): case IS(SUB_64): return LLVMBuildSub(b, s[0], s[1], "");
    case IS(ADD_16): return low(c, LLVMBuildAdd(b, s[0], s[1], ""), 16);
    case IS(SUB_16): return low(c, LLVMBuildSub(b, s[0], s[1], ""), 16);
    case IS(MUL_LO_32): case IS(MUL_LO_64): case IS(MUL_WIDE_U16): return LLVMBuildMul(b, s[0], s[1], "");
    case IS(MUL_LO_16): return low(c, LLVMBuildMul(b, s[0], s[1], ""), 16);
    case IS(MUL_WIDE_S16): return LLVMBuildMul(b, with_sign(c, s[0], 16), with_sign(c, s[1], 16), "");
    case IS(MAD_LO_32): case IS(MAD_LO_64): return LLVMBuildAdd(b, LLVMBuildMul(b, s[0], s[1], ""), s[2], "");
    case IS(MUL_WIDE_U32): return wide_product(c, false, s[0], s[1]);
    case IS(MUL_WIDE_S32): return wide_product(c, true, s[0], s[1]);
    case IS(MUL_HI_U32): return upper_half(c, wide_product(c, false, s[0], s[1]));
    case IS(MUL_HI_S32): return upper_half(c, wide_product(c, true, s[0], s[1]));
    case IS(MAD_WIDE_U32): return LLVMBuildAdd(b, wide_product(c, false, s[0], s[1]), s[2], "");
    case IS(MAD_WIDE_S32): return LLVMBuildAdd(b, wide_product(c, true, s[0], s[1]), s[2], "");
    case IS(MIN_S32): case IS(MIN_S64): return extremum(c, LLVMIntSLT, s[0], s[1]);
    case IS(MAX_S32): case IS(MAX_S64): return extremum(c, LLVMIntSGT, s[0], s[1]);
    case IS(MIN_U32): case IS(MIN_U64): return extremum(c, LLVMIntULT, s[0], s[1]);
    case IS(MAX_U32): case IS(MAX_U64): return extremum(c, LLVMIntUGT, s[0], s[1]);
    case IS(MIN_S16): return low(c, extremum(c, LLVMIntSLT, with_sign(c, s[0], 16), with_sign(c, s[1], 16)), 16);
    case IS(MAX_S16): return low(c, extremum(c, LLVMIntSGT, with_sign(c, s[0], 16), with_sign(c, s[1], 16)), 16);
    case IS(NEG_32): case IS(NEG_64): return LLVMBuildNeg(b, s[0], "");
    case IS(NEG_16): return low(c, LLVMBuildNeg(b, s[0], ""), 16);
    case IS(ABS_32): case IS(ABS_64): return magnitude(c, s[0]);
    default: return resized(c, operation, s[0]);
    }
}

static LLVMValueRef comparison(struct compiler *c, unsigned number, LLVMValueRef x, LLVMValueRef y)
{
    static const LLVMIntPredicate predicates[] = { LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT, LLVMIntSLE, LLVMIntSGT,
                                                   LLVMIntSGE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE };
    LLVMValueRef lanes = LLVMBuildICmp(c->builder, predicates[number], x, y, "");
    if (c->width > 1)
        return LLVMBuildBitCast(c->builder, lanes, c->i32, "");
    return LLVMBuildSelect(c->builder, LLVMBuildBitCast(c->builder, lanes, c->i1, ""), constant_32(c, UINT32_MAX),
                           constant_32(c, 0), "");
}

LLVMValueRef integer_operation(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    const uint8_t k = i->known;
    if (k >= IS(EQ_32) && k <= IS(GE_U32))
        return comparison(c, k - IS(EQ_32), s[0], s[1]);
    if (k >= IS(EQ_64) && k <= IS(GE_U64))
        return comparison(c, k - IS(EQ_64), s[0], s[1]);
    if (k >= IS(LT_S16) && k <= IS(GE_S16))
        return comparison(c, k - IS(LT_S16) + (IS(LT_S32) - IS(EQ_32)), with_sign(c, s[0], 16), with_sign(c, s[1], 16));
    LLVMValueRef result = of_bits(c, i, s);
    return result ? result : of_numbers(c, k, s);
}
