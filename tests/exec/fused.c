/*
 * fused.c: handlers that do an instruction in one pass (softgpu/exec/fused.h) do what the general ones do.
 *
 * Each kernel is loaded twice, once with FLYT_SOFTGPU_FUSED=off. Both copies run with the same random addresses, active
 * lanes and values. All memory that they leave, the error and the line of the log that describes a fault must be equal.
 *
 * Under FLYT_SOFTGPU_JIT=always the first copy is compiled (softgpu/jit/): so this compares compiler and interpreter.
 * As compiling takes its time, EXEC_TEST_SHARE=N runs each N-th kernel only.
 *
 * shows: software GPU: random kernels leave the same memory, the same fault and the same message, whether their
 *   instructions are done one by one, in one pass, or by the compiler
 */
#include "tests/exec/fused.h"

enum { ROUNDS = 60 };

struct access {
    const char *text;
    unsigned size;
    bool shared;
};
/* A: the address. */
static const struct access accesses[] = {
    { "ld.global.u8 r4, [A];", 1, false },
    { "ld.global.s8 r4, [A];", 1, false },
    { "ld.global.u8 h4, [A];", 1, false },
    { "ld.global.s8 h4, [A];", 1, false },
    { "ld.global.s8 a8, [A];", 1, false },
    { "ld.global.u16 h4, [A];", 2, false },
    { "ld.global.s16 r4, [A];", 2, false },
    { "ld.global.nc.u32 r4, [A+4];", 4, false },
    { "ld.u32 r4, [A-4];", 4, false },
    { "ld.global.f32 f4, [A];", 4, false },
    { "ld.global.u32 a8, [A];", 4, false },
    { "ld.volatile.global.u32 r4, [A];", 4, false },
    { "ld.relaxed.gpu.global.s16 r4, [A];", 2, false },
    { "ld.volatile.u64 a8, [A+8];", 8, false },
    { "ld.global.u64 a8, [A];", 8, false },
    { "ld.global.v2.u32 {r4, r5}, [A];", 8, false },
    { "ld.global.v4.u32 {r4, _, r6, r7}, [A];", 16, false },
    { "ld.global.v2.u64 {a8, a9}, [A];", 16, false },
    { "st.global.u8 [A], r4;", 1, false },
    { "st.global.u8 [A], a8;", 1, false },
    { "st.global.u16 [A], h4;", 2, false },
    { "st.global.f32 [A], f4;", 4, false },
    { "st.u32 [A+4], r4;", 4, false },
    { "st.global.u32 [A], a8;", 4, false },
    { "st.global.u64 [A], a8;", 8, false },
    { "st.global.v2.u32 [A], {r4, r5};", 8, false },
    { "st.global.v4.u32 [A], {r4, r5, r6, r7};", 16, false },
    { "st.global.v2.u64 [A], {a8, a9};", 16, false },
    { "ld.shared.u32 r4, [A];", 4, true },
    { "ld.shared.f32 f4, [A+4];", 4, true },
    { "ld.shared.u64 a8, [A];", 8, true },
    { "ld.shared.v2.u32 {r4, r5}, [A];", 8, true },
    { "ld.shared.v2.u32 {_, r5}, [A-8];", 8, true },
    { "ld.shared.v4.u32 {r4, r5, r6, r7}, [A];", 16, true },
    { "st.shared.u32 [A], r4;", 4, true },
    { "st.shared.f32 [A-4], f4;", 4, true },
    { "st.shared.u64 [A], a8;", 8, true },
    { "st.shared.v4.u32 [A], {r4, r5, r6, r7};", 16, true },
    { "atom.shared.add.u32 r4, [A], r5;", 4, true },
    { "red.shared.add.u32 [A], r5;", 4, true },
    { "atom.shared.add.f32 f4, [A], f4;", 4, true },
    { "atom.shared.and.b32 r5, [A+4], r6;", 4, true },
    { "atom.shared.or.b32 r6, [A], r4;", 4, true },
    { "red.shared.xor.b32 [A], r6;", 4, true },
    { "atom.shared.exch.b32 r7, [A], r4;", 4, true },
    { "atom.shared.cas.b32 r4, [A], r5, r6;", 4, true },
    { "atom.shared.inc.u32 r5, [A], r6;", 4, true },
    { "atom.shared.dec.u32 r6, [A], r4;", 4, true },
    { "atom.shared.min.s32 r7, [A], r4;", 4, true },
    { "atom.shared.max.u32 r4, [A-4], r7;", 4, true },
    { "atom.shared.add.u64 a8, [A], a9;", 8, true },
    { "atom.shared.max.s64 a9, [A], a8;", 8, true },
    { "atom.shared.cas.b64 a8, [A], a9, a8;", 8, true },
    { "red.shared.min.u64 [A], a9;", 8, true },
    { "atom.shared.add.f64 d4, [A], d4;", 8, true },
    { "atom.global.add.u32 r4, [A], r5;", 4, false },
    { "red.global.add.u32 [A], r5;", 4, false },
    { "atom.add.f32 f4, [A], f4;", 4, false },
    { "red.global.add.f32 [A], f4;", 4, false },
    { "atom.global.and.b32 r5, [A+4], r6;", 4, false },
    { "atom.or.b32 r6, [A], r4;", 4, false },
    { "red.global.xor.b32 [A], r6;", 4, false },
    { "atom.global.exch.b32 r7, [A], r4;", 4, false },
    { "atom.global.cas.b32 r4, [A], r5, r6;", 4, false },
    { "atom.global.inc.u32 r5, [A], r6;", 4, false },
    { "atom.global.dec.u32 r6, [A], r4;", 4, false },
    { "atom.global.min.s32 r7, [A], r4;", 4, false },
    { "atom.global.max.u32 r4, [A-4], r7;", 4, false },
    { "atom.global.add.u64 a8, [A], a9;", 8, false },
    { "atom.global.max.s64 a9, [A], a8;", 8, false },
    { "atom.global.cas.b64 a8, [A], a9, a8;", 8, false },
    { "atom.exch.b64 a9, [A], a8;", 8, false },
    { "red.global.min.u64 [A], a9;", 8, false },
    { "atom.global.add.f64 d4, [A], d4;", 8, false },
};

