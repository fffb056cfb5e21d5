/*
 * bench.c: how fast rows are: thousand millions of lanes a second on one core, for each clone. Not a test: run by hand,
 * build/plain/tests/alu_bench [instruction …]; an instruction is written as add.s32:2 (sources after the destination).
 */
#include <time.h>

#include "tests/alu/harness.h"

static const char *const usual[] = {
    "add.s32:2",
    "add.s64:2",
    "sub.s32:2",
    "mul.lo.s32:2",
    "mad.lo.s32:3",
    "mul.wide.s32:2",
    "mul.lo.s64:2",
    "mul.hi.u32:2",
    "mul.hi.u64:2",
    "div.u32:2",
    "div.s32:2",
    "rem.s32:2",
    "div.u64:2",
    "min.s32:2",
    "max.u64:2",
    "abs.s32:1",
    "addc.cc.u32:2",
    "and.b32:2",
    "shl.b32:2",
    "shr.s32:2",
    "shl.b64:2",
    "lop3.b32:4",
    "prmt.b32:3",
    "bfe.u32:3",
    "bfi.b32:4",
    "popc.b32:1",
    "clz.b32:1",
    "brev.b32:1",
    "shf.l.wrap.b32:3",
    "setp.lt.s32:2",
    "setp.lt.and.s32:3",
    "setp.eq.s64:2",
    "setp.gt.f32:2",
    "setp.lt.f64:2",
    "setp.lt.f16:2",
    "selp.b32:3",
    "selp.b64:3",
    "add.f32:2",
    "add.ftz.f32:2",
    "mul.f32:2",
    "fma.rn.f32:3",
    "fma.rm.f32:3",
    "add.rz.f32:2",
    "fma.rn.sat.f32:3",
    "div.rn.f32:2",
    "sqrt.rn.f32:1",
    "min.f32:2",
    "neg.f32:1",
    "add.f64:2",
    "fma.rn.f64:3",
    "fma.rz.f64:3",
    "div.rn.f64:2",
    "ex2.approx.ftz.f32:1",
    "lg2.approx.f32:1",
    "sin.approx.f32:1",
    "tanh.approx.f32:1",
    "rsqrt.approx.f32:1",
    "rcp.approx.ftz.f32:1",
    "add.f16:2",
    "add.f16x2:2",
    "fma.rn.f16x2:3",
    "fma.rn.bf16x2:3",
    "max.f16x2:2",
    "cvt.s64.s32:1",
    "cvt.u32.u64:1",
    "cvt.u32.u16:1",
    "cvt.rn.f32.s32:1",
    "cvt.rn.f32.u32:1",
    "cvt.rn.f64.s32:1",
    "cvt.rn.f32.u64:1",
    "cvt.rzi.s32.f32:1",
    "cvt.rzi.u32.f32:1",
    "cvt.rzi.s64.f64:1",
    "cvt.rn.f32.f64:1",
    "cvt.f64.f32:1",
    "cvt.rn.f16.f32:1",
    "cvt.f32.f16:1",
    "cvt.rn.bf16x2.f32:2",
    "cvt.rni.f32.f32:1",
    "dp4a.s32.s32:3",
    "vabsdiff4.u32.u32.u32.add:3",
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int count, char **arguments)
{
    const bool given = count > 1;
    const size_t n = given ? (size_t)count - 1 : sizeof usual / sizeof *usual;
    static struct alu_run run;
    for (unsigned s = 0; s < SG_MAX_SOURCES; s++)
        for (unsigned i = 0; i < 32; i++)
            run.s[s].u.q[i] =
                0x3ff3800000000003 + ((uint64_t)(s + 1) << 33) + ((uint64_t)i << 20 | (s < 2 ? 0x3f800000u : 5u));
    for (size_t o = 0; o < n; o++) {
        char text[96];
        snprintf(text, sizeof text, "%s", given ? arguments[o + 1] : usual[o]);
        char *colon = strchr(text, ':');
        const unsigned sources = colon ? (unsigned)atoi(colon + 1) : 2;
        if (colon)
            *colon = '\0';
        printf("%-28s", text);
        ALU_LEVELS(level) {
            struct alu_case c;
            if (alu_find(&c, level, text, sources)) {
                printf("%s\n", c.why);
                return 1;
            }
            struct sg_rows r = { .d = &run.d, .s = { &run.s[0], &run.s[1], &run.s[2], &run.s[3] }, .carry = &run.carry,
                                 .p = &run.p, .q = NULL, .in = 0x5a5a1234,
                                 .immediate = c.alu.immediate_source >= 0 ? 0x96 : c.alu.immediate };
            unsigned times = 1000;
            double took = 0;
            for (; took < 0.01; times *= 4) {
                const double start = now();
                for (unsigned i = 0; i < times; i++)
                    c.alu.function(&r);
                took = now() - start;
                if (took >= 0.01)
                    printf("  %s %6.2f", sg_cpu_name(level), 32.0 * times / took * 1e-9);
            }
        }
        printf("\n");
    }
    return 0;
}
