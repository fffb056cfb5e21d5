// One program of a tenant, told on stdin what to do with device memory; one line of answer for each. See
// tests/cuda/quota.py.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>
#include <cuda_runtime.h>

int touch_big(void);

struct block { unsigned char *at; size_t size; unsigned char mark; };
static std::vector<block> blocks;

// The first and last byte, and some in between.
__global__ void stamp(unsigned char *at, size_t size, unsigned char mark)
{
    size_t stride = size / 64 + 1;
    for (size_t i = threadIdx.x * stride; i < size; i += blockDim.x * stride)
        at[i] = mark;
    if (threadIdx.x == 0)
        at[size - 1] = mark;
}

__global__ void verify(const unsigned char *at, size_t size, unsigned char mark, int *wrong)
{
    size_t stride = size / 64 + 1;
    for (size_t i = threadIdx.x * stride; i < size; i += blockDim.x * stride)
        if (at[i] != mark)
            atomicAdd(wrong, 1);
    if (threadIdx.x == 0 && at[size - 1] != mark)
        atomicAdd(wrong, 1);
}

__global__ void where(int *seen)
{
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sm < 1024)
        seen[sm] = 1;
}

static int *wrong;

static cudaError_t take(size_t size)
{
    block b = { nullptr, size, (unsigned char)(1 + rand() % 255) };
    cudaError_t error = cudaMalloc((void **)&b.at, size);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return error;
    }
    blocks.push_back(b);
    stamp<<<1, 64>>>(b.at, size, b.mark);
    return cudaGetLastError();
}

// Checks what it still holds, and frees it.
static cudaError_t give(size_t which)
{
    block b = blocks[which];
    blocks[which] = blocks.back();
    blocks.pop_back();
    verify<<<1, 64>>>(b.at, b.size, b.mark, wrong);
    return cudaFree(b.at);
}

static size_t held()
{
    size_t sum = 0;
    for (const block &b : blocks)
        sum += b.size;
    return sum;
}

static int mistakes()
{
    int n = -1;
    cudaError_t error = cudaMemcpy(&n, wrong, sizeof n, cudaMemcpyDeviceToHost);
    return error != cudaSuccess ? -(int)error : n;
}

// Random sizes at the edge for so long. Any error but "out of memory", and any wrong byte, is a failure.
static void torture(double seconds, unsigned seed)
{
    std::mt19937 random(seed);
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    size_t taken = 0, refused = 0, most = 0;
    cudaError_t error = cudaSuccess;
    while (std::chrono::steady_clock::now() < end) {
        size_t size = 1 + random() % ((size_t)1 << (6 + random() % 18));
        if (random() % 3 || blocks.empty()) {
            error = take(size);
            taken += error == cudaSuccess;
            refused += error == cudaErrorMemoryAllocation;
            most = held() > most ? held() : most;
        }
        for (unsigned n = error == cudaErrorMemoryAllocation ? random() % 8 : random() % 4 == 0; n && !blocks.empty();
             n--)
            if ((error = give(random() % blocks.size())) != cudaSuccess)
                break;
        if (error != cudaSuccess && error != cudaErrorMemoryAllocation)
            break;
    }
    while (!blocks.empty() && give(blocks.size() - 1) == cudaSuccess)
        ;
    int bad = mistakes();
    printf("torture %s taken %zu refused %zu most %zu wrong %d error %d\n",
           bad == 0 && (error == cudaSuccess || error == cudaErrorMemoryAllocation) ? "ok" : "FAILED", taken, refused,
           most, bad, (int)error);
}

static void answer(const char *word, size_t a, size_t b)
{
    size_t free_bytes = 0, total = 0, count = 0;
    cudaError_t error = cudaSuccess;
    if (!strcmp(word, "fill")) {
        while (error == cudaSuccess) {
            error = take(a);
            count += error == cudaSuccess;
        }
        cudaError_t last = cudaDeviceSynchronize();
        printf("fill %zu %d %d\n", count, (int)error, (int)last);
    } else if (!strcmp(word, "take")) {
        for (; count < b && error == cudaSuccess; count += error == cudaSuccess)
            error = take(a);
        printf("take %zu %d\n", count, (int)error);
    } else if (!strcmp(word, "free")) {
        while (!blocks.empty() && error == cudaSuccess)
            error = give(blocks.size() - 1);
        printf("free %d wrong %d\n", (int)error, mistakes());
    } else if (!strcmp(word, "thin")) {            // all but every a-th
        std::vector<block> kept;
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % a == 0)
                kept.push_back(blocks[i]);
            else
                error = cudaFree(blocks[i].at);
        blocks = kept;
        printf("thin %zu %d\n", blocks.size(), (int)error);
    } else if (!strcmp(word, "info")) {
        error = cudaMemGetInfo(&free_bytes, &total);
        printf("info %zu %zu %d\n", free_bytes, total, (int)error);
    } else if (!strcmp(word, "props")) {
        cudaDeviceProp p;
        error = cudaGetDeviceProperties(&p, 0);
        printf("props %d %zu %d\n", p.multiProcessorCount, p.totalGlobalMem, (int)error);
    } else if (!strcmp(word, "smid")) {
        int *seen, host[1024];
        error = cudaMalloc((void **)&seen, sizeof host);
        cudaMemset(seen, 0, sizeof host);
        where<<<4096, 64>>>(seen);
        cudaMemcpy(host, seen, sizeof host, cudaMemcpyDeviceToHost);
        cudaFree(seen);
        printf("smid");
        for (int i = 0; i < 1024; i++)
            if (host[i])
                printf(" %d", i);
        printf("\n");
    } else if (!strcmp(word, "stack")) {
        error = cudaDeviceSetLimit(cudaLimitStackSize, a);
        cudaDeviceGetLimit(&count, cudaLimitStackSize);
        cudaGetLastError();
        printf("stack %d %zu\n", (int)error, count);
    } else if (!strcmp(word, "big")) {
        printf("big %d\n", touch_big());
    } else if (!strcmp(word, "reset")) {
        blocks.clear();
        error = cudaDeviceReset();
        cudaError_t again = cudaMalloc((void **)&wrong, sizeof *wrong);
        cudaMemset(wrong, 0, sizeof *wrong);
        printf("reset %d %d\n", (int)error, (int)again);
    } else if (!strcmp(word, "torture")) {
        torture((double)a / 1000, (unsigned)b);
    } else {
        printf("unknown %s\n", word);
    }
    fflush(stdout);
}

int main()
{
    char line[200], word[100];
    cudaError_t error = cudaMalloc((void **)&wrong, sizeof *wrong);
    if (error == cudaSuccess)
        error = cudaMemset(wrong, 0, sizeof *wrong);
    printf("ready %d\n", (int)error);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        size_t a = 0, b = 0;
        if (sscanf(line, "%99s %zu %zu", word, &a, &b) >= 1)
            answer(word, a, b);
    }
    return 0;
}
