/* copy.c: copies of linear memory, and cudaMemcpy3D, of chapter "Memory Management". */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/array.h"

int runtime_copy(core_context *context, core_stream stream, void *to, const void *from, size_t size, int kind,
                 bool blocking)
{
    if (!size)
        return cudaSuccess; /* whatever else is said */
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    return issue_copy(context, stream, to, from, size, (enum core_direction)kind, blocking);
}

static int copy(void *to, const void *from, size_t size, int kind, core_stream stream, bool blocking)
{
    core_context *context;
    int error = runtime_enter_unless(!size, &context);
    if (!error)
        error = runtime_copy(context, stream, to, from, size, kind, blocking);
    return blocking ? runtime_waited(error) : runtime_return(error);
}

cudaError_t runtime_cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind)
{
    return copy(to, from, size, kind, 0, true);
}

cudaError_t runtime_cudaMemcpy_ptds(void *to, const void *from, size_t size, cudaMemcpyKind kind)
{
    return copy(to, from, size, kind, CORE_STREAM_PER_THREAD, true);
}

cudaError_t runtime_cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy(to, from, size, kind, stream, false);
}

/* ---- boxes: rows of rows ---- */

/* Rows that begin `pitch` apart, of which `width` bytes are meant. One row alone needs no pitch: 0. */
static bool pitch_fits(size_t pitch, size_t width, bool one_row)
{
    return (pitch >= width || (one_row && !pitch)) && pitch <= core_limits_of(runtime_current())->pitch;
}

bool runtime_is_kind(int kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

static int copy_box(core_context *context, core_stream stream, struct core_box *to, struct core_box *from,
                    const cudaExtent *extent, int kind, bool blocking)
{
    bool one_row = extent->height == 1 && extent->depth == 1;
    if (!runtime_is_kind(kind))
        return cudaErrorInvalidMemcpyDirection;
    if (!pitch_fits(to->pitch, extent->width, one_row) || !pitch_fits(from->pitch, extent->width, one_row))
        return cudaErrorInvalidValue;
    if (one_row)
        to->pitch = from->pitch = extent->width;
    const struct core_extent size = { extent->width, extent->height, extent->depth };
    return issue_copy_box(context, stream, to, from, &size, (enum core_direction)kind, blocking);
}

bool runtime_rows_fit(size_t pitch, size_t width, size_t height) { return height <= 1 || pitch >= width; }

static int copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                   int kind, core_stream stream, bool blocking)
{
    core_context *context;
    int error = runtime_enter_unless(!width || !height, &context);
    if (!error && width && height) {
        struct core_box target = { (uint64_t)(uintptr_t)to, to_pitch, height },
                        source = { (uint64_t)(uintptr_t)from, from_pitch, height };
        error = runtime_rows_fit(to_pitch, width, height) && runtime_rows_fit(from_pitch, width, height)
                    ? copy_box(context, stream, &target, &source, &(cudaExtent){ width, height, 1 }, kind, blocking)
                    : cudaErrorInvalidPitchValue;
    }
    return blocking ? runtime_waited(error) : runtime_return(error);
}

cudaError_t runtime_cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                 size_t height, cudaMemcpyKind kind)
{
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, 0, true);
}

cudaError_t runtime_cudaMemcpy2D_ptds(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                      size_t height, cudaMemcpyKind kind)
{
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, CORE_STREAM_PER_THREAD, true);
}

cudaError_t runtime_cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                      size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream, false);
}

/* Where a position in pitched memory is. One slice alone needs no ysize (0), as one row alone needs no pitch. */
static struct core_box box_at(const cudaPitchedPtr *memory, const cudaPos *position, const cudaExtent *extent)
{
    uint64_t base = (uint64_t)(uintptr_t)memory->ptr;
    size_t rows = memory->ysize ? memory->ysize : position->y + extent->height;
    size_t pitch = memory->pitch ? memory->pitch : position->x + extent->width;
    if (base)
        base += (position->z * rows + position->y) * pitch + position->x;
    return (struct core_box){ base, memory->pitch, rows };
}

/* A row must not run into the next. Several slices follow each other at ysize rows, so ysize must hold the rows that
   are copied. */
static bool region_fits(const cudaPitchedPtr *memory, const cudaPos *position, const cudaExtent *extent)
{
    if (extent->width > memory->pitch || position->x > memory->pitch - extent->width)
        return false;
    return extent->depth <= 1 || (extent->height <= memory->ysize && position->y <= memory->ysize - extent->height);
}

/* Nothing says how many slices there are. But where CUDA knows the memory, it also knows what a position leads to. */
static bool slice_fits(const cudaPitchedPtr *memory, size_t z)
{
    size_t slice, offset;
    struct core_range range;
    uint64_t base = (uint64_t)(uintptr_t)memory->ptr;
    if (!z)
        return true;
    return !__builtin_mul_overflow(memory->pitch, memory->ysize, &slice) &&
           !__builtin_mul_overflow(slice, z, &offset) && offset <= PTRDIFF_MAX &&
           (!core_address_lookup(base, &range) || core_address_lookup(base + offset, &range));
}

/* 0 of a stride: it bounds nothing. */
static bool position_fits(const cudaPitchedPtr *memory, const cudaPos *position, const cudaExtent *extent)
{
    return slice_fits(memory, position->z) &&
           (!memory->pitch || (extent->width <= memory->pitch && position->x <= memory->pitch - extent->width)) &&
           (!memory->ysize || (extent->height <= memory->ysize && position->y <= memory->ysize - extent->height));
}

int runtime_pitched_box(const cudaPitchedPtr *memory, const cudaPos *position, const cudaExtent *extent,
                        struct core_box *box)
{
    *box = box_at(memory, position, extent);
    return box->address && position_fits(memory, position, extent) ? cudaSuccess : cudaErrorInvalidValue;
}

