/*
 * seen.c: what an NVIDIA H200 gave for instructions where the PTX ISA leaves the result open, or where reading it is
 * easily mistaken: NaNs, results at the end of the normal range, counts beyond the register (tests/gpu/cases.py).
 *
 * shows: software GPU: NaNs of neg, abs, min, max and cvt, .ftz at the least normal number, and fields behind the
 *   register are as an H200 gives them
 */
#include "tests/alu/harness.h"

static const struct seen { const char *text; unsigned sources; uint64_t s[4], d; } seen[] = {
    { "abs.f32", 1, { 0xffc00005 }, 0x7fffffff },
    { "abs.ftz.f32", 1, { 0x7f800001 }, 0x7fffffff },
    { "neg.f32", 1, { 0x7fc00000 }, 0x7fffffff },
    { "neg.f32", 1, { 0x7f800000 }, 0xff800000 },
    { "abs.f16", 1, { 0x7c01 }, 0x7fff },
    { "neg.f16", 1, { 0x7c01 }, 0x7fff },
    { "abs.bf16", 1, { 0x7f81 }, 0x7fff },
    { "abs.f64", 1, { 0xfff8000000000005 }, 0xfff8000000000005 },
    { "neg.f64", 1, { 0x7ff4215773b29ce7 }, 0x7ffc215773b29ce7 },
    { "min.f64", 2, { 0x7ff8000000000000, 0x7ff0000000000001 }, 0x7ff8000000000001 },
    { "max.f64", 2, { 0x7ff0000000000001, 0xfff8000000000005 }, 0xfff8000000000005 },
    { "cvt.rn.f32.f64", 1, { 0x7ff4215773b29ce7 }, 0x7fe10abb },
    { "cvt.rn.f32.f64", 1, { 0xfff8000000000005 }, 0xffc00000 },
    { "cvt.rn.f16.f64", 1, { 0xfff9c55bcf3b1e1e }, 0xfe71 },
    { "cvt.rn.bf16.f64", 1, { 0x7ff9ffc4a87dbc08 }, 0x7fcf },
    { "cvt.f32.bf16", 1, { 0x7f81 }, 0x7f810000 },
    { "cvt.f64.bf16", 1, { 0x7f81 }, 0x7ff8200000000000 },
    { "cvt.f64.f16", 1, { 0x7c01 }, 0x7ff8040000000000 },
    { "cvt.ftz.f64.f32", 1, { 0x7fc00000 }, 0x7fffffffe0000000 },
    { "cvt.ftz.f32.f32", 1, { 0xff8d27d4 }, 0x7fffffff },
    { "cvt.f32.f32", 1, { 0xff8d27d4 }, 0xff8d27d4 },
    { "cvt.f16.f16", 1, { 0x7c01 }, 0x7fff },
    { "cvt.bf16.bf16", 1, { 0x7f82 }, 0x7fff },
    { "cvt.rn.tf32.f32", 1, { 0x7fb73af5 }, 0x7fffe000 },
    { "cvt.rz.relu.tf32.f32", 1, { 0xff8d27d4 }, 0x7fffe000 },
    { "cvt.rna.tf32.f32", 1, { 0x7fb73af5 }, 0x7fb72000 },
    { "cvt.rna.satfinite.tf32.f32", 1, { 0xff9301cd }, 0xff92e000 },
    { "cvt.rm.ftz.f16.f32", 1, { 0x80000001 }, 0x8001 },
    { "cvt.rp.ftz.f16.f32", 1, { 0x00000001 }, 0x0001 },
    { "rcp.approx.ftz.f64", 1, { 0xfff8000000000005 }, 0x7fffffff00000000 },
    { "rcp.approx.ftz.f64", 1, { 0x7ff0000000000001 }, 0 },
    { "mul.rm.ftz.f32", 2, { 0x00800000, 0xbf7fffff }, 0x80000000 },
    { "mul.rp.ftz.f32", 2, { 0x00800000, 0x3f7fffff }, 0 },
    { "fma.rm.ftz.f32", 3, { 0x3f7fffff, 0x80800000, 0x00000001 }, 0x80000000 },
    { "div.rm.ftz.f32", 2, { 0x00800000, 0xbf800001 }, 0x80000000 },
    { "div.rp.ftz.f32", 2, { 0x80800000, 0xbf800001 }, 0 },
    { "mul.rn.ftz.f16", 2, { 0x0400, 0x3bff }, 0 },
    { "mul.rn.ftz.f16", 2, { 0x0400, 0xbbff }, 0x8000 },
    { "bfe.u64", 3, { 0xffffffffffffffff, 0x100, 1 }, 0 },
    { "bfe.s64", 3, { 0xaaaaaaaaaaaaaaaa, 0x7f, 0x100 }, 0xffffffffffffffff },
    { "bfi.b64", 4, { 0, 0x7fffffffffffffff, 0, 0x100 }, 0 },
};

TEST(results_are_as_an_h200_gives_them)
{
    ALU_LEVELS(level)
        for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
            struct alu_case c;
            struct alu_run run = { .carry = 0 };
            alu_get(&c, level, seen[i].text, seen[i].sources);
            for (unsigned s = 0; s < seen[i].sources; s++)
                for (unsigned lane = 0; lane < SG_LANES; lane++)
                    row_set(&run.s[s], c.alu.source[s], lane, seen[i].s[s]);
            alu_execute(&c, &run);
            for (unsigned lane = 0; lane < SG_LANES; lane++)
                if (row_get(&run.d, c.alu.destination, lane) != seen[i].d)
                    fail_msg("%s, row %zu, level %d: %llx instead of %llx", seen[i].text, i, level,
                             (unsigned long long)row_get(&run.d, c.alu.destination, lane),
                             (unsigned long long)seen[i].d);
        }
}

/* "Positive and negative zero are considered normal numbers." */
TEST(zero_is_a_normal_number)
{
    static const struct { const char *text; uint64_t zero; } tests[] = { { "testp.normal.f32", 0x80000000 },
                                                                          { "testp.normal.f64", 0 } };
    ALU_LEVELS(level)
        for (size_t i = 0; i < 2; i++) {
            struct alu_case c;
            struct alu_run run = { .carry = 0 };
            alu_get(&c, level, tests[i].text, 1);
            for (unsigned lane = 0; lane < SG_LANES; lane++)
                row_set(&run.s[0], c.alu.source[0], lane, tests[i].zero);
            alu_execute(&c, &run);
            assert_int_equal(run.p, UINT32_MAX);
        }
}

int main(void) { return unit_run(NULL, NULL); }
