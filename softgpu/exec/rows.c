/*
 * rows.c: the executor's own loops over the lanes of a row. Compiled once per level of the processor.
 *
 * load and store move a contiguous row of device memory. Each element up to 8 bytes must be one single-copy atomic
 * access (PTX memory model; other cores may write it meanwhile). The loops become vector moves: on x86-64 and arm64
 * every naturally aligned element of up to 8 bytes within a vector move is accessed whole. C has no words for this,
 * so the loops look like plain races: they are exempt from ThreadSanitizer, as are the scalar ones of access.h.
 */
#include "softgpu/alu/clones.h"
#include "softgpu/exec/access.h"
#include "softgpu/alu/small_float.h"
#include "softgpu/exec/exec.h"

static void blend32(uint32_t *d, const uint32_t *from, uint32_t mask)
{
    SG_FOR_LANES(l)
        d[l] = (mask >> l) & 1 ? from[l] : d[l];
}
static void blend64(uint64_t *d, const uint64_t *from, uint32_t mask)
{
    SG_FOR_LANES(l)
        d[l] = (mask >> l) & 1 ? from[l] : d[l];
}
static void fill32(uint32_t *d, uint32_t value)
{
    SG_FOR_LANES(l)
        d[l] = value;
}
static void fill64(uint64_t *d, uint64_t value)
{
    SG_FOR_LANES(l)
        d[l] = value;
}
static void copy32(uint32_t *d, const uint32_t *from)
{
    SG_FOR_LANES(l)
        d[l] = from[l];
}
static void copy64(uint64_t *d, const uint64_t *from)
{
    SG_FOR_LANES(l)
        d[l] = from[l];
}
static void add64(uint64_t *d, const uint64_t *a, uint64_t b)
{
    SG_FOR_LANES(l)
        d[l] = a[l] + b;
}
static void widen(uint64_t *d, const uint32_t *from)
{
    SG_FOR_LANES(l)
        d[l] = from[l];
}

static void shape(const uint64_t *a, uint64_t offset, uint32_t mask, uint64_t stride, struct exec_shape *out)
{
    unsigned lane = mask ? (unsigned)__builtin_ctz(mask) : 0, last = mask ? 31 - (unsigned)__builtin_clz(mask) : 0;
    uint64_t first = a[lane], start = first - lane * stride, step = 0, spread = 0, all = 0;
    if (mask == UINT32_MAX)
        for (unsigned l = 0; l < SG_LANES; l++)
            step |= a[l] ^ (start + l * stride);
    else
        for (unsigned l = 0; l < SG_LANES; l++)
            step |= (a[l] ^ (start + l * stride)) & ((uint64_t)0 - ((mask >> l) & 1));
    first += offset;
    if (!step) { /* what matters of `all` is in both ends: low bits (stride is aligned) and windows */
        *out = (struct exec_shape){
            .first = start + offset, .all = first | (a[last] + offset), .spread = stride, .contiguous = true
        };
        return;
    }
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint64_t active = (uint64_t)0 - ((mask >> l) & 1), at = a[l] + offset;
        spread |= (at ^ first) & active;
        all |= at & active;
    }
    *out = (struct exec_shape){ .first = first, .all = all, .spread = spread };
}

static void local(uint64_t *at, const uint64_t *a, uint64_t offset, uint64_t base, uint32_t mask,
                  struct exec_shape *out)
{
    uint64_t most = 0, all = 0;
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint64_t active = (uint64_t)0 - ((mask >> l) & 1), o = (a[l] + offset) & UINT32_MAX & active;
        most = o > most ? o : most;
        all |= o;
        at[l] = base + (o & ~UINT64_C(15)) * SG_LANES + l * 16 + (o & 15);
    }
    *out = (struct exec_shape){ .all = all, .most = most };
}

