// shows: conformance: libraries and their kernels, handles of kernels, entry points of the driver, line by line with
//   NVIDIA's runtime
#include "../suite.h"

#include <unistd.h>

/* A library of its own: what a program would have compiled with NVRTC. */
static const char code[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                           ".visible .global .align 4 .b8 numbers[64];\n"
                           ".visible .const .align 4 .b8 fixed[16];\n"
                           ".visible .entry first(.param .u64 out, .param .u32 value)\n"
                           "{\n  .reg .b64 %rd<3>;\n  .reg .b32 %r<2>;\n"
                           "  ld.param.u64 %rd1, [out];\n  ld.param.u32 %r1, [value];\n"
                           "  cvta.to.global.u64 %rd2, %rd1;\n  st.global.u32 [%rd2], %r1;\n  ret;\n}\n"
                           ".visible .entry second() { ret; }\n";
static const char damaged[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry first( {";

__global__ void mine(int *out, int value) { *out = value; }
static int no_kernel;

#if RUNTIME >= 12
static void libraries()
{
    cudaLibrary_t library = NULL, other = NULL;
    cudaKernel_t kernel = NULL, again = NULL, list[4] = { 0 };
    void *at = NULL;
    size_t size = 7;
    unsigned count = 7;
    GIVES(cudaErrorInvalidValue, cudaLibraryLoadData(NULL, code, NULL, NULL, 0, NULL, NULL, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0), "null code");
    SAYS(cudaLibraryLoadData(&library, "nonsense", NULL, NULL, 0, NULL, NULL, 0), "nonsense");
    SAYS(cudaLibraryLoadData(&library, code, NULL, NULL, 1, NULL, NULL, 0), "null options of the compiler");
    SAYS(cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 1), "null options of the library");
    cudaJitOption jit = (cudaJitOption)99;
    void *jit_value = (void *)1;
    SAYS(cudaLibraryLoadData(&library, code, &jit, &jit_value, 1, NULL, NULL, 0), "option 99 of the compiler");
    cudaLibraryOption option = (cudaLibraryOption)99;
    SAYS(cudaLibraryLoadData(&library, code, NULL, NULL, 0, &option, &jit_value, 1), "option 99 of the library");
    option = cudaLibraryBinaryIsPreserved;
    WORKS(cudaLibraryLoadData(&other, code, NULL, NULL, 0, &option, &jit_value, 1), "code that stays");
    WORKS(cudaLibraryUnload(other), "it");
    SAYS(cudaLibraryGetKernel(&kernel, other, "first"), "a library that has ended");
    WORKS(cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0), "usual");
    GIVES(cudaErrorInvalidValue, cudaLibraryGetKernel(NULL, library, "first"), "null pointer");
    SAYS(cudaLibraryGetKernel(&kernel, NULL, "first"), "null library");
    SAYS(cudaLibraryGetKernel(&kernel, WRONG(cudaLibrary_t), "first"), "no library");
    SAYS(cudaLibraryGetKernel(&kernel, library, NULL), "null name");
    SAYS(cudaLibraryGetKernel(&kernel, library, ""), "no name");
    SAYS(cudaLibraryGetKernel(&kernel, library, "third"), "no such kernel");
    WORKS(cudaLibraryGetKernel(&kernel, library, "first"), "usual");
    WORKS(cudaLibraryGetKernel(&again, library, "first"), "again");
    VALUE("equal", "%d", kernel == again && kernel);
    WORKS(cudaLibraryGetKernelCount(&count, library), "usual");
    VALUE("count", "%u", count);
    SAYS(cudaLibraryGetKernelCount(NULL, library), "null pointer");
    SAYS(cudaLibraryGetKernelCount(&count, NULL), "null library");
    WORKS(cudaLibraryEnumerateKernels(list, 4, library), "four");
    VALUE("two of them", "%d", list[0] && list[1] && !list[2]);
    VALUE("the first is one", "%d", list[0] == kernel || list[1] == kernel);
    SAYS(cudaLibraryEnumerateKernels(list, 0, library), "none");
    SAYS(cudaLibraryEnumerateKernels(NULL, 2, library), "null list");
    WORKS(cudaLibraryEnumerateKernels(list, 1, library), "one");
    WORKS(cudaLibraryGetGlobal(&at, &size, library, "numbers"), "usual");
    VALUE("size", "%zu", size);
    WORKS(cudaMemset(at, 1, size), "it");
    WORKS(cudaLibraryGetGlobal(NULL, &size, library, "fixed"), "its size only");
    VALUE("size", "%zu", size);
    WORKS(cudaLibraryGetGlobal(&at, NULL, library, "fixed"), "its address only");
    SAYS(cudaLibraryGetGlobal(NULL, NULL, library, "numbers"), "nothing is asked");
    SAYS(cudaLibraryGetGlobal(&at, &size, library, NULL), "null name");
    SAYS(cudaLibraryGetGlobal(&at, &size, library, "nothing"), "no such variable");
    SAYS(cudaLibraryGetGlobal(&at, &size, NULL, "numbers"), "null library");
    SAYS(cudaLibraryGetManaged(&at, &size, library, "numbers"), "not managed");
    SAYS(cudaLibraryGetManaged(&at, &size, library, "nothing"), "no such variable");
    SAYS(cudaLibraryGetUnifiedFunction(&at, library, "nothing"), "no such function");
    SAYS(cudaLibraryGetUnifiedFunction(NULL, library, "first"), "null pointer");

    int *out, value = 42, got = 0;
    void *arguments[] = { &out, &value };
    MUST(cudaMalloc((void **)&out, 64));
    WORKS(cudaLaunchKernel((const void *)kernel, 1, 1, arguments, 0, 0), "a kernel of a library");
    WORKS(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost), "the result");
    VALUE("value", "%d", got);
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = 1;
    WORKS(cudaLaunchKernelExC(&config, (const void *)kernel, arguments), "a kernel of a library");
    cudaFuncAttributes attributes;
    WORKS(cudaFuncGetAttributes(&attributes, (const void *)kernel), "a kernel of a library");
    VALUE("threads", "%d", attributes.maxThreadsPerBlock);
    WORKS(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000),
          "a kernel of a library");
#if RUNTIME >= 13
    WORKS(cudaFuncSetCacheConfig((const void *)kernel, cudaFuncCachePreferL1), "a kernel of a library");
#endif
    const char *name = NULL;
    WORKS(cudaFuncGetName(&name, (const void *)kernel), "a kernel of a library");
    VALUE("name", "%s", name);
    int blocks = 7;
    WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)kernel, 32, 0), "a kernel of a library");
    VALUE("some", "%d", blocks > 0);
    size_t offset = 7;
    WORKS(cudaFuncGetParamInfo((const void *)kernel, 1, &offset, &size), "a kernel of a library");
    VALUE("offset", "%zu", offset);
    WORKS(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000, 0), "usual");
    SAYS(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000, 99), "no device");
    SAYS(cudaKernelSetAttributeForDevice(kernel, (cudaFuncAttribute)99, 50000, 0), "attribute 99");
    SAYS(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30, 0), "too much");

    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaKernelNodeParams parameters = {};
    parameters.func = (void *)kernel;
    parameters.gridDim = parameters.blockDim = 1;
    parameters.kernelParams = arguments;
    MUST(cudaGraphCreate(&graph, 0));
    value = 43;
    WORKS(cudaGraphAddKernelNode(&node, graph, NULL, 0, &parameters), "a kernel of a library");
    cudaGraphExec_t executable;
    WORKS(cudaGraphInstantiate(&executable, graph, 0), "a kernel of a library");
    WORKS(cudaGraphLaunch(executable, 0), "a kernel of a library");
    WORKS(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost), "the result");
    VALUE("value", "%d", got);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));

    WORKS(cudaLibraryUnload(library), "once");
    SAYS(cudaLibraryUnload(library), "twice");
    SAYS(cudaLibraryUnload(NULL), "null library");
    SAYS(cudaLibraryUnload(WRONG(cudaLibrary_t)), "no library");
    SAYS(cudaLibraryLoadFromFile(&library, "/nonexistent/file", NULL, NULL, 0, NULL, NULL, 0), "no file");
    SAYS(cudaLibraryLoadFromFile(&library, NULL, NULL, NULL, 0, NULL, NULL, 0), "null name");
    SAYS(cudaLibraryLoadFromFile(NULL, "/nonexistent/file", NULL, NULL, 0, NULL, NULL, 0), "null pointer");
    SAYS(cudaLibraryLoadFromFile(&library, "/dev/null", NULL, NULL, 0, NULL, NULL, 0), "an empty file");
    char path[] = "/tmp/conformance-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || write(file, code, sizeof code - 1) != (ssize_t)sizeof code - 1)
        exit(3);
    close(file);
    option = cudaLibraryBinaryIsPreserved;
    SAYS(cudaLibraryLoadFromFile(&library, path, NULL, NULL, 0, &option, &jit_value, 1), "a file that is preserved");
    WORKS(cudaLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0), "a file");
    unlink(path);
    WORKS(cudaLibraryGetKernel(&kernel, library, "second"), "of a file");
    WORKS(cudaLaunchKernel((const void *)kernel, 1, 1, NULL, 0, 0), "of a file");
    WORKS(cudaDeviceSynchronize(), "of a file");
    WORKS(cudaLibraryUnload(library), "of a file");
    cudaError_t loaded = cudaLibraryLoadData(&library, damaged, NULL, NULL, 0, NULL, NULL, 0);
    printf("damaged PTX: %s", loaded == cudaSuccess ? "loaded" : cudaGetErrorName(loaded));
    if (loaded == cudaSuccess)
        printf(", its kernel gives %s", cudaGetErrorName(cudaLibraryGetKernel(&kernel, library, "first")));
    printf("\n");
    cudaGetLastError();
    MUST(cudaFree(out));
}

