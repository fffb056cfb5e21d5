/*
 * float.c: f32, f64 and f32x2 of softgpu/alu against scalar arithmetic of the processor, through volatile
 * variables and fesetround, in every rounding mode; flushing, saturation and NaNs by their definitions.
 */
#include <fenv.h>
#include <math.h>

#include "tests/alu/harness.h"

enum op { ADD, SUB, MUL, FMA, DIV, RCP, SQRT };
static const struct { const char *name; enum op op; unsigned sources;
} operations[] = {
    { "add", ADD, 2 }, { "sub", SUB, 2 }, { "mul", MUL, 2 }, { "fma", FMA, 3 },
    { "mad", FMA, 3 }, { "div", DIV, 2 }, { "rcp", RCP, 1 }, { "sqrt", SQRT, 1 },
};
static const struct { const char *name; int mode; } modes[] = {
    { ".rn", FE_TONEAREST }, { ".rz", FE_TOWARDZERO }, { ".rm", FE_DOWNWARD }, { ".rp", FE_UPWARD },
};

static float scalar32(enum op op, float x, float y, float z)
{
    volatile float a = x, b = y, c = z, r;
    switch (op) {
    case ADD: r = a + b; break;
    case SUB: r = a - b; break;
    case MUL: r = a * b; break;
    case FMA: r = fmaf(a, b, c); break;
    case DIV: r = a / b; break;
    case RCP: r = 1.0f / a; break;
    default:  r = sqrtf(a); break;
    }
    return r;
}
static double scalar64(enum op op, double x, double y, double z)
{
    volatile double a = x, b = y, c = z, r;
    switch (op) {
    case ADD: r = a + b; break;
    case SUB: r = a - b; break;
    case MUL: r = a * b; break;
    case FMA: r = fma(a, b, c); break;
    case DIV: r = a / b; break;
    case RCP: r = 1.0 / a; break;
    default:  r = sqrt(a); break;
    }
    return r;
}

static uint32_t flush(uint32_t x, bool ftz) { return ftz && !(x & 0x7f800000) ? x & 0x80000000 : x; }

static uint32_t expect32(enum op op, int mode, bool ftz, bool sat, const uint32_t *v)
{
    fesetround(mode);
    const float x = scalar32(op, f32(flush(v[0], ftz)), f32(flush(v[1], ftz)), f32(flush(v[2], ftz)));
    fesetround(FE_TONEAREST);
    if (sat)
        return !(x > 0) ? 0 : x > 1 ? 0x3f800000 : flush(u32(x), ftz);
    return x != x ? 0x7fffffff : flush(u32(x), ftz);
}

/* Whether a result that was rounded up to the least normal number is subnormal all the same: as if exponents had no
   lower end. Not of mul and fma to nearest. */
static bool is_tiny(enum op op, int mode, const uint32_t *v)
{
    if ((op != MUL && op != FMA && op != DIV) || (op != DIV && mode == FE_TONEAREST))
        return false;
    const __float128 a = f32(flush(v[0], true)), b = f32(flush(v[1], true)), c = f32(flush(v[2], true)),
                     exact = op == MUL ? a * b : op == FMA ? a * b + c : a / b, size = exact < 0 ? -exact : exact;
    const bool outward = mode == (exact < 0 ? FE_DOWNWARD : FE_UPWARD);
    const __float128 least = 0x1p-126;
    return outward ? size <= least * (1 - 0x1p-24) : mode == FE_TONEAREST ? size < least * (1 - 0x1p-25) : size < least;
}

/* Operands near each other, so that sums cancel and quotients lie near ties. */
static void related(uint64_t *v, unsigned exponent_bits, unsigned fraction_bits)
{
    for (unsigned s = 0; s < 3; s++)
        v[s] = alu_float(exponent_bits, fraction_bits);
    const uint64_t sign = (uint64_t)1 << (exponent_bits + fraction_bits);
    if (alu_random() % 4 == 0)
        v[1] = (v[0] ^ (alu_random() & 1 ? sign : 0)) + alu_random() % 3;
}

