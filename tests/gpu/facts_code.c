/* facts_code.c: parts that are linked on the device, what an entry says of blocks and clusters, first launches. See
   facts.c. */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "facts.h"

/* The section of an ELF file in memory; *size 0: it has none of that name. */
static char *section(char *elf, const char *name, size_t *size)
{
    Elf64_Ehdr *head = (Elf64_Ehdr *)elf;
    Elf64_Shdr *all = (Elf64_Shdr *)(elf + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++)
        if (strcmp(elf + all[head->e_shstrndx].sh_offset + all[i].sh_name, name) == 0) {
            *size = all[i].sh_size;
            return elf + all[i].sh_offset;
        }
    *size = 0;
    return NULL;
}

/* The fat binary containers in a section, at most `room`. */
static unsigned containers(char *at, size_t size, void **all, unsigned room)
{
    unsigned count = 0;
    for (size_t i = 0; i + 16 <= size && count < room;) {
        uint64_t payload;
        memcpy(&payload, at + i + 8, sizeof payload);
        if (*(uint32_t *)(at + i) == 0xBA55ED50u)
            all[count++] = at + i;
        i += *(uint32_t *)(at + i) == 0xBA55ED50u ? 16 + payload : 8;
    }
    return count;
}

static int answer_of_link(void *const *parts, unsigned count)
{
    CUlinkState state;
    void *made;
    size_t size;
    CUresult r = CALL(cuLinkCreate_v2, (unsigned, CUjit_option *, void **, CUlinkState *), 0, NULL, NULL, &state);
    for (unsigned i = 0; i < count && !r; i++)
        r = CALL(cuLinkAddData_v2,
                 (CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned, CUjit_option *, void **), state,
                 CU_JIT_INPUT_FATBINARY, parts[i], 16 + (size_t)((uint64_t *)parts[i])[1], "part", 0, NULL, NULL);
    r = r ? r : CALL(cuLinkComplete, (CUlinkState, void **, size_t *), state, &made, &size);
    return r ? (int)r : (int)CALL(cuModuleLoadData, (CUmodule *, const void *), &module, made);
}

/* build/cuda/linked has machine code for 7.5, and PTX in parts. */
static void device_linked(void)
{
    struct { uint32_t magic, version; void *container, *extra; } wrapper = { 0x466243B1u, 2, NULL, NULL };
    static char file[16 << 20];
    void *own[4], *parts[8] = { NULL };
    size_t size;
    FILE *f = fopen("build/cuda/linked", "rb");
    if (!f || !fread(file, 1, sizeof file, f)) {
        printf("cannot tell: build/cuda/linked is not there");
        return;
    }
    start();
    char *at = section(file, ".nv_fatbin", &size);
    unsigned count = containers(at, size, own, 4);
    wrapper.container = count ? own[count - 1] : NULL;
    at = section(file, "__nv_relfatbin", &size);
    count = containers(at, size, parts, 7);
    wrapper.extra = parts;
    printf("%u parts", count);
    printf("; wrapper: cuModuleLoadData %d", CALL(cuModuleLoadData, (CUmodule *, const void *), &module, &wrapper));
    printf(", cuModuleLoadFatBinary %d", CALL(cuModuleLoadFatBinary, (CUmodule *, const void *), &module, &wrapper));
    printf("; its container: %d", CALL(cuModuleLoadData, (CUmodule *, const void *), &module, wrapper.container));
    for (int preserved = 0; preserved < 2; preserved++) {
        CUlibrary made;
        CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
        void *value = (void *)1;
        CUresult r = CALL(cuLibraryLoadData,
                          (CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **,
                           unsigned),
                          &made, &wrapper, NULL, NULL, 0, &option, &value, (unsigned)preserved);
        printf("; cuLibraryLoadData%s %d", preserved ? " (preserved)" : "", r);
        if (!r) {
            r = CALL(cuLibraryGetModule, (CUmodule *, CUlibrary), &module, made);
            printf(", its module %d", r);
            printf(", unload %d", CALL(cuLibraryUnload, (CUlibrary), made));
        }
    }
    printf("; a wrapper of one part: ");
    wrapper.version = 1, wrapper.container = parts[0], wrapper.extra = NULL;
    printf("cuModuleLoadData %d", CALL(cuModuleLoadData, (CUmodule *, const void *), &module, &wrapper));
    printf(", cuModuleLoadFatBinary %d", CALL(cuModuleLoadFatBinary, (CUmodule *, const void *), &module, &wrapper));
    printf("; link of the parts: %d", answer_of_link(parts, count));
}

/* A kernel that does nothing, with what its entry says of blocks. */
static CUfunction nothing(const char *says)
{
    char text[256];
    CUmodule own;
    CUfunction f;
    snprintf(text, sizeof text,
             ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry f() %s { ret; }\n", says);
    NEED(CALL(cuModuleLoadData, (CUmodule *, const void *), &own, text));
    NEED(CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &f, own, "f"));
    return f;
}

static CUresult launch_shaped(CUfunction f, unsigned grid, CUlaunchAttribute *attributes, unsigned count)
{
    CUlaunchConfig c = { .gridDimX = grid, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
                         .attrs = attributes, .numAttrs = count };
    CUresult r = CALL(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **), &c, f, NULL, NULL);
    return r ? r : synchronize();
}

