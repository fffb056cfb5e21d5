/* progress.c: independent thread scheduling: no lane, warp or block starves, wherever lanes meet. All with time
 * limits. */
#include "tests/exec/main.h"

#include <time.h>
#include <unistd.h>

#define SPIN_LOCK(lock) \
    "SPIN: atom.global.cas.b32 r10, [" lock "], 0, 1; setp.ne.s32 p1, r10, 0;\n@p1 bra SPIN;\nmembar.gl;\n"

/* Each lane of a warp takes a spin lock and adds to a plain counter. */
EXEC_TEST(spin_lock_in_a_warp)
{
    gpu_load(KERNEL("k", SPIN_LOCK("a0")
                    "ld.volatile.global.u32 r11, [a0+4]; add.u32 r11, r11, 1; st.volatile.global.u32 [a0+4], r11;\n"
                    "membar.gl; atom.global.exch.b32 r12, [a0], 0;"));
    uint32_t *out = gpu_written("k", 1, 32, 8);
    assert_int_equal(out[1], 32);
    assert_int_equal(gpu_run("k", 20, 96, 1, ARG(out)), CUDA_SUCCESS);
    assert_int_equal(out[1], 32 + 20 * 96);
}

/* Lane i waits for its flag, resets it, and raises the next one's; 100 rounds. */
EXEC_TEST(ring_of_flags)
{
    gpu_load(KERNEL("k", MINE
                    "add.u32 r4, r1, 1; rem.u32 r4, r4, r3; mul.wide.u32 a2, r4, 4; add.u64 a2, a2, a0;\n"
                    "setp.eq.u32 p0, r1, 0;\n@p0 st.volatile.global.u32 [mine], 1;\n"
                    "mov.u32 r5, 0;\n"
                    "NEXT: ld.volatile.global.u32 r6, [mine]; setp.eq.u32 p1, r6, 0;\n@p1 bra NEXT;\n"
                    "st.volatile.global.u32 [mine], 0; membar.gl; st.volatile.global.u32 [a2], 1;\n"
                    "add.u32 r5, r5, 1; setp.lt.u32 p2, r5, 100;\n@p2 bra NEXT;\n"));
    for (uint32_t n = 2; n <= 64; n *= 2) {
        uint32_t *out = gpu_written("k", 1, n, 64 * 4);
        assert_int_equal(out[0], 1);
    }
}

/* Even and odd lanes exchange through shfl.sync of two different lines. */
EXEC_TEST(shuffle_in_both_arms)
{
    gpu_load(KERNEL(
        "k", MINE "and.b32 r4, r1, 1; setp.eq.u32 p1, r4, 1; add.u32 r5, r1, 100; add.u32 r6, r1, 1000;\n@p1 bra ODD;\n"
                  "shfl.sync.bfly.b32 r7, r5, 1, 31, 0xffffffff; add.u32 r7, r7, 1; bra DONE;\n"
                  "ODD: add.u32 r6, r6, 7; shfl.sync.bfly.b32 r7, r6, 1, 31, 0xffffffff;\n"
                  "DONE: st.global.u32 [mine], r7;"));
    uint32_t *out = gpu_written("k", 1, 32, 128);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(out[i], i % 2 ? (i - 1) + 100 : i + 1 + 1007 + 1);
}

/* Lanes write, meet at bar.warp.sync of different lines, and read their neighbour's. */
EXEC_TEST(warp_barrier_from_different_lines)
{
    gpu_load(".shared .align 4 .b8 s[128];\n" KERNEL(
        "k", MINE
        "mov.u64 a3, s; mul.wide.u32 a4, r1, 4; add.u64 a3, a3, a4; mov.u32 r4, s; xor.b32 r5, r1, 31; shl.b32 r5, r5, "
        "2; add.u32 r4, r4, r5;\n"
        "setp.lt.u32 p1, r1, 10;\n@p1 bra A;\nsetp.lt.u32 p2, r1, 20;\n@p2 bra B;\n"
        "st.shared.u32 [a3], r1; bar.warp.sync 0xffffffff; ld.shared.u32 r6, [r4]; bra DONE;\n"
        "A: add.u32 r7, r1, 1000; st.shared.u32 [a3], r7; bar.warp.sync 0xffffffff; ld.shared.u32 r6, [r4]; bra DONE;\n"
        "B: add.u32 r7, r1, 2000; st.shared.u32 [a3], r7; bar.warp.sync 0xffffffff; ld.shared.u32 r6, [r4];\n"
        "DONE: st.global.u32 [mine], r6;"));
    uint32_t *out = gpu_written("k", 1, 32, 128);
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t o = i ^ 31;
        assert_int_equal(out[i], o < 10 ? o + 1000 : o < 20 ? o + 2000 : o);
    }
}

