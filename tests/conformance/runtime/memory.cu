// shows: conformance: memory management and unified addressing, line by line with NVIDIA's runtime
#include "../suite.h"

__device__ int variable[16];
__constant__ int fixed[16];

static void allocation()
{
    void *p = NULL, *q = NULL;
    size_t pitch = 0, free_bytes, total;
    cudaPitchedPtr box;
    GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 4), "null pointer");
    WORKS(cudaMalloc(&p, 0), "no bytes");
    VALUE("pointer is null", "%d", p == NULL);
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)1 << 50), "too much");
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&p, SIZE_MAX), "all");
    WORKS(cudaMalloc(&p, 1000), "1000 bytes");
    VALUE("aligned to 256", "%d", ((uintptr_t)p & 255) == 0);
    WORKS(cudaFree(NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaFree((char *)p + 4), "inside");
    WORKS(cudaFree(p), "once");
    GIVES(cudaErrorInvalidValue, cudaFree(p), "twice");
    int here;
    GIVES(cudaErrorInvalidValue, cudaFree(&here), "of the host");
    GIVES(cudaErrorInvalidValue, cudaMallocPitch(NULL, &pitch, 100, 10), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMallocPitch(&p, NULL, 100, 10), "null pitch");
    WORKS(cudaMallocPitch(&p, &pitch, 100, 10), "100 by 10");
    VALUE("pitch", "%zu", pitch);
    WORKS(cudaFree(p), "pitched");
    WORKS(cudaMallocPitch(&p, &pitch, 0, 10), "no width");
    WORKS(cudaMallocPitch(&p, &pitch, 10, 0), "no height");
    SAYS(cudaMallocPitch(&p, &pitch, (size_t)1 << 40, 1 << 20), "too much");
    WORKS(cudaMalloc3D(&box, make_cudaExtent(100, 10, 3)), "100 by 10 by 3");
    VALUE("pitch", "%zu", box.pitch);
    VALUE("xsize", "%zu", box.xsize);
    VALUE("ysize", "%zu", box.ysize);
    WORKS(cudaFree(box.ptr), "3D");
    GIVES(cudaErrorInvalidValue, cudaMalloc3D(NULL, make_cudaExtent(1, 1, 1)), "null pointer");
    WORKS(cudaMalloc3D(&box, make_cudaExtent(0, 1, 1)), "no width");

    GIVES(cudaErrorInvalidValue, cudaMallocHost(NULL, 4), "null pointer");
    WORKS(cudaMallocHost(&p, 4096), "4096 bytes");
    pointer_row("pinned", p);
    pointer_row("inside pinned", (char *)p + 100);
    WORKS(cudaFreeHost(p), "once");
    GIVES(cudaErrorInvalidValue, cudaFreeHost(p), "twice");
    WORKS(cudaFreeHost(NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaFreeHost(&here), "not pinned");
    WORKS(cudaMallocHost(&p, 0), "no bytes");
    GIVES(cudaErrorInvalidValue, cudaHostAlloc(NULL, 4, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaHostAlloc(&p, 4, 0x100), "unknown flag");
    WORKS(cudaHostAlloc(&p, 64, cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined), "all flags");
    unsigned flags = 0;
    WORKS(cudaHostGetFlags(&flags, p), "of it");
    VALUE("flags", "%u", flags);
    GIVES(cudaErrorInvalidValue, cudaHostGetFlags(&flags, &here), "not pinned");
    GIVES(cudaErrorInvalidValue, cudaHostGetFlags(NULL, p), "null pointer");
    WORKS(cudaHostGetDevicePointer(&q, p, 0), "mapped");
    VALUE("same pointer", "%d", p == q);
    GIVES(cudaErrorInvalidValue, cudaHostGetDevicePointer(&q, p, 1), "flags");
    GIVES(cudaErrorInvalidValue, cudaHostGetDevicePointer(&q, &here, 0), "not pinned");
    GIVES(cudaErrorInvalidValue, cudaHostGetDevicePointer(NULL, p, 0), "null pointer");
    WORKS(cudaFreeHost(p), "it");

    static char page[3 * 4096] __attribute__((aligned(4096)));
    WORKS(cudaHostRegister(page, 4096, 0), "one page");
    pointer_row("registered", page);
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(page, 4096, 0), "again");
    SAYS(cudaHostRegister(page + 100, 100, 0), "inside it");
    SAYS(cudaHostGetFlags(&flags, page), "of it");
    VALUE("flags", "%u", flags);
    SAYS(cudaFreeHost(page), "registered");
    GIVES(cudaErrorInvalidValue, cudaHostUnregister(page + 8), "inside");
    WORKS(cudaHostUnregister(page), "once");
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(page), "twice");
    GIVES(cudaErrorInvalidValue, cudaHostRegister(NULL, 4096, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaHostRegister(page, 0, 0), "no bytes");
    GIVES(cudaErrorInvalidValue, cudaHostRegister(page, 4096, 0x100), "unknown flag");
    SAYS(cudaHostUnregister(NULL), "null pointer");

    WORKS(cudaMemGetInfo(&free_bytes, &total), "both");
    VALUE("free <= total", "%d", free_bytes <= total);
    SAYS(cudaMemGetInfo(NULL, &total), "no free");
    SAYS(cudaMemGetInfo(&free_bytes, NULL), "no total");
    SAYS(cudaMemGetInfo(NULL, NULL), "neither");
}

static void copies()
{
    char host[4096], other[4096];
    char *a, *b;
    MUST(cudaMalloc((void **)&a, 4096));
    MUST(cudaMalloc((void **)&b, 4096));
    memset(host, 1, sizeof host);
    WORKS(cudaMemcpy(a, host, 4096, cudaMemcpyHostToDevice), "to the device");
    WORKS(cudaMemcpy(host, a, 4096, cudaMemcpyDeviceToHost), "from the device");
    WORKS(cudaMemcpy(b, a, 4096, cudaMemcpyDeviceToDevice), "on the device");
    WORKS(cudaMemcpy(other, host, 4096, cudaMemcpyHostToHost), "on the host");
    WORKS(cudaMemcpy(other, b, 4096, cudaMemcpyDefault), "by addresses");
    VALUE("equal", "%d", memcmp(other, host, 4096) == 0);
    WORKS(cudaMemcpy(a, host, 0, cudaMemcpyHostToDevice), "no bytes");
    WORKS(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice), "nothing");
    SAYS(cudaMemcpy(NULL, host, 4, cudaMemcpyHostToDevice), "to null");
    SAYS(cudaMemcpy(a, NULL, 4, cudaMemcpyHostToDevice), "from null");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(a, host, 4, (cudaMemcpyKind)7), "kind 7");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(a, host, 4, (cudaMemcpyKind)-1), "kind -1");
    SAYS(cudaMemcpy(a, host, 0, (cudaMemcpyKind)7), "kind 7, no bytes");
    SAYS(cudaMemcpyAsync(a, host, 0, (cudaMemcpyKind)7, 0), "kind 7, no bytes");
    SAYS(cudaMemcpy2D(a, 64, host, 32, 0, 10, (cudaMemcpyKind)9), "kind 9, no width");
    SAYS(cudaMemcpyToSymbol(variable, host, 0, 0, (cudaMemcpyKind)9), "kind 9, no bytes");
    SAYS(cudaMemcpyFromSymbol(host, variable, 0, 80), "no bytes, beyond the end");
    SAYS(cudaMemcpyToSymbolAsync(variable, host, 0, 80, cudaMemcpyHostToDevice, 0), "no bytes, beyond the end");
    SAYS(cudaMemcpyToSymbol((const void *)host, host, 0), "no variable, no bytes");
    SAYS(cudaMemcpy(host, a, 4, cudaMemcpyHostToDevice), "contrary to the addresses");
    SAYS(cudaMemcpy(a, host, 4, cudaMemcpyDeviceToHost), "contrary to the addresses");
    SAYS(cudaMemcpy(a, host, 4, cudaMemcpyDeviceToDevice), "the source is of the host");
    SAYS(cudaMemcpy(a, host, 4, cudaMemcpyHostToHost), "the target is of the device");
    SAYS(cudaMemcpy(a, host, 4097, cudaMemcpyHostToDevice), "one byte too many");
    SAYS(cudaMemcpy(host, a + 4000, 200, cudaMemcpyDeviceToHost), "beyond the end");
    SAYS(cudaMemcpy(a, host, SIZE_MAX, cudaMemcpyHostToDevice), "all bytes");
    SAYS(cudaMemcpyAsync(a, host, 4, cudaMemcpyHostToDevice, WRONG(cudaStream_t)), "no stream");
    WORKS(cudaMemcpyAsync(a, host, 4096, cudaMemcpyHostToDevice, 0), "pageable");
    WORKS(cudaMemcpyAsync(host, a, 4096, cudaMemcpyDeviceToHost, cudaStreamPerThread), "per thread");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(a, host, 4, (cudaMemcpyKind)7, 0), "kind 7");

    WORKS(cudaMemcpy2D(a, 64, host, 32, 32, 10, cudaMemcpyHostToDevice), "10 rows");
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(a, 16, host, 32, 32, 10, cudaMemcpyHostToDevice), "narrow target");
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(a, 32, host, 16, 32, 10, cudaMemcpyHostToDevice), "narrow source");
    WORKS(cudaMemcpy2D(a, 16, host, 32, 32, 0, cudaMemcpyHostToDevice), "no rows, narrow");
    WORKS(cudaMemcpy2D(a, 64, host, 32, 0, 10, cudaMemcpyHostToDevice), "no width");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy2D(a, 64, host, 32, 32, 10, (cudaMemcpyKind)9), "kind 9");
    SAYS(cudaMemcpy2D(a, 64, host, 32, 32, 65, cudaMemcpyHostToDevice), "beyond the end");
    SAYS(cudaMemcpy2D(NULL, 64, host, 32, 32, 1, cudaMemcpyHostToDevice), "to null");
    WORKS(cudaMemcpy2DAsync(a, 64, host, 32, 32, 10, cudaMemcpyHostToDevice, 0), "10 rows");
    cudaMemcpy3DParms p = {};
    GIVES(cudaErrorInvalidValue, cudaMemcpy3D(NULL), "null pointer");
    SAYS(cudaMemcpy3D(&p), "all zero");
    p.srcPtr = make_cudaPitchedPtr(host, 16, 16, 4);
    p.dstPtr = make_cudaPitchedPtr(a, 16, 16, 4);
    p.extent = make_cudaExtent(16, 4, 4);
    p.kind = cudaMemcpyHostToDevice;
    WORKS(cudaMemcpy3D(&p), "a box");
    p.extent = make_cudaExtent(17, 4, 4);
    SAYS(cudaMemcpy3D(&p), "wider than its rows");
    p.extent = make_cudaExtent(16, 5, 4);
    SAYS(cudaMemcpy3D(&p), "higher than its slices");
    p.extent = make_cudaExtent(0, 4, 4);
    SAYS(cudaMemcpy3D(&p), "no width");
    p.extent = make_cudaExtent(16, 4, 4);
    p.kind = (cudaMemcpyKind)8;
    SAYS(cudaMemcpy3D(&p), "kind 8");
    p.kind = cudaMemcpyHostToDevice;
    p.srcPtr.ptr = NULL;
    SAYS(cudaMemcpy3D(&p), "no source");
    WORKS(cudaMemcpyPeer(a, 0, b, 0, 64), "the same device");
    GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(a, 9, b, 0, 64), "no device");
    SAYS(cudaMemcpyPeer(a, 0, host, 0, 64), "of the host");
    WORKS(cudaMemcpyPeerAsync(a, 0, b, 0, 64, 0), "the same device");

    WORKS(cudaMemset(a, 1, 4096), "all");
    WORKS(cudaMemset(a, 1, 0), "no bytes");
    WORKS(cudaMemset(NULL, 1, 0), "nothing");
    GIVES(cudaErrorInvalidValue, cudaMemset(NULL, 1, 4), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMemset(host, 1, 4), "of the host");
    SAYS(cudaMemset(a, 1, 4097), "one byte too many");
    SAYS(cudaMemsetAsync(a, 1, 4, WRONG(cudaStream_t)), "no stream");
    WORKS(cudaMemset2D(a, 64, 1, 32, 10), "10 rows");
    SAYS(cudaMemset2D(a, 16, 1, 32, 10), "narrow");
    SAYS(cudaMemset2D(a, 64, 1, 32, 100), "beyond the end");
    WORKS(cudaMemset2D(a, 64, 1, 0, 10), "no width");
    WORKS(cudaMemset2D(a, 64, 1, 32, 0), "no rows");
    WORKS(cudaMemset3D(make_cudaPitchedPtr(a, 16, 16, 4), 1, make_cudaExtent(16, 4, 4)), "a box");
    SAYS(cudaMemset3D(make_cudaPitchedPtr(a, 16, 16, 4), 1, make_cudaExtent(17, 4, 4)), "wider than its rows");
    SAYS(cudaMemset3D(make_cudaPitchedPtr(NULL, 16, 16, 4), 1, make_cudaExtent(16, 4, 4)), "null pointer");
    MUST(cudaDeviceSynchronize());

    pointer_row("device", a);
    pointer_row("inside device", a + 7);
    pointer_row("of the stack", host);
    pointer_row("null", NULL);
    pointer_row("nowhere", (void *)0x10);
    cudaPointerAttributes got;
    GIVES(cudaErrorInvalidValue, cudaPointerGetAttributes(NULL, a), "null pointer");
    MUST(cudaFree(a));
    pointer_row("freed", a);
    (void)got;
    SAYS(cudaMemcpy(b, a, 4, cudaMemcpyDeviceToDevice), "freed source");
    SAYS(cudaMemset(a, 0, 4), "freed");
    MUST(cudaFree(b));
}

