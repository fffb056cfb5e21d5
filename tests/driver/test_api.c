/* shows: The Driver API for programs: initialisation, the stack of contexts, modules and libraries, both forms of
 *   kernel parameters, handles that have ended, addresses of functions */
/* test_api.c: libcuda.so.1 of programs, on the software GPU inside this process. */
#include <pthread.h>

#include "tests/driver/driver_test.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* functions of CUDA before 4.0 */

/* Headers declare only the newest form of each. */
#undef cuCtxCreate_v2
#undef cuGetProcAddress_v2
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuGetProcAddress_v2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
/* Which of its forms the plain name is depends on the headers. */
#undef cuMemPrefetchAsync
#undef cuMemPrefetchAsync_v2
#define prefetch_1 cuMemPrefetchAsync
#define prefetch_2 cuMemPrefetchAsync_v2
CUresult prefetch_1(CUdeviceptr, size_t, CUdevice, CUstream);
CUresult prefetch_2(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream);
#undef cuMemAlloc_v2
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);

static CUcontext primary;

static int set_up(void **state)
{
    (void)state;
    CUcontext none;
    if (setenv("FLYT_SERVER", "local:software", 1) || cuCtxGetCurrent(&none) != CUDA_ERROR_NOT_INITIALIZED ||
        cuMemFree(0) != CUDA_ERROR_NOT_INITIALIZED || cuInit(1) != CUDA_ERROR_INVALID_VALUE)
        return -1;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&primary, 0) || cuCtxSetCurrent(primary) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return cuDevicePrimaryCtxRelease(0) ? -1 : 0;
}

/* ---- devices ---- */

/* What the software GPU has, and what the protocol cannot carry: programs that ask first take their other way. */
TEST(devices)
{
    static const int withheld[] = { CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED };
    int value = 7;
    char name[8];
    for (size_t i = 0; i < sizeof withheld / sizeof withheld[0]; i++) {
        OK(cuDeviceGetAttribute(&value, (CUdevice_attribute)withheld[i], 0));
        assert_int_equal(value, 0);
    }
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    assert_int_equal(value, 32);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99));
    OK(cuDeviceGetName(name, sizeof name, 0));
    assert_string_equal(name, "Flyt so");
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&value, -1));
}

/* ---- contexts ---- */

TEST(stack)
{
    CUcontext made, top;
    CUdevice device = 7;
    OK(cuCtxCreate_v2(&made, CU_CTX_SCHED_YIELD, 0));
    OK(cuCtxGetCurrent(&top));
    assert_ptr_equal(top, made);
    OK(cuCtxPushCurrent(primary));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 0);
    OK(cuCtxPopCurrent(&top));
    assert_ptr_equal(top, primary);
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxGetCurrent(&top));
    assert_ptr_equal(top, primary);
    OK(cuCtxDestroy(made));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(made));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(NULL));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy((CUcontext)(uintptr_t)0x1234));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(primary));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v2(&made, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v2(&made, 0, 99));
}

TEST(attaching)
{
    CUcontext made, again = NULL, top;
    OK(cuCtxCreate_v2(&made, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxAttach(&again, 1));
    OK(cuCtxAttach(&again, 0));
    assert_ptr_equal(again, made);
    OK(cuCtxDetach(again));
    OK(cuCtxSynchronize());
    OK(cuCtxPushCurrent(primary));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach(made));       /* not the current one */
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach(primary));    /* nobody made or attached it */
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxDetach(made));
    OK(cuCtxGetCurrent(&top));
    assert_ptr_equal(top, primary);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(made));
}

