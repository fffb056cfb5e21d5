/*
 * must.h: MUST(call) ends the program when a call of CUDA's, of either API, does not give 0. A file may say before it
 * with MUST_NAME what a code is called.
 */
#ifndef FLYT_TESTS_LIB_MUST_H
#define FLYT_TESTS_LIB_MUST_H

#include <stdio.h>
#include <stdlib.h>

#ifndef MUST_NAME
#define MUST_NAME(code) "see cuda.h"
#endif

static inline void must(int code, const char *call, const char *file, int line)
{
    if (!code)
        return;
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, MUST_NAME(code), code);
    exit(1);
}
#define MUST(call) must((int)(call), #call, __FILE__, __LINE__)

#endif
