/* decode_integer.c: which integer and bit instructions PTX has, and the rows for them. See decode.h. */
#include "softgpu/alu/decode.h"

static const struct sg_integer_table *const integer_tables[] = SG_CLONE_ADDRESSES(sg_integer_table);
static const struct sg_bits_table *const bits_tables[] = SG_CLONE_ADDRESSES(sg_bits_table);

static enum sg_type twice(enum sg_type t)
{
    return t == SG_T_u16   ? SG_T_u32
           : t == SG_T_s16 ? SG_T_s32
           : t == SG_T_u32 ? SG_T_u64
           : t == SG_T_s32 ? SG_T_s64
                           : SG_T_none;
}

static int packed_of(enum sg_type t)
{
    return t == SG_T_u16x2 ? 0 : t == SG_T_s16x2 ? 1 : t == SG_T_u8x4 ? 2 : t == SG_T_s8x4 ? 3 : -1;
}

static int decode_packed(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    const bool relu = sg_has(d, W(relu)), sat = sg_has(d, W(sat));
    int operation;
    switch (d->operation) {
    case SG_OP_ADD: operation = sat ? SG_PACKED_ADD_SAT : SG_PACKED_ADD; break;
    case SG_OP_SUB: operation = sat ? SG_PACKED_SUB_SAT : SG_PACKED_SUB; break;
    case SG_OP_MIN: operation = relu ? SG_PACKED_MIN_RELU : SG_PACKED_MIN; break;
    case SG_OP_MAX: operation = relu ? SG_PACKED_MAX_RELU : SG_PACKED_MAX; break;
    case SG_OP_NEG: operation = SG_PACKED_NEG; break;
    default: return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(t));
    }
    const bool selects = d->operation == SG_OP_MIN || d->operation == SG_OP_MAX,
               adds = d->operation == SG_OP_ADD || d->operation == SG_OP_SUB;
    if (sg_allow(d, selects ? W(relu) : adds ? W(sat) : 0, 1, 1))
        return -1;
    sg_shape(d, t, t, d->operation == SG_OP_NEG ? SG_T_none : t, SG_T_none);
    return sg_choose(d, integer_tables[d->level]->packed[operation][packed_of(t)]);
}

/* mul, mad and madc: which part of the product */
static int choose_part(struct sg_decode *d, int lo, int hi, int wide)
{
    return sg_has(d, W(lo)) ? lo : sg_has(d, W(hi)) ? hi : wide;
}

