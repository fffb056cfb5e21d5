/*
 * graph_parameters.c: the parameters of nodes of chapter "Graph Management", from NVIDIA's structures to those of
 * cpu/client/graph.
 */
#include <string.h>

#include "cpu/client/runtime/array.h"
#include "cpu/client/runtime/graph.h"

static int begin(enum graph_kind kind, const void *given, struct graph_parameters *out)
{
    *out = (struct graph_parameters){ .kind = kind };
    int error = runtime_enter(&out->context);
    return error || given ? error : cudaErrorInvalidValue;
}

int graph_read_kernel(const cudaKernelNodeParams *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_KERNEL, p, out);
    if (error)
        return error;
    struct graph_kernel *k = &out->kernel;
    *k = (struct graph_kernel){
        .key = p->func,
        .grid = { p->gridDim.x, p->gridDim.y, p->gridDim.z },
        .block = { p->blockDim.x, p->blockDim.y, p->blockDim.z },
        .shared = p->sharedMemBytes,
        .arguments = p->kernelParams,
    };
    if (p->kernelParams && p->extra)
        return cudaErrorInvalidValue;
    if (p->extra && (error = graph_kernel_extra(p->extra, k)))
        return error;
    return runtime_function(p->func, &k->function);
}

/* ---- copies ---- */

static int check_kind(int kind)
{
    return kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection : cudaSuccess;
}

static struct graph_side side_of(const cudaPitchedPtr *memory, const cudaPos *position)
{
    return (struct graph_side){ .base = (uint64_t)(uintptr_t)memory->ptr,
                                .pitch = memory->pitch,
                                .width = memory->xsize,
                                .height = memory->ysize,
                                .at = { position->x, position->y, position->z } };
}

static struct graph_side side_at(const struct core_box *box)
{
    return (struct graph_side){ .base = box->address, .pitch = box->pitch, .width = box->pitch, .height = box->height };
}

static int read_copy_of_array(const cudaMemcpy3DParms *p, struct graph_parameters *out)
{
    struct runtime_copy_sides sides;
    int error = runtime_copy_sides(p, &sides);
    if (error)
        return error;
    out->copy = (struct graph_copy){ .to = p->dstArray ? side_at(&sides.to) : side_of(&p->dstPtr, &p->dstPos),
                                     .from = p->srcArray ? side_at(&sides.from) : side_of(&p->srcPtr, &p->srcPos),
                                     .extent = sides.extent,
                                     .direction = (enum core_direction)p->kind,
                                     .kind = p->kind };
    return cudaSuccess;
}

int graph_read_copy(const cudaMemcpy3DParms *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_COPY, p, out);
    if (error || (error = check_kind(p->kind)))
        return error;
    if (runtime_copy_has_array(p))
        return read_copy_of_array(p, out);
    if ((error = runtime_copy_fits(p)))
        return error;
    out->copy = (struct graph_copy){
        .to = side_of(&p->dstPtr, &p->dstPos),
        .from = side_of(&p->srcPtr, &p->srcPos),
        .extent = { p->extent.width, p->extent.height, p->extent.depth },
        .direction = (enum core_direction)p->kind,
        .kind = p->kind,
    };
    return cudaSuccess;
}

int graph_read_line(void *to, const void *from, size_t size, int kind, struct graph_parameters *out)
{
    int error = begin(GRAPH_COPY, to, out);
    if (error || (error = check_kind(kind)))
        return error;
    out->copy = (struct graph_copy){
        .to = { .base = (uint64_t)(uintptr_t)to, .pitch = size, .width = size, .height = 1 },
        .from = { .base = (uint64_t)(uintptr_t)from, .pitch = size, .width = size, .height = 1 },
        .extent = { size, 1, 1 },
        .direction = (enum core_direction)kind,
        .kind = kind,
    };
    return cudaSuccess;
}

int graph_read_to_symbol(const void *symbol, const void *from, size_t size, size_t offset, int kind,
                         struct graph_parameters *out)
{
    void *place;
    int error = runtime_symbol_part(symbol, size, offset, kind, cudaMemcpyHostToDevice, &place);
    return error ? error : graph_read_line(place, from, size, kind, out);
}

