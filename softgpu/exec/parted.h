/*
 * parted.h: code for some lanes of a warp (softgpu/jit.h): which lanes it takes, and what becomes of those that wait
 * where it ends.
 */
#ifndef SOFTGPU_EXEC_PARTED_H
#define SOFTGPU_EXEC_PARTED_H

#include "softgpu/exec/jit.h"

/* Takes the running group and those that wait at the region's places. false: one of them has to be the scheduler's
   (warp.c); nothing has been changed. */
bool exec_parted_take(struct exec_warp *, const struct exec_region *);
/* Runs the code for the lanes that have been taken. */
void exec_parted_run(struct exec_warp *, const struct exec_region *, sg_jit_code *);
/* Takes a full warp whose lanes part at the branch. false: the branch is none of the region; nothing has been changed.
   `taken`: which lanes it leads away. */
bool exec_parted_branch(struct exec_warp *, const struct exec_region *, const struct exec_insn *, uint32_t taken);
/* Sets up a full warp that has run to some instruction: of its lanes, these run, and the rest stands before
   `others`. */
void exec_parted_begin(struct exec_warp *, uint32_t lanes, const struct exec_insn *others);
/* What compiled code calls for an instruction or a case that it does not know. */
bool exec_parted_step(struct exec_warp *, const struct exec_insn *, uint32_t lanes);
/* Compiled code looks next time in the window where this place of global memory is. */
void exec_parted_near(struct exec_warp *, uint64_t address);

#endif
