/*
 * op_tile.c: moving matrices between memory and the registers of a warp: wmma.load and wmma.store, ldmatrix, stmatrix,
 * movmatrix.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/matrix.h"

#include <cuda.h>
#include <string.h>

#include "softgpu/memory.h"

/* --- wmma.load and .store: lane by lane --- */

/* at_once: elements of one access: more than one where they are narrower than a byte. */
struct transfer {
    struct exec_matrix_rows used;
    struct exec_part part;
    unsigned rows, columns, at_once;
    bool by_column;
};

static void run_transfer(struct exec_warp *w, const struct exec_insn *i)
{
    const struct transfer *t = i->extra;
    bool store = i->kind;
    unsigned bits = exec_elements[t->part.type].bits, bytes = t->at_once * bits / 8;
    if (!exec_matrix_whole(w, i))
        return;
    enum exec_found found = exec_address(w, i, bytes, bytes, store ? SG_WRITE : SG_READ);
    if (found == EXEC_FOUND_NONE)
        return;
    uint64_t base = (uint64_t)i->offset; /* as the kernel knows it; the first lane's */
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
        for (unsigned n = 0; n < t->part.per_lane; n += t->at_once) {
            unsigned at = t->part.place[n * SG_LANES + l], row = at / t->columns, column = at % t->columns;
            uint64_t index = t->by_column ? column * stride + row : row * stride + column, value = 0;
            uint64_t address = base + index * bits / 8;
            unsigned char *p = exec_address_lane(w, l, address, bytes, store ? SG_WRITE : SG_READ);
            if (!p || address % bytes) {
                exec_fault_address(w, i, p ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                                   "address of a matrix", l, address);
                return;
            }
            if (store) {
                value = exec_part_bits(w, &t->part, l, n);
                exec_copy_bytes(p, &value, bytes);
            } else if (t->at_once > 1) { /* a whole register */
                exec_copy_bytes(w->rows + t->part.to[n / t->at_once] + 4 * l, p, 4);
            } else {
                exec_copy_bytes(&value, p, bytes);
                exec_part_put(w, &t->part, l, n, value);
            }
        }
}

/* --- ldmatrix, stmatrix, movmatrix: matrices of 8 by 8 elements of 16 bits, and those of bytes --- */

/* What lies in the 16 bytes of a row in memory. In registers it is 16 bytes in any case. */
enum tile_source { SOURCE_PLAIN, SOURCE_6_BITS, SOURCE_4_BITS };
struct tiles {
    struct exec_matrix_rows used;
    unsigned count;
    enum tile_source source;
    uint32_t to[4];
    exec_source from[4];
};

/* Lane and half of its register that hold the element. */
static void tile_place(unsigned row, unsigned column, bool transposed, unsigned *lane, unsigned *half)
{
    unsigned r = transposed ? column : row, c = transposed ? row : column;
    *lane = 4 * r + c / 2;
    *half = c % 2;
}

/* 16 numbers of 4 or 6 bits, one behind the other, to a byte each. */
static void widen(unsigned char line[16], enum tile_source source)
{
    unsigned char packed[16];
    unsigned bits = source == SOURCE_6_BITS ? 6 : 4;
    if (source == SOURCE_PLAIN)
        return;
    memcpy(packed, line, 16);
    for (unsigned i = 0; i < 16; i++) {
        unsigned at = i * bits, pair = packed[at / 8] | (unsigned)packed[(at / 8 + 1) & 15] << 8;
        line[i] = (unsigned char)(pair >> at % 8 & ((1u << bits) - 1));
    }
}

/* The rows' addresses, which the first lanes give. NONE: it has failed. */
static enum exec_found tile_rows(struct exec_warp *w, const struct exec_insn *i, unsigned rows, unsigned rights)
{
    if (!exec_matrix_whole(w, i))
        return EXEC_FOUND_NONE;
    w->mask = rows == 32 ? UINT32_MAX : (1u << rows) - 1;
    enum exec_found found = exec_address(w, i, 16, 16, rights);
    w->mask = UINT32_MAX;
    return found;
}

