/* decode_float.c: which floating-point instructions PTX has, and the rows for them. See decode.h. */
#include "softgpu/alu/decode.h"

static const struct sg_float_table *const float_tables[] = SG_CLONE_ADDRESSES(sg_float_table);
static const struct sg_double_table *const double_tables[] = SG_CLONE_ADDRESSES(sg_double_table);
static const struct sg_half_table *const half_tables[] = SG_CLONE_ADDRESSES(sg_half_table);
static const struct sg_approx_table *const approx_tables[] = SG_CLONE_ADDRESSES(sg_approx_table);

static int no_such_type(struct sg_decode *d)
{
    return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(d->type[0]));
}

/* add.f32.f16 d, a, c;  fma.rn.f32.bf16 d, a, b, c: all but the last operand have 16 bits */
static int decode_mixed(struct sg_decode *d, enum sg_float_operation operation)
{
    const enum sg_type from = d->type[1];
    if (sg_allow(d, W_ROUNDS | W(sat), 2, 2) || sg_at_most_one(d, W_ROUNDS, "rounding"))
        return -1;
    if ((from != SG_T_f16 && from != SG_T_bf16) || d->operation == SG_OP_MAD ||
        (d->operation == SG_OP_FMA && !sg_has(d, W_ROUNDS)))
        return sg_choose(d, NULL);
    if (operation == SG_FLOAT_FMA)
        sg_shape(d, SG_T_f32, from, from, SG_T_f32, SG_T_none);
    else
        sg_shape(d, SG_T_f32, from, SG_T_f32, SG_T_none);
    d->alu->immediate = SG_MIXED_IMMEDIATE(sg_rounding(d), sg_has(d, W(sat)));
    return sg_choose(d, float_tables[d->level]->mixed[operation][from == SG_T_bf16]);
}

/* add, sub, mul, fma and mad. mad.f32 and mad.f64 are fma since sm_20. */
static int decode_sum(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    const bool fused = d->operation == SG_OP_FMA || d->operation == SG_OP_MAD;
    const enum sg_float_operation operation = d->operation == SG_OP_ADD   ? SG_FLOAT_ADD
                                              : d->operation == SG_OP_SUB ? SG_FLOAT_SUB
                                              : d->operation == SG_OP_MUL ? SG_FLOAT_MUL
                                                                          : SG_FLOAT_FMA;
    if (t == SG_T_f32 && d->type_count == 2)
        return decode_mixed(d, operation);
    if (sg_allow(d, W_ROUNDS | (t == SG_T_f64 ? 0 : W(ftz)) | (t == SG_T_f32 ? W(sat) : 0), 1, 1) ||
        sg_at_most_one(d, W_ROUNDS, "rounding"))
        return -1;
    if (d->operation == SG_OP_FMA && !sg_has(d, W_ROUNDS))
        return sg_fail(d, "fma without a rounding");
    const enum sg_round mode = sg_rounding(d);
    const bool ftz = sg_has(d, W(ftz)), sat = sg_has(d, W(sat));
    sg_shape(d, t, t, t, fused ? t : SG_T_none, SG_T_none);
    return sg_choose(d, t == SG_T_f32 ? float_tables[d->level]->f32[operation][mode][ftz][sat] :
                        t == SG_T_f64 ? double_tables[d->level]->f64[operation][mode] :
                                        float_tables[d->level]->f32x2[operation][mode][ftz]);
}

static int decode_extremum(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    const enum sg_extremum which = d->operation == SG_OP_MIN ? SG_MIN : SG_MAX;
    if (t == SG_T_f32x2)
        return no_such_type(d);
    if (sg_allow(d, t == SG_T_f32 ? W(ftz) | W(NaN) | W(xorsign) | W(abs) : 0, 1, 1))
        return -1;
    const bool three = t == SG_T_f32 && d->instruction->operand_count == 4;
    if (three && sg_has(d, W(xorsign)))
        return sg_fail(d, "%s of three takes no .xorsign", d->instruction->opcode);
    if (!three && sg_has(d, W(xorsign)) != sg_has(d, W(abs)))
        return sg_fail(d, "%s with .xorsign needs .abs, and the other way round", d->instruction->opcode);
    sg_shape(d, t, t, t, three ? t : SG_T_none, SG_T_none);
    return sg_choose(
        d, t == SG_T_f64 ? double_tables[d->level]->extremum[which]
                         : float_tables[d->level]
                               ->f32_extremum[which][sg_has(d, W(ftz))][sg_has(d, W(NaN))][sg_has(d, W(abs))][three]);
}

