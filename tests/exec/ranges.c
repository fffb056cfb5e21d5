/*
 * ranges.c: grids of so many short blocks that the host thread runs many of them in one turn, side by side, do what the
 * interpreter does, wherever their addresses lead. Then the compiler's code checks once for all of these blocks whether
 * their accesses are inside of what is mapped, aligned, and do not wrap (softgpu/jit/ranges.c).
 *
 * Random kernels load from addresses that are sums and products of the thread's and the block's place, of parameters
 * and constants, in 32 and in 64 bits, signed or not, and store what they have loaded to a place of each thread. They
 * are loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled. The parameters are such that all lanes,
 * some, or none are where something is mapped. The error must be equal, and all memory where there is none: blocks have
 * no order, so before a fault some more or some less of them run. Where one block is odd and another leaves what is
 * mapped, the first is nearly always the same, unless a host thread is held up; then both forms run again.
 *
 * shows: software GPU: grids of many short blocks leave the same memory, or the same error, whether blocks are run by
 *   the interpreter or many at a time by compiled code, where their addresses leave what is mapped, wrap or are odd
 * shows: software GPU: an index of 32 bits that wraps in some blocks, or in some lanes of a warp, is no index of what
 *   lies before it
 * shows: software GPU: the message of a fault names the thread, where many blocks run in one turn
 */
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { WORDS = 1 << 20, THREADS_MOST = TWICE_MOST / 4, GRANULE = 2 << 20, MAPPED = 192 << 20, RUNS_MOST = 5 };

/* The last words that kernels may touch (harness.c): behind them nothing is mapped. */
static uint32_t *words_before_the_end(void)
{
    const uintptr_t begin = (uintptr_t)gpu_alloc(64) & ~(uintptr_t)(GRANULE - 1);
    return (uint32_t *)(begin + MAPPED) - WORDS;
}

/* ---- kernels ---- */

#define START                                                                                                     \
    ".visible .entry k(.param .u64 from, .param .u64 to, .param .u32 n, .param .u32 m, .param .u64 s)\n{\n"      \
    ".reg .pred p<8>; .reg .b32 r<32>; .reg .b64 a<32>;\n"                                                       \
    "ld.param.u64 a0, [from]; ld.param.u64 a1, [to]; ld.param.u32 r1, [n]; ld.param.u32 r2, [m];\n"              \
    "ld.param.u64 a4, [s]; mov.u32 r3, %tid.x; mov.u32 r4, %ctaid.x; mov.u32 r5, %ntid.x;\n"                     \
    "mad.lo.s32 r3, r4, r5, r3; mov.u32 r6, %tid.y; mov.u32 r7, %ctaid.y; mov.u32 r8, %ntid.y;\n"                \
    "mad.lo.s32 r6, r7, r8, r6; mov.u32 r9, %nctaid.x; mul.lo.s32 r9, r9, r5; mad.lo.s32 r9, r6, r9, r3;\n"      \
    "mul.wide.u32 a2, r9, 4; add.s64 a2, a2, a1; mov.u32 r10, %tid.z; mov.u32 r20, 7;\n"

/* r11 = a number of 32 bits. */
static void number(void)
{
    static const char *const texts[] = {
        "mad.lo.s32 r11, r6, r1, r3;\n", "mad.lo.s32 r11, r6, r1, r3;\n",
        "mad.lo.s32 r11, r6, r1, r3; sub.s32 r11, r11, r2;\n",
        "mad.lo.s32 r11, r6, r1, r3; add.s32 r11, r11, r2;\n", "add.s32 r11, r3, r2;\n", "sub.s32 r11, r3, r2;\n",
        "sub.s32 r11, r2, r3;\n", "add.s32 r11, r6, r2;\n", "shl.b32 r11, r3, 2; add.s32 r11, r11, r6;\n",
        "mul.lo.s32 r11, r6, r1; add.s32 r11, r11, r3; sub.s32 r11, r11, r1;\n", "mad.lo.s32 r11, r3, 3, r2;\n",
        "mad.lo.s32 r11, r4, r1, r3;\n", "mul.lo.s32 r11, r3, r2; add.s32 r11, r11, r1;\n",
        "mul.lo.s32 r11, r6, r2; sub.s32 r11, r3, r11; add.s32 r11, r11, 64;\n",
        "mad.lo.s32 r11, r10, r1, r3; neg.s32 r11, r11; neg.s32 r11, r11;\n",
    };
    put("%s", texts[any(sizeof texts / sizeof *texts)]);
}

