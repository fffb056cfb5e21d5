/* copy.c: copies of chapter "Memory Management". */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

static int copy(CUdeviceptr to, CUdeviceptr from, size_t size, enum core_direction direction, core_stream stream,
                bool blocking)
{
    core_context *context;
    int error = driver_enter(&context);
    return error ? error
                 : issue_copy(context, stream, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, size, direction,
                              blocking);
}

static CUdeviceptr host(const void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }

CUresult driver_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size, core_stream stream)
{
    return driver_waited(copy(to, from, size, CORE_ANY_DIRECTION, stream, true));
}

CUresult driver_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size, core_stream stream)
{
    return driver_waited(copy(to, host(from), size, CORE_HOST_TO_DEVICE, stream, true));
}

CUresult driver_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size, core_stream stream)
{
    return driver_waited(copy(host(to), from, size, CORE_DEVICE_TO_HOST, stream, true));
}

CUresult driver_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size, core_stream stream)
{
    return driver_waited(copy(to, from, size, CORE_DEVICE_TO_DEVICE, stream, true));
}

CUresult driver_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return (CUresult)copy(to, from, size, CORE_ANY_DIRECTION, stream, false);
}

CUresult driver_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    return (CUresult)copy(to, host(from), size, CORE_HOST_TO_DEVICE, stream, false);
}

CUresult driver_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    return (CUresult)copy(host(to), from, size, CORE_DEVICE_TO_HOST, stream, false);
}

CUresult driver_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return (CUresult)copy(to, from, size, CORE_DEVICE_TO_DEVICE, stream, false);
}

/* ---- boxes: rows of rows ---- */

/* One side of a box copy as the program describes it. */
struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t x, y, z, pitch, height;
};

struct copy_shape {
    size_t width, height, depth;
    size_t most_pitch; /* 0: any */
};

static size_t greatest_pitch(core_context *context)
{
    struct core_context_info info;
    int value = 0;
    if (core_context_info(context, &info) || core_device_attribute(info.device, CU_DEVICE_ATTRIBUTE_MAX_PITCH, &value))
        return 0;
    return (size_t)value;
}

