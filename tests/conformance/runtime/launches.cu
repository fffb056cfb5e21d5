// shows: conformance: launches: each attribute of cudaLaunchKernelExC, cooperative kernels, clusters, attributes of
//   functions, arguments, threads, line by line with NVIDIA's runtime
#include "../gate.h"

#include <cooperative_groups.h>

struct many {
    char bytes[4000];
};

__global__ void one(int *out, int value)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *out = value;
}
__global__ void none() {}
__global__ void takes_many(int *out, many m) { *out = m.bytes[0] + m.bytes[3999]; }
__global__ void together(int *out)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    atomicAdd(out, 1);
    grid.sync();
    if (grid.thread_rank() == 0)
        out[1] = out[0];
}
__global__ void __launch_bounds__(128, 2) bounded(int *out) { *out = threadIdx.x; }
__global__ void dynamic(int *out)
{
    extern __shared__ int room[];
    room[threadIdx.x] = threadIdx.x;
    *out = room[0];
}
static int not_a_kernel;

static cudaStream_t stream, other;
static int *out;

static cudaLaunchConfig_t config_of(unsigned blocks, unsigned threads, cudaLaunchAttribute *list, unsigned count)
{
    cudaLaunchConfig_t c = {};
    c.gridDim = blocks;
    c.blockDim = threads;
    c.stream = stream;
    c.attrs = list;
    c.numAttrs = count;
    return c;
}

static cudaError_t launched(cudaLaunchAttribute *list, unsigned count, unsigned blocks = 8)
{
    int value = 3;
    void *arguments[] = { &out, &value };
    cudaLaunchConfig_t c = config_of(blocks, 32, list, count);
    cudaError_t r = cudaLaunchKernelExC(&c, (const void *)one, arguments);
    cudaError_t last = cudaGetLastError();
    cudaError_t then = cudaStreamSynchronize(stream);
    printf("[last %s, then %s] ", cudaGetErrorName(last), cudaGetErrorName(then));
    return r;
}

