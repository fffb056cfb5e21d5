/* calls.c: functions, pointers to them, recursion, tables of branches, the stack, printf and the device heap. */
#include "tests/exec/main.h"

#include <sys/resource.h>
#include <unistd.h>

EXEC_TEST(recursion_diverges)
{
    gpu_load(".func (.param .b32 v) fib(.param .b32 n);\n.func (.param .b32 v) fib(.param .b32 n)\n{\n.reg .pred p; "
             ".reg .b32 r<8>; .local .align 4 .b8 keep[4];\n"
             "ld.param.b32 r1, [n]; setp.lt.u32 p, r1, 2;\n@p bra SMALL;\nsub.u32 r2, r1, 1; st.local.u32 [keep], r1;\n"
             "{ .param .b32 x; .param .b32 y; st.param.b32 [x], r2; call.uni (y), fib, (x); ld.param.b32 r3, [y]; }\n"
             "ld.local.u32 r4, [keep]; sub.u32 r4, r4, 2;\n"
             "{ .param .b32 x; .param .b32 y; st.param.b32 [x], r4; call.uni (y), fib, (x); ld.param.b32 r5, [y]; }\n"
             "add.u32 r1, r3, r5;\nSMALL: st.param.b32 [v], r1;\nret;\n}\n" KERNEL(
                 "k", MINE "rem.u32 r4, r1, 15; { .param .b32 x; .param .b32 y; st.param.b32 [x], r4; call (y), fib, "
                           "(x); ld.param.b32 r5, [y]; } st.global.u32 [mine], r5;"));
    uint32_t *out = gpu_alloc(4 * 128), fib[16] = { 0, 1 };
    assert_int_equal(gpu_run("k", 2, 64, 1, ARG(out)), CUDA_SUCCESS);
    for (int i = 2; i < 16; i++)
        fib[i] = fib[i - 1] + fib[i - 2];
    for (int i = 0; i < 128; i++)
        assert_int_equal(out[i], fib[i % 15]);
}

EXEC_TEST(pointers_to_functions)
{
    gpu_load(".func (.param .b64 v) twice(.param .b64 n)\n{\n.reg .b64 r; ld.param.b64 r, [n]; add.u64 r, r, r; "
             "st.param.b64 [v], r; ret;\n}\n"
             ".func (.param .b64 v) next(.param .b64 n)\n{\n.reg .b64 r; ld.param.b64 r, [n]; add.u64 r, r, 1; "
             "st.param.b64 [v], r; ret;\n}\n"
             ".func (.param .b64 v) zero(.param .b64 n)\n{\nst.param.b64 [v], 0; ret;\n}\n"
             ".global .align 8 .u64 table[3] = {twice, next, zero};\n" KERNEL(
                 "k", MINE64
                 "P: .callprototype (.param .b64 _) _ (.param .b64 _);\n"
                 "rem.u32 r4, r1, 3; mul.wide.u32 a1, r4, 8; mov.u64 a2, table; add.u64 a2, a2, a1; ld.global.u64 a3, "
                 "[a2]; cvt.u64.u32 a4, r1;\n"
                 "{ .param .b64 x; .param .b64 y; st.param.b64 [x], a4; call (y), a3, (x), P; ld.param.b64 a5, [y]; }\n"
                 "mov.u64 a6, next; { .param .b64 x; .param .b64 y; st.param.b64 [x], a5; call (y), a6, (x), P; "
                 "ld.param.b64 a5, [y]; }\n"
                 "st.global.u64 [mine], a5;"));
    uint64_t *out = gpu_written("k", 1, 96, 8 * 96);
    for (uint64_t i = 0; i < 96; i++)
        assert_true(out[i] == (i % 3 == 0 ? 2 * i : i % 3 == 1 ? i + 1 : 0) + 1);
}

/* Parameters and results in registers: by name and through a pointer, in recursion, mixed with those in memory, and
   with returns that only some lanes take. */
