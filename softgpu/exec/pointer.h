/* pointer.h: calls by pointer; see pointer.c. */
#ifndef SOFTGPU_EXEC_POINTER_H
#define SOFTGPU_EXEC_POINTER_H

#include "softgpu/exec/exec.h"

/* What the address leads to when this kernel, one with an entry, calls it. Thread-safe. */
void exec_pointer_find(sg_kernel *, uint64_t address, struct exec_callee *);
/* Takes those guests off a kernel whose programs have gone. No grid of it may run; the caller has the engine's lock,
   and gives them to exec_guests_free without it. */
sg_kernel *exec_guests_gone(sg_kernel *);

#endif
