/* straighten.c: which instructions the handler of straight.h executes itself. */
#include "softgpu/exec/straight.h"

#include <stdio.h>
#include <string.h>

#include "softgpu/alu/clones.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/fused.h"
#include "softgpu/exec/jit.h"

SG_CLONE_DECLARE(const struct exec_fused, exec_fused);
SG_CLONE_DECLARE(const struct exec_straight_handler, exec_straight);

_Static_assert(EXEC_STRAIGHT_COUNT <= UINT8_MAX + 1, "exec_insn.known has 8 bits");

const struct exec_fused *exec_fused_best(void)
{
    static const struct exec_fused *const tables[] = SG_CLONE_ADDRESSES(exec_fused);
    return tables[sg_cpu_level()];
}

static const struct { const char *text; uint8_t operation; } operations[] = {
    { "add.f32", EXEC_STRAIGHT_ADD_F32 },             { "add.rn.f32", EXEC_STRAIGHT_ADD_F32 },
    { "sub.f32", EXEC_STRAIGHT_SUB_F32 },             { "sub.rn.f32", EXEC_STRAIGHT_SUB_F32 },
    { "mul.f32", EXEC_STRAIGHT_MUL_F32 },             { "mul.rn.f32", EXEC_STRAIGHT_MUL_F32 },
    { "fma.rn.f32", EXEC_STRAIGHT_FMA_F32 },          { "fma.rn.ftz.f32", EXEC_STRAIGHT_FMA_FTZ_F32 },
    { "add.ftz.f32", EXEC_STRAIGHT_ADD_FTZ_F32 },     { "add.rn.ftz.f32", EXEC_STRAIGHT_ADD_FTZ_F32 },
    { "sub.ftz.f32", EXEC_STRAIGHT_SUB_FTZ_F32 },     { "sub.rn.ftz.f32", EXEC_STRAIGHT_SUB_FTZ_F32 },
    { "mul.ftz.f32", EXEC_STRAIGHT_MUL_FTZ_F32 },     { "mul.rn.ftz.f32", EXEC_STRAIGHT_MUL_FTZ_F32 },
    { "add.s32", EXEC_STRAIGHT_ADD_32 },              { "add.u32", EXEC_STRAIGHT_ADD_32 },
    { "sub.s32", EXEC_STRAIGHT_SUB_32 },              { "sub.u32", EXEC_STRAIGHT_SUB_32 },
    { "mul.lo.s32", EXEC_STRAIGHT_MUL_LO_32 },        { "mul.lo.u32", EXEC_STRAIGHT_MUL_LO_32 },
    { "mad.lo.s32", EXEC_STRAIGHT_MAD_LO_32 },        { "mad.lo.u32", EXEC_STRAIGHT_MAD_LO_32 },
    { "and.b32", EXEC_STRAIGHT_AND_32 },              { "or.b32", EXEC_STRAIGHT_OR_32 },
    { "xor.b32", EXEC_STRAIGHT_XOR_32 },              { "not.b32", EXEC_STRAIGHT_NOT_32 },
    { "shl.b32", EXEC_STRAIGHT_SHL_32 },              { "shr.u32", EXEC_STRAIGHT_SHR_U32 },
    { "shr.b32", EXEC_STRAIGHT_SHR_U32 },             { "shr.s32", EXEC_STRAIGHT_SHR_S32 },
    { "min.s32", EXEC_STRAIGHT_MIN_S32 },             { "max.s32", EXEC_STRAIGHT_MAX_S32 },
    { "min.u32", EXEC_STRAIGHT_MIN_U32 },             { "max.u32", EXEC_STRAIGHT_MAX_U32 },
    { "add.s64", EXEC_STRAIGHT_ADD_64 },              { "add.u64", EXEC_STRAIGHT_ADD_64 },
    { "sub.s64", EXEC_STRAIGHT_SUB_64 },              { "sub.u64", EXEC_STRAIGHT_SUB_64 },
    { "and.b64", EXEC_STRAIGHT_AND_64 },              { "or.b64", EXEC_STRAIGHT_OR_64 },
    { "shl.b64", EXEC_STRAIGHT_SHL_64 },              { "mul.wide.u32", EXEC_STRAIGHT_MUL_WIDE_U32 },
    { "mul.wide.s32", EXEC_STRAIGHT_MUL_WIDE_S32 },   { "selp.b32", EXEC_STRAIGHT_SELP_32 },
    { "selp.u32", EXEC_STRAIGHT_SELP_32 },            { "selp.s32", EXEC_STRAIGHT_SELP_32 },
    { "selp.f32", EXEC_STRAIGHT_SELP_32 },            { "setp.eq.s32", EXEC_STRAIGHT_EQ_32 },
    { "setp.eq.u32", EXEC_STRAIGHT_EQ_32 },           { "setp.eq.b32", EXEC_STRAIGHT_EQ_32 },
    { "setp.ne.s32", EXEC_STRAIGHT_NE_32 },           { "setp.ne.u32", EXEC_STRAIGHT_NE_32 },
    { "setp.ne.b32", EXEC_STRAIGHT_NE_32 },           { "setp.lt.s32", EXEC_STRAIGHT_LT_S32 },
    { "setp.le.s32", EXEC_STRAIGHT_LE_S32 },          { "setp.gt.s32", EXEC_STRAIGHT_GT_S32 },
    { "setp.ge.s32", EXEC_STRAIGHT_GE_S32 },          { "setp.lt.u32", EXEC_STRAIGHT_LT_U32 },
    { "setp.le.u32", EXEC_STRAIGHT_LE_U32 },          { "setp.gt.u32", EXEC_STRAIGHT_GT_U32 },
    { "setp.ge.u32", EXEC_STRAIGHT_GE_U32 },
    { "neg.f32", EXEC_STRAIGHT_NEG_F32 },             { "abs.f32", EXEC_STRAIGHT_ABS_F32 },
    { "neg.s32", EXEC_STRAIGHT_NEG_32 },              { "cvt.rn.f32.s32", EXEC_STRAIGHT_CVT_F32_S32 },
    { "cvt.rn.f32.u32", EXEC_STRAIGHT_CVT_F32_U32 },  { "cvt.u64.u32", EXEC_STRAIGHT_EXTEND_U32 },
    { "cvt.s64.s32", EXEC_STRAIGHT_EXTEND_S32 },      { "cvt.u32.u64", EXEC_STRAIGHT_CUT_64 },
    { "mul.hi.u32", EXEC_STRAIGHT_MUL_HI_U32 },       { "mul.hi.s32", EXEC_STRAIGHT_MUL_HI_S32 },
    { "xor.b64", EXEC_STRAIGHT_XOR_64 },              { "shr.u64", EXEC_STRAIGHT_SHR_U64 },
    { "shr.b64", EXEC_STRAIGHT_SHR_U64 },             { "shr.s64", EXEC_STRAIGHT_SHR_S64 },
    { "mul.lo.s64", EXEC_STRAIGHT_MUL_LO_64 },        { "mul.lo.u64", EXEC_STRAIGHT_MUL_LO_64 },
    { "mad.wide.u32", EXEC_STRAIGHT_MAD_WIDE_U32 },   { "mad.wide.s32", EXEC_STRAIGHT_MAD_WIDE_S32 },
    { "selp.b64", EXEC_STRAIGHT_SELP_64 },            { "selp.u64", EXEC_STRAIGHT_SELP_64 },
    { "selp.s64", EXEC_STRAIGHT_SELP_64 },            { "selp.f64", EXEC_STRAIGHT_SELP_64 },
    { "setp.eq.f32", EXEC_STRAIGHT_EQ_F32 },          { "setp.ne.f32", EXEC_STRAIGHT_NE_F32 },
    { "setp.lt.f32", EXEC_STRAIGHT_LT_F32 },          { "setp.le.f32", EXEC_STRAIGHT_LE_F32 },
    { "setp.gt.f32", EXEC_STRAIGHT_GT_F32 },          { "setp.ge.f32", EXEC_STRAIGHT_GE_F32 },
    { "setp.equ.f32", EXEC_STRAIGHT_EQU_F32 },        { "setp.neu.f32", EXEC_STRAIGHT_NEU_F32 },
    { "setp.ltu.f32", EXEC_STRAIGHT_LTU_F32 },        { "setp.leu.f32", EXEC_STRAIGHT_LEU_F32 },
    { "setp.gtu.f32", EXEC_STRAIGHT_GTU_F32 },        { "setp.geu.f32", EXEC_STRAIGHT_GEU_F32 },
    { "div.rn.f32", EXEC_STRAIGHT_DIV_F32 },          { "div.rn.ftz.f32", EXEC_STRAIGHT_DIV_FTZ_F32 },
    { "div.full.f32", EXEC_STRAIGHT_DIV_F32 },        { "div.full.ftz.f32", EXEC_STRAIGHT_DIV_FTZ_F32 },
    { "rcp.rn.f32", EXEC_STRAIGHT_RCP_F32 },          { "rcp.rn.ftz.f32", EXEC_STRAIGHT_RCP_FTZ_F32 },
    { "rcp.approx.f32", EXEC_STRAIGHT_RCP_F32 },      { "rcp.approx.ftz.f32", EXEC_STRAIGHT_RCP_FTZ_F32 },
    { "sqrt.rn.f32", EXEC_STRAIGHT_SQRT_F32 },        { "sqrt.rn.ftz.f32", EXEC_STRAIGHT_SQRT_FTZ_F32 },
    { "sqrt.approx.f32", EXEC_STRAIGHT_SQRT_F32 },    { "sqrt.approx.ftz.f32", EXEC_STRAIGHT_SQRT_FTZ_F32 },
    { "rsqrt.approx.f32", EXEC_STRAIGHT_RSQRT_F32 },  { "rsqrt.approx.ftz.f32", EXEC_STRAIGHT_RSQRT_FTZ_F32 },
    { "min.f32", EXEC_STRAIGHT_MIN_F32 },             { "min.ftz.f32", EXEC_STRAIGHT_MIN_FTZ_F32 },
    { "max.f32", EXEC_STRAIGHT_MAX_F32 },             { "max.ftz.f32", EXEC_STRAIGHT_MAX_FTZ_F32 },
    { "cvt.sat.f32.f32", EXEC_STRAIGHT_SAT_F32 },     { "lop3.b32", EXEC_STRAIGHT_LOP3_32 },
    { "cvt.u16.u32", EXEC_STRAIGHT_CUT_16 },          { "mul.wide.u16", EXEC_STRAIGHT_MUL_WIDE_U16 },
    { "add.f64", EXEC_STRAIGHT_ADD_F64 },             { "add.rn.f64", EXEC_STRAIGHT_ADD_F64 },
    { "sub.f64", EXEC_STRAIGHT_SUB_F64 },             { "sub.rn.f64", EXEC_STRAIGHT_SUB_F64 },
    { "mul.f64", EXEC_STRAIGHT_MUL_F64 },             { "mul.rn.f64", EXEC_STRAIGHT_MUL_F64 },
    { "fma.rn.f64", EXEC_STRAIGHT_FMA_F64 },          { "div.rn.f64", EXEC_STRAIGHT_DIV_F64 },
    { "rcp.rn.f64", EXEC_STRAIGHT_RCP_F64 },          { "sqrt.rn.f64", EXEC_STRAIGHT_SQRT_F64 },
    { "neg.f64", EXEC_STRAIGHT_NEG_F64 },             { "abs.f64", EXEC_STRAIGHT_ABS_F64 },
    { "min.f64", EXEC_STRAIGHT_MIN_F64 },             { "max.f64", EXEC_STRAIGHT_MAX_F64 },
    { "setp.eq.f64", EXEC_STRAIGHT_EQ_F64 },          { "setp.ne.f64", EXEC_STRAIGHT_NE_F64 },
    { "setp.lt.f64", EXEC_STRAIGHT_LT_F64 },          { "setp.le.f64", EXEC_STRAIGHT_LE_F64 },
    { "setp.gt.f64", EXEC_STRAIGHT_GT_F64 },          { "setp.ge.f64", EXEC_STRAIGHT_GE_F64 },
    { "setp.equ.f64", EXEC_STRAIGHT_EQU_F64 },        { "setp.neu.f64", EXEC_STRAIGHT_NEU_F64 },
    { "setp.ltu.f64", EXEC_STRAIGHT_LTU_F64 },        { "setp.leu.f64", EXEC_STRAIGHT_LEU_F64 },
    { "setp.gtu.f64", EXEC_STRAIGHT_GTU_F64 },        { "setp.geu.f64", EXEC_STRAIGHT_GEU_F64 },
    { "cvt.f64.f32", EXEC_STRAIGHT_CVT_F64_F32 },     { "cvt.rn.f32.f64", EXEC_STRAIGHT_CVT_F32_F64 },
    { "cvt.rn.f64.s32", EXEC_STRAIGHT_CVT_F64_S32 },  { "cvt.rn.f64.u32", EXEC_STRAIGHT_CVT_F64_U32 },
    { "setp.eq.s64", EXEC_STRAIGHT_EQ_64 },           { "setp.eq.u64", EXEC_STRAIGHT_EQ_64 },
    { "setp.eq.b64", EXEC_STRAIGHT_EQ_64 },           { "setp.ne.s64", EXEC_STRAIGHT_NE_64 },
    { "setp.ne.u64", EXEC_STRAIGHT_NE_64 },           { "setp.ne.b64", EXEC_STRAIGHT_NE_64 },
    { "setp.lt.s64", EXEC_STRAIGHT_LT_S64 },          { "setp.le.s64", EXEC_STRAIGHT_LE_S64 },
    { "setp.gt.s64", EXEC_STRAIGHT_GT_S64 },          { "setp.ge.s64", EXEC_STRAIGHT_GE_S64 },
    { "setp.lt.u64", EXEC_STRAIGHT_LT_U64 },          { "setp.le.u64", EXEC_STRAIGHT_LE_U64 },
    { "setp.gt.u64", EXEC_STRAIGHT_GT_U64 },          { "setp.ge.u64", EXEC_STRAIGHT_GE_U64 },
    /* of 16 bits, above which cells have zeros */
    { "setp.eq.s16", EXEC_STRAIGHT_EQ_32 },           { "setp.eq.u16", EXEC_STRAIGHT_EQ_32 },
    { "setp.eq.b16", EXEC_STRAIGHT_EQ_32 },           { "setp.ne.s16", EXEC_STRAIGHT_NE_32 },
    { "setp.ne.u16", EXEC_STRAIGHT_NE_32 },           { "setp.ne.b16", EXEC_STRAIGHT_NE_32 },
    { "setp.lt.u16", EXEC_STRAIGHT_LT_U32 },          { "setp.le.u16", EXEC_STRAIGHT_LE_U32 },
    { "setp.gt.u16", EXEC_STRAIGHT_GT_U32 },          { "setp.ge.u16", EXEC_STRAIGHT_GE_U32 },
    { "setp.lt.s16", EXEC_STRAIGHT_LT_S16 },          { "setp.le.s16", EXEC_STRAIGHT_LE_S16 },
    { "setp.gt.s16", EXEC_STRAIGHT_GT_S16 },          { "setp.ge.s16", EXEC_STRAIGHT_GE_S16 },
    { "and.b16", EXEC_STRAIGHT_AND_32 },              { "or.b16", EXEC_STRAIGHT_OR_32 },
    { "xor.b16", EXEC_STRAIGHT_XOR_32 },              { "not.b16", EXEC_STRAIGHT_NOT_16 },
    { "selp.b16", EXEC_STRAIGHT_SELP_32 },            { "selp.u16", EXEC_STRAIGHT_SELP_32 },
    { "selp.s16", EXEC_STRAIGHT_SELP_32 },            { "min.u16", EXEC_STRAIGHT_MIN_U32 },
    { "max.u16", EXEC_STRAIGHT_MAX_U32 },             { "min.s16", EXEC_STRAIGHT_MIN_S16 },
    { "max.s16", EXEC_STRAIGHT_MAX_S16 },             { "shr.u16", EXEC_STRAIGHT_SHR_U32 },
    { "shr.b16", EXEC_STRAIGHT_SHR_U32 },             { "shr.s16", EXEC_STRAIGHT_SHR_S16 },
    { "shl.b16", EXEC_STRAIGHT_SHL_16 },              { "add.s16", EXEC_STRAIGHT_ADD_16 },
    { "add.u16", EXEC_STRAIGHT_ADD_16 },              { "sub.s16", EXEC_STRAIGHT_SUB_16 },
    { "sub.u16", EXEC_STRAIGHT_SUB_16 },              { "mul.lo.s16", EXEC_STRAIGHT_MUL_LO_16 },
    { "mul.lo.u16", EXEC_STRAIGHT_MUL_LO_16 },        { "mul.wide.s16", EXEC_STRAIGHT_MUL_WIDE_S16 },
    { "cvt.u32.u16", EXEC_STRAIGHT_COPY_32 },         { "cvt.s32.u16", EXEC_STRAIGHT_COPY_32 },
    { "cvt.u64.u16", EXEC_STRAIGHT_EXTEND_U32 },      { "cvt.s64.u16", EXEC_STRAIGHT_EXTEND_U32 },
    { "cvt.s64.u32", EXEC_STRAIGHT_EXTEND_U32 },      { "cvt.u64.s32", EXEC_STRAIGHT_EXTEND_S32 },
    { "cvt.s32.s64", EXEC_STRAIGHT_CUT_64 },          { "cvt.u32.s64", EXEC_STRAIGHT_CUT_64 },
    { "cvt.s32.u64", EXEC_STRAIGHT_CUT_64 },          { "cvt.u16.u64", EXEC_STRAIGHT_CUT_64_16 },
    { "cvt.u16.s32", EXEC_STRAIGHT_CUT_16 },          { "cvt.s16.s32", EXEC_STRAIGHT_CUT_16 },
    { "cvt.s16.u32", EXEC_STRAIGHT_CUT_16 },          { "cvt.u8.u16", EXEC_STRAIGHT_CUT_8 },
    { "cvt.u8.u32", EXEC_STRAIGHT_CUT_8 },            { "cvt.u16.u8", EXEC_STRAIGHT_CUT_8 },
    { "cvt.u32.u8", EXEC_STRAIGHT_CUT_8 },            { "cvt.s32.u8", EXEC_STRAIGHT_CUT_8 },
    { "cvt.s32.s16", EXEC_STRAIGHT_SIGN_16 },         { "cvt.s32.s8", EXEC_STRAIGHT_SIGN_8 },
    { "cvt.s16.s8", EXEC_STRAIGHT_SIGN_8_16 },        { "cvt.rn.f32.u16", EXEC_STRAIGHT_CVT_F32_U32 },
    { "neg.s16", EXEC_STRAIGHT_NEG_16 },
    { "min.s64", EXEC_STRAIGHT_MIN_S64 },             { "max.s64", EXEC_STRAIGHT_MAX_S64 },
    { "min.u64", EXEC_STRAIGHT_MIN_U64 },             { "max.u64", EXEC_STRAIGHT_MAX_U64 },
    { "neg.s64", EXEC_STRAIGHT_NEG_64 },              { "not.b64", EXEC_STRAIGHT_NOT_64 },
    { "abs.s32", EXEC_STRAIGHT_ABS_32 },              { "abs.s64", EXEC_STRAIGHT_ABS_64 },
    { "mad.lo.s64", EXEC_STRAIGHT_MAD_LO_64 },        { "mad.lo.u64", EXEC_STRAIGHT_MAD_LO_64 },
    { "bfe.u32", EXEC_STRAIGHT_BFE_U32 },             { "bfe.s32", EXEC_STRAIGHT_BFE_S32 },
    { "bfi.b32", EXEC_STRAIGHT_BFI_32 },              { "brev.b32", EXEC_STRAIGHT_BREV_32 },
    { "bfi.b64", EXEC_STRAIGHT_BFI_64 },
    { "popc.b32", EXEC_STRAIGHT_POPC_32 },            { "popc.b64", EXEC_STRAIGHT_POPC_64 },
    { "clz.b32", EXEC_STRAIGHT_CLZ_32 },              { "clz.b64", EXEC_STRAIGHT_CLZ_64 },
    { "shf.l.wrap.b32", EXEC_STRAIGHT_SHF_L_WRAP },   { "shf.l.clamp.b32", EXEC_STRAIGHT_SHF_L_CLAMP },
    { "shf.r.wrap.b32", EXEC_STRAIGHT_SHF_R_WRAP },   { "shf.r.clamp.b32", EXEC_STRAIGHT_SHF_R_CLAMP },
    { "prmt.b32", EXEC_STRAIGHT_PRMT },               { "dp4a.u32.u32", EXEC_STRAIGHT_DP4A_UU },
    { "dp4a.u32.s32", EXEC_STRAIGHT_DP4A_US },        { "dp4a.s32.u32", EXEC_STRAIGHT_DP4A_SU },
    { "dp4a.s32.s32", EXEC_STRAIGHT_DP4A_SS },
    { "cvt.f32.f16", EXEC_STRAIGHT_CVT_F32_F16 },     { "cvt.rn.f16.f32", EXEC_STRAIGHT_CVT_F16_F32 },
    { "div.u32", EXEC_STRAIGHT_DIV_U32 },             { "div.s32", EXEC_STRAIGHT_DIV_S32 },
    { "rem.u32", EXEC_STRAIGHT_REM_U32 },             { "rem.s32", EXEC_STRAIGHT_REM_S32 },
};

