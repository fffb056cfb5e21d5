/*
 * convert.c: cvt of softgpu/alu: every pair of types, in every rounding, against exact.h and 128-bit integers;
 * formats of up to 16 bits are walked through completely.
 */
#include "tests/alu/exact.h"

static float f32(uint32_t x)  { float f; memcpy(&f, &x, sizeof f); return f; }
static uint32_t u32(float f)  { uint32_t x; memcpy(&x, &f, sizeof x); return x; }
static double f64(uint64_t x) { double f; memcpy(&f, &x, sizeof f); return f; }
static uint64_t u64(double f) { uint64_t x; memcpy(&x, &f, sizeof x); return x; }

struct integer { const char *name; unsigned bits; bool is_signed; };
static const struct integer integers[] = { { "u8", 8, 0 }, { "s8", 8, 1 }, { "u16", 16, 0 }, { "s16", 16, 1 },
                                           { "u32", 32, 0 }, { "s32", 32, 1 }, { "u64", 64, 0 }, { "s64", 64, 1 } };
typedef __int128 wide;
static wide integer_value(struct integer t, uint64_t x)
{
    x = t.bits == 64 ? x : x & (((uint64_t)1 << t.bits) - 1);
    return t.is_signed && x >> (t.bits - 1) & 1 ? (wide)x - ((wide)1 << t.bits) : (wide)x;
}
static wide integer_least(struct integer t) { return t.is_signed ? -((wide)1 << (t.bits - 1)) : 0; }
static wide integer_most(struct integer t) { return ((wide)1 << (t.bits - t.is_signed)) - 1; }
static uint64_t integer_cut(struct integer t, wide x)
{
    return t.bits == 64 ? (uint64_t)x : (uint64_t)x & (((uint64_t)1 << t.bits) - 1);
}

TEST(test_integers)
{
    for (unsigned from = 0; from < 8; from++)
        for (unsigned to = 0; to < 8; to++)
            for (unsigned sat = 0; sat < 2; sat++)
                ALU_LEVELS(level) {
                    struct alu_case c;
                    struct alu_run run = { 0 };
                    char text[64];
                    snprintf(text, sizeof text, "cvt%s.%s.%s", sat ? ".sat" : "", integers[to].name,
                             integers[from].name);
                    alu_get(&c, level, text, 1);
                    for (unsigned round = 0; round < 30; round++) {
                        /* a register can be wider than the type: what is above it must not matter */
                        for (unsigned i = 0; i < 32; i++)
                            row_set(&run.s[0], c.alu.source[0], i,
                                    alu_integer(integers[from].bits) |
                                        (integers[from].bits < 32 ? alu_random() << integers[from].bits : 0));
                        alu_execute(&c, &run);
                        for (unsigned i = 0; i < 32; i++) {
                            wide x = integer_value(integers[from], row_get(&run.s[0], c.alu.source[0], i));
                            if (sat)
                                x = x < integer_least(integers[to])  ? integer_least(integers[to])
                                    : x > integer_most(integers[to]) ? integer_most(integers[to])
                                                                     : x;
                            if (row_get(&run.d, c.alu.destination, i) != integer_cut(integers[to], x))
                                fail_msg("%s (%s) of %jx gives %jx", text, sg_cpu_name(level),
                                         (uintmax_t)row_get(&run.s[0], c.alu.source[0], i),
                                         (uintmax_t)row_get(&run.d, c.alu.destination, i));
                        }
                    }
                }
}

/* Floats that have one type: the format, or f64 where exponent_bits is 11. */
static const struct { const char *name; struct format format; unsigned bits; } floats[] = {
    { "f16", { 5, 10, true, true }, 16 }, { "bf16", { 8, 7, true, true }, 16 }, { "f32", { 8, 23, true, true },
                                                                                  32 }, { "f64", { 11, 52, true, true },
                                                                                          64 },
};
static double float_value(unsigned kind, uint64_t x)
{
    return kind == 3 ? f64(x) : kind == 2 ? (double)f32((uint32_t)x) : format_double(floats[kind].format, (uint32_t)x);
}
/* The pattern that an exact value has in that type. f64 by integers: exact_round works on 32 bits. */
static uint64_t float_round(unsigned kind, struct exact x, char mode)
{
    if (kind != 3)
        return exact_round(floats[kind].format, x, mode, false);
    double d = (double)x.value;                              /* to nearest, by the compiler's library */
    if (mode == 'z' || mode == 'm' || mode == 'p') {
        const bool negative = x.value < 0, inward = mode == 'z' || mode == (negative ? 'p' : 'm');
        const bool outside = negative ? d < x.value : d > x.value, inside = negative ? d > x.value : d < x.value;
        if (inward && outside)
            d = nextafter(d, 0);
        if (!inward && inside)
            d = nextafter(d, negative ? -INFINITY : INFINITY);
    }
    return u64(d);
}

