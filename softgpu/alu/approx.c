/*
 * approx.c: rows of f32 for which PTX only promises a bound on the error (.approx, .full). They are as good as
 * the nearest f32 or next to it, with the special values that PTX lists.
 */
#include "softgpu/alu/elementary.h"

/* 1 / b is subnormal and flushed there: above 2^126 PTX has 0, and NaN for an infinite a */
SG_INLINE float div_approx(float a, float b)
{
    const float size = __builtin_fabsf(b);
    return size > 0x1p126f && size < INFINITY ? a * __builtin_copysignf(0.0f, b) : a / b;
}

SG_INLINE float lane(enum sg_approx function, float x, float y, bool ftz)
{
    switch (function) {
    case SG_APPROX_DIV:      return div_approx(x, y);
    case SG_APPROX_DIV_FULL: return x / y;
    case SG_APPROX_RCP:      return 1.0f / x;
    case SG_APPROX_SQRT:     return __builtin_sqrtf(x);
    case SG_APPROX_RSQRT:    return 1.0f / __builtin_sqrtf(x);
    case SG_APPROX_SIN:      return elementary_sine(x, 0);
    case SG_APPROX_COS:      return elementary_sine(x, 1);
    case SG_APPROX_LG2:      return elementary_lg2(x);
    case SG_APPROX_EX2:      return elementary_ex2_f32(x, ftz);
    default:                 return elementary_tanh(x);
    }
}

SG_INLINE void approx_rows(const struct sg_rows *r, enum sg_approx function, bool ftz)
{
    const bool circle = function == SG_APPROX_SIN || function == SG_APPROX_COS;
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0);
    const uint32_t *b = SOURCE(uint32_t, function == SG_APPROX_DIV || function == SG_APPROX_DIV_FULL ? 1 : 0);
    ROW_ARRAY(uint32_t, kept);                        /* d may be a */
    uint32_t far = 0;
    SG_FOR_LANES(i) {
        const float x = load_f32(a[i], ftz), y = load_f32(b[i], ftz);
        if (circle) {
            kept[i] = a[i];
            far |= (uint32_t)(__builtin_fabsf(x) > ELEMENTARY_CIRCLE);
        }
        d[i] = store_f32(lane(function, x, y, ftz), ftz, false);
    }
    for (unsigned i = 0; circle && far && i < SG_LANES; i++) {
        const float x = load_f32(kept[i], ftz);
        if (__builtin_fabsf(x) > ELEMENTARY_CIRCLE)
            d[i] = store_f32((float)(function == SG_APPROX_SIN ? sin(x) : cos(x)), ftz, false);
    }
}

#define APPROX(name, function)                                                                    \
    static void name##_0(const struct sg_rows *r) { approx_rows(r, function, false); }            \
    static void name##_1(const struct sg_rows *r) { approx_rows(r, function, true); }
APPROX(div, SG_APPROX_DIV)
APPROX(div_full, SG_APPROX_DIV_FULL)
APPROX(rcp, SG_APPROX_RCP)
APPROX(sqrt, SG_APPROX_SQRT)
APPROX(rsqrt, SG_APPROX_RSQRT)
APPROX(sin, SG_APPROX_SIN)
APPROX(cos, SG_APPROX_COS)
APPROX(lg2, SG_APPROX_LG2)
APPROX(ex2, SG_APPROX_EX2)
APPROX(tanh, SG_APPROX_TANH)

#define BOTH(name) { name##_0, name##_1 }
const struct sg_approx_table SG_CLONE(sg_approx_table) = {
    .f32 = { [SG_APPROX_DIV] = BOTH(div),
             [SG_APPROX_DIV_FULL] = BOTH(div_full),
             [SG_APPROX_RCP] = BOTH(rcp),
             [SG_APPROX_SQRT] = BOTH(sqrt),
             [SG_APPROX_RSQRT] = BOTH(rsqrt),
             [SG_APPROX_SIN] = BOTH(sin),
             [SG_APPROX_COS] = BOTH(cos),
             [SG_APPROX_LG2] = BOTH(lg2),
             [SG_APPROX_EX2] = BOTH(ex2),
             [SG_APPROX_TANH] = BOTH(tanh) },
};
