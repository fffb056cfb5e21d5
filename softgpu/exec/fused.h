/*
 * fused.h: handlers that do all of an access in one function: address, check, and the move from or to rows.
 *
 * They know the usual case: a full warp whose lanes are contiguous, or contiguous in each half, in global memory; or
 * any place in shared memory. In every other case, which includes each fault, they call the general handler of
 * op_memory.c before they have changed anything. So faults are found and described in one place only.
 */
#ifndef SOFTGPU_EXEC_FUSED_H
#define SOFTGPU_EXEC_FUSED_H

#include "softgpu/exec/exec.h"

enum { EXEC_VECTOR_MOST = 8 };
/* Of the insn of a vector, behind `extra`. */
struct exec_vector {
    enum exec_vector_shape shape;     /* OTHER also where a register is wider than its element */
    uint32_t to[EXEC_VECTOR_MOST];
    uint8_t bytes[EXEC_VECTOR_MOST];
    bool sink[EXEC_VECTOR_MOST];
    exec_source from[EXEC_VECTOR_MOST];
};

/* op_memory.c: the general handlers */
exec_handler exec_run_load, exec_run_store, exec_run_load_vector, exec_run_store_vector;

/* fused.c, compiled once per level of the processor. NULL: there is none at this level. */
struct exec_fused {
    exec_handler *load[4], *load_signed[2], *store[4]; /* of global memory, by log2 of the size */
    exec_handler *load_vector[3], *store_vector[3];    /* enum exec_vector_shape */
    exec_handler *shared_load, *shared_store;          /* of 32 bits */
    exec_handler *shared_load_vector[3], *shared_store_vector[3];
};
const struct exec_fused *exec_fused_best(void);

#endif
