/* shows: conformance: Driver API: peer access between contexts, and access of several devices to mapped memory */
#include "../driver.h"

enum { FIRST, SECOND };

__attribute__((constructor)) static void two_devices(void) { setenv("FLYT_SOFTGPU_DEVICES", "2", 1); }

static void questions(void)
{
    int value = 9;
    WORKS(cuDeviceCanAccessPeer(&value, 0, 1), "the other");
    VALUE("can", "%d", value);
    WORKS(cuDeviceCanAccessPeer(&value, 1, 1), "itself");
    VALUE("can", "%d", value);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&value, 0, 2), "no peer");
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&value, 2, 0), "no device");
    SAYS(cuDeviceCanAccessPeer(NULL, 0, 1), "null pointer");
    for (int attribute = 1; attribute < 6; attribute++) {
        WORKS(cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)attribute, 0, 1), "the other");
        VALUE("value", "%d", value);
    }
    GIVES(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)6, 0, 1), "no attribute");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute(NULL, (CUdevice_P2PAttribute)1, 0, 1), "null pointer");
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)1, 1, 1), "itself");
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)1, 0, 2), "no peer");
}

static void permission(CUcontext c[2])
{
    CUcontext third;
    SAYS(cuCtxEnablePeerAccess(c[SECOND], 0), "no current context");
    MUST(cuCtxSetCurrent(c[FIRST]));
    GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(c[SECOND]), "never enabled");
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(NULL, 0), "null context");
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(WRONG(CUcontext), 0), "no context");
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxDisablePeerAccess(WRONG(CUcontext)), "no context");
    GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(c[SECOND], 1), "flags");
    SAYS(cuCtxEnablePeerAccess(c[FIRST], 0), "itself");
    SAYS(cuCtxDisablePeerAccess(c[FIRST]), "itself");
    WORKS(cuCtxEnablePeerAccess(c[SECOND], 0), "the other");
    GIVES(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(c[SECOND], 0), "again");
    MUST(cuCtxSetCurrent(c[SECOND]));
    GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(c[FIRST]), "the other direction");
    MUST(cuCtxCreate(&third, NULL, 0, 1));
    GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(c[FIRST]), "from another context");
    SAYS(cuCtxEnablePeerAccess(c[SECOND], 0), "another context of the device");
    WORKS(cuCtxEnablePeerAccess(c[FIRST], 0), "from another context");
    MUST(cuCtxSetCurrent(c[FIRST]));
    WORKS(cuCtxEnablePeerAccess(third, 0), "a second context");
    MUST(cuCtxDestroy(third));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(third, 0), "a context that has ended");
    MUST(cuCtxSetCurrent(c[FIRST]));
    WORKS(cuCtxDisablePeerAccess(c[SECOND]), "enabled");
    GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(c[SECOND]), "again");
}

static void get(CUdeviceptr at, int device)
{
    unsigned long long flags = 99;
    CUmemLocation where = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
    SAYS(cuMemGetAccess(&flags, &where, at), device ? "the other" : "its own");
    VALUE("flags", "%llu", flags);
}

static void mapped(void)
{
    enum { SIZE = 2 << 20 };
    CUmemAllocationProp property = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemAccessDesc both[2] = { { property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
                                { property.location, CU_MEM_ACCESS_FLAGS_PROT_READ } };
    both[1].location.id = 1;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    MUST(cuMemAddressReserve(&at, SIZE, 0, 0, 0));
    MUST(cuMemCreate(&handle, SIZE, &property, 0));
    MUST(cuMemMap(at, SIZE, 0, handle, 0));
    get(at, 0);
    get(at, 1);
    get(at, 2);
    WORKS(cuMemSetAccess(at, SIZE, &both[1], 1), "only the other");
    get(at, 0);
    get(at, 1);
    WORKS(cuMemSetAccess(at, SIZE, both, 2), "both");
    get(at, 0);
    get(at, 1);
    both[1].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    WORKS(cuMemSetAccess(at, SIZE, both, 2), "none for the other");
    get(at, 0);
    get(at, 1);
    both[1].location.id = 2;
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemSetAccess(at, SIZE, both, 2), "no device");
    get(at, 0);
    WORKS(cuMemUnmap(at, SIZE), "mapped");
    get(at, 0);
    WORKS(cuMemMap(at, SIZE, 0, handle, 0), "again");
    get(at, 0);
    get(at, 1);
    MUST(cuMemUnmap(at, SIZE));
    MUST(cuMemRelease(handle));
    MUST(cuMemAddressFree(at, SIZE));
}

int main(void)
{
    CUcontext c[2];
    MUST(cuInit(0));
    questions();
    MUST(cuDevicePrimaryCtxRetain(&c[FIRST], 0));
    MUST(cuDevicePrimaryCtxRetain(&c[SECOND], 1));
    permission(c);
    mapped();
    WORKS(cuDevicePrimaryCtxRelease(1), "the second");
    MUST(cuCtxSetCurrent(c[FIRST]));
    SAYS(cuCtxEnablePeerAccess(c[SECOND], 0), "behind its end");
    SAYS(cuCtxDisablePeerAccess(c[SECOND]), "behind its end");
    return 0;
}
