/*
 * Texts that are cut, broken, endless or nested. The reader must refuse or read them; the sanitizers watch how.
 * Reading bodies later must refuse the same texts with the same words, and read the same of the others.
 * Time and memory must grow linearly: steps and bytes are counted, no clock is asked.
 */
#include "tests/ptx/check.h"
#include "tests/ptx/same.h"

#include "softgpu/ptx/arena.h"
#include "softgpu/ptx/reader.h"

/* Every so many places of a text are tried, and long texts are so many times shorter: see room.mk. */
#ifndef SMALLER
#define SMALLER 1
#endif

/* Something of everything. */
static const char sample[] =
    "// sample\n.version 8.5\n.target sm_90, debug\n.address_size 64\n.file 1 \"a.cu\", 5, 6\n/* c */\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b) .noreturn ;\n"
    ".extern .shared .align 16 .b8 dynamic[];\n.global .align 8 .u8 name[] = {104, 105, 0};\n"
    ".visible .global .attribute(.managed) .align 4 .u32 managed = 7;\n.global .v2 .f32 pair = {1.5, -0.5e1};\n"
    ".weak .const .u32 table[2][3] = {{1,2,3},{0x4,(1<<2)|1,010U}};\n.global .u64 pointers[3] = {generic(name)+1, "
    "name, managed};\n"
    ".global .u8 bytes[3] = {0xFF(name), 0xFF00(generic(name)), 9};\n.global .texref texture;\n"
    ".func (.param .align 8 .b8 ret[16]) helper(.param .b32 x, .reg .f32 y, .param .b8 rest[])\n{\n.loc 1 2 "
    "3\n\tret;\n}\n"
    ".visible .entry kernel(.param .u64 .ptr .global .align 4 P, .param .align 4 .b8 Q[12])\n"
    ".maxntid 16, 16\n.minnctapersm 1 .reqnctapercluster 2,1,1\n{\n"
    ".reg .pred %p<3>; .reg .b32 %r<10>, x; .reg .b64 %rd<4>; .reg .v4 .f32 v;\n.local .align 4 .b8 depot[8];\n.shared "
    ".f32 s[2];\n"
    ".loc 1 3 4, function_name $info+4, inlined_at 1 2 3\n.pragma \"nounroll\";\n"
    "ld.param.u64 %rd1, [P]; mov.u32 %r1, %tid.x; mov.f32 x, v.w;\n"
    "$L1: setp.lt.and.s32 %p1|%p2, %r1, -5, !%p2; @!%p1 bra $L1; @%p2 bra.uni $END;\n"
    "{ .reg .b32 %r<3>; .param .b32 a; .param .b32 b; p: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "call (a), %rd2, (b), p; call.uni (a), vprintf, (b, b); bra $L1; $L1: ret; }\n"
    "t: .branchtargets $L1, $END; brx.idx %r2, t;\n"
    "tex.2d.v4.f32.f32 {%r1, _, %r3, %r4}, [texture, {%r5, %r6}]; ld.global.L1::no_allocate.v2.u32 {%r1, %r2}, "
    "[%rd1+-8];\n"
    "mov.b64 %rd3, {1, 0f3F800000}; st.local.u32 [depot+4], 0d3FF0000000000000; mov.u32 %r2, table[1];\n"
    "$END: ret;\n}\n.section .debug_str\n{\n.b8 1,2 // }\ninfo: .b64 info+4\n}\n.func other;\n.alias other, "
    "helper;\n@@DWARF x\n# 1 \"y\"\n";

/* From memory of exactly that size, so that reading behind it is noticed. 1: read, 0: refused. */
static int try(const char *text, size_t size)
{
    char *copy = malloc(size ? size : 1);
    char log[80], later_log[80];
    struct ptx_module *module = NULL, *later = NULL;
    assert_non_null(copy);
    memcpy(copy, text, size);
    struct ptx_source source = { .text = copy, .size = size, .name = "hostile" };
    int result = ptx_module_read_outline(&source, 1, &module, log, sizeof log);
    if (result == 0)
        ptx_module_free(module);
    result = ptx_module_read(&source, 1, &module, log, sizeof log);
    if (result != 0) {
        module = NULL;
        assert_true(strnlen(log, sizeof log) > 0 && strnlen(log, sizeof log) < sizeof log);
    }
    assert_int_equal(ptx_module_read_later(&source, 1, &later, later_log, sizeof later_log), result);
    assert_string_equal(log, later_log);
    free(copy);
    if (result == 0) {
        const char *differ = ptx_same_module(module, later);
        if (differ)
            fail_msg("%s: %.300s", differ, text);
        ptx_module_free(later);
    }
    ptx_module_free(module);
    return result == 0;
}

