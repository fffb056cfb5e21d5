/*
 * A program sets what can be set, moves between two servers with the software GPU (core_move, docs/moving.md), and
 * reads everything back: nothing is different. Arguments: unix or tcp, and the path of cricket-rpc-server; and
 * `suspend`, if sessions are to be suspended and resumed in place of moves. Each test in a process of its own.
 *
 * shows: moving: what a program has set it reads back after moves: limits, preferences, attributes of functions,
 *   streams, pools, pointers and graphs, advice, texture references, rights; what it was told of its device stays
 * shows: moving: preferences of kernels that nobody can ask for are said to the new server
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/core/moved_program.h"
#include "tests/lib/unit.h"

enum { BYTES = 4 << 20, TEXT_MOST = 1 << 16, LIMITS = 10, DEVICE_ATTRIBUTES = 160, FUNCTION_ATTRIBUTES = 16,
       STREAM_ATTRIBUTES = 16, POOL_ATTRIBUTES = 9, POINTER_ATTRIBUTES = 22, RANGE_ATTRIBUTES = 9 };

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.global .texref words;\n"
                          ".visible .entry first(.param .u64 a) {\n"
                          "  .reg .u64 %a; .reg .u32 %r<5>; ld.param.u64 %a, [a];\n"
                          "  tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [words, {%r1}]; ret; }\n"
                          ".visible .entry second() { ret; }\n";

static bool suspends;
static CUdevice device;
static CUcontext context;
static CUfunction functions[2];
static CUkernel kernel;
static CUstream streams[2];
static CUmemoryPool pool;
static CUtexref texref;
static CUdeviceptr memory, managed, mapped;
static CUgraphExec graph;
static CUgraphNode nodes[2];

static void move_to(int number) { moved_to(number, suspends, 0); }

/* ---- what is set ---- */

static void begin(void)
{
    CUmodule module;
    CUlibrary library;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxSetFlags_v2(device, 4 /* CU_CTX_SCHED_BLOCKING_SYNC */));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&functions[0], module, "first"));
    OK(cuModuleGetFunction(&functions[1], module, "second"));
    OK(cuModuleGetTexRef(&texref, module, "words"));
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "second"));
    OK(cuMemAlloc_v2(&memory, BYTES));
    OK(cuMemAllocManaged(&managed, BYTES, 1));
}

static void set_of_context(void)
{
    static const size_t limits[] = { 5120, 3 << 20, 24 << 20, 3, 1000, 64 };
    for (int i = 0; i < 6; i++) /* 3: of kernels that wait for kernels, which capability 9.0 has no more */
        CHECK(cuCtxSetLimit((CUlimit)i, limits[i]) == (i == 3 ? 215 : 0));
    OK(cuCtxSetCacheConfig(2));
    OK(cuCtxSetSharedMemConfig(2));
    OK(cuCtxSetFlags(8 /* map host */ | 4));
}

static void set_of_functions(void)
{
    OK(cuFuncSetAttribute(functions[0], 8 /* dynamic shared memory */, 40000));
    OK(cuFuncSetAttribute(functions[0], 9 /* carveout */, 37));
    OK(cuFuncSetAttribute(functions[1], 14 /* non-portable clusters */, 1));
    OK(cuKernelSetAttribute(8, 12345, kernel, device));
    OK(cuFuncSetCacheConfig(functions[0], 1));
    OK(cuFuncSetCacheConfig(functions[1], 3));
    OK(cuKernelSetCacheConfig(kernel, 2, device));
}

static void set_of_streams(void)
{
    CUstreamAttrValue value = { .value = { 2 /* yield */ } };
    OK(cuStreamCreateWithPriority(&streams[0], 1 /* non-blocking */, -3));
    OK(cuStreamCreate(&streams[1], 0));
    OK(cuStreamSetAttribute(streams[0], 3 /* synchronisation policy */, &value));
    value.value[0] = 3;
    OK(cuStreamSetAttribute(streams[1], 3, &value));
}

