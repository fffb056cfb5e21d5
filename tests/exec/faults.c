/* faults.c: how kernels end badly: each error's code, and that the next kernel is not touched by it. */
#include "tests/exec/main.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "softgpu/memory.h"

#define GOOD KERNEL("good", MINE "st.global.u32 [mine], r1;")

static void good_still_runs(void)
{
    uint32_t *out = gpu_written("good", 2, 32, 64 * 4);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], i);
}

static void expect(const char *body, uint32_t grid, uint32_t block, int error)
{
    char ptx[4096];
    snprintf(ptx, sizeof ptx, "%s.visible .entry k(.param .u64 out)\n{\n%s%s\nret;\n}\n", GOOD, HEAD, body);
    gpu_load(ptx);
    uint32_t *out = gpu_alloc(4096);
    int got = gpu_run("k", grid, block, 1, ARG(out));
    if (got != error)
        fail_msg("%s: %d instead of %d", body, got, error);
    good_still_runs();
    gpu_reset();
}

EXEC_TEST(illegal_addresses)
{
    const char *bodies[] = {
        "mov.u64 a1, 0; ld.global.u32 r4, [a1];",
        "mov.u64 a1, 0; st.global.u32 [a1], r1;",
        "mov.u64 a1, 0; st.u32 [a1], r1;",
        "ld.global.u32 r4, [16];",
        "mov.u64 a1, 0x7fffffff0000; atom.global.add.u32 r4, [a1], 1;",
        "add.u64 a1, a0, 0x0d000000; st.global.u32 [a1], r1;", /* of the window, but not mapped */
        "add.u64 a1, a0, 0x0d000000; mul.wide.u32 a2, r1, 4; add.u64 a1, a1, a2; ld.global.u32 r4, [a1];",
        "add.u64 a1, a0, 0x0d000000; ld.global.v4.u32 {r4, r5, r6, r7}, [a1];",
        /* one lane of many */
        "setp.eq.u32 p1, r1, 77; mov.u64 a1, a0; @p1 mov.u64 a1, 64; st.global.u32 [a1], r1;",
        "mov.u64 a1, 0xffffffffffffffff; and.b64 a1, a1, -8; ld.global.u64 a2, [a1];",
        "mov.u64 a1, 4096; ld.shared.u32 r4, [a1];",
        "mov.u32 r5, 0x7ffffffc; st.shared.u32 [r5], r4;",
        "mov.u64 a1, 1048576; ld.local.u32 r4, [a1];",
        "cvta.shared.u64 a1, 65536; ld.u32 r4, [a1];",
        ".shared .align 16 .b8 s[28]; ld.shared.u32 r4, [s+128];",
        /* 16 MiB behind, where another block of a cluster has its shared memory */
        ".shared .align 16 .b8 s[512]; st.shared.u32 [s+16777216], r4;",
        ".shared .align 16 .b8 s[512]; mov.u32 r5, s; add.u32 r5, r5, 0x1000000; st.shared.u32 [r5], r4;",
        ".shared .align 16 .b8 s[512]; mov.u32 r5, s; mad.lo.u32 r5, r1, 4, r5; add.u32 r5, r5, 0x1000000; "
        "ld.shared.u32 r4, [r5];",
        ".shared .align 16 .b8 s[512]; mov.u64 a1, s; cvta.shared.u64 a1, a1; add.u64 a1, a1, 0x1000000; "
        "st.u32 [a1], r4;",
        ".shared .align 16 .b8 s[512]; mov.u32 r5, s; mapa.shared::cluster.u32 r5, r5, 1; st.shared::cluster.u32 "
        "[r5], r4;",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        expect(bodies[i], 3, 96, CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Pinned memory over a network is shut while a patch of the program is written, and comes when a kernel touches it. */
static struct {
    _Atomic uint8_t *rights;
    uint8_t open;
    atomic_uint asked;
    unsigned shut; /* so many times it is shut again before the kernel looks */
} brought;

static bool bring(uint64_t address, uint64_t size, bool writes, const char *kernel)
{
    (void)address, (void)size, (void)writes, (void)kernel;
    if (atomic_fetch_add(&brought.asked, 1) >= brought.shut)
        atomic_store(brought.rights, brought.open);
    return true;
}

EXEC_TEST(memory_that_is_shut_again_is_waited_for)
{
    gpu_load(GOOD);
    for (brought.shut = 0; brought.shut < 4; brought.shut++) {
        uint32_t *out = gpu_alloc(64 * 4);
        const struct sg_window *w = &sg_memory.windows[0];
        while (ARG(out) - atomic_load(&w->base) >= atomic_load(&w->size))
            w++;
        brought.rights = atomic_load(&w->rights) + ((ARG(out) - atomic_load(&w->base)) >> SG_GRANULE_SHIFT);
        brought.open = atomic_exchange(brought.rights, 0);
        atomic_store(&brought.asked, 0);
        atomic_store(&sg_absent, bring);
        assert_int_equal(gpu_run("good", 2, 32, 1, ARG(out)), CUDA_SUCCESS);
        atomic_store(&sg_absent, NULL);
        assert_true(atomic_load(&brought.asked) > brought.shut);
        assert_int_equal(out[63], 63);
    }
    gpu_reset();
}

EXEC_TEST(misaligned_addresses)
{
    const char *bodies[] = {
        "ld.global.u32 r4, [a0+2];",
        "st.global.u64 [a0+4], a0;",
        "ld.global.v2.u32 {r4, r5}, [a0+4];",
        "ld.u16 h1, [a0+1];",
        "mul.wide.u32 a1, r1, 4; add.u64 a1, a1, a0; st.global.u32 [a1+1], r1;",
        "atom.global.add.u64 a1, [a0+4], 1;",
        "mul.wide.u32 a1, r1, 3; add.u64 a1, a1, a0; ld.global.u32 r4, [a1];",
        ".local .align 8 .b8 l[16]; ld.local.u32 r4, [l+2];",
        ".shared .align 8 .b8 s[16]; st.shared.u32 [s+2], r1;",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        expect(bodies[i], 1, 64, CUDA_ERROR_MISALIGNED_ADDRESS);
}

/* Shared memory is allocated in units of 128 bytes, and NVIDIA's compiler reads beyond a variable inside its unit. */
EXEC_TEST(the_rest_of_a_unit_does_not_fault)
{
    expect(".shared .align 16 .b8 s[28]; ld.shared.v4.u32 {r4, r5, r6, r7}, [s+16]; st.shared.u32 [s+124], r4;", 1, 32,
           CUDA_SUCCESS);
}

EXEC_TEST(inactive_lanes_do_not_fault)
{
    expect("setp.lt.u32 p1, r1, 5; mov.u64 a1, 0; @p1 mov.u64 a1, a0; @p1 ld.global.u32 r4, [a1]; @p1 st.u32 [a1], r4;",
           1, 32, CUDA_SUCCESS);
}

EXEC_TEST(traps)
{
    expect("trap;", 2, 64, CUDA_ERROR_LAUNCH_FAILED);
    expect("setp.eq.u32 p1, r1, 1000; @p1 trap;", 2, 64, CUDA_SUCCESS);
    /* others run for ever */
    expect("setp.eq.u32 p1, r1, 100; @p1 trap; W: bra W;", 2, 64, CUDA_ERROR_LAUNCH_FAILED);
    /* others wait for ever */
    expect("setp.eq.u32 p1, r1, 33; @p1 trap; bar.sync 0, 128;", 2, 64, CUDA_ERROR_LAUNCH_FAILED);
    expect("mov.u32 r4, 17; bar.sync r4;", 1, 32, CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

EXEC_TEST(bad_pointers_to_functions)
{
    expect("P: .callprototype _ (); mov.u64 a1, 0; call a1, (), P;", 1, 32, CUDA_ERROR_INVALID_PC);
    expect("P: .callprototype _ (); call a0, (), P;", 1, 32, CUDA_ERROR_INVALID_PC);
}

EXEC_TEST(infinite_recursion)
{
    gpu_load(".func f(.param .b32 n);\n.func f(.param .b32 n)\n{\n.reg .b32 r; ld.param.b32 r, [n]; add.u32 r, r, 1;\n"
             "{ .param .b32 x; st.param.b32 [x], r; call f, (x); }\nret;\n}\n" GOOD
             KERNEL("k", "{ .param .b32 x; st.param.b32 [x], r1; call f, (x); }"));
    uint32_t *out = gpu_alloc(4096);
    for (size_t stack = 1024; stack <= 65536; stack *= 64) {
        gpu_set_stack(stack);
        assert_int_equal(gpu_run("k", 4, 64, 1, ARG(out)), CUDA_ERROR_HARDWARE_STACK_ERROR);
    }
    gpu_set_stack(1024);
    good_still_runs();
}

EXEC_TEST(unknown_instruction_is_named)
{
    const char *why = gpu_refuses(GOOD "\n" KERNEL("k", "frobnicate.u32 r1, r2;"), "k");
    assert_non_null(why);
    assert_non_null(strstr(why, "frobnicate.u32"));
    assert_non_null(strstr(why, "line 17"));
    good_still_runs();                                /* the other kernel of the module */
    why = gpu_refuses(".func f()\n{\n.reg .b32 r1;\nfrobnicate.u32 r1, r1;\nret;\n}\n" KERNEL("k", "call f;"), "k");
    assert_non_null(why);
    assert_non_null(strstr(why, "frobnicate.u32"));
}

EXEC_TEST(failed_assertion)
{
    gpu_load(".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
             ".global .align 1 .b8 text[6] = {120, 32, 62, 32, 48, 0};\n.global .align 1 .b8 file[5] = {102, 46, 99, "
             "117, 0};\n"
             ".global .align 1 .b8 func[10] = {118, 111, 105, 100, 32, 102, 40, 105, 41, 0};\n" GOOD KERNEL(
                 "k", "setp.ne.u32 p1, r1, 35;\n@p1 ret;\nmov.u64 a1, text; mov.u64 a2, file; mov.u64 a3, func;\n"
                      "{ .param .b64 q0; st.param.b64 [q0], a1; .param .b64 q1; st.param.b64 [q1], a2; .param .b32 q2; "
                      "st.param.b32 [q2], 42;\n"
                      ".param .b64 q3; st.param.b64 [q3], a3; .param .b64 q4; st.param.b64 [q4], 1;\ncall "
                      "__assertfail, (q0, q1, q2, q3, q4); }\n"));
    uint32_t *out = gpu_alloc(64);
    char text[512] = "";
    int ends[2], before = dup(2);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], 2);
    int result = gpu_run("k", 2, 32, 1, ARG(out));
    dup2(before, 2);
    close(before);
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_int_equal(result, CUDA_ERROR_ASSERT);
    assert_string_equal(text, "f.cu:42: void f(i): block: [1,0,0], thread: [3,0,0] Assertion `x > 0` failed.\n");
    good_still_runs();
}

static void *cancel_soon(void *unused)
{
    (void)unused;
    usleep(50000);
    sg_engine_cancel(gpu_engine(), CUDA_ERROR_LAUNCH_FAILED);
    return NULL;
}

EXEC_TEST(endless_kernels_can_be_cancelled)
{
    const char *bodies[] = { "W: bra W;", "setp.eq.u32 p1, r1, 0;\n@p1 bar.sync 0, 64;\nW: nanosleep.u32 100; bra W;",
                             "bar.sync 1, 512;" };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, cancel_soon, NULL), 0);
        expect(bodies[i], 500, 32, CUDA_ERROR_LAUNCH_FAILED);
        pthread_join(t, NULL);
    }
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