static const struct { const char *text; uint8_t operation, detail; } detailed[] = {
#define APPROX(text, function) \
    { text ".approx.f32", EXEC_STRAIGHT_APPROX_F32, function }, \
    { text ".approx.ftz.f32", EXEC_STRAIGHT_APPROX_F32, function | EXEC_APPROX_FTZ }
    APPROX("ex2", EXEC_APPROX_EX2), APPROX("lg2", EXEC_APPROX_LG2), APPROX("sin", EXEC_APPROX_SIN),
    APPROX("cos", EXEC_APPROX_COS), { "tanh.approx.f32", EXEC_STRAIGHT_APPROX_F32, EXEC_APPROX_TANH },
    { "div.approx.f32", EXEC_STRAIGHT_APPROX_2_F32, EXEC_APPROX_DIV },
    { "div.approx.ftz.f32", EXEC_STRAIGHT_APPROX_2_F32, EXEC_APPROX_DIV | EXEC_APPROX_FTZ },
    { "rcp.approx.ftz.f64", EXEC_STRAIGHT_APPROX_F64, EXEC_APPROX_RCP_FTZ_F64 },
    { "rsqrt.approx.f64", EXEC_STRAIGHT_APPROX_F64, EXEC_APPROX_RSQRT_F64 },
    { "rsqrt.approx.ftz.f64", EXEC_STRAIGHT_APPROX_F64, EXEC_APPROX_RSQRT_FTZ_F64 },
#define INTEGRAL(round, mode) \
    { "cvt." round ".f32.f32", EXEC_STRAIGHT_INTEGRAL_F32, mode }, \
    { "cvt." round ".s32.f32", EXEC_STRAIGHT_F32_TO_S32, mode }, \
    { "cvt." round ".u32.f32", EXEC_STRAIGHT_F32_TO_U32, mode }, \
    { "cvt." round ".f64.f64", EXEC_STRAIGHT_INTEGRAL_F64, mode }, \
    { "cvt." round ".s32.f64", EXEC_STRAIGHT_F64_TO_S32, mode }, \
    { "cvt." round ".u32.f64", EXEC_STRAIGHT_F64_TO_U32, mode }
    INTEGRAL("rni", EXEC_ROUND_NEAREST), INTEGRAL("rzi", EXEC_ROUND_ZERO), INTEGRAL("rmi", EXEC_ROUND_DOWN),
    INTEGRAL("rpi", EXEC_ROUND_UP),
    { "cvt.rn.f32.s16", EXEC_STRAIGHT_CVT_F32_SMALL, 16 | EXEC_FROM_SIGNED },
    { "cvt.rn.f32.s8", EXEC_STRAIGHT_CVT_F32_SMALL, 8 | EXEC_FROM_SIGNED },
    { "cvt.rn.f32.u8", EXEC_STRAIGHT_CVT_F32_SMALL, 8 },
    { "cvt.rn.f32.s64", EXEC_STRAIGHT_CVT_F32_64, 64 | EXEC_FROM_SIGNED },
    { "cvt.rn.f32.u64", EXEC_STRAIGHT_CVT_F32_64, 64 },
    { "cvt.rn.f64.s64", EXEC_STRAIGHT_CVT_F64_64, 64 | EXEC_FROM_SIGNED },
    { "cvt.rn.f64.u64", EXEC_STRAIGHT_CVT_F64_64, 64 },
};

