/* profiler.c: chapter "Profiler Control". Without a profiler attached these do nothing natively either. */
#include "cpu/client/runtime/runtime.h"

static int control(void)
{
    core_context *context;
    return runtime_enter(&context);
}

cudaError_t runtime_cudaProfilerStart(void) { return runtime_local(control()); }
cudaError_t runtime_cudaProfilerStop(void) { return runtime_local(control()); }
