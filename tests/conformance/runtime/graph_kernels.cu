// shows: conformance: kernel nodes with attributes: what is refused when it is set, what when the graph is
//   instantiated, and what new parameters leave as it was, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void one(int *out) { atomicAdd(out, 1); }

static int *device;
static cudaStream_t stream;

static cudaKernelNodeParams node_of(unsigned blocks, unsigned threads = 1)
{
    static void *arguments[] = { &device };
    cudaKernelNodeParams p = {};
    p.func = (void *)one;
    p.gridDim = blocks;
    p.blockDim = threads;
    p.kernelParams = arguments;
    return p;
}

static cudaLaunchAttributeValue cluster(unsigned x, unsigned y = 1, unsigned z = 1)
{
    cudaLaunchAttributeValue v = {};
    v.clusterDim.x = x;
    v.clusterDim.y = y;
    v.clusterDim.z = z;
    return v;
}

static void priorities()
{
    cudaGraph_t g;
    cudaGraphNode_t n;
    cudaKernelNodeParams p = node_of(4);
    cudaLaunchAttributeValue v = {};
    int least, greatest;
    MUST(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphAddKernelNode(&n, g, NULL, 0, &p));
    v.priority = greatest;
    WORKS(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributePriority, &v), "the greatest");
    v.priority = greatest - 1;
    WORKS(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributePriority, &v), "beyond it");
    v.priority = least;
    WORKS(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributePriority, &v), "the least");
    v.priority = least + 1;
    WORKS(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributePriority, &v), "below it");
    WORKS(cudaGraphKernelNodeGetAttribute(n, cudaLaunchAttributePriority, &v), "the nearest is kept");
    VALUE("priority", "%d", v.priority);
    MUST(cudaGraphDestroy(g));
}

/* Clusters that the node's grid cannot have. */
static void clusters()
{
    static const unsigned sizes[][3] = { { 2, 1, 1 }, { 4, 1, 1 }, { 3, 1, 1 }, { 1, 2, 1 }, { 16, 1, 1 },
                                         { 32, 1, 1 }, { 0, 1, 1 }, { 0, 0, 0 } };
    for (auto size : sizes) {
        cudaGraph_t g;
        cudaGraphNode_t n;
        cudaGraphExec_t e = NULL;
        cudaKernelNodeParams p = node_of(64);
        if (size[0] == 3)
            p.gridDim = 4;
        cudaLaunchAttributeValue v = cluster(size[0], size[1], size[2]);
        MUST(cudaGraphCreate(&g, 0));
        MUST(cudaGraphAddKernelNode(&n, g, NULL, 0, &p));
        printf("clusters of %u %u %u, %u blocks:\n", size[0], size[1], size[2], p.gridDim.x);
        SAYS(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributeClusterDimension, &v), "clusters");
        SAYS(cudaGraphInstantiate(&e, g, 0), "clusters");
        if (e) {
            WORKS(cudaGraphLaunch(e, stream), "clusters");
            WORKS(cudaStreamSynchronize(stream), "clusters");
            p.gridDim = 7;
            SAYS(cudaGraphExecKernelNodeSetParams(e, n, &p), "7 blocks");
            p.gridDim = 8;
            SAYS(cudaGraphExecKernelNodeSetParams(e, n, &p), "8 blocks");
            WORKS(cudaGraphLaunch(e, stream), "8 blocks");
            MUST(cudaGraphExecDestroy(e));
        }
        MUST(cudaGraphDestroy(g));
        cudaGetLastError();
    }
}

/* The grid and the attribute fit together at every step. */
static void in_steps()
{
    cudaGraph_t g;
    cudaGraphNode_t n;
    cudaGraphExec_t e;
    cudaKernelNodeParams p = node_of(3);
    cudaLaunchAttributeValue v = cluster(2), all = {};
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphAddKernelNode(&n, g, NULL, 0, &p));
    GIVES(cudaErrorInvalidClusterSize, cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributeClusterDimension, &v),
          "3 blocks");
    p.gridDim = 4;
    WORKS(cudaGraphKernelNodeSetParams(n, &p), "4 blocks");
    WORKS(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributeClusterDimension, &v), "4 blocks");
    WORKS(cudaGraphKernelNodeGetAttribute(n, cudaLaunchAttributeClusterDimension, &v), "kept");
    VALUE("clusters", "%u", v.clusterDim.x);
    WORKS(cudaGraphInstantiate(&e, g, 0), "4 blocks in clusters of 2");
    MUST(cudaGraphExecDestroy(e));
    all.cooperative = 1;
    WORKS(cudaGraphKernelNodeSetAttribute(n, cudaLaunchAttributeCooperative, &all), "cooperative");
    p.gridDim = 100000;
    GIVES(cudaErrorCooperativeLaunchTooLarge, cudaGraphKernelNodeSetParams(n, &p), "100000 blocks");
    all.cooperative = 0;
    WORKS(cudaGraphKernelNodeGetAttribute(n, cudaLaunchAttributeCooperative, &all), "kept");
    VALUE("cooperative", "%d", all.cooperative);
    WORKS(cudaGraphInstantiate(&e, g, 0), "as it was");
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

int main()
{
    MUST(cudaMalloc(&device, 4));
    MUST(cudaMemset(device, 0, 4));
    MUST(cudaStreamCreate(&stream));
    priorities();
    clusters();
    in_steps();
    WORKS(cudaDeviceSynchronize(), "all");
    return 0;
}