/* A third of the lanes return before bar.sync; the rest of the block meets, twice. */
EXEC_TEST(lanes_return_before_barrier)
{
    gpu_load(".shared .align 4 .u32 total;\n"
             KERNEL("k", "rem.u32 r4, r1, 3; setp.eq.u32 p1, r4, 0;\n"
                    "setp.eq.u32 p2, r1, 1;\n@p2 st.shared.u32 [total], 0;\n"
                    "@p1 ret;\nbar.sync 0;\natom.shared.add.u32 r5, [total], 1;\nbar.sync 0;\n"
                    "ld.shared.u32 r6, [total];" MINE "st.global.u32 [mine], r6;"));
    uint32_t *out = gpu_written("k", 1, 200, 200 * 4);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(out[i], i % 3 ? 133 : 0);
}

EXEC_TEST(ticket_lock_of_1000_blocks)
{
    gpu_load(KERNEL("k", "mov.u32 r9, %tid.x; setp.ne.u32 p0, r9, 0;\n@p0 ret;\n"
                    "atom.global.add.u32 r4, [a0], 1;\n"
                    "WAIT: ld.acquire.gpu.u32 r5, [a0+64]; setp.ne.u32 p1, r5, r4;\n@p1 bra WAIT;\n"
                    "ld.global.u32 r6, [a0+128]; mad.lo.u32 r6, r6, 3, r4; st.global.u32 [a0+128], r6;\n"
                    "add.u32 r5, r5, 1; st.release.gpu.u32 [a0+64], r5;"));
    uint32_t *out = gpu_alloc(256), expected = 0;
    assert_int_equal(gpu_run("k", 1000, 64, 1, ARG(out)), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 1000; i++)
        expected = expected * 3 + i;
    assert_int_equal(out[32], expected);
}

/* All resident blocks meet again and again at a barrier of their own making. */
EXEC_TEST(hand_made_grid_barrier)
{
    gpu_load(KERNEL("k", "mov.u32 r9, %tid.x; mov.u32 r10, %nctaid.x; mov.u32 r20, 0;\n"
                    "ROUND: bar.sync 0; setp.ne.u32 p0, r9, 0;\n@p0 bra MEET;\n"
                    "add.u32 r20, r20, 1; mul.lo.u32 r21, r20, r10; membar.gl; red.global.add.u32 [a0], 1;\n"
                    "SPIN: ld.volatile.global.u32 r22, [a0]; setp.lt.u32 p1, r22, r21;\n@p1 bra SPIN;\nmembar.gl;\n"
                    "MEET: bar.sync 0; @p0 add.u32 r20, r20, 1; setp.lt.u32 p2, r20, 10;\n@p2 bra ROUND;"));
    uint32_t *out = gpu_written("k", 96, 64, 256);
    assert_int_equal(out[0], 960);
}

/* grid.sync() as nvcc 13 writes it, with what it finds in envreg1 and envreg2. */
EXEC_TEST(cooperative_grid_sync)
{
    gpu_load(KERNEL(
        "k",
        MINE "mov.u32 r5, %tid.x; mov.u32 r6, %envreg2; cvt.u64.u32 a7, r6; mov.u32 r7, %envreg1; cvt.u64.u32 a8, r7;\n"
             "shl.b64 a9, a8, 32; or.b64 a2, a9, a7; st.global.u32 [mine], r1;\n"
             "setp.ne.s64 p1, a2, 0;\n@p1 bra GOOD;\ntrap;\nGOOD: mov.u32 r15, 0;\n"
             "AGAIN: barrier.sync 0; setp.ne.s32 p2, r5, 0;\n@p2 bra MEET;\n"
             "add.s64 a20, a2, 4; mov.u32 r16, %nctaid.x; setp.eq.s32 p3, r2, 0; sub.s32 r17, -2147483647, r16; "
             "selp.b32 r18, r17, 1, p3;\n"
             "atom.add.release.gpu.u32 r19,[a20],r18;\n"
             "SPIN: ld.acquire.gpu.u32 r20,[a20]; xor.b32 r21, r20, r19; setp.gt.s32 p4, r21, -1;\n@p4 bra SPIN;\n"
             "MEET: barrier.sync 0;\n"
             "xor.b32 r22, r1, 64; mul.wide.u32 a10, r22, 4; add.u64 a10, a10, a0; ld.global.u32 r23, [a10];\n"
             "barrier.sync 0; add.u32 r15, r15, 1; setp.lt.u32 p5, r15, 5;\n@p5 bra AGAIN;\nadd.u32 r23, r23, 5; "
             "st.global.u32 [mine+16384], r23;"));
    uint32_t *out = gpu_alloc(2 * 64 * 64 * 4);
    struct gpu_shape shape = { { 64, 1, 1 }, { 64, 1, 1 }, 0, SG_GRID_COOPERATIVE, { 0 } };
    uint64_t argument = ARG(out);
    assert_int_equal(gpu_launch("k", &shape, 1, &argument, 20), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 64 * 64; i++)
        assert_true(out[4096 + i] == (i ^ 64) + 5);
    shape.flags = 0;                                  /* not cooperative: no workspace, the kernel traps */
    assert_int_equal(gpu_launch("k", &shape, 1, &argument, 20), CUDA_ERROR_LAUNCH_FAILED);
}

