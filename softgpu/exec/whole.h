/* whole.h: blocks whose warps one piece of code runs, one after the other (softgpu/jit.h); see whole.c. */
#ifndef SOFTGPU_EXEC_WHOLE_H
#define SOFTGPU_EXEC_WHOLE_H

#include "softgpu/exec/exec.h"

/* The region whose code may run whole blocks of the grid; NULL: none may. */
struct exec_region *exec_whole_of(const sg_grid *);
/* A host thread begins a turn with the block. */
void exec_whole_turn(struct exec_block *);
/* Runs full warps of a block that begins, in their order, until one has something to do that its turns must do. If none
   has, the block may become one of those behind it (exec_block.behind), of which the same holds. Returns how many warps
   of the last one have come to their end; *started: how many have begun: these, or one more. */
uint32_t exec_whole_run(struct exec_block *, uint32_t *started);

/* Each warp gets the frame of the entry, and no groups. false: no host memory. */
bool exec_whole_ready(struct exec_block *);
/* Code for whole blocks has left the warp, whose lanes stand before w->pc: its group is what stands there. true: that
   is the whole warp. */
bool exec_whole_stand(struct exec_warp *);
/* Adds what code for whole blocks has counted, for FLYT_STATS. */
void exec_whole_count(struct exec_block *);

#endif