/* a3 = an address. */
static void address(void)
{
    static const char *const texts[] = {
        "mul.wide.s32 a3, r11, 4; add.s64 a3, a3, a0;\n", "mul.wide.u32 a3, r11, 4; add.s64 a3, a3, a0;\n",
        "cvt.u64.u32 a3, r11; shl.b64 a3, a3, 2; add.s64 a3, a3, a0;\n",
        "cvt.s64.s32 a3, r11; add.s64 a3, a3, a4; shl.b64 a3, a3, 2; add.s64 a3, a0, a3;\n",
        "mul.wide.s32 a3, r11, -4; sub.s64 a3, a0, a3;\n", "cvt.s64.s32 a3, r11; mad.lo.s64 a3, a3, 4, a0;\n",
        "mul.wide.u32 a3, r11, 2; add.s64 a3, a3, a0;\n", "mul.wide.s32 a3, r11, 1; add.s64 a3, a3, a0;\n",
        "mul.wide.s32 a3, r6, 2; add.s64 a3, a3, a0; mul.wide.s32 a5, r3, 4; add.s64 a3, a3, a5;\n",
        "mul.wide.s32 a3, r6, 4; mad.lo.s64 a3, a3, a4, a0; mul.wide.s32 a5, r3, 4; add.s64 a3, a3, a5;\n",
    };
    number();
    put("%s", texts[any(4) ? any(3) : any(sizeof texts / sizeof *texts)]);
}

static void load(void)
{
    static const char *const places[] = { "a3", "a3", "a3", "a3+4", "a3+-4", "a3+128" };
    static const char *const types[] = { "u32", "u32", "u32", "u16", "u8" };
    address();
    const char *place = places[any(6)];
    if (any(6))
        put("ld.global.%s r12, [%s]; mad.lo.s32 r20, r20, 31, r12;\n", types[any(5)], place);
    else if (any(2))
        put("ld.global.v2.u32 {r12, r13}, [%s]; mad.lo.s32 r20, r12, r13, r20;\n", place);
    else
        put("ld.global.u64 a6, [%s]; cvt.u32.u64 r12, a6; xor.b32 r20, r20, r12;\n", place);
}

static const char *random_kernel(void)
{
    static const char *const guards[] = {
        "", "", "setp.ge.u32 p1, r3, r2; @p1 bra DONE;\n", "setp.eq.u32 p1, r3, 0; @p1 bra DONE;\n",
        "setp.ge.u32 p1, r9, r1; @p1 bra DONE;\n", "setp.ge.s32 p1, r6, r2; @p1 bra DONE;\n",
    };
    kernel_begin();
    put("%s%s", START, guards[any(6)]);
    for (unsigned k = 0, loads = 1 + any(4); k < loads; k++) {
        const bool some = !any(5);
        if (some)
            put("setp.gt.u32 p2, r3, %u; @p2 bra OVER%u;\n", any(4000), k);
        load();
        if (some)
            put("OVER%u:\n", k);
    }
    put("st.global.u32 [a2], r20;\nDONE:\nret;\n}\n");
    return kernel.text;
}

/* ---- runs ---- */

static struct twice_launch any_launch(const uint32_t *from, uint32_t *to)
{
    static const uint32_t lines[] = { 32, 32, 64, 128, 256, 48 };
    static const int64_t numbers[] = { 0,         1,          -1,         2,          3,          100,       1000,
                                       INT32_MAX, INT32_MIN,  UINT32_MAX, 0x40000000, 0x3fffffff, 0x20000000 };
    struct twice_launch l = { .shape = { .block = { lines[any(6)], 1 + any(2) * any(8), 1 } }, .count = 5,
                              .memory = { { (unsigned char *)to, NULL, TWICE_MOST } } };
    uint32_t *grid = l.shape.grid, threads = l.shape.block[0] * l.shape.block[1];
    grid[1] = 1 + any(2) * any(12);
    grid[0] = 1 + any(THREADS_MOST / threads / grid[1] - 1);
    grid[2] = 1;
    const uint32_t width = grid[0] * l.shape.block[0], lines_all = grid[1] * l.shape.block[1];
    const int64_t near[] = { width, width - 1, width + 1, lines_all, (int64_t)width * lines_all, 33, 32 };
    for (unsigned k = 2; k < 5; k++)
        l.arguments[k] = (uint64_t)(any(4) ? near[any(7)] : numbers[any(13)]);
    if (any(3))
        l.arguments[2] = width;
    if (any(2))
        l.arguments[3] = any(3);
    /* In the middle, or such that about as many words as the grid has threads are before the end, or so many lines. */
    const uint64_t end = ARG(from) + 4 * WORDS, room = 4 * (uint64_t)width * lines_all,
                   begins[] = { end - 2 * WORDS, end - room + 4 * any(2), end - room - 4 * any(width),
                                end - room / (1 + any(3)) - 4 * any(200) };
    l.arguments[0] = begins[any(4)] + (any(12) ? 0 : 1 + any(3));
    l.arguments[1] = ARG(to);
    return l;
}

static void compare(const uint32_t *from, uint32_t *to, const unsigned modules[2], unsigned faults[2])
{
    static struct twice_result compiled, plain;
    const struct twice_launch l = any_launch(from, to);
    for (unsigned run = 0; run < RUNS_MOST; run++) {
        gpu_select(modules[0]);
        twice_run(&l, &compiled);
        gpu_select(modules[1]);
        twice_run(&l, &plain);
        if (!compiled.error || !plain.error || compiled.error == plain.error)
            break;
    }
    const uint32_t *grid = l.shape.grid, *block = l.shape.block;
    faults[plain.error != CUDA_SUCCESS]++;
    if (compiled.error != plain.error ||
        (!plain.error && memcmp(compiled.memory[0], plain.memory[0], TWICE_MOST)))
        fail_msg("grid %u,%u of %u,%u, n %lld, m %lld, s %lld: error %d, plain %d, or memory\n%s", grid[0], grid[1],
                 block[0], block[1], (long long)l.arguments[2], (long long)l.arguments[3], (long long)l.arguments[4],
                 compiled.error, plain.error, kernel.text);
}

