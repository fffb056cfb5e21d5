/* address.c: chapter "Unified Addressing". The address map of the core knows every allocation; no message. */
#include "cpu/client/runtime/runtime.h"

#include <string.h>

enum { NO_DEVICE = -2 };                 /* of memory that CUDA knows nothing about */

static int get_attributes(struct cudart_pointer_attributes *out, const void *pointer) {
    int device;
    struct core_range range;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!out)
        return CUDART_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    uint64_t address = (uint64_t)(uintptr_t)pointer, mapped;
    if (!core_address_lookup(address, &range) || range.kind == CORE_UNKNOWN_MEMORY) {
        out->type = CUDART_MEMORY_UNREGISTERED;
        out->device = NO_DEVICE;
        return CUDART_OK;
    }
    out->device = range.device < 0 ? device : range.device;      /* pinned memory belongs to no device */
    if (range.kind == CORE_DEVICE_MEMORY) {
        out->type = CUDART_MEMORY_DEVICE;
        out->device_pointer = (void *)(uintptr_t)pointer;
        return CUDART_OK;
    }
    out->type = CUDART_MEMORY_HOST;
    out->host_pointer = (void *)(uintptr_t)pointer;
    if (!core_host_device_pointer((void *)(uintptr_t)pointer, &mapped))
        out->device_pointer = (void *)(uintptr_t)mapped;
    return CUDART_OK;
}

RUNTIME_API int cudaPointerGetAttributes(struct cudart_pointer_attributes *out, const void *pointer) { return runtime_local(get_attributes(out, pointer)); }
