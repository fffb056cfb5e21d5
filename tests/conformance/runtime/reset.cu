// shows: conformance: cudaDeviceReset, flags and limits of a device: what ends, what begins anew, with work under way
//   and with other threads, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void none() {}
__global__ void late(int *out) { *out = 7; }
__global__ void dynamic()
{
    extern __shared__ int room[];
    room[threadIdx.x] = 1;
}
__device__ int variable = 5;
static int *p;
static cudaStream_t s;
static cudaEvent_t e;

static void what_ends()
{
    int value = 9;
    void *pinned, *managed, *q;
    size_t size = 7;
    unsigned flags = 77;
    cudaFuncAttributes f;
    cudaFuncCache cache;
    cudaPointerAttributes a;
    cudaMemPool_t pool;
    MUST(cudaMalloc(&p, 64));
    MUST(cudaMallocHost(&pinned, 64));
    MUST(cudaMallocManaged(&managed, 4096));
    MUST(cudaStreamCreate(&s));
    MUST(cudaEventCreate(&e));
    MUST(cudaMemcpyToSymbol(variable, &value, 4));
    MUST(cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    MUST(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    MUST(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20));
    MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    MUST(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    MUST(cudaSetDeviceFlags(cudaDeviceScheduleYield));
    none<<<1, 1, 0, s>>>();
    WORKS(cudaDeviceReset(), "with objects and work");
    SAYS(cudaPeekAtLastError(), "then");
    SAYS(cudaGetDeviceFlags(&flags), "between the reset and what makes the context anew");
    SAYS(cudaPointerGetAttributes(&a, p), "needs no context");
    SAYS(cudaFree(p), "memory of before");
    SAYS(cudaFreeHost(pinned), "pinned memory of before");
    SAYS(cudaFree(managed), "managed memory of before");
    SAYS(cudaPointerGetAttributes(&a, p), "memory of before");
    VALUE("type", "%d", (int)a.type);
    WORKS(cudaGetDeviceFlags(&flags), "then");
    VALUE("flags", "%u", flags & ~(unsigned)cudaDeviceMapHost);
    SAYS(cudaStreamQuery(s), "a stream of before");
    SAYS(cudaStreamSynchronize(s), "a stream of before");
    SAYS(cudaStreamDestroy(s), "a stream of before");
    SAYS(cudaEventQuery(e), "an event of before");
    SAYS(cudaEventRecord(e, 0), "an event of before");
    SAYS(cudaEventDestroy(e), "an event of before");
    none<<<1, 1, 0, s>>>();
    SAYS(cudaGetLastError(), "a launch into a stream of before");
    WORKS(cudaMemcpyFromSymbol(&value, variable, 4), "begins anew");
    VALUE("variable", "%d", value);
    WORKS(cudaFuncGetAttributes(&f, (const void *)dynamic), "begins anew");
    VALUE("dynamic shared memory", "%d", f.maxDynamicSharedSizeBytes);
    for (int limit = 0; limit < 3; limit++) {
        WORKS(cudaDeviceGetLimit(&size, (cudaLimit)limit), "begins anew");
        VALUE("limit", "%zu", size);
    }
    WORKS(cudaDeviceGetCacheConfig(&cache), "begins anew");
    VALUE("cache", "%d", (int)cache);
    WORKS(cudaDeviceGetMemPool(&pool, 0), "then");
    WORKS(cudaMallocAsync(&q, 64, 0), "then");
    WORKS(cudaFreeAsync(q, 0), "then");
    none<<<1, 1>>>();
    WORKS(cudaDeviceSynchronize(), "a launch");
}

/* Work under way ends first, or is dropped: what matters is that the reset returns and the device works. */
static void under_way()
{
    int value = 0;
    MUST(cudaStreamCreate(&s));
    hold_begin(s, 60);
    MUST(cudaMalloc(&p, 64));
    none<<<1, 1, 0, s>>>();
    WORKS(cudaDeviceReset(), "work under way");
    VALUE("it waited for the work", "%d", hold_let_go());
    WORKS(cudaMalloc(&p, 64), "then");
    WORKS(cudaMemset(p, 1, 4), "then");
    WORKS(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost), "then");
    VALUE("value", "%x", (unsigned)value);
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    SAYS(cudaDeviceReset(), "a stream is captured");
    WORKS(cudaFree(NULL), "then");
    cudaStreamCaptureStatus status = (cudaStreamCaptureStatus)7;
    MUST(cudaStreamCreate(&s));
    WORKS(cudaStreamIsCapturing(s, &status), "a new stream");
    VALUE("status", "%d", (int)status);
}

static void resets_nothing()
{
    WORKS(cudaDeviceReset(), "the first call of another thread");
}
static void resets()
{
    WORKS(cudaFree(NULL), "in another thread");
    WORKS(cudaDeviceReset(), "in another thread");
}
static void before_any()
{
    int device = 7;
    WORKS(cudaDeviceReset(), "before any other call");
    WORKS(cudaGetDevice(&device), "then");
    VALUE("device", "%d", device);
}
/* A kernel that is used for the first time directly after a reset. */
static void first_use()
{
    int value = 0, *out;
    WORKS(cudaFree(NULL), "before the reset");
    WORKS(cudaDeviceReset(), "no kernel was used");
    none<<<1, 1>>>();
    WORKS(cudaGetLastError(), "a kernel that was not used before the reset");
    WORKS(cudaDeviceReset(), "then");
    WORKS(cudaMalloc(&out, 4), "then");
    late<<<1, 1>>>(out);
    WORKS(cudaGetLastError(), "again");
    WORKS(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost), "again");
    VALUE("value", "%d", value);
}
static void threads()
{
    MUST(cudaStreamCreate(&s));
    MUST(cudaMalloc(&p, 64));
    in_thread(resets_nothing);
    SAYS(cudaStreamQuery(s), "a thread without a context resets nothing");
    in_thread(resets);
    SAYS(cudaStreamQuery(s), "of before another thread's reset");
    SAYS(cudaFree(p), "of before another thread's reset");
    WORKS(cudaStreamCreate(&s), "then");
    none<<<1, 1, 0, s>>>();
    WORKS(cudaStreamSynchronize(s), "then");
    WORKS(cudaStreamQuery(cudaStreamPerThread), "then");
}

