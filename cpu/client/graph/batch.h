/*
 * batch.h: many copies with one call (cudaMemcpyBatchAsync and cudaMemcpy3DBatchAsync, and the driver's), for both
 * front ends. NVIDIA's structures of both APIs have the same layout, which each front end asserts.
 *
 * All operations are checked before the first one is issued. They go into the stream one after the other, although CUDA
 * promises no order among them; in a captured stream each one becomes a node.
 */
#ifndef FLYT_CLIENT_BATCH_H
#define FLYT_CLIENT_BATCH_H

#include "cpu/client/core/core.h"

/* CUmemcpySrcAccessOrder */
enum batch_order { BATCH_STREAM_ORDER = 1, BATCH_DURING_CALL = 2, BATCH_ANY_ORDER = 3 };

/* As CUmemcpyAttributes. The hints about locations concern memory that Flyt reports no device can reach at once. */
struct batch_attributes {
    int order, from_hint[2], to_hint[2];
    unsigned flags;
};

struct batch {
    const uint64_t *to, *from;
    const size_t *sizes;
    size_t count;
    const struct batch_attributes *attributes;
    const size_t *firsts; /* attributes[k] is about the copies from firsts[k] on */
    size_t attribute_count;
};

/* As CUDA_MEMCPY3D_BATCH_OP. Everything of an operation with a pointer on both sides counts bytes; else elements of the
   arrays. */
struct batch_operand {
    int type; /* 1: memory; 2: array */
    union {
        struct { uint64_t address; size_t row, rows; int hint[2]; } memory; /* row, rows 0: as the extent */
        struct { core_array array; size_t at[3]; } array;
    };
};
struct batch_box {
    struct batch_operand from, to;
    size_t extent[3];
    int order;
    unsigned flags;
};

/* A result code. *failed (may be NULL): the operation that the error is about; SIZE_MAX: none, or no error. The legacy
   default stream is refused (1), as NVIDIA documents. Operations before one that fails when it is issued remain. */
CORE_API int issue_batch(core_context *, core_stream, const struct batch *, size_t *failed);
CORE_API int issue_batch_boxes(core_context *, core_stream, const struct batch_box *, size_t count, size_t *failed);

#endif
