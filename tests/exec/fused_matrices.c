/*
 * fused_matrices.c: instructions on matrices that are done in one pass do what the general handlers do, as in fused.c.
 *
 * shows: software GPU: random kernels with tiles and products of matrices leave the same memory, the same fault and the
 *   same message, whether their instructions are done one by one, in one pass, or by the compiler
 */
#include "tests/exec/fused.h"

/* m0 to m15 hold matrices. */
enum { MATRIX_REGISTERS = 16 };

static const char *registers(unsigned count)
{
    static char text[4][64];
    static unsigned turn;
    char *to = text[turn++ % 4];
    const unsigned first = any(MATRIX_REGISTERS + 1 - count);
    size_t n = 0;
    for (unsigned k = 0; k < count; k++)
        n += (size_t)snprintf(to + n, sizeof *text - n, "%sm%u", k ? ", " : "{", first + k);
    (void)snprintf(to + n, sizeof *text - n, "}");
    return to;
}

/* A tile to or from shared memory at r12 and a1, a product, or a change of one register. */
static void put_line_of_matrices(void)
{
    static const struct { const char *name; unsigned a, b; } products[] = {
        { "m16n8k16.row.col.f32.f16.f16.f32", 4, 2 },   { "m16n8k8.row.col.f32.f16.f16.f32", 2, 1 },
        { "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2 }, { "m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1 },
        { "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2 },  { "m16n8k32.row.col.s32.s8.s8.s32", 4, 2 },
    };
    const unsigned which = any(sizeof products / sizeof *products), count = 1u << any(3);
    const char *turned = any(2) ? ".trans" : "";
    switch (any(8)) {
    case 0: case 1:
        put("ldmatrix.sync.aligned.m8n8.x%u%s.shared.b16 %s, [%s+%u];\n", count, turned, registers(count),
            any(2) ? "r12" : "a1", 16 * any(9));
        break;
    case 2:
        put("stmatrix.sync.aligned.m8n8.x%u%s.shared.b16 [r12], %s;\n", count, turned, registers(count));
        break;
    case 3:
        put("movmatrix.sync.aligned.m8n8.trans.b16 m%u, m%u;\n", any(MATRIX_REGISTERS), any(MATRIX_REGISTERS));
        break;
    case 4:
        put("xor.b32 m%u, r%u, m%u;\n", any(MATRIX_REGISTERS), 4 + any(4), any(MATRIX_REGISTERS));
        break;
    default:
        put("mma.sync.aligned.%s %s, %s, %s, %s;\n", products[which].name, registers(4),
            registers(products[which].a), registers(products[which].b), registers(4));
    }
}

static const char *kernel_of_matrices(void)
{
    kernel_begin();
    put("%s%s", START, ".reg .b32 m<16>;\nadd.u32 r12, r12, r10; mov.u32 r20, 3;\n");
    const uint32_t keep = any(2) ? 0x3fff3fff : any(2) ? 0xbfffbfff : UINT32_MAX; /* some without infinities and NaN */
    for (unsigned k = 0; k < MATRIX_REGISTERS; k++)
        put("mul.lo.u32 m%u, r%u, %u; and.b32 m%u, m%u, %u;\n", k, 4 + k % 4, any(UINT32_MAX) | 1, k,
            k, keep);
    put("AGAIN:\n");
    for (unsigned k = 0; k < 12; k++)
        put_line_of_matrices();
    put("sub.u32 r20, r20, 1; setp.ne.u32 p3, r20, 0; @p3 bra AGAIN;\nOVER:\n");
    for (unsigned k = 0; k < MATRIX_REGISTERS; k++)
        put("mad.lo.u32 r%u, r%u, 77, m%u;\n", 4 + k % 4, 4 + k % 4, k);
    put("%s", END);
    return kernel.text;
}

static void prepare_matrices(struct places *p, unsigned round)
{
    for (unsigned t = 0; t < THREADS * 8; t++)
        ((uint32_t *)(void *)p->values)[t] = any(2) ? any_word() : any(UINT32_MAX);
    prepare_shared(p, round);
}

EXEC_TEST(matrices_are_as_general_handlers_have_them)
{
    enum { RUNS = 6 };
    unsigned faults[2] = { 0, 0 };
    run_kernels(kernel_of_matrices, prepare_matrices, 120, RUNS, faults);
    assert_true(faults[0] > RUNS / 2);
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