EXEC_TEST(registers_as_arguments)
{
    gpu_load(
        ".func (.reg .b32 v) fib(.reg .b32 n);\n.func (.reg .b32 v) fib(.reg .b32 n)\n{\n.reg .pred p; "
        ".reg .b32 a, b, c;\nsetp.lt.u32 p, n, 2; mov.u32 v, n;\n@p ret;\n"
        "sub.u32 a, n, 1; call (b), fib, (a); sub.u32 a, n, 2; call (c), fib, (a); add.u32 v, b, c; ret;\n}\n"
        ".func (.reg .b64 x, .reg .b16 y, .reg .f32 z) spread(.reg .f64 a, .reg .b16 b, .reg .b8 c, "
        ".reg .b32 unused)\n{\n.reg .b32 t; mov.b64 x, a; cvt.u32.u8 t, c; cvt.u16.u32 y, t; mad.lo.u16 y, b, 3, y; "
        "cvt.rn.f32.f64 z, a;\n}\n"
        ".func (.reg .b32 x) mixed(.param .b32 a, .reg .b32 b) { ld.param.b32 x, [a]; sub.u32 x, x, b; }\n"
        ".func (.param .b32 x) back(.reg .b32 b) { add.u32 b, b, 100; st.param.b32 [x], b; ret; }\n"
        ".func (.reg .b32 x) twice(.reg .b32 b) { add.u32 x, b, b; ret; }\n"
        ".func nothing(.reg .b32 b) { add.u32 b, b, 1; ret; }\n" KERNEL(
            "k", ".reg .b8 c; mul.wide.u32 a1, r1, 64; add.u64 a1, a1, a0; rem.u32 r4, r1, 13;\n"
                 "call (r5), fib, (r4); st.global.u32 [a1], r5; cvt.rn.f64.u32 d1, r1; cvt.u16.u32 h1, r1; "
                 "cvt.u8.u32 c, r1; call (a2, h2, f1), spread, (d1, h1, c, 9); st.global.u64 [a1+8], a2; "
                 "st.global.u16 [a1+16], h2; st.global.f32 [a1+20], f1;\n"
                 "{ .param .b32 m; st.param.b32 [m], r1; call (r6), mixed, (m, 7); } st.global.u32 [a1+24], r6;\n"
                 "{ .param .b32 m; call (m), back, (r1); ld.param.b32 r7, [m]; } st.global.u32 [a1+28], r7;\n"
                 "P: .callprototype (.reg .b32 _) _ (.reg .b32 _);\nmov.u64 a3, twice; call (r8), a3, (r1), P; "
                 "st.global.u32 [a1+32], r8; call nothing, (r1); st.global.u32 [a1+36], r1;"));
    uint32_t *out = gpu_alloc(64 * 64), fib[16] = { 0, 1 };
    for (int i = 2; i < 16; i++)
        fib[i] = fib[i - 1] + fib[i - 2];
    assert_int_equal(gpu_run("k", 1, 64, 1, ARG(out)), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t *mine = out + 16 * i;
        const double d = i;
        const float f = (float)i;
        assert_int_equal(mine[0], fib[i % 13]);
        assert_memory_equal(mine + 2, &d, 8);
        assert_int_equal(mine[4] & 0xffff, 4 * i);
        assert_memory_equal(mine + 5, &f, 4);
        assert_int_equal(mine[6], i - 7);
        assert_int_equal(mine[7], i + 100);
        assert_int_equal(mine[8], 2 * i);
        assert_int_equal(mine[9], i);
    }
}

EXEC_TEST(structures_as_arguments)
{
    gpu_load(
        ".func (.param .align 8 .b8 v[16]) swap(.param .align 8 .b8 s[16], .param .b32 by)\n{\n.reg .b64 a, b, c; .reg "
        ".b32 r;\n"
        "ld.param.v2.b64 {a, b}, [s]; ld.param.b32 r, [by]; cvt.u64.u32 c, r; add.u64 b, b, c; st.param.b64 [v], b; "
        "st.param.b64 [v+8], a; ret;\n}\n" KERNEL(
            "k", "mul.wide.u32 a9, r1, 16; add.u64 a9, a9, a0; cvt.u64.u32 a1, r1; mul.lo.u64 a2, a1, 100;\n"
                 "{ .param .align 8 .b8 x[16]; .param .b32 z; .param .align 8 .b8 y[16]; st.param.b64 [x], a1; "
                 "st.param.b64 [x+8], a2; st.param.b32 [z], r1;\n"
                 "call (y), swap, (x, z); ld.param.b64 a3, [y]; ld.param.b64 a4, [y+8]; }\nst.v2.u64 [a9], {a3, a4};"));
    uint64_t *out = gpu_written("k", 1, 40, 16 * 40);
    for (uint64_t i = 0; i < 40; i++)
        assert_true(out[2 * i] == 101 * i && out[2 * i + 1] == i);
}

EXEC_TEST(tables_of_branches)
{
    gpu_load(KERNEL("k", MINE "T: .branchtargets A, B, C, D;\nrem.u32 r4, r1, 4; brx.idx r4, T;\n"
                              "A: mov.u32 r5, 10; bra E;\nB: mov.u32 r5, 20; bra E;\nC: mov.u32 r5, 30;\nD: add.u32 "
                              "r5, r1, 1000;\nE: st.global.u32 [mine], r5;"));
    uint32_t *out = gpu_written("k", 1, 64, 4 * 64);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], i % 4 == 0 ? 10 : i % 4 == 1 ? 20 : i + 1000);
}

