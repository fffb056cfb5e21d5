/* managed.c: managed memory, of chapters "Memory Management" and "Stream Management".
   No graph has a node that prefetches or attaches, so a stream that is captured refuses both. */
#include "cpu/client/graph/capture.h"
#include "cpu/client/managed/managed.h"
#include "cpu/client/runtime/runtime.h"

/* ---- allocation ---- */

static int allocate(void **pointer, size_t size, unsigned flags)
{
    core_context *context;
    uint64_t address;
    int error = runtime_enter_unless(!size, &context);
    if (error)
        return error;
    if (!pointer)
        return cudaErrorInvalidValue;
    if (size == 0) {                          /* as cudaMalloc; the Driver API refuses it */
        *pointer = NULL;
        return cudaSuccess;
    }
    if ((error = issue_check_unsafe()) || (error = core_managed_allocate(context, size, flags, &address)))
        return error;
    *pointer = (void *)(uintptr_t)address;
    return cudaSuccess;
}

cudaError_t runtime_cudaMallocManaged(void **pointer, size_t size, unsigned flags)
{
    return runtime_return(allocate(pointer, size, flags));
}

/* ---- attaching ---- */

static int attach(core_stream stream, void *pointer, size_t size, unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return error ? error : core_managed_attach(context, stream, (uint64_t)(uintptr_t)pointer, size, flags);
}

cudaError_t runtime_cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t size, unsigned flags)
{
    return runtime_return(attach(stream, pointer, size, flags));
}

/* ---- prefetching ---- */

static int prefetch(const void *memory, size_t size, int device, core_stream stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return error ? error : core_prefetch(context, stream, (uint64_t)(uintptr_t)memory, size, device);
}

#if FLYT_CUDART <= 12
cudaError_t runtime_cudaMemPrefetchAsync(const void *memory, size_t size, int device, cudaStream_t stream)
{
    return runtime_return(prefetch(memory, size, device, stream));
}
#endif

#if FLYT_CUDART >= 12
#if FLYT_CUDART == 12
#define PREFETCH_TO_LOCATION runtime_cudaMemPrefetchAsync_v2
#define ADVISE_WITH_LOCATION runtime_cudaMemAdvise_v2
#else
#define PREFETCH_TO_LOCATION runtime_cudaMemPrefetchAsync
#define ADVISE_WITH_LOCATION runtime_cudaMemAdvise
#endif
/* The nodes of a host are those of the server's machine: any of them is "the host". False: no such type. */
static bool location_place(const cudaMemLocation *location, int *place)
{
    *place = location->type == cudaMemLocationTypeDevice ? location->id : MANAGED_ON_HOST;
    return location->type > cudaMemLocationTypeInvalid && location->type <= cudaMemLocationTypeHostNumaCurrent;
}

cudaError_t PREFETCH_TO_LOCATION(const void *memory, size_t size, cudaMemLocation location, unsigned flags,
                                 cudaStream_t stream)
{
    int place;
    if (flags || !location_place(&location, &place))
        return runtime_return(cudaErrorInvalidValue);
    return runtime_return(prefetch(memory, size, place, stream));
}
#endif

/* ---- advice ---- */

static int advise(const void *memory, size_t size, cudaMemoryAdvise advice, int place)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error
                 : core_managed_advise((uint64_t)(uintptr_t)memory, size, (enum managed_advice)advice, place);
}

#if FLYT_CUDART <= 12
cudaError_t runtime_cudaMemAdvise(const void *memory, size_t size, cudaMemoryAdvise advice, int device)
{
    return runtime_return(advise(memory, size, advice, device));
}
#endif

#if FLYT_CUDART >= 12
/* Advice that takes no location ignores it. */
cudaError_t ADVISE_WITH_LOCATION(const void *memory, size_t size, cudaMemoryAdvise advice, cudaMemLocation location)
{
    int place;
    bool takes_one = advice == cudaMemAdviseSetPreferredLocation || advice >= cudaMemAdviseSetAccessedBy;
    if (!location_place(&location, &place) && takes_one)
        return runtime_return(cudaErrorInvalidValue);
    return runtime_return(advise(memory, size, advice, place));
}
#endif

static int range_attributes(void **data, const size_t *sizes, const cudaMemRangeAttribute *attributes, size_t count,
                            const void *memory, size_t size)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && (!data || !sizes || !attributes || !count))
        error = cudaErrorInvalidValue;
    for (size_t i = 0; i < count && !error; i++)
        error = core_managed_attribute((uint64_t)(uintptr_t)memory, size, (int)attributes[i], data[i], sizes[i]);
    return error;
}

cudaError_t runtime_cudaMemRangeGetAttribute(void *data, size_t data_size, cudaMemRangeAttribute attribute,
                                             const void *memory, size_t size)
{
    return runtime_local(range_attributes(&data, &data_size, &attribute, 1, memory, size));
}

cudaError_t runtime_cudaMemRangeGetAttributes(void **data, size_t *sizes, cudaMemRangeAttribute *attributes,
                                              size_t count, const void *memory, size_t size)
{
    return runtime_local(range_attributes(data, sizes, attributes, count, memory, size));
}