TEST_WITH(cut_anywhere, NULL, ptx_check_free)
{
    const size_t size = sizeof sample - 1;
    size_t whole = 0;
    assert_true(try(sample, size));
    for (size_t cut = 0; cut < size; cut += SMALLER)
        whole += (size_t)try(sample, cut);
    assert_true(whole > 0 && whole < size / 4);        /* between two directives of module scope it is a text */
}

TEST_WITH(change_anything, NULL, ptx_check_free)
{
    static const char with[] = "\0{}[]()<>;:.,%$_\"/*@#!|+-0x\xff";
    char text[sizeof sample];
    const size_t size = sizeof sample - 1;
    memcpy(text, sample, sizeof sample);
    for (size_t at = 0; at < size; at += SMALLER) {
        char was = text[at];
        text[at] = with[at % sizeof with];
        try(text, size);
        text[at] = (char)(was ^ (1 << at % 7));
        try(text, size);
        text[at] = was;
    }
}

/* Parts of the text twice, or left out. */
TEST_WITH(repeat_and_remove, NULL, ptx_check_free)
{
    const size_t size = sizeof sample - 1;
    char *changed = malloc(size * 2);
    assert_non_null(changed);
    for (size_t at = 0; at + 40 < size; at += 3 * SMALLER) {
        size_t part = 1 + at % 37;
        memcpy(changed, sample, at);
        memcpy(changed + at, sample + at + part, size - at - part);
        try(changed, size - part);
        memcpy(changed, sample, at + part);
        memcpy(changed + at + part, sample + at, size - at);
        try(changed, size + part);
    }
    free(changed);
}

TEST_WITH(awkward, NULL, ptx_check_free)
{
    assert_false(try("", 0));
    assert_false(try("\0", 1));
    assert_false(try(".", 1));
    assert_false(try("\n\n\n//", 5));
    assert_true(try(".version 1.0", 12));
    assert_true(try(".version 1.0\0{{{{", 17));
    char log[8] = "1234567";
    struct ptx_module *module;
    struct ptx_source bad = { .text = "nonsense", .size = 8, .name = "name" };
    assert_int_equal(ptx_module_read(&bad, 1, &module, log, sizeof log), -1);
    assert_true(memchr(log, '\0', sizeof log) != NULL);
    assert_int_equal(ptx_module_read(&bad, 1, &module, NULL, 0), -1);
    assert_int_equal(ptx_module_read(NULL, 0, &module, log, sizeof log), 0);
    ptx_module_free(module);
    ptx_module_free(NULL);
}

/* head, then part `count` times, then tail. */
static char *repeated(const char *head, const char *part, size_t count, const char *tail, size_t *size)
{
    size_t a = strlen(head), b = strlen(part), c = strlen(tail);
    char *text = malloc(a + b * count + c + 1);
    assert_non_null(text);
    memcpy(text, head, a);
    for (size_t i = 0; i < count; i++)
        memcpy(text + a + i * b, part, b);
    memcpy(text + a + b * count, tail, c);
    *size = a + b * count + c;
    text[*size] = '\0';
    return text;
}

static void deep(const char *head, const char *part, const char *tail)
{
    size_t size;
    char *text = repeated(head, part, 200000 / SMALLER, tail, &size);
    assert_false(try(text, size));
    free(text);
}

