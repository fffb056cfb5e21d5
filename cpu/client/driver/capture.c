/*
 * capture.c: stream capture, of chapter "Stream Management". What a captured stream is given becomes nodes of a graph:
 * cpu/client/graph/capture.h.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/driver/driver.h"

static CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(error ? error : capture_begin(context, stream, (enum capture_mode)mode));
}

CUresult driver_cuStreamBeginCapture(CUstream stream) { return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); }
CUresult driver_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) { return begin(stream, mode); }
CUresult driver_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *before,
                                            const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(
        error ? error
              : capture_begin_to(context, stream, graph, before, (const void *)edges, count, (enum capture_mode)mode));
}

CUresult driver_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(error ? error : capture_end(context, stream, graph));
}

static int get_info(CUstream stream, const void *status, struct capture_info *info)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !status)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : capture_info(context, stream, info);
}

CUresult driver_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    struct capture_info info;
    int error = get_info(stream, status, &info);
    if (!error)
        *status = (CUstreamCaptureStatus)info.status;
    return driver_local(error);
}

/* The further out-parameters are optional. Of a stream that is not captured, only the status is written. */
static CUresult tell(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **before, const CUgraphEdgeData **edges, size_t *count)
{
    struct capture_info info;
    int error = get_info(stream, status, &info);
    if (!error)
        error = capture_info_check(&info, before, edges);
    if (error)
        return driver_local(error);
    *status = (CUstreamCaptureStatus)info.status;
    if (info.status != CAPTURE_ACTIVE)
        return driver_local(CUDA_SUCCESS);
    if (id)
        *id = info.id;
    if (graph)
        *graph = info.graph;
    if (before)
        *before = info.before;
    if (edges)
        *edges = (const void *)info.edges;
    if (count)
        *count = info.count;
    return driver_local(CUDA_SUCCESS);
}

CUresult driver_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return tell(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult driver_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                          CUgraph *graph, const CUgraphNode **before, size_t *count)
{
    return tell(stream, status, id, graph, before, NULL, count);
}

CUresult driver_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                          CUgraph *graph, const CUgraphNode **before, const CUgraphEdgeData **edges,
                                          size_t *count)
{
    return tell(stream, status, id, graph, before, edges, count);
}

enum { UPDATE_ONLY = 1 };

static CUresult update(CUstream stream, const CUgraphNode *nodes, const void *edges, size_t count, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && flags & ~(unsigned)UPDATE_ONLY)
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_local(error ? error : capture_update(context, stream, nodes, edges, count, flags & UPDATE_ONLY));
}

CUresult driver_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags)
{
    return update(stream, nodes, NULL, count, flags);
}

CUresult driver_cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges,
                                                     size_t count, unsigned flags)
{
    return update(stream, nodes, edges, count, flags);
}

CUresult driver_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    int error = driver_ready();
    if (error || !mode)
        return driver_local(error ? error : CUDA_ERROR_INVALID_VALUE);
    int own = (int)*mode;
    error = capture_exchange_mode(&own);
    if (!error)
        *mode = (CUstreamCaptureMode)own;
    return driver_local(error);
}
