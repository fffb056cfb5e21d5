/*
 * convert_to_int.c: rows of cvt from floats to integers. PTX ISA, "cvt": the value is rounded to a whole number, then
 * clamped to what the destination holds. NaN becomes 0, but 1 << (bits - 1) from f64 or to 64 bits.
 */
#include "softgpu/alu/integral.h"
#include "softgpu/alu/small_float.h"

/* A whole number, or NaN, to each type. C leaves conversions out of range undefined, so clamping comes first. LOW and
   HIGH are powers of two (or 0): the least number, and the first that is too large. */
#define CLAMPED(x, LOW, HIGH) ((x) >= (HIGH) || (x) < (LOW) || (x) != (x))
#define TO_SMALL(F, NAME, TO, T, LOW, HIGH, MINIMUM, MAXIMUM)                                                        \
    SG_INLINE uint32_t to_##TO##_##NAME(F x, uint32_t nan)                                                           \
    {                                                                                                                \
        const int32_t value = (int32_t)(CLAMPED(x, LOW, HIGH) ? (F)0 : x);                                           \
        return x != x ? nan : x >= (HIGH) ? (T)(MAXIMUM) : x < (LOW) ? (T)(MINIMUM) : (T)value;                      \
    }
#define TO_ALL(F, NAME)                                                                                              \
    TO_SMALL(F, NAME, u8, uint8_t, (F)0, (F)0x1p8, 0, UINT8_MAX)                                                     \
    TO_SMALL(F, NAME, s8, uint8_t, (F)-0x1p7, (F)0x1p7, 0x80, INT8_MAX)                                              \
    TO_SMALL(F, NAME, u16, uint16_t, (F)0, (F)0x1p16, 0, UINT16_MAX)                                                 \
    TO_SMALL(F, NAME, s16, uint16_t, (F)-0x1p15, (F)0x1p15, 0x8000, INT16_MAX)                                       \
    TO_SMALL(F, NAME, s32, uint32_t, (F)-0x1p31, (F)0x1p31, 0x80000000, INT32_MAX)                                   \
    /* unsigned conversions have no instruction before AVX-512: the upper half goes down and comes back */          \
    SG_INLINE uint32_t to_u32_##NAME(F x, uint32_t nan)                                                              \
    {                                                                                                                \
        const bool upper = x >= (F)0x1p31;                                                                           \
        const F y = upper ? x - (F)0x1p31 : x;                                                                       \
        const uint32_t value = (uint32_t)(int32_t)(CLAMPED(y, 0, (F)0x1p31) ? (F)0 : y) ^ (uint32_t)upper << 31;     \
        return x != x ? nan : x >= (F)0x1p32 ? UINT32_MAX : x < 0 ? 0 : value;                                       \
    }                                                                                                                \
    SG_INLINE uint64_t to_s64_##NAME(F x, uint64_t nan)                                                              \
    {                                                                                                                \
        const uint64_t value = (uint64_t)(int64_t)(CLAMPED(x, (F)-0x1p63, (F)0x1p63) ? (F)0 : x);                    \
        return x != x ? nan : x >= (F)0x1p63 ? INT64_MAX : x < (F)-0x1p63 ? (uint64_t)INT64_MIN : value;             \
    }                                                                                                                \
    SG_INLINE uint64_t to_u64_##NAME(F x, uint64_t nan)                                                              \
    {                                                                                                                \
        const bool upper = x >= (F)0x1p63;                                                                           \
        const F y = upper ? x - (F)0x1p63 : x;                                                                       \
        const uint64_t value = (uint64_t)(int64_t)(CLAMPED(y, 0, (F)0x1p63) ? (F)0 : y) ^ (uint64_t)upper << 63;     \
        return x != x ? nan : x >= (F)0x1p64 ? UINT64_MAX : x < 0 ? 0 : value;                                       \
    }
TO_ALL(float, f32)
TO_ALL(double, f64)

#define LOAD_f16(x) small_to_f32((x) & 0xffff, FORMAT_F16)
#define LOAD_bf16(x) small_to_f32((x) & 0xffff, FORMAT_BF16)
#define LOAD_f32(x) load_f32((x), ftz)
#define LOAD_f64(x) bits_double(x)
#define NAN_8 0x80
#define NAN_16 0x8000
#define NAN_32 0x80000000u
#define NAN_64 0x8000000000000000u

#define ROW(FROM, A, NAME, TO, D, NAN_VALUE, MODE)                                                                   \
    static void TO##_##FROM##_##MODE(const struct sg_rows *r)                                                        \
    {                                                                                                                \
        D *d = ROW_OF(D, r->d);                                                                                      \
        const A *a = SOURCE(A, 0);                                                                                   \
        const bool ftz = r->immediate & SG_CVT_FTZ;                                                                  \
        SG_FOR_LANES(i) d[i] = to_##TO##_##NAME(integral_##NAME(LOAD_##FROM(a[i]), MODE), NAN_VALUE);                \
        (void)ftz;                                                                                                   \
    }
#define ROW_MODES(...) ROW(__VA_ARGS__, SG_RN) ROW(__VA_ARGS__, SG_RZ) ROW(__VA_ARGS__, SG_RM) ROW(__VA_ARGS__, SG_RP)
#define ROW_FROM(FROM, A, NAME, N8, N16, N32)                                                                        \
    ROW_MODES(FROM, A, NAME, u8, uint32_t, N8)                                                                       \
    ROW_MODES(FROM, A, NAME, s8, uint32_t, N8)                                                                       \
    ROW_MODES(FROM, A, NAME, u16, uint32_t, N16)                                                                     \
    ROW_MODES(FROM, A, NAME, s16, uint32_t, N16)                                                                     \
    ROW_MODES(FROM, A, NAME, u32, uint32_t, N32)                                                                     \
    ROW_MODES(FROM, A, NAME, s32, uint32_t, N32)                                                                     \
    ROW_MODES(FROM, A, NAME, u64, uint64_t, NAN_64)                                                                  \
    ROW_MODES(FROM, A, NAME, s64, uint64_t, NAN_64)
ROW_FROM(f16, uint32_t, f32, 0, 0, 0)
ROW_FROM(bf16, uint32_t, f32, 0, 0, 0)
ROW_FROM(f32, uint32_t, f32, 0, 0, 0)
ROW_FROM(f64, uint64_t, f64, NAN_8, NAN_16, NAN_32)

#define MODES(TO, FROM) { TO##_##FROM##_SG_RN, TO##_##FROM##_SG_RZ, TO##_##FROM##_SG_RM, TO##_##FROM##_SG_RP }
#define FROM_ALL(TO) { [SG_CVT_F16] = MODES(TO, f16), [SG_CVT_BF16] = MODES(TO, bf16), [SG_CVT_F32] = MODES(TO, f32), \
                       [SG_CVT_F64] = MODES(TO, f64) }
const struct sg_to_int_table SG_CLONE(sg_to_int_table) = {
    .row = { [SG_U8] = FROM_ALL(u8), [SG_S8] = FROM_ALL(s8), [SG_U16] = FROM_ALL(u16), [SG_S16] = FROM_ALL(s16),
             [SG_U32] = FROM_ALL(u32), [SG_S32] = FROM_ALL(s32), [SG_U64] = FROM_ALL(u64), [SG_S64] = FROM_ALL(s64) },
};
