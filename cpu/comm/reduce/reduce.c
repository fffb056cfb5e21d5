/* reduce.c: see reduce.h. Values are copied in and out, since nothing says that a program's buffers are aligned. */
#include "cpu/comm/reduce/reduce.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[COMM_TYPES] = {
    [COMM_INT8] = { "int8", 1 },
    [COMM_UINT8] = { "uint8", 1 },
    [COMM_INT32] = { "int32", 4 },
    [COMM_UINT32] = { "uint32", 4 },
    [COMM_INT64] = { "int64", 8 },
    [COMM_UINT64] = { "uint64", 8 },
    [COMM_FLOAT16] = { "float16", 2 },
    [COMM_FLOAT32] = { "float32", 4 },
    [COMM_FLOAT64] = { "float64", 8 },
    [COMM_BFLOAT16] = { "bfloat16", 2 },
    [COMM_FLOAT8_E4M3] = { "float8_e4m3", 1 },
    [COMM_FLOAT8_E5M2] = { "float8_e5m2", 1 },
};
static const char *const operations[COMM_OPERATIONS] = { "sum",     "product", "maximum",
                                                         "minimum", "average", "multiplied sum" };

size_t comm_type_size(enum comm_type type) { return (unsigned)type < COMM_TYPES ? types[type].size : 0; }

const char *comm_type_name(enum comm_type type) { return (unsigned)type < COMM_TYPES ? types[type].name : "no type"; }

const char *comm_operation_name(enum comm_operation operation)
{
    return (unsigned)operation < COMM_OPERATIONS ? operations[operation] : "no operation";
}

/* ---- small floating types ---- */

/* Of the 8-bit types. exponent, mantissa: bits. e4m3 has no infinities: its largest exponent holds numbers, and one
   NaN. */
struct float_form {
    int exponent, mantissa, bias;
    int has_infinity;
};

static struct float_form form_of(enum comm_type type)
{
    switch (type) {
    case COMM_FLOAT8_E4M3: return (struct float_form){ 4, 3, 7, 0 };
    default: return (struct float_form){ 5, 2, 15, 1 };
    }
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The 16-bit types, without the loops and calls of the general form. */
static float half_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = (uint32_t)(bits & 0x7fff) << 13;
    if (rest >= 0x0f800000)                                 /* infinity, NaN */
        return float_of(sign | (rest > 0x0f800000 ? 0x7fc00000 : 0x7f800000));
    return float_of(sign | bits_of(float_of(rest) * 0x1p112f)); /* also those below the least normal one: exact */
}

static uint16_t half_from_float(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7fff);
    if (rest >= 0x477ff000)                                 /* 65520: half way to what comes after the largest one */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000)                                  /* 2^-14: the sum has the last place of the small type */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
}

static uint16_t bfloat_from_float(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x7fff);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float comm_small_to_float(enum comm_type type, uint16_t bits)
{
    if (type == COMM_FLOAT16)
        return half_to_float(bits);
    if (type == COMM_BFLOAT16)
        return float_of((uint32_t)bits << 16);
    struct float_form f = form_of(type);
    int exponent = bits >> f.mantissa & ((1 << f.exponent) - 1), mantissa = bits & ((1 << f.mantissa) - 1);
    float sign = bits >> (f.exponent + f.mantissa) & 1 ? -1.0f : 1.0f;
    if (f.has_infinity && exponent == (1 << f.exponent) - 1)
        return mantissa ? copysignf(NAN, sign) : sign * INFINITY;
    if (!f.has_infinity && exponent == (1 << f.exponent) - 1 && mantissa == (1 << f.mantissa) - 1)
        return copysignf(NAN, sign);
    if (exponent == 0)
        return sign * ldexpf((float)mantissa, 1 - f.bias - f.mantissa);
    return sign * ldexpf((float)(mantissa | 1 << f.mantissa), exponent - f.bias - f.mantissa);
}

/* What a number too large becomes: infinity, or the NaN of e4m3, as a conversion without saturation gives. */
static uint16_t beyond(struct float_form f, uint16_t sign)
{
    int top = (1 << f.exponent) - 1;
    return (uint16_t)(sign | top << f.mantissa | (f.has_infinity ? 0 : (1 << f.mantissa) - 1));
}

