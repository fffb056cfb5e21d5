/*
 * row.h: what every file of row loops uses: loops over 32 lanes, bit patterns and predicates.
 *
 * Rows are read and written as uint32_t and uint64_t only; floats pass through float_bits and the like, so that
 * no two types alias. ROW1 … ROW3 define a static row function whose body is one expression of the lanes'
 * values a, b, c; the names of cell types (D, A, B, C) are uint32_t or uint64_t.
 */
#ifndef SOFTGPU_ALU_ROW_H
#define SOFTGPU_ALU_ROW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include "softgpu/alu/clones.h"
#include "softgpu/alu/alu.h"

#define ROW_ALIGN 64
#define ROW_ARRAY(T, name) _Alignas(ROW_ALIGN) T name[SG_LANES]
#define ROW_OF(T, pointer) ((T *)__builtin_assume_aligned((pointer), ROW_ALIGN))
#define SOURCE(T, index) ROW_OF(const T, r->s[index])

#define ROW1(name, D, A, ...)                                                                 \
    static void name(const struct sg_rows *r)                                                 \
    {                                                                                         \
        D *d = ROW_OF(D, r->d);                                                               \
        const A *s0 = SOURCE(A, 0);                                                           \
        SG_FOR_LANES(i) { const A a = s0[i]; d[i] = (D)(__VA_ARGS__); }                       \
    }
#define ROW2(name, D, A, B, ...)                                                              \
    static void name(const struct sg_rows *r)                                                 \
    {                                                                                         \
        D *d = ROW_OF(D, r->d);                                                               \
        const A *s0 = SOURCE(A, 0);                                                           \
        const B *s1 = SOURCE(B, 1);                                                           \
        SG_FOR_LANES(i) { const A a = s0[i]; const B b = s1[i]; d[i] = (D)(__VA_ARGS__); }    \
    }
#define ROW3(name, D, A, B, C, ...)                                                           \
    static void name(const struct sg_rows *r)                                                 \
    {                                                                                         \
        D *d = ROW_OF(D, r->d);                                                               \
        const A *s0 = SOURCE(A, 0);                                                           \
        const B *s1 = SOURCE(B, 1);                                                           \
        const C *s2 = SOURCE(C, 2);                                                           \
        SG_FOR_LANES(i) { const A a = s0[i]; const B b = s1[i]; const C c = s2[i]; d[i] = (D)(__VA_ARGS__); } \
    }

static inline float    bits_float(uint32_t x)   { float f; memcpy(&f, &x, sizeof f); return f; }
static inline uint32_t float_bits(float f)      { uint32_t x; memcpy(&x, &f, sizeof x); return x; }
static inline double   bits_double(uint64_t x)  { double f; memcpy(&f, &x, sizeof f); return f; }
static inline uint64_t double_bits(double f)    { uint64_t x; memcpy(&x, &f, sizeof x); return x; }

/* Bit i of the result is the top bit of lane i, which holds 0 or all ones. */
static inline uint32_t pack_lanes32(const uint32_t *t)
{
#if defined __AVX512DQ__
    return (uint32_t)_mm512_movepi32_mask(_mm512_load_si512(t)) |
           (uint32_t)_mm512_movepi32_mask(_mm512_load_si512(t + 16)) << 16;
#elif defined __AVX2__
    uint32_t mask = 0;
    for (unsigned i = 0; i < 4; i++)
        mask |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_load_si256((const __m256i *)t + i))) << (8 * i);
    return mask;
#elif defined __SSE2__
    uint32_t mask = 0;
    for (unsigned i = 0; i < 8; i++)
        mask |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(_mm_load_si128((const __m128i *)t + i))) << (4 * i);
    return mask;
#else
    uint32_t mask = 0;
    for (unsigned i = 0; i < SG_LANES; i++)
        mask |= (t[i] >> 31) << i;
    return mask;
#endif
}

static inline uint32_t pack_lanes64(const uint64_t *t)
{
#if defined __AVX512DQ__
    uint32_t mask = 0;
    for (unsigned i = 0; i < 4; i++)
        mask |= (uint32_t)_mm512_movepi64_mask(_mm512_load_si512(t + 8 * i)) << (8 * i);
    return mask;
#elif defined __AVX2__
    uint32_t mask = 0;
    for (unsigned i = 0; i < 8; i++)
        mask |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_load_si256((const __m256i *)t + i))) << (4 * i);
    return mask;
#elif defined __SSE2__
    uint32_t mask = 0;
    for (unsigned i = 0; i < 16; i++)
        mask |= (uint32_t)_mm_movemask_pd(_mm_castsi128_pd(_mm_load_si128((const __m128i *)t + i))) << (2 * i);
    return mask;
#else
    uint32_t mask = 0;
    for (unsigned i = 0; i < SG_LANES; i++)
        mask |= (uint32_t)(t[i] >> 63) << i;
    return mask;
#endif
}

#endif
