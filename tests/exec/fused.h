/*
 * fused.h: kernels that both copies of twice.h run with the same random addresses, active lanes and values.
 *
 * Each kernel begins with START and ends with END: r4 to r7, a8, a9, f4 and h4 have values by chance, which it gives
 * back; a1 is an address by chance, r12 the same as an offset of shared memory; p1 says whether the lane is active.
 */
#ifndef TESTS_EXEC_FUSED_H
#define TESTS_EXEC_FUSED_H

#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { THREADS = 64, WARP = 32, SHARED = 1024, AREA = 4096, OUT = 64 * THREADS, BEFORE = 64 };

struct places {
    unsigned char *area, *out; /* area: the last bytes that kernels may touch */
    uint64_t *where;
    uint32_t *active;
    unsigned char *values;     /* 32 bytes for each thread */
    uint32_t threads;
};

static inline struct places make_places(void)
{
    enum { MAPPED = 192 << 20, GRANULE = 2 << 20 }; /* as harness.c has it */
    struct places p = { .out = gpu_alloc(OUT + SHARED), .where = gpu_alloc(THREADS * 8),
                        .active = gpu_alloc(THREADS * 4), .values = gpu_alloc(THREADS * 32),
                        .threads = THREADS };
    uintptr_t begin = (uintptr_t)p.out & ~(uintptr_t)(GRANULE - 1);
    p.area = (unsigned char *)(begin + MAPPED - AREA);
    return p;
}

/* ---- addresses ---- */

enum pattern { STEPS, HALVES, SAME, TWO, NEAR, NEARER, LINE, GROUPS, FAR, STEPS_OFF, PATTERNS };

static inline uint64_t place_of(enum pattern pattern, unsigned lane, unsigned size, uint32_t base, uint32_t other,
                                uint32_t room)
{
    switch (pattern) {
    case STEPS:     return base + lane * size;
    case HALVES:    return lane < WARP / 2 ? base + lane * size : other + (lane - WARP / 2) * size;
    case SAME:      return base;
    case TWO:       return lane < WARP / 2 ? base : other;
    case NEARER:    return base / 128 * 128 + any(128 / size) * size;
    case LINE:      return base / 64 * 64 + any(64 / size) * size;
    case GROUPS:    return base + lane % 4 * size; /* at times across two lines */
    case NEAR:      return base / 256 * 256 + any(256 / size) * size;
    case STEPS_OFF: return base + lane * size + (lane == other % WARP ? size : 0);
    default:        return any(room / size) * size;
    }
}

/* Lanes of loads may also be in many granules, where memory is mapped, too. */
static bool in_many;

/* Of each thread an address of `size` aligned bytes, of `room` from `start`; and now and then one that is wrong. */
static inline void make_addresses(const struct places *p, uint64_t start, uint32_t room, unsigned size)
{
    for (unsigned w = 0; w < THREADS / WARP; w++) {
        enum pattern pattern = any(PATTERNS);
        /* to the end, and now and then beyond */
        uint32_t most = any(8) ? room - WARP * size : room, base = any(most / size) * size,
                 other = any(most / size) * size;
        if (any(3))
            base = base / 128 * 128;
        for (unsigned l = 0; l < WARP; l++)
            p->where[w * WARP + l] = start + place_of(pattern, l, size, base, other, room);
        for (unsigned l = 0; l < WARP && in_many && !any(3); l++)
            p->where[w * WARP + l] -= (uint64_t)any(90) << 21;
        uint32_t mishap = any(24), lane = w * WARP + any(WARP);
        for (unsigned l = WARP / 2; l < WARP && (mishap == 4 || mishap == 5); l++) /* half of the warp is wrong */
            p->where[w * WARP + l] += mishap == 4 ? room : size / 2;
        if (mishap == 0)
            p->where[lane] += size > 1 ? size / 2 : 0;
        else if (mishap == 1)
            p->where[lane] = start + room + any(4) * size;
        else if (mishap == 2)
            p->where[lane] = start - size;
        else if (mishap == 3)
            p->where[lane] = 64;
    }
}

static inline void make_active(const struct places *p)
{
    for (unsigned w = 0; w < THREADS / WARP; w++) {
        uint32_t mask = any(3) ? UINT32_MAX : any(4) ? any(UINT32_MAX) : 1u << any(WARP);
        for (unsigned l = 0; l < WARP; l++)
            p->active[w * WARP + l] = mask >> l & 1;
    }
}

/* ---- kernels ---- */

