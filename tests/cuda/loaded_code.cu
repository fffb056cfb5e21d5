// shows: loaded code: a library of PTX, from memory and from a file: its kernels are found, counted, described,
//   launched and put into graphs like those of the program; its variables; the Driver API takes the same handles;
//   errors; options that bound registers; a block or cluster that the kernel does not take: the launch's error
#include "check.h"

#include <cuda.h>
#include <unistd.h>

#if CUDART_VERSION >= 12080
static const char code[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                           ".visible .global .align 4 .u32 step = 3;\n"
                           ".visible .global .attribute(.managed) .align 8 .u64 shared_count;\n"
                           ".visible .entry add(.param .u64 numbers, .param .u32 more)\n"
                           "{\n"
                           "  .reg .u64 %a<4>; .reg .u32 %n<6>;\n"
                           "  ld.param.u64 %a1, [numbers]; ld.param.u32 %n1, [more];\n"
                           "  mov.u32 %n2, %tid.x; mul.wide.u32 %a2, %n2, 4; add.u64 %a1, %a1, %a2;\n"
                           "  ld.global.u32 %n3, [step]; ld.global.u32 %n4, [%a1];\n"
                           "  add.u32 %n4, %n4, %n3; add.u32 %n4, %n4, %n1; st.global.u32 [%a1], %n4; ret;\n"
                           "}\n"
                           ".visible .entry nothing() { ret; }\n";

enum { COUNT = 32 };

__global__ void own(int *numbers) { numbers[threadIdx.x] = -1; }

static void expect(const unsigned *device, unsigned first)
{
    unsigned host[COUNT];
    MUST(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < COUNT; i++)
        HOLDS(host[i] == first + i);
}

static void launches(cudaKernel_t add, cudaLibrary_t library, unsigned *device)
{
    unsigned more = 10, sequence[COUNT], step = 5, *variable;
    void *arguments[] = { &device, &more };
    for (unsigned i = 0; i < COUNT; i++)
        sequence[i] = i;
    MUST(cudaMemcpy(device, sequence, sizeof sequence, cudaMemcpyHostToDevice));
    MUST(cudaLaunchKernel((const void *)add, dim3(1), dim3(COUNT), arguments, 0, 0));
    expect(device, 13);
    size_t bytes = 0;
    MUST(cudaLibraryGetGlobal((void **)&variable, &bytes, library, "step"));
    HOLDS(bytes == 4);
    MUST(cudaMemcpy(variable, &step, sizeof step, cudaMemcpyHostToDevice));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1), config.blockDim = dim3(COUNT);
    MUST(cudaLaunchKernelExC(&config, (const void *)add, arguments));
    expect(device, 28);

    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    cudaKernelNodeParams parameters = {};
    parameters.func = (void *)add, parameters.gridDim = dim3(1), parameters.blockDim = dim3(COUNT);
    parameters.kernelParams = arguments;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphAddKernelNode(&node, graph, NULL, 0, &parameters));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, 0));
    expect(device, 43);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));

    unsigned long long *managed;
    MUST(cudaLibraryGetManaged((void **)&managed, &bytes, library, "shared_count"));
    HOLDS(bytes == 8);
    MUST(cudaDeviceSynchronize());
    *managed = 7;
    HOLDS(*managed == 7);
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetManaged((void **)&managed, &bytes, library, "nobody"));
}

static void descriptions(cudaKernel_t add, cudaLibrary_t library)
{
    unsigned count = 0;
    cudaKernel_t all[4] = {};
    MUST(cudaLibraryGetKernelCount(&count, library));
    HOLDS(count == 2);
    MUST(cudaLibraryEnumerateKernels(all, 4, library));
    HOLDS((all[0] == add) != (all[1] == add) && !all[2]);
    cudaFuncAttributes attributes;
    MUST(cudaFuncGetAttributes(&attributes, (const void *)add));
    HOLDS(attributes.maxThreadsPerBlock >= COUNT && attributes.ptxVersion == 52);
    const char *name = NULL;
    MUST(cudaFuncGetName(&name, (const void *)add));
    HOLDS(name && !strcmp(name, "add"));
    size_t offset, size;
    MUST(cudaFuncGetParamInfo((const void *)add, 1, &offset, &size));
    HOLDS(offset == 8 && size == 4);
    int blocks = 0;
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)add, COUNT, 0));
    HOLDS(blocks > 0);
    MUST(cudaKernelSetAttributeForDevice(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 0));
    MUST(cudaFuncGetAttributes(&attributes, (const void *)add));
    HOLDS(attributes.maxDynamicSharedSizeBytes == 1024);
}