int sg_decode_integer(struct sg_decode *d)
{
    const bool cc = sg_has(d, W(cc)), sat = sg_has(d, W(sat)), relu = sg_has(d, W(relu)), wide = sg_has(d, W(wide));
    const enum sg_type t = d->type[0];
    const int kind = sg_type_int(t, false);
    sg_words allowed = 0, parts = 0;
    int operation = -1, sources = 2;

    if (packed_of(t) >= 0)
        return decode_packed(d);
    if (d->type_count != 1 || kind < 0)
        return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(d->type_count ? t : SG_T_none));
    switch (d->operation) {
    case SG_OP_ADD:
        allowed = W(cc) | W(sat);
        operation = cc ? SG_INTEGER_ADD_CC : sat ? SG_INTEGER_ADD_SAT : SG_INTEGER_ADD;
        break;
    case SG_OP_SUB:
        allowed = W(cc) | W(sat);
        operation = cc ? SG_INTEGER_SUB_CC : sat ? SG_INTEGER_SUB_SAT : SG_INTEGER_SUB;
        break;
    case SG_OP_ADDC:
        allowed = W(cc);
        operation = cc ? SG_INTEGER_ADDC_CC : SG_INTEGER_ADDC;
        break;
    case SG_OP_SUBC:
        allowed = W(cc);
        operation = cc ? SG_INTEGER_SUBC_CC : SG_INTEGER_SUBC;
        break;
    case SG_OP_MUL:
        parts = W(lo) | W(hi) | W(wide);
        operation = choose_part(d, SG_INTEGER_MUL_LO, SG_INTEGER_MUL_HI, SG_INTEGER_MUL_WIDE);
        break;
    case SG_OP_MAD:
        sources = 3;
        parts = W(lo) | W(hi) | W(wide);
        allowed = W(cc) | (sg_has(d, W(hi)) ? W(sat) : 0);
        operation = cc    ? choose_part(d, SG_INTEGER_MAD_LO_CC, SG_INTEGER_MAD_HI_CC, -1)
                    : sat ? SG_INTEGER_MAD_HI_SAT
                          : choose_part(d, SG_INTEGER_MAD_LO, SG_INTEGER_MAD_HI, SG_INTEGER_MAD_WIDE);
        break;
    case SG_OP_MADC:
        sources = 3;
        parts = W(lo) | W(hi);
        allowed = W(cc);
        operation = cc ? choose_part(d, SG_INTEGER_MADC_LO_CC, SG_INTEGER_MADC_HI_CC, -1)
                       : choose_part(d, SG_INTEGER_MADC_LO, SG_INTEGER_MADC_HI, -1);
        break;
    case SG_OP_MUL24:
        parts = W(lo) | W(hi);
        operation = choose_part(d, SG_INTEGER_MUL24_LO, SG_INTEGER_MUL24_HI, -1);
        break;
    case SG_OP_MAD24:
        sources = 3;
        parts = W(lo) | W(hi);
        allowed = sg_has(d, W(hi)) ? W(sat) : 0;
        operation = sat ? SG_INTEGER_MAD24_HI_SAT : choose_part(d, SG_INTEGER_MAD24_LO, SG_INTEGER_MAD24_HI, -1);
        break;
    case SG_OP_SAD: sources = 3; operation = SG_INTEGER_SAD; break;
    case SG_OP_DIV: operation = SG_INTEGER_DIV; break;
    case SG_OP_REM: operation = SG_INTEGER_REM; break;
    case SG_OP_ABS: sources = 1; operation = SG_INTEGER_ABS; break;
    case SG_OP_NEG: sources = 1; operation = SG_INTEGER_NEG; break;
    case SG_OP_MIN: allowed = W(relu); operation = relu ? SG_INTEGER_MIN_RELU : SG_INTEGER_MIN; break;
    case SG_OP_MAX: allowed = W(relu); operation = relu ? SG_INTEGER_MAX_RELU : SG_INTEGER_MAX; break;
    default: break;
    }
    if (sg_allow(d, allowed | parts, 1, 1) || (parts && sg_need_one(d, parts, ".lo, .hi or .wide")))
        return -1;
    if (cc && (sat || wide))
        return sg_fail(d, "%s.cc has neither .sat nor .wide", d->instruction->opcode);
    if (operation < 0)
        return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(t));
    d->alu->reads_carry = d->operation == SG_OP_ADDC || d->operation == SG_OP_SUBC || d->operation == SG_OP_MADC;
    d->alu->writes_carry = cc;
    sg_shape(d, wide ? twice(t) : t, t, sources > 1 ? t : SG_T_none, sources > 2 ? wide ? twice(t) : t : SG_T_none,
             SG_T_none);
    return sg_choose(d, integer_tables[d->level]->row[operation][kind]);
}

static int width_of(enum sg_type t)
{
    switch (sg_type_bits(t)) {
    case 1:  return SG_WIDTH_PRED;
    case 16: return SG_WIDTH_16;
    case 32: return SG_WIDTH_32;
    case 64: return SG_WIDTH_64;
    default: return -1;
    }
}

static bool is_signed(enum sg_type t) { return t == SG_T_s8 || t == SG_T_s16 || t == SG_T_s32 || t == SG_T_s64; }
static bool is_bits(enum sg_type t) { return t == SG_T_b16 || t == SG_T_b32 || t == SG_T_b64; }

static int decode_logic(struct sg_decode *d, enum sg_logic logic)
{
    const enum sg_type t = d->type[0];
    const bool unary = logic == SG_NOT || logic == SG_CNOT;
    if (sg_allow(d, 0, 1, 1))
        return -1;
    if (!is_bits(t) && t != SG_T_pred)
        return sg_fail(d, "no %s of %s: b16, b32, b64 or pred", d->instruction->opcode, sg_type_text(t));
    sg_shape(d, t, t, unary ? SG_T_none : t, SG_T_none);
    return sg_choose(d, bits_tables[d->level]->logic[logic][width_of(t)]);
}