EXEC_TEST(the_stack)
{
    gpu_load(KERNEL("k", MINE "stacksave.u64 a1; alloca.u64 a2, 64; cvta.local.u64 a3, a2; st.u32 [a3], r1; "
                              "st.local.u32 [a2+60], r2; ld.local.u32 r4, [a2]; stackrestore.u64 a1; alloca.u64 a4, "
                              "64; setp.eq.u64 p1, a4, a2; @p1 add.u32 r4, r4, 1;\n"
                              "stacksave.u32 r5; alloca.u32 r6, 32, 32; st.local.u32 [r6+28], r1; and.b32 r7, r6, 31; "
                              "ld.local.u32 r8, [r6+28]; sub.u32 r8, r8, r1; add.u32 r4, r4, r7; add.u32 r4, r4, r8; "
                              "stackrestore.u32 r5; alloca.u32 r7, 32, 32; sub.u32 r7, r7, r6; add.u32 r4, r4, r7;\n"
                              "st.global.u32 [mine], r4;"));
    uint32_t *out = gpu_written("k", 1, 64, 4 * 64);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], i + 1);
}

/* What the kernels have printed so far, as stdout gets it. */
static const char *printed(void)
{
    static char text[1 << 16];
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stdout);
    int before = dup(1);
    dup2(fileno(f), 1);
    sg_print_flush(gpu_print());
    dup2(before, 1);
    close(before);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

#define PRINTF ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
#define PRINT(arguments)                                                                 \
    "{ .param .b64 x; st.param.b64 [x], a1; .param .b64 y; st.param.b64 [y], " arguments \
    "; .param .b32 z; call.uni (z), vprintf, (x, y); ld.param.b32 r9, [z]; }\n"

static void load_text(const char *format, const char *rest)
{
    char ptx[8192];
    int n = snprintf(ptx, sizeof ptx, PRINTF ".global .align 1 .b8 format[%zu] = {", strlen(format) + 1);
    for (const char *c = format; *c; c++)
        n += snprintf(ptx + n, sizeof ptx - (size_t)n, "%d, ", *c);
    snprintf(ptx + n, sizeof ptx - (size_t)n, "0};\n.global .align 1 .b8 word[6] = {119, 111, 114, 108, 100, 0};\n%s",
             rest);
    gpu_load(ptx);
}

EXEC_TEST(formatted_output)
{
    load_text(
        "%d|%5u|%-6x|%+lld|%c|%s|%8.3f|%e|%%|%p|%.*f|%hhd|%zu|%G\n",
        KERNEL(
            "k",
            ".local .align 8 .b8 l[128]; mov.u64 a1, format; mov.u64 a2, l; cvta.local.u64 a3, a2; mov.u64 a4, word;\n"
            "st.local.u32 [l], -5; st.local.u32 [l+4], 42; st.local.u32 [l+8], 255; st.local.u64 [l+16], "
            "1234567890123; st.local.u32 [l+24], 65; st.local.u64 [l+32], a4;\n"
            "mov.f64 d1, 0d400921FB54442D18; st.local.f64 [l+40], d1; st.local.f64 [l+48], d1; st.local.u64 [l+56], "
            "0x1234; st.local.u32 [l+64], 2; st.local.f64 [l+72], d1; st.local.u32 [l+80], 300; st.local.u64 [l+88], "
            "7; st.local.f64 [l+96], d1;\n" PRINT("a3") "st.global.u32 [a0], r9;"));
    uint32_t *out = gpu_written("k", 1, 1, 64);
    assert_string_equal(printed(),
                        "-5|   42|ff    |+1234567890123|A|world|   3.142|3.141593e+00|%|0x1234|3.14|44|7|3.14159\n");
    assert_int_equal(out[0], 14);
    assert_string_equal(printed(), "");
}

/* The C library takes memory for all of a width or precision, however little of the text is kept. */
EXEC_TEST(printing_takes_little_memory)
{
    struct rusage before, after;
    load_text("%.400000000f|%400000000d\n",
              KERNEL("k", ".local .align 8 .b8 l[16]; mov.u64 a1, format; mov.u64 a2, l; cvta.local.u64 a3, a2;\n"
                          "mov.f64 d1, 0d400921FB54442D18; st.local.f64 [l], d1; st.local.u32 [l+8], 7;\n" PRINT(
                              "a3") "st.global.u32 [a0], r9;"));
    uint32_t *out = gpu_alloc(64);
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(gpu_run("k", 1, 1, 1, ARG(out)), CUDA_SUCCESS);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    assert_int_equal(out[0], 2);
    assert_int_equal(strncmp(printed(), "3.14159265358979", 16), 0);
}

