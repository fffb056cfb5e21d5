/* pointers.c: calls by pointer: what the function calls in turn, its shared memory and stack, functions of other
 * modules, and numbers that are no functions.
 *
 * shows: pointers to functions: a function that only pointers lead to can call others, use shared memory that its
 *   kernel does not know of, and belong to another module; a number that is no function gives 718
 */
#include "tests/exec/main.h"

#include <pthread.h>

#include "softgpu/exec/exec.h"

/* n and v are r1; CALL and CALL_POINTER replace r1 by the result for it. */
#define FUNCTION(name, body)                                                                               \
    ".func (.param .b32 v) " name "(.param .b32 n)\n{\n.reg .pred p<4>; .reg .b32 r<16>; .reg .b64 a<8>; " \
    "P: .callprototype (.param .b32 _) _ (.param .b32 _);\nld.param.b32 r1, [n];\n" body                   \
    "\nst.param.b32 [v], r1;\nret;\n}\n"
#define CALL(name) \
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x], r1; call.uni (y), " name ", (x); ld.param.b32 r1, [y]; }\n"
#define CALL_POINTER(register) \
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x], r1; call (y), " register ", (x), P; ld.param.b32 r1, [y]; }\n"
/* A kernel that calls what [out] points to, with its thread's number, and stores the result at out + 8. */
#define CALLER                                                                                                       \
    KERNEL("caller", ".reg .b64 mine; mul.wide.u32 mine, r1, 4; add.u64 mine, mine, a0;\n"                           \
                     "P: .callprototype (.param .b32 _) _ (.param .b32 _);\nld.global.u64 a1, [a0];\n" CALL_POINTER( \
                         "a1") "st.global.u32 [mine+8], r1;")
#define TAKER(function) KERNEL("taker", "mov.u64 a1, " function "; st.global.u64 [a0], a1;")

struct answer {
    uint64_t pointer;
    uint32_t values[1022];
};

static int call(struct answer *to, uint64_t pointer, uint32_t blocks, uint32_t threads)
{
    to->pointer = pointer;
    return gpu_run("caller", blocks, threads, 1, ARG(to));
}

/* The address that the module loaded last has for a function. */
static uint64_t take(void)
{
    uint64_t *to = gpu_written("taker", 1, 1, 8);
    return *to;
}