/* What setp does beside the comparison, which `kind` says. */
static bool is_beside(const struct ptx_instruction *in, const char *modifier)
{
    return !strcmp(in->opcode, "setp") && (!strcmp(modifier, "and") || !strcmp(modifier, "or") ||
                                           !strcmp(modifier, "xor") || !strcmp(modifier, "ftz"));
}

/* A sum or product of f32 that is not just rounded to nearest. false: it is none. */
static bool is_rounded(const struct ptx_instruction *in, uint8_t *detail)
{
    static const struct { const char *text; uint8_t detail; } words[] = {
        { "rn", EXEC_ROUND_NEAREST }, { "rz", EXEC_ROUND_ZERO },    { "rm", EXEC_ROUND_DOWN }, { "rp", EXEC_ROUND_UP },
        { "ftz", EXEC_ROUNDED_FTZ },  { "sat", EXEC_ROUNDED_SAT },
    }, names[] = {
        { "add", EXEC_ROUNDED_ADD }, { "sub", EXEC_ROUNDED_SUB }, { "mul", EXEC_ROUNDED_MUL },
        { "fma", EXEC_ROUNDED_FMA }, { "mad", EXEC_ROUNDED_FMA },
    };
    enum { WORDS = sizeof words / sizeof *words, NAMES = sizeof names / sizeof *names };
    size_t name = 0, word;
    while (name < NAMES && strcmp(in->opcode, names[name].text))
        name++;
    if (name == NAMES || !in->modifier_count || strcmp(in->modifiers[in->modifier_count - 1], "f32"))
        return false;
    *detail = names[name].detail;
    for (uint32_t k = 0; k + 1 < in->modifier_count; k++) {
        for (word = 0; word < WORDS && strcmp(in->modifiers[k], words[word].text); word++)
            ;
        if (word == WORDS)
            return false;
        *detail |= words[word].detail;
    }
    return true;
}

