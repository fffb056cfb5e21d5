/*
 * matrix.c: fragments of matrices: which element is where, and taking them out of registers and putting them back. See
 * matrix.h.
 *
 * A sparse A holds half of its elements. For each chunk of a row, four bits of metadata say where the two that are
 * there belong. Figures of the PTX ISA ("Sparse matrix storage") say which lane has which: a lane has 16 bits (four
 * chunks) of a row in its low half and of the row eight below in its high half where elements have 16 or 32 bits, and
 * 32 bits of one row where they are narrower.
 */
#include "softgpu/exec/matrix.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

const struct exec_element_traits exec_elements[E_COUNT] = {
    [E_NONE] = { "", 0, 0 },      [E_F16] = { "f16", 16, 0 },  [E_BF16] = { "bf16", 16, 0 },
    [E_TF32] = { "tf32", 32, 0 }, [E_F32] = { "f32", 32, 0 },  [E_F64] = { "f64", 64, 0 },
    [E_S8] = { "s8", 8, 1 },      [E_U8] = { "u8", 8, 1 },     [E_S4] = { "s4", 4, 1 },
    [E_U4] = { "u4", 4, 1 },      [E_B1] = { "b1", 1, 1 },     [E_S32] = { "s32", 32, 1 },
    [E_E4M3] = { "e4m3", 8, 0 },  [E_E5M2] = { "e5m2", 8, 0 }, [E_E3M2] = { "e3m2", 8, 0 },
    [E_E2M3] = { "e2m3", 8, 0 },  [E_E2M1] = { "e2m1", 8, 0 }, [E_E2M1_PACKED] = { "", 4, 0 },
};

enum exec_small exec_small_of(enum exec_element t)
{
    static const uint8_t formats[E_COUNT] = {
        [E_F16] = EXEC_SMALL_F16,   [E_BF16] = EXEC_SMALL_BF16, [E_TF32] = EXEC_SMALL_TF32, [E_F32] = EXEC_SMALL_F32,
        [E_E4M3] = EXEC_SMALL_E4M3, [E_E5M2] = EXEC_SMALL_E5M2, [E_E3M2] = EXEC_SMALL_E3M2, [E_E2M3] = EXEC_SMALL_E2M3,
        [E_E2M1] = EXEC_SMALL_E2M1, [E_E2M1_PACKED] = EXEC_SMALL_E2M1,
    };
    return (enum exec_small)formats[t];
}

unsigned exec_sparse_column(const struct exec_warp *w, const struct exec_sparse *x, unsigned row, unsigned stored)
{
    const uint32_t *metadata = exec_row(w, x->metadata);
    unsigned each = x->chunk / 2, chunk = stored / each; /* `each` are stored of a chunk */
    unsigned group = row % 8 * 4, lower = row / 8, lane, shift;
    if (x->bits >= 16) {
        lane = group + (x->k / x->chunk > 4 ? 2 * x->selector : x->selector) + chunk / 4;
        shift = 16 * lower + chunk % 4 * 4;
    } else {
        lane = group + 2 * x->selector + 2 * (chunk / 8) + lower;
        shift = chunk % 8 * 4;
    }
    unsigned bits = metadata[lane & 31] >> shift & 15, within = stored % each;
    if (x->chunk == 2) /* tf32: as two halves of 16 bits each */
        return chunk * 2 + (bits & 3) / 2;
    unsigned unit = x->chunk / 4; /* 4-bit elements come in pairs */
    return chunk * x->chunk + (within / unit ? bits >> 2 : bits & 3) * unit + within % unit;
}

int decode_sparse(struct exec_decoder *d, struct exec_sparse *x, enum exec_element type,
                  const struct ptx_operand *metadata, const struct ptx_operand *selector)
{
    x->bits = exec_elements[type].bits;
    x->chunk = x->bits == 32 ? 2 : x->bits == 4 ? 8 : 4;
    if (selector->kind != PTX_OP_INTEGER || (uint64_t)selector->integer > 3)
        return decode_error(d, "operands for the metadata");
    x->selector = (unsigned)selector->integer;
    return decode_source(d, metadata, PTX_B32, &x->metadata);
}