int runtime_copy_fits(const cudaMemcpy3DParms *copy)
{
    const cudaExtent *extent = &copy->extent;
    if (!extent->width || !extent->height || !extent->depth || !region_fits(&copy->srcPtr, &copy->srcPos, extent) ||
        !region_fits(&copy->dstPtr, &copy->dstPos, extent))
        return cudaErrorInvalidValue;
    return pitch_fits(copy->dstPtr.pitch, extent->width, false) && pitch_fits(copy->srcPtr.pitch, extent->width, false)
               ? cudaSuccess
               : cudaErrorInvalidPitchValue;
}

bool runtime_strides_fit(const cudaPitchedPtr *memory, const cudaExtent *extent)
{
    bool rows = extent->height > 1 || extent->depth > 1, slices = extent->depth > 1;
    return !(rows && extent->width > memory->pitch) && !(slices && extent->height > memory->ysize);
}

/* As NVIDIA's runtime answers, which was tried with random boxes. */
static int volume_check(const cudaMemcpy3DParms *copy)
{
    const cudaExtent *extent = &copy->extent;
    for (int side = 0; side < 2; side++) {
        const cudaPitchedPtr *memory = side ? &copy->dstPtr : &copy->srcPtr;
        if (!memory->ptr)
            return cudaErrorInvalidValue;
        if (!runtime_strides_fit(memory, extent))
            return cudaErrorInvalidPitchValue;
    }
    return position_fits(&copy->srcPtr, &copy->srcPos, extent) && position_fits(&copy->dstPtr, &copy->dstPos, extent)
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

static int copy_3d(const cudaMemcpy3DParms *copy, core_stream stream, bool blocking)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!copy)
        return cudaErrorInvalidValue;
    if (!copy->extent.width || !copy->extent.height || !copy->extent.depth)
        return cudaSuccess;
    if (!runtime_is_kind(copy->kind))
        return cudaErrorInvalidMemcpyDirection;
    if (runtime_copy_has_array(copy)) {
        struct runtime_copy_sides sides;
        if ((error = runtime_copy_sides(copy, &sides)))
            return error;
        const cudaExtent bytes = { sides.extent.width, sides.extent.height, sides.extent.depth };
        int kind = (int)copy->kind;
        if (copy->dstArray && kind == cudaMemcpyHostToHost)
            kind = cudaMemcpyHostToDevice;
        if (copy->dstArray && kind == cudaMemcpyDeviceToHost)
            kind = cudaMemcpyDeviceToDevice;
        return copy_box(context, stream, &sides.to, &sides.from, &bytes, kind, blocking);
    }
    if ((error = volume_check(copy)))
        return error;
    struct core_box target = box_at(&copy->dstPtr, &copy->dstPos, &copy->extent),
                    source = box_at(&copy->srcPtr, &copy->srcPos, &copy->extent);
    return copy_box(context, stream, &target, &source, &copy->extent, copy->kind, blocking);
}

cudaError_t runtime_cudaMemcpy3D(const cudaMemcpy3DParms *parameters)
{
    return runtime_waited(copy_3d(parameters, 0, true));
}

cudaError_t runtime_cudaMemcpy3D_ptds(const cudaMemcpy3DParms *parameters)
{
    return runtime_waited(copy_3d(parameters, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpy3DAsync(const cudaMemcpy3DParms *parameters, cudaStream_t stream)
{
    return runtime_return(copy_3d(parameters, stream, false));
}

/* ---- between devices: addresses are unique in the process, but for variables at several GPU servers ---- */

static int check_devices(int first, int second)
{
    int error = runtime_attach_device(first);
    return error ? error : runtime_attach_device(second);
}

static int copy_peer(void *to, int to_device, const void *from, int from_device, size_t size, core_stream stream,
                     bool blocking)
{
    core_context *context;
    int error = check_devices(to_device, from_device);
    if (!error && !blocking && size && !(error = runtime_enter(&context)))
        error = issue_check_captured(context, stream); /* captures keep no such copy */
    if (error)
        return runtime_return(error);
    core_copy_between(core_context_primary(to_device), core_context_primary(from_device));
    error = copy(to, from, size, cudaMemcpyDeviceToDevice, stream, blocking);
    core_copy_between(NULL, NULL);
    return error;
}

static int copy_3d_peer(const cudaMemcpy3DPeerParms *peer, core_stream stream, bool blocking)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!peer)
        return cudaErrorInvalidValue;
    if ((error = check_devices(peer->dstDevice, peer->srcDevice)))
        return error;
    const cudaMemcpy3DParms plain = {
        peer->srcArray, peer->srcPos, peer->srcPtr, peer->dstArray,
        peer->dstPos,   peer->dstPtr, peer->extent, cudaMemcpyDefault,
    };
    core_copy_between(core_context_primary(peer->dstDevice), core_context_primary(peer->srcDevice));
    error = copy_3d(&plain, stream, blocking);
    core_copy_between(NULL, NULL);
    return error;
}

cudaError_t runtime_cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size)
{
    return copy_peer(to, to_device, from, from_device, size, 0, true);
}

cudaError_t runtime_cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size,
                                        cudaStream_t stream)
{
    return copy_peer(to, to_device, from, from_device, size, stream, false);
}

cudaError_t runtime_cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *parameters)
{
    return runtime_waited(copy_3d_peer(parameters, 0, true));
}

cudaError_t runtime_cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms *parameters)
{
    return runtime_waited(copy_3d_peer(parameters, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *parameters, cudaStream_t stream)
{
    return runtime_return(copy_3d_peer(parameters, stream, false));
}
