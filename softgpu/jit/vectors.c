/*
 * vectors.c: accesses of vectors of global memory, lanes side by side: elements change places on their way between
 * lanes and rows. Each 16 bytes are one access (softgpu/exec/access.h): with moves of 128 bits only, as in rows.c.
 */
#include "softgpu/exec/fused.h"
#include "softgpu/jit/compile.h"

enum { BLOCK = 4, HALF = SG_LANES / 2, PIECE = 16 };

/* In each block of four elements of a and b: a's elements by the first two numbers, b's by the others. */
static LLVMValueRef pick(struct compiler *c, LLVMValueRef a, LLVMValueRef b, const unsigned char *from)
{
    const unsigned width = LLVMGetVectorSize(LLVMTypeOf(a));
    LLVMValueRef which[SG_LANES];
    for (unsigned k = 0; k < width; k++)
        which[k] = constant_32(c, k / BLOCK * BLOCK + from[k % BLOCK] % BLOCK + from[k % BLOCK] / BLOCK * width);
    return LLVMBuildShuffleVector(c->builder, a, b, LLVMConstVector(which, width), "");
}

static const unsigned char low[4] = { 0, 4, 1, 5 }, high[4] = { 2, 6, 3, 7 }, firsts[4] = { 0, 1, 4, 5 },
                           lasts[4] = { 2, 3, 6, 7 }, even[4] = { 0, 2, 4, 6 }, odd[4] = { 1, 3, 5, 7 };

void vectors_to_rows(struct compiler *c, LLVMValueRef *vectors, unsigned lanes, unsigned elements, LLVMValueRef *rows)
{
    const unsigned blocks = lanes / BLOCK, each = BLOCK * elements / 4; /* vectors of a block of four lanes */
    LLVMValueRef part[SG_LANES], by[BLOCK];
    for (unsigned p = 0; p < each; p++) {
        for (unsigned k = 0; k < blocks; k++)
            part[k] = vectors[each * k + p];
        by[p] = vectors_join(c, part, blocks);
    }
    if (elements == 2) {
        rows[0] = pick(c, by[0], by[1], even);
        rows[1] = pick(c, by[0], by[1], odd);
        return;
    }
    LLVMValueRef xy = pick(c, by[0], by[1], low), xy2 = pick(c, by[2], by[3], low),
                 zu = pick(c, by[0], by[1], high), zu2 = pick(c, by[2], by[3], high);
    rows[0] = pick(c, xy, xy2, firsts);
    rows[1] = pick(c, xy, xy2, lasts);
    rows[2] = pick(c, zu, zu2, firsts);
    rows[3] = pick(c, zu, zu2, lasts);
}

/* Where the lane's vector is. */
static LLVMValueRef lane_at(struct compiler *c, const LLVMValueRef *half, unsigned lane, unsigned bytes)
{
    return address_of(c, half[lane / HALF], lane % HALF * bytes);
}

static LLVMValueRef load_piece(struct compiler *c, LLVMTypeRef element, LLVMValueRef at, unsigned align)
{
    LLVMValueRef value = load_from(c, LLVMVectorType(element, element == c->i64 ? 2 : 4), at, align);
    LLVMSetVolatile(value, true);
    return value;
}

/* Two elements of 64 bits for each lane. */
static void load_wide(struct compiler *c, const LLVMValueRef *half, LLVMValueRef *rows)
{
    LLVMValueRef part[SG_LANES], which[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        part[l] = load_piece(c, c->i64, lane_at(c, half, l, PIECE), PIECE);
    for (unsigned h = 0; h < 2; h++)
        part[h] = vectors_join(c, part + h * HALF, HALF);
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned l = 0; l < SG_LANES; l++)
            which[l] = constant_32(c, 2 * l + k);
        rows[k] = LLVMBuildShuffleVector(c->builder, part[0], part[1], LLVMConstVector(which, SG_LANES), "");
    }
}

/* In groups of as many lanes as a register of the processor has cells. */
static void load_words(struct compiler *c, unsigned elements, const LLVMValueRef *half, LLVMValueRef *rows)
{
    const unsigned group = c->wish->avx512 ? 16 : 8, bytes = 4 * elements, lanes = PIECE / bytes;
    LLVMValueRef piece[SG_LANES], part[BLOCK], all[BLOCK][SG_LANES / 8];
    for (unsigned g = 0; g < SG_LANES / group; g++) {
        for (unsigned l = 0; l < group; l += lanes)
            piece[l / lanes] = load_piece(c, c->i32, lane_at(c, half, g * group + l, bytes), bytes);
        vectors_to_rows(c, piece, group, elements, part);
        for (unsigned k = 0; k < elements; k++)
            all[k][g] = part[k];
    }
    for (unsigned k = 0; k < elements; k++)
        rows[k] = vectors_join(c, all[k], SG_LANES / group);
}

