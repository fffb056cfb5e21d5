// shows: conformance: entry points of the driver beside the runtime: contexts, streams, events, memory and errors that
//   both see; the profiler's control, line by line with NVIDIA's runtime
//
// The Driver API's functions come from cudaGetDriverEntryPoint, as in a program that does not link libcuda.
#include "../suite.h"

#include <cuda.h>

__global__ void none() {}
__device__ int variable;

#if RUNTIME == 11
extern "C" cudaError_t entry_11(const char *, void **, unsigned long long) __asm__("cudaGetDriverEntryPoint");
static cudaError_t entry(const char *name, void **at, unsigned long long flags)
{
    return entry_11(name, at, flags);
}
#elif RUNTIME == 12
static cudaError_t entry(const char *name, void **at, unsigned long long flags)
{
    cudaDriverEntryPointQueryResult found;
    return cudaGetDriverEntryPoint(name, at, flags, &found);
}
#else
static cudaError_t entry(const char *name, void **at, unsigned long long flags)
{
    cudaDriverEntryPointQueryResult found;
    return cudaGetDriverEntryPointByVersion(name, at, 12000, flags, &found);
}
#endif

static const char *const names[] = { "cuStreamQuery", "cuStreamSynchronize", "cuMemcpyHtoD", "cuMemsetD8",
                                     "cuLaunchKernel", "cuEventRecord", "cuMemAlloc", "cuCtxGetCurrent",
                                     "cuDeviceGetCount", "cuMemcpyAsync" };

static void which()
{
    void *usual, *legacy, *per_thread;
    for (auto name : names) {
        usual = legacy = per_thread = NULL;
        cudaError_t a = entry(name, &usual, 0), b = entry(name, &legacy, 1), c = entry(name, &per_thread, 2);
        printf("%s: %s %s %s, legacy is the usual one: %d, per thread is another one: %d\n", name, cudaGetErrorName(a),
               cudaGetErrorName(b), cudaGetErrorName(c), legacy == usual, per_thread != usual);
        cudaGetLastError();
    }
}

static CUresult (*get_current)(CUcontext *);
static CUresult (*set_current)(CUcontext);
static CUresult (*get_device)(CUdevice *);
static CUresult (*stream_query)(CUstream);
static CUresult (*event_query)(CUevent);
static CUresult (*event_record)(CUevent, CUstream);
static CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr);
static CUresult (*mem_alloc)(CUdeviceptr *, size_t);
static CUresult (*mem_free)(CUdeviceptr);
static CUresult (*stream_create)(CUstream *, unsigned);
static CUresult (*stream_destroy)(CUstream);
static CUresult (*copy_from)(void *, CUdeviceptr, size_t);
static CUresult (*primary_state)(CUdevice, unsigned *, int *);

template <typename F> static void find(F &f, const char *name)
{
    void *at = NULL;
    MUST(entry(name, &at, 0));
    f = (F)at;
}

static void driver_says(const char *what, CUresult r)
{
    printf("%s -> %d (last error: %s)\n", what, (int)r, cudaGetErrorName(cudaPeekAtLastError()));
}

static void other_thread()
{
    CUcontext c = (CUcontext)1;
    driver_says("cuCtxGetCurrent, in a new thread", get_current(&c));
    VALUE("none", "%d", c == NULL);
    CUdevice device = 7;
    driver_says("cuCtxGetDevice, in a new thread", get_device(&device));
    void *p;
    WORKS(cudaMalloc(&p, 64), "in a new thread");
    driver_says("cuCtxGetCurrent, then", get_current(&c));
    VALUE("some", "%d", c != NULL);
    driver_says("cuMemFree of the runtime's memory", mem_free((CUdeviceptr)p));
}

