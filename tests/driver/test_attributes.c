/* shows: The Driver API's rarer functions: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, events of whole contexts, attributes of
 *   core dumps, execution affinity, access policy windows, atomic operations over links, unified functions;
 *   attributes of streams, of kernel nodes, and of kernels on a device without a context */
/* test_attributes.c: libcuda.so.1 of programs, on the software GPU inside this process. */
#include <stdatomic.h>
#include <unistd.h>

#include "tests/lib/unit_cuda.h"
#include <pthread.h>

#define DUMPED "/tmp/a core dump"

static CUcontext primary;

static int set_up(void **state)
{
    (void)state;
    if (setenv("FLYT_SERVER", "local:software", 1) || setenv("FLYT_SOFTGPU_DEVICES", "2", 1) ||
        setenv("CUDA_COREDUMP_PIPE", "/tmp/a pipe", 1))
        return -1;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&primary, 0) || cuCtxSetCurrent(primary) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return cuDevicePrimaryCtxRelease(0) ? -1 : 0;
}

/* ---- work that the test holds back ---- */

struct hold { atomic_bool go, ran; };

static void hold_run(void *user)
{
    struct hold *hold = user;
    while (!atomic_load(&hold->go))
        usleep(1000);
    atomic_store(&hold->ran, true);
}

static void *release_later(void *user)
{
    usleep(50000);
    atomic_store(&((struct hold *)user)->go, true);
    return NULL;
}

static pthread_t release(struct hold *hold)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_later, hold), 0);
    return thread;
}

/* ---- memory whose synchronous operations always wait ---- */

TEST(synchronous_memory)
{
    struct hold hold = { 0 };
    CUdeviceptr a, b;
    unsigned value = 1, got = 7;
    void *host;
    OK(cuMemAlloc(&a, 4096));
    OK(cuMemAlloc(&b, 4096));
    OK(cuMemAllocHost(&host, 4096));
    OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    assert_int_equal(got, 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    const CUdeviceptr others[] = { (CUdeviceptr)&value, (CUdeviceptr)host };
    for (int i = 0; i < 2; i++)
        FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, others[i]));
    /* a copy on the device and a set return at once as a rule */
    OK(cuLaunchHostFunc(NULL, hold_run, &hold));
    OK(cuMemcpyDtoD(a, b, 4096));
    OK(cuMemsetD8(a, 1, 4096));
    assert_false(atomic_load(&hold.ran));
    atomic_store(&hold.go, true);
    OK(cuCtxSynchronize());
    OK(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a + 100));
    OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    assert_int_equal(got, 1);
    OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b));
    assert_int_equal(got, 0);
    for (int i = 0; i < 3; i++) {
        hold = (struct hold){ 0 };
        OK(cuLaunchHostFunc(NULL, hold_run, &hold));
        pthread_t thread = release(&hold);
        OK(i == 0 ? cuMemcpyDtoD(a, b, 4096) : i == 1 ? cuMemcpyDtoD(b, a, 4096) : cuMemsetD8(a, 1, 4096));
        assert_true(atomic_load(&hold.ran));
        pthread_join(thread, NULL);
    }
    value = 0;
    OK(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    hold = (struct hold){ 0 };
    OK(cuLaunchHostFunc(NULL, hold_run, &hold));
    OK(cuMemcpyDtoD(a, b, 4096));
    assert_false(atomic_load(&hold.ran));
    atomic_store(&hold.go, true);
    OK(cuCtxSynchronize());
    OK(cuMemFree(a));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    OK(cuMemFree(b));
    OK(cuMemFreeHost(host));
}

/* ---- events of contexts ---- */