/* Shared memory: addresses of 32 bits in cells of 32, or in the low halves of cells of 64. */
#define SHARED(name, cell_type)                                                                     \
    static void name(uint64_t *at, const void *row, uint32_t offset, uint64_t base, uint32_t mask,  \
                     uint32_t stride, struct exec_shape *out)                                       \
    {                                                                                               \
        const cell_type *a = row;                                                                   \
        unsigned lane = mask ? (unsigned)__builtin_ctz(mask) : 0;                                   \
        uint32_t first = (uint32_t)a[lane] + offset, start = first - lane * stride;                 \
        uint32_t most = 0, all = 0, step = 0, spread = 0;                                           \
        for (unsigned l = 0; l < SG_LANES; l++) {                                                   \
            uint32_t active = (uint32_t)0 - ((mask >> l) & 1), o = ((uint32_t)a[l] + offset) & active; \
            most = o > most ? o : most;                                                             \
            all |= o;                                                                               \
            step |= (o - start - l * stride) & active;                                              \
            spread |= (o ^ first) & active;                                                         \
        }                                                                                           \
        SG_FOR_LANES(l)                                                                             \
            at[l] = base + ((uint32_t)a[l] + offset);                                               \
        *out = (struct exec_shape){ .first = step ? first : start, .all = all, .spread = spread,    \
                                    .most = most, .contiguous = step == 0 };                        \
    }
SHARED(shared32, uint32_t)
SHARED(shared64, uint64_t)

static void split16(uint32_t *low, uint32_t *high, const uint32_t *from)
{
    SG_FOR_LANES(l) {
        uint32_t v = from[l];
        low[l] = v & 0xffff;
        high[l] = v >> 16;
    }
}
static void split32(uint32_t *low, uint32_t *high, const uint64_t *from)
{
    SG_FOR_LANES(l) {
        uint64_t v = from[l];
        low[l] = (uint32_t)v;
        high[l] = (uint32_t)(v >> 32);
    }
}
static void join16(uint32_t *to, const uint32_t *low, const uint32_t *high)
{
    SG_FOR_LANES(l)
        to[l] = (low[l] & 0xffff) | high[l] << 16;
}
static void join32(uint64_t *to, const uint32_t *low, const uint32_t *high)
{
    SG_FOR_LANES(l)
        to[l] = low[l] | (uint64_t)high[l] << 32;
}

#define LOAD(name, from_type, cell_type, middle)                                                \
    EXEC_RACY static void name(void *d, const void *from)                                       \
    {                                                                                           \
        cell_type *to = d;                                                                      \
        const from_type *p = from;                                                              \
        SG_FOR_LANES(l)                                                                         \
            to[l] = (cell_type)(middle)p[l];                                                    \
    }
LOAD(load8, uint8_t, uint32_t, uint32_t)
LOAD(load16, uint16_t, uint32_t, uint32_t)
LOAD(load32, uint32_t, uint32_t, uint32_t)
LOAD(load64, uint64_t, uint64_t, uint64_t)
LOAD(load8s, int8_t, uint32_t, int32_t)
LOAD(load16s, int16_t, uint32_t, int32_t)

#define STORE(name, to_type, cell_type)                                                         \
    EXEC_RACY static void name(void *to, const void *row)                                       \
    {                                                                                           \
        to_type *p = to;                                                                        \
        const cell_type *from = row;                                                            \
        SG_FOR_LANES(l)                                                                         \
            p[l] = (to_type)from[l];                                                            \
    }
STORE(store8, uint8_t, uint32_t)
STORE(store16, uint16_t, uint32_t)
STORE(store32, uint32_t, uint32_t)
STORE(store64, uint64_t, uint64_t)

/* Only the lanes in mask: the others' bytes may be somebody else's. Masked moves below AVX-512 are slower than this
   loop. */
#ifdef __AVX512F__
#define FOR_SOME(l, mask) SG_FOR_LANES(l) if (((mask) >> l) & 1)
#else
#define FOR_SOME(l, mask) \
    for (unsigned l, left = (mask); left && (l = (unsigned)__builtin_ctz(left), 1); left &= left - 1)
#endif
#define STORE_SOME(name, to_type, cell_type)                                                    \
    EXEC_RACY static void name(void *to, const void *row, uint32_t mask)                        \
    {                                                                                           \
        to_type *p = to;                                                                        \
        const cell_type *from = row;                                                            \
        FOR_SOME(l, mask)                                                                       \
            p[l] = (to_type)from[l];                                                            \
    }
STORE_SOME(store_some8, uint8_t, uint32_t)
STORE_SOME(store_some16, uint16_t, uint32_t)
STORE_SOME(store_some32, uint32_t, uint32_t)
STORE_SOME(store_some64, uint64_t, uint64_t)

/*
 * Contiguous vectors from and to rows: lane 0's elements, lane 1's … Each 16 bytes are one access (see access.h):
 * with 128-bit moves only, since nobody promises that wider ones are whole in their parts. In between, elements
 * change places: x0 y0 x1 y1 … and x0 x1 …, y0 y1 ….
 */