/* 1,024 threads with 16 MiB each are more than the device has. */
EXEC_TEST(local_memory_is_bounded)
{
    gpu_load(KERNEL("k", ".local .align 8 .b8 l[16000000]; mov.u32 r1, 1; st.local.u32 [l+15999996], r1;"));
    assert_int_equal(gpu_run("k", 1, 1024, 1, ARG(gpu_alloc(64))), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gpu_run("k", 1, 32, 1, ARG(gpu_alloc(64))), CUDA_SUCCESS);
    assert_int_equal(gpu_run("k", 1, 1024, 1, ARG(gpu_alloc(64))), CUDA_ERROR_OUT_OF_MEMORY);
}

EXEC_TEST(lines_stay_whole_and_in_order)
{
    load_text("block %d thread %d\n",
              KERNEL("k", ".local .align 8 .b8 l[8]; mov.u64 a1, format; mov.u64 a2, l; cvta.local.u64 a3, a2; mov.u32 "
                          "r4, %tid.x; st.local.v2.u32 [l], {r2, r4};\n" PRINT("a3")));
    uint32_t *out = gpu_written("k", 8, 64, 64);
    char *line, *rest = strdup(printed());
    int next[8] = { 0 }, lines = 0, block, thread;
    for (char *at = rest; (line = strsep(&at, "\n")) && *line; lines++) {
        assert_int_equal(sscanf(line, "block %d thread %d", &block, &thread), 2);
        assert_in_range(block, 0, 7);
        /* a warp prints in order; its block's other warp may come between */
        if (thread % 32 == 0)
            next[block] = thread;
        assert_int_equal(thread, next[block]++);
    }
    free(rest);
    assert_int_equal(lines, 512);
    sg_print_resize(gpu_print(), 4096);    /* the oldest go */
    assert_int_equal(gpu_run("k", 1, 1024, 1, ARG(out)), CUDA_SUCCESS);
    const char *text = printed();
    sg_print_resize(gpu_print(), 1 << 20);
    assert_in_range(strlen(text), 100, 4096);
    assert_non_null(strstr(text, "thread 1023\n"));
    assert_true(!strncmp(text, "block 0 thread ", 15));
}

EXEC_TEST(the_device_heap)
{
    gpu_load(".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n" KERNEL(
        "k", MINE64
        "mov.u32 r6, 0;\nLOOP: add.u32 r4, r1, r6; rem.u32 r4, r4, 50; add.u32 r4, r4, 1; mul.wide.u32 a1, r4, 4;\n"
        "{ .param .b64 x; .param .b64 y; st.param.b64 [x], a1; call (y), malloc, (x); ld.param.b64 a2, [y]; }\n"
        "setp.eq.u64 p1, a2, 0;\n@p1 trap;\nand.b64 a3, a2, 15; setp.ne.u64 p2, a3, 0;\n@p2 trap;\n"
        "mov.u32 r5, 0; mov.u64 a4, a2;\nFILL: st.u32 [a4], r1; add.u64 a4, a4, 4; add.u32 r5, r5, 1; setp.lt.u32 p3, "
        "r5, r4;\n@p3 bra FILL;\n"
        "bar.sync 0; mov.u32 r5, 0; mov.u64 a4, a2;\nCHECK: ld.u32 r7, [a4]; setp.ne.u32 p4, r7, r1;\n@p4 "
        "trap;\nadd.u64 a4, a4, 4; add.u32 r5, r5, 1; setp.lt.u32 p3, r5, r4;\n@p3 bra CHECK;\n"
        "{ .param .b64 x; st.param.b64 [x], a2; call free, (x); }\nadd.u32 r6, r6, 1; setp.lt.u32 p5, r6, 5;\n@p5 bra "
        "LOOP;\n"
        /* too much: null */
        "{ .param .b64 x; .param .b64 y; st.param.b64 [x], 1073741824; call (y), malloc, (x); ld.param.b64 a2, [y]; }\n"
        "st.global.u64 [mine], a2; { .param .b64 x; st.param.b64 [x], 0; call free, (x); }\n"));
    uint64_t *out = gpu_alloc(8 * 1024);
    memset(out, 1, 8 * 1024);
    assert_int_equal(gpu_run("k", 8, 128, 1, ARG(out)), CUDA_SUCCESS);
    for (int i = 0; i < 1024; i++)
        assert_true(out[i] == 0);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
