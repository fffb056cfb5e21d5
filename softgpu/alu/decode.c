/* decode.c: the opcodes of arithmetic instructions, and which decoder each belongs to. See decode.h. */
#include "softgpu/alu/decode.h"
#include "softgpu/alu/video.h"

#include <string.h>

/* add … max: by type, to the decoder of half, float or integer. */
static sg_decoder sg_decode_arithmetic;

static const struct opcode { const char *name; sg_decoder *decoder; int operation; } opcodes[] = {
    /* the commonest first */
    { "add", sg_decode_arithmetic, SG_OP_ADD },    { "setp", sg_decode_compare, SG_OP_SETP },
    { "mad", sg_decode_arithmetic, SG_OP_MAD },    { "mul", sg_decode_arithmetic, SG_OP_MUL },
    { "fma", sg_decode_arithmetic, SG_OP_FMA },    { "shl", sg_decode_bits, SG_OP_SHL },
    { "and", sg_decode_bits, SG_OP_AND },          { "sub", sg_decode_arithmetic, SG_OP_SUB },
    { "selp", sg_decode_compare, SG_OP_SELP },     { "shr", sg_decode_bits, SG_OP_SHR },
    { "or", sg_decode_bits, SG_OP_OR },            { "xor", sg_decode_bits, SG_OP_XOR },
    { "not", sg_decode_bits, SG_OP_NOT },          { "neg", sg_decode_arithmetic, SG_OP_NEG },
    { "min", sg_decode_arithmetic, SG_OP_MIN },    { "max", sg_decode_arithmetic, SG_OP_MAX },
    { "abs", sg_decode_arithmetic, SG_OP_ABS },    { "div", sg_decode_arithmetic, SG_OP_DIV },
    { "rem", sg_decode_integer, SG_OP_REM },       { "bfe", sg_decode_bits, SG_OP_BFE },
    { "bfi", sg_decode_bits, SG_OP_BFI },          { "shf", sg_decode_bits, SG_OP_SHF },
    { "prmt", sg_decode_bits, SG_OP_PRMT },        { "lop3", sg_decode_bits, SG_OP_LOP3 },
    { "ex2", sg_decode_float, SG_OP_EX2 },         { "rcp", sg_decode_float, SG_OP_RCP },
    { "sqrt", sg_decode_float, SG_OP_SQRT },       { "rsqrt", sg_decode_float, SG_OP_RSQRT },
    { "sin", sg_decode_float, SG_OP_SIN },         { "cos", sg_decode_float, SG_OP_COS },
    { "lg2", sg_decode_float, SG_OP_LG2 },         { "tanh", sg_decode_float, SG_OP_TANH },
    { "testp", sg_decode_float, SG_OP_TESTP },     { "copysign", sg_decode_float, SG_OP_COPYSIGN },
    { "mul24", sg_decode_integer, SG_OP_MUL24 },   { "mad24", sg_decode_integer, SG_OP_MAD24 },
    { "sad", sg_decode_integer, SG_OP_SAD },       { "addc", sg_decode_integer, SG_OP_ADDC },
    { "subc", sg_decode_integer, SG_OP_SUBC },     { "madc", sg_decode_integer, SG_OP_MADC },
    { "cnot", sg_decode_bits, SG_OP_CNOT },        { "popc", sg_decode_bits, SG_OP_POPC },
    { "clz", sg_decode_bits, SG_OP_CLZ },          { "brev", sg_decode_bits, SG_OP_BREV },
    { "bfind", sg_decode_bits, SG_OP_BFIND },      { "bmsk", sg_decode_bits, SG_OP_BMSK },
    { "szext", sg_decode_bits, SG_OP_SZEXT },      { "fns", sg_decode_bits, SG_OP_FNS },
    { "dp4a", sg_decode_bits, SG_OP_DP4A },        { "dp2a", sg_decode_bits, SG_OP_DP2A },
    { "cvt", sg_decode_convert, SG_OP_CVT },
    { "set", sg_decode_compare, SG_OP_SET },       { "slct", sg_decode_compare, SG_OP_SLCT },
    { "vadd", sg_decode_video, SG_VADD + SG_VIDEO_ELEMENTS },
    { "vadd2", sg_decode_video, SG_VADD + 2 * SG_VIDEO_ELEMENTS },
    { "vadd4", sg_decode_video, SG_VADD + 4 * SG_VIDEO_ELEMENTS },
    { "vsub", sg_decode_video, SG_VSUB + SG_VIDEO_ELEMENTS },
    { "vsub2", sg_decode_video, SG_VSUB + 2 * SG_VIDEO_ELEMENTS },
    { "vsub4", sg_decode_video, SG_VSUB + 4 * SG_VIDEO_ELEMENTS },
    { "vabsdiff", sg_decode_video, SG_VABSDIFF + SG_VIDEO_ELEMENTS },
    { "vabsdiff2", sg_decode_video, SG_VABSDIFF + 2 * SG_VIDEO_ELEMENTS },
    { "vabsdiff4", sg_decode_video, SG_VABSDIFF + 4 * SG_VIDEO_ELEMENTS },
    { "vmin", sg_decode_video, SG_VMIN + SG_VIDEO_ELEMENTS },
    { "vmin2", sg_decode_video, SG_VMIN + 2 * SG_VIDEO_ELEMENTS },
    { "vmin4", sg_decode_video, SG_VMIN + 4 * SG_VIDEO_ELEMENTS },
    { "vmax", sg_decode_video, SG_VMAX + SG_VIDEO_ELEMENTS },
    { "vmax2", sg_decode_video, SG_VMAX + 2 * SG_VIDEO_ELEMENTS },
    { "vmax4", sg_decode_video, SG_VMAX + 4 * SG_VIDEO_ELEMENTS },
    { "vset", sg_decode_video, SG_VSET + SG_VIDEO_ELEMENTS },
    { "vset2", sg_decode_video, SG_VSET + 2 * SG_VIDEO_ELEMENTS },
    { "vset4", sg_decode_video, SG_VSET + 4 * SG_VIDEO_ELEMENTS },
    { "vshl", sg_decode_video, SG_VSHL + SG_VIDEO_ELEMENTS },
    { "vshr", sg_decode_video, SG_VSHR + SG_VIDEO_ELEMENTS },
    { "vmad", sg_decode_video, SG_VMAD + SG_VIDEO_ELEMENTS },
    { "vavrg2", sg_decode_video, SG_VAVRG + 2 * SG_VIDEO_ELEMENTS },
    { "vavrg4", sg_decode_video, SG_VAVRG + 4 * SG_VIDEO_ELEMENTS },
};