static void kernels()
{
    cudaKernel_t kernel = NULL;
    cudaFunction_t function = NULL;
    const char *name = NULL;
    int *out, value = 9, got = 0;
    void *arguments[] = { &out, &value };
    MUST(cudaMalloc((void **)&out, 64));
    WORKS(cudaGetKernel(&kernel, (const void *)mine), "usual");
    SAYS(cudaGetKernel(NULL, (const void *)mine), "null pointer");
    SAYS(cudaGetKernel(&kernel, (const void *)NULL), "null kernel");
    SAYS(cudaGetKernel(&kernel, (const void *)&no_kernel), "no kernel");
    WORKS(cudaGetKernel(&kernel, (const void *)mine), "usual");
    WORKS(cudaLaunchKernel((const void *)kernel, 1, 1, arguments, 0, 0), "by its handle");
    WORKS(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost), "the result");
    VALUE("value", "%d", got);
    WORKS(cudaFuncGetName(&name, (const void *)kernel), "by its handle");
    VALUE("name", "%s", name);
    WORKS(cudaGetFuncBySymbol(&function, (const void *)mine), "usual");
    VALUE("some", "%d", function != NULL);
#if RUNTIME >= 13 /* 12.9 crashes */
    SAYS(cudaGetFuncBySymbol(NULL, (const void *)mine), "null pointer");