typedef uint32_t four __attribute__((vector_size(16), may_alias));
#if defined __clang__ || __GNUC__ >= 12
#define PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (four){ i, j, k, l })
#endif
EXEC_RACY static inline four load_four(const void *p) { return (four)exec_load128(p); }
EXEC_RACY static inline void store_four(void *p, four v) { exec_store128(p, (exec_16_bytes)v); }
/* Pairs of 32 bits are aligned to 8 bytes only. Each pair is whole all the same: see the head of this file. */
typedef uint32_t two_pairs __attribute__((vector_size(16), aligned(8), may_alias));
EXEC_RACY static inline four load_pairs(const void *p) { return (four) * (const volatile two_pairs *)p; }
EXEC_RACY static inline void store_pairs(void *p, four v) { *(volatile two_pairs *)p = (two_pairs)v; }

EXEC_RACY static void load_vector_32x2(void *const *d, const void *from)
{
    four *x = d[0], *y = d[1];
    const unsigned char *p = from;
    for (unsigned l = 0; l < SG_LANES / 4; l++) {
        const four a = load_pairs(p + 32 * l), b = load_pairs(p + 32 * l + 16);
        x[l] = PICK(a, b, 0, 2, 4, 6);
        y[l] = PICK(a, b, 1, 3, 5, 7);
    }
}
EXEC_RACY static void load_vector_32x4(void *const *d, const void *from)
{
    four *x = d[0], *y = d[1], *z = d[2], *u = d[3];
    const four *p = from;
    for (unsigned l = 0; l < SG_LANES / 4; l++) {
        const four a = load_four(&p[4 * l]), b = load_four(&p[4 * l + 1]);
        const four c = load_four(&p[4 * l + 2]), e = load_four(&p[4 * l + 3]);
        const four ab = PICK(a, b, 0, 4, 1, 5), ce = PICK(c, e, 0, 4, 1, 5);
        const four ab_high = PICK(a, b, 2, 6, 3, 7), ce_high = PICK(c, e, 2, 6, 3, 7);
        x[l] = PICK(ab, ce, 0, 1, 4, 5);
        y[l] = PICK(ab, ce, 2, 3, 6, 7);
        z[l] = PICK(ab_high, ce_high, 0, 1, 4, 5);
        u[l] = PICK(ab_high, ce_high, 2, 3, 6, 7);
    }
}
EXEC_RACY static void load_vector_64x2(void *const *d, const void *from)
{
    four *x = d[0], *y = d[1];
    const four *p = from;
    for (unsigned l = 0; l < SG_LANES / 2; l++) {
        const four a = load_four(&p[2 * l]), b = load_four(&p[2 * l + 1]);
        x[l] = PICK(a, b, 0, 1, 4, 5);
        y[l] = PICK(a, b, 2, 3, 6, 7);
    }
}

EXEC_RACY static void store_vector_32x2(void *to, const void *const *rows)
{
    const four *x = rows[0], *y = rows[1];
    unsigned char *p = to;
    for (unsigned l = 0; l < SG_LANES / 4; l++) {
        store_pairs(p + 32 * l, PICK(x[l], y[l], 0, 4, 1, 5));
        store_pairs(p + 32 * l + 16, PICK(x[l], y[l], 2, 6, 3, 7));
    }
}
EXEC_RACY static void store_vector_32x4(void *to, const void *const *rows)
{
    const four *x = rows[0], *y = rows[1], *z = rows[2], *u = rows[3];
    four *p = to;
    for (unsigned l = 0; l < SG_LANES / 4; l++) {
        const four xy = PICK(x[l], y[l], 0, 4, 1, 5), zu = PICK(z[l], u[l], 0, 4, 1, 5);
        const four xy_high = PICK(x[l], y[l], 2, 6, 3, 7), zu_high = PICK(z[l], u[l], 2, 6, 3, 7);
        store_four(&p[4 * l], PICK(xy, zu, 0, 1, 4, 5));
        store_four(&p[4 * l + 1], PICK(xy, zu, 2, 3, 6, 7));
        store_four(&p[4 * l + 2], PICK(xy_high, zu_high, 0, 1, 4, 5));
        store_four(&p[4 * l + 3], PICK(xy_high, zu_high, 2, 3, 6, 7));
    }
}
EXEC_RACY static void store_vector_64x2(void *to, const void *const *rows)
{
    const four *x = rows[0], *y = rows[1];
    four *p = to;
    for (unsigned l = 0; l < SG_LANES / 2; l++) {
        store_four(&p[2 * l], PICK(x[l], y[l], 0, 1, 4, 5));
        store_four(&p[2 * l + 1], PICK(x[l], y[l], 2, 3, 6, 7));
    }
}

