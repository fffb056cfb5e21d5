/*
 * memory.h: the memory of graphs: addresses (memory.c), and what lies behind them (backing.c).
 *
 * An allocation node gets its address when it is added. The addresses of one graph are in blocks, which the graph's
 * ground holds together. Nothing lies behind a block until the graph is launched or uploaded. Then it gets a piece:
 * memory of the device, which stays there until the graph has ended, or the program trims. Graphs whose launches cannot
 * run at the same time may have the same piece, as CUDA documents it.
 */
#ifndef FLYT_CLIENT_GRAPH_MEMORY_H
#define FLYT_CLIENT_GRAPH_MEMORY_H

#include <stdatomic.h>

#include "cpu/client/graph/executable.h"
#include "cpu/common/tree.h"

struct memory_piece {
    core_handle handle;
    int device;
    uint64_t size;
    struct list blocks; /* behind which it lies */
    struct list of_all;
};

struct memory_block {
    struct ground *ground;
    uint64_t address, size;
    int device;
    struct graph_peers peers;
    struct list of_ground;
    /* Under the lock of backing.c. */
    struct memory_piece *piece; /* NULL: nothing lies behind it */
    struct list of_piece;
};

/* An event that several grounds wait for. */
struct ending {
    core_event event;
    unsigned uses;
};

/* The memory of one graph and of its executable. */
struct ground {
    /* Under the lock of the graphs. */
    unsigned memories; /* allocations */
    bool named;        /* the graph is there, and may add to it */
    struct list blocks;
    struct deferred end;
    atomic_uint live; /* allocations that the program has not freed; read without the lock */
    /* Under the lock of backing.c. */
    bool escapes;       /* the program uses allocations outside the graph: nothing else lies in their memory */
    unsigned launching; /* launches that are being made */
    core_event ended;   /* the executable's: behind the last launch; 0: none */
    core_context *ended_context;
    core_stream ended_stream;
    struct ending **after; /* what else may still use the memory */
    size_t after_count;
    struct list of_gone;
};

/* An allocation, up to the last graph that names it and the program's free. */
struct memory {
    struct tree_node by_address; /* key: address; tie: no other one has it */
    uint64_t size;
    struct memory_block *block;
    struct graph *graph; /* where it was added: only compared */
    graph_node freed_by; /* a node of that graph; 0: none */
    core_context *context;
    uint64_t life;    /* of the context: its core_context_info.id */
    unsigned holders; /* nodes of graphs and executables */
    bool live;        /* a launch has allocated it, and nothing has freed it yet */
};

static inline uint64_t memory_address(const struct memory *m) { return m->by_address.key; }

/* ---- backing.c; not under the lock of the graphs, but where it is said ---- */

/* Memory behind the blocks of the executable, for a launch that is made now; 0 or 2. Then backing_end. */
int backing_begin(struct executable *, const struct launch *);
/* launched: the executable's `ended` has been recorded. */
void backing_end(struct executable *, const struct launch *, bool launched);
/* The program has freed an allocation in that stream. */
void backing_freed(struct ground *, core_context *, core_stream);
/* The executable ends, but its last launch may not have. True: its event `ended` is not the caller's any more. */
bool backing_executable_ends(struct executable *);
/* Nothing names the ground any more. It is freed when no work uses it. */
void backing_gone(struct ground *);

#endif
