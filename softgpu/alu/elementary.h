/*
 * elementary.h: 2^x, log2, sine, cosine and tanh of an f32, in double, and 2^x also in float.
 *
 * Each is a reduction and a polynomial, without tables or branches, so that loops over lanes vectorise. Errors in
 * double are below 2^-35 relative to the result, so that rounded to f32 nearly every value is the nearest, and PTX's
 * bounds for .approx (2^-22 and wider) hold with room. NaN gives NaN everywhere.
 *
 * The compiler does the same operations in the same order (softgpu/jit/elementary.c): a change here is one there.
 */
#ifndef SOFTGPU_ALU_ELEMENTARY_H
#define SOFTGPU_ALU_ELEMENTARY_H

#include "softgpu/alu/rounding.h"

/* Added to a double below 2^51 and taken away again, it rounds to an integer, which it leaves in the low bits. */
#define TO_INTEGER 0x1.8p52

/* 2^f is 1 + f * (EX2_1 + f * (EX2_2 + ...)) from -1/2 to 1/2 */
#define ELEMENTARY_EX2_1 0x1.62e43p-1f
#define ELEMENTARY_EX2_2 0x1.ebfbdcp-3f
#define ELEMENTARY_EX2_3 0x1.c6af7cp-5f
#define ELEMENTARY_EX2_4 0x1.3b2dep-7f
#define ELEMENTARY_EX2_5 0x1.5f082ep-10f
#define ELEMENTARY_EX2_6 0x1.416b52p-13f

/* 2^x; below 2^-200 and above 2^200 these stand for what f32 rounds to 0 and infinity */
SG_INLINE double elementary_ex2(double x)
{
    x = x > 200.0 ? 200.0 : x < -200.0 ? -200.0 : x;
    const double shifted = x + TO_INTEGER, f = (x - (shifted - TO_INTEGER)) * 0x1.62e42fefa39efp-1;  /* ln 2 */
    const double scale = bits_double((double_bits(shifted) + 1023) << 52);
    const double p = 1.0 + f * (1.0 + f * (1.0 / 2 + f * (1.0 / 6 + f * (1.0 / 24 + f * (1.0 / 120 + f * (1.0 / 720 +
                     f * (1.0 / 5040 + f * (1.0 / 40320 + f * (1.0 / 362880)))))))));
    return p * scale;
}

/* 2^x with an error below 0.8 units in the last place. With ftz, what is below the least normal number is 0. */
#define TO_INTEGER_F32 0x1.8p23f
SG_INLINE float elementary_ex2_f32(float x, bool ftz)
{
    const float within = ftz ? x : x > 160.0f ? 160.0f : x < -160.0f ? -160.0f : x;
    const float shifted = within + TO_INTEGER_F32, f = within - (shifted - TO_INTEGER_F32);
    const uint32_t exponent = float_bits(shifted);    /* its low bits are the integer */
    float p = ELEMENTARY_EX2_6;
    p = fma_f32(p, f, ELEMENTARY_EX2_5, SG_RN);
    p = fma_f32(p, f, ELEMENTARY_EX2_4, SG_RN);
    p = fma_f32(p, f, ELEMENTARY_EX2_3, SG_RN);
    p = fma_f32(p, f, ELEMENTARY_EX2_2, SG_RN);
    p = fma_f32(p, f, ELEMENTARY_EX2_1, SG_RN);
    p = fma_f32(p, f, 1.0f, SG_RN);
    if (ftz) {
        const float y = bits_float(float_bits(p) + (exponent << 23));
        return x < -126.0f ? 0.0f : x < 128.0f ? y : x + INFINITY;
    }
    /* a power of two in two factors, so that only the second product rounds */
    const uint32_t half = (uint32_t)((int32_t)(exponent - float_bits(TO_INTEGER_F32)) >> 1);
    return p * bits_float((half + 127) << 23) * bits_float((exponent - half + 127) << 23);
}

/* log2 of a positive, finite, normal x */
SG_INLINE double elementary_log2(double x)
{
    const uint64_t bits = double_bits(x);
    /* exponent such that the rest lies between sqrt(1/2) and sqrt(2); + 1024 keeps it positive for the shift */
    const uint64_t exponent = ((bits - 0x3fe6a09e667f3bcd) + ((uint64_t)1024 << 52)) >> 52;
    const double m = bits_double(bits - ((exponent - 1024) << 52));
    const double f = (m - 1.0) / (m + 1.0), g = f * f;
    const double p =
        f * (1.0 + g * (1.0 / 3 + g * (1.0 / 5 + g * (1.0 / 7 + g * (1.0 / 9 + g * (1.0 / 11 + g * (1.0 / 13)))))));
    return (double)((int32_t)exponent - 1024) + p * 0x1.71547652b82fep+1;                  /* 2 / ln 2 */
}

SG_INLINE float elementary_lg2(float x)
{
    const float y = (float)elementary_log2(x > 0.0f && x < INFINITY ? (double)x : 1.0);
    return x == 0.0f ? -INFINITY : !(x > 0.0f) ? bits_float(NAN_F32) : x == INFINITY ? x : y;
}

/* Sine (quadrant 0) or cosine (1). Beyond ELEMENTARY_CIRCLE the reduction by two parts of pi/2 is no longer
   accurate, and the caller takes the C library's. */
#define ELEMENTARY_CIRCLE 0x1p20f
SG_INLINE float elementary_sine(float value, unsigned quadrant)
{
    const double x = value, shifted = x * 0x1.45f306dc9c883p-1 + TO_INTEGER, turns = shifted - TO_INTEGER;  /* 2 / pi */
    const double r = (x - turns * 0x1.921fb544p+0) - turns * 0x1.0b4611a626331p-34, g = r * r;
    const double sine =
        r * (1.0 + g * (-1.0 / 6 + g * (1.0 / 120 + g * (-1.0 / 5040 + g * (1.0 / 362880 + g * (-1.0 / 39916800))))));
    const double cosine =
        1.0 + g * (-1.0 / 2 + g * (1.0 / 24 + g * (-1.0 / 720 +
                                                   g * (1.0 / 40320 + g * (-1.0 / 3628800 + g * (1.0 / 479001600))))));
    const uint64_t n = double_bits(shifted) + quadrant;
    const double y = n & 1 ? cosine : sine;
    return (float)(n & 2 ? -y : y);
}

SG_INLINE float elementary_tanh(float x)
{
    const double a = __builtin_fabsf(x), e = elementary_ex2(a * 0x1.71547652b82fep+1), g = a * a;
    const double near = a * (1.0 - g * (1.0 / 3 - g * (2.0 / 15)));                        /* to 2^-35 below 1/128 */
    const double y = a < 0x1p-7 ? near : 1.0 - 2.0 / (e + 1.0);
    return __builtin_copysignf((float)y, x);
}

#endif
