/* set.c: memset, of chapter "Memory Management". The value's lowest byte is what is written. */
#include "cpu/client/runtime/runtime.h"

static int set(const struct core_box *to, const struct cudart_extent *extent, int value, core_stream stream, bool blocking) {
    int device;
    struct runtime_limits space;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!extent->width || !extent->height || !extent->depth)
        return CUDART_OK;
    if (!to->address)
        return CUDART_INVALID_VALUE;
    if ((extent->height > 1 || extent->depth > 1) && (to->pitch < extent->width || to->pitch > runtime_limits(device, &space)->pitch))
        return CUDART_INVALID_VALUE;
    const struct core_extent size = {extent->width, extent->height, extent->depth};
    return core_set(device, stream, to, &size, (uint8_t)value, 1, blocking);
}

static int set_linear(void *pointer, int value, size_t count, core_stream stream, bool blocking) {
    return set(&(struct core_box){(uint64_t)(uintptr_t)pointer, count, 1}, &(struct cudart_extent){count, 1, 1}, value, stream, blocking);
}

static int set_2d(void *pointer, size_t pitch, int value, size_t width, size_t height, core_stream stream, bool blocking) {
    return set(&(struct core_box){(uint64_t)(uintptr_t)pointer, pitch, height}, &(struct cudart_extent){width, height, 1}, value, stream, blocking);
}

static int set_3d(struct cudart_pitched memory, int value, struct cudart_extent extent, core_stream stream, bool blocking) {
    if (extent.depth > 1 && extent.height > memory.ysize)
        return CUDART_INVALID_VALUE;
    return set(&(struct core_box){(uint64_t)(uintptr_t)memory.pointer, memory.pitch, memory.ysize}, &extent, value, stream, blocking);
}

RUNTIME_API int cudaMemset(void *pointer, int value, size_t count) { return runtime_waited(set_linear(pointer, value, count, 0, true)); }
RUNTIME_API int cudaMemset_ptds(void *pointer, int value, size_t count) { return runtime_waited(set_linear(pointer, value, count, CORE_STREAM_PER_THREAD, true)); }
RUNTIME_API int cudaMemsetAsync(void *pointer, int value, size_t count, core_stream stream) { return runtime_return(set_linear(pointer, value, count, stream, false)); }
RUNTIME_API int cudaMemsetAsync_ptsz(void *pointer, int value, size_t count, core_stream stream) {
    return runtime_return(set_linear(pointer, value, count, runtime_per_thread(stream), false));
}
RUNTIME_API int cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height) { return runtime_waited(set_2d(pointer, pitch, value, width, height, 0, true)); }
RUNTIME_API int cudaMemset2D_ptds(void *pointer, size_t pitch, int value, size_t width, size_t height) {
    return runtime_waited(set_2d(pointer, pitch, value, width, height, CORE_STREAM_PER_THREAD, true));
}
RUNTIME_API int cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height, core_stream stream) {
    return runtime_return(set_2d(pointer, pitch, value, width, height, stream, false));
}
RUNTIME_API int cudaMemset2DAsync_ptsz(void *pointer, size_t pitch, int value, size_t width, size_t height, core_stream stream) {
    return runtime_return(set_2d(pointer, pitch, value, width, height, runtime_per_thread(stream), false));
}
RUNTIME_API int cudaMemset3D(struct cudart_pitched memory, int value, struct cudart_extent extent) { return runtime_waited(set_3d(memory, value, extent, 0, true)); }
RUNTIME_API int cudaMemset3D_ptds(struct cudart_pitched memory, int value, struct cudart_extent extent) {
    return runtime_waited(set_3d(memory, value, extent, CORE_STREAM_PER_THREAD, true));
}
RUNTIME_API int cudaMemset3DAsync(struct cudart_pitched memory, int value, struct cudart_extent extent, core_stream stream) {
    return runtime_return(set_3d(memory, value, extent, stream, false));
}
RUNTIME_API int cudaMemset3DAsync_ptsz(struct cudart_pitched memory, int value, struct cudart_extent extent, core_stream stream) {
    return runtime_return(set_3d(memory, value, extent, runtime_per_thread(stream), false));
}
