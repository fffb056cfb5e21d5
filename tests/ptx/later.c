/*
 * Bodies that are read when they are asked for: the same tree and the same errors as when all is read at once, at the
 * same place; several threads at a time.
 */
#include "tests/ptx/check.h"
#include "tests/ptx/same.h"

#include <pthread.h>

#include "softgpu/ptx/arena.h"

enum { LOG = 512 };

/* Reads the text both ways. NULL: both refuse it, with the same words. */
static struct ptx_module *read_both(const char *text, struct ptx_module **whole)
{
    char log[2][LOG];
    char *copy = strdup(text);
    assert_non_null(copy);
    struct ptx_source source = { .text = copy, .size = strlen(copy), .name = "text" };
    struct ptx_module *later = NULL;
    *whole = NULL;
    int first = ptx_module_read(&source, 1, whole, log[0], LOG);
    int second = ptx_module_read_later(&source, 1, &later, log[1], LOG);
    memset(copy, '?', source.size);                    /* the module must not need it any more */
    free(copy);
    if (first != second || strcmp(log[0], log[1]) != 0)
        fail_msg("at once: '%s', later: '%s', of\n%.600s", log[0], log[1], text);
    return later;
}

static void check_same(const char *text)
{
    struct ptx_module *whole, *later = read_both(text, &whole);
    if (!later)
        fail_msg("was refused:\n%.600s", text);
    const char *differ = ptx_same_module(whole, later);
    if (differ)
        fail_msg("%s in\n%.600s", differ, text);
    ptx_module_free(whole);
    ptx_module_free(later);
}

#define BODY PTX_HEAD ".global .u32 g;\n.visible .entry k(.param .u64 P)\n{\n.reg .pred %p<3>; .reg .b32 %r<10>;\n" \
                      ".reg .f32 %f<4>; .reg .f64 %fd<4>; .reg .b64 %rd<4>;\n"

TEST(bodies_are_empty_at_first)
{
    struct ptx_module *whole, *later = read_both(BODY "mov.u32 %r1, %r2;\nret;\n}\n.func other { ret; }", &whole);
    char log[LOG] = "";
    assert_non_null(later);
    assert_true(later->functions[0].defined);
    assert_int_equal(later->functions[0].instruction_count, 0);
    assert_int_equal(later->functions[0].signature.param_count, 1);
    assert_int_equal(ptx_function_read(later, 0, log, sizeof log), 0);
    assert_int_equal(later->functions[0].instruction_count, 2);
    const struct ptx_instruction *instructions = later->functions[0].instructions;
    assert_int_equal(ptx_function_read(later, 0, log, sizeof log), 0);
    assert_ptr_equal(later->functions[0].instructions, instructions);
    assert_int_equal(later->functions[1].instruction_count, 0);
    assert_null(ptx_same_module(whole, later));
    assert_int_equal(ptx_function_read(whole, 0, log, sizeof log), 0);         /* has it already */
    ptx_module_free(whole);
    ptx_module_free(later);
}

