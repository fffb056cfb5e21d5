// shows: first steps: threads with the smallest stack (16 KiB) make all kinds of CUDA calls, the first one too
#include "../cuda/check.h"

#include <pthread.h>

// What PTHREAD_STACK_MIN was before it depended on the processor. The C library takes over 4 KiB of it.
enum { SMALL = 16384, COUNT = 32 };

__global__ void add(int *p, int n)
{
    if (threadIdx.x < COUNT)
        p[threadIdx.x] += n;
}

// More parameters than the client keeps on a stack.
struct large { int at[300]; };
__global__ void add_large(int *p, large numbers)
{
    p[threadIdx.x] += numbers.at[threadIdx.x];
}

__device__ int variable;
static int *memory, *pinned, host[COUNT], large_host[1 << 18];
static large numbers;
static cudaStream_t stream;
static cudaEvent_t event;
static cudaGraphExec_t executable;

static void first() { MUST(cudaFree(0)); }
static void allocate() { MUST(cudaMalloc(&memory, sizeof large_host)); }
static void copies()
{
    MUST(cudaMemcpy(memory, large_host, sizeof large_host, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(large_host, memory, sizeof large_host, cudaMemcpyDeviceToHost));
    MUST(cudaMemset(memory, 0, sizeof large_host));
}
static void launch()
{
    add<<<1, COUNT>>>(memory, 5);
    MUST(cudaGetLastError());
}
static void launch_large()
{
    void *arguments[] = {&memory, &numbers};
    MUST(cudaLaunchKernel((void *)add_large, dim3(1), dim3(COUNT), arguments, 0, 0));
}
static void result()
{
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[COUNT - 1] == 5 + COUNT - 1);
}
static void streams()
{
    MUST(cudaStreamCreate(&stream));
    MUST(cudaEventCreate(&event));
    MUST(cudaMallocHost(&pinned, sizeof host));
    MUST(cudaMemcpyAsync(pinned, memory, sizeof host, cudaMemcpyDeviceToHost, stream));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaStreamWaitEvent(0, event, 0));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(pinned[0] == 5);
}
static void symbol()
{
    int value = 3;
    MUST(cudaMemcpyToSymbol(variable, &value, sizeof value));
}
static void capture()
{
    cudaGraph_t graph;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, COUNT, 0, stream>>>(memory, 1);
    MUST(cudaMemcpyAsync(pinned, memory, sizeof host, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
}
static void graph_launch()
{
    MUST(cudaGraphLaunch(executable, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(pinned[0] == 6);
}
static void pool()
{
    void *piece;
    MUST(cudaMallocAsync(&piece, 4096, stream));
    MUST(cudaFreeAsync(piece, stream));
    MUST(cudaStreamSynchronize(stream));
}
static void wrong()
{
    GIVES(cudaErrorInvalidValue, cudaFree((void *)77));
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
}
static void rest()
{
    cudaFuncAttributes attributes;
    MUST(cudaFuncGetAttributes(&attributes, add));
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaEventDestroy(event));
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(memory));
}

static void *run(void *step)
{
    ((void (*)())step)();
    return nullptr;
}

int main()
{
    void (*const steps[])() = {first,   allocate, copies,       launch, launch_large, result, streams, symbol,
                               capture, graph_launch, pool, wrong, rest};
    for (int i = 0; i < COUNT; i++)
        numbers.at[i] = i;
    for (auto step : steps) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        HOLDS(pthread_attr_setstacksize(&attributes, SMALL) == 0);
        HOLDS(pthread_create(&thread, &attributes, run, (void *)step) == 0);
        pthread_join(thread, nullptr);
        pthread_attr_destroy(&attributes);
    }
    return check_result("small_stacks");
}