TEST(test_integers_to_floats)
{
    for (unsigned from = 0; from < 8; from++)
        for (unsigned to = 0; to < 4; to++)
            for (unsigned m = 0; m < 4; m++)
                for (unsigned sat = 0; sat < 2; sat++)
                    ALU_LEVELS(level) {
                        struct alu_case c;
                        struct alu_run run = { 0 };
                        char text[64];
                        snprintf(text, sizeof text, "cvt.%s%s.%s.%s", ROUNDINGS[m].name, sat ? ".sat" : "",
                                 floats[to].name, integers[from].name);
                        alu_get(&c, level, text, 1);
                        for (unsigned round = 0; round < 20; round++) {
                            for (unsigned i = 0; i < 32; i++)
                                row_set(&run.s[0], c.alu.source[0], i,
                                        alu_random() & 1
                                            ? alu_integer(integers[from].bits)
                                            : alu_random() >> alu_random() % 64 >> (64 - integers[from].bits));
                            alu_execute(&c, &run);
                            for (unsigned i = 0; i < 32; i++) {
                                const uint64_t source = row_get(&run.s[0], c.alu.source[0], i);
                                struct exact x = { (__float128)integer_value(integers[from], source), 0 };
                                if (sat)
                                    x.value = x.value < 0 ? 0 : x.value > 1 ? 1 : x.value;
                                const uint64_t want = float_round(to, x, ROUNDINGS[m].letter),
                                               got = row_get(&run.d, c.alu.destination, i);
                                if (got != want)
                                    fail_msg("%s (%s) of %jx gives %jx, not %jx", text, sg_cpu_name(level),
                                             (uintmax_t)source, (uintmax_t)got, (uintmax_t)want);
                            }
                        }
                    }
}

static double integral(double x, char mode)
{
    return mode == 'n' ? nearbyint(x) : mode == 'z' ? trunc(x) : mode == 'm' ? floor(x) : ceil(x);
}

/* Values near what integers hold, and near halves */
static uint64_t float_pattern(unsigned kind, unsigned round, unsigned lane)
{
    /* all of them, in an order that begins with a fair sample */
    if (kind < 2)
        return (round * 32 + lane) * 40503u & 0xffff;
    if (alu_random() % 3 == 0) {
        const double x = ldexp((double)(1 + alu_random() % 8) / 4 + (double)(int)(alu_random() % 5 - 2) * 0x1p-20,
                               (int)(alu_random() % 70) - 4);
        const double y = (alu_random() & 1 ? -x : x) + (double)((int)(alu_random() % 7) - 3) / 4;
        return kind == 3 ? u64(y) : u32((float)y);
    }
    return kind == 3 ? alu_float(11, 52) : alu_float(8, 23);
}
#define ROUNDS(kind) ((kind) < 2 ? 2048u : 60u)

TEST(test_floats_to_integers)
{
    for (unsigned from = 0; from < 4; from++)
        for (unsigned to = 0; to < 8; to++)
            for (unsigned m = 0; m < 4; m++)
                for (unsigned ftz = 0; ftz < (from == 2 ? 2u : 1u); ftz++)
                    ALU_LEVELS(level) {
                        struct alu_case c;
                        struct alu_run run = { 0 };
                        char text[64];
                        snprintf(text, sizeof text, "cvt.%si%s.%s.%s", ROUNDINGS[m].name, ftz ? ".ftz" : "",
                                 integers[to].name, floats[from].name);
                        alu_get(&c, level, text, 1);
                        for (unsigned round = 0; round < ROUNDS(from); round++) {
                            for (unsigned i = 0; i < 32; i++)
                                row_set(&run.s[0], c.alu.source[0], i, float_pattern(from, round, i));
                            alu_execute(&c, &run);
                            for (unsigned i = 0; i < 32; i++) {
                                const uint64_t source = row_get(&run.s[0], c.alu.source[0], i);
                                double x = float_value(from, source);
                                if (ftz && !(source & 0x7f800000))
                                    x = 0;
                                const double y = integral(x, ROUNDINGS[m].letter);
                                const struct integer t = integers[to];
                                uint64_t want;
                                if (y != y)
                                    want = from == 3 || t.bits == 64 ? (uint64_t)1 << (t.bits - 1) : 0;
                                else if (y >= ldexp(1, (int)(t.bits - t.is_signed)))
                                    want = integer_cut(t, integer_most(t));
                                else if (y < (double)integer_least(t))
                                    want = integer_cut(t, integer_least(t));
                                else
                                    want = integer_cut(t, (wide)y);
                                if (row_get(&run.d, c.alu.destination, i) != want)
                                    fail_msg("%s (%s) of %jx gives %jx, not %jx", text, sg_cpu_name(level),
                                             (uintmax_t)source, (uintmax_t)row_get(&run.d, c.alu.destination, i),
                                             (uintmax_t)want);
                            }
                        }
                    }
}

