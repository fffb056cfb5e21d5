/* copy_plan.c: shapes of copies: what they touch, and which of the driver's functions does them. See copy_plan.h. */
#include "cpu/server/copy_plan.h"

struct server_copy_side copy_box(const struct session *session, const flyt_box *box)
{
    return (struct server_copy_side){ .host = host_memory_here(session, box->address), .address = box->address,
                               .pitch = box->pitch, .height = box->height };
}

struct server_copy_side copy_line(const struct session *session, uint64_t address)
{
    return (struct server_copy_side){ .host = host_memory_here(session, address), .address = address };
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

static bool side_known(struct session *session, const struct server_copy_side *side, const flyt_extent *extent)
{
    uint64_t span;
    return side->packed || (copy_span(side->pitch, side->height, extent, extent->width, &span) &&
                            memory_known(session, side->address, span));
}

static bool fits_packed(const flyt_extent *extent)
{
    uint64_t bytes;
    return !__builtin_mul_overflow(extent->width, extent->height, &bytes) &&
           !__builtin_mul_overflow(bytes, extent->depth, &bytes) && bytes <= FLYT_MAX_INLINE;
}

CUresult copy_check(struct session *session, const struct server_copy *plan)
{
    if ((plan->to.packed || plan->from.packed) && !fits_packed(&plan->extent))
        return CUDA_ERROR_INVALID_VALUE;
    if (copy_empty(&plan->extent))
        return CUDA_SUCCESS;
    return side_known(session, &plan->to, &plan->extent) && side_known(session, &plan->from, &plan->extent)
               ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the driver ---- */

/* Memory of two devices: the driver wants to know the contexts, since neither device may map the other's memory. */
static bool crosses(struct session *session, const struct server_copy *plan, CUcontext *to, CUcontext *from)
{
    if (plan->to.host || plan->from.host)
        return false;
    const struct context *target = memory_context(session, plan->to.address);
    const struct context *source = memory_context(session, plan->from.address);
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
        .srcMemoryType = from->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcDevice = from->host ? 0 : from->address,
        .srcHost = from->host ? (const void *)(uintptr_t)from->address : NULL,
        .srcPitch = from->pitch < extent->width ? extent->width : from->pitch,
        .srcHeight = from->height < extent->height ? extent->height : from->height,
        .dstMemoryType = to->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstDevice = to->host ? 0 : to->address,
        .dstHost = to->host ? (void *)(uintptr_t)to->address : NULL,
        .dstPitch = to->pitch < extent->width ? extent->width : to->pitch,
        .dstHeight = to->height < extent->height ? extent->height : to->height,
        .WidthInBytes = extent->width, .Height = extent->height, .Depth = extent->depth,
    };
    if (session->gpu->Memcpy3DPeerAsync && crosses(session, plan, &copy.dstContext, &copy.srcContext))
        return session->gpu->Memcpy3DPeerAsync(&copy, stream);
    CUDA_MEMCPY3D plain = {
        .srcMemoryType = copy.srcMemoryType, .srcDevice = copy.srcDevice, .srcHost = copy.srcHost,
        .srcPitch = copy.srcPitch, .srcHeight = copy.srcHeight, .dstMemoryType = copy.dstMemoryType,
        .dstDevice = copy.dstDevice, .dstHost = copy.dstHost, .dstPitch = copy.dstPitch, .dstHeight = copy.dstHeight,
        .WidthInBytes = copy.WidthInBytes, .Height = copy.Height, .Depth = copy.Depth,
    };
    return session->gpu->Memcpy3DAsync(&plain, stream);
}

CUresult copy_start(struct session *session, const struct server_copy *plan, CUstream stream)
{
    const struct gpu *gpu = session->gpu;
    uint64_t to = plan->to.address, from = plan->from.address, bytes = plan->extent.width;
    CUcontext target, source;
    if (plan->extent.height != 1 || plan->extent.depth != 1 || (plan->to.host && plan->from.host))
        return start_box(session, plan, stream);
    if (plan->to.host)
        return gpu->MemcpyDtoHAsync((void *)(uintptr_t)to, from, bytes, stream);
    if (plan->from.host)
        return gpu->MemcpyHtoDAsync(to, (const void *)(uintptr_t)from, bytes, stream);
    if (gpu->MemcpyPeerAsync && crosses(session, plan, &target, &source))
        return gpu->MemcpyPeerAsync(to, target, from, source, bytes, stream);
    return gpu->MemcpyDtoDAsync(to, from, bytes, stream);
}
