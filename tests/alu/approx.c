/*
 * approx.c: the approximations of f32 and f64 in softgpu/alu: errors within what PTX documents (compared with
 * the C library in double), and the special values that it lists.
 */
#include <math.h>

#include "tests/alu/harness.h"

static float flush(float x, bool ftz) { return ftz && fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x; }

static double reciprocal(double x) { return 1 / x; }
static double reciprocal_root(double x) { return 1 / sqrt(x); }

/* The bounds of the PTX reference, or narrower ones. Relative bounds are for normal results; absolute ones for all, in
   [low, high]. rsqrt: 2^-22.9; sin, cos: 2^-20.5 */
static const struct { const char *name; double (*exact)(double); double relative, absolute, low, high; } functions[] = {
    { "rcp", reciprocal, 0x1p-23, 0, -INFINITY, INFINITY },   { "sqrt", sqrt, 0x1p-23, 0, 0, INFINITY },
    { "rsqrt", reciprocal_root, 0x1.125fp-23, 0, 0, INFINITY }, { "ex2", exp2, 0x1p-23, 0, -125, 127.9 },
    { "lg2", log2, 0x1p-22, 0x1p-22, 0, INFINITY },           { "sin", sin, 0x1p-22, 0x1.6a09p-21, -1e6, 1e6 },
    { "cos", cos, 0x1p-22, 0x1.6a09p-21, -1e6, 1e6 },          { "tanh", tanh, 0x1p-11, 0, -INFINITY, INFINITY },
};

TEST(test_errors)
{
    for (size_t o = 0; o < sizeof functions / sizeof *functions; o++)
        for (unsigned ftz = 0; ftz < 2; ftz++)
            ALU_LEVELS(level) {
                struct alu_case c;
                struct alu_run run = { 0 };
                char text[64];
                unsigned judged = 0;
                snprintf(text, sizeof text, "%s.approx%s.f32", functions[o].name, ftz ? ".ftz" : "");
                if (o == 7)
                    snprintf(text, sizeof text, "tanh.approx.f32");
                alu_get(&c, level, text, 1);
                for (unsigned round = 0; round < 1000; round++) {
                    for (unsigned i = 0; i < 32; i++) {
                        run.s[0].u.w[i] = (uint32_t)alu_float(8, 23);
                        if (alu_random() & 1)
                            run.s[0].u.w[i] = u32(
                                (float)((double)(int64_t)alu_random() * 0x1p-63 * (double)(1u << alu_random() % 20)));
                    }
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        const float x = flush(f32(run.s[0].u.w[i]), ftz && o != 7), got = f32(run.d.u.w[i]);
                        const double want = functions[o].exact(x);
                        if (isnan(want)) {
                            assert_int_equal(run.d.u.w[i], 0x7fffffff);
                            continue;
                        }
                        if (!(x >= functions[o].low && x <= functions[o].high) || fabs(want) < 0x1p-126 ||
                            fabs(want) > 0x1.fffffep127)
                            continue;
                        const double error = fabs(got - want);
                        judged++;
                        if (error > functions[o].relative * fabs(want) && error > functions[o].absolute)
                            fail_msg("%s (%s) of %a gives %a, not %a", text, sg_cpu_name(level), (double)x, (double)got,
                                     want);
                    }
                }
                assert_true(judged > 5000);
            }
}

#define INF INFINITY
static const struct { const char *text; float in, out;
} specials[] = {
    { "rcp.approx.f32", -INF, -0.0f },
    { "rcp.approx.f32", -0.0f, -INF },
    { "rcp.approx.f32", 0.0f, INF },
    { "rcp.approx.f32", INF, 0.0f },
    { "rcp.approx.ftz.f32", 0x1p-130f, INF },
    { "rcp.approx.ftz.f32", -0x1p-130f, -INF },
    { "rcp.approx.ftz.f32", 0x1p127f, 0.0f },
    { "rcp.approx.f32", 0x1p127f, 0x1p-127f },
    { "sqrt.approx.f32", -0.0f, -0.0f },
    { "sqrt.approx.f32", -1.0f, NAN },
    { "sqrt.approx.f32", INF, INF },
    { "sqrt.approx.ftz.f32", 0x1p-140f, 0.0f },
    { "rsqrt.approx.f32", -0.0f, -INF },
    { "rsqrt.approx.f32", 0.0f, INF },
    { "rsqrt.approx.f32", -INF, NAN },
    { "rsqrt.approx.f32", INF, 0.0f },
    { "rsqrt.approx.ftz.f32", -0x1p-140f, -INF },
    { "sin.approx.f32", -0.0f, -0.0f },
    { "sin.approx.f32", INF, NAN },
    { "sin.approx.ftz.f32", -0x1p-140f, -0.0f },
    { "cos.approx.f32", 0.0f, 1.0f },
    { "cos.approx.f32", -INF, NAN },
    { "lg2.approx.f32", -0.0f, -INF },
    { "lg2.approx.f32", 0.0f, -INF },
    { "lg2.approx.f32", -1.0f, NAN },
    { "lg2.approx.f32", INF, INF },
    { "lg2.approx.f32", 0x1p-149f, -149.0f },
    { "lg2.approx.ftz.f32", 0x1p-149f, -INF },
    { "lg2.approx.f32", 1.0f, 0.0f },
    { "ex2.approx.f32", -INF, 0.0f },
    { "ex2.approx.f32", INF, INF },
    { "ex2.approx.f32", -0.0f, 1.0f },
    { "ex2.approx.f32", 128.0f, INF },
    { "ex2.approx.f32", -149.0f, 0x1p-149f },
    { "ex2.approx.ftz.f32", -130.0f, 0.0f },
    { "ex2.approx.f32", -300.0f, 0.0f },
    { "ex2.approx.f32", 10.0f, 1024.0f },
    { "tanh.approx.f32", INF, 1.0f },
    { "tanh.approx.f32", -INF, -1.0f },
    { "tanh.approx.f32", -0.0f, -0.0f },
    { "tanh.approx.f32", 0x1p-149f, 0x1p-149f },
    { "tanh.approx.f32", NAN, NAN },
    { "ex2.approx.f32", NAN, NAN },
};
TEST(test_specials)
{
    for (size_t o = 0; o < sizeof specials / sizeof *specials; o++)
        ALU_LEVELS(level) {
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_get(&c, level, specials[o].text, 1);
            for (unsigned i = 0; i < 32; i++)
                run.s[0].u.w[i] = u32(specials[o].in);
            alu_execute(&c, &run);
            const float want = specials[o].out;
            for (unsigned i = 0; i < 32; i++)
                if (want != want ? run.d.u.w[i] != 0x7fffffff : run.d.u.w[i] != u32(want))
                    fail_msg("%s (%s) of %a gives %a (%08x), not %a", specials[o].text, sg_cpu_name(level),
                             (double)specials[o].in, (double)f32(run.d.u.w[i]), run.d.u.w[i], (double)want);
        }
}

