/* half.c: f16 and bf16 arithmetic of softgpu/alu against exact.h, single values and pairs. */
#include "tests/alu/exact.h"

struct kind { const char *name; struct format format; unsigned pair; };
static const struct kind kinds[] = { { "f16", { 5, 10, true, true }, 0 }, { "bf16", { 8, 7, true, true }, 0 },
                                     { "f16x2", { 5, 10, true, true }, 1 }, { "bf16x2", { 8, 7, true, true }, 1 } };

static uint32_t flush(struct format f, uint32_t x, bool ftz)
{
    return ftz && !(x & 0x7fff & ~((1u << f.fraction_bits) - 1)) ? x & 0x8000 : x;
}

enum op { ADD, SUB, MUL, FMA };
static uint32_t expect(enum op op, struct format f, const uint32_t *v, bool ftz, bool sat, bool relu)
{
    double x[3];
    for (unsigned s = 0; s < 3; s++)
        x[s] = format_double(f, flush(f, v[s], ftz));
    if (op == SUB)
        x[1] = -x[1];
    /* special values and signs of zero as double has them; the value itself exactly */
    const double rough = op == MUL ? x[0] * x[1] : op == FMA ? fma(x[0], x[1], x[2]) : x[0] + x[1];
    uint32_t d;
    if (rough != rough)
        return sat ? 0 : 0x7fff;
    if (isinf(rough) || rough == 0)
        d = (signbit(rough) ? 0x8000 : 0) | (rough == 0 ? 0 : format_highest(f) + 1);
    else
        d = exact_round(f,
                        op == MUL   ? exact_sum((__float128)x[0] * x[1], 0)
                        : op == FMA ? exact_sum((__float128)x[0] * x[1], x[2])
                                    : exact_sum(x[0], x[1]),
                        'n', false);
    d = flush(f, d, ftz);
    /* rounded up to the least normal number, but subnormal if exponents had no lower end */
    if (ftz && (d & 0x7fff) == 0x0400 && (op == MUL || op == FMA)) {
        const __float128 exact = (__float128)x[0] * x[1] + (op == FMA ? x[2] : 0);
        if ((exact < 0 ? -exact : exact) < 0x1p-14 * (1 - 0x1p-12))
            d &= 0x8000;
    }
    if (relu || sat)
        d = d & 0x8000 ? 0 : d;
    const uint32_t one = f.exponent_bits == 8 ? 0x3f80 : 0x3c00;
    return sat && d > one ? one : d;
}

/* Operands whose sum or product with a tiny third lies next to a tie, often */
static uint32_t operand(struct format f)
{
    if (alu_random() % 4 == 0) {
        const uint32_t bias = (1u << (f.exponent_bits - 1)) - 1;
        return (uint32_t)(alu_random() & 1 ? 0x8000 : 0) |
               (bias + (uint32_t)(alu_random() % 5) - 2) << f.fraction_bits |
               ((uint32_t)alu_random() & ((1u << f.fraction_bits) - 1));
    }
    return (uint32_t)alu_float(f.exponent_bits, f.fraction_bits);
}

TEST(test_arithmetic)
{
    static const struct {
        const char *name;
        enum op op;
        unsigned sources;
    } operations[] = { { "add", ADD, 2 }, { "sub", SUB, 2 }, { "mul", MUL, 2 }, { "fma.rn", FMA, 3 } };
    for (unsigned k = 0; k < 4; k++)
        for (unsigned o = 0; o < 4; o++)
            for (unsigned flags = 0; flags < 8; flags++) {
                const bool ftz = flags & 1, sat = flags & 2, relu = flags & 4, bf = kinds[k].format.exponent_bits == 8;
                if ((relu && (sat || operations[o].op != FMA)) || (bf && (ftz || sat)))
                    continue;
                ALU_LEVELS(level) {
                    struct alu_case c;
                    struct alu_run run = { 0 };
                    alu_getf(&c, level, operations[o].sources, "%s%s%s%s.%s", operations[o].name, ftz ? ".ftz" : "",
                             sat ? ".sat" : "", relu ? ".relu" : "", kinds[k].name);
                    for (unsigned round = 0; round < 200; round++) {
                        for (unsigned i = 0; i < 32; i++)
                            for (unsigned s = 0; s < operations[o].sources; s++)
                                run.s[s].u.w[i] =
                                    operand(kinds[k].format) | (kinds[k].pair ? operand(kinds[k].format) << 16 : 0);
                        alu_execute(&c, &run);
                        for (unsigned i = 0; i < 32; i++)
                            for (unsigned half = 0; half <= kinds[k].pair; half++) {
                                uint32_t v[3];
                                for (unsigned s = 0; s < 3; s++)
                                    v[s] = run.s[s].u.w[i] >> (16 * half) & 0xffff;
                                const uint32_t want = expect(operations[o].op, kinds[k].format, v, ftz, sat, relu),
                                               got = run.d.u.w[i] >> (16 * half) & 0xffff;
                                if (got != want)
                                    fail_msg("%s (%s) of %04x %04x %04x gives %04x, not %04x", c.name,
                                             sg_cpu_name(level), v[0], v[1], v[2], got, want);
                            }
                        for (unsigned i = 0; i < 32 && !kinds[k].pair; i++)
                            assert_true(run.d.u.w[i] <= 0xffff);
                    }
                }
            }
}

