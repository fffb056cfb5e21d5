/* integral.h: floats rounded to whole numbers, in each mode, keeping the sign of zero. */
#ifndef SOFTGPU_ALU_INTEGRAL_H
#define SOFTGPU_ALU_INTEGRAL_H

#include "softgpu/alu/rounding.h"

/* Without SSE 4.1: what is below 2^52 loses its fraction when 2^52 is added, and what nearest did too far is undone. */
#define INTEGRAL(NAME, F, UNIT, SUFFIX)                                                                       \
    SG_INLINE F integral_##NAME(F x, enum sg_round mode)                                                      \
    {                                                                                                         \
        if (HAS_ROUND)                                                                                        \
            return mode == SG_RN ? __builtin_rint##SUFFIX(x) : mode == SG_RZ ? __builtin_trunc##SUFFIX(x) :   \
                   mode == SG_RM ? __builtin_floor##SUFFIX(x) : __builtin_ceil##SUFFIX(x);                    \
        const F size = __builtin_fabs##SUFFIX(x), near = (size + UNIT) - UNIT;                                \
        const bool negative = x < 0;                                                                          \
        F y = near;                                                                                           \
        if (mode == SG_RZ || mode == (negative ? SG_RP : SG_RM))                                              \
            y = near > size ? near - 1 : near;                                                                \
        else if (mode != SG_RN)                                                                               \
            y = near < size ? near + 1 : near;                                                                \
        return __builtin_copysign##SUFFIX(size < UNIT ? y : size, x);                                         \
    }
#if defined __SSE4_1__ || !defined __x86_64__
#define HAS_ROUND 1
#else
#define HAS_ROUND 0
#endif
INTEGRAL(f32, float, 0x1p23f, f)
INTEGRAL(f64, double, 0x1p52, )
#undef HAS_ROUND
#undef INTEGRAL

#endif