static void run_tiles(struct exec_warp *w, const struct exec_insn *i)
{
    const struct tiles *t = i->extra;
    bool store = i->kind & EXEC_TILES_STORE, transposed = i->kind & EXEC_TILES_TRANSPOSED;
    enum exec_found found = tile_rows(w, i, 8 * t->count, store ? SG_WRITE : SG_READ);
    if (found == EXEC_FOUND_NONE)
        return;
    w->block->read |= !store;
    for (unsigned k = 0; k < t->count; k++)
        for (unsigned row = 0; row < 8; row++) {
            unsigned from = 8 * k + row;
            uintptr_t at = exec_found_address(w, found, from, 16);
            _Alignas(16) uint16_t line[8];
            if (!store) {
                exec_copy_piece(line, (void *)at, 16);
                widen((unsigned char *)line, t->source);
            }
            if (!transposed) { /* four lanes, one behind the other */
                if (store)
                    exec_copy_piece((void *)at, (const unsigned char *)exec_row(w, t->from[k]) + 16 * row, 16);
                else
                    memcpy(w->rows + t->to[k] + 16 * row, line, 16);
                continue;
            }
            for (unsigned column = 0; column < 8; column++) {
                unsigned lane, half;
                tile_place(row, column, transposed, &lane, &half);
                if (store)
                    memcpy(&line[column], (const unsigned char *)exec_row(w, t->from[k]) + 4 * lane + 2 * half, 2);
                else
                    memcpy(w->rows + t->to[k] + 4 * lane + 2 * half, &line[column], 2);
            }
            if (store)
                exec_copy_piece((void *)at, line, 16);
        }
}

/* 16 by 16 bytes, transposed: what lies in row r of memory is column r. Lane 4 * g + t gets four columns of row g, and
   in its next register of row g + 8. */
static void run_byte_tiles(struct exec_warp *w, const struct exec_insn *i)
{
    const struct tiles *t = i->extra;
    enum exec_found found = tile_rows(w, i, 8 * t->count, SG_READ);
    if (found == EXEC_FOUND_NONE)
        return;
    w->block->read = true;
    for (unsigned column = 0; column < 8 * t->count; column++) {
        unsigned char line[16];
        exec_copy_bytes(line, (void *)exec_found_address(w, found, column, 16), 16);
        widen(line, t->source);
        for (unsigned row = 0; row < 16; row++)
            w->rows[t->to[column / 16 * 2 + row / 8] + 4 * (row % 8 * 4 + column % 16 / 4) + column % 4] = line[row];
    }
}

