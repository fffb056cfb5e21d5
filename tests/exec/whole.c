/*
 * shows: vector accesses: ld and st of 2 to 16 bytes are one access per lane, for every width, order and way to address
  *   them, on two cores
 *
 * whole.c: a vector access is one access. One block writes vectors of equal elements, another on the second core
 * reads them, and must never see two different elements: every width, order and way to address them.
 *
 * EXEC_TEST_PAIRS: how many vectors each combination reads and writes (default 10^5; 10^6 in `make check-long`). On
 * x86-64 without AVX an access of 16 bytes is not promised to be whole (see access.h); then those widths are skipped.
 */
#include "tests/exec/main.h"

#ifndef PAIRS                                          /* room.mk: fewer in a build in which they are slow */
#define PAIRS 100000
#endif

static uint32_t pairs(void)
{
    const char *wish = getenv("EXEC_TEST_PAIRS");
    return wish ? (uint32_t)strtoul(wish, NULL, 10) : PAIRS;
}

/* whole: bytes of a vector that are one access; larger vectors are several of them. */
struct width { const char *suffix; const char *reg; unsigned elements, bytes, whole; };
static const struct width widths[] = {
    { "v2.b8", "h", 2, 1, 2 },   { "v4.b8", "h", 4, 1, 4 },   { "v2.b16", "h", 2, 2, 4 },  { "v4.b16", "h", 4, 2, 8 },
    { "v2.b8", "r", 2, 1, 2 },   { "v2.b16", "r", 2, 2, 4 },  { "v2.b32", "r", 2, 4, 8 },  { "v4.b32", "r", 4, 4, 16 },
    { "v2.f32", "f", 2, 4, 8 },  { "v4.f32", "f", 4, 4, 16 }, { "v2.b32", "a", 2, 4, 8 },  { "v2.b64", "a", 2, 8, 16 },
    { "b128", "q", 1, 16, 16 },  { "v8.b32", "r", 8, 4, 16 }, { "v4.b64", "a", 4, 8, 16 },
};
struct order { const char *load, *store; };
static const struct order orders[] = {
    { "", "" }, { ".weak", ".weak" }, { ".volatile", ".volatile" }, { ".relaxed.gpu",
                                                                      ".relaxed.gpu" }, { ".relaxed.sys",
                                                                                          ".relaxed.sys" },
    { ".acquire.gpu", ".release.gpu" },
};
/* Lanes beside each other; odd lanes only; far apart and in another order; all at one place (lane 0 writes). */
enum way { BESIDE, ODD, APART, ONE, WAYS };
static const char *const way_names[] = { "beside", "odd lanes", "apart", "one place" };

static bool has_avx(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx");
#else
    return false;
#endif
}

/* {h10, h11 …} */
static void list(char *to, size_t size, const struct width *w, unsigned first)
{
    if (w->elements == 1) {
        snprintf(to, size, "%s%u", w->reg, first);
        return;
    }
    int n = snprintf(to, size, "{");
    for (unsigned k = 0; k < w->elements; k++)
        n += snprintf(to + n, size - (size_t)n, "%s%s%u", k ? ", " : "", w->reg, first + k);
    snprintf(to + n, size - (size_t)n, "}");
}

/* Elements first … into p2 |= they differ within a part that is whole. */
static void compare(char *to, size_t size, const struct width *w, unsigned first)
{
    int n = 0;
    if (*w->reg == 'q') {
        snprintf(to, size, "mov.b128 {a20, a21}, q%u; setp.ne.b64 p3, a20, a21; or.pred p2, p2, p3;\n", first);
        return;
    }
    unsigned part = w->whole / w->bytes;
    const char *type = *w->reg == 'h' ? "b16" : *w->reg == 'a' ? "b64" : *w->reg == 'f' ? "f32" : "b32";
    for (unsigned k = 0; k < w->elements; k++)
        if (k % part)
            n += snprintf(to + n, size - (size_t)n, "setp.ne.%s p3, %s%u, %s%u; or.pred p2, p2, p3;\n", type, w->reg,
                          first + k, w->reg, first + k / part * part);
}