/* As before CUDA 4.0: the function keeps what the launch needs. */
TEST(old_launches)
{
    CUmodule module;
    CUfunction function;
    CUdeviceptr out;
    OK(cuModuleLoadData(&module, ptx_add));
    OK(cuModuleGetFunction(&function, module, "add"));
    OK(cuMemAlloc(&out, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape(function, 0, 1, 1));
    OK(cuFuncSetBlockShape(function, 1, 1, 1));
    OK(cuFuncSetSharedSize(function, 64));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuParamSetSize(function, 4097));
    OK(cuParamSetSize(function, 12));
    OK(cuParamSetv(function, 0, &out, sizeof out));
    OK(cuParamSeti(function, 8, 9));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuParamSeti(function, 4093, 9));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuParamSeti(function, -4, 9));
    OK(cuLaunch(function));
    assert_int_equal(read_word(out), 39);
    OK(cuParamSeti(function, 8, 1));
    OK(cuLaunchGrid(function, 2, 3));
    assert_int_equal(read_word(out), 31);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(function, 0, 1));
    OK(cuParamSetf(function, 8, 2.0F));                          /* 0x40000000 */
    OK(cuLaunchGridAsync(function, 1, 1, CU_STREAM_LEGACY));
    assert_int_equal(read_word(out), 0x4000001e);
    OK(cuMemFree(out));
    OK(cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuParamSeti(function, 8, 9));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunch(function));
}

static void *other_thread(void *context)
{
    CUcontext top = primary;
    CUdeviceptr memory;
    OK(cuCtxGetCurrent(&top));
    assert_null(top);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&memory, 4));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&top));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, 4));
    OK(cuCtxDestroy(context));
    OK(cuCtxGetCurrent(&top));
    assert_null(top);
    return NULL;
}

TEST(each_thread_has_its_own)
{
    CUcontext made;
    CUdeviceptr memory;
    pthread_t thread;
    OK(cuCtxCreate_v2(&made, 0, 0));
    assert_int_equal(pthread_create(&thread, NULL, other_thread, made), 0);
    pthread_join(thread, NULL);
    FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&memory, 4)); /* the other thread has destroyed it */
    OK(cuCtxPopCurrent(NULL));
    OK(cuMemAlloc_v2(&memory, 4));
    OK(cuMemFree(memory));
}

TEST(primary_contexts)
{
    CUcontext again;
    unsigned flags;
    int active;
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(again, primary);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    OK(cuCtxSetCurrent(primary)); /* may be made current before it is retained, as the runtime does it */
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    OK(cuCtxSynchronize());
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&again, 5));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0));
}

/* ---- code ---- */

TEST(modules)
{
    CUmodule module;
    CUfunction function;
    CUdeviceptr out, counter;
    size_t size;
    unsigned n = 5;
    OK(cuModuleLoadData(&module, ptx_add));
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "missing"));
    OK(cuModuleGetFunction(&function, module, "add")); /* after a name that was not found */
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&counter, &size, module, "missing"));
    OK(cuModuleGetGlobal(&counter, &size, module, "counter"));
    assert_int_equal(size, 4);
    OK(cuMemAlloc(&out, 4));
    void *parameters[] = { &out, &n };
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    assert_int_equal(read_word(out), 35);
    OK(cuMemsetD32(counter, 100, 1));
    struct { CUdeviceptr out; unsigned n; } packed = { out, 7 };
    size_t length = sizeof packed;
    void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &length,
   CU_LAUNCH_PARAM_END };
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    assert_int_equal(read_word(out), 107);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)(uintptr_t)0x40, 1, 1, 1, 1, 1, 1, 0, NULL, parameters,
   NULL));
    OK(cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "add"));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cuMemFree(out));
}

