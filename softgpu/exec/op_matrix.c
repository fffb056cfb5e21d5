/*
 * op_matrix.c: products of matrices that a warp holds together: mma, mma.sp, block-scaled mma, wmma.mma.
 *
 * Execution takes A, B and C apart by the tables of matrix.h, multiplies, and puts D together. Products of f16, bf16,
 * tf32 and narrower numbers are exact in f32. How they are added up is not specified; here it is as an H200 does it
 * (exec_accumulation), but in f32 in order of k for the types that only later devices have.
 */
#include "softgpu/exec/matrix.h"

#include <cuda.h>
#include <math.h>
#include <string.h>

#include "softgpu/alu/small_float.h"

enum scale_type { SCALE_NONE, SCALE_UE8M0, SCALE_UE4M3 };
struct matrix {
    struct exec_matrix_rows rows;
    unsigned m, n, k;
    unsigned matrices; /* 1, or 4: the warp's quarters compute one each */
    bool clamp, xor_popc, towards_zero, four; /* four: products of four k at a time, as of wmma's tf32 */
    struct exec_part a, b, c, d;
    struct exec_sparse sparse; /* A */
    /* block-scaled. scales: of a row of A and a column of B, 0: none; which: lanes and bytes that hold them */
    enum scale_type scale_type;
    unsigned scales;
    exec_source scale_a, scale_b, byte_a, byte_b, thread_a, thread_b;
};

/* Where the n-th element of A that a lane holds goes among m * k. */
static unsigned place_of_a(const struct exec_warp *w, const struct matrix *x, unsigned lane, unsigned n)
{
    unsigned at = x->a.place[n * SG_LANES + lane];
    if (!x->sparse.chunk)
        return at;
    unsigned row = at / (x->k / 2);
    return row * x->k + exec_sparse_column(w, &x->sparse, row, at % (x->k / 2));
}

/* --- scales --- */

static float scale_of(const struct matrix *x, uint32_t byte)
{
    if (x->scale_type == SCALE_UE4M3)
        return small_to_f32(byte & 0x7f, FORMAT_E4M3);
    if (byte == 255)
        return bits_float(0x7fc00000);
    return ldexpf(1, (int)byte - 127);
}

static uint32_t selector_of(const struct exec_warp *w, exec_source s) { return *(const uint32_t *)exec_row(w, s); }

/* scale[i * x->scales + block]. Lane 4 * g + 2 * thread holds row g of A, the next one row g + 8; lane 4 * g + thread
   holds column g of B. Blocks are bytes one behind the other. */
static void take_scales(const struct exec_warp *w, const struct matrix *x, float *a, float *b)
{
    const uint32_t *from_a = exec_row(w, x->scale_a), *from_b = exec_row(w, x->scale_b);
    unsigned byte_a = selector_of(w, x->byte_a), byte_b = selector_of(w, x->byte_b);
    unsigned thread_a = selector_of(w, x->thread_a), thread_b = selector_of(w, x->thread_b);
    for (unsigned block = 0; block < x->scales; block++) {
        for (unsigned row = 0; row < x->m; row++)
            a[row * x->scales + block] =
                scale_of(x, from_a[(row % 8 * 4 + 2 * thread_a + row / 8) & 31] >> ((byte_a + block) % 4 * 8) & 255);
        for (unsigned column = 0; column < x->n; column++)
            b[column * x->scales + block] =
                scale_of(x, from_b[(column * 4 + thread_b) & 31] >> ((byte_b + block) % 4 * 8) & 255);
    }
}

/* --- products --- */

/* Block by block of k: the sum of its products is scaled. */
static void add_scaled(const struct exec_warp *w, const struct matrix *x, const float *a, const float *b, float *c)
{
    float scale_a[16 * 4], scale_b[8 * 4];
    unsigned size = x->k / x->scales;
    take_scales(w, x, scale_a, scale_b);
    for (unsigned m = 0; m < x->m; m++)
        for (unsigned n = 0; n < x->n; n++)
            for (unsigned block = 0; block < x->scales; block++) {
                float sum = 0;
                for (unsigned k = block * size; k < (block + 1) * size; k++)
                    sum += a[m * x->k + k] * b[k * x->n + n];
                c[m * x->n + n] += sum * scale_a[m * x->scales + block] * scale_b[n * x->scales + block];
            }
}

