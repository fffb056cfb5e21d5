/* set.c: memset of lines and boxes. */
#include "cpu/server/copy/copy_plan.h"

enum { SET_MAX_SLICES = 65536 };

static CUresult set_row(const struct gpu *gpu, const set_args *args, CUstream stream)
{
    uint64_t to = args->to.address, width = args->extent.width;
    switch (args->element) {
    case 1: return gpu->MemsetD8Async(to, (unsigned char)args->value, width, stream);
    case 2: return gpu->MemsetD16Async(to, (unsigned short)args->value, width, stream);
    default: return gpu->MemsetD32Async(to, args->value, width, stream);
    }
}

static CUresult set_rows(const struct gpu *gpu, const set_args *args, uint64_t to, uint64_t rows, CUstream stream)
{
    uint64_t width = args->extent.width, pitch = args->to.pitch;
    switch (args->element) {
    case 1: return gpu->MemsetD2D8Async(to, pitch, (unsigned char)args->value, width, rows, stream);
    case 2: return gpu->MemsetD2D16Async(to, pitch, (unsigned short)args->value, width, rows, stream);
    default: return gpu->MemsetD2D32Async(to, pitch, args->value, width, rows, stream);
    }
}

static int set_issue(struct session *session, struct call *call)
{
    const set_args *args = &call->args.set;
    const flyt_extent *extent = &args->extent;
    CUstream stream = call->stream->handle;
    if (copy_empty(extent))
        return CUDA_SUCCESS;
    if (extent->height == 1 && extent->depth == 1)
        return (int)set_row(session->gpu, args, stream);
    if (extent->depth == 1 || args->to.height == extent->height)      /* slices without a gap are rows */
        return (int)set_rows(session->gpu, args, args->to.address, extent->height * extent->depth, stream);
    CUresult r = CUDA_SUCCESS;
    for (uint64_t z = 0; z < extent->depth && r == CUDA_SUCCESS; z++)
        r = set_rows(session->gpu, args, args->to.address + z * args->to.height * args->to.pitch, extent->height,
                     stream);
    return (int)r;
}
static const struct operation set_operation = { .issue = set_issue, .numbered = true };

void serve_set(struct session *session, struct call *call)
{
    const set_args *args = &call->args.set;
    const flyt_extent *extent = &args->extent;
    uint64_t width, span;
    if (!server_stream_enter(session, call, args->stream))
        return;
    CUresult r = CUDA_SUCCESS;
    if (args->element != 1 && args->element != 2 && args->element != 4)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (extent->depth > SET_MAX_SLICES && args->to.height != extent->height)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!copy_empty(extent) && (__builtin_mul_overflow(extent->width, (uint64_t)args->element, &width) ||
                                     !copy_span(args->to.pitch, args->to.height, extent, width, &span) ||
                                     !memory_known(session, args->to.address, span)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        stream_refuse(session, call, r);
    else
        server_stream_submit(session, call, &set_operation);
}