/* The NaN that tensor copies write beyond the edges makes +0 where it is a factor; no other NaN does. */
TEST(test_out_of_bounds)
{
    static const uint32_t marks[] = { 0x7ff7, 0xfff7, 0x7fff, 0x7ff6, 0x7fc0 };
    for (unsigned k = 0; k < 4; k++)
        for (unsigned flags = 0; flags < 3; flags++)
            ALU_LEVELS(level)
            {
                const bool relu = flags == 1, sat = flags == 2;
                struct alu_case c;
                struct alu_run run = { 0 };
                if (sat && kinds[k].format.exponent_bits == 8)
                    continue;
                alu_getf(&c, level, 3, "fma.rn.oob%s.%s", relu ? ".relu" : sat ? ".sat" : "", kinds[k].name);
                for (unsigned round = 0; round < 200; round++) {
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned s = 0; s < 3; s++) {
                            run.s[s].u.w[i] = 0;
                            for (unsigned half = 0; half <= kinds[k].pair; half++)
                                run.s[s].u.w[i] |=
                                    (alu_random() % 3 ? operand(kinds[k].format) : marks[alu_random() % 5])
                                    << (16 * half);
                        }
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned half = 0; half <= kinds[k].pair; half++) {
                            uint32_t v[3];
                            for (unsigned s = 0; s < 3; s++)
                                v[s] = run.s[s].u.w[i] >> (16 * half) & 0xffff;
                            const uint32_t want = v[0] == 0x7ff7 || v[1] == 0x7ff7
                                                      ? 0
                                                      : expect(FMA, kinds[k].format, v, false, sat, relu),
                                           got = run.d.u.w[i] >> (16 * half) & 0xffff;
                            if (got != want)
                                fail_msg("%s (%s) of %04x %04x %04x gives %04x, not %04x", c.name, sg_cpu_name(level),
                                         v[0], v[1], v[2], got, want);
                        }
                }
            }
}

/* A product that is a tie, and a third operand too small for double to see: the sum is no tie */
TEST(test_beyond_double)
{
    ALU_LEVELS(level) {
        struct alu_case c;
        struct alu_run run = { 0 };
        alu_get(&c, level, "fma.rn.bf16", 3);
        for (unsigned i = 0; i < 32; i++) {
            run.s[0].u.w[i] = 0x3f81;                        /* 1 + 2^-7 */
            run.s[1].u.w[i] = 0x3f84;                        /* 1 + 2^-5: the product is 1 + 2^-5 + 2^-7 + 2^-12 */
            run.s[2].u.w[i] = i & 1 ? 0x8001 : 0x0001;       /* the least subnormals */
        }
        run.s[0].u.w[0] = run.s[0].u.w[1] = 0x3fc0;          /* 1.5 * (1 + 2^-7) = 1.5 + 2^-7 + 2^-8: a tie */
        run.s[1].u.w[0] = run.s[1].u.w[1] = 0x3f81;
        alu_execute(&c, &run);
        assert_int_equal(run.d.u.w[0], 0x3fc2);              /* above the tie: up */
        assert_int_equal(run.d.u.w[1], 0x3fc1);              /* below: down */
    }
}

