/* softgpu_test.h: what the tests of the software GPU share. Each test program is one process with the driver in it. */
#ifndef TESTS_SOFTGPU_TEST_H
#define TESTS_SOFTGPU_TEST_H

#include "tests/lib/unit_cuda.h"

enum { MIB = 1 << 20, GRANULE = 2 * MIB };

/* Group set-up: device 0's primary context current. */
static inline int with_context(void **state)
{
    (void)state;
    CUcontext c;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c) ? -1 : 0;
}

static inline int without_context(void **state)
{
    (void)state;
    return cuDevicePrimaryCtxRelease(0) ? -1 : 0;
}

#endif
