/*
 * copy.c: copies in all their forms. CUDA reference: Memory Management, API synchronization behavior.
 *
 * When the caller waits, as natively: a synchronous copy from or to host memory until it is done; a synchronous
 * device-to-device copy not at all; an asynchronous copy not, if the host side is pinned. From pageable memory a
 * small source (64 KiB) is taken at once, a large one waited for; into pageable memory is waited for.
 */
#include "softgpu/driver/calls/calls.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

enum {
    STAGE_MOST = 64 << 10,
    HERE_MOST = 1 << 20
}; /* a MiB takes 30 to 90 us; another thread has begun with it after 60 */

struct copy { struct sgd_side to, from; size_t width, rows, slices; };

/* Bytes from the first to the last one touched; false: too many for an address. */
static bool reach(const struct sgd_side *s, const struct copy *c, uint64_t *bytes)
{
    uint64_t rows, slices;
    return !__builtin_mul_overflow((uint64_t)s->pitch, (uint64_t)(c->rows - 1), &rows)
        && !__builtin_mul_overflow((uint64_t)s->pitch * s->height, (uint64_t)(c->slices - 1), &slices)
        && !__builtin_add_overflow(rows, slices, bytes) && !__builtin_add_overflow(*bytes, (uint64_t)c->width, bytes)
        && s->address + *bytes >= s->address;
}

static bool pageable(const struct sgd_side *s, uint64_t bytes)
{
    if (s->device)
        return false;
    const struct sgd_memory *m = sgd_memory_find(s->address);
    return !m || bytes > m->at.base + m->at.size - s->address;
}

