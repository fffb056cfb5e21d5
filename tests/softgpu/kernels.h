/* kernels.h: PTX texts for the tests, as a compiler would write them. */
#ifndef TESTS_SOFTGPU_KERNELS_H
#define TESTS_SOFTGPU_KERNELS_H

#define PTX_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

/* y[i] = a * x[i] + y[i], i < n */
static const char ptx_axpy[] = PTX_HEAD
    ".visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %rd<8>;\n"
    "    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
    "    mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "    setp.ge.u32 %p1, %r5, %r1;\n"
    "    @%p1 bra DONE;\n"
    "    cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;\n"
    "    mul.wide.u32 %rd5, %r5, 4;\n"
    "    add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;\n"
    "    ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7];\n"
    "    fma.rn.f32 %f4, %f1, %f2, %f3;\n"
    "    st.global.f32 [%rd7], %f4;\n"
    "DONE:\n"
    "    ret;\n"
    "}\n";

/* Variables with initial values and an address in one; a kernel that reads them; one with bounds and shared memory. */
static const char ptx_variables[] = PTX_HEAD
    ".visible .global .align 4 .u32 counter = 5;\n"
    ".visible .const .align 4 .u32 table[4] = {10, 20, 30, 40};\n"
    ".global .align 8 .u64 pointer = counter;\n"
    ".visible .global .align 4 .b8 blank[1000];\n"
    ".visible .entry bump(.param .u64 out)\n"
    "{\n"
    "    .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    ld.global.u64 %rd2, [pointer];\n"
    "    ld.global.u32 %r1, [%rd2];\n"
    "    ld.const.u32 %r2, [table+8];\n"
    "    add.u32 %r3, %r1, %r2;\n"
    "    st.global.u32 [%rd1], %r3;\n"
    "    add.u32 %r1, %r1, 1;\n"
    "    st.global.u32 [counter], %r1;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry bounded() .maxntid 64, 1, 1\n"
    "{\n    .shared .align 4 .b8 buffer[4096];\n    ret;\n}\n"
    ".visible .entry exactly() .reqntid 32, 2, 1\n"
    "{\n    ret;\n}\n";

/* An instruction that nobody has, in one kernel of two. */
static const char ptx_strange[] = PTX_HEAD
    ".visible .entry strange()\n{\n    .reg .b32 %r<2>;\n    frobnicate.u32 %r1, %r1;\n    ret;\n}\n"
    ".visible .entry fine()\n{\n    ret;\n}\n";

/* Stores at an address; traps; waits for a word; fails an assertion. */
static const char ptx_faults[] = PTX_HEAD
    ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);\n"
    ".global .align 1 .b8 text[5] = {116, 101, 115, 116, 0};\n"
    ".visible .entry store(.param .u64 at)\n"
    "{\n    .reg .b64 %rd<2>;\n    ld.param.u64 %rd1, [at];\n    st.global.u32 [%rd1], 1;\n    ret;\n}\n"
    ".visible .entry stop()\n{\n    trap;\n}\n"
    ".visible .entry spin(.param .u64 at)\n"
    "{\n    .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;\n    ld.param.u64 %rd1, [at];\n"
    "AGAIN:\n    ld.volatile.global.u32 %r1, [%rd1];\n    setp.eq.u32 %p1, %r1, 0;\n    @%p1 bra AGAIN;\n    ret;\n}\n"
    ".visible .entry check()\n"
    "{\n    .reg .b64 %rd<2>;\n    mov.u64 %rd1, text;\n    cvta.global.u64 %rd1, %rd1;\n    {\n"
    "    .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;\n"
    "    st.param.b64 [p0], %rd1; st.param.b64 [p1], %rd1; st.param.b32 [p2], 7; st.param.b64 [p3], %rd1; st.param.b64 "
    "[p4], 1;\n"
    "    call.uni __assertfail, (p0, p1, p2, p3, p4);\n    }\n    ret;\n}\n";

#endif
