/*
 * integer.c: rows of integer arithmetic. PTX ISA, "Integer Arithmetic Instructions" and
 * "Extended-Precision Integer Arithmetic Instructions".
 *
 * INTEGER_ROWS is written out for each type. T is the type itself, U its unsigned twin in which sums and products
 * are made (at least 32 bits wide, since narrower ones would become int and overflow), W and UW the same of
 * twice the width, CELL what a register holds. "(U)(T)x" extends as the type says.
 */
#include "softgpu/alu/row.h"
#include "softgpu/alu/tables.h"

/* Division by zero gives all ones, and the most negative number divided by -1 itself, remainder 0, as on
   the hardware. 32-bit quotients are taken in double: 53 bits hold them with enough left for
   truncation to be exact, and unlike integer division that is done in vectors. So is the way back: added to 2^52
   (and a half more of it, for the sign), a whole number stands in the low bits. */
static inline uint32_t quotient_u32(uint32_t a, uint32_t b)
{
    const uint32_t q = (uint32_t)double_bits(__builtin_trunc((double)a / (double)b) + 0x1p52);
    return b ? q : UINT32_MAX;
}
static inline uint32_t quotient_s32(int32_t a, int32_t b)
{
    const uint32_t q = (uint32_t)double_bits(__builtin_trunc((double)a / (double)b) + 0x1.8p52);
    return b ? q : UINT32_MAX;
}
static inline uint32_t remainder_u32(uint32_t a, uint32_t b) { return b ? a - quotient_u32(a, b) * b : UINT32_MAX; }
static inline uint32_t remainder_s32(int32_t a, int32_t b)
{
    return b ? (uint32_t)a - quotient_s32(a, b) * (uint32_t)b : UINT32_MAX;
}
static inline uint16_t quotient_u16(uint16_t a, uint16_t b) { return (uint16_t)quotient_u32(a, b); }
static inline uint16_t quotient_s16(int16_t a, int16_t b)   { return (uint16_t)quotient_s32(a, b); }
static inline uint16_t remainder_u16(uint16_t a, uint16_t b) { return (uint16_t)remainder_u32(a, b); }
static inline uint16_t remainder_s16(int16_t a, int16_t b)   { return (uint16_t)remainder_s32(a, b); }
static inline uint64_t quotient_u64(uint64_t a, uint64_t b) { return b ? a / b : UINT64_MAX; }
static inline uint64_t remainder_u64(uint64_t a, uint64_t b) { return b ? a % b : UINT64_MAX; }
static inline uint64_t quotient_s64(int64_t a, int64_t b)
{
    return b == 0 ? UINT64_MAX : b == -1 ? 0 - (uint64_t)a : (uint64_t)(a / b);
}
static inline uint64_t remainder_s64(int64_t a, int64_t b)
{
    return b == 0 ? UINT64_MAX : b == -1 ? 0 : (uint64_t)(a % b);
}

typedef unsigned __int128 u128;
typedef __int128 s128;