TEST_WITH(nesting_is_limited, NULL, ptx_check_free)
{
    deep(PTX_HEAD ".func f { ", "{", "");
    deep(PTX_HEAD ".global .u32 x = ", "(", "");
    deep(PTX_HEAD ".global .u32 x = ", "-", "1;");
    deep(PTX_HEAD ".global .u32 x = ", "!", "1;");
    deep(PTX_HEAD ".global .u32 x = ", "(.u64)", "1;");
    deep(PTX_HEAD ".global .u32 x = ", "1?", "1;");
    deep(PTX_HEAD ".global .u32 x = ", "1?1:", "1;");
    deep(PTX_HEAD ".global .u32 x[2] = ", "{", "");
    deep(PTX_HEAD ".global .u32 x", "[1]", ";");
    deep(PTX_HEAD ".func f { mov ", "{", "");
    deep(PTX_HEAD ".func f { mov ", "[1,", "");
    deep(PTX_HEAD ".func f { call ", "(", "");
    deep(PTX_HEAD ".func f { mov", ".x", " 5;");
    deep(PTX_HEAD ".func f { .reg .u32 x; mov ", "x|", "");
    deep(PTX_HEAD ".entry f() .attribute", "(", "");
    deep(PTX_HEAD ".section .x ", "{", "");
}

struct cost { uint64_t operations, bytes; };

static struct cost cost_of(const char *text, size_t size, bool must_read, bool later)
{
    struct cost cost = { 0 };
    char log[256];
    struct ptx_module *module = NULL;
    struct ptx_source source = { .text = text, .size = size, .name = "long" };
    int result = ptx_module_read_with(&source, 1, &module, log, sizeof log,
                                      &(struct reader_options){ .operations = &cost.operations, .later = later });
    if ((result == 0) != must_read)
        fail_msg("%s: %.100s", result ? log : "was read", text);
    if (result == 0)
        cost.bytes = ptx_arena_used(module->arena);
    ptx_module_free(module);
    return cost;
}

static void check_growth_of(const char *head, const char *part, const char *tail, size_t count, bool must_read,
                            bool later)
{
    size_t size;
    char *text = repeated(head, part, count, tail, &size);
    struct cost small = cost_of(text, size, must_read, later);
    free(text);
    text = repeated(head, part, count * 8, tail, &size);
    struct cost large = cost_of(text, size, must_read, later);
    free(text);
    if (large.operations > small.operations * 10 || large.operations > size * 20 + 100000)
        fail_msg("%.60s: %llu steps, then %llu", part, (unsigned long long)small.operations,
                 (unsigned long long)large.operations);
    if (large.bytes > small.bytes * 10 || large.bytes > size * 100 + 100000)
        fail_msg("%.60s: %llu bytes, then %llu", part, (unsigned long long)small.bytes,
                 (unsigned long long)large.bytes);
}

static void check_growth(const char *head, const char *part, const char *tail, size_t count, bool must_read)
{
    check_growth_of(head, part, tail, count / SMALLER, must_read, false);
    check_growth_of(head, part, tail, count / SMALLER, must_read, true);
}

