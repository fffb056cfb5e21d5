/*
 * graph_parameters.c: the parameters of nodes of chapter "Graph Management", between NVIDIA's structures and those of
 * cpu/client/graph.
 */
#include <string.h>

#include "cpu/client/driver/graph.h"

/* NULL stands for the current context. Without one, only what needs none can be made. */
static int begin(enum graph_kind kind, CUcontext context, const void *given, struct graph_parameters *out)
{
    *out = (struct graph_parameters){ .kind = kind };
    int error = driver_ready();
    if (!error && !given)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : driver_context(context, &out->context);
}

int graph_read_kernel(const CUDA_KERNEL_NODE_PARAMS *p, bool with_kernel, struct graph_parameters *out)
{
    core_function *function = p ? p->func : NULL;
    bool kernel = with_kernel && p && !p->func;
    int error = begin(GRAPH_KERNEL, kernel ? p->ctx : NULL, p, out);
    if (error)
        return error;
    if (kernel)
        function = p->kern;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    if ((error = driver_function(&out->context, function)))
        return error;
    out->kernel = (struct graph_kernel){
        .function = function,
        .grid = { p->gridDimX, p->gridDimY, p->gridDimZ },
        .block = { p->blockDimX, p->blockDimY, p->blockDimZ },
        .shared = p->sharedMemBytes,
        .arguments = p->kernelParams,
    };
    if (p->kernelParams && p->extra)
        return CUDA_ERROR_INVALID_VALUE;
    return p->extra ? graph_kernel_extra(p->extra, &out->kernel) : CUDA_SUCCESS;
}

static uint64_t base_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
    return type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
}

/* driver_copy_check has found the array. */
static struct graph_side array_side(CUarray array, const size_t at[3])
{
    struct core_box box = { 0 };
    core_array_box(array, (const size_t[3]){ 0 }, &(struct core_extent){ 0 }, &box);
    return (struct graph_side){ .base = box.address, .pitch = box.pitch, .width = box.pitch, .height = box.height,
                                .at = { at[0], at[1], at[2] }, .type = CU_MEMORYTYPE_ARRAY };
}

int graph_read_copy(const CUDA_MEMCPY3D *p, CUcontext context, struct graph_parameters *out)
{
    int error = begin(GRAPH_COPY, context, p, out);
    if (error)
        return error;
    enum core_direction direction;
    if ((error = driver_copy_check(out->context, p, &direction)))
        return error;
    const struct graph_side to = { .base = base_of(p->dstMemoryType, p->dstHost, p->dstDevice),
                                   .pitch = p->dstPitch,
                                   .width = p->dstPitch,
                                   .height = p->dstHeight,
                                   .at = { p->dstXInBytes, p->dstY, p->dstZ },
                                   .type = (int)p->dstMemoryType },
                            from = { .base = base_of(p->srcMemoryType, p->srcHost, p->srcDevice),
                                     .pitch = p->srcPitch,
                                     .width = p->srcPitch,
                                     .height = p->srcHeight,
                                     .at = { p->srcXInBytes, p->srcY, p->srcZ },
                                     .type = (int)p->srcMemoryType };
    out->copy = (struct graph_copy){
        .to = p->dstMemoryType == CU_MEMORYTYPE_ARRAY ? array_side(p->dstArray, to.at) : to,
        .from = p->srcMemoryType == CU_MEMORYTYPE_ARRAY ? array_side(p->srcArray, from.at) : from,
        .extent = { p->WidthInBytes, p->Height, p->Depth },
        .direction = direction,
    };
    return CUDA_SUCCESS;
}

/* The Runtime API names no type of memory: then the direction of the copy says it. */
static CUmemorytype type_of(const struct graph_side *side, bool on_host, enum core_direction direction)
{
    if (side->type)
        return (CUmemorytype)side->type;
    if (direction == CORE_ANY_DIRECTION)
        return CU_MEMORYTYPE_UNIFIED;
    return on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

/* Whether the side is in an array; side->at is then from its first byte. */
static bool array_of(struct graph_side *side, CUarray *array)
{
    size_t at[3];
    if (!core_array_at(side->base, array, at))
        return false;
    for (int k = 0; k < 3; k++)
        side->at[k] += at[k];
    return true;
}

void graph_write_copy(const struct graph_copy *c, CUDA_MEMCPY3D *out)
{
    CUmemorytype to = type_of(&c->to, c->direction == CORE_HOST_TO_HOST || c->direction == CORE_DEVICE_TO_HOST,
                              c->direction),
                 from = type_of(&c->from, c->direction == CORE_HOST_TO_HOST || c->direction == CORE_HOST_TO_DEVICE,
                                c->direction);
    *out = (CUDA_MEMCPY3D){
        .srcXInBytes = c->from.at[0],
        .srcY = c->from.at[1],
        .srcZ = c->from.at[2],
        .srcMemoryType = from,
        .srcHost = from == CU_MEMORYTYPE_HOST ? (const void *)(uintptr_t)c->from.base : NULL,
        .srcDevice = from == CU_MEMORYTYPE_HOST ? 0 : c->from.base,
        .srcPitch = c->from.pitch,
        .srcHeight = c->from.height,
        .dstXInBytes = c->to.at[0],
        .dstY = c->to.at[1],
        .dstZ = c->to.at[2],
        .dstMemoryType = to,
        .dstHost = to == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)c->to.base : NULL,
        .dstDevice = to == CU_MEMORYTYPE_HOST ? 0 : c->to.base,
        .dstPitch = c->to.pitch,
        .dstHeight = c->to.height,
        .WidthInBytes = c->extent.width,
        .Height = c->extent.height,
        .Depth = c->extent.depth,
    };
    struct graph_side side = c->from;
    if (array_of(&side, &out->srcArray)) {
        out->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        out->srcDevice = 0;
        out->srcPitch = out->srcHeight = 0;
        out->srcXInBytes = side.at[0];
        out->srcY = side.at[1];
        out->srcZ = side.at[2];
    }
    side = c->to;
    if (array_of(&side, &out->dstArray)) {
        out->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        out->dstDevice = 0;
        out->dstPitch = out->dstHeight = 0;
        out->dstXInBytes = side.at[0];
        out->dstY = side.at[1];
        out->dstZ = side.at[2];
    }
}

