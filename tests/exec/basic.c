/* basic.c: kernels as nvcc writes them: vector add, divergence, loops, calls, recursion, function pointers, printf,
 * heap. */
#include "tests/exec/harness.h"

#include <cuda.h>

static int setup(void **state)
{
    (void)state;
    gpu_start(&(struct gpu_config){ .heap = 8 << 20 });
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    gpu_stop();
    return 0;
}

static int after(void **state)
{
    (void)state;
    gpu_reset();
    return 0;
}

TEST_WITH(vector_add, NULL, after)
{
    enum { N = 1000 };
    gpu_load(".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
             ".reg .pred %p<2>; .reg .b32 %r<6>; .reg .b32 %f<4>; .reg .b64 %rd<11>;\n"
             "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];\n"
             "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
             "mad.lo.s32 %r1, %r3, %r4, %r5;\n"
             "setp.ge.s32 %p1, %r1, %r2;\n@%p1 bra $L2;\n"
             "cvta.to.global.u64 %rd4, %rd1; cvta.to.global.u64 %rd5, %rd2; cvta.to.global.u64 %rd6, %rd3;\n"
             "mul.wide.s32 %rd7, %r1, 4; add.s64 %rd8, %rd4, %rd7; ld.global.f32 %f1, [%rd8];\n"
             "add.s64 %rd9, %rd5, %rd7; ld.global.f32 %f2, [%rd9]; add.f32 %f3, %f1, %f2;\n"
             "add.s64 %rd10, %rd6, %rd7; st.global.f32 [%rd10], %f3;\n$L2:\nret;\n}\n");
    float *a = gpu_alloc(N * 4), *b = gpu_alloc(N * 4), *c = gpu_alloc(N * 4 + 64);
    for (int i = 0; i < N; i++)
        a[i] = (float)i, b[i] = 0.5f * (float)i;
    assert_int_equal(gpu_run("vadd", 8, 128, 4, ARG(a), ARG(b), ARG(c), ARG(N)), CUDA_SUCCESS);
    for (int i = 0; i < N; i++)
        assert_true(c[i] == 1.5f * (float)i);
    assert_true(c[N] == 0);
}

/* A block has memory from its first turn on. So short ones need it for as many as run at a time, here 16 MiB each, and
   not for the 96 that are resident, which would be more than all threads together may have. */
TEST_WITH(short_blocks_share_memory, NULL, after)
{
    enum { BLOCKS = 300, THREADS = 32, LOCAL = 512 << 10 };
    gpu_load(".visible .entry k(.param .u64 out)\n{\n"
             ".local .align 16 .b8 own[524288]; .reg .b32 r<4>; .reg .b64 a<4>;\n"
             "ld.param.u64 a0, [out]; mov.u32 r0, %ctaid.x; mov.u32 r1, %tid.x; mad.lo.u32 r0, r0, 32, r1;\n"
             "st.local.u32 [own+524284], r0; mul.wide.u32 a1, r0, 4; add.u64 a0, a0, a1;\n"
             "ld.local.u32 r2, [own+524284]; st.global.u32 [a0], r2;\nret;\n}\n");
    assert_true((uint64_t)LOCAL * THREADS * 96 > gpu_limits()->local_memory);
    uint32_t *out = gpu_written("k", BLOCKS, THREADS, BLOCKS * THREADS * 4);
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++)
        assert_int_equal(out[i], i);
}

int main(void) { return unit_run(setup, teardown); }