static const char *kernel_of(const char *text, const char *address, bool guarded, bool offset)
{
    kernel_begin();
    put("%s%s%s", START, offset ? "add.u32 r12, r12, r10;\n" : "", guarded ? "" : "@!p1 bra OVER;\n");
    put_access(guarded ? "@p1 " : "", text, address);
    put("OVER:%s", END);
    return kernel.text;
}

EXEC_TEST(accesses_are_as_general_handlers_do_them)
{
    unsigned faults[2] = { 0, 0 }, share = exec_share(), turn = 0;
    for (size_t k = 0; k < sizeof accesses / sizeof *accesses; k++)
        for (int form = 0; form < 4; form++) {
            const struct access *a = &accesses[k];
            unsigned modules[2];
            bool narrow = a->shared && form & 1;
            struct places p = make_places();
            if ((form & 1 && !a->shared) || turn++ % share)
                continue;
            in_many = !a->shared && !strncmp(a->text, "ld", 2);
            twice_load(kernel_of(a->text, narrow ? "r12" : "a1", form & 2, narrow), modules);
            for (int round = 0; round < ROUNDS; round++) {
                for (unsigned t = 0; t < THREADS * 32; t++)
                    p.values[t] = (unsigned char)any(256);
                make_addresses(&p, a->shared ? (narrow ? 0 : 1024) : (uintptr_t)p.area, a->shared ? SHARED : AREA,
                               a->size);
                make_active(&p);
                compare(&p, modules, a->text, faults);
            }
            gpu_reset();
        }
    in_many = false;
    assert_true(faults[0] > 1000 / share && faults[1] > 300 / share);
}

/* ---- arithmetic and branches ---- */