/* Nothing but the table leads to `via` and `odd`, and nothing but these to what they call. */
EXEC_TEST(what_is_pointed_to_calls_others)
{
    gpu_load(
        FUNCTION("leaf", "mad.lo.u32 r1, r1, 3, 1;") FUNCTION("middle", CALL("leaf") "add.u32 r1, r1, 100;") FUNCTION(
            "via",
            "mov.u32 r2, r1;" CALL("leaf") "mov.u32 r3, r1; mov.u32 r1, r2;" CALL(
                "middle") "add.u32 r1, r1, r3;") ".func (.param .b32 v) odd(.param .b32 n);\n" FUNCTION("even",
                                                                                                        "setp.eq.u32 "
                                                                                                        "p1, r1, "
                                                                                                        "0;\n@p1 bra "
                                                                                                        "E;\nsub.u32 "
                                                                                                        "r1, r1, "
                                                                                                        "1;" CALL(
                                                                                                            "odd") "bra"
                                                                                                                   " D;"
                                                                                                                   "\n"
                                                                                                                   "E: "
                                                                                                                   "mov"
                                                                                                                   ".u3"
                                                                                                                   "2 "
                                                                                                                   "r1,"
                                                                                                                   " 1;"
                                                                                                                   "\nD"
                                                                                                                   ":")
            FUNCTION("odd", "setp.eq.u32 p1, r1, 0;\n@p1 bra E;\nsub.u32 r1, r1, 1;" CALL(
                                "even") "bra D;\n"
                                        "E: mov.u32 r1, 0;\nD:") ".global .align 8 .u64 table[2] = {via, "
                                                                 "odd};\n" KERNEL("k",
                                                                                  MINE "P: .callprototype (.param .b32 "
                                                                                       "_) _ (.param .b32 _);\nand.b32 "
                                                                                       "r4, r1, 1; "
                                                                                       "mul.wide.u32 a1, r4, 8; "
                                                                                       "mov.u64 a2, table; add.u64 a2, "
                                                                                       "a2, a1; ld.global.u64 a3, "
                                                                                       "[a2];\n" CALL_POINTER(
                                                                                           "a3") "st.global.u32 "
                                                                                                 "[mine], r1;"));
    uint32_t *out = gpu_alloc(4 * 128);
    gpu_set_stack(4096);
    assert_int_equal(gpu_run("k", 4, 32, 1, ARG(out)), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(out[i], i % 2 ? 1 : 2 * (3 * i + 1) + 100);
    gpu_set_stack(1024);
}

/* 256 bytes of shared memory, a barrier, and the value of the neighbour. */
#define SWAP(declare)                                                                                             \
    FUNCTION("swap",                                                                                              \
             declare "mov.u32 r2, %tid.x; shl.b32 r3, r2, 2; mov.u32 r4, s; add.u32 r4, r4, r3; "                 \
                     "st.shared.u32 [r4], r1; bar.sync 0; xor.b32 r4, r3, 4; mov.u32 r5, s; add.u32 r4, r4, r5; " \
                     "ld.shared.u32 r1, [r4]; bar.sync 0;")

EXEC_TEST(shared_memory_of_what_another_kernel_points_to)
{
    gpu_load(SWAP(".shared .align 4 .b8 s[256];") FUNCTION("unused", ".shared .b8 t[512]; st.shared.u32 [t], r1;")
                 TAKER("swap") CALLER KERNEL("plain", "st.global.u32 [a0], r1;") KERNEL("direct", CALL("unused")));
    struct answer *out = gpu_alloc(sizeof *out);
    assert_int_equal(call(out, take(), 2, 64), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(out->values[i], i ^ 1);

    /* as ptxas counts: what pointers may lead to belongs to all that call by pointer or take addresses */
    static const struct {
        const char *kernel;
        size_t bytes;
    } sizes[] = { { "taker", 256 }, { "caller", 256 }, { "plain", 0 }, { "direct", 512 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct sg_kernel_info info;
        sg_kernel_describe(gpu_kernel(sizes[i].kernel), &info);
        assert_int_equal(info.static_shared, sizes[i].bytes);
    }
}

EXEC_TEST(functions_of_another_module)
{
    gpu_load(".global .align 4 .u32 base = 1000;\n" FUNCTION("add", "ld.global.u32 r2, [base]; add.u32 r1, r1, r2;")
                 FUNCTION("there", CALL("add") "ld.global.u32 r2, [base]; add.u32 r2, r2, 1; st.global.u32 [base], r2;")
                     TAKER("there"));
    uint64_t there = take();
    uint32_t *base = gpu_variable("base");
    gpu_load(".global .align 4 .u32 base = 7;\n" FUNCTION("here", "add.u32 r1, r1, 5;") TAKER("here") CALLER);
    struct answer *out = gpu_alloc(sizeof *out);
    uint64_t here = take();
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(call(out, there, 1, 32), CUDA_SUCCESS);
        for (uint32_t i = 0; i < 32; i++)
            assert_int_equal(out->values[i], 1000 + round + i);
        assert_int_equal(*base, 1001 + round);
        assert_int_equal(call(out, here, 1, 32), CUDA_SUCCESS);
        assert_int_equal(out->values[31], 36);
    }
}

/* Each of two modules has a function that calls, by the pointer in its list, the other one's, until the list ends. */
EXEC_TEST(modules_call_each_other)
{
#define STEP(name, what)                                                             \
    ".global .align 8 .u64 list;\n" FUNCTION(name, "ld.global.u64 a1, [list]; " what \
                                                   "setp.gt.u32 p1, r1, 1000;\n@p1 bra E;\n" CALL_POINTER("a1") "E:")
    gpu_load(STEP("first", "add.u32 r1, r1, 300;") TAKER("first"));
    uint64_t *first_list = gpu_variable("list"), first = take();
    gpu_load(STEP("second", "shl.b32 r1, r1, 1;") TAKER("second") CALLER);
    uint64_t *second_list = gpu_variable("list"), second = take();
    *first_list = second;
    *second_list = first;
    struct answer *out = gpu_alloc(sizeof *out);
    assert_int_equal(call(out, first, 2, 48), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 96; i++) {
        uint32_t v = i;
        for (int step = 0; v <= 1000; step++)
            v = step % 2 ? 2 * v : v + 300;
        assert_int_equal(out->values[i], v);
    }
}

EXEC_TEST(shared_memory_across_modules)
{
    gpu_load(".extern .shared .align 16 .b8 s[];\n" SWAP("") TAKER("swap"));
    uint64_t dynamic = take();
    gpu_load(SWAP(".shared .align 4 .b8 s[256];") TAKER("swap"));
    uint64_t fixed = take();
    gpu_load(CALLER);
    struct answer *out = gpu_alloc(sizeof *out);
    out->pointer = dynamic;
    struct gpu_shape shape = { .grid = { 2, 1, 1 }, .block = { 64, 1, 1 }, .shared = 256 };
    uint64_t argument = ARG(out);
    assert_int_equal(gpu_launch("caller", &shape, 1, &argument, 20), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(out->values[i], i ^ 1);
    shape.shared = 128;
    assert_int_equal(gpu_launch("caller", &shape, 1, &argument, 20), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(call(out, fixed, 1, 64), CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

EXEC_TEST(numbers_that_are_no_functions)
{
    gpu_load(FUNCTION("inside", "add.u32 r1, r1, 1;") FUNCTION("never", ".shared .b8 t[64]; st.shared.u32 [t], r1;")
                 KERNEL("kernel", "") KERNEL("taker", "mov.u64 a1, inside; st.global.u64 [a0], a1; mov.u64 a1, kernel; "
                                                      "st.global.u64 [a0+8], a1;") CALLER);
    uint64_t *taken = gpu_written("taker", 1, 1, 16);
    struct answer *out = gpu_alloc(sizeof *out);
    const uint64_t inside = taken[0], wrong[] = {
        0,
        1,
        UINT64_MAX,
        0x7fffffffffff,
        inside + 1,
        inside - 1,
        inside - 16,
        inside + 16 /* never */,
        taken[1],
        inside + (1 << 20),
        inside ^ UINT64_C(1) << 63,
        inside & UINT32_MAX,
        ARG(out),
        UINT64_C(1) << 47,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (call(out, wrong[i], 1, 33) != CUDA_ERROR_INVALID_PC)
            fail_msg("%#llx was called", (unsigned long long)wrong[i]);
    assert_int_equal(call(out, inside, 1, 33), CUDA_SUCCESS);
    assert_int_equal(out->values[32], 33);
}

EXEC_TEST(modules_that_have_gone)
{
    gpu_load(CALLER);
    unsigned caller = gpu_module();
    struct answer *out = gpu_alloc(sizeof *out);
    uint64_t before = 0;
    for (uint32_t round = 0; round < 40; round++) {
        char text[4096];
        snprintf(text, sizeof text, "%s", FUNCTION("there", "mad.lo.u32 r1, r1, 3, 777;") TAKER("there"));
        memcpy(strstr(text, "777"), round % 2 ? "111" : "222", 3);
        gpu_load(text);
        unsigned there = gpu_module();
        uint64_t pointer = take();
        assert_int_not_equal(pointer, before);
        gpu_select(caller);
        if (round > 1) /* that of the last round has been called, and has gone */
            assert_int_equal(call(out, before, 1, 32), CUDA_ERROR_INVALID_PC);
        assert_int_equal(call(out, pointer, 1, 32), CUDA_SUCCESS);
        assert_int_equal(out->values[31], 93 + (round % 2 ? 111 : 222));
        gpu_unload(there);
        assert_int_equal(call(out, pointer, 1, 32), CUDA_ERROR_INVALID_PC);
        before = pointer;
        unsigned guests = 0;
        for (const sg_kernel *g = atomic_load(&gpu_kernel("caller")->guests); g; g = g->next_guest)
            guests++;
        assert_true(guests <= 1);
    }
}

/* The module whose functions another one calls goes first, and the other one first. */
EXEC_TEST(modules_go_in_any_order)
{
    for (unsigned first = 0; first < 2; first++) {
        gpu_load(FUNCTION("a", "add.u32 r1, r1, 1;") TAKER("a") CALLER);
        unsigned modules[2] = { gpu_module() };
        uint64_t a = take();
        gpu_load(FUNCTION("b", "add.u32 r1, r1, 2;") TAKER("b") CALLER);
        modules[1] = gpu_module();
        uint64_t b = take();
        struct answer *out = gpu_alloc(sizeof *out);
        assert_int_equal(call(out, a, 1, 32), CUDA_SUCCESS);
        gpu_select(modules[0]);
        assert_int_equal(call(out, b, 1, 32), CUDA_SUCCESS);
        gpu_unload(modules[first]);
        gpu_unload(modules[!first]);
    }
}

EXEC_TEST(another_context_has_other_functions)
{
    static const char contexts[2];
    gpu_set_space(&contexts[0]);
    gpu_load(FUNCTION("there", "add.u32 r1, r1, 1;") TAKER("there"));
    uint64_t pointer = take();
    gpu_set_space(&contexts[1]);
    gpu_load(CALLER);
    struct answer *out = gpu_alloc(sizeof *out);
    assert_int_equal(call(out, pointer, 1, 32), CUDA_ERROR_INVALID_PC);
}

#define FRAME(bytes) ".local .align 8 .b8 l[" bytes "]; st.local.u32 [l], r1; st.local.u32 [l+2996], r1; "

EXEC_TEST(the_stack_that_pointers_need)
{
    gpu_set_stack(1024);
    gpu_load(FUNCTION("large", FRAME("3000") "ld.local.u32 r1, [l+2996]; add.u32 r1, r1, 1;")
                 FUNCTION("caller_of_large", FRAME("3000") CALL("large") "ld.local.u32 r2, [l]; add.u32 r1, r1, r2;")
                     FUNCTION("again",
                              ".local .align 8 .b8 l[64]; st.local.u32 [l], r1; setp.eq.u32 p1, r1, 0;\n@p1 bra E;\n"
                              "sub.u32 r1, r1, 1; mov.u64 a1, again;\n" CALL_POINTER(
                                  "a1") "ld.local.u32 r2, [l]; "
                                        "add.u32 r1, r1, r2;\nE:") ".global .align 8 .u64 table[2] = {caller_of_large, "
                                                                   "again};\n" CALLER);
    struct answer *out = gpu_alloc(sizeof *out);
    const uint64_t *table = gpu_variable("table");
    /* what is known before needs no limit */
    assert_int_equal(call(out, table[0], 2, 32), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out->values[i], 2 * i + 1);
    /* nor does that mean that there is none */
    assert_int_equal(call(out, table[1], 2, 32), CUDA_SUCCESS);
    assert_int_equal(out->values[63], 63 * 64 / 2);
    assert_int_equal(call(out, table[1], 1, 512), CUDA_ERROR_HARDWARE_STACK_ERROR);
    gpu_set_stack(512 * 80);
    assert_int_equal(call(out, table[1], 1, 512), CUDA_SUCCESS);
    assert_int_equal(out->values[511], 511 * 512 / 2);
    gpu_set_stack(1024);
}

/* Functions that need neither parameters nor local memory call each other without end, in a kernel whose own calls are
   of a depth that is known. */
EXEC_TEST(recursion_through_another_module_ends)
{
#define NEXT(name)                                                                             \
    ".global .align 8 .u64 next;\n.func " name "()\n{\n.reg .b64 a; P: .callprototype _ ();\n" \
    "ld.global.u64 a, [next]; call a, (), P; ret;\n}\n" TAKER(name)
    gpu_load(NEXT("first"));
    uint64_t *first_next = gpu_variable("next"), first = take();
    gpu_load(NEXT("second"));
    uint64_t *second_next = gpu_variable("next");
    *first_next = take();
    *second_next = first;
    gpu_load(KERNEL("k", "P: .callprototype _ ();\nld.global.u64 a1, [a0]; call a1, (), P;"));
    uint64_t *out = gpu_alloc(8);
    *out = first;
    assert_int_equal(gpu_run("k", 1, 32, 1, ARG(out)), CUDA_ERROR_HARDWARE_STACK_ERROR);
}

/* The call names one parameter of 4 bytes and one result; what it leads to has others. */
EXEC_TEST(calls_that_do_not_fit)
{
    gpu_load(".func wants_much(.param .align 8 .b8 s[256], .param .b64 t)\n{\n.reg .b64 a<4>; "
             "ld.param.b64 a1, [s+248]; st.param.b64 [s], a1; ret;\n}\n"
             ".func (.param .align 16 .b8 v[512]) gives_much()\n{\n.reg .b64 a<4>; mov.u64 a1, 3; "
             "st.param.b64 [v+504], a1; st.param.b64 [v], a1; ret;\n}\n"
             ".global .align 8 .u64 table[2] = {wants_much, gives_much};\n" CALLER);
    struct answer *out = gpu_alloc(sizeof *out);
    const uint64_t *table = gpu_variable("table");
    assert_int_equal(call(out, table[0], 1, 32), CUDA_SUCCESS);
    assert_int_equal(call(out, table[1], 1, 32), CUDA_SUCCESS);
    assert_int_equal(out->values[5], 3);
}

EXEC_TEST(functions_that_the_device_provides)
{
    gpu_load(".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func elsewhere();\n" KERNEL(
        "k", MINE64 "P: .callprototype (.param .b64 _) _ (.param .b64 _);\nmov.u64 a1, malloc; "
                    "mov.u64 a2, 64;\n{ .param .b64 x; .param .b64 y; st.param.b64 [x], a2; call (y), a1, (x), P; "
                    "ld.param.b64 a3, [y]; }\nst.u64 [a3+56], a3; ld.u64 a4, [a3+56]; st.global.u64 [mine], a4;")
                 KERNEL("wrong", "P: .callprototype _ ();\nmov.u64 a1, elsewhere; call a1, (), P;"));
    uint64_t *out = gpu_written("k", 1, 40, 8 * 40);
    for (int i = 0; i < 40; i++)
        assert_true(out[i] && (!i || out[i] != out[i - 1]));
    assert_int_equal(gpu_run("wrong", 1, 1, 1, ARG(out)), CUDA_ERROR_INVALID_PC);
}

/* Blocks on all host threads call the same functions for the first time, each of which calls two others. */
EXEC_TEST(many_blocks_call_first)
{
    enum { FUNCTIONS = 60, THREADS = 64, BLOCKS = 15 };
    static char text[FUNCTIONS * 3 * 400 + 8192];
    size_t n = 0;
    for (int i = 0; i < FUNCTIONS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              FUNCTION("one%d", "mad.lo.u32 r1, r1, %d, 1;")
                                  FUNCTION("two%d", CALL("one%d") "xor.b32 "
                                                                  "r1, r1, %d;")
                                      FUNCTION("top%d", CALL("two%d") CALL("one%d")),
                              i, i + 3, i, (i * 7) % FUNCTIONS < i ? (i * 7) % FUNCTIONS : i, i * 5, i, i, i);
    n += (size_t)snprintf(text + n, sizeof text - n, ".global .align 8 .u64 table[%d] = {top0", FUNCTIONS);
    for (int i = 1; i < FUNCTIONS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ", top%d", i);
    snprintf(
        text + n, sizeof text - n, "};\n%s",
        KERNEL("k", MINE
               "P: .callprototype (.param .b32 _) _ (.param .b32 _);\nrem.u32 r4, r1, 60; "
               "mul.wide.u32 a1, r4, 8; mov.u64 a2, table; add.u64 a2, a2, a1; ld.global.u64 a3, [a2];\n" CALL_POINTER(
                   "a3") "st.global.u32 [mine], r1;"));
    for (int round = 0; round < 4; round++) {
        gpu_load(text);
        uint32_t *out = gpu_written("k", BLOCKS, THREADS, 4 * THREADS * BLOCKS);
        for (uint32_t i = 0; i < THREADS * BLOCKS; i++) {
            uint32_t f = i % FUNCTIONS, one = f * 7 % FUNCTIONS < f ? f * 7 % FUNCTIONS : f;
            uint32_t two = (i * (one + 3) + 1) ^ f * 5;
            assert_int_equal(out[i], two * (f + 3) + 1);
        }
        gpu_reset();
    }
}

EXEC_TEST(kernels_are_not_called)
{
    const char *why = gpu_refuses(
        ".visible .entry e()\n{\n.shared .b8 s[4]; st.shared.b32 [s], 1; ret;\n}\n" KERNEL("k", "call e, ();"), "k");
    assert_non_null(why);
    assert_non_null(strstr(why, "launched, not called"));
}

/* Neither a variable nor another table is a label. */
EXEC_TEST(tables_hold_labels)
{
    static char text[8192];
    size_t n = 0;
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ".global .u32 g%d;\n", i);
    snprintf(text + n, sizeof text - n, "%s",
             KERNEL("k", "T: .branchtargets A, U; U: .branchtargets A; A: brx.idx r1, T;"));
    const char *why = gpu_refuses(text, "k");
    assert_non_null(why);
    assert_non_null(strstr(why, "target 2 is no label"));
}

static void *ask(void *name)
{
    gpu_kernel(name);
    return NULL;
}

/* A thread with little stack of its own decodes a long chain of calls. */
EXEC_TEST(chains_of_any_length)
{
    enum { LENGTH = 8000 };
    static char text[LENGTH * 320];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", FUNCTION("f0", ""));
    for (int i = 1; i < LENGTH; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, FUNCTION("f%d", CALL("f%d")), i, i - 1);
    snprintf(text + n, sizeof text - n, ".visible .entry k()\n{\n.reg .b32 r<4>;\n" CALL("f%d") "ret;\n}\n",
             LENGTH - 1);
    gpu_load(text);
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    assert_int_equal(pthread_attr_setstacksize(&small, 512 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, ask, (void *)(uintptr_t) "k"), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