int graph_read_set(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context, struct graph_parameters *out)
{
    int error = begin(GRAPH_SET, context, p, out);
    if (!error)
        out->set = (struct graph_set){ p->dst, p->pitch, p->value, p->elementSize, p->width, p->height };
    return error;
}

int graph_read_host(const CUDA_HOST_NODE_PARAMS *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_HOST, NULL, p, out);
    if (!error)
        out->host = (struct graph_host){ p->fn, p->userData };
    return error;
}

int graph_read_event(enum graph_kind kind, CUevent event, struct graph_parameters *out)
{
    int error = begin(kind, NULL, &event, out);
    out->event = event;
    return error || event ? error : CUDA_ERROR_INVALID_HANDLE;
}

int graph_read_number(enum graph_kind kind, uint64_t number, struct graph_parameters *out)
{
    int error = begin(kind, NULL, &number, out);
    if (kind == GRAPH_FREE)
        out->freed = number;
    else
        out->child = number;
    return error;
}

int graph_read_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_ALLOCATE, NULL, p, out);
    if (error)
        return error;
    if (!p->bytesize || p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || p->poolProps.handleTypes)
        return CUDA_ERROR_INVALID_VALUE;
    if ((error = driver_device(p->poolProps.location.id)))
        return error;
    _Static_assert(sizeof(CUmemAccessDesc) == sizeof(struct graph_access), "the same structure");
    out->allocation = (struct graph_allocation){ .device = p->poolProps.location.id, .size = p->bytesize,
                                                 .access = (const void *)p->accessDescs,
                                                 .access_count = p->accessDescCount };
    memcpy(out->allocation.properties, &p->poolProps, sizeof p->poolProps);
    return error;
}

int graph_read_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct core_value **room, struct graph_parameters *out)
{
    int error = begin(GRAPH_VALUES, p ? p->ctx : NULL, p, out);
    return error ? error : graph_read_values(p->count, p->paramArray, p->flags, room, &out->values);
}

static int read_child(const CUDA_CHILD_GRAPH_NODE_PARAMS *p, struct graph_parameters *out)
{
    enum { COPY, MOVE }; /* CUgraphChildGraphNodeOwnership */
    int error = graph_read_number(GRAPH_CHILD, p->graph, out);
    out->moves = p->ownership == MOVE;
    return error || p->ownership == COPY || p->ownership == MOVE ? error : CUDA_ERROR_INVALID_VALUE;
}

static int read_condition(const CUDA_CONDITIONAL_NODE_PARAMS *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_CONDITION, p->ctx, p, out);
    out->condition = (struct graph_condition){ .handle = p->handle, .type = (int)p->type, .count = p->size };
    return error;
}

/* The structures of CUgraphNodeParams begin as the older ones do. */
int graph_read_any(const CUgraphNodeParams *p, struct core_value **room, struct graph_parameters *out)
{
    int error = driver_ready();
    if (error || !p)
        return error ? error : CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return graph_read_kernel((const void *)&p->kernel, true, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return graph_read_copy(&p->memcpy.copyParams, p->memcpy.copyCtx, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: return graph_read_set((const void *)&p->memset, p->memset.ctx, out);
    case CU_GRAPH_NODE_TYPE_HOST: return graph_read_host((const void *)&p->host, out);
    case CU_GRAPH_NODE_TYPE_GRAPH: return read_child(&p->graph, out);
    case CU_GRAPH_NODE_TYPE_EMPTY: return graph_read_number(GRAPH_EMPTY, 0, out);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return graph_read_event(GRAPH_WAIT_EVENT, p->eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return graph_read_event(GRAPH_RECORD_EVENT, p->eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return graph_read_allocation((const void *)&p->alloc, out);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return graph_read_number(GRAPH_FREE, p->free.dptr, out);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return graph_read_batch((const void *)&p->memOp, room, out);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return read_condition(&p->conditional, out);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        core_unsupported("cuGraphAddNode of an external semaphore");
        return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}
