/*
 * products.c: products of small matrices for mma, wmma and wgmma, and their numbers from and to registers. Compiled
 * once per level of the processor.
 *
 * Sums are those of exec_accumulation. Eight columns at a time are computed in integers of 32 bits: each product is
 * scaled so that one unit is the last bit that counts. What leaves their range is computed alone, in f64.
 */
#include "softgpu/alu/clones.h"
#include "softgpu/alu/small_float.h"
#include "softgpu/exec/exec.h"

/* Four rows and eight columns of c at a time stay in registers. */
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
static void add_one_by_one(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k)
{
    for (unsigned i = 0; i < m; i += 4)
        for (unsigned j = 0; j < n; j += 8) {
            float *to = c + i * n + j;
            eight s0 = *(const eight *)to, s1 = *(const eight *)(to + n), s2 = *(const eight *)(to + 2 * n),
                  s3 = *(const eight *)(to + 3 * n);
            const float *x = a + i * k;
            for (unsigned at = 0; at < k; at++) {
                const eight y = *(const eight *)(b + at * n + j);
                s0 += x[at] * y;
                s1 += x[k + at] * y;
                s2 += x[2 * k + at] * y;
                s3 += x[3 * k + at] * y;
            }
            *(eight *)to = s0;
            *(eight *)(to + n) = s1;
            *(eight *)(to + 2 * n) = s2;
            *(eight *)(to + 3 * n) = s3;
        }
}

/* Exponents. NO_EXPONENT: of zeros. NO_NUMBER: of infinities and NaN; also the product of one and a zero stands out.
   SAFE: between these the scales and results of sums in integers are normal numbers. */
enum { NO_EXPONENT = -4096, NO_NUMBER = 8192, SAFE_LEAST = -80, SAFE_MOST = 96 };
enum { STEP_MOST = 64, ROWS_MOST = 32, INTS = 8 };
typedef int eight_ints __attribute__((vector_size(32), aligned(4), may_alias));
typedef unsigned eight_unsigned __attribute__((vector_size(32), aligned(4), may_alias));

static int exponent_of(float f, int least)
{
    const int e = (int)(float_bits(f) >> 23 & 255) - 127;
    return f == 0 ? NO_EXPONENT : e > 127 ? NO_NUMBER : e < least ? least : e;
}

/* A sum of cut products, of which each counts 2^(-shift), as f32. */
static float sum_to_f32(double sum, int shift, struct exec_accumulation how)
{
    const uint64_t last = (uint64_t)1 << (52 - (how.coarse ? how.kept : 23)), bits = double_bits(sum),
                   lost = bits & (last - 1);
    const double cut = bits_double(bits - lost + (how.odd && lost ? last & ~bits : 0));
    return (float)ldexp(cut, -shift);
}

/* One element in f64, whatever its exponents are. Infinities and NaN: as IEEE arithmetic adds them. */
static float add_element(const float *a, const float *b, unsigned stride, float c, unsigned k,
                         struct exec_accumulation how)
{
    int most = exponent_of(c, -126);
    bool finite = isfinite(c);
    for (unsigned at = 0; at < k; at++) {
        const int e = exponent_of(a[at], how.least) + exponent_of(b[at * stride], how.least);
        if (how.sparse && a[at] == 0)
            continue;
        most = e > most ? e : most;
        finite = finite && isfinite(a[at]) && isfinite(b[at * stride]);
    }
    if (!finite) {
        double sum = c;
        for (unsigned at = 0; at < k; at++)
            sum += how.sparse && a[at] == 0 ? 0 : (double)a[at] * b[at * stride];
        return sum == sum ? (float)sum : bits_float(NAN_F32);
    }
    if (most < NO_EXPONENT / 2)
        return c;
    const int shift = (int)how.kept - most;
    double sum = trunc(ldexp(c, shift));
    for (unsigned at = 0; at < k; at++)
        sum += how.sparse && a[at] == 0 ? 0 : trunc(ldexp((double)a[at] * b[at * stride], shift));
    return sum_to_f32(sum, shift, how);
}