static uint32_t expect_extremum(struct format f, bool least, bool nan, uint32_t a, uint32_t b)
{
    const double x = format_double(f, a), y = format_double(f, b);
    if (x != x || y != y)
        return nan || (x != x && y != y) ? 0x7fff : x != x ? b : a;
    if (x == y)
        return (a >> 15) == least ? a : b;
    return (x < y) == least ? a : b;
}
TEST(test_extrema_and_signs)
{
    for (unsigned k = 0; k < 4; k++)
        for (unsigned flags = 0; flags < 16; flags++)
            ALU_LEVELS(level) {
                const bool least = flags & 1, nan = flags & 2, xorsign = flags & 4, ftz = flags & 8;
                const struct format f = kinds[k].format;
                struct alu_case c, neg, abs;
                struct alu_run run = { 0 };
                if (ftz && f.exponent_bits == 8)
                    continue;
                alu_getf(&c, level, 2, "%s%s%s%s.%s", least ? "min" : "max", ftz ? ".ftz" : "", nan ? ".NaN" : "",
                         xorsign ? ".xorsign.abs" : "", kinds[k].name);
                alu_getf(&neg, level, 1, "neg%s.%s", ftz ? ".ftz" : "", kinds[k].name);
                alu_getf(&abs, level, 1, "abs%s.%s", ftz ? ".ftz" : "", kinds[k].name);
                for (unsigned round = 0; round < 100; round++) {
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned s = 0; s < 2; s++)
                            run.s[s].u.w[i] = operand(f) | (kinds[k].pair ? operand(f) << 16 : 0);
                    for (unsigned half = 0; half <= kinds[k].pair; half++) {
                        alu_execute(&c, &run);
                        for (unsigned i = 0; i < 32; i++) {
                            const uint32_t a = flush(f, run.s[0].u.w[i] >> (16 * half) & 0xffff, ftz),
                                           b = flush(f, run.s[1].u.w[i] >> (16 * half) & 0xffff, ftz);
                            const uint32_t clear = xorsign ? 0x7fff : 0xffff;
                            uint32_t want = expect_extremum(f, least, nan, a & clear, b & clear);
                            if (xorsign && want <= format_highest(f) + 1)
                                want |= (a ^ b) & 0x8000;
                            assert_int_equal(run.d.u.w[i] >> (16 * half) & 0xffff, want);
                        }
                        alu_execute(&neg, &run);
                        for (unsigned i = 0; i < 32; i++) {
                            const uint32_t x = run.s[0].u.w[i] >> (16 * half) & 0xffff;
                            assert_int_equal(run.d.u.w[i] >> (16 * half) & 0xffff,
                                             (x & 0x7fff) > format_highest(f) + 1 ? 0x7fff : flush(f, x, ftz) ^ 0x8000);
                        }
                        alu_execute(&abs, &run);
                        for (unsigned i = 0; i < 32; i++) {
                            const uint32_t x = run.s[0].u.w[i] >> (16 * half) & 0xffff;
                            assert_int_equal(run.d.u.w[i] >> (16 * half) & 0xffff,
                                             (x & 0x7fff) > format_highest(f) + 1 ? 0x7fff : flush(f, x, ftz) & 0x7fff);
                        }
                    }
                }
            }
}

/* Every f16 and bf16: rounded to nearest, give or take what lies within 2^-22 of a tie */
TEST(test_functions)
{
    for (unsigned k = 0; k < 4; k++)
        for (unsigned tangent = 0; tangent < 2; tangent++)
            ALU_LEVELS(level) {
                const struct format f = kinds[k].format;
                const bool ftz = !tangent && f.exponent_bits == 8;
                struct alu_case c;
                struct alu_run run = { 0 };
                alu_getf(&c, level, 1, "%s%s.%s", tangent ? "tanh.approx" : "ex2.approx", ftz ? ".ftz" : "",
                         kinds[k].name);
                for (unsigned x = 0; x < 0x10000; x += 32) {
                    for (unsigned i = 0; i < 32; i++)
                        run.s[0].u.w[i] = kinds[k].pair ? (x + i) << 16 | (0xffff - x - i) : x + i;
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned half = 0; half <= kinds[k].pair; half++) {
                            const uint32_t in = run.s[0].u.w[i] >> (16 * half) & 0xffff,
                                           got = run.d.u.w[i] >> (16 * half) & 0xffff;
                            const double y = format_double(f, flush(f, in, ftz)), exact = tangent ? tanh(y) : exp2(y);
                            if (y != y)
                                assert_int_equal(got, 0x7fff);
                            else if (exact == 0 || isinf(exact))
                                assert_int_equal(got, exact == 0 ? in & 0x8000 & (tangent ? 0xffff : 0)
                                                                 : format_highest(f) + 1);
                            else {
                                const uint32_t low =
                                    flush(f, exact_round(f, exact_of(exact * (1 - 0x1p-22)), 'n', false), ftz);
                                const uint32_t high =
                                    flush(f, exact_round(f, exact_of(exact * (1 + 0x1p-22)), 'n', false), ftz);
                                if (got != low && got != high)
                                    fail_msg("%s (%s) of %04x gives %04x, not %04x", c.name, sg_cpu_name(level), in,
                                             got, low);
                            }
                        }
                }
            }
}

TEST(test_refusals)
{
    static const struct alu_refused refused[] = {
        { "add.rz.f16", 2, "rz" },   { "add.sat.bf16", 2, "sat" },         { "fma.f16", 3, "rounding" },
        { "div.rn.f16", 2, "f16" },  { "fma.rn.sat.relu.f16", 3, "relu" }, { "fma.rn.oob.ftz.f16", 3, "ftz" },
        { "add.oob.f16", 2, "oob" },
    };
    alu_check_refused(refused, sizeof refused / sizeof *refused);
}

int main(void) { return unit_run(NULL, NULL); }
