/*
 * stream_ordered.c: the two functions of chapter "Stream Ordered Memory Allocator" that need no pool.
 *
 * Memory is there when cudaMallocAsync returns, so it is there for whatever the stream does next. cudaFreeAsync waits,
 * like cudaFree, for outstanding work: the order is the stream's, the host waits where it natively would not. The
 * functions that name a pool say that they are not supported, and so do the attributes.
 */
#include "cpu/client/runtime/runtime.h"

static int check_stream(int device, core_stream stream) {
    struct core_stream_info info;
    return core_stream_info(device, stream, &info);
}

static int allocate(void **pointer, size_t size, core_stream stream) {
    int device;
    uint64_t address;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!pointer)
        return CUDART_INVALID_VALUE;
    if ((error = check_stream(device, stream)))
        return error;
    if (size == 0) {
        *pointer = NULL;
        return CUDART_OK;
    }
    if ((error = core_memory_allocate(device, size, &address)))
        return error;
    *pointer = (void *)(uintptr_t)address;
    return CUDART_OK;
}

static int release(void *pointer, core_stream stream) {
    int device;
    int error = runtime_enter(&device);
    if (!error)
        error = check_stream(device, stream);
    if (error || !pointer)
        return error;
    return core_memory_free((uint64_t)(uintptr_t)pointer);
}

RUNTIME_API int cudaMallocAsync(void **pointer, size_t size, core_stream stream) { return runtime_return(allocate(pointer, size, stream)); }
RUNTIME_API int cudaMallocAsync_ptsz(void **pointer, size_t size, core_stream stream) { return runtime_return(allocate(pointer, size, runtime_per_thread(stream))); }
RUNTIME_API int cudaFreeAsync(void *pointer, core_stream stream) { return runtime_waited(release(pointer, stream)); }
RUNTIME_API int cudaFreeAsync_ptsz(void *pointer, core_stream stream) { return runtime_waited(release(pointer, runtime_per_thread(stream))); }
