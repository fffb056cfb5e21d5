/*
 * exec.c: a fuzz target for kernels that are executed. Random text is seldom a kernel, so the input chooses: each group
 * of four bytes is one instruction of the table below, with its registers and its constant; every fourth instruction
 * has a label, to which branches go, forward and back. What a kernel may do is end well, end with a fault, or run on
 * until it is cancelled. AddressSanitizer looks for what it may not do.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/exec/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WINDOW = 32 << 20, MAPPED = 8 << 20, MOST = 256, LABELS = 64, PATIENCE_MS = 200 };

/* R 32 bits, A 64 bits, F and D numbers, P predicate, H 16 bits: 8 of each; I a constant; L a label. */
static const char *const table[] = {
    "add.u32 R,R,I;", "sub.s32 R,R,R;", "mul.lo.u32 R,R,R;", "mul.wide.u32 A,R,R;", "mad.lo.s32 R,R,R,R;",
    "mad.hi.u32 R,R,R,R;", "div.s32 R,R,R;", "rem.u32 R,R,R;", "div.u64 A,A,A;", "rem.s64 A,A,A;", "abs.s32 R,R;",
    "neg.s64 A,A;", "min.s32 R,R,R;", "max.u64 A,A,A;", "and.b32 R,R,I;", "or.b64 A,A,A;", "xor.b32 R,R,R;",
    "not.b32 R,R;", "shl.b32 R,R,R;", "shr.s64 A,A,R;", "shf.l.wrap.b32 R,R,R,R;", "bfe.u32 R,R,R,R;",
    "bfe.s64 A,A,R,R;", "bfi.b32 R,R,R,R,R;", "brev.b64 A,A;", "clz.b64 R,A;", "popc.b32 R,R;", "bfind.s32 R,R;",
    "prmt.b32 R,R,R,R;", "lop3.b32 R,R,R,R,0x96;", "dp4a.u32.s32 R,R,R,R;", "sad.u32 R,R,R,R;", "szext.wrap.u32 R,R,R;",
    "add.cc.u32 R,R,R;", "addc.u32 R,R,R;", "mul24.lo.u32 R,R,R;", "fns.b32 R,R,R,R;", "bmsk.clamp.b32 R,R,R;",
    "add.rn.f32 F,F,F;", "mul.rz.f32 F,F,F;", "fma.rn.f64 D,D,D,D;", "div.rn.f32 F,F,F;", "div.approx.f32 F,F,F;",
    "sqrt.rn.f64 D,D;", "rcp.approx.ftz.f32 F,F;", "sin.approx.f32 F,F;", "ex2.approx.f32 F,F;", "tanh.approx.f32 F,F;",
    "min.NaN.f32 F,F,F;", "copysign.f64 D,D,D;", "testp.finite.f32 P,F;", "cvt.rzi.s32.f32 R,F;", "cvt.rn.f32.u64 F,A;",
    "cvt.sat.u8.s32 H,R;", "cvt.rn.f16.f32 H,F;", "cvt.f32.f16 F,H;", "cvt.rmi.s64.f64 A,D;",
    "cvt.rn.bf16x2.f32 R,F,F;", "fma.rn.f16x2 R,R,R,R;", "add.f16 H,H,H;", "mov.b32 F,R;", "mov.b64 A,{R,R};",
    "mov.b64 {R,R},A;", "mov.b64 D,A;", "setp.lt.s32 P,R,R;", "setp.eq.and.f32 P,F,F,P;", "setp.ltu.f64 P,D,D;",
    "set.gt.u32.s32 R,R,R;", "selp.b64 A,A,A,P;", "slct.f32.s32 F,F,F,R;", "and.pred P,P,P;", "mov.u32 R,I;",
    "mov.u64 A,I;", "mov.u32 R,%tid.x;", "mov.u32 R,%laneid;", "mov.u64 A,%clock64;", "activemask.b32 R;",
    /* memory, at addresses good and bad */
    "ld.global.u32 R,[a0+I];", "st.global.u64 [a0+I],A;", "ld.global.v4.u32 {R,R,R,R},[a1];", "ld.u8 R,[A];",
    "st.u16 [A],R;", "st.global.v2.f64 [a1],{D,D};", "ld.shared.u32 R,[buffer+I];", "st.shared.u32 [R],R;",
    "ld.shared.v2.u64 {A,A},[R];", "st.local.u32 [stack+I],R;", "ld.local.u64 A,[R];", "ld.const.u32 R,[fixed+I];",
    "ld.param.u64 A,[out];", "ld.volatile.global.u32 R,[a1];", "ld.acquire.gpu.u32 R,[a1];",
    "st.release.sys.u32 [a1],R;", "atom.global.add.u32 R,[a1],R;", "atom.global.cas.b64 A,[a1],A,A;",
    "atom.shared.exch.b32 R,[R],R;", "atom.add.f32 F,[a1],F;", "atom.global.max.s64 A,[a1],A;",
    "atom.global.inc.u32 R,[a1],R;", "red.global.or.b32 [a1],R;", "red.shared.add.u32 [R],R;", "membar.gl;",
    "fence.acq_rel.gpu;", "prefetch.global.L2 [a1];", "cvta.to.shared.u64 A,A;", "cvta.shared.u64 A,A;",
    "cvta.local.u64 A,A;", "isspacep.shared P,A;", "add.u64 a1,a0,I;", "mad.wide.u32 a1,R,4,a0;",
    "cp.async.ca.shared.global [R],[a1],16;", "cp.async.commit_group;", "cp.async.wait_all;",
    "mbarrier.init.shared.b64 [buffer],I;", "mbarrier.arrive.shared.b64 A,[buffer];",
    "mbarrier.test_wait.shared.b64 P,[buffer],A;", "mbarrier.inval.shared.b64 [buffer];",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {R,R},[R];",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {F,F,F,F},{R,R},{R},{F,F,F,F};", "alloca.u64 A,R;",
    "stacksave.u64 A;", "stackrestore.u64 A;",
    /* lanes and blocks */
    "shfl.sync.bfly.b32 R|P,R,R,R,I;", "shfl.sync.idx.b32 R,R,R,31,-1;", "vote.sync.ballot.b32 R,P,I;",
    "vote.sync.any.pred P,P,-1;", "match.any.sync.b32 R,R,I;", "match.all.sync.b64 R|P,A,-1;",
    "redux.sync.add.s32 R,R,I;", "bar.warp.sync I;", "bar.sync 0;", "barrier.cta.arrive I,64;",
    "bar.red.popc.u32 R,1,P;", "elect.sync R|P,-1;", "nanosleep.u32 20;",
    /* control */
    "bra L;", "@P bra L;", "@!P bra L;", "@P exit;", "@P trap;", "brkpt;", "@P ret;", "bra.uni L;",
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x],R; call (y),twice,(x); ld.param.b32 R,[y]; }",
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x],R; call (y),deep,(x); ld.param.b32 R,[y]; }",
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x],R; call (y),A,(x),shape; ld.param.b32 R,[y]; }"
};
enum { ROWS = sizeof table / sizeof *table };

