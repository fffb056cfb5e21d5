/* shows: Software GPU devices: several devices, attributes, contexts, execution affinity held by SMs, peers, entry
 *   points, forks */
/* test_devices.c: devices, attributes, contexts, error names, entry points, what is not offered, forks. */
#include "softgpu_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(before_init)
{
    int n;
    FAILS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
    FAILS(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
    OK(cuDriverGetVersion(&n));
    assert_int_equal(n, CUDA_VERSION);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    OK(cuInit(0));
    OK(cuInit(0));
}

TEST(devices)
{
    int n, major, minor;
    CUdevice d;
    char name[64], id[32];
    CUuuid a, b;
    size_t total;
    OK(cuDeviceGetCount(&n));
    assert_int_equal(n, 2);
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&d, 2));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&d, -1));
    OK(cuDeviceGet(&d, 1));
    OK(cuDeviceGetName(name, sizeof name, d));
    assert_string_equal(name, "Flyt software GPU");
    OK(cuDeviceGetUuid(&a, 0));
    OK(cuDeviceGetUuid(&b, 1));
    assert_memory_not_equal(&a, &b, sizeof a);
    OK(cuDeviceTotalMem(&total, d));
    assert_int_equal(total, 64 * MIB);       /* FLYT_SOFTGPU_MEMORY */
    OK(cuDeviceGetPCIBusId(id, sizeof id, 1));
    CUdevice found;
    OK(cuDeviceGetByPCIBusId(&found, id));
    assert_int_equal(found, 1);
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&found, "0000:77:00.0"));
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d));
    OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d));
    assert_int_equal(major * 10 + minor, 90);          /* FLYT_SOFTGPU_CC */
    int can;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
}

static int attribute(int which)
{
    int v = -1000;
    OK(cuDeviceGetAttribute(&v, (CUdevice_attribute)which, 0));
    return v;
}

TEST(attributes)
{
    int v;
    for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
        attribute(a);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&v, (CUdevice_attribute)0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MAX, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7));
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 3);       /* FLYT_SOFTGPU_SMS */
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR), 2048);
    assert_true(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
                + attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)
                <= attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
}

static void *destroy_context(void *context) { return (void *)(uintptr_t)cuCtxDestroy(context); }

TEST(contexts)
{
    CUcontext primary, made, c;
    unsigned flags, version;
    int active;
    CUdevice d;
    size_t limit;
    CUdeviceptr p;
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&c));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    assert_ptr_equal(c, primary);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuCtxSetCurrent(primary));
    OK(cuMemAlloc(&p, 4));
    OK(cuCtxGetApiVersion(NULL, &version));
    assert_int_equal(version, 3020);
    OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    assert_int_equal(limit, 1024);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4097));
    OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    assert_true(limit >= 4097);
    OK(cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
    assert_int_equal(limit, 8 * MIB);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&limit, (CUlimit)999));

#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&made, NULL, 0, 1));
#else
    context_new(&made, 1);
#endif
    OK(cuCtxGetCurrent(&c));
    assert_ptr_equal(c, made);
    OK(cuCtxGetDevice(&d));
    assert_int_equal(d, 1);
    OK(cuCtxPushCurrent(primary));
    OK(cuCtxGetDevice(&d));
    assert_int_equal(d, 0);
    OK(cuCtxPopCurrent(&c));
    assert_ptr_equal(c, primary);
    CUdeviceptr q;
    OK(cuMemAlloc(&q, 4));
    OK(cuCtxDestroy(made));
    OK(cuCtxGetCurrent(&c));
    assert_ptr_equal(c, primary);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(made));
    OK(cuCtxPushCurrent(primary));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(made));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(q));     /* went with its context */
    OK(cuCtxPopCurrent(&c));
    pthread_t thread;                                  /* destroyed behind a thread's back */
    void *result;
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&made, NULL, 0, 1));
#else
    context_new(&made, 1);
#endif
    assert_int_equal(pthread_create(&thread, NULL, destroy_context, made), 0);
    pthread_join(thread, &result);
    assert_null(result);
    FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&q, 4));
    OK(cuCtxPopCurrent(&c));
    OK(cuDevicePrimaryCtxRelease(0));
    FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 4));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    OK(cuCtxSetCurrent(NULL));
    OK(cuCtxGetCurrent(&c));
    assert_null(c);
}

