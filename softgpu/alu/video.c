/*
 * video.c: rows of the video instructions. PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions".
 *
 * Scalar: parts of a and b, extended to more bits than any result needs, give a value; it is clamped (.sat) to
 * the part of d that is written, then joined with c. SIMD: the same for two halves or four bytes, each
 * taken from any place of b:a.
 */
#include "softgpu/alu/row.h"
#include "softgpu/alu/video.h"

#define SG_INLINE static inline __attribute__((always_inline))

SG_INLINE int64_t extract(uint32_t x, unsigned shift, unsigned bits, bool is_signed)
{
    const uint64_t top = (uint64_t)x << (64 - shift - bits);
    return is_signed ? (int64_t)top >> (64 - bits) : (int64_t)(top >> (64 - bits));
}

struct video_part {
    unsigned shift, bits;
};
SG_INLINE struct video_part part_of(unsigned part)
{
    return part == SG_PART_WHOLE ? (struct video_part){ 0, 32 }
           : part <= SG_PART_B3  ? (struct video_part){ 8 * (part - SG_PART_B0), 8 }
                                 : (struct video_part){ 16 * (part - SG_PART_H0), 16 };
}

SG_INLINE int64_t clamp(int64_t x, unsigned bits, bool is_signed)
{
    const int64_t high = ((int64_t)1 << (bits - is_signed)) - 1, low = is_signed ? -high - 1 : 0;
    return x < low ? low : x > high ? high : x;
}

/* A comparison as the outcomes for which it holds: the same for all lanes, so no lane has to branch */
struct outcomes { uint32_t less, equal, greater; };
SG_INLINE struct outcomes outcomes_of(unsigned compare)
{
    return (struct outcomes){ .less = compare == SG_LT || compare == SG_LE || compare == SG_NE,
                              .equal = compare == SG_EQ || compare == SG_LE || compare == SG_GE,
                              .greater = compare == SG_GT || compare == SG_GE || compare == SG_NE };
}
#define HOLDS(o, x, y) \
    (((o).less & (uint32_t)((x) < (y))) | ((o).equal & (uint32_t)((x) == (y))) | ((o).greater & (uint32_t)((x) > (y))))

SG_INLINE int64_t operate(enum sg_video_operation operation, int64_t x, int64_t y, const struct sg_video *v)
{
    switch (operation) {
    case SG_VADD:     return x + y;
    case SG_VSUB:     return x - y;
    case SG_VABSDIFF: return x > y ? x - y : y - x;
    case SG_VMIN:     return x < y ? x : y;
    case SG_VMAX:     return x > y ? x : y;
    case SG_VSET:     { const struct outcomes o = outcomes_of(v->compare); return HOLDS(o, x, y); }
    default: {
        const unsigned n = v->wrap ? (unsigned)y & 31 : (uint64_t)y > 32 ? 32 : (unsigned)y;
        return operation == SG_VSHL ? (int64_t)((uint64_t)x << n) : x >> n;
    }
    }
}

SG_INLINE int64_t accumulate(unsigned second, int64_t x, int64_t c)
{
    return second == SG_VIDEO_ADD ? c + x : second == SG_VIDEO_MIN ? (c < x ? c : x) : (c > x ? c : x);
}

SG_INLINE void scalar_rows(const struct sg_rows *r, enum sg_video_operation operation)
{
    const struct sg_video v = sg_video_unpack(r->immediate);
    const struct video_part a = part_of(v.a), b = part_of(v.b), to = part_of(v.d);
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *s0 = SOURCE(uint32_t, 0), *s1 = SOURCE(uint32_t, 1), *s2 = SOURCE(uint32_t, v.has_c ? 2 : 0);
    const uint32_t mask = to.bits == 32 ? UINT32_MAX : ((1u << to.bits) - 1) << to.shift;
    for (unsigned i = 0; i < SG_LANES; i++) {
        const int64_t x = extract(s0[i], a.shift, a.bits, v.a_signed), y = extract(s1[i], b.shift, b.bits, v.b_signed);
        int64_t value = operate(operation, x, y, &v);
        if (v.sat)
            value = clamp(value, to.bits, v.d_signed);
        if (v.second != SG_VIDEO_MERGE) {
            /* the first result as its 32 bits in d's type */
            value =
                accumulate(v.second, extract((uint32_t)value, 0, 32, v.d_signed), extract(s2[i], 0, 32, v.d_signed));
            d[i] = (uint32_t)value;
        } else
            d[i] = v.has_c ? ((uint32_t)value << to.shift & mask) | (s2[i] & ~mask) : (uint32_t)value;
    }
}

/* d = ±(a * b) ± c (+ 1), shifted right, clamped */
static void vmad(const struct sg_rows *r)
{
    const struct sg_video v = sg_video_unpack(r->immediate);
    const struct video_part a = part_of(v.a), b = part_of(v.b);
    const bool is_signed = v.a_signed || v.b_signed || v.negate_product || v.negate_c;
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *s0 = SOURCE(uint32_t, 0), *s1 = SOURCE(uint32_t, 1), *s2 = SOURCE(uint32_t, 2);
    for (unsigned i = 0; i < SG_LANES; i++) {
        const __int128 product =
            (__int128)extract(s0[i], a.shift, a.bits, v.a_signed) * extract(s1[i], b.shift, b.bits, v.b_signed);
        const __int128 c = extract(s2[i], 0, 32, is_signed);
        const __int128 sum = ((v.negate_product ? -product : product) + (v.negate_c ? -c : c) + v.plus_one) >> v.scale;
        const __int128 high = is_signed ? INT32_MAX : UINT32_MAX, low = is_signed ? INT32_MIN : 0;
        d[i] = (uint32_t)(v.sat ? sum < low ? low : sum > high ? high : sum : sum);
    }
}