TEST(test_f32)
{
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++)
        for (unsigned m = 0; m < 4; m++)
            for (unsigned flags = 0; flags < 4; flags++)
                ALU_LEVELS(level) {
                    const bool ftz = flags & 1, sat = flags & 2;
                    struct alu_case c;
                    struct alu_run run = { 0 };
                    if (sat && operations[o].op >= DIV)
                        continue;
                    alu_getf(&c, level, operations[o].sources, "%s%s%s%s.f32", operations[o].name, modes[m].name,
                             ftz ? ".ftz" : "", sat ? ".sat" : "");
                    for (unsigned round = 0; round < 150; round++) {
                        uint32_t v[32][3];
                        for (unsigned i = 0; i < 32; i++) {
                            uint64_t x[3];
                            related(x, 8, 23);
                            for (unsigned s = 0; s < 3; s++)
                                run.s[s].u.w[i] = v[i][s] = (uint32_t)x[s];
                        }
                        alu_execute(&c, &run);
                        assert_int_equal(fegetround(), FE_TONEAREST);
                        for (unsigned i = 0; i < 32; i++) {
                            uint32_t want = expect32(operations[o].op, modes[m].mode, ftz, sat, v[i]);
                            if (ftz && (want & 0x7fffffff) == 0x00800000 &&
                                is_tiny(operations[o].op, modes[m].mode, v[i]))
                                want &= sat ? 0 : 0x80000000;
                            if (run.d.u.w[i] != want)
                                fail_msg("%s (%s) of %08x %08x %08x gives %08x, not %08x", c.name, sg_cpu_name(level),
                                         v[i][0], v[i][1], v[i][2], run.d.u.w[i], want);
                        }
                    }
                }
}

TEST(test_f32x2)
{
    for (size_t o = 0; o < 4; o++)
        for (unsigned m = 0; m < 4; m++)
            for (unsigned ftz = 0; ftz < 2; ftz++)
                ALU_LEVELS(level) {
                    struct alu_case c;
                    struct alu_run run = { 0 };
                    alu_getf(&c, level, operations[o].sources, "%s%s%s.f32x2", operations[o].name, modes[m].name,
                             ftz ? ".ftz" : "");
                    for (unsigned round = 0; round < 50; round++) {
                        for (unsigned i = 0; i < 32; i++)
                            for (unsigned s = 0; s < 3; s++)
                                run.s[s].u.q[i] = alu_float(8, 23) << 32 | alu_float(8, 23);
                        alu_execute(&c, &run);
                        for (unsigned i = 0; i < 32; i++) {
                            uint32_t low[3], high[3];
                            for (unsigned s = 0; s < 3; s++) {
                                low[s] = (uint32_t)run.s[s].u.q[i];
                                high[s] = (uint32_t)(run.s[s].u.q[i] >> 32);
                            }
                            assert_int_equal(run.d.u.q[i] & UINT32_MAX,
                                             expect32(operations[o].op, modes[m].mode, ftz, false, low));
                            assert_int_equal(run.d.u.q[i] >> 32,
                                             expect32(operations[o].op, modes[m].mode, ftz, false, high));
                        }
                    }
                }
}

/* 16-bit operands as f32, then as test_f32 */
static uint32_t widened(uint32_t x, bool bf)
{
    return bf ? x << 16
              : u32((float)(x & 0x7c00 ? (x & 0x7c00) == 0x7c00 ? (x & 0x3ff ? NAN : INFINITY)
                                                                : ldexp((x & 0x3ff) + 1024, (int)(x >> 10 & 31) - 25)
                                       : ldexp(x & 0x3ff, -24))) |
                    (x & 0x8000) << 16;
}
TEST(test_mixed)
{
    for (size_t o = 0; o < 4; o++)
        for (unsigned m = 0; m < 4; m++)
            for (unsigned flags = 0; flags < 4; flags++)
                ALU_LEVELS(level) {
                    const bool bf = flags & 1, sat = flags & 2;
                    struct alu_case c;
                    struct alu_run run = { 0 };
                    if (operations[o].op == MUL)
                        continue;
                    alu_getf(&c, level, operations[o].sources, "%s%s%s.f32.%s", operations[o].name, modes[m].name,
                             sat ? ".sat" : "", bf ? "bf16" : "f16");
                    for (unsigned round = 0; round < 50; round++) {
                        for (unsigned i = 0; i < 32; i++)
                            for (unsigned s = 0; s < operations[o].sources; s++)
                                run.s[s].u.w[i] = (uint32_t)(s + 1 == operations[o].sources ? alu_float(8, 23)
                                                             : bf                           ? alu_float(8, 7)
                                                                                            : alu_float(5, 10));
                        alu_execute(&c, &run);
                        for (unsigned i = 0; i < 32; i++) {
                            uint32_t v[3] = { widened(run.s[0].u.w[i], bf), run.s[1].u.w[i], run.s[2].u.w[i] };
                            if (operations[o].op == FMA)
                                v[1] = widened(v[1], bf);
                            assert_int_equal(run.d.u.w[i], expect32(operations[o].op, modes[m].mode, false, sat, v));
                        }
                    }
                }
}

