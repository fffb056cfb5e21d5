/*
 * execution_old.c: chapter "Execution Control [DEPRECATED]", launches as they were before CUDA 4.0: a function keeps
 * the block's shape, its shared memory and its parameters until it is launched. PyCUDA still uses them. Texture
 * references are in texref.c.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/code/registry.h"
#include "cpu/client/driver/driver.h"

enum { PARAMETER_BYTES = 4096 };              /* the most that kernels had then */

/* What a function keeps; lives as long as the process, as the function does. */
struct kept_launch {
    unsigned block[3], shared, size;
    unsigned char parameters[PARAMETER_BYTES];
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry all;                   /* function -> kept; under lock */

/* Takes the lock if it returns 0. */
static int keep(core_function *function, struct kept_launch **out)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = driver_function(&context, function);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    struct kept_launch *kept = registry_find(&all, function);
    if (!kept && (kept = calloc(1, sizeof *kept))) {
        kept->block[0] = kept->block[1] = kept->block[2] = 1;
        if (!registry_set(&all, function, kept)) {
            free(kept);
            kept = NULL;
        }
    }
    if (!kept)
        pthread_mutex_unlock(&lock);
    *out = kept;
    return kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static int set_block(core_function *function, int x, int y, int z)
{
    struct kept_launch *kept;
    int error = keep(function, &kept);
    if (error)
        return error;
    if (x > 0 && y > 0 && z > 0) {
        kept->block[0] = (unsigned)x;
        kept->block[1] = (unsigned)y;
        kept->block[2] = (unsigned)z;
    } else {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static int set_shared(core_function *function, unsigned bytes)
{
    struct kept_launch *kept;
    int error = keep(function, &kept);
    if (error)
        return error;
    kept->shared = bytes;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static int set_size(core_function *function, unsigned bytes)
{
    struct kept_launch *kept;
    int error = keep(function, &kept);
    if (error)
        return error;
    if (bytes <= PARAMETER_BYTES)
        kept->size = bytes;
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return error;
}

static int set_parameter(core_function *function, int offset, const void *value, unsigned bytes)
{
    struct kept_launch *kept;
    int error = keep(function, &kept);
    if (error)
        return error;
    if (offset >= 0 && bytes <= PARAMETER_BYTES && (unsigned)offset <= PARAMETER_BYTES - bytes && (value || !bytes))
        memcpy(kept->parameters + offset, value ? value : "", bytes);
    else
        error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return error;
}

static CUresult launch(CUfunction function, int width, int height, CUstream stream)
{
    struct kept_launch *kept, now;
    int error = keep(function, &kept);
    if (error)
        return driver_local(error);
    now = *kept;
    pthread_mutex_unlock(&lock);
    if (width <= 0 || height <= 0)
        return driver_local(CUDA_ERROR_INVALID_VALUE);
    size_t size = now.size;
    /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END */
    void *extra[] = { (void *)1, now.parameters, (void *)2, &size, NULL };
    return driver_cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, now.block[0], now.block[1],
                                 now.block[2], now.shared, stream, NULL, size ? extra : NULL);
}

CUresult driver_cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
    return driver_local(set_block(function, x, y, z));
}

CUresult driver_cuFuncSetSharedSize(CUfunction function, unsigned bytes)
{
    return driver_local(set_shared(function, bytes));
}

CUresult driver_cuParamSetSize(CUfunction function, unsigned bytes) { return driver_local(set_size(function, bytes)); }

CUresult driver_cuParamSeti(CUfunction function, int offset, unsigned value)
{
    return driver_local(set_parameter(function, offset, &value, sizeof value));
}

CUresult driver_cuParamSetf(CUfunction function, int offset, float value)
{
    return driver_local(set_parameter(function, offset, &value, sizeof value));
}

CUresult driver_cuParamSetv(CUfunction function, int offset, void *from, unsigned bytes)
{
    return driver_local(set_parameter(function, offset, from, bytes));
}

CUresult driver_cuLaunch(CUfunction function) { return launch(function, 1, 1, 0); }

CUresult driver_cuLaunchGrid(CUfunction function, int width, int height)
{
    return launch(function, width, height, 0);
}

CUresult driver_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    return launch(function, width, height, stream);
}
