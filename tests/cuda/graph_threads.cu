// shows: graphs: threads capture, make, launch and destroy graphs at the same time, and launch one executable together
// shows: graphs: an executable that outlives its device's reset gives an error, and nothing else is harmed
#include <pthread.h>

#include "software.h"

enum { THREADS = 6, ROUNDS = 40, N = 64 };

__global__ void add(int *a, int value) { atomicAdd(a + threadIdx.x, value); }

static cudaGraphExec_t common;
static int *sum;

/* Adds 3 in each launch of a graph of its own: in two streams, joined. */
static void *work(void *)
{
    cudaStream_t stream, other;
    cudaEvent_t event;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < ROUNDS; i++) {
        cudaGraph_t graph;
        cudaGraphExec_t own;
        MUST(cudaGraphLaunch(common, stream));
        MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        add<<<1, N, 0, stream>>>(sum, 1);
        MUST(cudaEventRecord(event, stream));
        MUST(cudaStreamWaitEvent(other, event, 0));
        add<<<1, N, 0, other>>>(sum, 1);
        add<<<1, N, 0, stream>>>(sum, 1);
        MUST(cudaEventRecord(event, other));
        MUST(cudaStreamWaitEvent(stream, event, 0));
        MUST(cudaStreamEndCapture(stream, &graph));
        MUST(cudaGraphInstantiateWithFlags(&own, graph, 0));
        MUST(cudaGraphLaunch(own, stream));
        MUST(cudaGraphLaunch(own, other));
        MUST(cudaGraphExecDestroy(own));      /* while it runs */
        MUST(cudaGraphDestroy(graph));
    }
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaStreamSynchronize(other));
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    return NULL;
}

int main(void)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    int host[N];
    MUST(cudaMalloc((void **)&sum, sizeof host));
    MUST(cudaMemset(sum, 0, sizeof host));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, N, 0, stream>>>(sum, 1000);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiateWithFlags(&common, graph, 0));
    MUST(cudaDeviceSynchronize());
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        HOLDS(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(host, sum, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == THREADS * ROUNDS * 1006 && host[N - 1] == host[0]);

    /* what it allocates goes with the context; then the address may be another's */
    cudaGraph_t allocating;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    cudaMemAllocNodeParams memory = {};
    memory.poolProps.allocType = cudaMemAllocationTypePinned;
    memory.poolProps.location.type = cudaMemLocationTypeDevice;
    memory.bytesize = sizeof host;
    MUST(cudaGraphCreate(&allocating, 0));
    MUST(cudaGraphAddMemAllocNode(&node, allocating, NULL, 0, &memory));
    MUST(cudaGraphInstantiateWithFlags(&executable, allocating, 0));
    MUST(cudaDeviceReset());
    void *others[8];
    for (int i = 0; i < 8; i++)
        MUST(cudaMalloc(&others[i], sizeof host));
    /* natively the executables have gone with the context, and naming them is undefined */
    if (with_flyt()) {
        HOLDS(cudaGraphLaunch(executable, 0) != cudaSuccess);
        MUST(cudaGraphExecDestroy(executable));
    }
    MUST(cudaGraphDestroy(allocating));
    for (int i = 0; i < 8; i++)
        MUST(cudaFree(others[i]));
    if (with_flyt()) {
        HOLDS(cudaGraphLaunch(common, 0) != cudaSuccess);
        cudaGetLastError();
        MUST(cudaGraphExecDestroy(common));
    }
    MUST(cudaGraphDestroy(graph));
    MUST(cudaMalloc((void **)&sum, sizeof host));
    return check_result("graph_threads");
}
