/*
 * Programs of four threads with objects of nearly all kinds move many times between two servers with the software GPU
 * (core_move, docs/moving.md): they compute the same as without. Arguments: unix, tcp or mixed (one of each), the path
 * of cricket-rpc-server, and for the random programs the first seed and how many; `lose`: only the programs that lose
 * their server. Each test in a process of its own.
 *
 * shows: moving: random programs of several threads with streams, events, graphs, pools, mapped handles, managed
 *   memory, arrays, textures, surfaces, pinned memory, modules and a heap compute the same while they move fifty times,
 *   or are suspended and resumed in between, between servers that are reached in the same way and in different ways,
 *   also with chaos; what they have set they read back
 * shows: recovery: such programs compute the same when their GPU server is killed twelve times, while checkpoints are
 *   made all the time and the journal begins with the last one
 * shows: moving: texture references stay bound; an event that a graph records has the time of the last record
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/driver/types.h"
#define GATE_PROTOTYPES
#include "api/driver/gate_calls.inc"
#include "cpu/client/core/core.h"
#include "tests/lib/unit.h"
#include "isolated.h"
#include "two_servers.h"

#define OK(call) check_ok((call), #call, __LINE__)

static void check_ok(int code, const char *call, int line)
{
    if (code) {
        fprintf(stderr, "line %d: %s gives %d\n", line, call, code);
        _exit(1);
    }
}

/* Blocks of 32 threads. fill(a, n, v); add(a, n): adds its index to each word. paint(surface, v): row 0 is v + x;
   look(texture, out): row 0. push(size, v), pop(), walk(out): a list in memory of malloc(). bound(out): the words of a
   texture reference. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.global .align 8 .u64 first;\n.global .texref words;\n"
    ".extern .func (.param .b64 r) malloc(.param .b64 s);\n.extern .func free(.param .b64 p);\n"
    ".visible .entry fill(.param .u64 a, .param .u32 n, .param .u32 v) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n"
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [n]; ld.param.u32 %i2, [v]; mov.u32 %i3, %tid.x;\n"
    "L: setp.ge.u32 %p, %i3, %i1; @%p ret;\n"
    "  mad.wide.u32 %a2, %i3, 4, %a1; st.global.u32 [%a2], %i2; add.u32 %i3, %i3, 32; bra L;\n}\n"
    ".visible .entry add(.param .u64 a, .param .u32 n) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n"
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [n]; mov.u32 %i3, %tid.x;\n"
    "L: setp.ge.u32 %p, %i3, %i1; @%p ret;\n"
    "  mad.wide.u32 %a2, %i3, 4, %a1; ld.global.u32 %i2, [%a2]; add.u32 %i2, %i2, %i3; st.global.u32 [%a2], %i2;\n"
    "  add.u32 %i3, %i3, 32; bra L;\n}\n"
    ".visible .entry paint(.param .u64 s, .param .u32 v) {\n"
    "  .reg .u64 %s; .reg .u32 %v, %x, %b, %y;\n"
    "  ld.param.u64 %s, [s]; ld.param.u32 %v, [v]; mov.u32 %x, %tid.x; add.u32 %v, %v, %x; shl.b32 %b, %x, 2;\n"
    "  mov.u32 %y, 0; sust.b.2d.b32.zero [%s, {%b, %y}], {%v}; ret;\n}\n"
    ".visible .entry look(.param .u64 t, .param .u64 o) {\n"
    "  .reg .u64 %t, %o, %a; .reg .u32 %x, %r<4>; .reg .f32 %f<2>;\n"
    "  ld.param.u64 %t, [t]; ld.param.u64 %o, [o]; mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f0, %x;\n"
    "  add.f32 %f0, %f0, 0f3F000000; mov.f32 %f1, 0f3F000000;\n"
    "  tex.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}];\n"
    "  mad.wide.u32 %a, %x, 4, %o; st.global.u32 [%a], %r0; ret;\n}\n"
    ".visible .entry push(.param .u64 s, .param .u32 v) {\n"
    "  .reg .u64 %s, %n, %f; .reg .u32 %v, %t; .reg .pred %p;\n"
    "  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p ret;\n"
    "  ld.param.u64 %s, [s]; ld.param.u32 %v, [v];\n"
    "  { .param .b64 a; .param .b64 r; st.param.b64 [a], %s; call (r), malloc, (a); ld.param.b64 %n, [r]; }\n"
    "  setp.eq.u64 %p, %n, 0; @%p ret; ld.global.u64 %f, [first]; st.global.u64 [%n], %f; st.global.u32 [%n+8], %v;\n"
    "  st.global.u64 [first], %n; ret;\n}\n"
    ".visible .entry pop() {\n"
    "  .reg .u64 %n, %f; .reg .u32 %t; .reg .pred %p;\n"
    "  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p ret;\n"
    "  ld.global.u64 %n, [first]; setp.eq.u64 %p, %n, 0; @%p ret; ld.global.u64 %f, [%n]; st.global.u64 [first], %f;\n"
    "  { .param .b64 a; st.param.b64 [a], %n; call free, (a); }\n  ret;\n}\n"
    ".visible .entry walk(.param .u64 o) {\n"
    "  .reg .u64 %n, %o; .reg .u32 %v, %s; .reg .pred %p;\n"
    "  ld.param.u64 %o, [o]; ld.global.u64 %n, [first]; mov.u32 %s, 0;\n"
    "L: setp.eq.u64 %p, %n, 0; @%p bra E; ld.global.u32 %v, [%n+8]; mad.lo.u32 %s, %s, 31, %v;\n"
    "  ld.global.u64 %n, [%n]; bra L;\n"
    "E: st.global.u32 [%o], %s; ret;\n}\n"
    ".visible .entry bound(.param .u64 o) {\n"
    "  .reg .u64 %o, %a; .reg .u32 %x, %r<4>;\n"
    "  ld.param.u64 %o, [o]; mov.u32 %x, %tid.x; tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [words, {%x}];\n"
    "  mad.wide.u32 %a, %x, 4, %o; st.global.u32 [%a], %r0; ret;\n}\n";

static CUcontext context;
static bool chaotic;
static char why[512];

static void begin(void)
{
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
}

static int try_move(int number, unsigned limit_ms)
{
    two_servers_bridge(number);
    return core_move(server_uris[number], limit_ms, why, sizeof why);
}

static void move_to(int number)
{
    int code = try_move(number, 30000);
    if (code)
        fprintf(stderr, "not moved: %d: %s\n", code, why);
    CHECK(code == 0);
}

/* With its own threads at the gate meanwhile. */
static void suspend_and_resume(int number)
{
    int code = core_suspend(30000, why, sizeof why);
    if (!code)
        code = core_resume(server_uris[number], why, sizeof why);
    if (code)
        fprintf(stderr, "not suspended and resumed: %d: %s\n", code, why);
    CHECK(code == 0);
}

