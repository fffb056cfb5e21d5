/*
 * exec.h: the inside of the software GPU's machine. Read this page before any file of the folder.
 *
 * From the outside in:
 *   engine   host threads and SMs; a queue of resident blocks, each of which takes bounded turns  (engine.c, place.c)
 *   grid     one launch: parameters, which blocks have started and ended                          (engine.c)
 *   cluster  blocks that start together and reach each other's shared memory                      (cluster.c)
 *   block    its warps, shared memory and barriers; at most one host thread runs it at a time      (block.c)
 *   warp     32 lanes, divided into groups                                                        (warp.c)
 *   group    lanes with one pc and one frame: what the interpreter runs                            (warp.c)
 *   frame    one call: the rows of registers of a function for the lanes that called it            (frame.c)
 *   row      a register of all lanes, and functions on whole ones          (rows.h, which rows.c and products.c fill)
 *   kernel   an entry with everything that it can call, decoded           (kernel.c, functions.c, reach.c, pointer.c)
 *   block    of a function (a basic block): where it is laid out says where lanes meet            (flow.c, order.c)
 *   insn     one decoded instruction: a handler and where its rows are                           (decode*.c, op_*.c)
 *
 * Invariants
 * - Every lane of a warp that has not exited belongs to exactly one group. A group is runnable, or parked at a
 *   warp-wide (`.sync`) or a block-wide (`bar`) meeting. Groups with the same pc and frame are merged when the
 *   scheduler sees them together. The group with the deepest call and then the lowest pc runs first, and insns lie in
 *   memory in the order that order.c gives the blocks, not in that of the text.
 * - While a group runs, its pc, frame and mask live in the warp (w->pc …) and its slot in w->groups is stale
 *   except for `state`. exec_warp_slice() alone loads and stores them.
 * - The loop of the interpreter leaves a group when w->pc == w->stop. A handler that changes which groups
 *   exist, or which parks, ends with exec_leave(). Only branches backward, calls, exits and meetings look at the
 *   budget, so everything between two of them runs without interruption; temporary rows rely on that.
 * - Where w->mask has all 32 lanes there is no other group, and w->stop is NULL unless a handler has asked to leave.
 *   straight.c relies on it.
 * - A handler writes only cells of active lanes (w->mask), unless no other live lane of the frame exists
 *   (w->mask == w->whole): then it may write garbage in the others.
 * - All state is in these structures: a block can go on in another host thread after any turn. The hand-over is
 *   the engine's lock, so what is private to a block (registers, local and shared memory) needs no atomics. The
 *   blocks of a cluster take their turns one after the other in one host thread, so the same holds for shared memory
 *   that another block of the cluster reaches.
 */
#ifndef SOFTGPU_EXEC_EXEC_H
#define SOFTGPU_EXEC_EXEC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "cpu/common/sleepers.h"
#include "softgpu/engine.h"
#include "softgpu/jit.h"
#include "softgpu/memory.h"
#include "softgpu/alu/alu.h"
#include "softgpu/exec/rows.h"

struct exec_warp;
struct exec_insn;
struct exec_callee;
struct exec_region;
typedef void exec_handler(struct exec_warp *, const struct exec_insn *);

/* The generic address space beside global memory: windows in the upper half, which no process of x86-64 or
   arm64 can map, distinguished by bits 32 and up. Addresses of code are never used twice, so that a pointer into a
   module that was unloaded leads nowhere: their window is the last, and has no end. */
enum exec_window {
    EXEC_WINDOW_SHARED = 0x8000,
    EXEC_WINDOW_LOCAL,
    EXEC_WINDOW_PARAM,
    EXEC_WINDOW_GRID,
    EXEC_WINDOW_LAUNCH,
    EXEC_WINDOW_CODE
};
#define EXEC_WINDOW_BASE(window) ((uint64_t)(window) << 32)
#define EXEC_WINDOW_BIT          ((uint64_t)1 << 47)

/* An address of shared memory has 32 bits: the offset, and above it 0 for the block's own shared memory, or the rank of
   a block of the cluster and 1. So mapa makes the same address for every block. */
enum { EXEC_RANK_SHIFT = 24 };
#define EXEC_SHARED_OFFSET ((UINT64_C(1) << EXEC_RANK_SHIFT) - 1)

/* Where a source row (or predicate) is: a multiple of 4 and in its two low bits the base that it counts from. */
enum exec_base { EXEC_BASE_ABSOLUTE, EXEC_BASE_FRAME, EXEC_BASE_WARP, EXEC_BASE_COUNT };
typedef uintptr_t exec_source;

