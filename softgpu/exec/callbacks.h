/* callbacks.h: for FLYT_STATS: how many instructions compiled code executes itself, and which it leaves to the
   interpreter. */
#ifndef SOFTGPU_EXEC_CALLBACKS_H
#define SOFTGPU_EXEC_CALLBACKS_H

#include "softgpu/exec/exec.h"

extern bool exec_callbacks_counted;
/* Compiled code calls the interpreter for the instruction. */
void exec_callback_count(const struct exec_warp *, const struct exec_insn *);
/* At the end of a warp's slice: adds what it has executed. */
void exec_instructions_sum(struct exec_warp *);
static inline void exec_instructions_add(struct exec_warp *w)
{
    if (exec_callbacks_counted)
        exec_instructions_sum(w);
}
/* The share, and the most frequent callbacks: a text without end of line at a time. */
void exec_callbacks_tell(void (*say)(const char *));

#endif
