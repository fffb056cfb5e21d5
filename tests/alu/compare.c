/* compare.c: setp, set, selp and slct of softgpu/alu: every comparison of every type, by its definition. */
#include <math.h>

#include "tests/alu/exact.h"

enum kind { INTEGER, FLOAT, HALF };
static const struct type {
    const char *name;
    enum kind kind;
    unsigned bits;
    bool is_signed;
    struct format format;
    bool pair;
} types[] = {
    { "b16", INTEGER, 16, 0, { 0 }, 0 },
    { "b32", INTEGER, 32, 0, { 0 }, 0 },
    { "b64", INTEGER, 64, 0, { 0 }, 0 },
    { "u16", INTEGER, 16, 0, { 0 }, 0 },
    { "u32", INTEGER, 32, 0, { 0 }, 0 },
    { "u64", INTEGER, 64, 0, { 0 }, 0 },
    { "s16", INTEGER, 16, 1, { 0 }, 0 },
    { "s32", INTEGER, 32, 1, { 0 }, 0 },
    { "s64", INTEGER, 64, 1, { 0 }, 0 },
    { "f32", FLOAT, 32, 0, { 0 }, 0 },
    { "f64", FLOAT, 64, 0, { 0 }, 0 },
    { "f16", HALF, 16, 0, { 5, 10, 1, 1 }, 0 },
    { "bf16", HALF, 16, 0, { 8, 7, 1, 1 }, 0 },
    { "f16x2", HALF, 32, 0, { 5, 10, 1, 1 }, 1 },
    { "bf16x2", HALF, 32, 0, { 8, 7, 1, 1 }, 1 },
};
static const char *const comparisons[] = { "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu",
                                           "ltu", "leu", "gtu", "geu", "num", "nan" };
static const char *const combinations[] = { "", ".and", ".or", ".xor" };

/* less, equal, greater, unordered as 1, 2, 4, 8; a comparison is the set of outcomes for which it holds */
static const unsigned holds[] = { 2, 5, 1, 3, 4, 6, 1, 3, 4, 6, 2 | 8, 5 | 8, 1 | 8, 3 | 8, 4 | 8, 6 | 8, 7, 8 };

static unsigned outcome(const struct type *t, uint64_t a, uint64_t b, bool ftz)
{
    if (t->kind == INTEGER) {
        const __int128 x =
            t->is_signed && a >> (t->bits - 1) & 1 ? (__int128)a - ((__int128)1 << t->bits) : (__int128)a;
        const __int128 y =
            t->is_signed && b >> (t->bits - 1) & 1 ? (__int128)b - ((__int128)1 << t->bits) : (__int128)b;
        return x < y ? 1 : x == y ? 2 : 4;
    }
    double x, y;
    if (t->kind == HALF) {
        const uint32_t exponent = 0x7fff & ~((1u << t->format.fraction_bits) - 1);
        x = ftz && !(a & exponent) ? 0 : format_double(t->format, (uint32_t)a);
        y = ftz && !(b & exponent) ? 0 : format_double(t->format, (uint32_t)b);
    } else {
        x = t->bits == 64 ? f64(a) : ftz && !(a & 0x7f800000) ? 0 : (double)f32((uint32_t)a);
        y = t->bits == 64 ? f64(b) : ftz && !(b & 0x7f800000) ? 0 : (double)f32((uint32_t)b);
    }
    return x != x || y != y ? 8 : x < y ? 1 : x == y ? 2 : 4;
}
static bool allowed(const struct type *t, unsigned comparison, bool ftz)
{
    if (ftz && strcmp(t->name, "f32") && strncmp(t->name, "f16", 3))
        return false;
    if (t->kind != INTEGER)
        return comparison < 6 || comparison > 9;
    return comparison < 2 || (t->name[0] != 'b' && comparison < 6) || (t->name[0] == 'u' && comparison < 10);
}
static bool combined(unsigned combination, bool x, bool in)
{
    return combination == 0 ? x : combination == 1 ? x && in : combination == 2 ? x || in : x != in;
}
static uint64_t operand(const struct type *t)
{
    if (t->kind == INTEGER)
        return alu_integer(t->bits);
    if (t->kind == FLOAT)
        return t->bits == 64 ? alu_float(11, 52) : alu_float(8, 23);
    const uint64_t low = alu_float(t->format.exponent_bits, t->format.fraction_bits);
    return t->pair ? low | alu_float(t->format.exponent_bits, t->format.fraction_bits) << 16 : low;
}
static void fill(const struct alu_case *c, struct alu_run *run, const struct type *t)
{
    for (unsigned i = 0; i < 32; i++) {
        const uint64_t a = operand(t);
        row_set(&run->s[0], c->alu.source[0], i, a);
        row_set(&run->s[1], c->alu.source[1], i, alu_random() % 4 ? operand(t) : a);
    }
    run->in = (uint32_t)alu_random();
}
/* The comparison of lane i; of its half, for pairs */
static bool truth(const struct alu_case *c, const struct alu_run *run, const struct type *t, unsigned i,
                  unsigned comparison, bool ftz, unsigned half)
{
    const uint64_t a = row_get(&run->s[0], c->alu.source[0], i), b = row_get(&run->s[1], c->alu.source[1], i);
    return holds[comparison] &
           (t->pair ? outcome(t, a >> (16 * half) & 0xffff, b >> (16 * half) & 0xffff, ftz) : outcome(t, a, b, ftz));
}

