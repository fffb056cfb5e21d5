/* ipc.c: memory and events of other processes, of chapter "Device Management": what cudaIpc… does. */
#include "cpu/client/runtime/runtime.h"

enum { LAZY_PEER_ACCESS = 1 };            /* cudaIpcMemLazyEnablePeerAccess */

static int get_memory(cudaIpcMemHandle_t *handle, const void *pointer)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return handle ? core_ipc_memory_get((uint64_t)(uintptr_t)pointer, handle->reserved) : cudaErrorInvalidValue;
}

static int open_memory(void **pointer, const cudaIpcMemHandle_t *handle, unsigned flags)
{
    core_context *context;
    uint64_t address;
    int error = runtime_enter(&context);
    if (!error && (!pointer || flags != LAZY_PEER_ACCESS))
        error = cudaErrorInvalidValue;
    if (!error && !(error = core_ipc_memory_open(context, handle->reserved, &address)))
        *pointer = (void *)(uintptr_t)address;
    return error;
}

static int close_memory(const void *pointer)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : core_ipc_memory_close((uint64_t)(uintptr_t)pointer);
}

static int get_event(cudaIpcEventHandle_t *handle, core_event event)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    cudaIpcEventHandle_t unused; /* NVIDIA's runtime looks at the event before it looks at `handle` */
    error = core_ipc_event_get(event, handle ? handle->reserved : unused.reserved);
    return error || handle ? error : cudaErrorInvalidValue;
}

static int open_event(core_event *event, const cudaIpcEventHandle_t *handle)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return event ? core_ipc_event_open(context, handle->reserved, event) : cudaErrorInvalidValue;
}

_Static_assert(sizeof(cudaIpcEventHandle_t) == CORE_IPC_SIZE, "as the core makes it");
_Static_assert(sizeof(cudaIpcMemHandle_t) == CORE_IPC_SIZE, "as the core makes it");

cudaError_t runtime_cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
    return runtime_waited(get_memory(handle, pointer));
}

cudaError_t runtime_cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned flags)
{
    return runtime_waited(open_memory(pointer, &handle, flags));
}

cudaError_t runtime_cudaIpcCloseMemHandle(void *pointer) { return runtime_waited(close_memory(pointer)); }
cudaError_t runtime_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    return runtime_waited(get_event(handle, event));
}

cudaError_t runtime_cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    return runtime_waited(open_event(event, &handle));
}
