/* callbacks.h: for FLYT_STATS: which instructions compiled code leaves to the interpreter, and how often. */
#ifndef SOFTGPU_EXEC_CALLBACKS_H
#define SOFTGPU_EXEC_CALLBACKS_H

#include "softgpu/exec/exec.h"

extern bool exec_callbacks_counted;
void exec_callback_count(const struct exec_warp *, const struct exec_insn *);
/* The most frequent ones, on stderr. */
void exec_callbacks_tell(void);

#endif
