// worker SECONDS SEED: uses its GPU for so long, or until SIGTERM, each result checked, for chaos.py, which disturbs
// the cluster.
//
// Closes with "passed: N rounds, longest M ms". Exit status: 0 passed, 1 a wrong result, 3 a CUDA error after the first
// success (told with its round), 4 no GPU to begin with.
#include <cuda_runtime.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../lib/now.h"

enum { COUNT = 4096, ROUNDS = 8, PAUSE_MS = 15 };

__global__ void scramble(uint32_t *values, uint32_t key)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t x = values[i] ^ key;
    for (int k = 0; k < ROUNDS; k++)
        x = x * 1664525u + 1013904223u + i;
    values[i] = x;
}

static uint32_t expected(uint32_t value, uint32_t key, uint32_t i)
{
    uint32_t x = value ^ key;
    for (int k = 0; k < ROUNDS; k++)
        x = x * 1664525u + 1013904223u + i;
    return x;
}

static unsigned done_rounds;
static volatile sig_atomic_t asked_to_end;

static void on_term(int number)
{
    (void)number;
    asked_to_end = 1;
}

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    printf("%s: CUDA error %d (%s) in %s after %u rounds\n", done_rounds ? "failed" : "not started", (int)error,
           cudaGetErrorName(error), what, done_rounds);
    fflush(stdout);
    _Exit(done_rounds ? 3 : 4);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1, begun, longest = 0;
    uint32_t seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    static uint32_t in[COUNT], out[COUNT];
    uint32_t *kept = NULL, *device;
    signal(SIGTERM, on_term);
    must(cudaMalloc((void **)&kept, sizeof in), "cudaMalloc");
    for (uint32_t i = 0; i < COUNT; i++)
        in[i] = seed * 2654435761u + i;
    must(cudaMemcpy(kept, in, sizeof in, cudaMemcpyHostToDevice), "cudaMemcpy");
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    begun = now_s();
    while (!asked_to_end && now_s() - begun < seconds) {
        double start = now_s();
        uint32_t key = seed + done_rounds;
        must(cudaMalloc((void **)&device, sizeof in), "cudaMalloc");
        must(cudaMemcpy(device, kept, sizeof in, cudaMemcpyDeviceToDevice), "cudaMemcpy");
        scramble<<<COUNT / 128, 128>>>(device, key);
        must(cudaGetLastError(), "launch");
        must(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost), "cudaMemcpy");
        must(cudaFree(device), "cudaFree");
        for (uint32_t i = 0; i < COUNT; i++)
            if (out[i] != expected(in[i], key, i)) {
                printf("wrong: element %u of round %u is %u, not %u\n", i, done_rounds, out[i],
                       expected(in[i], key, i));
                return 1;
            }
        done_rounds++;
        double took = now_s() - start;
        if (took > longest)
            longest = took;
        struct timespec pause = { 0, PAUSE_MS * 1000000 };
        nanosleep(&pause, NULL);
    }
    must(cudaFree(kept), "cudaFree");
    printf("passed: %u rounds, longest %.0f ms\n", done_rounds, longest * 1000);
    return 0;
}
