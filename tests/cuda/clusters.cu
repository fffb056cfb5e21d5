// shows: launches: clusters of several blocks: they reach each other's shared memory, wait for each other, and are
//   refused with CUDA's codes; on a GPU that has none they give 801 at the launch, not later; other attributes
#include "check.h"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void bump(int *p) { atomicAdd(p, 1); }

#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) bump_in_pairs(int *p) { atomicAdd(p, 1); }
#else
__global__ void bump_in_pairs(int *p) { atomicAdd(p, 1); }
#endif

// A histogram whose bins are spread over the shared memory of the cluster's blocks, as in the programming guide.
__global__ void histogram(int *bins, int bin_count, int bins_per_block, const int *input, int count)
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    extern __shared__ int mine[];
    cg::cluster_group cluster = cg::this_cluster();
    int first = cluster.block_rank() * bins_per_block;
    for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x)
        mine[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
        int bin = input[i] % bin_count;
        int *theirs = cluster.map_shared_rank(mine, bin / bins_per_block);
        if (cluster.query_shared_rank(theirs) == bin / bins_per_block)
            atomicAdd(theirs + bin % bins_per_block, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < bins_per_block && first + i < bin_count; i += blockDim.x)
        atomicAdd(&bins[first + i], mine[i]);
#endif
}

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

static cudaLaunchConfig_t config_of(unsigned blocks, unsigned threads, size_t shared, cudaLaunchAttribute *attribute,
                                    unsigned size)
{
    cudaLaunchConfig_t config = {};
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = size;
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.attrs = attribute;
    config.numAttrs = 1;
    return config;
}

enum { BINS = 100, VALUES = 20000 };

static void test_histogram(unsigned size)
{
    int *bins, *input, found[BINS], expected[BINS] = {};
    static int values[VALUES];
    for (int i = 0; i < VALUES; i++) {
        values[i] = (int)(i * 2654435761u >> 8);
        expected[values[i] % BINS]++;
    }
    MUST(cudaMalloc((void **)&bins, sizeof found));
    MUST(cudaMalloc((void **)&input, sizeof values));
    MUST(cudaMemset(bins, 0, sizeof found));
    MUST(cudaMemcpy(input, values, sizeof values, cudaMemcpyHostToDevice));
    cudaLaunchAttribute attribute = {};
    int per_block = (BINS + size - 1) / size;
    cudaLaunchConfig_t config = config_of(16, 96, per_block * sizeof(int), &attribute, size);
    int most = 0, active = 0;
    GIVES(cudaSuccess, cudaOccupancyMaxPotentialClusterSize(&most, histogram, &config));
    HOLDS(most == (size > 8 ? 16 : 8));
    GIVES(cudaSuccess, cudaOccupancyMaxActiveClusters(&active, histogram, &config));
    HOLDS(active >= 1);
    GIVES(cudaSuccess, cudaLaunchKernelEx(&config, histogram, bins, BINS, per_block, (const int *)input, VALUES + 0));
    MUST(cudaMemcpy(found, bins, sizeof found, cudaMemcpyDeviceToHost));
    HOLDS(!memcmp(found, expected, sizeof found));
    MUST(cudaFree(bins));
    MUST(cudaFree(input));
}

