/*
 * tables.c: kernels that jump by tables (brx.idx), and whose lanes end in the middle (@p exit), do what the interpreter
 * does.
 *
 * Random kernels have a loop around a table of cases, of which some go on in the next one, leave the loop or have a
 * loop of their own. Cases set registers to what all lanes share, to what differs by a constant from lane to lane, or
 * to anything: what a compiler knows of a register behind the cases has to hold for all of them. Each kernel is
 * loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled.
 *
 * shows: software GPU: random kernels that jump by tables leave the same memory, whether they are interpreted or
 *   compiled
 */
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { GRID = 2, THREADS = 64, ROWS = 6, CASES = 4 };

/* r10 and on are what kernels compute with. */
static unsigned row(void) { return 10 + any(ROWS); }

static void put_line(void)
{
    switch (any(7)) {
    case 0: case 1: put("mov.u32 r%u, %u;\n", row(), any(100)); break;
    case 2: put("mov.u32 r%u, %s;\n", row(), any(2) ? "%tid.x" : "%ctaid.x"); break;
    case 3: put("mul.lo.u32 r%u, r1, r1;\n", row()); break;
    case 4: put("shl.b32 r%u, r%u, %u;\n", row(), row(), any(4)); break;
    case 5: put("xor.b32 r%u, r%u, r%u;\n", row(), row(), row()); break;
    default: put("add.u32 r%u, r%u, r%u;\n", row(), row(), row());
    }
}

static void put_loop(const char *name, unsigned number)
{
    put("mov.u32 r8, %u;\n%s%u:\n", 1 + any(4), name, number);
    for (unsigned k = 0; k < 3; k++)
        put_line();
    put("add.u32 r8, r8, -1; setp.ne.u32 p3, r8, 0; @p3 bra %s%u;\n", name, number);
}

static void put_case(unsigned k)
{
    put("CASE%u:\n", k);
    for (unsigned n = 0; n < 1 + any(3); n++)
        put_line();
    if (!any(3))
        put_loop("AGAIN", k);
    if (!any(6))
        put("setp.eq.u32 p2, r1, %u; @p2 exit;\n", any(2 * THREADS * GRID));
    if (any(5))                       /* else it goes on in the next case */
        put("bra %s;\n", any(8) ? "JOIN" : "DONE");
}

static const char *random_kernel(void)
{
    kernel_begin();
    put(".visible .entry k(.param .u64 out)\n{\n%s mov.u32 r7, 0;\n", HEAD);
    for (unsigned k = 0; k < ROWS; k++)
        put(any(2) ? "mov.u32 r%u, %u;\n" : "mad.lo.u32 r%u, r1, r1, %u;\n", 10 + k, any(9));
    put("LOOP:\nadd.u32 r9, r7, %u; add.u32 r9, r9, %s; and.b32 r9, r9, %u;\n", any(CASES), any(3) ? "r2" : "r1",
        CASES - 1);
    put_line();
    put("TABLE: .branchtargets CASE0, CASE%u, CASE2, CASE%u;\n", any(CASES), any(CASES));
    put("brx.idx r9, TABLE;\n");
    for (unsigned k = 0; k < CASES; k++)
        put_case(k);
    put("JOIN:\n");
    put_line();
    if (any(2))
        put_loop("BEHIND", 0);
    put("add.u32 r7, r7, 1; setp.lt.u32 p1, r7, %u; @p1 bra LOOP;\nDONE:\n", 2 + any(6));
    put_loop("LAST", 0);
    put("mul.wide.u32 a1, r1, %u; add.u64 a1, a1, a0;\n", 4 * ROWS);
    for (unsigned k = 0; k < ROWS; k++)
        put("st.global.u32 [a1+%u], r%u;\n", 4 * k, 10 + k);
    put("ret;\n}\n");
    return kernel.text;
}

EXEC_TEST(kernels_with_tables_are_as_the_interpreter_runs_them)
{
    enum { KERNELS = 400, BYTES = 4 * GRID * THREADS * ROWS };
    for (unsigned k = 0; k < 1 + KERNELS / exec_share(); k++) {
        unsigned char *out = gpu_alloc(BYTES);
        const struct twice_launch l = { .shape = { .grid = { GRID, 1, 1 }, .block = { THREADS, 1, 1 } }, .count = 1,
                                        .arguments = { ARG(out) }, .memory = { { out, NULL, BYTES } } };
        unsigned modules[2];
        char what[32];
        snprintf(what, sizeof what, "kernel %u", k);
        twice_load(random_kernel(), modules);
        assert_int_equal(twice_compare(modules, &l, what), CUDA_SUCCESS);
        gpu_reset();
    }
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
