/*
 * stream_ordered.c: the two functions of chapter "Stream Ordered Memory Allocator" that need no pool.
 *
 * Memory is there when cuMemAllocAsync returns, so it is there for whatever the stream does next. cuMemFreeAsync waits,
 * like cuMemFree, for outstanding work: the order is the stream's, the host waits where it natively would not.
 */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

static int enter(CUstream stream, core_context **context)
{
    struct core_stream_info info;
    int error = driver_enter(context);
    return error ? error : core_stream_info(*context, stream, &info);
}

static int allocate(CUdeviceptr *address, size_t size, CUstream stream)
{
    core_context *context;
    bool kept = false;
    int error = enter(stream, &context);
    if (error)
        return error;
    if (!address || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (capture_any())
        error = capture_allocate(context, stream, size, address, &kept);
    return kept ? error : core_memory_allocate(context, size, address);
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
    return kept || graph_memory_free(address, false, &error) ? error : core_memory_free(address);
}

CUresult driver_cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
    return (CUresult)allocate(address, size, stream);
}

CUresult driver_cuMemFreeAsync(CUdeviceptr address, CUstream stream) { return driver_waited(release(address, stream)); }