static void test_clusters()
{
    cudaFuncAttributes attributes;
    cudaLaunchAttribute attribute = {};
    int answer = -1;
    for (unsigned size = 1; size <= 8; size *= 2)
        test_histogram(size);
    cudaLaunchConfig_t config = config_of(32, 32, 0, &attribute, 16);
    GIVES(cudaErrorInvalidClusterSize,
          cudaLaunchKernelEx(&config, histogram, (int *)nullptr, 1, 1, (const int *)nullptr, 0));
    GIVES(cudaErrorInvalidClusterSize, cudaGetLastError());
    GIVES(cudaErrorInvalidClusterSize, cudaOccupancyMaxActiveClusters(&answer, histogram, &config));
    MUST(cudaFuncSetAttribute((const void *)histogram, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    test_histogram(16);
    // of clusters that the device cannot form none is active, which is an answer; it is no launch
    config = config_of(32, 32, 0, &attribute, 32);
    GIVES(cudaSuccess, cudaOccupancyMaxActiveClusters(&answer, histogram, &config));
    HOLDS(answer == 0);
    GIVES(cudaErrorInvalidClusterSize,
          cudaLaunchKernelEx(&config, histogram, (int *)nullptr, 1, 1, (const int *)nullptr, 0));
    GIVES(cudaErrorInvalidClusterSize, cudaGetLastError());
    MUST(cudaFuncSetAttribute((const void *)histogram, cudaFuncAttributeNonPortableClusterSizeAllowed, 0));
    // two blocks of 1024 threads on each multiprocessor are more than it has room for
    int multiprocessors, threads;
    MUST(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    MUST(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
    if (multiprocessors * (threads / 1024) < 8) {
        config = config_of(32, 1024, 0, &attribute, 8);
        GIVES(cudaErrorInvalidClusterSize,
              cudaLaunchKernelEx(&config, histogram, (int *)nullptr, 1, 1, (const int *)nullptr, 0));
    }
    (void)cudaGetLastError();
    config = config_of(32, 32, 0, &attribute, 2);
    GIVES(cudaErrorInvalidValue, cudaOccupancyMaxActiveClusters(nullptr, histogram, &config));
    (void)cudaGetLastError();
    config.numAttrs = 0;                                      // neither the kernel nor the launch names a size
    GIVES(cudaSuccess, cudaOccupancyMaxActiveClusters(&answer, histogram, &config));

    MUST(cudaFuncGetAttributes(&attributes, bump_in_pairs));
    HOLDS(attributes.requiredClusterWidth == 2 && attributes.requiredClusterHeight == 1);
    int before = counted();
    bump_in_pairs<<<4, 1>>>(counter);
    GIVES(cudaSuccess, cudaGetLastError());
    HOLDS(counted() == before + 4);
    bump_in_pairs<<<3, 1>>>(counter);                         // no multiple of the cluster
    GIVES(cudaErrorInvalidClusterSize, cudaGetLastError());
    config = config_of(8, 1, 0, &attribute, 4);               // not the kernel's own size
    GIVES(cudaErrorInvalidClusterSize, cudaLaunchKernelEx(&config, bump_in_pairs, counter));
    (void)cudaGetLastError();
    config.numAttrs = 0;
    GIVES(cudaSuccess, cudaOccupancyMaxActiveClusters(&answer, bump_in_pairs, &config));
    HOLDS(answer >= 2);
    GIVES(cudaErrorInvalidValue, cudaFuncSetAttribute((const void *)bump_in_pairs,
                                                      cudaFuncAttributeRequiredClusterWidth, 4));
    (void)cudaGetLastError();
    MUST(cudaFuncSetAttribute((const void *)bump, cudaFuncAttributeRequiredClusterWidth, 4));
    bump<<<6, 1>>>(counter);
    GIVES(cudaErrorInvalidClusterSize, cudaGetLastError());
    MUST(cudaFuncSetAttribute((const void *)bump, cudaFuncAttributeRequiredClusterWidth, 0));
    HOLDS(counted() == before + 4);
    MUST(cudaMemset(counter, 0, sizeof *counter));
}

// Attribute 11, with clusters of `regular` blocks of 16. Headers before CUDA 12.8 do not name it.
static cudaError_t prefer(unsigned regular, unsigned x, unsigned y, unsigned z)
{
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = (cudaLaunchAttributeID)11;
    attributes[0].val.clusterDim.x = x;
    attributes[0].val.clusterDim.y = y;
    attributes[0].val.clusterDim.z = z;
    cudaLaunchConfig_t config = config_of(16, 1, 0, &attributes[1], regular);
    config.attrs = attributes;
    config.numAttrs = regular ? 2 : 1;
    cudaError_t result = cudaLaunchKernelEx(&config, bump, counter);
    cudaGetLastError();
    return result;
}

static void test_preferred_clusters()
{
    MUST(cudaMemset(counter, 0, sizeof *counter));
    GIVES(cudaSuccess, prefer(2, 4, 1, 1));
    GIVES(cudaSuccess, prefer(2, 16, 1, 1));
    HOLDS(counted() == 32);
    GIVES(cudaErrorInvalidClusterSize, prefer(0, 4, 1, 1)); // preferred to nothing
    GIVES(cudaErrorInvalidClusterSize, prefer(0, 3, 0, 7));
    GIVES(cudaErrorInvalidClusterSize, prefer(2, 0, 1, 1));
    GIVES(cudaErrorInvalidClusterSize, prefer(4, 2, 1, 1)); // smaller than the regular ones
    GIVES(cudaErrorInvalidClusterSize, prefer(2, 6, 1, 1)); // 16 blocks are no multiple
    GIVES(cudaErrorInvalidClusterSize, prefer(2, 2, 2, 1));
    GIVES(cudaErrorInvalidClusterSize, prefer(2, 2, 1, 2));
    HOLDS(counted() == 32);
}

// Attribute 13, of nodes whose parameters kernels change: nothing but nodes may have it. Flyt supports no such node.
static void test_updatable_nodes()
{
    struct { int updatable; void *node; } wish = { 0, NULL };
    cudaLaunchAttributeValue value = {};
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t node;
    size_t nodes = 1;
    int *arguments[] = { counter };
    void *pointers[] = { &arguments[0] };
    MUST(cudaMemset(counter, 0, sizeof *counter));
    GIVES(cudaErrorNotSupported, launch((cudaLaunchAttributeID)13, value));
    GIVES(cudaErrorNotSupported, cudaGetLastError());
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cudaLaunchAttribute attribute = {};
    attribute.id = (cudaLaunchAttributeID)13;
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = 1;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    GIVES(cudaSuccess, cudaLaunchKernelExC(&config, (const void *)bump, pointers));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphGetNodes(graph, &node, &nodes));
    HOLDS(nodes == 1);
    GIVES(cudaSuccess, cudaGraphKernelNodeSetAttribute(node, (cudaLaunchAttributeID)13, &value));
    wish.updatable = 2;
    memcpy(&value, &wish, sizeof wish);
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetAttribute(node, (cudaLaunchAttributeID)13, &value));
    MUST(cudaGraphKernelNodeGetAttribute(node, (cudaLaunchAttributeID)13, &value));
    memcpy(&wish, &value, sizeof wish);
    HOLDS(wish.updatable == 0 && wish.node == NULL);
    wish.updatable = 1;
    memcpy(&value, &wish, sizeof wish);
    cudaError_t possible = cudaGraphKernelNodeSetAttribute(node, (cudaLaunchAttributeID)13, &value);
    HOLDS(possible == cudaSuccess || possible == cudaErrorNotSupported);
    cudaGetLastError();
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, stream));
    HOLDS(counted() == 1);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(stream));
}

