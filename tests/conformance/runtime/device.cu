// shows: conformance: device management (chapter 6.1 of the Runtime API reference), line by line with NVIDIA's runtime
#include "../suite.h"

static void fresh_thread()
{
    int device = -1;
    WORKS(cudaGetDevice(&device), "in another thread");
    VALUE("device", "%d", device);
    WORKS(cudaPeekAtLastError(), "errors belong to threads");
}

int main()
{
    int value = -7, count = -7, major = 0, device = -7;
    size_t size = 7;
    cudaDeviceProp prop;
    char text[64];
    unsigned flags = 0;

    GIVES(cudaErrorInvalidValue, cudaGetDeviceCount(NULL), "null pointer");
    WORKS(cudaGetDeviceCount(&count), "first call");
    VALUE("count", "%d", count);
    GIVES(cudaErrorInvalidValue, cudaGetDevice(NULL), "null pointer");
    WORKS(cudaGetDevice(&device), "before cudaSetDevice");
    VALUE("device", "%d", device);
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(-1), "negative");
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(count), "one too many");
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(1 << 30), "huge");
    WORKS(cudaSetDevice(0), "first device");
    WORKS(cudaGetDevice(&device), "after errors");
    VALUE("device", "%d", device);
    SAYS(cudaSetDevice(77), "its error, for another thread");
    in_thread(fresh_thread);

    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(NULL, cudaDevAttrMaxThreadsPerBlock, 0), "null pointer");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, -1), "negative device");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, count), "no device");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, (cudaDeviceAttr)0, 0), "attribute 0");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, (cudaDeviceAttr)-1, 0), "attribute -1");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, (cudaDeviceAttr)9999, 0), "attribute 9999");
    for (int i = 1; i < 150; i++) {
        cudaError_t r = cudaDeviceGetAttribute(&value, (cudaDeviceAttr)i, 0);
        printf("cudaDeviceGetAttribute: %d -> %s", i, cudaGetErrorName(r));
        r == cudaSuccess &&i != 13 && i != 36 ? printf(" %d\n", value) : printf("\n");
        cudaGetLastError();
    }
    WORKS(cudaGetDeviceProperties(&prop, 0), "the first");
    VALUE("name", "%s", prop.name);
    VALUE("major.minor", "%d", prop.major * 10 + prop.minor);
    VALUE("totalGlobalMem", "%zu", prop.totalGlobalMem);
    VALUE("maxThreadsPerBlock", "%d", prop.maxThreadsPerBlock);
    VALUE("maxGridSize", "%d", prop.maxGridSize[0] ^ prop.maxGridSize[1] ^ prop.maxGridSize[2]);
    GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, -1), "negative device");
    GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, count), "no device");
    GIVES(cudaErrorInvalidValue, cudaGetDeviceProperties(NULL, 0), "null pointer");
    SAYS(cudaGetDeviceProperties(NULL, -1), "both wrong");
    memset(&prop, 0, sizeof prop);
    WORKS(cudaChooseDevice(&device, &prop), "any");
    VALUE("device", "%d", device);
    prop.major = 99;
    SAYS(cudaChooseDevice(&device, &prop), "none has that");
    VALUE("device", "%d", device);
    GIVES(cudaErrorInvalidValue, cudaChooseDevice(NULL, &prop), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaChooseDevice(&device, NULL), "null properties");

    WORKS(cudaDeviceGetPCIBusId(text, sizeof text, 0), "the first");
    VALUE("id", "%s", text);
    WORKS(cudaDeviceGetByPCIBusId(&device, text), "its id");
    VALUE("device", "%d", device);
    GIVES(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(NULL, 20, 0), "null pointer");
    SAYS(cudaDeviceGetPCIBusId(text, 0, 0), "no room");
    SAYS(cudaDeviceGetPCIBusId(text, 12, 0), "room for 12");
    SAYS(cudaDeviceGetPCIBusId(text, 13, 0), "room for 13");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetPCIBusId(text, 20, 9), "no device");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(NULL, "0:0:0"), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(&device, NULL), "null text");
    SAYS(cudaDeviceGetByPCIBusId(&device, "nonsense"), "nonsense");
    SAYS(cudaDeviceGetByPCIBusId(&device, "ff:1f.0"), "no such device");

    for (int limit = 0; limit < 8; limit++) {
        cudaError_t r = cudaDeviceGetLimit(&size, (cudaLimit)limit);
        printf("cudaDeviceGetLimit: %d -> %s", limit, cudaGetErrorName(r));
        r == cudaSuccess ? printf(" %zu\n", size) : printf("\n");
        cudaGetLastError();
    }
    GIVES(cudaErrorInvalidValue, cudaDeviceGetLimit(NULL, cudaLimitStackSize), "null pointer");
    SAYS(cudaDeviceGetLimit(&size, (cudaLimit)99), "limit 99");
    SAYS(cudaDeviceSetLimit((cudaLimit)99, 1), "limit 99");
    WORKS(cudaDeviceSetLimit(cudaLimitStackSize, 4096), "stack");
    WORKS(cudaDeviceGetLimit(&size, cudaLimitStackSize), "stack");
    VALUE("stack", "%zu", size);
    SAYS(cudaDeviceSetLimit(cudaLimitStackSize, (size_t)1 << 40), "a huge stack");
    WORKS(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20), "printf");
    WORKS(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4 << 20), "heap");
    SAYS(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 64), "granularity");

    cudaFuncCache cache;
    WORKS(cudaDeviceGetCacheConfig(&cache), "usual");
    VALUE("cache", "%d", (int)cache);
    GIVES(cudaErrorInvalidValue, cudaDeviceGetCacheConfig(NULL), "null pointer");
    WORKS(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1), "L1");
    SAYS(cudaDeviceSetCacheConfig((cudaFuncCache)17), "17");
    WORKS(cudaDeviceGetCacheConfig(&cache), "after");
    VALUE("cache", "%d", (int)cache);
    cudaSharedMemConfig banks;
    SAYS(cudaDeviceGetSharedMemConfig(&banks), "usual");
    SAYS(cudaDeviceGetSharedMemConfig(NULL), "null pointer");
    SAYS(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte), "8 bytes");
    SAYS(cudaDeviceSetSharedMemConfig((cudaSharedMemConfig)17), "17");

    int least, greatest;
    WORKS(cudaDeviceGetStreamPriorityRange(&least, &greatest), "both");
    VALUE("least", "%d", least);
    VALUE("greatest", "%d", greatest);
    SAYS(cudaDeviceGetStreamPriorityRange(NULL, NULL), "null pointers");
    WORKS(cudaGetDeviceFlags(&flags), "usual");
    VALUE("flags", "%u", flags);
    GIVES(cudaErrorInvalidValue, cudaGetDeviceFlags(NULL), "null pointer");
    SAYS(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "blocking");
    WORKS(cudaGetDeviceFlags(&flags), "after");
    VALUE("flags", "%u", flags);
    SAYS(cudaSetDeviceFlags(0x1000), "unknown flag");
    SAYS(cudaSetDeviceFlags(3), "two ways to wait");
    SAYS(cudaSetDeviceFlags(7), "three ways to wait");
    SAYS(cudaInitDevice(0, 0, 0), "no flags");
    SAYS(cudaInitDevice(count, 0, 0), "no device");
    SAYS(cudaInitDevice(0, 0x1000, cudaInitDeviceFlagsAreValid), "unknown flag");
    SAYS(cudaInitDevice(0, 0, 8), "unknown kind");
    int list[] = { 0, 99 };
    SAYS(cudaSetValidDevices(list, 1), "the first");
    SAYS(cudaSetValidDevices(list, 2), "one that is not there");
    SAYS(cudaSetValidDevices(NULL, 1), "null pointer");
    SAYS(cudaSetValidDevices(NULL, 0), "none");

    GIVES(cudaErrorInvalidValue, cudaDeviceCanAccessPeer(NULL, 0, 0), "null pointer");
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&value, 0, 9), "no device");
    WORKS(cudaDeviceCanAccessPeer(&value, 0, 0), "itself");
    VALUE("peer", "%d", value);
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(9, 0), "no device");
    SAYS(cudaDeviceEnablePeerAccess(0, 0), "itself");
    SAYS(cudaDeviceEnablePeerAccess(0, 1), "flags");
    SAYS(cudaDeviceDisablePeerAccess(0), "itself");
    GIVES(cudaErrorInvalidDevice, cudaDeviceDisablePeerAccess(9), "no device");
    SAYS(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0), "itself");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 9), "no device");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&value, (cudaDeviceP2PAttr)99, 0, 0), "attribute 99");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetP2PAttribute(NULL, cudaDevP2PAttrAccessSupported, 0, 0), "null pointer");

    WORKS(cudaDriverGetVersion(&major), "driver");
    VALUE("driver at least 12", "%d", major >= 12000);
    GIVES(cudaErrorInvalidValue, cudaDriverGetVersion(NULL), "null pointer");
    WORKS(cudaRuntimeGetVersion(&major), "runtime");
    VALUE("runtime", "%d", major / 1000);
    GIVES(cudaErrorInvalidValue, cudaRuntimeGetVersion(NULL), "null pointer");

    WORKS(cudaDeviceSynchronize(), "nothing to wait for");
    WORKS(cudaProfilerStart(), "no profiler");
    WORKS(cudaProfilerStop(), "no profiler");
    SAYS(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                            cudaFlushGPUDirectRDMAWritesToOwner),
         "owner");
    WORKS(cudaDeviceReset(), "once");
    WORKS(cudaDeviceReset(), "twice");
    WORKS(cudaGetDevice(&device), "after");
    VALUE("device", "%d", device);
    WORKS(cudaFree(0), "a context again");
    WORKS(cudaDeviceGetLimit(&size, cudaLimitStackSize), "limits after the reset");
    VALUE("stack", "%zu", size);
    return 0;
}
