/*
 * freeze.h: stops a thread for good that is inside LLVM, so that the end of a process need not wait for it.
 *
 * When a process ends, LLVM destroys its variables while a thread may still compile with them, and a large region takes
 * up to a minute. The thread cannot be asked to stop, since LLVM asks nobody. A signal interrupts it. Where that finds
 * it in LLVM's own code, it holds no lock that others need at the end (those of malloc and of the loader are taken in
 * other libraries), and its handler never returns. Everywhere else it goes on.
 */
#ifndef SOFTGPU_JIT_FREEZE_H
#define SOFTGPU_JIT_FREEZE_H

#include <stdbool.h>

/* The calling thread may be stopped by freeze_try() from now until freeze_leave(). Calls do not nest, and only one
   thread at a time is between them. */
void freeze_enter(void);
void freeze_leave(void);
/* Is the calling thread between them? */
bool freeze_is_self(void);

/* Of the thread that ends the process, again and again: true once the other thread stands still for good; false: it is
   where it must not be stopped, or there is none. */
bool freeze_try(void);

#endif
