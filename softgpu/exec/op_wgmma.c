/*
 * op_wgmma.c: wgmma: products of matrices that four warps hold together, with operands in shared memory.
 *
 * Each warp computes its 16 of the 64 rows when it reaches wgmma.mma_async. Hardware does that later, at once for all
 * four, so a warp that waits for the group (wgmma.wait_group) may inform others that the operands in shared memory can
 * be overwritten. Therefore wait_group also waits until the other warps have committed as many groups.
 *
 * A descriptor says where a matrix lies in shared memory, in pieces of 16 bytes. `major K`: a piece is part of a line
 * (a row of A, a column of B). Eight lines follow each other, 16 bytes or a span of the swizzle apart; the stride leads
 * to the next eight lines. Without a swizzle the leading offset leads to the next piece of the line, else the pieces of
 * a line are neighbours. `major MN` (elements of 16 bits, transposed): a piece holds one k of eight lines. Swizzling
 * exchanges pieces by the bits of the address above bit 7, as tensor copies do (op_tensor.c).
 *
 * Products are added as those of mma are: see op_matrix.c.
 *
 * Follows: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions" and the canonical layouts there.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/matrix.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/alu/small_float.h"

enum { WARPS = 4, ROWS = 16, N_MOST = 256, K_MOST = 64, PIECE = 16, A_REGISTERS = 4, D_REGISTERS = N_MOST / 2 };

struct wgmma {
    unsigned n, k;
    enum exec_element a, b, d;
    bool clamp, negate;               /* negate: one of A and B, not both */
    bool a_major_m, b_major_n;
    bool from_registers;              /* A */
    exec_source a_at, b_at;           /* descriptors */
    exec_source a_from[A_REGISTERS];
    struct exec_sparse sparse;        /* A */
    unsigned registers;               /* of D */
    uint32_t to[D_REGISTERS];
};

/* --- operands --- */

/* As the descriptor says. swizzle: 0 to 3, spans of 16 << swizzle bytes. */
struct wgmma_place {
    uint32_t start, leading, stride, base, swizzle;
};

static struct wgmma_place place_of(uint64_t descriptor)
{
    static const uint8_t swizzles[] = { 0, 3, 2, 1 };
    return (struct wgmma_place){ .start = (uint32_t)(descriptor & 0x3fff) << 4,
                                 .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                                 .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                                 .base = (uint32_t)(descriptor >> 49 & 7),
                                 .swizzle = swizzles[descriptor >> 62] };
}

/* Where a piece lies in shared memory. major MN: piece counts along the lines, and line along k. */
static uint32_t piece_at(const struct wgmma_place *p, bool major_mn, unsigned line, unsigned piece)
{
    uint32_t at = p->start + line % 8 * (PIECE << p->swizzle), next = line / 8;
    if (!p->swizzle)
        at += major_mn ? next * p->leading + piece * p->stride : next * p->stride + piece * p->leading;
    else if (major_mn)
        at += next * p->stride + (piece >> p->swizzle) * p->leading + (piece & ((1u << p->swizzle) - 1)) * PIECE;
    else
        at += next * p->stride + piece * PIECE;
    return at ^ (((at >> 7) - p->base) & ((1u << p->swizzle) - 1)) << 4;
}

/* A piece's elements, one in each word. */
static unsigned take_apart(const void *from, unsigned bits, uint32_t words[PIECE])
{
    const exec_16_bytes piece = exec_load128(from);
    const unsigned count = 128 / bits;
    uint16_t halves[8];
    uint8_t bytes[16];
    memcpy(halves, &piece, sizeof halves);
    memcpy(bytes, &piece, sizeof bytes);
    if (bits == 32)
        memcpy(words, &piece, sizeof piece);
    else
        for (unsigned e = 0; e < count; e++)
            words[e] = bits == 16 ? halves[e] : bytes[e];
    return count;
}

/* `lines` lines of k elements, from line `first` on. Element e of line l goes to to[l * line_step + e * k_step]. false:
   it is not in shared memory. */
static bool take_shared(struct exec_warp *w, const struct exec_insn *i, const struct wgmma_place *p, unsigned bits,
                        bool major_mn, unsigned first, unsigned lines, unsigned k, uint32_t *to, unsigned line_step,
                        unsigned k_step)
{
    const struct exec_block *b = w->block;
    const unsigned per = 128 / bits;
    const unsigned outer = major_mn ? k : lines, pieces = (major_mn ? lines : k) / per;
    const unsigned outer_first = major_mn ? 0 : first, piece_first = major_mn ? first / per : 0;
    const unsigned outer_step = major_mn ? k_step : line_step, inner_step = major_mn ? line_step : k_step;
    for (unsigned o = 0; o < outer; o++)
        for (unsigned piece = 0; piece < pieces; piece++) {
            uint32_t words[PIECE], at = piece_at(p, major_mn, outer_first + o, piece_first + piece);
            if ((uint64_t)at + PIECE > b->shared_size) {
                exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "shared memory of a matrix", 0,
                                   at | EXEC_WINDOW_BASE(EXEC_WINDOW_SHARED));
                return false;
            }
            take_apart(b->shared + at, bits, words);
            uint32_t *into = to + o * outer_step + piece * per * inner_step;
            for (unsigned e = 0; e < per; e++)
                into[e * inner_step] = words[e];
        }
    return true;
}