static bool add_product(size_t *sum, size_t a, size_t b)
{
    size_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

/* Nothing says how many slices there are. But where CUDA knows the memory, it also knows what a position leads to. */
static bool leads_to_memory(const struct side *side, uint64_t base, size_t offset)
{
    struct core_range range;
    return !side->z || !core_address_lookup(base, &range) || core_address_lookup(base + offset, &range);
}

/* Rows must not overlap. Where only one row, or one slice, is copied, no pitch, or no height, is needed. */
static int side_box(const struct side *side, const struct copy_shape *shape, struct core_box *box)
{
    size_t row, rows, offset = 0;
    const struct core_extent extent = { shape->width, shape->height, shape->depth };
    if (side->type == CU_MEMORYTYPE_ARRAY)
        return core_array_box(side->array, (const size_t[3]){ side->x, side->y, side->z }, &extent, box);
    if (side->type < CU_MEMORYTYPE_HOST || side->type > CU_MEMORYTYPE_UNIFIED ||
        __builtin_add_overflow(side->x, shape->width, &row) || __builtin_add_overflow(side->y, shape->height, &rows))
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = side->pitch, height = side->height;
    if (!pitch && shape->height == 1 && shape->depth == 1)
        pitch = row;
    if (!height && shape->depth == 1)
        height = rows;
    if (pitch < row || height < rows || (shape->most_pitch && pitch > shape->most_pitch))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t base = side->type == CU_MEMORYTYPE_HOST ? host(side->host) : side->device;
    if (!base)
        return CUDA_ERROR_INVALID_VALUE;
    size_t lines = side->y;
    if (!add_product(&lines, side->z, height) || !add_product(&offset, lines, pitch) ||
        __builtin_add_overflow(offset, side->x, &offset) || !leads_to_memory(side, base, offset))
        return CUDA_ERROR_INVALID_VALUE;
    *box = (struct core_box){ base + offset, pitch, height };
    return CUDA_SUCCESS;
}

static enum core_direction direction_of(CUmemorytype to, CUmemorytype from)
{
    if (to == CU_MEMORYTYPE_UNIFIED || from == CU_MEMORYTYPE_UNIFIED)
        return CORE_ANY_DIRECTION;
    if (to == CU_MEMORYTYPE_HOST)
        return from == CU_MEMORYTYPE_HOST ? CORE_HOST_TO_HOST : CORE_DEVICE_TO_HOST;
    return from == CU_MEMORYTYPE_HOST ? CORE_HOST_TO_DEVICE : CORE_DEVICE_TO_DEVICE;
}

/* limited: the pitches must be those that the device allows. */
static int copy_box(const struct side *to, const struct side *from, struct copy_shape shape, bool limited,
                    core_stream stream, bool blocking)
{
    core_context *context;
    struct core_box target, source;
    int error = driver_enter(&context);
    if (error || !shape.width || !shape.height || !shape.depth)
        return error;
    shape.most_pitch = limited ? greatest_pitch(context) : 0;
    if ((error = side_box(to, &shape, &target)) || (error = side_box(from, &shape, &source)))
        return error;
    const struct core_extent extent = { shape.width, shape.height, shape.depth };
    return issue_copy_box(context, stream, &target, &source, &extent, direction_of(to->type, from->type), blocking);
}

static int copy_2d(const CUDA_MEMCPY2D *c, bool limited, core_stream stream, bool blocking)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error || !c)
        return error ? error : CUDA_ERROR_INVALID_VALUE;
    const struct side to = { .type = c->dstMemoryType,
                             .host = c->dstHost,
                             .device = c->dstDevice,
                             .array = c->dstArray,
                             .x = c->dstXInBytes,
                             .y = c->dstY,
                             .pitch = c->dstPitch },
                      from = { .type = c->srcMemoryType,
                               .host = c->srcHost,
                               .device = c->srcDevice,
                               .array = c->srcArray,
                               .x = c->srcXInBytes,
                               .y = c->srcY,
                               .pitch = c->srcPitch };
    return copy_box(&to, &from, (struct copy_shape){ c->WidthInBytes, c->Height, 1, 0 }, limited, stream, blocking);
}

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same members but for the contexts. */
#define SIDES_3D(c)                                        \
    const struct side to = { .type = (c)->dstMemoryType,   \
                             .host = (c)->dstHost,         \
                             .device = (c)->dstDevice,     \
                             .array = (c)->dstArray,       \
                             .x = (c)->dstXInBytes,        \
                             .y = (c)->dstY,               \
                             .z = (c)->dstZ,               \
                             .pitch = (c)->dstPitch,       \
                             .height = (c)->dstHeight },   \
                      from = { .type = (c)->srcMemoryType, \
                               .host = (c)->srcHost,       \
                               .device = (c)->srcDevice,   \
                               .array = (c)->srcArray,     \
                               .x = (c)->srcXInBytes,      \
                               .y = (c)->srcY,             \
                               .z = (c)->srcZ,             \
                               .pitch = (c)->srcPitch,     \
                               .height = (c)->srcHeight }; \
    const struct copy_shape shape = { (c)->WidthInBytes, (c)->Height, (c)->Depth, 0 }

static int copy_3d(const CUDA_MEMCPY3D *c, core_stream stream, bool blocking)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error || !c || c->srcLOD || c->dstLOD || c->reserved0 || c->reserved1)
        return error ? error : CUDA_ERROR_INVALID_VALUE;
    SIDES_3D(c);
    return copy_box(&to, &from, shape, true, stream, blocking);
}

int driver_copy_check(core_context *context, const CUDA_MEMCPY3D *c, enum core_direction *direction)
{
    struct core_box box;
    if (c->srcLOD || c->dstLOD || c->reserved0 || c->reserved1)
        return CUDA_ERROR_INVALID_VALUE;
    SIDES_3D(c);
    struct copy_shape limited = shape;
    limited.most_pitch = greatest_pitch(context);
    if (!shape.width || !shape.height || !shape.depth)
        return CUDA_ERROR_INVALID_VALUE;
    int error = side_box(&to, &limited, &box);
    if (!error)
        error = side_box(&from, &limited, &box);
    *direction = direction_of(to.type, from.type);
    return error;
}

CUresult driver_cuMemcpy2D_v2(const CUDA_MEMCPY2D *c, core_stream stream)
{
    return driver_waited(copy_2d(c, true, stream, true));
}

CUresult driver_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c, core_stream stream)
{
    return driver_waited(copy_2d(c, false, stream, true));
}

CUresult driver_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
    return (CUresult)copy_2d(c, true, stream, false);
}

CUresult driver_cuMemcpy3D_v2(const CUDA_MEMCPY3D *c, core_stream stream)
{
    return driver_waited(copy_3d(c, stream, true));
}

CUresult driver_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream)
{
    return (CUresult)copy_3d(c, stream, false);
}

/* ---- lines of arrays of one dimension ---- */

