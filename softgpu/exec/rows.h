/*
 * rows.h: functions on whole rows of registers and on matrices, which are compiled once per level of the processor.
 *
 * A row is a register of all 32 lanes, one cell behind the other. `mask`: a bit for each lane that is active.
 */
#ifndef SOFTGPU_EXEC_ROWS_H
#define SOFTGPU_EXEC_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* first: of lane 0, if contiguous, else of the first active one; all: every bit set in one; spread: in which they
   differ; most: the largest, of local and shared only. */
struct exec_shape { uint64_t first, all, spread, most; bool contiguous; };
/* Vectors that row functions know: elements of that many bits by their number. */
enum exec_vector_shape { EXEC_VECTOR_32X2, EXEC_VECTOR_32X4, EXEC_VECTOR_64X2, EXEC_VECTOR_OTHER };
/*
 * How products of matrices are added up. kept: 0: one after the other, in f32. Else as the tensor cores of an H200 do:
 * of each product and of c the bits below 2^(e - kept) are cut off, where e is the highest exponent among them (of a
 * product: the sum of its factors'), the sum of these is exact, and becomes an f32 by cutting, or, where odd is set,
 * with the last bit set if something was lost, so that it can be rounded once more. least: the exponent of subnormal
 * factors. step: products of so many k at a time. sparse: what is 0 in A is not there.
 * coarse: the result, too, keeps `kept` bits only.
 */
struct exec_accumulation { unsigned kept, step; int least; bool odd, sparse, coarse; };

/* Numbers that row functions widen to f32. */
enum exec_small {
    EXEC_SMALL_F16, EXEC_SMALL_BF16, EXEC_SMALL_TF32, EXEC_SMALL_F32, EXEC_SMALL_E4M3, EXEC_SMALL_E5M2, EXEC_SMALL_E3M2,
    EXEC_SMALL_E2M3, EXEC_SMALL_E2M1, EXEC_SMALL_COUNT
};
/* products.c, compiled once per level of the processor. Lines: the 16 bytes of four lanes in a row of registers. */
struct exec_product_functions {
    /* c[m][n] += a[m][k] * b[k][n]; m, n: multiples of 8 */
    void (*add)(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k, struct exec_accumulation);
    /* A row's eight lines of numbers, as f32, `stride` of them apart. NULL: not of these numbers. */
    void (*widen_lines[EXEC_SMALL_COUNT])(float *d, const void *row, unsigned stride);
    /* Eight lines of f32, of eight numbers each, as f16. */
    void (*narrow_lines)(void *row, const float *from);
    /* Eight lines of eight numbers from and to two rows whose numbers alternate. */
    void (*mix_lines)(float *d, const void *even, const void *odd);
    void (*part_lines)(void *even, void *odd, const float *from);
    /* to[k][8] = from[8][k]; k: a multiple of 4 */
    void (*turn)(float *to, const float *from, unsigned k);
};
/* rows.c, compiled once per level of the processor */
struct exec_row_functions {
    void (*blend32)(uint32_t *d, const uint32_t *from, uint32_t mask);
    void (*blend64)(uint64_t *d, const uint64_t *from, uint32_t mask);
    void (*fill32)(uint32_t *d, uint32_t value);
    void (*fill64)(uint64_t *d, uint64_t value);
    void (*copy32)(uint32_t *d, const uint32_t *from);
    void (*copy64)(uint64_t *d, const uint64_t *from);
    void (*add64)(uint64_t *d, const uint64_t *a, uint64_t b);
    void (*widen)(uint64_t *d, const uint32_t *from);
    /* Describes the addresses a[l] + offset of the active lanes l. */
    void (*shape)(const uint64_t *a, uint64_t offset, uint32_t mask, uint64_t stride, struct exec_shape *);
    /* Addresses of exec_local for offsets a[l] + offset of 32 bits; the largest and the union of the active ones. */
    void (*local)(uint64_t *at, const uint64_t *a, uint64_t offset, uint64_t base, uint32_t mask, struct exec_shape *);
    /* Shared memory: [0] rows of 32-bit, [1] of 64-bit cells. */
    void (*shared[2])(uint64_t *at, const void *a, uint32_t offset, uint64_t base, uint32_t mask, uint32_t stride,
                      struct exec_shape *);
    void (*split16)(uint32_t *low, uint32_t *high, const uint32_t *from);
    void (*split32)(uint32_t *low, uint32_t *high, const uint64_t *from);
    void (*join16)(uint32_t *to, const uint32_t *low, const uint32_t *high);
    void (*join32)(uint64_t *to, const uint32_t *low, const uint32_t *high);
    /* Contiguous memory from and to rows: [log2 of the size]. */
    void (*load[4])(void *d, const void *from);
    void (*load_signed[4])(void *d, const void *from);      /* to 32 bits; sign-extended */
    void (*store[4])(void *to, const void *row);
    void (*store_some[4])(void *to, const void *row, uint32_t mask);
    /* Contiguous vectors of 32 lanes from and to the rows of their elements: [enum exec_vector_shape]. All lanes. */
    void (*load_vector[3])(void *const *d, const void *from);
    void (*store_vector[3])(void *to, const void *const *rows);
    /* Lanes at any addresses. */
    void (*gather32)(uint32_t *d, const uint64_t *at);
    void (*gather64)(uint64_t *d, const uint64_t *at);
    uint32_t (*shuffle[4])(uint32_t *d, const uint32_t *a, const uint32_t *b,
                           const uint32_t *c); /* up, down, bfly, idx */
    uint32_t (*differ)(const uint32_t *row, uint32_t value, uint32_t mask);
    /* The number that begins at bit `shift` of each lane's word. */
    void (*from_small[EXEC_SMALL_COUNT])(float *d, const uint32_t *row, unsigned shift);
    const struct exec_product_functions *products;
};

#endif
