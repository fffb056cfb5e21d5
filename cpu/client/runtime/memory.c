/* memory.c: allocation, of chapter "Memory Management" (copies are in copy.c, memset in set.c). */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

#include <string.h>

/* ---- device memory ---- */

static int allocate(void **pointer, size_t size)
{
    core_context *context;
    uint64_t address;
    int error = runtime_enter_unless(!size, &context);
    if (error)
        return error;
    if (!pointer)
        return cudaErrorInvalidValue;
    if (size == 0) {
        *pointer = NULL;
        return cudaSuccess;
    }
    if ((error = issue_check_unsafe()))
        return error;
    if ((error = core_memory_allocate(context, size, &address)))
        return error;
    *pointer = (void *)(uintptr_t)address;
    return cudaSuccess;
}

/* Rows begin at multiples of this, which is what every GPU of today uses. */
enum { PITCH_GRANULE = 512 };

static int allocate_rows(void **pointer, size_t *pitch, size_t width, size_t rows)
{
    core_context *context;
    int error = runtime_enter_unless(!width || !rows, &context);
    if (error)
        return error;
    if (!pointer || !pitch)
        return cudaErrorInvalidValue;
    if (width == 0 || rows == 0) {
        *pointer = NULL;
        *pitch = 0;
        return cudaSuccess;
    }
    if (width > core_limits_of(runtime_current())->pitch)
        return cudaErrorMemoryAllocation;
    size_t padded = (width + PITCH_GRANULE - 1) / PITCH_GRANULE * PITCH_GRANULE, size;
    if (__builtin_mul_overflow(padded, rows, &size))
        return cudaErrorMemoryAllocation;
    if ((error = allocate(pointer, size)))
        return error;
    *pitch = padded;
    return cudaSuccess;
}

static int allocate_3d(cudaPitchedPtr *out, cudaExtent extent)
{
    size_t rows;
    cudaPitchedPtr made = { .xsize = extent.width, .ysize = extent.height };
    if (!out)
        return cudaErrorInvalidValue;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
        return cudaErrorMemoryAllocation;
    int error = allocate_rows(&made.ptr, &made.pitch, extent.width, rows);
    if (!error)
        *out = made;
    return error;
}

static int release(void *pointer)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error || (error = issue_check_unsafe()) || !pointer)
        return error;
    if (graph_memory_free((uint64_t)(uintptr_t)pointer, &error))
        return error;
    return core_memory_free((uint64_t)(uintptr_t)pointer);
}

static int get_info(size_t *available, size_t *total)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    size_t unused;
    return core_memory_info(context, available ? available : &unused, total ? total : &unused);
}

cudaError_t runtime_cudaMalloc(void **pointer, size_t size) { return runtime_return(allocate(pointer, size)); }
cudaError_t runtime_cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    return runtime_return(allocate_rows(pointer, pitch, width, height));
}

cudaError_t runtime_cudaMalloc3D(cudaPitchedPtr *out, cudaExtent extent)
{
    return runtime_return(allocate_3d(out, extent));
}

cudaError_t runtime_cudaFree(void *pointer) { return runtime_waited(release(pointer)); }
cudaError_t runtime_cudaMemGetInfo(size_t *available, size_t *total)
{
    return runtime_waited(get_info(available, total));
}

/* ---- pinned host memory ---- */

enum { HOST_ALLOCATE_KNOWN = 0x7, HOST_REGISTER_KNOWN = 0xF };

static int host_allocate(void **pointer, size_t size, unsigned flags)
{
    core_context *context;
    int error = runtime_enter_unless(!size, &context);
    if (error)
        return error;
    if (!pointer || flags & ~(unsigned)HOST_ALLOCATE_KNOWN)
        return cudaErrorInvalidValue;
    if (size == 0) {
        *pointer = NULL;
        return cudaSuccess;
    }
    error = issue_check_unsafe();
    return error ? error : core_host_allocate(size, flags, pointer);
}

static int host_release(void *pointer)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = issue_check_unsafe();
    return error || !pointer ? error : core_host_free(pointer);
}

static int host_register(void *pointer, size_t size, unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!pointer || !size || flags & ~(unsigned)HOST_REGISTER_KNOWN)
        return cudaErrorInvalidValue;
    error = issue_check_unsafe();
    return error ? error : core_host_register(pointer, size, flags);
}

static int host_unregister(void *pointer)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if ((error = issue_check_unsafe()))
        return error;
    return pointer ? core_host_unregister(pointer) : cudaErrorInvalidValue;
}

static int host_device_pointer(void **out, void *pointer, unsigned flags)
{
    core_context *context;
    uint64_t address;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!out || !pointer || flags)
        return cudaErrorInvalidValue;
    if ((error = core_host_map(pointer, &address)))
        return error;
    *out = (void *)(uintptr_t)address;
    return cudaSuccess;
}

static int host_flags(unsigned *flags, void *pointer)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return flags && pointer ? core_host_flags(pointer, flags) : cudaErrorInvalidValue;
}

cudaError_t runtime_cudaHostAlloc(void **pointer, size_t size, unsigned flags)
{
    return runtime_return(host_allocate(pointer, size, flags));
}

cudaError_t runtime_cudaMallocHost(void **pointer, size_t size)
{
    return runtime_return(host_allocate(pointer, size, 0));
}

cudaError_t runtime_cudaFreeHost(void *pointer) { return runtime_waited(host_release(pointer)); }
cudaError_t runtime_cudaHostRegister(void *pointer, size_t size, unsigned flags)
{
    return runtime_return(host_register(pointer, size, flags));
}

cudaError_t runtime_cudaHostUnregister(void *pointer) { return runtime_waited(host_unregister(pointer)); }
cudaError_t runtime_cudaHostGetDevicePointer(void **out, void *pointer, unsigned flags)
{
    return runtime_local(host_device_pointer(out, pointer, flags));
}

cudaError_t runtime_cudaHostGetFlags(unsigned *flags, void *pointer)
{
    return runtime_local(host_flags(flags, pointer));
}
