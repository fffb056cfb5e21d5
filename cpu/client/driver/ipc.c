/* ipc.c: memory and events of other processes, of chapter "Memory Management": what cuIpc… does. */
#include "cpu/client/driver/driver.h"

static int get_memory(CUipcMemHandle *handle, CUdeviceptr address)
{
    core_context *context;
    int error = driver_enter(&context);
    return error ? error : handle ? core_ipc_memory_get(address, handle->reserved) : CUDA_ERROR_INVALID_VALUE;
}

static int open_memory(CUdeviceptr *address, const CUipcMemHandle *handle, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : core_ipc_memory_open(context, handle->reserved, address);
}

static int close_memory(CUdeviceptr address)
{
    core_context *context;
    int error = driver_enter(&context);
    return error ? error : core_ipc_memory_close(address);
}

static int get_event(CUipcEventHandle *handle, CUevent event)
{
    int error = driver_ready();
    return error ? error : handle ? core_ipc_event_get(event, handle->reserved) : CUDA_ERROR_INVALID_VALUE;
}

static int open_event(CUevent *event, const CUipcEventHandle *handle)
{
    core_context *context;
    int error = driver_enter(&context);
    return error ? error : event ? core_ipc_event_open(context, handle->reserved, event) : CUDA_ERROR_INVALID_VALUE;
}

_Static_assert(sizeof(CUipcEventHandle) == CORE_IPC_SIZE, "as the core makes it");
_Static_assert(sizeof(CUipcMemHandle) == CORE_IPC_SIZE, "as the core makes it");

CUresult driver_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    return driver_waited(get_memory(handle, address));
}

CUresult driver_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    return driver_waited(open_memory(address, &handle, flags));
}

CUresult driver_cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    return driver_waited(open_memory(address, &handle, flags));
}

CUresult driver_cuIpcCloseMemHandle(CUdeviceptr address) { return driver_waited(close_memory(address)); }
CUresult driver_cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    return driver_waited(get_event(handle, event));
}

CUresult driver_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    return driver_waited(open_event(event, &handle));
}
