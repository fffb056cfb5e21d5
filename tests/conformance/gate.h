/*
 * gate.h: work that lasts as long as a chapter wants, without a sleep: a kernel that waits for a flag in mapped memory
 * of the host. It gives up after `ms`, so that a call which waits for it returns in the end, and says that it gave up.
 */
#ifndef FLYT_TESTS_CONFORMANCE_GATE_H
#define FLYT_TESTS_CONFORMANCE_GATE_H

#include "suite.h"

struct gate {
    int begun, open, given_up;
};

__global__ static void gate_kernel(volatile struct gate *g, unsigned ms)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    g->begun = 1;
    __threadfence_system();
    do {
        if (g->open)
            return;
        __nanosleep(20000);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < ms * 1000000ull);
    g->given_up = 1;
    __threadfence_system();
}

static inline struct gate *gate_new(void)
{
    struct gate *g;
    MUST(cudaHostAlloc((void **)&g, sizeof *g, cudaHostAllocMapped));
    memset(g, 0, sizeof *g);
    return g;
}

/* The kernel runs when this returns. */
static inline void gate_close(struct gate *g, cudaStream_t stream, unsigned ms)
{
    memset(g, 0, sizeof *g);
    gate_kernel<<<1, 1, 0, stream>>>(g, ms);
    MUST(cudaGetLastError());
    while (!__atomic_load_n(&g->begun, __ATOMIC_ACQUIRE)) {
        cudaStreamQuery(stream); /* what waits in a buffer is sent */
        sched_yield();
    }
    cudaGetLastError();
}

static inline void gate_open(struct gate *g) { __atomic_store_n(&g->open, 1, __ATOMIC_RELEASE); }

/* Whether the gate gave up before it was opened: whether the call before this one has waited for it. */
static inline bool gate_waited(struct gate *g)
{
    bool waited = __atomic_load_n(&g->given_up, __ATOMIC_ACQUIRE);
    gate_open(g);
    return waited;
}

/* As WAITS of suite.h, for a kernel. documented: whether the call is to wait. Where it is not, and the machine is busy,
   it is asked again with more patience. */
#define WAITS_FOR_KERNEL(documented, g, stream, prepare, call, about)                                          \
    do {                                                                                                       \
        bool waited_ = true;                                                                                   \
        cudaError_t result_ = cudaSuccess;                                                                     \
        for (unsigned ms_ = 40; waited_ && ms_ < ((documented) ? 50 : 2000); ms_ *= 6) {                       \
            prepare;                                                                                           \
            gate_close(g, stream, ms_);                                                                        \
            result_ = (call);                                                                                  \
            waited_ = gate_waited(g);                                                                          \
            MUST(cudaDeviceSynchronize());                                                                     \
        }                                                                                                      \
        printf("%s: %s -> %s, %s%s\n", #call, about, cudaGetErrorName(result_), waited_ ? "waits" : "returns", \
               waited_ == (documented) ? "" : " (documented: the contrary)");                                  \
        cudaGetLastError();                                                                                    \
    } while (0)

#endif