static uint64_t flushed(unsigned kind, uint64_t x, bool ftz)
{
    return kind == 2 && ftz && !(x & 0x7f800000) ? x & 0x80000000 : x;
}
static const uint64_t nans[] = { 0x7fff, 0x7fff, 0x7fffffff }, signs[] = { 0x8000, 0x8000, 0x80000000,
                                                                           (uint64_t)1 << 63 };
static const uint64_t ones[] = { 0x3c00, 0x3f80, 0x3f800000, 0x3ff0000000000000 };

/* What cvt between floats gives: integral rounding within one type, else narrowing or widening. */
static void check_floats(enum sg_cpu level, unsigned to, unsigned from, unsigned m, bool integrally, unsigned flags)
{
    const bool ftz = flags & 1, sat = flags & 2, relu = flags & 4, finite = flags & 8,
               narrows = floats[to].bits < floats[from].bits || (to != from && to + from == 1);
    struct alu_case c;
    struct alu_run run = { 0 };
    char text[64];
    snprintf(text, sizeof text, "cvt%s%s%s%s%s%s%s.%s.%s", narrows || integrally ? "." : "",
             narrows || integrally ? ROUNDINGS[m].name : "", integrally ? "i" : "", ftz ? ".ftz" : "",
             sat ? ".sat" : "", relu ? ".relu" : "", finite ? ".satfinite" : "", floats[to].name, floats[from].name);
    alu_get(&c, level, text, 1);
    for (unsigned round = 0; round < (flags ? 60 : ROUNDS(from)); round++) {
        for (unsigned i = 0; i < 32; i++)
            row_set(&run.s[0], c.alu.source[0], i, float_pattern(from, round, i));
        alu_execute(&c, &run);
        for (unsigned i = 0; i < 32; i++) {
            const uint64_t source = row_get(&run.s[0], c.alu.source[0], i), in = flushed(from, source, ftz);
            const double x = float_value(from, in), y = integrally ? integral(x, ROUNDINGS[m].letter) : x;
            const uint64_t got = row_get(&run.d, c.alu.destination, i);
            uint64_t want;
            if (y != y && to == 3 && !sat) {
                assert_true(isnan(f64(got)));
                continue;
            }
            if (y != y)
                want = sat ? 0 : to == from && !integrally ? flushed(to, source, ftz) : nans[to];
            else if (isinf(y))
                want = (y < 0 ? signs[to] : 0) | (to == 3  ? 0x7ff0000000000000
                                                  : finite ? format_highest(floats[to].format)
                                                           : format_highest(floats[to].format) + 1);
            else if (y == 0)
                want = signbit(y) ? signs[to] : 0;
            else
                want = flushed(to,
                               finite ? exact_round(floats[to].format, exact_of(y), ROUNDINGS[m].letter, true)
                                      : float_round(to, exact_of(y), ROUNDINGS[m].letter),
                               ftz);
            if (sat && y == y)
                want = want & signs[to] ? 0 : want > ones[to] ? ones[to] : want;
            if (relu && y == y)
                want = want & signs[to] ? 0 : want;
            if (got != want)
                fail_msg("%s (%s) of %jx gives %jx, not %jx", text, sg_cpu_name(level), (uintmax_t)source,
                         (uintmax_t)got, (uintmax_t)want);
        }
    }
}

TEST(test_floats)
{
    for (unsigned from = 0; from < 4; from++)
        for (unsigned to = 0; to < 4; to++)
            for (unsigned m = 0; m < 4; m++)
                for (unsigned flags = 0; flags < 16; flags++)
                    ALU_LEVELS(level) {
                        if ((flags & 1 && to != 2 && from != 2) || (flags & 12 && to > 1) || (flags & 6) == 6 ||
                            (flags & 8 && to == from))
                            continue;
                        check_floats(level, to, from, m, false, flags);
                        if (to == from && !(flags & 8))
                            check_floats(level, to, from, m, true, flags);
                    }
}