enum exec_order { EXEC_RELAXED, EXEC_ACQUIRE, EXEC_RELEASE, EXEC_ACQ_REL, EXEC_SEQ_CST };

/* Predicates of a frame: fixed slots first. Values are byte offsets from the frame's rows. */
enum { EXEC_PRED_FALSE = 0, EXEC_PRED_SINK = 4, EXEC_PRED_CARRY = 8, EXEC_PRED_CLUSTER = 12, EXEC_PRED_FIRST = 16 };
enum { EXEC_CLEARED = 64 }; /* bytes of a new frame's rows, from their beginning, that are all zeros */

struct exec_insn {
    exec_handler *run;
    /* What a guarded instruction runs under its guard. Of another one whose `run` is the handler of straight.h: its own
       handler, for any lanes. */
    exec_handler *inner;
    union {
        sg_alu_function *alu;
        const struct exec_insn *target;
        const void *extra;            /* whatever more a handler needs: owned by the kernel */
        void (*op)(void);
    };
    exec_source s[SG_MAX_SOURCES];
    int64_t offset;                   /* of an address; immediate of an alu function */
    uint32_t d;                       /* destination row, from the frame's rows */
    uint32_t p, q;                    /* destination predicates */
    uint32_t in, in_flip;             /* source predicate, and 0 or ~0 to invert it */
    uint32_t guard, guard_flip;
    uint32_t cost;                    /* instructions that a branch backward repeats */
    uint32_t line;
    uint8_t cell;                     /* enum sg_cell of the destination */
    uint8_t space;                    /* enum ptx_space of an access */
    uint8_t size, vector;             /* bytes of an element, elements */
    uint8_t type;                     /* enum ptx_type */
    uint8_t order;                    /* enum exec_order */
    uint8_t source_count;
    uint8_t kind;                     /* private to the handler */
    uint8_t flags;
    uint8_t straight;                 /* enum exec_straight */
    uint8_t known;                    /* enum exec_straight: what a compiler knows it as, under a guard or not */
    uint8_t detail;                   /* of some of these: straight.h */
};
enum {
    EXEC_ADDRESS_32 = 1,              /* the address register has 32-bit cells */
    EXEC_ADDRESS_UNIFORM = 2,         /* no address register: offset is the address */
    EXEC_POLL = 4,                    /* of a kind that loops wait with: costs more of the budget */
    EXEC_SIGNED = 8,                  /* a load that extends with the sign */
    EXEC_WHOLE_BARRIER = 8,           /* a barrier: all threads of the block wait, and its number is 0 */
    EXEC_LABEL = 32,                  /* d is a PTX instruction to go to: becomes target, and cost */
    EXEC_ADDRESS_FRAME = 16,          /* counts from the frame's local memory */
    EXEC_READS_SHARED = 64,           /* or may: generic loads */
    EXEC_SYSTEM = 128,                /* an atomic operation that releases at system scope */
    EXEC_PARAMETERS = 128,            /* a load: its address register leads to parameters of the kernel */
};

struct exec_function {
    const struct ptx_function *ptx;
    struct exec_insn *insns;
    uint32_t insn_count;
    uint32_t rows_size;               /* bytes of a frame's rows, predicates included */
    uint32_t local_size;              /* bytes per lane: .local variables, then .param of calls and its own */
    uint32_t stack_size;              /* what of it counts against the stack limit */
    uint32_t registers;               /* 32-bit registers live at once, roughly */
    uint32_t *variable_offset;        /* of function-scope variables: in the frame's local memory or in shared */
    uint32_t *param_offset, *return_offset;
};

struct exec_rows_block { struct exec_rows_block *next; size_t used; _Alignas(64) unsigned char bytes[]; };