TEST(context_events)
{
    struct hold holds[2] = { { 0 } }, late = { 0 };
    CUstream streams[2], fresh;
    CUevent event, other;
    CUcontext second;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++) {
        OK(cuStreamCreate(&streams[i], i ? CU_STREAM_NON_BLOCKING : 0));
        OK(cuLaunchHostFunc(streams[i], hold_run, &holds[i]));
    }
    OK(cuCtxRecordEvent(primary, event));
    OK(cuLaunchHostFunc(streams[0], hold_run, &late));         /* comes behind it */
    FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    atomic_store(&holds[0].go, true);
    usleep(20000);
    FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    atomic_store(&holds[1].go, true);
    OK(cuEventSynchronize(event));
    assert_true(atomic_load(&holds[0].ran) && atomic_load(&holds[1].ran) && !atomic_load(&late.ran));
    /* all streams of another context wait, also one that is made afterwards */
    OK(cuEventRecord(event, streams[0]));
    OK(cuCtxCreate(&second, NULL, 0, 0));
    CUstream there;
    CUdeviceptr memory;
    OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, 16));
    OK(cuCtxWaitEvent(second, event));
    OK(cuStreamCreate(&fresh, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD8Async(memory, 1, 16, there));
    OK(cuMemsetD8Async(memory, 1, 16, fresh));
    OK(cuMemsetD8Async(memory, 1, 16, NULL));
    usleep(20000);
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(there));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(fresh));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    atomic_store(&late.go, true);
    OK(cuCtxSynchronize());
    /* what is wrong */
    OK(cuEventCreate(&other, 0));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(primary, other));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(second, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuCtxWaitEvent(second, NULL));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxRecordEvent(NULL, other));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxWaitEvent((CUcontext)&other, other));
    OK(cuCtxRecordEvent(second, other));
    OK(cuEventSynchronize(other));
    CUgraph graph;
    OK(cuStreamBeginCapture(there, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxRecordEvent(second, other));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(there, &graph));
    OK(cuCtxDestroy(second));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxRecordEvent(second, event));
    for (int i = 0; i < 2; i++)
        OK(cuStreamDestroy(streams[i]));
    OK(cuEventDestroy(event));
}

/* ---- core dumps ---- */

TEST(core_dumps)
{
    bool flag = true, set = true;
    unsigned flags = 0;
    char text[1024];
    size_t size = 0;
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, NULL, &size));
    assert_int_equal(size, 1024);
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, text, &size));
    assert_int_equal(strncmp(text, "core.cuda.", 10), 0);
    size = sizeof flag;
    OK(cuCoredumpGetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &flag, &size));
    assert_false(flag);
    OK(cuCoredumpGetAttribute(CU_COREDUMP_TRIGGER_HOST, &flag, &size));
    assert_true(flag);
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &set, &size));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_USER_TRIGGER, &set, &size));
    FAILS(CUDA_ERROR_NOT_PERMITTED, cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_USER_TRIGGER, &set, &size));
    set = false;
    OK(cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &set, &size));
    OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &set, &size));
    OK(cuCoredumpGetAttribute(CU_COREDUMP_TRIGGER_HOST, &flag, &size));
    assert_false(flag);
    set = true;
    OK(cuCoredumpSetAttribute(CU_COREDUMP_TRIGGER_HOST, &set, &size));
    OK(cuCoredumpGetAttribute(CU_COREDUMP_TRIGGER_HOST, &flag, &size));
    assert_true(flag);
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &flag, &size));
    assert_false(flag);
    size = sizeof DUMPED;
    OK(cuCoredumpSetAttribute(CU_COREDUMP_FILE, DUMPED, &size));
    size = sizeof text;
    OK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, text, &size));
    assert_string_equal(text, DUMPED);
    OK(cuCoredumpGetAttribute(CU_COREDUMP_PIPE, text, &size));
    assert_string_equal(text, "/tmp/a pipe");                  /* the environment's */
    FAILS(CUDA_ERROR_NOT_PERMITTED, cuCoredumpSetAttribute(CU_COREDUMP_PIPE, text, &size));
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, NULL, &size));
    assert_int_equal(size, sizeof flags);
    flags = 4;
    OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
    flags = 0;
    OK(cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
    assert_int_equal(flags, 4);
    flags = 1u << 20;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
    size = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCoredumpGetAttribute((CUcoredumpSettings)0, text, &size));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCoredumpGetAttribute(CU_COREDUMP_MAX, text, &size));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, text, NULL));
}