TEST(test_tf32)
{
    static const struct { const char *name; char letter; } roundings[] = { { "rn", 'n' }, { "rz", 'z' },
                                                                           { "rna", 'a' } };
    for (unsigned m = 0; m < 3; m++)
        ALU_LEVELS(level) {
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[64];
            snprintf(text, sizeof text, "cvt.%s.tf32.f32", roundings[m].name);
            alu_get(&c, level, text, 1);
            for (unsigned round = 0; round < 400; round++) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (uint32_t)alu_float(8, 23) & (alu_random() & 1 ? 0xfffff000 : UINT32_MAX);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const float x = f32(run.s[0].u.w[i]);
                    const uint32_t want = x != x ? 0x7fffffff
                                          : isinf(x) || x == 0
                                              ? run.s[0].u.w[i]
                                              : exact_round(TF32, exact_of(x), roundings[m].letter, false) << 13;
                    assert_int_equal(run.d.u.w[i], want);
                }
            }
        }
}

static const struct { const char *name; const struct format *format; unsigned shift;
} smalls[] = {
    { "e4m3x2", &E4M3, 8 }, { "e5m2x2", &E5M2, 8 }, { "e2m1x2", &E2M1, 4 },
    { "e2m3x2", &E2M3, 8 }, { "e3m2x2", &E3M2, 8 },
};
static uint32_t expect_small(struct format f, double x, bool relu)
{
    if (x != x)
        return f.has_nan ? format_nan(f) : format_highest(f);
    if (relu && signbit(x))
        return 0;
    if (isinf(x) || x == 0)
        return (signbit(x) ? 1u << (f.exponent_bits + f.fraction_bits) : 0) | (x == 0 ? 0 : format_highest(f));
    return exact_round(f, exact_of(x), 'n', true);
}
TEST(test_small_formats)
{
    for (unsigned k = 0; k < 5; k++)
        for (unsigned relu = 0; relu < 2; relu++)
            ALU_LEVELS(level) {
                const struct format f = *smalls[k].format;
                struct alu_case two, pair, back;
                struct alu_run run = { 0 };
                char text[64];
                snprintf(text, sizeof text, "cvt.rn.satfinite%s.%s.f32", relu ? ".relu" : "", smalls[k].name);
                alu_get(&two, level, text, 2);
                snprintf(text, sizeof text, "cvt.rn.satfinite%s.%s.f16x2", relu ? ".relu" : "", smalls[k].name);
                alu_get(&pair, level, text, 1);
                snprintf(text, sizeof text, "cvt.rn%s.f16x2.%s", relu ? ".relu" : "", smalls[k].name);
                alu_get(&back, level, text, 1);
                for (unsigned round = 0; round < 200; round++) {
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned s = 0; s < 2; s++)             /* half of them where the format has its numbers */
                            run.s[s].u.w[i] = alu_random() & 1
                                                  ? (uint32_t)alu_float(8, 23)
                                                  : u32((float)ldexp((double)(int64_t)(alu_random() % 513 - 256),
                                                                     (int)(alu_random() % 26) - 22));
                    alu_execute(&two, &run);
                    for (unsigned i = 0; i < 32; i++)
                        assert_int_equal(run.d.u.w[i], expect_small(f, f32(run.s[0].u.w[i]), relu) << smalls[k].shift |
                                                           expect_small(f, f32(run.s[1].u.w[i]), relu));
                }
                for (unsigned x = 0; x < 0x10000; x += 32) {         /* every f16, in both places */
                    for (unsigned i = 0; i < 32; i++)
                        run.s[0].u.w[i] = (x + i) << 16 | (0xffff - x - i);
                    alu_execute(&pair, &run);
                    for (unsigned i = 0; i < 32; i++)
                        assert_int_equal(run.d.u.w[i], expect_small(f, format_double(F16, x + i), relu)
                                                               << smalls[k].shift |
                                                           expect_small(f, format_double(F16, 0xffff - x - i), relu));
                }
                const uint32_t patterns = 1u << (1 + f.exponent_bits + f.fraction_bits);
                for (unsigned x = 0; x < patterns; x += 16) {        /* every small number */
                    for (unsigned i = 0; i < 32; i++)
                        run.s[0].u.w[i] = ((x + i) % patterns) << smalls[k].shift | (patterns - 1 - (x + i) % patterns);
                    alu_execute(&back, &run);
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned high = 0; high < 2; high++) {
                            const double y =
                                format_double(f, high ? (x + i) % patterns : patterns - 1 - (x + i) % patterns);
                            const uint32_t got = run.d.u.w[i] >> (16 * high) & 0xffff;
                            if (y != y)
                                assert_int_equal(got, 0x7fff);
                            else if (relu && signbit(y))
                                assert_int_equal(got, 0);
                            else
                                assert_true(format_double(F16, got) == y && (got >> 15) == (uint32_t)(signbit(y) != 0));
                        }
                }
            }
}