TEST(test_f64)
{
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++)
        for (unsigned m = 0; m < 4; m++)
            ALU_LEVELS(level) {
                struct alu_case c;
                struct alu_run run = { 0 };
                alu_getf(&c, level, operations[o].sources, "%s%s.f64", operations[o].name, modes[m].name);
                for (unsigned round = 0; round < 150; round++) {
                    uint64_t v[32][3];
                    for (unsigned i = 0; i < 32; i++) {
                        related(v[i], 11, 52);
                        for (unsigned s = 0; s < 3; s++)
                            run.s[s].u.q[i] = v[i][s];
                    }
                    alu_execute(&c, &run);
                    assert_int_equal(fegetround(), FE_TONEAREST);
                    for (unsigned i = 0; i < 32; i++) {
                        fesetround(modes[m].mode);
                        const double x = scalar64(operations[o].op, f64(v[i][0]), f64(v[i][1]), f64(v[i][2]));
                        fesetround(FE_TONEAREST);
                        /* which operand's payload a NaN carries is not promised, that it is quiet is */
                        const bool same =
                            x != x ? (run.d.u.q[i] & 0x7ff8000000000000) == 0x7ff8000000000000 : run.d.u.q[i] == u64(x);
                        if (!same)
                            fail_msg("%s (%s) of %016jx %016jx %016jx gives %016jx, not %016jx", c.name,
                                     sg_cpu_name(level), (uintmax_t)v[i][0], (uintmax_t)v[i][1], (uintmax_t)v[i][2],
                                     (uintmax_t)run.d.u.q[i], (uintmax_t)u64(x));
                    }
                }
            }
}

/* min and max by their definition in words */
static uint32_t expect_extremum(bool least, bool nan, uint32_t a, uint32_t b)
{
    if (isnan(f32(a)) || isnan(f32(b))) {
        if (nan || (isnan(f32(a)) && isnan(f32(b))))
            return 0x7fffffff;
        return isnan(f32(a)) ? b : a;
    }
    if (f32(a) == f32(b))                                    /* -0 is below +0 */
        return least ? (a >> 31 ? a : b) : (a >> 31 ? b : a);
    return (f32(a) < f32(b)) == least ? a : b;
}
TEST(test_extrema)
{
    for (unsigned flags = 0; flags < 32; flags++)
        ALU_LEVELS(level) {
            const bool least = flags & 1, ftz = flags & 2, nan = flags & 4, absolute = flags & 8, three = flags & 16;
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_getf(&c, level, three ? 3 : 2, "%s%s%s%s.f32", least ? "min" : "max", ftz ? ".ftz" : "",
                     nan ? ".NaN" : "", absolute ? three ? ".abs" : ".xorsign.abs" : "");
            for (unsigned round = 0; round < 100; round++) {
                for (unsigned i = 0; i < 32; i++) {
                    uint64_t x[3];
                    related(x, 8, 23);
                    for (unsigned s = 0; s < 3; s++)
                        run.s[s].u.w[i] = (uint32_t)x[s];
                }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const uint32_t a = flush(run.s[0].u.w[i], ftz), b = flush(run.s[1].u.w[i], ftz),
                                   z = flush(run.s[2].u.w[i], ftz);
                    const uint32_t clear = absolute ? 0x7fffffff : UINT32_MAX;
                    uint32_t want = expect_extremum(least, nan, a & clear, b & clear);
                    if (three)
                        want = expect_extremum(least, nan, want, z & clear);
                    if (absolute && !three && !isnan(f32(want)))
                        want |= (a ^ b) & 0x80000000;
                    if (run.d.u.w[i] != want)
                        fail_msg("%s of %08x %08x %08x gives %08x, not %08x", c.name, a, b, z, run.d.u.w[i], want);
                }
            }
        }
    ALU_LEVELS(level) {
        struct alu_case low, high;
        struct alu_run run = { 0 };
        alu_get(&low, level, "min.f64", 2);
        alu_get(&high, level, "max.f64", 2);
        for (unsigned round = 0; round < 100; round++) {
            for (unsigned i = 0; i < 32; i++) {
                uint64_t x[3];
                related(x, 11, 52);
                run.s[0].u.q[i] = x[0];
                run.s[1].u.q[i] = x[1];
            }
            for (unsigned least = 0; least < 2; least++) {
                alu_execute(least ? &low : &high, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const uint64_t a = run.s[0].u.q[i], b = run.s[1].u.q[i], d = run.d.u.q[i];
                    if (isnan(f64(a)) && isnan(f64(b)))
                        assert_true(isnan(f64(d)));
                    else if (isnan(f64(a)) || isnan(f64(b)))
                        assert_true(d == (isnan(f64(a)) ? b : a));
                    else if (f64(a) == f64(b))
                        assert_true(d == ((a >> 63) == least ? a : b));
                    else
                        assert_true(d == ((f64(a) < f64(b)) == least ? a : b));
                }
            }
        }
    }
}