uint8_t exec_straight_of(const struct ptx_instruction *in, uint8_t otherwise, uint8_t *detail)
{
    char text[64];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", in->opcode);
    for (uint32_t k = 0; k < in->modifier_count && n < sizeof text; k++)
        if (!is_beside(in, in->modifiers[k]))
            n += (size_t)snprintf(text + n, sizeof text - n, ".%s", in->modifiers[k]);
    for (size_t k = 0; k < sizeof operations / sizeof *operations; k++)
        if (!strcmp(text, operations[k].text))
            return operations[k].operation;
    for (size_t k = 0; k < sizeof detailed / sizeof *detailed; k++)
        if (!strcmp(text, detailed[k].text)) {
            *detail = detailed[k].detail;
            return detailed[k].operation;
        }
    if (is_rounded(in, detail))
        return (*detail & EXEC_ROUNDED) == EXEC_ROUNDED_FMA ? EXEC_STRAIGHT_ROUNDED_3_F32 : EXEC_STRAIGHT_ROUNDED_2_F32;
    return otherwise;
}

static uint8_t access_of(exec_handler *run)
{
    const struct exec_fused *f = exec_fused_best();
    for (uint8_t k = 0; k < 4; k++)
        if (run == f->load[k])
            return (uint8_t)(EXEC_STRAIGHT_LOAD_8 + k);
        else if (run == f->store[k])
            return (uint8_t)(EXEC_STRAIGHT_STORE_8 + k);
        else if (k < 2 && run == f->load_signed[k])
            return (uint8_t)(EXEC_STRAIGHT_LOAD_8S + k);
    if (!run)
        return EXEC_STRAIGHT_NONE;
    for (uint8_t k = 0; k < EXEC_VECTOR_OTHER; k++)
        if (run == f->load_vector[k])
            return (uint8_t)(EXEC_STRAIGHT_LOAD_32X2 + k);
        else if (run == f->store_vector[k])
            return (uint8_t)(EXEC_STRAIGHT_STORE_32X2 + k);
    return run == f->shared_load                               ? EXEC_STRAIGHT_SHARED_LOAD
           : run == f->shared_store                            ? EXEC_STRAIGHT_SHARED_STORE
           : run == f->shared_load_vector[EXEC_VECTOR_32X2] ? EXEC_STRAIGHT_SHARED_LOAD_2
           : run == f->shared_load_vector[EXEC_VECTOR_32X4] ? EXEC_STRAIGHT_SHARED_LOAD_4
           : run == f->shared_store_vector[EXEC_VECTOR_32X2] ? EXEC_STRAIGHT_SHARED_STORE_2
           : run == f->shared_store_vector[EXEC_VECTOR_32X4] ? EXEC_STRAIGHT_SHARED_STORE_4
                                                               : EXEC_STRAIGHT_NONE;
}