/* The small formats from and to bf16, and s2f6: signed 1/64 in eight bits. A scale is the power of two of a ue8m0. */
static double scale_of(uint32_t s) { return s == 255 ? (double)NAN : ldexp(1, (int)s - 127); }
static uint32_t expect_bf16(double x, bool relu, bool finite)
{
    const uint32_t sign = signbit(x) ? 0x8000 : 0;
    if (x != x)
        return 0x7fff;
    if (relu && sign)
        return 0;
    return isinf(x) ? sign | (finite ? 0x7f7f : 0x7f80) : x == 0 ? sign : exact_round(BF16, exact_of(x), 'n', finite);
}
static uint32_t expect_fixed(double x, bool relu)
{
    const double y = nearbyint(x * 64); /* to even */
    return x != x || y > 127 ? 127 : relu && y < 0 ? 0 : (uint32_t)(int32_t)(y < -128 ? -128 : y) & 0xff;
}
static uint32_t random_scales(void)
{
    const uint32_t near = (uint32_t)(alu_random() % 24 + 115) << 8 | (uint32_t)(alu_random() % 24 + 115);
    return alu_random() & 1 ? near : (uint32_t)alu_random() & 0xffff;
}
/* flags: 1 .relu, 2 .satfinite, 4 .scaled */
static const char *modified(char text[96], const char *to, const char *from, unsigned flags)
{
    snprintf(text, 96, "cvt.rn%s%s%s.%s.%s", flags & 2 ? ".satfinite" : "", flags & 1 ? ".relu" : "",
             flags & 4 ? ".scaled::n2::ue8m0" : "", to, from);
    return text;
}
TEST(test_bf16_of_small)
{
    for (unsigned k = 0; k < 6 * 8; k++)
        ALU_LEVELS(level)
        {
            const unsigned flags = k % 8, kind = k / 8, shift = kind < 5 ? smalls[kind].shift : 8;
            const struct format f = kind < 5 ? *smalls[kind].format : E4M3;
            const uint32_t patterns = kind < 5 ? 1u << (1 + f.exponent_bits + f.fraction_bits) : 256;
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[96];
            alu_get(&c, level, modified(text, "bf16x2", kind < 5 ? smalls[kind].name : "s2f6x2", flags),
                    flags & 4 ? 2 : 1);
            for (unsigned round = 0; round < 300; round++) {
                uint32_t part[32][2];
                for (unsigned i = 0; i < 32; i++) {
                    part[i][0] = (uint32_t)(round * 32 + i) % patterns;
                    part[i][1] = (uint32_t)alu_random() % patterns;
                    run.s[0].u.w[i] = part[i][0] << shift | part[i][1];
                    run.s[1].u.w[i] = flags & 4 ? random_scales() : 0x7f7f;
                }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned at = 0; at < 2; at++) {
                        const double x = kind < 5 ? format_double(f, part[i][at]) : (double)(int8_t)part[i][at] / 64,
                                     y = x * scale_of(run.s[1].u.w[i] >> (at ? 0 : 8) & 0xff);
                        assert_int_equal(run.d.u.w[i] >> (at ? 0 : 16) & 0xffff, expect_bf16(y, flags & 1, flags & 2));
                    }
            }
        }
}
TEST(test_small_of_bf16)
{
    for (unsigned k = 0; k < 5 * 2; k++)
        ALU_LEVELS(level)
        {
            const struct format f = *smalls[k / 2].format;
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[96];
            alu_get(&c, level, modified(text, smalls[k / 2].name, "bf16x2", 2 | k % 2), 1);
            for (unsigned x = 0; x < 0x10000; x += 32) { /* every one, in both places */
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (x + i) << 16 | (0xffff - x - i);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++)
                    assert_int_equal(run.d.u.w[i], expect_small(f, format_double(BF16, x + i), k % 2)
                                                           << smalls[k / 2].shift |
                                                       expect_small(f, format_double(BF16, 0xffff - x - i), k % 2));
            }
        }
}
TEST(test_fixed)
{
    for (unsigned k = 0; k < 8; k++)
        ALU_LEVELS(level)
        {
            const unsigned flags = 2 | (k & 1) | (k & 2 ? 4 : 0), pair = k >> 2;
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[96];
            alu_get(&c, level, modified(text, "s2f6x2", pair ? "bf16x2" : "f32", flags),
                    2 - pair + (flags & 4 ? 1 : 0));
            for (unsigned round = 0; round < 600; round++) {
                for (unsigned i = 0; i < 32; i++) {
                    for (unsigned s = 0; s < 2; s++) /* most of them where there is something to round */
                        run.s[s].u.w[i] = alu_random() % 4
                                              ? u32((float)ldexp((double)(int64_t)(alu_random() % 1025 - 512),
                                                                 (int)(alu_random() % 8) - 12))
                                              : (uint32_t)alu_float(8, 23);
                    if (pair)
                        run.s[0].u.w[i] = (run.s[0].u.w[i] & 0xffff0000) | run.s[1].u.w[i] >> 16;
                    run.s[2 - pair].u.w[i] = flags & 4 ? random_scales() : 0x7f7f;
                }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const uint32_t a = run.s[0].u.w[i], scales = run.s[2 - pair].u.w[i];
                    const double high = f32(pair ? a & 0xffff0000 : a), low = f32(pair ? a << 16 : run.s[1].u.w[i]);
                    assert_int_equal(run.d.u.w[i], expect_fixed(high / scale_of(scales >> 8), flags & 1) << 8 |
                                                       expect_fixed(low / scale_of(scales & 0xff), flags & 1));
                }
            }
        }
}

