/*
 * op_matrix.c: matrices that a warp holds together: mma, wmma, ldmatrix, stmatrix, movmatrix.
 *
 * Which element of a matrix lies in which lane, register and part of it is a table made when the instruction is
 * decoded: for mma as the PTX ISA draws it, for wmma (whose layout is nobody's business) in order. Execution takes A, B
 * and C apart by the tables, multiplies, and puts D together. Products of f16, bf16, tf32 and fp8 are exact in f32 and
 * are added in f32 in order of k; hardware's order and rounding are not specified.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/decode.h"

#include <cuda.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/alu/small_float.h"
#include "softgpu/memory.h"

enum element { E_NONE, E_F16, E_BF16, E_TF32, E_F32, E_F64, E_S8, E_U8, E_S4, E_U4, E_B1, E_S32, E_E4M3, E_E5M2 };
static const struct { const char *name; uint8_t bits, integer, is_signed;
} elements[] = {
    [E_NONE] = { "", 0, 0, 0 },      [E_F16] = { "f16", 16, 0, 1 },  [E_BF16] = { "bf16", 16, 0, 1 },
    [E_TF32] = { "tf32", 32, 0, 1 }, [E_F32] = { "f32", 32, 0, 1 },  [E_F64] = { "f64", 64, 0, 1 },
    [E_S8] = { "s8", 8, 1, 1 },      [E_U8] = { "u8", 8, 1, 0 },     [E_S4] = { "s4", 4, 1, 1 },
    [E_U4] = { "u4", 4, 1, 0 },      [E_B1] = { "b1", 1, 1, 0 },     [E_S32] = { "s32", 32, 1, 1 },
    [E_E4M3] = { "e4m3", 8, 0, 1 },  [E_E5M2] = { "e5m2", 8, 0, 1 },
};
enum { MOST_REGISTERS = 8, MOST_INNER = 256 };

/* One operand: `count` registers a lane; place[lane * per_lane + n] is where its n-th element goes in the matrix. */
struct part {
    enum element type;
    uint8_t count, wide;                  /* wide: registers of 64 bits */
    uint32_t per_lane;
    exec_source from[MOST_REGISTERS];
    uint32_t to[MOST_REGISTERS];
    uint16_t *place;
};
struct matrix { unsigned m, n, k; bool clamp, xor_popc; struct part a, b, c, d; };

/* --- taking apart and putting together --- */

static uint64_t bits_at(const struct exec_warp *w, const struct part *p, unsigned lane, unsigned n)
{
    unsigned bits = elements[p->type].bits;
    if (p->wide)
        return ((const uint64_t *)exec_row(w, p->from[n]))[lane];
    unsigned per = 32 / bits;
    uint32_t word = ((const uint32_t *)exec_row(w, p->from[n / per]))[lane];
    return bits == 32 ? word : (word >> (n % per * bits)) & ((1u << bits) - 1);
}

static float real_of(enum element t, uint32_t bits)
{
    switch (t) {
    case E_F16:  return small_to_f32(bits, FORMAT_F16);
    case E_BF16: return small_to_f32(bits, FORMAT_BF16);
    case E_E4M3: return small_to_f32(bits, FORMAT_E4M3);
    case E_E5M2: return small_to_f32(bits, FORMAT_E5M2);
    case E_TF32: return bits_float(bits & 0xffffe000);
    default:     return bits_float(bits);
    }
}

static int32_t integer_of(enum element t, uint32_t bits)
{
    return t == E_S8 ? (int8_t)bits : t == E_S4 ? (int32_t)(bits << 28) >> 28 : (int32_t)bits;
}

static void put_bits(struct exec_warp *w, const struct part *p, unsigned lane, unsigned n, uint64_t value)
{
    unsigned bits = elements[p->type].bits;
    if (p->wide) {
        ((uint64_t *)(void *)(w->rows + p->to[n]))[lane] = value;
        return;
    }
    unsigned per = 32 / bits;
    uint32_t *word = (uint32_t *)(void *)(w->rows + p->to[n / per]) + lane;
    *word = bits == 32 ? (uint32_t)value : n % per ? *word | (uint32_t)value << (n % per * bits) : (uint32_t)value;
}

