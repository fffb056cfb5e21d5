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

SG_CLONE_DECLARE(const struct exec_row_functions, exec_row_functions);
SG_CLONE_DECLARE(const struct exec_product_functions, exec_product_functions);
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
    { from_f16, from_bf16, from_tf32, from_f32, from_e4m3, from_e5m2, from_e3m2, from_e2m3, from_e2m1 },
    &SG_CLONE(exec_product_functions),
};
