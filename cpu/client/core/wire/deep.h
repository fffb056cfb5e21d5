/*
 * deep.h: work that needs more stack than the thread of a program may have: a thread can be made with 16 KiB
 * (PTHREAD_STACK_MIN). Connecting is such work: it resolves names, loads libraries, shakes hands.
 */
#ifndef FLYT_CLIENT_CORE_DEEP_H
#define FLYT_CLIENT_CORE_DEEP_H

/* Calls function(context) and returns its result: in this thread, or, if that has little stack left, in one of its own,
   which is waited for. The caller keeps this thread from being cancelled. */
int deep_call(int (*function)(void *context), void *context);

#endif