static CUresult check_side(const struct sgd_side *s, const struct copy *c, unsigned rights)
{
    uint64_t bytes;
    if (!s->address || !reach(s, c, &bytes) || (c->rows > 1 && s->pitch < c->width) ||
        (c->slices > 1 && s->height < c->rows))
        return CUDA_ERROR_INVALID_VALUE;
    if (s->device)
        return sgd_memory_covers(s->address, bytes, rights) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    const struct sgd_memory *m = sgd_memory_find(s->address);
    bool only_device = m && (m->kind == SGD_MEMORY_DEVICE || m->kind == SGD_MEMORY_MAPPED);
    return only_device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* The source as it is now, packed. */
static bool stage(struct sgd_op *op)
{
    size_t row = op->copy.width, rows = op->copy.rows, slices = op->copy.slices;
    const struct sgd_side *from = &op->copy.from;
    char *copy = malloc(row * rows * slices);
    if (!copy)
        return false;
    for (size_t z = 0; z < slices; z++)
        for (size_t y = 0; y < rows; y++)
            memcpy(copy + (z * rows + y) * row,
                   (const char *)(uintptr_t)from->address + (z * from->height + y) * from->pitch, row);
    op->copy.staged = copy;
    op->copy.from = (struct sgd_side){ .address = (uint64_t)(uintptr_t)copy, .pitch = row, .height = rows };
    return true;
}

static CUresult push(struct sgd_stream *s, const struct copy *c, bool asynchronous)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!c->width || !c->rows || !c->slices)
        return CUDA_SUCCESS;
    CUresult r = check_side(&c->to, c, SG_WRITE);
    if (!r)
        r = check_side(&c->from, c, SG_READ);
    if (r)
        return r;
    struct sgd_op *op = sgd_op_new(SGD_OP_COPY);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->copy.to = c->to;
    op->copy.from = c->from;
    op->copy.width = c->width;
    op->copy.rows = c->rows;
    op->copy.slices = c->slices;
    uint64_t to_bytes = 0, from_bytes = 0;
    reach(&c->to, c, &to_bytes);
    reach(&c->from, c, &from_bytes);
    bool wait = asynchronous ? pageable(&c->to, to_bytes) : !c->to.device || !c->from.device;
    if (asynchronous && !wait && pageable(&c->from, from_bytes)) {
        if (c->width * c->rows * c->slices > STAGE_MOST) {
            wait = true;
        } else if (!stage(op)) {
            sgd_op_free(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    /* One whose turn it is, unless it is long: waking the thread that would do it costs as much, and a processor. */
    if (!wait && to_bytes <= HERE_MOST && from_bytes <= HERE_MOST && !sgd_config.chaos)
        return sgd_queue_push_here(s, op, NULL);
    if (!wait)
        return sgd_queue_push(s, op, NULL);
    struct sgd_context *context = s->context;
    sgd_context_hold(context);
    r = sgd_queue_push_wait(s, op);
    sgd_context_flush(context);
    return r;
}

static CUresult copy(const struct copy *c, CUstream stream, bool asynchronous)
{
    struct sgd_context *current;
    struct sgd_stream *s;
    CUresult r = sgd_enter_current(&current);
    if (r)
        return r;
    r = sgd_stream_find(stream, current, &s);
    if (!r)
        r = push(s, c, asynchronous);
    sgd_leave();
    return r;
}

/* ---- one dimension ---------------------------------------------------------------------------------------------- */

enum copy_place { ON_HOST, ON_DEVICE, ANYWHERE };

static struct sgd_side side(uint64_t address, enum copy_place place)
{
    return (struct sgd_side){ .address = address,
                              .device = place == ON_DEVICE || (place == ANYWHERE && sgd_space_inside(address)) };
}

static CUresult line(uint64_t to, enum copy_place there, uint64_t from, enum copy_place here, size_t size,
                     CUstream stream, bool asynchronous)
{
    struct copy c = { side(to, there), side(from, here), size, 1, 1 };
    return copy(&c, stream, asynchronous);
}

#define ADDRESS(p) ((uint64_t)(uintptr_t)(p))

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    return line(to, ANYWHERE, from, ANYWHERE, n, NULL, false);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    return line(to, ANYWHERE, from, ANYWHERE, n, s, true);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
    return line(to, ON_DEVICE, ADDRESS(from), ON_HOST, n, NULL, false);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
    return line(ADDRESS(to), ON_HOST, from, ON_DEVICE, n, NULL, false);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    return line(to, ON_DEVICE, from, ON_DEVICE, n, NULL, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    return line(to, ON_DEVICE, ADDRESS(from), ON_HOST, n, s, true);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    return line(ADDRESS(to), ON_HOST, from, ON_DEVICE, n, s, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    return line(to, ON_DEVICE, from, ON_DEVICE, n, s, true);
}

static bool contexts_exist(CUcontext a, CUcontext b)
{
    if (sgd_enter())
        return true;                         /* the copy itself will say why not */
    bool exist = (!a || sgd_context_get(a)) && (!b || sgd_context_get(b));
    sgd_leave();
    return exist;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t n)
{
    return contexts_exist(there, here) ? cuMemcpyDtoD_v2(to, from, n) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t n, CUstream s)
{
    return contexts_exist(there, here) ? cuMemcpyDtoDAsync_v2(to, from, n, s) : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- two and three dimensions ------------------------------------------------------------------------------------ */

/* A place in an array, in bytes: the reference asks for whole elements, and NVIDIA's driver takes parts of them, too.
   Everything of it: the copy's rows and slices may not leave it. */
static CUresult array_side(CUarray handle, size_t x, size_t y, size_t z, const struct copy *c, struct sgd_side *s)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    const struct sgd_array *a = sgd_array_get(handle);
    if (!a)
        r = CUDA_ERROR_INVALID_HANDLE;
    else if (x > a->row || c->width > a->row - x || y > sg_texture_rows(&a->texture) ||
             c->rows > sg_texture_rows(&a->texture) - y ||
             z > a->slices || c->slices > a->slices - z)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *s = (struct sgd_side){ .address = a->memory + z * a->texture.slice + y * a->texture.pitch + x,
                                .pitch = a->texture.pitch,
                                .height = sg_texture_rows(&a->texture),
                                .device = true };
    sgd_leave();
    return r;
}

static CUresult box_side(CUmemorytype type, const void *host, uint64_t device, CUarray array, size_t x, size_t y,
                         size_t z, size_t pitch, size_t height, const struct copy *c, struct sgd_side *s)
{
    size_t width = c->width;
    uint64_t base = type == CU_MEMORYTYPE_HOST ? ADDRESS(host) : device;
    if (type == CU_MEMORYTYPE_ARRAY)
        return array_side(array, x, y, z, c, s);
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pitch)
        pitch = x + width;
    if (x + width < x || pitch < x + width)
        return CUDA_ERROR_INVALID_VALUE;
    *s = side(base + z * pitch * height + y * pitch + x, type == CU_MEMORYTYPE_HOST     ? ON_HOST
                                                         : type == CU_MEMORYTYPE_DEVICE ? ON_DEVICE
                                                                                        : ANYWHERE);
    s->pitch = pitch;
    s->height = height;
    return base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult box(const CUDA_MEMCPY3D *p, CUstream stream, bool asynchronous)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (!p->WidthInBytes || !p->Height || !p->Depth || p->srcLOD || p->dstLOD)
        return p->srcLOD || p->dstLOD ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    struct copy c = { .width = p->WidthInBytes, .rows = p->Height, .slices = p->Depth };
    CUresult r = box_side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, p->dstZ,
                          p->dstPitch, p->dstHeight, &c, &c.to);
    if (!r)
        r = box_side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, p->srcZ,
                     p->srcPitch, p->srcHeight, &c, &c.from);
    return r ? r : copy(&c, stream, asynchronous);
}

