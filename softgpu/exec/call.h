/* call.h: arguments and results of calls, for op_control.c and builtin.c. */
#ifndef SOFTGPU_EXEC_CALL_H
#define SOFTGPU_EXEC_CALL_H

#include "softgpu/exec/exec.h"

/* One actual argument or result of a call: a .param variable in the caller's local memory, or a register or constant. */
struct exec_value { exec_source row; uint32_t to, at, size; uint8_t bytes; bool in_row; };
struct exec_call {
    uint32_t function;                /* index; UINT32_MAX: by pointer, in s[0] */
    uint32_t argument_count, result_count;
    struct exec_value *arguments, *results;
};

uint64_t exec_call_argument(const struct exec_warp *, const struct exec_call *, uint32_t k, unsigned lane);     /* 0 where there is none */
void exec_call_result(struct exec_warp *, const struct exec_call *, uint32_t k, unsigned lane, uint64_t value);

#endif