TEST(the_same_tree)
{
    static const char *const texts[] = {
        /* what is declared behind a body is not known in it */
        PTX_HEAD ".entry k() {\n bra x;\nx: ret;\n}\n.global .u32 x;\n.func y { ret; }\n"
                 ".entry m() { .reg .b64 %rd<2>; mov.b64 %rd1, x; }",
        PTX_HEAD ".global .u32 a;\n.entry k() { .reg .b64 %rd<2>; bra b; mov.u64 %rd1, a; b: ret; }\n.global .u32 b;",
        /* variables of the module inside bodies, and what follows them */
        PTX_HEAD ".entry k() { .reg .b64 %rd<2>; .global .u32 in = 5; mov.u64 %rd1, in; { .const .u8 deep[2] = {1, 2};"
                 "mov.u64 %rd1, deep; } }\n.entry l() { .reg .b64 %rd<2>; .extern .shared .b8 s[]; mov.u64 %rd1, s; }",
        PTX_HEAD ".entry k() { .local .b8 x<7>; { .reg .b32 %r<5>; mov.b32 %r1, 1; .global .u32 in; } }",
        PTX_HEAD ".global .u32 x[4];\n.entry k() { .reg .b32 %r<2>; mov.b32 %r1, x[1]; ld.u32 %r1, [x+4]; }",
        /* tables, prototypes, aliases, weak and repeated functions */
        PTX_HEAD ".func f(.param .b32 a) { ret; }\n.func g(.param .b32 a) { ret; }\n.entry k() { .reg .b64 %rd<2>; "
                 ".param .b32 p; c: .calltargets f, g; call %rd1, (p), c; t: .branchtargets u, v; u: v: ret; }",
        PTX_HEAD ".entry k() { .reg .b64 %rd<2>; .param .b32 p; c: .callprototype _ (.param .b32 _); call %rd1, (p), c;"
                 " call %rd1, (p), c; }",
        PTX_HEAD ".func f { bar.sync 0; ret; }\n.func g;\n.alias g, f;\n.entry k() { call g; }",
        PTX_HEAD ".func f { ret; }\n.func g { ret; }\n.entry k() { .reg .b64 %rd<2>; mov.b64 %rd1, f; call g; }",
        PTX_HEAD ".weak .func f { bar.sync 0; ret; }\n.visible .func f { exit; }\n.entry k() { call f; }",
        PTX_HEAD ".weak .func f { bar.sync 0; ret; }\n.weak .func f { exit; }\n.entry k() { call f; }",
        PTX_HEAD ".func (.reg .b32 %r0) f(.reg .b32 %r1) { .reg .b32 %r<9>; mov.b32 %r2, %r0; mov.b32 %r0, %r1; }",
        /* names that look like members of a range */
        BODY "{ .reg .pred %r5; @%r5 mov.b32 %r1, %r2; }\nmov.b32 %r5, 1; %r7: bra %r7; }",
        BODY "{ .local .b8 %r<4>; mov.b32 %r1, 1; }\n{ .reg .f32 %r<2>; mov.f32 %r1, 0f3F800000; }\n"
             "mov.b32 %r9, %r09; }",
        /* the forms of scan.c, and what lies next to them */
        BODY "// a comment\nadd.s32 %r1,%r2,-5; @%p1 bra L; @!%p2 ret;\nmov.f32\t%f1, 0f3F800000;\n"
             "mov.f64 %fd1, 0d3FF0000000000000; ld.global.v2.u32 {%r1, %r2}, [%rd1+8]; st.shared.u32 [%rd1+-4], %r1;\n"
             "ld.global.L1::no_allocate.u32 %r1, [%rd1]; mov.u32 %r1, %tid.x; setp.lt.s32 %p1|%p2, %r1, 0;\n"
             "L: vadd.s32 %r1, %r2.b0, %r3.h1; mov.b32 %r1, 010; mov.b32 %r1, 0x1F; mov.b32 %r1, 1 + 2;\n"
             "bar.sync 0;\nmov.b32 %r1 , g ;mov.b32 %r1,\n\n%r2;\n.loc 1 2 3\nret ; }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_same(texts[i]);
}

/* Every mistake shows when the module is read, whoever looks at the instruction first. */
TEST(the_same_errors)
{
    static const char *const statements[] = {
        "mov.b32 %r1, %r10;", "mov.b32 %r1, %q1;", "@%r1 ret;", "@%p3 ret;", "@p ret;", "mov.b32 %r1 %r2;",
        "mov.b32 %r1, ;", "mov.b32 %r1,, %r2;", "mov.b32 , %r1;", "mov.f32 %f1, 0f3F80000;",
        "mov.f32 %f1, 0f3F8000000;", "mov.f64 %fd1, 0d0;", "mov.b32 %r1, 09;", "mov.b32 %r1, 1x;",
        "mov.b32 %r1, 99999999999999999999;", "ld.u32 %r1, [%rd1;", "ld.u32 %r1, [%rd1+];",
        "ld.u32 %r1, [%rd1+%rd2];", "ld.u32 %r1, [];", "ld.u32 {%r1, %r2, [%rd1];", "ld.u32 {}, [%rd1];",
        "bra nowhere;", "mov.b32 %r1, -%q;",
        "mov.b32 %r1, - -;", "mov.b32 %r1, %r2", "mov.b32 %r1, %r2.q;", "1;", "mov..b32 %r1, %r2;", "{ ret;",
        "mov.b32 %r1, 5\x01;", "ret; } }", "/* ", "mov.b32 %r1, %r;", "mov.b32 %r1, 0f3F800000.5;",
        "mov.b32 %r1, 5 5;", "add.s32 %r1, %r2, %r3\nret;", "%r1;", "add%r1;", "call (%r1), %rd1, (%q1);",
    };
    char text[4096];
    struct ptx_module *whole;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        snprintf(text, sizeof text, "%smov.b32 %%r1, %%r2;\n%s\nret;\n}\n.entry behind() { ret; }", BODY,
                 statements[i]);
        struct ptx_module *later = read_both(text, &whole);
        if (later)
            assert_null(ptx_same_module(whole, later));
        ptx_module_free(whole);
        ptx_module_free(later);
    }
    assert_null(read_both(BODY "mov.b32 %r1, %r10;\n}", &whole));
}

