/*
 * rounded.c: sums and products of f32 that are rounded to zero, down or up, and those that are saturated. The mode of
 * the processor stays to nearest.
 *
 * AVX-512 has instructions that name a mode. Before it, the result is computed in f64. There a product of two f32 is
 * exact, and a sum s has an error e that f64 holds, too: so s + e is the exact result. Rounded to nearest, s becomes an
 * f32 y, which is the result or next to it: the sign of s - y + e says which. s - y is exact, and either 0, or larger
 * than e: so the sign of its sum with e is right.
 */
#include "softgpu/jit/arithmetic.h"

#include <string.h>

/* PART: lanes that are computed in f64 at once. More take more registers than there are. */
enum { PART = 8, LANES_512 = 16 };

static LLVMValueRef float_negated(struct compiler *c, LLVMValueRef x) { return LLVMBuildFNeg(c->builder, x, ""); }

/* ---- AVX-512 ---- */

static LLVMValueRef with_mode(struct compiler *c, unsigned operation, unsigned mode, LLVMValueRef *x)
{
    static const char *const names[] = { "llvm.x86.avx512.add.ps.512", "llvm.x86.avx512.sub.ps.512",
                                         "llvm.x86.avx512.mul.ps.512", "llvm.x86.avx512.vfmadd.ps.512" };
    static const unsigned modes[] = { 8, 11, 9, 10 }; /* nearest, zero, down, up; 8: no exceptions */
    const char *name = names[operation / EXEC_ROUNDED_SUB];
    const unsigned count = operation == EXEC_ROUNDED_FMA ? 3 : 2;
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0),
                 parts[SG_LANES / LANES_512];
    for (unsigned part = 0; part < c->width / LANES_512; part++) {
        LLVMValueRef s[4];
        LLVMTypeRef types[4];
        for (unsigned k = 0; k < count; k++)
            s[k] = vector_part(c, x[k], part * LANES_512, LANES_512);
        s[count] = constant_32(c, modes[mode]);
        for (unsigned k = 0; k <= count; k++)
            types[k] = LLVMTypeOf(s[k]);
        parts[part] = LLVMBuildCall2(c->builder, LLVMFunctionType(types[0], types, count + 1, false), function, s,
                                     count + 1, "");
    }
    return vectors_join(c, parts, c->width / LANES_512);
}

/* ---- without it ---- */

struct exact { LLVMValueRef sum, error; }; /* error NULL: there is none */

static struct exact exact_result(struct compiler *c, unsigned operation, LLVMValueRef *x)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef type = LLVMVectorType(LLVMDoubleTypeInContext(c->context), c->width);
    LLVMValueRef d[3];
    for (unsigned k = 0; k < (operation == EXEC_ROUNDED_FMA ? 3 : 2); k++)
        d[k] = LLVMBuildFPExt(b, x[k], type, "");
    const bool product = operation == EXEC_ROUNDED_MUL || operation == EXEC_ROUNDED_FMA;
    LLVMValueRef first = product ? LLVMBuildFMul(b, d[0], d[1], "") : d[0],
                 second = operation == EXEC_ROUNDED_FMA ? d[2] : d[1];
    if (operation == EXEC_ROUNDED_MUL)
        return (struct exact){ first, NULL };
    LLVMValueRef sum = LLVMBuildFAdd(b, first, second, ""), near = LLVMBuildFSub(b, sum, first, "");
    return (struct exact){ sum, LLVMBuildFAdd(b, LLVMBuildFSub(b, first, LLVMBuildFSub(b, sum, near, ""), ""),
                                              LLVMBuildFSub(b, second, near, ""), "") };
}

/* The sign that a sum has in which down makes -0 of what is exactly 0, unless both are +0. */
static LLVMValueRef sign_down(struct compiler *c, unsigned operation, LLVMValueRef *x)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef s[3];
    for (unsigned k = 0; k < (operation == EXEC_ROUNDED_FMA ? 3 : 2); k++)
        s[k] = LLVMBuildBitCast(b, x[k], c->row32, "");
    LLVMValueRef either = operation == EXEC_ROUNDED_FMA ? LLVMBuildOr(b, LLVMBuildXor(b, s[0], s[1], ""), s[2], "")
                                                        : LLVMBuildOr(b, s[0], s[1], "");
    return LLVMBuildAnd(b, either, splat_32(c, 0x80000000), "");
}

