/* now.h: the time of a clock that only moves forward, in seconds. */
#ifndef FLYT_TESTS_LIB_NOW_H
#define FLYT_TESTS_LIB_NOW_H

#include <time.h>

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