static const char *const lines[] = {
    "add.f32 f4, f4, f5;", "add.rn.f32 f5, f6, f4;", "sub.f32 f6, f4, f5;", "sub.rn.f32 f4, f5, f6;",
    "mul.f32 f5, f4, f6;", "mul.rn.f32 f4, f4, f6;", "fma.rn.f32 f6, f4, f5, f6;", "add.ftz.f32 f4, f5, f6;",
    "add.rn.ftz.f32 f5, f5, f6;",
    "sub.ftz.f32 f4, f4, f5;", "sub.rn.ftz.f32 f6, f6, f5;", "mul.ftz.f32 f4, f5, f6;", "mul.rn.ftz.f32 f5, f4, f5;",
    "fma.rn.ftz.f32 f5, f5, f6, f4;", "add.s32 r4, r4, r5;", "add.u32 r5, r5, r6;", "sub.s32 r6, r4, r5;",
    "sub.u32 r4, r6, r5;", "mul.lo.s32 r5, r4, r6;", "mul.lo.u32 r4, r4, 77;", "mad.lo.s32 r6, r4, r5, r6;",
    "mad.lo.u32 r4, r5, r5, r4;", "and.b32 r6, r6, r4;", "or.b32 r5, r5, 12;", "xor.b32 r4, r4, r6;", "not.b32 r5, r5;",
    "and.b32 r7, r7, 63;", "shl.b32 r6, r6, r7;", "shr.u32 r5, r5, r7;", "shr.b32 r4, r4, 3;", "shr.s32 r6, r4, r7;",
    "shl.b32 r5, r5, r6;", "shr.s32 r4, r4, r5;", "min.s32 r4, r5, r6;", "max.s32 r5, r5, r4;", "min.u32 r6, r4, r5;",
    "max.u32 r4, r4, r5;", "add.s64 a8, a8, a9;", "add.u64 a9, a8, a9;", "sub.s64 a8, a9, a8;", "sub.u64 a9, a9, 5;",
    "and.b64 a8, a8, a9;", "or.b64 a9, a8, a9;", "shl.b64 a8, a8, r7;", "shl.b64 a9, a9, r5;",
    "mul.wide.u32 a8, r4, r5;", "mul.wide.s32 a9, r5, r6;", "selp.b32 r4, r5, r6, p2;", "selp.u32 r5, r4, 9, p2;",
    "selp.s32 r6, r6, r4, p2;", "selp.f32 f4, f5, f6, p2;", "setp.eq.s32 p2, r4, r5;", "setp.eq.u32 p2, r5, r6;",
    "setp.eq.b32 p2, r4, r4;", "setp.ne.s32 p2, r4, r6;", "setp.ne.u32 p2, r4, r4;", "setp.ne.b32 p2, r5, r6;",
    "setp.lt.s32 p2, r4, r5;", "setp.le.s32 p2, r4, r5;", "setp.gt.s32 p2, r4, r5;", "setp.ge.s32 p2, r4, r4;",
    "setp.lt.u32 p2, r4, r5;", "setp.le.u32 p2, r5, r5;", "setp.gt.u32 p2, r4, r6;", "setp.ge.u32 p2, r4, r5;",
    "setp.lt.f32 p2, f4, f5;", "setp.neu.f32 p2, f4, f4;", "mov.b32 r5, r4;", "mov.u64 a9, a8;", "mov.b32 f5, r4;",
    "mov.b32 r6, f4;", "mov.u32 r4, %laneid;", "popc.b32 r4, r5;", "cvt.rn.f32.s32 f4, r4;", "bfe.u32 r4, r5, 3, 5;",
    "neg.f32 f4, f5;", "abs.f32 f5, f6;", "neg.s32 r4, r4;", "cvt.rn.f32.u32 f5, r5;", "cvt.u64.u32 a8, r4;",
    "cvt.s64.s32 a9, r5;", "cvt.u32.u64 r6, a8;", "mul.hi.s32 r5, r6, r4;", "xor.b64 a8, a8, a9;",
    "shr.u64 a8, a9, r7;", "shr.s64 a9, a9, r5;", "shr.b64 a8, a8, r7;", "mul.lo.s64 a9, a8, a9;",
    "mad.wide.u32 a8, r4, r5, a9;", "mad.wide.s32 a9, r6, r5, a8;", "selp.b64 a8, a9, a8, p2;",
    "setp.eq.f32 p2, f4, f5;", "setp.ne.f32 p2, f4, f5;", "setp.le.f32 p2, f4, f6;", "setp.gt.f32 p2, f5, f6;",
    "setp.ge.f32 p2, f4, f5;", "setp.equ.f32 p2, f4, f5;", "setp.ltu.f32 p2, f4, f5;", "setp.leu.f32 p2, f5, f6;",
    "setp.gtu.f32 p2, f4, f5;", "setp.geu.f32 p2, f4, f5;", "@p1 setp.lt.f32 p2, f4, f6;", "@!p1 xor.b64 a8, a8, a9;",
    "add.cc.u32 r4, r4, r5;", "addc.u32 r5, r5, r6;", "and.pred p2, p2, p1;", "@p1 not.pred p2, p2;",
    "xor.pred p2, p1, !p2;", "mov.b64 {r4, r5}, a8;", "mov.b64 a9, {r5, r6};", "add.f64 d4, d4, d5;",
    "add.rn.f64 d5, d6, d4;", "sub.f64 d6, d4, d5;", "sub.rn.f64 d4, d5, d4;", "mul.f64 d5, d4, d6;",
    "mul.rn.f64 d6, d6, d5;", "fma.rn.f64 d4, d5, d6, d4;", "div.rn.f64 d5, d4, d6;", "rcp.rn.f64 d6, d4;",
    "sqrt.rn.f64 d4, d5;", "neg.f64 d5, d6;", "abs.f64 d6, d5;", "min.f64 d4, d5, d6;", "max.f64 d5, d4, d6;",
    "setp.eq.f64 p2, d4, d5;", "setp.ne.f64 p2, d4, d6;", "setp.lt.f64 p2, d5, d6;", "setp.le.f64 p2, d4, d5;",
    "setp.gt.f64 p2, d5, d4;", "setp.ge.f64 p2, d6, d6;", "setp.equ.f64 p2, d4, d5;", "setp.neu.f64 p2, d4, d4;",
    "setp.ltu.f64 p2, d4, d6;", "setp.leu.f64 p2, d5, d4;", "setp.gtu.f64 p2, d6, d5;", "setp.geu.f64 p2, d5, d5;",
    "cvt.f64.f32 d4, f4;", "cvt.rn.f32.f64 f5, d5;", "cvt.rn.f64.s32 d6, r4;", "cvt.rn.f64.u32 d4, r5;",
    "setp.eq.s64 p2, a8, a9;", "setp.eq.b64 p2, a8, a8;", "setp.ne.u64 p2, a9, a8;", "setp.ne.b64 p2, a8, a9;",
    "setp.lt.s64 p2, a8, a9;", "setp.le.s64 p2, a9, a8;", "setp.gt.s64 p2, a8, a9;", "setp.ge.s64 p2, a8, a8;",
    "setp.lt.u64 p2, a8, a9;", "setp.le.u64 p2, a8, a9;", "setp.gt.u64 p2, a9, a8;", "setp.ge.u64 p2, a8, a9;",
    "setp.eq.s16 p2, h4, h5;", "setp.ne.u16 p2, h5, h6;", "setp.eq.b16 p2, h6, h6;", "setp.lt.u16 p2, h4, h6;",
    "setp.le.u16 p2, h5, h6;", "setp.gt.u16 p2, h4, h5;", "setp.ge.u16 p2, h6, h4;", "setp.lt.s16 p2, h4, h6;",
    "setp.le.s16 p2, h5, h6;", "setp.gt.s16 p2, h4, h5;", "setp.ge.s16 p2, h6, h4;",
    "setp.lt.and.s32 p2, r4, r5, p1;", "setp.gt.or.u32 p2, r5, r6, !p2;", "setp.ne.xor.b64 p2, a8, a9, p2;",
    "setp.lt.ftz.f32 p2, f4, f5;", "setp.geu.and.ftz.f32 p2, f4, f6, p1;", "setp.gt.or.f64 p2, d4, d5, p1;",
    "setp.lt.and.s32 p2|p3, r4, r6, p1;", "@p1 setp.eq.or.s32 p2, r5, r4, p2;", "setp.eq.s32 p2|p3, r4, r5;",
    "setp.lt.xor.s16 p2, h4, h5, p1;", "setp.lo.u32 p2, r4, r6;", "@p2 setp.nan.f32 p2, f4, f5;",
    "and.b16 h4, h5, h6;", "or.b16 h5, h4, h6;", "xor.b16 h6, h6, h4;", "not.b16 h4, h5;", "selp.b16 h5, h4, h6, p2;",
    "selp.u16 h4, h4, 7, p1;", "min.u16 h4, h5, h6;", "max.u16 h5, h5, h6;", "min.s16 h6, h4, h5;",
    "max.s16 h4, h6, h5;", "shr.u16 h5, h4, r7;", "shr.s16 h6, h5, r7;", "shl.b16 h4, h6, r7;", "shr.s16 h5, h5, r5;",
    "add.s16 h4, h5, h6;", "sub.s16 h5, h4, h6;", "mul.lo.s16 h6, h5, h4;", "mul.lo.u16 h4, h4, 9;",
    "mul.wide.s16 r4, h4, h5;", "cvt.u32.u16 r5, h5;", "cvt.s32.u16 r6, h6;", "cvt.u64.u16 a8, h4;",
    "cvt.s64.u32 a9, r4;", "cvt.u64.s32 a8, r5;", "cvt.s32.s64 r4, a8;", "cvt.u32.s64 r5, a9;", "cvt.u16.u64 h5, a8;",
    "cvt.u16.s32 h6, r5;", "cvt.s16.s32 h4, r6;", "cvt.u8.u32 h5, r4;", "cvt.u16.u8 h6, h5;", "cvt.u32.u8 r4, h4;",
    "cvt.u32.u8 r5, r6;", "cvt.s32.s16 r6, h5;", "cvt.s32.s8 r4, h6;", "cvt.s32.s8 r5, r4;", "cvt.s16.s8 h4, h5;",
    "cvt.s8.s32 h5, r4;", "cvt.u8.u16 r6, h4;", "cvt.rn.f32.u16 f4, h4;", "cvt.rn.f32.u8 f5, h5;",
    "cvt.rn.f32.s16 f6, h5;", "neg.s16 h6, h4;",
    "cvt.s64.s8 a8, h5;", "cvt.u64.u8 a9, r5;", "cvt.s64.s16 a8, h6;",
    "min.s64 a8, a8, a9;", "max.s64 a9, a8, a9;", "min.u64 a9, a9, a8;", "max.u64 a8, a9, a8;", "neg.s64 a8, a9;",
    "not.b64 a9, a8;", "abs.s32 r4, r5;", "abs.s64 a8, a8;", "mad.lo.s64 a9, a8, a9, a8;",
    "bfe.u32 r5, r4, r7, r6;", "bfe.s32 r6, r5, 7, r7;", "bfe.s32 r4, r6, r5, r4;", "bfe.u32 r4, r5, 0, 32;",
    "bfi.b32 r5, r4, r6, r7, 5;", "bfi.b32 r6, r5, r4, 3, r7;", "bfi.b32 r4, r4, r5, r6, r5;",
    "bfi.b64 a8, a9, a8, 8, 8;", "bfi.b64 a9, a8, a9, r7, 40;", "bfi.b64 a8, a8, a9, r5, r7;", "brev.b32 r5, r5;",
    "popc.b64 r6, a8;", "clz.b32 r4, r6;", "clz.b64 r5, a9;", "bfind.u32 r6, r4;",
    "shf.l.wrap.b32 r4, r5, r6, r7;", "shf.l.clamp.b32 r5, r4, r6, r7;", "shf.r.wrap.b32 r6, r4, r5, r7;",
    "shf.r.clamp.b32 r4, r6, r5, r7;", "shf.l.clamp.b32 r6, r6, r4, r5;", "shf.r.clamp.b32 r5, r4, r5, r6;",
    "prmt.b32 r4, r5, r6, 0x7531;", "prmt.b32 r5, r4, r6, r7;", "prmt.b32 r6, r4, r5, 0x8f02;",
    "dp4a.u32.u32 r4, r5, r6, r4;", "dp4a.u32.s32 r5, r4, r6, r5;", "dp4a.s32.u32 r6, r5, r4, r6;",
    "dp4a.s32.s32 r4, r6, r5, r4;", "@!p1 dp4a.u32.u32 r5, r4, r4, r6;",
    "cvt.rni.s32.f32 r4, f4;", "cvt.rzi.s32.f32 r5, f5;", "cvt.rmi.s32.f32 r6, f6;", "cvt.rpi.s32.f32 r4, f5;",
    "cvt.rni.u32.f32 r5, f4;", "cvt.rzi.u32.f32 r6, f5;", "cvt.rmi.u32.f32 r4, f6;", "cvt.rpi.u32.f32 r5, f5;",
    "cvt.rni.f32.f32 f4, f5;", "cvt.rzi.f32.f32 f5, f6;", "cvt.rmi.f32.f32 f6, f4;", "cvt.rpi.f32.f32 f4, f6;",
    "cvt.f32.f16 f5, h4;", "cvt.rn.f16.f32 h5, f4;", "cvt.f32.f16 f6, h6;", "@p1 cvt.rzi.s32.f32 r6, f4;",
    "ex2.approx.ftz.f32 f4, f5;", "lg2.approx.f32 f5, f6;", "div.u32 r4, r5, r6;", "rem.s32 r5, r4, r6;",
    "fma.rp.ftz.f32 f5, f4, f6, f5;", "add.rz.f32 f4, f5, f6;", "sub.rm.ftz.f32 f6, f5, f4;",
    "mul.rp.ftz.f32 f5, f5, f6;", "add.sat.f32 f4, f4, f5;", "ex2.approx.f32 f6, f4;", "sin.approx.ftz.f32 f5, f4;",
    "cos.approx.f32 f4, f6;", "tanh.approx.f32 f6, f5;", "div.approx.f32 f5, f4, f6;", "rcp.approx.ftz.f64 d5, d4;",
    "rsqrt.approx.f64 d6, d5;", "cvt.rzi.f64.f64 d4, d6;", "cvt.rni.s32.f64 r5, d4;", "cvt.rpi.u32.f64 r6, d5;",
    "mul.hi.u64 a8, a8, a9;", "fma.rm.f32 f6, f4, f5, f6;", "@p1 add.cc.u32 r4, r4, r6;", "@p2 subc.cc.u32 r5, r5, r4;",
    "madc.hi.u32 r6, r4, r5, r6;", "mov.b64 d5, a8;", "mov.b64 d6, a9;",
    "@p1 mul.f64 d4, d4, d5;", "@!p2 fma.rn.f64 d5, d6, d4, d5;",
    "lop3.b32 r4, r4, r5, r6, 0x96;", "prmt.b32 r5, r4, r6, 0x3715;", "mul.hi.u32 r4, r5, r6;",
    "membar.gl;", "@p1 membar.cta;", "fence.acq_rel.gpu;", "@!p2 fence.sc.gpu;",
    "ld.param.u32 r5, [a12];", "ld.param.v2.u32 {r4, r6}, [a12+8];", "ld.param.u64 a8, [a12+-8];",
    "ld.param.s8 r4, [a12+5];", "ld.param.u16 h4, [a12+2];", "@p2 ld.param.u32 r6, [a12+16];",
    "ld.param.s8 h4, [a12+1];", "ld.param.s8 h4, [a12+2];", "ld.param.s8 h4, [a12+3];", "ld.param.s8 h4, [a12+10];",
    "@!p1 ld.param.v2.u64 {a8, _}, [a12+8];", "ld.param.u32 r5, [a13];", "ld.param.v2.u32 {r4, r5}, [a13];",
    "ld.param.u32 r5, [where];", "ld.param.u64 a9, [out];", "@p1 add.s32 r4, r4, 3;", "@p2 mov.b32 r5, r6;",
    "div.rn.f32 f4, f5, f6;", "div.rn.ftz.f32 f5, f6, f4;", "div.full.f32 f4, f4, f6;", "div.full.ftz.f32 f6, f4, f5;",
    "rcp.rn.f32 f4, f5;", "rcp.rn.ftz.f32 f5, f5;", "rcp.approx.f32 f6, f4;", "rcp.approx.ftz.f32 f4, f6;",
    "sqrt.rn.f32 f5, f4;", "sqrt.rn.ftz.f32 f4, f4;", "sqrt.approx.f32 f6, f6;", "sqrt.approx.ftz.f32 f5, f6;",
    "rsqrt.approx.f32 f4, f5;", "rsqrt.approx.ftz.f32 f6, f6;", "min.f32 f4, f5, f6;", "max.f32 f5, f6, f4;",
    "min.ftz.f32 f6, f4, f5;", "max.ftz.f32 f4, f4, f5;", "cvt.sat.f32.f32 f4, f5;", "lop3.b32 r5, r6, r4, r5, 0xe8;",
    "lop3.b32 r6, r5, r4, r6, 0x1b;", "cvt.u16.u32 h4, r5;", "mul.wide.u16 r4, h4, h4;", "mov.b32 r4, {h4, h4};",
    "mov.b32 {h4, _}, r5;", "mov.b64 {_, r4}, a9;", "@p1 mov.b64 a8, {r4, r6};", "mov.u32 r6, %lanemask_lt;",
    "mov.u32 r4, %nwarpid;", "@!p2 div.rn.f32 f4, f5, f6;", "@p2 lop3.b32 r4, r5, r6, r4, 0x78;",
    "@!p2 fma.rn.f32 f4, f5, f6, f4;", "st.shared.u32 [r11], r5;", "ld.shared.u32 r6, [r11+4];",
};
enum { LINES = sizeof lines / sizeof *lines };

