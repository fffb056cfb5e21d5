/* place.h: which blocks are resident (place.c), and the queue of those that can run (engine.c). What takes an engine
   needs its lock. */
#ifndef SOFTGPU_EXEC_PLACE_H
#define SOFTGPU_EXEC_PLACE_H

#include "softgpu/exec/exec.h"

/* Warps whose threads have so many registers each, on an SM. It has four parts, and a warp has those of one. */
static inline unsigned exec_warps_of_registers(const struct sg_limits *l, unsigned registers)
{
    enum { PARTS = 4, UNIT = 8 };
    unsigned of_warp = (registers + UNIT - 1) / UNIT * UNIT * l->warp_size;
    return of_warp ? l->regs_per_sm / PARTS / of_warp * PARTS : 0;
}

/* How many registers of an SM a thread of the kernel takes (describe.c). */
unsigned exec_registers_of_thread(const sg_kernel *);
/* How many more blocks of that size the SM has room for. registers: of a thread. shared: bytes of a block. */
unsigned exec_blocks_that_fit(const struct sg_limits *, const struct exec_sm *, unsigned threads, unsigned registers,
                              size_t shared);
/* On so many SMs blocks are placed now. */
unsigned exec_active_sms(const sg_engine *);
/* Makes blocks resident where there is room, and gives them to the queue. */
void exec_place_blocks(sg_engine *);
/* The block has ended, or its whole cluster. */
void exec_end_block(sg_engine *, sg_grid *, struct exec_block *);
/* The block has ended, and its place goes to the grid's next one. False: the next one, if any, may have another place,
   and nothing was done. */
bool exec_next_block(sg_engine *, sg_grid *, struct exec_block *);
/* Before the first turn of a block: the same block, or another one with memory that has become it. */
struct exec_block *exec_warm_block(sg_engine *, struct exec_block *);
/* A host thread that runs the block, which has not begun, may run those behind it, too, one after the other, without
   the lock: as many as `count` says. They have begun for everybody else. count: 0: none. */
struct exec_range exec_claim_blocks(sg_engine *, struct exec_block *);
/* The thread has run the first `done` of them, in so many nanoseconds with the one before (UINT64_MAX: one of these
   goes on), and gives back the rest. */
void exec_claim_over(sg_engine *, sg_grid *, struct exec_range, uint64_t done, uint64_t nanoseconds);
/* Blocks that have not begun. */
uint64_t exec_blocks_left(const sg_grid *);
/* The next of them; there is one. */
uint64_t exec_take_block(sg_grid *);
/* Of a grid that is over. */
void exec_free_blocks(sg_grid *);
/* The grid gets a block with memory of an earlier one; and leaves one behind. */
void exec_spare_take(sg_engine *, sg_grid *);
void exec_spare_leave(sg_engine *, sg_grid *);
/* The kernel goes; NULL: the engine does. Takes the lock itself. */
void exec_spares_free(sg_engine *, const sg_kernel *);

/* The block can run: a host thread takes it from the queue (engine.c). */
void exec_ready_push(sg_engine *, struct exec_block *);

#endif