/* ---- small questions ---- */

TEST(affinity)
{
    int supported = 7;
    CUexecAffinityParam two = { .type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 2 };
    CUcontext context = NULL;
    OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    assert_int_equal(supported, 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetExecAffinitySupport(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_MAX, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 9));
    FAILS(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxGetExecAffinity(&two, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    CUctxCreateParams parameters = { .execAffinityParams = &two, .numExecAffinityParams = 1 };
    FAILS(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxCreate(&context, &parameters, 0, 0));
    parameters.numExecAffinityParams = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&context, &parameters, 0, 0));
    assert_null(context);
}

/* All SMs of the device are every context's. */
TEST(resources)
{
    int count = 0;
    CUcontext context;
    CUdevResource of;
    OK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    OK(cuCtxGetCurrent(&context));
    memset(&of, 0xFF, sizeof of);
    OK(cuCtxGetDevResource(context, &of, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(of.type, CU_DEV_RESOURCE_TYPE_SM);
    assert_int_equal(of.sm.smCount, count);
    assert_in_range(of.sm.minSmPartitionSize, 1, 8);
    assert_int_equal(of.sm.minSmPartitionSize % of.sm.smCoscheduledAlignment, 0);
    memset(&of, 0xFF, sizeof of);
    OK(cuDeviceGetDevResource(0, &of, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(of.sm.smCount, count);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetDevResource(context, NULL, CU_DEV_RESOURCE_TYPE_SM));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetDevResource(context, &of, CU_DEV_RESOURCE_TYPE_INVALID));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDevResource(9, &of, CU_DEV_RESOURCE_TYPE_SM));
}

/* The software GPU has no cache whose lines could persist. */
TEST(policy_windows)
{
    int most = 7;
    CUdeviceptr memory;
    CUstream stream;
    CUstreamAttrValue value = { 0 }, got;
    OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 0));
    OK(cuMemAlloc(&memory, 4096));
    OK(cuStreamCreate(&stream, 0));
    value.accessPolicyWindow.base_ptr = (void *)memory;
    value.accessPolicyWindow.num_bytes = (size_t)most;
    value.accessPolicyWindow.hitRatio = 0.5f;
    value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    memset(&got, 0xFF, sizeof got);
    OK(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &got));
    assert_ptr_equal(got.accessPolicyWindow.base_ptr, (void *)memory);
    assert_int_equal(got.accessPolicyWindow.hitProp, CU_ACCESS_PROPERTY_PERSISTING);
    value.accessPolicyWindow.num_bytes = (size_t)most + 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    value.accessPolicyWindow.num_bytes = 0;
    value.accessPolicyWindow.hitRatio = 1.5f;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    value.accessPolicyWindow.hitRatio = 1;
    value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_PERSISTING;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    OK(cuCtxResetPersistingL2Cache());
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(memory));
}