static int sg_decode_arithmetic(struct sg_decode *d)
{
    if (d->type_count == 0)
        return sg_fail(d, "%s without a type", d->instruction->opcode);
    const enum sg_type t = d->type[0];
    if (sg_type_half(t) >= 0)
        return sg_decode_half(d);
    if (t == SG_T_f32 || t == SG_T_f64 || t == SG_T_f32x2)
        return sg_decode_float(d);
    return sg_decode_integer(d);
}

/* What follows the operands that the decoder described must be all that there is. */
static int check_operands(struct sg_decode *d)
{
    const uint32_t have = d->instruction->operand_count;
    const uint32_t grouped = d->alu->grouped, sources = d->alu->source_count - (grouped ? grouped - 1 : 0);
    const uint32_t want = 1 + sources + (d->alu->predicate_source >= 0) + (d->alu->immediate_source >= 0);
    return have == want ? 0 : sg_fail(d, "%s has %u operands here, not %u", d->instruction->opcode, want, have);
}

int sg_alu_find(const struct ptx_instruction *instruction, struct sg_alu *alu, char *why, size_t why_size)
{
    return sg_alu_find_for(sg_cpu_level(), instruction, alu, why, why_size);
}

int sg_alu_find_for(enum sg_cpu level, const struct ptx_instruction *instruction, struct sg_alu *alu, char *why,
                    size_t why_size)
{
    struct sg_decode d = { .instruction = instruction, .alu = alu, .level = level, .why = why, .why_size = why_size };
    const struct opcode *opcode = NULL;
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes && !opcode; i++)
        if (!strcmp(instruction->opcode, opcodes[i].name))
            opcode = &opcodes[i];
    if (!opcode)
        return sg_fail(&d, "'%s' is not an arithmetic instruction", instruction->opcode);
    for (uint32_t i = 0; i < instruction->modifier_count; i++)
        if (sg_modifier(&d, instruction->modifiers[i]))
            return -1;
    d.operation = opcode->operation;
    for (uint32_t i = 0; i < instruction->operand_count && opcode->decoder != sg_decode_video; i++)
        if (instruction->operands[i].kind == PTX_OP_REGISTER && instruction->operands[i].component >= PTX_BYTE_0)
            return sg_fail(&d, "%s takes no part of a register (operand %u)", instruction->opcode, i);
    *alu = (struct sg_alu){ .predicate_source = -1, .immediate_source = -1 };
    return opcode->decoder(&d) || check_operands(&d) ? -1 : 0;
}

static const struct sg_bits_table *const bits_tables[] = SG_CLONE_ADDRESSES(sg_bits_table);

sg_alu_function *sg_alu_resize(enum ptx_type from, enum ptx_type to)
{
    static const signed char kinds[PTX_TYPE_COUNT] = {       /* 1 + enum sg_int */
        [PTX_B8] = 1 + SG_U8, [PTX_B16] = 1 + SG_U16, [PTX_B32] = 1 + SG_U32, [PTX_B64] = 1 + SG_U64,
        [PTX_U8] = 1 + SG_U8, [PTX_U16] = 1 + SG_U16, [PTX_U32] = 1 + SG_U32, [PTX_U64] = 1 + SG_U64,
        [PTX_S8] = 1 + SG_S8, [PTX_S16] = 1 + SG_S16, [PTX_S32] = 1 + SG_S32, [PTX_S64] = 1 + SG_S64,
        [PTX_F16] = 1 + SG_U16, [PTX_BF16] = 1 + SG_U16, [PTX_F16X2] = 1 + SG_U32, [PTX_BF16X2] = 1 + SG_U32,
        [PTX_F32] = 1 + SG_U32, [PTX_F32X2] = 1 + SG_U64, [PTX_F64] = 1 + SG_U64,
    };
    const int a = (unsigned)from < PTX_TYPE_COUNT ? kinds[from] - 1 : -1,
              b = (unsigned)to < PTX_TYPE_COUNT ? kinds[to] - 1 : -1;
    if (a < 0 || b < 0 || a / 2 == b / 2)
        return NULL;
    return bits_tables[sg_cpu_level()]->resize[b / 2][a];
}
