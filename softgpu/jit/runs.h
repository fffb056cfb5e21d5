/* runs.h: runs (runs.c) and their loads of shared memory (run_loads.c). See compile.h. */
#ifndef SOFTGPU_JIT_RUNS_H
#define SOFTGPU_JIT_RUNS_H

#include "softgpu/jit/compile.h"

/* RUN_OFFSET: bytes that an address is changed by, at most. */
enum { RUN_LOADS = 16, RUN_OFFSET = 1 << 20 };
/* Lanes that are computed at once: a register of the processor has so many cells of 32 bits. */
static inline unsigned run_round(const struct compiler *c) { return c->wish->avx512 ? 16 : 8; }

/* Where the lanes of a round read: all at one place; one behind the other, without gaps; within one register from the
   first one's place on; within two; anywhere. */
enum run_places { RUN_SAME, RUN_BESIDE, RUN_ONE, RUN_NEAR, RUN_APART };
/* Loads from one row of addresses, of one size: the least and the largest offset. In a round whose lanes read near each
   other: where the first one reads, and for each lane how many words behind that. */
struct run_load {
    exec_source at;
    unsigned bytes;
    bool narrow;
    enum run_places places;
    int64_t least, most;
    LLVMValueRef first, behind;
};
struct run_loads {
    struct run_load of[RUN_LOADS];
    unsigned count;
    LLVMValueRef shared;
};

/* Elements of 32 bits that the instruction, for all lanes, loads from shared memory for each; 0: it is no such load. */
unsigned run_load_elements(const struct exec_insn *);
/* false: there is no room for one more row of addresses. */
bool run_load_add(struct run_loads *, const struct exec_insn *);
/* Before the rounds. Goes on where all places are in shared memory and aligned, else in `wrong`. */
void run_loads_check(struct compiler *, struct run_loads *, LLVMBasicBlockRef wrong);
/* The places of all loads become what lanes are guessed to have, or RUN_NEAR. Is one of them another than that? first:
   the first instruction of the run. */
bool run_loads_guess(struct compiler *, struct run_loads *, uint32_t first);
void run_loads_set(struct run_loads *, enum run_places);
/* Goes on where the lanes of each round read as `places` of each load says, else in `otherwise`. */
void run_loads_fit(struct compiler *, struct run_loads *, LLVMBasicBlockRef otherwise);
/* At the beginning of a round. */
void run_loads_begin(struct compiler *, struct run_loads *);
void run_load_emit(struct compiler *, struct run_loads *, const struct exec_insn *);

/* Where the row's cells for the lanes of this round are. */
LLVMValueRef run_cells(struct compiler *, exec_source, enum row_bits);

#endif