/* The elements of an operand that lies in lines: none has to be looked for. */
static void take_lines(const struct exec_warp *w, const struct exec_part *p, float *to)
{
    const struct exec_product_functions *f = w->row->products;
    const unsigned line = 4 * 32 / exec_elements[p->type].bits;
    void (*widen)(float *, const void *, unsigned) = f->widen_lines[exec_small_of(p->type)];
    _Alignas(64) float turned[8 * EXEC_MATRIX_INNER];
    for (unsigned r = 0; r < p->count; r++) {
        const void *row = exec_row(w, p->from[r]);
        if (p->lines == 'a')
            widen(to + r % p->halves * 8 * p->width + r / p->halves * line, row, p->width);
        else if (p->lines == 'b')
            widen(turned + r * line, row, p->width);
        else if (p->type == E_F16)
            widen(to + r * 8 * 8, row, 8);
        else if (r % 2)
            f->mix_lines(to + r / 2 * 8 * 8, exec_row(w, p->from[r - 1]), row);
    }
    if (p->lines == 'b')
        f->turn(to, turned, p->width);
}

static void put_lines(struct exec_warp *w, const struct exec_part *p, const float *from)
{
    const struct exec_product_functions *f = w->row->products;
    for (unsigned r = 0; r < p->count; r++)
        if (p->type == E_F16)
            f->narrow_lines(w->rows + p->to[r], from + r * 8 * 8);
        else if (r % 2)
            f->part_lines(w->rows + p->to[r - 1], w->rows + p->to[r], from + r / 2 * 8 * 8);
}

/* The elements of an operand, row by row of lanes. */
static void take_real(const struct exec_warp *w, const struct matrix *x, const struct exec_part *p, float *to)
{
    const unsigned bits = exec_elements[p->type].bits, per = 32 / bits;
    if (p->lines && !(x->sparse.chunk && p == &x->a)) {
        take_lines(w, p, to);
        return;
    }
    const unsigned middle = p->type == E_E2M1 ? 2 : 0;                 /* in the middle of its byte */
    _Alignas(64) float values[SG_LANES];
    for (unsigned n = 0; n < p->per_lane; n++) {
        w->row->from_small[exec_small_of(p->type)](values, exec_row(w, p->from[n / per]), n % per * bits + middle);
        if (x->sparse.chunk && p == &x->a)
            for (unsigned l = 0; l < SG_LANES; l++)
                to[place_of_a(w, x, l, n)] = values[l];
        else
            for (unsigned l = 0; l < SG_LANES; l++)
                to[p->place[n * SG_LANES + l]] = values[l];
    }
}

static void put_real(struct exec_warp *w, const struct exec_part *p, const float *from)
{
    if (p->lines) {
        put_lines(w, p, from);
        return;
    }
    for (unsigned n = 0; n < p->per_lane; n++) {
        const uint16_t *place = &p->place[n * SG_LANES];
        uint32_t *to = (uint32_t *)(void *)(w->rows + p->to[p->type == E_F16 ? n / 2 : n]);
        if (p->type != E_F16)
            for (unsigned l = 0; l < SG_LANES; l++)
                to[l] = float_bits(from[place[l]]);
        else
            for (unsigned l = 0; l < SG_LANES; l++) {
                uint32_t half = small_from_f32(float_bits(from[place[l]]), FORMAT_F16, SMALL_RN, false);
                to[l] = n % 2 ? to[l] | half << 16 : half;
            }
    }
}

static bool is_fp8(enum exec_element t) { return t == E_E4M3 || t == E_E5M2; }

