/* occupancy.c: chapter "Occupancy". The core computes from what came with the kernel's image. */
#include "cpu/client/runtime/runtime.h"

#include "api/forward/core.h"

enum { OCCUPANCY_FLAGS_KNOWN = 1 };

static int max_blocks(int *blocks, const void *key, int block_size, size_t shared, unsigned flags)
{
    core_context *context;
    core_function *function;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!blocks || block_size <= 0 || flags & ~(unsigned)OCCUPANCY_FLAGS_KNOWN)
        return cudaErrorInvalidValue;
    return (error = runtime_function(key, &function))
               ? error
               : core_occupancy_blocks(context, function, block_size, shared, flags, blocks);
}

static int available_shared(size_t *shared, const void *key, int blocks, int block_size)
{
    core_context *context;
    core_function *function;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!shared || blocks <= 0 || block_size <= 0)
        return cudaErrorInvalidValue;
    return (error = runtime_function(key, &function))
               ? error
               : core_occupancy_available_dynamic_smem_per_block(context, shared, function, blocks, block_size);
}

static int clusters(int *answer, const void *key, const cudaLaunchConfig_t *config, bool size)
{
    struct core_launch_attribute attributes[RUNTIME_LAUNCH_ATTRIBUTES];
    struct core_launch launch;
    core_context *context;
    core_function *function;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!answer)
        return cudaErrorInvalidValue;
    if ((error = runtime_function(key, &function)) || (error = runtime_launch_read(config, attributes, &launch)))
        return error;
    launch.function = function;
    return core_occupancy_clusters(context, &launch, size, answer);
}

cudaError_t runtime_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *key, int block_size,
                                                                  size_t shared)
{
    return runtime_waited(max_blocks(blocks, key, block_size, shared, 0));
}

cudaError_t runtime_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *key, int block_size,
                                                                           size_t shared, unsigned flags)
{
    return runtime_waited(max_blocks(blocks, key, block_size, shared, flags));
}

cudaError_t runtime_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *key, int blocks,
                                                              int block_size)
{
    return runtime_waited(available_shared(shared, key, blocks, block_size));
}

cudaError_t runtime_cudaOccupancyMaxPotentialClusterSize(int *size, const void *key, const cudaLaunchConfig_t *config)
{
    return runtime_waited(clusters(size, key, config, true));
}

cudaError_t runtime_cudaOccupancyMaxActiveClusters(int *count, const void *key, const cudaLaunchConfig_t *config)
{
    return runtime_waited(clusters(count, key, config, false));
}