/* Whole warps only: what .aligned asks for. Lanes in other frames cannot be brought together. */
static bool whole(struct exec_warp *w, const struct exec_insn *i)
{
    if (w->mask == UINT32_MAX)
        return true;
    exec_fault(w, i, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a matrix instruction without the whole warp");
    return false;
}

static void multiply_real(struct exec_warp *w, const struct matrix *x)
{
    static _Thread_local float a[32 * MOST_INNER], b[MOST_INNER * 32], c[32 * 32];
    for (unsigned l = 0; l < SG_LANES; l++) {
        for (unsigned n = 0; n < x->a.per_lane; n++)
            a[x->a.place[l * x->a.per_lane + n]] = real_of(x->a.type, (uint32_t)bits_at(w, &x->a, l, n));
        for (unsigned n = 0; n < x->b.per_lane; n++)
            b[x->b.place[l * x->b.per_lane + n]] = real_of(x->b.type, (uint32_t)bits_at(w, &x->b, l, n));
        for (unsigned n = 0; n < x->c.per_lane; n++)
            c[x->c.place[l * x->c.per_lane + n]] = real_of(x->c.type, (uint32_t)bits_at(w, &x->c, l, n));
    }
    for (unsigned m = 0; m < x->m; m++)
        for (unsigned k = 0; k < x->k; k++)
            for (unsigned n = 0; n < x->n; n++)
                c[m * x->n + n] += a[m * x->k + k] * b[k * x->n + n];
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < x->d.per_lane; n++) {
            uint32_t bits = float_bits(c[x->d.place[l * x->d.per_lane + n]]);
            put_bits(w, &x->d, l, n, x->d.type == E_F16 ? small_from_f32(bits, FORMAT_F16, SMALL_RN, false) : bits);
        }
}

static void multiply_double(struct exec_warp *w, const struct matrix *x)
{
    double a[16 * 16], b[16 * 8], c[16 * 8];
    union { uint64_t u; double f; } v;
    for (unsigned l = 0; l < SG_LANES; l++) {
        for (unsigned n = 0; n < x->a.per_lane; n++)
            v.u = bits_at(w, &x->a, l, n), a[x->a.place[l * x->a.per_lane + n]] = v.f;
        for (unsigned n = 0; n < x->b.per_lane; n++)
            v.u = bits_at(w, &x->b, l, n), b[x->b.place[l * x->b.per_lane + n]] = v.f;
        for (unsigned n = 0; n < x->c.per_lane; n++)
            v.u = bits_at(w, &x->c, l, n), c[x->c.place[l * x->c.per_lane + n]] = v.f;
    }
    for (unsigned m = 0; m < x->m; m++)
        for (unsigned k = 0; k < x->k; k++)
            for (unsigned n = 0; n < x->n; n++)
                c[m * x->n + n] = fma(a[m * x->k + k], b[k * x->n + n], c[m * x->n + n]);
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < x->d.per_lane; n++) {
            v.f = c[x->d.place[l * x->d.per_lane + n]];
            put_bits(w, &x->d, l, n, v.u);
        }
}

static void multiply_integer(struct exec_warp *w, const struct matrix *x)
{
    static _Thread_local int32_t a[32 * MOST_INNER], b[MOST_INNER * 32];
    int64_t c[32 * 32];
    for (unsigned l = 0; l < SG_LANES; l++) {
        for (unsigned n = 0; n < x->a.per_lane; n++)
            a[x->a.place[l * x->a.per_lane + n]] = integer_of(x->a.type, (uint32_t)bits_at(w, &x->a, l, n));
        for (unsigned n = 0; n < x->b.per_lane; n++)
            b[x->b.place[l * x->b.per_lane + n]] = integer_of(x->b.type, (uint32_t)bits_at(w, &x->b, l, n));
        for (unsigned n = 0; n < x->c.per_lane; n++)
            c[x->c.place[l * x->c.per_lane + n]] = (int32_t)bits_at(w, &x->c, l, n);
    }
    for (unsigned m = 0; m < x->m; m++)
        for (unsigned k = 0; k < x->k; k++)
            for (unsigned n = 0; n < x->n; n++) {
                int32_t s = a[m * x->k + k], t = b[k * x->n + n];
                c[m * x->n + n] += x->a.type == E_B1 && x->xor_popc ? s ^ t : s * t;
            }
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < x->d.per_lane; n++) {
            int64_t v = c[x->d.place[l * x->d.per_lane + n]];
            if (x->clamp)
                v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            put_bits(w, &x->d, l, n, (uint32_t)v);
        }
}

static void run_multiply(struct exec_warp *w, const struct exec_insn *i)
{
    const struct matrix *x = i->extra;
    if (!whole(w, i))
        return;
    if (x->a.type == E_F64)
        multiply_double(w, x);
    else if (elements[x->a.type].integer)
        multiply_integer(w, x);
    else
        multiply_real(w, x);
}

/* --- wmma.load and .store: lane by lane --- */

struct transfer { struct part part; unsigned rows, columns; bool by_column, is_b; };

