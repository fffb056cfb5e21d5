/*
 * bench.c: how many thread instructions the software GPU executes per second and core: `make bench-softgpu`.
 *
 * Each line is a kernel of PTX: a loop around a body that holds one kind of instruction many times, run by full warps
 * on one host thread, or with half of the lanes away in the other arm of a branch. What is counted is the body's
 * instructions times the active lanes; the loop's own are left out. Time is the process's CPU time, so that other work
 * on the machine does not count, and the best of a few runs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/exec/device.h"

enum { BLOCKS = 8, THREADS = 256, REPEAT = 32, RUNS = 5 };
static const double GOAL = 1e9;

struct line {
    const char *name, *body;
    unsigned each;
}; /* each: instructions of one body */
static const struct line lines[] = {
    { "add.s32", "add.s32 r4, r4, r5;", 1 },
    { "mad.lo.s32", "mad.lo.s32 r4, r4, r5, r6;", 1 },
    { "fma.rn.f32", "fma.rn.f32 f1, f1, f2, f3;", 1 },
    { "fma.rn.f64", "fma.rn.f64 d1, d1, d2, d3;", 1 },
    { "setp + selp", "setp.lt.s32 p1, r4, r5; selp.b32 r4, r5, r6, p1;", 2 },
    { "ld.global.f32, coalesced", "ld.global.f32 f1, [a1];", 1 },
    { "st.global.f32, coalesced", "st.global.f32 [a1], f2;", 1 },
    { "ld.global.f64, coalesced", "ld.global.f64 d1, [a2];", 1 },
    { "ld.shared.f32", "ld.shared.f32 f1, [r7];", 1 },
    { "mul.wide + add.s64", "mul.wide.s32 a3, r4, 4; add.s64 a3, a3, a1;", 2 },
    { "ld.global.f32, gathered", "ld.global.f32 f1, [a4];", 1 },
    { "ld.global.v4.f32", "ld.global.v4.f32 {f1, f4, f5, f6}, [a5];", 1 },
    { "shfl.sync.bfly", "shfl.sync.bfly.b32 r4, r5, 1, 31, 0xffffffff;", 1 },
    { "st.shared.f32", "st.shared.f32 [r7], f1;", 1 },
    /* steps of a block between barriers: a reduction's, a sort's, a tile's of a matrix product */
    { "bar.sync: ld, add, st", "ld.shared.f32 f1, [r7+128]; add.f32 f2, f2, f1; st.shared.f32 [r7], f2; bar.sync 0;",
      4 },
    { "bar.sync: 2 ld, 8, 2 st",
      "ld.shared.f32 f1, [r7]; ld.shared.f32 f4, [r7+128]; setp.lt.f32 p1, f1, f4; selp.f32 f2, f1, f4, p1; selp.f32 "
      "f3, f4, f1, p1; "
      "add.s32 r4, r4, r5; xor.b32 r4, r4, r6; add.s32 r4, r4, r5; xor.b32 r4, r4, r6; mov.b32 r8, r4; st.shared.f32 "
      "[r7], f2; st.shared.f32 [r7+128], f3; bar.sync 0;",
      13 },
    { "bar.sync: ld, st, 16 fma",
      "ld.global.f32 f1, [a1]; st.shared.f32 [r7], f1; bar.sync 0; fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, "
      "f3; fma.rn.f32 f2, f1, f2, f3; "
      "fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; "
      "fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; "
      "fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; "
      "fma.rn.f32 f2, f1, f2, f3; fma.rn.f32 f2, f1, f2, f3; "
      "fma.rn.f32 f2, f1, f2, f3; bar.sync 0;",
      20 },
    { "atom.shared.add", "atom.shared.add.u32 r8, [r7], 1;", 1 },
    { "mma.m16n8k16.f32.f16",
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f1, f2, f3, f4}, {r4, r5, r6, r4}, "
      "{r5, r6}, {f1, f2, f3, f4};",
      1 },
    { "div.rn.f32", "div.rn.f32 f1, f2, f3;", 1 },
    { "ex2.approx.f32", "ex2.approx.f32 f1, f2;", 1 },
    { "cvt.rn.f32.s32", "cvt.rn.f32.s32 f1, r4;", 1 },
};

static unsigned char *device_memory(void)
{
    enum { SIZE = 16 << 20, GRANULES = SIZE >> SG_GRANULE_SHIFT };
    static _Atomic uint8_t rights[GRANULES];
    unsigned char *p = device_window(SIZE, rights, 0, GRANULES);
    if (p)
        memset(p, 0, SIZE);
    return p;
}

