/*
 * products.c: products of small matrices for mma, wmma and wgmma, and their numbers from and to registers. Compiled
 * once per level of the processor.
 *
 * Sums are those of exec_accumulation. Sums of two rows at a time are computed in integers of 32 bits: each product is
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
enum { STEP_MOST = 64, ROWS_MOST = 32 };

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
        return 0;
    const int shift = (int)how.kept - most;
    double sum = trunc(ldexp(c, shift));
    for (unsigned at = 0; at < k; at++)
        sum += how.sparse && a[at] == 0 ? 0 : trunc(ldexp((double)a[at] * b[at * stride], shift));
    return sum_to_f32(sum + 0.0, shift, how); /* no zero is negative, as in sums of integers */
}

/*
 * Two rows of c, whose elements alternate, and as many columns as there is room for. Exponents are words of 16 bits,
 * of four rows: those of rows 0 and 2 in a lane of row 0, those of 1 and 3 in one of row 1.
 */
#ifdef __AVX512BW__
enum { SUMS = 16 };
#elif defined __AVX2__
enum { SUMS = 8 };
#else
enum { SUMS = 4 };
#endif
enum { COLUMNS = SUMS / 2, QUAD = 4 };
#define SUMS_VECTOR(T) T __attribute__((vector_size(SUMS * 4), aligned(4), may_alias))
typedef SUMS_VECTOR(float) sums_floats;
typedef SUMS_VECTOR(int) sums_ints;
typedef SUMS_VECTOR(unsigned) sums_unsigned;
typedef SUMS_VECTOR(short) sums_words;
typedef SUMS_VECTOR(long long) sums_pairs;
typedef float columns_floats __attribute__((vector_size(COLUMNS * 4), aligned(4), may_alias));
typedef long long pair_bits __attribute__((aligned(4), may_alias));

#define CHOOSE(mask, x, y) (((mask) & (x)) | (~(mask) & (y)))
#ifdef __AVX512BW__
#define GREATER(x, y) ((sums_ints)_mm512_max_epi32((__m512i)(x), (__m512i)(y)))
#define GREATER_WORDS(x, y) ((sums_words)_mm512_max_epi16((__m512i)(x), (__m512i)(y)))
#define MAGNITUDE(x) ((sums_ints)_mm512_abs_epi32((__m512i)(x)))
#define ANY(x) (_mm512_test_epi32_mask((__m512i)(x), (__m512i)(x)) != 0)
#elif defined __AVX2__
#define GREATER(x, y) ((sums_ints)_mm256_max_epi32((__m256i)(x), (__m256i)(y)))
#define GREATER_WORDS(x, y) ((sums_words)_mm256_max_epi16((__m256i)(x), (__m256i)(y)))
#define MAGNITUDE(x) ((sums_ints)_mm256_abs_epi32((__m256i)(x)))
#define ANY(x) (!_mm256_testz_si256((__m256i)(x), (__m256i)(x)))
#else
#define GREATER(x, y) CHOOSE((x) > (y), x, y)
#define GREATER_WORDS(x, y) CHOOSE((x) > (y), x, y)
#define MAGNITUDE(x) ((sums_ints)CHOOSE((sums_unsigned)((x) < 0), -(sums_unsigned)(x), (sums_unsigned)(x)))
#define ANY(x) any_of(&(x))
SG_INLINE bool any_of(const sums_ints *x)
{
    int any = 0;
    for (unsigned j = 0; j < SUMS; j++)
        any |= (*x)[j];
    return any != 0;
}
#endif

/* exponent_of, of many. Through pointers: returning vectors is not the same at each level of the processor. */
SG_INLINE void exponents_of(sums_ints *to, const sums_floats *f, int least)
{
    const sums_ints bits = (sums_ints)*f & 0x7fffffff, e = (bits >> 23) - 127, none = (sums_ints){ 0 } + NO_EXPONENT,
                    lowest = (sums_ints){ 0 } + least, all = GREATER(e, lowest) + ((e > 127) & (NO_NUMBER - 128));
    *to = CHOOSE(bits == 0, none, all);
}