static void run_transfer(struct exec_warp *w, const struct exec_insn *i)
{
    const struct transfer *t = i->extra;
    bool store = i->kind;
    unsigned bytes = elements[t->part.type].bits / 8;
    if (!whole(w, i))
        return;
    enum exec_found found = exec_address(w, i, bytes, bytes, store ? SG_WRITE : SG_READ);
    if (found == EXEC_FOUND_NONE)
        return;
    uint64_t base = (uint64_t)i->offset;              /* as the kernel knows it; the first lane's */
    if (!(i->flags & EXEC_ADDRESS_UNIFORM))
        base += exec_lane(exec_row(w, i->s[0]), i->flags & EXEC_ADDRESS_32 ? SG_CELL_32 : SG_CELL_64, 0);
    if (i->flags & EXEC_ADDRESS_FRAME)
        base += w->frame->local_base;
    if (i->space == PTX_SPACE_SHARED)
        base = (base & UINT32_MAX) | EXEC_WINDOW_BASE(EXEC_WINDOW_SHARED);
    else if (i->space == PTX_SPACE_LOCAL)
        base = (base & UINT32_MAX) | EXEC_WINDOW_BASE(EXEC_WINDOW_LOCAL);
    uint64_t stride = i->s[1] ? *(const uint32_t *)exec_row(w, i->s[1]) : t->by_column ? t->rows : t->columns;
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < t->part.per_lane; n++) {
            unsigned at = t->part.place[l * t->part.per_lane + n], row = at / t->columns, column = at % t->columns;
            uint64_t address = base + bytes * (t->by_column ? column * stride + row : row * stride + column), value = 0;
            unsigned char *p = exec_address_lane(w, l, address, bytes, store ? SG_WRITE : SG_READ);
            if (!p || address % bytes) {
                exec_fault_address(w, i, p ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                                   "address of a matrix", l, address);
                return;
            }
            if (store) {
                value = bits_at(w, &t->part, l, n);
                exec_copy_bytes(p, &value, bytes);
            } else {
                exec_copy_bytes(&value, p, bytes);
                put_bits(w, &t->part, l, n, value);
            }
        }
}

/* --- ldmatrix, stmatrix, movmatrix: 8 by 8 elements of 16 bits --- */

struct tiles { unsigned count; uint32_t to[4]; exec_source from[4]; };

/* Lane and half of its register that hold the element. */
static void tile_place(unsigned row, unsigned column, bool transposed, unsigned *lane, unsigned *half)
{
    unsigned r = transposed ? column : row, c = transposed ? row : column;
    *lane = 4 * r + c / 2;
    *half = c % 2;
}

static void run_tiles(struct exec_warp *w, const struct exec_insn *i)
{
    const struct tiles *t = i->extra;
    bool store = i->kind & 1, transposed = i->kind & 2;
    if (!whole(w, i))
        return;
    uint32_t used = t->count == 4 ? UINT32_MAX : (1u << (8 * t->count)) - 1;
    w->mask = used;
    enum exec_found found = exec_address(w, i, 16, 16, store ? SG_WRITE : SG_READ);
    w->mask = UINT32_MAX;
    if (found == EXEC_FOUND_NONE)
        return;
    w->block->read |= !store;
    for (unsigned k = 0; k < t->count; k++)
        for (unsigned row = 0; row < 8; row++) {
            unsigned from = 8 * k + row;
            uintptr_t at = exec_found_address(w, found, from, 16);
            uint16_t line[8];
            if (!store)
                exec_copy_bytes(line, (void *)at, 16);
            for (unsigned column = 0; column < 8; column++) {
                unsigned lane, half;
                tile_place(row, column, transposed, &lane, &half);
                if (store)
                    memcpy(&line[column], (const unsigned char *)exec_row(w, t->from[k]) + 4 * lane + 2 * half, 2);
                else
                    memcpy(w->rows + t->to[k] + 4 * lane + 2 * half, &line[column], 2);
            }
            if (store)
                exec_copy_bytes((void *)at, line, 16);
        }
}

static void run_transpose(struct exec_warp *w, const struct exec_insn *i)
{
    uint16_t from[64], to[64];
    if (!whole(w, i))
        return;
    memcpy(from, exec_row(w, i->s[0]), sizeof from);
    for (unsigned r = 0; r < 8; r++)
        for (unsigned c = 0; c < 8; c++)
            to[8 * r + c] = from[8 * c + r];          /* lane and half are row * 8 + column */
    memcpy(w->rows + i->d, to, sizeof to);
}

/* --- decoding --- */