#endif
    SAYS(cudaGetFuncBySymbol(&function, (const void *)NULL), "null kernel");
    SAYS(cudaGetFuncBySymbol(&function, (const void *)&no_kernel), "no kernel");
    MUST(cudaFree(out));
}
#endif

static void entry_points()
{
    cudaDriverEntryPointQueryResult found = (cudaDriverEntryPointQueryResult)7;
    static const char *names[] = { "cuMemAlloc", "cuMemAlloc_v2", "cuLaunchKernel", "cuGetProcAddress", "cuInit",
                                   "cuNothing", "", "cudaMalloc", "cuGraphInstantiate", "cuCtxGetDevice" };
    void *at = NULL;
#if RUNTIME >= 13
    unsigned versions[] = { 0, 2000, 3020, 11030, 12000, 13000, 13010, 99999 };
    for (auto name : names)
        for (unsigned version : versions)
            for (unsigned long long flags = 0; flags <= 4; flags++) {
                at = (void *)&found;
                found = (cudaDriverEntryPointQueryResult)7;
                cudaError_t r = cudaGetDriverEntryPointByVersion(name, &at, version, flags, &found);
                printf("cudaGetDriverEntryPointByVersion: %s, %u, %llu -> %s %s %d\n", name, version, flags,
                       cudaGetErrorName(r), at == (void *)&found ? "as before" : at ? "found" : "none", (int)found);
                cudaGetLastError();
            }
    SAYS(cudaGetDriverEntryPointByVersion(NULL, &at, 12000, 0, &found), "null name");
    SAYS(cudaGetDriverEntryPointByVersion("cuInit", NULL, 12000, 0, &found), "null pointer");
    SAYS(cudaGetDriverEntryPointByVersion("cuInit", &at, 12000, 0, NULL), "no result");
    SAYS(cudaGetDriverEntryPointByVersion("cuNothing", &at, 12000, 0, NULL), "not there, no result");
#elif RUNTIME >= 12
    for (auto name : names)
        for (unsigned long long flags = 0; flags <= 4; flags++) {
            at = (void *)&found;
            found = (cudaDriverEntryPointQueryResult)7;
            cudaError_t r = cudaGetDriverEntryPoint(name, &at, flags, &found);
            printf("cudaGetDriverEntryPoint: %s, %llu -> %s %s %d\n", name, flags, cudaGetErrorName(r),
                   at == (void *)&found ? "as before" : at ? "found" : "none", (int)found);
            cudaGetLastError();
        }
    SAYS(cudaGetDriverEntryPoint(NULL, &at, 0, &found), "null name");
    SAYS(cudaGetDriverEntryPoint("cuInit", NULL, 0, &found), "null pointer");
    SAYS(cudaGetDriverEntryPoint("cuInit", &at, 0, NULL), "no result");
    SAYS(cudaGetDriverEntryPoint("cuNothing", &at, 0, NULL), "not there, no result");
#endif
    (void)names, (void)at, (void)found;
}

int main()
{
    MUST(cudaFree(0));
#if RUNTIME >= 12
    libraries();
    kernels();
#endif
    entry_points();
    return 0;
}