/* Random lines, some in a loop of a few rounds, as many for all lanes or each its own, some jumped over by some lanes,
   by all or by none. */
static const char *random_kernel(void)
{
    kernel_begin();
    put("%s%s%s\nAGAIN:\n", START,
        "mov.b32 f5, r5; mov.b32 f6, r6; cvt.u16.u32 h5, r6; cvt.u16.u32 h6, r7;\n"
        "mov.b64 d4, a8; mov.b64 d5, a9; mov.b64 d6, {r6, r7};\n"
        "setp.lt.u32 p2, r4, r5;",
        any(2) ? "mov.u32 r20, 3;" : "shr.u32 r20, r6, 29; max.u32 r20, r20, 1;");
    for (int part = 0; part < 3; part++) {
        put("@%sp%u bra OVER%d;\n", any(2) ? "!" : "", 1 + any(2), part);
        for (uint32_t k = 0; k < 8; k++)
            put("%s\n", lines[any(LINES)]);
        put("OVER%d:\n%s\n", part, lines[any(LINES)]);
        if (!any(4)) /* lanes leave the loop in the middle, or go round early */
            put("@%sp%u bra %s;\n", any(2) ? "!" : "", 1 + any(2), any(2) ? "DONE" : "NEXT");
    }
    put("%s%s",
        "NEXT: sub.u32 r20, r20, 1; setp.ne.u32 p3, r20, 0; @p3 bra AGAIN;\nDONE:\n"
        "mov.b32 r13, f5; xor.b32 r6, r6, r13; mov.b32 r13, f6; xor.b32 r5, r5, r13;\n"
        "xor.b16 h4, h4, h5; mad.lo.u16 h4, h4, 77, h6; mov.b64 a10, d4; xor.b64 a8, a8, a10;\n"
        "mov.b64 a10, d5; mov.b64 a11, d6;\n"
        "mad.lo.u64 a10, a10, 77, a11; xor.b64 a9, a9, a10;\n", END);
    return kernel.text;
}

