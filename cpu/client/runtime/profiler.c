/* profiler.c: chapter "Profiler Control". Without a profiler attached these do nothing natively either. */
#include "cpu/client/runtime/runtime.h"

static int control(void) {
    int device;
    return runtime_enter(&device);
}

RUNTIME_API int cudaProfilerStart(void) { return runtime_local(control()); }
RUNTIME_API int cudaProfilerStop(void) { return runtime_local(control()); }