/* ---- random programs ---- */

enum { THREADS = 4, BLOCKS = 3, WORDS = 8192, BYTES = 4 * WORDS, STEPS = 300, MOVES = 50, GRANULE = 2 << 20,
       SUSPENDS_EACH = 7, BLOWS = 12 };

static atomic_int moves_done, threads_left;
static atomic_uint steps;
static bool moving, losing, striking;

/* What a thread has. Its own module has its list. */
struct worker {
    pthread_t thread;
    uint64_t seed, hash;
    atomic_uint called;                       /* by host functions */
    CUmodule module;
    CUfunction fill, add, paint, look, push, pop, walk;
    CUstream stream;
    CUevent event, timed[2];
    CUdeviceptr block[BLOCKS], out, managed, mapped;
    CUmemGenericAllocationHandle handle;
    CUmemGenericAllocationHandle host_handle;
    uint32_t *host;
    CUmemoryPool pool;
    uint32_t *pinned;
    CUdeviceptr pinned_device;
    CUarray array;
    CUtexObject texture;
    CUsurfObject surface;
    CUgraphExec graph;
    uint32_t graph_block;
};

static uint32_t roll(struct worker *w, uint32_t below)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->seed >> 33) % below;
}

static void mix(struct worker *w, const void *bytes, size_t size)
{
    for (const uint8_t *at = bytes; size--; at++)
        w->hash = (w->hash ^ *at) * UINT64_C(1099511628211);
}