static void prepare_words(struct places *p, unsigned round)
{
    (void)round;
    for (unsigned t = 0; t < THREADS * 8; t++)
        ((uint32_t *)(void *)p->values)[t] = any_word();
    for (unsigned t = 0; t < THREADS; t++)
        p->where[t] = (uintptr_t)p->area;
}

EXEC_TEST(arithmetic_is_as_general_handlers_do_it)
{
    unsigned faults[2] = { 0, 0 };
    run_kernels(random_kernel, prepare_words, 300, 6, faults);
    assert_int_equal(faults[1], 0);
}

/* ---- lanes in steps ---- */

/* r16 to r19 and a16 to a19 are in steps, mostly: sums and products of what differs by a constant from lane to lane. */
static void put_line_of_steps(void)
{
    static const char *const sources[] = { "%tid.x", "%tid.y", "%laneid", "%ctaid.x", "%ntid.x", "%nctaid.x" };
    static const char *const twos[] = { "add.s32", "sub.s32", "mul.lo.s32", "and.b32", "min.s32", "max.u32",
                                        "xor.b32" };
    static const char *const wide[] = { "add.s64", "sub.s64", "mul.lo.s64", "or.b64", "xor.b64" };
    static const uint32_t numbers[] = { 0, 1, 2, 3, 4, 7, 8, 12, 33, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0x7ffffff0,
                                        0xfffffff0, 0x10000000, 0x0fffffff };
    const unsigned d = 16 + any(4), x = 16 + any(4), y = 16 + any(4);
    const uint32_t n = numbers[any(sizeof numbers / sizeof *numbers)];
    const char *extend = any(2) ? "s" : "u";
    switch (any(22)) {
    case 20: case 21: /* what accesses load to */
        put("mov.u32 r4, %s; mov.b32 f4, r%u; mov.b32 r5, r%u; mov.u32 r6, %u; mov.u32 r7, r4;\n"
            "mov.u64 a8, a%u; mov.b64 a9, %u; mov.u16 h4, 77;\n", sources[any(6)], x, y, n, x, n);
        break;
    case 16: case 17: /* a lane between the first and the last one wraps, or nearly */
        put("mov.u32 r%u, %%tid.x; add.u32 r%u, r%u, %u; mul.wide.%s32 a%u, r%u, %u;\n", d, d, d,
            (any(2) ? 0x80000000 : 0) - any(40), extend, d, d, n);
        break;
    case 18:
        put("mov.u32 r%u, %%tid.x; mul.lo.u32 r%u, r%u, %u; cvt.%s a%u, r%u;\n", d, d, d,
            any(2) ? n : 0x04000000 + any(0x01000000), any(2) ? "s64.s32" : "u64.u32", d, d);
        break;
    case 19:
        put("mov.u32 r%u, %%laneid; sub.u32 r%u, r%u, %u; mad.wide.%s32 a%u, r%u, %u, a%u;\n", d, d, d, any(34), extend,
            d, d, n, y);
        break;
    case 0: case 1: put("mov.u32 r%u, %s;\n", d, sources[any(6)]); break;
    case 2: put("mov.u32 r%u, %u;\n", d, n); break;
    case 3: case 4: put("%s r%u, r%u, %u;\n", twos[any(7)], d, x, n); break;
    case 5: put("%s r%u, r%u, r%u;\n", twos[any(7)], d, x, y); break;
    case 6: put("mad.lo.s32 r%u, r%u, %u, r%u;\n", d, x, n, y); break;
    case 7: put("shl.b32 r%u, r%u, %u;\n", d, x, any(33)); break;
    case 8: put("mul.wide.%s32 a%u, r%u, %u;\n", extend, d, x, n); break;
    case 9: put("mad.wide.%s32 a%u, r%u, %u, a%u;\n", extend, d, x, n, y); break;
    case 10: put("cvt.%s a%u, r%u;\n", any(2) ? "s64.s32" : "u64.u32", d, x); break;
    case 11: put("%s a%u, a%u, a%u;\n", wide[any(5)], d, x, y); break;
    case 12: put("cvt.u32.u64 r%u, a%u;\n", d, x); break;
    case 13: put("shl.b64 a%u, a%u, %u;\n", d, x, any(65)); break;
    case 14: put("@p2 add.s32 r%u, r%u, %u; setp.lt.u32 p2, r%u, r%u;\n", d, x, n, x, y); break;
    default: put("neg.s32 r%u, r%u; mov.b64 a%u, a%u;\n", d, x, x, y);
    }
}

