/* kernels.h: PTX of kernels that several tests here launch, each as one block of 32 threads. */
#ifndef TESTS_CORE_KERNELS_H
#define TESTS_CORE_KERNELS_H

#define KERNELS_BEGIN \
    ".version 7.0\n.target sm_70\n.address_size 64\n"

/* fill(address, count, value) */
#define KERNEL_FILL \
    ".visible .entry fill(.param .u64 a, .param .u32 n, .param .u32 v) {\n" \
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n" \
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [n]; ld.param.u32 %i2, [v]; mov.u32 %i3, %tid.x;\n" \
    "L: setp.ge.u32 %p, %i3, %i1; @%p ret;\n" \
    "  mad.wide.u32 %a2, %i3, 4, %a1; st.global.u32 [%a2], %i2; add.u32 %i3, %i3, 32; bra L;\n}\n"
/* add(address, count): its index to each word */
#define KERNEL_ADD \
    ".visible .entry add(.param .u64 a, .param .u32 n) {\n" \
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n" \
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [n]; mov.u32 %i3, %tid.x;\n" \
    "L: setp.ge.u32 %p, %i3, %i1; @%p ret;\n" \
    "  mad.wide.u32 %a2, %i3, 4, %a1; ld.global.u32 %i2, [%a2]; add.u32 %i2, %i2, %i3; st.global.u32 [%a2], %i2;\n" \
    "  add.u32 %i3, %i3, 32; bra L;\n}\n"
/* count_up(out): adds 1 to a variable that the program never names, and stores it at out */
#define KERNEL_COUNT_UP \
    ".global .align 4 .u32 hidden;\n" \
    ".visible .entry count_up(.param .u64 a) {\n" \
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n" \
    "  ld.param.u64 %a1, [a]; mov.u32 %i1, %tid.x; setp.ne.u32 %p, %i1, 0; @%p ret;\n" \
    "  ld.global.u32 %i2, [hidden]; add.u32 %i2, %i2, 1; st.global.u32 [hidden], %i2;\n" \
    "  st.global.u32 [%a1], %i2; ret;\n}\n"
/* A list in memory of malloc(): push(size, value), pop(), and walk(out), which stores a sum. */
#define KERNELS_LIST \
    ".global .align 8 .u64 first;\n" \
    ".extern .func (.param .b64 r) malloc(.param .b64 s);\n.extern .func free(.param .b64 p);\n" \
    ".visible .entry push(.param .u64 s, .param .u32 v) {\n" \
    "  .reg .u64 %s, %n, %f; .reg .u32 %v, %t; .reg .pred %p;\n" \
    "  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p ret;\n" \
    "  ld.param.u64 %s, [s]; ld.param.u32 %v, [v];\n" \
    "  { .param .b64 a; .param .b64 r; st.param.b64 [a], %s; call (r), malloc, (a); ld.param.b64 %n, [r]; }\n" \
    "  setp.eq.u64 %p, %n, 0; @%p ret; ld.global.u64 %f, [first]; st.global.u64 [%n], %f; st.global.u32 [%n+8], %v;\n" \
    "  st.global.u64 [first], %n; ret;\n}\n" \
    ".visible .entry pop() {\n" \
    "  .reg .u64 %n, %f; .reg .u32 %t; .reg .pred %p;\n" \
    "  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p ret;\n" \
    "  ld.global.u64 %n, [first]; setp.eq.u64 %p, %n, 0; @%p ret;\n" \
    "  ld.global.u64 %f, [%n]; st.global.u64 [first], %f;\n" \
    "  { .param .b64 a; st.param.b64 [a], %n; call free, (a); }\n  ret;\n}\n" \
    ".visible .entry walk(.param .u64 o) {\n" \
    "  .reg .u64 %n, %o; .reg .u32 %v, %s; .reg .pred %p;\n" \
    "  ld.param.u64 %o, [o]; ld.global.u64 %n, [first]; mov.u32 %s, 0;\n" \
    "L: setp.eq.u64 %p, %n, 0; @%p bra E; ld.global.u32 %v, [%n+8]; mad.lo.u32 %s, %s, 31, %v;\n" \
    "  ld.global.u64 %n, [%n]; bra L;\n" \
    "E: st.global.u32 [%o], %s; ret;\n}\n"

#endif
