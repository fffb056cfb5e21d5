/* decode_convert.c: which conversions PTX has, and the rows for them. PTX ISA, "cvt" and "cvt.pack". See decode.h. */
#include "softgpu/alu/decode.h"

static const struct sg_bits_table *const bits_tables[] = SG_CLONE_ADDRESSES(sg_bits_table);
static const struct sg_convert_int_table *const int_tables[] = SG_CLONE_ADDRESSES(sg_convert_int_table);
static const struct sg_to_int_table *const to_int_tables[] = SG_CLONE_ADDRESSES(sg_to_int_table);
static const struct sg_convert_float_table *const float_tables[] = SG_CLONE_ADDRESSES(sg_convert_float_table);

static int float_of(enum sg_type t)
{
    switch (t) {
    case SG_T_f16:  return SG_CVT_F16;
    case SG_T_bf16: return SG_CVT_BF16;
    case SG_T_f32:  return SG_CVT_F32;
    case SG_T_f64:  return SG_CVT_F64;
    case SG_T_tf32: return SG_CVT_TF32;
    default:        return -1;
    }
}

static int small_of(enum sg_type t)
{
    switch (t) {
    case SG_T_e4m3x2: return SG_CVT_E4M3;
    case SG_T_e5m2x2: return SG_CVT_E5M2;
    case SG_T_e2m1x2: return SG_CVT_E2M1;
    case SG_T_e2m3x2: return SG_CVT_E2M3;
    case SG_T_e3m2x2: return SG_CVT_E3M2;
    default:          return -1;
    }
}

static int no_conversion(struct sg_decode *d)
{
    return sg_fail(d, "no conversion to %s from %s", sg_type_text(d->type[0]), sg_type_text(d->type[1]));
}

static void set_flags(struct sg_decode *d)
{
    d->alu->immediate = (sg_has(d, W(ftz)) ? SG_CVT_FTZ : 0) | (sg_has(d, W(sat)) ? SG_CVT_SAT : 0) |
                        (sg_has(d, W(relu)) ? SG_CVT_RELU : 0) | (sg_has(d, W(satfinite)) ? SG_CVT_SATFINITE : 0);
}

static int decode_int_to_int(struct sg_decode *d, int to, int from)
{
    if (sg_allow(d, W(sat), 2, 2))
        return -1;
    return sg_choose(d, sg_has(d, W(sat)) ? int_tables[d->level]->saturate[to][from]
                                          : bits_tables[d->level]->resize[to / 2][from]);
}

static int decode_to_float(struct sg_decode *d, int to, int from)
{
    if (to == SG_CVT_TF32)
        return no_conversion(d);
    if (sg_allow(d, W_ROUNDS | W(sat) | (to == SG_CVT_F32 ? W(ftz) : 0), 2, 2) ||
        sg_need_one(d, W_ROUNDS, "rounding (.rn, .rz, .rm, .rp)"))
        return -1;
    return sg_choose(d, int_tables[d->level]->to_float[to][from][sg_rounding(d)]);
}

static int decode_to_int(struct sg_decode *d, int to, int from)
{
    if (from == SG_CVT_TF32)
        return no_conversion(d);
    if (sg_allow(d, W_INTEGRAL_ROUNDS | W(sat) | (from == SG_CVT_F32 ? W(ftz) : 0), 2, 2) ||
        sg_need_one(d, W_INTEGRAL_ROUNDS, "rounding (.rni, .rzi, .rmi, .rpi)"))
        return -1;
    return sg_choose(d, to_int_tables[d->level]->row[to][from][sg_rounding(d)]);
}