EXEC_RACY static void gather32(uint32_t *d, const uint64_t *at)
{
    SG_FOR_LANES(l)
        d[l] = *(const uint32_t *)(uintptr_t)at[l];
}
EXEC_RACY static void gather64(uint64_t *d, const uint64_t *at)
{
    SG_FOR_LANES(l)
        d[l] = *(const uint64_t *)(uintptr_t)at[l];
}

/* shfl: d and the predicate for all lanes, from all lanes. d is no source. */
#define SHUFFLE(name, source, inside)                                                           \
    static uint32_t name(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c)  \
    {                                                                                           \
        uint32_t ok[SG_LANES], p = 0;                                                           \
        SG_FOR_LANES(l) {                                                                       \
            int me = (int)l, clamp = (int)(c[l] & 31), segment = (int)((c[l] >> 8) & 31);       \
            int by = (int)(b[l] & 31), most = (me & segment) | (clamp & ~segment), j = source;  \
            bool in = inside;                                                                   \
            (void)by;                                                                           \
            (void)most;                                                                         \
            ok[l] = in;                                                                         \
            d[l] = a[in ? j & 31 : me];                                                         \
        }                                                                                       \
        for (unsigned l = 0; l < SG_LANES; l++)                                                 \
            p |= ok[l] << l;                                                                    \
        return p;                                                                               \
    }
SHUFFLE(shuffle_up, me - by, j >= most)
SHUFFLE(shuffle_down, me + by, j <= most)
SHUFFLE(shuffle_bfly, me ^ by, j <= most)
SHUFFLE(shuffle_idx, (me & segment) | (by & ~segment), j <= most)

/* Bits in which active lanes differ from `value`. */
static uint32_t differ(const uint32_t *row, uint32_t value, uint32_t mask)
{
    uint32_t bits = 0;
    for (unsigned l = 0; l < SG_LANES; l++)
        bits |= (row[l] ^ value) & ((uint32_t)0 - ((mask >> l) & 1));
    return bits;
}

#define FROM_SMALL(name, mask, widened)                                                         \
    static void name(float *d, const uint32_t *row, unsigned shift)                             \
    {                                                                                           \
        SG_FOR_LANES(l) {                                                                       \
            const uint32_t v = row[l] >> shift & (mask);                                        \
            d[l] = widened;                                                                     \
        }                                                                                       \
    }
FROM_SMALL(from_f16, 0xffff, small_to_f32(v, FORMAT_F16))
FROM_SMALL(from_bf16, 0xffff, small_to_f32(v, FORMAT_BF16))
FROM_SMALL(from_tf32, 0xffffe000, bits_float(v))
FROM_SMALL(from_f32, 0xffffffff, bits_float(v))
FROM_SMALL(from_e4m3, 0xff, small_to_f32(v, FORMAT_E4M3))
FROM_SMALL(from_e5m2, 0xff, small_to_f32(v, FORMAT_E5M2))
FROM_SMALL(from_e3m2, 0x3f, small_to_f32(v, FORMAT_E3M2))
FROM_SMALL(from_e2m3, 0x3f, small_to_f32(v, FORMAT_E2M3))
FROM_SMALL(from_e2m1, 0x0f, small_to_f32(v, FORMAT_E2M1))

/* Four rows and eight columns of c at a time stay in registers. m, n: multiples of 8 */
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

enum { NO_EXPONENT = -4096, STEP_MOST = 64, ROWS_MOST = 32, INTS = 8 };
typedef int eight_ints __attribute__((vector_size(32), aligned(4), may_alias));

static int exponent_of(float f, int least)
{
    const int e = (int)(float_bits(f) >> 23 & 255) - 127;
    return f == 0 ? NO_EXPONENT : e < least ? least : e;
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
        sum += trunc(ldexp((double)a[at] * b[at * stride], shift));
    return sum_to_f32(sum, shift, how);
}

typedef int four_ints __attribute__((vector_size(16), aligned(4), may_alias));
typedef float four_floats __attribute__((vector_size(16), aligned(4), may_alias));
typedef double four_doubles __attribute__((vector_size(32), aligned(8)));
typedef int64_t four_longs __attribute__((vector_size(32), aligned(8)));