/* Bits of one element as memory and registers have it; 256 bits of b1 are 8 words. */
static unsigned bits_of(enum exec_element t) { return t == E_B1 ? 32 : exec_elements[t].bits; }
static unsigned words_of(const struct wgmma *x) { return x->a == E_B1 ? x->k / 32 : x->k; }

/* The warp's rows of A from its registers, as mma has them. */
static void take_registers(const struct exec_warp *w, const struct wgmma *x, unsigned k, uint32_t *to)
{
    const unsigned bits = bits_of(x->a), per = 32 / bits;
    for (unsigned r = 0; r < A_REGISTERS; r++) {
        const uint32_t *from = exec_row(w, x->a_from[r]);
        for (unsigned l = 0; l < SG_LANES; l++)
            for (unsigned e = 0; e < per; e++)
                to[(l / 4 + r % 2 * 8) * k + r / 2 * 4 * per + l % 4 * per + e] =
                    bits == 32 ? from[l] : from[l] >> e * bits & ((1u << bits) - 1);
    }
}

static bool take_a(struct exec_warp *w, const struct exec_insn *i, uint32_t *to)
{
    const struct wgmma *x = i->extra;
    const unsigned k = words_of(x), stored = x->sparse.chunk ? k / 2 : k;
    uint32_t kept[ROWS * K_MOST / 2] = { 0 }, *into = x->sparse.chunk ? kept : to;
    if (x->from_registers)
        take_registers(w, x, stored, into);
    else {
        const struct wgmma_place p = place_of(*(const uint64_t *)exec_row(w, x->a_at));
        if (!take_shared(w, i, &p, bits_of(x->a), x->a_major_m, w->index % WARPS * ROWS, ROWS, stored, into, stored, 1))
            return false;
    }
    if (into == to)
        return true;
    memset(to, 0, ROWS * k * sizeof *to);
    for (unsigned row = 0; row < ROWS; row++)
        for (unsigned s = 0; s < stored; s++)
            to[row * k + exec_sparse_column(w, &x->sparse, row, s)] = kept[row * stored + s];
    return true;
}

static bool take_b(struct exec_warp *w, const struct exec_insn *i, uint32_t *to)
{
    const struct wgmma *x = i->extra;
    const struct wgmma_place p = place_of(*(const uint64_t *)exec_row(w, x->b_at));
    return take_shared(w, i, &p, bits_of(x->b), x->b_major_n, 0, x->n, words_of(x), to, 1, x->n);
}

/* --- products --- */

/* Row and column of D that a lane's element has, as an index into 16 rows of n. */
static unsigned place_of_d(const struct wgmma *x, unsigned lane, unsigned element)
{
    return (lane / 4 + (element / 2 & 1) * 8) * x->n + element / 4 * 8 + lane % 4 * 2 + element % 2;
}

static void widen(const struct exec_warp *w, enum exec_element t, float *to, const uint32_t *from, unsigned count)
{
    void (*one)(float *, const uint32_t *, unsigned) = w->row->from_small[exec_small_of(t)];
    for (unsigned at = 0; at < count; at += SG_LANES)
        one(to + at, from + at, 0);
}

