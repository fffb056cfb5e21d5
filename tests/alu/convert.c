/*
 * convert.c: cvt of softgpu/alu: every pair of types, in every rounding, against exact.h and 128-bit integers;
 * formats of up to 16 bits are walked through completely.
 */
#include "tests/alu/exact.h"

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
                    alu_getf(&c, level, 1, "cvt%s.%s.%s", sat ? ".sat" : "", integers[to].name, integers[from].name);
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
                                fail_msg("%s (%s) of %jx gives %jx", c.name, sg_cpu_name(level),
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
                        alu_getf(&c, level, 1, "cvt.%s%s.%s.%s", ROUNDINGS[m].name, sat ? ".sat" : "", floats[to].name,
                                 integers[from].name);
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
                                    fail_msg("%s (%s) of %jx gives %jx, not %jx", c.name, sg_cpu_name(level),
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
                        alu_getf(&c, level, 1, "cvt.%si%s.%s.%s", ROUNDINGS[m].name, ftz ? ".ftz" : "",
                                 integers[to].name, floats[from].name);
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
                                    fail_msg("%s (%s) of %jx gives %jx, not %jx", c.name, sg_cpu_name(level),
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
    alu_getf(&c, level, 1, "cvt%s%s%s%s%s%s%s.%s.%s", narrows || integrally ? "." : "",
             narrows || integrally ? ROUNDINGS[m].name : "", integrally ? "i" : "", ftz ? ".ftz" : "",
             sat ? ".sat" : "", relu ? ".relu" : "", finite ? ".satfinite" : "", floats[to].name, floats[from].name);
    for (unsigned round = 0; round < (flags ? 60 : ROUNDS(from)); round++) {
        for (unsigned i = 0; i < 32; i++)
            row_set(&run.s[0], c.alu.source[0], i, float_pattern(from, round, i));
        alu_execute(&c, &run);
        for (unsigned i = 0; i < 32; i++) {
            /* what becomes f16 is not flushed */
            const uint64_t source = row_get(&run.s[0], c.alu.source[0], i), in = flushed(from, source, ftz && to != 0);
            const double x = float_value(from, in), y = integrally ? integral(x, ROUNDINGS[m].letter) : x;
            const uint64_t got = row_get(&run.d, c.alu.destination, i);
            uint64_t want;
            if (y != y && !sat && (to == 3 || (from == 3 && !relu && !finite) || (from == 1 && to == 2 && !flags))) {
                assert_true(isnan(float_value(to, got))); /* with a payload: seen.c */
                continue;
            }
            if (y != y)
                want = sat ? 0 : to == 2 && from == 2 && !ftz && !integrally ? source : nans[to];
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
                fail_msg("%s (%s) of %jx gives %jx, not %jx", c.name, sg_cpu_name(level), (uintmax_t)source,
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
            alu_getf(&c, level, 1, "cvt.%s.tf32.f32", roundings[m].name);
            for (unsigned round = 0; round < 400; round++) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (uint32_t)alu_float(8, 23) & (alu_random() & 1 ? 0xfffff000 : UINT32_MAX);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const float x = f32(run.s[0].u.w[i]);
                    if (x != x) {                     /* seen.c */
                        const uint32_t kept = run.s[0].u.w[i] & 0xffffe000;
                        assert_int_equal(run.d.u.w[i], roundings[m].letter == 'a' ? kept : 0x7fffe000);
                        continue;
                    }
                    const uint32_t want = isinf(x) || x == 0
                                              ? run.s[0].u.w[i]
                                              : exact_round(TF32, exact_of(x), roundings[m].letter, false) << 13;
                    assert_int_equal(run.d.u.w[i], want);
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
                    alu_getf(&pair, level, 2, "cvt.%s%s.%s.f32", ROUNDINGS[m].name, relu ? ".relu" : "",
                             bf ? "bf16x2" : "f16x2");
                    alu_getf(&single, level, 1, "cvt.%s%s.%s.f32", ROUNDINGS[m].name, relu ? ".relu" : "",
                             bf ? "bf16" : "f16"); /* tested by itself above */
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
