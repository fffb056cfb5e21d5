/*
 * stream_ordered.c: allocation of chapter "Stream Ordered Memory Allocator". (Pools are in pool.c.) Memory that the
 * program allocates while it captures a stream is the graph's.
 */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

static int enter(CUstream stream, core_context **context)
{
    struct core_stream_info info;
    int error = driver_enter(context);
    return error ? error : core_stream_info(*context, stream, &info);
}

static int allocate(CUdeviceptr *address, size_t size, core_pool pool, CUstream stream)
{
    core_context *context;
    bool kept = false;
    int error = enter(stream, &context);
    if (error)
        return error;
    if (!address)
        return CUDA_ERROR_INVALID_VALUE;
    if (!size) {
        *address = 0;
        return CUDA_SUCCESS;
    }
    if (capture_any())
        error = capture_allocate(context, stream, pool, size, address, &kept);
    return kept ? error : core_pool_allocate(context, stream, pool, size, address);
}

static int release(CUdeviceptr address, CUstream stream)
{
    core_context *context;
    bool kept = false;
    int error = enter(stream, &context);
    if (error || !address)
        return error;
    if (capture_any())
        error = capture_free(context, stream, address, &kept);
    if (kept || graph_memory_free_async(context, stream, address, &error))
        return error;
    return core_pool_free(context, stream, address);
}

CUresult driver_cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
    return (CUresult)allocate(address, size, 0, stream);
}

CUresult driver_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
    return (CUresult)(pool ? allocate(address, size, pool, stream) : CUDA_ERROR_INVALID_VALUE);
}

CUresult driver_cuMemFreeAsync(CUdeviceptr address, CUstream stream) { return driver_waited(release(address, stream)); }