/* A context with some of the device's SMs: a kernel finds only them. */
TEST(affinity)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry mark(.param .u64 seen)\n{\n    .reg .b32 %r<3>; .reg .b64 %rd<4>;\n    "
                              "ld.param.u64 %rd1, [seen];\n"
                              "    mov.u32 %r1, %smid;\n    mul.wide.u32 %rd2, %r1, 4;\n    add.u64 %rd3, %rd1, "
                              "%rd2;\n    atom.global.add.u32 %r2, [%rd3], 1;\n    ret;\n}\n";
    for (unsigned sms = 1; sms <= 4; sms++) {
        CUexecAffinityParam param = { .type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = sms }, got;
        CUcontext c;
#if CUDA_VERSION >= 12050
        CUctxCreateParams params = { .execAffinityParams = &param, .numExecAffinityParams = 1 };
        CUresult r = cuCtxCreate_v4(&c, &params, 0, 0);
#else
        CUresult r = cuCtxCreate_v3(&c, &param, 1, 0, 0);
#endif
        assert_int_equal(r, sms <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
        if (r)
            continue;
        OK(cuCtxGetExecAffinity(&got, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
        assert_int_equal(got.param.smCount.val, sms);
        CUmodule m;
        CUfunction f;
        CUdeviceptr seen;
        unsigned count[8], different = 0;
        OK(cuModuleLoadData(&m, ptx));
        OK(cuModuleGetFunction(&f, m, "mark"));
        OK(cuMemAlloc(&seen, sizeof count));
        OK(cuMemsetD8(seen, 0, sizeof count));
        void *arguments[] = { &seen };
        OK(cuLaunchKernel(f, 1000, 1, 1, 1024, 1, 1, 0, NULL, arguments, NULL));
        OK(cuMemcpyDtoH(count, seen, sizeof count));
        for (unsigned i = 0; i < 8; i++)
            different += count[i] != 0;
        assert_int_equal(different, sms);
        OK(cuCtxDestroy(c));
    }
}

/* Memory of one device is the other's only when the program has asked for that. */
TEST(peers)
{
    CUcontext a, b;
    CUdeviceptr p, q;
    unsigned got;
    OK(cuDevicePrimaryCtxRetain(&a, 0));
    OK(cuDevicePrimaryCtxRetain(&b, 1));
    OK(cuCtxSetCurrent(b));
    OK(cuMemAlloc(&q, 4));
    OK(cuCtxSetCurrent(a));
    OK(cuMemAlloc(&p, 4));
    OK(cuMemsetD32(p, 99, 1));
    OK(cuMemcpyPeer(q, b, p, a, 4));
    OK(cuMemcpyDtoH(&got, q, 4));
    assert_int_equal(got, 99);
    FAILS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(b));
    OK(cuCtxEnablePeerAccess(b, 0));
    FAILS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(b, 0));
    OK(cuCtxDisablePeerAccess(b));
    FAILS(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(a, 0));
    FAILS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(a));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(b, 1));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess((CUcontext)(uintptr_t)0x1234, 0));
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuCtxSetCurrent(NULL));
}

static void context_new(CUcontext *c, CUdevice device)
{
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(c, NULL, 0, device));
#else
    OK(cuCtxCreate(c, 0, device));
#endif
}

TEST(errors)
{
    const char *text;
    OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
    assert_string_equal(text, "CUDA_ERROR_INVALID_VALUE");
    OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_string_equal(text, "an illegal memory access was encountered");
    OK(cuGetErrorString(CUDA_ERROR_STREAM_CAPTURE_MERGE, &text));
    assert_non_null(text);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text));
    assert_null(text);
}

TEST(entry_points)
{
#if CUDA_VERSION >= 12000
    void *f = NULL, *g = NULL;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress("cuMemAlloc", &f, 3020, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_ptr_equal(f, dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    OK(cuGetProcAddress("cuMemAlloc", &f, 2000, 0, &status));
    assert_ptr_equal(f, dlsym(RTLD_DEFAULT, "cuMemAlloc"));
    OK(cuGetProcAddress("cuMemcpyHtoD", &f, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
    assert_ptr_equal(f, dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2_ptds"));
    OK(cuGetProcAddress("cuMemAlloc_v2", &f, 12000, 0, &status));
    assert_null(f);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(cuGetProcAddress("cuLibraryLoadData", &f, 11000, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetProcAddress("cuGraphicsUnregisterResource", &g, 12000, 0, NULL));
    assert_non_null(g);
    FAILS(CUDA_ERROR_NOT_SUPPORTED, ((CUresult (*)(void *))g)(NULL));
#endif
    const void *table = &state;
    CUuuid id = { { 1 } };
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGetExportTable(&table, &id));
    assert_null(table);
}

TEST(forked)
{
    pid_t child = fork();
    if (!child) {
        int n;
        _exit(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    int n;
    OK(cuDeviceGetCount(&n));
}

/* The end of either context takes the permission back, and a device keeps it while another of its contexts has it.
   The last test: its fault stays. */
TEST(peers_end)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry touch(.param .u64 p)\n{\n    .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
                              "    ld.param.u64 %rd1, [p];\n    atom.global.add.u32 %r1, [%rd1], 1;\n    ret;\n}\n";
    CUcontext owner, one, two;
    CUmodule m;
    CUfunction f;
    CUdeviceptr p, later;
    unsigned got;
    context_new(&owner, 0);
    OK(cuMemAlloc(&p, 4));
    OK(cuMemsetD32(p, 0, 1));
    OK(cuCtxSynchronize()); /* work of other contexts is not ordered behind it */
    context_new(&two, 1);
    OK(cuCtxEnablePeerAccess(owner, 0));
    context_new(&one, 1);
    OK(cuCtxEnablePeerAccess(owner, 0));
    OK(cuModuleLoadData(&m, ptx));
    OK(cuModuleGetFunction(&f, m, "touch"));
    OK(cuCtxDestroy(two));
    void *arguments[] = { &p };
    OK(cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&got, p, 4));
    assert_int_equal(got, 8);
    OK(cuCtxDestroy(owner));
    context_new(&owner, 0);
    OK(cuMemAlloc(&later, 4));
    OK(cuCtxSetCurrent(one));
    FAILS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(owner));
    OK(cuCtxEnablePeerAccess(owner, 0));
    OK(cuCtxDisablePeerAccess(owner));
    arguments[0] = &later;
    OK(cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, NULL, arguments, NULL));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

int main(void)
{
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    setenv("FLYT_SOFTGPU_SMS", "3", 1);
    setenv("FLYT_SOFTGPU_MEMORY", "64M", 1);
    setenv("FLYT_SOFTGPU_CC", "9.0", 1);
    return unit_run(NULL, NULL);
}
