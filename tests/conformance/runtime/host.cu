// shows: conformance: page-locked memory, attributes of pointers, occupancy, symbols, events, limits, flags, versions,
//   errors of threads, line by line with NVIDIA's runtime
#include "../suite.h"

#include <sys/mman.h>

__device__ int variable[4];
__global__ void kernel(int *a)
{
    if (a)
        *a = threadIdx.x;
}
__global__ void __launch_bounds__(256, 2) bounded(int *a)
{
    if (a)
        *a = threadIdx.x;
}
static int no_kernel;

static void page_locked()
{
    char *p = NULL, *q = NULL;
    unsigned flags = 7;
    for (unsigned f = 0; f <= 9; f++) {
        cudaError_t r = cudaHostAlloc((void **)&p, 8192, f);
        printf("cudaHostAlloc: flags %u -> %s", f, cudaGetErrorName(r));
        if (r == cudaSuccess) {
            r = cudaHostGetFlags(&flags, p);
            printf(", %s %u", cudaGetErrorName(r), flags);
            r = cudaHostGetDevicePointer((void **)&q, p, 0);
            printf(", %s %d\n", cudaGetErrorName(r), q == p);
            MUST(cudaFreeHost(p));
        } else {
            printf("\n");
        }
        cudaGetLastError();
    }
    SAYS(cudaHostAlloc((void **)&p, (size_t)1 << 60, 0), "too much");
    SAYS(cudaMallocHost((void **)&p, (size_t)1 << 60), "too much");
    MUST(cudaHostAlloc((void **)&p, 8192, cudaHostAllocMapped));
    pointer_row("mapped", p);
    pointer_row("inside mapped", p + 4097);
    pointer_row("its last byte", p + 8191);
    WORKS(cudaHostGetDevicePointer((void **)&q, p + 100, 0), "inside");
    VALUE("the same", "%d", q == p + 100);
    kernel<<<1, 1>>>((int *)p);
    WORKS(cudaDeviceSynchronize(), "a kernel writes there");
    VALUE("value", "%d", *(int *)p);
    SAYS(cudaFree(p), "of the host");
    SAYS(cudaFreeHost(p + 1), "inside");
    SAYS(cudaHostRegister(p, 8192, 0), "page-locked already");
    SAYS(cudaHostUnregister(p), "never registered");
    WORKS(cudaMemset(p, 3, 100), "of the host");
    VALUE("byte", "%d", p[99]);
    WORKS(cudaFreeHost(p), "usual");
    pointer_row("freed", p);
    char *pages = (char *)mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned f = 0; f <= 17; f++) {
        cudaError_t r = cudaHostRegister(pages, 65536, f);
        printf("cudaHostRegister: flags %u -> %s\n", f, cudaGetErrorName(r));
        if (r == cudaSuccess)
            MUST(cudaHostUnregister(pages));
        cudaGetLastError();
    }
    SAYS(cudaHostRegister(pages + 100, 5000, 0), "not at a page");
    pointer_row("registered", pages + 100);
    pointer_row("before what was registered", pages + 50);
    SAYS(cudaHostRegister(pages, 65536, 0), "around it");
    SAYS(cudaHostRegister(pages + 16384, 4096, 0), "beside it");
    SAYS(cudaHostUnregister(pages), "not where it begins");
    SAYS(cudaHostUnregister(pages + 100), "usual");
    SAYS(cudaHostUnregister(pages + 16384), "usual");
    SAYS(cudaHostRegister((void *)16, 4096, 0), "nothing is there");
    SAYS(cudaHostGetFlags(&flags, pages), "not registered");
    SAYS(cudaHostGetDevicePointer((void **)&q, pages, 0), "not registered");
    munmap(pages, 65536);
}