static int decode_shift(struct sg_decode *d)
{
    const enum sg_type t = d->type[0];
    if (sg_allow(d, 0, 1, 1))
        return -1;
    if (sg_type_int(t, true) < SG_U16 || (d->operation == SG_OP_SHL && !is_bits(t)))
        return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(t));
    const enum sg_shift shift = d->operation == SG_OP_SHL ? SG_SHL : is_signed(t) ? SG_SHR_SIGNED : SG_SHR_UNSIGNED;
    sg_shape(d, t, t, SG_T_u32, SG_T_none);
    return sg_choose(d, bits_tables[d->level]->shift[shift][width_of(t)]);
}

/* lop3.b32 d, a, b, c, table;  lop3.or.b32 d|p, a, b, c, table, q */
static int decode_lop3(struct sg_decode *d)
{
    if (sg_allow(d, W(or) | W(and), 1, 1) || sg_at_most_one(d, W(or) | W(and), "combination"))
        return -1;
    if (d->type[0] != SG_T_b32)
        return sg_fail(d, "no lop3 of %s: b32", sg_type_text(d->type[0]));
    const enum sg_lop3_predicate predicate = sg_has(d, W(or))    ? SG_LOP3_OR
                                             : sg_has(d, W(and)) ? SG_LOP3_AND
                                                                 : SG_LOP3_PLAIN;
    sg_shape(d, SG_T_b32, SG_T_b32, SG_T_b32, SG_T_b32, SG_T_none);
    d->alu->immediate_source = 4;
    if (predicate != SG_LOP3_PLAIN) {
        d->alu->second_predicate = true;
        d->alu->predicate_source = 5;
    }
    return sg_choose(d, bits_tables[d->level]->lop3[predicate]);
}

static int decode_shf(struct sg_decode *d)
{
    if (sg_allow(d, W(l) | W(r) | W(wrap) | W(clamp), 1, 1) || sg_need_one(d, W(l) | W(r), "direction (.l or .r)") ||
        sg_need_one(d, W(wrap) | W(clamp), "mode (.wrap or .clamp)"))
        return -1;
    if (d->type[0] != SG_T_b32)
        return sg_fail(d, "no shf of %s: b32", sg_type_text(d->type[0]));
    sg_shape(d, SG_T_b32, SG_T_b32, SG_T_b32, SG_T_u32, SG_T_none);
    return sg_choose(d, bits_tables[d->level]->funnel[sg_has(d, W(r))][sg_has(d, W(clamp))]);
}

static int decode_prmt(struct sg_decode *d)
{
    const sg_words modes = W(f4e) | W(b4e) | W(rc8) | W(ecl) | W(ecr) | W(rc16);
    if (sg_allow(d, modes, 1, 1) || sg_at_most_one(d, modes, "mode"))
        return -1;
    if (d->type[0] != SG_T_b32)
        return sg_fail(d, "no prmt of %s: b32", sg_type_text(d->type[0]));
    const enum sg_prmt mode = sg_has(d, W(f4e))    ? SG_PRMT_F4E
                              : sg_has(d, W(b4e))  ? SG_PRMT_B4E
                              : sg_has(d, W(rc8))  ? SG_PRMT_RC8
                              : sg_has(d, W(ecl))  ? SG_PRMT_ECL
                              : sg_has(d, W(ecr))  ? SG_PRMT_ECR
                              : sg_has(d, W(rc16)) ? SG_PRMT_RC16
                                                   : SG_PRMT_INDEX;
    sg_shape(d, SG_T_b32, SG_T_b32, SG_T_b32, SG_T_b32, SG_T_none);
    return sg_choose(d, bits_tables[d->level]->prmt[mode]);
}

