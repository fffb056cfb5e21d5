/* rounds.h: the rounds of benchB and benchM. */
#ifndef FLYT_BENCH_ROUNDS_H
#define FLYT_BENCH_ROUNDS_H

#include "workload.h"

#include <signal.h>

static volatile sig_atomic_t rounds_over;
static void rounds_end(int signal_number) { (void)signal_number; rounds_over = 1; }

/* Where the filler is looked at: its first and last byte. */
static inline void rounds_look(const unsigned char *held, size_t bytes)
{
    unsigned char seen[2] = { 0, 0 };
    MUST(cudaMemcpy(&seen[0], held, 1, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(&seen[1], held + bytes - 1, 1, cudaMemcpyDeviceToHost));
    if (seen[0] != 0x5a || seen[1] != 0x5a) {
        fprintf(stderr, "memory that nobody wrote to has changed\n");
        exit(1);
    }
}

/* rounds 0: until SIGINT or SIGTERM. held: bytes of further memory. Returns the exit status. */
static inline int rounds_run(size_t threads, unsigned long iterations, size_t held, unsigned long rounds,
                             unsigned long sleep_ms)
{
    struct workload w;
    unsigned char *filler = NULL;
    size_t capacity = rounds ? rounds : 1, count = 0;
    uint64_t *times = bench_array(capacity);
    workload_prepare(&w, (threads * sizeof(unsigned long) + 1023) >> 10, threads, iterations);
    signal(SIGINT, rounds_end);
    signal(SIGTERM, rounds_end);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    workload_upload(&w);
    if (held) {
        MUST(cudaMalloc((void **)&filler, held));
        MUST(cudaMemset(filler, 0x5a, held));
    }
    for (unsigned long round = 0; !rounds_over && (!rounds || round < rounds); round++) {
        if (round && sleep_ms) {
            struct timespec pause = { (time_t)(sleep_ms / 1000), (long)(sleep_ms % 1000) * 1000000 };
            nanosleep(&pause, NULL);
        }
        MUST(cudaMemset(w.device[2], 0, w.bytes));
        w.launches = 0;
        uint64_t began = bench_now();
        workload_launch(&w, 0);
        MUST(cudaDeviceSynchronize());
        uint64_t took = bench_now() - began;
        workload_download(&w);
        unsigned long sum = 0;
        for (size_t i = 0; i < threads; i++)
            sum += w.back[2][i];
        if (filler)
            rounds_look(filler, held);
        if (rounds)
            times[count++] = took;
        else
            printf("time_us %.3f sum %lu\n", (double)took / 1e3, sum);
        fflush(stdout);
    }
    workload_check(&w);
    if (filler)
        MUST(cudaFree(filler));
    if (count)
        bench_times(times, count);
    return 0;
}

#endif