static void set_of_memory(void)
{
    const CUmemLocation here = { .type = 1, .id = device };
    CUmemPoolProps props = { .allocType = 1, .location = here };
    CUmemAccessDesc may = { .location = here, .flags = 1 /* read */ };
    CUmemAllocationProp prop = { .type = 1, .location = here };
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ordered;
    uint64_t threshold = 77 << 20;
    int no = 0, yes = 1;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &no));
    OK(cuDeviceSetMemPool(device, pool));
    OK(cuMemAllocAsync(&ordered, BYTES, streams[1]));
    OK(cuMemFreeAsync(ordered, streams[1]));
    OK(cuStreamSynchronize(streams[1]));
    OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    OK(cuMemAdvise_v2(managed, BYTES / 2, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    OK(cuMemAdvise_v2(managed, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
    OK(cuMemAdvise_v2(managed, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
    OK(cuMemCreate(&handle, BYTES, &prop, 0));
    OK(cuMemAddressReserve(&mapped, BYTES, 0, 0, 0));
    OK(cuMemMap(mapped, BYTES, 0, handle, 0));
    OK(cuMemSetAccess(mapped, BYTES, &may, 1));
}

static void set_of_texref(void)
{
    float colour[4] = { 0.25f, 0.5f, 0.75f, 1 };
    size_t offset;
    OK(cuTexRefSetFormat(texref, 3 /* u32 */, 1));
    OK(cuTexRefSetAddress_v2(&offset, texref, memory, 4096));
    OK(cuTexRefSetAddressMode(texref, 0, 1));
    OK(cuTexRefSetFilterMode(texref, 0));
    OK(cuTexRefSetFlags(texref, 1));
    OK(cuTexRefSetMaxAnisotropy(texref, 4));
    OK(cuTexRefSetMipmapLevelBias(texref, 1.5f));
    OK(cuTexRefSetMipmapLevelClamp(texref, 0.5f, 2.5f));
    OK(cuTexRefSetBorderColor(texref, colour));
}

static void set_of_graph(void)
{
    CUgraph made;
    CUDA_KERNEL_NODE_PARAMS p = { .func = functions[1], .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
                                  .blockDimY = 1, .blockDimZ = 1 };
    OK(cuGraphCreate(&made, 0));
    OK(cuGraphAddKernelNode_v2(&nodes[0], made, NULL, 0, &p));
    OK(cuGraphAddKernelNode_v2(&nodes[1], made, &nodes[0], 1, &p));
    OK(cuGraphInstantiateWithFlags(&graph, made, 0));
    OK(cuGraphNodeSetEnabled(graph, nodes[1], 0));
    OK(cuGraphLaunch(graph, streams[0]));
    OK(cuStreamSynchronize(streams[0]));
}

/* ---- what is read back ---- */

struct text { char bytes[TEXT_MOST]; size_t size; };

/* A line: name, number, code, and so many bytes if the code is 0. */
static void note(struct text *text, const char *name, int number, int code, const void *value, size_t size)
{
    int length = snprintf(text->bytes + text->size, TEXT_MOST - text->size, "%s %d: %d", name, number, code);
    text->size += (size_t)length;
    for (size_t i = 0; i < size && !code; i++)
        text->size += (size_t)snprintf(text->bytes + text->size, TEXT_MOST - text->size, " %02x",
                                       ((const uint8_t *)value)[i]);
    text->bytes[text->size++] = '\n';
    CHECK(text->size < TEXT_MOST - 256);
}
#define NOTE(text, name, number, value, call) \
    do { \
        memset(&(value), 0, sizeof(value)); \
        const int code = (call); \
        note(text, name, number, code, &(value), sizeof(value)); \
    } while (0)

static void read_device(struct text *t)
{
    char name[256];
    CUuuid uuid;
    size_t bytes, total;
    int number, least, greatest;
    for (int i = 1; i < DEVICE_ATTRIBUTES; i++)
        NOTE(t, "device attribute", i, number, cuDeviceGetAttribute(&number, (CUdevice_attribute)i, device));
    NOTE(t, "device name", 0, name, cuDeviceGetName(name, sizeof name, device));
    NOTE(t, "uuid", 0, uuid, cuDeviceGetUuid_v2(&uuid, device));
    NOTE(t, "bus", 0, name, cuDeviceGetPCIBusId(name, sizeof name, device));
    NOTE(t, "memory", 0, bytes, cuDeviceTotalMem_v2(&bytes, device));
    NOTE(t, "memory at all", 0, total, cuMemGetInfo_v2(&bytes, &total));
    NOTE(t, "least priority", 0, least, cuCtxGetStreamPriorityRange(&least, &greatest));
    NOTE(t, "greatest priority", 0, greatest, cuCtxGetStreamPriorityRange(&least, &greatest));
}

static void read_context(struct text *t)
{
    size_t bytes;
    unsigned flags;
    unsigned long long id;
    CUfunc_cache cache;
    CUsharedconfig banks;
    int active;
    for (int i = 0; i < LIMITS; i++)
        NOTE(t, "limit", i, bytes, cuCtxGetLimit(&bytes, (CUlimit)i));
    NOTE(t, "cache", 0, cache, cuCtxGetCacheConfig(&cache));
    NOTE(t, "banks", 0, banks, cuCtxGetSharedMemConfig(&banks));
    NOTE(t, "flags", 0, flags, cuCtxGetFlags(&flags));
    NOTE(t, "id", 0, id, cuCtxGetId(context, &id));
    NOTE(t, "version", 0, flags, cuCtxGetApiVersion(context, &flags));
    NOTE(t, "primary", 0, flags, cuDevicePrimaryCtxGetState(device, &flags, &active));
}

static void read_functions(struct text *t)
{
    int value;
    for (int i = 0; i < FUNCTION_ATTRIBUTES; i++) {
        for (int f = 0; f < 2; f++)
            NOTE(t, "function", 100 * f + i, value,
                 cuFuncGetAttribute(&value, (CUfunction_attribute)i, functions[f]));
        NOTE(t, "kernel", i, value, cuKernelGetAttribute(&value, (CUfunction_attribute)i, kernel, device));
    }
    NOTE(t, "blocks", 0, value, cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, functions[0], 64, 20000));
}

static void read_streams(struct text *t)
{
    CUstreamAttrValue value;
    unsigned long long id;
    unsigned flags;
    int priority;
    for (int s = 0; s < 2; s++) {
        for (int i = 1; i < STREAM_ATTRIBUTES; i++)
            NOTE(t, "stream", 100 * s + i, value, cuStreamGetAttribute(streams[s], (CUstreamAttrID)i, &value));
        NOTE(t, "stream id", s, id, cuStreamGetId(streams[s], &id));
        NOTE(t, "stream flags", s, flags, cuStreamGetFlags(streams[s], &flags));
        NOTE(t, "stream priority", s, priority, cuStreamGetPriority(streams[s], &priority));
    }
}

static void read_memory(struct text *t)
{
    const CUdeviceptr places[] = { memory, managed, mapped };
    CUmemLocation here = { .type = 1, .id = device };
    unsigned long long value;
    CUmemAccess_flags may;
    CUmemoryPool current;
    int numbers[4];
    for (int i = 1; i < POOL_ATTRIBUTES; i++)
        NOTE(t, "pool", i, value, cuMemPoolGetAttribute(pool, (CUmemPool_attribute)i, &value));
    NOTE(t, "pool's access", 0, may, cuMemPoolGetAccess(&may, pool, &here));
    NOTE(t, "the device's pool", 0, current, cuDeviceGetMemPool(&current, device));
    for (int i = 0; i < 4; i++)
        NOTE(t, "graphs' memory", i, value, cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)i, &value));
    for (int i = 1; i < POINTER_ATTRIBUTES; i++)
        for (int p = 0; p < 3; p++)
            NOTE(t, "pointer", 100 * p + i, value, cuPointerGetAttribute(&value, (CUpointer_attribute)i, places[p]));
    for (int i = 1; i < RANGE_ATTRIBUTES; i++)
        NOTE(t, "range", i, numbers,
             cuMemRangeGetAttribute(numbers, i == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? sizeof numbers : 4,
                                    (CUmem_range_attribute)i, managed, BYTES / 2));
    NOTE(t, "access", 0, value, cuMemGetAccess(&value, &here, mapped));
}

static void read_texref(struct text *t)
{
    float number, colour[4];
    CUarray_format format;
    CUaddress_mode mode;
    CUfilter_mode filter;
    CUdeviceptr at;
    int value;
    unsigned flags;
    NOTE(t, "texref", 1, at, cuTexRefGetAddress_v2(&at, texref));
    NOTE(t, "texref", 2, format, cuTexRefGetFormat(&format, &value, texref));
    NOTE(t, "texref", 3, mode, cuTexRefGetAddressMode(&mode, texref, 0));
    NOTE(t, "texref", 4, filter, cuTexRefGetFilterMode(&filter, texref));
    NOTE(t, "texref", 5, flags, cuTexRefGetFlags(&flags, texref));
    NOTE(t, "texref", 6, value, cuTexRefGetMaxAnisotropy(&value, texref));
    NOTE(t, "texref", 7, number, cuTexRefGetMipmapLevelBias(&number, texref));
    NOTE(t, "texref", 8, number, cuTexRefGetMipmapLevelClamp(&colour[0], &number, texref));
    NOTE(t, "texref", 9, colour, cuTexRefGetBorderColor(colour, texref));
}

static void read_graph(struct text *t)
{
    unsigned enabled;
    for (int i = 0; i < 2; i++)
        NOTE(t, "node", i, enabled, cuGraphNodeGetEnabled(graph, nodes[i], &enabled));
}

static void read_all(struct text *t)
{
    t->size = 0;
    read_device(t);
    read_context(t);
    read_functions(t);
    read_streams(t);
    read_memory(t);
    read_texref(t);
    read_graph(t);
}

/* The first line that differs. */
static void compare(const struct text *before, const struct text *after)
{
    const char *a = before->bytes, *b = after->bytes;
    while (*a && *b) {
        const char *end_a = strchr(a, '\n'), *end_b = strchr(b, '\n');
        if (end_a - a != end_b - b || memcmp(a, b, (size_t)(end_a - a)) != 0) {
            fprintf(stderr, "before: %.*s\nafter:  %.*s\n", (int)(end_a - a), a, (int)(end_b - b), b);
            _exit(1);
        }
        a = end_a + 1;
        b = end_b + 1;
    }
}

static void body_settings(void)
{
    static struct text before, after;
    begin();
    set_of_context();
    set_of_functions();
    set_of_streams();
    set_of_memory();
    set_of_texref();
    set_of_graph();
    read_all(&before);
    for (int i = 1; i <= 3; i++) {
        move_to(i % 2);
        read_all(&after);
        compare(&before, &after);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

/* Three settings, and three more for each of two moves. */
static void body_said(void)
{
    setenv("FLYT_STATS", "json", 1);
    begin();
    set_of_functions();
    move_to(1);
    move_to(0);
    OK(cuCtxSynchronize());
}

TEST(settings) { assert_int_equal(isolated(body_settings, 60), 0); }
TEST(preferences_said)
{
    static char output[1 << 16];
    assert_int_equal(isolated_output(body_said, 60, output, sizeof output), 0);
    const char *row = strstr(output, "FUNC_SET_CACHE_CONFIG");
    if (!row || !strstr(row, "\"calls\": 9") || strstr(row, "\"calls\": 9") - row > 60)
        fail_msg("%.200s", row ? row : "it was never said");
}

int main(int argc, char **argv)
{
    suspends = argc > 3 && strcmp(argv[3], "suspend") == 0;
    return two_servers_run(argc, argv, " [suspend]");
}