struct sg_kernel {
    sg_program *program;
    const struct ptx_function *ptx;
    uint32_t index;
    /* Per ptx function of the module: NULL until decoded. A decoded one is entered by the direct calls of others that
       are; a pointer leads only to those of `callable`, where all that they call directly is decoded, too. */
    _Atomic(struct exec_function *) *functions, *callable;
    bool *reached;                    /* per function: may run, so its shared memory has a place */
    uint64_t *shared_offset;          /* per module variable: its place in shared memory, UINT64_MAX: none */
    uint32_t **function_shared;       /* per function: per variable of it, likewise 32 bits; NULL: it was not reached */
    size_t static_shared;             /* without what is reserved: dynamic shared memory begins behind both */
    unsigned shared_align;
    bool calls_pointers;              /* it calls functions by pointer */
    bool stack_limited;               /* how deep its calls are is not known before */
    bool has_barriers;                /* of a block */
    bool has_cluster_barriers;        /* or calls what may have some */
    unsigned uses;                    /* SOFTGPU_USES_... */
    uint32_t local_static;            /* bytes per lane of the deepest chain of calls, as far as it is known before */
    uint32_t stack_static;            /* what of it the functions called count against the stack limit */
    /* describe.c: that a GPU would need for it, 0: nobody has asked yet; bytes of its stack and of those it calls */
    _Atomic uint32_t registers, estimate, stack_bytes;
    struct exec_rows_block *constants;
    struct constant_slot { uint64_t value; const void *row; uint32_t cell; } *slots;
    size_t slot_count, slot_capacity;
    struct exec_owned { struct exec_owned *next; } *owned;
    _Atomic size_t taken;             /* bytes of the budget for code (softgpu/ptx/budget.h) */
    pthread_mutex_t lock;             /* decoding of what is called by pointer, and new guests */
    struct exec_region *regions;      /* jit.h */
    /* Functions of other programs that this kernel has called, decoded for it: one guest for each such program. A guest
       is a kernel without an entry. Its list grows at the front while blocks read it. */
    _Atomic(sg_kernel *) guests;
    sg_kernel *next_guest;
    /* Under the engine's lock: grids of it; what the last first turn of a block took for each block, in nanoseconds,
       0: nobody knows, UINT64_MAX: one has not ended in it. */
    uint64_t running, took;
};

/* What a pointer to a function leads to. */
struct exec_callee {
    const struct exec_function *function;
    exec_handler *builtin; /* instead: a function that the device provides */
    int error;             /* neither, and log says why */
    char log[512];
};

enum { EXEC_CODE_STEP = 16, EXEC_CALL_STACK = 16 }; /* bytes of stack that hardware would at least need for a call */
struct sg_program {
    sg_engine *engine;
    sg_program *next, **back;         /* of the engine */
    struct ptx_module *module;
    uint64_t *address_of;
    const void *space;                /* see sg_program_create */
    uint64_t code_base;               /* functions[i] is at code_base + EXEC_CODE_STEP * i */
    struct exec_reach *pointed;       /* what pointers may lead to; NULL: no kernel has asked yet */
    struct exec_depth *depths;        /* per function; NULL: nobody has asked yet */
    _Atomic uint64_t holders;         /* the driver, guests, and kernels whose code is compiled */
    atomic_bool gone;                 /* the driver has destroyed it */
    bool plain;                       /* FLYT_SOFTGPU_FUSED=off: no handlers of fused.h */
    sg_kernel **kernels;              /* by function; NULL: not asked for yet */
    struct sg_machine_code *machine_code; /* by function; NULL: of none */
    sg_unknown *unknown;              /* sg_program_survey; NULL: none */
    void *unknown_context;
    pthread_mutex_t lock;
};

struct exec_frame {
    struct exec_frame *parent;
    struct exec_frame *below;         /* the frame under it in the same chunk */
    const struct exec_insn *return_pc;
    const struct exec_insn *call;     /* the call, for its arguments */
    const struct exec_function *function;
    uint32_t live;                    /* lanes that have not returned from it */
    uint32_t depth;
    uint32_t local_base, local_top;   /* in every lane's local memory */
    uint32_t stack_used;
    struct exec_chunk *chunk;
    unsigned char *rows;
};
struct exec_chunk { struct exec_chunk *previous; struct exec_frame *top; size_t used, size; unsigned char *bytes; };

enum exec_state { EXEC_RUNNABLE, EXEC_AT_SYNC, EXEC_AT_BARRIER };
struct exec_group {
    const struct exec_insn *pc;
    struct exec_frame *frame;
    uint32_t mask;
    uint8_t state;
    bool gave_way;                    /* had its share while others wait: they go first */
    uint32_t spent;                   /* slices in a row */
    uint32_t waited;                  /* how often others gave way and this one, though it could, did not run */
    uint8_t barrier;                  /* AT_BARRIER: which */
    uint32_t wanted;                  /* AT_SYNC: lanes that it waits for */
    const struct exec_insn *at;       /* the instruction that it waits in */
};

enum exec_special_row {
    EXEC_ROW_TID, EXEC_ROW_NTID = 3, EXEC_ROW_CTAID = 6, EXEC_ROW_NCTAID = 9, EXEC_ROW_LANEID = 12, EXEC_ROW_COUNT
};

