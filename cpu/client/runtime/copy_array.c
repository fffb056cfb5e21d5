/*
 * copy_array.c: copies of arrays, of chapter "Memory Management". cudaMemcpy3D itself is in copy.c.
 *
 * But for cudaMemcpy3D, offsets and widths are in bytes. The functions without "2D" copy a number of bytes that may go
 * on from row to row of an array: they are made of boxes.
 */
#include "cpu/client/runtime/array.h"

#include "cpu/client/graph/capture.h"
#include "cpu/common/texel.h"

/* One side of a copy: an array from (x, y) on, or memory. */
struct half {
    bool is_array;
    const void *array, *memory;
    size_t x, y, pitch;
};

static int side_box(const struct half *side, const struct core_extent *extent, struct core_box *box)
{
    if (side->array)
        return core_array_box(runtime_array(side->array), (const size_t[3]){ side->x, side->y, 0 }, extent, box);
    *box = (struct core_box){ (uint64_t)(uintptr_t)side->memory, side->pitch ? side->pitch : extent->width,
                             extent->height };
    return cudaSuccess;
}

static int box(core_context *context, const struct half *to, const struct half *from, const struct core_extent *extent,
               int kind, core_stream stream, bool blocking)
{
    struct core_box target, source;
    int error = side_box(to, extent, &target);
    if (!error)
        error = side_box(from, extent, &source);
    return error ? error
                 : issue_copy_box(context, stream, &target, &source, extent, (enum core_direction)kind, blocking);
}

static bool into_host(int kind) { return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost; }
static bool out_of_host(int kind) { return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice; }

/* nothing: no bytes are meant, so the sides are not looked at. overlap: rows of memory run into each other. */
static int begin(const struct half *to, const struct half *from, int kind, bool nothing, bool overlap,
                 core_context **context)
{
    struct core_array_shape shape;
    int error = runtime_enter(context);
    if (error || nothing)
        return error;
    if (overlap)
        return cudaErrorInvalidPitchValue;
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if ((to->is_array && into_host(kind)) || (from->is_array && out_of_host(kind)))
        return cudaErrorInvalidMemcpyDirection;
    if ((to->is_array && !to->array) || (from->is_array && !from->array))
        return cudaErrorInvalidResourceHandle;
    if ((!to->array && !to->memory) || (!from->array && !from->memory))
        return cudaErrorInvalidValue;
    if (to->array && (error = core_array_shape(runtime_array(to->array), &shape)))
        return error;
    return from->array ? core_array_shape(runtime_array(from->array), &shape) : cudaSuccess;
}

/* ---- cudaMemcpy3D ---- */

/* What the arrays are made of: bytes, and texels along each side. */
struct element { unsigned bytes, texels; };

static struct element element_in(const struct core_array_shape *shape)
{
    return (struct element){ shape->texel, texel_block(shape->format) ? 4 : 1 };
}

static size_t elements_along(size_t texels, unsigned each) { return texels / each + (texels % each != 0); }

/* 1: the arrays' elements differ. */
static int element_of(const cudaMemcpy3DParms *copy, struct element *element)
{
    const void *arrays[] = { copy->srcArray, copy->dstArray };
    struct core_array_shape shape;
    *element = (struct element){ 0, 1 };
    for (int i = 0; i < 2; i++) {
        int error = arrays[i] ? core_array_shape(runtime_array(arrays[i]), &shape) : cudaSuccess;
        if (error)
            return error;
        if (arrays[i] && element->bytes && element->bytes != shape.texel)
            return cudaErrorInvalidValue;
        if (arrays[i])
            *element = element_in(&shape);
    }
    return cudaSuccess;
}

/* NVIDIA's runtime counts positions in elements of the array on both sides, whatever the reference says of memory; in
   an array of blocks in texels. */
static int side_3d(const void *array, const cudaPitchedPtr *memory, const cudaPos *at, const struct element *element,
                   const struct core_extent *extent, struct core_box *box)
{
    const unsigned texels = array ? element->texels : 1;
    size_t x;
    if (__builtin_mul_overflow(at->x / texels, element->bytes, &x))
        return cudaErrorInvalidValue;
    if (array)
        return core_array_box(runtime_array(array), (const size_t[3]){ x, at->y / texels, at->z }, extent, box);
    const cudaPos bytes = { x, at->y, at->z };
    const cudaExtent size = { extent->width, extent->height, extent->depth };
    return runtime_pitched_box(memory, &bytes, &size, box);
}

/* on_host: the kind of the copy names the host on this side. NVIDIA's runtime compares the strides of memory with the
   extent as given, also where that counts elements. Only the rows of blocks are counted before. */
static int side_check(const void *array, const cudaPitchedPtr *memory, const cudaExtent *extent, bool on_host)
{
    if (array)
        return memory->ptr || on_host ? cudaErrorInvalidValue : cudaSuccess;
    if (!memory->ptr)
        return cudaErrorInvalidValue;
    return runtime_strides_fit(memory, extent) ? cudaSuccess : cudaErrorInvalidPitchValue;
}

