/* runs.h: runs (runs.c) and their loads of shared memory (run_loads.c). See compile.h. */
#ifndef SOFTGPU_JIT_RUNS_H
#define SOFTGPU_JIT_RUNS_H

#include "softgpu/jit/compile.h"

/* RUN_OFFSET: bytes that an address is changed by, at most. */
enum { RUN_LOADS = 16, RUN_OFFSET = 1 << 20 };
/* Lanes that are computed at once: a register of the processor has so many cells of 32 bits. */
static inline unsigned run_round(const struct compiler *c) { return c->wish->avx512 ? 16 : 8; }
/* Bytes of two such registers. */
static inline unsigned run_near(const struct compiler *c) { return 8 * run_round(c); }

/* Loads from one row of addresses, of one size: the least and the largest offset. In a round whose lanes read near each
   other: where the first one reads, and for each lane how many words behind that. */
struct run_load { exec_source at; unsigned bytes; bool narrow; int64_t least, most; LLVMValueRef first, behind; };
struct run_loads {
    struct run_load of[RUN_LOADS];
    unsigned count;
    bool near; /* all lanes of a round read within two registers */
    LLVMValueRef shared;
};

/* Elements of 32 bits that the instruction, for all lanes, loads from shared memory for each; 0: it is no such load. */
unsigned run_load_elements(const struct exec_insn *);
/* false: there is no room for one more row of addresses. */
bool run_load_add(struct run_loads *, const struct exec_insn *);
/* Before the rounds. Goes on where lanes of each round read within two registers; in `apart` where some do not; in
   `wrong` where a place is outside shared memory or not aligned. */
void run_loads_check(struct compiler *, struct run_loads *, LLVMBasicBlockRef apart, LLVMBasicBlockRef wrong);
/* At the beginning of a round. */
void run_loads_begin(struct compiler *, struct run_loads *);
void run_load_emit(struct compiler *, struct run_loads *, const struct exec_insn *);

/* Where the row's cells for the lanes of this round are. */
LLVMValueRef run_cells(struct compiler *, exec_source, enum row_bits);

#endif