TEST(test_setp)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (unsigned comparison = 0; comparison < 18; comparison++)
            for (unsigned combination = 0; combination < 4; combination++)
                for (unsigned ftz = 0; ftz < 2; ftz++)
                    ALU_LEVELS(level) {
                        struct alu_case c;
                        struct alu_run run = { 0 };
                        char text[64];
                        snprintf(text, sizeof text, "setp.%s%s%s.%s", comparisons[comparison],
                                 combinations[combination], ftz ? ".ftz" : "", types[k].name);
                        if (!allowed(&types[k], comparison, ftz)) {
                            assert_int_equal(alu_find(&c, level, text, combination ? 3 : 2), -1);
                            continue;
                        }
                        alu_get(&c, level, text, combination ? 3 : 2);
                        assert_int_equal(c.alu.predicate_source, combination ? 3 : -1);
                        for (unsigned round = 0; round < 20; round++) {
                            fill(&c, &run, &types[k]);
                            run.no_q = round & 1;
                            run.q = 0xabcdef01;
                            alu_execute(&c, &run);
                            for (unsigned i = 0; i < 32; i++) {
                                const bool in = run.in >> i & 1,
                                           low = truth(&c, &run, &types[k], i, comparison, ftz, 0);
                                const bool q = types[k].pair ? truth(&c, &run, &types[k], i, comparison, ftz, 1) : !low;
                                if ((run.p >> i & 1) != combined(combination, low, in))
                                    fail_msg("%s (%s) of %jx, %jx", text, sg_cpu_name(level),
                                             (uintmax_t)row_get(&run.s[0], c.alu.source[0], i),
                                             (uintmax_t)row_get(&run.s[1], c.alu.source[1], i));
                                if (!run.no_q)
                                    assert_int_equal(run.q >> i & 1, combined(combination, q, in));
                            }
                            if (run.no_q)
                                assert_int_equal(run.q, 0xabcdef01);
                        }
                    }
}

