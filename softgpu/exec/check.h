/*
 * check.h: watching kernels (FLYT_SOFTGPU_MEMCHECK). op_check.c puts instructions before accesses and around what
 * orders them; check.c judges and reports.
 */
#ifndef SOFTGPU_EXEC_CHECK_H
#define SOFTGPU_EXEC_CHECK_H

#include <stdatomic.h>

#include "softgpu/exec/exec.h"

/* Of one instruction of PTX. */
struct check_site {
    const struct ptx_module *module;
    const struct ptx_function *function;
    const struct ptx_instruction *instruction;
    bool read, write, atomic;
    atomic_flag reported, raced;          /* what does not end the kernel is reported once an instruction */
};

/* One lane's access to n bytes of global or shared memory, address as generic ones are. false: it must not be made, and
   has been reported. */
bool check_access(struct exec_warp *, struct check_site *, unsigned lane, uint64_t address, uint64_t n);

/* For what writes and is not watched: the bytes are not unwritten any more. */
void check_written(const struct exec_warp *, uint64_t address, uint64_t n);

/* Every access of the warp up to here comes before what others do after they acquire. which: a barrier's number, or
   EXEC_BARRIERS: anything else. */
void check_release(struct exec_warp *, unsigned which);
void check_acquire(struct exec_warp *, unsigned which);

#endif