/* An access in steps of the area, which the parameter `where` names, or of shared memory. */
static void put_access_in_steps(void)
{
    const struct access *a = &accesses[any(sizeof accesses / sizeof *accesses)];
    static const char *const guards[8] = { "@p1 ", "@!p1 ", "@p2 ", "", "", "", "", "" };
    static const int steps[] = { 0, 1, 1, 1, 2, 3, 4, 5, 33, -1, -2 };
    const int step = steps[any(sizeof steps / sizeof *steps)] * (int)a->size;
    const int least = step < 0 ? -step * (WARP - 1) : 0, span = (step < 0 ? -step : step) * (WARP - 1) + (int)a->size,
              room = (a->shared ? SHARED : AREA) - span;
    int base = least + (room > 0 ? (int)any((uint32_t)room + 1) / (int)a->size * (int)a->size : 0);
    if (room < 0 && any(8))                            /* of such accesses a few are enough */
        return;
    base += any(40) ? 0 : any(2) ? AREA : (int)(a->size / 2);
    const char *address = a->shared ? "mad.lo.s32 r15, r0, %d, r10; add.u32 r15, r15, %d;\n"
                                    : "mul.wide.s32 a15, r0, %d; add.s64 a15, a15, a14; add.s64 a15, a15, %d;\n";
    put(address, step, base);
    put_access(guards[any(8)], a->text, a->shared ? "r15" : "a15");
}

