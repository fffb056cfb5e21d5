/* occupancy.c: chapter "Occupancy". The core computes from what came with the kernel's image. */
#include "cpu/client/driver/driver.h"

enum { OCCUPANCY_FLAGS_KNOWN = 1 };

static int enter(core_function *function, core_context **context)
{
    int error = driver_enter(context);
    return error ? error : driver_function(context, function);
}

static int max_blocks(int *blocks, CUfunction function, int block_size, size_t shared, unsigned flags)
{
    core_context *context;
    int error = enter(function, &context);
    if (error)
        return error;
    if (!blocks || block_size <= 0 || flags & ~(unsigned)OCCUPANCY_FLAGS_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    return core_occupancy_blocks(context, function, block_size, shared, flags, blocks);
}

/* Tries every multiple of a warp, from the largest down, and keeps the first that fills a multiprocessor best. */
static int potential_block(int *grid, int *block, CUfunction function, CUoccupancyB2DSize size_of, size_t shared,
                           int limit, unsigned flags)
{
    core_context *context;
    struct core_context_info where;
    const struct core_function_info *info;
    int error = enter(function, &context), warp, most, multiprocessors, best = 0;
    if (error)
        return error;
    if (!grid || !block || limit < 0 || flags & ~(unsigned)OCCUPANCY_FLAGS_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    if ((error = core_function_info(context, function, &info)) || (error = core_context_info(context, &where)) ||
        (error = core_device_attribute(where.device, CU_DEVICE_ATTRIBUTE_WARP_SIZE, &warp)) ||
        (error = core_device_attribute(where.device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &most)) ||
        (error = core_device_attribute(where.device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &multiprocessors)))
        return error;
    most = info->max_threads < most ? info->max_threads : most;
    most = limit && limit < most ? limit : most;
    size_t (*shared_of)(int) = (size_t(*)(int))(uintptr_t)size_of;
    for (int size = (most + warp - 1) / warp * warp; size > 0; size -= warp) {
        int tried = size < most ? size : most, blocks;
        error = core_occupancy_blocks(context, function, tried, shared_of ? shared_of(tried) : shared, flags, &blocks);
        if (error)
            return error;
        if (blocks * tried > best) {
            best = blocks * tried;
            *block = tried;
            *grid = blocks * multiprocessors;
        }
    }
    return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int clusters(int *answer, CUfunction function, const CUlaunchConfig *config, bool size)
{
    struct core_launch_attribute attributes[DRIVER_LAUNCH_ATTRIBUTES];
    struct core_launch launch;
    core_context *context;
    int error = enter(function, &context);
    if (!error && !answer)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = driver_launch_read(config, function, 0, attributes, &launch);
    return error ? error : core_occupancy_clusters(context, &launch, size, answer);
}

CUresult driver_cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *config)
{
    return driver_waited(clusters(size, function, config, true));
}

CUresult driver_cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config)
{
    return driver_waited(clusters(count, function, config, false));
}

CUresult driver_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                            size_t shared)
{
    return driver_waited(max_blocks(blocks, function, block_size, shared, 0));
}

CUresult driver_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size,
                                                                     size_t shared, unsigned flags)
{
    return driver_waited(max_blocks(blocks, function, block_size, shared, flags));
}

CUresult driver_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize size_of,
                                                 size_t shared, int limit)
{
    return driver_waited(potential_block(grid, block, function, size_of, shared, limit, 0));
}

CUresult driver_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                          CUoccupancyB2DSize size_of, size_t shared, int limit,
                                                          unsigned flags)
{
    return driver_waited(potential_block(grid, block, function, size_of, shared, limit, flags));
}
