/*
 * null.c: a device whose operations cost nothing. They are counted, and their arguments checked as a driver
 * would, so that what remains to be measured is Flyt itself, and so that the server can be tested without
 * any executor. Every operation is complete when it has been asked for; copies move nothing, kernels do not run.
 *
 * What is real: addresses (reserved from the kernel, so unique in the process), the amount of memory, handles
 * (a freed or foreign one is found by its magic number), and the kernels of a module (layout.c).
 * One device, capability 9.0, 24 GiB.
 */
#include "cpu/server/gpu/null.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct null_event {
    struct null_object object;
    _Atomic bool recorded;
};

static pthread_mutex_t null_lock = PTHREAD_MUTEX_INITIALIZER; /* of null_limits */
static size_t null_limits[16] = {
    [CU_LIMIT_STACK_SIZE] = 1024, [CU_LIMIT_PRINTF_FIFO_SIZE] = 1048576, [CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608
};
static _Atomic unsigned long null_waits;
static _Thread_local CUcontext null_current, null_below; /* a stack of two */
static struct null_object null_primary = { NULL_CONTEXT };

bool null_is(const void *object, uint32_t magic)
{
    return object && ((const struct null_object *)object)->magic == magic;
}

/* Stream 0 and the two special values are streams too. */
static bool null_stream_ok(CUstream stream) { return (uintptr_t)stream <= 2 || null_is(stream, NULL_STREAM); }

/* ---- devices and contexts ---- */

CUresult null_Init(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult null_DriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
CUresult null_DeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult null_DeviceGet(CUdevice *device, int ordinal)
{
    *device = 0;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult null_DeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    *can = 0;
    return device || peer ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult null_DeviceGetName(char *name, int size, CUdevice device)
{
    snprintf(name, (size_t)size, "Flyt null device");
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult null_DeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    memcpy(uuid->bytes, "FlytNullDevice00", 16);
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult null_DeviceTotalMem(size_t *bytes, CUdevice device)
{
    *bytes = NULL_TOTAL_MEMORY;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult null_DeviceGetAttribute(int *value, CUdevice_attribute name, CUdevice device)
{
    static const struct {
        int name, value;
    } known[] = {
        { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
        { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
        { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
        { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
        { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
        { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
        { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
        { CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
        { CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
        { CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
        { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
        { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000 },
        { CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
        { CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
        { CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512 },
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, NULL_MULTIPROCESSORS },
        { CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
        { CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1 },
        { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000 },
        { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256 },
        { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4194304 },
        { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 },
        { CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
        { CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
        { CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
        { CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, NULL_SHARED_PER_SM },
        { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
        { CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
        { CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, NULL_MAX_SHARED },
        { CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, NULL_RESERVED_SHARED },
        { CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, NULL_BLOCKS_PER_SM },
#if CUDA_VERSION >= 12000
        { CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1 },
#endif
        { CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
        { CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
    };
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (name <= 0 || name > 160)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].name == (int)name)
            *value = known[i].value;
    return CUDA_SUCCESS;
}

CUresult null_DeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    snprintf(id, (size_t)size, "0000:01:00.0");
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult null_DevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)(void *)&null_primary;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult null_DevicePrimaryCtxRelease(CUdevice device) { return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS; }
CUresult null_DevicePrimaryCtxReset(CUdevice device) { return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS; }

CUresult null_CtxSetCurrent(CUcontext context)
{
    if (context && !null_is(context, NULL_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    null_current = context;
    return CUDA_SUCCESS;
}

CUresult null_CtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    (void)flags;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    struct null_object *object = calloc(1, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->magic = NULL_CONTEXT;
    null_below = null_current;
    *context = null_current = (CUcontext)(void *)object;
    return CUDA_SUCCESS;
}

CUresult null_CtxPopCurrent(CUcontext *context)
{
    *context = null_current;
    null_current = null_below;
    null_below = NULL;
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult null_CtxDestroy(CUcontext context)
{
    if (!null_is(context, NULL_CONTEXT) || (void *)context == &null_primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (null_current == context)
        null_current = NULL;
    ((struct null_object *)(void *)context)->magic = NULL_DEAD;
    free(context);
    return CUDA_SUCCESS;
}

CUresult null_check(void) { return null_current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT; }

CUresult null_CtxSynchronize(void)
{
    atomic_fetch_add_explicit(&null_waits, 1, memory_order_relaxed);
    return null_check();
}

CUresult null_CtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return null_check();
}

CUresult null_CtxGetLimit(size_t *value, CUlimit limit)
{
    if ((unsigned)limit >= sizeof null_limits / sizeof *null_limits)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&null_lock);
    *value = null_limits[limit];
    pthread_mutex_unlock(&null_lock);
    return null_check();
}

CUresult null_CtxSetLimit(CUlimit limit, size_t value)
{
    if ((unsigned)limit >= sizeof null_limits / sizeof *null_limits)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&null_lock);
    null_limits[limit] = value;
    pthread_mutex_unlock(&null_lock);
    return null_check();
}

/* ---- streams and events ---- */

CUresult null_work(_Atomic unsigned long *counter, CUstream stream)
{
    if (!null_current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!null_stream_ok(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUresult null_StreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    (void)priority;
    if (flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    struct null_object *object = calloc(1, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->magic = NULL_STREAM;
    *stream = (CUstream)(void *)object;
    return null_check();
}

CUresult null_StreamDestroy(CUstream stream)
{
    if (!null_is(stream, NULL_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    ((struct null_object *)(void *)stream)->magic = NULL_DEAD;
    free(stream);
    return CUDA_SUCCESS;
}

CUresult null_StreamQuery(CUstream stream) { return null_work(&null_waits, stream); }
CUresult null_StreamSynchronize(CUstream stream) { return null_work(&null_waits, stream); }

CUresult null_StreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    if (!null_is(event, NULL_EVENT) || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return null_work(&null_waits, stream);
}

/* The stream has nothing before it: the function runs at once, here. */
CUresult null_LaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
    CUresult r = null_work(&null_waits, stream);
    if (r == CUDA_SUCCESS)
        function(user);
    return r;
}

/* A stream of the null device cannot wait; the server sees to it that the flag is set in time or late, both are
   the same here. */
/* Everything before it has ended. The address is host memory: the null device has no other. */
CUresult null_StreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    if (flags || !address || !null_stream_ok(stream))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store_explicit((_Atomic cuuint32_t *)(uintptr_t)address, value, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult null_StreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    (void)value;
    (void)flags;
    return address % 4 ? CUDA_ERROR_INVALID_VALUE : null_work(&null_waits, stream);
}

CUresult null_EventCreate(CUevent *event, unsigned int flags)
{
    (void)flags;
    struct null_event *object = calloc(1, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->object.magic = NULL_EVENT;
    *event = (CUevent)(void *)object;
    return null_check();
}

CUresult null_EventDestroy(CUevent event)
{
    if (!null_is(event, NULL_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    ((struct null_object *)(void *)event)->magic = NULL_DEAD;
    free(event);
    return CUDA_SUCCESS;
}

CUresult null_EventRecord(CUevent event, CUstream stream)
{
    if (!null_is(event, NULL_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    ((struct null_event *)(void *)event)->recorded = true;
    return null_work(&null_waits, stream);
}

CUresult null_EventQuery(CUevent event)
{
    return null_is(event, NULL_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult null_EventSynchronize(CUevent event) { return null_EventQuery(event); }

CUresult null_EventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    *milliseconds = 0;
    if (!null_is(start, NULL_EVENT) || !null_is(end, NULL_EVENT) || !((struct null_event *)(void *)start)->recorded ||
        !((struct null_event *)(void *)end)->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

/* ---- the table ---- */

void gpu_null_fill(struct gpu *gpu)
{
    gpu->kind = "null";
#define FUNCTION(field, parameters) gpu->field = null_##field;
#include "api/driver/null.inc"
#undef FUNCTION
    gpu->hold = null_hold;
    gpu->run = null_run;
}

void gpu_null_counted(struct gpu_null_count *count)
{
    count->launches = atomic_load(&null_launches);
    count->copies = atomic_load(&null_copies);
    count->sets = atomic_load(&null_sets);
    count->waits = atomic_load(&null_waits);
    count->mapped = atomic_load(&null_used);
    count->held = atomic_load(&null_held);
    count->ran = atomic_load(&null_ran);
}
