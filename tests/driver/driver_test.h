/*
 * driver_test.h: what tests of libcuda.so.1 for programs share. They run on the software GPU inside this process.
 */
#ifndef TESTS_DRIVER_DRIVER_TEST_H
#define TESTS_DRIVER_DRIVER_TEST_H

#include "tests/lib/unit_cuda.h"

/* add(out, n): *out = n + counter */
static const char ptx_add[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 30;\n"
    ".visible .entry add(.param .u64 out, .param .u32 n)\n{\n"
    "    .reg .b64 %rd<2>; .reg .b32 %r<4>;\n"
    "    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; ld.global.u32 %r2, [counter];\n"
    "    add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3;\n    ret;\n}\n";

static inline unsigned read_word(CUdeviceptr from)
{
    unsigned word = 0;
    OK(cuMemcpyDtoH(&word, from, sizeof word));
    return word;
}

/* The context of device 0 is current. */
static inline int primary_set_up(void **state)
{
    (void)state;
    CUcontext primary;
    if (setenv("FLYT_SERVER", "local:software", 1) || cuInit(0))
        return -1;
    return cuDevicePrimaryCtxRetain(&primary, 0) || cuCtxSetCurrent(primary) ? -1 : 0;
}

static inline int primary_tear_down(void **state)
{
    (void)state;
    return cuDevicePrimaryCtxRelease(0) ? -1 : 0;
}

#endif
