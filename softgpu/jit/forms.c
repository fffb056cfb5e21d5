/* forms.c: the rows of arithmetic that has code here (arithmetic.c). */
#include "softgpu/jit/compile.h"

#define P   ROW_PREDICATE
#define OF2 { ROW_32, { ROW_32, ROW_32 }, false }
#define OF3 { ROW_32, { ROW_32, ROW_32, ROW_32 }, false }
#define CMP { P, { ROW_32, ROW_32 }, false }
#define OF2_64 { ROW_64, { ROW_64, ROW_64 }, false }
#define OF1 { ROW_32, { ROW_32 }, false }
#define OF1_64 { ROW_64, { ROW_64 }, false }
#define WIDE { ROW_64, { ROW_32, ROW_32 }, false }
#define OF_64_32 { ROW_64, { ROW_64, ROW_32 }, false }
#define F64_1 { ROW_64, { ROW_64 }, .calls = true }
#define F64_2 { ROW_64, { ROW_64, ROW_64 }, .calls = true }
#define CMP_64 { P, { ROW_64, ROW_64 }, false }
#define IS(name) [EXEC_STRAIGHT_##name]

static const struct arithmetic_form forms[EXEC_STRAIGHT_COUNT] = {
    IS(ADD_F32) = OF2, IS(SUB_F32) = OF2, IS(MUL_F32) = OF2, IS(FMA_F32) = OF3,
    IS(ADD_FTZ_F32) = OF2, IS(SUB_FTZ_F32) = OF2, IS(MUL_FTZ_F32) = OF2, IS(FMA_FTZ_F32) = OF3,
    IS(ADD_32) = OF2, IS(SUB_32) = OF2, IS(MUL_LO_32) = OF2, IS(MAD_LO_32) = OF3,
    IS(AND_32) = OF2, IS(OR_32) = OF2, IS(XOR_32) = OF2, IS(NOT_32) = OF1,
    IS(SHL_32) = OF2, IS(SHR_U32) = OF2, IS(SHR_S32) = OF2, IS(MIN_S32) = OF2, IS(MAX_S32) = OF2,
    IS(MIN_U32) = OF2, IS(MAX_U32) = OF2, IS(ADD_64) = OF2_64, IS(SUB_64) = OF2_64, IS(AND_64) = OF2_64,
    IS(OR_64) = OF2_64, IS(SHL_64) = OF_64_32,
    IS(MUL_WIDE_U32) = WIDE, IS(MUL_WIDE_S32) = WIDE, IS(SELP_32) = { ROW_32, { ROW_32, ROW_32 }, true },
    IS(EQ_32) = CMP, IS(NE_32) = CMP, IS(LT_S32) = CMP, IS(LE_S32) = CMP, IS(GT_S32) = CMP, IS(GE_S32) = CMP,
    IS(LT_U32) = CMP, IS(LE_U32) = CMP, IS(GT_U32) = CMP, IS(GE_U32) = CMP,
    IS(NEG_F32) = OF1, IS(ABS_F32) = OF1, IS(CVT_F32_S32) = OF1, IS(CVT_F32_U32) = OF1, IS(NEG_32) = OF1,
    IS(EXTEND_U32) = { ROW_64, { ROW_32 }, false }, IS(EXTEND_S32) = { ROW_64, { ROW_32 }, false },
    IS(CUT_64) = { ROW_32, { ROW_64 }, false }, IS(MUL_HI_U32) = OF2, IS(MUL_HI_S32) = OF2, IS(XOR_64) = OF2_64,
    IS(SHR_U64) = OF_64_32, IS(SHR_S64) = OF_64_32, IS(MUL_LO_64) = OF2_64,
    IS(MAD_WIDE_U32) = { ROW_64, { ROW_32, ROW_32, ROW_64 }, false },
    IS(MAD_WIDE_S32) = { ROW_64, { ROW_32, ROW_32, ROW_64 }, false },
    IS(SELP_64) = { ROW_64, { ROW_64, ROW_64 }, true },
    IS(EQ_F32) = CMP, IS(NE_F32) = CMP, IS(LT_F32) = CMP, IS(LE_F32) = CMP, IS(GT_F32) = CMP, IS(GE_F32) = CMP,
    IS(EQU_F32) = CMP, IS(NEU_F32) = CMP, IS(LTU_F32) = CMP, IS(LEU_F32) = CMP, IS(GTU_F32) = CMP, IS(GEU_F32) = CMP,
    IS(DIV_F32) = OF2, IS(RCP_F32) = OF1, IS(SQRT_F32) = OF1, IS(RSQRT_F32) = OF1, IS(MIN_F32) = OF2, IS(MAX_F32) = OF2,
    IS(DIV_FTZ_F32) = { ROW_32, { ROW_32, ROW_32 }, .calls = true },
    IS(RCP_FTZ_F32) = OF1, IS(SQRT_FTZ_F32) = OF1, IS(RSQRT_FTZ_F32) = OF1,
    IS(MIN_FTZ_F32) = OF2, IS(MAX_FTZ_F32) = OF2, IS(SAT_F32) = OF1, IS(LOP3_32) = OF3, IS(CUT_16) = OF1,
    IS(MUL_WIDE_U16) = OF2,
    IS(COPY_32) = OF1, IS(COPY_64) = OF1_64,
    IS(ADD_F64) = F64_2, IS(SUB_F64) = F64_2, IS(MUL_F64) = F64_2, IS(DIV_F64) = F64_2, IS(RCP_F64) = F64_1,
    IS(SQRT_F64) = F64_1, IS(FMA_F64) = { ROW_64, { ROW_64, ROW_64, ROW_64 }, .calls = true },
    IS(NEG_F64) = OF1_64, IS(ABS_F64) = OF1_64,
    IS(MIN_F64) = OF2_64, IS(MAX_F64) = OF2_64,
    IS(EQ_F64) = CMP_64, IS(NE_F64) = CMP_64, IS(LT_F64) = CMP_64, IS(LE_F64) = CMP_64, IS(GT_F64) = CMP_64,
    IS(GE_F64) = CMP_64, IS(EQU_F64) = CMP_64, IS(NEU_F64) = CMP_64, IS(LTU_F64) = CMP_64, IS(LEU_F64) = CMP_64,
    IS(GTU_F64) = CMP_64, IS(GEU_F64) = CMP_64,
    IS(CVT_F64_F32) = { ROW_64, { ROW_32 }, false }, IS(CVT_F32_F64) = { ROW_32, { ROW_64 }, false },
    IS(EQ_64) = CMP_64, IS(NE_64) = CMP_64, IS(LT_S64) = CMP_64, IS(LE_S64) = CMP_64, IS(GT_S64) = CMP_64,
    IS(GE_S64) = CMP_64, IS(LT_U64) = CMP_64, IS(LE_U64) = CMP_64, IS(GT_U64) = CMP_64, IS(GE_U64) = CMP_64,
    IS(LT_S16) = CMP, IS(LE_S16) = CMP, IS(GT_S16) = CMP, IS(GE_S16) = CMP,
    IS(MIN_S64) = OF2_64, IS(MAX_S64) = OF2_64, IS(MIN_U64) = OF2_64, IS(MAX_U64) = OF2_64, IS(MIN_S16) = OF2,
    IS(MAX_S16) = OF2, IS(NEG_64) = OF1_64, IS(NOT_64) = OF1_64, IS(NOT_16) = OF1, IS(ABS_32) = OF1,
    IS(ABS_64) = OF1_64, IS(MAD_LO_64) = { ROW_64, { ROW_64, ROW_64, ROW_64 }, false }, IS(ADD_16) = OF2,
    IS(SUB_16) = OF2, IS(MUL_LO_16) = OF2, IS(MUL_WIDE_S16) = OF2, IS(SHL_16) = OF2, IS(SHR_S16) = OF2,
    IS(NEG_16) = OF1,
    IS(CUT_8) = OF1, IS(CUT_64_16) = { ROW_32, { ROW_64 }, false }, IS(SIGN_8) = OF1, IS(SIGN_16) = OF1,
    IS(SIGN_8_16) = OF1, IS(BFE_U32) = OF3, IS(BFE_S32) = OF3,
    IS(BFI_64) = { ROW_64, { ROW_64, ROW_64, ROW_32, ROW_32 }, false },
    IS(BFI_32) = { ROW_32, { ROW_32, ROW_32, ROW_32, ROW_32 }, false }, IS(POPC_32) = OF1,
    IS(POPC_64) = { ROW_32, { ROW_64 }, false }, IS(CLZ_32) = OF1, IS(CLZ_64) = { ROW_32, { ROW_64 }, false },
    IS(BREV_32) = OF1, IS(SHF_L_WRAP) = OF3, IS(SHF_L_CLAMP) = OF3, IS(SHF_R_WRAP) = OF3, IS(SHF_R_CLAMP) = OF3,
    IS(PRMT) = { ROW_32, { ROW_32, ROW_32, ROW_32 }, .calls = true }, IS(DP4A_UU) = OF3, IS(DP4A_US) = OF3,
    IS(DP4A_SU) = OF3, IS(DP4A_SS) = OF3,
    IS(INTEGRAL_F32) = OF1, IS(F32_TO_S32) = OF1, IS(F32_TO_U32) = OF1, IS(CVT_F32_F16) = OF1,
    IS(CVT_F16_F32) = OF1,
    IS(DIV_U32) = OF2, IS(DIV_S32) = OF2, IS(REM_U32) = OF2, IS(REM_S32) = OF2,
    IS(CVT_F64_S32) = { ROW_64, { ROW_32 }, false }, IS(CVT_F64_U32) = { ROW_64, { ROW_32 }, false },
    IS(APPROX_F32) = { ROW_32, { ROW_32 }, .calls = true }, IS(APPROX_2_F32) = OF2, IS(APPROX_F64) = OF1_64,
    IS(ROUNDED_2_F32) = { ROW_32, { ROW_32, ROW_32 }, .calls = true },
    IS(ROUNDED_3_F32) = { ROW_32, { ROW_32, ROW_32, ROW_32 }, .calls = true },
    IS(INTEGRAL_F64) = OF1_64, IS(F64_TO_S32) = { ROW_32, { ROW_64 }, false },
    IS(F64_TO_U32) = { ROW_32, { ROW_64 }, false }, IS(CVT_F32_SMALL) = OF1,
    IS(CVT_F32_64) = { ROW_32, { ROW_64 }, false }, IS(CVT_F64_64) = OF1_64,
};

const struct arithmetic_form *arithmetic_form_of(const struct exec_insn *i)
{
    return forms[i->known].d ? &forms[i->known] : NULL;
}
