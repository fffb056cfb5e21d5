/*
 * compare.c: rows of comparison and selection. PTX ISA, "Comparison and Selection Instructions" and
 * "Half Precision Comparison Instructions".
 *
 * Each comparison of each type is a function of two rows that gives 32 bits (compare_fn). setp of the common types has
 * a row function for each; set, and the 16-bit floats (compared as f32, which holds them exactly), find the comparison
 * by its number in the immediate.
 */
#include "softgpu/alu/small_float.h"

typedef uint32_t compare_fn(const void *, const void *);

#define COMPARE(name, CELL, PACK, EXPRESSION)                                                     \
    static uint32_t name(const void *first, const void *second)                                   \
    {                                                                                             \
        const CELL *s0 = ROW_OF(const CELL, first), *s1 = ROW_OF(const CELL, second);             \
        ROW_ARRAY(CELL, yes);                                                                     \
        SG_FOR_LANES(i) { const CELL x = s0[i], y = s1[i]; yes[i] = (EXPRESSION) ? (CELL)-1 : 0; } \
        return PACK(yes);                                                                         \
    }
#define ORDER(N, CELL, PACK, T)                                                                   \
    COMPARE(eq_##N, CELL, PACK, (T)x == (T)y)                                                     \
    COMPARE(ne_##N, CELL, PACK, (T)x != (T)y)                                                     \
    COMPARE(lt_##N, CELL, PACK, (T)x < (T)y)                                                      \
    COMPARE(le_##N, CELL, PACK, (T)x <= (T)y)                                                     \
    COMPARE(gt_##N, CELL, PACK, (T)x > (T)y)                                                      \
    COMPARE(ge_##N, CELL, PACK, (T)x >= (T)y)
ORDER(u16, uint32_t, pack_lanes32, uint16_t)
ORDER(s16, uint32_t, pack_lanes32, int16_t)
ORDER(u32, uint32_t, pack_lanes32, uint32_t)
ORDER(s32, uint32_t, pack_lanes32, int32_t)
ORDER(u64, uint64_t, pack_lanes64, uint64_t)
ORDER(s64, uint64_t, pack_lanes64, int64_t)

/* Comparisons with a NaN are false; those with a final u are true. ne is not C's !=. */
#define FLOATS(N, CELL, PACK, F)                                                                  \
    COMPARE(eq_##N, CELL, PACK, F(x) == F(y))                                                     \
    COMPARE(ne_##N, CELL, PACK, F(x) < F(y) || F(x) > F(y))                                       \
    COMPARE(lt_##N, CELL, PACK, F(x) < F(y))                                                      \
    COMPARE(le_##N, CELL, PACK, F(x) <= F(y))                                                     \
    COMPARE(gt_##N, CELL, PACK, F(x) > F(y))                                                      \
    COMPARE(ge_##N, CELL, PACK, F(x) >= F(y))                                                     \
    COMPARE(equ_##N, CELL, PACK, !(F(x) < F(y) || F(x) > F(y)))                                   \
    COMPARE(neu_##N, CELL, PACK, F(x) != F(y))                                                    \
    COMPARE(ltu_##N, CELL, PACK, !(F(x) >= F(y)))                                                 \
    COMPARE(leu_##N, CELL, PACK, !(F(x) > F(y)))                                                  \
    COMPARE(gtu_##N, CELL, PACK, !(F(x) <= F(y)))                                                 \
    COMPARE(geu_##N, CELL, PACK, !(F(x) < F(y)))                                                  \
    COMPARE(num_##N, CELL, PACK, F(x) == F(x) && F(y) == F(y))                                    \
    COMPARE(nan_##N, CELL, PACK, !(F(x) == F(x) && F(y) == F(y)))
#define FLUSHED(x) load_f32(x, true)
FLOATS(f32, uint32_t, pack_lanes32, bits_float)
FLOATS(f32_ftz, uint32_t, pack_lanes32, FLUSHED)
FLOATS(f64, uint64_t, pack_lanes64, bits_double)

#define ORDER_TABLE(N) { eq_##N, ne_##N, lt_##N, le_##N, gt_##N, ge_##N }
#define FLOAT_TABLE(N) { eq_##N, ne_##N, lt_##N, le_##N, gt_##N, ge_##N, equ_##N, neu_##N, ltu_##N, leu_##N, gtu_##N, \
                         geu_##N, num_##N, nan_##N }
static compare_fn *const orders[SG_INT_COUNT][SG_ORDER_COUNT] = {
    [SG_U16] = ORDER_TABLE(u16), [SG_S16] = ORDER_TABLE(s16), [SG_U32] = ORDER_TABLE(u32), [SG_S32] = ORDER_TABLE(s32),
    [SG_U64] = ORDER_TABLE(u64), [SG_S64] = ORDER_TABLE(s64),
};
static compare_fn *const f32s[2][SG_COMPARE_COUNT] = { FLOAT_TABLE(f32), FLOAT_TABLE(f32_ftz) };
static compare_fn *const f64s[SG_COMPARE_COUNT] = FLOAT_TABLE(f64);

/* ---- the immediate ---- */

static inline enum sg_combine immediate_combine(const struct sg_rows *r)
{
    return (enum sg_combine)(r->immediate >> 32 & 15);
}
static inline unsigned immediate_compare(const struct sg_rows *r)
{
    return (unsigned)(r->immediate >> 36 & 255) % SG_COMPARE_COUNT;
}
static inline bool immediate_ftz(const struct sg_rows *r) { return r->immediate >> 44 & 1; }

static inline uint32_t combine(const struct sg_rows *r, uint32_t mask)
{
    switch (immediate_combine(r)) {
    case SG_COMBINE_AND: return mask & r->in;
    case SG_COMBINE_OR:  return mask | r->in;
    case SG_COMBINE_XOR: return mask ^ r->in;
    default:             return mask;
    }
}

/* ---- setp ---- */

static inline void setp_store(const struct sg_rows *r, uint32_t mask)
{
    *r->p = combine(r, mask);
    if (r->q)
        *r->q = combine(r, ~mask);
}

#define SETP(name) static void setp_##name(const struct sg_rows *r) { setp_store(r, name(r->s[0], r->s[1])); }
#define SETP_ORDER(N) SETP(eq_##N) SETP(ne_##N) SETP(lt_##N) SETP(le_##N) SETP(gt_##N) SETP(ge_##N)
#define SETP_FLOAT(N) \
    SETP_ORDER(N)     \
    SETP(equ_##N) SETP(neu_##N) SETP(ltu_##N) SETP(leu_##N) SETP(gtu_##N) SETP(geu_##N) SETP(num_##N) SETP(nan_##N)
SETP_ORDER(u16)
SETP_ORDER(s16)
SETP_ORDER(u32)
SETP_ORDER(s32)
SETP_ORDER(u64)
SETP_ORDER(s64)
SETP_FLOAT(f32)
SETP_FLOAT(f32_ftz)
SETP_FLOAT(f64)

/* 16-bit floats: half `at` of each register */
SG_INLINE uint32_t compare_halves(const struct sg_rows *r, struct small_float f, unsigned at)
{
    ROW_ARRAY(uint32_t, x);
    ROW_ARRAY(uint32_t, y);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1);
    if (immediate_ftz(r))
        SG_FOR_LANES(i) {
            x[i] = float_bits(small_to_f32(flush_small(a[i] >> (16 * at) & 0xffff, f, true), f));
            y[i] = float_bits(small_to_f32(flush_small(b[i] >> (16 * at) & 0xffff, f, true), f));
        }
    else
        SG_FOR_LANES(i) {
            x[i] = float_bits(small_to_f32(a[i] >> (16 * at) & 0xffff, f));
            y[i] = float_bits(small_to_f32(b[i] >> (16 * at) & 0xffff, f));
        }
    return f32s[0][immediate_compare(r)](x, y);
}
static void setp_f16(const struct sg_rows *r)  { setp_store(r, compare_halves(r, FORMAT_F16, 0)); }
static void setp_bf16(const struct sg_rows *r) { setp_store(r, compare_halves(r, FORMAT_BF16, 0)); }
/* p is the comparison of the low halves, q that of the high ones */
SG_INLINE void setp_halves(const struct sg_rows *r, struct small_float f)
{
    const uint32_t low = combine(r, compare_halves(r, f, 0)), high = combine(r, compare_halves(r, f, 1));
    *r->p = low;
    if (r->q)
        *r->q = high;
}
static void setp_f16x2(const struct sg_rows *r)  { setp_halves(r, FORMAT_F16); }
static void setp_bf16x2(const struct sg_rows *r) { setp_halves(r, FORMAT_BF16); }

/* ---- set ---- */

static inline void set_store(const struct sg_rows *r, uint32_t mask)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t value = (uint32_t)r->immediate, truth = combine(r, mask);
    SG_FOR_LANES(i) d[i] = truth >> i & 1 ? value : 0;
}
#define SET_INT(N, index)                                                                     \
    static void set_##N(const struct sg_rows *r)                                              \
    {                                                                                         \
        set_store(r, orders[index][immediate_compare(r) % SG_ORDER_COUNT](r->s[0], r->s[1])); \
    }
SET_INT(u16, SG_U16)
SET_INT(s16, SG_S16)
SET_INT(u32, SG_U32)
SET_INT(s32, SG_S32)
SET_INT(u64, SG_U64)
SET_INT(s64, SG_S64)
static void set_f32(const struct sg_rows *r)
{
    set_store(r, f32s[immediate_ftz(r)][immediate_compare(r)](r->s[0], r->s[1]));
}
static void set_f64(const struct sg_rows *r)  { set_store(r, f64s[immediate_compare(r)](r->s[0], r->s[1])); }
static void set_f16(const struct sg_rows *r)  { set_store(r, compare_halves(r, FORMAT_F16, 0)); }
static void set_bf16(const struct sg_rows *r) { set_store(r, compare_halves(r, FORMAT_BF16, 0)); }
SG_INLINE void set_halves(const struct sg_rows *r, struct small_float f)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t value = (uint32_t)r->immediate & 0xffff;
    const uint32_t low = combine(r, compare_halves(r, f, 0)), high = combine(r, compare_halves(r, f, 1));
    SG_FOR_LANES(i) d[i] = (low >> i & 1 ? value : 0) | (high >> i & 1 ? value << 16 : 0);
}
static void set_f16x2(const struct sg_rows *r)  { set_halves(r, FORMAT_F16); }
static void set_bf16x2(const struct sg_rows *r) { set_halves(r, FORMAT_BF16); }

/* ---- selection ---- */

#define SELP(name, CELL)                                                                          \
    static void name(const struct sg_rows *r)                                                     \
    {                                                                                             \
        CELL *d = ROW_OF(CELL, r->d);                                                             \
        const CELL *a = SOURCE(CELL, 0), *b = SOURCE(CELL, 1);                                    \
        const uint32_t in = r->in;                                                                \
        SG_FOR_LANES(i) { const CELL x = a[i], y = b[i]; d[i] = in >> i & 1 ? x : y; }            \
    }
SELP(selp_32, uint32_t)
SELP(selp_64, uint64_t)

/* c >= 0, where -0 counts as 0 and NaN as negative */
#define NOT_BELOW(c) (bits_float(c) >= 0)
ROW3(slct_32_s32, uint32_t, uint32_t, uint32_t, uint32_t, (int32_t)c >= 0 ? a : b)
ROW3(slct_64_s32, uint64_t, uint64_t, uint64_t, uint32_t, (int32_t)c >= 0 ? a : b)
ROW3(slct_32_plain, uint32_t, uint32_t, uint32_t, uint32_t, NOT_BELOW(c) ? a : b)
ROW3(slct_64_plain, uint64_t, uint64_t, uint64_t, uint32_t, NOT_BELOW(c) ? a : b)
ROW3(slct_32_ftz, uint32_t, uint32_t, uint32_t, uint32_t, NOT_BELOW(flush32(c, true)) ? a : b)
ROW3(slct_64_ftz, uint64_t, uint64_t, uint64_t, uint32_t, NOT_BELOW(flush32(c, true)) ? a : b)
static void slct_32_f32(const struct sg_rows *r) { (immediate_ftz(r) ? slct_32_ftz : slct_32_plain)(r); }
static void slct_64_f32(const struct sg_rows *r) { (immediate_ftz(r) ? slct_64_ftz : slct_64_plain)(r); }

#define INT_TYPES(name) { [SG_U16] = name##_u16, [SG_S16] = name##_s16, [SG_U32] = name##_u32, [SG_S32] = name##_s32, \
                          [SG_U64] = name##_u64, [SG_S64] = name##_s64 }
#define BOTH(name, plain, ftz) { setp_##name##_##plain, setp_##name##_##ftz }
#define SETP_FLOATS(plain, ftz)                                                                                       \
    {                                                                                                                 \
        BOTH(eq, plain, ftz), BOTH(ne, plain, ftz), BOTH(lt, plain, ftz), BOTH(le, plain, ftz), BOTH(gt, plain, ftz), \
            BOTH(ge, plain, ftz), BOTH(equ, plain, ftz), BOTH(neu, plain, ftz), BOTH(ltu, plain, ftz),                \
            BOTH(leu, plain, ftz), BOTH(gtu, plain, ftz), BOTH(geu, plain, ftz), BOTH(num, plain, ftz),               \
            BOTH(nan, plain, ftz)                                                                                     \
    }
#define SAME14(f)                                                                                                     \
    {                                                                                                                 \
        { f, f }, { f, f }, { f, f }, { f, f }, { f, f }, { f, f }, { f, f }, { f, f }, { f, f }, { f, f }, { f, f }, \
            { f, f }, { f, f },                                                                                       \
        {                                                                                                             \
            f, f                                                                                                      \
        }                                                                                                             \
    }

const struct sg_compare_table SG_CLONE(sg_compare_table) = {
    .setp_int = { [SG_EQ] = INT_TYPES(setp_eq), [SG_NE] = INT_TYPES(setp_ne), [SG_LT] = INT_TYPES(setp_lt),
                  [SG_LE] = INT_TYPES(setp_le), [SG_GT] = INT_TYPES(setp_gt), [SG_GE] = INT_TYPES(setp_ge) },
    .set_int = INT_TYPES(set),
    .setp_float = { [SG_F32] = SETP_FLOATS(f32, f32_ftz), [SG_F64] = SETP_FLOATS(f64, f64), [SG_F16] = SAME14(setp_f16),
                    [SG_BF16] = SAME14(setp_bf16), [SG_F16X2] = SAME14(setp_f16x2), [SG_BF16X2] = SAME14(setp_bf16x2) },
    .set_float = { [SG_F32] = set_f32, [SG_F64] = set_f64, [SG_F16] = set_f16, [SG_BF16] = set_bf16,
                   [SG_F16X2] = set_f16x2, [SG_BF16X2] = set_bf16x2 },
    .selp = { selp_32, selp_64 },
    .slct = { { slct_32_s32, slct_32_f32 }, { slct_64_s32, slct_64_f32 } },
};