TEST(test_pairs)
{
    for (unsigned bf = 0; bf < 2; bf++)
        for (unsigned m = 0; m < 2; m++)
            for (unsigned relu = 0; relu < 2; relu++)
                ALU_LEVELS(level) {
                    struct alu_case pair, single;
                    struct alu_run run = { 0 }, half = { 0 };
                    char text[64];
                    snprintf(text, sizeof text, "cvt.%s%s.%s.f32", ROUNDINGS[m].name, relu ? ".relu" : "",
                             bf ? "bf16x2" : "f16x2");
                    alu_get(&pair, level, text, 2);
                    snprintf(text, sizeof text, "cvt.%s%s.%s.f32", ROUNDINGS[m].name, relu ? ".relu" : "",
                             bf ? "bf16" : "f16");
                    alu_get(&single, level, text, 1);                /* tested by itself above */
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned s = 0; s < 2; s++)
                            run.s[s].u.w[i] = (uint32_t)alu_float(8, 23);
                    alu_execute(&pair, &run);
                    for (unsigned s = 0; s < 2; s++) {
                        half.s[0] = run.s[s];
                        alu_execute(&single, &half);
                        for (unsigned i = 0; i < 32; i++)
                            assert_int_equal(run.d.u.w[i] >> (s ? 0 : 16) & 0xffff, half.d.u.w[i]);
                    }
                }
}

/*
 * .rs by its definition: what is lost of x, counted in 2^-bits of the distance to the next number and cut off, is added
 * to the random bits, and a carry takes the next number.
 */
static uint32_t expect_random(struct format f, double x, uint32_t random, unsigned bits, bool relu, bool finite)
{
    const uint32_t highest = format_highest(f), sign = 1u << (f.exponent_bits + f.fraction_bits);
    if (x != x)
        return f.has_nan ? format_nan(f) : highest;
    if (relu && signbit(x))
        return 0;
    const double y = fabs(x);
    uint32_t low = 0, high = highest + 2; /* low's value <= y < high's */
    while (low + 1 < high) {
        const uint32_t middle = low + (high - low) / 2;
        *((double)format_value(f, middle) <= y ? &low : &high) = middle;
    }
    if (low <= highest) {
        const double gap = (double)(format_value(f, low + 1) - format_value(f, low));
        const double lost = (y - (double)format_value(f, low)) / gap;
        low += floor(ldexp(lost, (int)bits)) + random >= ldexp(1, (int)bits);
    }
    if (low > highest)
        low = finite ? highest : highest + 1;
    return low | (signbit(x) ? sign : 0);
}

/* Near the numbers of a format, its ends, and far away. Mostly what is lost is next to what the random bits carry. */
static uint32_t near_format(struct format f, uint32_t random, unsigned bits)
{
    if (alu_random() % 4 == 0)
        return (uint32_t)alu_float(8, 23);
    const uint32_t low = (uint32_t)alu_random() % (format_highest(f) + 1);
    const double value = (double)format_value(f, low), gap = (double)(format_value(f, low + 1)) - value;
    const double lost = ldexp((1u << bits) - random + (double)(alu_random() % 5) / 2 - 1, -(int)bits);
    return u32((float)(alu_random() & 1 ? value + lost * gap : -(value + lost * gap)));
}