enum { EXEC_SEEN = 8 };
struct exec_warp {
    _Alignas(64) const struct exec_insn *pc;
    const struct exec_insn *stop;
    uintptr_t bases[EXEC_BASE_COUNT];
    unsigned char *rows;              /* the frame's */
    uint32_t mask, whole;
    int32_t budget;
    bool polled;                      /* it did something that loops wait with */
    uint32_t nap;                     /* nanoseconds that it asked to sleep for, in its last slice */
    uint64_t interpreted, compiled;   /* instructions in its slice; the second is counted for FLYT_STATS only */
    bool halted;                      /* it stands before a store, until the block's other warps have had their turn */
    uint32_t halts;                   /* before how many more stores it does that */
    uint32_t group_count, current;
    struct exec_frame *frame;
    struct exec_block *block;
    const struct exec_row_functions *row;
    unsigned char *local;             /* see exec_local */
    uint32_t alive;                   /* lanes that have not exited */
    uint32_t cluster_arrived;         /* lanes that have arrived at the cluster's barrier, in this phase of it */
    uint32_t products_committed;      /* groups of wgmma */
    uint32_t index;                   /* of the warp in its block */
    bool in_line;                     /* its threads differ in x only, and are side by side there */
    bool united;                      /* in line, and all lanes have done the same since it started */
    uint32_t granule_device;
    const struct sg_window *near;     /* of global memory: where compiled code looks first */
    uint64_t seen[EXEC_SEEN];         /* where accesses of compiled code were last; any values (softgpu/jit/access.c) */
    const struct exec_region *region; /* whose code for some lanes runs; and the lanes that wait at its places */
    uint32_t waiting[SG_JIT_PLACES];
    struct exec_chunk *chunk, *spare; /* the second was the first once, and is kept for the next call */
    struct exec_group groups[SG_LANES];
    _Alignas(64) uint32_t special[EXEC_ROW_COUNT][SG_LANES];
    _Alignas(64) unsigned char temp[2][16 * SG_LANES];
    _Alignas(64) uint64_t address[SG_LANES];
};

/* Of global memory: `count` addresses from `first` on, at each of which an access may begin. */
struct exec_span { uint64_t first, count; };
enum { EXEC_SPANS = 32 };
/* Spans of other code, which finds lane by lane where they are: of bytes that may be read, written, and both. */
enum { EXEC_REACHES_READ = 8, EXEC_REACHES_WRITE = 4, EXEC_REACHES_BOTH = 4, EXEC_REACHES = 16 };

enum { EXEC_BARRIERS = 16, EXEC_BARRIER_CLUSTER = EXEC_BARRIERS, EXEC_MAX_WARPS = 32, EXEC_CLUSTER_MOST = 16 };
struct exec_barrier {
    uint32_t arrived[EXEC_MAX_WARPS]; /* lanes, waiting or not */
    uint32_t arrived_count;           /* all that ever did, since it was last open */
    uint32_t expected;                /* threads; 0: all that live */
    uint32_t ones; bool all, any;     /* bar.red */
};

/* Behind a barrier, a warp waits for the others before so many stores (block.c). */
enum { EXEC_HALTS = 4 };

/* Of a block whose warps run phase by phase: see phases.h. */
struct exec_phases {
    uint64_t seen;
    int32_t budget;                   /* of all warps, for this turn */
    bool on;
    uint8_t places[EXEC_MAX_WARPS];
    uint32_t lanes[EXEC_MAX_WARPS];
};

struct exec_cluster { uint32_t count; struct exec_block *blocks[EXEC_CLUSTER_MOST]; };

