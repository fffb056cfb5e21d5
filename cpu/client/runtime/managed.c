/* managed.c: prefetching of managed memory, of chapter "Memory Management".
   No graph has such a node, so a stream that is captured refuses it. */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

enum { HOST = -1 };

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
#else
#define PREFETCH_TO_LOCATION runtime_cudaMemPrefetchAsync
#endif
/* The nodes of a host are those of the server's machine: any of them is "the host". */
cudaError_t PREFETCH_TO_LOCATION(const void *memory, size_t size, cudaMemLocation location, unsigned flags,
                                 cudaStream_t stream)
{
    if (flags || location.type <= cudaMemLocationTypeInvalid || location.type > cudaMemLocationTypeHostNumaCurrent)
        return runtime_return(cudaErrorInvalidValue);
    bool device = location.type == cudaMemLocationTypeDevice;
    return runtime_return(prefetch(memory, size, device ? location.id : HOST, stream));
}
#endif