uint16_t comm_small_from_float(enum comm_type type, float value)
{
    if (type == COMM_FLOAT16)
        return half_from_float(value);
    if (type == COMM_BFLOAT16)
        return bfloat_from_float(value);
    struct float_form f = form_of(type);
    uint16_t sign = (uint16_t)((signbit(value) ? 1 : 0) << (f.exponent + f.mantissa));
    int top = (1 << f.exponent) - 1, exponent;
    if (isnan(value))
        return (uint16_t)(sign | top << f.mantissa | ((1 << f.mantissa) - 1));
    value = fabsf(value);
    if (isinf(value))
        return beyond(f, sign);
    if (value == 0)
        return sign;
    frexpf(value, &exponent); /* value is in [2^(exponent-1), 2^exponent) */
    int unit = exponent - 1 < 1 - f.bias ? 1 - f.bias - f.mantissa : exponent - 1 - f.mantissa;
    /* in units of the last place, exactly; rounded to even by the default mode */
    long steps = lrintf(ldexpf(value, -unit));
    if (steps >> (f.mantissa + 1)) { /* it was rounded up to the next power of two */
        steps >>= 1;
        unit++;
    }
    int field = steps >> f.mantissa ? unit + f.mantissa + f.bias : 0;
    long bits = (long)field << f.mantissa | (steps & ((1 << f.mantissa) - 1));
    if (field > top || bits >= (long)beyond(f, 0))
        return beyond(f, sign);
    return (uint16_t)(sign | bits);
}

/* ---- the operations ---- */

/* Values are computed a block at a time, from copies: so neither alignment nor a result in the place of an operand
   keeps the compiler from vector instructions (room.mk has this file's flags). */
enum { BLOCK_BYTES = 2048 };

/* x and y have `n` values; each becomes op(x, y) in x. */
#define EACH(EXPRESSION)           \
    for (size_t i = 0; i < n; i++) \
    x[i] = (EXPRESSION)

#define BLOCKS(NAME, TYPE, SUM, PRODUCT, MAXIMUM, MINIMUM)                                                         \
    static void NAME(enum comm_operation operation, uint8_t *to, const uint8_t *a, const uint8_t *b, size_t count) \
    {                                                                                                              \
        TYPE x[BLOCK_BYTES / sizeof(TYPE)], y[BLOCK_BYTES / sizeof(TYPE)];                                         \
        for (size_t at = 0, n; at < count; at += n) {                                                              \
            n = count - at < sizeof x / sizeof *x ? count - at : sizeof x / sizeof *x;                             \
            memcpy(x, a + at * sizeof *x, n * sizeof *x);                                                          \
            memcpy(y, b + at * sizeof *x, n * sizeof *x);                                                          \
            switch (operation) {                                                                                   \
            case COMM_PRODUCT: EACH(PRODUCT); break;                                                               \
            case COMM_MAXIMUM: EACH(MAXIMUM); break;                                                               \
            case COMM_MINIMUM: EACH(MINIMUM); break;                                                               \
            default: EACH(SUM); break;                                                                             \
            }                                                                                                      \
            memcpy(to + at * sizeof *x, x, n * sizeof *x);                                                         \
        }                                                                                                          \
    }

/* Sums and products wrap. */
#define INTEGER(NAME, TYPE, WIDE)                                                                                      \
    BLOCKS(NAME, TYPE, (TYPE)((WIDE)x[i] + (WIDE)y[i]), (TYPE)((WIDE)x[i] * (WIDE)y[i]), x[i] > y[i] ? x[i] : y[i], \
           x[i] < y[i] ? x[i] : y[i])
INTEGER(int8s, int8_t, uint32_t)
INTEGER(uint8s, uint8_t, uint32_t)
INTEGER(int32s, int32_t, uint32_t)
INTEGER(uint32s, uint32_t, uint32_t)
INTEGER(int64s, int64_t, uint64_t)
INTEGER(uint64s, uint64_t, uint64_t)

/* A number beats a NaN, as in fmax and fmin. */
#define FLOATING(NAME, TYPE)                                                                     \
    BLOCKS(NAME, TYPE, x[i] + y[i], x[i] * y[i], (x[i] > y[i]) | (y[i] != y[i]) ? x[i] : y[i], \
           (x[i] < y[i]) | (y[i] != y[i]) ? x[i] : y[i])
