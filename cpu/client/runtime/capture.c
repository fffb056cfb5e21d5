/*
 * capture.c: stream capture, of chapter "Stream Management". What a captured stream is given becomes nodes of a graph:
 * cpu/client/graph/capture.h.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

cudaError_t runtime_cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    core_context *context;
    int error = runtime_enter(&context);
    return runtime_return(error ? error : capture_begin(context, stream, (enum capture_mode)mode));
}

cudaError_t runtime_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    core_context *context;
    int error = runtime_enter(&context);
    return runtime_return(error ? error : capture_end(context, stream, graph));
}

static int get_info(cudaStream_t stream, const void *status, struct capture_info *info)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && !status)
        error = cudaErrorInvalidValue;
    return error ? error : capture_info(context, stream, info);
}

cudaError_t runtime_cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    struct capture_info info;
    int error = get_info(stream, status, &info);
    if (!error)
        *status = (cudaStreamCaptureStatus)info.status;
    return runtime_local(error);
}

/* The further out-parameters are optional. Of a stream that is not captured, only the status is written. */
static int tell(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
                const cudaGraphNode_t **before, const void **edges, size_t *count)
{
    struct capture_info info;
    int error = get_info(stream, status, &info);
    if (!error)
        error = capture_info_check(&info, before, edges);
    if (error)
        return runtime_local(error);
    *status = (cudaStreamCaptureStatus)info.status;
    if (info.status != CAPTURE_ACTIVE)
        return runtime_local(cudaSuccess);
    if (id)
        *id = info.id;
    if (graph)
        *graph = info.graph;
    if (before)
        *before = info.before;
    if (edges)
        *edges = info.edges;
    if (count)
        *count = info.count;
    return runtime_local(cudaSuccess);
}

enum { UPDATE_ONLY = 1 };

static cudaError_t update(cudaStream_t stream, const cudaGraphNode_t *nodes, const void *edges, size_t count,
                          unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && flags & ~(unsigned)UPDATE_ONLY)
        error = cudaErrorInvalidValue;
    return runtime_local(error ? error : capture_update(context, stream, nodes, edges, count, flags & UPDATE_ONLY));
}

#if FLYT_CUDART <= 12
cudaError_t runtime_cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                             unsigned long long *id)
{
    return tell(stream, status, id, NULL, NULL, NULL, NULL);
}

cudaError_t runtime_cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                                unsigned long long *id, cudaGraph_t *graph,
                                                const cudaGraphNode_t **before, size_t *count)
{
    return tell(stream, status, id, graph, before, NULL, count);
}

cudaError_t runtime_cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, size_t count,
                                                        unsigned flags)
{
    return update(stream, nodes, NULL, count, flags);
}
#endif

#if FLYT_CUDART >= 12
#if FLYT_CUDART == 12
#define INFO_WITH_EDGES runtime_cudaStreamGetCaptureInfo_v3
#define UPDATE_WITH_EDGES runtime_cudaStreamUpdateCaptureDependencies_v2
#else
#define INFO_WITH_EDGES runtime_cudaStreamGetCaptureInfo
#define UPDATE_WITH_EDGES runtime_cudaStreamUpdateCaptureDependencies
#endif
cudaError_t INFO_WITH_EDGES(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                            cudaGraph_t *graph, const cudaGraphNode_t **before, const cudaGraphEdgeData **edges,
                            size_t *count)
{
    return tell(stream, status, id, graph, before, (const void **)(void *)edges, count);
}

cudaError_t UPDATE_WITH_EDGES(cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count,
                              unsigned flags)
{
    return update(stream, nodes, edges, count, flags);
}

cudaError_t runtime_cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *before,
                                                  const cudaGraphEdgeData *edges, size_t count,
                                                  cudaStreamCaptureMode mode)
{
    core_context *context;
    int error = runtime_enter(&context);
    return runtime_return(
        error ? error
              : capture_begin_to(context, stream, graph, before, (const void *)edges, count, (enum capture_mode)mode));
}
#endif

cudaError_t runtime_cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    int error = runtime_attach(NULL);
    if (error || !mode)
        return runtime_local(error ? error : cudaErrorInvalidValue);
    int own = (int)*mode;
    error = capture_exchange_mode(&own);
    if (!error)
        *mode = (cudaStreamCaptureMode)own;
    return runtime_local(error);
}