static void symbols()
{
    void *at = NULL, *again = NULL;
    size_t size = 0;
    int host[16] = { 5, 6, 7 }, got[16] = { 0 }, no_symbol = 0;
    WORKS(cudaGetSymbolAddress(&at, variable), "a variable");
    WORKS(cudaGetSymbolAddress(&again, variable), "again");
    VALUE("equal", "%d", at == again && at);
    pointer_row("a variable", at);
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&at, (const void *)&no_symbol), "no variable");
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&at, (const void *)NULL), "null symbol");
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&at, (const void *)"variable"), "by name");
    WORKS(cudaGetSymbolSize(&size, variable), "a variable");
    VALUE("size", "%zu", size);
    WORKS(cudaGetSymbolSize(&size, fixed), "a constant");
    VALUE("size", "%zu", size);
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolSize(&size, (const void *)&no_symbol), "no variable");
    WORKS(cudaMemcpyToSymbol(variable, host, 64), "whole");
    WORKS(cudaMemcpyToSymbol(fixed, host, 8, 4), "with an offset");
    WORKS(cudaMemcpyFromSymbol(got, variable, 64), "whole");
    VALUE("third", "%d", got[2]);
    WORKS(cudaMemcpyFromSymbol(got, fixed, 8, 4), "with an offset");
    VALUE("second", "%d", got[1]);
    GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(variable, host, 65), "too long");
    GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(variable, host, 8, 60), "beyond the end");
    SAYS(cudaMemcpyToSymbol(variable, host, 0, 60), "no bytes");
    SAYS(cudaMemcpyToSymbol(variable, host, 0, 80), "no bytes, beyond the end");
    GIVES(cudaErrorInvalidSymbol, cudaMemcpyToSymbol((const void *)&no_symbol, host, 4), "no variable");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(variable, host, 4, 0, cudaMemcpyDeviceToHost),
          "the wrong way");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromSymbol(got, variable, 4, 0, cudaMemcpyHostToDevice),
          "the wrong way");
    WORKS(cudaMemcpyToSymbol(variable, at, 4, 0, cudaMemcpyDeviceToDevice), "on the device");
    WORKS(cudaMemcpyToSymbol(variable, host, 4, 0, cudaMemcpyDefault), "by addresses");
    WORKS(cudaMemcpyToSymbolAsync(variable, host, 4, 0, cudaMemcpyHostToDevice, 0), "in a stream");
    SAYS(cudaMemcpyToSymbolAsync(variable, host, 4, 0, cudaMemcpyHostToDevice, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaFree(at), "a variable");
}

static void ordered()
{
    void *p = NULL;
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    SAYS(cudaMallocAsync(NULL, 4, s), "null pointer");
    SAYS(cudaMallocAsync(&p, 0, s), "no bytes");
    SAYS(cudaMallocAsync(&p, 4, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaMallocAsync(&p, (size_t)1 << 50, s), "too much");
    WORKS(cudaMallocAsync(&p, 4096, s), "4096 bytes");
    WORKS(cudaMemsetAsync(p, 1, 4096, s), "it");
    WORKS(cudaFreeAsync(p, s), "once");
    SAYS(cudaFreeAsync(p, s), "twice");
    SAYS(cudaFreeAsync(NULL, s), "null pointer");
    WORKS(cudaMallocAsync(&p, 4096, s), "for cudaFree");
    WORKS(cudaFree(p), "it");
    WORKS(cudaMalloc(&p, 4096), "for cudaFreeAsync");
    WORKS(cudaFreeAsync(p, s), "it");
    WORKS(cudaStreamSynchronize(s), "all");
}

int main()
{
    MUST(cudaFree(0));
    allocation();
    copies();
    symbols();
    ordered();
    return 0;
}