static const char *kernel_of_steps(void)
{
    kernel_begin();
    put("%sld.param.u64 a14, [where]; setp.lt.u32 p2, r4, r5;\n", START);
    for (unsigned k = 16; k < 20; k++)
        put("mov.u32 r%u, %%tid.x; cvt.u64.u32 a%u, r%u;\n", k, k, k);
    const bool loop = any(2);
    if (loop)
        put("mov.u32 r20, 3;\nAGAIN:\n");
    for (int part = 0; part < 3; part++) {
        put("@%sp%u bra OVER%d;\n", any(2) ? "!" : "", 1 + any(2), part);
        for (uint32_t k = 0; k < 8; k++)
            any(4) ? put_line_of_steps() : put_access_in_steps();
        put("OVER%d:\n%s", part, any(2) ? "bar.sync 0;\n" : "");
        put_line_of_steps();
    }
    for (unsigned k = 16; k < 20; k++)
        put("mad.lo.u32 r4, r4, 77, r%u; mad.lo.u64 a8, a8, 77, a%u; xor.b32 r5, r5, r%u;\n", k, k, k);
    put("%s%s", loop ? "sub.u32 r20, r20, 1; setp.ne.u32 p3, r20, 0; @p3 bra AGAIN;\n" : "", END);
    return kernel.text;
}

static void prepare_steps(struct places *p, unsigned round)
{
    (void)round;
    p->where = (uint64_t *)(void *)p->area;
    p->threads = WARP;                                 /* two would race for the area */
    for (unsigned t = 0; t < THREADS * 8; t++)
        ((uint32_t *)(void *)p->values)[t] = any_word();
}

EXEC_TEST(lanes_in_steps_are_as_general_handlers_do_them)
{
    unsigned faults[2] = { 0, 0 };
    run_kernels(kernel_of_steps, prepare_steps, 300, 4, faults);
    assert_true(faults[0] > 4);
}

/* ---- what lanes do together ---- */

static void put_exchange(void)
{
    static const char *const shuffles[] = {
        "shfl.sync.bfly.b32 r4|p2, r5, %u, 31, %s;", "shfl.sync.down.b32 r5|p2, r6, %u, 31, %s;",
        "shfl.sync.up.b32 r6|p2, r4, %u, 0, %s;",    "shfl.sync.idx.b32 r4, r6, %u, 31, %s;",
        "shfl.sync.down.b32 r6, r4, %u, 6175, %s;",
    }, *const others[] = {
        "shfl.sync.bfly.b32 r5, r5, r7, 31, %s;",     "shfl.sync.idx.b32 r6|p2, r5, r4, 31, %s;",
        "shfl.sync.up.b32 r4|p2, r5, r7, r6, %s;",    "vote.sync.ballot.b32 r4, p2, %s;",
        "vote.sync.any.pred p2, !p2, %s;",            "vote.sync.all.pred p2, p2, %s;",
        "vote.sync.uni.pred p2, p2, %s;",             "redux.sync.add.s32 r5, r4, %s;",
        "redux.sync.min.s32 r6, r5, %s;",             "redux.sync.max.u32 r4, r6, %s;",
        "redux.sync.and.b32 r5, r4, %s;",             "redux.sync.or.b32 r6, r4, %s;",
        "redux.sync.xor.b32 r4, r5, %s;",             "match.any.sync.b32 r5, r6, %s;",
        "elect.sync r6|p2, %s;",                      "bar.warp.sync %s;",
    };
    enum { SHUFFLES = sizeof shuffles / sizeof *shuffles, OTHERS = sizeof others / sizeof *others };
    const uint32_t which = any(SHUFFLES + OTHERS);
    const char *set = any(3) ? "-1" : "r22";
    if (which < SHUFFLES)
        put(shuffles[which], any(33), set);
    else
        put(others[which - SHUFFLES], set);
    put("\n");
}

static void put_lines(uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        put("%s\n", lines[any(LINES)]);
}

/* One arm of a branch: now and then a loop whose rounds each lane has of its own, and one exchange of all lanes. */
static void put_arm(int number)
{
    put_lines(any(4));
    if (any(2)) {
        put("shr.u32 r21, r6, 29; add.u32 r21, r21, 1;\nROUND%d:\n", number);
        put_lines(4);
        put("sub.u32 r21, r21, 1; setp.ne.u32 p3, r21, 0; @p3 bra ROUND%d;\n", number);
    }
    put_exchange();
    put_lines(any(4));
}

