/* grids.c: several grids on the SMs, what is resident at once, in which order blocks start, and the end of an
 * engine. */
#include "tests/exec/main.h"

#include <pthread.h>
#include <unistd.h>

static struct gpu_running *begin(const char *kernel, uint32_t grid, uint32_t block, size_t shared, unsigned flags,
                                 void *out)
{
    struct gpu_shape shape = { { grid, 1, 1 }, { block, 1, 1 }, shared, flags, { 0 } };
    uint64_t argument = ARG(out);
    return gpu_begin(kernel, &shape, 1, &argument);
}

#define WAITS       \
    KERNEL("waits", \
           "W: ld.volatile.global.u32 r4, [a0]; setp.eq.u32 p1, r4, 0;\n@p1 bra W;\nred.global.add.u32 [a0+4], 1;")
#define SETS KERNEL("sets", "st.volatile.global.u32 [a0], 1;")

EXEC_TEST(one_grid_waits_for_another)
{
    gpu_load(WAITS SETS);
    uint32_t *out = gpu_alloc(64);
    struct gpu_running *first = begin("waits", 90, 64, 0, 0, out), *second = begin("sets", 1, 1, 0, 0, out);
    assert_int_equal(gpu_wait(second, 20), CUDA_SUCCESS);
    assert_int_equal(gpu_wait(first, 20), CUDA_SUCCESS);
    assert_int_equal(out[1], 90 * 64);
}

/* Blocks that have ended make room for later ones, so a few may wait for one of these. A host thread that runs many
   short blocks in a row must not keep the next ones for itself then. */
EXEC_TEST(a_block_waits_for_the_next_one)
{
    enum { BLOCKS = 20000, TIMES = 3 };
    gpu_load(KERNEL("k",
                    "mov.u32 r9, %ctaid.x; mul.wide.u32 a1, r9, 4; add.u64 a1, a1, a0; and.b32 r10, r9, 1023;\n"
                    "setp.ne.u32 p0, r10, 700;\n@p0 bra OWN;\n"
                    "W: ld.volatile.global.u32 r4, [a1+4]; setp.eq.u32 p1, r4, 0;\n@p1 bra W;\n"
                    "OWN: ld.global.u32 r5, [a1]; add.u32 r5, r5, 1; st.volatile.global.u32 [a1], r5;"));
    uint32_t *out = gpu_alloc((BLOCKS + 1) * 4);
    out[BLOCKS] = 1;
    for (int k = 0; k < TIMES; k++)
        assert_int_equal(gpu_wait(begin("k", BLOCKS, 1, 0, 0, out), 60), CUDA_SUCCESS);
    for (int k = 0; k < BLOCKS; k++)
        assert_int_equal(out[k], TIMES);
}

/* Each fills more than half of the machine and needs all of its blocks at once. */
EXEC_TEST(cooperative_grids_take_turns)
{
    gpu_load(KERNEL(
        "k",
        "mov.u32 r9, %tid.x; setp.ne.u32 p0, r9, 0;\n@p0 ret;\nmov.u32 r10, %nctaid.x; red.global.add.u32 [a0], 1;\n"
        "W: ld.volatile.global.u32 r4, [a0]; setp.lt.u32 p1, r4, r10;\n@p1 bra W;"));
    struct gpu_running *r[6];
    for (int i = 0; i < 6; i++)
        r[i] = begin("k", 4, 1024, 0, SG_GRID_COOPERATIVE, gpu_alloc(64));
    for (int i = 0; i < 6; i++)
        assert_int_equal(gpu_wait(r[i], 20), CUDA_SUCCESS);
}

/* [0] now resident, [1] most at once, [2] blocks so far, [3] sum of places between start and index, [4..] SMs seen,
 * [16..] now on each SM, [32..] most on it */
#define COUNTING                                                                                                      \
    KERNEL("k",                                                                                                       \
           "mov.u32 r9, %tid.x; setp.ne.u32 p0, r9, 0;\n@p0 ret;\natom.global.add.u32 r4, [a0], 1; add.u32 r4, r4, "  \
           "1; red.global.max.u32 [a0+4], r4;\n"                                                                      \
           "atom.global.add.u32 r5, [a0+8], 1; sub.u32 r6, r2, r5; abs.s32 r6, r6; red.global.add.u32 [a0+12], r6;\n" \
           "mov.u32 r7, %smid; mul.wide.u32 a2, r7, 4; add.u64 a2, a2, a0; st.global.u32 [a2+16], 1; "                \
           "atom.global.add.u32 r8, [a2+64], 1; add.u32 r8, r8, 1; red.global.max.u32 [a2+128], r8;\n"                \
           "mov.u32 r10, 0;\nL: nanosleep.u32 100; add.u32 r10, r10, 1; setp.lt.u32 p1, r10, 20;\n@p1 bra L;\n"       \
           "red.global.add.u32 [a2+64], -1; red.global.add.u32 [a0], -1;")