int runtime_copy_sides(const cudaMemcpy3DParms *copy, struct runtime_copy_sides *sides)
{
    struct element element;
    int error = element_of(copy, &element);
    if (error)
        return error;
    const size_t columns = elements_along(copy->extent.width, element.texels);
    const cudaExtent rows = { copy->extent.width, elements_along(copy->extent.height, element.texels),
                              copy->extent.depth };
    if ((error = side_check(copy->srcArray, &copy->srcPtr, &rows, out_of_host((int)copy->kind))) ||
        (error = side_check(copy->dstArray, &copy->dstPtr, &rows, false)))
        return error; /* an array as target is on the device, whatever the kind says */
    sides->extent = (struct core_extent){ 0, rows.height, rows.depth };
    if (__builtin_mul_overflow(columns, element.bytes, &sides->extent.width))
        return cudaErrorInvalidValue;
    error = side_3d(copy->dstArray, &copy->dstPtr, &copy->dstPos, &element, &sides->extent, &sides->to);
    return error ? error
                 : side_3d(copy->srcArray, &copy->srcPtr, &copy->srcPos, &element, &sides->extent, &sides->from);
}

bool runtime_array_of(uint64_t address, cudaArray_t *array, cudaPos *position, unsigned *bytes)
{
    core_array handle;
    size_t at[3];
    struct core_array_shape shape;
    if (!core_array_at(address, &handle, at) || core_array_shape(handle, &shape))
        return false;
    *array = (void *)(uintptr_t)handle;
    const struct element element = element_in(&shape);
    *position = (cudaPos){ at[0] / element.bytes * element.texels, at[1] * element.texels, at[2] };
    *bytes = shape.texel;
    return true;
}

/* ---- rows ---- */

static int rows(const struct half *to, const struct half *from, size_t width, size_t height, int kind,
                core_stream stream, bool blocking)
{
    core_context *context;
    const struct core_extent extent = { width, height, 1 };
    bool nothing = !width || !height;
    bool overlap = (!to->is_array && !runtime_rows_fit(to->pitch, width, height)) ||
                   (!from->is_array && !runtime_rows_fit(from->pitch, width, height));
    int error = begin(to, from, kind, nothing, overlap, &context);
    if (error || nothing)
        return error;
    size_t most = core_limits_of(runtime_current())->pitch;
    if ((!to->is_array && to->pitch && (to->pitch < width || to->pitch > most)) ||
        (!from->is_array && from->pitch && (from->pitch < width || from->pitch > most)))
        return cudaErrorInvalidValue;
    return box(context, to, from, &extent, kind, stream, blocking);
}

static int to_array(void *to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind,
                    core_stream stream, bool blocking)
{
    return rows(&(struct half){ .is_array = true, .array = to, .x = x, .y = y },
                &(struct half){ .memory = from, .pitch = pitch }, width, height, kind, stream, blocking);
}

static int from_array(void *to, size_t pitch, const void *from, size_t x, size_t y, size_t width, size_t height,
                      int kind, core_stream stream, bool blocking)
{
    return rows(&(struct half){ .memory = to, .pitch = pitch },
                &(struct half){ .is_array = true, .array = from, .x = x, .y = y }, width, height, kind, stream,
                blocking);
}

cudaError_t runtime_cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                        size_t width, size_t height, cudaMemcpyKind kind)
{
    return runtime_waited(to_array(to, x, y, from, pitch, width, height, kind, 0, true));
}