static void launch(struct worker *w, CUfunction f, void **arguments)
{
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, w->stream, arguments, NULL));
}

static void fill(struct worker *w, CUdeviceptr at, uint32_t count, uint32_t value)
{
    launch(w, w->fill, (void *[]){ &at, &count, &value });
}

static void add(struct worker *w, CUdeviceptr at, uint32_t count)
{
    launch(w, w->add, (void *[]){ &at, &count });
}

static void called(void *count)
{
    int version;
    OK(cuDriverGetVersion(&version));         /* the thread of host functions passes the gate */
    atomic_fetch_add((atomic_uint *)count, 1);
}

static void module_load(struct worker *w)
{
    OK(cuModuleLoadData(&w->module, ptx));
    OK(cuModuleGetFunction(&w->fill, w->module, "fill"));
    OK(cuModuleGetFunction(&w->add, w->module, "add"));
    OK(cuModuleGetFunction(&w->paint, w->module, "paint"));
    OK(cuModuleGetFunction(&w->look, w->module, "look"));
    OK(cuModuleGetFunction(&w->push, w->module, "push"));
    OK(cuModuleGetFunction(&w->pop, w->module, "pop"));
    OK(cuModuleGetFunction(&w->walk, w->module, "walk"));
}

/* What two threads make at the same moment may come out in the other order at another server, which is a loss. */
static pthread_mutex_t one_after_the_other = PTHREAD_MUTEX_INITIALIZER;

static void begin_making(void)
{
    if (losing)
        pthread_mutex_lock(&one_after_the_other);
}

static void end_making(void)
{
    if (losing)
        pthread_mutex_unlock(&one_after_the_other);
}

static void picture_new(struct worker *w, uint32_t value)
{
    const CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 32, .Height = 4, .Format = 3, .NumChannels = 1, .Flags = 2 };
    uint32_t rows[4][32];
    for (uint32_t i = 0; i < 4 * 32; i++)
        rows[i / 32][i % 32] = value + i;
    begin_making();
    OK(cuArray3DCreate_v2(&w->array, &shape));
    const CUDA_MEMCPY3D copy = { .WidthInBytes = sizeof rows[0], .Height = 4, .Depth = 1, .srcMemoryType = 1,
                                 .srcHost = rows, .srcPitch = sizeof rows[0], .srcHeight = 4, .dstMemoryType = 3,
                                 .dstArray = w->array };
    OK(cuMemcpy3D_v2(&copy));
    const CUDA_RESOURCE_DESC from = { .resType = 0, .res.array = { w->array } };
    OK(cuSurfObjectCreate(&w->surface, &from));
    OK(cuTexObjectCreate(&w->texture, &from, &(CUDA_TEXTURE_DESC){ .flags = 1 /* integers */ }, NULL));
    end_making();
}

static void picture_end(struct worker *w)
{
    begin_making();
    OK(cuTexObjectDestroy(w->texture));
    OK(cuSurfObjectDestroy(w->surface));
    OK(cuArrayDestroy(w->array));
    end_making();
}

/* Two kernels and an event on a block. */
static void graph_new(struct worker *w)
{
    CUgraph graph;
    OK(cuStreamBeginCapture_v2(w->stream, 2 /* relaxed */));
    w->graph_block = roll(w, BLOCKS);
    add(w, w->block[w->graph_block], WORDS / 2);
    OK(cuMemsetD32Async(w->block[w->graph_block], w->graph_block, 16, w->stream));
    add(w, w->block[w->graph_block], WORDS);
    OK(cuStreamEndCapture(w->stream, &graph));
    OK(cuGraphInstantiateWithFlags(&w->graph, graph, 0));
    OK(cuGraphDestroy(graph));
}