static void occupancy()
{
    int blocks = 7, size = 7, grid = 7, clusters = 7;
    size_t bytes = 7;
    GIVES(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(NULL, (const void *)kernel, 32, 0),
          "null pointer");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)&no_kernel, 32, 0), "no kernel");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)NULL, 32, 0), "null kernel");
    for (int threads : { -1, 0, 1, 31, 32, 33, 256, 257, 1024, 1025 })
        for (size_t shared : { (size_t)0, (size_t)40000, (size_t)49152, (size_t)49153, (size_t)1 << 30 }) {
            blocks = 77;
            cudaError_t r =
                cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)bounded, threads, shared);
            printf("occupancy: %d threads, %zu bytes -> %s %d\n", threads, shared, cudaGetErrorName(r), blocks);
            cudaGetLastError();
        }
    for (unsigned flags = 0; flags <= 3; flags++)
        SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)kernel, 32, 0, flags),
             "flags");
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, (const void *)kernel, 1, 32), "one block");
    VALUE("bytes", "%zu", bytes);
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(NULL, (const void *)kernel, 1, 32), "null pointer");
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, (const void *)kernel, 0, 32), "no blocks");
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, (const void *)kernel, 1, 0), "no threads");
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, (const void *)kernel, 99, 1024), "too many blocks");
    WORKS(cudaOccupancyMaxPotentialBlockSize(&grid, &size, bounded), "bounded");
    VALUE("size", "%d", size);
    VALUE("grid", "%d", grid);
#if RUNTIME >= 12
    cudaLaunchConfig_t config = {};
    config.gridDim = 4;
    config.blockDim = 32;
    SAYS(cudaOccupancyMaxActiveClusters(&clusters, (const void *)kernel, &config), "no size of clusters");
    SAYS(cudaOccupancyMaxActiveClusters(NULL, (const void *)kernel, &config), "null pointer");
    SAYS(cudaOccupancyMaxPotentialClusterSize(&clusters, (const void *)kernel, &config), "usual");
    VALUE("clusters", "%d", clusters);
    SAYS(cudaOccupancyMaxPotentialClusterSize(&clusters, (const void *)&no_kernel, &config), "no kernel");
#endif
    (void)clusters;
}

static void of_a_thread()
{
    WORKS(cudaPeekAtLastError(), "another thread's errors are its own");
    GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 1), "an error of this thread");
    int device = 7;
    WORKS(cudaGetDevice(&device), "in a thread");
    VALUE("device", "%d", device);
    cudaMemcpyToSymbol(variable, &device, 400); /* too long: stays until the thread ends */
}

static void threads()
{
    SAYS(cudaSetDevice(99), "no device");
    cudaSetDevice(99);
    in_thread(of_a_thread);
    WORKS(cudaGetLastError() == cudaErrorInvalidDevice ? cudaSuccess : cudaErrorUnknown, "the error is still there");
    WORKS(cudaPeekAtLastError(), "and then not any more");
}

static void limits()
{
    for (int limit = -1; limit <= 7; limit++)
        for (size_t value : { (size_t)0, (size_t)1, (size_t)100, (size_t)4096, (size_t)1 << 21 }) {
            size_t got = 7;
            cudaError_t r = cudaDeviceSetLimit((cudaLimit)limit, value);
            printf("cudaDeviceSetLimit: %d, %zu -> %s", limit, value, cudaGetErrorName(r));
            r = cudaDeviceGetLimit(&got, (cudaLimit)limit);
            printf(", %s %zu\n", cudaGetErrorName(r), got);
            cudaGetLastError();
        }
    MUST(cudaDeviceReset());
    for (unsigned f = 0; f <= 600; f += f < 40 ? 1 : 24) {
        unsigned now = 77;
        cudaError_t r = cudaSetDeviceFlags(f);
        printf("cudaSetDeviceFlags: %u -> %s", f, cudaGetErrorName(r));
        r = cudaGetDeviceFlags(&now);
        printf(", %s %u\n", cudaGetErrorName(r), now & ~(unsigned)cudaDeviceMapHost);
        cudaGetLastError();
    }
    int least = 7, greatest = 7;
    WORKS(cudaDeviceGetStreamPriorityRange(&least, NULL), "the least only");
    WORKS(cudaDeviceGetStreamPriorityRange(NULL, &greatest), "the greatest only");
    VALUE("range", "%d", least - greatest);
}

int main()
{
    MUST(cudaFree(0));
    page_locked();
    occupancy();
    threads();
    limits();
    return 0;
}
