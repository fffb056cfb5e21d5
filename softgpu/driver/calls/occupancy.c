/* occupancy.c: CUDA reference, section Occupancy. The rules themselves are sg_occupancy's (softgpu/exec/). */
#include "softgpu/driver/calls/calls.h"

enum { SHARED_UNIT = 128 };                  /* shared memory is given out in units of so many bytes */

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle, int block_size,
                                                              size_t dynamic, unsigned flags)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    if (!blocks || block_size <= 0 || flags & ~1u)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *blocks =
            block_size > (int)f->info.max_threads ? 0 : (int)sgd_function_occupancy(f, (unsigned)block_size, dynamic);
    sgd_leave();
    return r;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int block_size, size_t dynamic)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, block_size, dynamic, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                   CUoccupancyB2DSize shared_of, size_t dynamic, int most,
                                                   unsigned flags)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    if (!grid || !block || flags & ~1u || most < 0) {
        sgd_leave();
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct sg_limits *l = &f->module->context->machine->limits;
    int top = (int)f->info.max_threads;
    if (most && most < top)
        top = most;
    int best = 0, best_size = 0, best_blocks = 0;
    /* From the largest down, in warps: the first with the most threads on an SM wins. */
    for (int size = top; size > 0; size = (size - 1) / (int)l->warp_size * (int)l->warp_size) {
        size_t shared = shared_of ? shared_of(size) : dynamic;
        int blocks = (int)sgd_function_occupancy(f, (unsigned)size, shared);
        if (blocks * size > best) {
            best = blocks * size;
            best_size = size;
            best_blocks = blocks;
        }
    }
    *block = best_size;
    *grid = best_blocks * (int)l->sm_count;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction handle, CUoccupancyB2DSize shared_of,
                                          size_t dynamic, int most)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, shared_of, dynamic, most, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic, CUfunction handle, int blocks, int block_size)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    const struct sg_limits *l = &f->module->context->machine->limits;
    if (!dynamic || blocks <= 0 || block_size <= 0 || block_size > (int)f->info.max_threads
        || (unsigned)blocks > sgd_function_occupancy(f, (unsigned)block_size, 0)) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        size_t share = l->shared_per_sm / (unsigned)blocks / SHARED_UNIT * SHARED_UNIT;
        size_t overhead = l->shared_reserved + f->info.static_shared;
        size_t most = l->shared_per_block_optin - f->info.static_shared;
        size_t left = share > overhead ? share - overhead : 0;
        *dynamic = left < most ? left : most;
    }
    sgd_leave();
    return r;
}

/* Without clusters (CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH is 0) there is only the cluster of one block. */
CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction handle, const CUlaunchConfig *config)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    sgd_leave();
    return size && config ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction handle, const CUlaunchConfig *config)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    sgd_leave();
    return count && config ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