TEST_WITH(growth_is_linear, NULL, ptx_check_free)
{
    static const char body[] = PTX_HEAD ".func f { .reg .b32 %r<100>; .reg .pred p; .reg .u64 x; L0: ";
    check_growth(PTX_HEAD, " ", "", 100000, true);
    check_growth(PTX_HEAD, "/**/", "", 100000, true);
    check_growth(PTX_HEAD "/*", "*", "/", 100000, true);
    check_growth(PTX_HEAD ".global .u32 ", "a", ";", 100000, true);
    check_growth(PTX_HEAD ".global .u8 x[] = { 1", ",1", "};", 100000, true);
    check_growth(PTX_HEAD ".global .u64 x[] = { 1", ",x", "};", 20000, true);
    check_growth(PTX_HEAD ".global .u64 x = 1", "+1", ";", 100000, true);
    check_growth(body, "add.u32 %r1, %r2, %r3;", "}", 20000, true);
    check_growth(body, "bra L0;", "}", 20000, true);
    check_growth(body, "{ add.u32 %r1, %r2, %r3; { bra L0; } }", "}", 20000, true);
    check_growth(body, "{ $L: bra $L; } $", ": }", 20000, false);
    check_growth(body, "{ bra $L; $L: { $L: bra $M; } $M: }", "}", 20000, true);
    check_growth(PTX_HEAD, ".weak .func f { .global .u32 x; bra $L; $L: }", "", 20000, true);
    check_growth(body, "mov.u32 %r1, 1;\n\n\n\n//\n", "}", 20000, true);
    check_growth(body, "{bra L0;}", "}", 20000, true);
    check_growth(body, "{{{{{{{{bra L0;}}}}}}}}", "}", 10000, true);
    check_growth(body, "{ L0: bra L0; }", "}", 20000, true);
    check_growth(body, "{ .reg .u32 y; .reg .b32 %r<5>; mov.u32 %r1, y; }", "}", 10000, true);
    check_growth(body, "mov {1,2,3,4,5,6,7,8}, [x, {1,2}];", "}", 10000, true);
    check_growth(body, "t: .branchtargets L0, L0; ", "", 10000, false);
    check_growth(body, "{ t: .branchtargets L0, L0; brx.idx %r1, t; }", "}", 10000, true);
    check_growth(body, "{ t: .callprototype _ (.param .b32 _); call x, (x), t; }", "}", 10000, true);
    check_growth(PTX_HEAD, ".func f(.param .b32 a);", "", 20000, true);
    check_growth(PTX_HEAD ".weak .func f { ret; }", ".weak .func f { mov.u32 a, b; }", "", 20000, true);
    check_growth(PTX_HEAD ".func f(.param .b32 _", ", .param .b32 _", ");", 20000, true);
    check_growth(PTX_HEAD ".section .x {", ".b8 1,2\n", "}", 20000, true);
    check_growth(PTX_HEAD ".visible .global .u32 y; .extern .global .u32 y;", ".extern .global .u32 y;", "", 20000,
                 true);
}

/* Names are made hard to hash by having many of them: registers, labels, variables and functions, 20 MB in all. */
static char *numbered(size_t size, size_t *written)
{
    char *text = malloc(size + 512);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, PTX_HEAD);
    for (unsigned i = 0; at < size; i++)
        at +=
            (size_t)sprintf(text + at,
                            ".global .u32 variable_%u = %u;\n.func function_%u(.param .b32 a)\n{\n.reg .b32 %%r<%u>;\n"
                            "ld.param.b32 %%r1, [a];\nlabel_%u: add.u32 %%r%u, %%r1, %u;\nst.global.u32 [variable_%u], "
                            "%%r1;\nbra label_%u;\n}\n",
                            i, i, i, i + 2, i, i + 1, i, i, i);
    *written = at;
    return text;
}

TEST_WITH(twenty_megabytes, NULL, ptx_check_free)
{
    size_t small_size, large_size;
    char *small = numbered((1 << 20) / SMALLER, &small_size);
    char *large = numbered((20 << 20) / SMALLER, &large_size);
    for (int later = 0; later < 2; later++) {
        struct cost a = cost_of(small, small_size, true, later), b = cost_of(large, large_size, true, later);
        assert_true(b.operations < a.operations * 22);
        assert_true(b.bytes < a.bytes * 22);
        assert_true(b.operations < large_size * 4);
    }
    free(small);
    free(large);
}

/* What a text costs is some twenty times its size: a bound stands between, and says so. */
TEST_WITH(memory_is_bounded, NULL, ptx_check_free)
{
    size_t size, before = ptx_arena_most;
    char *text = numbered(8 << 20, &size), log[200] = "";
    struct ptx_module *module = NULL;
    struct ptx_source source = { .text = text, .size = size, .name = "large" };
    ptx_arena_most = (size_t)32 << 20;
    int result = ptx_module_read(&source, 1, &module, log, sizeof log);
    assert_int_equal(result, -1);
    assert_non_null(strstr(log, "memory"));
    ptx_arena_most = (size_t)8 << 20;                  /* the text has its share in it */
    log[0] = '\0';
    result = ptx_module_read_later(&source, 1, &module, log, sizeof log);
    ptx_arena_most = before;
    free(text);
    assert_int_equal(result, -1);
    assert_non_null(strstr(log, "memory"));
}

int main(void) { return unit_run(NULL, NULL); }
