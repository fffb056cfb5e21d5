// shows: conformance: attributes of pointers into every kind of memory, before and behind its end, line by line with
//   NVIDIA's runtime
#include "../suite.h"

#include <sys/mman.h>

__device__ int variable[16];
__constant__ int fixed[16];
__device__ __managed__ int both[16];
__global__ void kernel(int *p) { *p = 3; }

static void around(const char *about, const void *begin, size_t size)
{
    char text[200];
    const char *p = (const char *)begin;
    snprintf(text, sizeof text, "%s, its beginning", about);
    pointer_row(text, p);
    snprintf(text, sizeof text, "%s, its middle", about);
    pointer_row(text, p + size / 2);
    snprintf(text, sizeof text, "%s, its last byte", about);
    pointer_row(text, p + size - 1);
}

static void of_a_thread()
{
    pointer_row("a variable, in another thread", variable);
}

int main()
{
    static int plain[4];
    int stack = 0;
    void *p, *q, *at;
    cudaStream_t s;
    cudaMemPool_t pool;
    pointer_row("before any other call", &stack);
    MUST(cudaFree(0));
    MUST(cudaStreamCreate(&s));
    MUST(cudaMalloc(&p, 1000));
    around("device", p, 1000);
    MUST(cudaFree(p));
    pointer_row("device, freed", p);
    size_t pitch;
    MUST(cudaMallocPitch(&p, &pitch, 100, 10));
    around("pitched", p, pitch * 10);
    MUST(cudaFree(p));
    for (unsigned flags = 0; flags <= 7; flags++) {
        MUST(cudaHostAlloc(&p, 5000, flags));
        around("of the host", p, 5000);
        MUST(cudaHostGetDevicePointer(&q, p, 0));
        pointer_row("of the host, its device pointer", q);
        MUST(cudaFreeHost(p));
    }
    pointer_row("of the host, freed", p);
    p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pointer_row("not registered", p);
    MUST(cudaHostRegister((char *)p + 4096, 4096, cudaHostRegisterMapped));
    around("registered", (char *)p + 4096, 4096);
    pointer_row("before what is registered", p);
    pointer_row("behind what is registered", (char *)p + 8192);
    MUST(cudaHostUnregister((char *)p + 4096));
    pointer_row("not registered any more", (char *)p + 4096);
    munmap(p, 16384);
    pointer_row("not mapped any more", p);
    for (unsigned flags = 1; flags <= 2; flags++) {
        MUST(cudaMallocManaged(&p, 10000, flags));
        around("managed", p, 10000);
        MUST(cudaFree(p));
    }
    pointer_row("managed, freed", p);
    around("a managed variable", both, sizeof both);
    MUST(cudaGetSymbolAddress(&at, variable));
    around("a variable", at, sizeof variable);
    pointer_row("a variable's symbol", variable);
    MUST(cudaGetSymbolAddress(&at, fixed));
    around("a constant", at, sizeof fixed);
    MUST(cudaMallocAsync(&p, 3000, s));
    pointer_row("of a pool, not synchronised", p);
    MUST(cudaStreamSynchronize(s));
    around("of a pool", p, 3000);
    MUST(cudaFreeAsync(p, s));
    MUST(cudaStreamSynchronize(s));
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMemPoolTrimTo(pool, 0));
    pointer_row("of a pool, freed", p);
    pointer_row("null", NULL);
    pointer_row("address 1", (void *)1);
    pointer_row("the highest address", (void *)UINTPTR_MAX);
    pointer_row("no canonical address", (void *)((uintptr_t)1 << 60));
    pointer_row("of the stack", &stack);
    pointer_row("static", plain);
    pointer_row("a kernel", (const void *)kernel);
    pointer_row("a function", (const void *)around);
    pointer_row("a string", "text");
    in_thread(of_a_thread);
    GIVES(cudaErrorInvalidValue, cudaPointerGetAttributes(NULL, &stack), "null pointer");
    cudaPointerAttributes a;
    WAITS(s, MUST(cudaMalloc(&p, 64)), cudaPointerGetAttributes(&a, p), "work under way");
    hold_begin(s, 100000);
    MUST(cudaMallocAsync(&p, 64, s));
    pointer_row("of a pool, work is before it", p);
    MUST(cudaFreeAsync(p, s));
    pointer_row("of a pool, freed behind work", p);
    hold_end();
    MUST(cudaStreamDestroy(s));
    return 0;
}