/* Of variables of modules, some of which are managed memory. What is not managed fails. */
TEST(prefetch)
{
    static const char code[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .global .attribute(.managed) .align 4 .u32 shared = 7;\n"
                               ".visible .global .align 4 .u32 own = 8;\n";
    const CUmemLocation there = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, here = { CU_MEM_LOCATION_TYPE_HOST, 0 };
    CUmodule module;
    CUdeviceptr shared, own, memory;
    size_t size;
    CUstream stream;
    CUgraph graph;
    unsigned word = 9;
    OK(cuModuleLoadData(&module, code));
    OK(cuModuleGetGlobal(&shared, &size, module, "shared"));
    OK(cuModuleGetGlobal(&own, NULL, module, "own"));
    OK(cuMemAlloc(&memory, 4));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(prefetch_1(shared, size, 0, stream));
    OK(prefetch_2(shared, size, there, 0, stream));
    OK(cuMemsetD32Async(shared, 6, 1, stream));
    OK(prefetch_1(shared, size, CU_DEVICE_CPU, stream));
    OK(prefetch_2(shared, size, here, 0, NULL));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(read_word(shared), 6);
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch_1(memory, 4, 0, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch_1((CUdeviceptr)(uintptr_t)&word, 4, 0, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch_1(shared, size + 1, 0, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch_1(shared, 0, 0, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch_2(shared, size, there, 1, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch_2(shared, size, (CUmemLocation){ 5, 0 }, 0, stream));
    FAILS(CUDA_ERROR_INVALID_DEVICE, prefetch_1(shared, size, 7, stream));
    FAILS(CUDA_ERROR_INVALID_DEVICE, prefetch_1(shared, size, -2, stream));
    FAILS(CUDA_ERROR_INVALID_HANDLE, prefetch_1(shared, size, 0, (CUstream)(uintptr_t)0x40));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, prefetch_1(shared, size, 0, stream));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch_1(own, 4, 0, stream));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(memory));
    OK(cuModuleUnload(module));
}

/* The server keeps what could not be loaded under its number: the number must not come again. */
TEST(images_that_cannot_be_loaded)
{
    static const char broken[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { add.u32 %r1, \n";
    CUmodule module;
    char log[512] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)sizeof log };
    FAILS(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, broken));
    OK(cuModuleLoadData(&module, ptx_add));
    OK(cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, broken, 2, options, values));
    assert_true(strlen(log) > 5);
    assert_int_equal((size_t)values[1], strlen(log));
    FAILS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "no code"));
    FAILS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nonexistent/file.ptx"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, NULL));
}

TEST(a_function_has_a_context)
{
    CUcontext made;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUdeviceptr out;
    unsigned n = 1;
    OK(cuCtxCreate_v2(&made, 0, 0));
    OK(cuModuleLoadData(&module, ptx_add));
    OK(cuModuleGetFunction(&function, module, "add"));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAlloc(&out, 4));
    void *parameters[] = { &out, &n };
    OK(cuCtxPushCurrent(primary));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    OK(cuStreamSynchronize(stream));
    OK(cuCtxPopCurrent(NULL));
    assert_int_equal(read_word(out), 31);
    OK(cuCtxDestroy(made));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module)); /* the module has ended with its context */
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
}

TEST(memory_and_pointers)
{
    CUdeviceptr memory, base;
    size_t size;
    int ordinal = 9;
    CUmemorytype type = (CUmemorytype)9;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 4));
    OK(cuMemAlloc(&memory, 1000));
    OK(cuMemGetAddressRange(&base, &size, memory + 500));
    assert_int_equal(base, memory);
    assert_int_equal(size, 1000);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    unsigned managed = ~0u; /* the whole word is written: NVIDIA's runtime does not clear it */
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
    assert_int_equal(managed, 0);
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
   (CUdeviceptr)(uintptr_t)&size));
    CUpointer_attribute wanted[] = { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
    void *values[] = { &ordinal, &type };
    OK(cuPointerGetAttributes(2, wanted, values, (CUdeviceptr)(uintptr_t)&size));
    assert_int_equal(ordinal, -2);
    assert_int_equal(type, 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(memory, &size, 2000)); /* more than there is */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)&base, &size, 8));
    OK(cuMemFree(memory));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
}