EXEC_TEST(residency_keeps_the_limits)
{
    static const struct { uint32_t block; size_t shared; uint32_t per_sm;
    } cases[] = { { 32, 0, 24 },       { 1024, 0, 1 },      { 512, 0, 3 }, { 128, 0, 12 },
                  { 64, 48 << 10, 2 }, { 64, 99 << 10, 1 }, { 100, 0, 12 } };
    gpu_load(COUNTING);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t *out = gpu_alloc(256);
        assert_int_equal(sg_occupancy(gpu_limits(), gpu_kernel("k"), cases[c].block, cases[c].shared), cases[c].per_sm);
        assert_int_equal(gpu_wait(begin("k", 300, cases[c].block, cases[c].shared, 0, out), 20), CUDA_SUCCESS);
        assert_int_equal(out[0], 0);
        assert_in_range(out[1], 1, 4 * cases[c].per_sm);
        assert_int_equal(out[2], 300);
        /* on the whole in order of their index, but for those under way */
        if (!getenv("EXEC_TEST_CHAOS"))
            assert_in_range(out[3] / 300, 0, 4 * cases[c].per_sm + 4);
        for (int sm = 0; sm < 4; sm++) {
            assert_int_equal(out[4 + sm], 1);
            assert_in_range(out[32 + sm], 1, cases[c].per_sm);
        }
        assert_int_equal(out[8], 0);
    }
    assert_int_equal(sg_occupancy(gpu_limits(), gpu_kernel("k"), 32, 200 << 10), 0);
    struct gpu_running *r = begin("k", 1, 32, 200 << 10, 0, gpu_alloc(256));
    assert_int_equal(gpu_wait(r, 20), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

EXEC_TEST(descriptions)
{
    gpu_load(".const .align 4 .u32 c[8];\n.visible .entry k(.param .u64 out, .param .u32 n) .maxntid 256, 1, "
             "1\n{\n.shared .align 4 .b8 s[100]; .local .align 8 .b8 l[40]; ret;\n}\n");
    struct sg_kernel_info info;
    sg_kernel_describe(gpu_kernel("k"), &info);
    assert_int_equal(info.max_threads, 256);
    assert_int_equal(info.static_shared, 100);
    assert_in_range(info.local_bytes, 40, 64);
    assert_int_equal(info.const_bytes, 32);
    assert_int_equal(info.binary_version, 121);
    assert_int_equal(info.function->param_size, 12);
    assert_in_range(info.registers, 1, 255);
    assert_ptr_equal(gpu_kernel("k"), gpu_kernel("k"));
}

/* A grid may get a block of an earlier one of the same kernel: of the same shape, and clear. */
EXEC_TEST(later_grids_of_a_kernel)
{
    static const struct { uint32_t grid, block; } shapes[] = {
        { 1, 32 }, { 1, 32 }, { 3, 32 }, { 1, 64 }, { 1, 32 }, { 2, 48 }, { 3, 32 }, { 1, 7 }, { 2, 48 }, { 1, 64 }
    };
    gpu_load(".visible .entry k(.param .u64 out, .param .u32 add)\n{\n.shared .align 4 .b32 s[64];\n" HEAD MINE
             "ld.param.u32 r4, [add]; mov.u32 r5, %tid.x; mul.lo.u32 r5, r5, 4; mov.u32 r6, s; add.u32 r6, r6, r5;\n"
             "ld.shared.u32 r7, [r6]; st.shared.u32 [r6], 1000; mov.u32 r8, %nctaid.x; mad.lo.u32 r4, r8, 100, r4;\n"
             "add.u32 r4, r4, r7; add.u32 r4, r4, r30; mov.u32 r30, 2000; add.u32 r4, r4, r1; st.global.u32 [mine], "
             "r4;\nret;\n}\n");
    for (uint32_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const uint32_t grid = shapes[k].grid, block = shapes[k].block;
        uint32_t *out = gpu_alloc(4 * grid * block);
        assert_int_equal(gpu_run("k", grid, block, 2, ARG(out), (uint64_t)k), CUDA_SUCCESS);
        for (uint32_t i = 0; i < block; i++)             /* a later block of the grid may see what the first has left */
            assert_int_equal(out[i] % 1000, k + 100 * grid + i);
        if (grid == 1)
            for (uint32_t i = 0; i < block; i++)
                assert_int_equal(out[i], k + 100 + i);
    }
}

/* Grids from several threads at once. */
static void *many_launches(void *context)
{
    uint32_t *out = context;
    for (int i = 0; i < 100; i++)
        if (gpu_wait(begin("k", 7, 64, 0, 0, out), 20))
            return "failed";
    return NULL;
}
EXEC_TEST(launches_from_several_threads)
{
    gpu_load(KERNEL("k", MINE "ld.global.u32 r4, [mine]; add.u32 r4, r4, 1; st.global.u32 [mine], r4;"));
    pthread_t t[4];
    uint32_t *out[4];
    gpu_kernel("k");
    for (int i = 0; i < 4; i++)
        out[i] = gpu_alloc(7 * 64 * 4); /* none of them while a launch reads how much there is */
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, many_launches, out[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        assert_null(failed);
        for (int k = 0; k < 7 * 64; k++)
            assert_int_equal(out[i][k], 100);
    }
}

EXEC_TEST(an_engine_ends_under_running_grids)
{
    gpu_load(WAITS);
    struct gpu_running *r[3];
    uint32_t *out = gpu_alloc(64);
    for (int i = 0; i < 3; i++)
        r[i] = begin("waits", 1000, 256, 0, 0, out);
    usleep(20000);
    sg_engine_cancel(gpu_engine(), CUDA_ERROR_LAUNCH_FAILED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gpu_wait(r[i], 20), CUDA_ERROR_LAUNCH_FAILED);
    sg_engine *other;                                 /* and one that is destroyed while it runs */
    assert_int_equal(sg_engine_create(gpu_limits(), 0, 2, 0, &other), CUDA_SUCCESS);
    sg_engine_destroy(other);
    assert_int_equal(out[1], 0);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
