/*
 * decode_video.c: which video instructions PTX has, and the rows for them. See decode.h and video.h.
 *
 * Selectors are written on the operands (%r1.b0, %r2.h32): the reader gives those of one byte or half as the
 * operand's component, and longer ones as PTX_SELECTOR with the text.
 */
#include <string.h>

#include "softgpu/alu/decode.h"
#include "softgpu/alu/video.h"

static const struct sg_video_table *const video_tables[] = SG_CLONE_ADDRESSES(sg_video_table);

static bool is_signed(enum sg_type t) { return t == SG_T_s32; }

static int part_of(struct sg_decode *d, unsigned operand, unsigned *part)
{
    const struct ptx_operand *o = &d->instruction->operands[operand];
    if (o->component < PTX_BYTE_0)
        *part = SG_PART_WHOLE;
    else if (o->component < PTX_HALF_0 + 2)
        *part = o->component >= PTX_HALF_0 ? SG_PART_H0 + (unsigned)(o->component - PTX_HALF_0)
                                           : SG_PART_B0 + (unsigned)(o->component - PTX_BYTE_0);
    else
        return sg_fail(d, "%s takes one byte or half of operand %u, not .%s", d->instruction->opcode, operand,
                       o->text ? o->text : "?");
    return 0;
}

/* The selector as text, without the letter, which has to fit the size of the elements; NULL: not given */
static int digits_of(struct sg_decode *d, unsigned operand, unsigned elements, const char **digits)
{
    static const char *const single[] = { "b0", "b1", "b2", "b3", "h0", "h1" };
    const struct ptx_operand *o = &d->instruction->operands[operand];
    const char *text = o->component < PTX_BYTE_0       ? NULL
                       : o->component < PTX_HALF_0 + 2 ? single[o->component - PTX_BYTE_0]
                                                       : o->text;
    *digits = text ? text + 1 : NULL;
    return !text || text[0] == (elements == 4 ? 'b' : 'h')
               ? 0
               : sg_fail(d, "%s takes no .%s", d->instruction->opcode, text);
}

/* "7654", highest element first, of the 2 * elements in b:a */
static int elements_of(struct sg_decode *d, unsigned operand, unsigned elements, unsigned first, unsigned *selected)
{
    const char *digits;
    if (digits_of(d, operand, elements, &digits))
        return -1;
    *selected = 0;
    for (unsigned e = 0; !digits && e < elements; e++)
        *selected |= (first + e) << (3 * e);
    if (!digits)
        return 0;
    if (strlen(digits) != elements || strspn(digits, elements == 4 ? "01234567" : "0123") != elements)
        return sg_fail(d, "%s takes %u elements of its operands, not .%s", d->instruction->opcode, elements, digits);
    for (unsigned e = 0; e < elements; e++)
        *selected |= (unsigned)(digits[elements - 1 - e] - '0') << (3 * e);
    return 0;
}

/* "20": which elements of d are written; all where nothing is said */
static int mask_of(struct sg_decode *d, unsigned elements, unsigned *mask)
{
    const char *digits;
    if (digits_of(d, 0, elements, &digits))
        return -1;
    *mask = digits ? 0 : (1u << elements) - 1;
    for (; digits && *digits; digits++) {
        const unsigned at = (unsigned)(*digits - '0');
        if (at >= elements || *mask >> at & 1)
            return sg_fail(d, "%s has no such mask of its destination", d->instruction->opcode);
        *mask |= 1u << at;
    }
    return 0;
}

static int compare_of(struct sg_decode *d, unsigned *compare)
{
    static const struct { sg_words word; enum sg_compare compare; } names[] = { { W(eq), SG_EQ }, { W(ne), SG_NE },
                                                                                { W(lt), SG_LT }, { W(le), SG_LE },
                                                                                { W(gt), SG_GT }, { W(ge), SG_GE } };
    if (sg_need_one(d, W_ORDERS, "comparison"))
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sg_has(d, names[i].word))
            *compare = names[i].compare;
    return 0;
}

/* {dtype.}atype.btype: u32 or s32 each; the result of vset is u32 */
static int types_of(struct sg_decode *d, bool set, struct sg_video *v)
{
    for (unsigned i = 0; i < d->type_count; i++)
        if (d->type[i] != SG_T_u32 && d->type[i] != SG_T_s32)
            return sg_fail(d, "no %s of %s: u32 or s32", d->instruction->opcode, sg_type_text(d->type[i]));
    v->d_signed = !set && is_signed(d->type[0]);
    v->a_signed = is_signed(d->type[!set]);
    v->b_signed = is_signed(d->type[!set + 1]);
    return 0;
}