/* Exponents of inf and NaN are the highest, so elements with one take the way of those far outside. */
static struct exec_accumulation accumulation_of(const struct matrix *x)
{
    const enum exec_element t = x->a.type;
    if (t == E_F16 || is_fp8(t))
        return (struct exec_accumulation){ .kept = 25, .step = x->sparse.chunk || t == E_F16 ? x->k : 16, .least = -14,
                                           .odd = x->d.type == E_F16, .sparse = x->sparse.chunk != 0 };
    if (t == E_BF16 || t == E_TF32)
        return (struct exec_accumulation){ .kept = 25, .step = x->four ? 4 : x->k, .least = -126,
                                           .sparse = x->sparse.chunk != 0 };
    return (struct exec_accumulation){ .kept = 0 };
}

static void multiply_real(struct exec_warp *w, const struct matrix *x)
{
    static _Thread_local _Alignas(64) float a[32 * EXEC_MATRIX_INNER], b[EXEC_MATRIX_INNER * 32], c[32 * 32];
    if (x->sparse.chunk)
        memset(a, 0, x->m * x->k * sizeof *a);
    take_real(w, x, &x->a, a);
    take_real(w, x, &x->b, b);
    take_real(w, x, &x->c, c);
    if (x->scales)
        add_scaled(w, x, a, b, c);
    else {
        /* of e4m3 and e5m2 an H200 computes the product alone, as one of f16, and then adds c in f32 */
        static _Thread_local float kept[32 * 32];
        const unsigned size = x->m * x->n;
        const bool alone = is_fp8(x->a.type) && is_fp8(x->b.type);
        if (alone) {
            memcpy(kept, c, size * sizeof *c);
            memset(c, 0, size * sizeof *c);
        }
        for (unsigned i = 0; i < x->matrices; i++)
            w->row->products->add(a + i * x->m * x->k, b + i * x->k * x->n, c + i * size, x->m, x->n, x->k,
                                 accumulation_of(x));
        for (unsigned at = 0; alone && at < size; at++)
            c[at] += kept[at];
    }
    put_real(w, &x->d, c);
}

static void multiply_double(struct exec_warp *w, const struct matrix *x)
{
    double a[16 * 16], b[16 * 8], c[16 * 8];
    union { uint64_t u; double f; } v;
    for (unsigned l = 0; l < SG_LANES; l++) {
        for (unsigned n = 0; n < x->a.per_lane; n++)
            v.u = exec_part_bits(w, &x->a, l, n), a[x->a.place[n * SG_LANES + l]] = v.f;
        for (unsigned n = 0; n < x->b.per_lane; n++)
            v.u = exec_part_bits(w, &x->b, l, n), b[x->b.place[n * SG_LANES + l]] = v.f;
        for (unsigned n = 0; n < x->c.per_lane; n++)
            v.u = exec_part_bits(w, &x->c, l, n), c[x->c.place[n * SG_LANES + l]] = v.f;
    }
    const uint32_t before = rounding_set(x->towards_zero ? SG_RZ : SG_RN);
    for (unsigned m = 0; m < x->m; m++)
        for (unsigned k = 0; k < x->k; k++)
            for (unsigned n = 0; n < x->n; n++)
                c[m * x->n + n] = fma(a[m * x->k + k], b[k * x->n + n], c[m * x->n + n]);
    rounding_restore(x->towards_zero ? SG_RZ : SG_RN, before);
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < x->d.per_lane; n++) {
            v.f = c[x->d.place[n * SG_LANES + l]];
            exec_part_put(w, &x->d, l, n, v.u);
        }
}

static void multiply_integer(struct exec_warp *w, const struct matrix *x)
{
    static _Thread_local int32_t a[32 * EXEC_MATRIX_INNER], b[EXEC_MATRIX_INNER * 32];
    int64_t c[32 * 32];
    if (x->sparse.chunk)
        memset(a, 0, x->m * x->k * sizeof *a);
    for (unsigned l = 0; l < SG_LANES; l++) {
        for (unsigned n = 0; n < x->a.per_lane; n++)
            a[place_of_a(w, x, l, n)] = exec_integer_of(x->a.type, (uint32_t)exec_part_bits(w, &x->a, l, n));
        for (unsigned n = 0; n < x->b.per_lane; n++)
            b[x->b.place[n * SG_LANES + l]] = exec_integer_of(x->b.type, (uint32_t)exec_part_bits(w, &x->b, l, n));
        for (unsigned n = 0; n < x->c.per_lane; n++)
            c[x->c.place[n * SG_LANES + l]] = (int32_t)exec_part_bits(w, &x->c, l, n);
    }
    for (unsigned m = 0; m < x->m; m++)
        for (unsigned k = 0; k < x->k; k++)
            for (unsigned n = 0; n < x->n; n++) {
                int32_t s = a[m * x->k + k], t = b[k * x->n + n];
                c[m * x->n + n] += x->a.type == E_B1 && x->xor_popc ? s ^ t : s * t;
            }
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < x->d.per_lane; n++) {
            int64_t v = c[x->d.place[n * SG_LANES + l]];
            if (x->clamp)
                v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            exec_part_put(w, &x->d, l, n, (uint32_t)v);
        }
}

