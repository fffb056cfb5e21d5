/*
 * tables.h: what the decoder (compiled once) takes from the files of row loops (compiled per processor level).
 *
 * Each file of row loops exports one table of functions, indexed by small enums; NULL where PTX has no such
 * instruction. The decoder knows the meaning of the indices, the loops know nothing of PTX text.
 */
#ifndef SOFTGPU_ALU_TABLES_H
#define SOFTGPU_ALU_TABLES_H

#include "softgpu/alu/clones.h"
#include "softgpu/alu/alu.h"

enum sg_round { SG_RN, SG_RZ, SG_RM, SG_RP, SG_ROUND_COUNT };     /* to nearest even, to zero, down, up */

/* Integer types of arithmetic; b types count as unsigned. */
enum sg_int { SG_U8, SG_S8, SG_U16, SG_S16, SG_U32, SG_S32, SG_U64, SG_S64, SG_INT_COUNT };

/* X(enum, name of the row functions) */
#define SG_INTEGER_OPERATIONS(X) \
    X(ADD, add) X(SUB, sub) X(MUL_LO, mul_lo) X(MUL_HI, mul_hi) X(MUL_WIDE, mul_wide)                         \
    X(MAD_LO, mad_lo) X(MAD_HI, mad_hi) X(MAD_WIDE, mad_wide) X(SAD, sad) X(DIV, div) X(REM, rem)             \
    X(ABS, abs) X(NEG, neg) X(MIN, min) X(MAX, max) X(MIN_RELU, min_relu) X(MAX_RELU, max_relu)               \
    X(ADD_SAT, add_sat) X(SUB_SAT, sub_sat) X(MAD_HI_SAT, mad_hi_sat)                                         \
    X(MUL24_LO, mul24_lo) X(MUL24_HI, mul24_hi) X(MAD24_LO, mad24_lo) X(MAD24_HI, mad24_hi)                   \
    X(MAD24_HI_SAT, mad24_hi_sat)                                                                             \
    X(ADD_CC, add_cc) X(ADDC, addc) X(ADDC_CC, addc_cc) X(SUB_CC, sub_cc) X(SUBC, subc) X(SUBC_CC, subc_cc)   \
    X(MAD_LO_CC, mad_lo_cc) X(MAD_HI_CC, mad_hi_cc) X(MADC_LO, madc_lo) X(MADC_LO_CC, madc_lo_cc)             \
    X(MADC_HI, madc_hi) X(MADC_HI_CC, madc_hi_cc)
enum sg_integer_operation {
#define X(upper, lower) SG_INTEGER_##upper,
    SG_INTEGER_OPERATIONS(X)
#undef X
    SG_INTEGER_OPERATION_COUNT
};
/* Several numbers in one register (u16x2, s16x2, u8x4, s8x4), in this order. */
enum sg_packed_operation {
    SG_PACKED_ADD,
    SG_PACKED_SUB,
    SG_PACKED_MIN,
    SG_PACKED_MAX,
    SG_PACKED_MIN_RELU,
    SG_PACKED_MAX_RELU,
    SG_PACKED_ADD_SAT,
    SG_PACKED_SUB_SAT,
    SG_PACKED_NEG,
    SG_PACKED_COUNT
};
struct sg_integer_table {
    sg_alu_function *row[SG_INTEGER_OPERATION_COUNT][SG_INT_COUNT];
    sg_alu_function *packed[SG_PACKED_COUNT][4];
};
SG_CLONE_DECLARE(const struct sg_integer_table, sg_integer_table);

enum { SG_WIDTH_16, SG_WIDTH_32, SG_WIDTH_64, SG_WIDTH_PRED, SG_WIDTH_COUNT };
enum sg_logic { SG_AND, SG_OR, SG_XOR, SG_NOT, SG_CNOT, SG_LOGIC_COUNT };
enum sg_shift { SG_SHL, SG_SHR_UNSIGNED, SG_SHR_SIGNED, SG_SHIFT_COUNT };
enum sg_lop3_predicate { SG_LOP3_PLAIN, SG_LOP3_OR, SG_LOP3_AND, SG_LOP3_COUNT };
enum sg_prmt { SG_PRMT_INDEX, SG_PRMT_F4E, SG_PRMT_B4E, SG_PRMT_RC8, SG_PRMT_ECL, SG_PRMT_ECR, SG_PRMT_RC16,
               SG_PRMT_COUNT };
