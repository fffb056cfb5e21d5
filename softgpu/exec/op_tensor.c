/*
 * op_tensor.c: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: boxes of tensors, from and to shared memory.
 *
 * The tensor map (softgpu/tensor.h) says how the tensor lies in global memory. A box is copied line by line along the
 * first dimension. What lies beyond the tensor's edges is read as zero, or as NaN, and not written. The copy is done at
 * once, as other bulk copies are (op_copy.c); all bytes of the box count at the mbarrier.
 *
 * tile::gather4 and tile::scatter4 name four lines of a matrix. im2col names a pixel, and copies the channels of it and
 * of the pixels that follow in a bounding box, each moved by the instruction's offsets: what a filter's tap reads.
 * im2col::w does the same with a box that is one pixel high and deep: from the end of a row it goes on in the same row
 * of the next image. Behind all pixels, or with ::128 behind each 32, it also copies as many of the pixels that follow
 * as the instruction wants for its filter (wHalo).
 *
 * Swizzling exchanges pieces of 16 bytes (or 32, or 64) within a span of 32, 64 or 128 bytes, by the bits of the
 * address from 7 on. Where the box is narrower than the span, its lines are as far apart as spans.
 *
 * Follows: PTX ISA, "Tensors" and "cp.async.bulk.tensor"; CUDA driver API, "Tensor Map Object Management".
 */
#include "softgpu/check.h"
#include "softgpu/exec/access.h"
#include "softgpu/exec/check.h"
#include "softgpu/exec/decode.h"

#include <cuda.h>
#include <string.h>

#include "softgpu/memory.h"
#include "softgpu/tensor.h"

enum { PIECE = 16, ALIGN = 128, LINE_MOST = 256 * 8, GATHERED = 4, HALO_EACH = 32, PIXELS_OF_128 = 128 };

struct tensor_copy {
    exec_source map, at[SG_TENSOR_RANK];
    unsigned rank;
    unsigned coordinates;                 /* how many at[] has: rank, or 1 + GATHERED */
    exec_source offsets[SG_TENSOR_RANK - 2]; /* im2col; 0: none. im2col::w: only that of dimension 1 */
    exec_source halo;                        /* im2col::w; 0: no such mode */
    struct exec_insn shared, announce;    /* the addresses in shared memory */
    exec_source ranks;                    /* .multicast::cluster; 0: none */
    struct exec_insn reduce;
    bool to_shared, reduces, gathers;
    enum sg_tensor_im2col im2col;
};

/* One line of the box, as it goes from or to shared memory. first, end: its units that lie in the tensor. */
struct line { uint64_t global; uint32_t first, end; bool outside; };

static bool fault(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t at, int error,
                  const char *what)
{
    exec_fault_address(w, i, error, what, lane, at);
    return false;
}

/* Kernels can write maps (tensormap.replace), so nothing in them is trusted. */
static bool is_fit(const struct tensor_copy *c, const struct sg_tensor *t)
{
    if (t->magic != SG_TENSOR_MAGIC || t->rank != c->rank || t->type >= SG_TENSOR_TYPES || t->im2col != c->im2col ||
        t->swizzle >= SG_TENSOR_SWIZZLES || !sg_tensor_line(t) || sg_tensor_line_bytes(t) > LINE_MOST ||
        sg_tensor_line_bytes(t) % PIECE)
        return false;
    if (t->swizzle == SG_TENSOR_SWIZZLE_PIECES_32_FLIP && !c->to_shared)
        return false;
    for (unsigned k = 0; k < t->rank; k++)
        if (!t->steps[k])
            return false;
    return (!c->gathers || t->box[1] == 1) && (!c->im2col || c->im2col == SG_TENSOR_IM2COL_W128 || t->pixels);
}

static bool read_map(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t at, struct sg_tensor *t)
{
    const void *p = at & 63 ? NULL : exec_address_lane(w, lane, at, sizeof *t, SG_READ);
    if (!p)
        return fault(w, i, lane, at, at & 63 ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                     "tensor map");
    exec_copy_bytes(t, p, sizeof *t);
    return is_fit(i->extra, t) || fault(w, i, lane, at, CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                        "a tensor map of another kind or dimension");
}

