/* copy_plan.c: shapes of copies: what they touch, and which of the driver's functions does them. See copy_plan.h. */
#include "cpu/server/copy/copy_plan.h"

#include "cpu/server/memory/object.h"

/* What the client may not name stays an address, which side_known refuses. */
static bool array_side(struct session *session, uint64_t address, struct server_copy_side *side)
{
    struct object_place place;
    if (address < FLYT_ARRAY_SPACE || !object_place(session, KIND_ARRAY, address - FLYT_ARRAY_SPACE, &place))
        return false;
    *side = (struct server_copy_side){ .array = (CUarray)(uintptr_t)place.handle, .address = address,
                                       .x = place.x, .y = place.y, .z = place.z };
    return true;
}

struct server_copy_side copy_box(struct session *session, const flyt_box *box)
{
    struct server_copy_side side;
    if (array_side(session, box->address, &side))
        return side;
    return (struct server_copy_side){ .host = host_memory_here(session, box->address), .address = box->address,
                                      .pitch = box->pitch, .height = box->height };
}

struct server_copy_side copy_line(struct session *session, uint64_t address)
{
    return copy_box(session, &(flyt_box){ .address = address });
}

struct server_copy_side copy_packed(void) { return (struct server_copy_side){ .packed = true, .host = true }; }

struct server_copy_side copy_at(const void *memory, const flyt_extent *extent)
{
    return (struct server_copy_side){ .packed = true, .host = true, .address = (uint64_t)(uintptr_t)memory,
                               .pitch = extent->width, .height = extent->height };
}

flyt_extent copy_row(uint64_t bytes) { return (flyt_extent){ .width = bytes, .height = 1, .depth = 1 }; }

/* ---- checks ---- */

uint64_t copy_bytes(const flyt_extent *extent) { return extent->width * extent->height * extent->depth; }

bool copy_empty(const flyt_extent *extent) { return !extent->width || !extent->height || !extent->depth; }

bool copy_span(uint64_t pitch, uint64_t height, const flyt_extent *extent, uint64_t width, uint64_t *span)
{
    uint64_t rows, bytes;
    *span = width;
    if (extent->height == 1 && extent->depth == 1)
        return true;
    return pitch >= width && (extent->depth == 1 || height >= extent->height) &&
           !__builtin_mul_overflow(extent->depth - 1, height, &rows) &&
           !__builtin_add_overflow(rows, extent->height - 1, &rows) && !__builtin_mul_overflow(rows, pitch, &bytes) &&
           !__builtin_add_overflow(bytes, width, span);
}

static bool in_array(struct session *session, uint64_t address, const flyt_extent *extent)
{
    struct object_place place;
    return object_place(session, KIND_ARRAY, address - FLYT_ARRAY_SPACE, &place) &&
           extent->width <= place.shape.row - place.x && extent->height <= place.shape.height - place.y &&
           extent->depth <= place.shape.depth - place.z;
}

static bool side_known(struct session *session, const struct server_copy_side *side, const flyt_extent *extent)
{
    uint64_t span;
    if (side->array)
        return in_array(session, side->address, extent);
    return side->packed || (copy_span(side->pitch, side->height, extent, extent->width, &span) &&
                            memory_known(session, side->address, span));
}

static bool fits_packed(const flyt_extent *extent, uint64_t most)
{
    uint64_t bytes;
    return !__builtin_mul_overflow(extent->width, extent->height, &bytes) &&
           !__builtin_mul_overflow(bytes, extent->depth, &bytes) && bytes <= most;
}

CUresult copy_check(struct session *session, const struct server_copy *plan)
{
    return copy_check_within(session, plan, FLYT_MAX_INLINE);
}

