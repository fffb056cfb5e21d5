/* clock.h: time that only moves forward. */
#ifndef FLYT_COMMON_CLOCK_H
#define FLYT_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_SECOND UINT64_C(1000000000)
#define CLOCK_NS_PER_MS     UINT64_C(1000000)

/* Nanoseconds since some moment before this process began (CLOCK_MONOTONIC). */
uint64_t clock_now(void);

/* The same as a deadline for pthread_cond_clockwait or sem_clockwait on CLOCK_MONOTONIC. */
struct timespec clock_timespec(uint64_t ns);

/* Milliseconds from now until the deadline, rounded up, for poll(): 0 when it has passed, at most INT_MAX. */
int clock_poll_timeout(uint64_t deadline);

/*
 * Counts only time in which this process could run. Somebody looks about every `interval`. Where two looks lie further
 * apart than two intervals, the process was stopped (by a signal, a debugger, the machine's sleep) or starved of
 * processors; that counts as one interval, however long it took. Start with `looked` as now and `ns` as 0; callers see
 * to it that one thread at a time looks. Gives ns.
 */
struct clock_run { uint64_t looked, ns; };
uint64_t clock_run_look(struct clock_run *, uint64_t now, uint64_t interval);

#endif