/* Memory of the host, for kernels and for the program. */
static void host_new(struct worker *w)
{
    const CUmemAllocationProp what = { .type = 1, .location = { .type = 2 } };
    const CUmemAccessDesc access[2] = { { .location = { .type = 1 }, .flags = 3 },
                                        { .location = { .type = 2 }, .flags = 3 } };
    CUdeviceptr at;
    if (losing) {                             /* kernels would reach it, and nobody could repeat that */
        w->host = calloc(WORDS, sizeof *w->host);
        return;
    }
    OK(cuMemCreate(&w->host_handle, GRANULE, &what, 0));
    OK(cuMemAddressReserve(&at, GRANULE, 0, 0, 0));
    OK(cuMemMap(at, GRANULE, 0, w->host_handle, 0));
    OK(cuMemSetAccess(at, GRANULE, access, 2));
    w->host = (uint32_t *)at;
    memset(w->host, 1, BYTES);
}

static void host_end(struct worker *w)
{
    if (losing) {
        free(w->host);
        return;
    }
    OK(cuMemUnmap((CUdeviceptr)w->host, GRANULE));
    OK(cuMemAddressFree((CUdeviceptr)w->host, GRANULE));
    OK(cuMemRelease(w->host_handle));
}

static void mapped_new(struct worker *w)
{
    const CUmemAllocationProp what = { .type = 1, .location = { .type = 1 } };
    const CUmemAccessDesc access = { .location = { .type = 1 }, .flags = 3 };
    OK(cuMemCreate(&w->handle, GRANULE, &what, 0));
    OK(cuMemAddressReserve(&w->mapped, GRANULE, 0, 0, 0));
    OK(cuMemMap(w->mapped, GRANULE, 0, w->handle, 0));
    OK(cuMemSetAccess(w->mapped, GRANULE, &access, 1));
    fill(w, w->mapped, WORDS, 5);
    host_new(w);
}

static void mapped_end(struct worker *w)
{
    OK(cuStreamSynchronize(w->stream));
    OK(cuMemUnmap(w->mapped, GRANULE));
    OK(cuMemAddressFree(w->mapped, GRANULE));
    OK(cuMemRelease(w->handle));
    host_end(w);
}

static void worker_begin(struct worker *w)
{
    OK(cuCtxSetCurrent(context));
    begin_making();
    module_load(w);
    end_making();
    OK(cuStreamCreate(&w->stream, 1));
    OK(cuEventCreate(&w->event, 2));
    for (int i = 0; i < 2; i++) {
        OK(cuEventCreate(&w->timed[i], 0));
        OK(cuEventRecord(w->timed[i], w->stream));
    }
    OK(cuMemHostAlloc((void **)&w->pinned, BYTES, losing ? 0 : 2 /* mapped */));
    memset(w->pinned, 0, BYTES);
    if (!losing)
        OK(cuMemHostGetDevicePointer_v2(&w->pinned_device, w->pinned, 0));
    OK(cuMemAllocManaged(&w->managed, BYTES, 1));
    OK(cuStreamAttachMemAsync(w->stream, w->managed, 0, 4 /* this stream only */));
    OK(cuStreamSynchronize(w->stream));
    memset((void *)w->managed, 0, BYTES);
    OK(cuMemAlloc_v2(&w->out, 4096));
    for (uint32_t i = 0; i < BLOCKS; i++) {
        OK(cuMemAlloc_v2(&w->block[i], BYTES));
        fill(w, w->block[i], WORDS, i);
    }
    OK(cuMemPoolCreate(&w->pool, &(CUmemPoolProps){ .allocType = 1, .location = { .type = 1 } }));
    picture_new(w, 7);
    mapped_new(w);
    graph_new(w);
}