#define CHOOSE(mask, x, y) (((mask) & (x)) | (~(mask) & (y)))
#ifdef __AVX2__
#define GREATER(x, y) ((eight_ints)_mm256_max_epi32((__m256i)(x), (__m256i)(y)))
#define MAGNITUDE(x)  ((eight_ints)_mm256_abs_epi32((__m256i)(x)))
#define ANY(x)        (!_mm256_testz_si256((__m256i)(x), (__m256i)(x)))
#else
#define GREATER(x, y) CHOOSE((x) > (y), x, y)
#define MAGNITUDE(x)  CHOOSE((x) < 0, -(x), x)
#define ANY(x)        any_of(&(x))
SG_INLINE bool any_of(const eight_ints *x)
{
    int any = 0;
    for (unsigned j = 0; j < INTS; j++)
        any |= (*x)[j];
    return any != 0;
}
#endif

/* exponent_of, of eight. Through a pointer: returning vectors is not the same at each level of the processor. */
SG_INLINE void exponents_of(eight_ints *to, const float *f, int least)
{
    const eight_ints bits = *(const eight_ints *)(const void *)f & 0x7fffffff, e = (bits >> 23) - 127,
                     none = (eight_ints){ 0 } + NO_EXPONENT, lowest = (eight_ints){ 0 } + least,
                     all = GREATER(e, lowest) + ((e > 127) & (NO_NUMBER - 128));
    *to = CHOOSE(bits == 0, none, all);
}

/* A sum of which each unit counts 2^(-shift), as f32: cut, or to odd. */
SG_INLINE void finish_eight(float *c, const eight_ints *total, const eight_ints *shift, struct exec_accumulation how)
{
    const int last = 1 << (how.coarse ? 23 - how.kept : 0);
    const eight_ints magnitude = MAGNITUDE(*total);
    const eight near = __builtin_convertvector(magnitude, eight);
    const eight_ints rest = magnitude - __builtin_convertvector(near, eight_ints);
    eight_ints bits = (eight_ints)near + (rest < 0), lost = rest; /* it was rounded up where less is left */
    if (how.coarse) {
        lost |= bits & (last - 1);
        bits &= -last;
    }
    if (how.odd)
        bits |= (lost != 0) & last;
    const eight_ints scale = (127 - *shift) << 23;
    *(eight *)c = (eight)(bits | (*total & INT32_MIN)) * (eight)scale;
}

/* One row and eight columns; e_a and e_b: the exponents. */
SG_INLINE void add_eight(const float *a, const int *e_a, const float *b, const eight_ints *e_b, unsigned stride,
                         float *c, unsigned k, struct exec_accumulation how)
{
    eight_ints most, overflow = { 0 };
    exponents_of(&most, c, -126);
    for (unsigned at = 0; at < k; at++)
        most = GREATER(most, e_b[at] + e_a[at]);
    most &= most >= NO_EXPONENT / 2;                  /* nothing but zeros */
    eight_ints outside = (most < SAFE_LEAST) | (most > SAFE_MOST);
    const eight_ints shift = (int)how.kept - most, field = (shift + 127) << 23;
    const eight scale = (eight)field;
    /* each term is below 2^27: eight of them are an int */
    eight_ints total = __builtin_convertvector(*(const eight *)c * scale, eight_ints);
    for (unsigned first = 0; first < k; first += 8) {
        eight_ints sum = { 0 };
        for (unsigned at = first; at < k && at < first + 8; at++)
            sum += __builtin_convertvector(a[at] * *(const eight *)(b + at * stride) * scale, eight_ints);
        const eight_ints both = (eight_ints)((eight_unsigned)total + (eight_unsigned)sum);
        overflow |= (total ^ both) & (sum ^ both);
        total = both;
    }
    const eight_ints large = MAGNITUDE(total) > INT32_MAX - 128; /* f32 has nothing between it and 2^31 */
    outside |= large | (overflow < 0);
    if (ANY(outside))
        for (unsigned j = 0; j < INTS; j++)
            c[j] = add_element(a, b + j, stride, c[j], k, how);
    else
        finish_eight(c, &total, &shift, how);
}

static void add_products(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k,
                         struct exec_accumulation how)
{
    const unsigned step = how.step < k ? how.step : k;
    if (!how.kept || step > STEP_MOST || m > ROWS_MOST || k % step) {
        add_one_by_one(a, b, c, m, n, k);
        return;
    }
    int e_a[ROWS_MOST * STEP_MOST];
    eight_ints e_b[STEP_MOST];
    for (unsigned first = 0; first < k; first += step) {
        for (unsigned i = 0; i < m; i++)
            if (step % INTS)
                for (unsigned at = 0; at < step; at++)
                    e_a[i * step + at] = exponent_of(a[i * k + first + at], how.least);
            else
                for (unsigned at = 0; at < step; at += INTS)
                    exponents_of((eight_ints *)(e_a + i * step + at), a + i * k + first + at, how.least);
        for (unsigned j = 0; j < n; j += INTS) {
            const float *from = b + first * n + j;
            for (unsigned at = 0; at < step; at++)
                exponents_of(&e_b[at], from + at * n, how.least);
            for (unsigned i = 0; i < m; i++)
                add_eight(a + i * k + first, e_a + i * step, from, e_b, n, c + i * n + j, step, how);
        }
    }
}