/* to: x[0], y[0], x[1], y[1] … */
SG_INLINE void alternate(sums_floats *to, const columns_floats *x, const columns_floats *y)
{
#ifdef __AVX512BW__
    *to = __builtin_shufflevector(*x, *y, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined __AVX2__
    *to = __builtin_shufflevector(*x, *y, 0, 4, 1, 5, 2, 6, 3, 7);
#else
    *to = __builtin_shufflevector(*x, *y, 0, 2, 1, 3);
#endif
}
SG_INLINE void part(columns_floats *x, columns_floats *y, const sums_floats *from)
{
#ifdef __AVX512BW__
    *x = __builtin_shufflevector(*from, *from, 0, 2, 4, 6, 8, 10, 12, 14);
    *y = __builtin_shufflevector(*from, *from, 1, 3, 5, 7, 9, 11, 13, 15);
#elif defined __AVX2__
    *x = __builtin_shufflevector(*from, *from, 0, 2, 4, 6);
    *y = __builtin_shufflevector(*from, *from, 1, 3, 5, 7);
#else
    *x = __builtin_shufflevector(*from, *from, 0, 2);
    *y = __builtin_shufflevector(*from, *from, 1, 3);
#endif
}

/* Sums of which each unit counts 2^(-shift), as f32: cut, or to odd. */
SG_INLINE void finish(sums_floats *c, const sums_ints *total, const sums_ints *shift, struct exec_accumulation how)
{
    const int last = 1 << (how.coarse ? 23 - how.kept : 0);
    const sums_ints magnitude = MAGNITUDE(*total);
    const sums_floats near = __builtin_convertvector(magnitude, sums_floats);
    const sums_ints rest = magnitude - __builtin_convertvector(near, sums_ints);
    sums_ints bits = (sums_ints)near + (rest < 0), lost = rest; /* it was rounded up where less is left */
    if (how.coarse) {
        lost |= bits & (last - 1);
        bits &= -last;
    }
    if (how.odd)
        bits |= (lost != 0) & last;
    const sums_ints scale = (127 - *shift) << 23;
    *c = (sums_floats)(bits | (*total & INT32_MIN)) * (sums_floats)scale;
}

/* a: pairs of two rows; b: columns, each twice; most: of the exponents of products. false: out of range, and c has not
   changed. */
SG_INLINE bool add_sums(const float *a, const sums_floats *b, sums_ints most, sums_floats *c, unsigned k,
                        struct exec_accumulation how)
{
    sums_ints e_c, overflow = { 0 };
    exponents_of(&e_c, c, -126);
    most = GREATER(most, e_c);
    most &= most >= NO_EXPONENT / 2; /* nothing but zeros */
    sums_ints outside = (most < SAFE_LEAST) | (most > SAFE_MOST);
    const sums_ints shift = (int)how.kept - most, field = (shift + 127) << 23;
    const sums_floats scale = (sums_floats)field;
    /* Each term is below 2^27, so that eight of them are an int. Sums that are outside may wrap around. */
    sums_ints total = __builtin_convertvector(*c * scale, sums_ints);
    for (unsigned first = 0; first < k; first += 8) {
        sums_unsigned sum = { 0 };
        for (unsigned at = first; at < k && at < first + 8; at++) {
            const sums_pairs x = (sums_pairs){ 0 } + *(const pair_bits *)(const void *)(a + 2 * at);
            sum += (sums_unsigned)__builtin_convertvector((sums_floats)x * b[at] * scale, sums_ints);
        }
        const sums_ints both = (sums_ints)((sums_unsigned)total + sum);
        overflow |= (total ^ both) & ((sums_ints)sum ^ both);
        total = both;
    }
    const sums_ints large = MAGNITUDE(total) > INT32_MAX - 128; /* f32 has nothing between it and 2^31 */
    outside |= large | (overflow < 0);
    if (ANY(outside))
        return false;
    finish(c, &total, &shift, how);
    return true;
}

/* add_block() puts `step` columns of A in one, and as many rows of some columns of B in the other. Vectors may reach
   beyond the end of a row, where the next one is written later. */
struct block_a {
    float pairs[ROWS_MOST * STEP_MOST + SUMS];
    int exponents[ROWS_MOST / 2 * STEP_MOST + SUMS];
};
struct block_b {
    sums_floats columns[STEP_MOST];
    sums_ints exponents[STEP_MOST];
};

/* Two rows of A, from `at` on; their exponents. */
SG_INLINE void take_two(sums_ints *e, float *pairs, const float *a, unsigned k, unsigned at, unsigned step, int least)
{
    const unsigned count = step - at < COLUMNS ? step - at : COLUMNS;
    columns_floats even = { 0 }, odd = { 0 };
    sums_floats *to = (sums_floats *)(void *)(pairs + 2 * at);
    memcpy(&even, a + at, count * sizeof *a);
    memcpy(&odd, a + k + at, count * sizeof *a);
    alternate(to, &even, &odd);
    exponents_of(e, to, least);
}

SG_INLINE void take_a(struct block_a *x, const float *a, unsigned m, unsigned k, unsigned step, int least)
{
    for (unsigned i = 0; i < m; i += QUAD)
        for (unsigned at = 0; at < step; at += COLUMNS) {
            sums_ints upper, lower;
            take_two(&upper, x->pairs + i * step, a + i * k, k, at, step, least);
            take_two(&lower, x->pairs + (i + 2) * step, a + (i + 2) * k, k, at, step, least);
            *(sums_ints *)(x->exponents + i / 2 * step + 2 * at) = (upper & 0xffff) | (lower << 16);
        }
}

SG_INLINE void take_b(struct block_b *x, const float *b, unsigned n, unsigned step, int least)
{
    for (unsigned at = 0; at < step; at++) {
        const columns_floats *from = (const columns_floats *)(const void *)(b + at * n);
        sums_ints e;
        alternate(&x->columns[at], from, from);
        exponents_of(&e, &x->columns[at], least);
        x->exponents[at] = (e & 0xffff) | (e << 16);
    }
}

/* Two rows and COLUMNS columns. a, b: of the first element of the sums; pairs: of x's. */
SG_INLINE void add_two(const float *a, const float *pairs, unsigned k, const float *b, const struct block_b *y,
                       const sums_ints *most, float *c, unsigned n, unsigned step, struct exec_accumulation how)
{
    columns_floats *even = (columns_floats *)(void *)c, *odd = (columns_floats *)(void *)(c + n);
    sums_floats both;
    alternate(&both, even, odd);
    if (add_sums(pairs, y->columns, *most, &both, step, how))
        part(even, odd, &both);
    else
        for (unsigned j = 0; j < SUMS; j++) {
            float *one = c + j % 2 * n + j / 2;
            *one = add_element(a + j % 2 * k, b + j / 2, n, *one, step, how);
        }
}

SG_INLINE void add_block(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k, unsigned step,
                         struct exec_accumulation how)
{
    struct block_a x;
    struct block_b y;
    take_a(&x, a, m, k, step, how.least);
    for (unsigned j = 0; j < n; j += COLUMNS) {
        take_b(&y, b + j, n, step, how.least);
        for (unsigned i = 0; i < m; i += QUAD) {
            sums_words most = (sums_words){ 0 } + INT16_MIN;
            const int *e = x.exponents + i / 2 * step;
            for (unsigned at = 0; at < step; at++) {
                const sums_pairs rows = (sums_pairs){ 0 } + *(const pair_bits *)(const void *)(e + 2 * at);
                most = GREATER_WORDS(most, (sums_words)rows + (sums_words)y.exponents[at]);
            }
            for (unsigned r = 0; r < QUAD; r += 2) {
                const sums_ints words = (sums_ints)most, two = (r ? words : words << 16) >> 16;
                add_two(a + (i + r) * k, x.pairs + (i + r) * step, k, b + j, &y, &two, c + (i + r) * n + j, n, step,
                        how);
            }
        }
    }
}

static void add_products(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k,
                         struct exec_accumulation how)
{
    const unsigned step = how.step < k ? how.step : k;
    if (!how.kept || step > STEP_MOST || m > ROWS_MOST || k % step) {
        add_one_by_one(a, b, c, m, n, k);
        return;
    }
    for (unsigned first = 0; first < k; first += step, a += step, b += step * n)
        if (step == 16)
            add_block(a, b, c, m, n, k, 16, how);
        else
            add_block(a, b, c, m, n, k, step, how);
}

/* ---- numbers from and to registers ---- */

enum { LINES = 8, LINE_BYTES = 16 };

#define WIDEN(name, T, widened)                                       \
    static void name(float *d, const void *row, unsigned stride)      \
    {                                                                 \
        enum { COUNT = LINE_BYTES / sizeof(T) };                      \
        for (unsigned g = 0; g < LINES; g++) {                        \
            const T *from = (const T *)row + g * COUNT;               \
            float *to = d + g * stride;                               \
            SG_LANES_INDEPENDENT for (unsigned e = 0; e < COUNT; e++) \
            {                                                         \
                const uint32_t v = from[e];                           \
                to[e] = widened;                                      \
            }                                                         \
        }                                                             \
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
    SG_FOR_LANES(l)
    {
        d[2 * l] = x[l];
        d[2 * l + 1] = y[l];
    }
}
static void part_lines(void *even, void *odd, const float *from)
{
    float *x = even, *y = odd;
    SG_FOR_LANES(l)
    {
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
    { [EXEC_SMALL_F16] = widen_f16,
      [EXEC_SMALL_BF16] = widen_bf16,
      [EXEC_SMALL_TF32] = widen_tf32,
      [EXEC_SMALL_E4M3] = widen_e4m3,
      [EXEC_SMALL_E5M2] = widen_e5m2 },
    narrow_lines,
    mix_lines,
    part_lines,
    turn,
};
