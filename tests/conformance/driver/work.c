/* shows: conformance: Driver API: memory, modules, streams, events, launches, as the reference documents their errors
 *   */
#include "../driver.h"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.global .u32 variable[4];\n"
                          ".visible .entry store(.param .u64 to, .param .u32 value) {\n.reg .u64 %a;\n.reg .u32 %v;\n"
                          "ld.param.u64 %a, [to];\nld.param.u32 %v, [value];\nst.global.u32 [%a], %v;\nret;\n}\n";

static void memory(void)
{
    CUdeviceptr p = 0, base = 0;
    size_t size = 0, pitch = 0, total = 0;
    void *host = NULL;
    unsigned char bytes[256] = { 1, 2, 3 };
    unsigned type = 0, flags = 0;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 4), "null pointer");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0), "no bytes");
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, (size_t)1 << 50), "too much");
    WORKS(cuMemAlloc(&p, 256), "256 bytes");
    WORKS(cuMemGetAddressRange(&base, &size, p + 8), "inside");
    VALUE("base", "%d", base == p);
    VALUE("size", "%zu", size);
    SAYS(cuMemGetAddressRange(&base, &size, 0x1000), "nowhere");
    WORKS(cuMemGetAddressRange(NULL, NULL, p), "null pointers");
    WORKS(cuMemGetInfo(&size, &total), "usual");
    WORKS(cuMemcpyHtoD(p, bytes, 256), "usual");
    WORKS(cuMemcpyDtoH(bytes, p, 256), "usual");
    WORKS(cuMemcpyHtoD(p, bytes, 0), "no bytes");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, bytes, 257), "one byte too many");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0, bytes, 4), "to null");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, NULL, 4), "from null");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(p, 0x1000, 4), "from nowhere");
    WORKS(cuMemcpy(p, (CUdeviceptr)(uintptr_t)bytes, 4), "by addresses");
    WORKS(cuMemsetD8(p, 1, 256), "bytes");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(p, 1, 257), "one too many");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD16(p + 1, 1, 4), "not aligned");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p + 2, 1, 4), "not aligned");
    WORKS(cuMemsetD32(p, 1, 0), "none");
    WORKS(cuMemsetD2D8(p, 16, 1, 16, 16), "16 by 16");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8(p, 8, 1, 16, 16), "narrow");
    SAYS(cuMemAllocPitch(&base, &pitch, 100, 10, 3), "elements of 3 bytes");
    WORKS(cuMemAllocPitch(&base, &pitch, 100, 10, 4), "usual");
    VALUE("pitch", "%zu", pitch);
    WORKS(cuMemFree(base), "it");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&base, NULL, 100, 10, 4), "null pitch");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 8), "inside");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(0x1000), "nowhere");
    WORKS(cuMemFree(0), "null");
    WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), "device");
    VALUE("type", "%u", type);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x1000), "nowhere");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, (CUpointer_attribute)99, p), "attribute 99");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), "null pointer");
    WORKS(cuMemFree(p), "once");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(p), "twice");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAllocHost(NULL, 4), "null pointer");
    WORKS(cuMemAllocHost(&host, 64), "usual");
    WORKS(cuMemHostGetFlags(&flags, host), "it");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, bytes), "not pinned");
    WORKS(cuMemHostGetDevicePointer(&p, host, 0), "it");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&p, host, 1), "flags");
    WORKS(cuMemFreeHost(host), "once");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host), "twice");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&host, 64, 0x100), "unknown flag");
    static char page[8192] __attribute__((aligned(4096)));
    WORKS(cuMemHostRegister(page, 4096, 0), "one page");
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(page, 4096, 0), "again");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(page + 8), "inside");
    WORKS(cuMemHostUnregister(page), "once");
    GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(page), "twice");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(page, 0, 0), "no bytes");
}