FLOATING(floats, float)
FLOATING(doubles, double)

static uint16_t small_get(const uint8_t *at, size_t size)
{
    uint16_t bits = 0;
    memcpy(&bits, at, size); /* little-endian machines only, as all of Flyt */
    return bits;
}

/* The small types are computed as floats, a block at a time. */
static void widen(enum comm_type type, float *to, const uint8_t *from, size_t count)
{
    size_t size = types[type].size;
    for (size_t i = 0; i < count; i++)
        to[i] = comm_small_to_float(type, small_get(from + i * size, size));
}

static void smalls(enum comm_type type, enum comm_operation operation, uint8_t *to, const uint8_t *a, const uint8_t *b,
                   size_t count)
{
    float x[BLOCK_BYTES / sizeof(float)], y[BLOCK_BYTES / sizeof(float)];
    size_t size = types[type].size;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < sizeof x / sizeof *x ? count - at : sizeof x / sizeof *x;
        widen(type, x, a + at * size, n);
        widen(type, y, b + at * size, n);
        floats(operation, (uint8_t *)x, (const uint8_t *)x, (const uint8_t *)y, n);
        for (size_t i = 0; i < n; i++) {
            uint16_t bits = comm_small_from_float(type, x[i]);
            memcpy(to + (at + i) * size, &bits, size);
        }
    }
}

void comm_reduce(enum comm_type type, enum comm_operation operation, void *to, const void *a, const void *b,
                 size_t count)
{
    switch (type) {
    case COMM_INT8: int8s(operation, to, a, b, count); break;
    case COMM_UINT8: uint8s(operation, to, a, b, count); break;
    case COMM_INT32: int32s(operation, to, a, b, count); break;
    case COMM_UINT32: uint32s(operation, to, a, b, count); break;
    case COMM_INT64: int64s(operation, to, a, b, count); break;
    case COMM_UINT64: uint64s(operation, to, a, b, count); break;
    case COMM_FLOAT32: floats(operation, to, a, b, count); break;
    case COMM_FLOAT64: doubles(operation, to, a, b, count); break;
    default: smalls(type, operation, to, a, b, count); break;
    }
}

/* ---- averages and factors ---- */

#define DIVIDE(TYPE)                 \
    {                                \
        TYPE x;                      \
        memcpy(&x, at, sizeof x);    \
        x = (TYPE)(x / (TYPE)ranks); \
        memcpy(at, &x, sizeof x);    \
        break;                       \
    }

void comm_reduce_finish(enum comm_type type, enum comm_operation operation, void *to, size_t count, unsigned ranks)
{
    size_t size = comm_type_size(type);
    for (size_t i = 0; operation == COMM_AVERAGE && i < count; i++) {
        uint8_t *at = (uint8_t *)to + i * size;
        switch (type) {
        case COMM_INT8: DIVIDE(int8_t)
        case COMM_UINT8: DIVIDE(uint8_t)
        case COMM_INT32: DIVIDE(int32_t)
        case COMM_UINT32: DIVIDE(uint32_t)
        case COMM_INT64: DIVIDE(int64_t)
        case COMM_UINT64: DIVIDE(uint64_t)
        case COMM_FLOAT32: DIVIDE(float)
        case COMM_FLOAT64: DIVIDE(double)
        default: {
            uint16_t bits = comm_small_from_float(type, comm_small_to_float(type, small_get(at, size)) / (float)ranks);
            memcpy(at, &bits, size);
        }
        }
    }
}

void comm_reduce_multiply(enum comm_type type, void *to, const void *from, const void *factor, size_t count)
{
    const size_t size = comm_type_size(type);
    uint8_t factors[BLOCK_BYTES];
    const size_t most = sizeof factors / size;
    for (size_t i = 0; i < most && i < count; i++)
        memcpy(factors + i * size, factor, size);
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < most ? count - at : most;
        comm_reduce(type, COMM_PRODUCT, (uint8_t *)to + at * size, (const uint8_t *)from + at * size, factors, n);
    }
}
