/* set.c: memset in all its forms. Asynchronous to the caller, also without Async in the name, as on device memory
   natively. */
#include "softgpu/driver/calls/calls.h"

static CUresult set(uint64_t at, size_t pitch, uint32_t value, unsigned element, size_t width, size_t height,
                    CUstream stream)
{
    struct sgd_context *c;
    struct sgd_stream *s;
    size_t row, size;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_stream_find(stream, c, &s);
    if (!r && (at % element || (height > 1 && pitch % element) || __builtin_mul_overflow(width, (size_t)element, &row)
               || (height > 1 && pitch < row) || __builtin_mul_overflow(pitch, height ? height - 1 : 0, &size)
               || __builtin_add_overflow(size, row, &size)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r || !width || !height) {
        sgd_leave();
        return r;
    }
    struct sgd_op *op = NULL;
    if (!sgd_memory_covers(at, size, SG_WRITE))
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!(op = sgd_op_new(SGD_OP_SET)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) {
        op->set.address = at;
        op->set.pitch = pitch;
        op->set.width = width;
        op->set.rows = height;
        op->set.element = element;
        op->set.value = value;
        r = sgd_queue_push(s, op, NULL);
    }
    sgd_leave();
    return r;
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char v, size_t n, CUstream s) { return set(at, 0, v, 1, n, 1, s); }
CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short v, size_t n, CUstream s) { return set(at, 0, v, 2, n, 1, s); }
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned v, size_t n, CUstream s) { return set(at, 0, v, 4, n, 1, s); }
CUresult cuMemsetD8_v2(CUdeviceptr at, unsigned char v, size_t n) { return set(at, 0, v, 1, n, 1, NULL); }
CUresult cuMemsetD16_v2(CUdeviceptr at, unsigned short v, size_t n) { return set(at, 0, v, 2, n, 1, NULL); }
CUresult cuMemsetD32_v2(CUdeviceptr at, unsigned v, size_t n) { return set(at, 0, v, 4, n, 1, NULL); }

CUresult cuMemsetD2D8Async(CUdeviceptr at, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s)
{
    return set(at, pitch, v, 1, width, height, s);
}

CUresult cuMemsetD2D16Async(CUdeviceptr at, size_t pitch, unsigned short v, size_t width, size_t height, CUstream s)
{
    return set(at, pitch, v, 2, width, height, s);
}

CUresult cuMemsetD2D32Async(CUdeviceptr at, size_t pitch, unsigned v, size_t width, size_t height, CUstream s)
{
    return set(at, pitch, v, 4, width, height, s);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr at, size_t pitch, unsigned char v, size_t width, size_t height)
{
    return set(at, pitch, v, 1, width, height, NULL);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr at, size_t pitch, unsigned short v, size_t width, size_t height)
{
    return set(at, pitch, v, 2, width, height, NULL);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr at, size_t pitch, unsigned v, size_t width, size_t height)
{
    return set(at, pitch, v, 4, width, height, NULL);
}