static CUresult rectangle(const CUDA_MEMCPY2D *p, CUstream stream, bool asynchronous)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D q = { .srcXInBytes = p->srcXInBytes,
                        .srcY = p->srcY,
                        .srcMemoryType = p->srcMemoryType,
                        .srcHost = p->srcHost,
                        .srcDevice = p->srcDevice,
                        .srcArray = p->srcArray,
                        .srcPitch = p->srcPitch,
                        .dstXInBytes = p->dstXInBytes,
                        .dstY = p->dstY,
                        .dstMemoryType = p->dstMemoryType,
                        .dstHost = p->dstHost,
                        .dstDevice = p->dstDevice,
                        .dstArray = p->dstArray,
                        .dstPitch = p->dstPitch,
                        .WidthInBytes = p->WidthInBytes,
                        .Height = p->Height,
                        .Depth = 1 };
    return box(&q, stream, asynchronous);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *p) { return rectangle(p, NULL, false); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p) { return rectangle(p, NULL, false); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream s) { return rectangle(p, s, true); }
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *p) { return box(p, NULL, false); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream s) { return box(p, s, true); }

static CUresult peer_box(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool asynchronous)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (!contexts_exist(p->srcContext, p->dstContext))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUDA_MEMCPY3D q = { .srcXInBytes = p->srcXInBytes,
                        .srcY = p->srcY,
                        .srcZ = p->srcZ,
                        .srcLOD = p->srcLOD,
                        .srcMemoryType = p->srcMemoryType,
                        .srcHost = p->srcHost,
                        .srcDevice = p->srcDevice,
                        .srcArray = p->srcArray,
                        .srcPitch = p->srcPitch,
                        .srcHeight = p->srcHeight,
                        .dstXInBytes = p->dstXInBytes,
                        .dstY = p->dstY,
                        .dstZ = p->dstZ,
                        .dstLOD = p->dstLOD,
                        .dstMemoryType = p->dstMemoryType,
                        .dstHost = p->dstHost,
                        .dstDevice = p->dstDevice,
                        .dstArray = p->dstArray,
                        .dstPitch = p->dstPitch,
                        .dstHeight = p->dstHeight,
                        .WidthInBytes = p->WidthInBytes,
                        .Height = p->Height,
                        .Depth = p->Depth };
    return box(&q, stream, asynchronous);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p) { return peer_box(p, NULL, false); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream s) { return peer_box(p, s, true); }

/* ---- one dimension of an array ----------------------------------------------------------------------------------- */

/* One of the two sides of each is an array, or both. A row of it at most: these calls are for arrays of one
   dimension. */
static CUresult array_line(CUarray to_array, size_t to_offset, uint64_t to, CUarray from_array, size_t from_offset,
                           uint64_t from, bool host, size_t size, CUstream stream, bool asynchronous)
{
    struct copy c = { .width = size, .rows = 1, .slices = 1 };
    CUresult r = CUDA_SUCCESS;
    if (to)
        c.to = side(to, host ? ON_HOST : ON_DEVICE);
    else
        r = array_side(to_array, to_offset, 0, 0, &c, &c.to);
    if (!r && from)
        c.from = side(from, host ? ON_HOST : ON_DEVICE);
    else if (!r)
        r = array_side(from_array, from_offset, 0, 0, &c, &c.from);
    return r ? r : copy(&c, stream, asynchronous);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t at, const void *from, size_t n)
{
    return from ? array_line(to, at, 0, NULL, 0, ADDRESS(from), true, n, NULL, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t at, size_t n)
{
    return to ? array_line(NULL, 0, ADDRESS(to), from, at, 0, true, n, NULL, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t at, CUdeviceptr from, size_t n)
{
    return from ? array_line(to, at, 0, NULL, 0, from, false, n, NULL, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t at, size_t n)
{
    return to ? array_line(NULL, 0, to, from, at, 0, false, n, NULL, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t there, CUarray from, size_t here, size_t n)
{
    return array_line(to, there, 0, from, here, 0, false, n, NULL, false);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t at, const void *from, size_t n, CUstream s)
{
    return from ? array_line(to, at, 0, NULL, 0, ADDRESS(from), true, n, s, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t at, size_t n, CUstream s)
{
    return to ? array_line(NULL, 0, ADDRESS(to), from, at, 0, true, n, s, true) : CUDA_ERROR_INVALID_VALUE;
}
