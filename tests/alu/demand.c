/*
 * demand.c: every arithmetic instruction that 646 public CUDA programs were found to compile to (demand.inc, the
 * commonest first) is understood; and so is each of their opcodes in every type that PTX gives it.
 */
#include "tests/alu/harness.h"

static const char *const demanded[] = {
#include "tests/alu/demand.inc"
};

/* Some number of operands must suit. */
static bool understood(const char *text, char *why, size_t size)
{
    for (unsigned sources = 1; sources < 6; sources++) {
        struct alu_case c;
        if (!alu_find(&c, sg_cpu_level(), text, sources))
            return true;
        snprintf(why, size, "%s", c.why);
    }
    return false;
}

TEST(test_demand)
{
    char why[160];
    for (size_t i = 0; i < sizeof demanded / sizeof *demanded; i++)
        if (!understood(demanded[i], why, sizeof why))
            fail_msg("%s: %s", demanded[i], why);
}

/* "%" stands for each of the types */
static const struct { const char *pattern, *types;
} forms[] = {
    { "add.%", "u16 u32 u64 s16 s32 s64 u16x2 s16x2 f32 f64 f16 f16x2 bf16 bf16x2 f32x2" },
    { "sub.%", "u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2" },
    { "mul.lo.%", "u16 u32 u64 s16 s32 s64" },
    { "mul.hi.%", "u16 u32 u64 s16 s32 s64" },
    { "mul.wide.%", "u16 u32 s16 s32" },
    { "mul.%", "f32 f64 f16 f16x2 bf16 bf16x2 f32x2" },
    { "mad.lo.%", "u16 u32 u64 s16 s32 s64" },
    { "mad.hi.%", "u16 u32 u64 s16 s32 s64" },
    { "mad.wide.%", "u16 u32 s16 s32" },
    { "mad.rn.%", "f32 f64" },
    { "fma.rn.%", "f32 f64 f16 f16x2 bf16 bf16x2 f32x2" },
    { "div.%", "u16 u32 u64 s16 s32 s64" },
    { "div.rn.%", "f32 f64" },
    { "div.full.%", "f32" },
    { "rem.%", "u16 u32 u64 s16 s32 s64" },
    { "abs.%", "s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2" },
    { "neg.%", "s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2" },
    { "min.%", "u16 u32 u64 s16 s32 s64 u16x2 s16x2 f32 f64 f16 f16x2 bf16 bf16x2" },
    { "max.%", "u16 u32 u64 s16 s32 s64 u16x2 s16x2 f32 f64 f16 f16x2 bf16 bf16x2" },
    { "max.relu.%", "s32 s16x2" },
    { "sad.%", "u16 u32 u64 s16 s32 s64" },
    { "mul24.lo.%", "u32 s32" },
    { "add.cc.%", "u32 s32 u64 s64" },
    { "subc.cc.%", "u32 s32 u64 s64" },
    { "madc.hi.cc.%", "u32 s32 u64 s64" },
    { "popc.%", "b32 b64" },
    { "clz.%", "b32 b64" },
    { "bfind.%", "u32 u64 s32 s64" },
    { "brev.%", "b32 b64" },
    { "bfe.%", "u32 u64 s32 s64" },
    { "bfi.%", "b32 b64" },
    { "and.%", "pred b16 b32 b64" },
    { "or.%", "pred b16 b32 b64" },
    { "xor.%", "pred b16 b32 b64" },
    { "not.%", "pred b16 b32 b64" },
    { "cnot.%", "b16 b32 b64" },
    { "shl.%", "b16 b32 b64" },
    { "shr.%", "b16 b32 b64 u16 u32 u64 s16 s32 s64" },
    { "setp.eq.%", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2" },
    { "setp.ge.and.%", "u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2" },
    { "selp.%", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64" },
    { "slct.%.s32", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64" },
    { "rcp.rn.%", "f32 f64" },
    { "sqrt.rn.%", "f32 f64" },
    { "rsqrt.approx.%", "f32 f64" },
    { "ex2.approx.%", "f32 f16 f16x2" },
    { "ex2.approx.ftz.%", "f32 bf16 bf16x2" },
    { "tanh.approx.%", "f32 f16 f16x2 bf16 bf16x2" },
    { "copysign.%", "f32 f64" },
    { "testp.finite.%", "f32 f64" },
    { "cvt.rn.%.s32", "f16 bf16 f32 f64" },
    { "cvt.rzi.s32.%", "f16 bf16 f32 f64" },
    { "cvt.rz.%.bf16", "f32 f64" },
    { "cvt.sat.s8.%", "u8 u16 u32 u64 s8 s16 s32 s64" },
    { "cvt.rn.satfinite.%.f32", "e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2" },
    { "cvt.rn.f16x2.%", "e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 f32" },
};

TEST(test_types)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char types[160], why[160] = "";
        snprintf(types, sizeof types, "%s", forms[i].types);
        for (char *save, *type = strtok_r(types, " ", &save); type; type = strtok_r(NULL, " ", &save)) {
            char text[96];
            const char *mark = strchr(forms[i].pattern, '%');
            snprintf(text, sizeof text, "%.*s%s%s", (int)(mark - forms[i].pattern), forms[i].pattern, type, mark + 1);
            if (!understood(text, why, sizeof why))
                fail_msg("%s: %s", text, why);
        }
    }
}

int main(void) { return unit_run(NULL, NULL); }