TEST(test_set)
{
    static const struct { const char *name; uint32_t value; bool pair;
    } results[] = { { "u32", UINT32_MAX, 0 }, { "s32", UINT32_MAX, 0 }, { "f32", 0x3f800000, 0 }, { "f16", 0x3c00, 0 },
                    { "bf16", 0x3f80, 0 },    { "f16x2", 0x3c00, 1 },   { "bf16x2", 0x3f80, 1 } };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (size_t result = 0; result < sizeof results / sizeof *results; result++)
            for (unsigned comparison = 0; comparison < 18; comparison++)
                for (unsigned flags = 0; flags < 4; flags++)
                    ALU_LEVELS(level) {
                        const bool ftz = flags & 1, combine = flags & 2;
                        struct alu_case c;
                        struct alu_run run = { 0 };
                        char text[64];
                        snprintf(text, sizeof text, "set.%s%s%s.%s.%s", comparisons[comparison], combine ? ".xor" : "",
                                 ftz ? ".ftz" : "", results[result].name, types[k].name);
                        const bool fits = types[k].pair ? results[result].pair || result < 2 : !results[result].pair;
                        if (!allowed(&types[k], comparison, ftz) || !fits) {
                            assert_int_equal(alu_find(&c, level, text, combine ? 3 : 2), -1);
                            continue;
                        }
                        alu_get(&c, level, text, combine ? 3 : 2);
                        for (unsigned round = 0; round < 5; round++) {
                            fill(&c, &run, &types[k]);
                            alu_execute(&c, &run);
                            for (unsigned i = 0; i < 32; i++) {
                                const bool in = run.in >> i & 1;
                                const bool low =
                                    combined(combine ? 3 : 0, truth(&c, &run, &types[k], i, comparison, ftz, 0), in);
                                uint32_t want = low ? results[result].value : 0;
                                if (types[k].pair) {
                                    const bool high = combined(combine ? 3 : 0,
                                                               truth(&c, &run, &types[k], i, comparison, ftz, 1), in);
                                    const uint32_t one = results[result].value & 0xffff;
                                    want = (low ? one : 0) | (high ? one << 16 : 0);
                                }
                                if (run.d.u.w[i] != want)
                                    fail_msg("%s (%s) gives %x, not %x", text, sg_cpu_name(level), run.d.u.w[i], want);
                            }
                        }
                    }
}

TEST(test_selection)
{
    static const char *const names[] = { "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        ALU_LEVELS(level)
            for (unsigned form = 0; form < 4; form++) {              /* selp, slct by s32, by f32, by f32 with .ftz */
                struct alu_case c;
                struct alu_run run = { 0 };
                alu_getf(&c, level, 3,
                         form == 0   ? "selp.%s"
                         : form == 1 ? "slct.%s.s32"
                         : form == 2 ? "slct.%s.f32"
                                     : "slct.ftz.%s.f32",
                         names[k]);
                assert_int_equal(c.alu.predicate_source, form ? -1 : 3);
                for (unsigned round = 0; round < 20; round++) {
                    for (unsigned i = 0; i < 32; i++) {
                        row_set(&run.s[0], c.alu.source[0], i, alu_random());
                        row_set(&run.s[1], c.alu.source[1], i, alu_random());
                        run.s[2].u.w[i] = (uint32_t)(form == 1 ? alu_integer(32) : alu_float(8, 23));
                    }
                    run.in = (uint32_t)alu_random();
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        const uint32_t by = run.s[2].u.w[i];
                        const bool first = form == 0                         ? run.in >> i & 1
                                           : form == 1                       ? (int32_t)by >= 0
                                           : form == 3 && !(by & 0x7f800000) ? true
                                                                             : f32(by) >= 0;
                        assert_true(row_get(&run.d, c.alu.destination, i) ==
                                    row_get(&run.s[!first], c.alu.source[0], i));
                    }
                }
            }
}

TEST(test_refusals)
{
    static const struct alu_refused refused[] = {
        { "setp.s32", 2, "comparison" },
        { "setp.lt.gt.s32", 2, "comparison" },
        { "setp.lt.and.or.s32", 3, "combination" },
        { "setp.lt.and.s32", 2, "operands" },
        { "setp.lt.u8", 2, "u8" },
        { "selp.b8", 3, "b8" },
        { "selp.pred", 3, "pred" },
        { "slct.u32.u32", 3, "u32" },
        { "set.lt.s32", 2, "two types" },
        { "set.lt.u64.s32", 2, "u64" },
    };
    alu_check_refused(refused, sizeof refused / sizeof *refused);
}

int main(void) { return unit_run(NULL, NULL); }