struct exec_block {
    struct exec_block *next;          /* ready queue (the first block stands for its cluster), free list */
    uint64_t naps_until;              /* 0: its next turn may come at once; else CLOCK_MONOTONIC in nanoseconds */
    uint32_t nap;                     /* nanoseconds for which all of its warps that could run want to sleep */
    struct exec_block *resident_next, **resident_link;
    sg_grid *grid;
    struct exec_cluster *cluster;     /* NULL: the grid has none, or of one block */
    uint64_t index;                   /* cluster by cluster */
    uint32_t rank;                    /* in the cluster */
    uint32_t ctaid[3];
    unsigned sm;
    bool fresh;                       /* not set up yet */
    uint64_t behind;                  /* blocks behind it that its host thread may begin in the same turn */
    uint32_t stopped;                 /* how often, of late, warps did not run through */
    bool used;                        /* by an earlier grid: its memory is not clear */
    bool clean;                       /* only code for whole blocks has run in it since whole.c made it ready */
    struct exec_span spans[EXEC_SPANS], /* what accesses of such code have found in this turn of the host thread */
                     reaches[EXEC_REACHES]; /* and those of other code */
    bool parked;                      /* nothing in it can run: waits to be cancelled */
    bool failed;
    bool released;                    /* warps left a barrier: the oldest goes first */
    bool read;                        /* shared memory, since then */
    uint64_t chaos;
    uint32_t warp_count, live_threads, live_warps;
    struct exec_warp *warps;
    unsigned char *shared; size_t shared_size;   /* reserved, static, dynamic */
    unsigned char *local; size_t local_size;
    struct exec_barrier barriers[EXEC_BARRIERS];
    uint32_t barriers_in_use;         /* a bit for each; the others are all zeros */
    struct exec_phases phases;
    struct exec_check *check; /* NULL: it is not watched */
    /* What its kernel has launched (device_runtime.c): arguments of launches to come, the last error of each thread,
       and the last task of its NULL stream. */
    struct exec_buffer **buffers; uint32_t buffer_count;
    uint32_t *errors;
    struct exec_task *stream;
};

/* Blocks of a grid, by their indexes. */
struct exec_range { uint64_t first, count; };
enum { EXEC_CLAIMS_MOST = 64 };

struct sg_grid {
    struct sg_grid *next, **link;
    sg_engine *engine;
    struct sg_launch launch;
    const sg_kernel *kernel;
    const struct exec_function *entry;
    unsigned char *params; size_t params_size; /* they lie behind this structure */
    uint64_t id;
    uint64_t block_count, next_block, running;
    /* Of those before next_block: what host threads have claimed and given back, and how many have claims (place.c). */
    struct exec_range returned[EXEC_CLAIMS_MOST];
    uint32_t returned_count, claims, claim_size;
    uint32_t threads_per_block, warps_per_block;
    uint32_t cluster[3], cluster_size; /* 1: none */
    bool cluster_given;               /* by the launch or the kernel: %is_explicit_cluster */
    size_t shared_size;               /* static + dynamic */
    size_t local_size;                /* per lane */
    unsigned registers;
    struct exec_block *resident;
    struct exec_block *bare, *warm;   /* in no use: those that never had memory, and those that have theirs still */
    struct exec_region *whole;        /* whose code may run whole blocks; NULL: none may (whole.c) */
    bool crowded;                     /* more of its blocks wait, and no SM has room for one: see place.c */
    bool brief;                       /* all its blocks together are expected to take one thread a moment: engine.c */
    /* Grids that kernels launch (family.c); under the engine's lock. It is over when its children are. */
    sg_grid *parent, *tail;           /* tail: what starts then, one after the other */
    struct exec_task *task;           /* NULL: the driver has launched it */
    struct exec_device_object *objects; uint64_t object_count;
    uint32_t depth;
    uint64_t children;                /* that are not over, without the tail */
    _Atomic int error;
    _Alignas(16) uint32_t workspace[16];   /* of grid.sync() */
};

/* A block of a grid that is over, with its memory, for the next grid of the kernel and the same shape (place.c). */
enum { EXEC_SPARES = 4 };
struct exec_spare { const sg_kernel *kernel; struct exec_block *block; uint32_t grid[3], shape[3]; };

enum { EXEC_MAX_SMS = 1024 };
struct exec_sm { unsigned blocks, threads, registers; size_t shared; };
struct sg_engine {
    pthread_mutex_t lock;
    struct sleepers idle;             /* threads that found no block which can run */
    struct sg_limits limits;
    unsigned ordinal, thread_count;
    _Atomic size_t local_held;        /* local memory of blocks, bytes */
    uint64_t chaos;                   /* the seed, constant: read without the lock */
    uint64_t chaos_state;             /* under the lock */
    pthread_t *threads;
    unsigned started;
    unsigned turns_seen, in_turn[2];  /* turns under way: in_turn[n & 1] began when turns_seen was n */
    bool clocked;                     /* a thread that sleeps wakes by the clock, for blocks that sleep */
    bool stopping;
    struct exec_sm *sms;              /* EXEC_MAX_SMS */
    bool part;                        /* of a device: it never has more than sm_count */
    unsigned placed_on;               /* the active SMs when blocks were placed last */
    sg_grid *grids, **grids_end;      /* in launch order; until the last block and the last child have ended */
    uint64_t waiting_children;        /* launched by kernels, and not begun */
    struct exec_block *ready, **ready_end;
    uint64_t ready_count, brief;      /* brief: how long all blocks of a brief grid may take, in nanoseconds */
    unsigned outside;                 /* threads that are not its own, between a launch and sg_run() */
    struct exec_spare spares[EXEC_SPARES];
    unsigned next_spare;              /* the next one that is given up for another */
    uint64_t grid_ids;
    sg_program *programs;
    uint64_t next_code;
};

