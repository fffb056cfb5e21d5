/* occupancy.c: CUDA reference, section Occupancy. The rules themselves are sg_occupancy's (softgpu/exec/). */
#include "softgpu/driver/calls/calls.h"
#include "cpu/common/cluster.h"

#include <string.h>

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
    else if (block_size > (int)f->module->context->machine->limits.max_threads_per_block || dynamic > f->max_dynamic)
        *blocks = 0;
    else /* as NVIDIA's: the bound that the kernel was compiled with does not count */
        *blocks = (int)sgd_function_occupancy(f, (unsigned)block_size, dynamic);
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
        size_t most = f->max_dynamic; /* what a launch may ask for: 48 KiB unless the program raised it */
        size_t left = share > overhead ? share - overhead : 0;
        *dynamic = left < most ? left : most;
    }
    sgd_leave();
    return r;
}

/* ---- clusters ---- */

/* Blocks of the launch that are resident at a time, and the cluster that it names (0: none). */
static CUresult resident_blocks(const struct sgd_function *f, const CUlaunchConfig *c, uint64_t *blocks,
                                uint32_t cluster[3])
{
    const struct sg_limits *l = &f->module->context->machine->limits;
    memset(cluster, 0, 3 * sizeof *cluster);
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    if (c->blockDimX > l->max_block[0] || c->blockDimY > l->max_block[1] || c->blockDimZ > l->max_block[2])
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    CUresult why = CUDA_ERROR_INVALID_VALUE;
    unsigned on_sm;
    if (!threads || !sgd_function_fits(f, threads, c->sharedMemBytes, &on_sm, &why))
        return why;
    *blocks = (uint64_t)on_sm * l->sm_count;
    for (unsigned i = 0; i < c->numAttrs; i++)
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const CUlaunchAttributeValue *v = &c->attrs[i].value;
            if (!v->clusterDim.x || !v->clusterDim.y || !v->clusterDim.z)
                return CUDA_ERROR_INVALID_VALUE;
            cluster[0] = v->clusterDim.x, cluster[1] = v->clusterDim.y, cluster[2] = v->clusterDim.z;
        }
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction handle, const CUlaunchConfig *config)
{
    struct sgd_function *f;
    uint64_t blocks;
    uint32_t cluster[3];
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    r = size ? resident_blocks(f, config, &blocks, cluster) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *size = (int)(blocks < sgd_function_cluster_most(f) ? blocks : sgd_function_cluster_most(f));
    sgd_leave();
    return r;
}

/* A kernel that may have clusters that not every device can form may ask for any size: of those that this one cannot
   form none is active. (cuTENSOR asks for 32 first, and starts on devices whose largest have 16.) */
static bool formed_nowhere(const struct sgd_function *f, const uint32_t given[3])
{
    const uint32_t *own = sgd_function_cluster(f);
    unsigned __int128 size = (unsigned __int128)given[0] * given[1] * given[2];
    return f->non_portable && !own[0] && !own[1] && !own[2] && size > CLUSTER_BLOCKS_MOST;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction handle, const CUlaunchConfig *config)
{
    static const uint32_t any_grid[3];
    struct sgd_function *f;
    uint64_t blocks;
    uint32_t given[3], cluster[3];
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    r = count ? resident_blocks(f, config, &blocks, given) : CUDA_ERROR_INVALID_VALUE;
    bool none = !r && formed_nowhere(f, given);
    if (!r && !none)
        r = sgd_function_cluster_check(f, any_grid, given, UINT64_MAX, cluster);
    /* where neither the function nor the launch names a size, a cluster is a block */
    uint64_t size = none || r || !cluster[0] ? 1 : (uint64_t)cluster[0] * cluster[1] * cluster[2];
    if (!r)
        *count = none ? 0 : (int)(blocks / size);
    sgd_leave();
    return r;
}