static int decode_float_to_float(struct sg_decode *d, int to, int from)
{
    const bool half = to == SG_CVT_F16 || to == SG_CVT_BF16,
               narrows = to == SG_CVT_TF32 || sg_type_bits(d->type[0]) < sg_type_bits(d->type[1]) ||
                         (half && to != from && sg_type_bits(d->type[0]) == sg_type_bits(d->type[1]));
    const bool integral = to == from && sg_has(d, W_INTEGRAL_ROUNDS);
    /* takes a rounding all the same */
    const bool exact = from == SG_CVT_BF16 && (to == SG_CVT_F32 || to == SG_CVT_F64);
    const sg_words rounds = to == SG_CVT_TF32  ? W(rn) | W(rz) | W(rna)
                            : narrows || exact ? W_ROUNDS
                            : to == from       ? W_INTEGRAL_ROUNDS
                                               : 0;
    const sg_words flushes = to == SG_CVT_F32 || from == SG_CVT_F32 ? W(ftz) : 0;
    if (from == SG_CVT_TF32 || (to == SG_CVT_TF32 && from != SG_CVT_F32))
        return no_conversion(d);
    if (sg_allow(d,
                 rounds | (to == SG_CVT_TF32 ? 0 : flushes | W(sat)) |
                     (half || to == SG_CVT_TF32 ? W(relu) | W(satfinite) : 0),
                 2, 2) ||
        /* f16 from bf16 and back: ptxas makes the same code without a rounding as with .rn */
        (narrows && !(half && from <= SG_CVT_BF16) ? sg_need_one(d, rounds, "rounding")
                                                   : sg_at_most_one(d, rounds, "rounding")) ||
        sg_at_most_one(d, W(sat) | W(relu), ".sat or .relu"))
        return -1;
    const struct sg_convert_float_table *table = float_tables[d->level];
    const int rounding = exact ? SG_RN : sg_has(d, W(rna)) ? SG_CVT_RNA : (int)sg_rounding(d);
    return sg_choose(d, integral ? table->integral[to][sg_rounding(d)] : table->row[to][from][rounding]);
}

static int small_of_four(enum sg_type t)
{
    switch (t) {
    case SG_T_e4m3x4: return SG_CVT_E4M3;
    case SG_T_e5m2x4: return SG_CVT_E5M2;
    case SG_T_e2m1x4: return SG_CVT_E2M1;
    case SG_T_e2m3x4: return SG_CVT_E2M3;
    case SG_T_e3m2x4: return SG_CVT_E3M2;
    default: return -1;
    }
}

/* cvt.rs.f16x2.f32 d, a, b, random;  cvt.rs.satfinite.e4m3x4.f32 d, {a, b, e, f}, random */
static int decode_random(struct sg_decode *d)
{
    const struct sg_convert_float_table *table = float_tables[d->level];
    const enum sg_type to = d->type[0];
    const int four = small_of_four(to);
    if (d->type[1] != SG_T_f32 || (four < 0 && to != SG_T_f16x2 && to != SG_T_bf16x2))
        return no_conversion(d);
    if (sg_allow(d, W(rs) | W(relu) | W(satfinite), 2, 2))
        return -1;
    if (four < 0) {
        sg_shape(d, to, SG_T_f32, SG_T_f32, SG_T_b32, SG_T_none);
        return sg_choose(d, table->pair_random[to == SG_T_bf16x2]);
    }
    if (!sg_has(d, W(satfinite)))
        return sg_fail(d, "cvt to %s without .satfinite", sg_type_text(to));
    d->alu->immediate &= ~(uint64_t)SG_CVT_SATFINITE; /* implied in those rows */
    d->alu->grouped = 4;
    sg_shape(d, to, SG_T_f32, SG_T_f32, SG_T_f32, SG_T_f32, SG_T_b32, SG_T_none);
    return sg_choose(d, table->four_random[four]);
}