/* The bits of the address from 7 on change those of the piece's place in its span. */
static uint64_t swizzled(const struct sg_tensor *t, uint64_t at)
{
    static const struct { uint8_t bits, shift;
    } ways[SG_TENSOR_SWIZZLES] = {
        [SG_TENSOR_SWIZZLE_32] = { 1, 4 },
        [SG_TENSOR_SWIZZLE_64] = { 2, 4 },
        [SG_TENSOR_SWIZZLE_128] = { 3, 4 },
        [SG_TENSOR_SWIZZLE_PIECES_32] = { 2, 5 },
        [SG_TENSOR_SWIZZLE_PIECES_32_FLIP] = { 2, 5 },
        [SG_TENSOR_SWIZZLE_PIECES_64] = { 1, 6 },
    };
    return at ^ (at >> 7 & ((1u << ways[t->swizzle].bits) - 1)) << ways[t->swizzle].shift;
}

/* The piece as it stands in shared memory at that address. */
static exec_16_bytes flipped(const struct sg_tensor *t, uint64_t at, exec_16_bytes piece)
{
    if (t->swizzle != SG_TENSOR_SWIZZLE_PIECES_32_FLIP || !(at >> 7 & 1))
        return piece;
    uint64_t halves[2];
    memcpy(halves, &piece, sizeof halves);
    const uint64_t other[2] = { halves[1], halves[0] };
    memcpy(&piece, other, sizeof piece);
    return piece;
}

/* Copies between a line's bytes and shared memory, piece by piece. */
static bool line_shared(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                        uint64_t shared, unsigned char *bytes, unsigned size, bool store)
{
    for (unsigned at = 0; at < size; at += PIECE) {
        void *p = exec_address_lane(w, lane, swizzled(t, shared + at), PIECE, store ? SG_WRITE : SG_READ);
        if (!p)
            return fault(w, i, lane, shared + at, CUDA_ERROR_ILLEGAL_ADDRESS, "shared memory of a tensor copy");
        if (store) {
            exec_store128(p, flipped(t, shared + at, *(const exec_16_bytes *)(const void *)(bytes + at)));
            if (sg_check)
                check_written(w, swizzled(t, shared + at), PIECE);
        } else
            *(exec_16_bytes *)(void *)(bytes + at) = exec_load128(p);
    }
    return true;
}

static void fill_line(const struct sg_tensor *t, unsigned char *bytes, unsigned size)
{
    memset(bytes, 0, size);
    unsigned each = sg_tensor_unit(t->type).shared;
    const uint16_t nan = SG_TENSOR_OOB_NAN;
    for (unsigned at = 0; t->fill_nan && each <= sizeof(double) && at + sizeof nan <= size; at += sizeof nan)
        memcpy(bytes + at, &nan, sizeof nan);
}

static void flush_line(const struct sg_tensor *t, unsigned char *bytes, unsigned size)
{
    if (t->type != SG_TENSOR_F32_FTZ && t->type != SG_TENSOR_TF32_FTZ)
        return;
    for (unsigned at = 0; at < size; at += 4) {
        uint32_t v;
        memcpy(&v, bytes + at, 4);
        v = v & 0x7f800000 ? v : v & 0x80000000;
        memcpy(bytes + at, &v, 4);
    }
}

static const uint8_t reduced_as[SG_TENSOR_TYPES] = {
    [SG_TENSOR_U32] = PTX_U32, [SG_TENSOR_S32] = PTX_S32, [SG_TENSOR_U64] = PTX_U64, [SG_TENSOR_S64] = PTX_S64,
    [SG_TENSOR_F16] = PTX_F16, [SG_TENSOR_F32] = PTX_F32, [SG_TENSOR_F64] = PTX_F64, [SG_TENSOR_BF16] = PTX_BF16,
    [SG_TENSOR_F32_FTZ] = PTX_F32
};