/* Functions that name each other's labels, variables and registers alike. */
static char *many_functions(unsigned count)
{
    char *text = malloc(count * 600u + 200);
    assert_non_null(text);
    int at = sprintf(text, PTX_HEAD);
    for (unsigned i = 0; i < count; i++) {
        at += sprintf(text + at, ".global .u32 v%u;\n.visible .entry k%u(.param .u64 P)\n{\n.reg .b32 %%r<%u>;\n"
                                 ".reg .b64 %%rd<3>; .reg .pred %%p<2>;\nld.param.u64 %%rd1, [P];\nL:\n", i, i, i + 3);
        for (unsigned k = 0; k < 8; k++)
            at += sprintf(text + at, "add.s32 %%r%u, %%r2, %u;\n", k % (i + 3), i);
        at += sprintf(text + at, "st.global.u32 [v%u], %%r1;\n@%%p1 bra L;\nret;\n}\n", i);
    }
    return text;
}

TEST(memory_of_what_is_read)
{
    char *text = many_functions(400);
    struct ptx_module *whole, *later = read_both(text, &whole);
    assert_non_null(later);
    size_t all = ptx_arena_used(whole->arena), before = ptx_arena_used(later->arena);
    assert_true(before < all / 3);
    char log[LOG];
    assert_int_equal(ptx_function_read(later, 7, log, sizeof log), 0);
    assert_true(ptx_arena_used(later->arena) < before + all / 100);
    ptx_module_free(whole);
    ptx_module_free(later);
    free(text);
}

/* The reader runs out of memory for a body: it reports that, and a later try succeeds. */
TEST(no_memory)
{
    char *text = many_functions(40), log[LOG] = "";
    struct ptx_module *whole, *later = read_both(text, &whole);
    size_t most = ptx_arena_most;
    assert_non_null(later);
    ptx_arena_most = ptx_arena_used(later->arena) + 64;
    assert_int_equal(ptx_function_read(later, 3, log, sizeof log), -1);
    assert_non_null(strstr(log, "memory"));
    assert_int_equal(later->functions[3].instruction_count, 0);
    ptx_arena_most = most;
    assert_null(ptx_same_module(whole, later));
    ptx_module_free(whole);
    ptx_module_free(later);
    free(text);
}

enum { THREADS = 4, FUNCTIONS = 100 };
struct readers { struct ptx_module *module; unsigned number; bool good; };

static void *read_bodies(void *argument)
{
    struct readers *r = argument;
    char log[LOG];
    r->good = true;
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        uint32_t index = (i * (2 * r->number + 1) + r->number * 7) % FUNCTIONS;
        r->good &= ptx_function_read(r->module, index, log, sizeof log) == 0;
        const struct ptx_function *f = &r->module->functions[index];
        r->good &= f->instruction_count == 12 && strcmp(f->instructions[11].opcode, "ret") == 0;
    }
    return NULL;
}

TEST(threads_read_one_module)
{
    char *text = many_functions(FUNCTIONS);
    struct ptx_module *whole, *later = read_both(text, &whole);
    struct readers readers[THREADS];
    pthread_t threads[THREADS];
    assert_non_null(later);
    for (unsigned i = 0; i < THREADS; i++) {
        readers[i] = (struct readers){ .module = later, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, read_bodies, &readers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        assert_true(readers[i].good);
    assert_null(ptx_same_module(whole, later));
    ptx_module_free(whole);
    ptx_module_free(later);
    free(text);
}

int main(void) { return unit_run(NULL, NULL); }