/* Far from 0, where reduction by pi needs more digits than a double has */
TEST(test_far_angles)
{
    ALU_LEVELS(level) {
        struct alu_case c;
        struct alu_run run = { 0 };
        alu_get(&c, level, "sin.approx.f32", 1);
        for (unsigned i = 0; i < 32; i++)
            run.s[0].u.w[i] = u32((float)ldexp(i & 1 ? -1.2345 : 1.2345, 4 * (int)i));
        alu_execute(&c, &run);
        for (unsigned i = 0; i < 32; i++)
            assert_true(fabs(f32(run.d.u.w[i]) - sin((double)f32(run.s[0].u.w[i]))) < 0x1p-20);
    }
}

TEST(test_division)
{
    for (unsigned full = 0; full < 2; full++)
        for (unsigned ftz = 0; ftz < 2; ftz++)
            ALU_LEVELS(level) {
                struct alu_case c;
                struct alu_run run = { 0 };
                alu_getf(&c, level, 2, "div.%s%s.f32", full ? "full" : "approx", ftz ? ".ftz" : "");
                for (unsigned round = 0; round < 500; round++) {
                    for (unsigned i = 0; i < 32; i++) {
                        run.s[0].u.w[i] = (uint32_t)alu_float(8, 23);
                        run.s[1].u.w[i] = (uint32_t)alu_float(8, 23);
                    }
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        const float a = flush(f32(run.s[0].u.w[i]), ftz), b = flush(f32(run.s[1].u.w[i]), ftz),
                                    got = f32(run.d.u.w[i]);
                        const double want = (double)a / (double)b;
                        if (!full && fabsf(b) > 0x1p126f && fabsf(b) < INF)
                            assert_true(isinf(a) || isnan(a) ? isnan(got)
                                                             : got == 0 && signbit(got) == (signbit(a) ^ signbit(b)));
                        else if (isnan(want))
                            assert_int_equal(run.d.u.w[i], 0x7fffffff);
                        else if (fabs(want) >= 0x1p-126 && fabs(want) <= 0x1.fffffep127)
                            assert_true(fabs(got - want) <= fabs(want) * 0x1p-22);       /* 2 units in the last place */
                    }
                }
            }
}

TEST(test_f64)
{
    ALU_LEVELS(level) {
        static const char *const texts[] = { "rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64" };
        for (unsigned o = 0; o < 3; o++) {
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_get(&c, level, texts[o], 1);
            for (unsigned round = 0; round < 300; round++) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.q[i] = alu_float(11, 52);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    double x = f64(run.s[0].u.q[i]);
                    const double got = f64(run.d.u.q[i]);
                    if (o < 2 && fpclassify(x) == FP_SUBNORMAL)
                        x = copysign(0, x);
                    const double want = o == 0 ? 1 / x : 1 / sqrt(x);
                    if (o < 2)
                        assert_int_equal(run.d.u.q[i] & UINT32_MAX, 0);
                    if (isnan(want))
                        assert_true(isnan(got));
                    else if (isinf(want) || want == 0)
                        assert_true(got == want && signbit(got) == signbit(want));
                    else if (fabs(want) >= 0x1p-1022)
                        assert_true(fabs(got - want) <= fabs(want) * (o < 2 ? 0x1p-19 : 0x1p-51));
                    else
                        assert_true(got == 0);
                }
            }
        }
    }
}

int main(void) { return unit_run(NULL, NULL); }