static int decode_scalar(struct sg_decode *d, enum sg_video_operation operation)
{
    const bool set = operation == SG_VSET, shift = operation == SG_VSHL || operation == SG_VSHR;
    const sg_words seconds = W(add) | W(min) | W(max), modes = shift ? W(clamp) | W(wrap) : 0,
                   orders = set ? W_ORDERS : 0;
    const unsigned types = set ? 2 : 3;
    struct sg_video v = { 0 };
    if (sg_allow(d, seconds | modes | orders | (set ? 0 : W(sat)), types, types) ||
        sg_at_most_one(d, seconds, "second operation") || (shift && sg_need_one(d, modes, "mode (.clamp or .wrap)")) ||
        (set && compare_of(d, &v.compare)) || types_of(d, set, &v))
        return -1;
    if (d->instruction->operand_count < 3)
        return sg_fail(d, "%s takes at least two operands after its destination", d->instruction->opcode);
    if (shift && v.b_signed)
        return sg_fail(d, "%s is by u32", d->instruction->opcode);
    if (part_of(d, 0, &v.d) || part_of(d, 1, &v.a) || part_of(d, 2, &v.b))
        return -1;
    v.sat = sg_has(d, W(sat));
    v.wrap = sg_has(d, W(wrap));
    v.second = sg_has(d, W(add))   ? SG_VIDEO_ADD
               : sg_has(d, W(min)) ? SG_VIDEO_MIN
               : sg_has(d, W(max)) ? SG_VIDEO_MAX
                                   : SG_VIDEO_MERGE;
    v.has_c = v.second != SG_VIDEO_MERGE || v.d != SG_PART_WHOLE;
    if (v.second != SG_VIDEO_MERGE && v.d != SG_PART_WHOLE)
        return sg_fail(d, "%s writes a part of its destination or has a second operation, not both",
                       d->instruction->opcode);
    const enum sg_type to = v.d_signed ? SG_T_s32 : SG_T_u32;
    sg_shape(d, to, SG_T_b32, SG_T_b32, v.has_c ? to : SG_T_none, SG_T_none);
    d->alu->immediate = sg_video_pack(&v);
    return sg_choose(d, video_tables[d->level]->scalar[operation]);
}

/* vmad.dtype.atype.btype{.po}{.sat}{.shr7|.shr15} d, {-}a, {-}b, {-}c */
static int decode_vmad(struct sg_decode *d)
{
    struct sg_video v = { 0 };
    if (sg_allow(d, W(po) | W(sat) | W(shr7) | W(shr15), 3, 3) || sg_at_most_one(d, W(shr7) | W(shr15), "scale") ||
        types_of(d, false, &v))
        return -1;
    if (d->instruction->operand_count != 4)
        return sg_fail(d, "vmad takes three operands after its destination");
    const struct ptx_operand *o = d->instruction->operands;
    if (part_of(d, 1, &v.a) || part_of(d, 2, &v.b))
        return -1;
    v.sat = sg_has(d, W(sat));
    v.plus_one = sg_has(d, W(po));
    v.negate_product = o[1].negated != o[2].negated;
    v.negate_c = o[3].negated;
    v.scale = sg_has(d, W(shr7)) ? 7 : sg_has(d, W(shr15)) ? 15 : 0;
    if (v.plus_one && (o[1].negated || o[2].negated || o[3].negated))
        return sg_fail(d, "vmad.po takes no negated operand");
    if (v.negate_product && v.negate_c)
        return sg_fail(d, "vmad negates the product or c, not both");
    sg_shape(d, v.d_signed ? SG_T_s32 : SG_T_u32, SG_T_b32, SG_T_b32, SG_T_b32, SG_T_none);
    d->alu->immediate = sg_video_pack(&v);
    return sg_choose(d, video_tables[d->level]->scalar[SG_VMAD]);
}

static int decode_simd(struct sg_decode *d, enum sg_video_operation operation, unsigned elements)
{
    const bool set = operation == SG_VSET;
    const unsigned types = set ? 2 : 3;
    struct sg_video v = { 0 };
    if (sg_allow(d, W(add) | (set ? W_ORDERS : W(sat)), types, types) || (set && compare_of(d, &v.compare)) ||
        types_of(d, set, &v) || sg_at_most_one(d, W(add) | W(sat), ".add or .sat"))
        return -1;
    if (d->instruction->operand_count != 4)
        return sg_fail(d, "%s takes three operands after its destination", d->instruction->opcode);
    if (mask_of(d, elements, &v.d) || elements_of(d, 1, elements, 0, &v.a) ||
        elements_of(d, 2, elements, elements, &v.b))
        return -1;
    v.sat = sg_has(d, W(sat));
    v.second = sg_has(d, W(add)) ? SG_VIDEO_ADD : SG_VIDEO_MERGE;
    v.has_c = true;
    sg_shape(d, v.d_signed ? SG_T_s32 : SG_T_u32, SG_T_b32, SG_T_b32, SG_T_b32, SG_T_none);
    d->alu->immediate = sg_video_pack(&v);
    return sg_choose(d, video_tables[d->level]->simd[operation][elements == 4]);
}

/* The operation is in the opcode's entry: enum sg_video_operation, and the number of elements (1, 2, 4) above it */
int sg_decode_video(struct sg_decode *d)
{
    const enum sg_video_operation operation = (enum sg_video_operation)(d->operation % SG_VIDEO_ELEMENTS);
    const unsigned elements = (unsigned)(d->operation / SG_VIDEO_ELEMENTS);
    if (elements > 1)
        return decode_simd(d, operation, elements);
    return operation == SG_VMAD ? decode_vmad(d) : decode_scalar(d, operation);
}
