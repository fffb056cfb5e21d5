/*
 * runs.c: products of small matrices from shared memory, whose code computes some lanes after the others
 * (softgpu/jit/runs.c), do what the interpreter does, whatever lanes read.
 *
 * In random loops each lane multiplies words of two or three places in shared memory, which it computes from its
 * thread index: all lanes of a group at one place, one behind the other, near each other, or anywhere. The compiler
 * guesses the places from the code. It is right for blocks in a line; blocks of two dimensions, a factor that comes as
 * a parameter, and loops that go on by some bytes make it wrong, for some lanes or all. At times the last lane's place
 * is odd, or outside. Each loop is loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled. One warp
 * runs, so memory must be equal behind a fault, too.
 *
 * shows: software GPU: products of words that lanes load from shared memory in any pattern are the same, and make the
 *   same fault, whether they are interpreted or compiled
 */
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

/* SUMS: more than the compiler keeps in registers of the processor. */
enum { SHARED = 4096, SUMS = 24, PLACES = 3, OUT = SG_LANES * 4 * SUMS };

/* Where the address is: in a register of 32 bits, or of 64. */
static bool wide[PLACES];
static const char *address(unsigned place)
{
    static char name[PLACES][4];
    snprintf(name[place], sizeof name[place], "%c%u", wide[place] ? 'a' : 's', place);
    return name[place];
}

/* Of s<place>: from the thread index in r1. r2 is 1 at most launches, but the compiler cannot know it. */
static void put_place(unsigned place, unsigned bytes)
{
    const unsigned mask = (1u << any(6)) - 1, by = 1 + any(5);
    switch (any(8)) {
    case 0: put("mov.u32 r3, 0;\n"); break;
    case 1: put("shr.u32 r3, r1, %u;\n", by); break;
    case 2: put("shr.u32 r3, r1, %u; and.b32 r3, r3, %u;\n", by, mask); break;
    case 3: put("bfe.u32 r3, r1, %u, %u;\n", any(4), 1 + any(5)); break;
    case 4: put("mul.lo.u32 r3, r1, 29; and.b32 r3, r3, %u;\n", mask); break;
    case 5: put("mul.lo.u32 r3, r1, r2;\n"); break;
    default: put("and.b32 r3, r1, %u;\n", 7 + 8 * any(4)); break;
    }
    put("mad.lo.u32 r3, r3, %u, %u;\n", any(4) ? bytes : 4 * any(12), bytes * any(16));
    if (!any(12)) /* of some lanes the place is odd, or outside */
        put("setp.gt.u32 p1, r1, %u; @p1 add.u32 r3, r3, %u;\n", 24 + any(8), any(2) ? 2 : SHARED - 64);
    put("mov.u32 r4, s; add.u32 s%u, r3, r4;\n", place);
    if ((wide[place] = any(2)))
        put("cvt.u64.u32 a%u, s%u;\n", place, place);
}

static void put_load(unsigned place, unsigned words, unsigned first)
{
    static const char *const lists[] = { [1] = "f32 x%u", [2] = "v2.f32 {x%u, x%u}",
                                         [4] = "v4.f32 {x%u, x%u, x%u, x%u}" };
    put("ld.shared.");
    put(lists[words], first, first + 1, first + 2, first + 3); // NOLINT: how many it takes is in the list
    put(", [%s+%u];\n", address(place), 4 * words * any(40));
}

static void put_loop(void)
{
    static const unsigned sizes[] = { 1, 2, 2, 4 };
    const unsigned places = 2 + any(PLACES - 1);
    unsigned words[PLACES];
    kernel_begin();
    put(".visible .entry k(.param .u64 out, .param .u32 one, .param .u32 n)\n{\n"
        ".reg .pred p<4>; .reg .b32 r<16>, s<4>; .reg .b64 a<8>; .reg .f32 x<16>, y<%u>; .shared .align 16 .b8 s[%u];\n"
        "mov.u32 r1, %%tid.x; ld.param.u32 r2, [one]; ld.param.u32 r9, [n]; mov.u32 r10, %%laneid;\n"
        "mov.u32 r5, 0; mov.u32 r6, s; mad.lo.u32 r6, r10, 4, r6;\n"
        "FILL: mad.lo.u32 r7, r5, 32, r10; cvt.rn.f32.u32 x0, r7; st.shared.f32 [r6], x0; add.u32 r6, r6, 128;\n"
        "add.u32 r5, r5, 1; setp.lt.u32 p0, r5, %u; @p0 bra FILL; bar.sync 0;\n", SUMS, SHARED, SHARED / 128);
    for (unsigned k = 0; k < places; k++)
        put_place(k, 4 * (words[k] = sizes[any(4)]));
    for (unsigned k = 0; k < SUMS; k++)
        put("cvt.rn.f32.u32 y%u, r%u;\n", k, any(2) ? 10 : 1);
    put("mov.u32 r8, 0;\nLOOP:\n");
    for (unsigned k = 1 + any(3); k; k--) {
        for (unsigned p = 0; p < places; p++)
            put_load(p, words[p], 4 * p);
        for (unsigned y = 0; y < SUMS; y++)
            put("fma.rn.f32 y%u, x%u, x%u, y%u;\n", y, any(words[0]), 4 + any(words[1]), y);
    }
    const unsigned by = any(2) ? 0 : 4 * any(8), moves = any(places);
    put("add.u%u %s, %s, %u; add.u32 r8, r8, 1; setp.lt.u32 p0, r8, r9; @p0 bra LOOP;\n", wide[moves] ? 64 : 32,
        address(moves), address(moves), by);
    put("ld.param.u64 a5, [out]; mul.wide.u32 a6, r10, %u; add.s64 a5, a5, a6;\n", 4 * SUMS);
    for (unsigned k = 0; k < SUMS; k++)
        put("st.global.f32 [a5+%u], y%u;\n", 4 * k, k);
    put("ret;\n}\n");
}

EXEC_TEST(products_are_as_the_interpreter_computes_them)
{
    enum { LOOPS = 400, LAUNCHES = 6 };
    unsigned right = 0, faults = 0;
    for (unsigned n = 0; n < 1 + LOOPS / exec_share(); n++) {
        unsigned modules[2];
        put_loop();
        twice_load(kernel.text, modules);
        uint8_t *out = gpu_alloc(OUT);
        for (unsigned k = 0; k < LAUNCHES; k++) {
            const uint32_t columns = k % 2 ? 4u << any(3) : 32;
            const struct twice_launch launch = {
                .shape = { .grid = { 1, 1, 1 }, .block = { columns, 32 / columns, 1 } }, .count = 3,
                .arguments = { ARG(out), k < 2 ? 1 : any(4), 1 + any(6) }, .memory = { { out, NULL, OUT } } };
            const int error = twice_compare(modules, &launch, kernel.text);
            error ? faults++ : right++;
        }
        gpu_reset();
    }
    assert_true(right && (faults || exec_share() > 1));
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
