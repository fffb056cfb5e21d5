/* shows: Software GPU launches: results, limits with native codes, attributes, cooperative size, occupancy */
/* test_launch.c: launches: results, checks with native's codes, parameters, occupancy. */
#include "softgpu_test.h"
#include "kernels.h"

#include <dlfcn.h>

static CUmodule module, variables;
static CUfunction axpy, bounded, exactly;

static int load(void **state)
{
    setenv("FLYT_SOFTGPU_BRIEF", "10000000", 1);         /* every kernel is short */
    return with_context(state) || cuModuleLoadData(&module, ptx_axpy) || cuModuleGetFunction(&axpy, module, "axpy")
        || cuModuleLoadData(&variables, ptx_variables) || cuModuleGetFunction(&bounded, variables, "bounded")
        || cuModuleGetFunction(&exactly, variables, "exactly") ? -1 : 0;
}

TEST(results)
{
    enum { N = 10000 };
    float *x = malloc(4 * N), *y = malloc(4 * N), a = 3;
    for (unsigned i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = (float)(2 * i);
    }
    CUdeviceptr dx, dy;
    OK(cuMemAlloc(&dx, 4 * N));
    OK(cuMemAlloc(&dy, 4 * N));
    OK(cuMemcpyHtoD(dx, x, 4 * N));
    OK(cuMemcpyHtoD(dy, y, 4 * N));
    unsigned n = N;
    void *params[] = { &dx, &dy, &a, &n };
    OK(cuLaunchKernel(axpy, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(y, dy, 4 * N));
    for (unsigned i = 0; i < N; i++)
        assert_true(y[i] == (float)(5 * i));
    struct { CUdeviceptr x, y; float a; unsigned n; } block = { dx, dy, 1, N };
    size_t size = sizeof block;
    void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END };
    OK(cuLaunchKernel(axpy, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    OK(cuMemcpyDtoH(y, dy, 4 * N));
    for (unsigned i = 0; i < N; i++)
        assert_true(y[i] == (float)(6 * i));
    free(x);
    free(y);
    OK(cuMemFree(dx));
    OK(cuMemFree(dy));
}

TEST(many_in_order)
{
    CUdeviceptr dx, dy;
    CUstream s;
    float a = 1, y;
    unsigned n = 1;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&dx, 4));
    OK(cuMemAlloc(&dy, 4));
    OK(cuMemsetD32Async(dx, 0x3F800000, 1, s));
    OK(cuMemsetD32Async(dy, 0, 1, s));
    void *params[] = { &dx, &dy, &a, &n };
    for (int i = 0; i < 3000; i++)           /* more than a stream takes at once */
        OK(cuLaunchKernel(axpy, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(&y, dy, 4));
    assert_true(y == 3000);
    OK(cuStreamDestroy(s));
    OK(cuMemFree(dx));
    OK(cuMemFree(dy));
}

/* A thread of the software GPU that is still awake may be quicker, now and then. */
TEST(short_kernels_run_in_the_thread_that_launches_them)
{
    enum { TRIES = 10000, LAUNCHES = 3 };
    void (*hold)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "softgpu_hold");
    void (*run)(int here) = (void (*)(int))dlsym(RTLD_DEFAULT, "softgpu_run");
    if (!hold || !run)
        skip();                                          /* behind a server, which holds and runs by itself */
    CUdeviceptr x, y;
    CUstream s;
    float a = 1, sum;
    unsigned n = 1, rounds = 0;
    bool chaos = getenv("FLYT_SOFTGPU_CHAOS"), waited = false;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&x, 4));
    OK(cuMemAlloc(&y, 4));
    OK(cuMemsetD32Async(x, 0x3F800000, 1, s));
    OK(cuMemsetD32Async(y, 0, 1, s));
    void *params[] = { &x, &y, &a, &n };
    for (; !waited && rounds < TRIES; rounds++) {
        hold();
        for (int i = 0; i < LAUNCHES; i++)
            OK(cuLaunchKernel(axpy, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
        const CUresult before = cuStreamQuery(s);
        run(1);
        waited = (before == CUDA_ERROR_NOT_READY && cuStreamQuery(s) == CUDA_SUCCESS) || chaos;
        OK(cuStreamSynchronize(s));
    }
    assert_true(waited);
    OK(cuMemcpyDtoH(&sum, y, 4));
    assert_true(sum == (float)(rounds * LAUNCHES));
    OK(cuStreamDestroy(s));
    OK(cuMemFree(x));
    OK(cuMemFree(y));
}

static CUresult shape(CUfunction f, unsigned gx, unsigned gy, unsigned bx, unsigned by, unsigned bz, unsigned shared)
{
    CUdeviceptr none = 0;
    float a = 0;
    unsigned n = 0;
    void *params[] = { &none, &none, &a, &n };
    return cuLaunchKernel(f, gx, gy, 1, bx, by, bz, shared, NULL, params, NULL);
}

TEST(checks)
{
    OK(shape(axpy, 1, 1, 1024, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 0, 1, 32, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 0, 32, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 65536, 32, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 1, 0, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 1, 2048, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 1, 1, 1, 65, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 1, 512, 3, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 1, 32, 1, 1, 49153));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(axpy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449));
    OK(cuFuncSetAttribute(axpy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    OK(shape(axpy, 1, 1, 32, 1, 1, 232448));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(axpy, 1, 1, 32, 1, 1, 232449));
    OK(shape(bounded, 1, 1, 64, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(bounded, 1, 1, 65, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(bounded, 1, 1, 64, 1, 1, 49152 - 4096 + 1));
    OK(shape(exactly, 1, 1, 32, 2, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, shape(exactly, 1, 1, 64, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_HANDLE, shape(NULL, 1, 1, 64, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_HANDLE, shape((CUfunction)module, 1, 1, 64, 1, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(axpy, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(exactly, 1, 1, 1, 32, 2, 1, 0, (CUstream)0x77, NULL, NULL));
    OK(cuCtxSynchronize());
}

TEST(launch_attributes)
{
    CUlaunchAttribute a = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE };
    a.value.cooperative = 1;
    CUlaunchConfig c = { .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 2, .blockDimZ = 1,
                         .attrs = &a, .numAttrs = 1 };
    OK(cuLaunchKernelEx(&c, exactly, NULL, NULL));
    c.gridDimX = 100000;
    FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchKernelEx(&c, exactly, NULL, NULL));
    FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          cuLaunchCooperativeKernel(exactly, 100000, 1, 1, 32, 2, 1, 0, NULL, NULL));
    c.gridDimX = 3;
    a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a.value.clusterDim.x = 2;
    a.value.clusterDim.y = a.value.clusterDim.z = 1;
    FAILS(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&c, exactly, NULL, NULL)); /* 3 is no multiple of 2 */
    a.id = (CUlaunchAttributeID)77;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&c, exactly, NULL, NULL));
    a.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    a.value.priority = -1;
    OK(cuLaunchKernelEx(&c, exactly, NULL, NULL));
    for (int id = 3; id <= 15; id += id == 3 ? 10 : 2) {     /* of streams, of nodes of graphs, none */
        a = (CUlaunchAttribute){ .id = (CUlaunchAttributeID)id };
        CUresult gives = id == 13 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
        FAILS(gives, cuLaunchKernelEx(&c, exactly, NULL, NULL));
    }
    OK(cuCtxSynchronize());
}

/* Clusters that are preferred to the regular ones, which the device forms all the same. */
TEST(preferred_clusters)
{
    static const struct {
        unsigned regular[3], preferred[3];
        CUresult gives;
    } cases[] = {
        { { 2, 1, 1 }, { 2, 1, 1 }, CUDA_SUCCESS },
        { { 2, 1, 1 }, { 4, 2, 1 }, CUDA_SUCCESS },
        { { 2, 1, 1 }, { 3, 1, 1 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },   /* no multiple */
        { { 2, 2, 1 }, { 2, 1, 1 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },
        { { 2, 1, 1 }, { 6, 1, 1 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },   /* divides no grid of 16 */
        { { 2, 1, 1 }, { 2, 1, 2 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },   /* z is that of the regular ones */
        { { 2, 1, 1 }, { 0, 1, 1 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },
        { { 2, 1, 1 }, { 16, 1, 1 }, CUDA_SUCCESS },
        { { 2, 1, 1 }, { 16, 2, 1 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },
        { { 0, 0, 0 }, { 3, 0, 5 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },   /* no regular ones */
        { { 0, 0, 0 }, { 4, 2, 1 }, CUDA_ERROR_INVALID_CLUSTER_SIZE },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const unsigned *r = cases[k].regular, *p = cases[k].preferred;
        CUlaunchAttribute a[2] = { { .id = (CUlaunchAttributeID)11 }, { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION } };
        a[0].value.clusterDim.x = p[0], a[0].value.clusterDim.y = p[1], a[0].value.clusterDim.z = p[2];
        a[1].value.clusterDim.x = r[0], a[1].value.clusterDim.y = r[1], a[1].value.clusterDim.z = r[2];
        const CUlaunchConfig c = { .gridDimX = 16, .gridDimY = 2, .gridDimZ = 2, .blockDimX = 32, .blockDimY = 2,
                                   .blockDimZ = 1, .attrs = a, .numAttrs = r[0] ? 2 : 1 };
        assert_int_equal(cuLaunchKernelEx(&c, exactly, NULL, NULL), cases[k].gives);
    }
    OK(cuCtxSynchronize());
}

/* A kernel with .maxclusterrank has no larger clusters. */
TEST(largest_cluster)
{
    static const char text[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                               ".visible .entry ranked() .maxclusterrank 2 { ret; }\n";
    CUmodule m;
    CUfunction f;
    int most = 0;
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "ranked"));
    CUlaunchAttribute a = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    CUlaunchConfig c = { .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1,
                         .attrs = &a, .numAttrs = 1 };
    a.value.clusterDim.x = 2, a.value.clusterDim.y = a.value.clusterDim.z = 1;
    OK(cuLaunchKernelEx(&c, f, NULL, NULL));
    a.value.clusterDim.x = 4;
    FAILS(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&c, f, NULL, NULL));
    OK(cuOccupancyMaxPotentialClusterSize(&most, f, &c));
    assert_int_equal(most, 2);
    OK(cuCtxSynchronize());
    OK(cuModuleUnload(m));
}

static size_t CUDA_CB none(int size) { (void)size; return 0; }

TEST(occupancy)
{
    int blocks, grid, block, sms, most;
    CUdevice d;
    OK(cuCtxGetDevice(&d));
    OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, axpy, 256, 0));
    assert_int_equal(blocks, 8);             /* 2,048 threads of an SM */
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, axpy, 32, 0));
    assert_int_equal(blocks, 32);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, axpy, 32, 40000));
    assert_int_equal(blocks, 5);             /* 228 KiB of shared memory */
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 128, 0));
    assert_int_equal(blocks, 16);            /* its bound of 64 threads does not count */
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, axpy, none, 0, 0));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&most, axpy, block, 0));
    assert_int_equal(most * block, 2048);
    assert_int_equal(grid, most * sms);
    size_t shared;
    int before;
    OK(cuFuncGetAttribute(&before, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, axpy));
    OK(cuFuncSetAttribute(axpy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, axpy, 2, 256));
    assert_int_equal(shared, 49152); /* cuda-python's tests demand no more than a launch may ask for */
    OK(cuFuncSetAttribute(axpy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200000));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, axpy, 2, 256));
    OK(cuFuncSetAttribute(axpy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, before));
    assert_true(shared >= 112000 && shared <= 115712);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, axpy, 256, shared));
    assert_true(blocks >= 2);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, axpy, 0, 0));
}

TEST(function_attributes)
{
    int v;
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded));
    assert_int_equal(v, 64);
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, bounded));
    assert_int_equal(v, 4096);
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_PTX_VERSION, axpy));
    assert_true(v >= 30);
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_BINARY_VERSION, axpy));
    assert_int_equal(v, 130);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(axpy, CU_FUNC_ATTRIBUTE_NUM_REGS, 3));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(&v, (CUfunction_attribute)99, axpy));
#if CUDA_VERSION >= 12040
    size_t offset, size;
    const char *name;
    OK(cuFuncGetParamInfo(axpy, 3, &offset, &size));
    assert_int_equal(offset, 20);
    assert_int_equal(size, 4);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(axpy, 4, &offset, &size));
    OK(cuFuncGetName(&name, axpy));
    assert_string_equal(name, "axpy");
#endif
}

int main(void) { return unit_run(load, without_context); }
