/*
 * matrix.h: matrices that a warp holds together, for op_matrix.c (products) and op_tile.c (loads and stores).
 *
 * Which element of a matrix lies in which lane, register and part of it is a table made when the instruction is
 * decoded: for mma as the PTX ISA draws it, for wmma (whose layout no program may know) in order.
 */
#ifndef SOFTGPU_EXEC_MATRIX_H
#define SOFTGPU_EXEC_MATRIX_H

#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

enum exec_element {
    E_NONE,
    E_F16,
    E_BF16,
    E_TF32,
    E_F32,
    E_F64,
    E_S8,
    E_U8,
    E_S4,
    E_U4,
    E_B1,
    E_S32,
    E_E4M3,
    E_E5M2,
    E_E3M2,
    E_E2M3,
    E_E2M1,        /* a byte each, as .kind::f8f6f4 has them */
    E_E2M1_PACKED, /* two in a byte: .kind::mxf4 */
    E_COUNT
};
struct exec_element_traits {
    const char *name;
    uint8_t bits, integer;
};
extern const struct exec_element_traits exec_elements[E_COUNT];
enum { EXEC_MATRIX_REGISTERS = 8, EXEC_MATRIX_INNER = 256 };

/* One operand: `count` registers a lane; place[n * SG_LANES + lane] is where its n-th element goes in the matrix. */
struct exec_part {
    enum exec_element type;
    uint8_t count, wide; /* wide: registers of 64 bits */
    uint32_t per_lane;
    char lines;    /* 'a', 'b', 'c': mma's own way, and each 16 bytes of a register's row are of one row of A or C, or
                      of one column of B; 0: not so */
    uint8_t halves; /* of A: registers that lie below each other */
    uint16_t width; /* columns of A and C; rows of B */
    exec_source from[EXEC_MATRIX_REGISTERS];
    uint32_t to[EXEC_MATRIX_REGISTERS];
    uint16_t *place;
};

/* How a fragment is laid out: wmma's own way, mma's, and mma.m8n8k4 of f16, whose quarters of a warp hold a matrix
   each. */
enum exec_layout { EXEC_LAYOUT_WMMA, EXEC_LAYOUT_MMA, EXEC_LAYOUT_QUARTERS };
/* A fragment of a matrix of `rows` by `columns`. which: 'a', 'b' or 'c' (and d). by_column: only quarters ask. */
struct exec_fragment {
    char which;
    enum exec_layout layout;
    bool by_column;
    unsigned rows, columns;
};

/* Which elements of a sparse matrix A of `k` columns are there. chunk: elements that four bits of metadata are about,
   0: it is not sparse; bits: of an element; selector: which lanes have the metadata. */
struct exec_sparse {
    unsigned k, chunk, bits, selector;
    exec_source metadata;
};
/* The column of A that the stored element of that row is. */
unsigned exec_sparse_column(const struct exec_warp *, const struct exec_sparse *, unsigned row, unsigned stored);
int decode_sparse(struct exec_decoder *, struct exec_sparse *, enum exec_element, const struct ptx_operand *metadata,
                  const struct ptx_operand *selector);

/* How row functions and the executor read a number. */
enum exec_small exec_small_of(enum exec_element);
static inline int32_t exec_integer_of(enum exec_element t, uint32_t bits)
{
    return t == E_S8 ? (int8_t)bits : t == E_S4 ? (int32_t)(bits << 28) >> 28 : (int32_t)bits;
}

/* Element n of a lane. */
static inline uint64_t exec_part_bits(const struct exec_warp *w, const struct exec_part *p, unsigned lane, unsigned n)
{
    unsigned bits = exec_elements[p->type].bits;
    if (p->wide)
        return ((const uint64_t *)exec_row(w, p->from[n]))[lane];
    unsigned per = 32 / bits;
    uint32_t word = ((const uint32_t *)exec_row(w, p->from[n / per]))[lane];
    return bits == 32 ? word : (word >> (n % per * bits)) & ((1u << bits) - 1);
}

/* The elements of a word are written from the lowest on. */
static inline void exec_part_put(struct exec_warp *w, const struct exec_part *p, unsigned lane, unsigned n,
                                 uint64_t value)
{
    unsigned bits = exec_elements[p->type].bits;
    if (p->wide) {
        ((uint64_t *)(void *)(w->rows + p->to[n]))[lane] = value;
        return;
    }
    unsigned per = 32 / bits;
    uint32_t *word = (uint32_t *)(void *)(w->rows + p->to[n / per]) + lane;
    *word = bits == 32 ? (uint32_t)value : n % per ? *word | (uint32_t)value << (n % per * bits) : (uint32_t)value;
}

/* Whole warps only: what .aligned asks for. Lanes in other frames cannot be brought together. false: it has failed. */
bool exec_matrix_whole(struct exec_warp *, const struct exec_insn *);

/* Decoding. shape: from a modifier such as m16n8k16. types: fills up to four, returns how many there are. */
bool decode_matrix_shape(const struct exec_decoder *, unsigned *m, unsigned *n, unsigned *k);
unsigned decode_matrix_types(const struct exec_decoder *, enum exec_element types[4]);
int decode_part(struct exec_decoder *, struct exec_part *, const struct exec_fragment *, enum exec_element,
                const struct ptx_operand *, bool destination);
/* Notes for compilers which rows an operand is in. */
void decode_matrix_reads(struct exec_matrix_rows *, const struct exec_part *);
void decode_matrix_writes(struct exec_matrix_rows *, const struct exec_part *);
void decode_matrix_source(struct exec_matrix_rows *, exec_source);
/* Lanes come together before it. What is no insn of EXEC_STRAIGHT_MATRIX is left to the interpreter. */
int decode_put_whole(struct exec_decoder *, struct exec_insn);

/* op_matrix.c: wmma.mma */
int decode_wmma_multiply(struct exec_decoder *);

#endif