static void run_multiply(struct exec_warp *w, const struct exec_insn *i)
{
    const struct matrix *x = i->extra;
    if (!exec_matrix_whole(w, i))
        return;
    if (x->a.type == E_F64)
        multiply_double(w, x);
    else if (exec_elements[x->a.type].integer)
        multiply_integer(w, x);
    else
        multiply_real(w, x);
}

/* --- decoding --- */

static void note_rows(struct matrix *x)
{
    decode_matrix_reads(&x->rows, &x->a);
    decode_matrix_reads(&x->rows, &x->b);
    decode_matrix_reads(&x->rows, &x->c);
    decode_matrix_writes(&x->rows, &x->d);
    if (x->sparse.chunk)
        decode_matrix_source(&x->rows, x->sparse.metadata);
    const exec_source scales[] = { x->scale_a, x->scale_b, x->byte_a, x->byte_b, x->thread_a, x->thread_b };
    for (unsigned k = 0; x->scales && k < sizeof scales / sizeof *scales; k++)
        decode_matrix_source(&x->rows, scales[k]);
}

static int decode_scale(struct exec_decoder *d, const struct ptx_operand *o, exec_source *scale, exec_source *byte,
                        exec_source *thread)
{
    const struct ptx_operand *list[2], *value[1];
    struct ptx_operand scratch[2], one[1];
    if (decode_elements(d, &o[0], value, one, 1) != 1 || decode_elements(d, &o[1], list, scratch, 2) != 2)
        return decode_error(d, "operands of its scales");
    return decode_source(d, value[0], PTX_B32, scale) || decode_source(d, list[0], PTX_B16, byte) ||
                   decode_source(d, list[1], PTX_B16, thread)
               ? -1
               : 0;
}

/* At the end: scales of A, which lanes and bytes hold them, and the same of B. */
static int decode_scales(struct exec_decoder *d, struct matrix *x)
{
    const struct ptx_instruction *in = d->in;
    uint32_t at = x->sparse.chunk ? 6 : 4;
    x->scale_type = decode_has(d, "ue4m3") ? SCALE_UE4M3 : SCALE_UE8M0;
    x->scales = decode_has(d, "scale_vec::4X")    ? 4
                : decode_has(d, "scale_vec::2X")  ? 2
                : decode_has(d, "scale_vec::1X")  ? 1
                : decode_has(d, "kind::mxf8f6f4") ? 1
                                                  : 2;
    if (in->operand_count != at + 4 || x->m > 16 || x->n > 8)
        return decode_error(d, "operands of its scales");
    return decode_scale(d, &in->operands[at], &x->scale_a, &x->byte_a, &x->thread_a) ||
                   decode_scale(d, &in->operands[at + 2], &x->scale_b, &x->byte_b, &x->thread_b)
               ? -1
               : 0;
}

static bool is_result(enum exec_element t, bool integer) { return integer ? t == E_S32 : t == E_F16 || t == E_F32; }

/* Of D, A, B and C. What computes the product counts on it: put_real(), for one, has places for no narrower results. */
static bool types_known(const enum exec_element types[4])
{
    const struct exec_element_traits *a = &exec_elements[types[1]], *b = &exec_elements[types[2]];
    if (types[1] == E_F64 || types[2] == E_F64)
        return types[0] == E_F64 && types[1] == E_F64 && types[2] == E_F64 && types[3] == E_F64;
    return types[1] && types[2] && a->integer == b->integer && a->bits == b->bits && is_result(types[0], a->integer) &&
           is_result(types[3], a->integer);
}

