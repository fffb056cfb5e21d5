/* set.c: memset, of chapter "Memory Management". The value's lowest byte is what is written. */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

static int set(const struct core_box *to, const cudaExtent *extent, int value, core_stream stream, bool blocking)
{
    core_context *context;
    bool nothing = !extent->width || !extent->height || !extent->depth;
    int error = runtime_enter_unless(nothing, &context);
    if (error || nothing)
        return error;
    if (!to->address)
        return cudaErrorInvalidValue;
    if ((extent->height > 1 || extent->depth > 1) &&
        (to->pitch < extent->width || to->pitch > core_limits_of(runtime_current())->pitch))
        return cudaErrorInvalidValue;
    const struct core_extent size = { extent->width, extent->height, extent->depth };
    return issue_set(context, stream, to, &size, (uint8_t)value, 1, blocking);
}

static int set_linear(void *pointer, int value, size_t count, core_stream stream, bool blocking)
{
    return set(&(struct core_box){ (uint64_t)(uintptr_t)pointer, count, 1 }, &(cudaExtent){ count, 1, 1 }, value,
               stream, blocking);
}

static int set_2d(void *pointer, size_t pitch, int value, size_t width, size_t height, core_stream stream,
                  bool blocking)
{
    return set(&(struct core_box){ (uint64_t)(uintptr_t)pointer, pitch, height }, &(cudaExtent){ width, height, 1 },
               value, stream, blocking);
}

static int set_3d(cudaPitchedPtr memory, int value, cudaExtent extent, core_stream stream, bool blocking)
{
    if (extent.width && extent.depth && extent.height > memory.ysize)
        return cudaErrorInvalidValue;
    return set(&(struct core_box){ (uint64_t)(uintptr_t)memory.ptr, memory.pitch, memory.ysize }, &extent, value,
               stream, blocking);
}

cudaError_t runtime_cudaMemset(void *pointer, int value, size_t count)
{
    return runtime_waited(set_linear(pointer, value, count, 0, true));
}

cudaError_t runtime_cudaMemset_ptds(void *pointer, int value, size_t count)
{
    return runtime_waited(set_linear(pointer, value, count, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemsetAsync(void *pointer, int value, size_t count, cudaStream_t stream)
{
    return runtime_return(set_linear(pointer, value, count, stream, false));
}

cudaError_t runtime_cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height)
{
    return runtime_waited(set_2d(pointer, pitch, value, width, height, 0, true));
}

cudaError_t runtime_cudaMemset2D_ptds(void *pointer, size_t pitch, int value, size_t width, size_t height)
{
    return runtime_waited(set_2d(pointer, pitch, value, width, height, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height,
                                      cudaStream_t stream)
{
    return runtime_return(set_2d(pointer, pitch, value, width, height, stream, false));
}

cudaError_t runtime_cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent)
{
    return runtime_waited(set_3d(memory, value, extent, 0, true));
}

cudaError_t runtime_cudaMemset3D_ptds(cudaPitchedPtr memory, int value, cudaExtent extent)
{
    return runtime_waited(set_3d(memory, value, extent, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent extent, cudaStream_t stream)
{
    return runtime_return(set_3d(memory, value, extent, stream, false));
}