/* Between the line's bytes and what of it lies in the tensor. */
static bool line_global(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                        const struct line *l, unsigned char *bytes)
{
    const struct tensor_copy *c = i->extra;
    const struct sg_tensor_unit unit = sg_tensor_unit(t->type);
    if (l->outside || l->first >= l->end)
        return true;
    unsigned count = l->end - l->first, n = count * unit.global;
    uint64_t at = l->global + (uint64_t)l->first * unit.global;
    unsigned rights = c->to_shared ? SG_READ : c->reduces ? SG_READ | SG_WRITE : SG_WRITE;
    unsigned char *p = at & EXEC_WINDOW_BIT ? NULL : exec_address_lane(w, lane, at, n, rights);
    unsigned char *mine = bytes + l->first * unit.shared;
    if (!p)
        return fault(w, i, lane, at, CUDA_ERROR_ILLEGAL_ADDRESS, "global memory of a tensor copy");
    if (c->reduces) {
        struct exec_insn reduce = c->reduce;
        reduce.type = reduced_as[t->type];
        reduce.size = unit.shared;
        if (!reduce.type || !exec_reduces(&reduce))
            return fault(w, i, lane, at, CUDA_ERROR_ILLEGAL_INSTRUCTION, "no such reduction of the tensor's type");
        if (at % reduce.size) /* a map that a kernel has made */
            return fault(w, i, lane, at, CUDA_ERROR_MISALIGNED_ADDRESS, "global memory of a tensor copy");
        exec_reduce(w, &reduce, p, mine, n);
        return true;
    }
    if (unit.global != unit.shared)
        for (unsigned k = 0; k < count; k++)
            exec_copy_bytes(c->to_shared ? mine + k * unit.shared : p + k * unit.global,
                            c->to_shared ? p + k * unit.global : mine + k * unit.shared, unit.global);
    else
        exec_copy_bytes(c->to_shared ? mine : p, c->to_shared ? p : mine, n);
    if (sg_check && !c->to_shared)
        check_written(w, at, n);
    return true;
}

/* The line that begins at that index of each dimension. */
static void line_find(const struct sg_tensor *t, const int64_t index[], struct line *l)
{
    const struct sg_tensor_unit unit = sg_tensor_unit(t->type);
    const int64_t begin = index[0] / unit.elements, last = t->last[0] / unit.elements, count = sg_tensor_line(t);
    l->outside = index[0] % unit.elements != 0;
    l->global = t->address + (uint64_t)(begin * unit.global);
    for (unsigned k = 1; k < t->rank; k++) {
        l->outside |= index[k] < 0 || index[k] > (int64_t)t->last[k];
        l->global += (uint64_t)index[k] * t->strides[k - 1];
    }
    int64_t first = begin < 0 ? -begin : 0, end = last + 1 - begin;
    l->first = (uint32_t)(first > count ? count : first);
    l->end = (uint32_t)(end < 0 ? 0 : end > count ? count : end);
}

static bool copy_line(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                      const int64_t index[], uint64_t shared)
{
    const struct tensor_copy *c = i->extra;
    _Alignas(16) unsigned char line[LINE_MOST];
    unsigned size = sg_tensor_line_bytes(t);
    struct line l;
    line_find(t, index, &l);
    if (!c->to_shared)
        return line_shared(w, i, lane, t, shared, line, size, false) && line_global(w, i, lane, t, &l, line);
    fill_line(t, line, size);
    if (!line_global(w, i, lane, t, &l, line))
        return false;
    flush_line(t, line, size);
    return line_shared(w, i, lane, t, shared, line, size, true);
}

/* Counts `number` up along dimensions 1 and higher; false: that was the last line. */
static bool line_next(const struct sg_tensor *t, unsigned number[])
{
    for (unsigned k = 1; k < t->rank; k++) {
        if (++number[k] < sg_tensor_count(t, k))
            return true;
        number[k] = 0;
    }
    return false;
}

/* The next pixel within the bounding box of im2col. */
static void pixel_next(const struct sg_tensor *t, int64_t at[])
{
    const unsigned last = t->rank - 1u, end = t->im2col == SG_TENSOR_IM2COL ? last : 2;
    for (unsigned k = 1; k < end; k++) {
        at[k] += t->steps[k];
        if (at[k] <= (int64_t)t->last[k] + t->upper[k - 1])
            return;
        at[k] = t->lower[k - 1];
    }
    at[last] += end == last ? t->steps[last] : 1;
}

static uint16_t offset_of(const struct exec_warp *w, exec_source s, unsigned lane)
{
    return s ? (uint16_t)((const uint32_t *)exec_row(w, s))[lane] : 0;
}

/* Where a copy stands: the line in shared memory, and what has been copied. */
struct progress {
    uint64_t shared, lines;
};

/* The pixel `at`, moved by the instruction's offsets, and the next count - 1 of them; at becomes the one behind. */
static bool copy_pixels(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                        int64_t at[], unsigned count, unsigned pitch, struct progress *p)
{
    const struct tensor_copy *c = i->extra;
    for (unsigned n = 0; n < count; n++) {
        int64_t index[SG_TENSOR_RANK];
        for (unsigned k = 0; k < c->rank; k++)
            index[k] = at[k] + (k && k < c->rank - 1 ? offset_of(w, c->offsets[k - 1], lane) : 0);
        if (!copy_line(w, i, lane, t, index, p->shared))
            return false;
        p->shared += pitch;
        p->lines++;
        pixel_next(t, at);
    }
    return true;
}

