/* launch.c: launches: checks with native's codes, parameters, attributes. CUDA reference: Execution Control. */
#include "softgpu/driver/calls/calls.h"
#include "api/launch_attributes.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/cluster.h"
#include "cpu/common/lock.h"

/* The parameter block, which becomes the operation's. */
static CUresult gather(const struct sgd_function *f, void **params, void **extra, struct sgd_op *op)
{
    const struct ptx_function *p = f->info.function;
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned char *bytes =
        p->param_size <= sizeof op->launch.small ? op->launch.small : calloc(1, p->param_size);
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->launch.launch.params = bytes;
    const void *buffer = NULL;
    size_t size = 0;
    bool given = !p->signature.param_count;
    for (void **e = extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
        if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = e[1];
        else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)e[1];
        else
            break;
    }
    if (buffer) { /* NCCL's kernels declare more bytes than it gives */
        memcpy(bytes, buffer, size < p->param_size ? size : p->param_size);
        given = true;
    }
    if (params) {
        given = true;
        for (uint32_t i = 0; i < p->signature.param_count && given; i++) {
            const struct ptx_variable *v = &p->signature.params[i];
            given = (params[i] != NULL || !v->size) && v->offset + v->size <= p->param_size;
            if (given && v->size)
                memcpy(bytes + v->offset, params[i], v->size);
        }
    }
    return given ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* This device always forms the regular clusters, as CUDA allows. */