/* f16x2, bf16x2 and the small formats: from two f32 (a above b), from a pair, to a pair */
static int decode_pairs(struct sg_decode *d)
{
    const struct sg_convert_float_table *table = float_tables[d->level];
    const enum sg_type to = d->type[0], from = d->type[1];
    const bool rounds_to_power = to == SG_T_ue8m0x2, two = from == SG_T_f32, scaled = sg_has(d, W(scaled));
    sg_alu_function *function = NULL;
    sg_words allowed = W(rn) | W(relu), rounds = W(rn);
    /* always with .satfinite, which those rows imply */
    const bool is_finite = small_of(to) >= 0 || to == SG_T_s2f6x2;
    const sg_words finite = is_finite || rounds_to_power ? W(satfinite) : 0;

    if ((to == SG_T_f16x2 || to == SG_T_bf16x2) && two) {
        allowed |= W_ROUNDS | W(satfinite) | W(ftz);
        rounds = W_ROUNDS;
        function = table->pair[to == SG_T_bf16x2][sg_rounding(d)];
    } else if (small_of(to) >= 0 && two)
        function = table->small_from_f32[small_of(to)];
    else if (small_of(to) >= 0 && from == SG_T_f16x2)
        function = table->small_from_f16x2[small_of(to)];
    else if (small_of(to) >= 0 && from == SG_T_bf16x2)
        function = table->small_from_bf16x2[small_of(to)];
    else if (to == SG_T_bf16x2 && (small_of(from) >= 0 || from == SG_T_s2f6x2)) {
        allowed |= W(satfinite) | W(scaled);
        function =
            from == SG_T_s2f6x2 ? table->fixed_to_bf16x2[scaled] : table->small_to_bf16x2[scaled][small_of(from)];
    } else if (to == SG_T_s2f6x2 && (two || from == SG_T_bf16x2)) {
        allowed |= W(scaled);
        function = (two ? table->fixed_from_f32 : table->fixed_from_bf16x2)[scaled];
    } else if (small_of(from) >= 0 && to == SG_T_f16x2)
        function = table->small_to_f16x2[small_of(from)];
    else if (rounds_to_power && (two || from == SG_T_bf16x2)) {
        allowed = rounds = W(rz) | W(rp);
        function = (two ? table->ue8m0_from_f32 : table->ue8m0_from_bf16x2)[sg_has(d, W(rp))];
    } else if (to == SG_T_bf16x2 && from == SG_T_ue8m0x2) {
        allowed = W(rn);
        function = table->ue8m0_to_bf16x2;
    } else
        return no_conversion(d);
    if (sg_allow(d, allowed | finite, 2, 2) || sg_need_one(d, rounds, "rounding"))
        return -1;
    if (is_finite && !sg_has(d, W(satfinite)))
        return sg_fail(d, "cvt to %s without .satfinite", sg_type_text(to));
    if (is_finite)
        d->alu->immediate &= ~(uint64_t)SG_CVT_SATFINITE;
    if (two)
        sg_shape(d, to, from, from, scaled ? SG_T_ue8m0x2 : SG_T_none, SG_T_none);
    else
        sg_shape(d, to, from, scaled ? SG_T_ue8m0x2 : SG_T_none, SG_T_none);
    return sg_choose(d, function);
}

/* cvt.pack.sat.u16.s32 d, a, b;  cvt.pack.sat.u8.s32.b32 d, a, b, c */
static int decode_pack(struct sg_decode *d)
{
    if (sg_allow(d, W(pack) | W(sat), 2, 3) || !sg_has(d, W(sat)))
        return sg_has(d, W(sat)) ? -1 : sg_fail(d, "cvt.pack without .sat");
    const enum sg_type to = d->type[0];
    const bool with_c = d->type_count == 3;
    unsigned bits;
    switch (to) {
    case SG_T_u2: case SG_T_s2: bits = 2; break;
    case SG_T_u4: case SG_T_s4: bits = 4; break;
    case SG_T_u8: case SG_T_s8: bits = 8; break;
    case SG_T_u16: case SG_T_s16: bits = 16; break;
    default: return sg_fail(d, "no cvt.pack to %s", sg_type_text(to));
    }
    if (d->type[1] != SG_T_s32 || with_c != (bits < 16) || (with_c && d->type[2] != SG_T_b32))
        return sg_fail(d, "no cvt.pack to %s from %s", sg_type_text(to), sg_type_text(d->type[1]));
    const bool is_signed = to == SG_T_s2 || to == SG_T_s4 || to == SG_T_s8 || to == SG_T_s16;
    sg_shape(d, SG_T_b32, SG_T_s32, SG_T_s32, with_c ? SG_T_b32 : SG_T_none, SG_T_none);
    d->alu->immediate = SG_PACK_IMMEDIATE(bits, is_signed);
    return sg_choose(d, int_tables[d->level]->pack[with_c]);
}

int sg_decode_convert(struct sg_decode *d)
{
    if (sg_has(d, W(pack)))
        return decode_pack(d);
    if (d->type_count != 2)
        return sg_fail(d, "cvt takes two types, not %u", d->type_count);
    const enum sg_type to = d->type[0], from = d->type[1];
    const int to_int = sg_type_int(to, false), from_int = sg_type_int(from, false), to_float = float_of(to),
              from_float = float_of(from);
    set_flags(d);
    if (sg_has(d, W(rs)))
        return decode_random(d);
    if ((to_int < 0 && to_float < 0) || (from_int < 0 && from_float < 0))
        return decode_pairs(d);
    sg_shape(d, to, from, SG_T_none);
    if (to_int >= 0)
        return from_int >= 0 ? decode_int_to_int(d, to_int, from_int) : decode_to_int(d, to_int, from_float);
    return from_int >= 0 ? decode_to_float(d, to_float, from_int) : decode_float_to_float(d, to_float, from_float);
}