/* --- helpers of the handlers --- */

static inline const void *exec_row(const struct exec_warp *w, exec_source s)
{
    return (const void *)(w->bases[s & 3] + (s & ~(uintptr_t)3));
}
static inline uint32_t *exec_pred(const struct exec_warp *w, uint32_t offset)
{
    return (uint32_t *)(void *)(w->rows + offset);
}
static inline void exec_pred_write(struct exec_warp *w, uint32_t offset, uint32_t value)
{
    uint32_t *p = exec_pred(w, offset);
    *p = (*p & ~w->mask) | (value & w->mask);
}
static inline bool exec_full(const struct exec_warp *w) { return w->mask == w->whole; }
/* For what loops wait with: they do it less often, and give way sooner. The cost of a load: */
enum { EXEC_POLL_COST = 128 };
static inline void exec_poll(struct exec_warp *w, int32_t cost)
{
    w->budget -= cost;
    w->polled = true;
}
/* Ends the group's run after this instruction. w->pc must be final. */
static inline void exec_leave(struct exec_warp *w) { w->stop = w->pc; }
static inline void exec_jump(struct exec_warp *w, const struct exec_insn *to)
{
    w->pc = to;
    if (w->group_count > 1)
        w->stop = to;
}
/* A lane's local memory at that offset. Lanes alternate every 16 bytes, so that a variable that all lanes touch lies in
   few cache lines, while an aligned access of up to 16 bytes stays in one piece. */
static inline unsigned char *exec_local(const struct exec_warp *w, unsigned lane, uint64_t offset)
{
    return w->local + ((offset & ~UINT64_C(15)) * SG_LANES + lane * 16 + (offset & 15));
}
/* Where functions[index] is, as a pointer to it says. */
static inline uint64_t exec_code_address(const sg_program *p, uint32_t index)
{
    return p->code_base + (uint64_t)index * EXEC_CODE_STEP;
}
/* The index of the function at that address; UINT32_MAX: none of this program is. */
static inline uint32_t exec_code_index(const sg_program *p, uint64_t address)
{
    uint64_t offset = address - p->code_base, index = offset / EXEC_CODE_STEP;
    return offset % EXEC_CODE_STEP || index >= p->module->function_count ? UINT32_MAX : (uint32_t)index;
}
/* For one lane of a row whose cells are 32 or 64 bits wide. */
static inline uint64_t exec_lane(const void *row, unsigned cell, unsigned lane)
{
    return cell == SG_CELL_64 ? ((const uint64_t *)row)[lane] : ((const uint32_t *)row)[lane];
}

/* A lane's address as the kernel knows it, made generic. */
static inline uint64_t exec_generic_address(const struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    uint64_t a = (uint64_t)i->offset;
    if (i->flags & EXEC_ADDRESS_FRAME)
        a += w->frame->local_base;
    if (!(i->flags & EXEC_ADDRESS_UNIFORM))
        a += exec_lane(exec_row(w, i->s[0]), i->flags & EXEC_ADDRESS_32 ? SG_CELL_32 : SG_CELL_64, lane);
    if (i->space == PTX_SPACE_SHARED)
        return (a & UINT32_MAX) | EXEC_WINDOW_BASE(EXEC_WINDOW_SHARED);
    return i->space == PTX_SPACE_LOCAL ? (a & UINT32_MAX) | EXEC_WINDOW_BASE(EXEC_WINDOW_LOCAL) : a;
}

/* Ends the grid with a CUresult. what: a few words for the log. */
void exec_fault(struct exec_warp *, const struct exec_insn *, int error, const char *what);
void exec_fault_address(struct exec_warp *, const struct exec_insn *, int error, const char *what, unsigned lane,
                        uint64_t address);

/* Puts a row of results into the active lanes of a register. */
static inline void exec_blend(struct exec_warp *w, uint32_t d, unsigned cell, const void *from)
{
    unsigned char *to = w->rows + d;
    if (cell == SG_CELL_32)
        w->row->blend32((uint32_t *)(void *)to, from, w->mask);
    else if (cell == SG_CELL_64)
        w->row->blend64((uint64_t *)(void *)to, from, w->mask);
    else
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            memcpy(to + 16 * l, (const unsigned char *)from + 16 * l, 16);
        }
}

