/*
 * workload.h: what the programs benchB … benchR share: a kernel whose length is chosen (`iterations` squared steps in
 * each thread, 32 threads in a block), the three arrays of a pass, and a common start of several processes.
 *
 * The names, arguments and order of steps of these programs are those of the earlier Flyt's synthetic benchmarks, so
 * that figures can be put side by side. New here: microseconds instead of milliseconds, and every program checks what
 * the device computed. Sizes are decimal.
 */
#ifndef FLYT_BENCH_WORKLOAD_H
#define FLYT_BENCH_WORKLOAD_H

#include "bench.h"

#include <sys/file.h>
#include <fcntl.h>
#include <unistd.h>

enum { WORKLOAD_BLOCK = 32, WORKLOAD_LAUNCHES = 100 };

/* One thread's steps: each needs the one before. */
__host__ __device__ static inline unsigned long workload_steps(unsigned long thread, unsigned long iterations)
{
    unsigned long x = thread, factor = 2 * thread + 33;
    for (unsigned long k = 0; k < iterations; k++)
        for (unsigned long j = 0; j < iterations; j++)
            x = x * factor + j;
    return x;
}

__global__ void workload_kernel(unsigned long iterations, const unsigned long *b, unsigned long *c)
{
    unsigned long thread = (unsigned long)blockIdx.x * blockDim.x + threadIdx.x;
    c[thread] += workload_steps(thread, iterations) + b[thread];
}

/* The arrays of a pass: a and b are copied to the device, c is computed there, all three come back. */
struct workload {
    size_t bytes, threads;
    unsigned long iterations, launches;
    unsigned long *source, *back[3], *device[3];
};

static inline void workload_prepare(struct workload *w, size_t kilobytes, size_t threads, unsigned long iterations)
{
    *w = (struct workload){ kilobytes << 10, threads, iterations, 0 };
    if (threads % WORKLOAD_BLOCK || threads == 0 || threads * sizeof(unsigned long) > w->bytes) {
        fprintf(stderr, "the number of threads must be a multiple of 32, with 8 bytes for each\n");
        exit(2);
    }
    w->source = (unsigned long *)malloc(w->bytes);
    for (size_t i = 0; i < w->bytes / sizeof(unsigned long); i++)
        w->source[i] = i * 2654435761ul + 17;
    for (int i = 0; i < 3; i++) {
        w->back[i] = (unsigned long *)malloc(w->bytes);
        memset(w->back[i], 0, w->bytes);
    }
}

static inline void workload_upload(struct workload *w)
{
    for (int i = 0; i < 3; i++)
        MUST(cudaMalloc((void **)&w->device[i], w->bytes));
    MUST(cudaMemset(w->device[2], 0, w->bytes));
    MUST(cudaMemcpy(w->device[0], w->source, w->bytes, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(w->device[1], w->source, w->bytes, cudaMemcpyHostToDevice));
}

static inline void workload_launch(struct workload *w, cudaStream_t stream)
{
    workload_kernel<<<(unsigned)(w->threads / WORKLOAD_BLOCK), WORKLOAD_BLOCK, 0, stream>>>(w->iterations, w->device[1],
                                                                                            w->device[2]);
    MUST(cudaGetLastError());
    w->launches++;
}

static inline void workload_download(struct workload *w)
{
    for (int i = 0; i < 3; i++)
        MUST(cudaMemcpy(w->back[i], w->device[i], w->bytes, cudaMemcpyDeviceToHost));
}

/* Compares with the host: the copied arrays whole, the computed one at its first and its last thread. */
static inline void workload_check(struct workload *w)
{
    int right = memcmp(w->back[0], w->source, w->bytes) == 0 && memcmp(w->back[1], w->source, w->bytes) == 0;
    size_t at[2] = { 0, w->threads - 1 };
    for (int i = 0; i < 2; i++)
        right = right && w->back[2][at[i]] == w->launches * (workload_steps(at[i], w->iterations) + w->source[at[i]]);
    if (!right) {
        fprintf(stderr, "the device's results are not those of the host\n");
        exit(1);
    }
    for (int i = 0; i < 3; i++)
        MUST(cudaFree(w->device[i]));
}

/* Waits until nobody holds the file locked for itself: the run scripts hold it until all processes are ready. */
static inline void workload_start_together(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        perror(file);
        exit(2);
    }
    printf("ready\n");
    fflush(stdout);
    if (flock(fd, LOCK_SH) != 0)
        exit(1);
    close(fd);
}

static inline unsigned long workload_number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (!*text || *end) {
        fprintf(stderr, "%s is not a number\n", text);
        exit(2);
    }
    return value;
}

static inline double workload_us(uint64_t since) { return (double)(bench_now() - since) / 1e3; }

#endif
