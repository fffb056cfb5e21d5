/*
 * decode_words.c: what the decoders of all families share: types and words by name, the checks of what may stand
 * together, and the description of the operands. See decode.h.
 */
#include "softgpu/alu/decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct { const char *text; enum ptx_type ptx; unsigned bits; } types[SG_TYPE_COUNT] = {
    [SG_T_none] = { "no type", PTX_NONE, 0 },
#define X(name, ptx, bits) [SG_T_##name] = { #name, ptx, bits },
    SG_TYPES(X)
#undef X
};
static const char *const words[SG_WORD_COUNT] = {
#define X(name) [SG_WORD_##name] = #name,
    SG_WORDS(X)
#undef X
        [SG_WORD_scaled] = "scaled::n2::ue8m0",
};

const char *sg_type_text(enum sg_type t) { return types[t].text; }
static enum ptx_type sg_type_ptx(enum sg_type t) { return types[t].ptx; }
unsigned sg_type_bits(enum sg_type t) { return types[t].bits; }

static enum sg_cell sg_type_cell(enum sg_type t)
{
    const unsigned bits = types[t].bits;
    return bits == 0    ? SG_CELL_NONE
           : bits == 1  ? SG_CELL_PRED
           : bits <= 32 ? SG_CELL_32
           : bits == 64 ? SG_CELL_64
                        : SG_CELL_128;
}

int sg_type_int(enum sg_type t, bool b)
{
    switch (t) {
    case SG_T_u8:  return SG_U8;
    case SG_T_s8:  return SG_S8;
    case SG_T_u16: return SG_U16;
    case SG_T_s16: return SG_S16;
    case SG_T_u32: return SG_U32;
    case SG_T_s32: return SG_S32;
    case SG_T_u64: return SG_U64;
    case SG_T_s64: return SG_S64;
    case SG_T_b8:  return b ? SG_U8 : -1;
    case SG_T_b16: return b ? SG_U16 : -1;
    case SG_T_b32: return b ? SG_U32 : -1;
    case SG_T_b64: return b ? SG_U64 : -1;
    default:       return -1;
    }
}

int sg_type_half(enum sg_type t)
{
    switch (t) {
    case SG_T_f16:    return SG_HALF_F16;
    case SG_T_bf16:   return SG_HALF_BF16;
    case SG_T_f16x2:  return SG_HALF_F16X2;
    case SG_T_bf16x2: return SG_HALF_BF16X2;
    default:          return -1;
    }
}

enum sg_round sg_rounding(const struct sg_decode *d)
{
    return sg_has(d, W(rz) | W(rzi))   ? SG_RZ
           : sg_has(d, W(rm) | W(rmi)) ? SG_RM
           : sg_has(d, W(rp) | W(rpi)) ? SG_RP
                                       : SG_RN;
}

int sg_fail(struct sg_decode *d, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (d->why_size)
        vsnprintf(d->why, d->why_size, format, arguments);
    va_end(arguments);
    return -1;
}

/* ".sat.u64": modifiers as they were written, cut to size */
static void describe(const struct sg_decode *d, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < d->instruction->modifier_count && at + 1 < size; i++)
        at += (size_t)snprintf(text + at, size - at, ".%s", d->instruction->modifiers[i]);
}

int sg_allow(struct sg_decode *d, sg_words allowed, unsigned min_types, unsigned max_types)
{
    char of[80];
    describe(d, of, sizeof of);
    for (unsigned i = 0; i < SG_WORD_COUNT; i++)
        if (d->words & ~allowed & (sg_words)1 << i)
            return sg_fail(d, "%s takes no .%s here (%s%s)", d->instruction->opcode, words[i],
                           d->instruction->opcode, of);
    if (d->type_count < min_types || d->type_count > max_types)
        return sg_fail(d, "%s takes %u type%s, not %u (%s%s)", d->instruction->opcode, min_types,
                       min_types == 1 ? "" : "s", d->type_count, d->instruction->opcode, of);
    return 0;
}

int sg_at_most_one(struct sg_decode *d, sg_words of, const char *kind)
{
    const sg_words present = d->words & of;
    return present & (present - 1) ? sg_fail(d, "%s with more than one %s", d->instruction->opcode, kind) : 0;
}

int sg_need_one(struct sg_decode *d, sg_words of, const char *kind)
{
    if (!sg_has(d, of))
        return sg_fail(d, "%s without a %s", d->instruction->opcode, kind);
    return sg_at_most_one(d, of, kind);
}

int sg_choose(struct sg_decode *d, sg_alu_function *function)
{
    char of[80];
    d->alu->function = function;
    if (function)
        return 0;
    describe(d, of, sizeof of);
    return sg_fail(d, "PTX has no %s%s", d->instruction->opcode, of);
}

void sg_shape(struct sg_decode *d, enum sg_type destination, ...)
{
    va_list sources;
    d->alu->destination = sg_type_cell(destination);
    d->alu->destination_type = sg_type_ptx(destination);
    va_start(sources, destination);
    for (;;) {
        const enum sg_type t = (enum sg_type)va_arg(sources, int);
        if (t == SG_T_none || d->alu->source_count == SG_MAX_SOURCES)
            break;
        d->alu->source[d->alu->source_count] = sg_type_cell(t);
        d->alu->source_type[d->alu->source_count++] = sg_type_ptx(t);
    }
    va_end(sources);
}

int sg_modifier(struct sg_decode *d, const char *text)
{
    for (int t = SG_T_none + 1; t < SG_TYPE_COUNT; t++) {
        if (strcmp(text, types[t].text))
            continue;
        if (d->type_count == SG_MAX_TYPES)
            return sg_fail(d, "%s with more than %d types", d->instruction->opcode, SG_MAX_TYPES);
        d->type[d->type_count++] = (enum sg_type)t;
        return 0;
    }
    for (unsigned w = 0; w < SG_WORD_COUNT; w++) {
        if (strcmp(text, words[w]))
            continue;
        if (d->words & (sg_words)1 << w)
            return sg_fail(d, "modifier '%s' twice", text);
        d->words |= (sg_words)1 << w;
        return 0;
    }
    return sg_fail(d, "unknown modifier '%s' of %s", text, d->instruction->opcode);
}
