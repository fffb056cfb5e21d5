// fresh.cu: fresh memory. `fresh fill` writes a pattern into every kind of memory, says "filled" and waits for the end
// of its stdin; `fresh look` counts the words of each kind, fresh from CUDA, that are not zero. tests/cuda/fresh.py
// runs the two as different programs; what one left must not be seen by the other.
#include <stdint.h>
#include <unistd.h>

#include "check.h"

#define PATTERN 0x5ec2e7a5u
enum { SHARED = 8192, LOCAL = 256, GRID = 64, BLOCK = 128, SIZES = 6, PINNED = 3 };
static const size_t sizes[SIZES] = { 512, 64 << 10, (1 << 20) + 4096, 2 << 20, 7 << 20, 32 << 20 };

__device__ unsigned counts[3];

__global__ void fill_all(unsigned *out, unsigned value)
{
    __shared__ unsigned shared[SHARED];
    volatile unsigned local[LOCAL], *words = shared;
    for (int i = threadIdx.x; i < SHARED; i += BLOCK)
        words[i] = value;
    for (int i = 0; i < LOCAL; i++)
        local[i] = value ^ (i == LOCAL);
    __syncthreads();
    unsigned a = value, b = value, c = value, d = value;
    asm volatile("xor.b32 %0, %0, 0; xor.b32 %1, %1, 0; xor.b32 %2, %2, 0; xor.b32 %3, %3, 0;"
                 : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    out[blockIdx.x * BLOCK + threadIdx.x] = words[threadIdx.x] & local[threadIdx.x % LOCAL] & a & b & c & d;
}

// none is 0; the compiler does not know, and so does not make registers of local memory.
__global__ void look_all(int none)
{
    __shared__ unsigned shared[SHARED];
    volatile unsigned local[LOCAL], *words = shared;
    unsigned found = 0, registers;
    for (int i = threadIdx.x; i < SHARED; i += BLOCK)
        found += words[i] != 0;
    atomicAdd(&counts[0], found);
    found = 0;
    for (int i = 0; i < LOCAL; i++)
        found += local[i ^ none] != 0;
    atomicAdd(&counts[1], found);
    asm volatile("{ .reg .b32 a, b, c, d; or.b32 a, a, b; or.b32 c, c, d; or.b32 %0, a, c; }" : "=r"(registers));
    atomicAdd(&counts[2], registers == PATTERN || (registers && registers == (PATTERN | registers)));
}

__global__ void set_words(unsigned *words, size_t count, unsigned value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
        words[i] = value;
}

__global__ void count_words(const unsigned *words, size_t count, unsigned *found)
{
    unsigned mine = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
        mine += words[i] != 0;
    if (mine)
        atomicAdd(found, mine);
}

enum kind { DEVICE, MANAGED, POOL };

static cudaError_t allocate(unsigned **words, size_t size, enum kind kind)
{
    switch (kind) {
    case MANAGED: return cudaMallocManaged(words, size);
    case POOL: return cudaMallocAsync(words, size, 0);
    default: return cudaMalloc(words, size);
    }
}

// How many words of fresh memory are not zero; or, filling, writes the pattern. A kind that is not there has none.
static unsigned of_device(bool fill, unsigned *found, enum kind kind)
{
    unsigned count = 0;
    MUST(cudaMemset(found, 0, sizeof *found));
    for (int i = 0; i < SIZES; i++) {
        unsigned *words;
        cudaError_t error = allocate(&words, sizes[i], kind);
        if (kind != DEVICE && error == cudaErrorNotSupported)
            return 0;
        MUST(error);
        if (fill)
            set_words<<<GRID, BLOCK>>>(words, sizes[i] / 4, PATTERN);
        else
            count_words<<<GRID, BLOCK>>>(words, sizes[i] / 4, found);
    }
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(&count, found, sizeof count, cudaMemcpyDeviceToHost));
    return count;
}

static unsigned of_pinned(bool fill)
{
    unsigned count = 0;
    for (int i = 0; i < PINNED; i++) {
        unsigned *words;
        MUST(cudaMallocHost(&words, sizes[i + 1]));
        for (size_t w = 0; w < sizes[i + 1] / 4; w++) {
            count += words[w] != 0;
            words[w] = fill ? PATTERN : words[w];
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    bool fill = argc > 1 && strcmp(argv[1], "fill") == 0;
    unsigned *found, *out, kernels[3], zero[3] = { 0, 0, 0 };
    char byte;
    MUST(cudaMalloc(&found, sizeof *found));
    MUST(cudaMalloc(&out, GRID * BLOCK * sizeof *out));
    MUST(cudaMemcpyToSymbol(counts, zero, sizeof zero));
    unsigned device = of_device(fill, found, DEVICE), managed = of_device(fill, found, MANAGED),
             pool = of_device(fill, found, POOL), pinned = of_pinned(fill);
    if (fill) {
        static unsigned back[GRID * BLOCK];
        fill_all<<<GRID, BLOCK>>>(out, PATTERN);
        MUST(cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost));
        for (int i = 0; i < GRID * BLOCK; i++)
            HOLDS(back[i] == PATTERN);
        printf("filled\n");
        fflush(stdout);
        while (read(0, &byte, 1) > 0)
            ;
        return check_failures != 0;
    }
    look_all<<<GRID, BLOCK>>>(0);
    MUST(cudaMemcpyFromSymbol(kernels, counts, sizeof kernels));
    printf("device %u managed %u pool %u pinned %u shared %u local %u registers %u\n", device, managed, pool, pinned,
           kernels[0], kernels[1], kernels[2]);
    return device || managed || pool || pinned || kernels[0] || kernels[1] || kernels[2];
}