static char *kernel_of(const char *body, bool divided)
{
    static char text[65536];
    size_t n = (size_t)snprintf(
        text, sizeof text,
        ".version 8.7\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 s[4096];\n"
        ".visible .entry k(.param .u64 out, .param .u32 count)\n{\n"
        ".reg .pred p<4>; .reg .b32 r<16>; .reg .b64 a<8>; .reg .f32 f<8>; .reg .f64 d<4>;\n"
        "ld.param.u64 a0, [out]; ld.param.u32 r9, [count]; mov.u32 r1, %%tid.x; mul.wide.u32 a1, r1, 4; add.u64 a1, "
        "a1, a0;\n"
        "mul.wide.u32 a2, r1, 8; add.u64 a2, a2, a0; xor.b32 r2, r1, 21; mul.wide.u32 a4, r2, 68; add.u64 a4, a4, a0; "
        "mul.wide.u32 a5, r1, 16; add.u64 a5, a5, a0;\n"
        "mov.u32 r7, s; and.b32 r2, r1, 31; mad.lo.u32 r7, r2, 4, r7; mov.u32 r4, r1; mov.u32 r5, 3; mov.u32 r6, 5;\n"
        "mov.f32 f1, 0f3F800000; mov.f32 f2, 0f3F800001; mov.f32 f3, 0f3F000000; mov.f64 d1, 0d3FF0000000000000; "
        "mov.f64 d2, d1; mov.f64 d3, d1;\n"
        "and.b32 r2, r1, 1; setp.eq.u32 p3, r2, 1;\nLOOP:\n%s",
        divided ? "@p3 bra OTHER;\n" : "");
    for (int k = 0; k < REPEAT; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", body);
    if (divided) {
        n += (size_t)snprintf(text + n, sizeof text - n, "bra JOIN;\nOTHER:\n");
        for (int k = 0; k < REPEAT; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", body);
        n += (size_t)snprintf(text + n, sizeof text - n, "JOIN:\n");
    }
    snprintf(text + n, sizeof text - n, "sub.u32 r9, r9, 1; setp.ne.u32 p2, r9, 0;\n@p2 bra LOOP;\nret;\n}\n");
    return text;
}

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended;
    int error;
};
static void done(void *context, int error)
{
    struct waiting *w = context;
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    w->error = error;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

/* CPU seconds; negative: it failed. */
static double run(sg_engine *e, const sg_kernel *k, void *memory, uint32_t count)
{
    struct {
        void *out;
        uint32_t count;
    } params = { memory, count };
    struct waiting w = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0 };
    struct sg_launch launch = { .kernel = k,
                                .grid = { BLOCKS, 1, 1 },
                                .block = { THREADS, 1, 1 },
                                .params = &params,
                                .params_size = 12,
                                .done = done,
                                .context = &w };
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    if (sg_engine_launch(e, &launch))
        return -1;
    pthread_mutex_lock(&w.lock);
    while (!w.ended)
        pthread_cond_wait(&w.over, &w.lock);
    pthread_mutex_unlock(&w.lock);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return w.error ? -1 : (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

/* Thread instructions per second; negative: it failed, and said why. */
static double measure(sg_engine *e, void *memory, const struct line *l, bool divided)
{
    const char *text = kernel_of(l->body, divided);
    struct ptx_source source = { text, strlen(text), l->name };
    struct ptx_module *m;
    sg_program *p;
    sg_kernel *k;
    char log[512] = "";
    uint64_t none[16] = { 0 };
    if (ptx_module_read(&source, 1, &m, log, sizeof log) || sg_program_create(e, m, none, NULL, &p)) {
        fprintf(stderr, "%s: %s\n", l->name, log);
        return -1;
    }
    double best = -1;
    if (sg_program_kernel(p, "k", &k, log, sizeof log))
        fprintf(stderr, "%s: %s\n", l->name, log);
    else {
        uint32_t count = 16;
        double t = run(e, k, memory, 1); /* FLYT_SOFTGPU_JIT=always compiles here */
        if (t > 0)
            t = run(e, k, memory, count);
        if (t > 0) {
            while (t < 0.02 && count < 1u << 20)
                t = run(e, k, memory, count *= 2);
            best = t;
            for (int i = 1; i < RUNS; i++) {
                t = run(e, k, memory, count);
                best = t < best ? t : best;
            }
            best = (double)BLOCKS * THREADS * REPEAT * l->each * count / best;
        } else
            fprintf(stderr, "%s: the kernel failed\n", l->name);
    }
    sg_program_destroy(p);
    return best;
}

/* An argument chooses the lines whose names contain it. */
int main(int argc, char **argv)
{
    sg_engine *e;
    unsigned char *memory = device_memory();
    const struct sg_limits limits = device_limits(4, 0);
    if (!memory || sg_engine_create(&limits, 0, 1, 0, &e))
        return 1;
    int failed = 0;
    printf("%-28s %16s %16s\n", "10^9 thread instructions/s", "full warps", "half the lanes");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (argc > 1 && !strstr(lines[i].name, argv[1]))
            continue;
        double full = measure(e, memory, &lines[i], false);
        bool together = strstr(lines[i].name, "shfl") || strstr(lines[i].name, "bar.") || strstr(lines[i].name, "mma.");
        double half = together ? 0 : measure(e, memory, &lines[i], true);
        printf("%-28s %16.3f %16.3f%s\n", lines[i].name, full / 1e9, half / 1e9,
               i < 7 && (full < GOAL || half < GOAL / 2) ? "   below the goal of 1 and 0.5" : "");
        fflush(stdout);
        failed |= full < 0 || half < 0;
    }
    sg_engine_destroy(e);
    return failed;
}