template <typename F> static F entry(const char *name)
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    MUST(cudaGetDriverEntryPointByVersion(name, &function, 12030, cudaEnableDefault, &found));
    return (F)function;
}

/* The Driver API takes the runtime's handles. */
static void driver(cudaKernel_t add, cudaLibrary_t library)
{
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    const char *name = NULL;
    HOLDS(entry<CUresult (*)(CUkernel *, CUlibrary, const char *)>("cuLibraryGetKernel")(
              &kernel, (CUlibrary)library, "add") == CUDA_SUCCESS);
    HOLDS((void *)kernel == (void *)add);
    auto get_name = entry<CUresult (*)(const char **, CUkernel)>("cuKernelGetName");
    HOLDS(get_name(&name, kernel) == CUDA_SUCCESS && !strcmp(name, "add"));
    cudaKernel_t ours;
    MUST(cudaGetKernel(&ours, (const void *)own));
    HOLDS(get_name(&name, (CUkernel)ours) == CUDA_SUCCESS && strstr(name, "own"));
    auto get_function = entry<CUresult (*)(CUfunction *, CUkernel)>("cuKernelGetFunction");
    HOLDS(get_function(&function, (CUkernel)ours) == CUDA_SUCCESS);
    int *device;
    MUST(cudaMalloc((void **)&device, COUNT * sizeof *device));
    void *arguments[] = { &device };
    MUST(cudaLaunchKernel((const void *)ours, dim3(1), dim3(COUNT), arguments, 0, 0));
    int host = 0;
    MUST(cudaMemcpy(&host, device + COUNT - 1, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host == -1);
    MUST(cudaFree(device));
}

/* A kernel that needs some 200 registers, one for a single block, and one whose clusters have at most two blocks. */
static char *demanding(void)
{
    enum { VALUES = 100, ROOM = VALUES * 100 };
    static char text[ROOM];
    char *at = text;
    at += sprintf(at, ".version 7.8\n.target sm_90\n.address_size 64\n"
                      ".visible .entry exactly() .reqntid 32, 2, 1 { ret; }\n"
                      ".visible .entry ranked() .maxclusterrank 2 { ret; }\n"
                      ".visible .entry hungry(.param .u64 p)\n{\n  .reg .u64 %%p; .reg .f64 %%f<%d>;\n"
                      "  ld.param.u64 %%p, [p];\n", VALUES);
    for (int i = 0; i < VALUES; i++)
        at += sprintf(at, "  ld.global.f64 %%f%d, [%%p + %d];\n", i, i * 8);
    at += sprintf(at, "  bar.sync 0;\n");
    for (int i = 0; i < VALUES; i++)
        at += sprintf(at, "  st.global.f64 [%%p + %d], %%f%d;\n", i * 7 % VALUES * 8, i);
    sprintf(at, "  ret;\n}\n");
    return text;
}

static void bounds(void)
{
    static const struct {
        bool given;
        cudaJitOption option;
        unsigned value, threads; /* launched: so many can be, and more cannot */
        int registers;           /* at most */
    } cases[] = {
        { false, cudaJitMaxRegisters, 0, 256, 255 },      { true, cudaJitMaxRegisters, 64, 1024, 64 },
        { true, cudaJitMaxRegisters, 8, 1024, 24 },       { true, cudaJitMaxRegisters, 300, 256, 255 },
        { true, cudaJitThreadsPerBlock, 512, 512, 128 },
    };
    int major = 0;
    MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 9)
        return;
    double *memory;
    MUST(cudaMalloc((void **)&memory, 1024));
    void *arguments[] = { &memory };
    cudaLibrary_t library;
    cudaKernel_t kernel;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cudaJitOption option = cases[i].option;
        void *value = (void *)(size_t)cases[i].value;
        cudaFuncAttributes attributes;
        MUST(cudaLibraryLoadData(&library, demanding(), &option, &value, cases[i].given, NULL, NULL, 0));
        MUST(cudaLibraryGetKernel(&kernel, library, "hungry"));
        MUST(cudaFuncGetAttributes(&attributes, (const void *)kernel));
        HOLDS(attributes.numRegs <= cases[i].registers && attributes.numRegs * 2 > cases[i].registers);
        HOLDS(attributes.maxThreadsPerBlock >= (int)cases[i].threads);
        MUST(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(cases[i].threads), arguments, 0, 0));
        if (cases[i].threads < 1024)
            GIVES(cudaErrorLaunchOutOfResources,
                  cudaLaunchKernel((const void *)kernel, dim3(1), dim3(1024), arguments, 0, 0));
        MUST(cudaDeviceSynchronize());
        MUST(cudaLibraryUnload(library));
    }
    MUST(cudaFree(memory));

    MUST(cudaLibraryLoadData(&library, demanding(), NULL, NULL, 0, NULL, NULL, 0));
    MUST(cudaLibraryGetKernel(&kernel, library, "exactly"));
    MUST(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(32, 2), NULL, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaLaunchKernel((const void *)kernel, dim3(1), dim3(64), NULL, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaLaunchKernel((const void *)kernel, dim3(1), dim3(32, 1), NULL, 0, 0));
    MUST(cudaLibraryGetKernel(&kernel, library, "ranked"));
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t config = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.gridDim = dim3(8), config.blockDim = dim3(32), config.attrs = &cluster, config.numAttrs = 1;
    MUST(cudaLaunchKernelExC(&config, (const void *)kernel, NULL));
    cluster.val.clusterDim.x = 4;
    GIVES(cudaErrorInvalidClusterSize, cudaLaunchKernelExC(&config, (const void *)kernel, NULL));
    MUST(cudaDeviceSynchronize());
    MUST(cudaLibraryUnload(library));
    cudaGetLastError();
}