/* im2col in all its forms. */
static bool copy_image(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                       int64_t at[], unsigned pitch, struct progress *p)
{
    const struct tensor_copy *c = i->extra;
    const unsigned pixels = c->im2col == SG_TENSOR_IM2COL_W128 ? PIXELS_OF_128 : t->pixels,
                   each = c->im2col == SG_TENSOR_IM2COL_W128 ? HALO_EACH : pixels, halo = offset_of(w, c->halo, lane);
    for (unsigned done = 0; done < pixels; done += each) {
        if (!copy_pixels(w, i, lane, t, at, each, pitch, p))
            return false;
        int64_t behind[SG_TENSOR_RANK];
        memcpy(behind, at, sizeof behind);
        if (!copy_pixels(w, i, lane, t, behind, halo, pitch, p))
            return false;
    }
    return true;
}

/* What the instruction copies, to or from `shared`. *lines: how many lines that is. */
static bool copy_box(struct exec_warp *w, const struct exec_insn *i, unsigned lane, const struct sg_tensor *t,
                     const int32_t from[], uint64_t shared, uint64_t *lines)
{
    const struct tensor_copy *c = i->extra;
    const unsigned span = sg_tensor_span(t), pitch = span ? span : sg_tensor_line_bytes(t);
    unsigned number[SG_TENSOR_RANK] = { 0 };
    int64_t at[SG_TENSOR_RANK] = { 0 }, index[SG_TENSOR_RANK];
    struct progress p = { .shared = shared };
    bool more;
    for (unsigned k = 0; k < c->coordinates; k++)
        at[k] = index[k] = from[k];
    if (c->im2col) {
        const bool done = copy_image(w, i, lane, t, at, pitch, &p);
        *lines = p.lines;
        return done;
    }
    do {
        for (unsigned k = 1; !c->gathers && k < c->rank; k++)
            index[k] = at[k] + (int64_t)number[k] * t->steps[k];
        if (c->gathers)
            index[1] = at[1 + p.lines];
        if (!copy_line(w, i, lane, t, index, p.shared))
            return false;
        p.shared += pitch;
        p.lines++;
        more = c->gathers ? p.lines < GATHERED : line_next(t, number);
    } while (more);
    *lines = p.lines;
    return true;
}

static bool copy_lane(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const struct tensor_copy *c = i->extra;
    struct sg_tensor t;
    int32_t from[SG_TENSOR_RANK];
    uint64_t shared = exec_generic_address(w, &c->shared, lane), lines,
             announce = c->to_shared ? exec_generic_address(w, &c->announce, lane) : 0;
    if (!read_map(w, i, lane, ((const uint64_t *)exec_row(w, c->map))[lane], &t))
        return false;
    if (shared & (ALIGN - 1))
        return fault(w, i, lane, shared, CUDA_ERROR_MISALIGNED_ADDRESS, "shared memory of a tensor copy");
    for (unsigned k = 0; k < c->coordinates; k++)
        from[k] = (int32_t)((const uint32_t *)exec_row(w, c->at[k]))[lane];
    uint32_t ranks = c->ranks ? ((const uint32_t *)exec_row(w, c->ranks))[lane] & 0xffff : 1;
    for (; ranks; ranks &= ranks - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(ranks);
        if (!copy_box(w, i, lane, &t, from, c->ranks ? exec_shared_of_rank(w->block, shared, rank) : shared, &lines))
            return false;
        if (c->to_shared && !exec_bytes_complete(w, &c->announce, lane,
                                                 c->ranks ? exec_shared_of_rank(w->block, announce, rank) : announce,
                                                 lines * sg_tensor_line_bytes(&t)))
            return false;
    }
    return true;
}

static void run_tensor(struct exec_warp *w, const struct exec_insn *i)
{
    for (uint32_t m = w->mask; m; m &= m - 1)
        if (!copy_lane(w, i, (unsigned)__builtin_ctz(m)))
            return;
}

/* --- decoding --- */