static bool shape_of(const struct exec_decoder *d, unsigned *m, unsigned *n, unsigned *k)
{
    for (uint32_t i = 0; i < d->in->modifier_count; i++)
        if (sscanf(d->in->modifiers[i], "m%un%uk%u", m, n, k) == 3)
            return *m <= 32 && *n <= 32 && *k <= MOST_INNER;
    return false;
}

static unsigned types_of(const struct exec_decoder *d, enum element types[4])
{
    unsigned count = 0;
    for (uint32_t i = 0; i < d->in->modifier_count; i++)
        for (unsigned e = E_F16; e <= E_E5M2; e++)
            if (!strcmp(d->in->modifiers[i], elements[e].name) && count < 4)
                types[count++] = (enum element)e;
    return count;
}

/* which: 'a', 'b' or 'c' (and d). */
static int part_init(struct exec_decoder *d, struct part *p, char which, const struct matrix *x, enum element type,
                     const struct ptx_operand *o, bool destination, bool wmma)
{
    const struct ptx_operand *list[MOST_REGISTERS];
    struct ptx_operand scratch[MOST_REGISTERS];
    uint32_t count = decode_elements(d, o, list, scratch, MOST_REGISTERS);
    unsigned bits = elements[type].bits;
    if (!count || !bits)
        return decode_error(d, "a matrix of %u registers", count);
    p->type = type;
    p->count = (uint8_t)count;
    p->wide = bits == 64;
    unsigned per = p->wide ? 1 : 32 / bits;
    p->per_lane = count * per;
    unsigned rows = which == 'b' ? x->k : x->m, columns = which == 'a' ? x->k : x->n, total = rows * columns;
    if (p->per_lane * SG_LANES != total &&
        !(wmma && p->per_lane * SG_LANES > total && p->per_lane * SG_LANES % total == 0))
        return decode_error(d, "%u registers for a matrix of %u by %u", count, rows, columns);
    p->place = exec_kernel_own(d->kernel, p->per_lane * SG_LANES * sizeof *p->place);
    if (!p->place)
        return decode_error(d, "no host memory");
    unsigned groups = x->m / 8 ? x->m / 8 : 1;
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned n = 0; n < p->per_lane; n++) {
            unsigned row, column, g = l / 4, t = l % 4, reg = n / per, j = n % per;
            if (wmma) {
                unsigned at = (l * p->per_lane + n) % total;
                row = which == 'b' ? at % x->k : at / columns;
                column = which == 'b' ? at / x->k : at % columns;
            } else if (which == 'a') {
                row = g + 8 * (reg % groups);
                column = reg / groups * 4 * per + t * per + j;
            } else if (which == 'b') {
                row = reg * 4 * per + t * per + j;
                column = g;
            } else {
                row = g + 8 * (n / 2);
                column = 2 * t + n % 2;
            }
            p->place[l * p->per_lane + n] = (uint16_t)(row * columns + column);
        }
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

static int put_whole(struct exec_decoder *d, struct exec_insn n)
{
    return decode_converge(d) || decode_put_guarded(d, n) ? -1 : 0;
}

static int decode_multiply(struct exec_decoder *d, bool wmma)
{
    const struct ptx_instruction *in = d->in;
    struct matrix *x = exec_kernel_own(d->kernel, sizeof *x);
    if (!x)
        return decode_error(d, "no host memory");
    enum element types[4] = { E_NONE, E_NONE, E_NONE, E_NONE };
    unsigned count = types_of(d, types);
    if (!shape_of(d, &x->m, &x->n, &x->k) || in->operand_count != 4)
        return decode_error(d, "shape or operands");
    for (uint32_t i = 0; i < in->modifier_count; i++)
        if (!strcmp(in->modifiers[i], "sp") || !strncmp(in->modifiers[i], "sp::", 4) ||
            !strncmp(in->modifiers[i], "kind::", 6) || !strcmp(in->modifiers[i], "block_scale"))
            return decode_error(d, "sparse and block-scaled matrices");
    if (wmma && count == 2) {                         /* .dtype.ctype of f16 */
        types[3] = types[1];
        types[1] = types[2] = E_F16;
    } else if (count != 4)
        return decode_error(d, "types of its matrices");
    if (!wmma && x->m == 8 && x->n == 8 && x->k == 4 && types[1] == E_F16)
        return decode_error(d, "m8n8k4 of f16");      /* in quarters of a warp, of sm_70 */
    if (!wmma && (!decode_has(d, "row") || !decode_has(d, "col")))
        return decode_error(d, "only row by col");
    x->clamp = decode_has(d, "satfinite");
    x->xor_popc = decode_has(d, "xor");
    bool integer = elements[types[1]].integer;
    if (elements[types[2]].integer != integer || elements[types[0]].integer != integer ||
        elements[types[3]].integer != integer || (types[1] == E_F64) != (types[0] == E_F64) ||
        (x->m > 16 && types[1] == E_F64) || x->m * x->k > 32 * MOST_INNER)
        return decode_error(d, "types of its matrices");
    if (part_init(d, &x->d, 'c', x, types[0], &in->operands[0], true, wmma) ||
        part_init(d, &x->a, 'a', x, types[1], &in->operands[1], false, wmma) ||
        part_init(d, &x->b, 'b', x, types[2], &in->operands[2], false, wmma) ||
        part_init(d, &x->c, 'c', x, types[3], &in->operands[3], false, wmma))
        return -1;
    return put_whole(d, (struct exec_insn){ .run = run_multiply, .extra = x });
}