/* What is set is there until it is set again; nobody but this thread sets it. */
static void settings(struct worker *w, uint32_t value)
{
    uint64_t threshold = (uint64_t)value << 20;
    int attribute, priority;
    if (value % 4 == 0)
        OK(cuFuncSetAttribute(w->fill, 8 /* dynamic shared memory */, (int)value * 16));
    else if (value % 4 == 1)
        OK(cuFuncSetCacheConfig(w->add, (CUfunc_cache)(value / 4 % 4)));
    else if (value % 4 == 2)
        OK(cuMemPoolSetAttribute(w->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuFuncGetAttribute(&attribute, (CUfunction_attribute)8, w->fill));
    OK(cuMemPoolGetAttribute(w->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuStreamGetPriority(w->stream, &priority));
    mix(w, &attribute, sizeof attribute);
    mix(w, &threshold, sizeof threshold);
    mix(w, &priority, sizeof priority);
}

static void stream_again(struct worker *w, uint32_t value)
{
    OK(cuStreamSynchronize(w->stream));
    OK(cuStreamDestroy_v2(w->stream));
    OK(cuStreamCreateWithPriority(&w->stream, 1, -(int)(value % 3)));
    OK(cuStreamAttachMemAsync(w->stream, w->managed, 0, 4 /* this stream only */));
    OK(cuStreamSynchronize(w->stream));
}

static void step_of(struct worker *w)
{
    static _Thread_local uint32_t host[WORDS];
    const uint32_t b = roll(w, BLOCKS), o = roll(w, BLOCKS), value = roll(w, 1000);
    uint64_t bytes = 16 + roll(w, 20000);
    uint32_t *managed = (uint32_t *)w->managed;
    uint32_t before;
    CUdeviceptr got;
    float ms;
    switch (roll(w, 26)) {
    case 0:
        fill(w, w->block[b], WORDS / 2, value);
        break;
    case 1:
        add(w, w->block[b], WORDS);
        break;
    case 2:
        for (uint32_t i = 0; i < WORDS; i++)
            host[i] = value + i;
        OK(cuMemcpyHtoDAsync_v2(w->block[b], host, BYTES, w->stream));
        OK(cuStreamSynchronize(w->stream));
        break;
    case 3:
        OK(cuMemcpyDtoHAsync_v2(w->pinned, w->block[b], BYTES, w->stream));
        OK(cuEventRecord(w->event, w->stream));
        OK(cuEventSynchronize(w->event));
        mix(w, w->pinned, BYTES);
        break;
    case 4:
        if (b != o)
            OK(cuMemcpyDtoDAsync_v2(w->block[b], w->block[o], BYTES, w->stream));
        break;
    case 5:
        before = atomic_load(&w->called);
        OK(cuLaunchHostFunc(w->stream, called, &w->called));
        OK(cuStreamSynchronize(w->stream));
        w->hash += atomic_load(&w->called) - before;
        break;
    case 6:
        OK(cuStreamSynchronize(w->stream));
        OK(cuMemFree_v2(w->block[b]));
        OK(cuMemAlloc_v2(&w->block[b], BYTES));
        fill(w, w->block[b], WORDS, value);
        OK(cuGraphExecDestroy(w->graph));
        graph_new(w);
        break;
    case 7:
    case 8:
    case 9:
        OK(cuGraphLaunch(w->graph, w->stream));
        break;
    case 10:
        OK(cuGraphExecDestroy(w->graph));
        graph_new(w);
        break;
    case 11:
        OK(roll(w, 2) ? cuMemAllocAsync(&got, BYTES, w->stream)
                      : cuMemAllocFromPoolAsync(&got, BYTES, w->pool, w->stream));
        fill(w, got, WORDS, value);
        OK(cuMemcpyDtoDAsync_v2(w->block[b], got, BYTES / 2, w->stream));
        OK(cuMemFreeAsync(got, w->stream));
        break;
    case 12:
        OK(cuStreamSynchronize(w->stream));
        managed[value] = value;
        mix(w, managed + b * 1024, 1024);
        w->host[value] += value;
        mix(w, w->host + b * 1024, 1024);
        break;
    case 13:
        fill(w, w->managed + 4 * value, WORDS / 2, value);
        if (!losing)
            add(w, (CUdeviceptr)w->host, WORDS);
        break;
    case 14:
        OK(cuStreamSynchronize(w->stream));
        for (uint32_t i = 0; i < 64; i++)
            w->pinned[i] = value;
        if (!losing)
            add(w, w->pinned_device, 512);
        OK(cuStreamSynchronize(w->stream));
        mix(w, w->pinned, 4096);
        break;
    case 15:
        launch(w, w->paint, (void *[]){ &w->surface, &(uint32_t){ value } });
        break;
    case 16:
        launch(w, w->look, (void *[]){ &w->texture, &w->out });
        OK(cuMemcpyDtoHAsync_v2(host, w->out, 128, w->stream));
        OK(cuStreamSynchronize(w->stream));
        mix(w, host, 128);
        break;
    case 17:
        OK(cuStreamSynchronize(w->stream));
        picture_end(w);
        picture_new(w, value);
        break;
    case 18:
        add(w, w->mapped, WORDS);
        OK(cuMemcpyDtoDAsync_v2(w->block[b], w->mapped, BYTES, w->stream));
        break;
    case 19:
        if (roll(w, 3) == 0) {
            mapped_end(w);
            mapped_new(w);
        }
        break;
    case 20:
        launch(w, w->push, (void *[]){ &bytes, &(uint32_t){ value } });
        break;
    case 21:
        launch(w, w->pop, NULL);
        break;
    case 22:
        launch(w, w->walk, (void *[]){ &w->out });
        OK(cuMemcpyDtoHAsync_v2(host, w->out, 4, w->stream));
        OK(cuStreamSynchronize(w->stream));
        mix(w, host, 4);
        break;
    case 23:
        settings(w, value);
        break;
    case 24:
        if (roll(w, 3) == 0)
            stream_again(w, value);
        break;
    default:
        OK(cuEventRecord(w->timed[b % 2], w->stream));
        OK(cuEventSynchronize(w->timed[b % 2]));
        OK(cuEventElapsedTime(&ms, w->timed[!(b % 2)], w->timed[b % 2]));
        if (roll(w, 4) == 0) {
            OK(cuEventDestroy_v2(w->timed[0]));
            OK(cuEventCreate(&w->timed[0], 0));
            OK(cuEventRecord(w->timed[0], w->stream));
            OK(cuEventSynchronize(w->timed[0]));
        }
        OK(cuStreamSynchronize(w->stream));
        OK(cuMemcpyDtoH_v2(host, w->block[o], BYTES));
        mix(w, host, BYTES);
    }
}

static void *work(void *mine)
{
    struct worker *w = mine;
    static _Thread_local uint32_t host[WORDS];
    worker_begin(w);
    for (int step = 0; step < STEPS; step++) {
        /* The other side cannot come too late. */
        const int all = moving ? MOVES : BLOWS;
        while ((moving || striking) && step >= STEPS * (1 + atomic_load(&moves_done)) / (all + 1)) {
            CUresult result = cuStreamQuery(w->stream);
            CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
            usleep(100);
        }
        step_of(w);
        atomic_fetch_add(&steps, 1);
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < BLOCKS; i++) {
        OK(cuMemcpyDtoH_v2(host, w->block[i], BYTES));
        mix(w, host, BYTES);
    }
    mix(w, (const void *)w->managed, BYTES);
    mix(w, w->host, BYTES);
    OK(cuMemcpyDtoH_v2(host, w->mapped, BYTES));
    mix(w, host, BYTES);
    atomic_fetch_sub(&threads_left, 1);
    return NULL;
}

static uint64_t program_seed, first_seed = 1, seeds = 1;

/* At any moment: while a checkpoint is written, and just after it. Not again before the program has gone on. */
static void strike(void)
{
    static unsigned before;
    if (atomic_load(&steps) < before + THREADS) {
        usleep(2000);
        return;
    }
    before = atomic_load(&steps);
    usleep((useconds_t)(program_seed * 7919 + (uint64_t)atomic_load(&moves_done) * 104729) % 400000);
    if (two_servers_signal_workers(SIGKILL) > 0)
        atomic_fetch_add(&moves_done, 1);
}

static void program(void)
{
    static struct worker workers[THREADS];
    begin();
    atomic_store(&threads_left, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = program_seed * 100 + (uint64_t)i;
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; moving && atomic_load(&threads_left) && i < MOVES; i++) {
        if (i % SUSPENDS_EACH == SUSPENDS_EACH - 1)
            suspend_and_resume((i + 1) % 2);
        else
            move_to((i + 1) % 2);
        atomic_fetch_add(&moves_done, 1);
    }
    while (striking && atomic_load(&threads_left) && atomic_load(&moves_done) < BLOWS)
        strike();
    uint64_t hash = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        hash = hash * 31 + workers[i].hash;
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0 && (!moving || atomic_load(&moves_done) == MOVES));
    printf("X%016llx\n", (unsigned long long)hash);
}

static void body_still(void) { program(); }

static void body_moving(void)
{
    moving = true;
    program();
}

static void body_losing(void)
{
    striking = true;
    program();
}

/* Programs that lose their server again and again, and have no more of a journal than since the last checkpoint, unless
   the environment wishes another recovery. */
TEST(random_losses)
{
    const char *wish = getenv("FLYT_RECOVERY");
    char recovery[64];
    snprintf(recovery, sizeof recovery, "%s", wish ? wish : "checkpoint:150ms");
    losing = true;
    setenv("FLYT_PERF", "no_payload", 1);
    for (program_seed = first_seed; program_seed < first_seed + seeds; program_seed++) {
        static char still[2000], lost[65536];
        setenv("FLYT_RECOVERY", "off", 1);
        assert_int_equal(isolated_output(body_still, 60, still, sizeof still), 0);
        setenv("FLYT_RECOVERY", recovery, 1);
        assert_int_equal(isolated_output(body_losing, 240, lost, sizeof lost), 0);
        char *hash = strrchr(lost, 'X'); /* behind what the log said */
        if (!hash || strcmp(still, hash))
            fprintf(stderr, "# seed %llu\n", (unsigned long long)program_seed);
        assert_non_null(hash);
        assert_string_equal(still, hash);
    }
}

TEST(random_programs)
{
    for (program_seed = first_seed; program_seed < first_seed + seeds; program_seed++) {
        char still[2000], moved[2000];
        assert_int_equal(isolated_output(body_still, 60, still, sizeof still), 0);
        assert_int_equal(isolated_output(body_moving, 120, moved, sizeof moved), 0);
        if (strcmp(still, moved))
            fprintf(stderr, "# seed %llu%s\n", (unsigned long long)program_seed, chaotic ? ", with chaos" : "");
        assert_string_equal(still, moved);
    }
}

/* ---- events ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Between two moves there is no event with a time. */
static void body_times_end(void)
{
    CUevent event[2];
    float ms;
    begin();
    for (int i = 0; i < 2; i++) {
        OK(cuEventCreate(&event[0], 0));
        OK(cuEventRecord(event[0], 0));
        move_to(1);
        OK(cuEventCreate(&event[1], 0));
        OK(cuEventRecord(event[1], 0));
        OK(cuEventSynchronize(event[1]));
        OK(cuEventElapsedTime(&ms, event[0], event[1]));
        CHECK(ms > 0);
        OK(cuEventDestroy_v2(event[0]));
        OK(cuEventDestroy_v2(event[1]));
        move_to(0);
    }
}

/* A graph that the server keeps records an event again after the move. */
static void body_graph_records(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node, set;
    CUevent event, later;
    CUdeviceptr at;
    float ms;
    begin();
    OK(cuMemAlloc_v2(&at, 4096));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&later, 0));
    OK(cuGraphCreate(&graph, 0));
    const CUDA_MEMSET_NODE_PARAMS zero = { .dst = at, .elementSize = 4, .width = 16, .height = 1 };
    OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &zero, context));
    OK(cuGraphAddEventRecordNode(&node, graph, &set, 1, event));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 4; i++)
        OK(cuGraphLaunch(exec, 0));
    OK(cuCtxSynchronize());
    move_to(1);
    for (int i = 0; i < 4; i++) {
        usleep(50000);                        /* counts: the record before was so much earlier */
        double before = now_ms();
        OK(cuGraphLaunch(exec, 0));
        OK(cuEventRecord(later, 0));
        OK(cuEventSynchronize(later));
        double most = now_ms() - before + 1;
        OK(cuEventElapsedTime(&ms, event, later));
        if (ms > most)
            fprintf(stderr, "launch %d: %f ms, at most %f\n", i, (double)ms, most);
        CHECK(ms >= 0 && ms <= most);
    }
}