static void multiply_real(struct exec_warp *w, const struct wgmma *x, const uint32_t *a_bits, const uint32_t *b_bits,
                          bool accumulates)
{
    static _Thread_local _Alignas(64) float a[ROWS * K_MOST], b[K_MOST * N_MOST], c[ROWS * N_MOST];
    widen(w, x->a, a, a_bits, ROWS * x->k);
    widen(w, x->b, b, b_bits, x->k * x->n);
    for (unsigned e = 0; x->negate && e < ROWS * x->k; e++)
        a[e] = -a[e];
    const bool half = x->d == E_F16;
    memset(c, 0, ROWS * x->n * sizeof *c);
    for (unsigned r = 0; accumulates && r < x->registers; r++) {
        const uint32_t *from = (const uint32_t *)(const void *)(w->rows + x->to[r]);
        for (unsigned l = 0; l < SG_LANES; l++)
            if (half) {
                c[place_of_d(x, l, 2 * r)] = small_to_f32(from[l] & 0xffff, FORMAT_F16);
                c[place_of_d(x, l, 2 * r + 1)] = small_to_f32(from[l] >> 16, FORMAT_F16);
            } else
                c[place_of_d(x, l, r)] = bits_float(from[l]);
    }
    const bool fp8 = x->a == E_E4M3 || x->a == E_E5M2;
    w->row->products->add(a, b, c, ROWS, x->n, x->k,
                         (struct exec_accumulation){ .kept = fp8 ? 13 : 25, .step = x->k, .odd = half, .coarse = fp8,
                                                     .sparse = x->sparse.chunk != 0,
                                                     .least = fp8 ? -14 : x->a == E_F16 ? -14 : -126 });
    for (unsigned r = 0; r < x->registers; r++) {
        uint32_t *to = (uint32_t *)(void *)(w->rows + x->to[r]);
        for (unsigned l = 0; l < SG_LANES; l++)
            to[l] = half ? small_from_f32(float_bits(c[place_of_d(x, l, 2 * r)]), FORMAT_F16, SMALL_RN, false) |
                               small_from_f32(float_bits(c[place_of_d(x, l, 2 * r + 1)]), FORMAT_F16, SMALL_RN, false)
                                   << 16
                         : float_bits(c[place_of_d(x, l, r)]);
    }
}

static void multiply_integer(struct exec_warp *w, const struct wgmma *x, const uint32_t *a, const uint32_t *b,
                             bool accumulates)
{
    static _Thread_local int32_t c[ROWS * N_MOST];
    const unsigned k = words_of(x), n = x->n;
    memset(c, 0, ROWS * n * sizeof *c);
    for (unsigned row = 0; row < ROWS; row++)
        for (unsigned at = 0; at < k; at++)
            for (unsigned column = 0; column < n; column++) {
                uint32_t s = a[row * k + at], t = b[at * n + column];
                c[row * n + column] += x->a == E_B1 ? __builtin_popcount(s & t)
                                                    : exec_integer_of(x->a, s) * exec_integer_of(x->b, t);
            }
    for (unsigned r = 0; r < x->registers; r++) {
        int32_t *to = (int32_t *)(void *)(w->rows + x->to[r]);
        for (unsigned l = 0; l < SG_LANES; l++) {
            int64_t v = (int64_t)(accumulates ? to[l] : 0) + c[place_of_d(x, l, r)];
            if (x->clamp)
                v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            to[l] = (int32_t)v;
        }
    }
}

static void run_multiply(struct exec_warp *w, const struct exec_insn *i)
{
    static _Thread_local _Alignas(64) uint32_t a[ROWS * K_MOST], b[K_MOST * N_MOST];
    const struct wgmma *x = i->extra;
    if (!exec_matrix_whole(w, i))
        return;
    w->block->read = true;
    if (!take_a(w, i, a) || !take_b(w, i, b))
        return;
    bool accumulates = (*exec_pred(w, i->in) ^ i->in_flip) & 1;
    if (exec_elements[x->a].integer)
        multiply_integer(w, x, a, b, accumulates);
    else
        multiply_real(w, x, a, b, accumulates);
}

/* --- groups --- */

static void run_commit(struct exec_warp *w, const struct exec_insn *i)
{
    if (exec_matrix_whole(w, i))
        w->products_committed++;
}

/* Until the warps of the warpgroup have committed all but the last `offset` groups that this one has committed. */
static void run_wait(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_block *b = w->block;
    uint32_t first = w->index / WARPS * WARPS, wanted = w->products_committed - (uint32_t)i->offset;
    for (uint32_t k = first; k < first + WARPS && k < b->warp_count; k++)
        if (b->warps[k].alive && (int32_t)(wanted - b->warps[k].products_committed) > 0) {
            w->pc = i;
            w->polled = true;
            w->budget = 0;
            exec_leave(w);
            return;
        }
}

/* --- decoding --- */

static int decode_d(struct exec_decoder *d, struct wgmma *x)
{
    const struct ptx_operand *list[D_REGISTERS];
    struct ptx_operand scratch[D_REGISTERS];
    x->registers = x->d == E_F16 ? x->n / 4 : x->n / 2;
    if (decode_elements(d, &d->in->operands[0], list, scratch, D_REGISTERS) != x->registers)
        return decode_error(d, "%u registers for D are wanted", x->registers);
    for (unsigned r = 0; r < x->registers; r++) {
        enum ptx_type declared;
        if (decode_destination(d, list[r], PTX_B32, &x->to[r], &declared))
            return -1;
        if (ptx_type_size(declared) != 4)
            return decode_error(d, "a register of type %s", ptx_type_name(declared));
    }
    return 0;
}

