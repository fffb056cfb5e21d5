/*
 * copy.c: copies of linear memory, of chapter "Memory Management".
 *
 * The kind is the program's statement about the two pointers; with unified addressing the address says what is true.
 * So each copy is sent the way its addresses ask for, after a check that the statement does not contradict them: what
 * would read device memory through a host pointer is 1, as natively, and not a crash of the program.
 */
#include "cpu/client/runtime/runtime.h"

enum place { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE };

static enum place place_of(const void *pointer) {
    struct core_range range;
    if (!core_address_lookup((uint64_t)(uintptr_t)pointer, &range) || range.kind == CORE_UNKNOWN_MEMORY)
        return PLACE_PAGEABLE;
    return range.kind == CORE_DEVICE_MEMORY ? PLACE_DEVICE : PLACE_PINNED;
}

/* Whether a pointer may stand where the kind says "host" or "device". Pinned memory is addressable from both sides. */
static bool fits_host(enum place place) { return place != PLACE_DEVICE; }
static bool fits_device(enum place place) { return place != PLACE_PAGEABLE; }

/* The route of a copy, as one of the four explicit kinds. */
static int route(const void *to, const void *from, int kind, enum cudart_copy_kind *out) {
    if (kind < CUDART_HOST_TO_HOST || kind > CUDART_COPY_DEFAULT)
        return CUDART_INVALID_DIRECTION;
    if (!to || !from)
        return CUDART_INVALID_VALUE;
    enum place target = place_of(to), source = place_of(from);
    bool to_host = kind == CUDART_HOST_TO_HOST || kind == CUDART_DEVICE_TO_HOST;
    bool from_host = kind == CUDART_HOST_TO_HOST || kind == CUDART_HOST_TO_DEVICE;
    if (kind != CUDART_COPY_DEFAULT) {
        if (!(to_host ? fits_host(target) : fits_device(target)) || !(from_host ? fits_host(source) : fits_device(source)))
            return CUDART_INVALID_VALUE;
    }
    bool target_on_device = target == PLACE_DEVICE, source_on_device = source == PLACE_DEVICE;
    *out = target_on_device ? (source_on_device ? CUDART_DEVICE_TO_DEVICE : CUDART_HOST_TO_DEVICE)
                            : (source_on_device ? CUDART_DEVICE_TO_HOST : CUDART_HOST_TO_HOST);
    return CUDART_OK;
}

int runtime_copy(int device, core_stream stream, void *to, const void *from, size_t size, int kind, bool blocking) {
    enum cudart_copy_kind way;
    if (kind < CUDART_HOST_TO_HOST || kind > CUDART_COPY_DEFAULT)
        return CUDART_INVALID_DIRECTION;
    if (size == 0)
        return CUDART_OK;
    int error = route(to, from, kind, &way);
    if (error)
        return error;
    uint64_t target = (uint64_t)(uintptr_t)to, source = (uint64_t)(uintptr_t)from;
    switch (way) {
    case CUDART_HOST_TO_DEVICE:
        return core_copy_in(device, stream, target, from, size, blocking);
    case CUDART_DEVICE_TO_HOST:
        return core_copy_out(device, stream, to, source, size, blocking);
    case CUDART_DEVICE_TO_DEVICE:
        return core_copy(device, stream, target, source, size, blocking);
    default:
        return core_copy_host(device, stream, to, from, size, blocking);
    }
}

static int copy(void *to, const void *from, size_t size, int kind, core_stream stream, bool blocking) {
    int device;
    int error = runtime_enter(&device);
    if (!error)
        error = runtime_copy(device, stream, to, from, size, kind, blocking);
    return blocking ? runtime_waited(error) : runtime_return(error);
}

RUNTIME_API int cudaMemcpy(void *to, const void *from, size_t size, int kind) { return copy(to, from, size, kind, 0, true); }
RUNTIME_API int cudaMemcpy_ptds(void *to, const void *from, size_t size, int kind) { return copy(to, from, size, kind, CORE_STREAM_PER_THREAD, true); }
RUNTIME_API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, core_stream stream) { return copy(to, from, size, kind, stream, false); }
RUNTIME_API int cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, int kind, core_stream stream) {
    return copy(to, from, size, kind, runtime_per_thread(stream), false);
}

