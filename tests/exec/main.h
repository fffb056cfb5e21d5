/* main.h: the frame of each test program here: one engine, everything freed after each test. */
#ifndef TESTS_EXEC_MAIN_H
#define TESTS_EXEC_MAIN_H

#include "softgpu/exec/jit.h"
#include "tests/exec/harness.h"

#include <cuda.h>

static inline int exec_setup(void **state)
{
    (void)state;
    const char *chaos = getenv("EXEC_TEST_CHAOS");
    gpu_start(&(struct gpu_config){ .heap = 8 << 20, .chaos = chaos ? strtoull(chaos, NULL, 10) : 0,
                                    .threads = chaos ? 3 : 0 });
    return 0;
}
static inline int exec_teardown(void **state)
{
    (void)state;
    gpu_stop();
    return 0;
}
static inline int exec_after(void **state)
{
    (void)state;
    gpu_reset();
    assert_int_equal(exec_jit_defects(), 0);
    return 0;
}

/* EXEC_TEST_SHARE=N: each N-th of many random kernels only, where each takes its time (FLYT_SOFTGPU_JIT=always). */
static inline unsigned exec_share(void)
{
    const char *share = getenv("EXEC_TEST_SHARE");
    return share ? (unsigned)strtoul(share, NULL, 10) : 1;
}

#define EXEC_TEST(name) TEST_WITH(name, NULL, exec_after)

/* r1 = index of the thread in the grid; a0 = first parameter; needs .reg as here. */
#define HEAD                                                                                                         \
    ".reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<32>; .reg .b64 a<32>; .reg .f32 f<8>; .reg .f64 d<8>;\n"           \
    "ld.param.u64 a0, [out]; mov.u32 r1, %tid.x; mov.u32 r2, %ctaid.x; mov.u32 r3, %ntid.x; mad.lo.u32 r1, r2, r3, " \
    "r1;\n"
/* a1 = &out[r1], 32-bit elements */
#define MINE ".reg .b64 mine; mul.wide.u32 mine, r1, 4; add.u64 mine, mine, a0;\n"
#define MINE64 ".reg .b64 mine; mul.wide.u32 mine, r1, 8; add.u64 mine, mine, a0;\n"
#define KERNEL(name, body) ".visible .entry " name "(.param .u64 out)\n{\n" HEAD body "\nret;\n}\n"

#endif
