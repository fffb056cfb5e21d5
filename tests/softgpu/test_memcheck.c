/*
 * test_memcheck.c: FLYT_SOFTGPU_MEMCHECK. Each case runs in a child of its own, whose reports are read; the parent
 * never starts the driver.
 *
 * shows: software GPU: FLYT_SOFTGPU_MEMCHECK reports accesses beyond allocations and to freed memory, reads of memory
 *   that nothing wrote, and races on shared memory, with kernel, thread, block, address and source line.
 */
#include "tests/softgpu/softgpu_test.h"

#include <sys/wait.h>
#include <unistd.h>

static const char KERNELS[] =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    /* p[i * step] = q[i * step], i: number of the thread in the grid */
    ".visible .entry move(.param .u64 p, .param .u64 q, .param .s32 step)\n{\n.reg .b32 r<8>; .reg .b64 d<8>;\n"
    "mov.u32 r1, %tid.x; mov.u32 r2, %ctaid.x; mov.u32 r3, %ntid.x; mad.lo.s32 r4, r2, r3, r1;\n"
    "ld.param.u64 d1, [p]; ld.param.u64 d2, [q]; ld.param.s32 r5, [step]; mul.wide.s32 d3, r4, r5; shl.b64 d3, d3, 2;\n"
    "add.s64 d1, d1, d3; add.s64 d2, d2, d3;\n"
    ".loc 1 11 5\nld.global.u32 r6, [d2];\n.loc 1 12 5\nst.global.u32 [d1], r6;\nret;\n}\n"
    /* each thread writes its word of shared memory and reads its neighbour's of the next warp, which p says how */
    ".visible .entry _Z5sharePji(.param .u64 p, .param .s32 how)\n{\n.reg .b32 r<8>; .reg .b64 d<4>; .reg .pred p<4>;\n"
    ".shared .align 4 .b8 s[256];\n"
    "mov.u32 r1, %tid.x; mov.u32 r2, s; shl.b32 r3, r1, 2; add.u32 r3, r3, r2; ld.param.s32 r7, [how];\n"
    "xor.b32 r4, r1, 32; shl.b32 r4, r4, 2; add.u32 r4, r4, r2; setp.eq.s32 p1, r7, 1; setp.eq.s32 p2, r7, 2;\n"
    "@p1 bra UNWRITTEN;\n@p2 add.u32 r3, r3, 256;\n"
    ".loc 1 21 5\nst.shared.u32 [r3], r1;\nsetp.eq.s32 p3, r7, 3; @p3 bra UNWRITTEN;\nbar.sync 0;\n"
    "UNWRITTEN:\n.loc 1 24 5\nld.shared.u32 r5, [r4];\n"
    "ld.param.u64 d1, [p]; mul.wide.u32 d2, r1, 4; add.s64 d1, d1, d2; st.global.u32 [d1], r5;\nret;\n}\n"
    /* a sum over a block through shared memory, a barrier with a number and a count, and an atomic */
    ".visible .entry sum(.param .u64 p, .param .u64 q)\n{\n.reg .b32 r<12>; .reg .b64 d<6>; .reg .pred p<4>;\n"
    ".shared .align 4 .b8 s[256];\n"
    "mov.u32 r1, %tid.x; mov.u32 r2, s; shl.b32 r3, r1, 2; add.u32 r3, r3, r2; ld.param.u64 d1, [q];\n"
    "mul.wide.u32 d2, r1, 4; add.s64 d2, d2, d1; ld.global.u32 r4, [d2]; st.shared.u32 [r3], r4; mov.u32 r5, 32;\n"
    "LOOP:\nbarrier.sync 3, 64;\nsetp.ge.u32 p1, r1, r5; @p1 bra NEXT;\n"
    "shl.b32 r6, r5, 2; add.u32 r6, r6, r3; ld.shared.u32 r7, [r6]; ld.shared.u32 r8, [r3]; add.u32 r8, r8, r7;\n"
    "st.shared.u32 [r3], r8;\nNEXT:\nshr.u32 r5, r5, 1; setp.ne.u32 p2, r5, 0; @p2 bra LOOP;\n"
    "bar.sync 0;\nsetp.ne.u32 p3, r1, 63; @p3 ret;\n"
    "ld.shared.u32 r9, [s]; ld.param.u64 d3, [p]; atom.global.add.u32 r10, [d3], r9;\nret;\n}\n"
    ".file 1 \"sample.cu\"\n";

/* In a child, where cmocka has no say. */
#define EXPECT(value, call)                                                                      \
    do {                                                                                         \
        int expect_got = (int)(call);                                                            \
        if (expect_got != (value)) {                                                             \
            fprintf(stderr, "line %d: %d, not %d\n", __LINE__, expect_got, (int)(value));       \
            _exit(3);                                                                            \
        }                                                                                        \
    } while (0)
#define GOOD(call) EXPECT(CUDA_SUCCESS, call)

static CUcontext context;
static CUmodule module;

static void start(void)
{
    GOOD(cuInit(0));
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxSetCurrent(context));
    GOOD(cuModuleLoadData(&module, KERNELS));
}

static int run(const char *name, unsigned blocks, unsigned threads, void **arguments)
{
    CUfunction f;
    GOOD(cuModuleGetFunction(&f, module, name));
    GOOD(cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL));
    return cuCtxSynchronize();
}