/* ---- boxes: rows of rows ---- */

/* Rows that begin `pitch` apart, of which `width` bytes are meant. */
static bool pitch_fits(int device, size_t pitch, size_t width) {
    struct runtime_limits space;
    return pitch >= width && pitch <= runtime_limits(device, &space)->pitch;
}

/* Host to host moves one row after the other: the core's box copies have a device on one side at least. */
static int copy_host_rows(int device, core_stream stream, const struct core_box *to, const struct core_box *from, const struct core_extent *extent, bool blocking) {
    for (size_t z = 0; z < extent->depth; z++)
        for (size_t y = 0; y < extent->height; y++) {
            uintptr_t target = (uintptr_t)(to->address + (z * to->height + y) * to->pitch);
            uintptr_t source = (uintptr_t)(from->address + (z * from->height + y) * from->pitch);
            int error = core_copy_host(device, stream, (void *)target, (const void *)source, extent->width, blocking);
            if (error)
                return error;
        }
    return CUDART_OK;
}

static int copy_box(int device, core_stream stream, const struct core_box *to, const struct core_box *from, const struct cudart_extent *extent, int kind, bool blocking) {
    enum cudart_copy_kind way;
    if (kind < CUDART_HOST_TO_HOST || kind > CUDART_COPY_DEFAULT)
        return CUDART_INVALID_DIRECTION;
    if (!extent->width || !extent->height || !extent->depth)
        return CUDART_OK;
    if (!pitch_fits(device, to->pitch, extent->width) || !pitch_fits(device, from->pitch, extent->width))
        return CUDART_INVALID_PITCH;
    int error = route((void *)(uintptr_t)to->address, (const void *)(uintptr_t)from->address, kind, &way);
    if (error)
        return error;
    const struct core_extent size = {extent->width, extent->height, extent->depth};
    switch (way) {
    case CUDART_HOST_TO_DEVICE:
        return core_copy_box_in(device, stream, to, from, &size, blocking);
    case CUDART_DEVICE_TO_HOST:
        return core_copy_box_out(device, stream, to, from, &size, blocking);
    case CUDART_DEVICE_TO_DEVICE:
        return core_copy_box(device, stream, to, from, &size, blocking);
    default:
        return copy_host_rows(device, stream, to, from, &size, blocking);
    }
}

static int copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, core_stream stream, bool blocking) {
    int device;
    int error = runtime_enter(&device);
    if (!error) {
        const struct core_box target = {(uint64_t)(uintptr_t)to, to_pitch, height}, source = {(uint64_t)(uintptr_t)from, from_pitch, height};
        error = copy_box(device, stream, &target, &source, &(struct cudart_extent){width, height, 1}, kind, blocking);
    }
    return blocking ? runtime_waited(error) : runtime_return(error);
}

RUNTIME_API int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind) {
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, 0, true);
}
RUNTIME_API int cudaMemcpy2D_ptds(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind) {
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, CORE_STREAM_PER_THREAD, true);
}
RUNTIME_API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, core_stream stream) {
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream, false);
}
RUNTIME_API int cudaMemcpy2DAsync_ptsz(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, core_stream stream) {
    return copy_2d(to, to_pitch, from, from_pitch, width, height, kind, runtime_per_thread(stream), false);
}

/* Where a position in pitched memory is. */
static struct core_box box_at(const struct cudart_pitched *memory, const struct cudart_position *position) {
    uint64_t base = (uint64_t)(uintptr_t)memory->pointer;
    if (base)
        base += (position->z * memory->ysize + position->y) * memory->pitch + position->x;
    return (struct core_box){base, memory->pitch, memory->ysize};
}

/* A row must not run into the next. Several slices follow each other at ysize rows, so ysize must hold the rows that
   are copied. */
