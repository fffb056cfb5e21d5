/*
 * driver.h: suite.h for the Driver API: GIVES, SAYS, WORKS, VALUE and MUST for calls that return a CUresult. The second
 * implementation is the software GPU itself.
 */
#ifndef FLYT_TESTS_CONFORMANCE_DRIVER_H
#define FLYT_TESTS_CONFORMANCE_DRIVER_H

#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRONG(type) ((type)(uintptr_t)0x7F3A5C0)

static const char *name_of(CUresult code)
{
    const char *name = NULL;
    return cuGetErrorName(code, &name) == CUDA_SUCCESS && name ? name : "no such error";
}
#define MUST_NAME(code) name_of((CUresult)(code))
#include "../lib/must.h"
#include "native.h"

static void row(const char *call, const char *about, CUresult result, int documented)
{
    printf("%s: %s -> %s", call, about, name_of(result));
    if (documented >= 0 && (int)result != documented)
        printf(" (documented: %s)", name_of((CUresult)documented));
    printf("\n");
    fflush(stdout);
}
#define GIVES(code, call, about) (row_is_asked(#call, about) ? row(#call, about, (call), code) : (void)0)
#define SAYS(call, about) (row_is_asked(#call, about) ? row(#call, about, (call), -1) : (void)0)
#define WORKS(call, about) GIVES(CUDA_SUCCESS, call, about)
#define VALUE(name, format, value) printf("  %s = " format "\n", name, value)

#endif