/* Single-pass prefix sum: each block adds up its predecessors' published sums. */
EXEC_TEST(decoupled_look_back)
{
    enum { BLOCKS = 400 };
    gpu_load(KERNEL(
        "k",
        "mov.u32 r9, %tid.x; setp.ne.u32 p0, r9, 0;\n@p0 ret;\n"
        /* state[block] at a0: 1<<32 | sum = aggregate, 2<<32 | sum = prefix */
        "mul.wide.u32 a1, r2, 8; add.u64 a1, a1, a0; add.u32 r4, r2, 1; cvt.u64.u32 a2, r4; or.b64 a3, a2, "
        "4294967296;\n"
        "setp.eq.u32 p1, r2, 0;\n@p1 bra FIRST;\n"
        "st.relaxed.gpu.u64 [a1], a3; mov.u64 a5, a1;\n"
        "BACK: sub.u64 a5, a5, 8;\n"
        "WAIT: ld.relaxed.gpu.u64 a6, [a5]; setp.eq.u64 p2, a6, 0;\n@p2 bra WAIT;\n"
        "and.b64 a7, a6, 4294967295; add.u64 a2, a2, a7; shr.u64 a8, a6, 32; setp.eq.u64 p3, a8, 1;\n@p3 bra BACK;\n"
        "FIRST: or.b64 a9, a2, 8589934592; st.relaxed.gpu.u64 [a1], a9;"));
    uint64_t *out = gpu_alloc(BLOCKS * 8), sum = 0;
    assert_int_equal(gpu_run("k", BLOCKS, 64, 1, ARG(out)), CUDA_SUCCESS);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_true(out[i] == ((UINT64_C(2) << 32) | (sum += i + 1)));
}

/* Loops of different length per lane, with a branch inside; Collatz as a reference in C. */
EXEC_TEST(divergent_loops)
{
    gpu_load(
        KERNEL("k", MINE
               "add.u32 r4, r1, 1; mov.u32 r5, 0;\n"
               "LOOP: setp.eq.u32 p1, r4, 1;\n@p1 bra DONE;\nand.b32 r6, r4, 1; setp.eq.u32 p2, r6, 0;\n@p2 bra EVEN;\n"
               "mad.lo.u32 r4, r4, 3, 1; bra NEXT;\nEVEN: shr.u32 r4, r4, 1;\nNEXT: add.u32 r5, r5, 1; bra LOOP;\n"
               "DONE: st.global.u32 [mine], r5;"));
    uint32_t *out = gpu_written("k", 16, 256, 4096 * 4);
    for (uint32_t i = 0; i < 4096; i++) {
        uint32_t v = i + 1, n = 0;
        for (; v != 1; n++)
            v = v % 2 ? 3 * v + 1 : v / 2;
        assert_int_equal(out[i], n);
    }
}

