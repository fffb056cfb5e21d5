/* profiler.c: chapter "Profiler Control". Without a profiler attached these do nothing natively either. */
#include "cpu/client/runtime/runtime.h"

static int control(void)
{
    core_context *context;
    return runtime_enter(&context);
}

cudaError_t runtime_cudaProfilerStart(void) { return runtime_local(control()); }
cudaError_t runtime_cudaProfilerStop(void) { return runtime_local(control()); }

#if FLYT_CUDART <= 11
/* Since CUDA 12 that is the driver's answer to everybody. */
cudaError_t runtime_cudaProfilerInitialize(const char *configuration, const char *output, cudaOutputMode_t mode)
{
    (void)configuration, (void)output, (void)mode;
    return runtime_local(cudaErrorNotSupported);
}
#endif
