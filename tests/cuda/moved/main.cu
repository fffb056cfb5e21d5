// A program that computes without end, in two threads, and checks each result against one of its own; told on stdin
// what to do besides, one line of answer for each. It moves to other GPUs meanwhile: tests/control/moves.py.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>
#include <cuda_runtime.h>
#include "../passing.h"

enum { COUNT = 1 << 16, THREADS = 2 };

__device__ unsigned launches;                  // of both threads: a variable that moves with its module

__global__ void mix(uint32_t *data, uint32_t round)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < COUNT)
        data[i] = (data[i] ^ round) * 2654435761u + i;
    if (i == 0)
        atomicAdd(&launches, 1);
}

__global__ void spin(unsigned long long ns)
{
    pass(ns, 0);
}

static std::atomic<bool> ending;
static std::atomic<int> error, wrong, rounds[THREADS];

static int failed(cudaError_t code)
{
    if (code && !error)
        error = code;
    return code;
}

static void work(int me)
{
    uint32_t *device = nullptr, *pinned = nullptr;
    std::vector<uint32_t> model(COUNT);
    cudaStream_t stream;
    cudaEvent_t event;
    if (failed(cudaMalloc(&device, COUNT * 4)) || failed(cudaMallocHost(&pinned, COUNT * 4)) ||
        failed(cudaStreamCreate(&stream)) || failed(cudaEventCreate(&event)))
        return;
    for (uint32_t i = 0; i < COUNT; i++)
        pinned[i] = model[i] = i * 7 + (uint32_t)me;
    if (failed(cudaMemcpyAsync(device, pinned, COUNT * 4, cudaMemcpyHostToDevice, stream)))
        return;
    for (uint32_t round = 0; !ending; round++) {
        mix<<<COUNT / 256, 256, 0, stream>>>(device, round);
        if (failed(cudaGetLastError()) ||
            failed(cudaMemcpyAsync(pinned, device, COUNT * 4, cudaMemcpyDeviceToHost, stream)) ||
            failed(cudaEventRecord(event, stream)) || failed(cudaEventSynchronize(event)))
            return;
        for (uint32_t i = 0; i < COUNT; i++)
            model[i] = (model[i] ^ round) * 2654435761u + i;
        if (memcmp(pinned, model.data(), COUNT * 4) != 0)
            wrong++;
        rounds[me]++;
    }
}

int main()
{
    char line[256], word[64];
    setvbuf(stdout, nullptr, _IOLBF, 0);
    int device = -1, sms = 0;
    failed(cudaFree(nullptr));
    failed(cudaGetDevice(&device));
    failed(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(work, i);
    printf("ready %d\n", (int)error);
    while (fgets(line, sizeof line, stdin)) {
        long value = 0;
        if (sscanf(line, "%63s %ld", word, &value) < 1)
            continue;
        if (!strcmp(word, "state")) {
            printf("state %d %d %d\n", (int)error, (int)wrong, rounds[0] < rounds[1] ? (int)rounds[0] : (int)rounds[1]);
        } else if (!strcmp(word, "spin")) {    // a kernel that runs for so many milliseconds
            spin<<<1, 1>>>((unsigned long long)value * 1000000);
            printf("spin %d\n", (int)cudaGetLastError());
        } else if (!strcmp(word, "share")) {   // memory of which another program may have the handle
            void *memory;
            cudaIpcMemHandle_t handle;
            int code = cudaMalloc(&memory, 2 << 20);
            printf("share %d\n", code ? code : (int)cudaIpcGetMemHandle(&handle, memory));
        } else if (!strcmp(word, "take")) {    // so many MiB
            void *memory;
            int code = cudaMalloc(&memory, (size_t)value << 20);
            printf("take %d\n", code ? code : (int)cudaMemset(memory, 1, (size_t)value << 20));
        } else if (!strcmp(word, "end")) {
            break;
        }
    }
    ending = true;
    for (std::thread &thread : threads)
        thread.join();
    unsigned ran = 0;
    failed(cudaMemcpyFromSymbol(&ran, launches, sizeof ran));
    bool counted = error || ran == (unsigned)(rounds[0] + rounds[1]);
    printf("end %d %d %d %d\n", (int)error, (int)wrong, (int)(rounds[0] + rounds[1]), counted);
    return error || wrong || !counted;
}