/* r20 is the round: elements first … become it, as floats that stay normal for f32. */
static void make(char *to, size_t size, const struct width *w, unsigned first)
{
    int n = 0;
    if (*w->reg == 'q') {
        snprintf(to, size, "mov.b64 a20, {r20, r20}; mov.b128 q%u, {a20, a20};\n", first);
        return;
    }
    for (unsigned k = 0; k < w->elements; k++)
        n += snprintf(to + n, size - (size_t)n,
                      *w->reg == 'h'   ? "cvt.u16.u32 %s%u, r20;\n"
                      : *w->reg == 'a' ? "mov.b64 %s%u, {r20, r20};\n"
                      : *w->reg == 'f' ? "cvt.rn.f32.u32 %s%u, r20;\n"
                                       : "mov.b32 %s%u, r20;\n",
                      w->reg, first + k);
}

static const char *address_of(enum way way, unsigned bytes)
{
    static char text[256];
    switch (way) {
    case ONE:    snprintf(text, sizeof text, "mov.u64 a3, 0;"); break;
    case APART:  snprintf(text, sizeof text, "xor.b32 r9, r9, 21; mul.wide.u32 a3, r9, 192;"); break;
    default:     snprintf(text, sizeof text, "mul.wide.u32 a3, r9, %u;", bytes);
    }
    return text;
}

/* Block 0 writes and block 1 reads; with `shared`, warp 0 and warp 1 of one block. */
static void kernel(char *ptx, size_t size, const struct width *w, const struct order *o, enum way way,
                   const char *space)
{
    char load[96], store[96], fill[1024], differ[1024];
    bool shared = !strcmp(space, ".shared");
    list(load, sizeof load, w, 8);
    list(store, sizeof store, w, 8);
    make(fill, sizeof fill, w, 8);
    compare(differ, sizeof differ, w, 8);
    snprintf(
        ptx, size,
        ".shared .align 32 .b8 s[8192];\n.visible .entry k(.param .u64 out, .param .u64 wrong, .param .u32 rounds)\n{\n"
        ".reg .pred p<8>; .reg .b16 h<16>; .reg .b32 r<32>; .reg .b64 a<32>; .reg .f32 f<16>; .reg .b128 q<16>;\n"
        "ld.param.u64 a0, [out]; ld.param.u64 a1, [wrong]; ld.param.u32 r3, [rounds]; mov.u32 r1, %%tid.x; mov.u32 r2, "
        "%%ctaid.x;\n"
        "%s and.b32 r9, r1, 31; mov.u32 r19, r9; %s add.u64 a3, a3, a0; mov.u32 r20, 0; mov.u32 r21, 0; setp.eq.u32 "
        "p1, r2, 0;\n"
        "%s" /* the two sides begin together */
        "%s" /* which lanes take part */
        "@!p1 bra READ;\n%s"
        "WRITE: add.u32 r20, r20, 1;\n%s st%s%s.%s [a3], %s;\nsetp.lt.u32 p5, r20, r3;\n@p5 bra WRITE;\nret;\n"
        "READ: setp.ne.u32 p2, r1, r1;\nAGAIN: add.u32 r20, r20, 1; ld%s%s.%s %s, [a3];\n%s"
        "setp.lt.u32 p5, r20, r3;\n@p5 bra AGAIN;\n@p2 red.global.add.u32 [a1+64], 1;\nret;\n}\n",
        shared ? "mov.u64 a0, s; shr.u32 r2, r1, 5;" : "", address_of(way, w->elements * w->bytes),
        shared ? ""
               : "red.release.gpu.global.add.u32 [a1], 1;\nMEET: ld.acquire.gpu.global.u32 r4, [a1]; setp.lt.u32 p7, "
                 "r4, 64;\n@p7 bra MEET;\n",
        way == ODD ? "and.b32 r5, r1, 1; setp.eq.u32 p6, r5, 0;\n@p6 ret;\n" : "",
        way == ONE ? "setp.ne.u32 p6, r19, 0;\n@p6 ret;\n" : "", fill, o->store, space, w->suffix, store, o->load,
        space, w->suffix, load, differ);
}