/* ---- numbers from and to registers ---- */

enum { LINES = 8, LINE_BYTES = 16 };

#define WIDEN(name, T, widened)                                                                 \
    static void name(float *d, const void *row, unsigned stride)                                \
    {                                                                                           \
        enum { COUNT = LINE_BYTES / sizeof(T) };                                                \
        for (unsigned g = 0; g < LINES; g++) {                                                  \
            const T *from = (const T *)row + g * COUNT;                                         \
            float *to = d + g * stride;                                                         \
            SG_LANES_INDEPENDENT for (unsigned e = 0; e < COUNT; e++) {                         \
                const uint32_t v = from[e];                                                     \
                to[e] = widened;                                                                \
            }                                                                                   \
        }                                                                                       \
    }
#if defined __F16C__ && defined __AVX2__
static void widen_f16(float *d, const void *row, unsigned stride)
{
    for (unsigned g = 0; g < LINES; g++)
        _mm256_storeu_ps(d + g * stride, _mm256_cvtph_ps(_mm_load_si128((const __m128i *)row + g)));
}
#else
WIDEN(widen_f16, uint16_t, small_to_f32(v, FORMAT_F16))
#endif
WIDEN(widen_bf16, uint16_t, small_to_f32(v, FORMAT_BF16))
WIDEN(widen_tf32, uint32_t, bits_float(v & 0xffffe000))
WIDEN(widen_e4m3, uint8_t, small_to_f32(v, FORMAT_E4M3))
WIDEN(widen_e5m2, uint8_t, small_to_f32(v, FORMAT_E5M2))

static void narrow_lines(void *row, const float *from)
{
    uint16_t *to = row;
    uint32_t half[SG_LANES];
    for (unsigned part = 0; part < 2; part++, from += SG_LANES) {
        narrow_row_f16(half, from, SMALL_RN);
        SG_FOR_LANES(l) to[part * SG_LANES + l] = (uint16_t)half[l];
    }
}

static void mix_lines(float *d, const void *even, const void *odd)
{
    const float *x = even, *y = odd;
    SG_FOR_LANES(l) {
        d[2 * l] = x[l];
        d[2 * l + 1] = y[l];
    }
}
static void part_lines(void *even, void *odd, const float *from)
{
    float *x = even, *y = odd;
    SG_FOR_LANES(l) {
        x[l] = from[2 * l];
        y[l] = from[2 * l + 1];
    }
}

static void turn(float *to, const float *from, unsigned k)
{
#ifdef __SSE2__
    for (unsigned at = 0; at < k; at += 4)
        for (unsigned n = 0; n < LINES; n += 4) {
            const float *x = from + n * k + at;
            __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + k), c = _mm_loadu_ps(x + 2 * k),
                   d = _mm_loadu_ps(x + 3 * k);
            _MM_TRANSPOSE4_PS(a, b, c, d);
            float *y = to + at * LINES + n;
            _mm_storeu_ps(y, a);
            _mm_storeu_ps(y + LINES, b);
            _mm_storeu_ps(y + 2 * LINES, c);
            _mm_storeu_ps(y + 3 * LINES, d);
        }
#else
    for (unsigned at = 0; at < k; at++)
        for (unsigned n = 0; n < LINES; n++)
            to[at * LINES + n] = from[n * k + at];
#endif
}

SG_CLONE_DECLARE(const struct exec_product_functions, exec_product_functions);
const struct exec_product_functions SG_CLONE(exec_product_functions) = {
    add_products,
    { [EXEC_SMALL_F16] = widen_f16, [EXEC_SMALL_BF16] = widen_bf16, [EXEC_SMALL_TF32] = widen_tf32,
      [EXEC_SMALL_E4M3] = widen_e4m3, [EXEC_SMALL_E5M2] = widen_e5m2 },
    narrow_lines, mix_lines, part_lines, turn,
};