/* Grids of 16 blocks: cluster, or preferred by itself, or both. */
static void cluster_codes(void)
{
    static const unsigned given[][6] = {
        { 3, 1, 1 },          { 0, 1, 1 },          { 2, 0, 1 },          { 16, 1, 1 },         { 2, 2, 1 },
        { 0, 0, 0, 4, 1, 1 }, { 0, 0, 0, 3, 1, 1 }, { 0, 0, 0, 0, 1, 1 }, { 0, 0, 0, 1, 1, 7 }, { 0, 0, 0, 16, 1, 1 },
        { 2, 1, 1, 4, 1, 1 }, { 2, 1, 1, 3, 1, 1 }, { 2, 1, 1, 32, 1, 1 },
    };
    start();
    CUfunction plain = nothing(""), ranked = nothing(".maxclusterrank 2");
    CUfunction pairs = nothing(".reqnctapercluster 2, 1, 1");
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const unsigned *g = given[i];
        CUlaunchAttribute a[2] = { { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION }, { .id = (CUlaunchAttributeID)11 } };
        a[0].value.clusterDim.x = g[0], a[0].value.clusterDim.y = g[1], a[0].value.clusterDim.z = g[2];
        a[1].value.clusterDim.x = g[3], a[1].value.clusterDim.y = g[4], a[1].value.clusterDim.z = g[5];
        bool both = g[0] + g[1] + g[2] && g[3] + g[4] + g[5];
        CUresult r = launch_shaped(plain, 16, g[0] + g[1] + g[2] ? a : a + 1, both ? 2 : 1);
        printf("%s%u %u %u", i ? "; " : "", g[0], g[1], g[2]);
        if (g[3] + g[4] + g[5])
            printf(" preferred %u %u %u", g[3], g[4], g[5]);
        printf(": %d", r);
    }
    CUlaunchAttribute four = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    four.value.clusterDim.x = 4, four.value.clusterDim.y = four.value.clusterDim.z = 1;
    printf("; 4 for .maxclusterrank 2: %d", launch_shaped(ranked, 16, &four, 1));
    printf("; 4 for .reqnctapercluster 2: %d, 3 blocks of it: %d", launch_shaped(pairs, 16, &four, 1),
           launch_shaped(pairs, 3, NULL, 0));
}

/* Blocks of one thread and of 64 for .reqntid 32, 2, 1: who says so, and when. */
static void required_block(void)
{
    CUgraph graph, captured;
    CUgraphNode node;
    CUgraphExec executable;
    start();
    CUfunction f = nothing(".reqntid 32, 2, 1");
    CUDA_KERNEL_NODE_PARAMS p = { .func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64,
                                  .blockDimY = 1, .blockDimZ = 1 };
    printf("launch of 1 %d", launch_shaped(f, 1, NULL, 0));
    printf(", of 64 %d", launch(f, 1, 64, NULL, 0));
    NEED(CALL(cuGraphCreate, (CUgraph *, unsigned), &graph, 0));
    CUresult r = CALL(cuGraphAddKernelNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                               const CUDA_KERNEL_NODE_PARAMS *), &node, graph, NULL, 0, &p);
    printf("; node %d", r);
    if (!r)
        printf(", instantiate %d", CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long),
                                        &executable, graph, 0));
    CUstream stream = new_stream();
    NEED(CALL(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode), stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("; captured launch %d", CALL(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                                         unsigned, unsigned, CUstream, void **, void **),
                                        f, 1, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
    printf(", end %d", CALL(cuStreamEndCapture, (CUstream, CUgraph *), stream, &captured));
    int value = -1;
    for (int id = 0; id < 24; id++) {
        r = CALL(cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction), &value, (CUfunction_attribute)id, f);
        printf(id ? " %d" : "; attributes %d", r ? -(int)r : value);
    }
}

/* A kernel is launched for the first time, in a stream of its own, while another one runs. */
static void first_launch(int prepared)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry late()\n{\n ret;\n}\n";
    CUmodule own;
    CUfunction late;
    int registers = 0;
    start();
    CUfunction wait = kernel("wait");
    CUdeviceptr flag = allocate(4);
    CUstream first = new_stream(), second = new_stream();
    NEED(CALL(cuModuleLoadData, (CUmodule *, const void *), &own, text));
    NEED(CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &late, own, "late"));
    if (prepared == 1)
        NEED(CALL(cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction), &registers,
                  CU_FUNC_ATTRIBUTE_NUM_REGS, late));
    if (prepared == 2)
        NEED(CALL(cuFuncLoad, (CUfunction), late));
    NEED(launch(wait, 1, 1, first, flag));
    double t = now();
    printf("launch ");
    fflush(stdout);
    CUresult r = CALL(
        cuLaunchKernel,
        (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **),
        late, 1, 1, 1, 1, 1, 1, 0, second, NULL, NULL);
    printf("%d after %.0f us", r, (now() - t) * 1e6);
    fflush(stdout);
    r = CALL(cuStreamSynchronize, (CUstream), second);
    printf(", it ends with %d after %.0f us", r, (now() - t) * 1e6);
    store(flag, 1);
    printf("; all %d", synchronize());
}

static void first_launch_lazy(void) { first_launch(0); }
static void first_launch_asked(void) { first_launch(1); }
static void first_launch_loaded(void) { first_launch(2); }

const struct fact code_facts[] = {
    {"first-launch-lazy", first_launch_lazy, "may wait for the kernel that runs"},
    {"first-launch-asked", first_launch_asked, "may wait, too"},
    {"first-launch-loaded", first_launch_loaded, "does not wait"},
    {"device-linked", device_linked, "a wrapper with parts only by cuLibraryLoadData, a link of the parts works"},
    {"cluster-codes", cluster_codes, "912 for all that is wrong"},
    {"required-block", required_block, "of 1: 0, of 64: 1 at the launch"},
    {NULL, NULL, NULL},
};