/* [map, {coordinates}] */
static int decode_box(struct exec_decoder *d, const struct ptx_operand *o, struct tensor_copy *c)
{
    const struct ptx_operand *elements[SG_TENSOR_RANK];
    struct ptx_operand scratch[SG_TENSOR_RANK];
    if (o->kind != PTX_OP_LIST || !o->bracketed || o->element_count != 2 ||
        decode_elements(d, &o->elements[1], elements, scratch, SG_TENSOR_RANK) != c->coordinates)
        return decode_error(d, "a tensor map and %u coordinates are wanted", c->coordinates);
    if (decode_source(d, &o->elements[0], PTX_B64, &c->map))
        return -1;
    for (unsigned k = 0; k < c->coordinates; k++)
        if (decode_source(d, elements[k], PTX_B32, &c->at[k]))
            return -1;
    return 0;
}

/* im2col: {offsets} behind the mbarrier; im2col::w: {wHalo, wOffset}. */
static int decode_offsets(struct exec_decoder *d, const struct ptx_operand *o, struct tensor_copy *c)
{
    const struct ptx_operand *elements[SG_TENSOR_RANK - 2];
    struct ptx_operand scratch[SG_TENSOR_RANK - 2];
    if (c->im2col != SG_TENSOR_IM2COL) {
        if (decode_elements(d, o, elements, scratch, SG_TENSOR_RANK - 2) != 2)
            return decode_error(d, "a halo and an offset are wanted");
        return decode_source(d, elements[0], PTX_B16, &c->halo) || decode_source(d, elements[1], PTX_B16, c->offsets)
                   ? -1
                   : 0;
    }
    if (decode_elements(d, o, elements, scratch, SG_TENSOR_RANK - 2) != c->rank - 2)
        return decode_error(d, "%u offsets are wanted", c->rank - 2);
    for (unsigned k = 0; k < c->rank - 2; k++)
        if (decode_source(d, elements[k], PTX_B16, &c->offsets[k]))
            return -1;
    return 0;
}

static int decode_mode(struct exec_decoder *d, struct tensor_copy *c)
{
    static const char *const ranks[] = { "1d", "2d", "3d", "4d", "5d" };
    for (unsigned k = 0; k < SG_TENSOR_RANK; k++)
        if (decode_has(d, ranks[k]))
            c->rank = k + 1;
    c->to_shared = !decode_has(d, "bulk_group");
    c->reduces = !strcmp(d->in->modifiers[0], "reduce");
    c->im2col = decode_has(d, c->to_shared ? "im2col" : "im2col_no_offs") ? SG_TENSOR_IM2COL
                : c->to_shared && decode_has(d, "im2col::w")              ? SG_TENSOR_IM2COL_W
                : c->to_shared && decode_has(d, "im2col::w::128")         ? SG_TENSOR_IM2COL_W128
                                                                          : SG_TENSOR_TILED;
    c->gathers = decode_has(d, c->to_shared ? "tile::gather4" : "tile::scatter4");
    c->coordinates = c->gathers ? 1 + GATHERED : c->rank;
    for (uint32_t k = 0; k < d->in->modifier_count; k++)
        if (!c->im2col && !c->gathers &&
            (!strncmp(d->in->modifiers[k], "im2col", 6) || !strncmp(d->in->modifiers[k], "tile::", 6)))
            return decode_error(d, "'%s' is not implemented", d->in->modifiers[k]);
    if (!c->rank || (c->im2col && c->rank < 3) || (c->gathers && c->rank != 2) || (c->reduces && c->gathers))
        return decode_error(d, "a tensor of this dimension");
    return 0;
}

int decode_tensor_copy(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct tensor_copy *c = exec_kernel_own(d->kernel, sizeof *c);
    struct exec_insn n = { .run = run_tensor, .extra = c };
    if (!c)
        return decode_error(d, "no host memory");
    if (decode_mode(d, c))
        return -1;
    c->shared.line = c->announce.line = in->line;
    const uint32_t wanted = !c->to_shared ? 2 : c->im2col ? 4 : 3;
    if (in->operand_count < wanted)
        return decode_error(d, "operands");
    if (c->reduces && decode_reduction_kind(d, &c->reduce))
        return -1;
    if (decode_box(d, &in->operands[c->to_shared], c) ||
        decode_memory(d, &in->operands[!c->to_shared], PTX_SPACE_SHARED, &c->shared))
        return -1;
    if (c->to_shared && (decode_memory(d, &in->operands[2], PTX_SPACE_SHARED, &c->announce) ||
                         (c->im2col && decode_offsets(d, &in->operands[3], c))))
        return -1;
    if (decode_has(d, "multicast::cluster") &&
        (in->operand_count <= wanted || decode_source(d, &in->operands[wanted], PTX_B16, &c->ranks)))
        return decode_error(d, "no mask of blocks");
    return decode_put_guarded(d, n);
}
