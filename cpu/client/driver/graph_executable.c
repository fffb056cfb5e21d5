/*
 * graph_executable.c: chapter "Graph Management": executable graphs are made, updated and launched.
 */
#include <stdio.h>

#include "cpu/client/driver/graph.h"

static int instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags, struct graph_failure *failure)
{
    *failure = (struct graph_failure){ 0, GRAPH_NOT_MADE };
    int error = driver_ready();
    if (error)
        return error;
    return out ? graph_instantiate(graph, flags, out, failure) : CUDA_ERROR_INVALID_VALUE;
}

static int upload(CUgraphExec executable, CUstream stream)
{
    core_context *context;
    int error = driver_enter(&context);
    return error ? error : graph_upload(context, executable, stream);
}

static CUresult instantiate_logged(CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
    struct graph_failure failure;
    int error = instantiate(out, graph, 0, &failure);
    if (node)
        *node = failure.node;
    if (log && size)
        snprintf(log, size, "%s", failure.reason == GRAPH_INVALID_STRUCTURE ? "The graph has a cycle" : "");
    return (CUresult)error;
}

CUresult driver_cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
    return instantiate_logged(out, graph, node, log, size);
}

CUresult driver_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
    return instantiate_logged(out, graph, node, log, size);
}

CUresult driver_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    struct graph_failure failure;
    return (CUresult)instantiate(out, graph, flags, &failure);
}

CUresult driver_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters,
                                             core_stream default_stream)
{
    struct graph_failure failure;
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec made = 0;
    int error = instantiate(out ? &made : NULL, graph, parameters->flags, &failure);
    if (!error && parameters->flags & GRAPH_UPLOAD &&
        (error = upload(made, parameters->hUploadStream ? parameters->hUploadStream : default_stream))) {
        graph_executable_destroy(made);
        failure.reason = GRAPH_NOT_MADE;
    }
    if (!error)
        *out = made;
    parameters->hErrNode_out = failure.node;
    parameters->result_out = (CUgraphInstantiateResult)failure.reason;
    return (CUresult)error;
}

CUresult driver_cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t *flags)
{
    unsigned long long value = 0;
    int error = driver_ready();
    if (!error)
        error = flags ? graph_executable_flags(executable, &value) : CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *flags = value;
    return driver_local(error);
}

CUresult driver_cuGraphExecDestroy(CUgraphExec executable)
{
    int error = driver_ready();
    return (CUresult)(error ? error : graph_executable_destroy(executable));
}

CUresult driver_cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned enabled)
{
    int error = driver_ready();
    return driver_local(error ? error : graph_executable_enable(executable, node, enabled));
}

CUresult driver_cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned *enabled)
{
    bool is = false;
    int error = driver_ready();
    if (!error)
        error = enabled ? graph_executable_enabled(executable, node, &is) : CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *enabled = is;
    return driver_local(error);
}

static int update(CUgraphExec executable, CUgraph graph, const void *out, struct graph_update *result)
{
    *result = (struct graph_update){ .result = GRAPH_UPDATE_ERROR };
    int error = driver_ready();
    if (error)
        return error;
    return out ? graph_executable_update(executable, graph, result) : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode *node,
                                  CUgraphExecUpdateResult *out)
{
    struct graph_update result;
    int error = update(executable, graph, out, &result);
    if (out)
        *out = (CUgraphExecUpdateResult)result.result;
    if (node)
        *node = result.node;
    return driver_local(error);
}

CUresult driver_cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *out)
{
    struct graph_update result;
    int error = update(executable, graph, out, &result);
    if (out)
        *out = (CUgraphExecUpdateResultInfo){ (CUgraphExecUpdateResult)result.result, result.node, result.from };
    return driver_local(error);
}

CUresult driver_cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    return (CUresult)upload(executable, stream);
}

CUresult driver_cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    core_context *context;
    int error = driver_enter(&context);
    return (CUresult)(error ? error : graph_launch(context, executable, stream));
}