/* What the case writes to stderr. The case exits with status 0 when all is as it should be. */
static const char *reports(const char *mode, void (*body)(void))
{
    static char text[65536];
    char name[] = "/tmp/flyt-memcheck-XXXXXX";
    int fd = mkstemp(name), status;
    assert_true(fd >= 0);
    unlink(name);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        setenv("FLYT_SOFTGPU_MEMCHECK", mode, 1);
        dup2(fd, 2);
        start();
        body();
        fflush(NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(fd);
    if (status)
        fail_msg("status %x: %s", status, text);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in: %s", part, text);
}

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}

static CUdeviceptr written(size_t bytes)
{
    CUdeviceptr p;
    GOOD(cuMemAlloc(&p, bytes));
    GOOD(cuMemsetD8(p, 1, bytes));
    return p;
}

/* Thread 4 of block 3 is number 100. */
static void beyond(void)
{
    CUdeviceptr p, q = written(512);
    int step = 1;
    GOOD(cuMemAlloc(&p, 400));
    EXPECT(CUDA_ERROR_LAUNCH_FAILED, run("move", 4, 32, (void *[]){ &p, &q, &step }));
}
static void before(void)
{
    CUdeviceptr p = written(400), q = written(400);
    int step = -1;
    p += 256;
    EXPECT(CUDA_ERROR_LAUNCH_FAILED, run("move", 1, 2, (void *[]){ &p, &q, &step }));
}
static void freed(void)
{
    CUdeviceptr p = written(4096), q = written(512);
    int step = 1;
    GOOD(cuMemFree(p));
    EXPECT(CUDA_ERROR_LAUNCH_FAILED, run("move", 1, 1, (void *[]){ &p, &q, &step }));
}

TEST(global_bounds)
{
    const char *text = reports("1", beyond);
    has(text, "========= Invalid __global__ write of size 4 bytes\n=========     at move in sample.cu:12\n"
              "=========     by thread (4,0,0) in block (3,0,0)\n");
    has(text, " is out of bounds\n=========     and is 1 bytes after the nearest allocation at 0x");
    has(text, " of size 400 bytes\n");
    assert_int_equal(count(text, "Invalid"), 28);
    text = reports("1", before);
    has(text, "Invalid __global__ read of size 4 bytes\n=========     at move in sample.cu:11\n");
    has(text, "=========     and is 4 bytes before the nearest allocation at 0x");
    text = reports("1", freed);
    has(text, "Invalid __global__ write of size 4 bytes");
    has(text, " has been freed\n=========     and is 0 bytes into a freed allocation at 0x");
    has(text, " of size 4096 bytes\n");
}

/* Twice: what nothing has written is told once; and then what a kernel has written. */
static void unwritten(void)
{
    CUdeviceptr p, q;
    int step = 1;
    GOOD(cuMemAlloc(&p, 512));
    GOOD(cuMemAlloc(&q, 512));
    for (int i = 0; i < 2; i++)
        GOOD(run("move", 1, 32, (void *[]){ &p, &q, &step }));
    GOOD(run("move", 1, 32, (void *[]){ &q, &p, &step }));
}
static void from_host(void)
{
    CUdeviceptr p, q;
    int step = 1, host[32] = { 0 };
    GOOD(cuMemAlloc(&p, 512));
    GOOD(cuMemAlloc(&q, 512));
    GOOD(cuMemcpyHtoD(q, host, sizeof host));
    GOOD(run("move", 1, 32, (void *[]){ &p, &q, &step }));
    GOOD(cuMemcpyDtoD(q + 128, p, 128));
    CUdeviceptr later = q + 128;
    GOOD(run("move", 1, 32, (void *[]){ &p, &later, &step }));
}

TEST(global_unwritten)
{
    const char *text = reports("1", unwritten);
    has(text, "========= Uninitialized __global__ memory read of size 4 bytes\n=========     at move in sample.cu:11\n"
              "=========     by thread (0,0,0) in block (0,0,0)\n=========     Address 0x");
    assert_int_equal(count(text, "========= "), 4);
    assert_string_equal(reports("race", from_host), "");
}

static int how;
static void share(void)
{
    CUdeviceptr p = written(256);
    int want = how == 2 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
    EXPECT(want, run("_Z5sharePji", 2, 64, (void *[]){ &p, &how }));
}

TEST(shared_memory)
{
    how = 1;
    const char *text = reports("1", share);
    has(text, "========= Uninitialized __shared__ memory read of size 4 bytes\n"
              "=========     at share(unsigned int*, int) in sample.cu:24\n");
    how = 2;
    text = reports("1", share);
    has(text, "========= Invalid __shared__ write of size 4 bytes\n"
              "=========     at share(unsigned int*, int) in sample.cu:21\n");
    how = 0;
    assert_string_equal(reports("1", share), "");
}

TEST(races)
{
    how = 3;
    const char *text = reports("race", share);
    has(text, "========= Error: Race reported between Write access at share(unsigned int*, int) in sample.cu:21\n"
              "=========     and Read access at share(unsigned int*, int) in sample.cu:24\n");
    how = 0;
    assert_string_equal(reports("race", share), "");
}

static void sum(void)
{
    CUdeviceptr p = written(4), q = written(256);
    unsigned got, zero = 0, ones[64];
    for (unsigned i = 0; i < 64; i++)
        ones[i] = i;
    GOOD(cuMemcpyHtoD(q, ones, sizeof ones));
    GOOD(cuMemcpyHtoD(p, &zero, 4));
    GOOD(run("sum", 8, 64, (void *[]){ &p, &q }));
    GOOD(cuMemcpyDtoH(&got, p, 4));
    EXPECT(8 * 63 * 32, got);
}

TEST(no_false_alarm)
{
    assert_string_equal(reports("race", sum), "");
}

int main(void) { return unit_run(NULL, NULL); }