/* All but D. */
static int decode_operands(struct exec_decoder *d, struct wgmma *x, struct exec_insn *n)
{
    const struct ptx_operand *o = d->in->operands, *list[A_REGISTERS];
    struct ptx_operand scratch[A_REGISTERS];
    const uint32_t count = d->in->operand_count;
    const bool real = !exec_elements[x->a].integer, sparse = decode_has(d, "sp");
    uint32_t next = sparse ? 5 : 3, a_count = decode_elements(d, &o[1], list, scratch, A_REGISTERS);
    x->from_registers = a_count == A_REGISTERS;
    if (x->from_registers) {
        for (unsigned r = 0; r < A_REGISTERS; r++)
            if (decode_source(d, list[r], PTX_B32, &x->a_from[r]))
                return -1;
    } else if (a_count != 1 || decode_source(d, &o[1], PTX_B64, &x->a_at))
        return decode_error(d, "A: a descriptor or four registers are wanted");
    if (decode_source(d, &o[2], PTX_B64, &x->b_at))
        return -1;
    const uint32_t transposes = exec_elements[x->a].bits != 16 ? 0 : x->from_registers ? 1 : 2;
    if (count != next + 1 + (real ? 2 + transposes : 0))
        return decode_error(d, "%u operands", count);
    if (sparse && decode_sparse(d, &x->sparse, x->a, &o[3], &o[4]))
        return -1;
    x->sparse.k = x->k;
    if (decode_predicate(d, &o[next++], &n->in, &n->in_flip))
        return -1;
    for (uint32_t k = next; k < count; k++)
        if (o[k].kind != PTX_OP_INTEGER)
            return decode_error(d, "constants are wanted");
    if (real)
        x->negate = (o[next].integer < 0) != (o[next + 1].integer < 0);
    x->a_major_m = transposes == 2 && o[count - 2].integer;
    x->b_major_n = transposes && o[count - 1].integer;
    return 0;
}

static bool is_operand(enum exec_element t)
{
    return t == E_F16 || t == E_BF16 || t == E_TF32 || t == E_E4M3 || t == E_E5M2 || t == E_S8 || t == E_U8 ||
           t == E_B1;
}

static int decode_multiply(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct wgmma *x = exec_kernel_own(d->kernel, sizeof *x);
    enum exec_element types[4] = { E_NONE, E_NONE, E_NONE, E_NONE };
    unsigned m = 0;
    if (!x)
        return decode_error(d, "no host memory");
    for (uint32_t k = 0; k < in->modifier_count; k++)
        if (sscanf(in->modifiers[k], "m%un%uk%u", &m, &x->n, &x->k) == 3)
            break;
    if (m != WARPS * ROWS || !x->n || x->n % 8 || x->n > N_MOST || decode_matrix_types(d, types) != 3 ||
        in->operand_count < 4)
        return decode_error(d, "shape, types or operands");
    x->d = types[0], x->a = types[1], x->b = types[2];
    const struct exec_element_traits *a = &exec_elements[x->a], *b = &exec_elements[x->b];
    if (!is_operand(x->a) || !is_operand(x->b) || a->bits != b->bits || a->integer != b->integer ||
        (a->bits != 8 && x->a != x->b) || x->k != 256u / a->bits * (decode_has(d, "sp") ? 2 : 1) ||
        (a->integer ? x->d != E_S32 : x->d != E_F32 && (x->d != E_F16 || x->a == E_BF16 || x->a == E_TF32)) ||
        (x->a == E_B1 && (decode_has(d, "sp") || !decode_has(d, "and"))))
        return decode_error(d, "types of its matrices");
    x->clamp = decode_has(d, "satfinite");
    struct exec_insn n = { .run = run_multiply, .extra = x };
    return decode_d(d, x) || decode_operands(d, x, &n) || decode_put_whole(d, n) ? -1 : 0;
}

static int decode_wgmma(struct exec_decoder *d)
{
    if (decode_has(d, "mma_async"))
        return decode_multiply(d);
    if (decode_has(d, "fence"))       /* of registers, which are written at once */
        return 0;
    if (decode_has(d, "commit_group"))
        return decode_put_whole(d, (struct exec_insn){ .run = run_commit });
    if (!decode_has(d, "wait_group") || d->in->operand_count != 1 || d->in->operands[0].kind != PTX_OP_INTEGER)
        return decode_error(d, "unknown operation");
    return decode_put_whole(d, (struct exec_insn){ .run = run_wait, .offset = d->in->operands[0].integer });
}

const struct decode_entry decode_wgmma_table[] = { { "wgmma", decode_wgmma }, { NULL, NULL } };
