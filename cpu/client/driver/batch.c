/* batch.c: batched copies, of chapter "Memory Management". */
#include "cpu/client/graph/batch.h"

#include <stddef.h>

#include "cpu/client/driver/driver.h"

#define SAME(a, b) _Static_assert(a == b, "the layouts of NVIDIA's structure and ours differ")
SAME(sizeof(struct batch_attributes), sizeof(CUmemcpyAttributes));
SAME(offsetof(struct batch_attributes, flags), offsetof(CUmemcpyAttributes, flags));
SAME(sizeof(struct batch_operand), sizeof(CUmemcpy3DOperand));
SAME(offsetof(struct batch_operand, memory.rows), offsetof(CUmemcpy3DOperand, op.ptr.layerHeight));
SAME(offsetof(struct batch_operand, array.at), offsetof(CUmemcpy3DOperand, op.array.offset));
SAME(sizeof(struct batch_box), sizeof(CUDA_MEMCPY3D_BATCH_OP));
SAME(offsetof(struct batch_box, to), offsetof(CUDA_MEMCPY3D_BATCH_OP, dst));
SAME(offsetof(struct batch_box, extent), offsetof(CUDA_MEMCPY3D_BATCH_OP, extent));
SAME(offsetof(struct batch_box, flags), offsetof(CUDA_MEMCPY3D_BATCH_OP, flags));

static int lines(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
                 size_t *firsts, size_t attribute_count, size_t *failed, CUstream stream)
{
    core_context *context;
    int error = driver_enter(&context);
    const struct batch batch = { to, from, sizes, count, (const struct batch_attributes *)attributes, firsts,
                                 attribute_count };
    return error ? error : issue_batch(context, stream, &batch, failed);
}

static int boxes(size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags, CUstream stream)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && flags)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : issue_batch_boxes(context, stream, (const struct batch_box *)list, count, failed);
}

CUresult driver_cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                                      CUmemcpyAttributes *attributes, size_t *firsts, size_t attribute_count,
                                      CUstream stream)
{
    return (CUresult)lines(to, from, sizes, count, attributes, firsts, attribute_count, NULL, stream);
}

CUresult driver_cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                                   CUmemcpyAttributes *attributes, size_t *firsts, size_t attribute_count,
                                   size_t *failed, CUstream stream)
{
    return (CUresult)lines(to, from, sizes, count, attributes, firsts, attribute_count, failed, stream);
}

CUresult driver_cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags,
                                        CUstream stream)
{
    return (CUresult)boxes(count, list, NULL, flags, stream);
}

CUresult driver_cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                                     unsigned long long flags, CUstream stream)
{
    return (CUresult)boxes(count, list, failed, flags, stream);
}