/* Lanes wait in a called function for a lane that is still in the caller. */
EXEC_TEST(waiting_inside_a_call)
{
    gpu_load(".func wait(.param .b64 flag)\n{\n.reg .b64 a; .reg .b32 r; .reg .pred p;\nld.param.u64 a, [flag];\n"
             "W: ld.volatile.global.u32 r, [a]; setp.eq.u32 p, r, 0;\n@p bra W;\nret;\n}\n" KERNEL(
                 "k", MINE "setp.eq.u32 p1, r1, 31;\n@p1 bra LAST;\n"
                           "{ .param .b64 x; st.param.b64 [x], a0; call wait, (x); }\nadd.u32 r4, r1, 1; st.global.u32 "
                           "[mine+4], r4; bra DONE;\n"
                           "LAST: membar.gl; st.volatile.global.u32 [a0], 7;\nDONE:"));
    uint32_t *out = gpu_written("k", 1, 32, 256);
    assert_int_equal(out[0], 7);
    for (uint32_t i = 0; i < 31; i++)
        assert_int_equal(out[i + 1], i + 1);
}

/* Producer and consumer warps at named barriers with counts. */
EXEC_TEST(named_barriers)
{
    gpu_load(".shared .align 4 .u32 box;\n" KERNEL(
        "k", "mov.u32 r9, %tid.x; shr.u32 r10, r9, 5; mov.u32 r11, 0; mov.u32 r12, 0; setp.eq.u32 p1, r10, 0;\n@p1 bra "
             "PRODUCE;\n"
             "TAKE: bar.sync 1, 64; ld.shared.u32 r13, [box]; add.u32 r12, r12, r13; bar.arrive 2, 64;\n"
             "add.u32 r11, r11, 1; setp.lt.u32 p2, r11, 50;\n@p2 bra TAKE;\nbra DONE;\n"
             "PRODUCE: setp.eq.u32 p3, r11, 0;\n@!p3 bar.sync 2, 64;\n mul.lo.u32 r14, r11, 3;\n"
             "setp.eq.u32 p4, r9, 0;\n@p4 st.shared.u32 [box], r14;\nbar.arrive 1, 64;\n"
             "add.u32 r11, r11, 1; setp.lt.u32 p2, r11, 50;\n@p2 bra PRODUCE;\n"
             "DONE:" MINE "st.global.u32 [mine], r12;"));
    uint32_t *out = gpu_written("k", 1, 64, 256);
    for (uint32_t i = 32; i < 64; i++)
        assert_int_equal(out[i], 3 * 49 * 50 / 2);
}

/* mbarrier: phases by state and by parity, a count that shrinks, bytes to come. */
EXEC_TEST(mbarriers)
{
    gpu_load(".shared .align 8 .b64 b;\n.shared .align 4 .u32 sum;\n" KERNEL(
        "k", MINE
        "mov.u32 r9, %tid.x; setp.eq.u32 p1, r9, 0; mov.u64 a1, b; mov.u32 r10, 0; mov.u32 r11, 0;\n@p1 "
        "mbarrier.init.shared::cta.b64 [b], r3;\n@p1 st.shared.u32 [sum], 0;\nbar.sync 0;\n"
        "ROUND: atom.shared.add.u32 r4, [sum], 1; mbarrier.arrive.release.cta.shared::cta.b64 a2, [b];\n"
        "W: mbarrier.try_wait.shared.b64 p2, [a1], a2;\n@!p2 bra W;\nld.shared.u32 r5, [sum]; rem.u32 r6, r5, r3; "
        "add.u32 r11, r11, r6; mbarrier.arrive.shared.b64 a2, [b];\n"
        "V: mbarrier.test_wait.parity.shared.b64 p3, [b], 1;\n@!p3 bra V;\nadd.u32 r10, r10, 1; setp.lt.u32 p4, r10, "
        "10;\n@p4 bra ROUND;\n"
        /* phase 20: thread 0 expects bytes too, and the rest leave for good */
        "@p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 64;\n@!p1 mbarrier.arrive_drop.shared.b64 _, "
        "[b];\n@!p1 bra DONE;\nmbarrier.arrive.shared.b64 a2, [b]; cvt.u32.u64 r12, a2; mbarrier.test_wait.shared.b64 "
        "p5, [b], a2; @p5 add.u32 r11, r11, 100;\n"
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [b], 64;\nX: mbarrier.try_wait.shared.b64 p5, [b], a2;\n@!p5 "
        "bra X;\nmbarrier.arrive.shared.b64 a3, [b]; mbarrier.pending_count.b64 r13, a3; sub.u32 r13, r13, 1; add.u32 "
        "r11, r11, r13;\n"
        "mbarrier.test_wait.shared.b64 p6, [b], a3; @!p6 add.u32 r11, r11, 1000;\nDONE: st.global.u32 [mine], r11;"));
    uint32_t *out = gpu_alloc(4 * 96);
    memset(out, 1, 4 * 96);
    assert_int_equal(gpu_run("k", 1, 96, 1, ARG(out)), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 96; i++)
        assert_int_equal(out[i], 0);
}

