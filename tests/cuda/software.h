/* software.h: what answers the program's calls. */
#ifndef FLYT_TESTS_CUDA_SOFTWARE_H
#define FLYT_TESTS_CUDA_SOFTWARE_H

#include "check.h"

/* The software GPU. On a real one other programs disturb what is counted, and sizes are the driver's. */
static inline bool on_software_gpu(void)
{
    cudaDeviceProp properties;
    MUST(cudaGetDeviceProperties(&properties, 0));
    return strstr(properties.name, "software") != NULL;
}

/* Flyt, on whatever GPU: it answers some calls whose arguments NVIDIA's driver takes for granted, or where CUDA
   promises nothing. Natively a program must not make them. */
static inline bool with_flyt(void) { return getenv("FLYT_SERVER") != NULL; }

#endif
