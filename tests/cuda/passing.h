// passing.h: a kernel lets time pass, by the device's clock.
#ifndef FLYT_TESTS_CUDA_PASSING_H
#define FLYT_TESTS_CUDA_PASSING_H

__device__ static inline unsigned long long device_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Sleeps so long at a time: the processors are for others meanwhile. 0: it keeps the multiprocessor busy. */
__device__ static inline void pass(unsigned long long ns, unsigned sleep)
{
    for (unsigned long long start = device_ns(); device_ns() - start < ns;)
        if (sleep)
            __nanosleep(sleep);
}

#endif