SG_INLINE int32_t operate32(enum sg_video_operation operation, struct outcomes compare, int32_t x, int32_t y)
{
    switch (operation) {
    case SG_VADD:     return x + y;
    case SG_VSUB:     return x - y;
    case SG_VABSDIFF: return x > y ? x - y : y - x;
    case SG_VMIN:     return x < y ? x : y;
    case SG_VMAX:     return x > y ? x : y;
    case SG_VAVRG:    return (x + y + (x + y >= 0)) >> 1;
    default:          return (int32_t)HOLDS(compare, x, y);
    }
}

/* Element by element, all lanes of one at a time */
SG_INLINE void simd_rows(const struct sg_rows *r, enum sg_video_operation operation, unsigned elements)
{
    const struct sg_video v = sg_video_unpack(r->immediate);
    const unsigned bits = 32 / elements;
    const bool adds = v.second == SG_VIDEO_ADD;
    const struct outcomes compare = outcomes_of(v.compare);
    const uint32_t element = (1u << bits) - 1, a_top = v.a_signed ? 1u << (bits - 1) : 0,
                   b_top = v.b_signed ? 1u << (bits - 1) : 0;
    const int32_t high = !v.sat ? INT32_MAX : v.d_signed ? (int32_t)(element >> 1) : (int32_t)element;
    const int32_t low = !v.sat ? INT32_MIN : v.d_signed ? -high - 1 : 0;
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *c = SOURCE(uint32_t, 2);
    ROW_ARRAY(uint32_t, result);
    SG_FOR_LANES(i) result[i] = c[i];
    for (unsigned e = 0; e < elements; e++) {
        const unsigned from_a = v.a >> (3 * e) & 7, from_b = v.b >> (3 * e) & 7;
        const uint32_t *s0 = SOURCE(uint32_t, from_a >= elements), *s1 = SOURCE(uint32_t, from_b >= elements);
        const unsigned at_a = bits * (from_a % elements), at_b = bits * (from_b % elements);
        const uint32_t mask = element << (bits * e), kept = adds ? UINT32_MAX : ~mask;
        const unsigned up = adds ? 0 : bits * e;
        if (!(v.d >> e & 1))
            continue;
        SG_FOR_LANES(i) {
            /* (x ^ top) - top extends the sign that top marks, and with top 0 nothing */
            const int32_t x = (int32_t)(((s0[i] >> at_a & element) ^ a_top) - a_top),
                          y = (int32_t)(((s1[i] >> at_b & element) ^ b_top) - b_top);
            const int32_t value = operate32(operation, compare, x, y);
            const int32_t bounded = value < low ? low : value > high ? high : value;
            result[i] = (result[i] & kept) + ((uint32_t)bounded << up & (adds ? UINT32_MAX : mask));
        }
    }
    SG_FOR_LANES(i) d[i] = result[i];
}

#define SCALAR(name, operation) static void name(const struct sg_rows *r) { scalar_rows(r, operation); }
SCALAR(vadd, SG_VADD)
SCALAR(vsub, SG_VSUB)
SCALAR(vabsdiff, SG_VABSDIFF)
SCALAR(vmin, SG_VMIN)
SCALAR(vmax, SG_VMAX)
SCALAR(vshl, SG_VSHL)
SCALAR(vshr, SG_VSHR)
SCALAR(vset, SG_VSET)
#define SIMD(name, operation)                                                                 \
    static void name##2(const struct sg_rows *r) { simd_rows(r, operation, 2); }              \
    static void name##4(const struct sg_rows *r) { simd_rows(r, operation, 4); }
SIMD(vadd, SG_VADD)
SIMD(vsub, SG_VSUB)
SIMD(vavrg, SG_VAVRG)
SIMD(vabsdiff, SG_VABSDIFF)
SIMD(vmin, SG_VMIN)
SIMD(vmax, SG_VMAX)
SIMD(vset, SG_VSET)

const struct sg_video_table SG_CLONE(sg_video_table) = {
    .scalar = { [SG_VADD] = vadd, [SG_VSUB] = vsub, [SG_VABSDIFF] = vabsdiff, [SG_VMIN] = vmin, [SG_VMAX] = vmax,
                [SG_VSHL] = vshl, [SG_VSHR] = vshr,
                [SG_VMAD] = vmad, [SG_VSET] = vset },
    .simd = { [SG_VADD] = { vadd2, vadd4 }, [SG_VSUB] = { vsub2, vsub4 }, [SG_VAVRG] = { vavrg2, vavrg4 },
              [SG_VABSDIFF] = { vabsdiff2, vabsdiff4 },
              [SG_VMIN] = { vmin2, vmin4 }, [SG_VMAX] = { vmax2, vmax4 }, [SG_VSET] = { vset2, vset4 } },
};