/* Of as many lanes as c->width says. */
static LLVMValueRef corrected(struct compiler *c, unsigned operation, unsigned mode, LLVMValueRef *x)
{
    LLVMBuilderRef b = c->builder;
    const struct exact r = exact_result(c, operation, x);
    LLVMTypeRef type = LLVMTypeOf(r.sum);
    LLVMValueRef y = LLVMBuildFPTrunc(b, r.sum, c->floats, ""), none = LLVMConstNull(type),
                 left = LLVMBuildFSub(b, r.sum, LLVMBuildFPExt(b, y, type, ""), "");
    if (r.error)
        left = LLVMBuildFAdd(b, left, r.error, "");
    LLVMValueRef bits = LLVMBuildBitCast(b, y, c->row32, ""),
                 sign = LLVMBuildAShr(b, bits, splat_32(c, 31), ""), one = LLVMBuildOr(b, sign, splat_32(c, 1), "");
    LLVMValueRef below = LLVMBuildFCmp(b, LLVMRealOLT, left, none, ""), /* is the exact result? */
                 above = LLVMBuildFCmp(b, LLVMRealOGT, left, none, "");
    switch (mode) {
    case EXEC_ROUND_DOWN: bits = LLVMBuildSelect(b, below, LLVMBuildSub(b, bits, one, ""), bits, ""); break;
    case EXEC_ROUND_UP:   bits = LLVMBuildSelect(b, above, LLVMBuildAdd(b, bits, one, ""), bits, ""); break;
    default: {
        LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, bits, splat_32(c, 0), ""),
                     nearer = LLVMBuildSelect(b, negative, above, below, "");
        bits = LLVMBuildSelect(b, nearer, LLVMBuildSub(b, bits, splat_32(c, 1), ""), bits, "");
    }
    }
    if (mode == EXEC_ROUND_DOWN && r.error) {
        LLVMValueRef zero = LLVMBuildFCmp(b, LLVMRealOEQ, r.sum, none, "");
        bits = LLVMBuildOr(b, bits, LLVMBuildSelect(b, zero, sign_down(c, operation, x), splat_32(c, 0), ""), "");
    }
    return LLVMBuildBitCast(b, bits, c->floats, "");
}

static LLVMValueRef by_error(struct compiler *c, unsigned operation, unsigned mode, LLVMValueRef *x)
{
    const unsigned width = c->width;
    LLVMValueRef parts[SG_LANES / PART];
    for (unsigned part = 0; part < width / PART; part++) {
        LLVMValueRef s[3];
        for (unsigned k = 0; k < (operation == EXEC_ROUNDED_FMA ? 3 : 2); k++)
            s[k] = vector_part(c, x[k], part * PART, PART);
        set_width(c, PART);
        parts[part] = corrected(c, operation, mode, s);
        set_width(c, width);
    }
    return vectors_join(c, parts, width / PART);
}

/* ---- both ---- */

static LLVMValueRef nearest(struct compiler *c, unsigned operation, LLVMValueRef *x)
{
    switch (operation) {
    case EXEC_ROUNDED_ADD: return LLVMBuildFAdd(c->builder, x[0], x[1], "");
    case EXEC_ROUNDED_SUB: return LLVMBuildFSub(c->builder, x[0], x[1], "");
    case EXEC_ROUNDED_MUL: return LLVMBuildFMul(c->builder, x[0], x[1], "");
    default:               return call_intrinsic(c, "llvm.fma", c->floats, x, 3);
    }
}

LLVMValueRef rounded(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    const unsigned mode = i->detail & EXEC_ROUND, operation = i->detail & EXEC_ROUNDED;
    const bool ftz = i->detail & EXEC_ROUNDED_FTZ, sat = i->detail & EXEC_ROUNDED_SAT,
               product = operation == EXEC_ROUNDED_MUL || operation == EXEC_ROUNDED_FMA;
    LLVMValueRef x[3], y;
    for (unsigned k = 0; k < 3; k++)
        x[k] = s[k] ? float_from(c, s[k], ftz) : NULL;
    if (mode == EXEC_ROUND_NEAREST)
        y = nearest(c, operation, x);
    else if (c->wish->avx512)
        y = with_mode(c, operation, mode, x);
    else if (operation == EXEC_ROUNDED_SUB) {
        x[1] = float_negated(c, x[1]);
        y = by_error(c, EXEC_ROUNDED_ADD, mode, x);
    } else
        y = by_error(c, operation, mode, x);
    LLVMValueRef bits = float_to(c, y, ftz && !sat);
    if (sat)
        bits = float_saturated(c, bits);
    if (sat && ftz)
        bits = LLVMBuildBitCast(c->builder, float_from(c, bits, true), c->row32, "");
    return ftz && product && mode != EXEC_ROUND_NEAREST ? float_least(c, i, bits) : bits;
}