struct sg_bits_table {
    sg_alu_function *logic[SG_LOGIC_COUNT][SG_WIDTH_COUNT];
    sg_alu_function *shift[SG_SHIFT_COUNT][3];
    sg_alu_function *funnel[2][2];                    /* [left, right][wrap, clamp] */
    sg_alu_function *lop3[SG_LOP3_COUNT];
    sg_alu_function *prmt[SG_PRMT_COUNT];
    sg_alu_function *popc[2], *clz[2], *brev[2];      /* 32, 64 bits */
    sg_alu_function *bfind[2][2][2];                  /* [32, 64][unsigned, signed][position, shift amount] */
    sg_alu_function *bfe[2][2], *bfi[2];              /* [32, 64][unsigned, signed] */
    sg_alu_function *bmsk[2], *szext[2][2];           /* [wrap, clamp], [wrap, clamp][unsigned, signed] */
    sg_alu_function *fns;
    sg_alu_function *dp4a[2][2], *dp2a[2][2][2];      /* [a signed][b signed], [hi][a signed][b signed] */
    sg_alu_function *resize[4][SG_INT_COUNT];         /* [8, 16, 32, 64 bits][from] */
};
SG_CLONE_DECLARE(const struct sg_bits_table, sg_bits_table);

enum sg_testp { SG_FINITE, SG_INFINITE, SG_NUMBER, SG_NOTANUMBER, SG_NORMAL, SG_SUBNORMAL, SG_TESTP_COUNT };
/* of addition, multiplication … in each rounding; of those that only have the nearest, at SG_RN */
enum sg_float_operation { SG_FLOAT_ADD, SG_FLOAT_SUB, SG_FLOAT_MUL, SG_FLOAT_FMA, SG_FLOAT_OPERATION_COUNT };
enum sg_extremum { SG_MIN, SG_MAX, SG_EXTREMUM_COUNT };
struct sg_float_table { /* flags: [ftz], [sat], [NaN], [.abs], [3 sources] */
    sg_alu_function *f32[SG_FLOAT_OPERATION_COUNT][SG_ROUND_COUNT][2][2];
    sg_alu_function *f32_div[SG_ROUND_COUNT][2], *f32_rcp[SG_ROUND_COUNT][2], *f32_sqrt[SG_ROUND_COUNT][2];
    sg_alu_function *f32_neg[2], *f32_abs[2], *f32_extremum[SG_EXTREMUM_COUNT][2][2][2][2];
    sg_alu_function *f32_testp[SG_TESTP_COUNT], *f32_copysign;
    sg_alu_function *f32x2[SG_FLOAT_OPERATION_COUNT][SG_ROUND_COUNT][2];
    sg_alu_function *mixed[SG_FLOAT_OPERATION_COUNT][2];     /* f32 with factors or first summand in [f16, bf16] */
};
/* mixed's immediate */
#define SG_MIXED_IMMEDIATE(mode, sat) ((uint64_t)(mode) | (uint64_t)(sat) << 2)
SG_CLONE_DECLARE(const struct sg_float_table, sg_float_table);
struct sg_double_table {
    sg_alu_function *f64[SG_FLOAT_OPERATION_COUNT][SG_ROUND_COUNT];
    sg_alu_function *div[SG_ROUND_COUNT], *rcp[SG_ROUND_COUNT], *sqrt[SG_ROUND_COUNT];
    sg_alu_function *rcp_approx[2], *rsqrt_approx[2];
    sg_alu_function *neg, *abs, *extremum[SG_EXTREMUM_COUNT], *testp[SG_TESTP_COUNT], *copysign;
};
SG_CLONE_DECLARE(const struct sg_double_table, sg_double_table);
enum sg_compare { SG_EQ, SG_NE, SG_LT, SG_LE, SG_GT, SG_GE, SG_ORDER_COUNT,
                  SG_EQU = SG_ORDER_COUNT, SG_NEU, SG_LTU, SG_LEU, SG_GTU, SG_GEU, SG_NUM, SG_NAN, SG_COMPARE_COUNT };
enum sg_combine { SG_COMBINE_NONE, SG_COMBINE_AND, SG_COMBINE_OR, SG_COMBINE_XOR };
enum sg_float_kind { SG_F32, SG_F64, SG_F16, SG_BF16, SG_F16X2, SG_BF16X2, SG_FLOAT_KIND_COUNT };
/* The immediate of setp and set. value: what set writes for true (the low half of it in each half for pairs). */
#define SG_COMPARE_IMMEDIATE(value, combine, compare, ftz) \
    ((uint64_t)(value) | (uint64_t)(combine) << 32 | (uint64_t)(compare) << 36 | (uint64_t)(ftz) << 44)
struct sg_compare_table {
    sg_alu_function *setp_int[SG_ORDER_COUNT][SG_INT_COUNT], *set_int[SG_INT_COUNT];
    sg_alu_function *setp_float[SG_FLOAT_KIND_COUNT][SG_COMPARE_COUNT][2], *set_float[SG_FLOAT_KIND_COUNT];
    sg_alu_function *selp[2], *slct[2][2];            /* [32, 64 bits], [32, 64 bits][s32, f32; ftz in the immediate] */
};
SG_CLONE_DECLARE(const struct sg_compare_table, sg_compare_table);

