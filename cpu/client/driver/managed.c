/* managed.c: prefetching of managed memory, of chapter "Unified Addressing".
   No graph has such a node, so a stream that is captured refuses it. */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

enum { HOST = -1 };

static int prefetch(CUdeviceptr address, size_t size, int device, core_stream stream)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return error ? error : core_prefetch(context, stream, address, size, device);
}

CUresult driver_cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
    return (CUresult)prefetch(address, size, device, stream);
}

/* The nodes of a host are those of the server's machine: any of them is "the host". */
CUresult driver_cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
                                      CUstream stream)
{
    if (flags || location.type <= CU_MEM_LOCATION_TYPE_INVALID ||
        location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return (CUresult)prefetch(address, size, device ? location.id : HOST, stream);
}