/* ---- flags, before and behind the context ---- */

static unsigned flags_now()
{
    unsigned flags = 77;
    MUST(cudaGetDeviceFlags(&flags));
    return flags & ~(unsigned)cudaDeviceMapHost;
}
static void sets_flags()
{
    VALUE("flags seen by another thread", "%u", flags_now());
    WORKS(cudaSetDeviceFlags(cudaDeviceScheduleSpin), "in another thread");
}
static void flags_before()
{
    WORKS(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceLmemResizeToMax), "before the context");
    VALUE("flags", "%u", flags_now());
    WORKS(cudaFree(NULL), "the context");
    VALUE("flags", "%u", flags_now());
    WORKS(cudaSetDeviceFlags(cudaDeviceScheduleYield), "behind the context");
    VALUE("flags", "%u", flags_now());
    in_thread(sets_flags);
    VALUE("flags", "%u", flags_now());
    WORKS(cudaSetDeviceFlags(cudaDeviceScheduleAuto), "behind the context");
    VALUE("flags", "%u", flags_now());
}
#if RUNTIME >= 12
static void initialised()
{
    int device = 7;
    WORKS(cudaInitDevice(0, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid), "with flags");
    VALUE("flags", "%u", flags_now());
    WORKS(cudaInitDevice(0, cudaDeviceScheduleSpin, 0), "flags that are not valid");
    VALUE("flags", "%u", flags_now());
    WORKS(cudaGetDevice(&device), "not changed");
    VALUE("device", "%d", device);
    SAYS(cudaInitDevice(-1, 0, 0), "no device");
    SAYS(cudaInitDevice(0, 3, cudaInitDeviceFlagsAreValid), "two ways to wait");
    SAYS(cudaInitDevice(0, 3, 0), "two ways to wait, not valid");
}
#endif

/* Each limit: what is asked, what is given. */
static void limits()
{
    size_t size;
    for (int limit = 0; limit <= 2; limit++) {
        WORKS(cudaDeviceSetLimit((cudaLimit)limit, 1 << 16), "before any work");
        WORKS(cudaDeviceGetLimit(&size, (cudaLimit)limit), "it");
        VALUE("limit", "%zu", size);
    }
    none<<<1, 1>>>();
    for (int limit = 0; limit <= 2; limit++)
        for (size_t value : { (size_t)0, (size_t)1000, (size_t)1 << 18, (size_t)1 << 23 }) {
            if (limit == cudaLimitStackSize && value > 1 << 18)
                continue;
            SAYS(cudaDeviceSetLimit((cudaLimit)limit, value), "a kernel has run");
            WORKS(cudaDeviceGetLimit(&size, (cudaLimit)limit), "it");
            VALUE("limit", "%zu", size);
        }
    WORKS(cudaDeviceSynchronize(), "all");
    WAITS(0, , cudaDeviceSetLimit(cudaLimitStackSize, 2048), "work under way");
    WAITS(0, , cudaDeviceGetLimit(&size, cudaLimitStackSize), "work under way");
    WAITS(0, , cudaSetDevice(0), "work under way");
    WAITS(0, , cudaSetDeviceFlags(0), "work under way");
}

/* Old names of the same. */
#if RUNTIME < 13
extern "C" cudaError_t cudaThreadExit(void);
extern "C" cudaError_t cudaThreadSynchronize(void);
extern "C" cudaError_t cudaThreadSetLimit(cudaLimit, size_t);
extern "C" cudaError_t cudaThreadGetLimit(size_t *, cudaLimit);
extern "C" cudaError_t cudaThreadGetCacheConfig(cudaFuncCache *);
extern "C" cudaError_t cudaThreadSetCacheConfig(cudaFuncCache);
static void old_names()
{
    size_t size = 7;
    cudaFuncCache cache = (cudaFuncCache)7;
    WORKS(cudaThreadSynchronize(), "idle");
    WORKS(cudaThreadSetLimit(cudaLimitStackSize, 8192), "usual");
    WORKS(cudaThreadGetLimit(&size, cudaLimitStackSize), "usual");
    VALUE("limit", "%zu", size);
    GIVES(cudaErrorInvalidValue, cudaThreadGetLimit(NULL, cudaLimitStackSize), "null pointer");
    SAYS(cudaThreadSetLimit((cudaLimit)99, 1), "limit 99");
    WORKS(cudaThreadSetCacheConfig(cudaFuncCachePreferShared), "usual");
    WORKS(cudaThreadGetCacheConfig(&cache), "usual");
    VALUE("cache", "%d", (int)cache);
    GIVES(cudaErrorInvalidValue, cudaThreadGetCacheConfig(NULL), "null pointer");
    SAYS(cudaThreadSetCacheConfig((cudaFuncCache)9), "9");
    WORKS(cudaThreadExit(), "usual");
    WORKS(cudaThreadGetLimit(&size, cudaLimitStackSize), "then");
    VALUE("limit", "%zu", size);
}
#endif

int main()
{
    in_child(before_any);
    in_child(first_use);
    in_child(flags_before);
#if RUNTIME >= 12
    in_child(initialised);
#endif
    in_child(limits);
    what_ends();
    under_way();
    threads();
#if RUNTIME < 13
    old_names();
#endif
    return 0;
}
