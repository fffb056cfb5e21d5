/* reach.h: global memory whose lanes are anywhere (reach.c). See compile.h. */
#ifndef SOFTGPU_JIT_REACH_H
#define SOFTGPU_JIT_REACH_H

#include "softgpu/jit/compile.h"

/* at: a row of addresses, at each of which so many bytes are touched. first: the beginning of the span that they are
   found in; offsets: how far they are behind it, a row of 32 bits. span: in which they are looked for, plus one; 0:
   that is not chosen yet. */
struct reach { LLVMValueRef at, first, offsets; unsigned bytes, align, span; };

/* Goes on where these lanes may touch what they want (enum sg_rights), with `first` and `offsets` filled in; in
   `step` where not. */
void reach_find(struct compiler *, struct reach *, LLVMValueRef lanes, unsigned rights, LLVMBasicBlockRef step);
/* Goes on where all lanes are aligned and near lane 0: in a window of so many bytes, a power of two, that may be read
   whole. Then `first` is its beginning. In `far` where not: there the span is looked up (reach_find). For AVX-512. */
void reach_around(struct compiler *, struct reach *, unsigned bytes, LLVMBasicBlockRef far);
/* How far the lanes are behind `first`, in 32 bits; 0 for those that do not take part (lanes; NULL: all do). */
LLVMValueRef reach_offsets(struct compiler *, const struct reach *, LLVMValueRef lanes);
/* A number from all lanes of a row, by one of LLVM's reductions. */
LLVMValueRef lanes_reduced(struct compiler *, const char *name, LLVMValueRef row);

#endif
