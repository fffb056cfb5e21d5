/*
 * stream_ordered.c: allocation of chapter "Stream Ordered Memory Allocator". (Pools are in pool.c.) Memory that the
 * program allocates while it captures a stream is the graph's.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

static int check_stream(core_context *context, core_stream stream)
{
    struct core_stream_info info;
    return core_stream_info(context, stream, &info);
}

static int allocate(void **pointer, size_t size, core_pool pool, core_stream stream)
{
    core_context *context;
    uint64_t address;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!pointer)
        return cudaErrorInvalidValue;
    if ((error = check_stream(context, stream)))
        return error;
    if (size == 0) {
        *pointer = NULL;
        return cudaSuccess;
    }
    bool kept = false;
    if (capture_any())
        error = capture_allocate(context, stream, pool, size, &address, &kept);
    if (!kept)
        error = core_pool_allocate(context, stream, pool, size, &address);
    if (error)
        return error;
    *pointer = (void *)(uintptr_t)address;
    return cudaSuccess;
}

static int release(void *pointer, core_stream stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = check_stream(context, stream);
    if (error || !pointer)
        return error;
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    bool kept = false;
    if (capture_any())
        error = capture_free(context, stream, address, &kept);
    if (kept || graph_memory_free_async(context, stream, address, &error))
        return error;
    return core_pool_free(context, stream, address);
}

cudaError_t runtime_cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream)
{
    return runtime_return(allocate(pointer, size, 0, stream));
}

cudaError_t runtime_cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
    return runtime_return(pool ? allocate(pointer, size, pool, stream) : cudaErrorInvalidValue);
}

cudaError_t runtime_cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    return runtime_waited(release(pointer, stream));
}