static void errors(cudaLibrary_t library)
{
    cudaKernel_t kernel;
    cudaLibrary_t none;
    void *pointer;
    size_t size;
    cudaLibraryOption option = (cudaLibraryOption)9;
    GIVES(cudaErrorInvalidValue, cudaLibraryLoadData(NULL, code, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(cudaErrorInvalidValue, cudaLibraryLoadData(&none, NULL, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(cudaErrorInvalidValue, cudaLibraryLoadData(&none, code, NULL, NULL, 1, NULL, NULL, 0));
    GIVES(cudaErrorInvalidValue, cudaLibraryLoadData(&none, code, NULL, NULL, 0, &option, NULL, 1));
    GIVES(cudaErrorFileNotFound, cudaLibraryLoadFromFile(&none, "/nowhere/at/all", NULL, NULL, 0, NULL, NULL, 0));
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&kernel, library, "nobody"));
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetGlobal(&pointer, &size, library, "nobody"));
    GIVES(cudaErrorInvalidValue, cudaLibraryGetKernel(NULL, library, "add"));
    GIVES(cudaErrorInvalidValue, cudaLibraryGetKernelCount(NULL, library));
    GIVES(cudaSuccess, cudaLibraryEnumerateKernels(&kernel, 0, library));
}

int main()
{
    cudaLibrary_t library, from_file;
    cudaKernel_t add;
    unsigned *device;
    MUST(cudaMalloc((void **)&device, COUNT * sizeof *device));
    MUST(cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cudaLibraryGetKernel(&add, library, "add"));
    launches(add, library, device);
    descriptions(add, library);
    driver(add, library);
    errors(library);
    bounds();
    MUST(cudaLibraryUnload(library));

    char path[] = "/tmp/flyt-loaded-XXXXXX";
    int file = mkstemp(path);
    HOLDS(file >= 0 && write(file, code, sizeof code - 1) == (ssize_t)sizeof code - 1);
    MUST(cudaLibraryLoadFromFile(&from_file, path, NULL, NULL, 0, NULL, NULL, 0));
    unlink(path);
    close(file);
    MUST(cudaLibraryGetKernel(&add, from_file, "add"));
    launches(add, from_file, device);
    MUST(cudaLibraryUnload(from_file));
    return check_result("loaded_code");
}
#else
int main()
{
    printf("loaded_code: this CUDA has no libraries of code\n");
    return 77;
}
#endif
