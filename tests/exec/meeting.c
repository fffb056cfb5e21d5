/*
 * meeting.c: where lanes that part meet again.
 *
 * shows: lanes that part: they meet again at the immediate post-dominator of the branch, as on hardware, wherever the
 *   compiler has put the blocks: loops, switches, break, continue, return, calls, and 3,000 random flows of control
 * shows: lanes that part: a function of 30,000 nested loops is decoded in linear time
 */
#include "tests/exec/main.h"

#include <time.h>

/* Lanes that come here keep in r20 the lanes that were always here together with them. */
#define TOGETHER "activemask.b32 r21; and.b32 r20, r20, r21;\n"
#define BEGIN MINE "mov.u32 r20, 0xffffffff; and.b32 r4, r1, 3; mov.u32 r5, 0; mov.u32 r6, 0;\n"
#define KEEP "st.global.u32 [mine], r20; st.global.u32 [mine+128], r6; "

/* Runs "k" for one warp. All of `lanes` are to have met at each TOGETHER, and nobody else was there. */
static uint32_t *met(const char *ptx, uint32_t lanes)
{
    gpu_load(ptx);
    uint32_t *out = gpu_written("k", 1, 32, 256);
    for (uint32_t l = 0; l < 32; l++)
        if (lanes >> l & 1 && out[l] != lanes)
            fail_msg("lane %u met %#x instead of %#x", (unsigned)l, (unsigned)out[l], (unsigned)lanes);
    return out + 32;
}

/* Lanes go 0 to 3 times round a loop whose body lies behind what follows it. */
EXEC_TEST(a_loop_behind_its_continuation)
{
    const uint32_t *sums =
        met(KERNEL("k", BEGIN "setp.ne.u32 p1, r4, 0;\n@p1 bra BODY;\n"
                              "MEET: " TOGETHER KEEP "ret;\n"
                              "BODY: add.u32 r5, r5, 1; add.u32 r6, r6, r5; setp.lt.u32 p2, r5, r4;\n"
                              "@p2 bra BODY;\nbra MEET;"),
            UINT32_MAX);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(sums[l], (l & 3) * ((l & 3) + 1) / 2);
}

/* One arm of a branch lies behind the function's end, and what both lead to between them. */
EXEC_TEST(an_arm_behind_the_end)
{
    const uint32_t *sums = met(KERNEL("k", BEGIN "setp.gt.u32 p1, r4, 1;\n@p1 bra FAR;\n"
                                                 "add.u32 r6, r4, 10;\nMEET: " TOGETHER KEEP "ret;\n"
                                                 "FAR: add.u32 r6, r4, 20; bra MEET;"),
                               UINT32_MAX);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(sums[l], (l & 3) + ((l & 3) > 1 ? 20 : 10));
}

/* A branch in the inner of two loops, and the loops' blocks in any order. */
EXEC_TEST(nested_loops_in_disorder)
{
    const uint32_t *sums = met(
        KERNEL("k", BEGIN
               "mov.u32 r7, 0; bra OUTER;\n"
               "LEAVE: " KEEP "ret;\n"
               "MEET: " TOGETHER "add.u32 r7, r7, 1; setp.lt.u32 p3, r7, 5;\n@p3 bra OUTER;\nbra LEAVE;\n"
               "NEXT: add.u32 r5, r5, 1; bra INNER;\n"
               "ODD: add.u32 r6, r6, 100; bra NEXT;\n"
               "INNER: setp.gt.u32 p1, r5, r4;\n@p1 bra MEET;\n"
               "add.u32 r8, r5, r1; and.b32 r8, r8, 1; setp.ne.u32 p2, r8, 0;\n@p2 bra ODD;\nadd.u32 r6, r6, 1; bra "
               "NEXT;\n"
               "OUTER: " TOGETHER "mov.u32 r5, 0; bra INNER;"),
        UINT32_MAX);
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k <= (l & 3); k++)
            sum += (k + l) & 1 ? 100 : 1;
        assert_int_equal(sums[l], 5 * sum);
    }
}