/* 16-bit floats [f16, bf16, f16x2, bf16x2]; modifiers are flags in the immediate. */
enum sg_half_operation { SG_HALF_ADD, SG_HALF_SUB, SG_HALF_MUL, SG_HALF_FMA, SG_HALF_NEG, SG_HALF_ABS, SG_HALF_MIN,
                         SG_HALF_MAX, SG_HALF_EX2, SG_HALF_TANH, SG_HALF_OPERATION_COUNT };
enum { SG_HALF_FTZ = 1, SG_HALF_SAT = 2, SG_HALF_RELU = 4, SG_HALF_NAN = 8, SG_HALF_XORSIGN = 16, SG_HALF_OOB = 32 };
enum sg_half_kind { SG_HALF_F16, SG_HALF_BF16, SG_HALF_F16X2, SG_HALF_BF16X2, SG_HALF_KIND_COUNT };
struct sg_half_table { sg_alu_function *row[SG_HALF_OPERATION_COUNT][SG_HALF_KIND_COUNT]; };
SG_CLONE_DECLARE(const struct sg_half_table, sg_half_table);

/* cvt. Floats that have a type of their own; tf32 is f32 with fewer bits. Flags are in the immediate. */
enum sg_cvt_float { SG_CVT_F16, SG_CVT_BF16, SG_CVT_F32, SG_CVT_F64, SG_CVT_TF32, SG_CVT_FLOAT_COUNT };
enum { SG_CVT_FTZ = 1, SG_CVT_SAT = 2, SG_CVT_RELU = 4, SG_CVT_SATFINITE = 8 };
enum { SG_CVT_RNA = SG_ROUND_COUNT, SG_CVT_MODE_COUNT };
/* 8-bit and smaller floats, in pairs */
enum sg_cvt_small { SG_CVT_E4M3, SG_CVT_E5M2, SG_CVT_E2M1, SG_CVT_E2M3, SG_CVT_E3M2, SG_CVT_SMALL_COUNT };
struct sg_convert_int_table {
    sg_alu_function *saturate[SG_INT_COUNT][SG_INT_COUNT];                    /* [to][from] */
    sg_alu_function *to_float[SG_CVT_TF32][SG_INT_COUNT][SG_ROUND_COUNT];     /* [to][from][mode] */
    sg_alu_function *pack[2];                                                 /* cvt.pack [without c, with c] */
};
SG_CLONE_DECLARE(const struct sg_convert_int_table, sg_convert_int_table);
/* cvt.pack's immediate: bits of each half, and whether it is signed */
#define SG_PACK_IMMEDIATE(bits, is_signed) ((uint64_t)(bits) | (uint64_t)(is_signed) << 8)
struct sg_to_int_table { sg_alu_function *row[SG_INT_COUNT][SG_CVT_TF32][SG_ROUND_COUNT]; };   /* [to][from][mode] */
SG_CLONE_DECLARE(const struct sg_to_int_table, sg_to_int_table);
struct sg_convert_float_table {
    sg_alu_function *row[SG_CVT_FLOAT_COUNT][SG_CVT_TF32][SG_CVT_MODE_COUNT]; /* [to][from][mode] */
    sg_alu_function *integral[SG_CVT_TF32][SG_ROUND_COUNT];                   /* .rni and the like within one type */
    sg_alu_function *pair[2][SG_ROUND_COUNT];                                 /* two f32 to [f16x2, bf16x2][mode] */
    sg_alu_function *pair_random[2], *four_random[SG_CVT_SMALL_COUNT];        /* .rs: the last operand has the bits */
    sg_alu_function *small_from_f32[SG_CVT_SMALL_COUNT], *small_from_f16x2[SG_CVT_SMALL_COUNT];
    sg_alu_function *small_from_bf16x2[SG_CVT_SMALL_COUNT];
    sg_alu_function *small_to_f16x2[SG_CVT_SMALL_COUNT], *small_to_bf16x2[2][SG_CVT_SMALL_COUNT]; /* [scaled] */
    sg_alu_function *fixed_from_f32[2], *fixed_from_bf16x2[2], *fixed_to_bf16x2[2];               /* s2f6x2 [scaled] */
    sg_alu_function *ue8m0_from_f32[2], *ue8m0_from_bf16x2[2], *ue8m0_to_bf16x2;   /* [rz, rp] */
};
SG_CLONE_DECLARE(const struct sg_convert_float_table, sg_convert_float_table);

/* Fast approximations of f32 [ftz]. sat: div.approx and the like have none */
enum sg_approx { SG_APPROX_DIV, SG_APPROX_DIV_FULL, SG_APPROX_RCP, SG_APPROX_SQRT, SG_APPROX_RSQRT, SG_APPROX_SIN,
                 SG_APPROX_COS, SG_APPROX_LG2, SG_APPROX_EX2, SG_APPROX_TANH, SG_APPROX_COUNT };
struct sg_approx_table { sg_alu_function *f32[SG_APPROX_COUNT][2]; };
SG_CLONE_DECLARE(const struct sg_approx_table, sg_approx_table);

#endif