TEST(test_random_pairs)
{
    for (unsigned flags = 0; flags < 8; flags++)
        ALU_LEVELS(level)
        {
            const bool bf = flags & 1, relu = flags & 2, finite = flags & 4;
            const struct format f = bf ? BF16 : F16;
            const unsigned bits = bf ? 16 : 13;
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[64];
            snprintf(text, sizeof text, "cvt.rs%s%s.%s.f32", relu ? ".relu" : "", finite ? ".satfinite" : "",
                     bf ? "bf16x2" : "f16x2");
            alu_get(&c, level, text, 3);
            for (unsigned round = 0; round < 300; round++) {
                for (unsigned i = 0; i < 32; i++) {
                    run.s[2].u.w[i] = (uint32_t)alu_random();
                    for (unsigned s = 0; s < 2; s++)
                        run.s[s].u.w[i] = near_format(f, run.s[2].u.w[i] >> (s ? 0 : 16) & ((1u << bits) - 1), bits);
                }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < 2; s++) {
                        const uint32_t random = run.s[2].u.w[i] >> (s ? 0 : 16) & ((1u << bits) - 1),
                                       want = expect_random(f, f32(run.s[s].u.w[i]), random, bits, relu, finite),
                                       got = run.d.u.w[i] >> (s ? 0 : 16) & 0xffff;
                        if (got != want)
                            fail_msg("%s (%s) of %08x, random %04x, gives %04x, not %04x", text, sg_cpu_name(level),
                                     run.s[s].u.w[i], random, got, want);
                    }
            }
        }
}

/* The bits of the four: measured on a B200; two share 16, the first of them in reversed order. */
static uint32_t random_of_four(uint32_t x, unsigned which, bool narrow)
{
    const uint32_t shared = narrow ? which < 2 ? (x >> 24) << 8 | (x >> 8 & 0xff) : (x >> 16 & 0xff) << 8 | (x & 0xff)
                            : which < 2 ? x >> 16
                                        : x & 0xffff;
    uint32_t reversed = 0;
    for (unsigned k = 0; k < 16; k++)
        reversed |= (shared >> k & 1) << (15 - k);
    return which & 1 ? shared : reversed;
}

TEST(test_random_fours)
{
    for (unsigned k = 0; k < 5; k++)
        for (unsigned relu = 0; relu < 2; relu++)
            ALU_LEVELS(level)
            {
                const struct format f = *smalls[k].format;
                const unsigned shift = smalls[k].shift;
                struct alu_case c;
                struct alu_run run = { 0 };
                char text[64];
                snprintf(text, sizeof text, "cvt.rs%s.satfinite.%.4sx4.f32", relu ? ".relu" : "", smalls[k].name);
                alu_get(&c, level, text, 2); /* a vector, and the random bits */
                assert_int_equal(c.alu.source_count, 5);
                for (unsigned round = 0; round < 300; round++) {
                    for (unsigned i = 0; i < 32; i++) {
                        run.s[4].u.w[i] = (uint32_t)alu_random();
                        for (unsigned s = 0; s < 4; s++)
                            run.s[s].u.w[i] = near_format(f, random_of_four(run.s[4].u.w[i], s, shift == 4), 16);
                    }
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        uint32_t want = 0;
                        for (unsigned s = 0; s < 4; s++)
                            want = want << shift | expect_random(f, f32(run.s[s].u.w[i]),
                                                                 random_of_four(run.s[4].u.w[i], s, shift == 4), 16,
                                                                 relu, true);
                        if (run.d.u.w[i] != want)
                            fail_msg("%s (%s) of %08x %08x %08x %08x, random %08x, gives %08x, not %08x", text,
                                     sg_cpu_name(level), run.s[0].u.w[i], run.s[1].u.w[i], run.s[2].u.w[i],
                                     run.s[3].u.w[i], run.s[4].u.w[i], run.d.u.w[i], want);
                    }
                }
            }
}

/* f16 and bf16 of each other are rounded to nearest where the instruction does not say how. */
TEST(test_default_rounding)
{
    for (unsigned to = 0; to < 2; to++)
        ALU_LEVELS(level)
        {
            struct alu_case plain, nearest;
            struct alu_run run = { 0 };
            alu_get(&plain, level, to ? "cvt.bf16.f16" : "cvt.f16.bf16", 1);
            alu_get(&nearest, level, to ? "cvt.rn.bf16.f16" : "cvt.rn.f16.bf16", 1);
            for (unsigned x = 0; x < 0x10000; x += 32) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = x + i;
                alu_execute(&nearest, &run);
                const struct alu_row want = run.d;
                alu_execute(&plain, &run);
                for (unsigned i = 0; i < 32; i++)
                    assert_int_equal(run.d.u.w[i], want.u.w[i]);
            }
        }
}