TEST(test_signs_and_kinds)
{
    static const char *const tests[] = { "finite", "infinite", "number", "notanumber", "normal", "subnormal" };
    ALU_LEVELS(level) {
        struct alu_case c;
        struct alu_run run = { 0 };
        for (unsigned round = 0; round < 50; round++)
            for (unsigned wide = 0; wide < 2; wide++) {
                const enum sg_cell cell = wide ? SG_CELL_64 : SG_CELL_32;
                const uint64_t sign = wide ? (uint64_t)1 << 63 : 0x80000000;
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < 2; s++)
                        row_set(&run.s[s], cell, i, wide ? alu_float(11, 52) : alu_float(8, 23));
                for (unsigned t = 0; t < 6; t++) {
                    alu_getf(&c, level, 1, "testp.%s.f%d", tests[t], wide ? 64 : 32);
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        const uint64_t x = row_get(&run.s[0], cell, i);
                        const int kind = wide ? fpclassify(f64(x)) : fpclassify(f32(x));
                        const bool want = t == 0   ? kind != FP_NAN && kind != FP_INFINITE
                                          : t == 1 ? kind == FP_INFINITE
                                          : t == 2 ? kind != FP_NAN
                                          : t == 3 ? kind == FP_NAN
                                          : t == 4 ? kind == FP_NORMAL || kind == FP_ZERO
                                                   : kind == FP_SUBNORMAL;
                        assert_int_equal(run.p >> i & 1, want);
                    }
                }
                alu_get(&c, level, wide ? "copysign.f64" : "copysign.f32", 2);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++)
                    assert_true(row_get(&run.d, cell, i) ==
                                ((row_get(&run.s[0], cell, i) & sign) | (row_get(&run.s[1], cell, i) & (sign - 1))));
                for (unsigned ftz = 0; ftz < 2 - wide; ftz++)
                    for (unsigned neg = 0; neg < 2; neg++) {
                        alu_getf(&c, level, 1, "%s%s.f%d", neg ? "neg" : "abs", ftz ? ".ftz" : "", wide ? 64 : 32);
                        alu_execute(&c, &run);
                        for (unsigned i = 0; i < 32; i++) {
                            const uint64_t x = row_get(&run.s[0], cell, i), y = wide ? x : flush((uint32_t)x, ftz);
                            if (wide ? isnan(f64(x)) : isnan(f32(x)))
                                continue;             /* seen.c */
                            assert_true(row_get(&run.d, cell, i) == (neg ? y ^ sign : y & (sign - 1)));
                        }
                    }
            }
    }
}

TEST(test_refusals)
{
    static const struct alu_refused refused[] = {
        { "fma.f32", 3, "rounding" },    { "add.rn.rz.f32", 2, "rounding" },
        { "add.ftz.f64", 2, "ftz" },     { "div.rn.sat.f32", 2, "sat" },
        { "sin.f64", 1, "sin" },         { "rsqrt.rn.f32", 1, "rn" },
        { "min.xorsign.f32", 2, "abs" }, { "testp.f32", 1, "test" },
        { "add.sat.f32x2", 2, "sat" },   { "fma.rn.f32", 2, "operands" },
        { "div.approx.f64", 2, "div" },  { "min.xorsign.abs.f32", 3, "xorsign" },
        { "max.abs.f32", 2, "xorsign" },
    };
    alu_check_refused(refused, sizeof refused / sizeof *refused);
}

int main(void) { return unit_run(NULL, NULL); }
