/* launch.c: kernel launches. The parameters come as the block that the driver takes, checked against the function's
   layout; everything else the driver checks as it does natively. */
#include "api/launch_attributes.h"
#include "cpu/server/code/code.h"
#include "cpu/server/code/settings.h"
#include "cpu/server/code/texref.h"

#include <string.h>

#include "cpu/common/tenant_ledger.h"

_Static_assert((int)FLYT_LAUNCH_GRAPH == (int)SOFTGPU_LAUNCH_GRAPH, "one number on both ways");
/* Launch attributes whose values are plain data; others hold handles or pointers of the client's process. The `owner`
   of a graph is filled in here. */
static bool attribute_plain(int id)
{
    return id == SOFTGPU_LAUNCH_GRAPH || launch_attribute_has(id, ATTRIBUTE_TRAVELS);
}

CUresult launch_attributes(const flyt_launch_attribute *from, unsigned count, CUlaunchAttribute *to)
{
    memset(to, 0, count * sizeof *to);
    for (unsigned i = 0; i < count; i++) {
        if (!attribute_plain(from[i].id))
            return CUDA_ERROR_INVALID_VALUE;
        to[i].id = (CUlaunchAttributeID)from[i].id;
        _Static_assert(sizeof to->value == sizeof from->value, "the protocol carries whole attribute values");
        memcpy(&to[i].value, from[i].value, sizeof from->value);
    }
    return CUDA_SUCCESS;
}

static CUresult graph_attribute(struct session *session, CUlaunchAttribute *attribute)
{
    struct softgpu_graph graph;
    memcpy(&graph, &attribute->value, sizeof graph);
    CUresult r = (CUresult)device_graph_attribute(session, &graph);
    memcpy(&attribute->value, &graph, sizeof graph);
    return r;
}

static CUresult launch_extended(struct session *session, const struct call *call, void **extra)
{
    const launch_args *args = &call->args.launch;
    CUlaunchAttribute attributes[FLYT_MAX_LAUNCH_ATTRIBUTES + 1];
    unsigned count = args->attributes.attributes_len;
    if (!session->gpu->LaunchKernelEx)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = launch_attributes(args->attributes.attributes_val, count, attributes);
    for (unsigned i = 0; i < count && r == CUDA_SUCCESS; i++)
        if ((int)attributes[i].id == SOFTGPU_LAUNCH_GRAPH)
            r = graph_attribute(session, &attributes[i]);
    if (r != CUDA_SUCCESS)
        return r;
    if (args->flags & FLYT_LAUNCH_COOPERATIVE) {
        attributes[count++] = (CUlaunchAttribute){ .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1 };
    }
    CUlaunchConfig config = {
        .gridDimX = args->grid.x, .gridDimY = args->grid.y, .gridDimZ = args->grid.z,
        .blockDimX = args->block.x, .blockDimY = args->block.y, .blockDimZ = args->block.z,
        .sharedMemBytes = args->shared, .hStream = call->stream->handle, .attrs = attributes, .numAttrs = count,
    };
    return session->gpu->LaunchKernelEx(&config, call->function->handle, NULL, extra);
}

static int launch_issue(struct session *session, struct call *call)
{
    const launch_args *args = &call->args.launch;
    const struct function *function = call->function;
    size_t size = args->params.params_len;
    void *block[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, args->params.params_val, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      CU_LAUNCH_PARAM_END };
    void **extra = size ? block : NULL;
    if (function->state == CODE_FAILED)
        return (int)function->result;
    if (size != function->param_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_expect(function->settings.now != NULL, 0)) {
        CUresult r = settings_apply(session, call->function, call->settings);
        if (r != CUDA_SUCCESS)
            return (int)r;
    }
    if (__builtin_expect(call->bindings != NULL, 0)) {
        CUresult r = texref_bindings_apply(session, call->bindings);
        if (r != CUDA_SUCCESS)
            return (int)r;
    }
    if (args->attributes.attributes_len || args->flags)
        return (int)launch_extended(session, call, extra);
    return (int)session->gpu->LaunchKernel(function->handle, args->grid.x, args->grid.y, args->grid.z, args->block.x,
                                           args->block.y, args->block.z, args->shared, call->stream->handle, NULL,
                                           extra);
}
static const struct operation launch_operation = { .issue = launch_issue, .numbered = true };

bool launch_may_allocate(const struct session *session, const struct call *call)
{
    int heap = 0;
    return session->gpu->graphs && call->operation == &launch_operation && call->function->handle &&
           session->gpu->FuncGetAttribute(&heap, (CUfunction_attribute)SOFTGPU_FUNCTION_HEAP,
                                          call->function->handle) == CUDA_SUCCESS &&
           heap;
}

void serve_launch(struct session *session, struct call *call)
{
    const launch_args *args = &call->args.launch;
    struct function *function = function_find(session, args->function);
    struct stream *stream = server_stream_enter(session, call, args->stream);
    if (!stream)
        return;
    if (!function || function->module->context != stream->context) {
        stream_refuse(session, call, CUDA_ERROR_INVALID_HANDLE);
        return;
    }
    if (args->flags & ~(unsigned)FLYT_LAUNCH_COOPERATIVE) {
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
        return;
    }
    if (__builtin_expect(function->settings.now != NULL, 0)) {
        CUresult r = settings_take(session, function, args->shared, &call->settings);
        if (r != CUDA_SUCCESS) {
            stream_refuse(session, call, r);
            return;
        }
    }
    if (__builtin_expect(function->module->texrefs != NULL, 0) &&
        !(call->bindings = texref_bindings_take(function->module))) {
        stream_refuse(session, call, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    call->function = function;
    function_hold(function);
    figure_add(&session->figures->launches, 1);
    server_stream_submit(session, call, &launch_operation);
}
