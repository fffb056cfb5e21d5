/*
 * execution.c: launches, of chapter "Execution Control". (The rest of the chapter is in function.c.) What native
 * checks at a launch is the core's to check. Nothing on this path allocates.
 */
#include <string.h>

#include "api/launch_attributes.h"
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

/* The second form of parameters: names and values in turn, up to a zero. */
enum { EXTRA_END = 0, EXTRA_POINTER = 1, EXTRA_SIZE = 2, EXTRA_MOST = 16 };

static int read_extra(void **extra, struct core_launch *launch)
{
    const size_t *size = NULL;
    for (int i = 0; extra[i] != (void *)EXTRA_END; i += 2) {
        if (i >= EXTRA_MOST)
            return CUDA_ERROR_INVALID_VALUE;
        if (extra[i] == (void *)EXTRA_POINTER)
            launch->packed = extra[i + 1];
        else if (extra[i] == (void *)EXTRA_SIZE)
            size = extra[i + 1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    launch->packed_size = size ? *size : 0;
    return !launch->packed == !size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Whether the stream is of another context of the same device, and the function a kernel of no context: then the launch
   goes there, as natively. */
static bool belongs_elsewhere(core_context **context, const struct core_launch *launch)
{
    struct core_stream_info stream;
    struct core_context_info current;
    if (launch->stream <= CORE_STREAM_PER_THREAD || !driver_function_is_kernel(launch->function) ||
        core_stream_info(*context, launch->stream, &stream) || stream.context == *context ||
        core_context_info(*context, &current) || stream.device != current.device)
        return false;
    *context = stream.context;
    return true;
}

/* launch comes with everything but the parameters. */
static int send(struct core_launch *launch, void **parameters, void **extra)
{
    core_context *context = NULL;
    int error = driver_enter(&context);
    core_context *current = context;
    if (!error)
        error = driver_function(&context, launch->function);
    if (!error && context != current && launch->stream <= CORE_STREAM_PER_THREAD)
        error = CUDA_ERROR_INVALID_HANDLE; /* a stream of the current context, and a function of another */
    if (!error && parameters && extra)
        error = CUDA_ERROR_INVALID_VALUE;
    launch->arguments = parameters;
    if (!error && extra)
        error = read_extra(extra, launch);
    if (error)
        return error;
    error = issue_launch(context, launch, NULL);
    if (error == CUDA_ERROR_INVALID_HANDLE && belongs_elsewhere(&context, launch))
        error = issue_launch(context, launch, NULL);
    if (error)
        return error;
    if (LIKELY(!driver_launches_block) || issue_is_captured(context, launch->stream))
        return CUDA_SUCCESS;
    error = core_stream_synchronize(context, launch->stream);
    return error ? error : core_take_latched();
}

CUresult driver_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                               void **extra)
{
    return (CUresult)send(&(struct core_launch){ .function = function,
                                                 .grid = { grid_x, grid_y, grid_z },
                                                 .block = { block_x, block_y, block_z },
                                                 .shared = shared,
                                                 .stream = stream },
                          parameters, extra);
}

CUresult driver_cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                          CUstream stream, void **parameters)
{
    return (CUresult)send(&(struct core_launch){ .function = function,
                                                 .grid = { grid_x, grid_y, grid_z },
                                                 .block = { block_x, block_y, block_z },
                                                 .shared = shared,
                                                 .stream = stream,
                                                 .cooperative = true },
                          parameters, NULL);
}

int driver_launch_read(const CUlaunchConfig *config, CUfunction function, core_stream default_stream,
                       struct core_launch_attribute attributes[DRIVER_LAUNCH_ATTRIBUTES], struct core_launch *launch)
{
    if (!config || config->numAttrs > DRIVER_LAUNCH_ATTRIBUTES || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    *launch = (struct core_launch){
        .function = function,
        .grid = { config->gridDimX, config->gridDimY, config->gridDimZ },
        .block = { config->blockDimX, config->blockDimY, config->blockDimZ },
        .shared = config->sharedMemBytes,
        .stream = config->hStream ? config->hStream : default_stream,
        .attributes = attributes,
    };
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_IGNORE)
            continue;
        if ((int)attribute->id < 0 || (int)attribute->id > LAUNCH_ATTRIBUTE_LAST)
            return CUDA_ERROR_INVALID_VALUE;
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            int cooperative;
            memcpy(&cooperative, attribute->value, sizeof cooperative);
            launch->cooperative = cooperative != 0;
            continue;
        }
        struct core_launch_attribute *kept = &attributes[launch->attribute_count++];
        kept->id = (int)attribute->id;
        memcpy(kept->value, attribute->value, sizeof kept->value);
    }
    return CUDA_SUCCESS;
}

static int launch_extended(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra,
                           core_stream default_stream)
{
    struct core_launch_attribute attributes[DRIVER_LAUNCH_ATTRIBUTES];
    struct core_launch launch;
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = driver_launch_read(config, function, default_stream, attributes, &launch);
    return error ? error : send(&launch, parameters, extra);
}

CUresult driver_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra,
                                 core_stream default_stream)
{
    return (CUresult)launch_extended(config, function, parameters, extra, default_stream);
}