static CUresult check_preferred(const struct sg_launch *l, const CUlaunchAttributeValue *value)
{
    /* the value has the form of clusterDim */
    const uint32_t preferred[3] = { value->clusterDim.x, value->clusterDim.y, value->clusterDim.z };
    return l->cluster[0] ? (CUresult)cluster_check_preferred(l->grid, l->cluster, preferred)
                         : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

/* preferred: of the clusters that the program would rather have; NULL: it has not said. */
static CUresult check(const struct sgd_function *f, struct sg_launch *l, const CUlaunchAttributeValue *preferred)
{
    const struct sg_limits *limits = &f->module->context->machine->limits;
    const struct ptx_function *p = f->info.function;
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || !l->block[i] || l->grid[i] > limits->max_grid[i] || l->block[i] > limits->max_block[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (p->req_ntid[0] && l->block[i] != (p->req_ntid[i] ? p->req_ntid[i] : 1))
            return CUDA_ERROR_INVALID_VALUE;
        threads *= l->block[i];
        blocks *= l->grid[i];
    }
    CUresult why;
    unsigned on_sm;
    if (!sgd_function_fits(f, threads, l->dynamic_shared, &on_sm, &why))
        return why;
    const uint64_t resident = (uint64_t)on_sm * limits->sm_count;
    if (f->info.local_bytes * threads * (blocks < resident ? blocks : resident) > limits->local_memory) {
        sgd_log("%s needs %zu bytes of local memory per thread, more than the device has for the threads that run at a "
                "time",
                p->name, f->info.local_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (l->flags & SG_GRID_COOPERATIVE && blocks > resident)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    const uint32_t given[3] = { l->cluster[0], l->cluster[1], l->cluster[2] };
    CUresult r = sgd_function_cluster_check(f, l->grid, given, resident, l->cluster);
    return r || !preferred ? r : check_preferred(l, preferred);
}

/* The four bytes that begin the value. */
static unsigned number(const CUlaunchAttribute *a)
{
    unsigned value;
    memcpy(&value, &a->value, sizeof value);
    return value;
}

/* preferred: becomes the value of that attribute. */
static CUresult attribute(const CUlaunchAttribute *a, struct sg_launch *l, const CUlaunchAttributeValue **preferred)
{
    switch ((int)a->id) {
    case LAUNCH_ATTRIBUTE_IGNORE:
        return CUDA_SUCCESS;
    case LAUNCH_ATTRIBUTE_COOPERATIVE:
        if (a->value.cooperative)
            l->flags |= SG_GRID_COOPERATIVE;
        return CUDA_SUCCESS;
    case LAUNCH_ATTRIBUTE_PRIORITY:
        return CUDA_SUCCESS;                 /* one beyond the range counts as the nearest */
    case LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
        l->cluster[0] = a->value.clusterDim.x, l->cluster[1] = a->value.clusterDim.y;
        l->cluster[2] = a->value.clusterDim.z;
        bool none = !l->cluster[0] && !l->cluster[1] && !l->cluster[2];
        return none || (l->cluster[0] && l->cluster[1] && l->cluster[2]) ? CUDA_SUCCESS
                                                                           : CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    case LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:       /* check() looks at it */
        if (a->value.clusterDim.x || a->value.clusterDim.y || a->value.clusterDim.z)
            *preferred = &a->value;
        return CUDA_SUCCESS;
    case LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return CUDA_SUCCESS;                 /* a hint */
    case LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        return CUDA_SUCCESS;                 /* allows an overlap, does not ask for it */
    case LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:               /* fences wait for all stores: domains mean nothing here */
        return (unsigned char)a->value.pad[0] < SGD_SYNC_DOMAINS && (unsigned char)a->value.pad[1] < SGD_SYNC_DOMAINS
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return number(a) <= 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:  /* a hint, in percent */
        return number(a) <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:    /* a hint; the value begins the union */
        return (unsigned char)a->value.pad[0] <= 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        /* larger than accessPolicyMaxWindowSize, which is 0 */
        return a->value.accessPolicyWindow.num_bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case SOFTGPU_LAUNCH_GRAPH:
        memcpy(&l->graph, &a->value, sizeof l->graph);
        l->launch_graph = sgd_graph_launcher();
        return CUDA_SUCCESS;
    case LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:                                 /* none, or of streams only */
        return CUDA_ERROR_INVALID_VALUE;
    }
}

_Static_assert((int)SG_LIMITS <= (int)SGD_LIMITS, "a launch takes them from its context");
static int attribute_of(const void *device, int number) { return sgd_attribute(device, number); }

struct launching {
    CUfunction function;
    CUstream stream;
    void **params, **extra;
    const CUlaunchAttribute *attributes;
    unsigned attribute_count;
};

/* The stream decides the context; a CUkernel follows it, a CUfunction must belong to it. */
static CUresult launch(struct sgd_context *current, const struct launching *q, struct sg_launch *l)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_stream *s;
    struct sgd_function *f;
    const CUlaunchAttributeValue *preferred = NULL;
    CUresult r = sgd_stream_find(q->stream, current, &s);
    if (r)
        return r;
    s->refs++;                               /* finding a kernel may let go of the mutex */
    r = sgd_function_find(q->function, s->context, &f);
    if (!r && (!s->context || f->module->context != s->context))
        r = CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < q->attribute_count && !r; i++)
        r = attribute(&q->attributes[i], l, &preferred);
    if (!r)
        sg_launch_shape(f->info.function, l->grid, l->block);
    if (!r)
        r = check(f, l, preferred);
    struct sgd_op *op = r ? NULL : sgd_op_new(SGD_OP_LAUNCH);
    if (!r)
        r = op ? gather(f, q->params, q->extra, op) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r && f->module->texref_count) {
        l->bindings = sgd_texref_bindings(f->module);
        l->binding_count = f->module->texref_count;
        r = l->bindings ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!r) {
        l->kernel = f->kernel;
        l->stack = s->context->limits[CU_LIMIT_STACK_SIZE];
        bool reaches_heap = sgd_function_reaches_heap(f);
        l->heap = reaches_heap ? s->context->heap : NULL;
        l->print = s->context->print;
        l->attribute = attribute_of;
        l->device = s->context->device;
        memcpy(l->limits, s->context->limits, sizeof l->limits);
        l->limit_count = SG_LIMITS;
        l->params = op->launch.launch.params;
        l->params_size = f->info.function->param_size;
        op->launch.launch = *l;
        op->launch.module = f->module;
        op->launch.textures = sgd_textures_hold();
        f->module->running++;
        s->context->heap_used |= reaches_heap;
        r = sgd_queue_push(s, op, NULL);
    } else if (op) {
        sgd_op_free(op);
    }
    sgd_stream_unref(s);
    return r;
}

static CUresult enter_and_launch(const struct launching *q, struct sg_launch *l)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = launch(c, q, l);
    sgd_leave();
    return r;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **params, void **extra)
{
    struct sg_launch l = { .grid = { gx, gy, gz }, .block = { bx, by, bz }, .dynamic_shared = shared };
    return enter_and_launch(&(struct launching){ .function = f, .stream = stream, .params = params, .extra = extra },
                            &l);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void **params)
{
    struct sg_launch l = {
        .grid = { gx, gy, gz }, .block = { bx, by, bz }, .dynamic_shared = shared, .flags = SG_GRID_COOPERATIVE
    };
    return enter_and_launch(&(struct launching){ .function = f, .stream = stream, .params = params }, &l);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_launch l = { .grid = { c->gridDimX, c->gridDimY, c->gridDimZ },
                           .block = { c->blockDimX, c->blockDimY, c->blockDimZ },
                           .dynamic_shared = c->sharedMemBytes };
    return enter_and_launch(&(struct launching){ .function = f,
                                                 .stream = c->hStream,
                                                 .params = params,
                                                 .extra = extra,
                                                 .attributes = c->attrs,
                                                 .attribute_count = c->numAttrs },
                            &l);
}
