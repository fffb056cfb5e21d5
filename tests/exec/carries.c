/*
 * shows: arithmetic: random chains of add.cc, addc, sub.cc, subc, mad.cc and madc in every mixture have hardware's
  *   carry flag
 *
 * carries.c: chains of add.cc, addc, sub.cc, subc, mad.cc and madc, in every mixture, against a model on the host.
 *
 * Each chain is made at random: 32- and 64-bit registers, some instructions under a guard that only odd lanes pass,
 * so that the other lanes must keep their flag. The model has one flag a lane: the carry of the last sum; a
 * subtraction is the sum of a, ~b and the flag (1 for sub.cc), as on hardware. EXEC_TEST_SEED repeats a run.
 */
#include "tests/exec/main.h"
#include "tests/lib/dice.h"

#include <time.h>

enum { REGISTERS = 6, CHAIN = 60, CHAINS = 40, LANES = 32 };
typedef unsigned __int128 wide;

static uint64_t seed;
/* Values at which carries are decided: all ones, zero, equal ones, and any. */
static uint64_t some_value(void)
{
    switch (dice(&seed, 5)) {
    case 0:  return 0;
    case 1:  return UINT64_MAX;
    case 2: return dice(&seed, 4);
    case 3: return UINT64_MAX << dice(&seed, 64);
    default: return (uint64_t)dice(&seed, UINT32_MAX) << 32 | dice(&seed, UINT32_MAX);
    }
}

enum kind { ADD, SUB, MAD_LO, MAD_HI };
static const char *const names[][2] = { { "add", "addc" }, { "sub", "subc" }, { "mad.lo", "madc.lo" },
                                        { "mad.hi", "madc.hi" } };

struct state { uint32_t r[REGISTERS][LANES]; uint64_t a[REGISTERS][LANES]; bool flag[LANES]; };

static uint64_t get(const struct state *s, bool is_long, unsigned k, unsigned lane)
{
    return is_long ? s->a[k][lane] : s->r[k][lane];
}

/* One instruction, in text and in the model. */
static int step(char *to, size_t size, struct state *s, bool first)
{
    bool is_long = dice(&seed, 2), guarded = !first && dice(&seed, 5) == 0, reads = !first && dice(&seed, 4) != 0,
         writes = first || dice(&seed, 4) != 0;
    enum kind kind = (enum kind)dice(&seed, 4);
    unsigned d = dice(&seed, REGISTERS), x = dice(&seed, REGISTERS), y = dice(&seed, REGISTERS),
             z = dice(&seed, REGISTERS), bits = is_long ? 64 : 32;
    bool three = kind == MAD_LO || kind == MAD_HI;
    uint64_t mask = is_long ? UINT64_MAX : UINT32_MAX;
    const char *reg = is_long ? "v" : "w";
    for (unsigned l = 0; l < LANES; l++) {
        if (guarded && l % 2 == 0)
            continue;
        uint64_t a = get(s, is_long, x, l), b = get(s, is_long, y, l), c = get(s, is_long, z, l);
        wide product = (wide)a * b, sum;
        uint64_t in = reads ? s->flag[l] : kind == SUB;
        switch (kind) {
        case ADD:    sum = (wide)a + b + in; break;
        case SUB:    sum = (wide)a + (~b & mask) + in; break;
        case MAD_LO: sum = (wide)((uint64_t)product & mask) + c + in; break;
        default:     sum = (wide)((uint64_t)(product >> bits) & mask) + c + in; break;
        }
        if (is_long)
            s->a[d][l] = (uint64_t)sum;
        else
            s->r[d][l] = (uint32_t)sum;
        if (writes)
            s->flag[l] = (sum >> bits) & 1;
    }
    int n = snprintf(to, size, "%s%s%s.u%u %s%u, %s%u, %s%u", guarded ? "@p1 " : "", names[kind][reads],
                     writes ? ".cc" : "", bits, reg, d, reg, x, reg, y);
    return n + snprintf(to + n, size - (size_t)n, three ? ", %s%u;\n" : ";\n", reg, z);
}