int graph_read_from_symbol(void *to, const void *symbol, size_t size, size_t offset, int kind,
                           struct graph_parameters *out)
{
    void *place;
    int error = runtime_symbol_part(symbol, size, offset, kind, cudaMemcpyDeviceToHost, &place);
    return error ? error : graph_read_line(to, place, size, kind, out);
}

/* ---- the other kinds ---- */

int graph_read_set(const cudaMemsetParams *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_SET, p, out);
    if (!error)
        out->set =
            (struct graph_set){ (uint64_t)(uintptr_t)p->dst, p->pitch, p->value, p->elementSize, p->width, p->height };
    return error;
}

int graph_read_host(const cudaHostNodeParams *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_HOST, p, out);
    if (!error)
        out->host = (struct graph_host){ p->fn, p->userData };
    return error;
}

int graph_read_event(enum graph_kind kind, cudaEvent_t event, struct graph_parameters *out)
{
    int error = begin(kind, &event, out);
    out->event = event;
    return error || event ? error : cudaErrorInvalidResourceHandle;
}

int graph_read_allocation(const cudaMemAllocNodeParams *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_ALLOCATE, p, out);
    if (error)
        return error;
    if (!p->bytesize || p->poolProps.location.type != cudaMemLocationTypeDevice ||
        p->poolProps.allocType != cudaMemAllocationTypePinned || p->poolProps.handleTypes)
        return cudaErrorInvalidValue;
    if ((error = runtime_attach_device(p->poolProps.location.id)) ||
        (error = runtime_retain(p->poolProps.location.id, &out->context)))
        return error;
    _Static_assert(sizeof *p->accessDescs == sizeof(struct graph_access), "the same structure");
    out->allocation = (struct graph_allocation){ .device = p->poolProps.location.id, .size = p->bytesize,
                                                 .access = (const void *)p->accessDescs,
                                                 .access_count = p->accessDescCount };
    memcpy(out->allocation.properties, &p->poolProps, sizeof p->poolProps);
    return error;
}

#if FLYT_CUDART >= 12
static int read_condition(const cudaConditionalNodeParams *p, struct graph_parameters *out)
{
    out->kind = GRAPH_CONDITION;
    out->condition = (struct graph_condition){ .handle = p->handle, .type = (int)p->type, .count = p->size };
    return cudaSuccess;
}

/* The structures of cudaGraphNodeParams have the members of the older ones, in the same places. */
int graph_read_any(const cudaGraphNodeParams *p, struct graph_parameters *out)
{
    int error = begin(GRAPH_EMPTY, p, out);
    if (error)
        return error;
    switch (p->type) {
    case cudaGraphNodeTypeKernel: return graph_read_kernel((const void *)&p->kernel, out);
    case cudaGraphNodeTypeMemcpy: return graph_read_copy(&p->memcpy.copyParams, out);
    case cudaGraphNodeTypeMemset: return graph_read_set((const void *)&p->memset, out);
    case cudaGraphNodeTypeHost: return graph_read_host((const void *)&p->host, out);
    case cudaGraphNodeTypeGraph:
        out->kind = GRAPH_CHILD;
        out->child = p->graph.graph;
        out->moves = p->graph.ownership == cudaGraphChildGraphOwnershipMove;
        return out->moves || !p->graph.ownership ? cudaSuccess : cudaErrorInvalidValue;
    case cudaGraphNodeTypeEmpty: return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent: return graph_read_event(GRAPH_WAIT_EVENT, p->eventWait.event, out);
    case cudaGraphNodeTypeEventRecord: return graph_read_event(GRAPH_RECORD_EVENT, p->eventRecord.event, out);
    case cudaGraphNodeTypeMemAlloc: return graph_read_allocation((const void *)&p->alloc, out);
    case cudaGraphNodeTypeMemFree:
        out->kind = GRAPH_FREE;
        out->freed = (uint64_t)(uintptr_t)p->free.dptr;
        return cudaSuccess;
    case cudaGraphNodeTypeConditional: return read_condition(&p->conditional, out);
    default: break;
    }
    if (p->type < cudaGraphNodeTypeKernel || p->type > cudaGraphNodeTypeConditional)
        return cudaErrorInvalidValue;
    core_unsupported("cudaGraphAddNode of an external semaphore or a batched memory operation");
    return cudaErrorNotSupported;
}
#endif
