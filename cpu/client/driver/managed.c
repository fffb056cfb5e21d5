/* managed.c: managed memory, of chapters "Memory Management", "Unified Addressing" and "Stream Management".
   No graph has a node that prefetches or attaches, so a stream that is captured refuses both. */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"
#include "cpu/client/managed/managed.h"

/* ---- allocation ---- */

static int allocate(CUdeviceptr *address, size_t size, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !address)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = issue_check_unsafe();
    return error ? error : core_managed_allocate(context, size, flags, address);
}

CUresult driver_cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags)
{
    return (CUresult)allocate(address, size, flags);
}

/* ---- attaching ---- */

CUresult driver_cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t size, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return (CUresult)(error ? error : core_managed_attach(context, stream, address, size, flags));
}

/* ---- prefetching ---- */

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

/* The nodes of a host are those of the server's machine: any of them is "the host". False: no such type. */
static bool location_place(const CUmemLocation *location, int *place)
{
    *place = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id : MANAGED_ON_HOST;
    return location->type > CU_MEM_LOCATION_TYPE_INVALID &&
           location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

CUresult driver_cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
                                      CUstream stream)
{
    int place;
    if (flags || !location_place(&location, &place))
        return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)prefetch(address, size, place, stream);
}

/* ---- advice ---- */

static int advise(CUdeviceptr address, size_t size, CUmem_advise advice, int place)
{
    core_context *context;
    int error = driver_enter(&context);
    return error ? error : core_managed_advise(address, size, (enum managed_advice)advice, place);
}

CUresult driver_cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device)
{
    return (CUresult)advise(address, size, advice, device);
}

/* Advice that takes no location ignores it. */
CUresult driver_cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location)
{
    int place;
    bool takes_one = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice >= CU_MEM_ADVISE_SET_ACCESSED_BY;
    if (!location_place(&location, &place) && takes_one)
        return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)advise(address, size, advice, place);
}

static int range_attributes(void **data, const size_t *sizes, const CUmem_range_attribute *attributes, size_t count,
                            CUdeviceptr address, size_t size)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && (!data || !sizes || !attributes || !count))
        error = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !error; i++)
        error = core_managed_attribute(address, size, (int)attributes[i], data[i], sizes[i]);
    return error;
}

CUresult driver_cuMemRangeGetAttribute(void *data, size_t data_size, CUmem_range_attribute attribute,
                                       CUdeviceptr address, size_t size)
{
    return driver_local(range_attributes(&data, &data_size, &attribute, 1, address, size));
}

CUresult driver_cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t count,
                                        CUdeviceptr address, size_t size)
{
    return driver_local(range_attributes(data, sizes, attributes, count, address, size));
}
