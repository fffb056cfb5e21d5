/*
 * span.h: where accesses of code for whole blocks find memory (softgpu/jit.h).
 *
 * Each access of that code has a span of its own in the block: addresses at which it may be made, so that the check is
 * a subtraction and a comparison. In other code, accesses whose lanes are anywhere share a few. Spans are forgotten at
 * the beginning of a host thread's turn (engine.c), as what other code has looked up is: who takes a right away waits
 * until the turns that are under way have ended.
 */
#ifndef SOFTGPU_EXEC_SPAN_H
#define SOFTGPU_EXEC_SPAN_H

#include "softgpu/exec/exec.h"

/* Fills the span in for accesses of so many bytes, around the address. span: from EXEC_SPANS on those of
   exec_block.reaches. false: they may not be touched so, and nothing was changed. */
bool exec_span_find(struct exec_block *, uint32_t span, uint64_t address, uint32_t bytes, uint32_t rights);

#endif
