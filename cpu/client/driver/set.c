/* set.c: memset, of chapter "Memory Management". */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

static int set(CUdeviceptr to, size_t pitch, uint32_t value, unsigned element, size_t width, size_t height,
               core_stream stream, bool blocking)
{
    core_context *context;
    size_t row;
    int error = driver_enter(&context);
    if (error || !width || !height)
        return error;
    if (__builtin_mul_overflow(width, (size_t)element, &row) || !to || to % element)
        return CUDA_ERROR_INVALID_VALUE;
    if (height > 1 && (pitch < row || pitch % element))
        return CUDA_ERROR_INVALID_VALUE;
    const struct core_box box = { to, height > 1 ? pitch : row, height };
    return issue_set(context, stream, &box, &(struct core_extent){ width, height, 1 }, value, element, blocking);
}

#define MEMSETS(bits, type)                                                                                         \
    CUresult driver_cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count, core_stream stream)              \
    {                                                                                                               \
        return driver_waited(set(to, 0, value, bits / 8, count, 1, stream, true));                                  \
    }                                                                                                               \
    CUresult driver_cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream)               \
    {                                                                                                               \
        return (CUresult)set(to, 0, value, bits / 8, count, 1, stream, false);                                      \
    }                                                                                                               \
    CUresult driver_cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,   \
                                           core_stream stream)                                                      \
    {                                                                                                               \
        return driver_waited(set(to, pitch, value, bits / 8, width, height, stream, true));                         \
    }                                                                                                               \
    CUresult driver_cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, \
                                             CUstream stream)                                                       \
    {                                                                                                               \
        return (CUresult)set(to, pitch, value, bits / 8, width, height, stream, false);                             \
    }

MEMSETS(8, unsigned char)
MEMSETS(16, unsigned short)
MEMSETS(32, unsigned)