static int decode_sign(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    const bool ftz = sg_has(d, W(ftz)), neg = d->operation == SG_OP_NEG;
    if (t == SG_T_f32x2)
        return no_such_type(d);
    if (sg_allow(d, t == SG_T_f32 ? W(ftz) : 0, 1, 1))
        return -1;
    sg_shape(d, t, t, SG_T_none);
    return sg_choose(d, t == SG_T_f64 ? neg ? double_tables[d->level]->neg : double_tables[d->level]->abs :
                        neg ? float_tables[d->level]->f32_neg[ftz] : float_tables[d->level]->f32_abs[ftz]);
}

static int approx_of(int operation, bool full)
{
    switch (operation) {
    case SG_OP_DIV:   return full ? SG_APPROX_DIV_FULL : SG_APPROX_DIV;
    case SG_OP_RCP:   return SG_APPROX_RCP;
    case SG_OP_SQRT:  return SG_APPROX_SQRT;
    case SG_OP_RSQRT: return SG_APPROX_RSQRT;
    case SG_OP_SIN:   return SG_APPROX_SIN;
    case SG_OP_COS:   return SG_APPROX_COS;
    case SG_OP_LG2:   return SG_APPROX_LG2;
    case SG_OP_EX2:   return SG_APPROX_EX2;
    default:          return SG_APPROX_TANH;
    }
}

/* div, rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh: exact in a rounding, or .approx (.full) */
static int decode_quotient(struct sg_decode *d)
{
    const struct sg_float_table *f32 = float_tables[d->level];
    const struct sg_double_table *f64 = double_tables[d->level];
    const enum sg_type t = d->type[0];
    const bool exact = d->operation == SG_OP_DIV || d->operation == SG_OP_RCP || d->operation == SG_OP_SQRT;
    const sg_words ways =
        W(approx) | (exact ? W_ROUNDS : 0) | (d->operation == SG_OP_DIV && t == SG_T_f32 ? W(full) : 0);
    const bool ftz = sg_has(d, W(ftz));
    const enum sg_round mode = sg_rounding(d);
    if (d->type_count != 1 || (t != SG_T_f32 && t != SG_T_f64))
        return d->type_count == 1 ? no_such_type(d) : sg_fail(d, "%s has one type", d->instruction->opcode);
    const bool f64_approx =
        t == SG_T_f64 && sg_has(d, W(approx)) && (d->operation == SG_OP_RCP || d->operation == SG_OP_RSQRT);
    if (sg_allow(d, ways | (t == SG_T_f32 || f64_approx ? W(ftz) : 0), 1, 1) ||
        sg_at_most_one(d, ways, "way of rounding"))
        return -1;
    /* PTX 1.x wrote div.f32 and the like with neither; they are the fast ones, and of f64 the exact ones to nearest */
    const bool approximate = sg_has(d, W(approx) | W(full)) || (t == SG_T_f32 && !sg_has(d, W_ROUNDS));
    sg_shape(d, t, t, d->operation == SG_OP_DIV ? t : SG_T_none, SG_T_none);
    if (t == SG_T_f32 && approximate) {
        const bool full = sg_has(d, W(full)) || (d->operation == SG_OP_DIV && !sg_has(d, W(approx)));
        return sg_choose(d, approx_tables[d->level]->f32[approx_of(d->operation, full)][ftz]);
    }
    if (t == SG_T_f32)
        return sg_choose(d, d->operation == SG_OP_DIV   ? f32->f32_div[mode][ftz]
                            : d->operation == SG_OP_RCP ? f32->f32_rcp[mode][ftz]
                                                        : f32->f32_sqrt[mode][ftz]);
    if (approximate || d->operation == SG_OP_RSQRT)
        return sg_choose(d, d->operation == SG_OP_RCP     ? f64->rcp_approx[ftz]
                            : d->operation == SG_OP_RSQRT ? f64->rsqrt_approx[ftz]
                                                          : NULL);
    return sg_choose(d, d->operation == SG_OP_DIV ? f64->div[mode] : d->operation == SG_OP_RCP ? f64->rcp[mode] :
                        d->operation == SG_OP_SQRT ? f64->sqrt[mode] : NULL);
}

static int decode_testp(struct sg_decode *d)
{
    const sg_words tests = W(finite) | W(infinite) | W(number) | W(notanumber) | W(normal) | W(subnormal);
    const enum sg_type t = d->type[0];
    if (sg_allow(d, tests, 1, 1) || sg_need_one(d, tests, "test"))
        return -1;
    if (t != SG_T_f32 && t != SG_T_f64)
        return no_such_type(d);
    const enum sg_testp test = sg_has(d, W(finite))       ? SG_FINITE
                               : sg_has(d, W(infinite))   ? SG_INFINITE
                               : sg_has(d, W(number))     ? SG_NUMBER
                               : sg_has(d, W(notanumber)) ? SG_NOTANUMBER
                               : sg_has(d, W(normal))     ? SG_NORMAL
                                                          : SG_SUBNORMAL;
    sg_shape(d, SG_T_pred, t, SG_T_none);
    return sg_choose(d, t == SG_T_f32 ? float_tables[d->level]->f32_testp[test] : double_tables[d->level]->testp[test]);
}

