/* pointer.c: chapter "Unified Addressing". The address map of the core knows every allocation; no message. */
#include <string.h>

#include "cpu/client/driver/driver.h"

enum { NO_DEVICE = -2 }; /* of memory that CUDA knows nothing about */

/* Where the pointer's memory is seen by the device; 0: nowhere. */
static CUdeviceptr device_address(const struct core_range *range, CUdeviceptr address)
{
    uint64_t mapped;
    if (range->kind == CORE_DEVICE_MEMORY)
        return address;
    return core_host_device_pointer((void *)(uintptr_t)address, &mapped) ? 0 : mapped;
}

/* What an attribute is, for memory that is known. */
union value {
    CUcontext context;
    unsigned type;
    uint64_t number;
    void *pointer;
    int ordinal;
    bool flag;
};

static int device_of(const struct core_range *range)
{
    struct core_context_info info;
    if (range->device >= 0)
        return range->device;
    return driver_current && !core_context_info(driver_current, &info) ? info.device : 0; /* pinned: of every device */
}

static int known_value(int attribute, const struct core_range *range, CUdeviceptr address, union value *value,
                       size_t *size)
{
    bool on_device = range->kind == CORE_DEVICE_MEMORY, managed = on_device && range->flags & CORE_MANAGED;
    bool of_host = !on_device || range->flags & CORE_HOST_MAPPED;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *size = sizeof value->context;
        value->context = on_device ? range->context : driver_current;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *size = sizeof value->type;
        value->type = of_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *size = sizeof value->number;
        value->number = device_address(range, address);
        return value->number ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *size = sizeof value->pointer;
        value->pointer = of_host || managed ? (void *)(uintptr_t)address : NULL;
        return value->pointer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *size = sizeof value->ordinal;
        value->ordinal = device_of(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *size = sizeof value->number;
        value->number = range->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *size = sizeof value->number;
        value->number = range->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *size = sizeof value->number;
        value->number = range->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: /* whole words: NVIDIA's runtime leaves the upper bytes as they were */
        *size = sizeof value->type;
        value->type = managed;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *size = sizeof value->type;
        value->type = range->synchronous;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: /* one byte each */
        *size = sizeof value->flag;
        value->flag = core_ipc_capable(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *size = sizeof value->flag;
        value->flag = false;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *size = sizeof value->flag;
        value->flag = true;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *size = sizeof value->number;
        value->number = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *size = sizeof value->number;
        value->number = core_pool_of(address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *size = sizeof value->type;
        value->type = 3; /* CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE */
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static bool attribute_valid(int attribute)
{
    return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT && attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

/* These calls need no current context: libraries make them in threads that have none, to find out which one to use. */
static int enter_without_context(void)
{
    int error = driver_ready();
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    return error; /* also behind a kernel's fault they answer */
}

static int get_one(void *data, int attribute, CUdeviceptr address)
{
    struct core_range range;
    union value value;
    size_t size;
    int error = enter_without_context();
    if (error)
        return error;
    if (!data || !attribute_valid(attribute))
        return CUDA_ERROR_INVALID_VALUE;
    address = core_host_behind(address);
    if (!core_address_lookup(address, &range) || range.kind == CORE_UNKNOWN_MEMORY)
        return CUDA_ERROR_INVALID_VALUE;
    error = known_value(attribute, &range, address, &value, &size);
    if (error == CUDA_ERROR_NOT_SUPPORTED)
        core_unsupported("cuPointerGetAttribute with this attribute");
    if (!error)
        memcpy(data, &value, size);
    return error;
}

/* What has no value for this pointer is 0, or device -2, and no error. */
static void get_any(void *data, int attribute, const struct core_range *range, CUdeviceptr address)
{
    static const struct core_range nothing = { .device = -1 };
    union value value = { 0 };
    size_t size = 0;
    int error = known_value(attribute, range ? range : &nothing, address, &value, &size);
    if (error || !range)
        value = (union value){ 0 };
    if (!range && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        value.ordinal = NO_DEVICE;
    if (!range && attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
        value.pointer = (void *)(uintptr_t)address; /* it may be the program's own */
        size = sizeof value.pointer;
    }
    memcpy(data, &value, size);
}

static int get_several(unsigned count, const CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
    struct core_range range;
    int error = enter_without_context();
    if (error)
        return error;
    if (!count || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (!data[i] || !attribute_valid((int)attributes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    address = core_host_behind(address);
    bool known = core_address_lookup(address, &range) && range.kind != CORE_UNKNOWN_MEMORY;
    for (unsigned i = 0; i < count; i++)
        get_any(data[i], (int)attributes[i], known ? &range : NULL, address);
    return CUDA_SUCCESS;
}

/* The only attribute that can be set. */
static int set_one(const unsigned *value, int attribute, CUdeviceptr address)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || *value > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return core_address_set_synchronous(address, *value);
}

CUresult driver_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    return driver_waited(set_one(value, (int)attribute, address));
}

CUresult driver_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    return driver_local(get_one(data, (int)attribute, address));
}

CUresult driver_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data,
                                       CUdeviceptr address)
{
    return driver_local(get_several(count, attributes, data, address));
}
