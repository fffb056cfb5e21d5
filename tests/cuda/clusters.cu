// shows: launches: clusters of more than one block on a GPU that has none give 801 at the launch, not later; other
//   attributes likewise
#include "check.h"

__global__ void bump(int *p) { atomicAdd(p, 1); }

#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) bump_in_pairs(int *p) { atomicAdd(p, 1); }
#else
__global__ void bump_in_pairs(int *p) { atomicAdd(p, 1); }
#endif

static int *counter;

static int counted()
{
    int count = -1;
    GIVES(cudaSuccess, cudaDeviceSynchronize());
    MUST(cudaMemcpy(&count, counter, sizeof count, cudaMemcpyDeviceToHost));
    return count;
}

static cudaError_t launch(cudaLaunchAttributeID id, const cudaLaunchAttributeValue &value, unsigned blocks = 4)
{
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = id;
    attribute.val = value;
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(1);
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, bump, counter);
}

static cudaLaunchAttributeValue cluster(unsigned x, unsigned y, unsigned z)
{
    cudaLaunchAttributeValue value = {};
    value.clusterDim.x = x;
    value.clusterDim.y = y;
    value.clusterDim.z = z;
    return value;
}

int main()
{
    int clusters = -1, least, greatest;
    MUST(cudaMalloc((void **)&counter, sizeof *counter));
    MUST(cudaMemset(counter, 0, sizeof *counter));
    MUST(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, 0));
    MUST(cudaDeviceGetStreamPriorityRange(&least, &greatest));

    GIVES(cudaSuccess, launch(cudaLaunchAttributeClusterDimension, cluster(1, 1, 1)));
    HOLDS(counted() == 4);
    // 4 blocks are no multiple
    GIVES(cudaErrorInvalidValue, launch(cudaLaunchAttributeClusterDimension, cluster(3, 1, 1)));
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    HOLDS(counted() == 4);
    if (!clusters) {
        GIVES(cudaErrorNotSupported, launch(cudaLaunchAttributeClusterDimension, cluster(2, 1, 1)));
        GIVES(cudaErrorNotSupported, cudaPeekAtLastError());
        GIVES(cudaErrorNotSupported, cudaGetLastError());
        HOLDS(counted() == 4);                // nothing has run, and nothing is told later
        bump_in_pairs<<<4, 1>>>(counter);
        GIVES(cudaErrorNotSupported, cudaGetLastError());
        HOLDS(counted() == 4);
    }

    cudaLaunchAttributeValue priority = {}, nothing = {};
    priority.priority = greatest;
    GIVES(cudaSuccess, launch(cudaLaunchAttributePriority, priority));
    HOLDS(counted() == 8);
    priority.priority = greatest - 1;
    GIVES(cudaErrorInvalidValue, launch(cudaLaunchAttributePriority, priority));
    priority.priority = least + 1;
    GIVES(cudaErrorInvalidValue, launch(cudaLaunchAttributePriority, priority));
    HOLDS(counted() == 8);
    // Flyt has no such events
    GIVES(cudaErrorNotSupported, launch(cudaLaunchAttributeProgrammaticEvent, nothing));
    HOLDS(counted() == 8);
    return check_result("clusters");
}
