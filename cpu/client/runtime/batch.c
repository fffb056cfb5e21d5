/* batch.c: batched copies, of chapter "Memory Management". */
#include "cpu/client/graph/batch.h"

#include <stddef.h>

#include "cpu/client/runtime/runtime.h"

#if FLYT_CUDART >= 12
#define SAME(a, b) _Static_assert(a == b, "the layouts of NVIDIA's structure and ours differ")
SAME(sizeof(struct batch_attributes), sizeof(cudaMemcpyAttributes));
SAME(offsetof(struct batch_attributes, flags), offsetof(cudaMemcpyAttributes, flags));
SAME(sizeof(struct batch_operand), sizeof(cudaMemcpy3DOperand));
SAME(offsetof(struct batch_operand, memory.rows), offsetof(cudaMemcpy3DOperand, op.ptr.layerHeight));
SAME(offsetof(struct batch_operand, array.at), offsetof(cudaMemcpy3DOperand, op.array.offset));
SAME(sizeof(struct batch_box), sizeof(cudaMemcpy3DBatchOp));
SAME(offsetof(struct batch_box, to), offsetof(cudaMemcpy3DBatchOp, dst));
SAME(offsetof(struct batch_box, extent), offsetof(cudaMemcpy3DBatchOp, extent));
SAME(offsetof(struct batch_box, flags), offsetof(cudaMemcpy3DBatchOp, flags));

static cudaError_t lines(const void *to, const void *from, const size_t *sizes, size_t count,
                         const cudaMemcpyAttributes *attributes, const size_t *firsts, size_t attribute_count,
                         size_t *failed, cudaStream_t stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    const struct batch batch = { to, from, sizes, count, (const struct batch_attributes *)attributes, firsts,
                                 attribute_count };
    return runtime_return(error ? error : issue_batch(context, stream, &batch, failed));
}

static cudaError_t boxes(size_t count, const cudaMemcpy3DBatchOp *list, size_t *failed, unsigned long long flags,
                         cudaStream_t stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && flags)
        error = cudaErrorInvalidValue;
    if (!error)
        error = issue_batch_boxes(context, stream, (const struct batch_box *)list, count, failed);
    return runtime_return(error);
}

#if FLYT_CUDART == 12
cudaError_t runtime_cudaMemcpyBatchAsync(void **to, void **from, size_t *sizes, size_t count,
                                         cudaMemcpyAttributes *attributes, size_t *firsts, size_t attribute_count,
                                         size_t *failed, cudaStream_t stream)
{
    return lines(to, from, sizes, count, attributes, firsts, attribute_count, failed, stream);
}

cudaError_t runtime_cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp *list, size_t *failed,
                                           unsigned long long flags, cudaStream_t stream)
{
    return boxes(count, list, failed, flags, stream);
}
#else
cudaError_t runtime_cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                                         cudaMemcpyAttributes *attributes, size_t *firsts, size_t attribute_count,
                                         cudaStream_t stream)
{
    return lines(to, from, sizes, count, attributes, firsts, attribute_count, NULL, stream);
}

cudaError_t runtime_cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp *list, unsigned long long flags,
                                           cudaStream_t stream)
{
    return boxes(count, list, NULL, flags, stream);
}
#endif
#endif