CUresult copy_check_within(struct session *session, const struct server_copy *plan, uint64_t most)
{
    if ((plan->to.packed || plan->from.packed) && !fits_packed(&plan->extent, most))
        return CUDA_ERROR_INVALID_VALUE;
    if (copy_empty(&plan->extent))
        return CUDA_SUCCESS;
    return side_known(session, &plan->to, &plan->extent) && side_known(session, &plan->from, &plan->extent)
               ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the driver ---- */

static const struct context *side_context(struct session *session, const struct server_copy_side *side)
{
    struct object_place place;
    if (!side->array)
        return memory_context(session, side->address);
    return object_place(session, KIND_ARRAY, side->address - FLYT_ARRAY_SPACE, &place) ? place.context : NULL;
}

static CUmemorytype side_type(const struct server_copy_side *side)
{
    return side->array ? CU_MEMORYTYPE_ARRAY : side->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

/* Memory of two devices: the driver wants to know the contexts, since neither device may map the other's memory. */
static bool crosses(struct session *session, const struct server_copy *plan, CUcontext *to, CUcontext *from)
{
    if (plan->to.host || plan->from.host)
        return false;
    const struct context *target = side_context(session, &plan->to);
    const struct context *source = side_context(session, &plan->from);
    if (!target || !source || target->device == source->device)
        return false;
    *to = target->handle;
    *from = source->handle;
    return true;
}

static CUresult start_box(struct session *session, const struct server_copy *plan, CUstream stream)
{
    const struct server_copy_side *to = &plan->to, *from = &plan->from;
    const flyt_extent *extent = &plan->extent;
    CUDA_MEMCPY3D_PEER copy = {
        .srcXInBytes = from->x, .srcY = from->y, .srcZ = from->z,
        .srcMemoryType = side_type(from), .srcArray = from->array,
        .srcDevice = from->host || from->array ? 0 : from->address,
        .srcHost = from->host ? (const void *)(uintptr_t)from->address : NULL,
        .srcPitch = from->pitch < extent->width ? extent->width : from->pitch,
        .srcHeight = from->height < extent->height ? extent->height : from->height,
        .dstXInBytes = to->x, .dstY = to->y, .dstZ = to->z,
        .dstMemoryType = side_type(to), .dstArray = to->array,
        .dstDevice = to->host || to->array ? 0 : to->address,
        .dstHost = to->host ? (void *)(uintptr_t)to->address : NULL,
        .dstPitch = to->pitch < extent->width ? extent->width : to->pitch,
        .dstHeight = to->height < extent->height ? extent->height : to->height,
        .WidthInBytes = extent->width, .Height = extent->height, .Depth = extent->depth,
    };
    if (session->gpu->Memcpy3DPeerAsync && crosses(session, plan, &copy.dstContext, &copy.srcContext))
        return session->gpu->Memcpy3DPeerAsync(&copy, stream);
    CUDA_MEMCPY3D plain = {
        .srcXInBytes = from->x, .srcY = from->y, .srcZ = from->z, .srcMemoryType = copy.srcMemoryType,
        .srcDevice = copy.srcDevice, .srcHost = copy.srcHost, .srcArray = from->array,
        .srcPitch = copy.srcPitch, .srcHeight = copy.srcHeight,
        .dstXInBytes = to->x, .dstY = to->y, .dstZ = to->z, .dstMemoryType = copy.dstMemoryType,
        .dstDevice = copy.dstDevice, .dstHost = copy.dstHost, .dstArray = to->array,
        .dstPitch = copy.dstPitch, .dstHeight = copy.dstHeight,
        .WidthInBytes = copy.WidthInBytes, .Height = copy.Height, .Depth = copy.Depth,
    };
    return session->gpu->Memcpy3DAsync(&plain, stream);
}

CUresult copy_start(struct session *session, const struct server_copy *plan, CUstream stream)
{
    const struct gpu *gpu = session->gpu;
    uint64_t to = plan->to.address, from = plan->from.address, bytes = plan->extent.width;
    CUcontext target, source;
    if (plan->extent.height != 1 || plan->extent.depth != 1 || plan->to.array || plan->from.array ||
        (plan->to.host && plan->from.host))
        return start_box(session, plan, stream);
    if (plan->to.host)
        return gpu->MemcpyDtoHAsync((void *)(uintptr_t)to, from, bytes, stream);
    if (plan->from.host)
        return gpu->MemcpyHtoDAsync(to, (const void *)(uintptr_t)from, bytes, stream);
    if (gpu->MemcpyPeerAsync && crosses(session, plan, &target, &source))
        return gpu->MemcpyPeerAsync(to, target, from, source, bytes, stream);
    return gpu->MemcpyDtoDAsync(to, from, bytes, stream);
}