static cudaLaunchAttributeValue cluster(unsigned x, unsigned y, unsigned z)
{
    cudaLaunchAttributeValue value = {};
    value.clusterDim.x = x;
    value.clusterDim.y = y;
    value.clusterDim.z = z;
    return value;
}

// An event of a launch must not keep times, and must be of this process alone.
static void test_events()
{
    const unsigned flags[] = { cudaEventDefault, cudaEventDisableTiming | cudaEventInterprocess,
                               cudaEventDisableTiming };
    for (unsigned flag : flags) {
        cudaEvent_t event;
        cudaLaunchAttributeValue programmatic = {}, begun = {};
        cudaError_t expected = flag == cudaEventDisableTiming ? cudaSuccess : cudaErrorNotSupported;
        if (cudaEventCreateWithFlags(&event, flag) != cudaSuccess) {  // no events of several processes there
            HOLDS(flag & cudaEventInterprocess);
            cudaGetLastError();
            continue;
        }
        programmatic.programmaticEvent.event = begun.launchCompletionEvent.event = event;
        for (int record = cudaEventRecordExternal; record < 4; record++) { // only 0 is allowed; 1 is of captures
            cudaError_t refused = record == cudaEventRecordExternal ? cudaErrorIllegalState : cudaErrorInvalidValue;
            programmatic.programmaticEvent.flags = begun.launchCompletionEvent.flags = record;
            GIVES(refused, launch(cudaLaunchAttributeProgrammaticEvent, programmatic));
            GIVES(refused, launch(cudaLaunchAttributeLaunchCompletionEvent, begun));
        }
        programmatic.programmaticEvent.flags = begun.launchCompletionEvent.flags = 0;
        GIVES(expected, launch(cudaLaunchAttributeProgrammaticEvent, programmatic));
        GIVES(expected, launch(cudaLaunchAttributeLaunchCompletionEvent, begun));
        cudaGetLastError();
        MUST(cudaEventSynchronize(event));
        MUST(cudaEventDestroy(event));
    }
    HOLDS(counted() == 32);
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
    GIVES(cudaErrorInvalidClusterSize, launch(cudaLaunchAttributeClusterDimension, cluster(3, 1, 1)));
    GIVES(cudaErrorInvalidClusterSize, cudaGetLastError());
    HOLDS(counted() == 4);
    if (clusters) {
        GIVES(cudaSuccess, launch(cudaLaunchAttributeClusterDimension, cluster(2, 1, 1)));
        HOLDS(counted() == 8);
        test_clusters();
        test_preferred_clusters();
        MUST(cudaMemset(counter, 0, sizeof *counter));
        GIVES(cudaSuccess, launch(cudaLaunchAttributeClusterDimension, cluster(4, 1, 1)));
        HOLDS(counted() == 4);
    } else {
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
    priority.priority = greatest - 1;                                 // beyond the range: the nearest counts
    GIVES(cudaSuccess, launch(cudaLaunchAttributePriority, priority));
    priority.priority = least + 1;
    GIVES(cudaSuccess, launch(cudaLaunchAttributePriority, priority));
    HOLDS(counted() == 16);
    cudaLaunchAttributeValue hint = {}; // about NVLink; headers before CUDA 13 do not name it
    for (unsigned char value = 0; value < 3; value++) {
        memcpy(&hint, &value, sizeof value);
        GIVES(value < 2 ? cudaSuccess : cudaErrorInvalidValue, launch((cudaLaunchAttributeID)16, hint));
    }
    HOLDS(counted() == 24);
    hint = {};
    hint.priority = 1 << 8; // the hint has four bytes
    GIVES(cudaErrorInvalidValue, launch((cudaLaunchAttributeID)16, hint));
    GIVES(cudaErrorInvalidResourceHandle, launch(cudaLaunchAttributeProgrammaticEvent, nothing)); // no event
    test_events();
    // A launch has no policy of synchronisation, which streams have, and CUDA defines no attribute 15.
    GIVES(cudaErrorInvalidValue, launch(cudaLaunchAttributeSynchronizationPolicy, nothing));
    GIVES(cudaErrorInvalidValue, launch((cudaLaunchAttributeID)15, nothing));
    HOLDS(counted() == 32);
    test_updatable_nodes();
    return check_result("clusters");
}
