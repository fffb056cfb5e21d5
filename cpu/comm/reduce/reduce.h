/*
 * reduce.h: arithmetic of collectives on the CPU: 12 types and 6 operations, numbered as in nccl.h.
 *
 * Types of 16 and 8 bits are computed in float and rounded to nearest even after each step. Integers wrap. Minimum and
 * maximum of a number and a NaN are the number. Average adds, and divides at the end (comm_reduce_finish); for integers
 * that cuts off. Pre-multiplied sum multiplies each rank's input by a number of that rank's first
 * (comm_reduce_multiply), and then adds.
 */
#ifndef FLYT_COMM_REDUCE_REDUCE_H
#define FLYT_COMM_REDUCE_REDUCE_H

#include <stddef.h>
#include <stdint.h>

enum comm_type {
    COMM_INT8,
    COMM_UINT8,
    COMM_INT32,
    COMM_UINT32,
    COMM_INT64,
    COMM_UINT64,
    COMM_FLOAT16,
    COMM_FLOAT32,
    COMM_FLOAT64,
    COMM_BFLOAT16,
    COMM_FLOAT8_E4M3,
    COMM_FLOAT8_E5M2,
    COMM_TYPES
};
enum comm_operation {
    COMM_SUM,
    COMM_PRODUCT,
    COMM_MAXIMUM,
    COMM_MINIMUM,
    COMM_AVERAGE,
    COMM_MULTIPLIED_SUM,
    COMM_OPERATIONS
};

size_t comm_type_size(enum comm_type);
const char *comm_type_name(enum comm_type);
const char *comm_operation_name(enum comm_operation);

/* to[i] = a[i] op b[i]. `to` may be a or b. No alignment is needed. */
void comm_reduce(enum comm_type, enum comm_operation, void *to, const void *a, const void *b, size_t count);
/* After all ranks' values are in `to`. Does something for averages only. */
void comm_reduce_finish(enum comm_type, enum comm_operation, void *to, size_t count, unsigned ranks);
/* to[i] = factor * from[i]; factor is a value of the type. */
void comm_reduce_multiply(enum comm_type, void *to, const void *from, const void *factor, size_t count);

/* As float, and back, to nearest even; for tests too. 8 bits: in the lower half. */
float comm_small_to_float(enum comm_type, uint16_t bits);
uint16_t comm_small_from_float(enum comm_type, float);

#endif
