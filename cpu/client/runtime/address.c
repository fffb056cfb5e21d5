/* address.c: chapter "Unified Addressing". The address map of the core knows every allocation; no message. */
#include "cpu/client/runtime/runtime.h"

#include <string.h>

enum { NO_DEVICE = -2 }; /* of memory that CUDA knows nothing about */

static int get_attributes(cudaPointerAttributes *out, const void *pointer)
{
    core_context *context;
    struct core_range range;
    int error = runtime_enter(&context);
    bool behind_fault = error && error == core_sticky() && core_context_active(runtime_thread.context);
    if (error && !behind_fault) /* behind a kernel's fault it answers */
        return error;
    if (!out)
        return cudaErrorInvalidValue;
    memset(out, 0, sizeof *out);
    uint64_t address = core_host_behind((uint64_t)(uintptr_t)pointer), mapped;
    if (!core_address_lookup(address, &range) || range.kind == CORE_UNKNOWN_MEMORY) {
        out->type = cudaMemoryTypeUnregistered;
        out->device = NO_DEVICE;
        out->hostPointer = (void *)(uintptr_t)pointer; /* it may be the program's own */
        return cudaSuccess;
    }
    out->device = range.device < 0 ? runtime_current() : range.device; /* pinned memory belongs to no device */
    if (range.kind == CORE_DEVICE_MEMORY) {
        bool managed = range.flags & CORE_MANAGED, of_host = range.flags & CORE_HOST_MAPPED;
        out->type = managed ? cudaMemoryTypeManaged : of_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        out->devicePointer = (void *)(uintptr_t)pointer;
        out->hostPointer = managed || of_host ? out->devicePointer : NULL;
        return cudaSuccess;
    }
    out->type = cudaMemoryTypeHost;
    out->hostPointer = (void *)(uintptr_t)address;
    if (!core_host_device_pointer(out->hostPointer, &mapped))
        out->devicePointer = (void *)(uintptr_t)mapped;
    return cudaSuccess;
}

cudaError_t runtime_cudaPointerGetAttributes(cudaPointerAttributes *out, const void *pointer)
{
    return runtime_local(get_attributes(out, pointer));
}
