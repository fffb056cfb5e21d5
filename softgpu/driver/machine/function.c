/* function.c: functions and kernels: finding, attributes. */
#include "softgpu/driver/machine/machine.h"

#include <string.h>

#include "cpu/common/cluster.h"
#include "cpu/common/lock.h"

CUresult sgd_kernel_function(struct sgd_kernel *k, struct sgd_context *c, struct sgd_function **out)
{
    struct sgd_module *m;
    CUresult r = sgd_library_module(k->library, c, &m);
    if (!r)
        r = sgd_module_function(m, k->name, out);
    for (int a = 0; a < CU_FUNC_ATTRIBUTE_MAX && !r; a++)
        if (k->attributes[a].set)
            r = sgd_function_set_attribute(*out, (CUfunction_attribute)a, k->attributes[a].value);
    return r;
}

CUresult sgd_function_find(CUfunction handle, struct sgd_context *c, struct sgd_function **out)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    *out = sgd_handle_get(SGD_FUNCTION, handle);
    if (*out)
        return CUDA_SUCCESS;
    struct sgd_kernel *k = sgd_handle_get(SGD_KERNEL, handle);
    return k ? sgd_kernel_function(k, c, out) : CUDA_ERROR_INVALID_HANDLE;
}

bool sgd_function_fits(const struct sgd_function *f, uint64_t threads, size_t dynamic, unsigned *blocks, CUresult *why)
{
    const struct sg_limits *l = &f->module->context->machine->limits;
    const struct ptx_function *p = f->info.function;
    uint64_t declared =
        (uint64_t)p->max_ntid[0] * (p->max_ntid[1] ? p->max_ntid[1] : 1) * (p->max_ntid[2] ? p->max_ntid[2] : 1);
    *why = CUDA_ERROR_INVALID_VALUE;
    if (threads > l->max_threads_per_block || (declared && threads > declared) || dynamic > f->max_dynamic)
        return false;
    *why = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    *blocks = threads <= f->info.max_threads ? sgd_function_occupancy(f, (unsigned)threads, dynamic) : 0;
    return *blocks > 0;
}

unsigned sgd_function_occupancy(const struct sgd_function *f, unsigned threads, size_t dynamic)
{
    return sg_occupancy(&f->module->context->machine->limits, f->kernel, threads, dynamic);
}

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

const uint32_t *sgd_function_cluster(const struct sgd_function *f)
{
    return f->info.function->req_cluster[0] ? f->info.function->req_cluster : f->cluster;
}

unsigned sgd_function_cluster_most(const struct sgd_function *f)
{
    unsigned most = f->non_portable ? CLUSTER_BLOCKS_MOST : CLUSTER_BLOCKS_PORTABLE;
    unsigned declared = f->info.function->max_cluster_rank;
    return declared && declared < most ? declared : most;
}

CUresult sgd_function_cluster_check(const struct sgd_function *f, const uint32_t grid[3], const uint32_t given[3],
                                    uint64_t resident, uint32_t cluster[3])
{
    const uint32_t *own = sgd_function_cluster(f);
    uint64_t size = 1;
    bool needed = own[0] || own[1] || own[2];
    memset(cluster, 0, 3 * sizeof *cluster);
    if (!given[0] && !needed)
        return f->info.function->explicit_cluster ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
    for (int i = 0; i < 3; i++) {
        uint32_t must = own[i] ? own[i] : 1;
        if (given[0] && needed && given[i] != must)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        cluster[i] = given[0] ? given[i] : must;
        if (grid[i] % cluster[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        size *= cluster[i];                  /* at most 16 before */
        if (size > sgd_function_cluster_most(f))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    return size > resident ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

bool sgd_function_reaches_heap(const struct sgd_function *f)
{
    return f->info.uses & SOFTGPU_USES_HEAP ||
           (f->info.uses & SOFTGPU_USES_CHILDREN && f->module->reaches_heap) ||
           (f->info.calls_pointers && f->module->context->heap);
}

CUresult sgd_function_get_attribute(const struct sgd_function *f, CUfunction_attribute attribute, int *value)
{
    switch ((int)attribute) {
    case SOFTGPU_FUNCTION_USES: *value = (int)(f->info.uses & ~(unsigned)SOFTGPU_USES_HEAP); break;
    case SOFTGPU_FUNCTION_HEAP: *value = sgd_function_reaches_heap(f); break;
    case SOFTGPU_FUNCTION_BLOCK_X:
    case SOFTGPU_FUNCTION_BLOCK_Y:
    case SOFTGPU_FUNCTION_BLOCK_Z:
        *value = (int)f->info.function->req_ntid[(int)attribute - SOFTGPU_FUNCTION_BLOCK_X];
        break;
    case SOFTGPU_FUNCTION_CLUSTER_GRID: *value = f->info.function->blocks_are_clusters; break;
    case SOFTGPU_FUNCTION_CLUSTER_MOST: *value = (int)f->info.function->max_cluster_rank; break;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)f->info.max_threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)f->info.static_shared; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = (int)f->info.const_bytes; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)f->info.stack_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)f->info.registers; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = (int)f->info.ptx_version; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = (int)f->info.binary_version; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)f->max_dynamic; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = f->carveout; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = f->info.function->explicit_cluster; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = (int)sgd_function_cluster(f)[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = f->non_portable; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = f->policy; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sgd_function_set_attribute(struct sgd_function *f, CUfunction_attribute attribute, int value)
{
    const struct sg_limits *l = &f->module->context->machine->limits;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || (size_t)value + f->info.static_shared > l->shared_per_block_optin)
            return CUDA_ERROR_INVALID_VALUE;
        f->max_dynamic = (size_t)value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        f->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        f->non_portable = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > 2)
            return CUDA_ERROR_INVALID_VALUE;
        f->policy = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (f->info.function->req_cluster[0])
            return CUDA_ERROR_INVALID_VALUE; /* the kernel was compiled with its clusters */
        if (value < 0)
            return CUDA_ERROR_INVALID_VALUE;
        f->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = (uint32_t)value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;     /* read-only, or none */
    }
}
