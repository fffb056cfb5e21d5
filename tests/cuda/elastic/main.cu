// A program whose share of a GPU changes while it runs, told on stdin what to do; one line of answer for each. See
// tests/control/elastic.py.
#include <cstdio>
#include <cstring>
#include <chrono>
#include <vector>
#include <cuda_runtime.h>
#include "../passing.h"

enum { BLOCKS = 4096, SHARED = 200 << 10 };    // of shared memory: one block at a time on each multiprocessor

__device__ int running, begun, arrived;
__device__ int beside[BLOCKS];                 // how many ran when the n-th block began

__global__ void work(unsigned long long ns)
{
    int n = atomicAdd(&running, 1) + 1;
    beside[atomicAdd(&begun, 1)] = n;
    pass(ns, 0);
    atomicSub(&running, 1);
}

// All blocks meet so often: they have to be resident together.
__global__ void meet(int rounds, unsigned long long ns)
{
    for (int i = 1; i <= rounds; i++) {
        pass(ns, 0);
        atomicAdd(&arrived, 1);
        while (atomicAdd(&arrived, 0) < i * (int)gridDim.x)
            ;
    }
}

static std::vector<void *> held;

static double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Memory of each kind, so many bytes: what was there before and after.
static void kinds(size_t bytes)
{
    void *pooled = nullptr, *managed = nullptr, *of_graph = nullptr;
    cudaArray_t array;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMemAllocNodeParams params;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = bytes;
    int errors[6];
    errors[0] = cudaMallocAsync(&pooled, bytes, nullptr);
    errors[1] = cudaMallocArray(&array, &format, 1024, bytes / 4096);
    errors[2] = cudaMallocManaged(&managed, bytes);
    errors[3] = cudaGraphCreate(&graph, 0);
    if (!errors[3])
        errors[3] = cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
    of_graph = params.dptr;
    if (!errors[3])
        errors[3] = cudaGraphInstantiate(&exec, graph, 0);
    if (!errors[3])
        errors[3] = cudaGraphLaunch(exec, nullptr);
    if (!errors[3])
        errors[3] = cudaMemsetAsync(of_graph, 1, bytes, nullptr);
    errors[4] = managed ? cudaMemset(managed, 1, bytes) : 0;
    errors[5] = cudaDeviceSynchronize();
    printf("kinds %d %d %d %d %d %d\n", errors[0], errors[1], errors[2], errors[3], errors[4], errors[5]);
}

static void answer(const char *word, size_t a, size_t b)
{
    cudaError_t error = cudaSuccess;
    if (!strcmp(word, "props")) {
        cudaDeviceProp p;
        error = cudaGetDeviceProperties(&p, 0);
        int now = 0;
        cudaDeviceGetAttribute(&now, cudaDevAttrMultiProcessorCount, 0);
        printf("props %d %d %zu %d\n", p.multiProcessorCount, now, p.totalGlobalMem, (int)error);
    } else if (!strcmp(word, "info")) {
        size_t free_bytes = 0, total = 0;
        error = cudaMemGetInfo(&free_bytes, &total);
        printf("info %zu %zu %d\n", free_bytes, total, (int)error);
    } else if (!strcmp(word, "take")) {         // b pieces of a bytes
        size_t count = 0;
        for (void *at; count < b && (error = cudaMalloc(&at, a)) == cudaSuccess; count++) {
            held.push_back(at);
            error = cudaMemset(at, 1, a);
        }
        cudaGetLastError();
        printf("take %zu %d\n", count, (int)error);
    } else if (!strcmp(word, "free")) {         // the last a pieces
        for (; a && !held.empty() && error == cudaSuccess; a--) {
            error = cudaFree(held.back());
            held.pop_back();
        }
        printf("free %zu %d\n", held.size(), (int)error);
    } else if (!strcmp(word, "until")) {        // takes a bytes as soon as there are; milliseconds of the day
        void *at;
        double give_up = now() + 20;
        while ((error = cudaMalloc(&at, a)) != cudaSuccess && now() < give_up)
            cudaGetLastError();
        printf("until %d %.6f\n", (int)error, now());
    } else if (!strcmp(word, "kinds")) {
        kinds(a);
    } else if (!strcmp(word, "heap")) {
        error = cudaDeviceSetLimit(cudaLimitMallocHeapSize, a);
        printf("heap %d\n", (int)error);
    } else if (!strcmp(word, "start")) {        // a blocks of b microseconds
        error = cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
        cudaMemcpyToSymbol(begun, "\0\0\0", 4);
        work<<<(unsigned)a, 1, SHARED>>>(b * 1000ull);
        error = error ? error : cudaGetLastError();
        printf("start %d\n", (int)error);
    } else if (!strcmp(word, "end")) {          // waits, and says how many blocks ran beside each
        static int host[BLOCKS];
        int count = 0;
        error = cudaDeviceSynchronize();
        cudaMemcpyFromSymbol(&count, begun, sizeof count);
        cudaMemcpyFromSymbol(host, beside, sizeof host);
        printf("end %d", (int)error);
        for (int i = 0; i < count; i++)
            printf(" %d", host[i]);
        printf("\n");
    } else if (!strcmp(word, "meet")) {         // as many blocks as there are multiprocessors, a rounds of b us
        int sms = 0, rounds = (int)a;
        unsigned long long ns = b * 1000ull;
        void *arguments[] = { &rounds, &ns };
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
        error = cudaFuncSetAttribute(meet, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
        cudaMemcpyToSymbol(arrived, "\0\0\0", 4);
        if (!error)
            error = cudaLaunchCooperativeKernel((const void *)meet, dim3(sms), dim3(1), arguments, SHARED, 0);
        printf("meet %d %d\n", sms, (int)error);
    } else if (!strcmp(word, "wait")) {
        printf("wait %d\n", (int)cudaDeviceSynchronize());
    } else {
        printf("unknown %s\n", word);
    }
    fflush(stdout);
}

int main()
{
    char line[200], word[100];
    printf("ready %d\n", (int)cudaFree(nullptr));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        size_t a = 0, b = 0;
        if (sscanf(line, "%99s %zu %zu", word, &a, &b) >= 1)
            answer(word, a, b);
    }
    return 0;
}
