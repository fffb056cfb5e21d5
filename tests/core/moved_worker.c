/* moved_worker.c: see moved_worker.h. */
#include "tests/core/moved_worker.h"
#include "tests/core/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/dice.h"
#include "tests/lib/fnv.h"

enum { GRANULE = 2 << 20 };

CUcontext worker_context;
bool worker_is_lost;

/* Blocks of 32 threads. fill(a, n, v); add(a, n): adds its index to each word. paint(surface, v): row 0 is v + x;
   look(texture, out): row 0. push(size, v), pop(), walk(out): a list in memory of malloc(). */
static const char ptx[] =
    KERNELS_BEGIN KERNEL_FILL KERNEL_ADD KERNELS_LIST
    ".visible .entry paint(.param .u64 s, .param .u32 v) {\n"
    "  .reg .u64 %s; .reg .u32 %v, %x, %b, %y;\n"
    "  ld.param.u64 %s, [s]; ld.param.u32 %v, [v]; mov.u32 %x, %tid.x; add.u32 %v, %v, %x; shl.b32 %b, %x, 2;\n"
    "  mov.u32 %y, 0; sust.b.2d.b32.zero [%s, {%b, %y}], {%v}; ret;\n}\n"
    ".visible .entry look(.param .u64 t, .param .u64 o) {\n"
    "  .reg .u64 %t, %o, %a; .reg .u32 %x, %r<4>; .reg .f32 %f<2>;\n"
    "  ld.param.u64 %t, [t]; ld.param.u64 %o, [o]; mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f0, %x;\n"
    "  add.f32 %f0, %f0, 0f3F000000; mov.f32 %f1, 0f3F000000;\n"
    "  tex.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}];\n"
    "  mad.wide.u32 %a, %x, 4, %o; st.global.u32 [%a], %r0; ret;\n}\n";

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
    if (worker_is_lost)
        pthread_mutex_lock(&one_after_the_other);
}

static void end_making(void)
{
    if (worker_is_lost)
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
    w->graph_block = dice(&w->seed, WORKER_BLOCKS);
    add(w, w->block[w->graph_block], WORKER_WORDS / 2);
    OK(cuMemsetD32Async(w->block[w->graph_block], w->graph_block, 16, w->stream));
    add(w, w->block[w->graph_block], WORKER_WORDS);
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
    if (worker_is_lost) {                             /* kernels would reach it, and nobody could repeat that */
        w->host = calloc(WORKER_WORDS, sizeof *w->host);
        return;
    }
    OK(cuMemCreate(&w->host_handle, GRANULE, &what, 0));
    OK(cuMemAddressReserve(&at, GRANULE, 0, 0, 0));
    OK(cuMemMap(at, GRANULE, 0, w->host_handle, 0));
    OK(cuMemSetAccess(at, GRANULE, access, 2));
    w->host = (uint32_t *)at;
    memset(w->host, 1, WORKER_BYTES);
}