/* `continue`: two ways lead back to the head of a loop, where the lanes meet in each iteration. */
EXEC_TEST(continue_meets_at_the_head)
{
    const uint32_t *sums =
        met(KERNEL("k", BEGIN "HEAD: " TOGETHER "setp.ge.u32 p1, r5, 8;\n@p1 bra DONE;\nadd.u32 r5, r5, 1;\n"
                              "add.u32 r7, r5, r1; and.b32 r7, r7, 1; setp.ne.u32 p2, r7, 0;\n@p2 bra HEAD;\n"
                              "add.u32 r6, r6, r5; bra HEAD;\n"
                              "DONE: " TOGETHER KEEP),
            UINT32_MAX);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(sums[l], l & 1 ? 1 + 3 + 5 + 7 : 2 + 4 + 6 + 8);
}

/* `break`, at another time in each lane, into a block in front of the loop. */
EXEC_TEST(break_into_a_block_in_front)
{
    const uint32_t *sums = met(KERNEL("k", BEGIN "bra HEAD;\nOUT: " TOGETHER KEEP "ret;\n"
                                                 "HEAD: add.u32 r5, r5, 1; setp.gt.u32 p1, r5, r4;\n@p1 bra OUT;\n"
                                                 "add.u32 r6, r6, r5; setp.lt.u32 p2, r5, 3;\n@p2 bra HEAD;\nbra OUT;"),
                               UINT32_MAX);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(sums[l], (l & 3) * ((l & 3) + 1) / 2);
}

/* Every fourth lane returns from within a loop; the others meet without it. */
EXEC_TEST(return_within_a_loop)
{
    const uint32_t *sums =
        met(KERNEL("k", BEGIN "bra HEAD;\nEARLY: ret;\n"
                              "MEET: " TOGETHER KEEP "ret;\n"
                              "HEAD: add.u32 r5, r5, 1; setp.eq.u32 p1, r4, 3;\n@p1 bra EARLY;\n"
                              "add.u32 r6, r6, r5; setp.gt.u32 p2, r5, r4;\n@p2 bra MEET;\nbra HEAD;"),
            0x77777777);
    for (uint32_t l = 0; l < 32; l++)
        if ((l & 3) < 3)
            assert_int_equal(sums[l], ((l & 3) + 1) * ((l & 3) + 2) / 2);
}

/* A return and a trap inside an arm do not part those who come through it from the others. */
EXEC_TEST(ends_inside_an_arm)
{
    met(KERNEL("k", BEGIN
               "mov.u32 r7, 0;\n"
               "HEAD: setp.eq.u32 p1, r4, 0;\n@p1 bra ARM;\nbra MEET;\n"
               "MEET: " TOGETHER "add.u32 r7, r7, 1; setp.lt.u32 p2, r7, 3;\n@p2 bra HEAD;\n" KEEP "ret;\n"
               "BAD: trap;\n"
               "ARM: add.u32 r6, r6, 1; setp.eq.u32 p3, r1, 12;\n@p3 bra GONE;\nsetp.gt.u32 p4, r6, 10;\n@p4 bra BAD;\n"
               "bra MEET;\nGONE: ret;"),
        ~(1u << 12));
}

/* A switch whose cases lie on both sides of what they lead to, one of them falls into another, and some are empty. */
EXEC_TEST(a_switch)
{
    const uint32_t *sums =
        met(KERNEL("k", BEGIN "and.b32 r7, r1, 7; bra START;\n"
                              "ONE: add.u32 r6, r6, 1;\nTWO: add.u32 r6, r6, 2; bra MEET;\n"
                              "START: ts: .branchtargets MEET, ONE, TWO, THREE, FOUR, ONE, MEET, TWO;\n"
                              "brx.idx r7, ts;\n"
                              "MEET: " TOGETHER KEEP "ret;\n"
                              "FOUR: add.u32 r6, r6, 4;\nTHREE: add.u32 r6, r6, 3; bra MEET;"),
            UINT32_MAX);
    static const uint32_t wanted[8] = { 0, 3, 2, 3, 7, 3, 0, 2 };
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(sums[l], wanted[l & 7]);
}

