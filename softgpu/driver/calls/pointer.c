/* pointer.c: what is known about an address. CUDA reference: Unified Addressing. */
#include "softgpu/driver/calls/calls.h"

#include <string.h>

/* Bytes of each attribute's answer; 0: not answered here. NVIDIA's reference calls some of them booleans and gives them
   no C type. NVIDIA's own callers read words: the runtime reads IS_MANAGED into a word that it did not clear, NCCL asks
   for IS_LEGACY_CUDA_IPC_CAPABLE with an int. The handle types are a mask of an enum's values. */
static size_t size_of(int attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case 18: case 19: case 20:               /* mapping size and base, block id: newer than 11.8 */
        return 8;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: case CU_POINTER_ATTRIBUTE_IS_MANAGED: case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case 21: /* hardware decompression: 13.0 */ return 4;
    default:
        return 0;
    }
}

static uint64_t value_of(const struct sgd_memory *m, int attribute, uint64_t address)
{
    bool host = m->kind == SGD_MEMORY_HOST || m->kind == SGD_MEMORY_REGISTERED;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return m->context ? (uint64_t)(uintptr_t)m->context->handle : 0;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return address;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: return host || m->kind == SGD_MEMORY_MANAGED ? address : 0;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return m->sync_memops;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: case 20: return m->id;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return m->kind == SGD_MEMORY_MANAGED;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return (uint64_t)m->device->ordinal;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: case 19: return m->at.base;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: case 18: return m->at.size;
    case CU_POINTER_ATTRIBUTE_MAPPED: return 1;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return m->kind == SGD_MEMORY_MAPPED ? (uint64_t)m->physical->prop.requestedHandleTypes : 0;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
        unsigned rights = sgd_space_rights_of(address, m->device->ordinal);
        return rights & SG_WRITE ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
               : rights          ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                 : 0;
    }
    default: return 0;
    }
}

/* little endian: the low bytes come first */
static void put(void *to, size_t size, uint64_t value) { memcpy(to, &value, size); }

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const struct sgd_memory *m = sgd_memory_find(address);
    size_t size = size_of((int)attribute);
    if (!data || !size)
        r = attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    else if (!m && attribute == CU_POINTER_ATTRIBUTE_MAPPED)
        put(data, size, 0);
    else if (!m || (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !value_of(m, (int)attribute, address)))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        put(data, size, value_of(m, (int)attribute, address));
    sgd_leave();
    return r;
}

/* Unknown addresses are no error here: zeros, and -2 as ordinal. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const struct sgd_memory *m = sgd_memory_find(address);
    if (!count || !attributes || !data)
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !r; i++)
        if (!size_of((int)attributes[i]) || !data[i])
            r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !r; i++) {
        int a = (int)attributes[i];
        uint64_t none = a == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint64_t)-2 : 0;
        put(data[i], size_of(a), m ? value_of(m, a, address) : none);
    }
    sgd_leave();
    return r;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    struct sgd_memory *m = sgd_memory_find(address);
    if (!value || !m || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        m->sync_memops = *(const unsigned *)value != 0;
    sgd_leave();
    return r;
}