void vector_load(struct compiler *c, const struct exec_insn *i, const LLVMValueRef *half, bool all)
{
    const struct exec_vector *v = i->extra;
    const enum row_bits bits = i->size == 8 ? ROW_64 : ROW_32;
    LLVMValueRef rows[BLOCK];
    if (i->size == 8)
        load_wide(c, half, rows);
    else
        load_words(c, i->vector, half, rows);
    for (unsigned k = 0; k < i->vector; k++)
        if (!v->sink[k] && all)
            row_write(c, v->to[k], bits, rows[k]);
        else if (!v->sink[k])
            row_put(c, i, v->to[k], bits, rows[k]);
}

static void store_piece(struct compiler *c, LLVMValueRef piece, LLVMValueRef at, unsigned align)
{
    LLVMSetVolatile(store_to(c, piece, at, align), true);
}

/* The pair of one lane's elements of 64 bits. */
static LLVMValueRef pair_of(struct compiler *c, const LLVMValueRef *rows, unsigned lane)
{
    LLVMValueRef which[2] = { constant_32(c, lane), constant_32(c, SG_LANES + lane) };
    return LLVMBuildShuffleVector(c->builder, rows[0], rows[1], LLVMConstVector(which, 2), "");
}

/* Elements of 32 bits from two or four rows: each result has the vectors of the first (second …) lanes of all blocks
   of four, or of pairs of lanes. */
static void rows_to_vectors(struct compiler *c, const LLVMValueRef *rows, unsigned elements, LLVMValueRef *by)
{
    LLVMValueRef xy = pick(c, rows[0], rows[1], low), xy_high = pick(c, rows[0], rows[1], high);
    if (elements == 2) {
        by[0] = xy;
        by[1] = xy_high;
        return;
    }
    LLVMValueRef zu = pick(c, rows[2], rows[3], low), zu_high = pick(c, rows[2], rows[3], high);
    by[0] = pick(c, xy, zu, firsts);
    by[1] = pick(c, xy, zu, lasts);
    by[2] = pick(c, xy_high, zu_high, firsts);
    by[3] = pick(c, xy_high, zu_high, lasts);
}

LLVMValueRef vectors_of_lane(struct compiler *c, const struct lane_vectors *v, unsigned lane)
{
    const unsigned words = v->bytes / 4, within = lane % BLOCK * words; /* of the lanes of its block before it */
    if (v->size == 8)
        return pair_of(c, v->by, lane);
    return vector_part(c, v->by[within / BLOCK], lane / BLOCK * BLOCK + within % BLOCK, words);
}

void vectors_from_rows(struct compiler *c, const LLVMValueRef *rows, unsigned size, unsigned elements,
                       struct lane_vectors *v)
{
    v->size = size;
    v->bytes = size * elements;
    if (size == 4)
        rows_to_vectors(c, rows, elements, v->by);
    for (unsigned k = 0; size == 8 && k < elements; k++)
        v->by[k] = rows[k];
}

void vector_store(struct compiler *c, const struct exec_insn *i, const LLVMValueRef *half)
{
    const struct exec_vector *v = i->extra;
    const unsigned bytes = i->size * i->vector;
    LLVMValueRef rows[BLOCK], by[BLOCK];
    for (unsigned k = 0; k < i->vector; k++)
        rows[k] = row_read(c, v->from[k], i->size == 8 ? ROW_64 : ROW_32);
    for (unsigned l = 0; i->size == 8 && l < SG_LANES; l++)
        store_piece(c, pair_of(c, rows, l), lane_at(c, half, l, PIECE), PIECE);
    if (i->size == 8)
        return;
    rows_to_vectors(c, rows, i->vector, by);
    for (unsigned l = 0; l < SG_LANES; l += PIECE / bytes) /* a block of four lanes is as many vectors as elements */
        store_piece(c, vector_part(c, by[l % BLOCK * bytes / PIECE], l / BLOCK * BLOCK, BLOCK),
                    lane_at(c, half, l, bytes), bytes);
}