bool exec_matrix_whole(struct exec_warp *w, const struct exec_insn *i)
{
    if (w->mask == UINT32_MAX)
        return true;
    exec_fault(w, i, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a matrix instruction without the whole warp");
    return false;
}

bool decode_matrix_shape(const struct exec_decoder *d, unsigned *m, unsigned *n, unsigned *k)
{
    for (uint32_t i = 0; i < d->in->modifier_count; i++)
        if (sscanf(d->in->modifiers[i], "m%un%uk%u", m, n, k) == 3)
            return *m && *n && *k && !(*m % 8) && !(*n % 8) && *m <= 32 && *n <= 32 && *k <= EXEC_MATRIX_INNER;
    return false;
}

unsigned decode_matrix_types(const struct exec_decoder *d, enum exec_element types[4])
{
    unsigned count = 0;
    for (uint32_t i = 0; i < d->in->modifier_count; i++)
        for (unsigned e = E_F16; e <= E_E2M1; e++)
            if (!strcmp(d->in->modifiers[i], exec_elements[e].name) && count < 4)
                types[count++] = (enum exec_element)e;
    return count;
}

struct where {
    unsigned row, column, matrix;
};

static struct where place_wmma(const struct exec_fragment *f, unsigned lane, unsigned n, unsigned per_lane)
{
    unsigned at = (lane * per_lane + n) % (f->rows * f->columns);
    if (f->which == 'b')
        return (struct where){ .row = at % f->rows, .column = at / f->rows };
    return (struct where){ .row = at / f->columns, .column = at % f->columns };
}

/* per: elements in a register */
static struct where place_mma(const struct exec_fragment *f, unsigned lane, unsigned n, unsigned per)
{
    unsigned group = lane / 4, thread = lane % 4, reg = n / per, j = n % per;
    unsigned halves = f->rows / 8 ? f->rows / 8 : 1;
    if (f->which == 'a')
        return (struct where){ .row = group + 8 * (reg % halves), .column = reg / halves * 4 * per + thread * per + j };
    if (f->which == 'b')
        return (struct where){ .row = reg * 4 * per + thread * per + j, .column = group };
    return (struct where){ .row = group + 8 * (n / 2), .column = 2 * thread + n % 2 };
}

/* Lanes 4q to 4q+3 and 4q+16 to 4q+19 hold matrix q. */
static struct where place_quarters(const struct exec_fragment *f, unsigned lane, unsigned n, bool words)
{
    unsigned upper = lane >= 16 ? 4 : 0, in_quad = lane % 4 + upper;
    struct where p = { .matrix = lane % 16 / 4 };
    if (f->which == 'a') {
        p.row = f->by_column ? n % 4 + upper : in_quad;
        p.column = f->by_column ? lane % 4 : n;
    } else if (f->which == 'b') {
        p.row = f->by_column ? n : lane % 4;
        p.column = f->by_column ? in_quad : n + upper;
    } else if (words) {
        p.row = (lane & 1) + (n & 2) + upper;
        p.column = (n & 4) + (lane & 2) + (n & 1);
    } else {
        p.row = in_quad;
        p.column = n;
    }
    return p;
}

static int place_elements(struct exec_decoder *d, struct exec_part *p, const struct exec_fragment *f, unsigned per)
{
    unsigned total = f->rows * f->columns, matrices = f->layout == EXEC_LAYOUT_QUARTERS ? 4 : 1;
    unsigned held = p->per_lane * SG_LANES;
    bool repeated = f->layout == EXEC_LAYOUT_WMMA && held > total && held % total == 0;
    if (held != total * matrices && !repeated)
        return decode_error(d, "%u registers for a matrix of %u by %u", p->count, f->rows, f->columns);
    p->place = exec_kernel_own(d->kernel, held * sizeof *p->place);
    if (!p->place)
        return decode_error(d, "no host memory");
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < p->per_lane; n++) {
            struct where at = f->layout == EXEC_LAYOUT_WMMA  ? place_wmma(f, l, n, p->per_lane)
                              : f->layout == EXEC_LAYOUT_MMA ? place_mma(f, l, n, per)
                                                             : place_quarters(f, l, n, per == 1);
            if (at.row >= f->rows || at.column >= f->columns || at.matrix >= matrices)
                return decode_error(d, "a matrix of %u by %u", f->rows, f->columns);
            p->place[n * SG_LANES + l] = (uint16_t)(at.matrix * total + at.row * f->columns + at.column);
        }
    return 0;
}

