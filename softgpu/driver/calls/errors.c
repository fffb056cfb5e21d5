/* errors.c: names and texts of CUresult values. CUDA reference: Error Handling. */
#include "softgpu/driver/calls/calls.h"
#include "cpu/common/driver_names.h"

CUresult cuGetErrorName(CUresult code, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = driver_error_name((int)code);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = driver_error_text((int)code);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
