// A kernel launches a graph that was uploaded once, again and again; another graph was changed after its upload, and
// stays what was uploaded. The program moves meanwhile (tests/core/moved.py).
// shows: moving: kernels launch the graphs that the program uploaded before it moved, as they were then
#include <vector>
#include <unistd.h>

#include "../check.h"

#if CUDART_VERSION < 12000
int main(void) { return check_result("moved_graphs"); } /* the toolkit has no such launches */
#else

enum { ROUNDS = 300, PAUSE_US = 5000 };
static cudaStream_t stream;

__global__ void add(int *to, int value) { atomicAdd(to, value); }
__global__ void launch(cudaGraphExec_t first, cudaGraphExec_t second, int *results)
{
    results[0] |= (int)cudaGraphLaunch(first, cudaStreamGraphFireAndForget);
    results[1] |= (int)cudaGraphLaunch(second, cudaStreamGraphTailLaunch);
}

static cudaGraphExec_t adding(int *to, int value, int later, unsigned long long flags)
{
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    void *arguments[] = { &to, &value };
    cudaKernelNodeParams p = {};
    p.func = (void *)add;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphAddKernelNode(&node, graph, NULL, 0, &p));
    MUST(cudaGraphInstantiate(&executable, graph, flags));
    MUST(cudaGraphUpload(executable, stream));
    value = later;
    if (later)
        MUST(cudaGraphExecKernelNodeSetParams(executable, node, &p)); /* and not uploaded */
    MUST(cudaGraphDestroy(graph));
    return executable;
}

int main(void)
{
    int *cells, now[4];
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&cells, sizeof now));
    MUST(cudaMemset(cells, 0, sizeof now));
    int *results = cells + 2;
    cudaGraphExec_t first = adding(cells, 3, 0, cudaGraphInstantiateFlagDeviceLaunch);
    cudaGraphExec_t second = adding(cells + 1, 5, 7, cudaGraphInstantiateFlagDeviceLaunch);
    cudaGraphExec_t ended = adding(cells, 1000, 0, cudaGraphInstantiateFlagDeviceLaunch);
    MUST(cudaGraphExecDestroy(ended));
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t from;
    void *arguments[] = { &first, &second, &results };
    cudaKernelNodeParams p = {};
    p.func = (void *)launch;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphAddKernelNode(&node, graph, NULL, 0, &p));
    MUST(cudaGraphInstantiate(&from, graph, 0));
    for (int round = 1; round <= ROUNDS; round++) {
        MUST(cudaGraphLaunch(from, stream));
        MUST(cudaMemcpyAsync(now, cells, sizeof now, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        HOLDS(now[0] == 3 * round && now[1] == 5 * round && now[2] == 0 && now[3] == 0);
        usleep(PAUSE_US);
    }
    MUST(cudaGraphUpload(second, stream));
    MUST(cudaGraphLaunch(from, stream));
    MUST(cudaMemcpyAsync(now, cells, sizeof now, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(now[1] == 5 * ROUNDS + 7);
    MUST(cudaGraphExecDestroy(first));
    MUST(cudaGraphExecDestroy(second));
    MUST(cudaGraphExecDestroy(from));
    return check_result("moved_graphs");
}
#endif
