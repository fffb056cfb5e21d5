/*
 * null_memory.c: the memory of the null device: addresses, which are reserved from the kernel, the amount of memory,
 * copies and memset, which move nothing.
 */
#include "cpu/server/gpu/null.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/common/address_space.h"
#include "cpu/common/lock.h"

#define NULL_GRANULE ((uint64_t)2 << 20)
enum { NULL_MAX_RANGES = 4096 };

struct null_memory {
    struct null_object object;
    uint64_t size;
    int references;
};
/* One reservation. memory[i]: what is mapped at its granule i. */
struct null_range {
    uint64_t base, size;
    struct null_memory **memory;
};

static pthread_mutex_t null_lock = PTHREAD_MUTEX_INITIALIZER;
static struct null_range null_ranges[NULL_MAX_RANGES];
_Atomic uint64_t null_used; /* changed under null_lock */
_Atomic unsigned long null_copies, null_sets;

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
        void *at = address_space_take(hint, size, MAP_FIXED_NOREPLACE);
        if (at == (void *)(uintptr_t)hint)
            return at;
        if (at != MAP_FAILED)
            address_space_give(at, size);
    }
    char *at = address_space_take(0, size + NULL_GRANULE, 0);
    if (at == MAP_FAILED)
        return NULL;
    uintptr_t aligned = ((uintptr_t)at + NULL_GRANULE - 1) & ~(uintptr_t)(NULL_GRANULE - 1);
    if (aligned > (uintptr_t)at)
        address_space_give(at, aligned - (uintptr_t)at);
    address_space_give((void *)(aligned + size), (uintptr_t)at + NULL_GRANULE - aligned);
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

CUresult null_reserve_variables(CUdeviceptr *address, size_t size) { return null_range_add(address, size, 0, false); }

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

CUresult null_MemHostUnregister(void *memory) { return memory ? null_check() : CUDA_ERROR_INVALID_VALUE; }

/* ---- copies and memset ---- */

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