static int decode_copysign(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    if (sg_allow(d, 0, 1, 1))
        return -1;
    if (t != SG_T_f32 && t != SG_T_f64)
        return no_such_type(d);
    sg_shape(d, t, t, t, SG_T_none);
    return sg_choose(d, t == SG_T_f32 ? float_tables[d->level]->f32_copysign : double_tables[d->level]->copysign);
}

int sg_decode_float(struct sg_decode *d)
{
    if (d->type_count == 0)
        return sg_fail(d, "%s without a type", d->instruction->opcode);
    switch (d->operation) {
    case SG_OP_ADD:
    case SG_OP_SUB:
    case SG_OP_MUL:
    case SG_OP_MAD:
    case SG_OP_FMA:  return decode_sum(d);
    case SG_OP_MIN:
    case SG_OP_MAX:  return decode_extremum(d);
    case SG_OP_NEG:
    case SG_OP_ABS:  return decode_sign(d);
    case SG_OP_TESTP: return decode_testp(d);
    case SG_OP_COPYSIGN: return decode_copysign(d);
    case SG_OP_EX2:
    case SG_OP_TANH: return sg_type_half(d->type[0]) >= 0 ? sg_decode_half(d) : decode_quotient(d);
    default:         return decode_quotient(d);
    }
}

/* f16, bf16 and their pairs: to nearest only; f16 also .ftz and .sat */
int sg_decode_half(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    const int kind = sg_type_half(t);
    const sg_words f16 = kind == SG_HALF_F16 || kind == SG_HALF_F16X2 ? W(ftz) | W(sat) : 0;
    enum sg_half_operation operation;
    sg_words allowed;
    int sources = 2;
    switch (d->operation) {
    case SG_OP_ADD: operation = SG_HALF_ADD; allowed = W(rn) | f16; break;
    case SG_OP_SUB: operation = SG_HALF_SUB; allowed = W(rn) | f16; break;
    case SG_OP_MUL: operation = SG_HALF_MUL; allowed = W(rn) | f16; break;
    case SG_OP_FMA:
        operation = SG_HALF_FMA;
        allowed = W(rn) | W(relu) | W(oob) | f16;
        sources = 3;
        break;
    case SG_OP_NEG: operation = SG_HALF_NEG; allowed = f16 & W(ftz); sources = 1; break;
    case SG_OP_ABS: operation = SG_HALF_ABS; allowed = f16 & W(ftz); sources = 1; break;
    case SG_OP_MIN: operation = SG_HALF_MIN; allowed = (f16 & W(ftz)) | W(NaN) | W(xorsign) | W(abs); break;
    case SG_OP_MAX: operation = SG_HALF_MAX; allowed = (f16 & W(ftz)) | W(NaN) | W(xorsign) | W(abs); break;
    case SG_OP_EX2: operation = SG_HALF_EX2; allowed = W(approx) | (f16 ? 0 : W(ftz)); sources = 1; break;
    case SG_OP_TANH: operation = SG_HALF_TANH; allowed = W(approx); sources = 1; break;
    default: return no_such_type(d);
    }
    if (sg_allow(d, allowed, 1, 1) || sg_at_most_one(d, W(relu) | W(sat), ".relu or .sat"))
        return -1;
    if (d->operation == SG_OP_FMA && !sg_has(d, W(rn)))
        return sg_fail(d, "fma without a rounding");
    if (sg_has(d, W(oob)) && sg_has(d, W(ftz)))
        return sg_fail(d, "fma with .oob takes no .ftz");
    if (sg_has(d, W(xorsign)) != sg_has(d, W(abs)))
        return sg_fail(d, "%s with .xorsign needs .abs, and the other way round", d->instruction->opcode);
    d->alu->immediate = (sg_has(d, W(ftz)) ? SG_HALF_FTZ : 0) | (sg_has(d, W(sat)) ? SG_HALF_SAT : 0) |
                        (sg_has(d, W(relu)) ? SG_HALF_RELU : 0) | (sg_has(d, W(NaN)) ? SG_HALF_NAN : 0) |
                        (sg_has(d, W(xorsign)) ? SG_HALF_XORSIGN : 0) | (sg_has(d, W(oob)) ? SG_HALF_OOB : 0);
    sg_shape(d, t, t, sources > 1 ? t : SG_T_none, sources > 2 ? t : SG_T_none, SG_T_none);
    return sg_choose(d, half_tables[d->level]->row[operation][kind]);
}
