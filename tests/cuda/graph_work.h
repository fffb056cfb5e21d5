/*
 * graph_work.h: random work for graph_random.cu: a list of operations on a few buffers, and what the host computes for
 * it. Operations that touch the same buffer keep their order; all others may run at the same time.
 */
#ifndef FLYT_TESTS_CUDA_GRAPH_WORK_H
#define FLYT_TESTS_CUDA_GRAPH_WORK_H

#include <string.h>
#include <vector>
#include "../lib/dice.h"

/* Of functions that another release has in another form. */
#define HAS_CONDITIONS (CUDART_VERSION >= 13000)
#define HAS_MOVED_CHILDREN (CUDART_VERSION >= 13000)

enum { N = 512, ON_DEVICE = 5, PINNED = 2, PAGEABLE = 2, BUFFERS = ON_DEVICE + PINNED + PAGEABLE, STREAMS = 4 };
/* SCRATCH copies through memory of its own; WRITES is a batch of memory operations; EVENT an event of the program's
   that is recorded and waited for; IF a conditional node. away: the second device runs the kernel. half: a copy takes
   half of each row. */
enum kind { KERNEL, FILL, COPY, COPY_2D, HOST, CHILD, EMPTY, SCRATCH, WRITES, EVENT, IF, KINDS };
enum { WRITTEN = 3 };

struct operation { enum kind kind; int to, from, also, value; bool away, half; std::vector<operation> child; };
typedef std::vector<operation> work;

static unsigned long long state;
static unsigned random_below(unsigned n) { return dice(&state, n); }

__global__ void mix(int *to, const int *from, const int *also, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = to[i] * 3 + (from[i] ^ (also[i] + value));
}

static int *buffers[BUFFERS], model[BUFFERS][N];
static cudaStream_t streams[STREAMS];

/* ---- what an operation does, in the model ---- */

static void host_work(int *to, const int *from, int value)
{
    for (int i = 0; i < N; i++)
        to[i] = to[i] * 5 - from[i] + value;
}

static void compute(const work &w)
{
    for (const operation &o : w) {
        int *to = model[o.to], *from = model[o.from], *also = model[o.also];
        switch (o.kind) {
        case KERNEL:
            for (int i = 0; i < N; i++)
                to[i] = to[i] * 3 + (from[i] ^ (also[i] + o.value));
            break;
        case FILL:
            for (int i = 0; i < N / 2; i++)
                to[i] = o.value;
            break;
        case COPY: memmove(to, from, sizeof model[0] >> o.half); break;
        case COPY_2D:                         /* 4 rows of 32 elements, 64 apart here and 128 apart there */
            for (int row = 0; row < 4; row++)
                memcpy(to + row * 128, from + row * 64, 32 * sizeof(int) >> o.half);
            break;
        case HOST: host_work(to, from, o.value); break;
        case CHILD: compute(o.child); break;
        case SCRATCH:
            for (int i = 0; i < N; i++)
                to[i] = to[i] * 3 + (from[i] ^ (from[i] + o.value));
            break;
        case WRITES:
            for (int i = 0; i < WRITTEN; i++)
                to[i] = o.value + i;
            break;
        case IF:
            for (int i = 0; i < N && o.value % 2; i++)
                to[i] = to[i] * 3 + (from[i] ^ (also[i] + o.value));
            break;
        default: break;
        }
    }
}

/* ---- random work ---- */

static int any_device() { return (int)random_below(ON_DEVICE); }
static int any_host() { return ON_DEVICE + (int)random_below(BUFFERS - ON_DEVICE); }

/* memory, conditions: graphs of it may allocate, may have conditions. */
static work random_work(unsigned most, int depth, bool memory, bool conditions)
{
    work w;
    unsigned count = 1 + random_below(most);
    for (unsigned i = 0; i < count; i++) {
        operation o = { (enum kind)random_below(KINDS), any_device(), any_device(), any_device(),
                        (int)random_below(1000), random_below(4) == 0, false, {} };
        if ((o.kind == CHILD && depth == 0) || (o.kind == IF && !(HAS_CONDITIONS && conditions)) ||
            (o.kind == SCRATCH && !memory))
            o.kind = KERNEL;
        if (o.kind == CHILD)
            o.child = random_work(5, depth - 1, memory && HAS_MOVED_CHILDREN, false);
        if (o.kind == HOST) {
            o.to = any_host();
            o.from = any_host();
        }
        if (o.kind == COPY || o.kind == COPY_2D) {
            o.to = random_below(2) ? any_host() : any_device();
            o.from = o.to >= ON_DEVICE && random_below(4) == 0 ? any_host() : any_device();
            if (o.to < ON_DEVICE && random_below(2))
                o.from = any_host();
            if (o.to == o.from)
                o.kind = EMPTY;
        }
        w.push_back(o);
    }
    return w;
}

/* Which buffers are read and written: bits. */
static void touches(const operation &o, unsigned &reads, unsigned &writes)
{
    if (o.kind == CHILD)
        for (const operation &inner : o.child)
            touches(inner, reads, writes);
    if (o.kind == CHILD || o.kind == EMPTY || o.kind == EVENT)
        return;
    writes |= 1u << o.to;
    if (o.kind == KERNEL || o.kind == HOST || o.kind == SCRATCH || o.kind == IF)
        reads |= 1u << o.to;
    if (o.kind != FILL && o.kind != WRITES)
        reads |= 1u << o.from;
    if (o.kind == KERNEL || o.kind == IF)
        reads |= 1u << o.also;
}

static bool must_follow(const operation &later, const operation &earlier)
{
    unsigned reads = 0, writes = 0, before_reads = 0, before_writes = 0;
    touches(later, reads, writes);
    touches(earlier, before_reads, before_writes);
    return (writes & (before_reads | before_writes)) || (reads & before_writes);
}

/* ---- what is asked of work ---- */

static bool allocates(const work &w)
{
    for (const operation &o : w)
        if (o.kind == SCRATCH || allocates(o.child))
            return true;
    return false;
}

/* No copies of its graphs, and no second executable. */
static bool single(const work &w)
{
    for (const operation &o : w)
        if (o.kind == IF)
            return true;
    return allocates(w);
}

/* Whether the memory of a SCRATCH is the second device's: it need not be the one that runs the kernel. */
static bool memory_away(const operation &o) { return o.value / 2 % 2; }

/* In the model a fill writes elements; on the device it writes bytes, all of them the same. */
static void fills_are_bytes(work &w)
{
    for (operation &o : w) {
        if (o.kind == FILL)
            o.value = (o.value & 255) * 0x01010101;
        fills_are_bytes(o.child);
    }
}

/* What a node's parameters can say without another order of the nodes. */
static void vary(operation &o)
{
    o.value = o.kind == FILL ? o.value ^ 0x22222222 : o.kind == SCRATCH ? o.value + 4 : o.value + 1;
    if (o.kind == COPY || o.kind == COPY_2D)
        o.half = !o.half;
    for (operation &inner : o.child)
        vary(inner);
}

static bool can_set(const operation &o) { return o.kind != EMPTY && o.kind != IF && !allocates(o.child); }

#endif