/* Behind a barrier, warps store to shared memory only after the others have read what they read before their own
   stores, however long that takes them. Each thread adds up 40 elements of the others, and then overwrites its own; no
   barrier in between. */
#define OVERWRITING(name, generic, space)                                                                             \
    KERNEL(name,                                                                                                      \
           MINE ".reg .b64 b<4>; mov.u64 b0, s;" generic "mul.wide.u32 b1, r1, 4; add.u64 b1, b1, b0; st" space       \
                ".u32 [b1], r1; mov.u32 r8, 0;\n"                                                                     \
                "ROUND: bar.sync 0; mov.u32 r5, 0; mov.u32 r6, 0;\n"                                                  \
                "READ: add.u32 r7, r1, r5; and.b32 r7, r7, 255; mul.wide.u32 b2, r7, 4; add.u64 b2, b2, b0; ld" space \
                ".u32 r9, [b2]; add.u32 r6, r6, r9;\n"                                                                \
                "add.u32 r5, r5, 1; setp.lt.u32 p1, r5, 40;\n@p1 bra READ;\n"                                         \
                "and.b32 r6, r6, 65535; st" space                                                                     \
                ".u32 [b1], r6; add.u32 r8, r8, 1; setp.lt.u32 p2, r8, 6;\n@p2 bra ROUND;\nst.global.u32 [mine], r6;")
EXEC_TEST(stores_behind_a_barrier_wait_for_reads)
{
    enum { THREADS = 256, ROUNDS = 6, READS = 40 };
    if (getenv("EXEC_TEST_CHAOS"))
        skip();                       /* chaos is there to bring such races to light */
    uint32_t part[THREADS], next[THREADS];
    for (uint32_t t = 0; t < THREADS; t++)
        part[t] = t;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        memset(next, 0, sizeof next);
        for (uint32_t t = 0; t < THREADS; t++)
            for (uint32_t k = 0; k < READS; k++)
                next[t] += part[(t + k) % THREADS];
        for (uint32_t t = 0; t < THREADS; t++)
            part[t] = next[t] & 65535;
    }
    gpu_load(".shared .align 4 .b8 s[1024];\n" OVERWRITING("in_shared", "", ".shared")
                 OVERWRITING("in_generic", "cvta.shared.u64 b0, b0;", ""));
    for (int generic = 0; generic < 2; generic++) {
        uint32_t *out = gpu_alloc(sizeof part);
        assert_int_equal(gpu_run(generic ? "in_generic" : "in_shared", 1, THREADS, 1, ARG(out)), CUDA_SUCCESS);
        assert_memory_equal(out, part, sizeof part);
    }
}

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Blocks that sleep until another kernel raises a flag look at it no oftener than they asked, and notice it. */
EXEC_TEST(sleeping_leaves_the_processors)
{
    enum { NAP = 500000, THREADS = 4 * 64 };
    if (getenv("EXEC_TEST_CHAOS"))
        skip();                       /* chaos wakes them early */
    gpu_load(KERNEL("sleeps", "WAIT: nanosleep.u32 500000; atom.global.add.u32 r6, [a0+8], 1;\n"
                              "ld.volatile.global.u32 r5, [a0]; setp.eq.u32 p1, r5, 0;\n@p1 bra WAIT;\n"
                              "atom.global.add.u32 r6, [a0+4], 1;")
             KERNEL("raise", "st.volatile.global.u32 [a0], 1;"));
    uint32_t *out = gpu_alloc(12);
    const struct gpu_shape shape = { .grid = { 4, 1, 1 }, .block = { 64, 1, 1 } };
    const uint64_t argument = ARG(out), begun = nanoseconds();
    struct gpu_running *sleeps = gpu_begin("sleeps", &shape, 1, &argument);
    usleep(200000);
    assert_int_equal(gpu_run("raise", 1, 1, 1, argument), CUDA_SUCCESS);
    assert_int_equal(gpu_wait(sleeps, 60), CUDA_SUCCESS);
    uint64_t most = ((nanoseconds() - begun) / NAP + 2) * THREADS;
    assert_int_equal(out[1], THREADS);
    if (out[2] > most)
        fail_msg("%u looks, %llu would be enough", (unsigned)out[2], (unsigned long long)most);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
