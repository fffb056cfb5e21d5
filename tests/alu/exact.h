/*
 * exact.h: a reference for rounding that shares nothing with what it tests: the values of a small format are listed
 * in order, and an exact number is compared with its neighbours and the middle between them.
 *
 * Exact numbers are a __float128 and the sign of what lies beyond its 113 bits.
 */
#ifndef TESTS_ALU_EXACT_H
#define TESTS_ALU_EXACT_H

#include <math.h>
#include "tests/alu/harness.h"

struct exact { __float128 value; int beyond; };

struct format {
    unsigned exponent_bits, fraction_bits;
    bool has_infinity, has_nan;       /* e4m3 has a NaN (its highest pattern) but no infinity */
};
static const struct format F16 = { 5, 10, true, true }, BF16 = { 8, 7, true, true }, TF32 = { 8, 10, true, true },
                           F32 = { 8, 23, true, true }, E4M3 = { 4, 3, false, true }, E5M2 = { 5, 2, true, true },
                           E2M1 = { 2, 1, false, false }, E2M3 = { 2, 3, false, false }, E3M2 = { 3, 2, false, false };

static inline uint32_t format_highest(struct format f)
{
    const uint32_t all = (1u << (f.exponent_bits + f.fraction_bits)) - 1;
    return f.has_infinity ? all - (1u << f.fraction_bits) : f.has_nan ? all - 1 : all;
}
static inline uint32_t format_nan(struct format f) { return (1u << (f.exponent_bits + f.fraction_bits)) - 1; }

/* Value of a finite magnitude; of highest + 1, what would be the next number (the end of overflow's rounding). */
static inline __float128 format_value(struct format f, uint32_t magnitude)
{
    const int field = (int)(magnitude >> f.fraction_bits), bias = (1 << (f.exponent_bits - 1)) - 1;
    const uint32_t fraction = magnitude & ((1u << f.fraction_bits) - 1);
    const double significand = field ? fraction + (double)(1u << f.fraction_bits) : fraction;
    return (__float128)ldexp(significand, (field ? field : 1) - bias - (int)f.fraction_bits);
}

static inline int exact_compare(struct exact x, __float128 y) { return x.value > y ? 1 : x.value < y ? -1 : x.beyond; }

/* mode: 'n' nearest even, 'a' nearest away, 'z', 'm', 'p' */
static inline uint32_t exact_round(struct format f, struct exact x, char mode, bool finite)
{
    const bool negative = x.value < 0 || (x.value == 0 && x.beyond < 0);
    const uint32_t sign = negative ? 1u << (f.exponent_bits + f.fraction_bits) : 0, highest = format_highest(f);
    if (negative) {
        x.value = -x.value;
        x.beyond = -x.beyond;
    }
    uint32_t low = 0, high = highest + 1;                    /* low <= x < high */
    if (exact_compare(x, format_value(f, high)) >= 0)
        low = high;
    while (low + 1 < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (exact_compare(x, format_value(f, middle)) >= 0)
            low = middle;
        else
            high = middle;
    }
    uint32_t result = low;
    const bool inward = mode == 'z' || mode == (negative ? 'p' : 'm');
    if (low <= highest && exact_compare(x, format_value(f, low)) != 0) {
        const int half = exact_compare(x, (format_value(f, low) + format_value(f, low + 1)) / 2);
        const bool up = mode == 'n' ? half > 0 || (half == 0 && (low & 1)) : mode == 'a' ? half >= 0 : !inward;
        result = low + up;
    }
    if (result > highest)
        result = finite || !f.has_infinity || inward ? highest : highest + 1;
    return result | sign;
}

static inline double format_double(struct format f, uint32_t x)      /* of any pattern */
{
    const uint32_t sign = 1u << (f.exponent_bits + f.fraction_bits), magnitude = x & (sign - 1);
    double y;
    if (magnitude > format_highest(f))
        y = f.has_infinity && magnitude == format_highest(f) + 1 ? INFINITY : NAN;
    else
        y = (double)format_value(f, magnitude);
    return x & sign ? -y : y;
}

static inline struct exact exact_of(double x) { return (struct exact){ x, 0 }; }
static inline struct exact exact_sum(__float128 a, __float128 b)
{
    const __float128 s = a + b, part = s - a, error = (a - (s - part)) + (b - part);
    return (struct exact){ s, error > 0 ? 1 : error < 0 ? -1 : 0 };
}

static const struct { const char *name; char letter; } ROUNDINGS[] = { { "rn", 'n' }, { "rz", 'z' }, { "rm", 'm' },
                                                                       { "rp", 'p' } };

#endif