/* engine.c: a thread of the block launches a kernel. stream: see family.h. Returns a CUresult. */
int exec_launch_child(struct exec_block *, const struct sg_launch *, uint64_t stream);

/* frame.c */
/* The frame of the entry, in which the warp begins. */
struct exec_frame *exec_frame_first(struct exec_warp *, const struct exec_function *, uint32_t lanes);
struct exec_frame *exec_frame_push(struct exec_warp *, const struct exec_function *, struct exec_frame *parent,
                                   uint32_t lanes);
void exec_frame_leave(struct exec_warp *, struct exec_frame *, uint32_t lanes);   /* frees it when nobody is left */
void exec_frame_clear(struct exec_warp *); /* the registers of its first frame; there is one */
void exec_frames_free(struct exec_warp *);
/* Memory that kernels see before they write it: all zeros. size: a multiple of alignment. NULL: there is none. */
void *exec_zeroed(size_t alignment, size_t size);

/* warp.c */
void exec_warp_init(struct exec_warp *, struct exec_block *, uint32_t index); /* what all blocks of a grid share */
void exec_warp_start(struct exec_warp *, uint32_t lanes);
/* Starts a full warp, and makes its one group the one that runs. */
void exec_warp_begin(struct exec_warp *);
/* The end of a full warp of a kernel without barriers: nobody waits for its lanes, and its frame is the only one. */
void exec_warp_end(struct exec_warp *);
/* Is a warp that has just started a full one, for which there is compiled code? */
bool exec_warp_may_run_through(const struct exec_warp *);
/* Goes on with such a warp. true: it has come to its end; false: slices go on. */
bool exec_warp_run_through(struct exec_warp *);
/* Runs groups until the budget is spent, none is runnable, the warp halts before a store or leaves a barrier last.
   Returns what it used of the budget, which may be more. */
int32_t exec_warp_slice(struct exec_warp *, int32_t budget);
bool exec_warp_ready(const struct exec_warp *);
struct exec_group *exec_group_add(struct exec_warp *, const struct exec_insn *pc, struct exec_frame *, uint32_t mask);

/* block.c */
enum exec_turn { EXEC_TURN_MORE, EXEC_TURN_WAIT, EXEC_TURN_DONE };
enum exec_turn exec_block_turn(struct exec_block *);
void exec_block_free(struct exec_block *);
size_t exec_shared_size(const sg_grid *);                   /* of each block, in bytes */
void exec_block_start(struct exec_block *);
/* Runs its warps, if some can run: true. */
bool exec_block_run(struct exec_block *);
bool exec_block_must_end(struct exec_block *);              /* its grid has failed */

/* cluster.c */
enum exec_turn exec_cluster_turn(struct exec_cluster *);
/* Opens the cluster's barrier if all threads have arrived or exited. */
void exec_cluster_recheck(struct exec_block *);
/* The block whose shared memory an address of 32 bits is in; NULL: there is none. The offset is the address' low
   EXEC_RANK_SHIFT bits. */
static inline struct exec_block *exec_shared_block(struct exec_block *b, uint64_t address)
{
    uint32_t rank = (uint32_t)address >> EXEC_RANK_SHIFT;
    if (!rank)
        return b;
    return b->cluster && rank <= b->cluster->count ? b->cluster->blocks[rank - 1] : NULL;
}
/* An address's place in another block of b's cluster: what mapa gives for an address of 32 bits or a generic one. A
   block without a cluster is number 0 of its own. Its addresses have no rank, so that what lies 16 MiB behind its
   shared memory is none. */
static inline uint64_t exec_shared_of_rank(const struct exec_block *b, uint64_t address, uint32_t rank)
{
    uint64_t offset = address & ~(UINT32_MAX & ~EXEC_SHARED_OFFSET);
    if (!b->cluster && !rank)
        return offset;
    return offset | (uint64_t)((rank < EXEC_CLUSTER_MOST ? rank : EXEC_CLUSTER_MOST) + 1) << EXEC_RANK_SHIFT;
}
/* Does a host address lie in shared memory of the block or its cluster? */
bool exec_in_shared(const struct exec_block *, const void *);

/* exit.c */
void exec_warp_exit(struct exec_warp *);                    /* the active lanes */

/* op_barrier.c, op_warp.c */
void exec_barrier_recheck(struct exec_block *);
void exec_sync_recheck(struct exec_warp *);

