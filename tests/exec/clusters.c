/* clusters.c: clusters of several blocks: special registers, the cluster's barrier, shared memory of other blocks,
 * copies to several blocks, and which clusters are refused. */
#include "tests/exec/main.h"

static int launch(const char *kernel, const uint32_t grid[3], uint32_t block, const uint32_t cluster[3], void *out)
{
    struct gpu_shape shape = { .block = { block, 1, 1 } };
    uint64_t argument = ARG(out);
    for (int i = 0; i < 3; i++)
        shape.grid[i] = grid[i], shape.cluster[i] = cluster[i];
    return gpu_launch(kernel, &shape, 1, &argument, 20);
}

/* Each block writes 16 words: ctaid, cluster_ctaid, clusterid, cluster_ctarank, cluster_nctarank, cluster_nctaid,
   nclusterid (x only), is_explicit_cluster. */
#define WHERE                                                                                                          \
    "mov.u32 r4, %ctaid.y; mov.u32 r5, %ctaid.z; mov.u32 r6, %nctaid.x; mov.u32 r7, %nctaid.y;\n"                      \
    "mad.lo.u32 r8, r5, r7, r4; mad.lo.u32 r8, r8, r6, r2; mul.wide.u32 a1, r8, 64; add.u64 a1, a1, a0;\n"             \
    "st.global.u32 [a1], r2; st.global.u32 [a1+4], r4; st.global.u32 [a1+8], r5;\n"                                    \
    "mov.u32 r9, %cluster_ctaid.x; st.global.u32 [a1+12], r9; mov.u32 r9, %cluster_ctaid.y; st.global.u32 " \
    "[a1+16], r9;\n" \
    "mov.u32 r9, %cluster_ctaid.z; st.global.u32 [a1+20], r9; mov.u32 r9, %clusterid.x; st.global.u32 [a1+24], r9;\n"  \
    "mov.u32 r9, %clusterid.y; st.global.u32 [a1+28], r9; mov.u32 r9, %clusterid.z; st.global.u32 [a1+32], r9;\n"      \
    "mov.u32 r9, %cluster_ctarank; st.global.u32 [a1+36], r9; mov.u32 r9, %cluster_nctarank; st.global.u32 " \
    "[a1+40], r9;\n" \
    "mov.u32 r9, %cluster_nctaid.x; st.global.u32 [a1+44], r9; mov.u32 r9, %nclusterid.x; st.global.u32 [a1+48], r9;\n"\
    "mov.u32 r9, %nclusterid.y; st.global.u32 [a1+52], r9; mov.u32 r9, %cluster_nctaid.z; st.global.u32 [a1+56], r9;\n"\
    "mov.pred p1, %is_explicit_cluster; selp.u32 r9, 1, 0, p1; st.global.u32 [a1+60], r9;"

EXEC_TEST(blocks_know_their_place)
{
    static const uint32_t clusters[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 2, 1, 1 }, { 2, 3, 2 }, { 4, 1, 2 } };
    gpu_load(KERNEL("k", WHERE));
    for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++) {
        const uint32_t grid[3] = { 8, 6, 4 }, *given = clusters[c];
        uint32_t n[3] = { given[0] ? given[0] : 1, given[1] ? given[1] : 1, given[2] ? given[2] : 1 };
        uint32_t (*out)[16] = gpu_alloc(8 * 6 * 4 * sizeof *out);
        assert_int_equal(launch("k", grid, 1, given, out), CUDA_SUCCESS);
        for (uint32_t i = 0; i < 8 * 6 * 4; i++) {
            uint32_t at[3] = { i % 8, i / 8 % 6, i / 48 };
            for (int k = 0; k < 3; k++) {
                assert_int_equal(out[i][k], at[k]);
                assert_int_equal(out[i][3 + k], at[k] % n[k]);
                assert_int_equal(out[i][6 + k], at[k] / n[k]);
            }
            assert_int_equal(out[i][9], at[0] % n[0] + n[0] * (at[1] % n[1] + n[1] * (at[2] % n[2])));
            assert_int_equal(out[i][10], n[0] * n[1] * n[2]);
            assert_int_equal(out[i][11], n[0]);
            assert_int_equal(out[i][12], 8 / n[0]);
            assert_int_equal(out[i][13], 6 / n[1]);
            assert_int_equal(out[i][14], n[2]);
            assert_int_equal(out[i][15], given[0] != 0);
        }
    }
}