/* popc, clz, brev, bfind, bfe, bfi: 32 or 64 bits */
static int decode_field(struct sg_decode *d)
{
    const struct sg_bits_table *table = bits_tables[d->level];
    const enum sg_type t = d->type[0];
    const bool by_sign = d->operation == SG_OP_BFIND || d->operation == SG_OP_BFE, s = is_signed(t);
    if (sg_allow(d, d->operation == SG_OP_BFIND ? W(shiftamt) : 0, 1, 1))
        return -1;
    const bool fits =
        by_sign ? t == SG_T_u32 || t == SG_T_s32 || t == SG_T_u64 || t == SG_T_s64 : t == SG_T_b32 || t == SG_T_b64;
    if (!fits)
        return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(t));
    const unsigned wide = sg_type_bits(t) == 64;
    switch (d->operation) {
    case SG_OP_POPC:
        sg_shape(d, SG_T_u32, t, SG_T_none);
        return sg_choose(d, table->popc[wide]);
    case SG_OP_CLZ:
        sg_shape(d, SG_T_u32, t, SG_T_none);
        return sg_choose(d, table->clz[wide]);
    case SG_OP_BREV:
        sg_shape(d, t, t, SG_T_none);
        return sg_choose(d, table->brev[wide]);
    case SG_OP_BFIND:
        sg_shape(d, SG_T_u32, t, SG_T_none);
        return sg_choose(d, table->bfind[wide][s][sg_has(d, W(shiftamt))]);
    case SG_OP_BFE:
        sg_shape(d, t, t, SG_T_u32, SG_T_u32, SG_T_none);
        return sg_choose(d, table->bfe[wide][s]);
    default:
        sg_shape(d, t, t, t, SG_T_u32, SG_T_u32, SG_T_none);
        return sg_choose(d, table->bfi[wide]);
    }
}

static int decode_mask(struct sg_decode *d)
{
    const bool szext = d->operation == SG_OP_SZEXT;
    if (sg_allow(d, W(wrap) | W(clamp), 1, 1) || sg_need_one(d, W(wrap) | W(clamp), "mode (.wrap or .clamp)"))
        return -1;
    const enum sg_type t = d->type[0];
    if (szext ? t != SG_T_u32 && t != SG_T_s32 : t != SG_T_b32)
        return sg_fail(d, "no %s of %s", d->instruction->opcode, sg_type_text(t));
    const bool clamp = sg_has(d, W(clamp));
    sg_shape(d, t, t, SG_T_u32, SG_T_none);
    return sg_choose(d, szext ? bits_tables[d->level]->szext[clamp][is_signed(t)] : bits_tables[d->level]->bmsk[clamp]);
}

/* dp4a.atype.btype d, a, b, c;  dp2a.lo.atype.btype */
static int decode_dot(struct sg_decode *d)
{
    const bool two = d->operation == SG_OP_DP2A;
    if (sg_allow(d, two ? W(lo) | W(hi) : 0, 2, 2) || (two && sg_need_one(d, W(lo) | W(hi), ".lo or .hi")))
        return -1;
    for (unsigned i = 0; i < 2; i++)
        if (d->type[i] != SG_T_u32 && d->type[i] != SG_T_s32)
            return sg_fail(d, "no %s of %s: u32 or s32", d->instruction->opcode, sg_type_text(d->type[i]));
    const bool a = is_signed(d->type[0]), b = is_signed(d->type[1]);
    const enum sg_type c = a || b ? SG_T_s32 : SG_T_u32;
    sg_shape(d, c, SG_T_b32, SG_T_b32, c, SG_T_none);
    return sg_choose(d, two ? bits_tables[d->level]->dp2a[sg_has(d, W(hi))][a][b] : bits_tables[d->level]->dp4a[a][b]);
}

static int decode_fns(struct sg_decode *d)
{
    if (sg_allow(d, 0, 1, 1))
        return -1;
    if (d->type[0] != SG_T_b32)
        return sg_fail(d, "no fns of %s: b32", sg_type_text(d->type[0]));
    sg_shape(d, SG_T_b32, SG_T_b32, SG_T_u32, SG_T_s32, SG_T_none);
    return sg_choose(d, bits_tables[d->level]->fns);
}

int sg_decode_bits(struct sg_decode *d)
{
    switch (d->operation) {
    case SG_OP_AND:  return decode_logic(d, SG_AND);
    case SG_OP_OR:   return decode_logic(d, SG_OR);
    case SG_OP_XOR:  return decode_logic(d, SG_XOR);
    case SG_OP_NOT:  return decode_logic(d, SG_NOT);
    case SG_OP_CNOT: return decode_logic(d, SG_CNOT);
    case SG_OP_SHL:
    case SG_OP_SHR:  return decode_shift(d);
    case SG_OP_LOP3: return decode_lop3(d);
    case SG_OP_SHF:  return decode_shf(d);
    case SG_OP_PRMT: return decode_prmt(d);
    case SG_OP_BMSK:
    case SG_OP_SZEXT: return decode_mask(d);
    case SG_OP_DP4A:
    case SG_OP_DP2A: return decode_dot(d);
    case SG_OP_FNS:  return decode_fns(d);
    default:         return decode_field(d);
    }
}
