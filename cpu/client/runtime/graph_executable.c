/*
 * graph_executable.c: chapter "Graph Management": executable graphs are made, updated and launched.
 */
#include <stdio.h>

#include "cpu/client/runtime/graph.h"

static int enter(const void *out)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error || out ? error : cudaErrorInvalidValue;
}

static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    struct graph_failure failure;
    int error = enter(out);
    return runtime_return(error ? error : graph_instantiate(graph, flags, out, &failure));
}

static int upload(cudaGraphExec_t executable, cudaStream_t stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : graph_upload(context, executable, stream);
}

#if FLYT_CUDART == 11
cudaError_t runtime_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphNode_t *node, char *log,
                                         size_t size)
{
    struct graph_failure failure = { 0 };
    int error = enter(out);
    if (!error)
        error = graph_instantiate(graph, 0, out, &failure);
    if (node)
        *node = failure.node;
    if (log && size)
        snprintf(log, size, "%s", failure.reason == GRAPH_INVALID_STRUCTURE ? "The graph has a cycle" : "");
    return runtime_return(error);
}
#else
cudaError_t runtime_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    return instantiate(out, graph, flags);
}

static cudaError_t instantiate_with(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphInstantiateParams *parameters,
                                    cudaStream_t default_stream)
{
    struct graph_failure failure = { .reason = GRAPH_NOT_MADE };
    int error = enter(out);
    if (!error && !parameters)
        error = cudaErrorInvalidValue;
    if (error)
        return runtime_return(error);
    cudaGraphExec_t made = 0;
    error = graph_instantiate(graph, parameters->flags, &made, &failure);
    cudaStream_t stream = parameters->uploadStream ? parameters->uploadStream : default_stream;
    if (!error && parameters->flags & GRAPH_UPLOAD && (error = upload(made, stream))) {
        graph_executable_destroy(made);
        failure.reason = GRAPH_NOT_MADE;
    }
    if (!error)
        *out = made;
    parameters->errNode_out = failure.node;
    parameters->result_out = (cudaGraphInstantiateResult)failure.reason;
    return runtime_return(error);
}

cudaError_t runtime_cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t graph,
                                                   cudaGraphInstantiateParams *parameters)
{
    return instantiate_with(out, graph, parameters, 0);
}

cudaError_t runtime_cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *out, cudaGraph_t graph,
                                                        cudaGraphInstantiateParams *parameters)
{
    return instantiate_with(out, graph, parameters, runtime_per_thread(0));
}

cudaError_t runtime_cudaGraphExecGetFlags(cudaGraphExec_t executable, unsigned long long *flags)
{
    int error = enter(flags);
    return runtime_local(error ? error : graph_executable_flags(executable, flags));
}
#endif

cudaError_t runtime_cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    return instantiate(out, graph, flags);
}

cudaError_t runtime_cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    int error = enter(&executable);
    return runtime_return(error ? error : graph_executable_destroy(executable));
}

cudaError_t runtime_cudaGraphNodeSetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned enabled)
{
    int error = enter(&executable);
    return runtime_local(error ? error : graph_executable_enable(executable, node, enabled));
}

cudaError_t runtime_cudaGraphNodeGetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned *enabled)
{
    bool is = false;
    int error = enter(enabled);
    if (!error)
        error = graph_executable_enabled(executable, node, &is);
    if (!error)
        *enabled = is;
    return runtime_local(error);
}

#if FLYT_CUDART == 11
cudaError_t runtime_cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphNode_t *node,
                                        cudaGraphExecUpdateResult *result)
{
    struct graph_update update = { .result = GRAPH_UPDATE_ERROR };
    int error = enter(result);
    if (error)
        return runtime_return(error);
    error = graph_executable_update(executable, graph, &update);
    if (node)
        *node = update.node;
    *result = (cudaGraphExecUpdateResult)update.result;
    return runtime_return(error);
}
#else
cudaError_t runtime_cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                        cudaGraphExecUpdateResultInfo *result)
{
    struct graph_update update;
    int error = enter(result);
    if (error)
        return runtime_return(error);
    error = graph_executable_update(executable, graph, &update);
    *result = (cudaGraphExecUpdateResultInfo){ (cudaGraphExecUpdateResult)update.result, update.node, update.from };
    return runtime_return(error);
}
#endif

cudaError_t runtime_cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream)
{
    return runtime_return(upload(executable, stream));
}

cudaError_t runtime_cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    return runtime_return(error ? error : graph_launch(context, executable, stream));
}