/* What the handler makes of an insn, if that says it all. */
static uint8_t by_handler(exec_handler *run)
{
    return run == exec_run_guarded     ? EXEC_STRAIGHT_GUARDED
           : run == exec_run_halt      ? EXEC_STRAIGHT_HALT
           : run == exec_run_copy32    ? EXEC_STRAIGHT_COPY_32
           : run == exec_run_copy64    ? EXEC_STRAIGHT_COPY_64
           : run == exec_run_branch    ? EXEC_STRAIGHT_BRANCH
           : run == exec_run_branch_if ? EXEC_STRAIGHT_BRANCH_IF
           : run == exec_run_region    ? EXEC_STRAIGHT_REGION
                                       : access_of(run);
}

/* What a compiler may take it for: what is under its guard, and shared accesses at levels that have no handler of
   their own for them. */
static uint8_t known_as(const struct exec_insn *i, uint8_t special)
{
    if (i->known != EXEC_STRAIGHT_NONE)
        return i->known;
    if (special == EXEC_STRAIGHT_GUARDED)
        special = by_handler(i->inner);
    return special != EXEC_STRAIGHT_NONE ? special : i->straight;
}

void exec_straighten(struct exec_insn *insns, uint32_t count)
{
    static const struct exec_straight_handler *const levels[] = SG_CLONE_ADDRESSES(exec_straight);
    for (uint32_t k = 0; k < count; k++) {
        struct exec_insn *i = &insns[k];
        uint8_t special = by_handler(i->run);
        i->known = known_as(i, special);
        if (special != EXEC_STRAIGHT_NONE)
            i->straight = special;
        if (i->straight == EXEC_STRAIGHT_NONE)
            continue;
        if (i->straight != EXEC_STRAIGHT_GUARDED)
            i->inner = i->run;
        i->run = levels[sg_cpu_level()]->run;
    }
}
