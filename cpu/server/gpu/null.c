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
#include <sys/mman.h>

#include "cpu/common/lock.h"

#define NULL_GRANULE      ((uint64_t)2 << 20)
#define NULL_TOTAL_MEMORY ((uint64_t)24 << 30)
enum { NULL_MAX_RANGES = 4096 };

struct null_event { struct null_object object; _Atomic bool recorded; };
struct null_memory { struct null_object object; uint64_t size; int references; };
/* One reservation. memory[i]: what is mapped at its granule i. */
struct null_range { uint64_t base, size; struct null_memory **memory; };

static pthread_mutex_t null_lock = PTHREAD_MUTEX_INITIALIZER;
static struct null_range null_ranges[NULL_MAX_RANGES];
static _Atomic uint64_t null_used;                          /* bytes of memory created; changed under null_lock */
static size_t null_limits[16] = { [CU_LIMIT_STACK_SIZE] = 1024, [CU_LIMIT_PRINTF_FIFO_SIZE] = 1048576,
                                  [CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608 };
static _Atomic unsigned long null_copies, null_sets, null_waits;
static _Thread_local CUcontext null_current, null_below;     /* a stack of two */
static struct null_object null_primary = { NULL_CONTEXT };

bool null_is(const void *object, uint32_t magic)
{
    return object && ((const struct null_object *)object)->magic == magic;
}

/* Stream 0 and the two special values are streams too. */
static bool null_stream_ok(CUstream stream)
{
    return (uintptr_t)stream <= 2 || null_is(stream, NULL_STREAM);
}

/* ---- devices and contexts ---- */

CUresult null_Init(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult null_DriverGetVersion(int *version) { *version = CUDA_VERSION; return CUDA_SUCCESS; }
CUresult null_DeviceGetCount(int *count) { *count = 1; return CUDA_SUCCESS; }

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
    static const struct { int name, value; } known[] = {
        { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 }, { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
        { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 }, { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
        { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 }, { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
        { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 }, { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
        { CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 }, { CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
        { CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 }, { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
        { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000 }, { CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
        { CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 }, { CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512 },
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, NULL_MULTIPROCESSORS },
        { CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
        { CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1 }, { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000 },
        { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256 }, { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4194304 },
        { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 }, { CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
        { CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 }, { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
        { CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 }, { CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, NULL_SHARED_PER_SM },
        { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
        { CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 }, { CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1 },
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

/* ---- memory ---- */

CUresult null_MemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = NULL_TOTAL_MEMORY - atomic_load_explicit(&null_used, memory_order_relaxed);
    *total = NULL_TOTAL_MEMORY;
    return null_check();
}

CUresult null_MemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                                 CUmemAllocationGranularity_flags option)
{
    (void)option;
    *bytes = NULL_GRANULE;
    return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Addresses nobody else in this process has, aligned to the granule. */
static void *null_reserve(uint64_t size, uint64_t hint)
{
    if (hint) {
        void *at = mmap((void *)(uintptr_t)hint, size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == (void *)(uintptr_t)hint)
            return at;
        if (at != MAP_FAILED)
            munmap(at, size);
    }
    char *at = mmap(NULL, size + NULL_GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    uintptr_t aligned = ((uintptr_t)at + NULL_GRANULE - 1) & ~(uintptr_t)(NULL_GRANULE - 1);
    if (aligned > (uintptr_t)at)
        munmap(at, aligned - (uintptr_t)at);
    munmap((void *)(aligned + size), (uintptr_t)at + NULL_GRANULE - aligned);
    return (void *)aligned;
}

/* mappable: memory is mapped there granule by granule; otherwise all of it counts as mapped. */
static CUresult null_range_add(CUdeviceptr *address, size_t size, CUdeviceptr hint, bool mappable)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&null_lock);
    for (size_t i = 0; i < NULL_MAX_RANGES; i++) {
        struct null_range *range = &null_ranges[i];
        if (range->size)
            continue;
        void *at = null_reserve(size, hint);
        if (!at)
            break;
        range->memory = mappable ? calloc(size / NULL_GRANULE, sizeof *range->memory) : NULL;
        if (mappable && !range->memory) {
            munmap(at, size);
            break;
        }
        range->base = *address = (CUdeviceptr)(uintptr_t)at;
        range->size = size;
        result = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&null_lock);
    return result;
}

CUresult null_MemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr hint,
                                       unsigned long long flags)
{
    if (!size || size % NULL_GRANULE || alignment > NULL_GRANULE || flags || hint % NULL_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    return null_range_add(address, size, hint, true);
}

CUresult null_reserve_variables(CUdeviceptr *address, size_t size)
{
    return null_range_add(address, size, 0, false);
}

/* The reservation that holds all of [address, address + size). */
static struct null_range *null_range_of(uint64_t address, uint64_t size)
{
    FLYT_ASSERT_HELD(&null_lock);
    for (size_t i = 0; i < NULL_MAX_RANGES; i++) {
        struct null_range *range = &null_ranges[i];
        uint64_t offset = address - range->base;
        if (range->size && offset < range->size && size <= range->size - offset)
            return range;
    }
    return NULL;
}

CUresult null_MemAddressFree(CUdeviceptr address, size_t size)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&null_lock);
    struct null_range *range = null_range_of(address, size);
    if (range && range->base == address && range->size == size) {
        munmap((void *)(uintptr_t)address, size);
        free(range->memory);
        memset(range, 0, sizeof *range);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&null_lock);
    return result;
}

CUresult null_MemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                               unsigned long long flags)
{
    if (!size || size % NULL_GRANULE || flags || properties->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct null_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->object.magic = NULL_MEMORY;
    memory->size = size;
    memory->references = 1;
    pthread_mutex_lock(&null_lock);
    bool fits = size <= NULL_TOTAL_MEMORY - null_used;
    if (fits)
        null_used += size;
    pthread_mutex_unlock(&null_lock);
    if (!fits) {
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

/* Lives while it is mapped or held. */
static void null_memory_drop(struct null_memory *memory)
{
    FLYT_ASSERT_HELD(&null_lock);
    if (--memory->references == 0) {
        null_used -= memory->size;
        memory->object.magic = NULL_DEAD;
        free(memory);
    }
}

CUresult null_MemRelease(CUmemGenericAllocationHandle handle)
{
    struct null_memory *memory = (struct null_memory *)(uintptr_t)handle;
    if (!null_is(memory, NULL_MEMORY))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&null_lock);
    null_memory_drop(memory);
    pthread_mutex_unlock(&null_lock);
    return CUDA_SUCCESS;
}

CUresult null_MemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags)
{
    struct null_memory *memory = (struct null_memory *)(uintptr_t)handle;
    if (!null_is(memory, NULL_MEMORY) || offset || flags || size != memory->size || address % NULL_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&null_lock);
    struct null_range *range = null_range_of(address, size);
    if (range && range->memory) {
        size_t first = (address - range->base) / NULL_GRANULE, count = size / NULL_GRANULE, i = 0;
        while (i < count && !range->memory[first + i])
            i++;
        if (i == count) {
            for (i = 0; i < count; i++)
                range->memory[first + i] = memory;
            memory->references++;
            result = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&null_lock);
    return result;
}

CUresult null_MemUnmap(CUdeviceptr address, size_t size)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&null_lock);
    struct null_range *range = null_range_of(address, size);
    size_t first = range ? (address - range->base) / NULL_GRANULE : 0, count = size / NULL_GRANULE;
    struct null_memory *memory = range && range->memory && size ? range->memory[first] : NULL;
    if (memory && memory->size == size && range->memory[first + count - 1] == memory) {
        for (size_t i = 0; i < count; i++)
            range->memory[first + i] = NULL;
        null_memory_drop(memory);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&null_lock);
    return result;
}

CUresult null_MemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
    pthread_mutex_lock(&null_lock);
    bool known = null_range_of(address, size) != NULL;
    pthread_mutex_unlock(&null_lock);
    return known && count == 1 && access->location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Mapped memory: every granule of the range has something behind it. Reservations of modules' variables
   have no table and count as mapped. */
static CUresult null_touch(CUdeviceptr address, size_t size)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!size)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&null_lock);
    struct null_range *range = null_range_of(address, size);
    if (range) {
        result = CUDA_SUCCESS;
        uint64_t last = (address - range->base + size - 1) / NULL_GRANULE;
        for (uint64_t i = (address - range->base) / NULL_GRANULE; range->memory && i <= last; i++)
            if (!range->memory[i])
                result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&null_lock);
    return result;
}

CUresult null_MemHostAlloc(void **memory, size_t size, unsigned int flags)
{
    (void)flags;
    *memory = size ? calloc(1, size) : NULL;
    return *memory ? null_check() : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult null_MemFreeHost(void *memory)
{
    free(memory);
    return CUDA_SUCCESS;
}

CUresult null_MemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned int flags)
{
    *address = (CUdeviceptr)(uintptr_t)memory;
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult null_MemHostRegister(void *memory, size_t size, unsigned int flags)
{
    (void)flags;
    return memory && size ? null_check() : CUDA_ERROR_INVALID_VALUE;
}

CUresult null_MemHostUnregister(void *memory)
{
    return memory ? null_check() : CUDA_ERROR_INVALID_VALUE;
}

/* ---- copies and memset ---- */

CUresult null_work(_Atomic unsigned long *counter, CUstream stream)
{
    if (!null_current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!null_stream_ok(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUresult null_MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    CUresult r = from || !size ? null_touch(to, size) : CUDA_ERROR_INVALID_VALUE;
    return r ? r : null_work(&null_copies, stream);
}

CUresult null_MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    CUresult r = to || !size ? null_touch(from, size) : CUDA_ERROR_INVALID_VALUE;
    return r ? r : null_work(&null_copies, stream);
}

CUresult null_MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    CUresult r = null_touch(from, size);
    if (r == CUDA_SUCCESS)
        r = null_touch(to, size);
    return r ? r : null_work(&null_copies, stream);
}

CUresult null_Memcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t rows = (uint64_t)(copy->Depth - 1) * copy->srcHeight + copy->Height - 1;
    if (copy->srcMemoryType == CU_MEMORYTYPE_DEVICE)
        r = null_touch(copy->srcDevice, rows * copy->srcPitch + copy->WidthInBytes);
    rows = (uint64_t)(copy->Depth - 1) * copy->dstHeight + copy->Height - 1;
    if (r == CUDA_SUCCESS && copy->dstMemoryType == CU_MEMORYTYPE_DEVICE)
        r = null_touch(copy->dstDevice, rows * copy->dstPitch + copy->WidthInBytes);
    return r ? r : null_work(&null_copies, stream);
}

static CUresult null_set(CUdeviceptr to, size_t bytes, CUstream stream)
{
    CUresult r = null_touch(to, bytes);
    return r ? r : null_work(&null_sets, stream);
}

CUresult null_MemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s)
{
    (void)v;
    return null_set(to, n, s);
}

CUresult null_MemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s)
{
    (void)v;
    return null_set(to, 2 * n, s);
}

CUresult null_MemsetD32Async(CUdeviceptr to, unsigned int v, size_t n, CUstream s)
{
    (void)v;
    return null_set(to, 4 * n, s);
}

static CUresult null_set_rows(CUdeviceptr to, size_t pitch, size_t width, size_t height, CUstream stream)
{
    return null_set(to, height ? pitch * (height - 1) + width : 0, stream);
}

CUresult null_MemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s)
{
    (void)v;
    return null_set_rows(to, pitch, width, height, s);
}

CUresult null_MemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short v, size_t width, size_t height, CUstream s)
{
    (void)v;
    return null_set_rows(to, pitch, 2 * width, height, s);
}

CUresult null_MemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int v, size_t width, size_t height, CUstream s)
{
    (void)v;
    return null_set_rows(to, pitch, 4 * width, height, s);
}

/* ---- streams and events ---- */

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
    if (!null_is(start, NULL_EVENT) || !null_is(end, NULL_EVENT) ||
        !((struct null_event *)(void *)start)->recorded || !((struct null_event *)(void *)end)->recorded)
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
}

void gpu_null_counted(struct gpu_null_count *count)
{
    count->launches = atomic_load(&null_launches);
    count->copies = atomic_load(&null_copies);
    count->sets = atomic_load(&null_sets);
    count->waits = atomic_load(&null_waits);
    pthread_mutex_lock(&null_lock);
    count->mapped = null_used;
    pthread_mutex_unlock(&null_lock);
}
