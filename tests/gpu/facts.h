/*
 * facts.h: what the files of `facts` (facts.c) share: the driver, and the little that most facts need of it. A child
 * process asks one fact, so what is global here is that fact's alone.
 */
#ifndef FLYT_TESTS_GPU_FACTS_H
#define FLYT_TESTS_GPU_FACTS_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct fact {
    const char *name; /* NULL: there are no more */
    void (*ask)(void);      /* prints the answer, without the end of the line */
    const char *assumption; /* of the design */
};
extern const struct fact memory_facts[], launch_facts[], limits_facts[], code_facts[];

extern void *library; /* the driver */
extern CUdevice device;
extern CUcontext context;
extern CUmodule module; /* that of kernel() */

/* The function of that name. Where the driver has none, it says so and ends the fact. */
void *entry(const char *name);

/* Calls a driver function by its exported name. */
#define CALL(name, types, ...) (((CUresult(*) types)entry(#name))(__VA_ARGS__))
#define NEED(call)                                                    \
    do {                                                              \
        CUresult need_result_ = (call);                               \
        if (need_result_ != CUDA_SUCCESS) {                           \
            printf("cannot tell: %s gives %d\n", #call, need_result_); \
            exit(0);                                                  \
        }                                                             \
    } while (0)

double now(void); /* seconds */
/* Device 0, with its primary context. */
void start(void);
/* wait(flag): until it is not 0; touch(address): writes 1; stop: traps; few: has .maxntid 64; where(out): out[%smid] =
   1. All take one argument. */
CUfunction kernel(const char *name);
CUresult launch(CUfunction f, unsigned blocks, unsigned threads, CUstream stream, CUdeviceptr argument);
CUresult synchronize(void);
CUdeviceptr allocate(size_t size); /* zeros */
CUstream new_stream(void);
/* Waits for no other stream. */
void store(CUdeviceptr to, uint32_t value);

#endif
