/*
 * phases.h: blocks of kernels with barriers whose warps one piece of code runs (softgpu/jit.h), one after the other
 * from one barrier to the next; see phases.c.
 *
 * The code of a kernel is cut at points: each barrier and each place where a warp may halt before a store. Head 0 is
 * the kernel's beginning, and head n is behind its nth point. exec_phases.places says where each warp is:
 *
 *   n                       it goes on at head n, with all lanes
 *   EXEC_PHASE_SOME + n     with some lanes (exec_phases.lanes), and the others wait where the branch before leads
 *   EXEC_PHASE_WAITS + n    it waits at the barrier in front of head n
 *   EXEC_PHASE_ENDED
 *
 * The code sets a bit of exec_phases.seen for each warp that it leaves, so that it knows without looking at each
 * whether all are at one barrier.
 */
#ifndef SOFTGPU_EXEC_PHASES_H
#define SOFTGPU_EXEC_PHASES_H

#include "softgpu/exec/exec.h"
#include "softgpu/exec/straight.h"

/* COST: of a phase, for all warps, in the budget of a turn. LEAST: of it, before a phase. */
enum { EXEC_PHASE_COST = 32, EXEC_PHASE_LEAST = 4096 };
enum { EXEC_PHASES = 61, EXEC_PHASE_SOME = 64, EXEC_PHASE_WAITS = 128, EXEC_PHASE_ENDED = 255 };
#define EXEC_SEEN_HALT (UINT64_C(1) << 62)
#define EXEC_SEEN_END  (UINT64_C(1) << 63)

static inline bool exec_phase_ends(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_BARRIER || i->straight == EXEC_STRAIGHT_HALT;
}
/* A barrier at which all threads of the block wait, with number 0. */
static inline bool exec_is_whole_barrier(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_BARRIER && i->flags & EXEC_WHOLE_BARRIER;
}

/* May the grid's blocks run so, once there is code? */
bool exec_phases_may(const sg_grid *);
/* A block begins. false: nothing has been done, and its warps have to be started. */
bool exec_phases_start(struct exec_block *);
/* Another turn of a block of which exec_phases.on holds: its warps are not set up. Where that does not hold any more
   behind it, all of them are, or have ended. */
void exec_phases_turn(struct exec_block *);
/* The compiled code calls this before the interpreter has to run the warp. It sets the warp up: `lanes` go on, and the
   other lanes stand before `others`. The fixed part of the frame (EXEC_CLEARED) keeps what the phases put there. */
void exec_phases_begin(struct exec_warp *, uint32_t lanes, const struct exec_insn *others);

#endif
