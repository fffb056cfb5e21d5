// shows: devices: count, properties against attributes, limits, memory information, PCI bus id, flags, reset; with two,
//   a synchronous copy comes before the other's work
#include "check.h"

__global__ void one(int *p) { *p = 1; }
__device__ int kept = 11;
__global__ void read_kept(int *p) { *p = kept++; }

// A synchronous copy that has returned comes before what another device's stream does, which waits for no stream of the
// first.
static void copies_before_other_devices()
{
    const size_t size = 256 << 10;
    static unsigned char host[size], back[size];
    unsigned char *first, *second;
    cudaStream_t stream;
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc((void **)&second, size));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc((void **)&first, size));
    for (int round = 1; round <= 100; round++) {
        memset(host, round, size);
        MUST(cudaSetDevice(0));
        MUST(cudaMemcpy(first, host, size, cudaMemcpyHostToDevice));
        MUST(cudaSetDevice(1));
        MUST(cudaMemcpyAsync(second, first, size, cudaMemcpyDefault, stream));
        MUST(cudaMemcpyAsync(back, second, size, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        HOLDS(memcmp(back, host, size) == 0);
    }
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(second));
    MUST(cudaSetDevice(0));
    MUST(cudaFree(first));
}

int main()
{
    int count = 0, device = -1, value = 0, runtime = 0, driver = 0;
    MUST(cudaGetDeviceCount(&count));
    HOLDS(count >= 1);
    if (count > 1)
        copies_before_other_devices();
    MUST(cudaGetDevice(&device));
    HOLDS(device == 0);
    MUST(cudaRuntimeGetVersion(&runtime));
    MUST(cudaDriverGetVersion(&driver));
    HOLDS(runtime == CUDART_VERSION && driver >= 11000);
    struct cudaDeviceProp p;
    memset(&p, 0x5a, sizeof p);
    MUST(cudaGetDeviceProperties(&p, 0));
    HOLDS(strlen(p.name) > 0 && p.totalGlobalMem > 0 && p.warpSize == 32 && p.maxThreadsPerBlock == 1024);
    HOLDS(p.major >= 7 && p.multiProcessorCount > 0 && p.sharedMemPerBlock >= 48 << 10 && p.regsPerBlock == 65536);
    static const struct { cudaDeviceAttr attribute; int expected;
    } pairs[] = {
        { cudaDevAttrMultiProcessorCount, p.multiProcessorCount },
        { cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock },
        { cudaDevAttrComputeCapabilityMajor, p.major },
        { cudaDevAttrComputeCapabilityMinor, p.minor },
        { cudaDevAttrWarpSize, p.warpSize },
        { cudaDevAttrMaxSharedMemoryPerBlock, (int)p.sharedMemPerBlock },
        { cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin },
        { cudaDevAttrMaxGridDimX, p.maxGridSize[0] },
        { cudaDevAttrMaxBlockDimZ, p.maxThreadsDim[2] },
        { cudaDevAttrPciBusId, p.pciBusID },
        { cudaDevAttrUnifiedAddressing, p.unifiedAddressing },
        { cudaDevAttrCooperativeLaunch, p.cooperativeLaunch },
        { cudaDevAttrL2CacheSize, p.l2CacheSize },
        { cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor },
        { cudaDevAttrManagedMemory, p.managedMemory },
        { cudaDevAttrMemoryPoolsSupported, p.memoryPoolsSupported },
        { cudaDevAttrIntegrated, p.integrated },
    };
    for (auto &pair : pairs) {
        MUST(cudaDeviceGetAttribute(&value, pair.attribute, 0));
        if (value != pair.expected)
            fprintf(stderr, "attribute %d: %d, but the properties say %d\n", (int)pair.attribute, value, pair.expected);
        HOLDS(value == pair.expected);
    }
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, count));
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, (cudaDeviceAttr)4711, 0));
    cudaGetLastError();
    char bus[32];
    MUST(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    MUST(cudaDeviceGetByPCIBusId(&device, bus));
    HOLDS(device == 0);
    size_t before, total, after, limit;
    MUST(cudaMemGetInfo(&before, &total));
    HOLDS(before <= total && total <= p.totalGlobalMem + (64 << 20));
    char *big;
    MUST(cudaMalloc((void **)&big, 256 << 20));
    MUST(cudaMemGetInfo(&after, &total));
    HOLDS(before - after >= 256 << 20 && before - after <= 300 << 20);
    MUST(cudaFree(big));
    MUST(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
    HOLDS(limit >= 1 << 16);
    MUST(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    MUST(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    HOLDS(limit == 4096);
    int least, greatest;
    MUST(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    HOLDS(least >= greatest);

    // a reset takes all with it, and the device can be used again, with its variables as at the start
    int *d, h = 0;
    MUST(cudaMalloc((void **)&d, sizeof h));
    read_kept<<<1, 1>>>(d);
    read_kept<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 12);
    MUST(cudaDeviceReset());
    GIVES(cudaErrorInvalidValue, cudaFree(d));
    cudaGetLastError();
    MUST(cudaMalloc((void **)&d, sizeof h));
    read_kept<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 11);
    return check_result("devices");
}