/* check.c: of a block that is watched. Start: before each use of the block; false: no host memory. */
bool exec_check_start(struct exec_block *);
void exec_check_free(struct exec_block *);

/* functions.c */
void exec_program_release(sg_program *);  /* by one of its holders; frees it with the last one */
void exec_guests_free(sg_kernel *);       /* a list of guests */
sg_kernel *exec_kernel_new(sg_program *); /* with room for its tables; NULL: no host memory */
void exec_kernel_free(sg_kernel *);
/* Decodes functions[index] and all that it calls directly. NULL: log says why not. Under the kernel's lock, or before
   anybody else knows the kernel. */
const struct exec_function *exec_kernel_decode(sg_kernel *, uint32_t index, char *log, size_t log_size);

/* constants.c */
const void *exec_kernel_constant(sg_kernel *, uint64_t value, enum sg_cell);
/* So many bytes more of the budget for code, until the kernel is freed. False: there are not so many left. */
bool exec_kernel_take(sg_kernel *, size_t bytes);
void *exec_kernel_own(sg_kernel *, size_t size);            /* zeroed memory freed with the kernel; NULL */

/* locals.c: where a function's variables and parameters lie in its frame's local memory. Each list may be NULL. Returns
   NULL, or why it cannot be. */
struct exec_locals {
    uint32_t *variables, *params, *returns;
    uint32_t stack, size; /* bytes: of variables, of all */
};
const char *exec_locals_place(const struct ptx_function *, struct exec_locals *);

/* decode.c */
struct exec_function *exec_decode(sg_kernel *, uint32_t index, char *log, size_t log_size);
void exec_function_free(struct exec_function *);

/* address.c: makes host addresses of the active lanes' addresses in w->address. n: bytes of each access. LANES:
   w->address[lane]; CONTIGUOUS: n bytes apart from w->address[0] for lane 0; ROW: so, and all 32 lanes' bytes may be
   touched, active or not (stores must not); UNIFORM: all at w->address[0]. */
enum exec_found { EXEC_FOUND_NONE, EXEC_FOUND_LANES, EXEC_FOUND_UNIFORM, EXEC_FOUND_CONTIGUOUS, EXEC_FOUND_ROW };
enum exec_found exec_address(struct exec_warp *, const struct exec_insn *, unsigned n, unsigned align, unsigned rights);
static inline uintptr_t exec_found_address(const struct exec_warp *w, enum exec_found found, unsigned lane, unsigned n)
{
    return found == EXEC_FOUND_LANES     ? w->address[lane]
           : found == EXEC_FOUND_UNIFORM ? w->address[0]
                                         : w->address[0] + (uint64_t)lane * n;
}
/* One lane, any generic address. NULL: not accessible. */
void *exec_address_lane(struct exec_warp *, unsigned lane, uint64_t address, uint64_t n, unsigned rights);
/* At a fence of system scope, and before a release. */
static inline void exec_release(void)
{
    softgpu_released *released = atomic_load_explicit(&sg_released, memory_order_relaxed);
    if (__builtin_expect(released != NULL, 0))
        released();
}
/* Whether memory that the kernel may touch so has been brought to the address, which had none. Waits. */
bool exec_brought(const struct exec_warp *, uint64_t address, uint64_t n, unsigned rights);

/* builtin.c */
exec_handler *exec_builtin_find(const char *name);

/* device_runtime.c: what libcudadevrt asks for */
exec_handler *exec_runtime_find(const char *name);

/* buffer.c: arguments of launches that kernels prepare, in EXEC_WINDOW_LAUNCH, each in so many bytes of addresses. */
enum { EXEC_LAUNCH_SHIFT = 15 };
struct exec_buffer { sg_kernel *kernel; struct sg_launch launch; unsigned char bytes[]; };
/* The place of a new one, cleared, with room for the kernel's parameters; NULL: no room. */
struct exec_buffer **exec_buffer_new(struct exec_block *, sg_kernel *);
void *exec_buffer_address(struct exec_block *, uint64_t offset, uint64_t n);         /* NULL: there is none */
void exec_buffers_leave(struct exec_block *);               /* the block has ended */

/* heap.c; NULL: there is no heap */
uint64_t exec_heap_take(sg_heap *, uint64_t bytes);         /* 0: no room */
bool exec_heap_give(sg_heap *, uint64_t address);           /* false: not the beginning of an allocation */

/* print.c; NULL: nobody reads what is printed */
void exec_print_add(sg_print *, const char *text, size_t size);

#endif