#define INTEGER_ROWS(N, CELL, WCELL, T, NARROW, U, W, UW, BITS)                                           \
    ROW2(add_##N, CELL, CELL, CELL, (NARROW)((U)a + (U)b))                                                \
    ROW2(sub_##N, CELL, CELL, CELL, (NARROW)((U)a - (U)b))                                                \
    ROW2(mul_lo_##N, CELL, CELL, CELL, (NARROW)((U)a * (U)b))                                             \
    ROW2(mul_hi_##N, CELL, CELL, CELL, (NARROW)((UW)((UW)(W)(T)a * (UW)(W)(T)b) >> BITS))                 \
    ROW3(mad_lo_##N, CELL, CELL, CELL, CELL, (NARROW)((U)a * (U)b + (U)c))                                \
    ROW3(mad_hi_##N, CELL, CELL, CELL, CELL, (NARROW)(((UW)((UW)(W)(T)a * (UW)(W)(T)b) >> BITS) + (UW)c)) \
    ROW3(sad_##N, CELL, CELL, CELL, CELL, (NARROW)((U)c + ((T)a < (T)b ? (U)b - (U)a : (U)a - (U)b)))     \
    ROW2(div_##N, CELL, CELL, CELL, quotient_##N((T)a, (T)b))                                             \
    ROW2(rem_##N, CELL, CELL, CELL, remainder_##N((T)a, (T)b))                                            \
    ROW2(min_##N, CELL, CELL, CELL, (NARROW)((T)a < (T)b ? (T)a : (T)b))                                  \
    ROW2(max_##N, CELL, CELL, CELL, (NARROW)((T)a > (T)b ? (T)a : (T)b))
#define SIGNED_ROWS(N, CELL, T, NARROW, U)                                                                            \
    ROW1(abs_##N, CELL, CELL, (NARROW)((T)a < 0 ? 0 - (U)a : (U)a))                                                   \
    ROW1(neg_##N, CELL, CELL, (NARROW)(0 - (U)a))
#define WIDE_ROWS(N, CELL, WCELL, T, W, UW)                                                                           \
    ROW2(mul_wide_##N, WCELL, CELL, CELL, (UW)(W)(T)a * (UW)(W)(T)b)                                                  \
    ROW3(mad_wide_##N, WCELL, CELL, CELL, WCELL, (UW)(W)(T)a * (UW)(W)(T)b + c)

/*           name cell      wide cell  type      narrow    unsigned  wide      unsigned wide, bits */
INTEGER_ROWS(u16, uint32_t, uint32_t, uint16_t, uint16_t, uint32_t, uint32_t, uint32_t, 16)
INTEGER_ROWS(s16, uint32_t, uint32_t, int16_t,  uint16_t, uint32_t, int32_t,  uint32_t, 16)
INTEGER_ROWS(u32, uint32_t, uint64_t, uint32_t, uint32_t, uint32_t, uint64_t, uint64_t, 32)
INTEGER_ROWS(s32, uint32_t, uint64_t, int32_t,  uint32_t, uint32_t, int64_t,  uint64_t, 32)
INTEGER_ROWS(u64, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, u128,     u128,     64)
INTEGER_ROWS(s64, uint64_t, uint64_t, int64_t,  uint64_t, uint64_t, s128,     u128,     64)
SIGNED_ROWS(s16, uint32_t, int16_t, uint16_t, uint32_t)
SIGNED_ROWS(s32, uint32_t, int32_t, uint32_t, uint32_t)
SIGNED_ROWS(s64, uint64_t, int64_t, uint64_t, uint64_t)
WIDE_ROWS(u16, uint32_t, uint32_t, uint16_t, uint32_t, uint32_t)
WIDE_ROWS(s16, uint32_t, uint32_t, int16_t,  int32_t,  uint32_t)
WIDE_ROWS(u32, uint32_t, uint64_t, uint32_t, uint64_t, uint64_t)
WIDE_ROWS(s32, uint32_t, uint64_t, int32_t,  int64_t,  uint64_t)

/* .sat: s32 only */
static inline uint32_t saturate_s32(int64_t x)
{
    return (uint32_t)(int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
}
ROW2(add_sat_u32, uint32_t, uint32_t, uint32_t, a + b < a ? UINT32_MAX : a + b)
ROW2(add_sat_s32, uint32_t, uint32_t, uint32_t, saturate_s32((int64_t)(int32_t)a + (int32_t)b))
ROW2(sub_sat_s32, uint32_t, uint32_t, uint32_t, saturate_s32((int64_t)(int32_t)a - (int32_t)b))
ROW3(mad_hi_sat_s32, uint32_t, uint32_t, uint32_t, uint32_t,
     saturate_s32((((int64_t)(int32_t)a * (int32_t)b) >> 32) + (int32_t)c))
ROW2(min_relu_s32, uint32_t, uint32_t, uint32_t, (int32_t)a < 0 || (int32_t)b < 0 ? 0 : a < b ? a : b)
ROW2(max_relu_s32, uint32_t, uint32_t, uint32_t, (int32_t)a < 0 && (int32_t)b < 0 ? 0 : (int32_t)a > (int32_t)b ? a : b)

/* 24 bits: the low 24 of each operand; hi is bits 47..16 of the 48-bit product */
static inline uint64_t product24_u32(uint32_t a, uint32_t b) { return (uint64_t)(a & 0xffffff) * (b & 0xffffff); }
static inline uint64_t product24_s32(uint32_t a, uint32_t b)
{
    return (uint64_t)((int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8));
}
#define ROWS24(N)                                                                                                     \
    ROW2(mul24_lo_##N, uint32_t, uint32_t, uint32_t, product24_##N(a, b))                                             \
    ROW2(mul24_hi_##N, uint32_t, uint32_t, uint32_t, product24_##N(a, b) >> 16)                                       \
    ROW3(mad24_lo_##N, uint32_t, uint32_t, uint32_t, uint32_t, product24_##N(a, b) + c)                               \
    ROW3(mad24_hi_##N, uint32_t, uint32_t, uint32_t, uint32_t, (product24_##N(a, b) >> 16) + c)
ROWS24(u32)
ROWS24(s32)
ROW3(mad24_hi_sat_s32, uint32_t, uint32_t, uint32_t, uint32_t,
     saturate_s32((int64_t)(int32_t)(uint32_t)(product24_s32(a, b) >> 16) + (int32_t)c))

/*
 * Extended precision. `in` is each lane's carry flag, 0 or 1; the new one goes to bit i of the carry, where WRITES says
 * so. VALUE sees a, b, c, in and gives the result; CARRY sees also x.
 *
 * Hardware subtracts by adding the complement: a - b is a + ~b + 1, and the flag is the carry of that sum, so 1 means
 * "no borrow". PTX speaks of a borrow instead, and the two agree as long as subc follows sub. They differ where addc
 * reads the flag of subc, or subc that of add; nvcc's 128-bit division does the first.
 */
#define CARRY_ROW(name, CELL, SOURCES, READS, WRITES, VALUE, CARRY)                                                   \
    static void name(const struct sg_rows *r)                                                                         \
    {                                                                                                                 \
        CELL *d = ROW_OF(CELL, r->d);                                                                                 \
        const CELL *s0 = SOURCE(CELL, 0), *s1 = SOURCE(CELL, 1);                                                      \
        const CELL *s2 = SOURCE(CELL, SOURCES - 1);                                                                   \
        const uint32_t carry = READS ? *r->carry : 0;                                                                 \
        ROW_ARRAY(CELL, out);                                                                                         \
        SG_FOR_LANES(i) {                                                                                             \
            const CELL a = s0[i], b = s1[i], c = s2[i], in = carry >> i & 1;                                          \
            const CELL x = (VALUE);                                                                                   \
            (void)b; (void)c; (void)in;                                                                               \
            out[i] = 0 - (CELL)(CARRY);                                                                               \
            d[i] = x;                                                                                                 \
        }                                                                                                             \
        if (WRITES)                                                                                                   \
            *r->carry = PACK_##CELL(out);                                                                             \
    }
#define PACK_uint32_t pack_lanes32
#define PACK_uint64_t pack_lanes64
/* in cells, not bool, which would not vectorise */
#define CARRY_OF_SUM(CELL, a) ((CELL)(x < (a)) | ((CELL)(x == (a)) & in))
#define CARRY_ROWS(N, CELL)                                                  \
    CARRY_ROW(add_cc_##N, CELL, 2, 0, 1, a + b, x < a)                       \
    CARRY_ROW(addc_##N, CELL, 2, 1, 0, a + b + in, 0)                        \
    CARRY_ROW(addc_cc_##N, CELL, 2, 1, 1, a + b + in, CARRY_OF_SUM(CELL, a)) \
    CARRY_ROW(sub_cc_##N, CELL, 2, 0, 1, a - b, a >= b)                      \
    CARRY_ROW(subc_##N, CELL, 2, 1, 0, a + ~b + in, 0)                       \
    CARRY_ROW(subc_cc_##N, CELL, 2, 1, 1, a + ~b + in, (CELL)(a > b) | ((CELL)(a == b) & in))
#define MAD_CARRY_ROWS(N, CELL, LO, HI)                                          \
    CARRY_ROW(mad_lo_cc_##N, CELL, 3, 0, 1, LO + c, x < c)                       \
    CARRY_ROW(mad_hi_cc_##N, CELL, 3, 0, 1, HI + c, x < c)                       \
    CARRY_ROW(madc_lo_##N, CELL, 3, 1, 0, LO + c + in, 0)                        \
    CARRY_ROW(madc_lo_cc_##N, CELL, 3, 1, 1, LO + c + in, CARRY_OF_SUM(CELL, c)) \
    CARRY_ROW(madc_hi_##N, CELL, 3, 1, 0, HI + c + in, 0)                        \
    CARRY_ROW(madc_hi_cc_##N, CELL, 3, 1, 1, HI + c + in, CARRY_OF_SUM(CELL, c))
CARRY_ROWS(u32, uint32_t)
CARRY_ROWS(u64, uint64_t)
MAD_CARRY_ROWS(u32, uint32_t, a * b, (uint32_t)((uint64_t)a * b >> 32))
MAD_CARRY_ROWS(s32, uint32_t, a * b, (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32))
MAD_CARRY_ROWS(u64, uint64_t, a * b, (uint64_t)((u128)a * b >> 64))
MAD_CARRY_ROWS(s64, uint64_t, a * b, (uint64_t)((u128)((s128)(int64_t)a * (int64_t)b) >> 64))

/* Pairs of 16 bits in one register */
#define PAIR_ROW(name, T, EXPRESSION)                                                                                 \
    static inline uint16_t half_##name(uint16_t x, uint16_t y)                                                        \
    {                                                                                                                 \
        const T a = (T)x, b = (T)y;                                                                                   \
        (void)b;                                                                                                      \
        return (uint16_t)(EXPRESSION);                                                                                \
    }                                                                                                                 \
    ROW2(name, uint32_t, uint32_t, uint32_t, half_##name((uint16_t)a, (uint16_t)b) |                                  \
         (uint32_t)half_##name((uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16)
PAIR_ROW(pair_add, uint16_t, a + b)
PAIR_ROW(pair_sub, uint16_t, a - b)
PAIR_ROW(pair_min_u16, uint16_t, a < b ? a : b)
PAIR_ROW(pair_max_u16, uint16_t, a > b ? a : b)
PAIR_ROW(pair_min_s16, int16_t, a < b ? a : b)
PAIR_ROW(pair_max_s16, int16_t, a > b ? a : b)
PAIR_ROW(pair_min_relu_s16, int16_t, a < 0 || b < 0 ? 0 : a < b ? a : b)
PAIR_ROW(pair_max_relu_s16, int16_t, a < 0 && b < 0 ? 0 : a > b ? a : b)
PAIR_ROW(pair_add_sat_u16, int32_t, a + b > 0xffff ? 0xffff : a + b)
PAIR_ROW(pair_add_sat_s16, int16_t, a + b < INT16_MIN ? INT16_MIN : a + b > INT16_MAX ? INT16_MAX : a + b)
ROW1(pair_neg, uint32_t, uint32_t, ((0 - a) & 0xffff) | ((0 - (a >> 16)) << 16))

/* Four bytes in one register */
#define FOUR_ROW(name, T, EXPRESSION)                                          \
    static inline uint32_t byte_##name(uint32_t x, uint32_t y, unsigned shift) \
    {                                                                          \
        const int a = (T)(x >> shift), b = (T)(y >> shift);                    \
        (void)b;                                                               \
        return (uint32_t)((EXPRESSION)&0xff) << shift;                         \
    }                                                                          \
    ROW2(name, uint32_t, uint32_t, uint32_t,                                   \
         byte_##name(a, b, 0) | byte_##name(a, b, 8) | byte_##name(a, b, 16) | byte_##name(a, b, 24))
FOUR_ROW(four_add, uint8_t, a + b)
FOUR_ROW(four_sub, uint8_t, a - b)
FOUR_ROW(four_min_u8, uint8_t, a < b ? a : b)
FOUR_ROW(four_max_u8, uint8_t, a > b ? a : b)
FOUR_ROW(four_min_s8, int8_t, a < b ? a : b)
FOUR_ROW(four_max_s8, int8_t, a > b ? a : b)
FOUR_ROW(four_min_relu_s8, int8_t, a < 0 || b < 0 ? 0 : a < b ? a : b)
FOUR_ROW(four_max_relu_s8, int8_t, a < 0 && b < 0 ? 0 : a > b ? a : b)
FOUR_ROW(four_add_sat_u8, uint8_t, a + b > UINT8_MAX ? UINT8_MAX : a + b)
FOUR_ROW(four_sub_sat_u8, uint8_t, a < b ? 0 : a - b)
FOUR_ROW(four_add_sat_s8, int8_t, a + b < INT8_MIN ? INT8_MIN : a + b > INT8_MAX ? INT8_MAX : a + b)
FOUR_ROW(four_sub_sat_s8, int8_t, a - b < INT8_MIN ? INT8_MIN : a - b > INT8_MAX ? INT8_MAX : a - b)
ROW1(four_neg, uint32_t, uint32_t,
     byte_four_sub(0, a, 0) | byte_four_sub(0, a, 8) | byte_four_sub(0, a, 16) | byte_four_sub(0, a, 24))

#define ALL6(name) { [SG_U16] = name##_u16, [SG_S16] = name##_s16, [SG_U32] = name##_u32, [SG_S32] = name##_s32,      \
                     [SG_U64] = name##_u64, [SG_S64] = name##_s64 }
#define WIDE4(name) { [SG_U16] = name##_u16, [SG_S16] = name##_s16, [SG_U32] = name##_u32, [SG_S32] = name##_s32 }
#define SIGNED3(name) { [SG_S16] = name##_s16, [SG_S32] = name##_s32, [SG_S64] = name##_s64 }
#define ONLY_S32(name) { [SG_S32] = name##_s32 }
#define BOTH32(name) { [SG_U32] = name##_u32, [SG_S32] = name##_s32 }
#define CARRY4(name) { [SG_U32] = name##_u32, [SG_S32] = name##_u32, [SG_U64] = name##_u64, [SG_S64] = name##_u64 }
#define MAD_CARRY4(name) { [SG_U32] = name##_u32, [SG_S32] = name##_s32, [SG_U64] = name##_u64, [SG_S64] = name##_s64 }

const struct sg_integer_table SG_CLONE(sg_integer_table) = {
    .row = {
        [SG_INTEGER_ADD] = ALL6(add), [SG_INTEGER_SUB] = ALL6(sub),
        [SG_INTEGER_MUL_LO] = ALL6(mul_lo), [SG_INTEGER_MUL_HI] = ALL6(mul_hi), [SG_INTEGER_MUL_WIDE] = WIDE4(mul_wide),
        [SG_INTEGER_MAD_LO] = ALL6(mad_lo), [SG_INTEGER_MAD_HI] = ALL6(mad_hi), [SG_INTEGER_MAD_WIDE] = WIDE4(mad_wide),
        [SG_INTEGER_SAD] = ALL6(sad), [SG_INTEGER_DIV] = ALL6(div), [SG_INTEGER_REM] = ALL6(rem),
        [SG_INTEGER_ABS] = SIGNED3(abs), [SG_INTEGER_NEG] = SIGNED3(neg),
        [SG_INTEGER_MIN] = ALL6(min), [SG_INTEGER_MAX] = ALL6(max),
        [SG_INTEGER_MIN_RELU] = ONLY_S32(min_relu), [SG_INTEGER_MAX_RELU] = ONLY_S32(max_relu),
        [SG_INTEGER_ADD_SAT] = BOTH32(add_sat), [SG_INTEGER_SUB_SAT] = ONLY_S32(sub_sat),
        [SG_INTEGER_MAD_HI_SAT] = ONLY_S32(mad_hi_sat),
        [SG_INTEGER_MUL24_LO] = BOTH32(mul24_lo), [SG_INTEGER_MUL24_HI] = BOTH32(mul24_hi),
        [SG_INTEGER_MAD24_LO] = BOTH32(mad24_lo), [SG_INTEGER_MAD24_HI] = BOTH32(mad24_hi),
        [SG_INTEGER_MAD24_HI_SAT] = ONLY_S32(mad24_hi_sat),
        [SG_INTEGER_ADD_CC] = CARRY4(add_cc), [SG_INTEGER_ADDC] = CARRY4(addc), [SG_INTEGER_ADDC_CC] = CARRY4(addc_cc),
        [SG_INTEGER_SUB_CC] = CARRY4(sub_cc), [SG_INTEGER_SUBC] = CARRY4(subc), [SG_INTEGER_SUBC_CC] = CARRY4(subc_cc),
        [SG_INTEGER_MAD_LO_CC] = MAD_CARRY4(mad_lo_cc), [SG_INTEGER_MAD_HI_CC] = MAD_CARRY4(mad_hi_cc),
        [SG_INTEGER_MADC_LO] = MAD_CARRY4(madc_lo), [SG_INTEGER_MADC_LO_CC] = MAD_CARRY4(madc_lo_cc),
        [SG_INTEGER_MADC_HI] = MAD_CARRY4(madc_hi), [SG_INTEGER_MADC_HI_CC] = MAD_CARRY4(madc_hi_cc),
    },
    .packed = {
        [SG_PACKED_ADD] = { pair_add, pair_add, four_add, four_add },
        [SG_PACKED_SUB] = { pair_sub, pair_sub, four_sub, four_sub },
        [SG_PACKED_MIN] = { pair_min_u16, pair_min_s16, four_min_u8, four_min_s8 },
        [SG_PACKED_MAX] = { pair_max_u16, pair_max_s16, four_max_u8, four_max_s8 },
        [SG_PACKED_MIN_RELU] = { NULL, pair_min_relu_s16, NULL, four_min_relu_s8 },
        [SG_PACKED_MAX_RELU] = { NULL, pair_max_relu_s16, NULL, four_max_relu_s8 },
        [SG_PACKED_ADD_SAT] = { pair_add_sat_u16, pair_add_sat_s16, four_add_sat_u8, four_add_sat_s8 },
        [SG_PACKED_SUB_SAT] = { NULL, NULL, four_sub_sat_u8, four_sub_sat_s8 },
        [SG_PACKED_NEG] = { pair_neg, pair_neg, NULL, four_neg },
    },
};
