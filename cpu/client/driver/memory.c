/* memory.c: allocation, of chapter "Memory Management" (copies are in copy.c, memset in set.c). */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

/* ---- device memory ---- */

static int allocate(CUdeviceptr *address, size_t size)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if ((error = issue_check_unsafe()))
        return error;
    return address && size ? core_memory_allocate(context, size, address) : CUDA_ERROR_INVALID_VALUE;
}

/* Rows begin at multiples of this, which is what every GPU of today uses. */
enum { PITCH_GRANULE = 512 };

static int allocate_rows(CUdeviceptr *address, size_t *pitch, size_t width, size_t rows, unsigned element)
{
    core_context *context;
    struct core_context_info info;
    int error = driver_enter(&context), most;
    if (error)
        return error;
    if (!address || !pitch || !width || !rows || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if ((error = core_context_info(context, &info)) ||
        (error = core_device_attribute(info.device, CU_DEVICE_ATTRIBUTE_MAX_PITCH, &most)))
        return error;
    if (width > (size_t)most)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t padded = (width + PITCH_GRANULE - 1) / PITCH_GRANULE * PITCH_GRANULE, size;
    if (__builtin_mul_overflow(padded, rows, &size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!(error = issue_check_unsafe()) && !(error = core_memory_allocate(context, size, address)))
        *pitch = padded;
    return error;
}

static int release(CUdeviceptr address)
{
    int error = driver_ready();
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (error || (error = issue_check_unsafe()) || (error = core_sticky()) || !address)
        return error;
    return graph_memory_free(address, &error) ? error : core_memory_free(address);
}

static int get_info(size_t *available, size_t *total)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    size_t unused;
    return core_memory_info(context, available ? available : &unused, total ? total : &unused);
}

static int get_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    core_context *context;
    struct core_range range;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!core_address_lookup(address, &range) || range.kind == CORE_UNKNOWN_MEMORY)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = range.base;
    if (size)
        *size = range.size;
    return CUDA_SUCCESS;
}

CUresult driver_cuMemAlloc_v2(CUdeviceptr *address, size_t size) { return (CUresult)allocate(address, size); }
CUresult driver_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t rows, unsigned element)
{
    return (CUresult)allocate_rows(address, pitch, width, rows, element);
}

CUresult driver_cuMemFree_v2(CUdeviceptr address) { return driver_waited(release(address)); }
CUresult driver_cuMemGetInfo_v2(size_t *available, size_t *total) { return driver_waited(get_info(available, total)); }
CUresult driver_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    return driver_local(get_range(base, size, address));
}

/* ---- pinned host memory ---- */

enum { HOST_ALLOCATE_KNOWN = 0x7, HOST_REGISTER_KNOWN = 0xF };

static int host_allocate(void **pointer, size_t size, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!pointer || !size || flags & ~(unsigned)HOST_ALLOCATE_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    error = issue_check_unsafe();
    return error ? error : core_host_allocate(size, flags, pointer);
}

static int host_release(void *pointer)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if ((error = issue_check_unsafe()))
        return error;
    return pointer ? core_host_free(pointer) : CUDA_SUCCESS; /* cudaFreeHost of NVIDIA's runtime passes NULL on */
}

static int host_register(void *pointer, size_t size, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!pointer || !size || flags & ~(unsigned)HOST_REGISTER_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    error = issue_check_unsafe();
    return error ? error : core_host_register(pointer, size, flags);
}

static int host_unregister(void *pointer)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if ((error = issue_check_unsafe()))
        return error;
    return pointer ? core_host_unregister(pointer) : CUDA_ERROR_INVALID_VALUE;
}

static int host_device_pointer(CUdeviceptr *out, void *pointer, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    return out && pointer && !flags ? core_host_map(pointer, out) : CUDA_ERROR_INVALID_VALUE;
}

static int host_flags(unsigned *flags, void *pointer)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    return flags && pointer ? core_host_flags(pointer, flags) : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
    return (CUresult)host_allocate(pointer, size, flags);
}

CUresult driver_cuMemAllocHost_v2(void **pointer, size_t size) { return (CUresult)host_allocate(pointer, size, 0); }
CUresult driver_cuMemFreeHost(void *pointer) { return driver_waited(host_release(pointer)); }
CUresult driver_cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags)
{
    return (CUresult)host_register(pointer, size, flags);
}

CUresult driver_cuMemHostRegister(void *pointer, size_t size, unsigned flags)
{
    return (CUresult)host_register(pointer, size, flags);
}

CUresult driver_cuMemHostUnregister(void *pointer) { return driver_waited(host_unregister(pointer)); }
CUresult driver_cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer, unsigned flags)
{
    return driver_local(host_device_pointer(out, pointer, flags));
}

CUresult driver_cuMemHostGetFlags(unsigned *flags, void *pointer) { return driver_local(host_flags(flags, pointer)); }
