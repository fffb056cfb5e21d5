/*
 * execution.c: launches, of chapter "Execution Control". (The configuration stack of `<<<>>>` is in state.c, the rest
 * of the chapter in function.c.)
 *
 * Dimensions are checked here for programs of CUDA 11 and 12, because NVIDIA's runtimes of 11.8 to 12.9 answer 9 for
 * what the driver calls an invalid value (1); that of 13.0 passes the driver's answer on. What depends on the kernel
 * itself is the core's to check. Nothing on this path allocates or locks.
 */
#include "api/launch_attributes.h"
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

static bool dimensions_fit(const dim3 *grid, const dim3 *block)
{
    const struct core_limits *limits = core_limits_of(runtime_current());
    if (!grid->x || !grid->y || !grid->z || !block->x || !block->y || !block->z)
        return false;
    if (grid->x > limits->grid[0] || grid->y > limits->grid[1] || grid->z > limits->grid[2])
        return false;
    if (block->x > limits->block[0] || block->y > limits->block[1] || block->z > limits->block[2])
        return false;
    return (uint64_t)block->x * block->y * block->z <= limits->threads; /* each at most 1024: no overflow */
}

/* For the log of errors. */
static __attribute__((cold, noinline)) int dimensions_wrong(const dim3 *grid, const dim3 *block)
{
    const struct core_limits *limits = core_limits_of(runtime_current());
    core_log(CORE_LOG_ERROR,
             "A grid of (%u,%u,%u) blocks of (%u,%u,%u) threads is impossible: at most (%u,%u,%u), (%u,%u,%u) and %u "
             "threads per block", grid->x, grid->y, grid->z, block->x, block->y, block->z, limits->grid[0],
             limits->grid[1], limits->grid[2], limits->block[0], limits->block[1], limits->block[2], limits->threads);
    return cudaErrorInvalidConfiguration;
}

/* CUDA_LAUNCH_BLOCKING=1: a launch returns when the kernel has ended, with its error. */
static bool launches_block;

void runtime_read_launch_blocking(void)
{
    const char *text = getenv("CUDA_LAUNCH_BLOCKING");
    launches_block = text && atoi(text) != 0;
}

static inline __attribute__((always_inline)) int launch_in(core_context *context, const void *key, dim3 grid,
                                                           dim3 block, struct core_launch *launch)
{
    int error = runtime_function(key, &launch->function);
    if (FLYT_CUDART < 13 && !error && !dimensions_fit(&grid, &block))
        error = dimensions_wrong(&grid, &block);
    if (error)
        return error;
    launch->grid[0] = grid.x, launch->grid[1] = grid.y, launch->grid[2] = grid.z;
    launch->block[0] = block.x, launch->block[1] = block.y, launch->block[2] = block.z;
    return issue_launch(context, launch, key);
}

/* Whether the stream is of another context of the same device: then the launch goes there, as natively, where a kernel
   belongs to no context. */
static bool belongs_elsewhere(core_context **context, core_stream stream)
{
    struct core_stream_info info;
    if (stream <= CORE_STREAM_PER_THREAD || core_stream_info(*context, stream, &info) || info.context == *context ||
        info.device != runtime_current())
        return false;
    *context = info.context;
    return true;
}

/* `launch` comes with everything but function, grid and block. core_launch finds out by itself whether the thread's
   context can be used: so that is asked only of a launch that fails, whose error may be another one then. */
static int launch(const void *key, dim3 grid, dim3 block, struct core_launch *launch)
{
    core_context *context = runtime_context();
    int error = LIKELY(context != NULL) ? launch_in(context, key, grid, block, launch) : CORE_CONTEXT_DESTROYED;
    if (UNLIKELY(error)) {
        int entered = runtime_enter(&context);
        error = entered                           ? entered
                : error == CORE_CONTEXT_DESTROYED ? launch_in(context, key, grid, block, launch)
                                                  : error;
        if (error == cudaErrorInvalidResourceHandle && belongs_elsewhere(&context, launch->stream))
            error = launch_in(context, key, grid, block, launch);
    }
    if (LIKELY(!launches_block) || issue_is_captured(context, launch->stream))
        return runtime_return(error);
    return runtime_waited(error ? error : core_stream_synchronize(context, launch->stream));
}

cudaError_t runtime_cudaLaunchKernel(const void *key, dim3 grid, dim3 block, void **arguments, size_t shared,
                                     cudaStream_t stream)
{
    return launch(key, grid, block,
                  &(struct core_launch){ .arguments = arguments, .shared = shared, .stream = stream });
}

#if FLYT_CUDART >= 12
/* `kernel` is the handle that __cudaGetKernel gave. */
cudaError_t runtime___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                       cudaStream_t stream)
{
    return launch(kernel, grid, block,
                  &(struct core_launch){ .arguments = arguments, .shared = shared, .stream = stream });
}
#endif

cudaError_t runtime_cudaLaunchCooperativeKernel(const void *key, dim3 grid, dim3 block, void **arguments, size_t shared,
                                                cudaStream_t stream)
{
    return launch(
        key, grid, block,
        &(struct core_launch){ .arguments = arguments, .shared = shared, .stream = stream, .cooperative = true });
}

int runtime_launch_read(const cudaLaunchConfig_t *config, struct core_launch_attribute *attributes,
                        struct core_launch *launch)
{
    if (!config || config->numAttrs > RUNTIME_LAUNCH_ATTRIBUTES || (config->numAttrs && !config->attrs))
        return cudaErrorInvalidValue;
    *launch = (struct core_launch){
        .shared = config->dynamicSmemBytes, .stream = config->stream, .attributes = attributes,
        .grid = { config->gridDim.x, config->gridDim.y, config->gridDim.z },
        .block = { config->blockDim.x, config->blockDim.y, config->blockDim.z },
    };
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == cudaLaunchAttributeIgnore)
            continue;
        if ((int)attribute->id < 0 || (int)attribute->id > LAUNCH_ATTRIBUTE_LAST)
            return cudaErrorInvalidValue;
        if (attribute->id == cudaLaunchAttributeCooperative) {
            int cooperative;
            memcpy(&cooperative, &attribute->val, sizeof cooperative);
            launch->cooperative = cooperative != 0;
            continue;
        }
        struct core_launch_attribute *copy = &attributes[launch->attribute_count++];
        copy->id = (int)attribute->id;
        memcpy(copy->value, &attribute->val, sizeof copy->value);
    }
    return CORE_OK;
}

static int launch_extended(const cudaLaunchConfig_t *config, const void *key, void **arguments, bool per_thread)
{
    core_context *context;
    struct core_launch_attribute attributes[RUNTIME_LAUNCH_ATTRIBUTES];
    struct core_launch extended;
    int error = runtime_enter(&context);
    if (!error)
        error = runtime_launch_read(config, attributes, &extended);
    if (error)
        return runtime_return(error);
    extended.arguments = arguments;
    if (per_thread)
        extended.stream = runtime_per_thread(config->stream);
    return launch(key, config->gridDim, config->blockDim, &extended);
}

cudaError_t runtime_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *key, void **arguments)
{
    return launch_extended(config, key, arguments, false);
}

cudaError_t runtime_cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *key, void **arguments)
{
    return launch_extended(config, key, arguments, true);
}