EXEC_TEST(a_kernel_may_name_its_clusters)
{
    gpu_load(".visible .entry k(.param .u64 out)\n.reqnctapercluster 2, 1, 1\n{\n" HEAD WHERE "\nret;\n}\n");
    uint32_t (*out)[16] = gpu_alloc(6 * sizeof *out);
    assert_int_equal(launch("k", (uint32_t[3]){ 6, 1, 1 }, 1, (uint32_t[3]){ 0 }, out), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(out[i][9], i % 2);
        assert_int_equal(out[i][15], 1);
    }
}

EXEC_TEST(clusters_that_cannot_be_are_refused)
{
    gpu_load(KERNEL("k", ""));
    const uint32_t grid[3] = { 32, 3, 2 };
    void *out = gpu_alloc(64);
    assert_int_equal(launch("k", grid, 1, (uint32_t[3]){ 3, 1, 1 }, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch("k", grid, 1, (uint32_t[3]){ 2, 2, 1 }, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch("k", grid, 1, (uint32_t[3]){ 32, 1, 1 }, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch("k", grid, 1024, (uint32_t[3]){ 8, 1, 1 }, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch("k", grid, 1024, (uint32_t[3]){ 4, 1, 1 }, out), CUDA_SUCCESS);
    assert_int_equal(launch("k", grid, 64, (uint32_t[3]){ 16, 1, 1 }, out), CUDA_SUCCESS);
}

/* In each of 100 rounds every thread writes into the shared memory of the next block, behind two halves of the barrier,
   and reads what the block before wrote. Wrong values are counted. */
#define NEIGHBOURS(arrive, space)                                                                                      \
    ".shared .align 16 .b8 s[512];\n"                                                                                  \
    ".visible .entry k(.param .u64 out)\n{\n" HEAD                                                                     \
    "mov.u32 r4, %tid.x; mov.u32 r5, %cluster_ctarank; mov.u32 r6, %cluster_nctarank; mov.u32 r7, s;\n"                \
    "shl.b32 r8, r4, 2; add.u32 r9, r7, r8; add.u32 r10, r5, 1; rem.u32 r10, r10, r6; mov.u32 r16, 0;\n"               \
    "mapa.shared::cluster.u32 r11, r9, r10;\n"                                                                         \
    "cvt.u64.u32 a2, r9; cvta.shared::cluster.u64 a2, a2; mapa.u64 a2, a2, r10;\n" \
    "add.u32 r12, r5, r6; sub.u32 r12, r12, 1; rem.u32 r12, r12, r6; mov.u32 r13, 0;\n"                                \
    "L: mad.lo.u32 r14, r13, 1000, r5; " space " r14;\n"                                                               \
    "barrier.cluster." arrive "; barrier.cluster.wait.acquire;\n"                                                      \
    "ld.shared.u32 r15, [r9]; mad.lo.u32 r14, r13, 1000, r12; setp.ne.u32 p1, r14, r15;\n@p1 add.u32 r16, r16, 1;\n"   \
    "barrier.cluster.arrive; barrier.cluster.wait;\n"                                                                  \
    "add.u32 r13, r13, 1; setp.lt.u32 p1, r13, 100;\n@p1 bra L;\n"                                                     \
    "red.global.add.u32 [a0], r16; red.global.add.u32 [a0+4], 1;\nret;\n}\n"

static void neighbours(const char *arrive_and_store)
{
    for (uint32_t size = 1; size <= 16; size *= 2) {
        uint32_t *out = gpu_alloc(64);
        gpu_load(arrive_and_store);
        assert_int_equal(launch("k", (uint32_t[3]){ 48, 1, 1 }, 65, (uint32_t[3]){ size, 1, 1 }, out), CUDA_SUCCESS);
        assert_int_equal(out[1], 48 * 65);
        assert_int_equal(out[0], 0);
    }
}

EXEC_TEST(blocks_write_into_each_other)
{
    neighbours(NEIGHBOURS("arrive.release", "st.shared::cluster.u32 [r11],") );
    neighbours(NEIGHBOURS("arrive.release.aligned", "st.u32 [a2],"));
}

/* All threads of all blocks add to the first block's shared memory, 32 and 64 bits, shared and generic. */
EXEC_TEST(blocks_add_to_one)
{
    gpu_load(".shared .align 8 .b64 sum[2];\n.visible .entry k(.param .u64 out)\n{\n" HEAD
             "mov.u32 r4, %tid.x; mov.u32 r5, %cluster_ctarank; or.b32 r6, r4, r5; setp.ne.u32 p1, r6, 0;\n"
             "@p1 bra A;\nmov.u64 a1, 0; st.shared.u64 [sum], a1; st.shared.u64 [sum+8], a1;\n"
             "A: barrier.cluster.arrive; barrier.cluster.wait;\n"
             "mov.u32 r7, sum; mapa.shared::cluster.u32 r8, r7, 0; cvt.u64.u32 a2, r8; cvta.shared::cluster.u64 "
             "a3, a2;\n"
             "getctarank.shared::cluster.u32 r9, r8; getctarank.u64 r10, a3; or.b32 r9, r9, r10;\n"
             "getctarank.shared::cluster.u32 r10, r7; sub.u32 r10, r10, r5; or.b32 r9, r9, r10;\n"
             "red.shared::cluster.add.u32 [r8], 1; atom.add.u64 a4, [a3+8], 3; red.global.or.b32 [a0+16], r9;\n"
             "isspacep.shared::cluster p2, a3; isspacep.shared::cta p3, a3; setp.eq.u32 p4, r5, 0;\n"
             "selp.u32 r11, 0, 1, p2; red.global.add.u32 [a0+20], r11; xor.pred p3, p3, p4; selp.u32 r11, 1, 0, p3; "
             "red.global.add.u32 [a0+20], r11;\n"
             "barrier.cluster.arrive; barrier.cluster.wait;\n@p1 ret;\n"
             "ld.shared.u32 r12, [sum]; ld.shared.u64 a5, [sum+8]; cvt.u32.u64 r13, a5;\n"
             "red.global.add.u32 [a0], r12; red.global.add.u32 [a0+4], r13;\nret;\n}\n");
    uint32_t *out = gpu_alloc(64);
    assert_int_equal(launch("k", (uint32_t[3]){ 8, 3, 1 }, 96, (uint32_t[3]){ 4, 1, 1 }, out), CUDA_SUCCESS);
    assert_int_equal(out[0], 24 * 96);
    assert_int_equal(out[1], 3 * 24 * 96);
    assert_int_equal(out[4], 0);
    assert_int_equal(out[5], 0);
}

/* Threads that exit count as arrived, before and after others wait. */
EXEC_TEST(exited_threads_hold_nobody)
{
    gpu_load(KERNEL("k", "mov.u32 r4, %cluster_ctarank; mov.u32 r5, %tid.x; add.u32 r6, r4, r5; and.b32 r6, r6, 3; "
                         "setp.eq.u32 p1, r6, 0;\n@p1 bra E;\n"
                         "barrier.cluster.arrive; barrier.cluster.wait; red.global.add.u32 [a0], 1;\n"
                         "setp.eq.u32 p1, r4, 2;\n@p1 bra E;\n"
                         "barrier.cluster.arrive; barrier.cluster.wait; red.global.add.u32 [a0+4], 1;\nE:"));
    uint32_t *out = gpu_alloc(64);
    assert_int_equal(launch("k", (uint32_t[3]){ 16, 1, 1 }, 128, (uint32_t[3]){ 4, 1, 1 }, out), CUDA_SUCCESS);
    assert_int_equal(out[0], 16 * 96);
    assert_int_equal(out[1], 12 * 96);
}

/* Between arriving and waiting a thread goes on: block 0 arrives, tells block 1 through global memory, and only then
   does block 1 arrive. */
EXEC_TEST(arriving_does_not_wait)
{
    gpu_load(KERNEL("k", "mov.u32 r4, %cluster_ctarank; setp.ne.u32 p1, r4, 0;\n@p1 bra B;\n"
                         "barrier.cluster.arrive.relaxed; st.volatile.global.u32 [a0], 1; bra W;\n"
                         "B: ld.volatile.global.u32 r5, [a0]; setp.eq.u32 p2, r5, 0;\n@p2 bra B;\n"
                         "barrier.cluster.arrive.release;\nW: barrier.cluster.wait; red.global.add.u32 [a0+4], 1;"));
    uint32_t *out = gpu_alloc(64);
    assert_int_equal(launch("k", (uint32_t[3]){ 2, 1, 1 }, 64, (uint32_t[3]){ 2, 1, 1 }, out), CUDA_SUCCESS);
    assert_int_equal(out[1], 128);
}

/* Each block sends to the next: st.async and a bulk copy from shared memory, both announced at the other's mbarrier. */
EXEC_TEST(asynchronous_stores_arrive_at_the_others_barrier)
{
    gpu_load(".shared .align 16 .b8 from[64]; .shared .align 16 .b8 to[64]; .shared .align 8 .b64 bar; .shared "
             ".align 8 .b64 x;\n"
             ".visible .entry k(.param .u64 out)\n{\n" HEAD
             "mov.u32 r4, %cluster_ctarank; mov.u32 r5, %cluster_nctarank; add.u32 r6, r4, 1; rem.u32 r6, r6, r5;\n"
             "mov.u32 r7, bar; mov.u32 r8, to; mov.u32 r9, from; mov.u32 r10, x;\n"
             "mov.u32 r11, 0;\nF: add.u32 r12, r9, r11; mad.lo.u32 r13, r4, 100, r11; st.shared.u32 [r12], r13; "
             "add.u32 r11, r11, 4; setp.lt.u32 p1, r11, 64;\n@p1 bra F;\n"
             "mbarrier.init.shared.b64 [r7], 1; mbarrier.arrive.expect_tx.shared.b64 _, [r7], 72;\n"
             "barrier.cluster.arrive; barrier.cluster.wait;\n"
             "mapa.shared::cluster.u32 r14, r7, r6; mapa.shared::cluster.u32 r15, r8, r6; "
             "mapa.shared::cluster.u32 r16, r10, r6;\n"
             "cvt.u64.u32 a3, r4; st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [r16], a3, [r14];\n"
             "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [r15], [r9], 64, [r14];\n"
             "W: mbarrier.try_wait.parity.shared.b64 p2, [r7], 0;\n@!p2 bra W;\n"
             "ld.shared.u64 a4, [r10]; cvt.u32.u64 r17, a4; ld.shared.u32 r18, [r8+60];\n"
             "mul.wide.u32 a5, r2, 8; add.u64 a5, a5, a0; st.global.u32 [a5], r17; st.global.u32 [a5+4], r18;\n"
             "barrier.cluster.arrive; barrier.cluster.wait;\nret;\n}\n");
    uint32_t (*out)[2] = gpu_alloc(12 * sizeof *out);
    assert_int_equal(launch("k", (uint32_t[3]){ 12, 1, 1 }, 1, (uint32_t[3]){ 4, 1, 1 }, out), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t before = (i % 4 + 3) % 4;
        assert_int_equal(out[i][0], before);
        assert_int_equal(out[i][1], before * 100 + 60);
    }
}

/* Block 0 copies once from global memory into blocks 1 and 3; each of them sees its own mbarrier complete. */
EXEC_TEST(one_copy_reaches_several_blocks)
{
    gpu_load(".shared .align 16 .b8 to[64]; .shared .align 8 .b64 bar;\n.visible .entry k(.param .u64 out)\n{\n" HEAD
             "mov.u32 r4, %cluster_ctarank; mov.u32 r7, bar; mov.u32 r8, to; st.shared.u32 [r8+4], 0;\n"
             "mbarrier.init.shared.b64 [r7], 1; mbarrier.arrive.expect_tx.shared.b64 _, [r7], 64;\n"
             "barrier.cluster.arrive; barrier.cluster.wait;\nsetp.ne.u32 p1, r4, 0;\n@p1 bra R;\n"
             "mov.b16 h1, 10;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [r8], [a0], "
             "64, [r7], h1;\n"
             "R: barrier.cluster.arrive; barrier.cluster.wait;\n"
             "mbarrier.test_wait.parity.shared.b64 p2, [r7], 0; selp.u32 r9, 1, 0, p2; ld.shared.u32 r10, [r8+4];\n"
             "mul.wide.u32 a5, r4, 8; add.u64 a5, a5, a0; st.global.u32 [a5+64], r9; st.global.u32 [a5+68], "
             "r10;\nret;\n}\n");
    uint32_t *out = gpu_alloc(256);
    out[1] = 77;
    assert_int_equal(launch("k", (uint32_t[3]){ 4, 1, 1 }, 1, (uint32_t[3]){ 4, 1, 1 }, out), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(out[16 + 2 * i], i % 2);
        assert_int_equal(out[17 + 2 * i], i % 2 ? 77 : 0);
    }
}

EXEC_TEST(a_block_that_is_not_there_faults)
{
    gpu_load(".shared .align 4 .b32 s;\n" KERNEL("k", "mov.u32 r4, s; mapa.shared::cluster.u32 r5, r4, 2; "
                                                      "ld.shared::cluster.u32 r6, [r5];"));
    void *out = gpu_alloc(64);
    assert_int_equal(launch("k", (uint32_t[3]){ 4, 1, 1 }, 1, (uint32_t[3]){ 4, 1, 1 }, out), CUDA_SUCCESS);
    assert_int_equal(launch("k", (uint32_t[3]){ 4, 1, 1 }, 1, (uint32_t[3]){ 2, 1, 1 }, out),
                     CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(launch("k", (uint32_t[3]){ 4, 1, 1 }, 1, (uint32_t[3]){ 0 }, out), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Each cluster takes over what has not started, until nothing is left: each block's work is done once. out: how often
   each was done; at 2048, how many were taken over. */
EXEC_TEST(work_is_taken_over)
{
    gpu_load(".shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;\n.visible .entry k(.param .u64 "
             "out)\n{\n" HEAD
             ".reg .b128 q; mov.u32 r5, %ctaid.y; mov.u32 r6, %nctaid.x; mov.u32 r7, %cluster_ctarank;\n"
             "mov.u32 r8, answer; mov.u32 r9, bar; mov.u32 r10, 0;\nmbarrier.init.shared.b64 [r9], 1;\n"
             "barrier.cluster.arrive; barrier.cluster.wait;\n"
             "A: mad.lo.u32 r11, r5, r6, r2; mul.wide.u32 a1, r11, 4; add.u64 a1, a1, a0; red.global.add.u32 [a1], 1;\n"
             "mbarrier.arrive.expect_tx.shared.b64 _, [r9], 16;\n"
             "barrier.cluster.arrive; barrier.cluster.wait;\nsetp.ne.u32 p1, r7, 0;\n@p1 bra W;\n"
             "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all."
             "b128 [r8], [r9];\n"
             "W: mbarrier.try_wait.parity.shared.b64 p2, [r9], r10;\n@!p2 bra W;\nxor.b32 r10, r10, 1;\n"
             "ld.shared.b128 q, [r8]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p3, q;\n@!p3 bra E;\n"
             "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {r2, r5, r12, _}, q;\n"
             "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 r13, q; sub.u32 r13, r13, r2; "
             "or.b32 r12, r12, r13;\n"
             "add.u32 r2, r2, r7; red.global.add.u32 [a0+8192], 1; red.global.or.b32 [a0+8196], r12; bra A;\n"
             "E: ret;\n}\n");
    for (uint32_t size = 1; size <= 4; size *= 2) {
        uint32_t *out = gpu_alloc(16384);
        assert_int_equal(launch("k", (uint32_t[3]){ 40, 30, 1 }, 1, (uint32_t[3]){ size, 1, 1 }, out), CUDA_SUCCESS);
        for (uint32_t i = 0; i < 1200; i++)
            assert_int_equal(out[i], 1);
        assert_in_range(out[2048], 1, 1200);
        assert_int_equal(out[2049], 0);
    }
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
