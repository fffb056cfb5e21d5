/* kernels.h: PTX for the tests of the server. */
#ifndef FLYT_TESTS_SERVER_KERNELS_H
#define FLYT_TESTS_SERVER_KERNELS_H

/* add(p, n): p[i] += 1 for i < n; spin(p): until *p is not 0; bad(): writes to address 8; tell(p): p[1024] = 7, and
   behind a fence of system scope p[0] = 1. */
static const char kernels_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter;\n.global .texref texture;\n.global .surfref surface;\n"
    ".visible .entry add(.param .u64 add_p, .param .u32 add_n)\n{\n"
    " .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [add_p]; ld.param.u32 %r1, [add_n];\n"
    " mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    " setp.ge.u32 %q, %r5, %r1; @%q bra END;\n"
    " mul.wide.u32 %d2, %r5, 4; add.s64 %d3, %d1, %d2;\n"
    " ld.global.u32 %r6, [%d3]; add.u32 %r7, %r6, 1; st.global.u32 [%d3], %r7;\n"
    "END: ret;\n}\n"
    ".visible .entry spin(.param .u64 spin_p)\n{\n"
    " .reg .pred %q; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    " ld.param.u64 %d1, [spin_p];\n"
    "LOOP: nanosleep.u32 50000; ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %q, %r1, 0; @%q bra LOOP;\n"
    " ret;\n}\n"
    ".visible .entry tell(.param .u64 tell_p)\n{\n"
    " .reg .b64 %d<2>; ld.param.u64 %d1, [tell_p];\n"
    " st.global.u32 [%d1+4096], 7; membar.sys; st.global.u32 [%d1], 1; ret;\n}\n"
    ".visible .entry bad()\n{\n"
    " .reg .b64 %d<2>; mov.u64 %d1, 8; st.global.u32 [%d1], 0; ret;\n}\n";

#endif