static const char head[] =
    ".version 8.7\n.target sm_100a\n.address_size 64\n"
    ".const .b32 fixed[64] = {1,2,3,4};\n.global .b32 word[256];\n"
    ".func (.param .b32 o) twice(.param .b32 i)\n"
    "{ .reg .b32 t; ld.param.b32 t,[i]; add.u32 t,t,t; st.param.b32 [o],t; ret; }\n"
    ".func (.param .b32 o) deep(.param .b32 i)\n"
    "{ .local .b32 more[16]; .reg .b32 t; .reg .pred q; ld.param.b32 t,[i]; setp.eq.u32 q,t,0; @q bra end;\n"
    "sub.u32 t,t,1; { .param .b32 x; .param .b32 y; st.param.b32 [x],t; call (y),deep,(x); ld.param.b32 t,[y]; }\n"
    "end: st.param.b32 [o],t; ret; }\n"
    ".visible .entry k(.param .u64 out)\n{\n"
    ".shared .align 16 .b32 buffer[256]; .local .align 8 .b32 stack[32];\n"
    ".reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<8>; .reg .b64 a<8>; .reg .f32 f<8>; .reg .f64 d<8>;\n"
    "shape: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "ld.param.u64 a0,[out]; mov.u32 r0,%tid.x; mov.u32 r1,%ctaid.x; mov.u64 a1,a0; mov.u32 r2,buffer;\n"
    "mov.u64 a2,twice; cvt.u64.u32 a3,r0; mov.f32 f0,0f3F800000; mov.f64 d0,0d3FF0000000000000; setp.lt.u32 "
    "p0,r0,17;\n";
static const int32_t constants[16] = {
    0, 1, -1, 2, 3, 4, 7, 15, 16, 0xff, 0x7fffffff, 256, 4096, 65536, INT32_MIN, 1020
};

static sg_engine *engine;
static unsigned char *memory;

static void start(void)
{
    static _Atomic uint8_t rights[WINDOW >> SG_GRANULE_SHIFT];
    const struct sg_limits limits = device_limits(2, (size_t)64 << 20);
    /* Granules before and behind are there and may not be touched. */
    memory = device_window(WINDOW, rights, 1, (MAPPED >> SG_GRANULE_SHIFT) + 1);
    if (!memory || sg_engine_create(&limits, 0, 2, 0, &engine) != 0)
        abort();
}