TEST(links)
{
    CUatomicOperation operations[] = { CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS,
                                       CU_ATOMIC_OPERATION_FLOAT_MAX }, wrong = CU_ATOMIC_OPERATION_MAX;
    unsigned found[3] = { 7, 7, 7 };
    OK(cuDeviceGetHostAtomicCapabilities(found, operations, 3, 0));
    assert_int_equal(found[0] | found[1] | found[2], 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetHostAtomicCapabilities(found, operations, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetHostAtomicCapabilities(NULL, operations, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetHostAtomicCapabilities(found, NULL, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetHostAtomicCapabilities(found, &wrong, 1, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetHostAtomicCapabilities(found, operations, 1, 9));
    OK(cuDeviceGetP2PAtomicCapabilities(found, operations, 3, 0, 1));
    assert_true(found[0] & CU_ATOMIC_CAPABILITY_SCALAR_64 && found[0] & CU_ATOMIC_CAPABILITY_REDUCTION);
    assert_true(found[1] & CU_ATOMIC_CAPABILITY_SCALAR_32 && !(found[1] & CU_ATOMIC_CAPABILITY_REDUCTION));
    assert_false(found[2] & CU_ATOMIC_CAPABILITY_UNSIGNED);
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAtomicCapabilities(found, operations, 3, 1, 1));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAtomicCapabilities(found, operations, 3, 0, 2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAtomicCapabilities(found, &wrong, 1, 0, 1));
}

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n";

/* What the headers say of streams, of nodes and of both. */
TEST(launch_attributes)
{
    CUlibrary library;
    CUkernel kernel;
    CUstream stream;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec executable;
    CUlaunchAttributeValue value = { { 0 } };
    OK(cuStreamCreate(&stream, 0));
    for (unsigned hint = 0; hint < 3; hint++) {
        value.nvlinkUtilCentricScheduling = hint;
        FAILS(hint < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
              cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, &value));
    }
    memset(&value, 0, sizeof value);
    OK(cuStreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, &value));
    assert_int_equal(value.nvlinkUtilCentricScheduling, 1);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, &value));

    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "nothing"));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)); /* with the stream's hint */
    OK(cuGraphCreate(&graph, 0));
    CUDA_KERNEL_NODE_PARAMS launch = { .kern = kernel, .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
                                       .blockDimY = 1, .blockDimZ = 1 };
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &launch));
    memset(&value, 0, sizeof value);
    value.clusterDim.x = 2, value.clusterDim.y = value.clusterDim.z = 1;
    OK(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
    value.clusterDim.x = 4;
    OK(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, &value));
    memset(&value, 0, sizeof value);
    OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, &value));
    assert_int_equal(value.preferredClusterDim.x, 4);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    OK(cuLibraryUnload(library));
}

TEST(others)
{
    CUlibrary library = NULL;
    void *function;
    CUgreenCtx green = (CUgreenCtx)&library;
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    FAILS(CUDA_ERROR_NOT_FOUND, cuLibraryGetUnifiedFunction(&function, library, "nothing"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLibraryGetUnifiedFunction(NULL, library, "nothing"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLibraryGetUnifiedFunction(&function, library, NULL));
    OK(cuLibraryUnload(library));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetUnifiedFunction(&function, library, "nothing"));
    OK(cuStreamGetGreenCtx(NULL, &green));
    assert_null(green);
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamGetGreenCtx((CUstream)&green, &green));
}

/* With .blocksareclusters a launch's grid counts clusters, so any number of them will do, and a block of one thread
   stands for that of the kernel (foo<<<3>>>). */
TEST(grid_of_clusters)
{
    static const char clusters[] =
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n"
        ".blocksareclusters .reqntid 32 .reqnctapercluster 2\n{ .reg .u64 %p; .reg .u32 %r;\n"
        "ld.param.u64 %p, [p]; atom.global.add.u32 %r, [%p], 1; ret; }\n";
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr count;
    unsigned threads = 0;
    OK(cuModuleLoadData(&module, clusters));
    OK(cuModuleGetFunction(&kernel, module, "k"));
    OK(cuMemAlloc(&count, 4));
    OK(cuMemsetD32(count, 0, 1));
    void *arguments[] = { &count };
    OK(cuLaunchKernel(kernel, 3, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuLaunchKernel(kernel, 5, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(kernel, 1, 1, 1, 16, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(&threads, count, 4));
    assert_int_equal(threads, (3 + 5) * 2 * 32);
    OK(cuMemFree(count));
    OK(cuModuleUnload(module));
}

/* Questions about a kernel need no context of its device. What is set stays. */
TEST(kernels_without_a_context)
{
    static const char empty[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }\n";
    CUlibrary library;
    CUkernel kernel;
    unsigned flags;
    int value = 0, active = 1;
    OK(cuLibraryLoadData(&library, empty, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "k"));
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 1));
    assert_int_equal(value, 1024);
    OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1234, kernel, 1));
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 1));
    assert_int_equal(value, 1234);
    OK(cuLibraryUnload(library));
}

int main(void) { return unit_run(set_up, tear_down); }
