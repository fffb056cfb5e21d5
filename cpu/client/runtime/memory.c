/* memory.c: allocation, of chapter "Memory Management" (copies are in copy.c, memset in set.c). */
#include "cpu/client/runtime/runtime.h"

#include <string.h>

/* ---- device memory ---- */

static int allocate(void **pointer, size_t size) {
    int device;
    uint64_t address;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!pointer)
        return CUDART_INVALID_VALUE;
    if (size == 0) {
        *pointer = NULL;
        return CUDART_OK;
    }
    if ((error = core_memory_allocate(device, size, &address)))
        return error;
    *pointer = (void *)(uintptr_t)address;
    return CUDART_OK;
}

/* Rows begin at multiples of this, which is what every GPU of today uses. */
enum { PITCH_GRANULE = 512 };

static int allocate_rows(void **pointer, size_t *pitch, size_t width, size_t rows) {
    int device;
    struct runtime_limits space;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!pointer || !pitch)
        return CUDART_INVALID_VALUE;
    if (width == 0 || rows == 0) {
        *pointer = NULL;
        *pitch = 0;
        return CUDART_OK;
    }
    if (width > runtime_limits(device, &space)->pitch)
        return CUDART_INVALID_VALUE;
    size_t padded = (width + PITCH_GRANULE - 1) / PITCH_GRANULE * PITCH_GRANULE, size;
    if (__builtin_mul_overflow(padded, rows, &size))
        return CUDART_OUT_OF_MEMORY;
    if ((error = allocate(pointer, size)))
        return error;
    *pitch = padded;
    return CUDART_OK;
}

static int allocate_3d(struct cudart_pitched *out, struct cudart_extent extent) {
    size_t rows;
    struct cudart_pitched made = {.xsize = extent.width, .ysize = extent.height};
    if (!out)
        return CUDART_INVALID_VALUE;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
        return CUDART_OUT_OF_MEMORY;
    int error = allocate_rows(&made.pointer, &made.pitch, extent.width, rows);
    if (!error)
        *out = made;
    return error;
}

static int release(void *pointer) {
    int device;
    int error = runtime_enter(&device);
    if (error || !pointer)
        return error;
    return core_memory_free((uint64_t)(uintptr_t)pointer);
}

static int get_info(size_t *available, size_t *total) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return available && total ? core_memory_info(device, available, total) : CUDART_INVALID_VALUE;
}

RUNTIME_API int cudaMalloc(void **pointer, size_t size) { return runtime_return(allocate(pointer, size)); }
RUNTIME_API int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) { return runtime_return(allocate_rows(pointer, pitch, width, height)); }
RUNTIME_API int cudaMalloc3D(struct cudart_pitched *out, struct cudart_extent extent) { return runtime_return(allocate_3d(out, extent)); }
RUNTIME_API int cudaFree(void *pointer) { return runtime_waited(release(pointer)); }
RUNTIME_API int cudaMemGetInfo(size_t *available, size_t *total) { return runtime_waited(get_info(available, total)); }

/* ---- pinned host memory ---- */

enum { HOST_ALLOCATE_KNOWN = 0x7, HOST_REGISTER_KNOWN = 0xF };

static int host_allocate(void **pointer, size_t size, unsigned flags) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!pointer || flags & ~(unsigned)HOST_ALLOCATE_KNOWN)
        return CUDART_INVALID_VALUE;
    if (size == 0) {
        *pointer = NULL;
        return CUDART_OK;
    }
    return core_host_allocate(size, flags, pointer);
}

static int host_release(void *pointer) {
    int device;
    int error = runtime_enter(&device);
    return error || !pointer ? error : core_host_free(pointer);
}

static int host_register(void *pointer, size_t size, unsigned flags) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!pointer || !size || flags & ~(unsigned)HOST_REGISTER_KNOWN)
        return CUDART_INVALID_VALUE;
    return core_host_register(pointer, size, flags);
}

static int host_unregister(void *pointer) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return pointer ? core_host_unregister(pointer) : CUDART_INVALID_VALUE;
}

static int host_device_pointer(void **out, void *pointer, unsigned flags) {
    int device;
    uint64_t address;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!out || !pointer || flags)
        return CUDART_INVALID_VALUE;
    if ((error = core_host_device_pointer(pointer, &address)))
        return error;
    *out = (void *)(uintptr_t)address;
    return CUDART_OK;
}

static int host_flags(unsigned *flags, void *pointer) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return flags && pointer ? core_host_flags(pointer, flags) : CUDART_INVALID_VALUE;
}

RUNTIME_API int cudaHostAlloc(void **pointer, size_t size, unsigned flags) { return runtime_return(host_allocate(pointer, size, flags)); }
RUNTIME_API int cudaMallocHost(void **pointer, size_t size) { return runtime_return(host_allocate(pointer, size, 0)); }
RUNTIME_API int cudaFreeHost(void *pointer) { return runtime_waited(host_release(pointer)); }
RUNTIME_API int cudaHostRegister(void *pointer, size_t size, unsigned flags) { return runtime_return(host_register(pointer, size, flags)); }
RUNTIME_API int cudaHostUnregister(void *pointer) { return runtime_waited(host_unregister(pointer)); }
RUNTIME_API int cudaHostGetDevicePointer(void **out, void *pointer, unsigned flags) { return runtime_local(host_device_pointer(out, pointer, flags)); }
RUNTIME_API int cudaHostGetFlags(unsigned *flags, void *pointer) { return runtime_local(host_flags(flags, pointer)); }