/* The room that multiply_double() has. */
static bool has_doubles_shape(const struct matrix *x) { return x->m <= 16 && x->n == 8 && x->k <= 16; }

static int decode_multiply(struct exec_decoder *d, enum exec_layout layout)
{
    const struct ptx_instruction *in = d->in;
    struct matrix *x = exec_kernel_own(d->kernel, sizeof *x);
    if (!x)
        return decode_error(d, "no host memory");
    enum exec_element types[4] = { E_NONE, E_NONE, E_NONE, E_NONE };
    unsigned count = decode_matrix_types(d, types);
    if (!decode_matrix_shape(d, &x->m, &x->n, &x->k) || in->operand_count < 4)
        return decode_error(d, "shape or operands");
    if (layout == EXEC_LAYOUT_WMMA && count == 2) { /* .dtype.ctype of f16 */
        types[3] = types[1];
        types[1] = types[2] = E_F16;
    } else if (count != 4)
        return decode_error(d, "types of its matrices");
    bool by_row = decode_has(d, "row"), by_column = decode_has(d, "col"), a_by_column = false, b_by_column = true;
    x->matrices = 1;
    if (layout == EXEC_LAYOUT_MMA && x->m == 8 && x->k == 4 && types[1] == E_F16 && in->modifier_count > 4) {
        layout = EXEC_LAYOUT_QUARTERS;
        x->matrices = 4;
        a_by_column = !strcmp(in->modifiers[3], "col");
        b_by_column = !strcmp(in->modifiers[4], "col");
    } else if (layout == EXEC_LAYOUT_MMA && (!by_row || !by_column))
        return decode_error(d, "only row by col");
    if (decode_has(d, "kind::mxf4") || decode_has(d, "kind::mxf4nvf4"))
        for (int i = 1; i < 3; i++)
            types[i] = types[i] == E_E2M1 ? E_E2M1_PACKED : E_NONE;
    x->clamp = decode_has(d, "satfinite");
    x->xor_popc = decode_has(d, "xor");
    x->towards_zero = decode_has(d, "rz");
    x->four = layout == EXEC_LAYOUT_WMMA;
    if (!types_known(types) || (types[1] == E_F64 && !has_doubles_shape(x)))
        return decode_error(d, "types of its matrices");
    bool sparse = decode_has(d, "sp") || decode_has(d, "sp::ordered_metadata");
    if (sparse && (layout != EXEC_LAYOUT_MMA || x->m != 16 || types[1] == E_F64 || in->operand_count < 6 ||
                   decode_sparse(d, &x->sparse, types[1], &in->operands[4], &in->operands[5])))
        return decode_error(d, "a sparse matrix of this type");
    x->sparse.k = x->k;
    if (decode_has(d, "block_scale") && decode_scales(d, x))
        return -1;
    const struct exec_fragment a = { 'a', layout, a_by_column, x->m, sparse ? x->k / 2 : x->k };
    const struct exec_fragment b = { 'b', layout, b_by_column, x->k, x->n };
    const struct exec_fragment c = { 'c', layout, false, x->m, x->n };
    if (decode_part(d, &x->d, &c, types[0], &in->operands[0], true) ||
        decode_part(d, &x->a, &a, types[1], &in->operands[1], false) ||
        decode_part(d, &x->b, &b, types[2], &in->operands[2], false) ||
        decode_part(d, &x->c, &c, types[3], &in->operands[3], false))
        return -1;
    note_rows(x);
    return decode_put_whole(d, (struct exec_insn){ .run = run_multiply, .extra = x, .known = EXEC_STRAIGHT_MATRIX });
}

static int decode_mma(struct exec_decoder *d) { return decode_multiply(d, EXEC_LAYOUT_MMA); }
int decode_wmma_multiply(struct exec_decoder *d) { return decode_multiply(d, EXEC_LAYOUT_WMMA); }

const struct decode_entry decode_matrix[] = { { "mma", decode_mma }, { NULL, NULL } };
