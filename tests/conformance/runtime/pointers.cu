// shows: conformance: attributes of pointers into every kind of memory, before and behind its end, line by line with
//   NVIDIA's runtime
#include "../suite.h"

#include <sys/mman.h>

__device__ int variable[16];
__constant__ int fixed[16];
__device__ __managed__ int both[16];
__global__ void kernel(int *p) { *p = 3; }

static void attributes(const char *about, const void *address)
{
    cudaPointerAttributes a;
    memset(&a, 0x55, sizeof a);
    cudaError_t r = cudaPointerGetAttributes(&a, address), last = cudaGetLastError();
    printf("cudaPointerGetAttributes: %s -> %s %s", about, cudaGetErrorName(r), cudaGetErrorName(last));
    if (r == cudaSuccess)
        printf(" type %d device %d, device pointer %s, host pointer %s", (int)a.type, a.device,
               !a.devicePointer             ? "none"
               : a.devicePointer == address ? "the same"
                                            : "another",
               !a.hostPointer             ? "none"
               : a.hostPointer == address ? "the same"
                                          : "another");
    printf("\n");
}

static void around(const char *about, const void *begin, size_t size)
{
    char text[200];
    const char *p = (const char *)begin;
    snprintf(text, sizeof text, "%s, its beginning", about);
    attributes(text, p);
    snprintf(text, sizeof text, "%s, its middle", about);
    attributes(text, p + size / 2);
    snprintf(text, sizeof text, "%s, its last byte", about);
    attributes(text, p + size - 1);
}

static void of_a_thread()
{
    attributes("a variable, in another thread", variable);
}

int main()
{
    static int plain[4];
    int stack = 0;
    void *p, *q, *at;
    cudaStream_t s;
    cudaMemPool_t pool;
    attributes("before any other call", &stack);
    MUST(cudaFree(0));
    MUST(cudaStreamCreate(&s));
    MUST(cudaMalloc(&p, 1000));
    around("device", p, 1000);
    MUST(cudaFree(p));
    attributes("device, freed", p);
    size_t pitch;
    MUST(cudaMallocPitch(&p, &pitch, 100, 10));
    around("pitched", p, pitch * 10);
    MUST(cudaFree(p));
    for (unsigned flags = 0; flags <= 7; flags++) {
        MUST(cudaHostAlloc(&p, 5000, flags));
        around("of the host", p, 5000);
        MUST(cudaHostGetDevicePointer(&q, p, 0));
        attributes("of the host, its device pointer", q);
        MUST(cudaFreeHost(p));
    }
    attributes("of the host, freed", p);
    p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    attributes("not registered", p);
    MUST(cudaHostRegister((char *)p + 4096, 4096, cudaHostRegisterMapped));
    around("registered", (char *)p + 4096, 4096);
    attributes("before what is registered", p);
    attributes("behind what is registered", (char *)p + 8192);
    MUST(cudaHostUnregister((char *)p + 4096));
    attributes("not registered any more", (char *)p + 4096);
    munmap(p, 16384);
    attributes("not mapped any more", p);
    for (unsigned flags = 1; flags <= 2; flags++) {
        MUST(cudaMallocManaged(&p, 10000, flags));
        around("managed", p, 10000);
        MUST(cudaFree(p));
    }
    attributes("managed, freed", p);
    around("a managed variable", both, sizeof both);
    MUST(cudaGetSymbolAddress(&at, variable));
    around("a variable", at, sizeof variable);
    attributes("a variable's symbol", variable);
    MUST(cudaGetSymbolAddress(&at, fixed));
    around("a constant", at, sizeof fixed);
    MUST(cudaMallocAsync(&p, 3000, s));
    attributes("of a pool, not synchronised", p);
    MUST(cudaStreamSynchronize(s));
    around("of a pool", p, 3000);
    MUST(cudaFreeAsync(p, s));
    MUST(cudaStreamSynchronize(s));
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMemPoolTrimTo(pool, 0));
    attributes("of a pool, freed", p);
    attributes("null", NULL);
    attributes("address 1", (void *)1);
    attributes("the highest address", (void *)UINTPTR_MAX);
    attributes("no canonical address", (void *)((uintptr_t)1 << 60));
    attributes("of the stack", &stack);
    attributes("static", plain);
    attributes("a kernel", (const void *)kernel);
    attributes("a function", (const void *)around);
    attributes("a string", "text");
    in_thread(of_a_thread);
    GIVES(cudaErrorInvalidValue, cudaPointerGetAttributes(NULL, &stack), "null pointer");
    cudaPointerAttributes a;
    WAITS(s, MUST(cudaMalloc(&p, 64)), cudaPointerGetAttributes(&a, p), "work under way");
    hold_begin(s, 100000);
    MUST(cudaMallocAsync(&p, 64, s));
    attributes("of a pool, work is before it", p);
    MUST(cudaFreeAsync(p, s));
    attributes("of a pool, freed behind work", p);
    hold_end();
    MUST(cudaStreamDestroy(s));
    return 0;
}