/* One instruction: capital letters of the row are replaced by what the bytes choose. */
static size_t write_row(char *out, size_t room, const uint8_t bytes[4], unsigned labels)
{
    uint32_t choice = (uint32_t)(bytes[1] | bytes[2] << 8 | bytes[3] << 16);
    size_t n = 0;
    for (const char *at = table[bytes[0] % ROWS]; *at && n + 16 < room; at++) {
        static const char letters[] = "RAFDPH", names[] = "rafdph";
        const char *letter = strchr(letters, *at);
        bool word = at[1] >= 'a' && at[1] <= 'z' && *at == 'N'; /* NaN */
        if (letter && !word && !(at > table[bytes[0] % ROWS] && at[-1] >= 'a' && at[-1] <= 'z' && at[1] >= 'a')) {
            n += (size_t)sprintf(out + n, "%c%u", names[letter - letters], choice & 7);
            choice = choice >> 3 | choice << 21;
        } else if (*at == 'I') {
            n += (size_t)sprintf(out + n, "%d", constants[choice & 15]);
            choice = choice >> 4 | choice << 20;
        } else if (*at == 'L' && at[1] != '2') {
            n += (size_t)sprintf(out + n, "L%u", choice % labels);
        } else {
            out[n++] = *at;
        }
    }
    out[n++] = '\n';
    out[n] = '\0';
    return n;
}

struct ending {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended;
};

static void done(void *context, int error)
{
    struct ending *ending = context;
    (void)error;
    pthread_mutex_lock(&ending->lock);
    ending->ended = true;
    pthread_cond_signal(&ending->over);
    pthread_mutex_unlock(&ending->lock);
}

static void run(sg_kernel *kernel)
{
    struct ending ending = { .ended = false };
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&ending.over, &clock);
    pthread_mutex_init(&ending.lock, NULL);
    uint64_t out = (uintptr_t)memory + (2 << 20);
    struct sg_launch launch = { .kernel = kernel,
                                .grid = { 2, 1, 1 },
                                .block = { 48, 1, 1 },
                                .dynamic_shared = 256,
                                .stack = 1024,
                                .params = &out,
                                .params_size = sizeof out,
                                .done = done,
                                .context = &ending };
    if (sg_engine_launch(engine, &launch) == 0) {
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_nsec += PATIENCE_MS * 1000000l;
        end.tv_sec += end.tv_nsec / 1000000000;
        end.tv_nsec %= 1000000000;
        pthread_mutex_lock(&ending.lock);
        while (!ending.ended && pthread_cond_timedwait(&ending.over, &ending.lock, &end) == 0)
            ;
        if (!ending.ended) {
            pthread_mutex_unlock(&ending.lock);
            sg_engine_cancel(engine, 702);
            pthread_mutex_lock(&ending.lock);
        }
        while (!ending.ended) /* a kernel that cannot be cancelled is a finding: libFuzzer's timeout */
            pthread_cond_wait(&ending.over, &ending.lock);
        pthread_mutex_unlock(&ending.lock);
    }
    pthread_cond_destroy(&ending.over);
    pthread_mutex_destroy(&ending.lock);
    pthread_condattr_destroy(&clock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[sizeof head + MOST * 160], log[1024];
    unsigned rows = (unsigned)(size / 4 < MOST ? size / 4 : MOST), labels = rows / 4 + 1;
    struct ptx_module *module = NULL;
    sg_program *program;
    sg_kernel *kernel;
    uint64_t addresses[16] = { 0 };
    if (!engine)
        start();
    size_t at = (size_t)sprintf(text, "%s", head);
    for (unsigned i = 0; i < rows; i++) {
        if (i % 4 == 0)
            at += (size_t)sprintf(text + at, "L%u:\n", i / 4);
        at += write_row(text + at, sizeof text - at, data + 4 * i, labels);
    }
    if (rows % 4 == 0)
        at += (size_t)sprintf(text + at, "L%u:\n", rows / 4);
    at += (size_t)sprintf(text + at, "st.global.u32 [a0],r0;\nret;\n}\n");
    struct ptx_source source = { .text = text, .size = at, .name = "fuzz" };
    if (getenv("FUZZ_SHOW"))
        fputs(text, stderr);
    if (ptx_module_read(&source, 1, &module, log, sizeof log) != 0) {
        if (getenv("FUZZ_SHOW"))
            fputs(log, stderr);
        return 0;
    }
    for (uint32_t i = 0; i < module->variable_count && i < 16; i++)
        addresses[i] = (uintptr_t)memory + (4 << 20) + i * 4096;
    if (sg_program_create(engine, module, addresses, NULL, &program) != 0)
        return 0;
    if (sg_program_kernel(program, "k", &kernel, log, sizeof log) == 0)
        run(kernel);
    else if (getenv("FUZZ_SHOW"))
        fputs(log, stderr);
    sg_program_destroy(program);
    return 0;
}