static void one_by_one()
{
    cudaLaunchAttribute a;
    for (int id = -1; id <= 20; id++) {
        if (id == cudaLaunchAttributeAccessPolicyWindow)
            continue;
        memset(&a, 0, sizeof a);
        a.id = (cudaLaunchAttributeID)id;
        printf("attribute %d, all zero: ", id);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    memset(&a, 0, sizeof a);
    a.id = cudaLaunchAttributeCooperative;
    for (int v = -1; v <= 2; v++) {
        a.val.cooperative = v;
        printf("cooperative %d: ", v);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    a.id = cudaLaunchAttributeSynchronizationPolicy;
    for (int v = 0; v <= 5; v++) {
        a.val.syncPolicy = (cudaSynchronizationPolicy)v;
        printf("policy %d: ", v);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    a.id = cudaLaunchAttributePriority;
    for (int v = -9; v <= 9; v += 3) {
        a.val.priority = v;
        printf("priority %d: ", v);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    for (int v = 0; v <= 2; v++) {
        a.val.programmaticStreamSerializationAllowed = v;
        printf("programmatic serialization %d: ", v);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    a.id = cudaLaunchAttributeMemSyncDomain;
    for (int v = 0; v <= 2; v++) {
        a.val.memSyncDomain = (cudaLaunchMemSyncDomain)v;
        printf("memory domain %d: ", v);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    a.id = cudaLaunchAttributeMemSyncDomainMap;
    for (unsigned char v = 0; v <= 5; v++) {
        memset(&a.val, 0, sizeof a.val);
        a.val.memSyncDomainMap.default_ = v;
        a.val.memSyncDomainMap.remote = (unsigned char)(5 - v);
        printf("memory domains %d %d: ", v, 5 - v);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    memset(&a.val, 0, sizeof a.val);
#if RUNTIME >= 13
    a.id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    for (int v = -2; v <= 101; v += v == 0 ? 100 : 1) {
        a.val.sharedMemCarveout = (unsigned)v;
        printf("carveout %d: ", v);
        printf("%s\n", cudaGetErrorName(launched(&a, 1)));
    }
    memset(&a.val, 0, sizeof a.val);
#endif
    /* Events of a launch. */
    cudaEvent_t timed, plain;
    MUST(cudaEventCreate(&timed));
    MUST(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    cudaEvent_t events[] = { plain, timed, NULL, WRONG(cudaEvent_t) };
    const char *names[] = { "an event without times", "an event with times", "null", "no event" };
    for (int i = 0; i < 4 - suite_native(); i++)
        for (int flags = 0; flags <= 2; flags++) {
            memset(&a.val, 0, sizeof a.val);
            a.id = cudaLaunchAttributeProgrammaticEvent;
            a.val.programmaticEvent.event = events[i];
            a.val.programmaticEvent.flags = flags;
            printf("programmatic event: %s, flags %d: ", names[i], flags);
            printf("%s\n", cudaGetErrorName(launched(&a, 1)));
            memset(&a.val, 0, sizeof a.val);
            a.id = cudaLaunchAttributeLaunchCompletionEvent;
            a.val.launchCompletionEvent.event = events[i];
            a.val.launchCompletionEvent.flags = flags;
            printf("launch completion event: %s, flags %d: ", names[i], flags);
            printf("%s\n", cudaGetErrorName(launched(&a, 1)));
        }
    SAYS(cudaEventQuery(plain), "it");
    MUST(cudaEventDestroy(timed));
    MUST(cudaEventDestroy(plain));
}

static void clusters()
{
    cudaLaunchAttribute a[2];
    memset(a, 0, sizeof a);
    a[0].id = cudaLaunchAttributeClusterDimension;
    static const unsigned sizes[][3] = { { 1, 1, 1 }, { 2, 1, 1 }, { 3, 1, 1 }, { 8, 1, 1 }, { 9, 1, 1 },
                                         { 16, 1, 1 }, { 2, 2, 1 }, { 0, 1, 1 }, { 2, 0, 0 }, { 1, 1, 2 } };
    for (auto size : sizes) {
        a[0].val.clusterDim.x = size[0];
        a[0].val.clusterDim.y = size[1];
        a[0].val.clusterDim.z = size[2];
        printf("clusters of %u %u %u: ", size[0], size[1], size[2]);
        printf("%s\n", cudaGetErrorName(launched(a, 1)));
        cudaLaunchConfig_t c = config_of(8, 32, a, 1);
        int n = -1;
        cudaError_t r = cudaOccupancyMaxActiveClusters(&n, (const void *)one, &c);
        printf("  active %s %d", cudaGetErrorName(r), r ? 0 : n > 0);
        n = -1;
        r = cudaOccupancyMaxPotentialClusterSize(&n, (const void *)one, &c);
        printf(", potential %s %d\n", cudaGetErrorName(r), r ? 0 : n);
        cudaGetLastError();
    }
    a[0].val.clusterDim.x = 2;
    a[0].val.clusterDim.y = a[0].val.clusterDim.z = 1;
    printf("clusters of 2, 7 blocks: ");
    printf("%s\n", cudaGetErrorName(launched(a, 1, 7)));
    a[1].id = cudaLaunchAttributeCooperative;
    a[1].val.cooperative = 1;
    printf("clusters, cooperative: ");
    printf("%s\n", cudaGetErrorName(launched(a, 2)));
    memset(&a[1].val, 0, sizeof a[1].val);
    a[1].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
    for (int v = 0; v <= 3; v++) {
        a[1].val.clusterSchedulingPolicyPreference = (cudaClusterSchedulingPolicy)v;
        printf("clusters, policy %d: ", v);
        printf("%s\n", cudaGetErrorName(launched(a, 2)));
    }
#if RUNTIME >= 13
    memset(&a[1].val, 0, sizeof a[1].val);
    a[1].id = cudaLaunchAttributePreferredClusterDimension;
    for (unsigned v = 0; v <= 8; v++) {
        a[1].val.preferredClusterDim.x = v;
        a[1].val.preferredClusterDim.y = a[1].val.preferredClusterDim.z = 1;
        printf("clusters of 2, preferred %u: ", v);
        printf("%s\n", cudaGetErrorName(launched(a, 2)));
    }
    a[1].val.preferredClusterDim.x = 2;
    a[1].val.preferredClusterDim.y = 2;
    printf("clusters of 2, preferred 2 by 2: ");
    printf("%s\n", cudaGetErrorName(launched(a, 2)));
    a[1].val.preferredClusterDim.x = 32;
    a[1].val.preferredClusterDim.y = 1;
    printf("clusters of 2, preferred 32: ");
    printf("%s\n", cudaGetErrorName(launched(a, 2, 32)));
    printf("preferred 32, and no clusters: ");
    printf("%s\n", cudaGetErrorName(launched(&a[1], 1, 8)));
    cudaLaunchConfig_t c = config_of(8, 32, a, 2);
    int n = -1;
    SAYS(cudaOccupancyMaxActiveClusters(&n, (const void *)one, &c), "preferred 32");
    memset(&a[1].val, 0, sizeof a[1].val);
    a[1].id = cudaLaunchAttributeDeviceUpdatableKernelNode;
    SAYS(cudaOccupancyMaxActiveClusters(&n, (const void *)one, &c), "a node that can be updated");
#endif
    a[1] = a[0];
    a[1].val.clusterDim.x = 4;
    printf("clusters of 2 and of 4: ");
    printf("%s\n", cudaGetErrorName(launched(a, 2)));
}

static void functions()
{
    cudaFuncAttributes f;
    for (int id = 0; id <= 16; id++)
        for (int v : { -2, -1, 0, 1, 2, 3, 100, 101, 49152, 65536, 1 << 30 }) {
            if (id >= cudaFuncAttributeClusterDimMustBeSet && (v < -1 || v > 3))
                continue; /* what a driver says of these is not known */
            cudaError_t r = cudaFuncSetAttribute((const void *)dynamic, (cudaFuncAttribute)id, v);
            cudaGetLastError();
            printf("cudaFuncSetAttribute: %d, %d -> %s", id, v, cudaGetErrorName(r));
            r = cudaFuncGetAttributes(&f, (const void *)dynamic);
            printf(", %s %d %d", cudaGetErrorName(r), f.maxDynamicSharedSizeBytes, f.preferredShmemCarveout);
#if RUNTIME >= 12
            printf(" %d %d %d %d %d %d", f.clusterDimMustBeSet, f.requiredClusterWidth, f.requiredClusterHeight,
                   f.requiredClusterDepth, f.clusterSchedulingPolicyPreference, f.nonPortableClusterSizeAllowed);
#endif
            printf("\n");
            cudaGetLastError();
        }
    WORKS(cudaFuncGetAttributes(&f, (const void *)bounded), "bounds");
    VALUE("threads", "%d", f.maxThreadsPerBlock);
    VALUE("ptx", "%d", f.ptxVersion);
    VALUE("binary is some", "%d", f.binaryVersion > 0);
    WORKS(cudaFuncGetAttributes(&f, (const void *)takes_many), "much is passed");
    VALUE("registers are some", "%d", f.numRegs > 0);
    for (int c = -1; c <= 4; c++)
        SAYS(cudaFuncSetCacheConfig((const void *)one, (cudaFuncCache)c), "a preference");
    for (int c = -1; c <= 3; c++)
        SAYS(cudaFuncSetSharedMemConfig((const void *)one, (cudaSharedMemConfig)c), "banks");
    SAYS(cudaFuncSetSharedMemConfig((const void *)&not_a_kernel, cudaSharedMemBankSizeDefault), "no kernel");
    SAYS(cudaFuncSetSharedMemConfig(NULL, cudaSharedMemBankSizeDefault), "null kernel");
}

static void arguments()
{
    static many m;
    int got = 0, value = 4;
    m.bytes[0] = 40;
    m.bytes[3999] = 2;
    void *list[] = { &out, &m };
    takes_many<<<1, 1, 0, stream>>>(out, m);
    WORKS(cudaGetLastError(), "4000 bytes");
    m.bytes[0] = 0; /* taken at the launch */
    WORKS(cudaMemcpyAsync(&got, out, 4, cudaMemcpyDeviceToHost, stream), "the result");
    WORKS(cudaStreamSynchronize(stream), "the result");
    VALUE("value", "%d", got);
    WORKS(cudaLaunchKernel((const void *)takes_many, 1, 1, list, 0, stream), "4000 bytes");
    cudaLaunchConfig_t c = config_of(1, 1, NULL, 0);
    SAYS(cudaLaunchKernelExC(&c, (const void *)&not_a_kernel, list), "no kernel");
    SAYS(cudaLaunchKernelExC(&c, NULL, list), "null kernel");
    c.stream = WRONG(cudaStream_t);
    SAYS(cudaLaunchKernelExC(&c, (const void *)takes_many, list), "no stream");
    c = config_of(1, 1, NULL, 0);
    c.dynamicSmemBytes = 1 << 20;
    SAYS(cudaLaunchKernelExC(&c, (const void *)takes_many, list), "1 MiB of shared memory");
    c = config_of(1, 2048, NULL, 0);
    SAYS(cudaLaunchKernelExC(&c, (const void *)takes_many, list), "2048 threads");
    void *two[] = { &out, &value };
    cudaStream_t ended;
    MUST(cudaStreamCreate(&ended));
    MUST(cudaStreamDestroy(ended));
    SAYS(cudaLaunchKernel((const void *)one, 1, 1, two, 0, ended), "a stream that has ended");
    SAYS(cudaLaunchCooperativeKernel((const void *)one, 1, 1, two, 0, ended), "a stream that has ended");
    SAYS(cudaLaunchCooperativeKernel((const void *)one, 1, 2048, two, 0, stream), "2048 threads");
    SAYS(cudaLaunchCooperativeKernel(NULL, 1, 1, two, 0, stream), "null kernel");
    WORKS(cudaStreamSynchronize(stream), "what was right");
}

static void cooperative()
{
    int got[2], device_blocks = 0, multiprocessors = 0;
    void *list[] = { &out };
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&device_blocks, (const void *)together, 64, 0));
    MUST(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    unsigned most = (unsigned)(device_blocks * multiprocessors);
    MUST(cudaMemset(out, 0, 8));
    WORKS(cudaLaunchCooperativeKernel((const void *)together, 8, 64, list, 0, stream), "8 blocks");
    WORKS(cudaStreamSynchronize(stream), "8 blocks");
    WORKS(cudaMemcpy(got, out, 8, cudaMemcpyDeviceToHost), "the result");
    VALUE("arrived", "%d", got[1]);
    GIVES(cudaErrorCooperativeLaunchTooLarge,
          cudaLaunchCooperativeKernel((const void *)together, most + 1, 64, list, 0, stream), "one block too many");
    WORKS(cudaStreamSynchronize(stream), "none of it ran");
    void (*plain)(int *) = together;
    cudaLaunchAttribute a;
    memset(&a, 0, sizeof a);
    a.id = cudaLaunchAttributeCooperative;
    a.val.cooperative = 1;
    cudaLaunchConfig_t c = config_of(most + 1, 64, &a, 1);
    GIVES(cudaErrorCooperativeLaunchTooLarge, cudaLaunchKernelExC(&c, (const void *)plain, list), "one block too many");
}

/* ---- threads ---- */

static void *launcher(void *of)
{
    int *sum = (int *)of, value;
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    for (int i = 1; i <= 200; i++)
        one<<<1, 1, 0, s>>>(sum, i);
    one<<<1, 2048, 0, s>>>(sum, 0); /* an error of this thread */
    if (cudaGetLastError() == cudaSuccess)
        printf("2048 threads were launched\n");
    MUST(cudaStreamSynchronize(s));
    MUST(cudaMemcpy(&value, sum, 4, cudaMemcpyDeviceToHost));
    MUST(cudaStreamDestroy(s));
    return (void *)(uintptr_t)(value == 200);
}
static void threads()
{
    pthread_t thread[3];
    int right = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, launcher, out + 4 + i);
    for (auto t : thread) {
        void *result;
        pthread_join(t, &result);
        right += result != NULL;
    }
    VALUE("threads whose launches came in order", "%d", right);
    WORKS(cudaPeekAtLastError(), "errors belong to threads");
}

static void waits()
{
    struct gate *g = gate_new();
    int value = 1;
    void *list[] = { &out, &value }, *single[] = { &out };
    cudaLaunchConfig_t c = config_of(1, 1, NULL, 0);
    WAITS_FOR_KERNEL(false, g, stream, , cudaLaunchKernel((const void *)one, 1, 1, list, 0, stream), "its stream");
    WAITS_FOR_KERNEL(false, g, stream, , cudaLaunchKernel((const void *)one, 1, 1, list, 0, 0), "legacy");
    WAITS_FOR_KERNEL(false, g, stream, , cudaLaunchKernelExC(&c, (const void *)one, list), "its stream");
    WAITS_FOR_KERNEL(false, g, stream, , cudaLaunchCooperativeKernel((const void *)together, 2, 2, single, 0, stream),
                     "its stream");
    int blocks;
    cudaFuncAttributes f;
    WAITS_FOR_KERNEL(false, g, stream, ,
                     cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, 32, 0), "any");
    WAITS_FOR_KERNEL(false, g, stream, , cudaFuncGetAttributes(&f, (const void *)bounded), "any");
    WAITS_FOR_KERNEL(false, g, stream, ,
                     cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000),
                     "any");
}

int main()
{
    MUST(cudaMalloc((void **)&out, 4096));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    one_by_one();
#if RUNTIME >= 12
    clusters();
#endif
    functions();
    arguments();
    cooperative();
    threads();
    waits();
    return 0;
}
