/*
 * bits.c: rows of logic, shifts, bit fields, byte permutations and dot products of bytes.
 * PTX ISA, "Logic and Shift Instructions", "Integer Arithmetic Instructions" (popc … dp2a) and
 * "Data Movement and Conversion Instructions" (prmt).
 */
#include "softgpu/alu/row.h"
#include "softgpu/alu/tables.h"

/* ---- logic ---- */

#define LOGIC_ROWS(N, CELL, NARROW)                                                       \
    ROW2(and_##N, CELL, CELL, CELL, a & b)                                                \
    ROW2(or_##N, CELL, CELL, CELL, a | b)                                                 \
    ROW2(xor_##N, CELL, CELL, CELL, a ^ b)                                                \
    ROW1(not_##N, CELL, CELL, (NARROW)~a)                                                 \
    ROW1(cnot_##N, CELL, CELL, (NARROW)a == 0)
LOGIC_ROWS(16, uint32_t, uint16_t)
LOGIC_ROWS(32, uint32_t, uint32_t)
LOGIC_ROWS(64, uint64_t, uint64_t)

#define PREDICATE_ROW(name, EXPRESSION)                                                   \
    static void name(const struct sg_rows *r)                                             \
    {                                                                                     \
        const uint32_t a = *(const uint32_t *)r->s[0];                                    \
        *r->p = (EXPRESSION);                                                             \
    }
#define B (*(const uint32_t *)r->s[1])
PREDICATE_ROW(and_pred, a & B)
PREDICATE_ROW(or_pred, a | B)
PREDICATE_ROW(xor_pred, a ^ B)
PREDICATE_ROW(not_pred, ~a)
#undef B

/* Any function of three bits, by its truth table (the immediate), as a tree of selections: c chooses between
   neighbours of the table, b between those, a last. y ^ (k & (x ^ y)) is k ? x : y. */
struct lop3 { uint32_t low[4], differ[4]; };

static inline struct lop3 lop3_prepare(uint64_t table)
{
    struct lop3 t;
    for (unsigned i = 0; i < 4; i++) {
        t.low[i] = 0 - (uint32_t)(table >> (2 * i) & 1);
        t.differ[i] = t.low[i] ^ (0 - (uint32_t)(table >> (2 * i + 1) & 1));
    }
    return t;
}

static inline uint32_t choose(uint32_t k, uint32_t x, uint32_t y) { return y ^ (k & (x ^ y)); }

static inline uint32_t lop3_lane(const struct lop3 *t, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t low = choose(b, t->low[1] ^ (c & t->differ[1]), t->low[0] ^ (c & t->differ[0]));
    const uint32_t high = choose(b, t->low[3] ^ (c & t->differ[3]), t->low[2] ^ (c & t->differ[2]));
    return choose(a, high, low);
}

/* d may be NULL: lop3.or.b32 _|p */
static inline uint32_t lop3_row(const struct sg_rows *r)
{
    ROW_ARRAY(uint32_t, sink);
    ROW_ARRAY(uint32_t, nonzero);
    const struct lop3 t = lop3_prepare(r->immediate);
    uint32_t *d = r->d ? ROW_OF(uint32_t, r->d) : sink;
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1), *c = SOURCE(uint32_t, 2);
    SG_FOR_LANES(i) {
        const uint32_t x = lop3_lane(&t, a[i], b[i], c[i]);
        d[i] = x;
        nonzero[i] = x ? UINT32_MAX : 0;
    }
    return pack_lanes32(nonzero);
}
static void lop3_plain(const struct sg_rows *r)
{
    const struct lop3 t = lop3_prepare(r->immediate);
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1), *c = SOURCE(uint32_t, 2);
    SG_FOR_LANES(i) d[i] = lop3_lane(&t, a[i], b[i], c[i]);
}
static void lop3_or(const struct sg_rows *r)  { *r->p = lop3_row(r) | r->in; }
static void lop3_and(const struct sg_rows *r) { *r->p = lop3_row(r) & r->in; }

/* ---- shifts: amounts beyond the width are clamped to it ---- */

#define SHIFT_ROWS(N, CELL, NARROW, SIGNED, BITS)                                                             \
    ROW2(shl_##N, CELL, CELL, uint32_t, b >= BITS ? 0 : (NARROW)(a << (b & 63 & (8 * sizeof(CELL) - 1))))     \
    ROW2(shr_u##N, CELL, CELL, uint32_t, b >= BITS ? 0 : (NARROW)a >> (b & (BITS - 1)))                       \
    ROW2(shr_s##N, CELL, CELL, uint32_t, (NARROW)((SIGNED)(NARROW)a >> (b >= BITS ? BITS - 1 : b)))
SHIFT_ROWS(16, uint32_t, uint16_t, int16_t, 16)
SHIFT_ROWS(32, uint32_t, uint32_t, int32_t, 32)
SHIFT_ROWS(64, uint64_t, uint64_t, int64_t, 64)

/* Funnel shift of b:a. left: the high half of the shifted pair, right: the low half. */
static inline uint64_t pair_of(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }
static inline uint32_t at_most_32(uint32_t n) { return n > 32 ? 32 : n; }
ROW3(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, pair_of(a, b) << (c & 31) >> 32)
ROW3(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t, pair_of(a, b) << at_most_32(c) >> 32)
ROW3(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, pair_of(a, b) >> (c & 31))
ROW3(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t, pair_of(a, b) >> at_most_32(c))

/* ---- counting and finding ---- */

static inline uint32_t popc32(uint32_t x)
{
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}
ROW1(popc_32, uint32_t, uint32_t, popc32(a))
ROW1(popc_64, uint32_t, uint64_t, popc32((uint32_t)a) + popc32((uint32_t)(a >> 32)))

static inline uint32_t clz32(uint32_t x) { return x ? (uint32_t)__builtin_clz(x) : 32; }
static inline uint32_t clz64(uint64_t x) { return x ? (uint32_t)__builtin_clzll(x) : 64; }
ROW1(clz_32, uint32_t, uint32_t, clz32(a))
ROW1(clz_64, uint32_t, uint64_t, clz64(a))

/* The highest bit that differs from the sign (from 0 for unsigned); all ones where there is none. */
static inline uint32_t without_sign32(uint32_t x) { return x ^ (0 - (x >> 31)); }
static inline uint64_t without_sign64(uint64_t x) { return x ^ (0 - (x >> 63)); }
static inline uint32_t bfind32(uint32_t x) { return 31 - clz32(x); }
static inline uint32_t bfind64(uint64_t x) { return 63 - clz64(x); }
static inline uint32_t shift32(uint32_t x) { return x ? clz32(x) : UINT32_MAX; }
static inline uint32_t shift64(uint64_t x) { return x ? clz64(x) : UINT32_MAX; }
ROW1(bfind_u32, uint32_t, uint32_t, bfind32(a))
ROW1(bfind_s32, uint32_t, uint32_t, bfind32(without_sign32(a)))
ROW1(bfind_u64, uint32_t, uint64_t, bfind64(a))
ROW1(bfind_s64, uint32_t, uint64_t, bfind64(without_sign64(a)))
ROW1(bfind_shift_u32, uint32_t, uint32_t, shift32(a))
ROW1(bfind_shift_s32, uint32_t, uint32_t, shift32(without_sign32(a)))
ROW1(bfind_shift_u64, uint32_t, uint64_t, shift64(a))
ROW1(bfind_shift_s64, uint32_t, uint64_t, shift64(without_sign64(a)))

static inline uint32_t brev32(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    x = (x >> 8 & 0x00ff00ff) | (x & 0x00ff00ff) << 8;
    return x >> 16 | x << 16;
}
ROW1(brev_32, uint32_t, uint32_t, brev32(a))
ROW1(brev_64, uint64_t, uint64_t, (uint64_t)brev32((uint32_t)a) << 32 | brev32((uint32_t)(a >> 32)))

/* ---- bit fields: position and length are the low 8 bits of their operands ---- */

/* Low n bits set; all of them from BITS on. */
static inline uint32_t ones32(uint32_t n) { return n >= 32 ? UINT32_MAX : (1u << (n & 31)) - 1; }
static inline uint64_t ones64(uint32_t n) { return n >= 64 ? UINT64_MAX : ((uint64_t)1 << (n & 63)) - 1; }

/* Signed fields are filled with their top bit; a field that reaches beyond the register has the register's top
   bit as its own, and an empty one is 0. */
#define FIELD_ROWS(BITS, CELL, COUNT)                                                                         \
    static inline CELL bfe_unsigned##BITS(CELL a, uint32_t position, uint32_t length)                         \
    {                                                                                                         \
        return position >= BITS ? 0 : a >> (position & (BITS - 1)) & ones##BITS(length);                      \
    }                                                                                                         \
    static inline CELL bfe_signed##BITS(CELL a, uint32_t position, uint32_t length)                           \
    {                                                                                                         \
        const uint32_t top = position + length - 1;          /* only looked at where length > 0 */            \
        const CELL sign = 0 - (a >> (top < BITS ? top & (BITS - 1) : BITS - 1) & 1);                          \
        const CELL field = bfe_unsigned##BITS(a, position, length);                                           \
        const uint32_t have = position >= BITS ? 0 : length < BITS - position ? length : BITS - position;     \
        return length == 0 ? 0 : field | (sign & ~ones##BITS(have));                                          \
    }                                                                                                         \
    static inline CELL bfi_lane##BITS(CELL a, CELL b, uint32_t position, uint32_t length)                     \
    {                                                                                                         \
        const CELL mask = position >= BITS ? 0 : ones##BITS(length) << (position & (BITS - 1));               \
        return (b & ~mask) | (a << (position & (BITS - 1)) & mask);                                           \
    }                                                                                                         \
    ROW3(bfe_u##BITS, CELL, CELL, uint32_t, uint32_t, bfe_unsigned##BITS(a, COUNT(b), COUNT(c)))              \
    ROW3(bfe_s##BITS, CELL, CELL, uint32_t, uint32_t, bfe_signed##BITS(a, COUNT(b), COUNT(c)))                \
    static void bfi_##BITS(const struct sg_rows *r)                                                           \
    {                                                                                                         \
        CELL *d = ROW_OF(CELL, r->d);                                                                         \
        const CELL *a = SOURCE(CELL, 0), *b = SOURCE(CELL, 1);                                                \
        const uint32_t *position = SOURCE(uint32_t, 2), *length = SOURCE(uint32_t, 3);                        \
        SG_FOR_LANES(i) d[i] = bfi_lane##BITS(a[i], b[i], COUNT(position[i]), COUNT(length[i]));              \
    }
/* The PTX ISA takes positions and lengths from 0 to 255. Of larger ones an H200 sees the lower 8 bits with fields of 32
   bits; those of 64 bits are code of the compiler, for which they are as far away as 255 is. */
#define LOWER_8(x) ((x) & 255)
#define AT_MOST_255(x) ((x) < 255 ? (x) : 255)
FIELD_ROWS(32, uint32_t, LOWER_8)
FIELD_ROWS(64, uint64_t, AT_MOST_255)

ROW2(bmsk_wrap, uint32_t, uint32_t, uint32_t, ones32(b & 31) << (a & 31))
ROW2(bmsk_clamp, uint32_t, uint32_t, uint32_t, a >= 32 ? 0 : ones32(b) << (a & 31))

/* Sign- or zero-extends the low b bits; 0 bits give 0, and 32 and more the whole. wrap: b modulo 32. */
ROW2(szext_wrap_u32, uint32_t, uint32_t, uint32_t, a & ones32(b & 31))
ROW2(szext_wrap_s32, uint32_t, uint32_t, uint32_t, bfe_signed32(a, 0, b & 31))
ROW2(szext_clamp_u32, uint32_t, uint32_t, uint32_t, a & ones32(b))
ROW2(szext_clamp_s32, uint32_t, uint32_t, uint32_t, bfe_signed32(a, 0, b > 32 ? 32 : b))

/* The n-th set bit of mask from base on (n > 0: upward, n < 0: downward, base itself included; 0: is base set?) */
static inline uint32_t fns_lane(uint32_t mask, uint32_t base, int32_t n)
{
    if (base > 31)
        return UINT32_MAX;
    if (n == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    const int step = n > 0 ? 1 : -1;
    int64_t left = n > 0 ? n : -(int64_t)n;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}
static void fns(const struct sg_rows *r)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *mask = SOURCE(uint32_t, 0), *base = SOURCE(uint32_t, 1), *n = SOURCE(uint32_t, 2);
    for (unsigned i = 0; i < SG_LANES; i++)
        d[i] = fns_lane(mask[i], base[i], (int32_t)n[i]);
}

/* ---- dot products: each operand signed or unsigned by itself, the sum wraps ---- */

#define BYTE_u(x, n) ((uint32_t)(uint8_t)((x) >> (8 * (n))))
#define BYTE_s(x, n) ((uint32_t)(int32_t)(int8_t)((x) >> (8 * (n))))
#define HALF_u(x, n) ((uint32_t)(uint16_t)((x) >> (16 * (n))))
#define HALF_s(x, n) ((uint32_t)(int32_t)(int16_t)((x) >> (16 * (n))))
#define DOT_ROWS(A, B)                                                                                        \
    ROW3(dp4a_##A##B, uint32_t, uint32_t, uint32_t, uint32_t,                                                 \
         c + BYTE_##A(a, 0) * BYTE_##B(b, 0) + BYTE_##A(a, 1) * BYTE_##B(b, 1) +                              \
             BYTE_##A(a, 2) * BYTE_##B(b, 2) + BYTE_##A(a, 3) * BYTE_##B(b, 3))                               \
    ROW3(dp2a_lo_##A##B, uint32_t, uint32_t, uint32_t, uint32_t,                                              \
         c + HALF_##A(a, 0) * BYTE_##B(b, 0) + HALF_##A(a, 1) * BYTE_##B(b, 1))                               \
    ROW3(dp2a_hi_##A##B, uint32_t, uint32_t, uint32_t, uint32_t,                                              \
         c + HALF_##A(a, 0) * BYTE_##B(b, 2) + HALF_##A(a, 1) * BYTE_##B(b, 3))
DOT_ROWS(u, u)
DOT_ROWS(u, s)
DOT_ROWS(s, u)
DOT_ROWS(s, s)

/* ---- prmt: each result byte is one of the 8 bytes of b:a, or eight copies of its top bit ---- */

static inline uint32_t prmt_byte(uint64_t bytes, uint32_t selector)
{
    const uint32_t byte = (uint32_t)(bytes >> (8 * (selector & 7))) & 255;
    return selector & 8 ? (0 - (byte >> 7)) & 255 : byte;
}
static inline uint32_t prmt_lane(uint32_t a, uint32_t b, uint32_t selectors)
{
    const uint64_t bytes = pair_of(a, b);
    return prmt_byte(bytes, selectors) | prmt_byte(bytes, selectors >> 4) << 8 |
           prmt_byte(bytes, selectors >> 8) << 16 | prmt_byte(bytes, selectors >> 12) << 24;
}
/* The other modes take the low two bits of c and stand for selectors of their own. */
static const uint16_t prmt_modes[SG_PRMT_COUNT][4] = {
    [SG_PRMT_F4E] = { 0x3210, 0x4321, 0x5432, 0x6543 }, [SG_PRMT_B4E] = { 0x5670, 0x6701, 0x7012, 0x0123 },
    [SG_PRMT_RC8] = { 0x0000, 0x1111, 0x2222, 0x3333 }, [SG_PRMT_ECL] = { 0x3210, 0x3211, 0x3222, 0x3333 },
    [SG_PRMT_ECR] = { 0x0000, 0x1110, 0x2210, 0x3210 }, [SG_PRMT_RC16] = { 0x1010, 0x3232, 0x1010, 0x3232 },
};
ROW3(prmt_index, uint32_t, uint32_t, uint32_t, uint32_t, prmt_lane(a, b, c))
#define PRMT_ROW(name, MODE) \
    ROW3(name, uint32_t, uint32_t, uint32_t, uint32_t, prmt_lane(a, b, prmt_modes[MODE][c & 3]))
PRMT_ROW(prmt_f4e, SG_PRMT_F4E)
PRMT_ROW(prmt_b4e, SG_PRMT_B4E)
PRMT_ROW(prmt_rc8, SG_PRMT_RC8)
PRMT_ROW(prmt_ecl, SG_PRMT_ECL)
PRMT_ROW(prmt_ecr, SG_PRMT_ECR)
PRMT_ROW(prmt_rc16, SG_PRMT_RC16)

/* ---- integers of one width as another's (sg_alu_resize, and cvt without .sat) ---- */

#define RESIZE_ROWS(FROM, T, A)                                                                               \
    ROW1(resize_8_##FROM, uint32_t, A, (uint8_t)(T)a)                                                         \
    ROW1(resize_16_##FROM, uint32_t, A, (uint16_t)(T)a)                                                       \
    ROW1(resize_32_##FROM, uint32_t, A, (uint32_t)(T)a)                                                       \
    ROW1(resize_64_##FROM, uint64_t, A, (uint64_t)(T)a)
RESIZE_ROWS(u8, uint8_t, uint32_t)
RESIZE_ROWS(s8, int8_t, uint32_t)
RESIZE_ROWS(u16, uint16_t, uint32_t)
RESIZE_ROWS(s16, int16_t, uint32_t)
RESIZE_ROWS(u32, uint32_t, uint32_t)
RESIZE_ROWS(s32, int32_t, uint32_t)
RESIZE_ROWS(u64, uint64_t, uint64_t)
RESIZE_ROWS(s64, int64_t, uint64_t)
#define RESIZE_TO(N) { resize_##N##_u8, resize_##N##_s8, resize_##N##_u16, resize_##N##_s16,                  \
                       resize_##N##_u32, resize_##N##_s32, resize_##N##_u64, resize_##N##_s64 }

const struct sg_bits_table SG_CLONE(sg_bits_table) = {
    .logic = {
        [SG_AND] = { and_16, and_32, and_64, and_pred }, [SG_OR] = { or_16, or_32, or_64, or_pred },
        [SG_XOR] = { xor_16, xor_32, xor_64, xor_pred }, [SG_NOT] = { not_16, not_32, not_64, not_pred },
        [SG_CNOT] = { cnot_16, cnot_32, cnot_64, NULL },
    },
    .shift = {
        [SG_SHL] = { shl_16, shl_32, shl_64 }, [SG_SHR_UNSIGNED] = { shr_u16, shr_u32, shr_u64 },
        [SG_SHR_SIGNED] = { shr_s16, shr_s32, shr_s64 },
    },
    .funnel = { { shf_l_wrap, shf_l_clamp }, { shf_r_wrap, shf_r_clamp } },
    .lop3 = { lop3_plain, lop3_or, lop3_and },
    .prmt = { prmt_index, prmt_f4e, prmt_b4e, prmt_rc8, prmt_ecl, prmt_ecr, prmt_rc16 },
    .popc = { popc_32, popc_64 }, .clz = { clz_32, clz_64 }, .brev = { brev_32, brev_64 },
    .bfind = { { { bfind_u32, bfind_shift_u32 }, { bfind_s32, bfind_shift_s32 } },
               { { bfind_u64, bfind_shift_u64 }, { bfind_s64, bfind_shift_s64 } } },
    .bfe = { { bfe_u32, bfe_s32 }, { bfe_u64, bfe_s64 } }, .bfi = { bfi_32, bfi_64 },
    .bmsk = { bmsk_wrap, bmsk_clamp },
    .szext = { { szext_wrap_u32, szext_wrap_s32 }, { szext_clamp_u32, szext_clamp_s32 } },
    .fns = fns,
    .dp4a = { { dp4a_uu, dp4a_us }, { dp4a_su, dp4a_ss } },
    .dp2a = { { { dp2a_lo_uu, dp2a_lo_us }, { dp2a_lo_su, dp2a_lo_ss } },
              { { dp2a_hi_uu, dp2a_hi_us }, { dp2a_hi_su, dp2a_hi_ss } } },
    .resize = { RESIZE_TO(8), RESIZE_TO(16), RESIZE_TO(32), RESIZE_TO(64) },
};
