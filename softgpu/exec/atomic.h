/* atomic.h: `kind` of an insn of EXEC_STRAIGHT_ATOMIC (op_atomic.c). */
#ifndef SOFTGPU_EXEC_ATOMIC_H
#define SOFTGPU_EXEC_ATOMIC_H

enum exec_atomic {
    EXEC_ATOMIC_ADD, EXEC_ATOMIC_AND, EXEC_ATOMIC_OR, EXEC_ATOMIC_XOR, EXEC_ATOMIC_EXCH, EXEC_ATOMIC_CAS,
    EXEC_ATOMIC_INC, EXEC_ATOMIC_DEC, EXEC_ATOMIC_MIN, EXEC_ATOMIC_MAX
};
/* What it takes from the budget; compare-and-swap and exchange, with which loops wait, take more. */
enum { EXEC_ATOMIC_COST = 24, EXEC_ATOMIC_POLL_COST = 8 * EXEC_ATOMIC_COST };

#endif
