/*
 * rounding.h: what float rows share: rounding, flushing, saturation, NaNs.
 *
 * Rounding other than to nearest is done by the processor: its mode is set before a row's loop and set back after.
 * The compilers know nothing of the mode, and could move arithmetic across the switch; what keeps it in place
 * is that every operand is loaded from a row, and every result stored to one, and neither may cross
 * an asm that clobbers memory. So between rounding_set and rounding_restore work only on what is loaded
 * there, and store it there. tests/alu checks the results of every clone with gcc and clang.
 */
#ifndef SOFTGPU_ALU_ROUNDING_H
#define SOFTGPU_ALU_ROUNDING_H

#include <fenv.h>
#include <math.h>
#include "softgpu/alu/row.h"
#include "softgpu/alu/tables.h"

#define SG_INLINE static inline __attribute__((always_inline))

SG_INLINE uint32_t rounding_set(enum sg_round mode)
{
#ifdef __x86_64__
    static const uint32_t bits[SG_ROUND_COUNT] = { [SG_RN] = 0x0000, [SG_RM] = 0x2000, [SG_RP] = 0x4000,
                                                   [SG_RZ] = 0x6000 };
    if (mode == SG_RN)
        return 0;
    const uint32_t before = _mm_getcsr();
    const uint32_t now = (before & ~0x6000u) | bits[mode];
    __asm__ volatile("ldmxcsr %0" : : "m"(now) : "memory");
    return before;
#else
    static const int modes[SG_ROUND_COUNT] = { FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD };
    if (mode == SG_RN)
        return 0;
    const uint32_t before = (uint32_t)fegetround();
    fesetround(modes[mode]);
    __asm__ volatile("" : : : "memory");
    return before;
#endif
}

SG_INLINE void rounding_restore(enum sg_round mode, uint32_t before)
{
    if (mode == SG_RN)
        return;
#ifdef __x86_64__
    __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory");
#else
    __asm__ volatile("" : : : "memory");
    fesetround((int)before);
#endif
}

/* Operands and results as PTX has them: .ftz flushes subnormals, keeping the sign, .sat clamps to [+0, 1] with
   NaN as +0, and any NaN that f32 arithmetic makes is 0x7fffffff. f64 has neither, and keeps the NaN that the
   processor makes: the quieted operand, or 0xfff8000000000000, which is also CUDA's CUDART_NAN. */
#define NAN_F32 0x7fffffffu
#define NAN_F64 0xfff8000000000000u

SG_INLINE uint32_t flush32(uint32_t x, bool ftz) { return !ftz || (x & 0x7f800000) ? x : x & 0x80000000; }
SG_INLINE float load_f32(uint32_t x, bool ftz) { return bits_float(flush32(x, ftz)); }
SG_INLINE uint32_t store_f32(float x, bool ftz, bool sat)
{
    if (sat) {
        x = x > 0.0f ? x : 0.0f;
        return flush32(float_bits(x < 1.0f ? x : 1.0f), ftz);
    }
    return x != x ? NAN_F32 : flush32(float_bits(x), ftz);
}

/* Where the processor has no fused multiply-add: the exact product in double, and the sum rounded to odd, whose
   53 bits then round once more to the right 24. Nearest only; other modes leave it to the C library, slowly. */
SG_INLINE float fma_f32(float a, float b, float c, enum sg_round mode)
{
#ifdef __FMA__
    (void)mode;
    return __builtin_fmaf(a, b, c);
#else
    if (mode != SG_RN)
        return fmaf(a, b, c);
    const double product = (double)a * b, sum = product + c;
    const double part = sum - product, error = (product - (sum - part)) + (c - part);
    const uint64_t bits = double_bits(sum);
    const uint64_t step = (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
    return (float)bits_double((error > 0 || error < 0) && !(bits & 1) ? bits + step : bits);
#endif
}

SG_INLINE double fma_f64(double a, double b, double c)
{
#ifdef __FMA__
    return __builtin_fma(a, b, c);
#else
    return fma(a, b, c);
#endif
}

/* One function for each combination of constants: NAME(mode, ftz, sat) is NAME_rows with them. */
#define MODE_VARIANTS(V, ...) V(SG_RN, __VA_ARGS__) V(SG_RZ, __VA_ARGS__) V(SG_RM, __VA_ARGS__) V(SG_RP, __VA_ARGS__)
#define MODE_TABLE(V, ...) { [SG_RN] = V(SG_RN, __VA_ARGS__), [SG_RZ] = V(SG_RZ, __VA_ARGS__), \
                             [SG_RM] = V(SG_RM, __VA_ARGS__), [SG_RP] = V(SG_RP, __VA_ARGS__) }

#endif
