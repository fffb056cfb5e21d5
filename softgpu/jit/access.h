/* access.h: what accesses of memory share (access.c, steps.c). See compile.h. */
#ifndef SOFTGPU_JIT_ACCESS_H
#define SOFTGPU_JIT_ACCESS_H

#include "softgpu/jit/compile.h"

enum { HALF = SG_LANES / 2 };

/* window.c */
LLVMValueRef both(struct compiler *, LLVMValueRef, LLVMValueRef);
LLVMValueRef is_aligned(struct compiler *, LLVMValueRef address, unsigned size);

/* Of the first byte: its address, the offset in the window; the window's table. */
struct window_place { LLVMValueRef low, offset, rights; };
/* Does the window where the warp was last hold so many bytes from p->low? Fills the rest in. */
LLVMValueRef in_window(struct compiler *, struct window_place *, unsigned bytes);
/* Goes on where lanes lie as is usual, and the window where the warp was last holds so many bytes from each of one or
   two places on, which are filled in; in `rare` where not. Where they are only outside, the window moves first. */
void go_on_inside(struct compiler *, LLVMValueRef usual, struct window_place *, unsigned count, unsigned bytes,
                  LLVMBasicBlockRef rare);
/* Of so few bytes that they lie in two granules at most: may the device touch them so (enum sg_rights)? */
LLVMValueRef may_touch(struct compiler *, const struct window_place *, unsigned bytes, unsigned rights);
/* access.c. Do so many bytes of shared memory behind the offset exist? */
LLVMValueRef fits_shared(struct compiler *, LLVMValueRef offset, unsigned bytes);

/* together.c: of a load at that address which is checked together with others: writes the code that goes on in the
   block that is returned, where so many bytes may be read, and the address is a multiple of `align`. NULL: it is
   checked by itself. */
LLVMBasicBlockRef together_ask(struct compiler *, const struct exec_insn *, LLVMValueRef address, unsigned align,
                               unsigned bytes);

/* Asks for the line, which need not exist, for this level of the cache. store: to write to it. */
void prefetch(struct compiler *, LLVMValueRef address, bool store, unsigned level);
/* Moves 16 lanes from or to each address. */
void move_from(struct compiler *, const struct exec_insn *, const LLVMValueRef *address);
void move_to(struct compiler *, const struct exec_insn *, const LLVMValueRef *address);
/* An element of the load's size, or a row of them, as registers have it. */
LLVMValueRef widened(struct compiler *, const struct exec_insn *, LLVMValueRef elements);

/* steps.c: where lanes are in steps of so many bytes, which are known. `each`: bytes of a lane. Goes on where the
   access can be made, with the places of the halves; in `rare` where not. */
void find_steps(struct compiler *, const struct exec_insn *, unsigned each, unsigned rights, LLVMBasicBlockRef rare,
                LLVMValueRef *address);
/* An access of lanes in other steps. false: there is no code for it, and nothing was written. */
bool global_steps(struct compiler *, const struct exec_insn *, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind);
/* Is it known that lanes are side by side? */
bool is_side_by_side(const struct compiler *, const struct exec_insn *);
/* Behind the end of other lanes (whole.rest): these load or store what lies side by side, where all its bytes may be
   touched. */
bool some_steps(struct compiler *, const struct exec_insn *, LLVMValueRef lanes, LLVMBasicBlockRef rare,
                LLVMBasicBlockRef behind);
bool shared_steps(struct compiler *, const struct exec_insn *, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind);

#endif
