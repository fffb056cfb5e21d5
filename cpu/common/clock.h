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

#endif