static void modules(void)
{
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    const char *name = NULL;
    size_t size = 0;
    int value = 0;
    CUstream s;
    unsigned word = 7;
    void *arguments[] = { &p, &word };
    GIVES(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&m, NULL), "null image");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(NULL, ptx), "null pointer");
    GIVES(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&m, "/no/such/file"), "no file");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuModuleLoad(&m, NULL), "null name");
    GIVES(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
          cuModuleLoadData(&m, ".version 99.9\n.target sm_52\n.address_size 64\n.visible .entry k() { ret; }\n"),
          "PTX of a version to come");
    GIVES(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&m, ".version 7.0\n.target sm_52\n.visible .entry k( {"),
          "PTX that is cut off");
    GIVES(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&m, ".version 7.0\n.visible .nonsense x;\n"),
          "PTX with an unknown directive");
    WORKS(cuModuleLoadData(&m, ptx), "usual");
    GIVES(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, m, "missing"), "missing");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(&f, m, NULL), "null name");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(NULL, m, "store"), "null pointer");
    WORKS(cuModuleGetFunction(&f, m, "store"), "usual");
    WORKS(cuFuncGetName(&name, f), "usual");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(&name, NULL), "null handle");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuKernelGetName(&name, NULL), "null handle");
    WORKS(cuModuleGetGlobal(&p, &size, m, "variable"), "usual");
    VALUE("size", "%zu", size);
    GIVES(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&p, &size, m, "missing"), "missing");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal(&p, &size, m, NULL), "null name");
    WORKS(cuModuleGetGlobal(NULL, &size, m, "variable"), "only its size");
    WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f), "threads");
    VALUE("threads", "%d", value);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(&value, (CUfunction_attribute)99, f), "attribute 99");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, f), "null pointer");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30),
          "1 GiB");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), "cannot be set");
    MUST(cuModuleGetGlobal(&p, &size, m, "variable"));
    MUST(cuStreamCreate(&s, 0));
    WORKS(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, arguments, NULL), "usual");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, s, arguments, NULL), "no blocks");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, s, arguments, NULL), "1025 threads");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL), "no arguments");
    SAYS(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 1 << 20, s, arguments, NULL), "1 MiB of shared memory");
    WORKS(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, s, arguments), "cooperative");
    GIVES(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel(f, 100000, 1, 1, 1, 1, 1, 0, s, arguments),
          "too large");
    WORKS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, 128, 0), "128 threads");
    VALUE("blocks", "%d", value);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, 0, 0), "no threads");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, f, 128, 0), "null pointer");
    WORKS(cuStreamSynchronize(s), "all");
    WORKS(cuMemcpyDtoH(&value, p, 4), "the result");
    VALUE("value", "%d", value);
    MUST(cuStreamDestroy(s));
    WORKS(cuModuleUnload(m), "once");
}

static void streams(void)
{
    CUstream s = NULL;
    CUevent e = NULL, f, plain;
    unsigned flags = 7;
    int priority = 7;
    float ms = -1;
    CUcontext c = NULL, current = NULL;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(NULL, 0), "null pointer");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&s, 8), "flags 8");
    WORKS(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), "non-blocking");
    WORKS(cuStreamGetFlags(s, &flags), "it");
    VALUE("flags", "%u", flags);
    WORKS(cuStreamGetPriority(s, &priority), "it");
    VALUE("priority", "%d", priority);
    WORKS(cuStreamGetCtx(s, &c), "it");
    MUST(cuCtxGetCurrent(&current));
    VALUE("the current one", "%d", c == current);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamGetFlags(s, NULL), "null pointer");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamGetPriority(s, NULL), "null pointer");
    WORKS(cuStreamQuery(s), "idle");
    WORKS(cuStreamQuery(NULL), "legacy, idle");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuEventCreate(NULL, 0), "null pointer");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&e, 0x100), "unknown flag");
    MUST(cuEventCreate(&e, 0));
    MUST(cuEventCreate(&f, 0));
    MUST(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    WORKS(cuEventQuery(e), "never recorded");
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, f), "never recorded");
    WORKS(cuEventRecord(e, s), "usual");
    WORKS(cuEventRecord(f, s), "usual");
    WORKS(cuEventRecord(plain, s), "usual");
    WORKS(cuStreamWaitEvent(NULL, e, 0), "legacy");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(s, e, 8), "flags 8");
    WORKS(cuEventSynchronize(plain), "usual");
    WORKS(cuEventElapsedTime(&ms, e, f), "usual");
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, plain), "without times");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuEventElapsedTime(NULL, e, f), "null pointer");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(e, s, 8), "flags 8");
    WORKS(cuEventDestroy(e), "usual");
    WORKS(cuStreamSynchronize(s), "usual");
    WORKS(cuStreamDestroy(s), "usual");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(NULL, NULL, NULL), "null function");
}

int main(void)
{
    CUcontext c;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&c, 0));
    MUST(cuCtxSetCurrent(c));
    memory();
    modules();
    streams();
    return 0;
}