TEST(streams_and_events)
{
    CUstream stream;
    CUevent event;
    unsigned long long id, other;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamGetId(stream, &id));
    OK(cuStreamGetId(NULL, &other));
    assert_true(id != other);
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    OK(cuEventQuery(event));
    OK(cuEventDestroy(event));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(NULL));
    OK(cuStreamDestroy(stream));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(stream));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 77));
}

/* What NVIDIA's libraries ask, and how. */
TEST(for_libraries)
{
    size_t value = 7;
    CUlibrary library;
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    OK(cuCtxGetLimit(&value, CU_LIMIT_CIG_ENABLED));
    assert_int_equal(value, 0);
    FAILS(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit(CU_LIMIT_CIG_ENABLED, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&value, (CUlimit)99));
    OK(cuLibraryLoadData(&library, ptx_add, NULL, NULL, 0, &option, NULL, 1));
    OK(cuLibraryUnload(library));
}

/* What NVIDIA's runtime asks before it waits for the device: of a context, or of the current one. An error there came
   back as the result of a later call of cuBLAS 12.4.5. */
TEST(checks_of_a_context)
{
    static const uint8_t bytes[16] = { 0x26, 0x3E, 0x88, 0x60, 0x7C, 0xD2, 0x61, 0x43,
                                       0x92, 0xF6, 0xBB, 0xD5, 0x00, 0x6D, 0xFA, 0x7E };
    CUuuid id;
    CUcontext current;
    CUresult (*const *table)(CUcontext, uint32_t *, void **);
    uint32_t flags = 7;
    void *more = NULL;
    memcpy(&id, bytes, sizeof id);
    OK(cuCtxGetCurrent(&current));
    assert_non_null(current);
    OK(cuGetExportTable((const void **)&table, &id));
    OK(table[2](current, &flags, &more));
    assert_int_equal(flags, 0);
    flags = 7;
    OK(table[2](NULL, &flags, &more));
    assert_int_equal(flags, 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, table[2](NULL, NULL, &more));
    OK(cuCtxSetCurrent(NULL));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, table[2](NULL, &flags, &more));
    OK(cuCtxSetCurrent(current));
}

/* ---- addresses of functions ---- */

static void *entry(const char *name, int version, cuuint64_t flags)
{
    void *address = (void *)7;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)7;
    OK(cuGetProcAddress_v2(name, &address, version, flags, &status));
    assert_int_equal(status, address ? 0 : status);
    return address;
}

TEST(addresses)
{
    void *address;
    assert_ptr_equal(entry("cuMemAlloc", 13000, 0), (void *)(uintptr_t)cuMemAlloc_v2);
    assert_true(entry("cuMemAlloc", 2000, 0) != entry("cuMemAlloc", 3020, 0));
    assert_true(entry("cuLaunchKernel", 7000, 2) != entry("cuLaunchKernel", 7000, 0));
    assert_ptr_equal(entry("cuGetProcAddress", 12000, 0), (void *)(uintptr_t)cuGetProcAddress_v2);
    assert_null(entry("cuMemAlloc_v2", 13000, 0));
    assert_null(entry("", 0, 0));
    assert_non_null(entry("cuMulticastCreate", 13000, 0));     /* not implemented, but there */
    static const char *const graphics[] = { "cuGraphicsGLRegisterBuffer", "cuGLGetDevices", "cuGLMapBufferObject",
                                            "cuEGLStreamConsumerConnect", "cuGraphicsVDPAURegisterOutputSurface" };
    for (size_t i = 0; i < sizeof graphics / sizeof *graphics; i++) {
        CUresult (*call)(void *, void *, void *) =
            (CUresult (*)(void *, void *, void *))(uintptr_t)entry(graphics[i], 13000, 0);
        assert_non_null(call);
        FAILS(CUDA_ERROR_NOT_SUPPORTED, call(NULL, NULL, NULL));
    }
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuMemAlloc", &address, 13000, 4, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2(NULL, &address, 13000, 0, NULL));
}

int main(void) { return unit_run(set_up, tear_down); }