static int copy_line(const struct side *to, const struct side *from, size_t size, core_stream stream, bool blocking)
{
    return copy_box(to, from, (struct copy_shape){ size, 1, 1, 0 }, false, stream, blocking);
}

static struct side in_array(CUarray array, size_t offset)
{
    return (struct side){ .type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset };
}

static struct side in_memory(CUmemorytype type, uint64_t address)
{
    return (struct side){ .type = type, .host = (const void *)(uintptr_t)address, .device = address };
}

static int array_to_memory(CUmemorytype type, uint64_t to, CUarray array, size_t offset, size_t size,
                           core_stream stream, bool blocking)
{
    const struct side target = in_memory(type, to), source = in_array(array, offset);
    return copy_line(&target, &source, size, stream, blocking);
}

static int memory_to_array(CUarray array, size_t offset, CUmemorytype type, uint64_t from, size_t size,
                           core_stream stream, bool blocking)
{
    const struct side target = in_array(array, offset), source = in_memory(type, from);
    return copy_line(&target, &source, size, stream, blocking);
}

CUresult driver_cuMemcpyDtoA_v2(CUarray to, size_t at, CUdeviceptr from, size_t size, core_stream stream)
{
    return driver_waited(memory_to_array(to, at, CU_MEMORYTYPE_DEVICE, from, size, stream, true));
}

CUresult driver_cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t at, size_t size, core_stream stream)
{
    return driver_waited(array_to_memory(CU_MEMORYTYPE_DEVICE, to, from, at, size, stream, true));
}

CUresult driver_cuMemcpyHtoA_v2(CUarray to, size_t at, const void *from, size_t size, core_stream stream)
{
    return driver_waited(memory_to_array(to, at, CU_MEMORYTYPE_HOST, host(from), size, stream, true));
}

CUresult driver_cuMemcpyAtoH_v2(void *to, CUarray from, size_t at, size_t size, core_stream stream)
{
    return driver_waited(array_to_memory(CU_MEMORYTYPE_HOST, host(to), from, at, size, stream, true));
}

CUresult driver_cuMemcpyAtoA_v2(CUarray to, size_t there, CUarray from, size_t here, size_t size, core_stream stream)
{
    const struct side target = in_array(to, there), source = in_array(from, here);
    return driver_waited(copy_line(&target, &source, size, stream, true));
}

CUresult driver_cuMemcpyHtoAAsync_v2(CUarray to, size_t at, const void *from, size_t size, CUstream stream)
{
    return (CUresult)memory_to_array(to, at, CU_MEMORYTYPE_HOST, host(from), size, stream, false);
}

CUresult driver_cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t at, size_t size, CUstream stream)
{
    return (CUresult)array_to_memory(CU_MEMORYTYPE_HOST, host(to), from, at, size, stream, false);
}

/* ---- between contexts: addresses are unique in the process, but for variables at several GPU servers ---- */

/* The copies of this thread are between these contexts, up to between_end. */
static int between_begin(CUcontext to_context, CUcontext from_context)
{
    core_context *to, *from;
    int error = driver_context(to_context, &to); /* NULL: the current one */
    if (!error)
        error = driver_context(from_context, &from);
    if (!error)
        core_copy_between(to, from);
    return error;
}

static void between_end(void) { core_copy_between(NULL, NULL); }

static int copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,
                     core_stream stream, bool blocking)
{
    core_context *context;
    int error = between_begin(to_context, from_context);
    if (error)
        return error;
    if (!blocking && size && !(error = driver_enter(&context)))
        error = issue_check_captured(context, stream); /* captures keep no such copy */
    if (!error)
        error = copy(to, from, size, CORE_DEVICE_TO_DEVICE, stream, blocking);
    between_end();
    return error;
}

static int copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, core_stream stream, bool blocking)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error || !c || c->srcLOD || c->dstLOD)
        return error ? error : CUDA_ERROR_INVALID_VALUE;
    SIDES_3D(c);
    if ((error = between_begin(c->dstContext, c->srcContext)))
        return error;
    error = copy_box(&to, &from, shape, true, stream, blocking);
    between_end();
    return error;
}

CUresult driver_cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                             size_t size, core_stream stream)
{
    return driver_waited(copy_peer(to, to_context, from, from_context, size, stream, true));
}

CUresult driver_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                  size_t size, CUstream stream)
{
    return (CUresult)copy_peer(to, to_context, from, from_context, size, stream, false);
}

CUresult driver_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *c, core_stream stream)
{
    return driver_waited(copy_3d_peer(c, stream, true));
}

CUresult driver_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *c, CUstream stream)
{
    return (CUresult)copy_3d_peer(c, stream, false);
}