/* ue8m0 is a power of two; checked by its definition, over every bf16 */
TEST(test_ue8m0)
{
    for (unsigned flags = 0; flags < 4; flags++)
        ALU_LEVELS(level) {
            const bool up = flags & 1, finite = flags & 2;
            struct alu_case c, back;
            struct alu_run run = { 0 };
            char text[64];
            snprintf(text, sizeof text, "cvt.%s%s.ue8m0x2.bf16x2", up ? "rp" : "rz", finite ? ".satfinite" : "");
            alu_get(&c, level, text, 1);
            alu_get(&back, level, "cvt.rn.bf16x2.ue8m0x2", 1);
            for (unsigned x = 0; x < 0x10000; x += 32) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (x + i) << 16 | (x + i);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const double y = fabs(format_double(BF16, x + i));
                    unsigned want = 0;
                    while (want < 254 && ldexp(1, (int)want + 1 - 127) <= y)
                        want++;
                    if (up && want < 254 && ldexp(1, (int)want - 127) < y)
                        want++;
                    if (y != y || (!finite && (isinf(y) || (up && y > 0x1p127))))
                        want = 255;
                    assert_int_equal(run.d.u.w[i], want << 8 | want);
                }
            }
            for (unsigned x = 0; x < 256; x += 32) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (x + i) << 8 | (x + i);
                alu_execute(&back, &run);
                for (unsigned i = 0; i < 32; i++)
                    assert_true(x + i == 255
                                    ? run.d.u.w[i] == 0x7fff7fff
                                    : format_double(BF16, run.d.u.w[i] & 0xffff) == ldexp(1, (int)(x + i) - 127));
            }
        }
}

TEST(test_pack)
{
    static const struct { const char *text; unsigned bits; bool is_signed;
    } packs[] = {
        { "cvt.pack.sat.u16.s32", 16, 0 },   { "cvt.pack.sat.s16.s32", 16, 1 },   { "cvt.pack.sat.u8.s32.b32", 8, 0 },
        { "cvt.pack.sat.s8.s32.b32", 8, 1 }, { "cvt.pack.sat.u4.s32.b32", 4, 0 }, { "cvt.pack.sat.s4.s32.b32", 4, 1 },
        { "cvt.pack.sat.u2.s32.b32", 2, 0 }, { "cvt.pack.sat.s2.s32.b32", 2, 1 },
    };
    for (size_t p = 0; p < sizeof packs / sizeof *packs; p++)
        ALU_LEVELS(level) {
            const struct integer t = { "", packs[p].bits, packs[p].is_signed };
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_get(&c, level, packs[p].text, t.bits < 16 ? 3 : 2);
            for (unsigned round = 0; round < 30; round++) {
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < 3; s++)
                        run.s[s].u.w[i] =
                            (uint32_t)(alu_random() & 1 ? alu_integer(32) : (uint64_t)0 - alu_random() % 300);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    uint64_t part[2];
                    for (unsigned s = 0; s < 2; s++) {
                        const wide x = (int32_t)run.s[s].u.w[i];
                        part[s] = integer_cut(t, x < integer_least(t)  ? integer_least(t)
                                                 : x > integer_most(t) ? integer_most(t)
                                                                       : x);
                    }
                    const uint64_t above = t.bits < 16 ? (uint64_t)run.s[2].u.w[i] << (2 * t.bits) : 0;
                    assert_int_equal(run.d.u.w[i], (uint32_t)(above | part[0] << t.bits | part[1]));
                }
            }
        }
}

TEST(test_refusals)
{
    static const struct alu_refused refused[] = {
        { "cvt.f32.s32", 1, "rounding" },
        { "cvt.s32.f32", 1, "rounding" },
        { "cvt.f32.f64", 1, "rounding" },
        { "cvt.rn.f64.f32", 1, "rn" },
        { "cvt.rni.f32.f64", 1, "rni" },
        { "cvt.rn.s32.s16", 1, "rn" },
        { "cvt.s32", 1, "two types" },
        { "cvt.rn.e4m3x2.f32", 2, "satfinite" },
        { "cvt.b32.s32", 1, "b32" },
        { "cvt.ftz.f64.f64", 1, "ftz" },
        { "cvt.rn.relu.f32.f64", 1, "relu" },
        { "cvt.rzi.sat.tf32.f32", 1, "rzi" },
        { "cvt.pack.sat.u8.s32", 2, "u8" },
        { "cvt.rn.f16x2.f32", 1, "operands" },
        { "cvt.rs.e4m3x4.f32", 2, "satfinite" },
        { "cvt.rs.f16.f32", 2, "f16" },
        { "cvt.rs.satfinite.e4m3x4.f32", 5, "operands" },
        { "cvt.rs.rn.f16x2.f32", 3, "rn" },
        { "cvt.rn.s2f6x2.f32", 2, "satfinite" },
        { "cvt.rn.satfinite.s2f6x2.f16x2", 1, "f16x2" },
        { "cvt.rn.scaled::n2::ue8m0.f16x2.e4m3x2", 2, "scaled" },
        { "cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", 1, "operands" },
    };
    alu_check_refused(refused, sizeof refused / sizeof *refused);
}

int main(void) { return unit_run(NULL, NULL); }