#define START                                                                                              \
    ".visible .entry k(.param .u64 out, .param .u64 where, .param .u64 active, .param .u64 values)\n{\n"   \
    ".shared .align 128 .b8 s[1024];\n"                                                                    \
    ".reg .pred p<4>; .reg .b16 h<8>; .reg .b32 r<32>; .reg .b64 a<32>; .reg .f32 f<40>; .reg .f64 d<8>;\n" \
    "ld.param.u64 a0, [out]; ld.param.u64 a1, [where]; ld.param.u64 a2, [active]; ld.param.u64 a3, [values];\n" \
    "mov.u32 r0, %tid.x; mul.wide.u32 a4, r0, 8; add.u64 a1, a1, a4; ld.global.u64 a1, [a1+0];\n"          \
    "mul.wide.u32 a4, r0, 4; add.u64 a2, a2, a4; ld.volatile.global.u32 r1, [a2]; setp.ne.u32 p1, r1, 0;\n"\
    "mul.wide.u32 a4, r0, 32; add.u64 a3, a3, a4; mul.wide.u32 a4, r0, 64; add.u64 a0, a0, a4;\n"          \
    "ld.volatile.global.v4.u32 {r4, r5, r6, r7}, [a3]; ld.volatile.global.v2.u64 {a8, a9}, [a3+16];\n"     \
    "mov.b32 f4, r4; cvt.u16.u32 h4, r5; mov.u32 r10, s; mad.lo.u32 r11, r0, 16, r10;\n"                   \
    "mov.u64 a12, where; and.b64 a13, a9, 8; add.u64 a13, a12, a13;\n"                                     \
    "st.volatile.shared.v4.u32 [r11], {r4, r5, r6, r7}; cvt.u32.u64 r12, a1; bar.sync 0;\n"
/* shared memory behind what the threads have written */
#define END                                                                                                \
    "\nbar.sync 0; st.volatile.global.v4.u32 [a0], {r4, r5, r6, r7};\n"                                    \
    "st.volatile.global.v2.u64 [a0+16], {a8, a9}; cvt.u32.u16 r13, h4; mov.b32 r14, f4;\n"                 \
    "st.volatile.global.v2.u32 [a0+32], {r13, r14}; ld.volatile.shared.v4.u32 {r4, r5, r6, r7}, [r11];\n"  \
    "st.volatile.global.v4.u32 [a0+48], {r4, r5, r6, r7};\nret;\n}\n"

/* ---- runs ---- */

static inline void compare(const struct places *p, const unsigned modules[2], const char *what, unsigned faults[2])
{
    static unsigned char before[BEFORE + AREA];
    const struct twice_launch l = {
        .shape = { .grid = { 1, 1, 1 }, .block = { p->threads, 1, 1 } }, .count = 4,
        .arguments = { ARG(p->out), ARG(p->where), ARG(p->active), ARG(p->values) },
        .memory = { { p->area - BEFORE, before, BEFORE + AREA }, { p->out, NULL, OUT } },
    };
    for (unsigned k = 0; k < AREA; k++)
        before[BEFORE + k] = (unsigned char)any(256);
    faults[twice_compare(modules, &l, what) != CUDA_SUCCESS]++;
}

/* Makes random kernels and runs each several times; prepare makes the values and addresses of a run. */
static inline void run_kernels(const char *(*make)(void), void (*prepare)(struct places *, unsigned round),
                               unsigned kernels, unsigned runs, unsigned faults[2])
{
    for (unsigned k = 0; k < kernels / exec_share() + 1; k++) {
        unsigned modules[2];
        struct places p = make_places();
        char what[32];
        snprintf(what, sizeof what, "random kernel %u", k);
        twice_load(make(), modules);
        for (unsigned round = 0; round < runs; round++) {
            prepare(&p, round);
            make_active(&p);
            compare(&p, modules, what, faults);
        }
        gpu_reset();
    }
}

/* Values that arithmetic treats apart, and any others. */
static inline uint32_t any_word(void)
{
    static const uint32_t words[] = { 0, 1, 2, 31, 32, 33, 63, 64, 0x80000000, 0x7fffffff, 0xffffffff, 0x00000001,
                                      0x807fffff, 0x00800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
                                      0x7f800001, 0x3f800000, 0xbf800000, 0x7f7fffff, 0x00ffffff, 0x40000000,
                                      0x4effffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x3f000000, 0xbf7fffff,
                                      0x33800001, 0x477fefff, 0x7c00fe01, 0x7ff00000, 0xfff80000, 0x7ff80001,
                                      0xfff00000, 0x3ff00000, 0x000fffff };
    return any(2) ? words[any(sizeof words / sizeof *words)] : any(UINT32_MAX);
}

/* Addresses of shared memory, most of which are right. */
static inline void prepare_shared(struct places *p, unsigned round)
{
    make_addresses(p, 0, SHARED - 128, 16);
    for (unsigned t = 0; t < THREADS && round % 3; t++)
        p->where[t] = p->where[t] % (SHARED - 256) & ~15u;
}

#endif