static const char *kernel_of_exchanges(void)
{
    kernel_begin();
    put("%s%s", START, "mov.b32 f5, r5; mov.b32 f6, r6; mov.u32 r22, -1; mov.u32 r20, 3;\n"
                       "setp.lt.u32 p2, r4, r5;\nAGAIN:\n");
    for (int part = 0; part < 3; part++) {
        put("@p%u bra OTHER%d;\n", 1 + any(2), part);
        put_arm(2 * part);
        put("bra JOIN%d;\nOTHER%d:\n", part, part);
        put_arm(2 * part + 1);
        put("JOIN%d:\n", part);
        if (any(2))
            put_exchange();
    }
    put("%s%s", "sub.u32 r20, r20, 1; setp.ne.u32 p3, r20, 0; @p3 bra AGAIN;\n", END);
    return kernel.text;
}

EXEC_TEST(exchanges_of_lanes_are_as_general_handlers_do_them)
{
    unsigned faults[2] = { 0, 0 };
    run_kernels(kernel_of_exchanges, prepare_words, 120, 6, faults);
    assert_int_equal(faults[1], 0);
}

/* ---- many registers ---- */

enum { FLOATS = 28, FIRST = 8 };                       /* f8 and on */
static unsigned any_float(void) { return FIRST + any(FLOATS); }

/* Loads and stores of shared memory near r12, and arithmetic on any of the registers. */
static void put_line(void)
{
    static const char *const threes[] = { "add.f32", "sub.rn.ftz.f32", "mul.f32", "min.f32", "max.ftz.f32",
                                          "div.rn.f32", "add.ftz.f32", "mul.ftz.f32" },
                      *const twos[] = { "neg.f32", "abs.f32", "mov.f32", "cvt.sat.f32.f32", "sqrt.rn.f32",
                                        "rcp.approx.ftz.f32" },
                      *const bits[] = { "xor.b32", "and.b32", "add.s32", "min.u32", "mul.lo.u32" };
    const unsigned a = any_float(), b = any_float(), c = any_float(), d = any_float();
    switch (any(24)) {
    case 0: case 1: put("ld.shared.v2.f32 {f%u, f%u}, [r12+%u];\n", a, b, any(17) * 8); break;
    case 2: put("ld.shared.v4.f32 {f%u, f%u, _, f%u}, [r12+%u];\n", a, b, c, any(9) * 16); break;
    case 3: put("ld.shared.f32 f%u, [r12+%u];\n", a, any(33) * 4); break;
    case 4: put("ld.shared.v2.f32 {f%u, f%u}, [a1+%u];\n", a, b, any(17) * 8); break;
    case 5: put("%s f%u, f%u;\n", twos[any(sizeof twos / sizeof *twos)], a, b); break;
    case 6: case 7: put("%s f%u, f%u, f%u;\n", threes[any(sizeof threes / sizeof *threes)], a, b, c); break;
    case 8:
        put("mov.b32 r6, f%u; mov.b32 r13, f%u; %s r6, r6, r13; mov.b32 f%u, r6;\n", a, b,
            bits[any(sizeof bits / sizeof *bits)], c);
        break;
    case 9: put("mov.b64 a8, {r6, r4}; add.s64 a9, a9, a8; mov.b64 {r5, _}, a9;\n"); break;
    case 10: put("fma.rn.ftz.f32 f%u, f%u, f%u, 0f3F800000;\n", a, b, c); break;
    case 11:
        if (!any(3))
            put("%sst.shared.v%u.f32 [r12+%u], {f%u, f%u%s};\n", any(3) ? "" : "@p1 ", 2 * (1 + a % 2), any(9) * 16, a,
                b, a % 2 ? ", f8, f9" : "");
        break;
    case 12:
        if (!any(3))
            put("st.shared.f32 [r12+%u], f%u;\n", any(33) * 4, a);
        break;
    case 13:
        if (!any(3))
            put("xor.b32 r12, r12, %u;\n", 16 * any(4));
        break;
    default: put("fma.rn.f32 f%u, f%u, f%u, f%u;\n", a, b, c, any(3) ? a : d);
    }
}

static const char *kernel_of_runs(void)
{
    kernel_begin();
    put("%s%s", START, "add.u32 r12, r12, r10; mov.u32 r20, 3;\n");
    for (unsigned k = 0; k < FLOATS; k++)
        put("%s r13, r%u, %u; mov.b32 f%u, r13;\n", any(3) ? "or.b32" : "add.u32", 4 + k % 4,
            any(3) ? 0 : any(1u << 20), FIRST + k);
    put("AGAIN:\n");
    for (unsigned k = 0; k < 60; k++)
        put_line();
    put("sub.u32 r20, r20, 1; setp.ne.u32 p3, r20, 0; @p3 bra AGAIN;\nOVER:\n");
    for (unsigned k = 0; k < FLOATS; k++)
        put("mov.b32 r13, f%u; mad.lo.u32 r6, r6, 77, r13;\n", FIRST + k);
    put("%s", END);
    return kernel.text;
}

static void prepare_runs(struct places *p, unsigned round)
{
    for (unsigned t = 0; t < THREADS * 8; t++)
        ((uint32_t *)(void *)p->values)[t] = any_word();
    prepare_shared(p, round);
}

EXEC_TEST(runs_over_many_registers_are_as_general_handlers_do_them)
{
    enum { RUNS = 12 };
    unsigned faults[2] = { 0, 0 };
    run_kernels(kernel_of_runs, prepare_runs, 120, RUNS, faults);
    assert_true(faults[0] > RUNS / 2);
}

int main(void)
{
    seed = 20261126;
    return unit_run(twice_setup, exec_teardown);
}