/* 16 by 8 bytes, transposed: column c goes to line c. Lane 4 * g + t has two columns of row g, then of row g + 8. */
static void run_store_bytes(struct exec_warp *w, const struct exec_insn *i)
{
    const struct tiles *t = i->extra;
    enum exec_found found = tile_rows(w, i, 8 * t->count, SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    for (unsigned column = 0; column < 8 * t->count; column++) {
        const unsigned char *from = exec_row(w, t->from[column / 8]);
        unsigned char line[16];
        for (unsigned row = 0; row < 16; row++)
            line[row] = from[4 * (row % 8 * 4 + column % 8 / 2) + row / 8 * 2 + column % 2];
        exec_copy_bytes((void *)exec_found_address(w, found, column, 16), line, 16);
    }
}

static void run_transpose(struct exec_warp *w, const struct exec_insn *i)
{
    uint16_t from[64], to[64];
    if (!exec_matrix_whole(w, i))
        return;
    memcpy(from, exec_row(w, i->s[0]), sizeof from);
    for (unsigned r = 0; r < 8; r++)
        for (unsigned c = 0; c < 8; c++)
            to[8 * r + c] = from[8 * c + r]; /* lane and half are row * 8 + column */
    memcpy(w->rows + i->d, to, sizeof to);
}

static int decode_wmma(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (!in->modifier_count)
        return decode_error(d, "its operation is missing");
    if (!strcmp(in->modifiers[0], "mma"))
        return decode_wmma_multiply(d);
    bool store = !strcmp(in->modifiers[0], "store");
    struct transfer *t = exec_kernel_own(d->kernel, sizeof *t);
    unsigned m, columns, k;
    enum exec_element types[4];
    if (!t)
        return decode_error(d, "no host memory");
    if (!decode_matrix_shape(d, &m, &columns, &k) || decode_matrix_types(d, types) != 1 || in->operand_count < 2 ||
        in->modifier_count < 2)
        return decode_error(d, "shape, type or operands");
    char which = in->modifiers[1][0];
    unsigned bits = exec_elements[types[0]].bits;
    t->rows = which == 'b' ? k : m;
    t->columns = which == 'a' ? k : columns;
    t->by_column = decode_has(d, "col");
    t->at_once = bits < 8 ? 32 / bits : 1;
    if (bits < 8 && t->by_column != (which == 'b'))
        return decode_error(d, "elements of less than a byte that do not lie in order of k");
    const struct exec_fragment f = {
        .which = which == 'd' ? 'c' : which, .layout = EXEC_LAYOUT_WMMA, .rows = t->rows, .columns = t->columns
    };
    struct exec_insn n = { .run = run_transfer, .kind = store, .extra = t, .known = EXEC_STRAIGHT_MATRIX };
    if (decode_part(d, &t->part, &f, types[0], &in->operands[store ? 1 : 0], !store) ||
        decode_memory(d, &in->operands[store ? 0 : 1], decode_space(d, NULL), &n) ||
        (in->operand_count > 2 && decode_source(d, &in->operands[2], PTX_B32, &n.s[1])))
        return -1;
    (store ? decode_matrix_reads : decode_matrix_writes)(&t->used, &t->part);
    return decode_put_whole(d, n);
}

static bool tiles_known(const struct exec_decoder *d, const struct tiles *t, bool store)
{
    bool narrow = t->source != SOURCE_PLAIN, transposed = decode_has(d, "trans");
    if (decode_has(d, "m8n8"))
        return !narrow && decode_has(d, "b16");
    if (store)
        return !narrow && transposed && decode_has(d, "m16n8") && decode_has(d, "b8");
    if (decode_has(d, "m8n16"))
        return narrow && !transposed;
    return decode_has(d, "m16n16") && (narrow || decode_has(d, "b8")) && transposed;
}

static int decode_tiles(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    bool store = !strcmp(in->opcode, "stmatrix"), bytes = decode_has(d, "m16n16");
    struct tiles *t = exec_kernel_own(d->kernel, sizeof *t);
    if (!t)
        return decode_error(d, "no host memory");
    t->count = decode_has(d, "x4") ? 4 : decode_has(d, "x2") ? 2 : 1;
    t->source = decode_has(d, "b6x16_p32") ? SOURCE_6_BITS : decode_has(d, "b4x16_p64") ? SOURCE_4_BITS : SOURCE_PLAIN;
    if (in->operand_count != 2 || !tiles_known(d, t, store))
        return decode_error(d, "matrices of this shape and type");
    if (bytes)
        t->count *= 2; /* registers: two a matrix */
    const struct ptx_operand *list[4];
    struct ptx_operand scratch[4];
    if (t->count > 4 || decode_elements(d, &in->operands[store ? 1 : 0], list, scratch, 4) != t->count)
        return decode_error(d, "registers for its matrices");
    struct exec_insn n = { .run = bytes ? run_byte_tiles : decode_has(d, "m16n8") ? run_store_bytes : run_tiles,
                           .kind = (uint8_t)((store ? EXEC_TILES_STORE : 0) |
                                             (decode_has(d, "trans") ? EXEC_TILES_TRANSPOSED : 0)),
                           .extra = t,
                           .known = EXEC_STRAIGHT_MATRIX };
    t->used.tiles = n.run == run_tiles && t->source == SOURCE_PLAIN;
    for (unsigned k = 0; k < t->count; k++) {
        enum ptx_type declared = PTX_B32;
        if (store ? decode_source(d, list[k], PTX_B32, &t->from[k])
                  : decode_destination(d, list[k], PTX_B32, &t->to[k], &declared))
            return -1;
        if (ptx_type_size(declared) != 4)
            return decode_error(d, "a register of type %s", ptx_type_name(declared));
        if (store)
            decode_matrix_source(&t->used, t->from[k]);
        else
            t->used.to[t->used.writes++] = t->to[k];
    }
    if (decode_memory(d, &in->operands[store ? 0 : 1], decode_space(d, NULL), &n))
        return -1;
    return decode_put_whole(d, n);
}

static int decode_transpose(struct exec_decoder *d)
{
    enum ptx_type declared;
    struct exec_matrix_rows *used = exec_kernel_own(d->kernel, sizeof *used);
    struct exec_insn n = { .run = run_transpose, .extra = used, .known = EXEC_STRAIGHT_MATRIX };
    if (!used)
        return decode_error(d, "no host memory");
    if (d->in->operand_count != 2 || decode_destination(d, &d->in->operands[0], PTX_B32, &n.d, &declared) ||
        decode_source(d, &d->in->operands[1], PTX_B32, &n.s[0]))
        return decode_error(d, "operands");
    if (ptx_type_size(declared) != 4)
        return decode_error(d, "a register of type %s", ptx_type_name(declared));
    return decode_put_whole(d, n);
}

const struct decode_entry decode_tile[] = { { "wmma", decode_wmma },
                                            { "ldmatrix", decode_tiles },
                                            { "stmatrix", decode_tiles },
                                            { "movmatrix", decode_transpose },
                                            { NULL, NULL } };
