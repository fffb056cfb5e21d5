/* decode_compare.c: which comparisons and selections PTX has, and the rows for them. See decode.h. */
#include "softgpu/alu/decode.h"

static const struct sg_compare_table *const compare_tables[] = SG_CLONE_ADDRESSES(sg_compare_table);

static int float_kind(enum sg_type t)
{
    switch (t) {
    case SG_T_f32:    return SG_F32;
    case SG_T_f64:    return SG_F64;
    case SG_T_f16:    return SG_F16;
    case SG_T_bf16:   return SG_BF16;
    case SG_T_f16x2:  return SG_F16X2;
    case SG_T_bf16x2: return SG_BF16X2;
    default:          return -1;
    }
}

static const struct { sg_words word; enum sg_compare compare; } comparisons[] = {
    { W(eq), SG_EQ }, { W(ne), SG_NE }, { W(lt) | W(lo), SG_LT }, { W(le) | W(ls), SG_LE }, { W(gt) | W(hi), SG_GT },
    { W(ge) | W(hs), SG_GE }, { W(equ), SG_EQU }, { W(neu), SG_NEU }, { W(ltu), SG_LTU }, { W(leu), SG_LEU },
    { W(gtu), SG_GTU }, { W(geu), SG_GEU }, { W(num), SG_NUM }, { W(nan), SG_NAN },
};

/* What set writes for true: all ones, or 1.0. 0 where PTX has no such destination. */
static uint32_t truth_of(enum sg_type t)
{
    switch (t) {
    case SG_T_u32:
    case SG_T_s32:    return UINT32_MAX;
    case SG_T_u16:
    case SG_T_s16:    return 0xffff;
    case SG_T_f32:    return 0x3f800000;
    case SG_T_f16:
    case SG_T_f16x2:  return 0x3c00;
    case SG_T_bf16:
    case SG_T_bf16x2: return 0x3f80;
    default:          return 0;
    }
}

/* setp.cmp{.combine}{.ftz}.type p|q, a, b{, c};  set.cmp{.combine}{.ftz}.dtype.stype d, a, b{, c} */
static int decode_comparison(struct sg_decode *d)
{
    const struct sg_compare_table *table = compare_tables[d->level];
    const bool set = d->operation == SG_OP_SET, ftz = sg_has(d, W(ftz));
    if (d->type_count != (set ? 2u : 1u))
        return sg_fail(d, "%s has %s", d->instruction->opcode, set ? "two types" : "one type");
    const enum sg_type t = d->type[set];
    const int integer = sg_type_int(t, true), kind = float_kind(t);
    const bool bits = t == SG_T_b16 || t == SG_T_b32 || t == SG_T_b64;
    const bool is_unsigned = t == SG_T_u16 || t == SG_T_u32 || t == SG_T_u64;
    sg_words orders = kind >= 0 ? W_FLOAT_ORDERS
                      : bits    ? W(eq) | W(ne)
                                : W_ORDERS | (is_unsigned ? W_UNSIGNED_ORDERS : 0);
    const bool may_flush = kind == SG_F32 || kind == SG_F16 || kind == SG_F16X2;
    if (integer < SG_U16 && kind < 0)
        return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(t));
    if (sg_allow(d, orders | W_COMBINES | (may_flush ? W(ftz) : 0), 1, 2) || sg_need_one(d, orders, "comparison") ||
        sg_at_most_one(d, W_COMBINES, "combination"))
        return -1;

    enum sg_compare compare = SG_EQ;
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
        if (sg_has(d, comparisons[i].word))
            compare = comparisons[i].compare;
    const enum sg_combine combine = sg_has(d, W(and)) ? SG_COMBINE_AND : sg_has(d, W(or)) ? SG_COMBINE_OR :
                                    sg_has(d, W(xor)) ? SG_COMBINE_XOR : SG_COMBINE_NONE;
    if (combine != SG_COMBINE_NONE)
        d->alu->predicate_source = 3;
    sg_shape(d, set ? d->type[0] : SG_T_pred, t, t, SG_T_none);
    d->alu->immediate = SG_COMPARE_IMMEDIATE(set ? truth_of(d->type[0]) : 0, combine, compare, ftz);
    if (!set)
        return sg_choose(d, kind < 0 ? table->setp_int[compare][integer] : table->setp_float[kind][compare][ftz]);
    const bool pair = kind == SG_F16X2 || kind == SG_BF16X2,
               to_pair = d->type[0] == SG_T_f16x2 || d->type[0] == SG_T_bf16x2;
    if (!truth_of(d->type[0]) || (to_pair && !pair) || (pair && !to_pair && sg_type_bits(d->type[0]) != 32) ||
        (pair && d->type[0] == SG_T_f32))
        return sg_fail(d, "no set of %s from %s", sg_type_text(d->type[0]), sg_type_text(t));
    return sg_choose(d, kind < 0 ? table->set_int[integer] : table->set_float[kind]);
}

static int decode_selp(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    if (sg_allow(d, 0, 1, 1))
        return -1;
    if (sg_type_int(t, true) < SG_U16 && t != SG_T_f32 && t != SG_T_f64)
        return sg_fail(d, "no selp of %s", sg_type_text(t));
    sg_shape(d, t, t, t, SG_T_none);
    d->alu->predicate_source = 3;
    return sg_choose(d, compare_tables[d->level]->selp[sg_type_bits(t) == 64]);
}

/* slct{.ftz}.type.s32|f32 d, a, b, c */
static int decode_slct(struct sg_decode *d)
{
    if (d->type_count != 2)
        return sg_fail(d, "slct has two types");
    const enum sg_type t = d->type[0], by = d->type[1];
    if (sg_allow(d, by == SG_T_f32 ? W(ftz) : 0, 2, 2))
        return -1;
    if ((sg_type_int(t, true) < SG_U16 && t != SG_T_f32 && t != SG_T_f64) || (by != SG_T_s32 && by != SG_T_f32))
        return sg_fail(d, "no slct of %s by %s", sg_type_text(t), sg_type_text(by));
    sg_shape(d, t, t, t, by, SG_T_none);
    d->alu->immediate = SG_COMPARE_IMMEDIATE(0, 0, 0, sg_has(d, W(ftz)));
    return sg_choose(d, compare_tables[d->level]->slct[sg_type_bits(t) == 64][by == SG_T_f32]);
}

int sg_decode_compare(struct sg_decode *d)
{
    if (d->type_count == 0)
        return sg_fail(d, "%s without a type", d->instruction->opcode);
    switch (d->operation) {
    case SG_OP_SELP: return decode_selp(d);
    case SG_OP_SLCT: return decode_slct(d);
    default:         return decode_comparison(d);
    }
}
