/* registers.h: which row each register of a function gets; see registers.c. */
#ifndef SOFTGPU_EXEC_REGISTERS_H
#define SOFTGPU_EXEC_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>
#include "softgpu/exec/flow.h"

/* row[r]: index among the rows of its size, per register that is no predicate; rows: how many there are of 32, 64 and
   128 bits. false: no memory, or too large to be worth it; then give each a row of its own. */
bool exec_registers_place(const struct exec_flow *, uint32_t *row, uint32_t rows[3]);

#endif