static void together()
{
    CUcontext c = (CUcontext)1;
    CUstream made;
    CUdeviceptr base, memory;
    size_t size = 7;
    unsigned flags = 7;
    int active = 7, value = 0;
    void *p;
    cudaStream_t s;
    cudaEvent_t e;
    driver_says("cuDevicePrimaryCtxGetState, before the first call", primary_state(0, &flags, &active));
    VALUE("active", "%d", active);
    driver_says("cuCtxGetCurrent, before the first call", get_current(&c));
    VALUE("none", "%d", c == NULL);
    WORKS(cudaFree(0), "the first call");
    driver_says("cuCtxGetCurrent, then", get_current(&c));
    VALUE("some", "%d", c != NULL);
    driver_says("cuDevicePrimaryCtxGetState, then", primary_state(0, &flags, &active));
    VALUE("active", "%d", active);
    in_thread(other_thread);
    MUST(cudaStreamCreate(&s));
    MUST(cudaEventCreate(&e));
    MUST(cudaMalloc(&p, 1000));
    driver_says("cuStreamQuery of the runtime's stream", stream_query(s));
    driver_says("cuEventRecord of the runtime's event", event_record(e, s));
    WORKS(cudaEventSynchronize(e), "recorded by the driver");
    driver_says("cuEventQuery of the runtime's event", event_query(e));
    driver_says("cuMemGetAddressRange", range(&base, &size, (CUdeviceptr)p + 10));
    VALUE("the same beginning", "%d", base == (CUdeviceptr)p);
    VALUE("size", "%zu", size);
    driver_says("cuStreamCreate", stream_create(&made, 0));
    none<<<1, 1, 0, (cudaStream_t)made>>>();
    WORKS(cudaStreamSynchronize(made), "the driver's stream");
    WORKS(cudaStreamDestroy(made), "the driver's stream");
    driver_says("cuStreamDestroy of the runtime's stream", stream_destroy(s));
    SAYS(cudaStreamQuery(s), "destroyed by the driver");
    driver_says("cuMemAlloc", mem_alloc(&memory, 64));
    WORKS(cudaMemset((void *)memory, 1, 64), "the driver's memory");
    WORKS(cudaMemcpyToSymbol(variable, (void *)memory, 4, 0, cudaMemcpyDeviceToDevice), "the driver's memory");
    void *at;
    MUST(cudaGetSymbolAddress(&at, variable));
    driver_says("cuMemcpyDtoH of a variable", copy_from(&value, (CUdeviceptr)at, 4));
    VALUE("value", "%x", (unsigned)value);
    WORKS(cudaFree((void *)memory), "the driver's memory");
    /* The driver's errors are not the runtime's. */
    driver_says("an error of the driver", mem_alloc(NULL, 64));
    printf("an error of the runtime: %s\n", cudaGetErrorName(cudaMalloc(NULL, 4)));
    driver_says("an error of the driver, then", mem_free(0x123));
    cudaGetLastError();
    WORKS(cudaFree(p), "it");
    WORKS(cudaEventDestroy(e), "it");
    WORKS(cudaDeviceReset(), "with the driver's context current");
    driver_says("cuDevicePrimaryCtxGetState, behind a reset", primary_state(0, &flags, &active));
    VALUE("active", "%d", active);
    WORKS(cudaMalloc(&p, 64), "behind a reset");
    driver_says("cuCtxSetCurrent of the same", set_current(c));
    WORKS(cudaFree(p), "behind a reset");
}

static void profiler()
{
    WORKS(cudaProfilerStart(), "the first call");
    WORKS(cudaProfilerStart(), "again");
    WORKS(cudaProfilerStop(), "once");
    WORKS(cudaProfilerStop(), "again");
    WORKS(cudaPeekAtLastError(), "no error");
}
static void profiler_too()
{
    WORKS(cudaProfilerStop(), "in another thread, without a start");
    WORKS(cudaProfilerStart(), "in another thread");
}

static void odd_names()
{
    void *at = (void *)1;
    for (auto name : { "cuStreamQuery_ptsz", "cuMemAlloc_v2", "cuMemAlloc_v3", "cumemalloc", "cu", "cudaMalloc",
                       "cuGetProcAddress", "cuGetProcAddress_v2", "printf" }) {
        at = (void *)1;
        cudaError_t r = entry(name, &at, 0), last = cudaGetLastError();
        printf("%s -> %s %s, %s\n", name, cudaGetErrorName(r), cudaGetErrorName(last),
               at == (void *)1 ? "as before"
               : at            ? "found"
                               : "none");
    }
    for (unsigned long long flags = 0; flags <= 8; flags++) {
        cudaError_t r = entry("cuStreamQuery", &at, flags);
        printf("flags %llu -> %s\n", flags, cudaGetErrorName(r));
        cudaGetLastError();
    }
}

int main()
{
    in_child(profiler);
    find(get_current, "cuCtxGetCurrent");
    find(set_current, "cuCtxSetCurrent");
    find(get_device, "cuCtxGetDevice");
    find(stream_query, "cuStreamQuery");
    find(event_query, "cuEventQuery");
    find(event_record, "cuEventRecord");
    find(range, "cuMemGetAddressRange");
    find(mem_alloc, "cuMemAlloc");
    find(mem_free, "cuMemFree");
    find(stream_create, "cuStreamCreate");
    find(stream_destroy, "cuStreamDestroy");
    find(copy_from, "cuMemcpyDtoH");
    find(primary_state, "cuDevicePrimaryCtxGetState");
    together();
    which();
    odd_names();
    profiler();
    in_thread(profiler_too);
    return 0;
}
