/*
 * budget.h: how much of the host's memory code may take in this process: texts, what the reader makes of them, and what
 * kernels are decoded to. A few kilobytes that somebody sends can become gigabytes of it, so whoever takes more than a
 * little asks here first. What stands in the device's memory (variables) does not count.
 */
#ifndef SOFTGPU_PTX_BUDGET_H
#define SOFTGPU_PTX_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes for all code together. Set before the first code is read; until then there is no limit. */
extern size_t ptx_budget_most;

/* False: there would be more than ptx_budget_most, and nothing is taken. Thread-safe. */
bool ptx_budget_take(size_t bytes);
void ptx_budget_give(size_t bytes);
/* Whether the calling thread has been refused since it last asked. Distinguishes a text that is too much from one
   that is wrong. */
bool ptx_budget_refused(void);

#endif