static int decode_mma(struct exec_decoder *d) { return decode_multiply(d, false); }

static int decode_wmma(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (!in->modifier_count)
        return decode_error(d, "what it does is missing");
    if (!strcmp(in->modifiers[0], "mma"))
        return decode_multiply(d, true);
    bool store = !strcmp(in->modifiers[0], "store");
    struct transfer *t = exec_kernel_own(d->kernel, sizeof *t);
    struct matrix x = { 0 };
    enum element types[4];
    if (!t)
        return decode_error(d, "no host memory");
    if (!shape_of(d, &x.m, &x.n, &x.k) || types_of(d, types) != 1 || in->operand_count < 2 || in->modifier_count < 2)
        return decode_error(d, "shape, type or operands");
    if (elements[types[0]].bits < 8)
        return decode_error(d, "elements of less than a byte");
    char which = in->modifiers[1][0];
    t->rows = which == 'b' ? x.k : x.m;
    t->columns = which == 'a' ? x.k : x.n;
    t->by_column = decode_has(d, "col");
    struct exec_insn n = { .run = run_transfer, .kind = store, .extra = t };
    if (part_init(d, &t->part, which == 'd' ? 'c' : which, &x, types[0], &in->operands[store ? 1 : 0], !store, true) ||
        decode_memory(d, &in->operands[store ? 0 : 1], decode_space(d, NULL), &n) ||
        (in->operand_count > 2 && decode_source(d, &in->operands[2], PTX_B32, &n.s[1])))
        return -1;
    return put_whole(d, n);
}

static int decode_tiles(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    bool store = !strcmp(in->opcode, "stmatrix");
    struct tiles *t = exec_kernel_own(d->kernel, sizeof *t);
    if (!t)
        return decode_error(d, "no host memory");
    t->count = decode_has(d, "x4") ? 4 : decode_has(d, "x2") ? 2 : 1;
    if (!decode_has(d, "m8n8") || !decode_has(d, "b16") || in->operand_count != 2)
        return decode_error(d, "only m8n8 of b16");
    const struct ptx_operand *list[4];
    struct ptx_operand scratch[4];
    if (decode_elements(d, &in->operands[store ? 1 : 0], list, scratch, 4) != t->count)
        return decode_error(d, "registers for %u matrices", t->count);
    struct exec_insn n = { .run = run_tiles,
                           .kind = (uint8_t)((store ? 1 : 0) | (decode_has(d, "trans") ? 2 : 0)),
                           .extra = t };
    for (unsigned k = 0; k < t->count; k++) {
        enum ptx_type declared = PTX_B32;
        if (store ? decode_source(d, list[k], PTX_B32, &t->from[k])
                  : decode_destination(d, list[k], PTX_B32, &t->to[k], &declared))
            return -1;
        if (ptx_type_size(declared) != 4)
            return decode_error(d, "a register of type %s", ptx_type_name(declared));
    }
    if (decode_memory(d, &in->operands[store ? 0 : 1], decode_space(d, NULL), &n))
        return -1;
    return put_whole(d, n);
}

static int decode_transpose(struct exec_decoder *d)
{
    enum ptx_type declared;
    struct exec_insn n = { .run = run_transpose };
    if (d->in->operand_count != 2 || decode_destination(d, &d->in->operands[0], PTX_B32, &n.d, &declared) ||
        decode_source(d, &d->in->operands[1], PTX_B32, &n.s[0]))
        return decode_error(d, "operands");
    if (ptx_type_size(declared) != 4)
        return decode_error(d, "a register of type %s", ptx_type_name(declared));
    return put_whole(d, n);
}

const struct decode_entry decode_matrix[] = {
    { "mma", decode_mma }, { "wmma", decode_wmma }, { "ldmatrix", decode_tiles }, { "stmatrix", decode_tiles },
    { "movmatrix", decode_transpose }, { NULL, NULL }
};