#define CHOOSE(mask, x, y) (((mask) & (x)) | (~(mask) & (y)))

/* exponent_of, of eight. Through a pointer: returning vectors is not the same at each level of the processor. */
SG_INLINE void exponents_of(eight_ints *to, const float *f, int least)
{
    const eight_ints bits = *(const eight_ints *)(const void *)f & 0x7fffffff, e = (bits >> 23) - 127,
                     none = (eight_ints){ 0 } + NO_EXPONENT, lowest = (eight_ints){ 0 } + least;
    *to = CHOOSE(bits == 0, none, CHOOSE(e < least, lowest, e));
}

/* As sum_to_f32, of four columns; sums: `count` of each, INTS apart. */
SG_INLINE void finish_four(float *c, const int *sums, unsigned count, const int *shift, struct exec_accumulation how)
{
    four_doubles sum = { 0 };
    for (unsigned at = 0; at < count; at++)
        sum += __builtin_convertvector(*(const four_ints *)(sums + at * INTS), four_doubles);
    const int64_t last = (int64_t)1 << (52 - (how.coarse ? how.kept : 23));
    four_longs bits = (four_longs)sum;
    const four_longs lost = bits & (last - 1);
    bits -= lost;
    if (how.odd)
        bits |= (lost != 0) & last;
    const four_longs back = (1023 - __builtin_convertvector(*(const four_ints *)shift, four_longs)) << 52;
    *(four_floats *)c = __builtin_convertvector((four_doubles)bits * (four_doubles)back, four_floats);
}

/* One row and eight columns; e_a and e_b: the exponents. */
SG_INLINE void add_eight(const float *a, const int *e_a, const float *b, const eight_ints *e_b, unsigned stride,
                         float *c, unsigned k, struct exec_accumulation how)
{
    eight_ints most;
    exponents_of(&most, c, -126);
    for (unsigned at = 0; at < k; at++) {
        const eight_ints e = e_b[at] + e_a[at];
        most = CHOOSE(e > most, e, most);
    }
    most &= most >= NO_EXPONENT / 2;                  /* nothing but zeros */
    const eight_ints outside = (most < -80) | (most > 96);
    int any = 0;                                      /* a product leaves the range of f32 */
    for (unsigned j = 0; j < INTS; j++)
        any |= outside[j];
    if (any) {
        for (unsigned j = 0; j < INTS; j++)
            c[j] = add_element(a, b + j, stride, c[j], k, how);
        return;
    }
    const eight_ints shift = (int)how.kept - most, field = (shift + 127) << 23;
    const eight scale = (eight)field;
    /* each term is below 2^27: eight of them are an int */
    eight_ints sums[STEP_MOST / 8 + 1] = { __builtin_convertvector(*(const eight *)c * scale, eight_ints) };
    unsigned count = 1;
    for (unsigned first = 0; first < k; first += 8) {
        eight_ints sum = { 0 };
        for (unsigned at = first; at < k && at < first + 8; at++)
            sum += __builtin_convertvector(a[at] * *(const eight *)(b + at * stride) * scale, eight_ints);
        sums[count++] = sum;
    }
    finish_four(c, (const int *)sums, count, (const int *)&shift, how);
    finish_four(c + 4, (const int *)sums + 4, count, (const int *)&shift + 4, how);
}

/* m, n: multiples of 8 */
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

SG_CLONE_DECLARE(const struct exec_row_functions, exec_row_functions);
const struct exec_row_functions SG_CLONE(exec_row_functions) = {
    blend32, blend64, fill32, fill64, copy32, copy64, add64, widen, shape, local, { shared32, shared64 },
    split16, split32, join16, join32,
    { load8, load16, load32, load64 },
    { load8s, load16s, load32, load64 },
    { store8, store16, store32, store64 },
    { store_some8, store_some16, store_some32, store_some64 },
    { load_vector_32x2, load_vector_32x4, load_vector_64x2 },
    { store_vector_32x2, store_vector_32x4, store_vector_64x2 },
    gather32, gather64,
    { shuffle_up, shuffle_down, shuffle_bfly, shuffle_idx }, differ,
    { from_f16, from_bf16, from_tf32, from_f32, from_e4m3, from_e5m2, from_e3m2, from_e2m3, from_e2m1 }, add_products,
};
