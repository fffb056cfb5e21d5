/*
 * suite.h: what the chapters of the conformance suite share.
 *
 * A chapter is a table: each row makes one call and prints one line,
 *
 *     cudaMalloc(NULL, 4): null pointer -> cudaErrorInvalidValue
 *
 * GIVES names the code that NVIDIA's reference documents; where another comes, the line says so. SAYS makes no claim.
 * Behind each call the thread's last error is read: where it is not what the call returned, the line names it. A line
 * has no addresses and no times, so that two implementations can be compared line by line (compare.py).
 *
 * WAITS asks whether a call waits for work in a stream: the work is a host function that ends when the call has
 * returned, or after a while.
 */
#ifndef FLYT_TESTS_CONFORMANCE_SUITE_H
#define FLYT_TESTS_CONFORMANCE_SUITE_H

#include <cuda_runtime.h>
#include <cuda_profiler_api.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST_NAME(code) cudaGetErrorName((cudaError_t)(code))
#include "../lib/must.h"
#include "native.h"

/* The major version of the runtime under test: chapters are built for older ones too, with the functions that those
   have. */
#ifndef RUNTIME
#define RUNTIME 13
#endif

/* An argument of a call that no object has. */
#define WRONG(type) ((type)(uintptr_t)0x7F3A5C0)

/* A program that crashes has printed what it did before. */
__attribute__((constructor)) static void lines_at_once(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

/* result, and what the thread remembers of it. documented: -1: nothing is claimed. */
static void row(const char *call, const char *about, cudaError_t result, int documented)
{
    cudaError_t last = cudaPeekAtLastError();
    printf("%s: %s -> %s", call, about, cudaGetErrorName(result));
    if (documented >= 0 && result != documented)
        printf(" (documented: %s)", cudaGetErrorName((cudaError_t)documented));
    if (last != result)
        printf(" (last error: %s)", cudaGetErrorName(last));
    printf("\n");
    cudaGetLastError();
}
#define GIVES(code, call, about) (row_is_asked(#call, about) ? row(#call, about, (call), code) : (void)0)
#define SAYS(call, about) (row_is_asked(#call, about) ? row(#call, about, (call), -1) : (void)0)
#define WORKS(call, about) GIVES(cudaSuccess, call, about)
/* A value that a call gave. */
#define VALUE(name, format, value) printf("  %s = " format "\n", name, value)

/* What is known of an address. */
static inline void pointer_row(const char *about, const void *address)
{
    cudaPointerAttributes a;
    memset(&a, 0x55, sizeof a);
    cudaError_t r = cudaPointerGetAttributes(&a, address), last = cudaGetLastError();
    printf("cudaPointerGetAttributes: %s -> %s %s", about, cudaGetErrorName(r), cudaGetErrorName(last));
    if (r == cudaSuccess)
        printf(" type %d device %d, device pointer %s, host pointer %s", (int)a.type, a.device,
               !a.devicePointer             ? "none"
               : a.devicePointer == address ? "the same"
                                            : "another",
               !a.hostPointer             ? "none"
               : a.hostPointer == address ? "the same"
                                          : "another");
    printf("\n");
}

/* ---- does it wait? ---- */

static struct hold {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun, returned, ended;
    int ms;
} hold_state = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, false, 0 };

static void CUDART_CB hold_run(void *)
{
    struct hold *h = &hold_state;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += h->ms / 1000;
    until.tv_nsec += h->ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&h->lock);
    h->begun = true;
    pthread_cond_broadcast(&h->changed);
    while (!h->returned && pthread_cond_timedwait(&h->changed, &h->lock, &until) == 0)
        ;
    h->ended = true;
    pthread_mutex_unlock(&h->lock);
}

static void hold_begin(cudaStream_t stream, int ms)
{
    struct hold *h = &hold_state;
    h->begun = h->returned = h->ended = false;
    h->ms = ms;
    MUST(cudaLaunchHostFunc(stream, hold_run, NULL));
    pthread_mutex_lock(&h->lock);
    while (!h->begun)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

/* Whether the work had ended before this. */
static bool hold_let_go(void)
{
    struct hold *h = &hold_state;
    pthread_mutex_lock(&h->lock);
    bool waited = h->ended;
    h->returned = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return waited;
}

/* Whether the work had ended before the call returned. */
static bool hold_end(void)
{
    bool waited = hold_let_go();
    MUST(cudaDeviceSynchronize());
    return waited;
}

/* A machine that is busy may let a call take long: it is asked again with more patience. */
#define WAITS(stream, prepare, call, about)                                                                   \
    do {                                                                                                      \
        bool waited_ = true;                                                                                  \
        cudaError_t result_ = cudaSuccess;                                                                    \
        if (!row_is_asked(#call, about))                                                                             \
            break;                                                                                            \
        for (int ms_ = 60; waited_ && ms_ < 1000; ms_ *= 6) {                                                 \
            prepare;                                                                                          \
            hold_begin(stream, ms_);                                                                          \
            result_ = (call);                                                                                 \
            waited_ = hold_end();                                                                             \
        }                                                                                                     \
        printf("%s: %s -> %s, %s\n", #call, about, cudaGetErrorName(result_), waited_ ? "waits" : "returns"); \
        cudaGetLastError();                                                                                   \
    } while (0)

/* ---- in another thread, in a child ---- */

struct elsewhere {
    void (*run)(void);
};
static void *elsewhere_main(void *of)
{
    ((struct elsewhere *)of)->run();
    return NULL;
}
static inline void in_thread(void (*run)(void))
{
    pthread_t thread;
    struct elsewhere e = { run };
    pthread_create(&thread, NULL, elsewhere_main, &e);
    pthread_join(thread, NULL);
}

/* In a process of its own, for what ends the use of CUDA in a process. The caller must not have used CUDA itself. */
static inline void in_child(void (*run)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        run();
        exit(0);
    }
    waitpid(child, &status, 0);
    if (status)
        printf("the process ended with status %x\n", (unsigned)status);
}

#endif