/* Lanes enter a loop at two places (no compiler's loop: an irreducible one). */
EXEC_TEST(a_loop_with_two_entries)
{
    met(KERNEL("k", BEGIN "setp.gt.u32 p1, r4, 1;\n@p1 bra SECOND;\nbra FIRST;\n"
                          "MEET: " TOGETHER KEEP "ret;\n"
                          "SECOND: add.u32 r5, r5, 2; setp.gt.u32 p2, r5, 9;\n@p2 bra MEET;\n"
                          "FIRST: add.u32 r5, r5, 1; add.u32 r6, r6, r4; bra SECOND;"),
        UINT32_MAX);
}

/* Lanes return from a call at different times, whose own blocks are in disorder, inside a loop that is, too. */
EXEC_TEST(a_call_inside)
{
    const uint32_t *sums =
        met(".func (.param .b32 to) f(.param .b32 from)\n{\n.reg .b32 r<8>; .reg .pred p<4>;\nld.param.u32 r1, [from]; "
            "mov.u32 "
            "r2, 0; setp.ne.u32 p1, r1, 0;\n@p1 bra BODY;\n"
            "JOIN: activemask.b32 r3; setp.ne.u32 p3, r3, 0xffffffff; selp.b32 r2, 1000, r2, p3; st.param.b32 [to], "
            "r2; ret;\n"
            "BODY: add.u32 r2, r2, r1; sub.u32 r1, r1, 1; setp.ne.u32 p2, r1, 0;\n@p2 bra BODY;\nbra JOIN;\n}\n" KERNEL(
                "k", BEGIN "bra HEAD;\n"
                           "DONE: " TOGETHER KEEP "ret;\n"
                           "HEAD: " TOGETHER
                           "{ .param .b32 x; .param .b32 y; st.param.b32 [x], r4; call (y), f, (x); ld.param.b32 r8, "
                           "[y]; }\nadd.u32 r6, r6, r8; add.u32 r5, r5, 1; setp.ge.u32 p1, r5, 4;\n@p1 bra DONE;\n"
                           "setp.eq.u32 p2, r4, 1;\n@p2 bra HEAD;\nadd.u32 r6, r6, 1; bra HEAD;"),
            UINT32_MAX);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(sums[l], 4 * ((l & 3) * ((l & 3) + 1) / 2) + ((l & 3) == 1 ? 0 : 3));
}