static void vectors_are_whole(const char *space)
{
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        const struct width *w = &widths[k];
        if (w->elements * w->bytes > 16 && strcmp(space, ".global"))
            continue;
        if (w->whole == 16 && !has_avx())
            continue;
        for (size_t o = 0; o < sizeof orders / sizeof *orders; o++)
            for (int way = 0; way < WAYS; way++) {
                static char ptx[8192];
                kernel(ptx, sizeof ptx, w, &orders[o], (enum way)way, space);
                gpu_load(ptx);
                uint32_t *out = gpu_alloc(8192), *wrong = gpu_alloc(256);
                uint64_t arguments[3] = { ARG(out), ARG(wrong), pairs() / (way == ODD ? 16 : 32) + 1 };
                bool shared = !strcmp(space, ".shared");
                struct gpu_shape shape = { { shared ? 1 : 2, 1, 1 }, { shared ? 64 : 32, 1, 1 }, 0, 0, { 0 } };
                assert_int_equal(gpu_launch("k", &shape, 3, arguments, 300), CUDA_SUCCESS);
                if (wrong[16])
                    fail_msg("ld%s%s.%s of %s, lanes %s: %u lanes saw parts of two vectors", orders[o].load, space,
                             w->suffix, w->reg, way_names[way], wrong[16]);
                gpu_reset();
            }
    }
}

EXEC_TEST(global_vectors)
{
    vectors_are_whole(".global");
}
EXEC_TEST(generic_vectors)
{
    vectors_are_whole("");
}
EXEC_TEST(shared_vectors)
{
    vectors_are_whole(".shared");
}

/* 128-bit exchange and compare-and-swap are whole for plain loads too, and lose no update. */
EXEC_TEST(atomics_of_128_bits)
{
    if (!has_avx())
        skip();
    gpu_load(
        ".visible .entry k(.param .u64 out, .param .u64 wrong, .param .u32 rounds)\n{\n"
        ".reg .pred p<8>; .reg .b32 r<32>; .reg .b64 a<32>; .reg .b128 q<8>;\n"
        "ld.param.u64 a0, [out]; ld.param.u64 a1, [wrong]; ld.param.u32 r3, [rounds]; mov.u32 r2, %ctaid.x; mov.u32 "
        "r20, 0; setp.ne.u32 p2, r2, r2;\n"
        "red.release.gpu.global.add.u32 [a1], 1;\nMEET: ld.acquire.gpu.global.u32 r4, [a1]; setp.lt.u32 p7, r4, "
        "2;\n@p7 bra MEET;\n"
        /* both: add 1 to both halves with compare-and-swap, then look with a plain load */
        "NEXT: ld.relaxed.gpu.global.v2.b64 {a2, a3}, [a0]; setp.ne.b64 p3, a2, a3; or.pred p2, p2, p3;\n"
        "SWAP: mov.b128 q0, {a2, a3}; add.u64 a4, a2, 1; add.u64 a5, a3, 1; mov.b128 q1, {a4, a5}; "
        "atom.global.cas.b128 q2, [a0], q0, q1;\n"
        "mov.b128 {a6, a7}, q2; setp.ne.b64 p3, a6, a7; or.pred p2, p2, p3; setp.ne.b64 p4, a6, a2; mov.b64 a2, a6; "
        "mov.b64 a3, a7;\n@p4 bra SWAP;\n"
        "mov.b64 a8, {r20, r2}; mov.b128 q3, {a8, a8}; atom.global.exch.b128 q4, [a0+16], q3; mov.b128 {a9, a10}, q4; "
        "setp.ne.b64 p3, a9, a10; or.pred p2, p2, p3;\n"
        "ld.relaxed.gpu.global.b128 q5, [a0+16]; mov.b128 {a9, a10}, q5; setp.ne.b64 p3, a9, a10; or.pred p2, p2, p3;\n"
        "add.u32 r20, r20, 1; setp.lt.u32 p5, r20, r3;\n@p5 bra NEXT;\n@p2 red.global.add.u32 [a1+64], 1;\nret;\n}\n");
    uint64_t *out = gpu_alloc(256);
    uint32_t *wrong = gpu_alloc(256), rounds = pairs();
    struct gpu_shape shape = { { 2, 1, 1 }, { 1, 1, 1 }, 0, 0, { 0 } };
    uint64_t arguments[3] = { ARG(out), ARG(wrong), rounds };
    assert_int_equal(gpu_launch("k", &shape, 3, arguments, 300), CUDA_SUCCESS);
    assert_int_equal(wrong[16], 0);
    assert_int_equal(out[0], 2ull * rounds);
    assert_int_equal(out[1], 2ull * rounds);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