/* ---- texture references ---- */

static void body_texrefs(void)
{
    enum { COUNT = 64 };
    CUmodule module;
    CUtexref words;
    CUfunction bound;
    CUdeviceptr data, out;
    uint32_t host[COUNT], got[32];
    begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&bound, module, "bound"));
    OK(cuModuleGetTexRef(&words, module, "words"));
    OK(cuMemAlloc_v2(&data, sizeof host));
    OK(cuMemAlloc_v2(&out, sizeof got));
    for (uint32_t i = 0; i < COUNT; i++)
        host[i] = 3 * i + 1;
    OK(cuMemcpyHtoD_v2(data, host, sizeof host));
    OK(cuTexRefSetFormat(words, 3 /* 32 bits */, 1));
    OK(cuTexRefSetFlags(words, 1 /* integers */));
    OK(cuTexRefSetAddress_v2(NULL, words, data, sizeof host));
    for (int i = 0; i < 4; i++) {
        OK(cuMemsetD32_v2(out, 0, 32));
        OK(cuLaunchKernel(bound, 1, 1, 1, 32, 1, 1, 0, 0, (void *[]){ &out }, NULL));
        OK(cuMemcpyDtoH_v2(got, out, sizeof got));
        CHECK(memcmp(got, host, sizeof got) == 0);
        if (i == 2)                           /* bound elsewhere, and moved before a launch */
            OK(cuMemcpyHtoD_v2(data, (memmove(host, host + 1, sizeof host - 4), host), sizeof host));
        move_to((i + 1) % 2);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

#define ISOLATED(name, limit) TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(times_end, 60)
ISOLATED(graph_records, 60)
ISOLATED(texrefs, 60)

int main(int argc, char **argv)
{
    chaotic = getenv("FLYT_SOFTGPU_CHAOS") != NULL;
    if (argc < 3 || two_servers_start(argv[1], argv[2])) {
        fprintf(stderr, "%s: cannot start the servers; usage: %s unix|tcp|mixed SERVER [FIRST-SEED COUNT] "
                "[lose]\n", argv[0], argv[0]);
        return 1;
    }
    const bool loses = argc > 3 && strcmp(argv[argc - 1], "lose") == 0;
    if (loses)
        setenv("FLYT_TEST_ONLY", "random_losses", 1);
    else
        cmocka_set_skip_filter("random_losses");
    if (argc > 4) {
        first_seed = strtoull(argv[3], NULL, 10);
        seeds = strtoull(argv[4], NULL, 10);
    }
    int failures = unit_run(NULL, NULL);
    two_servers_end();
    return failures;
}