/* The function begins with the head of a loop that two ways lead back to. */
EXEC_TEST(a_loop_from_the_first_instruction)
{
    uint32_t *out = gpu_alloc(256);
    gpu_load(
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 r<8>; .reg .b64 a<4>; .reg .pred p<4>;\n"
        "HEAD: ld.param.u64 a0, [out]; mov.u32 r1, %tid.x; mul.wide.u32 a1, r1, 4; add.u64 a1, a1, a0;\n"
        "ld.global.u32 r2, [a1]; ld.global.u32 r3, [a1+128]; activemask.b32 r4; not.b32 r4, r4; or.b32 r3, r3, r4;\n"
        "st.global.u32 [a1+128], r3; add.u32 r2, r2, 1; st.global.u32 [a1], r2; setp.ge.u32 p1, r2, 6;\n@p1 ret;\n"
        "and.b32 r5, r1, 1; setp.eq.u32 p2, r5, 0;\n@p2 bra HEAD;\nadd.u32 r5, r5, 1; bra HEAD;\n}\n");
    assert_int_equal(gpu_run("k", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
    for (uint32_t l = 0; l < 32; l++) {
        assert_int_equal(out[l], 6);
        assert_int_equal(out[32 + l], 0);
    }
}

/* --- any flow of control --- */

enum { LANES = 32, BLOCKS_MOST = 14, WAYS_MOST = 4, FUEL = 40, GRAPHS = 3000, LOG = 1 << 14 };
/* way[0] leads towards an end, and is taken when the fuel is spent. No way: the block is an end. */
struct graph {
    unsigned blocks, ways[BLOCKS_MOST], way[BLOCKS_MOST][WAYS_MOST], place[BLOCKS_MOST];
};

static uint32_t seed = 1;
static unsigned any(unsigned below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static void shuffle(unsigned *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        list[i] = i;
    for (unsigned i = count; i > 1; i--) {
        unsigned k = any(i), x = list[k];
        list[k] = list[i - 1];
        list[i - 1] = x;
    }
}

static struct graph make_graph(void)
{
    struct graph g = { .blocks = 3 + any(BLOCKS_MOST - 2) };
    unsigned rank[BLOCKS_MOST];
    shuffle(rank, g.blocks);
    shuffle(g.place, g.blocks);
    for (unsigned i = 0; i + 1 < g.blocks; i++) {
        unsigned b = rank[i];
        if (i > 1 && !any(10))
            continue; /* one more end */
        g.ways[b] = any(8) ? 1 + any(2) : WAYS_MOST;
        g.way[b][0] = rank[i + 1 + any(any(2) ? g.blocks - i - 1 : 1)];
        for (unsigned k = 1; k < g.ways[b]; k++)
            g.way[b][k] = any(g.blocks);
    }
    return g;
}

/* Each block notes its number and the lanes that are in it, and then chooses its way in each lane by itself. */
static void write_graph(const struct graph *g, char *to, size_t size)
{
    size_t n = (size_t)snprintf(
        to, size,
        ".visible .entry k(.param .u64 out)\n{\n%s"
        "mul.lo.u32 r5, r1, 2654435761; mov.u32 r6, %d; mov.u32 r7, 0; mov.u32 r8, 1; shl.b32 r8, r8, r1;\nbra B0;\n",
        HEAD MINE, FUEL);
    for (unsigned i = 0; i < g->blocks; i++) {
        unsigned b = g->place[i], behind = i + 1 < g->blocks ? g->place[i + 1] : BLOCKS_MOST;
        n += (size_t)snprintf(
            to + n, size - n,
            "B%u: activemask.b32 r9; neg.s32 r10, r9; and.b32 r10, r10, r9; setp.eq.u32 p1, r10, r8;\n"
            "@p1 atom.global.add.u32 r11, [a0], 1;\n@p1 mad.wide.u32 a2, r11, 8, a0;\n"
            "mov.u32 r12, %u;\n@p1 st.global.v2.u32 [a2+256], {r12, r9};\nmad.lo.u32 r7, r7, 31, r12;\n"
            "mad.lo.u32 r5, r5, 1664525, 1013904223; shr.u32 r10, r5, 24; rem.u32 r10, r10, %u;\n"
            "setp.eq.u32 p2, r6, 0; selp.u32 r10, 0, r10, p2; @!p2 sub.u32 r6, r6, 1;\n",
            b, b, g->ways[b] ? g->ways[b] : 1);
        const unsigned *way = g->way[b];
        if (!g->ways[b])
            n += (size_t)snprintf(to + n, size - n, "st.global.u32 [mine+128], r7; ret;\n");
        else if (g->ways[b] > 2)
            n += (size_t)snprintf(to + n, size - n, "t%u: .branchtargets B%u, B%u, B%u, B%u;\nbrx.idx r10, t%u;\n", b,
                                  way[0], way[1], way[2], way[3], b);
        else {
            if (g->ways[b] == 2)
                n += (size_t)snprintf(to + n, size - n, "setp.ne.u32 p3, r10, 0;\n@p3 bra B%u;\n", way[1]);
            if (way[0] != behind)
                n += (size_t)snprintf(to + n, size - n, "bra B%u;\n", way[0]);
        }
    }
    snprintf(to + n, size - n, "}\n");
    assert_true(n + 3 < size);
}

/* Does `b` reach an end without block `without`? */
static bool reaches_end(const struct graph *g, unsigned b, unsigned without, uint32_t *seen)
{
    if (b == without || *seen >> b & 1)
        return false;
    *seen |= 1u << b;
    if (!g->ways[b])
        return true;
    for (unsigned k = 0; k < g->ways[b]; k++)
        if (reaches_end(g, g->way[b][k], without, seen))
            return true;
    return false;
}
static bool post_dominates(const struct graph *g, unsigned p, unsigned b)
{
    uint32_t seen = 0;
    return p != b && !reaches_end(g, b, p, &seen);
}
/* The first of the blocks that post-dominate b; BLOCKS_MOST: there is none. */
static unsigned meeting_of(const struct graph *g, unsigned b)
{
    for (unsigned p = 0; p < g->blocks; p++) {
        bool first = post_dominates(g, p, b);
        for (unsigned q = 0; first && q < g->blocks; q++)
            first = q == p || !post_dominates(g, q, b) || post_dominates(g, q, p);
        if (first)
            return p;
    }
    return BLOCKS_MOST;
}

static uint32_t path_of(const struct graph *g, uint32_t lane)
{
    uint32_t state = lane * 2654435761u, path = 0, b = 0;
    for (uint32_t fuel = FUEL;; fuel -= fuel > 0) {
        path = path * 31 + b;
        state = state * 1664525 + 1013904223;
        if (!g->ways[b])
            return path;
        b = g->way[b][fuel ? (state >> 24) % g->ways[b] : 0];
    }
}

/* The lanes that were in a block with several ways together come to its meeting point together, but for those that
   have ended. */
static void check_log(const struct graph *g, const uint32_t *log, uint32_t count, unsigned number)
{
    uint32_t gone = 0, due[BLOCKS_MOST][LANES], due_count[BLOCKS_MOST] = { 0 };
    unsigned meeting[BLOCKS_MOST] = { 0 };
    for (unsigned b = 0; b < g->blocks; b++)
        meeting[b] = g->ways[b] > 1 ? meeting_of(g, b) : BLOCKS_MOST;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t b = log[2 * i], lanes = log[2 * i + 1], left = 0;
        for (uint32_t k = 0; k < due_count[b]; k++)
            if (!(due[b][k] & lanes))
                due[b][left++] = due[b][k];
            else if (due[b][k] & ~lanes & ~gone)
                fail_msg("graph %u, step %u, block %u: lanes %#x without %#x", number, (unsigned)i, (unsigned)b,
                         (unsigned)lanes, (unsigned)(due[b][k] & ~lanes & ~gone));
        due_count[b] = left;
        if (!g->ways[b])
            gone |= lanes;
        if (g->ways[b] < 2 || meeting[b] == BLOCKS_MOST)
            continue;
        /* those of them who are still under way from another branch have to come, too */
        uint32_t *d = due[meeting[b]], *n = &due_count[meeting[b]], all = lanes;
        for (uint32_t k = 0; k < *n;)
            if (d[k] & all) {
                all |= d[k];
                d[k] = d[--*n];
                k = 0;
            } else
                k++;
        d[(*n)++] = all;
    }
}

EXEC_TEST(any_flow_of_control)
{
    static char ptx[1 << 16];
    for (unsigned number = 0; number < GRAPHS; number += exec_share()) {
        seed = number * 77 + 5;
        struct graph g = make_graph();
        write_graph(&g, ptx, sizeof ptx);
        gpu_load(ptx);
        uint32_t *out = gpu_written("k", 1, 32, 256 + 8 * LOG);
        for (uint32_t l = 0; l < 32; l++)
            assert_int_equal(out[32 + l], path_of(&g, l));
        check_log(&g, out + 64, out[0], number);
        gpu_reset();
    }
}

/* 30,000 blocks, each of which leads back as well as on. */
EXEC_TEST(decodes_a_deep_nest)
{
    enum { DEEP = 30000, LINE = 64 };
    char *ptx = malloc(DEEP * LINE + 2048);
    assert_non_null(ptx);
    size_t n = (size_t)sprintf(ptx, ".visible .entry k(.param .u64 out)\n{\n%ssetp.ne.u32 p1, r1, r1;\n", HEAD MINE);
    for (unsigned i = 0; i < DEEP; i++)
        n += (size_t)sprintf(ptx + n, "L%u: @p1 bra L%u;\n", i, i ? i - 1 : 0);
    sprintf(ptx + n, "st.global.u32 [mine], r1;\nret;\n}\n");
    gpu_load(ptx);
    free(ptx);
    uint32_t *out = gpu_alloc(128);
    clock_t begun = clock();
    assert_int_equal(gpu_run("k", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    if (seconds > 5)
        fail_msg("%g s", seconds);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(out[l], l);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