EXEC_TEST(chains)
{
    const char *wish = getenv("EXEC_TEST_SEED");
    seed = wish ? strtoull(wish, NULL, 10) : (uint64_t)time(NULL);
    print_message("# EXEC_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (unsigned chain = 0; chain < CHAINS; chain++) {
        static struct state s;
        static char ptx[16384];
        uint32_t *words = gpu_alloc(sizeof s.r);
        uint64_t *longs = gpu_alloc(sizeof s.a);
        memset(s.flag, 0, sizeof s.flag);
        for (unsigned k = 0; k < REGISTERS; k++)
            for (unsigned l = 0; l < LANES; l++) {
                words[k * LANES + l] = s.r[k][l] = (uint32_t)some_value();
                longs[k * LANES + l] = s.a[k][l] = some_value();
            }
        size_t n = (size_t)snprintf(
            ptx, sizeof ptx,
            ".visible .entry k(.param .u64 words, .param .u64 longs)\n{\n.reg .pred p<2>; .reg .b32 w<8>;"
            " .reg .b32 r<4>; .reg .b64 v<8>; .reg .b64 a<4>;\nld.param.u64 a0, [words]; ld.param.u64 a1, [longs];\n"
            "mov.u32 r1, %%tid.x; mul.wide.u32 a2, r1, 4; add.u64 a0, a0, a2; mul.wide.u32 a2, r1, 8; add.u64 a1, a1, "
            "a2;\n"
            "and.b32 r2, r1, 1; setp.eq.u32 p1, r2, 1;\n");
        for (unsigned k = 0; k < REGISTERS; k++)
            n += (size_t)snprintf(ptx + n, sizeof ptx - n, "ld.global.u32 w%u, [a0+%u]; ld.global.u64 v%u, [a1+%u];\n",
                                  k, k * 128, k, k * 256);
        for (unsigned i = 0; i < CHAIN; i++)
            n += (size_t)step(ptx + n, sizeof ptx - n, &s, !i);
        for (unsigned k = 0; k < REGISTERS; k++)
            n += (size_t)snprintf(ptx + n, sizeof ptx - n, "st.global.u32 [a0+%u], w%u; st.global.u64 [a1+%u], v%u;\n",
                                  k * 128, k, k * 256, k);
        snprintf(ptx + n, sizeof ptx - n, "ret;\n}\n");
        gpu_load(ptx);
        assert_int_equal(gpu_run("k", 1, LANES, 2, ARG(words), ARG(longs)), CUDA_SUCCESS);
        if (memcmp(words, s.r, sizeof s.r) || memcmp(longs, s.a, sizeof s.a))
            fail_msg("the registers differ from the model after:\n%s", ptx);
        gpu_reset();
    }
}

/* (a - b) >> 128 limb by limb, and what addc makes of the flag: 1 where a >= b. */
EXEC_TEST(no_borrow_is_one)
{
    gpu_load(KERNEL(
        "k",
        "and.b32 r4, r1, 1; shr.u32 r5, r1, 1;\n" /* a = lane & 1, b = lane >> 1 */
        "sub.cc.u32 r6, r4, r5; subc.cc.u32 r7, 0, 0; addc.u32 r8, 0, 0;\n"
        "add.cc.u32 r9, r4, 0xffffffff; subc.u32 r10, r5, 0;\n"
        ".reg .b64 mine; mul.wide.u32 mine, r1, 16; add.u64 mine, mine, a0; st.v4.u32 [mine], {r6, r7, r8, r10};"));
    uint32_t *out = gpu_written("k", 1, 4, 4 * 16);
    for (uint32_t l = 0; l < 4; l++) {
        uint32_t a = l & 1, b = l >> 1;
        assert_int_equal(out[4 * l], a - b);
        assert_int_equal(out[4 * l + 1], a < b ? UINT32_MAX : 0);
        assert_int_equal(out[4 * l + 2], a >= b);
        assert_int_equal(out[4 * l + 3], a ? b : b - 1);          /* a + 0xffffffff carries if a is 1 */
    }
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