static void host_end(struct worker *w)
{
    if (worker_is_lost) {
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
    fill(w, w->mapped, WORKER_WORDS, 5);
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

void worker_begin(struct worker *w)
{
    OK(cuCtxSetCurrent(worker_context));
    begin_making();
    module_load(w);
    end_making();
    OK(cuStreamCreate(&w->stream, 1));
    OK(cuEventCreate(&w->event, 2));
    for (int i = 0; i < 2; i++) {
        OK(cuEventCreate(&w->timed[i], 0));
        OK(cuEventRecord(w->timed[i], w->stream));
    }
    OK(cuMemHostAlloc((void **)&w->pinned, WORKER_BYTES, worker_is_lost ? 0 : 2 /* mapped */));
    memset(w->pinned, 0, WORKER_BYTES);
    if (!worker_is_lost)
        OK(cuMemHostGetDevicePointer_v2(&w->pinned_device, w->pinned, 0));
    OK(cuMemAllocManaged(&w->managed, WORKER_BYTES, 1));
    OK(cuStreamAttachMemAsync(w->stream, w->managed, 0, 4 /* this stream only */));
    OK(cuStreamSynchronize(w->stream));
    memset((void *)w->managed, 0, WORKER_BYTES);
    OK(cuMemAlloc_v2(&w->out, 4096));
    for (uint32_t i = 0; i < WORKER_BLOCKS; i++) {
        OK(cuMemAlloc_v2(&w->block[i], WORKER_BYTES));
        fill(w, w->block[i], WORKER_WORDS, i);
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
    fnv_add(&w->hash, &attribute, sizeof attribute);
    fnv_add(&w->hash, &threshold, sizeof threshold);
    fnv_add(&w->hash, &priority, sizeof priority);
}

static void stream_again(struct worker *w, uint32_t value)
{
    OK(cuStreamSynchronize(w->stream));
    OK(cuStreamDestroy_v2(w->stream));
    OK(cuStreamCreateWithPriority(&w->stream, 1, -(int)(value % 3)));
    OK(cuStreamAttachMemAsync(w->stream, w->managed, 0, 4 /* this stream only */));
    OK(cuStreamSynchronize(w->stream));
}

void worker_step(struct worker *w)
{
    static _Thread_local uint32_t host[WORKER_WORDS];
    const uint32_t b = dice(&w->seed, WORKER_BLOCKS), o = dice(&w->seed, WORKER_BLOCKS), value = dice(&w->seed, 1000);
    uint64_t bytes = 16 + dice(&w->seed, 20000);
    uint32_t *managed = (uint32_t *)w->managed;
    uint32_t before;
    CUdeviceptr got;
    float ms;
    switch (dice(&w->seed, 26)) {
    case 0:
        fill(w, w->block[b], WORKER_WORDS / 2, value);
        break;
    case 1:
        add(w, w->block[b], WORKER_WORDS);
        break;
    case 2:
        for (uint32_t i = 0; i < WORKER_WORDS; i++)
            host[i] = value + i;
        OK(cuMemcpyHtoDAsync_v2(w->block[b], host, WORKER_BYTES, w->stream));
        OK(cuStreamSynchronize(w->stream));
        break;
    case 3:
        OK(cuMemcpyDtoHAsync_v2(w->pinned, w->block[b], WORKER_BYTES, w->stream));
        OK(cuEventRecord(w->event, w->stream));
        OK(cuEventSynchronize(w->event));
        fnv_add(&w->hash, w->pinned, WORKER_BYTES);
        break;
    case 4:
        if (b != o)
            OK(cuMemcpyDtoDAsync_v2(w->block[b], w->block[o], WORKER_BYTES, w->stream));
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
        OK(cuMemAlloc_v2(&w->block[b], WORKER_BYTES));
        fill(w, w->block[b], WORKER_WORDS, value);
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
        OK(dice(&w->seed, 2) ? cuMemAllocAsync(&got, WORKER_BYTES, w->stream)
                      : cuMemAllocFromPoolAsync(&got, WORKER_BYTES, w->pool, w->stream));
        fill(w, got, WORKER_WORDS, value);
        OK(cuMemcpyDtoDAsync_v2(w->block[b], got, WORKER_BYTES / 2, w->stream));
        OK(cuMemFreeAsync(got, w->stream));
        break;
    case 12:
        OK(cuStreamSynchronize(w->stream));
        managed[value] = value;
        fnv_add(&w->hash, managed + b * 1024, 1024);
        w->host[value] += value;
        fnv_add(&w->hash, w->host + b * 1024, 1024);
        break;
    case 13:
        fill(w, w->managed + 4 * value, WORKER_WORDS / 2, value);
        if (!worker_is_lost)
            add(w, (CUdeviceptr)w->host, WORKER_WORDS);
        break;
    case 14:
        OK(cuStreamSynchronize(w->stream));
        for (uint32_t i = 0; i < 64; i++)
            w->pinned[i] = value;
        if (!worker_is_lost)
            add(w, w->pinned_device, 512);
        OK(cuStreamSynchronize(w->stream));
        fnv_add(&w->hash, w->pinned, 4096);
        break;
    case 15:
        launch(w, w->paint, (void *[]){ &w->surface, &(uint32_t){ value } });
        break;
    case 16:
        launch(w, w->look, (void *[]){ &w->texture, &w->out });
        OK(cuMemcpyDtoHAsync_v2(host, w->out, 128, w->stream));
        OK(cuStreamSynchronize(w->stream));
        fnv_add(&w->hash, host, 128);
        break;
    case 17:
        OK(cuStreamSynchronize(w->stream));
        picture_end(w);
        picture_new(w, value);
        break;
    case 18:
        add(w, w->mapped, WORKER_WORDS);
        OK(cuMemcpyDtoDAsync_v2(w->block[b], w->mapped, WORKER_BYTES, w->stream));
        break;
    case 19:
        if (dice(&w->seed, 3) == 0) {
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
        fnv_add(&w->hash, host, 4);
        break;
    case 23:
        settings(w, value);
        break;
    case 24:
        if (dice(&w->seed, 3) == 0)
            stream_again(w, value);
        break;
    default:
        OK(cuEventRecord(w->timed[b % 2], w->stream));
        OK(cuEventSynchronize(w->timed[b % 2]));
        OK(cuEventElapsedTime(&ms, w->timed[!(b % 2)], w->timed[b % 2]));
        if (dice(&w->seed, 4) == 0) {
            OK(cuEventDestroy_v2(w->timed[0]));
            OK(cuEventCreate(&w->timed[0], 0));
            OK(cuEventRecord(w->timed[0], w->stream));
            OK(cuEventSynchronize(w->timed[0]));
        }
        OK(cuStreamSynchronize(w->stream));
        OK(cuMemcpyDtoH_v2(host, w->block[o], WORKER_BYTES));
        fnv_add(&w->hash, host, WORKER_BYTES);
    }
}

void worker_end(struct worker *w)
{
    static _Thread_local uint32_t host[WORKER_WORDS];
    OK(cuStreamSynchronize(w->stream)); /* a context is not waited for while another thread captures (900) */
    for (int i = 0; i < WORKER_BLOCKS; i++) {
        OK(cuMemcpyDtoH_v2(host, w->block[i], WORKER_BYTES));
        fnv_add(&w->hash, host, WORKER_BYTES);
    }
    fnv_add(&w->hash, (const void *)w->managed, WORKER_BYTES);
    fnv_add(&w->hash, w->host, WORKER_BYTES);
    OK(cuMemcpyDtoH_v2(host, w->mapped, WORKER_BYTES));
    fnv_add(&w->hash, host, WORKER_BYTES);
}
