/* reach.h: global memory whose lanes are anywhere (reach.c). See compile.h. */
#ifndef SOFTGPU_JIT_REACH_H
#define SOFTGPU_JIT_REACH_H

#include "softgpu/jit/compile.h"

/* at: a row of addresses, at each of which so many bytes are touched. first: the beginning of the span that they are
   found in. */
struct reach { LLVMValueRef at, first; unsigned bytes, align; };

/* Goes on where these lanes may touch what they want (enum sg_rights), with `first` filled in; in `step` where not. */
void reach_find(struct compiler *, struct reach *, LLVMValueRef lanes, unsigned rights, LLVMBasicBlockRef step);
/* How far the lanes are behind `first`, in 32 bits; 0 for those that do not take part (lanes; NULL: all do). */
LLVMValueRef reach_offsets(struct compiler *, const struct reach *, LLVMValueRef lanes);

#endif