static bool region_fits(const struct cudart_pitched *memory, const struct cudart_position *position, const struct cudart_extent *extent) {
    if (extent->width <= memory->pitch && position->x > memory->pitch - extent->width)
        return false;                               /* a pitch below the width is told as that, later */
    return extent->depth <= 1 || (extent->height <= memory->ysize && position->y <= memory->ysize - extent->height);
}

static int copy_3d(const struct cudart_copy_3d *copy, core_stream stream, bool blocking) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!copy)
        return CUDART_INVALID_VALUE;
    if (copy->source_array || copy->target_array) {
        core_unsupported("cudaMemcpy3D with a cudaArray");
        return CUDART_NOT_SUPPORTED;
    }
    if (copy->extent.width && copy->extent.height && copy->extent.depth &&
        (!region_fits(&copy->source, &copy->source_position, &copy->extent) || !region_fits(&copy->target, &copy->target_position, &copy->extent)))
        return CUDART_INVALID_VALUE;
    const struct core_box target = box_at(&copy->target, &copy->target_position), source = box_at(&copy->source, &copy->source_position);
    return copy_box(device, stream, &target, &source, &copy->extent, copy->kind, blocking);
}

RUNTIME_API int cudaMemcpy3D(const struct cudart_copy_3d *parameters) { return runtime_waited(copy_3d(parameters, 0, true)); }
RUNTIME_API int cudaMemcpy3D_ptds(const struct cudart_copy_3d *parameters) { return runtime_waited(copy_3d(parameters, CORE_STREAM_PER_THREAD, true)); }
RUNTIME_API int cudaMemcpy3DAsync(const struct cudart_copy_3d *parameters, core_stream stream) { return runtime_return(copy_3d(parameters, stream, false)); }
RUNTIME_API int cudaMemcpy3DAsync_ptsz(const struct cudart_copy_3d *parameters, core_stream stream) {
    return runtime_return(copy_3d(parameters, runtime_per_thread(stream), false));
}

/* ---- between devices: addresses are unique in the process, so the ordinals are only checked ---- */

static int check_devices(int first, int second) {
    int error = runtime_attach_device(first);
    return error ? error : runtime_attach_device(second);
}

static int copy_peer(void *to, int to_device, const void *from, int from_device, size_t size, core_stream stream, bool blocking) {
    int error = check_devices(to_device, from_device);
    return error ? runtime_return(error) : copy(to, from, size, CUDART_COPY_DEFAULT, stream, blocking);
}

static int copy_3d_peer(const struct cudart_copy_3d_peer *peer, core_stream stream, bool blocking) {
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!peer)
        return CUDART_INVALID_VALUE;
    if ((error = check_devices(peer->target_device, peer->source_device)))
        return error;
    const struct cudart_copy_3d plain = {
        peer->source_array, peer->source_position, peer->source, peer->target_array, peer->target_position, peer->target, peer->extent, CUDART_COPY_DEFAULT,
    };
    return copy_3d(&plain, stream, blocking);
}

RUNTIME_API int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size) {
    return copy_peer(to, to_device, from, from_device, size, 0, true);
}
RUNTIME_API int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, core_stream stream) {
    return copy_peer(to, to_device, from, from_device, size, stream, false);
}
RUNTIME_API int cudaMemcpy3DPeer(const struct cudart_copy_3d_peer *parameters) { return runtime_waited(copy_3d_peer(parameters, 0, true)); }
RUNTIME_API int cudaMemcpy3DPeer_ptds(const struct cudart_copy_3d_peer *parameters) { return runtime_waited(copy_3d_peer(parameters, CORE_STREAM_PER_THREAD, true)); }
RUNTIME_API int cudaMemcpy3DPeerAsync(const struct cudart_copy_3d_peer *parameters, core_stream stream) { return runtime_return(copy_3d_peer(parameters, stream, false)); }
RUNTIME_API int cudaMemcpy3DPeerAsync_ptsz(const struct cudart_copy_3d_peer *parameters, core_stream stream) {
    return runtime_return(copy_3d_peer(parameters, runtime_per_thread(stream), false));
}