/* Of numbers that products.c knows. B with rows of 4 (k) is left out. */
static bool lies_in_lines(const struct exec_fragment *f, enum exec_element type)
{
    if (f->which == 'c')
        return f->columns == 8 && (type == E_F32 || type == E_F16);
    return (f->which == 'a' || f->columns == 8) && (type == E_F16 || type == E_BF16 || type == E_TF32 ||
                                                    type == E_E4M3 || type == E_E5M2);
}

int decode_part(struct exec_decoder *d, struct exec_part *p, const struct exec_fragment *f, enum exec_element type,
                const struct ptx_operand *o, bool destination)
{
    const struct ptx_operand *list[EXEC_MATRIX_REGISTERS];
    struct ptx_operand scratch[EXEC_MATRIX_REGISTERS];
    uint32_t count = decode_elements(d, o, list, scratch, EXEC_MATRIX_REGISTERS);
    unsigned bits = exec_elements[type].bits;
    if (!count || !bits)
        return decode_error(d, "a matrix of %u registers", count);
    p->type = type;
    p->count = (uint8_t)count;
    p->wide = bits == 64;
    unsigned per = p->wide ? 1 : 32 / bits;
    p->per_lane = count * per;
    if (f->layout == EXEC_LAYOUT_MMA && f->rows >= 8 && lies_in_lines(f, type)) {
        p->lines = f->which;
        p->halves = (uint8_t)(f->rows / 8);
        p->width = (uint16_t)(f->which == 'b' ? f->rows : f->columns);
    }
    if (place_elements(d, p, f, per))
        return -1;
    for (uint32_t k = 0; k < count; k++) {
        enum ptx_type want = p->wide ? PTX_B64 : PTX_B32, declared;
        if (destination ? decode_destination(d, list[k], want, &p->to[k], &declared)
                        : decode_source(d, list[k], want, &p->from[k]))
            return -1;
        if (destination && ptx_type_size(declared) != ptx_type_size(want))
            return decode_error(d, "a register of type %s", ptx_type_name(declared));
    }
    return 0;
}

void decode_matrix_source(struct exec_matrix_rows *x, exec_source at) { x->from[x->reads++] = at; }

void decode_matrix_reads(struct exec_matrix_rows *x, const struct exec_part *p)
{
    for (uint8_t k = 0; k < p->count; k++) {
        x->wide_from |= (uint32_t)p->wide << x->reads;
        decode_matrix_source(x, p->from[k]);
    }
}

void decode_matrix_writes(struct exec_matrix_rows *x, const struct exec_part *p)
{
    for (uint8_t k = 0; k < p->count; k++) {
        x->wide_to |= (uint32_t)p->wide << x->writes;
        x->to[x->writes++] = p->to[k];
    }
}

int decode_put_whole(struct exec_decoder *d, struct exec_insn n)
{
    if (n.known == EXEC_STRAIGHT_NONE)
        n.known = EXEC_STRAIGHT_CONTROL;
    return decode_converge(d) || decode_put_guarded(d, n) ? -1 : 0;
}