cudaError_t runtime_cudaMemcpy2DToArray_ptds(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                             size_t width, size_t height, cudaMemcpyKind kind)
{
    return runtime_waited(to_array(to, x, y, from, pitch, width, height, kind, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                             size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    return runtime_return(to_array(to, x, y, from, pitch, width, height, kind, stream, false));
}

cudaError_t runtime_cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                          size_t width, size_t height, cudaMemcpyKind kind)
{
    return runtime_waited(from_array(to, pitch, from, x, y, width, height, kind, 0, true));
}

cudaError_t runtime_cudaMemcpy2DFromArray_ptds(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                               size_t width, size_t height, cudaMemcpyKind kind)
{
    return runtime_waited(from_array(to, pitch, from, x, y, width, height, kind, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                               size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    return runtime_return(from_array(to, pitch, from, x, y, width, height, kind, stream, false));
}

static int between_arrays(void *to, size_t to_x, size_t to_y, const void *from, size_t x, size_t y, size_t width,
                          size_t height, int kind, core_stream stream)
{
    return rows(&(struct half){ .is_array = true, .array = to, .x = to_x, .y = to_y },
                &(struct half){ .is_array = true, .array = from, .x = x, .y = y }, width, height, kind, stream, true);
}

cudaError_t runtime_cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x,
                                             size_t y, size_t width, size_t height, cudaMemcpyKind kind)
{
    return runtime_waited(between_arrays(to, to_x, to_y, from, x, y, width, height, kind, 0));
}

cudaError_t runtime_cudaMemcpy2DArrayToArray_ptds(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                                  size_t x, size_t y, size_t width, size_t height, cudaMemcpyKind kind)
{
    return runtime_waited(between_arrays(to, to_x, to_y, from, x, y, width, height, kind, CORE_STREAM_PER_THREAD));
}

/* ---- a number of bytes ---- */

/* Bytes of a row of the array; SIZE_MAX: memory is one row. */
static size_t row_of(const struct half *side, size_t *rows_left)
{
    struct core_array_shape shape;
    *rows_left = 1;
    if (!side->array)
        return SIZE_MAX;
    if (core_array_shape(runtime_array(side->array), &shape))
        return 0;
    size_t height = shape.height ? texel_elements(shape.format, shape.height) : 1;
    *rows_left = side->y < height ? height - side->y : 0;
    return texel_elements(shape.format, shape.width) * shape.texel;
}

static bool holds(const struct half *side, size_t row, size_t rows_left, size_t count)
{
    size_t room;
    if (!side->array)
        return true;
    return side->x <= row && !__builtin_mul_overflow(row, rows_left, &room) && side->x <= room &&
           count <= room - side->x;
}

static void advance(struct half *side, size_t row, size_t bytes)
{
    if (!side->array) {
        side->memory = (const char *)side->memory + bytes;
        return;
    }
    side->y += (side->x + bytes) / row;
    side->x = (side->x + bytes) % row;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Each turn: the rest of a row, or as many whole rows as both sides can have in one box. */
static int bytes(struct half to, struct half from, size_t count, int kind, core_stream stream, bool blocking)
{
    core_context *context;
    size_t to_rows, from_rows;
    int error = begin(&to, &from, kind, !count, false, &context);
    if (error || !count)
        return error;
    size_t to_row = row_of(&to, &to_rows), from_row = row_of(&from, &from_rows), row = smaller(to_row, from_row);
    if (!holds(&to, to_row, to_rows, count) || !holds(&from, from_row, from_rows, count))
        return cudaErrorInvalidValue;
    bool alike = !to.array || !from.array || to_row == from_row;
    while (count && !error) {
        struct core_extent extent = { smaller(smaller(to_row - to.x, from_row - from.x), count), 1, 1 };
        if (alike && !to.x && !from.x && count >= row)
            extent = (struct core_extent){ row, count / row, 1 };
        to.pitch = from.pitch = extent.width;
        error = box(context, &to, &from, &extent, kind, stream, blocking);
        advance(&to, to_row, extent.width * extent.height);
        advance(&from, from_row, extent.width * extent.height);
        count -= extent.width * extent.height;
    }
    return error;
}

static int bytes_to(void *to, size_t x, size_t y, const void *from, size_t count, int kind, core_stream stream,
                    bool blocking)
{
    return bytes((struct half){ .is_array = true, .array = to, .x = x, .y = y }, (struct half){ .memory = from }, count,
                 kind, stream, blocking);
}

static int bytes_from(void *to, const void *from, size_t x, size_t y, size_t count, int kind, core_stream stream,
                      bool blocking)
{
    return bytes((struct half){ .memory = to }, (struct half){ .is_array = true, .array = from, .x = x, .y = y }, count,
                 kind, stream, blocking);
}

cudaError_t runtime_cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t count,
                                      cudaMemcpyKind kind)
{
    return runtime_waited(bytes_to(to, x, y, from, count, kind, 0, true));
}

cudaError_t runtime_cudaMemcpyToArray_ptds(cudaArray_t to, size_t x, size_t y, const void *from, size_t count,
                                           cudaMemcpyKind kind)
{
    return runtime_waited(bytes_to(to, x, y, from, count, kind, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t count,
                                           cudaMemcpyKind kind, cudaStream_t stream)
{
    return runtime_return(bytes_to(to, x, y, from, count, kind, stream, false));
}

cudaError_t runtime_cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t count,
                                        cudaMemcpyKind kind)
{
    return runtime_waited(bytes_from(to, from, x, y, count, kind, 0, true));
}

cudaError_t runtime_cudaMemcpyFromArray_ptds(void *to, cudaArray_const_t from, size_t x, size_t y, size_t count,
                                             cudaMemcpyKind kind)
{
    return runtime_waited(bytes_from(to, from, x, y, count, kind, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpyFromArrayAsync(void *to, cudaArray_const_t from, size_t x, size_t y, size_t count,
                                             cudaMemcpyKind kind, cudaStream_t stream)
{
    return runtime_return(bytes_from(to, from, x, y, count, kind, stream, false));
}

static int bytes_between(void *to, size_t to_x, size_t to_y, const void *from, size_t x, size_t y, size_t count,
                         int kind, core_stream stream)
{
    return bytes((struct half){ .is_array = true, .array = to, .x = to_x, .y = to_y },
                 (struct half){ .is_array = true, .array = from, .x = x, .y = y }, count, kind, stream, true);
}

cudaError_t runtime_cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x,
                                           size_t y, size_t count, cudaMemcpyKind kind)
{
    return runtime_waited(bytes_between(to, to_x, to_y, from, x, y, count, kind, 0));
}

cudaError_t runtime_cudaMemcpyArrayToArray_ptds(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                                size_t x, size_t y, size_t count, cudaMemcpyKind kind)
{
    return runtime_waited(bytes_between(to, to_x, to_y, from, x, y, count, kind, CORE_STREAM_PER_THREAD));
}