EXEC_TEST(many_blocks_in_one_turn_are_as_the_interpreter_runs_them)
{
    enum { KERNELS = 400, RUNS = 16 };
    unsigned faults[2] = { 0, 0 };
    const unsigned kernels = KERNELS / exec_share();
    for (unsigned k = 0; k < kernels; k++) {
        unsigned modules[2];
        uint32_t *to = gpu_alloc(4 * THREADS_MOST), *from = words_before_the_end();
        for (unsigned w = 0; w < WORDS; w++)
            from[w] = w * 2654435761u;
        twice_load(random_kernel(), modules);
        for (unsigned round = 0; round < RUNS; round++)
            compare(from, to, modules, faults);
        gpu_reset();
    }
    assert_true(faults[0] > kernels && faults[1] > kernels);
}

/* ---- numbers that wrap where only some blocks, or some lanes of a warp, find out ---- */

/* Of the first n lines. Many blocks follow, so that those are not the last ones, which threads share. */
#define WRAPS(number)                                                                                             \
    START "setp.ge.u32 p1, r6, r1; @p1 bra DONE;\n" number                                                       \
        "mul.wide.u32 a3, r11, 4; add.s64 a3, a3, a0; ld.global.u32 r20, [a3]; st.global.u32 [a2], r20;\n"          \
        "DONE:\nret;\n}\n"

static void launch_wraps(uint64_t from, uint32_t lines, uint32_t m, int wanted)
{
    const uint32_t *to = gpu_alloc(4 * THREADS_MOST);
    const struct gpu_shape shape = { .grid = { 1, THREADS_MOST / 256, 1 }, .block = { 32, 8, 1 } };
    const uint64_t arguments[5] = { from, ARG(to), lines, m, 0 };
    assert_int_equal(gpu_launch("k", &shape, 5, arguments, 60), wanted);
}

/* The number is r3 + 3000 - line, of which the first lanes of later lines wrap. */
EXEC_TEST(numbers_that_wrap_in_later_blocks_are_far_away)
{
    uint32_t *from = words_before_the_end();
    gpu_load(WRAPS("mul.lo.s32 r11, r6, r2; sub.s32 r11, r3, r11; add.s32 r11, r11, 3000;\n"));
    launch_wraps(ARG(from) + 2 * WORDS, 3200, 0, CUDA_SUCCESS);
    launch_wraps(ARG(from) + 2 * WORDS, 300, 1, CUDA_SUCCESS);
    launch_wraps(ARG(from) + 2 * WORDS, 3200, 1, CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The number of lane 0 is 2^32 - 3032 + line. From line 3001 on, the last lanes have 0 and more. */
EXEC_TEST(numbers_that_wrap_within_a_warp_are_far_away)
{
    const uint64_t words = UINT64_C(1) << 32;
    uint32_t *from = words_before_the_end();
    gpu_load(WRAPS("add.s32 r11, r3, r2; add.s32 r11, r11, r2; add.s32 r11, r11, r6;\n"));
    launch_wraps(ARG(from) - 4 * words + 16384, 3001, INT32_MAX - 1515, CUDA_SUCCESS);
    launch_wraps(ARG(from) - 4 * words + 16384, 3032, INT32_MAX - 1515, CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- a fault of one thread ---- */

EXEC_TEST(a_fault_names_the_block_and_the_thread)
{
    enum { BLOCKS = 1000, LINES = 3, THREADS = 128, WIDTH = BLOCKS * THREADS };
    static struct twice_result result;
    gpu_load(START "setp.eq.u32 p1, r9, r2; selp.b32 r11, 0x3fffffff, r3, p1; mul.wide.u32 a3, r11, 4;\n"
                   "add.s64 a3, a3, a0; ld.global.u32 r20, [a3]; st.global.u32 [a2], r20;\nret;\n}\n");
    const uint32_t *from = gpu_alloc(4 * WIDTH), *to = gpu_alloc(4 * WIDTH * LINES);
    for (unsigned k = 0; k < 8; k++) {
        const uint32_t x = any(WIDTH), line = any(LINES);
        const struct twice_launch l = { .shape = { .grid = { BLOCKS, LINES, 1 }, .block = { THREADS, 1, 1 } },
                                        .count = 5, .arguments = { ARG(from), ARG(to), 0, line * WIDTH + x, 0 } };
        char wanted[64];
        twice_run(&l, &result);
        assert_int_equal(result.error, CUDA_ERROR_ILLEGAL_ADDRESS);
        (void)snprintf(wanted, sizeof wanted, "block %u,%u,0, thread %u of", x / THREADS, line, x % THREADS);
        if (!strstr(result.log, wanted))
            fail_msg("not %s: %s", wanted, result.log);
    }
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
